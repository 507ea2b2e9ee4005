// Matrices side by side: a vector holds the same entry of as many matrices as it has lanes. What is
// done to one of them depends on none of the others: choices are lanes of a mask, and a loop that
// goes on for its neighbours' sake leaves it as it is.
#pragma once
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/words/simd.hpp"
#include "kernels/linalg/matrix.hpp"

#include <bit>

namespace gradus::inline v1::cpu {

// B is a batch of the instruction set.
template <class B>
using NumberOf = typename B::value_type;
template <class B>
using MaskOf = typename B::batch_bool_type;
template <class B>
inline constexpr int kLanes = int(B::size);

template <class B>
B root_of(B x) {
  if constexpr (std::is_same_v<B, Batch<NumberOf<B>>>)
    return root<NumberOf<B>>(x);
  else
    return xsimd::sqrt(x);
}

template <class B>
NumberOf<B> lane_of(const B& x, int lane) {
  using T = NumberOf<B>;
  return reinterpret_cast<const T*>(&x)[lane];
}
template <class B>
uint64_t bits_of(MaskOf<B> mask) {
  using T = NumberOf<B>;
  if (!xsimd::any(mask)) return 0;
  if (xsimd::all(mask)) return (uint64_t(1) << kLanes<B>)-1;
  uint64_t bits = 0;
  const B ones = xsimd::select(mask, B(T(1)), B(T(0)));
  for (int lane = 0; lane < kLanes<B>; ++lane)
    bits |= uint64_t(lane_of(ones, lane) != T(0)) << lane;
  return bits;
}

// A matrix of each lane, by rows.
template <class B>
struct LaneMatrix {
  using T = NumberOf<B>;
  B* data = nullptr;
  int rows = 0, cols = 0;

  B& operator()(int i, int j) const { return data[i * cols + j]; }
  T* numbers() const { return reinterpret_cast<T*>(data); }
  // Entry (i, j) of the matrix in one lane.
  T& number(int i, int j, int lane) const { return numbers()[(i * cols + j) * kLanes<B> + lane]; }
};

// The matrices of a group: one begins `at` elements (`bytes`) from `first` in each lane, and has
// these steps to the next row and column. Valid while its LaneStarts stays where it is.
template <class B>
struct LaneView {
  using T = NumberOf<B>;
  T* first;
  const int64_t *at, *bytes;
  int64_t apart;  // from lane to lane; 0: not even
  int64_t down, by;

  T* start(int lane) const { return first + at[lane]; }
};

// Where a view has the matrices, or vectors as rows, of one group after another.
template <class B>
class LaneStarts {
  using T = NumberOf<B>;

 public:
  LaneStarts() = default;
  LaneStarts(const gd_view& v, int batch_axes) : view_(&v), axes_(batch_axes) {
    if (axes_ == 1) apart_ = v.strides[0];
  }
  // To matrices [first, first + count). Lanes without one repeat the last one.
  void move(int64_t first, int count) {
    const gd_view& v = *view_;
    if (axes_ == 1) {
      base_ = v.offset + first * apart_;
      if (count == count_) return;
      for (int lane = 0; lane < kLanes<B>; ++lane) at_[lane] = std::min(lane, count - 1) * apart_;
    } else {
      int64_t index[kMaxRank], left = first;
      base_ = v.offset;
      for (int d = axes_ - 1; d >= 0; --d) {
        index[d] = d > 0 ? left % v.sizes[d] : left;
        left /= v.sizes[d];
        base_ += index[d] * v.strides[d];
      }
      int64_t at = 0;
      for (int lane = 0; lane < kLanes<B>; ++lane) {
        at_[lane] = at;
        if (lane + 1 >= count) continue;
        for (int d = axes_ - 1; d >= 0; --d) {
          at += v.strides[d];
          if (++index[d] < v.sizes[d]) break;
          at -= index[d] * v.strides[d];
          index[d] = 0;
        }
      }
      apart_ = at_[1];
      for (int lane = 1; lane < count; ++lane)
        if (at_[lane] - at_[lane - 1] != apart_) apart_ = 0;
    }
    count_ = count;
    for (int lane = 0; lane < kLanes<B>; ++lane) bytes_[lane] = at_[lane] * int64_t(sizeof(T));
  }
  explicit operator bool() const { return view_; }
  template <class E = T>
  E* place(int lane) const {
    return static_cast<E*>(view_->data) + base_ + at_[lane];
  }
  LaneView<B> view(bool turned = false) const {
    const int64_t* const by = view_->strides + view_->rank - 1;
    LaneView<B> all{place(0), at_, bytes_, apart_, view_->rank > 1 ? by[-1] : 0, *by};
    if (turned) std::swap(all.down, all.by);
    return all;
  }
  LaneView<B> rows() const {
    LaneView<B> all = view();
    all.down = 0;
    return all;
  }

