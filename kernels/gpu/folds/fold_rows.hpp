// Kernels of reduce.cu for lines of several waves of members whose memory can be read in aligned
// fours: along the line (rows) or across lines (columns). The order is that of fold.hpp.
#pragma once
#include "kernels/gpu/folds/fold.hpp"

namespace gradus::inline v1::gpu {

// Eights that a thread loads before it folds them: 128 bytes. And the blocks of fold_rows that a
// unit should hold at least, so that others load while one folds.
template <class F>
inline constexpr int kEightsAtOnce = sizeof(typename F::Widest) <= 4   ? 4
                                     : sizeof(typename F::Widest) <= 8 ? 2
                                                                       : 1;
template <class F>
inline constexpr int kBlocks = sizeof(typename F::Acc) <= 4   ? 5
                               : sizeof(typename F::Acc) <= 8 ? 4
                                                              : 3;

inline constexpr int kMembers = 1 << kLogMembers, kTurn = int(kChunk);
inline constexpr int kMostGroup = 8;  // chunks of a line that a team of rows folds

struct RowsJob {
  int32_t group;          // chunks that a team takes
  int64_t chunk, chunks;  // elements of a chunk, number of chunks
  int64_t groups;         // of a line; 1: the team folds the line
  int64_t length, step;   // of a line; from one chunk's result to the next
};

// A Four as words: of 16-bit elements the compiler would make registers of 16 bits each.
template <class S>
struct [[gnu::may_alias]] alignas(alignof(Four<S>)) Words {
  uint32_t words[sizeof(Four<S>) / 4];

