// Numbers at the edge, op by op, where the op table cannot draw: whole-number attributes, what u8
// cannot hold, masks of the first axes, NaN and infinity in values and slopes of both orders, and
// shapes that PyTorch takes. Expected numbers are PyTorch 2.15's unless SEMANTICS.md says
// otherwise.
#include "ops/transforms/func.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/not_finite.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

constexpr double kTenth = 0.1;

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

Tensor u8(std::initializer_list<int64_t> v) { return cast(i64(v, {int64_t(v.size())}), DType::u8); }
bool same(double a, double b) {
  return std::isnan(a)                    ? std::isnan(b)
         : std::isinf(a) || std::isinf(b) ? a == b
                                          : std::abs(a - b) <= 1e-9;
}
void expect(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK_MESSAGE(same(got[i], want[i]), i, ": ", got[i]);
}

// f's value, slopes and Hessian at a point, row by row.
struct Derivatives {
  std::vector<double> slopes, hessian;
};
template <class F>
Derivatives derivatives(F&& f, const std::vector<double>& at) {
  Tensors x;
  for (double v : at) x.push_back(leaf(f64({v}, {})));
  Derivatives d;
  const Tensors by = grad({f(x)}, x, {}, {.create_graph = true});
  for (const Tensor& slope : by) {
    d.slopes.push_back(slope.item());
    for (const Tensor& input : x) {
      Tensor second;
      if (slope.requires_grad())
        second = grad({slope}, {input}, {}, {.retain_graph = true, .allow_unused = true})[0];
      d.hessian.push_back(second.defined() ? second.item() : 0);
    }
  }
  return d;
}

}  // namespace

TEST_CASE("numbers: whole attributes leave integers integers, exact beyond what f32 holds") {
  const Tensor x = i64({33554433}, {1}), one = i64({1}, {1}), m = i64({33554433}, {1, 1}),
               eye = i64({1}, {1, 1}), stack = i64({1}, {1, 1, 1});
  const auto is = [](const Tensor& y, int64_t want) {
    CHECK(y.dtype() == DType::i64);
    CHECK(reshape(y, {1}).to_vector<int64_t>()[0] == want);
  };
  is(rsub(x, one, 2), 1 - 2 * 33554433);
  is(addcmul(x, x, one, 2), 3 * 33554433);
  is(addmm(m, eye, eye, 2, 1), 67108867);
  is(addmm(m, m, eye, 1, 3), 4 * 33554433);
  is(addmv(x, m, one, 2, 2), 4 * 33554433);
  is(addr(m, x, one, 2, 2), 4 * 33554433);
  is(baddbmm(stack, reshape(m, {1, 1, 1}), stack, 2, 2), 2 + 2 * 33554433);
  is(addbmm(m, reshape(m, {1, 1, 1}), stack, 2, 2), 4 * 33554433);
  is(index_add(x, 0, i64({0}, {1}), x, 2), 3 * 33554433);
  // Products have the dtype of all three.
  const Tensor bytes = cast(i64({200}, {1}), DType::u8), zero = Tensor::zeros({1}, DType::f32);
  CHECK(addcmul(zero, bytes, bytes).item() == 40000);
  CHECK(addcmul(Tensor::zeros({1}, DType::f64), Tensor::full({1}, 300.0, DType::f16), Tensor(300.0))
            .item() == 90000);
  // A fraction still makes them real; of bool a whole number makes integers.
  CHECK(addmm(m, eye, eye, 1, 0.5).dtype() == DType::f32);
  CHECK(rsub(cast(one, DType::bool_), cast(one, DType::bool_), 2).dtype() == DType::i64);
}

