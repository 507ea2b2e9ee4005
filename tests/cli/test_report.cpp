// What a training run shows: charts as SVG, PNG images, report.html of finished, resumed,
// interrupted and failed runs, and the page in a browser where chromium is there.
#include "cli/report/curves.hpp"
#include "cli/report/png.hpp"
#include "cli/report/report.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/texts.hpp"
#include "tests/helpers/train_helpers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <zlib.h>

using namespace gradus;
using namespace gradus::test;
using gradus::cli::Chart;
using gradus::cli::Curve;
using gradus::test::check_has;

namespace {

constexpr const char* kSmall = R"({
  "experiment": "mlp", "seed": 5, "data": {"name": "digits", "train": 200, "test": 100},
  "model": {"layers": [{"linear": 12}, "relu", {"linear": 10}]},
  "optimizer": {"name": "adam", "lr": 0.02}, "epochs": 3, "batch_size": 16, "log_every": 5
})";

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}
bool have(const char* program) {
  const bool found =
      std::system(("command -v " + std::string(program) + " >/dev/null 2>&1").c_str()) == 0;
  if (!found) MESSAGE(program, " is not installed: skipped");
  return found;
}

// Runs `gradus report` within this process.
Run report(const std::string& run_dir) {
  cli::ReportOptions o;
  o.run_dir = run_dir;
  o.device = "cpu";
  std::ostringstream out, err;
  CHECK(cli::run_report(o, out, err) == 0);
  return {out.str(), err.str(), {}};
}

// The numbers of the table of class "matrix": those on its diagonal, and all.
std::pair<int64_t, int64_t> matrix_sums(const std::string& page) {
  const auto sum = [&](const std::string& cell) {
    int64_t total = 0;
    for (size_t at = 0; (at = page.find(cell, at)) != std::string::npos; ++at)
      total += std::atoll(page.c_str() + page.find('>', at) + 1);
    return total;
  };
  const int64_t hits = sum("<td class=\"hit\"");
  return {hits, hits + sum("<td class=\"miss\"")};
}

Chart chart(std::vector<std::pair<double, double>> points) {
  return {"loss", "step", {{"training", Curve::Style::thin, std::move(points)}}, "", {}, false};
}

// y of every vertex of the first curve, down the page.
std::vector<double> heights(const std::string& svg) {
  std::vector<double> out;
  const size_t path = svg.find("class=\"l thin c0\" d=\"", svg.find("class=\"f\""));
  REQUIRE(path != std::string::npos);
  const size_t begin = svg.find("d=\"", path) + 3, end = svg.find('"', begin);
  for (size_t at = begin; (at = svg.find(',', at)) < end; ++at)
    out.push_back(std::atof(svg.c_str() + at + 1));
  return out;
}

}  // namespace

TEST_CASE("report: ticks are round numbers within the range") {
  using List = std::vector<double>;
  CHECK(cli::ticks(0, 10, 5) == List{0, 2, 4, 6, 8, 10});
  CHECK(cli::ticks(0, 470, 5) == List{0, 100, 200, 300, 400});
  const List shares = cli::ticks(0.935, 0.991, 5);
  REQUIRE(shares.size() >= 4);
  CHECK(shares.front() == doctest::Approx(0.94));
  CHECK(cli::ticks(-1, 1, 4) == List{-1, -0.5, 0, 0.5, 1});
}

TEST_CASE("report: a chart is logarithmic where it spans decades, and never with a zero in it") {
  check_has(cli::to_svg({chart({{1, 2}, {2, 0.002}})}), "loss (logarithmic)");
  CHECK(cli::to_svg({chart({{1, 2}, {2, 0.5}})}).find("(logarithmic)") == std::string::npos);
  CHECK(cli::to_svg({chart({{1, 2}, {2, 0}})}).find("(logarithmic)") == std::string::npos);
  // Equal ratios are equal distances.
  const std::vector<double> y = heights(cli::to_svg({chart({{1, 100}, {2, 10}, {3, 1}})}));
  REQUIRE(y.size() == 3);
  // Over many decades, not all of them are named.
  CHECK(count(cli::to_svg({chart({{1, 1}, {2, 1e33}})}), "text-anchor=\"end\"") < 10);
  CHECK(y[1] - y[0] == doctest::Approx(y[2] - y[1]).epsilon(0.01));
  CHECK(y[0] < y[2]);
}

