// register_scalar<T>(name): any C++ type with + and * becomes a dtype, with the kernels of this
// folder instantiated for it. What T needs: trivially copyable, T() and T(int64_t). What else it
// has is used: - * / unary minus, == and <, and words that it knows, given as
//
//   template <> struct gradus::Words<T> { static T sqrt(T x); static T number(double p); };
//
// A statement that needs more than T has is refused by name when it runs, not when it compiles.
// Such tensors live on the reference device; they mix with themselves and whole numbers, and have
// gradients.
#pragma once
#include "engine/abi/user_dtype.hpp"
#include "kernels/reference/statements/row_of.hpp"
#include "kernels/reference/user.hpp"

#include <cstdio>
#include <sstream>

namespace gradus::inline v1 {

namespace reference {

[[noreturn]] inline void refuse_missing(DType t, const char* what) {
  Refusal r{GD_UNSUPPORTED, {}};
  std::snprintf(r.text, sizeof r.text, "reference: dtype %s has no %s", dtype_name(t), what);
  throw r;
}

// T as statements read it: all operators and numbers, of which those that T lacks refuse.
template <class T>
struct Scalar {
  T v;
  Scalar() = default;
  Scalar(T x) : v(x) {}
  Scalar(int c) : v(T(int64_t(c))) {}
  Scalar(double c) : v(from(c)) {}

  static T from(double c) {
    if constexpr (requires { Words<T>::number(c); }) {
      return Words<T>::number(c);
    } else {
      if (c >= -0x1p53 && c <= 0x1p53 && double(int64_t(c)) == c) return T(int64_t(c));
      char text[48];
      std::snprintf(text, sizeof text, "number %g: it is not whole", c);
      refuse_missing(dtype_of<T>, text);
    }
  }

