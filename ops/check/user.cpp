// Users' functions: what their derivatives get around them, and libraries of ops.
#include "ops/check/user.hpp"

#include "engine/config/loader.hpp"
#include "ops/base/dtypes.hpp"

#include <dlfcn.h>
#include <map>
#include <mutex>
#include <set>

namespace gradus::inline v1 {

namespace {

struct Registered {
  UserFunction function;
  OpInfo twice;  // stands behind cotangents that can't be differentiated again
};
std::map<const OpInfo*, Registered>& functions() {
  static auto* all = new std::map<const OpInfo*, Registered>;
  return *all;
}
std::mutex functions_mutex;  // some are added while threads run others
const Registered* find(const OpInfo& op) {
  const std::lock_guard lock(functions_mutex);
  const auto at = functions().find(&op);
  return at == functions().end() ? nullptr : &at->second;
}
const Registered& registered(const OpInfo& op) { return *find(op); }

Tensor no_vjp(GradFn& node, size_t, std::span<const Tensor>) {
  fail(ErrorKind::autograd, node.op().name,
       "the derivative is not implemented: it was added without a vjp");
}
Tensor no_jvp(GradFn& node, size_t, std::span<const Tensor>) {
  fail(ErrorKind::autograd, node.op().name,
       "forward mode is not implemented: it was added without a jvp");
}

// The op behind the cotangents of a once_differentiable function: its first operand, and all that
// the cotangent depends on.
void first_operand(OpContext& ctx) { ctx.outputs.push_back(ctx.inputs[0].detach()); }
Tensor refuse_twice(GradFn& node, size_t, std::span<const Tensor>) {
  fail(ErrorKind::autograd, node.op().name,
       "differentiated twice, but it was added as once_differentiable; write its vjp with ops and "
       "leave the flag out");
}

// A stand-in for operand k of the node: its place in the graph without its elements.
Tensor stand_in(const GradFn& node, size_t k) {
  const Edge& edge = node.inputs()[k];
  const TensorMeta& meta = node.input_metas()[k];
  Tensor t = Tensor::empty({}, meta.dtype, *meta.device);
  if (edge.leaf) {
    t.body()->autograd = edge.leaf;
  } else {
    autograd_of(t).fn = edge.fn;
    autograd_of(t).output_index = edge.index;
  }
  return t;
}

Tensor vjp_once(GradFn& node, size_t k, std::span<const Tensor> g) {
  const Registered& r = registered(node.op());
  Tensors operands(1);
  {
    const NoGrad off;
    const Tensor result = r.function.vjp(node, k, g);
    if (!result.defined()) return result;
    operands[0] = result.detach();
  }
  for (const Tensor& t : g)
    if (t.defined()) operands.push_back(t);
  for (size_t i = 0; i < node.inputs().size(); ++i)
    if (grad_enabled() && node.inputs()[i].leads_somewhere()) operands.push_back(stand_in(node, i));
  for (const Saved& s : node.saved())
    if (s.tensor.tangent().defined()) operands.push_back(s.tensor);
  return apply1(r.twice, operands);
}

// The outputs of a user's forward: tensors of their own body, so that recording one never marks an
// input; and no numbers, which have no device.
void checked_forward(OpContext& ctx) {
  registered(ctx.op).function.forward(ctx);
  if (ctx.outputs.empty()) fail(ErrorKind::value, ctx.op.name, "its forward gave no output");
  for (size_t i = 0; i < ctx.outputs.size(); ++i) {
    Tensor& y = ctx.outputs[i];
    if (!y.defined())
      fail(ErrorKind::value, ctx.op.name, "its forward left output ", int64_t(i), " undefined");
    Device& device = ctx.inputs.empty() ? default_device() : ctx.inputs[0].device();
    y = materialise(y, y.dtype(), device);
    if (y.body()->autograd) y = y.detach();
    for (const Tensor& x : ctx.inputs)
      if (y.same_body(x)) y = y.detach();
  }
}

void check_count(const OpInfo& op, Operands in) {
  const bool list = !op.operands.empty() && op.operands.back().variadic;
  if (in.size() < op.least_operands() || (!list && in.size() > op.operands.size()))
    fail(ErrorKind::value, op.name, "takes ", int64_t(op.operands.size()), " operands, got ",
         int64_t(in.size()));
}

Outputs plain_call(const OpInfo& op, Operands in, const Attrs& attrs) {
  check_count(op, in);
  const Attrs all = op.completed(attrs);
  Device* device = nullptr;
  Tensors defined;
  for (const Tensor& t : in) {
    if (!t.defined()) continue;
    defined.push_back(t);
    if (!device && !t.is_number()) device = &t.device();
  }
  Tensors ready;
  for (const Tensor& t : in)
    ready.push_back(
        !t.defined() || !t.is_number()
            ? t
            : materialise(t, result_dtype(defined), device ? *device : default_device()));
  return apply(op, ready, all);
}

OpInfo op_of(const UserFunction& f) {
  OpInfo op;
  op.name = f.name;
  op.doc = f.doc;
  op.formula = f.formula;
  op.operands = f.operands;
  op.attrs = f.attrs;
  op.group = "user";
  op.user = true;
  op.forward = checked_forward;
  op.vjp = !f.vjp ? no_vjp : f.once_differentiable ? vjp_once : f.vjp;
  op.jvp = f.jvp ? f.jvp : no_jvp;
  if (!f.once_differentiable) op.vjps = f.vjps;
  op.cost = f.cost;
  op.batch = f.batch;
  return op;
}
// What needs the op's own address.
void complete(OpInfo& op, UserFunction f) {
  OpInfo twice;
  twice.name = f.name;
  twice.operands = {{"tensors", true}};
  twice.forward = first_operand;
  twice.vjp = refuse_twice;
  twice.jvp = refuse_twice;
  op.call = [&op](Operands in, const Attrs& attrs) {
    const UserFunction& function = registered(op).function;
    return function.call ? function.call(op, in, attrs) : plain_call(op, in, attrs);
  };
  const std::lock_guard lock(functions_mutex);
  functions().emplace(&op, Registered{std::move(f), std::move(twice)});
}

}  // namespace

rows::Row plain_row(int operands, unsigned dtypes) {
  rows::Row row{"", {rows::between(-2, 2)}, dtypes, {}, {64, true, 4, "a few operations in a row"}};
  for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0}, Shape{2, 3, 17}})
    row.cases.push_back({std::vector<Shape>(size_t(operands), shape)});
  return row;
}

