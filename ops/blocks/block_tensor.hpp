// BlockTensor: a block-sparse tensor, its numbers in one buffer. The buffer's history is its
// history, its gradient has its structure, and whatever works number by number (optimisers,
// clipping, norms, random numbers, files) is the op there is, on `data`. Functions record.
// Axes may be negative. Errors name the op, the leg and its sectors.
#pragma once
#include "ops/blocks/structure.hpp"

#include <optional>

namespace gradus::inline v1 {

struct BlockTensor {
  Tensor data;  // one axis, structure.elements() numbers
  BlockStructure structure;

  size_t rank() const { return structure.rank(); }
};

// May a reordering bring in the signs of fermions?
enum class Crossing { refuse, signs };

// Error(shape) if `data` has not as many numbers as the structure takes.
void check_buffer(const char* op, const BlockTensor& x);

// ---- to and from numbers
BlockTensor zeros_of(const BlockStructure& structure, DType dtype,
                     Device& device = default_device());
Tensor to_dense(const BlockTensor& x);
// Error(value) for an element outside of the blocks that is larger than `tolerance`: names index,
// value and charge.
BlockTensor from_dense(const Tensor& x, const BlockStructure& structure, double tolerance = 0);
// Error(value) if `at` is no block: names the sum of charges and the tensor's.
size_t block_at(const char* op, const BlockStructure& s, const Coordinates& at);
Tensor get_block(const BlockTensor& x, const Coordinates& at);  // a view
// x with another block in this place; x stays.
BlockTensor set_block(const BlockTensor& x, const Coordinates& at, const Tensor& block);
// The same structure with other numbers.
BlockTensor with_data(const BlockTensor& x, Tensor data);

// ---- number by number
BlockTensor add(const BlockTensor& x, const BlockTensor& y);  // of one structure
BlockTensor sub(const BlockTensor& x, const BlockTensor& y);
BlockTensor mul(const BlockTensor& x, const Tensor& number);  // one number
BlockTensor neg(const BlockTensor& x);
// Complex conjugate; turns arrows and charge. Of fermions with the signs that make
// contract(conj(x), x) over all legs the sum of |x|^2; of even tensors. A leg that is summed
// between two conjugates (a bond within a bra) has none: twist it once.
BlockTensor conj(const BlockTensor& x);
// Of fermions: the blocks in which these legs together are odd change sign.
BlockTensor twist(const BlockTensor& x, const Ints& dims);
// A pointwise op by its name, if it keeps 0 at 0; else Error(value): the result is dense.
BlockTensor map(const char* op, const BlockTensor& x);
Tensor norm(const BlockTensor& x);
Tensor inner(const BlockTensor& x, const BlockTensor& y);  // sum of conj(x) y

// ---- blocks moved about
// Of fermions, where an odd leg would cross another: Error(value), or with their signs.
BlockTensor permute(const BlockTensor& x, const Ints& dims, Crossing crossing = Crossing::refuse);
// Axes dim .. dim + n - 1 as one leg of this arrow; split is the inverse.
BlockTensor fuse(const BlockTensor& x, int64_t dim, int64_t n, int arrow);
BlockTensor split(const BlockTensor& x, int64_t dim);
// Of each sector of an axis the elements [start, end); ends beyond it are its end. Empty sectors
// vanish.
BlockTensor slice(const BlockTensor& x, int64_t dim,
                  const std::vector<std::pair<int64_t, int64_t>>& ranges);
// The sum of the elements whose two indices are equal.
BlockTensor trace(const BlockTensor& x, int64_t dim0, int64_t dim1);
// Where two neutral legs have one index: they become one, in the place of dim0.
BlockTensor diagonal(const BlockTensor& x, int64_t dim0, int64_t dim1);
// The sum over a leg whose charges are all 0.
BlockTensor sum(const BlockTensor& x, int64_t dim);
// Blocks multiplied along an axis by one number for each of its indices (size of the leg).
BlockTensor scale(const BlockTensor& x, int64_t dim, const Tensor& numbers);

// ---- texts; legs count from `first`
std::string summary(const BlockTensor& x, int64_t first = 0);    // legs, sectors, how many blocks
std::string to_string(const BlockTensor& x, int64_t first = 0);  // and the numbers of each block

}  // namespace gradus
