// Graphs as data: what is read from a live graph, the backward program, and the writers: text, DOT,
// JSON, SVG and the page (in a browser: test_graph_view_page.cpp). What needs Graphviz is skipped
// with a line where it is missing.
#include "ops/audit/show/graph_layout.hpp"

#include "ops/ops.hpp"
#include "tests/helpers/browser.hpp"
#include "tests/helpers/graph_views.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/sizes.hpp"
#include "tests/helpers/texts.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

using namespace gradus;
using namespace gradus::testing;
using gradus::audit::GraphView;
using gradus::audit::Source;
using gradus::test::check_has;
using gradus::test::have;
using gradus::test::TempFolder;
using Json = nlohmann::json;

namespace {

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace

TEST_CASE("graph view: nodes, operands, leaves, constants, saved bytes, paths") {
  const Small s;
  const GraphView& v = s.view;
  REQUIRE(v.nodes.size() == 4);
  CHECK(v.nodes[0].op->name == "mul");
  CHECK(v.nodes[0].path == std::vector<std::string>{"model", "layer 1"});
  CHECK(v.nodes[1].path.empty());
  CHECK(v.nodes[0].inputs[0].kind == Source::Kind::leaf);
  CHECK(v.nodes[0].inputs[1].kind == Source::Kind::constant);
  CHECK(v.nodes[1].inputs[0].kind == Source::Kind::node);
  CHECK(v.nodes[3].op->name == "sum");
  REQUIRE(v.roots.size() == 1);
  CHECK(v.roots[0].id == 3);
  REQUIRE(v.leaves.size() == 2);
  CHECK(v.leaves[0].uses == 1);
  CHECK(v.leaves[1].uses == 0);
  // mul saves x alone, since x asks for no gradient; h * h saves h once, and h is nobody else's.
  CHECK(v.nodes[0].saved_bytes == v.nodes[1].saved_bytes);
  CHECK(v.saved_bytes == v.nodes[0].saved_bytes + v.nodes[1].saved_bytes);
  int counted = 0;
  for (const audit::SavedTensor& t : v.nodes[1].saved) counted += t.counted;
  CHECK(counted == 1);
  CHECK(v.nodes[0].flops == 3);
  CHECK(v.nodes[0].forward_ns >= 0);
  // h = {4, 10, 18}; its gradient is 2 h + 1.
  const audit::Value& h = v.nodes[0].outputs[0];
  CHECK(h.stats.first == std::vector<double>{4, 10, 18});
  CHECK(h.stats.mean == doctest::Approx(32 / 3.0));
  CHECK(h.gradient.first == std::vector<double>{9, 21, 37});
  CHECK(v.leaves[0].value.gradient.first == std::vector<double>{36, 105, 222});
  CHECK(v.leaves[0].value.stats.min == 1);
  CHECK(v.leaves[0].value.stats.max == 3);
  CHECK(v.leaves[1].value.gradient.count == 0);
}

TEST_CASE("graph view: the backward program and where gradients add up") {
  const Small s;
  const GraphView& v = s.view;
  REQUIRE(v.steps.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(v.steps[i].node == int(3 - i));
    CHECK(v.nodes[3 - i].step == int(i));
  }
  CHECK(v.steps[3].saved_bytes_left == 0);
  int to_h = 0;
  for (const audit::BackwardStep& step : v.steps)
    for (const auto& d : step.deliveries)
      if (d.to.kind == Source::Kind::node && d.to.id == 0) {
        CHECK(d.nth == ++to_h);
        CHECK(d.of == 3);
      }
  CHECK(to_h == 3);
  CHECK(v.steps[3].sums == 2);
  const std::string text = to_text(v);
  check_has(text, "%0:f64[3] = mul(w, c0)");
  check_has(text, "# layer 1");
  check_has(text, "leaf unused:f64[1]   # not in the graph");
  check_has(text, "# 1: vjp of %3 sum");
  check_has(text, "   # 2 of 3\n");
  check_has(text, "   # gradients add up\n");
  check_has(text, "g:w:f64[3] = mul(g:%0, c0)");
}

TEST_CASE("graph view: reading changes nothing") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  const int64_t before = live_objects();
  {
    const Tensor y = sum(exp(x) * x);
    const GraphView v = audit::read_graph({y}, {});
    CHECK(v.leaves[0].name == "leaf0");
    CHECK(v.nodes[0].forward_ns < 0);
    CHECK_FALSE(x.grad().defined());
    backward(y);
    CHECK(error_of([&] { audit::read_graph({y}, {}); }).find("was freed") != std::string::npos);
  }
  CHECK(x.grad().defined());
  CHECK(values(x.grad())[0] == doctest::Approx(2 * std::exp(1.0)));
  CHECK(live_objects() <= before + 3);  // the gradient alone is new
  CHECK(error_of([&] { audit::read_graph({x.detach()}, {}); }).find("no history") !=
        std::string::npos);
}

