#include "cli/runs/form_file.hpp"

#include "cli/frame/events.hpp"
#include "engine/files/file.hpp"
#include "engine/config/options.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace gradus::inline v1::cli {

namespace {

constexpr const char* kFormat = "gradus.data/1";
const std::vector<std::string>& kinds() {
  static const std::vector<std::string> names{"pixels", "numbers", "tokens"};
  return names;
}

std::string sum_of(Json all) {
  all.erase("crc32");
  return crc32_text(crc32_of(all.dump()));
}

Spec file_spec() {
  const auto texts = [](const char* doc) { return Spec::array(Spec::string("a name"), doc); };
  const auto numbers = [](const char* doc) { return Spec::array(Spec::number("a number"), doc); };
  const Spec sizes =
      Spec::array(Spec::integer("one of them").at_least(1), "of a sample").length(0, 64);
  const Spec part = Spec::object("samples")
                        .with("samples", Spec::integer("how many").at_least(0))
                        .with("crc32", Spec::string("of all of them"));
  return Spec::object("the data of a run")
      .with("format", Spec::string("of this file").one_of({kFormat}))
      .with("name", Spec::string("where the data came from"))
      .with("inputs", Spec::object("what comes in")
                          .with("kind", Spec::string("of a sample").one_of(kinds()))
                          .with("sizes", sizes)
                          .with("columns", texts("names of its numbers"))
                          .with("mean", numbers("taken from each number"))
                          .with("scale", numbers("what it is then divided by")))
      .with("targets", Spec::object("what is told")
                           .with("name", Spec::string("what it is called"))
                           .with("sizes", sizes)
                           .with("classes", Spec::integer("0: numbers are told").at_least(0))
                           .with("names", texts("of the classes"))
                           .with("mean", numbers("added to each number"))
                           .with("scale", numbers("what it is multiplied with before")))
      .with("train", part)
      .with("test", part)
      .with("crc32", Spec::string("of the rest, on one line, keys sorted"));
}

Scaling read_scaling(const Json& v, int64_t each, const std::string& file, const char* what) {
  Scaling s{v["mean"].get<std::vector<double>>(), v["scale"].get<std::vector<double>>()};
  const bool fits = s.mean.size() == s.scale.size() &&
                    (s.mean.empty() || int64_t(s.mean.size()) == each) &&
                    std::all_of(s.scale.begin(), s.scale.end(), [](double x) { return x > 0; });
  if (!fits)
    fail(ErrorKind::io, file, what, ": mean and scale are ", s.mean.size(), " and ", s.scale.size(),
         " numbers, expected none or ", each, ", and scales above 0");
  return s;
}

// At most what memory could hold, so that products of sizes have no overflow.
void check_sizes(const std::vector<int64_t>& sizes, const std::string& file) {
  int64_t n = 1;
  for (const int64_t size : sizes)
    if (__builtin_mul_overflow(n, size, &n) || n > int64_t(1) << 40)
      fail(ErrorKind::io, file, "inputs.sizes: a sample is too large");
}

KeptForm::Part read_part(const Json& v) {
  return {v["samples"].get<int64_t>(), v["crc32"].get<std::string>()};
}

}  // namespace

void write_form(const std::string& run_dir, const Dataset& data) {
  const auto part = [](const Samples& s) {
    return Event{{"samples", s.count}, {"crc32", crc32_text(s.crc32())}};
  };
  Event all{{"format", kFormat},
            {"name", data.name},
            {"inputs",
             {{"kind", kinds()[size_t(data.kind)]},
              {"sizes", data.sizes},
              {"columns", data.columns},
              {"mean", data.scaling.mean},
              {"scale", data.scaling.scale}}},
            {"targets",
             {{"name", data.target},
              {"sizes", data.target_sizes},
              {"classes", data.classes},
              {"names", data.class_names},
              {"mean", data.target_scaling.mean},
              {"scale", data.target_scaling.scale}}},
            {"train", part(data.train)},
            {"test", part(data.test)}};
  all["crc32"] = sum_of(Json::parse(line_of(all)));
  write_file_atomically(path_in(run_dir, kFormFile),
                        all.dump(1, ' ', false, Event::error_handler_t::replace) + "\n");
}

std::optional<KeptForm> read_form(const std::string& run_dir) {
  const std::string file = path_in(run_dir, kFormFile);
  if (::access(file.c_str(), F_OK) != 0) return std::nullopt;
  const Json all = read_json(file, file_spec());
  if (all["crc32"] != sum_of(all))
    fail(ErrorKind::io, file, "damaged: its values give the CRC-32 ", sum_of(all), ", it says ",
         shown(all["crc32"]));
  const Json &inputs = all["inputs"], &targets = all["targets"];
  KeptForm kept;
  Form& f = kept.form;
  f.name = all["name"].get<std::string>();
  f.kind = InputKind(std::find(kinds().begin(), kinds().end(), inputs["kind"].get<std::string>()) -
                     kinds().begin());
  f.sizes = inputs["sizes"].get<std::vector<int64_t>>();
  f.columns = inputs["columns"].get<std::vector<std::string>>();
  f.target = targets["name"].get<std::string>();
  f.target_sizes = targets["sizes"].get<std::vector<int64_t>>();
  f.classes = targets["classes"].get<int64_t>();
  f.class_names = targets["names"].get<std::vector<std::string>>();
  check_sizes(f.sizes, file);
  check_sizes(f.target_sizes, file);
  f.scaling = read_scaling(inputs, f.inputs_each(), file, "inputs");
  f.target_scaling = read_scaling(targets, f.targets_each(), file, "targets");
  if (!f.class_names.empty() && int64_t(f.class_names.size()) != f.classes)
    fail(ErrorKind::io, file, "targets: ", f.class_names.size(), " names for ", f.classes,
         " classes");
  if (!f.columns.empty() && int64_t(f.columns.size()) != f.inputs_each())
    fail(ErrorKind::io, file, "inputs: ", f.columns.size(), " names for ", f.inputs_each(),
         " numbers");
  kept.train = read_part(all["train"]);
  kept.test = read_part(all["test"]);
  return kept;
}

void check_samples(const KeptForm& kept, const Dataset& data, const std::string& remedy) {
  const auto compare = [&](const KeptForm::Part& then, const Samples& now, const char* which) {
    if (now.count != then.samples)
      fail(ErrorKind::io, data.name, "gives ", now.count, " ", which,
           " samples, the run began with ", then.samples, "; ", remedy);
    if (const std::string crc = crc32_text(now.crc32()); crc != then.crc32)
      fail(ErrorKind::io, data.name, "its ", which,
           " samples are not those that the run began with ", "(their CRC-32 is ", crc, ", ",
           kFormFile, " says ", then.crc32, "); ", remedy);
  };
  compare(kept.train, data.train, "training");
  compare(kept.test, data.test, "test");
}

}  // namespace gradus::cli
