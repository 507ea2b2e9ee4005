// Element types. Plain header: kernels include it. The codes are those of kernel_table.h.
#pragma once
#include "engine/complex.hpp"
#include "engine/half.hpp"
#include "engine/kernel_table.h"

#include <stddef.h>
#include <stdint.h>

namespace gradus {

enum class DType : int32_t {
  f32 = GD_F32,
  f64 = GD_F64,
  c64 = GD_C64,
  c128 = GD_C128,
  i32 = GD_I32,
  i64 = GD_I64,
  u8 = GD_U8,
  bool_ = GD_BOOL,
  f16 = GD_F16,
  bf16 = GD_BF16,
};

namespace detail {
template <class T>
struct dtype_code;
template <>
struct dtype_code<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_code<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct dtype_code<c64> {
  static constexpr DType value = DType::c64;
};
template <>
struct dtype_code<c128> {
  static constexpr DType value = DType::c128;
};
template <>
struct dtype_code<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_code<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct dtype_code<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct dtype_code<bool> {
  static constexpr DType value = DType::bool_;
};
template <>
struct dtype_code<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct dtype_code<BFloat16> {
  static constexpr DType value = DType::bf16;
};
}  // namespace detail

template <class T>
inline constexpr DType dtype_of = detail::dtype_code<T>::value;

// Calls f(T{}) with the C++ type of a dtype code. Returns false for a code it does not know.
template <class F>
constexpr bool visit_dtype(int32_t code, F&& f) {
  switch (code) {
    case GD_F32:
      f(float{});
      return true;
    case GD_F64:
      f(double{});
      return true;
    case GD_C64:
      f(c64{});
      return true;
    case GD_C128:
      f(c128{});
      return true;
    case GD_I32:
      f(int32_t{});
      return true;
    case GD_I64:
      f(int64_t{});
      return true;
    case GD_U8:
      f(uint8_t{});
      return true;
    case GD_BOOL:
      f(bool{});
      return true;
    case GD_F16:
      f(Half{});
      return true;
    case GD_BF16:
      f(BFloat16{});
      return true;
    default:
      return false;
  }
}

GRADUS_HD constexpr bool is_complex(DType t) { return t == DType::c64 || t == DType::c128; }
GRADUS_HD constexpr bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }
GRADUS_HD constexpr bool is_real_float(DType t) {
  return t == DType::f32 || t == DType::f64 || is_half(t);
}
GRADUS_HD constexpr bool is_floating(DType t) { return is_real_float(t) || is_complex(t); }
GRADUS_HD constexpr bool is_integer(DType t) {
  return t == DType::i32 || t == DType::i64 || t == DType::u8 || t == DType::bool_;
}
// The real dtype of a complex one (and of itself otherwise).
GRADUS_HD constexpr DType real_dtype(DType t) {
  return t == DType::c64 ? DType::f32 : t == DType::c128 ? DType::f64 : t;
}
GRADUS_HD constexpr size_t itemsize(DType t) {
  switch (t) {
    case DType::c128:
      return 16;
    case DType::f64:
    case DType::c64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    default:
      return 1;
  }
}
constexpr const char* dtype_name(DType t) {
  constexpr const char* names[] = {"f32", "f64", "c64",  "c128", "i32",
                                   "i64", "u8",  "bool", "f16",  "bf16"};
  return int32_t(t) >= 0 && int32_t(t) < GD_DTYPE_COUNT ? names[int32_t(t)] : "user";
}

}  // namespace gradus