TEST_CASE(
    "numbers: what an integer dtype cannot hold is refused, and compared as the number it is") {
  const Tensor x = u8({1, 2, 250});
  const std::string words =
      "the number 300 does not fit into u8 (0 to 255); cast the tensor to i64 first";
  CHECK(error_of([&] { add(x, int64_t(300)); }) == "add: " + words);
  CHECK(error_of([&] { mul(int64_t(300), x); }) == "mul: " + words);
  CHECK(error_of([&] { where(gt(x, int64_t(1)), x, int64_t(300)); }) == "where: " + words);
  CHECK(error_of([&] { masked_fill(x, gt(x, int64_t(1)), int64_t(300)); }) ==
        "masked_fill: " + words);
  CHECK(error_of([&] { fill_(clone(x), int64_t(300)); }) == "fill_: " + words);
  CHECK(error_of([&] { pad(x, {1, 1}, 300); }) == "pad: " + words);
  CHECK(error_of([&] { full({2}, 300, DType::u8); }) == "full: " + words);
  CHECK(error_of([&] { threshold(x, 3, 300); }) == "threshold: " + words);
  CHECK(error_of([&] { sub(x, int64_t(-1)); }).find("the number -1 does not fit into u8") == 5);
  CHECK(error_of([&] { add(cast(x, DType::i32), int64_t(1) << 40); }).find("into i32;") !=
        std::string::npos);
  CHECK(error_of([&] { full({2}, kNaN, DType::i64); }).find("cast the tensor to f64") !=
        std::string::npos);
  CHECK(values(lt(x, int64_t(300))) == std::vector<double>{1, 1, 1});
  CHECK(values(eq(x, int64_t(300 - 256))) == std::vector<double>{0, 0, 0});
  CHECK(values(gt(x, int64_t(-1))) == std::vector<double>{1, 1, 1});
  // Bounds hold nothing where they lie outside, and all int64 are numbers of i64.
  CHECK(values(clamp(x, -1, 300)) == std::vector<double>{1, 2, 250});
  CHECK(add(i64({-1}, {1}), INT64_MAX).to_vector<int64_t>()[0] == INT64_MAX - 1);
}

TEST_CASE("numbers: a mask picks from the first axes, in reads and in writes") {
  const Tensor x = f64({0, 1, 2, 3, 4, 5, 6, 7, 8}, {3, 3});
  const Tensor mask = ne(i64({1, 0, 1}, {3}), int64_t(0));
  CHECK(values(index(x, {mask})) == std::vector<double>{0, 1, 2, 6, 7, 8});
  CHECK(index(x, {mask}).sizes() == Shape{2, 3});
  const Tensor y = index_put(x, {mask}, f64({-1, -2, -3}, {3}), false);
  CHECK(values(y) == std::vector<double>{-1, -2, -3, 3, 4, 5, -1, -2, -3});
  CHECK(error_of([&] {
          index(x, {ne(i64({1, 0}, {2}), int64_t(0))});
        }) == "index: a mask of shape (2,) does not fit x (3, 3)");
}

TEST_CASE("numbers: minus 0 of 0 on every device, element by element") {
  on_each_device([] {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::c64}) {
      const Tensor y = neg(Tensor::zeros({37}, dtype));
      const Tensor parts = is_complex(dtype) ? cat({real(y), imag(y)}) : y;
      CHECK(values(all(signbit(parts))) == std::vector<double>{1});
      CHECK(values(any(signbit(neg(parts)))) == std::vector<double>{0});
    }
  });
}

