// A user's own data through the program: a table, arrays and images train, are tested and predict.
#include "ops/train/data/own.hpp"
#include "tests/helpers/own_data_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace gradus;
using namespace gradus::test;
using Json = nlohmann::json;

namespace {

std::string config(const std::string& data, const std::string& layers,
                   const std::string& more = "") {
  return "{\"experiment\": \"network\", \"data\": " + data + ", \"model\": {\"layers\": [" +
         layers +
         "]}, \"optimizer\": {\"name\": \"adam\", \"lr\": 0.02}, \"epochs\": 20, \"batch_size\": "
         "16" +
         more + "}";
}

ProgramRun done(const TempFolder& folder, const std::string& arguments) {
  ProgramRun r = run(folder, arguments);
  CHECK_MESSAGE(r.code == 0, arguments, ": ", r.err);
  return r;
}

Json last_event(const std::string& out) {
  const size_t end = out.find_last_not_of('\n') + 1;
  return Json::parse(out.substr(out.rfind('\n', end - 1) + 1));
}

std::string refused(const TempFolder& folder, const std::string& arguments, int code) {
  const ProgramRun r = run(folder, arguments);
  CHECK_MESSAGE(r.code == code, arguments, ": ", r.err);
  CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
  return r.err.substr(0, r.err.find('\n'));
}

constexpr const char* kTable = R"({"csv": "flowers.csv", "target": "species"})";
constexpr const char* kLayers = R"({"linear": 16}, "relu", {"linear": 3})";

}  // namespace

TEST_CASE("own data: a table trains, is tested and predicts, in three commands") {
  if (!training::reads(training::OwnData::Format::csv)) return;
  const TempFolder folder;
  folder.write("flowers.csv", flowers());
  folder.write("flowers.json", config(kTable, kLayers));
  const Json trained = last_event(done(folder, "train flowers.json --out run --json").out);
  CHECK(trained["accuracy"].get<double>() > 0.9);
  const Json tested = last_event(done(folder, "eval run --json").out);
  CHECK(tested["accuracy"] == trained["accuracy"]);
  CHECK(tested["loss"] == trained["loss"]);
  CHECK(tested["samples"] == 30);

  // By name the columns stand in any order; the run needs nothing but itself.
  std::filesystem::remove(folder / "flowers.csv");
  folder.write("new.csv",
               "petal width;petal length;sepal width;sepal length;note\r\n"
               "0.3;1.5;3.4;5.0;1\r\n\r\n2.1;5.6;3.0;6.6;2\r\n");
  const ProgramRun said = done(folder, "predict run new.csv '[5.9,2.8,4.3,1.3]'");
  std::istringstream lines(said.out);
  std::vector<std::string> table;
  for (std::string line; std::getline(lines, line);) table.push_back(line);
  REQUIRE(table.size() == 4);
  std::string titles = table[0];
  for (size_t at; (at = titles.find("  ")) != std::string::npos;) titles.erase(at, 1);
  CHECK(titles == "input sample class name setosa versicolor virginica");
  CHECK(table[1].starts_with("new.csv                 0      0  setosa"));
  CHECK(table[2].starts_with("new.csv                 1      2  virginica"));
  CHECK(table[3].starts_with("[5.9,2.8,4.3,1.3]       0      1  versicolor"));
  for (const std::string& line : table) CHECK(line.size() == table[0].size());

  const ProgramRun json = done(folder, "predict run new.csv --json --out p.npy");
  const Json first = Json::parse(json.out.substr(0, json.out.find('\n')));
  CHECK(first["class"] == 0);
  CHECK(first["name"] == "setosa");
  const Tensor p = read_npy(folder / "p.npy");
  CHECK(p.sizes() == Shape{2, 3});
  const auto values = p.to_vector<double>();
  CHECK(values[0] == first["probabilities"][0]);
  CHECK(values[3] + values[4] + values[5] == doctest::Approx(1));
  CHECK(last_event(json.out)["out"] == "p.npy");
  CHECK(done(folder, "verify run").out.find("data.json: flowers.csv, 120 training and 30 test") !=
        std::string::npos);

  // What the run was tested on is gone, other data is not.
  CHECK(refused(folder, "eval run", 3).find("flowers.csv: cannot open") != std::string::npos);
  folder.write("later.csv",
               "sepal length,sepal width,petal length,petal width,species\n"
               "5.0,3.4,1.5,0.3,setosa\n6.6,3.0,5.6,2.1,setosa\n");
  CHECK(last_event(done(folder, "eval run --data later.csv --json").out)["accuracy"] == 0.5);
  CHECK(done(folder, "report run").err.find("without predictions: flowers.csv") !=
        std::string::npos);
}

