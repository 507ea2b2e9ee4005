// Plans of einsum against a search over all orders, and against published optima.
#include "gradus_paths.hpp"
#include "engine/device/device.hpp"
#include "engine/files/file.hpp"
#include "engine/config/options.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/contract/plan/optimal.hpp"
#include "ops/contract/plan/portfolio.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

using namespace gradus;

namespace {

struct RandomNetwork {
  std::string equation;
  std::vector<Shape> shapes;
};

RandomNetwork random_network(std::mt19937& random, int tensors) {
  const int labels = tensors + 2;
  std::vector<int64_t> extents;
  for (int l = 0; l < labels; ++l) extents.push_back(2 + int64_t(random() % 4));
  RandomNetwork net;
  std::set<int> used;
  for (int k = 0; k < tensors; ++k) {
    std::set<int> own;
    while (own.size() < 2 + random() % 2) own.insert(int(random() % unsigned(labels)));
    net.equation += k ? "," : "";
    Shape& shape = net.shapes.emplace_back();
    for (int l : own) {
      net.equation += char('a' + l);
      shape.push_back(extents[size_t(l)]);
      used.insert(l);
    }
  }
  net.equation += "->";
  for (int l : used)
    if (random() % 4 == 0) net.equation += char('a' + l);
  return net;
}

// Least flops over all sequences of pairs, by trying them all. Sets of labels as bits.
double least_flops(const std::vector<unsigned>& sets, unsigned output,
                   const std::vector<double>& extent) {
  if (sets.size() == 1) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < sets.size(); ++i)
    for (size_t j = i + 1; j < sets.size(); ++j) {
      unsigned others = output;
      std::vector<unsigned> rest;
      for (size_t k = 0; k < sets.size(); ++k)
        if (k != i && k != j) {
          rest.push_back(sets[k]);
          others |= sets[k];
        }
      const unsigned all = sets[i] | sets[j];
      double flops = (all & ~others) ? 2 : 1;
      for (size_t l = 0; l < extent.size(); ++l)
        if (all >> l & 1) flops *= extent[l];
      rest.push_back(all & others);
      best = std::min(best, flops + least_flops(rest, output, extent));
    }
  return best;
}

// The same with lone labels summed first, from a plan's own account of operands.
double least_flops(const EinsumPlan& plan) {
  std::vector<double> extent(26, 1);
  for (const auto& [label, n] : plan.sizes) extent[size_t(label - 'a')] = double(n);
  const auto bits = [](const Labels& labels) {
    unsigned b = 0;
    for (int64_t l : labels) b |= 1u << (l - 'a');
    return b;
  };
  std::vector<unsigned> sets;
  for (const Labels& labels : plan.operands) sets.push_back(bits(labels));
  double sums = 0;
  for (const EinsumStep& step : plan.steps)
    if (step.right < 0) {
      sums += step.flops;
      sets[size_t(step.left)] = bits(step.labels);
    }
  return sums + least_flops(sets, bits(plan.output), extent);
}

// -2 to 2, so sums are exact.
Tensor small_integers(const Shape& shape) {
  static std::mt19937 random(11);
  std::vector<int64_t> v(size_t(numel_of(shape)));
  for (int64_t& x : v) x = int64_t(random() % 5) - 2;
  return Tensor::from(v, shape, open_device("reference"));
}

}  // namespace

TEST_CASE("plans: optimal is the least over all orders, the others are orders too") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const RandomNetwork net = random_network(random, 3 + round % 4);
    CAPTURE(net.equation);
    const auto plan = [&](PathOptions::Kind kind) {
      PathOptions options;
      options.kind = kind;
      return plan_einsum(net.equation, net.shapes, options);
    };
    const EinsumPlan optimal = plan(PathOptions::Kind::optimal);
    const double least = least_flops(optimal);
    CHECK(optimal.flops == least);
    CHECK(plan(PathOptions::Kind::automatic).flops == least);
    Tensors xs;
    for (const Shape& s : net.shapes) xs.push_back(small_integers(s));
    const Tensor value = einsum(optimal, xs);
    using Kind = PathOptions::Kind;
    for (const auto kind : {Kind::greedy, Kind::left, Kind::random_greedy, Kind::min_fill,
                            Kind::min_degree, Kind::dissection, Kind::annealing}) {
      const EinsumPlan other = plan(kind);
      CHECK(other.flops >= least);
      CHECK(other.path.size() + 1 == net.shapes.size());
      CHECK(einsum(other, xs).to_vector<int64_t>() == value.to_vector<int64_t>());
      PathOptions again;
      again.kind = PathOptions::Kind::fixed;
      again.path = other.path;
      CHECK(plan_einsum(net.equation, net.shapes, again).flops == other.flops);
    }
  }
}

TEST_CASE("plans: a chain, its steps, flops, sizes and bytes") {
  const std::vector<Shape> shapes{{10, 100}, {100, 5}, {5, 50}};
  const EinsumPlan plan = plan_einsum("ab,bc,cd->ad", shapes);
  CHECK(plan.path == ContractionPath{{0, 1}, {0, 1}});
  REQUIRE(plan.steps.size() == 2);
  CHECK(plan.steps[0].expression() == "ab,bc->ac");
  CHECK(plan.steps[1].left == 2);
  CHECK(plan.steps[1].expression() == "cd,ac->ad");
  CHECK(plan.flops == 2 * 10 * 100 * 5 + 2 * 10 * 5 * 50);
  CHECK(plan.largest_intermediate == 500);
  CHECK(peak_bytes(plan, DType::f64) == 8 * (1000 + 500 + 250 + 50 + 500));
  CHECK(peak_bytes(plan, DType::f64, false, true) == 8192 + 4032 + 2048 + 448 + 4032);
  CHECK(plan_einsum("ab,ac->", {{7, 3}, {7, 4}}).flops == 7 * 3 + 7 * 4 + 2 * 7);
  CHECK(plan_einsum("i,j->ij", {{3}, {4}}).flops == 12);
  CHECK(plan_einsum("...i,...i->...", {{2, 3}, {2, 3}}).steps[0].expression() == "0i,0i->0");
  PathOptions fixed;
  fixed.kind = PathOptions::Kind::fixed;
  fixed.path = {{0, 3}, {0, 1}};
  CHECK_THROWS_WITH_AS(plan_einsum("ab,bc,cd->ad", shapes, fixed),
                       "einsum: path step 0 is [0, 3]: expected two positions of a list of 3",
                       Error);
  fixed.path = {{0, 1}};
  CHECK_THROWS_WITH_AS(plan_einsum("ab,bc,cd->ad", shapes, fixed),
                       "einsum: the path has 1 steps, 3 operands need 2", Error);
}

TEST_CASE("plans: greedy takes a long chain in linear space") {
  std::string equation;
  std::vector<Shape> shapes;
  for (int k = 0; k < 40; ++k) {
    equation += (k ? "," : "") + std::string(1, char(k < 26 ? 'a' + k : 'A' + k - 26)) +
                char(k + 1 < 26 ? 'a' + k + 1 : 'A' + k + 1 - 26);
    shapes.push_back({4, 4});
  }
  const EinsumPlan plan = plan_einsum(equation, shapes);
  CHECK(plan.path.size() == 39);
  CHECK(plan.largest_intermediate == 16);
  CHECK(plan.flops == 39 * 2 * 64);
}