  Words() = default;
  __device__ explicit Words(S x) {
    const Four<S> all{{x, x, x, x}};
    memcpy(words, &all, sizeof words);
  }
  __device__ void load(const S* from) { *this = *reinterpret_cast<const Words*>(from); }
  __device__ Four<S> four() const {
    Four<S> all;
    memcpy(&all, words, sizeof words);
    return all;
  }
};

// Folds each of the first eights of B turns, of which `left` elements are there, in whole fours.
template <class F, class S, class Acc = typename F::Acc>
__device__ inline void fold_eights(const F& f, const S* from, int64_t number, int left,
                                   Acc (&eights)[kEightsAtOnce<F>]) {
  constexpr int B = kEightsAtOnce<F>, kGap = kTurn / 2;
  const Words<S> absent(f.template absent<S>());
  Words<S> x[2 * B];
  GPU_UNROLL
  for (int n = 0; n < 2 * B; ++n) {
    x[n] = absent;
    if (n * kGap < left) x[n].load(from + n * kGap);
  }
  GPU_UNROLL
  for (int b = 0; b < B; ++b) {
    Acc v[kEight];
    GPU_UNROLL
    for (int j = 0; j < kEight; ++j)
      v[j] = f.of(x[2 * b + j / 4].four().x[j % 4], number + b * kTurn + j / 4 * kGap + j % 4);
    eights[b] = fold_eight(f, v);
  }
}

// The folds of part[0], part[1], ... over the lanes of a wave: lane l < B has that of part[row(l)].
// Each step but the last ones leaves a lane half of the values.
template <int B, class F, class Acc>
__device__ inline Acc fold_lanes(const F& f, Acc (&part)[B]) {
  int d = 1;
  GPU_UNROLL
  for (int n = B / 2; n > 0; n /= 2, d *= 2) {
    const bool high = (lane() & d) != 0;
    GPU_UNROLL
    for (int i = 0; i < n; ++i) {
      const Acc own = high ? part[n + i] : part[i], other = high ? part[i] : part[n + i],
                got = shuffle(other, lane() ^ d);
      part[i] = f.combine(high ? got : own, high ? own : got);
    }
  }
  Acc acc = part[0];
  GPU_UNROLL
  for (; d < 32; d *= 2) acc = f.combine(acc, shuffle(acc, lane() ^ d));
  if (wave_width() > 32) acc = f.combine(acc, shuffle(acc, lane() ^ 32));
  return acc;
}
template <int B>
__device__ inline int row_of(int lane) {
  static_assert(B <= 4);
  return B == 4 ? (lane & 1) * 2 + (lane >> 1) : lane;
}

// lines: in, out. A team of a thread for each member takes `group` chunks of a line; its threads
// meet once, when all is loaded.
template <class F>
__global__ void GPU_BLOCK(kThreads, kBlocks<F>) fold_rows(Walk<2> lines, RowsJob job, F f) {
  using Acc = typename F::Acc;
  constexpr int B = kEightsAtOnce<F>, kTeams = kThreads / kMembers, kWaves = kMembers / 32;
  GPU_SHARED(Acc, shared, kTeams * kMostGroup * kWaves);
  const int team = thread() / kMembers, member = thread() % kMembers, wave = wave_width();
  Acc* const own = shared + team * kMostGroup * kWaves;
  const int64_t units = lines.count * job.groups, tasks = (units + kTeams - 1) / kTeams;
  const bool one = job.chunk > kTurn;
  for (int64_t task = block(); task < tasks; task += blocks()) {
    const int64_t unit = task * kTeams + team, group = job.groups > 1 ? unit / lines.count : 0;
    const bool here = unit < units;
    int64_t at[2] = {0, 0};
    if (here) lines.places(unit - group * lines.count, at);
    const int64_t first = group * job.group * job.chunk + member * 4;
    const int64_t most = (one ? job.chunk : job.group * job.chunk) - member * 4,
                  rest = here && first < job.length ? job.length - first : 0;
    const int left = int(rest < most ? rest : most);
    GPU_ROLLED
    for (int k = 0; k < job.group; k += B) {
      Acc part[B];
      GPU_UNROLL
      for (int b = 0; b < B; ++b) part[b] = f.none();
      F::at_storage(lines.dtype[0], [&](auto zero) {
        using S = decltype(zero);
        const S* const from = reinterpret_cast<const S*>(lines.data[0]) + at[0] + first;
        int i = k * kTurn;
        const int end = one ? left : left < i + B * kTurn ? left : i + B * kTurn;
        GPU_ROLLED
        for (; i < end; i += B * kTurn) {
          Acc eights[B];
          fold_eights(f, from + i, first + i, end - i, eights);
          if (one) {
            GPU_UNROLL
            for (int b = 0; b < B; ++b) part[0] = f.combine(part[0], eights[b]);
          } else {
            GPU_UNROLL
            for (int b = 0; b < B; ++b) part[b] = f.combine(part[b], eights[b]);
          }
        }
      });
      const Acc acc = fold_lanes<B>(f, part);
      if (lane() < B && k + row_of<B>(lane()) < kMostGroup)
        own[(k + row_of<B>(lane())) * kWaves + member / wave] = acc;
    }
    barrier();
    const int c = member % kMostGroup;
    Acc acc = f.none();
    if (c < job.group) {
      const Acc* const of = own + c * kWaves;
      acc = f.combine(of[0], of[1]);
      if (wave == 32) acc = f.combine(acc, f.combine(of[2], of[3]));
    }
    const int64_t chunk = group * job.group + c;
    if (job.groups == 1) {
      GPU_ROLLED
      for (int d = 1; d < job.group; d *= 2) acc = f.combine(acc, shuffle(acc, lane() ^ d));
      if (here && member == 0) F::put(lines.data[1], at[1], lines.dtype[1], acc);
    } else if (here && member < job.group && chunk < job.chunks) {
      F::put(lines.data[1], at[1] + chunk * job.step, lines.dtype[1], acc);
    }
    barrier();
  }
}

struct ColumnsJob {
  int32_t log_width;      // of the fours of lines that a block takes
  int32_t group;          // chunks that a thread takes
  int64_t chunk, chunks;  // elements of a chunk, number of chunks
  int64_t groups;         // of a line; 1: the block folds its lines
  int64_t length, step;   // of a line; from one chunk's result to the next
  int64_t stride;         // from one element of a line to the next