 private:
  const gd_view* view_ = nullptr;
  int axes_ = 0, count_ = 0;
  int64_t base_ = 0, apart_ = 0, at_[kLanes<B>], bytes_[kLanes<B>];
};

// Lines of neighbours in memory are turned in registers.
template <class B>
void gather(LaneMatrix<B> to, const LaneView<B>& from) {
  using T = NumberOf<B>;
  constexpr int64_t kSize = sizeof(T);
  if (from.by == 1 || from.down == 1) {
    const bool by_rows = from.by == 1;
    const int64_t lines = by_rows ? to.rows : to.cols, step = by_rows ? from.down : from.by,
                  to_line = by_rows ? to.cols : 1, to_next = by_rows ? 1 : to.cols;
    int64_t length = by_rows ? to.cols : to.rows;
    const TransposeFn transpose = find_transpose(kSize);
    const bool joined = by_rows && step == length;
    if (joined) length *= lines;
    for (int64_t k = 0; k < (joined ? 1 : lines); ++k)
      transpose(reinterpret_cast<char*>(to.data + k * to_line), to_next * kLanes<B> * kSize,
                reinterpret_cast<const char*>(from.first + k * step), from.bytes, kLanes<B>,
                length);
    return;
  }
  T* out = to.numbers();
  for (int i = 0; i < to.rows; ++i)
    for (int j = 0; j < to.cols; ++j, out += kLanes<B>)
      for (int lane = 0; lane < kLanes<B>; ++lane)
        out[lane] = from.start(lane)[i * from.down + j * from.by];
}
// Of the first `count` lanes.
template <class B>
void scatter(const LaneView<B>& to, LaneMatrix<B> from, int count) {
  using T = NumberOf<B>;
  constexpr int64_t kSize = sizeof(T), kMost = 16 * 16;
  const int64_t n = int64_t(from.rows) * from.cols;
  if (to.by == 1 && to.down == from.cols && to.apart >= n && n <= kMost && count > 1) {
    int64_t at[kMost];
    for (int64_t k = 0; k < n; ++k) at[k] = k * kLanes<B> * kSize;
    find_transpose(kSize)(reinterpret_cast<char*>(to.first), to.apart * kSize,
                          reinterpret_cast<const char*>(from.data), at, n, count);
    return;
  }
  for (int lane = 0; lane < count; ++lane)
    for (int i = 0; i < from.rows; ++i)
      for (int j = 0; j < from.cols; ++j)
        to.start(lane)[i * to.down + j * to.by] = from.number(i, j, lane);
}

// 0 x is 0 of a finite x alone.
template <class B>
MaskOf<B> finite_lanes(LaneMatrix<B> a) {
  using T = NumberOf<B>;
  B sum(T(0));
  for (int i = 0; i < a.rows * a.cols; ++i) sum += B(T(0)) * a.data[i];
  return sum == B(T(0));
}
template <class B>
void set_identity(LaneMatrix<B> a) {
  using T = NumberOf<B>;
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.cols; ++j) a(i, j) = B(T(i == j));
}
// What the lower triangle of (A + A^T) / 2 has; 0 above it.
template <class B>
void make_symmetric(LaneMatrix<B> a) {
  using T = NumberOf<B>;
  const B half(T(0.5));
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j <= i; ++j) {
      a(i, j) = half * a(i, j) + half * a(j, i);
      if (j < i) a(j, i) = B(T(0));
    }
}

// The least power of two above a finite x > 0, or the nearest one that has a normal reciprocal; 1
// for what is 0 or not finite.
template <class T>
T power_above(T x) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  using Limits = std::numeric_limits<T>;
  constexpr int kMost = Limits::max_exponent - 4, kBias = Limits::max_exponent - 1,
                kPlace = Limits::digits - 1;
  if (!(x > 0) || !(x <= Limits::max())) return T(1);
  const int exponent = int(std::bit_cast<Bits>(x) >> kPlace) - (kBias - 1);
  return std::bit_cast<T>(Bits(std::clamp(exponent, -kMost, kMost) + kBias) << kPlace);
}

// Brings the largest entry of each near 1 by a power of two; gives what undoes it.
template <class B>
B normalize_scale(LaneMatrix<B> a) {
  using T = NumberOf<B>;
  B most(T(0));
  for (int i = 0; i < a.rows * a.cols; ++i) {
    const B size = xsimd::abs(a.data[i]);
    most = xsimd::select(size > most, size, most);
  }
  B by, back;
  for (int lane = 0; lane < kLanes<B>; ++lane) {
    const T power = power_above(lane_of(most, lane));
    reinterpret_cast<T*>(&by)[lane] = T(1) / power;
    reinterpret_cast<T*>(&back)[lane] = power;
  }
  for (int i = 0; i < a.rows * a.cols; ++i) a.data[i] *= by;
  return back;
}

// -1 where the largest entry of column j is negative, the first of those that are as large but for
// rounding; else 1.
template <class B>
B sign_of_largest(LaneMatrix<B> a, int j) {
  using T = NumberOf<B>;
  B most(T(0)), pick(T(0));
  for (int i = 0; i < a.rows; ++i) {
    const B size = xsimd::abs(a(i, j));
    most = xsimd::select(size > most, size, most);
  }
  const B enough = most * B(1 - 256 * linalg::kEpsilon<T>);
  for (int i = a.rows - 1; i >= 0; --i)
    pick = xsimd::select(xsimd::abs(a(i, j)) >= enough, a(i, j), pick);
  return xsimd::select(pick < B(T(0)), B(T(-1)), B(T(1)));
}
template <class B>
void scale_column(LaneMatrix<B> a, int j, B by) {
  for (int i = 0; i < a.rows; ++i) a(i, j) *= by;
}

}  // namespace gradus::cpu
