// Plans are carried out here: views of the tensors over the joint index space, then the few calls
// of the kind. All that lies between is in the workspace.
#include "engine/forward.hpp"
#include "ops/contract/operations/operation.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1 {

namespace {

using Kind = OperationKind;
using Number = std::complex<double>;

// From the first element that a tensor reaches to behind its last.
std::pair<int64_t, int64_t> reach(const Tensor& t) {
  int64_t low = t.offset(), high = low + 1;
  for (size_t i = 0; i < t.sizes().size(); ++i)
    (t.strides()[i] < 0 ? low : high) += t.strides()[i] * (t.sizes()[i] - 1);
  return {low, high};
}
bool may_overlap(const Tensor& a, const Tensor& b) {
  if (&a.storage() != &b.storage() || a.numel() == 0 || b.numel() == 0) return false;
  const auto [a_low, a_high] = reach(a);
  const auto [b_low, b_high] = reach(b);
  return a_low < b_high && b_low < a_high;
}

void check_factor(const char* name, const char* factor, Number x, DType dtype) {
  if (!is_complex(dtype) && x.imag() != 0)
    fail(ErrorKind::value, name, factor, " has an imaginary part, the operands are ", dtype);
  if (is_integer(dtype) && !(std::abs(x.real()) <= 0x1p53 && std::trunc(x.real()) == x.real()))
    fail(ErrorKind::value, name, factor, " is ", x.real(), ", the operands are ", dtype);
}

}  // namespace

class Execution {
 public:
  Execution(const Operation& plan, Operands in, const Factors& f, const Tensor& workspace)
      : plan_(plan),
        name_(kind_info(plan.kind_).name),
        workspace_(workspace),
        scratch_(workspace, plan.dtype_, *plan.device_) {
    if (in.size() != plan.operands_.size())
      fail(ErrorKind::value, name_, "the plan is for ", plan.operands_.size(), " operands, got ",
           in.size());
    take_factors(f);
    for (size_t k = 0; k < in.size(); ++k) {
      in_.push_back(in[k]);
      if (is_read(k))
        check(kind_info(plan.kind_).letters[k], in[k], plan_.operands_[k].sizes, true);
    }
    if (workspace.defined()) check_workspace();
  }

  Tensor run(const Tensor& into) {
    if (into.defined()) {
      check("D", into, plan_.sizes_, false);
      prepare_write(into, name_);
    }
    d_ = into.defined() ? into : Tensor::empty(plan_.sizes_, plan_.dtype_, *plan_.device_);
    if (d_.numel() == 0) return d_;
    for (size_t k = 0; k < in_.size(); ++k) see(k);
    out_ = {&d_, d_.strides()};
    if (plan_.kind_ == Kind::contraction)
      contract();
    else
      reduce_and_combine();
    return d_;
  }

 private:
  using Scale = Operation::Scale;

  // Of a contraction the first factor is that of A and of B.
  void take_factors(const Factors& f) {
    const Kind kind = plan_.kind_;
    const Number second = kind == Kind::binary ? f.gamma : f.beta;
    factors_[0] = f.alpha;
    factors_[1] = kind == Kind::contraction ? f.alpha : second;
    factors_[2] = kind == Kind::contraction ? f.beta : f.gamma;
    check_factor(name_, "alpha", f.alpha, plan_.dtype_);
    if (in_use(1))
      check_factor(name_, kind == Kind::binary ? "gamma" : "beta", second, plan_.dtype_);
    if (in_use(2))
      check_factor(name_, kind == Kind::trinary ? "gamma" : "beta", factors_[2], plan_.dtype_);
  }
  bool in_use(size_t k) const { return k < plan_.operands_.size(); }
  bool is_read(size_t k) const { return factors_[k] != 0.0; }
  Scale scale(size_t k) const {
    return factors_[k] == 0.0 ? Scale::zero : factors_[k] == 1.0 ? Scale::one : Scale::other;
  }

