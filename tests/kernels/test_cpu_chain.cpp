// The slot chain against the same calls one by one: equal bits on every instruction set, for random
// chains of statements, slopes and casts over views of all kinds.
#include "ops/def/fingerprint.hpp"
#include "tests/helpers/cpu_device.hpp"

using namespace cpu_test;

namespace {

// A value of a chain: a view of memory, or the result of a step.
struct Value {
  int32_t dtype;
  gd_view view;
};

struct Chain {
  const Device& dev;
  Index sizes, strides;
  std::vector<Value> values;  // what comes in, then results, as the calls one by one leave them
  std::vector<std::unique_ptr<double[]>> memory;
  std::vector<gd_view> in, out, expected;
  std::vector<double> doubles;
  Index ints;
  int steps = 0;

  Chain(const Device& d, Index s) : dev(d), sizes(std::move(s)), strides(sizes.size()) {
    int64_t step = 1;
    for (size_t k = sizes.size(); k-- > 0; step *= sizes[k]) strides[k] = step;
  }
  gd_view fresh(int32_t dtype) {
    memory.push_back(std::make_unique<double[]>(size_t(2 * product(sizes) + 2)));
    return {1, memory.back().get(), dtype, int32_t(sizes.size()), 0, sizes.data(), strides.data()};
  }
  // The place of a random value of this dtype; -1 if there is none.
  int64_t any_of(int32_t dtype) {
    std::vector<int64_t> fit;
    for (size_t v = 0; v < values.size(); ++v)
      if (values[v].dtype == dtype) fit.push_back(int64_t(v));
    return fit.empty() ? -1 : fit[size_t(pick(0, int64_t(fit.size()) - 1))];
  }

  // Runs the step alone, and keeps it if the device takes it.
  bool step(gd_slot slot, int32_t op, int64_t operand, const Index& operands,
            const std::vector<double>& params, int32_t dtype) {
    std::vector<gd_view> views;
    for (const int64_t v : operands) views.push_back(v < 0 ? kAbsent : values[size_t(v)].view);
    const gd_view result = fresh(dtype);
    gd_error e{};
    if (try_call(*cpu::table(), dev.d, slot, op, views, {result}, params, {operand}, e) != GD_OK)
      return false;
    ints.insert(ints.end(), {slot, op, operand, int64_t(params.size()), int64_t(operands.size())});
    ints.insert(ints.end(), operands.begin(), operands.end());
    const bool kept = pick(0, 2) == 0;
    ints.insert(ints.end(), {dtype, kept ? int64_t(out.size()) : -1});
    if (kept) {
      expected.push_back(result);
      out.push_back(fresh(dtype));
    }
    doubles.insert(doubles.end(), params.begin(), params.end());
    values.push_back({dtype, result});
    ++steps;
    return true;
  }
  bool random_step() {
    constexpr int32_t kTypes[] = {GD_F32, GD_F32, GD_F64, GD_C64, GD_I32, GD_I64, GD_BOOL};
    if (pick(0, 5) == 0) {
      const int64_t v = pick(0, int64_t(values.size()) - 1);
      return step(GD_COPY, 0, 0, {v}, {}, kTypes[pick(0, 6)]);
    }
    const auto op = int32_t(pick(0, def::statement_count() - 1));
    const def::StatementText& s = def::statement_info(op);
    const int32_t dtype = kTypes[pick(0, 6)];
    const bool select = s.kind == def::Kind::select, slope = pick(0, 3) == 0;
    Index operands;
    for (size_t k = 0; k < s.operands.size(); ++k)
      operands.push_back(any_of(select && k == 0 ? int32_t(GD_BOOL) : dtype));
    if (std::count(operands.begin(), operands.end(), -1) > 0) return false;
    const std::vector<double> params(s.defaults.begin(), s.defaults.end());
    if (!slope) {
      if (s.kind == def::Kind::comparison)
        return step(GD_POINTWISE, op, 0, operands, params, GD_BOOL);
      return step(GD_POINTWISE, op, 0, operands, params, dtype) ||
             step(GD_POINTWISE, op, 0, operands, params, GD_F32);
    }
    operands.insert(operands.begin(), any_of(dtype));
    operands.push_back(any_of(dtype));
    return step(GD_POINTWISE_VJP, op, pick(0, int64_t(s.operands.size()) - 1), operands, params,
                dtype);
  }
  void check() {
    if (out.empty()) return;
    Index whole{steps};
    // The inputs of a chain are numbered first, results after them: as `values` is.
    whole.insert(whole.end(), ints.begin(), ints.end());
    call(dev, GD_CHAIN, 0, in, out, doubles, whole);
    for (size_t k = 0; k < out.size(); ++k) {
      INFO(dev.name << ", output " << k << " of dtype " << out[k].dtype);
      CHECK(std::memcmp(out[k].data, expected[k].data,
                        size_t(product(sizes)) * itemsize(DType(out[k].dtype))) == 0);
    }
  }
};

}  // namespace

TEST_CASE("cpu: a chain gives the bits of its calls one by one") {
  const std::vector<Index> shapes = {{},         {1},      {5},        {16},  {31, 16},
                                     {9, 7, 11}, {2, 800}, {300, 130}, {3, 0}};
  for (const auto& dev : devices())
    for (const Index& sizes : shapes)
      for (int round = 0; round < (product(sizes) > 10000 ? 4 : 12); ++round) {
        Chain chain(*dev, sizes);
        std::vector<std::unique_ptr<Array<float>>> arrays;
        for (int k = 0; k < 5; ++k) {
          arrays.push_back(std::make_unique<Array<float>>(sizes, Layout(k % kLayouts)));
          arrays.back()->fill(small_number<float>);
          chain.in.push_back(arrays.back()->view());
        }
        Array<float> row(sizes), one(sizes);
        row.fill(small_number<float>);
        one.fill(small_number<float>);
        for (size_t d = 0; d < sizes.size(); ++d) {
          one.strides[d] = 0;
          if (d + 1 < sizes.size()) row.strides[d] = 0;
        }
        Array<bool> mask(sizes, Layout(pick(0, kLayouts - 1)));
        mask.fill(small_number<bool>);
        Array<double> wide(sizes);
        wide.fill(small_number<double>);
        chain.in.insert(chain.in.end(), {row.view(), one.view(), mask.view(), wide.view()});
        for (const gd_view& v : chain.in) chain.values.push_back({v.dtype, v});
        for (int tries = 0; tries < 200 && chain.steps < 14; ++tries) chain.random_step();
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
