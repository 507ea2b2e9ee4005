// random: Philox's number n for element n, scaled in f64 with one rounding to the output's dtype
// (16 bits: to f32, then to them). The same bits as every device's.
#include "engine/abi/philox.hpp"
#include "kernels/gpu/walk.hpp"

namespace gradus::inline v1::gpu {
namespace {

GPU_KERNEL draw(Walk<1> w, const int64_t* state, int64_t state_stride, uint64_t relative,
                int32_t op, int uniform_bits, double p, double q) {
  const uint64_t seed = uint64_t(state[0]), base = uint64_t(state[state_stride]) + relative;
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    int64_t at[1];
    w.places(i, at);
    const RandomBits bits = random_bits(seed, base + uint64_t(w.first + i));
    double x;
    if (op == GD_UNIFORM)
      x = p + (q - p) * uniform(bits, uniform_bits);
    else if (op == GD_NORMAL)
      x = p + q * normal_f64(bits);
    else
      x = uniform(bits) < p ? 1.0 : 0.0;
    if (w.dtype[0] == GD_F16 || w.dtype[0] == GD_BF16)
      store(w.data[0], at[0], w.dtype[0], float(x));
    else
      store(w.data[0], at[0], w.dtype[0], x);
  }
}

}  // namespace

void random(Run& run) {
  Call& call = run.call;
  expect_random(call);
  const int32_t op = call.op();
  const gd_view &state = call.in(0), &out = call.out(0);
  each(run, make_walk<1>(call, {&out}), kernel<draw>(),
       reinterpret_cast<const int64_t*>(start_of(state)), state.strides[0],
       uint64_t(call.integer(0)), op, uniform_bits(out.dtype), call.number(0),
       op == GD_BERNOULLI ? 0.0 : call.number(1));
}

}  // namespace gradus::gpu
