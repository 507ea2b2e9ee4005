// A CBLAS by plain loops that counts its calls, to be given to the cpu device as a program gives
// its own, and to be looked at.
#pragma once
#include "engine/abi/complex.hpp"

#include <atomic>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace counted_blas {

using namespace gradus;
using Functions = std::vector<std::pair<std::string, void (*)()>>;

inline std::atomic<int> calls{0}, told_threads{0};

template <class T>
void multiply(int order, int trans_a, int trans_b, int m, int n, int k, T alpha, const T* a,
              int lda, const T* b, int ldb, T beta, T* c, int ldc) {
  ++calls;
  if (order != 101) return;
  const auto entry = [](const T* x, int trans, int ld, int row, int column) {
    const T y = trans == 111 ? x[int64_t(row) * ld + column] : x[int64_t(column) * ld + row];
    if constexpr (is_complex_v<T>) return trans == 113 ? conj_of(y) : y;
    return y;
  };
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      T sum(0);
      for (int p = 0; p < k; ++p)
        sum = sum + entry(a, trans_a, lda, i, p) * entry(b, trans_b, ldb, p, j);
      T& to = c[int64_t(i) * ldc + j];
      to = beta == T(0) ? alpha * sum : alpha * sum + beta * to;
    }
}
template <class T>
void multiply_complex(int order, int trans_a, int trans_b, int m, int n, int k, const void* alpha,
                      const void* a, int lda, const void* b, int ldb, const void* beta, void* c,
                      int ldc) {
  const auto at = [](const void* x) { return static_cast<const T*>(x); };
  multiply<T>(order, trans_a, trans_b, m, n, k, *at(alpha), at(a), lda, at(b), ldb, *at(beta),
              static_cast<T*>(c), ldc);
}
template <class Int>
void scale(Int n, double by, double* x, Int step) {
  for (Int i = 0; i < n; ++i) x[i * step] *= by;
}
inline void set_threads(int n) { told_threads = n; }

template <class F>
void (*plain(F* f))() {
  return reinterpret_cast<void (*)()>(f);
}
inline Functions functions() {
  return {{"cblas_sgemm", plain(multiply<float>)},
          {"cblas_dgemm", plain(multiply<double>)},
          {"cblas_cgemm", plain(multiply_complex<c64>)},
          {"cblas_zgemm", plain(multiply_complex<c128>)},
          {"cblas_dscal", plain(scale<int>)},
          {"openblas_set_num_threads", plain(set_threads)}};
}

}  // namespace counted_blas
