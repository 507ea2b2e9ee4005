// Functions of a matrix and what needs only its products: identities that hold, derivatives in both
// modes, ties at which they hold, what is refused; failures as numbers.
#include "ops/linalg/matrices.hpp"
#include "tests/helpers/matrices.hpp"

namespace matrix_functions {

using namespace gradus;
using namespace gradus::testing;
using namespace gradus::linalg;
using namespace gradus::testing::matrices;
using func::Function;

TEST_CASE("matrix functions: root and logarithm are inverse to square and exponential") {
  for (const DType t : kFields)
    for (const int64_t n : {1, 2, 5, 30}) {
      CAPTURE(t);
      CAPTURE(n);
      const Tensor a =
          near_identity(n, t, 21) + eye(n, n, t) * number_beside(double(n) / 6, eye(n, n, t));
      const Tensor root = sqrtm(a);
      CHECK(distance(matmul(root, root), a) < 1e-13);
      CHECK(distance(matrix_exp(logm(a)), a) < 1e-13);
      CHECK(distance(logm(matrix_exp(div(a, number_beside(4, a)))), div(a, number_beside(4, a))) <
            1e-13);
      const Tensor h = matmul(a, adjoint(a));  // positive definite
      CHECK(distance(sqrtm(h, true), sqrtm(h)) < 1e-12);
      CHECK(distance(logm(h, true), logm(h)) < 1e-12);
      CHECK(distance(matrix_exp(div(h, number_beside(9, h)), true),
                     matrix_exp(div(h, number_beside(9, h)))) < 1e-12);
    }
  // Far from 1, and a matrix that has no full set of eigenvectors.
  const Tensor far = f64({1e4, 3, 0, 1e-2}, {2, 2}), jordan = f64({4, 1, 0, 4}, {2, 2});
  CHECK(close(values(sqrtm(far)), {100, 3 / 100.1, 0, 0.1}));
  CHECK(close(values(sqrtm(jordan)), {2, 0.25, 0, 2}));
  CHECK(close(values(logm(jordan)), {std::log(4.0), 0.25, 0, std::log(4.0)}));
}

TEST_CASE("matrix functions: derivatives in both modes and orders") {
  for (const DType t : kFields) {
    CAPTURE(t);
    const Tensor a = near_identity(3, t, 22), b = drawn({3, 2}, t, 23);
    const auto of = [](Tensor (*f)(const Tensor&, bool), bool hermitian) {
      return Function([=](const Tensors& in) { return Tensors{f(in[0], hermitian)}; });
    };
    for (const auto f : {matrix_exp, sqrtm, logm}) {
      check_both(of(f, false), {a});
      check_both(of(f, true), {a});
    }
    check_both([](const Tensors& in) { return Tensors{expm_multiply(in[0], in[1])}; }, {a, b});
    const auto through = [](const char* which) {
      return Function([which](const Tensors& in) {
        const Tensors f = eigsh(in[0], 2, which);
        return Tensors{sandwich(f[1], diag_embed(cast(tanh(f[0]), f[1].dtype())), adjoint(f[1]))};
      });
    };
    for (const char* which : {"SA", "LA", "LM"})
      check_both(through(which), {near_identity(4, t, 24)});
    check_both([](const Tensors& in) { return Tensors{cholesky_ex(in[0])[0]}; }, {a});
    check_both([](const Tensors& in) { return Tensors{inv_ex(in[0])[0]}; }, {a});
    check_both([](const Tensors& in) { return Tensors{solve_ex(in[0], in[1])[0]}; }, {a, b});
  }
}

TEST_CASE("matrix functions: at ties the Hermitian forms have a derivative") {
  const auto slope = [](Tensor (*f)(const Tensor&, bool), bool hermitian) {
    const Tensor a = leaf(diag(f64({2, 2, 2, 5}, {4}))), w = drawn({4, 4}, DType::f64, 25);
    return grad({sum(mul(f(a, hermitian), add(w, transpose(w, 0, 1))))}, {a})[0];
  };
  for (const auto f : {matrix_exp, sqrtm, logm})
    CHECK(distance(slope(f, true), slope(f, false)) < 1e-10);
}

TEST_CASE("matrix functions: what has none is refused in words") {
  const Tensor a = f64({1, 0, 0, -2}, {2, 2}), singular = f64({1, 1, 1, 1}, {2, 2});
  const Tensor pair = stack({eye(2, 2, DType::f64), a});
  CHECK(has(error_of([&] { sqrtm(pair); }),
            "sqrtm: batch (1,): eigenvalue 0 (-2) is on the closed negative real axis"));
  CHECK(has(error_of([&] { logm(a); }), "logm: eigenvalue 0 (-2) is on"));
  CHECK(has(error_of([&] { sqrtm(singular); }), "hermitian=true"));
  CHECK(
      has(error_of([&] { sqrtm(a, true); }), "eigenvalue 0 is -2 beside 2, expected none below 0"));
  CHECK(has(error_of([&] { logm(singular, true); }), "expected all above 0"));
  const Tensor root = sqrtm(leaf(singular), true);
  CHECK(close(values(root), std::vector<double>(4, std::sqrt(0.5))));
  CHECK(has(error_of([&] { backward(sum(root)); }), "an eigenvalue is 0"));
  // What is not finite is NaN, and the others of its batch are not.
  const auto pair_of = [](const Tensor& one) { return stack({one, f64({4, 0, 0, 9}, {2, 2})}); };
  const auto some = values(sqrtm(pair_of(f64({NAN, 0, 0, 1}, {2, 2}))));
  CHECK(std::isnan(some[0]));
  CHECK(some[4] == doctest::Approx(2));
  // Complex ones are looked at before Newton's iteration, which rounding may lead past the axis.
  const Tensor q = qr(drawn({5, 5}, DType::c128, 31))[0];
  const Tensor minus = matmul(by_columns(q, f64({-1, 2, 3, 4, 5}, {5})), adjoint(q));
  CHECK(has(error_of([&] { sqrtm(minus); }), "on the closed negative real axis"));
  CHECK(close(values(sqrtm(diag(f32({1e-8f, 1}, {2})), true)), {1e-4, 0, 0, 1}, 1e-9));
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  CHECK(values(triu(ones({2, 2}), kLeast)) == std::vector<double>(4, 1));
  CHECK(values(tril(ones({2, 2}), kLeast)) == std::vector<double>(4, 0));
  CHECK(has(error_of([&] { expm_multiply(a * 1e9, ones({2}, DType::f64)); }), "use matrix_exp"));
  CHECK(has(error_of([&] { eigsh(a, 3); }), "k is 3, expected 1 to 2"));
  CHECK(has(error_of([&] { eigsh(a, 1, "SM"); }), "write LA, SA or LM"));
  CHECK(has(error_of([&] { eigsh(f64({NAN, 0, 0, 1}, {2, 2}), 1); }), "has a NaN or an infinity"));
  CHECK(has(error_of([&] { expm_multiply(a, f64({1, 2, 3}, {3})); }), "B should have 2 rows"));
}

TEST_CASE("triangles and unit matrices: small ones are made on the host, large ones by kernels") {
  for (const Shape& s : {Shape{3, 5}, Shape{5, 3}, Shape{64, 64}, Shape{65, 64}, Shape{0, 3}})
    for (const int64_t d : {-70, -2, 0, 1, 70}) {
      CAPTURE(s);
      CAPTURE(d);
      const Tensor x = uniform(s, 1, 2, DType::f64);
      const auto all = values(x), lower = values(tril(x, d)), upper = values(triu(x, d));
      const auto unit = values(eye(s[0], s[1], DType::f64));
      int wrong = 0;
      for (int64_t i = 0; i < s[0]; ++i)
        for (int64_t j = 0; j < s[1]; ++j) {
          const auto at = size_t(i * s[1] + j);
          wrong += lower[at] != (j - d <= i ? all[at] : 0);
          wrong += upper[at] != (j - d >= i ? all[at] : 0);
          wrong += unit[at] != (i == j);
        }
      CHECK(wrong == 0);
    }
}

TEST_CASE("eigsh: the ends of a spectrum, with all copies of equal eigenvalues") {
  constexpr int64_t n = 120;
  for (const DType t : kFields) {
    const Tensor q = qr(drawn({n, n}, t, 26))[0];
    std::vector<double> w(size_t(n), 0);
    for (int64_t i = 0; i < n; ++i)
      w[size_t(i)] = i < 3 ? -9 : i >= n - 2 ? 8 : double(i % 50) / 50;
    const Tensor a = matmul(by_columns(q, cast(Tensor::from(w, {n}), t)), adjoint(q));
    const auto found = [&](int64_t k, const char* which) { return eigsh(a, k, which); };
    CHECK(close(values(found(4, "SA")[0]), {-9, -9, -9, 0}));
    CHECK(close(values(found(3, "LA")[0]), {0.98, 8, 8}));
    const Tensors f = found(5, "LM");
    CHECK(close(values(f[0]), {-9, -9, -9, 8, 8}));
    CHECK(distance(matmul(a, f[1]), by_columns(f[1], f[0])) < 1e-12);
    CHECK(distance(matmul(adjoint(f[1]), f[1]), eye(5, 5, t)) < 1e-12);
  }
  // A cut through equal values, and a loss that needs what lies beyond it.
  const Tensor a = leaf(diag(f64({1, 3, 3, 4}, {4})));
  const Tensors f = eigsh(a, 2, "SA");
  CHECK(has(error_of([&] {
              backward(sum(square(select(f[1], 1, 1)) * f64({1, 2, 3, 4}, {4})));
            }),
            "value 1 (3) is as good as equal to one that is left out"));
}

TEST_CASE("eigsh: a map of tensors of any shape") {
  const Tensor a = halved(sym(drawn({12, 12}, DType::c128, 27)));
  const LinearMap map = [&](const Tensor& x) {
    return reshape(matmul(a, reshape(x, {12})), {3, 4});
  };
  const Tensors f = eigsh(map, zeros({3, 4}, DType::c128), 2, "LA"), g = eigsh(a, 2, "LA");
  CHECK(f[1].sizes() == Shape{3, 4, 2});
  CHECK(close(values(f[0]), values(g[0])));
  CHECK(distance(reshape(f[1], {12, 2}), g[1]) < 1e-10);
  CHECK(has(error_of([&] {
              eigsh([](const Tensor& x) { return sum(x); }, zeros({3, 4}));
            }),
            "the map gives shape () for (3, 4)"));
}

TEST_CASE("eigsh: wide spectra, small matrices, cuts and maps that are none") {
  // Three zeros beside 1e5: copies are found at the rounding errors of the largest.
  std::vector<double> w(60, 0);
  for (size_t i = 3; i < w.size(); ++i) w[i] = 1 + double(i) / 100;
  w[59] = 1e5;
  const Tensor q = qr(drawn({60, 60}, DType::f64, 28))[0];
  const Tensor a = matmul(by_columns(q, Tensor::from(w, {60})), adjoint(q));
  for (const double x : values(eigsh(a, 3, "SA")[0])) CHECK(std::fabs(x) < 1e-9);
  // The derivative of vectors does not depend on the scale.
  const Tensor b = halved(sym(near_identity(4, DType::f64, 29))),
               weights = drawn({4}, DType::f64, 30);
  const auto slope = [&](double scale) {
    const Tensor x = leaf((b * scale).detach());
    return grad({sum(square(select(eigsh(x, 2, "SA")[1], 1, 0)) * weights)}, {x})[0] * scale;
  };
  for (const double scale : {1e-12, 1e12}) CHECK(distance(slope(scale), slope(1)) < 1e-9);
  // A loss that needs nothing from beyond a cut through equal values has a derivative; of several
  // cotangents at once each is looked at.
  const Tensor d = leaf(diag(f64({1, 3, 3, 4}, {4})));
  const Tensor v = select(eigsh(d, 2, "SA")[1], 1, 0);
  CHECK(distance(grad({select(v, 0, 1)}, {d})[0],
                 grad({select(select(eigh(d)[1], 1, 0), 0, 1)}, {d})[0]) < 1e-12);
  CHECK(has(error_of([&] {
              func::jacobian(
                  [&](const Tensors& in) {
                    return Tensors{select(eigsh(in[0], 2, "SA")[1], 1, 1) * f64({0, 1, 1, 1}, {4})};
                  },
                  {d.detach()});
            }),
            "is as good as equal to one that is left out"));
  const Tensor start = zeros({3}, DType::f64), turn = f64({0, 1, 0, 0, 0, 1, 0, 0, 0}, {3, 3});
  CHECK(has(error_of([&] { eigsh([&](const Tensor& x) { return matmul(turn, x); }, start); }),
            "the map is not Hermitian"));
  const Tensor wanted = leaf(eye(3, 3, DType::f64));
  CHECK(has(error_of([&] { eigsh([&](const Tensor& x) { return matmul(wanted, x); }, start); }),
            "depends on a tensor that requires a gradient"));
  CHECK(has(error_of([&] { eigsh([&](const Tensor& x) { return x; }, cast(start, DType::f16)); }),
            "expected f32, f64, c64 or c128"));
  CHECK(has(error_of([&] {
              func::vmap([&](const Tensors& in) {
                return Tensors{eigsh([&](const Tensor& x) { return matmul(in[0], x); }, start)[0]};
              })({stack({eye(3, 3, DType::f64), eye(3, 3, DType::f64)})});
            }),
            "a tensor of a vmap"));
}

TEST_CASE("linalg: failures as numbers") {
  const Tensor good = eye(2, 2, DType::f64);
  const Tensor flat = stack({good, f64({1, 2, 2, 4}, {2, 2}), f64({-1, 0, 0, 1}, {2, 2})});
  on_each_device([&] {
    const Tensor a = to_device(flat, default_device());
    using Infos = std::vector<int64_t>;
    const Tensor bad = to_device(f64({NAN, 0, 0, 1}, {2, 2}), default_device());
    for (const Tensor& info :
         {cholesky_ex(bad)[1], inv_ex(bad)[1], lu_factor_ex(bad)[2], solve_ex(bad, bad)[1]})
      CHECK(info.item_integer() == -1);
    CHECK(cholesky_ex(a)[1].to_vector<int64_t>() == Infos{0, 2, 1});
    CHECK(inv_ex(a)[1].to_vector<int64_t>() == Infos{0, 2, 0});
    CHECK(lu_factor_ex(a)[2].to_vector<int64_t>() == Infos{0, 2, 0});
    const Tensors x = solve_ex(a, to_device(good, default_device()));
    CHECK(x[1].to_vector<int64_t>() == Infos{0, 2, 0});
    CHECK(close(values(select(x[0], 0, 2)), {-1, 0, 0, 1}));
  });
}

}  // namespace matrix_functions
