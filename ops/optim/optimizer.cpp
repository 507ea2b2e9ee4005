// Updates through the optimizer slot.
#include "ops/optim/optimizer.hpp"

#include "engine/kernel_call.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"

#include <cmath>
#include <set>

namespace gradus::inline v1::optim {

namespace {

const char* name_of(const Rule& rule) {
  if (std::holds_alternative<Sgd>(rule)) return "sgd";
  return std::get<Adam>(rule).decoupled ? "adamw" : "adam";
}

Device& device_of(const nn::NamedTensors& parameters, const char* who) {
  if (parameters.empty()) fail(ErrorKind::value, who, "there are no parameters to optimise");
  return parameters[0].second.device();
}

std::vector<const char*> state_names(const Rule& rule) {
  if (const Sgd* sgd = std::get_if<Sgd>(&rule)) {
    if (sgd->momentum == 0) return {};
    return {"velocity"};
  }
  return {"m", "v"};
}

void check_rule(const Rule& rule) {
  const auto check = [&](bool fine, const char* what, double x, const char* expected) {
    if (!fine) fail(ErrorKind::value, name_of(rule), what, " is ", x, ", expected ", expected);
  };
  if (const Sgd* s = std::get_if<Sgd>(&rule)) {
    check(s->momentum >= 0 && s->momentum < INFINITY, "momentum", s->momentum, "0 or more");
    check(s->weight_decay >= 0 && s->weight_decay < INFINITY, "weight_decay", s->weight_decay,
          "0 or more");
    if (s->nesterov && (s->momentum == 0 || s->dampening != 0))
      fail(ErrorKind::value, "sgd",
           "nesterov needs a momentum above 0 and no dampening, got momentum ", s->momentum,
           " and dampening ", s->dampening);
    return;
  }
  const Adam& a = std::get<Adam>(rule);
  check(a.beta1 >= 0 && a.beta1 < 1, "beta1", a.beta1, "a number from 0 to below 1");
  check(a.beta2 >= 0 && a.beta2 < 1, "beta2", a.beta2, "a number from 0 to below 1");
  check(a.eps >= 0 && a.eps < INFINITY, "eps", a.eps, "0 or more");
  check(a.weight_decay >= 0 && a.weight_decay < INFINITY, "weight_decay", a.weight_decay,
        "0 or more");
}

}  // namespace

Optimizer::Optimizer(nn::NamedTensors parameters, const Rule& rule)
    : parameters_(std::move(parameters)),
      rule_(rule),
      per_parameter_(state_names(rule).size()),
      block_(4, device_of(parameters_, name_of(rule))) {
  check_rule(rule_);
  std::set<std::string> names;
  for (const auto& [name, p] : parameters_) {
    if (!p.is_leaf() || !p.requires_grad())
      fail(ErrorKind::value, name_of(rule_), "the parameter \"", name,
           "\" is no leaf that requires a gradient");
    if (!names.insert(name).second)
      fail(ErrorKind::value, name_of(rule_), "two parameters are called \"", name, "\"");
    for (const char* state : state_names(rule_))
      state_.emplace_back(join(name, ".", state), Tensor::zeros(p.sizes(), p.dtype(), p.device()));
  }
  hyper_ = block_.view(0, 3);
  one_ = block_.view(3);
}

void Optimizer::zero_grad() const {
  for (const auto& [name, p] : parameters_) p.set_grad(Tensor());
}

void Optimizer::step(double lr, const Tensor& gain) {
  prepare(lr);
  apply(gain);
}

void Optimizer::prepare(double lr) {
  ++steps_;
  block_.set(0, lr);
  if (const Adam* a = std::get_if<Adam>(&rule_)) {
    block_.set(1, 1 - std::pow(a->beta1, double(steps_)));
    block_.set(2, 1 - std::pow(a->beta2, double(steps_)));
  }
  block_.set(3, 1);
  block_.upload();
}

void Optimizer::apply(const Tensor& gain) {
  const NoGrad no_grad;
  const CurrentOp now(name_of(rule_));
  for (size_t k = 0; k < parameters_.size(); ++k) update(k, gain.defined() ? gain : one_);
}

Tensor Optimizer::state_of(size_t parameter, size_t i) const {
  return state_[parameter * per_parameter_ + i].second;
}

void Optimizer::update(size_t k, const Tensor& gain) {
  const Tensor& p = parameters_[k].second;
  const Tensor g = p.grad().defined() ? contiguous(p.grad()) : Tensor();
  if (!g.defined() || p.numel() == 0) return;
  prepare_write(p, name_of(rule_));
  for (size_t i = 0; i < per_parameter_; ++i) prepare_write(state_of(k, i), name_of(rule_));

  const Tensor m = per_parameter_ > 0 ? state_of(k, 0) : Tensor();
  if (const Sgd* s = std::get_if<Sgd>(&rule_)) {
    KernelCall call(GD_OPTIMIZER_STEP, GD_SGD);
    call.in(g).in(hyper_).in(gain).out(p);
    if (m.defined())
      call.out(m);
    else
      call.out_none();
    // A zero velocity makes the first step like any other, unless it is dampened. So the integer,
    // which a recorded step would repeat, stays 0 wherever it can.
    const bool dampened_first = steps_ == 1 && s->dampening != 0;
    if (dampened_first)
      for (KernelWrapper* w : p.device().wrappers())
        w->unseen("the first step with dampening is unlike later ones; run it before the capture");
    call.number(s->momentum).number(s->dampening).number(s->weight_decay).number(s->nesterov);
    call.integer(dampened_first).run();
    return;
  }
  const Adam& a = std::get<Adam>(rule_);
  const Tensor v = state_of(k, 1);
  KernelCall call(GD_OPTIMIZER_STEP, a.decoupled ? GD_ADAMW : GD_ADAM);
  call.in(g).in(hyper_).in(gain).out(p).out(m).out(v);
  call.number(a.beta1).number(a.beta2).number(a.eps).number(a.weight_decay).run();
}

void Optimizer::load(const nn::NamedTensors& state, int64_t steps, const std::string& source) {
  nn::load_into(state_, state, source, "optimizer state");
  steps_ = steps;
}

Tensor clip_gain(const nn::NamedTensors& parameters, double max_norm, const Tensor& gain) {
  const NoGrad no_grad;
  Tensor total;
  for (const auto& [name, p] : parameters) {
    if (!p.grad().defined()) continue;
    // Scaled gradients are scaled back first: their squares could overflow.
    const Tensor g = gain.defined() ? mul(p.grad(), cast(gain, p.grad().dtype())) : p.grad();
    const Tensor squares = sum(square(g));
    total = total.defined() ? add(total, squares) : squares;
  }
  if (!total.defined()) return total;
  const Tensor clip = minimum(div(Tensor(max_norm), add(sqrt(total), Tensor(1e-6))), Tensor(1.0));
  return gain.defined() ? mul(clip, gain) : clip;
}

}  // namespace gradus::optim
