// reduce: a line for each element of the output. Few long lines are folded in two stages.
#include "kernels/gpu/folds/fold_rows.hpp"

namespace gradus::inline v1::gpu {
namespace {

constexpr int32_t kWinner = -1;  // "dtype" of partial winners

template <class T>
struct Winner {
  T value;
  int64_t index;
};
// argmax and argmin.
template <class T>
struct Winners {
  using Acc = Winner<T>;
  using Widest = Acc;
  static constexpr int32_t partial = kWinner;
  Extremes<T> values;

  GRADUS_HD Acc none() const { return {values.none(), int64_t(~uint64_t(0) >> 1)}; }
  template <class S>
  GRADUS_HD S absent() const {
    if constexpr (std::is_same_v<S, Acc>)
      return none();
    else
      return values.template absent<S>();
  }
  template <class S>
  GRADUS_HD Acc of(S x, int64_t i) const {
    return {widened<T>(x), i};
  }
  GRADUS_HD Acc of(Acc x, int64_t) const { return x; }
  GRADUS_HD Acc combine(Acc a, Acc b) const {
    const bool wins = beats(values.maximum, b.value, a.value),
               loses = beats(values.maximum, a.value, b.value);
    return wins || (!loses && b.index < a.index) ? b : a;
  }
  template <class F>
  GRADUS_HD static void at_storage(int32_t dtype, F&& f) {
    if (dtype == kWinner)
      f(Acc{});
    else
      gpu::at_storage<T>(dtype, f);
  }
  GRADUS_HD static void put(char* data, int64_t at, int32_t dtype, Acc x) {
    if (dtype == kWinner)
      reinterpret_cast<Acc*>(data)[at] = x;
    else
      reinterpret_cast<int64_t*>(data)[at] = x.index;
  }
};

struct ComplexBits {
  uint64_t re, im;
};
// any and all, of words W: -0 is false, and NaN is not. A kernel for each size of word, since one
// for all of them has not enough registers.
template <class W>
struct Truth {
  using Acc = int32_t;
  using Widest = W;
  static constexpr int32_t partial = GD_BOOL;
  bool any;
  uint64_t bits;  // those that count

