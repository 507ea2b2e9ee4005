// Writes in place that autograd knows of: values, versions, histories through views, refusals.
#include "tests/helpers/helpers.hpp"
#include "engine/forward.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {
// d(sum of f)/dx by central differences; f may write into what it makes of x.
std::vector<double> differences(const std::function<Tensor(const Tensor&)>& f,
                                const std::vector<double>& x, const Shape& sizes) {
  std::vector<double> slopes;
  for (size_t i = 0; i < x.size(); ++i) {
    double side[2];
    for (const int s : {0, 1}) {
      std::vector<double> moved = x;
      moved[i] += s ? 1e-5 : -1e-5;
      side[s] = sum(f(Tensor::from(moved, sizes))).item();
    }
    slopes.push_back((side[1] - side[0]) / 2e-5);
  }
  return slopes;
}

// By reverse mode, by reverse over a forward tangent, and against differences.
void check_slopes(const std::function<Tensor(const Tensor&)>& f, const std::vector<double>& x,
                  const Shape& sizes) {
  const std::vector<double> expected = differences(f, x, sizes);
  const Tensor leaf_x = leaf(Tensor::from(x, sizes));
  backward(sum(f(leaf_x)));
  const std::vector<double> got = values(leaf_x.grad());
  for (size_t i = 0; i < x.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-7));

  std::vector<double> direction(x.size());
  double slope = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    direction[i] = 0.3 + 0.1 * double(i);
    slope += direction[i] * expected[i];
  }
  ForwardLevel level;
  const Tensor dual = Tensor::from(x, sizes);
  level.set_tangent(dual, Tensor::from(direction, sizes));
  const Tensor y = sum(f(dual));
  REQUIRE(y.tangent().defined());
  CHECK(y.tangent().item() == doctest::Approx(slope).epsilon(1e-7));
}
}  // namespace

TEST_CASE("in place: the op out of place, then x takes its values and history") {
  Tensor x = f64({1, 2, 3}, {3});
  CHECK(values(add_(x, 1.0)) == std::vector<double>{2, 3, 4});
  CHECK(x.version() == 1);
  x *= x;
  CHECK(values(x) == std::vector<double>{4, 9, 16});
  CHECK(values(relu_(sub_(x, 5.0))) == std::vector<double>{0, 4, 11});
  CHECK(values(clamp_(x, 1, 9)) == std::vector<double>{1, 4, 9});
  CHECK(values(sqrt_(x)) == std::vector<double>{1, 2, 3});
  CHECK(values(in_place("softmax", x, {}, {0})).size() == 3);
  CHECK(values(zero_(x)) == std::vector<double>{0, 0, 0});
  CHECK(values(fill_(x, 2.5)) == std::vector<double>{2.5, 2.5, 2.5});
}

TEST_CASE("in place on tensors with history: gradients of every kind of write") {
  const std::vector<double> x{0.5, -1.2, 2, 0.3, 1.1, -0.7};
  using F = std::function<Tensor(const Tensor&)>;
  const F cases[] = {
      [](const Tensor& t) { return mul_(t * 2.0, t); },
      [](const Tensor& t) {  // its own old value is kept for the derivative
        Tensor h = t * 1.5;
        return h *= h;
      },
      [](const Tensor& t) { return exp_(sin_(t * 1.0)); },
      [](const Tensor& t) {  // a row of the base
        const Tensor h = t * 2.0;
        mul_(select(h, 0, 1), 3.0);
        return square(h);
      },
      [](const Tensor& t) {  // views made before the write see it
        const Tensor h = square(t), row = select(h, 0, 0), column = select(h, 1, 2);
        add_(row, exp(select(t, 0, 1)));
        return sum(row * row) * column;
      },
      [](const Tensor& t) {  // a view of a view, reversed
        const Tensor h = t * t, part = slice(flip(transpose(h, 0, 1), {0}), 0, 0, 2);
        sin_(part);
        return h * h;
      },
      [](const Tensor& t) {  // writes into a base that had no history
        const Tensor into = f64({1, 1, 1, 1}, {2, 2});
        const Tensor before = select(into, 0, 1);
        copy_(select(into, 0, 1), slice(select(t, 0, 0), 0, 0, 2));
        return into * into + before;
      },
      [](const Tensor& t) {  // overwritten parts lose their gradient, the others keep it
        const Tensor h = t * 2.0;
        fill_(select(h, 1, 0), 7.0);
        return h * h;
      },
      [](const Tensor& t) {  // all of it overwritten
        const Tensor h = t * 2.0;
        zero_(h);
        return h + t;
      },
      [](const Tensor& t) {
        const Tensor h = exp(t);
        copy_(h, sum(t));
        return h * t;
      },
  };
  for (const F& f : cases) {
    const F whole = [&](const Tensor& t) {
      const Tensor y = f(t);
      return y.rank() == 2 ? y : sum(y) + sum(t) * 0.0;
    };
    INFO("case ", &f - cases);
    check_slopes(whole, x, {2, 3});
  }
}

