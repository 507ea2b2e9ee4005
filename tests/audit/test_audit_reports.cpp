// What the audit says of memory and time: why tensors are saved, what lives when, what a checkpoint
// saves, costs against peaks; `gradus audit --ledger --cost --html`.
#include "ops/audit/judge/cost.hpp"
#include "ops/audit/step/memory_ledger.hpp"
#include "ops/base/checkpoint.hpp"
#include "ops/transforms/func.hpp"
#include "ops/ops.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

using namespace gradus;
using namespace gradus::testing;
using namespace gradus::audit;
using gradus::test::run;
using gradus::test::TempFolder;
using Json = nlohmann::json;

namespace {

// An op that saves its operand and never asks for it. It stands in no list of ops.
const OpInfo& wasteful_op() {
  static const OpInfo op = [] {
    OpInfo o;
    o.name = "wasteful";
    o.operands = {{"x"}};
    o.forward = [](OpContext& ctx) {
      ctx.save_input(0);
      ctx.outputs.push_back(ctx.inputs[0].detach());
    };
    o.vjp = [](GradFn&, size_t, std::span<const Tensor> g) { return g[0]; };
    return o;
  }();
  return op;
}

std::string why(const GraphView& v, size_t node, size_t saved) {
  return reason_of(v.nodes[node], v.nodes[node].saved[saved], holders_of(v));
}

Tensor layers(const Tensor& x, bool checkpointed) {
  const func::Function block = [](const Tensors& in) { return Tensors{exp(sin(tanh(in[0])))}; };
  const Tensor h = mul(x, 2.0);
  const Trace trace("block");
  return checkpointed ? checkpoint(block, {h})[0] : block({h})[0];
}

size_t between(const MemoryProfile& m) {
  size_t sum = 0;
  for (const MemoryOfOp& o : m.ops) sum += o.between;
  return sum;
}

std::vector<Json> events(const std::string& lines) {
  std::vector<Json> list;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) list.push_back(Json::parse(line));
  return list;
}

size_t count(const std::vector<Json>& list, const std::string& event) {
  size_t n = 0;
  for (const Json& e : list) n += e["event"] == event;
  return n;
}

}  // namespace

TEST_CASE("audit: why a tensor is saved, and by whose vjp it is read") {
  const Tensor a = leaf(f64({1, 2}, {2})), b = leaf(f64({3, 4}, {2}));
  GraphRecorder recorder(default_device(), false);
  const Tensor y = exp(mul(a, b));  // %0 mul, %1 exp
  const Tensor z = mul(y, y);       // %2
  const Tensor loss = sum(apply1(wasteful_op(), {z}));
  const std::vector<bool> before{a.grad().defined(), loss.grad_fn()->freed()};
  const GraphView v = read_graph({loss}, {{"a", a}, {"b", b}}, &recorder);
  REQUIRE(v.nodes.size() == 5);
  REQUIRE(v.nodes[0].saved.size() == 2);
  for (const SavedTensor& s : v.nodes[0].saved)
    CHECK(s.read_by == std::vector<int>{s.what == "a" ? 1 : 0});
  CHECK(why(v, 0, 0).starts_with("for the vjp of "));
  CHECK(why(v, 0, 0).ends_with("; a leaf's memory"));
  CHECK(why(v, 1, 0) == "for the vjp of x");
  CHECK(v.nodes[2].saved[0].read_by.size() > 0);
  CHECK(why(v, 2, 0).ends_with("; memory that %1 holds"));
  CHECK(why(v, 3, 0) == "no vjp reads it: it need not be saved");
  CHECK(!v.nodes[3].saved[0].read);
  CHECK(v.nodes[1].saved_bytes == 16);
  CHECK(v.saved_bytes == 32);  // y, z; a and b are leaves
  // Asking has left nothing behind.
  CHECK(before == std::vector<bool>{a.grad().defined(), loss.grad_fn()->freed()});
  const auto readers = readers_of_saved(*z.grad_fn());
  CHECK(readers[0] == v.nodes[2].saved[0].read_by);
}

