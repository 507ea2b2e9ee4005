// Factors and spectra of matrices by cuSOLVER or hipSOLVER, through one table of functions: one
// step of LAPACK's for all matrices of a batch, one after another. Threads: calls of one device are
// ordered by its lock.
#pragma once
#include "kernels/gpu/libraries/cusolver.hpp"
#include "kernels/gpu/libraries/library.hpp"

namespace gradus::inline v1::gpu {

// All matrices lie by columns without gaps, those of a batch one after another.
struct SolverStep {
  enum Function {
    kPotrf,
    kGetrf,
    kGetrs,
    kGeqrf,
    kOrgqr,
    kSyevd,
    kGesvd,
    kGesvdj,
    kGeev,
    kFunctions
  };
  Function function = kPotrf;
  int32_t dtype = 0;
  int64_t count = 0;     // of matrices, ...
  int64_t m = 0, n = 0;  // ... which are (m, n); above 0. kGesvd, kGesvdj: m >= n; kOrgqr: Q's
  int64_t columns = 0;   // kGetrs: of b; kOrgqr: reflections
  int turned = 0;        // kGetrs: 0 A, 1 A^T, 2 A^H
  bool vectors = false;  // kSyevd: in a's place, kGesvd, kGesvdj, kGeev
  bool full = false;     // kGesvd, kGesvdj: u is (m, m)
  // On the device.
  void* a = nullptr;
  void* b = nullptr;    // kGetrs: (n, columns); kGesvd: Vh (n, n), kGesvdj: V; kGeev: the vectors
  void* u = nullptr;    // kGesvd, kGesvdj: (m, n or m)
  void* tau = nullptr;  // kGeqrf, kOrgqr: min(m, n), `columns` for each matrix
  void* values = nullptr;  // kSyevd, kGesvd, kGesvdj: n real ones for each; kGeev: n complex ones
  void* real_work = nullptr;  // kGesvd: n real numbers for all
  int* pivots = nullptr;      // kGetrf, kGetrs: min(m, n) for each
  int* info = nullptr;        // one for each
  // What a matrix needs to be worked on, by measure(): for all the same.
  int length = 0;
  size_t bytes = 0, host_bytes = 0;
  void* work = nullptr;
};

class SolverLibrary {
 public:
  explicit SolverLibrary(const LibrarySearch&);
  SolverLibrary(const SolverLibrary&) = delete;

  const std::string& why() const { return library_.why(); }
  std::string text() const { return library_.text(size_t(version_)); }
  // Why there is no such function, "" if there is.
  std::string lacks(SolverStep::Function) const;
  // Its name there, for texts: "cusolverDnSpotrf".
  std::string name(const SolverStep&) const;
  // "EXECUTION_FAILED (6)"
  std::string status_text(int status) const;
  // Both give the library's status. run() ends at the first that is not 0.
  int measure(SolverStep&) const;
  int run(const SolverStep&, void* stream) const;

 private:
  struct Functions {
    cusolver::PotrfSize potrf_size;
    cusolver::Potrf potrf;
    cusolver::GetrfSize getrf_size;
    cusolver::Getrf getrf;
    cusolver::Getrs getrs;
    cusolver::GeqrfSize geqrf_size;
    cusolver::Geqrf geqrf;
    cusolver::OrgqrSize orgqr_size;
    cusolver::Orgqr orgqr;
    cusolver::SyevdSize syevd_size;
    cusolver::Syevd syevd;
    cusolver::GesvdSize gesvd_size;
    cusolver::Gesvd gesvd;
    cusolver::GesvdjSize gesvdj_size;
    cusolver::Gesvdj gesvdj;
  };
  void get(Functions&, int32_t dtype);
  void make_jacobi(const std::string& prefix);
  int run_one(const SolverStep&, int64_t index, void* host_work) const;

  Library library_;
  bool hip_ = false;  // is it hipSOLVER?
  int version_ = 0;
  cusolver::Numbers numbers_ = cusolver::kCuda;
  cusolver::Handle handle_ = nullptr;
  cusolver::Params params_ = nullptr;
  cusolver::Jacobi jacobi_[2] = {};  // for f32 and c64, f64 and c128
  cusolver::SetStream set_stream_ = nullptr;
  cusolver::GeevSize geev_size_ = nullptr;  // null: an older one, which has none
  cusolver::Geev geev_ = nullptr;
  Functions of_[4] = {};  // by dtype: f32 f64 c64 c128
};

// The device's own, opened now if it was not.
SolverLibrary& solver_library(gd_device&);

}  // namespace gradus::gpu
