// The table of algebras, names to and fro, and what each may read.
#include "ops/contract/algebra.hpp"

#include "engine/abi/algebra.hpp"
#include "engine/graph.hpp"
#include "ops/base/dtypes.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <deque>

namespace gradus::inline v1 {

namespace {

constexpr int32_t kBuiltIn = int32_t(Algebra::boolean) + 1;
constexpr const char* kComposed[] = {"log-sum-exp", "boolean"};  // what no kernel knows
constexpr std::string_view kModulo = "mod ";

std::deque<OwnAlgebra>& own_algebras() {
  static std::deque<OwnAlgebra> list;
  return list;
}
const char* built_in_name(int32_t code) {
  return code < GD_ALGEBRA_COUNT ? kKernelAlgebras[code] : kComposed[code - GD_ALGEBRA_COUNT];
}

// The same number, or NaN both.
bool same(double x, double y) { return x == y || (x != x && y != y); }
void check_constants(const OwnAlgebra& a) {
  for (const double x : {a.zero, a.one}) {
    const auto expect = [&](const char* what, double left, double right, double result,
                            double (*f)(double, double)) {
      if (!same(f(left, right), result))
        fail(ErrorKind::value, "add_algebra", a.name, ": ", what, "(", left, ", ", right, ") is ",
             f(left, right), ", expected ", result);
    };
    expect("sum", a.zero, x, x, a.sum);
    expect("sum", x, a.zero, x, a.sum);
    expect("product", a.one, x, x, a.product);
    expect("product", x, a.one, x, a.product);
    expect("product", a.zero, x, a.zero, a.product);
    expect("product", x, a.zero, a.zero, a.product);
  }
}

}  // namespace

Algebra modulo(int64_t p) {
  if (p < 2 || p > INT32_MAX)
    fail(ErrorKind::value, "modulo", "a modulus is 2 or more and below 2^31, got ", p);
  return Algebra(-p);
}

Algebra add_algebra(OwnAlgebra algebra) {
  for (const std::string& name : algebra_names())
    if (name == algebra.name)
      fail(ErrorKind::value, "add_algebra", "an algebra named \"", name, "\" is there already");
  if (algebra.name.empty() || algebra.name.starts_with(kModulo) || !algebra.sum || !algebra.product)
    fail(ErrorKind::value, "add_algebra",
         "needs a name that does not begin with \"mod \", a sum and a product");
  check_constants(algebra);
  own_algebras().push_back(std::move(algebra));
  return Algebra(kOwnAlgebras + int32_t(own_algebras().size()) - 1);
}

const OwnAlgebra* own_algebra(Algebra algebra) {
  const int64_t i = int64_t(algebra) - kOwnAlgebras;  // of any code that a file may have
  return i >= 0 && i < int64_t(own_algebras().size()) ? &own_algebras()[size_t(i)] : nullptr;
}

bool is_algebra(int32_t code) {
  return (code >= 0 && code < kBuiltIn) || (code <= -2 && code > INT32_MIN) ||
         own_algebra(Algebra(code));
}

const char* algebra_name(Algebra algebra) {
  if (const OwnAlgebra* own = own_algebra(algebra)) return own->name.c_str();
  if (const int64_t p = modulus_of(algebra)) return intern(join(kModulo, p));
  return built_in_name(int32_t(algebra));
}

Algebra parse_algebra(std::string_view name, std::string_view op) {
  for (int32_t code = 0; code < kBuiltIn; ++code)
    if (built_in_name(code) == name) return Algebra(code);
  for (size_t i = 0; i < own_algebras().size(); ++i)
    if (own_algebras()[i].name == name) return Algebra(kOwnAlgebras + int32_t(i));
  if (name.starts_with(kModulo)) {
    int64_t p = 0;
    const char *first = name.data() + kModulo.size(), *last = name.data() + name.size();
    const auto read = std::from_chars(first, last, p);
    if (read.ec == std::errc() && read.ptr == last && p >= 2 && p <= INT32_MAX) return modulo(p);
    fail(ErrorKind::value, op, "algebra \"", name,
         "\": mod P counts modulo a whole number P, 2 or more and below 2^31, as in \"mod 7\"");
  }
  fail(ErrorKind::value, op, "unknown algebra \"", name, "\"; write ", algebra_words(),
       did_you_mean(name, algebra_names()));
}

std::vector<std::string> algebra_names() {
  std::vector<std::string> names;
  for (int32_t code = 0; code < kBuiltIn; ++code) names.emplace_back(built_in_name(code));
  for (const OwnAlgebra& own : own_algebras()) names.push_back(own.name);
  return names;
}
std::string algebra_words() {
  std::string words;
  for (const std::string& name : algebra_names()) words += (words.empty() ? "" : ", ") + name;
  return words + " or mod P";
}

bool runs_in_kernel(Algebra algebra) {
  return int32_t(algebra) >= 0 && int32_t(algebra) < GD_ALGEBRA_COUNT;
}
bool is_tropical(Algebra algebra) {
  return runs_in_kernel(algebra) && algebra != Algebra::standard;
}
bool has_derivative(Algebra algebra) {
  return runs_in_kernel(algebra) || algebra == Algebra::log_sum_exp;
}
bool sums_alone(Algebra algebra) {
  return algebra != Algebra::max_times && algebra != Algebra::min_times;
}
bool skips_zeros(Algebra algebra) {
  if (const OwnAlgebra* own = own_algebra(algebra)) return own->zero == 0 && own->one == 1;
  return algebra == Algebra::standard || algebra == Algebra::boolean || modulus_of(algebra) != 0;
}
int64_t modulus_of(Algebra algebra) { return int32_t(algebra) < 0 ? -int64_t(algebra) : 0; }

double one_of(Algebra algebra) {
  if (const OwnAlgebra* own = own_algebra(algebra)) return own->one;
  return algebra == Algebra::max_plus || algebra == Algebra::min_plus ||
                 algebra == Algebra::log_sum_exp
             ? 0
             : 1;
}

Tensor zero_of(Algebra algebra, DType dtype, Device& device) {
  if (const OwnAlgebra* own = own_algebra(algebra))
    return Tensor::full({}, own->zero, dtype, device);
  const bool low = algebra == Algebra::max_plus || algebra == Algebra::log_sum_exp;
  const bool high = algebra == Algebra::min_plus || algebra == Algebra::min_times;
  if (!low && !high) return Tensor::zeros({}, dtype, device);
  if (dtype == DType::i32)
    return Tensor::full_integer({}, low ? INT32_MIN : INT32_MAX, dtype, device);
  if (dtype == DType::i64)
    return Tensor::full_integer({}, low ? INT64_MIN : INT64_MAX, dtype, device);
  return Tensor::full({}, low ? -INFINITY : INFINITY, dtype, device);
}

void check_algebra(std::string_view op, Algebra algebra, std::span<const Tensor> operands,
                   DType dtype, const std::string& of) {
  const std::string name = algebra_name(algebra);
  if (!has_derivative(algebra) && grad_enabled())
    for (size_t k = 0; k < operands.size(); ++k)
      if (operands[k].requires_grad())
        fail(ErrorKind::autograd, op, name, " has no derivative, and operand ", k,
             " requires a gradient; detach() it");
  if (is_tropical(algebra)) {
    if (is_complex(dtype)) refuse_unordered(std::string(op), dtype, name + of);
  } else if (algebra == Algebra::log_sum_exp) {
    if (!is_real_float(dtype)) refuse_dtype(std::string(op), dtype, def::kReal, name + of);
  } else if (algebra == Algebra::boolean) {
    if (dtype != DType::bool_)
      refuse_dtype(std::string(op), dtype, def::kBool, name + of,
                   "compare them with 0 first, as ne(x, 0)");
  } else if (modulus_of(algebra) != 0) {
    if (dtype != DType::i32 && dtype != DType::i64)
      fail(ErrorKind::dtype, op, "is not defined for ", dtype, " (", name, of,
           "); it takes i32 and i64; cast to i64 first");
  } else if (own_algebra(algebra)) {
    if (!is_real_float(dtype) && dtype != DType::i32)
      fail(ErrorKind::dtype, op, "is not defined for ", dtype, " (", name, of,
           " runs in f64); it takes real numbers and i32; cast to f64 first");
  }
}

}  // namespace gradus
