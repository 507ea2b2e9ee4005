// Carries a plan out: by `network` as one node or, where somebody watches, with ops: views for
// diagonals and extents of 1, sum for labels of one operand, one multiplication for pairs that sum
// nothing, contract for the others.
#include "ops/contract/einsum.hpp"

#include "ops/base/dtypes.hpp"
#include "ops/base/recent.hpp"
#include "ops/base/registry.hpp"
#include "engine/batch.hpp"
#include "engine/device/storage.hpp"
#include "ops/contract/gathered.hpp"
#include "ops/contract/labelled.hpp"
#include "ops/contract/network.hpp"
#include "ops/base/ints.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"
#include "ops/reduce/reductions.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace gradus::inline v1 {

namespace {

// Labels of one operand alone.
Labelled summed(const Labelled& x, const Labels& kept, Algebra algebra) {
  if (algebra != Algebra::standard) return sum_of(x, kept, algebra);
  const DType dtype = x.tensor.dtype();
  if (dtype == DType::bool_)
    fail(ErrorKind::dtype, "einsum",
         "bool operands cannot be summed; cast them to i64, or take the algebra boolean");
  Labelled out;
  Ints dims;
  for (size_t i = 0; i < x.labels.size(); ++i)
    if (place_of(kept, x.labels[i]) >= 0)
      out.labels.push_back(x.labels[i]);
    else
      dims.push_back(int64_t(i));
  out.tensor = cast(sum(x.tensor, dims), dtype);  // of integers it is i64
  return out;
}

Labelled paired(const Labelled& a, const Labelled& b, const EinsumStep& step, Algebra algebra) {
  if (algebra != Algebra::standard) return {contract_pair(a, b, step.labels, algebra), step.labels};
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
  if (algebra == Algebra::standard) return;
  check_algebra("einsum", algebra, operands, dtype, join(" of \"", plan.equation, "\""));
  for (const EinsumStep& step : plan.steps)
    if (step.right < 0 && !sums_alone(algebra) && operands.size() > 1)
      fail(ErrorKind::value, "einsum", "a plan for ", algebra_name(algebra),
           " may not sum labels alone");
}

// A negative factor turns max into min, so what a step chose before a later factor came is not what
// all terms together would: such numbers are refused where a step but the last one chooses.
void refuse_negative(const EinsumPlan& plan, const Tensors& operands, Algebra algebra) {
  if (sums_alone(algebra) || plan.steps.size() < 2) return;
  const auto last = plan.steps.end() - 1;
  if (std::none_of(plan.steps.begin(), last, [](const EinsumStep& s) { return s.sums; })) return;
  const NoGrad quiet;
  for (size_t k = 0; k < operands.size(); ++k) {
    Tensor x = operands[k].detach();
    while (is_batched(x)) x = x.body()->batch->physical;
    if (x.numel() == 0) continue;
    const Tensor none(int64_t(0));  // a NaN hides nothing
    const double least = cast(amin(where(lt(x, none), x, none)), DType::f64).item();
    if (least < 0)
      fail(
          ErrorKind::value, "einsum", algebra_name(algebra), " of more than two operands takes no ",
          "negative numbers (operand ", k, " has ", least, "): one turns max into min, and the ",
          "value would depend on the order; make it of numbers that are positive, or contract two ",
          "operands alone");
  }
}

// Numbers follow the tensors that they meet.
Device& device_of(const Tensors& operands) {
  for (const Tensor& x : operands)
    if (!x.is_number()) return x.device();
  return default_device();
}

CallKey key_of(const Tensors& operands, bool sum_alone) {
  CallKey key;
  key.add(int64_t(sum_alone));
  key.add(int64_t(operands.size()));
  for (const Tensor& x : operands) key.add(x.sizes());
  return key;
}
std::vector<Shape> shapes_of(const Tensors& operands) {
  std::vector<Shape> shapes;
  for (const Tensor& x : operands) shapes.push_back(x.sizes());
  return shapes;
}
PathOptions options_for(Algebra algebra) {
  PathOptions options;
  options.sum_alone = sums_alone(algebra);
  return options;
}

// Is it one sum of products of the two operands as they are? Then nothing has to be made ready.
bool is_direct(const EinsumPlan& plan, const Tensors& operands) {
  if (plan.steps.size() != 1 || operands.size() != 2 || !plan.steps[0].sums) return false;
  for (size_t k = 0; k < 2; ++k)
    if (operands[k].is_number() || operands[k].sizes() != plan.shapes[k] ||
        plan.operands[k] != plan.terms[k])
      return false;
  return operands[0].dtype() == operands[1].dtype() && operands[0].dtype() != DType::bool_ &&
         plan.steps[0].right >= 0 && plan.steps[0].labels == plan.output && plan.sliced.empty();
}
Tensor direct(const EinsumPlan& plan, const Tensors& operands) {
  const auto left = size_t(plan.steps[0].left), right = size_t(plan.steps[0].right);
  return contract(operands[left], plan.terms[left], operands[right], plan.terms[right],
                  plan.output);
}

// Step by step, each a node of its own.
Tensor by_steps(const EinsumPlan& plan, const Tensors& operands, Algebra algebra) {
  std::vector<Labelled> slots = stripped_operands(plan, operands, algebra);
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
  return result_of(plan, slots.back());
}

// The sum, in the algebra, over the values of the sliced labels.
Tensor by_slices(const EinsumPlan& plan, const Tensors& operands, Algebra algebra) {
  std::vector<Shape> shapes = plan.shapes;
  for (size_t k = 0; k < shapes.size(); ++k)
    for (size_t axis = 0; axis < shapes[k].size(); ++axis)
      if (place_of(plan.sliced, plan.terms[k][axis]) >= 0) shapes[k][axis] = 1;
  PathOptions options = options_for(algebra);
  options.kind = PathOptions::Kind::fixed;
  options.path = plan.path;
  const EinsumPlan piece = replanned(plan, shapes, options);
  Tensor total;
  std::vector<int64_t> at(plan.sliced.size(), 0);
  for (double left = plan.slices; left > 0; --left) {
    Tensors part = operands;
    for (size_t k = 0; k < part.size(); ++k)
      for (size_t axis = 0; axis < shapes[k].size(); ++axis) {
        const int64_t i = place_of(plan.sliced, plan.terms[k][axis]);
        if (i >= 0 && plan.shapes[k][axis] > 1)
          part[k] = slice(part[k], int64_t(axis), at[size_t(i)], at[size_t(i)] + 1);
      }
    const Tensor y = by_steps(piece, part, algebra);
    total = total.defined() ? sum_of_two(total, y, algebra) : y;
    for (size_t i = at.size(); i-- > 0;) {
      if (++at[i] < plan.sizes.at(plan.sliced[i])) break;
      at[i] = 0;
    }
  }
  return total;
}

thread_local bool by_steps_only = false;

// Can `network` do it in one node? Not where somebody watches, who wants to see each step.
bool as_one_node(const EinsumPlan& plan, DType dtype, Algebra algebra) {
  return plan.shapes.size() > (plan.sliced.empty() ? 2 : 1) && algebra == Algebra::standard &&
         dtype != DType::bool_ && !is_user(dtype) && !observer && !by_steps_only;
}

}  // namespace

