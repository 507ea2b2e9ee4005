// Health of gradients and activations: shares counted by hand, each sign planted and alone, and
// runs that are looked at and come to the same bits.
#include "ops/audit/judge/health.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/lua_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/train_helpers.hpp"

using namespace gradus;
using namespace gradus::testing;
using audit::Health;
using audit::NodeHealth;
using gradus::test::says;
using gradus::test::TempFolder;
using gradus::test::train_options;

namespace {

std::string signs(const Health& h) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& sign) {
    if (!sign.empty()) text += (text.empty() ? "" : ", ") + name + ": " + sign;
  };
  for (const audit::LeafHealth& l : h.leaves) add(l.name, l.sign);
  for (const NodeHealth& n : h.nodes) add(n.op->name, n.sign);
  return text;
}
Health of(const Tensor& y, const audit::Names& leaves) { return audit::health_of({y}, leaves); }

}  // namespace

TEST_CASE("health: shares of zero and flat slopes, dead units, by hand") {
  // Two samples of four units; the second unit is below 0 for both, the fourth once.
  const Tensor x = leaf(f64({1, -1, 2, -3, 4, -2, 1, 5}, {2, 4}));
  const Health h = of(sum(relu(x)), {{"x", x}});
  REQUIRE(h.nodes.size() == 1);
  CHECK(h.nodes[0].zero == 3.0 / 8);
  CHECK(h.nodes[0].flat == -1);  // relu is not bounded
  CHECK(h.nodes[0].units == 4);
  CHECK(h.nodes[0].dead == 1);
  CHECK(h.leaves[0].gradient.zeros == 3);
  CHECK(h.leaves[0].rms() == doctest::Approx(std::sqrt(5.0 / 8)));
  CHECK(h.gradient_norm == doctest::Approx(std::sqrt(5.0)));
  CHECK(h.sound());

  // 1 - tanh(x)^2 is below 0.05 from |x| = 2.18 on.
  const Tensor z = leaf(f64({0, 1, 2.1, -2.3, 5, -40}, {6}));
  const Health t = of(sum(tanh(z)), {{"z", z}});
  CHECK(t.nodes[0].flat == 0.5);
  CHECK(t.nodes[0].zero == 1.0 / 6);  // tanh(-40) is -1 in f64
  CHECK(t.nodes[0].units == 0);

  // Channels are axis 1 of images: (1, 2, 2, 2), the second one dead.
  const Tensor image = leaf(f64({1, 2, -3, 4, -5, -6, -7, -8}, {1, 2, 2, 2}));
  const Health c = of(sum(relu(image)), {{"image", image}});
  CHECK(c.nodes[0].units == 2);
  CHECK(c.nodes[0].dead == 1);

  // Linear ops, and ops of several operands, are no activations; bounded is not what grows.
  const Tensor a = leaf(f64({1, 2}, {2}));
  CHECK(of(sum(neg(a) * a + 3.0 * a), {{"a", a}}).nodes.empty());
  for (const NodeHealth& n : of(sum(sigmoid(a) + sin(a) + erf(a)), {{"a", a}}).nodes)
    CHECK_MESSAGE(n.flat >= 0, n.op->name);
  for (const NodeHealth& n :
       of(sum(exp(a) + square(a) + sqrt(a) + log(a) + reciprocal(a) + gelu(a)), {{"a", a}}).nodes)
    CHECK_MESSAGE(n.flat == -1, n.op->name);
}

