// The contract of GD_CHAIN: steps whose operands are there, of the dtypes that their slots read.
#include "kernels/call/checks.hpp"

namespace gradus::inline v1::calls {
namespace {

// The call's ints, one by one.
class Ints {
 public:
  explicit Ints(const Call& call) : call_(call) {}
  int64_t next(int step) {
    if (at_ >= call_.n_ints()) call_.refuse(GD_INVALID, "the ints end in step %d", step);
    return call_.integer(at_++);
  }

 private:
  const Call& call_;
  int at_ = 0;
};

// What a statement reads: one dtype, that of `key`, but for a mask.
void expect_operands(const Call& call, const ChainCall& c, const ChainCall::Step& s, int step,
                     int doubles) {
  const bool vjp = s.slot == GD_POINTWISE_VJP;
  const Statement known = statement(s.op);
  const int mask = known.has_mask ? (vjp ? 1 : 0) : -1;
  bool fits = known.name && s.operands == known.arity + (vjp ? 2 : 0) && doubles >= known.params &&
              s.operand[s.key()] >= 0 && (!vjp || (s.which >= 0 && s.which < known.arity));
  for (int k = 0; fits && k < s.operands; ++k)
    fits = s.operand[k] < 0 ||
           c.dtype[s.operand[k]] == (k == mask ? DType::bool_ : c.dtype[s.operand[s.key()]]);
  if (!fits) call.refuse(GD_INVALID, "step %d breaks the contract", step);
}

}  // namespace

ChainCall expect_chain(Call& call) {
  ChainCall c{};
  c.ins = call.n_in();
  c.outs = call.n_out();
  call.expect(c.ins, c.outs, 0, 1);
  if (c.outs < 1 || c.ins + c.outs > GD_CHAIN_MOST)
    call.refuse(GD_INVALID, "1 to %d views, an output among them", GD_CHAIN_MOST);
  for (int v = 0; v < c.ins + c.outs; ++v) {
    const gd_view& view = v < c.ins ? call.in(v) : call.out(v - c.ins);
    call.expect_sizes(v < c.ins ? "input" : "output", view, call.raw().out[0]);
    if (is_half(DType(view.dtype)) || is_user(DType(view.dtype)))
      call.refuse(GD_UNSUPPORTED, "16-bit floats round between calls");
    if (v < c.ins) c.dtype[v] = DType(view.dtype);
  }
  Ints ints(call);
  const int64_t steps = ints.next(0);
  if (steps < 1 || steps > GD_CHAIN_MOST)
    call.refuse(GD_INVALID, "1 to %d steps, got %lld", GD_CHAIN_MOST,
                static_cast<long long>(steps));
  for (c.steps = 0; c.steps < steps; ++c.steps) {
    const int k = c.steps;
    const auto expect = [&](bool holds) {
      if (!holds) call.refuse(GD_INVALID, "step %d breaks the contract", k);
    };
    ChainCall::Step& s = c.step[k];
    s.slot = int(ints.next(k));
    s.op = int32_t(ints.next(k));
    s.which = ints.next(k);
    const int64_t doubles = ints.next(k), operands = ints.next(k);
    expect(s.slot == GD_POINTWISE || s.slot == GD_POINTWISE_VJP || s.slot == GD_COPY);
    expect(doubles >= 0 && doubles <= call.raw().n_doubles - c.doubles);
    expect(operands >= 1 && operands <= ChainCall::kOperands);
    s.first_double = c.doubles;
    c.doubles += int(doubles);
    s.operands = int(operands);
    for (int a = 0; a < s.operands; ++a) {
      const int64_t v = ints.next(k);
      expect(v >= (s.slot == GD_POINTWISE_VJP ? -1 : 0) && v < c.ins + k);
      s.operand[a] = int(v);
    }
    const int64_t dtype = ints.next(k), out = ints.next(k);
    expect(dtype >= 0 && dtype < GD_DTYPE_COUNT && !is_half(DType(dtype)));
    expect(out >= -1 && out < c.outs && (out < 0 || call.raw().out[out].dtype == dtype));
    s.out = int(out);
    c.dtype[c.ins + k] = DType(dtype);
    if (s.slot == GD_COPY)
      expect(s.operands == 1);
    else
      expect_operands(call, c, s, k, int(doubles));
  }
  return c;
}

}  // namespace gradus::calls
