// The slot linalg through the C table, on the reference and the cpu: eigenvalues and singular
// values, checked by their definitions; hard matrices; what is not finite.
#include "tests/kernels/linalg_calls.hpp"

#include <doctest/doctest.h>

namespace linalg_test {
namespace {

template <class T>
Dense<T> hermitian(const Dense<T>& a) {  // (A + A^H) / 2
  Dense<T> h = a;
  const T half(real_of<T>(0.5));
  for (int64_t i = 0; i < a.m; ++i)
    for (int64_t j = 0; j < a.m; ++j) h(i, j) = half * a(i, j) + half * conj_of(a(j, i));
  return h;
}

// Numbers that were asked for without vectors are those with them: to the bit, or of LAPACK, which
// finds them in another way then, but for rounding.
template <class R>
void check_alone(const Machine& machine, const Array<R>& alone, const Array<R>& numbers) {
  if (!machine.lapack) CHECK(cpu_test::same_bits(alone.values(), numbers.values()));
  R off = 0, most = 0;
  cpu_test::each(alone.sizes, [&](const Index& i) {
    off = std::max(off, std::fabs(alone.at(i) - numbers.at(i)));
    most = std::max(most, std::fabs(numbers.at(i)));
  });
  const int64_t n = alone.sizes.back();
  CHECK(off <= R(tolerance<R>(n, n)) * most);
}

template <class T>
void check_eigh(const Machine& machine, const Array<T>& a, const Index& batch) {
  const int64_t n = a.sizes.back();
  Array<real_of<T>> w(with(batch, {n}), cpu_test::kGaps), alone(with(batch, {n}));
  Array<T> v(with(batch, {n, n}), cpu_test::kPermuted);
  Array<int64_t> info(batch);
  linalg(machine, GD_EIGH, {a.view()}, {w.view(), v.view(), info.view()});
  linalg(machine, GD_EIGH, {a.view()}, {alone.view(), kAbsent, info.view()});
  check_alone(machine, alone, w);
  cpu_test::each(batch, [&](const Index& at) {
    CHECK(info.at(at) == 0);
    const auto d = hermitian(matrix(a, at)), vectors = matrix(v, at);
    const auto values = matrix(w, at);
    CHECK(std::is_sorted(values.x.begin(), values.x.end()));
    check_close("A V", d * vectors, scaled(vectors, values), norm(d));
    check_unitary("V", vectors);
    for (int64_t k = 0; k < n; ++k) check_phase(vectors, k);
  });
}

template <class T>
void check_svd(const Machine& machine, const Array<T>& a, const Index& batch) {
  const int64_t m = a.sizes[batch.size()], n = a.sizes.back(), k = std::min(m, n);
  for (bool full : {false, true}) {
    const int64_t left = full ? m : k, right = full ? n : k;
    Array<T> u(with(batch, {m, left})), vh(with(batch, {right, n}), cpu_test::kGaps),
        vh_alone(with(batch, {right, n}));
    Array<real_of<T>> s(with(batch, {k})), alone(with(batch, {k}));
    Array<int64_t> info(batch);
    linalg(machine, GD_SVD, {a.view()}, {u.view(), s.view(), vh.view(), info.view()});
    linalg(machine, GD_SVD, {a.view()}, {kAbsent, alone.view(), kAbsent, info.view()});
    check_alone(machine, alone, s);
    linalg(machine, GD_SVD, {a.view()}, {kAbsent, s.view(), vh_alone.view(), info.view()});
    CHECK(cpu_test::same_bits(vh_alone.values(), vh.values()));
    cpu_test::each(batch, [&](const Index& at) {
      CHECK(info.at(at) == 0);
      const auto d = matrix(a, at), U = matrix(u, at), V = adjoint(matrix(vh, at));
      const auto values = matrix(s, at);
      CHECK(std::is_sorted(values.x.rbegin(), values.x.rend()));
      CHECK((k == 0 || values(k - 1, 0) >= 0));
      check_unitary("U", U);
      check_unitary("V", V);
      Dense<T> us(m, k), vk(n, k);
      for (int64_t j = 0; j < k; ++j) {
        for (int64_t i = 0; i < m; ++i) us(i, j) = U(i, j) * T(values(j, 0));
        for (int64_t i = 0; i < n; ++i) vk(i, j) = V(i, j);
        check_phase(U, j);
      }
      check_close("U S V^H", us * adjoint(vk), d, norm(d));
    });
  }
}

template <class T>
void check_eig(const Machine& machine, const Array<T>& a, const Index& batch) {
  using C = Complex<real_of<T>>;
  const int64_t n = a.sizes.back();
  Array<C> w(with(batch, {n})), v(with(batch, {n, n}), cpu_test::kPermuted);
  Array<int64_t> info(batch);
  linalg(machine, GD_EIG, {a.view()}, {w.view(), v.view(), info.view()});
  cpu_test::each(batch, [&](const Index& at) {
    CHECK(info.at(at) == 0);
    const auto real = matrix(a, at);
    Dense<C> d(n, n);
    for (int64_t i = 0; i < n * n; ++i) d.x[size_t(i)] = C(real.x[size_t(i)]);
    const auto vectors = matrix(v, at);
    const auto values = matrix(w, at);
    CHECK(std::is_sorted(values.x.begin(), values.x.end(),
                         [](C x, C y) { return x.re < y.re || (x.re == y.re && x.im < y.im); }));
    check_close("A V", d * vectors, scaled(vectors, values), norm(d) * std::sqrt(double(n)));
    for (int64_t k = 0; k < n; ++k) {
      check_phase(vectors, k);
      double sum = 0;
      bool is_real = true;
      for (int64_t i = 0; i < n; ++i) {
        sum += size(vectors(i, k)) * size(vectors(i, k));
        is_real &= vectors(i, k).im == 0;
      }
      CHECK(std::fabs(sum - 1) <= tolerance<T>(n, n));
      if (is_complex_v<T>) continue;
      // Of a real matrix: real to the bit, or one of two that are conjugate to the bit.
      const C x = values(k, 0);
      const auto same = [&](C y) { return y == conj_of(x); };
      CHECK(std::count_if(values.x.begin(), values.x.end(), same) > 0);
      CHECK(is_real == (x.im == 0));
    }
  });
}

template <class T>
void check_all(const Machine& machine, const Array<T>& a, const Index& batch = {}) {
  check_svd(machine, a, batch);
  if (a.sizes[batch.size()] != a.sizes.back()) return;
  check_eigh(machine, a, batch);
  check_eig(machine, a, batch);
}

// Matrices on which such algorithms fail if they do.
template <class T>
std::vector<Dense<T>> hard_matrices(int64_t n) {
  using R = real_of<T>;
  const R large = sizeof(R) == 4 ? R(1e30) : R(1e150), base = sizeof(R) == 4 ? R(0.2) : R(1e-5);
  std::vector<Dense<T>> all;
  const auto add = [&](auto&& f) {
    Dense<T> d(n, n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) d(i, j) = f(i, j);
    all.push_back(d);
  };
  const auto power = [&](int64_t k) { return T(std::pow(base, R(k * 12 / n))); };
  add([](int64_t, int64_t) { return T(0); });
  add([](int64_t i, int64_t j) { return T(i == j ? 1 : 0); });
  add([](int64_t, int64_t) { return T(1); });
  add([](int64_t i, int64_t j) { return T(j == i + 1 ? 1 : 0); });            // defective
  add([](int64_t i, int64_t j) { return T(j == i + 1 || i == j ? 1 : 0); });  // defective
  add([n](int64_t i, int64_t j) { return T((j + 1) % n == i ? 1 : 0); });     // a cycle
  add([](int64_t i, int64_t j) { return T(i == j ? i % 3 : 0); });  // repeated eigenvalues
  add([](int64_t i, int64_t j) { return T(R(1) / R(i + j + 1)); });
  add([](int64_t i, int64_t j) { return T(R((i * 7 + j * 3) % 5 - 2)); });  // of rank 5 at most
  add([&](int64_t i, int64_t j) { return power(i + j) * random_number<T>(); });
  add([&](int64_t i, int64_t j) { return power(2 * n - 2 - i - j) * random_number<T>(); });
  add([&](int64_t, int64_t) { return T(large) * random_number<T>(); });
  add([&](int64_t, int64_t) { return T(1 / large) * random_number<T>(); });
  add([&](int64_t i, int64_t j) { return T(i == j ? (i % 2 ? large : 1 / large) : R(0)); });
  return all;
}

}  // namespace

TEST_CASE("linalg eigh: A V = V w, w ascending, V unitary, of the Hermitian part") {
  for_all(square_shapes(), [](auto t, auto& m, auto& s) {
    check_eigh(m, random_array<decltype(t)>(with(s.batch, {s.m, s.m}), s.layout), s.batch);
  });
}
TEST_CASE("linalg svd: A = U S Vh, thin and full, s descending, U and V unitary") {
  for_all(all_shapes(), [](auto t, auto& m, auto& s) {
    check_svd(m, random_array<decltype(t)>(with(s.batch, {s.m, s.n}), s.layout), s.batch);
  });
}
TEST_CASE("linalg eig: A V = V w, pairs of real matrices conjugate to the bit") {
  for_all(square_shapes(), [](auto t, auto& m, auto& s) {
    check_eig(m, random_array<decltype(t)>(with(s.batch, {s.m, s.m}), s.layout), s.batch);
  });
}
TEST_CASE("linalg: spectra of zero, defective, graded, huge and tiny matrices") {
  for_all({{{}, 12, 12}, {{}, 36, 36}}, [](auto t, auto& m, auto& s) {
    if (s.m > 12 && !m.lapack) return;
    int k = 0;
    for (const auto& d : hard_matrices<decltype(t)>(s.m)) {
      INFO("matrix " << k++);
      check_all(m, from(d));
    }
  });
}

TEST_CASE("linalg: known spectra") {
  for (const Machine& machine : machines()) {
    Array<double> a({3, 3}), w({3}), v({3, 3}), s({3});
    Array<c128> z({3}), zv({3, 3});
    Array<int64_t> info({});
    const double rotation[] = {0, -2, 0, 2, 0, 0, 0, 0, 5};
    for (int64_t i = 0; i < 9; ++i) a.at({i / 3, i % 3}) = rotation[i];
    linalg(machine, GD_EIG, {a.view()}, {z.view(), zv.view(), info.view()});
    CHECK(z.values() == std::vector<c128>{{0, -2}, {0, 2}, {5, 0}});
    linalg(machine, GD_SVD, {a.view()}, {kAbsent, s.view(), kAbsent, info.view()});
    CHECK(s.values() == std::vector<double>{5, 2, 2});
    a.at({0, 1}) = 2;
    linalg(machine, GD_EIGH, {a.view()}, {w.view(), v.view(), info.view()});
    CHECK(w.at({0}) == doctest::Approx(-2));
    CHECK(w.at({2}) == doctest::Approx(5));
    // Of the two equal entries of a vector the first is positive.
    CHECK(v.at({0, 0}) == doctest::Approx(std::sqrt(0.5)));
    CHECK(v.at({1, 0}) == doctest::Approx(-std::sqrt(0.5)));
  }
}

TEST_CASE("linalg: what is not finite gives info -1 and NaN, and ends") {
  for_all({{{2}, 5, 5}}, [](auto t, auto& m, auto&) {
    using T = decltype(t);
    using R = real_of<T>;
    for (R bad : {R(NAN), R(INFINITY), R(-INFINITY)}) {
      auto a = random_array<T>({2, 5, 5});
      for (int64_t i = 0; i < 5; ++i) a.at({1, i, i}) = T(R(9));  // the second is well
      a.at({0, 3, 1}) = T(bad);
      Array<T> x({2, 5, 5}), y({2, 5, 5});
      Array<Complex<R>> z({2, 5}), zv({2, 5, 5});
      Array<R> w({2, 5});
      Array<int64_t> info({2}), rows({2, 5});
      const auto ended = [&](auto& first) {
        CHECK(number(first.store[size_t(first.offset)]).re !=
              number(first.store[size_t(first.offset)]).re);
        CHECK(number(first.store[size_t(first.offset + 5)]).re ==
              number(first.store[size_t(first.offset + 5)]).re);
      };
      linalg(m, GD_EIGH, {a.view()}, {w.view(), x.view(), info.view()});
      CHECK(info.values() == Index{-1, 0});
      ended(w);
      linalg(m, GD_SVD, {a.view()}, {x.view(), w.view(), y.view(), info.view()});
      CHECK(info.values() == Index{-1, 0});
      ended(w);
      linalg(m, GD_EIG, {a.view()}, {z.view(), zv.view(), info.view()});
      CHECK(info.values() == Index{-1, 0});
      ended(z);
      linalg(m, GD_LU, {a.view()}, {x.view(), rows.view(), info.view()});
      CHECK(info.values() == Index{-1, 0});
      linalg(m, GD_SOLVE, {a.view(), y.view()}, {x.view(), info.view()});
      CHECK(info.values() == Index{-1, 0});
      linalg(m, GD_CHOLESKY, {a.view()}, {x.view(), info.view()});
      CHECK(info.at({0}) == -1);
      linalg(m, GD_QR, {a.view()}, {x.view(), y.view()});
      CHECK(std::isnan(size(x.at({0, 0, 0}))));
      CHECK(std::isnan(size(y.at({0, 4, 4}))));
    }
  });
}

TEST_CASE(
    "linalg: the bits depend neither on threads nor on the batch nor on the instruction set") {
  const auto a = random_array<double>({50, 9, 9});
  std::vector<std::vector<double>> seen;
  for (const Machine& m : machines()) {
    if (m.name == "reference") continue;  // has no groups
    Array<double> u({50, 9, 9}), s({50, 9}), vh({50, 9, 9}), one({9, 9}), w({9});
    Array<int64_t> info({50}), none({});
    linalg(m, GD_SVD, {a.view()}, {u.view(), s.view(), vh.view(), info.view()});
    seen.push_back(u.values());
    CHECK(cpu_test::same_bits(seen.back(), seen.front()));
    for (int64_t at : {0, 7, 49}) {
      Array<double> alone({9, 9});
      for (int64_t i = 0; i < 81; ++i) alone.at({i / 9, i % 9}) = a.at({at, i / 9, i % 9});
      linalg(m, GD_SVD, {alone.view()}, {one.view(), w.view(), kAbsent, none.view()});
      for (int64_t i = 0; i < 81; ++i) CHECK(one.at({i / 9, i % 9}) == u.at({at, i / 9, i % 9}));
    }
  }
}

TEST_CASE("linalg: the bits of LAPACK depend neither on our threads nor on the batch") {
  const auto a = random_array<double>({7, 40, 40});
  std::vector<double> first;
  for (const Machine& m : machines()) {
    if (!m.lapack) continue;
    Array<double> u({7, 40, 40}), s({7, 40}), vh({7, 40, 40}), one_u({40, 40}), one_s({40});
    Array<int64_t> info({7}), one_info({});
    linalg(m, GD_SVD, {a.view()}, {u.view(), s.view(), vh.view(), info.view()});
    if (first.empty()) first = u.values();
    CHECK(cpu_test::same_bits(u.values(), first));
    const auto last = from(matrix(a, {6}));
    linalg(m, GD_SVD, {last.view()}, {one_u.view(), one_s.view(), kAbsent, one_info.view()});
    CHECK(cpu_test::same_bits(one_u.values(), from(matrix(u, {6})).values()));
  }
}

}  // namespace linalg_test