TEST_CASE("numbers: where a function in pieces is NaN so is its slope, however it is read") {
  struct Named {
    const char* name;
    Unary f;
  };
  const std::vector<Named> family = {
      {"relu", relu},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
      {"abs", abs},
      {"clamp", [](const Tensor& x) { return clamp(x, -1, 1); }},
      {"clamp below", [](const Tensor& x) { return clamp(x, 0, kInf); }},
      {"clamp_tensor", [](const Tensor& x) { return clamp(x, f64({0}, {1}), Tensor()); }},
      {"hardtanh", [](const Tensor& x) { return hardtanh(x); }},
      {"relu6", relu6},
      {"hardsigmoid", hardsigmoid},
      {"hardswish", hardswish},
      {"softshrink", [](const Tensor& x) { return softshrink(x); }},
      {"hardshrink", [](const Tensor& x) { return hardshrink(x); }},
      {"threshold", [](const Tensor& x) { return threshold(x, 0, 1); }},
      {"elu", [](const Tensor& x) { return elu(x); }},
      {"celu", [](const Tensor& x) { return celu(x); }},
      {"selu", selu},
      {"logit", [](const Tensor& x) { return logit(x, 0.1); }},
      {"maximum", [](const Tensor& x) { return maximum(x, f64({0}, {1})); }},
      {"maximum b", [](const Tensor& x) { return maximum(f64({0}, {1}), x); }},
      {"minimum", [](const Tensor& x) { return minimum(x, f64({0}, {1})); }},
      {"fmax", [](const Tensor& x) { return fmax(x, f64({kNaN}, {1})); }},
      {"fmin", [](const Tensor& x) { return fmin(f64({kNaN}, {1}), x); }},
      {"copysign", [](const Tensor& x) { return copysign(x, f64({1}, {1})); }}};
  on_each_device([&] {
    for (const Named& n : family)
      for (const bool traced : {false, true}) {
        CAPTURE(n.name);
        CAPTURE(traced);
        const Tensor x = leaf(f64({kNaN, 0.5}, {2}));
        const Tensor y = n.f(x), g = grad({sum(y)}, {x}, {}, {.create_graph = traced})[0];
        CHECK(std::isnan(values(y)[0]));
        CHECK(std::isnan(values(g)[0]));
        CHECK_FALSE(std::isnan(values(g)[1]));
      }
    // A number wins over NaN: it has the slope, and the NaN has none.
    const Tensor x = leaf(f64({kNaN, 1}, {2})), one = f64({1, kNaN}, {2});
    expect(values(grad({sum(fmax(x, one))}, {x})[0]), {0, 1});
    expect(values(grad({sum(fmin(one, x))}, {x})[0]), {0, 1});
  });
}

TEST_CASE("numbers: clamp of 16-bit floats has its slope by x, whatever its bounds round to") {
  on_each_device([] {
    for (const DType t : {DType::f16, DType::bf16}) {
      const Tensor x = leaf(cast(f64({5, 0.05, -4}, {3}), t));
      expect(values(grad({sum(clamp(x, -0.1, 0.1))}, {x})[0]), {0, 1, 0});
      expect(values(grad({sum(hardtanh(x, -0.1, 0.1))}, {x})[0]), {0, 1, 0});
      expect(values(grad({sum(clamp(x, 0.1, kInf))}, {x})[0]), {1, 0, 0});
      expect(values(grad({sum(clamp(x, -kInf, -kInf))}, {x})[0]), {0, 0, 0});
    }
  });
}

TEST_CASE("numbers: std of equal elements has no slope of any order") {
  const auto spread = [](const Tensors& x) {
    return gradus::std(cat({reshape(x[0], {1}), reshape(x[1], {1})}, 0));
  };
  const Derivatives d = derivatives(spread, {1, 1});
  expect(d.slopes, {0, 0});
  expect(d.hessian, {0, 0, 0, 0});
}

TEST_CASE("numbers: a mask without axes is refused") {
  const Tensor x = f64({1, 2}, {2}), no = Tensor::from(std::vector<uint8_t>{0}, {});
  CHECK(gradus::testing::error_of([&] { index(x, {cast(no, DType::bool_)}); }) ==
        "index: a mask needs an axis, this one is 0-d; unsqueeze x and the mask, or use where");
}

