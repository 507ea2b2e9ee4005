// Indexing by tensors: two primitives, gather and its transpose scatter_add, and what is made of
// them.
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/creation.hpp"
#include "ops/index/indexing.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/index/sorting.hpp"
#include "ops/shape/views.hpp"

#include <cmath>

namespace gradus::inline v1 {

namespace {

const OpInfo *gather_info, *scatter_info;

Tensor zeros_like_input(const GradFn& node, size_t k) {
  const TensorMeta& m = node.input_metas()[k];
  return Tensor::zeros(m.sizes, m.dtype, *m.device);
}

// The first index outside [0, n), for the error text; kernels check as well.
void check_index(const char* op, const Tensor& index) {
  if (index.dtype() != DType::i64 && index.dtype() != DType::i32)
    fail(ErrorKind::dtype, op, "the index is ", index.dtype(), ", expected i64 or i32");
}

OpInfo gather_op() {
  OpInfo o =
      new_op("gather", "indexing", "elements picked along an axis by an index tensor",
             "y[i, j] = x[index[i, j], j]", {{"x"}, {"index"}}, {int_attr("dim", 0, "axis")});
  o.forward = [](OpContext& ctx) {
    const Tensor &x = ctx.inputs[0], &index = ctx.inputs[1];
    const size_t dim = size_t(ctx.attrs[0].integer);
    Tensor y = Tensor::empty(index.sizes(), x.dtype(), x.device());
    // x may be longer than the index on the other axes; the kernel wants them equal.
    Shape sizes = index.sizes();
    sizes[dim] = x.sizes()[dim];
    if (y.numel() > 0)
      KernelCall(GD_GATHER).in(x, sizes, x.strides()).in(index).integer(int64_t(dim)).out(y).run();
    ctx.outputs.push_back(y);
    if (ctx.needs(0)) ctx.save_input(1);
  };
  o.vjp = [](GradFn& node, size_t k, std::span<const Tensor> g) {
    if (k == 1) return Tensor();
    return scatter_add(zeros_like_input(node, 0), node.attr(0).integer, node.input(1), g[0]);
  };
  o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
    return gather(t[0], node.attr(0).integer, node.input(1));
  };
  o.call = [](Operands in, const Attrs& a) { return gather(in[0], a[0].integer, in[1]); };
  return o;
}

OpInfo scatter_op() {
  OpInfo o = new_op("scatter_add", "indexing",
                    "adds source to places of x chosen along an axis; equal places add up in order",
                    "y = x; y[index[i, j], j] += source[i, j]", {{"x"}, {"index"}, {"source"}},
                    {int_attr("dim", 0, "axis")});
  o.forward = [](OpContext& ctx) {
    const Tensor &x = ctx.inputs[0], &index = ctx.inputs[1];
    const size_t dim = size_t(ctx.attrs[0].integer);
    Tensor y = Tensor::empty(x.sizes(), x.dtype(), x.device());
    if (y.numel() > 0) KernelCall(GD_COPY).in(x).out(y).run();
    Shape sizes = index.sizes();
    sizes[dim] = x.sizes()[dim];
    if (index.numel() > 0)
      KernelCall(GD_SCATTER_ADD)
          .in(index)
          .in(ctx.inputs[2], index.sizes(), ctx.inputs[2].strides())
          .integer(int64_t(dim))
          .out(y, sizes, y.strides())
          .run();
    ctx.outputs.push_back(y);
    if (ctx.needs(2)) ctx.save_input(1);
  };
  o.vjp = [](GradFn& node, size_t k, std::span<const Tensor> g) -> Tensor {
    if (k == 0) return g[0];
    if (k == 1) return Tensor();
    Tensor part = gather(g[0], node.attr(0).integer, node.input(1));
    // source may be longer than the index; what was not read has no gradient.
    const Shape& sizes = node.input_metas()[2].sizes;
    if (part.sizes() == sizes) return part;
    Ints pads;
    for (size_t i = sizes.size(); i-- > 0;) {
      pads.push_back(0);
      pads.push_back(sizes[i] - part.sizes()[i]);
    }
    return pad(part, pads);
  };
  o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
    const Tensor base = t[0].defined() ? t[0] : zeros_like_input(node, 0);
    return t[2].defined() ? scatter_add(base, node.attr(0).integer, node.input(1), t[2]) : base;
  };
  o.call = [](Operands in, const Attrs& a) {
    return scatter_add(in[0], a[0].integer, in[1], in[2]);
  };
  return o;
}