TEST_CASE("health: each sign is found, and no other") {
  const Tensor w = leaf(f64({0.5, -0.25, 1, 2}, {2, 2})), x = f64({1, 2, 3, 4}, {2, 2});
  CHECK(signs(of(sum(matmul(x, w)), {{"w", w}})) == "");
  const Tensor unused = leaf(f64({1}, {1}));
  CHECK(signs(of(sum(matmul(x, w)), {{"w", w}, {"u", unused}})) == "u: no gradient");
  CHECK(signs(of(sum(w * 0.0), {{"w", w}})) == "w: zero");
  CHECK(signs(of(sum(w * f64({1, NAN, 1, 1}, {2, 2})), {{"w", w}})) == "w: not finite");
  CHECK(signs(of(sum(w * 1000.0), {{"w", w}})) == "w: exploding");
  // Just inside of the bounds, and beyond.
  const Tensor v = leaf(f64({1, 1}, {2}));
  CHECK(signs(of(sum(v) + sum(w) * 2e-4, {{"v", v}, {"w", w}})) == "");
  CHECK(signs(of(sum(v) + sum(w) * 0.9e-4, {{"v", v}, {"w", w}})) == "w: vanishing");
  // A batch of 16 tells that a unit is dead, one of 15 does not.
  const auto off = [&](int64_t samples) {
    const Tensor ones = Tensor::full({samples, 2}, 1, DType::f64);
    return signs(of(sum(relu(matmul(ones, w) - 100.0)), {{"w", w}}));
  };
  CHECK(off(16) == "w: zero, relu: dead");
  CHECK(off(15) == "w: zero");
  // Ops without a slope give no cotangent at all.
  CHECK(signs(of(sum(floor(w) + sign(w) * w), {{"w", w}})) == "");
  const Health flat = of(sum(floor(w) + w), {{"w", w}});
  REQUIRE(flat.nodes.size() == 1);
  CHECK(flat.nodes[0].zero == 1);
  // What is zero can't be compared with its gradient; what is no loss neither.
  const Tensor zero = leaf(f64({0, 0, 0, 0}, {2, 2}));
  CHECK(signs(of(sum(zero * 1000.0), {{"zero", zero}})) == "");
  CHECK(signs(of(w * 1000.0, {{"w", w}})) == "");
  CHECK(signs(of(sum(sigmoid(matmul(x, w) * 2.0)), {{"w", w}})) == "sigmoid: saturated");

  // An update is seen from outside.
  Health h = of(sum(w), {{"w", w}});
  h.leaves[0].moved = audit::moved(w, w * 1.6);
  CHECK(h.leaves[0].moved == doctest::Approx(0.6));
  audit::judge(h);
  CHECK(signs(h) == "w: leaps");
  h.leaves[0].moved = audit::moved(w, w * (1 + 1e-9));
  audit::judge(h);
  CHECK(signs(h) == "w: stands still");
  CHECK(audit::moved(w, w) == 0);
}

TEST_CASE("health: nothing of the graph changes") {
  const Tensor w = leaf(f64({0.5, -0.25}, {2}));
  const Tensor y = sum(relu(w * 2.0));
  const Health before = of(y, {{"w", w}}), again = of(y, {{"w", w}});
  CHECK(again.gradient_norm == before.gradient_norm);
  CHECK_FALSE(w.grad().defined());
  backward(y);
  CHECK(w.grad().to_vector<double>() == std::vector<double>{2, 0});
  CHECK(test::error_text(ErrorKind::autograd, [&] { of(y, {{"w", w}}); }) != "");
  // Without a leaf that is asked for, the activations.
  CHECK(of(sum(relu(w)), {}).nodes.size() == 1);
  CHECK(test::error_text(ErrorKind::autograd, [] { of(f64({1}, {}), {}); }).find("no history") !=
        std::string::npos);
  // Of what is no scalar, the sum.
  CHECK(of(w * 3.0, {{"w", w}}).gradient_norm == doctest::Approx(3 * std::sqrt(2.0)));
}

namespace {

constexpr const char* kNet = R"({
  "experiment": "network", "seed": 5, "data": {"name": "digits", "train": 100, "test": 50},
  "model": {"layers": [{"linear": 12}, "batch_norm", "relu", {"dropout": 0.2}, {"linear": 10}]},
  "optimizer": {"name": "adam", "lr": 0.02}, "epochs": 3, "batch_size": 16, "log_every": 0,
  "report": false
})";

}  // namespace

TEST_CASE("health: a run that is looked at comes to the same bits") {
  const TempFolder folder;
  for (const char* more : {"clip_norm=1", "precision.compute=\"f16\""}) {
    CAPTURE(more);
    const auto model = [&](const std::string& name, const std::string& health) {
      const cli::TrainOptions o =
          train_options(folder, kNet, name + more, {more, "health=" + health});
      const test::Run run = test::train(o);
      CHECK(test::events(run, "health").size() ==
            (health == "0" ? 0u : 5u));  // of 21 steps: 1, 6, 11, 16, 21
      return read_file(o.out + "/model.safetensors");
    };
    CHECK(model("looked", "5") == model("plain", "0"));
  }
}

