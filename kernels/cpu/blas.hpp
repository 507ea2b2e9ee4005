// A BLAS for products of matrices in the slot contract, by its C interface, CBLAS, which says how
// the rows of each matrix lie.
#pragma once
#include "kernels/cpu/library.hpp"

namespace gradus::inline v1::cpu {

// CBLAS, with its enums as the ints they are; numbers of complex functions go by address.
enum CblasWord { kRowMajor = 101, kNoTrans = 111, kTrans = 112, kConjTrans = 113 };
template <class T>
using Gemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, T alpha, const T* a,
                      int lda, const T* b, int ldb, T beta, T* c, int ldc);
using ComplexGemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k,
                             const void* alpha, const void* a, int lda, const void* b, int ldb,
                             const void* beta, void* c, int ldc);

struct BlasLibrary {
  Library library;
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;
  ComplexGemm cgemm = nullptr, zgemm = nullptr;
  void (*set_threads)(int) = nullptr;

  // What is wrong: it lacks a function, has integers of 64 bits, or loses a NaN.
  std::string get();
  std::string text() const { return library.text("BLAS"); }
};

}  // namespace gradus::cpu