TEST_CASE("numbers: ties and bounds of clamp_tensor, fmax and fmin; a NaN bound is not dropped") {
  const Tensor x = leaf(f64({1, 1, 0, 2}, {4})), low = leaf(f64({1, kNaN, 1, 1}, {4}));
  const Tensor y = clamp(x, low, Tensor());
  expect(values(y), {1, kNaN, 1, 2});
  const Tensors d = grad({sum(y)}, {x, low});
  expect(values(d[0]), {0.5, kNaN, 0, 1});
  expect(values(d[1]), {0.5, kNaN, 1, 0});
  expect(values(clamp(x, Tensor(), low)), {1, kNaN, 0, 1});
  CHECK(clamp(f64({5}, {1}), f64({3}, {1}), f64({2}, {1})).item() == 2);  // max wins
  for (const Binary f : {Binary(fmax), Binary(fmin)}) {
    const Derivatives t = derivatives([&](const Tensors& in) { return f(in[0], in[1]); }, {2, 2});
    expect(t.slopes, {0.5, 0.5});
    expect(t.hessian, {0, 0, 0, 0});
  }
}

TEST_CASE("numbers: norms of negative order of infinities") {
  for (const double p : {-1.0, -2.0, -0.5}) {
    CHECK(norm(f64({kInf, kInf}, {2}), p).item() == kInf);
    CHECK(norm(f64({0, kInf}, {2}), p).item() == 0);
    const Tensor x = leaf(f64({kInf, 2}, {2}));
    const Tensor y = norm(x, p);
    CHECK(y.item() == doctest::Approx(2));
    expect(values(grad({y}, {x})[0]), {0, 1});
  }
}

TEST_CASE("numbers: rests of 7 by a tenth belong to 69 turns, in value and slope") {
  on_each_device([] {
    const auto by = [](Binary f, double a) {
      return derivatives([&](const Tensors& x) { return f(x[0], x[1]); }, {a, kTenth});
    };
    expect(by(remainder, 7).slopes, {1, -69});
    expect(by(remainder, -7).slopes, {1, 70});
    expect(by(fmod, 7).slopes, {1, -69});
    expect(by(remainder, 7).hessian, {0, 0, 0, 0});
    const Tensor b = leaf(f64({kTenth, kTenth}, {2}));
    expect(values(grad({sum(fmod(f64({7, -7}, {2}), b))}, {b})[0]), {-69, 69});
  });
}

TEST_CASE("numbers: binary_cross_entropy of a prediction that is wrong altogether") {
  const Tensor x = leaf(f64({0, 1, 0, 1, 0.25}, {5})), t = f64({1, 0, 0, 1, 1}, {5});
  const Tensor y = binary_cross_entropy(x, t, "none");
  expect(values(y), {100, 100, 0, 0, std::log(4)});
  const Tensor g = grad({sum(y)}, {x}, {}, {.create_graph = true})[0];
  CHECK(close(values(g), {-1e12, 1e12, 1, -1, -4}));
  CHECK(close(values(grad({sum(g)}, {x})[0]), {0, 0, 1, 1, 16}));
}

TEST_CASE("numbers: kl_div at a target of 0 has the slope of its limit") {
  const Tensor x = leaf(f64({-1, -1}, {2})), t = leaf(f64({0, 0.5}, {2}));
  const Tensor y = kl_div(x, t, "none");
  expect(values(y), {0, 0.5 * std::log(0.5) + 0.5});
  const Tensors d = grad({sum(y)}, {x, t});
  expect(values(d[0]), {0, -0.5});
  expect(values(d[1]), {-kInf, std::log(0.5) + 2});
}

TEST_CASE("numbers: Hessians where a function of two has no slope") {
  const auto at = [](Binary f, double a, double b) {
    return derivatives([&](const Tensors& x) { return f(x[0], x[1]); }, {a, b});
  };
  const std::vector<double> none{0, 0}, flat{0, 0, 0, 0};
  struct Point {
    Binary f;
    double a, b;
  };
  for (const Point& p :
       {Point{hypot, 0, 0}, {atan2, 0, 0}, {xlogy, 0, 0}, {xlogy, 0, -1}, {xlog1py, 0, -1}}) {
    CAPTURE(p.a);
    CAPTURE(p.b);
    expect(at(p.f, p.a, p.b).slopes, none);
    expect(at(p.f, p.a, p.b).hessian, flat);
  }
  expect(at(pow, 0, 0).slopes, none);
  expect(at(pow, 0, 0).hessian, flat);
  expect(at(pow, kNaN, 0).slopes, {0, kNaN});
  expect(at(pow, -kInf, 0.5).slopes, {0, kNaN});
  expect(at(xlogy, 0, 2).hessian, {0, 0.5, 0.5, 0});
  // Two equal infinities share as two equal numbers do.
  for (const double v : {kInf, -kInf}) {
    expect(at(logaddexp, v, v).slopes, {0.5, 0.5});
    expect(at(logaddexp2, v, v).slopes, {0.5, 0.5});
  }
}

