// Views: other sizes and strides over the same memory. Each op says its geometry once; slice,
// select and diagonal share one derivative, the embedding of the cotangent into zeros through that
// geometry.
#include "engine/kernel_call.hpp"
#include "ops/base/geometry.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

Ints permuted(const Ints& from, const Ints& dims) {
  Ints out;
  for (int64_t d : dims) out.push_back(from[size_t(d)]);
  return out;
}
Ints inverse(const Ints& dims) {
  Ints out(dims.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) out[size_t(dims[i])] = int64_t(i);
  return out;
}

Geometry permute_geometry(const Geometry& x, const Attrs& a) {
  return {permuted(x.sizes, a[0].integers), permuted(x.strides, a[0].integers), x.offset};
}
// start:end:step of an axis with n elements, as Python counts: negative positions from the end, all
// cut to the axis. kEnd runs through to the end, or to the beginning where the step is negative.
struct Range {
  int64_t first = 0, length = 0, step = 1;
};
Range range_of(int64_t start, int64_t end, int64_t step, int64_t n) {
  auto place = [&](int64_t p, int64_t low, int64_t high) {
    return std::clamp(p >= 0 ? p : p >= -n ? p + n : int64_t(-1), low, high);
  };
  // A step longer than the axis takes one element, whatever its length.
  Range r{0, 0, std::clamp(step, -std::max<int64_t>(n, 1), std::max<int64_t>(n, 1))};
  if (r.step > 0) {
    r.first = place(start, 0, n);
    const int64_t last = place(end, 0, n);
    if (last > r.first) r.length = (last - r.first - 1) / r.step + 1;
  } else {
    r.first = place(start, -1, n - 1);
    const int64_t last = end == kEnd ? -1 : place(end, -1, n - 1);
    if (last < r.first) r.length = (r.first - last - 1) / -r.step + 1;
  }
  return r;
}
Geometry slice_geometry(const Geometry& x, const Attrs& a) {
  const size_t d = size_t(a[0].integer);
  const Range r = range_of(a[1].integer, a[2].integer, a[3].integer, x.sizes[d]);
  Geometry g = x;
  g.sizes[d] = r.length;
  g.strides[d] = x.strides[d] * r.step;
  if (r.length > 0) g.offset += r.first * x.strides[d];
  return g;
}
Geometry select_geometry(const Geometry& x, const Attrs& a) {
  const size_t d = size_t(a[0].integer);
  Geometry g = x;
  g.offset += a[1].integer * x.strides[d];
  g.sizes.erase(d);
  g.strides.erase(d);
  return g;
}
Geometry flip_geometry(const Geometry& x, const Attrs& a) {
  Geometry g = x;
  for (int64_t d : a[0].integers) {
    const size_t i = size_t(d);
    if (x.sizes[i] > 0) g.offset += (x.sizes[i] - 1) * x.strides[i];
    g.strides[i] = -x.strides[i];
  }
  return g;
}
Geometry diagonal_geometry(const Geometry& x, const Attrs& a) {
  const int64_t k = a[0].integer;
  const size_t d1 = size_t(a[1].integer), d2 = size_t(a[2].integer);
  const int64_t rows = x.sizes[d1], columns = x.sizes[d2];
  const int64_t n =
      std::max<int64_t>(0, k >= 0 ? std::min(rows, columns - k) : std::min(rows + k, columns));
  Geometry g = x;
  if (n > 0) g.offset += k >= 0 ? k * x.strides[d2] : -k * x.strides[d1];
  const int64_t stride = x.strides[d1] + x.strides[d2];
  for (size_t d : {std::max(d1, d2), std::min(d1, d2)}) {
    g.sizes.erase(d);
    g.strides.erase(d);
  }
  g.sizes.push_back(n);
  g.strides.push_back(stride);
  return g;
}
Geometry expand_geometry(const Geometry& x, const Attrs& a) {
  const Ints& sizes = a[0].integers;
  Geometry g{sizes, Shape(sizes.size(), 0), x.offset};
  const size_t lead = sizes.size() - x.sizes.size();
  for (size_t i = 0; i < x.sizes.size(); ++i)
    g.strides[lead + i] = x.sizes[i] == 1 && sizes[lead + i] != 1 ? 0 : x.strides[i];
  return g;
}

