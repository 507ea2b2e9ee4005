// cuTENSOR and hipTensor, called.
#include "kernels/gpu/libraries/tensor_library.hpp"

#include <algorithm>

namespace gradus::inline v1::gpu {
namespace {

using namespace cutensor;

constexpr int64_t kAlignment = 128;  // the most that kernels ask for
constexpr uint64_t kMostWorkspace = uint64_t(1) << 28;

bool is_wide(int32_t dtype) { return dtype == GD_F64 || dtype == GD_C128; }

}  // namespace

TensorLibrary::TensorLibrary(const LibrarySearch& search)
    : library_("cuTENSOR or hipTensor", search) {
  if (!why().empty()) return;
  hip_ = library_.has("hiptensorCreate") && !library_.has("cutensorCreate");
  const std::string prefix = hip_ ? "hiptensor" : "cutensor";
  // hipTensor 1 has other calls of the same names, but this one only since 2.
  library_.get(create_plan_, prefix + "CreatePlan");
  library_.get(create_, prefix + "Create");
  library_.get(create_tensor_, prefix + "CreateTensorDescriptor");
  if (hip_)
    library_.get(create_contraction_hip_, prefix + "CreateContraction");
  else
    library_.get(create_contraction_, prefix + "CreateContraction");
  library_.get(get_attribute_, prefix + "OperationDescriptorGetAttribute");
  library_.get(create_preference_, prefix + "CreatePlanPreference");
  library_.get(estimate_workspace_, prefix + "EstimateWorkspaceSize");
  library_.get(plan_get_attribute_, prefix + "PlanGetAttribute");
  library_.get(contract_, prefix + "Contract");
  library_.get(destroy_tensor_, prefix + "DestroyTensorDescriptor");
  library_.get(destroy_operation_, prefix + "DestroyOperationDescriptor");
  library_.get(destroy_preference_, prefix + "DestroyPlanPreference");
  library_.get(destroy_plan_, prefix + "DestroyPlan");
  if (!hip_) {
    const char* const names[] = {"32F", "64F", "TF32"};
    for (int k = 0; k < 3; ++k) {
      const void* const* exported = nullptr;
      library_.get(exported, std::string("CUTENSOR_COMPUTE_DESC_") + names[k]);
      if (exported) compute_[k] = *exported;
    }
  }
  if (!why().empty()) return;
  if (const int status = create_(&handle_))
    library_.refuse(prefix + "Create failed: " + status_text(status));
}

TensorLibrary::~TensorLibrary() = default;  // the handle stays: versions destroy it differently

TensorLibrary::Plan::~Plan() {
  if (plan) library.destroy_plan_(plan);
  if (preference) library.destroy_preference_(preference);
  if (operation) library.destroy_operation_(operation);
  for (Tensor tensor : {a, b, out})
    if (tensor) library.destroy_tensor_(tensor);
}

TensorLibrary::Plan* TensorLibrary::plan(const TensorContraction& c, bool may_make) {
  PlanCache<Plan>::Key key = {c.dtype, c.tf32};
  key.insert(key.end(), c.extents.begin(), c.extents.end());
  for (const TensorContraction::Operand* x : {&c.a, &c.b, &c.out}) {
    key.insert(key.end(), {-1, x->conjugated, alignment_of(x->data, kAlignment)});
    key.insert(key.end(), x->axes.begin(), x->axes.end());
    key.insert(key.end(), x->strides.begin(), x->strides.end());
  }
  Plan* const kept = plans_.find(key);
  if (kept || !may_make) return kept;
  auto fresh = std::make_unique<Plan>(*this);
  if (const int status = make(*fresh, c))
    fresh->why = std::string(hip_ ? "hipTensor" : "cuTENSOR") +
                 " makes no plan for it: " + status_text(status);
  return plans_.add(key, std::move(fresh));
}

int TensorLibrary::create_contraction(Plan& plan, const TensorContraction& c) const {
  const auto create = [&](auto function, auto compute) {
    const auto op = [](const TensorContraction::Operand& x) {
      return x.conjugated ? kConj : kIdentity;
    };
    return function(handle_, &plan.operation, plan.a, c.a.axes.data(), op(c.a), plan.b,
                    c.b.axes.data(), op(c.b), plan.out, c.out.axes.data(), kIdentity, plan.out,
                    c.out.axes.data(), compute);
  };
  const bool wide = is_wide(c.dtype);
  if (!hip_) {
    const bool rounds = c.tf32 && c.dtype == GD_F32;
    return create(create_contraction_, compute_[wide ? 1 : rounds ? 2 : 0]);
  }
  const bool complex = c.dtype == GD_C64 || c.dtype == GD_C128;
  return create(create_contraction_hip_, int32_t(complex ? (wide ? kHipC64F : kHipC32F)
                                                 : wide  ? kHip64F
                                                         : kHip32F));
}

int TensorLibrary::make(Plan& plan, const TensorContraction& c) const {
  const auto describe = [&](Tensor& into, const TensorContraction::Operand& x) {
    std::vector<int64_t> extents;
    for (int32_t axis : x.axes) extents.push_back(c.extents[size_t(axis)]);
    return create_tensor_(handle_, &into, uint32_t(x.axes.size()), extents.data(), x.strides.data(),
                          data_type(c.dtype), uint32_t(alignment_of(x.data, kAlignment)));
  };
  if (const int status = describe(plan.a, c.a)) return status;
  if (const int status = describe(plan.b, c.b)) return status;
  if (const int status = describe(plan.out, c.out)) return status;
  if (const int status = create_contraction(plan, c)) return status;
  if (const int status = get_attribute_(handle_, plan.operation, kScalarType, &plan.scalar_type,
                                        sizeof plan.scalar_type))
    return status;
  switch (plan.scalar_type) {
    case kR32F:
    case kR64F:
    case kC32F:
    case kC64F:
      break;
    default:
      return kNotSupported;
  }
  // No code made on the spot, no choice by timing: the same call gives the same bits.
  if (const int status = create_preference_(handle_, &plan.preference, kAlgorithmDefault, kJitNone))
    return status;
  uint64_t workspace = 0;
  if (const int status = estimate_workspace_(handle_, plan.operation, plan.preference,
                                             kWorkspaceDefault, &workspace))
    return status;
  workspace = std::min(workspace, kMostWorkspace);
  if (const int status =
          create_plan_(handle_, &plan.plan, plan.operation, plan.preference, workspace))
    return status;
  if (const int status =
          plan_get_attribute_(handle_, plan.plan, kRequiredWorkspace, &workspace, sizeof workspace))
    return status;
  plan.workspace = size_t(workspace);
  return 0;
}

int TensorLibrary::run(const Plan& plan, const TensorContraction& c, void* workspace,
                       void* stream) const {
  const double wide[2][2] = {{c.alpha[0], c.alpha[1]}, {c.beta[0], c.beta[1]}};
  const float narrow[2][2] = {{float(c.alpha[0]), float(c.alpha[1])},
                              {float(c.beta[0]), float(c.beta[1])}};
  const bool is_narrow = plan.scalar_type == kR32F || plan.scalar_type == kC32F;
  const auto factor = [&](int k) {
    return is_narrow ? static_cast<const void*>(narrow[k]) : wide[k];
  };
  return contract_(handle_, plan.plan, factor(0), c.a.data, c.b.data, factor(1), c.out.data,
                   c.out.data, workspace, plan.workspace, stream);
}

}  // namespace gradus::gpu
