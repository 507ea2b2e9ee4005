// copy, fill, random: slots without a statement.
#include "engine/abi/philox.hpp"
#include "kernels/reference/slots.hpp"
#include "kernels/reference/user.hpp"

namespace gradus::inline v1::reference {

namespace {

// The one cast that a user's type has: from integers.
void copy_integers(const Call& call, const Layout& in, const Layout& out) {
  if (!is_integer(in.dtype))
    call.refuse(GD_UNSUPPORTED, "there is no cast from %s to %s; integers alone can be cast to it",
                dtype_name(in.dtype), dtype_name(out.dtype));
  Walk from(in), to(out);
  Block whole, block;
  for_blocks(
      out.count(),
      [&](int64_t n) {
        from.read(whole.as<int64_t>(), n);
        user(call, out.dtype).from_integers(whole.as<int64_t>(), block.raw(), n);
        to.write_as(out.dtype, block.raw(), n);
      },
      block_of(out.dtype));
}

}  // namespace

void copy(Call& call) {
  call.expect(1, 1, 0, 0);
  const Layout in = call.in(0), out = call.out(0);
  call.expect_sizes("input", in, out);
  if (in.dtype != out.dtype && (is_user(in.dtype) || is_user(out.dtype)))
    return copy_integers(call, in, out);
  Walk from(in), to(out);
  Block block;
  for_blocks(
      out.count(),
      [&](int64_t n) {
        from.read_as(in.dtype, block.raw(), n);
        to.write_as(in.dtype, block.raw(), n);
      },
      block_of(in.dtype));
}

namespace {

template <class T>
void fill_with(const Layout& out, T value) {
  Walk to(out);
  for (int64_t i = 0, n = out.count(); i < n; ++i) to.write(&value, 1);
}

}  // namespace

void fill(Call& call) {
  call.expect(0, 1, 0, 0);
  const Layout out = call.out(0);
  const bool whole = out.dtype == DType::i32 || out.dtype == DType::i64;
  call.expect(0, 1, whole ? 0 : 2, whole ? 1 : 0);
  if (is_user(out.dtype)) {
    Block value;
    const int64_t integer = call.n_ints() > 0 ? call.integer(0) : 0;
    user(call, out.dtype).from_number(call.number(0), integer, value.raw());
    Walk to(out);
    for (int64_t i = 0, n = out.count(); i < n; ++i) to.write_as(out.dtype, value.raw(), 1);
  } else if (whole)
    fill_with(out, call.integer(0));
  else if (is_complex(out.dtype))
    fill_with(out, c128{call.number(0), call.number(1)});
  else
    fill_with(out, call.number(0));
}

// Distributions are scaled in f64 with one rounding to the output's dtype (f16 and bf16: to f32,
// then to them, as everywhere): uniform low + (high - low) u with as many random bits as the dtype
// holds, normal mean + std z, bernoulli u < p with the 53-bit u whatever the dtype, so that masks
// do not depend on it.
namespace {

double draw(int32_t op, int32_t dtype, RandomBits bits, double p, double q) {
  if (op == GD_UNIFORM) return p + (q - p) * uniform(bits, calls::uniform_bits(dtype));
  if (op == GD_NORMAL) return p + q * normal_f64(bits);
  return uniform(bits) < p ? 1.0 : 0.0;
}

}  // namespace

void random(Call& call) {
  expect_random(call);
  const int32_t op = call.op();
  const Layout out = call.out(0);
  int64_t seed_base[2];
  Walk(call.in(0)).read(seed_base, 2);
  const double p = call.number(0), q = op == GD_BERNOULLI ? 0.0 : call.number(1);
  uint64_t n = uint64_t(seed_base[1]) + uint64_t(call.integer(0));
  Walk to(out);
  for (int64_t i = 0, count = out.count(); i < count; ++i, ++n) {
    const double x = draw(op, int32_t(out.dtype), random_bits(uint64_t(seed_base[0]), n), p, q);
    const float narrow = float(x);
    if (is_half(out.dtype))
      to.write(&narrow, 1);
    else
      to.write(&x, 1);
  }
}

}  // namespace gradus::reference