TEST_CASE("report: one point, no point, gaps, events, names from anywhere") {
  const std::string one = cli::to_svg({chart({{94, 0.5}})});
  CHECK(count(one, "class=\"p c0\"") == 2);  // and the legend's
  CHECK(count(cli::to_svg({chart({{1, 2}, {2, 1}})}), "class=\"p c0\"") == 0);
  check_has(cli::to_svg({}), "nothing was measured yet");
  check_has(cli::to_svg({chart({})}), "nothing was measured yet");

  const double nan = std::nan("");
  Chart gaps = chart({{1, 3}, {2, 2}, {3, nan}, {4, 1.5}, {5, 1}});
  gaps.events = {2, 4};
  gaps.curves.push_back({"lone", Curve::Style::thin, {{1, 1}, {2, nan}, {3, 1}, {4, nan}, {5, 1}}});
  gaps.event = "step without an update";
  gaps.curves[0].name = "a < b & c";
  const std::string svg = cli::to_svg({gaps});
  const size_t path = svg.find("class=\"l thin c0\" d=\"", svg.find("class=\"f\""));
  const std::string d = svg.substr(path, svg.find("/>", path) - path);
  CHECK(count(d, "M") == 2);  // the line is broken
  CHECK(count(d, "L") == 2);
  check_has(svg, "not finite");
  check_has(svg, "step without an update");
  check_has(svg, "a &lt; b &amp; c");
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(count(svg, "class=\"p c1\"") == 3 + 1);
  // Nothing finite at all.
  CHECK(cli::to_svg({chart({{1, nan}, {2, HUGE_VAL}})}).find("nan") == std::string::npos);
  if (!have("xmllint")) return;
  const TempFolder folder;
  for (const std::string& text :
       {one, svg, cli::to_svg({}), cli::to_svg({gaps, chart({{1, 1}})})}) {
    folder.write("a.svg", text);
    CHECK(std::system(("xmllint --noout '" + (folder / "a.svg") + "'").c_str()) == 0);
  }
}

TEST_CASE("report: marks at the ends of a range stay within the frame") {
  cli::Chart shares{"accuracy", "step", {{"test", Curve::Style::dots, {{0, 0}, {10, 1}}}},
                    "",         {},     true};
  const std::string svg = cli::to_svg({shares});
  const auto number = [](const std::string& text, size_t from, const char* name) {
    return std::atof(text.c_str() + text.find('"', text.find(name, from)) + 1);
  };
  const size_t frame = svg.find("<rect class=\"f\"");
  const double left = number(svg, frame, "x="), top = number(svg, frame, "y="),
               right = left + number(svg, frame, "width="),
               low = top + number(svg, frame, "height=");
  size_t marks = 0;
  for (size_t at = frame; (at = svg.find("<circle", at)) != std::string::npos; ++at, ++marks) {
    const double x = number(svg, at, "cx="), y = number(svg, at, "cy="),
                 r = number(svg, at, "r=") + 1;
    CHECK(x - r >= left);
    CHECK(x + r <= right);
    CHECK(y - r >= top);
    CHECK(y + r <= low);
  }
  CHECK(marks == 2);
}

TEST_CASE("report: a hundred thousand points make a small picture, and no spike is lost") {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100000; ++i) points.emplace_back(i, 1 + 0.1 * std::sin(i));
  points[54321].second = 9;
  const std::string svg = cli::to_svg({chart(points)});
  CHECK(svg.size() < 60000);
  const std::vector<double> y = heights(svg);
  CHECK(*std::min_element(y.begin(), y.end()) < 100);
  CHECK(std::count_if(y.begin(), y.end(), [](double v) { return v < 200; }) == 1);
}