// Strides that give x the new sizes without a copy; nothing if there are none. Walks groups of axes
// of x that lie densely in each other, and splits each into new axes.
std::optional<Shape> reshaped_strides(const Geometry& x, const Shape& sizes) {
  if (numel_of(sizes) == 0) return contiguous_strides(sizes);
  Shape strides(sizes.size(), 1);
  int64_t next = int64_t(sizes.size()) - 1, group = 1, taken = 1;
  int64_t inner = x.sizes.empty() ? 1 : x.strides.back();
  for (int64_t i = int64_t(x.sizes.size()) - 1; i >= 0; --i) {
    const size_t u = size_t(i);
    group *= x.sizes[u];
    const bool closes = i == 0 || (x.sizes[u - 1] != 1 && x.strides[u - 1] != group * inner);
    if (!closes) continue;
    while (next >= 0 && (taken < group || sizes[size_t(next)] == 1)) {
      strides[size_t(next)] = taken * inner;
      taken *= sizes[size_t(next)];
      --next;
    }
    if (taken != group) return {};
    if (i > 0) inner = x.strides[u - 1];
    group = taken = 1;
  }
  return next < 0 ? std::optional(strides) : std::nullopt;
}

// ---- the view ops

template <GeometryOf of>
void view_forward(OpContext& ctx) {
  const Tensor& x = ctx.inputs[0];
  ctx.outputs.push_back(alias(x, of(geometry(x), ctx.attrs)));
}
// Cotangent of a view that drops elements: embedded into zeros.
template <GeometryOf of>
Tensor embed_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  const Shape& sizes = node.input_metas()[0].sizes;
  return embed(g[0], sizes, of({sizes, contiguous_strides(sizes), 0}, node.attrs()));
}
Tensor same_op_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  return apply1(node.op(), {t[0]}, node.attrs());
}

OpInfo view_op(std::string name, std::string doc, std::string formula,
               std::vector<AttrSpec> attrs) {
  OpInfo o = new_op(std::move(name), "view", std::move(doc), std::move(formula), {{"x"}},
                    std::move(attrs));
  o.is_view = true;
  o.jvp = same_op_jvp;
  return o;
}

const OpInfo *permute_info, *slice_info, *select_info, *expand_info, *flip_info, *diagonal_info,
    *reshape_info;

void register_reshape() {
  OpInfo o = view_op("reshape",
                     "the same elements in row-major order, in another shape; a view where "
                     "the strides allow",
                     "y[...] = x[...]", {ints_attr("shape", "one -1 is inferred")});
  o.forward = [](OpContext& ctx) {
    const Shape& sizes = ctx.attrs[0].integers;
    const Tensor& x = ctx.inputs[0];
    if (const auto strides = reshaped_strides(geometry(x), sizes)) {
      ctx.outputs.push_back(x.alias(sizes, *strides, x.offset()));
    } else {
      NoGrad off;
      const Tensor dense = contiguous(x.detach());
      ctx.outputs.push_back(dense.alias(sizes, contiguous_strides(sizes), dense.offset()));
    }
  };
  o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
    return reshape(g[0], node.input_metas()[0].sizes);
  };
  o.call = [](Operands in, const Attrs& a) { return reshape(in[0], a[0].integers); };
  reshape_info = &add_op(std::move(o));
}

