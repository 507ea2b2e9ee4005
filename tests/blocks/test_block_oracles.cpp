// Oracles of the two ops over blocks, for the op table: loops over every index of every block.
#include "tests/oracles/oracles.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

const OracleOf block_copy("block_copy", [](const gradus::testing::Call& c) -> Hosts {
  const rows::Ints& t = c.ints("blocks");
  Host y{{c.integer("size")}, std::vector<Wide>(size_t(c.integer("size")))};
  const auto rank = size_t(t[1]);
  for (size_t i = 2; i < t.size(); i += 3 + 3 * rank) {
    const Shape sizes(t.begin() + i + 3, t.begin() + i + 3 + rank);
    for_each_index(sizes, [&](const Shape& at) {
      int64_t from = t[i + 1], to = t[i + 2];
      for (size_t d = 0; d < rank; ++d) {
        from += at[d] * t[i + 3 + rank + d];
        to += at[d] * t[i + 3 + 2 * rank + d];
      }
      if (t[i] != 0) y.values[size_t(to)] += Wide(t[i]) * c.in[0].values[size_t(from)];
    });
  }
  return y;
});

const OracleOf grouped("grouped_contract", [](const gradus::testing::Call& c) -> Hosts {
  const rows::Ints& t = c.ints("jobs");
  Host y{{c.integer("size")}, std::vector<Wide>(size_t(c.integer("size")))};
  for (size_t i = 2; i < t.size(); i += 18) {
    const int64_t* const j = t.data() + i;  // first sign batch m n k, a .., b .., c ..
    for_each_index({j[2], j[3], j[4], j[5]}, [&](const Shape& at) {
      Wide a = c.in[0].values[size_t(j[6] + at[0] * j[7] + at[1] * j[8] + at[3] * j[9])],
           b = c.in[1].values[size_t(j[10] + at[0] * j[11] + at[3] * j[12] + at[2] * j[13])];
      if (t[0]) a = std::conj(a);
      if (t[1]) b = std::conj(b);
      y.values[size_t(j[14] + at[0] * j[15] + at[1] * j[16] + at[2] * j[17])] += Wide(j[1]) * a * b;
    });
  }
  return y;
});

}  // namespace
