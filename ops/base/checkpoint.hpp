// Checkpointing: a part of a computation keeps its inputs only, and runs again when backward asks
// for what it would have saved.
#pragma once
#include "engine/graph.hpp"

namespace gradus::inline v1 {

// f(inputs), recorded, but with nothing saved: the first saved tensor that backward asks for runs f
// once more, with the same random numbers, and all of them are taken from that run. f must do the
// same again: number, sizes and dtypes of what it saves are compared. It may take gradients of what
// it computes, each of which runs it once more, and call checkpoint(), whose inputs are then not
// kept but computed again, too. Inputs must not be written in
// between, which is checked; nor may tensors that f captures, which is not seen: give them as
// inputs. Derivatives of any order. Error(autograd).
Tensors checkpoint(std::function<Tensors(const Tensors&)> f, const Tensors& inputs);

}  // namespace gradus
