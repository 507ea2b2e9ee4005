// Triangular systems in place, in out, whatever its strides. A block of threads has some columns of
// one matrix's right-hand side: panel by panel it solves a small triangle in shared memory, then
// takes what the panel adds away from all rows that follow.
#include "kernels/gpu/linalg/linalg.hpp"

namespace gradus::inline v1::gpu {
namespace {

constexpr int kPanel = 32, kThreads = 256, kPitch = kPanel + 1;

struct Triangular {
  int64_t n, columns;
  int64_t a_down, a_by, x_down, x_by;  // of op(A), of X
  bool conjugated, forward, unit;      // forward: op(A) is lower
  int tile;                            // columns of a block: a power of two
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    solve_panels(Walk<2> batch, int64_t count, Triangular t) {
  GPU_SHARED(T, triangle, kPanel * kPitch);
  GPU_SHARED(T, panel, kPanel * kPanel);
  const int column = thread() % t.tile, first_row = thread() / t.tile, rows = kThreads / t.tile;
  const int64_t tiles = (t.columns + t.tile - 1) / t.tile;
  for (int64_t task = block(); task < count * tiles; task += blocks()) {
    int64_t at[2];
    batch.places(task / tiles, at);
    const int64_t own = task % tiles * t.tile + column;
    const bool here = own < t.columns;
    const T* const a = reinterpret_cast<const T*>(batch.data[0]) + at[0];
    T* const x = reinterpret_cast<T*>(batch.data[1]) + at[1] + own * t.x_by;
    const auto entry = [&](int64_t i, int64_t j) {
      const T e = a[i * t.a_down + j * t.a_by];
      return t.conjugated ? conj_of(e) : e;
    };
    for (int64_t done = 0; done < t.n; done += kPanel) {
      const int size = int(t.n - done < kPanel ? t.n - done : kPanel);
      const int64_t begin = t.forward ? done : t.n - done - size;
      for (int e = thread(); e < size * size; e += kThreads) {
        const int i = e / size, j = e % size;
        if (t.forward ? j <= i : j >= i) triangle[i * kPitch + j] = entry(begin + i, begin + j);
      }
      for (int i = first_row; i < size && here; i += rows)
        panel[i * kPanel + column] = x[(begin + i) * t.x_down];
      barrier();
      for (int step = 0; step < size && here && first_row == 0; ++step) {
        const int i = t.forward ? step : size - 1 - step;
        T solved = panel[i * kPanel + column];
        if (!t.unit) solved = solved / triangle[i * kPitch + i];
        panel[i * kPanel + column] = solved;
        for (int left = step + 1; left < size; ++left) {
          const int k = t.forward ? left : size - 1 - left;
          T& rest = panel[k * kPanel + column];
          rest = rest - triangle[k * kPitch + i] * solved;
        }
      }
      barrier();
      for (int i = first_row; i < size && here; i += rows)
        x[(begin + i) * t.x_down] = panel[i * kPanel + column];
      const int64_t from = t.forward ? begin + size : 0, end = t.forward ? t.n : begin;
      for (int64_t i = from + first_row; i < end && here; i += rows) {
        T rest = x[i * t.x_down];
        for (int step = 0; step < size; ++step) {
          const int j = t.forward ? step : size - 1 - step;
          rest = rest - entry(i, begin + j) * panel[j * kPanel + column];
        }
        x[i * t.x_down] = rest;
      }
      barrier();
    }
  }
}

}  // namespace

template <class T>
void solve_triangular(const Run& run, const LinalgCall& c) {
  const gd_view& x = *c.out[0];
  const int rows = c.batch_axes, columns = c.batch_axes + 1;
  Triangular t{c.n,
               x.sizes[columns],
               c.a.strides[rows],
               c.a.strides[columns],
               x.strides[rows],
               x.strides[columns],
               c.turned == 2,
               c.upper != (c.turned == 0),
               c.unit,
               1};
  if (c.turned != 0) std::swap(t.a_down, t.a_by);
  while (t.tile < kPanel && t.tile < t.columns) t.tile *= 2;
  // The batch alone.
  gd_view of_a = c.a, of_x = x;
  of_a.rank = of_x.rank = c.batch_axes;
  const auto batch = make_walk<2>(run.call, {&of_a, &of_x});
  const int64_t tasks = batch.count * ((t.columns + t.tile - 1) / t.tile);
  if (batch.count > kMostElements)
    run.call.refuse(GD_UNSUPPORTED, "more than %lld matrices",
                    static_cast<long long>(kMostElements));
  if (tasks > 0 && t.n > 0)
    run.grid(Threads::together, run.blocks_for(tasks, 1), kThreads, kernel<solve_panels<T>>(),
             batch, batch.count, t);
}

template void solve_triangular<float>(const Run&, const LinalgCall&);
template void solve_triangular<double>(const Run&, const LinalgCall&);
template void solve_triangular<c64>(const Run&, const LinalgCall&);
template void solve_triangular<c128>(const Run&, const LinalgCall&);

}  // namespace gradus::gpu
