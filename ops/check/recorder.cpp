#include "ops/check/recorder.hpp"
#include "engine/forward.hpp"

#include "ops/check/check.hpp"

#include <cmath>

namespace gradus::inline v1::rows {

namespace {

Tensor same_bytes(const Tensor& t, const Shape& sizes, DType dtype) {
  std::vector<unsigned char> bytes(t.bytes() + 1);
  t.copy_to_host(bytes.data());
  return Tensor::from_host(bytes.data(), sizes, dtype, t.device());
}

// Does a derivative by operand k belong to the record?
bool moves(const Recorded& call, size_t k) {
  return is_floating(call.in[k].dtype()) && !(k < call.constants.size() && call.constants[k]);
}

}  // namespace

Json attr_json(const AttrValue& a) {
  using Type = AttrValue::Type;
  switch (a.type) {
    case Type::none:
      return nullptr;
    case Type::integer:
      return a.integer;
    case Type::number:
      if (std::isfinite(a.number)) return a.number;
      return {{"number", std::isnan(a.number) ? "nan" : a.number > 0 ? "inf" : "-inf"}};
    case Type::boolean:
      return a.integer != 0;
    case Type::integers:
      return std::vector<int64_t>(a.integers.begin(), a.integers.end());
    case Type::text:
      return a.text;
    case Type::dtype:
      return {{"dtype", dtype_name(a.dtype())}};
  }
  return nullptr;
}

Tensor pairs_of(const Tensor& z) {
  Shape sizes = z.sizes();
  sizes.push_back(2);
  return same_bytes(z, sizes, DType::f64);
}
Tensor of_pairs(const Tensor& pairs) {
  Shape sizes = pairs.sizes();
  sizes.pop_back();
  return same_bytes(pairs, sizes, DType::c128);
}

Recording CaseRecorder::finish(const Json& ops) {
  return {std::move(tensors_), {{"ops", ops.dump()}, {"cases", cases_.dump()}}};
}

Json CaseRecorder::keep(const char* what, size_t k, const Tensor& t) {
  if (!t.defined()) return nullptr;
  if (t.is_number()) {
    if (t.dtype() == DType::bool_) return t.item_integer() != 0;
    if (t.dtype() == DType::i64) return t.item_integer();
    return attr_json(t.item());
  }
  if (t.dtype() != DType::c128)
    tensors_.emplace_back(name(what, k), t.detach());
  else
    tensors_.emplace_back(name(what, k) + ".c128", pairs_of(t));
  return tensors_.back().first;
}

Json CaseRecorder::keep_all(const char* what, const Tensors& tensors) {
  Json list = Json::array();
  for (size_t k = 0; k < tensors.size(); ++k) list.push_back(keep(what, k, tensors[k]));
  return list;
}

Tensor CaseRecorder::direction(const Tensor& like, bool ones) {
  if (ones) return Tensor::full(like.sizes(), 1.0, like.dtype(), device_);
  return upload(
      draw_direction(join("record ", id_), stream_++, like.numel(), is_complex(like.dtype())),
      like.sizes(), like.dtype(), device_);
}

bool CaseRecorder::run(const Recorded& call) {
  const auto& [op, attrs, in, kind, slopes, higher, refusals, constants, largest] = call;
  Json c{{"op", op.name}, {"kind", kind}, {"attrs", Json::object()}};
  for (size_t i = 0; i < attrs.size(); ++i) c["attrs"][op.attrs[i].name] = attr_json(attrs[i]);
  Tensors out;
  try {
    out = evaluate(op, in, attrs);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::internal) throw;
    if (!refusals) return false;
    c["refused"] = e.what();
  }
  for (const Tensor& y : out)
    if (y.numel() > largest) return false;
  c["in"] = keep_all("in", in);
  if (!c.contains("refused")) c["out"] = keep_all("out", out);
  if (slopes && !c.contains("refused")) try {
      slopes_of(c, call);
      if (higher) jvp_of(c, call);
    } catch (const Error& e) {
      c["failed"] = e.what();
    }
  cases_.push_back(std::move(c));
  ++id_;
  stream_ = 0;
  return true;
}

void CaseRecorder::refuse(const OpInfo& op, const Tensors& in, const char* kind,
                          const char* message) {
  Json c{{"op", op.name}, {"kind", kind}, {"attrs", Json::object()}, {"refused", message}};
  c["in"] = keep_all("in", in);
  cases_.push_back(std::move(c));
  ++id_;
}

void CaseRecorder::slopes_of(Json& c, const Recorded& call) {
  const auto& in = call.in;
  const bool second = call.higher;
  Tensors leaves, w, roots, seeds, inputs;
  for (size_t k = 0; k < in.size(); ++k) {
    leaves.push_back(in[k].detach());
    if (moves(call, k)) inputs.push_back(leaves.back().set_requires_grad());
  }
  const Tensors y = evaluate(call.op, leaves, call.attrs, true);
  for (const Tensor& out : y) {
    w.emplace_back();
    if (!out.requires_grad()) continue;
    w.back() = cotangent_of(row_of(call.op.name), out, direction(out, !second)).detach();
    w.back().set_requires_grad(second);
    roots.push_back(out);
    seeds.push_back(w.back());
  }
  c["w"] = keep_all("w", w);
  Tensors g, u, by_x, by_w;
  if (!roots.empty()) {
    const EnableGrad enable;
    g = grad(roots, inputs, seeds, {.create_graph = second, .allow_unused = true});
  }
  // One entry per operand, as of here.
  auto spread = [&](const Tensors& some) {
    Tensors all(in.size());
    for (size_t k = 0, n = 0; k < in.size() && !some.empty(); ++k)
      if (moves(call, k)) all[k] = some[n++];
    return all;
  };
  c["grads"] = keep_all("grad", spread(g));
  if (!second) return;
  Tensors g_roots, g_seeds;
  for (const Tensor& one : g) {
    u.emplace_back();
    if (!one.defined() || !one.requires_grad()) continue;
    u.back() = direction(one, false);
    g_roots.push_back(one);
    g_seeds.push_back(u.back());
  }
  c["u"] = keep_all("u", spread(u));
  if (g_roots.empty()) return;
  const size_t n = inputs.size();
  for (const Tensor& one : seeds) inputs.push_back(one);
  const Tensors all = grad(g_roots, inputs, g_seeds, {.allow_unused = true});
  by_x.assign(all.begin(), all.begin() + int64_t(n));
  for (size_t i = 0, at = n; i < y.size(); ++i)
    by_w.push_back(w[i].defined() ? all[at++] : Tensor());
  c["second"] = keep_all("second", spread(by_x));
  c["second_w"] = keep_all("second_w", by_w);
}

void CaseRecorder::jvp_of(Json& c, const Recorded& call) {
  const ForwardLevel level;
  Tensors x, v, jvp;
  for (size_t k = 0; k < call.in.size(); ++k) {
    x.push_back(call.in[k].detach());
    v.push_back(moves(call, k) ? direction(x.back(), false) : Tensor());
    if (v.back().defined()) give_tangent(x.back(), v.back());
  }
  for (const Tensor& y : evaluate(call.op, x, call.attrs))
    jvp.push_back(is_floating(y.dtype()) ? y.tangent() : Tensor());
  c["v"] = keep_all("v", v);
  c["jvp"] = keep_all("jvp", jvp);
}

}  // namespace gradus::rows
