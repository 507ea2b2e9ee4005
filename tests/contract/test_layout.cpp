// The order of the labels of intermediate values: what a step's jumps are, and that the search
// lessens them, moves what it may and nothing else.
#include "ops/contract/layout.hpp"
#include "tests/helpers/helpers.hpp"

#include <random>

using namespace gradus;

namespace {

using Program = ContractionProgram;
using Axes = Program::Axes;

// y = x * b, x = a * c: x may lie as it likes.
Program two_steps(Axes a, Axes c, Axes x, Axes b, Axes y, std::vector<int64_t> extents) {
  Program p;
  p.extents = std::move(extents);
  p.values = {a, c, b, x, y};
  p.inputs = {{0, a}, {1, c}, {2, b}};
  p.outputs = {{4, y}};
  p.steps = {{{0}, {1}, 3}, {{3}, {2}, 4}};
  return p;
}
double jumps_of(const Program& p, const std::vector<Axes>& orders) {
  double n = 0;
  for (const Program::Step& s : p.steps) n += jumps(s, orders, p.extents);
  return n;
}

}  // namespace

TEST_CASE("layout: the jumps of a step") {
  const std::vector<int64_t> extents = {4, 8, 16, 2};
  const auto of = [&](Axes a, Axes b, Axes out) {
    return jumps({{0}, {1}, 2}, {a, b, out}, extents);
  };
  // A product of matrices: rows of a, of b and of the result.
  CHECK(of({0, 1}, {1, 2}, {0, 2}) == 4 + 8 + 4);
  CHECK(of({1, 0}, {1, 2}, {0, 2}) == 8 + 8 + 4);
  // All in the same order: none.
  CHECK(of({0, 1, 2}, {0, 1, 2}, {0, 1, 2}) == 0);
  // Apart in one: each of the three leaves its run between them.
  CHECK(of({0, 1}, {1, 0}, {0, 1}) == 4 + 8 + 4 + 3 * 32);
  // A batch in front: once for each of its elements; at the end of all: neighbours.
  CHECK(of({3, 0, 1}, {3, 1, 2}, {3, 0, 2}) == (2 + 8) + (2 + 16) + (2 + 8));
  CHECK(of({0, 1, 3}, {1, 2, 3}, {0, 2, 3}) == (4 + 32) + (8 + 128) + (4 + 64));
  // At the end of the result alone: no element of it has a neighbour.
  CHECK(of({3, 0, 1}, {3, 1, 2}, {0, 2, 3}) == (2 + 8) + (2 + 16) + (4 + 64) + 128);
  // A sum of one tensor: the labels that go are apart from those that stay.
  CHECK(jumps({{0}, {}, 1}, {{0, 1}, {0}}, extents) == 4);
}

TEST_CASE("layout: a value lies as its reader has its other factor") {
  const Program p =
      two_steps({0, 1}, {2, 3}, {0, 1, 2, 3}, {3, 2, 1, 0}, {3, 2, 1, 0}, {6, 7, 8, 9});
  const std::vector<Axes> orders = choose_orders(p, {0, 0, 0, 1, 0}, {1, 1});
  CHECK(orders[3] == Axes{3, 2, 1, 0});
  for (const size_t v : {0, 1, 2, 4}) CHECK(orders[v] == p.values[v]);
  // Not where it may not, nor for few jumps.
  CHECK(choose_orders(p, {0, 0, 0, 0, 0}, {1, 1})[3] == p.values[3]);
  Program small = p;
  small.extents = {2, 2, 2, 2};
  CHECK(choose_orders(small, {0, 0, 0, 1, 0}, {1, 1})[3] == p.values[3]);
  // A step that is done often counts for more: the value lies as that one writes it.
  CHECK(choose_orders(p, {0, 0, 0, 1, 0}, {1000, 1})[3] != Axes{3, 2, 1, 0});
}

TEST_CASE("layout: random programs jump no more than before, over the same labels") {
  int moved = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    constexpr int kLabels = 9;
    Program p;
    for (int l = 0; l < kLabels; ++l) p.extents.push_back(2 + int64_t(random() % 4));
    const auto some = [&] {
      Axes labels;
      for (int l = 0; l < kLabels; ++l)
        if (random() % 2) labels.push_back(l);
      std::shuffle(labels.begin(), labels.end(), random);
      return labels;
    };
    const int inputs = 5;
    for (int k = 0; k < inputs; ++k) p.values.push_back(some());
    for (int k = 0; k < 6; ++k) {  // a value may be read by several steps
      const int n = int(p.values.size());
      p.steps.push_back({{int(random() % unsigned(n))}, {}, n});
      if (random() % 4) p.steps.back().b.value = int(random() % unsigned(n));
      p.values.push_back(some());
    }
    Chosen free(p.values.size(), 0);
    for (size_t v = inputs; v + 1 < free.size(); ++v) free[v] = random() % 8 > 0;
    const std::vector<double> times(p.steps.size(), 1);
    const std::vector<Axes> orders = choose_orders(p, free, times);
    CHECK(orders == choose_orders(p, free, times));
    REQUIRE(orders.size() == p.values.size());
    for (size_t v = 0; v < orders.size(); ++v) {
      CHECK(std::is_permutation(orders[v].begin(), orders[v].end(), p.values[v].begin(),
                                p.values[v].end()));
      if (!free[v]) CHECK(orders[v] == p.values[v]);
    }
    const double before = jumps_of(p, p.values), after = jumps_of(p, orders);
    CHECK(after <= before);
    moved += after < before;
  }
  CHECK(moved > 100);
}
