// The slot chain of the GPU modules against the same calls one by one: equal bits, whether the
// interpreter runs it or its steps are launched one by one.
#include "tests/kernels/chains.hpp"
#include "tests/helpers/gpu_emulator.hpp"

using namespace gpu_test;

namespace {

const std::vector<int32_t> kInterpreted = {GD_F32, GD_F32, GD_F64, GD_I32, GD_I64, GD_U8, GD_BOOL};
const std::vector<int32_t> kAll = {GD_F32, GD_F64, GD_C64, GD_C128, GD_I32, GD_U8, GD_BOOL};

int32_t id(const char* name) { return int32_t(def::statement_id(name)); }

// The ints of one step of f32.
void append(Index& ints, int64_t slot, int64_t op, int64_t which, const Index& operands,
            int64_t out, int64_t dtype = GD_F32, int64_t doubles = 0) {
  ints.insert(ints.end(), {slot, op, which, doubles, int64_t(operands.size())});
  ints.insert(ints.end(), operands.begin(), operands.end());
  ints.insert(ints.end(), {dtype, out});
  ++ints[0];
}

}  // namespace

TEST_CASE("gpu: chain gives the bits of its calls one by one") {
  // The fourth has more axes than the interpreter takes.
  const std::vector<Index> shapes = {
      {}, {1}, {31, 16}, {9, 7, 11}, {3, 0}, {2, 3, 2, 3, 2, 3, 2, 3}, {2, 800}, {37, 130}};
  for (gd_device* device : emulated())
    for (const Index& sizes : shapes)
      for (const auto* dtypes : {&kInterpreted, &kAll})
        for (int steps : {14, 32}) {
          RandomChain chain(emulator(), device, sizes);
          // What is left of the most views.
          chain.most_outs = 32 - int(chain.in.size());
          chain.steps_of(steps, *dtypes);
          CHECK(chain.steps > 3);
          chain.check();
        }
}

TEST_CASE("gpu: chain of each statement and slope") {
  for (int32_t op = 0; op < def::statement_count(); ++op)
    for (int32_t dtype : {GD_F32, GD_F64, GD_I32, GD_I64, GD_U8, GD_BOOL}) {
      RandomChain chain(emulator(), emulated()[0], {70});
      for (size_t v = 0; v < 9; ++v) chain.step(GD_COPY, 0, 0, {int64_t(v)}, {}, dtype);
      const def::StatementText& s = def::statement_info(op);
      const std::vector<double> params(s.defaults.begin(), s.defaults.end());
      const bool select = s.kind == def::Kind::select;
      Index operands;
      for (size_t k = 0; k < s.operands.size(); ++k)
        operands.push_back(select && k == 0 ? 7 : int64_t(9 + 2 * k));
      for (int32_t out : {dtype, int32_t(GD_BOOL)})
        if (chain.step(GD_POINTWISE, op, 0, operands, params, out)) break;
      for (bool with_y : {false, true})
        for (size_t which = 0; which < s.operands.size(); ++which) {
          Index all = operands;
          all.insert(all.begin(), 11);
          all.push_back(with_y ? 12 : -1);
          chain.step(GD_POINTWISE_VJP, op, int64_t(which), all, params, dtype);
        }
      INFO(s.name << " of dtype " << dtype);
      chain.check();
    }
}

TEST_CASE("gpu: chain writes in place, in every way of running it") {
  for (gd_device* device : emulated())
    for (int longer : {0, 1, 30})  // one more step than there are names for its result
      for (Layout layout : {kPlain, kGaps, kNegative}) {
        Array<float> x({5, 14}, layout), y({5, 14});
        x.fill(small_number<float>);
        const std::vector<float> before = x.values();
        // x <- relu(x); y <- x + x, of the new x, and zeros
        Index ints{0};
        append(ints, GD_POINTWISE, id("relu"), 0, {0}, 0);
        append(ints, GD_POINTWISE, id("add"), 0, {1, 1}, longer ? -1 : 1);
        for (int k = 0; k < longer; ++k)
          append(ints, GD_POINTWISE, id("abs"), 0, {2 + k}, k + 1 < longer ? -1 : 1);
        run(emulator(), device, GD_CHAIN, 0, {x.view()}, {x.view(), y.view()}, {}, ints);
        const std::vector<float> now = x.values(), twice = y.values();
        for (size_t i = 0; i < before.size(); ++i) {
          CHECK(now[i] == std::max(before[i], 0.0f));
          CHECK(twice[i] == 2 * now[i]);
        }
      }
  // A chain of one step, and of complex numbers.
  Array<c64> z({7}), w({7});
  z.fill(small_number<c64>);
  Index one{0};
  append(one, GD_POINTWISE, id("neg"), 0, {0}, 0, GD_C64);
  run(emulator(), emulated()[0], GD_CHAIN, 0, {z.view()}, {w.view()}, {}, one);
  for (int64_t i = 0; i < 7; ++i) CHECK(w.at({i}).re == -z.at({i}).re);
}

