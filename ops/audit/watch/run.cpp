// Running a call again.
#include "ops/audit/watch/run.hpp"
#include "engine/arithmetic.hpp"

#include "ops/shape/memory.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::audit {

Parts parts_of(const Tensor& t) {
  if (!is_complex(t.dtype())) return cast(t.detach(), DType::f64).to_vector<double>();
  Parts out;
  for (const c128& z : cast(t.detach(), DType::c128).to_vector<c128>()) {
    out.push_back(z.re);
    out.push_back(z.im);
  }
  return out;
}

Tensor of_parts(const Parts& parts, const Shape& sizes, DType dtype, Device& device) {
  if (!is_complex(dtype)) return cast(Tensor::from(parts, sizes, device), dtype);
  std::vector<c128> z;
  for (size_t i = 0; i < parts.size(); i += 2) z.push_back({parts[i], parts[i + 1]});
  return cast(Tensor::from(z, sizes, device), dtype);
}

DType wide(DType t) { return is_complex(t) ? DType::c128 : is_real_float(t) ? DType::f64 : t; }

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (!(a.sizes() == b.sizes()) || a.dtype() != b.dtype()) return false;
  std::vector<char> x(a.bytes()), y(b.bytes());
  a.detach().copy_to_host(x.data());
  b.detach().copy_to_host(y.data());
  return x == y;
}

int64_t first_bad(const Tensor& t, Bad bad) {
  if (!t.defined() || !is_floating(t.dtype())) return -1;
  const Parts p = parts_of(t);
  const auto it = std::find_if(p.begin(), p.end(), [&](double x) {
    return bad == Bad::nan ? std::isnan(x) : !std::isfinite(x);
  });
  return it == p.end() ? -1 : it - p.begin();
}

Shape index_of(const Tensor& t, size_t part) {
  auto rest = int64_t(is_complex(t.dtype()) ? part / 2 : part);
  Shape index = t.sizes();
  for (size_t d = index.size(); d-- > 0;) {
    index[d] = rest % t.sizes()[d];
    rest /= t.sizes()[d];
  }
  return index;
}

Rerun::Rerun(const Call& call)
    : call_(call), device_(&call.outputs[0].device()), wide_attrs_(call.node->attrs()) {
  for (size_t k = 0; k < call.inputs.size(); ++k)
    asked_.push_back(call.node->inputs()[k].leads_somewhere() &&
                     is_floating(call.inputs[k].dtype()));
  for (AttrValue& a : wide_attrs_)
    if (a.type == AttrValue::Type::dtype) a = AttrValue(wide(a.dtype()));
}

std::vector<Parts> Rerun::point() const {
  std::vector<Parts> x;
  for (const Tensor& t : call_.inputs)
    x.push_back(t.defined() && is_floating(t.dtype()) ? parts_of(t) : Parts());
  return x;
}

Run Rerun::run(Tensors in, const Attrs& attrs, bool recorded, Device& device) const {
  Run r{{}, {}, &device};
  const DeviceScope scope(device);
  std::optional<EnableGrad> on;
  std::optional<NoGrad> off;
  if (recorded)
    on.emplace();
  else
    off.emplace();
  for (size_t k = 0; recorded && k < in.size(); ++k)
    if (asked_[k]) in[k].set_requires_grad();
  for (Tensor& y : apply(*call_.op, in, attrs)) r.outputs.push_back(std::move(y));
  for (const Tensor& y : r.outputs)
    if (recorded && !r.node) r.node = Ref<GradFn>(y.grad_fn());
  return r;
}

Run Rerun::run_wide(const std::vector<Parts>& point, bool recorded) const {
  Tensors in;
  for (size_t k = 0; k < call_.inputs.size(); ++k) {
    const Tensor& x = call_.inputs[k];
    in.push_back(x.defined() && is_floating(x.dtype())
                     ? of_parts(point[k], x.sizes(), wide(x.dtype()), *device_)
                     : x);
  }
  return run(std::move(in), wide_attrs_, recorded, *device_);
}

Run Rerun::run_own(Device& device) const {
  Tensors in;
  for (const Tensor& x : call_.inputs)
    in.push_back(!x.defined()         ? x
                 : &device == device_ ? x.detach()
                                      : to_device(x.detach(), device));
  return run(std::move(in), call_.node->attrs(), true, device);
}

Tensors cotangents(const Run& run, const Parts& w) {
  Tensors g;
  size_t at = 0;
  for (const Tensor& y : run.outputs) {
    if (!is_floating(y.dtype())) {
      g.emplace_back();
      continue;
    }
    const size_t n = size_t(y.numel()) * (is_complex(y.dtype()) ? 2 : 1);
    const auto begin = w.begin() + int64_t(at);
    g.push_back(of_parts(Parts(begin, begin + int64_t(n)), y.sizes(), y.dtype(), *run.device));
    at += n;
  }
  return g;
}

Parts outputs_of(const Run& run) {
  Parts all;
  for (const Tensor& y : run.outputs) {
    if (!is_floating(y.dtype())) continue;
    const Parts one = parts_of(y);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

Tensor pull(GradFn& node, size_t k, const Tensors& g) {
  const OpInfo& op = node.op();
  if (!op.vjp) fail(ErrorKind::autograd, op.name, "the derivative is not implemented");
  const NoGrad off;
  Tensor gk = op.vjp(node, k, g);
  if (!gk.defined()) return gk;
  const TensorMeta& meta = node.input_metas()[k];
  const size_t rank = meta.sizes.size();
  bool fits = gk.sizes().size() >= rank && gk.dtype() == meta.dtype;
  for (size_t i = 0; fits && i < rank; ++i) {
    const int64_t n = gk.sizes()[gk.sizes().size() - rank + i];
    fits = meta.sizes[i] == n || meta.sizes[i] == 1;
  }
  if (!fits)
    fail(ErrorKind::shape, op.name, "the cotangent of operand ", k, " is ", gk.dtype(), " ",
         gk.sizes(), ", the operand ", meta.dtype, " ", meta.sizes);
  return gk.sizes() == meta.sizes ? gk : arithmetic().sum_to(gk, meta.sizes);
}

std::string other_outputs(const Call& call, const Run& again) {
  // A recorded write in place has its values written after it was recorded.
  if (call.op == arithmetic().scatter_strided) return {};
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (!same_bits(call.outputs[i], again.outputs[i]))
      return join("output ", i, " has other bits when it runs again");
  return {};
}

std::string other_cotangents(const Rerun& rerun, const Run& run, const Parts& w) {
  if (!run.node) return {};
  const Tensors g = cotangents(run, w);
  for (size_t k = 0; k < rerun.operands(); ++k)
    if (rerun.asked(k) && !same_bits(pull(*run.node, k, g), pull(*run.node, k, g)))
      return join("its vjp gives operand ", k, " a cotangent of other bits when it runs again");
  return {};
}

}  // namespace gradus::audit
