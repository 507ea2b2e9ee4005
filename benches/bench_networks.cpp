// Networks of many tensors, carried out: what a step costs beside its arithmetic, and what
// gradients cost beside the value. Bounds, no peers.
#include "benches/bench.hpp"
#include "engine/graph.hpp"
#include "engine/random.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/ops.hpp"

#include <fmt/format.h>
#include <random>

namespace gradus::inline v1::bench {
namespace {

struct Net {
  std::vector<Labels> terms;
  Labels output;
  std::vector<Shape> shapes;
  Tensors operands;

  void add(std::initializer_list<int> labels, int64_t extent) {
    Labels& term = terms.emplace_back();
    for (const int l : labels) term.push_back(l);
    shapes.emplace_back(labels.size(), extent);
    operands.push_back(uniform(shapes.back(), -1, 1, DType::f32));
  }
};

// A product of n square matrices.
Net chain(int n, int64_t extent) {
  Net net;
  for (int k = 0; k < n; ++k) net.add({k, k + 1}, extent);
  net.output = {0, n};
  return net;
}

// The squared norm of a matrix product state of n/2 sites.
Net norm_of_mps(int n, int64_t bond, int64_t physical) {
  Net net;
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < n / 2; ++k) {
      const int left = 1000 * (half + 1) + k;
      net.terms.push_back({left, k, left + 1});
      net.shapes.push_back({k == 0 ? 1 : bond, physical, k == n / 2 - 1 ? 1 : bond});
      net.operands.push_back(uniform(net.shapes.back(), -1, 1, DType::f32));
    }
  return net;
}

void overhead(Run& run) {
  constexpr int kTensors = 64;
  const Net net = chain(kTensors, 4);
  const EinsumPlan plan = plan_einsum(net.terms, net.output, net.shapes);
  run.compare({"chain of 64, 4 x 4, a contraction of a plan", 1},
              sampler([&] { einsum(plan, net.operands); }, kTensors - 1), {bound("1 us", 1e-6)});
  run.compare({"chain of 64, 4 x 4, a contraction of an einsum", 1},
              sampler([&] { einsum(net.operands, net.terms, net.output); }, kTensors - 1),
              {bound("1.5 us", 1.5e-6)});
  const Net pair = chain(2, 8);
  run.compare({"einsum(\"ij,jk->ik\") of 8 x 8", 1}, [&] { einsum("ij,jk->ik", pair.operands); },
              {bound("1 us", 1e-6)});
}

void gradients(Run& run, const std::string& name, const EinsumPlan& plan, const Tensors& operands,
               double most) {
  Tensors leaves;
  for (const Tensor& x : operands) leaves.push_back(x.detach().set_requires_grad());
  const Sampler value = sampler([&] { einsum(plan, operands); });
  const Tensor y = einsum(plan, leaves);
  BackwardOptions keep;
  keep.retain_graph = true;
  run.compare({name, 1}, sampler([&] { grad({y}, leaves, {}, keep); }),
              {{"the value", value, at_most_time(most)}});
}

// Branches of many small steps, which no kernel shares out: on the threads of a device and on one.
void branches(Run& run) {
  const Net net = chain(256, 48);
  PathOptions options;
  options.kind = PathOptions::Kind::fixed;
  for (int left = 256; left > 1; left /= 2)
    for (int k = 0; k < left / 2; ++k) options.path.emplace_back(0, 1);
  const EinsumPlan plan = plan_einsum(net.terms, net.output, net.shapes, options);
  for (const int threads : run.threads()) {
    Tensors operands;
    for (const Tensor& x : net.operands) operands.push_back(to_device(x, run.device(threads)));
    run.compare({"256 of 48 x 48 in halves", threads}, [&] { einsum(plan, operands); },
                {peer("one thread", [&] { einsum(plan, net.operands); })});
  }
}

// Factors over some of many labels of two values each: what the order of labels in the values on
// the way is worth. The steps one by one have it as the plan writes it.
void layouts(Run& run) {
  constexpr int kLabels = 60, kFactors = 120;
  std::mt19937 random(1);
  Net net;
  for (int k = 0; k < kFactors; ++k) {
    Labels& term = net.terms.emplace_back();
    const int first = int(random() % (kLabels - 20));  // from a window of twenty
    while (term.size() < 4)
      if (const int64_t l = first + int(random() % 20);
          std::find(term.begin(), term.end(), l) == term.end())
        term.push_back(l);
    net.shapes.emplace_back(4, 2);
    net.operands.push_back(uniform(net.shapes.back(), -1, 1, DType::f32));
  }
  const EinsumPlan plan = plan_einsum(net.terms, net.output, net.shapes);
  run.compare({"120 factors of 60 labels", 1}, [&] { einsum(plan, net.operands); },
              {peer("step by step", [&] {
                const EinsumBySteps apart;
                einsum(plan, net.operands);
              })});
}

}  // namespace

void networks(Run& run) {
  const DeviceScope scope(run.device(1));
  manual_seed(1);
  overhead(run);
  branches(run);
  layouts(run);
  const Net net = norm_of_mps(60, 48, 4);
  const EinsumPlan plan = plan_einsum(net.terms, net.output, net.shapes);
  gradients(run, "norm of 60 tensors, the sweep", plan, net.operands, 2.3);
  // Where the memory does not hold what the sweep reads, it computes that again, slice by slice.
  Net ring;
  for (const auto& labels : {std::initializer_list<int>{0, 1, 2}, {2, 3, 4}, {4, 5, 0}, {1, 3, 5}})
    ring.add(labels, 40);
  const EinsumPlan whole = plan_einsum(ring.terms, ring.output, ring.shapes);
  const double limit = 0.3 * einsum_bytes(whole, DType::f32, Algebra::standard, true);
  const EinsumPlan sliced = within_memory(whole, limit, DType::f32, Algebra::standard, true);
  gradients(run, fmt::format("ring of 4, the sweep in {:.0f} slices", sliced.slices), sliced,
            ring.operands, 3.3);
}

}  // namespace gradus::bench
