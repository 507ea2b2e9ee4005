// The page of a graph in headless Chromium; skipped with a line where that is missing.
#include "ops/audit/step/graph_view.hpp"

#include "ops/ops.hpp"
#include "tests/helpers/browser.hpp"
#include "tests/helpers/graph_views.hpp"
#include "tests/helpers/sizes.hpp"
#include "tests/helpers/texts.hpp"

#include <nlohmann/json.hpp>

using namespace gradus;
using namespace gradus::testing;
using gradus::audit::GraphView;
using gradus::test::browse;
using gradus::test::check_has;
using gradus::test::have;
using gradus::test::TempFolder;
using Json = nlohmann::json;

TEST_CASE("graph view: the page in a browser: search, click, play, keys, folding") {
  if (!have("chromium")) return;
  const TempFolder folder;
  const Json r = browse(folder, to_html(Small().view), R"js(
    R.linked = $$("#panel h2")[0].textContent;
    R.boxes = $$(".box:not(.vjp)").length; R.vjps = $$(".box.vjp").length;
    set("find", "mul"); R.hits = $("hits").textContent;
    R.found = $$(".box.found:not(.vjp)").length;
    set("find", "layer 1"); R.byModule = $("hits").textContent;
    set("find", "");
    $$(".box.node")[0].dispatchEvent(new MouseEvent("click"));
    R.panel = $("panel").textContent; R.hash = location.hash;
    R.path = $$(".box.path:not(.vjp)").length;
    set("slider", 2); R.done = $$(".box.done:not(.vjp)").length; R.now = $("now").textContent;
    press("ArrowRight"); R.after = $$(".box.done:not(.vjp)").length;
    R.back = $$(".wire.back:not(.rising)").length; R.risen = $$(".wire.back.rising").length;
    press("j"); R.next = $$("#panel h2")[0].textContent;
    R.bars = $$("#panel .bars rect").length;
    $("colour").value = "saved bytes"; $("colour").onchange();
    R.shaded = $$(".box.dark:not(.vjp), .box.light:not(.vjp)").length;
    press("f"); R.folded = $$(".box").length;
    press("f"); R.open = $$(".box:not(.vjp)").length;
    press("b"); R.alone = $$(".box").length; press("b");
    unpackTables();
    R.rows = $$("#nodes tbody tr").length; R.noscript = document.body.className;)js");
  CHECK(r["linked"] == "%1 mul");
  CHECK(r["boxes"] == 6);  // four nodes, w, c0
  CHECK(r["vjps"] == 5);   // of the nodes, and w's gradient
  CHECK(r["alone"] == 6);
  CHECK(r["hits"] == "2 found");
  CHECK(r["found"] == 2);
  CHECK(r["byModule"] == "1 found");
  check_has(r["panel"], "%0 mul");
  check_has(r["panel"], "model › layer 1");
  check_has(r["panel"], "dy/d");
  CHECK(r["hash"] == "#n=0");
  CHECK(r["path"] == 4);
  CHECK(r["done"] == 2);
  check_has(r["now"], "step 2 of 4: vjp of %2 add");
  CHECK(r["after"] == 3);
  CHECK(r["back"] == 1);
  CHECK(r["risen"] == 1);
  CHECK(r["next"] == "%1 mul");
  CHECK(r["bars"].get<int>() > 2);
  CHECK(r["shaded"] == 2);
  CHECK(r["folded"] == 0);
  CHECK(r["open"] == 6);
  CHECK(r["rows"] == 4);
  CHECK(r["noscript"] == "");
  // Thousands of nodes: folded at first, a node is found in its group, and all of it is quick.
  const int n = gradus::test::small_sizes() ? 500 : 5000;
  const std::string page = to_html(chain(n));
  const auto opened = [&] {
    return browse(folder, page, R"js(
    R.boxes = $$(".box:not(.vjp)").length;
    set("find", "%321 tanh"); R.hits = $("hits").textContent;
    R.open = $$(".box:not(.vjp)").length;
    set("slider", 100); R.done = $$(".box.done:not(.vjp)").length;
    R.all = performance.now();)js");
  };
  Json big = opened();
  // Other programs' work only adds to the time: the least of three is the page's own.
  for (int again = 0; again < 2 && big["ms"].get<double>() >= 3000; ++again) big = opened();
  CHECK(big["hits"] == "1 found");
  CHECK(big["open"].get<int>() > big["boxes"].get<int>());
  CHECK(big["open"].get<int>() < 200);
  CHECK(big["ms"].get<double>() < 3000);
  MESSAGE(n, " nodes: open after ", big["ms"].get<double>(), " ms, all done after ",
          big["all"].get<double>(), " ms");
}