TEST_CASE("audit: who asks is noted beside what was read before, not over it") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor y = exp(x);
  CHECK(!y.grad_fn()->saved()[0].read);
  CHECK(readers_of_saved(*y.grad_fn())[0] == std::vector<int>{0});
  CHECK(!y.grad_fn()->saved()[0].read);
  backward(sum(y), {.retain_graph = true});
  CHECK(readers_of_saved(*y.grad_fn())[0] == std::vector<int>{0});
  CHECK(y.grad_fn()->saved()[0].read);
}

TEST_CASE("audit: memory over time, by call and by op") {
  const Tensor x = leaf(Tensor::full({1000}, 0.5, DType::f32));
  std::optional<MemoryRecorder> recorder(std::in_place, default_device());
  MemoryProfile m;
  {
    const Tensor loss = [&] {
      const Tensor y = exp(x);
      const NoGrad off;
      cos(y);
      const EnableGrad on;
      return sum(mul(y, y));
    }();
    m = recorder->run_backward({loss});
  }
  recorder.reset();
  REQUIRE(m.moments.size() == 8);
  const char* ops[] = {"exp", "cos", "mul", "sum", "seed", "sum", "mul", "exp"};
  const int nodes[] = {0, -1, 1, 2, -1, 2, 1, 0};
  for (size_t i = 0; i < 8; ++i) {
    CHECK(m.moments[i].op == ops[i]);
    CHECK(m.moments[i].node == nodes[i]);
    CHECK(m.moments[i].backward == (i > 3));
    CHECK(m.moments[i].peak >= m.moments[i].live);
  }
  CHECK(m.moments[0].live == 4000);
  CHECK(m.moments[1].live == 8000);  // cos(y) dies after its call
  CHECK(m.moments[2].live == 8000);
  CHECK(m.moments[3].live == 8004);
  CHECK(between(m) == 4004);         // y, which mul and exp saved, and the loss
  CHECK(m.moments[7].live == 4004);  // x's gradient, and the loss
  const MemoryMoment* peak = peak_of(m);
  REQUIRE(peak);
  size_t at_peak = 0, forward = 0;
  for (const MemoryOfOp& o : m.ops) {
    at_peak += o.at_peak;
    forward += o.forward;
  }
  CHECK(at_peak == peak->peak);
  CHECK(forward == 12004);
  CHECK(observer == nullptr);
}

TEST_CASE("audit: a checkpoint saves what was said") {
  size_t kept[2];
  for (const bool checkpointed : {false, true}) {
    const Tensor x = leaf(Tensor::full({64, 64}, 0.5, DType::f64));
    MemoryRecorder recorder(default_device());
    const Tensor loss = sum(layers(x, checkpointed));
    kept[checkpointed] = between(recorder.run_backward({loss}));
  }
  const Tensor x = leaf(Tensor::full({64, 64}, 0.5, DType::f64));
  GraphRecorder recorder(default_device(), false);
  const std::vector<CheckpointSaving> savings =
      checkpoint_savings(read_graph({sum(layers(x, false))}, {{"x", x}}, &recorder));
  REQUIRE(savings.size() == 1);
  CHECK(savings[0].module == "block");
  CHECK(savings[0].first == 1);
  CHECK(savings[0].last == 4);
  CHECK(savings[0].flops > 0);
  CHECK(savings[0].bytes == 64 * 64 * 8);  // two tensors are not kept, its operand is
  CHECK(kept[0] - kept[1] == savings[0].bytes);
}