// Every axis of the index but `dim` must fit into x's.
void check_fits(const char* op, const Tensor& x, const char* name, const Tensor& index,
                int64_t dim) {
  bool fits = x.rank() == index.rank();
  for (int64_t i = 0; fits && i < x.rank(); ++i)
    fits = i == dim || index.sizes()[size_t(i)] <= x.sizes()[size_t(i)];
  if (!fits)
    fail(ErrorKind::shape, op, "the index has shape ", index.sizes(), ", ", name, " ", x.sizes(),
         "; they need the same number of axes, and the index may not be longer on any but axis ",
         dim);
}

bool flag(const AttrValue& a) { return a.integer != 0; }
Tensor zero_of(const Tensor& x) { return zeros({}, x.dtype(), x.device()); }

// scatter_add into zeros; bool adds as u8.
Tensor scattered(const Tensor& like, int64_t dim, const Tensor& index, const Tensor& source) {
  if (source.dtype() == DType::bool_)
    return cast(scattered(like, dim, index, cast(source, DType::u8)), DType::bool_);
  return scatter_add(zeros(like.sizes(), source.dtype(), like.device()), dim, index, source);
}
// Which elements of x an index names.
Tensor hit(const Tensor& x, int64_t dim, const Tensor& index) {
  const Tensor ones_there = expand(ones({}, DType::i64, x.device()), index.sizes());
  return gt(scattered(x, dim, index, ones_there), 0);
}
void check_source(const char* op, const Tensor& x, const Tensor& source) {
  if (source.dtype() != x.dtype())
    fail(ErrorKind::dtype, op, "x is ", x.dtype(), ", source ", source.dtype());
}

// A one-dimensional index, as one of the shape of whole slices of x.
Tensor slices(const char* op, const Tensor& x, int64_t dim, const Tensor& index) {
  check_index(op, index);
  if (index.rank() > 1)
    fail(ErrorKind::shape, op, "the index has shape ", index.sizes(), ", expected one axis");
  Shape column(x.sizes().size(), 1), sizes = x.sizes();
  column[size_t(dim)] = sizes[size_t(dim)] = index.numel();
  return expand(reshape(index, column), sizes);
}
Tensor slices_of(const char* op, const Tensor& x, int64_t dim, const Tensor& index,
                 const Tensor& source) {
  const Tensor places = slices(op, x, dim, index);
  check_source(op, x, source);
  if (!(source.sizes() == places.sizes()))
    fail(ErrorKind::shape, op, "the source has shape ", source.sizes(), ", expected ",
         places.sizes());
  return places;
}

// x, flattened, with src at places that never meet.
Tensor replaced(const Tensor& x, const Tensor& places, const Tensor& src, const char* op) {
  check_source(op, x, src);
  if (!(src.sizes() == places.sizes()))
    fail(ErrorKind::shape, op, "src has shape ", src.sizes(), ", the view ", places.sizes());
  const Tensor flat = reshape(x, {x.numel()}), at = reshape(places, {places.numel()});
  const Tensor put = scattered(flat, 0, at, reshape(src, {src.numel()}));
  return reshape(where(hit(flat, 0, at), put, flat), x.sizes());
}
Tensor places_of(const Tensor& x) { return reshape(iota(x.numel(), x.device()), x.sizes()); }

// Joins indices to places in the first axes of x, flattened: row-major, negative ones from the end.
// Gathering from a table of multiples makes the kernel refuse what lies outside, axis by axis.
struct Places {
  Tensor flat;        // one axis
  Shape shape, rest;  // of the indices, and of what one index names
};
Places joined(const char* op, const Tensor& x, const Tensors& indices) {
  Tensors parts;
  for (const Tensor& i : indices) {
    if (i.dtype() != DType::bool_) {
      check_index(op, i);
      parts.push_back(i);
      continue;
    }
    if (i.rank() == 0)
      fail(ErrorKind::shape, op,
           "a mask needs an axis, this one is 0-d; "
           "unsqueeze x and the mask, or use where");
    for (size_t axis = 0; axis < i.sizes().size(); ++axis)
      if (parts.size() + axis >= x.sizes().size() ||
          i.sizes()[axis] != x.sizes()[parts.size() + axis])
        fail(ErrorKind::shape, op, "a mask of shape ", i.sizes(), " does not fit x ", x.sizes());
    const Tensor found = nonzero(i);
    for (int64_t axis = 0; axis < i.rank(); ++axis) parts.push_back(select(found, 1, axis));
  }
  if (parts.size() > x.sizes().size())
    fail(ErrorKind::shape, op, int64_t(parts.size()), " indices for ", x.rank(), " axes");
  Places p;
  for (const Tensor& i : parts) p.shape = broadcast_shapes(op, p.shape, i.sizes());
  p.rest = Shape(x.sizes().begin() + parts.size(), x.sizes().end());
  p.flat = zeros({numel_of(p.shape)}, DType::i64, x.device());
  int64_t stride = 1;
  for (size_t k = parts.size(); k-- > 0;) {
    const int64_t n = x.sizes()[k];
    const Tensor i = cast(parts[k], DType::i64);
    const Tensor from_start = reshape(expand(where(lt(i, 0), add(i, n), i), p.shape), {-1});
    p.flat = add(p.flat, gather(mul(iota(n, x.device()), stride), 0, from_start));
    stride *= n;
  }
  return p;
}
// x as (places, what one place names), and an index of that shape.
std::pair<Tensor, Tensor> as_rows(const Tensor& x, const Places& p) {
  const int64_t width = numel_of(p.rest), m = p.flat.numel();
  int64_t rows = 1;
  for (size_t k = 0; k < x.sizes().size() - p.rest.size(); ++k) rows *= x.sizes()[k];
  return {reshape(x, {rows, width}), expand(reshape(p.flat, {m, 1}), {m, width})};
}
Shape operator+(Shape a, const Shape& b) {
  for (int64_t n : b) a.push_back(n);
  return a;
}

