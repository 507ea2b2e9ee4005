// `gradus audit CONFIG`: runs the forward of one step of an experiment and judges the derivative of
// every node with its own numbers (ops/audit/).
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

namespace gradus::cli {

struct AuditOptions {
  std::string config;            // file of an experiment
  std::vector<std::string> set;  // "path=value"; for "network"
  std::string device;
  std::string against;                   // a device; "" for none
  std::string fail_on = "nan,mismatch";  // also "unreached", "alias"; "" or "none" for nothing
  bool json = false;
  // Instead of the verdicts (cli/audit_modes.hpp):
  std::string explain;    // a leaf, or a node such as "%7"
  std::string element;    // "0,3": of the leaf's gradient
  int64_t top = 5;        // paths shown
  bool versions = false;  // writes in place ...
  std::string written;    // ... of this leaf alone
  bool accounting = false;
};

// The exit code: 5 if there is anything of `fail_on`. Throws Error.
int run_audit(const AuditOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
