// reduce, scan, softmax: slots that work line by line. The axes of a line are moved to the end, so
// that a walk meets line after line; every line is summed from its first element to its last.
#include "kernels/reference/fold.hpp"
#include "kernels/reference/slots.hpp"
#include "kernels/reference/user.hpp"

#include <cmath>

namespace gradus::inline v1::reference {
namespace {

constexpr const char* kNames[] = {"sum", "prod", "max", "min", "argmax", "argmin", "any", "all"};

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

// argmax and argmin reduce the one axis they name.
void expect_one_axis(const Call& call, const Layout& in, const Layout& out) {
  if (in.rank() == 0) return;
  Sizes wanted = in.sizes;
  wanted[size_t(call.axis(0, in))] = 1;
  call.expect_sizes("output", out, wanted);
}

}  // namespace

void reduce(Call& call) {
  const int32_t op = call.op();
  if (op < GD_SUM || op > GD_ALL) call.refuse(GD_INVALID, "no reduction has code %d", op);
  call.named(kNames[op]);
  const bool places = op == GD_ARGMAX || op == GD_ARGMIN, truth = op == GD_ANY || op == GD_ALL;
  call.expect(1, 1, 0, places ? 1 : 0);
  const Layout in = call.in(0), out = call.out(0);
  const Lines v = lines_of(call, in, out);
  const bool widens = (op == GD_SUM || op == GD_PROD) && is_integer(in.dtype);
  call.expect_dtype("output", out, truth ? DType::bool_ : places || widens ? DType::i64 : in.dtype);
  if (places) expect_one_axis(call, in, out);
  if (orders(op) && v.length == 0 && out.count() > 0)
    call.refuse(GD_INVALID, "nothing to choose from: input %s", text(in.sizes).c_str());
  if (is_user(in.dtype)) {
    if (op != GD_SUM && op != GD_PROD)
      call.refuse(GD_UNSUPPORTED, "dtype %s has sums and products alone", dtype_name(in.dtype));
    return user(call, in.dtype).reduce(v, op);
  }
  if (truth) return reduce_truth(v, op == GD_ANY);
  visit_accumulator(in.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (is_complex_v<A>) {
      if (orders(op))
        call.refuse(GD_UNSUPPORTED, "complex numbers (%s) have no order", dtype_name(in.dtype));
    } else if (places) {
      return reduce_places<A>(v, takes_maximum(op));
    }
    reduce_numbers<A>(v, op);
  });
}

void scan(Call& call) {
  const int32_t op = call.op();
  if (op < GD_SUM || op > GD_MIN) call.refuse(GD_INVALID, "no scan has code %d", op);
  call.named(kNames[op]);
  call.expect(1, 1, 0, 2);
  const Layout in = call.in(0), out = call.out(0);
  call.expect_sizes("input", in, out.sizes);
  call.expect_dtype("input", in, out.dtype);
  if (orders(op) && (is_complex(in.dtype) || is_user(in.dtype)))
    call.refuse(GD_UNSUPPORTED, "numbers of dtype %s have no order", dtype_name(in.dtype));
  if (in.rank() == 0) return copy(call);
  const int axis = call.axis(0, in);
  const bool from_end = call.integer(1) != 0;
  if (is_user(in.dtype)) return user(call, in.dtype).scan(op, in, out, axis, from_end);
  visit_accumulator(in.dtype,
                    [&](auto zero) { scan_lines<decltype(zero)>(op, in, out, axis, from_end); });
}

// softmax_i = exp(x_i - m) / s,  log_softmax_i = (x_i - m) - log(s),
// with m = max x and s = sum exp(x_i - m). A line of -inf alone gives NaN, as 0 / 0 should.
void softmax(Call& call) {
  call.expect(1, 1, 0, 2);
  const Layout in = call.in(0), out = call.out(0);
  call.expect_sizes("input", in, out.sizes);
  call.expect_dtype("input", in, out.dtype);
  if (!is_real_float(in.dtype))
    call.refuse(GD_UNSUPPORTED, "dtype %s is not read; f32 f64 f16 bf16 are", dtype_name(in.dtype));
  // A 0-d view is a line of one element.
  Layout from_lines = in, to_lines = out;
  if (in.rank() > 0) {
    const int axis = call.axis(0, in);
    from_lines = in.with_axis_last(axis);
    to_lines = out.with_axis_last(axis);
  }
  const bool logarithm = call.integer(1) != 0;
  const int64_t length = in.rank() > 0 ? from_lines.sizes.back() : 1;
  Walk from(from_lines), to(to_lines);
  const auto x = make_line<double>(length);
  for (int64_t done = 0; done < in.count(); done += length) {
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
