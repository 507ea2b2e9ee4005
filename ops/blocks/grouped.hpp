// grouped_contract: products of blocks of two buffers, summed into blocks of a third, in one call
// (the slot grouped; products one by one where a device lacks it). Its derivatives are such calls
// again, with the roles exchanged.
#pragma once
#include "ops/blocks/plan_cache.hpp"
#include "ops/def/grouped.h"

#include <string_view>

namespace gradus::inline v1 {

// A table of jobs, ready to be called again and again.
class GroupedProducts {
 public:
  // what: "ij,jk->ik", for graphs. Jobs as gd_block_product has them; those of one block of c stand
  // together. covers_a, covers_b: is every element in some job of k > 0 ...? covers_c: is every
  // element of c written? structures: of c, a and b, where the buffers have them.
  GroupedProducts(std::string_view what, int64_t c_size, const std::vector<gd_block_product>& jobs,
                  bool covers_a, bool covers_b, bool covers_c, const Structures& structures = {});
  Tensor operator()(const Tensor& a, const Tensor& b) const;  // buffers of one axis and one dtype
  double flops() const { return flops_; }
  size_t bytes() const { return (*attrs_)[1].integers.size() * sizeof(int64_t); }

 private:
  SharedAttrs attrs_;
  double flops_ = 0;
};

}  // namespace gradus
