// Formulas of small matrices (GD_FORMULA): each step by its definition, the same bits on every
// device, whatever the batch, and what is refused.
#include "tests/kernels/linalg_calls.hpp"

#include <optional>

namespace linalg_test {
namespace {

int64_t word(gd_step code, int a, int b, int flags = 0) {
  return int64_t(code) | a << 8 | b << 16 | flags << 24;
}

// What the one step gives of a and b, by its definition. r: the values of the row b.
template <class T>
Dense<T> defined(gd_step code, int flags, const Dense<T>& a, const Dense<T>& b) {
  const auto each = [](int64_t m, int64_t n, auto f) {
    Dense<T> y(m, n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) y(i, j) = f(i, j);
    return y;
  };
  const auto of_a = [&](auto f) { return each(a.m, a.n, f); };
  const auto pairs = [&](double sign) {
    double most = 0;
    for (const T x : a.x) most = std::max(most, std::fabs(double(x)));
    const double reach =
        16 * double(std::max<int64_t>(a.n, 8)) * double(std::numeric_limits<T>::epsilon()) * most;
    return each(a.n, a.n, [&](int64_t i, int64_t j) {
      const T by = T(a(0, j) + T(sign) * a(0, i));
      return std::fabs(double(by)) <= reach ? T(0) : T(1) / by;
    });
  };
  switch (code) {
    case GD_STEP_PRODUCT: {
      const Dense<T> y = (flags & 1 ? adjoint(a) : a) * (flags & 2 ? adjoint(b) : b);
      return each(y.m, y.n, [&](int64_t i, int64_t j) { return flags & 4 ? -y(i, j) : y(i, j); });
    }
    case GD_STEP_TURNED:
      return adjoint(a);
    case GD_STEP_SUM:
      return of_a([&](int64_t i, int64_t j) { return a(i, j) + b(i, j); });
    case GD_STEP_DIFFERENCE:
      return of_a([&](int64_t i, int64_t j) { return a(i, j) - b(i, j); });
    case GD_STEP_TIMES:
      return of_a([&](int64_t i, int64_t j) { return a(i, j) * b(b.m == 1 ? 0 : i, j); });
    case GD_STEP_NEGATIVE:
      return of_a([&](int64_t i, int64_t j) { return -a(i, j); });
    case GD_STEP_HALF:
      return of_a([&](int64_t i, int64_t j) { return a(i, j) / 2; });
    case GD_STEP_LOWER:
      return of_a([&](int64_t i, int64_t j) { return j + flags <= i ? a(i, j) : T(0); });
    case GD_STEP_UPPER:
      return of_a([&](int64_t i, int64_t j) { return j >= i ? a(i, j) : T(0); });
    case GD_STEP_HALF_LOWER:
      return of_a([&](int64_t i, int64_t j) { return j < i ? a(i, j) : i == j ? a(i, j) / 2 : 0; });
    case GD_STEP_BELOW:
      return of_a([&](int64_t i, int64_t j) { return j < i ? a(i, j) : b(i, j); });
    case GD_STEP_WITH_DIAGONAL:
      return of_a([&](int64_t i, int64_t j) { return i == j ? a(i, j) + b(0, i) : a(i, j); });
    case GD_STEP_RECIPROCAL_GAPS:
      return pairs(-1);
    case GD_STEP_RECIPROCAL_SUMS:
      return pairs(1);
    default: {  // GD_STEP_RECIPROCALS
      const Dense<T> twice = pairs(1);
      return each(1, a.n, [&](int64_t, int64_t j) { return 2 * twice(j, j); });
    }
  }
}

struct OneStep {
  gd_step code;
  int flags;
  Index a, b;  // sizes without the batch; b empty: the step has none
};
const OneStep kSteps[] = {
    {GD_STEP_PRODUCT, 0, {3, 5}, {5, 4}},    {GD_STEP_PRODUCT, 1, {5, 3}, {5, 4}},
    {GD_STEP_PRODUCT, 2, {3, 5}, {4, 5}},    {GD_STEP_PRODUCT, 3, {5, 3}, {4, 5}},
    {GD_STEP_PRODUCT, 4, {3, 5}, {5, 6}},    {GD_STEP_PRODUCT, 6, {4, 4}, {4, 4}},
    {GD_STEP_PRODUCT, 1, {3, 3}, {3, 3}},    {GD_STEP_PRODUCT, 0, {16, 16}, {16, 16}},
    {GD_STEP_PRODUCT, 0, {20, 18}, {18, 7}}, {GD_STEP_TURNED, 0, {3, 5}, {}},
    {GD_STEP_SUM, 0, {3, 5}, {3, 5}},        {GD_STEP_DIFFERENCE, 0, {3, 5}, {3, 5}},
    {GD_STEP_TIMES, 0, {3, 5}, {3, 5}},      {GD_STEP_TIMES, 0, {3, 5}, {5}},
    {GD_STEP_NEGATIVE, 0, {4, 4}, {}},       {GD_STEP_HALF, 0, {4, 2}, {}},
    {GD_STEP_LOWER, 0, {4, 6}, {}},          {GD_STEP_LOWER, 1, {5, 4}, {}},
    {GD_STEP_UPPER, 0, {5, 4}, {}},          {GD_STEP_HALF_LOWER, 0, {5, 5}, {}},
    {GD_STEP_BELOW, 0, {5, 5}, {5, 5}},      {GD_STEP_WITH_DIAGONAL, 0, {4, 4}, {4}},
    {GD_STEP_RECIPROCAL_GAPS, 0, {6}, {}},   {GD_STEP_RECIPROCAL_SUMS, 0, {6}, {}},
    {GD_STEP_RECIPROCALS, 0, {6}, {}},
};
Index with_all(Index batch, const Index& last) {
  batch.insert(batch.end(), last.begin(), last.end());
  return batch;
}
// A vector counts as a row.
template <class T>
Dense<T> value(const Array<T>& a, const Index& at) {
  const Dense<T> d = matrix(a, at);
  return a.sizes.size() == at.size() + 1 ? adjoint(d) : d;
}

template <class T>
void check_step(const OneStep& s, const Index& batch, Layout layout) {
  CAPTURE(int(s.code));
  const auto a = random_array<T>(with_all(batch, s.a), layout);
  std::vector<gd_view> in{a.view()};
  std::optional<Array<T>> b;
  if (!s.b.empty()) in.push_back(b.emplace(random_array<T>(with_all(batch, s.b), layout)).view());
  // The sizes of the result are those of its definition.
  const Index origin(batch.size(), 0);
  const auto want = [&](const Index& at) {
    return defined(s.code, s.flags, value(a, at), b ? value(*b, at) : Dense<T>(0, 0));
  };
  const Dense<T> first = want(origin);
  std::vector<T> bits;
  for (const Machine& m : machines()) {
    INFO(m.name);
    Array<T> y(with(batch, {first.m, first.n}),
               layout == cpu_test::kBroadcast ? cpu_test::kPlain : layout);
    linalg(m, GD_FORMULA, in, {y.view()}, {word(s.code, 0, s.b.empty() ? 0 : 1, s.flags)});
    cpu_test::each(batch, [&](const Index& at) {
      const Dense<T> right = want(at), got = matrix(y, at);
      check_close("step", got, right, 1 + norm(right));
    });
    if (bits.empty()) bits = y.values();
    CHECK(bits == y.values());
  }
}

}  // namespace

TEST_CASE("linalg formula: each step is what it says, with the same bits everywhere") {
  for (const OneStep& s : kSteps)
    for (const Index& batch : {Index{}, Index{1}, Index{19}, Index{2, 3}})
      for (const Layout layout : {cpu_test::kPlain, cpu_test::kPermuted, cpu_test::kNegative,
                                  cpu_test::kGaps, cpu_test::kBroadcast}) {
        check_step<float>(s, batch, layout);
        check_step<double>(s, batch, layout);
      }
}

TEST_CASE("linalg formula: triangles and the order of rows") {
  const int64_t n = 6;
  for (const int64_t count : {1, 3, 21})
    for (int flags = 0; flags < 8; ++flags) {
      auto a = random_array<double>({count, n, n}), b = random_array<double>({count, n, 4});
      Array<int64_t> rows({count, n});
      for (int64_t k = 0; k < count; ++k)
        for (int64_t i = 0; i < n; ++i) {
          a.at({k, i, i}) += 5;
          rows.at({k, i}) = (i + k) % n;
        }
      std::vector<double> bits;
      for (const Machine& m : machines()) {
        INFO(m.name);
        Array<double> x({count, n, 4}), y({count, n, 4});
        linalg(m, GD_FORMULA, {a.view(), b.view(), rows.view()}, {y.view()},
               {word(GD_STEP_DIVIDED, 0, 1, flags), word(GD_STEP_ROWS_BACK, 3, 2)});
        linalg(m, GD_SOLVE_TRIANGULAR, {a.view(), b.view()}, {x.view()},
               {flags & 1, flags >> 1 & 1, flags >> 2});
        for (int64_t k = 0; k < count; ++k)
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < 4; ++j)
              CHECK(y.at({k, (i + k) % n, j}) == doctest::Approx(x.at({k, i, j})).epsilon(1e-12));
        if (bits.empty()) bits = y.values();
        CHECK(bits == y.values());
      }
    }
}