TEST_CASE("report: PNG holds the pixels, and base64 is as in its RFC") {
  std::vector<uint8_t> pixels(5 * 3);
  std::iota(pixels.begin(), pixels.end(), uint8_t(250));
  const std::string png = cli::png_bytes(pixels, 5, 3);
  CHECK(png.starts_with("\x89PNG\r\n\x1a\n"));
  const auto word = [&](size_t at) {
    uint32_t n = 0;
    for (size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<unsigned char>(png[at + i]);
    return n;
  };
  std::vector<std::string> chunks;
  for (size_t at = 8; at < png.size(); at += 12 + word(at)) {
    chunks.push_back(png.substr(at + 4, 4 + word(at)));
    CHECK(word(at + 8 + word(at)) == crc32(0, reinterpret_cast<const Bytef*>(chunks.back().data()),
                                           uInt(chunks.back().size())));
  }
  REQUIRE(chunks.size() == 3);
  CHECK(word(16) == 3);  // width
  CHECK(word(20) == 5);
  CHECK(chunks[2] == "IEND");
  std::string lines(5 * 4, '?');
  uLongf size = lines.size();
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(lines.data()), &size,
                     reinterpret_cast<const Bytef*>(chunks[1].data() + 4),
                     uLong(chunks[1].size() - 4)) == Z_OK);
  REQUIRE(size == lines.size());
  for (size_t r = 0; r < 5; ++r) {
    CHECK(lines[4 * r] == 0);
    CHECK(std::memcmp(lines.data() + 4 * r + 1, pixels.data() + 3 * r, 3) == 0);
  }
  for (const auto& [plain, code] : std::vector<std::pair<std::string, std::string>>{
           {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foobar", "Zm9vYmFy"}})
    CHECK(cli::base64(plain) == code);
}

TEST_CASE("report: a run leaves curves and a report that agree with its result") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kSmall, "whole", {"report=true"});
  o.set = {"optimizer.lr=0.01"};
  const Run run = train(o);
  const Json& result = run.events.back();
  REQUIRE(run.events.size() > 2);
  const Json& files = run.events[run.events.size() - 2];
  CHECK(files["event"] == "report");
  CHECK(files["report"] == o.out + "/report.html");
  CHECK(files["curves"] == o.out + "/curves.svg");
  const std::string page = read_file(o.out + "/report.html"),
                    svg = read_file(o.out + "/curves.svg");
  check_has(page, svg);
  const auto [right, all] = matrix_sums(page);
  CHECK(all == 100);
  CHECK(double(right) / 100 == doctest::Approx(result["accuracy"].get<double>()));
  CHECK(count(page, "<li class=\"no\">") == std::min<size_t>(size_t(100 - right), 36));
  CHECK(count(page, "src=\"data:image/png;base64,") == 48);
  CHECK(count(svg, "<circle") == 3 + 1);  // an epoch each, and the legend's
  check_has(page, "<code>optimizer.lr</code><td><code>0.01</code><td class=\"soft\">--set");
  check_has(page, "<code>epochs</code><td><code>3</code><td class=\"soft\">" + o.config);
  check_has(page, "<code>shuffle</code><td><code>true</code><td class=\"soft\">default");
  for (const char* network : {"http://", "https://", "//cdn", "<script", "@import"})
    CHECK_MESSAGE((page.find(network) == std::string::npos ||
                   std::string(network) == "http://"),  // the name of SVG's namespace
                  network);
  CHECK(count(page, "http://") == count(page, "http://www.w3.org/2000/svg"));

  // Made anew it is the same, but for what the clock says; and people are told where it is.
  const Run again = report(o.out);
  CHECK(again.out == o.out + "/report.html\n" + o.out + "/curves.svg\n");
  CHECK(read_file(o.out + "/curves.svg") == svg);
  CHECK(matrix_sums(read_file(o.out + "/report.html")) == std::pair{right, all});
  o.json = false;
  o.out = folder / "told";
  check_has(train(o).out, "look at " + o.out + "/report.html\n");
  o.set = {"report=false"};
  o.out = folder / "none";
  CHECK(train(o).out.find("report") == std::string::npos);
  CHECK(!std::filesystem::exists(o.out + "/curves.svg"));
  CHECK(error_text(ErrorKind::io, [&] {
          cli::ReportOptions nowhere;
          nowhere.run_dir = folder / "nowhere";
          std::ostringstream out, err;
          cli::run_report(nowhere, out, err);
        }).find("nowhere: no such folder") != std::string::npos);
}

TEST_CASE(
    "report: of a run that was interrupted and went on, the curves are those of a whole one") {
  const TempFolder folder;
  train(train_options(folder, kSmall, "whole", {"report=true"}));
  cli::TrainOptions o = train_options(folder, kSmall, "parts", {"report=true"});
  {
    InterruptAt buffer("\"step\":20,");
    std::ostream out(&buffer);
    std::ostringstream err;
    error_text(ErrorKind::interrupted, [&] { cli::run_train(o, out, err); });
  }
  const std::string half = read_file(o.out + "/report.html");
  check_has(half, "Not finished. After epoch 1: ");
  check_has(half, "<b>No predictions:</b> train: interrupted after step 20");
  CHECK(matrix_sums(half).second == 0);
  // Asked for by name it takes the checkpoint.
  check_has(report(o.out).err, "the run is not finished; using ");
  CHECK(matrix_sums(read_file(o.out + "/report.html")).second == 100);
  o.resume = true;
  train(o);
  CHECK(read_file(o.out + "/curves.svg") == read_file(folder / "whole/curves.svg"));
  CHECK(matrix_sums(read_file(o.out + "/report.html")) ==
        matrix_sums(read_file(folder / "whole/report.html")));
}