  explicit Truth(bool is_any, DType t) : any(is_any), bits(~uint64_t(0)) {
    if (is_half(t)) bits = 0x7fff;
    if (t == DType::f32) bits = 0x7fffffff;
    if (t == DType::c64) bits = 0x7fffffff7fffffff;
    if (t == DType::f64 || t == DType::c128) bits = ~uint64_t(0) >> 1;
  }
  GRADUS_HD Acc none() const { return any ? 0 : 1; }
  template <class S>
  GRADUS_HD S absent() const {
    if constexpr (std::is_same_v<S, ComplexBits>)
      return {uint64_t(none()), 0};
    else
      return S(none());
  }
  GRADUS_HD Acc of(uint8_t x, int64_t) const { return x != 0; }  // partial results, too
  GRADUS_HD Acc of(ComplexBits x, int64_t) const { return ((x.re | x.im) & bits) != 0; }
  template <class S>
  GRADUS_HD Acc of(S x, int64_t) const {
    return (uint64_t(x) & bits) != 0;
  }
  GRADUS_HD Acc combine(Acc a, Acc b) const { return any ? a | b : a & b; }
  template <class F>
  GRADUS_HD static void at_storage(int32_t dtype, F&& f) {
    if constexpr (sizeof(W) > 1)
      if (dtype != GD_BOOL) return f(W{});
    f(uint8_t{});
  }
  GRADUS_HD static void put(char* data, int64_t at, int32_t, Acc x) {
    reinterpret_cast<bool*>(data)[at] = x != 0;
  }
};

template <class F>
inline constexpr int kStridedBlocks = sizeof(typename F::Acc) <= 4   ? 3
                                      : sizeof(typename F::Acc) <= 8 ? 2
                                                                     : 1;

struct ReduceJob {
  Team team;
  bool runs;              // as Eight has it
  bool straight;          // a line's elements lie the same step apart
  int32_t group;          // chunks that a team folds
  int64_t chunk, chunks;  // elements of a chunk, number of chunks
  int64_t groups;         // 1: a team folds all chunks of its line, at most 8
  int64_t step;           // from one chunk's result to the next
  int64_t inner;          // elements along all axes but the outermost
};

// What a thread has of a chunk if all of its elements are there, `stride` apart.
template <class F, class Acc = typename F::Acc>
__device__ inline Acc fold_strided(const F& f, const char* data, int32_t dtype, int64_t at,
                                   int64_t stride, int64_t begin, int left, const Team& team) {
  constexpr int B = kEightsAtOnce<F>;
  const int each = team.members_each(), first = team.place() * each, gap = team.members() * 4,
            turn = int(team.step());
  Acc acc = f.none();
  F::at_storage(dtype, [&](auto zero) {
    using S = decltype(zero);
    const S* const from = reinterpret_cast<const S*>(data) + at;
    Tree<Acc, kLogMembers> tree;
    GPU_ROLLED
    for (int k = 0; k < each; k += B) {
      Acc own[B];
      GPU_UNROLL
      for (int b = 0; b < B; ++b) own[b] = f.none();
      GPU_ROLLED
      for (int base = 0; base < left; base += turn) {
        const int i = base + (first + k) * 4;
        const S *low = from + i * stride, *high = low + gap * stride;
        S x[B][kEight];
        GPU_UNROLL
        for (int n = 0; n < B * 4; ++n, low += stride, high += stride) {
          x[n / 4][n % 4] = *low;
          x[n / 4][n % 4 + 4] = *high;
        }
        GPU_UNROLL
        for (int b = 0; b < B; ++b) {
          Acc v[kEight];
          GPU_UNROLL
          for (int j = 0; j < kEight; ++j)
            v[j] = f.of(x[b][j], begin + i + b * 4 + j / 4 * gap + j % 4);
          own[b] = f.combine(own[b], fold_eight(f, v));
        }
      }
      GPU_UNROLL
      for (int d = 1; d < B; d *= 2) {
        GPU_UNROLL
        for (int b = 0; b < B; b += 2 * d) own[b] = f.combine(own[b], own[b + d]);
      }
      acc = tree.add(f, own[0], k / B);
    }
  });
  return acc;
}

// What a thread has of the chunk that begins with element `begin` of a line at `at`, of which
// `left` elements are there.
template <class F, class Acc = typename F::Acc>
__device__ inline Acc fold_chunk(const F& f, const char* data, int32_t dtype, int64_t at,
                                 const Walk<1>& terms, int64_t begin, int left,
                                 const ReduceJob& job) {
  if (left <= 0) return f.none();
  const Team team = job.team;
  const int64_t gap = int64_t(team.members()) * 4, stride = terms.strides[0][0];
  const int each = team.members_each(), turn = int(team.step()),
            last_turn = (left - 1) & ~(turn - 1);
  const bool all_there = last_turn + (team.place() + 1) * each * 4 + gap <= left;
  if (job.straight && each >= kEightsAtOnce<F> && all_there)
    return fold_strided(f, data, dtype, at + begin * stride, stride, begin, left, team);
  const int64_t end = begin + left;
  const Places<0> places(terms, at, begin, job.inner);
  const auto load = [&](int64_t base, int member, Acc(&v)[kEight], const Walk<1>& t) {
    Eight(job.runs, base + member * 4, gap, end, places, t).load(f, data, dtype, v);
  };
  return fold_part(f, team, begin, end, load, terms);
}

// lines: in, out. terms: in. A team folds `group` chunks of a line, one after the other.
template <class F>
__global__ void GPU_BLOCK(kThreads, kStridedBlocks<F>)
    fold_lines(Walk<2> lines, Walk<1> terms, ReduceJob job, F f) {
  using Acc = typename F::Acc;
  GPU_SHARED(Acc, shared, kThreads);
  const Team team = job.team;
  const int64_t units = lines.count * job.groups, tasks = team.blocks_of(units);
  for (int64_t task = block(); task < tasks; task += blocks()) {
    const int64_t unit = task * team.lines() + team.line(),
                  group = job.groups > 1 ? unit / lines.count : 0,
                  line = unit - group * lines.count;
    const bool here = unit < units, writes = here && team.place() == 0;
    int64_t at[2] = {0, 0};
    if (here) lines.places(line, at);
    Tree<Acc, 3> tree;
    Acc acc = f.none();
    GPU_ROLLED
    for (int k = 0; k < job.group; ++k) {
      const int64_t chunk = group * job.group + k, begin = chunk * job.chunk,
                    rest = here && begin < terms.count ? terms.count - begin : 0;
      const int left = int(rest < job.chunk ? rest : job.chunk);
      const Acc own = fold_chunk(f, lines.data[0], lines.dtype[0], at[0], terms, begin, left, job);
      const Acc part = fold_team(f, own, team, shared);
      if (job.groups == 1)
        acc = tree.add(f, part, k);
      else if (writes && chunk < job.chunks)
        F::put(lines.data[1], at[1] + chunk * job.step, lines.dtype[1], part);
    }
    if (job.groups == 1 && writes) F::put(lines.data[1], at[1], lines.dtype[1], acc);
  }
}

constexpr int64_t kManyBlocks = 512;

// Lines that fold_rows takes: of all members, in aligned fours.
bool has_rows(const ReduceJob& job, const Walk<2>& lines, int64_t length) {
  return job.straight && job.runs && job.team.log_members == kLogMembers &&
         are_rows(lines, 0, length);
}
// Those that fold_columns takes.
bool has_columns(const ReduceJob& job, Walk<2> lines, const Walk<1>& terms) {
  const int64_t neighbours = lines.sizes[0];
  if (!job.straight || !job.team.across || job.team.log_members < kLogMembers ||
      lines.strides[0][0] != 1 || terms.strides[0][0] % 4 != 0 || lines.count < 32)
    return false;
  lines.strides[0][0] = 0;
  return are_rows(lines, 0, neighbours);
}

template <class F>
void launch_folds(const Run& run, const F& f, const Walk<2>& lines, const Walk<1>& terms,
                  ReduceJob job, int64_t group, bool rows) {
  while (group & (group - 1)) ++group;  // a tree of nothing adds nothing
  job.group = int32_t(group);
  job.groups = parts(job.chunks, group);
  const bool columns = kHasColumns<F> && has_columns(job, lines, terms);
  in_pieces(lines, [&](const Walk<2>& piece) {
    const int64_t units = piece.count * job.groups;
    const auto grid = [&](int64_t blocks, auto function, const auto&... about) {
      run.grid(Threads::together, run.blocks_for(blocks, 1), kThreads, function, piece, about...,
               f);
    };
    if (rows)
      return grid(parts(units, kThreads / kMembers), kernel<fold_rows<F>>(),
                  RowsJob{job.group, job.chunk, job.chunks, job.groups, terms.count, job.step});
    if constexpr (kHasColumns<F>)
      if (columns) {
        ColumnsJob c{5,          job.group,   job.chunk, job.chunks,
                     job.groups, terms.count, job.step,  terms.strides[0][0]};
        const auto few = [&] {
          return piece.count < 4 << c.log_width || c.tasks(piece.count) < kManyBlocks;
        };
        while (c.log_width > 3 && few()) --c.log_width;
        return grid(c.tasks(piece.count), kernel<fold_columns<F>>(), c);
      }
    run.grid(job.team.kind(), run.blocks_for(job.team.blocks_of(units), 1), kThreads,
             kernel<fold_lines<F>>(), piece, terms, job, f);
  });
}

template <class F>
void fold_axes(const Run& run, const F& f, const gd_view& in, const gd_view& out, const Axes& lines,
               const Axes& terms) {
  const int64_t n_lines = lines.count(), length = terms.count();
  const bool across = n_lines > 1 && lines.least() < terms.least();
  ReduceJob job{};
  job.team = Team(n_lines, length, across);
  job.chunk = chunk_of(length);
  job.chunks = length > 0 ? parts(length, job.chunk) : 1;
  const gd_view line_in = lines.view(0, in), line_out = lines.view(1, out),
                term_in = terms.view(0, in);
  Walk<1> walk = make_walk<1>(run.call, {&term_in});
  walk.count = length;
  job.runs = !across && runs(walk, 0);
  job.straight = walk.rank <= 1 && job.chunk < kMostElements / kEight;
  job.inner = inner_of(run.call, walk);
  // Enough blocks for the device matter more than long work for each.
  const bool whole =
      job.chunks == 1 || (job.chunks <= kMostGroup && job.team.blocks_of(n_lines) >= kManyBlocks);
  const bool many = n_lines * job.chunks >= 4 * kManyBlocks * job.team.lines();
  const auto to_out = make_walk<2>(run.call, {length > 0 ? &line_in : nullptr, &line_out});
  const bool rows = has_rows(job, to_out, length);
  if (whole) return launch_folds(run, f, to_out, walk, job, job.chunks, rows);
  // Stage one leaves the chunks' results in scratch memory, stage two folds them.
  if (!across) job.chunks = (job.chunks + 3) / 4 * 4;  // those of nothing add nothing
  Run::Scratch scratch(run, size_t(n_lines * job.chunks) * sizeof(typename F::Acc));
  void* memory = scratch.take<typename F::Acc>(n_lines * job.chunks);
  const gd_view partials{0, memory, F::partial, 0, 0, nullptr, nullptr};
  job.step = across ? n_lines : 1;
  Axes packed = lines, chunks;
  packed.pack(across ? 1 : job.chunks, packed.strides[1]);
  const gd_view to = packed.view(1, partials);
  // Fewer than all chunks of a line: what folds all of them writes no partial results.
  const bool several = rows && many && job.chunk == kChunk && job.chunks > kEightsAtOnce<F>;
  launch_folds(run, f, make_walk<2>(run.call, {&line_in, &to}), walk, job,
               several ? kEightsAtOnce<F> : 1, rows);
  chunks.add(job.chunks, {job.step});
  const gd_view chunk_in = chunks.view(0, partials);
  job.team = Team(n_lines, job.chunks, across);
  job.chunk = kChunk;
  job.runs = !across;
  job.straight = true;
  job.chunks = parts(chunks.count(), kChunk);
  const auto last = make_walk<2>(run.call, {&to, &line_out});
  launch_folds(run, f, last, make_walk<1>(run.call, {&chunk_in}), job, job.chunks,
               F::partial != kWinner && has_rows(job, last, chunks.count()));
}

}  // namespace

void Axes::add(int64_t size, std::initializer_list<int64_t> by) {
  if (size == 1) return;
  sizes[rank] = size;
  int k = 0;
  for (int64_t stride : by) strides[k++][rank] = stride;
  ++rank;
}

void Axes::sort() {
  for (int n = 1; n < rank; ++n)
    for (int d = n; d > 0 && step_length(strides[0][d - 1]) < step_length(strides[0][d]); --d) {
      std::swap(sizes[d - 1], sizes[d]);
      for (auto& s : strides) std::swap(s[d - 1], s[d]);
    }
}

int64_t Axes::count() const {
  int64_t n = 1;
  for (int d = 0; d < rank; ++d) n *= sizes[d];
  return n;
}

int64_t Axes::least() const {
  int64_t s = INT64_MAX;
  for (int d = 0; d < rank; ++d)
    s = step_length(strides[0][d]) < s ? step_length(strides[0][d]) : s;
  return s;
}

gd_view Axes::view(int k, const gd_view& of) const {
  return {of.buffer, of.data, of.dtype, rank, of.offset, sizes, strides[k]};
}

void Axes::pack(int64_t step, int64_t (&to)[kMaxViewRank]) const {
  for (int d = rank - 1; d >= 0; --d) {
    to[d] = step;
    step *= sizes[d];
  }
}

void reduce(Run& run) {
  Call& call = run.call;
  const ReduceCall r = expect_reduce(call);
  const gd_view &in = r.in, &out = r.out;
  const int32_t op = call.op();
  Axes lines, terms;
  for (int d = 0; d < in.rank; ++d) {
    if (in.sizes[d] == out.sizes[d])
      lines.add(in.sizes[d], {in.strides[d], out.strides[d]});
    else
      terms.add(in.sizes[d], {in.strides[d]});
  }
  const DType t = DType(in.dtype);
  if (lines.count() == 0) return;
  lines.sort();
  if (r.orders || r.truth || is_integer(t)) terms.sort();  // any order gives the same
  const auto fold = [&](const auto& f) { fold_axes(run, f, in, out, lines, terms); };
  if (r.truth) switch (itemsize(t)) {
      case 1:
        return fold(Truth<uint8_t>(op == GD_ANY, t));
      case 2:
        return fold(Truth<uint16_t>(op == GD_ANY, t));
      case 4:
        return fold(Truth<uint32_t>(op == GD_ANY, t));
      case 8:
        return fold(Truth<uint64_t>(op == GD_ANY, t));
      default:
        return fold(Truth<ComplexBits>(op == GD_ANY, t));
    }
  at_computing(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (op == GD_SUM || op == GD_PROD) return fold(Sums<T>{op == GD_PROD});
    if constexpr (!is_complex_v<T>) {
      const Extremes<T> values{{}, takes_maximum(op)};
      return r.places ? fold(Winners<T>{values}) : fold(values);
    }
  });
}

}  // namespace gradus::gpu
