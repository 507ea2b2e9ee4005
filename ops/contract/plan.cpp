// From an equation to steps: operands are stripped of diagonals and axes of extent 1, labels that
// one operand alone has are summed, an order is searched for the rest and written out step by step.
#include "ops/contract/plan.hpp"

#include "engine/device/pool.hpp"
#include "ops/contract/plan/optimal.hpp"
#include "ops/contract/plan/portfolio.hpp"
#include "ops/contract/plan/slice.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace gradus::inline v1 {

namespace {

bool contains(const Labels& labels, int64_t label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::string expression_text(const Labels& labels) {
  std::string s;
  if (!labels.empty() && is_number_label(labels[0])) {
    for (int64_t l : labels) s += join(s.empty() ? "(" : " ", l - kNumberLabel);
    return s + ")";
  }
  for (int64_t l : labels)
    s += l < kEllipsisLabel        ? letter_text(l)
         : l < kEllipsisLabel + 10 ? std::to_string(l - kEllipsisLabel)
                                   : join("(", l - kEllipsisLabel, ")");
  return s;
}

// By PathOptions::Kind.
constexpr std::string_view kPathNames[] = {"auto",          "greedy",   "optimal",    "left",
                                           "random-greedy", "min-fill", "min-degree", "dissection",
                                           "annealing",     "given"};
constexpr std::span<const std::string_view> kPathKinds(kPathNames);

plan::Family family_of(PathOptions::Kind kind) {
  using Kind = PathOptions::Kind;
  if (kind == Kind::automatic) return plan::Family::portfolio;
  if (kind == Kind::optimal) return plan::Family::exact;
  const auto at =
      std::find(std::begin(plan::kFamilies), std::end(plan::kFamilies), kPathKinds[size_t(kind)]);
  return plan::Family(at - std::begin(plan::kFamilies));
}

plan::SsaPath left_order(size_t tensors) {
  plan::SsaPath path;
  for (size_t k = 1; k < tensors; ++k)
    path.emplace_back(k == 1 ? 0 : int(k), k == 1 ? 1 : int(tensors + k - 2));
  return path;
}

// The list of a linear path: ids in rising order, of which some are gone. A Fenwick tree of counts,
// so that positions are found in logarithmic time.
class Positions {
 public:
  Positions(size_t n, size_t most) : counts_(most + 1) {
    for (size_t k = 0; k < n; ++k) append();
  }
  int count() const { return count_; }
  int of(int id) const {  // how many ids before it are left
    int n = 0;
    for (size_t i = size_t(id); i > 0; i -= i & -i) n += counts_[i];
    return n;
  }
  int id_at(int position) const {
    size_t i = 0;
    for (size_t step = std::bit_floor(counts_.size() - 1); step > 0; step /= 2)
      if (i + step < counts_.size() && counts_[i + step] <= position)
        position -= counts_[i += step];
    return int(i);
  }
  void append() { add(next_++, 1); }
  void remove(int id) { add(id, -1); }

 private:
  void add(int id, int n) {
    count_ += n;
    for (size_t i = size_t(id) + 1; i < counts_.size(); i += i & -i) counts_[i] += n;
  }
  std::vector<int> counts_;
  int next_ = 0, count_ = 0;
};

// Labels are numbered by their place in plan.sizes.
using Ids = SmallVector<int, 6>;

class Planner {
 public:
  Planner(EinsumPlan& plan, const PathOptions& options) : plan_(plan), options_(options) {
    for (const auto& [label, size] : plan.sizes) {
      names_.push_back(label);
      labels_.push_back({double(size), std::log2(std::max(double(size), 1.0)), 0, 0});
    }
    const auto used = [&](int64_t label) {
      size_t at = size_t(label - names_[0]);  // often they are all the numbers in a row
      if (at >= names_.size() || names_[at] != label)
        at = size_t(std::lower_bound(names_.begin(), names_.end(), label) - names_.begin());
      ++labels_[at].uses;
      return int(at);
    };
    for (int64_t l : plan.output)
      if (plan.sizes.at(l) != 1) output_.push_back(used(l));
    for (const Labels& labels : plan.operands) {
      Ids& slot = slots_.emplace_back();
      for (int64_t l : labels) slot.push_back(used(l));
    }
  }
  void run() {
    const size_t n = slots_.size();
    for (const int64_t label : options_.sliced) slice(label);
    for (size_t k = 0; k < n; ++k)
      if (options_.sum_alone || n == 1) sum_alone(int(k));
    plan::SsaPath order = search();
    if (std::isfinite(options_.most_elements) && n > 1) slice(&order);
    plan_.steps.reserve(plan_.steps.size() + order.size());
    for (size_t i = 0; i < order.size(); ++i)
      pair(order[i].first, order[i].second, i + 1 == order.size());
    plan_.path = linear(order, n);
    plan_.flops *= plan_.slices;
    plan_.seconds_model *= plan_.slices;
  }

 private:
  Labels named(const Ids& ids) const {
    Labels labels;
    labels.reserve(ids.size());
    for (int l : ids) labels.push_back(names_[size_t(l)]);
    return labels;
  }

  double log2_size(const Ids& ids) const {
    double n = 0;
    for (int l : ids) n += labels_[size_t(l)].log2_extent;
    return n;
  }

  void sum_alone(int k) {
    const Ids& all = slots_[size_t(k)];
    Ids kept;
    double products = 1;
    for (int l : all) {
      products *= labels_[size_t(l)].extent;
      if (labels_[size_t(l)].uses > 1) kept.push_back(l);
    }
    if (kept.size() == all.size()) return;
    const double work = log2_size(all);
    plan_.seconds_model += options_.step_time.seconds(work, 0, log2_size(kept), work);
    add({k, -1, k, named(all), {}, {}, products, 0, true}, std::move(kept));
  }
  // Batch labels first, then what left alone has, then right's: the layout of a batched product.
  void pair(int left, int right, bool last) {
    Ids a = std::move(slots_[size_t(left)]), b = std::move(slots_[size_t(right)]);
    auto& [batch, only_a, only_b] = parts_;
    for (Ids& part : parts_) part.clear();
    double products = 1, work = 0;  // work: log2 of the products
    bool sums = false;
    const auto stays = [&](Label& label, bool both) {
      work += label.log2_extent;
      products *= label.extent;
      const bool yes = label.uses - both > 1;
      sums |= !yes;
      label.uses -= both;
      return yes;
    };
    const int in_b = ++step_;
    for (int l : b) labels_[size_t(l)].met = in_b;
    for (int l : a) {
      Label& label = labels_[size_t(l)];
      const bool both = label.met == in_b;
      if (both) label.met = 0;
      if (stays(label, both)) (both ? batch : only_a).push_back(l);
    }
    for (int l : b)
      if (Label& label = labels_[size_t(l)]; label.met == in_b && stays(label, false))
        only_b.push_back(l);
    for (int l : only_a) batch.push_back(l);
    for (int l : only_b) batch.push_back(l);
    plan_.seconds_model +=
        options_.step_time.seconds(log2_size(a), log2_size(b), log2_size(batch), work);
    EinsumStep step{left,     right, int(slots_.size()),        named(a),
                    named(b), {},    products * (sums ? 2 : 1), 0,
                    sums};
    slots_.emplace_back();
    Ids& result = a.size() < b.size() ? b : a;  // large ones are not allocated anew
    result.clear();
    result.append(batch.begin(), batch.size());
    add(std::move(step), last ? output_ : std::move(result));
  }
  void add(EinsumStep step, Ids result) {
    step.labels = named(result);
    step.elements = 1;
    for (int l : result) step.elements *= labels_[size_t(l)].extent;
    plan_.flops += step.flops;
    plan_.largest_intermediate = std::max(plan_.largest_intermediate, step.elements);
    slots_[size_t(step.result)] = std::move(result);
    plan_.steps.push_back(std::move(step));
  }

  plan::SsaPath search() {
    using Kind = PathOptions::Kind;
    const size_t n = slots_.size();
    plan_.family = kPathKinds[size_t(options_.kind)];
    if (options_.kind == Kind::fixed) return from_linear(n);
    if (options_.kind == Kind::left || n <= 2) return left_order(n);
    if ((options_.kind == Kind::optimal && n <= PathOptions::kMaxOptimal) ||
        (options_.kind == Kind::automatic && n <= 8)) {
      plan_.family = "optimal";
      return plan::optimal(network());
    }
    plan::Watch watch;
    if (options_.watch)
      watch = [&](double units, const plan::Cost& best) {
        options_.watch(units, options_.budget, best.log2_mults);
      };
    plan::Order order = plan::find_order(network(), family_of(options_.kind), options_.seed,
                                         options_.budget, 0, watch);
    plan_.family = plan::kFamilies[size_t(order.family)];
    plan_.units = order.units;
    return std::move(order.path);
  }
  void slice(plan::SsaPath* order) {
    plan::Budget budget(options_.budget);
    plan::Sliced found =
        plan::slice(network(), *order, std::log2(options_.most_elements), options_.seed, budget);
    plan_.units += options_.budget - budget.left();
    *order = std::move(found.path);
    for (const int l : found.labels) slice(names_[size_t(l)]);
  }
  void slice(int64_t label) {
    const auto l = size_t(std::lower_bound(names_.begin(), names_.end(), label) - names_.begin());
    if (l == names_.size() || names_[l] != label || contains(plan_.output, label) ||
        contains(plan_.sliced, label))
      fail(ErrorKind::value, "einsum", label_text(label),
           " cannot be looped over: expected different labels that are summed");
    plan_.sliced.push_back(label);
    plan_.slices *= std::exchange(labels_[l].extent, 1);
    labels_[l].log2_extent = 0;
  }
  plan::Network network() const {
    plan::Network net;
    for (const Label& label : labels_) net.log2_extent.push_back(label.log2_extent);
    if (options_.by_time) net.time = options_.step_time;
    net.open.assign(labels_.size(), false);
    for (int l : output_) net.open[size_t(l)] = true;
    for (const Ids& ids : slots_) {
      plan::LabelSet& out = net.tensors.emplace_back(ids.begin(), ids.end());
      std::sort(out.begin(), out.end());
    }
    return net;
  }
  plan::SsaPath from_linear(size_t n) const {
    Positions list(n, n + options_.path.size());
    plan::SsaPath out;
    for (const auto& [i, j] : options_.path) {
      const int low = std::min(i, j), high = std::max(i, j);
      if (low < 0 || high >= list.count() || low == high)
        fail(ErrorKind::value, "einsum", "path step ", out.size(), " is [", i, ", ", j,
             "]: expected two positions of a list of ", list.count());
      out.emplace_back(list.id_at(low), list.id_at(high));
      list.remove(out.back().first);
      list.remove(out.back().second);
      list.append();
    }
    if (list.count() != 1)
      fail(ErrorKind::value, "einsum", "the path has ", out.size(), " steps, ", n,
           " operands need ", n - 1);
    return out;
  }
  static ContractionPath linear(const plan::SsaPath& order, size_t n) {
    Positions list(n, n + order.size());
    ContractionPath path;
    for (const auto& [a, b] : order) {
      path.emplace_back(list.of(std::min(a, b)), list.of(std::max(a, b)));
      list.remove(a);
      list.remove(b);
      list.append();
    }
    return path;
  }

  EinsumPlan& plan_;
  const PathOptions& options_;
  // What is read of a label at a time lies side by side: in large networks each read is a miss.
  struct Label {
    double extent, log2_extent;
    int uses;  // slots that have it, and the output
    int met;   // the last step whose right operand alone has it
  };
  std::vector<int64_t> names_;  // of labels by number
  std::vector<Label> labels_;
  Ids output_;                // without extents of 1
  std::vector<Ids> slots_;    // what is left of each operand and result
  std::array<Ids, 3> parts_;  // within pair()
  int step_ = 0;
};

}  // namespace

std::span<const std::string_view> path_kind_names() {
  return kPathKinds.first(kPathKinds.size() - 1);
}

std::string EinsumStep::expression() const {
  return expression_text(left_labels) + (right < 0 ? "" : "," + expression_text(right_labels)) +
         "->" + expression_text(labels);
}

std::string_view path_kind_name(PathOptions::Kind kind) { return kPathKinds[size_t(kind)]; }

PathOptions::Kind parse_path_kind(std::string_view name) {
  const auto names = path_kind_names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return PathOptions::Kind(at - names.begin());
  std::string list;
  for (const std::string_view n : names)
    list += join(list.empty() ? "" : n == names.back() ? " or " : ", ", n);
  fail(ErrorKind::value, "einsum", "unknown path \"", name, "\"; write ", list,
       did_you_mean(name, names));
}

static EinsumPlan plan_bound(std::string equation, BoundEquation bound,
                             const std::vector<Shape>& shapes, const PathOptions& options) {
  EinsumPlan plan;
  plan.equation = std::move(equation);
  plan.terms = std::move(bound.terms);
  plan.output = std::move(bound.output);
  plan.sizes = std::move(bound.sizes);
  plan.shapes = shapes;
  for (size_t k = 0; k < shapes.size(); ++k) {
    Labels& labels = plan.operands.emplace_back();
    for (size_t axis = 0; axis < shapes[k].size(); ++axis)
      if (shapes[k][axis] != 1 && !contains(labels, plan.terms[k][axis]))
        labels.push_back(plan.terms[k][axis]);
  }
  Planner(plan, options).run();
  return plan;
}

EinsumPlan plan_einsum(std::string_view equation, const std::vector<Shape>& shapes,
                       const PathOptions& options) {
  return plan_bound(std::string(equation), bind_equation(parse_equation(equation), shapes), shapes,
                    options);
}

EinsumPlan plan_einsum(const std::vector<Labels>& terms, const std::optional<Labels>& output,
                       const std::vector<Shape>& shapes, const PathOptions& options) {
  BoundEquation bound = bind_labels(terms, output, shapes);
  std::string equation;
  for (const Labels& term : bound.terms)
    equation += (equation.empty() ? "" : ",") + expression_text(term);
  equation += "->" + expression_text(bound.output);
  return plan_bound(std::move(equation), std::move(bound), shapes, options);
}

EinsumPlan replanned(const EinsumPlan& plan, const std::vector<Shape>& shapes,
                     const PathOptions& options) {
  return plan_bound(plan.equation, bind_terms(plan.terms, plan.output, shapes), shapes, options);
}

double pool_bytes(double elements, DType dtype) {
  const double bytes = elements * double(itemsize(dtype));
  return bytes < 0x1p60 ? double(Pool::rounded(size_t(bytes))) : bytes;
}

double peak_bytes(const EinsumPlan& plan, DType dtype, bool keep, bool pooled) {
  const auto bytes_of = [&](double elements) {
    return pooled ? pool_bytes(elements, dtype) : elements * double(itemsize(dtype));
  };
  double live = 0;
  for (const Shape& shape : plan.shapes) {
    double n = 1;
    for (int64_t extent : shape) n *= double(extent);
    live += bytes_of(n);
  }
  double peak = live;
  std::vector<double> intermediates(2 * plan.shapes.size());  // by slot
  for (const EinsumStep& step : plan.steps) {
    const double bytes = bytes_of(step.elements);
    live += bytes;
    peak = std::max(peak, live);
    for (int slot : {step.left, step.right})
      if (!keep && slot >= 0) live -= std::exchange(intermediates[size_t(slot)], 0);
    intermediates[size_t(step.result)] += bytes;
  }
  return peak;
}

}  // namespace gradus
