// The slot linalg of the GPU modules against the reference. Small matrices are for kernels of our
// own. On the emulator a fake of cuSOLVER does the work of larger ones on the host and looks at all
// it is given; another module takes the library that is there.
#include "tests/gpu/linalg_calls.hpp"

#include <limits>

using namespace gpu_linalg_test;

namespace {

// Devices with a solver library; none where a GPU's machine has none.
const std::vector<gd_device*>& solving() {
  // Kept, as devices live for ever.
  static const auto* const all = new auto([] {
    if (emulates()) return open_emulators(solver(fake_library("cusolver").path).c_str());
    std::vector<gd_device*> list = open_emulators("{}");
    Array<double> a({33, 33}), l({33, 33});
    for (int64_t i = 0; i < 33; ++i) a.at({i, i}) = 1;
    Array<int64_t> info({});
    gd_error e{};
    if (try_call(emulator(), list[0], GD_LINALG, GD_CHOLESKY, {a.view()}, {l.view(), info.view()},
                 {}, {}, e) == GD_OK)
      return list;
    MESSAGE("skipped: " << e.text);
    return std::vector<gd_device*>{};
  }());
  return *all;
}

template <class T>
void agree(int op, const std::vector<gd_view>& in, const std::string& kinds,
           const std::vector<Index>& sizes, const Index& ints = {}, double loss = 1) {
  gpu_linalg_test::agree<T>(solving(), emulates() ? &fake_library("cusolver") : nullptr, op, in,
                            kinds, sizes, ints, loss);
}

const std::vector<BatchShape>& squares() {
  static const std::vector<BatchShape> list{{{}, 1, 1},
                                            {{}, 5, 5},
                                            {{3}, 9, 9, kPermuted},
                                            {{2, 2}, 4, 4, kNegative},
                                            {{2}, 6, 6, kGaps},
                                            {{}, 32, 32, kPermuted},
                                            {{2}, 33, 33},  // for a library
                                            {{}, 0, 0},
                                            {{3}, 0, 0},
                                            {{0}, 3, 3}};
  return list;
}
const std::vector<BatchShape>& rectangles() {
  static const auto list = [] {
    std::vector<BatchShape> all = squares();
    for (auto [m, n] : {std::pair{7, 4}, {4, 7}, {1, 6}, {6, 1}, {4, 3}, {3, 4}, {0, 3}, {3, 0}})
      all.push_back({{2}, m, n, m > n ? kPermuted : kPlain});
    for (auto [m, n] : {std::pair{48, 31}, {32, 48}, {49, 2}, {3, 50}}) all.push_back({{}, m, n});
    return all;
  }();
  return list;
}
template <class F>
void for_shapes(const std::vector<BatchShape>& shapes, F&& f) {
  for_dtypes([&](auto t) {
    for (const BatchShape& s : shapes) {
      CAPTURE(s.m);
      CAPTURE(s.n);
      CAPTURE(int(s.layout));
      f(t, s);
    }
  });
}

}  // namespace

TEST_CASE("gpu: linalg cholesky and lu") {
  for_shapes(squares(), [](auto t, const BatchShape& s) {
    using T = decltype(t);
    agree<T>(GD_CHOLESKY, {matrices<T>(s, true).view()}, "ti",
             {with(s.batch, {s.n, s.n}), s.batch});
  });
  for_shapes(rectangles(), [](auto t, const BatchShape& s) {
    using T = decltype(t);
    agree<T>(GD_LU, {matrices<T>(s, false, 1).view()}, "tii",
             {with(s.batch, {s.m, s.n}), with(s.batch, {s.m}), s.batch});
  });
}

