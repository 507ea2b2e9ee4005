#include "ops/diagonal/hyperedges.hpp"

#include "ops/base/dtypes.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/contract/labelled.hpp"
#include "ops/diagonal/structure.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/creation.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>
#include <map>

namespace gradus::inline v1 {

namespace {

// Labels that have to be equal, up to permutations: the value of a label is index[value of its
// set].
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
  // The index of a root is that of its set's leader, backwards.
  Place place_of_root(size_t at) const {
    Tensor index = index_[at];
    for (; parent_[at] != at; at = parent_[at]) index = composed(index, index_[parent_[at]]);
    return {at, index};
  }
  Tensor in_full(const Tensor& index, size_t set, Device& device) const {
    return index.defined() ? index : iota(extents_[set], device);
  }
  std::map<int64_t, size_t> number_;
  std::vector<size_t> parent_;
  std::vector<int64_t> extents_;
  Tensors index_;
  std::vector<size_t> leaders_;  // of sets
};

constexpr int64_t kNone = -1;

class Merger {
 public:
  Merger(const BoundEquation& bound, const Labels& output, const ClassedTensors& operands)
      : terms_(bound.terms), output_(output), in_(operands), labels_(bound.sizes) {
    dtype_ = common_dtype();
    for (size_t k = 0; k < in_.size(); ++k) merge_classes(k);
    for (const int64_t label : output_) labels_.lead(label);
    for (size_t k = 0; k < in_.size(); ++k)
      if (!in_[k].is_copy()) add_payload(k);
    for (const auto& [before, mask] : masks_) {
      const auto [set, values] = labels_.moved(before, mask);
      add(cast(values, dtype_), {int64_t(set)});
    }
    add_result();
    sum_what_none_has();
  }
  Hyperedges out;

 private:
  // Copy tensors follow what they meet.
  DType common_dtype() const {
    Tensors payloads;
    for (const ClassedTensor& x : in_)
      if (!x.is_copy()) payloads.push_back(x.payload);
    if (!payloads.empty()) return result_dtype(payloads);
    DType dtype = in_[0].ones;
    for (const ClassedTensor& x : in_) dtype = promote(dtype, x.ones);
    return dtype;
  }

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

  void add(const Tensor& x, const Labels& labels) {
    out.operands.push_back(x);
    out.terms.push_back(labels);
  }
  void add_payload(size_t k) {
    const ClassedTensor& x = in_[k];
    Tensor payload = x.payload;
    Labels labels;
    Ints ones;
    for (size_t c = 0; c < x.extents.size(); ++c) {
      if (payload.size(int64_t(c)) == 1) {
        ones.push_back(int64_t(c));
        continue;
      }
      const auto axis = size_t(leads_[k][c]);
      const MergedLabels::Place place = labels_.find(terms_[k][axis]);
      const Tensor index = composed(inverse_of(x.index(axis)), place.index);
      payload = reindexed(payload, int64_t(c), index);
      labels.push_back(int64_t(place.set));
    }
    add(ones.empty() ? payload : squeeze(payload, ones), labels);
  }

  void add_result() {
    Ints sets;
    bool in_order = true;
    for (const int64_t label : output_) {
      const MergedLabels::Place place = labels_.find(label);
      const int64_t set = int64_t(place.set);
      int64_t at = place_of(sets, set);
      if (at < 0) {
        at = int64_t(sets.size());
        sets.push_back(set);
        out.result.extents.push_back(labels_.extent(place.set));
        out.held.push_back(held(set));
        if (held(set)) out.output.push_back(set);
      }
      out.result.classes.push_back(at);
      out.result.indices.push_back(place.index);
      in_order = in_order && !place.index.defined();
    }
    if (in_order) out.result.indices.clear();
    out.result.ones = dtype_;
    out.result.device = in_[0].is_copy() ? in_[0].device : nullptr;
    sets_of_result_ = sets;
  }
  bool held(int64_t set) const {
    return std::any_of(out.terms.begin(), out.terms.end(),
                       [&](const Labels& term) { return place_of(term, set) >= 0; });
  }

