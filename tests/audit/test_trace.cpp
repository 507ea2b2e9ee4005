// Recorded steps: every op's runs again to the same bits, from memory and from a file; what can't
// be recorded is refused, and so is a file that says what can't be.
#include "engine/hooks.hpp"
#include "engine/files/file.hpp"
#include "engine/files/safetensors.hpp"
#include "ops/audit/step/diff.hpp"
#include "ops/audit/judge/shrink.hpp"
#include "ops/audit/step/trace.hpp"
#include "ops/base/checkpoint.hpp"
#include "ops/check/check.hpp"
#include "ops/check/rows.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/io_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <nlohmann/json.hpp>
#include <set>

using namespace gradus;
using namespace gradus::testing;
using audit::RecordedStep;

namespace {

// By way of a file's bytes.
RecordedStep through_file(const RecordedStep& step) {
  return audit::parse_trace(audit::trace_bytes(step, "step"), "step", default_device());
}

// Run again from a file, it gives the same bits.
RecordedStep repeats(const RecordedStep& step) {
  const RecordedStep file = through_file(step);
  const audit::StepDifference d = audit::diff(file, audit::run_again(file, default_device()));
  std::string first;
  for (const audit::NodeDifference& n : d.nodes)
    if (!n.what.empty() || (n.value && !n.value->same()) || (n.cotangent && !n.cotangent->same()))
      first += audit::node_text(step, size_t(n.a)) + ": " + n.what +
               (n.value ? " value " + n.value->text() : "") +
               (n.cotangent ? " cotangent " + n.cotangent->text() : "") + "\n";
  for (const audit::LeafDifference& l : d.leaves)
    if (l.gradient && !l.gradient->same()) first += l.name + ": " + l.gradient->text() + "\n";
  CHECK_MESSAGE(d.same(), first);
  CHECK(d.nodes.size() == step.nodes.size());
  return file;
}

// y = log(sum((w x)^2) + 1) + sum(v)
struct Small {
  audit::Watch watch;
  Tensor w = leaf(f64({1, 2, 3}, {3})), v = leaf(f64({0.5, 0.25}, {2}));
  Tensor root = [&] {
    const Trace place("layer 1");
    const Tensor h = w * f64({4, 5, 6}, {3});
    const Tensor squares = sum(h * h), l = log(squares + 1.0);
    return l + sum(v);
  }();
  RecordedStep step = audit::record(watch, {root}, {{"w", w}, {"v", v}});
};

}  // namespace

