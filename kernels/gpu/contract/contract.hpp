// Contractions as kernels read them: contract.cu sorts the joint axes into rows (of a and out),
// columns (of b and out), batch (of all three) and summed ones. And what a sum is: an algebra over
// a computing type.
#pragma once
#include "kernels/gpu/runtime.hpp"
#include "kernels/gpu/values.hpp"
#include "kernels/gpu/walk.hpp"
#include "ops/def/statements.hpp"
#include "ops/def/words_scalar.hpp"

#include <string>

#if defined(GRADUS_EMULATE)
#define GPU_NO_UNROLL
#define GPU_THREADS(n)
#define GPU_THREADS_RESIDENT(n, blocks)
#else
#define GPU_NO_UNROLL _Pragma("unroll 1")
#define GPU_THREADS(n) __launch_bounds__(n)
#define GPU_THREADS_RESIDENT(n, blocks) __launch_bounds__(n, blocks)
#endif

namespace gradus::inline v1::gpu {

constexpr int kContractThreads = 256;

enum Group : int { kRows, kColumns, kBatch, kSummed, kGroups };
enum Part : int { kA, kB, kOut, kBias, kWinners, kParts };

struct Contraction {
  // Group by group, in each the last axis first.
  struct Axis {
    int64_t size;
    Divisor divisor;
    double inverse;  // of size
    int64_t strides[kParts];

    GRADUS_HD int64_t quotient(int64_t i, bool wide) const {
      if (!wide) return divisor.quotient(uint32_t(i));
      const int64_t q = int64_t(double(i) * inverse), r = i - q * size;  // may be off by one
      return r < 0 ? q - 1 : r >= size ? q + 1 : q;
    }
  };
  Axis axes[kMaxAxes];
  int32_t first[kGroups + 1];
  int64_t extent[kGroups];
  char* data[kParts];  // null: left out
  int32_t dtype;
  // How the work is done: a gd_way, and into how many parts the sum is cut (0: by the sizes).
  int32_t way;
  int64_t parts;
  int64_t tiles_down, tiles_across, chunks, chunk;
  // Along which axis neighbouring threads read a and b and write out, so that they touch memory
  // together.
  bool along_sum[2], out_along_rows;  // of a and b
  bool aligned[2];  // of a and b: 16 bytes that lie along that axis can be read at once

  // Adds the places of element i of a group in the first N views.
  template <int N>
  __device__ void add_places(Group group, int64_t i, int64_t (&at)[kParts]) const {
    const bool wide = extent[group] > kMostElements;
    for (int d = first[group], end = first[group + 1]; d < end; ++d) {
      const int64_t rest = d + 1 < end ? axes[d].quotient(i, wide) : 0;
      const int64_t k = i - rest * axes[d].size;
      GPU_UNROLL
      for (int v = 0; v < N; ++v) at[v] += k * axes[d].strides[v];
      i = rest;
    }
  }
};

// ---- elements of a computing type, on their way between memory and registers

// What was read, not yet converted: a thread asks for all its elements before it uses the first.
template <class T>
struct raw_t {
  using type = T;
};
template <>
struct raw_t<float> {
  using type = uint32_t;
};
template <class T>
using Raw = typename raw_t<T>::type;

template <class T>
GRADUS_HD inline Raw<T> load_raw(const char* data, int64_t at, int32_t dtype) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == GD_F32) return reinterpret_cast<const uint32_t*>(data)[at];
    return reinterpret_cast<const uint16_t*>(data)[at];
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (dtype == GD_I64) return reinterpret_cast<const uint64_t*>(data)[at];
    if (dtype == GD_I32) return reinterpret_cast<const uint32_t*>(data)[at];
    return reinterpret_cast<const uint8_t*>(data)[at];
  } else {
    return reinterpret_cast<const T*>(data)[at];
  }
}
template <class T>
GRADUS_HD inline T number_of(Raw<T> raw, int32_t dtype) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == GD_F32) return detail::bits_float(raw);
    if (dtype == GD_BF16) return detail::bits_float(raw << 16);
    Half h;
    h.bits = uint16_t(raw);
    return float(h);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return dtype == GD_I32 ? uint64_t(int64_t(int32_t(uint32_t(raw)))) : raw;
  } else {
    return raw;
  }
}
template <class T>
GRADUS_HD inline T load_number(const char* data, int64_t at, int32_t dtype) {
  return number_of<T>(load_raw<T>(data, at, dtype), dtype);
}
template <class T>
GRADUS_HD inline void store_number(char* data, int64_t at, int32_t dtype, T x) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == GD_F32)
      reinterpret_cast<float*>(data)[at] = x;
    else if (dtype == GD_F16)
      reinterpret_cast<Half*>(data)[at] = Half(x);
    else
      reinterpret_cast<BFloat16*>(data)[at] = BFloat16(x);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (dtype == GD_I64)
      reinterpret_cast<uint64_t*>(data)[at] = x;
    else if (dtype == GD_I32)
      reinterpret_cast<uint32_t*>(data)[at] = uint32_t(x);
    else
      reinterpret_cast<uint8_t*>(data)[at] = uint8_t(x);
  } else {
    reinterpret_cast<T*>(data)[at] = x;
  }
}