  void check(const char* whose, const Tensor& t, const Shape& sizes, bool read) const {
    if (!t.defined()) fail(ErrorKind::value, name_, whose, " is undefined, its factor is not 0");
    if (t.sizes() != sizes)
      fail(ErrorKind::shape, name_, "the plan is for ", whose, " of shape ", sizes, ", got ",
           t.sizes());
    if (t.dtype() != plan_.dtype_)
      fail(ErrorKind::dtype, name_, "the plan is for ", plan_.dtype_, ", ", whose, " is ",
           t.dtype());
    if (&t.device() != plan_.device_)
      fail(ErrorKind::device, name_, "the plan is for ", plan_.device_->name(), ", ", whose,
           " lives on ", t.device().name());
    if (read &&
        ((grad_enabled() && t.requires_grad()) || (forward_mode() && t.tangent().defined())))
      fail(ErrorKind::autograd, name_, whose,
           " asks for a derivative, and plans of operations are not recorded; detach() it, or use "
           "einsum and the ops");
  }
  void check_workspace() const {
    check("the workspace", workspace_, workspace_.sizes(), false);
    if (!workspace_.is_contiguous() || workspace_.numel() < plan_.workspace_)
      fail(ErrorKind::value, name_, "the workspace has shape ", workspace_.sizes(), ", expected ",
           plan_.workspace_, " elements in a row");
    prepare_write(workspace_, name_);
  }

  // The operand as D's writes leave it: elements that they would reach are read from a copy.
  void see(size_t k) {
    if (!is_read(k)) return;
    views_[k] = over_joint(k, {&in_[k], in_[k].strides()});
    if (!may_overlap(in_[k], d_)) return;
    const bool summed =
        plan_.kind_ == Kind::contraction ? k < 2 : plan_.kind_ == Kind::reduction && k == 0;
    if (!summed && is_d(k)) return;
    in_[k] = dense_copy(in_[k]);
    views_[k] = over_joint(k, {&in_[k], in_[k].strides()});
  }
  bool is_d(size_t k) const {
    if (&in_[k].storage() != &d_.storage() || in_[k].offset() != d_.offset()) return false;
    for (size_t i = 0; i < d_.sizes().size(); ++i)
      if (d_.sizes()[i] > 1 && views_[k].strides[i] != d_.strides()[i]) return false;
    return true;
  }
  // From the operand's axes to the joint ones.
  View over_joint(size_t k, const View& own) const {
    View out{own.tensor, Shape(plan_.joint_.size(), 0), own.offset};
    const Ints& places = plan_.operands_[k].places;
    for (size_t i = 0; i < places.size(); ++i)
      if (places[i] >= 0) out.strides[size_t(places[i])] += own.strides[i];
    return out;
  }

  // An operand that is summed, after its statement and the sum over what it alone has.
  View ready(size_t k) {
    const Operation::Operand& o = plan_.operands_[k];
    if (o.staged.id < 0 && !o.sums_alone) return views_[k];
    View own{&in_[k], in_[k].strides()};
    if (o.staged.id >= 0) {
      const View staged = scratch_.take(o.sizes);
      Program p;
      p.give(p.apply(o.staged, 0));
      p.run({own}, o.sizes, staged, scratch_, false);
      own = staged;
    }
    if (o.sums_alone) {
      const Shape sizes = o.summed_sizes();
      const View sums = scratch_.take(sizes);
      reduce(GD_SUM, own, o.sizes, sums, sizes);
      own = sums;
    }
    return over_joint(k, own);
  }
  void reduce(int op, const View& from, const Shape& sizes, const View& to, const Shape& reduced) {
    KernelCall call(GD_REDUCE, op);
    call.in(*from.tensor, sizes, from.strides).at(from.at());
    call.out(*to.tensor, reduced, to.strides).at(to.at()).run();
  }

