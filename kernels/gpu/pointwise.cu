// pointwise and pointwise_vjp: the checks, and the kernel of the statement; those of integers.
#include "kernels/gpu/pointwise.hpp"

namespace gradus::inline v1::gpu {

Entry entry_i64(int32_t id) { return entry_for<int64_t>(id); }
Entry entry_bool(int32_t id) { return entry_for<bool>(id); }

Entry entry_of(int32_t id, DType t) {
  switch (t) {
    case DType::f64:
      return entry_f64(id);
    case DType::c64:
      return entry_c64(id);
    case DType::c128:
      return entry_c128(id);
    case DType::i32:
    case DType::i64:
    case DType::u8:
      return entry_i64(id);
    case DType::bool_:
      return entry_bool(id);
    default:
      return entry_f32(id);
  }
}

namespace {

Params params_of(const Call& call, const Statement& s) {
  Params p{};
  for (int k = 0; k < s.params; ++k) p.values[k] = call.number(k);
  return p;
}

}  // namespace

void pointwise(Run& run) {
  Call& call = run.call;
  const Statement s = named_statement(call);
  call.expect(s.arity, 1, s.params, 0);
  const gd_view& out = call.out(0);
  const DType t = DType(call.in(s.arity - 1).dtype);
  const Entry e = entry_of(call.op(), t);
  if (!e.value)
    call.refuse(GD_UNSUPPORTED, "dtype %s is not read by this statement", dtype_name(t));
  call.expect_dtype("output", out, e.y == computing_dtype(t) ? t : e.y);
  const gd_view* views[4] = {nullptr, nullptr, nullptr, &out};
  for (int k = 0; k < s.arity; ++k) views[k] = &operand(call, s, k, k, t, out);
  const auto w = make_walk<4>(call, views);
  each_run(run, w, e.run, e.value, params_of(call, s));
}

void pointwise_vjp(Run& run) {
  Call& call = run.call;
  const Statement s = named_statement(call);
  call.expect(s.arity + 2, 1, s.params, 1);
  const gd_view &g = call.in(0), &out = call.out(0);
  const DType t = DType(g.dtype);
  const int64_t which = call.integer(0);
  if (which < 0 || which >= s.arity)
    call.refuse(GD_INVALID, "there is no operand %lld", static_cast<long long>(which));
  const Entry e = entry_of(call.op(), t);
  if (!e.vjp[which])
    call.refuse(GD_UNSUPPORTED, "operand %lld has no slope in dtype %s",
                static_cast<long long>(which), dtype_name(t));
  call.expect_sizes("cotangent", g, out);
  call.expect_dtype("output", out, t);
  // g, the operands, y: the order of the call; the kernel's y stands in the fifth place.
  const gd_view* views[6] = {&g, nullptr, nullptr, nullptr, nullptr, &out};
  for (int k = 0; k <= s.arity; ++k)
    if (call.has_in(k + 1)) views[k < s.arity ? k + 1 : 4] = &operand(call, s, k, k + 1, t, out);
  const auto w = make_walk<6>(call, views);
  each_run(run, w, e.run, e.vjp[which], params_of(call, s));
}

}  // namespace gradus::gpu
