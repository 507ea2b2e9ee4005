// A cuTENSOR 2 or, with FAKE_HIP, a hipTensor 2 whose device is the host: contractions in plain
// loops, and it looks at all it is given. With FAKE_OLD hipTensor 1, which has no plans.
#include "kernels/gpu/libraries/cutensor.hpp"

#include "tests/libraries/fake.hpp"

#include <cstring>
#include <map>
#include <vector>

#ifdef FAKE_HIP
#define NAME(name) hiptensor##name
using Compute = int32_t;
#else
#define NAME(name) cutensor##name
using Compute = const void*;
// A descriptor is an object; what is exported is a pointer to it.
struct ComputeStruct {
  int code;
};
static const ComputeStruct compute_types[] = {{4}, {16}, {77}};
EXPORTED const void* CUTENSOR_COMPUTE_DESC_32F;
EXPORTED const void* CUTENSOR_COMPUTE_DESC_64F;
EXPORTED const void* CUTENSOR_COMPUTE_DESC_TF32;
const void* CUTENSOR_COMPUTE_DESC_32F = &compute_types[0];
const void* CUTENSOR_COMPUTE_DESC_64F = &compute_types[1];
const void* CUTENSOR_COMPUTE_DESC_TF32 = &compute_types[2];
#endif

using namespace gradus::gpu;
using namespace fake;

namespace gradus::gpu::cutensor {
struct HandleStruct : Object {};
struct TensorStruct : Object {
  std::vector<int64_t> extents, strides;
  int type;
  uint32_t alignment;
};
struct OperationStruct : Object {
  TensorStruct *a, *b, *d;
  std::vector<int32_t> modes_a, modes_b, modes_d;
  bool conj_a, conj_b;
};
struct PreferenceStruct : Object {};
struct PlanStruct : Object {
  OperationStruct* operation;
  uint64_t workspace;
};
}  // namespace gradus::gpu::cutensor

namespace {
using namespace gradus::gpu::cutensor;

// The code that a compute type has in hipTensor; 0 if it is none.
int code_of(Compute compute) {
#ifdef FAKE_HIP
  return compute;
#else
  for (const ComputeStruct& c : compute_types)
    if (compute == &c) return c.code;
  return 0;
#endif
}
bool fits(int code, int type) {
#ifdef FAKE_HIP
  if (type == kC32F) return code == 2048;
  if (type == kC64F) return code == 4096;
#endif
  if (type == kR64F || type == kC64F) return code == 16;
  return code == 4 || (code == 77 && type == kR32F);
}
}  // namespace

EXPORTED int NAME(Create)(Handle* h) {
  if (gradus_fake.fail_create) return gradus_fake.fail_create;
  ++gradus_fake.handles;
  *h = new HandleStruct;
  return 0;
}
EXPORTED int NAME(CreateTensorDescriptor)(Handle h, Tensor* t, uint32_t modes,
                                          const int64_t extent[], const int64_t stride[], int type,
                                          uint32_t alignment) {
  if (!alive(h)) return wrong("a handle that is not alive");
  for (uint32_t k = 0; k < modes; ++k)
    if (extent[k] < 1 || stride[k] < 1) return wrong("an extent or a stride below 1");
  if (alignment < bytes_of(type) || alignment > 128) return wrong("an alignment");
  *t = new TensorStruct{{}, {extent, extent + modes}, {stride, stride + modes}, type, alignment};
  return 0;
}
EXPORTED int NAME(CreateContraction)(Handle h, Operation* op, Tensor a, const int32_t modes_a[],
                                     int op_a, Tensor b, const int32_t modes_b[], int op_b,
                                     Tensor c, const int32_t modes_c[], int op_c, Tensor d,
                                     const int32_t modes_d[], Compute compute) {
  if (!alive(h) || !alive(a) || !alive(b) || !alive(c) || !alive(d))
    return wrong("an object that is not alive");
  if (c != d || modes_c != modes_d || op_c != kIdentity) return wrong("c is not d");
  if (!code_of(compute)) return wrong("no compute type");
  if (!fits(code_of(compute), d->type)) return wrong("a compute type that does not fit");
  if (a->type != d->type || b->type != d->type) return wrong("types that differ");
  const bool complex = d->type == kC32F || d->type == kC64F;
  for (int o : {op_a, op_b})
    if (o != kIdentity && !(o == kConj && complex)) return wrong("an operator");
  const auto list = [](const int32_t* modes, Tensor t) {
    return std::vector<int32_t>(modes, modes + t->extents.size());
  };
  *op = new OperationStruct{
      {},           a, b, d, list(modes_a, a), list(modes_b, b), list(modes_d, d), op_a == kConj,
      op_b == kConj};
  gradus_fake.compute = code_of(compute);
  return 0;
}
EXPORTED int NAME(OperationDescriptorGetAttribute)(Handle h, Operation op, int attribute,
                                                   void* value, size_t bytes) {
  if (!alive(h) || !alive(op) || attribute != 1 || bytes != 4) return wrong("an attribute");
  const int type = op->d->type;
  const int32_t scalar = type == kR16F || type == kR16BF ? int32_t(kR32F) : type;
  std::memcpy(value, &scalar, 4);
  return 0;
}
EXPORTED int NAME(CreatePlanPreference)(Handle h, Preference* p, int algorithm, int jit) {
  if (!alive(h) || algorithm != -1 || jit != 0) return wrong("a preference");
  *p = new PreferenceStruct;
  return 0;
}
EXPORTED int NAME(EstimateWorkspaceSize)(Handle h, Operation op, Preference p, int kind,
                                         uint64_t* bytes) {
  if (!alive(h) || !alive(op) || !alive(p) || kind != 2) return wrong("an estimate");
  *bytes = uint64_t(gradus_fake.workspace_wanted) * 2;
  return 0;
}
#ifndef FAKE_OLD
EXPORTED int NAME(CreatePlan)(Handle h, Plan* plan, Operation op, Preference p, uint64_t most) {
  if (!alive(h) || !alive(op) || !alive(p)) return wrong("an object that is not alive");
  ++gradus_fake.plans;
  if (gradus_fake.fail_plan) return gradus_fake.fail_plan;
  if (most < uint64_t(gradus_fake.workspace_wanted)) return 19;
  *plan = new PlanStruct{{}, op, uint64_t(gradus_fake.workspace_wanted)};
  return 0;
}
#endif
EXPORTED int NAME(PlanGetAttribute)(Handle h, Plan plan, int attribute, void* value, size_t bytes) {
  if (!alive(h) || !alive(plan) || attribute != 0 || bytes != 8) return wrong("an attribute");
  std::memcpy(value, &plan->workspace, 8);
  return 0;
}
EXPORTED int NAME(DestroyTensorDescriptor)(Tensor t) { return destroy(t); }
EXPORTED int NAME(DestroyOperationDescriptor)(Operation op) { return destroy(op); }
EXPORTED int NAME(DestroyPlanPreference)(Preference p) { return destroy(p); }
EXPORTED int NAME(DestroyPlan)(Plan p) { return destroy(p); }