TEST_CASE("gpu: linalg solve, in all three forms, and det") {
  for_shapes(squares(), [](auto t, const BatchShape& s) {
    using T = decltype(t);
    const auto a = matrices<T>(s, false, 1);
    for (int64_t turned : {0, 1, 2})
      for (int64_t r : {0, 1, 3, 37}) {
        if (r > 3 && s.layout == kPlain) continue;
        Array<T> b(with(s.batch, {s.n, r}), kPermuted);
        b.fill(small_number<T>);
        agree<T>(GD_SOLVE, {a.view(), b.view()}, "ti", {with(s.batch, {s.n, r}), s.batch},
                 {turned});
      }
    if (sizeof(real_of<T>) == 4 && s.n > 16) return;  // beyond the range
    agree<T>(GD_DET, {a.view()}, "ttr", {s.batch, s.batch, s.batch});
    agree<T>(GD_DET, {a.view()}, "-t-", {s.batch, s.batch, s.batch});
  });
}

TEST_CASE("gpu: linalg solve_triangular, which needs no library") {
  const std::vector<BatchShape> more{{{}, 33, 33}, {{2}, 70, 70, kPermuted}};
  for (const auto* shapes : {&squares(), &more})
    for_shapes(*shapes, [](auto t, const BatchShape& s) {
      using T = decltype(t);
      for (int64_t code = 0; code < 12; ++code)
        for (int64_t r : {1, 3, 40}) {
          if (r > 3 && code % 5 != 0) continue;
          auto a = matrices<T>({s.batch, s.m, s.n, s.layout}, true);
          each(a.sizes, [&](const Index& i) {  // ones for a diagonal would make large numbers
            if (i.back() != i[i.size() - 2]) a.at(i) = a.at(i) * T(real_of<T>(0.125));
          });
          Array<T> b(with(s.batch, {s.n, r}), kPermuted);
          b.fill(small_number<T>);
          const Index ints{code & 1, code >> 1 & 1, code >> 2};
          agree<T>(GD_SOLVE_TRIANGULAR, {a.view(), b.view()}, "t", {with(s.batch, {s.n, r})}, ints);
        }
    });
  // What the other triangle holds counts for nothing; a zero divides as it does.
  Array<float> a({2, 2}), b({2, 1}), x({2, 1});
  const float numbers[] = {2, NAN, 4, 0};
  for (int64_t i = 0; i < 4; ++i) a.at({i / 2, i % 2}) = numbers[i];
  b.at({0, 0}) = 6;
  run(emulator(), emulated()[0], GD_LINALG, GD_SOLVE_TRIANGULAR, {a.view(), b.view()}, {x.view()},
      {}, {0, 0, 0});
  CHECK(x.values() == std::vector<float>{3, -INFINITY});
}

TEST_CASE("gpu: linalg qr, thin and full, R alone, both conventions of signs") {
  for_shapes(rectangles(), [](auto t, const BatchShape& s) {
    using T = decltype(t);
    const auto a = matrices<T>(s);
    const int64_t k = std::min(s.m, s.n);
    for (int64_t q : {k, s.m})
      for (int64_t positive : {0, 1}) {
        const std::vector<Index> sizes = {with(s.batch, {s.m, q}), with(s.batch, {q, s.n})};
        agree<T>(GD_QR, {a.view()}, "tt", sizes, {positive});
        if (s.m + s.n > 20) break;  // one of each large shape takes long enough
        agree<T>(GD_QR, {a.view()}, "-t", sizes, {positive});
        agree<T>(GD_QR, {a.view()}, "t-", sizes, {positive});
      }
  });
}

TEST_CASE("gpu: linalg eigh and eig") {
  for_shapes(squares(), [](auto t, const BatchShape& s) {
    using T = decltype(t);
    const auto a = matrices<T>(s);
    const std::vector<Index> sizes = {with(s.batch, {s.n}), with(s.batch, {s.n, s.n}), s.batch};
    for (const char* v : {"t", "-"})
      agree<T>(GD_EIGH, {a.view()}, std::string("r") + v + "i", sizes, {}, 8);
    for (const char* v : {"c", "-"})
      agree<T>(GD_EIG, {a.view()}, std::string("c") + v + "i", sizes, {}, 8);
  });
  // Pairs of a real matrix: rotations, of different angles.
  Array<double> turns({5, 5});
  const double parts[] = {1, 2, 3};
  for (int64_t k : {0, 2}) {
    turns.at({k, k}) = turns.at({k + 1, k + 1}) = parts[k];
    turns.at({k, k + 1}) = -parts[k / 2], turns.at({k + 1, k}) = parts[k / 2] + 1;
  }
  turns.at({4, 4}) = turns.at({4, 0}) = 0.5;
  agree<double>(GD_EIG, {turns.view()}, "cci", {{5}, {5, 5}, {}});
}

