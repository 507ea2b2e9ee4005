// Random job tables of GD_GROUPED: blocks of out lie packed, in any order of their axes, operands
// wherever there is room. What the tests of all devices share.
#pragma once
#include "tests/helpers/cpu_device.hpp"
#include "ops/def/grouped.h"

namespace cpu_test {

struct BlockJobs {
  int32_t op;
  Index ints;
  int64_t a = 0, b = 0, out = 0;  // elements of the buffers

  const gd_block_product* products() const {
    return reinterpret_cast<const gd_block_product*>(ints.data() + 2);
  }
  int64_t product_count() const { return int64_t(ints.size() - 2) / 18; }
};

// Strides of a block that lies packed, its axes in some order; `end` moves behind it.
inline Index laid(const Index& sizes, int64_t& end) {
  std::vector<size_t> order(sizes.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::shuffle(order.begin(), order.end(), rng());
  Index strides(sizes.size());
  int64_t step = 1;
  for (const size_t d : order) {
    strides[d] = step;
    step *= std::max<int64_t>(sizes[d], 1);
  }
  end += step;
  return strides;
}

inline void add_product(BlockJobs& t, int64_t sign, const Index& block, int64_t k, int64_t c,
                        const Index& c_by, bool first) {
  const int64_t batch = block[0], m = block[1], n = block[2];
  const int64_t a = t.a, b = t.b;
  Index a_by = laid({batch, m, k}, t.a), b_by = laid({batch, k, n}, t.b);
  if (pick(0, 5) == 0) a_by[size_t(pick(0, 2))] = 0;  // an operand may stand still
  if (pick(0, 5) == 0) b_by[size_t(pick(0, 2))] = 0;
  t.ints.insert(t.ints.end(), {first, sign, batch, m, n, k, a});
  t.ints.insert(t.ints.end(), a_by.begin(), a_by.end());
  t.ints.push_back(b);
  t.ints.insert(t.ints.end(), b_by.begin(), b_by.end());
  t.ints.push_back(c);
  t.ints.insert(t.ints.end(), c_by.begin(), c_by.end());
}

// Sizes up to `most`; a sign may be negative.
inline BlockJobs random_products(int blocks, int64_t most, bool signs = true) {
  BlockJobs t{GD_BLOCK_PRODUCTS, {pick(0, 1), pick(0, 1)}};
  for (int i = 0; i < blocks; ++i) {
    t.out += pick(0, 2);
    const int64_t c = t.out;
    const Index block{pick(0, 2) == 0 ? pick(0, 3) : 1, pick(0, 9) == 0 ? 1 : pick(1, most),
                      pick(1, most)};
    const Index c_by = laid(block, t.out);
    for (int64_t job = 0, jobs = pick(1, 3); job < jobs; ++job)
      add_product(t, signs && pick(0, 2) == 0 ? -1 : 1, block, pick(0, 9) == 0 ? 0 : pick(1, most),
                  c, c_by, job == 0);
  }
  return t;
}

inline BlockJobs random_copies(int blocks, int64_t most, bool add, bool signs = true) {
  const int64_t rank = pick(0, 4);
  BlockJobs t{GD_BLOCK_COPIES, {add, rank}};
  for (int i = 0; i < blocks; ++i) {
    Index sizes;
    for (int64_t d = 0; d < rank; ++d) sizes.push_back(pick(0, 30) == 0 ? 0 : pick(1, most));
    const int64_t a = t.a, sign = signs ? pick(-1, 1) : 1;
    int64_t out = t.out;
    Index from = laid(sizes, t.a), to = laid(sizes, t.out);
    if (pick(0, 5) == 0 && rank > 0) from[size_t(pick(0, rank - 1))] = 0;
    if (add && rank > 0 && pick(0, 1)) to[size_t(pick(0, rank - 1))] = 0;
    if (add && i > 0 && pick(0, 2) == 0) out = 0;  // over the first block
    t.ints.insert(t.ints.end(), {sign, a, out});
    for (const Index* x : {&sizes, &from, &to}) t.ints.insert(t.ints.end(), x->begin(), x->end());
  }
  return t;
}

// Buffers for a table, full of small numbers.
template <class T>
struct BlockBuffers {
  Array<T> a, b, out;

  explicit BlockBuffers(const BlockJobs& t) : a({t.a}), b({t.b}), out({t.out}) {
    rng().seed(5);
    for (Array<T>* x : {&a, &b, &out}) x->fill(small_number<T>);
  }
  std::vector<gd_view> in(const BlockJobs& t) const {
    return t.op == GD_BLOCK_PRODUCTS ? std::vector<gd_view>{a.view(), b.view()}
                                     : std::vector<gd_view>{a.view()};
  }
};

}  // namespace cpu_test
