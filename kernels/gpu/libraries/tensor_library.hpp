// Contractions of any axes by cuTENSOR 2 or hipTensor 2, through one table of functions. Threads:
// calls of one device are ordered by its lock.
#pragma once
#include "kernels/gpu/libraries/cutensor.hpp"
#include "kernels/gpu/libraries/library.hpp"

namespace gradus::inline v1::gpu {

// out = alpha SUM a b + beta out. An axis stands by its number in `extents`.
struct TensorContraction {
  struct Operand {
    void* data = nullptr;
    std::vector<int32_t> axes = {};
    std::vector<int64_t> strides = {};  // of those; above 0
    bool conjugated = false;
  };
  int32_t dtype = 0;
  std::vector<int64_t> extents;
  Operand a, b, out;
  double alpha[2] = {1, 0}, beta[2] = {0, 0};
  bool tf32 = false;
};

class TensorLibrary {
 public:
  struct Plan;

  explicit TensorLibrary(const LibrarySearch&);
  ~TensorLibrary();
  TensorLibrary(const TensorLibrary&) = delete;

  const std::string& why() const { return library_.why(); }
  std::string text() const {
    return library_.text(hip_ ? "hiptensorGetVersion" : "cutensorGetVersion");
  }
  // The kept plan, or a new one if there is none and `make`; else null.
  Plan* plan(const TensorContraction&, bool make);
  // The library's status.
  int run(const Plan&, const TensorContraction&, void* workspace, void* stream) const;

 private:
  int make(Plan&, const TensorContraction&) const;
  int create_contraction(Plan&, const TensorContraction&) const;

  Library library_;
  bool hip_ = false;  // is it hipTensor?
  cutensor::Handle handle_ = nullptr;
  cutensor::Create create_;
  cutensor::CreateTensor create_tensor_;
  cutensor::CreateContraction<const void*> create_contraction_ = nullptr;
  cutensor::CreateContraction<int32_t> create_contraction_hip_ = nullptr;
  cutensor::GetAttribute get_attribute_;
  cutensor::CreatePreference create_preference_;
  cutensor::EstimateWorkspace estimate_workspace_;
  cutensor::CreatePlan create_plan_;
  cutensor::PlanGetAttribute plan_get_attribute_;
  cutensor::Contract contract_;
  cutensor::DestroyTensor destroy_tensor_;
  cutensor::DestroyOperation destroy_operation_;
  cutensor::DestroyPreference destroy_preference_;
  cutensor::DestroyPlan destroy_plan_;
  const void* compute_[3] = {};  // cuTENSOR's descriptors: 32F, 64F, TF32
  PlanCache<Plan> plans_;
};

struct TensorLibrary::Plan : LibraryPlan {
  explicit Plan(const TensorLibrary& l) : library(l) {}
  ~Plan();
  Plan(const Plan&) = delete;

  const TensorLibrary& library;
  cutensor::Tensor a = nullptr, b = nullptr, out = nullptr;
  cutensor::Operation operation = nullptr;
  cutensor::Preference preference = nullptr;
  cutensor::Plan plan = nullptr;
  int scalar_type = kR32F;  // of alpha and beta
};

}  // namespace gradus::gpu
