#include "ops/transforms/vmap.hpp"

#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/join.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

Outputs run(const BatchCall& c, const Tensors& in, const Attrs& attrs) {
  return apply(c.op, in, attrs);
}
// Axis `from` becomes axis `to`. Always a tensor of its own: what f does to its input, such as
// set_requires_grad, is not done to the caller's.
Tensor moved(const Tensor& x, int64_t from, int64_t to) {
  Ints order;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != from) order.push_back(i);
  order.insert(size_t(to), from);
  return permute(x, order);
}

Ints behind_batch(const Ints& sizes, int64_t batch) {
  Ints out = sizes;
  out.insert(0, batch);
  return out;
}
// Operand k with the batch in front, repeated if it had none.
Tensor with_batch(const BatchCall& c, size_t k) {
  const Tensor& x = c.in[k];
  return c.batched[k] || !x.defined() ? x : expand(x, behind_batch(x.sizes(), c.scope.level.size));
}
int64_t rank_of_example(const BatchCall& c, size_t k) { return c.in[k].rank() - c.batched[k]; }
// Operand k, its example brought to `rank` axes by leading ones.
Tensor aligned(const BatchCall& c, size_t k, int64_t rank) {
  const Tensor& x = c.in[k];
  if (!c.batched[k] || rank_of_example(c, k) == rank) return x;
  Shape sizes(size_t(rank) + 1, 1);
  const size_t own = x.sizes().size() - 1;
  sizes[0] = x.sizes()[0];
  for (size_t i = 0; i < own; ++i) sizes[sizes.size() - own + i] = x.sizes()[i + 1];
  return reshape(x, sizes);
}

// To the rules of sum, amax and amin no axes are all axes: one number is given an axis of its own.
Outputs batch_reduce(const BatchCall& c) {
  if (!c.attrs[0].integers.empty()) return batch_by_axes(c);
  return run(c, {reshape(c.in[0], {c.scope.level.size, 1})}, {Ints{1}, false});
}
Outputs batch_permute(const BatchCall& c) {
  Ints dims{0};
  for (int64_t d : c.attrs[0].integers) dims.push_back(d + 1);
  return run(c, {c.in[0]}, {dims});
}
Outputs batch_reshape(const BatchCall& c) {
  return run(c, {c.in[0]}, {behind_batch(c.attrs[0].integers, c.scope.level.size)});
}
Outputs batch_expand(const BatchCall& c) {
  const Ints& sizes = c.attrs[0].integers;
  return run(c, {aligned(c, 0, int64_t(sizes.size()))}, {behind_batch(sizes, c.scope.level.size)});
}
// Strides count elements of one example, which lie one behind another.
Outputs batch_as_strided(const BatchCall& c) {
  const int64_t batch = c.scope.level.size, each = batch ? c.in[0].numel() / batch : 0;
  return run(c, {c.in[0]},
             {behind_batch(c.attrs[0].integers, batch), behind_batch(c.attrs[1].integers, each),
              c.attrs[2]});
}
Outputs batch_embed(const BatchCall& c) {
  const Ints& shape = c.attrs[0].integers;
  return run(c, {c.in[0]},
             {behind_batch(shape, c.scope.level.size),
              behind_batch(c.attrs[1].integers, numel_of(shape)), c.attrs[2]});
}
Outputs batch_strided_scatter(const BatchCall& c) {
  const Tensor x = with_batch(c, 0);
  const int64_t batch = c.scope.level.size, each = batch ? x.numel() / batch : 0;
  return run(c, {x, with_batch(c, 1)}, {behind_batch(c.attrs[0].integers, each), c.attrs[1]});
}
// Widths are listed from the last axis to the first.
Outputs batch_pad(const BatchCall& c) {
  Ints pads = c.attrs[0].integers;
  pads.push_back(0);
  pads.push_back(0);
  return run(c, {c.in[0]}, {pads, c.attrs[1]});
}

