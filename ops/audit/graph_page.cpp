// The picture of a graph: as SVG, and as a page that stands alone. The page holds the JSON of the
// graph, the layout, a script and, for readers without scripts, the SVG, a table and the text.
#include "ops/audit/graph_layout.hpp"
#include "ops/audit/page_assets.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace gradus::audit {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kHead = 24, kGap = 34, kGradientCell = 62;  // page.js has the same

std::string escaped(const std::string& s) {
  std::string out;
  for (const char c : s) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

const char* kind_of(const Source& s) {
  return s.kind == Source::Kind::node ? "node" : s.kind == Source::Kind::leaf ? "leaf" : "constant";
}

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
  return {{"groups", groups}, {"group_of", layout.group_of}};
}

// On from the first point through the others.
std::string curve(const std::vector<Point>& points) {
  std::string d;
  for (size_t i = 1; i < points.size(); ++i) {
    const auto [x0, y0] = points[i - 1];
    const auto [x1, y1] = points[i];
    const double m = (y0 + y1) / 2;
    d += join("C", x0, ",", m, " ", x1, ",", m, " ", x1, ",", y1);
  }
  return d;
}
std::string wire(const std::vector<Point>& points, const std::string& more = "") {
  return join("<path class=\"wire\" d=\"M", points[0].first, ",", points[0].second, curve(points),
              more, "\"/>\n");
}

double middle(const Box& b) {
  return b.x + (b.width - (b.what.kind == Source::Kind::node ? kGradientCell : 0)) / 2;
}

std::string box_svg(const GraphView& v, const Box& b) {
  const bool node = b.what.kind == Source::Kind::node;
  const Value& value = node                                ? v.nodes[size_t(b.what.id)].outputs[0]
                       : b.what.kind == Source::Kind::leaf ? v.leaves[size_t(b.what.id)].value
                                                           : v.constants[size_t(b.what.id)].value;
  const std::string name =
      node ? join("%", b.what.id, " ", v.nodes[size_t(b.what.id)].op->name) : name_of(v, b.what);
  const double w = b.width - (node ? kGradientCell : 0);
  std::string text = join("<g class=\"box ", kind_of(b.what), "\" transform=\"translate(", b.x, ",",
                          b.y, ")\"><rect class=\"body\" width=\"", b.width, "\" height=\"",
                          b.height, "\" rx=\"", node ? 4 : 15, "\"/>");
  text += join("<text x=\"", w / 2, "\" y=\"14\" text-anchor=\"middle\">", escaped(name),
               "</text><text class=\"type\" x=\"", w / 2, "\" y=\"27\" text-anchor=\"middle\">",
               type_text(value), "</text>");
  if (node && value.gradient.count) {
    char norm[32];
    snprintf(norm, sizeof norm, "%.2g", value.gradient.norm);
    text += join("<text class=\"norm\" x=\"", w + kGradientCell / 2,
                 "\" y=\"20\" text-anchor=\"middle\">∇ ", norm, "</text>");
  }
  return text + "</g>\n";
}

// All groups open, in a column.
std::string picture(const GraphView& v, const Layout& layout, const std::string& style) {
  double width = 0, y = 0, left = 0;
  for (const Group& g : layout.groups) width = std::max(width, g.width);
  std::string frames, wires, boxes;
  std::vector<std::vector<Point>> ways_out(v.nodes.size());  // to the lower edge of the group
  for (size_t i = 0; i < layout.groups.size(); ++i) {
    const Group& g = layout.groups[i];
    const double x = (width - g.width) / 2;
    const auto at = [&](double dx, double dy) { return Point{x + dx, y + kHead + dy}; };
    const auto through = [&](const std::vector<Point>& bends, std::vector<Point>& to) {
      for (const auto& [dx, dy] : bends) to.push_back(at(dx, dy));
    };
    frames += join("<rect class=\"frame\" x=\"", x, "\" y=\"", y, "\" width=\"", g.width,
                   "\" height=\"", kHead + g.height, "\" rx=\"6\"/><text x=\"", x + 8, "\" y=\"",
                   y + 16, "\">", escaped(g.name), "</text>\n");
    for (const Wire& w : g.wires) {
      const Box &a = g.boxes[size_t(w.from)], &b = g.boxes[size_t(w.to)];
      std::vector<Point> points{at(middle(a), a.y + a.height)};
      through(w.bends, points);
      points.push_back(at(middle(b), b.y));
      wires += wire(points);
    }
    for (const Passage& p : g.in) {
      const Box& b = g.boxes[size_t(p.box)];
      std::vector<Point> way{{x + (p.bends.empty() ? middle(b) : p.bends[0].first), y}};
      through(p.bends, way);
      way.push_back(at(middle(b), b.y));
      std::vector<Point> from = ways_out[size_t(p.node)];
      const int jump = int(i) - layout.group_of[size_t(p.node)];
      if (jump == 1) {
        from.insert(from.end(), way.begin(), way.end());
        wires += wire(from);
        continue;
      }
      const double side = -14 - 9.0 * std::min(jump, 12);  // past what lies between
      left = std::min(left, side);
      const auto [ax, ay] = from.back();
      const auto [bx, by] = way.front();
      wires += wire(from, join("C", ax, ",", ay + 20, " ", side, ",", ay, " ", side, ",", ay + 26,
                               "V", by - 26, "C", side, ",", by, " ", bx, ",", by - 20, " ", bx,
                               ",", by, curve(way)));
    }
    for (const Passage& p : g.out) {
      const Box& a = g.boxes[size_t(p.box)];
      std::vector<Point>& way = ways_out[size_t(p.node)];
      way.push_back(at(middle(a), a.y + a.height));
      through(p.bends, way);
      way.push_back(at(way.back().first - x, g.height));
    }
    boxes += join("<g transform=\"translate(", x, ",", y + kHead, ")\">\n");
    for (const Box& b : g.boxes) boxes += box_svg(v, b);
    boxes += "</g>\n";
    y += kHead + g.height + kGap;
  }
  return join("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width - left + 20,
              "\" height=\"", y - kGap + 20, "\" viewBox=\"", left - 10, " -10 ", width - left + 20,
              " ", y - kGap + 20, "\" role=\"img\">\n", style, frames, wires, boxes, "</svg>\n");
}

