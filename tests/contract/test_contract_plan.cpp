// Searches for contraction orders: every family on random networks of all kinds against a count
// with sets and a search over all orders; published networks; the same order on any number of
// threads; large networks in near-linear time.
#include "gradus_paths.hpp"
#include "engine/config/options.hpp"
#include "engine/files/file.hpp"
#include "ops/contract/plan.hpp"
#include "ops/contract/plan/optimal.hpp"
#include "ops/contract/plan/portfolio.hpp"
#include "ops/contract/plan/simplify.hpp"
#include "ops/contract/plan/slice.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

using namespace gradus;
using namespace gradus::plan;

namespace {

// What an order costs, counted with sets: its multiplications, or by a model its seconds.
double cost_by_sets(const Network& net, const SsaPath& path, const StepTime* time = nullptr) {
  std::vector<std::set<int>> sets;
  for (const LabelSet& t : net.tensors) sets.emplace_back(t.begin(), t.end());
  std::set<size_t> gone;
  double total = 0;
  for (const auto& [a, b] : path) {
    REQUIRE(a != b);
    REQUIRE(gone.insert(size_t(a)).second);
    REQUIRE(gone.insert(size_t(b)).second);
    std::set<int> all = sets.at(size_t(a)), kept;
    all.insert(sets.at(size_t(b)).begin(), sets.at(size_t(b)).end());
    double work = 0;
    for (int l : all) {
      work += net.log2_extent[size_t(l)];
      bool used = net.open[size_t(l)];
      for (size_t k = 0; k < sets.size(); ++k) used |= !gone.count(k) && sets[k].count(l);
      if (used) kept.insert(l);
    }
    const auto size = [&](const std::set<int>& labels) {
      return net.log2_size(LabelSet(labels.begin(), labels.end()));
    };
    total += time ? time->seconds(size(sets[size_t(a)]), size(sets[size_t(b)]), size(kept), work)
                  : std::exp2(work);
    sets.push_back(kept);
  }
  return total;
}

// Hyperedges, open labels, labels of one tensor, scalars, extents of 1, several components.
Network random_network(Random& random, int tensors, int labels) {
  Network net;
  for (int l = 0; l < labels; ++l) {
    net.log2_extent.push_back(std::log2(1 + random.below(5)));
    net.open.push_back(random.below(8) == 0);
  }
  for (int k = 0; k < tensors; ++k) {
    std::set<int> own;
    for (int i = random.below(4); i > 0; --i) own.insert(random.below(labels));
    net.tensors.emplace_back(own.begin(), own.end());
  }
  return net;
}

// A random graph in which each tensor has three neighbours, most of them.
Network regular(int tensors, uint64_t seed) {
  Random random(seed);
  std::vector<int> ends;
  for (int k = 0; k < 3 * tensors; ++k) ends.push_back(k / 3);
  for (size_t i = ends.size() - 1; i > 0; --i)
    std::swap(ends[i], ends[size_t(random.below(int(i + 1)))]);
  Network net;
  net.tensors.resize(size_t(tensors));
  for (size_t i = 0; i + 1 < ends.size(); i += 2) {
    if (ends[i] == ends[i + 1]) continue;
    for (const int t : {ends[i], ends[i + 1]})
      net.tensors[size_t(t)].push_back(int(net.open.size()));
    net.log2_extent.push_back(1);
    net.open.push_back(false);
  }
  return net;
}

Network network_of(const Json& instance) {
  Network net;
  for (const Json& n : instance["sizes"]) net.log2_extent.push_back(std::log2(n.get<double>()));
  net.open.assign(net.log2_extent.size(), false);
  for (const Json& l : instance["output"]) net.open[l.get<size_t>()] = true;
  for (const Json& t : instance["inputs"]) {
    const auto labels = t.get<std::set<int>>();
    net.tensors.emplace_back(labels.begin(), labels.end());
  }
  return net;
}

constexpr Family kAll[] = {Family::portfolio,     Family::exact,    Family::greedy,
                           Family::random_greedy, Family::min_fill, Family::min_degree,
                           Family::dissection,    Family::annealing};

}  // namespace

