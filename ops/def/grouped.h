/* What the slot GD_GROUPED is asked for, in gd_call.op: work over blocks of whole buffers.
 *
 * All views have one axis, stride 1 and one dtype; out overlaps no input. Every element of out that
 * a job names is written; others stay. Offsets and strides count elements, strides are not
 * negative; what leaves a buffer is GD_INVALID. Bits never depend on threads.
 *
 * products: in = {a, b}, ints = {conj_a, conj_b, then gd_block_product after gd_block_product}.
 * Jobs of one block of out follow one another and are summed in this order; blocks of out do not
 * overlap. The order of a product's sum follows from its sizes alone, as in GD_CONTRACT.
 *
 * copies: in = {a}, ints = {add, rank, then for each block {sign, offset in a, offset in out, rank
 * sizes, rank strides in a, rank strides in out}}: out[..] = sign * a[..], sign 1, -1, or 0 (zeros,
 * a is not read). With add = 1, out[..] += sign * a[..] in the order of blocks and elements, and
 * strides in out may be 0. Without add no element of out is named twice.
 */
#ifndef GRADUS_GROUPED_H
#define GRADUS_GROUPED_H

#include <stdint.h>

typedef enum gd_grouped { GD_BLOCK_PRODUCTS = 0, GD_BLOCK_COPIES } gd_grouped;
/* c[i, m, n] = (first) or += sign * SUM_k a[i, m, k] * b[i, k, n], i of a batch. k may be 0.
 * Strides of c are above 0 where its size is above 1. */
typedef struct gd_block_product {
  int64_t first, sign; /* first: 1 in the first job of a block of c, else 0; sign: 1 or -1 */
  int64_t batch, m, n, k;
  int64_t a, a_batch, a_m, a_k;
  int64_t b, b_batch, b_k, b_n;
  int64_t c, c_batch, c_m, c_n;
} gd_block_product;

#endif
