#include "cli/session.hpp"

namespace gradus::cli {

Session::Session(const std::string& option, bool ledger, std::ostream& err, const Json* experiment,
                 const std::string& file)
    : err_(err) {
  std::vector<std::string> warnings;
  const OpenedDevice opened =
      open_configured(resolve_device_config(option, experiment, file, &warnings));
  for (const std::string& line : warnings) err_ << line << "\n";
  if (!opened.notice.empty()) err_ << opened.notice << "\n";
  device_ = opened.device;
  scope_.emplace(*device_);
  if (ledger) ledger_.emplace(*device_);
}

Session::~Session() {
  if (ledger_) err_ << ledger_->to_string();
}

}  // namespace gradus::cli
