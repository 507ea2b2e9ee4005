// Block functions: a statement read over contiguous blocks by any reader R (a scalar, a batch)
// whose loads and stores an Io names. The one place where statements, memory and readers meet.
#pragma once
#include "kernels/cpu/runtime.hpp"
#include "ops/def/statements.hpp"

#include <type_traits>

namespace gradus::inline v1::cpu {

// Io of a scalar dtype T: one element at a time.
template <class T>
struct ScalarIo {
  using Element = T;
  using Reader = T;
  using Real = real_of<T>;
  static constexpr int64_t step = 1;
  static T load(const void* p, int64_t i) { return static_cast<const T*>(p)[i]; }
  static bool load_mask(const void* p, int64_t i) { return static_cast<const uint8_t*>(p)[i] != 0; }
  static void store(void* p, int64_t i, T x) { static_cast<T*>(p)[i] = x; }
  static void store_mask(void* p, int64_t i, bool m) { static_cast<bool*>(p)[i] = m; }
  static void store_real(void* p, int64_t i, Real x) { static_cast<Real*>(p)[i] = x; }
};

// Operands and steps by value: a store to the output could change those behind the pointers.
template <int kCount>
struct Operands {
  const void* at[kCount];
  int64_t by[kCount];
  Operands(const void* const* in, const int64_t* step) {
#pragma GCC unroll 8
    for (int k = 0; k < kCount; ++k) at[k] = in[k], by[k] = step[k];
  }
};

template <class S, class Io>
void value_block(const void* const* operands, const int64_t* steps, void* out, int64_t n,
                 const double* params) {
  using def::Kind;
  const Operands<S::kind == Kind::select ? 3 : S::arity> all(operands, steps);
  const void* const* const in = all.at;
  const int64_t* const step = all.by;
  constexpr bool of_complex = is_complex_v<typename Io::Element>;
  const S s = def::make<S>(params);
  for (int64_t i = 0; i < n; i += Io::step) {
    if constexpr (S::kind == Kind::select) {
      Io::store(out, i,
                s.value(Io::load_mask(in[0], i * step[0]), Io::load(in[1], i * step[1]),
                        Io::load(in[2], i * step[2])));
    } else if constexpr (S::kind == Kind::comparison) {
      if constexpr (S::arity == 1)
        Io::store_mask(out, i, s.value(Io::load(in[0], i * step[0])));
      else
        Io::store_mask(out, i, s.value(Io::load(in[0], i * step[0]), Io::load(in[1], i * step[1])));
    } else if constexpr (S::kind == Kind::non_holomorphic && of_complex) {
      const auto y = s.cvalue(Io::load(in[0], i * step[0]));
      if constexpr (is_complex_v<std::remove_cv_t<decltype(y)>>)
        Io::store(out, i, y);
      else
        Io::store_real(out, i, y);
    } else if constexpr (S::arity == 1) {
      Io::store(out, i, s.value(Io::load(in[0], i * step[0])));
    } else {
      Io::store(out, i, s.value(Io::load(in[0], i * step[0]), Io::load(in[1], i * step[1])));
    }
  }
}

// in = {g, operands, y}; out = g * conj(slope of operand K).
template <class S, class Io, int K>
void vjp_block(const void* const* operands, const int64_t* steps, void* out, int64_t n,
               const double* params) {
  const Operands<(S::kind == def::Kind::select ? 3 : S::arity) + 2> all(operands, steps);
  const void* const* const in = all.at;
  const int64_t* const step = all.by;
  const S s = def::make<S>(params);
  for (int64_t i = 0; i < n; i += Io::step) {
    typename Io::Reader slope;
    if constexpr (S::kind == def::Kind::select)
      slope = def::slope<K>(s, Io::load_mask(in[1], i * step[1]), Io::load(in[2], i * step[2]),
                            Io::load(in[3], i * step[3]), Io::load(in[4], i * step[4]));
    else if constexpr (S::arity == 1)
      slope = def::slope<K>(s, Io::load(in[1], i * step[1]), Io::load(in[2], i * step[2]));
    else
      slope = def::slope<K>(s, Io::load(in[1], i * step[1]), Io::load(in[2], i * step[2]),
                            Io::load(in[3], i * step[3]));
    Io::store(out, i, Io::load(in[0], i * step[0]) * conj_of(slope));
  }
}

template <class S, class Io>
constexpr int32_t value_dtype() {
  using T = typename Io::Element;
  if constexpr (S::kind == def::Kind::comparison)
    return GD_BOOL;
  else if constexpr (S::kind == def::Kind::non_holomorphic && is_complex_v<T>)
    return int32_t(dtype_of<decltype(S{}.cvalue(T{}))>);
  else
    return int32_t(dtype_of<T>);
}

template <class S, class Io>
constexpr Block block_of() {
  using T = typename Io::Element;
  if constexpr (!def::reads<S, T>()) {
    return Block{};
  } else {
    Block b{value_block<S, Io>, {}, value_dtype<S, Io>(), S::arity, S::meta.param_count()};
    if constexpr (def::has_slope<0, S, T>()) b.vjp[0] = vjp_block<S, Io, 0>;
    if constexpr (def::has_slope<1, S, T>()) b.vjp[1] = vjp_block<S, Io, 1>;
    if constexpr (def::has_slope<2, S, T>()) b.vjp[2] = vjp_block<S, Io, 2>;
    return b;
  }
}

// The blocks of all statements for one Io, by id.
template <class Io, class... S>
const Block* find_block(def::List<S...>, int32_t op) {
  static constexpr Block table[] = {block_of<S, Io>()...};
  return op >= 0 && op < int32_t(sizeof...(S)) && table[op].value ? &table[op] : nullptr;
}

}  // namespace gradus::cpu
