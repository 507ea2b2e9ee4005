// Pooling, axis by axis: a maximum is argmax over windows, then a gather, so its gradient goes to
// one element; an average is a sum over windows, or for adaptive pooling a product with a small
// matrix.
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/conv/spatial.hpp"
#include "ops/conv/windows.hpp"
#include "ops/index/indexing.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/shape/views.hpp"
#include "ops/contract/contraction.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1 {

namespace {

// The windows of one axis: where each starts (before 0 in the padding) and their number.
struct Windows {
  int64_t n, size, stride, padding, dilation, count;
  int64_t start(int64_t o) const { return o * stride - padding; }
  // What the windows need beyond the n elements.
  int64_t before() const { return padding; }
  int64_t after() const {
    return std::max<int64_t>(0, start(count - 1) + (size - 1) * dilation + 1 - n);
  }
};

// As PyTorch counts them. ceil_mode lets the last window reach over the end, but not start there.
Windows windows_of(const char* op, int64_t n, int64_t size, int64_t stride, int64_t padding,
                   int64_t dilation, bool ceil_mode) {
  const int64_t span = (size - 1) * dilation + 1;
  if (2 * padding > span)
    fail(ErrorKind::value, op, "padding is ", padding, ", more than half of a window of ", span);
  Windows w{n, size, stride, padding, dilation, 0};
  const int64_t room = n + 2 * padding - span;
  if (n >= 1 && room + (ceil_mode ? stride - 1 : 0) >= 0)
    w.count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && w.count > 0 && w.start(w.count - 1) >= n) --w.count;
  if (w.count < 1)
    fail(ErrorKind::shape, op, "a window of ", span, " does not fit into ", n,
         " elements with padding ", padding);
  return w;
}

// A list of one number per window, to stand along axis dim of x.
Tensor along(const Tensor& x, size_t dim, const std::vector<int64_t>& values) {
  Shape sizes(x.sizes().size(), 1);
  sizes[dim] = int64_t(values.size());
  return Tensor::constant(values, sizes, x.device());
}

// Widths of padding for axis dim alone.
Ints pad_axis(const Tensor& x, size_t dim, int64_t before, int64_t after) {
  Ints widths(2 * (x.sizes().size() - 1 - dim), 0);
  widths.push_back(before);
  widths.push_back(after);
  return widths;
}
Tensor padded(const Tensor& x, size_t dim, const Windows& w, double value) {
  if (w.before() == 0 && w.after() == 0) return x;
  return pad(x, pad_axis(x, dim, w.before(), w.after()), value);
}

double least_of(DType dtype) {
  switch (dtype) {
    case DType::i64:
      return -0x1p63;
    case DType::i32:
      return -0x1p31;
    case DType::u8:
    case DType::bool_:
      return 0;
    default:
      return -HUGE_VAL;
  }
}

// The largest element of each window. A window whose elements are all the least number would win
// in the padding before it, hence the bound by the window's first element inside x.
Tensor max_axis(const char* op, const Tensor& x, size_t dim, const Windows& w) {
  Tensor index;
  {
    NoGrad off;
    const Tensor wide = padded(x.detach(), dim, w, least_of(x.dtype()));
    index = argmax(window(wide, int64_t(dim), w.size, w.stride, w.dilation), -1);
    std::vector<int64_t> start, first;
    for (int64_t o = 0; o < w.count; ++o) {
      const int64_t s = w.start(o), skipped = s < 0 ? (-s + w.dilation - 1) / w.dilation : 0;
      start.push_back(s);
      first.push_back(s + skipped * w.dilation);
      if (first.back() >= w.n)
        fail(ErrorKind::value, op, "window ", o, " of axis ", int64_t(dim), " sees padding alone (",
             w.n, " elements, window ", w.size, ", dilation ", w.dilation, ", padding ", w.padding,
             ")");
    }
    if (w.dilation > 1) index = mul(index, w.dilation);
    index = add(index, along(x, dim, start));
    if (w.padding > 0) index = maximum(index, along(x, dim, first));
  }
  return gather(x, int64_t(dim), index);
}

