// softmax and its logarithm: a team of threads for each line, which reads it once if it fits into
// their registers and three times if not. Lines of whole fours have kernels of their own
// (rows.hpp).
//   softmax_i = exp(x_i - m) / s,  log_softmax_i = (x_i - m) - log(s),
//   m = max x,  s = sum exp(x_i - m).  A line of -inf alone gives NaN, as 0 / 0 should.
#include "kernels/gpu/folds/rows.hpp"

#include <cmath>

namespace gradus::inline v1::gpu {
namespace {

struct SoftmaxJob {
  Team team;
  bool runs[2];  // of in, of out, as Eight has it
  bool logarithm;
  int64_t length, step[2];  // along the axis
};

template <class T>
__global__ void GPU_BLOCK(kThreads) softmax_lines(Walk<2> lines, SoftmaxJob job) {
  GPU_SHARED(T, shared, kThreads);
  const Team team = job.team;
  const int64_t tasks = team.blocks_of(lines.count), length = job.length,
                gap = int64_t(team.members()) * 4;
  const bool held = team.members_each() == 1 && length <= team.step();
  const Extremes<T> largest{};
  const char* const from = lines.data[0];
  char* const to = lines.data[1];
  const int32_t dtype = lines.dtype[0];
  for (int64_t task = block(); task < tasks; task += blocks()) {
    const int64_t line = task * team.lines() + team.line();
    const bool here = line < lines.count;
    int64_t at[2] = {0, 0};
    if (here) lines.places(line, at);
    const auto eight = [&](int side, int64_t base, int member) {
      return Eight(job.runs[side], base + member * 4, gap, length,
                   AlongAxis{at[side], job.step[side]});
    };
    T kept[kEight];
    if (held && here) eight(0, 0, team.place()).load(largest, from, dtype, kept);
    const auto load = [&](int64_t base, int member, T(&v)[kEight]) {
      if (!held) return eight(0, base, member).load(largest, from, dtype, v);
      GPU_UNROLL
      for (int j = 0; j < kEight; ++j) v[j] = kept[j];
    };
    const T m = fold_chunk(largest, team, here, 0, length, shared, load);
    const auto load_exp = [&](int64_t base, int member, T(&v)[kEight]) {
      load(base, member, v);
      GPU_UNROLL
      for (int j = 0; j < kEight; ++j) v[j] = ::std::exp(v[j] - m);
    };
    const T s = fold_chunk(Sums<T>{}, team, here, 0, length, shared, load_exp);
    const T scale = T(1) / s, log_s = ::std::log(s);
    if (!here) continue;
    for (int k = 0; k < team.members_each(); ++k)
      for (int64_t base = 0; base < length; base += team.step()) {
        const int member = team.place() * team.members_each() + k;
        T v[kEight];
        load(base, member, v);
        GPU_UNROLL
        for (int j = 0; j < kEight; ++j)
          v[j] = job.logarithm ? (v[j] - m) - log_s : ::std::exp(v[j] - m) * scale;
        eight(1, base, member).store(to, dtype, v);
      }
  }
}

// A line is one chunk of up to E turns, as above.
template <class S, int E>
__global__ void GPU_BLOCK(kThreads, (kRowBlocks<S, E>))
    softmax_rows(Walk<2> lines, SoftmaxJob job) {
  using T = computing<S>;
  GPU_SHARED(T, shared, kMostWaves);
  const Row<E> row(job.team, int(job.length));
  const Extremes<T> largest{};
  const Sums<T> sums{};
  const int64_t tasks = job.team.blocks_of(lines.count);
  for (int64_t task = block(); task < tasks; task += blocks()) {
    const int64_t line = task * job.team.lines() + job.team.line();
    const bool here = line < lines.count;
    int64_t at[2] = {0, 0};
    if (here) lines.places(line, at);
    const S* const from = reinterpret_cast<const S*>(lines.data[0]) + at[0];
    S* const to = reinterpret_cast<S*>(lines.data[1]) + at[1];
    T v[E][kEight], m[1] = {largest.none()}, s[1] = {sums.none()};
    row.load(from, 0, here, largest.none(), v);
    GPU_UNROLL
    for (int e = 0; e < E; ++e) m[0] = largest.combine(m[0], fold_eight(largest, v[e]));
    fold_neighbours(largest, m, 1, job.team, shared);
    GPU_UNROLL
    for (int e = 0; e < E; ++e) {
      T x[kEight];
      GPU_UNROLL
      for (int j = 0; j < kEight; ++j) {
        const T d = v[e][j] - m[0];
        x[j] = ::std::exp(d);
        v[e][j] = job.logarithm ? d : x[j];
      }
      s[0] = sums.combine(s[0], fold_eight(sums, x));
    }
    fold_neighbours(sums, s, 1, job.team, shared);
    const T scale = T(1) / s[0], log_s = ::std::log(s[0]);
    GPU_UNROLL
    for (int e = 0; e < E; ++e) {
      GPU_UNROLL
      for (int j = 0; j < kEight; ++j) v[e][j] = job.logarithm ? v[e][j] - log_s : v[e][j] * scale;
    }
    row.store(to, here, v);
  }
}

}  // namespace

void softmax(Run& run) {
  Call& call = run.call;
  const LineCall c = expect_softmax(call);
  const gd_view &in = c.in, &out = c.out;
  const int axis = c.axis;
  if (count_of(in) == 0) return;
  Axes lines;
  for (int d = 0; d < in.rank; ++d)
    if (d != axis) lines.add(in.sizes[d], {in.strides[d], out.strides[d]});
  lines.sort();
  SoftmaxJob job{};
  job.length = axis < 0 ? 1 : in.sizes[axis];
  job.step[0] = axis < 0 ? 1 : in.strides[axis];
  job.step[1] = axis < 0 ? 1 : out.strides[axis];
  const bool across = lines.count() > 1 && lines.least() < step_length(job.step[0]);
  job.team = Team(lines.count(), job.length, across);
  for (int k = 0; k < 2; ++k) job.runs[k] = !across && job.step[k] == 1;
  job.logarithm = call.integer(1) != 0;
  const gd_view from = lines.view(0, in), to = lines.view(1, out);
  const auto walk = make_walk<2>(call, {&from, &to});
  const auto launch = [&](auto* kernel) {
    in_pieces(walk, [&](const Walk<2>& piece) {
      run.grid(job.team.kind(), run.blocks_for(job.team.blocks_of(piece.count), 1), kThreads,
               kernel, piece, job);
    });
  };
  const bool whole_fours =
      job.runs[0] && job.runs[1] && are_rows(walk, 0, job.length) && are_rows(walk, 1, job.length);
  if (whole_fours && at_rows(in.dtype, job.length, [&](auto zero, auto eights) {
        launch(kernel<softmax_rows<decltype(zero), eights>>());
      }))
    return;
  launch(in.dtype == GD_F64 ? kernel<softmax_lines<double>>() : kernel<softmax_lines<float>>());
}

}  // namespace gradus::gpu
