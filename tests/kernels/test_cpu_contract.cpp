// contract of the cpu device against one naive loop over the joint index space: random label
// structures, sizes that cross every block edge, tropical algebras with extreme numbers and their
// winners.
#include "tests/helpers/cpu_device.hpp"

using namespace cpu_test;

namespace {

// A contraction over a joint index space; in_a and in_b say which operand has an axis.
struct Labels {
  Index sizes;
  std::vector<bool> in_a, in_b;
  int64_t n_out = 0;
};

Labels random_labels(int64_t most) {
  Labels l;
  const int64_t rank = pick(1, 5);
  l.n_out = pick(0, rank);
  for (int64_t d = 0; d < rank; ++d) {
    l.sizes.push_back(pick(0, 9) == 0 ? 1 : pick(1, most));
    const int64_t kind = pick(0, 3);
    l.in_a.push_back(kind != 1);
    l.in_b.push_back(kind != 2 || (d >= l.n_out && pick(0, 1)));
  }
  return l;
}

// An operand over the joint space: an array over its own axes, seen with stride 0 elsewhere.
template <class T>
struct Operand {
  Array<T> array;
  Index joint;
  Operand(const Labels& l, const std::vector<bool>& has_axis, Layout layout)
      : array(own(l, has_axis), layout) {
    size_t k = 0;
    for (size_t d = 0; d < l.sizes.size(); ++d)
      joint.push_back(has_axis[d] ? array.strides[k++] : 0);
    array.fill(small_number<T>);
  }
  static Index own(const Labels& l, const std::vector<bool>& has_axis) {
    Index s;
    for (size_t d = 0; d < l.sizes.size(); ++d)
      if (has_axis[d]) s.push_back(l.sizes[d]);
    return s;
  }
  gd_view view(const Labels& l) const {
    return {1,
            array.store.get(),
            int32_t(dtype_of<T>),
            int32_t(l.sizes.size()),
            array.offset,
            l.sizes.data(),
            joint.data()};
  }
  T at(const Index& i) const {
    int64_t p = array.offset;
    for (size_t d = 0; d < i.size(); ++d) p += i[d] * joint[d];
    return array.store[size_t(p)];
  }
};

template <class T>
void check_contraction(const Labels& l, bool with_bias, double alpha, double beta) {
  const Index out_sizes(l.sizes.begin(), l.sizes.begin() + l.n_out),
      k_sizes(l.sizes.begin() + l.n_out, l.sizes.end());
  Operand<T> a(l, l.in_a, Layout(pick(0, 3))), b(l, l.in_b, Layout(pick(0, 3)));
  Array<T> before(out_sizes, Layout(pick(0, 3))), bias(out_sizes, Layout(pick(0, 4)));
  before.fill(small_number<T>);
  bias.fill(small_number<T>);
  const bool conj_a = pick(0, 1), conj_b = pick(0, 1);
  std::vector<Wide<T>> want;
  double scale = 1;
  each(out_sizes, [&](const Index& o) {
    Wide<T> s(0);
    each(k_sizes, [&](const Index& k) {
      Index i = o;
      i.insert(i.end(), k.begin(), k.end());
      const Wide<T> x = wide(a.at(i)), y = wide(b.at(i));
      s = s + (conj_a ? conj_of(x) : x) * (conj_b ? conj_of(y) : y);
    });
    s = Wide<T>(alpha) * s;
    if (beta != 0) s = s + Wide<T>(beta) * wide(before.at(o));
    if (with_bias) s = s + wide(bias.at(o));
    want.push_back(s);
  });
  for (int64_t n : k_sizes) scale *= std::sqrt(double(n));
  Agreement<T> agree;
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    CAPTURE(int(dtype_of<T>));
    Array<T> out(out_sizes, Layout(pick(0, 3)));
    each(out_sizes, [&](const Index& i) { out.at(i) = before.at(i); });
    std::vector<gd_view> in = {a.view(l), b.view(l)};
    if (with_bias) in.push_back(bias.view());
    call(*dev, GD_CONTRACT, 0, in, {out.view()}, {alpha, 0, beta, 0},
         {l.n_out, GD_STANDARD, conj_a, conj_b});
    agree(*dev, out.values());
    size_t n = 0;
    each(out_sizes, [&](const Index& i) {
      const Wide<T> w = want[n++];
      bool right;
      if constexpr (std::is_integral_v<T>)
        right = out.at(i) == T(w);
      else
        right = near(out.at(i), w, tolerance<T>() * (4 + scale));
      if (!right) {
        CAPTURE(out.at(i));
        CHECK(right);
      }
    });
  }
}