const OpInfo& add_user_statement(def::StatementText text, const StatementReader& reader,
                                 rows::Row row) {
  if (find_op(text.name)) fail(ErrorKind::value, text.name, "an op of this name is there already");
  const OpInfo& op = add_statement_op(def::add_user_statement(std::move(text)), reader);
  row.name = op.name;
  rows::add_row(std::move(row));
  return op;
}

const OpInfo& add_function(UserFunction f, rows::Row row) {
  if (f.name.empty() || !f.forward)
    fail(ErrorKind::value, f.name.empty() ? "add_function" : f.name, "needs a name and a forward");
  if (find_op(f.name)) fail(ErrorKind::value, f.name, "an op of this name is there already");
  OpInfo& added = add_op(op_of(f));
  row.name = f.name;
  complete(added, std::move(f));
  rows::add_row(std::move(row));
  return added;
}

const OpInfo& unlisted_function(UserFunction f) {
  auto* const op = new OpInfo(op_of(f));  // lives for ever, as others do: nodes may point to it
  complete(*op, std::move(f));
  return *op;
}

bool is_local(const OpInfo& op) {
  const Registered* const added = find(op);
  return added && added->function.local;
}

void load_ops(const std::string& path) {
  static std::set<void*> loaded;
  void* const library = open_library(path);
  const auto* stamp = static_cast<const uint64_t*>(dlsym(library, "gradus_ops_stamp"));
  const auto enter = reinterpret_cast<void (*)()>(dlsym(library, "gradus_register_ops"));
  if (!stamp || !enter)
    fail(ErrorKind::device, path, "is not a library of ops: it has no symbol ",
         stamp ? "gradus_register_ops" : "gradus_ops_stamp");
  if (*stamp >> 32 != kUserOpsVersion)
    fail(ErrorKind::device, path, "was built for version ", int64_t(*stamp >> 32),
         " of the interface for users' ops, this program has ", int64_t(kUserOpsVersion),
         "; rebuild the library");
  if (*stamp != kUserOpsStamp)
    fail(ErrorKind::device, path,
         "was built from other headers than this program; rebuild the library");
  if (loaded.insert(library).second) enter();
}

}  // namespace gradus