// One more label: in both operands a batch, in one an axis of its own. The bias broadcasts.
Outputs batch_contract(const BatchCall& c) {
  const bool biased = c.in.size() > 2;
  const auto bias = [&] { return aligned(c, 2, int64_t(c.attrs[2].integers.size())); };
  if (!c.batched[0] && !c.batched[1]) return {add(run(c, {c.in[0], c.in[1]}, c.attrs)[0], bias())};
  Ints labels[3];
  int64_t fresh = 0;
  for (size_t i = 0; i < 3; ++i) {
    labels[i] = c.attrs[i].integers;
    for (int64_t l : labels[i]) fresh = std::max(fresh, l + 1);
  }
  for (size_t i = 0; i < 3; ++i)
    if (i == 2 || c.batched[i]) labels[i].insert(0, fresh);
  Tensors in{c.in[0], c.in[1]};
  if (biased) in.push_back(bias());
  return run(c, in, {labels[0], labels[1], labels[2], c.attrs[3]});
}

// ---- convolutions. Of the labels in ops/conv/conv.cpp, x (n, gc, ...), y (n, go, ...) and w (go,
// c,
// ...) have three each: g with its neighbour is one axis. The batch joins a label, as its outer
// part.

struct ConvTensor {
  std::string_view labels;  // "ngc", "ngo" or "goc"
  size_t joint() const { return labels.find('g'); }
};
// The joint axis as two, and as one again.
Shape split(Shape sizes, size_t axis, int64_t groups) {
  sizes[axis] /= groups;
  sizes.insert(axis, groups);
  return sizes;
}
Shape merged(Shape sizes, size_t axis) {
  sizes[axis] *= sizes[axis + 1];
  sizes.erase(axis + 1);
  return sizes;
}
Tensor joined(const Tensor& x, ConvTensor kind, char label, int64_t groups) {
  const size_t at = kind.labels.find(label);
  const Tensor apart = reshape(x, split(x.sizes(), kind.joint() + 1, groups));
  Shape sizes = apart.sizes();
  sizes[at + 1] *= sizes[0];
  sizes.erase(0);
  return reshape(moved(apart, 0, int64_t(at)), merged(sizes, kind.joint()));
}
Tensor parted(const Tensor& y, ConvTensor kind, char label, int64_t groups, int64_t batch) {
  const size_t at = kind.labels.find(label);
  Shape sizes = split(y.sizes(), kind.joint(), label == 'g' ? groups * batch : groups);
  sizes[at] /= batch;
  sizes.insert(at, batch);
  const Tensor apart = moved(reshape(y, sizes), int64_t(at), 0);
  return reshape(apart, merged(apart.sizes(), kind.joint() + 1));
}

Outputs batch_conv(const BatchCall& c) {
  const int64_t batch = c.scope.level.size;
  if (batch == 0) return batch_by_loop(c);  // which refuses
  const ConvTensor x{"ngc"}, y{"ngo"}, w{"goc"};
  const bool to_y = c.op.name == "conv", to_x = c.op.name == "conv_input";
  const ConvTensor kinds[] = {to_x ? y : x, to_y || to_x ? w : y}, result = to_y ? y : to_x ? x : w;
  // The label that the batched operand shares with the result alone; g if both are batched.
  char label = 'g';
  for (size_t k = 0; k < 2; ++k)
    if (!c.batched[1 - k])
      for (char l : result.labels)
        if (l != 'g' && kinds[k].labels.find(l) != std::string_view::npos) label = l;
  Attrs attrs = c.attrs;
  const size_t last = attrs.size() - 1;
  const int64_t groups = attrs[last].integer;
  if (label == 'g') attrs[last] = groups * batch;
  Tensors in;
  for (size_t k = 0; k < 2; ++k)
    in.push_back(c.batched[k] ? joined(c.in[k], kinds[k], label, groups) : c.in[k]);
  return {parted(run(c, in, attrs)[0], result, label, groups, batch)};
}

