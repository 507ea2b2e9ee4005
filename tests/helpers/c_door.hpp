// The C door from tests: handles that free themselves, numbers in and out by C functions alone, and
// checks of a status that show the text.
#pragma once
#include "bindings/c/gradus.h"

#include <doctest/doctest.h>

#include <cmath>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace c_door {

using Place = std::source_location;
inline std::string where(Place at) {
  return at.file_name() + (":" + std::to_string(at.line())) + ": ";
}

// The call succeeded.
inline void ok(gradus_status status, Place at = Place::current()) {
  REQUIRE_MESSAGE(status == GRADUS_OK, where(at), std::string(gradus_status_text(status)), ": ",
                  std::string(gradus_last_error_text()));
}
// The call was refused with this status and exactly this text.
inline void refused(gradus_status status, gradus_status wanted, const std::string& text,
                    Place at = Place::current()) {
  INFO(where(at));
  CHECK(std::string(gradus_status_text(status)) == gradus_status_text(wanted));
  if (status != GRADUS_OK) CHECK(std::string(gradus_last_error_text()) == text);
}
// The same of a text that has this in it.
inline void refused_with(gradus_status status, gradus_status wanted, const std::string& part,
                         Place at = Place::current()) {
  const std::string text = gradus_last_error_text();
  CHECK_MESSAGE(status == wanted, where(at), std::string(gradus_status_text(status)), ": ", text);
  CHECK_MESSAGE((status == GRADUS_OK || text.find(part) != std::string::npos), where(at), "\"",
                text, "\" lacks \"", part, "\"");
}

inline int64_t live() {
  int64_t n = 0;
  ok(gradus_live_handles(&n));
  return n;
}
// At the end of its scope as many handles are alive as at its beginning. Declared first.
struct Balance {
  ~Balance() { CHECK(live() == before); }
  int64_t before = live();
};

// No level of forward mode is left open by a test that fails within one.
struct LevelEnds {
  ~LevelEnds() { gradus_forward_end(); }
};

// One hold on a handle of any kind.
class Own {
 public:
  Own() = default;
  explicit Own(int64_t handle) : handle_(handle) {}
  Own(Own&& o) noexcept : handle_(std::exchange(o.handle_, 0)) {}
  Own& operator=(Own&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Own() { gradus_free(handle_); }
  operator int64_t() const { return handle_; }
  // Where a call writes its result.
  int64_t* out() {
    gradus_free(std::exchange(handle_, 0));
    return &handle_;
  }
  int64_t given_over() { return std::exchange(handle_, 0); }

 private:
  int64_t handle_ = 0;
};

using Shape64 = std::vector<int64_t>;
using Doubles = std::vector<double>;

inline Own tensor(const Doubles& values, const Shape64& shape, Place at = Place::current()) {
  Own t;
  ok(gradus_from_data(values.data(), GRADUS_F64, shape.data(), shape.size(), t.out()), at);
  return t;
}
inline Own leaf(const Doubles& values, const Shape64& shape) {
  Own t = tensor(values, shape);
  ok(gradus_set_requires_grad(t, 1));
  return t;
}
inline Shape64 shape_of(gradus_tensor t) {
  Shape64 sizes(GRADUS_MAX_DIMS);
  size_t ndim = 0;
  ok(gradus_shape(t, sizes.data(), sizes.size(), &ndim));
  sizes.resize(ndim);
  return sizes;
}
inline int32_t dtype_of(gradus_tensor t) {
  int32_t dtype = -1;
  ok(gradus_dtype(t, &dtype));
  return dtype;
}
// All elements as f64. REQUIRES a real dtype.
inline Doubles values(gradus_tensor t, Place at = Place::current()) {
  Own detached, wide;
  ok(gradus_detach(t, detached.out()), at);
  ok(gradus_cast(detached, GRADUS_F64, wide.out()), at);
  int64_t n = 0;
  ok(gradus_numel(wide, &n));
  Doubles v(static_cast<size_t>(n));
  ok(gradus_to_data(wide, v.data(), v.size() * sizeof(double)), at);
  return v;
}
// dtype, shape and bits, to be compared.
struct Bits {
  int32_t dtype;
  Shape64 shape;
  std::string bytes;
  bool operator==(const Bits&) const = default;
};
inline Bits bits(gradus_tensor t) {
  constexpr size_t size[] = {4, 8, 8, 16, 4, 8, 1, 1, 2, 2};
  Bits b{dtype_of(t), shape_of(t), {}};
  int64_t n = 0;
  ok(gradus_numel(t, &n));
  b.bytes.resize(size_t(n) * size[b.dtype]);
  ok(gradus_to_data(t, b.bytes.data(), b.bytes.size()));
  return b;
}

inline bool near(const Doubles& a, const Doubles& b, double tolerance = 1e-12) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * std::max(1.0, std::abs(b[i])))) return false;
  return true;
}

// An op by name, called with tensors and attributes; its first output.
inline Own op(const char* name, Place at = Place::current()) {
  Own o;
  ok(gradus_op_find(name, o.out()), at);
  return o;
}
inline gradus_attr attr(const char* name, int32_t type, int64_t integer = 0, double number = 0) {
  return {sizeof(gradus_attr), type, name, integer, number, nullptr, nullptr, 0};
}
inline Own call(const char* name, const std::vector<gradus_tensor>& operands,
                const std::vector<gradus_attr>& attrs = {}, Place at = Place::current()) {
  Own out;
  ok(gradus_call(op(name, at), operands.data(), operands.size(), attrs.data(), attrs.size(),
                 out.out(), 1, nullptr),
     at);
  return out;
}

// A `user` of callbacks that counts how often it was destroyed.
struct Counted {
  int calls = 0, destroyed = 0;
  static void destroy(void* user) { ++static_cast<Counted*>(user)->destroyed; }
};

}  // namespace c_door
