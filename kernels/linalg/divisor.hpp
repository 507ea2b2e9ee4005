// Quotients of many numbers by one, and choices by a mask. An element is a number, or a vector that
// holds one for each of its lanes.
#pragma once
#include <cmath>
#include <limits>
#include <type_traits>

namespace gradus::inline v1::linalg {

// For vectors, xsimd's own.
template <class T>
requires std::is_floating_point_v<T> T select(bool which, T x, T y) { return which ? x : y; }
inline bool any(bool which) { return which; }
inline bool all(bool which) { return which; }

// The number in an element.
template <class E>
struct NumberIn {
  using type = E;
};
template <class E>
requires requires { typename E::batch_bool_type; }
struct NumberIn<E> {
  using type = typename E::value_type;
};

// Divides by products with the reciprocal, as LAPACK's getf2 does, where that and the number itself
// are normal; by a complex number, as ever.
template <class E, bool kReal = std::is_floating_point_v<typename NumberIn<E>::type>>
class Divisor {
  using T = typename NumberIn<E>::type;

 public:
  explicit Divisor(const E& by) : by_(by), over_(E(T(1)) / by) {
    using std::abs;
    constexpr T kLeast = std::numeric_limits<T>::min();
    const E size = abs(by);
    other_ = !((size >= E(kLeast)) & (size <= E(1 / kLeast)));
    some_ = any(other_);
  }
  E operator()(const E& x) const { return some_ ? select(other_, x / by_, x * over_) : x * over_; }

 private:
  E by_, over_;
  decltype(E() == E()) other_;
  bool some_;
};
template <class E>
class Divisor<E, false> {
 public:
  explicit Divisor(const E& by) : by_(by) {}
  E operator()(const E& x) const { return x / by_; }

 private:
  E by_;
};

}  // namespace gradus::linalg
