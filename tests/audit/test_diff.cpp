// Two recorded steps compared: numbers in units of the last place, nodes inserted, removed and
// changed, and the command.
#include "ops/audit/step/diff.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace gradus;
using namespace gradus::testing;
using audit::NodeDifference;
using gradus::test::TempFolder;

namespace {

audit::RecordedStep recorded(const std::function<Tensor(const Tensor&)>& f, DType t = DType::f64) {
  const audit::Watch watch;
  const Tensor x = leaf(cast(f64({0.25, 0.5, 1.5}, {3}), t));
  return audit::record(watch, {sum(f(x))}, {{"x", x}});
}

// "+op", "-op", "~op" of the nodes that are not the same.
std::string structure(const audit::StepDifference& d, const audit::RecordedStep& a,
                      const audit::RecordedStep& b) {
  std::string s;
  for (const NodeDifference& n : d.nodes)
    if (n.kind == NodeDifference::Kind::inserted)
      s += "+" + b.nodes[size_t(n.b)].op->name + " ";
    else if (n.kind == NodeDifference::Kind::removed)
      s += "-" + a.nodes[size_t(n.a)].op->name + " ";
    else if (n.kind == NodeDifference::Kind::changed)
      s += "~" + a.nodes[size_t(n.a)].op->name + " ";
  return s;
}

}  // namespace

TEST_CASE("diff: numbers") {
  const float one = 1, next = std::nextafter(1.0f, 2.0f), tiny = 1e-45f;
  audit::Numbers n = audit::compare(f32({1, one, 3}, {3}), f32({1, next, 3}, {3}));
  CHECK(n.differing == 1);
  CHECK(n.ulps == 1);
  CHECK(n.element == Shape{1});
  CHECK(n.relative == doctest::Approx((next - one) / 3.0));
  CHECK(n.text() ==
        "1 of 3 elements, up to 1 ulp, relative 4e-08; element (1,) is 1 and 1.00000012");
  CHECK(audit::compare(f32({-tiny}, {1}), f32({tiny}, {1})).ulps == 2);  // across zero
  // 1, 2, 3 and 9 units apart; the NaN is in no class.
  n = audit::compare(f64({0, 0, 0, 0, NAN, 5}, {6}),
                     f64({5e-324, 1e-323, 1.5e-323, 4.4e-323, 1, 5}, {6}));
  CHECK(n.ulp_histogram == std::vector<int64_t>{1, 2, 0, 1});
  n = audit::compare(f32({-0.0f}, {1}), f32({0.0f}, {1}));
  CHECK(!n.same());
  CHECK(n.ulp_histogram.empty());
  CHECK(audit::compare(f32({NAN}, {1}), f32({NAN}, {1})).same());
  n = audit::compare(f32({NAN, 2}, {2}), f32({1, 2}, {2}));
  CHECK(n.ulps == -1);
  CHECK(std::isinf(n.relative));
  CHECK(audit::compare(cast(f32({1}, {1}), DType::bf16), cast(f32({1.0078125f}, {1}), DType::bf16))
            .ulps == 1);
  n = audit::compare(Tensor::from(std::vector<c64>{{1, 2}, {3, 4}}, {2}),
                     Tensor::from(std::vector<c64>{{1, 2}, {3, 5}}, {2}));
  CHECK(n.differing == 1);
  CHECK(n.element == Shape{1});
  CHECK(audit::compare(f32({0.1f}, {1}), f64({0.1}, {1})).ulps == -1);  // of two dtypes
  CHECK(audit::compare(f32({0.5f}, {1}), f64({0.5}, {1})).same());
  CHECK(error_of([] {
          audit::compare(f32({1}, {1}), f32({1, 2}, {2}));
        }) == "compare: one tensor is (1,), the other (2,)");
}

TEST_CASE("diff: structure") {
  const auto base = recorded([](const Tensor& x) { return exp(sin(x)) * 2.0; });
  const auto against = [&](const std::function<Tensor(const Tensor&)>& f) {
    const auto other = recorded(f);
    return structure(audit::diff(base, other), base, other);
  };
  CHECK(against([](const Tensor& x) { return exp(sin(x)) * 2.0; }) == "");
  CHECK(against([](const Tensor& x) { return exp(tanh(sin(x))) * 2.0; }) == "+tanh ~exp ");
  CHECK(against([](const Tensor& x) { return exp(x) * 2.0; }) == "-sin ~exp ");
  CHECK(against([](const Tensor& x) { return exp(cos(x)) * 2.0; }) == "-sin +cos ~exp ");
  CHECK(against([](const Tensor& x) { return exp(sin(x)) * 3.0; }) == "~mul ");
  const auto a = recorded([](const Tensor& x) { return sum(reshape(x, {3, 1}), {0}); });
  const auto b = recorded([](const Tensor& x) { return sum(reshape(x, {3, 1}), {0}, true); });
  const audit::StepDifference d = audit::diff(a, b);
  CHECK(structure(d, a, b) == "~sum ~sum ");
  CHECK(d.nodes[1].what == "keepdim false -> true, shape (1,) -> (1, 1)");
  CHECK(d.nodes[2].what == "dim [0] -> [0, 1]");
}

