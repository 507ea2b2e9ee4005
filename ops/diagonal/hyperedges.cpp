#include "ops/diagonal/hyperedges.hpp"

#include "ops/base/dtypes.hpp"
#include "ops/base/recent.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/contract/labelled.hpp"
#include "ops/diagonal/structure.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/creation.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>
#include <map>
#include <memory>

namespace gradus::inline v1 {

namespace {

// Labels that have to be equal, up to permutations. A label has the value index[that of its set].
class MergedLabels {
 public:
  struct Place {
    size_t set;
    Tensor index;  // undefined: in order
  };
  explicit MergedLabels(const std::map<int64_t, int64_t>& sizes) {
    for (const auto& [label, extent] : sizes) {
      number_.emplace(label, parent_.size());
      parent_.push_back(parent_.size());
      extents_.push_back(extent);
    }
    index_.resize(parent_.size());
    leaders_.resize(parent_.size(), kNobody);
  }
  int64_t extent(size_t set) const { return extents_[set]; }
  bool fits(int64_t label, int64_t extent) const { return extents_[number_.at(label)] == extent; }
  size_t sets() const { return parent_.size(); }

  Place find(int64_t label) const {
    const size_t at = number_.at(label);
    const Place place = place_of_root(at);
    return leaders_[place.set] == at ? Place{place.set, Tensor()} : place;
  }
  // A vector of values of what was a set when others were merged with it.
  std::pair<size_t, Tensor> moved(size_t set, const Tensor& x) const {
    const Place place = place_of_root(set);
    return {place.set, reindexed(x, 0, place.index)};
  }
  // value of a = index[value of b]. Where a loop says both of b already, gives their set and, as
  // bool, which of its values do.
  std::pair<size_t, Tensor> merge(int64_t a, int64_t b, const Tensor& index) {
    const Place of_a = find(a), of_b = find(b);
    const Tensor said = composed(index, of_b.index);
    if (of_a.set != of_b.set) {
      parent_[of_a.set] = of_b.set;
      index_[of_a.set] = composed(inverse_of(of_a.index), said);
    } else if (of_a.index.defined() || said.defined()) {
      Device& device = said.defined() ? said.device() : of_a.index.device();
      return {of_b.set, eq(in_full(of_a.index, of_b.set, device), in_full(said, of_b.set, device))};
    }
    return {of_b.set, Tensor()};
  }
  // The set's value becomes that of this label, so that its index is in order.
  void lead(int64_t label) {
    const size_t at = number_.at(label);
    const Place place = place_of_root(at);
    if (leaders_[place.set] != kNobody) return;
    leaders_[place.set] = at;
    index_[place.set] = inverse_of(place.index);
  }

 private:
  static constexpr size_t kNobody = size_t(-1);
  // The index of a root is that of its set's leader, backwards. What lies on the way to the root
  // gets it as its parent.
  Place place_of_root(size_t at) const {
    std::vector<size_t> way;
    for (; parent_[at] != at; at = parent_[at]) way.push_back(at);
    if (way.empty()) return {at, index_[at]};
    for (size_t i = way.size() - 1; i-- > 0;) {
      index_[way[i]] = composed(index_[way[i]], index_[way[i + 1]]);
      parent_[way[i]] = at;
    }
    return {at, composed(index_[way[0]], index_[at])};
  }
  Tensor in_full(const Tensor& index, size_t set, Device& device) const {
    return index.defined() ? index : iota(extents_[set], device);
  }
  std::map<int64_t, size_t> number_;
  mutable std::vector<size_t> parent_;
  std::vector<int64_t> extents_;
  mutable Tensors index_;
  std::vector<size_t> leaders_;  // of sets
};

// What is done with operands of given structures. Of those without indices nothing in it is of
// this call alone.
struct Recipe {
  struct Factor {
    size_t operand;
    Ints ones;        // axes of its payload that hold one value
    Tensors indices;  // of its axes; empty: all in order
    Labels labels;    // of those that are left
  };
  std::vector<Factor> factors;
  std::vector<std::pair<int64_t, Tensor>> masks;  // of merged labels: the values that a loop lets
  Shape loops;     // extents of closed loops: what is left counts so often
  Hyperedges net;  // without operands
  mutable std::shared_ptr<const EinsumPlan> plan;
};

// Copy tensors follow what they meet.
Device& common_device(const ClassedTensors& in) {
  for (const ClassedTensor& x : in)
    if (!x.is_copy() && !x.payload.is_number()) return x.payload.device();
  return in[0].device ? *in[0].device : default_device();
}
DType common_dtype(const ClassedTensors& in) {
  Tensors payloads;
  for (const ClassedTensor& x : in)
    if (!x.is_copy()) payloads.push_back(x.payload);
  if (!payloads.empty()) return result_dtype(payloads);
  DType dtype = in[0].ones;
  for (const ClassedTensor& x : in) dtype = promote(dtype, x.ones);
  return dtype;
}

constexpr int64_t kNone = -1;

class Merger {
 public:
  Merger(const BoundEquation& bound, const ClassedTensors& operands, bool standard)
      : terms_(bound.terms), output_(bound.output), in_(operands), labels_(bound.sizes) {
    for (size_t k = 0; k < in_.size(); ++k) merge_classes(k);
    for (const int64_t label : output_) labels_.lead(label);
    for (size_t k = 0; k < in_.size(); ++k)
      if (!in_[k].is_copy()) add_payload(k);
    for (const auto& [before, mask] : masks_) {
      const auto [set, values] = labels_.moved(before, mask);
      recipe.masks.emplace_back(int64_t(set), values);
      recipe.net.terms.push_back({int64_t(set)});
    }
    held_.resize(labels_.sets(), 0);
    for (const Labels& term : recipe.net.terms)
      for (const int64_t set : term) held_[size_t(set)] = 1;
    add_result();
    close_loops(standard);
  }
  Recipe recipe;

