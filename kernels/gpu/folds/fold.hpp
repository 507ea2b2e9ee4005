// Folding lines of numbers into one: what reduce.cu, softmax.cu and normalize.cu share, and scan.cu
// in part.
//
// The order of a fold depends on its length alone, whichever way memory runs, however many lines
// there are and on whatever device. A line is cut into at most 2048 chunks of 1024 * 2^k elements.
// A chunk has up to 128 members: of every 8 * members elements, member y folds two fours, the y-th
// of the first half and the y-th of the second, by a tree, and adds that to its own. The members'
// values are folded by a tree of neighbours; the chunks' values make up a line of their own. Which
// thread does the work of which members, and whether chunks go to different blocks, is open.
#pragma once
#include "kernels/gpu/runtime.hpp"
#include "kernels/gpu/values.hpp"
#include "kernels/gpu/walk.hpp"

namespace gradus::inline v1::gpu {

// ---- folds: Acc, what an element of storage type S is as one, and how two become one

template <class T>
struct Sums {  // and products
  using Acc = T;
  using Widest = T;                                         // the largest that an element is
  static constexpr int32_t partial = int32_t(dtype_of<T>);  // the dtype of a buffer of Acc
  bool product = false;

  GRADUS_HD T none() const { return T(product ? 1 : 0); }
  // An S that changes no fold of others.
  template <class S>
  GRADUS_HD S absent() const {
    return S(none());
  }
  template <class S>
  __device__ T of(S x, int64_t) const {
    return T(widened(x));
  }
  GRADUS_HD T combine(T a, T b) const { return product ? a * b : a + b; }
  template <class F>
  GRADUS_HD static void at_storage(int32_t dtype, F&& f) {
    gpu::at_storage<T>(dtype, f);
  }
  GRADUS_HD static void put(char* data, int64_t at, int32_t dtype, T x) {
    if constexpr (std::is_same_v<T, int64_t>)
      if (dtype == GD_BOOL) x = x != 0;  // stored as u8
    store_near(data, at, dtype, x);
  }
};

template <class T>
GRADUS_HD inline T lowest_of() {
  if constexpr (std::is_same_v<T, int64_t>)
    return int64_t(uint64_t(1) << 63);
  else
    return T(detail::bits_float(0xff800000u));
}

// Does x win over best? The first NaN wins over all, an equal one never.
template <class T>
GRADUS_HD inline bool beats(bool maximum, T x, T best) {
  if (best != best) return false;
  return x != x || (maximum ? x > best : x < best);
}

template <class T>
struct Extremes : Sums<T> {
  bool maximum = true;

  GRADUS_HD T none() const {
    const T low = lowest_of<T>();
    if constexpr (std::is_same_v<T, int64_t>)
      return maximum ? low : ~low;
    else
      return maximum ? low : -low;
  }
  template <class S>
  GRADUS_HD S absent() const {
    if constexpr (std::is_integral_v<S>) {
      constexpr S low = S(std::is_signed_v<S> ? uint64_t(1) << (8 * sizeof(S) - 1) : 0);
      return maximum ? low : S(~low);
    } else {
      return S(none());
    }
  }
  GRADUS_HD T combine(T a, T b) const { return beats(maximum, b, a) ? b : a; }
};

// Before kernels: the largest block, and how many of them a unit should hold at least.
#if defined(GRADUS_EMULATE)
#define GPU_BLOCK(...)
#else
#define GPU_BLOCK(...) __launch_bounds__(__VA_ARGS__)
#endif

// ---- the order

inline constexpr int kThreads = 256;  // of a block
inline constexpr int kMostWaves = kThreads / 32;
inline constexpr int kEight = 8;  // elements that a thread has in flight
inline constexpr int kLogMembers = 7;
inline constexpr int64_t kChunk = int64_t(kEight) << kLogMembers, kMostChunks = 2048;

inline int log2_up(int64_t n) {
  int log = 0;
  while ((int64_t(1) << log) < n) ++log;
  return log;
}
inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

inline int64_t chunk_of(int64_t length) {
  return kChunk << log2_up(parts(length, kChunk * kMostChunks));
}

// ---- teams: the threads that work on a line

struct Team {
  int32_t log_members = 0, log_threads = 0, log_lines = 8;
  bool across = true;  // neighbours in a wave have neighbouring lines, else are of one team