template <class T>
void check_tropical(const Labels& l, int algebra) {
  const Index out_sizes(l.sizes.begin(), l.sizes.begin() + l.n_out),
      k_sizes(l.sizes.begin() + l.n_out, l.sizes.end());
  using L = std::numeric_limits<std::conditional_t<is_half(dtype_of<T>), float, T>>;
  using W = std::conditional_t<is_half(dtype_of<T>), float, T>;
  const bool maximum = algebra == GD_MAX_PLUS || algebra == GD_MAX_TIMES;
  const W worst = L::has_infinity ? (maximum ? -L::infinity() : L::infinity())
                                  : (maximum ? L::min() : L::max());
  Operand<T> a(l, l.in_a, Layout(pick(0, 3))), b(l, l.in_b, Layout(pick(0, 3)));
  for (Operand<T>* x : {&a, &b})
    for (int k = 0; k < 3; ++k) {
      T& some = x->array.store[size_t(pick(0, x->array.length - 1))];
      if constexpr (std::is_integral_v<T>)
        some = pick(0, 1) ? L::min() : L::max();
      else
        some = T(pick(0, 2) == 0 ? float(NAN) : pick(0, 1) ? -INFINITY : INFINITY);
    }
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    CAPTURE(algebra);
    Array<T> out(out_sizes, Layout(pick(0, 3)));
    Array<int64_t> winner(out_sizes, Layout(pick(0, 3)));
    const bool with_winner = pick(0, 3) != 0;
    std::vector<gd_view> outs = {out.view()};
    if (with_winner) outs.push_back(winner.view());
    call(*dev, GD_CONTRACT, 0, {a.view(l), b.view(l)}, outs, {1, 0, 0, 0},
         {l.n_out, algebra, 0, 0});
    each(out_sizes, [&](const Index& o) {
      W best = worst;
      int64_t place = -1, n = 0;
      each(k_sizes, [&](const Index& k) {
        Index i = o;
        i.insert(i.end(), k.begin(), k.end());
        const W x = W(a.at(i)), y = W(b.at(i));
        W t;
        if (algebra == GD_MAX_TIMES || algebra == GD_MIN_TIMES) {
          if constexpr (std::is_integral_v<W>)
            t = W(std::make_unsigned_t<W>(x) * std::make_unsigned_t<W>(y));
          else
            t = x * y;
          const bool swallows =
              std::is_integral_v<W> ? x == worst || y == worst : t != t && x == x && y == y;
          if (algebra == GD_MIN_TIMES && swallows) t = worst;
        } else if constexpr (std::is_integral_v<W>) {
          if (x == worst || y == worst)
            t = worst;
          else if (y > 0)
            t = x > L::max() - y ? L::max() : W(x + y);
          else
            t = x < L::min() - y ? L::min() : W(x + y);
        } else {
          t = x + y;
          if (t != t && x == x && y == y) t = worst;
        }
        if (best == best && (t != t || (maximum ? t > best : t < best))) {
          best = t;
          place = n;
        }
        ++n;
      });
      if (n == 0 && algebra == GD_MAX_TIMES) best = 0;
      const T want = T(best);
      bool right;
      if constexpr (std::is_integral_v<T>)
        right = out.at(o) == want;
      else
        right = float(out.at(o)) == float(want) ||
                (best != best && float(out.at(o)) != float(out.at(o)));
      if (!right || (with_winner && winner.at(o) != place)) {
        CAPTURE(place);
        CAPTURE(winner.at(o));
        CHECK(right);
        if (with_winner) CHECK(winner.at(o) == place);
      }
    });
  }
}

Labels matmul(int64_t batch, int64_t m, int64_t n, int64_t k) {
  return {{batch, m, n, k}, {true, true, false, true}, {true, false, true, true}, 3};
}

}  // namespace

