// Small helpers that many tests share.
#pragma once
#include "ops/ops.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

namespace gradus::inline v1::testing {

inline Tensor f64(std::initializer_list<double> values, const Shape& sizes) {
  return Tensor::from(std::vector<double>(values), sizes);
}
inline Tensor f32(std::initializer_list<float> values, const Shape& sizes) {
  return Tensor::from(std::vector<float>(values), sizes);
}
inline Tensor i64(std::initializer_list<int64_t> values, const Shape& sizes) {
  return Tensor::from(std::vector<int64_t>(values), sizes);
}
inline Tensor leaf(Tensor t) { return t.set_requires_grad(); }

inline std::vector<double> values(const Tensor& t) {
  return cast(t.detach(), DType::f64).to_vector<double>();
}

// The message of the Error that f throws; "" if it throws none.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// f() with the cpu, then with the reference, as the device of new tensors.
template <class F>
void on_each_device(F&& f) {
  for (const char* name : {"cpu", "reference"}) {
    CAPTURE(name);
    const DeviceScope scope(open_device(name));
    f();
  }
}

inline bool close(const std::vector<double>& a, const std::vector<double>& b,
                  double tolerance = 1e-12) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * std::max(1.0, std::abs(b[i])))) return false;
  return true;
}

}  // namespace gradus::testing