TEST_CASE("in place through views that expand or overlap") {
  const Tensor x = leaf(f64({1, 2, 3}, {3}));
  const Tensor h = x * 2.0;
  const Tensor wide = expand(h, {2, 3});
  mul_(h, h);  // the expanded view follows: 2 * 4x^2
  backward(sum(wide));
  CHECK(values(x.grad()) == std::vector<double>{16, 32, 48});
  CHECK(error_of([&] { add_(wide, 1.0); }) ==
        "add_: the tensor written to overlaps itself (an axis is expanded, or windows overlap); "
        "clone() it first");
}

TEST_CASE("in place: a tangent that views its own tensor, which was written, is refused") {
  const Tensor w = leaf(f64({2, 2}, {2}));
  const Tensor h = f64({1, 3}, {2}) * w;
  const Tensor first = select(h, 0, 0), all = permute(h, {0});
  ForwardLevel level;
  mul_(h, w);
  level.set_tangent(h, all);  // which has not followed h yet
  CHECK(error_of([&] { sum(first); }) ==
        "mul_: a tangent is a view of the tensor that has it, which was written in place; give it "
        "a clone()");
}

TEST_CASE("in place: second order and create_graph through a write") {
  const Tensor x = leaf(f64({0.4, 1.3}, {2}));
  const Tensor h = x * x;
  mul_(select(h, 0, 1), select(x, 0, 0));  // (x0^2, x0 x1^2)
  const Tensor g = grad({sum(h * h)}, {x}, {}, {.create_graph = true})[0];
  const double a = 0.4, b = 1.3;  // x0^4 + x0^2 x1^4
  CHECK(close(values(g), {4 * a * a * a + 2 * a * b * b * b * b, 4 * a * a * b * b * b}));
  backward(sum(g));
  CHECK(close(values(x.grad()), {12 * a * a + 2 * b * b * b * b + 8 * a * b * b * b,
                                 8 * a * b * b * b + 12 * a * a * b * b}));
}

TEST_CASE("in place: refusals, in words, before anything is written") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  CHECK(error_of([&] { add_(x, 1.0); }) ==
        "add_: a leaf that requires a gradient is written in place; do it under no_grad, or work "
        "on a "
        "clone()");
  CHECK(
      error_of([&] { zero_(select(x, 0, 0)); }) ==
      "fill_: a view of a leaf that requires a gradient is written in place; do it under no_grad, "
      "or work on a clone()");
  const Tensor h = x * 2.0;
  CHECK(error_of([&] {
          add_(h, f64({1, 2, 3, 4}, {2, 2}));
        }) == "add_: the result has shape (2, 2), the tensor written to (2,)");
  const Tensor whole = Tensor::full_integer({2}, 1, DType::i64);
  CHECK(error_of([&] { add_(whole, 0.5); }) ==
        "add_: the result is f32, which can't be written into i64");
  Tensor blind;
  {
    NoGrad off;
    blind = select(h, 0, 0);
  }
  CHECK(
      error_of([&] { add_(blind, 1.0); }) ==
      "add_: a view made under no_grad is written in place while recording; make the view anew, or "
      "write under no_grad");
  {
    NoGrad off;
    add_(blind, 1.0);
  }
  CHECK(values(h) == std::vector<double>{3, 4});
  const Tensor turned = clone(transpose(f64({1, 2, 3, 4}, {2, 2}), 0, 1));
  CHECK(error_of([&] { mul_(select(turned, 0, 0), select(h, 0, 0)); }).find("is not row-major") !=
        std::string::npos);
  CHECK(error_of([&] { Tensor(select(h, 0, 0)).detach_(); }) ==
        "detach_: a view can't be detached in place; use detach()");
}