TEST_CASE("linalg formula: LU and what it solves") {
  const auto solved = [&]<class T>(T, int64_t count, Layout layout, int64_t n, int64_t columns) {
    const auto a = random_array<T>({count, n, n}, layout), b = random_array<T>({count, n, columns});
    std::vector<T> bits;
    for (const Machine& m : machines()) {
      INFO(m.name);
      Array<T> x({count, n, columns}), y({count, n, columns}), lu({count, n + 1, n}),
          factors({count, n, n});
      Array<int64_t> rows({count, n}), info({count});
      linalg(m, GD_LU, {a.view()}, {factors.view(), rows.view(), info.view()});
      linalg(m, GD_FORMULA, {a.view()}, {lu.view()}, {word(GD_STEP_LU, 0, 0)});
      linalg(m, GD_SOLVE, {a.view(), b.view()}, {x.view(), info.view()}, {1});
      linalg(m, GD_FORMULA, {a.view(), b.view()}, {y.view()},
             {word(GD_STEP_LU, 0, 0), word(GD_STEP_DIVIDED, 2, 1, 1 | 4),
              word(GD_STEP_DIVIDED, 2, 3, 2 | 4), word(GD_STEP_ROWS_BACK, 4, 2)});
      for (int64_t k = 0; k < count; ++k)
        for (int64_t i = 0; i < n; ++i) {
          CHECK(lu.at({k, n, i}) == T(rows.at({k, i})));
          for (int64_t j = 0; j < n; ++j) CHECK(lu.at({k, i, j}) == factors.at({k, i, j}));
        }
      CHECK(y.values() == x.values());
      if (bits.empty()) bits = y.values();
      CHECK(bits == y.values());
    }
  };
  for (const int64_t count : {1, 3, 21})
    for (const Layout layout : {cpu_test::kPlain, cpu_test::kPermuted})
      for (const int64_t n : {3, 4, 5})  // of 3 and 4 squares are done in loops of their own
        for (const int64_t columns : {n, int64_t(6)}) {
          solved(float(), count, layout, n, columns);
          solved(double(), count, layout, n, columns);
        }
}

