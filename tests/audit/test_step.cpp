// Stepping through backward: the bits of grad() at the end, whatever was looked at on the way; back
// and on again, breakpoints, cotangents set by hand; the command.
#include "cli/look/one_step.hpp"
#include "engine/hooks.hpp"
#include "ops/audit/step/stepper.hpp"
#include "ops/base/checkpoint.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/random_graph.hpp"
#include "tests/helpers/sizes.hpp"

#include <nlohmann/json.hpp>

using namespace gradus;
using namespace gradus::testing;
using gradus::audit::Breakpoint;
using gradus::audit::Place;
using gradus::audit::Stepper;
using Stop = Breakpoint::Kind;
using Json = nlohmann::json;
using Named = std::vector<std::pair<std::string, Tensor>>;

namespace {

std::vector<char> bits(const Tensor& t) {
  if (!t.defined()) return {};
  std::vector<char> b(t.bytes());
  t.detach().copy_to_host(b.data());
  return b;
}

// Goes through all turns with some steps back, then compares with grad() bit for bit.
void check_bits(const Tensors& roots, const Named& leaves, const Tensors& seeds = {}) {
  Stepper s(roots, leaves, seeds);
  REQUIRE(s.error().empty());
  Tensors inputs;
  for (const auto& [name, t] : s.leaves()) inputs.push_back(t);
  const Tensors expected = grad(roots, inputs, seeds.empty() ? s.seeds() : seeds,
                                {.retain_graph = true, .allow_unused = true});
  for (int i = 0; s.next(); ++i)
    if (i % 3 == 2) {
      CHECK(s.back());
      CHECK(s.next());
    }
  REQUIRE(s.at_end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Place at{true, int(i), 0};
    CHECK(s.arrived(at) == s.deliveries(at).size());
    CHECK(bits(s.cotangent(at)) == bits(expected[i]));
    // The sum that is shown on the way, added up here.
    Tensor sum;
    for (const audit::Delivery& d : s.deliveries(at))
      sum = sum.defined() ? add(sum, s.delivered(d).detach()) : s.delivered(d).detach();
    CHECK(bits(sum) == bits(expected[i]));
  }
}

// y = sum(h * h + h), h = w * x: %0 mul, %1 mul, %2 add, %3 sum.
struct Small {
  Tensor w = leaf(f64({1, 2, 3}, {3})), x = f64({4, 5, 6}, {3});
  Tensor h = [&] {
    const DetectAnomaly traces;
    const Trace trace("model"), inner("layer.1");
    return w * x;
  }();
  Tensor y = sum(h * h + h);
  Stepper s{{y}, {{"w", w}}};
};

}  // namespace

TEST_CASE("step: at the end leaves have the bits of grad(), on random graphs") {
  for (unsigned seed = 0; seed < (test::small_sizes() ? 6u : 40u); ++seed) {
    CAPTURE(seed);
    const RandomGraph g(seed);
    check_bits({g.root}, g.leaves);
  }
}

TEST_CASE("step: the same for LeNet and the transformer") {
  for (const char* config : {"lenet/digits.json", "transformer/copy.json"}) {
    CAPTURE(config);
    const cli::OneStep step = cli::run_one_step(
        {std::string(GRADUS_SOURCE_DIR) + "/configs/" + config, {"data.train=32", "data.test=8"}},
        default_device(), [] {});
    check_bits(step.roots, step.leaves);
  }
}

TEST_CASE("step: several roots, seeds, a root that is a leaf, complex numbers, checkpoints") {
  const Tensor a = leaf(f64({1, -2}, {2})), b = leaf(f32({0.5f}, {1}));
  const Tensor h = a * a;
  check_bits({h, h * 2.0, a}, {{"a", a}}, {f64({1, 2}, {2}), f64({3, 4}, {2}), f64({5, 6}, {2})});
  check_bits({sum(h), b}, {});
  const Tensor z = leaf(Tensor::from(std::vector<c128>{{1, 2}, {-1, 0.5}}, {2}));
  check_bits({real(sum(z * conj(z) * z))}, {{"z", z}});
  const Tensor c = checkpoint([](const Tensors& x) { return Tensors{tanh(x[0]) * x[0]}; }, {a})[0];
  check_bits({sum(c)}, {{"a", a}});
}

