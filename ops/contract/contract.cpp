// contract: the one kernel behind matmul, batched matmul, einsum and linear layers. The primitive
// takes two operands whose labels are distinct, each of which the other operand or the output has
// too, and a bias that it adds to the finished sums; what else people write (repeated labels,
// labels of one operand alone, extents of 1) is made ready here by views and sums. Every derivative
// of a sum-product contraction is again a contraction; of a tropical one, a gather or scatter
// through its winners.
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/index/indexing.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"
#include "ops/reduce/reductions.hpp"

#include <algorithm>
#include <optional>

namespace gradus::inline v1 {

namespace {

const OpInfo* contract_info;

// Attributes of the primitive.
enum { kLabelsA, kLabelsB, kLabelsOut, kAlgebra };
const AttrValue& name_of(Algebra algebra) {
  static const AttrValue names[] = {"standard", "max-plus", "min-plus", "max-times"};
  return names[int(algebra)];
}
Algebra algebra_of(const AttrValue& name) {
  for (int i = 0; i < 4; ++i)
    if (name.text == name_of(Algebra(i)).text) return Algebra(i);
  fail(ErrorKind::value, "contract", "algebra is \"", name.text,
       "\"; expected standard, max-plus, min-plus or max-times");
}
Algebra algebra_of(const Attrs& a) { return algebra_of(a[kAlgebra]); }

bool has(const Ints& labels, int64_t l) {
  return std::find(labels.begin(), labels.end(), l) != labels.end();
}
size_t place(const Ints& labels, int64_t l) {
  return size_t(std::find(labels.begin(), labels.end(), l) - labels.begin());
}

// The joint index space: the output's labels, then the summed ones, with sizes and strides per
// operand.
struct Joint {
  Shape sizes, strides_a, strides_b;
};
Joint join_labels(const Tensor& a, const Ints& la, const Tensor& b, const Ints& lb,
                  const Ints& out) {
  // contract() has seen to it; the labels of a file are what they are.
  const auto expect = [&](bool right) {
    if (!right)
      fail(ErrorKind::shape, "contract", "the labels ", to_text(la), " and ", to_text(lb), " to ",
           to_text(out), " do not fit operands of shapes ", a.sizes(), " and ", b.sizes());
  };
  Joint j;
  const auto add = [&](int64_t l) {
    const size_t pa = place(la, l), pb = place(lb, l);
    expect(pa < la.size() ? pb == lb.size() || a.sizes()[pa] == b.sizes()[pb] : pb < lb.size());
    j.sizes.push_back(pa < la.size() ? a.sizes()[pa] : b.sizes()[pb]);
    j.strides_a.push_back(pa < la.size() ? a.strides()[pa] : 0);
    j.strides_b.push_back(pb < lb.size() ? b.strides()[pb] : 0);
  };
  expect(a.rank() == int64_t(la.size()) && b.rank() == int64_t(lb.size()));
  for (int64_t l : out) add(l);
  for (int64_t l : la)
    if (!has(out, l)) add(l);
  for (int64_t l : lb) expect(has(out, l) || has(la, l));
  return j;
}

void forward(OpContext& ctx) {
  const Tensor &a = ctx.inputs[0], &b = ctx.inputs[1];
  const Ints& out = ctx.attrs[kLabelsOut].integers;
  const Algebra algebra = algebra_of(ctx.attrs);
  const Joint j =
      join_labels(a, ctx.attrs[kLabelsA].integers, b, ctx.attrs[kLabelsB].integers, out);
  const Shape sizes(j.sizes.begin(), j.sizes.begin() + out.size());
  const Tensor* const bias = ctx.inputs.size() > 2 ? &ctx.inputs[2] : nullptr;
  if (bias && !broadcasts_to(bias->sizes(), sizes))
    fail(ErrorKind::shape, "contract", "the bias has shape ", bias->sizes(),
         ", which does not broadcast to the result's ", sizes);
  Tensor c = Tensor::empty(sizes, a.dtype(), a.device());
  const bool tropical = algebra != Algebra::standard;
  Tensor winner;
  if (tropical && ctx.needs_any()) winner = Tensor::empty(sizes, DType::i64, a.device());
  if (c.numel() > 0) {
    KernelCall call(GD_CONTRACT);
    call.in(a, j.sizes, j.strides_a).in(b, j.sizes, j.strides_b);
    if (bias) call.in(*bias, sizes);
    call.integer(int64_t(out.size())).integer(int64_t(algebra)).integer(0).integer(0);
    call.number(1).number(0).number(0).number(0).out(c);
    if (winner.defined()) call.out(winner);
    call.run();
  }
  ctx.outputs.push_back(c);
  if (!tropical) {
    if (ctx.needs(0)) ctx.save_input(1);
    if (ctx.needs(1)) ctx.save_input(0);
  } else {
    ctx.save(winner);
    if (algebra == Algebra::max_times) {
      if (ctx.needs(0)) ctx.save_input(1);
      if (ctx.needs(1)) ctx.save_input(0);
    }
  }
}

// ---- derivatives of the tropical algebras. Axes in four groups: batch (in a, b and out), own (of
// the operand, in out), other (of the other operand, in out), summed. Everything is brought to
// three axes.
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

Tensor tropical_vjp(GradFn& node, size_t k, const Tensor& grad) {
  const TensorMeta& m = node.input_metas()[k];
  const Groups g = groups(node.attrs(), k);
  if (extent(node, g.summed) == 0) return Tensor();  // nothing wins
  const auto [w, won] = winners(node, g, m.dtype);
  Tensor source =
      mul(three(node, grad, node.attrs()[kLabelsOut].integers, g.batch, g.own, g.other), won);
  if (algebra_of(node.attrs()) == Algebra::max_times) source = mul(source, other_at(node, k, g, w));
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
  if (algebra_of(node.attrs()) == Algebra::max_times) y = mul(y, other_at(node, k, g, w));
  const Ints& out = node.attrs()[kLabelsOut].integers;
  Ints now, order;
  Shape shape;
  for (const Ints* group : {&g.batch, &g.own, &g.other})
    for (int64_t l : *group) now.push_back(l);
  for (int64_t l : now) shape.push_back(node.output_metas()[0].sizes[place(out, l)]);
  for (int64_t l : out) order.push_back(int64_t(place(now, l)));
  return permute(reshape(y, shape), order);
}

// ---- derivatives

// Up to five labels below 15, four bits each; none: they do not fit.
std::optional<uint64_t> short_code(const Ints& la, const Ints& lb, const Ints& out,
                                   Algebra algebra) {
  uint64_t code = uint64_t(algebra);
  for (const Ints* labels : {&la, &lb, &out}) {
    if (labels->size() > 5) return std::nullopt;
    uint64_t word = 0;
    for (int64_t l : *labels) {
      if (l < 0 || l > 14) return std::nullopt;
      word = word << 4 | uint64_t(l + 1);
    }
    code = code << 20 | word;
  }
  return code;
}

Tensor call_primitive(const Tensor& a, const Tensor& b, const Tensor& bias, const Attrs& attrs) {
  return bias.defined() ? apply1(*contract_info, {a, b, bias}, attrs)
                        : apply1(*contract_info, {a, b}, attrs);
}
Tensor primitive(const Tensor& a, const Ints& la, const Tensor& b, const Ints& lb, const Ints& out,
                 Algebra algebra, const Tensor& bias = {}) {
  // Making the attributes takes as long as a small product: each thread keeps those it used.
  struct Kept {
    uint64_t code = ~uint64_t(0);
    Attrs attrs;
  };
  thread_local Kept kept[32];
  const auto code = short_code(la, lb, out, algebra);
  if (!code) return call_primitive(a, b, bias, {la, lb, out, name_of(algebra)});
  Kept& k = kept[*code * 0x9e3779b97f4a7c15u >> 59];
  if (k.code != *code) k = {*code, {la, lb, out, name_of(algebra)}};
  return call_primitive(a, b, bias, k.attrs);
}

// gA = contract(g, conj b -> labels of A), gB = contract(conj a, g -> labels of B), of the bias g,
// which the walk sums.
Tensor vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  if (k == 2) return g[0];
  const Attrs& at = node.attrs();
  const Algebra algebra = algebra_of(at);
  if (algebra != Algebra::standard) return tropical_vjp(node, k, g[0]);
  const Ints &la = at[kLabelsA].integers, &lb = at[kLabelsB].integers,
             &out = at[kLabelsOut].integers;
  return k == 0 ? primitive(g[0], out, conj(node.input(1)), lb, la, algebra)
                : primitive(conj(node.input(0)), la, g[0], out, lb, algebra);
}

Tensor jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  const Attrs& at = node.attrs();
  const Algebra algebra = algebra_of(at);
  Tensor sum;
  for (size_t k = 0; k < 2; ++k) {
    if (!t[k].defined()) continue;
    Tensor term;
    if (algebra != Algebra::standard)
      term = tropical_jvp_term(node, k, t[k]);
    else
      term = primitive(k ? node.input(0) : t[0], at[kLabelsA].integers, k ? t[1] : node.input(1),
                       at[kLabelsB].integers, at[kLabelsOut].integers, algebra);
    if (term.defined()) sum = sum.defined() ? add(sum, term) : term;
  }
  if (t.size() < 3 || !t[2].defined()) return sum;
  return sum.defined() ? add(sum, t[2]) : expand(t[2], node.output_metas()[0].sizes);
}