TEST_CASE("numbers: roots and logarithms at the ends, on each device") {
  on_each_device([] {
    CHECK(pow(f64({-kInf}, {1}), 0.5).item() == kInf);
    CHECK(pow(f32({-float(kInf)}, {1}), 0.5).item() == kInf);
    for (const DType dtype : {DType::c64, DType::c128})
      for (const Unary f : {Unary(log), Unary(log2), Unary(log10)}) {
        const std::complex<double> y = f(Tensor::zeros({1}, dtype)).item_complex();
        CHECK(y.real() == -kInf);
        CHECK(y.imag() == 0);
      }
  });
}

TEST_CASE("numbers: logsumexp of complex numbers") {
  const Tensor x = Tensor::from(std::vector<c128>{{1000, 2}, {1002, -1}}, {2});
  const std::complex<double> y = logsumexp(x, {0}).item_complex();
  const std::complex<double> want =
      1002.0 + std::log(std::polar(std::exp(-2), 2.0) + std::polar(1.0, -1.0));
  CHECK(std::abs(y - want) < 1e-12);
}

TEST_CASE("shapes: what gaussian_nll_loss broadcasts") {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {2, 3}), zero = zeros({3}, DType::f64);
  const auto loss = [&](const Tensor& t, const Tensor& var) {
    return gaussian_nll_loss(x, t, var, false, 1e-6, "none");
  };
  const Tensor rows = f64({2, 4}, {2}), whole = expand(unsqueeze(rows, 1), {2, 3});
  CHECK(close(values(loss(zero, whole)), values(loss(expand(zero, {2, 3}), whole))));
  CHECK(close(values(loss(zero, rows)), values(loss(zero, whole))));
  CHECK(close(values(loss(zero, unsqueeze(rows, 1))), values(loss(zero, whole))));
  CHECK(loss(zero, f64({1, 2, 3}, {1, 3})).sizes() == Shape{2, 3});
  CHECK(gaussian_nll_loss(f64({1, 2, 3}, {3}), zero, f64({2}, {}), false, 1e-6, "none").sizes() ==
        Shape{3});
  CHECK(error_of([&] { loss(zero, f64({1, 2, 3, 4}, {4})); }).find("gaussian_nll_loss: ") == 0);
}

TEST_CASE("shapes: take_along_dim counts negative indices from the end") {
  const Tensor x = f64({0, 1, 2, 3, 4, 5}, {2, 3});
  CHECK(values(take_along_dim(x, i64({-1, -2}, {2, 1}), 1)) == std::vector<double>{2, 4});
  CHECK(values(take_along_dim(x, i64({-1, 0, -6}, {3}))) == std::vector<double>{5, 0, 0});
  CHECK(error_of([&] { take_along_dim(x, i64({-4, 0}, {2, 1}), 1); }) != "");
  CHECK(error_of([&] {
          take_along_dim(x, f64({0, 0}, {2, 1}), 1);
        }) == "take_along_dim: the index is f64, expected i64 or i32");
}

