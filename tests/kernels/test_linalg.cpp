// The slot linalg through the C table, on the reference and the cpu: factors and systems, checked
// by their definitions; refusals. test_linalg_spectra.cpp: eigenvalues and singular values.
#include "tests/kernels/linalg_calls.hpp"

#include <doctest/doctest.h>

namespace linalg_test {
namespace {

// Lower or upper triangle of d; `unit` puts ones on its diagonal.
template <class T>
Dense<T> triangle(Dense<T> d, bool upper, bool unit) {
  for (int64_t i = 0; i < d.m; ++i)
    for (int64_t j = 0; j < d.n; ++j) {
      if (upper ? i > j : i < j) d(i, j) = T(0);
      if (unit && i == j) d(i, j) = T(1);
    }
  return d;
}

template <class T>
void check_cholesky(const Machine& machine, const Shape& s) {
  // G G^H + 1 is positive definite; a skew part beside it counts for nothing.
  const auto g = random_array<T>(with(s.batch, {s.m, s.m}), s.layout);
  Array<T> a(with(s.batch, {s.m, s.m})), l(with(s.batch, {s.m, s.m}));
  Array<int64_t> info(s.batch);
  cpu_test::each(s.batch, [&](const Index& at) {
    const auto d = matrix(g, at), h = d * adjoint(d);
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.m; ++j)
        a.at(with(at, {i, j})) = h(i, j) + T(i < j ? 2 : i > j ? -2 : 1);
  });
  linalg(machine, GD_CHOLESKY, {a.view()}, {l.view(), info.view()});
  cpu_test::each(s.batch, [&](const Index& at) {
    CHECK(info.at(at) == 0);
    const auto low = matrix(l, at);
    const auto d = matrix(g, at);
    auto want = d * adjoint(d);
    for (int64_t i = 0; i < s.m; ++i) want(i, i) = want(i, i) + T(1);
    CHECK(low.x == triangle(low, false, false).x);
    check_close("L L^H", low * adjoint(low), want, norm(want));
  });
}

template <class T>
void check_lu(const Machine& machine, const Shape& s) {
  const auto a = random_array<T>(with(s.batch, {s.m, s.n}), s.layout);
  Array<T> lu(with(s.batch, {s.m, s.n}), cpu_test::kGaps);
  Array<int64_t> rows(with(s.batch, {s.m})), info(s.batch);
  linalg(machine, GD_LU, {a.view()}, {lu.view(), rows.view(), info.view()});
  const int64_t k = std::min(s.m, s.n);
  cpu_test::each(s.batch, [&](const Index& at) {
    if (s.layout != cpu_test::kBroadcast) CHECK(info.at(at) == 0);
    const auto d = matrix(a, at), f = matrix(lu, at);
    Dense<T> l(s.m, k), u(k, s.n), want(s.m, s.n);
    std::vector<int> seen(size_t(s.m), 0);
    double most = 0;  // below the diagonal
    for (int64_t i = 0; i < s.m; ++i) {
      const int64_t row = rows.at(with(at, {i}));
      REQUIRE(row >= 0);
      REQUIRE(row < s.m);
      CHECK(seen[size_t(row)]++ == 0);
      for (int64_t j = 0; j < s.n; ++j) {
        want(i, j) = d(row, j);
        if (j < i) {
          if (j < k) l(i, j) = f(i, j);
          most = std::max(most, size(f(i, j)));
        } else {
          u(i, j) = f(i, j);
        }
      }
      if (i < k) l(i, i) = T(1);
    }
    CHECK(most <= 1.5);  // pivots are chosen by |re| + |im|
    check_close("L U", l * u, want, norm(want));
  });
}

template <class T>
void check_solve(const Machine& machine, const Shape& s) {
  for (int64_t turned : {0, 1, 2})
    for (int64_t r : {0, 1, 3}) {
      const auto a = random_array<T>(with(s.batch, {s.m, s.m}), s.layout),
                 b = random_array<T>(with(s.batch, {s.m, r}), s.layout);
      Array<T> x(with(s.batch, {s.m, r}), cpu_test::kPermuted);
      Array<int64_t> info(s.batch);
      linalg(machine, GD_SOLVE, {a.view(), b.view()}, {x.view(), info.view()}, {turned});
      cpu_test::each(s.batch, [&](const Index& at) {
        // Equal columns, as an expanded view has them, are singular but for rounding.
        if (s.layout != cpu_test::kBroadcast) CHECK(info.at(at) == 0);
        if (info.at(at) != 0) return;
        const auto d = matrix(a, at), op = turned == 0 ? d : adjoint(d, turned == 2);
        const auto got = matrix(x, at);
        check_close("A X", op * got, matrix(b, at), norm(d) * norm(got));
      });
    }
}

template <class T>
void check_solve_triangular(const Machine& machine, const Shape& s) {
  for (int64_t code = 0; code < 12; ++code) {
    const int64_t upper = code & 1, unit = code >> 1 & 1, turned = code >> 2;
    auto a = random_array<T>(with(s.batch, {s.m, s.m}), s.layout);
    const auto b = random_array<T>(with(s.batch, {s.m, 2}));
    cpu_test::each(s.batch, [&](const Index& at) {  // well conditioned
      for (int64_t i = 0; i < s.m && s.layout != cpu_test::kBroadcast; ++i)
        a.at(with(at, {i, i})) = T(real_of<T>(s.m + 1));
    });
    Array<T> x(with(s.batch, {s.m, 2}));
    linalg(machine, GD_SOLVE_TRIANGULAR, {a.view(), b.view()}, {x.view()}, {upper, unit, turned});
    cpu_test::each(s.batch, [&](const Index& at) {
      const auto d = triangle(matrix(a, at), upper != 0, unit != 0), got = matrix(x, at);
      check_close("op(A) X", (turned == 0 ? d : adjoint(d, turned == 2)) * got, matrix(b, at),
                  norm(d) * norm(got));
    });
  }
}

template <class T>
void check_qr(const Machine& machine, const Shape& s) {
  const int64_t k = std::min(s.m, s.n);
  for (int64_t q : {k, s.m})
    for (int64_t positive : {0, 1}) {
      const auto a = random_array<T>(with(s.batch, {s.m, s.n}), s.layout);
      Array<T> left(with(s.batch, {s.m, q})), right(with(s.batch, {q, s.n})),
          alone(with(s.batch, {q, s.n}));
      linalg(machine, GD_QR, {a.view()}, {left.view(), right.view()}, {positive});
      linalg(machine, GD_QR, {a.view()}, {kAbsent, alone.view()}, {positive});
      CHECK(cpu_test::same_bits(alone.values(), right.values()));
      cpu_test::each(s.batch, [&](const Index& at) {
        const auto d = matrix(a, at), l = matrix(left, at), r = matrix(right, at);
        check_close("Q R", l * r, d, norm(d));
        check_unitary("Q", l);
        bool below = true;
        for (int64_t i = 1; i < q; ++i)
          for (int64_t j = 0; j < std::min(s.n, i); ++j) below &= r(i, j) == T(0);
        CHECK(below);
        for (int64_t i = 0; i < k; ++i) {
          CHECK(number(r(i, i)).im == 0);
          if (positive) CHECK(number(r(i, i)).re >= 0);
        }
        // LAPACK's sign: not that of what it replaces.
        if (k > 0 && s.m > 1 && !positive) CHECK(number(r(0, 0)).re * number(d(0, 0)).re <= 0);
      });
    }
}

}  // namespace