EinsumBySteps::EinsumBySteps() : Scoped<bool>(by_steps_only, true) {}

Tensors ready_operands(const EinsumPlan& plan, const Tensors& operands, Algebra algebra) {
  const DType dtype = result_dtype(operands);
  check_operands(plan, operands, dtype, algebra);
  Device& device = device_of(operands);
  Tensors ready;
  for (const Tensor& x : operands) ready.push_back(cast(materialise(x, dtype, device), dtype));
  refuse_negative(plan, ready, algebra);
  return ready;
}

Tensor einsum(const EinsumPlan& plan, const Tensors& operands, Algebra algebra) {
  if (live_apart(operands)) return einsum(plan, gathered("einsum", operands), algebra);
  if (algebra == Algebra::standard && is_direct(plan, operands)) return direct(plan, operands);
  const Tensors ready = ready_operands(plan, operands, algebra);
  if (as_one_node(plan, ready[0].dtype(), algebra)) return contract_network(plan, ready);
  return plan.sliced.empty() ? by_steps(plan, ready, algebra) : by_slices(plan, ready, algebra);
}

Tensor einsum(std::string_view equation, const Tensors& operands, Algebra algebra) {
  CallKey key = key_of(operands, sums_alone(algebra));
  key.add(equation);
  const auto make = [&] {
    return plan_einsum(equation, shapes_of(operands), options_for(algebra));
  };
  return einsum(*recent<EinsumPlan>(key, make), operands, algebra);
}

