// The algebras of contractions: what stands for the sum and for the product. This is the one list
// of them; the doors, the manual and the errors ask here for names.
//
//   name         sum            product  zero  one  dtypes            derivatives
//   standard     +              *        0     1    all but bool      yes
//   max-plus     max            +        -inf  0    real, i32, i64    through the winner
//   min-plus     min            +        inf   0    real, i32, i64    through the winner
//   max-times    max            *        0     1    real, i32, i64    through the winner
//   min-times    min            *        inf   1    real, i32, i64    through the winner
//   log-sum-exp  log(e^x + e^y) +        -inf  0    real              of all orders
//   boolean      or             and      false true bool              none
//   mod P        + modulo P     *        0     1    i32, i64          none
//   a user's own                                    real, i32         none
//
// The four that choose a winner are called tropical. An empty sum is the zero. A negative factor
// turns max into min, so networks in max-times and min-times refuse such numbers. They are looked
// at each time, so a step with such a network in it is not captured.
#pragma once
#include "engine/tensor.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradus::inline v1 {

// The first five are gd_algebra. -P stands for mod P; a user's follow from kOwnAlgebras on.
enum class Algebra : int32_t {
  standard,
  max_plus,
  min_plus,
  max_times,
  min_times,
  log_sum_exp,
  boolean
};
inline constexpr int32_t kOwnAlgebras = 1 << 16;
// Sums of products modulo p, in [0, p), whatever their size. Error(value) unless p >= 2. Nothing
// here needs p to be prime.
Algebra modulo(int64_t p);

// A user's own, of functions of two numbers: both associative and commutative, the product
// distributing over the sum, sum(zero, x) = x, product(one, x) = x, product(zero, x) = zero. It
// runs in f64 on the host, one product and one sum for each term.
struct OwnAlgebra {
  std::string name;
  double (*sum)(double, double);
  double (*product)(double, double);
  double zero, one;
};
// Error(value) if the name is taken, or if zero and one are not the functions'. At start-up, before
// other threads run ops.
Algebra add_algebra(OwnAlgebra algebra);
const OwnAlgebra* own_algebra(Algebra algebra);  // null for the others

bool is_algebra(int32_t code);              // is Algebra(code) one?
const char* algebra_name(Algebra algebra);  // "max-plus", "mod 7"
// Error(value) with the nearest name.
Algebra parse_algebra(std::string_view name, std::string_view op = "einsum");
std::vector<std::string> algebra_names();  // those that can be listed: without mod P
std::string algebra_words();               // "standard, max-plus, ... or mod P"

bool is_tropical(Algebra algebra);     // chooses a winner
bool runs_in_kernel(Algebra algebra);  // standard and tropical
// May a label that one operand alone has be summed before it meets another? Where a negative factor
// turns max into min, it may not.
bool sums_alone(Algebra algebra);
bool has_derivative(Algebra algebra);
// Are its zero and its one the numbers 0 and 1, so that terms with a factor 0 may be left out? Not
// so max-times, where a negative number is less than 0.
bool skips_zeros(Algebra algebra);
double one_of(Algebra algebra);
Tensor zero_of(Algebra algebra, DType dtype, Device& device);
int64_t modulus_of(Algebra algebra);  // 0 if it has none

// Refuses, in words, operands of a dtype that the algebra does not read, and those that require a
// gradient where there is none. `of` says more of the contraction.
void check_algebra(std::string_view op, Algebra algebra, std::span<const Tensor> operands,
                   DType dtype, const std::string& of = "");

}  // namespace gradus
