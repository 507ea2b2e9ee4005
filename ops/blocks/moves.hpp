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

}  // namespace gradus
