// Runs<N>: a walk whose threads take several elements of its last axis at a time, so that places
// are computed once for all of them and their loads are on their way together. Where every view
// allows it they are neighbours, moved in words of up to 16 bytes. Else the elements of a run are
// 32 apart: neighbouring threads touch neighbouring elements. A short walk has runs of one element,
// since it needs the threads.
#pragma once
#include "kernels/gpu/walk.hpp"

namespace gradus::inline v1::gpu {

template <int N>
struct Runs : Walk<N> {
  static constexpr uint32_t kShift = 5;
  uint32_t total = 0;   // runs in all
  uint32_t length = 1;  // elements of a run: 1, or what the kernel is made for
  uint32_t shift = 0;   // they are 1 << shift apart: 0 or kShift
  uint32_t wide = 0;    // bit v: view v is moved in words
  uint32_t axis = 1;    // elements of the last axis
  Divisor per_line;     // runs along it

  // Places of the first element of run r; returns how many elements it has.
  GRADUS_HD int start(uint32_t r, int64_t (&at)[N]) const {
    uint32_t line = 0, k = r;
    if (this->rank > 1) {
      line = per_line.quotient(r);
      k -= line * per_line.divisor;
    }
    uint32_t first = k * length;
    if (shift) first = (k >> kShift) * (length << kShift) + (k & ((1u << kShift) - 1));
    for (int v = 0; v < N; ++v) at[v] = int64_t(first) * this->strides[v][0];
    GPU_ROLLED
    for (int d = 1; d < this->rank; ++d) {
      const uint32_t rest = d + 1 < this->rank ? this->divisors[d].quotient(line) : 0;
      const int64_t i = line - rest * this->divisors[d].divisor;
      for (int v = 0; v < N; ++v) at[v] += i * this->strides[v][d];
      line = rest;
    }
    if (first >= axis) return 0;
    uint32_t here = axis - first;
    if (shift) here = (here + ((1u << kShift) - 1)) >> kShift;
    return int(here < length ? here : length);
  }
  GRADUS_HD int64_t step(int v) const { return this->strides[v][0] << shift; }
  // Does each thread have a run, and not one element?
  GRADUS_HD bool long_runs() const { return length > 1; }
};

namespace detail {

// Words of this many bytes move the runs of a view of this element size.
inline int word_of(int run_bytes) { return run_bytes < 16 ? run_bytes : 16; }

// Are the runs of `length` neighbours in view v words of memory, wherever they begin?
template <int N>
bool moves_in_words(const Walk<N>& w, int v, int length) {
  const int64_t size = int64_t(itemsize(DType(w.dtype[v])));
  const uint64_t word = uint64_t(word_of(int(size) * length));
  if (w.strides[v][0] != 1 || reinterpret_cast<uintptr_t>(w.data[v]) % word) return false;
  for (int d = 1; d < w.rank; ++d)
    if (uint64_t(w.strides[v][d] * size) % word) return false;
  return true;
}

}  // namespace detail

// The walk in runs of `length` elements, if that suits it; `enough` elements are worth it.
template <int N>
Runs<N> make_runs(const Walk<N>& w, int length, int64_t enough) {
  Runs<N> r;
  static_cast<Walk<N>&>(r) = w;
  r.axis = w.rank > 0 ? uint32_t(w.sizes[0]) : 1;
  const int64_t lines = w.count / r.axis;
  const auto cut = [&](uint32_t shift) {  // into lines of whole runs: the last may stand out
    const int64_t together = int64_t(length) << shift;
    return ((r.axis + together - 1) / together) << shift;
  };
  const auto fits = [&](int64_t runs) { return runs * length * 4 <= int64_t(r.axis) * 5; };
  int64_t along = r.axis;
  if (length > 1 && w.count >= enough) {
    bool words = true;
    for (int v = 0; v < N; ++v) {
      if (!w.data[v] || w.strides[v][0] == 0) continue;
      if (detail::moves_in_words(w, v, length))
        r.wide |= 1u << v;
      else
        words = false;
    }
    r.shift = words ? 0 : Runs<N>::kShift;
    if (!words) r.wide = 0;
    if (fits(cut(r.shift))) {
      r.length = uint32_t(length);
      along = cut(r.shift);
    } else {
      r.shift = r.wide = 0;
    }
  }
  r.per_line = Divisor(uint32_t(along));
  r.total = uint32_t(along * lines);
  return r;
}

// The same elements in the order in which the last view, the output, has them in memory. Axes may
// then lie as one that did not before.
template <int N>
Walk<N> in_order_of_output(Walk<N> w) {
  const auto step = [&](int d) {
    const int64_t s = w.strides[N - 1][d];
    return s < 0 ? -s : s;
  };
  for (int end = w.rank; end > 1; --end)
    for (int d = 0; d + 1 < end; ++d)
      if (step(d) > step(d + 1)) {
        std::swap(w.sizes[d], w.sizes[d + 1]);
        for (int v = 0; v < N; ++v) std::swap(w.strides[v][d], w.strides[v][d + 1]);
      }
  int last = 0;
  for (int d = 1; d < w.rank; ++d) {
    bool joins = true;
    for (int v = 0; v < N; ++v)
      joins = joins && w.strides[v][d] == w.strides[v][last] * w.sizes[last];
    if (joins) {
      w.sizes[last] *= w.sizes[d];
      continue;
    }
    ++last;
    w.sizes[last] = w.sizes[d];
    for (int v = 0; v < N; ++v) w.strides[v][last] = w.strides[v][d];
  }
  w.rank = w.rank > 0 ? last + 1 : 0;
  w.finish();
  return w;
}

// One thread for each run of at most `length` elements of w: kernel(runs, args...). There are as
// many blocks as that takes: a last wave of them is a small part then.
template <int N, class... P, class... A>
void each_run(const Run& run, const Walk<N>& w, int length, void (*kernel)(Runs<N>, P...),
              A&&... args) {
  in_pieces(in_order_of_output(w), [&](const Walk<N>& piece) {
    const auto runs = make_runs(piece, length, run.full());
    run.grid(Threads::apart, (int64_t(runs.total) + 255) / 256, 256, kernel, runs, args...);
  });
}

// ---- in kernels: the n elements at p, `step` apart; all of them in words if `whole`.

template <class S, int R>
struct Word {
  static constexpr size_t bytes = sizeof(S) * R < 16 ? sizeof(S) * R : 16;
  static constexpr int elements = int(bytes / sizeof(S)), count = R / elements;
  struct alignas(bytes) Type {
    S x[elements];
  };
};
using Bits32 = uint32_t __attribute__((may_alias));
template <class S, int R, class M>
GRADUS_HD inline void load_run(S (&x)[R], const M* p, int64_t step, int n, bool whole) {
  using W = Word<M, R>;
  if (whole) {
    for (int k = 0; k < W::count; ++k) {
      const auto word = reinterpret_cast<const typename W::Type*>(p)[k];
      for (int i = 0; i < W::elements; ++i) x[k * W::elements + i] = word.x[i];
    }
  } else {
    for (int k = 0; k < R; ++k, p += step)
      if (k < n) x[k] = *p;
  }
}
template <class S, int R>
GRADUS_HD inline void store_run(const S (&x)[R], S* p, int64_t step, int n, bool whole) {
  using W = Word<S, R>;
  if (whole) {
    for (int k = 0; k < W::count; ++k) {
      typename W::Type word;
      for (int i = 0; i < W::elements; ++i) word.x[i] = x[k * W::elements + i];
      reinterpret_cast<typename W::Type*>(p)[k] = word;
    }
  } else {
    for (int k = 0; k < R; ++k, p += step)
      if (k < n) *p = x[k];
  }
}

}  // namespace gradus::gpu
