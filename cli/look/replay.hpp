// `gradus replay FILE`: runs a recorded step again, forward and backward, and compares every value,
// cotangent and gradient with what the file holds, bit for bit; as often as `--runs` says.
// `--shrink` writes the smallest part of it that still fails.
#pragma once
#include "ops/audit/step/trace.hpp"

#include <iosfwd>
#include <string>

namespace gradus::inline v1::cli {

struct ReplayOptions {
  std::string file;
  std::string device;  // "" for where it was made
  std::string shrink;  // file to write; "" for none
  std::string until;   // nan, inf, mismatch, differs:DEVICE
  int64_t runs = 1;    // of a replay: all of them must give the same bits
  bool json = false;
};
// The exit code: 5 if bits differ. Throws Error; Error(numeric), 5 as well, if there is nothing to
// shrink: the failure does not show here.
int run_replay(const ReplayOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