EXPORTED int NAME(Contract)(Handle h, Plan plan, const void* alpha, const void* a, const void* b,
                            const void* beta, const void* c, void* d, void* workspace,
                            uint64_t bytes, void*) {
  if (!alive(h) || !alive(plan) || !alive(plan->operation))
    return wrong("an object that is not alive");
  const OperationStruct& op = *plan->operation;
  if (c != d) return wrong("another c");
  if (!aligned(a, op.a->alignment) || !aligned(b, op.b->alignment) || !aligned(d, op.d->alignment))
    return wrong("a tensor that is not aligned as its descriptor says");
  if (bytes < plan->workspace) return wrong("too small a workspace");
  if (bytes > 0) std::memset(workspace, 0x5a, bytes);
  if (gradus_fake.fail_run) return gradus_fake.fail_run;
  ++gradus_fake.runs;

  struct Mode {
    int64_t extent = 0, a = 0, b = 0, d = 0, at = 0;
  };
  std::map<int32_t, Mode> free_modes, summed;
  for (size_t k = 0; k < op.modes_d.size(); ++k)
    free_modes[op.modes_d[k]] = {op.d->extents[k], 0, 0, op.d->strides[k]};
  const auto add = [&](const std::vector<int32_t>& modes, Tensor t, int64_t Mode::*stride) {
    for (size_t k = 0; k < modes.size(); ++k) {
      Mode& m = free_modes.count(modes[k]) ? free_modes[modes[k]] : summed[modes[k]];
      if (m.extent != 0 && m.extent != t->extents[k]) wrong("extents that differ");
      m.extent = t->extents[k];
      m.*stride = t->strides[k];
    }
  };
  add(op.modes_a, op.a, &Mode::a);
  add(op.modes_b, op.b, &Mode::b);
  for (const auto& [mode, m] : summed)
    if (m.a == 0 || m.b == 0) return wrong("a mode of one operand alone");
  // Counts through the modes; false after the last.
  const auto next = [](std::map<int32_t, Mode>& modes) {
    for (auto& [mode, m] : modes) {
      if (++m.at < m.extent) return true;
      m.at = 0;
    }
    return false;
  };
  const int type = op.d->type;
  const int scalar = type == kR16F || type == kR16BF ? int(kR32F) : type;
  const Wide scale = load(alpha, 0, scalar), keep = load(beta, 0, scalar);
  do {
    int64_t at_a = 0, at_b = 0, at_d = 0;
    for (const auto& [mode, m] : free_modes)
      at_a += m.at * m.a, at_b += m.at * m.b, at_d += m.at * m.d;
    Wide sum = 0;
    do {
      int64_t term_a = at_a, term_b = at_b;
      for (const auto& [mode, m] : summed) term_a += m.at * m.a, term_b += m.at * m.b;
      const Wide x = load(a, term_a, type), y = load(b, term_b, type);
      sum += (op.conj_a ? std::conj(x) : x) * (op.conj_b ? std::conj(y) : y);
    } while (next(summed));
    Wide y = scale * sum;
    if (keep != 0.0) y += keep * load(c, at_d, type);
    store(d, at_d, type, y);
  } while (next(free_modes));
  return 0;
}
