// normalize: the elements that share a mean are a line. A team of threads does all of a line if
// there are enough of them; else one launch for each sum leaves what chunks give in scratch memory,
// and the next begins by folding that. Both fold in the order of fold.hpp. Lines of whole fours
// that fit into the registers of a team are read once (rows.hpp).
#include "kernels/gpu/folds/rows.hpp"

#include <cmath>

namespace gradus::inline v1::gpu {
namespace {

template <class T>
struct TwoSums {
  T a, b;
};
template <class T>
struct SumsOfTwo {
  using Acc = TwoSums<T>;
  GRADUS_HD Acc none() const { return {T(0), T(0)}; }
  GRADUS_HD Acc combine(Acc x, Acc y) const { return {x.a + y.a, x.b + y.b}; }
};

// Views in the walks: x, weight, bias or cotangent, y; and of lines also mean and variance.
enum View { kX, kWeight, kOther, kY, kMean, kVar };
// What is summed: x; squares of what is above the mean; for vjp, g and g h.
enum Sum { kOfX, kOfSquares, kOfDots };

struct Job {
  Team team;
  bool runs[4];  // as Eight has it
  bool vjp, value, centred;
  bool whole;              // a team does all of its line: at most 8 chunks
  int32_t sum, sums, end;  // folds this one; `sums` are in scratch; after fold `end` - 1, y
  int64_t length, chunk, chunks, inner;
  double eps;
};

template <int V, class T>
__device__ inline void load_view(const Job& job, const char* data, int32_t dtype, int64_t at,
                                 int64_t begin, int64_t i, int64_t end, T absent, T (&v)[kEight],
                                 const Walk<4>& terms) {
  if (data)
    return Eight(job.runs[V], i, int64_t(job.team.members()) * 4, end,
                 Places<V>(terms, at, begin, job.inner), terms)
        .load(Sums<T>{}, data, dtype, v);
  GPU_UNROLL
  for (int j = 0; j < kEight; ++j) v[j] = absent;
}

template <class T>
__global__ void GPU_BLOCK(kThreads, 1)
    normalize_lines(Walk<6> lines, Walk<4> terms, Job job, void* memory) {
  GPU_SHARED(TwoSums<T>, shared, kThreads);
  TwoSums<T>* const partials = static_cast<TwoSums<T>*>(memory);  // [sum][chunk][line]
  const SumsOfTwo<T> pairs;
  const Team team = job.team;
  const char *const x = lines.data[kX], *const weight = lines.data[kWeight],
                    *const other = lines.data[kOther];
  const int32_t dtype = lines.dtype[kX], y_dtype = lines.dtype[kY];
  char* const y = lines.data[kY];
  const T eps = T(job.eps);
  T *const means = reinterpret_cast<T*>(lines.data[kMean]), *const vars = reinterpret_cast<T*>(
                                                                lines.data[kVar]);
  const int64_t all = team.blocks_of(lines.count), n_lines = lines.count, length = job.length,
                gap = int64_t(team.members()) * 4;
  for (int64_t task = block(); task < all * (job.whole ? 1 : job.chunks); task += blocks()) {
    const int64_t chunk = job.whole ? 0 : task / all,
                  line = (task - chunk * all) * team.lines() + team.line();
    const bool here = line < n_lines;
    int64_t at[6] = {0, 0, 0, 0, 0, 0};
    if (here) lines.places(line, at);
    T mean = T(0), var = T(0), sum = T(0), dot = T(0);
    if (here && !job.value) {
      mean = means[at[kMean]];
      var = vars[at[kVar]];
    }
    T rstd = T(1) / ::std::sqrt(var + eps);
    // The sums of earlier launches, then those of this one.
    for (int k = job.sum - job.sums; k < job.end; ++k) {
      const T m = mean, r = rstd;
      TwoSums<T> total = pairs.none();
      if (k < job.sum) {
        const TwoSums<T>* const from = partials + k % 2 * job.chunks * n_lines + line;
        total = fold_chunk(pairs, team, here, 0, job.chunks, shared,
                           [&](int64_t base, int member, TwoSums<T>(&v)[kEight]) {
                             GPU_UNROLL
                             for (int j = 0; j < kEight; ++j) {
                               const int64_t c = base + member * 4 + j / 4 * gap + j % 4;
                               v[j] = c < job.chunks ? from[c * n_lines] : pairs.none();
                             }
                           });
      } else {
        Tree<TwoSums<T>, 3> tree;
        for (int c = 0; c < (job.whole ? kEight : 1); ++c) {
          TwoSums<T> part = pairs.none();
          if (chunk + c < job.chunks) {
            const int64_t begin = (chunk + c) * job.chunk,
                          end = begin + job.chunk < length ? begin + job.chunk : length;
            part = fold_chunk(
                pairs, team, here, begin, end, shared,
                [&](int64_t base, int member, TwoSums<T>(&v)[kEight], const Walk<4>& t) {
                  const int64_t i = base + member * 4;
                  T h[kEight], w[kEight], g[kEight];
                  load_view<kX>(job, x, dtype, at[kX], begin, i, end, T(0), h, t);
                  GPU_UNROLL
                  for (int j = 0; j < kEight; ++j) v[j] = {h[j], T(0)};
                  if (k == kOfDots) {
                    load_view<kWeight>(job, weight, dtype, at[kWeight], begin, i, end, T(1), w, t);
                    load_view<kOther>(job, other, dtype, at[kOther], begin, i, end, T(0), g, t);
                    GPU_UNROLL
                    for (int j = 0; j < kEight; ++j)
                      v[j] = {g[j] * w[j], g[j] * w[j] * ((h[j] - m) * r)};
                  }
                  if (k == kOfSquares) {
                    GPU_UNROLL
                    for (int j = 0; j < kEight; ++j) v[j].a = (h[j] - m) * (h[j] - m);
                  }
                  GPU_UNROLL
                  for (int j = 0; j < kEight; ++j)
                    if (i + j / 4 * gap + j % 4 >= end) v[j] = pairs.none();
                },
                terms);
          }
          total = tree.add(pairs, part, c);
        }
        if (!job.whole) {
          if (here && team.place() == 0)
            partials[(k % 2 * job.chunks + chunk) * n_lines + line] = total;
          break;
        }
      }
      total = {total.a / T(length), total.b / T(length)};
      mean = k == kOfX ? total.a : mean;
      var = k == kOfSquares ? total.a : var;
      sum = k == kOfDots && job.centred ? total.a : sum;
      dot = k == kOfDots ? total.b : dot;
      rstd = T(1) / ::std::sqrt(var + eps);
    }
    if (!job.whole && job.sum < job.end) continue;
    if (here && job.value && chunk == 0 && team.place() == 0) {
      means[at[kMean]] = mean;
      vars[at[kVar]] = var;
    }
    const int64_t begin = chunk * job.chunk,
                  end = !job.whole && begin + job.chunk < length ? begin + job.chunk : length;
    for (int k = 0; here && k < team.members_each(); ++k)
      for (int64_t base = begin; base < end; base += team.step()) {
        const int64_t i = base + (team.place() * team.members_each() + k) * 4;
        T h[kEight], w[kEight], b[kEight];
        load_view<kX>(job, x, dtype, at[kX], begin, i, end, T(0), h, terms);
        load_view<kWeight>(job, weight, dtype, at[kWeight], begin, i, end, T(1), w, terms);
        load_view<kOther>(job, other, dtype, at[kOther], begin, i, end, T(0), b, terms);
        GPU_UNROLL
        for (int j = 0; j < kEight; ++j) {
          h[j] = (h[j] - mean) * rstd;
          h[j] = job.vjp ? rstd * (b[j] * w[j] - sum - h[j] * dot) : h[j] * w[j] + b[j];
        }
        Eight(job.runs[kY], i, gap, end, Places<kY>(terms, at[kY], begin, job.inner), terms)
            .store(y, y_dtype, h);
      }
  }
}

// Of x (and for vjp, of the cotangent times the weight) a team holds all of its line.
template <class S, int E, bool Vjp>
inline constexpr int kNormalizeBlocks = kRowBlocks<S, Vjp ? 2 * E : E>;
template <class S, int E, bool Vjp>
__global__ void GPU_BLOCK(kThreads, (kNormalizeBlocks<S, E, Vjp>))
    normalize_rows(Walk<6> lines, Job job) {
  using T = computing<S>;
  GPU_SHARED(T, shared, kMostWaves * E);
  const Row<E> row(job.team, int(job.length));
  const Sums<T> sums{};
  const auto fold = [&](T(&part)[E]) { return row.fold(sums, part, shared) / T(row.length); };
  const int64_t tasks = job.team.blocks_of(lines.count);
  for (int64_t task = block(); task < tasks; task += blocks()) {
    const int64_t line = task * job.team.lines() + job.team.line();
    const bool here = line < lines.count;
    int64_t at[6] = {0, 0, 0, 0, 0, 0};
    if (here) lines.places(line, at);
    const auto start = [&](int v) {
      return lines.data[v] ? reinterpret_cast<const S*>(lines.data[v]) + at[v] : nullptr;
    };
    const S *const weight = start(kWeight), *const other = start(kOther);
    T h[E][kEight], part[E], mean = T(0), var = T(0);
    row.load(start(kX), 0, here, T(0), h);
    T *const means = reinterpret_cast<T*>(lines.data[kMean]) + at[kMean],
             *const vars = reinterpret_cast<T*>(lines.data[kVar]) + at[kVar];
    if (job.value) {
      if (job.centred) {
        GPU_UNROLL
        for (int e = 0; e < E; ++e) part[e] = fold_eight(sums, h[e]);
        mean = fold(part);
      }
      GPU_UNROLL
      for (int e = 0; e < E; ++e) {
        T squares[kEight];
        GPU_UNROLL
        for (int j = 0; j < kEight; ++j)
          squares[j] = row.has(e, j / 4) ? (h[e][j] - mean) * (h[e][j] - mean) : T(0);
        part[e] = fold_eight(sums, squares);
      }
      var = fold(part);
      if (here && job.team.place() == 0) {
        *means = mean;
        *vars = var;
      }
    } else if (here) {
      mean = *means;
      var = *vars;
    }
    const T rstd = T(1) / ::std::sqrt(var + T(job.eps));
    if constexpr (Vjp) {
      T q[E][kEight], dots[E];
      row.load(other, 0, here && other, T(0), q);
      GPU_UNROLL
      for (int e = 0; e < E; ++e) {
        T w[1][kEight], d[kEight];
        row.load(weight, e, here && weight, T(1), w);
        GPU_UNROLL
        for (int j = 0; j < kEight; ++j) {
          h[e][j] = (h[e][j] - mean) * rstd;
          q[e][j] = row.has(e, j / 4) ? q[e][j] * w[0][j] : T(0);
          d[j] = row.has(e, j / 4) ? q[e][j] * h[e][j] : T(0);
        }
        part[e] = fold_eight(sums, q[e]);
        dots[e] = fold_eight(sums, d);
      }
      const T sum = job.centred ? fold(part) : T(0), dot = fold(dots);
      GPU_UNROLL
      for (int e = 0; e < E; ++e) {
        GPU_UNROLL
        for (int j = 0; j < kEight; ++j) h[e][j] = rstd * (q[e][j] - sum - h[e][j] * dot);
      }
    } else {
      GPU_UNROLL
      for (int e = 0; e < E; ++e) {
        T w[1][kEight], b[1][kEight];
        row.load(weight, e, here && weight, T(1), w);
        row.load(other, e, here && other, T(0), b);
        GPU_UNROLL
        for (int j = 0; j < kEight; ++j) h[e][j] = (h[e][j] - mean) * rstd * w[0][j] + b[0][j];
      }
    }
    row.store(reinterpret_cast<S*>(lines.data[kY]) + at[kY], here, h);
  }
}

template <class T>
void launch(const Run& run, const Walk<6>& lines, const Walk<4>& terms, Job job) {
  const auto once = [&](const Walk<6>& piece, const Job& j, void* partials) {
    const int64_t tasks = j.team.blocks_of(piece.count) * (j.whole ? 1 : j.chunks);
    run.grid(j.team.kind(), run.blocks_for(tasks, 1), kThreads, kernel<normalize_lines<T>>(), piece,
             terms, j, partials);
  };
  const int first = job.vjp                    ? kOfDots
                    : job.value && job.centred ? kOfX
                                               : kOfSquares,
            last = job.vjp     ? kOfDots + 1
                   : job.value ? kOfSquares + 1
                               : first;
  job.sum = first;
  job.end = last;
  if (job.whole || first == last)
    return in_pieces(lines, [&](const Walk<6>& piece) { once(piece, job, nullptr); });
  Run::Scratch scratch(run, size_t(2 * job.chunks * lines.count) * sizeof(TwoSums<T>));
  void* const partials = scratch.take<TwoSums<T>>(2 * job.chunks * lines.count);
  for (int k = first; k <= last; ++k) {
    job.sum = k;
    job.end = k < last ? k + 1 : k;
    job.sums = k - first;
    once(lines, job, partials);
  }
}

}  // namespace

void normalize(Run& run) {
  Call& call = run.call;
  const NormalizeCall n = expect_normalize(call);
  const gd_view &x = n.x, &mean = n.mean;
  const gd_view* const views[6] = {&x, n.operands[0], n.operands[1], &n.y, &mean, &n.var};
  Axes line_axes, term_axes;
  for (int d = 0; d < x.rank; ++d) {
    const bool kept = x.sizes[d] == mean.sizes[d];
    const auto stride = [&](int v) { return views[v] ? views[v]->strides[d] : 0; };
    (kept ? line_axes : term_axes)
        .add(x.sizes[d], {stride(0), stride(1), stride(2), stride(3), stride(4), stride(5)});
  }
  if (line_axes.count() == 0) return;
  line_axes.sort();
  Job job{};
  job.length = term_axes.count();
  gd_view line_views[6], term_views[6];
  const gd_view *line_pointers[6] = {}, *term_pointers[4] = {};
  for (int v = 0; v < 6; ++v) {
    if (!views[v] || (v < kMean && job.length == 0)) continue;
    line_views[v] = line_axes.view(v, *views[v]);
    line_pointers[v] = &line_views[v];
    if (v >= kMean) continue;
    term_views[v] = term_axes.view(v, *views[v]);
    term_pointers[v] = &term_views[v];
  }
  const auto lines = make_walk<6>(call, line_pointers);
  auto terms = make_walk<4>(call, term_pointers);
  terms.count = job.length;
  const bool across = lines.count > 1 && line_axes.least() < term_axes.least();
  job.team = Team(lines.count, job.length, across);
  for (int v = 0; v < 4; ++v) job.runs[v] = !across && runs(terms, v);
  job.value = n.value;
  job.vjp = n.vjp;
  job.centred = call.integer(0) == 0;
  job.chunk = chunk_of(job.length);
  job.chunks = job.length > 0 ? parts(job.length, job.chunk) : 1;
  job.whole = job.chunks == 1 || (job.chunks <= kEight && job.team.blocks_of(lines.count) >= 256);
  job.inner = inner_of(call, terms);
  job.eps = call.number(0);
  bool rows = terms.rank <= 1 && n.y.dtype == x.dtype;
  for (int v = 0; v < 4; ++v)
    rows = rows && (!lines.data[v] || (job.runs[v] && are_rows(lines, v, job.length)));
  if (rows && at_rows(x.dtype, job.length, [&](auto zero, auto eights) {
        using S = decltype(zero);
        in_pieces(lines, [&](const Walk<6>& piece) {
          run.grid(job.team.kind(), run.blocks_for(job.team.blocks_of(piece.count), 1), kThreads,
                   job.vjp ? kernel<normalize_rows<S, eights, true>>()
                           : kernel<normalize_rows<S, eights, false>>(),
                   piece, job);
        });
      }))
    return;
  if (x.dtype == GD_F64)
    launch<double>(run, lines, terms, job);
  else
    launch<float>(run, lines, terms, job);
}

}  // namespace gradus::gpu
