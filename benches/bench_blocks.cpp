// Block-sparse tensors as users have them, with plans, history and gradients. Peers: the products
// of the sectors one by one, the traffic of memory, dense tensors.
#include "benches/block_chains.hpp"
#include "ops/blocks/contraction.hpp"
#include "ops/blocks/factors.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"

#include <cstring>

#include <fmt/format.h>

namespace gradus::inline v1::bench {
namespace {

BlockTensor drawn(const std::vector<Leg>& legs, Device& device) {
  const BlockStructure structure = structure_of(legs);
  std::vector<double> numbers(size_t(structure.elements()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = double(i % 7) - 3;
  return {Tensor::from(numbers, {structure.elements()}, device), structure};
}

// Jobs of ga = g b^T and gb = a^T g.
Table turned(const Table& t, bool of_a) {
  Table r;
  for (const gd_block_product& p : t) {
    if (p.k == 0) continue;
    r.add(of_a ? gd_block_product{1, 1, 1, p.m, p.k, p.n, p.c, 0, p.c_m, p.c_n, p.b, 0, p.b_n,
                                  p.b_k, p.a, 0, p.a_m, p.a_k}
               : gd_block_product{1, 1, 1, p.k, p.n, p.m, p.a, 0, p.a_k, p.a_m, p.c, 0, p.c_m,
                                  p.c_n, p.b, 0, p.b_k, p.b_n});
  }
  return r;
}

void gradient_row(Run& run, const Bonds& bonds, int threads) {
  Work work{fmt::format("theta and gradients, bond {}", bonds.states), threads, 0, "GFLOP/s"};
  if (!run.wants(work.name)) return;
  constexpr double kAllowed[] = {1.3, 1.2, 1.05, 1.05};
  const Theta t(bonds.left, bonds.middle, bonds.right);
  const Table back_a = turned(t.table, true), back_b = turned(t.table, false);
  const Buffer a(t.a.count), b(t.b.count), theta(t.theta.count), g(t.theta.count), of_a(t.a.count),
      of_b(t.b.count);
  Device& device = run.device(threads);
  const Caller call{device};
  const BlockTensor x = drawn(t.a.legs, device), y = drawn(t.b.legs, device);
  Tensor of_x = x.data, of_y = y.data;
  of_x.set_requires_grad();
  of_y.set_requires_grad();
  const Tensor cotangent = drawn(t.theta.legs, device).data;
  work.amount = 3 * t.table.flops;
  run.compare(work,
              [&] {
                const BlockTensor z = contract({of_x, x.structure}, {0, 1, 2}, {of_y, y.structure},
                                               {2, 3, 4}, {0, 1, 3, 4});
                grad({z.data}, {of_x, of_y}, {cotangent});
              },
              {peer(
                  "products alone, both ways",
                  [&] {
                    t.table.run_alone(call, a, b, theta);
                    back_a.run_alone(call, g, b, of_a);
                    back_b.run_alone(call, a, g, of_b);
                  },
                  at_most_time(kAllowed[&bonds - kBonds]))});
}

// theta with the operators of its two sites: the work is to move it.
void operator_row(Run& run, const Bonds& bonds, int threads) {
  Work work{fmt::format("mpo, bond {}", bonds.states), threads, 0, "GB/s"};
  if (!run.wants(work.name)) return;
  const Sectors carried{{0, 3}, {2, 1}, {-2, 1}};
  Device& device = run.device(threads);
  const BlockTensor
      theta = drawn({{bonds.left, 1}, {kSpin, 1}, {kSpin, 1}, {bonds.right, -1}}, device),
      w = drawn({{carried, 1}, {kSpin, -1}, {kSpin, -1}, {kSpin, 1}, {kSpin, 1}, {carried, -1}},
                device);
  const NoGrad off;
  const Labels of_theta{0, 1, 2, 3}, of_w{4, 1, 2, 5, 6, 7}, out{0, 4, 5, 6, 7, 3};
  const auto plan = plan_pair("bench", theta.structure, of_theta, w.structure, of_w, out);
  work.amount = 8 * double(theta.data.numel() + w.data.numel() + plan->result.elements());
  // In turns with a copy of arrays far beyond the caches, those of measure_bandwidth(); its time is
  // that of as many bytes.
  constexpr size_t kBytes = size_t(128) << 20;
  const Memory from(kBytes), to(kBytes);
  std::memset(from.bytes(), 1, kBytes);
  const Target target = at_most_time(2);
  run.compare(
      work, [&] { contract(theta, of_theta, w, of_w, out); },
      {threads == 1 ? peer(
                          "its traffic", [&] { std::memcpy(to.bytes(), from.bytes(), kBytes); },
                          target, 2 * double(kBytes) / work.amount)
                    : bound("its traffic", work.amount / run.bandwidth(threads).copy, target)});
}

void plan_row(Run& run) {
  const Bonds& bonds = kBonds[0];
  if (!run.wants("plan, bond 64")) return;
  Device& device = run.device(1);
  const NoGrad off;
  const BlockTensor a = drawn({{bonds.left, 1}, {kSpin, 1}, {bonds.middle, -1}}, device),
                    b = drawn({{bonds.middle, 1}, {kSpin, 1}, {bonds.right, -1}}, device);
  const Labels la{0, 1, 2}, lb{2, 3, 4};
  Labels out{0, 1, 3, 4};
  run.compare({"plan, bond 64: kept", 1},
              [&] { plan_pair("bench", a.structure, la, b.structure, lb, out); },
              {bound("200 ns", 200e-9)});
  // New labels are a new plan.
  int64_t next = 1000;
  run.compare({"plan, bond 64: made and run", 1},
              [&] {
                next += 10;
                contract(a, {next, next + 1, next + 2}, b, {next + 2, next + 3, next + 4},
                         {next, next + 1, next + 3, next + 4});
              },
              {peer(
                  "run", [&] { contract(a, la, b, lb, out); }, at_most_time(5))});
}

// Of Z2, `rank` legs of two sectors of `size`, half of them summed.
void small_blocks_row(Run& run, size_t rank, int64_t size) {
  const Work work{fmt::format("Z2, rank {}, blocks {}^{}", rank, size, rank), 1};
  if (!run.wants(work.name)) return;
  Device& device = run.device(1);
  const NoGrad off;
  Legs legs;
  Labels la, lb, out;
  for (size_t i = 0; i < rank; ++i) {
    legs.push_back(
        ::gradus::Leg(Symmetry{{2}, {}}, i < rank / 2 ? 1 : -1, {{{0}, size}, {{1}, size}}));
    la.push_back(int64_t(i));
    lb.push_back(int64_t(i + rank / 2));
    if (i < rank / 2) out.push_back(int64_t(i));
  }
  for (size_t i = rank; i < rank + rank / 2; ++i) out.push_back(int64_t(i));
  const BlockStructure s(legs, {0});
  const BlockTensor x{Tensor::full({s.elements()}, 1.5, DType::f64, device), s};
  const Tensor dense = to_dense(x);
  run.compare(work, [&] { contract(x, la, x, lb, out); },
              {peer(
                  "dense", [&] { contract(dense, Ints(la), dense, Ints(lb), Ints(out)); },
                  at_most_time(1.5))});
}

void svd_row(Run& run, const Bonds& bonds) {
  const Work work{fmt::format("svd of theta, bond {}", bonds.states), 1};
  if (!run.wants(work.name)) return;
  Device& device = run.device(1);
  const NoGrad off;
  BlockTensor theta = drawn({{bonds.left, 1}, {kSpin, 1}, {kSpin, 1}, {bonds.right, -1}}, device);
  Tensor noise = theta.data;
  theta.data = sin(mul(
      noise, Tensor::from(std::vector<double>(size_t(noise.numel()), 1.7), noise.sizes(), device)));
  const Tensor dense = to_dense(theta);
  const Tensor matrix = reshape(dense, {2 * states_of(bonds.left), 2 * states_of(bonds.right)});
  run.compare(
      work,
      [&] {
        svd(theta, {0, 1});
      },
      {peer(
          "dense", [&] { svd(matrix, false); }, bonds.states == 256 ? at_least(12) : Target{})});
}

}  // namespace

void block_tensors(Run& run, const Bonds& bonds, int threads) {
  gradient_row(run, bonds, threads);
  operator_row(run, bonds, threads);
}

void block_tensors_once(Run& run) {
  plan_row(run);
  for (const auto& [rank, size] :
       {std::pair<size_t, int64_t>{8, 1}, {6, 2}, {8, 2}, {6, 3}, {4, 8}, {6, 4}})
    small_blocks_row(run, rank, size);
  for (const Bonds& bonds : kBonds)
    if (bonds.states <= 256) svd_row(run, bonds);
}

}  // namespace gradus::bench
