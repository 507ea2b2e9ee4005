// The slot linalg: small matrices in groups, side by side; others by the algorithms of
// kernels/linalg, or by a LAPACK library where the device config names one; dealt out to the
// threads. One of them is one thread's, so results don't depend on how many there are.
#include "kernels/linalg/batch.hpp"
#include "kernels/cpu/call.hpp"
#include "kernels/cpu/opened.hpp"
#include "kernels/cpu/slots.hpp"

#include <atomic>

namespace gradus::inline v1::cpu {

namespace {
// What a thread keeps from call to call, so that it needs no fresh pages each time.
constexpr uint64_t kKept = uint64_t(16) << 20;

// Groups [begin, end) of small matrices; what a group leaves one by one. Which matrices share a
// group changes none of their bits.
void run_groups(gd_device* d, const calls::LinalgCall& call, int64_t begin, int64_t end, int lanes,
                linalg::Scratch& scratch) {
  void* const room = d->scratch(kScratchTask, kGroupBytes);
  if (!room) throw std::bad_alloc();
  const int64_t stop = std::min(end * lanes, linalg::count_of_matrices(call));
  for (int64_t next = begin * lanes; next < stop;) {
    uint64_t left;
    next = d->kernels->linalg_groups(call, next, stop, room, &left);
    for (int64_t k = next - lanes; left; ++k, left >>= 1)
      if (left & 1) linalg::run(call, k, k + 1, scratch);
  }
}

// Runs work(begin, end, scratch) of `count` pieces on the threads.
template <class F>
void deal_out(gd_device* d, int64_t count, int64_t cost, F&& work) {
  std::atomic<bool> full{false};
  parallel_range(d, count, kGrain / cost, [&](int64_t begin, int64_t end) {
    try {
      thread_local linalg::Scratch scratch;
      work(begin, end, scratch);
      scratch.shrink(kKept);
    } catch (const std::bad_alloc&) {
      full = true;
    }
  });
  if (full) throw std::bad_alloc();
}

// One matrix alone has the same bits, and sooner, without lanes.
void run_formula(gd_device* d, const calls::FormulaCall& f) {
  const int64_t matrices = linalg::count_of_matrices(f);
  const int lanes = matrices > 1 ? d->kernels->formula_lanes(f) : 0;
  const int64_t together = std::max(lanes, 1);
  deal_out(d, (matrices + together - 1) / together, f.cost,
           [&](int64_t begin, int64_t end, linalg::Scratch& scratch) {
             if (lanes == 0) return linalg::run(f, begin, end, scratch);
             void* const room = d->scratch(kScratchTask, kGroupBytes);
             if (!room) throw std::bad_alloc();
             d->kernels->formula_groups(f, begin * lanes, std::min(end * lanes, matrices), room);
           });
}

}  // namespace

gd_status slot_linalg(gd_device* d, gd_stream*, const gd_call* raw, gd_error* e) {
  return calls::guarded("cpu", e, [&] {
    calls::Call call(*raw, calls::Device{"cpu", kMaxRank}, "linalg");
    if (call.op() == GD_FORMULA) return run_formula(d, calls::expect_formula(call));
    const calls::LinalgCall c = calls::expect_linalg(call);
    const LapackLibrary* const library = static_cast<OpenDevice*>(d)->lapack.get();
    const linalg::Lapack* const lapack = library ? &library->functions : nullptr;
    const int lanes = d->kernels->linalg_lanes(c);
    const int64_t matrices = linalg::count_of_matrices(c), together = std::max(lanes, 1);
    deal_out(d, (matrices + together - 1) / together, linalg::cost_of_matrix(c),
             [&](int64_t begin, int64_t end, linalg::Scratch& scratch) {
               if (lanes > 0)
                 run_groups(d, c, begin, end, lanes, scratch);
               else
                 linalg::run(c, begin, end, scratch, lapack);
             });
  });
}

}  // namespace gradus::cpu
