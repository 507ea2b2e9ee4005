// Lists of block copies that follow from a structure, made once and kept for the next call.
#pragma once
#include "ops/blocks/block_copy.hpp"
#include "ops/blocks/plan_cache.hpp"
#include "ops/blocks/structure.hpp"

namespace gradus::inline v1 {

// What a move makes of a structure, and how.
struct Moved {
  BlockStructure structure;
  BlockCopies copies;
  size_t bytes() const { return structure.bytes() + copies.bytes(); }
};
using MovedRef = std::shared_ptr<const Moved>;

// Kept by `what` (a literal), the structure and the numbers; `make` runs where it is new.
template <class Make>
MovedRef moves(const char* what, const BlockStructure& s, const Ints& numbers, Make&& make) {
  static auto& known = *new PlanCache<Moved>;
  PlanKey key{int64_t(s.id()), int64_t(reinterpret_cast<uintptr_t>(what))};
  key.append(numbers.data(), numbers.size());
  return known.get(key, std::forward<Make>(make));
}

// +1 or -1: odd legs that cross when the axes `order` are brought into this order.
int crossing_sign(const Legs& legs, const Coordinates& at, const Ints& order);
// Error(value) of `op` for fermions of an odd charge, which have no signs of their own.
void refuse_odd(const char* op, const BlockStructure& s);
// Of bringing odd legs first .. first + n - 1 into the reverse order, and of closing those of this
// arrow: with -1 what turns with a leg of fermions (a fused leg carries it where its arrow is +1,
// so that a contraction over it is the one over its parts); with +1 what einsum does where these
// are the columns of a map and meet the rows of what it is applied to.
int turning_sign(const Legs& legs, const Coordinates& at, size_t first, size_t n, int arrow);

}  // namespace gradus
