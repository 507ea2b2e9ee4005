// Jacobi's rotations of one matrix alone: the steps of lanes_spectra.hpp in their order, each with
// the same bits, where a vector holds a row of the matrix instead of an entry of many.
#pragma once
#include "kernels/cpu/isa/linalg/lanes_spectra.hpp"

namespace gradus::inline v1::cpu {

template <class T>
struct RowOf {
  typedef T type __attribute__((vector_size(kLargestSpectrumInLanes * sizeof(T))));
};
// Rows of a matrix in the first lane, or its columns; 0 beyond it.
template <class T>
struct Rows {
  using Row = typename RowOf<T>::type;
  Row row[kLargestSpectrumInLanes] = {};

  T& operator()(int i, int j) { return reinterpret_cast<T*>(&row[i])[j]; }
  template <class B>
  void read(LaneMatrix<B> a, bool columns) {
    for (int i = 0; i < a.rows; ++i)
      for (int j = 0; j < a.cols; ++j)
        (columns ? (*this)(j, i) : (*this)(i, j)) = a.number(i, j, 0);
  }
  template <class B>
  void write(LaneMatrix<B> a, bool columns) {
    for (int i = 0; i < a.rows; ++i)
      for (int j = 0; j < a.cols; ++j) a.number(i, j, 0) = columns ? (*this)(j, i) : (*this)(i, j);
  }
  void set_identity(int n) {
    for (int i = 0; i < n; ++i) (*this)(i, i) = T(1);
  }
  // As short_dot: what is beyond the matrix adds 0.
  T dot(int p, int q) const {
    const Row z = row[p] * row[q];
    const T a = z[0] + z[4], b = z[1] + z[5], c = z[2] + z[6], d = z[3] + z[7];
    return (a + c) + (b + d);
  }
  void rotate(int p, int q, T c, T s) {
    const Row x = row[p], y = row[q];
    row[p] = c * x - s * y;
    row[q] = s * x + c * y;
  }
};

// As jacobi_eigh, of the first lane.
template <class B>
bool jacobi_eigh_alone(LaneMatrix<B> matrix, LaneMatrix<B> vectors) {
  using T = NumberOf<B>;
  constexpr T kSmall = linalg::kEpsilon<T> / 4;
  const int n = matrix.rows;
  Rows<T> a, v;
  for (int i = 0; i < n; ++i)  // it has its lower triangle alone
    for (int j = 0; j <= i; ++j) a(i, j) = a(j, i) = matrix.number(i, j, 0);
  if (vectors.data) v.set_identity(n);
  bool going = false;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    going = false;
    for_pairs(n, [&](int p, int q) {
      const T off = a(q, p), first = a(p, p), second = a(q, q);
      if (!(off * off > kSmall * kSmall * std::fabs(first * second)) ||
          !(std::fabs(off) > linalg::kNothing<T>))
        return;
      going = true;
      const LaneRotation<B> r = jacobi_rotation(B(first), B(off), B(second), MaskOf<B>(true));
      const T c = lane_of(r.c, 0), s = lane_of(r.s, 0), t = lane_of(r.t, 0);
      a.rotate(p, q, c, s);
      a(p, p) = first - t * off;
      a(q, q) = second + t * off;
      a(p, q) = a(q, p) = T(0);
      for (int k = 0; k < kLargestSpectrumInLanes; ++k) {
        a(k, p) = a(p, k);
        a(k, q) = a(q, k);
      }
      if (vectors.data) v.rotate(p, q, c, s);
    });
    if (!going) break;
  }
  for (int i = 0; i < n; ++i) matrix.number(i, i, 0) = a(i, i);
  if (vectors.data) v.write(vectors, true);
  return going;
}

// As jacobi_svd.
template <class B>
bool jacobi_svd_alone(LaneMatrix<B> matrix, B* values, LaneMatrix<B> vectors) {
  using T = NumberOf<B>;
  const int n = matrix.cols;
  const T small = linalg::kEpsilon<T> * std::max(T(4), std::sqrt(T(matrix.rows)));
  Rows<T> g, v;
  g.read(matrix, true);
  if (vectors.data) v.set_identity(n);
  bool going = false;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    going = false;
    for_pairs(n, [&](int p, int q) {
      const T pp = g.dot(p, p), pq = g.dot(p, q), qq = g.dot(q, q);
      if (!(std::fabs(pq) > small * (std::sqrt(pp) * std::sqrt(qq)))) return;
      going = true;
      const LaneRotation<B> r = jacobi_rotation(B(pp), B(pq), B(qq), MaskOf<B>(true));
      const T c = lane_of(r.c, 0), s = lane_of(r.s, 0);
      g.rotate(p, q, c, s);
      if (vectors.data) v.rotate(p, q, c, s);
    });
    if (!going) break;
  }
  bool left = going;
  for (int j = 0; j < n; ++j) {
    const T sum = g.dot(j, j);
    values[j] = root_of(B(sum));
    left |= !(sum > linalg::kTiny<T>);
  }
  g.write(matrix, true);
  if (vectors.data) v.write(vectors, true);
  return left;
}

}  // namespace gradus::cpu