TEST_CASE("graph view: the page in a browser: what is seen at first, and where the steps are") {
  if (!have("chromium")) return;
  const TempFolder folder;
  Tensor w = leaf(f64({1, 2, 3, 4}, {4}));
  audit::GraphRecorder recorder(default_device(), true);
  Tensor x = w;
  for (int i = 0; i < 6; ++i) {
    const Trace trace("block " + std::to_string(i) + " <!-- <script>");
    x = sin(tanh(x * w));
  }
  GraphView v = audit::read_graph({sum(x)}, {{"layers.1.weight", w}}, &recorder);
  for (audit::Node& n : v.nodes) n.verdict = {"ok", false, 1e-9, 1e-6, ""};
  v.nodes[4].verdict = {"differences", true, 0.5, 1e-6, ""};
  const Json r = browse(folder, to_html(v), R"js(
    const place = e => e.getBoundingClientRect(), stage = place(svg);
    const inside = e => { const b = place(e); return b.top >= stage.top && b.bottom <= stage.bottom; };
    const box = (id, lane) => $$(`.box.node${lane}[data-key=n${id}]`)[0];
    R.path = getComputedStyle($$(".box.path:not(.vjp) .body")[0]).stroke;
    R.wrong = KINDS.verdict.colours.wrong;
    press("Escape"); press("1");
    R.scale = view.k; R.first = inside(box(0, ":not(.vjp)")); R.last = inside(box(18, ".vjp"));
    press("ArrowRight"); R.step = inside(box(18, ".vjp")); R.same = view.k;
    const at = view.y;
    press("ArrowRight"); R.still = view.y === at && inside(box(17, ".vjp"));
    for (let i = 2; i < steps.length; ++i) press("ArrowRight");
    R.end = inside(box(0, ".vjp"));
    press("0");
    const all = place(root);
    R.whole = all.top >= stage.top && all.bottom <= stage.bottom && all.left >= stage.left && all.right <= stage.right;
    R.cut = $$(".box.leaf text").filter(t => t.textContent.includes("…")).length;
    press("1");
    const badge = place($$(".box .bad circle")[0]), letters = place(box(4, ":not(.vjp)").querySelector("text"));
    R.over = badge.right > letters.left + 0.5 && badge.bottom > letters.top;
    const layers = [...root.children], layer = e => layers.findIndex(l => l.contains(e));
    R.above = wires.every(w => layer(w.e) < layer($$(".head text")[0]));
    R.formula = $("panel").innerHTML.includes("formula");
    G.ops.sin.formula = ""; select("node", 2); R.none = $("panel").innerHTML.includes("formula");
    select("node", 5); goTo(3);
    const seen = []; R.pending = true;
    new MutationObserver(list => { R.touched = new Set(list.map(m => m.target)).size; report(); })
        .observe(svg, { subtree: true, attributes: true, attributeFilter: ["class"] });
    goTo(4);)js");
  CHECK(r["path"] == "rgb(204, 121, 167)");
  CHECK(r["wrong"] == "#d55e00");
  CHECK(r["scale"].get<double>() >= 0.9);
  CHECK(r["first"] == true);
  CHECK(r["last"] == false);
  CHECK(r["step"] == true);
  CHECK(r["same"] == r["scale"]);
  CHECK(r["still"] == true);
  CHECK(r["end"] == true);
  CHECK(r["whole"] == true);
  CHECK(r["cut"] == 0);
  CHECK(r["over"] == false);
  CHECK(r["above"] == true);
  CHECK(r["formula"] == true);
  CHECK(r["none"] == false);
  // Two nodes in two lanes, what they gave to, and wires.
  CHECK(r["touched"].get<int>() > 3);
  CHECK(r["touched"].get<int>() < 25);
}