TEST_CASE("diff: where numbers part first, forward and backward") {
  const auto a = recorded([](const Tensor& x) { return exp(sin(x)); });
  audit::RecordedStep b = a;
  b.nodes[1].outputs[0].value = f64({1, 1, 1}, {3});
  b.nodes[1].outputs[0].cotangent = f64({1, 1, 2}, {3});
  b.nodes[0].outputs[0].cotangent = f64({1, 1, 2}, {3});
  b.leaves[0].gradient = f64({1, 1, 2}, {3});
  const audit::StepDifference d = audit::diff(a, b);
  CHECK(!d.same());
  CHECK(d.structural == 0);
  CHECK(d.first_value == 1);
  CHECK(d.first_cotangent == 1);  // backward comes to exp before sin
  CHECK(d.values == 1);
  CHECK(d.cotangents == 2);
  CHECK(d.gradients == 1);
  CHECK(d.nodes[1].cotangent->differing == 1);
  // In f64: one dtype for another, no node changed.
  const auto f = [](const Tensor& x) { return exp(sin(x)); };
  const auto narrow = recorded(f, DType::f32);
  const auto wide = audit::run_again(audit::widened(narrow), default_device());
  const audit::StepDifference e = audit::diff(narrow, wide);
  CHECK(e.dtypes == "f32 -> f64");
  CHECK(e.structural == 0);
  CHECK(e.values == 3);
  for (const NodeDifference& n : e.nodes) CHECK(n.value->relative < 1e-6);
}

TEST_CASE("diff: the commands on configs and files") {
  const TempFolder folder;
  const auto config = [&](const char* name, const char* activation) {
    folder.write(name, join(R"({"experiment": "network",
      "data": {"name": "digits", "train": 32, "test": 10}, "batch_size": 16,
      "model": {"layers": [{"linear": 8}, ")",
                            activation, R"(", {"linear": 10}]}})"));
  };
  config("a.json", "tanh");
  config("b.json", "sigmoid");
  CHECK(test::run(folder, "graph a.json --record a.safetensors").code == 0);
  const test::ProgramRun same = test::run(folder, "diff a.json a.safetensors");
  CHECK(same.code == 0);
  CHECK(same.out.find("the same bits: ") == 0);
  const test::ProgramRun other = test::run(folder, "diff a.safetensors b.json");
  CHECK(other.code == 5);
  CHECK(other.out.find("tanh(%0)  # layers[1] tanh\n") != std::string::npos);
  CHECK(other.out.find("\n+ %1 sigmoid(%0)  # layers[1] sigmoid\n") != std::string::npos);
  const test::ProgramRun lines = test::run(folder, "diff a.safetensors b.json --json");
  std::istringstream in(lines.out);
  nlohmann::json last;
  int removed = 0;
  for (std::string line; std::getline(in, line);) {
    last = nlohmann::json::parse(line);
    removed += last["event"] == "node" && last["kind"] == "removed";
  }
  CHECK(removed == 1);
  CHECK(last["event"] == "result");
  CHECK(last["same"] == false);
  // On another device each value may be a little off, and no node is another.
  const test::ProgramRun device =
      test::run(folder, "diff a.safetensors a.safetensors --device-b reference --json");
  CHECK(device.code == 5);
  CHECK(device.out.find("\"structural\":0") != std::string::npos);
  const test::ProgramRun wide = test::run(folder, "diff a.json a.json --dtype-b f64");
  CHECK(wide.code == 5);
  CHECK(wide.out.find("dtypes: f32 -> f64\n") == 0);
  CHECK(test::run(folder, "diff a.json a.json --dtype-b f16").code == 2);
  folder.write("draws.lua",
               "local x = gradus.randn(3, {requires_grad = true});\n(x * x):sum():backward()\n");
  CHECK(test::run(folder, "diff draws.lua draws.lua").code == 0);
  CHECK(test::run(folder, "diff a.json").code == 2);
  CHECK(test::run(folder, "diff a.json b.json --arg 1").code == 2);
  CHECK(test::run(folder, "diff a.json none.json").code == 3);

  // A step of LeNet, with any number of threads.
  const std::string lenet = std::string(GRADUS_SOURCE_DIR) + "/configs/lenet/digits.json";
  CHECK(test::run(folder, "graph '" + lenet +
                              "' --set data.train=64 --set data.test=16 --record lenet.safetensors")
            .code == 0);
  for (const int threads : {1, 2}) {
    folder.write("cpu.json", join(R"({"device": "cpu", "threads": )", threads, "}"));
    const test::ProgramRun again =
        test::run(folder, "replay lenet.safetensors --device cpu.json --json");
    CHECK(again.code == 0);
    CHECK(nlohmann::json::parse(again.out)["same"] == true);
  }
  // A right op does not fail the audit, a wrong one is what is left; and without its library it is
  // not there.
  const std::string library = "--load '" + std::string(GRADUS_BUILD_DIR) + "/user_ops/example.so' ";
  config("wrong.json", "wrong_cube");
  CHECK(test::run(folder, library + "graph wrong.json --record wrong.safetensors").code == 0);
  const test::ProgramRun small = test::run(
      folder, library + "replay wrong.safetensors --shrink small.safetensors --until mismatch");
  CHECK(small.code == 0);
  CHECK(small.out.find("small.safetensors: 1 of ") == 0);
  CHECK(small.out.find("wrong_cube(") != std::string::npos);
  const test::ProgramRun without = test::run(folder, "replay wrong.safetensors");
  CHECK(without.code == 3);
  CHECK(
      without.err.find("there is no op \"wrong_cube\"; if it is one of your own, load its library "
                       "with --load") != std::string::npos);
}
