// One step of a script: it runs as `gradus script` runs it, and is ended where it comes to the
// backward() that was asked for, or calls gradus.audit.mark.
#pragma once
#include "cli/look/one_step.hpp"

namespace gradus::inline v1::cli {

bool is_script(const std::string& file);  // by its ending, .lua

// Error(config) if anything of it was given, for `file`, which is no script.
void refuse_script_options(const ScriptTarget& given, const std::string& file);

// `ready` is called before the script, or after the walk before the one that was asked for. What
// the script prints goes to standard error. Leaves are named by the variables that hold them.
// Errors of the script pass through, its traceback on standard error; Error(config) for --set, and
// where there was no such backward().
OneStep script_step(const OneStepConfig& config, Device& device,
                    const std::function<void()>& ready);

}  // namespace gradus::cli
