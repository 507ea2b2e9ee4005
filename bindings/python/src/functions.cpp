// autograd.Function: a forward and a backward of the user's. As in the C door, all of a name and a
// number of inputs are one op, and which call a node stands for is its attribute: the graph stays
// data. What the call holds (its Python functions) lives as long as the node's saved tensors.
#include "bindings/python/src/python.hpp"
#include "engine/hooks.hpp"
#include "ops/check/user.hpp"

#include <map>
#include <mutex>

namespace gradus::inline v1::py {

namespace {

struct Called {
  ~Called();
  Kept forward, backward, jvp;
  int64_t number;
};
struct All {
  std::mutex mutex;
  std::map<std::tuple<std::string, size_t, bool>, const OpInfo*> ops;
  std::map<int64_t, std::weak_ptr<Called>> alive;
  int64_t next = 1;
};
All& all() {
  static All* const made = new All;
  return *made;
}
Called::~Called() {
  const std::lock_guard lock(all().mutex);
  all().alive.erase(number);
}
std::shared_ptr<Called> called_by(const OpInfo& op, const AttrValue& number) {
  const std::lock_guard lock(all().mutex);
  const auto at = all().alive.find(number.integer);
  auto called = at == all().alive.end() ? nullptr : at->second.lock();
  if (!called)
    fail(ErrorKind::autograd, op.name,
         "the graph of this call was freed; backward(retain_graph=True) keeps it");
  return called;
}

void forward(OpContext& ctx) {
  const auto called = called_by(ctx.op, ctx.attrs[0]);
  {
    const Locked locked;
    nb::list inputs, needs;
    for (size_t k = 0; k < ctx.inputs.size(); ++k) {
      inputs.append(nb::cast(ctx.inputs[k]));
      needs.append(ctx.needs(k));
    }
    const nb::object told = called->forward.get()(inputs, needs);
    const Tensors outputs = tensors_of(told[0], ctx.op.name),
                  kept = tensors_of(told[1], ctx.op.name);
    for (const Tensor& y : outputs) ctx.outputs.push_back(y);
    for (const Tensor& t : kept) {
      bool found = false;
      for (size_t k = 0; k < ctx.inputs.size() && !found; ++k)
        if ((found = t.same_body(ctx.inputs[k]))) ctx.save_input(k);
      for (size_t k = 0; k < outputs.size() && !found; ++k)
        if ((found = t.same_body(outputs[k]))) ctx.save_output(k);
      if (!found) ctx.save(t);
    }
  }
  if (ctx.needs_any())  // the call lives as long as what the node saved
    ctx.save(Tensor::lend(nullptr, 0, {0}, {1}, 0, DType::u8, open_device("cpu"), [called] {}));
}

nb::list saved_of(GradFn& node) {
  nb::list out;
  for (size_t i = 0; i + 1 < node.saved().size(); ++i) {
    const Saved& s = node.saved()[i];
    out.append(nb::cast(s.role == Saved::Role::input    ? node.input(s.index)
                        : s.role == Saved::Role::output ? node.output(s.index)
                                                        : node.extra(s.index)));
  }
  return out;
}
Tensors asked(GradFn& node, std::span<const Tensor> given, Kept Called::*function, size_t results,
              const char* what) {
  const auto called = called_by(node.op(), node.attr(0));
  const Locked locked;
  nb::list list;
  for (const Tensor& g : given) list.append(nb::cast(g));
  if ((called.get()->*function).get().is_none())
    fail(ErrorKind::autograd, node.op().name, "has no ", what);
  Tensors out = tensors_of((called.get()->*function).get()(saved_of(node), list), node.op().name);
  if (out.size() != results)
    fail(ErrorKind::autograd, node.op().name, what, " gave ", int64_t(out.size()),
         " results, expected ", int64_t(results), ", one for each ",
         what[0] == 'j' ? "output" : "input");
  return out;
}
Tensor vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  return asked(node, g, &Called::backward, node.op().operands.size(), "backward")[k];
}
void vjps(GradFn& node, std::span<const char> wanted, std::span<const Tensor> g,
          std::span<Tensor> cotangents) {
  const Tensors all = asked(node, g, &Called::backward, node.op().operands.size(), "backward");
  for (size_t k = 0; k < wanted.size(); ++k)
    if (wanted[k]) cotangents[k] = all[k];
}
Tensor jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  return asked(node, t, &Called::jvp, node.output_metas().size(), "jvp")[out];
}

const OpInfo& op_of(const std::string& name, size_t inputs, bool once) {
  const std::lock_guard lock(all().mutex);
  const OpInfo*& known = all().ops[{name, inputs, once}];
  if (known) return *known;
  UserFunction u;
  u.name = name;
  u.doc = "a function of the program that uses gradus";
  for (size_t k = 0; k < inputs; ++k) u.operands.push_back({join("x", int64_t(k))});
  u.attrs = {{"call", AttrValue::Type::integer, {}, "which call of it"}};
  u.forward = forward;
  u.vjp = vjp;
  u.vjps = vjps;
  u.jvp = jvp;
  u.once_differentiable = once;
  u.local = true;
  return *(known = &unlisted_function(std::move(u)));
}

}  // namespace

void open_functions(nb::module_& m) {
  m.def(
      "_call_function",
      [](const std::string& name, nb::handle f, nb::handle backward, nb::handle jvp, bool once,
         const Tensors& inputs) {
        const OpInfo& op = op_of(name, inputs.size(), once);
        std::shared_ptr<Called> called;
        {
          const std::lock_guard lock(all().mutex);
          called.reset(new Called{Kept(f), Kept(backward), Kept(jvp), all().next++});
          all().alive[called->number] = called;
        }
        const PythonLine line;
        Tensors out = op.call(inputs, {AttrValue(called->number)});
        // Saved-tensor hooks, a checkpoint's, may let go of what the node saved: a hook holds on.
        if (GradFn* const node = out.empty() ? nullptr : out[0].grad_fn();
            node && &node->op() == &op)
          register_prehook(*node, [called](Tensors&) {});
        return out;
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
}

}  // namespace gradus::py
