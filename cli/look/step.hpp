// `gradus step CONFIG`: a debugger for backward (ops/audit/step/stepper.hpp) at a prompt, or by a
// script of commands.
#pragma once
#include "cli/look/one_step.hpp"

#include <iosfwd>
#include <string>

namespace gradus::inline v1::cli {

struct StepOptions : OneStepConfig {
  std::string commands;  // a file of commands; "": standard input
  bool json = false;
};
// The exit code. Throws Error; of a script of commands also the first wrong one, with its line, and
// at the end what a node threw on the way.
int run_step(const StepOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
