// Start-up of whoever stands on the library: the program, the C door, and users' programs.
#include "bindings/cpp/start.hpp"

#include "engine/config/device_config.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/reference/reference.hpp"
#include "ops/init.hpp"

#include <mutex>

namespace gradus::inline v1 {

const char* version() { return GRADUS_VERSION; }

void start() {
  static std::once_flag once;
  std::call_once(once, [] {
    init();
    register_table(cpu::table(), "built in");
    register_table(reference::table(), "built in");
  });
}

Device& use_device(const std::string& name, std::string* notice) {
  start();
  OpenedDevice opened = open_configured(parse_device_config(name, "use_device"));
  set_default_device(*opened.device);
  if (notice) *notice = std::move(opened.notice);
  return *opened.device;
}

Device& use_device_from_environment(std::vector<std::string>* notices) {
  start();
  std::vector<std::string> warnings;
  OpenedDevice opened = open_configured(resolve_device_config("", nullptr, "", &warnings));
  set_default_device(*opened.device);
  if (!opened.notice.empty()) warnings.push_back(std::move(opened.notice));
  if (notices) *notices = std::move(warnings);
  return *opened.device;
}

void give_library(const std::string& key, const LibraryFunctions& functions,
                  const std::string& text) {
  start();
  for (Device* device : open_devices())
    if (device->kind() == "cpu")
      fail(ErrorKind::device, "give_library",
           "the device cpu is open already; give its libraries before anything is made on it");
  if (const std::string why = cpu::give_library(key, {functions, text}); !why.empty())
    fail(ErrorKind::value, "give_library", key, ": ", why);
}

}  // namespace gradus
