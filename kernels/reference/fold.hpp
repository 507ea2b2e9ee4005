// Folding lines: what reduce.cpp instantiates for the built-in accumulators, and user_scalar.hpp
// for a user's type.
#pragma once
#include "kernels/call/checks.hpp"
#include "kernels/reference/order.hpp"
#include "kernels/reference/walk.hpp"

#include <type_traits>

namespace gradus::inline v1::reference {

// The place of the winner of a line that is not empty.
template <class A>
int64_t winner(bool maximum, const A* x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i)
    if (beats(maximum, x[i], x[best])) best = i;
  return best;
}

template <class A>
A fold(int32_t op, const A* x, int64_t n) {
  if constexpr (std::is_arithmetic_v<A>)
    if (orders(op)) return x[winner(takes_maximum(op), x, n)];
  A total(op == GD_SUM ? 0 : 1);
  for (int64_t i = 0; i < n; ++i) {
    if (op == GD_SUM)
      total = total + x[i];
    else
      total = total * x[i];
  }
  return total;
}

// A reduction as lines: the input with its reduced axes last.
struct Lines {
  Layout in, out;
  int64_t length;  // elements of a line
};

// of a call that is checked: out has in's axes, of in's size or 1.
inline Lines lines_of(const Layout& in, const Layout& out) {
  std::vector<int> kept, reduced;
  int64_t length = 1;
  for (int d = 0; d < in.rank(); ++d) {
    const int64_t n = in.sizes[size_t(d)], m = out.sizes[size_t(d)];
    (n == m ? kept : reduced).push_back(d);
    if (n != m) length *= n;
  }
  kept.insert(kept.end(), reduced.begin(), reduced.end());
  return {in.permuted(kept), out.permuted(kept), length};
}

template <class A>
void reduce_numbers(const Lines& v, int32_t op) {
  Walk from(v.in), to(v.out);
  const auto x = make_line<A>(v.length);
  for (int64_t i = 0, n = v.out.count(); i < n; ++i) {
    from.read(x.get(), v.length);
    const A result = fold(op, x.get(), v.length);
    to.write(&result, 1);
  }
}

template <class A>
void scan_lines(int32_t op, const Layout& in, const Layout& out, int axis, bool from_end) {
  const int64_t length = in.sizes[size_t(axis)];
  Walk from(in.with_axis_last(axis)), to(out.with_axis_last(axis));
  const auto x = make_line<A>(length);
  for (int64_t done = 0; done < in.count(); done += length) {
    from.read(x.get(), length);
    for (int64_t k = 1; k < length; ++k) {
      const int64_t i = from_end ? length - 1 - k : k, before = from_end ? i + 1 : i - 1;
      const A pair[] = {x[before], x[i]};
      x[i] = fold(op, pair, 2);
    }
    to.write(x.get(), length);
  }
}

}  // namespace gradus::reference
