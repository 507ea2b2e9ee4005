// Our own declarations of cuBLASLt and cuSOLVER against NVIDIA's headers, where the toolkit is
// installed: numbers, the sizes of structures, and the sizes of every function's parameters.
#include "kernels/gpu/libraries/cublaslt.hpp"
#include "kernels/gpu/libraries/cusolver.hpp"

#if __has_include(<cublasLt.h>) && __has_include(<cusolverDn.h>)
#include <cublasLt.h>
#include <cusolverDn.h>
#include <type_traits>

namespace {
using namespace gradus::gpu;
using namespace gradus::gpu::cublaslt;

static_assert(kR32F == int(CUDA_R_32F) && kR64F == int(CUDA_R_64F) && kR16F == int(CUDA_R_16F));
static_assert(kC32F == int(CUDA_C_32F) && kC64F == int(CUDA_C_64F) && kR16BF == int(CUDA_R_16BF));
static_assert(kCompute32F == int(CUBLAS_COMPUTE_32F) && kCompute64F == int(CUBLAS_COMPUTE_64F));
static_assert(kCompute32FFastTF32 == int(CUBLAS_COMPUTE_32F_FAST_TF32));
static_assert(kOpN == int(CUBLAS_OP_N) && kOpT == int(CUBLAS_OP_T) && kOpC == int(CUBLAS_OP_C));
static_assert(kTransA == int(CUBLASLT_MATMUL_DESC_TRANSA));
static_assert(kTransB == int(CUBLASLT_MATMUL_DESC_TRANSB));
static_assert(kEpilogue == int(CUBLASLT_MATMUL_DESC_EPILOGUE));
static_assert(kBiasPointer == int(CUBLASLT_MATMUL_DESC_BIAS_POINTER));
static_assert(kEpilogueDefault == uint32_t(CUBLASLT_EPILOGUE_DEFAULT));
static_assert(kEpilogueBias == uint32_t(CUBLASLT_EPILOGUE_BIAS));
static_assert(kBatchCount == int(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT));
static_assert(kBatchStride == int(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET));
static_assert(kMaxWorkspaceBytes == int(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
static_assert(kReductionSchemes == int(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK));
static_assert(kMinAlignmentA == int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES));
static_assert(kMinAlignmentB == int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES));
static_assert(kMinAlignmentC == int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES));
static_assert(kMinAlignmentD == int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));
static_assert(kReduceInComputeType == uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
static_assert(kNotSupported == int(CUBLAS_STATUS_NOT_SUPPORTED));

using Theirs = cublasLtMatmulHeuristicResult_t;
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(Theirs));
static_assert(offsetof(HeuristicResult, workspace) == offsetof(Theirs, workspaceSize));
static_assert(offsetof(HeuristicResult, state) == offsetof(Theirs, state));

// Equal parameters: pointers both, or numbers of one size both.
template <class A, class B>
constexpr bool alike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
template <class Ours, class Other>
constexpr bool same = false;
template <class R, class... A, class S, class... B>
constexpr bool same<R (*)(A...), S (*)(B...)> = [] {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return alike<R, S> && (alike<A, B> && ...);
}();
static_assert(same<Create, decltype(&cublasLtCreate)>);
static_assert(same<OperationCreate, decltype(&cublasLtMatmulDescCreate)>);
static_assert(same<OperationDestroy, decltype(&cublasLtMatmulDescDestroy)>);
static_assert(same<OperationSet, decltype(&cublasLtMatmulDescSetAttribute)>);
static_assert(same<LayoutCreate, decltype(&cublasLtMatrixLayoutCreate)>);
static_assert(same<LayoutDestroy, decltype(&cublasLtMatrixLayoutDestroy)>);
static_assert(same<LayoutSet, decltype(&cublasLtMatrixLayoutSetAttribute)>);
static_assert(same<PreferenceCreate, decltype(&cublasLtMatmulPreferenceCreate)>);
static_assert(same<PreferenceDestroy, decltype(&cublasLtMatmulPreferenceDestroy)>);
static_assert(same<PreferenceSet, decltype(&cublasLtMatmulPreferenceSetAttribute)>);
static_assert(same<GetHeuristic, decltype(&cublasLtMatmulAlgoGetHeuristic)>);
static_assert(same<Matmul, decltype(&cublasLtMatmul)>);