TEST_CASE("linalg formula: as many steps as there may be") {
  const auto a = random_array<double>({3, 4, 4});
  Array<int64_t> rows({3, 4});
  Index steps;
  for (int k = 0; k < GD_MOST_STEPS; ++k)
    steps.push_back(word(GD_STEP_NEGATIVE, k == 0 ? 0 : k + 1, 0));
  for (const Machine& m : machines()) {
    Array<double> y({3, 4, 4});
    linalg(m, GD_FORMULA, {a.view(), rows.view()}, {y.view()}, steps);
    CHECK(y.values() == a.values());
  }
}

TEST_CASE("linalg formula: values that count as 0 have no reciprocal") {
  Array<double> w({4}), y({4, 4}), x({1, 4});
  const double values[] = {1, 1 + 1e-15, 3, 0};
  for (int64_t i = 0; i < 4; ++i) w.at({i}) = values[i];
  for (const Machine& m : machines()) {
    INFO(m.name);
    linalg(m, GD_FORMULA, {w.view()}, {y.view()}, {word(GD_STEP_RECIPROCAL_GAPS, 0, 0)});
    CHECK(y.at({0, 1}) == 0);
    CHECK(y.at({1, 0}) == 0);
    CHECK(y.at({0, 2}) == 0.5);
    CHECK(y.at({2, 0}) == -0.5);
    linalg(m, GD_FORMULA, {w.view()}, {x.view()}, {word(GD_STEP_RECIPROCALS, 0, 0)});
    CHECK(x.at({0, 2}) == 1.0 / 3);
    CHECK(x.at({0, 3}) == 0);
  }
}

