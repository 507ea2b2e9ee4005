// `gradus check --exact`: derivatives proven over exact number types, by == where `gradus check`
// has a tolerance.
#pragma once
#include "cli/ops/check.hpp"

namespace gradus::inline v1::cli {

// 0, or 5 if an op's derivative is wrong.
int run_check_exact(const CheckOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
