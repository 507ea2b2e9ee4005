/* What the slot GD_LINALG is asked for, in gd_call.op.
 *
 * A matrix is the last two axes of a view, a vector its last axis; the axes before them are a
 * batch, and all views of a call have the same ones. Matrices are (m, n) with k = min(m, n), or (n,
 * n). The dtype is f32, f64, c64 or c128; "real" is the dtype of its parts. `info`, an i64 view
 * over the batch, says 0 for a matrix that was factored and else what failed; what the other
 * outputs hold of such a matrix is undefined. Of a matrix A with NaN or infinity they hold NaN, and
 * info is -1; no call loops for ever. Right-hand sides, GD_SOLVE_TRIANGULAR and GD_FORMULA follow
 * IEEE arithmetic. Outputs overlap nothing. Results do not depend on the thread count.
 */
#ifndef GRADUS_LINALG_H
#define GRADUS_LINALG_H

typedef enum gd_linalg {
  /* A = L L^H, L lower with a positive diagonal. in = {A (n, n)}, read as (A + A^H) / 2; out = {L
   * (n, n), info}. info = the first pivot, counted from 1, that is not positive. */
  GD_CHOLESKY = 0,
  /* A[rows] = L U by partial pivoting. in = {A (m, n)}; out = {LU (m, n): U in the upper triangle,
   * L without its unit diagonal below it; rows (m) i64; info}. info = the first pivot that is 0;
   * the factors are whole all the same. */
  GD_LU,
  /* A X = B, or with ints = {1} A^T X = B, {2} A^H X = B, by LU. in = {A (n, n), B (n, r)}; out =
   * {X (n, r), info}, info as of GD_LU. */
  GD_SOLVE,
  /* in = {A (n, n)}; out = {det, sign, log |det|} over the batch, each may be NULL; the last is
   * real. A singular matrix has det 0, sign 0 and -inf. An empty one 1, 1, 0. */
  GD_DET,
  /* op(A) X = B with a triangular A, of which nothing else is read. ints = {1: upper, 1: the
   * diagonal counts as ones, 0: op(A) = A, 1: A^T, 2: A^H}. in = {A (n, n), B (n, r)}; out = {X}.
   * A zero on the diagonal gives what division by it gives. */
  GD_SOLVE_TRIANGULAR,
  /* A = Q R by Householder reflections, R upper with a real diagonal. in = {A (m, n)}; out = {Q (m,
   * q), R (q, n)} with q = k or m; either may be NULL. ints = {1: the diagonal of R is not
   * negative}; else its signs are LAPACK's. */
  GD_QR,
  /* A = V diag(w) V^H of a Hermitian A, read as (A + A^H) / 2; w ascends. in = {A};
   * out = {w (n) real, V (n, n) or NULL, info}. Of each column of V the largest entry (the first of
   * those that are equal but for rounding) is real and positive. info = 1: no convergence. */
  GD_EIGH,
  /* A = U diag(s) Vh; s descends and is not negative. in = {A (m, n)}; out = {U (m, u) or NULL, s
   * (k) real, Vh (v, n) or NULL, info}, u and v both k, or m and n. The largest entry of each
   * column of U is real and positive, and so is that of each row of Vh beyond k. info as of
   * GD_EIGH. */
  GD_SVD,
  /* A V = V diag(w), columns of norm 1, the largest entry of each real and positive. in = {A (n,
   * n)}; out = {w (n), V (n, n) or NULL, info}, w and V complex; w in ascending order of their
   * real, then their imaginary parts. info as of GD_EIGH. */
  GD_EIG,
  /* A formula of small matrices in one pass, real dtypes alone. in = {up to 8 matrices, or vectors,
   * which have an axis less than out and count as (1, n); all of out's dtype but those that
   * GD_STEP_ROWS_BACK reads, which are i64}; out = {what the last step gives}. ints = {steps}, at
   * most GD_MOST_STEPS, each code | a << 8 | b << 16 | flags << 24, with a gd_step and the numbers
   * of two values: those of the inputs, then of the steps in their order. Devices whose memory is
   * the host's have it if they have the slot; others need not. */
  GD_FORMULA,
  GD_LINALG_COUNT
} gd_linalg;

enum { GD_MOST_STEPS = 40 };

/* What a step makes of the values a and b. Some have only a. What reciprocals divide by counts as
 * 0, and gives 0, if it is at most 16 max(n, 8) eps times the largest |a_i|. */
typedef enum gd_step {
  GD_STEP_PRODUCT = 0,     /* a b; flags as bits: 1 a^T, 2 b^T, 4 - a b */
  GD_STEP_DIVIDED,         /* X of op(a) X = b with a triangular a, which may have more rows below
                            * that; flags as bits: 1 upper, 2 the diagonal counts as ones, 4 op(a)
                            * = a^T */
  GD_STEP_TURNED,          /* a^T */
  GD_STEP_SUM,             /* a + b */
  GD_STEP_DIFFERENCE,      /* a - b */
  GD_STEP_TIMES,           /* entry by entry; where b is (1, n), each row of a times b */
  GD_STEP_NEGATIVE,        /* -a */
  GD_STEP_HALF,            /* a / 2 */
  GD_STEP_LOWER,           /* what of a is on and below the diagonal; flags 1: below it alone */
  GD_STEP_UPPER,           /* what of a is on and above the diagonal */
  GD_STEP_HALF_LOWER,      /* GD_STEP_LOWER with its diagonal halved */
  GD_STEP_BELOW,           /* a below the diagonal, b on and above it */
  GD_STEP_WITH_DIAGONAL,   /* a with b (1, n) added to its diagonal */
  GD_STEP_RECIPROCAL_GAPS, /* of a (1, n): 1 / (a_j - a_i) */
  GD_STEP_RECIPROCAL_SUMS, /* of a (1, n): 1 / (a_i + a_j) */
  GD_STEP_RECIPROCALS,     /* of a (1, n): 1 / a_j */
  GD_STEP_ROWS_BACK,       /* row b_i becomes row i of a; the last row of b has m numbers: of an
                            * input, or of what GD_STEP_LU gives. A place outside of it is left out,
                            * a row that none names is 0 */
  GD_STEP_LU,              /* of a (n, n): (n + 1, n), its LU as GD_LU's, and the order of its rows
                            * as the last one */
  GD_STEP_COUNT
} gd_step;

#endif
