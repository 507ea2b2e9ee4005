// Random chains of statements, slopes and casts over views of all kinds, for the tests of GD_CHAIN:
// the slot against the same calls one by one.
#pragma once
#include "ops/def/fingerprint.hpp"
#include "tests/helpers/cpu_device.hpp"

namespace cpu_test {

// A value of a chain: a view of memory, or the result of a step.
struct Value {
  int32_t dtype;
  gd_view view;
};

struct Chain {
  const gd_table& table;
  gd_device* device;
  Index sizes, strides;
  std::vector<Value> values;  // what comes in, then results, as the calls one by one leave them
  std::vector<std::unique_ptr<double[]>> memory;
  std::vector<gd_view> in, out, expected;
  std::vector<double> doubles;
  Index ints;
  int steps = 0, most_outs = 20;

  Chain(const gd_table& t, gd_device* d, Index s)
      : table(t), device(d), sizes(std::move(s)), strides(sizes.size()) {
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
    if (try_call(table, device, slot, op, views, {result}, params, {operand}, e) != GD_OK)
      return false;
    ints.insert(ints.end(), {slot, op, operand, int64_t(params.size()), int64_t(operands.size())});
    ints.insert(ints.end(), operands.begin(), operands.end());
    const bool kept = pick(0, 2) == 0 && int(out.size()) < most_outs;
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
  // Of these dtypes, each as often as it is there.
  bool random_step(const std::vector<int32_t>& dtypes) {
    const auto any_dtype = [&] { return dtypes[size_t(pick(0, int64_t(dtypes.size()) - 1))]; };
    if (pick(0, 5) == 0) {
      const int64_t v = pick(0, int64_t(values.size()) - 1);
      return step(GD_COPY, 0, 0, {v}, {}, any_dtype());
    }
    const auto op = int32_t(pick(0, def::statement_count() - 1));
    const def::StatementText& s = def::statement_info(op);
    const int32_t dtype = any_dtype();
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
    gd_error e{};
    const gd_status s = try_call(table, device, GD_CHAIN, 0, in, out, doubles, whole, e);
    INFO(e.text);
    REQUIRE(s == GD_OK);
    for (size_t k = 0; k < out.size(); ++k) {
      INFO("output " << k << " of dtype " << out[k].dtype);
      CHECK(std::memcmp(out[k].data, expected[k].data,
                        size_t(product(sizes)) * itemsize(DType(out[k].dtype))) == 0);
    }
  }
};

// One over five float views of all layouts, a row, one value, a mask, doubles.
struct RandomChain : Chain {
  std::vector<Array<float>> arrays;
  Array<bool> mask;
  Array<double> wide;

  RandomChain(const gd_table& t, gd_device* d, const Index& s)
      : Chain(t, d, s), mask(s, Layout(pick(0, kLayouts - 1))), wide(s) {
    for (int k = 0; k < 7; ++k) {
      arrays.emplace_back(s, k < kLayouts ? Layout(k) : kPlain);
      arrays.back().fill(small_number<float>);
    }
    for (size_t d = 0; d < s.size(); ++d) {
      arrays[6].strides[d] = 0;
      if (d + 1 < s.size()) arrays[5].strides[d] = 0;
    }
    mask.fill(small_number<bool>);
    wide.fill(small_number<double>);
    for (const auto& a : arrays) in.push_back(a.view());
    in.insert(in.end(), {mask.view(), wide.view()});
    for (const gd_view& v : in) values.push_back({v.dtype, v});
  }
  // As many steps as that, if so many are found.
  void steps_of(int most, const std::vector<int32_t>& dtypes = {GD_F32, GD_F32, GD_F64, GD_C64,
                                                                GD_I32, GD_I64, GD_BOOL}) {
    for (int tries = 0; tries < 20 * most && steps < most; ++tries) random_step(dtypes);
  }
};

}  // namespace cpu_test