  Team() = default;
  // For this many lines of this length. Neighbours across take 32 lines at least, if they can, and
  // so have the work of several members each.
  Team(int64_t n_lines, int64_t length, bool neighbours_across) : across(neighbours_across) {
    const int wanted = log2_up(parts(length, kEight)), least = log2_up(n_lines);
    log_members = wanted < kLogMembers ? wanted : kLogMembers;
    const int most = across ? 8 - (least < 5 ? least : 5) : 8;
    log_threads = log_members < most ? log_members : most;
    log_lines = 8 - log_threads;
  }

  GRADUS_HD int members() const { return 1 << log_members; }
  GRADUS_HD int members_each() const { return 1 << (log_members - log_threads); }
  GRADUS_HD int threads() const { return 1 << log_threads; }
  GRADUS_HD int lines() const { return 1 << log_lines; }
  GRADUS_HD int64_t blocks_of(int64_t n) const { return (n + lines() - 1) >> log_lines; }
  GRADUS_HD int64_t step() const { return int64_t(kEight) << log_members; }
  __device__ int line() const {
    return across ? thread() & (lines() - 1) : thread() >> log_threads;
  }
  __device__ int place() const {
    return across ? thread() >> log_lines : thread() & (threads() - 1);
  }
  Threads kind() const { return log_threads > 0 ? Threads::together : Threads::apart; }
};

// Numbers that come one by one, folded by a tree of neighbours: at most 2^Log of them.
template <class Acc, int Log>
struct Tree {
  Acc kept[Log + 1];  // of finished subtrees, by height

  // Adds the k-th; gives the fold of the largest finished subtree that it ends.
  template <class F>
  __device__ Acc add(const F& f, Acc x, int k) {
    bool finished = true;
    GPU_UNROLL
    for (int h = 0; h <= Log; ++h) {
      const bool right = (k >> h & 1) != 0;
      if (finished && right) x = f.combine(kept[h], x);
      if (finished && !right) kept[h] = x;
      finished = finished && right;
    }
    return x;
  }
};

template <class F, class Acc = typename F::Acc>
__device__ inline Acc fold_eight(const F& f, const Acc (&v)[kEight]) {
  return f.combine(f.combine(f.combine(v[0], v[1]), f.combine(v[2], v[3])),
                   f.combine(f.combine(v[4], v[5]), f.combine(v[6], v[7])));
}

// The folds of what the threads of a team that are neighbours have, `used` values each, for all of
// the team. All threads of the block call it together; shared has room for E values of each wave.
template <int E, class F, class Acc = typename F::Acc>
__device__ inline void fold_neighbours(const F& f, Acc (&acc)[E], int used, const Team& team,
                                       Acc* shared) {
  const int n = team.threads(), y = team.place(), wave = wave_width();
  if (n == 1) return;
  GPU_UNROLL
  for (int e = 0; e < E; ++e) {
    if (e >= used) continue;
    GPU_ROLLED
    for (int d = 1; d < n && d < wave; d *= 2)
      acc[e] = f.combine(acc[e], shuffle(acc[e], lane() ^ d));
    if (n <= wave) acc[e] = shuffle(acc[e], lane() - y);
  }
  if (n <= wave) return;
  static_assert(kLogMembers <= 7);  // two or four waves
  Acc* const own = shared + (thread() - y) / wave * E;
  if (lane() == 0) {
    GPU_UNROLL
    for (int e = 0; e < E; ++e) own[y / wave * E + e] = acc[e];
  }
  barrier();
  GPU_UNROLL
  for (int e = 0; e < E; ++e) acc[e] = f.combine(own[e], own[E + e]);
  if (n > 2 * wave) {
    GPU_UNROLL
    for (int e = 0; e < E; ++e)
      acc[e] = f.combine(acc[e], f.combine(own[2 * E + e], own[3 * E + e]));
  }
  barrier();
}

// The same for a value each of any team; shared has room for a value of each thread.
template <class F, class Acc = typename F::Acc>
__device__ inline Acc fold_team(const F& f, Acc acc, const Team& team, Acc* shared) {
  const int n = team.threads(), apart = team.lines();
  if (n == 1) return acc;
  if (!team.across) {
    Acc one[1] = {acc};
    fold_neighbours(f, one, 1, team, shared);
    return one[0];
  }
  shared[thread()] = acc;
  barrier();
  Tree<Acc, kLogMembers - 1> tree;
  const Acc* at = shared + team.line();
  GPU_ROLLED
  for (int y = 0; y < n; y += 2, at += 2 * apart)
    acc = tree.add(f, f.combine(at[0], at[apart]), y / 2);
  barrier();
  return acc;
}

// A thread's part of the fold of elements [begin, end) by a team. load(base, member, v) gives the
// member's eight of those from base on; `about` goes to it as arguments, since what closures refer
// to, hipcc copies to slow memory.
template <class F, class L, class... A, class Acc = typename F::Acc>
__device__ inline Acc fold_part(const F& f, const Team& team, int64_t begin, int64_t end,
                                const L& load, const A&... about) {
  Acc acc = f.none();
  Tree<Acc, kLogMembers> tree;
  const int each = team.members_each(), first = team.place() * each;
  for (int k = 0; k < each; ++k) {
    Acc own = f.none();
    for (int64_t base = begin; base < end; base += team.step()) {
      Acc v[kEight];
      load(base, first + k, v, about...);
      own = f.combine(own, fold_eight(f, v));
    }
    acc = tree.add(f, own, k);
  }
  return acc;
}

// The fold for all of the team. here: is there a line for it?
template <class F, class L, class... A, class Acc = typename F::Acc>
__device__ inline Acc fold_chunk(const F& f, const Team& team, bool here, int64_t begin,
                                 int64_t end, Acc* shared, const L& load, const A&... about) {
  const Acc acc = here ? fold_part(f, team, begin, end, load, about...) : f.none();
  return fold_team(f, acc, team, shared);
}

// ---- elements

// Elements i .. i + 3 and i + gap .. i + gap + 3 of a line, and where they lie, as places(k, runs,
// at) has it. runs: those of each four lie together, and `at` is asked for the first of each.
struct Eight {
  int64_t k[kEight], at[kEight];
  bool runs;
  int64_t end;  // of the line: there are no elements from here on

