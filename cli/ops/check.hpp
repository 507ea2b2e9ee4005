// `gradus check`: every op on one device, by its test row: value against the reference device,
// layouts, repeatability, vjp, jvp and second order. Or what they give, recorded for another
// program.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>

namespace gradus::inline v1::cli {

struct CheckOptions {
  std::string device;
  std::string op;               // "" for all
  std::string record;           // file to write what the ops give to; nothing is checked then
  std::string calls;            // file of calls to record instead of the op table's
  int64_t seed = 1, cases = 8;  // of the random cases recorded
  bool exact = false;           // see check_exact.hpp
  bool json = false;
};

// 0, or 5 if an op failed.
int run_check(const CheckOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