TEST_CASE("cpu: contract on random label structures") {
  for (int round = 0; round < 60; ++round) {
    const Labels l = random_labels(6);
    const bool bias = pick(0, 1);
    const double alpha = double(pick(-2, 2)), beta = double(pick(-1, 1));
    check_contraction<float>(l, bias, alpha / 2, beta / 2);
    check_contraction<double>(l, bias, alpha / 2, beta / 2);
    if (round % 3 != 0) continue;
    check_contraction<c64>(l, bias, alpha / 2, beta);
    check_contraction<c128>(l, bias, alpha, beta / 2);
    check_contraction<int32_t>(l, bias, alpha, beta);
    check_contraction<int64_t>(l, bias, alpha, beta);
    check_contraction<uint8_t>(l, bias, alpha, beta);
    check_contraction<Half>(l, bias, alpha / 2, beta / 2);
    check_contraction<BFloat16>(l, bias, alpha / 2, beta / 2);
  }
}

TEST_CASE("cpu: contract across the edges of its blocks") {
  for (const Labels& l :
       {matmul(1, 67, 131, 41), matmul(1, 33, 5, 901), matmul(3, 29, 65, 1),
        matmul(1, 1, 300, 1500), matmul(2, 300, 1, 1500), matmul(1, 1, 1, 5000),
        matmul(700, 1, 1, 3), matmul(40, 3, 4, 5), matmul(1, 200, 90, 70), matmul(1, 7, 9, 0)}) {
    check_contraction<float>(l, true, 0.5, -1);
    check_contraction<double>(l, false, 1, 0);
  }
  const Labels l = matmul(2, 37, 45, 520);
  check_contraction<c64>(l, false, 1, 1);
  check_contraction<c128>(l, true, 1, 0);
  check_contraction<int32_t>(l, true, 3, -1);
  check_contraction<int64_t>(l, false, 1, 0);
  check_contraction<uint8_t>(l, false, 1, 1);
  check_contraction<Half>(l, true, 1, 0);
  check_contraction<BFloat16>(l, false, 1, 0);
}

TEST_CASE("cpu: contract across the edges of vectors, tiles and caches") {
  for (const Labels& l : {matmul(1, 15, 17, 3), matmul(1, 16, 33, 16), matmul(1, 31, 8, 20),
                          matmul(1, 2, 2, 400), matmul(1, 129, 66, 130), matmul(1, 5, 400, 390),
                          matmul(1, 300, 6, 390), matmul(1, 1, 3000, 200), matmul(1, 3000, 1, 200),
                          matmul(1, 1, 70, 33), matmul(1, 1, 16, 32), matmul(2, 1, 9, 1030)}) {
    check_contraction<float>(l, false, 1, 0);
    check_contraction<double>(l, true, 1, 0.5);
  }
}

namespace {
// out[i, k, b] = sum_j x[i, j, b] y[j, k, b] (+ beta out + bias), b either the first axis in memory
// or the last one.
template <class T>
std::vector<T> batched(const Device& dev, bool last, int64_t i, int64_t k, int64_t j, int64_t b,
                       double beta, bool with_bias) {
  const auto value = [](int64_t n) { return T(float(n * 7919 % 37 - 18) / 16); };
  const auto strides = [&](int64_t rows, int64_t columns) {
    return last ? Index{columns * b, b, 1} : Index{columns, 1, rows * columns};
  };
  const Index joint = {i, k, b, j}, sx = strides(i, j), sy = strides(j, k), so = strides(i, k);
  std::vector<T> x(size_t(i * j * b)), y(size_t(j * k * b)), out(size_t(i * k * b)), bias(out);
  const auto fill = [&](std::vector<T>& to, const Index& s, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t l = 0; l < b; ++l)
          to[size_t(r * s[0] + c * s[1] + l * s[2])] = value((r * columns + c) * b + l);
  };
  fill(x, sx, i, j);
  fill(y, sy, j, k);
  fill(out, so, i, k);
  fill(bias, so, i, k);
  const Index jx = {sx[0], 0, sx[2], sx[1]}, jy = {0, sy[1], sy[2], sy[0]};
  const int32_t t = int32_t(dtype_of<T>);
  std::vector<gd_view> in = {{1, x.data(), t, 4, 0, joint.data(), jx.data()},
                             {2, y.data(), t, 4, 0, joint.data(), jy.data()}};
  if (with_bias) in.push_back({3, bias.data(), t, 3, 0, joint.data(), so.data()});
  call(dev, GD_CONTRACT, 0, in, {{4, out.data(), t, 3, 0, joint.data(), so.data()}},
       {1, 0, beta, 0}, {3, GD_STANDARD, 0, 0});
  std::vector<T> result;
  for (int64_t r = 0; r < i; ++r)
    for (int64_t c = 0; c < k; ++c)
      for (int64_t l = 0; l < b; ++l)
        result.push_back(out[size_t(r * so[0] + c * so[1] + l * so[2])]);
  return result;
}
}  // namespace

