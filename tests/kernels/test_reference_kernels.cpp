// The reference device through its C table: each slot on cases small enough to be computed by hand,
// every shape of view, and the texts of refusals. What agrees with what over all ops and dtypes is
// the business of the op table's tests.
#include "engine/abi/dtype.hpp"
#include "engine/abi/philox.hpp"
#include "kernels/reference/reference.hpp"
#include "ops/def/statements.hpp"
#include "tests/helpers/not_finite.hpp"

#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <string>
#include <vector>

using namespace gradus;
using gradus::testing::kInf;
using gradus::testing::kNaN;

namespace {

// A view and the memory under it. bool is kept in bytes.
template <class T>
struct Array {
  using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
  std::vector<Stored> data;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;

  Array(std::vector<int64_t> n, std::vector<Stored> x) : data(std::move(x)), sizes(std::move(n)) {
    strides.resize(sizes.size());
    int64_t step = 1;
    for (size_t d = sizes.size(); d-- > 0; step *= sizes[d]) strides[d] = step;
    if (data.empty()) data.resize(size_t(step));
  }
  Array laid(std::vector<int64_t> n, std::vector<int64_t> s, int64_t o) const {
    Array v = *this;
    v.sizes = std::move(n);
    v.strides = std::move(s);
    v.offset = o;
    return v;
  }
  operator gd_view() {
    return {1,      data.data(),  int32_t(dtype_of<T>), int32_t(sizes.size()),
            offset, sizes.data(), strides.data()};
  }
};
template <class T = float>
Array<T> array(std::vector<int64_t> sizes, std::vector<typename Array<T>::Stored> x = {}) {
  return Array<T>(std::move(sizes), std::move(x));
}

gd_view absent() { return gd_view{}; }

struct Result {
  gd_status code;
  std::string text;  // empty if all is well
};

Result run(gd_slot slot, int op, std::vector<gd_view> in, std::vector<gd_view> out,
           std::vector<double> doubles = {}, std::vector<int64_t> ints = {}) {
  gd_call call{};
  call.struct_size = sizeof call;
  call.slot = slot;
  call.op = op;
  call.n_in = int32_t(in.size());
  call.n_out = int32_t(out.size());
  call.n_doubles = int32_t(doubles.size());
  call.n_ints = int32_t(ints.size());
  call.in = in.data();
  call.out = out.data();
  call.doubles = doubles.data();
  call.ints = ints.data();
  gd_error error{};
  const gd_status code = reference::table()->slot[slot](nullptr, nullptr, &call, &error);
  return {code, error.text};
}
template <class S>
int id() {
  return def::id_of<S>();
}

}  // namespace

