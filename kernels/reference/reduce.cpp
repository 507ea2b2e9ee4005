// reduce, scan, softmax: slots that work line by line. The axes of a line are moved to the end, so
// that a walk meets line after line; every line is summed from its first element to its last.
#include "kernels/reference/fold.hpp"
#include "kernels/reference/slots.hpp"
#include "kernels/reference/user.hpp"

#include <cmath>

namespace gradus::inline v1::reference {
namespace {

// any, all.
void reduce_truth(const Lines& v, bool any) {
  Walk from(v.in), to(v.out);
  const auto x = make_line<bool>(v.length);
  for (int64_t i = 0, n = v.out.count(); i < n; ++i) {
    from.read(x.get(), v.length);
    bool result = !any;
    for (int64_t k = 0; k < v.length; ++k) result = any ? result || x[k] : result && x[k];
    to.write(&result, 1);
  }
}

template <class A>
void reduce_places(const Lines& v, bool maximum) {
  Walk from(v.in), to(v.out);
  const auto x = make_line<A>(v.length);
  for (int64_t i = 0, n = v.out.count(); i < n; ++i) {
    from.read(x.get(), v.length);
    const int64_t place = winner(maximum, x.get(), v.length);
    to.write(&place, 1);
  }
}

}  // namespace

void reduce(Call& call) {
  const ReduceCall r = expect_reduce(call);
  const int32_t op = call.op();
  const DType t = DType(r.in.dtype);
  const Lines v = lines_of(r.in, r.out);
  if (is_user(t)) return user(call, t).reduce(v, op);
  if (r.truth) return reduce_truth(v, op == GD_ANY);
  visit_accumulator(t, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (!is_complex_v<A>)
      if (r.places) return reduce_places<A>(v, takes_maximum(op));
    reduce_numbers<A>(v, op);
  });
}

void scan(Call& call) {
  const LineCall c = expect_scan(call);
  const int32_t op = call.op();
  const DType t = DType(c.in.dtype);
  if (c.axis < 0) return copy(call);
  const bool from_end = call.integer(1) != 0;
  if (is_user(t)) return user(call, t).scan(op, c.in, c.out, c.axis, from_end);
  visit_accumulator(
      t, [&](auto zero) { scan_lines<decltype(zero)>(op, c.in, c.out, c.axis, from_end); });
}

// softmax_i = exp(x_i - m) / s,  log_softmax_i = (x_i - m) - log(s),
// with m = max x and s = sum exp(x_i - m). A line of -inf alone gives NaN, as 0 / 0 should.
void softmax(Call& call) {
  const LineCall c = expect_softmax(call);
  Layout from_lines = c.in, to_lines = c.out;
  if (c.axis >= 0) {
    from_lines = from_lines.with_axis_last(c.axis);
    to_lines = to_lines.with_axis_last(c.axis);
  }
  const bool logarithm = call.integer(1) != 0;
  const int64_t length = c.axis >= 0 ? from_lines.sizes.back() : 1;
  Walk from(from_lines), to(to_lines);
  const auto x = make_line<double>(length);
  for (int64_t done = 0; done < count_of(c.in); done += length) {
    from.read(x.get(), length);
    const double m = x[winner(true, x.get(), length)];
    double s = 0;
    for (int64_t k = 0; k < length; ++k) s += std::exp(x[k] - m);
    for (int64_t k = 0; k < length; ++k)
      x[k] = logarithm ? (x[k] - m) - std::log(s) : std::exp(x[k] - m) / s;
    to.write(x.get(), length);
  }
}

}  // namespace gradus::reference
