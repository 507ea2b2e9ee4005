// Walk: several views of equal sizes seen as one loop nest, its axes merged where all views allow.
// Any run [start, start + n) of the row-major order can be gathered into a contiguous block or
// scattered from one, so kernels only ever see contiguous blocks. Knows bytes, not numbers.
#pragma once
#include "kernels/cpu/call.hpp"

#include <string.h>

namespace gradus::inline v1::cpu {

inline constexpr int kMaxViews = 6;
inline constexpr int64_t kBlock = 512;  // elements of one gathered block, a multiple of kPad

struct Walk {
  int rank = 0, views = 0;
  int64_t size[kMaxRank];
  int64_t stride[kMaxViews][kMaxRank];  // bytes
  char* base[kMaxViews];
  int64_t item[kMaxViews];

  int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= size[d];
    return n;
  }
  // In the order of the walk, without gaps.
  bool contiguous(int v) const {
    int64_t step = item[v];
    for (int d = rank - 1; d >= 0; --d) {
      if (stride[v][d] != step && size[d] != 1) return false;
      step *= size[d];
    }
    return true;
  }
  bool scalar(int v) const {
    for (int d = 0; d < rank; ++d)
      if (stride[v][d] != 0) return false;
    return true;
  }
};

inline void add_view(Walk& w, const gd_view& v) {
  const int k = w.views++;
  w.rank = v.rank;
  w.item[k] = int64_t(itemsize(DType(v.dtype)));
  w.base[k] = v.data ? start_of(v) : nullptr;
  for (int d = 0; d < v.rank; ++d) {
    w.size[d] = v.sizes[d];
    w.stride[k][d] = v.data ? v.strides[d] * w.item[k] : 0;
  }
}

// Puts axis `from` in place `to`, moving those between by one.
inline void move_axis(Walk& w, int from, int to) {
  const int step = from < to ? 1 : -1;
  for (int d = from; d != to; d += step) {
    const int64_t s = w.size[d];
    w.size[d] = w.size[d + step];
    w.size[d + step] = s;
    for (int v = 0; v < w.views; ++v) {
      const int64_t t = w.stride[v][d];
      w.stride[v][d] = w.stride[v][d + step];
      w.stride[v][d + step] = t;
    }
  }
}

// Drops axes of size 1 and merges neighbours that every view steps through evenly. The row-major
// order stays what it was.
inline void merge_axes(Walk& w) {
  int n = 0;
  for (int d = 0; d < w.rank; ++d) {
    if (w.size[d] == 1) continue;
    bool even = n > 0;
    for (int v = 0; v < w.views && even; ++v)
      even = w.stride[v][n - 1] == w.stride[v][d] * w.size[d];
    if (even) {
      w.size[n - 1] *= w.size[d];
    } else {
      w.size[n++] = w.size[d];
    }
    for (int v = 0; v < w.views; ++v) w.stride[v][n - 1] = w.stride[v][d];
  }
  w.rank = n;
}

// Sorts the axes so that view v runs through memory upwards: for kernels without an order of their
// own. Then merges.
inline void sort_axes(Walk& w, int v) {
  auto reach = [&](int d) { return w.stride[v][d] < 0 ? -w.stride[v][d] : w.stride[v][d]; };
  for (int d = 1; d < w.rank; ++d) {
    int to = d;
    while (to > 0 && reach(to - 1) < reach(d)) --to;
    if (to != d) move_axis(w, d, to);
  }
  merge_axes(w);
}

namespace detail {
template <int B>
inline void strided_copy(char* to, int64_t to_step, const char* from, int64_t from_step,
                         int64_t n) {
  for (int64_t i = 0; i < n; ++i) memcpy(to + i * to_step, from + i * from_step, B);
}
}  // namespace detail

