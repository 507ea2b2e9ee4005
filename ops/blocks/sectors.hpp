// A block-sparse tensor as matrices: its legs parted into rows and columns, one matrix for each
// charge that rows and columns can share. All combinations of a matrix's row sectors with its
// column sectors are blocks, so it is whole.
#pragma once
#include "ops/blocks/block_copy.hpp"
#include "ops/blocks/structure.hpp"

namespace gradus::inline v1 {

// A sector of each of some legs.
struct Combination {
  Coordinates at;
  int64_t start = 0, size = 1;  // rows, or columns
};

struct SectorMatrix {
  Coordinates batch;  // sectors of the batch legs
  Charge charge;      // sum over the columns' legs of arrow * charge
  std::vector<Combination> rows, columns;
  std::vector<size_t> blocks;  // rows by columns: which block of the structure
  int64_t batch_size = 1, row_size = 0, column_size = 0;
  size_t block(size_t r, size_t c) const { return blocks[r * columns.size() + c]; }
  int64_t elements() const { return batch_size * row_size * column_size; }
};

// How the axes of s are parted.
struct Parting {
  Ints batch, rows, columns;
};
// Sorted by batch and charge.
struct SectorMatrices : std::vector<SectorMatrix> {
  size_t bytes() const;
};
// The axes are all of s, each once; batch legs are neutral. Kept by structure and parting.
std::shared_ptr<const SectorMatrices> sector_matrices(const BlockStructure& s,
                                                      const Parting& parting);

// Matrices one after the other, row-major, a batch of them side by side.
struct PackedSectors {
  std::vector<int64_t> offsets;  // of each matrix, then the end
  std::vector<StridedBlock> blocks;
};
// The given ones of `matrices` (none: all); signs: of each block of s.
PackedSectors pack(const BlockStructure& s, const std::vector<SectorMatrix>& matrices,
                   const Parting& parting, const std::vector<char>& wanted,
                   const std::vector<int>& signs);

// All of them, the first `rows` axes being the rows, as a list that is kept.
struct SectorPacking {
  std::shared_ptr<const SectorMatrices> matrices;
  std::vector<int64_t> offsets;
  BlockCopies copies;
  size_t bytes() const { return copies.bytes() + offsets.size() * sizeof(int64_t); }
};
std::shared_ptr<const SectorPacking> packing(const BlockStructure& s, size_t rows);

}  // namespace gradus
