// Steps are made depth first, so at most two results wait, and a level is a place in a stack.
#include "ops/contract/operations/program.hpp"

#include <algorithm>

namespace gradus::inline v1 {

View Scratch::take(const Shape& sizes) {
  const int64_t n = rounded(numel_of(sizes), dtype_);
  if (workspace_.defined() && used_ + n <= workspace_.numel()) {
    used_ += n;
    return {&workspace_, contiguous_strides(sizes), used_ - n};
  }
  Tensor& own = own_[count_++] = Tensor::empty(sizes, dtype_, device_);
  return {&own, own.strides()};
}

int Program::apply(const Statement& s, int a, int b) {
  if (s.id < 0) return a;
  Step& step = steps_[count_];
  step = {&s, {a, b}, std::max(level_of(a), -1)};
  if (step.level < 0) step.level = level_of(b);
  if (step.level < 0)
    step.level = level_++;
  else if (level_of(a) >= 0 && level_of(b) >= 0)
    --level_;
  // The last one writes what is asked for; one that is not the last has made those before it wait.
  for (int value : {a, b}) waiting_ = std::max(waiting_, level_of(value) + 1);
  return kResults + count_++;
}

bool Program::reads(int value) const {
  for (int k = 0; k < count_; ++k)
    if (steps_[k].operands[0] == value || steps_[k].operands[1] == value) return true;
  return value_ == value;
}

void Program::run(const View (&views)[kResults], const Shape& sizes, const View& out,
                  Scratch& scratch, bool chain) const {
  if (count_ > 1 && chain) return run_chain(views, sizes, out);
  if (count_ > 0) return run_steps(views, sizes, out, scratch);
  const View& from = views[value_];
  KernelCall call(GD_COPY);
  call.in(*from.tensor, sizes, from.strides).at(from.at());
  call.out(*out.tensor, sizes, out.strides).at(out.at());
  call.run();
}

void Program::run_chain(const View (&views)[kResults], const Shape& sizes, const View& out) const {
  KernelCall call(GD_CHAIN);
  int place[kResults], n_in = 0;  // of each value among the views of the call
  for (int v = 0; v < kResults; ++v) {
    if (!reads(v)) continue;
    call.in(*views[v].tensor, sizes, views[v].strides).at(views[v].at());
    place[v] = n_in++;
  }
  call.out(*out.tensor, sizes, out.strides).at(out.at()).integer(count_);
  for (int k = 0; k < count_; ++k) {
    const Step& s = steps_[k];
    call.integer(GD_POINTWISE).integer(s.statement->id).integer(0);
    call.integer(int64_t(s.statement->parameters.size())).integer(s.operands[1] < 0 ? 1 : 2);
    for (int v : s.operands)
      if (v >= 0) call.integer(v < kResults ? place[v] : n_in + v - kResults);
    call.integer(int64_t(out.tensor->dtype())).integer(k + 1 == count_ ? 0 : -1);
    for (double x : s.statement->parameters) call.number(x);
  }
  call.run();
}

void Program::run_steps(const View (&views)[kResults], const Shape& sizes, const View& out,
                        Scratch& scratch) const {
  View waiting[2];
  for (int k = 0; k < waiting_; ++k) waiting[k] = scratch.take(sizes);
  for (int k = 0; k < count_; ++k) {
    const Step& s = steps_[k];
    KernelCall call(GD_POINTWISE, s.statement->id);
    for (int v : s.operands) {
      if (v < 0) continue;
      const View& in = v < kResults ? views[v] : waiting[level_of(v)];
      call.in(*in.tensor, sizes, in.strides).at(in.at());
    }
    for (double x : s.statement->parameters) call.number(x);
    const View& to = k + 1 == count_ ? out : waiting[s.level];
    call.out(*to.tensor, sizes, to.strides).at(to.at()).run();
  }
}

}  // namespace gradus