// a b + c, rounded once; the emulator, whose host may be slow at that, rounds the product as well.
template <class R>
GRADUS_HD inline R multiply_add(R a, R b, R c) {
#if defined(GRADUS_EMULATE)
  return a * b + c;
#else
  return fma(a, b, c);
#endif
}

// ---- sums. Number: what is computed in; Sum: what adds up; `pads`: terms 0 * 0 may be added.

// T is float, double, c64, c128, or uint64_t for integers: their low bits are those of any width.
template <class T>
struct Standard {
  using Number = T;
  using Sum = T;
  static constexpr bool pads = true;

  T alpha, beta;
  bool reads_out, conj_a, conj_b;
  bool ends;  // does each element go through def::Final?

  GRADUS_HD T read(Part p, T x) const { return (p == kA ? conj_a : conj_b) ? conj_of(x) : x; }
  GRADUS_HD static T start() { return T(0); }
  GRADUS_HD void add(T& sum, T a, T b, int64_t) const {
    if constexpr (is_complex_v<T>) {
      sum.re = multiply_add(a.re, b.re, sum.re);
      sum.re = multiply_add(-a.im, b.im, sum.re);
      sum.im = multiply_add(a.re, b.im, sum.im);
      sum.im = multiply_add(a.im, b.re, sum.im);
    } else if constexpr (std::is_floating_point_v<T>) {
      sum = multiply_add(a, b, sum);
    } else {
      sum += a * b;
    }
  }
  GRADUS_HD static void join(T& sum, T other) { sum += other; }

  // A factor times x, without turning 1 * inf into NaN in a complex product.
  GRADUS_HD static T times(T factor, T x) {
    if constexpr (is_complex_v<T>)
      if (factor.im == 0) return T(factor.re * x.re, factor.re * x.im);
    return factor * x;
  }
  // The one place where an element of out is made from its sum.
  GRADUS_HD void finish(const Contraction& c, char* const* data, const int64_t (&at)[kParts],
                        T sum) const {
    T y = times(alpha, sum);
    if (reads_out) y += times(beta, load_number<T>(data[kOut], at[kOut], c.dtype));
    if (data[kBias]) y += load_number<T>(data[kBias], at[kBias], c.dtype);
    if constexpr (std::is_floating_point_v<T>)
      if (ends) y = def::Final{}.value(y);
    store_number(data[kOut], at[kOut], c.dtype, y);
  }
};

// Max-plus, min-plus, max-times and min-times over float, double, int32_t or int64_t.
template <class T>
struct Tropical {
  using Number = T;
  struct Sum {
    T best;
    int64_t place;  // of the first term that is `best`; -1: there is none
  };
  static constexpr bool pads = false;

  int32_t algebra;

  GRADUS_HD static constexpr T highest() {
    if constexpr (std::is_floating_point_v<T>)
      return T(__builtin_huge_val());
    else
      return T((uint64_t(1) << (sizeof(T) * 8 - 1)) - 1);
  }
  GRADUS_HD static constexpr T lowest() {
    return std::is_floating_point_v<T> ? T(-highest()) : T(-highest() - T(1));
  }
  GRADUS_HD bool maximum() const { return algebra == GD_MAX_PLUS || algebra == GD_MAX_TIMES; }
  // No term wins against it. For all but max-times it is the algebra's zero, which swallows.
  GRADUS_HD T worst() const { return maximum() ? lowest() : highest(); }

