// Compiled (not run) by `./dev lint` where nvcc is found: every statement as a GPU thread reads it, its
// value and, on real and complex numbers, all its slopes, in each dtype that it names.
#include "ops/def/statements.hpp"
#include "ops/def/words_scalar.hpp"

namespace gradus {

template <class S, class T>
__global__ void read_statement(const T* a, const T* b, const bool* m, T* out, const double* params) {
  const S s = def::make<S>(params);
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if constexpr (S::kind == def::Kind::comparison) {
    if constexpr (S::arity == 1)
      out[i] = s.value(a[i]) ? T(1) : T(0);
    else
      out[i] = s.value(a[i], b[i]) ? T(1) : T(0);
  } else if constexpr (!is_floating(dtype_of<T>)) {
    if constexpr (S::kind == def::Kind::select)
      out[i] = s.value(m[i], a[i], b[i]);
    else if constexpr (S::arity == 2)
      out[i] = s.value(a[i], b[i]);
    else
      out[i] = s.value(a[i]);
  } else if constexpr (S::kind == def::Kind::select) {
    const T y = s.value(m[i], a[i], b[i]);
    out[i] = y + def::slope<1>(s, m[i], a[i], b[i], y) + def::slope<2>(s, m[i], a[i], b[i], y);
  } else if constexpr (S::arity == 2) {
    const T y = s.value(a[i], b[i]);
    out[i] = y + def::slope<0>(s, a[i], b[i], y) + def::slope<1>(s, a[i], b[i], y);
  } else if constexpr (S::kind == def::Kind::non_holomorphic && is_complex_v<T>) {
    out[i] = T(s.cvalue(a[i])) + s.dz(a[i]) + s.dzbar(a[i]);
  } else {
    const T y = s.value(a[i]);
    out[i] = y + def::slope<0>(s, a[i], y);
  }
}

template <class S, class T>
const void* kernel() {
  if constexpr (def::reads<S, T>())
    return reinterpret_cast<const void*>(&read_statement<S, T>);
  else
    return nullptr;
}

struct Collect {
  int* count;
  template <class S>
  void operator()(int) const {
    *count += (kernel<S, float>() != nullptr) + (kernel<S, double>() != nullptr) +
              (kernel<S, c64>() != nullptr) + (kernel<S, c128>() != nullptr) +
              (kernel<S, int32_t>() != nullptr) + (kernel<S, int64_t>() != nullptr) +
              (kernel<S, uint8_t>() != nullptr) + (kernel<S, bool>() != nullptr);
  }
};

int gpu_kernels() {
  int count = 0;
  def::for_each(def::Statements{}, Collect{&count});
  return count;
}

}  // namespace gradus
