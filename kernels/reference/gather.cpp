// gather and scatter_add: an index chooses along one axis; everything else is walked line by line
// along that axis.
#include "kernels/reference/order.hpp"
#include "kernels/reference/places.hpp"
#include "kernels/reference/slots.hpp"
#include "kernels/reference/user.hpp"

namespace gradus::inline v1::reference {
namespace {

// The longer operand has other's sizes, except along axis.
void expect_beside(const Call& call, const char* whose, const Layout& v, const Layout& other,
                   int axis) {
  Layout wanted = other;
  if (v.rank() == other.rank()) wanted.sizes[size_t(axis)] = v.sizes[size_t(axis)];
  call.expect_sizes(whose, v, wanted);
}

}  // namespace

void gather(Call& call) {
  call.expect(2, 1, 0, 1);
  const Layout in = call.in(0), index = call.in(1), out = call.out(0);
  expect_index(call, index);
  call.expect_sizes("index", index, out);
  const int axis = call.axis(0, out);
  expect_beside(call, "input", in, out, axis);
  call.expect_dtype("output", out, in.dtype);

  const int64_t size = in.sizes[size_t(axis)];
  IndexLines places(call, index, axis, size);
  if (is_user(in.dtype)) return user(call, in.dtype).gather(in, out, places, axis);
  visit_dtype(int32_t(in.dtype), [&](auto t) { gather_lines<decltype(t)>(in, out, places, axis); });
}

void scatter_add(Call& call) {
  call.expect(2, 1, 0, 1);
  const Layout index = call.in(0), source = call.in(1), out = call.out(0);
  expect_index(call, index);
  call.expect_sizes("source", source, index);
  const int axis = call.axis(0, source);
  expect_beside(call, "output", out, source, axis);
  call.expect_dtype("source", source, out.dtype);

  const int64_t size = out.sizes[size_t(axis)];
  IndexLines places(call, index, axis, size);
  if (is_user(out.dtype)) return user(call, out.dtype).scatter_add(source, out, places, axis);
  visit_accumulator(out.dtype,
                    [&](auto zero) { scatter_lines<decltype(zero)>(source, out, places, axis); });
}

}  // namespace gradus::reference
