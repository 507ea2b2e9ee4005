// Contraction by labels, by equation and by plan, with vjp and jvp as single calls.
#include "bindings/c/door.hpp"
#include "engine/forward.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/ops.hpp"
#include "ops/transforms/func.hpp"

using namespace gradus;
using namespace gradus::c;

namespace {

constexpr size_t kMostOperands = 1 << 16;

static_assert(int32_t(Algebra::boolean) == GRADUS_BOOLEAN);
static_assert(Algebra(GRADUS_MODULO(7)) == Algebra(-7));

Algebra algebra_at(int32_t code) {
  if (!is_algebra(code))
    throw Refusal{GRADUS_VALUE, join("algebra ", code,
                                     " is none; expected GRADUS_SUM_PRODUCT ... GRADUS_BOOLEAN or "
                                     "GRADUS_MODULO(p)")};
  return Algebra(code);
}

Labels labels_at(const int32_t* numbers, size_t n, const char* name) {
  Labels out;
  for (const int32_t label : array(numbers, n, name, GRADUS_MAX_DIMS)) out.push_back(label);
  return out;
}
std::vector<Labels> all_labels(const int32_t* const* labels, const std::vector<Shape>& shapes) {
  std::vector<Labels> out;
  const auto lists = array(labels, shapes.size(), "labels", kMostOperands);
  for (size_t k = 0; k < shapes.size(); ++k)
    out.push_back(labels_at(lists[k], shapes[k].size(), "labels[k]"));
  return out;
}

PathOptions path_options(const char* path, Algebra algebra) {
  PathOptions options;
  if (path) options.kind = parse_path_kind(path);
  options.sum_alone = sums_alone(algebra);
  return options;
}

struct Plan : Object {
  Plan(EinsumPlan p, Algebra a) : plan(std::move(p)), algebra(a) {}
  EinsumPlan plan;
  Algebra algebra;
};

// What is contracted, as a function of the operands.
struct Contraction {
  Tensors operands;
  std::shared_ptr<const Plan> plan;
  Tensor operator()(const Tensors& in) const { return einsum(plan->plan, in, plan->algebra); }
};
Contraction contraction_of(const gradus_tensor* operands, const int32_t* const* labels, size_t n,
                           const int32_t* out_labels, size_t n_out, int32_t algebra) {
  const Algebra a = algebra_at(algebra);
  Tensors in = tensors_at(operands, n, "operands");
  std::vector<Shape> shapes;
  for (const Tensor& t : in) shapes.push_back(t.sizes());
  EinsumPlan plan =
      plan_einsum(all_labels(labels, shapes), labels_at(out_labels, n_out, "out_labels"), shapes,
                  path_options(nullptr, a));
  return {std::move(in), std::make_shared<Plan>(std::move(plan), a)};
}
Contraction contraction_of(gradus_plan plan, const gradus_tensor* operands, size_t n) {
  return {tensors_at(operands, n, "operands"), object_at<Plan>(Kind::plan, plan)};
}

// The single calls stand apart from the level of forward mode that the thread may have open, in a
// jvp of the caller's, too: their operands have no tangents there, so their results have none.
struct Apart {
  Scoped<ForwardLevel*> level{forward_level, nullptr};
  OutsideJvp outside{};
};

// The cotangents of all operands, or of one.
void give_vjp(const Contraction& c, const Tensor& cotangent, int32_t operand,
              gradus_tensor* grads) {
  const size_t n = c.operands.size();
  if (operand < -1 || operand >= int32_t(n))
    throw Refusal{GRADUS_INDEX,
                  join("operand ", operand, ", expected -1 for all, or 0 to ", int64_t(n) - 1)};
  Tensors asked, all;
  for (size_t k = 0; k < n; ++k) {
    all.push_back(c.operands[k].detach());
    if (operand < 0 || size_t(operand) == k) asked.push_back(all.back());
  }
  array(grads, asked.size(), "grads");
  const Apart apart;
  Tensors out;
  if (cotangent.defined()) {
    const EnableGrad on;
    for (Tensor& t : asked) t.set_requires_grad();
    BackwardOptions options;
    options.allow_unused = options.materialize_grads = true;
    out = grad({c(all)}, asked, {cotangent}, options);
  } else {
    for (const Tensor& t : asked) out.push_back(zeros_like(t));
  }
  give(out, grads);
}

Tensor jvp_of(const Contraction& c, const gradus_tensor* tangents) {
  const Apart apart;
  Tensors in, moved;
  for (size_t k = 0; k < c.operands.size(); ++k) {
    in.push_back(c.operands[k].detach());
    const Tensor t = tangents ? maybe_tensor(tangents[k], {"tangents", k}) : Tensor();
    moved.push_back(t.defined() ? t : zeros_like(in.back()));
  }
  // A copy: of an operand alone it is a view of the caller's tangent.
  return clone(
      func::jvp([&](const Tensors& x) { return Tensors{c(x)}; }, in, moved).tangents[0].detach());
}

std::vector<Shape> shapes_at(const int64_t* const* shapes, const size_t* ndims, size_t n) {
  std::vector<Shape> out;
  const auto lists = array(shapes, n, "shapes", kMostOperands);
  const auto ranks = array(ndims, n, "ndims", kMostOperands);
  for (size_t k = 0; k < n; ++k) {
    out.push_back(shape_at(lists[k], ranks[k], "shapes[k]"));
    numel_of(out.back());  // refuses negative sizes and what overflows
  }
  return out;
}
gradus_plan new_plan(EinsumPlan plan, Algebra algebra) {
  return new_handle(Kind::plan, std::make_shared<Plan>(std::move(plan), algebra));
}

}  // namespace

