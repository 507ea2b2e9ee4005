// Matrix products by cuBLASLt: descriptors and the algorithm of each kind of product are made once
// and kept. Threads: calls of one device are ordered by its lock.
#pragma once
#include "kernels/gpu/libraries/cublaslt.hpp"
#include "kernels/gpu/libraries/library.hpp"

namespace gradus::inline v1::gpu {

// out = alpha op(a) op(b) + beta out + bias for each of a batch, all stored column by column.
struct MatrixProduct {
  struct Matrix {
    void* data = nullptr;
    int64_t rows = 0, columns = 0;  // as stored
    int64_t leading = 0;            // elements from a column to the next
    int64_t batch_stride = 0;
    bool transposed = false, conjugated = false;
  };
  int32_t dtype = 0;
  Matrix a, b, out;
  int64_t summed = 0, batch = 1;
  double alpha[2] = {1, 0}, beta[2] = {0, 0};
  void* bias = nullptr;  // one element per row of out, or null
  bool tf32 = false;
};

class GemmLibrary {
 public:
  struct Plan;

  // Opens it. `workspace`: the most bytes that a product may have.
  GemmLibrary(const LibrarySearch&, size_t workspace);
  ~GemmLibrary();
  GemmLibrary(const GemmLibrary&) = delete;

  const std::string& why() const { return library_.why(); }
  std::string text() const { return library_.text("cublasLtGetVersion"); }
  // The kept plan, or a new one if there is none and `make`; else null.
  Plan* plan(const MatrixProduct&, bool make);
  // The library's status.
  int run(const Plan&, const MatrixProduct&, void* workspace, void* stream) const;

 private:
  void make(Plan&, const MatrixProduct&) const;

  Library library_;
  size_t most_workspace_;
  cublaslt::Handle handle_ = nullptr;
  cublaslt::Create create_;
  cublaslt::OperationCreate operation_create_;
  cublaslt::OperationDestroy operation_destroy_;
  cublaslt::OperationSet operation_set_;
  cublaslt::LayoutCreate layout_create_;
  cublaslt::LayoutDestroy layout_destroy_;
  cublaslt::LayoutSet layout_set_;
  cublaslt::PreferenceCreate preference_create_;
  cublaslt::PreferenceDestroy preference_destroy_;
  cublaslt::PreferenceSet preference_set_;
  cublaslt::GetHeuristic get_heuristic_;
  cublaslt::Matmul matmul_;
  PlanCache<Plan> plans_;
};

struct GemmLibrary::Plan : LibraryPlan {
  explicit Plan(const GemmLibrary& l) : library(l) {}
  ~Plan();
  Plan(const Plan&) = delete;

  const GemmLibrary& library;
  cublaslt::Operation operation = nullptr;
  cublaslt::Layout a = nullptr, b = nullptr, out = nullptr;
  cublaslt::Algorithm algorithm{};
};

}  // namespace gradus::gpu
