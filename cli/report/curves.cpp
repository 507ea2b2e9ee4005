// Each chart is a frame with its title and legend above and ticks beside it.
#include "cli/report/curves.hpp"

#include "engine/base/error.hpp"
#include "ops/audit/show/graph_page.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gradus::inline v1::cli {

namespace {

constexpr double kWidth = 720, kLeft = 66, kRight = 18, kHead = 50, kHeight = 220, kFoot = 34;
constexpr double kPlot = kWidth - kLeft - kRight;
constexpr double kInset = 9;     // of the frame: marks at the ends of a range stay whole
constexpr double kLogFrom = 30;  // ratio of the largest to the smallest value

// Classes, so that a page may give other colours.
constexpr const char* kStyle =
    "<style>.chart{--i:#1b1b1b;--s:#5c5c5c;--g:#dcdcd8;--p:#fff;--c0:#0072b2;--c1:#d55e00;"
    "--c2:#007a5a;background:var(--p)}"
    "@media screen and (prefers-color-scheme:dark){.chart{--i:#e8e8e6;--s:#a8a8a4;--g:#34383b;"
    "--p:#16181a;--c0:#56b4e9;--c1:#ff8c3a;--c2:#2cc69b}}"
    ".chart text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:var(--s)}"
    ".chart .t{font-weight:bold;fill:var(--i)}.chart .g{stroke:var(--g)}"
    ".chart .f{fill:none;stroke:var(--s)}.chart .l{fill:none;stroke-width:2;stroke-linejoin:round}"
    ".chart .thin{stroke-width:1.1}.chart .c0{stroke:var(--c0)}.chart .c1{stroke:var(--c1)}"
    ".chart .c2{stroke:var(--c2)}.chart .squares{stroke-dasharray:6 3}"
    ".chart .m{fill:var(--p);stroke-width:2}.chart .p{stroke-width:5;stroke-linecap:round}"
    ".chart .x{stroke:var(--i);stroke-width:1.6;fill:none}"
    "</style>\n";

std::string number(double x) {
  char text[32];
  snprintf(text, sizeof text, "%.1f", x);
  return text;
}
std::string tick_text(double x, bool percent) {
  char text[32];
  snprintf(text, sizeof text, percent ? "%.4g %%" : "%.4g", percent ? 100 * x : x);
  return text;
}

struct Axis {
  double low = 0, high = 1, from = 0, to = 1;  // in numbers, on the paper
  bool logarithmic = false;
  double operator()(double v) const {
    const auto f = [this](double t) { return logarithmic ? std::log10(t) : t; };
    return from + (f(v) - f(low)) / (f(high) - f(low)) * (to - from);
  }
  std::vector<double> marks() const {
    if (!logarithmic) return ticks(low, high, 5);
    std::vector<double> out;
    const double decades = std::log10(high / low), step = std::ceil(decades / 8);
    const double first = step * std::floor(std::log10(low) / step);
    for (double d = first; d <= std::log10(high); d += step)
      for (const double m : {1.0, 2.0, 5.0}) {
        const double v = m * std::pow(10, d);
        if (v >= low && v <= high && (m == 1 || decades < 3)) out.push_back(v);
      }
    return out;
  }
};

// The range of what is finite, with some room.
Axis y_axis(const Chart& chart, double top) {
  Axis y{INFINITY, -INFINITY, top + kHeight - kInset, top + kInset, false};
  for (const Curve& c : chart.curves)
    for (const auto& [x, v] : c.points)
      if (std::isfinite(v)) y.low = std::min(y.low, v), y.high = std::max(y.high, v);
  if (y.low > y.high) return {0, 1, y.from, y.to, false};
  y.logarithmic = !chart.percent && y.low > 0 && y.high / y.low > kLogFrom;
  if (y.logarithmic) {
    const double room = std::pow(y.high / y.low, 0.03);
    y.low /= room, y.high *= room;
    return y;
  }
  const double room = y.high > y.low ? 0.03 * (y.high - y.low) : std::max(0.05, 0.1 * y.high);
  y.low -= room, y.high += room;
  if (chart.percent) y.low = std::max(y.low, 0.0), y.high = std::min(y.high, 1.0);
  return y;
}

// Of more points than the paper has columns, the least and the largest of each column: no spike is
// lost.
std::vector<std::pair<double, double>> thinned(const Curve& c, const Axis& x) {
  if (c.points.size() <= 2 * size_t(kPlot)) return c.points;
  std::vector<std::pair<double, double>> out;
  for (size_t i = 0; i < c.points.size();) {
    size_t low = i, high = i, j = i;
    for (; j < c.points.size() && int(x(c.points[j].first)) == int(x(c.points[i].first)); ++j) {
      if (!std::isfinite(c.points[j].second)) break;
      if (c.points[j].second < c.points[low].second) low = j;
      if (c.points[j].second > c.points[high].second) high = j;
    }
    out.push_back(c.points[std::min(low, high)]);
    if (low != high) out.push_back(c.points[std::max(low, high)]);
    i = std::max(j, i + 1);
  }
  return out;
}

std::string mark(Curve::Style style, size_t colour, double x, double y, const std::string& title) {
  const std::string shape = style == Curve::Style::dots
                                ? join("<circle class=\"m c", colour, "\" cx=\"", number(x),
                                       "\" cy=\"", number(y), "\" r=\"3.4\">")
                                : join("<rect class=\"m c", colour, "\" x=\"", number(x - 3),
                                       "\" y=\"", number(y - 3), "\" width=\"6\" height=\"6\">");
  return shape + "<title>" + audit::escaped(title) +
         (style == Curve::Style::dots ? "</title></circle>" : "</title></rect>");
}

std::string cross(double x, double y) {
  return join("<path class=\"x\" d=\"M", number(x - 3.5), ",", number(y - 3.5),
              "l7,7m0,-7l-7,7\"/>");
}
std::string tick(double x, double y) {
  return join("<path class=\"x\" d=\"M", number(x), ",", number(y), "l-3.5,8h7z\"/>");
}

// A point of a thin curve that has no neighbour for a line to lead to.
std::string dot(size_t colour, double x, double y, const std::string& title) {
  return join("<path class=\"p c", colour, "\" d=\"M", number(x), ",", number(y), "h0\"><title>",
              audit::escaped(title), "</title></path>");
}
bool is_lone(const std::vector<std::pair<double, double>>& points, size_t i) {
  const auto known = [&](size_t at) {
    return at < points.size() && std::isfinite(points[at].second);
  };
  return known(i) && !(i > 0 && known(i - 1)) && !known(i + 1);
}
bool any_lone(const Curve& c) {
  for (size_t i = 0; i < c.points.size(); ++i)
    if (is_lone(c.points, i)) return true;
  return false;
}

constexpr const char* kStyleNames[] = {"thin", "dots", "squares"};

std::string curve_svg(const Curve& c, size_t colour, const Axis& x, const Axis& y, bool percent) {
  std::string path, marks;
  bool open = false;
  const auto points = thinned(c, x);
  for (size_t i = 0; i < points.size(); ++i) {
    const auto [at, v] = points[i];
    if (!std::isfinite(v)) {
      marks += cross(x(at), y.to);
      open = false;
      continue;
    }
    path += join(open ? "L" : "M", number(x(at)), ",", number(y(v)));
    open = true;
    const std::string title =
        join(c.name, " ", tick_text(v, percent), " at ", tick_text(at, false));
    if (c.style != Curve::Style::thin)
      marks += mark(c.style, colour, x(at), y(v), title);
    else if (is_lone(points, i))
      marks += dot(colour, x(at), y(v), title);
  }
  if (!path.empty())
    path = join("<path class=\"l ", kStyleNames[int(c.style)], " c", colour, "\" d=\"", path,
                "\"/>\n");
  return path + marks + "\n";
}

bool any_gap(const Chart& chart) {
  for (const Curve& c : chart.curves)
    for (const auto& [x, v] : c.points)
      if (!std::isfinite(v)) return true;
  return false;
}

// Names right of their stroke, in one row. A letter is about 6.3 wide.
std::string legend(const Chart& chart, double y) {
  std::string out;
  double x = kLeft;
  const auto name = [&](const std::string& text) {
    out += join("<text x=\"", number(x), "\" y=\"", number(y + 4), "\">", audit::escaped(text),
                "</text>\n");
    x += 6.3 * double(text.size()) + 20;
  };
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const Curve& c = chart.curves[i];
    if (c.points.empty()) continue;
    out += join("<path class=\"l ", kStyleNames[int(c.style)], " c", i % 3, "\" d=\"M", number(x),
                ",", number(y), "h26\"/>");
    if (c.style != Curve::Style::thin)
      out += mark(c.style, i % 3, x + 13, y, c.name);
    else if (any_lone(c))
      out += dot(i % 3, x + 13, y, c.name);
    x += 32;
    name(c.name);
  }
  if (any_gap(chart)) {
    out += cross(x + 4, y);
    x += 14;
    name("not finite");
  }
  if (!chart.events.empty()) {
    out += tick(x + 4, y - 4);
    x += 14;
    name(chart.event);
  }
  return out;
}