Outputs batch_random(const BatchCall& c) {
  switch (c.scope.randomness) {
    case Randomness::error:
      fail(ErrorKind::value, c.op.name,
           "vmap: random numbers in a mapped function: say by randomness \"same\" or "
           "\"different\" whether all examples get the same ones");
    case Randomness::same: {
      const Tensor y = apply1(c.op, {}, c.attrs);
      return {expand(y, behind_batch(y.sizes(), c.scope.level.size))};
    }
    case Randomness::different:
      break;
  }
  Attrs attrs = c.attrs;
  attrs[0] = behind_batch(attrs[0].integers, c.scope.level.size);
  return run(c, {}, attrs);
}

// Of ops without a rule of their own. User-defined pointwise ops come here.
Outputs batch_default(const BatchCall& c) {
  return c.op.group == "pointwise" ? batch_broadcasting(c) : batch_by_loop(c);
}

}  // namespace

Outputs batch_broadcasting(const BatchCall& c) {
  int64_t rank = 0;
  for (size_t k = 0; k < c.in.size(); ++k) rank = std::max(rank, rank_of_example(c, k));
  Tensors in;
  for (size_t k = 0; k < c.in.size(); ++k) in.push_back(aligned(c, k, rank));
  return run(c, in, c.attrs);
}

Outputs batch_by_axes(const BatchCall& c) {
  Tensors in;
  for (size_t k = 0; k < c.in.size(); ++k) in.push_back(with_batch(c, k));
  Attrs attrs = c.attrs;
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (!c.op.attrs[i].name.starts_with("dim")) continue;
    if (attrs[i].type == AttrValue::Type::integer) ++attrs[i].integer;
    for (int64_t& d : attrs[i].integers) ++d;
  }
  return run(c, in, attrs);
}

Outputs batch_by_loop(const BatchCall& c) {
  const int64_t batch = c.scope.level.size;
  if (batch == 0)
    fail(ErrorKind::shape, c.op.name,
         "vmap: runs example by example, and the mapped axis has size 0");
  std::vector<Tensors> results;  // by output
  for (int64_t b = 0; b < batch; ++b) {
    Tensors in;
    for (size_t k = 0; k < c.in.size(); ++k)
      in.push_back(c.batched[k] ? select(c.in[k], 0, b) : c.in[k]);
    const Outputs y = run(c, in, c.attrs);
    results.resize(y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      if (b > 0 && !(y[i].sizes() == results[i][0].sizes()))
        fail(ErrorKind::shape, c.op.name,
             "vmap: the shape of the result depends on the data: ", results[i][0].sizes(),
             " for one example, ", y[i].sizes(), " for another");
      results[i].push_back(y[i]);
    }
  }
  Outputs out;
  for (const Tensors& parts : results) out.push_back(stack(parts, 0));
  return out;
}

void register_batching() {
  set_batch_fallback(batch_default);
  using Rule = Outputs (*)(const BatchCall&);
  const std::pair<Rule, std::vector<const char*>> rules[] = {
      {batch_by_axes,
       {"cast",     "contiguous", "clone",       "complex",     "argmax", "argmin", "argsort",
        "cumsum",   "softmax",    "log_softmax", "standardize", "slice",  "select", "flip",
        "diagonal", "gather",     "scatter_add", "cat",         "window", "fold"}},
      {batch_reduce, {"sum", "amax", "amin"}},
      {batch_permute, {"permute"}},
      {batch_reshape, {"reshape"}},
      {batch_expand, {"expand"}},
      {batch_as_strided, {"as_strided"}},
      {batch_strided_scatter, {"as_strided_scatter"}},
      {batch_embed, {"embed"}},
      {batch_pad, {"pad"}},
      {batch_contract, {"contract"}},
      {batch_conv, {"conv", "conv_input", "conv_weight"}},
      {batch_random, {"uniform", "normal", "bernoulli"}},
      {batch_broadcasting,
       {"linear_solve",
        "triangular_solve",
        "inv",
        "det",
        "slogdet",
        "cholesky",
        "lu_factor",
        "qr",
        "eigh",
        "svd",
        "eig",
        "pinv",
        "polar_factors",
        "linear_solve_ex",
        "inv_ex",
        "cholesky_ex",
        "lu_factor_ex",
        "matrix_function",
        "hermitian_function",
        "eigsh"}},
  };
  for (const auto& [rule, names] : rules)
    for (const char* name : names) const_cast<OpInfo&>(get_op(name)).batch = rule;
}