Cost cost(const OpContext& ctx) {
  const Joint j = join_labels(ctx.inputs[0], ctx.attrs[kLabelsA].integers, ctx.inputs[1],
                              ctx.attrs[kLabelsB].integers, ctx.attrs[kLabelsOut].integers);
  double n = 1;
  for (int64_t s : j.sizes) n *= double(s);
  const bool sums = j.sizes.size() > ctx.attrs[kLabelsOut].integers.size();
  if (is_complex(ctx.outputs[0].dtype())) n *= 4;
  Cost c{n * (sums ? 2 : 1), double(ctx.outputs[0].bytes())};
  for (const Tensor& t : ctx.inputs) c.bytes += double(t.bytes());
  if (ctx.inputs.size() > 2) c.flops += double(ctx.outputs[0].numel());
  return c;
}

// ---- from what people write to the primitive

struct Operand {
  Tensor t;
  Ints labels;
};

std::string label_text(int64_t l) {
  if ((l >= 'a' && l <= 'z') || (l >= 'A' && l <= 'Z')) return std::string(1, char(l));
  return join(l);
}

// Repeated labels become diagonals.
void take_diagonals(Operand& x) {
  for (size_t i = 0; i < x.labels.size(); ++i)
    for (size_t j = i + 1; j < x.labels.size(); ++j) {
      if (x.labels[i] != x.labels[j]) continue;
      if (x.t.sizes()[i] != x.t.sizes()[j])
        fail(ErrorKind::shape, "contract", "label ", label_text(x.labels[i]), " is ",
             x.t.sizes()[i], " and ", x.t.sizes()[j], " in one operand of shape ", x.t.sizes());
      const int64_t l = x.labels[i];
      x.t = diagonal(x.t, 0, int64_t(i), int64_t(j));
      x.labels.erase(j);
      x.labels.erase(i);
      x.labels.push_back(l);
      i = size_t(-1);
      break;
    }
}