// The mean of each window; the divisor counts elements inside x, or also those in the padding.
Tensor avg_axis(const Tensor& x, size_t dim, const Windows& w, bool count_include_pad) {
  const Tensor sums = sum(window(padded(x, dim, w, 0), int64_t(dim), w.size, w.stride), {-1});
  std::vector<double> share;
  for (int64_t o = 0; o < w.count; ++o) {
    const int64_t edge = count_include_pad ? w.padding : 0;
    const int64_t begin = std::max(w.start(o), -edge),
                  end = std::min(w.start(o) + w.size, w.n + edge);
    share.push_back(1 / double(end - begin));
  }
  Shape sizes(x.sizes().size(), 1);
  sizes[dim] = w.count;
  return mul(sums, cast(Tensor::constant(share, sizes, x.device()), x.dtype()));
}

// Window o of an adaptive pool over n elements, o of count: it begins and ends where its share of
// the axis does, rounded outwards.
int64_t adaptive_begin(int64_t o, int64_t n, int64_t count) { return o * n / count; }
int64_t adaptive_end(int64_t o, int64_t n, int64_t count) {
  return ((o + 1) * n + count - 1) / count;
}

Tensor adaptive_avg_axis(const Tensor& x, size_t dim, int64_t count) {
  const int64_t n = x.sizes()[dim];
  std::vector<double> share(size_t(count * n), 0.0);
  for (int64_t o = 0; o < count; ++o) {
    const int64_t begin = adaptive_begin(o, n, count), end = adaptive_end(o, n, count);
    for (int64_t i = begin; i < end; ++i) share[size_t(o * n + i)] = 1 / double(end - begin);
  }
  Ints labels, out;
  for (int64_t i = 0; i < x.rank(); ++i) {
    labels.push_back(i);
    out.push_back(i == int64_t(dim) ? x.rank() : i);
  }
  const Tensor matrix = cast(Tensor::constant(share, {count, n}, x.device()), x.dtype());
  return contract(x, labels, matrix, {x.rank(), int64_t(dim)}, out);
}

// Windows differ in length: the last element of a short one is looked at again, which never wins.
Tensor adaptive_max_axis(const Tensor& x, size_t dim, int64_t count) {
  const int64_t n = x.sizes()[dim];
  int64_t longest = 0;
  std::vector<int64_t> begin, at;
  for (int64_t o = 0; o < count; ++o) {
    begin.push_back(adaptive_begin(o, n, count));
    longest = std::max(longest, adaptive_end(o, n, count) - begin.back());
  }
  for (int64_t o = 0; o < count; ++o)
    for (int64_t k = 0; k < longest; ++k)
      at.push_back(std::min(begin[size_t(o)] + k, adaptive_end(o, n, count) - 1));
  Tensor index;
  {
    NoGrad off;
    Shape sizes = x.sizes();
    sizes[dim] = int64_t(at.size());
    const Tensor seen = gather(x.detach(), int64_t(dim), expand(along(x, dim, at), sizes));
    index = add(argmax(window(seen, int64_t(dim), longest, longest), -1), along(x, dim, begin));
  }
  return gather(x, int64_t(dim), index);
}

// ---- from what people write to the axes, the last one first: so the first of equal maxima in
// row-major order wins

void need_numbers(const char* op, const Tensor& x, bool averages) {
  if (averages && !is_floating(x.dtype())) refuse_dtype(op, x.dtype(), def::kReal | def::kComplex);
  if (!averages && is_complex(x.dtype())) refuse_unordered(op, x.dtype());
}

template <class F>
Tensor each_axis(const char* op, size_t axes, const Tensor& input, F&& pool) {
  Tensor x = with_batch(op, input, axes);
  const bool batched = x.rank() == input.rank();
  for (size_t a = axes; a-- > 0;) x = pool(x, a, a + 2);
  return batched ? x : squeeze(x, {0});
}

