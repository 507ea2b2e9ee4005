// Cholesky, LU, and what follows from them: triangular systems, linear systems, determinants.
// LU and triangular systems halve the matrix until it is small: nearly all work is products.
#pragma once
#include "kernels/linalg/divisor.hpp"
#include "kernels/linalg/scratch.hpp"

namespace gradus::inline v1::linalg {

// The lower triangle of a becomes L with a = L L^H, row by row; the rest is not touched. Gives 0,
// or the first pivot, counted from 1, that is not positive. The rows that make it are whole then.
template <class T>
int64_t cholesky(Matrix<T> a, Scratch& scratch) {
  const int64_t n = a.rows;
  const Matrix<T> conj = is_complex_v<T> ? scratch.matrix<T>(n, n) : a;  // of L
  for (int64_t i = 0; i < n; ++i) {
    T* const row = a[i];
    for (int64_t j = 0; j < i; ++j) {
      row[j] = over(row[j] - dot(j, row, conj[j]), real_part(a(j, j)));
      if constexpr (is_complex_v<T>) conj(i, j) = conj_of(row[j]);
    }
    const auto pivot = real_part(row[i]) - real_part(dot(i, row, conj[i]));
    if (!(pivot > 0)) return i + 1;
    row[i] = T(std::sqrt(pivot));
  }
  return 0;
}

// ---- triangular systems

enum class Diagonal { kStored, kOnes };

namespace detail {
constexpr int64_t kSmall = 16;  // a matrix that is not halved any more
inline int64_t half(int64_t n) { return n / 2 > kSmall ? n / 2 / kSmall * kSmall : n / 2; }
}  // namespace detail

// b = a^-1 b of a lower triangular a.
template <class T>
void solve_lower(Factor<T> a, Diagonal diagonal, Matrix<T> b) {
  const int64_t n = b.rows;
  if (n > detail::kSmall) {
    const int64_t h = detail::half(n), rest = n - h;
    const Matrix<T> top = b.block(0, 0, h, b.cols), bottom = b.block(h, 0, rest, b.cols);
    solve_lower(a.block(0, 0, h, h), diagonal, top);
    subtract_product(bottom, a.block(h, 0, rest, h), top);
    solve_lower(a.block(h, h, rest, rest), diagonal, bottom);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < i; ++k) add_multiple(b.cols, -a(i, k), b[k], b[i]);
    if (diagonal == Diagonal::kOnes) continue;
    const Divisor<T> divided(a(i, i));
    for (int64_t j = 0; j < b.cols; ++j) b(i, j) = divided(b(i, j));
  }
}

// b = a^-1 b of an upper triangular a.
template <class T>
void solve_upper(Factor<T> a, Diagonal diagonal, Matrix<T> b) {
  const int64_t n = b.rows;
  if (n > detail::kSmall) {
    const int64_t h = detail::half(n), rest = n - h;
    const Matrix<T> top = b.block(0, 0, h, b.cols), bottom = b.block(h, 0, rest, b.cols);
    solve_upper(a.block(h, h, rest, rest), diagonal, bottom);
    subtract_product(top, a.block(0, h, h, rest), bottom);
    solve_upper(a.block(0, 0, h, h), diagonal, top);
    return;
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    for (int64_t k = i + 1; k < n; ++k) add_multiple(b.cols, -a(i, k), b[k], b[i]);
    if (diagonal == Diagonal::kOnes) continue;
    const Divisor<T> divided(a(i, i));
    for (int64_t j = 0; j < b.cols; ++j) b(i, j) = divided(b(i, j));
  }
}

// ---- LU

