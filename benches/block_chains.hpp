// What the benches of block-sparse tensors share: the sectors of chains of spins, where their
// blocks lie, and tables of products of blocks.
#pragma once
#include "benches/bench.hpp"
#include "ops/blocks/structure.hpp"
#include "ops/def/grouped.h"

#include <numeric>
#include <stdexcept>

namespace gradus::inline v1::bench {

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
inline const Sectors kLeft64{{-5, 2}, {-3, 10}, {-1, 20}, {1, 20}, {3, 10}, {5, 2}};
inline const Sectors kLeft128{{-5, 4}, {-3, 21}, {-1, 39}, {1, 39}, {3, 21}, {5, 4}};
inline const Sectors kLeft512{{-7, 2},  {-5, 25}, {-3, 85}, {-1, 144},
                              {1, 144}, {3, 85},  {5, 25},  {7, 2}};
inline const Bonds kBonds[] = {
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
inline const Sectors kSpin{{1, 1}, {-1, 1}};

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

// The same legs as a tensor of the library has them.
inline BlockStructure structure_of(const std::vector<Leg>& legs) {
  const Symmetry u1{{0}, {}};
  Legs all;
  for (const Leg& leg : legs) {
    std::vector<gradus::Sector> sectors;
    for (const Sector& s : leg.sectors) sectors.push_back({{s.charge}, s.size});
    all.emplace_back(u1, leg.arrow, std::move(sectors));
  }
  return {all, {0}};
}

inline int64_t states_of(const Sectors& s) {
  int64_t n = 0;
  for (const Sector& x : s) n += x.size;
  return n;
}

}  // namespace gradus::bench
