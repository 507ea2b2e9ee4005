// The cpu device through its C table: opening, and the pointwise slots on every instruction set
// over odd sizes, strides (permuted, negative, 0, with gaps) and empties. Statements are judged
// against their own scalar reader: what is tested here is the batches, not the formulas.
#include "ops/def/statements.hpp"
#include "ops/def/words_scalar.hpp"
#include "tests/helpers/cpu_device.hpp"
#include "tests/helpers/sizes.hpp"

#include <atomic>
#include <thread>

using namespace cpu_test;

TEST_CASE("cpu: the table and its openings") {
  const gd_table* t = cpu::table();
  CHECK(t->magic == GD_MAGIC);
  CHECK(std::string(t->kind) == "cpu");
  CHECK(t->statement_count == def::Statements::size);
  CHECK(devices().size() >= 2);
  gd_device* d = nullptr;
  gd_error e{};
  CHECK(t->open(0, R"({"isa": "mmx"})", &d, &e) == GD_INVALID);
  CHECK(has(e.text, "isa: unknown instruction set \"mmx\"; there are "));
  CHECK(has(e.text, ", of which this processor has "));
  CHECK(t->open(1, nullptr, &d, &e) == GD_BAD_DEVICE);
  CHECK(t->open(0, R"({"threads": 0})", &d, &e) == GD_INVALID);
  CHECK(t->open(0, "{", &d, &e) == GD_INVALID);
  REQUIRE(t->open(0, nullptr, &d, &e) == GD_OK);
  gd_info info;
  CHECK(t->info(0, &info, &e) == GD_OK);
  CHECK(info.units >= 1);
  void* p = nullptr;
  REQUIRE(t->alloc(d, 100, &p, &e) == GD_OK);
  CHECK(reinterpret_cast<uintptr_t>(p) % 64 == 0);
  t->free(d, p);
  CHECK(t->alloc(d, SIZE_MAX, &p, &e) == GD_OOM);
  t->close(d);
}

TEST_CASE("cpu: several threads may use one device at once") {
  for (const auto& dev : devices()) {
    Array<float> x({300, 200}), y({300, 1});
    x.fill(small_number<float>);
    call(*dev, GD_REDUCE, GD_SUM, {x.view()}, {y.view()});
    const std::vector<float> alone = y.values();
    std::atomic<int> wrong{0};
    std::vector<std::thread> users;
    for (int u = 0; u < 3; ++u)
      users.emplace_back([&] {
        for (int round = 0; round < 30; ++round) {
          Array<float> big({300, 200}), sum({300, 1});
          gd_error e{};
          const bool fine = try_call(*cpu::table(), dev->d, GD_COPY, 0, {x.view()}, {big.view()},
                                     {}, {}, e) == GD_OK &&
                            try_call(*cpu::table(), dev->d, GD_REDUCE, GD_SUM, {big.view()},
                                     {sum.view()}, {}, {}, e) == GD_OK;
          if (!fine || !same_bits(sum.values(), alone)) ++wrong;
        }
      });
    for (std::thread& u : users) u.join();
    CHECK(wrong == 0);
  }
}

// ---- pointwise

