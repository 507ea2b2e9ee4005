// Derivatives of the tropical contractions. Axes in four groups: batch (in a, b and out), own (of
// the operand, in out), other (of the other operand, in out), summed. Everything is brought to
// three axes.
#include "ops/contract/primitive.hpp"

#include "ops/index/indexing.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

namespace gradus::inline v1 {

namespace {

struct Groups {
  Ints batch, own, other, summed;
};
Groups groups(const Attrs& at, size_t k) {
  const Ints &own = at[k].integers, &other = at[1 - k].integers, &out = at[kLabelsOut].integers;
  Groups g;
  for (int64_t l : out)
    (has(own, l) && has(other, l) ? g.batch : has(own, l) ? g.own : g.other).push_back(l);
  // The kernel counts winners in the order that the first operand's labels give.
  for (int64_t l : at[kLabelsA].integers)
    if (!has(out, l)) g.summed.push_back(l);
  return g;
}
int64_t extent(const GradFn& node, const Ints& labels) {
  int64_t n = 1;
  for (int64_t l : labels) {
    const size_t pa = place(node.attrs()[kLabelsA].integers, l),
                 pb = place(node.attrs()[kLabelsB].integers, l);
    n *= pa < node.attrs()[kLabelsA].integers.size() ? node.input_metas()[0].sizes[pa]
                                                     : node.input_metas()[1].sizes[pb];
  }
  return n;
}
// t with these labels, as (|first|, |second|, |third|).
Tensor three(const GradFn& node, const Tensor& t, const Ints& labels, const Ints& first,
             const Ints& second, const Ints& third) {
  Ints order;
  for (const Ints* group : {&first, &second, &third})
    for (int64_t l : *group) order.push_back(int64_t(place(labels, l)));
  return reshape(permute(t, order),
                 {extent(node, first), extent(node, second), extent(node, third)});
}
// The inverse of three().
Tensor from_three(const Tensor& t, const Ints& labels, const Shape& sizes, const Groups& g) {
  Ints now, order;
  Shape shape;
  for (const Ints* group : {&g.batch, &g.own, &g.summed})
    for (int64_t l : *group) now.push_back(l);
  for (int64_t l : now) shape.push_back(sizes[place(labels, l)]);
  for (int64_t l : labels) order.push_back(int64_t(place(now, l)));
  return permute(reshape(t, shape), order);
}

// Winners as (batch, own, other), and a 0/1 mask: 0 where nothing won.
std::pair<Tensor, Tensor> winners(GradFn& node, const Groups& g, DType dtype) {
  const Tensor w =
      three(node, node.extra(0), node.attrs()[kLabelsOut].integers, g.batch, g.own, g.other);
  return {where(lt(w, 0), 0, w), cast(ge(w, 0), dtype)};
}
// The other operand at the winners: (batch, own, other).
Tensor other_at(GradFn& node, size_t k, const Groups& g, const Tensor& w) {
  const Tensor t =
      three(node, node.input(1 - k), node.attrs()[1 - k].integers, g.batch, g.other, g.summed);
  return transpose(gather(t, 2, transpose(w, 1, 2)), 1, 2);
}

}  // namespace

Tensor tropical_vjp(GradFn& node, size_t k, const Tensor& grad) {
  const TensorMeta& m = node.input_metas()[k];
  const Groups g = groups(node.attrs(), k);
  if (extent(node, g.summed) == 0) return Tensor();  // nothing wins
  const auto [w, won] = winners(node, g, m.dtype);
  Tensor source =
      mul(three(node, grad, node.attrs()[kLabelsOut].integers, g.batch, g.own, g.other), won);
  if (is_product(algebra_of(node.attrs()))) source = mul(source, other_at(node, k, g, w));
  const Tensor zeros = Tensor::zeros(
      {extent(node, g.batch), extent(node, g.own), extent(node, g.summed)}, m.dtype, *m.device);
  return from_three(scatter_add(zeros, 2, w, source), node.attrs()[k].integers, m.sizes, g);
}

Tensor tropical_jvp_term(GradFn& node, size_t k, const Tensor& t) {
  const Groups g = groups(node.attrs(), k);
  if (extent(node, g.summed) == 0) return Tensor();
  const auto [w, won] = winners(node, g, t.dtype());
  const Tensor own = three(node, t, node.attrs()[k].integers, g.batch, g.own, g.summed);
  Tensor y = mul(gather(own, 2, w), won);
  if (is_product(algebra_of(node.attrs()))) y = mul(y, other_at(node, k, g, w));
  const Ints& out = node.attrs()[kLabelsOut].integers;
  Ints now, order;
  Shape shape;
  for (const Ints* group : {&g.batch, &g.own, &g.other})
    for (int64_t l : *group) now.push_back(l);
  for (int64_t l : now) shape.push_back(node.output_metas()[0].sizes[place(out, l)]);
  for (int64_t l : out) order.push_back(int64_t(place(now, l)));
  return permute(reshape(y, shape), order);
}

}  // namespace gradus
