// The cpu device through its C table: every slot on every instruction set that this machine has,
// against naive loops written here, over odd sizes, strides (permuted, negative, 0, with gaps) and
// empties; and bit for bit between 1 and 3 threads. Statements are judged against their own scalar
// reader: what is tested here is the batches, not the formulas.
#include "engine/philox.hpp"
#include "kernels/cpu/cpu.hpp"
#include "ops/def/statements.hpp"
#include "ops/def/words_scalar.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace gradus;

namespace {

using Index = std::vector<int64_t>;
std::mt19937 rng(7);
int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); }

// ---- devices

struct Device {
  gd_device* d = nullptr;
  std::string name;
  Device(const std::string& isa, int threads) : name(isa + "/" + std::to_string(threads)) {
    gd_error e{};
    const std::string json = "{\"isa\": \"" + isa + "\", \"threads\": " + std::to_string(threads) + "}";
    if (cpu::table()->open(0, json.c_str(), &d, &e) != GD_OK) d = nullptr;
  }
  ~Device() {
    if (d) cpu::table()->close(d);
  }
};

// All instruction sets, each with one thread and with three.
const std::vector<std::unique_ptr<Device>>& devices() {
  static const auto list = [] {
    std::vector<std::unique_ptr<Device>> all;
    for (const char* isa : {"sse2", "avx2", "avx512", "neon64"})
      for (int threads : {1, 3})
        if (auto d = std::make_unique<Device>(isa, threads); d->d) all.push_back(std::move(d));
    return all;
  }();
  return list;
}

// ---- arrays

int64_t product(const Index& s) {
  int64_t n = 1;
  for (int64_t x : s) n *= x;
  return n;
}

// Calls f(index) in row-major order.
void each(const Index& sizes, const std::function<void(const Index&)>& f) {
  if (product(sizes) == 0) return;
  Index i(sizes.size(), 0);
  for (;;) {
    f(i);
    int d = int(sizes.size()) - 1;
    while (d >= 0 && ++i[size_t(d)] == sizes[size_t(d)]) i[size_t(d--)] = 0;
    if (d < 0) return;
  }
}

enum Layout { kPlain, kPermuted, kNegative, kGaps, kBroadcast, kLayouts };

template <class T>
struct Array {
  std::unique_ptr<T[]> store;
  int64_t length = 0, offset = 0;
  Index sizes, strides;

  Array(Index s, Layout layout = kPlain) : sizes(std::move(s)), strides(sizes.size()) {
    const size_t rank = sizes.size();
    std::vector<size_t> order(rank);
    for (size_t d = 0; d < rank; ++d) order[d] = layout == kPermuted ? d : rank - 1 - d;
    int64_t step = layout == kGaps ? 2 : 1;
    for (size_t d : order) {
      strides[d] = step;
      step *= std::max<int64_t>(sizes[d], 1);
      if (layout == kBroadcast && d == order[0]) {
        strides[d] = 0;
        step = 1;
      }
      if (layout == kNegative && d % 2 == 0 && sizes[d] > 0) {
        offset += (sizes[d] - 1) * strides[d];
        strides[d] = -strides[d];
      }
    }
    length = std::max<int64_t>(step, 1) + 3;
    offset += 3;
    store.reset(new T[size_t(length)]());
  }
  int64_t place(const Index& i) const {
    int64_t p = offset;
    for (size_t d = 0; d < i.size(); ++d) p += i[d] * strides[d];
    return p;
  }
  T& at(const Index& i) { return store[size_t(place(i))]; }
  const T& at(const Index& i) const { return store[size_t(place(i))]; }
  gd_view view() const {
    return {1, store.get(), int32_t(dtype_of<T>), int32_t(sizes.size()), offset, sizes.data(), strides.data()};
  }
  template <class F>
  void fill(F&& f) {
    for (int64_t i = 0; i < length; ++i) store[size_t(i)] = f();
  }
  std::vector<T> values() const {
    std::vector<T> v;
    each(sizes, [&](const Index& i) { v.push_back(at(i)); });
    return v;
  }
};

template <class T>
T small_number() {
  if constexpr (std::is_same_v<T, bool>)
    return pick(0, 1) != 0;
  else if constexpr (is_complex_v<T>)
    return T(real_of<T>(pick(-40, 40)) / 16, real_of<T>(pick(-40, 40)) / 16);
  else if constexpr (std::is_integral_v<T>)
    return T(pick(std::is_signed_v<T> ? -9 : 0, 9));
  else
    return T(float(pick(-160, 160)) / 64);
}

const gd_view kAbsent{0, nullptr, 0, 0, 0, nullptr, nullptr};

