// The reference device through its C table: each slot on cases small enough to be computed by hand,
// every shape of view, and the texts of refusals. What agrees with what over all ops and dtypes is
// the business of the op table's tests. Here: the device, copies, pointwise, reductions, scans.
#include "tests/helpers/not_finite.hpp"
#include "tests/helpers/reference_calls.hpp"

#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>

using namespace gradus;
using gradus::test::absent;
using gradus::test::array;
using gradus::test::id;
using gradus::test::Result;
using gradus::test::run;
using gradus::testing::kInf;
using gradus::testing::kNaN;

TEST_CASE("reference: the table, its device and its memory") {
  const gd_table* t = reference::table();
  CHECK(t == reference::table());
  CHECK(t->magic == GD_MAGIC);
  CHECK(t->struct_size == sizeof(gd_table));
  CHECK(std::string(t->kind) == "reference");
  CHECK(t->statement_count == def::Statements::size);
  gd_error error{};
  int32_t count = 0;
  CHECK(t->probe(&count, &error) == GD_OK);
  CHECK(count == 1);
  gd_device* device = nullptr;
  CHECK(t->open(0, "{}", &device, &error) == GD_OK);
  CHECK(t->open(1, "{}", &device, &error) == GD_BAD_DEVICE);
  CHECK(std::string(error.text) == "reference: there is one device, 0, and no device 1");
  gd_info info;
  CHECK(t->info(0, &info, &error) == GD_OK);
  CHECK(t->capabilities(device) == GD_CAP_HOST_MEMORY);
  for (size_t bytes : {size_t(0), size_t(1), size_t(1000)}) {
    void* p = nullptr;
    CHECK(t->alloc(device, bytes, &p, &error) == GD_OK);
    CHECK(reinterpret_cast<uintptr_t>(p) % 64 == 0);
    t->free(device, p);
  }
  void* p = nullptr;
  CHECK(t->alloc(device, ~size_t(0), &p, &error) == GD_OOM);
  int32_t from[] = {1, 2}, to[] = {0, 0};
  CHECK(t->copy(device, nullptr, to, from, sizeof to, GD_ON_DEVICE, &error) == GD_OK);
  CHECK(to[1] == 2);
  t->close(device);
}

TEST_CASE("reference copy: every layout of view") {
  auto source = array({2, 3}, {1, 2, 3, 4, 5, 6});
  SUBCASE("transposed") {
    auto in = source.laid({3, 2}, {1, 3}, 0);
    auto out = array({3, 2});
    CHECK(run(GD_COPY, 0, {in}, {out}).text == "");
    CHECK(out.data == std::vector<float>{1, 4, 2, 5, 3, 6});
  }
  SUBCASE("flipped along both axes, into a strided output") {
    auto in = source.laid({2, 3}, {-3, -1}, 5);
    auto out = array({12}, std::vector<float>(12, 0)).laid({2, 3}, {-6, 2}, 6);
    CHECK(run(GD_COPY, 0, {in}, {out}).text == "");
    CHECK(out.data == std::vector<float>{3, 0, 2, 0, 1, 0, 6, 0, 5, 0, 4, 0});
  }
  SUBCASE("expanded, and overlapping windows") {
    auto in = source.laid({2, 2, 3}, {0, 2, 1}, 1);
    auto out = array({2, 2, 3});
    CHECK(run(GD_COPY, 0, {in}, {out}).text == "");
    CHECK(out.data == std::vector<float>{2, 3, 4, 4, 5, 6, 2, 3, 4, 4, 5, 6});
  }
  SUBCASE("0-d, and empty without memory") {
    auto in = source.laid({}, {}, 4);
    auto out = array({});
    CHECK(run(GD_COPY, 0, {in}, {out}).text == "");
    CHECK(out.data[0] == 5);
    const int64_t sizes[] = {2, 0}, strides[] = {0, 1};
    const gd_view empty{0, nullptr, GD_F32, 2, 7, sizes, strides};
    CHECK(run(GD_COPY, 0, {empty}, {empty}).text == "");
  }
}