TEST_CASE("gpu: linalg svd, thin and full, values alone, one side alone") {
  for_shapes(rectangles(), [](auto t, const BatchShape& s) {
    using T = decltype(t);
    const auto a = matrices<T>(s);
    const int64_t k = std::min(s.m, s.n);
    for (bool full : {false, true}) {
      // Of several vectors beyond k only the space is known: those are for the next test.
      if (full && s.m != s.n && k > 0 && std::max(s.m, s.n) > k + 1) continue;
      const std::vector<Index> sizes = {with(s.batch, {s.m, full ? s.m : k}), with(s.batch, {k}),
                                        with(s.batch, {full ? s.n : k, s.n}), s.batch};
      if (full && s.m + s.n > 20) continue;  // one of each large shape takes long enough
      for (const char* kinds : {"trti", "-r-i", "tr-i", "-rti"})
        if (s.m + s.n <= 20 || kinds[0] == kinds[2])
          agree<T>(GD_SVD, {a.view()}, kinds, sizes, {}, 8);
    }
  });
}

TEST_CASE("gpu: linalg of more small matrices than blocks run at once") {
  for_dtypes([](auto t) {
    using T = decltype(t);
    const int64_t many = 70;
    const auto a = matrices<T>({{many}, 2, 2}, true), tall = matrices<T>({{many}, 3, 2});
    const Index i{many}, v{many, 2}, m{many, 2, 2}, high{many, 3, 2};
    agree<T>(GD_CHOLESKY, {a.view()}, "ti", {m, i});
    agree<T>(GD_LU, {a.view()}, "tii", {m, v, i});
    agree<T>(GD_SOLVE, {a.view(), a.view()}, "ti", {m, i}, {1});
    agree<T>(GD_QR, {tall.view()}, "tt", {high, m}, {1});
    agree<T>(GD_EIGH, {a.view()}, "rti", {v, m, i}, {}, 8);
    agree<T>(GD_SVD, {tall.view()}, "trti", {high, v, m, i}, {}, 8);
  });
}

namespace {
// The largest entry of x - y.
template <class T>
double distance(const Array<T>& x, const Array<T>& y) {
  double most = 0;
  each(x.sizes, [&](const Index& at) {
    const c128 off(x.at(at) - y.at(at));
    most = std::max(most, std::hypot(off.re, off.im));
  });
  return most;
}
// The largest entry of x^H x - 1.
template <class T>
double not_unitary(const Array<T>& x) {
  double most = 0;
  const int64_t n = x.sizes[1];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      T sum(real_of<T>(i == j ? -1 : 0));
      for (int64_t k = 0; k < x.sizes[0]; ++k) sum += conj_of(x.at({k, i})) * x.at({k, j});
      const c128 off(sum);
      most = std::max(most, std::hypot(off.re, off.im));
    }
  return most;
}
}  // namespace

