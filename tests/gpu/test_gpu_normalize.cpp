// The slot normalize of the GPU modules, on the emulator, against the reference: lines beyond a
// chunk, several chunks in a block and in several launches, every layout and operand left out.
#include "tests/helpers/gpu_emulator.hpp"
#include "ops/def/normalize.h"

using namespace gpu_test;

namespace {

struct Shapes {
  Index x, mean;
};

// Its elements begin where fours are aligned.
template <class T>
void to_start(Array<T>& x) {
  std::copy(x.store.get() + x.offset, x.store.get() + x.length, x.store.get());
  x.offset = 0;
}

template <class T>
void check_normalize(const Shapes& s, Layout layout, bool rms, bool bare, bool plain = false) {
  using S = std::conditional_t<std::is_same_v<T, double>, double, float>;
  CAPTURE(s.x[0]);
  CAPTURE(int(layout));
  CAPTURE(int(dtype_of<T>));
  Array<T> x = filled<T>(s.x, layout, small_number<T>),
           w = filled<T>(s.x, plain ? kPlain : kBroadcast, small_number<T>),
           b = filled<T>(s.x, plain ? kPlain : kPermuted, small_number<T>);
  if (plain)
    for (Array<T>* a : {&x, &w, &b}) to_start(*a);
  const gd_view weight = bare ? kAbsent : w.view(), bias = bare ? kAbsent : b.view();
  const std::vector<double> eps{0.125};
  struct Results {
    Array<T> y, gx;
    Array<S> wide, mean, var;
  };
  const auto all = [&](const gd_table& table, gd_device* device, Layout of_y) {
    Results r{{s.x, of_y}, s.x, s.x, {s.mean, of_y}, s.mean};
    if (plain && of_y == kPlain) to_start(r.y);
    if (plain) to_start(r.gx);
    run(table, device, GD_NORMALIZE, GD_NORM_VALUE, {x.view(), weight, bias},
        {r.y.view(), r.mean.view(), r.var.view()}, eps, {rms});
    run(table, device, GD_NORMALIZE, GD_NORM_GIVEN,
        {x.view(), weight, bias, r.mean.view(), r.var.view()}, {r.wide.view()}, eps, {rms});
    run(table, device, GD_NORMALIZE, GD_NORM_VJP,
        {x.view(), weight, b.view(), r.mean.view(), r.var.view()}, {r.gx.view()}, eps, {rms});
    return r;
  };
  gradus::Device& reference = open_device("reference");
  const Results wanted = all(reference.table(), reference.handle(), kPlain);
  const double loose = 8 * tolerance<T>();
  for (size_t k = 0; k < emulated().size(); ++k) {
    CAPTURE(k);
    const Results got = all(emulator(), emulated()[k], k == 1 ? kPermuted : kPlain);
    CHECK(all_near(got.y, wanted.y, loose));
    CHECK(all_near(got.gx, wanted.gx, loose));
    CHECK(all_near(got.wide, wanted.wide, 8 * tolerance<S>()));
    CHECK(all_near(got.mean, wanted.mean, 8 * tolerance<S>()));
    CHECK(all_near(got.var, wanted.var, 8 * tolerance<S>()));
    if (k == 0) continue;
    const Results first = all(emulator(), emulated()[0], kPlain);
    CHECK(same_bits(got.y.values(), first.y.values()));
    CHECK(same_bits(got.gx.values(), first.gx.values()));
    CHECK(same_bits(got.var.values(), first.var.values()));
  }
}

template <class T>
void check_shapes() {
  for (const Shapes& s :
       {Shapes{{5, 37}, {5, 1}}, Shapes{{70, 9}, {1, 9}}, Shapes{{3, 7, 44, 2}, {1, 7, 1, 1}},
        Shapes{{3, 700}, {3, 1}}, Shapes{{2, 2100}, {2, 1}}, Shapes{{1100, 3}, {1, 3}},
        Shapes{{3, 4}, {3, 4}}, Shapes{{4, 1, 6}, {1, 1, 1}}})
    for (Layout layout : {kPlain, kPermuted, kNegative, kGaps})
      if (layout == kGaps || !test::small_sizes() || std::is_same_v<T, float>)
        check_normalize<T>(s, layout, layout == kPermuted, layout == kNegative);
}

}  // namespace

TEST_CASE("gpu: normalize") {
  check_shapes<float>();
  check_shapes<double>();
  check_shapes<Half>();
  check_shapes<BFloat16>();
  check_normalize<float>({{513, 1030}, {513, 1}}, kPlain, false, false);    // two chunks in a block
  check_normalize<float>({{3, 9300, 2}, {1, 1, 2}}, kPlain, false, false);  // 28 chunks apart
}

