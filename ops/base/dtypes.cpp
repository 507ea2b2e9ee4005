#include "ops/base/dtypes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gradus::inline v1 {

namespace {
int category(DType t) {
  if (t == DType::bool_) return 0;
  if (is_integer(t)) return 1;
  return is_complex(t) ? 3 : 2;
}
[[noreturn]] void fail_to_mix(DType a, DType b) {
  fail(ErrorKind::dtype, current_op(), "dtypes ", a, " and ", b,
       " do not mix: a user's dtype meets itself and numbers alone");
}
struct DTypeName {
  const char* name;
  DType dtype;
};
constexpr DTypeName kNames[] = {
    {"f32", DType::f32},         {"f64", DType::f64},     {"c64", DType::c64},
    {"c128", DType::c128},       {"i32", DType::i32},     {"i64", DType::i64},
    {"u8", DType::u8},           {"bool", DType::bool_},  {"f16", DType::f16},
    {"bf16", DType::bf16},       {"float32", DType::f32}, {"float64", DType::f64},
    {"float", DType::f32},       {"double", DType::f64},  {"complex64", DType::c64},
    {"complex128", DType::c128}, {"int32", DType::i32},   {"int64", DType::i64},
    {"uint8", DType::u8},        {"float16", DType::f16}, {"half", DType::f16},
    {"bfloat16", DType::bf16}};

int integer_rank(DType t) { return t == DType::u8 ? 0 : t == DType::i32 ? 1 : 2; }
}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_user(a) || is_user(b)) fail_to_mix(a, b);
  const int ca = category(a), cb = category(b);
  if (ca == 3 || cb == 3) {
    const bool wide = a == DType::c128 || b == DType::c128 || a == DType::f64 || b == DType::f64;
    return wide ? DType::c128 : DType::c64;
  }
  if (ca != cb) return ca > cb ? a : b;
  if (ca == 1) return integer_rank(a) > integer_rank(b) ? a : b;
  return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32;  // f16 with bf16 too
}

DType result_dtype(std::span<const Tensor> operands) {
  const Tensor* user = nullptr;
  for (const Tensor& t : operands)
    if (!t.is_number() && is_user(t.dtype())) user = &t;
  if (user) {
    for (const Tensor& t : operands)
      if (!t.is_number() && t.dtype() != user->dtype()) fail_to_mix(t.dtype(), user->dtype());
    return user->dtype();
  }
  // [0] numbers, [1] 0-d tensors, [2] dimensioned tensors
  DType best[3] = {};
  bool any[3] = {};
  for (const Tensor& t : operands) {
    const int level = t.is_number() ? 0 : t.rank() == 0 ? 1 : 2;
    const DType d = level == 0 && t.dtype() == DType::f64 ? DType::f32 : t.dtype();
    best[level] = any[level] ? promote(best[level], d) : d;
    any[level] = true;
  }
  bool have = false;
  DType result = DType::f32;
  for (int level = 2; level >= 0; --level) {
    if (!any[level]) continue;
    if (!have)
      result = best[level];
    else if (category(best[level]) == 3 && category(result) == 2)
      result = result == DType::f64 ? DType::c128 : DType::c64;  // the precision of the axes
    else if (category(best[level]) > category(result))
      result = promote(result, best[level]);
    have = true;
  }
  return result;
}

void refuse_dtype(const std::string& op, DType got, unsigned takes, const std::string& why,
                  std::string remedy) {
  using namespace def;
  std::vector<std::string> names;
  if (takes & kBool) names.push_back("bool");
  if (takes & kInteger) names.push_back("integers");
  if (takes & kReal) names.push_back("real numbers");
  if (takes & kComplex) names.push_back("complex numbers");
  std::string list = names[0];
  for (size_t i = 1; i < names.size(); ++i)
    list += (i + 1 < names.size() ? ", " : " and ") + names[i];
  if (!remedy.empty())
    ;
  else if (is_complex(got))
    remedy = "take abs(), real() or imag() first";
  else if (is_real_float(got))
    remedy = takes & kComplex ? "cast to c64 or c128 first"
                              : "cast to i64 first, which cuts fractions off";
  else
    remedy = got == DType::bool_ && takes & kInteger ? "cast to i64 first" : "cast to f32 first";
  fail(ErrorKind::dtype, op, "is not defined for ", got, why.empty() ? "" : " (" + why + ")",
       "; it takes ", list, "; ", remedy);
}

void refuse_unordered(const std::string& op, DType got, const std::string& needed_by) {
  refuse_dtype(op, got, def::kReal | def::kInteger,
               needed_by.empty() ? "complex numbers have no order" : needed_by + " needs an order",
               needed_by.empty() ? "" : "take abs() or real() first, or the standard algebra");
}

Tensor number_beside(double value, const Tensor& x) {
  const bool whole = value == std::trunc(value) && std::fabs(value) < 0x1p63;
  return !x.is_number() && is_integer(x.dtype()) && whole ? Tensor(int64_t(value)) : Tensor(value);
}

bool holds(DType dtype, double value) {
  switch (dtype) {
    case DType::u8:
      return value > -1 && value < 256;
    case DType::i32:
      return value > -0x1p31 - 1 && value < 0x1p31;
    case DType::i64:
      return value >= -0x1p63 && value < 0x1p63;
    default:
      return true;
  }
}
bool holds(DType dtype, const Tensor& x) {
  return !x.is_number() || x.dtype() == dtype || holds(dtype, x.body()->number.value);
}
void check_holds(std::string_view op, DType dtype, const Tensor& x) {
  if (holds(dtype, x)) return;
  fail(ErrorKind::value, op, "the number ", x.body()->number.value, " does not fit into ", dtype,
       dtype == DType::u8 ? " (0 to 255)" : "", "; cast the tensor to ",
       holds(DType::i64, x.body()->number.value) ? "i64" : "f64", " first");
}

DType parse_dtype(const std::string& name) {
  std::vector<std::string> known;
  for (const DTypeName& n : kNames) {
    if (name == n.name) return n.dtype;
    known.push_back(n.name);
  }
  fail(ErrorKind::value, "dtype", "there is no dtype \"", name, "\"", did_you_mean(name, known));
}

}  // namespace gradus
