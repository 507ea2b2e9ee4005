// What the tests of the cpu device share: its openings (every instruction set of this machine, with
// one thread and with three), arrays in many layouts, calls through the C table, comparisons.
#pragma once
#include "engine/abi/dtype.hpp"
#include "kernels/cpu/cpu.hpp"
#include "tests/helpers/on_device.hpp"
#include "tests/helpers/texts.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

namespace cpu_test {

using namespace gradus;
using gradus::test::has;

using Index = std::vector<int64_t>;
// The same numbers in every run.
inline std::mt19937& rng() {
  static std::mt19937 engine(7);
  return engine;
}
inline int64_t pick(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng());
}

// ---- devices

struct Device {
  gd_device* d = nullptr;
  std::string name;
  // `more` goes on with the config: ", \"key\": value".
  Device(const std::string& isa, int threads, const std::string& more = "")
      : name(isa + "/" + std::to_string(threads)) {
    gd_error e{};
    const std::string json =
        "{\"isa\": \"" + isa + "\", \"threads\": " + std::to_string(threads) + more + "}";
    if (cpu::table()->open(0, json.c_str(), &d, &e) != GD_OK) d = nullptr;
  }
  ~Device() {
    if (d) cpu::table()->close(d);
  }
};

// What opening a device says that is to have this library ("lapack" or "blas"), which it can't
// have. `file` is JSON.
inline std::string refused_library(const std::string& key, const std::string& file) {
  gd_device* d = nullptr;
  gd_error e{};
  const std::string json = "{\"libraries\": {\"" + key + "\": " + file + "}}";
  CHECK(cpu::table()->open(0, json.c_str(), &d, &e) != GD_OK);
  CHECK(d == nullptr);
  return e.text;
}
inline const std::string kLibraryHint =
    "; `apt-get install libopenblas0-pthread` brings /usr/lib/x86_64-linux-gnu/liblapack.so.3 "
    "and libblas.so.3";

// All instruction sets, each with one thread and with three.
inline const std::vector<std::unique_ptr<Device>>& devices() {
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

inline int64_t product(const Index& s) {
  int64_t n = 1;
  for (int64_t x : s) n *= x;
  return n;
}

// Calls f(index) in row-major order.
inline void each(const Index& sizes, const std::function<void(const Index&)>& f) {
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
    return {1,      store.get(),  int32_t(dtype_of<T>), int32_t(sizes.size()),
            offset, sizes.data(), strides.data()};
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

inline const gd_view kAbsent{0, nullptr, 0, 0, 0, nullptr, nullptr};

// A slot with the scratch memory that it asks for, which stays: a graph may use it again.
inline gd_status call_slot(const gd_table& table, gd_device* device, gd_call c, gd_error& e) {
  gd_status s = table.slot[c.slot](device, nullptr, &c, &e);
  if (s != GD_SCRATCH) return s;
  e.text[0] = 0;
  c.scratch_bytes = uint64_t(e.wanted);
  s = table.alloc(device, size_t(e.wanted), &c.scratch, &e);
  return s == GD_OK ? table.slot[c.slot](device, nullptr, &c, &e) : s;
}

inline gd_status try_call(const gd_table& table, gd_device* device, gd_slot slot, int32_t op,
                          const std::vector<gd_view>& in, const std::vector<gd_view>& out,
                          const std::vector<double>& doubles, const Index& ints, gd_error& e) {
  const test::OnDevice there(table, device, in, out);
  const gd_call c{sizeof(gd_call),
                  slot,
                  op,
                  int32_t(in.size()),
                  int32_t(out.size()),
                  int32_t(doubles.size()),
                  int32_t(ints.size()),
                  there.in.data(),
                  there.out.data(),
                  doubles.data(),
                  ints.data(),
                  nullptr,
                  nullptr,
                  0,
                  nullptr};
  const gd_status s = call_slot(table, device, c, e);
  return s == GD_OK ? there.bring_back(e) : s;
}
inline void call(const Device& dev, gd_slot slot, int32_t op, const std::vector<gd_view>& in,
                 const std::vector<gd_view>& out, const std::vector<double>& doubles = {},
                 const Index& ints = {}) {
  gd_error e{};
  const gd_status s = try_call(*cpu::table(), dev.d, slot, op, in, out, doubles, ints, e);
  INFO(dev.name << ": " << e.text);
  REQUIRE(s == GD_OK);
}
inline std::string refusal(gd_slot slot, int32_t op, const std::vector<gd_view>& in,
                           const std::vector<gd_view>& out, const std::vector<double>& doubles = {},
                           const Index& ints = {}) {
  gd_error e{};
  const gd_status s = try_call(*cpu::table(), devices()[0]->d, slot, op, in, out, doubles, ints, e);
  CHECK(s != GD_OK);
  CHECK(s == e.code);
  return e.text;
}

// ---- comparison

template <class T>
double as_double(T x) {
  return double(float(x));
}
inline double as_double(double x) { return x; }
inline double as_double(int64_t x) { return double(x); }
inline double as_double(int32_t x) { return double(x); }

template <class T, class W>
bool near(T got, W want, double tolerance) {
  if constexpr (is_complex_v<T>) {
    return std::abs(std::complex<double>(got.re, got.im) -
                    std::complex<double>(want.re, want.im)) <=
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
    return a.size() == b.size() &&
           (a.empty() || !std::memcmp(a.data(), b.data(), a.size() * sizeof(T)));
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

// ---- dtypes

template <class F>
void for_all_dtypes(F&& f) {
  for (int32_t t = 0; t < GD_DTYPE_COUNT; ++t) visit_dtype(t, f);
}

// The accumulator of the naive loops.
template <class T>
using Wide = std::conditional_t<is_complex_v<T>, c128,
                                std::conditional_t<std::is_integral_v<T>, int64_t, double>>;
template <class T>
Wide<T> wide(T x) {
  if constexpr (is_complex_v<T>)
    return c128(x);
  else if constexpr (std::is_integral_v<T>)
    return int64_t(x);
  else
    return as_double(x);
}

}  // namespace cpu_test