TEST_CASE("gpu: linalg spectra of singular, repeated, tiny and huge numbers") {
  for_dtypes([](auto t) {
    using T = decltype(t);
    using R = real_of<T>;
    const R ends[] = {R(1), R(sizeof(R) == 4 ? 1e-37 : 1e-306), R(sizeof(R) == 4 ? 1e36 : 1e305)};
    for (int64_t n : {1, 6, 11, 20})
      for (int64_t rank : {0, 1, 3, -1})
        for (R scale : ends) {
          if (n > 11 && (rank >= 0 || scale != R(1) || is_complex_v<T>)) continue;
          for (gd_device* device : solving()) {
            CAPTURE(n);
            CAPTURE(rank);
            CAPTURE(double(scale));
            // Ones and a block of equal numbers; or Hilbert's matrix, which is nearly singular.
            Array<T> a({n, n}), u({n, n}), vh({n, n}), v({n, n}), q({n, n}), r({n, n});
            Array<R> s({n}), w({n});
            Array<int64_t> info({});
            each(a.sizes, [&](const Index& at) {
              const bool own = at[0] == at[1] && at[0] < rank;
              const R more = rank > 1 && at[0] >= rank && at[1] >= rank ? R(0.25) : R(0);
              a.at(at) = T(scale * ((own ? R(1) : R(0)) + more));
              if (rank < 0) a.at(at) = T(scale / R(at[0] + at[1] + 1));
            });
            run(emulator(), device, GD_LINALG, GD_SVD, {a.view()},
                {u.view(), s.view(), vh.view(), info.view()}, {}, {});
            CHECK(info.at({}) == 0);
            run(emulator(), device, GD_LINALG, GD_EIGH, {a.view()},
                {w.view(), v.view(), info.view()}, {}, {});
            CHECK(info.at({}) == 0);
            run(emulator(), device, GD_LINALG, GD_QR, {a.view()}, {q.view(), r.view()}, {}, {0});
            const double near = 30 * tolerance<T>();
            for (const auto* x : {&u, &vh, &v, &q}) CHECK(not_unitary(*x) <= near);
            // All back, over the scale.
            Array<T> back({n, n}), by_eigh({n, n}), by_qr({n, n}), want({n, n});
            each(a.sizes, [&](const Index& at) {
              const auto over_scale = [&](T x) { return x / T(scale); };
              T sums[3] = {T(R(0)), T(R(0)), T(R(0))};
              for (int64_t k = 0; k < n; ++k) {
                sums[0] += u.at({at[0], k}) * over_scale(T(s.at({k}))) * vh.at({k, at[1]});
                sums[1] += v.at({at[0], k}) * over_scale(T(w.at({k}))) * conj_of(v.at({at[1], k}));
                sums[2] += q.at({at[0], k}) * over_scale(r.at({k, at[1]}));
              }
              want.at(at) = over_scale(a.at(at));
              back.at(at) = sums[0], by_eigh.at(at) = sums[1], by_qr.at(at) = sums[2];
            });
            for (const auto* x : {&back, &by_eigh, &by_qr})
              CHECK(distance(*x, want) <= 10 * double(n) * near);
          }
        }
  });
}

TEST_CASE("gpu: linalg svd, the whole of the larger side is unitary") {
  for_dtypes([](auto t) {
    using T = decltype(t);
    for (auto [m, n] : {std::pair<int64_t, int64_t>{9, 4}, {4, 9}, {48, 4}, {4, 51}})
      for (gd_device* device : solving()) {
        const auto a = matrices<T>({{}, m, n});
        Array<T> u({m, m}), vh({n, n});
        Array<real_of<T>> s({4});
        Array<int64_t> info({});
        run(emulator(), device, GD_LINALG, GD_SVD, {a.view()},
            {u.view(), s.view(), vh.view(), info.view()}, {}, {});
        CHECK(not_unitary(u) <= 30 * tolerance<T>());
        CHECK(not_unitary(vh) <= 30 * tolerance<T>());
      }
  });
}