namespace func {

namespace {

// The size of the mapped axes; checks in_dims.
int64_t mapped_size(const Tensors& in, const MappedDims& dims) {
  int64_t size = -1, first = 0;
  for (size_t k = 0; k < in.size(); ++k) {
    if (!dims[k]) continue;
    if (!in[k].defined() || in[k].is_number() || in[k].rank() == 0)
      fail(ErrorKind::shape, "vmap", "input ", int64_t(k),
           " has no axis to map over; its in_dims must be none");
    const int64_t d = normal_axis("vmap", *dims[k], in[k].rank()), n = in[k].sizes()[size_t(d)];
    if (size >= 0 && n != size)
      fail(ErrorKind::shape, "vmap", "the mapped axes differ in size: ", size, " of input ", first,
           ", ", n, " of input ", int64_t(k), " (shape ", in[k].sizes(), ", in_dims ", d, ")");
    if (size < 0) first = int64_t(k);
    size = n;
  }
  if (size < 0) fail(ErrorKind::value, "vmap", "no input is mapped: in_dims are all none");
  return size;
}

Tensor delivered(const Tensor& y, size_t i, const MappedDims& dims, const BatchLevel& level) {
  if (!y.defined()) fail(ErrorKind::value, "vmap", "output ", int64_t(i), " is undefined");
  if (i < dims.size() && !dims[i]) {
    if (is_batched_at(y, level))
      fail(ErrorKind::value, "vmap", "output ", int64_t(i),
           " depends on the example, its out_dims may not be none");
    return y;
  }
  const Tensor all = unwrapped(y, level);
  return moved(all, 0, i < dims.size() ? normal_axis("vmap", *dims[i], all.rank()) : 0);
}

}  // namespace

Function vmap(Function f, MappedDims in_dims, MappedDims out_dims, Randomness randomness) {
  return [=](const Tensors& in) {
    if (in.empty()) fail(ErrorKind::value, "vmap", "got no inputs");
    const MappedDims dims = in_dims.empty() ? MappedDims(in.size(), 0) : in_dims;
    if (dims.size() != in.size())
      fail(ErrorKind::value, "vmap", int64_t(dims.size()), " in_dims for ", int64_t(in.size()),
           " inputs");
    const int64_t size = mapped_size(in, dims);
    Tensors mapped, out;
    for (size_t k = 0; k < in.size(); ++k)
      mapped.push_back(dims[k] ? moved(in[k], normal_axis("vmap", *dims[k], in[k].rank()), 0)
                               : in[k]);
    const BatchScope scope(size, randomness);
    for (size_t k = 0; k < in.size(); ++k)
      if (dims[k]) mapped[k] = wrapped(mapped[k], scope.level);
    const Tensors y = f(mapped);
    if (!out_dims.empty() && out_dims.size() != y.size())
      fail(ErrorKind::value, "vmap", int64_t(out_dims.size()), " out_dims for ", int64_t(y.size()),
           " outputs");
    for (size_t i = 0; i < y.size(); ++i) out.push_back(delivered(y[i], i, out_dims, scope.level));
    return out;
  };
}

}  // namespace func

}  // namespace gradus
