// `gradus tune --cost FILE`: measures what a step of a contraction costs on a device, for orders of
// least time (`gradus contract --cost FILE`).
#pragma once
#include "cli/tune.hpp"

namespace gradus::inline v1::cli {

// The exit code. Throws Error.
int run_tune_cost(const TuneOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
