// reduce, scan, softmax and optimizer_step of the cpu device against naive loops in f64.
#include "tests/helpers/cpu_device.hpp"
#include "tests/helpers/sizes.hpp"

using namespace cpu_test;

namespace {

template <class U, class W>
U narrowed(W x) {
  if constexpr (is_complex_v<U>)
    return U(x);
  else
    return U(x);
}

template <class T>
void check_folds(const Index& in_sizes, const Index& out_sizes, Layout layout) {
  using Out = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  Array<T> x(in_sizes, layout);
  x.fill(small_number<T>);
  std::vector<Wide<T>> sum(size_t(product(out_sizes)), Wide<T>(0)), best(sum), least(sum);
  std::vector<bool> seen(sum.size(), false), any(sum.size(), false), all(sum.size(), true);
  each(in_sizes, [&](const Index& i) {
    size_t o = 0;
    for (size_t d = 0; d < i.size(); ++d)
      o = o * size_t(out_sizes[d]) + size_t(out_sizes[d] == 1 ? 0 : i[d]);
    const Wide<T> v = wide(x.at(i));
    sum[o] = sum[o] + v;
    if constexpr (!is_complex_v<T>) {
      best[o] = seen[o] ? std::max(best[o], v) : v;
      least[o] = seen[o] ? std::min(least[o], v) : v;
    }
    const bool truth = v != Wide<T>(0);
    any[o] = any[o] || truth;
    all[o] = all[o] && truth;
    seen[o] = true;
  });
  Agreement<Out> agree;
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    CAPTURE(int(dtype_of<T>));
    Array<Out> s(out_sizes, kPermuted);
    Array<T> b(out_sizes);
    Array<bool> t(out_sizes);
    call(*dev, GD_REDUCE, GD_SUM, {x.view()}, {s.view()});
    agree(*dev, s.values());
    size_t o = 0;
    const double tol = tolerance<T>() * (1 + 0.01 * double(product(in_sizes)));
    each(out_sizes, [&](const Index& i) { CHECK(near(s.at(i), sum[o++], tol)); });
    call(*dev, GD_REDUCE, GD_ANY, {x.view()}, {t.view()});
    CHECK(t.values() == any);
    call(*dev, GD_REDUCE, GD_ALL, {x.view()}, {t.view()});
    CHECK(t.values() == all);
    if constexpr (!is_complex_v<T>) {
      if (product(in_sizes) == 0) continue;
      call(*dev, GD_REDUCE, GD_MAX, {x.view()}, {b.view()});
      o = 0;
      each(out_sizes, [&](const Index& i) { CHECK(wide(b.at(i)) == best[o++]); });
      call(*dev, GD_REDUCE, GD_MIN, {x.view()}, {b.view()});
      o = 0;
      each(out_sizes, [&](const Index& i) { CHECK(wide(b.at(i)) == least[o++]); });
    }
  }
}

}  // namespace

TEST_CASE("cpu: reduce over inner, outer, mixed and all axes") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    for (Layout layout : {kPlain, kPermuted, kNegative, kGaps}) {
      check_folds<T>({3, 50, 21}, {3, 50, 1}, layout);
      check_folds<T>({50, 3, 21}, {1, 3, 21}, layout);
      check_folds<T>({5, 33, 21}, {1, 33, 1}, layout);
      check_folds<T>({5, 33, 21}, {5, 1, 21}, layout);
      check_folds<T>({7, 5, 9}, {1, 1, 1}, layout);
    }
    check_folds<T>({}, {}, kPlain);
    check_folds<T>({0, 3}, {1, 3}, kPlain);
    check_folds<T>({3, 0}, {3, 0}, kPlain);
    check_folds<T>({5, 40}, {5, 1}, kBroadcast);
  });
  check_folds<float>({2, 5003}, {2, 1}, kPlain);
  check_folds<float>({5003, 7}, {1, 7}, kPlain);
  check_folds<double>({300, 4, 300}, {1, 4, 1}, kPlain);
  check_folds<int32_t>({200000}, {1}, kPlain);
  check_folds<float>({300, 1500}, {1, 1500}, kPlain);  // wide strips
  check_folds<float>({40, 3000}, {40, 1}, kPlain);
  check_folds<double>({700, 31}, {700, 1}, kGaps);
  check_folds<c128>({150, 32}, {150, 1}, kPlain);
}

