// The slot random: element i is a function of seed and position alone (engine/abi/philox.hpp), so
// any cut into tasks gives the same numbers. Scaled in f64 and rounded once to the dtype (16 bits:
// through f32): uniform low + (high - low) u with as many random bits as the dtype holds, normal
// mean + std z, bernoulli u < p with the 53-bit u.
#include "engine/abi/philox.hpp"
#include "kernels/call/checks.hpp"
#include "kernels/cpu/slots.hpp"
#include "kernels/cpu/walk.hpp"

namespace gradus::inline v1::cpu {
namespace {

struct Law {
  int32_t op;
  int bits;  // of a uniform number
  double p, q;
  uint64_t seed;
};

double scaled(const Law& law, RandomBits r) {
  switch (law.op) {
    case GD_UNIFORM:
      return law.p + (law.q - law.p) * uniform(r, law.bits);
    case GD_NORMAL:
      return law.p + law.q * normal_f64(r);
    default:
      return uniform(r) < law.p ? 1.0 : 0.0;
  }
}

// Numbers n .. n + count - 1. Two share one Philox block.
void draw(const Law& law, uint64_t n, int64_t count, double* to) {
  int64_t i = 0;
  if ((n & 1) && count > 0) to[i++] = scaled(law, random_bits(law.seed, n));
  for (; i + 1 < count; i += 2) {
    const PhiloxWords w = philox(law.seed, (n + uint64_t(i)) >> 1);
    to[i] = scaled(law, {w.w[0], w.w[1]});
    to[i + 1] = scaled(law, {w.w[2], w.w[3]});
  }
  if (i < count) to[i] = scaled(law, random_bits(law.seed, n + uint64_t(i)));
}

}  // namespace

gd_status slot_random(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  const char* slot = "random";
  if (gd_status s = check_call(e, slot, c, {1, 1, 1, 1, 0, 1})) return s;
  const gd_view &state = c->in[0], &out = c->out[0];
  if (c->op < GD_UNIFORM || c->op > GD_BERNOULLI)
    return refuse(e, GD_INVALID, slot, "no distribution has code %d", c->op);
  const int32_t wanted = c->op == GD_BERNOULLI ? 1 : 2;
  if (c->n_doubles < wanted || !c->doubles)
    return refuse(e, GD_INVALID, slot, "expected %d doubles, got %d", wanted, c->n_doubles);
  if (state.dtype != GD_I64 || state.rank != 1 || state.sizes[0] != 2)
    return refuse(e, GD_INVALID, slot, "{seed, base} should be 2 elements of i64");
  const DType t = dtype_of_view(out);
  if (c->op == GD_BERNOULLI ? is_complex(t) : !is_real_float(t))
    return refuse(e, GD_UNSUPPORTED, slot, "no such numbers of dtype %s", dtype_name(t));
  const int64_t* from = start_as<const int64_t>(state);
  const Law law{c->op, calls::uniform_bits(out.dtype), c->doubles[0],
                wanted == 2 ? c->doubles[1] : 0.0, uint64_t(from[0])};
  const uint64_t first = uint64_t(from[state.strides[0]]) + uint64_t(c->ints[0]);
  const ConvertFn narrow = is_half(t) ? d->convert(GD_F64, GD_F32) : nullptr;
  const ConvertFn convert = d->convert(narrow ? GD_F32 : GD_F64, out.dtype);
  Walk w;
  add_view(w, out);
  const int64_t n = w.count();
  if (n == 0) return GD_OK;
  merge_axes(w);
  const bool plain = w.contiguous(0);
  parallel_range(d, n, kGrain / 8, [&](int64_t begin, int64_t end) {
    double numbers[kBlock];
    float floats[kBlock];
    alignas(16) char narrowed[kBlock * 8];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t m = end - i < kBlock ? end - i : kBlock;
      draw(law, first + uint64_t(i), m, numbers);
      if (narrow) narrow(numbers, floats, m);
      convert(narrow ? static_cast<void*>(floats) : numbers,
              plain ? w.base[0] + i * w.item[0] : narrowed, m);
      if (!plain) scatter_block(w, 0, i, m, narrowed);
    }
  });
  return GD_OK;
}

}  // namespace gradus::cpu
