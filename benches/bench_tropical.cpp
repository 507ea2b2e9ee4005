// Tropical contractions of the cpu device through its C table: against the peak of additions and
// maxima in registers, and thin shapes against the sum of products of equal size.
#include "benches/bench.hpp"

#include <type_traits>

namespace gradus::inline v1::bench {
namespace {

// out[batch, m, n] of batches of row-major matrices.
template <class T>
struct Tropical {
  int64_t batch, m, n, k;
  std::vector<T> a, b, c;
  std::vector<int64_t> winner;

  Tropical(int64_t batches, int64_t rows, int64_t columns, int64_t terms)
      : batch(batches),
        m(rows),
        n(columns),
        k(terms),
        a(numbers(batch * m * k)),
        b(numbers(batch * k * n)),
        c(size_t(batch * m * n)),
        winner(c.size()) {}
  static std::vector<T> numbers(int64_t count) {
    std::vector<T> x(static_cast<size_t>(count));
    uint32_t state = 1;
    for (T& y : x) y = T(state = state * 1664525U + 1013904223U) / T(1LL << 32);
    return x;
  }

  void run(Device& device, gd_algebra algebra, bool winners = false) {
    const int64_t joint[] = {batch, m, n, k}, sa[] = {m * k, k, 0, 1}, sb[] = {k * n, 0, 1, n},
                  sc[] = {m * n, n, 1};
    const int32_t t = std::is_same_v<T, float> ? GD_F32 : GD_F64;
    const gd_view in[] = {{1, a.data(), t, 4, 0, joint, sa}, {2, b.data(), t, 4, 0, joint, sb}};
    const gd_view out[] = {{3, c.data(), t, 3, 0, joint, sc},
                           {4, winner.data(), GD_I64, 3, 0, joint, sc}};
    const double doubles[] = {1, 0, 0, 0};
    const int64_t ints[] = {3, algebra, 0, 0};
    const gd_call call{
        sizeof(gd_call), GD_CONTRACT, 0, 2,      winners ? 2 : 1, 4, 4, in, out, doubles, ints,
        nullptr,         nullptr,     0, nullptr};
    device.run(call);
  }
};

template <class T>
void large(Run& run, int threads) {
  const DType dtype = std::is_same_v<T, float> ? DType::f32 : DType::f64;
  constexpr int64_t n = 1000;
  const double terms = double(n) * n * n;
  struct Case {
    const char* name;
    gd_algebra algebra;
    bool winners;
    Target target;
  };
  for (const Case& c : {Case{"max-plus", GD_MAX_PLUS, false, at_least(0.8)},
                        Case{"max-plus with winners", GD_MAX_PLUS, true, at_least(0.4)},
                        Case{"min-plus", GD_MIN_PLUS, false, at_least(0.8)},
                        Case{"max-times", GD_MAX_TIMES, false, {}}}) {
    const Work work{std::string(c.name) + " " + dtype_name(dtype) + " 1000", threads, 2 * terms,
                    "GFLOP/s"};
    if (!run.wants(work.name)) continue;
    Tropical<T> p(1, n, n, n);
    Device& device = run.device(threads);
    run.compare(
        work, [&] { p.run(device, c.algebra, c.winners); },
        {bound("peak", 2 * terms / measure_add_max(dtype, threads, device.info().arch), c.target),
         peer("sum of products", [&] { p.run(device, GD_STANDARD); })});
  }
}

template <class T>
void thin(Run& run, int threads, int64_t batch, int64_t m, int64_t n, int64_t k) {
  const DType dtype = std::is_same_v<T, float> ? DType::f32 : DType::f64;
  const Work work{std::string("max-plus ") + dtype_name(dtype) + " " + std::to_string(batch) +
                      " of " + std::to_string(m) + "x" + std::to_string(n) + "x" +
                      std::to_string(k),
                  threads, 0, ""};
  if (!run.wants(work.name)) return;
  Tropical<T> p(batch, m, n, k);
  Device& device = run.device(threads);
  run.compare(work, [&] { p.run(device, GD_MAX_PLUS); },
              {peer("sum of products", [&] { p.run(device, GD_STANDARD); })});
}

}  // namespace

void tropical(Run& run) {
  for (const int threads : run.threads()) {
    large<float>(run, threads);
    large<double>(run, threads);
    constexpr int64_t shapes[][4] = {{1, 1, 1000, 1000}, {1, 1000, 1, 1000}, {1, 1000, 1000, 1},
                                     {1, 1, 1, 100000},  {1, 4, 1000, 1000}, {1000, 1, 1, 64},
                                     {1000, 8, 8, 8}};
    for (const auto& s : shapes) {
      thin<float>(run, threads, s[0], s[1], s[2], s[3]);
      thin<double>(run, threads, s[0], s[1], s[2], s[3]);
    }
  }
}

}  // namespace gradus::bench