namespace {

template <class T>
std::vector<T> operands_of_interest() {
  using L = std::numeric_limits<T>;
  std::vector<T> v = {T(0),           T(-0.0),  T(1),        T(-1),         T(0.5),
                      T(-0.5),        T(2),     T(3),        T(-3),         T(20),
                      T(-20),         T(100),   T(-100),     L::infinity(), -L::infinity(),
                      L::quiet_NaN(), L::max(), L::lowest(), L::min(),      L::denorm_min(),
                      T(1e-3),        T(-1e-3), T(88.5),     T(-88.5),      T(-95),
                      T(-103),        T(709.5), T(-720),     T(-740),       T(1e4),
                      T(3e5),         T(-1e6)};
  for (int i = 0; i < 170; ++i) v.push_back(T(double(pick(-4000, 4000)) / 512));
  return v;
}

// Elements beyond what one block takes, all pairs of interest among them.
template <class T>
void interesting(Array<T>& a, Array<T>& b) {
  const std::vector<T> v = operands_of_interest<T>();
  int64_t n = 0;
  each(a.sizes, [&](const Index& i) {
    a.at(i) = v[size_t(n) % v.size()];
    b.at(i) = v[size_t(n / 7 + n) % v.size()];
    ++n;
  });
}

// A statement as its scalar reader says it, by pointers: a check compiled for each statement would
// take minutes.
template <class T>
struct Reader {
  const char* name;
  int arity;
  def::Kind kind;
  std::vector<double> params;
  T (*value)(const double*, bool, T, T);
  T (*slope[3])(const double*, bool, T, T, T) = {};
};

template <class S, class T>
T scalar_value(const double* params, bool m, T a, T b) {
  const S s = def::make<S>(params);
  if constexpr (S::kind == def::Kind::select)
    return s.value(m, a, b);
  else if constexpr (S::arity == 1)
    return T(s.value(a));
  else
    return T(s.value(a, b));
}

template <int K, class S, class T>
T scalar_slope(const double* params, bool m, T a, T b, T y) {
  const S s = def::make<S>(params);
  if constexpr (S::kind == def::Kind::select)
    return def::slope<K>(s, m, a, b, y);
  else if constexpr (S::arity == 1)
    return def::slope<K>(s, a, y);
  else
    return def::slope<K>(s, a, b, y);
}

template <class S, class T>
Reader<T> reader_of() {
  const S s{};
  Reader<T> r{S::meta.name, S::arity, S::kind, std::vector<double>(size_t(S::meta.param_count())),
              scalar_value<S, T>};
  if constexpr (S::meta.param_count() > 0) std::memcpy(r.params.data(), &s, sizeof(S));
  if constexpr (S::kind == def::Kind::select) {
    r.slope[1] = scalar_slope<1, S, T>;
    r.slope[2] = scalar_slope<2, S, T>;
  } else if constexpr (S::kind != def::Kind::comparison) {
    r.slope[0] = scalar_slope<0, S, T>;
    if constexpr (S::arity > 1) r.slope[1] = scalar_slope<1, S, T>;
  }
  return r;
}

template <class T>
void check_statement(int id, const Reader<T>& s) {
  const double tol = std::is_same_v<T, double> ? 1e-13 : 5e-6;
  const double* params = s.params.data();
  for (Layout layout : {kPlain, kPermuted, kNegative, kGaps}) {
    const Index sizes = layout == kPlain ? Index{1003} : Index{17, 59};
    Array<bool> m(sizes, layout);
    Array<T> a(sizes, layout), b(sizes, kPlain), g(sizes, layout);
    m.fill(small_number<bool>);
    g.fill(small_number<T>);
    interesting(a, b);
    Agreement<T> agree;
    for (const auto& dev : devices()) {
      CAPTURE(std::string(s.name));
      CAPTURE(dev->name);
      std::vector<gd_view> in = {a.view()};
      if (s.kind == def::Kind::select)
        in = {m.view(), a.view(), b.view()};
      else if (s.arity == 2)
        in = {a.view(), b.view()};
      if (s.kind == def::Kind::comparison) {
        Array<bool> y(sizes);
        call(*dev, GD_POINTWISE, id, in, {y.view()}, s.params);
        each(sizes, [&](const Index& i) {
          CHECK(T(y.at(i)) == s.value(params, m.at(i), a.at(i), b.at(i)));
        });
        continue;
      }
      Array<T> y(sizes, layout), dx(sizes, layout);
      call(*dev, GD_POINTWISE, id, in, {y.view()}, s.params);
      agree(*dev, y.values());
      each(sizes, [&](const Index& i) {
        const T want = s.value(params, m.at(i), a.at(i), b.at(i));
        CAPTURE(a.at(i));
        CAPTURE(b.at(i));
        CAPTURE(want);
        CAPTURE(y.at(i));
        CHECK(near(y.at(i), want, tol));
      });
      for (int k = 0; k < s.arity; ++k) {
        if (!s.slope[k]) continue;
        std::vector<gd_view> back = {g.view()};
        back.insert(back.end(), in.begin(), in.end());
        back.push_back(y.view());
        call(*dev, GD_POINTWISE_VJP, id, back, {dx.view()}, s.params, {k});
        each(sizes, [&](const Index& i) {
          const T slope = s.slope[k](params, m.at(i), a.at(i), b.at(i), y.at(i));
          CAPTURE(k);
          CAPTURE(a.at(i));
          CAPTURE(b.at(i));
          CAPTURE(slope);
          CAPTURE(dx.at(i));
          CHECK(near(dx.at(i), T(g.at(i) * slope), tol));
        });
      }
    }
  }
}

}  // namespace