TEST_CASE("audit: costs against peaks") {
  MachinePeaks peaks;
  peaks.flops = 4e9;
  peaks.bytes = 1e9;
  const PassCost compute{2e9, 1e8, 1e9}, memory{1e6, 5e8, 2e9}, unknown{-1, -1, 5};
  CHECK(compute.of_peak(peaks) == doctest::Approx(0.5));
  CHECK(compute.bound(peaks) == std::string("compute"));
  CHECK(compute.intensity() == doctest::Approx(20));
  CHECK(memory.of_peak(peaks) == doctest::Approx(0.25));
  CHECK(memory.bound(peaks) == std::string("memory"));
  CHECK(unknown.of_peak(peaks) == -1);
  CHECK(unknown.intensity() == -1);
  CHECK(unknown.bound(peaks) == std::string(""));

  const Tensor x = leaf(Tensor::full({8, 8}, 0.1, DType::f32));
  GraphRecorder recorder(default_device(), false);
  GraphView v = read_graph({sum(matmul(tanh(matmul(x, x)), x))}, {{"x", x}}, &recorder);
  REQUIRE(v.nodes.size() == 4);
  CHECK(v.nodes[0].flops == 2 * 8 * 8 * 8);
  CHECK(v.nodes[0].bytes == 3 * 8 * 8 * 4);
  const Tensor z = leaf(Tensor::full({8, 8}, {0.1, 1}, DType::c64));
  CHECK(read_graph({matmul(z, z)}, {{"z", z}}, &recorder).nodes[0].flops == 8 * 8 * 8 * 8);
  CHECK(v.nodes[0].backward_flops >= 2 * v.nodes[0].flops);
  CHECK(v.nodes[1].backward_bytes > 0);
  for (Node& n : v.nodes) n.forward_ns = n.backward_ns = 10;
  v.nodes[3].forward_ns = 50;
  std::vector<int> order;
  for (const CostLine& l : cost_of_nodes(v)) order.push_back(l.node);
  CHECK(order == std::vector<int>{3, 0, 1, 2});  // equal ones by age
  const std::vector<CostLine> ops = cost_of_ops(v);
  REQUIRE(ops.size() == 3);
  CHECK(ops[0].op == "sum");
  CHECK(ops[1].op == "contract");
  CHECK(ops[1].count == 2);
  CHECK(ops[1].ns() == 40);
  CHECK(ops[1].forward.flops == 2 * v.nodes[0].flops);

  // Calls that nobody records cost nobody, and a user's op costs what the ops in it do.
  static const OpInfo own = [] {
    OpInfo op;
    op.name = "own_square";
    op.operands = {{"a"}};
    op.user = true;
    op.forward = [](OpContext& ctx) { ctx.outputs.push_back(mul(ctx.inputs[0], ctx.inputs[0])); };
    op.vjp = [](GradFn&, size_t, std::span<const Tensor> g) { return mul(g[0], 2.0); };
    return op;
  }();
  GraphRecorder mixed(default_device(), false);
  exp(Tensor::full({1000}, 0.1, DType::f32));
  const Tensor three = leaf(Tensor::full({3}, 0.1, DType::f32));
  const GraphView m = read_graph({sum(apply1(own, {exp(three)}))}, {{"x", three}}, &mixed);
  REQUIRE(m.nodes.size() == 3);
  CHECK(m.nodes[0].bytes == 2 * 3 * 4);
  CHECK(m.nodes[1].bytes == 3 * 3 * 4);
  CHECK(m.nodes[1].backward_bytes > 0);

  const MachinePeaks here = measure_peaks(default_device(), DType::i64);
  CHECK(here.dtype == DType::f32);
  CHECK(here.flops > 0);
  CHECK(here.bytes > 0);
  CHECK(here.matrix >= 64);
}