TEST_CASE("in place on a tensor that is not row-major: right or refused, never another element") {
  const Tensor x = leaf(f64({1, 2, 3, 4, 5, 6}, {2, 3}));
  const Tensor h = clone(transpose(x * 2.0, 0, 1)), row = select(h, 0, 1);
  mul_(h, f64({1, 2, 3, 4, 5, 6}, {3, 2}));
  CHECK(error_of([&] { sum(row); }) ==
        "mul_: the tensor behind this view is not row-major ((1, 3) for (3, 2)); contiguous() it "
        "before the view is taken");
  backward(sum(h));
  CHECK(values(x.grad()) == std::vector<double>{2, 6, 10, 4, 8, 12});
  const Tensor z = leaf(f64({1, 2, 3, 4}, {2, 2})), k = clone(transpose(z * 2.0, 0, 1));
  zero_(k);
  backward(sum(k + z));
  CHECK(values(z.grad()) == std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("views made under no_grad, and leaves that are views, refuse what they would miss") {
  const std::string frozen =
      ": a view made under no_grad is written in place while recording; make the view anew, or "
      "write under no_grad";
  const Tensor x = leaf(f64({1, 2}, {2})), h = x * 2.0;
  Tensor view;
  {
    const NoGrad off;
    view = slice(h, 0, 0, 1);
  }
  CHECK(error_of([&] { zero_(view); }) == "fill_" + frozen);
  CHECK(error_of([&] { zero_(slice(view, 0, 0, 1)); }) == "fill_" + frozen);
  CHECK(values(h) == std::vector<double>{2, 4});
  mul_(h, 3.0);
  CHECK(error_of([&] { view * 1.0; }) ==
        "mul_: a view made under no_grad is used after its base was written in place while "
        "recording; make the view anew, or write under no_grad");
  {
    const NoGrad off;
    CHECK(values(view * 1.0) == std::vector<double>{6});
  }
  {
    const Tensor plain = f64({1, 2}, {2}), dual = f64({5}, {1});
    const NoGrad off;
    const Tensor part = slice(plain, 0, 0, 1);
    ForwardLevel level;
    level.set_tangent(dual, f64({1}, {1}));
    CHECK(error_of([&] { copy_(part, dual); }) == "copy_" + frozen);
  }
  const Tensor base = f64({1, 2}, {2});
  Tensor inner = slice(base, 0, 0, 1);
  inner.set_requires_grad();
  copy_(base, x);
  CHECK(error_of([&] { inner * 3.0; }) ==
        "copy_: a leaf that requires a gradient is a view, and its base was written in place; make "
        "the leaf a clone()");
}

TEST_CASE("what was saved before a write is an error at use, through views and detach too") {
  for (const int way : {0, 1, 2}) {
    const Tensor x = leaf(f64({1, 2}, {2}));
    const Tensor h = x * 2.0;
    const Tensor y = sum(square(h));
    if (way == 0) add_(h, 1.0);
    if (way == 1) add_(select(h, 0, 0), 1.0);
    if (way == 2) add_(h.detach(), 1.0);
    CHECK(error_of([&] { backward(y); }) ==
          "square: saved input 0 (2,) was changed by add_ after it was saved (version 0 -> 1); "
          "clone() "
          "it before the write, or use an op that returns a new tensor");
  }
  // An op that saved its output: relu is not disturbed by its input, exp is by its output.
  const Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor h = x * 1.0, r = relu(h);
  add_(h, 1.0);
  backward(sum(r));
  CHECK(values(x.grad()) == std::vector<double>{1, 1});
  const Tensor e = exp(x);
  mul_(e, 2.0);
  CHECK(error_of([&] { backward(sum(e)); }).find("exp: saved output 0 (2,) was changed by mul_") ==
        0);
}

TEST_CASE("clones and the tensors they came from are written apart") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor a = x * 2.0, b = clone(a);
  mul_(b, 10.0);
  CHECK(values(a) == std::vector<double>{2, 4});
  CHECK(values(b) == std::vector<double>{20, 40});
  backward(sum(a * b));  // 2x * 20x
  CHECK(values(x.grad()) == std::vector<double>{80, 160});
}

TEST_CASE("detach_ forgets the history, and what was saved keeps it") {
  const Tensor x = leaf(f64({3}, {}));
  Tensor h = x * 2.0;
  const Tensor y = h * h;
  h.detach_();
  CHECK(h.is_leaf());
  CHECK_FALSE(h.requires_grad());
  const Tensor g = grad({y}, {x}, {}, {.create_graph = true})[0];  // 8 x
  CHECK(g.item() == 24);
  CHECK(grad({g}, {x})[0].item() == 8);
}

TEST_CASE("in place frees what it should") {
  const int64_t before = live_objects();
  {
    const Tensor x = leaf(f64({1, 2, 3, 4}, {2, 2}));
    Tensor h = x * 2.0;
    const Tensor view = select(h, 0, 1);
    for (int i = 0; i < 10; ++i) {
      mul_(h, 1.01);
      add_(view, 1.0);
    }
    backward(sum(h));
  }
  CHECK(live_objects() == before);
}

TEST_CASE("a number can't be written in place; retain_grad follows a write") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  Tensor total = 0.0;
  CHECK(error_of([&] { total += sum(x); }) ==
        "add_: a number can't be written in place; write x = x + y, or make a tensor with "
        "Tensor::full({}, ...)");
  const Tensor h = x * 2.0, part = slice(h, 0, 0, 1);
  h.retain_grad();
  part.retain_grad();
  mul_(h, 3.0);
  backward(sum(h * 5.0) + sum(part));
  CHECK(values(h.grad()) == std::vector<double>{6, 5});
  CHECK(values(part.grad()) == std::vector<double>{1});
}
