// The slot optimizer_step: one update in place, in f64, rounded once per stored number. With g the
// gradient times gain and p the parameter (PyTorch's formulas and order):
//   sgd    g += weight_decay p;  v = first step ? g : momentum v + (1 - dampening) g;
//          p -= lr (momentum = 0 ? g : nesterov ? g + momentum v : v)
//   adam   g += weight_decay p;   adamw   p *= 1 - lr weight_decay
//          m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//          p -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/lines.hpp"

namespace gradus::cpu {
namespace {

constexpr const char* kSlot = "optimizer_step";
constexpr const char* kNames[] = {"sgd", "adam", "adamw"};

struct Sgd {
  double momentum, dampening, weight_decay;
  bool nesterov, first;
  double lr, gain;

  void operator()(const double* grad, double* p, double* v, double*, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      double g = gain * grad[i] + weight_decay * p[i];
      if (momentum != 0) {
        v[i] = first ? g : momentum * v[i] + (1 - dampening) * g;
        g = nesterov ? g + momentum * v[i] : v[i];
      }
      p[i] -= lr * g;
    }
  }
};

struct Adam {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  // adamw
  double lr, correction1, correction2, gain;

  void operator()(const double* grad, double* p, double* m, double* v, int64_t n) const {
    const double keep = decoupled ? 1 - lr * weight_decay : 1.0, decay = decoupled ? 0.0 : weight_decay;
    for (int64_t i = 0; i < n; ++i) {
      const double x = p[i] * keep, g = gain * grad[i] + (decay != 0 ? decay * x : 0.0);
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      p[i] = x - lr * (m[i] / correction1) / (__builtin_sqrt(v[i] / correction2) + eps);
    }
  }
};

struct Views {
  Walk walk;  // grad, param, states
  int count = 0;
  int32_t dtype[4];
};

// Blocks of all views as f64, through the rule, and back (all but the gradient).
template <class Rule>
void update(gd_device* d, const Views& v, const Rule& rule) {
  parallel_range(d, v.walk.count(), kGrain / 4, [&](int64_t begin, int64_t end) {
    alignas(64) double x[4][kBlock] = {};
    alignas(64) char raw[kBlock * 8];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = shorter(end - i, kBlock);
      for (int k = 0; k < v.count; ++k) {
        const bool same = v.dtype[k] == GD_F64, plain = v.walk.contiguous(k);
        const char* from = v.walk.base[k] + i * v.walk.item[k];
        if (!plain) {
          gather_block(v.walk, k, i, n, raw);
          from = raw;
        }
        if (same)
          memcpy(x[k], from, size_t(n) * 8);
        else
          d->convert(v.dtype[k], GD_F64)(from, x[k], n);
      }
      rule(x[0], x[1], x[2], x[3], n);
      for (int k = 1; k < v.count; ++k) {
        const bool plain = v.walk.contiguous(k);
        char* const to = plain ? v.walk.base[k] + i * v.walk.item[k] : raw;
        if (v.dtype[k] == GD_F64)
          memcpy(to, x[k], size_t(n) * 8);
        else
          d->convert(GD_F64, v.dtype[k])(x[k], to, n);
        if (!plain) scatter_block(v.walk, k, i, n, raw);
      }
    }
  });
}

// The first n numbers of a one-dimensional view of f64 or f32.
gd_status step_values(gd_error* e, const char* whose, const gd_view& v, int64_t n, double* to) {
  if (v.rank > 1 || count_of(v) < n || (v.dtype != GD_F64 && v.dtype != GD_F32))
    return refuse(e, GD_INVALID, kSlot, "%s should hold %lld numbers of f64 or f32", whose,
                  static_cast<long long>(n));
  for (int64_t k = 0; k < n; ++k) {
    const int64_t at = v.offset + (v.rank ? k * v.strides[0] : 0);
    to[k] = v.dtype == GD_F64 ? static_cast<const double*>(v.data)[at]
                              : double(static_cast<const float*>(v.data)[at]);
  }
  return GD_OK;
}

gd_status take_views(const gd_call* c, int states, Views& v, gd_error* e) {
  const gd_view* all[4] = {&c->in[0], &c->out[0], c->n_out > 1 ? &c->out[1] : nullptr,
                           c->n_out > 2 ? &c->out[2] : nullptr};
  for (int k = 0; k < 2 + states; ++k) {
    if (!all[k] || (!all[k]->data && count_of(c->out[0]) > 0))
      return refuse(e, GD_INVALID, kSlot, "%s: a state is left out", kNames[c->op]);
    if (!same_sizes(*all[k], c->out[0]))
      return refuse(e, GD_INVALID, kSlot, "%s: gradient, parameter and states differ in sizes",
                    kNames[c->op]);
    if (!is_real_float(DType(all[k]->dtype)))
      return refuse(e, GD_UNSUPPORTED, kSlot, "%s: dtype %s is not updated; f32 f64 f16 bf16 are",
                    kNames[c->op], dtype_name(DType(all[k]->dtype)));
    add_view(v.walk, *all[k]);
    v.dtype[v.count++] = all[k]->dtype;
  }
  sort_axes(v.walk, 1);
  return GD_OK;
}

}  // namespace

gd_status slot_optimizer_step(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  if (gd_status s = check_call(e, kSlot, c, {3, 3, 1, 3, 4, 0, 4u, 6u})) return s;
  if (c->op < GD_SGD || c->op > GD_ADAMW)
    return refuse(e, GD_INVALID, kSlot, "no optimizer has code %d", c->op);
  const bool sgd = c->op == GD_SGD;
  if (sgd && (c->n_ints < 1 || !c->ints))
    return refuse(e, GD_INVALID, kSlot, "sgd: expected 1 int, got %d", c->n_ints);
  double hyper[3], gain = 1;
  if (gd_status s = step_values(e, "hyper", c->in[1], sgd ? 1 : 3, hyper)) return s;
  if (c->in[2].data)
    if (gd_status s = step_values(e, "gain", c->in[2], 1, &gain)) return s;
  const double* k = c->doubles;
  Views v;
  if (gd_status s = take_views(c, sgd ? (k[0] != 0 ? 1 : 0) : 2, v, e)) return s;
  if (v.walk.count() == 0) return GD_OK;
  if (sgd)
    update(d, v, Sgd{k[0], k[1], k[2], k[3] != 0, c->ints[0] != 0, hyper[0], gain});
  else
    update(d, v, Adam{k[0], k[1], k[2], k[3], c->op == GD_ADAMW, hyper[0], hyper[1], hyper[2], gain});
  return GD_OK;
}

}  // namespace gradus::cpu
