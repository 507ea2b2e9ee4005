// The check of a contraction: a block of it, and random vectors.
#include "cli/contract/contract_verify.hpp"
#include "engine/device/device.hpp"
#include "engine/random.hpp"
#include "ops/contract/einsum.hpp"
#include "tests/helpers/sizes.hpp"
#include "tests/helpers/texts.hpp"

#include <doctest/doctest.h>

using namespace gradus;

namespace {

cli::Contraction contraction(const std::string& equation, const std::vector<Shape>& shapes,
                             DType dtype, Algebra algebra = Algebra::standard) {
  PathOptions options;
  options.sum_alone = sums_alone(algebra);
  cli::Contraction c{plan_einsum(equation, shapes, options), algebra, {}};
  for (const Shape& s : shapes)
    c.operands.push_back(cli::random_operand(s, dtype, open_device("cpu"), algebra));
  return c;
}

// x with its first element off by `relative` of the largest.
Tensor spoilt(const Tensor& x, double relative) {
  const Tensor mask =
      cast(eq(cumsum(Tensor::full({x.numel()}, 1, DType::f64, x.device()), 0), 1.0), x.dtype());
  return add(x, reshape(mul(mask, amax(abs(x)).item() * relative), x.sizes()));
}

}  // namespace

TEST_CASE("verify passes what is right and fails what is not") {
  manual_seed(1);  // one draw in thousands hides a small fault
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double relative = dtype == DType::f32 ? 1e-3 : 1e-9;
    const cli::Contraction c =
        contraction("aab,bcd,...,dc->b", {{3, 3, 8}, {8, 5, 6}, {4, 1}, {6, 5}}, dtype);
    const Tensor y = einsum(c.plan, c.operands);
    CHECK(cli::verify(c, y, {}, {}).passed());
    CHECK_FALSE(cli::verify(c, spoilt(y, relative), {}, {}).passed());
    const Tensor g = cli::random_operand(y.sizes(), dtype, y.device());
    Tensors grads = cli::contraction_grads(c, g);
    CHECK(cli::verify(c, y, g, grads).passed());
    grads[1] = mul(grads[1], 1 + relative);
    const cli::Verification wrong = cli::verify(c, y, g, grads);
    CHECK_FALSE(wrong.passed());
    CHECK(wrong.value_error.value() < relative);
    CHECK(wrong.grad_error.value() > relative / 100);
  }
  for (const Algebra algebra : {Algebra::max_plus, Algebra::min_plus, Algebra::max_times,
                                Algebra::min_times, Algebra::log_sum_exp}) {
    const cli::Contraction c =
        contraction("ij,jk,k->i", {{4, 5}, {5, 6}, {6}}, DType::f32, algebra);
    const Tensor y = einsum(c.plan, c.operands, algebra);
    CHECK(cli::verify(c, y, {}, {}).passed());
    CHECK_FALSE(cli::verify(c, spoilt(y, 1e-3), {}, {}).passed());
  }
  const cli::Contraction c = contraction("ij,jk->ik", {{4, 5}, {5, 6}}, DType::i64);
  const Tensor y = einsum(c.plan, c.operands);
  CHECK(cli::verify(c, y, {}, {}).passed());
  CHECK_FALSE(cli::verify(c, add(y, 1), {}, {}).passed());
  CHECK_FALSE(cli::verify(c, y, {}, {}).grad_error);
}

TEST_CASE("verify of a large contraction: a block, and random vectors") {
  if (test::small_sizes()) {
    MESSAGE("skipped: nothing is large enough that is small");
    return;
  }
  const cli::Contraction c = contraction("ij,jk->ik", {{700, 300}, {300, 500}}, DType::f32);
  const Tensor y = einsum(c.plan, c.operands);
  const cli::Verification right = cli::verify(c, y, {}, {});
  CHECK(right.passed());
  REQUIRE(right.notes.size() == 4);
  test::check_has(right.notes[0], "a block of ");
  test::check_has(right.notes[1], "value against random vectors, all of it");
  CHECK_FALSE(cli::verify(c, mul(y, 1.001), {}, {}).passed());
}
