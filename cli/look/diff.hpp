// `gradus diff A B`: two steps compared, in structure and numbers.
#pragma once
#include "cli/look/one_step.hpp"

#include <iosfwd>
#include <string>

namespace gradus::inline v1::cli {

struct DiffOptions {
  std::string a, b;  // configs, scripts or trace files
  // "" for the config's own; a trace file is then not run, but taken as it stands.
  std::string device_a, device_b;
  std::string dtype_b;    // "f64": b is run in f64; "" for as it is
  ScriptTarget script{};  // of both, if they are scripts
  bool json = false;
};
// The exit code: 0 if they are the same, 5 if not. Throws Error.
int run_diff(const DiffOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
