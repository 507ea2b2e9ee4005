// The modes of the op test table: what can be checked of any op by its row alone, without an
// oracle. Used by `gradus check` and by the tests. Each mode gives its worst relative error and
// says where it was; an op that throws has failed the mode. Knows no op by name and no device.
#pragma once
#include "engine/graph.hpp"
#include "ops/check/rows.hpp"

namespace gradus::inline v1::rows {

struct Outcome {
  double error = 0;      // worst relative error
  double tolerance = 0;  // what it may be
  std::string where;     // of the worst error; "" if all was exact
  bool ran = true;       // false: this mode says nothing about this case
  bool ok() const { return !ran || error <= tolerance; }  // a NaN error is not ok
  // The worse of the two stays: what is not ok before what is, then the larger error, NaN above
  // all.
  void keep_worst(Outcome o) {
    const double allowed = std::max(tolerance, o.tolerance);
    const bool worse =
        ok() == o.ok() ? o.error > error || (o.error != o.error && error == error) : !o.ok();
    const bool both = ok() && o.ok();
    if (worse) *this = std::move(o);
    if (both) tolerance = allowed;
  }
};

// In f64, and in c128 where the row allows it. <a, b> is the real part of sum(conj(a) b).
// vjp: <w, (f(x + hv) - f(x - hv)) / 2h> == <J^H w, v>, v along each operand alone and along all.
Outcome check_vjp(const Row& row, size_t which_case, Device& device);
// jvp, element by element, against the same differences.
Outcome check_jvp(const Row& row, size_t which_case, Device& device);
// <w, J v> == <J^H w, v>
Outcome check_dot(const Row& row, size_t which_case, Device& device);
// phi(x, w) = <u, J(x)^H w>: its derivative along (v, t) by reverse over reverse and by forward
// over reverse, against each other and against differences of phi.
Outcome check_second_order(const Row& row, size_t which_case, Device& device);

enum class Layout { sliced, reversed, transposed, expanded };
// A view with the elements of t in another order in memory (`expanded` is none of them). The memory
// between holds NaN or 111, so that a kernel that reads beside its elements is seen.
Tensor relaid(const Tensor& t, Layout layout);
// Sliced, negative-step, transposed and stride-0 operands give the bits of their contiguous copies.
Outcome check_layouts(const Row& row, size_t which_case, DType dtype, Device& device);
// Values against another device; bit for bit where the row says 0 ulps.
Outcome check_value(const Row& row, size_t which_case, DType dtype, Device& device, Device& oracle);
// Two runs give the same bits.
Outcome check_repeats(const Row& row, size_t which_case, DType dtype, Device& device);
// As check_value at tolerance 0: devices that differ in their thread count alone.
Outcome check_same_bits(const Row& row, size_t which_case, DType dtype, Device& a, Device& b);
// Mean and variance of 20000 numbers within five standard errors.
Outcome check_moments(const Row& row, size_t which_case, Device& device);

// values: as small, without derivatives.
enum class Effort { values, small, full };

struct ModeResult {
  const char* mode;  // "value", "repeat", "layout", "vjp", "jvp", "dot", "second", "moments"
  Outcome worst;     // by error / tolerance, over the cases and dtypes that ran
  int ran = 0;
};
struct CheckResult {
  std::string op;
  std::vector<ModeResult> modes;
  std::string skipped = "";  // why nothing ran
  bool ok() const;
  // The mode that is nearest to its tolerance, or beyond it; of a result that was not skipped.
  const ModeResult& worst() const;
};
// Does the error say that the device lacks what the row's slot needs: the kernel, or a library?
// Outcomes pass it on, and a result of all modes is skipped with it.
bool is_absence(const Row& row, const Error&);
// All modes of one op on one device; values are compared with `oracle` if there is one.
CheckResult check_op(std::string_view name, Device& device, Device* oracle,
                     Effort effort = Effort::full);

// The dtypes in which a case runs; of a row without operands f32 alone, which then means nothing.
std::vector<DType> dtypes_of_case(const Row& row, size_t which_case);
// The worst difference of two results: relative to each element, or to the largest one.
Outcome compare(const Numbers& got, const Numbers& expected, double tolerance, bool normwise);
// What two implementations may differ by in this dtype of the result.
double tolerance_of(const Row& row, DType dtype);
// The distance of 1 to the next number; 0 for integers.
double epsilon_of(DType dtype);
// The seed that every evaluation starts with.
inline constexpr uint64_t kCheckSeed = 20240229;
// The op's outputs for these operands, with a fixed seed; recorded or not.
Tensors evaluate(const OpInfo& op, const Tensors& inputs, const Attrs& attrs,
                 bool recorded = false);

}  // namespace gradus::rows
