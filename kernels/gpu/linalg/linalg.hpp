// What the files of this room call of each other.
#pragma once
#include "kernels/gpu/libraries/solver_library.hpp"
#include "kernels/gpu/runtime.hpp"
#include "kernels/gpu/values.hpp"
#include "kernels/gpu/walk.hpp"

#include <memory>

namespace gradus::inline v1::gpu {

// ---- solver.cu

// The device's library, which has this function; else a refusal that says what to do.
const SolverLibrary& solver_for(const Run&, SolverStep::Function);
// The step on the run's stream; a status that is not 0 is an error.
void solve_step(const Run&, const SolverLibrary&, const SolverStep&);

// ---- triangular.cu

// By a kernel of our own, which divides by what is there, and needs no library.
template <class T>
void solve_triangular(const Run&, const LinalgCall&);

}  // namespace gradus::gpu
