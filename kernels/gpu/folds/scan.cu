// scan: what has come so far along an axis.
//
// The order depends on the length of a line alone. Eight elements are added one after the other;
// so are the totals of 16 eights, the totals of 8 such groups, those of the tiles that make up a
// chunk, and those of the (at most 512) chunks. An element is (chunks before + tiles before +
// groups before + eights before) + its own eight up to it. A thread that has a line to itself does
// just that; a team of up to 128 threads has one eight of a tile each; few long lines are worked on
// by chunk, once for the totals and once for the elements.
#include "kernels/gpu/folds/fold.hpp"

namespace gradus::inline v1::gpu {
namespace {

constexpr int kGroup = 16;  // eights
constexpr int64_t kCut = 8192, kMostCuts = 512;
constexpr int64_t kAlone = 1 << 14;  // so many lines give every thread one of its own

struct ScanJob {
  Team team;
  bool runs[2];  // of in, of out, as Eight has it
  bool cut;      // chunks are worked on apart
  bool totals;   // only the chunks' totals, into the carries
  int64_t length, step[2];
  int64_t chunk, chunks;
};

// What a thread's eight has before it in its tile, and what the tile gives.
template <class Acc>
struct Before {
  Acc groups, eights, tile;
};
template <class F, class Acc>
__device__ inline Before<Acc> exchange(const F& f, const Team& team, Acc total, Acc* eights,
                                       Acc* groups) {
  const int y = team.place(), apart = team.across ? team.lines() : 1, first = thread() - y * apart,
            group = y / kGroup;
  Before<Acc> b{f.none(), f.none(), f.none()};
  eights[thread()] = total;
  barrier();
  for (int k = group * kGroup; k < y; ++k)
    b.eights = f.combine(b.eights, eights[first + k * apart]);
  if (y % kGroup == kGroup - 1 || y == team.threads() - 1)
    groups[first + group * apart] = f.combine(b.eights, total);
  barrier();
  for (int k = 0; k * kGroup < team.threads(); ++k) {
    if (k == group) b.groups = b.tile;
    b.tile = f.combine(b.tile, groups[first + k * apart]);
  }
  return b;
}

// carries: [chunk][line], what the chunks up to this one give.
template <class F>
__global__ void GPU_BLOCK(kThreads) scan_lines(Walk<2> lines, ScanJob job, void* memory, F f) {
  using Acc = typename F::Acc;
  GPU_SHARED(Acc, shared_eights, kThreads);
  GPU_SHARED(Acc, shared_groups, kThreads);
  Acc* const carries = static_cast<Acc*>(memory);
  const Team team = job.team;
  const bool alone = team.threads() == 1;
  const char* const from = lines.data[0];
  char* const to = lines.data[1];
  const int32_t dtype = lines.dtype[0];
  const int64_t units = lines.count * (job.cut ? job.chunks : 1),
                tasks = (units + team.lines() - 1) / team.lines(),
                step = int64_t(kEight) * team.threads(), most = job.cut ? job.chunk : job.length;
  for (int64_t task = block(); task < tasks; task += blocks()) {
    const int64_t unit = task * team.lines() + team.line();
    const bool here = unit < units;
    const int64_t chunk = job.cut ? unit / lines.count : 0, line = unit - chunk * lines.count,
                  begin = chunk * job.chunk,
                  end = begin + most < job.length ? begin + most : job.length;
    int64_t at[2] = {0, 0};
    if (here) lines.places(line, at);
    Acc chunks = f.none(), tiles = f.none(), groups = f.none(), eights = f.none();
    if (here && chunk > 0 && !job.totals) chunks = carries[(chunk - 1) * lines.count + line];
    for (int64_t done = 0; done < most; done += step) {
      const int64_t i = begin + done + team.place() * kEight, next = done + step;
      Acc v[kEight];
      if (here)
        Eight(job.runs[0], i, 4, end, AlongAxis{at[0], job.step[0]}).load(f, from, dtype, v);
      GPU_UNROLL
      for (int j = 1; j < kEight; ++j) v[j] = f.combine(v[j - 1], v[j]);
      const Acc total = v[kEight - 1];
      Before<Acc> b{groups, eights, f.none()};
      if (!alone) b = exchange(f, team, total, shared_eights, shared_groups);
      if (here && !job.totals) {
        const Acc before = f.combine(f.combine(f.combine(chunks, tiles), b.groups), b.eights);
        GPU_UNROLL
        for (int j = 0; j < kEight; ++j) {
          v[j] = f.combine(before, v[j]);
          if constexpr (std::is_same_v<Acc, int64_t>)
            if (dtype == GD_BOOL) v[j] = v[j] != 0;  // stored as u8
        }
        Eight(job.runs[1], i, 4, end, AlongAxis{at[1], job.step[1]}).store(to, dtype, v);
      }
      if (!alone) {
        tiles = f.combine(tiles, b.tile);
      } else {
        eights = f.combine(eights, total);
        if (next % (kEight * kGroup) == 0) {
          groups = f.combine(groups, eights);
          eights = f.none();
        }
        if (next % kChunk == 0) {
          tiles = f.combine(tiles, groups);
          groups = f.none();
        }
      }
      if (!job.cut && next % job.chunk == 0) {
        chunks = f.combine(chunks, tiles);
        tiles = f.none();
      }
    }
    if (here && job.totals && team.place() == 0) carries[chunk * lines.count + line] = tiles;
  }
}

template <class F>
__global__ void GPU_BLOCK(kThreads) carry_chunks(int64_t lines, int64_t chunks, void* memory, F f) {
  using Acc = typename F::Acc;
  Acc* const carries = static_cast<Acc*>(memory);
  for (int64_t line = first_index(); line < lines; line += index_step()) {
    Acc before = f.none();
    for (int64_t c = 0; c < chunks; c += kEight) {
      Acc v[kEight];
      GPU_UNROLL
      for (int j = 0; j < kEight; ++j)
        v[j] = c + j < chunks ? carries[(c + j) * lines + line] : f.none();
      GPU_UNROLL
      for (int j = 0; j < kEight; ++j) {
        before = f.combine(before, v[j]);
        if (c + j < chunks) carries[(c + j) * lines + line] = before;
      }
    }
  }
}

template <class F>
void scan_axes(const Run& run, const F& f, const Walk<2>& lines, ScanJob job) {
  using Acc = typename F::Acc;
  const auto launch = [&](const Walk<2>& piece, void* carries) {
    const int64_t units = piece.count * (job.cut ? job.chunks : 1);
    run.grid(job.team.kind(), run.blocks_for(parts(units, job.team.lines()), 1), kThreads,
             kernel<scan_lines<F>>(), piece, job, carries, f);
  };
  if (!job.cut) return in_pieces(lines, [&](const Walk<2>& piece) { launch(piece, nullptr); });
  Run::Scratch scratch(run, size_t(lines.count * job.chunks) * sizeof(Acc));
  Acc* const carries = scratch.take<Acc>(lines.count * job.chunks);
  job.totals = true;
  launch(lines, carries);
  run.grid(Threads::apart, run.blocks_for(lines.count, kThreads), kThreads,
           kernel<carry_chunks<F>>(), lines.count, job.chunks, carries, f);
  job.totals = false;
  launch(lines, carries);
}

}  // namespace

void scan(Run& run) {
  Call& call = run.call;
  const auto [in, out, axis] = expect_scan(call);
  const int32_t op = call.op();
  if (axis < 0) return copy(run);
  if (count_of(in) == 0) return;
  Axes axes;
  for (int d = 0; d < in.rank; ++d)
    if (d != axis) axes.add(in.sizes[d], {in.strides[d], out.strides[d]});
  axes.sort();
  ScanJob job{};
  job.length = in.sizes[axis];
  gd_view from = axes.view(0, in), to = axes.view(1, out);
  job.step[0] = in.strides[axis];
  job.step[1] = out.strides[axis];
  if (call.integer(1) != 0) {  // from the end
    from.offset += (job.length - 1) * job.step[0];
    to.offset += (job.length - 1) * job.step[1];
    for (int64_t& s : job.step) s = -s;
  }
  const auto lines = make_walk<2>(call, {&from, &to});
  const bool across = lines.count > 1 && axes.least() < step_length(job.step[0]);
  job.team = Team(lines.count, job.length, false);
  job.team.across = across;
  if (across && lines.count >= kAlone) {
    job.team.log_threads = 0;
    job.team.log_lines = 8;
  }
  for (int k = 0; k < 2; ++k) job.runs[k] = !across && job.step[k] == 1;
  job.chunk = kCut << log2_up(parts(job.length, kCut * kMostCuts));
  job.chunks = parts(job.length, job.chunk);
  job.cut = job.chunks > 1 && lines.count < 256 * job.team.lines();
  at_computing(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (!orders(op)) return scan_axes(run, Sums<T>{op == GD_PROD}, lines, job);
    if constexpr (!is_complex_v<T>) scan_axes(run, Extremes<T>{{}, op == GD_MAX}, lines, job);
  });
}

}  // namespace gradus::gpu
