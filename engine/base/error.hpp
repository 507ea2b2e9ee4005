// The one error type. Every failure a user can cause is a gradus::Error that names the op (or
// file), what was expected, what came, and a hint when there is one:
//   matmul: inner sizes differ: a is (32, 784), b is (128, 784); did you mean b.T?
#pragma once
#include "engine/abi/dtype.hpp"
#include "engine/base/small_vector.hpp"

#include <exception>
#include <string>
#include <string_view>

namespace gradus::inline v1 {

enum class ErrorKind {
  shape,
  dtype,
  value,
  index,
  autograd,  // a wrong call
  config,    // a wrong option or file of options
  io,        // a file that can't be read, written or trusted
  device,    // a device or module that is not there
  memory,
  numeric,  // a limit, a NaN
  interrupted,
  internal
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string op, std::string message);
  ErrorKind kind() const noexcept { return kind_; }
  const std::string& op() const noexcept { return op_; }
  const std::string& message() const noexcept { return message_; }
  // "op: message"
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  ErrorKind kind_;
  std::string op_, message_, what_;
};

using Shape = SmallVector<int64_t, 6>;

// Text of a shape as Python writes it: (), (3,), (2, 3).
std::string to_text(const Shape& shape);

namespace detail {
void append(std::string& out, std::string_view s);
void append(std::string& out, const Shape& s);
void append(std::string& out, DType t);
void append(std::string& out, double x);
void append(std::string& out, int64_t n);
inline void append(std::string& out, const char* s) { append(out, std::string_view(s)); }
inline void append(std::string& out, const std::string& s) { append(out, std::string_view(s)); }
inline void append(std::string& out, int n) { append(out, int64_t(n)); }
inline void append(std::string& out, unsigned n) { append(out, int64_t(n)); }
inline void append(std::string& out, unsigned long n) { append(out, int64_t(n)); }
}  // namespace detail

// Joins texts, numbers, shapes and dtypes into one string.
template <class... P>
std::string join(const P&... parts) {
  std::string s;
  (detail::append(s, parts), ...);
  return s;
}

// Throws Error{kind, op, join(parts...)}: the one helper through which errors are raised. Cold:
// what leads to it lies apart from the code that runs. Each library has its own.
template <class... P>
[[noreturn, gnu::cold, gnu::noinline, gnu::visibility("hidden")]] void fail(ErrorKind kind,
                                                                            std::string_view op,
                                                                            const P&... parts) {
  throw Error(kind, std::string(op), join(parts...));
}

size_t edit_distance(std::string_view a, std::string_view b);
// The name in `known` nearest to `name` by edit distance, for "did you mean"; "" if none is near.
template <class Range>
std::string nearest(std::string_view name, const Range& known) {
  size_t best = name.size() / 3 + 2;
  std::string found;
  for (const auto& k : known) {
    const size_t d = edit_distance(name, std::string_view(k));
    if (d < best) {
      best = d;
      found = std::string(std::string_view(k));
    }
  }
  return found;
}

// "; did you mean X?" or "".
template <class Range>
std::string did_you_mean(std::string_view name, const Range& known) {
  const std::string n = nearest(name, known);
  return n.empty() ? std::string() : "; did you mean \"" + n + "\"?";
}

}  // namespace gradus
