// Gradients by paths: against sums that are known, against all paths one by one; what passes
// through edges is kept at every node; nodes in words; the command.
#include "cli/look/one_step.hpp"
#include "engine/hooks.hpp"
#include "ops/audit/judge/explain.hpp"
#include "ops/audit/judge/paths.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/random_graph.hpp"
#include "tests/helpers/sizes.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

using namespace gradus;
using namespace gradus::testing;
using gradus::audit::explain_paths;
using gradus::audit::GradientPath;
using gradus::audit::GradientPaths;
using gradus::audit::Place;
using gradus::audit::Stepper;

namespace {

GradientPaths paths_of(Stepper& s, int leaf = 0, const std::optional<Shape>& element = {},
                       size_t top = 100) {
  s.run({});
  return explain_paths(s, leaf, element, top);
}

}  // namespace

TEST_CASE("paths: three ways through a square and a sum") {
  // y = sum(h^2 + h), h = w x: two paths by the square, each x h, and one by the sum, x.
  const Tensor w = leaf(f64({1, 2}, {2})), x = f64({3, 5}, {2});
  const Tensor h = w * x;
  Stepper s({sum(h * h + h)}, {{"w", w}});
  const GradientPaths p = paths_of(s);
  CHECK(p.count == 3);
  REQUIRE(p.paths.size() == 3);
  CHECK(values(p.gradient) == std::vector<double>{21, 105});
  CHECK(values(p.paths[0].contribution) == std::vector<double>{9, 50});
  CHECK(values(p.paths[1].contribution) == std::vector<double>{9, 50});
  CHECK(values(p.paths[2].contribution) == std::vector<double>{3, 5});
  const double square = 21 * 21 + 105 * 105;
  CHECK(p.total == doctest::Approx(std::sqrt(square)).epsilon(1e-14));
  CHECK(p.paths[0].amount / p.total ==
        doctest::Approx((9 * 21 + 50 * 105) / square).epsilon(1e-14));
  CHECK(p.paths[2].norm == doctest::Approx(std::sqrt(34.0)).epsilon(1e-14));
  CHECK(p.paths[2].hops.size() == 3);
  CHECK(p.others == doctest::Approx(0).epsilon(1e-12));
  CHECK(p.others_norm < 1e-12);
  CHECK(p.residual < 1e-14);

  const GradientPaths one = paths_of(s, 0, Shape{1});
  CHECK(one.total == 105);
  CHECK(one.paths[0].amount == 50);
  CHECK(one.paths[2].amount == 5);
}

TEST_CASE("paths: cancelling ways, their signs, and a gradient that is zero") {
  const Tensor w = leaf(f64({2}, {1}));
  Stepper s({sum(w * 5.0 - w * 3.0)}, {{"w", w}});
  const GradientPaths p = paths_of(s);
  REQUIRE(p.paths.size() == 2);
  CHECK(p.total == 2);
  CHECK(p.paths[0].amount == 5);
  CHECK(p.paths[1].amount == -3);
  Stepper zero({sum(w * 3.0 - w * 3.0)}, {{"w", w}});
  CHECK(error_of([&] { paths_of(zero); }).find("the gradient of w is zero") != std::string::npos);
  const GradientPaths none = paths_of(zero, 0, Shape{0});
  CHECK(none.total == 0);
  CHECK(none.residual == 0);
  CHECK(std::abs(none.paths[0].amount) == 3);  // the compiler chooses which product is made first
  CHECK(error_of([&] { paths_of(s, 0, Shape{1}); }) ==
        "explain: w is (1,), it has no element (1,)");
  Stepper early({sum(w * 5.0)});
  CHECK(error_of([&] { explain_paths(early, 0); }) == "explain: the walk is not at its end");
}

TEST_CASE("paths: on random graphs what passes is kept at every node, and all is accounted for") {
  for (unsigned seed = 1; seed < (test::small_sizes() ? 9u : 40u); seed += 3) {
    CAPTURE(seed);
    const RandomGraph g(seed + seed % 2, 25);
    Stepper s({g.root}, g.leaves);
    s.run({});
    const double eps = g.root.dtype() == DType::f64 ? 1e-10 : 1e-3;
    for (size_t leaf = 0; leaf < std::min<size_t>(s.leaves().size(), 4); ++leaf) {
      if (audit::norm_of(s.cotangent({true, int(leaf), 0})) == 0) continue;
      const GradientPaths p = explain_paths(s, int(leaf), {}, 6);
      CHECK(p.residual < eps);
      // In equals out at every node that is not a root.
      std::vector<double> in(s.nodes().size());
      double at_leaf = 0, largest = p.total;
      for (const audit::Turn& t : s.turns())
        for (size_t k = 0; k < t.out.size(); ++k)
          if (const auto to = s.target(t.node, int(k))) {
            const double f = p.flow[size_t(t.node)][k];
            largest = std::max(largest, std::abs(f));
            (to->leaf ? at_leaf : in[size_t(to->id)]) += f;
          }
      CHECK(at_leaf == doctest::Approx(p.total).epsilon(eps));
      for (size_t n = 0; n + 1 < in.size(); ++n) {
        double out = 0;
        for (const double f : p.flow[n]) out += f;
        CHECK(std::abs(in[n] - out) <= eps * largest);
      }
      double sum = p.others;
      for (const GradientPath& path : p.paths) sum += path.amount;
      CHECK(sum == doctest::Approx(p.total).epsilon(1e-9));
      if (p.count <= 6) {
        CHECK(double(p.paths.size()) == p.count);
        CHECK(p.others_norm <= eps * audit::norm_of(p.gradient));
      }
    }
  }
}

