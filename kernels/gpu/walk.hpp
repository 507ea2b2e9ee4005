// Walk<N>: N views over one index space as a kernel reads them. The host drops axes of one element
// and joins axes that lie as one in every view; a thread turns its number into N places.
#pragma once
#include "kernels/gpu/runtime.hpp"
#include "kernels/gpu/values.hpp"

#include <initializer_list>

namespace gradus::inline v1::gpu {

// Division of 31-bit numbers by a multiplication: n / d = (hi(n * magic) + n) >> shift (Granlund
// and Montgomery, "Division by invariant integers using multiplication", 1994).
struct Divisor {
  uint32_t divisor = 1, magic = 1, shift = 0;
  Divisor() = default;
  explicit Divisor(uint32_t d) : divisor(d) {
    while (shift < 32 && (uint64_t(1) << shift) < d) ++shift;
    magic = uint32_t((uint64_t(1) << 32) * ((uint64_t(1) << shift) - d) / d + 1);
  }
  GRADUS_HD uint32_t quotient(uint32_t n) const {
    return uint32_t(((uint64_t(n) * magic >> 32) + n) >> shift);
  }
};

inline constexpr int64_t kMostElements = 0x7fffffff;  // of one launch
inline constexpr int kMaxAxes = 24;  // after axes are joined; kernels take less than 4 KiB

template <int N>
struct Walk {
  int32_t rank = 0;
  bool dense = false;  // every view lies in the order of the walk, without gaps
  int64_t count = 0;
  int64_t first = 0;        // the number, in the whole, of the first element of a piece
  int64_t sizes[kMaxAxes];  // the last axis first
  Divisor divisors[kMaxAxes];
  int64_t strides[N][kMaxAxes];
  char* data[N];  // of element (0, 0, ...); null for a view that is left out
  int32_t dtype[N];

  void finish() {  // what follows from sizes and strides
    dense = rank <= 1;
    for (int d = 0; d < rank; ++d) {
      if (sizes[d] > 0 && sizes[d] <= kMostElements) divisors[d] = Divisor(uint32_t(sizes[d]));
      for (int v = 0; v < N; ++v) dense = dense && (!data[v] || strides[v][d] == 1);
    }
  }
  // Places of element i, in elements from data.
  GRADUS_HD void places(int64_t i, int64_t (&at)[N]) const {
    for (int v = 0; v < N; ++v) at[v] = dense ? i : 0;
    if (dense) return;
    uint32_t left = uint32_t(i);
    for (int d = 0; d < rank; ++d) {
      const uint32_t rest = d + 1 < rank ? divisors[d].quotient(left) : 0;
      const int64_t k = left - rest * divisors[d].divisor;
      for (int v = 0; v < N; ++v) at[v] += k * strides[v][d];
      left = rest;
    }
  }
};

// All views have the sizes of the first one of `views` that is there; those whose data is NULL are
// left out. Refuses through `call` when more than kMaxAxes axes remain.
template <int N>
Walk<N> make_walk(const Call& call, const gd_view* const (&views)[N]) {
  Walk<N> w{};
  const gd_view* shape = nullptr;
  for (const gd_view* v : views)
    if (!shape && v && v->data) shape = v;
  for (int v = 0; v < N; ++v) {
    const bool there = views[v] && views[v]->data;
    w.data[v] = there ? start_of(*views[v]) : nullptr;
    w.dtype[v] = there ? views[v]->dtype : GD_F32;
  }
  if (!shape) return w;
  w.count = count_of(*shape);
  if (w.count == 0) return w;
  for (int d = shape->rank - 1; d >= 0; --d) {
    const int64_t size = shape->sizes[d];
    if (size == 1) continue;
    int64_t stride[N];
    bool joins = w.rank > 0;
    for (int v = 0; v < N; ++v) {
      stride[v] = w.data[v] ? views[v]->strides[d] : 0;
      joins = joins && stride[v] == w.strides[v][w.rank - 1] * w.sizes[w.rank - 1];
    }
    if (joins) {
      w.sizes[w.rank - 1] *= size;
    } else {
      if (w.rank == kMaxAxes)
        call.refuse(GD_UNSUPPORTED, "more than %d axes that can't be joined", kMaxAxes);
      w.sizes[w.rank] = size;
      for (int v = 0; v < N; ++v) w.strides[v][w.rank] = stride[v];
      ++w.rank;
    }
  }
  w.finish();
  return w;
}

// Calls f(piece) for walks of at most kMostElements that make up w, cut along its longest strides.
template <int N, class F>
void in_pieces(const Walk<N>& w, F&& f) {
  if (w.count <= kMostElements) return w.count > 0 ? f(w) : void();
  const int last = w.rank - 1;
  const int64_t inner = w.count / w.sizes[last];
  const int64_t step = inner > kMostElements ? 1 : kMostElements / inner;
  for (int64_t k = 0; k < w.sizes[last]; k += step) {
    Walk<N> piece = w;
    piece.sizes[last] = step < w.sizes[last] - k ? step : w.sizes[last] - k;
    piece.count = inner * piece.sizes[last];
    piece.divisors[last] = Divisor(uint32_t(piece.sizes[last]));
    for (int v = 0; v < N; ++v)
      if (w.data[v]) piece.data[v] += k * w.strides[v][last] * int64_t(itemsize(DType(w.dtype[v])));
    piece.first += k * inner;
    if (piece.sizes[last] == 1) --piece.rank;
    in_pieces(piece, f);
  }
}

// One thread for each element of w, in blocks of 256: kernel(walk, args...), looping by
// index_step().
template <int N, class... P, class... A>
void each(const Run& run, const Walk<N>& w, void (*kernel)(Walk<N>, P...), A&&... args) {
  in_pieces(w, [&](const Walk<N>& piece) {
    run.grid(Threads::apart, run.blocks_for(piece.count, 256), 256, kernel, piece, args...);
  });
}

}  // namespace gradus::gpu
