// vmap: a function of one example becomes a function of many. Inside, tensors look like one example
// (engine/batch.hpp); each op runs once for all of them, by its batching rule. Values cannot be
// read there, nor written in place.
#pragma once
#include "engine/batch.hpp"

namespace gradus::inline v1::func {

using Function = std::function<Tensors(const Tensors&)>;
// The axis that is mapped; std::nullopt: the same tensor for every example.
using MappedDims = std::vector<std::optional<int64_t>>;
inline constexpr std::nullopt_t kNone = std::nullopt;

// in_dims: one per input; left out: 0 for all. out_dims: one per output, where the examples' axis
// goes; left out: 0 for all; none: the output must not depend on the example. randomness: may f
// draw random numbers, and does every example get its own?
Function vmap(Function f, MappedDims in_dims = {}, MappedDims out_dims = {},
              Randomness randomness = Randomness::error);

}  // namespace gradus::func

namespace gradus::inline v1 {
// ---- batching rules, for OpInfo::batch; ops/transforms/vmap.cpp lists which op has which.
// Operands broadcast: axes of size 1 are put behind the batch.
Outputs batch_broadcasting(const BatchCall& call);
// Attributes named dim, dim0, dims ... count axes from 0, and every operand has the batch: the axes
// move up by one. Ops without such attributes take any number of leading axes as they are.
Outputs batch_by_axes(const BatchCall& call);
// select, run, stack: right for every op whose results have one shape for all examples.
Outputs batch_by_loop(const BatchCall& call);
}  // namespace gradus