TEST_CASE("linalg cholesky: A = L L^H, of the Hermitian part") {
  for_all(square_shapes(), [](auto t, auto& m, auto& s) { check_cholesky<decltype(t)>(m, s); });
}
TEST_CASE("linalg lu: A[rows] = L U") {
  for_all(all_shapes(), [](auto t, auto& m, auto& s) { check_lu<decltype(t)>(m, s); });
}
TEST_CASE("linalg solve: A X = B, A^T X = B, A^H X = B") {
  for_all(square_shapes(), [](auto t, auto& m, auto& s) { check_solve<decltype(t)>(m, s); });
}
TEST_CASE("linalg solve_triangular") {
  for_all(square_shapes(),
          [](auto t, auto& m, auto& s) { check_solve_triangular<decltype(t)>(m, s); });
}
TEST_CASE("linalg qr: A = Q R, thin and full, both conventions of signs") {
  for_all(all_shapes(), [](auto t, auto& m, auto& s) { check_qr<decltype(t)>(m, s); });
}

TEST_CASE("linalg det: value, sign and logarithm") {
  for_all(square_shapes(), [](auto t, auto& machine, auto& s) {
    using T = decltype(t);
    const auto a = random_array<T>(with(s.batch, {s.m, s.m}), s.layout);
    Array<T> det(s.batch), sign(s.batch), lu(with(s.batch, {s.m, s.m}));
    Array<real_of<T>> log(s.batch);
    Array<int64_t> rows(with(s.batch, {s.m})), info(s.batch);
    linalg(machine, GD_DET, {a.view()}, {det.view(), sign.view(), log.view()});
    linalg(machine, GD_DET, {a.view()}, {kAbsent, sign.view(), kAbsent});
    linalg(machine, GD_LU, {a.view()}, {lu.view(), rows.view(), info.view()});
    cpu_test::each(s.batch, [&](const Index& at) {
      // The product of U's diagonal and the sign of the order of rows.
      std::complex<double> want(1);
      for (int64_t i = 0; i < s.m; ++i) {
        const c128 u = number(lu.at(with(at, {i, i})));
        want *= std::complex<double>(u.re, u.im);
        for (int64_t j = 0; j < i; ++j)
          if (rows.at(with(at, {j})) > rows.at(with(at, {i}))) want = -want;
      }
      const c128 w{want.real(), want.imag()}, got = number(det.at(at)), one = number(sign.at(at));
      const double most = tolerance<T>(s.m, s.m);
      if (std::is_same_v<real_of<T>, double> || std::abs(want) < 1e30)
        CHECK(size(got - w) <= most * std::abs(want));
      if (std::abs(want) == 0) return;
      CHECK(size(c128(std::abs(want)) * one - w) <= most * std::abs(want));
      CHECK(std::fabs(double(log.at(at)) - std::log(std::abs(want))) <=
            most * (1 + std::fabs(std::log(std::abs(want)))));
    });
  });
}