  friend Scalar operator+(Scalar a, Scalar b) { return Scalar(a.v + b.v); }
  friend Scalar operator*(Scalar a, Scalar b) { return Scalar(a.v * b.v); }
  friend Scalar operator-(Scalar a, Scalar b) {
    if constexpr (requires { T(a.v - b.v); })
      return Scalar(T(a.v - b.v));
    else
      refuse_missing(dtype_of<T>, "difference a - b");
  }
  friend Scalar operator/(Scalar a, Scalar b) {
    if constexpr (requires { T(a.v / b.v); })
      return Scalar(T(a.v / b.v));
    else
      refuse_missing(dtype_of<T>, "quotient a / b");
  }
  friend Scalar operator-(Scalar a) {
    if constexpr (requires { T(-a.v); })
      return Scalar(T(-a.v));
    else
      refuse_missing(dtype_of<T>, "negative -x");
  }
  bool before(Scalar b) const {
    if constexpr (requires { bool(v < b.v); })
      return v < b.v;
    else
      refuse_missing(dtype_of<T>, "order a < b");
  }
  bool equals(Scalar b) const {
    if constexpr (requires { bool(v == b.v); })
      return v == b.v;
    else
      refuse_missing(dtype_of<T>, "equality a == b");
  }
};

}  // namespace reference

// The words of a user's type: its own, or a refusal that names the word.
template <class T>
struct Words<reference::Scalar<T>> {
  using S = reference::Scalar<T>;
  using Mask = bool;
  using Real = S;

#define GRADUS_USER_WORD(name)                                   \
  static S name(S x) {                                           \
    if constexpr (requires { Words<T>::name(x.v); })             \
      return S(Words<T>::name(x.v));                             \
    else                                                         \
      reference::refuse_missing(dtype_of<T>, "function " #name); \
  }
  GRADUS_USER_WORD(exp)
  GRADUS_USER_WORD(expm1)
  GRADUS_USER_WORD(log)
  GRADUS_USER_WORD(log1p)
  GRADUS_USER_WORD(sqrt)
  GRADUS_USER_WORD(sin)
  GRADUS_USER_WORD(cos)
  GRADUS_USER_WORD(tanh)
  GRADUS_USER_WORD(erf)
  GRADUS_USER_WORD(bit_not)
  GRADUS_ROUNDING_WORDS(GRADUS_USER_WORD)
  GRADUS_LANE_WORDS(GRADUS_USER_WORD)
#undef GRADUS_USER_WORD
#define GRADUS_USER_WORD2(name)                                  \
  static S name(S a, S b) {                                      \
    if constexpr (requires { Words<T>::name(a.v, b.v); })        \
      return S(Words<T>::name(a.v, b.v));                        \
    else                                                         \
      reference::refuse_missing(dtype_of<T>, "function " #name); \
  }
  GRADUS_LANE_WORDS2(GRADUS_USER_WORD2)
  GRADUS_BIT_WORDS2(GRADUS_USER_WORD2)
#undef GRADUS_USER_WORD2
  static S abs(S x) { return x.before(S(0)) ? -x : x; }
  static S sign(S x) { return x.before(S(0)) ? S(-1) : S(0).before(x) ? S(1) : S(0); }
  static S min(S a, S b) { return b.before(a) ? b : a; }
  static S max(S a, S b) { return a.before(b) ? b : a; }
  static bool lt(S a, S b) { return a.before(b); }
  static bool le(S a, S b) { return !b.before(a); }
  static bool eq(S a, S b) { return a.equals(b); }
  static bool ne(S a, S b) { return !a.equals(b); }
  static S select(bool m, S a, S b) { return m ? a : b; }
  static S conj(S x) { return x; }
  static S real(S x) { return x; }
  static S imag(S) { return S(0); }
  static S cabs(S x) { return abs(x); }
};

namespace reference {

template <class S, class T>
Row user_row() {
  Row row;
  row.reads = true;
  row.y = S::kind == def::Kind::comparison ? DType::bool_ : dtype_of<T>;
  row.value = value_row<S, Scalar<T>>;
  if constexpr (def::has_slope<0, S, Scalar<T>>()) row.vjp[0] = vjp_row<0, S, Scalar<T>>;
  if constexpr (def::has_slope<1, S, Scalar<T>>()) row.vjp[1] = vjp_row<1, S, Scalar<T>>;
  if constexpr (def::has_slope<2, S, Scalar<T>>()) row.vjp[2] = vjp_row<2, S, Scalar<T>>;
  return row;
}

template <class T>
UserKernels user_kernels() {
  UserKernels k;
  k.from_number = [](double re, int64_t whole, void* to) {
    *static_cast<T*>(to) = double(whole) == re ? T(whole) : Scalar<T>::from(re);
  };
  k.from_integers = [](const int64_t* from, void* to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = T(from[i]);
  };
  k.row = [](int32_t statement) {
    Row row;
    def::visit(def::Statements{}, statement, [&]<class S>() { row = user_row<S, T>(); });
    return row;
  };
  k.reduce = reduce_numbers<T>;
  k.scan = scan_lines<T>;
  k.contract = sum_of_products<T>;
  k.gather = gather_lines<T>;
  k.scatter_add = scatter_lines<T>;
  return k;
}

template <class T>
std::string shown(const void* element) {
  std::ostringstream out;
  out << *static_cast<const T*>(element);
  return out.str();
}

}  // namespace reference

// T's dtype from now on: dtype_of<T>. Once per type; at start-up, before other threads run ops.
// `text` prints one element; by default T's operator<< does.
template <class T>
DType register_scalar(const char* name,
                      std::string (*text)(const void* element) = reference::shown<T>) {
  static_assert(std::is_trivially_copyable_v<T>, "elements are moved as bytes");
  static_assert(sizeof(T) <= 4096 && alignof(T) <= 16, "larger than a block, or aligned wider");
  if (int32_t(dtype_of_class<T>) < 0) {
    dtype_of_class<T> = add_dtype({name, sizeof(T), "reference", text});
    reference::add_user_kernels(dtype_of<T>, reference::user_kernels<T>());
  }
  return dtype_of<T>;
}

}  // namespace gradus
