// Matrix products of the cpu device through its C table, against OpenBLAS in the same process on as
// many threads. Each run measures both, turn by turn, and prints the ratio of their speeds (above
// 1: gradus is faster); the best time of each side counts.
#include "kernels/cpu/cpu.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <benchmark/benchmark.h>
#include <cblas.h>

extern "C" void openblas_set_num_threads(int);

namespace {

struct Close {
  void operator()(gd_device* d) const { gradus::cpu::table()->close(d); }
};
gd_device* device(int threads) {
  static std::map<int, std::unique_ptr<gd_device, Close>> open;
  auto& slot = open[threads];
  if (!slot) {
    gd_device* d = nullptr;
    gd_error e{};
    const std::string json = "{\"threads\": " + std::to_string(threads) + "}";
    if (gradus::cpu::table()->open(0, json.c_str(), &d, &e) != GD_OK) return nullptr;
    slot.reset(d);
  }
  return slot.get();
}

double seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

template <class T>
struct Product {
  int64_t n;
  std::vector<T> a, b, c;
  explicit Product(int64_t size)
      : n(size), a(size_t(n * n), T(0.5)), b(size_t(n * n), T(0.25)), c(size_t(n * n)) {}

  bool ours(gd_device* d) {
    const int64_t joint[] = {n, n, n}, sa[] = {n, 0, 1}, sb[] = {0, 1, n}, sc[] = {n, 1};
    const int32_t t = std::is_same_v<T, float> ? GD_F32 : GD_F64;
    const gd_view in[] = {{1, a.data(), t, 3, 0, joint, sa}, {2, b.data(), t, 3, 0, joint, sb}};
    const gd_view out{3, c.data(), t, 2, 0, joint, sc};
    const double doubles[] = {1, 0, 0, 0};
    const int64_t ints[] = {2, GD_STANDARD, 0, 0};
    const gd_call call{sizeof(gd_call), GD_CONTRACT, 0,      2, 1, 4, 4, in, &out,
                       doubles,         ints,        nullptr};
    gd_error e{};
    return gradus::cpu::table()->slot[GD_CONTRACT](d, nullptr, &call, &e) == GD_OK;
  }
  void theirs() {
    const int k = int(n);
    if constexpr (std::is_same_v<T, float>)
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, k, k, k, 1, a.data(), k, b.data(), k,
                  0, c.data(), k);
    else
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, k, k, k, 1, a.data(), k, b.data(), k,
                  0, c.data(), k);
  }
};

template <class T>
void gemm(benchmark::State& state) {
  const int64_t n = state.range(0);
  const int threads = int(state.range(1));
  gd_device* d = device(threads);
  if (!d) return state.SkipWithError("the device does not open");
  openblas_set_num_threads(threads);
  Product<T> p(n);
  p.theirs();
  double ours = 1e30, theirs = 1e30;
  for (auto _ : state) {
    const double t0 = seconds();
    if (!p.ours(d)) return state.SkipWithError("contract refused");
    const double t1 = seconds();
    p.theirs();
    const double t2 = seconds();
    ours = std::min(ours, t1 - t0);
    theirs = std::min(theirs, t2 - t1);
  }
  const double flops = 2.0 * double(n) * double(n) * double(n);
  state.counters["gflops"] = flops / ours * 1e-9;
  state.counters["openblas"] = flops / theirs * 1e-9;
  state.counters["ratio"] = theirs / ours;
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"n", "threads"})->Unit(benchmark::kMicrosecond)->MinTime(0.3);
  for (int64_t threads : {1, 2})
    for (int64_t n : {64, 96, 128, 192, 256, 384, 512, 768, 1024}) b->Args({n, threads});
}
BENCHMARK(gemm<float>)->Apply(sizes);
BENCHMARK(gemm<double>)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