TEST_CASE("linalg det: beyond the range of its factors, singular, empty") {
  for (const Machine& machine : machines()) {
    Array<double> a({4, 4}), det({}), sign({}), log({});
    const double diagonal[] = {1e200, -1e200, 1e-200, 1e-200};
    for (int64_t i = 0; i < 4; ++i) a.at({i, i}) = diagonal[i];
    linalg(machine, GD_DET, {a.view()}, {det.view(), sign.view(), log.view()});
    CHECK(det.at({}) == doctest::Approx(-1).epsilon(1e-14));
    CHECK(sign.at({}) == -1);
    CHECK(std::fabs(log.at({})) < 1e-13);
    a.at({2, 2}) = 1e200;  // the logarithm alone can hold it
    linalg(machine, GD_DET, {a.view()}, {det.view(), sign.view(), log.view()});
    CHECK(det.at({}) == -std::numeric_limits<double>::infinity());
    CHECK(log.at({}) == doctest::Approx(400 * std::log(10.)).epsilon(1e-14));
    a.at({2, 2}) = 0;
    linalg(machine, GD_DET, {a.view()}, {det.view(), sign.view(), log.view()});
    CHECK(det.at({}) == 0);
    CHECK(sign.at({}) == 0);
    CHECK(log.at({}) == -std::numeric_limits<double>::infinity());
  }
}

TEST_CASE("linalg: info names the pivot") {
  for (const Machine& machine : machines()) {
    Array<float> a({3, 3}), out({3, 3}), b({3, 1}), x({3, 1});
    Array<int64_t> rows({3}), info({});
    const float indefinite[] = {4, 2, 0, 2, 1, 0, 0, 0, 1};
    for (int64_t i = 0; i < 9; ++i) a.at({i / 3, i % 3}) = indefinite[i];
    linalg(machine, GD_CHOLESKY, {a.view()}, {out.view(), info.view()});
    CHECK(info.at({}) == 2);
    linalg(machine, GD_SOLVE, {a.view(), b.view()}, {x.view(), info.view()});
    CHECK(info.at({}) == 2);
    linalg(machine, GD_LU, {a.view()}, {out.view(), rows.view(), info.view()});
    CHECK(info.at({}) == 2);
    CHECK(out.at({0, 0}) == 4);
    CHECK(out.at({1, 1}) == 0);
    CHECK(out.at({2, 2}) == 1);  // the factors are whole all the same
  }
}

