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
#include "ops/contract/composed.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/contract/gathered.hpp"
#include "ops/contract/primitive.hpp"
#include "ops/index/indexing.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"
#include "ops/reduce/reductions.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace gradus::inline v1 {

namespace {

const OpInfo* contract_info;

AttrValue name_of(Algebra algebra) {
  static const AttrValue standard = "standard";
  return algebra == Algebra::standard ? standard : AttrValue(algebra_name(algebra));
}

Joint join_labels(const Tensor& a, const Ints& la, const Tensor& b, const Ints& lb,
                  const Ints& out) {
  // contract() has seen to it; the labels of a file are what they are.
  const auto expect = [&](bool right) {
    if (!right)
      fail(ErrorKind::shape, "contract", "the labels ", to_text(la), " and ", to_text(lb), " to ",
           to_text(out), " do not fit operands of shapes ", a.sizes(), " and ", b.sizes());
  };
  Joint j;
  const auto add = [&](size_t pa, size_t pb) {
    const bool in_a = pa < la.size(), in_b = pb < lb.size();
    expect(in_a ? !in_b || a.sizes()[pa] == b.sizes()[pb] : in_b);
    j.sizes.push_back(in_a ? a.sizes()[pa] : b.sizes()[pb]);
    j.strides_a.push_back(in_a ? a.strides()[pa] : 0);
    j.strides_b.push_back(in_b ? b.strides()[pb] : 0);
  };
  expect(a.rank() == int64_t(la.size()) && b.rank() == int64_t(lb.size()));
  for (int64_t l : out) add(place(la, l), place(lb, l));
  for (size_t i = 0; i < la.size(); ++i)
    if (!has(out, la[i])) add(i, place(lb, la[i]));
  for (int64_t l : lb) expect(has(out, l) || has(la, l));
  return j;
}

// c = f(a, b, bias) over the joint index space, and the winners if they are defined.
void run_kernel(const Joint& j, const Tensor& a, const Tensor& b, const Tensor* bias,
                Algebra algebra, const Tensor& c, const Tensor& winner) {
  if (c.numel() == 0) return;
  KernelCall call(GD_CONTRACT);
  call.in(a, j.sizes, j.strides_a).in(b, j.sizes, j.strides_b);
  if (bias) call.in(*bias, c.sizes());
  call.integer(c.rank()).integer(int64_t(algebra)).integer(0).integer(0);
  call.number(1).number(0).number(0).number(0).out(c);
  if (winner.defined()) call.out(winner);
  call.run();
}

// A tensor of these sizes, for out. Where labels of a and of b alternate in out, it is no matrix in
// any order of either, and a device with memory of its own would make one and then turn it. There a
// large result of no history lies as it is made, the labels of a before those of b, and strides say
// so. (A history may meet writes through views, which want it row-major.)
Tensor empty_result(const Joint& j, const Shape& sizes, DType dtype, Device& device) {
  Tensor c = Tensor::empty(sizes, dtype, device);
  constexpr int64_t kLarge = 1 << 16;
  if (device.host_memory() || c.numel() < kLarge) return c;
  std::vector<size_t> of_a, of_b, order;
  int changes = 0, before = -1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool in_a = j.strides_a[d] != 0, in_b = j.strides_b[d] != 0;
    if (sizes[d] == 1 || in_a == in_b) {
      order.push_back(d);
      continue;
    }
    (in_a ? of_a : of_b).push_back(d);
    changes += before >= 0 && before != int(in_a);
    before = int(in_a);
  }
  if (changes < 2) return c;
  const auto put = [&](std::vector<size_t>& axes, const auto& strides) {
    std::stable_sort(axes.begin(), axes.end(),
                     [&](size_t x, size_t y) { return strides[x] > strides[y]; });
    order.insert(order.end(), axes.begin(), axes.end());
  };
  put(of_a, j.strides_a);
  put(of_b, j.strides_b);
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0; step *= sizes[order[i]])
    c.body()->strides[order[i]] = step;
  return c;
}

// A user's algebra: a plain loop over numbers of f64 on the host.
Tensor run_own(const OwnAlgebra& algebra, const OpContext& ctx, const Shape& sizes) {
  const auto on_host = [](const Tensor& t) {
    const Tensor numbers = Tensor::empty(t.sizes(), DType::f64, t.device());
    if (t.numel() > 0) copy_values(t, numbers);
    return numbers;
  };
  const Tensor a = on_host(ctx.inputs[0]), b = on_host(ctx.inputs[1]);
  const Joint j = join_labels(a, ctx.attrs[kLabelsA].integers, b, ctx.attrs[kLabelsB].integers,
                              ctx.attrs[kLabelsOut].integers);
  const Tensor result = Tensor::from(
      contract_by(algebra, j, sizes.size(), a.to_vector<double>(), b.to_vector<double>()), sizes,
      a.device());
  const Tensor c = Tensor::empty(sizes, ctx.inputs[0].dtype(), a.device());
  if (c.numel() > 0) copy_values(result, c);
  return c;
}

