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
      }
      for (int64_t j = 0; j < left; ++j) check_phase(U, j);
      for (int64_t j = k; j < right; ++j) check_phase(V, j);
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

TEST_CASE("linalg: one entry of a large matrix that is not finite, wherever it stands") {
  static constexpr int64_t n = 40;
  for_all({{{}, n, n}}, [](auto t, auto& m, auto&) {
    using T = decltype(t);
    using R = real_of<T>;
    for (const R bad : {R(NAN), R(INFINITY), R(-INFINITY)})
      for (const Index& at : {Index{0, 0}, {n - 1, n - 1}, {n - 1, 0}, {0, n - 1}, {20, 19}}) {
        Array<T> a({n, n}), x({n, n});
        Array<int64_t> info({}), rows({n});
        for (int64_t i = 0; i < n; ++i) a.at({i, i}) = T(R(2));
        linalg(m, GD_CHOLESKY, {a.view()}, {x.view(), info.view()});
        CHECK(info.at({}) == 0);
        if constexpr (gradus::is_complex_v<T>)
          a.at(at).im = bad;
        else
          a.at(at) = bad;
        linalg(m, GD_CHOLESKY, {a.view()}, {x.view(), info.view()});
        CHECK(info.at({}) == -1);
        CHECK(std::isnan(size(x.at({n - 1, 0}))));
        linalg(m, GD_LU, {a.view()}, {x.view(), rows.view(), info.view()});
        CHECK(info.at({}) == -1);
        CHECK(std::isnan(size(x.at({0, 1}))));
        CHECK(rows.at({7}) == 7);
      }
  });
}

namespace {
// What an op gives for `batch` matrices (n, n), its outputs one after the other.
template <class T>
std::vector<std::vector<T>> outputs_of(const Machine& m, int op, const Array<T>& a, int64_t batch,
                                       int64_t n, const Index& ints) {
  Array<T> first({batch, n, n}), values({batch, n}), last({batch, n, n});
  Array<int64_t> info({batch}), rows({batch, n});
  switch (op) {
    case GD_SVD:
      linalg(m, op, {a.view()}, {first.view(), values.view(), last.view(), info.view()});
      break;
    case GD_EIGH:
      linalg(m, op, {a.view()}, {values.view(), first.view(), info.view()});
      break;
    case GD_QR:
      linalg(m, op, {a.view()}, {first.view(), last.view()}, ints);
      break;
    case GD_LU:
      linalg(m, op, {a.view()}, {first.view(), rows.view(), info.view()});
      break;
    case GD_CHOLESKY:
      linalg(m, op, {a.view()}, {first.view(), info.view()});
      break;
    default:
      linalg(m, op, {a.view(), a.view()}, {first.view(), info.view()}, ints);
  }
  return {first.values(), values.values(), last.values()};
}
template <class T>
void check_bits(int op, int64_t n, const Index& ints = {}) {
  constexpr int64_t kBatch = 19;
  Array<T> a({kBatch, n, n}), alone({1, n, n});
  for (int64_t i = 0; i < kBatch * n * n; ++i)
    a.at({i / (n * n), i / n % n, i % n}) = random_number<T>() + (i / n % n == i % n ? T(n) : T(0));
  std::vector<std::vector<T>> seen;
  for (const Machine& m : machines()) {
    if (m.name == "reference") continue;  // has no groups
    INFO(m.name << ", op " << op << ", n " << n);
    const auto all = outputs_of(m, op, a, kBatch, n, ints);
    if (seen.empty()) seen = all;
    for (size_t k = 0; k < all.size(); ++k) CHECK(cpu_test::same_bits(all[k], seen[k]));
    for (const int64_t at : {int64_t(0), int64_t(7), kBatch - 1}) {
      for (int64_t i = 0; i < n * n; ++i) alone.at({0, i / n, i % n}) = a.at({at, i / n, i % n});
      const auto one = outputs_of(m, op, alone, 1, n, ints);
      for (size_t k = 0; k < one.size(); ++k) {
        const auto from = all[k].begin() + at * int64_t(one[k].size());
        CHECK(cpu_test::same_bits(one[k], std::vector<T>(from, from + int64_t(one[k].size()))));
      }
    }
  }
}
}  // namespace

