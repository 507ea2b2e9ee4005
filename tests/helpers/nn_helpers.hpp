// A small network and fixed numbers, for tests of layers and of optimisers.
#pragma once
#include "tests/helpers/helpers.hpp"
#include "ops/nn/layers.hpp"

namespace gradus::inline v1::testing {

inline nn::Sequential small_network(DType dtype, Device& device = default_device()) {
  nn::Sequential net;
  net.add(std::make_unique<nn::Linear>(6, 5, true, dtype, device));
  net.add(std::make_unique<nn::OpLayer>("relu"));
  net.add(std::make_unique<nn::Linear>(5, 3, true, dtype, device));
  return net;
}

// Fixed numbers without a pattern, in [-1, 1).
inline double wave(int64_t i) {
  return std::fmod(double(i * i % 97) * 0.37 + double(i) * 0.11, 2.0) - 1.0;
}

inline std::vector<double> waves(int64_t n, int64_t from) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(wave(from + i));
  return v;
}
inline Tensor wave_tensor(const Shape& sizes, int64_t from, DType dtype = DType::f32,
                          Device& device = default_device()) {
  return cast(Tensor::from(waves(numel_of(sizes), from), sizes, device), dtype);
}

inline std::vector<float> floats(const Tensor& t) { return t.to_vector<float>(); }

}  // namespace gradus::testing
