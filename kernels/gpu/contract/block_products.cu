// Products of blocks (GD_GROUPED): one launch for as many jobs as kernel parameters hold, so that a
// captured graph holds them too. A block of threads makes one tile of a block of out, by all the
// jobs that add to it, one after the other.
#include "kernels/gpu/contract/contract.hpp"

namespace gradus::inline v1::gpu {
namespace {

// A tile's threads are a square of kAcross x kAcross, each has Own x Own elements of it; kDeep
// terms at a time.
constexpr int kAcross = 16, kDeep = 16;
GRADUS_HD constexpr int side_of(int own) { return own * kAcross; }

// gd_block_product in few bytes. Steps along axes of one element are 0.
struct Job {
  int64_t a, b, c;
  int64_t tile;  // the first one of its block of out
  uint32_t batch, m, n, k;
  uint32_t a_batch, a_m, a_k, b_batch, b_k, b_n, c_batch, c_m, c_n;
  bool first, minus;

  GRADUS_HD uint32_t down(uint32_t side) const { return (m + side - 1) / side; }
  GRADUS_HD uint32_t across(uint32_t side) const { return (n + side - 1) / side; }
};
constexpr int kMostJobs = 44;
struct Jobs {
  Job at[kMostJobs];
  int32_t count;
  int32_t dtype;
  bool large;  // tiles of 64 x 64, else of 32 x 32
  int64_t tiles;
  char *a, *b, *c;
};

// kDeep terms of Side lines to shared memory, line beside line; 0 beyond the ends. Threads go along
// whichever axis lies denser.
template <int Side, class T>
__device__ void bring(T* to, const char* from, int64_t at, int32_t dtype, uint32_t lines,
                      uint32_t line_by, uint32_t terms, uint32_t term_by) {
  const bool by_lines = line_by <= term_by && line_by > 0;
  GPU_UNROLL
  for (int i = thread(); i < Side * kDeep; i += kBlockThreads) {
    const uint32_t line = uint32_t(by_lines ? i % Side : i / kDeep),
                   term = uint32_t(by_lines ? i / Side : i % kDeep);
    T x(0);
    if (line < lines && term < terms)
      x = load_number<T>(from, at + int64_t(line) * line_by + int64_t(term) * term_by, dtype);
    to[term * (Side + 1) + line] = x;
  }
}

template <int Own, class T>
GPU_KERNEL multiply_blocks(Jobs jobs, Standard<T> algebra) {
  constexpr int kSide = side_of(Own);
  GPU_SHARED(T, a, kDeep * (kSide + 1));
  GPU_SHARED(T, b, kDeep * (kSide + 1));
  for (int64_t tile = block(); tile < jobs.tiles; tile += blocks()) {
    int job = 0;
    for (int i = 1; i < jobs.count; ++i)
      if (jobs.at[i].tile <= tile && jobs.at[i].tile != jobs.at[job].tile) job = i;
    for (const int64_t chain = jobs.at[job].tile; job < jobs.count && jobs.at[job].tile == chain;
         ++job) {
      const Job& p = jobs.at[job];
      const uint32_t place = uint32_t(tile - chain), across = p.across(kSide), down = p.down(kSide);
      const uint32_t row = place / across % down * kSide, column = place % across * kSide,
                     batch = place / across / down;
      const int64_t from_a = p.a + int64_t(batch) * p.a_batch + int64_t(row) * p.a_m,
                    from_b = p.b + int64_t(batch) * p.b_batch + int64_t(column) * p.b_n;
      const bool turned = p.c_m < p.c_n && p.m > 1;
      const int x = thread() % kAcross, y = thread() / kAcross, r = turned ? x : y,
                s = turned ? y : x;
      T sums[Own][Own];
      GPU_UNROLL
      for (int i = 0; i < Own; ++i) GPU_UNROLL
      for (int j = 0; j < Own; ++j) sums[i][j] = T(0);
      for (uint32_t k = 0; k < p.k; k += kDeep) {
        bring<kSide>(a, jobs.a, from_a + int64_t(k) * p.a_k, jobs.dtype, p.m - row, p.a_m, p.k - k,
                     p.a_k);
        bring<kSide>(b, jobs.b, from_b + int64_t(k) * p.b_k, jobs.dtype, p.n - column, p.b_n,
                     p.k - k, p.b_k);
        barrier();
        for (int t = 0; t < kDeep; ++t) {
          const T *const left = a + t * (kSide + 1) + r, *const right = b + t * (kSide + 1) + s;
          T l[Own], m[Own];
          GPU_UNROLL
          for (int i = 0; i < Own; ++i) {
            l[i] = algebra.read(kA, left[i * kAcross]);
            m[i] = algebra.read(kB, right[i * kAcross]);
          }
          GPU_UNROLL
          for (int i = 0; i < Own; ++i) GPU_UNROLL
          for (int j = 0; j < Own; ++j) algebra.add(sums[i][j], l[i], m[j], 0);
        }
        barrier();
      }
      GPU_UNROLL
      for (int i = 0; i < Own; ++i) GPU_UNROLL
      for (int j = 0; j < Own; ++j) {
        const uint32_t m = row + uint32_t(r + i * kAcross), n = column + uint32_t(s + j * kAcross);
        if (m >= p.m || n >= p.n) continue;
        const int64_t at =
            p.c + int64_t(batch) * p.c_batch + int64_t(m) * p.c_m + int64_t(n) * p.c_n;
        T sum = p.minus ? T(0) - sums[i][j] : sums[i][j];
        if (!p.first) sum = load_number<T>(jobs.c, at, jobs.dtype) + sum;
        store_number(jobs.c, at, jobs.dtype, sum);
      }
    }
  }
}

template <class T>
void launch_jobs(const Run& run, const Jobs& jobs, const Scales& scales) {
  if (jobs.count > 0)
    run.grid(Threads::together, run.blocks_for(jobs.tiles, 1), kBlockThreads,
             jobs.large ? kernel<multiply_blocks<4, T>>() : kernel<multiply_blocks<2, T>>(), jobs,
             standard<T>(scales));
}

// Tiles of 64 read half as much as those of 32. Are there enough of them for all units, and few
// that are mostly empty?
bool fills_large(const Run& run, const GroupedCall& g) {
  double large = 0, small = 0;
  for (int64_t k = 0; k < g.jobs; ++k) {
    const gd_block_product& p = g.products[k];
    if (!p.first) continue;
    const auto tiles = [&](int64_t side) {
      return double(p.batch) * double((p.m + side - 1) / side) * double((p.n + side - 1) / side);
    };
    large += tiles(side_of(4));
    small += tiles(side_of(2));
  }
  return large >= run.device.units && 4 * large <= 1.5 * small;
}

Job job_of(const Call& call, const gd_block_product& p) {
  const auto narrow = [&](int64_t x) {
    if (x > kMostElements)
      call.refuse(GD_UNSUPPORTED, "sizes and strides above %lld",
                  static_cast<long long>(kMostElements));
    return uint32_t(x);
  };
  const auto step = [&](int64_t size, int64_t by) { return size > 1 ? narrow(by) : 0; };
  return {p.a,
          p.b,
          p.c,
          0,
          narrow(p.batch),
          narrow(p.m),
          narrow(p.n),
          narrow(p.k),
          step(p.batch, p.a_batch),
          step(p.m, p.a_m),
          step(p.k, p.a_k),
          step(p.batch, p.b_batch),
          step(p.k, p.b_k),
          step(p.n, p.b_n),
          step(p.batch, p.c_batch),
          step(p.m, p.c_m),
          step(p.n, p.c_n),
          p.first != 0,
          p.sign < 0};
}

}  // namespace

void block_products(Run& run, const GroupedCall& g) {
  static_assert(sizeof(Jobs) + sizeof(Standard<c128>) <= 4096 - 64, "kernel parameters");
  for (int64_t job = 0; job < g.jobs; ++job) job_of(run.call, g.products[job]);  // or refuses
  Jobs jobs{};
  jobs.dtype = g.out.dtype;
  jobs.large = fills_large(run, g);
  jobs.a = start_of(g.a);
  jobs.b = start_of(*g.b);
  jobs.c = start_of(g.out);
  const Scales scales{c128(1), c128(0), g.conj_a, g.conj_b, false};
  const auto finish = [&] {
    switch (DType(g.out.dtype)) {
      case DType::f64:
        launch_jobs<double>(run, jobs, scales);
        break;
      case DType::c64:
        launch_jobs<c64>(run, jobs, scales);
        break;
      case DType::c128:
        launch_jobs<c128>(run, jobs, scales);
        break;
      case DType::i32:
      case DType::i64:
      case DType::u8:
        launch_jobs<uint64_t>(run, jobs, scales);
        break;
      default:
        launch_jobs<float>(run, jobs, scales);
    }
    jobs.count = 0;
    jobs.tiles = 0;
  };
  for (int64_t k = 0; k < g.jobs; ++k) {
    Job job = job_of(run.call, g.products[k]);
    if (job.batch == 0 || job.m == 0 || job.n == 0) continue;
    const uint32_t side = uint32_t(side_of(jobs.large ? 4 : 2));
    const int64_t tiles = int64_t(job.batch) * job.down(side) * job.across(side);
    if (tiles > kMostElements) run.call.refuse(GD_UNSUPPORTED, "a block of too many tiles");
    if (jobs.count == kMostJobs) finish();
    if (job.first || jobs.count == 0) {
      job.tile = jobs.tiles;
      jobs.tiles += tiles;
    } else {
      job.tile = jobs.at[jobs.count - 1].tile;
    }
    jobs.at[jobs.count++] = job;
  }
  finish();
}

}  // namespace gradus::gpu
