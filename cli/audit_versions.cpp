// One step and its backward under a log of writes.
#include "cli/audit_modes.hpp"
#include "cli/debugger_text.hpp"
#include "engine/io/file.hpp"
#include "ops/audit/versions.hpp"
#include "ops/audit/watch.hpp"

#include <fmt/format.h>
#include <ostream>

namespace gradus::cli {

namespace {

void write(const audit::Write& w, std::ostream& out) {
  out << fmt::format("{}\n  version {} -> {} by {}{}\n", w.tensor, w.from, w.to, w.by,
                     w.where.empty() ? "" : "   # " + w.where);
  for (const audit::StaleCopy& s : w.stale)
    out << fmt::format("  stale now: {}{}\n", s.what + " of " + s.op,
                       s.where.empty() ? "" : "   # " + s.where);
}
void write_json(const audit::Write& w, std::ostream& out) {
  Event stale = Event::array();
  for (const audit::StaleCopy& s : w.stale)
    stale.push_back({{"op", s.op}, {"what", s.what}, {"where", s.where}, {"version", s.version}});
  emit(out, {{"event", "write"},
             {"tensor", w.tensor},
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
  const OneStep step = run_traced_step(o, session->device(), [&] { log.emplace(); });
  const Tensor* only = nullptr;
  std::vector<std::string> names;
  for (const auto& [name, t] : step.leaves) {
    log->name(name, t);
    names.push_back(name);
    if (name == o.written) only = &t;
  }
  if (!o.written.empty() && !only)
    fail(ErrorKind::config, "--versions", "there is no leaf \"", o.written, "\"",
         did_you_mean(o.written, names));
  const std::vector<audit::Write> writes = only ? log->writes_to(*only) : log->writes();
  size_t stale = 0;
  for (const audit::Write& w : writes) {
    stale += w.stale.size();
    o.json ? write_json(w, out) : write(w, out);
  }
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