TEST_CASE("reference copy: casts") {
  auto x = array<double>({7}, {-1.5, 0, 0.5, 300, kNaN, kInf, -1e300});
  auto i = array<int32_t>({7});
  CHECK(run(GD_COPY, 0, {x}, {i}).text == "");
  CHECK(i.data == std::vector<int32_t>{-1, 0, 0, 300, 0, INT32_MAX, INT32_MIN});
  auto b = array<bool>({7});
  CHECK(run(GD_COPY, 0, {x}, {b}).text == "");
  CHECK(b.data == std::vector<uint8_t>{1, 0, 1, 1, 1, 1, 1});
  auto u = array<uint8_t>({7});
  CHECK(run(GD_COPY, 0, {i}, {u}).text == "");
  CHECK(u.data == std::vector<uint8_t>{255, 0, 0, 44, 0, 255, 0});

  auto z = array<c128>({2}, {{3, 4}, {0, 1}});
  auto r = array<float>({2});
  CHECK(run(GD_COPY, 0, {z}, {r}).text == "");
  CHECK(r.data == std::vector<float>{3, 0});
  auto truth = array<bool>({2});
  CHECK(run(GD_COPY, 0, {z}, {truth}).text == "");
  CHECK(truth.data == std::vector<uint8_t>{1, 1});

  // 1 + 2^-11 is a tie in binary16 and goes down to even; a little more goes up, even where f32
  // would have called it a tie first.
  auto h = array<Half>({3});
  auto ties =
      array<double>({3}, {1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-40, -(1 + 3 * 0x1p-11 - 0x1p-40)});
  CHECK(run(GD_COPY, 0, {ties}, {h}).text == "");
  CHECK(float(h.data[0]) == 1.0f);
  CHECK(float(h.data[1]) == 1 + 0x1p-10f);
  CHECK(float(h.data[2]) == -(1 + 0x1p-10f));
  auto brain = array<BFloat16>({2});
  auto large = array<int64_t>({2}, {(int64_t(257) << 40) + 1, INT64_MAX});
  CHECK(run(GD_COPY, 0, {large}, {brain}).text == "");
  CHECK(float(brain.data[0]) == std::ldexp(258.0f, 40));
  CHECK(float(brain.data[1]) == 0x1p63f);
}

TEST_CASE("reference fill") {
  auto f = array<Half>({2, 2});
  CHECK(run(GD_FILL, 0, {}, {f}, {1.5, 0}).text == "");
  CHECK(float(f.data[3]) == 1.5f);
  auto z = array<c64>({1});
  CHECK(run(GD_FILL, 0, {}, {z}, {1, -2}).text == "");
  CHECK(z.data[0] == c64(1, -2));
  auto i = array<int64_t>({2});
  CHECK(run(GD_FILL, 0, {}, {i}, {}, {INT64_MAX}).text == "");
  CHECK(i.data[1] == INT64_MAX);
  CHECK(run(GD_FILL, 0, {}, {i}, {1, 0}).text ==
        "reference fill: expected 0 doubles and 1 ints, got 2 and 0");
  auto twice = array({1}, {0}).laid({2}, {0}, 0);
  CHECK(run(GD_FILL, 0, {}, {twice}, {1, 0}).text ==
        "reference fill: output 0 overlaps itself: stride 0 on axis 0 of (2,)");
}

