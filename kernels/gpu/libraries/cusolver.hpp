// The part of cuSOLVER's interface for dense matrices that is used: LAPACK's functions, once for
// each of s, d, c and z, whose pointers differ by their types alone. hipSOLVER's functions
// hipsolverDn... have the same parameters, but numbers of their own.
// tests/gpu/test_gpu_library_types.cpp compares it with NVIDIA's header where there is one.
#pragma once
#include "kernels/gpu/libraries/types.hpp"

#include <cstddef>
#include <cstdint>

namespace gradus::inline v1::gpu::cusolver {

// What a number is for cuSOLVER and for hipSOLVER.
struct Numbers {
  int plain, transposed, adjoint;  // op(A)
  int lower;                       // the triangle that is read
  int no_vectors, vectors;
};
inline constexpr Numbers kCuda = {0, 1, 2, 0, 0, 1}, kHip = {111, 112, 113, 122, 201, 202};

// Opaque.
using Handle = struct HandleStruct*;
using Params = struct ParamsStruct*;
using Jacobi = struct JacobiStruct*;  // how gesvdj works

// All return a status; 0 is success. Lengths of work are in elements.
using Create = int (*)(Handle*);
using SetStream = int (*)(Handle, void* stream);
using CreateParams = int (*)(Params*);
using PotrfSize = int (*)(Handle, int triangle, int n, void* a, int lda, int* length);
using Potrf = int (*)(Handle, int triangle, int n, void* a, int lda, void* work, int length,
                      int* info);
using GetrfSize = int (*)(Handle, int m, int n, void* a, int lda, int* length);
using Getrf = int (*)(Handle, int m, int n, void* a, int lda, void* work, int* pivots, int* info);
using Getrs = int (*)(Handle, int op, int n, int columns, const void* a, int lda, const int* pivots,
                      void* b, int ldb, int* info);
using GeqrfSize = int (*)(Handle, int m, int n, void* a, int lda, int* length);
using Geqrf = int (*)(Handle, int m, int n, void* a, int lda, void* tau, void* work, int length,
                      int* info);
using OrgqrSize = int (*)(Handle, int m, int n, int k, const void* a, int lda, const void* tau,
                          int* length);
using Orgqr = int (*)(Handle, int m, int n, int k, void* a, int lda, const void* tau, void* work,
                      int length, int* info);
using SyevdSize = int (*)(Handle, int job, int triangle, int n, const void* a, int lda,
                          const void* w, int* length);
using Syevd = int (*)(Handle, int job, int triangle, int n, void* a, int lda, void* w, void* work,
                      int length, int* info);
using GesvdSize = int (*)(Handle, int m, int n, int* length);
using Gesvd = int (*)(Handle, signed char job_u, signed char job_vh, int m, int n, void* a, int lda,
                      void* s, void* u, int ldu, void* vh, int ldvh, void* work, int length,
                      void* real_work, int* info);
// By Jacobi's rotations. v is V, not V^H; of `thin` ones u and v have min(m, n) columns. info is
// min(m, n) + 1 where it did not converge.
using CreateJacobi = int (*)(Jacobi*);
using SetTolerance = int (*)(Jacobi, double);
using SetSweeps = int (*)(Jacobi, int);
using SetSorted = int (*)(Jacobi, int);
using GesvdjSize = int (*)(Handle, int job, int thin, int m, int n, const void* a, int lda,
                           const void* s, const void* u, int ldu, const void* v, int ldv,
                           int* length, Jacobi);
using Gesvdj = int (*)(Handle, int job, int thin, int m, int n, void* a, int lda, void* s, void* u,
                       int ldu, void* v, int ldv, void* work, int length, int* info, Jacobi);
// Of CUDA 12.6 Update 2 and later. For all types; `type` stands before each operand.
using GeevSize = int (*)(Handle, Params, int job_left, int job_right, int64_t n, int type,
                         const void* a, int64_t lda, int type_w, const void* w, int type_left,
                         const void* left, int64_t ld_left, int type_right, const void* right,
                         int64_t ld_right, int compute, size_t* bytes, size_t* host_bytes);
using Geev = int (*)(Handle, Params, int job_left, int job_right, int64_t n, int type, void* a,
                     int64_t lda, int type_w, void* w, int type_left, void* left, int64_t ld_left,
                     int type_right, void* right, int64_t ld_right, int compute, void* work,
                     size_t bytes, void* host_work, size_t host_bytes, int* info);

}  // namespace gradus::gpu::cusolver