namespace {
template <class T>
void check_small_columns(const std::vector<double>& numbers, int64_t m,
                         const std::vector<double>& expected) {
  for (const Machine& machine : machines()) {
    INFO(machine.name);
    Array<T> a({m, 2}), r({2, 2});
    for (int64_t i = 0; i < 2 * m; ++i) a.at({i / 2, i % 2}) = T(numbers[size_t(i)]);
    linalg(machine, GD_QR, {a.view()}, {kAbsent, r.view()}, {0});
    for (int64_t i = 0; i < 4; ++i)
      CHECK(std::fabs(double(r.at({i / 2, i % 2})) - expected[size_t(i)]) <=
            1e-6 * std::fabs(expected[size_t(i)]));
  }
}
}  // namespace

TEST_CASE("linalg qr: columns that are small beside others are reduced like these") {
  check_small_columns<float>({1, 2, 1e-24, 3}, 2, {-1, -2, 0, 3});
  check_small_columns<double>({1, 2, 1e-170, 3}, 2, {-1, -2, 0, 3});
  check_small_columns<float>({3e-33, 1, 4e-33, 0}, 2, {-5e-33, -0.6, 0, -0.8});
  check_small_columns<float>({1, 3e-33, 0, 3e-33, 0, 4e-33}, 3, {1, 3e-33, 0, -5e-33});
  check_small_columns<double>({3e-300, 1, 4e-300, 0}, 2, {-5e-300, -0.6, 0, -0.8});
}

TEST_CASE("linalg: pivots whose reciprocals overflow") {
  for_all({{{}, 5, 5}, {{}, 40, 40}}, [](auto t, auto& machine, auto& s) {
    using T = decltype(t);
    const T tiny(std::numeric_limits<real_of<T>>::min() / 64);
    auto a = random_array<T>({s.m, s.m});
    cpu_test::each(a.sizes, [&](const Index& i) { a.at(i) = a.at(i) * tiny; });
    Array<T> lu({s.m, s.m}), b({s.m, 1}), x({s.m, 1});
    Array<int64_t> rows({s.m}), info({});
    for (int64_t i = 0; i < s.m; ++i) b.at({i, 0}) = a.at({i, 0});
    linalg(machine, GD_LU, {a.view()}, {lu.view(), rows.view(), info.view()});
    CHECK(info.at({}) == 0);
    CHECK(std::isfinite(norm(matrix(lu, {}))));
    linalg(machine, GD_SOLVE, {a.view(), b.view()}, {x.view(), info.view()});
    CHECK(info.at({}) == 0);
    CHECK(std::isfinite(norm(matrix(x, {}))));
  });
}

TEST_CASE("linalg solve: a pivot without a reciprocal leaves its neighbours as they are") {
  for_all({{{19}, 4, 4}, {{19}, 5, 5}}, [](auto t, auto& machine, auto& s) {
    using T = decltype(t);
    using R = real_of<T>;
    const R least = std::numeric_limits<R>::min();
    const R scales[] = {R(1), least / 64, 1 / least * R(1.5), R(3)};
    auto a = random_array<T>({19, s.m, s.m});
    Array<T> b({19, s.m, 1}), x({19, s.m, 1});
    Array<int64_t> info({19}), info_alone({});
    cpu_test::each({19}, [&](const Index& at) {
      const R scale = scales[at[0] % 4];
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.m; ++j)
          a.at(with(at, {i, j})) = (a.at(with(at, {i, j})) * T(R(0.01)) + T(R(i == j))) * T(scale);
        b.at(with(at, {i, 0})) = T(R(i + 1) / 8) * T(scale);
      }
    });
    linalg(machine, GD_SOLVE, {a.view(), b.view()}, {x.view(), info.view()});
    cpu_test::each({19}, [&](const Index& at) {
      Array<T> one({s.m, s.m}), right({s.m, 1}), y({s.m, 1});
      for (int64_t i = 0; i < s.m; ++i) {
        right.at({i, 0}) = b.at(with(at, {i, 0}));
        for (int64_t j = 0; j < s.m; ++j) one.at({i, j}) = a.at(with(at, {i, j}));
      }
      linalg(machine, GD_SOLVE, {one.view(), right.view()}, {y.view(), info_alone.view()});
      CHECK(info.at(at) == 0);
      for (int64_t i = 0; i < s.m; ++i) {
        CHECK(y.at({i, 0}) == x.at(with(at, {i, 0})));
        CHECK(size(y.at({i, 0}) - T(R(i + 1) / 8)) < 0.1);
      }
    });
  });
}

