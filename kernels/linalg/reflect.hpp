// Householder reflections H = 1 - tau v v^H (Golub & Van Loan 5.1), one by one and in groups (the
// compact WY form of Schreiber & Van Loan), and plane rotations, kept and then applied in blocks.
#pragma once
#include "kernels/linalg/scratch.hpp"

namespace gradus::inline v1::linalg {

template <class T>
struct Reflection {
  T tau;  // 0: H = 1
  real_of<T> beta;
};

// Finds H with H^H (alpha, tail) = (beta, 0), beta real and of the sign that alpha's real part has
// not; v is (1, tail) afterwards. Nothing is done where tail is 0 and alpha real: as LAPACK does.
template <class T>
Reflection<T> reflect(T alpha, int64_t n, T* tail) {
  using R = real_of<T>;
  const R rest = norm(n, tail);
  if (rest == 0 && imaginary_part(alpha) == 0) {
    std::fill_n(tail, n, T(0));
    return {T(0), real_part(alpha)};
  }
  const R size = length(modulus(alpha), rest);
  if (size < kTiny<R>) {  // so small that reciprocals would overflow
    const R by = R(1) / kTiny<R>;
    for (int64_t i = 0; i < n; ++i) tail[i] = times(by, tail[i]);
    const Reflection<T> scaled = reflect(times(by, alpha), n, tail);
    return {scaled.tau, scaled.beta * kTiny<R>};
  }
  const R beta = -std::copysign(size, real_part(alpha));
  scale_row(n, T(1) / (alpha - T(beta)), tail);
  return {over(T(beta) - alpha, beta), beta};
}

// c -= by v (v^H c): H c of by = tau, H^H c of its conjugate. room holds a row of c.
template <class T>
void reflect_rows(Matrix<T> c, const T* v, T by, T* room) {
  if (by == T(0)) return;
  const Matrix<T> w{room, 1, c.cols, c.cols};
  std::fill_n(room, c.cols, T(0));
  add_product(w, Factor<T>{v, 1, c.rows, 0, 1, true}, c);
  for (int64_t i = 0; i < c.rows; ++i) add_multiple(c.cols, -(by * v[i]), room, c[i]);
}

// c -= by (c v) v^H: c H of by = tau. conj_v holds v's conjugate.
template <class T>
void reflect_columns(Matrix<T> c, const T* v, const T* conj_v, T by) {
  if (by == T(0)) return;
  for (int64_t i = 0; i < c.rows; ++i)
    add_multiple(c.cols, -(by * dot(c.cols, c[i], v)), conj_v, c[i]);
}

inline constexpr int64_t kGroup = 32;  // reflections that are applied as one

// c = H_0 H_1 ... c, or c = ... H_1^H H_0^H c, of the reflections in the rows of v, whole vectors.
template <class T>
void apply_group(Matrix<T> v, const T* tau, bool inverse, Matrix<T> c, Scratch& scratch) {
  // H_0 H_1 ... = 1 - V S V^H with an upper triangular S, V's columns the rows of v.
  const int64_t k = v.rows;
  const Matrix<T> s = scratch.zeros<T>(k, k);
  T* const with_earlier = scratch.take<T>(k);
  for (int64_t j = 0; j < k; ++j) {
    for (int64_t i = 0; i < j; ++i) with_earlier[i] = dot<true>(v.cols, v[i], v[j]);
    s(j, j) = tau[j];
    for (int64_t i = 0; i < j; ++i) s(i, j) = -(tau[j] * dot(j - i, &s(i, i), with_earlier + i));
  }
  const Matrix<T> w = scratch.zeros<T>(k, c.cols), sw = scratch.zeros<T>(k, c.cols);
  add_product(w, conjugate(v), c);
  add_product(sw, inverse ? adjoint(s) : plain(s), w);
  subtract_product(c, transpose(v), sw);
}

// c = H_0 H_1 ... c of any number of reflections. Their vectors leave more and more of c alone:
// vector i is 0 before entry i or, where `from_end`, in its last i entries.
template <class T>
void apply_reflections(Matrix<T> v, const T* tau, bool from_end, Matrix<T> c, Scratch& scratch) {
  const int64_t length = v.cols;
  for (int64_t begin = (v.rows - 1) / kGroup * kGroup; begin >= 0; begin -= kGroup) {
    const int64_t count = std::min(kGroup, v.rows - begin), first = from_end ? 0 : begin;
    apply_group(v.block(begin, first, count, length - begin), tau + begin, false,
                c.block(first, 0, length - begin, c.cols), scratch);
  }
}

// Rotations of neighbouring rows, (x, y) -> (c x + s y, c y - s x), kept until there are many: then
// each strip of columns meets all of them while it is in the cache.
template <class R>
class Rotations {
 public:
  // a has no data: nothing is to be rotated.
  Rotations(Matrix<R> a, Scratch& scratch) : a_(a) {
    if (!a.data) return;
    room_ = std::max<int64_t>(32 * a.rows, 64);
    list_ = scratch.take<Kept>(room_);
  }
  void add(int64_t row, R c, R s) {
    if (!a_.data) return;
    if (count_ == room_) apply();
    list_[count_++] = {row, c, s};
  }
  void apply() {
    constexpr int64_t kLeast = 256 / int64_t(sizeof(R)), kCache = 131072 / int64_t(sizeof(R));
    const NoTinyNumbers mode;
    const int64_t width = std::max(kLeast, kCache / std::max<int64_t>(a_.rows, 1) / 16 * 16);
    for (int64_t j = 0; j < a_.cols; j += width)
      for (int64_t k = 0; k < count_;) k += apply_some(k, j, std::min(width, a_.cols - j));
    count_ = 0;
  }

