#include "cli/report/report_numbers.hpp"

#include "cli/report/curves.hpp"
#include "cli/frame/progress.hpp"
#include "engine/base/error.hpp"
#include "ops/audit/show/graph_page.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gradus::inline v1::cli {

namespace {

constexpr double kSide = 360, kMargin = 64;
constexpr size_t kMostPictures = 4, kMostPoints = 2000, kMostErrors = 12;

struct Pair {
  double told, said;
  size_t sample;
  double miss() const { return said - told; }
};

std::string place(double x) {
  char text[32];
  snprintf(text, sizeof text, "%.1f", x);
  return text;
}

std::vector<Pair> pairs_of(const Dataset& data, const Predictions& test, size_t k) {
  const auto each = size_t(data.targets_each());
  const Reals& told = std::get<Reals>(data.test.targets);
  std::vector<Pair> out;
  for (size_t i = 0; i < size_t(data.test.count); ++i)
    out.push_back({data.target_scaling.back(told[i * each + k], k), test.numbers[i * each + k], i});
  return out;
}

// What is called the k-th target.
std::string name_of_target(const Dataset& data, size_t k) {
  const std::string name = data.target.empty() ? "target" : data.target;
  return data.targets_each() > 1 ? join(name, " ", k + 1) : name;
}

// True values to the right, predictions upwards; on the line both are the same.
std::string picture(const std::vector<Pair>& pairs, const std::string& name) {
  double low = INFINITY, high = -INFINITY;
  for (const Pair& p : pairs)
    for (const double v : {p.told, p.said})
      if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  if (!(low < high)) low -= 1, high += 1;
  if (!std::isfinite(low)) return "";
  const double room = 0.04 * (high - low);
  low -= room, high += room;
  const auto x = [&](double v) { return kMargin + (v - low) / (high - low) * kSide; };
  const auto y = [&](double v) { return 30 + kSide - (v - low) / (high - low) * kSide; };
  std::string out = join(
      "<svg class=\"chart\" viewBox=\"0 0 520 440\" role=\"img\" style=\"max-width:520px\">"
      "<title>",
      audit::escaped(name), ": predicted against true</title>\n<text class=\"t\" x=\"",
      place(kMargin), "\" y=\"18\">", audit::escaped(name), "</text>\n");
  char text[32];
  for (const double v : ticks(low, high, 5)) {
    snprintf(text, sizeof text, "%.4g", v);
    out += join("<path class=\"g\" d=\"M", place(kMargin), ",", place(y(v)), "h", place(kSide), "M",
                place(x(v)), ",30v", place(kSide), "\"/><text x=\"", place(kMargin - 8), "\" y=\"",
                place(y(v) + 4), "\" text-anchor=\"end\">", text, "</text><text x=\"", place(x(v)),
                "\" y=\"", place(30 + kSide + 16), "\" text-anchor=\"middle\">", text, "</text>\n");
  }
  out += join("<path class=\"l c1 squares\" d=\"M", place(x(low)), ",", place(y(low)), "L",
              place(x(high)), ",", place(y(high)), "\"/>\n<text x=\"", place(kMargin + kSide),
              "\" y=\"", place(30 + kSide + 32), "\" text-anchor=\"end\">true</text><text x=\"",
              place(kMargin + 6), "\" y=\"44\">predicted</text>\n<path class=\"p c0\" d=\"");
  const size_t stride = (pairs.size() + kMostPoints - 1) / kMostPoints;
  for (size_t i = 0; i < pairs.size(); i += stride)
    if (std::isfinite(pairs[i].said))
      out += join("M", place(x(pairs[i].told)), ",", place(y(pairs[i].said)), "h0");
  return out + "\"/>\n</svg>\n";
}

std::string largest_errors(std::vector<Pair> pairs) {
  const size_t n = std::min(pairs.size(), kMostErrors);
  std::partial_sort(pairs.begin(), pairs.begin() + int64_t(n), pairs.end(),
                    [](const Pair& a, const Pair& b) {
                      const double one = std::abs(a.miss()), other = std::abs(b.miss());
                      return one != other ? one > other : a.sample < b.sample;
                    });
  std::string out =
      "<div class=\"wide\"><table><tr><th>test sample<th class=n>true<th class=n>predicted"
      "<th class=n>error</tr>\n";
  for (size_t i = 0; i < n; ++i)
    out += join("<tr><td>", pairs[i].sample, "<td class=n>", short_number(pairs[i].told),
                "<td class=n>", short_number(pairs[i].said), "<td class=n>",
                short_number(pairs[i].miss()), "</tr>\n");
  return out + "</table></div>\n";
}

}  // namespace

std::string numbers_section(const Dataset& data, const Predictions& test) {
  if (test.numbers.empty()) return "";
  const auto each = size_t(data.targets_each());
  std::string out =
      "<h2>Predicted against true</h2>\n<p class=\"soft\">A point is a test sample; "
      "on the dashed line it is foretold rightly.</p>\n";
  for (size_t k = 0; k < std::min(each, kMostPictures); ++k) {
    const std::vector<Pair> pairs = pairs_of(data, test, k);
    double squares = 0, sizes = 0;
    for (const Pair& p : pairs) squares += p.miss() * p.miss(), sizes += std::abs(p.miss());
    const auto n = double(pairs.size());
    out += join("<p>", audit::escaped(name_of_target(data, k)), ": error ",
                short_number(std::sqrt(squares / n)), " (root of the mean square), ",
                short_number(sizes / n), " (mean)</p>\n<div class=\"wide\">",
                picture(pairs, name_of_target(data, k)), "</div>\n");
    if (k == 0) out += "<h2>The largest errors</h2>\n" + largest_errors(pairs);
  }
  if (each > kMostPictures)
    out += join("<p class=\"soft\">Left out: ", each - kMostPictures, " more targets.</p>\n");
  return out;
}

}  // namespace gradus::cli
