// contract: one einsum. Each axis of the joint index space is a letter; an operand has the letters
// of the axes along which it moves, so an axis that both have and out has is a batch, as BLAS likes
// it.
#include "kernels/torch/slots.hpp"
#include "kernels/torch/tensor.hpp"

namespace gradus::inline v1::torch {
namespace {

using calls::ContractCall;

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

// The axes of a view on which `has` is true.
struct Part {
  gd_view view;
  std::vector<int64_t> sizes, strides;
  std::string letters;

  Part(const gd_view& v, const auto& has) : view(v) {
    for (int i = 0; i < v.rank; ++i)
      if (has(i)) {
        sizes.push_back(v.sizes[i]);
        strides.push_back(v.strides[i]);
        letters += kLetters[size_t(i)];
      }
    view.rank = int32_t(sizes.size());
    view.sizes = sizes.data();
    view.strides = strides.data();
  }
  Part(const Part&) = delete;
};

bool is_number(const c128& x, double re) { return x.re == re && x.im == 0; }

// Halves are rounded once, at the end.
Tensor operand(const gd_view& v, bool conj, bool widen) {
  Tensor t = read(v);
  if (conj) t = aten("conj", "", {value(std::move(t))});
  return widen ? cast(t, DType::f32) : std::move(t);
}

Tensor times(Tensor&& t, const c128& x, bool complex) {
  return aten("mul", "Tensor", {value(std::move(t)), value(number(x, complex))});
}

}  // namespace

bool contract(Call& call) {
  const ContractCall c = calls::expect_contract(call);
  const DType t = DType(c.out.dtype);
  const bool complex = is_complex(t), half = t == DType::f16 || t == DType::bf16;
  if ((call.op() & GD_WAY_ONLY) && (call.op() & 0xff))
    call.refuse(GD_UNSUPPORTED, "way %d is not one of libtorch's", call.op() & 0xff);
  const bool scaled = !is_number(c.alpha, 1), added = !is_number(c.beta, 0);
  if (c.algebra != GD_STANDARD || !is_floating(t) || c.a.rank > int(kLetters.size())) return false;

  const Part a(c.a, [&](int i) { return c.a.strides[i] != 0 || c.b.strides[i] == 0; });
  const Part b(c.b, [&](int i) { return c.b.strides[i] != 0; });
  const std::string out(kLetters.substr(0, size_t(c.out_axes)));
  std::vector<Tensor> operands;
  operands.push_back(operand(a.view, c.conj_a, half));
  operands.push_back(operand(b.view, c.conj_b, half));
  Tensor y =
      aten("einsum", "",
           {value(a.letters + "," + b.letters + "->" + out), value(std::move(operands)), kNone});
  if (scaled) y = times(std::move(y), c.alpha, complex);
  if (added) y = add(y, times(operand(c.out, false, half), c.beta, complex));
  if (c.bias) y = add(y, operand(*c.bias, false, half));
  write(c.out, y);
  return true;
}

}  // namespace gradus::torch
