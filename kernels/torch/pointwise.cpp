// pointwise: the op of aten that has the statement's name, on real and complex floating numbers.
// What is listed here is where names or parameters differ.
#include "ops/def/fingerprint.hpp"
#include "kernels/torch/slots.hpp"
#include "kernels/torch/tensor.hpp"

#include <algorithm>
#include <string_view>

namespace gradus::inline v1::torch {
namespace {

using calls::Statement;

struct Entry {
  std::string_view statement;
  const char *name, *overload = "";
};

// Unary statements that aten has under another name, or, of name null, not at all or with fewer
// digits (its ndtr below -2).
constexpr Entry kUnary[] = {
    {"logsigmoid", "log_sigmoid"}, {"ndtr", nullptr},        {"gelu", nullptr},
    {"gelu_tanh", nullptr},        {"cbrt", nullptr},        {"softsign", nullptr},
    {"tanhshrink", nullptr},       {"bounded_log", nullptr},
};
constexpr Entry kBinary[] = {
    {"add", "add"},
    {"sub", "sub"},
    {"mul", "mul", "Tensor"},
    {"div", "div", "Tensor"},
    {"pow", "pow", "Tensor_Tensor"},
    {"lt", "lt", "Tensor"},
    {"le", "le", "Tensor"},
    {"gt", "gt", "Tensor"},
    {"ge", "ge", "Tensor"},
    {"eq", "eq", "Tensor"},
    {"ne", "ne", "Tensor"},
    {"xlogy", "xlogy", "Tensor"},
    {"fmod", "fmod", "Tensor"},
    {"copysign", "copysign", "Tensor"},
    {"maximum", "maximum"},
    {"minimum", "minimum"},
    {"fmax", "fmax"},
    {"fmin", "fmin"},
    {"atan2", "atan2"},
    {"hypot", "hypot"},
    {"heaviside", "heaviside"},
    {"logaddexp", "logaddexp"},
    {"logaddexp2", "logaddexp2"},
    {"xlog1py", "special_xlog1py"},
};

// The op for a statement without parameters; of name null: there is none.
Entry entry_of(const Statement& s) {
  const auto listed = [&](const auto& list, Entry otherwise) {
    const auto at = std::find_if(std::begin(list), std::end(list),
                                 [&](const Entry& a) { return a.statement == s.name; });
    return at == std::end(list) ? otherwise : *at;
  };
  if (s.has_mask) return {s.name, s.name, "self"};
  return s.arity == 1 ? listed(kUnary, {s.name, s.name}) : listed(kBinary, {s.name, nullptr});
}

}  // namespace

bool pointwise(Call& call) {
  const Statement s = calls::named_statement(call);
  call.expect(s.arity, 1, s.params, 0);
  const gd_view& out = call.out(0);
  const DType t = DType(call.in(s.arity - 1).dtype), y = DType(out.dtype);
  const Entry op = entry_of(s);
  const def::StatementText& text = def::statement_info(call.op());
  const bool reads = (is_real_float(t) && (text.dtypes & def::kReal)) ||
                     (is_complex(t) && (text.dtypes & def::kComplex));
  const DType wanted = text.kind == def::Kind::comparison ? DType::bool_ : t;
  if (!op.name || s.params > 0 || !reads || y != wanted ||
      (is_complex(t) && text.kind == def::Kind::non_holomorphic))
    return false;

  std::vector<Tensor> x;
  for (int k = 0; k < s.arity; ++k) x.push_back(read(calls::operand(call, s, k, k, t, out)));
  const auto in = [&](size_t k) { return value(std::move(x[k])); };
  if (op.statement == "add" || op.statement == "sub")
    write(out, op.statement == "add" ? add(x[0], x[1]) : sub(x[0], x[1]));
  else if (s.arity == 1)
    write(out, aten(op.name, op.overload, {in(0)}));
  else if (s.arity == 2)
    write(out, aten(op.name, op.overload, {in(0), in(1)}));
  else
    write(out, aten(op.name, op.overload, {in(0), in(1), in(2)}));
  return true;
}

}  // namespace gradus::torch
