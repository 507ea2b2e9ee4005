// Statements as kernels: one for the value and one for the slope of each operand, for each type
// that computes. Storage types with the same computing type share a kernel: f16 and bf16 compute in
// f32, i32 and u8 in i64 (whose low bits are theirs). Included by pointwise_*.cu, which share the
// time it takes to compile.
#pragma once
#include "kernels/gpu/runtime.hpp"
#include "kernels/gpu/walk.hpp"
#include "ops/def/statements.hpp"
#include "ops/def/words_scalar.hpp"

namespace gradus::inline v1::gpu {

struct Params {
  double values[4];
};

// What is known of one statement in one computing type. Null kernels: it is not read.
struct Entry {
  void (*value)(Walk<4>, Params) = nullptr;  // the operands, out
  void (*vjp[3])(Walk<6>, Params) = {};      // g, the operands, y, out
  DType y = DType::f32;                      // of the value: the computing type, bool or real
};

template <class S, class T>
GRADUS_HD inline auto value_of(const S& s, bool m, T a, T b) {
  if constexpr (def::two_derivatives<S, T>)
    return s.cvalue(a);
  else if constexpr (S::arity == 1)
    return s.value(a);
  else if constexpr (S::arity == 2)
    return s.value(a, b);
  else
    return s.value(m, a, b);
}

// The operands of element i; what is left out is 0.
template <class S, class T, int N>
__device__ inline void operands(const Walk<N>& w, const int64_t (&at)[N], int first, bool& m, T& a,
                                T& b) {
  constexpr int mask = S::kind == def::Kind::select ? 1 : 0;
  if (mask && w.data[first]) m = reinterpret_cast<const bool*>(w.data[first])[at[first]];
  if (w.data[first + mask])
    a = load_near<T>(w.data[first + mask], at[first + mask], w.dtype[first + mask]);
  if (S::arity > 1 && w.data[first + mask + 1])
    b = load_near<T>(w.data[first + mask + 1], at[first + mask + 1], w.dtype[first + mask + 1]);
}

template <class S, class T>
GPU_KERNEL value_kernel(Walk<4> w, Params params) {
  const S s = def::make<S>(params.values);
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    int64_t at[4];
    w.places(i, at);
    bool m = false;
    T a{}, b{};
    operands<S, T>(w, at, 0, m, a, b);
    const auto y = value_of<S, T>(s, m, a, b);
    store_near(w.data[3], at[3], w.dtype[3], y);
  }
}

template <int K, class S, class T>
GPU_KERNEL vjp_kernel(Walk<6> w, Params params) {
  const S s = def::make<S>(params.values);
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    int64_t at[6];
    w.places(i, at);
    bool m = false;
    T a{}, b{}, y{}, slope;
    operands<S, T>(w, at, 1, m, a, b);
    if (w.data[4]) y = load_near<T>(w.data[4], at[4], w.dtype[4]);
    if constexpr (S::arity == 1)
      slope = def::slope<K>(s, a, y);
    else if constexpr (S::arity == 2)
      slope = def::slope<K>(s, a, b, y);
    else
      slope = def::slope<K>(s, m, a, b, y);
    store_near(w.data[5], at[5], w.dtype[5],
               load_near<T>(w.data[0], at[0], w.dtype[0]) * conj_of(slope));
  }
}

template <class S, class T>
Entry make_entry() {
  Entry e;
  if constexpr (def::reads<S, T>()) {
    e.value = kernel<value_kernel<S, T>>();
    e.y = dtype_of<decltype(value_of<S, T>(S{}, false, T{}, T{}))>;
    if constexpr (def::has_slope<0, S, T>()) e.vjp[0] = kernel<vjp_kernel<0, S, T>>();
    if constexpr (def::has_slope<1, S, T>()) e.vjp[1] = kernel<vjp_kernel<1, S, T>>();
    if constexpr (def::has_slope<2, S, T>()) e.vjp[2] = kernel<vjp_kernel<2, S, T>>();
  }
  return e;
}
template <class T>
Entry entry_for(int32_t id) {
  Entry e;
  def::visit(def::Statements{}, id, [&]<class S>() { e = make_entry<S, T>(); });
  return e;
}

// One file each.
Entry entry_f32(int32_t id);
Entry entry_f64(int32_t id);
Entry entry_c64(int32_t id);
Entry entry_c128(int32_t id);
Entry entry_i64(int32_t id);
Entry entry_bool(int32_t id);

}  // namespace gradus::gpu
