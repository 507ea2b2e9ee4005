// optimizer_step: updates in place, of many parameters by one launch, in f32 if every array is f32,
// else in f64 with one rounding per stored number. With g the gradient times gain, p the parameter
// (PyTorch's formulas):
//   sgd    g += weight_decay p;  v = first step ? g : momentum v + (1 - dampening) g;
//          p -= lr (momentum = 0 ? g : nesterov ? g + momentum v : v)
//   adam   g += weight_decay p;   adamw   p *= 1 - lr weight_decay
//          m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//          p -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
#include "kernels/gpu/walk.hpp"
#include "ops/def/words_scalar.hpp"

namespace gradus::inline v1::gpu {
namespace {

struct Rule {
  int32_t op;
  bool nesterov, first;
  double a, b, c, weight_decay;  // sgd: momentum, dampening; adam: beta1, beta2, eps
};

// The values of this step, where the device keeps them.
struct StepValues {
  const char *hyper, *gain;
  int64_t hyper_stride;
  int32_t hyper_dtype, gain_dtype;

  GRADUS_HD double value(int k) const { return load<double>(hyper, k * hyper_stride, hyper_dtype); }
  GRADUS_HD double scale() const { return load<double>(gain, 0, gain_dtype); }
};

// One element by one rule: g and the numbers in p, v1, v2 become the next ones.
template <class T>
struct Update {
  Rule rule;
  T lr, correction1, correction2, gain;

  __device__ Update(const Rule& r, const StepValues& s)
      : rule(r), lr(T(s.value(0))), correction1(1), correction2(1), gain(T(s.scale())) {
    if (r.op == GD_SGD) return;
    lr = T(s.value(0) / s.value(1));
    correction1 = T(1 - s.value(0) * r.weight_decay);  // adamw's decay
    correction2 = T(1 / s.value(2));
  }
  __device__ void operator()(T g, T& p, T& v1, T& v2) const {
    g = gain * g;
    if (rule.op == GD_SGD) {
      g = g + T(rule.weight_decay) * p;
      if (rule.a != 0) {
        v1 = rule.first ? g : T(rule.a) * v1 + T(1 - rule.b) * g;
        g = rule.nesterov ? g + T(rule.a) * v1 : v1;
      }
      p = p - lr * g;
      return;
    }
    const T before = p;
    if (rule.op == GD_ADAMW)
      p = p * correction1;
    else
      g = g + T(rule.weight_decay) * before;
    v1 = T(rule.a) * v1 + T(1 - rule.a) * g;
    v2 = T(rule.b) * v2 + T(1 - rule.b) * g * g;
    p = p - lr * v1 / (w::sqrt(v2 * correction2) + T(rule.c));
  }
};

// Neighbours that are read and written at once.
__device__ inline Four<float> four(const float* x, int64_t i) {
  return *reinterpret_cast<const Four<float>*>(x + i);
}
__device__ inline void put(float* x, int64_t i, const Four<float>& values) {
  if (x) *reinterpret_cast<Four<float>*>(x + i) = values;
}

// Arrays without gaps of f32: many of them in one launch, in chunks of kChunk elements.
constexpr int kMostArrays = 48, kChunk = 2048;
struct Arrays {
  int32_t count;
  int32_t first_chunk[kMostArrays + 1];
  int64_t elements[kMostArrays];
  const float* grad[kMostArrays];
  float *p[kMostArrays], *v1[kMostArrays], *v2[kMostArrays];
};
GPU_KERNEL update_arrays(Arrays arrays, Rule rule, StepValues values) {
  const Update<float> update(rule, values);
  const int total = arrays.first_chunk[arrays.count];
  int k = 0;
  for (int chunk = int(block()); chunk < total; chunk += int(blocks())) {
    while (arrays.first_chunk[k + 1] <= chunk) ++k;
    const int64_t begin = int64_t(chunk - arrays.first_chunk[k]) * kChunk,
                  rest = arrays.elements[k] - begin, end = begin + (rest < kChunk ? rest : kChunk);
    const float* const grad = arrays.grad[k];
    float *const p = arrays.p[k], *const v1 = arrays.v1[k], *const v2 = arrays.v2[k];
    int64_t i = begin + 4 * thread();
    // A rule without a state computes with what is read in its place, and leaves it.
    const float *const from1 = v1 ? v1 : p, *const from2 = v2 ? v2 : p;
    if (aligned(grad) && aligned(p) && aligned(from1) && aligned(from2))
      for (; i + 4 <= end; i += 4 * block_threads()) {
        Four<float> g = four(grad, i), x = four(p, i), a = four(from1, i), b = four(from2, i);
        GPU_UNROLL
        for (int n = 0; n < 4; ++n) update(g.x[n], x.x[n], a.x[n], b.x[n]);
        put(p, i, x);
        put(v1, i, a);
        put(v2, i, b);
      }
    for (; i < end; i += 4 * block_threads())
      for (int64_t j = i; j < i + 4 && j < end; ++j) {
        float a = v1 ? v1[j] : 0.0f, b = v2 ? v2[j] : 0.0f;
        update(grad[j], p[j], a, b);
        if (v1) v1[j] = a;
        if (v2) v2[j] = b;
      }
  }
}

// Views of any kind: gradient, parameter, states.
GPU_KERNEL update_elements(Walk<4> w, Rule rule, StepValues values) {
  const Update<double> update(rule, values);
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    int64_t at[4];
    w.places(i, at);
    double x[4] = {};
    for (int v = 0; v < 4; ++v)
      if (w.data[v]) x[v] = load<double>(w.data[v], at[v], w.dtype[v]);
    update(x[0], x[1], x[2], x[3]);
    for (int v = 1; v < 4; ++v)
      if (w.data[v]) store(w.data[v], at[v], w.dtype[v], x[v]);
  }
}

}  // namespace

