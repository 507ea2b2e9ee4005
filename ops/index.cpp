// Indexing by tensors: gather, its transpose scatter_add, and embedding, which is a gather of rows.
#include "engine/kernel_call.hpp"
#include "ops/dtypes.hpp"
#include "ops/registry.hpp"
#include "ops/shape.hpp"

namespace gradus {

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
  OpInfo o;
  o.name = "gather";
  o.doc = "elements picked along an axis by an index tensor";
  o.formula = "y[i, j] = x[index[i, j], j]";
  o.group = "indexing";
  o.operands = {{"x"}, {"index"}};
  o.attrs = {int_attr("dim", 0, "axis")};
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
  o.call = [](const Tensors& in, const Attrs& a) {
    return Tensors{gather(in[0], a[0].integer, in[1])};
  };
  return o;
}

OpInfo scatter_op() {
  OpInfo o;
  o.name = "scatter_add";
  o.doc = "adds source to places of x chosen along an axis; equal places add up in order";
  o.formula = "y = x; y[index[i, j], j] += source[i, j]";
  o.group = "indexing";
  o.operands = {{"x"}, {"index"}, {"source"}};
  o.attrs = {int_attr("dim", 0, "axis")};
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
  o.call = [](const Tensors& in, const Attrs& a) {
    return Tensors{scatter_add(in[0], a[0].integer, in[1], in[2])};
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

}  // namespace

void register_indexing() {
  gather_info = &add_op(gather_op());
  scatter_info = &add_op(scatter_op());
  add_composition("embedding", "indexing", "rows of a table picked by an index tensor",
                  "y[i, :] = weight[index[i], :]", {{"weight"}, {"index"}}, {},
                  [](const Tensors& in, const Attrs&) { return Tensors{embedding(in[0], in[1])}; });
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

Tensor embedding(const Tensor& weight, const Tensor& index) {
  if (weight.rank() != 2)
    fail(ErrorKind::shape, "embedding", "the table has shape ", weight.sizes(),
         ", expected 2 axes");
  const int64_t n = index.numel(), width = weight.size(1);
  const Tensor rows = expand(reshape(index, {n, 1}), {n, width});
  Shape sizes = index.sizes();
  sizes.push_back(width);
  return reshape(gather(weight, 0, rows), sizes);
}

}  // namespace gradus