gd_status try_call(const Device& dev, gd_slot slot, int32_t op, std::vector<gd_view> in, std::vector<gd_view> out,
                   std::vector<double> doubles, Index ints, gd_error& e) {
  const gd_call c{sizeof(gd_call), slot, op, int32_t(in.size()), int32_t(out.size()), int32_t(doubles.size()),
                  int32_t(ints.size()), in.data(), out.data(), doubles.data(), ints.data(), nullptr};
  return cpu::table()->slot[slot](dev.d, nullptr, &c, &e);
}
void call(const Device& dev, gd_slot slot, int32_t op, std::vector<gd_view> in, std::vector<gd_view> out,
          std::vector<double> doubles = {}, Index ints = {}) {
  gd_error e{};
  const gd_status s = try_call(dev, slot, op, std::move(in), std::move(out), std::move(doubles), std::move(ints), e);
  INFO(dev.name << ": " << e.text);
  REQUIRE(s == GD_OK);
}
std::string refusal(gd_slot slot, int32_t op, std::vector<gd_view> in, std::vector<gd_view> out,
                    std::vector<double> doubles = {}, Index ints = {}) {
  gd_error e{};
  const gd_status s = try_call(*devices()[0], slot, op, std::move(in), std::move(out), std::move(doubles),
                               std::move(ints), e);
  CHECK(s != GD_OK);
  CHECK(s == e.code);
  return e.text;
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// ---- comparison

template <class T>
double as_double(T x) {
  return double(float(x));
}
double as_double(double x) { return x; }
double as_double(int64_t x) { return double(x); }
double as_double(int32_t x) { return double(x); }

template <class T, class W>
bool near(T got, W want, double tolerance) {
  if constexpr (is_complex_v<T>) {
    return std::abs(std::complex<double>(got.re, got.im) - std::complex<double>(want.re, want.im)) <=
           tolerance * (1 + std::hypot(double(want.re), double(want.im)));
  } else {
    const double g = as_double(got), w = as_double(want);
    if (w != w) return g != g;
    if (g == w) return true;
    return std::fabs(g - w) <= tolerance * (1 + std::fabs(w));
  }
}
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  if constexpr (std::is_same_v<T, bool>)
    return a == b;
  else
    return a.size() == b.size() && (a.empty() || !std::memcmp(a.data(), b.data(), a.size() * sizeof(T)));
}

// What the devices of one instruction set must agree on to the bit.
template <class T>
struct Agreement {
  std::string isa;
  std::vector<T> first;
  void operator()(const Device& dev, const std::vector<T>& now) {
    const std::string own = dev.name.substr(0, dev.name.find('/'));
    if (own == isa) {
      INFO(dev.name);
      CHECK(same_bits(first, now));
    }
    isa = own;
    first = now;
  }
};

template <class T>
constexpr double tolerance() {
  if constexpr (std::is_same_v<real_of<T>, double>) return 1e-13;
  if constexpr (std::is_same_v<T, Half>) return 2e-3;
  if constexpr (std::is_same_v<T, BFloat16>) return 1.5e-2;
  return 4e-6;
}

}  // namespace

