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

// ---- small_factors.cu, small_spectra.cu

// Up to these sizes of the shorter and the longer side a step is done by kernels of our own: a
// block of threads has a matrix in shared memory, and one launch does the whole batch.
inline constexpr int kShortSide = 32, kLongSide = 48;
// kPotrf, kGetrf, kGetrs, kGeqrf and kOrgqr; kSyevd and kGesvd. They need no work, and give what
// the library's would, but for phases.
template <class T>
void small_factor(const Run&, const SolverStep&);
template <class T>
void small_spectrum(const Run&, const SolverStep&);

// ---- triangular.cu

// By a kernel of our own, which divides by what is there, and needs no library.
template <class T>
void solve_triangular(const Run&, const LinalgCall&);

}  // namespace gradus::gpu