namespace detail {

template <class T>
void swap_rows(Matrix<T> a, int64_t i, int64_t j) {
  if (i != j) std::swap_ranges(a[i], a[i] + a.cols, a[j]);
}

// Eliminates columns [first, first + count) of a below the diagonal, whole rows changing places.
template <class T>
void lu_columns(Matrix<T> a, int64_t first, int64_t count, int64_t* rows, int64_t& zero_pivot) {
  const int64_t m = a.rows, end = first + count;
  if (first >= m) return;
  if (count > kSmall) {
    const int64_t h = half(count), middle = first + h, steps = std::min(middle, m);
    lu_columns(a, first, h, rows, zero_pivot);
    const Matrix<T> right = a.block(first, middle, steps - first, count - h);
    solve_lower(plain(a.block(first, first, steps - first, steps - first)), Diagonal::kOnes, right);
    if (middle >= m) return;
    subtract_product(a.block(middle, middle, m - middle, count - h),
                     plain(a.block(middle, first, m - middle, h)), right);
    lu_columns(a, middle, count - h, rows, zero_pivot);
    return;
  }
  for (int64_t k = first; k < std::min(end, m); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < m; ++i)
      if (size_of(a(i, k)) > size_of(a(best, k))) best = i;
    swap_rows(a, k, best);
    std::swap(rows[k], rows[best]);
    const T pivot = a(k, k);
    if (pivot == T(0)) {
      if (zero_pivot == 0) zero_pivot = k + 1;
      continue;  // there are zeros below it
    }
    for (int64_t i = k + 1; i < m; ++i) {
      const T by = a(i, k) / pivot;
      a(i, k) = by;
      if (by != T(0)) add_multiple(end - k - 1, -by, a[k] + k + 1, a[i] + k + 1);
    }
  }
}

}  // namespace detail

// a becomes its LU, rows the order of its rows in it. Gives 0, or the first pivot that is 0.
template <class T>
int64_t lu(Matrix<T> a, int64_t* rows) {
  for (int64_t i = 0; i < a.rows; ++i) rows[i] = i;
  int64_t zero_pivot = 0;
  detail::lu_columns(a, 0, a.cols, rows, zero_pivot);
  return zero_pivot;
}

// x = op(a)^-1 b of factors that have no zero pivot. transposed: 0 a, 1 a^T, 2 a^H. b is lost.
template <class T>
void solve_lu(Matrix<T> a, const int64_t* rows, int transposed, Matrix<T> b, Matrix<T> x) {
  const int64_t n = a.rows;
  if (transposed == 0) {
    for (int64_t i = 0; i < n; ++i) std::copy_n(b[rows[i]], b.cols, x[i]);
    solve_lower(plain(a), Diagonal::kOnes, x);
    solve_upper(plain(a), Diagonal::kStored, x);
    return;
  }
  const Factor<T> turned = transposed == 1 ? transpose(a) : adjoint(a);
  solve_lower(turned, Diagonal::kStored, b);
  solve_upper(turned, Diagonal::kOnes, b);
  for (int64_t i = 0; i < n; ++i) std::copy_n(b[i], b.cols, x[rows[i]]);
}

// ---- determinants

template <class T>
struct Determinant {
  T value, sign;
  real_of<T> log_size;
};

// Of LU and its rows, which are lost. The product is kept as a number near 1 and an exponent.
template <class T>
Determinant<T> determinant(Strided<T> lu, int64_t* rows) {
  using R = real_of<T>;
  T product = T(1);
  int64_t exponent = 0;
  for (int64_t i = 0; i < lu.rows; ++i) {
    T factor = lu(i, i);
    if (factor == T(0)) return {T(0), T(0), -std::numeric_limits<R>::infinity()};
    for (T* x : {&factor, &product}) {
      int e;
      std::frexp(size_of(*x), &e);
      if constexpr (is_complex_v<T>)
        *x = T(std::ldexp(x->re, -e), std::ldexp(x->im, -e));
      else
        *x = std::ldexp(*x, -e);
      exponent += e;
    }
    product *= factor;
    while (rows[i] != i) {  // one exchange of two rows
      std::swap(rows[i], rows[rows[i]]);
      product = -product;
    }
  }
  const R size = modulus(product);
  const int e = int(std::clamp<int64_t>(exponent, -20000, 20000));
  Determinant<T> d;
  d.sign = over(product, size);
  if constexpr (is_complex_v<T>)
    d.value = T(std::ldexp(product.re, e), std::ldexp(product.im, e));
  else
    d.value = std::ldexp(product, e);
  d.log_size = R(std::log(double(size)) + double(exponent) * 0.69314718055994530942);
  return d;
}

}  // namespace gradus::linalg
