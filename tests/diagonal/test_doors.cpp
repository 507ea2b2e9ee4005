// Classed tensors through the doors: scripts, and `gradus contract` with a label repeated in the
// output.
#include "engine/files/npy.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/lua_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

using namespace gradus;
using gradus::test::fails;
using gradus::test::has;
using gradus::test::says;
using gradus::testing::values;

namespace {

const std::string kBegin =
    "local d = gradus.tensor({1, 2, 3}, {dtype = 'f64'}) local D = gradus.diagonal_tensor(d) "
    "local M = gradus.ones(3, 3, {dtype = 'f64'}) ";

}  // namespace

TEST_CASE("lua: classed tensors have arithmetic with each other, tensors and numbers") {
  CHECK(says(kBegin +
             "local t = {} for i, x in ipairs{2 * D, D * 2, D + D, M * D, D * M, -D, D - D, D / 2} "
             "do t[i] = x.payload:sum():item() end print(table.concat(t, ' '))") ==
        "12.0 12.0 12.0 6.0 6.0 -6.0 0.0 3.0");
  CHECK(says(kBegin + "local p = gradus.permutation(gradus.tensor{2, 0, 1}) "
                      "print(gradus.einsum('ij,j->i', p, d), D:permute(2, 1).shape, D.classes)") ==
        "[3, 1, 2]|f64 (3,)\t(3, 3)\t(1, 1)");
  CHECK(says(kBegin + "print(gradus.einsum({D, M}, {{1, 2}, {2, 3}}, {1, 3}):sum():item(), "
                      "gradus.einsum({d, d}, {{1}, {1}}, {1, 1}).classes, "
                      "gradus.einsum('ii->', {gradus.identity(4)}):item())") ==
        "18.0\t(1, 1)\t4.0");
  CHECK(says("local s = gradus.diagonal_tensor(gradus.tensor(3.0), {}) print(s:to_dense():item(), "
             "gradus.ones(2):to_dense().shape, gradus.ones(2):to_dense({1, 1}).shape)") ==
        "3.0\t(2,)\t(2, 2)");
  CHECK(says(kBegin + "print(D:map_values('square').payload, D:conj(), D:solve(d))") ==
        "[1, 4, 9]|f64 (3,)\tclassed tensor (3, 3) f64, classes (1, 1), payload (3,)\t[1, 1, 1]|"
        "f64 (3,)");
}

TEST_CASE("lua: what classed tensors refuse") {
  CHECK(has(fails(kBegin + "D:map_values('exp')"),
            "exp(0) is 1: the result is dense; use to_dense()"));
  CHECK(has(fails(kBegin + "print(D.foo)"), "classed tensor: has no \"foo\""));
  CHECK(has(fails(kBegin + "gradus.einsum('ij->ii', M, {algebra = 'max-plus'})"),
            "einsum: the output \"ii\" repeats a label; diagonals are kept in the algebras "
            "standard, boolean and mod, not in max-plus"));
  CHECK(has(fails(kBegin + "gradus.einsum({D}, {{1, 2}}, {1, 1}, 'min-times')"),
            "the output (1, 1) repeats a label"));
  CHECK(has(fails(kBegin + "gradus.einsum('ij,jk->ik', D, M, 'boolean')"),
            "is not defined for f64 (boolean); it takes bool"));
  CHECK(has(fails(kBegin + "return D + {}"), "add: right operand"));
  CHECK(has(fails("gradus.diagonal_tensor(gradus.ones(2), {0})"), "0"));
  CHECK(has(fails("gradus.diagonal_tensor(gradus.ones(2), {1, 2})", ErrorKind::index),
            "axis 1 has class 1, but x of shape (2,) has 1 axis; here axes count from 0, in Lua "
            "from 1"));
  CHECK(has(fails("gradus.copy_tensor(2, 65)"), "order is 65, expected up to 64"));
  CHECK(has(fails("gradus.identity(3, {dtyp = 'f64'})"), "dtyp"));
}

TEST_CASE("contract: a label that the output repeats gives the dense tensor, and says so") {
  const gradus::test::TempFolder folder;
  write_npy(folder / "x.npy", gradus::testing::f64({1, 2, 3, 4}, {2, 2}));
  const auto made = gradus::test::run(
      folder, "contract --einsum '...i,...i->i...i' --in x.npy x.npy --out y.npy");
  CAPTURE(made.err);
  REQUIRE(made.code == 0);
  CHECK(has(made.out, "its output repeats a label: made dense, (2, 2, 2), 0 off the diagonals"));
  const Tensor y = read_npy(folder / "y.npy");
  CHECK(y.sizes() == Shape{2, 2, 2});
  CHECK(values(y) == std::vector<double>{1, 0, 9, 0, 0, 4, 0, 16});
  const auto json =
      gradus::test::run(folder, "contract --einsum 'ij->iijj' --in x.npy --verify --json");
  CHECK(json.code == 0);
  CHECK(has(json.out, "\"shape\":[2,2,2,2]"));
  const auto refused =
      gradus::test::run(folder, "contract --einsum 'i->ii' --sizes i=3 --algebra max-plus");
  CHECK(refused.code == 2);
  CHECK(has(refused.err,
            "the output \"ii\" repeats a label; diagonals are kept in the algebras "
            "standard, boolean and mod, not in max-plus"));
}