void register_rearranging() {
  OpInfo o = view_op("permute", "axes in another order", "y[i_dims] = x[i]",
                     {ints_attr("dims", "the order")});
  o.forward = view_forward<permute_geometry>;
  o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
    return permute(g[0], inverse(node.attr(0).integers));
  };
  o.call = [](Operands in, const Attrs& a) { return permute(in[0], a[0].integers); };
  permute_info = &add_op(std::move(o));

  o = view_op("flip", "axes reversed", "y[i] = x[n - 1 - i]",
              {ints_attr("dims", "axes to reverse")});
  o.forward = view_forward<flip_geometry>;
  o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
    return flip(g[0], node.attr(0).integers);
  };
  o.call = [](Operands in, const Attrs& a) { return flip(in[0], a[0].integers); };
  flip_info = &add_op(std::move(o));

  o = view_op("expand", "axes of size 1 repeated, new ones in front", "y[j, i] = x[0 or i]",
              {ints_attr("size", "-1 keeps an axis")});
  o.forward = view_forward<expand_geometry>;
  o.vjp = [](GradFn&, size_t, std::span<const Tensor> g) { return g[0]; };  // the walk sums it
  o.call = [](Operands in, const Attrs& a) { return expand(in[0], a[0].integers); };
  expand_info = &add_op(std::move(o));
}

void register_cutting() {
  OpInfo o = view_op(
      "slice", "every step-th element of an axis", "y[i] = x[start + i * step]",
      {int_attr("dim", 0, "axis"), int_attr("start", 0, "first; negative from the end"),
       int_attr("end", kEnd, "past the last"), int_attr("step", 1, "negative runs backwards")});
  o.forward = view_forward<slice_geometry>;
  o.vjp = embed_vjp<slice_geometry>;
  o.call = [](Operands in, const Attrs& a) {
    return slice(in[0], a[0].integer, a[1].integer, a[2].integer, a[3].integer);
  };
  slice_info = &add_op(std::move(o));

  o = view_op("select", "one index of an axis; the axis goes", "y = x[index]",
              {int_attr("dim", 0, "axis"), int_attr("index", 0, "negative from the end")});
  o.forward = view_forward<select_geometry>;
  o.vjp = embed_vjp<select_geometry>;
  o.call = [](Operands in, const Attrs& a) { return select(in[0], a[0].integer, a[1].integer); };
  select_info = &add_op(std::move(o));

  o = view_op("diagonal", "the diagonal of two axes, as the last axis",
              "y[..., i] = x[i, i + offset]",
              {int_attr("offset", 0, "above (positive) or below the main one"),
               int_attr("dim1", 0, "row axis"), int_attr("dim2", 1, "column axis")});
  o.forward = view_forward<diagonal_geometry>;
  o.vjp = embed_vjp<diagonal_geometry>;
  o.call = [](Operands in, const Attrs& a) {
    return diagonal(in[0], a[0].integer, a[1].integer, a[2].integer);
  };
  diagonal_info = &add_op(std::move(o));
}

void register_compositions() {
  add_composition(
      "transpose", "view", "two axes exchanged", "y[.., j, .., i, ..] = x[.., i, .., j, ..]",
      {{"x"}}, {int_attr("dim0", "axis"), int_attr("dim1", "axis")},
      [](Operands in, const Attrs& a) { return transpose(in[0], a[0].integer, a[1].integer); });
  add_composition("squeeze", "view", "axes of size 1 dropped", "y = x", {{"x"}}, {dims_attr()},
                  [](Operands in, const Attrs& a) {
                    return a[0].is_none() ? squeeze(in[0]) : squeeze(in[0], a[0].integers);
                  });
  add_composition("unsqueeze", "view", "a new axis of size 1", "y = x", {{"x"}},
                  {int_attr("dim", "its place")},
                  [](Operands in, const Attrs& a) { return unsqueeze(in[0], a[0].integer); });
}

}  // namespace

void register_views() {
  register_strided();
  register_reshape();
  register_rearranging();
  register_cutting();
  register_compositions();
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  Shape sizes = shape;
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      if (unknown >= 0)
        fail(ErrorKind::shape, "reshape", "only one -1 can be inferred, got ", shape);
      unknown = int64_t(i);
    } else if (sizes[i] < 0) {
      fail(ErrorKind::shape, "reshape", "negative size in ", shape);
    } else if (__builtin_mul_overflow(known, sizes[i], &known)) {
      fail(ErrorKind::shape, "reshape", "the product of the sizes ", shape, " overflows");
    }
  }
  const int64_t n = x.numel();
  if (unknown >= 0) {
    if (known == 0 || n % known != 0)
      fail(ErrorKind::shape, "reshape", x.sizes(), " (", n, " elements) does not fit ", shape);
    sizes[size_t(unknown)] = n / known;
  } else if (known != n) {
    fail(ErrorKind::shape, "reshape", x.sizes(), " has ", n, " elements, ", shape, " has ", known);
  }
  if (sizes == x.sizes()) return x;
  return apply1(*reshape_info, {x}, {Ints(sizes)});
}