 private:
  // The axes of each class get one label: that of an axis in order, if there is one. Where axes of
  // extent 1 are broadcast, each is so by itself.
  void merge_classes(size_t k) {
    const ClassedTensor& x = in_[k];
    Ints& lead = leads_.emplace_back(Ints(x.extents.size(), kNone));
    for (size_t axis = 0; axis < x.classes.size(); ++axis) {
      int64_t& first = lead[size_t(x.classes[axis])];
      if (first == kNone || (x.index(size_t(first)).defined() && !x.index(axis).defined()))
        first = int64_t(axis);
    }
    for (size_t axis = 0; axis < x.classes.size(); ++axis) {
      const auto first = size_t(lead[size_t(x.classes[axis])]);
      if (axis == first) continue;
      if (!labels_.fits(terms_[k][axis], x.size(axis)) ||
          !labels_.fits(terms_[k][first], x.size(first)))
        continue;
      auto [set, mask] = labels_.merge(terms_[k][axis], terms_[k][first],
                                       composed(x.index(axis), inverse_of(x.index(first))));
      if (mask.defined()) masks_.emplace_back(set, mask);
    }
  }

  void add_payload(size_t k) {
    const ClassedTensor& x = in_[k];
    Recipe::Factor factor{k, {}, Tensors(x.extents.size()), {}};
    bool in_order = true;
    for (size_t c = 0; c < x.extents.size(); ++c) {
      if (x.payload.size(int64_t(c)) == 1) {
        factor.ones.push_back(int64_t(c));
        continue;
      }
      const auto axis = size_t(leads_[k][c]);
      const MergedLabels::Place place = labels_.find(terms_[k][axis]);
      factor.indices[c] = composed(inverse_of(x.index(axis)), place.index);
      in_order = in_order && !factor.indices[c].defined();
      factor.labels.push_back(int64_t(place.set));
    }
    if (in_order) factor.indices.clear();
    recipe.net.terms.push_back(factor.labels);
    recipe.factors.push_back(std::move(factor));
  }

  void add_result() {
    Hyperedges& net = recipe.net;
    bool in_order = true;
    for (const int64_t label : output_) {
      const MergedLabels::Place place = labels_.find(label);
      const int64_t set = int64_t(place.set);
      int64_t at = place_of(sets_of_result_, set);
      if (at < 0) {
        at = int64_t(sets_of_result_.size());
        sets_of_result_.push_back(set);
        net.result.extents.push_back(labels_.extent(place.set));
        net.held.push_back(held_[place.set]);
        if (held_[place.set]) net.output.push_back(set);
      }
      net.result.classes.push_back(at);
      net.result.indices.push_back(place.index);
      in_order = in_order && !place.index.defined();
    }
    if (in_order) net.result.indices.clear();
  }
  // A merged label that neither an operand nor the result has is a closed loop: the factor n, or in
  // another algebra the sum of as many ones, an operand.
  void close_loops(bool standard) {
    std::vector<char> seen = held_;
    for (const int64_t set : sets_of_result_) seen[size_t(set)] = 1;
    for (const Labels& term : terms_)
      for (const int64_t label : term) {
        const size_t set = labels_.find(label).set;
        if (!seen[set] && labels_.extent(set) != 1) {
          recipe.loops.push_back(labels_.extent(set));
          if (!standard) recipe.net.terms.push_back({int64_t(set)});
        }
        seen[set] = 1;
      }
    if (!recipe.loops.empty() && recipe.net.terms.empty()) recipe.net.terms.push_back({});
  }

