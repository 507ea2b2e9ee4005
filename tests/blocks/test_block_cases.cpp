// Block-sparse contractions in whole numbers, equal to what other programs computed.
#include "tests/blocks/block_helpers.hpp"

#include "engine/forward.hpp"

using namespace gradus;
using namespace gradus::test;
using gradus::testing::error_of;

TEST_CASE("blocks: 20 contractions, their gradients and tangents, exactly") {
  for (const ContractionCase& c : contraction_cases()) {
    CAPTURE(c.name);
    gradus::testing::on_each_device([&] {
      BlockTensor a = filled(structure_of(c.mods, c.legs, c.a), c.a.fill),
                  b = filled(structure_of(c.mods, c.legs, c.b), c.b.fill);
      a.data.set_requires_grad();
      b.data.set_requires_grad();
      const Labels la = labels_of(c.a.labels), lb = labels_of(c.b.labels), out = labels_of(c.out);
      const BlockTensor y = contract(a, la, b, lb, out);
      CHECK(y.structure.charge() == c.charge);
      CHECK(y.structure.count() == c.blocks);
      CHECK(y.structure.elements() == c.elements);
      CHECK(plan_pair("contract", a.structure, la, b.structure, lb, out)->pairs == c.pairs);
      check_sums(y, c.value);

      const BlockTensor g = filled(y.structure, c.cotangent);
      const Tensors found = grad({y.data}, {a.data, b.data}, {g.data});
      check_sums({found[0], a.structure}, c.grad_a);  // the gradient has its operand's structure
      check_sums({found[1], b.structure}, c.grad_b);

      const BlockTensor t = filled(a.structure, c.tangent);
      ForwardLevel level;
      level.set_tangent(a.data, t.data);
      const Tensor jvp = contract(a, la, b, lb, out).data.tangent();
      check_sums({jvp, y.structure}, c.jvp);
      const auto dot = [](const Tensor& x, const Tensor& y) { return sum(mul(x, y)).item(); };
      NoGrad off;
      CHECK(dot(g.data, jvp) == dot(found[0], t.data));

      const std::string equation = std::string(c.a.labels) + "," + c.b.labels + "->" + c.out;
      CHECK(gradus::testing::values(einsum(equation, {a, b}).data) ==
            gradus::testing::values(y.data));
    });
  }
}
