// Picking and adding by index: what gather.cpp instantiates for the built-in types, and
// user_scalar.hpp for a user's type.
#pragma once
#include "kernels/reference/walk.hpp"

namespace gradus::inline v1::reference {

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

template <class T>
void gather_lines(const Layout& in, const Layout& out, IndexLines& places, int axis) {
  const int64_t size = in.sizes[size_t(axis)];
  Walk from(in.with_axis_last(axis)), to(out.with_axis_last(axis));
  const auto x = make_line<T>(size), y = make_line<T>(places.length());
  for (int64_t done = 0; done < out.count(); done += places.length()) {
    const int64_t* at = places.next();
    from.read(x.get(), size);
    for (int64_t k = 0; k < places.length(); ++k) y[k] = x[at[k]];
    to.write(y.get(), places.length());
  }
}

// All that one element of out receives stands on one line of the source, so walking line by line
// adds in row-major order of the source, and each element is rounded once.
template <class A>
void scatter_lines(const Layout& source, const Layout& out, IndexLines& places, int axis) {
  const int64_t size = out.sizes[size_t(axis)];
  Walk from(source.with_axis_last(axis)), before(out.with_axis_last(axis)),
      after(out.with_axis_last(axis));
  const auto x = make_line<A>(places.length()), sum = make_line<A>(size);
  for (int64_t done = 0; done < source.count(); done += places.length()) {
    const int64_t* at = places.next();
    from.read(x.get(), places.length());
    before.read(sum.get(), size);
    for (int64_t k = 0; k < places.length(); ++k) sum[at[k]] = sum[at[k]] + x[k];
    after.write(sum.get(), size);
  }
}

}  // namespace gradus::reference