static Tensor einsum_of_numbers(const Tensors& operands, const std::vector<Labels>& labels,
                                const Labels* output, Algebra algebra) {
  CallKey key = key_of(operands, sums_alone(algebra));
  for (const Labels& term : labels) key.add(term);
  if (output) key.add(*output);
  const auto make = [&] {
    return plan_einsum(labels, output ? std::optional(*output) : std::nullopt, shapes_of(operands),
                       options_for(algebra));
  };
  return einsum(*recent<EinsumPlan>(key, make), operands, algebra);
}
Tensor einsum(const Tensors& operands, const std::vector<Labels>& labels, const Labels& output,
              Algebra algebra) {
  return einsum_of_numbers(operands, labels, &output, algebra);
}
Tensor einsum(const Tensors& operands, const std::vector<Labels>& labels) {
  return einsum_of_numbers(operands, labels, nullptr, Algebra::standard);
}

static std::pair<Tensors, std::vector<Labels>> parted(const Sublists& operands) {
  std::pair<Tensors, std::vector<Labels>> parts;
  for (const auto& [tensor, labels] : operands) {
    parts.first.push_back(tensor);
    parts.second.push_back(labels);
  }
  return parts;
}
Tensor einsum(const Sublists& operands, const Labels& output, Algebra algebra) {
  const auto [tensors, labels] = parted(operands);
  return einsum(tensors, labels, output, algebra);
}
Tensor einsum(const Sublists& operands) {
  const auto [tensors, labels] = parted(operands);
  return einsum(tensors, labels);
}

static std::string mebibytes(double bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g MiB", bytes / 0x1p20);
  return text;
}

double einsum_bytes(const EinsumPlan& plan, DType dtype, Algebra algebra, bool gradients) {
  const double alive = peak_bytes(plan, dtype, gradients, true);
  // What no memory holds is not laid out in it.
  if (!as_one_node(plan, dtype, algebra) || alive > 0x1p56) return alive;
  return network_bytes(plan, dtype, gradients);
}

EinsumPlan within_memory(EinsumPlan plan, double bytes, DType dtype, Algebra algebra,
                         bool gradients, PathOptions options) {
  const double whole = einsum_bytes(plan, dtype, algebra, gradients);
  if (whole <= bytes) return plan;
  options.kind = PathOptions::Kind::fixed;
  options.path = plan.path;
  // Intermediates are made smaller, step by step, until all that is alive at once fits.
  double least = whole;
  const double held = bytes / double(itemsize(dtype));
  for (double most = std::min(plan.largest_intermediate / 2, held); most >= 1; most /= 1.4) {
    options.most_elements = most;
    EinsumPlan sliced = replanned(plan, plan.shapes, options);
    const double need = einsum_bytes(sliced, dtype, algebra, gradients);
    least = std::min(least, need);
    if (need > bytes) continue;
    sliced.family = plan.family;
    sliced.units += plan.units;
    return sliced;
  }
  fail(ErrorKind::memory, "einsum", "operands and intermediates need ", mebibytes(whole),
       ", looped over labels in slices ", mebibytes(least), ", the limit is ", mebibytes(bytes),
       "; the largest intermediate has ", plan.largest_intermediate, " elements of ", dtype);
}

void register_einsum() {
  add_composition("einsum", "contraction",
                  "sums of products over labelled axes, in any algebra; in max-times and min-times "
                  "three operands and more take no negative numbers",
                  "y[output] = SUM over the other labels of x0[term0] * x1[term1] * ...",
                  {{"operands", true}},
                  {{"equation", AttrValue::Type::text, {}, "\"ij,jk->ik\"; letters and ..."},
                   text_attr("algebra", "standard", algebra_words())},
                  [](Operands in, const Attrs& a) {
                    return einsum(a[0].text, list(in), parse_algebra(a[1].text));
                  });
}

}  // namespace gradus