void register_by_tensor() {
  const AttrSpec dim = int_attr("dim", 0, "axis");
  const auto add = [](const char* name, const char* doc, const char* formula,
                      std::vector<OperandSpec> operands, std::vector<AttrSpec> attrs, OpCall call) {
    add_composition(name, "indexing", doc, formula, std::move(operands), std::move(attrs),
                    std::move(call));
  };
  add("scatter",
      "src, or one value, at places of x chosen along an axis; the last of several stays",
      "y = x; y[index[i, j], j] = src[i, j]", {{"x"}, {"index"}, {"src", false, true}},
      {dim, number_attr("value", 0, "where there is no src")}, [](Operands in, const Attrs& a) {
        return in.size() > 2 ? scatter(in[0], a[0].integer, in[1], in[2])
                             : scatter(in[0], a[0].integer, in[1], a[1].number);
      });
  add("index_select", "slices of x picked along an axis", "y[i, :] = x[index[i], :]",
      {{"x"}, {"index"}}, {dim},
      [](Operands in, const Attrs& a) { return index_select(in[0], a[0].integer, in[1]); });
  add("index_add", "adds slices of source to slices of x",
      "y = x; y[index[i]] += alpha * source[i]", {{"x"}, {"index"}, {"source"}},
      {dim, number_attr("alpha", 1, "factor of the source")}, [](Operands in, const Attrs& a) {
        return index_add(in[0], a[0].integer, in[1], in[2], a[1].number);
      });
  add("index_copy", "slices of x replaced by those of source; the last of several stays",
      "y = x; y[index[i]] = source[i]", {{"x"}, {"index"}, {"source"}}, {dim},
      [](Operands in, const Attrs& a) { return index_copy(in[0], a[0].integer, in[1], in[2]); });
  add("index_fill", "slices of x filled with one value", "y = x; y[index[i]] = value",
      {{"x"}, {"index"}}, {dim, number_attr("value", 0, "what is filled in")},
      [](Operands in, const Attrs& a) {
        return index_fill(in[0], a[0].integer, in[1], a[1].number);
      });
  add("index", "elements or slices at the places that several indices name together",
      "y[i] = x[i0[i], i1[i], ...]", {{"x"}, {"indices", true}}, {},
      [](Operands in, const Attrs&) { return index(in[0], Tensors(in.begin() + 1, in.end())); });
  add("index_put", "x with values at the places that several indices name together",
      "y = x; y[i0[i], i1[i], ...] = values[i]", {{"x"}, {"values"}, {"indices", true}},
      {bool_attr("accumulate", false, "add instead")}, [](Operands in, const Attrs& a) {
        return index_put(in[0], Tensors(in.begin() + 2, in.end()), in[1], flag(a[0]));
      });
  add("take", "elements of the flattened x", "y[i] = x.flat[index[i]]", {{"x"}, {"index"}}, {},
      [](Operands in, const Attrs&) { return take(in[0], in[1]); });
  add("put", "x with source at places of the flattened x", "y = x; y.flat[index[i]] = source[i]",
      {{"x"}, {"index"}, {"source"}}, {bool_attr("accumulate", false, "add instead")},
      [](Operands in, const Attrs& a) { return put(in[0], in[1], in[2], flag(a[0])); });
  add("take_along_dim", "gather whose operands broadcast; negative indices count from the end",
      "y[i, j] = x[indices[i, j], j]", {{"x"}, {"indices"}},
      {{"dim", AttrValue::Type::integer, {}, "axis; both flattened when left out", true}},
      [](Operands in, const Attrs& a) {
        return a[0].is_none() ? take_along_dim(in[0], in[1])
                              : take_along_dim(in[0], in[1], a[0].integer);
      });
  const std::vector<OperandSpec> two = {{"x"}, {"src"}};
  add("select_scatter", "x with src in the place of one index of an axis", "y = x; y[index] = src",
      two, {dim, int_attr("index", 0, "negative from the end")}, [](Operands in, const Attrs& a) {
        return select_scatter(in[0], in[1], a[0].integer, a[1].integer);
      });
  add("slice_scatter", "x with src in the place of a slice", "y = x; y[start:end:step] = src", two,
      {dim, int_attr("start", 0, "first"), int_attr("end", kEnd, "past the last"),
       int_attr("step", 1, "between two")},
      [](Operands in, const Attrs& a) {
        return slice_scatter(in[0], in[1], a[0].integer, a[1].integer, a[2].integer, a[3].integer);
      });
  add("diagonal_scatter", "x with src in the place of a diagonal",
      "y = x; y[i, i + offset] = src[i]", two,
      {int_attr("offset", 0, "above or below the main one"), int_attr("dim1", 0, "row axis"),
       int_attr("dim2", 1, "column axis")},
      [](Operands in, const Attrs& a) {
        return diagonal_scatter(in[0], in[1], a[0].integer, a[1].integer, a[2].integer);
      });
}

}  // namespace

