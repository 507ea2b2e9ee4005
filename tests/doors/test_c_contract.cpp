// Contraction by labels, by equation and by plan through the C door: against a naive loop over all
// values of all labels, against finite differences, and vjp against jvp.
#include "tests/helpers/c_door.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <map>

namespace c_door {

namespace {

using Labels32 = std::vector<int32_t>;

// Operands by their numbers on the host; what stands for them in a call is made from that.
struct Product {
  std::vector<Shape64> shapes;
  std::vector<Labels32> labels;
  Labels32 output;
  std::vector<Doubles> numbers = {};

  // Numbers apart from each other and above 0, so that no algebra has ties and max-times is one.
  void draw(unsigned seed) {
    numbers.clear();
    for (const Shape64& shape : shapes) {
      size_t n = 1;
      for (const int64_t s : shape) n *= size_t(s);
      for (Doubles& v = numbers.emplace_back(); v.size() < n;) {
        seed = seed * 1664525u + 1013904223u;
        v.push_back(0.5 + (seed >> 8) / double(1 << 24));
      }
    }
  }
  std::map<int32_t, int64_t> sizes() const {
    std::map<int32_t, int64_t> all;
    for (size_t k = 0; k < shapes.size(); ++k)
      for (size_t i = 0; i < shapes[k].size(); ++i)
        all[labels[k][i]] = std::max(all[labels[k][i]], shapes[k][i]);
    return all;
  }
  Shape64 out_shape() const {
    Shape64 shape;
    for (const int32_t l : output) shape.push_back(sizes().at(l));
    return shape;
  }

