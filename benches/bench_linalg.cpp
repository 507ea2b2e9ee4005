// Linear algebra, forward and backward together: small matrices and batches of them against
// PyTorch, large ones against the same LAPACK called directly.
#include "benches/peers.hpp"
#include "engine/graph.hpp"
#include "engine/random.hpp"
#include "kernels/cpu/lapack.hpp"
#include "ops/ops.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradus::inline v1::bench {
namespace {

struct Factor {
  const char* name;
  Tensor (*ours)(const Tensor& a);  // what the gradient is taken of
  const char* torch;                // of a
};
// Losses without a sign in them, of symmetric positive definite matrices with gaps.
const Factor kFactors[] = {
    {"cholesky", [](const Tensor& a) { return cholesky(a); }, "L.cholesky(a)"},
    {"solve", [](const Tensor& a) { return solve(a, a.detach()); }, "L.solve(a, a.detach())"},
    {"inv", [](const Tensor& a) { return inv(a); }, "L.inv(a)"},
    {"qr", [](const Tensor& a) { return qr(a)[1]; }, "L.qr(a)[1]"},
    {"lu_factor", [](const Tensor& a) { return lu_factor(a)[0]; }, "L.lu_factor(a)[0]"},
    {"eigh", [](const Tensor& a) { return square(eigh(a)[1]); }, "L.eigh(a)[1].square()"},
    {"eigvalsh", [](const Tensor& a) { return eigvalsh(a); }, "L.eigvalsh(a)"},
    {"svd", [](const Tensor& a) { return square(svd(a, false)[0]); },
     "L.svd(a, full_matrices=False)[0].square()"},
    {"svdvals", [](const Tensor& a) { return svdvals(a); }, "L.svdvals(a)"},
};

// Symmetric, positive definite, of a diagonal that grows.
Tensor regular(const Shape& shape) {
  manual_seed(1);
  const Tensor x = uniform(shape, -1, 1, DType::f64);
  const int64_t n = shape.back();
  return matmul(x, transpose(x, -2, -1)) + diag(arange(1, double(n) + 1, 1, DType::f64));
}
std::string torch_setup(const Factor& f, const Shape& shape) {
  return fmt::format(
      "L = torch.linalg\n"
      "torch.manual_seed(1)\n"
      "x = torch.rand([{}], dtype=torch.float64) * 2 - 1\n"
      "a = x @ x.mT + torch.diag(torch.arange(1., {} + 1, dtype=torch.float64))\n"
      "a.requires_grad_()\n"
      "g = torch.ones_like({})",
      fmt::join(shape, ", "), shape.back(), f.torch);
}
void rows_against_torch(Run& run, const Factor& f, const Shape& shape, Device& device, int threads,
                        const Target& target) {
  const std::string name = fmt::format("{} {}, with backward", f.name, fmt::join(shape, "x"));
  if (!run.wants(name)) return;
  const DeviceScope scope(device);
  const Tensor a = regular(shape).set_requires_grad();
  const Tensor seed = ones_like(f.ours(a).detach());
  run.compare(
      {name, threads}, [&] { grad({f.ours(a)}, {a}, {seed}); },
      torch_peers(threads, torch_setup(f, shape),
                  fmt::format("torch.autograd.grad({}, a, g)", f.torch), {target, target}));
}

// ---- large ones, by a LAPACK that is opened at run time

constexpr int kLarge = 512;
using Functions = linalg::LapackFunctions<double>;
using Numbers = std::vector<double>;

// LAPACK by hand, on columns: each overwrites its matrix, so each begins with a copy of it.
class Direct {
 public:
  Direct(const Functions& f, Numbers matrix) : f_(f), given_(std::move(matrix)), a_(given_) {}

