// OpInfo: the only description of an op. The doors (CLI, Lua, C, Python), graph files, replay,
// ledger and audit use nothing else; the typed C++ functions fill the same struct. The engine reads
// it and knows no op by name. OpInfos are made once at start-up, interned, and never freed.
#pragma once
#include "engine/base/small_vector.hpp"
#include "engine/tensor.hpp"

#include <deque>
#include <functional>

namespace gradus::inline v1 {

class GradFn;
class OpContext;
struct BatchCall;

// The value of one attribute. `none` stands for an optional one that was left out.
struct AttrValue {
  enum class Type { none, integer, number, boolean, integers, text, dtype };
  Type type = Type::none;
  int64_t integer = 0;  // integer, boolean, dtype (its code)
  double number = 0;
  SmallVector<int64_t, 6> integers;
  const char* text = "";  // interned

  AttrValue() = default;
  AttrValue(int64_t v) : type(Type::integer), integer(v) {}
  AttrValue(int v) : AttrValue(int64_t(v)) {}
  AttrValue(double v) : type(Type::number), number(v) {}
  AttrValue(bool v) : type(Type::boolean), integer(v) {}
  AttrValue(DType v) : type(Type::dtype), integer(int64_t(v)) {}
  AttrValue(SmallVector<int64_t, 6> v) : type(Type::integers), integers(std::move(v)) {}
  AttrValue(std::string_view v);  // interns
  AttrValue(const char* v) : AttrValue(std::string_view(v)) {}
  bool is_none() const { return type == Type::none; }
  DType dtype() const { return DType(integer); }
};

const char* intern(std::string_view text);
std::string to_text(const AttrValue& value);

// Attributes of one call, in the order of OpInfo::attrs.
using Attrs = SmallVector<AttrValue, 4>;
using SharedAttrs = std::shared_ptr<const Attrs>;  // a plan's: nodes hold them without a copy

struct AttrSpec {
  std::string name;
  AttrValue::Type type;
  AttrValue default_value;  // none and optional = false: must be given
  std::string doc;
  bool optional = false;  // none is allowed
};

struct OperandSpec {
  std::string name;
  bool variadic = false;  // the last one may stand for a list
  bool optional = false;  // may be left out, together with all that follow it
};

// How an op is called when only its name is known: operands and attributes to outputs.
using OpCall = std::function<Outputs(Operands, const Attrs&)>;

// What one call costs: floating-point operations and bytes that must move.
struct Cost {
  double flops = 0, bytes = 0;
};

struct OpInfo {
  std::string name;
  std::string doc;      // one line
  std::string formula;  // "y = ..." for people; statements print theirs
  std::vector<OperandSpec> operands;
  std::vector<AttrSpec> attrs;
  std::string group;      // "pointwise", "reduction", "view", ...
  bool primitive = true;  // false: made of ops, `call` alone is set
  bool differentiable = true;
  bool is_view = false;  // output shares the storage of operand 0
  bool user = false;     // added by a user: its forward may call ops and return its inputs' views
  int statement = -1;    // id of the statement, if it is one

  // Records as it goes.
  OpCall call;

  // Primitives only. forward: reads ctx.inputs and ctx.attrs, appends to ctx.outputs, and says what
  // to save; it must not record. vjp: the cotangent of operand k, given those of the outputs
  // (undefined = zero); may be broader than the operand by broadcasting, the walk sums it;
  // undefined = zero. jvp: the tangent of output `out`, given those of the operands (undefined =
  // zero). vjp and jvp are written in terms of ops, so that they can be recorded in turn.
  void (*forward)(OpContext& ctx) = nullptr;
  Tensor (*vjp)(GradFn& node, size_t k, std::span<const Tensor> g) = nullptr;
  // Where cotangents of several operands share work: sets those that are wanted, by operand.
  void (*vjps)(GradFn& node, std::span<const char> wanted, std::span<const Tensor> g,
               std::span<Tensor> cotangents) = nullptr;
  Tensor (*jvp)(GradFn& node, size_t out, std::span<const Tensor> t) = nullptr;
  Cost (*cost)(const OpContext& ctx) = nullptr;
  // The rule of vmap (engine/batch.hpp); without one the op runs example by example.
  Outputs (*batch)(const BatchCall& call) = nullptr;

  int attr_index(std::string_view attr) const;  // -1 if there is none
  size_t least_operands() const;                // of a call: those that are not optional
  Attrs completed(Attrs attrs) const;           // with the defaults of those missing at its end
};

// The op list, in order of registration.
OpInfo& add_op(OpInfo op);  // Error(internal) if the name is taken
const OpInfo* find_op(std::string_view name);
const OpInfo& get_op(std::string_view name);  // Error(value) with the nearest name
const std::deque<OpInfo>& all_ops();

}  // namespace gradus
