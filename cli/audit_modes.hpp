// What `gradus audit` shows instead of verdicts: paths to a gradient, or a node (--explain); the
// log of writes in place (--versions); whether all cotangents were added up rightly (--accounting).
#pragma once
#include "cli/audit.hpp"
#include "cli/one_step.hpp"
#include "cli/session.hpp"

#include <memory>

namespace gradus::cli {

// The exit codes; 5 of the accounting if something is wrong. Throw Error.
int run_audit_explain(const AuditOptions& options, std::ostream& out, std::ostream& err);
int run_audit_versions(const AuditOptions& options, std::ostream& out, std::ostream& err);
int run_audit_accounting(const AuditOptions& options, std::ostream& out, std::ostream& err);

// The device that the options, or the file, name.
std::unique_ptr<Session> open_session(const std::string& file, const std::string& device,
                                      std::ostream& err);
// One step whose nodes know their places; `ready` as of run_one_step.
OneStep run_traced_step(
    const OneStepConfig& config, Device& device, const std::function<void()>& ready = [] {});

}  // namespace gradus::cli