gradus_status gradus_contract(const gradus_tensor* operands, const int32_t* const* labels, size_t n,
                              const int32_t* out_labels, size_t n_out, int32_t algebra,
                              gradus_tensor* out) {
  return result("gradus_contract", out, [&] {
    const auto c = contraction_of(operands, labels, n, out_labels, n_out, algebra);
    return handle_of(c(c.operands));
  });
}
gradus_status gradus_contract_vjp(const gradus_tensor* operands, const int32_t* const* labels,
                                  size_t n, const int32_t* out_labels, size_t n_out,
                                  int32_t algebra, gradus_tensor cotangent, int32_t operand,
                                  gradus_tensor* grads) {
  return door("gradus_contract_vjp", [&] {
    give_vjp(contraction_of(operands, labels, n, out_labels, n_out, algebra),
             maybe_tensor(cotangent, "cotangent"), operand, grads);
  });
}
gradus_status gradus_contract_jvp(const gradus_tensor* operands, const int32_t* const* labels,
                                  size_t n, const int32_t* out_labels, size_t n_out,
                                  int32_t algebra, const gradus_tensor* tangents,
                                  gradus_tensor* out) {
  return result("gradus_contract_jvp", out, [&] {
    const auto c = contraction_of(operands, labels, n, out_labels, n_out, algebra);
    return handle_of(jvp_of(c, tangents));
  });
}
gradus_status gradus_einsum(const char* equation, const gradus_tensor* operands, size_t n,
                            gradus_tensor* out) {
  return result("gradus_einsum", out, [&] {
    return handle_of(einsum(&need(equation, "equation"), tensors_at(operands, n, "operands")));
  });
}

gradus_status gradus_plan_equation(const char* equation, const int64_t* const* shapes,
                                   const size_t* ndims, size_t n, const char* path, int32_t algebra,
                                   gradus_plan* out) {
  return result("gradus_plan_equation", out, [&] {
    const Algebra a = algebra_at(algebra);
    return new_plan(plan_einsum(&need(equation, "equation"), shapes_at(shapes, ndims, n),
                                path_options(path, a)),
                    a);
  });
}
gradus_status gradus_plan_labels(const int32_t* const* labels, const int64_t* const* shapes,
                                 const size_t* ndims, size_t n, const int32_t* out_labels,
                                 size_t n_out, const char* path, int32_t algebra,
                                 gradus_plan* out) {
  return door("gradus_plan_labels", [&] {
    need(out, "out");
    const Algebra a = algebra_at(algebra);
    const std::vector<Shape> sizes = shapes_at(shapes, ndims, n);
    *out =
        new_plan(plan_einsum(all_labels(labels, sizes), labels_at(out_labels, n_out, "out_labels"),
                             sizes, path_options(path, a)),
                 a);
  });
}
gradus_status gradus_plan_describe(gradus_plan plan, gradus_plan_info* out) {
  return door("gradus_plan_describe", [&] {
    const auto held = object_at<Plan>(Kind::plan, plan);
    const EinsumPlan& p = held->plan;
    give_struct(out, {0, uint32_t(p.path.size()), p.flops, p.largest_intermediate},
                "gradus_plan_info");
  });
}
gradus_status gradus_plan_step(gradus_plan plan, size_t step, int32_t pair[2]) {
  return door("gradus_plan_step", [&] {
    need(pair, "pair");
    const auto p = object_at<Plan>(Kind::plan, plan);
    if (step >= p->plan.path.size())
      throw Refusal{GRADUS_INDEX, join("step ", step, ", the plan has ", p->plan.path.size())};
    pair[0] = p->plan.path[step].first;
    pair[1] = p->plan.path[step].second;
  });
}
gradus_status gradus_plan_execute(gradus_plan plan, const gradus_tensor* operands, size_t n,
                                  gradus_tensor* out) {
  return result("gradus_plan_execute", out, [&] {
    const auto p = object_at<Plan>(Kind::plan, plan);
    return handle_of(einsum(p->plan, tensors_at(operands, n, "operands"), p->algebra));
  });
}
gradus_status gradus_plan_vjp(gradus_plan plan, const gradus_tensor* operands, size_t n,
                              gradus_tensor cotangent, int32_t operand, gradus_tensor* grads) {
  return door("gradus_plan_vjp", [&] {
    give_vjp(contraction_of(plan, operands, n), maybe_tensor(cotangent, "cotangent"), operand,
             grads);
  });
}
gradus_status gradus_plan_jvp(gradus_plan plan, const gradus_tensor* operands, size_t n,
                              const gradus_tensor* tangents, gradus_tensor* out) {
  return result("gradus_plan_jvp", out,
                [&] { return handle_of(jvp_of(contraction_of(plan, operands, n), tangents)); });
}