  // The definition: every value of every label once.
  Doubles naive(int32_t algebra, const std::vector<Doubles>& in) const {
    const auto all = sizes();
    size_t places = 1;
    for (const int64_t s : out_shape()) places *= size_t(s);
    const double zero = algebra == GRADUS_MAX_PLUS || algebra == GRADUS_MAX_TIMES   ? -INFINITY
                        : algebra == GRADUS_MIN_PLUS || algebra == GRADUS_MIN_TIMES ? INFINITY
                                                                                    : 0;
    const bool sums = algebra == GRADUS_MAX_PLUS || algebra == GRADUS_MIN_PLUS;
    Doubles y(places, zero);
    std::map<int32_t, int64_t> at;
    for (const auto& [label, size] : all) at[label] = 0;
    while (true) {
      double term = sums ? 0 : 1;
      for (size_t k = 0; k < in.size(); ++k) {
        size_t place = 0;
        for (size_t i = 0; i < shapes[k].size(); ++i)  // a size of 1 stands for all
          place =
              place * size_t(shapes[k][i]) + size_t(shapes[k][i] == 1 ? 0 : at.at(labels[k][i]));
        term = sums ? term + in[k][place] : term * in[k][place];
      }
      size_t place = 0;
      for (const int32_t l : output) place = place * size_t(all.at(l)) + size_t(at.at(l));
      double& out = y[place];
      out = algebra == GRADUS_SUM_PRODUCT                               ? out + term
            : algebra == GRADUS_MIN_PLUS || algebra == GRADUS_MIN_TIMES ? std::min(out, term)
                                                                        : std::max(out, term);
      auto l = at.begin();
      while (l != at.end() && ++l->second == all.at(l->first)) l++->second = 0;
      if (l == at.end()) return y;
    }
  }
  Doubles naive(int32_t algebra) const { return naive(algebra, numbers); }
  // The derivative along `along`, by central differences of the definition.
  Doubles slope(int32_t algebra, const std::vector<Doubles>& along) const {
    const double h = 1e-6;
    auto up = numbers, down = numbers;
    for (size_t k = 0; k < numbers.size(); ++k)
      for (size_t i = 0; i < numbers[k].size(); ++i) {
        up[k][i] += h * along[k][i];
        down[k][i] -= h * along[k][i];
      }
    Doubles a = naive(algebra, up);
    const Doubles b = naive(algebra, down);
    for (size_t i = 0; i < a.size(); ++i) a[i] = (a[i] - b[i]) / (2 * h);
    return a;
  }
};

// What a call takes.
struct Arguments {
  explicit Arguments(const Product& p) {
    for (size_t k = 0; k < p.shapes.size(); ++k) {
      owned.push_back(tensor(p.numbers[k], p.shapes[k]));
      operands.push_back(owned.back());
      labels.push_back(p.labels[k].data());
      shapes.push_back(p.shapes[k].data());
      ndims.push_back(p.shapes[k].size());
    }
  }
  std::vector<Own> owned{};
  std::vector<gradus_tensor> operands{};
  std::vector<const int32_t*> labels{};
  std::vector<const int64_t*> shapes{};
  std::vector<size_t> ndims{};
};

std::vector<Own> tensors_of(const Product& p, const std::vector<Doubles>& numbers) {
  std::vector<Own> out;
  for (size_t k = 0; k < numbers.size(); ++k) out.push_back(tensor(numbers[k], p.shapes[k]));
  return out;
}
double inner(const Doubles& a, const Doubles& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

std::vector<Product> products() {
  return {
      {{{3, 4}, {4, 2}}, {{0, 1}, {1, 2}}, {0, 2}},
      // Negative and huge labels, and an output in another order.
      {{{3, 4}, {4, 2}}, {{-7, INT32_MAX}, {INT32_MAX, INT32_MIN}}, {INT32_MIN, -7}},
      // A diagonal, and a label that is summed in one operand alone.
      {{{3, 3}, {3, 2}}, {{5, 5}, {5, 9}}, {5}},
      {{{3, 2, 3}}, {{1, 0, 1}}, {1, 0}},
      // Hyperedges: a label of three operands, kept and summed.
      {{{2, 3}, {2, 4}, {2, 3}}, {{1, 2}, {1, 3}, {1, 2}}, {1, 3}},
      {{{2, 3}, {2, 4}, {2}}, {{1, 2}, {1, 3}, {1}}, {3, 2}},
      // Sizes of 1 broadcast.
      {{{1, 4}, {3, 4}}, {{1, 2}, {1, 2}}, {1}},
      {{{1, 1}, {3, 2}}, {{1, 2}, {1, 2}}, {2, 1}},
      // No labels at all, and an outer product.
      {{{}, {3}}, {{}, {4}}, {4}},
      {{{2}, {3}}, {{4}, {2}}, {2, 4}},
      {{{2}, {2}}, {{4}, {4}}, {}},
      // Four in a chain.
      {{{2, 3}, {3, 4}, {4, 3}, {3, 2}}, {{1, 2}, {2, 3}, {3, 4}, {4, 5}}, {5, 1}},
  };
}
constexpr int32_t kAlgebras[] = {GRADUS_SUM_PRODUCT, GRADUS_MAX_PLUS, GRADUS_MIN_PLUS,
                                 GRADUS_MAX_TIMES, GRADUS_MIN_TIMES};

}  // namespace

TEST_CASE("c contract: labels of any int32, in every algebra, as the definition has it") {
  const Balance balance;
  unsigned seed = 1;
  for (Product p : products())
    for (const int32_t algebra : kAlgebras) {
      CAPTURE(seed);
      CAPTURE(algebra);
      p.draw(seed++);
      const Arguments a(p);
      Own y;
      ok(gradus_contract(a.operands.data(), a.labels.data(), a.operands.size(), p.output.data(),
                         p.output.size(), algebra, y.out()));
      CHECK(shape_of(y) == p.out_shape());
      CHECK(near(values(y), p.naive(algebra)));
    }
}

TEST_CASE("c contract: algebras by number, with a modulus, too") {
  const Balance balance;
  const Own a = tensor({std::log(2.0), std::log(3.0)}, {2});
  const int32_t i[1] = {1};
  const int32_t* const labels[2] = {i, i};
  const gradus_tensor twice[2] = {a, a};
  Own y;
  ok(gradus_contract(twice, labels, 2, nullptr, 0, GRADUS_LOG_SUM_EXP, y.out()));
  CHECK(near(values(y), {std::log(13.0)}));
  refused_with(gradus_contract(twice, labels, 2, nullptr, 0, GRADUS_BOOLEAN, y.out()), GRADUS_DTYPE,
               "boolean");
  refused_with(gradus_contract(twice, labels, 2, nullptr, 0, GRADUS_MODULO(7), y.out()),
               GRADUS_DTYPE, "mod 7");
}

TEST_CASE("c contract: vjp and jvp as single calls, against differences and each other") {
  const Balance balance;
  unsigned seed = 100;
  for (Product p : products())
    for (const int32_t algebra : kAlgebras) {
      CAPTURE(seed);
      CAPTURE(algebra);
      Product directions = p;
      directions.draw(seed++);
      p.draw(seed++);
      const Arguments a(p);
      const size_t n = a.operands.size();
      const std::vector<Own> moved = tensors_of(p, directions.numbers);
      const std::vector<gradus_tensor> tangents(moved.begin(), moved.end());
      const auto jvp = [&](const gradus_tensor* t) {
        Own dy;
        ok(gradus_contract_jvp(a.operands.data(), a.labels.data(), n, p.output.data(),
                               p.output.size(), algebra, t, dy.out()));
        return values(dy);
      };
      const Doubles dy = jvp(tangents.data());
      CHECK(near(dy, p.slope(algebra, directions.numbers), 1e-7));
      Doubles g;
      for (size_t i = 0; i < dy.size(); ++i) g.push_back(std::cos(double(i) + seed));
      const Own cotangent = tensor(g, p.out_shape());
      const auto vjp = [&](gradus_tensor seed_of, int32_t operand, gradus_tensor* grads) {
        ok(gradus_contract_vjp(a.operands.data(), a.labels.data(), n, p.output.data(),
                               p.output.size(), algebra, seed_of, operand, grads));
      };
      std::vector<gradus_tensor> grads(n);
      vjp(cotangent, -1, grads.data());
      double pulled = 0;
      for (size_t k = 0; k < n; ++k) {
        const Own grad(grads[k]);
        CHECK(shape_of(grad) == p.shapes[k]);
        int32_t recorded = 9;
        ok(gradus_requires_grad(grad, &recorded));
        CHECK(recorded == 0);
        pulled += inner(values(grad), directions.numbers[k]);
        Own alone, nothing;  // one operand, and a cotangent that is zero
        vjp(cotangent, int32_t(k), alone.out());
        CHECK(near(values(alone), values(grad)));
        vjp(0, int32_t(k), nothing.out());
        CHECK(values(nothing) == Doubles(values(grad).size(), 0));
        // The tangent of this operand alone, the others zero.
        std::vector<gradus_tensor> one(n, 0);
        one[k] = tangents[k];
        CHECK(inner(jvp(one.data()), g) ==
              doctest::Approx(inner(values(grad), directions.numbers[k])).epsilon(1e-10));
      }
      CHECK(pulled == doctest::Approx(inner(dy, g)).epsilon(1e-10));
      CHECK(jvp(nullptr) == Doubles(dy.size(), 0));
      vjp(0, -1, grads.data());
      for (const gradus_tensor t : grads) {
        const Doubles zero = values(Own(t));
        CHECK(std::all_of(zero.begin(), zero.end(), [](double x) { return x == 0; }));
      }
    }
}

TEST_CASE("c contract: it is recorded like any op; the single calls stand apart") {
  const Balance balance;
  const Own x = leaf({1, 2, 3, 4}, {2, 2}), w = tensor({1, -1, 2, 0}, {2, 2});
  const gradus_tensor in[2] = {x, w};
  const int32_t left[2] = {8, 9}, right[2] = {9, 10};
  const int32_t* const labels[2] = {left, right};
  Own y, grad;
  ok(gradus_contract(in, labels, 2, nullptr, 0, GRADUS_SUM_PRODUCT, y.out()));
  const gradus_tensor root[1] = {y};
  ok(gradus_backward(root, nullptr, 1, 0));
  ok(gradus_grad(x, grad.out()));
  CHECK(values(grad) == Doubles{0, 2, 0, 2});
  // With recording off, and with the same tensor twice.
  const gradus_tensor twice[2] = {x, x};
  const Own one = tensor({1}, {});
  gradus_tensor grads[2] = {0, 0};
  ok(gradus_set_grad_enabled(0, nullptr));
  const gradus_status status =
      gradus_contract_vjp(twice, labels, 2, nullptr, 0, GRADUS_SUM_PRODUCT, one, -1, grads);
  ok(gradus_set_grad_enabled(1, nullptr));
  ok(status);
  CHECK(values(Own(grads[0])) == Doubles{3, 7, 3, 7});  // sums of the rows of the second
  CHECK(values(Own(grads[1])) == Doubles{4, 4, 6, 6});  // of the columns of the first
  ok(gradus_grad(x, grad.out()));
  CHECK(values(grad) == Doubles{0, 2, 0, 2});
}

TEST_CASE("c contract: the single calls stand apart from a level of forward mode") {
  const Balance balance;
  const LevelEnds ends;
  const Own x = tensor({1, 2, 3, 4}, {2, 2}), w = tensor({1, -1, 2, 0}, {2, 2}),
            t = tensor({1, 0, 0, 1}, {2, 2});
  const gradus_tensor in[2] = {x, w}, tangents[2] = {t, 0};
  const int32_t left[2] = {8, 9}, right[2] = {9, 10}, out[2] = {8, 10};
  const int32_t* const labels[2] = {left, right};
  ok(gradus_forward_begin());
  ok(gradus_set_tangent(x, t));
  ok(gradus_set_tangent(w, t));
  Own dy, grad, y, moved;
  ok(gradus_contract_jvp(in, labels, 2, out, 2, GRADUS_SUM_PRODUCT, tangents, dy.out()));
  CHECK(values(dy) == Doubles{1, -1, 2, 0});  // t w
  ok(gradus_contract_vjp(in, labels, 2, out, 2, GRADUS_SUM_PRODUCT, w, 1, grad.out()));
  CHECK(values(grad) == Doubles{7, -1, 10, -2});  // x^T w
  for (const gradus_tensor result : {int64_t(dy), int64_t(grad)}) {
    ok(gradus_tangent(result, moved.out()));
    CHECK(moved == 0);
  }
  // The level goes on: what is recorded is pushed.
  ok(gradus_contract(in, labels, 2, out, 2, GRADUS_SUM_PRODUCT, y.out()));
  ok(gradus_tangent(y, moved.out()));
  CHECK(values(moved) == Doubles{2, 1, 5, 4});  // t w + x t
  ok(gradus_forward_end());
}

TEST_CASE("c contract: what is refused") {
  const Balance balance;
  const Own a = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  const gradus_tensor in[2] = {a, a};
  const int32_t first[2] = {1, 2}, second[2] = {2, 3}, out[2] = {1, 1};
  const int32_t *const labels[2] = {first, second}, *const missing[2] = {first, nullptr};
  gradus_tensor y = 77;
  const auto contract = [&](const int32_t* const* l, size_t n, const int32_t* o, size_t n_out,
                            int32_t algebra = 0) {
    return gradus_contract(in, l, n, o, n_out, algebra, &y);
  };
  refused_with(contract(labels, 2, nullptr, 0), GRADUS_SHAPE, "einsum: ");
  refused(contract(missing, 2, nullptr, 0), GRADUS_NULL, "gradus_contract: labels[k] is NULL");
  refused(contract(nullptr, 2, nullptr, 0), GRADUS_NULL, "gradus_contract: labels is NULL");
  refused(contract(labels, 1, nullptr, 1), GRADUS_NULL, "gradus_contract: out_labels is NULL");
  refused_with(contract(labels, 1, out, 2), GRADUS_VALUE, "label 1");
  refused_with(contract(labels, 1, second, 2), GRADUS_VALUE, "label 3");
  refused_with(contract(labels, 0, nullptr, 0), GRADUS_VALUE, "einsum: ");
  refused(contract(labels, 1, nullptr, 0, 7), GRADUS_VALUE,
          "gradus_contract: algebra 7 is none; expected GRADUS_SUM_PRODUCT ... GRADUS_BOOLEAN or "
          "GRADUS_MODULO(p)");
  const Own one = tensor({1}, {}), wrong = tensor({1, 2}, {2});
  const auto vjp = [&](gradus_tensor g, int32_t operand) {
    return gradus_contract_vjp(in, labels, 1, nullptr, 0, 0, g, operand, &y);
  };
  refused(vjp(one, 1), GRADUS_INDEX,
          "gradus_contract_vjp: operand 1, expected -1 for all, or 0 to 0");
  refused(vjp(one, -2), GRADUS_INDEX,
          "gradus_contract_vjp: operand -2, expected -1 for all, or 0 to 0");
  refused_with(vjp(wrong, 0), GRADUS_AUTOGRAD, "seed has shape (2,)");
  const gradus_tensor tangents[1] = {wrong};
  refused_with(gradus_contract_jvp(in, labels, 1, nullptr, 0, 0, tangents, &y), GRADUS_SHAPE,
               "has shape (2,)");
  CHECK(y == 77);
}

TEST_CASE("c contract: einsum by its equation") {
  const Balance balance;
  const Own a = tensor({1, 2, 3, 4}, {2, 2}), b = tensor({1, 0, 2, 1}, {2, 2});
  const gradus_tensor in[2] = {a, b};
  Own y;
  ok(gradus_einsum("ij,jk->ki", in, 2, y.out()));
  CHECK(values(y) == Doubles{5, 11, 2, 4});
  ok(gradus_einsum("ii", in, 1, y.out()));
  CHECK(values(y) == Doubles{5});
  refused_with(gradus_einsum("ij,j?", in, 2, y.out()), GRADUS_VALUE, "einsum: ");
  refused(gradus_einsum(nullptr, in, 2, y.out()), GRADUS_NULL, "gradus_einsum: equation is NULL");
}

TEST_CASE("c contract: plans are searched once and carried out often") {
  const Balance balance;
  Product p{{{2, 30}, {30, 40}, {40, 3}}, {{1, 2}, {2, 3}, {3, 4}}, {4, 1}};
  p.draw(5);
  const Arguments a(p);
  Own plan, other;
  ok(gradus_plan_labels(a.labels.data(), a.shapes.data(), a.ndims.data(), 3, p.output.data(), 2,
                        nullptr, GRADUS_SUM_PRODUCT, plan.out()));
  gradus_plan_info info{};
  info.struct_size = sizeof info;
  ok(gradus_plan_describe(plan, &info));
  CHECK(info.steps == 2);
  // (2, 30) with (30, 40) first: 2 * 2 * 30 * 40, then 2 * 2 * 40 * 3. The other way round costs
  // 2 * 30 * 40 * 3 and 2 * 2 * 30 * 3.
  CHECK(info.flops == 2 * 2 * 30 * 40 + 2 * 2 * 40 * 3);
  CHECK(info.largest == 80);
  int32_t pair[2] = {-1, -1};
  ok(gradus_plan_step(plan, 0, pair));
  CHECK((std::min(pair[0], pair[1]) == 0 && std::max(pair[0], pair[1]) == 1));
  ok(gradus_plan_step(plan, 1, pair));
  CHECK((std::min(pair[0], pair[1]) == 0 && std::max(pair[0], pair[1]) == 1));
  refused(gradus_plan_step(plan, 2, pair), GRADUS_INDEX,
          "gradus_plan_step: step 2, the plan has 2");
  ok(gradus_plan_equation("ab,bc,cd->da", a.shapes.data(), a.ndims.data(), 3, "optimal",
                          GRADUS_SUM_PRODUCT, other.out()));
  for (unsigned seed : {6u, 7u, 8u}) {
    p.draw(seed);
    Product along = p;
    along.draw(seed + 10);
    const Arguments next(p);
    const std::vector<Own> moved = tensors_of(p, along.numbers);
    const std::vector<gradus_tensor> tangents(moved.begin(), moved.end());
    for (const gradus_plan each : {int64_t(plan), int64_t(other)}) {
      Own y, dy;
      ok(gradus_plan_execute(each, next.operands.data(), 3, y.out()));
      CHECK(near(values(y), p.naive(GRADUS_SUM_PRODUCT), 1e-12));
      ok(gradus_plan_jvp(each, next.operands.data(), 3, tangents.data(), dy.out()));
      CHECK(near(values(dy), p.slope(GRADUS_SUM_PRODUCT, along.numbers), 1e-6));
      gradus_tensor grads[3];
      ok(gradus_plan_vjp(each, next.operands.data(), 3, y, -1, grads));
      double pulled = 0;
      for (size_t k = 0; k < 3; ++k) pulled += inner(values(Own(grads[k])), along.numbers[k]);
      CHECK(pulled == doctest::Approx(inner(values(dy), values(y))).epsilon(1e-10));
      Own alone;
      ok(gradus_plan_vjp(each, next.operands.data(), 3, 0, 1, alone.out()));
      CHECK(values(alone) == Doubles(1200, 0));
    }
  }
}

TEST_CASE("c contract: plans in every algebra, by every path, and what they refuse") {
  const Balance balance;
  unsigned seed = 50;
  for (Product p : products())
    for (const int32_t algebra : kAlgebras)
      for (const char* path : {"auto", "greedy", "optimal", "left"}) {
        CAPTURE(seed);
        CAPTURE(algebra);
        p.draw(seed++);
        const Arguments a(p);
        const size_t n = a.operands.size();
        Own plan, y;
        ok(gradus_plan_labels(a.labels.data(), a.shapes.data(), a.ndims.data(), n, p.output.data(),
                              p.output.size(), path, algebra, plan.out()));
        ok(gradus_plan_execute(plan, a.operands.data(), n, y.out()));
        CHECK(near(values(y), p.naive(algebra)));
      }
  const int64_t square[2] = {2, 2}, negative[2] = {2, -2};
  const int64_t *const shapes[2] = {square, square}, *const bad[2] = {square, negative};
  const size_t ndims[2] = {2, 2};
  Own plan, y;
  const auto make = [&](const char* equation, const int64_t* const* s, const char* path) {
    return gradus_plan_equation(equation, s, ndims, 2, path, 0, plan.out());
  };
  refused_with(make("ij,jk", shapes, "gredy"), GRADUS_VALUE, "did you mean \"greedy\"?");
  refused(make("ij,jk", bad, nullptr), GRADUS_SHAPE, "shape: negative size in (2, -2)");
  refused(make("ij,jk", nullptr, nullptr), GRADUS_NULL, "gradus_plan_equation: shapes is NULL");
  refused(make(nullptr, shapes, nullptr), GRADUS_NULL, "gradus_plan_equation: equation is NULL");
  ok(make("ij,jk", shapes, nullptr));
  const Own small = tensor({1, 2, 3, 4}, {2, 2}), large = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  const gradus_tensor in[2] = {small, large};
  refused_with(gradus_plan_execute(plan, in, 2, y.out()), GRADUS_SHAPE, "(2, 3)");
  refused_with(gradus_plan_execute(plan, in, 1, y.out()), GRADUS_VALUE, "einsum: ");
  gradus_tensor grads[2] = {77, 77};
  refused_with(gradus_plan_vjp(plan, in, 2, small, -1, grads), GRADUS_SHAPE, "(2, 3)");
  CHECK((grads[0] == 77 && grads[1] == 77));
  refused(gradus_plan_describe(small, nullptr), GRADUS_HANDLE,
          "gradus_plan_describe: handle: expected the handle of a plan, got that of a tensor");
}

}  // namespace c_door
