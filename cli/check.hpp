// `gradus check`: every op on one device, by its test row: value against the reference device,
// layouts, repeatability, vjp, jvp and second order.
#pragma once
#include <iosfwd>
#include <string>

namespace gradus::cli {

struct CheckOptions {
  std::string device;
  std::string op;      // "" for all
  bool exact = false;  // see check_exact.hpp
  bool json = false;
};

// 0, or 5 if an op failed.
int run_check(const CheckOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
