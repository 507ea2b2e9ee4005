// The slot linalg: the algorithms of kernels/linalg, or a LAPACK library where the device config
// names one; the matrices dealt out to the threads. One of them is one thread's, so results don't
// depend on how many there are.
#include "kernels/linalg/batch.hpp"
#include "kernels/cpu/call.hpp"
#include "kernels/cpu/opened.hpp"
#include "kernels/cpu/slots.hpp"

#include <atomic>

namespace gradus::inline v1::cpu {

namespace {
// What a thread keeps from call to call, so that it needs no fresh pages each time.
constexpr uint64_t kKept = uint64_t(16) << 20;
}  // namespace

gd_status slot_linalg(gd_device* d, gd_stream*, const gd_call* raw, gd_error* e) {
  return calls::guarded("cpu", e, [&] {
    calls::Call call(*raw, calls::Device{"cpu", kMaxRank}, "linalg");
    const calls::LinalgCall c = calls::expect_linalg(call);
    const LapackLibrary* const library = static_cast<OpenDevice*>(d)->lapack.get();
    const linalg::Lapack* const lapack = library ? &library->functions() : nullptr;
    std::atomic<bool> full{false};
    parallel_range(d, linalg::count_of_matrices(c), kGrain / linalg::cost_of_matrix(c),
                   [&](int64_t begin, int64_t end) {
                     try {
                       thread_local linalg::Scratch scratch;
                       linalg::run(c, begin, end, scratch, lapack);
                       scratch.shrink(kKept);
                     } catch (const std::bad_alloc&) {
                       full = true;
                     }
                   });
    if (full) throw std::bad_alloc();
  });
}

}  // namespace gradus::cpu
