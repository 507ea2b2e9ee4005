// Runs a plan's steps, keeping the winners of each, then walks them backwards: the indices of a
// result are known, so the step that made it tells those of the labels it summed, for each element
// of the einsum's result at once.
#include "ops/contract/winners.hpp"

#include "ops/contract/labelled.hpp"
#include "ops/index/indexing.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/creation.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

struct Choice {
  PairWinners chosen;
  Labels labels;  // of the step's result
};

// The steps, left to right; the last slot holds the value.
std::vector<Choice> choices_of(const EinsumPlan& plan, std::vector<Labelled>& slots,
                               Algebra algebra) {
  std::vector<Choice> choices;
  for (const EinsumStep& step : plan.steps) {
    Labelled& left = slots[size_t(step.left)];
    const bool alone = step.right < 0;
    const Labelled one{Tensor::full({}, one_of(algebra), left.tensor.dtype(), left.tensor.device()),
                       {}};
    Labels labels = step.labels;
    if (alone) {  // keeps the order of its axes
      labels.clear();
      for (int64_t label : left.labels)
        if (place_of(step.labels, label) >= 0) labels.push_back(label);
    }
    Labelled& right = alone ? left : slots[size_t(step.right)];
    const PairWinners chosen = choose_pair(left, alone ? one : right, labels, algebra);
    left = right = Labelled();
    slots[size_t(alone ? step.left : step.result)] = {chosen.values, labels};
    choices.push_back({chosen, labels});
  }
  return choices;
}

// The index of each label, for each element of the result in row-major order.
class Walk {
 public:
  Walk(const EinsumPlan& plan, Device& device) {
    for (int64_t label : plan.output) {
      const int64_t n = plan.sizes.at(label);
      sizes_.push_back(n);
      order_.push_back(label);
    }
    for (int64_t label : plan.output) {
      const Tensor axis = arange(0, double(plan.sizes.at(label)), 1, DType::i64, device);
      at_[label] = reshape(expand(aligned({axis, {label}}, order_), sizes_), {-1});
    }
    won_ = Tensor::full({numel_of(sizes_)}, 1, DType::bool_, device);
  }
  void back(const Choice& choice) {
    const PairWinners& c = choice.chosen;
    Tensor place = Tensor(int64_t(0));
    for (size_t i = 0; i < choice.labels.size(); ++i)
      place = add(mul(place, c.places.sizes()[i]), at_.at(choice.labels[i]));
    // A result of no axes has one winner for all.
    Tensor winner = choice.labels.empty() ? expand(reshape(c.places, {1}), won_.sizes())
                                          : take(c.places, place);
    won_ = logical_and(won_, ge(winner, 0));
    for (size_t i = c.summed.size(); i-- > 0;) {
      at_[c.summed[i]] = remainder(winner, c.extents[i]);
      winner = floor_divide(winner, c.extents[i]);
    }
  }
  // (..., labels), -1 where nothing won. A label of extent 1 took part in no step.
  Tensor winners(const Labels& labels) const {
    Shape sizes = sizes_;
    sizes.push_back(int64_t(labels.size()));
    if (labels.empty()) return Tensor::zeros(sizes, DType::i64, won_.device());
    Tensors columns;
    for (int64_t label : labels) {
      const auto it = at_.find(label);
      columns.push_back(where(won_, it == at_.end() ? zeros_like(won_) : it->second, -1));
    }
    return reshape(stack(columns, -1), sizes);
  }

 private:
  Tensor zeros_like(const Tensor& x) const {
    return Tensor::zeros(x.sizes(), DType::i64, x.device());
  }
  Labels order_;
  Shape sizes_;
  std::map<int64_t, Tensor> at_;
  Tensor won_;
};

Labels summed_labels(const EinsumPlan& plan) {
  Labels labels;
  for (const Labels& term : plan.terms)
    for (int64_t label : term)
      if (place_of(plan.output, label) < 0 && place_of(labels, label) < 0) labels.push_back(label);
  return labels;
}
// The plan without slices: the walk needs every step whole.
EinsumPlan whole(const EinsumPlan& plan, Algebra algebra) {
  PathOptions options;
  options.kind = PathOptions::Kind::fixed;
  options.path = plan.path;
  options.sum_alone = sums_alone(algebra);
  return replanned(plan, plan.shapes, options);
}
bool has_empty_label(const EinsumPlan& plan) {
  return std::any_of(plan.sizes.begin(), plan.sizes.end(),
                     [](const auto& size) { return size.second == 0; });
}

}  // namespace

EinsumWinners einsum_winners(const EinsumPlan& plan, const Tensors& operands, Algebra algebra) {
  if (!is_tropical(algebra))
    fail(ErrorKind::value, "einsum_winners", algebra_name(algebra),
         " chooses no winner; max-plus, min-plus, max-times and min-times do");
  const NoGrad off;
  const Labels labels = summed_labels(plan);
  if (has_empty_label(plan)) {
    const Tensor value = einsum(plan, operands, algebra).detach();
    Shape sizes = value.sizes();
    sizes.push_back(int64_t(labels.size()));
    return {value, Tensor::full_integer(sizes, -1, DType::i64, value.device()), labels};
  }
  if (!plan.sliced.empty()) return einsum_winners(whole(plan, algebra), operands, algebra);
  std::vector<Labelled> slots =
      stripped_operands(plan, ready_operands(plan, operands, algebra), algebra);
  for (Labelled& slot : slots) slot.tensor = slot.tensor.detach();
  slots.resize(2 * operands.size() - 1);
  const std::vector<Choice> choices = choices_of(plan, slots, algebra);
  const Tensor value = result_of(plan, slots.back());
  Walk walk(plan, value.device());
  for (size_t i = choices.size(); i-- > 0;) walk.back(choices[i]);
  return {value, walk.winners(labels), labels};
}

EinsumWinners einsum_winners(std::string_view equation, const Tensors& operands, Algebra algebra) {
  std::vector<Shape> shapes;
  for (const Tensor& x : operands) shapes.push_back(x.sizes());
  PathOptions options;
  options.sum_alone = sums_alone(algebra);
  return einsum_winners(plan_einsum(equation, shapes, options), operands, algebra);
}

}  // namespace gradus
