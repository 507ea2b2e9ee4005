// Products with tensors that are 0 off a diagonal, against the same written with vectors by hand;
// and what a copy tensor costs among operands.
#include "benches/peers.hpp"
#include "engine/random.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/diagonal/classed.hpp"
#include "ops/ops.hpp"

#include <fmt/format.h>

namespace gradus::inline v1::bench {
namespace {

class Rows {
 public:
  Rows(Run& run, int64_t n, int threads) : run_(run), n_(n), threads_(threads) {
    manual_seed(1);
    m_ = uniform({n, n}, -1, 1, DType::f64);
    v_ = uniform({n}, -1, 1, DType::f64);
    d_ = diagonal_tensor(v_);
  }
  void times_dense(const Target& target) {
    row(
        "diagonal x dense",
        [&] {
          einsum_classed("ij,jk->ik", {d_, m_});
        },
        "mul", [&] { mul(unsqueeze(v_, 1), m_); }, target);
  }
  void element_by_element() {
    row(
        "diagonal o dense", [&] { mul(d_, m_); }, "mul", [&] { mul(v_, diagonal(m_)); }, {});
  }
  void copy_tensor_between(const Target& target) {
    const ClassedTensor delta = copy_tensor(n_, 3, DType::f64);
    row(
        "copy tensor between",
        [&] {
          einsum_classed("ai,bj,ijk->abk", {m_, m_, delta});
        },
        "einsum",
        [&] {
          einsum("ak,bk->abk", {m_, m_});
        },
        target);
  }

 private:
  void row(const char* name, std::function<void()> ours, const char* by_hand,
           std::function<void()> theirs, const Target& target) {
    const std::string work = fmt::format("{} {}", name, n_);
    if (run_.wants(work)) run_.compare({work, threads_}, ours, {peer(by_hand, theirs, target)});
  }
  Run& run_;
  const int64_t n_;
  const int threads_;
  Tensor m_, v_;
  ClassedTensor d_;
};

}  // namespace

void diagonals(Run& run) {
  for (const int threads : run.threads()) {
    const DeviceScope scope(run.device(threads));
    Rows few(run, 16, threads), many(run, 192, threads), most(run, 512, threads);
    few.times_dense({});
    many.times_dense(at_most_time(1.1));
    most.times_dense(at_most_time(1.1));
    many.element_by_element();
    few.copy_tensor_between({});
    Rows(run, 64, threads).copy_tensor_between(at_most_time(1.1));
  }
}

}  // namespace gradus::bench