TEST_CASE("health: events, lines for people, the report") {
  const TempFolder folder;
  const std::string deep =
      "[{\"linear\": 16}, \"sigmoid\", {\"linear\": 16}, \"sigmoid\", {\"linear\": 16}, "
      "\"sigmoid\", "
      "{\"linear\": 16}, \"sigmoid\", {\"linear\": 16}, \"sigmoid\", {\"linear\": 16}, "
      "\"sigmoid\", "
      "{\"linear\": 16}, \"sigmoid\", {\"linear\": 16}, \"sigmoid\", {\"linear\": 10}]";
  const cli::TrainOptions o = train_options(
      folder, kNet, "run", {"model.layers=" + deep, "health=4", "epochs=1", "report=true"});
  const test::Run run = test::train(o);
  const std::vector<Json> looks = test::events(run, "health");
  REQUIRE(looks.size() == 2);
  CHECK(looks[1]["step"] == 5);
  CHECK(looks[0]["parameters"].size() == 18);
  CHECK(looks[0]["activations"].size() == 8);
  const Json& first = looks[0]["parameters"][0];
  CHECK(first["name"] == "layers.0.weight");
  CHECK(first["sign"] == "vanishing");
  CHECK(first["moved"].get<double>() > 0);
  CHECK(looks[0]["activations"][0]["where"] == "layers[1] sigmoid");
  // Each sign once.
  const std::string said = "gradus: step 1: layers.0.weight: vanishing (rms of the gradient ";
  const size_t at = run.err.find(said);
  REQUIRE(at != std::string::npos);
  CHECK(run.err.find("layers.0.weight: vanishing", at + said.size()) == std::string::npos);

  const std::string page = read_file(folder / "run/report.html");
  CHECK(page.find("<h2>Gradients and activations</h2>") != std::string::npos);
  CHECK(page.find("<b>vanishing</b> at step 1") != std::string::npos);
  CHECK(page.find("<svg class=\"spark\"") != std::string::npos);
  // The run goes on without looking.
  cli::TrainOptions more = o;
  more.resume = true;
  more.set = {"model.layers=" + deep, "epochs=2"};
  test::train(more);
}

TEST_CASE("health: gradus audit --health, and from a script") {
  const TempFolder folder;
  folder.write("net.json", kNet);
  const test::ProgramRun table = test::run(folder, "audit net.json --health");
  CHECK(table.code == 0);
  CHECK(table.out.find("layers.0.weight ") != std::string::npos);
  CHECK(table.out.find("relu (layers[2] relu)") != std::string::npos);
  CHECK(table.out.find("gradient of 6 leaves: norm ") != std::string::npos);
  const test::ProgramRun lines = test::run(folder, "audit net.json --health --json");
  const Json e = Json::parse(lines.out.substr(0, lines.out.find('\n')));
  CHECK(e["parameters"].size() == 6);
  CHECK(e["parameters"][0]["moved"].is_null());
  CHECK(test::run(folder, "audit net.json --health --versions").code == 2);
  folder.write("steep.lua",
               "local w = gradus.tensor({0.0, 1.0}, {requires_grad = true})\n"
               "local v = gradus.tensor({2.0, 1.0}, {requires_grad = true});\n"
               "(w:sqrt() + v):sum():backward()\n");
  const test::ProgramRun steep = test::run(folder, "audit steep.lua --health");
  CHECK(steep.out.find("w: not finite (0 NaN, 1 infinite of 2)\n"
                       "gradient of 2 leaves: norm inf; 1 sign of illness") != std::string::npos);
  CHECK(test::run(folder, "audit steep.lua --health --json").out.find(R"("norm":"Infinity")") !=
        std::string::npos);

  CHECK(says("local w = gradus.tensor({{1.0, -1.0}, {2.0, -3.0}}, {requires_grad = true})\n"
             "local h = gradus.audit.health(function() return w:relu():sum() end)\n"
             "local p, a = h.parameters[1], h.activations[1]\n"
             "print(p.name, p.zeros, p.sign, a.op, a.where, a.zero, a.dead, a.units, a.flat, "
             "h.sound, h.gradient_norm == math.sqrt(2))") ==
        "w\t0.5\t\trelu\ttest.lua:2\t0.5\t1\t2\tnil\ttrue\ttrue");
}
