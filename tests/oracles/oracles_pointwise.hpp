// Pointwise oracles are functions of the elements: what lifts them to host arrays.
#pragma once
#include "tests/oracles/oracles.hpp"

namespace gradus::inline v1::testing::pointwise {

using R = long double;
constexpr R kPi = 3.14159265358979323846264338327950288L;

inline Shape broadcast(const std::vector<Host>& in) {
  Shape out;
  for (const Host& x : in) {
    while (out.size() < x.sizes.size()) out.insert(0, 1);
    const size_t lead = out.size() - x.sizes.size();
    for (size_t i = 0; i < x.sizes.size(); ++i)
      if (x.sizes[i] != 1) out[lead + i] = x.sizes[i];
  }
  return out;
}

inline Shape within(const Shape& index, const Shape& sizes) {
  Shape own(index.begin() + (index.size() - sizes.size()), index.end());
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == 1) own[i] = 0;
  return own;
}

template <class F>
Oracle each(F f) {
  return [f](const Call& c) {
    return build(broadcast(c.in), [&](const Shape& i) {
      std::vector<Wide> x;
      for (const Host& h : c.in) x.push_back(h.at(within(i, h.sizes)));
      return Wide(f(c, x));
    });
  };
}

using X = const std::vector<Wide>&;

// Functions that are one thing on real numbers and on complex ones.
template <class Real, class Complex>
Oracle function(Real real, Complex complex) {
  return each([=](const Call& c, X x) {
    return is_complex(c.dtype) ? Wide(complex(x[0])) : Wide(real(x[0].real()));
  });
}
template <class Real>
Oracle real_function(Real real) {
  return each([=](const Call&, X x) { return Wide(real(x[0].real())); });
}
template <class F>
Oracle comparison(F f) {
  return each([=](const Call&, X x) { return Wide(f(x[0], x[1]) ? 1 : 0); });
}

}  // namespace gradus::testing::pointwise