void register_indexing() {
  gather_info = &add_op(gather_op());
  scatter_info = &add_op(scatter_op());
  add_composition(
      "embedding", "indexing", "rows of a table picked by an index tensor",
      "y[i, :] = weight[index[i], :]", {{"weight"}, {"index"}},
      {int_attr("padding_idx", -1, "a row without gradient; -1 for none")},
      [](Operands in, const Attrs& a) { return embedding(in[0], in[1], a[0].integer); });
  register_by_tensor();
}

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index) {
  const int64_t d = normal_axis("gather", dim, x.rank());
  check_index("gather", index);
  check_fits("gather", x, "x", index, d);
  return apply1(*gather_info, {x, index}, {d});
}

Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  const int64_t d = normal_axis("scatter_add", dim, x.rank());
  check_index("scatter_add", index);
  check_fits("scatter_add", x, "x", index, d);
  check_fits("scatter_add", source, "source", index, -1);
  if (source.dtype() != x.dtype())
    fail(ErrorKind::dtype, "scatter_add", "x is ", x.dtype(), ", source ", source.dtype());
  return apply1(*scatter_info, {x, index, source}, {d});
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  const int64_t d = normal_axis("scatter", dim, x.rank()), length = index.size(d);
  check_index("scatter", index);
  check_fits("scatter", x, "x", index, d);
  check_fits("scatter", src, "src", index, -1);
  check_source("scatter", x, src);
  if (index.numel() == 0) return x;
  Tensor from = src;
  for (int64_t i = 0; i < x.rank(); ++i) from = slice(from, i, 0, index.size(i));
  // A stable sort brings equal places together, in order: the last of each run stays.
  const Tensor order = argsort(index, d), places = gather(index, d, order);
  Shape edge = index.sizes();
  edge[size_t(d)] = 1;
  const Tensor stays = cat({ne(slice(places, d, 0, length - 1), slice(places, d, 1)),
                            ones(edge, DType::bool_, x.device())},
                           d);
  const Tensor kept = where(stays, gather(from, d, order), zero_of(x));
  return where(hit(x, d, index), scattered(x, d, places, kept), x);
}
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value) {
  const int64_t d = normal_axis("scatter", dim, x.rank());
  check_index("scatter", index);
  check_fits("scatter", x, "x", index, d);
  return where(hit(x, d, index), full({}, value, x.dtype(), x.device()), x);
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  const int64_t d = normal_axis("index_select", dim, x.rank());
  return gather(x, d, slices("index_select", x, d, index));
}
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                 double alpha) {
  const int64_t d = normal_axis("index_add", dim, x.rank());
  const Tensor places = slices_of("index_add", x, d, index, source);
  if (is_integer(x.dtype()) && alpha != std::trunc(alpha))
    fail(ErrorKind::value, "index_add", "alpha is ", alpha, ", x ", x.dtype(),
         "; a fraction of an integer is none, cast both to f32 first");
  check_holds("index_add", x.dtype(), alpha);
  const Tensor scaled = alpha == 1 ? source : mul(source, full({}, alpha, x.dtype(), x.device()));
  return scatter_add(x, d, places, scaled);
}
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  const int64_t d = normal_axis("index_copy", dim, x.rank());
  return scatter(x, d, slices_of("index_copy", x, d, index, source), source);
}
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, double value) {
  const int64_t d = normal_axis("index_fill", dim, x.rank());
  return scatter(x, d, slices("index_fill", x, d, index), value);
}