TEST_CASE("own data: arrays of a .npz, those of two .npy, and a table give the same bits") {
  if (!training::reads(training::OwnData::Format::npz) ||
      !training::reads(training::OwnData::Format::csv))
    return;
  const TempFolder folder;
  std::vector<double> x;
  std::vector<int64_t> y;
  std::string table;
  for (uint64_t i = 0; i < 80; ++i) {
    for (uint64_t k = 0; k < 3; ++k) {
      x.push_back(100 + 30 * draw(3, 3 * i + k));
      char text[40];
      snprintf(text, sizeof text, "%.17g\t", x.back());
      table += text;
    }
    y.push_back(x[3 * i] > x[3 * i + 1] ? 7 : -2);
    table += std::to_string(y.back()) + "\n";
  }
  const std::string x_npy = npy_bytes(Tensor::from(x, {80, 3}));
  const std::string y_npy = npy_bytes(Tensor::from(y, {80}));
  folder.write("a.npz", zip_of({{"inputs.npy", x_npy}, {"told.npy", y_npy}}));
  folder.write("x.npy", x_npy);
  folder.write("y.npy", y_npy);
  folder.write("a.csv", table);
  const std::string data[] = {R"({"npz": "a.npz", "x": "inputs", "y": "told", "test": 0.25})",
                              R"({"npy": ["x.npy", "y.npy"], "test": 0.25})",
                              R"({"csv": "a.csv", "target": 4, "test": 0.25})"};
  std::vector<Json> results;
  for (const std::string& d : data) {
    const std::string name = "run" + std::to_string(results.size());
    folder.write("c.json", config(d, R"({"linear": 8}, "tanh", {"linear": 2})"));
    results.push_back(last_event(done(folder, "train c.json --json --out " + name).out));
    CHECK(results.back()["loss"] == results[0]["loss"]);
  }
  CHECK(results[0]["accuracy"].get<double>() > 0.8);
  CHECK(last_event(done(folder, "eval run0 --data a.npz --json").out)["samples"] == 80);
  CHECK(last_event(done(folder, "eval run1 --data x.npy,y.npy --json").out)["samples"] == 80);
  // A batch, one sample of it, and the .npz: classes by their own names.
  const std::string said = done(folder, "predict run0 x.npy a.npz").out;
  CHECK(said.find("x.npy       0      " + std::string(y[0] == 7 ? "1  7" : "0  -2")) !=
        std::string::npos);
  CHECK(said.find("a.npz      79") != std::string::npos);
  CHECK(done(folder, "predict run2 '[130,70,100]'").out.find("     0      1  7") !=
        std::string::npos);

  CHECK(refused(folder, "train c.json --out no --set 'data={\"npz\": \"a.npz\"}'", 3) ==
        "gradus: a.npz: holds no array \"x\"; it holds inputs, told");
  std::string damaged = zip_of({{"x.npy", x_npy}});
  damaged[200] ^= 1;
  folder.write("b.npz", damaged);
  CHECK(refused(folder, "train c.json --out no --set 'data={\"npz\": \"b.npz\"}'", 3) ==
        "gradus: b.npz: x: damaged: its CRC-32 is not the ZIP's");
  folder.write("b.npz", zip_of({{"x.npy", x_npy}}).substr(0, 300));
  CHECK(refused(folder, "train c.json --out no --set 'data={\"npz\": \"b.npz\"}'", 3) ==
        "gradus: b.npz: is no .npz: it is no ZIP, or a truncated one");
  x[7] = std::nan("");
  folder.write("x.npy", npy_bytes(Tensor::from(x, {80, 3})));
  CHECK(
      refused(folder, "train c.json --out no --set 'data={\"npy\": [\"x.npy\", \"y.npy\"]}'", 3) ==
      "gradus: x.npy: sample 2, element (1): is nan, expected a finite number; leave such samples "
      "out");
  CHECK(refused(folder, "train c.json --out no --set 'data={\"npy\": [\"y.npy\", \"p.npy\"]}'", 3)
            .starts_with("gradus: p.npy: cannot open: No such file or directory"));
  CHECK_FALSE(std::filesystem::exists(folder / "no"));
}

