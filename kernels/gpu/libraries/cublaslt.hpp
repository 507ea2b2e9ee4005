// The part of cuBLASLt's C interface that is used, so that no toolkit is needed to build it.
// tests/gpu/test_gpu_library_types.cpp compares it with NVIDIA's header where there is one.
#pragma once
#include "kernels/gpu/libraries/types.hpp"

#include <cstddef>
#include <cstdint>

namespace gradus::inline v1::gpu::cublaslt {

enum : int { kCompute32F = 68, kCompute64F = 70, kCompute32FFastTF32 = 77 };
enum : int { kOpN = 0, kOpT = 1, kOpC = 2 };
enum Description : int { kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8 };
enum : uint32_t { kEpilogueDefault = 1, kEpilogueBias = 4 };
enum LayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute : int {
  kMaxWorkspaceBytes = 1,
  kReductionSchemes = 3,
  kMinAlignmentA = 5,
  kMinAlignmentB = 6,
  kMinAlignmentC = 7,
  kMinAlignmentD = 8
};
enum : uint32_t { kReduceInComputeType = 2 };

struct Algorithm {
  uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
// Opaque.
using Handle = struct HandleStruct*;
using Operation = struct OperationStruct*;
using Layout = struct LayoutStruct*;
using Preference = struct PreferenceStruct*;

// All return a cublasStatus_t; 0 is success.
using Create = int (*)(Handle*);
using OperationCreate = int (*)(Operation*, int compute, int scale_type);
using OperationDestroy = int (*)(Operation);
using OperationSet = int (*)(Operation, int attribute, const void*, size_t);
using LayoutCreate = int (*)(Layout*, int type, uint64_t rows, uint64_t columns, int64_t leading);
using LayoutDestroy = int (*)(Layout);
using LayoutSet = int (*)(Layout, int attribute, const void*, size_t);
using PreferenceCreate = int (*)(Preference*);
using PreferenceDestroy = int (*)(Preference);
using PreferenceSet = int (*)(Preference, int attribute, const void*, size_t);
using GetHeuristic = int (*)(Handle, Operation, Layout a, Layout b, Layout c, Layout d, Preference,
                             int wanted, HeuristicResult*, int* found);
using Matmul = int (*)(Handle, Operation, const void* alpha, const void* a, Layout, const void* b,
                       Layout, const void* beta, const void* c, Layout, void* d, Layout,
                       const Algorithm*, void* workspace, size_t bytes, void* stream);

}  // namespace gradus::gpu::cublaslt
