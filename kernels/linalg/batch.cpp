#include "kernels/linalg/batch.hpp"

#include <limits>

namespace gradus::inline v1::linalg {

int64_t count_of_matrices(const calls::LinalgCall& call) {
  int64_t n = 1;
  for (int d = 0; d < call.batch_axes; ++d) n *= call.a.sizes[d];
  return n;
}

int64_t cost_of_matrix(const calls::LinalgCall& call) {
  // In n^3, with all vectors.
  constexpr int64_t kTimes[GD_FORMULA] = {1, 1, 1, 1, 1, 4, 12, 24, 40};
  const int64_t k = std::min(call.m, call.n), columns = call.b ? call.b->sizes[call.a.rank - 1] : 0;
  const double products = double(call.m) * double(call.n) * double(k + columns);
  return int64_t(std::min(products * double(kTimes[call.op]), 1e15)) + 16;
}

namespace {

// Below it LAPACK's calls cost more than it gains: our time over that of OpenBLAS, f64 on a Zen, is
// 0.6 for LU, 1 for eigh, 1.2 for svd and 1.6 for QR and Cholesky at 32; 0.9 to 1.9 at 64; at 96
// all gain.
constexpr int64_t kLeast = 33;

// May LAPACK do it? Its integers have 32 bits: what it works in, below 9 k^2 and some columns, is
// counted with them.
bool for_lapack(const calls::LinalgCall& call) {
  constexpr int64_t kMost = std::numeric_limits<LapackInt>::max();
  const int64_t least = std::min(call.m, call.n), most = std::max(call.m, call.n);
  const int64_t columns = call.b ? call.b->sizes[call.a.rank - 1] : 0;
  if (most < kLeast || least == 0 || most > kMost / 200 || columns > kMost) return false;
  return 9 * least * least + 200 * most <= kMost;
}

}  // namespace

void run(const calls::LinalgCall& call, int64_t begin, int64_t end, Scratch& scratch,
         const Lapack* lapack) {
  if (lapack && !for_lapack(call)) lapack = nullptr;
  if (lapack && lapack->set_threads) lapack->set_threads(1);
  visit_dtype_of(
      call.a.dtype, [&](auto t) { run_as<decltype(t)>(call, begin, end, scratch, lapack); },
      float{}, double{}, c64{}, c128{});
}

}  // namespace gradus::linalg