void optimizer_step(Run& run) {
  Call& call = run.call;
  const auto [outs, parameters] = expect_optimizer(call);
  const int32_t op = call.op();
  const bool sgd = op == GD_SGD;
  const double* d = call.numbers();
  const Rule rule{op,   sgd && d[3] != 0, sgd && call.integer(0) != 0, d[0], d[1],
                  d[2], sgd ? d[2] : d[3]};

  Arrays arrays{};
  StepValues shared{};
  const auto launch_arrays = [&] {
    if (arrays.count == 0) return;
    run.grid(Threads::apart, run.blocks_for(arrays.first_chunk[arrays.count], 1), 256,
             kernel<update_arrays>(), arrays, rule, shared);
    arrays.count = 0;
  };
  for (int k = 0; k < parameters; ++k) {
    const gd_view &grad = call.in(3 * k), &param = call.out(outs * k);
    const gd_view &hyper = step_values(call, 3 * k + 1, "hyper", sgd ? 1 : 3),
                  &gain = step_values(call, 3 * k + 2, "gain", 1);
    call.expect_sizes("gradient", grad, param);
    if (!is_real_float(DType(grad.dtype)))
      call.refuse(GD_UNSUPPORTED, "a gradient of dtype %s", dtype_name(DType(grad.dtype)));
    const gd_view* views[4] = {&grad, &param, nullptr, nullptr};
    bool narrow = grad.dtype == GD_F32;
    for (int s = 0; s < outs; ++s) {
      if (s > 0 && !call.has_out(outs * k + s)) {
        if (count_of(param) > 0 && (!sgd || rule.a != 0))
          call.refuse(GD_INVALID, "a state is left out");
        continue;
      }
      const gd_view& v = call.out(outs * k + s);
      call.expect_sizes("state", v, param);
      if (!is_real_float(DType(v.dtype)))
        call.refuse(GD_UNSUPPORTED, "output %d has dtype %s; f32 f64 f16 bf16 are updated",
                    outs * k + s, dtype_name(DType(v.dtype)));
      narrow = narrow && v.dtype == GD_F32;
      views[1 + s] = &v;
    }
    const StepValues values{start_of(hyper), start_of(gain),
                            hyper.rank ? hyper.strides[0] : int64_t(0), hyper.dtype, gain.dtype};
    const auto w = make_walk<4>(call, views);
    if (w.count == 0) continue;
    if (!narrow || !w.dense || w.count > kMostElements) {
      each(run, w, kernel<update_elements>(), rule, values);
      continue;
    }
    const bool same = values.hyper == shared.hyper && values.gain == shared.gain &&
                      values.hyper_dtype == shared.hyper_dtype &&
                      values.gain_dtype == shared.gain_dtype;
    if (arrays.count == kMostArrays || !same) launch_arrays();
    shared = values;
    const int n = arrays.count++;
    arrays.elements[n] = w.count;
    arrays.first_chunk[n + 1] =
        (n ? arrays.first_chunk[n] : 0) + int32_t((w.count + kChunk - 1) / kChunk);
    arrays.grad[n] = reinterpret_cast<const float*>(w.data[0]);
    arrays.p[n] = reinterpret_cast<float*>(w.data[1]);
    arrays.v1[n] = reinterpret_cast<float*>(w.data[2]);
    arrays.v2[n] = reinterpret_cast<float*>(w.data[3]);
  }
  launch_arrays();
}

}  // namespace gradus::gpu