TEST_CASE("own data: folders of images, grey and in colour") {
  if (!training::reads(training::OwnData::Format::png)) return;
  const TempFolder folder;
  bar_folder(folder, "bars", 40);
  folder.write("bars/.hidden/x.png", "no");
  folder.write("c.json", config(R"({"png": "bars"})",
                                R"({"unflatten": [1, 6, 6]}, {"conv2d": {"out_channels": 4,
                                "kernel_size": 3}}, "relu", "flatten", {"linear": 2})"));
  const Json trained = last_event(done(folder, "train c.json --json --out run").out);
  CHECK(trained["accuracy"].get<double>() > 0.9);
  CHECK(last_event(done(folder, "eval run --json").out)["accuracy"] == trained["accuracy"]);
  folder.write("one.png", bar_image(true, 99));
  CHECK(done(folder, "predict run one.png").out.find("     0      1  stands") != std::string::npos);
  const std::string page = slurp(folder / "run/report.html");
  CHECK(page.find("<th>lies") != std::string::npos);
  CHECK(page.find("data:image/png;base64,") != std::string::npos);

  // Where all data sets are kept.
  std::filesystem::create_directories(folder / "sets");
  std::filesystem::rename(folder / "bars", folder / "sets/bars");
  CHECK(run(folder, "eval run", "GRADUS_DATA=sets").code == 0);

  // Colour, tested on a folder of its own; a grey image serves as well.
  bar_folder(folder, "colour", 40, 0, 3);
  bar_folder(folder, "test", 10, 200, 3);
  folder.write("test/lies/09.png", bar_image(false, 77));
  folder.write("c.json", config(R"({"png": "colour", "test": "test"})", kLayers));
  const Json colour = last_event(done(folder, "train c.json --json --out colours").out);
  CHECK(colour["accuracy"].get<double>() > 0.9);
  const Json form = Json::parse(slurp(folder / "colours/data.json"));
  CHECK(form["inputs"]["sizes"] == Json({3, 6, 6}));
  CHECK(form["test"]["samples"] == 20);

  folder.write("test/lies/10.png", cli::png_bytes(std::vector<uint8_t>(20, 9), 4, 5));
  CHECK(refused(folder, "train c.json --out no", 3) ==
        "gradus: test/lies/10.png: is 4 x 5 pixels, lies/00.png is 6 x 6; images of a set have one "
        "size");
  CHECK(
      refused(folder, "predict run test/lies/10.png", 3) ==
      "gradus: test/lies/10.png: holds 4 x 5 pixels for a sample, the network takes 6 x 6 pixels");
  folder.write("test/lies/10.png", "\xff\xd8\xff");
  CHECK(refused(folder, "train c.json --out no", 3) ==
        "gradus: test/lies/10.png: is no PNG: it is a JPEG; convert it first");
  std::string cut = bar_image(false, 1);
  folder.write("test/lies/10.png", cut.substr(0, cut.size() - 20));
  CHECK(refused(folder, "train c.json --out no", 3)
            .starts_with("gradus: test/lies/10.png: is a damaged PNG: "));
  folder.write("empty/a/b.txt", "");
  CHECK(refused(folder, "train c.json --out no --set data.png=empty", 3) ==
        "gradus: empty/a: holds no .png file, only others, such as b.txt");
  CHECK(refused(folder, "train c.json --out no --set data.png=empty/a", 3) ==
        "gradus: empty/a: holds no folder; expected one for each class, with its .png files, such "
        "as empty/a/cats/1.png");
}

