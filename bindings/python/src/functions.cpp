// autograd.Function: a forward and a backward of the user's. As in the C door, all of a name and a
// number of inputs are one op, and which call a node stands for is its attribute: the graph stays
// data. What the call holds (its Python functions) lives as long as the node's saved tensors.
#include "bindings/python/src/python.hpp"
#include "engine/batch.hpp"
#include "engine/hooks.hpp"
#include "engine/in_place.hpp"
#include "ops/check/user.hpp"

#include <algorithm>
#include <map>
#include <mutex>

namespace gradus::inline v1::py {

namespace {

struct Called {
  ~Called();
  Kept call;  // autograd._Call
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
    const nb::object told = called->call.get().attr("forward")(inputs, needs);
    const Tensors outputs = tensors_of(told[0], ctx.op.name),
                  kept = tensors_of(told[1], ctx.op.name);
    for (const Tensor& y : outputs) ctx.outputs.push_back(y);
    // The node keeps each once: where among what it saved is each of them?
    std::vector<std::pair<Saved::Role, size_t>> places;
    nb::list at;
    for (const Tensor& t : kept) {
      std::pair place{Saved::Role::extra, places.size()};
      for (size_t k = outputs.size(); k-- > 0;)
        if (t.defined() && t.same_body(outputs[k])) place = {Saved::Role::output, k};
      for (size_t k = ctx.inputs.size(); k-- > 0;)
        if (t.defined() && t.same_body(ctx.inputs[k])) place = {Saved::Role::input, k};
      const auto found = std::find(places.begin(), places.end(), place);
      if (t.defined())
        at.append(found - places.begin());
      else
        at.append(nb::none());
      if (!t.defined() || found != places.end()) continue;
      places.push_back(place);
      if (place.first == Saved::Role::input) ctx.save_input(place.second);
      if (place.first == Saved::Role::output) ctx.save_output(place.second);
      if (place.first == Saved::Role::extra) ctx.save(t);
    }
    called->call.get().attr("saved_at") = at;
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
Tensors asked(GradFn& node, std::span<const Tensor> given, const char* what, size_t results) {
  const auto called = called_by(node.op(), node.attr(0));
  const Locked locked;
  if (!nb::cast<bool>(called->call.get().attr("has")(what)))
    fail(ErrorKind::autograd, node.op().name, "has no ", what);
  nb::list list;
  for (const Tensor& g : given) list.append(nb::cast(g));
  Tensors out = tensors_of(called->call.get().attr(what)(saved_of(node), list), node.op().name);
  if (out.size() != results)
    fail(ErrorKind::autograd, node.op().name, what, " gave ", int64_t(out.size()),
         " results, expected ", int64_t(results), ", one for each ",
         what[0] == 'j' ? "output" : "input");
  return out;
}
Tensor vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  return asked(node, g, "backward", node.op().operands.size())[k];
}
void vjps(GradFn& node, std::span<const char> wanted, std::span<const Tensor> g,
          std::span<Tensor> cotangents) {
  const Tensors all = asked(node, g, "backward", node.op().operands.size());
  for (size_t k = 0; k < wanted.size(); ++k)
    if (wanted[k]) cotangents[k] = all[k];
}
Tensor jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  return asked(node, t, "jvp", node.output_metas().size())[out];
}
// Each example is a call of its own, or all are one: the call knows.
Outputs batch(const BatchCall& c) {
  constexpr const char* randomness[] = {"error", "same", "different"};
  const auto called = called_by(c.op, c.attrs[0]);
  const Locked locked;
  nb::list inputs, mapped;
  for (size_t k = 0; k < c.in.size(); ++k) {
    inputs.append(nb::cast(c.in[k]));
    mapped.append(bool(c.batched[k]));
  }
  return tensors_of(called->call.get().attr("vmap")(inputs, mapped, c.scope.level.size,
                                                    randomness[int(c.scope.randomness)]),
                    c.op.name);
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
  u.batch = batch;
  u.once_differentiable = once;
  u.local = true;
  return *(known = &unlisted_function(std::move(u)));
}

}  // namespace

void open_functions(nb::module_& m) {
  m.def("_call_function", [](const std::string& name, nb::handle call, bool once,
                             const Tensors& inputs) {
    const OpInfo& op = op_of(name, inputs.size(), once);
    std::shared_ptr<Called> called;
    {
      const std::lock_guard lock(all().mutex);
      called.reset(new Called{Kept(call), all().next++});
      all().alive[called->number] = called;
    }
    const PythonLine line;
    Tensors out = op.call(inputs, {AttrValue(called->number)});
    // Saved-tensor hooks, a checkpoint's, may let go of what the node saved: a hook holds on.
    if (GradFn* const node = out.empty() ? nullptr : out[0].grad_fn(); node && &node->op() == &op)
      register_prehook(*node, [called](Tensors&) {});
    return out;
  });
  m.def("_assign", [](const Tensor& x, const Tensor& y, const std::string& name) {
    assign(x, y, intern(name));
  });
}

}  // namespace gradus::py
