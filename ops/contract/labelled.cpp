// Pairs of labelled tensors, contracted in an algebra.
#include "ops/contract/labelled.hpp"

#include "ops/contract/contraction.hpp"
#include "ops/contract/plan.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

// The labels that x alone has and that are summed.
struct Lone {
  Labels labels;
  Shape extents;
};
Lone lone_labels(const Labelled& x, const Labels& other, const Labels& kept) {
  Lone lone;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (place_of(other, x.labels[i]) >= 0 || place_of(kept, x.labels[i]) >= 0) continue;
    lone.labels.push_back(x.labels[i]);
    lone.extents.push_back(x.tensor.sizes()[i]);
  }
  return lone;
}

// x repeated (stride 0) along labels, which become its last axes.
Labelled repeated(const Labelled& x, const Lone& lone) {
  if (lone.labels.empty()) return x;
  Labelled out = x;
  Shape ones = x.tensor.sizes(), sizes = ones;
  for (size_t i = 0; i < lone.labels.size(); ++i) {
    out.labels.push_back(lone.labels[i]);
    ones.push_back(1);
    sizes.push_back(lone.extents[i]);
  }
  out.tensor = expand(reshape(x.tensor, ones), sizes);
  return out;
}

// Diagonals taken and axes of extent 1 dropped: views.
Labelled stripped(const Tensor& x, const Labels& axes) {
  Labelled out{squeeze(x), {}};
  for (size_t i = 0; i < axes.size(); ++i)
    if (x.sizes()[i] != 1) out.labels.push_back(axes[i]);
  for (size_t i = 0; i < out.labels.size();) {
    const int64_t label = out.labels[i], first = place_of(out.labels, label);
    if (first == int64_t(i)) {
      ++i;
      continue;
    }
    out.tensor = diagonal(out.tensor, 0, first, int64_t(i));
    out.labels.erase(i);
    out.labels.erase(size_t(first));
    out.labels.push_back(label);
    i = 0;
  }
  return out;
}

// Both with all summed labels.
std::pair<Labelled, Labelled> completed(const Labelled& a, const Labelled& b, const Labels& out) {
  return {repeated(a, lone_labels(b, a.labels, out)), repeated(b, lone_labels(a, b.labels, out))};
}

}  // namespace

int64_t place_of(const Labels& labels, int64_t label) {
  const auto it = std::find(labels.begin(), labels.end(), label);
  return it == labels.end() ? -1 : it - labels.begin();
}
int64_t extent_of(const Labelled& x, int64_t label) {
  const int64_t i = place_of(x.labels, label);
  return i < 0 ? 1 : x.tensor.sizes()[size_t(i)];
}

Tensor permuted(const Labelled& x, const Labels& order) {
  Ints dims;
  for (int64_t label : order) dims.push_back(place_of(x.labels, label));
  return permute(x.tensor, dims);
}

Tensor aligned(const Labelled& x, const Labels& labels) {
  Labels own;
  Shape sizes;
  for (int64_t label : labels) {
    if (place_of(x.labels, label) >= 0) own.push_back(label);
    sizes.push_back(extent_of(x, label));
  }
  return reshape(own == x.labels ? x.tensor : permuted(x, own), sizes);
}

std::vector<Labelled> stripped_operands(const EinsumPlan& plan, const Tensors& ready,
                                        Algebra algebra) {
  std::vector<Labelled> slots;
  for (size_t k = 0; k < ready.size(); ++k) slots.push_back(stripped(ready[k], plan.terms[k]));
  if (const int64_t p = modulus_of(algebra); p != 0 && plan.steps.empty())
    slots[0].tensor = remainder(slots[0].tensor, p);
  return slots;
}

Tensor result_of(const EinsumPlan& plan, const Labelled& last) {
  Shape sizes;
  Labels order;
  for (int64_t label : plan.output) {
    sizes.push_back(plan.sizes.at(label));
    if (sizes.back() != 1) order.push_back(label);
  }
  // A pair's result has this order already; one operand alone becomes a view of itself.
  return reshape(plan.terms.size() > 1 ? last.tensor : permuted(last, order), sizes);
}

Tensor contract_pair(const Labelled& a, const Labelled& b, const Labels& out, Algebra algebra) {
  const auto [x, y] = is_tropical(algebra) ? completed(a, b, out) : std::pair(a, b);
  return contract(x.tensor, x.labels, y.tensor, y.labels, out, algebra);
}

Labelled sum_of(const Labelled& x, const Labels& kept, Algebra algebra) {
  Labelled out;
  for (int64_t label : x.labels)
    if (place_of(kept, label) >= 0) out.labels.push_back(label);
  const Tensor one = Tensor::full({}, one_of(algebra), x.tensor.dtype(), x.tensor.device());
  out.tensor = contract_pair(x, {one, {}}, out.labels, algebra);
  return out;
}

Tensor sum_of_two(const Tensor& a, const Tensor& b, Algebra algebra) {
  if (algebra == Algebra::standard) return add(a, b);
  Labels labels, kept;
  for (int64_t i = 0; i <= a.rank(); ++i) labels.push_back(i);
  kept.append(labels.data() + 1, labels.size() - 1);
  return sum_of({stack({a, b}), labels}, kept, algebra).tensor;
}

PairWinners choose_pair(const Labelled& a, const Labelled& b, const Labels& out, Algebra algebra) {
  const auto [x, y] = completed(a, b, out);
  PairWinners chosen;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (place_of(out, x.labels[i]) >= 0) continue;
    chosen.summed.push_back(x.labels[i]);
    chosen.extents.push_back(x.tensor.sizes()[i]);
  }
  std::tie(chosen.values, chosen.places) =
      contract_with_winners(x.tensor, x.labels, y.tensor, y.labels, out, algebra);
  return chosen;
}

}  // namespace gradus