TEST_CASE("own data: numbers are told, and reported by their error") {
  if (!training::reads(training::OwnData::Format::csv)) return;
  const TempFolder folder;
  std::string table =
      "\xef\xbb\xbf"
      "rooms;area;\"price; in full\"\r\n";
  for (uint64_t i = 0; i < 200; ++i) {
    const auto rooms = int64_t(3.5 + 2.5 * draw(5, 2 * i));
    const double area = 100 + 80 * draw(5, 2 * i + 1);
    char text[80];
    snprintf(text, sizeof text, "%d;%.1f;%.1f\r\n", int(rooms), area,
             12000.0 * double(rooms) + 2100.5 * area);
    table += text;
  }
  folder.write("houses.csv", table);
  const std::string data = R"({"csv": "houses.csv", "target": "price; in full"})";
  const std::string layers = R"({"linear": 16}, "relu", {"linear": 1})";
  folder.write("c.json", config(data, layers, R"(, "loss": "mse")"));
  const ProgramRun trained = done(folder, "train c.json --json --out run");
  const Json result = last_event(trained.out);
  CHECK(result["r2"].get<double>() > 0.98);
  // Of prices between 50 and 450 thousand.
  CHECK(result["rmse"].get<double>() < 12000);
  CHECK(result["rmse"].get<double>() > 10);
  CHECK_FALSE(result.contains("accuracy"));
  const Json tested = last_event(done(folder, "eval run --json").out);
  CHECK(tested["rmse"] == result["rmse"]);
  CHECK(done(folder, "eval run").out.starts_with("error "));
  const std::string resumed = done(folder, "train c.json --out run --resume --json").out;
  CHECK(last_event(resumed)["rmse"] == result["rmse"]);

  const std::string lines = done(folder, "predict run '[[3,100],[5,60]]' --json --out p.npy").out;
  const Json said = Json::parse(lines.substr(0, lines.find('\n')));
  CHECK(said["values"][0].get<double>() == doctest::Approx(36000 + 210050).epsilon(0.08));
  CHECK(read_npy(folder / "p.npy").sizes() == Shape{2});
  CHECK(done(folder, "predict run '[3,100]'").out.starts_with("sample  price; in full\n"));

  const std::string page = slurp(folder / "run/report.html");
  CHECK(page.find("Predicted against true") != std::string::npos);
  CHECK(page.find("The largest errors") != std::string::npos);
  CHECK(page.find("Confusion matrix") == std::string::npos);
  CHECK(page.find("R2 on the test set") != std::string::npos);
  CHECK(page.find("accuracy") == std::string::npos);

  folder.write("c2.json", config(data, layers));
  CHECK(refused(folder, "train c2.json --out no", 2) ==
        "gradus: loss: cross_entropy tells classes apart, but houses.csv tells numbers (price; in "
        "full): \"loss\": \"mse\", or l1, smooth_l1, huber; for classes \"task\": \"classify\" in "
        "data");
  CHECK(refused(folder, "train c.json --out no --set model.layers[2].linear=3", 2) ==
        "gradus: model.layers: the network gives (1, 3) for one sample, the data set houses.csv "
        "tells 1 number (price; in full): end with {\"linear\": 1}");
  // Data that has changed is no longer what the run learns from.
  folder.write("houses.csv", table + "1;1;1\r\n");
  CHECK(refused(folder, "eval run", 3) ==
        "gradus: houses.csv: gives 161 training samples, the run began with 160; --data names "
        "others to test on");
  CHECK(refused(folder, "train c.json --out run --resume --set epochs=21", 3) ==
        "gradus: houses.csv: gives 161 training samples, the run began with 160; put them back, or "
        "begin a new run");
}

TEST_CASE("own data: the README's commands do what it says") {
  if (!training::reads(training::OwnData::Format::csv) ||
      !training::reads(training::OwnData::Format::npz) ||
      !training::reads(training::OwnData::Format::png))
    return;
  const TempFolder folder;
  std::string readme = slurp(GRADUS_SOURCE_DIR "/README.md");
  readme = readme.substr(readme.find("## Your own data"));
  readme = readme.substr(0, readme.find("\n## ", 5));
  const auto block = [&](const std::string& begin) {
    const size_t at = readme.find(begin);
    REQUIRE(at != std::string::npos);
    return readme.substr(at, readme.find("\n```", at) - at);
  };
  const std::string table = flowers();
  folder.write("flowers.csv", table);
  folder.write("new.csv", table.substr(0, 200).substr(0, table.substr(0, 200).rfind('\n')));
  folder.write("flowers.json", block("// flowers.json"));
  std::istringstream commands(block("gradus train flowers.json"));
  int ran = 0;
  for (std::string line; std::getline(commands, line); ++ran) done(folder, line.substr(7));
  CHECK(ran == 3);

  const std::string x = npy_bytes(Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}));
  const std::string y = npy_bytes(Tensor::from(std::vector<int64_t>{0, 1, 2, 0}, {4}));
  for (const char* name : {"x.npy", "x_test.npy"}) folder.write(name, x);
  for (const char* name : {"y.npy", "y_test.npy"}) folder.write(name, y);
  folder.write("flowers.npz", zip_of({{"x.npy", x}, {"y.npy", y}}));
  folder.write("houses.csv", "id,area,price\nno1,5,3.5\nno2,7,4.5\nno3,9,5.5\n");
  bar_folder(folder, "bars", 4);
  std::istringstream forms(block("{\"npz\":"));
  int trained = 0;
  for (std::string line; std::getline(forms, line); ++trained)
    done(folder, "train flowers.json --set epochs=1 --out run" + std::to_string(trained) +
                     " --set 'data=" + line + "'" +
                     (line.find("price") == std::string::npos
                          ? ""
                          : " --set loss=mse --set model.layers[2].linear=1"));
  CHECK(trained == 4);

  // The message of a bad row, which stands in the README as it comes.
  std::string bad = table;
  size_t at = 0;
  for (int line = 1; line < 7; ++line) at = bad.find('\n', at) + 1;
  at = bad.find(',', bad.find(',', at) + 1) + 1;
  folder.write("flowers.csv", bad.substr(0, at) + "x1" + bad.substr(bad.find(',', at)));
  std::replace(readme.begin(), readme.end(), '\n', ' ');
  const std::string said = refused(folder, "train flowers.json --out no", 3).substr(8);
  CHECK(readme.find("`" + said + "`") != std::string::npos);
}
