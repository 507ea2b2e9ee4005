// The way of a tensor from one device to another as a node of the graph. It is in no list of ops:
// nobody calls it but a contraction, and a graph that has it can't be read from a file.
#include "ops/contract/gathered.hpp"

#include "engine/graph.hpp"
#include "ops/base/registry.hpp"
#include "ops/shape/memory.hpp"

namespace gradus::inline v1 {

namespace {

Tensor brought(const Tensor& x, const Device& device);

const OpInfo& brought_op() {
  static const OpInfo op = [] {
    OpInfo o = new_op("brought", "memory", "the same values on another device", "y = x", {{"x"}},
                      {{"device", AttrValue::Type::text, {}, "its name"}});
    o.call = [](Operands in, const Attrs& a) { return brought(in[0], open_device(a[0].text)); };
    o.forward = [](OpContext& ctx) {
      ctx.outputs.push_back(to_device(ctx.inputs[0].detach(), open_device(ctx.attrs[0].text)));
    };
    o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
      return g[0].defined() ? brought(g[0], *node.input_metas()[0].device) : Tensor();
    };
    o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
      return brought(t[0], *node.output_metas()[0].device);
    };
    return o;
  }();
  return op;
}

Tensor brought(const Tensor& x, const Device& device) {
  return x.is_number() || &x.device() == &device
             ? x
             : apply1(brought_op(), {x}, {AttrValue(device.name())});
}

bool gathers(const Device& device) {
  const gd_table& t = device.table();
  return t.capabilities && (t.capabilities(device.handle()) & GD_CAP_GATHERS);
}

}  // namespace

bool live_apart(std::span<const Tensor> operands) {
  const Tensor* first = nullptr;
  for (const Tensor& x : operands) {
    if (x.is_number()) continue;
    if (!first) first = &x;
    if (&x.device() != &first->device()) return true;
  }
  return false;
}

Tensors gathered(const char* op, std::span<const Tensor> operands) {
  const Device *first = nullptr, *other = nullptr, *at = nullptr;
  for (const Tensor& x : operands) {
    if (x.is_number()) continue;
    const Device& d = x.device();
    if (!first) first = &d;
    if (&d != first && !other) other = &d;
    if (!at && gathers(d)) at = &d;
  }
  if (!at)
    fail(ErrorKind::device, op, "operands live on ", first->name(), " and ", other->name(),
         "; move one with to(device)");
  Tensors out;
  for (const Tensor& x : operands) out.push_back(brought(x, *at));
  return out;
}

}  // namespace gradus