  void cholesky() { again(), f_.potrf("L", &n_, a_.data(), &n_, &info_, 1); }
  void lu() { again(), f_.getrf(&n_, &n_, a_.data(), &n_, whole_.data(), &info_); }
  void solve() {
    lu();
    b_ = given_;
    f_.getrs("N", &n_, &n_, a_.data(), &n_, whole_.data(), b_.data(), &n_, &info_, 1);
  }
  void qr() {
    again();
    f_.geqrf(&n_, &n_, a_.data(), &n_, w_.data(), work_.data(), &lwork_, &info_);
    b_ = a_;
    f_.orgqr(&n_, &n_, &n_, b_.data(), &n_, w_.data(), work_.data(), &lwork_, &info_);
  }
  void eigh() {
    again();
    f_.syevd("V", "U", &n_, a_.data(), &n_, w_.data(), work_.data(), &lwork_, whole_.data(),
             &liwork_, &info_, 1, 1);
  }
  void svd() {
    again();
    f_.gesdd("S", &n_, &n_, a_.data(), &n_, w_.data(), b_.data(), &n_, c_.data(), &n_, work_.data(),
             &lwork_, whole_.data(), &info_, 1);
  }
  void eig() {
    again();
    f_.geev("N", "V", &n_, a_.data(), &n_, w_.data(), v_.data(), nullptr, &one_, b_.data(), &n_,
            work_.data(), &lwork_, &info_, 1, 1);
  }

 private:
  void again() { a_ = given_; }
  static constexpr size_t kAll = size_t(kLarge) * kLarge;

  const Functions& f_;
  const linalg::LapackInt n_ = kLarge, one_ = 1, lwork_ = 8 * kAll, liwork_ = 16 * kLarge;
  linalg::LapackInt info_ = 0;
  Numbers given_, a_, b_ = Numbers(kAll), c_ = Numbers(kAll), w_ = Numbers(kLarge),
                      v_ = Numbers(kLarge), work_ = Numbers(8 * kAll);
  std::vector<linalg::LapackInt> whole_ = std::vector<linalg::LapackInt>(16 * kLarge);
};
struct Large {
  const char* name;
  void (Direct::*direct)();
  void (*ours)(const Tensor& a);
};
const Large kLarges[] = {
    {"cholesky", &Direct::cholesky, [](const Tensor& a) { cholesky(a); }},
    {"lu_factor", &Direct::lu, [](const Tensor& a) { lu_factor(a); }},
    {"solve", &Direct::solve, [](const Tensor& a) { solve(a, a); }},
    {"qr", &Direct::qr, [](const Tensor& a) { qr(a); }},
    {"eigh", &Direct::eigh, [](const Tensor& a) { eigh(a); }},
    {"svd", &Direct::svd, [](const Tensor& a) { svd(a, false); }},
    {"eig", &Direct::eig, [](const Tensor& a) { eig(a); }},
};

void large_rows(Run& run) {
  constexpr const char* kFile = "liblapack.so.3";
  std::string why;
  const auto library = cpu::open_library<cpu::LapackLibrary>(kFile, &why);
  if (!library) return run.note("peer missing: LAPACK: " + why);
  run.note("peer: " + library->text());
  Device& device =
      open_cpu(fmt::format(R"({{"threads": 1, "libraries": {{"lapack": "{}"}}}})", kFile),
               fmt::format("cpu with {}", kFile));
  const DeviceScope scope(device);
  for (const Large& l : kLarges) {
    const std::string name = fmt::format("{} {}x{}", l.name, kLarge, kLarge);
    if (!run.wants(name)) continue;
    const Tensor a = regular({kLarge, kLarge});
    Direct direct(std::get<Functions>(library->functions.functions), a.to_vector<double>());
    const Peer lapack = peer(
        "LAPACK", [&] { (direct.*l.direct)(); }, at_most_time(1.1));
    run.compare({name, 1}, [&] { l.ours(a); }, {lapack});
    const DeviceScope without(run.device(1));
    const Tensor copy = to_device(a, run.device(1));
    run.compare({name + ", own kernels", 1}, [&] { l.ours(copy); }, {{lapack.name, lapack.sample}});
  }
  for (const Factor& f : kFactors) rows_against_torch(run, f, {kLarge, kLarge}, device, 1, {});
}

}  // namespace

void factors(Run& run) {
  for (const Factor& f : kFactors)
    for (const int64_t n : {2, 4, 8})
      rows_against_torch(run, f, {n, n}, run.device(1), 1, at_least(5));
  for (const int threads : run.threads())
    for (const Factor& f : kFactors)
      rows_against_torch(run, f, {10000, 4, 4}, run.device(threads), threads, at_least(5));
  large_rows(run);
}

}  // namespace gradus::bench
