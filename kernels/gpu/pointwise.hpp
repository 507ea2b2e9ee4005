// Statements as kernels: one for the value and one for the slope of each operand, for each type
// that computes. Storage types with the same computing type share a kernel: f16 and bf16 compute in
// f32, i32 and u8 in i64 (whose low bits are theirs). Included by pointwise_*.cu, which share the
// time it takes to compile.
#pragma once
#include "kernels/gpu/runtime.hpp"
#include "kernels/gpu/runs.hpp"
#include "ops/def/statements.hpp"
#include "ops/def/words_scalar.hpp"

namespace gradus::inline v1::gpu {

struct Params {
  double values[4];
};

// What is known of one statement in one computing type. Null kernels: it is not read.
struct Entry {
  void (*value)(Runs<4>, Params) = nullptr;  // the operands, out
  void (*vjp[3])(Runs<6>, Params) = {};      // g, the operands, y, out
  DType y = DType::f32;                      // of the value: the computing type, bool or real
  int run = 1;                               // elements that a thread takes at a time
};

// As many as fill 16 bytes; of complex numbers, for which a statement is long, one.
template <class T>
inline constexpr int kRun = is_complex_v<T> ? 1 : int(16 / sizeof(T));

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

// A run of one operand. It is unpacked when all operands are on their way.
template <class T>
struct Loaded {
  T x[kRun<T>] = {};
  template <int N>
  __device__ void load(const Runs<N>& w, int v, int64_t at, int n, bool whole) {
    at_storage<T>(w.dtype[v], [&](auto s) {
      using S = decltype(s);
      S stored[kRun<T>] = {};
      load_run(stored, reinterpret_cast<const S*>(w.data[v]) + at, w.step(v), n, whole);
      for (int k = 0; k < kRun<T>; ++k) x[k] = T(stored[k]);
    });
  }
  __device__ void unpack(int32_t, T (&to)[kRun<T>]) const {
    for (int k = 0; k < kRun<T>; ++k) to[k] = x[k];
  }
};
// Of the 16-bit types a pair in a word, so that nothing here has to wait for them.
template <>
struct Loaded<float> {
  float wide[4] = {};
  uint32_t pairs[2] = {};
  template <int N>
  __device__ void load(const Runs<N>& w, int v, int64_t at, int n, bool whole) {
    if (w.dtype[v] == GD_F32)
      return load_run(wide, reinterpret_cast<const float*>(w.data[v]) + at, w.step(v), n, whole);
    const auto* p = reinterpret_cast<const uint16_t*>(w.data[v]) + at;
    if (whole) return load_run(pairs, reinterpret_cast<const Bits32*>(p), 1, 2, true);
    uint16_t x[4] = {};
    load_run(x, p, w.step(v), n, false);
    for (int k = 0; k < 2; ++k) pairs[k] = x[2 * k] | uint32_t(x[2 * k + 1]) << 16;
  }
  __device__ void unpack(int32_t dtype, float (&to)[4]) const {
    at_storage<float>(dtype, [&](auto s) {
      using S = decltype(s);
      for (int k = 0; k < 4; ++k) {
        if constexpr (std::is_same_v<S, float>) {
          to[k] = wide[k];
        } else {
          S stored;
          stored.bits = uint16_t(pairs[k / 2] >> k % 2 * 16);
          to[k] = widened(stored);
        }
      }
    });
  }
};

template <int N>
__device__ inline bool is_whole(const Runs<N>& w, int v, int n, int length) {
  return n == length && (w.wide >> v & 1u);
}

template <class Y, int R, int N>
__device__ inline void store_near_run(const Runs<N>& w, int v, int64_t at, int n, bool whole,
                                      const Y (&y)[R]) {
  at_storage<Y>(w.dtype[v], [&](auto s) {
    using S = decltype(s);
    S stored[R];
    for (int k = 0; k < R; ++k) stored[k] = narrowed<S>(y[k]);
    store_run(stored, reinterpret_cast<S*>(w.data[v]) + at, w.step(v), n, whole);
  });
}

// The operands of a run, the first of them in view `first`; what is left out, if some may be, is 0.
template <class S, class T, bool Some>
struct Operands {
  static constexpr int R = kRun<T>, mask = S::kind == def::Kind::select ? 1 : 0;
  bool m[R] = {};
  Loaded<T> a, b;
  template <int N>
  __device__ void load(const Runs<N>& w, const int64_t (&at)[N], int first, int n) {
    if (mask && (!Some || w.data[first]))
      load_run(m, reinterpret_cast<const bool*>(w.data[first]) + at[first], w.step(first), n,
               is_whole(w, first, n, R));
    const int va = first + mask, vb = va + 1;
    if (!Some || w.data[va]) a.load(w, va, at[va], n, is_whole(w, va, n, R));
    if (S::arity > 1 && (!Some || w.data[vb])) b.load(w, vb, at[vb], n, is_whole(w, vb, n, R));
  }
};

template <class S, class T>
GPU_KERNEL value_kernel(Runs<4> w, Params params) {
  constexpr int R = kRun<T>;
  const S s = def::make<S>(params.values);
  for (uint32_t r = uint32_t(first_index()); r < w.total; r += uint32_t(index_step())) {
    int64_t at[4];
    const int n = w.start(r, at);
    Operands<S, T, false> o;
    o.load(w, at, 0, n);
    T a[R], b[R];
    o.a.unpack(w.dtype[o.mask], a);
    if constexpr (S::arity > 1) o.b.unpack(w.dtype[o.mask + 1], b);
    decltype(value_of<S, T>(s, false, T{}, T{})) y[R] = {};
    for (int k = 0; k < R; ++k)
      if (k == 0 || w.long_runs())
        y[k] = value_of<S, T>(s, o.m[k], a[k], S::arity > 1 ? b[k] : T{});
    store_near_run(w, 3, at[3], n, is_whole(w, 3, n, R), y);
  }
}

template <int K, class S, class T>
GPU_KERNEL vjp_kernel(Runs<6> w, Params params) {
  constexpr int R = kRun<T>;
  const S s = def::make<S>(params.values);
  for (uint32_t r = uint32_t(first_index()); r < w.total; r += uint32_t(index_step())) {
    int64_t at[6];
    const int n = w.start(r, at);
    Loaded<T> of_g, of_y;
    Operands<S, T, true> o;
    of_g.load(w, 0, at[0], n, is_whole(w, 0, n, R));
    o.load(w, at, 1, n);
    if (w.data[4]) of_y.load(w, 4, at[4], n, is_whole(w, 4, n, R));
    T g[R], a[R], b[R], y[R];
    of_g.unpack(w.dtype[0], g);
    o.a.unpack(w.dtype[5], a);
    if constexpr (S::arity > 1) o.b.unpack(w.dtype[5], b);
    of_y.unpack(w.dtype[5], y);
    for (int k = 0; k < R; ++k) {
      if (k > 0 && !w.long_runs()) break;
      T slope;
      if constexpr (S::arity == 1)
        slope = def::slope<K>(s, a[k], y[k]);
      else if constexpr (S::arity == 2)
        slope = def::slope<K>(s, a[k], b[k], y[k]);
      else
        slope = def::slope<K>(s, o.m[k], a[k], b[k], y[k]);
      g[k] = g[k] * conj_of(slope);
    }
    store_near_run(w, 5, at[5], n, is_whole(w, 5, n, R), g);
  }
}

template <class S, class T>
Entry make_entry() {
  Entry e;
  if constexpr (def::reads<S, T>()) {
    e.value = kernel<value_kernel<S, T>>();
    e.run = kRun<T>;
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

// The statement in the type that computes for t; and that type.
Entry entry_of(int32_t id, DType t);
inline DType computing_dtype(DType t) {
  return is_half(t) ? DType::f32 : t == DType::i32 || t == DType::u8 ? DType::i64 : t;
}

}  // namespace gradus::gpu