TEST_CASE("linalg formula: refusals name the step") {
  Array<double> a({2, 3, 4}), b({2, 4, 4}), y({2, 3, 4}), other({3, 3, 4});
  Array<float> f({2, 3, 4});
  Array<int64_t> rows({2, 3});
  Array<c64> z({2, 3, 4});
  for (const Machine& m : machines()) {
    const auto text = [&](const std::vector<gd_view>& in, const gd_view& out, const Index& ints) {
      gd_error e{};
      CHECK(try_linalg(m, GD_FORMULA, in, {out}, ints, e) != GD_OK);
      const std::string own = std::string(m.table->kind) + " linalg formula: ";
      CHECK(std::string(e.text).rfind(own, 0) == 0);
      return std::string(e.text).substr(std::min(own.size(), std::strlen(e.text)));
    };
    const gd_view A = a.view(), B = b.view(), Y = y.view();
    const int64_t copy = word(GD_STEP_NEGATIVE, 0, 0);
    CHECK(text({A}, Y, {}) == "expected 0 doubles and 1 ints, got 0 and 0");
    CHECK(text({A}, Y, Index(GD_MOST_STEPS + 1, copy)) ==
          "expected at most 8 inputs and 40 steps, got 1 and 41");
    CHECK(text({A, other.view()}, Y, {copy}) ==
          "input 1 has sizes (3, 3, 4), out (2, 3, 4): expected the same batch");
    CHECK(text({f.view()}, Y, {copy}) == "an input should have dtype f64, got f32");
    CHECK(text({z.view()}, z.view(), {copy}) == "dtype c64 is not computed; f32 and f64 are");
    CHECK(text({A, B}, Y, {word(GD_STEP_PRODUCT, 1, 0)}) == "step 0: (4, 4) and (3, 4) don't fit");
    CHECK(text({A, B}, Y, {copy, word(GD_STEP_SUM, 2, 3)}) == "step 1 is malformed");
    CHECK(text({A}, Y, {GD_STEP_COUNT}) == "step 0 is malformed");
    CHECK(text({A}, Y, {word(GD_STEP_LOWER, 0, 0, 2)}) == "step 0 is malformed");
    gd_view wide = A;
    const int64_t sizes[] = {2, 3, 1 << 15}, strides[] = {0, 0, 0};
    wide.sizes = sizes;
    wide.strides = strides;
    CHECK(text({wide}, Y, {copy}) ==
          "input 0 has sizes (2, 3, 32768): sides above 16384 are none of a small matrix");
    CHECK(text({A, rows.view()}, Y, {word(GD_STEP_SUM, 0, 1)}) == "step 0 is malformed");
    CHECK(text({A}, Y, {word(GD_STEP_ROWS_BACK, 0, 0)}) == "step 0 is malformed");
    CHECK(text({A}, Y, {copy, word(GD_STEP_ROWS_BACK, 0, 1)}) ==
          "step 1: (3, 4) and (3, 4) don't fit");
    CHECK(text({A, B}, Y, {word(GD_STEP_DIVIDED, 0, 0)}) == "step 0: (3, 4) and (3, 4) don't fit");
    CHECK(text({A}, Y, {word(GD_STEP_LU, 0, 0)}) == "step 0: (3, 4) and (3, 4) don't fit");
    CHECK(text({A, B}, Y, {word(GD_STEP_NEGATIVE, 1, 0)}) ==
          "the last step gives (4, 4), out is (2, 3, 4)");
  }
}

}  // namespace linalg_test