// Windows share elements, and few of them make an output: maxima, sums and places, first of equals.
TEST_CASE("cpu: reductions over short windows") {
  auto check = [](auto zero, bool nan) {
    using T = decltype(zero);
    Array<T> x({4000});
    x.fill([] {
      const int64_t k = pick(-3, 3);
      if constexpr (std::is_integral_v<T>)
        return T(k);
      else
        return T(float(k));
    });
    if constexpr (std::is_floating_point_v<T>)
      if (nan) x.at({1237}) = std::numeric_limits<T>::quiet_NaN();
    for (const int64_t length : {1, 2, 3, 10, 32, 33, 700}) {
      if (test::small_sizes() && length % 2 == 0 && length < 700) continue;
      for (const int64_t step : {1, 3}) {
        if (test::small_sizes() && length == 700 && step == 3) continue;
        const Index sizes = {5, 37, length}, strides = {101, 2, step}, kept = {5, 37, 1};
        const gd_view in{1,        x.store.get(), int32_t(dtype_of<T>), 3,
                         x.offset, sizes.data(),  strides.data()};
        for (const auto& dev : devices()) {
          CAPTURE(dev->name);
          CAPTURE(length);
          Array<T> most(kept, kPermuted);
          Array<int64_t> place(kept), last(kept, kGaps);
          call(*dev, GD_REDUCE, GD_MAX, {in}, {most.view()});
          call(*dev, GD_REDUCE, GD_ARGMAX, {in}, {place.view()}, {}, {2});
          call(*dev, GD_REDUCE, GD_ARGMIN, {in}, {last.view()}, {}, {2});
          each(kept, [&](const Index& i) {
            const auto at = [&](int64_t k) { return x.at({i[0] * 101 + i[1] * 2 + k * step}); };
            int64_t best = 0, least = 0;
            for (int64_t k = 1; k < length; ++k) {
              if (at(best) == at(best) && !(at(k) <= at(best))) best = k;
              if (at(least) == at(least) && !(at(k) >= at(least))) least = k;
            }
            CHECK(place.at(i) == best);
            CHECK(last.at(i) == least);
            CHECK(
                !std::memcmp(&most.at(i), &x.at({i[0] * 101 + i[1] * 2 + best * step}), sizeof(T)));
          });
        }
      }
    }
  };
  check(float{}, false);
  check(float{}, true);
  check(double{}, true);
  check(int32_t{}, false);
  check(uint8_t{}, false);
}

TEST_CASE("cpu: a sum has the same bits in any layout, and f32 sums do not stick") {
  for (const auto& dev : devices()) {
    std::vector<float> first;
    std::vector<float> numbers(30 * 2100);
    for (float& v : numbers) v = small_number<float>() / 3;
    for (Layout layout : {kPlain, kPermuted, kNegative, kGaps}) {
      Array<float> x({2100, 30}, layout), y({1, 30});
      size_t n = 0;
      each(x.sizes, [&](const Index& i) { x.at(i) = numbers[n++]; });
      call(*dev, GD_REDUCE, GD_SUM, {x.view()}, {y.view()});
      if (layout == kPlain) first = y.values();
      CHECK(same_bits(first, y.values()));
    }
    Array<float> ones({1}, kBroadcast), total({1});
    ones.sizes[0] = (1 << 24) + 100;
    ones.fill([] { return 1.0f; });
    call(*dev, GD_REDUCE, GD_SUM, {ones.view()}, {total.view()});
    CHECK(total.at({0}) == float((1 << 24) + 100));
  }
}

TEST_CASE("cpu: argmax, prod, NaN and refusals of reduce") {
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    for (Layout layout : {kPlain, kPermuted, kNegative})
      for (int axis = 0; axis < 3; ++axis) {
        Array<float> x({6, 150, 9}, layout);
        x.fill(small_number<float>);
        x.at({3, 70, 4}) = NAN;
        Index sizes = x.sizes;
        sizes[size_t(axis)] = 1;
        Array<int64_t> y(sizes, kPermuted), least(sizes);
        call(*dev, GD_REDUCE, GD_ARGMAX, {x.view()}, {y.view()}, {}, {axis});
        call(*dev, GD_REDUCE, GD_ARGMIN, {x.view()}, {least.view()}, {}, {axis});
        each(sizes, [&](Index i) {
          const Index o = i;
          int64_t best = 0, worst = 0;
          for (int64_t k = 1; k < x.sizes[size_t(axis)]; ++k) {
            auto v = [&](int64_t q) {
              i[size_t(axis)] = q;
              return x.at(i);
            };
            if (!std::isnan(v(best)) && (std::isnan(v(k)) || v(k) > v(best))) best = k;
            if (!std::isnan(v(worst)) && (std::isnan(v(k)) || v(k) < v(worst))) worst = k;
          }
          CHECK(y.at(o) == best);
          CHECK(least.at(o) == worst);
        });
        Array<float> m(sizes);
        call(*dev, GD_REDUCE, GD_MAX, {x.view()}, {m.view()});
        Index nan_at = {3, 70, 4};
        nan_at[size_t(axis)] = 0;
        CHECK(std::isnan(m.at(nan_at)));
      }
    Array<double> x({3, 5}), p({3, 1});
    x.fill([] { return 1.5; });
    call(*dev, GD_REDUCE, GD_PROD, {x.view()}, {p.view()});
    CHECK(p.at({1, 0}) == std::pow(1.5, 5));
  }
  Array<float> empty({0}), y({1}), x({3, 4}), wrong({2, 1});
  CHECK(has(refusal(GD_REDUCE, GD_MAX, {empty.view()}, {y.view()}), "nothing to choose"));
  CHECK(has(refusal(GD_REDUCE, GD_SUM, {x.view()}, {wrong.view()}), "axis 0 does not reduce"));
  Array<int32_t> n({3}), m({1});
  CHECK(has(refusal(GD_REDUCE, GD_SUM, {n.view()}, {m.view()}), "i64"));
  Array<c64> z({3}), best({1});
  CHECK(has(refusal(GD_REDUCE, GD_MAX, {z.view()}, {best.view()}), "no order"));
}