// Drops axis i (of size 1).
void drop(Operand& x, size_t i) {
  x.t = squeeze(x.t, {int64_t(i)});
  x.labels.erase(i);
}

// Sums (in the algebra) the labels that neither the other operand nor the output has. In max-times
// a negative factor turns max into min, so there nothing is summed alone: the other operand is
// repeated.
void sum_own(Operand& x, Operand& other, const Ints& out, Algebra algebra) {
  Ints axes, labels;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const int64_t l = x.labels[i];
    if (has(other.labels, l) || has(out, l)) {
      labels.push_back(l);
    } else if (algebra == Algebra::max_times) {
      Shape sizes = other.t.sizes();
      sizes.insert(0, x.t.sizes()[i]);
      other.t = expand(other.t, sizes);
      other.labels.insert(0, l);
      labels.push_back(l);
    } else {
      axes.push_back(int64_t(i));
    }
  }
  if (axes.empty()) return;
  x.t = algebra == Algebra::standard   ? cast(sum(x.t, axes), x.t.dtype())  // sums of i32 are i64
        : algebra == Algebra::min_plus ? amin(x.t, axes)
                                       : amax(x.t, axes);
  x.labels = labels;
}

void check_labels(const Operand& a, const Operand& b, const Ints& out) {
  for (const Operand* x : {&a, &b})
    if (int64_t(x->labels.size()) != x->t.rank())
      fail(ErrorKind::shape, "contract", int64_t(x->labels.size()),
           " labels for an operand of shape ", x->t.sizes());
  for (size_t i = 0; i < out.size(); ++i) {
    if (!has(a.labels, out[i]) && !has(b.labels, out[i]))
      fail(ErrorKind::value, "contract", "output label ", label_text(out[i]), " is in no operand");
    for (size_t j = 0; j < i; ++j)
      if (out[i] == out[j])
        fail(ErrorKind::value, "contract", "output label ", label_text(out[i]), " is repeated");
  }
}

