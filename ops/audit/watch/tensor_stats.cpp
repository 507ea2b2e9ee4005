// Two passes on the host, so that the spread of large numbers that lie close together is right.
#include "ops/audit/watch/tensor_stats.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::audit {

namespace {

// Row-major, as f64.
std::vector<double> numbers_of(const Tensor& t) {
  std::vector<double> out;
  visit_dtype(int32_t(t.dtype()), [&]<class T>(T) {
    const auto n = size_t(t.numel());
    const std::unique_ptr<T[]> raw(new T[n]);
    t.copy_to_host(raw.get());
    out.reserve(n);
    for (size_t i = 0; i < n; ++i)
      if constexpr (std::is_same_v<T, c64> || std::is_same_v<T, c128>)
        out.push_back(std::hypot(double(raw[i].re), double(raw[i].im)));
      else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
        out.push_back(double(float(raw[i])));
      else
        out.push_back(double(raw[i]));
  });
  return out;
}

}  // namespace

TensorStats stats_of(const Tensor& t) {
  TensorStats s;
  if (!t.defined()) return s;
  std::vector<double> x = numbers_of(t);
  for (double& v : x)
    if (std::isnan(v)) v = NAN;  // without a sign
  s.count = int64_t(x.size());
  s.first.assign(x.begin(), x.begin() + std::ptrdiff_t(std::min(x.size(), TensorStats::kFirst)));
  int64_t finite = 0;
  double sum = 0;
  s.min = INFINITY, s.max = -INFINITY;
  for (const double v : x) {
    s.zeros += v == 0;
    s.nans += std::isnan(v);
    s.infs += std::isinf(v);
    if (!std::isfinite(v)) continue;
    ++finite;
    sum += v;
    s.min = std::min(s.min, v);
    s.max = std::max(s.max, v);
  }
  const double unbounded = s.nans ? NAN : s.infs ? INFINITY : 0;
  if (finite == 0) {
    s.min = s.max = 0;
    s.norm = unbounded;
    return s;
  }
  s.mean = sum / double(finite);
  double squares = 0, spread = 0;
  const double width = (s.max - s.min) / double(TensorStats::kBins);
  for (const double v : x) {
    if (!std::isfinite(v)) continue;
    squares += v * v;
    spread += (v - s.mean) * (v - s.mean);
    const double bin = width > 0 ? (v - s.min) / width : 0;
    ++s.histogram[std::min(size_t(std::max(bin, 0.0)), TensorStats::kBins - 1)];
  }
  s.norm = unbounded == 0 ? std::sqrt(squares) : unbounded;
  s.std = std::sqrt(spread / double(finite));
  return s;
}

}  // namespace gradus::audit
