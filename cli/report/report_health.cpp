// A row for each parameter and each activation, with small curves over the steps.
#include "cli/report/report_health.hpp"

#include "cli/frame/progress.hpp"
#include "ops/audit/show/graph_page.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::cli {

namespace {

using nlohmann::json;

constexpr double kWidth = 130, kHeight = 24;

// One number over the steps; NaN where it was not known.
struct Series {
  std::vector<double> x, y;
  void add(double step, const json& value) {
    x.push_back(step);
    y.push_back(value.is_number() ? value.get<double>() : std::nan(""));
  }
  double last() const { return y.empty() ? std::nan("") : y.back(); }
};
// What was said of one parameter or activation.
struct Row {
  std::string name;
  Series first, second;
  double zeros = 0;
  std::string units{};
  std::vector<std::pair<std::string, int64_t>> signs{};  // and the step of the first
};

// From the bottom for 0 (or the least, on a logarithmic scale) to the top for the largest.
std::string sparkline(const Series& s, bool logarithmic, double top) {
  const auto of = [&](double y) { return !logarithmic ? y : y > 0 ? std::log10(y) : std::nan(""); };
  double low = logarithmic ? HUGE_VAL : 0, high = logarithmic ? -HUGE_VAL : top;
  for (const double y : s.y)
    if (std::isfinite(of(y))) low = std::min(low, of(y)), high = std::max(high, of(y));
  if (!(high >= low)) return "";
  const double from = s.x.front(), range = std::max(s.x.back() - from, 1.0);
  const double span = high > low ? high - low : 1;
  std::string path;
  bool pen = false;
  for (size_t i = 0; i < s.y.size(); ++i) {
    const double y = of(s.y[i]);
    if (!std::isfinite(y)) {
      pen = false;
      continue;
    }
    path +=
        fmt::format("{}{:.1f} {:.1f}", pen ? "L" : "M", 2 + (kWidth - 4) * (s.x[i] - from) / range,
                    kHeight - 3 - (kHeight - 6) * (y - low) / span);
    if (!pen) path += "h0.1";  // a lone point is seen, too
    pen = true;
  }
  const auto text = [&](double y) { return short_number(logarithmic ? std::pow(10, y) : y); };
  return fmt::format(
      "<svg class=\"spark\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
      "aria-label=\"from {2} to {3}\"><title>from {2} to {3}{4}</title><path d=\"{5}\"/></svg>",
      kWidth, kHeight, text(low), text(high), logarithmic ? ", logarithmic" : "", path);
}

Row& row_of(std::vector<Row>& rows, const std::string& name) {
  const auto at =
      std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
  return at != rows.end() ? *at : rows.emplace_back(Row{name, {}, {}});
}
void add_sign(Row& row, const json& of, int64_t step) {
  const auto sign = of.at("sign").get<std::string>();
  const bool known = std::any_of(row.signs.begin(), row.signs.end(),
                                 [&](const auto& s) { return s.first == sign; });
  if (!sign.empty() && !known) row.signs.emplace_back(sign, step);
}
std::string signs_text(const Row& row) {
  std::string text;
  for (const auto& [sign, step] : row.signs)
    text +=
        fmt::format("{}<b>{}</b> at step {}", text.empty() ? "" : ", ", audit::escaped(sign), step);
  return text;
}
std::string cell(double x) {
  return std::isfinite(x) ? fmt::format("<td class=n>{:.2e}", x) : "<td class=n>-";
}
std::string share(double x) {
  return std::isfinite(x) ? "<td class=n>" + percent(x) : "<td class=n>-";
}

}  // namespace

std::string health_section(const std::vector<json>& events) {
  if (events.empty()) return "";
  std::vector<Row> parameters, activations;
  for (const json& e : events) {
    const auto step = e.at("step").get<int64_t>();
    for (const json& p : e.at("parameters")) {
      Row& row = row_of(parameters, p.at("name").get<std::string>());
      row.first.add(double(step), p.at("norm"));
      row.second.add(double(step), p.at("moved"));
      row.zeros = p.at("zeros").is_number() ? p["zeros"].get<double>() : std::nan("");
      add_sign(row, p, step);
    }
    for (const json& a : e.at("activations")) {
      const auto where = a.at("where").get<std::string>();
      Row& row = row_of(activations, fmt::format("%{} {}{}", a.at("node").get<int64_t>(),
                                                 a.at("op").get<std::string>(),
                                                 where.empty() ? "" : " (" + where + ")"));
      row.first.add(double(step), a.at("zero"));
      row.second.add(double(step), a.at("flat"));
      const auto units = a.at("units").get<int64_t>();
      if (units > 0) row.units = fmt::format("{} of {}", a.at("dead").get<int64_t>(), units);
      add_sign(row, a, step);
    }
  }
  std::string out = fmt::format(
      "<h2>Gradients and activations</h2>\n<p class=\"soft\">{}, from step {} to {}; numbers are "
      "those of the last. <i>moved</i>: how far the update went, as a part of the parameter's "
      "norm.</p>\n<div class=\"wide\"><table><tr><th>gradient of<th>norm<th><th class=n>zeros"
      "<th>moved<th><th>signs of illness</tr>\n",
      events.size() == 1 ? "One look" : fmt::format("{} looks", events.size()),
      events.front().at("step").get<int64_t>(), events.back().at("step").get<int64_t>());
  for (const Row& r : parameters)
    out += "<tr><td><code>" + audit::escaped(r.name) + "</code><td>" + sparkline(r.first, true, 0) +
           cell(r.first.last()) + share(r.zeros) + "<td>" + sparkline(r.second, true, 0) +
           cell(r.second.last()) + "<td>" + signs_text(r) + "</tr>\n";
  out += "</table></div>\n";
  if (activations.empty()) return out;
  out +=
      "<div class=\"wide\"><table><tr><th>activation<th>slope is 0<th><th>saturated<th>"
      "<th class=n>dead units<th>signs of illness</tr>\n";
  for (const Row& r : activations)
    out += "<tr><td><code>" + audit::escaped(r.name) + "</code><td>" +
           sparkline(r.first, false, 1) + share(r.first.last()) + "<td>" +
           (std::isfinite(r.second.last()) ? sparkline(r.second, false, 1) : "") +
           share(r.second.last()) + "<td class=n>" + (r.units.empty() ? "-" : r.units) + "<td>" +
           signs_text(r) + "</tr>\n";
  return out + "</table></div>\n";
}

}  // namespace gradus::cli
