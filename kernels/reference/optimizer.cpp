// optimizer_step: one update in place, computed in f64 and rounded once per stored number. With
// g the gradient times gain, p the parameter (PyTorch's formulas and order):
//   sgd    g += weight_decay p;  v = first step ? g : momentum v + (1 - dampening) g;
//          p -= lr (momentum = 0 ? g : nesterov ? g + momentum v : v)
//   adam   g += weight_decay p;   adamw   p *= 1 - lr weight_decay
//          m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//          p -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
#include "kernels/reference/slots.hpp"
#include "kernels/reference/walk.hpp"

#include <cmath>

namespace gradus::inline v1::reference {
namespace {

struct Sgd {
  double momentum, dampening, weight_decay;
  bool nesterov, first;
  double lr;

  void operator()(double g, double& p, double& v) const {
    g += weight_decay * p;
    if (momentum != 0) {
      v = first ? g : momentum * v + (1 - dampening) * g;
      g = nesterov ? g + momentum * v : v;
    }
    p -= lr * g;
  }
};

struct Adam {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  // adamw
  double lr, correction1, correction2;

  void operator()(double g, double& p, double& m, double& v) const {
    if (decoupled)
      p *= 1 - lr * weight_decay;
    else
      g += weight_decay * p;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    p -= lr * (m / correction1) / (std::sqrt(v / correction2) + eps);
  }
};

// A stored number that an update reads and writes; a state that is left out reads as 0.
class InPlace {
 public:
  InPlace(const Call& call, int k, const Layout& param) {
    if (!call.has_out(k)) return;
    const Layout v = call.out(k);
    call.expect_sizes("state", v, param);
    if (!is_real_float(v.dtype))
      call.refuse(GD_UNSUPPORTED, "output %d has dtype %s; f32 f64 f16 bf16 are updated", k,
                  dtype_name(v.dtype));
    before_ = std::make_unique<Walk>(v);
    after_ = std::make_unique<Walk>(v);
  }
  double read() {
    double x = 0;
    if (before_) before_->read(&x, 1);
    return x;
  }
  void write(double x) {
    if (after_) after_->write(&x, 1);
  }

 private:
  std::unique_ptr<Walk> before_, after_;
};

// in[k] as numbers of the host: n of them.
std::vector<double> step_numbers(const Call& call, int k, const char* whose, int64_t n) {
  std::vector<double> x(static_cast<size_t>(n));
  Walk(step_values(call, k, whose, n)).read(x.data(), n);
  return x;
}

// The update of one parameter, whose views begin at `in` and `out`.
void update_one(const Call& call, int in, int out) {
  const int32_t op = call.op();
  const bool sgd = op == GD_SGD;
  const Layout grad = call.in(in), param = call.out(out);
  call.expect_sizes("gradient", grad, param);
  if (!is_real_float(grad.dtype))
    call.refuse(GD_UNSUPPORTED, "a gradient of dtype %s", dtype_name(grad.dtype));
  const auto hyper = step_numbers(call, in + 1, "hyper", sgd ? 1 : 3);
  const double gain = step_numbers(call, in + 2, "gain", 1)[0];
  const double* d = call.numbers();
  if (sgd ? d[0] != 0 && param.count() > 0 && !call.has_out(out + 1)
          : param.count() > 0 && !(call.has_out(out + 1) && call.has_out(out + 2)))
    call.refuse(GD_INVALID, "a state is left out");

  Walk gradient(grad);
  InPlace p(call, out, param), first(call, out + 1, param);
  const auto update = [&](auto&& step) {
    for (int64_t i = 0, n = param.count(); i < n; ++i) {
      double g, x = p.read();
      gradient.read(&g, 1);
      step(gain * g, x);
      p.write(x);
    }
  };
  if (sgd) {
    const Sgd rule{d[0], d[1], d[2], d[3] != 0, call.integer(0) != 0, hyper[0]};
    update([&](double g, double& x) {
      double v = first.read();
      rule(g, x, v);
      first.write(v);
    });
  } else {
    const Adam rule{d[0], d[1], d[2], d[3], op == GD_ADAMW, hyper[0], hyper[1], hyper[2]};
    InPlace second(call, out + 2, param);
    update([&](double g, double& x) {
      double m = first.read(), v = second.read();
      rule(g, x, m, v);
      first.write(m);
      second.write(v);
    });
  }
}

}  // namespace

void optimizer_step(Call& call) {
  const auto [outs, parameters] = expect_optimizer(call);
  for (int k = 0; k < parameters; ++k) update_one(call, 3 * k, outs * k);
}

}  // namespace gradus::reference