TEST_CASE("cpu: every statement in batches equals its scalar reader") {
  def::for_each(def::Statements{}, []<class S>(int id) {
    if constexpr (def::reads<S, float>()) {
      check_statement(id, reader_of<S, float>());
      if (!test::small_sizes()) check_statement(id, reader_of<S, double>());
    }
  });
}

namespace {

// Element by element, in any company, a unary statement gives the same bits.
template <class T>
void check_company(int id, const Reader<T>& s) {
  const std::vector<T> v = operands_of_interest<T>();
  for (const auto& dev : devices()) {
    Array<T> x({int64_t(v.size())}), y({int64_t(v.size())}), one({1}), result({1}), many({40}),
        results({40}, kGaps);
    for (size_t i = 0; i < v.size(); ++i) x.at({int64_t(i)}) = v[i];
    call(*dev, GD_POINTWISE, id, {x.view()}, {y.view()}, s.params);
    bool equal = true;
    for (size_t i = 0; i < v.size(); ++i) {
      one.at({0}) = v[i];
      many.fill([&] { return v[i]; });
      call(*dev, GD_POINTWISE, id, {one.view()}, {result.view()}, s.params);
      call(*dev, GD_POINTWISE, id, {many.view()}, {results.view()}, s.params);
      equal = equal && !std::memcmp(&y.at({int64_t(i)}), &result.at({0}), sizeof(T));
      for (int64_t j = 0; j < 40; ++j)
        equal = equal && !std::memcmp(&y.at({int64_t(i)}), &results.at({j}), sizeof(T));
    }
    CAPTURE(std::string(s.name));
    CAPTURE(dev->name);
    CHECK(equal);
  }
}

}  // namespace

TEST_CASE("cpu: an element gives the same bits in any company, stride and place") {
  def::for_each(def::Statements{}, []<class S>(int id) {
    if constexpr (S::arity == 1 && def::reads<S, float>() && S::kind != def::Kind::comparison) {
      check_company(id, reader_of<S, float>());
      check_company(id, reader_of<S, double>());
    }
  });
}

TEST_CASE("cpu: exp gives subnormals, maximum keeps NaN") {
  for (const auto& dev : devices()) {
    Array<float> x({5}), y({5});
    const float in[] = {-88.0f, -100.0f, -103.5f, -104.5f, 88.7f};
    for (int64_t i = 0; i < 5; ++i) x.at({i}) = in[i];
    call(*dev, GD_POINTWISE, def::id_of<def::exp>(), {x.view()}, {y.view()});
    for (int64_t i = 0; i < 5; ++i)
      CHECK(y.at({i}) == doctest::Approx(std::exp(in[i])).epsilon(1e-5));
    CHECK(y.at({1}) > 0);
    CHECK(std::isfinite(y.at({4})));
    Array<double> a({2}), b({2}), c({2});
    a.at({0}) = std::nan("");
    b.at({1}) = std::nan("");
    call(*dev, GD_POINTWISE, def::id_of<def::maximum>(), {a.view(), b.view()}, {c.view()});
    CHECK(std::isnan(c.at({0})));
    CHECK(std::isnan(c.at({1})));
  }
}