TEST_CASE("linalg: bits depend neither on threads nor on the batch nor on the instruction set") {
  for (const int64_t n : {2, 7, 8, 9}) {
    check_bits<double>(GD_SVD, n);
    check_bits<float>(GD_SVD, n);
    check_bits<double>(GD_EIGH, n);
    check_bits<float>(GD_EIGH, n);
  }
  for (const int64_t n : {3, 11, 16, 17}) {
    check_bits<double>(GD_CHOLESKY, n);
    check_bits<float>(GD_CHOLESKY, n);
    check_bits<double>(GD_QR, n, {0});
    check_bits<float>(GD_QR, n, {1});
    check_bits<double>(GD_LU, n);
    check_bits<float>(GD_LU, n);
    for (const int64_t turned : {0, 1}) {
      check_bits<double>(GD_SOLVE, n, {turned});
      check_bits<float>(GD_SOLVE, n, {turned});
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

TEST_CASE("linalg eigh: eigenvalues that differ by rounding errors converge") {
  // I and some noise; the lower triangle by rows.
  const float lower[] = {
      0x1p+0F,          -0x1.b856b8p-24F, 0x1.fffffep-1F,   0x1.2d287p-24F,   0x1.25724ep-25F,
      0x1.000004p+0F,   -0x1.f91cbep-24F, -0x1.1619c2p-24F, 0x1.46aa5p-24F,   0x1p+0F,
      -0x1.f013fp-25F,  -0x1.09acf8p-25F, -0x1.96ffa2p-26F, 0x1.628c1cp-26F,  0x1p+0F,
      0x1.a3a8a6p-25F,  -0x1.209ae2p-23F, 0x1.1ee92ep-23F,  0x1.a040a4p-24F,  -0x1.b347eep-25F,
      0x1p+0F,          -0x1.07521ap-22F, -0x1.52b35ap-23F, -0x1.1c9bdep-23F, 0x1.4eaa54p-23F,
      -0x1.ca6de4p-25F, -0x1.9014b6p-25F, 0x1p+0F,          -0x1.28d99ep-25F, -0x1.4149a8p-24F,
      0x1.5ac3cp-28F,   0x1.77d64ep-25F,  -0x1.e1ed34p-25F, 0x1.0e631p-24F,   0x1.559cd6p-25F,
      0x1.000002p+0F,   -0x1.8fd2dap-23F, -0x1.5c9f8ap-25F, 0x1.472724p-24F,  -0x1.425bb4p-24F,
      0x1.41e1dp-27F,   0x1.fab7c4p-24F,  -0x1.651b0ep-26F, 0x1.bfa434p-24F,  0x1.fffffep-1F,
      -0x1.faa288p-24F, -0x1.08d6eap-24F, -0x1.bedcecp-24F, 0x1.b2858cp-24F,  0x1.7bf38ep-26F,
      0x1.7f7434p-24F,  -0x1.b11d16p-24F, -0x1.2b01fp-26F,  -0x1.ec12bap-24F, 0x1.fffffep-1F,
      -0x1.1e304cp-23F, -0x1.258518p-26F, 0x1.d6ed82p-24F,  0x1.33e61ep-26F,  -0x1.982a28p-25F,
      -0x1.69ca4ep-25F, -0x1.9a0c0cp-25F, 0x1.564e2ep-28F,  0x1.62ca76p-24F,  -0x1.588906p-23F,
      0x1.fffffcp-1F,   -0x1.bf04fcp-24F, 0x1.960d4cp-28F,  -0x1.8d0f84p-24F, 0x1.9e41b8p-25F,
      -0x1.d02774p-24F, 0x1.553cecp-25F,  0x1.0a0e74p-24F,  -0x1.270e52p-23F, -0x1.2eb6c2p-23F,
      -0x1.5cb29ap-29F, -0x1.1b7de8p-23F, 0x1.fffffep-1F};
  for (const Machine& m : machines()) {
    Array<float> a({12, 12}), w({12}), v({12, 12});
    Array<int64_t> info({});
    const float* next = lower;
    for (int64_t i = 0; i < 12; ++i)
      for (int64_t j = 0; j <= i; ++j) a.at({i, j}) = a.at({j, i}) = *next++;
    linalg(m, GD_EIGH, {a.view()}, {w.view(), v.view(), info.view()});
    INFO(m.name);
    CHECK(info.at({}) == 0);
    for (int64_t i = 0; i < 12; ++i) CHECK(std::fabs(w.at({i}) - 1) < 3e-6F);
  }
}

}  // namespace linalg_test
