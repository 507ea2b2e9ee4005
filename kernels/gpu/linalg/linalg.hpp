// What the files of this room share: matrices in the call's scratch memory as a solver library
// wants them, and the kernels that bring what it gives to the conventions of ops/def/linalg.h.
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

// ---- conventions.cu

// Matrices (m, n) of a batch, one after another; m and n may be 0.
struct MatrixBatch {
  int64_t count, m, n;
  GRADUS_HD int64_t size() const { return m * n; }
};
// What is wrong with each matrix of a batch.
struct Faults {
  int* not_finite;
  int* info;  // the library's
};
// Element (i, k) of matrix b is data[b * batch + i * down + k * by].
template <class T>
struct Columns {
  T* data;
  int64_t batch, down, by;
};

enum class Triangle { kLower, kUpper };

template <class T>
struct Conventions {
  using R = real_of<T>;
  using C = Complex<R>;
  const Run& run;

  // Notes which matrices have NaN or infinity.
  void find_not_finite(const T* a, MatrixBatch, int* not_finite) const;
  // Those become unit matrices, which any library ends with; of others the lower triangle becomes
  // that of (A + A^H) / 2 if they are `hermitian`, and all is conjugated if they are `conjugate`.
  void prepare(T* a, MatrixBatch, const int* not_finite, bool hermitian, bool conjugate) const;
  void set_identity(T* a, MatrixBatch) const;
  void conjugate(T* a, MatrixBatch) const;
  // What is not in the triangle, or in the trapezium, becomes 0.
  void keep(T* a, MatrixBatch, Triangle) const;
  // NaN where a matrix was not finite or, `by_info`, where the library gave it up.
  void spoil(T* a, MatrixBatch, Faults, bool by_info) const;
  // The order of rows, of LAPACK's exchanges (count, min(m, n)).
  void rows_of(const int* pivots, MatrixBatch, int64_t* rows) const;
  void determinants(const T* lu, const int* pivots, MatrixBatch, Faults, T* value, T* sign,
                    R* log) const;
  // q (m, columns) gets the columns of a (m, n) that hold reflections, and 0 behind them.
  void take_reflections(const T* a, MatrixBatch, int64_t reflections, T* q, int64_t columns) const;
  // R (m, n) gets a real diagonal, not negative if `positive`; q (m, columns) or null goes along.
  void make_diagonal_real(T* r, MatrixBatch, T* q, int64_t columns, bool positive) const;
  // The largest entry of column k < columns, of `length`, becomes real and positive; row k of
  // `partner` (width long, element j of row k is at j * down + k * by) gets the conjugate phase.
  void set_phases(Columns<T>, int64_t count, int64_t columns, int64_t length, Columns<T> partner,
                  int64_t width) const;
  // w (n) in ascending order; the vectors, packed as LAPACK does for real ones, in the same order
  // and of norm 1. vectors, v: null if they are not wanted.
  void order_eigen(const C* w, const T* vectors, MatrixBatch, C* w_out, C* v) const;
};

// info as the slot has it: -1, the library's, or 1 for any other than 0 if it is `only_one`.
void give_info(const Run&, Faults, int64_t count, bool only_one, int64_t* info);

}  // namespace gradus::gpu
