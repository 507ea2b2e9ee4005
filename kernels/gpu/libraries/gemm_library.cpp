// cuBLASLt, called.
#include "kernels/gpu/libraries/gemm_library.hpp"

namespace gradus::inline v1::gpu {
namespace {

using namespace cublaslt;

// What sums are made in, and what alpha and beta are.
struct Types {
  int compute, scale;
};
Types types_of(int32_t dtype, bool tf32) {
  const DataType type = data_type(dtype);
  switch (type) {
    case kR64F:
    case kC64F:
      return {kCompute64F, type};
    case kC32F:
      return {kCompute32F, type};
    default:
      return {tf32 && type == kR32F ? kCompute32FFastTF32 : kCompute32F, kR32F};
  }
}

// A factor as the library reads it.
struct Scalar {
  double wide[2];
  float narrow[2];
  const void* as(int type) const {
    return type == kR64F || type == kC64F ? static_cast<const void*>(wide) : narrow;
  }
};
Scalar scalar(const double (&x)[2]) { return {{x[0], x[1]}, {float(x[0]), float(x[1])}}; }

constexpr int64_t kAlignment = 256;  // the most that algorithms ask for

}  // namespace

GemmLibrary::GemmLibrary(const LibrarySearch& search, size_t workspace)
    : library_("cuBLASLt", search), most_workspace_(workspace) {
  if (!why().empty()) return;
  library_.get(create_, "cublasLtCreate");
  library_.get(operation_create_, "cublasLtMatmulDescCreate");
  library_.get(operation_destroy_, "cublasLtMatmulDescDestroy");
  library_.get(operation_set_, "cublasLtMatmulDescSetAttribute");
  library_.get(layout_create_, "cublasLtMatrixLayoutCreate");
  library_.get(layout_destroy_, "cublasLtMatrixLayoutDestroy");
  library_.get(layout_set_, "cublasLtMatrixLayoutSetAttribute");
  library_.get(preference_create_, "cublasLtMatmulPreferenceCreate");
  library_.get(preference_destroy_, "cublasLtMatmulPreferenceDestroy");
  library_.get(preference_set_, "cublasLtMatmulPreferenceSetAttribute");
  library_.get(get_heuristic_, "cublasLtMatmulAlgoGetHeuristic");
  library_.get(matmul_, "cublasLtMatmul");
  if (!why().empty()) return;
  if (const int status = create_(&handle_))
    library_.refuse("cublasLtCreate failed: " + status_text(status));
}

GemmLibrary::~GemmLibrary() = default;  // the handle stays, as devices do

GemmLibrary::Plan::~Plan() {
  for (Layout layout : {a, b, out})
    if (layout) library.layout_destroy_(layout);
  if (operation) library.operation_destroy_(operation);
}

GemmLibrary::Plan* GemmLibrary::plan(const MatrixProduct& p, bool may_make) {
  PlanCache<Plan>::Key key = {p.dtype, p.summed, p.batch, p.tf32,
                              p.bias ? alignment_of(p.bias, kAlignment) : 0};
  for (const MatrixProduct::Matrix* m : {&p.a, &p.b, &p.out})
    for (int64_t x : {m->rows, m->columns, m->leading, m->batch_stride, int64_t(m->transposed),
                      int64_t(m->conjugated), alignment_of(m->data, kAlignment)})
      key.push_back(x);
  Plan* const kept = plans_.find(key);
  if (kept || !may_make) return kept;
  auto fresh = std::make_unique<Plan>(*this);
  make(*fresh, p);
  return plans_.add(key, std::move(fresh));
}

void GemmLibrary::make(Plan& plan, const MatrixProduct& p) const {
  const Types types = types_of(p.dtype, p.tf32);
  int status = operation_create_(&plan.operation, types.compute, types.scale);
  const auto set = [&](auto function, auto object, int attribute, const auto& value) {
    if (status == 0) status = function(object, attribute, &value, sizeof value);
  };
  const auto operator_of = [](const MatrixProduct::Matrix& m) -> int32_t {
    return m.conjugated ? kOpC : m.transposed ? kOpT : kOpN;
  };
  set(operation_set_, plan.operation, kTransA, operator_of(p.a));
  set(operation_set_, plan.operation, kTransB, operator_of(p.b));
  // Its RELU epilogue is not known to keep NaN as ours does, so relu is a pass of its own.
  const uint32_t epilogue = p.bias ? kEpilogueBias : kEpilogueDefault;
  set(operation_set_, plan.operation, kEpilogue, epilogue);
  if (p.bias) set(operation_set_, plan.operation, kBiasPointer, p.bias);

  const auto layout = [&](Layout& into, const MatrixProduct::Matrix& m) {
    if (status == 0)
      status = layout_create_(&into, data_type(p.dtype), uint64_t(m.rows), uint64_t(m.columns),
                              m.leading);
    set(layout_set_, into, kBatchCount, int32_t(p.batch));
    set(layout_set_, into, kBatchStride, m.batch_stride);
  };
  layout(plan.a, p.a);
  layout(plan.b, p.b);
  layout(plan.out, p.out);

  Preference preference = nullptr;
  if (status == 0) status = preference_create_(&preference);
  set(preference_set_, preference, kMaxWorkspaceBytes, uint64_t(most_workspace_));
  // A sum in parts is rounded to f16 once, at its end.
  set(preference_set_, preference, kReductionSchemes, uint32_t(kReduceInComputeType));
  set(preference_set_, preference, kMinAlignmentA, uint32_t(alignment_of(p.a.data, kAlignment)));
  set(preference_set_, preference, kMinAlignmentB, uint32_t(alignment_of(p.b.data, kAlignment)));
  for (int attribute : {kMinAlignmentC, kMinAlignmentD})
    set(preference_set_, preference, attribute, uint32_t(alignment_of(p.out.data, kAlignment)));

  HeuristicResult best{};
  int found = 0;
  if (status == 0)
    status = get_heuristic_(handle_, plan.operation, plan.a, plan.b, plan.out, plan.out, preference,
                            1, &best, &found);
  if (preference) preference_destroy_(preference);
  if (status == 0) status = found < 1 ? kNotSupported : best.state;
  if (status != 0) {
    plan.why = "cuBLASLt has no algorithm for it: " + status_text(status);
    return;
  }
  plan.algorithm = best.algorithm;
  plan.workspace = best.workspace;
}

int GemmLibrary::run(const Plan& plan, const MatrixProduct& p, void* workspace,
                     void* stream) const {
  const Types types = types_of(p.dtype, p.tf32);
  const Scalar alpha = scalar(p.alpha), beta = scalar(p.beta);
  if (p.bias)
    if (const int status = operation_set_(plan.operation, kBiasPointer, &p.bias, sizeof p.bias))
      return status;
  return matmul_(handle_, plan.operation, alpha.as(types.scale), p.a.data, plan.a, p.b.data, plan.b,
                 beta.as(types.scale), p.out.data, plan.out, p.out.data, plan.out, &plan.algorithm,
                 workspace, plan.workspace, stream);
}

}  // namespace gradus::gpu
