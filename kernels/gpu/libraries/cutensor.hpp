// The part of cuTENSOR 2 and hipTensor 2 that is used. They share calls and numbers but for the
// compute type: a pointer that cuTENSOR exports as data, a plain number of hipTensor's.
#pragma once
#include "kernels/gpu/libraries/types.hpp"

#include <cstddef>
#include <cstdint>

namespace gradus::inline v1::gpu::cutensor {

enum Operator : int { kIdentity = 1, kConj = 9 };
enum : int { kAlgorithmDefault = -1, kJitNone = 0, kWorkspaceDefault = 2 };
enum : int { kScalarType = 1 };         // of an operation
enum : int { kRequiredWorkspace = 0 };  // of a plan
// hipTensor's compute types.
enum HipCompute : int32_t {
  kHip32F = 4,
  kHip64F = 16,
  kHipC32F = 2048,
  kHipC64F = 4096,
};

// Opaque.
using Handle = struct HandleStruct*;
using Tensor = struct TensorStruct*;
using Operation = struct OperationStruct*;
using Preference = struct PreferenceStruct*;
using Plan = struct PlanStruct*;

// All return a status; 0 is success.
using Create = int (*)(Handle*);
using CreateTensor = int (*)(Handle, Tensor*, uint32_t modes, const int64_t extent[],
                             const int64_t stride[], int type, uint32_t alignment);
// `Compute` is const void* in cuTENSOR and int32_t in hipTensor.
template <class Compute>
using CreateContraction = int (*)(Handle, Operation*, Tensor a, const int32_t modes_a[], int op_a,
                                  Tensor b, const int32_t modes_b[], int op_b, Tensor c,
                                  const int32_t modes_c[], int op_c, Tensor d,
                                  const int32_t modes_d[], Compute);
using GetAttribute = int (*)(Handle, Operation, int attribute, void*, size_t);
using CreatePreference = int (*)(Handle, Preference*, int algorithm, int jit);
using EstimateWorkspace = int (*)(Handle, Operation, Preference, int kind, uint64_t* bytes);
using CreatePlan = int (*)(Handle, Plan*, Operation, Preference, uint64_t most_workspace);
using PlanGetAttribute = int (*)(Handle, Plan, int attribute, void*, size_t);
using Contract = int (*)(Handle, Plan, const void* alpha, const void* a, const void* b,
                         const void* beta, const void* c, void* d, void* workspace, uint64_t bytes,
                         void* stream);
using DestroyTensor = int (*)(Tensor);
using DestroyOperation = int (*)(Operation);
using DestroyPreference = int (*)(Preference);
using DestroyPlan = int (*)(Plan);

}  // namespace gradus::gpu::cutensor
