// Where a NaN in a training run comes from: the run is repeated, bit for bit, from its last
// checkpoint up to the step at fault, and that step is run under a watch (ops/audit/).
#pragma once
#include "cli/frame/events.hpp"
#include "cli/frame/progress.hpp"
#include "cli/runs/run_folder.hpp"
#include "ops/train/trainer.hpp"

namespace gradus::inline v1::cli {

using namespace training;

// After an Error(numeric) whose step was `failed` (Trainer::failed_step()): says in notices, and as
// an event "provenance", which node of which step made the first value that is not finite, with its
// element and operands, and writes that step as a trace file, nan-step-N.safetensors, into the
// folder. Where that can't be done (interrupted, no memory), it says so and throws nothing.
void explain_not_finite(const Experiment& experiment, const Dataset& data, Device& device,
                        int64_t failed, RunFolder& folder, Reporter& reporter);

}  // namespace gradus::cli
