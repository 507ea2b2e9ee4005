// A graph as JSON, "gradus.graph/1": ids are places in the lists "nodes", "leaves", "constants",
// "backward.calls"; what is not known is left out.
#include "ops/audit/step/graph_view.hpp"
#include "ops/audit/watch/vjp_text.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::audit {

namespace {

using Json = nlohmann::ordered_json;

Json source_json(const Source& s) {
  constexpr const char* kKinds[] = {"absent",    "node", "leaf", "constant",
                                    "cotangent", "seed", "call"};
  if (s.kind == Source::Kind::absent) return nullptr;
  Json j{{kKinds[size_t(s.kind)], s.id}};
  if (s.output) j["output"] = s.output;
  return j;
}

Json number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

Json stats_json(const TensorStats& s) {
  Json first = Json::array();
  for (const double x : s.first) first.push_back(number(x));
  return {{"min", s.min},           {"max", s.max},
          {"mean", number(s.mean)}, {"std", number(s.std)},
          {"norm", number(s.norm)}, {"zeros", s.zeros},
          {"nan", s.nans},          {"inf", s.infs},
          {"first", first},         {"histogram", s.histogram}};
}

Json value_json(const Value& v) {
  Json j{{"dtype", dtype_name(v.dtype)},
         {"shape", std::vector<int64_t>(v.sizes.begin(), v.sizes.end())}};
  if (!v.strides.empty()) j["strides"] = std::vector<int64_t>(v.strides.begin(), v.strides.end());
  if (v.stats.count) j["value"] = stats_json(v.stats);
  if (v.gradient.count) j["gradient"] = stats_json(v.gradient);
  return j;
}

Json call_json(const GraphCall& c) {
  Json j{{"op", c.op->name}, {"attrs", Json::object()}, {"inputs", Json::array()}};
  for (const auto& [name, value] : c.attrs) j["attrs"][name] = value;
  if (!c.note.empty()) j["note"] = c.note;
  for (const Source& s : c.inputs) j["inputs"].push_back(source_json(s));
  for (const Value& y : c.outputs) j["outputs"].push_back(value_json(y));
  return j;
}

Json node_json(const Node& n) {
  Json j = call_json(n);
  j["path"] = n.path;
  j["saved"] = Json::array();
  for (const SavedTensor& s : n.saved)
    j["saved"].push_back({{"what", s.what},
                          {"bytes", s.bytes},
                          {"version", s.version},
                          {"storage", s.storage},
                          {"counted", s.counted},
                          {"packed", s.packed},
                          {"read", s.read},
                          {"read_by", s.read_by}});
  j["saved_bytes"] = n.saved_bytes;
  if (n.flops >= 0) j["flops"] = n.flops;
  if (n.bytes >= 0) j["bytes"] = n.bytes;
  if (n.forward_ns >= 0) j["forward_ns"] = std::round(n.forward_ns);
  if (n.backward_ns >= 0) j["backward_ns"] = std::round(n.backward_ns);
  if (n.backward_flops >= 0) j["backward_flops"] = n.backward_flops;
  if (n.backward_bytes >= 0) j["backward_bytes"] = n.backward_bytes;
  if (n.step >= 0) j["step"] = n.step;
  if (n.trivial()) j["trivial"] = true;
  if (!n.derivatives.empty()) j["derivatives"] = n.derivatives;
  if (n.verdict)
    j["verdict"] = {{"verdict", n.verdict->verdict},
                    {"bad", n.verdict->bad},
                    {"error", number(n.verdict->error)},
                    {"tolerance", number(n.verdict->tolerance)},
                    {"text", n.verdict->text}};
  return j;
}

Json step_json(const BackwardStep& s) {
  Json j{{"node", s.node},
         {"cotangents", Json::array()},
         {"calls", {s.first_call, s.first_call + s.calls}},
         {"sums", s.sums},
         {"to", Json::array()},
         {"saved_bytes_left", s.saved_bytes_left}};
  for (const auto& [output, value] : s.cotangents)
    j["cotangents"].push_back({{"output", output}, {"is", source_json(value)}});
  for (const BackwardStep::Delivery& d : s.deliveries)
    j["to"].push_back({{"operand", d.operand},
                       {"of", source_json(d.to)},
                       {"value", source_json(d.value)},
                       {"nth", d.nth},
                       {"count", d.of}});
  return j;
}

}  // namespace

std::string to_json(const GraphView& v) {
  Json j{{"format", "gradus.graph/1"}, {"title", v.title}, {"device", v.device}};
  j["ops"] = Json::object();
  const auto describe = [&](const OpInfo& op) {
    if (j["ops"].contains(op.name)) return;
    Json operands = Json::array();
    for (const OperandSpec& o : op.operands) operands.push_back(o.name);
    j["ops"][op.name] = {{"doc", op.doc},
                         {"formula", op.formula},
                         {"derivatives", slopes_of(op)},
                         {"operands", operands}};
  };
  for (const Node& n : v.nodes) describe(*n.op);
  for (const GraphCall& c : v.backward_calls) describe(*c.op);
  j["leaves"] = Json::array();
  for (size_t i = 0; i < v.leaves.size(); ++i) {
    Json leaf{{"name", v.leaves[i].name}};
    leaf.update(value_json(v.leaves[i].value));
    leaf["uses"] = v.leaves[i].uses;
    if (i < v.leaf_gradients.size()) leaf["gradient_is"] = source_json(v.leaf_gradients[i]);
    j["leaves"].push_back(std::move(leaf));
  }
  j["constants"] = Json::array();
  for (const Constant& c : v.constants) {
    Json constant{{"name", c.name}};
    constant.update(value_json(c.value));
    j["constants"].push_back(std::move(constant));
  }
  j["nodes"] = Json::array();
  for (const Node& n : v.nodes) j["nodes"].push_back(node_json(n));
  j["roots"] = Json::array();
  for (const Source& r : v.roots) j["roots"].push_back(source_json(r));
  j["saved_bytes"] = v.saved_bytes;
  Json backward{{"steps", Json::array()}, {"calls", Json::array()}};
  for (const BackwardStep& s : v.steps) backward["steps"].push_back(step_json(s));
  for (const GraphCall& c : v.backward_calls) backward["calls"].push_back(call_json(c));
  backward["first_leaf_sum"] = v.first_leaf_sum;
  j["backward"] = std::move(backward);
  if (v.memory) {
    Json moments = Json::array();
    for (const MemoryMoment& m : v.memory->moments) {
      moments.push_back({{"op", m.op}, {"peak", m.peak}, {"live", m.live}});
      if (m.backward) moments.back()["backward"] = true;
      if (m.node >= 0) moments.back()["node"] = m.node;
    }
    j["memory"] = {{"before", v.memory->before}, {"moments", std::move(moments)}};
  }
  if (v.peaks)
    j["peaks"] = {{"flops", v.peaks->flops},
                  {"bytes", v.peaks->bytes},
                  {"matrix", v.peaks->matrix},
                  {"copied", v.peaks->copied},
                  {"dtype", dtype_name(v.peaks->dtype)}};
  if (!v.sources.empty()) j["sources"] = v.sources;
  if (v.findings) {
    j["findings"] = Json::array();
    for (const Finding& f : *v.findings) {
      j["findings"].push_back({{"kind", f.kind}, {"text", f.text}});
      if (f.node >= 0) j["findings"].back()["node"] = f.node;
    }
  }
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gradus::audit