TEST_CASE("trace, graph view: what retain_grad keeps stays as it was") {
  const audit::Watch watch;
  const Tensor w = leaf(f64({1, 2, 3}, {3})), h = w * 2.0, y = sum(h * h);
  h.retain_grad();
  audit::record(watch, {y}, {{"w", w}});
  audit::read_graph({y}, {{"w", w}});
  CHECK_FALSE(h.grad().defined());
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("trace: every op of the table runs again to the same bits") {
  int recorded = 0;
  for (const rows::Row& row : rows::all_rows()) {
    const OpInfo& op = get_op(row.name);
    const size_t which = row.cases.size() / 2;
    const auto all = rows::dtypes_of_case(row, which);
    DType dtype = DType::f32;
    for (const DType t : all)
      if (t == DType::f32 || t == DType::c128) dtype = t;
    if (std::find(all.begin(), all.end(), dtype) == all.end()) continue;
    CAPTURE(row.name);
    const audit::Watch watch;
    Tensors in = rows::draw_inputs(row, which, dtype, default_device());
    audit::Names leaves;
    for (size_t k = 0; k < in.size(); ++k)
      if (is_differentiable(in[k].dtype()))
        leaves.emplace_back(join("x", k), in[k].set_requires_grad());
    Tensors roots;
    const Outputs all_of_it = op.call(in, rows::attrs_of(op, row.cases[which].attrs));
    Tensors out(all_of_it.begin(), all_of_it.end());
    if (row.seen) out = row.seen(out);
    for (const Tensor& y : out)
      if (y.defined() && y.grad_fn()) roots.push_back(y);
    if (roots.empty()) continue;
    const RecordedStep step = audit::record(watch, roots, leaves);
    repeats(step);
    ++recorded;
  }
  CHECK(recorded > 250);
}

TEST_CASE("trace: what is in it") {
  const Small s;
  const RecordedStep file = repeats(s.step);
  REQUIRE(file.nodes.size() == 7);
  CHECK(audit::node_text(file, 0) == "%0 mul(w, f64(3,))  # layer 1");
  CHECK(file.nodes[0].where == "layer 1");
  CHECK(file.leaves[0].name == "w");
  const double total = 1 + 16 + 100 + 324;  // sum of squares of 4, 10, 18, and 1
  CHECK(close(values(file.leaves[0].gradient),
              {2 * 4 * 4 / total, 2 * 10 * 5 / total, 2 * 18 * 6 / total}));
  CHECK(close(values(file.leaves[1].gradient), {1, 1}));
  CHECK(file.device == default_device().name());
  // The program's own graph and gradients are as they were.
  CHECK(!s.w.grad().defined());
  backward(s.root);
  CHECK(close(values(s.w.grad()), values(file.leaves[0].gradient)));
}

TEST_CASE("trace: seeds, numbers, views, writes in place, checkpoints, strides, complex values") {
  {
    const audit::Watch watch;
    const Tensor x = leaf(f64({1, 2, 3, 4, 5, 6}, {2, 3}));
    Tensor y = x * 2.0;
    in_place("exp", select(y, 0, 1));
    in_place("mul", y, {Tensor(0.5)});
    const Tensor z = transpose(y, 0, 1) + permute(f64({1, 2, 3, 4, 5, 6}, {2, 3}), {1, 0});
    const RecordedStep step =
        audit::record(watch, {z}, {{"x", x}}, {f64({1, 2, 3, 4, 5, 6}, {3, 2})});
    const RecordedStep file = repeats(step);
    CHECK(file.seeds[0].defined());
    bool strided = false;
    for (const Tensor& c : file.constants) strided |= !c.is_number() && !c.is_contiguous();
    CHECK(strided);
    const Tensor g = grad({z}, {x}, step.seeds)[0];
    CHECK(values(g) == values(file.leaves[0].gradient));
  }
  {  // a column of a wide matrix, an expanded row, a reversed one
    const audit::Watch watch;
    const Tensor x = leaf(f64({0.1, 0.2}, {2}));
    const Tensor far = select(Tensor::full({2, 100000}, 3.0, DType::f64), 1, 7);
    const Tensor row = expand(f64({5}, {1}), {2}), back = flip(f64({1, 2}, {2}), {0});
    repeats(audit::record(watch, {sum(x * far * row * back)}, {{"x", x}}));
  }
  {
    const audit::Watch watch;
    const Tensor x = leaf(f64({0.1, 0.2}, {2}));
    const Tensor y =
        checkpoint([](const Tensors& in) { return Tensors{sin(in[0]) * in[0]}; }, {x})[0];
    repeats(audit::record(watch, {sum(y)}, {{"x", x}}));
  }
  const audit::Watch watch;
  const Tensor z = leaf(Tensor::from(std::vector<c128>{{1, 2}, {-0.5, 3}}, {2}));
  repeats(audit::record(watch, {sum(real(z * conj(z) * z))}, {{"z", z}}));
}

TEST_CASE("trace: what can't be repeated is refused") {
  {
    const Tensor x = leaf(f64({1, 2}, {2}));
    const Tensor before = exp(x);
    const audit::Watch watch;
    const Tensor y = sum(before);
    CHECK(error_of([&] { audit::record(watch, {y}, {}); }) ==
          "record: exp ran before the watch began");
    CHECK(error_of([&] { audit::record(watch, {x}, {}); }) == "record: a root has no history");
  }
  {
    const audit::Watch watch;
    const Tensor x = leaf(f64({1, 2}, {2}));
    const Tensor h = exp(x), y = sum(h);
    HookHandle hook = register_hook(h, [](const Tensor& g) { return g; });
    CHECK(error_of([&] { audit::record(watch, {y}, {}); }) ==
          "record: exp has a hook, which no file can hold");
    hook.remove();
    repeats(audit::record(watch, {y}, {}));
    backward(y);
    CHECK(error_of([&] { audit::record(watch, {y}, {}); }).find("the graph was freed") !=
          std::string::npos);
  }
  {
    const audit::Watch watch;
    const Tensor x = leaf(f64({1, 2}, {2}));
    const Tensor a = x * 2.0;
    {
      const NoGrad off;
      in_place("mul", x, {Tensor(3.0)});
    }
    const Tensor y = sum(a + x * 2.0);
    CHECK(error_of([&] {
            audit::record(watch, {y}, {{"x", x}});
          }) == "record: leaf x was written between two of its uses; clone() it first");
  }
  {  // written behind autograd's back: it runs again, and shows
    const audit::Watch watch;
    const Tensor x = leaf(f64({1, 2}, {2}));
    const Tensor h = x * 2.0;
    {
      const NoGrad off;
      in_place("mul", h.detach(), {Tensor(3.0)});
    }
    const RecordedStep step = audit::record(watch, {sum(sin(h))}, {{"x", x}});
    const audit::StepDifference d = audit::diff(step, audit::run_again(step, default_device()));
    CHECK(d.nodes[size_t(d.first_value)].a == 1);
  }
  const audit::Watch watch;  // an op that nobody could find by its name
  static const OpInfo own = [] {
    OpInfo o = get_op("exp");
    o.name = "exp of my own";
    return o;
  }();
  const Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor y = apply1(own, {x});
  CHECK(error_of([&] { audit::record(watch, {y}, {}); }).find("is not in the op list") !=
        std::string::npos);
}

TEST_CASE("trace: a file is believed nothing") {
  const Small s;
  const std::string good = audit::trace_bytes(s.step, "t");
  Safetensors parts = parse_safetensors(good, "t");
  using Json = nlohmann::json;
  const Json step = Json::parse(parts.metadata.at("step"));
  const auto with = [&](const std::function<void(Json&, Safetensors&)>& change) {
    Json j = step;
    Safetensors p = parts;
    change(j, p);
    p.metadata["step"] = j.dump();
    return error_of([&] {
      const RecordedStep read =
          audit::parse_trace(safetensors_bytes(p.tensors, p.metadata, "t"), "t", default_device());
      audit::run(read, default_device());
    });
  };
  const auto json = [&](const std::function<void(Json&)>& change) {
    return with([&](Json& j, Safetensors&) { change(j); });
  };
  CHECK(json([](Json&) {}) == "");
  {  // an axis counted from the end, which the primitive would take as it stands
    const audit::Watch watch;
    const Tensor x = leaf(f64({1, 2, 3, 4}, {2, 2}));
    RecordedStep cut = audit::record(watch, {sum(slice(x, 0, 0, 1))}, {{"x", x}});
    cut.nodes[0].attrs[0] = AttrValue(int64_t(-1));
    CHECK(error_of([&] {
            audit::run(cut, default_device());
          }).starts_with("%0: slice: attributes that no recorded node has"));
  }
  CHECK(json([](Json& j) {
          j["nodes"][1]["inputs"][0] = {"node", 1, 0};
        }) == "t: nodes[1]: node 1 is not an earlier node");
  CHECK(json([](Json& j) {
          j["nodes"][1]["inputs"][0] = {"node", -1, 0};
        }) == "t: nodes[1]: node -1 is not an earlier node");
  CHECK(json([](Json& j) {
          j["nodes"][1]["inputs"][0] = {"node", 0, 1};
        }) == "t: nodes[1]: node 0 has no output 1");
  CHECK(json([](Json& j) {
          j["nodes"][0]["inputs"][0] = {"leaf", 2};
        }) == "t: nodes[0]: leaf 2: there are 2");
  CHECK(json([](Json& j) {
          j["nodes"][0]["inputs"][0] = {"leaf", 1e30};
        }).find("t: nodes[0]: ID: expected a whole number") == 0);
  CHECK(json([](Json& j) {
          j["nodes"][0]["inputs"].push_back({"leaf", 0});
        }) == "t: nodes[0]: mul takes 2 operands, got 3");
  CHECK(json([](Json& j) { j["nodes"][0]["inputs"][0] = nullptr; }) ==
        "t: nodes[0]: mul needs operand 0");
  CHECK(json([](Json& j) { j["nodes"][0]["op"] = "mull"; }) ==
        "t: nodes[0]: there is no op \"mull\"; if it is one of your own, load its library with "
        "--load");
  CHECK(json([](Json& j) { j["nodes"][2]["attrs"]["dim"] = "x"; }) ==
        "t: nodes[2]: attribute \"dim\" of sum can't be \"x\"");
  {
    const audit::Watch watch;
    const Tensor a = leaf(f64({1, 2, 3, 4}, {2, 2})), b = leaf(f64({5, 6, 7, 8}, {2, 2}));
    const Tensor y = matmul(a, b);
    const RecordedStep product = audit::record(watch, {y}, {{"a", a}, {"b", b}});
    const Safetensors whole = parse_safetensors(audit::trace_bytes(product, "t"), "t");
    for (const char* which : {"labels_a", "labels_b", "labels_out"}) {
      Safetensors p = whole;
      Json j = Json::parse(p.metadata.at("step"));
      j["nodes"][0]["attrs"][which][1] = 99;
      p.metadata["step"] = j.dump();
      const std::string error = error_of([&] {
        audit::run(audit::parse_trace(safetensors_bytes(p.tensors, p.metadata, "t"), "t",
                                      default_device()),
                   default_device());
      });
      CHECK_MESSAGE(error.starts_with("t: node %0: contract: "), error);
    }
  }
  CHECK(json([](Json& j) { j["nodes"][2]["attrs"]["dims"] = 0; }) ==
        "t: nodes[2]: sum has no attribute \"dims\"");
  CHECK(json([](Json& j) { j["nodes"][2]["attrs"].erase("keepdim"); }) ==
        "t: nodes[2]: sum needs the attribute \"keepdim\"");
  CHECK(json([](Json& j) { j["nodes"][2]["attrs"]["dim"] = {7}; }).find("t: node %2: sum: ") == 0);
  CHECK(json([](Json& j) { j["roots"] = Json::array(); }) == "t: step: roots: there is none");
  CHECK(json([](Json& j) { j["roots"][0] = {"leaf", 0}; }).find("t: roots[0]: expected") == 0);
  CHECK(json([](Json& j) { j["leaves"][0]["sizes"] = {4}; }) ==
        "t: leaves[0]: tensor \"leaf.w\" is f64 (3,), expected f64 (4,)");
  CHECK(json([](Json& j) {
          j["leaves"][0]["strides"] = {int64_t(1) << 60};
        }).find("t: leaves[0]: strides") == 0);
  CHECK(json([](Json& j) { j["leaves"][1]["name"] = "w"; }) ==
        "t: leaves[1]: two leaves are called \"w\"");
  CHECK(json([](Json& j) {
          j["nodes"][0]["outputs"][0]["sizes"] = {2};
        }).find("t: nodes[0]: tensor \"node.0.0\" is f64 (3,), expected f64 (2,)") == 0);
  CHECK(json([](Json& j) { j.erase("nodes"); }).find("key \"nodes\" is missing") !=
        std::string::npos);
  CHECK(with([](Json& j, Safetensors& p) {
          j["leaves"][0]["sizes"] = {2};  // the constant beside it has 3
          for (auto& [name, t] : p.tensors)
            if (name == "leaf.w" || name == "gradient.w") t = f64({1, 2}, {2});
        }).find("t: node %0: mul: ") == 0);
  CHECK(with([](Json&, Safetensors& p) { p.tensors.emplace_back("more", f64({1}, {1})); }) ==
        "t: tensor \"more\" belongs to nothing");
  CHECK(with([](Json&, Safetensors& p) { p.metadata["format"] = "gradus.trace/2"; }) ==
        "t: is no recorded step: format \"gradus.trace/2\", expected \"gradus.trace/1\"");
  Safetensors stepless = parse_safetensors(good, "t");
  stepless.metadata.erase("step");
  CHECK(error_of([&] {
          const std::string file = safetensors_bytes(stepless.tensors, stepless.metadata, "t");
          audit::parse_trace(file, "t", default_device());
        }) == "t: is damaged: its metadata lack the entry \"step\"");
  // Cut short anywhere, it is an error, and no crash.
  for (size_t n = 0; n < good.size(); n += 1 + n / 16)
    CHECK(error_of([&] {
            audit::parse_trace(std::string_view(good).substr(0, n), "t", default_device());
          }) != "");
  // One byte of the header changed: an error, or a file that still says something sound.
  const size_t header = 8 + size_t(uint8_t(good[0])) + 256 * size_t(uint8_t(good[1]));
  for (size_t at = 8; at < header; at += 7)
    for (const char c : {'9', 'x', '"'}) {
      std::string bytes = good;
      bytes[at] = c;
      error_of(
          [&] { audit::run(audit::parse_trace(bytes, "t", default_device()), default_device()); });
    }
}

TEST_CASE("trace: what is wrong with a file is the file's fault, in every command") {
  const Small s;
  const test::TempFolder folder;
  Safetensors parts = parse_safetensors(audit::trace_bytes(s.step, "t"), "t");
  const std::string step = parts.metadata.at("step");
  const auto refused = [&](const char* name, const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json j = nlohmann::json::parse(step);
    change(j);
    parts.metadata["step"] = j.dump();
    write_safetensors(folder / "bad.safetensors", parts.tensors, parts.metadata);
    for (const char* command : {"replay", "graph", "audit", "audit --explain %0"}) {
      CAPTURE(name);
      CAPTURE(command);
      const test::ProgramRun r = test::run(folder, std::string(command) + " bad.safetensors");
      CHECK(r.code == 3);
      CHECK(r.out == "");
      CHECK(r.err.find("gradus: bad.safetensors: ") == 0);
      CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
    }
  };
  folder.write("empty", "");
  folder.write("noise", std::string("\x7f\0\x01ELF\0\0\0", 9));
  folder.write("cut.safetensors", audit::trace_bytes(s.step, "t").substr(0, 4));
  for (const auto& [file, why] :
       {std::pair("empty", "is empty; expected a config (JSON), a"),
        {"noise", "is no text: byte 1 is 0"},
        {"cut.safetensors", "truncated: expected at least 8 bytes, got 4"}})
    for (const std::string command : {"graph ", "audit ", "step "}) {
      const test::ProgramRun r = test::run(folder, command + file);
      CHECK(r.code == 3);
      CHECK_MESSAGE(r.err.find(why) != std::string::npos, r.err);
    }
  refused("device", [](nlohmann::json& j) { j["device"] = "abacus"; });
  refused("no device", [](nlohmann::json& j) { j["device"] = 7; });
  // It runs, and has no gradient.
  refused("no leaf", [](nlohmann::json& j) {
    for (nlohmann::json& node : j["nodes"])
      for (nlohmann::json& input : node["inputs"])
        if (input[0] == "leaf") input = {"constant", 0};
  });
}

TEST_CASE("trace: shrunk to the smallest part that fails") {
  // A chain with a NaN in its middle, in the forward; in backward; and an infinity.
  const auto shrunk = [](const std::string& until, const std::function<Tensor(Tensor)>& f) {
    const audit::Watch watch;
    const Tensor x = leaf(f64({0.5, 1.5, 4}, {3}));
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = tanh(y) * 2.0;
    y = f(y);
    for (int i = 0; i < 10; ++i) y = tanh(y) + x;
    const RecordedStep step = audit::record(watch, {sum(y)}, {{"x", x}});
    Device& d = default_device();
    const RecordedStep small = audit::shrink(step, audit::failure_named(until, step, d), d).step;
    repeats(small);
    std::string ops;
    for (const audit::RecordedNode& n : small.nodes) ops += n.op->name + " ";
    return ops;
  };
  CHECK(shrunk("nan", [](const Tensor& y) { return log(sub(y, 5.0)); }) == "log ");
  CHECK(shrunk("nan", [](const Tensor& y) { return sqrt(relu(sub(y, 5.0))); }) == "relu sqrt ");
  CHECK(shrunk("inf", [](const Tensor& y) { return exp(y * 1000.0); }) == "exp ");
  CHECK(shrunk("nan", [](const Tensor& y) {
          const Tensor e = exp(y * 1000.0);
          return e - e * 2.0;
        }) == "exp mul sub ");
  const Small s;
  Device& d = default_device();
  CHECK(
      error_of([&] { audit::shrink(s.step, audit::failure_named("nan", s.step, d), d); }) ==
      "shrink: there is nothing to keep on cpu: no root or gradient has a NaN that a leaf or seed "
      "does not have");
  // Bits alone are no failure, and it is said.
  const std::string none = error_of(
      [&] { audit::shrink(s.step, audit::failure_named("differs:reference", s.step, d), d); });
  CHECK(none.find("on reference that are off by more than rounding explains") != std::string::npos);
  CHECK(error_of([&] { audit::failure_named("nann", s.step, d); }).find("did you mean \"nan\"?") !=
        std::string::npos);
}
