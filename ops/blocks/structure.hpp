// BlockStructure: what is known of a block-sparse tensor without its numbers. An element may differ
// from 0 where the sum over the legs of arrow * charge is the charge of the tensor; all blocks of
// sectors that this allows are there, packed one after the other, row-major, in lexicographic order
// of their sectors. Interned, like legs.
#pragma once
#include "ops/blocks/leg.hpp"

namespace gradus::inline v1 {

using Legs = std::vector<Leg>;
using Coordinates = SmallVector<int32_t, 6>;  // a sector of each leg

class BlockStructure {
 public:
  static constexpr size_t kMostBlocks = size_t(1) << 22;
  // A tensor without legs needs the symmetry. Error(value) of `op`: legs of different groups, a
  // charge that does not fit. Error(memory): more than `most_blocks`.
  BlockStructure(const Symmetry& symmetry, Legs legs, Charge charge, const char* op = "blocks",
                 size_t most_blocks = kMostBlocks);
  BlockStructure(Legs legs, Charge charge, const char* op = "blocks");  // one leg or more

  const Symmetry& symmetry() const;
  const Legs& legs() const;
  size_t rank() const { return legs().size(); }
  const Charge& charge() const;
  Shape dense_sizes() const;
  size_t count() const;      // of blocks
  int64_t elements() const;  // of all blocks
  const Coordinates& at(size_t block) const;
  int64_t offset(size_t block) const;
  int64_t size(size_t block) const { return offset(block + 1) - offset(block); }
  Shape sizes(size_t block) const;
  size_t bytes() const;                       // of the description
  int64_t find(const Coordinates& at) const;  // the block; -1 if there is none
  uint64_t id() const;                        // never given twice
  friend bool operator==(const BlockStructure& a, const BlockStructure& b) {
    return a.data_ == b.data_;
  }
  // "37 elements of 100 in 6 blocks, charge 0", then a line for each leg, counted from `first`.
  std::string text(int64_t first = 0) const;
  std::string brief() const;  // "+ {0: 2, 1: 3} - {0: 2}, 2 blocks"; of many sectors how many

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

// Sum over the legs of arrow * charge.
Charge charge_at(const BlockStructure& s, const Coordinates& at);

}  // namespace gradus