void forward(OpContext& ctx) {
  const Tensor &a = ctx.inputs[0], &b = ctx.inputs[1];
  const Ints& out = ctx.attrs[kLabelsOut].integers;
  const Algebra algebra = algebra_of(ctx.attrs);
  const Joint j =
      join_labels(a, ctx.attrs[kLabelsA].integers, b, ctx.attrs[kLabelsB].integers, out);
  const Shape sizes(j.sizes.begin(), j.sizes.begin() + out.size());
  if (const OwnAlgebra* own = own_algebra(algebra)) {
    ctx.outputs.push_back(run_own(*own, ctx, sizes));
    return;
  }
  if (!runs_in_kernel(algebra))
    fail(ErrorKind::value, "contract", algebra_name(algebra), " is made of other ops");
  const Tensor* const bias = ctx.inputs.size() > 2 ? &ctx.inputs[2] : nullptr;
  if (bias && !broadcasts_to(bias->sizes(), sizes))
    fail(ErrorKind::shape, "contract", "the bias has shape ", bias->sizes(),
         ", which does not broadcast to the result's ", sizes);
  const bool tropical = algebra != Algebra::standard;
  Tensor c = bias || tropical || ctx.needs_any() ? Tensor::empty(sizes, a.dtype(), a.device())
                                                 : empty_result(j, sizes, a.dtype(), a.device());
  Tensor winner;
  if (tropical && ctx.needs_any()) winner = Tensor::empty(sizes, DType::i64, a.device());
  run_kernel(j, a, b, bias, algebra, c, winner);
  ctx.outputs.push_back(c);
  if (!tropical) {
    if (ctx.needs(0)) ctx.save_input(1);
    if (ctx.needs(1)) ctx.save_input(0);
  } else {
    ctx.save(winner);
    if (is_product(algebra)) {
      if (ctx.needs(0)) ctx.save_input(1);
      if (ctx.needs(1)) ctx.save_input(0);
    }
  }
}

// ---- derivatives

[[noreturn]] void refuse_derivative(Algebra algebra) {
  fail(ErrorKind::autograd, "contract", algebra_name(algebra), " has no derivative");
}

// Up to five labels below 15, four bits each; none: they do not fit.
std::optional<uint64_t> short_code(const Ints& la, const Ints& lb, const Ints& out,
                                   Algebra algebra) {
  if (!runs_in_kernel(algebra)) return std::nullopt;
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
// Are they distinct, and each label in the other operand or the output?
bool plain(const Ints& la, const Ints& lb, const Ints& out) {
  for (const Ints* labels : {&la, &lb, &out})
    for (size_t i = 0; i < labels->size(); ++i)
      if (place(*labels, (*labels)[i]) != i) return false;
  for (int64_t l : la)
    if (!has(lb, l) && !has(out, l)) return false;
  for (int64_t l : lb)
    if (!has(la, l) && !has(out, l)) return false;
  for (int64_t l : out)
    if (!has(la, l) && !has(lb, l)) return false;
  return true;
}
// Making the attributes takes as long as a small product: each thread keeps those it used.
struct Known {
  uint64_t code = ~uint64_t(0);
  Attrs attrs;
  bool plain = false;
};
// Null: these are not kept.
const Known* known(const Ints& la, const Ints& lb, const Ints& out, Algebra algebra) {
  thread_local const auto kept = std::make_unique<Known[]>(32);
  const auto code = short_code(la, lb, out, algebra);
  if (!code) return nullptr;
  Known& k = kept[*code * 0x9e3779b97f4a7c15u >> 59];
  if (k.code != *code) k = {*code, {la, lb, out, name_of(algebra)}, plain(la, lb, out)};
  return &k;
}
Tensor primitive(const Tensor& a, const Ints& la, const Tensor& b, const Ints& lb, const Ints& out,
                 Algebra algebra, const Tensor& bias = {}) {
  if (const Known* const k = known(la, lb, out, algebra))
    return call_primitive(a, b, bias, k->attrs);
  return call_primitive(a, b, bias, {la, lb, out, name_of(algebra)});
}

// gA = contract(g, conj b -> labels of A), gB = contract(conj a, g -> labels of B), of the bias g,
// which the walk sums.
Tensor vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  if (k == 2) return g[0];
  const Attrs& at = node.attrs();
  const Algebra algebra = algebra_of(at);
  if (own_algebra(algebra)) refuse_derivative(algebra);
  if (algebra != Algebra::standard) return tropical_vjp(node, k, g[0]);
  const Ints &la = at[kLabelsA].integers, &lb = at[kLabelsB].integers,
             &out = at[kLabelsOut].integers;
  return k == 0 ? primitive(g[0], out, conj(node.input(1)), lb, la, algebra)
                : primitive(conj(node.input(0)), la, g[0], out, lb, algebra);
}

Tensor jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  const Attrs& at = node.attrs();
  const Algebra algebra = algebra_of(at);
  if (own_algebra(algebra)) refuse_derivative(algebra);
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