struct PoolAttrs {
  Ints size, stride, padding, dilation;
};
PoolAttrs pool_attrs(const char* op, size_t axes, const Ints& size, const Ints& stride,
                     const Ints& padding, const Ints& dilation) {
  return {per_axis(op, "kernel_size", size, axes, 1),
          per_axis(op, "stride", stride.empty() ? size : stride, axes, 1),
          per_axis(op, "padding", padding, axes, 0), per_axis(op, "dilation", dilation, axes, 1)};
}

Tensor max_pool(const char* op, size_t axes, const Tensor& x, const Ints& size, const Ints& stride,
                const Ints& padding, const Ints& dilation, bool ceil_mode) {
  need_numbers(op, x, false);
  const PoolAttrs p = pool_attrs(op, axes, size, stride, padding, dilation);
  return each_axis(op, axes, x, [&](const Tensor& t, size_t a, size_t dim) {
    return max_axis(op, t, dim,
                    windows_of(op, t.sizes()[dim], p.size[a], p.stride[a], p.padding[a],
                               p.dilation[a], ceil_mode));
  });
}

Tensor avg_pool(const char* op, size_t axes, const Tensor& x, const Ints& size, const Ints& stride,
                const Ints& padding, bool ceil_mode, bool count_include_pad) {
  need_numbers(op, x, true);
  const PoolAttrs p = pool_attrs(op, axes, size, stride, padding, {1});
  return each_axis(op, axes, x, [&](const Tensor& t, size_t a, size_t dim) {
    return avg_axis(
        t, dim, windows_of(op, t.sizes()[dim], p.size[a], p.stride[a], p.padding[a], 1, ceil_mode),
        count_include_pad);
  });
}

template <class F>
Tensor adaptive_pool(const char* op, size_t axes, const Tensor& x, const Ints& output_size,
                     F&& pool) {
  const Ints counts = per_axis(op, "output_size", output_size, axes, 1);
  return each_axis(op, axes, x, [&](const Tensor& t, size_t a, size_t dim) {
    if (t.sizes()[dim] == 0)
      fail(ErrorKind::shape, op, "spatial axis ", int64_t(a), " of ", x.sizes(), " is empty");
    return pool(t, dim, counts[a]);
  });
}
Tensor adaptive_avg_pool(const char* op, size_t axes, const Tensor& x, const Ints& size) {
  need_numbers(op, x, true);
  return adaptive_pool(op, axes, x, size, adaptive_avg_axis);
}
Tensor adaptive_max_pool(const char* op, size_t axes, const Tensor& x, const Ints& size) {
  need_numbers(op, x, false);
  return adaptive_pool(op, axes, x, size, adaptive_max_axis);
}

std::vector<AttrSpec> pool_specs() {
  return {ints_attr("kernel_size", "elements of a window"),
          {"stride", AttrValue::Type::integers, {}, "from window to window; kernel_size", true},
          ints_attr("padding", Ints{0}, "on either side")};
}
AttrSpec ceil_attr() {
  return bool_attr("ceil_mode", false, "a last window may reach over the end");
}

using MaxPool = Tensor (*)(const Tensor&, const Ints&, const Ints&, const Ints&, const Ints&, bool);
using AvgPool = Tensor (*)(const Tensor&, const Ints&, const Ints&, const Ints&, bool, bool);
using AdaptivePool = Tensor (*)(const Tensor&, const Ints&);