std::string chart_svg(const Chart& chart, Axis x, double top) {
  const double plot = top + kHead;
  const Axis y = y_axis(chart, plot);
  std::string out =
      join("<text class=\"t\" x=\"", number(kLeft), "\" y=\"", number(top + 18), "\">",
           audit::escaped(chart.title + (y.logarithmic ? " (logarithmic)" : "")), "</text>\n",
           legend(chart, top + 36));
  for (const double v : y.marks())
    out +=
        join("<path class=\"g\" d=\"M", number(kLeft), ",", number(y(v)), "H",
             number(kWidth - kRight), "\"/><text x=\"", number(kLeft - 8), "\" y=\"",
             number(y(v) + 4), "\" text-anchor=\"end\">", tick_text(v, chart.percent), "</text>\n");
  for (const double v : x.marks())
    out += join("<path class=\"g\" d=\"M", number(x(v)), ",", number(plot), "v", number(kHeight),
                "\"/><text x=\"", number(x(v)), "\" y=\"", number(plot + kHeight + 16),
                "\" text-anchor=\"middle\">", tick_text(v, false), "</text>\n");
  out += join("<text x=\"", number(kWidth - kRight), "\" y=\"", number(plot + kHeight + 31),
              "\" text-anchor=\"end\">", audit::escaped(chart.x_label),
              "</text>\n<rect class=\"f\" x=\"", number(kLeft), "\" y=\"", number(plot),
              "\" width=\"", number(kPlot), "\" height=\"", number(kHeight), "\"/>\n");
  for (size_t i = 0; i < chart.curves.size(); ++i)
    out += curve_svg(chart.curves[i], i % 3, x, y, chart.percent);
  for (const double at : chart.events) out += tick(x(at), plot + kHeight - 9);
  return out;
}

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  const double raw = (high - low) / std::max(count, 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double part = raw / power;
  const double step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
  std::vector<double> out;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k)
    out.push_back(k == 0 ? 0 : k * step);
  return out;
}

std::string to_svg(std::vector<Chart> charts) {
  std::erase_if(charts, [](const Chart& c) {
    return c.events.empty() && std::all_of(c.curves.begin(), c.curves.end(),
                                           [](const Curve& one) { return one.points.empty(); });
  });
  Axis x{0, 1, kLeft + kInset, kWidth - kRight - kInset, false};
  std::string names, body;
  double top = 0;
  for (const Chart& c : charts) {
    names += (names.empty() ? "" : "; ") + c.title;
    for (const Curve& curve : c.curves)
      if (!curve.points.empty()) x.high = std::max(x.high, curve.points.back().first);
    for (const double at : c.events) x.high = std::max(x.high, at);
  }
  for (const Chart& c : charts) {
    body += chart_svg(c, x, top);
    top += kHead + kHeight + kFoot;
  }
  if (charts.empty()) body = "<text x=\"66\" y=\"30\">nothing was measured yet</text>\n", top = 60;
  return join("<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ",
              number(kWidth), " ", number(top), "\" width=\"", number(kWidth), "\" height=\"",
              number(top), "\" role=\"img\">\n<title>", audit::escaped(names), "</title>\n", kStyle,
              body, "</svg>\n");
}

}  // namespace gradus::cli
