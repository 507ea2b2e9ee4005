#include "ops/contract/plan_file.hpp"

#include "engine/files/file.hpp"
#include "engine/tensor.hpp"
#include "ops/contract/cost_file.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gradus::inline v1 {

namespace {

constexpr const char* kFormat = "gradus.plan/1";

// Labels by their first place in the operands.
class Numbering {
 public:
  explicit Numbering(const EinsumPlan& plan) {
    for (const Labels& term : plan.terms)
      for (const int64_t label : term)
        if (numbers_.try_emplace(label, int64_t(numbers_.size())).second) labels_.push_back(label);
  }
  std::vector<int64_t> of(const Labels& labels) const {
    std::vector<int64_t> numbers;
    for (const int64_t label : labels) numbers.push_back(numbers_.at(label));
    return numbers;
  }
  const std::vector<int64_t>& labels() const { return labels_; }

 private:
  std::map<int64_t, int64_t> numbers_;
  std::vector<int64_t> labels_;
};

class PlanReader {
 public:
  PlanReader(const std::string& text, const std::string& file)
      : file_(file), json_(parse_json(text, file)) {
    if (!json_.is_object() || json_.value("format", Json()) != kFormat)
      wrong("expected a plan, {\"format\": \"", kFormat, "\", ...}, as --plan-out writes it; got ",
            json_.is_object() && json_.contains("format")
                ? join("the format ", shown(json_["format"]))
                : shown(json_));
  }

  EinsumPlan read(PathOptions options) const try {
    std::vector<Labels> terms;
    for (const Json& term : list("labels")) terms.push_back(numbers<Labels>(term, "labels"));
    std::vector<Shape> shapes;
    for (const Json& shape : list("shapes")) {
      shapes.push_back(numbers<Shape>(shape, "shapes"));
      numel_of(shapes.back());
    }
    const Labels output = numbers<Labels>(list("output"), "output");
    options.kind = PathOptions::Kind::fixed;
    for (const Json& pair : list("path")) {
      const Ints at = numbers<Ints>(pair, "path");
      if (at.size() != 2) wrong("path: expected pairs of positions, got ", shown(pair));
      options.path.emplace_back(int(at[0]), int(at[1]));
    }
    // The labels' own names decide what "sliced" is called in the plan.
    const EinsumPlan whole = plan_einsum(terms, output, shapes, options);
    const EinsumPlan named = json_.contains("expression") ? lettered(whole, options) : whole;
    const std::vector<int64_t> labels = Numbering(named).labels();
    for (const int64_t k : numbers<Ints>(list("sliced"), "sliced")) {
      if (size_t(k) >= labels.size()) wrong("sliced: ", k, " is no label");
      options.sliced.push_back(labels[size_t(k)]);
    }
    return options.sliced.empty() ? named : replanned(named, shapes, options);
  } catch (const Error& e) {
    if (e.op() == file_) throw;
    throw Error(ErrorKind::config, file_, e.message());
  }

 private:
  using Ints = std::vector<int64_t>;
  template <class... P>
  [[noreturn]] void wrong(const P&... parts) const {
    fail(ErrorKind::config, file_, parts...);
  }
  const Json& list(const char* key) const {
    if (!json_.contains(key) || !json_[key].is_array()) wrong("expected a list \"", key, "\"");
    return json_[key];
  }
  template <class List>
  List numbers(const Json& list, const char* key) const {
    if (!list.is_array()) wrong(key, ": expected a list of whole numbers, got ", shown(list));
    List out;
    for (const Json& n : list) {
      if (!n.is_number_integer() || n < 0 || n > INT32_MAX)
        wrong(key, ": expected whole numbers from 0, got ", shown(n));
      out.push_back(n.get<int64_t>());
    }
    return out;
  }
  // The same plan by its letters.
  EinsumPlan lettered(const EinsumPlan& plan, const PathOptions& options) const {
    const Json& text = json_["expression"];
    if (!text.is_string()) wrong("expression: expected a text, got ", shown(text));
    EinsumPlan named = plan_einsum(text.get<std::string>(), plan.shapes, options);
    if (!same_expression(plan, named)) wrong("expression and labels differ");
    return named;
  }

  const std::string& file_;
  const Json json_;
};

// "asked": what a file of a folder answers; null in others.
std::string text_of(const EinsumPlan& plan, const Json& asked) {
  const Numbering numbering(plan);
  const auto lists = [](const auto& items, const auto& of) {
    Json out = Json::array();
    for (const auto& item : items) out.push_back(of(item));
    return out;
  };
  const auto whole = [](const Shape& shape) {
    return std::vector<int64_t>(shape.begin(), shape.end());
  };
  nlohmann::ordered_json out;
  out["format"] = kFormat;
  const std::vector<int64_t>& labels = numbering.labels();
  if (std::none_of(labels.begin(), labels.end(), is_number_label))
    out["expression"] = plan.equation;
  out["labels"] = lists(plan.terms, [&](const Labels& term) { return numbering.of(term); });
  out["sizes"] = lists(labels, [&](int64_t label) { return plan.sizes.at(label); });
  out["output"] = numbering.of(plan.output);
  out["shapes"] = lists(plan.shapes, whole);
  out["path"] = lists(plan.path, [](const auto& p) { return std::vector{p.first, p.second}; });
  out["sliced"] = numbering.of(plan.sliced);
  out["family"] = plan.family;
  out["units"] = plan.units;
  if (!asked.is_null()) out["asked"] = asked;
  std::string text = "{\n";
  for (const auto& [key, value] : out.items())
    text += join(text.size() > 2 ? ",\n" : "", "  ", Json(key).dump(), ": ", value.dump());
  return text + "\n}\n";
}

}  // namespace

std::string plan_text(const EinsumPlan& plan) { return text_of(plan, nullptr); }

EinsumPlan kept_plan(const std::string& folder, const BoundEquation& asked,
                     const std::vector<Shape>& shapes, PathOptions options,
                     const std::function<EinsumPlan(const PathOptions&)>& plan) {
  EinsumPlan expression;
  expression.terms = asked.terms;
  expression.output = asked.output;
  expression.sizes = asked.sizes;
  expression.shapes = shapes;
  const Json question{{"path", path_kind_name(options.kind)},
                      {"budget", options.budget},
                      {"seed", options.seed},
                      {"sum_alone", options.sum_alone},
                      {"cost", options.by_time ? step_time_json(options.step_time) : Json()}};
  const std::string key = text_of(expression, question);
  const std::string file = join(folder, "/", crc32_text(crc32_of(key)), "-", key.size(), ".json");
  try {
    const std::string text = read_text(file);
    const EinsumPlan kept = parse_plan(text, file, options);
    if (parse_json(text, file).value("asked", Json()) == question &&
        same_expression(kept, expression)) {
      options.kind = PathOptions::Kind::fixed;
      options.path = kept.path;
      return plan(options);
    }
  } catch (const Error&) {  // not there, or no plan
  }
  EinsumPlan found = plan(options);
  write_file_atomically(file, text_of(found, question));
  return found;
}

EinsumPlan parse_plan(const std::string& text, const std::string& file, PathOptions options) {
  return PlanReader(text, file).read(std::move(options));
}

bool same_expression(const EinsumPlan& a, const EinsumPlan& b) {
  if (a.terms.size() != b.terms.size() || !(a.shapes == b.shapes)) return false;
  const Numbering of_a(a), of_b(b);
  for (size_t k = 0; k < a.terms.size(); ++k)
    if (of_a.of(a.terms[k]) != of_b.of(b.terms[k])) return false;
  return of_a.of(a.output) == of_b.of(b.output);
}

}  // namespace gradus
