// cuSOLVER and hipSOLVER, called.
#include "kernels/gpu/libraries/solver_library.hpp"

#include "engine/abi/dtype.hpp"

#include <algorithm>
#include <climits>

namespace gradus::inline v1::gpu {
namespace {

using namespace cusolver;
using Step = SolverStep;

constexpr int kInvalidValue = 3;  // of both

// The letter of a dtype in LAPACK's names.
char letter(int32_t dtype) { return "SDCZ"[dtype]; }
// LAPACK's name, as it is for real and for complex numbers.
std::string lapack_name(Step::Function f, int32_t dtype) {
  const bool complex = is_complex(DType(dtype));
  const char* const names[Step::kFunctions] = {
      "potrf", "getrf",  "getrs", "geqrf", complex ? "ungqr" : "orgqr", complex ? "heevd" : "syevd",
      "gesvd", "gesvdj", "geev"};
  return names[f];
}
// Does its arithmetic have 64 bits?
bool is_wide(int32_t dtype) { return real_dtype(DType(dtype)) == DType::f64; }
DataType complex_of(int32_t dtype) { return is_wide(dtype) ? kC64F : kC32F; }

}  // namespace

SolverLibrary::SolverLibrary(const LibrarySearch& search)
    : library_("cuSOLVER or hipSOLVER", search) {
  if (!why().empty()) return;
  hip_ = library_.has("hipsolverDnCreate") && !library_.has("cusolverDnCreate");
  if (hip_) numbers_ = kHip;
  const std::string prefix = hip_ ? "hipsolverDn" : "cusolverDn";
  Create create = nullptr;
  library_.get(create, prefix + "Create");
  library_.get(set_stream_, prefix + "SetStream");
  for (const int32_t dtype : {GD_F32, GD_F64, GD_C64, GD_C128}) get(of_[dtype], dtype);
  if (!why().empty()) return;
  if (const int status = create(&handle_))
    library_.refuse(prefix + "Create failed: " + status_text(status));
  if (library_.has("cusolverGetVersion")) {
    int (*get_version)(int*) = nullptr;
    library_.get(get_version, "cusolverGetVersion");
    (void)get_version(&version_);
  }
  if (why().empty()) make_jacobi(prefix);
  if (!why().empty() || !lacks(Step::kGeev).empty()) return;
  CreateParams create_params = nullptr;
  library_.get(create_params, prefix + "CreateParams");
  library_.get(geev_size_, prefix + "Xgeev_bufferSize");
  library_.get(geev_, prefix + "Xgeev");
  if (!why().empty()) return;
  if (const int status = create_params(&params_))
    library_.refuse(prefix + "CreateParams failed: " + status_text(status));
}

// Until columns are orthogonal to a rounding error; values descend.
void SolverLibrary::make_jacobi(const std::string& prefix) {
  constexpr int kMostSweeps = 30;  // 5 to 10 are usual
  CreateJacobi create = nullptr;
  SetTolerance set_tolerance = nullptr;
  SetSweeps set_sweeps = nullptr;
  SetSorted set_sorted = nullptr;
  library_.get(create, prefix + "CreateGesvdjInfo");
  library_.get(set_tolerance, prefix + "XgesvdjSetTolerance");
  library_.get(set_sweeps, prefix + "XgesvdjSetMaxSweeps");
  library_.get(set_sorted, prefix + "XgesvdjSetSortEig");
  for (int wide = 0; wide < 2 && why().empty(); ++wide) {
    Jacobi& j = jacobi_[wide];
    int status = create(&j);
    if (!status) status = set_tolerance(j, wide ? 0x1p-52 : 0x1p-23);
    if (!status) status = set_sweeps(j, kMostSweeps);
    if (!status) status = set_sorted(j, 1);
    if (status) library_.refuse(prefix + "CreateGesvdjInfo failed: " + status_text(status));
  }
}

void SolverLibrary::get(Functions& f, int32_t dtype) {
  const auto both = [&](auto& size, auto& function, Step::Function which) {
    Step step;
    step.function = which;
    step.dtype = dtype;
    library_.get(function, name(step));
    library_.get(size, name(step) + "_bufferSize");
  };
  both(f.potrf_size, f.potrf, Step::kPotrf);
  both(f.getrf_size, f.getrf, Step::kGetrf);
  both(f.geqrf_size, f.geqrf, Step::kGeqrf);
  both(f.orgqr_size, f.orgqr, Step::kOrgqr);
  both(f.syevd_size, f.syevd, Step::kSyevd);
  both(f.gesvd_size, f.gesvd, Step::kGesvd);
  both(f.gesvdj_size, f.gesvdj, Step::kGesvdj);
  Step step;
  step.function = Step::kGetrs;
  step.dtype = dtype;
  library_.get(f.getrs, name(step));
}

std::string SolverLibrary::lacks(Step::Function f) const {
  if (f != Step::kGeev || library_.has(hip_ ? "hipsolverDnXgeev" : "cusolverDnXgeev")) return "";
  return hip_ ? "this hipSOLVER has no hipsolverDnXgeev"
              : "this cuSOLVER has no cusolverDnXgeev; that of CUDA 12.6 Update 2 has";
}

std::string SolverLibrary::name(const Step& s) const {
  return std::string(hip_ ? "hipsolverDn" : "cusolverDn") +
         (s.function == Step::kGeev ? 'X' : letter(s.dtype)) + lapack_name(s.function, s.dtype);
}

std::string SolverLibrary::status_text(int status) const {
  const char* const cuda[] = {"SUCCESS",          "NOT_INITIALIZED", "ALLOC_FAILED",
                              "INVALID_VALUE",    "ARCH_MISMATCH",   "MAPPING_ERROR",
                              "EXECUTION_FAILED", "INTERNAL_ERROR",  "MATRIX_TYPE_NOT_SUPPORTED",
                              "NOT_SUPPORTED"};
  const char* const hip[] = {"SUCCESS",        "NOT_INITIALIZED", "ALLOC_FAILED",
                             "INVALID_VALUE",  "MAPPING_ERROR",   "EXECUTION_FAILED",
                             "INTERNAL_ERROR", "NOT_SUPPORTED",   "ARCH_MISMATCH"};
  const int known = hip_ ? 9 : 10;
  const char* const name = status < 0 || status >= known ? "status"
                           : hip_                        ? hip[status]
                                                         : cuda[status];
  return std::string(name) + " (" + std::to_string(status) + ")";
}

int SolverLibrary::measure(Step& s) const {
  if (std::max({s.m, s.n, s.columns}) > INT_MAX) return kInvalidValue;
  const Functions& f = of_[s.dtype];
  const int m = int(s.m), n = int(s.n), k = int(s.columns);
  const int job = s.vectors ? numbers_.vectors : numbers_.no_vectors;
  int status = 0;
  switch (s.function) {
    case Step::kPotrf:
      status = f.potrf_size(handle_, numbers_.lower, n, s.a, n, &s.length);
      break;
    case Step::kGetrf:
      status = f.getrf_size(handle_, m, n, s.a, m, &s.length);
      break;
    case Step::kGeqrf:
      status = f.geqrf_size(handle_, m, n, s.a, m, &s.length);
      break;
    case Step::kOrgqr:
      status = f.orgqr_size(handle_, m, n, k, s.a, m, s.tau, &s.length);
      break;
    case Step::kSyevd:
      status = f.syevd_size(handle_, job, numbers_.lower, n, s.a, n, s.values, &s.length);
      break;
    case Step::kGesvd:
      status = f.gesvd_size(handle_, m, n, &s.length);
      break;
    case Step::kGesvdj:
      status = f.gesvdj_size(handle_, job, !s.full, m, n, s.a, m, s.values, s.u, m, s.b, n,
                             &s.length, jacobi_[is_wide(s.dtype)]);
      break;
    case Step::kGeev: {
      const int type = data_type(s.dtype);
      return geev_size_(handle_, params_, numbers_.no_vectors, job, n, type, s.a, n,
                        complex_of(s.dtype), s.values, type, nullptr, n, type, s.b, n, type,
                        &s.bytes, &s.host_bytes);
    }
    default:
      break;  // kGetrs needs nothing
  }
  s.bytes = size_t(std::max(s.length, 0)) * itemsize(DType(s.dtype));
  return status;
}

int SolverLibrary::run(const Step& s, void* stream) const {
  int status = set_stream_(handle_, stream);
  std::vector<char> host_work(s.host_bytes);
  for (int64_t i = 0; i < s.count && status == 0; ++i) status = run_one(s, i, host_work.data());
  return status;
}

int SolverLibrary::run_one(const Step& s, int64_t index, void* host_work) const {
  const int m = int(s.m), n = int(s.n), columns = int(s.columns), least = std::min(m, n);
  const int64_t item = int64_t(itemsize(DType(s.dtype))),
                real = int64_t(itemsize(real_dtype(DType(s.dtype))));
  const auto at = [&](void* base, int64_t bytes) -> void* {
    return base ? static_cast<char*>(base) + index * bytes : nullptr;
  };
  void* const a = at(s.a, s.m * s.n * item);
  int *const pivots = s.pivots ? s.pivots + index * least : nullptr, *const info = s.info + index;
  const Functions& f = of_[s.dtype];
  const int job = s.vectors ? numbers_.vectors : numbers_.no_vectors;
  switch (s.function) {
    case Step::kPotrf:
      return f.potrf(handle_, numbers_.lower, n, a, n, s.work, s.length, info);
    case Step::kGetrf:
      return f.getrf(handle_, m, n, a, m, s.work, pivots, info);
    case Step::kGetrs: {
      const int ops[] = {numbers_.plain, numbers_.transposed, numbers_.adjoint};
      return f.getrs(handle_, ops[s.turned], n, columns, a, n, pivots,
                     at(s.b, s.n * columns * item), n, info);
    }
    case Step::kGeqrf:
      return f.geqrf(handle_, m, n, a, m, at(s.tau, least * item), s.work, s.length, info);
    case Step::kOrgqr:
      return f.orgqr(handle_, m, n, columns, a, m, at(s.tau, columns * item), s.work, s.length,
                     info);
    case Step::kSyevd:
      return f.syevd(handle_, job, numbers_.lower, n, a, n, at(s.values, n * real), s.work,
                     s.length, info);
    case Step::kGesvd: {
      const auto job_u = static_cast<signed char>(!s.vectors ? 'N' : s.full ? 'A' : 'S');
      return f.gesvd(handle_, job_u, s.vectors ? 'S' : 'N', m, n, a, m, at(s.values, n * real),
                     at(s.u, s.m * (s.full ? s.m : s.n) * item), m, at(s.b, s.n * s.n * item), n,
                     s.work, s.length, s.real_work, info);
    }
    case Step::kGesvdj:
      return f.gesvdj(handle_, job, !s.full, m, n, a, m, at(s.values, n * real),
                      at(s.u, s.m * (s.full ? s.m : s.n) * item), m, at(s.b, s.n * s.n * item), n,
                      s.work, s.length, info, jacobi_[is_wide(s.dtype)]);
    default: {
      const int type = data_type(s.dtype);
      return geev_(handle_, params_, numbers_.no_vectors, job, n, type, a, n, complex_of(s.dtype),
                   at(s.values, n * 2 * real), type, nullptr, n, type, at(s.b, s.n * s.n * item), n,
                   type, s.work, s.bytes, host_work, s.host_bytes, info);
    }
  }
}

}  // namespace gradus::gpu
