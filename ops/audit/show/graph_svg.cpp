// The picture of a graph as SVG, all groups open.
#include "ops/audit/show/graph_page.hpp"
#include "ops/audit/watch/names.hpp"

#include <algorithm>

namespace gradus::inline v1::audit {

namespace {

constexpr double kHead = 24, kGap = 34, kGradientCell = 62;  // page_draw.js has the same
constexpr double kGroupLetter = 6.7;

using Point = std::pair<double, double>;

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
  if (node && !v.nodes[size_t(b.what.id)].note.empty())
    text += "<title>" + escaped(v.nodes[size_t(b.what.id)].note) + "</title>";
  text += join("<text x=\"", w / 2, "\" y=\"14\" text-anchor=\"middle\">", escaped(name),
               "</text><text class=\"type\" x=\"", w / 2, "\" y=\"27\" text-anchor=\"middle\">",
               type_text(value), "</text>");
  if (node && value.gradient.count)
    text +=
        join("<text class=\"norm\" x=\"", w + kGradientCell / 2,
             "\" y=\"20\" text-anchor=\"middle\">∇ ", digits(value.gradient.norm, 2), "</text>");
  return text + "</g>\n";
}

}  // namespace

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
      out += static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t' ? '?' : c;
  }
  return out;
}

const char* kind_of(const Source& s) {
  return s.kind == Source::Kind::node ? "node" : s.kind == Source::Kind::leaf ? "leaf" : "constant";
}

// All groups open, in a column.
std::string picture(const GraphView& v, const Layout& layout, const std::string& style) {
  double width = 0, y = 0, left = 0;
  for (const Group& g : layout.groups) width = std::max(width, g.width);
  std::string frames, wires, titles, boxes;
  std::vector<std::vector<Point>> ways_out(v.nodes.size());  // to the lower edge of the group
  for (size_t i = 0; i < layout.groups.size(); ++i) {
    const Group& g = layout.groups[i];
    const double x = (width - g.width) / 2;
    const auto at = [&](double dx, double dy) { return Point{x + dx, y + kHead + dy}; };
    const auto through = [&](const std::vector<Point>& bends, std::vector<Point>& to) {
      for (const auto& [dx, dy] : bends) to.push_back(at(dx, dy));
    };
    frames += join("<rect class=\"frame\" x=\"", x, "\" y=\"", y, "\" width=\"", g.width,
                   "\" height=\"", kHead + g.height, "\" rx=\"6\"/>\n");
    // Above the wires, on a piece of the frame's paper.
    titles += join("<rect class=\"title\" x=\"", x + 4, "\" y=\"", y + 4, "\" width=\"",
                   double(g.name.size()) * kGroupLetter + 8, "\" height=\"16\"/><text x=\"", x + 8,
                   "\" y=\"", y + 16, "\">", escaped(g.name), "</text>\n");
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
  const double height = std::max(0.0, y - kGap) + 20;
  return join("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width - left + 20,
              "\" height=\"", height, "\" viewBox=\"", left - 10, " -10 ", width - left + 20, " ",
              height, "\" role=\"img\">\n", style, frames, wires, titles, boxes, "</svg>\n");
}

namespace {

// The style sheet with its colours put in, for readers of SVG that know no variables.
std::string plain_style() {
  std::string css =
      ".frame{fill:#f4f4f1;stroke:#999}.title{fill:#f4f4f1}.box rect{fill:#fff;stroke:#999}.leaf "
      "rect{fill:#d6e8f5}"
      ".constant rect{stroke-dasharray:3 2}.wire{fill:none;stroke:#999}"
      "text{font:11px monospace;fill:#1b1b1b}.type{font-size:10px;fill:#666}.norm{font-size:10px}"
      "@media screen and (prefers-color-scheme:dark){svg{background:#16181a}.frame{fill:#1d2022;"
      "stroke:#777}.title{fill:#1d2022}.box rect{fill:#24272a;stroke:#777}.leaf rect{fill:#14374f}"
      ".wire{stroke:#777}text{fill:#e8e8e6}.type{fill:#a3a3a0}}";
  return "<style>" + css + "</style>\n";
}

}  // namespace

std::string to_svg(const GraphView& v) { return picture(v, lay_out(v), plain_style()); }

}  // namespace gradus::audit