template <class T>
void check_rows() {
  for (const Shapes& s : {Shapes{{70, 12}, {70, 1}}, Shapes{{3, 1000}, {3, 1}},
                          Shapes{{3, 3076}, {3, 1}}, Shapes{{2, 4100}, {2, 1}}})
    for (int k = 0; k < 3; ++k) check_normalize<T>(s, kPlain, k == 1, k == 2, true);
}

TEST_CASE("gpu: normalize rows in fours") {
  check_rows<float>();
  check_rows<double>();
  check_rows<Half>();
  check_rows<BFloat16>();
}

TEST_CASE("gpu: the layout of x does not change a bit of a normalised line") {
  for (const Index& sizes : {Index{2, 1300}, Index{3, 40}}) {
    const Index means{sizes[0], 1};
    auto g = filled<float>(sizes, kPlain, small_number<float>);
    to_start(g);
    std::vector<float> first, first_gx;
    int plain = 0;
    for (Layout layout : {kPlain, kPlain, kPermuted, kNegative, kGaps}) {
      auto x = filled<float>(sizes, layout, small_number<float>);
      Array<float> y(sizes), gx(sizes), mean(means), var(means);
      for (Array<float>* a : {&y, &gx}) to_start(*a);
      if (layout == kPlain && plain++ > 0) to_start(x);
      run(emulator(), emulated()[0], GD_NORMALIZE, GD_NORM_VALUE, {x.view(), g.view(), kAbsent},
          {y.view(), mean.view(), var.view()}, {1e-5}, {0});
      run(emulator(), emulated()[0], GD_NORMALIZE, GD_NORM_VJP,
          {x.view(), kAbsent, g.view(), mean.view(), var.view()}, {gx.view()}, {1e-5}, {0});
      if (first.empty()) {
        first = y.values();
        first_gx = gx.values();
      }
      CHECK(same_bits(first, y.values()));
      CHECK(same_bits(first_gx, gx.values()));
    }
  }
}

TEST_CASE("gpu: normalize nothing, and lines of nothing") {
  Array<float> none({0, 3}), mean({0, 1}), x({2, 0}), m({2, 1}), v({2, 1});
  for (gd_device* device : emulated()) {
    run(emulator(), device, GD_NORMALIZE, GD_NORM_VALUE, {none.view(), kAbsent, kAbsent},
        {none.view(), mean.view(), mean.view()}, {1e-5}, {0});
    m.fill([] { return 1.0f; });
    v.fill([] { return 1.0f; });
    run(emulator(), device, GD_NORMALIZE, GD_NORM_VALUE, {x.view(), kAbsent, kAbsent},
        {x.view(), m.view(), v.view()}, {1e-5}, {0});
    CHECK(std::isnan(m.at({1, 0})));
    CHECK(std::isnan(v.at({0, 0})));
  }
}

TEST_CASE("gpu: normalize says what it refuses, as the reference does") {
  Array<float> x({2, 3}), y({2, 3}), m({2, 1}), v({2, 1}), other({3, 2}), wrong({2, 2}), flat({2});
  Array<double> d({2, 3}), md({2, 1});
  Array<int32_t> i({2, 3});
  const std::vector<gd_view> out{y.view(), m.view(), v.view()};
  const auto same = [&](int32_t op, std::vector<gd_view> in, std::vector<gd_view> to,
                        std::vector<double> eps = {0.1}) {
    same_refusal(GD_NORMALIZE, op, std::move(in), std::move(to), std::move(eps), {0});
  };
  same(GD_NORM_VALUE, {i.view(), kAbsent, kAbsent}, out);
  same(GD_NORM_VALUE, {x.view(), other.view(), kAbsent}, out);
  same(GD_NORM_VALUE, {x.view(), d.view(), kAbsent}, out);
  same(GD_NORM_VALUE, {x.view(), kAbsent, kAbsent}, {d.view(), m.view(), v.view()});
  same(GD_NORM_VALUE, {x.view(), kAbsent, kAbsent}, {y.view(), md.view(), v.view()});
  same(GD_NORM_VALUE, {x.view(), kAbsent, kAbsent}, {y.view(), wrong.view(), wrong.view()});
  same(GD_NORM_VALUE, {x.view(), kAbsent, kAbsent}, {y.view(), flat.view(), flat.view()});
  same(3, {x.view(), kAbsent, kAbsent}, out);
  same(GD_NORM_VJP, {x.view(), kAbsent, kAbsent, m.view(), v.view()}, {y.view()});
  same(GD_NORM_VALUE, {x.view(), kAbsent, kAbsent}, out, {});
}
