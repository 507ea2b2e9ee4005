#include "cli/frame/session.hpp"

#include "engine/base/text.hpp"

namespace gradus::inline v1::cli {

namespace {

// What the tuning file of a config holds for a device. One that nobody named may be damaged: then
// it is said, and nothing is tuned.
Tuning tuning_of(const DeviceConfig& config, const Device& device, std::ostream& err) {
  if (!config.tuning || device.host_memory()) return {};
  const bool named = !config.tuning_file.empty();
  const std::string file = named ? config.tuning_file : default_tuning_file();
  if (file.empty()) return {};
  try {
    return read_tuning(file, tuning_name(device));
  } catch (const Error& e) {
    if (named) throw;
    err << "gradus: nothing is tuned: " << e.what() << "\n";
    return {};
  }
}

}  // namespace

Device& open_judged_device(const std::string& name, const std::string& option) {
  DeviceConfig config = parse_device_config(name, option);
  config.fallback = DeviceConfig::Fallback::error;
  return *open_configured(config).device;
}

Session::Session(const std::string& option, bool ledger, std::ostream& err, const Json* experiment,
                 const std::string& file, MissingDevice missing)
    : err_(err) {
  std::vector<std::string> warnings;
  DeviceConfig config = resolve_device_config(option, experiment, file, &warnings);
  if (missing == MissingDevice::is_an_error) config.fallback = DeviceConfig::Fallback::error;
  const OpenedDevice opened = open_configured(config);
  for (const std::string& line : warnings) err_ << printable(line) << "\n";
  if (!opened.notice.empty()) err_ << printable(opened.notice) << "\n";
  device_ = opened.device;
  scope_.emplace(*device_);
  if (ledger) ledger_.emplace(*device_);
  chooser_before_ = device_->chooser();
  tune(tuning_of(config, *device_, err));
}

Session::~Session() {
  device_->set_chooser(chooser_before_);
  if (ledger_) err_ << ledger_->to_string();
}

void Session::tune(Tuning tuning) {
  tuning_ = std::move(tuning);
  device_->set_chooser(tuning_.changes() > 0 ? &tuning_ : nullptr);
}

}  // namespace gradus::cli
