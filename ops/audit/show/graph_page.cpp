// A page that stands alone. It holds the JSON of the graph, the layouts, a script and, for readers
// without scripts, the SVG, tables and the text.
#include "ops/audit/show/graph_page.hpp"
#include "ops/audit/show/page_assets.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::audit {

namespace {

using Json = nlohmann::ordered_json;
using Point = std::pair<double, double>;

Json layout_json(const Layout& layout) {
  Json groups = Json::array();
  const auto pixel = [](double x) { return std::round(x * 10) / 10; };
  for (const Group& g : layout.groups) {
    Json boxes = Json::array(), wires = Json::array(), in = Json::array(), out = Json::array();
    for (const Box& b : g.boxes)
      boxes.push_back({{"kind", kind_of(b.what)},
                       {"id", b.what.id},
                       {"x", pixel(b.x)},
                       {"y", pixel(b.y)},
                       {"w", pixel(b.width)},
                       {"h", b.height}});
    const auto bends = [&](const std::vector<Point>& points) {
      Json list = Json::array();
      for (const auto& [x, y] : points) list.push_back({pixel(x), pixel(y)});
      return list;
    };
    for (const Wire& w : g.wires)
      wires.push_back({{"from", w.from}, {"to", w.to}, {"bends", bends(w.bends)}});
    for (const Passage& p : g.in)
      in.push_back({{"node", p.node}, {"box", p.box}, {"bends", bends(p.bends)}});
    for (const Passage& p : g.out)
      out.push_back({{"node", p.node}, {"box", p.box}, {"bends", bends(p.bends)}});
    groups.push_back({{"name", g.name},
                      {"first", g.first},
                      {"last", g.last},
                      {"w", pixel(g.width)},
                      {"h", pixel(g.height)},
                      {"boxes", boxes},
                      {"wires", wires},
                      {"in", in},
                      {"out", out}});
  }
  Json repeats = Json::array();
  for (const Repeat& r : layout.repeats)
    repeats.push_back({{"first", r.first}, {"period", r.period}, {"count", r.count}});
  return {{"groups", groups}, {"group_of", layout.group_of}, {"repeats", repeats}};
}

}  // namespace

std::string to_html(const GraphView& v) {
  const Layout layout = lay_out(v);
  Json data = Json::parse(to_json(v));
  data["layout"] = layout_json(layout);
  if (std::any_of(v.nodes.begin(), v.nodes.end(), [](const Node& n) { return n.trivial(); }))
    data["layout_plain"] = layout_json(lay_out(v, true));
  std::string json = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  // "</script>" in a name would end the data, and "<!-- <script>" would swallow what follows.
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos; at += 6)
    json.replace(at, 1, "\\u003c");
  const std::string title = escaped(v.title.empty() ? "graph" : v.title);
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      title + "</title>\n<style>\n" + kPageCss + "</style>\n</head>\n<body class=\"nojs\">\n";
  page += "<header><h1>" + title + "</h1><span>" +
          join(plural(v.nodes.size(), "node"), ", ", plural(v.leaves.size(), "leaf", "leaves"),
               ", ", bytes_text(double(v.saved_bytes)), " saved, on ", escaped(v.device)) +
          "</span>\n<span class=\"js\"><label>find <kbd>/</kbd> <input id=\"find\" "
          "type=\"search\" size=\"16\"></label> <span id=\"hits\" role=\"status\"></span></span>\n"
          "<label class=\"js\">colour <select id=\"colour\"></select></label>"
          "<span class=\"js\" id=\"legend\"></span>\n"
          "<span class=\"js\"><button id=\"fold\">fold <kbd>f</kbd></button> "
          "<button id=\"trivial\" aria-pressed=\"false\">hide views, casts, copies <kbd>t</kbd>"
          "</button> <button id=\"lane\" aria-pressed=\"true\">backward lane <kbd>b</kbd></button> "
          "<button id=\"fit\">fit <kbd>0</kbd></button> <button id=\"svg\">SVG</button> "
          "<button id=\"png\">PNG</button> <button id=\"against\">compare …</button>"
          "<input id=\"other\" type=\"file\" accept=\".html,.json\" hidden></span>\n"
          "<span class=\"js\" id=\"player\"><button id=\"play\">▶ play backward</button>"
          "<input id=\"slider\" type=\"range\" min=\"0\" value=\"0\" aria-label=\"step of "
          "backward\"><output id=\"now\"></output></span></header>\n";
  page +=
      "<svg class=\"js\" id=\"memory\" viewBox=\"0 0 1000 46\" preserveAspectRatio=\"none\" "
      "role=\"img\" aria-label=\"memory over time\"></svg><div class=\"js\" "
      "id=\"moment\"></div>\n";
  page += "<main><div id=\"stage\">\n" +
          (v.nodes.size() <= 2000 ? picture(v, layout, "") : std::string("<p>See the table.</p>")) +
          "</div>\n<aside id=\"panel\" class=\"js\" aria-live=\"polite\"><h2>a recorded step</h2>"
          "<p>Boxes are ops; rounded ones are parameters, dashed ones what no gradient was asked "
          "for. The cell on the right of an op fills when backward brings its gradient: its norm. "
          "In the backward lane (<kbd>b</kbd>) each op's vjp stands where its op stands; wires are "
          "as thick as the gradients that rise along them are large.</p><p>Click a box, or use the "
          "keys: "
          "<kbd>/</kbd> find, <kbd>j</kbd> <kbd>k</kbd> next and previous node, <kbd>←</kbd> "
          "<kbd>→</kbd> steps of backward, <kbd>space</kbd> play, <kbd>f</kbd> fold, <kbd>t</kbd> "
          "hide what moves numbers only, <kbd>b</kbd> backward lane, <kbd>+</kbd> <kbd>-</kbd> "
          "zoom, <kbd>0</kbd> all of it, <kbd>1</kbd> from the top, <kbd>Esc</kbd> "
          "none.</p></aside></main>\n"
          "<section id=\"comparison\" class=\"js\" hidden></section>\n";
  page += page_tables(v);
  page += "<details><summary>both passes as text</summary>\n<pre>" + escaped(to_text(v)) +
          "</pre></details>\n";
  page += "<script type=\"application/json\" id=\"data\">" + json + "</script>\n<script>\n" +
          std::string(kPageJs) + "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace gradus::audit
