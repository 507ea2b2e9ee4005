// The slot chain against the same calls one by one: equal bits on every instruction set, for random
// chains of statements, slopes and casts over views of all kinds.
#include "tests/kernels/chains.hpp"

using namespace cpu_test;

TEST_CASE("cpu: a chain gives the bits of its calls one by one") {
  const std::vector<Index> shapes = {{},         {1},      {5},        {16},  {31, 16},
                                     {9, 7, 11}, {2, 800}, {300, 130}, {3, 0}};
  for (const auto& dev : devices())
    for (const Index& sizes : shapes)
      for (int round = 0; round < (product(sizes) > 10000 ? 4 : 12); ++round) {
        RandomChain chain(*cpu::table(), dev->d, sizes);
        INFO(dev->name);
        chain.steps_of(14);
        CHECK(chain.steps > 3);
        chain.check();
      }
}

TEST_CASE("cpu: a chain writes in place and refuses what breaks its contract") {
  const auto relu = int32_t(def::statement_id("relu")), add = int32_t(def::statement_id("add"));
  Array<float> x({70}), y({70});
  x.fill(small_number<float>);
  const std::vector<float> before = x.values();
  // x <- relu(x); y <- x + x, of the new x
  const Index ints{2, GD_POINTWISE, relu, 0, 0, 1, 0, GD_F32, 0, GD_POINTWISE, add, 0, 0, 2, 1,
                   1, GD_F32,       1};
  call(*devices()[0], GD_CHAIN, 0, {x.view()}, {x.view(), y.view()}, {}, ints);
  for (int64_t i = 0; i < 70; ++i) {
    CHECK(x.at({i}) == std::max(before[size_t(i)], 0.0f));
    CHECK(y.at({i}) == 2 * x.at({i}));
  }
  const auto refused = [&](Index broken, gd_view in) {
    return refusal(GD_CHAIN, 0, {in}, {y.view()}, {}, std::move(broken));
  };
  CHECK(has(refused({0}, x.view()), "1 to 32 steps"));
  CHECK(has(refused({1, GD_POINTWISE, relu, 0, 0, 1, 1, GD_F32, 0}, x.view()), "step 0 breaks"));
  CHECK(has(refused({1, GD_POINTWISE, relu, 0, 0, 1, 0, GD_F64, 0}, x.view()), "step 0 breaks"));
  CHECK(has(refused({1, GD_POINTWISE, relu, 0, 0, 1, 0, GD_F32}, x.view()), "step 0 breaks"));
  CHECK(has(refused({1, GD_POINTWISE, add, 0, 0, 1, 0, GD_F32, 0}, x.view()), "step 0 breaks"));
  CHECK(has(refused({1, GD_REDUCE, GD_SUM, 0, 0, 1, 0, GD_F32, 0}, x.view()), "step 0 breaks"));
  Array<float> other({71});
  CHECK(has(refused({1, GD_POINTWISE, relu, 0, 0, 1, 0, GD_F32, 0}, other.view()), "other sizes"));
  Array<Half> narrow({70});
  CHECK(has(refused({1, GD_COPY, 0, 0, 0, 1, 0, GD_F32, 0}, narrow.view()), "16-bit"));
}

TEST_CASE("cpu: one call that updates several parameters gives the bits of single calls") {
  for (const auto& dev : devices())
    for (const int32_t op : {GD_SGD, GD_ADAM, GD_ADAMW}) {
      const bool sgd = op == GD_SGD;
      const std::vector<double> rule =
          sgd ? std::vector<double>{0.9, 0, 0.01, 1} : std::vector<double>{0.9, 0.99, 1e-8, 0.01};
      Array<double> hyper({3}), gain({1});
      hyper.fill([n = 0]() mutable { return 0.1 + 0.2 * n++; });
      gain.fill([] { return 0.5; });
      std::vector<gd_view> in, out;
      std::vector<std::unique_ptr<Array<float>>> arrays, alone;
      const std::vector<Index> shapes{{7}, {40, 9}, {3, 0}, {300, 130}, {}, {6, 5}};
      for (size_t k = 0; k < shapes.size(); ++k) {
        const Layout layout = k == 5 ? kPermuted : kPlain;
        std::vector<gd_view> views;
        for (int i = 0; i < (sgd ? 3 : 4); ++i) {
          arrays.push_back(std::make_unique<Array<float>>(shapes[k], layout));
          arrays.back()->fill([&] { return std::abs(small_number<float>()); });
          alone.push_back(std::make_unique<Array<float>>(shapes[k], layout));
          std::copy_n(arrays.back()->store.get(), arrays.back()->length, alone.back()->store.get());
          (i == 0 ? in : out).push_back(arrays.back()->view());
          views.push_back(alone.back()->view());
        }
        in.insert(in.end(), {hyper.view(), gain.view()});
        call(*dev, GD_OPTIMIZER_STEP, op, {views[0], hyper.view(), gain.view()},
             {views.begin() + 1, views.end()}, rule, {0});
      }
      call(*dev, GD_OPTIMIZER_STEP, op, in, out, rule, {0});
      for (size_t i = 0; i < arrays.size(); ++i)
        CHECK(same_bits(arrays[i]->values(), alone[i]->values()));
    }
  Array<float> p({4});
  Array<double> hyper({3});
  CHECK(has(
      refusal(GD_OPTIMIZER_STEP, GD_ADAM, {p.view(), hyper.view(), kAbsent, p.view(), hyper.view()},
              {p.view(), p.view(), p.view()}, {0.9, 0.99, 1e-8, 0}),
      "do not fit together"));
}