TEST_CASE("reference: the table, its device and its memory") {
  const gd_table* t = reference::table();
  CHECK(t == reference::table());
  CHECK(t->magic == GD_MAGIC);
  CHECK(t->struct_size == sizeof(gd_table));
  CHECK(std::string(t->kind) == "reference");
  CHECK(t->statement_count == def::Statements::size);
  CHECK(!t->slot[GD_LINALG]);
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

// (i, j, k) for a (2, 3) times b (3, 2); b is given as its transpose.
TEST_CASE("reference contract: sums of products") {
  auto a = array({2, 3}, {1, 2, 3, 4, 5, 6}).laid({2, 2, 3}, {3, 0, 1}, 0);
  auto b = array({2, 3}, {1, 0, 1, 2, 1, 0}).laid({2, 2, 3}, {0, 3, 1}, 0);
  auto out = array({2, 2}, {1, float(kNaN), 1, 1});
  CHECK(run(GD_CONTRACT, 0, {a, b}, {out}, {1, 0, 0, 0}, {2, GD_STANDARD, 0, 0}).text == "");
  CHECK(out.data == std::vector<float>{4, 4, 10, 13});  // beta = 0 does not read out
  auto bias = array({2}, {100, 200}).laid({2, 2}, {0, 1}, 0);
  CHECK(run(GD_CONTRACT, 0, {a, b, bias}, {out}, {2, 0, 10, 0}, {2, GD_STANDARD, 0, 0}).text == "");
  CHECK(out.data == std::vector<float>{148, 248, 220, 356});

  auto z = array<c64>({1}, {{1, 2}}), w = array<c64>({1}, {{3, -1}}), y = array<c64>({});
  CHECK(run(GD_CONTRACT, 0, {z, w}, {y}, {1, 0, 0, 0}, {0, GD_STANDARD, 0, 0}).text == "");
  CHECK(y.data[0] == c64(5, 5));
  CHECK(run(GD_CONTRACT, 0, {z, w}, {y}, {0, 1, 0, 0}, {0, GD_STANDARD, 1, 0}).text == "");
  CHECK(y.data[0] == c64(7, 1));  // i (1 - 2i)(3 - i) = i (1 - 7i)

  auto none = array<double>({2, 0}), zero = array<double>({2}, {9, 9});
  CHECK(run(GD_CONTRACT, 0, {none, none}, {zero}, {1, 0, 0, 0}, {1, GD_STANDARD, 0, 0}).text == "");
  CHECK(zero.data == std::vector<double>{0, 0});
  auto i = array<int32_t>({2}, {INT32_MAX, 2}), dot = array<int32_t>({});
  CHECK(run(GD_CONTRACT, 0, {i, i}, {dot}, {1, 0, 0, 0}, {0, GD_STANDARD, 0, 0}).text == "");
  CHECK(dot.data[0] == 5);  // (2^31 - 1)^2 + 4 modulo 2^32
}

TEST_CASE("reference contract: tropical algebras and their winners") {
  const float inf = float(kInf);
  // Rows: a tie, nothing but the zero, a NaN.
  auto a = array({3, 3}, {1, 3, 2, -inf, -inf, -inf, 5, float(kNaN), 7});
  auto b = array({3}, {4, 2, 3}).laid({3, 3}, {0, 1}, 0), out = array({3});
  auto at = array<int64_t>({3});
  CHECK(run(GD_CONTRACT, 0, {a, b}, {out, at}, {1, 0, 0, 0}, {1, GD_MAX_PLUS, 0, 0}).text == "");
  CHECK(out.data[0] == 5);
  CHECK(out.data[1] == -inf);
  CHECK(std::isnan(out.data[2]));
  CHECK(at.data == std::vector<int64_t>{0, -1, 1});
  CHECK(run(GD_CONTRACT, 0, {a, b}, {out, at}, {1, 0, 0, 0}, {1, GD_MIN_PLUS, 0, 0}).text == "");
  CHECK(out.data[0] == 5);
  CHECK(at.data[0] == 0);
  CHECK(out.data[1] == -inf);
  CHECK(run(GD_CONTRACT, 0, {a, b}, {out, at}, {1, 0, 0, 0}, {1, GD_MAX_TIMES, 0, 0}).text == "");
  CHECK(out.data[0] == 6);
  CHECK(at.data[0] == 1);

  // -inf + inf is the zero of max-plus, never NaN.
  auto p = array({2}, {-inf, -inf}), q = array({2}, {inf, 0}), s = array({});
  CHECK(run(GD_CONTRACT, 0, {p, q}, {s}, {1, 0, 0, 0}, {0, GD_MAX_PLUS, 0, 0}).text == "");
  CHECK(s.data[0] == -inf);
  // Max-times over negative products is their maximum; 0 stands only for an empty sum.
  auto n = array({2}, {-1, -2}), one = array({2}, {1, 1});
  auto place = array<int64_t>({});
  CHECK(run(GD_CONTRACT, 0, {n, one}, {s, place}, {1, 0, 0, 0}, {0, GD_MAX_TIMES, 0, 0}).text ==
        "");
  CHECK(s.data[0] == -1);
  CHECK(place.data[0] == 0);
  auto none = array({0});
  const float empty[] = {-inf, inf, 0};
  for (int algebra : {GD_MAX_PLUS, GD_MIN_PLUS, GD_MAX_TIMES}) {
    CHECK(run(GD_CONTRACT, 0, {none, none}, {s, place}, {1, 0, 0, 0}, {0, algebra, 0, 0}).text ==
          "");
    CHECK(s.data[0] == empty[algebra - 1]);
    CHECK(place.data[0] == -1);
  }

  // Integers saturate at the zero.
  auto i = array<int32_t>({2}, {INT32_MIN, -5}), j = array<int32_t>({2}, {7, INT32_MIN + 1});
  auto sum = array<int32_t>({});
  CHECK(run(GD_CONTRACT, 0, {i, j}, {sum, place}, {1, 0, 0, 0}, {0, GD_MAX_PLUS, 0, 0}).text == "");
  CHECK(sum.data[0] == INT32_MIN);
  CHECK(place.data[0] == -1);
}

TEST_CASE("reference contract: refusals") {
  auto a = array({2}, {1, 2}), out = array({});
  auto i = array<int32_t>({2}, {1, 2}), total = array<int32_t>({});
  auto at = array<int64_t>({});
  const std::vector<double> plain{1, 0, 0, 0};
  CHECK(run(GD_CONTRACT, 0, {a, i}, {out}, plain, {0, 0, 0, 0}).text ==
        "reference contract standard: b should have dtype f32, got i32");
  CHECK(run(GD_CONTRACT, 0, {a, a}, {out}, plain, {1, 0, 0, 0}).text ==
        "reference contract standard: output should have sizes (2,), got ()");
  CHECK(run(GD_CONTRACT, 0, {i, i}, {total}, {0.5, 0, 0, 0}, {0, 0, 0, 0}).text ==
        "reference contract standard: alpha = 0.5 is no integer, but dtype is i32");
  CHECK(run(GD_CONTRACT, 0, {a, a}, {out, at}, plain, {0, 0, 0, 0}).text ==
        "reference contract standard: a sum has no winners");
  CHECK(run(GD_CONTRACT, 0, {a, a}, {out}, {2, 0, 0, 0}, {0, GD_MAX_PLUS, 0, 0}).text ==
        "reference contract max-plus: tropical algebras take alpha = 1, beta = 0 and no bias");
  auto z = array<c64>({2}), zo = array<c64>({});
  CHECK(run(GD_CONTRACT, 0, {z, z}, {zo}, plain, {0, GD_MAX_PLUS, 0, 0}).code == GD_UNSUPPORTED);
  CHECK(run(GD_CONTRACT, 0, {a, a}, {out}, plain, {0, 9, 0, 0}).text ==
        "reference contract: no algebra has code 9");
}

TEST_CASE("reference gather and scatter_add") {
  auto x = array({3, 2}, {1, 2, 3, 4, 5, 6});
  auto at = array<int64_t>({2, 2}, {2, 0, 1, 1});
  auto out = array({2, 2});
  CHECK(run(GD_GATHER, 0, {x, at}, {out}, {}, {0}).text == "");
  CHECK(out.data == std::vector<float>{5, 2, 3, 4});
  auto narrow = array<int32_t>({3, 1}, {1, 0, 1});
  auto column = array({3, 1});
  CHECK(run(GD_GATHER, 0, {x, narrow}, {column}, {}, {1}).text == "");
  CHECK(column.data == std::vector<float>{2, 3, 6});

  auto sum = array({3, 2}, {100, 100, 100, 100, 100, 100});
  CHECK(run(GD_SCATTER_ADD, 0, {at, out}, {sum}, {}, {0}).text == "");
  CHECK(sum.data == std::vector<float>{100, 102, 103, 104, 105, 100});
  auto same = array<int64_t>({4}, {1, 1, 1, 1}), h = array<int64_t>({4}, {1, 2, 3, 4});
  auto total = array<int64_t>({2});
  CHECK(run(GD_SCATTER_ADD, 0, {same, h}, {total}, {}, {0}).text == "");
  CHECK(total.data == std::vector<int64_t>{0, 10});

  auto bad = array<int64_t>({2, 2}, {0, 0, 0, 3});
  const std::vector<float> before = out.data;
  CHECK(run(GD_GATHER, 0, {x, bad}, {out}, {}, {0}).text ==
        "reference gather: index 3 is outside [0, 3) of axis 0");
  CHECK(out.data == before);
  bad.data[0] = -1;
  CHECK(run(GD_SCATTER_ADD, 0, {bad, out}, {sum}, {}, {0}).text ==
        "reference scatter_add: index -1 is outside [0, 3) of axis 0");
  CHECK(run(GD_GATHER, 0, {x, out}, {out}, {}, {0}).text ==
        "reference gather: an index is i64 or i32, got f32");
  CHECK(run(GD_GATHER, 0, {x, at}, {out}, {}, {1}).text ==
        "reference gather: input should have sizes (2, 2), got (3, 2)");
}

TEST_CASE("Philox4x32-10: the published vectors") {
  const auto words = [](uint64_t seed, uint64_t counter, uint64_t high) {
    const PhiloxWords p = philox(seed, counter, high);
    return std::vector<uint32_t>(p.w, p.w + 4);
  };
  const uint64_t ones = ~uint64_t(0);
  CHECK(words(0, 0, 0) == std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words(ones, ones, ones) ==
        std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

TEST_CASE("reference random") {
  auto state = array<int64_t>({2}, {7, 1000});
  const int64_t n = 20000;
  const auto moments = [](const auto& x, double& mean, double& variance) {
    mean = variance = 0;
    for (auto v : x) mean += double(v) / double(x.size());
    for (auto v : x) variance += (double(v) - mean) * (double(v) - mean) / double(x.size());
  };
  double mean, variance;
  auto x = array<double>({n});
  CHECK(run(GD_RANDOM, GD_UNIFORM, {state}, {x}, {-1, 3}, {0}).text == "");
  moments(x.data, mean, variance);
  CHECK(std::fabs(mean - 1) < 0.04);
  CHECK(std::fabs(variance - 16.0 / 12) < 0.06);
  CHECK(run(GD_RANDOM, GD_NORMAL, {state}, {x}, {2, 0.5}, {0}).text == "");
  moments(x.data, mean, variance);
  CHECK(std::fabs(mean - 2) < 0.02);
  CHECK(std::fabs(variance - 0.25) < 0.012);
  auto m = array<bool>({n});
  CHECK(run(GD_RANDOM, GD_BERNOULLI, {state}, {m}, {0.3}, {0}).text == "");
  moments(m.data, mean, variance);
  CHECK(std::fabs(mean - 0.3) < 0.02);

  // Seed and position give the number: a later relative start is a shift.
  auto first = array({6}), later = array({5});
  CHECK(run(GD_RANDOM, GD_UNIFORM, {state}, {first}, {0, 1}, {0}).text == "");
  CHECK(run(GD_RANDOM, GD_UNIFORM, {state}, {later}, {0, 1}, {1}).text == "");
  CHECK(std::vector<float>(first.data.begin() + 1, first.data.end()) == later.data);
  CHECK(first.data[0] == uniform_f32(random_bits(7, 1000)));
  CHECK(run(GD_RANDOM, GD_UNIFORM, {later}, {first}, {0, 1}, {0}).text ==
        "reference random uniform: {seed, base} should have dtype i64, got f32");
}

TEST_CASE("reference softmax") {
  auto x = array<double>({2, 2}, {0, std::log(3.0), 1000, 1000}), y = array<double>({2, 2});
  CHECK(run(GD_SOFTMAX, 0, {x}, {y}, {}, {1, 0}).text == "");
  CHECK(y.data[0] == doctest::Approx(0.25).epsilon(1e-15));
  CHECK(y.data[2] == 0.5);
  CHECK(run(GD_SOFTMAX, 0, {x}, {x}, {}, {1, 1}).text == "");
  CHECK(x.data[1] == doctest::Approx(std::log(0.75)).epsilon(1e-14));
  auto none = array({0, 3});
  CHECK(run(GD_SOFTMAX, 0, {none}, {none}, {}, {0, 0}).text == "");
  auto i = array<int32_t>({2});
  CHECK(run(GD_SOFTMAX, 0, {i}, {i}, {}, {0, 0}).text ==
        "reference softmax: dtype i32 is not read; f32 f64 f16 bf16 are");
}

TEST_CASE("reference optimizer_step") {
  auto gain = array<double>({}, {0.5});
  SUBCASE("sgd with momentum, two steps by hand") {
    auto p = array<double>({1}, {1}), v = array<double>({1}, {9}), g = array<double>({1}, {4});
    auto lr = array<double>({1}, {0.1});
    // g = 0.5 * 4 + 0.1 * 1 = 2.1; v = g; p = 1 - 0.21
    CHECK(run(GD_OPTIMIZER_STEP, GD_SGD, {g, lr, gain}, {p, v}, {0.9, 0.5, 0.1, 0}, {1}).text ==
          "");
    CHECK(p.data[0] == doctest::Approx(0.79).epsilon(1e-15));
    CHECK(v.data[0] == doctest::Approx(2.1).epsilon(1e-15));
    // g = 2 + 0.079 = 2.079; v = 1.89 + 0.5 * 2.079 = 2.9295; nesterov: 2.079 + 0.9 v = 4.71555
    CHECK(run(GD_OPTIMIZER_STEP, GD_SGD, {g, lr, gain}, {p, v}, {0.9, 0.5, 0.1, 1}, {0}).text ==
          "");
    CHECK(v.data[0] == doctest::Approx(2.9295).epsilon(1e-15));
    CHECK(p.data[0] == doctest::Approx(0.79 - 0.471555).epsilon(1e-15));
    CHECK(run(GD_OPTIMIZER_STEP, GD_SGD, {g, lr, gain}, {p, absent()}, {0, 0, 0, 0}, {0}).text ==
          "");
    CHECK(p.data[0] == doctest::Approx(0.318445 - 0.2).epsilon(1e-14));
    CHECK(run(GD_OPTIMIZER_STEP, GD_SGD, {g, lr, gain}, {p, absent()}, {0.9, 0, 0, 0}, {0}).text ==
          "reference optimizer_step sgd: a state is left out");
  }
  SUBCASE("the first step of adam moves by lr whatever the gradient") {
    auto p = array<float>({2}, {1, 1}), m = array<float>({2}), v = array<float>({2});
    auto g = array<float>({2}, {1e-3f, -50});
    auto hyper = array<double>({3}, {0.01, 1 - 0.9, 1 - 0.999});
    CHECK(run(GD_OPTIMIZER_STEP, GD_ADAM, {g, hyper, gain}, {p, m, v}, {0.9, 0.999, 0, 0}).text ==
          "");
    CHECK(p.data[0] == doctest::Approx(0.99).epsilon(1e-6));
    CHECK(p.data[1] == doctest::Approx(1.01).epsilon(1e-6));
    CHECK(m.data[1] == doctest::Approx(-2.5).epsilon(1e-6));
    CHECK(v.data[1] == doctest::Approx(0.625).epsilon(1e-6));
    // adamw with no gradient only decays.
    auto zero = array<float>({2}, {0, 0}), q = array<float>({2}, {1, 2});
    m.data = v.data = {0, 0};
    CHECK(run(GD_OPTIMIZER_STEP, GD_ADAMW, {zero, hyper, gain}, {q, m, v}, {0.9, 0.999, 1e-8, 0.5})
              .text == "");
    CHECK(q.data == std::vector<float>{float(0.995), float(1.99)});
  }
}
