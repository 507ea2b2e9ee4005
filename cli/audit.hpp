// `gradus audit CONFIG`: runs one step of an experiment and judges the derivative of every node
// with its own numbers; or says where its memory and its time go; or writes all of it as a page
// (ops/audit/).
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
  std::string fail_on = "nan,mismatch";  // also "unreached"; "" or "none" for nothing
  bool ledger = false, cost = false;     // these instead of the list of verdicts
  std::string html;                      // file of a page with all three; "" for none
  bool json = false;
};

// The exit code: 5 if there is anything of `fail_on`. Throws Error.
int run_audit(const AuditOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
