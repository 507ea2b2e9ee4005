// Labels of an einsum: letters beyond ASCII, numbers, numbers behind each operand.
#include "ops/contract/einsum.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/texts.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

Tensor left() { return f64({1, 2, 3, 4, 5, 6}, {2, 3}); }
Tensor right() { return f64({1, -1, 2, 0, 3, 5}, {3, 2}); }

bool same(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && values(a) == values(b);
}

}  // namespace

TEST_CASE("einsum labels: every character beyond ASCII is a letter") {
  const Tensor expected = einsum("ij,jk->ik", {left(), right()});
  CHECK(same(einsum("\u03b1\u03b2,\u03b2\u03b3->\u03b1\u03b3", {left(), right()}), expected));
  CHECK(same(einsum(" i\u4e2d , \u4e2d\U0001d538 -> i\U0001d538 ", {left(), right()}), expected));
  // Implicit outputs are sorted by code point: "z" before "\u00e9".
  CHECK(same(einsum("\u00e9j,jz", {left(), right()}), einsum("ij,jk->ki", {left(), right()})));
  CHECK(same(einsum("...\u00e9,\u00e9\u00ea->...\u00ea", {left(), right()}), expected));
  // A thousand labels, named as opt_einsum names them.
  Tensors vectors;
  std::string terms;
  for (int64_t k = 0; k < 1000; ++k) {
    vectors.push_back(f64({1, 1}, {2}) * (k == 0 ? 3 : 0.5));
    terms += (k ? "," : "") + letter_text(192 + k);
  }
  CHECK(einsum(terms + "->", vectors).item() == 6);
  CHECK(plan_einsum("\u03b1\u03b2,\u03b2\u03b3->\u03b1\u03b3", {{2, 3}, {3, 2}})
            .steps[0]
            .expression() == "\u03b1\u03b2,\u03b2\u03b3->\u03b1\u03b3");
}

TEST_CASE("einsum labels: refusals show letters, and count characters") {
  const auto of = [](const std::string& equation) {
    return error_of([&] { einsum(equation, {left(), right()}); });
  };
  CHECK(of("\u03b1\u03b2,\u03b3\u03b2") ==
        "einsum: label \"\u03b2\" is 3 in operand 0 and 2 in operand 1");
  CHECK(of("\u03b1\u03b2,\u03b2\u03b3->\u03b1\u03b4") ==
        "einsum: output label \"\u03b4\" is in no input (position 8 of "
        "\"\u03b1\u03b2,\u03b2\u03b3->\u03b1\u03b4\")");
  test::check_has(of("\u03b1$,$k"), "invalid character '$'; labels are letters (position 1 of");
  test::check_has(of("i\u00a0j,jk"), "invalid character byte 0xc2; labels are letters (position 1");
  test::check_has(of("i\xc3,jk"), "invalid character byte 0xc3; labels are letters (position 1");
  test::check_has(of("i\xed\xa0\x80,jk"), "invalid character byte 0xed");  // a surrogate
}

TEST_CASE("einsum labels: numbers, in lists or behind each operand") {
  const Tensor expected = einsum("ij,jk->ik", {left(), right()});
  CHECK(same(einsum({left(), right()}, {{0, 1}, {1, 2}}, {0, 2}), expected));
  CHECK(same(einsum({left(), right()}, {{0, 1}, {1, 2}}), expected));
  CHECK(same(einsum({left(), right()}, {{7, 1}, {1, -2}}), einsum("ij,jk->ki", {left(), right()})));
  CHECK(same(einsum({{left(), {0, 1}}, {right(), {1, 2}}}, {0, 2}), expected));
  CHECK(same(einsum({{left(), {0, 1}}, {right(), {1, 2}}}), expected));
  CHECK(same(einsum({{left(), {0, 1}}, {right(), {1, 2}}}, {0, 2}, Algebra::max_plus),
             einsum("ij,jk->ik", {left(), right()}, Algebra::max_plus)));
  // Every number of 32 bits, and no other.
  CHECK(same(einsum({left()}, {{INT32_MIN, INT32_MAX}}, {INT32_MAX, INT32_MIN}),
             einsum("ij->ji", {left()})));
  CHECK(error_of([] {
          einsum({left()}, {{int64_t(1) << 31, 0}});
        }) == "einsum: labels have 32 bits, got 2147483648");
  CHECK(error_of([] {
          einsum({left(), right()}, {{0, 1}, {2, 1}}, {0, 2});
        }) == "einsum: label 1 is 3 in operand 0 and 2 in operand 1");
  CHECK(error_of([] {
          einsum({left()}, {{0, 1}}, {2});
        }) == "einsum: output label 2 is in no operand");
  CHECK(error_of([] {
          einsum({left()}, {{0, 1}}, {1, 1});
        }) ==
        "einsum: output label 1 is repeated; such a tensor, 0 off a diagonal, is made by "
        "einsum_classed (C++) or gradus.einsum (Lua)");
  CHECK(error_of([] {
          einsum({left()}, {{0, 1}, {1}});
        }) == "einsum: labels for 2 operands, got 1 operand");
}

TEST_CASE("einsum plans: the labels to loop over may be given") {
  const std::vector<Shape> shapes{{2, 3}, {3, 2}};
  PathOptions options;
  options.kind = PathOptions::Kind::fixed;
  options.path = {{0, 1}};
  options.sliced = {'j'};
  const EinsumPlan plan = plan_einsum("ij,jk->ik", shapes, options);
  CHECK(plan.slices == 3);
  CHECK(plan.flops == 2 * 12);
  CHECK(same(einsum(plan, {left(), right()}), einsum("ij,jk->ik", {left(), right()})));
  // One that an operand has alone counts once for each of its values, not as often squared.
  options.sliced = {'k'};
  const EinsumPlan alone = plan_einsum("ij,kl->i", shapes, options);
  const double each = 2 * 3 + 2 + 2;  // sums of j and l, the product
  CHECK(alone.flops == 3 * each);
  CHECK(same(einsum(alone, {left(), right()}), einsum("ij,kl->i", {left(), right()})));
  options.sliced = {'j'};
  for (const Labels& wrong : {Labels{'i'}, Labels{'z'}, Labels{'j', 'j'}}) {
    options.sliced = wrong;
    test::check_has(error_of([&] { plan_einsum("ij,jk->ik", shapes, options); }),
                    "cannot be looped over");
  }
}