  const std::vector<Labels>& terms_;
  const Labels& output_;
  const ClassedTensors& in_;
  MergedLabels labels_;
  std::vector<Ints> leads_;  // of each operand and class: the axis whose label is the class's
  std::vector<std::pair<size_t, Tensor>> masks_;
  std::vector<char> held_;  // does an operand have this merged label?
  Labels sets_of_result_;
};

// How often what is left counts, as a number for tensors of this dtype.
Tensor times_of(const Shape& loops, DType dtype) {
  double times = 1;
  uint64_t wrapped = 1;  // as integers do
  for (const int64_t n : loops) times *= double(n), wrapped *= uint64_t(n);
  if (dtype == DType::i64) return int64_t(wrapped);
  if (dtype == DType::i32) return int64_t(int32_t(wrapped));
  if (dtype == DType::u8) return int64_t(uint8_t(wrapped));
  const bool whole = times < 0x1p53;  // and exact
  if (!whole && !is_floating(dtype))
    fail(ErrorKind::value, "einsum", "closed loops count ", times, " times, too often for ", dtype);
  return whole ? Tensor(int64_t(times)) : Tensor(times);
}

Tensors operands_of(const Recipe& recipe, const ClassedTensors& in,
                    Algebra algebra = Algebra::standard) {
  Tensors operands;
  for (const Recipe::Factor& factor : recipe.factors) {
    Tensor payload = in[factor.operand].payload;
    for (size_t c = 0; c < factor.indices.size(); ++c)
      payload = reindexed(payload, int64_t(c), factor.indices[c]);
    operands.push_back(factor.ones.empty() ? payload : squeeze(payload, factor.ones));
  }
  for (const auto& [set, mask] : recipe.masks) operands.push_back(cast(mask, common_dtype(in)));
  if (recipe.loops.empty()) return operands;
  const DType dtype = common_dtype(in);
  Device& device = common_device(in);
  if (algebra != Algebra::standard) {
    for (const int64_t n : recipe.loops)
      operands.push_back(expand(Tensor::full({1}, 1, dtype, device), {n}));
    return operands;
  }
  const Tensor times = times_of(recipe.loops, dtype);
  if (operands.empty()) return {materialise(times, dtype, device)};
  const auto least =
      std::min_element(operands.begin(), operands.end(),
                       [](const Tensor& a, const Tensor& b) { return a.numel() < b.numel(); });
  *least = mul(cast(*least, dtype), times);
  return operands;
}

std::vector<Shape> dense_sizes(const ClassedTensors& operands) {
  std::vector<Shape> sizes;
  for (const ClassedTensor& x : operands) sizes.push_back(x.sizes());
  return sizes;
}

// Of structures without indices, recipes of this thread's latest einsums.
using RecipeRef = std::shared_ptr<const Recipe>;
RecipeRef recipe_by(CallKey& key, const ClassedTensors& in, bool standard, const auto& bind) {
  const auto make = [&] { return Merger(bind(), in, standard).recipe; };
  key.add(int64_t(standard));
  key.add(int64_t(in.size()));
  for (const ClassedTensor& x : in) {
    if (!x.indices.empty()) return std::make_shared<const Recipe>(make());
    key.add(x.classes);
    key.add(x.extents);
    key.add(int64_t(x.is_copy()));
    if (!x.is_copy()) key.add(x.payload.sizes());
  }
  return recent<Recipe>(key, make);
}
RecipeRef recipe_of(std::string_view equation, const ClassedTensors& in, bool standard = true) {
  CallKey key;
  key.add(equation);
  return recipe_by(key, in, standard, [&] {
    return bind_equation(parse_equation(equation, RepeatedOutput::allowed), dense_sizes(in));
  });
}
RecipeRef recipe_of(const ClassedTensors& in, const std::vector<Labels>& labels,
                    const Labels& output, bool standard = true) {
  CallKey key;
  key.add(int64_t(labels.size()));
  for (const Labels& term : labels) key.add(term);
  key.add(output);
  return recipe_by(key, in, standard, [&] {
    return bind_labels(labels, output, dense_sizes(in), RepeatedOutput::allowed);
  });
}

EinsumPlan plan_of(const Hyperedges& net, const Tensors& operands, const PathOptions& options) {
  std::vector<Shape> shapes;
  for (const Tensor& x : operands) shapes.push_back(x.sizes());
  return plan_einsum(net.terms, net.output, shapes, options);
}

// y has the merged labels of `output` alone: of the others of the result it has one value.
ClassedTensor with_value(const Hyperedges& net, const Tensor& y) {
  ClassedTensor x = net.result;
  x.payload = y;
  if (net.output.size() == x.extents.size()) return x;
  Shape sizes;
  size_t at = 0;
  for (const char held : net.held) sizes.push_back(held ? y.sizes()[at++] : 1);
  x.payload = reshape(y, sizes);
  return x;
}
// Of copy tensors alone.
ClassedTensor with_ones(const Hyperedges& net, const ClassedTensors& in) {
  ClassedTensor x = net.result;
  x.ones = common_dtype(in);
  x.device = &common_device(in);
  return x;
}

ClassedTensor contracted(const Recipe& recipe, const ClassedTensors& in, Algebra algebra) {
  if (algebra != Algebra::standard) {
    Tensors payloads;
    for (const ClassedTensor& x : in) payloads.push_back(x.is_copy() ? Tensor(1) : x.payload);
    check_algebra("einsum", algebra, payloads, common_dtype(in));
  }
  if (recipe.net.terms.empty()) return with_ones(recipe.net, in);
  const Tensors operands = operands_of(recipe, in, algebra);
  if (!recipe.plan)
    recipe.plan = std::make_shared<const EinsumPlan>(plan_of(recipe.net, operands, {}));
  return with_value(recipe.net, einsum(*recipe.plan, operands, algebra));
}

// For an algebra whose zero is not what is left out.
Tensors made_dense(const ClassedTensors& in) {
  Tensors dense;
  for (ClassedTensor x : in) {
    if (x.is_copy()) x.ones = common_dtype(in), x.device = &common_device(in);
    dense.push_back(x.is_dense() ? x.payload : to_dense(x));
  }
  return dense;
}
void check_repeated(const Labels& output, std::string_view shown, Algebra algebra) {
  for (size_t i = 0; i < output.size(); ++i)
    if (place_of(output, output[i]) != int64_t(i))
      fail(
          ErrorKind::value, "einsum", "the output ", shown,
          " repeats a label; diagonals are kept in the algebras standard, boolean and mod, not in ",
          algebra_name(algebra));
}

Hyperedges with_operands(const Recipe& recipe, const ClassedTensors& in) {
  Hyperedges net = recipe.net;
  net.operands = operands_of(recipe, in);
  if (net.terms.empty()) net.result = with_ones(net, in);
  return net;
}

}  // namespace

Hyperedges hyperedges(std::string_view equation, const ClassedTensors& operands) {
  return with_operands(*recipe_of(equation, operands), operands);
}
Hyperedges hyperedges(const ClassedTensors& operands, const std::vector<Labels>& labels,
                      const Labels& output) {
  return with_operands(*recipe_of(operands, labels, output), operands);
}

EinsumPlan Hyperedges::plan(const PathOptions& options) const {
  if (operands.empty())
    fail(ErrorKind::value, "einsum", "copy tensors alone leave nothing to contract, and no plan");
  return plan_of(*this, operands, options);
}
ClassedTensor Hyperedges::contracted() const {
  return operands.empty() ? result : with_value(*this, einsum(operands, terms, output));
}
ClassedTensor Hyperedges::contracted(const EinsumPlan& plan) const {
  return operands.empty() ? result : with_value(*this, einsum(plan, operands));
}

ClassedTensor einsum_classed(std::string_view equation, const ClassedTensors& operands,
                             Algebra algebra) {
  const bool standard = algebra == Algebra::standard;
  if (skips_zeros(algebra))
    return contracted(*recipe_of(equation, operands, standard), operands, algebra);
  if (const Equation e = parse_equation(equation, RepeatedOutput::allowed); e.output)
    check_repeated(e.output->letters, join("\"", e.output->text, "\""), algebra);
  return einsum(equation, made_dense(operands), algebra);
}
ClassedTensor einsum_classed(const ClassedTensors& operands, const std::vector<Labels>& labels,
                             const Labels& output, Algebra algebra) {
  const bool standard = algebra == Algebra::standard;
  if (skips_zeros(algebra))
    return contracted(*recipe_of(operands, labels, output, standard), operands, algebra);
  check_repeated(output, to_text(output), algebra);
  return einsum(made_dense(operands), labels, output, algebra);
}
ClassedTensor contract(const ClassedTensor& a, const Labels& labels_a, const ClassedTensor& b,
                       const Labels& labels_b, const Labels& labels_out) {
  return einsum_classed({a, b}, {labels_a, labels_b}, labels_out);
}

}  // namespace gradus