TEST_CASE("cpu: scan") {
  auto check = [](auto zero) {
    using T = decltype(zero);
    for (Layout layout : {kPlain, kPermuted, kNegative})
      for (int axis = 0; axis < 2; ++axis)
        for (bool from_end : {false, true})
          for (int op : {GD_SUM, GD_MAX}) {
            if (is_complex_v<T> && op == GD_MAX) continue;
            Array<T> x({700, 19}, layout);
            x.fill(small_number<T>);
            Agreement<T> agree;
            for (const auto& dev : devices()) {
              Array<T> y({700, 19}, kGaps);
              call(*dev, GD_SCAN, op, {x.view()}, {y.view()}, {}, {axis, from_end});
              agree(*dev, y.values());
              const int64_t n = x.sizes[size_t(axis)], other = x.sizes[size_t(1 - axis)];
              for (int64_t o = 0; o < other; ++o) {
                Wide<T> total(0);
                for (int64_t k = 0; k < n; ++k) {
                  const int64_t at = from_end ? n - 1 - k : k;
                  const Index i = axis == 0 ? Index{at, o} : Index{o, at};
                  const Wide<T> v = wide(x.at(i));
                  if constexpr (is_complex_v<T>)
                    total = total + v;
                  else
                    total = op == GD_SUM ? total + v : k == 0 ? v : std::max(total, v);
                  if (!near(y.at(i), narrowed<T>(total), tolerance<T>()))
                    CHECK(near(y.at(i), narrowed<T>(total), tolerance<T>()));
                }
              }
            }
          }
  };
  check(float{});
  check(double{});
  check(c64{});
  check(int32_t{});
  check(BFloat16{});
}

TEST_CASE("cpu: softmax along any axis") {
  auto check = [](auto zero) {
    using T = decltype(zero);
    for (Layout layout : {kPlain, kPermuted, kNegative})
      for (int axis = 0; axis < 3; ++axis)
        for (bool logarithm : {false, true}) {
          Array<T> x({3, 47, 20}, layout);
          x.fill(small_number<T>);
          Agreement<T> agree;
          for (const auto& dev : devices()) {
            Array<T> y({3, 47, 20}, kPermuted);
            call(*dev, GD_SOFTMAX, 0, {x.view()}, {y.view()}, {}, {axis, logarithm});
            agree(*dev, y.values());
            Index lines = x.sizes;
            lines[size_t(axis)] = 1;
            each(lines, [&](Index i) {
              double m = -1e300, s = 0;
              auto v = [&](int64_t k) {
                i[size_t(axis)] = k;
                return as_double(x.at(i));
              };
              for (int64_t k = 0; k < x.sizes[size_t(axis)]; ++k) m = std::max(m, v(k));
              for (int64_t k = 0; k < x.sizes[size_t(axis)]; ++k) s += std::exp(v(k) - m);
              for (int64_t k = 0; k < x.sizes[size_t(axis)]; ++k) {
                const double want = logarithm ? v(k) - m - std::log(s) : std::exp(v(k) - m) / s;
                if (!near(y.at(i), want, tolerance<T>()))
                  CHECK(near(y.at(i), want, tolerance<T>()));
              }
            });
          }
        }
  };
  check(float{});
  check(double{});
  check(Half{});
  // A line has the same bits in any company and layout, short or long.
  auto alone = [](auto zero) {
    using T = decltype(zero);
    for (const int64_t length : {1, 7, 10, 32, 33, 1100})
      for (const bool logarithm : {false, true})
        for (const auto& dev : devices()) {
          CAPTURE(dev->name);
          CAPTURE(length);
          Array<T> x({37, length}), y({37, length}), z({37, length}, kPermuted),
              turned({37, length}, kPermuted);
          x.fill(small_number<T>);
          each(x.sizes, [&](const Index& i) { turned.at(i) = x.at(i); });
          call(*dev, GD_SOFTMAX, 0, {x.view()}, {y.view()}, {}, {1, logarithm});
          call(*dev, GD_SOFTMAX, 0, {turned.view()}, {z.view()}, {}, {1, logarithm});
          CHECK(same_bits(y.values(), z.values()));
          for (int64_t j = 0; j < 37; j += 9) {
            Array<T> line({length});
            for (int64_t k = 0; k < length; ++k) line.at({k}) = x.at({j, k});
            call(*dev, GD_SOFTMAX, 0, {line.view()}, {line.view()}, {}, {0, logarithm});
            for (int64_t k = 0; k < length; ++k)
              CHECK(!std::memcmp(&line.at({k}), &y.at({j, k}), sizeof(T)));
          }
        }
  };
  alone(float{});
  alone(double{});
  for (const auto& dev : devices()) {  // far apart, long, in place, and hopeless
    Array<float> x({2, 3000});
    x.fill([] { return -200.0f; });
    x.at({0, 2999}) = 1000;
    x.at({1, 5}) = NAN;
    call(*dev, GD_SOFTMAX, 0, {x.view()}, {x.view()}, {}, {1, 0});
    CHECK(x.at({0, 2999}) == 1);
    CHECK(x.at({0, 0}) == 0);
    CHECK(std::isnan(x.at({1, 0})));
    Array<float> none({4});
    none.fill([] { return -INFINITY; });
    call(*dev, GD_SOFTMAX, 0, {none.view()}, {none.view()}, {}, {0, 0});
    CHECK(std::isnan(none.at({0})));
  }
}

