// Block-sparse tensors: the steps of a chain of spins whose states carry a charge, with the sectors
// that bonds of 64 to 512 states have there. Peers are the products of the sectors one by one, the
// contraction of dense tensors, memcpy.
#include "benches/bench.hpp"
#include "ops/def/grouped.h"

#include <cstring>
#include <numeric>

#include <fmt/format.h>

namespace gradus::inline v1::bench {
namespace {

using Sizes = std::vector<int64_t>;

struct Sector {
  int charge;
  int64_t size;
};
using Sectors = std::vector<Sector>;

// Of the bonds left of, between and right of two neighbours.
struct Bonds {
  int states;
  Sectors left, middle, right;
  double products, permute;  // how many times the peer's time ours may take
};
const Sectors kLeft64{{-5, 2}, {-3, 10}, {-1, 20}, {1, 20}, {3, 10}, {5, 2}};
const Sectors kLeft128{{-5, 4}, {-3, 21}, {-1, 39}, {1, 39}, {3, 21}, {5, 4}};
const Sectors kLeft512{{-7, 2}, {-5, 25}, {-3, 85}, {-1, 144}, {1, 144}, {3, 85}, {5, 25}, {7, 2}};
const Bonds kBonds[] = {
    {64, kLeft64, {{-4, 5}, {-2, 15}, {0, 23}, {2, 16}, {4, 5}}, kLeft64, 2.0, 4},
    {128,
     kLeft128,
     {{-6, 1}, {-4, 11}, {-2, 31}, {0, 42}, {2, 31}, {4, 11}, {6, 1}},
     kLeft128,
     1.3,
     3},
    {256,
     {{-7, 1}, {-5, 11}, {-3, 42}, {-1, 74}, {1, 74}, {3, 42}, {5, 11}, {7, 1}},
     {{-6, 4}, {-4, 24}, {-2, 60}, {0, 80}, {2, 60}, {4, 24}, {6, 4}},
     {{-7, 1}, {-5, 11}, {-3, 41}, {-1, 74}, {1, 75}, {3, 42}, {5, 11}, {7, 1}},
     1.1,
     2},
    {512,
     kLeft512,
     {{-6, 10}, {-4, 51}, {-2, 118}, {0, 154}, {2, 118}, {4, 51}, {6, 10}},
     kLeft512,
     1.05,
     1.5}};
const Sectors kSpin{{1, 1}, {-1, 1}};

struct Leg {
  Sectors sectors;
  int arrow;
};

// Where the blocks of a tensor lie: those whose charges, by their arrows, add up to 0; packed, in
// the order of the sectors' numbers.
struct Blocks {
  struct Block {
    std::vector<size_t> sector;  // of each leg
    Sizes sizes;
    int64_t at;
  };
  std::vector<Leg> legs;
  std::vector<Block> blocks{};
  int64_t count = 0;

  explicit Blocks(std::vector<Leg> all) : legs(std::move(all)) {
    std::vector<size_t> s(legs.size());
    for (;;) {
      int charge = 0;
      Sizes sizes;
      for (size_t d = 0; d < s.size(); ++d) {
        charge += legs[d].arrow * legs[d].sectors[s[d]].charge;
        sizes.push_back(legs[d].sectors[s[d]].size);
      }
      if (charge == 0) {
        blocks.push_back({s, sizes, count});
        count += std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
      }
      size_t d = s.size();
      while (d > 0 && ++s[d - 1] == legs[d - 1].sectors.size()) s[--d] = 0;
      if (d == 0) return;
    }
  }
  // Calls f(block) for those whose legs `which` have these sectors.
  template <class F>
  void each(const std::vector<size_t>& which, const std::vector<size_t>& sectors, F&& f) const {
    for (const Block& b : blocks) {
      bool same = true;
      for (size_t k = 0; k < which.size(); ++k) same = same && b.sector[which[k]] == sectors[k];
      if (same) f(b);
    }
  }
};

// Calls of the device's slots, on f64.
struct Caller {
  Device& device;

  void operator()(gd_slot slot, int32_t op, int n_in, const gd_view* in, const gd_view& out,
                  const double* doubles, const Sizes& ints) const {
    gd_error e{};
    const gd_call c{sizeof(gd_call),
                    slot,
                    op,
                    n_in,
                    1,
                    doubles ? 4 : 0,
                    int32_t(ints.size()),
                    in,
                    &out,
                    doubles,
                    ints.data(),
                    nullptr,
                    nullptr,
                    0,
                    nullptr};
    if (device.table().slot[slot](device.handle(), nullptr, &c, &e) != GD_OK)
      throw std::runtime_error(e.text);
  }
};

// Buffers that stay in place.
struct Buffer {
  int64_t count;
  Memory memory;
  int64_t stride = 1;

