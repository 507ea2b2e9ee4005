// What this machine can do at most, measured in the run that uses it as a bound: multiply-adds,
// and additions with maxima, in registers by instruction set, and bytes through memory.
#include "benches/bench.hpp"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradus::inline v1::bench {
namespace {

// Runs task(t) on every thread at once, `repeats` times; the best time from the common start to the
// last end.
template <class Task>
double best_time(int threads, int repeats, const Task& task) {
  double best = 1e30;
  std::vector<double> ends(static_cast<size_t>(threads));
  double begin = 0;
  std::barrier start(threads, [&]() noexcept { begin = seconds(); });
  std::barrier end(threads, [&]() noexcept {
    best = std::min(best, *std::max_element(ends.begin(), ends.end()) - begin);
  });
  auto work = [&](int t) {
    for (int r = 0; r < repeats; ++r) {
      start.arrive_and_wait();
      task(t);
      ends[size_t(t)] = seconds();
      end.arrive_and_wait();
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (auto& thread : others) thread.join();
  return best;
}

// ---- multiply-adds: 12 chains of their own hide the latency; this file is compiled with
// -ffp-contract=fast, so that a * b + c is one instruction where the set has it.

constexpr int kChains = 12;
constexpr int64_t kTurns = 400000;
volatile double sink;

// Of a step: a multiply-add, or an addition and a maximum.
template <class V, class T, bool kTropical>
[[gnu::always_inline]] inline void chains() {
  V acc[kChains];
  for (int i = 0; i < kChains; ++i) acc[i] = V{} + T(i);
  const V a = V{} + T(0.999), b = V{} + T(0.001);
  for (int64_t n = 0; n < kTurns; ++n)
    for (int i = 0; i < kChains; ++i) {
      if constexpr (kTropical) {
        const V sum = acc[i] - b;
        acc[i] = sum > a ? sum : a;
      } else {
        acc[i] = acc[i] * a + b;
      }
    }
  V sum = acc[0];
  for (int i = 1; i < kChains; ++i) sum = sum + acc[i];
  sink = double(sum[0]);
}

typedef float f32x4 __attribute__((vector_size(16)));
typedef double f64x2 __attribute__((vector_size(16)));
template <bool kTropical>
void base_f32() {
  chains<f32x4, float, kTropical>();
}
template <bool kTropical>
void base_f64() {
  chains<f64x2, double, kTropical>();
}
#if defined(__x86_64__)
typedef float f32x8 __attribute__((vector_size(32)));
typedef double f64x4 __attribute__((vector_size(32)));
typedef float f32x16 __attribute__((vector_size(64)));
typedef double f64x8 __attribute__((vector_size(64)));
template <bool kTropical>
[[gnu::target("avx2,fma")]] void avx2_f32() {
  chains<f32x8, float, kTropical>();
}
template <bool kTropical>
[[gnu::target("avx2,fma")]] void avx2_f64() {
  chains<f64x4, double, kTropical>();
}
template <bool kTropical>
[[gnu::target("avx512f,fma")]] void avx512_f32() {
  chains<f32x16, float, kTropical>();
}
template <bool kTropical>
[[gnu::target("avx512f,fma")]] void avx512_f64() {
  chains<f64x8, double, kTropical>();
}
#endif

template <bool kTropical>
double measure_chains(DType dtype, int threads, [[maybe_unused]] const std::string& isa) {
  const bool single = dtype == DType::f32;
  void (*loop)() = single ? base_f32<kTropical> : base_f64<kTropical>;
  double bytes = 16;
#if defined(__x86_64__)
  if (isa == "avx2") loop = single ? avx2_f32<kTropical> : avx2_f64<kTropical>, bytes = 32;
  if (isa == "avx512") loop = single ? avx512_f32<kTropical> : avx512_f64<kTropical>, bytes = 64;
#endif
  const double flops = 2.0 * kChains * double(kTurns) * bytes / (single ? 4 : 8) * threads;
  return flops / best_time(threads, 15, [&](int) { loop(); });
}

// ---- memory: streaming and plain stores, the faster counts.

constexpr int64_t kFloats = 32 << 20;  // 128 MiB in each array

[[gnu::always_inline]] inline void add_up(const float* a, int64_t n) {
  f32x4 acc[8] = {};
  for (int64_t i = 0; i + 32 <= n; i += 32)
    for (int j = 0; j < 8; ++j) {
      f32x4 x;
      std::memcpy(&x, a + i + 4 * j, sizeof x);
      acc[j] = acc[j] + x;
    }
  for (int j = 1; j < 8; ++j) acc[0] = acc[0] + acc[j];
  sink = double(acc[0][0]);
}

void triad(float* c, const float* a, const float* b, int64_t n, bool streaming) {
  for (int64_t i = 0; i + 4 <= n; i += 4) {
    f32x4 x, y;
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    const f32x4 z = x + 0.5F * y;
#if defined(__x86_64__)
    if (streaming) {
      _mm_stream_ps(c + i, z);
      continue;
    }
#else
    (void)streaming;
#endif
    std::memcpy(c + i, &z, sizeof z);
  }
}

}  // namespace

double measure_fma(DType dtype, int threads, const std::string& isa) {
  return measure_chains<false>(dtype, threads, isa);
}
double measure_add_max(DType dtype, int threads, const std::string& isa) {
  return measure_chains<true>(dtype, threads, isa);
}

Bandwidth measure_bandwidth(int threads) {
  const size_t bytes = size_t(kFloats) * sizeof(float);
  const Memory memory[3]{Memory(bytes), Memory(bytes), Memory(bytes)};
  float *const a = memory[0].floats(), *const b = memory[1].floats(), *const c = memory[2].floats();
  const int64_t share = kFloats / threads / 1024 * 1024;
  for (float* p : {a, b, c}) std::fill(p, p + kFloats, 1.0F);
  const double floats = double(share) * threads * sizeof(float);
  constexpr int kRepeats = 5;
  Bandwidth out;
  out.read = floats / best_time(threads, kRepeats, [&](int t) { add_up(a + t * share, share); });
  out.copy = 2 * floats / best_time(threads, kRepeats, [&](int t) {
               std::memcpy(c + t * share, a + t * share, size_t(share) * sizeof(float));
             });
  for (const bool streaming : {false, true})
    out.triad =
        std::max(out.triad, 3 * floats / best_time(threads, kRepeats, [&](int t) {
                              triad(c + t * share, a + t * share, b + t * share, share, streaming);
                            }));
  return out;
}

}  // namespace gradus::bench
