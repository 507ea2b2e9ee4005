// The version of the program, which --version, the list of commands and reports say.
#pragma once

namespace gradus::cli {

constexpr const char* kVersion = "0.1.0";

}  // namespace gradus::cli