TEST_CASE("graph view: what hooks packed is not counted as kept") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  const SavedTensorHooks hooks([](const Tensor& t) -> std::any { return t; },
                               [](const std::any& t) { return std::any_cast<Tensor>(t); });
  const GraphView v = audit::read_graph({sum(exp(x))}, {{"x", x}});
  REQUIRE(v.nodes[0].saved.size() == 1);
  CHECK(v.nodes[0].saved[0].packed);
  CHECK(v.nodes[0].saved[0].bytes == 16);
  CHECK(v.saved_bytes == 0);
  check_has(to_text(v), "saves y (packed): 0 B");
}

TEST_CASE("graph view: statistics") {
  const audit::TensorStats s = audit::stats_of(f64({0, 1, -1, INFINITY, NAN, 2, 2, -2}, {2, 4}));
  CHECK(s.count == 8);
  CHECK(s.zeros == 1);
  CHECK(s.nans == 1);
  CHECK(s.infs == 1);
  CHECK(s.min == -2);
  CHECK(s.max == 2);
  CHECK(s.mean == doctest::Approx(1 / 3.0));
  CHECK(s.std == doctest::Approx(std::sqrt(14.0 / 6 - 1 / 9.0)));
  CHECK(std::isnan(s.norm));
  CHECK(std::isinf(audit::stats_of(f64({1, -INFINITY}, {2})).norm));
  CHECK(std::isinf(audit::stats_of(f64({INFINITY}, {1})).norm));
  CHECK(audit::stats_of(f64({3, -4}, {2})).norm == 5);
  CHECK_FALSE(std::signbit(audit::stats_of(f64({-NAN}, {1})).first[0]));
  int64_t in_bins = 0;
  for (const int64_t n : s.histogram) in_bins += n;
  CHECK(in_bins == 6);
  CHECK(s.histogram.front() == 1);
  CHECK(s.histogram.back() == 2);
  CHECK(audit::stats_of(cast(f64({-3, 4}, {2}), DType::bf16)).max == 4);
  CHECK(audit::stats_of(Tensor::full({2}, {3, 4}, DType::c64)).max == doctest::Approx(5));
  CHECK(audit::stats_of(Tensor::zeros({0}, DType::f32)).count == 0);
}

