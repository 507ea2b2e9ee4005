// The pointwise ops: every statement of ops/def/ becomes an op. Derivatives are read from the
// slopes: by the fused slot where no graph of the derivative is wanted, else by Traced.
#include "engine/forward.hpp"
#include "engine/batch.hpp"
#include "engine/kernel_call.hpp"
#include "ops/def/fingerprint.hpp"
#include "ops/def/words_scalar.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/pointwise/pointwise_calls.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/pointwise/statement_reader.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

#include <array>
#include <cmath>
#include <deque>

namespace gradus::inline v1 {

namespace {

using def::Kind;
using def::StatementText;

// By statement id, users' after the built-in ones; a deque, since ids are never taken back. Made
// with the first one, which may be before this file's objects are made, and never freed.
constinit std::deque<StatementReader>* all_readers = nullptr;
StatementReader& reader_of_id(int id) { return (*all_readers)[size_t(id)]; }

using Params = std::array<double, 4>;
Params params_of(const Attrs& attrs) {
  Params p{};
  size_t n = 0;
  for (const AttrValue& a : attrs)
    if (a.type == AttrValue::Type::number && n < p.size()) p[n++] = a.number;
  return p;
}
int param_count(const OpInfo& op) { return int(def::statement_info(op.statement).params.size()); }

DType output_dtype(const OpInfo& op, const StatementText& s, DType in) {
  if (s.kind == Kind::comparison) return DType::bool_;
  return is_complex(in) && reader_of_id(op.statement).complex_to_real ? real_dtype(in) : in;
}

bool has_kernel(const OpInfo& op) { return op.statement < def::statement_count(); }

// A statement without a kernel, read by Traced; f16 and bf16 compute in f32, as kernels do.
Tensor read_value(OpContext& ctx, const Shape& sizes, DType out) {
  const StatementText& s = def::statement_info(ctx.op.statement);
  const DType in = ctx.inputs.back().dtype(), wide = is_half(in) ? DType::f32 : in;
  SmallVector<Tensor, 3> x;
  for (size_t k = 0; k < ctx.inputs.size(); ++k)
    x.push_back(s.kind == Kind::select && k == 0 ? ctx.inputs[k] : cast(ctx.inputs[k], wide));
  DeviceScope here(ctx.inputs[0].device());
  Traced::dtype = wide;
  Tensor y =
      reader_of_id(ctx.op.statement).value({x.data(), x.size()}, params_of(ctx.attrs).data());
  y = expand(cast(materialise(y, out, ctx.inputs[0].device()), out), sizes);
  for (const Tensor& t : ctx.inputs)
    if (&t.storage() == &y.storage()) y = y.clone_data();  // never an alias of an operand
  return y;
}

void forward(OpContext& ctx) {
  const StatementText& s = def::statement_info(ctx.op.statement);
  Shape broader;
  const Shape* sizes = &ctx.inputs[0].sizes();
  for (const Tensor& x : ctx.inputs.subspan(1))
    if (!(x.sizes() == *sizes))
      sizes = &(broader = broadcast_shapes(ctx.op.name.c_str(), *sizes, x.sizes()));
  const Tensor& last = ctx.inputs.back();
  const DType out = output_dtype(ctx.op, s, last.dtype());
  Tensor y =
      has_kernel(ctx.op) ? Tensor::empty(*sizes, out, last.device()) : read_value(ctx, *sizes, out);
  if (has_kernel(ctx.op) && y.storage().bytes() > 0) {
    KernelCall call(GD_POINTWISE, ctx.op.statement);
    for (const Tensor& x : ctx.inputs) call.in(x, *sizes);
    if (const int n = int(s.params.size())) {
      const Params p = params_of(ctx.attrs);
      for (int i = 0; i < n; ++i) call.number(p[size_t(i)]);
    }
    call.out(y, *sizes).run();
  }
  ctx.outputs.push_back(std::move(y));
  if (!ctx.needs_any() || s.slopes.empty()) return;
  if (s.kind == Kind::non_holomorphic && is_complex(last.dtype())) {
    if (s.wirtinger_saves & 1) ctx.save_input(0);
    return;
  }
  for (size_t k = 0; k < ctx.inputs.size(); ++k) {
    if (!ctx.needs(k)) continue;
    for (size_t i = 0; i < ctx.inputs.size(); ++i)
      if (s.saves[k] >> i & 1u) ctx.save_input(i);
    if (s.saves[k] & def::kSavesY) ctx.save_output(0);
  }
}

// dy/dx_k as a tensor (or a number), read by Traced from what was saved.
Tensor slope_of(GradFn& node, size_t k) {
  const StatementText& s = def::statement_info(node.op().statement);
  SmallVector<Tensor, 3> x;
  for (size_t i = 0; i < node.input_metas().size(); ++i)
    x.push_back(s.saves[k] >> i & 1u ? node.input(i) : Tensor());
  const Tensor y = s.saves[k] & def::kSavesY ? node.output(0) : Tensor();
  Traced::dtype = node.input_metas()[k].dtype;
  return reader_of_id(node.op().statement)
      .slope(k, {x.data(), x.size()}, y, params_of(node.attrs()).data());
}

bool wirtinger(const GradFn& node) {
  return def::statement_info(node.op().statement).kind == Kind::non_holomorphic &&
         is_complex(node.input_metas()[0].dtype);
}
// dy/dz and dy/dz*.
std::pair<Tensor, Tensor> wirtinger_slopes(GradFn& node) {
  const StatementReader& r = reader_of_id(node.op().statement);
  const bool saved = def::statement_info(node.op().statement).wirtinger_saves & 1;
  const Tensor z = saved ? node.input(0) : Tensor(0.0);
  Traced::dtype = node.input_metas()[0].dtype;
  const Params p = params_of(node.attrs());
  DeviceScope here(*node.input_metas()[0].device);
  return {r.dz(z, p.data()), r.dzbar(z, p.data())};
}

// The cotangent in one pass: g times the conjugate of the slope.
Tensor fused_vjp(GradFn& node, size_t k, const Tensor& g) {
  const StatementText& s = def::statement_info(node.op().statement);
  const Shape& sizes = node.output_metas()[0].sizes;
  Tensor out = Tensor::empty(sizes, node.input_metas()[k].dtype, g.device());
  if (out.numel() == 0) return out;
  KernelCall call(GD_POINTWISE_VJP, node.op().statement);
  call.in(g, sizes);
  SmallVector<Tensor, 4> keep;  // views point into them
  for (size_t i = 0; i < node.input_metas().size(); ++i) {
    if (s.saves[k] >> i & 1u) {
      keep.push_back(node.input(i));
      call.in(keep.back(), sizes);
    } else {
      call.in_none();
    }
  }
  if (s.saves[k] & def::kSavesY) {
    keep.push_back(node.output(0));
    call.in(keep.back(), sizes);
  } else {
    call.in_none();
  }
  const Params p = params_of(node.attrs());
  for (int i = 0; i < param_count(node.op()); ++i) call.number(p[size_t(i)]);
  call.integer(int64_t(k)).out(out, sizes).run();
  return out;
}

Tensor vjp(GradFn& node, size_t k, std::span<const Tensor> gs) {
  const StatementText& s = def::statement_info(node.op().statement);
  const DType dtype = node.input_metas()[k].dtype;
  const Tensor& g = gs[0];
  if (!g.defined()) return g;
  if (wirtinger(node)) {
    const auto [dz, dzbar] = wirtinger_slopes(node);
    return cast(add(mul(conj(dz), g), mul(dzbar, conj(g))), dtype);
  }
  if (s.slope_is_zero[k]) return Tensor();
  if (s.slope_is_one[k]) return g;
  if (has_kernel(node.op()) && !grad_enabled() && !forward_mode() && !is_batched(g) &&
      g.device().offers(GD_POINTWISE_VJP))
    return fused_vjp(node, k, g);
  return cast(mul(g, conj(slope_of(node, k))), dtype);
}

Tensor jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  const StatementText& s = def::statement_info(node.op().statement);
  const DType dtype = node.output_metas()[0].dtype;
  if (wirtinger(node)) {
    const auto [dz, dzbar] = wirtinger_slopes(node);
    const Tensor y = add(mul(dz, t[0]), mul(dzbar, conj(t[0])));
    return is_complex(dtype) ? cast(y, dtype) : real(y);
  }
  Tensor sum;
  for (size_t k = 0; k < t.size(); ++k) {
    if (!t[k].defined() || s.slope_is_zero[k]) continue;
    const Tensor term = s.slope_is_one[k] ? t[k] : cast(mul(slope_of(node, k), t[k]), dtype);
    sum = sum.defined() ? add(sum, term) : term;
  }
  return sum;
}

Cost cost(const OpContext& ctx) {
  const Tensor& y = ctx.outputs[0];
  Cost c{double(y.numel()), double(y.bytes())};
  for (const Tensor& x : ctx.inputs) c.bytes += double(x.bytes());
  return c;
}

}  // namespace