namespace {
// {ok, bad, ok}: the neighbours of a matrix that is not finite are worked on all the same.
template <class T>
void check_not_finite(real_of<T> bad) {
  auto a = matrices<T>({{3}, 4, 4}, true);
  a.at({1, 2, 0}) = T(bad);
  const Index b{3}, v{3, 4}, m{3, 4, 4};
  Array<T> right(m);
  right.fill(small_number<T>);
  agree<T>(GD_CHOLESKY, {a.view()}, "ti", {m, b});
  agree<T>(GD_LU, {a.view()}, "tii", {m, v, b});
  agree<T>(GD_SOLVE, {a.view(), right.view()}, "ti", {m, b});
  agree<T>(GD_DET, {a.view()}, "ttr", {b, b, b}, {}, 10);
  agree<T>(GD_QR, {a.view()}, "tt", {m, m}, {1});
  agree<T>(GD_EIGH, {a.view()}, "rti", {v, m, b}, {}, 8);
  agree<T>(GD_SVD, {a.view()}, "trti", {m, v, m, b}, {}, 8);
  agree<T>(GD_EIG, {a.view()}, "cci", {v, m, b}, {}, 8);
}
}  // namespace

TEST_CASE("gpu: linalg of what is not finite, singular or indefinite") {
  for_dtypes([](auto t) {
    using T = decltype(t);
    using R = real_of<T>;
    for (R bad : {R(NAN), R(INFINITY), R(-INFINITY)}) check_not_finite<T>(bad);
    // The second of three is singular, the third has a negative pivot.
    Array<T> a({3, 3, 3});
    const float numbers[] = {4, 0, 0, 0, 5, 0, 0, 0, 6, 4, 2, 0, 2, 1,
                             0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, -1};
    for (int64_t i = 0; i < 27; ++i) a.at({i / 9, i / 3 % 3, i % 3}) = T(R(numbers[i]));
    for (gd_device* device : solving()) {
      Array<T> x({3, 3, 3}), y({3, 3, 3}), det({3}), sign({3});
      Array<R> log({3});
      Array<int64_t> info({3}), rows({3, 3});
      const auto call = [&](int op, const std::vector<gd_view>& in,
                            const std::vector<gd_view>& out) {
        run(emulator(), device, GD_LINALG, op, in, out, {}, {});
      };
      call(GD_CHOLESKY, {a.view()}, {x.view(), info.view()});
      CHECK(info.values() == Index{0, 2, 3});
      call(GD_SOLVE, {a.view(), y.view()}, {x.view(), info.view()});
      CHECK(info.values() == Index{0, 2, 0});
      call(GD_LU, {a.view()}, {x.view(), rows.view(), info.view()});
      CHECK(info.values() == Index{0, 2, 0});
      CHECK(x.at({1, 2, 2}) == T(R(1)));  // the factors are whole all the same
      call(GD_DET, {a.view()}, {det.view(), sign.view(), log.view()});
      CHECK(near(det.at({0}), wide(T(R(120))), tolerance<T>()));
      CHECK(det.at({1}) == T(R(0)));
      CHECK(sign.at({1}) == T(R(0)));
      CHECK(log.at({1}) == -std::numeric_limits<R>::infinity());
      CHECK(sign.at({2}) == T(R(-1)));
    }
  });
  // A determinant beyond the range of its factors.
  for (gd_device* device : solving()) {
    Array<double> a({4, 4}), det({});
    const double diagonal[] = {1e200, -1e200, 1e-200, 1e-200};
    for (int64_t i = 0; i < 4; ++i) a.at({i, i}) = diagonal[i];
    run(emulator(), device, GD_LINALG, GD_DET, {a.view()}, {det.view(), kAbsent, kAbsent}, {}, {});
    CHECK(near(det.at({}), -1.0, 1e-13));
  }
}

TEST_CASE("gpu: linalg refuses as the reference does") {
  Array<float> a({2, 3, 4}), l({2, 3, 3});
  Array<int32_t> whole({2, 3, 3});
  Array<int64_t> info({2});
  same_refusal(GD_LINALG, GD_CHOLESKY, {a.view()}, {l.view(), info.view()}, {}, {});
  same_refusal(GD_LINALG, GD_CHOLESKY, {whole.view()}, {l.view(), info.view()}, {}, {});
  same_refusal(GD_LINALG, GD_LINALG_COUNT, {l.view()}, {l.view(), info.view()}, {}, {});
}