TEST_CASE("reference pointwise") {
  SUBCASE("broadcast operands, more than one block") {
    auto a = array({300, 2});
    for (size_t k = 0; k < a.data.size(); ++k) a.data[k] = float(k);
    auto b = array({2}, {10, 20}).laid({300, 2}, {0, 1}, 0);
    auto out = array({300, 2});
    CHECK(run(GD_POINTWISE, id<def::add>(), {a, b}, {out}).text == "");
    CHECK(out.data[0] == 10);
    CHECK(out.data[599] == 619);
    CHECK(run(GD_POINTWISE, id<def::add>(), {a, b}, {a}).text == "");  // in place
    CHECK(a.data == out.data);
  }
  SUBCASE("comparison, choice, parameters") {
    auto a = array({3}, {1, 5, float(kNaN)}), b = array({3}, {2, 4, 0}), out = array({3});
    auto m = array<bool>({3});
    CHECK(run(GD_POINTWISE, id<def::lt>(), {a, b}, {m}).text == "");
    CHECK(m.data == std::vector<uint8_t>{1, 0, 0});
    CHECK(run(GD_POINTWISE, id<def::where>(), {m, a, b}, {out}).text == "");
    CHECK(out.data == std::vector<float>{1, 4, 0});
    CHECK(run(GD_POINTWISE, id<def::clamp>(), {b}, {out}, {1.5, 3}).text == "");
    CHECK(out.data == std::vector<float>{2, 3, 1.5});
  }
  SUBCASE("complex to real, integers that wrap, f16 through f32") {
    auto z = array<c64>({1}, {{3, -4}});
    auto r = array<float>({1});
    CHECK(run(GD_POINTWISE, id<def::abs>(), {z}, {r}).text == "");
    CHECK(r.data[0] == 5);
    auto i = array<int32_t>({1}, {INT32_MAX}), one = array<int32_t>({1}, {1});
    CHECK(run(GD_POINTWISE, id<def::add>(), {i, one}, {i}).text == "");
    CHECK(i.data[0] == INT32_MIN);
    auto h = array<Half>({1}, {Half(1.0f)}), out = array<Half>({1});
    CHECK(run(GD_POINTWISE, id<def::exp>(), {h}, {out}).text == "");
    CHECK(float(out.data[0]) == float(Half(std::exp(1.0f))));
    auto m = array<bool>({1});
    CHECK(run(GD_POINTWISE, id<def::eq>(), {h, h}, {m}).text == "");
    CHECK(m.data[0] == 1);
  }
}

TEST_CASE("reference pointwise: refusals") {
  auto x = array({2}, {1, 2}), y = array({3});
  auto i = array<int32_t>({2}, {1, 2});
  const int sigmoid = id<def::sigmoid>(), add = id<def::add>();
  Result r = run(GD_POINTWISE, sigmoid, {i}, {i});
  CHECK(r.code == GD_UNSUPPORTED);
  CHECK(r.text == "reference pointwise sigmoid: dtype i32 is not read by this statement");
  r = run(GD_POINTWISE, 100000, {x}, {x});
  CHECK(r.code == GD_INVALID);
  CHECK(r.text == "reference pointwise: no statement has id 100000");
  CHECK(run(GD_POINTWISE, add, {x}, {x}).text ==
        "reference pointwise add: expected 2 inputs and 1 outputs, got 1 and 1");
  CHECK(run(GD_POINTWISE, add, {x, x}, {y}).text ==
        "reference pointwise add: a should have sizes (3,), got (2,)");
  CHECK(run(GD_POINTWISE, add, {x, i}, {i}).text ==
        "reference pointwise add: a should have dtype i32, got f32");
  CHECK(run(GD_POINTWISE, add, {x, x}, {i}).text ==
        "reference pointwise add: output should have dtype f32, got i32");
  CHECK(run(GD_POINTWISE, id<def::clamp>(), {x}, {x}).text ==
        "reference pointwise clamp: expected 2 doubles and 0 ints, got 0 and 0");
  CHECK(run(GD_POINTWISE, sigmoid, {absent()}, {array({})}).text ==
        "reference pointwise sigmoid: input 0 is left out");
  gd_view user = x;
  user.dtype = GD_USER_DTYPE;
  CHECK(run(GD_POINTWISE, sigmoid, {user}, {x}).code == GD_UNSUPPORTED);
  gd_call old{};
  old.struct_size = 8;
  gd_error error{};
  CHECK(reference::table()->slot[GD_COPY](nullptr, nullptr, &old, &error) == GD_INVALID);
}