TEST_CASE("cpu: contract gives the same bits wherever the batch axis lies") {
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    for (const Index& s : {Index{5, 7, 3, 16}, Index{9, 13, 20, 37}, Index{2, 3, 400, 8}}) {
      CHECK(batched<float>(*dev, true, s[0], s[1], s[2], s[3], 0.5, true) ==
            batched<float>(*dev, false, s[0], s[1], s[2], s[3], 0.5, true));
      CHECK(batched<double>(*dev, true, s[0], s[1], s[2], s[3], 0, false) ==
            batched<double>(*dev, false, s[0], s[1], s[2], s[3], 0, false));
    }
  }
}

TEST_CASE("cpu: contract gives the same bits for rows of a and for columns of it") {
  const auto check = [](auto zero, const Device& dev, int64_t m, int64_t n, int64_t k) {
    using T = decltype(zero);
    constexpr int32_t t = int32_t(dtype_of<T>);
    std::vector<T> a(size_t(m * k)), turned(a), b(size_t(k * n)), bias(size_t(n), T(0.3));
    for (size_t i = 0; i < b.size(); ++i) b[i] = T(std::sin(double(i)));
    for (int64_t r = 0; r < m; ++r)
      for (int64_t c = 0; c < k; ++c)
        a[size_t(r * k + c)] = turned[size_t(c * m + r)] = T(std::cos(double(r * k + c)));
    const Index joint = {m, n, k}, rows = {k, 0, 1}, columns = {1, 0, m}, by_b = {0, 1, n},
                by_out = {n, 1}, line = {0, 1};
    for (const double beta : {0.0, 1.0}) {
      const auto product = [&](std::vector<T>& from, const Index& by) {
        std::vector<T> out(size_t(m * n), T(0.7));
        call(dev, GD_CONTRACT, 0,
             {{1, from.data(), t, 3, 0, joint.data(), by.data()},
              {2, b.data(), t, 3, 0, joint.data(), by_b.data()},
              {3, bias.data(), t, 2, 0, joint.data(), line.data()}},
             {{4, out.data(), t, 2, 0, joint.data(), by_out.data()}}, {1, 0, beta, 0},
             {2, GD_STANDARD, 0, 0});
        return out;
      };
      CHECK(product(a, rows) == product(turned, columns));
    }
  };
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    for (const Index& s : {Index{118, 85, 144}, Index{154, 35, 60}, Index{125, 18, 150}}) {
      check(float(), *dev, s[0], 2 * s[1], s[2]);
      check(double(), *dev, s[0], s[1], s[2]);
    }
  }
}

TEST_CASE("cpu: a planned contraction reads data, offsets and factors anew") {
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    for (const Index& s : {Index{8, 16, 4}, Index{6, 1, 20}, Index{70, 90, 80}}) {
      const int64_t m = s[0], n = s[1], k = s[2];
      const Index joint = {m, n, k}, sa = {k, 0, 1}, sb = {0, 1, n}, sc = {n, 1};
      std::vector<float> a[2], b[2], planned(size_t(m * n)), fresh(planned);
      for (int v = 0; v < 2; ++v)
        for (auto* x : {&a[v], &b[v]}) {
          x->resize(size_t((x == &a[v] ? m : n) * k + 3));
          for (float& y : *x) y = small_number<float>();
        }
      void* plan = nullptr;
      for (int v = 0; v < 2; ++v) {
        const gd_view in[] = {{1, a[v].data(), GD_F32, 3, v, joint.data(), sa.data()},
                              {2, b[v].data(), GD_F32, 3, 2 * v, joint.data(), sb.data()}};
        gd_view out{3, planned.data(), GD_F32, 2, 0, joint.data(), sc.data()};
        const double doubles[] = {1 - 0.5 * v, 0, 0, 0};
        const int64_t ints[] = {2, GD_STANDARD, 0, 0};
        gd_call c{sizeof(gd_call), GD_CONTRACT, 0,       2,       1, 4,      4, in, &out,
                  doubles,         ints,        nullptr, nullptr, 0, nullptr};
        gd_error e{};
        const gd_table& table = *cpu::table();
        if (!plan) REQUIRE(table.prepare(dev->d, &c, &plan, &e) == GD_OK);
        REQUIRE(plan);
        c.plan = plan;
        REQUIRE(table.slot[GD_CONTRACT](dev->d, nullptr, &c, &e) == GD_OK);
        c.plan = nullptr;
        out.data = fresh.data();
        REQUIRE(table.slot[GD_CONTRACT](dev->d, nullptr, &c, &e) == GD_OK);
        CHECK(planned == fresh);
      }
      cpu::table()->unprepare(dev->d, plan);
    }
  }
}

