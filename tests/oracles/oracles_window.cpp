// Oracles and bad inputs of the window ops: loops over indices, in which a convolution visits every
// pair of positions and asks whether they meet.
#include "tests/oracles/oracles.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::testing {

namespace {

using R = long double;
using rows::Ints;

// ---- windows

Host window(const Call& c, const char* axis, bool all) {
  const Host& x = c.in[0];
  const size_t d = c.axis(c.integer(axis), x.sizes.size());
  const int64_t size = c.integer("size"), step = c.integer("step"),
                dilation = all ? c.integer("dilation") : 1;
  Shape sizes = x.sizes;
  int64_t windows = 0;
  while (windows * step + (size - 1) * dilation < x.sizes[d]) ++windows;
  sizes[d] = windows;
  sizes.push_back(size);
  return build(sizes, [&](Shape i) {
    const int64_t j = i.back();
    i.pop_back();
    i[d] = i[d] * step + j * dilation;
    return x.at(i);
  });
}

Host fold(const Call& c) {
  const Host& x = c.in[0];
  const size_t d = c.axis(c.integer("dim"), x.sizes.size());
  Shape sizes = x.sizes;
  sizes.pop_back();
  sizes[d] = c.integer("n");
  Host y = build(sizes, [](const Shape&) { return Wide(0); });
  for_each_index(x.sizes, [&](const Shape& i) {
    Shape to(i.begin(), i.end() - 1);
    to[d] = i[d] * c.integer("step") + i.back() * c.integer("dilation");
    y.values[size_t(y.offset(to))] += x.at(i);
  });
  return y;
}

// ---- convolutions

int64_t each(const Ints& v, size_t a) { return v[v.size() == 1 ? 0 : a]; }

// Calls body(x index, y index, w index) for every product of a convolution: x (n, groups * in, ..),
// y (n, groups * out, ..), w (groups * out, in, ..).
struct Products {
  Shape x, y, w;
  Ints stride, padding, dilation;
  int64_t groups;
  void visit(const std::function<void(const Shape&, const Shape&, const Shape&)>& body) const {
    for_each_index(y, [&](const Shape& iy) {
      for_each_index(w, [&](const Shape& iw) {
        if (iw[0] != iy[1]) return;
        Shape ix{iy[0], iw[1] + iw[0] / (w[0] / groups) * w[1]};
        for (size_t a = 0; a + 2 < x.size(); ++a) {
          ix.push_back(iy[2 + a] * each(stride, a) + iw[2 + a] * each(dilation, a) -
                       each(padding, a));
          if (ix.back() < 0 || ix.back() >= x[2 + a]) return;
        }
        body(ix, iy, iw);
      });
    });
  }
};
void accumulate(Host& to, const Shape& at, Wide value) {
  to.values[size_t(to.offset(at))] += value;
}
Host zeros(const Shape& sizes) {
  return build(sizes, [](const Shape&) { return Wide(0); });
}
Host batched(const Host& x, size_t rank) {
  Host y = x;
  if (x.sizes.size() < rank) y.sizes.insert(0, 1);
  return y;
}
Host finish(Host y, const Call& c) {
  if (c.in.size() > 2)
    for_each_index(y.sizes, [&](const Shape& i) { accumulate(y, i, c.in[2].at({i[1]})); });
  if (c.in[0].sizes.size() < y.sizes.size()) y.sizes.erase(0);
  return y;
}

Host convolve(const Call& c, const Ints& padding) {
  const Host &w = c.in[1], x = batched(c.in[0], w.sizes.size());
  const Ints &stride = c.ints("stride"), &dilation = c.ints("dilation");
  Shape sizes{x.sizes[0], w.sizes[0]};
  for (size_t a = 0; a + 2 < w.sizes.size(); ++a) {
    int64_t places = 0;
    while (places * each(stride, a) + (w.sizes[2 + a] - 1) * each(dilation, a) <
           x.sizes[2 + a] + 2 * each(padding, a))
      ++places;
    sizes.push_back(places);
  }
  Host y = zeros(sizes);
  const Products products{x.sizes, sizes, w.sizes, stride, padding, dilation, c.integer("groups")};
  products.visit([&](const Shape& ix, const Shape& iy, const Shape& iw) {
    accumulate(y, iy, x.at(ix) * w.at(iw));
  });
  return finish(y, c);
}

Host transposed(const Call& c, const Ints& padding, const Ints* size, const Ints* more) {
  const Host &w = c.in[1], y = batched(c.in[0], w.sizes.size());
  const Ints &stride = c.ints("stride"), &dilation = c.ints("dilation");
  Shape sizes{y.sizes[0], w.sizes[1] * c.integer("groups")};
  for (size_t a = 0; a + 2 < w.sizes.size(); ++a)
    sizes.push_back(size ? each(*size, a)
                         : (y.sizes[2 + a] - 1) * each(stride, a) - 2 * each(padding, a) +
                               each(dilation, a) * (w.sizes[2 + a] - 1) + each(*more, a) + 1);
  Host x = zeros(sizes);
  const Products products{sizes, y.sizes, w.sizes, stride, padding, dilation, c.integer("groups")};
  products.visit([&](const Shape& ix, const Shape& iy, const Shape& iw) {
    accumulate(x, ix, y.at(iy) * w.at(iw));
  });
  return finish(x, c);
}

Host conv_weight(const Call& c) {
  const Host &x = c.in[0], &y = c.in[1];
  Shape sizes{y.sizes[1], x.sizes[1] / c.integer("groups")};
  for (size_t a = 0; a + 2 < x.sizes.size(); ++a) sizes.push_back(each(c.ints("size"), a));
  Host w = zeros(sizes);
  const Products products{
      x.sizes, y.sizes, sizes, c.ints("stride"), Ints{0}, c.ints("dilation"), c.integer("groups")};
  products.visit([&](const Shape& ix, const Shape& iy, const Shape& iw) {
    accumulate(w, iw, x.at(ix) * y.at(iy));
  });
  return w;
}

// ---- pools: per output, the range of each axis in x

struct Range {
  int64_t begin, end, step, counted;  // elements begin, begin + step .. < end; those that count
};
// of(axis, window) of x with `lead` axes before the spatial ones.
Host pool(const Host& x, const Shape& counts, const std::function<Range(size_t, int64_t)>& of,
          bool largest) {
  const size_t lead = x.sizes.size() - counts.size();
  Shape sizes(x.sizes.begin(), x.sizes.begin() + lead);
  for (int64_t n : counts) sizes.push_back(n);
  return build(sizes, [&](const Shape& i) {
    std::vector<Range> ranges;
    R divisor = 1;
    for (size_t a = 0; a < counts.size(); ++a) {
      ranges.push_back(of(a, i[lead + a]));
      divisor *= R(ranges.back().counted);
    }
    Wide sum = 0;
    R most = -HUGE_VALL;
    for_each_index(x.sizes, [&](const Shape& j) {
      for (size_t a = 0; a < lead; ++a)
        if (j[a] != i[a]) return;
      for (size_t a = 0; a < counts.size(); ++a) {
        const int64_t p = j[lead + a];
        const Range& r = ranges[a];
        if (p < r.begin || p >= r.end || (p - r.begin) % r.step != 0) return;
      }
      sum += x.at(j);
      most = std::max(most, x.at(j).real());
    });
    return largest ? Wide(most) : sum / divisor;
  });
}

Oracle sliding(size_t axes, bool largest) {
  return [=](const Call& c) {
    const Host& x = c.in[0];
    const Ints &size = c.ints("kernel_size"), &padding = c.ints("padding");
    const Ints& stride = c.attr("stride").is_none() ? size : c.ints("stride");
    const Ints dilation = largest ? c.ints("dilation") : Ints{1};
    const bool ceil = c.integer("ceil_mode") != 0;
    const bool pads_count = !largest && c.integer("count_include_pad") != 0;
    const size_t lead = x.sizes.size() - axes;
    Shape counts;
    for (size_t a = 0; a < axes; ++a) {
      const int64_t n = x.sizes[lead + a], p = each(padding, a);
      const R room = R(n + 2 * p - each(dilation, a) * (each(size, a) - 1) - 1) / each(stride, a);
      int64_t count = int64_t(ceil ? std::ceil(room) : std::floor(room)) + 1;
      if (ceil && (count - 1) * each(stride, a) >= n + p) --count;
      counts.push_back(count);
    }
    return pool(
        x, counts,
        [&](size_t a, int64_t o) {
          const int64_t n = x.sizes[lead + a], p = each(padding, a), d = each(dilation, a);
          const int64_t begin = o * each(stride, a) - p, end = begin + each(size, a) * d;
          const int64_t edge = pads_count ? p : 0;
          int64_t counted = 0;
          for (int64_t i = begin; i < end; i += d) counted += i >= -edge && i < n + edge;
          return Range{begin, end, d, counted};
        },
        largest);
  };
}

Oracle adaptive(size_t axes, bool largest) {
  return [=](const Call& c) {
    const Host& x = c.in[0];
    const size_t lead = x.sizes.size() - axes;
    Shape counts;
    for (size_t a = 0; a < axes; ++a) counts.push_back(each(c.ints("output_size"), a));
    return pool(
        x, counts,
        [&](size_t a, int64_t o) {
          const R share = R(x.sizes[lead + a]) / R(counts[a]);
          // rounded outwards; the slack is for shares that are no binary fractions
          const int64_t begin = int64_t(std::floor(R(o) * share + 1e-9L)),
                        end = int64_t(std::ceil(R(o + 1) * share - 1e-9L));
          return Range{begin, end, 1, end - begin};
        },
        largest);
  };
}

}  // namespace

