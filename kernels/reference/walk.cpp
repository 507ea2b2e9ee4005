// The xtensor side of a walk: one strided view and its row-major iterator for each storage type.
#include "kernels/reference/walk.hpp"

#include "kernels/reference/convert.hpp"
#include "kernels/reference/views.hpp"

#include <stdexcept>

namespace gradus::reference {

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

Walk::Walk(const Layout& v) : dtype_(v.dtype), left_(v.count()) {
  visit_dtype(int32_t(v.dtype),
              [&](auto t) { elements_ = std::make_unique<Typed<decltype(t)>>(v); });
}

Walk::Walk(Walk&&) noexcept = default;
Walk::~Walk() = default;

void Walk::read_as(DType as, void* to, int64_t n) {
  if (n > left_) throw std::out_of_range("reference: a walk reads past the end of its view");
  left_ -= n;
  if (as == dtype_) return elements_->load(to, n);
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
  Block block;
  for_blocks(n, [&](int64_t m) {
    convert(as, from, dtype_, block.raw(), m);
    elements_->store(block.raw(), m);
    from = static_cast<const std::byte*>(from) + size_t(m) * itemsize(as);
  });
}

}  // namespace gradus::reference
