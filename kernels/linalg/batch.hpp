// The slot linalg of devices whose memory is the host's: the matrices of a checked call, one by
// one.
#pragma once
#include "kernels/call/checks.hpp"
#include "kernels/linalg/lapack_functions.hpp"
#include "kernels/linalg/scratch.hpp"

namespace gradus::inline v1::linalg {

// How many matrices the call has; of empty ones, too.
int64_t count_of_matrices(const calls::LinalgCall& call);
// About how many multiplications one of them takes.
int64_t cost_of_matrix(const calls::LinalgCall& call);
// Does matrices [begin, end). Each by itself: how they are dealt out changes no result. By LAPACK,
// if one is given and it is for matrices of that size. Throws bad_alloc.
void run(const calls::LinalgCall& call, int64_t begin, int64_t end, Scratch& scratch,
         const Lapack* lapack = nullptr);

// The same for formulas.
int64_t count_of_matrices(const calls::FormulaCall& call);
void run(const calls::FormulaCall& call, int64_t begin, int64_t end, Scratch& scratch);

// Matrices of elements of type T: batch_<dtype>.cpp.
template <class T>
void run_as(const calls::LinalgCall& call, int64_t begin, int64_t end, Scratch& scratch,
            const Lapack* lapack);

}  // namespace gradus::linalg