Tensor permute(const Tensor& x, const Ints& dims) {
  if (int64_t(dims.size()) != x.rank())
    fail(ErrorKind::shape, "permute", x.rank(), " axes, but ", to_text(AttrValue(dims)), " names ",
         int64_t(dims.size()));
  Ints order;
  for (int64_t d : dims) order.push_back(normal_axis("permute", d, x.rank()));
  if (!order.empty()) normal_axes("permute", order, x.rank());
  return apply1(*permute_info, {x}, {order});
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  Ints order;
  for (int64_t i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[size_t(normal_axis("transpose", dim0, x.rank()))],
            order[size_t(normal_axis("transpose", dim1, x.rank()))]);
  return apply1(*permute_info, {x}, {order});
}

Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t end, int64_t step) {
  const int64_t d = normal_axis("slice", dim, x.rank()), n = x.sizes()[size_t(d)];
  if (step == 0) fail(ErrorKind::value, "slice", "the step is 0");
  // A plain reversal: from the last element, since 0 is what start is when nothing was said.
  if (step < 0 && start == 0 && end == kEnd) start = n - 1;
  return apply1(*slice_info, {x}, {d, start, end, step});
}

Tensor select(const Tensor& x, int64_t dim, int64_t index) {
  const int64_t d = normal_axis("select", dim, x.rank()), n = x.sizes()[size_t(d)];
  if (index < -n || index >= n)
    fail(ErrorKind::index, "select", "index ", index, " of axis ", d, " with size ", n);
  return apply1(*select_info, {x}, {d, index < 0 ? index + n : index});
}

Tensor expand(const Tensor& x, const Shape& size) {
  Shape sizes = size;
  const size_t lead = sizes.size() - x.sizes().size();
  if (sizes.size() < x.sizes().size())
    fail(ErrorKind::shape, "expand", x.sizes(), " has more axes than ", size);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == -1) {
      if (i < lead) fail(ErrorKind::shape, "expand", "-1 for the new axis ", int64_t(i));
      sizes[i] = x.sizes()[i - lead];
    }
  numel_of(sizes);
  if (!broadcasts_to(x.sizes(), sizes))
    fail(ErrorKind::shape, "expand", x.sizes(), " does not broadcast to ", size);
  return sizes == x.sizes() ? x : apply1(*expand_info, {x}, {Ints(sizes)});
}

Tensor flip(const Tensor& x, const Ints& dims) {
  if (dims.empty()) return x;
  return apply1(*flip_info, {x}, {normal_axes("flip", dims, x.rank())});
}

Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  const int64_t d1 = normal_axis("diagonal", dim1, x.rank()),
                d2 = normal_axis("diagonal", dim2, x.rank());
  if (d1 == d2) fail(ErrorKind::index, "diagonal", "both axes are ", d1);
  return apply1(*diagonal_info, {x}, {offset, d1, d2});
}

Tensor squeeze(const Tensor& x) {
  Shape sizes;
  for (int64_t s : x.sizes())
    if (s != 1) sizes.push_back(s);
  return reshape(x, sizes);
}
Tensor squeeze(const Tensor& x, const Ints& dims) {
  if (dims.empty()) return x;
  const Ints axes = normal_axes("squeeze", dims, x.rank());
  Shape sizes;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!named || x.sizes()[size_t(i)] != 1) sizes.push_back(x.sizes()[size_t(i)]);
  }
  return reshape(x, sizes);
}
Tensor unsqueeze(const Tensor& x, int64_t dim) {
  Shape sizes = x.sizes();
  sizes.insert(size_t(normal_axis("unsqueeze", dim, x.rank() + 1)), 1);
  return reshape(x, sizes);
}

}  // namespace gradus
