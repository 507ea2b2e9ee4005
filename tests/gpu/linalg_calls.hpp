// Linalg of the GPU modules, for its tests: fakes of solver libraries, calls compared with the
// reference, matrices whose factors and spectra are well determined.
#pragma once
#include "ops/def/linalg.h"
#include "tests/helpers/gpu_libraries.hpp"

namespace gpu_linalg_test {

using namespace gpu_test;
using library_test::Library;

inline const Library& fake_library(const std::string& name) {
  static std::map<std::string, Library> all;
  return all.try_emplace(name, name).first->second;
}
inline bool emulates() { return std::string(emulator().kind) == "emu"; }
inline std::string solver(const std::string& path) {
  return R"({"libraries": {"solver": ")" + path + "\"}}";
}

struct BatchShape {
  Index batch;
  int64_t m, n;
  Layout layout = kPlain;
};
inline Index with(Index batch, std::initializer_list<int64_t> last) {
  batch.insert(batch.end(), last);
  return batch;
}

// What is close to the reference's answer; NaN where it has NaN.
template <class T>
void check_near(const Array<T>& got, const Array<T>& want, double tolerance) {
  size_t wrong = 0;
  each(want.sizes, [&](const Index& i) {
    const T g = got.at(i), w = want.at(i);
    if constexpr (is_complex_v<T>)
      wrong += w.re != w.re ? g.re == g.re : !near(g, w, tolerance);
    else
      wrong += !near(g, wide(w), tolerance);
  });
  CHECK(wrong == 0);
}

// Outputs of one call: of T, of real numbers, of complex ones, whole numbers.
template <class T>
struct Outputs {
  using R = real_of<T>;
  std::vector<Array<T>> own;
  std::vector<Array<R>> real;
  std::vector<Array<Complex<R>>> complex;
  std::vector<Array<int64_t>> whole;
  std::vector<gd_view> views;

  // Letters: t, r, c and i for those, - for an output that is left out.
  Outputs(const std::string& kinds, const std::vector<Index>& sizes, Layout layout) {
    for (size_t k = 0; k < kinds.size(); ++k) {
      if (kinds[k] == 't') own.emplace_back(sizes[k], layout);
      if (kinds[k] == 'r') real.emplace_back(sizes[k], layout);
      if (kinds[k] == 'c') complex.emplace_back(sizes[k], layout);
      if (kinds[k] == 'i') whole.emplace_back(sizes[k], layout);
    }
    views.assign(kinds.size(), kAbsent);  // once no array moves any more
    size_t at[4] = {};
    for (size_t k = 0; k < kinds.size(); ++k) {
      if (kinds[k] == 't') views[k] = own[at[0]++].view();
      if (kinds[k] == 'r') views[k] = real[at[1]++].view();
      if (kinds[k] == 'c') views[k] = complex[at[2]++].view();
      if (kinds[k] == 'i') views[k] = whole[at[3]++].view();
    }
  }
};

template <class T>
void agree(const std::vector<gd_device*>& devices, const Library* library, int op,
           const std::vector<gd_view>& in, const std::string& kinds,
           const std::vector<Index>& sizes, const Index& ints = {}, double loss = 1) {
  CAPTURE(op);
  CAPTURE(int(dtype_of<T>));
  CAPTURE(kinds);
  gradus::Device& reference = open_device("reference");
  Outputs<T> want(kinds, sizes, kPlain);
  run(reference.table(), reference.handle(), GD_LINALG, op, in, want.views, {}, ints);
  const double tolerance = loss * 50 * cpu_test::tolerance<T>();
  size_t turn = 0;
  for (gd_device* device : devices) {
    Outputs<T> got(kinds, sizes, turn++ % 2 ? kPermuted : kGaps);
    run(emulator(), device, GD_LINALG, op, in, got.views, {}, ints);
    for (size_t k = 0; k < got.own.size(); ++k) check_near(got.own[k], want.own[k], tolerance);
    for (size_t k = 0; k < got.real.size(); ++k) check_near(got.real[k], want.real[k], tolerance);
    for (size_t k = 0; k < got.complex.size(); ++k)
      check_near(got.complex[k], want.complex[k], tolerance);
    for (size_t k = 0; k < got.whole.size(); ++k)
      CHECK(got.whole[k].values() == want.whole[k].values());
  }
  if (library) CHECK(std::string(library->state->first_wrong) == "");
}

template <class F>
void for_dtypes(F&& f) {
  f(float{});
  f(double{});
  f(c64{});
  f(c128{});
}

// Numbers between -1 and 1, and a diagonal that keeps eigenvalues and singular values apart. It may
// stand a row lower, the last entry first: then pivots are found there.
template <class T>
Array<T> matrices(const BatchShape& s, bool positive = false, int64_t lower = 0) {
  Array<T> a(with(s.batch, {s.m, s.n}), s.layout);
  rng().seed(5);
  a.fill([] { return small_number<T>() * T(real_of<T>(0.2)); });
  each(a.sizes, [&](const Index& i) {
    const int64_t r = (i[i.size() - 2] + s.m - lower) % s.m, c = i.back();
    if (r != c) return;
    const int64_t far = 2 * (r + 1) * (!positive && r % 2 ? -1 : 1);
    a.at(i) = a.at(i) + T(real_of<T>(positive ? 6 * s.n + far : far));
  });
  return a;
}

}  // namespace gpu_linalg_test