template <MaxPool f>
void register_max(const char* name) {
  std::vector<AttrSpec> attrs = pool_specs();
  attrs.push_back(ints_attr("dilation", Ints{1}, "from element to element of a window"));
  attrs.push_back(ceil_attr());
  add_composition(name, "pooling", "largest element of each window; the first one has the gradient",
                  "y[s] = max_k x[s * stride + k * dilation - padding]", {{"input"}}, attrs,
                  [](Operands in, const Attrs& a) {
                    return f(in[0], a[0].integers, a[1].integers, a[2].integers, a[3].integers,
                             a[4].integer != 0);
                  });
}
template <AvgPool f>
void register_avg(const char* name) {
  std::vector<AttrSpec> attrs = pool_specs();
  attrs.push_back(ceil_attr());
  attrs.push_back(bool_attr("count_include_pad", true, "zeros of the padding count as elements"));
  add_composition(name, "pooling", "mean of each window",
                  "y[s] = mean_k x[s * stride + k - padding]", {{"input"}}, attrs,
                  [](Operands in, const Attrs& a) {
                    return f(in[0], a[0].integers, a[1].integers, a[2].integers, a[3].integer != 0,
                             a[4].integer != 0);
                  });
}
template <AdaptivePool f>
void register_adaptive(const char* name, const char* doc, const char* formula) {
  add_composition(name, "pooling", doc, formula, {{"input"}},
                  {ints_attr("output_size", "windows per axis")},
                  [](Operands in, const Attrs& a) { return f(in[0], a[0].integers); });
}

}  // namespace

void register_pools() {
  register_max<max_pool1d>("max_pool1d");
  register_max<max_pool2d>("max_pool2d");
  register_max<max_pool3d>("max_pool3d");
  register_avg<avg_pool1d>("avg_pool1d");
  register_avg<avg_pool2d>("avg_pool2d");
  register_avg<avg_pool3d>("avg_pool3d");
  const char *mean = "mean of each of output_size windows that cover the axis",
             *most = "largest element of each of output_size windows that cover the axis",
             *mean_of = "y[s] = mean of x[s * n / m] .. x[ceil((s + 1) * n / m) - 1]",
             *max_of = "y[s] = max of x[s * n / m] .. x[ceil((s + 1) * n / m) - 1]";
  register_adaptive<adaptive_avg_pool1d>("adaptive_avg_pool1d", mean, mean_of);
  register_adaptive<adaptive_avg_pool2d>("adaptive_avg_pool2d", mean, mean_of);
  register_adaptive<adaptive_avg_pool3d>("adaptive_avg_pool3d", mean, mean_of);
  register_adaptive<adaptive_max_pool1d>("adaptive_max_pool1d", most, max_of);
  register_adaptive<adaptive_max_pool2d>("adaptive_max_pool2d", most, max_of);
  register_adaptive<adaptive_max_pool3d>("adaptive_max_pool3d", most, max_of);
}

#define GRADUS_POOLS(n)                                                                          \
  Tensor max_pool##n##d(const Tensor& x, const Ints& kernel_size, const Ints& stride,            \
                        const Ints& padding, const Ints& dilation, bool ceil_mode) {             \
    return max_pool("max_pool" #n "d", n, x, kernel_size, stride, padding, dilation, ceil_mode); \
  }                                                                                              \
  Tensor avg_pool##n##d(const Tensor& x, const Ints& kernel_size, const Ints& stride,            \
                        const Ints& padding, bool ceil_mode, bool count_include_pad) {           \
    return avg_pool("avg_pool" #n "d", n, x, kernel_size, stride, padding, ceil_mode,            \
                    count_include_pad);                                                          \
  }                                                                                              \
  Tensor adaptive_avg_pool##n##d(const Tensor& x, const Ints& output_size) {                     \
    return adaptive_avg_pool("adaptive_avg_pool" #n "d", n, x, output_size);                     \
  }                                                                                              \
  Tensor adaptive_max_pool##n##d(const Tensor& x, const Ints& output_size) {                     \
    return adaptive_max_pool("adaptive_max_pool" #n "d", n, x, output_size);                     \
  }
GRADUS_POOLS(1)
GRADUS_POOLS(2)
GRADUS_POOLS(3)
#undef GRADUS_POOLS

}  // namespace gradus