TEST_CASE("reference pointwise_vjp") {
  auto g = array({2}, {1, 10}), y = array({2}, {0.25f, 0.5f}), out = array({2});
  CHECK(run(GD_POINTWISE_VJP, id<def::sigmoid>(), {g, absent(), y}, {out}, {}, {0}).text == "");
  CHECK(out.data == std::vector<float>{0.1875f, 2.5f});

  auto a = array({2}, {3, 4}), b = array({2}, {5, 6});
  CHECK(run(GD_POINTWISE_VJP, id<def::mul>(), {g, a, absent(), absent()}, {g}, {}, {1}).text == "");
  CHECK(g.data == std::vector<float>{3, 40});  // in place of the cotangent
  // What the slope reads must not be left out; if it is, the result says so.
  CHECK(run(GD_POINTWISE_VJP, id<def::mul>(), {b, absent(), b, absent()}, {out}, {}, {1}).text ==
        "");
  CHECK(std::isnan(out.data[0]));

  auto m = array<bool>({2}, {1, 0});
  CHECK(
      run(GD_POINTWISE_VJP, id<def::where>(), {b, m, absent(), absent(), absent()}, {out}, {}, {2})
          .text == "");
  CHECK(out.data == std::vector<float>{0, 6});
  CHECK(run(GD_POINTWISE_VJP, id<def::where>(), {b, m, a, a, a}, {out}, {}, {0}).text ==
        "reference pointwise_vjp where: operand 0 has no slope in dtype f32");

  // vjp of z^2 is conj(2 z) g
  auto zg = array<c128>({1}, {{1, 1}}), z = array<c128>({1}, {{2, 3}});
  CHECK(run(GD_POINTWISE_VJP, id<def::square>(), {zg, z, absent()}, {zg}, {}, {0}).text == "");
  CHECK(zg.data[0] == c128(4, -6) * c128(1, 1));
  CHECK(run(GD_POINTWISE_VJP, id<def::abs>(), {z, z, absent()}, {z}, {}, {0}).code ==
        GD_UNSUPPORTED);
}

