// Packing for the real contraction: lines (rows of a, columns of b) from anywhere into a panel that
// holds, for each k, its lines side by side. Fast where the lines are neighbours, where runs of
// them are, where the steps of k are, and where two axes of a box of lines can be turned (both are
// transposed in registers).
#pragma once
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/contract/line_boxes.hpp"
#include "kernels/cpu/isa/tile.hpp"

#include <string.h>

namespace gradus::inline v1::cpu {

// n contiguous elements; what is written beyond them, up to a whole vector, is zero.
template <class T>
inline void copy_run(const T* from, int64_t n, T* to) {
  using B = Batch<T>;
  constexpr int64_t kWidth = int64_t(B::size);
  for (; n >= kWidth; n -= kWidth, from += kWidth, to += kWidth)
    B::load_unaligned(from).store_unaligned(to);
  if (n > 0) Some<T>(n).load(from).store_unaligned(to);
}

inline bool unit_steps(const int64_t* at, int64_t n) {
  for (int64_t i = 1; i < n; ++i)
    if (at[i] != at[0] + i) return false;
  return true;
}

// to[k * width + i] = from[at[i] + k_at[k]] for i < n <= width. Writes up to one vector beyond the
// panel.
template <class T>
void pack_lines(const T* from, const int64_t* at, int64_t n, int64_t width, const int64_t* k_at,
                int64_t kc, bool k_unit, T* to) {
  constexpr int64_t kMost = 64;  // lines of a panel
  if (unit_steps(at, n)) {
    for (int64_t k = 0; k < kc; ++k) copy_run(from + at[0] + k_at[k], n, to + k * width);
    return;
  }
  if (k_unit && kc > 1) {
    constexpr int64_t bytes = int64_t(sizeof(T)), line = 64 / bytes;
    int64_t places[kMost];
    for (int64_t i = 0; i < n; ++i) places[i] = (at[i] + k_at[0]) * bytes;
    // A whole line of them is quicker than most of one; what is more gives no sum that is kept.
    int64_t lines = n;
    if (n % line > 16 / bytes)
      for (const int64_t whole = least((n + line - 1) / line * line, width); lines < whole; ++lines)
        places[lines] = places[n - 1];
    find_transpose(bytes)(reinterpret_cast<char*>(to), width * bytes,
                          reinterpret_cast<const char*>(from), places, lines, kc);
    return;
  }
  int64_t first[kMost], length[kMost], runs = 0;
  for (int64_t i = 0; i < n && runs < kMost; i += length[runs++]) {
    first[runs] = i;
    length[runs] = 1;
    while (i + length[runs] < n && at[i + length[runs]] == at[i] + length[runs]) ++length[runs];
  }
  if (runs * 3 <= n) {  // one after the other: a run's zeros are overwritten by the next
    for (int64_t k = 0; k < kc; ++k)
      for (int64_t r = 0; r < runs; ++r)
        copy_run(from + at[first[r]] + k_at[k], length[r], to + k * width + first[r]);
    return;
  }
  for (int64_t k = 0; k < kc; ++k)
    for (int64_t i = 0; i < n; ++i) to[k * width + i] = from[at[i] + k_at[k]];
}

// A whole box whose lines have their neighbours along axis `turned`, not along the last: each step
// of k is turned square by square into the order of the lines (`turn` holds a box), then dealt out
// to panels that lie `step` apart.
template <class T>
void pack_turned(const T* from, const Box& box, int role, int turned, int64_t width,
                 const int64_t* k_at, int64_t kc, T* turn, T* to, int64_t step) {
  constexpr int64_t bytes = int64_t(sizeof(T)), kSide = 32, kLine = 64 / bytes;
  const Axes& axes = box.axes;
  const int last = axes.rank - 1;
  const int64_t across = axes.size[last], along = axes.size[turned], by = axes.stride[role][last],
                lines = axes.count;
  int64_t row = 1;  // lines from one to the next along `turned`
  for (int d = last; d > turned; --d) row *= axes.size[d];
  const TransposeFn transpose = find_transpose(bytes);
  int64_t at[kSide];
  for (int64_t i = 0; i < kSide; ++i) at[i] = i * by * bytes;
  for (int64_t k = 0; k < kc; ++k) {
    const int64_t next = k + 2 < kc ? k_at[k + 2] - k_at[k] : 0;
    for (int64_t o = 0; o < lines / (across * along); ++o) {
      int64_t start = box.start[role] + k_at[k], line = 0, rest = o, line_step = across;
      for (int d = last - 1; d >= 0; line_step *= axes.size[d], --d) {
        if (d == turned) continue;
        const int64_t i = rest % axes.size[d];
        rest /= axes.size[d];
        start += i * axes.stride[role][d];
        line += i * line_step;
      }
      for (int64_t i = 0; i < across; i += kSide) {
        const T* const f = from + start + i * by;
        const int64_t n = least(across - i, kSide);
        if (next != 0)
          for (int64_t j = 0; j < n; ++j) {
            const T* const line_ahead = f + next + j * by;
            for (int64_t b = 0; b < along; b += kLine) __builtin_prefetch(line_ahead + b);
            __builtin_prefetch(line_ahead + along - 1);
          }
        transpose(reinterpret_cast<char*>(turn + line + i), row * bytes,
                  reinterpret_cast<const char*>(f), at, n, along);
      }
    }
    for (int64_t p = 0; p * width < lines; ++p)
      copy_run(turn + p * width, least(lines - p * width, width), to + p * step + k * width);
  }
}

}  // namespace gradus::cpu
