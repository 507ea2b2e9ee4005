// Depth and life: long chains, wide fans, diamonds; what is saved is read, and counted; threads.
#include "tests/helpers/helpers.hpp"
#include "engine/forward.hpp"

#include "ops/check/check.hpp"
#include "tests/helpers/sizes.hpp"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

using namespace gradus;
using namespace gradus::testing;

namespace {

// Of the machine, in GiB; 0 if it can't be told.
double free_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (double kib; file >> key >> kib >> unit;)
    if (key == "MemAvailable:") return kib / (1 << 20);
  return 0;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("a chain of ten million nodes builds, differentiates and dies in a flat stack") {
  int n = test::small_sizes() ? 100000 : 10000000;
  if (!test::small_sizes() && free_memory() < 10) {
    n = 1000000;
    MESSAGE("less than 10 GiB of memory are free: the chain has a million nodes only");
  }
  const int64_t before = live_objects();
  double walked = 0;
  const double all = seconds_of([&] {
    const Tensor x = leaf(f64({1}, {}));
    Tensor y = x;
    for (int i = 0; i < n; ++i) y = neg(y);
    walked = seconds_of([&] { backward(y); });
    CHECK(x.grad().item() == 1);
  });
  MESSAGE("chain of ", n, " nodes: ", all, " s, of which backward ", walked, " s");
  CHECK(live_objects() == before);
  ::malloc_trim(0);  // or all that later tests start count these gigabytes as theirs
}

TEST_CASE("a chain that saves, and one that dies without ever being walked") {
  const int n = test::small_sizes() ? 20000 : 300000;
  const int64_t before = live_objects();
  {
    const Tensor x = leaf(f64({0.5}, {}));
    Tensor y = x;
    for (int i = 0; i < n; ++i) y = y * x;
  }
  {
    const Tensor x = leaf(f64({0.5}, {}));
    Tensor y = x;
    for (int i = 0; i < n; ++i) y = sin(y);
    backward(y);
    CHECK(std::isfinite(x.grad().item()));
  }
  CHECK(live_objects() == before);
}

TEST_CASE("a leaf used a million times") {
  const int n = test::small_sizes() ? 20000 : 1000000;
  const Tensor x = leaf(f64({2}, {}));
  Tensor y = x;
  for (int i = 1; i < n; ++i) y = y + x;
  backward(y);
  CHECK(x.grad().item() == n);
}

TEST_CASE("diamonds that are exponential if walked naively") {
  const int n = test::small_sizes() ? 2000 : 100000;
  const Tensor x = leaf(f64({1}, {}));
  Tensor y = x;
  for (int i = 0; i < n; ++i) y = (y + y) * 0.5;
  backward(y);
  CHECK(x.grad().item() == doctest::Approx(1));
  // Every node meets every later one: grad() of the first with respect to all.
  std::vector<Tensor> layers{leaf(f64({1}, {}))};
  for (int i = 0; i < 100; ++i) {
    Tensor sum = layers[0];
    for (size_t k = 1; k < layers.size(); ++k) sum = sum + layers[k];
    layers.push_back(sum * 0.5);
  }
  backward(layers.back());
  CHECK(layers[0].grad().item() > 0);
}

TEST_CASE("whatever an op saves, its vjp reads: every op, every row, each operand alone and all") {
  // With all operands asked for nothing may be saved in vain; with one alone, what is saved is for
  // it.
  Device& device = open_device("reference");
  const DeviceScope scope(device);
  size_t nodes = 0, bytes = 0;
  for (const OpInfo& op : all_ops()) {
    if (!op.differentiable) continue;
    const rows::Row& row = rows::row_of(op.name);
    for (size_t c = 0; c < std::min<size_t>(row.cases.size(), 3); ++c) {
      const auto dtypes = rows::dtypes_of_case(row, c);
      const auto has = [&](DType t) { return std::count(dtypes.begin(), dtypes.end(), t) > 0; };
      const DType dtype = has(DType::f64) || row.operands.empty() ? DType::f64 : DType::c128;
      const Tensors plain = rows::draw_inputs(row, c, dtype, device);
      for (size_t alone = 0; alone <= plain.size(); ++alone) {
        Tensors in;
        bool any = false;
        for (size_t k = 0; k < plain.size(); ++k) {
          in.push_back(plain[k].detach());
          if (!is_floating(in[k].dtype()) || (alone < plain.size() && k != alone)) continue;
          in[k].set_requires_grad();
          any = true;
        }
        if (!any) continue;
        const Tensors out = rows::evaluate(op, in, rows::attrs_of(op, row.cases[c].attrs), true);
        // All nodes, before backward frees what they hold.
        std::set<GradFn*> seen;
        std::vector<Ref<GradFn>> all;
        for (const Tensor& y : out)
          if (y.grad_fn() && seen.insert(y.grad_fn()).second) all.emplace_back(y.grad_fn());
        for (size_t i = 0; i < all.size(); ++i)
          for (const Edge& e : all[i]->inputs())
            if (e.fn && seen.insert(e.fn.get()).second) all.push_back(e.fn);
        Tensors roots, seeds;
        for (const Tensor& y : out) {
          if (!y.requires_grad()) continue;
          roots.push_back(y);
          const Tensor ones = Tensor::full(y.sizes(), 1.0, y.dtype(), device);
          seeds.push_back(rows::cotangent_of(row, y, ones));
        }
        if (roots.empty()) continue;
        backward(roots, seeds, {.retain_graph = true});
        for (const Ref<GradFn>& node : all) {
          ++nodes;
          for (const Saved& s : node->saved()) {
            bytes += s.tensor.bytes();
            if (numel_of(node->output_metas()[0].sizes) == 0) continue;
            CHECK_MESSAGE(s.read, op.name, ", case ", c, ": ", node->op().name, " saved its ",
                          std::string(s.role == Saved::Role::output ? "output " : "operand "),
                          s.index, ", and no vjp read it");
          }
        }
      }
    }
  }
  MESSAGE(nodes, " nodes, ", bytes, " bytes saved and read");
  CHECK(nodes > 500);
}

TEST_CASE("many threads build and differentiate graphs on shared leaves") {
  const int threads = 8, rounds = test::small_sizes() ? 20 : 200;
  const Tensor w = leaf(f64({1, 2, 3, 4}, {2, 2})), b = leaf(f64({0.5, -0.5}, {2}));
  const Tensor shared = exp(w * 0.1);  // one graph under all of them
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t)
    pool.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        const Tensor x = f64({double(t), 1, 2, double(i % 3)}, {2, 2});
        const Tensor h = relu(matmul(x, shared) + b);
        backward(sum(h * 0.0 + matmul(x, w) + b), {.retain_graph = true});
        const Tensor g = grad({sum(square(shared))}, {w}, {}, {.create_graph = true})[0];
        ForwardLevel level;
        const Tensor dual = x.detach();
        level.set_tangent(dual, x);
        if (!(square(dual) * g).tangent().defined()) std::abort();
      }
    });
  for (std::thread& t : pool) t.join();
  // Sums of small integers: exact in any order.
  const double n = double(threads) * rounds;
  CHECK(values(b.grad()) == std::vector<double>{2 * n, 2 * n});
  double first = 0;
  for (int t = 0; t < threads; ++t) first += double(t) * rounds;
  CHECK(values(w.grad())[0] == first + 2 * n);
}

TEST_CASE("threads that race to free one graph: each gets its gradient or a clear error") {
  for (int round = 0; round < (test::small_sizes() ? 5 : 50); ++round) {
    const Tensor x = leaf(f64({1, 2, 3}, {3}));
    Tensor y = x;
    for (int i = 0; i < 20; ++i) y = sin(exp(y * 0.1));
    y = sum(y);
    std::atomic<int> done{0}, refused{0}, other{0};
    std::vector<std::thread> pool;
    for (int t = 0; t < 4; ++t)
      pool.emplace_back([&] {
        try {
          backward(y);
          ++done;
        } catch (const Error& e) {
          ++(std::string(e.what()).find("a second time") != std::string::npos ? refused : other);
        }
      });
    for (std::thread& t : pool) t.join();
    CHECK(done + refused == 4);
    CHECK(other == 0);
  }
}