  GRADUS_HD T term(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (algebra == GD_MAX_TIMES) return a * b;
      // -inf + inf is -inf in max-plus, inf in min-plus, inf * 0 is inf; only NaN gives NaN.
      const T s = algebra == GD_MIN_TIMES ? a * b : a + b;
      return s != s && a == a && b == b ? worst() : s;
    } else {
      using U = std::make_unsigned_t<T>;
      if (algebra == GD_MAX_TIMES) return T(U(a) * U(b));
      if (a == worst() || b == worst()) return worst();
      if (algebra == GD_MIN_TIMES) return T(U(a) * U(b));
      const T s = T(U(a) + U(b));
      if (((a ^ s) & (b ^ s)) >= 0) return s;
      return a < 0 ? lowest() : highest();
    }
  }
  // Does x win over best? The first NaN wins over all, an equal one never.
  GRADUS_HD bool beats(T x, T best) const {
    if (best != best) return false;
    return x != x || (maximum() ? x > best : x < best);
  }

  GRADUS_HD T read(Part, T x) const { return x; }
  GRADUS_HD Sum start() const { return {worst(), -1}; }
  GRADUS_HD void add(Sum& sum, T a, T b, int64_t k) const {
    const T x = term(a, b);
    if (beats(x, sum.best)) sum = {x, k};
  }
  GRADUS_HD void join(Sum& sum, Sum other) const {
    const bool first = other.place >= 0 && other.place < sum.place && !beats(sum.best, other.best);
    if (beats(other.best, sum.best) || first) sum = other;
  }
  GRADUS_HD void finish(const Contraction& c, char* const* data, const int64_t (&at)[kParts],
                        Sum sum) const {
    const T y = c.extent[kSummed] == 0 && algebra == GD_MAX_TIMES ? T(0) : sum.best;
    if constexpr (std::is_same_v<T, int32_t>)
      reinterpret_cast<T*>(data[kOut])[at[kOut]] = y;
    else
      store_number(data[kOut], at[kOut], c.dtype, y);
    if (data[kWinners]) reinterpret_cast<int64_t*>(data[kWinners])[at[kWinners]] = sum.place;
  }
};

// What the call asks for beside its views.
struct Scales {
  c128 alpha, beta;
  bool conj_a, conj_b, ends;
};
template <class T>
Standard<T> standard(const Scales& s) {
  const auto number = [](c128 x) {
    if constexpr (is_complex_v<T>)
      return T(x);
    else if constexpr (std::is_integral_v<T>)
      return T(int64_t(x.re));
    else
      return T(x.re);
  };
  return {number(s.alpha), number(s.beta), s.beta != c128{}, s.conj_a, s.conj_b, s.ends};
}

// Has this device tensor cores for sums of this dtype, by its options too? GD_WAY_MATRIX*: on them.
bool has_mma(const Run&, int32_t dtype);
void contract_mma(const Run&, const Contraction&, const Scales&);

// By a vendor's library, GD_WAY_GEMM_LIBRARY or GD_WAY_TENSOR_LIBRARY: "" if it can, else why not.
// Opens it and makes its plan, but not while a graph is captured: GD_CAPTURE.
std::string library_refuses(const Run&, const Contraction&, const Scales&, int32_t way);
// What it wants then of the call's scratch memory.
size_t library_workspace(const Run&, const Contraction&, const Scales&);
// Without the statement. False if the library has refused it, which it now does again.
bool contract_by_library(const Run&, const Contraction&, const Scales&, Run::Scratch&);

// One file each, for any other way.
using Elements = Walk<kParts>;
void contract_f32(const Run&, const Elements&, const Contraction&, const Scales&);
void contract_f64(const Run&, const Elements&, const Contraction&, const Scales&);
void contract_c64(const Run&, const Elements&, const Contraction&, const Scales&);
void contract_c128(const Run&, const Elements&, const Contraction&, const Scales&);
void contract_i64(const Run&, const Elements&, const Contraction&, const Scales&);
// Tropical algebras, by dtype.
void contract_tropical(const Run&, const Elements&, const Contraction&, int32_t algebra);
void contract_tropical_integers(const Run&, const Elements&, const Contraction&, int32_t algebra);

}  // namespace gradus::gpu