// Extents of a shared label must be equal; 1 broadcasts against n.
void match_extents(Operand& a, Operand& b) {
  for (size_t i = 0; i < a.labels.size();) {
    const size_t j = place(b.labels, a.labels[i]);
    const int64_t na = a.t.sizes()[i], nb = j < b.labels.size() ? b.t.sizes()[j] : na;
    if (na == nb) {
      ++i;
    } else if (na == 1) {
      drop(a, i);
    } else if (nb == 1) {
      drop(b, j);
      ++i;
    } else {
      fail(ErrorKind::shape, "contract", "label ", label_text(a.labels[i]), " is ", na,
           " in the first operand ", a.t.sizes(), " and ", nb, " in the second ", b.t.sizes());
    }
  }
}

// Can the primitive take them as they are?
bool fits(const Tensor& a, const Ints& la, const Tensor& b, const Ints& lb, const Ints& out,
          const Tensor& bias) {
  if (a.is_number() || b.is_number() || a.dtype() != b.dtype() || a.rank() != int64_t(la.size()) ||
      b.rank() != int64_t(lb.size()))
    return false;
  if (bias.defined() && (bias.is_number() || bias.dtype() != a.dtype())) return false;
  const auto distinct = [](const Ints& labels) {
    for (size_t i = 1; i < labels.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (labels[i] == labels[j]) return false;
    return true;
  };
  if (!distinct(la) || !distinct(lb) || !distinct(out)) return false;
  for (size_t i = 0; i < la.size(); ++i) {
    const size_t j = place(lb, la[i]);
    if (j == lb.size() ? !has(out, la[i]) : a.sizes()[i] != b.sizes()[j]) return false;
  }
  for (int64_t l : lb)
    if (!has(la, l) && !has(out, l)) return false;
  for (int64_t l : out)
    if (!has(la, l) && !has(lb, l)) return false;
  return true;
}

}  // namespace

Tensor contract(const Tensor& a, const Ints& la, const Tensor& b, const Ints& lb, const Ints& out,
                Algebra algebra, const Tensor& bias) {
  if (algebra == Algebra::standard && fits(a, la, b, lb, out, bias))
    return primitive(a, la, b, lb, out, algebra, bias);
  if (algebra != Algebra::standard && bias.defined())
    fail(ErrorKind::value, "contract", "a bias is added in the standard algebra, this one is ",
         name_of(algebra).text);
  const Tensor all[] = {a, b, bias};
  const DType dtype = result_dtype({all, bias.defined() ? size_t(3) : size_t(2)});
  if (algebra != Algebra::standard && is_complex(dtype))
    refuse_unordered("contract", dtype, name_of(algebra).text);
  Operand x{cast(a, dtype), la}, y{cast(b, dtype), lb};
  check_labels(x, y, out);
  take_diagonals(x);
  take_diagonals(y);
  match_extents(x, y);
  sum_own(x, y, out, algebra);
  sum_own(y, x, out, algebra);
  return primitive(x.t, x.labels, y.t, y.labels, out, algebra,
                   bias.defined() ? cast(bias, dtype) : bias);
}

void register_contractions() {
  OpInfo o = new_op(
      "contract", "contraction",
      "sum of products over labels, plus a bias: the kernel behind matmul and einsum",
      "y[out] = sum over the other labels of a[labels_a] * b[labels_b], + bias",
      {{"a"}, {"b"}, {"bias", false, true}},
      {ints_attr("labels_a", "one integer per axis of a"),
       ints_attr("labels_b", "one per axis of b"), ints_attr("labels_out", "one per axis of y"),
       text_attr("algebra", "standard", "standard, max-plus, min-plus or max-times")});
  o.forward = forward;
  o.vjp = vjp;
  o.jvp = jvp;
  o.cost = cost;
  o.call = [](Operands in, const Attrs& a) {
    return contract(in[0], a[kLabelsA].integers, in[1], a[kLabelsB].integers,
                    a[kLabelsOut].integers, algebra_of(a), operand(in, 2));
  };
  contract_info = &add_op(std::move(o));
}

}  // namespace gradus