TEST_CASE("step: positions, sums on the way, and back") {
  Small m;
  Stepper& s = m.s;
  CHECK(s.call_text(2) == "%2:f64[3] = add(%1, %0)");
  CHECK(s.nodes().size() == 4);
  CHECK(s.turns().size() == 4);
  CHECK(s.turn_of(0) == 3);
  const Place h{false, 0, 0}, w{true, 0, 0};
  CHECK_FALSE(s.back());
  CHECK_FALSE(s.cotangent(h).defined());
  s.next(), s.next();  // sum, add: one of three cotangents of h is there
  CHECK(s.arrived(h) == 1);
  CHECK(values(s.cotangent(h)) == std::vector<double>{1, 1, 1});
  s.next();  // mul(h, h) sends two
  CHECK(s.arrived(h) == 3);
  CHECK(values(s.cotangent(h)) == std::vector<double>{9, 21, 37});
  CHECK_FALSE(s.cotangent(w).defined());
  s.next();
  CHECK(values(s.cotangent(w)) == std::vector<double>{36, 105, 222});
  CHECK_FALSE(s.next());
  s.back(), s.back();
  CHECK(s.arrived(h) == 1);
  CHECK(values(s.cotangent(h)) == std::vector<double>{1, 1, 1});
  CHECK(s.upcoming()->node == 1);
  const std::vector<const OpInfo*>& ran = s.turns()[0].calls;  // by the vjp of sum
  CHECK(std::any_of(ran.begin(), ran.end(), [](auto* op) { return op->name == "expand"; }));
  CHECK_FALSE(m.w.grad().defined());
}

TEST_CASE("step: breakpoints") {
  const auto run = [](const Breakpoint& b, size_t position, const char* why) {
    Small m;
    CHECK(m.s.run({b}) == (position < 4 || *why ? 0 : -1));
    CHECK(m.s.position() == position);
    if (*why) CHECK(m.s.stops(b) == std::string(why));
  };
  run({Stop::node, 1}, 2, "%1 is next");
  run({Stop::op, -1, "mul"}, 2, "%1 mul is next");
  run({Stop::path, -1, "model"}, 3, "%0 mul of model is next");
  run({Stop::path, -1, "layer"}, 3, "%0 mul of layer is next");
  run({Stop::path, -1, "lay"}, 4, "");
  run({Stop::norm, -1, "", 15}, 3,
      "the cotangent of operand 0 of %1 mul has norm 20.97617696340303");
  run({Stop::norm, -1, "", 1e6}, 4, "");
  run({Stop::nan}, 4, "");
  const Tensor v = leaf(f64({0, 1}, {2}));
  Stepper s({sum(log(v * 1.0))});
  CHECK(s.run({{Stop::op, -1, "none"}, {Stop::nan}}) == 1);
  CHECK(s.stops({Stop::nan}) == "the cotangent of operand 0 of %1 log is not finite");
}

TEST_CASE("step: a cotangent set by hand is what the vjp reads") {
  Small m;
  Stepper& s = m.s;
  s.next(), s.next();
  s.set(0, 0, f64({1, 0, -1}, {3}));
  CHECK(s.is_set(0, 0));
  CHECK(s.position() == 2);
  while (s.next()) continue;
  CHECK(values(s.cotangent({true, 0, 0})) == std::vector<double>{4, 0, -6});
  CHECK(error_of([&] { s.unset(0, 0); }) == "set: the turn of %0 mul is past; go back 1 first");
  s.back();
  s.unset(0, 0);
  s.next();
  CHECK(values(s.cotangent({true, 0, 0})) == std::vector<double>{36, 105, 222});
  s.back();
  CHECK(error_of([&] { s.set(0, 0, f64({1}, {1})); }) ==
        "set: the cotangent of %0 mul is f64 (3,), not (1,)");
  CHECK(error_of([&] {
          s.set(0, 0, f32({1, 1, 1}, {3}));
        }) == "set: the cotangent of %0 mul is f64, not f32");
  CHECK(error_of([&] { s.set(7, 0, f64({1}, {1})); }) ==
        "set: there is no node %7; the last one is %3");
  CHECK(error_of([&] { s.set(0, 1, f64({1}, {1})); }) ==
        "set: %0 mul has 1 outputs, there is no 1");
}

TEST_CASE("step: hooks run once, retained gradients and .grad stay as they are") {
  Small m;
  int calls = 0;
  register_hook(m.h, [&](const Tensor& g) { return ++calls, g * 2.0; });
  m.h.retain_grad();
  Stepper s({m.y}, {{"w", m.w}});
  CHECK(calls == 1);
  while (s.next()) continue;
  CHECK(values(s.cotangent({true, 0, 0})) == std::vector<double>{72, 210, 444});
  CHECK_FALSE(m.h.grad().defined());
  CHECK_FALSE(m.w.grad().defined());
}

TEST_CASE("step: a node that fails: everything before it can be seen") {
  const Tensor a = leaf(f64({1, 2}, {2}));
  const Tensor b = a * 3.0, y = sum(tanh(exp(b) * b));
  {
    const NoGrad off;
    add_(b, 1.0);
  }
  Stepper s({y});
  CHECK(s.failed_node() == 2);
  CHECK(s.turns().size() == 2);
  CHECK(s.next());
  CHECK(s.next());
  CHECK(error_of([&] { s.next(); }) == s.error());
  CHECK(s.error().find("mul: saved input") == 0);
  CHECK(error_of([&] { s.run({}); }) == s.error());
  CHECK(s.cotangent({false, 2, 0}).defined());
  CHECK(error_of([] { Stepper({f64({1}, {1})}); }).find("has no history") != std::string::npos);
}