namespace {
// Rows 0 .. m - 1 of a b^T, b's k steps side by side or not, in one call with `more` rows or batch
// elements beside them: then another engine takes it.
template <class T>
std::vector<T> first_rows(const Device& dev, int64_t m, int64_t more, int64_t n, int64_t k,
                          bool turned, bool batch, double alpha) {
  const int64_t rows = batch ? m * (1 + more) : m + more;
  std::vector<T> a(size_t(rows * k), T(0)), b(size_t((1 + more) * n * k), T(0)),
      out(size_t(rows * n), T(0)), bias(size_t(n), T(0));
  for (size_t i = 0; i < a.size(); ++i) a[i] = T(double(i * 7919 % 101) / 64 - 0.7);
  for (int64_t j = 0; j < n; ++j)  // what follows the first element of the batch is of no interest
    for (int64_t q = 0; q < k; ++q)
      b[size_t(turned ? q * n + j : j * k + q)] = T(double((j * 31 + q * 17) % 89) / 32 - 1.3);
  for (size_t j = 0; j < bias.size(); ++j) bias[j] = T(0.3) * T(float(j));
  const Index joint = {1 + more, batch ? m : m + more, n, k}, sa = {m * k, k, 0, 1},
              sb = {n * k, 0, turned ? 1 : k, turned ? n : 1}, so = {m * n, n, 1},
              sbias = {0, 0, 1};
  const int skip = batch ? 0 : 1, rank = 4 - skip;
  const int32_t t = int32_t(dtype_of<T>);
  std::vector<gd_view> in = {{1, a.data(), t, rank, 0, joint.data() + skip, sa.data() + skip},
                             {2, b.data(), t, rank, 0, joint.data() + skip, sb.data() + skip}};
  if (alpha != 1)
    in.push_back({3, bias.data(), t, rank - 1, 0, joint.data() + skip, sbias.data() + skip});
  call(dev, GD_CONTRACT, 0, in,
       {{4, out.data(), t, rank - 1, 0, joint.data() + skip, so.data() + skip}}, {alpha, 0, 0, 0},
       {rank - 1, GD_STANDARD, 0, 0});
  return {out.begin(), out.begin() + m * n};
}
template <class T>
void same_as_small(const Device& dev) {
  for (const bool turned : {false, true})
    for (const double alpha : {1.0, 0.3}) {
      // Large enough for blocks and threads.
      for (const Index& s : {Index{9, 33, 40}, Index{3, 9, 256}, Index{17, 24, 100}}) {
        CAPTURE(s[0]);
        CAPTURE(s[1]);
        CHECK(first_rows<T>(dev, s[0], 0, s[1], s[2], turned, false, alpha) ==
              first_rows<T>(dev, s[0], (1 << 20) / s[1] / s[2] + 1, s[1], s[2], turned, false,
                            alpha));
      }
      // A matrix that no cache holds times a column.
      CHECK(first_rows<T>(dev, 5, 0, 1, 1030, turned, false, alpha) ==
            first_rows<T>(dev, 5, 4201, 1, 1030, turned, false, alpha));
      // One row and one column, where batches have a walk of their own.
      for (const Index& s : {Index{1, 17, 5}, Index{1, 8, 33}, Index{1, 40, 100}, Index{1, 1, 77},
                             Index{13, 1, 16}, Index{5, 1, 1000}}) {
        CAPTURE(s[0]);
        CAPTURE(s[1]);
        CHECK(first_rows<T>(dev, s[0], 0, s[1], s[2], turned, false, alpha) ==
              first_rows<T>(dev, s[0], 2, s[1], s[2], turned, true, alpha));
      }
    }
}
}  // namespace

