// The slot optimizer_step: one update in place, in f32 if every array is f32, else in f64 with one
// rounding per stored number. With g the gradient times gain and p the parameter (PyTorch's
// formulas):
//   sgd    g += weight_decay p;  v = first step ? g : momentum v + (1 - dampening) g;
//          p -= lr (momentum = 0 ? g : nesterov ? g + momentum v : v)
//   adam   g += weight_decay p;   adamw   p *= 1 - lr weight_decay
//          m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//          p -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/lines.hpp"

namespace gradus::inline v1::cpu {
namespace {

constexpr const char* kSlot = "optimizer_step";
constexpr const char* kNames[] = {"sgd", "adam", "adamw"};

// The rules; T is f32 or f64, numbers of the step are rounded to it once.
struct Sgd {
  double momentum, dampening, weight_decay;
  bool nesterov, first;
  double lr, gain;

  template <class T>
  void operator()(const T* grad, T* p, T* v, T*, int64_t n) const {
    const T mu = T(momentum), fresh = T(1 - dampening), decay = T(weight_decay), rate = T(lr),
            scale = T(gain);
    if (momentum == 0) {
      for (int64_t i = 0; i < n; ++i) p[i] -= rate * (scale * grad[i] + decay * p[i]);
      return;
    }
    const T keep = first ? T(0) : mu, take = first ? T(1) : fresh;
    for (int64_t i = 0; i < n; ++i) {
      const T g = scale * grad[i] + decay * p[i];
      const T now = first ? g : keep * v[i] + take * g;
      v[i] = now;
      p[i] -= rate * (nesterov ? g + mu * now : now);
    }
  }
};

struct Adam {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  // adamw
  double lr, correction1, correction2, gain;

