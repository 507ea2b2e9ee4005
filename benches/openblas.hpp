// OpenBLAS, opened at run time: a bench needs no package to build, and says when it is missing.
#pragma once
#include <string>

namespace gradus::inline v1::bench {

// CBLAS, with its enums as the ints they are: row-major 101, as it stands 111, transposed 112.
struct OpenBlas {
  template <class T>
  using Gemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, T alpha,
                        const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc);
  template <class T>
  using Gemv = void (*)(int order, int trans, int m, int n, T alpha, const T* a, int lda,
                        const T* x, int incx, T beta, T* y, int incy);
  using ComplexGemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k,
                               const void* alpha, const void* a, int lda, const void* b, int ldb,
                               const void* beta, void* c, int ldc);
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;
  Gemv<float> sgemv = nullptr;
  Gemv<double> dgemv = nullptr;
  ComplexGemm cgemm = nullptr, zgemm = nullptr;
  void (*set_threads)(int) = nullptr;
  std::string name;  // "OpenBLAS", for the table

  template <class T>
  auto gemm() const {
    if constexpr (sizeof(T) == 4)
      return sgemm;
    else
      return dgemm;
  }
  template <class T>
  auto gemv() const {
    if constexpr (sizeof(T) == 4)
      return sgemv;
    else
      return dgemv;
  }
};

// Null if the library is not here; says so, or its version and kernels, once.
const OpenBlas* openblas();

}  // namespace gradus::bench