namespace {
// What the command prints for these lines of commands.
test::ProgramRun step(const std::string& commands, const std::string& options = "") {
  const test::TempFolder folder;
  std::ofstream(folder / "commands") << commands;
  return test::run(folder, std::string("step ") + GRADUS_SOURCE_DIR +
                               "/configs/mlp/digits.json --set data.train=64 --set data.test=8 "
                               "--commands commands " +
                               options);
}
}  // namespace

TEST_CASE("step: what a walk that fails leaves open is not told as zero") {
  const test::TempFolder folder;
  folder.write("stale.lua",
               "local w = gradus.tensor({1.0, 2.0}, {requires_grad = true})\n"
               "local y = (w * 1.0):exp() y:mul_(2.0) y:sum():backward()\n");
  folder.write("commands", "show %1\nshow %0\nprint w\n");
  const test::ProgramRun r = test::run(folder, "step stale.lua --commands commands");
  CHECK(r.out.find("\n  the walk fails here\n") != std::string::npos);
  CHECK(r.out.find("\n  the walk fails before it comes here\n") != std::string::npos);
  CHECK(r.out.find("not known (the walk fails)") != std::string::npos);
  CHECK(r.out.find("zero (nothing comes)") == std::string::npos);
}

TEST_CASE("step: the command") {
  test::ProgramRun r = step(
      "next\nbreak path layers.0\nbreak op relu # comment\nc\nshow\nbreaks\n"
      "delete 2\nc\nshow\nn\nlist\nback 3\nset %2 * 2\nc\ngrads\nquit\n");
  CHECK(r.code == 0);
  CHECK(r.err.empty());
  for (const std::string text :
       {"turn 1 of 10: vjp of %9 div   # loss", "breakpoint 1: path layers[0]",
        "breakpoint 2: %1 relu is next", "out g:layers.0.weight", "saved y f32[64,128]"})
    CHECK_MESSAGE(r.out.find(text) != std::string::npos, text, " is not in\n", r.out);
  for (size_t at = r.out.find('\n') + 1, end; at < r.out.size(); at = end + 1) {
    end = r.out.find('\n', at);
    CHECK_MESSAGE(end - at <= 80, r.out.substr(at, end - at));
  }

  // What is cut says so; what has not come yet may still come.
  r = step("list 20\ngrads\nshow layers.0.weight\nprint %3\n");
  CHECK(r.out.find("... 0/1 here") != std::string::npos);
  CHECK(r.out.find("nothing came yet") != std::string::npos);
  CHECK(r.out.find("zero") == std::string::npos);

  // Twice the seed gives twice the gradient, bit for bit.
  const auto norms = [&](const std::string& commands) {
    const test::ProgramRun json = step(commands, "--json");
    CHECK(json.code == 0);
    std::vector<double> n;
    std::istringstream lines(json.out);
    Json event;
    for (std::string line; std::getline(lines, line);) {
      event = Json::parse(line);
      if (event["event"] == "gradient") n.push_back(event["value"]["norm"].get<double>());
    }
    CHECK(event["event"] == "result");
    CHECK(event["complete"] == true);
    return n;
  };
  const std::vector<double> once = norms("continue\n"), twice = norms("set %9 2\ncontinue\n");
  REQUIRE(once.size() == 4);
  for (size_t i = 0; i < 4; ++i) CHECK(twice[i] == 2 * once[i]);
  CHECK(norms("set %9 0\nc") == std::vector<double>{0, 0, 0, 0});

  const auto error = [&](const std::string& commands) {
    const test::ProgramRun bad = step(commands);
    CHECK(bad.code == 2);
    return bad.err;
  };
  CHECK(error("next\nnxt\n") ==
        "gradus: commands: line 2: step: there is no command \"nxt\"; did "
        "you mean \"next\"?; see help\n");
  CHECK(error("show layers.0.wieght").find("did you mean \"layers.0.weight\"?") !=
        std::string::npos);
  CHECK(error("break op rellu").find("did you mean \"relu\"?") != std::string::npos);
  CHECK(error("break node %10").find("%10: there is no such node; they are %0 to %9") !=
        std::string::npos);
  CHECK(error("next 0").find("expected a whole number above 0") != std::string::npos);
  for (const char* bound : {"x", "nan", "inf"})
    CHECK(error(join("break norm > ", bound)).find("expected norm > X with a finite number") !=
          std::string::npos);
  CHECK(error("set layers.0.weight 1").find("is a leaf") != std::string::npos);
}