TEST_CASE("graph view: JSON says the same") {
  const Small s;
  const Json j = Json::parse(to_json(s.view));
  CHECK(j["format"] == "gradus.graph/1");
  REQUIRE(j["nodes"].size() == 4);
  CHECK(j["nodes"][0]["op"] == "mul");
  CHECK(j["nodes"][0]["path"] == Json{"model", "layer 1"});
  CHECK(j["nodes"][0]["inputs"][0]["leaf"] == 0);
  CHECK(j["nodes"][3]["inputs"][0]["node"] == 2);
  CHECK(j["nodes"][0]["outputs"][0]["shape"] == Json{3});
  CHECK(j["nodes"][0]["outputs"][0]["gradient"]["first"] == Json{9.0, 21.0, 37.0});
  CHECK(j["ops"]["mul"]["derivatives"].size() == 2);
  // Of an op that is no statement each node has its own, with its own sizes.
  for (const Json& node : j["nodes"])
    CHECK(node.contains("derivatives") == (get_op(node["op"].get<std::string>()).statement < 0));
  CHECK(j["nodes"][3]["derivatives"] == Json{"dx = expand(reshape(g, shape=[1]), size=[3])"});
  CHECK(j["backward"]["steps"].size() == 4);
  CHECK(j["backward"]["calls"].size() == s.view.backward_calls.size());
  CHECK(j["saved_bytes"] == s.view.saved_bytes);
  CHECK(j["leaves"][1]["name"] == "unused");
  // A NaN is no number of JSON.
  const Tensor x = leaf(f64({-1}, {1}));
  audit::GraphRecorder recorder(default_device(), true);
  const Json n = Json::parse(to_json(audit::read_graph({sum(log(x))}, {{"x", x}}, &recorder)));
  CHECK(n["nodes"][0]["outputs"][0]["value"]["nan"] == 1);
  CHECK(n["nodes"][0]["outputs"][0]["value"]["first"][0] == "nan");
  // How values lie in memory, where not row by row, and how often what was saved had been written.
  const Tensor wide = leaf(f64({1, 2, 3, 4, 5, 6}, {2, 3})), c = f64({1, 2, 3, 4, 5, 6}, {3, 2});
  add_(c, 1.0);
  const Tensor turned = permute(wide, {1, 0});
  const Json m =
      Json::parse(to_json(audit::read_graph({sum(mul(turned, c))}, {{"wide", wide}}, &recorder)));
  CHECK(m["nodes"][0]["outputs"][0]["strides"] == Json{1, 3});
  CHECK_FALSE(m["nodes"][1]["outputs"][0].contains("strides"));
  CHECK_FALSE(m["leaves"][0].contains("strides"));
  CHECK(m["nodes"][1]["saved"][0]["what"] == "b");
  CHECK(m["nodes"][1]["saved"][0]["version"] == 1);
}

TEST_CASE("graph view: DOT is what Graphviz reads") {
  const std::string dot = to_dot(Small().view);
  check_has(dot, "label=\"layer 1\"");
  check_has(dot, "leaf0 -> n0");
  if (!have("dot")) return;
  const TempFolder folder;
  const std::string file = folder.write("g.dot", dot);
  CHECK(std::system(("dot -Tplain '" + file + "' > '" + (folder / "plain") + "'").c_str()) == 0);
  check_has(gradus::test::slurp(folder / "plain"), "node n0 ");
}

TEST_CASE("graph view: the layout keeps boxes apart, edges down, and is the same again") {
  const GraphView v = chain(300);
  const audit::Layout layout = audit::lay_out(v);
  std::set<int> seen;
  for (const audit::Group& g : layout.groups) {
    for (const audit::Box& a : g.boxes) {
      CHECK(a.x >= 0);
      CHECK(a.x + a.width <= g.width + 1e-6);
      CHECK(a.y + a.height <= g.height + 1e-6);
      if (a.what.kind == Source::Kind::node) CHECK(seen.insert(a.what.id).second);
      for (const audit::Box& b : g.boxes)
        if (&a != &b) {
          const bool apart = a.x + a.width <= b.x || b.x + b.width <= a.x ||
                             a.y + a.height <= b.y || b.y + b.height <= a.y;
          CHECK(apart);
        }
    }
    for (const audit::Wire& w : g.wires) CHECK(g.boxes[size_t(w.from)].y < g.boxes[size_t(w.to)].y);
    for (const audit::Passage& p : g.in) CHECK(p.node < g.first);
  }
  CHECK(seen.size() == v.nodes.size());
  CHECK(layout.groups.size() > 4);
  CHECK(to_svg(v) == to_svg(v));
}

TEST_CASE("graph view: the page stands alone") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  audit::GraphRecorder recorder(default_device(), true);
  const Tensor y = [&] {
    const Trace trace("</script><b>\"layer\"<!-- <script>");
    return sum(sigmoid(x));
  }();
  GraphView v = audit::read_graph({y}, {{"x", x}}, &recorder);
  v.title = "<step>";
  const std::string page = to_html(v), svg = to_svg(v);
  check_has(page, "<title>&lt;step&gt;</title>");
  check_has(page, "class=\"nojs\"");
  check_has(page, "&lt;/script&gt;&lt;b&gt;");  // the name of the layer, in the picture
  check_has(page, "<td>sigmoid<td>f64[2]");
  CHECK(page.find("http://") == page.find("http://www.w3.org/2000/svg"));
  CHECK(page.find("https://") == std::string::npos);
  CHECK(page.find("src=") == std::string::npos);
  const size_t begin = page.find("id=\"data\">") + 10, end = page.find('<', begin);
  CHECK(page.compare(end, 9, "</script>") == 0);
  const Json j = Json::parse(page.substr(begin, end - begin));
  CHECK(j["nodes"][0]["path"][0] == "</script><b>\"layer\"<!-- <script>");
  CHECK(j["layout"]["groups"].size() == 1);
  CHECK(j["layout"]["groups"][0]["boxes"].size() == 3);
  if (have("xmllint")) {
    const TempFolder folder;
    const std::string file = folder.write("g.svg", svg);
    CHECK(std::system(("xmllint --noout '" + file + "'").c_str()) == 0);
  }
}

