// `gradus ops NAME`: the example of every op, its call as a script and as a command, its page; and
// literals, by which a command holds its numbers.
#include "bindings/lua/script.hpp"
#include "cli/frame/literal.hpp"
#include "cli/ops/op_example.hpp"
#include "cli/ops/ops_list.hpp"
#include "ops/check/check.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/sizes.hpp"
#include "tests/helpers/texts.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

using namespace gradus;
using namespace gradus::cli;
using gradus::test::check_has;
using gradus::test::ProgramRun;
using gradus::test::TempFolder;
using Json = nlohmann::json;

namespace {

bool finite(const NamedTensors& tensors) {
  for (const auto& [name, t] : tensors)
    for (const auto& z : rows::download(t))
      if (!std::isfinite(z.real()) || !std::isfinite(z.imag())) return false;
  return true;
}

Tensor read(const std::string& text) { return parse_literal(text, default_device()); }
std::string refusal(const std::string& text) {
  return testing::error_of([&] { read(text); });
}
bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && rows::download(a) == rows::download(b);
}

std::string page(const std::string& name, bool json = false) {
  OpsOptions options;
  options.name = name;
  options.device = "cpu";
  options.json = json;
  std::ostringstream out, err;
  CHECK(run_ops(options, out, err) == 0);
  CHECK(err.str() == "");
  return out.str();
}

}  // namespace

TEST_CASE("ops page: every op has an example with finite numbers, which Lua computes as well") {
  Device& device = default_device();
  size_t with_gradient = 0, in_lua = 0, seen = 0;
  for (size_t n = 0; n < all_ops().size(); n += gradus::test::small_sizes() ? 7 : 1) {
    const OpInfo& op = all_ops()[n];
    CAPTURE(op.name);
    ++seen;
    const OpExample e = example_of(op, device);
    CHECK(!e.outputs.empty());
    CHECK(finite(e.inputs));
    CHECK(finite(e.outputs));
    CHECK(finite(e.gradients));
    CHECK(e.shell.starts_with("gradus op " + op.name));
    with_gradient += !e.gradients.empty();
    for (const NamedTensors* tensors : {&e.inputs, &e.cotangents})
      for (const auto& [name, t] : *tensors) CHECK(same(read(literal(t, Brackets::square)), t));
    if (e.lua.empty()) continue;
    ++in_lua;
    std::ostringstream said;
    lua::ScriptOptions options;
    options.device = &device;
    options.out = &said;
    lua::Script(options).run(e.lua, "example");
    for (const auto& [name, t] : e.outputs) check_has(said.str(), t.to_string());
  }
  CHECK(with_gradient > seen / 2);
  CHECK(in_lua > seen * 9 / 10);
}

TEST_CASE("ops page: the command of an example gives its numbers") {
  const TempFolder folder;
  size_t n = 0;
  for (const OpInfo& op : all_ops()) {
    if (n++ % 32 != 7) continue;
    const OpExample e = example_of(op, default_device());
    CAPTURE(e.shell);
    REQUIRE(e.shell.starts_with("gradus "));
    const ProgramRun r = gradus::test::run(folder, e.shell.substr(7) + " --json --device cpu");
    CHECK(r.err == "");
    REQUIRE(r.code == 0);
    const Json j = Json::parse(r.out);
    REQUIRE(j["outputs"].size() == e.outputs.size());
    for (size_t i = 0; i < e.outputs.size(); ++i)
      CHECK(j["outputs"][i]["values"] == to_lists(e.outputs[i].second));
    REQUIRE((e.gradients.empty() || j["grads"].size() == e.gradients.size()));
    for (size_t i = 0; i < e.gradients.size(); ++i)
      CHECK(j["grads"][i]["values"] == to_lists(e.gradients[i].second));
  }
}

