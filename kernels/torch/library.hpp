// libtorch as it is found on this machine: the one that the process has already, else the one that
// the device config or LIBTORCH names. Opened once, for ever.
#pragma once
#include "kernels/torch/shim.hpp"

#include <string>

namespace gradus::inline v1::torch {

struct Library : Shim {
  std::string file, version;

  // "libtorch 2.11.0, FILE"
  std::string text() const { return "libtorch " + version + ", " + file; }
};

// `named`: a file, or a folder that has it in itself or in lib/; "": none. Throws a Refusal that
// names every place that was looked at.
const Library& open_library(const std::string& named);
// The open one.
const Library& library();

}  // namespace gradus::torch
