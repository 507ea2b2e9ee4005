// A variable with another value for the length of a scope: Scoped guard(variable, value).
#pragma once
#include <utility>

namespace gradus::inline v1 {

template <class T>
class Scoped {
 public:
  template <class V>
  Scoped(T& variable, V&& value)
      : variable_(variable), before_(std::exchange(variable, std::forward<V>(value))) {}
  ~Scoped() { variable_ = std::move(before_); }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;
  const T& before() const { return before_; }

 private:
  T& variable_;
  T before_;
};
template <class T, class V>
Scoped(T&, V&&) -> Scoped<T>;

}  // namespace gradus