TEST_CASE("graph view: backward of a leaf itself, and names that wires cross") {
  const Tensor x = leaf(f64({3}, {1})), unused = leaf(f64({1}, {1}));
  audit::GraphRecorder recorder(default_device(), true);
  const GraphView v = audit::read_graph({x}, {{"x", x}, {"unused", unused}}, &recorder);
  const std::string text = to_text(v), svg = to_svg(v);
  check_has(text, ": 0 nodes, 2 leaves, ");
  check_has(text, "leaf x:f64[1]\n");
  check_has(text, "leaf unused:f64[1]   # not in the graph");
  check_has(svg, ">x</text>");
  CHECK(svg.find("=\"-") == svg.find("=\"-10 -10 "));  // no negative height
  check_has(to_text(audit::read_graph({sin(x)}, {{"x", x}})), ": 1 node, 1 leaf, ");

  const std::string small = to_svg(Small().view);
  check_has(small, "@media screen and (prefers-color-scheme:dark)");
  CHECK(small.rfind("class=\"wire\"") < small.find(">layer 1</text>"));
  CHECK(audit::bytes_text(81.625 * 1024) == "81.63 KiB");  // as JavaScript rounds
  CHECK(audit::bytes_text(1024) == "1 KiB");
}

TEST_CASE("graph view: thousands of nodes are written in seconds") {
  const int n = gradus::test::small_sizes() ? 500 : 5000;
  const auto begin = std::chrono::steady_clock::now();
  const GraphView v = chain(n);
  CHECK(int(v.nodes.size()) == n + 1);
  CHECK(int(v.steps.size()) == n + 1);
  CHECK(Json::parse(to_json(v))["nodes"].size() == v.nodes.size());
  check_has(to_text(v), "return %");
  CHECK(to_dot(v).size() > size_t(n));
  CHECK(to_html(v).size() < size_t(3000) * size_t(n) + 100000);
  CHECK(seconds_since(begin) < 10);
}

TEST_CASE("graph view: the command") {
  const TempFolder folder;
  folder.write("net.json", R"({"experiment": "network", "data": {"name": "digits", "train": 50,
    "test": 10}, "model": {"layers": [{"linear": 8}, "relu", {"residual": [{"linear": 8}]},
    {"linear": 10}]}, "batch_size": 10})");
  folder.write("chain.json", R"({"experiment": "contraction", "expression": "ab,bc,cd->ad",
    "sizes": {"a": 2, "b": 3, "c": 4, "d": 5}})");
  const auto graph = gradus::test::run(folder, "graph net.json");
  CHECK(graph.code == 0);
  check_has(graph.out, "# layers[2].residual[0] linear\n");
  check_has(graph.out, "\n# loss\n");
  check_has(graph.out, "g:layers.0.weight:f32[8,784]");
  const auto both = gradus::test::run(folder,
                                      "graph chain.json --json - --dot chain.dot --svg "
                                      "chain.svg --html chain.html");
  CHECK(both.code == 0);
  const Json j = Json::parse(both.out);
  CHECK(j["leaves"].size() == 3);
  CHECK(j["leaves"][2]["name"] == "operand2");
  check_has(gradus::test::slurp(folder / "chain.dot"), "digraph");
  check_has(gradus::test::slurp(folder / "chain.svg"), "operand2");
  check_has(gradus::test::slurp(folder / "chain.html"), "chain.json</title>");
  CHECK(gradus::test::run(folder, "graph chain.json --set seed=2").code == 2);
  CHECK(gradus::test::run(folder, "graph none.json").code == 3);
}
