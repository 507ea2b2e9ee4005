// Decompositions of block-sparse tensors as matrices: the axes `left`, in this order, are the rows,
// the others the columns; each sector is factorised by itself (ops/linalg), so values that are
// equal in different sectors trouble no derivative. The new leg has arrow -1 in the left factor and
// +1 in the right one, its sectors sorted by charge. Of fermions legs cross with their signs, and
// what speaks of maps (eigh, adjoint, inv, det, solve) means them as contract applies them: the
// columns' legs meet the rows' of what follows.
#pragma once
#include "ops/blocks/block_tensor.hpp"
#include "ops/linalg/linalg.hpp"

namespace gradus::inline v1 {

// Which factor has the tensor's charge, if that is not 0; `none` refuses such a tensor.
enum class TakesCharge { none, left, right };

struct Truncation {
  int64_t rank = 0;           // at most so many values of all sectors together; 0: all
  double atol = 0, rtol = 0;  // values up to max(atol, rtol * largest) are left out
  int64_t least = 0;          // of each sector, if it has them, so that none vanishes
  // Where the cut falls between values that are equal: all of them are kept (rank may be
  // exceeded), or those of the lower sectors.
  bool whole_multiplets = true;
  // How many values of each charge of the new leg, instead of the above: the structure of the
  // result does not depend on the numbers.
  std::vector<Sector> sizes = {};
};

struct BlockFactors {
  BlockTensor left;   // legs of the rows, then the new one
  Tensor values;      // of svd and eigh, real: one for each index of the new leg
  BlockTensor right;  // the new leg, then legs of the columns
  Leg bond;           // as `right` has it
  double discarded =
      0;  // of svd: the sum of squares of the values left out; NaN where sizes say all
};

// x = left diag(values) right; each sector's values descend. The derivative knows what was cut.
BlockFactors svd(const BlockTensor& x, const Ints& left, const Truncation& cut = {},
                 TakesCharge charge = TakesCharge::none, Degenerate degenerate = Degenerate::exact);
// left is an isometry; no values.
BlockFactors qr(const BlockTensor& x, const Ints& left, bool positive = true,
                TakesCharge charge = TakesCharge::none);
// Of a Hermitian map, whose columns' legs are the rows' reversed: x = left diag(values) left^H,
// and contract(x, left) is left diag(values); each sector's values ascend; `right` is the adjoint
// of `left`. Error(value) for a charge, for legs that do not fit.
BlockFactors eigh(const BlockTensor& x, const Ints& left,
                  Degenerate degenerate = Degenerate::exact);
// The adjoint map: the columns' legs reversed, then the rows' reversed. If the columns of x are
// orthonormal (left of svd, qr, eigh), contract(adjoint(x), x) over the rows' legs is the identity.
BlockTensor adjoint(const BlockTensor& x, const Ints& left);
// Of a map whose sectors are square; Error(shape) names the first that is not. The inverse has the
// legs of the adjoint.
BlockTensor inv(const BlockTensor& x, const Ints& left);
Tensor det(const BlockTensor& x, const Ints& left);
BlockTensor solve(const BlockTensor& a, const Ints& left, const BlockTensor& b);  // inv(a) b

}  // namespace gradus
