// Which device a run uses, and how: the object of a device JSON, where its keys come from, and what
// happens when the device is not there. The kinds it lists are words that people may type; what a
// kind is, only its module knows.
#pragma once
#include "engine/config/options.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace gradus::inline v1 {

class Device;
struct KnownKind;

struct DeviceConfig {
  enum class Fallback { unset, cpu, error };
  std::string device = "auto";  // auto, KIND, KIND:N, or a whole number
  Fallback fallback = Fallback::unset;
  std::vector<std::string> modules;  // absolute paths
  int threads = 0;                   // 0: the device's own choice
  std::string isa;                   // of a CPU device; "": GRADUS_ISA, or the best there is
  size_t memory_limit = 0;           // bytes, 0: none
  bool tf32 = false;
  bool sync = false;  // wait after each call of a GPU
  enum class Graph { off, on, force };
  Graph graph =
      Graph::on;       // a GPU's own graphs for captured steps; force: where they are young too
  bool tuning = true;  // contract in the ways that `gradus tune` found, kept in ...
  std::string tuning_file;  // "": the default file
  // A GPU vendor's libraries of matrix products, of contractions and of linalg: auto, off, or an
  // absolute path.
  std::string gemm_library = "auto", tensor_library = "auto", solver_library = "auto";
  // A LAPACK and a BLAS for a CPU device: off, an absolute path, or a name that the system's loader
  // finds.
  std::string lapack_library = "off", blas_library = "off";
  // Where libtorch is: auto, or the absolute path of its file or folder.
  std::string torch_library = "auto";
  std::optional<size_t> memory_cache;  // bytes of freed memory that are kept at most
  size_t memory_initial = 0;           // bytes that are asked of the device at once, and kept
  std::string origin = "default";      // where `device` came from
};

// The table of the object's keys. It carries no defaults, so that layers merge key by key.
Spec device_object_spec();
// The value of "device" in an experiment: a name, a number, a .json path, or the object.
Spec device_spec();

// One source alone. Text as typed: "cuda:1", "-1", "gpu.json", "{\"device\": ...}". Throws
// Error(config) for a name that is malformed or of an unknown kind, Error(io) for a missing file.
DeviceConfig parse_device_config(const std::string& text, const std::string& origin = "--device");
// A JSON value that stands in `file`; paths in it are relative to that file.
DeviceConfig parse_device_config(const Json& value, const std::string& file);

// What a file that was found or handed over, and not named as a config, may say of a device: its
// name, such as cpu or cuda:1. Anything else that a config may say (a file, an object with modules
// to load) is an Error(io), and nothing is opened for it.
void check_found_device(const Json& value, const std::string& file);

// All sources, the first winning key by key: --device, GRADUS_DEVICE, the experiment's config,
// gradus.json in the working folder, auto.
struct DeviceSources {
  std::string option;                // --device; "" if not given
  std::string environment;           // GRADUS_DEVICE; "" if not set
  const Json* experiment = nullptr;  // its "device" value, or nullptr
  std::string experiment_file;
  std::string folder = ".";  // where gradus.json is looked for
};
// `warnings` receives one line for each thing that was ignored: "modules" and the files of
// "libraries" in a gradus.json that was merely found are never honoured.
DeviceConfig resolve_device_config(const DeviceSources& sources,
                                   std::vector<std::string>* warnings = nullptr);
// --device and the real environment; `experiment` may be nullptr.
DeviceConfig resolve_device_config(const std::string& option, const Json* experiment = nullptr,
                                   const std::string& experiment_file = "",
                                   std::vector<std::string>* warnings = nullptr);

// The name that a whole number stands for: below zero the CPU, else the N-th device of those kinds
// that score above the CPU, counted on from kind to kind, the best first (CUDA, then HIP; never the
// emulator). Error(device) if there are fewer.
std::string device_of_number(int64_t n, std::vector<KnownKind> kinds);

struct OpenedDevice {
  Device* device;
  std::string notice;  // one line for people if another device than the asked one was opened, or ""
};
// Loads what is needed, opens, tells the pool its bounds. A device that is not there becomes the
// CPU with a notice; a vendor's library that is named and can't be used is a notice; either is an
// Error(device) with fallback error.
OpenedDevice open_configured(const DeviceConfig& config);

}  // namespace gradus