  template <class T>
  void operator()(const T* grad, T* p, T* m, T* v, int64_t n) const {
    const T b1 = T(beta1), b2 = T(beta2), rest1 = T(1 - beta1), rest2 = T(1 - beta2),
            small = T(eps), scale = T(gain), keep = decoupled ? T(1 - lr * weight_decay) : T(1),
            decay = decoupled ? T(0) : T(weight_decay), rate = T(lr / correction1),
            unbias2 = T(1 / correction2);
    for (int64_t i = 0; i < n; ++i) {
      const T x = p[i] * keep, g = scale * grad[i] + decay * p[i];
      const T m1 = b1 * m[i] + rest1 * g, v1 = b2 * v[i] + rest2 * g * g;
      m[i] = m1;
      v[i] = v1;
      p[i] = x - rate * m1 / (root(v1 * unbias2) + small);
    }
  }
  static float root(float x) { return __builtin_sqrtf(x); }
  static double root(double x) { return __builtin_sqrt(x); }
};

struct Views {
  Walk walk;  // grad, param, states
  int count = 0;
  int32_t dtype[4];
};

// Blocks of all views as T through the rule, and back (all but the gradient).
template <class T, class Rule>
void update_as(gd_device* d, const Views& v, const Rule& rule) {
  constexpr int32_t own = sizeof(T) == 4 ? GD_F32 : GD_F64;
  parallel_range(d, v.walk.count(), kGrain / 2, [&](int64_t begin, int64_t end) {
    alignas(64) T room[4][kBlock];
    alignas(64) char raw[kBlock * 8];
    T* x[4] = {};
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = shorter(end - i, kBlock);
      for (int k = 0; k < v.count; ++k) {
        char* from = v.walk.base[k] + i * v.walk.item[k];
        const bool plain = v.walk.contiguous(k), same = v.dtype[k] == own;
        x[k] = plain && same ? reinterpret_cast<T*>(from) : room[k];
        if (plain && same) continue;
        if (!plain) {
          from = same ? reinterpret_cast<char*>(room[k]) : raw;
          gather_block(v.walk, k, i, n, from);
        }
        if (!same) d->convert(v.dtype[k], own)(from, room[k], n);
      }
      rule(x[0], x[1], x[2], x[3], n);
      for (int k = 1; k < v.count; ++k) {
        if (x[k] != room[k]) continue;
        const bool plain = v.walk.contiguous(k), same = v.dtype[k] == own;
        char* const to = plain ? v.walk.base[k] + i * v.walk.item[k] : raw;
        if (!same) d->convert(own, v.dtype[k])(room[k], to, n);
        if (!plain) scatter_block(v.walk, k, i, n, same ? reinterpret_cast<char*>(room[k]) : raw);
      }
    }
  });
}
template <class Rule>
void update(gd_device* d, const Views& v, const Rule& rule) {
  bool narrow = true;
  for (int k = 0; k < v.count; ++k) narrow = narrow && v.dtype[k] == GD_F32;
  narrow ? update_as<float>(d, v, rule) : update_as<double>(d, v, rule);
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

// Parameter `which` of the call: its gradient, itself, its states.
struct Group {
  const gd_view *in, *out;
  int states;
  const gd_view& view(int k) const { return k == 0 ? in[0] : out[k - 1]; }
};

gd_status take_views(const gd_call* c, const Group& g, Views& v, gd_error* e) {
  for (int k = 0; k < 2 + g.states; ++k) {
    const gd_view& view = g.view(k);
    if (!view.data && count_of(g.out[0]) > 0)
      return refuse(e, GD_INVALID, kSlot, "%s: a state is left out", kNames[c->op]);
    if (!same_sizes(view, g.out[0]))
      return refuse(e, GD_INVALID, kSlot, "%s: gradient, parameter and states differ in sizes",
                    kNames[c->op]);
    if (!is_real_float(DType(view.dtype)))
      return refuse(e, GD_UNSUPPORTED, kSlot, "%s: dtype %s is not updated; f32 f64 f16 bf16 are",
                    kNames[c->op], dtype_name(DType(view.dtype)));
    add_view(v.walk, view);
    v.dtype[v.count++] = view.dtype;
  }
  sort_axes(v.walk, 1);
  return GD_OK;
}

bool row_major(const gd_view& v) {
  int64_t expect = 1;
  for (int d = v.rank - 1; d >= 0; --d) {
    if (v.sizes[d] != 1 && v.strides[d] != expect) return false;
    expect *= v.sizes[d];
  }
  return true;
}

// Small and plain: every view f32 and row-major. Then there is nothing to arrange.
template <class Rule>
bool update_small(const Group& g, const Rule& rule) {
  const int64_t n = count_of(g.out[0]);
  if (n > kGrain / 2) return false;
  float* x[4] = {};
  for (int k = 0; k < 2 + g.states; ++k) {
    const gd_view& v = g.view(k);
    if (v.dtype != GD_F32 || !v.data || !same_sizes(v, g.out[0]) || !row_major(v)) return false;
    x[k] = start_as<float>(v);
  }
  rule(x[0], x[1], x[2], x[3], n);
  return true;
}

// Learning rate, corrections and gain of one parameter.
gd_status take_numbers(gd_error* e, const Group& g, bool sgd, double* hyper, double* gain) {
  if (gd_status s = check_view(e, kSlot, "input", 1, g.in[1], false, false)) return s;
  if (gd_status s = step_values(e, "hyper", g.in[1], sgd ? 1 : 3, hyper)) return s;
  *gain = 1;
  if (!g.in[2].data) return GD_OK;
  if (gd_status s = check_view(e, kSlot, "input", 2, g.in[2], false, false)) return s;
  return step_values(e, "gain", g.in[2], 1, gain);
}

template <class Rule>
gd_status update_group(gd_device* d, const gd_call* c, const Group& g, const Rule& rule,
                       gd_error* e) {
  if (update_small(g, rule)) return GD_OK;
  if (gd_status s = check_view(e, kSlot, "output", 0, g.out[0], false, true)) return s;
  for (int k = 0; k < 2 + g.states; ++k)
    if (gd_status s = check_view(e, kSlot, "view", k, g.view(k), k > 1, k > 0)) return s;
  Views v;
  if (gd_status s = take_views(c, g, v, e)) return s;
  if (v.walk.count() > 0) update(d, v, rule);
  return GD_OK;
}

}  // namespace

gd_status slot_optimizer_step(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  if (!c || c->struct_size < sizeof(gd_call) || !c->in || !c->out || !c->doubles ||
      c->n_doubles < 4)
    return refuse(e, GD_INVALID, kSlot, "the call is broken: views or the 4 numbers are missing");
  if (c->op < GD_SGD || c->op > GD_ADAMW)
    return refuse(e, GD_INVALID, kSlot, "no optimizer has code %d", c->op);
  const bool sgd = c->op == GD_SGD;
  if (sgd && (c->n_ints < 1 || !c->ints))
    return refuse(e, GD_INVALID, kSlot, "sgd: expected 1 int, got %d", c->n_ints);
  const double* k = c->doubles;
  const int states = sgd ? (k[0] != 0 ? 1 : 0) : 2, groups = c->n_in / 3,
            outs = groups > 0 ? c->n_out / groups : 0;
  if (groups < 1 || c->n_in != 3 * groups || c->n_out != outs * groups || outs < 1 + states)
    return refuse(e, GD_INVALID, kSlot, "%s: %d inputs and %d outputs do not fit together",
                  kNames[c->op], c->n_in, c->n_out);
  double hyper[3] = {}, gain = 1;
  for (int i = 0; i < groups; ++i) {
    const Group g{c->in + 3 * i, c->out + outs * i, states};
    const bool as_before = i > 0 && g.in[1].data == g.in[-2].data &&
                           g.in[1].offset == g.in[-2].offset && g.in[2].data == g.in[-1].data &&
                           g.in[2].offset == g.in[-1].offset;
    if (!as_before)
      if (gd_status s = take_numbers(e, g, sgd, hyper, &gain)) return s;
    const gd_status status =
        sgd ? update_group(d, c, g,
                           Sgd{k[0], k[1], k[2], k[3] != 0, c->ints[0] != 0, hyper[0], gain}, e)
            : update_group(d, c, g,
                           Adam{k[0], k[1], k[2], k[3], c->op == GD_ADAMW, hyper[0], hyper[1],
                                hyper[2], gain},
                           e);
    if (status != GD_OK) return status;
  }
  return GD_OK;
}

}  // namespace gradus::cpu
