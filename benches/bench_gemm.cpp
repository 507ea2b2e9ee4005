// Matrix products of the cpu device through its C table, against OpenBLAS in the same process on as
// many threads, and against the peak of multiply-adds.
#include "benches/bench.hpp"
#include "benches/openblas.hpp"
#include "benches/peers.hpp"

#include <type_traits>

#include <nlohmann/json.hpp>

namespace gradus::inline v1::bench {
namespace {

template <class T>
struct Product {
  int64_t n;
  std::vector<T> a, b, c;
  explicit Product(int64_t size)
      : n(size), a(size_t(n * n), T(0.5)), b(size_t(n * n), T(0.25)), c(size_t(n * n)) {}

  void ours(Device& device) {
    const int64_t joint[] = {n, n, n}, sa[] = {n, 0, 1}, sb[] = {0, 1, n}, sc[] = {n, 1};
    const int32_t t = std::is_same_v<T, float> ? GD_F32 : GD_F64;
    const gd_view in[] = {{1, a.data(), t, 3, 0, joint, sa}, {2, b.data(), t, 3, 0, joint, sb}};
    const gd_view out{3, c.data(), t, 2, 0, joint, sc};
    const double doubles[] = {1, 0, 0, 0};
    const int64_t ints[] = {2, GD_STANDARD, 0, 0};
    const gd_call call{sizeof(gd_call), GD_CONTRACT, 0,       2,       1, 4,      4, in, &out,
                       doubles,         ints,        nullptr, nullptr, 0, nullptr};
    device.run(call);
  }
};

template <class T>
void square(Run& run, int threads, int64_t n) {
  constexpr bool single = std::is_same_v<T, float>;
  const DType dtype = single ? DType::f32 : DType::f64;
  const double flops = 2.0 * double(n) * double(n) * double(n);
  const Work work{std::string("gemm ") + dtype_name(dtype) + " " + std::to_string(n), threads,
                  flops, "GFLOP/s",
                  n >= 128 ? std::string("gemm ") + dtype_name(dtype) + " square, 128 up" : ""};
  if (!run.wants(work.name)) return;
  Product<T> p(n);
  std::vector<Peer> peers;
  if (const OpenBlas* blas = openblas()) {
    blas->set_threads(threads);
    const auto theirs = [&p, f = blas->gemm<T>()] {
      const int k = int(p.n);
      f(101, 111, 111, k, k, k, T(1), p.a.data(), k, p.b.data(), k, T(0), p.c.data(), k);
    };
    peers.push_back(peer(blas->name, theirs, at_least(n <= 16 ? 1.5 : n < 128 ? 1.0 : 0.9)));
  }
  // At 16 the multiply-adds alone take what is asked for, or nearly.
  if (n == 1024 || n <= 16)
    peers.push_back(bound("peak", flops / run.peak_flops(dtype, threads),
                          n == 1024 ? at_least(0.8) : Target{}));
  if (n < 128)
    for (Peer& p :
         libtorch_peers(threads, "matmul", {{"m", n}, {"n", n}, {"k", n}, {"f32", single}},
                        at_least(n <= 16 ? 1.5 : 1.0)))
      peers.push_back(std::move(p));
  run.compare(
      work, [&] { p.ours(run.device(threads)); }, peers);
}

}  // namespace

void gemm(Run& run) {
  for (const int threads : run.threads()) {
    for (const int64_t n : {8, 16, 32, 64, 96, 128, 256, 512, 1024, 2048}) {
      square<float>(run, threads, n);
      square<double>(run, threads, n);
    }
  }
  run.geometric_mean("gemm f32 square, 128 up", at_least(1), "OpenBLAS");
  run.geometric_mean("gemm f64 square, 128 up", at_least(1), "OpenBLAS");
}

}  // namespace gradus::bench