TEST_CASE("contract plan: every family gives an order of every network, and counts it right") {
  Random random(3);
  const int rounds = gradus::test::small_sizes() ? 100 : 600;
  for (int round = 0; round < rounds; ++round) {
    const int tensors = round % 14;
    const Network net = random_network(random, tensors, 2 + random.below(2 * tensors + 2));
    for (const Family family : kAll) {
      CAPTURE(round);
      CAPTURE(std::string(kFamilies[size_t(family)]));
      const Order order = find_order(net, family, 1, 20'000);
      REQUIRE(order.path.size() == size_t(std::max(0, tensors - 1)));
      if (tensors < 2) continue;
      CHECK(order.cost.log2_mults ==
            doctest::Approx(std::log2(cost_by_sets(net, order.path))).epsilon(1e-9));
    }
  }
}

TEST_CASE("contract plan: exact is the least where outer products do not help") {
  Random random(5);
  for (int round = 0; round < 40; ++round) {
    const Network net = regular(6 + 2 * (round % 2), uint64_t(round));
    const double least = cost_by_sets(net, optimal(net));
    const double found = cost_by_sets(net, find_order(net, Family::exact, 0, 1e6).path);
    CAPTURE(round);
    CHECK(found <= least * 1.2);
    CHECK(found >= least * 0.5);  // optimal() counts a sum twice
  }
}

TEST_CASE("contract plan: the same order for the same seed, on one thread and on several") {
  const Network net = regular(60, 1);
  const Order one = find_order(net, Family::portfolio, 7, 50'000, 1),
              two = find_order(net, Family::portfolio, 7, 50'000, 3);
  CHECK(one.path == two.path);
  CHECK(one.units == two.units);
}

TEST_CASE("contract plan: slicing keeps every result within what is allowed") {
  const Network net = regular(40, 4);
  const Order order = find_order(net, Family::portfolio, 0, 50'000);
  const double allowed = order.cost.log2_largest - 3;
  Budget budget(100'000);
  const Sliced sliced = slice(net, order.path, allowed, 1, budget);
  REQUIRE(sliced.labels.size() >= 3);
  Network part = net;  // one slice: its labels are numbers
  double slices = 0;
  for (const int l : sliced.labels) {
    slices += part.log2_extent[size_t(l)];
    part.log2_extent[size_t(l)] = 0;
  }
  const plan::Cost cost = cost_of(part, sliced.path);
  CHECK(cost.log2_largest <= allowed + 1e-9);
  CHECK(cost.log2_mults + slices ==
        doctest::Approx(order.cost.log2_mults + sliced.log2_overhead).epsilon(1e-6));
}

TEST_CASE("contract plan: 20,000 tensors in near-linear time") {
  double units = 0;
  const auto seconds = [&](int tensors) {
    const Network net = regular(tensors, 2);
    const auto start = std::chrono::steady_clock::now();
    const Order order = find_order(net, Family::greedy, 0, 1e9);
    CHECK(order.path.size() + 1 == size_t(tensors));
    units = order.units;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const int n = gradus::test::small_sizes() ? 200 : 2'000;
  const double small = seconds(n), small_units = units, large = seconds(10 * n);
  CAPTURE(small);
  CAPTURE(large);
  CHECK(large < 12 * small + 0.5);
  // Work that is counted, whatever the caches do. In smaller graphs all is one neighbourhood
  // sooner.
  if (!gradus::test::small_sizes()) CHECK(units < 12 * small_units);
}

TEST_CASE(
    "contract plan: a label of thousands of tensors, and a plan's steps, in near-linear time") {
  const auto seconds = [](int tensors) {  // a chain, all of which share one more label
    std::vector<Labels> terms;
    for (int k = 0; k < tensors; ++k) terms.push_back({0, k + 1, k + 2});
    const std::vector<Shape> shapes(size_t(tensors), Shape{2, 2, 2});
    const Labels ends{1, tensors + 1};
    const auto start = std::chrono::steady_clock::now();
    const EinsumPlan plan = plan_einsum(terms, ends, shapes);
    CHECK(plan.steps.size() + 1 == size_t(tensors));
    CHECK(plan.flops <= 32.0 * tensors);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const int n = gradus::test::small_sizes() ? 400 : 2'000;
  const double small = seconds(n), large = seconds(10 * n);
  CAPTURE(small);
  CAPTURE(large);
  CHECK(large < 12 * small + 0.5);
}

namespace {

// A device on which a step takes long, and thin products are slow.
StepTime slow_steps() {
  StepTime time;
  time.flops = 1e9;
  time.bytes = 1e9;
  time.overhead = 1e-6;
  time.half_k = time.half_mn = 8;
  return time;
}
// The least of all orders of so few tensors.
double least_of_all(const Network& net, const StepTime& time) {
  double least = INFINITY;
  SsaPath path;
  std::vector<int> alive;
  for (size_t k = 0; k < net.tensors.size(); ++k) alive.push_back(int(k));
  const auto go_on = [&](const auto& self, std::vector<int> left, int next) -> void {
    if (left.size() == 1) {
      least = std::min(least, cost_by_sets(net, path, &time));
      return;
    }
    for (size_t i = 0; i < left.size(); ++i)
      for (size_t j = i + 1; j < left.size(); ++j) {
        std::vector<int> rest;
        for (size_t k = 0; k < left.size(); ++k)
          if (k != i && k != j) rest.push_back(left[k]);
        rest.push_back(next);
        path.emplace_back(left[i], left[j]);
        self(self, rest, next + 1);
        path.pop_back();
      }
  };
  go_on(go_on, alive, int(alive.size()));
  return least;
}

}  // namespace

TEST_CASE("contract plan: by a model of time, the order of least time is found") {
  Random random(11);
  const StepTime time = slow_steps();
  for (int round = 0; round < 60; ++round) {
    Network net = random_network(random, 3 + round % 3, 5);
    net.time = time;
    CAPTURE(round);
    const SsaPath path = optimal(net);
    CHECK(cost_by_sets(net, path, &time) == doctest::Approx(least_of_all(net, time)).epsilon(1e-9));
    CHECK(cost_of(net, path).log2_cost ==
          doctest::Approx(std::log2(cost_by_sets(net, path, &time))).epsilon(1e-9));
  }
}

TEST_CASE("contract plan: every family counts the time of what it finds, and none loses by it") {
  const StepTime time = slow_steps();
  const bool small = gradus::test::small_sizes();
  for (uint64_t seed = 0; seed < (small ? 1 : 4); ++seed) {
    Network net = regular(small ? 14 : 30, seed);
    for (double& e : net.log2_extent) e = 1 + double(seed);
    const Order by_products = find_order(net, Family::portfolio, 1, small ? 5'000 : 50'000);
    net.time = time;
    const Order by_time = find_order(net, Family::portfolio, 1, small ? 5'000 : 50'000);
    CAPTURE(seed);
    const double seconds = cost_by_sets(net, by_time.path, &time);
    CHECK(by_time.cost.log2_cost == doctest::Approx(std::log2(seconds)).epsilon(1e-9));
    CHECK(seconds <= cost_by_sets(net, by_products.path, &time) * (1 + 1e-9));
    const Order again = find_order(net, Family::portfolio, 1, small ? 5'000 : 50'000, 1);
    CHECK(again.path == by_time.path);
    for (const Family family : kAll) {
      const Order order = find_order(net, family, 1, small ? 1e4 : 1e6);
      CHECK(order.cost.log2_cost ==
            doctest::Approx(std::log2(cost_by_sets(net, order.path, &time))).epsilon(1e-9));
    }
  }
}

TEST_CASE("contract plan: modelled seconds of a step") {
  plan::StepTime device;
  device.flops = 1e9;
  device.bytes = 1e9;
  device.overhead = 1e-3;
  device.half_k = device.half_mn = 1;
  device.element = 8;
  // 1024^3: its flops. A sum of 2^20 products alone: its bytes. Nothing at all: its overhead.
  const double large = device.seconds(20, 20, 20, 30);
  CHECK(large == doctest::Approx(2.147483648 * std::pow(1025.0 / 1024, 3) + 1e-3));
  CHECK(device.seconds(20, 20, 20, 20) ==
        doctest::Approx(std::max(8 * 2 * 0x1p20 * 1e-9, 24 * 0x1p20 * 1e-9) + 1e-3));
  device.half_k = device.half_mn = 0;
  CHECK(device.seconds(0, 0, 0, 0) == doctest::Approx(1e-3).epsilon(1e-4));

  PathOptions options;
  options.step_time = device;
  const std::vector<Shape> shapes{{64, 32}, {32, 16}, {16, 8}};
  options.kind = PathOptions::Kind::left;
  CHECK(plan_einsum("ab,bc,cd->ad", shapes, options).seconds_model ==
        doctest::Approx(device.seconds(11, 9, 10, 15) + device.seconds(10, 7, 9, 13)));
}

TEST_CASE("contract plan: published networks: proven optima, and no order below them") {
  const std::string file = GRADUS_SOURCE_DIR "/../shared/cases/networks.json";
  if (!std::filesystem::exists(file)) {
    MESSAGE("skipped: ", file, " is not there");
    return;
  }
  const Json networks = parse_json(read_file(file), file);
  const double budget = gradus::test::small_sizes() ? 1e4 : 1e6;
  for (const Json& instance : networks["instances"]) {
    const std::string name = instance["name"].get<std::string>();
    const Network net = network_of(instance);
    if (net.tensors.size() > 600) continue;
    INFO(name);
    const Order order = find_order(net, Family::portfolio, 0, budget);
    CHECK(order.path.size() + 1 == net.tensors.size());
    const Json& best = instance["best_known_log2_mults"];
    if (best.is_number() && !gradus::test::small_sizes())
      CHECK(order.cost.log2_mults < best.get<double>() + 2.5);
    if (!instance.contains("proven_optimum_log2_mults")) continue;
    const double proven = instance["proven_optimum_log2_mults"];
    CHECK(order.cost.log2_mults >= proven - 1e-3);
    if (!gradus::test::small_sizes()) CHECK(order.cost.log2_mults <= proven + 1e-3);
  }
}