TEST_CASE("reference reduce") {
  auto x = array({2, 3}, {1, 2, 3, 4, 5, float(kNaN)});
  SUBCASE("sums over rows, columns, everything") {
    auto rows = array({2, 1}), columns = array({1, 3}), all = array({1, 1});
    CHECK(run(GD_REDUCE, GD_SUM, {x}, {rows}).text == "");
    CHECK(rows.data[0] == 6);
    CHECK(run(GD_REDUCE, GD_PROD, {x}, {columns}).text == "");
    CHECK(columns.data[1] == 10);
    CHECK(run(GD_REDUCE, GD_MAX, {x}, {all}).text == "");
    CHECK(std::isnan(all.data[0]));
    auto flipped = x.laid({2, 2}, {-3, -1}, 4);
    CHECK(run(GD_REDUCE, GD_MIN, {flipped}, {rows}).text == "");
    CHECK(rows.data == std::vector<float>{4, 1});
  }
  SUBCASE("places: first winner, NaN wins") {
    auto v = array({2, 3}, {7, 9, 9, float(kNaN), 9, float(kNaN)});
    auto at = array<int64_t>({2, 1});
    CHECK(run(GD_REDUCE, GD_ARGMAX, {v}, {at}, {}, {1}).text == "");
    CHECK(at.data == std::vector<int64_t>{1, 0});
    auto down = array<int64_t>({1, 3});
    CHECK(run(GD_REDUCE, GD_ARGMIN, {v}, {down}, {}, {0}).text == "");
    CHECK(down.data == std::vector<int64_t>{1, 0, 1});
    CHECK(run(GD_REDUCE, GD_ARGMAX, {v}, {down}, {}, {1}).text ==
          "reference reduce argmax: output should have sizes (2, 1), got (1, 3)");
  }
  SUBCASE("f32 adds in more than f32; integers in i64") {
    auto one = array({1}, {1}).laid({(1 << 24) + 100}, {0}, 0);
    auto sum = array({1});
    CHECK(run(GD_REDUCE, GD_SUM, {one}, {sum}).text == "");
    CHECK(sum.data[0] == 16777316.0f);
    auto i = array<int32_t>({2}, {INT32_MAX, INT32_MAX});
    auto wide = array<int64_t>({1});
    CHECK(run(GD_REDUCE, GD_SUM, {i}, {wide}).text == "");
    CHECK(wide.data[0] == 2 * int64_t(INT32_MAX));
    auto big = array<int64_t>({1}, {(int64_t(1) << 62) + 1}), greatest = array<int64_t>({1});
    CHECK(run(GD_REDUCE, GD_MAX, {big}, {greatest}).text == "");
    CHECK(greatest.data[0] == big.data[0]);
    auto z = array<c64>({2}, {{1, 2}, {3, 4}}), zs = array<c64>({1});
    CHECK(run(GD_REDUCE, GD_PROD, {z}, {zs}).text == "");
    CHECK(zs.data[0] == c64(-5, 10));
  }
  SUBCASE("empty lines") {
    auto none = array({2, 0});
    auto out = array({2, 1}, {9, 9});
    CHECK(run(GD_REDUCE, GD_SUM, {none}, {out}).text == "");
    CHECK(out.data == std::vector<float>{0, 0});
    CHECK(run(GD_REDUCE, GD_PROD, {none}, {out}).text == "");
    CHECK(out.data == std::vector<float>{1, 1});
    auto truth = array<bool>({2, 1});
    CHECK(run(GD_REDUCE, GD_ALL, {none}, {truth}).text == "");
    CHECK(truth.data == std::vector<uint8_t>{1, 1});
    CHECK(run(GD_REDUCE, GD_ANY, {none}, {truth}).text == "");
    CHECK(truth.data == std::vector<uint8_t>{0, 0});
    const Result r = run(GD_REDUCE, GD_MAX, {none}, {out});
    CHECK(r.code == GD_INVALID);
    CHECK(r.text == "reference reduce max: nothing to choose from: input (2, 0)");
    auto kept = array({1, 0});
    CHECK(run(GD_REDUCE, GD_MAX, {none}, {kept}).text == "");
  }
  SUBCASE("0-d, and refusals") {
    auto scalar = array({}, {3}), out = array({});
    CHECK(run(GD_REDUCE, GD_SUM, {scalar}, {out}).text == "");
    CHECK(out.data[0] == 3);
    auto at = array<int64_t>({}, {7});
    CHECK(run(GD_REDUCE, GD_ARGMAX, {scalar}, {at}, {}, {0}).text == "");
    CHECK(at.data[0] == 0);
    auto wrong = array({2, 2});
    CHECK(run(GD_REDUCE, GD_SUM, {x}, {wrong}).text ==
          "reference reduce sum: input (2, 3) does not reduce to output (2, 2)");
    auto z = array<c64>({1});
    CHECK(run(GD_REDUCE, GD_MAX, {z}, {z}).text ==
          "reference reduce max: complex numbers (c64) have no order");
  }
}

TEST_CASE("reference scan") {
  auto x = array<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6}), out = array<int32_t>({2, 3});
  CHECK(run(GD_SCAN, GD_SUM, {x}, {out}, {}, {1, 0}).text == "");
  CHECK(out.data == std::vector<int32_t>{1, 3, 6, 4, 9, 15});
  CHECK(run(GD_SCAN, GD_SUM, {x}, {out}, {}, {1, 1}).text == "");
  CHECK(out.data == std::vector<int32_t>{6, 5, 3, 15, 11, 6});
  CHECK(run(GD_SCAN, GD_PROD, {x}, {x}, {}, {0, 0}).text == "");
  CHECK(x.data == std::vector<int32_t>{1, 2, 3, 4, 10, 18});
  auto v = array({4}, {2, float(kNaN), 9, 1});
  CHECK(run(GD_SCAN, GD_MAX, {v}, {v}, {}, {0, 0}).text == "");
  CHECK(v.data[0] == 2);
  CHECK((std::isnan(v.data[1]) && std::isnan(v.data[3])));
  CHECK(run(GD_SCAN, GD_SUM, {v}, {v}, {}, {1, 0}).text ==
        "reference scan sum: axis 1 is not an axis of (4,)");
}
