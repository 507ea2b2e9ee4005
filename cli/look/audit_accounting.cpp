// One step, its backward, and the books of both.
#include "cli/look/audit_modes.hpp"
#include "cli/frame/debugger_text.hpp"
#include "cli/frame/events.hpp"
#include "engine/files/file.hpp"
#include "ops/audit/step/accounting.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

int run_audit_accounting(const AuditOptions& o, std::ostream& out, std::ostream& err) {
  const auto session = open_session(o, err);
  audit::Account account;
  std::vector<Ref<GradFn>> nodes;
  {
    const OneStep step = run_traced_step(o, session->device());
    nodes = audit::nodes_behind(step.roots);
    audit::Stepper stepper(step.roots, step.leaves, step.seeds);
    backward(step.roots, stepper.seeds(), {.retain_graph = true});
    stepper.run({});
    account = audit::account(stepper);
  }
  for (audit::Imbalance& f : audit::leaked(std::move(nodes)))
    account.findings.push_back(std::move(f));
  for (const audit::Imbalance& f : account.findings)
    if (o.json)
      emit(out, {{"event", "finding"}, {"check", f.check}, {"bad", f.bad}, {"text", f.text}});
    else
      out << (f.bad ? "" : "note: ") << f.check << ": " << f.text << "\n";
  if (o.json)
    emit(out, {{"event", "result"},
               {"nodes", account.nodes},
               {"leaves", account.leaves},
               {"deliveries", account.deliveries},
               {"sums", account.sums},
               {"bad", account.bad()}});
  else
    out << fmt::format(
        "{} nodes, {} leaves: {} cotangents in {} sums, each once: {}\n", account.nodes,
        account.leaves, account.deliveries, account.sums,
        account.bad() == 0 ? "the books balance" : fmt::format("{} wrong", account.bad()));
  return account.bad() == 0 ? 0 : kFailed;
}

}  // namespace gradus::cli
