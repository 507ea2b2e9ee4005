// Random einsums against one loop over all indices: values, gradients of all operands, tangents,
// with ==. A failure prints its seed, from which the case is made anew.
#include "engine/forward.hpp"
#include "tests/contract/random_einsum.hpp"
#include "tests/helpers/sizes.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

namespace {

using namespace gradus;
using gradus::testing::RandomEinsum;

// What is wrong with a result; "" if nothing is.
std::string difference(const char* what, const Tensor& got, const Shape& sizes, DType dtype,
                       const gradus::testing::Gaussians& expected) {
  if (!got.defined()) return join(what, " is missing");
  if (got.sizes() != sizes) return join(what, " has shape ", got.sizes(), ", expected ", sizes);
  if (got.dtype() != dtype) return join(what, " is ", got.dtype(), ", expected ", dtype);
  const auto a = gradus::testing::elements_of(got), b = gradus::testing::as_dtype(expected, dtype);
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i]))
      return join(what, " at ", int64_t(i), " of ", sizes, " is ", int64_t(a[i].re), " + ",
                  int64_t(a[i].im), " i, expected ", int64_t(b[i].re), " + ", int64_t(b[i].im),
                  " i");
  return "";
}

std::string wrong_gradient(const RandomEinsum& c, const RandomEinsum::Results& expected) {
  Tensors leaves, asked;
  std::vector<size_t> which;
  for (size_t k = 0; k < c.operands.size(); ++k) {
    leaves.push_back(c.operands[k].tensor.detach());
    if (!c.differentiable(k)) continue;
    leaves.back().set_requires_grad();
    asked.push_back(leaves.back());
    which.push_back(k);
  }
  const Tensor y = c.call(leaves);
  std::string wrong = difference("the value", y, c.output_sizes(), c.dtype, expected.value);
  if (asked.empty() || !wrong.empty()) return wrong;
  const Tensors grads = grad({y}, asked, {c.cotangent.tensor});
  for (size_t i = 0; i < which.size() && wrong.empty(); ++i)
    wrong = difference(join("gradient ", int64_t(which[i])).c_str(), grads[i], asked[i].sizes(),
                       asked[i].dtype(), expected.grads[which[i]]);
  return wrong;
}

std::string wrong_tangent(const RandomEinsum& c, const RandomEinsum::Results& expected) {
  ForwardLevel level;
  Tensors dual;
  bool any = false;
  for (size_t k = 0; k < c.operands.size(); ++k) {
    dual.push_back(c.operands[k].tensor.detach());
    if (!c.differentiable(k)) continue;
    level.set_tangent(dual[k], c.directions[k].tensor);
    any = true;
  }
  if (!any) return "";
  return difference("the tangent", c.call(dual).tangent(), c.output_sizes(), c.dtype,
                    expected.tangent);
}

std::string wrong(uint64_t seed) {
  const RandomEinsum c(seed, open_device(seed % 8 == 7 ? "reference" : "cpu"));
  std::string what;
  try {
    const RandomEinsum::Results expected = c.expected();
    what = wrong_gradient(c, expected);
    if (what.empty()) what = wrong_tangent(c, expected);
  } catch (const Error& e) {
    what = e.what();
  }
  return what.empty() ? "" : join(what, "\n", c.describe());
}

}  // namespace

TEST_CASE("einsum: random equations are what a loop over all indices gives") {
  const char* const asked = std::getenv("GRADUS_TEST_SEED");  // another start, by hand
  const uint64_t first = asked ? std::strtoull(asked, nullptr, 10) : 1;
  const uint64_t cases = test::small_sizes() ? 200 : 2000;
  int failures = 0;
  for (uint64_t seed = first; seed < first + cases && failures < 5; ++seed) {
    const std::string what = wrong(seed);
    CHECK_MESSAGE(what.empty(), what);
    failures += !what.empty();
  }
}