std::string table(const GraphView& v) {
  std::string text =
      "<table><thead><tr><th>node<th>op<th>type<th>module<th>from<th>saved<th>forward µs"
      "<th>backward µs<th>norm<th>norm of gradient</tr></thead><tbody>\n";
  const auto number = [](bool known, double x) {
    char cell[48];
    snprintf(cell, sizeof cell, "<td class=n>%.4g", x);
    return known ? std::string(cell) : std::string("<td>");
  };
  for (size_t i = 0; i < v.nodes.size(); ++i) {
    const Node& n = v.nodes[i];
    std::string from;
    for (const Source& s : n.inputs) from += (from.empty() ? "" : ", ") + name_of(v, s);
    const Value& y = n.outputs[0];
    text += join(
        "<tr><td><a href=\"#n=", int64_t(i), "\">%", int64_t(i), "</a><td>", escaped(n.op->name),
        "<td>", type_text(y), "<td>", n.path.empty() ? "" : escaped(n.path.back()), "<td>",
        escaped(from), "<td class=n>", bytes_text(double(n.saved_bytes)),
        number(n.forward_ns >= 0, n.forward_ns / 1e3),
        number(n.backward_ns >= 0, n.backward_ns / 1e3), number(y.stats.count > 0, y.stats.norm),
        number(y.gradient.count > 0, y.gradient.norm), "</tr>\n");
  }
  return text + "</tbody></table>\n";
}

// The style sheet with its colours put in, for readers of SVG that know no variables.
std::string plain_style() {
  std::string css =
      ".frame{fill:#f4f4f1;stroke:#999}.box rect{fill:#fff;stroke:#999}.leaf rect{fill:#d6e8f5}"
      ".constant rect{stroke-dasharray:3 2}.wire{fill:none;stroke:#999}"
      "text{font:11px monospace;fill:#1b1b1b}.type{font-size:10px;fill:#666}.norm{font-size:10px}";
  return "<style>" + css + "</style>\n";
}

}  // namespace

std::string to_svg(const GraphView& v) { return picture(v, lay_out(v), plain_style()); }

std::string to_html(const GraphView& v) {
  const Layout layout = lay_out(v);
  Json data = Json::parse(to_json(v));
  data["layout"] = layout_json(layout);
  std::string json = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  // "</script>" in a name would end the data.
  for (size_t at = 0; (at = json.find("</", at)) != std::string::npos; at += 3)
    json.replace(at, 2, "<\\/");
  const std::string title = escaped(v.title.empty() ? "graph" : v.title);
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      title + "</title>\n<style>\n" + kPageCss + "</style>\n</head>\n<body class=\"nojs\">\n";
  page += "<header><h1>" + title + "</h1><span>" +
          join(int64_t(v.nodes.size()), " nodes, ", int64_t(v.leaves.size()), " leaves, ",
               bytes_text(double(v.saved_bytes)), " saved, on ", escaped(v.device)) +
          "</span>\n<span class=\"js\"><label>find <kbd>/</kbd> <input id=\"find\" "
          "type=\"search\" size=\"16\"></label> <span id=\"hits\" role=\"status\"></span></span>\n"
          "<label class=\"js\">colour <select id=\"colour\"></select></label>\n"
          "<span class=\"js\"><button id=\"fold\">fold <kbd>f</kbd></button> "
          "<button id=\"fit\">fit <kbd>0</kbd></button> <button id=\"save\">SVG</button></span>\n"
          "<span class=\"js\" id=\"player\"><button id=\"play\">▶ play backward</button>"
          "<input id=\"slider\" type=\"range\" min=\"0\" value=\"0\" aria-label=\"step of "
          "backward\"><output id=\"now\"></output></span></header>\n";
  page +=
      "<svg class=\"js\" id=\"memory\" viewBox=\"0 0 1000 30\" "
      "preserveAspectRatio=\"none\"></svg>\n";
  page += "<main><div id=\"stage\">\n" +
          (v.nodes.size() <= 2000 ? picture(v, layout, "") : std::string("<p>See the table.</p>")) +
          "</div>\n<aside id=\"panel\" class=\"js\" aria-live=\"polite\"><h2>a recorded step</h2>"
          "<p>Boxes are ops; rounded ones are parameters, dashed ones what no gradient was asked "
          "for. The cell on the right of an op fills when backward brings its gradient: its norm."
          "</p><p>Click a box, or use the keys: <kbd>/</kbd> find, <kbd>j</kbd> <kbd>k</kbd> next "
          "and previous node, <kbd>←</kbd> <kbd>→</kbd> steps of backward, <kbd>space</kbd> play, "
          "<kbd>f</kbd> fold, <kbd>+</kbd> <kbd>-</kbd> <kbd>0</kbd> zoom, <kbd>Esc</kbd> none.</p>"
          "</aside></main>\n";
  page += "<details><summary>table of nodes</summary>\n" + table(v) + "</details>\n";
  page += "<details><summary>both passes as text</summary>\n<pre>" + escaped(to_text(v)) +
          "</pre></details>\n";
  page += "<script type=\"application/json\" id=\"data\">" + json + "</script>\n<script>\n" +
          std::string(kPageJs) + "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace gradus::audit
