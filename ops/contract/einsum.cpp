// Carries a plan out with ops: views for diagonals and extents of 1, sum for labels of one operand,
// one multiplication for pairs that sum nothing, contract for the others.
#include "ops/contract/einsum.hpp"

#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "engine/device/storage.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/base/ints.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"
#include "ops/reduce/reductions.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace gradus::inline v1 {

namespace {

constexpr std::string_view kAlgebras[] = {"standard", "max-plus", "min-plus", "max-times"};

struct Labelled {
  Tensor tensor;
  Labels labels;  // one per axis
};

int64_t place_of(const Labels& labels, int64_t label) {
  const auto it = std::find(labels.begin(), labels.end(), label);
  return it == labels.end() ? -1 : it - labels.begin();
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

Tensor permuted(const Labelled& x, const Labels& order) {
  Ints dims;
  for (int64_t label : order) dims.push_back(place_of(x.labels, label));
  return permute(x.tensor, dims);
}

// x with its axes in the order of `labels`, extent 1 where it has none.
Tensor aligned(const Labelled& x, const Labels& labels) {
  Labels own;
  Shape sizes;
  for (int64_t label : labels) {
    const int64_t place = place_of(x.labels, label);
    if (place >= 0) own.push_back(label);
    sizes.push_back(place >= 0 ? x.tensor.sizes()[size_t(place)] : 1);
  }
  return reshape(own == x.labels ? x.tensor : permuted(x, own), sizes);
}

// x repeated (stride 0) along `labels`, which become its last axes.
Labelled repeated(const Labelled& x, const Labels& labels, const Shape& extents) {
  Labelled out = x;
  Shape ones = x.tensor.sizes(), sizes = ones;
  for (size_t i = 0; i < labels.size(); ++i) {
    out.labels.push_back(labels[i]);
    ones.push_back(1);
    sizes.push_back(extents[i]);
  }
  out.tensor = expand(reshape(x.tensor, ones), sizes);
  return out;
}

// The labels that x alone has and that are summed.
struct Lone {
  Labels labels;
  Shape extents;
  Ints dims;
};
Lone lone_labels(const Labelled& x, const Labels& other, const Labels& kept) {
  Lone lone;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (place_of(other, x.labels[i]) >= 0 || place_of(kept, x.labels[i]) >= 0) continue;
    lone.labels.push_back(x.labels[i]);
    lone.extents.push_back(x.tensor.sizes()[i]);
    lone.dims.push_back(int64_t(i));
  }
  return lone;
}

Tensor zero_of(Algebra algebra, DType dtype, Device& device) {
  if (algebra == Algebra::max_times) return Tensor::zeros({}, dtype, device);
  const bool max = algebra == Algebra::max_plus;
  if (dtype == DType::i32)
    return Tensor::full_integer({}, max ? INT32_MIN : INT32_MAX, dtype, device);
  if (dtype == DType::i64)
    return Tensor::full_integer({}, max ? INT64_MIN : INT64_MAX, dtype, device);
  return Tensor::full({}, max ? -INFINITY : INFINITY, dtype, device);
}

// Contraction in a tropical algebra. A label of one operand alone is given to the other by
// repetition, so that all labels, ties, empty sums and NaN follow the rule of one kernel. (With
// negative factors, max-times may not take the maximum of one operand first.)
Tensor tropical(const Labelled& a, const Labelled& b, const Labels& out, Algebra algebra) {
  const Lone of_a = lone_labels(a, b.labels, out), of_b = lone_labels(b, a.labels, out);
  const Labelled x = of_b.labels.empty() ? a : repeated(a, of_b.labels, of_b.extents);
  const Labelled y = of_a.labels.empty() ? b : repeated(b, of_a.labels, of_a.extents);
  if (x.tensor.numel() > 0 && y.tensor.numel() > 0)
    return contract(x.tensor, x.labels, y.tensor, y.labels, out, algebra);
  // Nothing wins an empty sum: the zero is a constant. The empty sum of products, which is 0, keeps
  // the operands in the graph.
  const Tensor sum = contract(x.tensor, x.labels, y.tensor, y.labels, out);
  return add(sum, zero_of(algebra, sum.dtype(), sum.device()));
}

// Labels of one operand alone; a tropical sum is a contraction with the algebra's one.
Labelled summed(const Labelled& x, const Labels& kept, Algebra algebra) {
  const DType dtype = x.tensor.dtype();
  Labelled out;
  for (int64_t label : x.labels)
    if (place_of(kept, label) >= 0) out.labels.push_back(label);
  if (algebra == Algebra::standard) {
    if (dtype == DType::bool_)
      fail(ErrorKind::dtype, "einsum", "bool operands cannot be summed; cast them to i64");
    out.tensor =
        cast(sum(x.tensor, lone_labels(x, {}, kept).dims), dtype);  // of integers it is i64
  } else {
    const double one = algebra == Algebra::max_times ? 1 : 0;
    const Tensor unit = Tensor::full({}, one, dtype, x.tensor.device());
    out.tensor = tropical(x, {unit, {}}, out.labels, algebra);
  }
  return out;
}

Labelled paired(const Labelled& a, const Labelled& b, const EinsumStep& step, Algebra algebra) {
  if (algebra != Algebra::standard) return {tropical(a, b, step.labels, algebra), step.labels};
  if (!step.sums) return {mul(aligned(a, step.labels), aligned(b, step.labels)), step.labels};
  return {contract(a.tensor, a.labels, b.tensor, b.labels, step.labels), step.labels};
}

void check_operands(const EinsumPlan& plan, const Tensors& operands, DType dtype, Algebra algebra) {
  if (operands.size() != plan.shapes.size())
    fail(ErrorKind::value, "einsum", "the plan is for ", plan.shapes.size(), " operands, got ",
         operands.size());
  for (size_t k = 0; k < operands.size(); ++k)
    if (operands[k].sizes() != plan.shapes[k])
      fail(ErrorKind::shape, "einsum", "the plan is for operand ", k, " of shape ", plan.shapes[k],
           ", got ", operands[k].sizes());
  if (algebra != Algebra::standard && is_complex(dtype))
    refuse_unordered("einsum", dtype, join(algebra_name(algebra), " of \"", plan.equation, "\""));
  for (const EinsumStep& step : plan.steps)
    if (step.right < 0 && algebra == Algebra::max_times && operands.size() > 1)
      fail(ErrorKind::value, "einsum", "a plan for max-times may not sum labels alone");
}

// Numbers follow the tensors that they meet.
Device& device_of(const Tensors& operands) {
  for (const Tensor& x : operands)
    if (!x.is_number()) return x.device();
  return default_device();
}

// Plans of this thread's latest equations, so that a loop plans once.
std::shared_ptr<const EinsumPlan> cached_plan(std::string_view equation, const Tensors& operands,
                                              bool sum_alone) {
  constexpr size_t kMost = 128;
  thread_local std::unordered_map<std::string, std::shared_ptr<const EinsumPlan>> plans;
  std::string key(equation);
  key += sum_alone ? '1' : '0';
  const auto number = [&](int64_t n) { key.append(reinterpret_cast<const char*>(&n), sizeof n); };
  number(int64_t(equation.size()));
  for (const Tensor& x : operands) {
    number(x.rank());
    for (int64_t extent : x.sizes()) number(extent);
  }
  if (const auto it = plans.find(key); it != plans.end()) return it->second;
  std::vector<Shape> shapes;
  for (const Tensor& x : operands) shapes.push_back(x.sizes());
  PathOptions options;
  options.sum_alone = sum_alone;
  auto plan = std::make_shared<const EinsumPlan>(plan_einsum(equation, shapes, options));
  if (plans.size() >= kMost) plans.clear();
  plans.emplace(std::move(key), plan);
  return plan;
}

}  // namespace

