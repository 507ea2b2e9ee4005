// One step and its backward under a log of writes.
#include "cli/look/audit_modes.hpp"
#include "cli/frame/debugger_text.hpp"
#include "engine/files/file.hpp"
#include "ops/audit/step/stepper.hpp"
#include "ops/audit/judge/versions.hpp"
#include "ops/audit/watch/watch.hpp"

#include <fmt/format.h>
#include <map>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

// A block for each memory, in the order of first writes.
void write(const std::vector<audit::Write>& writes, std::ostream& out) {
  std::map<uint64_t, std::vector<const audit::Write*>> blocks;
  std::vector<uint64_t> order;
  for (const audit::Write& w : writes) {
    std::vector<const audit::Write*>& block = blocks[w.id];
    if (block.empty()) order.push_back(w.id);
    block.push_back(&w);
  }
  for (const uint64_t id : order) {
    out << blocks[id].front()->tensor << "\n";
    for (const audit::Write* w : blocks[id]) {
      out << fmt::format("  version {} -> {} by {}{}\n", w->from, w->to, w->by,
                         w->where.empty() ? "" : "   # " + w->where);
      for (const audit::StaleCopy& s : w->stale)
        out << fmt::format("    stale now: {} of {}{}\n", s.what, s.op,
                           s.where.empty() ? "" : "   # " + s.where);
    }
  }
}
void write_json(const audit::Write& w, std::ostream& out) {
  Event stale = Event::array();
  for (const audit::StaleCopy& s : w.stale)
    stale.push_back({{"op", s.op}, {"what", s.what}, {"where", s.where}, {"version", s.version}});
  emit(out, {{"event", "write"},
             {"tensor", w.tensor},
             {"memory", w.id},
             {"by", w.by},
             {"where", w.where},
             {"from", w.from},
             {"to", w.to},
             {"stale", stale}});
}

}  // namespace

int run_audit_versions(const AuditOptions& o, std::ostream& out, std::ostream& err) {
  const auto session = open_session(o, err);
  std::optional<audit::VersionLog> log;
  std::optional<audit::Watch> watch;  // knows what memory a node's outputs have
  const bool of_node = o.written.starts_with("%");
  const OneStep step = run_traced_step(o, session->device(), [&] {
    log.emplace();
    if (of_node) watch.emplace();
  });
  for (const auto& [name, t] : step.leaves) log->name(name, t);
  std::vector<audit::Write> writes = log->writes();
  if (of_node) {
    const Unwatched quiet;
    const audit::Stepper stepper(step.roots, step.leaves, step.seeds);
    const int node = stepper.find_node(o.written);
    writes = log->writes_to(*stepper.nodes()[size_t(node)], *watch);
  } else if (!o.written.empty()) {
    std::vector<std::string> names;
    const Tensor* leaf = nullptr;
    for (const auto& [name, t] : step.leaves) {
      names.push_back(name);
      if (name == o.written) leaf = &t;
    }
    if (!leaf)
      fail(ErrorKind::config, "--versions", "there is no leaf \"", o.written, "\"",
           did_you_mean(o.written, names),
           "; nodes are written %K, and without a name all is told");
    writes = log->writes_to(*leaf);
  }
  size_t stale = 0;
  for (const audit::Write& w : writes) {
    stale += w.stale.size();
    if (o.json) write_json(w, out);
  }
  if (!o.json) write(writes, out);
  if (o.json)
    emit(out, {{"event", "result"}, {"writes", writes.size()}, {"stale", stale}});
  else
    out << fmt::format("{} {} in place; {} saved {} stale\n", writes.size(),
                       writes.size() == 1 ? "write" : "writes", stale,
                       stale == 1 ? "copy is" : "copies are");
  // What backward makes of it: a stale copy that it reads is an error, with the story.
  Tensors inputs;
  for (const auto& [name, t] : step.leaves) inputs.push_back(t);
  grad(step.roots, inputs, audit::seeds_or_ones(step.roots, step.seeds),
       {.retain_graph = true, .allow_unused = true});
  return 0;
}

}  // namespace gradus::cli
