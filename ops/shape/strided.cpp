// Elements of row-major memory by strides: as_strided reads them, embed writes them into zeros
// (each is the other's derivative), as_strided_scatter replaces them. Writes in place through views
// are made of these.
#include "engine/kernel_call.hpp"
#include "ops/base/geometry.hpp"
#include "ops/base/registry.hpp"
#include "engine/graph.hpp"
#include "ops/index/indexing.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

Attrs strided_attrs(const Geometry& g) { return {Ints(g.sizes), Ints(g.strides), g.offset}; }

// zeros(sizes) with g written through (strides, offset) of the row-major result.
const OpInfo& embed_op();
// The elements of row-major x at (sizes, strides, offset).
const OpInfo& as_strided_op();

void embed_forward(OpContext& ctx) {
  const Tensor& g = ctx.inputs[0];
  Tensor y = Tensor::zeros(ctx.attrs[0].integers, g.dtype(), g.device());
  if (g.numel() > 0)
    KernelCall(GD_COPY)
        .in(g)
        .out(alias(y, {g.sizes(), ctx.attrs[1].integers, ctx.attrs[2].integer}))
        .run();
  ctx.outputs.push_back(y);
}

// Does (sizes, strides, offset) stay inside n elements, and never meet itself?
void check_strided(const char* op, const Geometry& g, int64_t n) {
  __extension__ typedef __int128 Wide;
  Wide low = g.offset, high = g.offset;
  std::vector<std::pair<Wide, Wide>> axes;
  if (g.sizes.size() != g.strides.size())
    fail(ErrorKind::value, op, "size ", g.sizes, " and stride ", g.strides, " differ in length");
  if (numel_of(g.sizes) == 0) return;
  for (size_t i = 0; i < g.sizes.size(); ++i) {
    const Wide stride = g.strides[i], reach = Wide(g.sizes[i] - 1) * stride;
    (reach < 0 ? low : high) += reach;
    if (g.sizes[i] > 1) axes.push_back({stride < 0 ? -stride : stride, g.sizes[i]});
  }
  if (low < 0 || high >= n)
    fail(ErrorKind::index, op, "size ", g.sizes, ", stride ", g.strides, " and offset ", g.offset,
         " reach outside a tensor with ", n, " elements");
  std::sort(axes.begin(), axes.end());
  Wide span = 0;
  for (const auto& [stride, size] : axes) {
    if (stride <= span)
      fail(ErrorKind::value, op, "elements would overlap (stride ", int64_t(stride), ")");
    span += stride * (size - 1);
  }
}

const OpInfo& embed_op() {
  static const OpInfo& op = []() -> const OpInfo& {
    OpInfo o = new_op(
        "embed", "view",
        "zeros of the given shape with x written at strides: the transpose of as_strided",
        "y = 0; y[strided] = x", {{"x"}},
        {ints_attr("shape", "shape of the result"), ints_attr("stride", "strides in the result"),
         int_attr("offset", 0, "first element in the result")});
    o.forward = embed_forward;
    o.call = [](Operands in, const Attrs& a) {
      check_strided("embed", {in[0].sizes(), a[1].integers, a[2].integer}, numel_of(a[0].integers));
      return apply1(embed_op(), {in[0]}, a);
    };
    o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
      const Attrs& a = node.attrs();
      return apply1(as_strided_op(), {g[0]},
                    strided_attrs({node.input_metas()[0].sizes, a[1].integers, a[2].integer}));
    };
    o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
      return apply1(embed_op(), {t[0]}, node.attrs());
    };
    return add_op(std::move(o));
  }();
  return op;
}

const OpInfo& as_strided_op() {
  static const OpInfo& op = []() -> const OpInfo& {
    OpInfo o =
        new_op("as_strided", "view", "elements of x, read row-major, at strides that never meet",
               "y = x[strided]", {{"x"}},
               {ints_attr("size", "shape of the result"), ints_attr("stride", "strides in x"),
                int_attr("offset", 0, "first element")});
    o.is_view = true;
    o.forward = [](OpContext& ctx) {
      NoGrad off;
      const Tensor x = contiguous(ctx.inputs[0].detach());
      const Attrs& a = ctx.attrs;
      ctx.outputs.push_back(alias(x, {a[0].integers, a[1].integers, x.offset() + a[2].integer}));
    };
    o.call = [](Operands in, const Attrs& a) {
      check_strided("as_strided", {a[0].integers, a[1].integers, a[2].integer}, in[0].numel());
      return apply1(as_strided_op(), {in[0]}, a);
    };
    o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
      const Attrs& a = node.attrs();
      return embed(g[0], node.input_metas()[0].sizes, {{}, a[1].integers, a[2].integer});
    };
    o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
      return apply1(as_strided_op(), {t[0]}, node.attrs());
    };
    return add_op(std::move(o));
  }();
  return op;
}

