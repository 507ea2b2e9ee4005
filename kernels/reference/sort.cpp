// The slot sort: each line along the axis, by the library's stable sort of its places.
#include "kernels/reference/slots.hpp"
#include "kernels/reference/walk.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace gradus::inline v1::reference {
namespace {

// Does x stand before y? NaN is the largest number of all.
template <class T>
bool smaller(T x, T y) {
  return x < y || (x == x && y != y);
}

template <class T>
void sort_lines(const SortCall& c, bool descending) {
  const int64_t length = c.in.sizes[c.axis];
  const auto walk = [&](const Layout& v) { return Walk(v.with_axis_last(c.axis)); };
  Walk from = walk(c.in), to_places = walk(c.places);
  std::optional<Walk> to_values;
  if (c.values) to_values.emplace(walk(*c.values));
  const auto x = make_line<T>(length), sorted = make_line<T>(length);
  const auto order = make_line<int64_t>(length);
  for (int64_t done = 0; done < count_of(c.in); done += length) {
    from.read(x.get(), length);
    std::iota(order.get(), order.get() + length, int64_t(0));
    std::stable_sort(order.get(), order.get() + length, [&](int64_t i, int64_t j) {
      return descending ? smaller(x[j], x[i]) : smaller(x[i], x[j]);
    });
    to_places.write(order.get(), length);
    if (!to_values) continue;
    for (int64_t k = 0; k < length; ++k) sorted[k] = x[order[k]];
    to_values->write(sorted.get(), length);
  }
}

}  // namespace

void sort(Call& call) {
  const SortCall c = expect_sort(call);
  const bool descending = call.integer(1) != 0;
  // A wider type orders 16-bit floats and bool as they are, and gives back the same bits.
  visit_dtype(c.in.dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (sizeof(T) == 2)
      sort_lines<float>(c, descending);
    else if constexpr (!is_complex_v<T>)
      sort_lines<T>(c, descending);
  });
}

}  // namespace gradus::reference