TEST_CASE(
    "graph view: the page in a browser: it opens in the middle, with nothing cut off beside") {
  if (!have("chromium")) return;
  const TempFolder folder;
  // Two lanes stand beside each other where there is room; else forward comes alone.
  const Json r = browse(folder, to_html(Small().view), R"js(
    const place = e => e.getBoundingClientRect();
    R.seen = [900, 280].map(wide => {
      $("stage").style.width = wide + "px";
      lane = true; draw(); opening();
      const stage = place(svg), all = place(root);
      return { left: all.left - stage.left, right: stage.right - all.right, scale: view.k,
        lanes: $$(".box.vjp").length > 0, pressed: $("lane").getAttribute("aria-pressed") };
    });)js");
  for (size_t i = 0; i < 2; ++i) {
    const Json seen = r["seen"][i];
    CAPTURE(seen.dump());
    CHECK(seen["left"].get<double>() >= 0);
    CHECK(seen["right"].get<double>() >= 0);
    CHECK(std::abs(seen["left"].get<double>() - seen["right"].get<double>()) < 4);
    CHECK(seen["scale"].get<double>() >= 0.7);
    CHECK(seen["lanes"] == (i == 0));
    CHECK(seen["pressed"] == std::string(i == 0 ? "true" : "false"));
  }
}

TEST_CASE("graph view: the page in a browser: without scripts") {
  if (!have("chromium")) return;
  const TempFolder folder;
  const std::string page = to_html(Small().view);
  std::string quoted = Json(page).dump();
  for (size_t at = 0; (at = quoted.find('<', at)) != std::string::npos; at += 6)
    quoted.replace(at, 1, "\\u003c");
  const Json r = browse(folder, page, "const page = " + quoted + R"js(;
    R.pending = true;
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-same-origin";
    frame.srcdoc = page;
    frame.onload = () => {
      const all = q => frame.contentDocument.querySelectorAll(q).length;
      R.rows = all("#nodes tbody tr"); R.drawn = all("#stage svg"); R.off = all("body.nojs");
      report();
    };
    document.body.append(frame);)js");
  CHECK(r["rows"] == 4);
  CHECK(r["drawn"] == 1);
  CHECK(r["off"] == 1);
}

TEST_CASE("graph view: the page in a browser: a graph of no op") {
  if (!have("chromium")) return;
  const TempFolder folder;
  const Tensor x = leaf(f64({3}, {1}));
  const Json r = browse(folder, to_html(audit::read_graph({x}, {{"x", x}})), R"js(
    R.errors = 0; addEventListener("error", () => ++R.errors);
    for (const key of ["j", "k", "ArrowRight", "f", "f", "t", "b", "b", "0", "1", "+"]) press(key);
    R.boxes = $$(".box").length; R.summary = $$("header span")[0].textContent;
    $$(".box")[0].dispatchEvent(new MouseEvent("click")); R.panel = $("panel").textContent;
    R.finite = !/NaN|Infinity/.test(svg.outerHTML + $("memory").outerHTML + picture().text);)js");
  CHECK(r["errors"] == 0);
  CHECK(r["boxes"] == 2);
  CHECK(r["summary"] == "0 nodes, 1 leaf, 0 B saved, on cpu");
  check_has(r["panel"], "backward begins with");
  CHECK(r["finite"] == true);
}