TEST_CASE("paths: too many to follow are counted, and the heaviest is found") {
  // Forty residual blocks: 2^40 paths. The one by the identities carries most.
  const Tensor w = leaf(f64({1, 2, 3}, {3}));
  Tensor h = w * 1.0;
  for (int i = 0; i < 40; ++i) h = h + h * 0.01;
  Stepper s({sum(h)}, {{"w", w}});
  const GradientPaths p = paths_of(s, 0, {}, 3);
  CHECK(p.count == std::pow(2.0, 40));
  REQUIRE(p.paths.size() == 3);
  CHECK(values(p.paths[0].contribution) == std::vector<double>{1, 1, 1});
  CHECK(values(p.paths[1].contribution)[0] == doctest::Approx(0.01));
  CHECK(p.total == doctest::Approx(std::sqrt(3.0) * std::pow(1.01, 40)).epsilon(1e-12));
  CHECK(p.others == doctest::Approx(p.total - 1.02 * std::sqrt(3.0)).epsilon(1e-12));
}

TEST_CASE("paths: the heaviest are found though others cancel, whatever the number asked for") {
  // h += tanh(W h), of either sign: 256 paths are all followed, 2^20 are not.
  const auto leading = [](int blocks, size_t top) {
    const Tensor x = leaf(f64({0.3, -1.2, 0.8}, {3}));
    Tensor h = x;
    for (int i = 0; i < blocks; ++i)
      h = h + tanh(matmul(f64({0.5 * std::cos(i), -0.4, 0.3 * std::sin(3 * i), 0.6 * std::sin(i),
                               0.2, -0.5, -0.3, 0.4 * std::cos(2 * i), 0.1},
                              {3, 3}),
                          h));
    Stepper s({sum(h)}, {{"x", x}});
    return paths_of(s, 0, {}, top);
  };
  const GradientPaths all = leading(8, 256), few = leading(8, 5);
  CHECK(all.followed == 256);
  CHECK(all.others_norm < 1e-12 * audit::norm_of(all.gradient));
  bool negative = false;
  for (size_t i = 0; i < 5; ++i) {
    CHECK(few.paths[i].amount == all.paths[i].amount);
    negative = negative || few.paths[i].amount < 0;
  }
  const GradientPaths many = leading(20, 40), some = leading(20, 3);
  CHECK(many.count == std::pow(2.0, 20));
  CHECK(some.followed < some.count);
  CHECK(some.followed == many.followed);
  for (size_t i = 0; i < 3; ++i) CHECK(some.paths[i].amount == many.paths[i].amount);
  for (const GradientPath& p : all.paths) negative = negative || p.amount < 0;
  CHECK(negative);
}

TEST_CASE("paths: complex numbers, several roots, LeNet") {
  const Tensor z = leaf(Tensor::from(std::vector<c128>{{1, 2}, {-1, 0.5}}, {2}));
  Stepper c({real(sum(z * z * conj(z)))}, {{"z", z}});
  const GradientPaths p = paths_of(c);
  CHECK(p.count == 3);
  CHECK(p.others_norm < 1e-12);
  CHECK(p.residual < 1e-13);
  const Tensor w = leaf(f64({1, 2}, {2}));
  Stepper two({sum(w * 2.0), sum(w * 7.0), w}, {{"w", w}});
  const GradientPaths r = paths_of(two);
  REQUIRE(r.paths.size() == 3);
  CHECK(r.paths[0].root == 1);
  CHECK(r.paths[2].hops.empty());

  const cli::OneStep step =
      cli::run_one_step({std::string(GRADUS_SOURCE_DIR) + "/configs/lenet/digits.json",
                         {"data.train=32", "data.test=8"}},
                        default_device(), [] {});
  Stepper lenet(step.roots, step.leaves);
  lenet.run({});
  for (size_t i = 0; i < step.leaves.size(); ++i) {
    // Before batch_norm the gradient of a bias is rounding alone.
    if (audit::norm_of(lenet.cotangent({true, int(i), 0})) < 1e-6) continue;
    const GradientPaths l = explain_paths(lenet, int(i), {}, 1000);
    CHECK(l.residual < 1e-4);
    CHECK(l.others_norm < 1e-5 * audit::norm_of(l.gradient));
  }
}

