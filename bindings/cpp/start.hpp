// Start-up and the choice of a device, for whoever stands on the library: users' programs through
// gradus.hpp, which calls start() by itself, the C door, and the program gradus.
#pragma once
#include "engine/device/device.hpp"

#include <string>
#include <vector>

namespace gradus::inline v1 {

// The version of these headers; version() tells that of the library they are linked to.
#define GRADUS_VERSION "0.1.0"
const char* version();

// Fills the op list and registers the devices "cpu" and "reference". Calling it again does nothing.
// Threads: any.
void start();

// The device for new tensors of all threads from now on: a name ("cpu", "cuda:1", "auto"), a path
// that ends in .json, or a JSON object as configs/devices.md describes it. `notice`, if given, gets
// one line where another device was opened than the one that was asked for, else "". Error(config)
// for a name that makes no sense, Error(io) for a file that can't be read, Error(device) with
// "fallback": "error".
Device& use_device(const std::string& name, std::string* notice = nullptr);

// As the program chooses it: GRADUS_DEVICE, then gradus.json in the working folder, then "auto".
// `notices`, if given, gets a line for each thing that was ignored or replaced.
Device& use_device_from_environment(std::vector<std::string>* notices = nullptr);

}  // namespace gradus
