// Block-sparse tensors: the steps of a chain of spins whose states carry a charge, with the sectors
// that bonds of 64 to 512 states have there. Peers are the products of the sectors one by one, the
// contraction of dense tensors, memcpy.
#include "benches/block_chains.hpp"

#include <cstring>

#include <fmt/format.h>

namespace gradus::inline v1::bench {

void block_tensors(Run& run, const Bonds& bonds, int threads);
void block_tensors_once(Run& run);

namespace {

// The environment of the left half grows by a site: t[l' p m] = SUM_l e[l l'] a[l p m], then
// out[m' m] = SUM_l'p a[l' p m'] t[l' p m].
struct Env {
  Blocks e, a, out;
  Table first{}, second{};

  Env(const Sectors& left, const Sectors& middle)
      : e({{left, 1}, {left, -1}}),
        a({{left, 1}, {kSpin, 1}, {middle, -1}}),
        out({{middle, 1}, {middle, -1}}) {
    for (const Blocks::Block& t : a.blocks)
      e.each({0}, {t.sector[0]}, [&](const Blocks::Block& x) {
        const int64_t l = x.sizes[0], n = t.sizes[2];
        first.add({1, 1, 1, l, n, l, x.at, 0, 1, l, t.at, 0, n, 1, t.at, 0, n, 1});
      });
    for (const Blocks::Block& c : out.blocks) {
      const int64_t m = c.sizes[0];
      bool begins = true;
      a.each({2}, {c.sector[0]}, [&](const Blocks::Block& x) {
        const int64_t l = x.sizes[0];
        second.add({begins, 1, 1, m, m, l, x.at, 0, 1, m, x.at, 0, m, 1, c.at, 0, m, 1});
        begins = false;
      });
    }
  }
};

// c (m, n) = a (m, k) b (k, n), all of it.
struct Dense {
  int64_t m, n, k;
  Buffer a, b, c;