TEST_CASE("cpu: the table and its openings") {
  const gd_table* t = cpu::table();
  CHECK(t->magic == GD_MAGIC);
  CHECK(std::string(t->kind) == "cpu");
  CHECK(t->statement_count == def::Statements::size);
  CHECK(devices().size() >= 2);
  gd_device* d = nullptr;
  gd_error e{};
  CHECK(t->open(0, R"({"isa": "mmx"})", &d, &e) == GD_UNSUPPORTED);
  CHECK(has(e.text, "unknown instruction set \"mmx\""));
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

// ---- pointwise

namespace {

template <class T>
std::vector<T> operands_of_interest() {
  using L = std::numeric_limits<T>;
  std::vector<T> v = {T(0), T(-0.0), T(1), T(-1), T(0.5), T(-0.5), T(2), T(3), T(-3), T(20), T(-20), T(100), T(-100),
                      L::infinity(), -L::infinity(), L::quiet_NaN(), L::max(), L::lowest(), L::min(),
                      L::denorm_min(), T(1e-3), T(-1e-3), T(88.5), T(-88.5), T(-95), T(-103), T(709.5), T(-720),
                      T(-740), T(1e4), T(3e5), T(-1e6)};
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

template <class S, class T>
T scalar_value(const S& s, bool m, T a, T b) {
  if constexpr (S::kind == def::Kind::select)
    return s.value(m, a, b);
  else if constexpr (S::arity == 1)
    return s.value(a);
  else
    return T(s.value(a, b));
}

template <class S, class T>
void check_statement(int id) {
  if constexpr (def::reads<S, T>()) {
    using def::Kind;
    const S s{};
    std::vector<double> params(size_t(S::meta.param_count()));
    if constexpr (S::meta.param_count() > 0) std::memcpy(params.data(), &s, sizeof(S));
    const double tol = std::is_same_v<T, double> ? 1e-13 : 5e-6;
    for (Layout layout : {kPlain, kPermuted, kNegative, kGaps}) {
      const Index sizes = layout == kPlain ? Index{1003} : Index{17, 59};
      Array<bool> m(sizes, layout);
      Array<T> a(sizes, layout), b(sizes, kPlain), g(sizes, layout);
      m.fill(small_number<bool>);
      g.fill(small_number<T>);
      interesting(a, b);
      Agreement<T> agree;
      for (const auto& dev : devices()) {
        CAPTURE(std::string(S::meta.name));
        CAPTURE(dev->name);
        std::vector<gd_view> in = {a.view()};
        if (S::kind == Kind::select) in = {m.view(), a.view(), b.view()};
        else if (S::arity == 2) in = {a.view(), b.view()};
        if constexpr (S::kind == Kind::comparison) {
          Array<bool> y(sizes);
          call(*dev, GD_POINTWISE, id, in, {y.view()}, params);
          each(sizes, [&](const Index& i) { CHECK(y.at(i) == bool(s.value(a.at(i), b.at(i)))); });
        } else {
          Array<T> y(sizes, layout), dx(sizes, layout);
          call(*dev, GD_POINTWISE, id, in, {y.view()}, params);
          agree(*dev, y.values());
          each(sizes, [&](const Index& i) {
            const T want = scalar_value(s, m.at(i), a.at(i), b.at(i));
            CAPTURE(a.at(i));
            CAPTURE(b.at(i));
            CAPTURE(want);
            CAPTURE(y.at(i));
            CHECK(near(y.at(i), want, tol));
          });
          for (int k = S::kind == Kind::select ? 1 : 0; k < S::arity; ++k) {
            std::vector<gd_view> back = {g.view()};
            back.insert(back.end(), in.begin(), in.end());
            back.push_back(y.view());
            call(*dev, GD_POINTWISE_VJP, id, back, {dx.view()}, params, {k});
            each(sizes, [&](const Index& i) {
              T slope;
              if constexpr (S::kind == Kind::select)
                slope = k == 1 ? def::slope<1>(s, m.at(i), a.at(i), b.at(i), y.at(i))
                               : def::slope<2>(s, m.at(i), a.at(i), b.at(i), y.at(i));
              else if constexpr (S::arity == 1)
                slope = def::slope<0>(s, a.at(i), y.at(i));
              else
                slope = k == 0 ? def::slope<0>(s, a.at(i), b.at(i), y.at(i))
                               : def::slope<1>(s, a.at(i), b.at(i), y.at(i));
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
  }
}

}  // namespace

TEST_CASE("cpu: every statement in batches equals its scalar reader") {
  def::for_each(def::Statements{}, []<class S>(int id) {
    check_statement<S, float>(id);
    check_statement<S, double>(id);
  });
}

TEST_CASE("cpu: an element gives the same bits in any company, stride and place") {
  auto check = [](auto zero) {
    using T = decltype(zero);
    def::for_each(def::Statements{}, [&]<class S>(int id) {
      if constexpr (S::arity == 1 && def::reads<S, T>()) {
        const S s{};
        std::vector<double> params(size_t(S::meta.param_count()));
        if constexpr (S::meta.param_count() > 0) std::memcpy(params.data(), &s, sizeof(S));
        const std::vector<T> v = operands_of_interest<T>();
        for (const auto& dev : devices()) {
          Array<T> x({int64_t(v.size())}), y({int64_t(v.size())}), one({1}), result({1}), many({40}), results({40}, kGaps);
          for (size_t i = 0; i < v.size(); ++i) x.at({int64_t(i)}) = v[i];
          call(*dev, GD_POINTWISE, id, {x.view()}, {y.view()}, params);
          bool equal = true;
          for (size_t i = 0; i < v.size(); ++i) {
            one.at({0}) = v[i];
            many.fill([&] { return v[i]; });
            call(*dev, GD_POINTWISE, id, {one.view()}, {result.view()}, params);
            call(*dev, GD_POINTWISE, id, {many.view()}, {results.view()}, params);
            equal = equal && !std::memcmp(&y.at({int64_t(i)}), &result.at({0}), sizeof(T));
            for (int64_t j = 0; j < 40; ++j)
              equal = equal && !std::memcmp(&y.at({int64_t(i)}), &results.at({j}), sizeof(T));
          }
          CAPTURE(std::string(S::meta.name));
          CAPTURE(dev->name);
          CHECK(equal);
        }
      }
    });
  };
  check(float{});
  check(double{});
}

TEST_CASE("cpu: exp gives subnormals, maximum keeps NaN") {
  for (const auto& dev : devices()) {
    Array<float> x({5}), y({5});
    const float in[] = {-88.0f, -100.0f, -103.5f, -104.5f, 88.7f};
    for (int64_t i = 0; i < 5; ++i) x.at({i}) = in[i];
    call(*dev, GD_POINTWISE, def::id_of<def::exp>(), {x.view()}, {y.view()});
    for (int64_t i = 0; i < 5; ++i) CHECK(y.at({i}) == doctest::Approx(std::exp(in[i])).epsilon(1e-5));
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
    call(*dev, GD_POINTWISE_VJP, def::id_of<def::square>(), {g.view(), z.view(), kAbsent}, {dz.view()}, {}, {0});
    for (int64_t i = 0; i < 33; ++i) {
      CHECK(near(r.at({i}), std::hypot(z.at({i}).re, z.at({i}).im), 1e-6));
      CHECK(near(dz.at({i}), g.at({i}) * conj_of(c64(2) * z.at({i})), 1e-5));
    }
    Array<float> x({100003}), empty({0, 4});
    x.fill(small_number<float>);
    const std::vector<float> before = x.values();
    call(*dev, GD_POINTWISE, def::id_of<def::square>(), {x.view()}, {x.view()});
    bool equal = true;
    for (int64_t i = 0; i < 100003; ++i) equal = equal && x.at({i}) == before[size_t(i)] * before[size_t(i)];
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
  CHECK(has(refusal(GD_POINTWISE, def::id_of<def::exp>(), {x.view()}, {stretched.view()}), "overlaps"));
}

// ---- copy, fill, gather, scatter_add, random

namespace {

template <class F>
void for_all_dtypes(F&& f) {
  for (int32_t t = 0; t < GD_DTYPE_COUNT; ++t) visit_dtype(t, f);
}

}  // namespace

TEST_CASE("cpu: copy over all layouts and dtypes") {
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    for_all_dtypes([&](auto from) {
      using T = decltype(from);
      for (int li = 0; li < kLayouts; ++li)
        for (Layout lo : {kPlain, kPermuted, kNegative, kGaps}) {
          Array<T> a({9, 37, 11}, Layout(li)), b({9, 37, 11}, lo);
          a.fill(small_number<T>);
          call(*dev, GD_COPY, 0, {a.view()}, {b.view()});
          CHECK(same_bits(a.values(), b.values()));
        }
      Array<T> a({3, 200}, kPermuted);
      a.fill(small_number<T>);
      for_all_dtypes([&](auto to) {
        using U = decltype(to);
        if constexpr (!is_complex_v<T> && !std::is_same_v<T, U> && std::is_signed_v<real_of<U>>) {
          Array<U> b({3, 200}, kGaps);
          call(*dev, GD_COPY, 0, {a.view()}, {b.view()});
          each(a.sizes, [&](const Index& i) {
            if constexpr (is_complex_v<U>)
              CHECK(near(b.at(i).re, as_double(a.at(i)), 1e-6));
            else if constexpr (std::is_integral_v<U>)
              CHECK(b.at(i) == U(std::trunc(as_double(a.at(i)))));
          });
        }
      });
    });
    Array<float> x({6});
    const float in[] = {-1.7f, NAN, 3e30f, -3e30f, 255.9f, 0.0f};
    for (int64_t i = 0; i < 6; ++i) x.at({i}) = in[i];
    Array<int32_t> n({6});
    Array<bool> truth({6});
    Array<Half> h({6});
    call(*dev, GD_COPY, 0, {x.view()}, {n.view()});
    call(*dev, GD_COPY, 0, {x.view()}, {truth.view()});
    call(*dev, GD_COPY, 0, {x.view()}, {h.view()});
    CHECK(n.values() == std::vector<int32_t>{-1, 0, INT32_MAX, INT32_MIN, 255, 0});
    CHECK(truth.values() == std::vector<bool>{true, true, true, true, true, false});
    CHECK(std::isinf(float(h.at({2}))));
    // One rounding: through f32 this double would become a tie and round down to 1.
    Array<double> wide({1});
    Array<Half> narrow({1});
    wide.at({0}) = 1 + 0x1p-11 + 0x1p-40;
    call(*dev, GD_COPY, 0, {wide.view()}, {narrow.view()});
    CHECK(float(narrow.at({0})) == 1 + 0x1p-10f);
  }
  // A large transpose, odd on both sides.
  Array<float> a({403, 517}, kPermuted), b({403, 517});
  a.fill(small_number<float>);
  for (const auto& dev : devices()) {
    call(*dev, GD_COPY, 0, {a.view()}, {b.view()});
    CHECK(same_bits(a.values(), b.values()));
  }
}

TEST_CASE("cpu: fill") {
  for (const auto& dev : devices()) {
    Array<c64> z({5, 3}, kPermuted);
    Array<int64_t> n({70000}, kGaps);
    Array<BFloat16> h({9}, kNegative);
    call(*dev, GD_FILL, 0, {}, {z.view()}, {1.5, -2});
    call(*dev, GD_FILL, 0, {}, {n.view()}, {}, {(int64_t(1) << 60) + 1});
    call(*dev, GD_FILL, 0, {}, {h.view()}, {3, 0});
    each(z.sizes, [&](const Index& i) { CHECK(z.at(i) == c64(1.5f, -2)); });
    bool equal = true;
    each(n.sizes, [&](const Index& i) { equal = equal && n.at(i) == (int64_t(1) << 60) + 1; });
    CHECK(equal);
    CHECK(n.store[4] == 0);  // the gaps stay
    each(h.sizes, [&](const Index& i) { CHECK(float(h.at(i)) == 3); });
  }
  Array<float> x({2});
  CHECK(has(refusal(GD_FILL, 0, {}, {x.view()}), "no value"));
}

TEST_CASE("cpu: gather and scatter_add") {
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    auto check = [&](auto zero) {
      using T = decltype(zero);
      for (Layout layout : {kPlain, kPermuted, kNegative})
        for (int axis = 0; axis < 3; ++axis)
          for (bool stretched : {false, true}) {
            Index in_sizes = {4, 5, 6}, sizes = in_sizes;
            sizes[size_t(axis)] = 9;
            Array<T> in(in_sizes, layout), out(sizes, kPermuted), source(sizes, layout), sum(in_sizes, kGaps);
            Array<int64_t> index(sizes, stretched ? kBroadcast : kPlain);
            in.fill(small_number<T>);
            source.fill(small_number<T>);
            sum.fill(small_number<T>);
            index.fill([&] { return pick(0, in_sizes[size_t(axis)] - 1); });
            call(*dev, GD_GATHER, 0, {in.view(), index.view()}, {out.view()}, {}, {axis});
            std::vector<double> want;
            each(in_sizes, [&](const Index& i) {
              if constexpr (!is_complex_v<T>) want.push_back(as_double(sum.at(i)));
            });
            each(sizes, [&](const Index& i) {
              Index j = i;
              j[size_t(axis)] = index.at(i);
              CHECK(!std::memcmp(&out.at(i), &in.at(j), sizeof(T)));
              if constexpr (!is_complex_v<T>) want[size_t((j[0] * in_sizes[1] + j[1]) * in_sizes[2] + j[2])] += as_double(source.at(i));
            });
            call(*dev, GD_SCATTER_ADD, 0, {index.view(), source.view()}, {sum.view()}, {}, {axis});
            size_t n = 0;
            each(in_sizes, [&](const Index& i) {
              if constexpr (!is_complex_v<T>) CHECK(near(sum.at(i), T(want[n++]), tolerance<T>()));
            });
          }
    };
    check(float{});
    check(int64_t{});
    check(c128{});
    check(Half{});
  }
  Array<float> in({4, 2}), out({3, 2});
  Array<int32_t> index({3, 2});
  index.at({1, 1}) = 4;
  index.at({2, 0}) = -7;
  CHECK(has(refusal(GD_GATHER, 0, {in.view(), index.view()}, {out.view()}, {}, {0}), "index 4 is outside [0, 4)"));
  CHECK(has(refusal(GD_SCATTER_ADD, 0, {index.view(), out.view()}, {in.view()}, {}, {0}), "index 4"));
  CHECK(has(refusal(GD_GATHER, 0, {in.view(), index.view()}, {out.view()}, {}, {2}), "axis 2"));
}

TEST_CASE("cpu: random numbers are Philox at base + relative + i") {
  Array<int64_t> state({2});
  state.at({0}) = 12345;
  state.at({1}) = 17;
  for (const auto& dev : devices()) {
    Array<float> u({7, 13}, kPermuted), z({20001});
    Array<double> w({333}, kNegative);
    Array<bool> m({1000});
    call(*dev, GD_RANDOM, GD_UNIFORM, {state.view()}, {u.view()}, {-1, 3}, {5});
    call(*dev, GD_RANDOM, GD_NORMAL, {state.view()}, {z.view()}, {1, 2}, {6});
    call(*dev, GD_RANDOM, GD_UNIFORM, {state.view()}, {w.view()}, {0, 1}, {0});
    call(*dev, GD_RANDOM, GD_BERNOULLI, {state.view()}, {m.view()}, {0.25}, {1});
    uint64_t n = 22;
    each(u.sizes, [&](const Index& i) { CHECK(u.at(i) == float(-1 + 4 * double(uniform_f32(random_bits(12345, n++))))); });
    n = 23;
    bool equal = true;
    each(z.sizes, [&](const Index& i) { equal = equal && z.at(i) == float(1 + 2 * normal_f64(random_bits(12345, n++))); });
    CHECK(equal);
    n = 17;
    each(w.sizes, [&](const Index& i) { CHECK(w.at(i) == uniform_f64(random_bits(12345, n++))); });
    n = 18;
    each(m.sizes, [&](const Index& i) { CHECK(m.at(i) == (uniform_f64(random_bits(12345, n++)) < 0.25)); });
  }
}

// ---- reduce, scan, softmax

namespace {

// The accumulator of the naive loops.
template <class T>
using Wide = std::conditional_t<is_complex_v<T>, c128, std::conditional_t<std::is_integral_v<T>, int64_t, double>>;
template <class T>
Wide<T> wide(T x) {
  if constexpr (is_complex_v<T>)
    return c128(x);
  else if constexpr (std::is_integral_v<T>)
    return int64_t(x);
  else
    return as_double(x);
}
template <class U, class W>
U narrowed(W x) {
  if constexpr (is_complex_v<U>)
    return U(x);
  else
    return U(x);
}

template <class T>
void check_folds(const Index& in_sizes, const Index& out_sizes, Layout layout) {
  using Out = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  Array<T> x(in_sizes, layout);
  x.fill(small_number<T>);
  std::vector<Wide<T>> sum(size_t(product(out_sizes)), Wide<T>(0)), best(sum), least(sum);
  std::vector<bool> seen(sum.size(), false), any(sum.size(), false), all(sum.size(), true);
  each(in_sizes, [&](const Index& i) {
    size_t o = 0;
    for (size_t d = 0; d < i.size(); ++d)
      o = o * size_t(out_sizes[d]) + size_t(out_sizes[d] == 1 ? 0 : i[d]);
    const Wide<T> v = wide(x.at(i));
    sum[o] = sum[o] + v;
    if constexpr (!is_complex_v<T>) {
      best[o] = seen[o] ? std::max(best[o], v) : v;
      least[o] = seen[o] ? std::min(least[o], v) : v;
    }
    const bool truth = v != Wide<T>(0);
    any[o] = any[o] || truth;
    all[o] = all[o] && truth;
    seen[o] = true;
  });
  Agreement<Out> agree;
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    CAPTURE(int(dtype_of<T>));
    Array<Out> s(out_sizes, kPermuted);
    Array<T> b(out_sizes);
    Array<bool> t(out_sizes);
    call(*dev, GD_REDUCE, GD_SUM, {x.view()}, {s.view()});
    agree(*dev, s.values());
    size_t o = 0;
    const double tol = tolerance<T>() * (1 + 0.01 * double(product(in_sizes)));
    each(out_sizes, [&](const Index& i) { CHECK(near(s.at(i), sum[o++], tol)); });
    call(*dev, GD_REDUCE, GD_ANY, {x.view()}, {t.view()});
    CHECK(t.values() == any);
    call(*dev, GD_REDUCE, GD_ALL, {x.view()}, {t.view()});
    CHECK(t.values() == all);
    if constexpr (!is_complex_v<T>) {
      if (product(in_sizes) == 0) continue;
      call(*dev, GD_REDUCE, GD_MAX, {x.view()}, {b.view()});
      o = 0;
      each(out_sizes, [&](const Index& i) { CHECK(wide(b.at(i)) == best[o++]); });
      call(*dev, GD_REDUCE, GD_MIN, {x.view()}, {b.view()});
      o = 0;
      each(out_sizes, [&](const Index& i) { CHECK(wide(b.at(i)) == least[o++]); });
    }
  }
}

}  // namespace

TEST_CASE("cpu: reduce over inner, outer, mixed and all axes") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    for (Layout layout : {kPlain, kPermuted, kNegative, kGaps}) {
      check_folds<T>({3, 50, 21}, {3, 50, 1}, layout);
      check_folds<T>({50, 3, 21}, {1, 3, 21}, layout);
      check_folds<T>({5, 33, 21}, {1, 33, 1}, layout);
      check_folds<T>({5, 33, 21}, {5, 1, 21}, layout);
      check_folds<T>({7, 5, 9}, {1, 1, 1}, layout);
    }
    check_folds<T>({}, {}, kPlain);
    check_folds<T>({0, 3}, {1, 3}, kPlain);
    check_folds<T>({3, 0}, {3, 0}, kPlain);
    check_folds<T>({5, 40}, {5, 1}, kBroadcast);
  });
  check_folds<float>({2, 5003}, {2, 1}, kPlain);
  check_folds<float>({5003, 7}, {1, 7}, kPlain);
  check_folds<double>({300, 4, 300}, {1, 4, 1}, kPlain);
  check_folds<int32_t>({200000}, {1}, kPlain);
}

TEST_CASE("cpu: a sum has the same bits in any layout, and f32 sums do not stick") {
  for (const auto& dev : devices()) {
    std::vector<float> first;
    std::vector<float> numbers(30 * 2100);
    for (float& v : numbers) v = small_number<float>() / 3;
    for (Layout layout : {kPlain, kPermuted, kNegative, kGaps}) {
      Array<float> x({2100, 30}, layout), y({1, 30});
      size_t n = 0;
      each(x.sizes, [&](const Index& i) { x.at(i) = numbers[n++]; });
      call(*dev, GD_REDUCE, GD_SUM, {x.view()}, {y.view()});
      if (layout == kPlain) first = y.values();
      CHECK(same_bits(first, y.values()));
    }
    Array<float> ones({1}, kBroadcast), total({1});
    ones.sizes[0] = (1 << 24) + 100;
    ones.fill([] { return 1.0f; });
    call(*dev, GD_REDUCE, GD_SUM, {ones.view()}, {total.view()});
    CHECK(total.at({0}) == float((1 << 24) + 100));
  }
}

TEST_CASE("cpu: argmax, prod, NaN and refusals of reduce") {
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    for (Layout layout : {kPlain, kPermuted, kNegative})
      for (int axis = 0; axis < 3; ++axis) {
        Array<float> x({6, 150, 9}, layout);
        x.fill(small_number<float>);
        x.at({3, 70, 4}) = NAN;
        Index sizes = x.sizes;
        sizes[size_t(axis)] = 1;
        Array<int64_t> y(sizes, kPermuted), least(sizes);
        call(*dev, GD_REDUCE, GD_ARGMAX, {x.view()}, {y.view()}, {}, {axis});
        call(*dev, GD_REDUCE, GD_ARGMIN, {x.view()}, {least.view()}, {}, {axis});
        each(sizes, [&](Index i) {
          const Index o = i;
          int64_t best = 0, worst = 0;
          for (int64_t k = 1; k < x.sizes[size_t(axis)]; ++k) {
            auto v = [&](int64_t q) { i[size_t(axis)] = q; return x.at(i); };
            if (!std::isnan(v(best)) && (std::isnan(v(k)) || v(k) > v(best))) best = k;
            if (!std::isnan(v(worst)) && (std::isnan(v(k)) || v(k) < v(worst))) worst = k;
          }
          CHECK(y.at(o) == best);
          CHECK(least.at(o) == worst);
        });
        Array<float> m(sizes);
        call(*dev, GD_REDUCE, GD_MAX, {x.view()}, {m.view()});
        Index nan_at = {3, 70, 4};
        nan_at[size_t(axis)] = 0;
        CHECK(std::isnan(m.at(nan_at)));
      }
    Array<double> x({3, 5}), p({3, 1});
    x.fill([] { return 1.5; });
    call(*dev, GD_REDUCE, GD_PROD, {x.view()}, {p.view()});
    CHECK(p.at({1, 0}) == std::pow(1.5, 5));
  }
  Array<float> empty({0}), y({1}), x({3, 4}), wrong({2, 1});
  CHECK(has(refusal(GD_REDUCE, GD_MAX, {empty.view()}, {y.view()}), "nothing to choose"));
  CHECK(has(refusal(GD_REDUCE, GD_SUM, {x.view()}, {wrong.view()}), "axis 0 does not reduce"));
  Array<int32_t> n({3}), m({1});
  CHECK(has(refusal(GD_REDUCE, GD_SUM, {n.view()}, {m.view()}), "i64"));
  Array<c64> z({3}), best({1});
  CHECK(has(refusal(GD_REDUCE, GD_MAX, {z.view()}, {best.view()}), "no order"));
}

TEST_CASE("cpu: scan") {
  auto check = [](auto zero) {
    using T = decltype(zero);
    for (Layout layout : {kPlain, kPermuted, kNegative})
      for (int axis = 0; axis < 2; ++axis)
        for (bool from_end : {false, true})
          for (int op : {GD_SUM, GD_MAX}) {
            if (is_complex_v<T> && op == GD_MAX) continue;
            Array<T> x({700, 19}, layout);
            x.fill(small_number<T>);
            Agreement<T> agree;
            for (const auto& dev : devices()) {
              Array<T> y({700, 19}, kGaps);
              call(*dev, GD_SCAN, op, {x.view()}, {y.view()}, {}, {axis, from_end});
              agree(*dev, y.values());
              const int64_t n = x.sizes[size_t(axis)], other = x.sizes[size_t(1 - axis)];
              for (int64_t o = 0; o < other; ++o) {
                Wide<T> total(0);
                for (int64_t k = 0; k < n; ++k) {
                  const int64_t at = from_end ? n - 1 - k : k;
                  const Index i = axis == 0 ? Index{at, o} : Index{o, at};
                  const Wide<T> v = wide(x.at(i));
                  if constexpr (is_complex_v<T>)
                    total = total + v;
                  else
                    total = op == GD_SUM ? total + v : k == 0 ? v : std::max(total, v);
                  if (!near(y.at(i), narrowed<T>(total), tolerance<T>())) CHECK(near(y.at(i), narrowed<T>(total), tolerance<T>()));
                }
              }
            }
          }
  };
  check(float{});
  check(double{});
  check(c64{});
  check(int32_t{});
  check(BFloat16{});
}

TEST_CASE("cpu: softmax along any axis") {
  auto check = [](auto zero) {
    using T = decltype(zero);
    for (Layout layout : {kPlain, kPermuted, kNegative})
      for (int axis = 0; axis < 3; ++axis)
        for (bool logarithm : {false, true}) {
          Array<T> x({3, 47, 20}, layout);
          x.fill(small_number<T>);
          Agreement<T> agree;
          for (const auto& dev : devices()) {
            Array<T> y({3, 47, 20}, kPermuted);
            call(*dev, GD_SOFTMAX, 0, {x.view()}, {y.view()}, {}, {axis, logarithm});
            agree(*dev, y.values());
            Index lines = x.sizes;
            lines[size_t(axis)] = 1;
            each(lines, [&](Index i) {
              double m = -1e300, s = 0;
              auto v = [&](int64_t k) { i[size_t(axis)] = k; return as_double(x.at(i)); };
              for (int64_t k = 0; k < x.sizes[size_t(axis)]; ++k) m = std::max(m, v(k));
              for (int64_t k = 0; k < x.sizes[size_t(axis)]; ++k) s += std::exp(v(k) - m);
              for (int64_t k = 0; k < x.sizes[size_t(axis)]; ++k) {
                const double want = logarithm ? v(k) - m - std::log(s) : std::exp(v(k) - m) / s;
                if (!near(y.at(i), want, tolerance<T>())) CHECK(near(y.at(i), want, tolerance<T>()));
              }
            });
          }
        }
  };
  check(float{});
  check(double{});
  check(Half{});
  for (const auto& dev : devices()) {  // far apart, long, in place, and hopeless
    Array<float> x({2, 3000});
    x.fill([] { return -200.0f; });
    x.at({0, 2999}) = 1000;
    x.at({1, 5}) = NAN;
    call(*dev, GD_SOFTMAX, 0, {x.view()}, {x.view()}, {}, {1, 0});
    CHECK(x.at({0, 2999}) == 1);
    CHECK(x.at({0, 0}) == 0);
    CHECK(std::isnan(x.at({1, 0})));
    Array<float> none({4});
    none.fill([] { return -INFINITY; });
    call(*dev, GD_SOFTMAX, 0, {none.view()}, {none.view()}, {}, {0, 0});
    CHECK(std::isnan(none.at({0})));
  }
}

TEST_CASE("cpu: optimizer steps") {
  for (const auto& dev : devices()) {
    Array<float> g({7, 5}, kPermuted), p({7, 5}), m({7, 5}), v({7, 5}, kGaps);
    Array<double> hyper({3}), gain({1});
    g.fill(small_number<float>);
    p.fill(small_number<float>);
    m.fill(small_number<float>);
    v.fill([] { return std::fabs(small_number<float>()); });
    hyper.at({0}) = 0.1;
    hyper.at({1}) = 0.19;
    hyper.at({2}) = 0.002;
    gain.at({0}) = 0.5;
    const auto p0 = p.values(), m0 = m.values(), v0 = v.values(), g0 = g.values();
    call(*dev, GD_OPTIMIZER_STEP, GD_ADAMW, {g.view(), hyper.view(), gain.view()}, {p.view(), m.view(), v.view()},
         {0.9, 0.999, 1e-8, 0.01});
    for (size_t i = 0; i < p0.size(); ++i) {
      const double gi = 0.5 * g0[i], mi = 0.9 * m0[i] + 0.1 * gi, vi = 0.999 * v0[i] + 0.001 * gi * gi;
      CHECK(near(p.values()[i], p0[i] * (1 - 0.1 * 0.01) - 0.1 * (mi / 0.19) / (std::sqrt(vi / 0.002) + 1e-8), 1e-6));
      CHECK(near(m.values()[i], mi, 1e-6));
      CHECK(near(v.values()[i], vi, 1e-6));
    }
    const auto p1 = p.values(), m1 = m.values();
    call(*dev, GD_OPTIMIZER_STEP, GD_SGD, {g.view(), hyper.view(), kAbsent}, {p.view(), m.view()}, {0.9, 0.1, 0.02, 1}, {0});
    for (size_t i = 0; i < p0.size(); ++i) {
      double gi = g0[i] + 0.02 * p1[i];
      const double vi = 0.9 * m1[i] + 0.9 * gi;
      gi += 0.9 * vi;
      CHECK(near(m.values()[i], vi, 1e-6));
      CHECK(near(p.values()[i], p1[i] - 0.1 * gi, 1e-6));
    }
    const auto p2 = p.values();
    call(*dev, GD_OPTIMIZER_STEP, GD_SGD, {g.view(), hyper.view(), kAbsent}, {p.view(), kAbsent}, {0, 0, 0, 0}, {1});
    for (size_t i = 0; i < p0.size(); ++i) CHECK(near(p.values()[i], p2[i] - 0.1 * g0[i], 1e-6));
  }
  Array<float> g({3}), p({3}), h({1});
  CHECK(has(refusal(GD_OPTIMIZER_STEP, GD_SGD, {g.view(), h.view(), kAbsent}, {p.view(), kAbsent}, {0.9, 0, 0, 0}, {1}), "state"));
  CHECK(has(refusal(GD_OPTIMIZER_STEP, GD_ADAM, {g.view(), h.view(), kAbsent}, {p.view(), p.view(), p.view()}, {0.9, 0, 0, 0}), "hyper"));
}

// ---- contract

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
  Operand(const Labels& l, const std::vector<bool>& has_axis, Layout layout) : array(own(l, has_axis), layout) {
    size_t k = 0;
    for (size_t d = 0; d < l.sizes.size(); ++d) joint.push_back(has_axis[d] ? array.strides[k++] : 0);
    array.fill(small_number<T>);
  }
  static Index own(const Labels& l, const std::vector<bool>& has_axis) {
    Index s;
    for (size_t d = 0; d < l.sizes.size(); ++d)
      if (has_axis[d]) s.push_back(l.sizes[d]);
    return s;
  }
  gd_view view(const Labels& l) const {
    return {1, array.store.get(), int32_t(dtype_of<T>), int32_t(l.sizes.size()), array.offset, l.sizes.data(), joint.data()};
  }
  T at(const Index& i) const {
    int64_t p = array.offset;
    for (size_t d = 0; d < i.size(); ++d) p += i[d] * joint[d];
    return array.store[size_t(p)];
  }
};

template <class T>
void check_contraction(const Labels& l, bool with_bias, double alpha, double beta) {
  const Index out_sizes(l.sizes.begin(), l.sizes.begin() + l.n_out), k_sizes(l.sizes.begin() + l.n_out, l.sizes.end());
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
    call(*dev, GD_CONTRACT, 0, in, {out.view()}, {alpha, 0, beta, 0}, {l.n_out, GD_STANDARD, conj_a, conj_b});
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
  const Index out_sizes(l.sizes.begin(), l.sizes.begin() + l.n_out), k_sizes(l.sizes.begin() + l.n_out, l.sizes.end());
  using L = std::numeric_limits<std::conditional_t<is_half(dtype_of<T>), float, T>>;
  using W = std::conditional_t<is_half(dtype_of<T>), float, T>;
  const bool maximum = algebra != GD_MIN_PLUS;
  const W worst = L::has_infinity ? (maximum ? -L::infinity() : L::infinity()) : (maximum ? L::min() : L::max());
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
    call(*dev, GD_CONTRACT, 0, {a.view(l), b.view(l)}, outs, {1, 0, 0, 0}, {l.n_out, algebra, 0, 0});
    each(out_sizes, [&](const Index& o) {
      W best = worst;
      int64_t place = -1, n = 0;
      each(k_sizes, [&](const Index& k) {
        Index i = o;
        i.insert(i.end(), k.begin(), k.end());
        const W x = W(a.at(i)), y = W(b.at(i));
        W t;
        if (algebra == GD_MAX_TIMES) {
          if constexpr (std::is_integral_v<W>)
            t = W(std::make_unsigned_t<W>(x) * std::make_unsigned_t<W>(y));
          else
            t = x * y;
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
        right = float(out.at(o)) == float(want) || (best != best && float(out.at(o)) != float(out.at(o)));
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
  for (const Labels& l : {matmul(1, 67, 131, 41), matmul(1, 33, 5, 901), matmul(3, 29, 65, 1), matmul(1, 1, 300, 1500),
                          matmul(2, 300, 1, 1500), matmul(1, 1, 1, 5000), matmul(700, 1, 1, 3), matmul(40, 3, 4, 5),
                          matmul(1, 200, 90, 70), matmul(1, 7, 9, 0)}) {
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

TEST_CASE("cpu: a contraction over a window view, summed axes in one operand only, no axis at all") {
  for (const auto& dev : devices()) {
    // y[i, c] = sum_q x[i + q] w[q, c]
    Array<float> x({40}), w({5, 3}), y({36, 3});
    x.fill(small_number<float>);
    w.fill(small_number<float>);
    const Index joint = {36, 3, 5}, sx = {1, 0, 1}, sw = {0, 1, 3};
    call(*dev, GD_CONTRACT, 0,
         {{1, x.store.get(), GD_F32, 3, x.offset, joint.data(), sx.data()}, {1, w.store.get(), GD_F32, 3, w.offset, joint.data(), sw.data()}},
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
  for (int algebra : {GD_MAX_PLUS, GD_MIN_PLUS, GD_MAX_TIMES}) {
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
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), b.view()}, {y.view()}, {1, 0, 0, 0}, {1, 0, 0, 0}), "index space"));
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), a.view()}, {z.view()}, {1, 0, 0, 0}, {1, 0, 0, 0}), "axis 0"));
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), a.view()}, {y.view()}, {1, 0, 0, 0}, {1, 9, 0, 0}), "algebra"));
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), a.view()}, {y.view()}, {2, 0, 0, 0}, {1, 1, 0, 0}), "alpha = 1"));
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), a.view()}, {y.view()}, {1, 1, 0, 0}, {1, 0, 0, 0}), "imaginary"));
  CHECK(has(refusal(GD_CONTRACT, 0, {t.view(), t.view()}, {u.view()}, {1, 0, 0, 0}, {1, 0, 0, 0}), "bool"));
  CHECK(has(refusal(GD_CONTRACT, 0, {a.view(), a.view()}, {y.view()}), "ints"));
}
