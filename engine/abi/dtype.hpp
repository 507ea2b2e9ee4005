// Element types. Plain header: kernels include it. The codes are those of kernel_table.h.
#pragma once
#include "engine/abi/complex.hpp"
#include "engine/abi/half.hpp"
#include "engine/abi/kernel_table.h"

#include <stddef.h>
#include <stdint.h>

namespace gradus::inline v1 {

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

// Codes from GD_USER_DTYPE up are users' types: the bits from 12 up hold the size of an element.
// They are given out by add_dtype (engine/abi/user_dtype.hpp).
GRADUS_HD constexpr bool is_user(DType t) { return int32_t(t) >= GD_USER_DTYPE; }
inline constexpr int kUserSizeShift = 12;

// The dtype of a C++ type. A class that is no type of ours has the one that it was registered with.
template <class T>
requires(__is_class(T)) inline DType dtype_of_class = DType(-1);
template <class T>
inline const DType& dtype_of = dtype_of_class<T>;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<c64> = DType::c64;
template <>
inline constexpr DType dtype_of<c128> = DType::c128;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<bool> = DType::bool_;
template <>
inline constexpr DType dtype_of<Half> = DType::f16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;

// Calls f(T{}) with the C++ type of a dtype code. Returns false for a code it does not know.
template <class F, class... T>
constexpr bool visit_dtype_of(int32_t code, F&& f, T... types) {
  return ((code == int32_t(dtype_of<T>) && (void(f(types)), true)) || ...);
}
template <class F>
constexpr bool visit_dtype(int32_t code, F&& f) {
  return visit_dtype_of(code, f, float{}, double{}, c64{}, c128{}, int32_t{}, int64_t{}, uint8_t{},
                        bool{}, Half{}, BFloat16{});
}

GRADUS_HD constexpr bool is_complex(DType t) { return t == DType::c64 || t == DType::c128; }
GRADUS_HD constexpr bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }
GRADUS_HD constexpr bool is_real_float(DType t) {
  return t == DType::f32 || t == DType::f64 || is_half(t);
}
GRADUS_HD constexpr bool is_floating(DType t) { return is_real_float(t) || is_complex(t); }
// Can a tensor of it have a gradient?
GRADUS_HD constexpr bool is_differentiable(DType t) { return is_floating(t) || is_user(t); }
GRADUS_HD constexpr bool is_integer(DType t) {
  return t == DType::i32 || t == DType::i64 || t == DType::u8 || t == DType::bool_;
}
// As the copy slot casts: towards 0, to the nearest there is, NaN to 0. C++ leaves these open.
inline int64_t to_integer(double x) {
  if (x != x) return 0;
  if (x >= 0x1p63) return INT64_MAX;
  return x < -0x1p63 ? INT64_MIN : int64_t(x);
}
// The real dtype of a complex one (and of itself otherwise).
GRADUS_HD constexpr DType real_dtype(DType t) {
  return t == DType::c64 ? DType::f32 : t == DType::c128 ? DType::f64 : t;
}
GRADUS_HD constexpr size_t itemsize(DType t) {
  constexpr unsigned char sizes[] = {4, 8, 8, 16, 4, 8, 1, 1, 2, 2};  // in the order of the codes
  if (int32_t(t) >= 0 && int32_t(t) < GD_DTYPE_COUNT) return sizes[int32_t(t)];
  return is_user(t) ? size_t(int32_t(t) >> kUserSizeShift) : 1;
}
// Set where users' types are known by name.
inline const char* (*user_dtype_name)(DType) = nullptr;
constexpr const char* dtype_name(DType t) {
  constexpr const char* names[] = {"f32", "f64", "c64",  "c128", "i32",
                                   "i64", "u8",  "bool", "f16",  "bf16"};
  if (int32_t(t) >= 0 && int32_t(t) < GD_DTYPE_COUNT) return names[int32_t(t)];
  return is_user(t) && user_dtype_name ? user_dtype_name(t) : "user";
}

}  // namespace gradus