TEST_CASE("ops page: formula, shapes, example and the errors of the check, within a page's width") {
  for (const char* name : {"sigmoid", "matmul", "softmax", "sort", "normal", "conv2d", "argmax"}) {
    CAPTURE(name);
    const std::string text = page(name);
    check_has(text, "  shapes      ");
    check_has(text, "Example, computed now on cpu");
    check_has(text, "  gradus op " + std::string(name) + " ");
    check_has(text, "Check, run now on cpu");
    check_has(text, "against the reference device");
    CHECK(text.find("FAILS") == std::string::npos);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("  gradus op ") && !line.starts_with("  print(") &&
          !line.starts_with("  gradus.seed("))
        CHECK_MESSAGE(line.size() <= 100, line);
  }
  const std::string sigmoid = page("sigmoid");
  check_has(sigmoid, "  derivative  dy/dx = y * (1 - y)\n");
  check_has(sigmoid, "\n  dx  ");
  check_has(sigmoid, "  vjp         ");
  check_has(sigmoid, "against central differences in f64");
  // The derivative is that of the example, and says of which sizes and attributes.
  const std::string cumsum = page("cumsum");
  check_has(cumsum, "  derivative  dx = cumsum(g, dim=1, reverse=true)\n");
  check_has(cumsum, "here x (3, 3); dim=1, reverse=false, as in the example below\n");
  check_has(cumsum, "  vjp runs    1 op: cumsum\n");
  const std::string longer = page("logcumsumexp");
  check_has(longer, "  derivative  longer than anybody would read: see what its vjp runs\n");
  check_has(longer, " ops: ");
  check_has(page("sgn"), "  derivative  dx = 0\n              on complex numbers:\n");
  const Json j = Json::parse(page("matmul", true));
  CHECK(j["name"] == "matmul");
  CHECK(j["device"] == "cpu");
  CHECK(j["example"]["gradients"].size() == 2);
  CHECK(j["check"]["vjp"]["error"].get<double>() > 0);
  CHECK(j["check"]["vjp"]["error"].get<double>() <= j["check"]["vjp"]["tolerance"].get<double>());
  CHECK(j["shapes"].size() > 0);
}

TEST_CASE("literals: nested lists of numbers, as they are typed") {
  CHECK(same(read("[[1, 2], [3, 4.5]]"), testing::f64({1, 2, 3, 4.5}, {2, 2})));
  CHECK(same(read(" [1,-2, +3]"), testing::i64({1, -2, 3}, {3})));
  CHECK(same(read("[9007199254740993]"), testing::i64({9007199254740993}, {1})));
  CHECK(same(read("2.5"), testing::f64({2.5}, {})));
  CHECK(same(read("[]"), testing::f64({}, {0})));
  CHECK(same(read("[[], []]"), testing::f64({}, {2, 0})));
  CHECK(read("[true, false]").dtype() == DType::bool_);
  CHECK(read("[true, 2]").dtype() == DType::i64);
  CHECK(rows::download(read("[1+2i, -3i, 4]")) == rows::Numbers{{1, 2}, {0, -3}, 4});
  CHECK(std::isinf(rows::download(read("[inf]"))[0].real()));
  CHECK(std::isnan(rows::download(read("[nan, 1]"))[0].real()));
  CHECK(is_literal("-1e3"));
  CHECK(is_literal(" [1]"));
  for (const char* file : {"x.npy", "1.npy", "", "-", "./[1].npy"}) CHECK(!is_literal(file));

  check_has(refusal("[1, 2"), "expected , or ] at character 6");
  check_has(refusal("[1, x]"), "expected a number, true, false or [ at character 5, got \"x]\"");
  check_has(refusal("[[1, 2], [3]]"), "lists of 2 and of 1 elements side by side");
  check_has(refusal("[[1], 2]"), "expected a list, as before");
  check_has(refusal("[1, [2]]"), "expected a number, as before");
  check_has(refusal("[1] 2"), "expected the end at character 5");
  check_has(refusal("[1+2]"), "expected i, for a complex number");
  check_has(refusal("[99999999999999999999]"), "a number of 64 bits");
  check_has(refusal(std::string(100, '[')), "fewer lists within lists");
}

TEST_CASE("literals: gradus op takes them in the place of files") {
  const TempFolder folder;
  const ProgramRun r = gradus::test::run(
      folder, "op mul --in \"[1.5,2]\" \" -3.0\" --cotangent \"[1,10]\" --json --device cpu");
  CHECK(r.err == "");
  const Json j = Json::parse(r.out);
  CHECK(j["outputs"][0]["values"] == Json::parse("[-4.5, -6.0]"));
  CHECK(j["grads"][0]["values"] == Json::parse("[-3.0, -30.0]"));
  CHECK(j["grads"][1]["values"] == 21.5);
  check_has(gradus::test::run(folder, "op exp --in \"[1,\"").err, "expected a number");
  CHECK(gradus::test::run(folder, "op exp --in [1").code == 2);
}
