// Every op by name: looked up once, called with operands and typed attributes. This is a loop over
// the op list, so an op added tomorrow needs no line here.
#include "bindings/c/calls.hpp"
#include "engine/in_place.hpp"
#include "ops/check/rows.hpp"

#include <map>
#include <mutex>

using namespace gradus;
using namespace gradus::c;

namespace {

AttrValue value_of(const gradus_attr& a) {
  switch (a.type) {
    case GRADUS_ATTR_NONE:
      return {};
    case GRADUS_ATTR_INTEGER:
      return a.integer;
    case GRADUS_ATTR_NUMBER:
      return a.number;
    case GRADUS_ATTR_BOOLEAN:
      return a.integer != 0;
    case GRADUS_ATTR_INTEGERS:
      return shape_at(a.integers, a.n_integers, "integers");
    case GRADUS_ATTR_TEXT:
      return &need(a.text, "text");
    case GRADUS_ATTR_DTYPE:
      return dtype_at(int32_t(a.integer));
    default:
      throw Refusal{GRADUS_VALUE,
                    join("attrs: type ", a.type, " is none; expected GRADUS_ATTR_...")};
  }
}

// In the op's order; each struct of the caller's may be shorter or longer than ours.
Attrs attributes(const OpInfo& op, const gradus_attr* given, size_t n) {
  if (n > 64) throw Refusal{GRADUS_VALUE, join("attrs: ", std::to_string(n), " are more than 64")};
  rows::NamedAttrs named;
  const uint32_t step = n > 0 ? need(given, "attrs").struct_size : 0;
  for (size_t i = 0; i < n; ++i) {
    const auto* const at = reinterpret_cast<const char*>(given) + i * step;
    const gradus_attr a = struct_at(reinterpret_cast<const gradus_attr*>(at), "gradus_attr");
    if (a.struct_size != step)
      throw Refusal{GRADUS_VALUE, "attrs: all must have the same struct_size, sizeof(gradus_attr)"};
    named.emplace_back(&need(a.name, "attrs: name"), value_of(a));
  }
  return rows::attrs_of(op, named);
}
// A function of the caller's takes none beside its own.
Attrs attributes(const Callee& callee, const gradus_attr* given, size_t n) {
  if (n == 0 && callee.takes_none()) return callee.fixed;
  if (!callee.fixed.empty()) fail(ErrorKind::value, callee.op.name, "has no attributes");
  return attributes(callee.op, given, n);
}
// Most calls bring no attributes: those make and copy none.
Outputs called(const Callee& callee, std::span<const Tensor> in, const gradus_attr* given,
               size_t n) {
  if (n == 0 && callee.takes_none()) return callee.op.call(in, callee.fixed);
  return callee.op.call(in, attributes(callee, given, n));
}

[[noreturn, gnu::cold]] void refuse_count(const Callee& callee, size_t n) {
  fail(ErrorKind::value, callee.op.name, "takes ", int64_t(callee.least),
       callee.most == SIZE_MAX      ? " operands or more"
       : callee.least < callee.most ? join(" to ", int64_t(callee.most), " operands")
                                    : " operands",
       ", got ", std::to_string(n));
}
// The operands of a call: 0 for one that is left out.
void operands_of(const Callee& callee, const gradus_tensor* handles, size_t n,
                 SmallVector<Tensor, 3>& out) {
  const OpInfo& op = callee.op;
  if (n < callee.least || n > callee.most) refuse_count(callee, n);
  array(handles, n, "operands");
  for (size_t k = 0; k < n; ++k)
    out.push_back(k >= callee.least && k < op.operands.size() && op.operands[k].optional
                      ? maybe_tensor(handles[k], {"operands", k})
                      : tensor_of(handles[k], {"operands", k}));
  while (!out.empty() && !out.back().defined()) out.pop_back();
}

// An op lives for ever, and what its handles name with it.
gradus_op handle_of_op(const OpInfo& op) {
  static std::mutex mutex;
  static auto* const known = new std::map<const OpInfo*, Callee>;
  const std::lock_guard lock(mutex);
  Callee& callee = known->try_emplace(&op, op).first->second;
  return new_handle(Kind::op, &callee);
}
// What a handle names, held while a call uses it: a function of the caller's may be freed
// meanwhile.
class HeldCallee {
 public:
  explicit HeldCallee(gradus_op op) : callee_(static_cast<Callee*>(lasting_object(Kind::op, op))) {
    if (callee_) return;
    counted_ = object_at<Callee>(Kind::op, op);
    callee_ = counted_.get();
  }
  const Callee& operator*() const { return *callee_; }
  const Callee* operator->() const { return callee_; }

