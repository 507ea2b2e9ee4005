// The slot normalize of the cpu device: values, given statistics and cotangents against loops in
// long double, in every layout, on every instruction set; long lines, numbers far from 0, refusals.
#include "tests/helpers/cpu_device.hpp"
#include "ops/def/normalize.h"

using namespace cpu_test;

namespace {

// Sizes of x; a mean has size 1 where the axis is normalised.
struct Shapes {
  Index x, mean;
};
const Shapes kShapes[] = {{{5, 37}, {5, 1}},
                          {{70, 9}, {1, 9}},
                          {{3, 67, 5, 2}, {1, 67, 1, 1}},
                          {{2, 3, 33, 4}, {2, 3, 1, 1}},
                          {{1100, 3}, {1, 3}},
                          {{2, 2100}, {2, 1}},
                          {{3, 5, 800, 2}, {1, 5, 1, 1}},
                          {{4, 1, 6}, {1, 1, 1}},
                          {{}, {}},
                          {{3, 4}, {3, 4}},
                          {{2, 150, 40}, {1, 1, 40}},
                          {{35, 1100}, {1, 1100}}};

Index of_mean(const Index& i, const Shapes& s) {
  Index at = i;
  for (size_t d = 0; d < at.size(); ++d)
    if (s.mean[d] == 1) at[d] = 0;
  return at;
}

// What the slot should give, by the book.
using R = long double;
struct Expected {
  Array<R> y, mean, var, gx;
};
template <class T>
Expected expected(const Shapes& s, const Array<T>& x, const Array<T>& w, const Array<T>& b,
                  const Array<T>& g, double eps, bool rms) {
  Expected e{s.x, s.mean, s.mean, s.x};
  Array<R> sum(s.mean), dot(s.mean);
  const R n = R(product(s.x)) / R(product(s.mean));
  const auto h = [&](const Index& i) {
    const Index m = of_mean(i, s);
    return (R(as_double(x.at(i))) - e.mean.at(m)) / std::sqrt(e.var.at(m) + eps);
  };
  each(s.x, [&](const Index& i) {
    if (!rms) e.mean.at(of_mean(i, s)) += R(as_double(x.at(i))) / n;
  });
  each(s.x, [&](const Index& i) {
    const R far = R(as_double(x.at(i))) - e.mean.at(of_mean(i, s));
    e.var.at(of_mean(i, s)) += far * far / n;
  });
  each(s.x, [&](const Index& i) {
    const R gw = R(as_double(g.at(i))) * as_double(w.at(i));
    e.y.at(i) = h(i) * as_double(w.at(i)) + as_double(b.at(i));
    if (!rms) sum.at(of_mean(i, s)) += gw / n;
    dot.at(of_mean(i, s)) += gw * h(i) / n;
  });
  each(s.x, [&](const Index& i) {
    const Index m = of_mean(i, s);
    e.gx.at(i) = (R(as_double(g.at(i))) * as_double(w.at(i)) - sum.at(m) - h(i) * dot.at(m)) /
                 std::sqrt(e.var.at(m) + eps);
  });
  return e;
}

template <class T>
void check_near(const Array<T>& got, const Array<R>& want, const char* what) {
  R worst = 0;
  each(want.sizes, [&](const Index& i) {
    worst = std::max<R>(
        worst, std::fabs(R(as_double(got.at(i))) - want.at(i)) / (1 + std::fabs(want.at(i))));
  });
  INFO(what);
  CHECK(double(worst) <= 4 * tolerance<T>());
}

template <class T>
using Statistic = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
void check_all(const Shapes& s, Layout of_x, Layout of_w, bool rms, bool bare) {
  using S = Statistic<T>;
  Array<T> x(s.x, of_x), w(s.x, of_w), b(s.x, of_w), g(s.x, of_x);
  for (Array<T>* a : {&x, &w, &b, &g}) a->fill(small_number<T>);
  if (bare) {
    w.fill([] { return T(1.0f); });
    b.fill([] { return T(0.0f); });
  }
  const double eps = 0.125;
  const Expected e = expected(s, x, w, b, g, eps, rms);
  const gd_view weight = bare ? kAbsent : w.view(), bias = bare ? kAbsent : b.view();
  Agreement<T> agree_y, agree_gx;
  Agreement<S> agree_var;
  for (const auto& dev : devices()) {
    INFO(dev->name);
    Array<T> y(s.x, of_x == kBroadcast ? kPlain : of_x), again(s.x), gx(s.x, kGaps);
    Array<S> mean(s.mean), var(s.mean, kGaps), product(s.x);
    call(*dev, GD_NORMALIZE, GD_NORM_VALUE, {x.view(), weight, bias},
         {y.view(), mean.view(), var.view()}, {eps}, {rms});
    check_near(y, e.y, "y");
    check_near(mean, e.mean, "mean");
    check_near(var, e.var, "var");
    call(*dev, GD_NORMALIZE, GD_NORM_GIVEN, {x.view(), weight, bias, mean.view(), var.view()},
         {again.view()}, {eps}, {rms});
    CHECK(same_bits(y.values(), again.values()));
    call(*dev, GD_NORMALIZE, GD_NORM_GIVEN, {x.view(), weight, bias, mean.view(), var.view()},
         {product.view()}, {eps}, {rms});
    check_near(product, e.y, "y in f32");
    call(*dev, GD_NORMALIZE, GD_NORM_VJP, {x.view(), weight, g.view(), mean.view(), var.view()},
         {gx.view()}, {eps}, {rms});
    check_near(gx, e.gx, "the cotangent");
    agree_y(*dev, y.values());
    agree_var(*dev, var.values());
    agree_gx(*dev, gx.values());
    // As of dense operands.
    Array<T> dense(s.x), dense_w(s.x), dense_b(s.x), dense_g(s.x), dense_y(s.x), dense_gx(s.x);
    each(s.x, [&](const Index& i) {
      dense.at(i) = x.at(i);
      dense_w.at(i) = w.at(i);
      dense_b.at(i) = b.at(i);
      dense_g.at(i) = g.at(i);
    });
    call(*dev, GD_NORMALIZE, GD_NORM_VALUE, {dense.view(), dense_w.view(), dense_b.view()},
         {dense_y.view(), mean.view(), var.view()}, {eps}, {rms});
    CHECK(same_bits(y.values(), dense_y.values()));
    call(*dev, GD_NORMALIZE, GD_NORM_VJP,
         {dense.view(), dense_w.view(), dense_g.view(), mean.view(), var.view()}, {dense_gx.view()},
         {eps}, {rms});
    CHECK(same_bits(gx.values(), dense_gx.values()));
  }
}

template <class T>
void check_dtype() {
  for (const Shapes& s : kShapes)
    for (int layout = 0; layout < kLayouts; ++layout)
      check_all<T>(s, Layout(layout), Layout((layout + 1) % kLayouts), layout % 2, layout == 2);
}

}  // namespace