// n elements of `item` bytes, at any byte steps.
inline void copy_row(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n,
                     int64_t item) {
  if (to_step == item && from_step == item) {
    memcpy(to, from, size_t(n * item));
    return;
  }
  switch (item) {
    case 1:
      return detail::strided_copy<1>(to, to_step, from, from_step, n);
    case 2:
      return detail::strided_copy<2>(to, to_step, from, from_step, n);
    case 4:
      return detail::strided_copy<4>(to, to_step, from, from_step, n);
    case 8:
      return detail::strided_copy<8>(to, to_step, from, from_step, n);
    default:
      return detail::strided_copy<16>(to, to_step, from, from_step, n);
  }
}

// Calls f(pointer into view v, elements, byte step) for the rows that make up [start, start + n) of
// the first `rank` axes.
template <class F>
inline void for_rows(const Walk& w, int v, int rank, int64_t start, int64_t n, F&& f) {
  if (rank == 0) {
    if (n > 0) f(w.base[v], n, int64_t(0));
    return;
  }
  int64_t index[kMaxRank];
  char* p = w.base[v];
  for (int d = rank - 1; d >= 0; --d) {
    index[d] = start % w.size[d];
    start /= w.size[d];
    p += index[d] * w.stride[v][d];
  }
  const int last = rank - 1;
  const int64_t step = w.stride[v][last];
  while (n > 0) {
    const int64_t left = w.size[last] - index[last], run = left < n ? left : n;
    f(p, run, step);
    n -= run;
    if (n == 0) return;
    p -= index[last] * step;
    index[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      p += w.stride[v][d];
      if (++index[d] < w.size[d]) break;
      p -= index[d] * w.stride[v][d];
      index[d] = 0;
    }
  }
}

template <class F>
inline void for_rows(const Walk& w, int v, int64_t start, int64_t n, F&& f) {
  for_rows(w, v, w.rank, start, n, static_cast<F&&>(f));
}

// As for_rows, for all views at once: calls f(pointers, elements) with w.stride[v][rank - 1] as
// steps.
template <class F>
inline void for_all_rows(const Walk& w, int64_t start, int64_t n, F&& f) {
  char* p[kMaxViews];
  int64_t index[kMaxRank];
  for (int v = 0; v < w.views; ++v) p[v] = w.base[v];
  auto step = [&](int d, int64_t by) {
    for (int v = 0; v < w.views; ++v) p[v] += by * w.stride[v][d];
  };
  const int last = w.rank - 1;
  for (int d = last; d >= 0; --d) {
    index[d] = start % w.size[d];
    start /= w.size[d];
    step(d, index[d]);
  }
  if (w.rank == 0) {
    if (n > 0) f(static_cast<char* const*>(p), int64_t(1));
    return;
  }
  while (n > 0) {
    const int64_t left = w.size[last] - index[last], run = left < n ? left : n;
    f(static_cast<char* const*>(p), run);
    n -= run;
    if (n == 0) return;
    step(last, -index[last]);
    index[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      step(d, 1);
      if (++index[d] < w.size[d]) break;
      step(d, -index[d]);
      index[d] = 0;
    }
  }
}

// n elements of the rows of `period` elements at p, from element `start` of them all on.
inline void repeat_rows(char* block, const char* p, int64_t start, int64_t n, int64_t period,
                        int64_t item) {
  const int64_t phase = start % period * item, row = period * item, all = n * item;
  int64_t have = row - phase < all ? row - phase : all;
  memcpy(block, p + phase, size_t(have));
  if (have == all) return;
  const int64_t rest = phase < all - have ? phase : all - have;
  memcpy(block + have, p, size_t(rest));
  for (have += rest; have < all; have *= 2)
    memcpy(block + have, block, size_t(have < all - have ? have : all - have));
}