Tensor index(const Tensor& x, const Tensors& indices) {
  const Places p = joined("index", x, indices);
  const auto [rows, places] = as_rows(x, p);
  return reshape(gather(rows, 0, places), p.shape + p.rest);
}
Tensor index_put(const Tensor& x, const Tensors& indices, const Tensor& values, bool accumulate) {
  const Places p = joined("index_put", x, indices);
  check_source("index_put", x, values);
  const auto [rows, places] = as_rows(x, p);
  if (!broadcasts_to(values.sizes(), p.shape + p.rest))
    fail(ErrorKind::shape, "index_put", "the values have shape ", values.sizes(),
         ", which does not broadcast to ", p.shape + p.rest);
  const Tensor source = reshape(expand(values, p.shape + p.rest), places.sizes());
  return reshape(
      accumulate ? scatter_add(rows, 0, places, source) : scatter(rows, 0, places, source),
      x.sizes());
}
Tensor take(const Tensor& x, const Tensor& at) { return index(reshape(x, {x.numel()}), {at}); }
Tensor put(const Tensor& x, const Tensor& at, const Tensor& source, bool accumulate) {
  if (!(source.sizes() == at.sizes()))
    fail(ErrorKind::shape, "put", "the index has shape ", at.sizes(), ", the source ",
         source.sizes());
  return reshape(index_put(reshape(x, {x.numel()}), {at}, source, accumulate), x.sizes());
}

Tensor take_along_dim(const Tensor& x, const Tensor& indices) {
  return take_along_dim(reshape(x, {x.numel()}), reshape(indices, {indices.numel()}), 0);
}
Tensor take_along_dim(const Tensor& x, const Tensor& indices, int64_t dim) {
  const int64_t d = normal_axis("take_along_dim", dim, x.rank());
  if (indices.rank() != x.rank())
    fail(ErrorKind::shape, "take_along_dim", "x has shape ", x.sizes(), ", the indices ",
         indices.sizes(), "; they need the same number of axes");
  Shape a = x.sizes(), b = indices.sizes();
  a[size_t(d)] = b[size_t(d)] = 1;
  a = b = broadcast_shapes("take_along_dim", a, b);
  a[size_t(d)] = x.size(d);
  b[size_t(d)] = indices.size(d);
  check_index("take_along_dim", indices);
  const Tensor from_start = where(lt(indices, 0), add(indices, x.size(d)), indices);
  return gather(expand(x, a), d, expand(from_start, b));
}

Tensor select_scatter(const Tensor& x, const Tensor& src, int64_t dim, int64_t at) {
  return replaced(x, select(places_of(x), dim, at), src, "select_scatter");
}
Tensor slice_scatter(const Tensor& x, const Tensor& src, int64_t dim, int64_t start, int64_t end,
                     int64_t step) {
  return replaced(x, slice(places_of(x), dim, start, end, step), src, "slice_scatter");
}
Tensor diagonal_scatter(const Tensor& x, const Tensor& src, int64_t offset, int64_t dim1,
                        int64_t dim2) {
  return replaced(x, diagonal(places_of(x), offset, dim1, dim2), src, "diagonal_scatter");
}

Tensor embedding(const Tensor& weight, const Tensor& index, int64_t padding_idx) {
  if (weight.rank() != 2)
    fail(ErrorKind::shape, "embedding", "the table has shape ", weight.sizes(),
         ", expected 2 axes");
  const int64_t n = index.numel(), width = weight.size(1);
  if (padding_idx < -1 || padding_idx >= weight.size(0))
    fail(ErrorKind::index, "embedding", "padding_idx is ", padding_idx, ", the table has ",
         weight.size(0), " rows");
  const Tensor column = reshape(index, {n, 1}), places = expand(column, {n, width});
  Tensor rows;
  try {
    rows = gather(weight, 0, places);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::index) throw;
    fail(e.kind(), "embedding", "the table has ", weight.size(0), " rows: ", e.message());
  }
  if (padding_idx >= 0) rows = where(eq(column, padding_idx), rows.detach(), rows);
  Shape sizes = index.sizes();
  sizes.push_back(width);
  return reshape(rows, sizes);
}

}  // namespace gradus
