// One step, and what its gradients and activations tell.
#include "cli/frame/terminal.hpp"
#include "cli/look/audit_modes.hpp"
#include "cli/frame/events.hpp"
#include "cli/train/health.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

int run_audit_health(const AuditOptions& o, std::ostream& out, std::ostream& err) {
  const auto session = open_session(o, err);
  const OneStep step = run_traced_step(o, session->device());
  const audit::Health health = audit::health_of(step.roots, step.leaves, step.seeds);
  const std::vector<Sign> signs = signs_of(health);
  if (o.json) {
    emit(out, health_event(health));
    emit(out, {{"event", "result"}, {"signs", signs.size()}, {"ok", signs.empty()}});
    return 0;
  }
  write_tables(out, health_table(health) + "\n");
  for (const Sign& s : signs)
    out << s.what << (s.numbers.empty() ? "" : " (" + s.numbers + ")") << "\n";
  out << fmt::format("gradient of {}: norm {:.4g}; {} of illness\n",
                     audit::plural(health.leaves.size(), "leaf", "leaves"), health.gradient_norm,
                     signs.empty() ? "no sign" : audit::plural(signs.size(), "sign"));
  return 0;
}

}  // namespace gradus::cli
