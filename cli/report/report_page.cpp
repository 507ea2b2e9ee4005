// A report as HTML: every part a function of what it shows.
#include "cli/report/report_page.hpp"

#include "cli/report/curves.hpp"
#include "cli/report/png.hpp"
#include "cli/frame/progress.hpp"
#include "cli/report/report_numbers.hpp"
#include "engine/base/error.hpp"
#include "ops/audit/show/graph_page.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gradus::inline v1::cli {

namespace {

constexpr int64_t kMostClasses = 64;  // in a matrix that people can read
constexpr size_t kImages = 48, kWrong = 36;

constexpr const char* kCss = R"(
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1b1b; --soft: #5c5c5c; --line: #cfcfca; --box: #f4f4f1;
  --right: #0072b2; --wrong: #d55e00; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #16181a; --ink: #e8e8e6; --soft: #a8a8a4; --line: #3a3e41;
  --box: #1f2224; --right: #56b4e9; --wrong: #ff8c3a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 18px 16px 40px; max-width: 860px; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 22px; margin: 0; } h2 { font-size: 17px; margin: 30px 0 6px; }
p { margin: 4px 0 8px; } .soft { color: var(--soft); } a { color: var(--right); }
.wide + .wide { margin-top: 12px; } svg.chart { width: 100%; height: auto; } svg.spark { vertical-align: middle; }
.spark path { fill: none; stroke: var(--right); stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: normal; color: var(--soft); } th, td { padding: 2px 9px; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; }
.matrix td { text-align: center; min-width: 34px; white-space: nowrap; border: 1px solid var(--line); }
.matrix td.hit { background: color-mix(in srgb, var(--right) calc(var(--share) * 60%), transparent); }
.matrix td.miss { background: color-mix(in srgb, var(--wrong) calc(20% + var(--share) * 80%), transparent); }
.matrix th { text-align: center; } .matrix td.zero { color: var(--line); }
.images { display: flex; flex-wrap: wrap; gap: 10px; padding: 0; margin: 8px 0; list-style: none; }
.images li { width: 84px; text-align: center; font-size: 12px; line-height: 1.3; color: var(--soft); break-inside: avoid; }
.images img { width: 72px; height: 72px; object-fit: contain; image-rendering: pixelated; background: #000;
  border: 3px solid var(--right); border-radius: 3px; display: block; margin: 0 auto 3px; }
.images .no img { border-color: var(--wrong); border-style: dashed; } .images b { color: var(--ink); }
code, pre { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
pre { background: var(--box); padding: 8px 12px; overflow: auto; border-radius: 4px; }
td code { overflow-wrap: anywhere; }
@media print { body { max-width: none; padding: 0; } h2 { break-after: avoid; } table, svg { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
)";

std::string format(const char* how, double x) {
  char text[40];
  snprintf(text, sizeof text, how, x);
  return text;
}

// ---- epochs

std::string epochs_table(const std::vector<ReportEpoch>& epochs) {
  if (epochs.empty()) return "";
  const bool skips =
      std::any_of(epochs.begin(), epochs.end(), [](const auto& e) { return e.skipped > 0; });
  std::string out =
      "<h2>Epochs</h2>\n<div class=\"wide\"><table><tr><th>epoch<th class=n>step<th class=n>"
      "training loss<th class=n>test loss<th class=n>";
  const bool numbers = epochs.front().score.of_numbers;
  out += numbers ? "error (rmse)<th class=n>R2" : "accuracy";
  out += "<th class=n>learning rate<th class=n>time<th class=n>samples/s";
  out += skips ? "<th class=n>skipped</tr>\n" : "</tr>\n";
  for (const ReportEpoch& e : epochs) {
    out += join("<tr><td>", e.epoch, "<td class=n>", e.step);
    std::vector<std::string> cells{format("%.4f", e.train_loss), format("%.4f", e.score.loss)};
    cells.push_back(numbers ? short_number(e.score.rmse) : percent(e.score.accuracy));
    if (numbers) cells.push_back(std::isfinite(e.score.r2) ? format("%.4f", e.score.r2) : "-");
    cells.insert(cells.end(),
                 {format("%.4g", e.lr), duration(e.seconds), short_number(e.samples_per_second)});
    for (const std::string& cell : cells) out += "<td class=n>" + cell;
    out += (skips ? join("<td class=n>", e.skipped) : std::string()) + "</tr>\n";
  }
  return out +
         "</table></div>\n<p class=\"soft\">The time of an epoch holds its test and its "
         "checkpoint; samples/s counts steps alone, from the beginning.</p>\n";
}

// ---- the confusion matrix

std::string matrix(const Dataset& data, const Predictions& test) {
  // A network may have more outputs than the data has classes.
  int64_t classes = data.classes, columns = data.classes;
  for (const int32_t c : test.said) columns = std::max<int64_t>(columns, c + 1);
  if (columns > kMostClasses)
    return join("<h2>Confusion matrix</h2>\n<p class=\"soft\">Left out: ", columns,
                " classes are more than can be read.</p>\n");
  std::vector<int64_t> counts(size_t(classes * columns)), of_class(size_t(classes), 0),
      of_column(size_t(columns), 0);
  for (size_t i = 0; i < test.said.size(); ++i) {
    if (test.said[i] == kNoLabel) continue;
    ++counts[size_t(data.test.labels()[i] * columns + test.said[i])];
    ++of_class[size_t(data.test.labels()[i])];
    ++of_column[size_t(test.said[i])];
  }
  const auto share = [](int64_t part, int64_t whole) {
    return whole ? format("%.3g %%", 100 * double(part) / double(whole)) : std::string("-");
  };
  std::string out = join(
      "<h2>Confusion matrix</h2>\n<p class=\"soft\">A row holds the test ",
      data.sequences() ? "tokens" : "samples",
      " of a class, a column what the network took them for. Recall: the share of a row that is "
      "right; precision: that of a column.</p>\n<div class=\"wide\"><table class=\"matrix\"><tr>"
      "<th>true");
  for (int64_t c = 0; c < columns; ++c) out += "<th>" + audit::escaped(data.class_name(c));
  out += "<th>recall</tr>\n";
  std::string precision = "<tr><th>precision";
  for (int64_t r = 0; r < classes; ++r) {
    out += "<tr><th>" + audit::escaped(data.class_name(r));
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t n = counts[size_t(r * columns + c)];
      if (n == 0)
        out += "<td class=\"zero\">0";
      else
        out += join("<td class=\"", r == c ? "hit" : "miss",
                    "\" style=\"--share:", format("%.3f", double(n) / double(of_class[size_t(r)])),
                    "\">", n);
    }
    out += "<td>" + share(r < columns ? counts[size_t(r * columns + r)] : 0, of_class[size_t(r)]) +
           "</tr>\n";
  }
  for (int64_t c = 0; c < columns; ++c)
    precision +=
        "<td>" + share(c < classes ? counts[size_t(c * columns + c)] : 0, of_column[size_t(c)]);
  return out + precision + "<td></tr>\n</table></div>\n";
}

// ---- images

// Grey or colour; the colours of a pixel lie in planes, or side by side.
bool is_image(const Form& form) {
  const auto& s = form.sizes;
  return form.kind == InputKind::pixels &&
         (s.size() == 2 || (s.size() == 3 && (s[0] == 1 || s[0] == 3 || s[2] == 1 || s[2] == 3)));
}

std::string png_of(const Dataset& data, size_t i) {
  const auto each = size_t(data.inputs_each());
  const auto& s = data.sizes;
  const std::span<const uint8_t> all{data.test.pixels().data() + i * each, each};
  if (s.size() == 2) return png_bytes(all, uint32_t(s[0]), uint32_t(s[1]), 1);
  const bool planes = s[0] == 1 || s[0] == 3;
  const auto rows = uint32_t(planes ? s[1] : s[0]), cols = uint32_t(planes ? s[2] : s[1]);
  const auto colours = uint32_t(planes ? s[0] : s[2]);
  if (!planes || colours == 1) return png_bytes(all, rows, cols, colours);
  std::vector<uint8_t> mixed(each);
  for (size_t k = 0; k < each; ++k) mixed[k % (each / 3) * 3 + k / (each / 3)] = all[k];
  return png_bytes(mixed, rows, cols, colours);
}

std::string image(const Dataset& data, const Predictions& test, size_t i) {
  const std::string png = png_of(data, i);
  const int32_t label = data.test.labels()[i], said = test.said[i];
  const auto name = [&](int32_t c) { return audit::escaped(data.class_name(c)); };
  const std::string sure = test.sure.empty() ? "" : format(", %.0f %%", 100 * double(test.sure[i]));
  const std::string words =
      label == said ? join("<b>", name(label), "</b>", sure)
                    : join("<b>", name(label), "</b>, taken for <b>", name(said), "</b>", sure);
  return join("<li", label == said ? "" : " class=\"no\"", "><img alt=\"test image ", i, ", a ",
              name(label), "\" src=\"data:image/png;base64,", base64(png), "\">", words, "</li>\n");
}

std::string images(const Dataset& data, const Predictions& test) {
  if (!is_image(data)) return "";
  std::vector<size_t> wrong, shown;
  for (size_t i = 0; i < test.said.size(); ++i)
    if (test.said[i] != data.test.labels()[i]) wrong.push_back(i);
  // The surest mistakes say most.
  if (!test.sure.empty())
    std::stable_sort(wrong.begin(), wrong.end(),
                     [&](size_t a, size_t b) { return test.sure[a] > test.sure[b]; });
  shown.assign(wrong.begin(), wrong.begin() + int64_t(std::min(wrong.size(), kWrong)));
  const size_t mistakes = shown.size();
  for (size_t i = 0; i < test.said.size() && shown.size() < kImages; ++i)
    if (test.said[i] == data.test.labels()[i]) shown.push_back(i);
  std::string out =
      join("<h2>Images of the test set</h2>\n<p class=\"soft\">",
           wrong.empty() ? std::string("None was taken for another class. ")
           : mistakes < wrong.size()
               ? join("The ", mistakes, test.sure.empty() ? " first" : " surest", " of ",
                      wrong.size(), " mistakes (dashed), then some that are right. ")
               : join(wrong.size() == 1 ? std::string("The one mistake")
                                        : join("All ", wrong.size(), " mistakes"),
                      test.sure.empty() ? "" : ", the surest first",
                      " (dashed), then some that are right. "),
           "Below each its label", test.sure.empty() ? "" : ", and how sure the network was",
           ".</p>\n<ul class=\"images\">\n");
  for (const size_t i : shown) out += image(data, test, i);
  return out + "</ul>\n";
}

// ---- config and what else is known

std::string config_table(const std::vector<ReportEntry>& config) {
  std::string out =
      "<h2>Config</h2>\n<div class=\"wide\"><table><tr><th>key<th>value<th>from</tr>\n";
  for (const ReportEntry& e : config)
    out += "<tr><td><code>" + audit::escaped(e.path) + "</code><td><code>" +
           audit::escaped(e.value) + "</code><td class=\"soft\">" + audit::escaped(e.origin) +
           "</tr>\n";
  return out + "</table></div>\n";
}

}  // namespace

std::string to_html(const ReportPage& page) {
  const ReportData& data = *page.data;
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      audit::escaped(page.name) + "</title>\n<style>" + kCss + "</style>\n</head>\n<body>\n<h1>" +
      audit::escaped(page.name) + "</h1>\n<p>" + audit::escaped(page.headline) + "</p>\n";
  if (!page.trouble.empty()) out += "<p><b>" + audit::escaped(page.trouble) + ".</b></p>\n";
  if (!page.cause.empty())
    out += "<p><b>Where it comes from:</b> " + audit::escaped(page.cause) + ".</p>\n";
  if (!data.why_none.empty() && page.headline.find(data.why_none) == std::string::npos)
    out += "<p><b>No predictions:</b> " + audit::escaped(data.why_none) + "</p>\n";
  out += page.svg + epochs_table(page.epochs) + page.health;
  if (data.data && !data.test.said.empty())
    out += matrix(*data.data, data.test) + images(*data.data, data.test);
  if (data.data) out += numbers_section(*data.data, data.test);
  out += "<h2>About this run</h2>\n<table>\n";
  for (const auto& [what, value] : page.facts)
    out += "<tr><th>" + audit::escaped(what) + "<td>" + audit::escaped(value) + "</tr>\n";
  out += "<tr><th>files<td>";
  for (const std::string& file : page.files)
    out += (file == page.files.front() ? "<a href=\"" : ", <a href=\"") + audit::escaped(file) +
           "\">" + audit::escaped(file) + "</a>";
  const std::string dir = audit::escaped(page.run_dir);
  const bool finished = std::count(page.files.begin(), page.files.end(), "model.safetensors") > 0;
  out += "</tr>\n</table>\n<pre>";
  if (!page.at_fault.empty())
    out += "gradus replay " + dir + "/" + audit::escaped(page.at_fault) + "\n";
  out += (finished ? "gradus eval " + dir + "\n" : "") + "gradus graph " + dir +
         "/config.json --html graph.html\ngradus audit " + dir + "/config.json\ngradus report " +
         dir + "</pre>\n" + config_table(page.config);
  return out + "</body>\n</html>\n";
}

}  // namespace gradus::cli
