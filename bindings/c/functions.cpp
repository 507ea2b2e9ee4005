// Functions of the caller's: forward, vjp and jvp by callbacks. All functions of a name and a
// number of inputs are one op; which of them a node means stands in the node, as its attribute. So
// the graph stays data, and a function that was freed is an error where its graph is walked.
#include "bindings/c/calls.hpp"
#include "ops/check/user.hpp"

#include <map>
#include <mutex>

using namespace gradus;
using namespace gradus::c;

namespace {

constexpr size_t kMost = 64;

struct Function : Callee {
  Function(const OpInfo& op, const gradus_function& f)
      : Callee(op), name(f.name), callbacks(f), user(user_of(f.user, f.destroy)) {}
  ~Function() override;
  std::string name;
  gradus_function callbacks;
  std::shared_ptr<User> user;
};

struct Functions {
  std::mutex mutex;
  std::map<std::tuple<std::string, size_t, bool>, const OpInfo*> ops;
  std::map<int64_t, std::weak_ptr<Function>> alive;  // by number
  int64_t next = 1;
};
Functions& functions() {
  static Functions* const all = new Functions;
  return *all;
}

Function::~Function() {
  const std::lock_guard lock(functions().mutex);
  if (!fixed.empty()) functions().alive.erase(fixed[0].integer);
}

std::shared_ptr<Function> function_of(const OpInfo& op, const AttrValue& number) {
  const std::lock_guard lock(functions().mutex);
  const auto at = functions().alive.find(number.integer);
  std::shared_ptr<Function> f = at == functions().alive.end() ? nullptr : at->second.lock();
  if (!f)
    fail(ErrorKind::autograd, op.name,
         "this function was freed; keep its handle for as long as graphs with it are walked");
  return f;
}

void forward(OpContext& ctx) {
  const auto f = function_of(ctx.op, ctx.attrs[0]);
  const size_t n = f->callbacks.n_outputs;
  const LentList inputs(ctx.inputs);
  Written outputs(n);
  call_back(f->name.c_str(),
            [&] { return f->callbacks.forward(f->user->user, inputs.data(), outputs.data()); });
  for (size_t k = 0; k < n; ++k) ctx.outputs.push_back(tensor_of(outputs[k], {"outputs", k}));
  for (size_t k = 0; k < ctx.inputs.size(); ++k)
    if (f->callbacks.keep_inputs >> k & 1) ctx.save_input(k);
  for (size_t k = 0; k < n; ++k)
    if (f->callbacks.keep_outputs >> k & 1) ctx.save_output(k);
}

// vjp and jvp: what was kept, and the cotangents or tangents.
template <class F>
Tensor derivative(GradFn& node, size_t which, std::span<const Tensor> given,
                  F gradus_function::*callback, const char* what) {
  const auto f = function_of(node.op(), node.attr(0));
  if (!(f->callbacks.*callback))
    fail(ErrorKind::autograd, f->name, "has no ", what, "; give gradus_function_new() one");
  Tensors in(f->callbacks.n_inputs), out(f->callbacks.n_outputs);
  for (size_t k = 0; k < in.size(); ++k)
    if (f->callbacks.keep_inputs >> k & 1) in[k] = node.input(k);
  for (size_t k = 0; k < out.size(); ++k)
    if (f->callbacks.keep_outputs >> k & 1) out[k] = node.output(k);
  const LentList inputs(in), outputs(out), lent(given);
  Written result;
  call_back(f->name.c_str(), [&] {
    return (f->callbacks.*callback)(f->user->user, which, inputs.data(), outputs.data(),
                                    lent.data(), result.data());
  });
  return maybe_tensor(result[0], what);
}
Tensor vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  return derivative(node, k, g, &gradus_function::vjp, "vjp");
}
Tensor jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  return derivative(node, out, t, &gradus_function::jvp, "jvp");
}

const OpInfo& op_of(const gradus_function& f) {
  const std::tuple key{std::string(f.name), f.n_inputs, f.once_differentiable != 0};
  const std::lock_guard lock(functions().mutex);
  const OpInfo*& known = functions().ops[key];
  if (known) return *known;
  UserFunction u;
  u.name = f.name;
  u.doc = "a function of the program that uses gradus";
  for (size_t k = 0; k < f.n_inputs; ++k) u.operands.push_back({join("x", int64_t(k))});
  u.attrs = {{"function", AttrValue::Type::integer, {}, "which function of this name"}};
  u.forward = forward;
  u.vjp = vjp;
  u.jvp = jvp;
  u.once_differentiable = f.once_differentiable != 0;
  u.local = true;
  return *(known = &unlisted_function(std::move(u)));
}

}  // namespace

gradus_status gradus_function_new(const gradus_function* function, gradus_op* out) {
  return door("gradus_function_new", [&] {
    need(out, "out");
    const gradus_function f = struct_at(function, "gradus_function");
    need(f.name, "name");
    need(f.forward, "forward");
    if (f.n_inputs > kMost || f.n_outputs > kMost || f.n_outputs == 0)
      throw Refusal{GRADUS_VALUE, join("a function has up to ", kMost, " inputs and 1 to ", kMost,
                                       " outputs, asked were ", f.n_inputs, " and ", f.n_outputs)};
    auto made = std::make_shared<Function>(op_of(f), f);
    {
      const std::lock_guard lock(functions().mutex);
      made->fixed = {AttrValue(functions().next)};
      functions().alive[functions().next++] = made;
    }
    const auto owned = made->user;
    *out = new_handle(Kind::op, std::shared_ptr<Object>(std::move(made)));
    owned->ours = true;
  });
}
