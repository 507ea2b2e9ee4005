// Operands on several devices: a contraction runs where one of them gathers, with one copy of each
// operand that lives elsewhere; every other op refuses them.
#include "tests/helpers/kinds.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/texts.hpp"

#include "kernels/reference/reference.hpp"
#include "ops/contract/einsum.hpp"

using namespace gradus;
using namespace gradus::testing;
using gradus::test::check_has;
using gradus::test::Copies;

namespace {

// The reference's loops under another name, that gather.
Device& gatherer() {
  static const gd_table table = [] {
    gd_table t = *reference::table();
    t.kind = "gatherer";
    t.score = -2;
    t.capabilities = [](gd_device*) -> uint32_t { return GD_CAP_HOST_MEMORY | GD_CAP_GATHERS; };
    return t;
  }();
  static const bool registered = (register_table(&table, "a test"), true);
  (void)registered;
  return open_device("gatherer");
}

Tensor there(const Tensor& x) { return to_device(x.detach(), gatherer()); }

}  // namespace

TEST_CASE(
    "gathered: a contraction runs where one operand gathers, at most one copy of each other") {
  const Tensor a = f64({1, 2, 3, 4, 5, 6}, {2, 3}), b = f64({1, 0, 2, -1, 1, 3}, {3, 2}),
               c = f64({2, 1}, {2});
  const Tensor far_a = there(a), far_b = there(b);
  const auto copies_of = [&](const Tensor& x, const Tensor& y) {
    const Copies copies(gatherer(), a.device());
    const Tensor z = matmul(x, y);
    CHECK(&z.device() == &gatherer());
    CHECK(values(z) == values(matmul(a, b)));
    return copies.count();
  };
  CHECK(copies_of(far_a, far_b) == 0);
  CHECK(copies_of(a, far_b) == 1);
  CHECK(copies_of(far_a, b) == 1);
  CHECK(copies_of(far_a, transpose(contiguous(transpose(b, 0, 1)), 0, 1)) == 1);

  const Copies copies(gatherer(), a.device());
  const Tensor y = einsum("ij,jk,k->i", {a, far_b, c});
  CHECK(copies.count() == 2);
  CHECK(values(y) == values(einsum("ij,jk,k->i", {a, b, c})));
  CHECK(values(einsum("i,j->ij", {c, there(c)})) == std::vector<double>{4, 2, 2, 1});
  CHECK(values(einsum("ij,jk->ik", {a, far_b}, Algebra::max_plus)) ==
        values(einsum("ij,jk->ik", {a, b}, Algebra::max_plus)));
  CHECK(values(linear(far_a, transpose(b, 0, 1), c)) == values(linear(a, transpose(b, 0, 1), c)));
}

TEST_CASE("gathered: cotangents and tangents go back to where the operands live") {
  const Tensor a = leaf(f64({1, 2, 3, 4, 5, 6}, {2, 3})), b = f64({1, 0, 2, -1, 1, 3}, {3, 2});
  const Tensor near = leaf(f64({1, 2, 3, 4, 5, 6}, {2, 3}));
  const Tensor far_b = leaf(there(b)), near_b = leaf(f64({1, 0, 2, -1, 1, 3}, {3, 2}));
  backward(sum(square(matmul(tanh(a), far_b))));
  backward(sum(square(matmul(tanh(near), near_b))));
  CHECK(&a.grad().device() == &a.device());
  CHECK(&far_b.grad().device() == &gatherer());
  CHECK(values(a.grad()) == values(near.grad()));
  CHECK(values(far_b.grad()) == values(near_b.grad()));

  const auto second = [&](const Tensor& x, const Tensor& w) {
    BackwardOptions again;
    again.create_graph = true;
    const Tensor g = grad({sum(square(matmul(square(x), w)))}, {x}, {}, again)[0];
    return values(grad({sum(square(g))}, {x})[0]);
  };
  CHECK(second(a, far_b) == second(near, near_b));
}

TEST_CASE(
    "gathered: any other op over two devices is an error, and so is a contraction that none "
    "gathers") {
  const Tensor a = f64({1, 2, 3, 4}, {2, 2});
  const std::string here = a.device().name();
  check_has(error_of([&] { add(a, there(a)); }), "operands live on " + here + " and gatherer");
  check_has(error_of([&] { addmm(a, there(a), there(a)); }), "operands live on ");
  const Tensor other = to_device(a, open_device(here == "reference" ? "cpu" : "reference"));
  check_has(error_of([&] { matmul(a, other); }), "move one with to(device)");
  check_has(error_of([&] { einsum("ij,jk,kl->il", {a, a, other}); }), "move one with to(device)");
}