TEST_CASE("report: of a run that failed, of one without its data, of one with damaged metrics") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kSmall, "nan", {"report=true"});
  o.set = {"optimizer.lr=1e30", "optimizer.name=sgd", "log_every=1"};
  std::ostringstream out, err;
  error_text(ErrorKind::numeric, [&] { cli::run_train(o, out, err); });
  const std::string page = read_file(o.out + "/report.html");
  check_has(page, "<p>Failed. train: the loss is ");
  check_has(page, "not finite</text>");
  report(o.out);  // it is remembered
  check_has(read_file(o.out + "/report.html"), "<p>Failed. train: the loss is ");
  CHECK(count(read_file(o.out + "/curves.svg"), "class=\"x\"") == 2);

  // A loss is read late, and its cause lies a step before it.
  o = train_options(folder, R"({"experiment": "network", "seed": 3,
    "data": {"name": "digits", "train": 64, "test": 16},
    "model": {"layers": [{"linear": 12}, "relu", "sqrt", {"linear": 10}]},
    "epochs": 4, "batch_size": 16})",
                    "cause", {"report=true"});
  error_text(ErrorKind::numeric, [&] { cli::run_train(o, out, err); });
  const std::string cause = read_file(o.out + "/report.html");
  check_has(cause, "the loss is nan at step 2 ");
  check_has(cause, "<b>Where it comes from:</b> step 1: the vjp of sqrt gives ");
  check_has(cause, ", at layers[2] sqrt, for training sample ");
  check_has(cause, "<a href=\"nan-step-1.safetensors\">nan-step-1.safetensors</a>");
  check_has(cause, "<pre>gradus replay " + o.out + "/nan-step-1.safetensors\n");
  check_has(read_file(o.out + "/metrics.jsonl"), "{\"event\":\"failed\",\"step\":2,");
  std::filesystem::remove(o.out + "/nan-step-1.safetensors");
  report(o.out);
  CHECK(read_file(o.out + "/report.html").find("nan-step-1") == std::string::npos);

  o = train_options(folder, kSmall, "gone", {"report=true"});
  train(o);
  Json config = Json::parse(read_file(o.out + "/config.json"));
  config["data"] = {{"idx", folder / "gone_data"}};
  folder.write("gone/config.json", config.dump());
  check_has(report(o.out).err, "the report goes without predictions: ");
  check_has(read_file(o.out + "/report.html"), "of the test set right");
  cli::ReportOptions named;
  named.run_dir = o.out;
  named.data = folder / "nor_here";
  check_has(error_text(ErrorKind::io, [&] { cli::run_report(named, out, err); }),
            "nor_here: no such folder");

  std::ofstream(o.out + "/metrics.jsonl", std::ios::app) << "{\"event\":\"step\",\"st";
  std::filesystem::remove(o.out + "/origins.json");
  report(o.out);
  check_has(read_file(o.out + "/report.html"), "that can't be read<td>1</tr>");
  check_has(read_file(o.out + "/report.html"), "<code>model.layers[0].linear");
}

TEST_CASE("report: of sequences there is a matrix of tokens, and no image") {
  const TempFolder folder;
  cli::TrainOptions o;
  o.config = folder.write("copy.json", R"({"experiment": "network",
    "data": {"name": "copy", "train": 32, "test": 10, "symbols": 4, "length": 3},
    "model": {"layers": [{"embedding": {"num_embeddings": 5, "embedding_dim": 8}}, {"linear": 5}]},
    "epochs": 1, "batch_size": 16})");
  o.device = "cpu";
  o.out = folder / "run";
  o.json = true;
  train(o);
  const std::string page = read_file(o.out + "/report.html");
  check_has(page, "test tokens of a class");
  CHECK(matrix_sums(page).second == 10 * 3);  // those that count
  CHECK(page.find("<img") == std::string::npos);
}

TEST_CASE("report: the page in a browser") {
  if (!have("chromium")) return;
  const TempFolder folder;
  train(train_options(folder, kSmall, "run", {"report=true"}));
  std::string page = read_file(folder / "run/report.html");
  const std::string script =
      "<script>addEventListener('load', () => { const all = q => [...document.querySelectorAll(q)];"
      "document.body.dataset.result = [all('img').every(i => i.naturalWidth === 28), "
      "all('img').length,"
      "all('svg.chart path.l').length > 4, all('.matrix tr').length,"
      "document.documentElement.scrollWidth <= innerWidth,"
      "all('svg.chart')[0].getBoundingClientRect().width > 300, all('h2').length].join(' ');});"
      "</script></body>";
  page.replace(page.rfind("</body>"), 7, script);
  folder.write("page.html", page);
  const std::string command =
      "cd '" + folder.path() +
      "' && timeout 60 chromium --headless --no-sandbox --disable-gpu --window-size=420,800 "
      "--user-data-dir='" +
      (folder / "profile") + "' --dump-dom 'file://" + (folder / "page.html") +
      "' > dom.txt 2> err.txt";
  REQUIRE(std::system(command.c_str()) == 0);
  check_has(read_file(folder / "dom.txt"), "data-result=\"true 48 true 12 true true 5\"");
}
