// gather and scatter_add: an index chooses along one axis; everything else is walked line by line
// along that axis.
#include "kernels/reference/order.hpp"
#include "kernels/reference/slots.hpp"
#include "kernels/reference/walk.hpp"

namespace gradus::reference {
namespace {

// The lines of an index view, checked against the size of the axis they choose from.
class IndexLines {
 public:
  IndexLines(const Call& call, const Layout& index, int axis, int64_t size)
      : length_(index.sizes[size_t(axis)]),
        walk_(index.with_axis_last(axis)),
        line_(make_line<int64_t>(length_)) {
    // A first pass over all of it, so that a refused call has written nothing.
    Walk all(index);
    for (int64_t i = 0, n = index.count(); i < n; ++i) {
      int64_t at;
      all.read(&at, 1);
      if (at < 0 || at >= size)
        call.refuse(GD_INVALID, "index %lld is outside [0, %lld) of axis %d",
                    static_cast<long long>(at), static_cast<long long>(size), axis);
    }
  }
  int64_t length() const { return length_; }
  const int64_t* next() {
    walk_.read(line_.get(), length_);
    return line_.get();
  }

 private:
  int64_t length_;
  Walk walk_;
  std::unique_ptr<int64_t[]> line_;
};

void expect_index(const Call& call, const Layout& index) {
  if (index.dtype != DType::i64 && index.dtype != DType::i32)
    call.refuse(GD_INVALID, "an index is i64 or i32, got %s", dtype_name(index.dtype));
  if (index.rank() == 0) call.refuse(GD_INVALID, "an index needs an axis, got a 0-d view");
}

// The longer operand has other's sizes, except along axis.
void expect_beside(const Call& call, const char* whose, const Layout& v, const Layout& other,
                   int axis) {
  Sizes wanted = other.sizes;
  if (v.rank() == other.rank()) wanted[size_t(axis)] = v.sizes[size_t(axis)];
  call.expect_sizes(whose, v, wanted);
}

}  // namespace

void gather(Call& call) {
  call.expect(2, 1, 0, 1);
  const Layout in = call.in(0), index = call.in(1), out = call.out(0);
  expect_index(call, index);
  call.expect_sizes("index", index, out.sizes);
  const int axis = call.axis(0, out);
  expect_beside(call, "input", in, out, axis);
  call.expect_dtype("output", out, in.dtype);

  const int64_t size = in.sizes[size_t(axis)];
  IndexLines places(call, index, axis, size);
  visit_dtype(int32_t(in.dtype), [&](auto t) {
    using T = decltype(t);
    Walk from(in.with_axis_last(axis)), to(out.with_axis_last(axis));
    const auto x = make_line<T>(size), y = make_line<T>(places.length());
    for (int64_t done = 0; done < out.count(); done += places.length()) {
      const int64_t* at = places.next();
      from.read(x.get(), size);
      for (int64_t k = 0; k < places.length(); ++k) y[k] = x[at[k]];
      to.write(y.get(), places.length());
    }
  });
}

// All that one element of out receives stands on one line of the source, so walking line by line
// adds in row-major order of the source, and each element is rounded once.
void scatter_add(Call& call) {
  call.expect(2, 1, 0, 1);
  const Layout index = call.in(0), source = call.in(1), out = call.out(0);
  expect_index(call, index);
  call.expect_sizes("source", source, index.sizes);
  const int axis = call.axis(0, source);
  expect_beside(call, "output", out, source, axis);
  call.expect_dtype("source", source, out.dtype);

  const int64_t size = out.sizes[size_t(axis)];
  IndexLines places(call, index, axis, size);
  visit_accumulator(out.dtype, [&](auto zero) {
    using A = decltype(zero);
    Walk from(source.with_axis_last(axis)), before(out.with_axis_last(axis)),
        after(out.with_axis_last(axis));
    const auto x = make_line<A>(places.length()), sum = make_line<A>(size);
    for (int64_t done = 0; done < source.count(); done += places.length()) {
      const int64_t* at = places.next();
      from.read(x.get(), places.length());
      before.read(sum.get(), size);
      for (int64_t k = 0; k < places.length(); ++k) sum[at[k]] += x[k];
      after.write(sum.get(), size);
    }
  });
}

}  // namespace gradus::reference
