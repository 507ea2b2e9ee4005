// The slot scan: sequential along its axis, in f64, c128 or i64, each result rounded once. Other
// axes go in parallel, and side by side where memory runs along them.
#include "kernels/cpu/isa/fold.hpp"
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/lines.hpp"

namespace gradus::inline v1::cpu {
namespace {

constexpr const char* kSlot = "scan";
constexpr int64_t kStrip = 128;
enum { kIn, kOut };

struct Lines {
  Walk others;     // all axes but one
  int64_t length;  // of that one
  int64_t step[2];
  int32_t dtype, work;
};

template <class J>
class Scan {
  using T = typename J::Element;

 public:
  Scan(gd_device* d, const Lines& l) : d_(d), l_(l) {}

  gd_status run() {
    const Walk& w = l_.others;
    const int last = w.rank - 1;
    const bool side_by_side = last >= 0 && w.stride[kIn][last] == w.item[kIn] && w.size[last] >= 8;
    const int64_t most = side_by_side ? kStrip : 1;
    const int64_t grain = (kGrain / l_.length / most + 1) * most;
    parallel_range(d_, w.count(), grain, [&](int64_t begin, int64_t end) {
      for_all_rows(w, begin, end - begin, [&](char* const* p, int64_t run) {
        const int64_t si = last < 0 ? 0 : w.stride[kIn][last],
                      so = last < 0 ? 0 : w.stride[kOut][last];
        for (int64_t j = 0; j < run; j += most) {
          const int64_t n = shorter(run - j, most);
          if (n == 1)
            line(p[kIn] + j * si, p[kOut] + j * so);
          else
            strip(p[kIn] + j * si, si, p[kOut] + j * so, so, n);
        }
      });
    });
    return GD_OK;
  }

 private:
  void line(const char* in, char* out) {
    Reader<T, kBlock> reader(d_, l_.dtype, l_.work);
    Writer<T, kBlock> writer(d_, l_.work, l_.dtype);
    T total = *reader.read(in, 1, l_.others.item[kIn]), results[kBlock];
    for (int64_t k = 0; k < l_.length; k += kBlock) {
      const int64_t n = shorter(l_.length - k, kBlock);
      const T* x = reader.read(in + k * l_.step[kIn], n, l_.step[kIn]);
      for (int64_t q = 0; q < n; ++q) {
        if (k + q > 0) total = J::join(total, x[q]);
        results[q] = total;
      }
      writer.write(results, out + k * l_.step[kOut], n, l_.step[kOut]);
    }
  }

  void strip(const char* in, int64_t si, char* out, int64_t so, int64_t n) {
    Reader<T, kStrip> reader(d_, l_.dtype, l_.work);
    Writer<T, kStrip> writer(d_, l_.work, l_.dtype);
    T total[kStrip];
    for (int64_t k = 0; k < l_.length; ++k) {
      const T* x = reader.read(in + k * l_.step[kIn], n, si);
      for (int64_t j = 0; j < n; ++j) total[j] = k == 0 ? x[j] : J::join(total[j], x[j]);
      writer.write(total, out + k * l_.step[kOut], n, so);
    }
  }

  gd_device* d_;
  const Lines& l_;
};

template <template <class> class J>
gd_status scan_as(gd_device* d, const Lines& l) {
  switch (l.work) {
    case GD_F64:
      return Scan<J<double>>(d, l).run();
    case GD_C128:
      return Scan<J<c128>>(d, l).run();
    default:
      return Scan<J<int64_t>>(d, l).run();
  }
}
template <template <class> class J>
gd_status scan_ordered(gd_device* d, const Lines& l) {
  return l.work == GD_F64 ? Scan<J<double>>(d, l).run() : Scan<J<int64_t>>(d, l).run();
}

}  // namespace

gd_status slot_scan(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  if (gd_status s = check_call(e, kSlot, c, {1, 1, 1, 1, 0, 2})) return s;
  const gd_view &in = c->in[0], &out = c->out[0];
  const DType t = dtype_of_view(in);
  if (c->op < GD_SUM || c->op > GD_MIN)
    return refuse(e, GD_INVALID, kSlot, "no scan has code %d", c->op);
  if (!same_sizes(in, out) || in.dtype != out.dtype)
    return refuse(e, GD_INVALID, kSlot, "input and output should have equal sizes and dtypes");
  if (is_complex(t) && c->op >= GD_MAX)
    return refuse(e, GD_UNSUPPORTED, kSlot, "complex numbers (%s) have no order", dtype_name(t));
  if (in.rank > 0)
    if (gd_status s = check_axis(e, kSlot, c->ints[0], in)) return s;
  Lines l;
  add_view(l.others, in);
  add_view(l.others, out);
  if (l.others.count() == 0) return GD_OK;
  l.length = 1;
  l.dtype = in.dtype;
  l.work = is_complex(t) ? GD_C128 : is_integer(t) ? GD_I64 : GD_F64;
  l.step[kIn] = l.step[kOut] = l.others.item[kIn];
  if (in.rank > 0) {
    const int axis = int(c->ints[0]);
    l.length = in.sizes[axis];
    for (int v : {kIn, kOut}) {
      l.step[v] = l.others.stride[v][axis];
      if (c->ints[1] == 0) continue;
      l.others.base[v] += (l.length - 1) * l.step[v];
      l.step[v] = -l.step[v];
    }
    l.others.size[axis] = 1;
  }
  sort_axes(l.others, kIn);
  switch (c->op) {
    case GD_SUM:
      return scan_as<Sum>(d, l);
    case GD_PROD:
      return scan_as<Product>(d, l);
    case GD_MAX:
      return scan_ordered<Maximum>(d, l);
    default:
      return scan_ordered<Minimum>(d, l);
  }
}

}  // namespace gradus::cpu