TEST_CASE("cpu: a small product has the bits of the same rows of a large one") {
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    same_as_small<float>(*dev);
    same_as_small<double>(*dev);
  }
}

TEST_CASE(
    "cpu: a contraction over a window view, summed axes in one operand only, no axis at all") {
  for (const auto& dev : devices()) {
    // y[i, c] = sum_q x[i + q] w[q, c]
    Array<float> x({40}), w({5, 3}), y({36, 3});
    x.fill(small_number<float>);
    w.fill(small_number<float>);
    const Index joint = {36, 3, 5}, sx = {1, 0, 1}, sw = {0, 1, 3};
    call(*dev, GD_CONTRACT, 0,
         {{1, x.store.get(), GD_F32, 3, x.offset, joint.data(), sx.data()},
          {1, w.store.get(), GD_F32, 3, w.offset, joint.data(), sw.data()}},
         {y.view()}, {1, 0, 0, 0}, {2, 0, 0, 0});
    each(y.sizes, [&](const Index& i) {
      float s = 0;
      for (int64_t q = 0; q < 5; ++q) s += x.at({i[0] + q}) * w.at({q, i[1]});
      CHECK(near(y.at(i), s, 1e-5));
    });
    Array<double> a({}), b({}), c({});
    a.at({}) = 3;
    b.at({}) = 4;
    call(*dev, GD_CONTRACT, 0, {a.view(), b.view()}, {c.view()}, {1, 0, 0, 0}, {0, 0, 0, 0});
    CHECK(c.at({}) == 12);
  }
}

TEST_CASE("cpu: tropical algebras and their winners") {
  for (int algebra : {GD_MAX_PLUS, GD_MIN_PLUS, GD_MAX_TIMES, GD_MIN_TIMES}) {
    for (int round = 0; round < 12; ++round) {
      const Labels l = random_labels(7);
      check_tropical<float>(l, algebra);
      check_tropical<double>(l, algebra);
      check_tropical<int32_t>(l, algebra);
      check_tropical<int64_t>(l, algebra);
      check_tropical<Half>(l, algebra);
      check_tropical<BFloat16>(l, algebra);
    }
    check_tropical<float>(matmul(2, 9, 40, 530), algebra);
    check_tropical<int64_t>(matmul(1, 9, 20, 530), algebra);
    check_tropical<float>(matmul(1, 3, 4, 0), algebra);
  }
}

TEST_CASE("cpu: contract refuses what breaks its contract") {
  Array<float> a({2, 3}), b({2, 4}), y({2}), z({3});
  Array<bool> t({2, 3}), u({2});
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), b.view()}, {y.view()}, {1, 0, 0, 0}, {1, 0, 0, 0}),
            "index space"));
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), a.view()}, {z.view()}, {1, 0, 0, 0}, {1, 0, 0, 0}),
            "axis 0"));
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), a.view()}, {y.view()}, {1, 0, 0, 0}, {1, 9, 0, 0}),
            "algebra"));
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), a.view()}, {y.view()}, {2, 0, 0, 0}, {1, 1, 0, 0}),
            "alpha = 1"));
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), a.view()}, {y.view()}, {1, 1, 0, 0}, {1, 0, 0, 0}),
            "imaginary"));
  CHECK(has(refusal(GD_CONTRACT, 0, {t.view(), t.view()}, {u.view()}, {1, 0, 0, 0}, {1, 0, 0, 0}),
            "bool"));
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), a.view()}, {y.view()}), "ints"));
  gd_view bare = a.view(), one = y.view();
  bare.sizes = nullptr;
  one.sizes = nullptr;
  CHECK(has(refusal(GD_CONTRACT, 0, {bare, bare}, {y.view()}, {1, 0, 0, 0}, {1, 0, 0, 0}),
            "without sizes"));
  CHECK(has(refusal(GD_REDUCE, GD_SUM, {one}, {one}), "without sizes"));
  one.rank = -1;
  CHECK(has(refusal(GD_REDUCE, GD_SUM, {one}, {one}), "without sizes"));
}