// Of one letter: the functions of all four differ by what pointers point to.
namespace solver = gradus::gpu::cusolver;
static_assert(solver::kCuda.plain == int(CUBLAS_OP_N) && solver::kCuda.adjoint == int(CUBLAS_OP_C));
static_assert(solver::kCuda.transposed == int(CUBLAS_OP_T));
static_assert(solver::kCuda.lower == int(CUBLAS_FILL_MODE_LOWER));
static_assert(solver::kCuda.no_vectors == int(CUSOLVER_EIG_MODE_NOVECTOR));
static_assert(solver::kCuda.vectors == int(CUSOLVER_EIG_MODE_VECTOR));
static_assert(same<solver::Create, decltype(&cusolverDnCreate)>);
static_assert(same<solver::SetStream, decltype(&cusolverDnSetStream)>);
static_assert(same<solver::CreateParams, decltype(&cusolverDnCreateParams)>);
static_assert(same<solver::PotrfSize, decltype(&cusolverDnDpotrf_bufferSize)>);
static_assert(same<solver::Potrf, decltype(&cusolverDnDpotrf)>);
static_assert(same<solver::GetrfSize, decltype(&cusolverDnDgetrf_bufferSize)>);
static_assert(same<solver::Getrf, decltype(&cusolverDnDgetrf)>);
static_assert(same<solver::Getrs, decltype(&cusolverDnDgetrs)>);
static_assert(same<solver::GeqrfSize, decltype(&cusolverDnDgeqrf_bufferSize)>);
static_assert(same<solver::Geqrf, decltype(&cusolverDnDgeqrf)>);
static_assert(same<solver::OrgqrSize, decltype(&cusolverDnDorgqr_bufferSize)>);
static_assert(same<solver::Orgqr, decltype(&cusolverDnDorgqr)>);
static_assert(same<solver::OrgqrSize, decltype(&cusolverDnZungqr_bufferSize)>);
static_assert(same<solver::Orgqr, decltype(&cusolverDnZungqr)>);
static_assert(same<solver::SyevdSize, decltype(&cusolverDnDsyevd_bufferSize)>);
static_assert(same<solver::Syevd, decltype(&cusolverDnDsyevd)>);
static_assert(same<solver::SyevdSize, decltype(&cusolverDnZheevd_bufferSize)>);
static_assert(same<solver::Syevd, decltype(&cusolverDnZheevd)>);
static_assert(same<solver::GesvdSize, decltype(&cusolverDnDgesvd_bufferSize)>);
static_assert(same<solver::Gesvd, decltype(&cusolverDnDgesvd)>);
static_assert(same<solver::CreateJacobi, decltype(&cusolverDnCreateGesvdjInfo)>);
static_assert(same<solver::SetTolerance, decltype(&cusolverDnXgesvdjSetTolerance)>);
static_assert(same<solver::SetSweeps, decltype(&cusolverDnXgesvdjSetMaxSweeps)>);
static_assert(same<solver::SetSorted, decltype(&cusolverDnXgesvdjSetSortEig)>);
static_assert(same<solver::GesvdjSize, decltype(&cusolverDnDgesvdj_bufferSize)>);
static_assert(same<solver::Gesvdj, decltype(&cusolverDnDgesvdj)>);
#if CUSOLVER_VERSION >= 11701  // CUDA 12.6 Update 2
static_assert(same<solver::GeevSize, decltype(&cusolverDnXgeev_bufferSize)>);
static_assert(same<solver::Geev, decltype(&cusolverDnXgeev)>);
#endif
}  // namespace
#endif