  template <class P, class... A>
  __device__ Eight(bool together, int64_t i, int64_t gap, int64_t n, const P& places,
                   const A&... about)
      : runs(together), end(n) {
    GPU_UNROLL
    for (int j = 0; j < kEight; ++j) k[j] = i + j / 4 * gap + j % 4;
    places(k, runs, at, about...);
    GPU_UNROLL
    for (int j = 0; j < kEight; ++j)
      if (runs && j % 4) at[j] = at[j / 4 * 4] + j % 4;
  }
  // f.none() for those that are not there.
  template <class F>
  __device__ void load(const F& f, const char* data, int32_t dtype,
                       typename F::Acc (&v)[kEight]) const {
    GPU_UNROLL
    for (int j = 0; j < kEight; ++j) v[j] = f.none();
    F::at_storage(dtype, [&](auto zero) {
      using S = decltype(zero);
      const S* from = reinterpret_cast<const S*>(data);
      GPU_UNROLL
      for (int half = 0; half < kEight; half += 4) {
        if (runs && k[half] + 4 <= end && aligned(from + at[half])) {
          const Four<S> x = *reinterpret_cast<const Four<S>*>(from + at[half]);
          GPU_UNROLL
          for (int j = 0; j < 4; ++j) v[half + j] = f.of(x.x[j], k[half + j]);
        } else {
          GPU_UNROLL
          for (int j = half; j < half + 4; ++j)
            if (k[j] < end) v[j] = f.of(from[at[j]], k[j]);
        }
      }
    });
  }
  template <class T>
  __device__ void store(char* data, int32_t dtype, const T (&v)[kEight]) const {
    at_storage<T>(dtype, [&](auto zero) {
      using S = decltype(zero);
      S* to = reinterpret_cast<S*>(data);
      GPU_UNROLL
      for (int half = 0; half < kEight; half += 4) {
        if (runs && k[half] + 4 <= end && aligned(to + at[half])) {
          Four<S> x;
          GPU_UNROLL
          for (int j = 0; j < 4; ++j) x.x[j] = S(v[half + j]);
          *reinterpret_cast<Four<S>*>(to + at[half]) = x;
        } else {
          GPU_UNROLL
          for (int j = half; j < half + 4; ++j)
            if (k[j] < end) to[at[j]] = S(v[j]);
        }
      }
    });
  }
};

// The places of elements along one axis.
struct AlongAxis {
  int64_t first, stride;
  __device__ void operator()(const int64_t (&k)[kEight], bool, int64_t (&at)[kEight]) const {
    GPU_UNROLL
    for (int j = 0; j < kEight; ++j) at[j] = first + k[j] * stride;
  }
};

// The places of a line's elements, which number `begin` and up: those of a walk are of 31-bit
// numbers, so they are counted from the outermost index that the line has there.
template <int View>
struct Places {
  int64_t first, zero;