TEST_CASE("graph view: the page in a browser: verdicts, lanes, repeats, trivial ops, comparison") {
  if (!have("chromium")) return;
  const TempFolder folder;
  Tensor w = leaf(f64({1, 2, 3, 4}, {4}));
  audit::GraphRecorder recorder(default_device(), true);
  Tensor x = w;
  for (int i = 0; i < 3; ++i) {
    const Trace trace("block " + std::to_string(i));
    x = reshape(tanh(reshape(sin(x), {2, 2})), {4});
  }
  GraphView v = audit::read_graph({sum(x)}, {{"w", w}}, &recorder);
  REQUIRE(v.nodes.size() == 13);
  for (audit::Node& n : v.nodes) n.verdict = {"ok", false, 1e-9, 1e-6, ""};
  v.nodes[5].verdict = {"kink", false, 0, 1, "no slope"};
  v.nodes[6].verdict = {"differences", true, 0.5, 1e-6, "element (0, 1): vjp 1, differences 2"};
  v.sources["block 1"] = "  7  local a = 1\n> 8  if a < b then\n  9  end\n";
  v.findings = {{"unreached", -1, "bias: no op reads it"}};
  v.memory = audit::MemoryProfile{64, {{false, 0, "sin", 32, 32}, {true, 0, "sin", 96, 48}}, {}};
  const Json r = browse(folder, to_html(v), R"js(
    const paper = i => $$(`.box.node:not(.vjp)[data-key=n${i}] rect`)[0].style.fill;
    R.colour = $("colour").value; R.legend = $("legend").textContent;
    R.papers = new Set([paper(4), paper(5), paper(6)]).size;
    R.crosses = $$("#stage .bad").length;
    R.findings = $$("#findings li").map(e => e.textContent); R.open = $$("details")[0].open;
    R.moment = $("moment").textContent;
    $$(".box.vjp[data-key=n6]")[0].dispatchEvent(new MouseEvent("click"));
    R.panel = $("panel").textContent; R.linked = $$(".box.on").length;
    R.source = $$("#panel .source b").map(e => e.textContent);
    const nodesDrawn = () => $$(".box.node:not(.vjp)").length;
    R.boxes = nodesDrawn();
    press("t"); R.plain = nodesDrawn();
    R.straight = wires.some(w => !w.back && w.from === "n4" && w.to === "n6");
    press("t");
    R.repeats = $$(".repeat").map(e => e.querySelector("text").textContent);
    $$(".repeat")[0].dispatchEvent(new MouseEvent("click")); R.once = nodesDrawn();
    set("find", "%9 "); R.shown = nodesDrawn(); set("find", "");
    press("f"); R.warned = $$(".group .bad").length; press("f");
    const names = () => $$("#ops tbody tr").map(e => e.cells[0].textContent);
    unpackTables(); $$("#ops th")[0].onclick(); R.sorted = names();
    $$("#ops th")[1].onclick(); R.most = names()[0];
    const changed = JSON.parse(JSON.stringify(G));
    changed.nodes[4].outputs[0].value.max += 1; changed.nodes.splice(11, 1);
    compare(JSON.stringify(changed), "other.json");
    R.comparison = $("comparison").querySelector("p").textContent;
    R.measures = [...$("colour").options].map(o => o.value);
    try { compare("{}", "x"); } catch (e) { R.refused = e.message; }
    const parsed = new DOMParser().parseFromString(picture().text, "image/svg+xml");
    R.wellFormed = !parsed.querySelector("parsererror");
    R.pending = true; png(blob => { R.png = blob.size; report(); });)js");
  CHECK(r["colour"] == "verdict");
  CHECK(r["legend"] == "ok (11) not compared (1) wrong (1)");
  CHECK(r["papers"] == 3);
  CHECK(r["crosses"] == 1);
  REQUIRE(r["findings"].size() == 2);
  CHECK(r["findings"][0].get<std::string>().find("%6 tanh") != std::string::npos);
  CHECK(r["findings"][1].get<std::string>().find("bias: no op reads it") != std::string::npos);
  CHECK(r["open"] == true);
  CHECK(r["moment"].get<std::string>().find("vjp of %0 sin: 48 B live, 96 B during it") !=
        std::string::npos);
  CHECK(r["panel"].get<std::string>().find("element (0, 1): vjp 1") != std::string::npos);
  CHECK(r["linked"] == 2);
  CHECK(r["source"] == Json({"> 8  if a < b then"}));
  CHECK(r["boxes"] == 13);
  CHECK(r["plain"] == 7);
  CHECK(r["straight"] == true);
  CHECK(r["repeats"].size() == 1);
  CHECK(r["repeats"][0].get<std::string>().find("× 2  ✗ 1 wrong") != std::string::npos);
  CHECK(r["once"] == 9);
  CHECK(r["shown"] == 13);
  CHECK(r["warned"] == 2);
  CHECK(r["sorted"] == Json{"reshape", "sin", "sum", "tanh"});
  CHECK(r["most"] == "reshape");
  CHECK(r["comparison"].get<std::string>().find("12 of 13 nodes are in both, 1 only here, 0 only "
                                                "there. The first value that differs: %4 sin") ==
        0);
  CHECK(r["measures"].dump().find("difference of value") != std::string::npos);
  CHECK(r["refused"] == "is no gradus.graph/1");
  CHECK(r["wellFormed"] == true);
  CHECK(r["png"].get<int>() > 5000);
}
