// Tensor::to_string: values as a person reads them, nested brackets, long axes cut in the middle.
#include "engine/tensor.hpp"
#include "engine/abi/user_dtype.hpp"

#include <cmath>
#include <cstdio>

namespace gradus::inline v1 {

namespace {

std::string real_text(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", std::isnan(v) ? std::abs(v) : v);  // never "-nan"
  return text;
}

template <class T>
std::string number_text(T v) {
  if constexpr (std::is_same_v<T, bool>)
    return v ? "true" : "false";
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(v);
  else if constexpr (is_complex_v<T>)
    return real_text(double(v.re)) + (std::signbit(v.im) && !std::isnan(v.im) ? "" : "+") +
           real_text(double(v.im)) + "i";
  else
    return real_text(static_cast<double>(v));
}

}  // namespace

std::string Tensor::to_string(int64_t edge) const {
  if (!defined()) return "undefined";
  std::vector<char> raw(bytes());
  copy_to_host(raw.data());
  const Shape dense = contiguous_strides(sizes());
  auto value = [&](int64_t flat) {
    if (is_user(dtype()))
      return user_dtype(dtype()).text(raw.data() + size_t(flat) * itemsize(dtype()));
    std::string text;
    visit_dtype(int32_t(dtype()), [&]<class T>(T) {
      T v;
      memcpy(&v, raw.data() + size_t(flat) * sizeof v, sizeof v);
      text = number_text(v);
    });
    return text;
  };
  size_t width = 0;
  std::string s;
  const int64_t n = rank();
  for (int pass = 0; pass < 2; ++pass) {
    s.clear();
    auto visit = [&](auto& self, size_t axis, int64_t flat) -> void {
      if (axis == size_t(n)) {
        const std::string text = value(flat);
        width = std::max(width, text.size());
        s += std::string(width - text.size(), ' ') + text;
        return;
      }
      const int64_t count = sizes()[axis];
      s += "[";
      for (int64_t i = 0; i < count; ++i) {
        if (i > 0) s += axis + 1 == size_t(n) ? ", " : ",\n" + std::string(axis + 1, ' ');
        if (count > 2 * edge + 1 && i == edge) {
          s += axis + 1 == size_t(n) ? "..., " : "...,\n" + std::string(axis + 1, ' ');
          i = count - edge;
        }
        self(self, axis + 1, flat + i * dense[axis]);
      }
      s += "]";
    };
    visit(visit, 0, 0);
  }
  return s;
}

}  // namespace gradus
