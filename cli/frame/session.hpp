// Session: what every command that computes does first and last. Opens the device that its option,
// the environment and its config name, says warnings and a fallback once, makes it the default
// device, lets it contract in the ways that `gradus tune` found for it, and with --ledger counts
// every kernel call and prints the table at the end.
#pragma once
#include "engine/config/device_config.hpp"
#include "engine/capture/ledger.hpp"
#include "engine/config/tuning.hpp"

#include <optional>
#include <ostream>

namespace gradus::inline v1::cli {

// What a device that is named and not there means. A command that judges a device takes no other in
// its place, whatever the config's "fallback" says: a verdict on the CPU would say nothing of it.
enum class MissingDevice { as_configured, is_an_error };

// The device of an option such as --against, for a command that judges it. Error(device).
Device& open_judged_device(const std::string& name, const std::string& option);

class Session {
 public:
  // `experiment` is the config's "device" value or null, `file` the config it stands in. Throws
  // Error.
  Session(const std::string& option, bool ledger, std::ostream& err,
          const Json* experiment = nullptr, const std::string& file = "",
          MissingDevice missing = MissingDevice::as_configured);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Device& device() const { return *device_; }
  const Tuning& tuning() const { return tuning_; }
  void tune(Tuning tuning);  // instead, from now on

 private:
  std::ostream& err_;
  Device* device_;
  std::optional<DeviceScope> scope_;
  std::optional<Ledger> ledger_;
  WayChooser* chooser_before_ = nullptr;
  Tuning tuning_;
};

}  // namespace gradus::cli
