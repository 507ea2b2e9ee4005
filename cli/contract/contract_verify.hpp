// Checks of a contraction that was computed: its value against the reference device, its gradients
// by two identities. Says what was checked, on how much of the data, and why a tolerance is what it
// is.
#pragma once
#include "ops/contract/einsum.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

struct Contraction {
  EinsumPlan plan;
  Algebra algebra = Algebra::standard;
  Tensors operands;  // of one dtype, on one device
  // The output, if it repeats labels; the plan's has each once, and what is 0 beside is not made.
  std::optional<Equation::Term> repeated{};
};

struct Verification {
  // Worst errors relative to the size of what was added up; absent where there was nothing to
  // check.
  std::optional<double> value_error, grad_error;
  std::vector<std::string> notes;     // one line per check: what, on how much, error, tolerance
  std::vector<std::string> failures;  // the lines of those over their tolerance
  bool passed() const { return failures.empty(); }
};

// `value` is what the device computed. `cotangent` and `grads` may be undefined and empty; then
// they are drawn and computed. Uses this thread's generator. `each` hears how many of its parts are
// done, and of how many.
Verification verify(const Contraction& contraction, const Tensor& value, Tensor cotangent,
                    Tensors grads, const std::function<void(int64_t, int64_t)>& each = {});

// Normal numbers of a dtype (complex: both parts; integers: whole numbers from -4 to 4, u8 0 to 8).
Tensor random_operand(const Shape& sizes, DType dtype, Device& device,
                      Algebra algebra = Algebra::standard);
// <cotangent, einsum> differentiated with respect to each operand.
Tensors contraction_grads(const Contraction& contraction, const Tensor& cotangent);

}  // namespace gradus::cli