TEST_CASE("shapes: cat passes over tensors of shape (0,)") {
  const Tensor x = leaf(f64({1, 2, 3, 4}, {2, 2})), none = leaf(Tensor::zeros({0}, DType::f64));
  for (const int64_t dim : {0, 1, -1}) {
    const Tensor y = cat({none, x, none, x}, dim);
    CHECK(y.sizes() == (dim == 0 ? Shape{4, 2} : Shape{2, 4}));
    const Tensors d = grad({sum(mul(y, y))}, {x, none}, {}, {.allow_unused = true});
    CHECK(values(d[0]) == std::vector<double>{4, 8, 12, 16});
  }
  CHECK(cat({none, none}, 1).sizes() == Shape{0});
  CHECK(cat({none, f64({1}, {1})}).requires_grad());
  CHECK(cat({Tensor::zeros({0}, DType::f64), f32({1, 2}, {1, 2})}).dtype() == DType::f64);
  CHECK(error_of([&] {
          cat({x, Tensor::zeros({0, 3}, DType::f64)});
        }) == "cat: tensor 1 has shape (0, 3), tensor 0 (2, 2); they may differ on axis 0 only");
}

TEST_CASE("shapes: one sample of multi_margin_loss, its axis on either side") {
  const Tensor x = f64({0, 1, 2, 3}, {4}), one = i64({1}, {}), in_line = i64({1}, {1});
  for (const Tensor& target : {one, in_line}) {
    CHECK(multi_margin_loss(x, target).item() == 1.25);
    CHECK(multi_margin_loss(unsqueeze(x, 0), target).item() == 1.25);
    CHECK(multi_margin_loss(x, target, 1, 1, "none").sizes() == target.sizes());
  }
  CHECK(multi_margin_loss(f64({4}, {}), i64({0}, {})).item() == 0);  // one class, and no other
  CHECK(multi_margin_loss(x, in_line, 1, 1, "mean", f64({1, 2, 3, 4}, {4})).item() == 2.5);
}

TEST_CASE("shapes: batch_norm of nothing trains nothing") {
  for (const Shape& sizes : {Shape{0, 3}, Shape{2, 3, 0}}) {
    const Tensor x = leaf(Tensor::zeros(sizes, DType::f64)), mean = f64({1, 1, 1}, {3}),
                 var = f64({2, 2, 2}, {3}), weight = leaf(f64({1, 1, 1}, {3}));
    const Tensor y = batch_norm(x, mean, var, weight, {}, true);
    CHECK(y.sizes() == sizes);
    CHECK(values(mean) == std::vector<double>{1, 1, 1});
    CHECK(values(var) == std::vector<double>{2, 2, 2});
    const Tensors d = grad({sum(y)}, {x, weight});
    CHECK(d[0].sizes() == sizes);
    CHECK(values(d[1]) == std::vector<double>{0, 0, 0});
  }
  CHECK(batch_norm(Tensor::zeros({2, 0, 4}, DType::f64), {}, {}, {}, {}, true).sizes() ==
        Shape{2, 0, 4});
}

TEST_CASE("shapes: pools take padding up to half of the window as it spans") {
  const Tensor x = ones({1, 1, 5, 5}, DType::f64);
  CHECK(avg_pool2d(x, {3}, {1}, {1}).sizes() == Shape{1, 1, 5, 5});
  CHECK(error_of([&] { avg_pool2d(x, {3}, {1}, {2}); }) ==
        "avg_pool2d: padding is 2, more than half of a window of 3");
  CHECK(max_pool2d(x, {3}, {1}, {2}, {2}).sizes() == Shape{1, 1, 5, 5});
}

TEST_CASE("numbers: a Wirtinger slope has its operand's dtype, whatever slope was read before") {
  const auto complex = [](DType t) {
    return leaf(cast(Tensor::from(std::vector{c128{0.3, 2}, c128{-1, 0.5}}, {2}), t));
  };
  const Tensor wide = complex(DType::c128), narrow = complex(DType::c64);
  grad({sum(real(exp(wide)))}, {wide}, {}, {.create_graph = true});
  const Tensor g = grad({sum(real(sgn(narrow)))}, {narrow})[0];
  CHECK(g.dtype() == DType::c64);
}