namespace detail {
template <int B, int64_t Size>
inline void rows_of(char* to, const char* from, int64_t from_step, int64_t from_row, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r, from += from_row, to += Size * B)
    for (int64_t i = 0; i < Size; ++i) memcpy(to + i * B, from + i * from_step, B);
}
// `rows` rows of `size` elements each, one after the other.
template <int B>
inline void short_rows(char* to, const char* from, int64_t from_step, int64_t size,
                       int64_t from_row, int64_t rows) {
  switch (size) {  // unrolled
    case 2:
      return rows_of<B, 2>(to, from, from_step, from_row, rows);
    case 3:
      return rows_of<B, 3>(to, from, from_step, from_row, rows);
    case 4:
      return rows_of<B, 4>(to, from, from_step, from_row, rows);
    default:
      for (int64_t r = 0; r < rows; ++r, to += size * B)
        strided_copy<B>(to, B, from + r * from_row, from_step, size);
  }
}
// `planes` of them.
template <int B>
inline char* short_planes(char* to, const char* from, int64_t from_step, int64_t size,
                          int64_t from_row, int64_t rows, int64_t from_plane, int64_t planes) {
  for (int64_t p = 0; p < planes; ++p, from += from_plane, to += rows * size * B)
    short_rows<B>(to, from, from_step, size, from_row, rows);
  return to;
}
}  // namespace detail

inline constexpr int64_t kShortRow =
    16;  // elements of a row that is too short for a loop of its own

// Row by row; gives the end of what was written.
inline char* gather_rows(const Walk& w, int v, int64_t start, int64_t n, char* to) {
  const int64_t item = w.item[v];
  for_rows(w, v, start, n, [&](const char* p, int64_t run, int64_t step) {
    copy_row(to, item, p, step, run, item);
    to += run * item;
  });
  return to;
}
// Where rows are short whole ones are taken together and, if they are few, whole planes of them.
[[gnu::noinline]] inline void gather_short_rows(const Walk& w, int v, int64_t start, int64_t n,
                                                char* to) {
  const int last = w.rank - 1;
  const int64_t item = w.item[v], size = w.size[last], step = w.stride[v][last],
                row = w.stride[v][last - 1];
  const bool planes = last > 1 && w.size[last - 1] < kShortRow;
  const int64_t rows = planes ? w.size[last - 1] : 1, unit = rows * size;
  const int64_t first = (start + unit - 1) / unit, end = (start + n) / unit;
  if (first >= end) {
    gather_rows(w, v, start, n, to);
    return;
  }
  to = gather_rows(w, v, start, first * unit - start, to);
  for_rows(
      w, v, planes ? last - 1 : last, first, end - first,
      [&](const char* p, int64_t run, int64_t by) {
        // Rows are planes of one, as far as the loops go.
        const int64_t inner = planes ? rows : run, inner_step = planes ? row : by;
        const int64_t outer = planes ? run : 1, outer_step = planes ? by : 0;
        switch (item) {
          case 4:
            to = detail::short_planes<4>(to, p, step, size, inner_step, inner, outer_step, outer);
            break;
          case 8:
            to = detail::short_planes<8>(to, p, step, size, inner_step, inner, outer_step, outer);
            break;
          default:
            for (int64_t i = 0; i < outer; ++i)
              for (int64_t r = 0; r < inner; ++r, to += size * item)
                copy_row(to, item, p + i * outer_step + r * inner_step, step, size, item);
        }
      });
  gather_rows(w, v, end * unit, start + n - end * unit, to);
}

inline void gather_block(const Walk& w, int v, int64_t start, int64_t n, void* block) {
  char* const to = static_cast<char*>(block);
  if (w.rank > 1 && w.size[w.rank - 1] < kShortRow && n > 2 * w.size[w.rank - 1])
    gather_short_rows(w, v, start, n, to);
  else
    gather_rows(w, v, start, n, to);
}
inline void scatter_block(const Walk& w, int v, int64_t start, int64_t n, const void* block) {
  const char* from = static_cast<const char*>(block);
  const int64_t item = w.item[v];
  for_rows(w, v, start, n, [&](char* p, int64_t run, int64_t step) {
    copy_row(p, step, from, item, run, item);
    from += run * item;
  });
}

}  // namespace gradus::cpu