// x with the elements at (strides, offset) replaced by src: what a write through a view does.
const OpInfo& scatter_op() {
  static const OpInfo& op = []() -> const OpInfo& {
    OpInfo o = new_op("as_strided_scatter", "view",
                      "x, read row-major, with its elements at strides replaced by src",
                      "y = x; y[strided] = src", {{"x"}, {"src"}},
                      {ints_attr("stride", "strides in x, one per axis of src"),
                       int_attr("offset", 0, "first element")});
    o.forward = [](OpContext& ctx) {
      const Tensor &x = ctx.inputs[0], &src = ctx.inputs[1];
      Tensor y = Tensor::empty(x.sizes(), x.dtype(), x.device());
      if (y.numel() > 0) KernelCall(GD_COPY).in(x).out(y).run();
      if (src.numel() > 0)
        KernelCall(GD_COPY)
            .in(src)
            .out(alias(y, {src.sizes(), ctx.attrs[0].integers, ctx.attrs[1].integer}))
            .run();
      ctx.outputs.push_back(y);
    };
    o.call = [](Operands in, const Attrs& a) {
      check_strided("as_strided_scatter", {in[1].sizes(), a[0].integers, a[1].integer},
                    in[0].numel());
      return apply1(scatter_op(), {in[0], cast(in[1], in[0].dtype())}, a);
    };
    o.vjp = [](GradFn& node, size_t k, std::span<const Tensor> g) {
      const Attrs& a = node.attrs();
      const TensorMeta& src = node.input_metas()[1];
      if (k == 1) return apply1(as_strided_op(), {g[0]}, {Ints(src.sizes), a[0], a[1]});
      return apply1(scatter_op(), {g[0], Tensor::zeros(src.sizes, src.dtype, *src.device)}, a);
    };
    o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
      Tensor whole[2];
      for (size_t k = 0; k < 2; ++k) {
        const TensorMeta& m = node.input_metas()[k];
        whole[k] = t[k].defined() ? t[k] : Tensor::zeros(m.sizes, m.dtype, *m.device);
      }
      return apply1(scatter_op(), whole, node.attrs());
    };
    return add_op(std::move(o));
  }();
  return op;
}

}  // namespace

Tensor embed(const Tensor& g, const Shape& into, const Geometry& at) {
  return apply1(embed_op(), {g}, {Ints(into), Ints(at.strides), at.offset});
}

void register_strided() {
  embed_op();
  as_strided_op();
  scatter_op();
}

const OpInfo& as_strided_scatter_op() { return scatter_op(); }

Tensor elements_at(const Tensor& x, const Shape& sizes, const Shape& strides, int64_t offset) {
  // Expanded axes are taken once and expanded; other overlaps go by index.
  Geometry once{sizes, strides, offset};
  for (size_t i = 0; i < sizes.size(); ++i)
    if (strides[i] == 0 && sizes[i] > 1) once.sizes[i] = 1;
  if (!overlaps_itself(once.sizes, once.strides))
    return expand(apply1(as_strided_op(), {x}, strided_attrs(once)), sizes);
  std::vector<int64_t> index;
  Shape at(sizes.size(), 0);
  for (int64_t n = numel_of(sizes); n > 0; --n) {
    int64_t place = offset;
    for (size_t i = 0; i < at.size(); ++i) place += at[i] * strides[i];
    index.push_back(place);
    for (size_t i = at.size(); i-- > 0 && ++at[i] == sizes[i];) at[i] = 0;
  }
  const Tensor where = Tensor::constant(index, {int64_t(index.size())}, x.device());
  return reshape(gather(reshape(x, {-1}), 0, where), sizes);
}

}  // namespace gradus