TEST_CASE("gpu: chain of more parameters and layouts than the interpreter takes") {
  Array<float> x({3, 5, 7}), y({3, 5, 7});
  x.fill(small_number<float>);
  const std::vector<double> two{-0.5, 0.5};
  Index ints{0};
  std::vector<double> doubles;
  for (int k = 0; k < 32; ++k) {
    append(ints, GD_POINTWISE, id("hardtanh"), 0, {k}, k < 31 ? -1 : 0, GD_F32, 3);
    doubles.insert(doubles.end(), {-0.5 - k, 0.5, 7});
  }
  std::vector<Array<float>> many;
  for (int k = 0; k < 16; ++k) {
    many.emplace_back(Index{3, 5 + k, 7});
    many.back().fill(small_number<float>);
    many.back().sizes[1] = 5;
  }
  Index sum{0};
  std::vector<gd_view> in;
  for (int k = 0; k < 16; ++k) in.push_back(many[size_t(k)].view());
  for (int k = 0; k < 15; ++k)
    append(sum, GD_POINTWISE, id("add"), 0, {k ? 15 + k : 0, k + 1}, k < 14 ? -1 : 0);
  for (gd_device* device : emulated()) {
    run(emulator(), device, GD_CHAIN, 0, {x.view()}, {y.view()}, doubles, ints);
    each(x.sizes, [&](const Index& i) { CHECK(y.at(i) == std::clamp(x.at(i), -0.5f, 0.5f)); });
    run(emulator(), device, GD_CHAIN, 0, in, {y.view()}, {}, sum);
    each(x.sizes, [&](const Index& i) {
      float all = many[0].at(i);
      for (size_t k = 1; k < 16; ++k) all += many[k].at(i);
      CHECK(y.at(i) == all);
    });
  }
}

TEST_CASE("gpu: chain refuses what breaks its contract") {
  Array<float> x({70}), y({70});
  const auto refused = [&](Index ints, gd_view in) {
    gd_error e{};
    CHECK(try_call(emulator(), emulated()[0], GD_CHAIN, 0, {in}, {y.view()}, {}, ints, e) != GD_OK);
    return std::string(e.text);
  };
  const int32_t relu = id("relu"), add = id("add"), invert = id("bitwise_not");
  CHECK(has(refused({0}, x.view()), "1 to 32 steps"));
  CHECK(has(refused({1, GD_POINTWISE, relu, 0, 0, 1, 1, GD_F32, 0}, x.view()), "step 0 breaks"));
  CHECK(has(refused({1, GD_POINTWISE, relu, 0, 0, 1, 0, GD_F64, 0}, x.view()), "step 0 breaks"));
  CHECK(has(refused({1, GD_POINTWISE, relu, 0, 0, 1, 0, GD_BOOL, -1}, x.view()), "step 0 breaks"));
  CHECK(has(refused({1, GD_POINTWISE, relu, 0, 0, 1, 0, GD_F32}, x.view()), "end in step 0"));
  CHECK(has(refused({1, GD_POINTWISE, add, 0, 0, 1, 0, GD_F32, 0}, x.view()), "step 0 breaks"));
  CHECK(has(refused({1, GD_POINTWISE, add, 0, 0, 2, 0, -1, GD_F32, 0}, x.view()), "step 0 breaks"));
  CHECK(has(refused({1, GD_POINTWISE, 9999, 0, 0, 1, 0, GD_F32, 0}, x.view()), "step 0 breaks"));
  CHECK(has(refused({1, GD_REDUCE, GD_SUM, 0, 0, 1, 0, GD_F32, 0}, x.view()), "step 0 breaks"));
  CHECK(has(refused({1, GD_POINTWISE, invert, 0, 0, 1, 0, GD_F32, 0}, x.view()), "no kernel for"));
  CHECK(has(refused({1, GD_COPY, 0, 0, 0, 1, 0, GD_F16, -1}, x.view()), "step 0 breaks"));
  Array<float> other({71});
  CHECK(has(refused({1, GD_POINTWISE, relu, 0, 0, 1, 0, GD_F32, 0}, other.view()), "sizes (70,)"));
  Array<Half> narrow({70});
  CHECK(has(refused({1, GD_COPY, 0, 0, 0, 1, 0, GD_F32, 0}, narrow.view()), "16-bit"));
}
