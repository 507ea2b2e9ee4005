// Operations of five kinds: a descriptor, a plan, what it needs, what it gives.
#include "bindings/c/door.hpp"
#include "ops/contract/operations/operation.hpp"

using namespace gradus;
using namespace gradus::c;

namespace {

struct Planned : Object {
  explicit Planned(std::shared_ptr<const Operation> p) : plan(std::move(p)) {}
  std::shared_ptr<const Operation> plan;
};
std::shared_ptr<const Operation> plan_at(gradus_operation operation) {
  return object_at<Planned>(Kind::operation, operation)->plan;
}

Operator operator_at(const char* name, const double* parameters = nullptr, size_t n = 0) {
  const auto all = array(parameters, n, "parameters", 16);
  return {name ? name : "", {all.begin(), all.end()}};
}
Ints modes_at(const int32_t* modes, size_t n) {
  const auto all = array(modes, n, "modes", GRADUS_MAX_DIMS);
  return {all.begin(), all.end()};
}
OperandModes operand_at(const gradus_operand& o) {
  return {modes_at(o.modes, o.ndim), shape_at(o.sizes, o.ndim, "sizes"), dtype_at(o.dtype),
          operator_at(o.op, o.parameters, o.n_parameters)};
}
OperationDesc desc_at(const gradus_operation_desc* given) {
  const gradus_operation_desc d = struct_at(given, "gradus_operation_desc");
  if (d.kind < GRADUS_CONTRACTION || d.kind > GRADUS_TRINARY)
    throw Refusal{GRADUS_VALUE, join("kind ", d.kind,
                                     " is none; expected GRADUS_CONTRACTION ... GRADUS_TRINARY")};
  OperationDesc out{OperationKind(d.kind),         {},
                    modes_at(d.modes, d.n_modes),  operator_at(d.combine),
                    operator_at(d.combine_second), operator_at(d.after)};
  if (d.n_operands > kMostOperands)
    throw Refusal{GRADUS_VALUE, join("operands: ", d.n_operands, " are more than 3")};
  const uint32_t step = d.n_operands > 0 ? need(d.operands, "operands").struct_size : 0;
  for (size_t k = 0; k < d.n_operands; ++k) {
    const auto* const at = reinterpret_cast<const char*>(d.operands) + k * step;
    const auto o = struct_at(reinterpret_cast<const gradus_operand*>(at), "gradus_operand");
    if (o.struct_size != step)
      throw Refusal{GRADUS_VALUE,
                    "operands: all must have the same struct_size, sizeof(gradus_operand)"};
    out.operands.push_back(operand_at(o));
  }
  return out;
}

}  // namespace

gradus_status gradus_operation_create(const gradus_operation_desc* desc, gradus_operation* out) {
  return result("gradus_operation_create", out, [&] {
    return new_handle(Kind::operation, std::make_shared<Planned>(operation(desc_at(desc))));
  });
}
gradus_status gradus_operation_describe(gradus_operation operation, gradus_operation_info* out) {
  return door("gradus_operation_describe", [&] {
    const auto plan = plan_at(operation);
    const uint64_t bytes = plan->workspace_bytes();
    give_struct(out, {0, int32_t(plan->dtype()), bytes, int64_t(bytes / itemsize(plan->dtype()))},
                "gradus_operation_info");
  });
}
gradus_status gradus_operation_execute(gradus_operation operation, const gradus_tensor* operands,
                                       size_t n, const double* factors, gradus_tensor workspace,
                                       gradus_tensor into, gradus_tensor* out) {
  return door("gradus_operation_execute", [&] {
    if (into == 0) need(out, "out");
    const auto plan = plan_at(operation);
    SmallVector<Tensor, kMostOperands> in;
    for (const gradus_tensor t : array(operands, n, "operands", kMostOperands))
      in.push_back(maybe_tensor(t, {"operands", in.size()}));
    Factors f;
    if (factors) f = {{factors[0], factors[1]}, {factors[2], factors[3]}, {factors[4], factors[5]}};
    const Tensor d = plan->execute({in.data(), in.size()}, f, maybe_tensor(into, "into"),
                                   maybe_tensor(workspace, "workspace"));
    if (into == 0) *out = handle_of(d);
  });
}