  // A merged label that neither an operand nor the result has is a closed loop: the factor n.
  void sum_what_none_has() {
    int64_t loops = 1;
    std::vector<char> seen(labels_.sets(), 0);
    for (const Labels& term : terms_)
      for (const int64_t label : term) {
        const size_t set = labels_.find(label).set;
        if (seen[set]++ || held(int64_t(set)) || place_of(sets_of_result_, int64_t(set)) >= 0)
          continue;
        loops *= labels_.extent(set);
      }
    if (loops == 1) return;
    if (out.operands.empty())
      return add(Tensor::full_integer({}, loops, dtype_,
                                      in_[0].device ? *in_[0].device : default_device()),
                 {});
    const auto least =
        std::min_element(out.operands.begin(), out.operands.end(),
                         [](const Tensor& a, const Tensor& b) { return a.numel() < b.numel(); });
    *least = mul(*least, Tensor(loops));
  }

  const std::vector<Labels>& terms_;
  const Labels& output_;
  const ClassedTensors& in_;
  DType dtype_;
  MergedLabels labels_;
  std::vector<Ints> leads_;  // of each operand and class: the axis whose label is the class's
  std::vector<std::pair<size_t, Tensor>> masks_;
  Ints sets_of_result_;
};

std::vector<Shape> dense_sizes(const ClassedTensors& operands) {
  std::vector<Shape> sizes;
  for (const ClassedTensor& x : operands) sizes.push_back(x.sizes());
  return sizes;
}

}  // namespace

Hyperedges hyperedges(std::string_view equation, const ClassedTensors& operands) {
  const BoundEquation bound =
      bind_equation(parse_equation(equation, RepeatedOutput::allowed), dense_sizes(operands));
  return Merger(bound, bound.output, operands).out;
}
Hyperedges hyperedges(const ClassedTensors& operands, const std::vector<Labels>& labels,
                      const Labels& output) {
  const BoundEquation bound =
      bind_labels(labels, output, dense_sizes(operands), RepeatedOutput::allowed);
  return Merger(bound, bound.output, operands).out;
}

EinsumPlan Hyperedges::plan(const PathOptions& options) const {
  if (operands.empty())
    fail(ErrorKind::value, "einsum", "copy tensors alone leave nothing to contract, and no plan");
  std::vector<Shape> shapes;
  for (const Tensor& x : operands) shapes.push_back(x.sizes());
  return plan_einsum(terms, output, shapes, options);
}

// y has the merged labels of `output` alone: of the others of the result it has one value.
ClassedTensor Hyperedges::with_value(const Tensor& y) const {
  ClassedTensor x = result;
  if (output.size() == result.extents.size()) {
    x.payload = y;
    return x;
  }
  Shape sizes;
  size_t at = 0;
  for (size_t c = 0; c < result.extents.size(); ++c) sizes.push_back(held[c] ? y.sizes()[at++] : 1);
  x.payload = reshape(y, sizes);
  return x;
}
ClassedTensor Hyperedges::contracted() const {
  return operands.empty() ? result : with_value(einsum(operands, terms, output));
}
ClassedTensor Hyperedges::contracted(const EinsumPlan& plan) const {
  return operands.empty() ? result : with_value(einsum(plan, operands));
}

ClassedTensor einsum_classed(std::string_view equation, const ClassedTensors& operands) {
  return hyperedges(equation, operands).contracted();
}
ClassedTensor einsum_classed(const ClassedTensors& operands, const std::vector<Labels>& labels,
                             const Labels& output) {
  return hyperedges(operands, labels, output).contracted();
}
ClassedTensor contract(const ClassedTensor& a, const Labels& labels_a, const ClassedTensor& b,
                       const Labels& labels_b, const Labels& labels_out) {
  return einsum_classed({a, b}, {labels_a, labels_b}, labels_out);
}

}  // namespace gradus