  GRADUS_HD int64_t tasks(int64_t lines) const {
    return ((lines + (4 << log_width) - 1) >> (log_width + 2)) * groups;
  }
};

// Words for which there is fold_columns.
template <class F>
inline constexpr bool kHasColumns = sizeof(typename F::Acc) <= 8 && sizeof(typename F::Widest) <= 8;

// Adds a member's eight of four lines to `own`: elements i .. i + 3 and so many after half a turn.
template <class F, class S, class Acc = typename F::Acc>
__device__ inline void fold_four_lines(const F& f, const S* from, int64_t stride, int64_t number,
                                       int left, Acc (&own)[4]) {
  constexpr int kAtOnce = sizeof(typename F::Widest) <= 4 ? kEight : kEight / 2;
  const Words<S> absent(f.template absent<S>());
  Acc half[2][4];
  GPU_UNROLL
  for (int first = 0; first < kEight; first += kAtOnce) {
    Words<S> x[kAtOnce];
    GPU_UNROLL
    for (int n = 0; n < kAtOnce; ++n, from += stride) {
      if (first + n == 4) from += (kTurn / 2 - 4) * stride;
      x[n] = absent;
      if ((first + n) / 4 * (kTurn / 2) + n % 4 < left) x[n].load(from);
    }
    GPU_UNROLL
    for (int n = 0; n < kAtOnce; n += 4) {
      const int64_t k = number + (first + n) / 4 * (kTurn / 2);
      GPU_UNROLL
      for (int c = 0; c < 4; ++c) {
        const auto of = [&](int j) { return f.of(x[n + j].four().x[c], k + j); };
        half[(first + n) / 4][c] = f.combine(f.combine(of(0), of(1)), f.combine(of(2), of(3)));
      }
    }
  }
  GPU_UNROLL
  for (int c = 0; c < 4; ++c) own[c] = f.combine(own[c], f.combine(half[0][c], half[1][c]));
}

// The same for lines that are neighbours in memory: a thread has four of them and several members.
template <class F>
__global__ void GPU_BLOCK(kThreads, sizeof(typename F::Acc) <= 4 ? 4 : 2)
    fold_columns(Walk<2> lines, ColumnsJob job, F f) {
  using Acc = typename F::Acc;
  GPU_SHARED(Acc, shared, kThreads * 4);
  const int log_places = 8 - job.log_width, places = 1 << log_places, width = 4 << job.log_width,
            x = (thread() * 4) & (width - 1), y = thread() >> job.log_width,
            each = kMembers >> log_places;
  const int64_t tasks = job.tasks(lines.count), wide = tasks / job.groups;
  for (int64_t task = block(); task < tasks; task += blocks()) {
    const int64_t group = job.groups > 1 ? task / wide : 0, line = (task - group * wide) * width;
    const bool here = line + x < lines.count;
    int64_t at[2] = {0, 0}, to[2] = {0, 0};
    if (here) lines.places(line + x, at);
    const bool writes = thread() < width && line + thread() < lines.count;
    if (writes) lines.places(line + thread(), to);
    Tree<Acc, 3> of_chunks;
    Acc acc = f.none();
    GPU_ROLLED
    for (int k = 0; k < job.group; ++k) {
      const int64_t chunk = group * job.group + k, begin = chunk * job.chunk,
                    most = job.length - begin;
      const int left = !here || most < 0 ? 0 : int(most < job.chunk ? most : job.chunk);
      F::at_storage(lines.dtype[0], [&](auto zero) {
        using S = decltype(zero);
        const S* const from = reinterpret_cast<const S*>(lines.data[0]) + at[0];
        Tree<Acc, 3> tree[4];
        Acc own[4];
        GPU_ROLLED
        for (int m = 0; m < each; ++m) {
          GPU_UNROLL
          for (int c = 0; c < 4; ++c) own[c] = f.none();
          GPU_ROLLED
          for (int i = (y * each + m) * 4; i < left; i += kTurn)
            fold_four_lines(f, from + (begin + i) * job.stride, job.stride, begin + i, left - i,
                            own);
          GPU_UNROLL
          for (int c = 0; c < 4; ++c) own[c] = tree[c].add(f, own[c], m);
        }
        GPU_UNROLL
        for (int c = 0; c < 4; ++c) shared[y * width + x + c] = own[c];
      });
      barrier();
      if (thread() < width) {
        Tree<Acc, 3> tree;
        const Acc* of = shared + thread();
        Acc part = f.none();
        GPU_ROLLED
        for (int n = 0; n < places; n += 2, of += 2 * width)
          part = tree.add(f, f.combine(of[0], of[width]), n / 2);
        if (job.groups == 1)
          acc = of_chunks.add(f, part, k);
        else if (writes && chunk < job.chunks)
          F::put(lines.data[1], to[1] + chunk * job.step, lines.dtype[1], part);
      }
      barrier();
    }
    if (job.groups == 1 && writes) F::put(lines.data[1], to[1], lines.dtype[1], acc);
  }
}

}  // namespace gradus::gpu
