// The xtensor side of a walk: one strided view and its row-major iterator for each storage type.
#include "kernels/reference/walk.hpp"

#include "kernels/reference/convert.hpp"
#include "kernels/reference/views.hpp"

#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace gradus::inline v1::reference {

struct Walk::Elements {
  virtual ~Elements() = default;
  virtual void load(void* to, int64_t n) = 0;
  virtual void store(const void* from, int64_t n) = 0;
};

template <class T>
struct Walk::Typed : Walk::Elements {
  explicit Typed(const Layout& v) : view(strided<T>(v)) {}

  void load(void* to, int64_t n) override {
    T* const x = static_cast<T*>(to);
    for (int64_t i = 0; i < n; ++i, ++at) x[i] = *at;
  }
  void store(const void* from, int64_t n) override {
    const T* const x = static_cast<const T*>(from);
    for (int64_t i = 0; i < n; ++i, ++at) *at = x[i];
  }

  decltype(strided<T>(Layout{})) view;
  decltype(view.template begin<xt::layout_type::row_major>()) at =
      view.template begin<xt::layout_type::row_major>();
};

// Elements of a user's type: their bytes are moved, nothing else is known.
struct Walk::Bytes : Walk::Elements {
  explicit Bytes(const Layout& v)
      : size(itemsize(v.dtype)), view(v), at(size_t(v.rank()), 0), place(v.offset) {}

  std::byte* next() {
    std::byte* const here = static_cast<std::byte*>(view.data) + place * int64_t(size);
    for (size_t d = at.size(); d-- > 0;) {
      place += view.strides[d];
      if (++at[d] < view.sizes[d]) break;
      place -= view.strides[d] * view.sizes[d];
      at[d] = 0;
    }
    return here;
  }
  void load(void* to, int64_t n) override {
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(static_cast<std::byte*>(to) + size_t(i) * size, next(), size);
  }
  void store(const void* from, int64_t n) override {
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(next(), static_cast<const std::byte*>(from) + size_t(i) * size, size);
  }

  size_t size;
  Layout view;
  Sizes at;
  int64_t place;
};

Walk::Walk(const Layout& v) : dtype_(v.dtype), left_(v.count()) {
  if (is_user(v.dtype)) elements_ = std::make_unique<Bytes>(v);
  visit_dtype(int32_t(v.dtype),
              [&](auto t) { elements_ = std::make_unique<Typed<decltype(t)>>(v); });
}

Walk::Walk(Walk&&) noexcept = default;
Walk::~Walk() = default;

// Nothing but the copy slot casts to a user's type, and nothing casts from it.
static void expect_castable(DType a, DType b) {
  if (!is_user(a) && !is_user(b)) return;
  Refusal r{GD_UNSUPPORTED, {}};
  std::snprintf(r.text, sizeof r.text, "reference: %s can't be computed in %s here", dtype_name(b),
                dtype_name(a));
  throw r;
}

void Walk::read_as(DType as, void* to, int64_t n) {
  if (n > left_) throw std::out_of_range("reference: a walk reads past the end of its view");
  left_ -= n;
  if (as == dtype_) return elements_->load(to, n);
  expect_castable(as, dtype_);
  Block block;
  for_blocks(n, [&](int64_t m) {
    elements_->load(block.raw(), m);
    convert(dtype_, block.raw(), as, to, m);
    to = static_cast<std::byte*>(to) + size_t(m) * itemsize(as);
  });
}

void Walk::write_as(DType as, const void* from, int64_t n) {
  if (n > left_) throw std::out_of_range("reference: a walk writes past the end of its view");
  left_ -= n;
  if (as == dtype_) return elements_->store(from, n);
  expect_castable(as, dtype_);
  Block block;
  for_blocks(n, [&](int64_t m) {
    convert(as, from, dtype_, block.raw(), m);
    elements_->store(block.raw(), m);
    from = static_cast<const std::byte*>(from) + size_t(m) * itemsize(as);
  });
}

}  // namespace gradus::reference