  Dense(int64_t rows, int64_t columns, int64_t terms)
      : m(rows), n(columns), k(terms), a(m * k), b(k * n), c(m * n) {}
  double flops() const { return 2 * double(m) * double(n) * double(k); }
  void run(const Caller& call) const {
    Table t;
    t.add({1, 1, 1, m, n, k, 0, 0, k, 1, 0, 0, n, 1, 0, 0, n, 1});
    t.run_alone(call, a, b, c);
  }
};

// How much more it multiplies is what equally good products can save.
std::string dense_name(double products) {
  return fmt::format("dense: {:.1f} x the flops", products);
}
constexpr double kAgainstDense[] = {3.5, 10, 18, 22};

void theta_row(Run& run, const Bonds& bonds, int threads) {
  Work work{fmt::format("theta, bond {}", bonds.states), threads, 0, "GFLOP/s"};
  if (!run.wants(work.name)) return;
  const Theta t(bonds.left, bonds.middle, bonds.right);
  const Buffer a(t.a.count), b(t.b.count), theta(t.theta.count);
  const Dense dense(2 * states_of(bonds.left), 2 * states_of(bonds.right), states_of(bonds.middle));
  const Caller call{run.device(threads)};
  work.amount = t.table.flops;
  const auto ours = [&] { t.table.run(call, a, b, theta); };
  run.compare(work, ours,
              {peer(
                  "sector by sector", [&] { t.table.run_alone(call, a, b, theta); },
                  at_most_time(bonds.products))});
  // For itself, since it leaves nothing of ours in the caches.
  run.compare(work, ours,
              {peer(
                  dense_name(dense.flops() / work.amount), [&] { dense.run(call); },
                  at_least(kAgainstDense[&bonds - kBonds]))});
}

void env_row(Run& run, const Bonds& bonds, int threads) {
  Work work{fmt::format("env, bond {}", bonds.states), threads, 0, "GFLOP/s"};
  if (!run.wants(work.name)) return;
  const Env env(bonds.left, bonds.middle);
  const Buffer e(env.e.count), a(env.a.count), t(env.a.count), out(env.out.count);
  const int64_t l = states_of(bonds.left), m = states_of(bonds.middle);
  const Dense first(l, 2 * m, l), second(m, m, 2 * l);
  const Caller call{run.device(threads)};
  work.amount = env.first.flops + env.second.flops;
  const auto ours = [&] {
    env.first.run(call, e, a, t);
    env.second.run(call, a, t, out);
  };
  run.compare(work, ours,
              {peer(
                  "sector by sector",
                  [&] {
                    env.first.run_alone(call, e, a, t);
                    env.second.run_alone(call, a, t, out);
                  },
                  at_most_time(bonds.products))});
  run.compare(work, ours, {peer(dense_name((first.flops() + second.flops()) / work.amount), [&] {
                first.run(call);
                second.run(call);
              })});
}

// All sectors of size 1: what is left is the work on the table.
void bookkeeping_row(Run& run, int threads) {
  constexpr int kMost = 200;
  Sectors odd, even;
  for (int q = -kMost; q <= kMost; ++q) (q % 2 ? odd : even).push_back({q, 1});
  const Theta t(odd, even, odd);
  const auto pairs = double(t.table.end() - t.table.begin());
  const Work work{fmt::format("{} pairs of 1x1", pairs), threads};
  if (!run.wants(work.name)) return;
  const Buffer a(t.a.count), b(t.b.count), theta(t.theta.count);
  const Caller call{run.device(threads)};
  run.compare(work, sampler([&] { t.table.run(call, a, b, theta); }, pairs),
              {bound("50 ns", 50e-9),
               peer(
                   "sector by sector", [&] { t.table.run_alone(call, a, b, theta); }, {}, pairs)});
}

// theta with its legs in the order `axes`.
void permute_row(Run& run, const Bonds& bonds, const std::string& name,
                 const std::vector<size_t>& axes, int threads) {
  Work work{fmt::format("permute to {}, bond {}", name, bonds.states), threads, 0, "GB/s"};
  if (!run.wants(work.name)) return;
  const Theta t(bonds.left, bonds.middle, bonds.right);
  std::vector<Leg> legs;
  for (const size_t d : axes) legs.push_back(t.theta.legs[d]);
  const Blocks permuted(legs);
  Sizes ints{0, 4};
  for (const Blocks::Block& c : permuted.blocks)
    for (const Blocks::Block& x : t.theta.blocks) {
      bool same = true;
      for (size_t d = 0; d < 4; ++d) same = same && x.sector[axes[d]] == c.sector[d];
      if (!same) continue;
      Sizes from(4), to(4), own(4);
      for (int64_t d = 3, step_x = 1, step_c = 1; d >= 0; --d) {
        own[size_t(d)] = step_x;
        to[size_t(d)] = step_c;
        step_x *= x.sizes[size_t(d)];
        step_c *= c.sizes[size_t(d)];
      }
      for (size_t d = 0; d < 4; ++d) from[d] = own[axes[d]];
      ints.insert(ints.end(), {1, x.at, c.at});
      for (const Sizes* s :
           {&c.sizes, static_cast<const Sizes*>(&from), static_cast<const Sizes*>(&to)})
        ints.insert(ints.end(), s->begin(), s->end());
    }
  const Buffer in(t.theta.count), out(t.theta.count);
  const Caller call{run.device(threads)};
  work.amount = 16 * double(in.count);
  run.compare(work,
              [&] {
                const gd_view from = in.view();
                call(GD_GROUPED, GD_BLOCK_COPIES, 1, &from, out.view(), nullptr, ints);
              },
              {peer(
                  "memcpy",
                  [&] { std::memcpy(out.memory.bytes(), in.memory.bytes(), size_t(in.count) * 8); },
                  at_most_time(bonds.permute))});
}

}  // namespace

void structured(Run& run) {
  for (const int threads : run.threads()) {
    for (const Bonds& bonds : kBonds) theta_row(run, bonds, threads);
    for (const Bonds& bonds : kBonds) env_row(run, bonds, threads);
    bookkeeping_row(run, threads);
    for (const Bonds& bonds : kBonds) {
      permute_row(run, bonds, "r q p l", {3, 2, 1, 0}, threads);
      permute_row(run, bonds, "p l r q", {1, 0, 3, 2}, threads);
    }
    for (const Bonds& bonds : kBonds) block_tensors(run, bonds, threads);
  }
  block_tensors_once(run);
}

}  // namespace gradus::bench