  void contract() {
    const bool reads_c = in_use(2) && is_read(2);
    const bool copied = reads_c && plan_.operands_[2].op.id < 0;
    const bool bias = copied && factors_[2] == 1.0 && !is_d(2);
    if (reads_c && !bias && !(copied && is_d(2))) {
      Program p;
      p.give(p.apply(plan_.operands_[2].op, 2));
      p.run(views_, plan_.sizes_, out_, scratch_, false);
    }
    // Nothing of A and B is read where alpha is 0: the sum is over no terms.
    Shape joint = plan_.joint_;
    View a, b;
    if (is_read(0)) {
      a = ready(0);
      b = ready(1);
    } else {
      joint = plan_.sizes_;
      joint.push_back(0);
      a = b = {&d_, Shape(joint.size(), 0)};
    }
    KernelCall call(GD_CONTRACT);
    call.in(*a.tensor, joint, a.strides).at(a.at());
    call.in(*b.tensor, joint, b.strides).at(b.at());
    if (bias) call.in(*views_[2].tensor, plan_.sizes_, views_[2].strides).at(views_[2].at());
    call.integer(int64_t(plan_.sizes_.size())).integer(GD_STANDARD);
    call.integer(plan_.operands_[0].conj).integer(plan_.operands_[1].conj);
    for (const Number x : {factors_[0], reads_c && !bias ? factors_[2] : Number(0)})
      call.number(x.real()).number(x.imag());
    if (plan_.after_.id >= 0) call.integer(plan_.after_.id);
    for (const double x : plan_.after_.parameters) call.number(x);
    call.out(d_, plan_.sizes_, out_.strides).run();
  }

  // What is reduced lies in D already where C does not come to it.
  void reduce_and_combine() {
    const bool reduces = plan_.kind_ == Kind::reduction;
    const bool alone = !in_use(1) || !is_read(1);
    if (reduces && is_read(0)) {
      const View a = ready(0);
      View sums = alone ? out_ : scratch_.take(plan_.sizes_);
      Shape sizes = plan_.sizes_;
      sums.strides.resize(plan_.joint_.size());
      sizes.resize(plan_.joint_.size(), 1);
      reduce(plan_.reduction_, a, plan_.joint_, sums, sizes);
      views_[0] = sums;
    }
    const Scale scales[kMostOperands] = {scale(0), scale(1), scale(2)};
    const Program p = plan_.program(scales);
    if (reduces && alone && p.steps() == 0 && is_read(0)) return;
    fill_factors(p);
    // A wrapper may have the calls done on a device that has no chains.
    p.run(views_, plan_.sizes_, out_, scratch_,
          plan_.chains() && plan_.device_->wrappers().empty());
  }

  void fill_factors(const Program& p) {
    View all;
    const Shape scalar;
    for (size_t k = 0; k < kMostOperands; ++k) {
      if (!p.reads(Program::kFactors + int(k))) continue;
      if (!all.tensor) all = scratch_.take({int64_t(kMostOperands)});
      const View one{all.tensor, Shape(plan_.sizes_.size(), 0), all.offset + int64_t(k)};
      KernelCall call(GD_FILL);
      call.number(factors_[k].real()).number(factors_[k].imag());
      call.integer(int64_t(factors_[k].real()));
      call.out(*one.tensor, scalar, one.strides).at(one.at()).run();
      views_[Program::kFactors + int(k)] = one;
    }
  }

  const Operation& plan_;
  const char* const name_;
  const Tensor& workspace_;
  Scratch scratch_;
  SmallVector<Tensor, kMostOperands> in_;
  Number factors_[kMostOperands];  // of each operand
  Tensor d_;
  View out_, views_[Program::kResults];
};

Tensor Operation::execute(Operands operands, const Factors& factors, const Tensor& into,
                          const Tensor& workspace) const {
  const CurrentOp now(kind_info(kind_).name);
  return Execution(*this, operands, factors, workspace).run(into);
}

}  // namespace gradus
