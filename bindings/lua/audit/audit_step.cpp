// gradus.audit: a step as a whole. What its memory and its time go to, which paths make up a
// gradient, what was written in place, steps in files, and two of them compared.
#include "bindings/lua/audit/audit.hpp"
#include "ops/audit/judge/cost.hpp"
#include "ops/audit/step/diff.hpp"
#include "ops/audit/judge/health.hpp"
#include "ops/audit/step/memory_ledger.hpp"
#include "ops/audit/judge/paths.hpp"
#include "ops/audit/judge/versions.hpp"

namespace gradus::inline v1::lua {

namespace {

void append(lua_State* L) { lua_rawseti(L, -2, int64_t(lua_rawlen(L, -2)) + 1); }

// The step that the function at `index` makes, recorded.
audit::RecordedStep recorded(lua_State* L, int index, const char* who) {
  luaL_checktype(L, index, LUA_TFUNCTION);
  const audit::Watch watch;
  const Tensors roots = Subject::results_of(L, index);
  if (roots.empty()) fail(ErrorKind::value, who, "the function gave no tensor");
  return audit::record(watch, roots, leaves_behind(L, roots));
}
audit::GraphView measured(lua_State* L, const char* who) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  std::optional<audit::GraphRecorder> recorder(std::in_place, device_of(L), false);
  const Tensors roots = Subject::results_of(L, 1);
  if (roots.empty()) fail(ErrorKind::value, who, "the function gave no tensor");
  return audit::read_graph(roots, leaves_behind(L, roots), &*recorder);
}

// gradus.audit.ledger(f): what is kept for backward, and why; `bytes` counts shared memory once
int ledger_of(lua_State* L) {
  const audit::GraphView view = measured(L, "audit.ledger");
  const std::vector<int> holders = audit::holders_of(view);
  lua_newtable(L);
  for (size_t n = 0; n < view.nodes.size(); ++n)
    for (const audit::SavedTensor& s : view.nodes[n].saved) {
      lua_createtable(L, 0, 7);
      set_field(L, "node", join("%", int64_t(n)));
      set_field(L, "op", view.nodes[n].op->name);
      set_field(L, "what", s.what);
      set_field(L, "why", audit::reason_of(view.nodes[n], s, holders));
      set_field(L, "bytes", int64_t(s.bytes));
      set_field(L, "counted", s.counted);
      set_field(L, "read", s.read);
      append(L);
    }
  set_field(L, "bytes", int64_t(view.saved_bytes));
  return 1;
}

// gradus.audit.cost(f): of each node, the slowest first; what is not known is left out
int cost_of(lua_State* L) {
  const audit::GraphView view = measured(L, "audit.cost");
  const auto pass = [&](const char* name, const audit::PassCost& c) {
    lua_createtable(L, 0, 3);
    if (c.flops >= 0) set_field(L, "flops", c.flops);
    if (c.bytes >= 0) set_field(L, "bytes", c.bytes);
    if (c.ns >= 0) set_field(L, "ns", c.ns);
    lua_setfield(L, -2, name);
  };
  lua_newtable(L);
  for (const audit::CostLine& c : audit::cost_of_nodes(view)) {
    lua_createtable(L, 0, 4);
    set_field(L, "node", join("%", c.node));
    set_field(L, "op", c.op);
    pass("forward", c.forward);
    pass("backward", c.backward);
    append(L);
  }
  return 1;
}

// gradus.audit.explain(f or y, leaf [, {top = 5}]): the paths that contribute most to its gradient
int explain_of(lua_State* L) {
  const Subject subject(L, "audit.explain");
  const Tensor leaf = operand_at(L, 2, "audit.explain");
  size_t top = 5;
  if (lua_istable(L, 3)) {
    lua_getfield(L, 3, "top");
    if (!lua_isnil(L, -1))
      top = size_t(std::max<int64_t>(integer_at(L, -1, "audit.explain: top"), 1));
    lua_pop(L, 1);
  }
  audit::Stepper stepper(subject.roots, {{"leaf", leaf}});
  const auto& leaves = stepper.leaves();
  const auto at = std::find_if(leaves.begin(), leaves.end(), [&](const auto& l) {
    return l.second.body()->autograd.get() == leaf.body()->autograd.get();
  });
  if (!leaf.requires_grad() || at == leaves.end())
    fail(ErrorKind::value, "audit.explain", "the roots do not depend on this leaf");
  stepper.run({});
  const audit::GradientPaths paths =
      audit::explain_paths(stepper, int(at - leaves.begin()), {}, top);
  lua_newtable(L);
  for (const audit::GradientPath& p : paths.paths) {
    lua_createtable(L, 0, 3);
    if (paths.total != 0) set_field(L, "share", p.amount / paths.total);
    set_field(L, "norm", p.norm);
    lua_newtable(L);
    for (const auto& hop : p.hops) {
      lua_pushstring(L, stepper.name_of(hop.node).c_str());
      append(L);
    }
    lua_setfield(L, -2, "nodes");
    append(L);
  }
  set_field(L, "count", paths.count);
  set_field(L, "followed", paths.followed);
  set_field(L, "others", paths.others / paths.total);
  return 1;
}

// gradus.audit.health(f or y): how large gradients are, and what is dead
// (ops/audit/judge/health.hpp)
int health_of(lua_State* L) {
  std::optional<DetectAnomaly> places(std::in_place);
  const Subject subject(L, "audit.health");
  places.reset();
  if (subject.roots.empty()) fail(ErrorKind::value, "audit.health", "the function gave no tensor");
  const audit::Health health = audit::health_of(subject.roots, leaves_behind(L, subject.roots));
  lua_createtable(L, 0, 4);
  lua_newtable(L);
  for (const audit::LeafHealth& l : health.leaves) {
    lua_createtable(L, 0, 6);
    set_field(L, "name", l.name);
    set_field(L, "value_norm", l.value.norm);
    if (l.gradient.count > 0) {
      set_field(L, "norm", l.gradient.norm);
      set_field(L, "rms", l.rms());
      set_field(L, "zeros", double(l.gradient.zeros) / double(l.gradient.count));
    }
    set_field(L, "sign", l.sign);
    append(L);
  }
  lua_setfield(L, -2, "parameters");
  lua_newtable(L);
  for (const audit::NodeHealth& n : health.nodes) {
    lua_createtable(L, 0, 8);
    set_field(L, "node", join("%", n.node));
    set_field(L, "op", n.op->name);
    set_field(L, "where", n.where);
    set_field(L, "zero", n.zero);
    if (n.flat >= 0) set_field(L, "flat", n.flat);
    set_field(L, "units", n.units);
    set_field(L, "dead", n.dead);
    set_field(L, "sign", n.sign);
    append(L);
  }
  lua_setfield(L, -2, "activations");
  set_field(L, "gradient_norm", health.gradient_norm);
  set_field(L, "sound", health.sound());
  return 1;
}

// gradus.audit.versions(f): the writes in place while f runs; one number `memory` per tensor
int versions_of(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  audit::VersionLog log;
  for (const auto& [name, leaf] : variables(L)) log.name(name, leaf);
  Subject::results_of(L, 1);
  lua_newtable(L);
  for (const audit::Write& w : log.writes()) {
    lua_createtable(L, 0, 8);
    set_field(L, "tensor", w.tensor);
    set_field(L, "memory", int64_t(w.id));
    set_field(L, "by", w.by);
    set_field(L, "where", w.where);
    set_field(L, "from", int64_t(w.from));
    set_field(L, "to", int64_t(w.to));
    set_field(L, "text", audit::to_text(w));
    lua_newtable(L);
    for (const audit::StaleCopy& s : w.stale) {
      lua_pushstring(L, audit::to_text(s).c_str());
      append(L);
    }
    lua_setfield(L, -2, "stale");
    append(L);
  }
  return 1;
}

std::string trace_file_at(lua_State* L, int index, Access access) {
  std::string file = luaL_checkstring(L, index);
  if (!file.ends_with(".safetensors"))
    fail(ErrorKind::io, file, "expected a file that ends in .safetensors");
  check_path(L, file, access);
  return file;
}

// gradus.audit.record(f, "step.safetensors"): for `gradus replay`; how many nodes
int record_of(lua_State* L) {
  const std::string file = trace_file_at(L, 2, Access::write);
  const audit::RecordedStep step = recorded(L, 1, "audit.record");
  audit::write_trace(file, step);
  lua_pushinteger(L, int64_t(step.nodes.size()));
  return 1;
}

void push_difference(lua_State* L, const audit::RecordedStep& a, const audit::RecordedStep& b) {
  const audit::StepDifference d = audit::diff(a, b);
  lua_newtable(L);
  for (const audit::NodeDifference& n : d.nodes) {
    const bool forward = n.value && !n.value->same(),
               backward = n.cotangent && !n.cotangent->same();
    if (n.kind == audit::NodeDifference::Kind::same && !forward && !backward) continue;
    lua_createtable(L, 0, 4);
    const bool in_b = n.b >= 0;
    set_field(L, "node", audit::node_text(in_b ? b : a, size_t(in_b ? n.b : n.a)));
    set_field(L, "what",
              n.a < 0   ? std::string("inserted")
              : n.b < 0 ? std::string("removed")
                        : n.what);
    if (forward) set_field(L, "value", n.value->text());
    if (backward) set_field(L, "cotangent", n.cotangent->text());
    append(L);
  }
  set_field(L, "same", d.same());
  set_field(L, "gradients", int64_t(d.gradients));
}

// gradus.audit.diff(f, g): nodes that differ; `same`, and how many leaves have another gradient
int diff_of(lua_State* L) {
  const audit::RecordedStep a = recorded(L, 1, "audit.diff"), b = recorded(L, 2, "audit.diff");
  push_difference(L, a, b);
  return 1;
}

// gradus.audit.replay("step.safetensors"): runs it again here; what differs, as diff says it
int replay_of(lua_State* L) {
  const audit::RecordedStep before =
      audit::read_trace(trace_file_at(L, 1, Access::read), device_of(L));
  push_difference(L, before, audit::run_again(before, device_of(L)));
  return 1;
}

}  // namespace

void add_step_functions(lua_State* L) {
  const luaL_Reg functions[] = {
      {"ledger", bind<ledger_of>},     {"cost", bind<cost_of>},     {"explain", bind<explain_of>},
      {"versions", bind<versions_of>}, {"health", bind<health_of>}, {"record", bind<record_of>},
      {"diff", bind<diff_of>},         {"replay", bind<replay_of>}, {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
}

}  // namespace gradus::lua