TEST_CASE("audit: the command's reports, and its page") {
  const TempFolder folder;
  const auto config = [&](const char* name, const std::string& layers) {
    folder.write(name, R"({"experiment": "network", "data": {"name": "digits", "train": 32,
      "test": 10}, "model": {"layers": [)" +
                           layers + R"(]}, "batch_size": 16, "epochs": 1})");
  };
  config("net.json", R"({"linear": 8}, "tanh", {"linear": 10})");
  const auto both = run(folder, "audit net.json --ledger --cost --json");
  CHECK(both.code == 0);
  CHECK(both.err == "");
  const std::vector<Json> list = events(both.out);
  CHECK(count(list, "node") == 0);
  CHECK(count(list, "saved") > 3);
  CHECK(count(list, "memory") > count(list, "cost"));
  CHECK(count(list, "cost") > 6);
  CHECK(count(list, "cost_of_op") > 3);
  size_t sum = 0;
  double last = 1e300;
  for (const Json& e : list) {
    if (e["event"] == "saved" && e["counted"] == true) sum += e["bytes"].get<size_t>();
    if (e["event"] == "ledger") {
      CHECK(e["saved_bytes"] == sum);
      CHECK(e["peak_bytes"] > 0);
    }
    if (e["event"] == "peaks") CHECK(e["bytes_per_second"] > 0);
    if (e["event"] != "cost") continue;
    const double ns = e["forward"]["ns"].get<double>() + e["backward"]["ns"].get<double>();
    CHECK(ns <= last);
    last = ns;
  }
  const auto text = run(folder, "audit net.json --ledger");
  CHECK(text.out.find("saved for backward by") != std::string::npos);
  CHECK(text.out.find("for the vjp of x") != std::string::npos);
  CHECK(text.out.find("at the peak, in ") != std::string::npos);
  CHECK(text.out.find("no wrong derivative") == std::string::npos);
  CHECK(run(folder, "audit net.json --cost").out.find("matrices, ") != std::string::npos);

  // A step that fails its audit is written, and says so by its exit code.
  config("nan.json", R"({"linear": 8}, "log", {"linear": 10})");
  const auto page = run(folder, "audit nan.json --html nan.html --fail-on nan");
  CHECK(page.code == 5);
  CHECK(page.out.find("\nNaN: log gives nan") != std::string::npos);
  const std::string html = gradus::test::slurp(folder / "nan.html");
  CHECK(html.find("log gives nan in element") != std::string::npos);
  const size_t begin = html.find("id=\"data\">") + 10;
  const Json data = Json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  CHECK(data["nodes"][0].contains("verdict"));
  CHECK(data["memory"]["moments"].size() > data["nodes"].size());
  CHECK(data["findings"][0]["kind"] == "birth");
  CHECK(data["nodes"][data["findings"][0]["node"].get<size_t>()]["op"] == "log");
  CHECK(data["peaks"]["flops"] > 0);
  CHECK(html.size() < (1u << 20) + (html.find("</script>", begin) - begin));
  CHECK(run(folder, "audit net.json --html none/x.html").code == 3);

  folder.write("product.json", R"({"experiment": "contraction", "expression": "ij,jk,kl->il",
    "sizes": {"i": 3, "j": 4, "k": 5, "l": 2}})");
  CHECK(run(folder, "audit product.json --ledger --cost").code == 0);
  CHECK(run(folder, "audit none.json --ledger").code == 3);
}

TEST_CASE("audit: a node of linear algebra says which gap or condition its derivative meets") {
  const TempFolder folder;
  folder.write(
      "step.lua",
      R"(local function f64(x) return gradus.tensor(x, {dtype = "f64"}):requires_grad_() end
local w, v = gradus.eigh(f64{{2, 0, 0}, {0, 2.25, 0}, {0, 0, 5}})
local x = gradus.solve(f64{{8, 0}, {0, 2}}, f64{1, 2})
gradus.audit.mark((v * v * v):sum() + x:sum())
)");
  const auto all = run(folder, "audit step.lua --json");
  CHECK(all.code == 0);
  std::map<std::string, std::string> remarks;
  std::istringstream lines(all.out);
  for (std::string line; std::getline(lines, line);)
    if (const Json event = Json::parse(line); event["event"] == "node")
      remarks[event["op"]] = event["remark"];
  CHECK(remarks["eigh"] ==
        "values 0 and 1 (2 and 2.25) are nearest: derivatives of vectors divide "
        "by the gap 0.25, of values alone by nothing");
  CHECK(remarks["linear_solve"] ==
        "the condition of A is 4 (largest by smallest singular value): "
        "derivatives may lose as much");
  CHECK(remarks["mul"] == "");
  CHECK(run(folder, "audit step.lua").out.find("the gap 0.25") != std::string::npos);
}