// Sums (in the algebra) the labels that neither the other operand nor the output has. Where a
// negative factor turns max into min nothing is summed alone: the other operand is repeated, and
// for a user's algebra, too.
void sum_own(Operand& x, Operand& other, const Ints& out, Algebra algebra) {
  Ints axes, labels;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const int64_t l = x.labels[i];
    if (has(other.labels, l) || has(out, l)) {
      labels.push_back(l);
    } else if (is_product(algebra) || own_algebra(algebra)) {
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

// Is there a label of extent 0 that is summed?
bool sums_nothing(const Operand& x, const Ints& out) {
  for (size_t i = 0; i < x.labels.size(); ++i)
    if (x.t.sizes()[i] == 0 && !has(out, x.labels[i])) return true;
  return false;
}
// Nothing wins an empty sum: the zero is a constant. The empty sum of products, which is 0, keeps
// the operands in the graph.
Tensor empty_sum(const Operand& x, const Operand& y, const Ints& out, Algebra algebra) {
  const Tensor zero = zero_of(algebra, x.t.dtype(), x.t.device());
  const auto none = [&](const Tensor& t) {
    return t.dtype() == DType::bool_ ? cast(t, DType::u8) : t;
  };
  const Tensor sum = contract(none(x.t), x.labels, none(y.t), y.labels, out);
  return cast(add(sum, zero), x.t.dtype());
}

// Can the primitive take them as they are, with plain labels?
bool fits(const Tensor& a, const Ints& la, const Tensor& b, const Ints& lb, const Tensor& bias) {
  if (a.is_number() || b.is_number() || a.dtype() != b.dtype() || a.rank() != int64_t(la.size()) ||
      b.rank() != int64_t(lb.size()))
    return false;
  if (bias.defined() && (bias.is_number() || bias.dtype() != a.dtype())) return false;
  for (size_t i = 0; i < la.size(); ++i) {
    const size_t j = place(lb, la[i]);
    if (j < lb.size() && a.sizes()[i] != b.sizes()[j]) return false;
  }
  return true;
}

}  // namespace

Algebra algebra_of(const Attrs& a) {
  static const char* const standard = intern("standard");
  return a[kAlgebra].text == standard ? Algebra::standard
                                      : parse_algebra(a[kAlgebra].text, "contract");
}

Tensor contract(const Tensor& a, const Ints& la, const Tensor& b, const Ints& lb, const Ints& out,
                Algebra algebra, const Tensor& bias) {
  if (live_apart(a, b) || (bias.defined() && live_apart(a, bias))) {
    const Tensor all[] = {a, b, bias};
    const Tensors here = gathered("contract", {all, bias.defined() ? size_t(3) : size_t(2)});
    return contract(here[0], la, here[1], lb, out, algebra, bias.defined() ? here[2] : bias);
  }
  if (algebra == Algebra::standard && fits(a, la, b, lb, bias)) {
    const Known* const k = known(la, lb, out, algebra);
    if (k && k->plain) return call_primitive(a, b, bias, k->attrs);
    if (!k && plain(la, lb, out)) return primitive(a, la, b, lb, out, algebra, bias);
  }
  if (algebra != Algebra::standard && bias.defined())
    fail(ErrorKind::value, "contract", "a bias is added in the standard algebra, this one is ",
         name_of(algebra).text);
  const Tensor all[] = {a, b, bias};
  const DType dtype = result_dtype({all, bias.defined() ? size_t(3) : size_t(2)});
  if (algebra != Algebra::standard) check_algebra("contract", algebra, {all, 2}, dtype);
  Operand x{cast(a, dtype), la}, y{cast(b, dtype), lb};
  check_labels(x, y, out);
  take_diagonals(x);
  take_diagonals(y);
  match_extents(x, y);
  if (algebra != Algebra::standard && (sums_nothing(x, out) || sums_nothing(y, out)))
    return empty_sum(x, y, out, algebra);
  if (!runs_in_kernel(algebra) && !own_algebra(algebra))
    return contract_composed({x.t, x.labels}, {y.t, y.labels}, out, algebra);
  sum_own(x, y, out, algebra);
  sum_own(y, x, out, algebra);
  return primitive(x.t, x.labels, y.t, y.labels, out, algebra,
                   bias.defined() ? cast(bias, dtype) : bias);
}

std::pair<Tensor, Tensor> contract_with_winners(const Tensor& a, const Ints& la, const Tensor& b,
                                                const Ints& lb, const Ints& out, Algebra algebra) {
  const Joint j = join_labels(a, la, b, lb, out);
  const Shape sizes(j.sizes.begin(), j.sizes.begin() + out.size());
  const Tensor c = Tensor::empty(sizes, a.dtype(), a.device()),
               winner = Tensor::empty(sizes, DType::i64, a.device());
  run_kernel(j, a, b, nullptr, algebra, c, winner);
  return {c, winner};
}

void register_contractions() {
  OpInfo o = new_op(
      "contract", "contraction",
      "sum of products over labels, plus a bias: the kernel behind matmul and einsum",
      "y[out] = sum over the other labels of a[labels_a] * b[labels_b], + bias",
      {{"a"}, {"b"}, {"bias", false, true}},
      {ints_attr("labels_a", "one integer per axis of a"),
       ints_attr("labels_b", "one per axis of b"), ints_attr("labels_out", "one per axis of y"),
       text_attr("algebra", "standard", algebra_words())});
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