TEST_CASE("cpu: pointwise on the other dtypes, broadcast, in place, large and empty") {
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    auto both = [&](auto zero) {
      using T = decltype(zero);
      for (Layout layout : {kPlain, kPermuted, kBroadcast, kNegative}) {
        Array<T> a({5, 7, 3}, layout), b({5, 7, 3}, kGaps), y({5, 7, 3}, kPermuted);
        a.fill(small_number<T>);
        b.fill(small_number<T>);
        call(*dev, GD_POINTWISE, def::id_of<def::add>(), {a.view(), b.view()}, {y.view()});
        each(a.sizes, [&](const Index& i) {
          if constexpr (is_half(dtype_of<T>))
            CHECK(y.at(i).bits == T(float(a.at(i)) + float(b.at(i))).bits);
          else
            CHECK(y.at(i) == T(a.at(i) + b.at(i)));
        });
      }
    };
    both(c64{});
    both(c128{});
    both(int32_t{});
    both(int64_t{});
    both(uint8_t{});
    both(bool{});
    both(Half{});
    both(BFloat16{});
    Array<c64> z({33}, kGaps), g({33}), dz({33});
    Array<float> r({33});
    z.fill(small_number<c64>);
    g.fill(small_number<c64>);
    call(*dev, GD_POINTWISE, def::id_of<def::abs>(), {z.view()}, {r.view()});
    call(*dev, GD_POINTWISE_VJP, def::id_of<def::square>(), {g.view(), z.view(), kAbsent},
         {dz.view()}, {}, {0});
    for (int64_t i = 0; i < 33; ++i) {
      CHECK(near(r.at({i}), std::hypot(z.at({i}).re, z.at({i}).im), 1e-6));
      CHECK(near(dz.at({i}), g.at({i}) * conj_of(c64(2) * z.at({i})), 1e-5));
    }
    Array<float> x({100003}), empty({0, 4});
    x.fill(small_number<float>);
    const std::vector<float> before = x.values();
    call(*dev, GD_POINTWISE, def::id_of<def::square>(), {x.view()}, {x.view()});
    bool equal = true;
    for (int64_t i = 0; i < 100003; ++i)
      equal = equal && x.at({i}) == before[size_t(i)] * before[size_t(i)];
    CHECK(equal);
    call(*dev, GD_POINTWISE, def::id_of<def::exp>(), {empty.view()}, {empty.view()});
  }
}

TEST_CASE("cpu: pointwise refuses what it cannot do") {
  Array<float> x({3}), wrong({4});
  Array<int32_t> n({3});
  CHECK(has(refusal(GD_POINTWISE, 100000, {x.view()}, {x.view()}), "unknown"));
  CHECK(has(refusal(GD_POINTWISE, def::id_of<def::exp>(), {n.view()}, {n.view()}), "i32"));
  CHECK(has(refusal(GD_POINTWISE, def::id_of<def::exp>(), {wrong.view()}, {x.view()}), "sizes"));
  CHECK(has(refusal(GD_POINTWISE, def::id_of<def::add>(), {x.view()}, {x.view()}), "operands"));
  CHECK(has(refusal(GD_POINTWISE, def::id_of<def::clamp>(), {x.view()}, {x.view()}), "parameters"));
  CHECK(has(refusal(GD_POINTWISE, def::id_of<def::exp>(), {kAbsent}, {x.view()}), "left out"));
  Array<float> stretched({3}, kBroadcast);
  CHECK(has(refusal(GD_POINTWISE, def::id_of<def::exp>(), {x.view()}, {stretched.view()}),
            "overlaps"));
}

// Results written past the caches have the bits of those that are not.
TEST_CASE("cpu: pointwise beyond the caches") {
  const Index all{1027, 4099}, part{79, 4099};
  Array<float> x(all), row({4099}), y(all), want(all);
  x.fill(small_number<float>);
  row.fill(small_number<float>);
  const Index repeated{0, 1};
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    for (const bool two : {false, true}) {
      auto compute = [&](Array<float>& to, const Index& sizes, int64_t begin) {
        std::vector<gd_view> views{x.view(), to.view(), row.view()};
        for (gd_view& v : views) v.rank = 2, v.sizes = sizes.data();
        views[0].offset += begin * 4099;
        views[1].offset += begin * 4099;
        views[2].strides = repeated.data();
        if (two)
          call(*dev, GD_POINTWISE, def::id_of<def::add>(), {views[0], views[2]}, {views[1]});
        else
          call(*dev, GD_POINTWISE, def::id_of<def::exp>(), {views[0]}, {views[1]});
      };
      for (int64_t begin = 0; begin < 1027; begin += 79) compute(want, part, begin);
      compute(y, all, 0);
      CHECK(!std::memcmp(y.store.get(), want.store.get(), size_t(y.length) * sizeof(float)));
    }
  }
}