TEST_CASE("cpu: optimizer steps") {
  for (const auto& dev : devices()) {
    Array<float> g({7, 5}, kPermuted), p({7, 5}), m({7, 5}), v({7, 5}, kGaps);
    Array<double> hyper({3}), gain({1});
    g.fill(small_number<float>);
    p.fill(small_number<float>);
    m.fill(small_number<float>);
    v.fill([] { return std::fabs(small_number<float>()); });
    hyper.at({0}) = 0.1;
    hyper.at({1}) = 0.19;
    hyper.at({2}) = 0.002;
    gain.at({0}) = 0.5;
    const auto p0 = p.values(), m0 = m.values(), v0 = v.values(), g0 = g.values();
    call(*dev, GD_OPTIMIZER_STEP, GD_ADAMW, {g.view(), hyper.view(), gain.view()},
         {p.view(), m.view(), v.view()}, {0.9, 0.999, 1e-8, 0.01});
    for (size_t i = 0; i < p0.size(); ++i) {
      const double gi = 0.5 * g0[i], mi = 0.9 * m0[i] + 0.1 * gi,
                   vi = 0.999 * v0[i] + 0.001 * gi * gi;
      CHECK(near(p.values()[i],
                 p0[i] * (1 - 0.1 * 0.01) - 0.1 * (mi / 0.19) / (std::sqrt(vi / 0.002) + 1e-8),
                 1e-6));
      CHECK(near(m.values()[i], mi, 1e-6));
      CHECK(near(v.values()[i], vi, 1e-6));
    }
    const auto p1 = p.values(), m1 = m.values();
    call(*dev, GD_OPTIMIZER_STEP, GD_SGD, {g.view(), hyper.view(), kAbsent}, {p.view(), m.view()},
         {0.9, 0.1, 0.02, 1}, {0});
    for (size_t i = 0; i < p0.size(); ++i) {
      double gi = g0[i] + 0.02 * p1[i];
      const double vi = 0.9 * m1[i] + 0.9 * gi;
      gi += 0.9 * vi;
      CHECK(near(m.values()[i], vi, 1e-6));
      CHECK(near(p.values()[i], p1[i] - 0.1 * gi, 1e-6));
    }
    const auto p2 = p.values();
    call(*dev, GD_OPTIMIZER_STEP, GD_SGD, {g.view(), hyper.view(), kAbsent}, {p.view(), kAbsent},
         {0, 0, 0, 0}, {1});
    for (size_t i = 0; i < p0.size(); ++i) CHECK(near(p.values()[i], p2[i] - 0.1 * g0[i], 1e-6));
  }
  Array<float> g({3}), p({3}), h({1});
  CHECK(has(refusal(GD_OPTIMIZER_STEP, GD_SGD, {g.view(), h.view(), kAbsent}, {p.view(), kAbsent},
                    {0.9, 0, 0, 0}, {1}),
            "state"));
  CHECK(has(refusal(GD_OPTIMIZER_STEP, GD_ADAM, {g.view(), h.view(), kAbsent},
                    {p.view(), p.view(), p.view()}, {0.9, 0, 0, 0}),
            "hyper"));
}
