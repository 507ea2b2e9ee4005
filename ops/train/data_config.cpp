#include "ops/train/data_config.hpp"

#include "ops/train/data/copy.hpp"
#include "ops/train/data/digits.hpp"
#include "ops/train/data/folder.hpp"
#include "ops/train/data/idx.hpp"
#include "engine/files/file.hpp"

#include <nlohmann/json.hpp>

namespace gradus::inline v1::training {

namespace {

Spec share_spec() {
  return Spec::number("share of the samples that is kept for the test, drawn by the seed")
      .above(0)
      .below(1);
}
constexpr const char* kWhere =
    "in the working folder, or in that of all data sets, GRADUS_DATA (data, if that is not set)";
Spec file_spec(const char* doc) { return Spec::string(doc); }
Spec main_file_spec(const char* doc) { return Spec::string(join(doc, ", ", kWhere)); }
Spec column_spec(const char* doc) {
  return Spec::any_of({Spec::string("its name, in the first line"),
                       Spec::integer("its number, from 1").at_least(1)},
                      doc);
}

// What own data sets share.
Spec with_seed(const Spec& s) {
  return s.maybe("seed", Spec::integer("seed of the split").at_least(0).otherwise("0"));
}
Spec with_task(const Spec& s) {
  return with_seed(s)
      .maybe("task", Spec::string("tell classes apart, or tell numbers; by default classes where "
                                  "the targets are whole numbers or names")
                         .one_of({"classify", "regress"}))
      .maybe("standardize",
             Spec::boolean("each number less its mean, over its deviation, in the training set; "
                           "targets that are numbers as well")
                 .otherwise("true"));
}
Spec with_inputs(const Spec& s) {
  return with_task(s).maybe(
      "inputs", Spec::string("what a sample is; by default bytes are pixels, all else numbers")
                    .one_of({"numbers", "pixels", "tokens"}));
}

Spec npz_spec() {
  const Spec arrays = Spec::object("other arrays of the file")
                          .with("x", Spec::string("the array of inputs"))
                          .with("y", Spec::string("the array of targets"));
  return with_inputs(
      Spec::object("two arrays of a .npz of NumPy, whose first axis counts samples")
          .with("npz", main_file_spec("the file"))
          .maybe("x", Spec::string("the array of inputs").otherwise("\"x\""))
          .maybe("y", Spec::string("the array of targets").otherwise("\"y\""))
          .maybe("test", Spec::any_of({share_spec(), file_spec("another .npz"), arrays},
                                      "what is tested on")
                             .otherwise("0.2")));
}

Spec npy_spec() {
  const auto pair = [](const char* doc) {
    return Spec::array(Spec::string("a .npy file"), doc).length(2, 2);
  };
  return with_inputs(
      Spec::object("two arrays of NumPy, whose first axis counts samples")
          .with("npy", pair("files of the inputs and of the targets"))
          .maybe("test", Spec::any_of({share_spec(), pair("two other files")}, "what is tested on")
                             .otherwise("0.2")));
}

Spec csv_spec() {
  return with_task(
      Spec::object("a table, separated by commas, semicolons or tabs, of numbers")
          .with("csv", main_file_spec("the file"))
          .with("target", column_spec("the column that is told: numbers, or names of classes"))
          .maybe("ignore", Spec::array(column_spec("a column"), "columns that do not come in"))
          .maybe("header", Spec::boolean("whether the first line names the columns; by default it "
                                         "does if it holds no number"))
          .maybe("test",
                 Spec::any_of({share_spec(), file_spec("another table")}, "what is tested on")
                     .otherwise("0.2")));
}

Spec png_spec() {
  return with_seed(Spec::object("PNG images, in a folder for each class; all of one size")
                       .with("png", main_file_spec("the folder of those"))
                       .maybe("test", Spec::any_of({share_spec(), file_spec("another such folder")},
                                                   "what is tested on")
                                          .otherwise("0.2")));
}

Column read_column(const Json& v) {
  return v.is_string() ? Column{v.get<std::string>(), 0} : Column{"", v.get<int64_t>()};
}

OwnData read_own(const Json& data) {
  using Format = OwnData::Format;
  OwnData own;
  if (data.contains("npz")) {
    own.format = Format::npz;
    own.all = {data["npz"].get<std::string>(), data["x"].get<std::string>(),
               data["y"].get<std::string>()};
  } else if (data.contains("npy")) {
    own.format = Format::npy;
    own.all = {data["npy"][0].get<std::string>(), "", data["npy"][1].get<std::string>()};
  } else if (data.contains("csv")) {
    own.format = Format::csv;
    own.all.file = data["csv"].get<std::string>();
    own.target = read_column(data["target"]);
    if (data.contains("ignore"))
      for (const Json& c : data["ignore"]) own.ignored.push_back(read_column(c));
    if (data.contains("header")) own.header = data["header"].get<bool>();
  } else if (data.contains("png")) {
    own.format = Format::png;
    own.all.file = data["png"].get<std::string>();
  } else {
    return own;
  }
  const Json& test = data["test"];
  if (test.is_number()) {
    own.test_share = test.get<double>();
  } else {
    own.test = own.all;
    if (test.is_string()) own.test->file = test.get<std::string>();
    if (test.is_object()) own.test->x = test["x"], own.test->y = test["y"];
    if (test.is_array()) own.test->file = test[0], own.test->y = test[1];
  }
  for (OwnData::Files* p : {&own.all, own.test ? &*own.test : nullptr}) {
    if (!p) continue;
    p->file = data_folder(p->file);
    if (own.format == Format::npy) p->y = data_folder(p->y);
  }
  own.seed = data["seed"].get<uint64_t>();
  own.task = data.value("task", "");
  own.inputs = data.value("inputs", "");
  own.standardize = data.value("standardize", true);
  return own;
}

void limit(Samples& set, int64_t count, const Form& form) {
  if (count == 0 || count >= set.count) return;
  set.count = count;
  std::visit([&](auto& all) { all.resize(size_t(count * form.inputs_each())); }, set.inputs);
  std::visit([&](auto& all) { all.resize(size_t(count * form.targets_each())); }, set.targets);
}

}  // namespace

Spec data_spec() {
  const Spec limit = Spec::integer("samples used; by default all").at_least(1);
  const auto count = [](const char* doc) { return Spec::integer(doc).at_least(1).at_most(1e7); };
  return Spec::any_of(
      {Spec::object("digits drawn by the program, 28 x 28")
           .with("name", Spec::string("name of the data set").one_of({"digits"}))
           .maybe("train", count("training images").otherwise("6000"))
           .maybe("test", count("test images").otherwise("1000"))
           .maybe("seed", Spec::integer("seed of the drawing").at_least(0).otherwise("0")),
       Spec::object("sequences to copy: random symbols, a separator, the same symbols again")
           .with("name", Spec::string("name of the data set").one_of({"copy"}))
           .maybe("train", count("training sequences").otherwise("4000"))
           .maybe("test", count("test sequences").otherwise("500"))
           .maybe("symbols", Spec::integer("different symbols; the separator is one token more")
                                 .at_least(1)
                                 .at_most(255)
                                 .otherwise("16"))
           .maybe("length",
                  Spec::integer("symbols to copy").at_least(1).at_most(4096).otherwise("10"))
           .maybe("seed", Spec::integer("seed of the symbols").at_least(0).otherwise("0")),
       Spec::object("files of the MNIST family, plain or .gz")
           .with("idx", Spec::string(std::string("their folder, ") + kWhere))
           .maybe("train", limit)
           .maybe("test", limit),
       csv_spec(), npz_spec(), npy_spec(), png_spec()},
      "the data set");
}

DataConfig read_data(const Json& data) {
  DataConfig c;
  c.own = read_own(data);
  if (c.own.any()) return c;
  c.idx = data_folder(data.value("idx", ""));
  c.name = data.value("name", "");
  c.train = data.value("train", int64_t(0));
  c.test = data.value("test", int64_t(0));
  c.seed = data.value("seed", uint64_t(0));
  c.symbols = data.value("symbols", int64_t(0));
  c.length = data.value("length", int64_t(0));
  return c;
}

DataConfig tested_on(const DataConfig& config, const std::string& named) {
  DataConfig out;
  if (!config.own.any()) {
    out.idx = named;
    return out;
  }
  out.own = config.own;
  OwnData& own = out.own;
  if (!own.test) own.test = own.all;
  own.test_only = true;
  own.test->file = named;
  if (own.format != OwnData::Format::npy) return out;
  const size_t comma = named.find(',');
  if (comma == std::string::npos)
    fail(ErrorKind::config, "--data", "expected inputs and targets as \"X.npy,Y.npy\", got \"",
         named, "\"");
  own.test->file = named.substr(0, comma);
  own.test->y = named.substr(comma + 1);
  return out;
}

Dataset load_data(const DataConfig& config, const Form* kept) {
  if (config.own.any()) return load_own(config.own, kept);
  if (config.idx.empty() && config.name == "copy")
    return make_copy(config.train, config.test, config.symbols, config.length, config.seed);
  if (config.idx.empty()) return make_digits(config.train, config.test, config.seed);
  const std::string below = below_data_root(config.idx);
  Dataset data =
      load_idx(config.idx, join(below.empty() ? ""
                                              : "; nor is there " + below +
                                                    ", in the folder of data sets "
                                                    "(GRADUS_DATA, or data)",
                                "; name the folder that has them with --set data.idx=DIR (of a "
                                "finished run: --data DIR)"));
  if (data.train.count == 0 || data.test.count == 0)
    fail(ErrorKind::io, config.idx, "the ", data.train.count == 0 ? "training" : "test",
         " set holds no images");
  limit(data.train, config.train, data);
  limit(data.test, config.test, data);
  return data;
}

Dataset probe_data(const DataConfig& config) {
  DataConfig one = config;
  one.train = one.test = 1;
  return load_data(one);
}

}  // namespace gradus::training