TEST_CASE("linalg: refusals name the op and what was expected") {
  Array<float> a({2, 3, 3}), l({2, 3, 3}), b({2, 3, 1}), wide({2, 3, 4}), line({3});
  Array<double> d({2, 3, 3});
  Array<int32_t> whole({2, 3, 3});
  Array<int64_t> info({2}), short_info({1}), rows({2, 3});
  for (const Machine& m : machines()) {
    const auto text = [&](int op, const std::vector<gd_view>& in, const std::vector<gd_view>& out,
                          const Index& ints = {}) {
      gd_error e{};
      CHECK(try_linalg(m, op, in, out, ints, e) != GD_OK);
      const std::string own = std::string(m.table->kind) + " linalg";
      CHECK(std::string(e.text).rfind(own, 0) == 0);
      return std::string(e.text).substr(std::min(own.size(), std::strlen(e.text)));
    };
    const gd_view A = a.view(), L = l.view(), I = info.view();
    CHECK(text(GD_LINALG_COUNT, {A}, {L, I}) == ": no factorisation has code 10");
    CHECK(text(GD_CHOLESKY, {A}, {L}) == " cholesky: expected 1 inputs and 2 outputs, got 1 and 1");
    CHECK(text(GD_CHOLESKY, {wide.view()}, {L, I}) ==
          " cholesky: expected square matrices, got (2, 3, 4)");
    CHECK(text(GD_EIGH, {line.view()}, {L, L, I}) == " eigh: a matrix has two axes, got (3,)");
    CHECK(text(GD_CHOLESKY, {whole.view()}, {L, I}) ==
          " cholesky: dtype i32 is not read; f32 f64 c64 c128 are");
    CHECK(text(GD_CHOLESKY, {A}, {d.view(), I}) == " cholesky: L should have dtype f32, got f64");
    CHECK(text(GD_CHOLESKY, {A}, {kAbsent, I}) == " cholesky: output 0 is left out");
    CHECK(text(GD_CHOLESKY, {A}, {L, short_info.view()}) ==
          " cholesky: info should have sizes (2,), got (1,)");
    CHECK(text(GD_LU, {A}, {L, I, I}) == " lu: rows should have sizes (2, 3), got (2,)");
    CHECK(text(GD_SOLVE, {A, line.view()}, {L, I}) ==
          " solve: B should have sizes (2, 3, 1), got (3,)");
    CHECK(text(GD_SOLVE, {A, b.view()}, {b.view(), I}, {3}) ==
          " solve: ints[0] should be from 0 to 2, got 3");
    CHECK(text(GD_SOLVE_TRIANGULAR, {A, b.view()}, {b.view()}, {1}) ==
          " solve_triangular: expected 0 doubles and 3 ints, got 0 and 1");
    CHECK(text(GD_QR, {wide.view()}, {wide.view(), kAbsent}) ==
          " qr: Q should have 3 or 3 columns, got (2, 3, 4)");
    CHECK(text(GD_SVD, {A}, {kAbsent, L, kAbsent, I}) ==
          " svd: s should have sizes (2, 3), got (2, 3, 3)");
    CHECK(text(GD_EIG, {A}, {rows.view(), kAbsent, I}) == " eig: w should have dtype c64, got i64");
  }
}

TEST_CASE("linalg: a LAPACK that can't be used is refused in words, one that can is told of") {
  using cpu_test::kLibraryHint;
  const auto refused = [](const char* file) { return cpu_test::refused_library("lapack", file); };
  CHECK(refused(R"("/no/lapack.so")") ==
        "cpu open: libraries.lapack: /no/lapack.so: cannot open shared object file: No such file "
        "or directory" +
            kLibraryHint);
  CHECK(refused(R"("libc.so.6")") ==
        "cpu open: libraries.lapack: libc.so.6 is no LAPACK: it has no spotrf_" + kLibraryHint);
  CHECK(refused("1") == "cpu open: \"libraries.lapack\" should be \"off\" or a library");
  for (const Machine& m : machines()) {
    if (m.table != cpu::table()) continue;
    char text[512];
    gd_error e{};
    REQUIRE(m.table->libraries(m.device, text, sizeof text, &e) == GD_OK);
    CHECK((m.lapack ? has(text, "LAPACK ") && has(text, ".so") : !*text));
  }
}

}  // namespace linalg_test