  template <int N>
  __device__ Places(const Walk<N>& t, int64_t at, int64_t begin, int64_t inner)
      : first(at), zero(0) {
    if (t.count <= kMostElements || t.rank <= 1) return;
    const int64_t skipped = begin / inner;
    first += skipped * t.strides[View][t.rank - 1];
    zero = skipped * inner;
  }
  template <int N>
  __device__ void operator()(const int64_t (&k)[kEight], bool runs, int64_t (&at)[kEight],
                             const Walk<N>& terms) const {
    uint32_t left[kEight];
    GPU_UNROLL
    for (int j = 0; j < kEight; ++j) at[j] = first;
    const int rank = terms.rank;
    if (rank <= 1) {
      const int64_t stride = terms.strides[View][0];
      GPU_UNROLL
      for (int j = 0; j < kEight; ++j) at[j] += k[j] * stride;
      return;
    }
    GPU_UNROLL
    for (int j = 0; j < kEight; ++j) left[j] = uint32_t(k[j] - zero);
    for (int d = 0; d < rank; ++d) {
      const Divisor size = terms.divisors[d];
      const int64_t stride = terms.strides[View][d];
      GPU_UNROLL
      for (int j = 0; j < kEight; ++j) {
        if (runs && j % 4) continue;
        const uint32_t rest = d + 1 < rank ? size.quotient(left[j]) : 0;
        at[j] += int64_t(left[j] - rest * size.divisor) * stride;
        left[j] = rest;
      }
    }
  }
};

// ---- lines, on the host

// Calls f(T{}) with the type that computes for a dtype.
template <class F>
void at_computing(int32_t dtype, F&& f) {
  switch (dtype) {
    case GD_F32:
    case GD_F16:
    case GD_BF16:
      return f(float{});
    case GD_F64:
      return f(double{});
    case GD_C64:
      return f(c64{});
    case GD_C128:
      return f(c128{});
    default:
      return f(int64_t{});
  }
}

// How far a step along an axis goes; one that stays where it is counts as the longest.
inline int64_t step_length(int64_t stride) {
  return stride == 0 ? INT64_MAX : stride < 0 ? -stride : stride;
}

// Axes that go together.
struct Axes {
  int rank = 0;
  int64_t sizes[kMaxViewRank], strides[6][kMaxViewRank];  // of at most so many views

  void add(int64_t size, std::initializer_list<int64_t> by);
  int64_t count() const;
  // The largest strides of the first view first: neighbours in memory become neighbours in a walk.
  void sort();
  int64_t least() const;  // the smallest stride of the first view that is not 0
  // `of`'s memory by the strides of view k.
  gd_view view(int k, const gd_view& of) const;
  // The strides of an array of these sizes whose elements lie `step` apart.
  void pack(int64_t step, int64_t (&to)[kMaxViewRank]) const;
};

// Does view v lie together along the innermost axis of w, in fours?
template <int N>
bool runs(const Walk<N>& w, int v) {
  return w.strides[v][0] == 1 && (w.rank <= 1 || w.sizes[0] % 4 == 0);
}

// Do the lines of view v, of stride 1, begin where fours do, and end there?
template <int N>
bool are_rows(const Walk<N>& lines, int v, int64_t length) {
  const size_t size = itemsize(DType(lines.dtype[v]));
  bool fours = length % 4 == 0 &&
               reinterpret_cast<uintptr_t>(lines.data[v]) % (size < 4 ? 4 * size : 16) == 0;
  for (int d = 0; d < lines.rank; ++d) fours = fours && lines.strides[v][d] % 4 == 0;
  return fours;
}

// Elements along all axes of w but the outermost, for Places.
template <int N>
int64_t inner_of(const Call& call, const Walk<N>& w) {
  const int64_t inner = w.rank > 1 ? w.count / w.sizes[w.rank - 1] : 1;
  if (w.rank > 1 && w.count > kMostElements && inner > kMostElements / 2)
    call.refuse(GD_UNSUPPORTED, "a line of %lld elements in rows of %lld",
                static_cast<long long>(w.count), static_cast<long long>(inner));
  return inner;
}

}  // namespace gradus::gpu