TEST_CASE("explain: a node in words, with its own numbers") {
  const Tensor w = leaf(f64({1, 2, 3}, {3})), x = leaf(f64({1, -1, 2, 5, 0, 1}, {2, 3}));
  audit::Watch watch;
  const Tensor y = sum(square(w * x));
  Stepper s({y}, {{"w", w}, {"x", x}});
  s.run({});
  const audit::NodeStory n = audit::explain_node(s, 0, watch);
  CHECK(n.call == "%0:f64[2,3] = mul(w, x)");
  CHECK(n.formula == "y = a * b");
  REQUIRE(n.broadcasts.size() == 1);
  CHECK(n.broadcasts[0] ==
        "a (3,) is broadcast to (2, 3): each element of its cotangent is a sum "
        "of 2 terms, over axis (0,)");
  REQUIRE(n.example);
  CHECK(n.example->element == Shape{0, 2});  // w x = 6, cotangent 12
  CHECK(n.example->value == 6);
  CHECK(n.example->cotangent == 12);
  REQUIRE(n.example->operands.size() == 2);
  CHECK(n.example->operands[0].element == Shape{2});
  CHECK(n.example->operands[0].value == 3);
  CHECK(n.example->operands[0].share == 24);
  CHECK(n.example->operands[1].share == 36);
  CHECK(n.example->operands[1].reached == 1);
  CHECK_FALSE(w.grad().defined());
  // Of an op that is no statement: with the sizes of this node, not of some example.
  CHECK(audit::explain_node(s, 2, watch).derivatives ==
        std::vector<std::string>{"dx = expand(reshape(g, shape=[1, 1]), size=[2, 3])"});
}

TEST_CASE("explain: cotangents of zero have slopes all the same, and no shares") {
  const test::TempFolder folder;
  folder.write("zero.lua",
               "local w = gradus.tensor({2.0, 3.0}, {requires_grad = true})\n"
               "local u = w * 5.0;\n"
               "(u * gradus.tensor({0.0, 0.0})):sum():backward()\n");
  const test::ProgramRun node = test::run(folder, "audit zero.lua --explain %0");
  CHECK(node.out.find("through a[0] = 2: 0 * 5 = 0\n") != std::string::npos);
  const test::ProgramRun leaf = test::run(folder, "audit zero.lua --explain w --element 1");
  CHECK(leaf.out.find("       -         0  %2 sum, %1 mul, %0 mul\n") != std::string::npos);
  CHECK(leaf.out.find("nan") == std::string::npos);
  const test::ProgramRun json = test::run(folder, "audit zero.lua --explain w --element 1 --json");
  CHECK(json.out.find(R"("share":null)") != std::string::npos);
}

TEST_CASE("explain: the command") {
  const test::TempFolder folder;
  const auto audit = [&](const std::string& options) {
    return test::run(folder, std::string("audit ") + GRADUS_SOURCE_DIR +
                                 "/configs/mlp/digits.json --set data.train=64 --set data.test=8 " +
                                 options);
  };
  const test::ProgramRun text = audit("--explain layers.0.weight");
  CHECK(text.code == 0);
  CHECK(text.out.find("1 path from the loss") != std::string::npos);
  CHECK(text.out.find("they sum to the gradient up to") != std::string::npos);
  const test::ProgramRun json = audit("--explain layers.2.bias --element 3 --json");
  std::istringstream lines(json.out);
  std::string line;
  std::getline(lines, line);
  const auto path = nlohmann::json::parse(line);
  CHECK(path["event"] == "path");
  CHECK(path["share"].get<double>() == doctest::Approx(1).epsilon(1e-5));
  const test::ProgramRun node = audit("--explain %1");
  CHECK(node.out.find("y = max(x, 0)") != std::string::npos);
  CHECK(node.out.find("here: y[") != std::string::npos);
  for (const auto& [options, message] :
       {std::pair{"--explain layers.0.wieght", "did you mean \"layers.0.weight\"?"},
        std::pair{"--explain nothing",
                  "that name; leaves are layers.0.weight, layers.0.bias, layers.2"},
        std::pair{"--explain %77", "%77: there is no such node; they are %0 to %9"},
        std::pair{"--explain layers.2.bias --element x", "expected indices such as 0,3"},
        std::pair{"--explain layers.2.bias --element 99", "it has no element (99,)"},
        std::pair{"--explain %1 --element 0", "belongs to a leaf"},
        std::pair{"--element 0", "--element: belongs to --explain"},
        std::pair{"--explain %1 --ledger", "one at a time"},
        std::pair{"--versions --accounting", "one at a time"}}) {
    const test::ProgramRun bad = audit(options);
    CHECK(bad.code == 2);
    CHECK_MESSAGE(bad.err.find(message) != std::string::npos, bad.err);
  }
}