  explicit Buffer(int64_t n) : count(n), memory(size_t(n) * 8) {
    for (int64_t i = 0; i < n; ++i) doubles()[i] = double(i % 7) - 3;
  }
  double* doubles() const { return reinterpret_cast<double*>(memory.bytes()); }
  gd_view view() const {
    return {uint64_t(uintptr_t(memory.bytes())), memory.bytes(), GD_F64, 1, 0, &count, &stride};
  }
};

struct Table {
  Sizes ints{0, 0};
  double flops = 0;

  void add(const gd_block_product& p) {
    const auto* const words = reinterpret_cast<const int64_t*>(&p);
    ints.insert(ints.end(), words, words + sizeof p / sizeof *words);
    flops += 2 * double(p.batch * p.m) * double(p.n * p.k);
  }
  const gd_block_product* begin() const {
    return reinterpret_cast<const gd_block_product*>(ints.data() + 2);
  }
  const gd_block_product* end() const {
    return begin() + (ints.size() - 2) / (sizeof(gd_block_product) / sizeof(int64_t));
  }
  void run(const Caller& call, const Buffer& a, const Buffer& b, const Buffer& out) const {
    const gd_view in[] = {a.view(), b.view()};
    call(GD_GROUPED, GD_BLOCK_PRODUCTS, 2, in, out.view(), nullptr, ints);
  }
  // Each product by itself, of matrices that lie packed.
  void run_alone(const Caller& call, const Buffer& a, const Buffer& b, const Buffer& out) const {
    constexpr double kScales[] = {1, 0, 0, 0};
    static const Sizes kAxes{2, GD_STANDARD, 0, 0};
    for (const gd_block_product& p : *this) {
      if (p.k == 0) continue;
      const int64_t sizes[] = {p.m, p.n, p.k}, by_a[] = {p.k, 0, 1}, by_b[] = {0, 1, p.n},
                    by_out[] = {p.n, 1};
      const gd_view in[] = {{1, a.doubles(), GD_F64, 3, p.a, sizes, by_a},
                            {2, b.doubles(), GD_F64, 3, p.b, sizes, by_b}};
      call(GD_CONTRACT, 0, 2, in, {3, out.doubles(), GD_F64, 2, p.c, sizes, by_out}, kScales,
           kAxes);
    }
  }
};

// theta[l p q r] = SUM_m a[l p m] b[m q r].
struct Theta {
  Blocks a, b, theta;
  Table table{};

  Theta(const Sectors& left, const Sectors& middle, const Sectors& right)
      : a({{left, 1}, {kSpin, 1}, {middle, -1}}),
        b({{middle, 1}, {kSpin, 1}, {right, -1}}),
        theta({{left, 1}, {kSpin, 1}, {kSpin, 1}, {right, -1}}) {
    for (const Blocks::Block& c : theta.blocks) {
      const int64_t m = c.sizes[0], n = c.sizes[3];
      bool first = true;
      a.each({0, 1}, {c.sector[0], c.sector[1]}, [&](const Blocks::Block& x) {
        b.each({0, 1, 2}, {x.sector[2], c.sector[2], c.sector[3]}, [&](const Blocks::Block& y) {
          const int64_t k = x.sizes[2];
          table.add({first, 1, 1, m, n, k, x.at, 0, k, 1, y.at, 0, n, 1, c.at, 0, n, 1});
          first = false;
        });
      });
      if (first) table.add({1, 1, 1, m, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, c.at, 0, n, 1});
    }
  }
};

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

int64_t states_of(const Sectors& s) {
  int64_t n = 0;
  for (const Sector& x : s) n += x.size;
  return n;
}

// c (m, n) = a (m, k) b (k, n), all of it.
struct Dense {
  int64_t m, n, k;
  Buffer a, b, c;

  Dense(int64_t rows, int64_t columns, int64_t terms)
      : m(rows), n(columns), k(terms), a(m * k), b(k * n), c(m * n) {}
  void run(const Caller& call) const {
    Table t;
    t.add({1, 1, 1, m, n, k, 0, 0, k, 1, 0, 0, n, 1, 0, 0, n, 1});
    t.run_alone(call, a, b, c);
  }
};

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
  run.compare(work, ours, {peer("dense", [&] { dense.run(call); })});
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
  run.compare(work, ours, {peer("dense", [&] {
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
  }
}

}  // namespace gradus::bench