TEST_CASE("cpu: normalize in every layout: f32, 1 and 3 threads bit for bit") {
  check_dtype<float>();
}
TEST_CASE("cpu: normalize in every layout: f64") { check_dtype<double>(); }
TEST_CASE("cpu: normalize in every layout: 16-bit floats") {
  check_dtype<Half>();
  check_dtype<BFloat16>();
}

TEST_CASE("cpu: normalize a long line far from 0 without losing its variance") {
  const int64_t n = 100003;
  Array<float> x({n, 2}), y({n, 2}), mean({1, 2}), var({1, 2});
  for (int64_t i = 0; i < n; ++i) {
    x.at({i, 0}) = 4096 + float(i % 2);
    x.at({i, 1}) = float(i % 4);
  }
  for (const auto& dev : devices()) {
    INFO(dev->name);
    call(*dev, GD_NORMALIZE, GD_NORM_VALUE, {x.view(), kAbsent, kAbsent},
         {y.view(), mean.view(), var.view()}, {0.0}, {0});
    CHECK(near(mean.at({0, 0}), 4096.5, 1e-6));
    CHECK(near(var.at({0, 0}), 0.25, 1e-4));
    CHECK(near(mean.at({0, 1}), 1.5, 1e-4));
    CHECK(near(var.at({0, 1}), 1.25, 1e-4));
  }
}

TEST_CASE("cpu: normalize nothing, and lines of nothing") {
  Array<float> none({0, 3}), mean({0, 1}), x({2, 0}), m({2, 1}), v({2, 1});
  for (const auto& dev : devices()) {
    call(*dev, GD_NORMALIZE, GD_NORM_VALUE, {none.view(), kAbsent, kAbsent},
         {none.view(), mean.view(), mean.view()}, {1e-5}, {0});
    m.fill([] { return 1.0f; });
    v.fill([] { return 1.0f; });
    call(*dev, GD_NORMALIZE, GD_NORM_VALUE, {x.view(), kAbsent, kAbsent},
         {x.view(), m.view(), v.view()}, {1e-5}, {0});
    CHECK(std::isnan(m.at({1, 0})));
    CHECK(std::isnan(v.at({0, 0})));
  }
}

TEST_CASE("cpu: normalize refuses what it cannot read") {
  Array<float> x({2, 3}), y({2, 3}), m({2, 1}), v({2, 1}), other({3, 2}), wrong({2, 2});
  Array<double> d({2, 3}), md({2, 1});
  Array<int32_t> i({2, 3});
  const std::vector<gd_view> out{y.view(), m.view(), v.view()};
  const auto value = [&](std::vector<gd_view> in, std::vector<gd_view> to) {
    return refusal(GD_NORMALIZE, GD_NORM_VALUE, std::move(in), std::move(to), {0.1}, {0});
  };
  CHECK(has(value({i.view(), kAbsent, kAbsent}, out), "dtype i32 is not read"));
  CHECK(has(value({x.view(), other.view(), kAbsent}, out), "equal sizes"));
  CHECK(has(value({x.view(), d.view(), kAbsent}, out), "equal sizes and dtypes"));
  CHECK(has(value({x.view(), kAbsent, kAbsent}, {d.view(), m.view(), v.view()}), "dtypes"));
  CHECK(has(value({x.view(), kAbsent, kAbsent}, {y.view(), md.view(), v.view()}), "dtype f32"));
  CHECK(has(value({x.view(), kAbsent, kAbsent}, {y.view(), wrong.view(), wrong.view()}),
            "the mean's sizes are not those of x or 1"));
  CHECK(has(refusal(GD_NORMALIZE, 3, {x.view(), kAbsent, kAbsent}, out, {0.1}, {0}),
            "no normalisation has code 3"));
  CHECK(has(refusal(GD_NORMALIZE, GD_NORM_VJP, {x.view(), kAbsent, kAbsent, m.view(), v.view()},
                    {y.view()}, {0.1}, {0}),
            "there is no cotangent"));
  CHECK(has(refusal(GD_NORMALIZE, GD_NORM_VALUE, {x.view(), kAbsent, kAbsent}, out, {}, {0}),
            "expected 1 doubles"));
}
