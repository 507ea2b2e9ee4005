// `gradus audit CONFIG|SCRIPT|TRACE_FILE`: runs one step of an experiment and judges the derivative
// of every node with its own numbers; or says where its memory and its time go; or writes all of it
// as a page (ops/audit/).
#pragma once
#include "cli/look/one_step.hpp"

#include <iosfwd>
#include <optional>

namespace gradus::inline v1::cli {

struct AuditOptions : OneStepConfig {
  std::string against;  // a device; "" for none
  // Of nan, inf, mismatch, unreached, zero, alias; "none" for nothing; by default "nan,mismatch".
  std::optional<std::string> fail_on;
  bool ledger = false, cost = false;  // these instead of the list of verdicts
  std::string html;                   // file of a page with all three; "" for none
  bool json = false;
  // Instead of the verdicts (cli/look/audit_modes.hpp):
  std::string explain;         // a leaf, or a node such as "%7"
  std::string element;         // "0,3": of the leaf's gradient
  std::optional<int64_t> top;  // paths shown; 5 by default
  bool versions = false;       // writes in place ...
  std::string written;         // ... of this leaf, or of a node's outputs, alone
  bool accounting = false;
  bool health = false;
};

// The exit code: 5 if there is anything of `fail_on`. Throws Error.
int run_audit(const AuditOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