 private:
  const Callee* callee_;
  std::shared_ptr<Callee> counted_;
};

}  // namespace

gradus_status gradus_op_count(size_t* out) {
  return result("gradus_op_count", out, [&] { return all_ops().size(); });
}
gradus_status gradus_op_at(size_t index, gradus_op* out) {
  return result("gradus_op_at", out, [&] {
    if (index >= all_ops().size())
      throw Refusal{GRADUS_INDEX, join("index ", index, ", there are ", all_ops().size(), " ops")};
    return handle_of_op(all_ops()[index]);
  });
}
gradus_status gradus_op_find(const char* name, gradus_op* out) {
  return result("gradus_op_find", out, [&] { return handle_of_op(get_op(&need(name, "name"))); });
}

gradus_status gradus_op_describe(gradus_op op, gradus_op_info* out) {
  return door("gradus_op_describe", [&] {
    const HeldCallee callee(op);
    const OpInfo& o = callee->op;
    give_struct(out,
                {0, int32_t(callee->least), callee->most == SIZE_MAX ? -1 : int32_t(callee->most),
                 int32_t(o.attrs.size()), o.differentiable, o.name.c_str(), o.doc.c_str(),
                 o.formula.c_str(), o.group.c_str()},
                "gradus_op_info");
  });
}
gradus_status gradus_op_attr(gradus_op op, size_t index, const char** name, int32_t* type,
                             const char** doc) {
  return door("gradus_op_attr", [&] {
    const OpInfo& o = HeldCallee(op)->op;
    if (index >= o.attrs.size())
      throw Refusal{GRADUS_INDEX,
                    join("index ", index, ", ", o.name, " has ", o.attrs.size(), " attributes")};
    const AttrSpec& spec = o.attrs[index];
    if (name) *name = spec.name.c_str();
    if (type) *type = int32_t(spec.type);
    if (doc) *doc = spec.doc.c_str();
  });
}

gradus_status gradus_call(gradus_op op, const gradus_tensor* operands, size_t n_operands,
                          const gradus_attr* attrs, size_t n_attrs, gradus_tensor* outputs,
                          size_t capacity, size_t* n_outputs) {
  return door("gradus_call", [&] {
    const HeldCallee callee(op);
    SmallVector<Tensor, 3> in;
    operands_of(*callee, operands, n_operands, in);
    array(outputs, capacity, "outputs");
    Outputs results = called(*callee, {in.data(), in.size()}, attrs, n_attrs);
    if (n_outputs) *n_outputs = results.size();
    if (results.size() > capacity)
      throw Refusal{GRADUS_VALUE, join("room for ", capacity, " outputs, ", callee->op.name,
                                       " gives ", int64_t(results.size()))};
    if (results.size() == 1)  // most: given away, not counted once more
      outputs[0] = handle_of(std::move(results[0]));
    else
      give({results.data(), results.size()}, outputs);
  });
}

gradus_status gradus_call_in_place(gradus_op op, const gradus_tensor* operands, size_t n_operands,
                                   const gradus_attr* attrs, size_t n_attrs) {
  return door("gradus_call_in_place", [&] {
    const HeldCallee callee(op);
    SmallVector<Tensor, 3> in;
    operands_of(*callee, operands, n_operands, in);
    if (in.empty()) throw Refusal{GRADUS_VALUE, "no operand to write to"};
    in_place(callee->op, in[0], {in.data() + 1, in.size() - 1},
             attributes(*callee, attrs, n_attrs));
  });
}