Tensor einsum(const EinsumPlan& plan, const Tensors& operands, Algebra algebra) {
  const DType dtype = result_dtype(operands);
  check_operands(plan, operands, dtype, algebra);
  Device& device = device_of(operands);
  std::vector<Labelled> slots;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Tensor x = materialise(operands[k], dtype, device);  // only a number changes here
    slots.push_back(stripped(cast(x, dtype), plan.terms[k]));
  }
  slots.resize(2 * operands.size() - 1);
  for (const EinsumStep& step : plan.steps) {
    Labelled& left = slots[size_t(step.left)];
    if (step.right < 0) {
      left = summed(left, step.labels, algebra);
      continue;
    }
    slots[size_t(step.result)] = paired(left, slots[size_t(step.right)], step, algebra);
    left = slots[size_t(step.right)] = Labelled();  // lets intermediates go
  }
  Labelled& result = slots.back();
  Shape sizes;
  Labels order;
  for (int64_t label : plan.output) {
    sizes.push_back(plan.sizes.at(label));
    if (sizes.back() != 1) order.push_back(label);
  }
  // A pair's result has this order already; one operand alone becomes a view of itself.
  const Tensor y = operands.size() > 1 ? result.tensor : permuted(result, order);
  return reshape(y, sizes);
}

Tensor einsum(std::string_view equation, const Tensors& operands, Algebra algebra) {
  const bool sum_alone = algebra != Algebra::max_times;
  return einsum(*cached_plan(equation, operands, sum_alone), operands, algebra);
}

Tensor einsum(const Tensors& operands, const std::vector<Labels>& labels, const Labels& output,
              Algebra algebra) {
  std::vector<Shape> shapes;
  for (const Tensor& t : operands) shapes.push_back(t.sizes());
  PathOptions options;
  options.sum_alone = algebra != Algebra::max_times;
  return einsum(plan_einsum(labels, output, shapes, options), operands, algebra);
}

const char* algebra_name(Algebra algebra) { return kAlgebras[size_t(algebra)].data(); }

Algebra parse_algebra(std::string_view name) {
  for (size_t i = 0; i < std::size(kAlgebras); ++i)
    if (kAlgebras[i] == name) return Algebra(i);
  fail(ErrorKind::value, "einsum", "unknown algebra \"", name,
       "\"; write standard, max-plus, min-plus or max-times", did_you_mean(name, kAlgebras));
}

void register_einsum() {
  add_composition("einsum", "contraction", "sums of products over labelled axes, in any algebra",
                  "y[output] = SUM over the other labels of x0[term0] * x1[term1] * ...",
                  {{"operands", true}},
                  {{"equation", AttrValue::Type::text, {}, "\"ij,jk->ik\"; letters and ..."},
                   text_attr("algebra", "standard", "standard, max-plus, min-plus or max-times")},
                  [](Operands in, const Attrs& a) {
                    return einsum(a[0].text, list(in), parse_algebra(a[1].text));
                  });
}

}  // namespace gradus
