// `gradus demo`: the tour. Trains a network on digits that the program draws, runs a contraction
// and its gradient, and prints a derivative from the statement that runs. Under a minute, needs no
// file, and leaves none behind.
#pragma once
#include <iosfwd>
#include <string>

namespace gradus::inline v1::cli {

struct DemoOptions {
  std::string device;
  bool json = false;
};
// The exit code. Throws Error.
int run_demo(const DemoOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