 private:
  struct Kept {
    int64_t row;
    R c, s;
  };
  // Rotation k and up to three that follow it row by row, up or down, on columns [j, j + n).
  int apply_some(int64_t k, int64_t j, int64_t n) {
    const Kept* const r = list_ + k;
    const int64_t way = k + 1 < count_ && r[1].row == r[0].row - 1 ? -1 : 1;
    R c[4], s[4];
    int count = 0;
    for (; count < 4 && k + count < count_ && r[count].row == r[0].row + way * count; ++count) {
      c[count] = r[count].c;
      s[count] = R(way) * r[count].s;  // turned, x and y change places
    }
    R* const first = a_[r[0].row + (way < 0)] + j;
    linalg::rotate(n, first, way * a_.stride, count, c, s);
    return count;
  }

  Matrix<R> a_;
  Kept* list_ = nullptr;
  int64_t count_ = 0, room_ = 0;
};

// The rotation that takes (x, y) to (r, 0).
template <class R>
struct Rotation {
  R c, s, r;
};
template <class R>
Rotation<R> rotation(R x, R y) {
  if (y == 0) return {1, 0, x};
  const R r = std::copysign(length(x, y), x);
  return {x / r, y / r, r};
}

// ---- phases

// The number of size 1 that makes the largest of n entries real and positive, the first of those
// that are as large but for rounding; *where is its place. 1 if all are 0.
template <class T>
T phase_of_largest(int64_t n, const T* x, int64_t step, int64_t* where) {
  using R = real_of<T>;
  R most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, modulus(x[i * step]));
  if (!(most > 0)) return T(1);
  const R enough = most * (1 - 256 * kEpsilon<R>);
  int64_t i = 0;
  while (modulus(x[i * step]) < enough) ++i;
  *where = i;
  return over(conj_of(x[i * step]), modulus(x[i * step]));
}
// Gives column k of a that phase, and returns it.
template <class T>
T normalize_phase(Strided<T> a, int64_t k) {
  int64_t where = -1;
  const T phase = phase_of_largest(a.rows, a.data + k * a.by, a.down, &where);
  if (where < 0 || phase == T(1)) return T(1);
  for (int64_t i = 0; i < a.rows; ++i) a(i, k) *= phase;
  a(where, k) = T(real_part(a(where, k)));
  return phase;
}

}  // namespace gradus::linalg
