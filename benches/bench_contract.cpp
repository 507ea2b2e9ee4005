// Contractions of the cpu device through its C table that are no square product: skinny and tall
// ones, matrix times vector, batches in any layout, and TCCG. Peers are OpenBLAS, the bandwidth of
// this run, or gradus's own product of equal size.
#include "benches/bench.hpp"
#include "benches/cases.hpp"
#include "benches/openblas.hpp"

#include <algorithm>
#include <type_traits>

namespace gradus::inline v1::bench {
namespace {

constexpr double kWork = 3e8;  // flops of a TCCG case, about

// One contraction of dense row-major operands, as an equation says it.
template <class T>
class Product {
 public:
  Product(const std::string& equation, const std::map<char, int64_t>& extents) {
    const size_t comma = equation.find(','), arrow = equation.find("->");
    const std::string la = equation.substr(0, comma),
                      lb = equation.substr(comma + 1, arrow - comma - 1),
                      lc = equation.substr(arrow + 2);
    std::string joint = lc;
    for (const char l : la + lb)
      if (joint.find(l) == std::string::npos) joint += l;
    for (const char l : joint) sizes.push_back(extents.at(l));
    ints[0] = int64_t(lc.size());
    const std::string* labels[] = {&la, &lb, &lc};
    for (int v = 0; v < 3; ++v) {
      int64_t step = 1;
      strides[v].assign(joint.size(), 0);
      for (size_t i = labels[v]->size(); i-- > 0;) {
        strides[v][joint.find((*labels[v])[i])] = step;
        step *= extents.at((*labels[v])[i]);
      }
      data[v].assign(size_t(step), T(0.5));
      bytes += double(step) * double(sizeof(T));
    }
    flops = 2;
    for (const int64_t n : sizes) flops *= double(n);
  }
  void run(Device& device) {
    const int32_t t = std::is_same_v<T, float> ? GD_F32 : GD_F64, rank = int32_t(sizes.size());
    const gd_view views[] = {
        {1, data[0].data(), t, rank, 0, sizes.data(), strides[0].data()},
        {2, data[1].data(), t, rank, 0, sizes.data(), strides[1].data()},
        {3, data[2].data(), t, int32_t(ints[0]), 0, sizes.data(), strides[2].data()}};
    const double doubles[] = {1, 0, 0, 0};
    const gd_call call{sizeof(gd_call), GD_CONTRACT, 0,    2,       1,       4, 4,      views,
                       views + 2,       doubles,     ints, nullptr, nullptr, 0, nullptr};
    device.run(call);
  }
  // m, n and k of a plain product of as many multiplications: labels of a, of b, of both.
  std::map<char, int64_t> equal_product() const {
    std::map<char, int64_t> e{{'m', 1}, {'n', 1}, {'k', 1}};
    for (size_t d = 0; d < sizes.size(); ++d)
      e[strides[1][d] == 0 ? 'm' : strides[0][d] == 0 ? 'n' : 'k'] *= sizes[d];
    return e;
  }

  std::vector<int64_t> sizes, strides[3];
  std::vector<T> data[3];
  int64_t ints[4] = {0, GD_STANDARD, 0, 0};
  double flops = 0, bytes = 0;
};

template <class T>
constexpr DType kDtype = std::is_same_v<T, float> ? DType::f32 : DType::f64;

template <class T>
void skinny(Run& run, int threads, int64_t m, int64_t n, int64_t k) {
  const std::string name = std::string("product ") + dtype_name(kDtype<T>) + " " +
                           std::to_string(m) + " x " + std::to_string(n) + " x " +
                           std::to_string(k);
  if (!run.wants(name)) return;
  Product<T> p("mk,kn->mn", {{'m', m}, {'n', n}, {'k', k}});
  std::vector<Peer> peers;
  const bool vector = m == 1 || n == 1;
  if (const OpenBlas* blas = openblas()) {
    blas->set_threads(threads);
    const auto theirs = [&p, m, n, k, f = blas->gemm<T>()] {
      f(101, 111, 111, int(m), int(n), int(k), T(1), p.data[0].data(), int(k), p.data[1].data(),
        int(n), T(0), p.data[2].data(), int(n));
    };
    peers.push_back(peer(blas->name, theirs, vector ? Target{} : at_least(1.5)));
  }
  peers.push_back(bound("bandwidth", p.bytes / run.bandwidth(threads).read,
                        vector ? at_least(0.95) : Target{}));
  run.compare(
      {name, threads, p.flops, "GFLOP/s", ""}, [&] { p.run(run.device(threads)); }, peers);
}

template <class T>
void batch_anywhere(Run& run, int threads, const std::map<char, int64_t>& extents) {
  const std::string name = std::string("ijb,jkb->ikb ") + dtype_name(kDtype<T>) + " of " +
                           std::to_string(extents.at('i')) + ", " +
                           std::to_string(extents.at('b')) + " times";
  if (!run.wants(name)) return;
  Product<T> last("ijb,jkb->ikb", extents), first("bij,bjk->bik", extents);
  run.compare({name, threads, last.flops, "GFLOP/s", ""}, [&] { last.run(run.device(threads)); },
              {peer(
                  "batch first", [&] { first.run(run.device(threads)); }, at_most_time(1.1))});
}

template <class T>
void tccg_case(Run& run, int threads, const Contraction& c) {
  const std::string group = std::string("tccg ") + dtype_name(kDtype<T>),
                    name = group + " " + c.equation;
  if (!run.wants(name)) return;
  Product<T> p(c.equation, c.extents(std::is_same_v<T, float>, kWork));
  Product<T> equal("mk,kn->mn", p.equal_product());
  const double roofline =
      std::max(p.flops / run.peak_flops(kDtype<T>, threads), p.bytes / run.bandwidth(threads).copy);
  Sampler own = sampler([&] { equal.run(run.device(threads)); });
  // The slower of the two bounds is the one to reach.
  const Peer best{"bound",
                  [own, roofline](double budget) {
                    std::vector<double> t = own(budget);
                    for (double& s : t) s = std::max(s, roofline);
                    return t;
                  },
                  at_least(0.7)};
  run.compare({name, threads, p.flops, "GFLOP/s", group}, [&] { p.run(run.device(threads)); },
              {best});
}

}  // namespace

void contract(Run& run) {
  for (const int threads : run.threads()) {
    for (const int64_t s : {4, 8, 16, 32}) {
      skinny<float>(run, threads, s, 2000, 2000);
      skinny<float>(run, threads, 2000, s, 2000);
      skinny<float>(run, threads, 2000, 2000, s);
    }
    skinny<float>(run, threads, 32, 32, 100000);
    for (const int64_t n : {1000, 6000}) {
      skinny<float>(run, threads, 1, n, n);
      skinny<float>(run, threads, n, 1, n);
      skinny<double>(run, threads, 1, n, n);
      skinny<double>(run, threads, n, 1, n);
    }
    for (const int64_t n : {8, 32, 64}) {
      batch_anywhere<float>(run, threads, {{'i', n}, {'j', n}, {'k', n}, {'b', 64}});
      batch_anywhere<double>(run, threads, {{'i', n}, {'j', n}, {'k', n}, {'b', 64}});
    }
    for (const Contraction& c : tccg()) {
      tccg_case<float>(run, threads, c);
      tccg_case<double>(run, threads, c);
    }
  }
  run.geometric_mean("tccg f32", at_least(0.85), "bound");
  run.geometric_mean("tccg f64", at_least(0.85), "bound");
}

}  // namespace gradus::bench