OpInfo& add_statement_op(int id, const StatementReader& reader) {
  const StatementText& s = def::statement_info(id);
  OpInfo op;
  op.name = s.name;
  op.doc = s.doc;
  op.formula = "y = " + s.value;
  for (const std::string& name : s.operands) op.operands.push_back({name});
  for (size_t i = 0; i < s.params.size(); ++i)
    op.attrs.push_back({s.params[i], AttrValue::Type::number, s.defaults[i], "parameter"});
  op.group = "pointwise";
  op.differentiable = !s.slopes.empty();
  op.user = id >= def::statement_count();
  op.statement = id;
  op.forward = forward;
  op.vjp = vjp;
  op.jvp = jvp;
  op.cost = cost;
  OpInfo& added = add_op(std::move(op));
  added.call = [&added](Operands in, const Attrs& attrs) {
    if (attrs.size() >= added.attrs.size()) return run_statement(added, in, attrs);
    return run_statement(added, in, added.completed(attrs));
  };
  if (!all_readers) all_readers = new std::deque<StatementReader>;
  all_readers->resize(std::max(all_readers->size(), size_t(id) + 1));
  reader_of_id(id) = reader;
  reader_of_id(id).op = &added;
  return added;
}

void register_pointwise() {
  def::for_each(def::Statements{}, []<class S>(int id) { add_statement_op(id, reader_of<S>()); });
  register_pointwise_forms();
}

Tensor call_statement(int id, std::span<const Tensor> in, const Attrs& attrs) {
  return run_statement(*reader_of_id(id).op, in, attrs);
}

}  // namespace gradus
