// What a step of a contraction costs on a device, as a file, so that an order found by it is found
// again: {"format": "gradus.cost/1", "device": "cpu, ...", "dtype": "f32", and the numbers of
// plan::StepTime by their names}. `gradus tune --cost` measures one.
#pragma once
#include "engine/abi/dtype.hpp"
#include "engine/files/json_text.hpp"
#include "ops/contract/plan/step_time.hpp"

#include <string>

namespace gradus::inline v1 {

Json step_time_json(const plan::StepTime& time);  // without `element`
std::string cost_text(const plan::StepTime& time, DType dtype, const std::string& device);
// Error(io) for a file that can't be read; Error(config), with `file`, for one that is something
// else, has numbers that nothing takes, or was measured for another dtype.
plan::StepTime read_cost(const std::string& file, DType dtype);

}  // namespace gradus
