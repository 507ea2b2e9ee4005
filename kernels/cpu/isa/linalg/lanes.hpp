// Matrices side by side: a vector holds the same entry of as many matrices as it has lanes. What is
// done to one of them depends on none of the others: choices are lanes of a mask, and a loop that
// goes on for its neighbours' sake leaves it as it is.
#pragma once
#include "kernels/cpu/isa/words/simd.hpp"
#include "kernels/linalg/matrix.hpp"

namespace gradus::inline v1::cpu {

template <class T>
inline constexpr int kLanes = int(Batch<T>::size);

template <class T>
T lane_of(const Batch<T>& x, int lane) {
  return reinterpret_cast<const T*>(&x)[lane];
}
template <class T>
uint64_t bits_of(BatchMask<T> mask) {
  const Batch<T> ones = xsimd::select(mask, Batch<T>(T(1)), Batch<T>(T(0)));
  uint64_t bits = 0;
  for (int lane = 0; lane < kLanes<T>; ++lane)
    bits |= uint64_t(lane_of<T>(ones, lane) != T(0)) << lane;
  return bits;
}

// A matrix of each lane, by rows.
template <class T>
struct LaneMatrix {
  Batch<T>* data = nullptr;
  int rows = 0, cols = 0;

  Batch<T>& operator()(int i, int j) const { return data[i * cols + j]; }
  T* numbers() const { return reinterpret_cast<T*>(data); }
  // Entry (i, j) of the matrix in one lane.
  T& number(int i, int j, int lane) const { return numbers()[(i * cols + j) * kLanes<T> + lane]; }
};

// Where the matrices of a group begin, and the steps to the next row and column.
template <class T>
struct LaneView {
  T* start[kLanes<T>];
  int64_t down, by;
};

template <class T>
void gather(LaneMatrix<T> to, const LaneView<T>& from) {
  T* out = to.numbers();
  for (int i = 0; i < to.rows; ++i)
    for (int j = 0; j < to.cols; ++j, out += kLanes<T>)
      for (int lane = 0; lane < kLanes<T>; ++lane)
        out[lane] = from.start[lane][i * from.down + j * from.by];
}
template <class T>
void scatter(const LaneView<T>& to, LaneMatrix<T> from, int lane) {
  for (int i = 0; i < from.rows; ++i)
    for (int j = 0; j < from.cols; ++j)
      to.start[lane][i * to.down + j * to.by] = from.number(i, j, lane);
}

// 0 x is 0 of a finite x alone.
template <class T>
BatchMask<T> finite_lanes(LaneMatrix<T> a) {
  Batch<T> sum(T(0));
  for (int i = 0; i < a.rows * a.cols; ++i) sum += Batch<T>(T(0)) * a.data[i];
  return sum == Batch<T>(T(0));
}
template <class T>
void set_identity(LaneMatrix<T> a) {
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.cols; ++j) a(i, j) = Batch<T>(T(i == j));
}
// What the lower triangle of (A + A^T) / 2 has; 0 above it.
template <class T>
void make_symmetric(LaneMatrix<T> a) {
  const Batch<T> half(T(0.5));
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j <= i; ++j) {
      a(i, j) = half * a(i, j) + half * a(j, i);
      if (j < i) a(j, i) = Batch<T>(T(0));
    }
}

// Brings the largest entry of each near 1 by a power of two; gives what undoes it.
template <class T>
Batch<T> normalize_scale(LaneMatrix<T> a) {
  Batch<T> most(T(0));
  for (int i = 0; i < a.rows * a.cols; ++i) {
    const Batch<T> size = xsimd::abs(a.data[i]);
    most = xsimd::select(size > most, size, most);
  }
  Batch<T> by, back;
  for (int lane = 0; lane < kLanes<T>; ++lane) {
    constexpr int kMost = std::numeric_limits<T>::max_exponent - 4;
    const T size = lane_of<T>(most, lane);
    int exponent = 0;
    if (std::isfinite(size)) std::frexp(size, &exponent);
    exponent = std::clamp(exponent, -kMost, kMost);
    reinterpret_cast<T*>(&by)[lane] = std::ldexp(T(1), -exponent);
    reinterpret_cast<T*>(&back)[lane] = std::ldexp(T(1), exponent);
  }
  for (int i = 0; i < a.rows * a.cols; ++i) a.data[i] *= by;
  return back;
}

// -1 where the largest entry of column j is negative, the first of those that are as large but for
// rounding; else 1.
template <class T>
Batch<T> sign_of_largest(LaneMatrix<T> a, int j) {
  Batch<T> most(T(0)), pick(T(0));
  for (int i = 0; i < a.rows; ++i) {
    const Batch<T> size = xsimd::abs(a(i, j));
    most = xsimd::select(size > most, size, most);
  }
  const Batch<T> enough = most * Batch<T>(1 - 256 * linalg::kEpsilon<T>);
  for (int i = a.rows - 1; i >= 0; --i)
    pick = xsimd::select(xsimd::abs(a(i, j)) >= enough, a(i, j), pick);
  return xsimd::select(pick < Batch<T>(T(0)), Batch<T>(T(-1)), Batch<T>(T(1)));
}
template <class T>
void scale_column(LaneMatrix<T> a, int j, Batch<T> by) {
  for (int i = 0; i < a.rows; ++i) a(i, j) *= by;
}

}  // namespace gradus::cpu