void add_window_oracles(std::map<std::string, Oracle>& to) {
  to["window"] = [](const Call& c) { return window(c, "dim", true); };
  to["unfold"] = [](const Call& c) { return window(c, "dimension", false); };
  to["fold"] = fold;
  to["conv"] = [](const Call& c) { return convolve(c, {0}); };
  to["conv_input"] = [](const Call& c) { return transposed(c, {0}, &c.ints("size"), nullptr); };
  to["conv_weight"] = conv_weight;
  for (size_t axes = 1; axes <= 3; ++axes) {
    const std::string d = std::to_string(axes) + "d";
    to["conv" + d] = [](const Call& c) { return convolve(c, c.ints("padding")); };
    to["conv_transpose" + d] = [](const Call& c) {
      return transposed(c, c.ints("padding"), nullptr, &c.ints("output_padding"));
    };
    to["max_pool" + d] = sliding(axes, true);
    to["avg_pool" + d] = sliding(axes, false);
    to["adaptive_avg_pool" + d] = adaptive(axes, false);
    to["adaptive_max_pool" + d] = adaptive(axes, true);
  }
}

void add_window_bad_inputs(std::vector<BadInput>& to) {
  constexpr DType f32 = DType::f32, c64 = DType::c64, i64 = DType::i64, b = DType::bool_;
  using K = ErrorKind;
  const std::vector<BadInput> bad{
      {"window",
       {{f32, {3, 4}}},
       {{"dim", 1}, {"size", 3}, {"dilation", 2}},
       K::shape,
       "window: axis 1 of (3, 4) is shorter than a window (3 elements, dilation 2)"},
      {"window", {{f32, {4}}}, {{"dim", 0}, {"size", 0}}, K::value, "window: size is 0"},
      {"window",
       {{f32, {4}}},
       {{"dim", 0}, {"size", 2}, {"step", 0}},
       K::value,
       "window: step is 0, expected 1 or more"},
      {"fold",
       {{f32, {5, 3}}},
       {{"dim", 0}, {"n", 8}},
       K::shape,
       "fold: axis 0 of (5, 3) has 5 windows, but 8 elements have 6"},
      {"fold", {{f32, {5, 3}}}, {{"dim", 1}, {"n", 7}}, K::index, "fold: axis 1 holds"},
      {"conv2d",
       {{f32, {2, 3, 8, 8}}, {f32, {4, 2, 3, 3}}},
       {},
       K::shape,
       "conv2d: the input has 3 channels, but weight (4, 2, 3, 3) takes 2"},
      {"conv2d",
       {{f32, {2, 4, 8, 8}}, {f32, {3, 2, 3, 3}}},
       {{"groups", 2}},
       K::shape,
       "conv2d: 3 output channels do not divide into 2 groups"},
      {"conv2d",
       {{f32, {2, 3, 2, 8}}, {f32, {4, 3, 5, 5}}},
       {{"padding", 1}},
       K::shape,
       "conv2d: on spatial axis 0 the padded input has 4 elements, less than a kernel of 5"},
      {"conv2d",
       {{f32, {8, 8}}, {f32, {4, 3, 5, 5}}},
       {},
       K::shape,
       "conv2d: the input has shape (8, 8), expected 4 axes"},
      {"conv2d",
       {{f32, {2, 3, 8, 8}}, {f32, {4, 3, 3, 3}}},
       {{"stride", Ints{1, 1, 1}}},
       K::value,
       "conv2d: stride is [1, 1, 1], expected 1 or 2 numbers"},
      {"conv2d",
       {{f32, {2, 3, 8, 8}}, {f32, {4, 3, 3, 3}}, {f32, {3}}},
       {},
       K::shape,
       "conv2d: the bias has shape (3,), the output 4 channels"},
      {"conv1d",
       {{b, {2, 3, 8}}, {b, {4, 3, 3}}},
       {},
       K::dtype,
       "conv1d: is not defined for bool; it takes integers, real numbers and complex numbers; cast "
       "to i64 first"},
      {"conv_transpose1d",
       {{f32, {2, 3, 8}}, {f32, {3, 4, 3}}},
       {{"output_padding", 1}},
       K::value,
       "conv_transpose1d: output_padding is [1], expected less than stride or dilation"},
      {"conv_transpose1d",
       {{f32, {2, 3, 1}}, {f32, {3, 4, 2}}},
       {{"padding", 1}},
       K::shape,
       "conv_transpose1d: on spatial axis 0 the output would have 0 elements"},
      {"conv_input",
       {{f32, {2, 4, 7}}, {f32, {4, 3, 3}}},
       {{"size", 10}},
       K::shape,
       "conv_input: on spatial axis 0 a kernel of 3 has 8 places in 10 elements, the output has 7"},
      {"conv_weight",
       {{f32, {2, 3, 9}}, {f32, {3, 4, 7}}},
       {{"size", 3}},
       K::shape,
       "conv_weight: batch sizes differ: the input is (2, 3, 9), the output (3, 4, 7)"},
      {"max_pool2d",
       {{f32, {1, 1, 4, 4}}},
       {{"kernel_size", 2}, {"padding", 2}},
       K::value,
       "max_pool2d: padding is 2, more than half of a window of 2"},
      {"max_pool2d", {{c64, {1, 4, 4}}}, {{"kernel_size", 2}}, K::dtype, "have no order"},
      {"max_pool1d",
       {{f32, {1, 1, 4}}},
       {{"kernel_size", 5}},
       K::shape,
       "max_pool1d: a window of 5 does not fit into 4 elements with padding 0"},
      {"max_pool1d",
       {{f32, {1, 1, 1}}},
       {{"kernel_size", 2}, {"stride", 1}, {"padding", 2}, {"dilation", 3}},
       K::value,
       "max_pool1d: window 0 of axis 2 sees padding alone"},
      {"avg_pool1d",
       {{i64, {1, 1, 4}}},
       {{"kernel_size", 2}},
       K::dtype,
       "avg_pool1d: is not defined for i64; it takes real numbers and complex numbers; cast to f32 "
       "first"},
      {"adaptive_avg_pool1d",
       {{f32, {1, 1, 4}}},
       {{"output_size", 0}},
       K::value,
       "adaptive_avg_pool1d: output_size is [0], expected 1 or more"},
  };
  to.insert(to.end(), bad.begin(), bad.end());
}

}  // namespace gradus::testing
