// What `gradus audit` shows instead of verdicts: paths to a gradient, or a node (--explain); the
// log of writes in place (--versions); whether all cotangents were added up rightly (--accounting);
// how large gradients are and what is dead (--health).
#pragma once
#include "cli/look/audit.hpp"

namespace gradus::inline v1::cli {

// The exit codes; 5 of the accounting if something is wrong. Throw Error.
int run_audit_explain(const AuditOptions& options, std::ostream& out, std::ostream& err);
int run_audit_versions(const AuditOptions& options, std::ostream& out, std::ostream& err);
int run_audit_accounting(const AuditOptions& options, std::ostream& out, std::ostream& err);
int run_audit_health(const AuditOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
