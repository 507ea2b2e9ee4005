// Contraction of block-sparse tensors: of two, by a plan that follows from their structures and is
// kept; and einsum of any number, in the order that the least work takes, where work is the sum
// over the pairs of blocks that meet.
#pragma once
#include "ops/blocks/block_copy.hpp"
#include "ops/blocks/block_tensor.hpp"
#include "ops/blocks/grouped.hpp"
#include "ops/contract/equation.hpp"

#include <string_view>

namespace gradus::inline v1 {

// What a contraction of two structures is: blocks copied to matrices where they do not lie as such,
// products, blocks copied back.
struct PairPlan {
  BlockStructure result;
  GroupedProducts products;
  std::optional<BlockCopies> pack_a, pack_b, unpack;  // absent: they are read, written in place
  int64_t pairs = 0;                                  // of blocks that meet
  double flops = 0;
  size_t bytes() const {
    size_t n = result.bytes() + products.bytes();
    for (const auto* c : {&pack_a, &pack_b, &unpack}) n += *c ? (*c)->bytes() : 0;
    return n;
  }
};
// Labels are any integers, one for each leg, all different in one operand; a label of both is
// summed, or stands in the output too where its leg is neutral. Error of `op`: see check_joins; a
// label of one operand alone that the output lacks.
std::shared_ptr<const PairPlan> plan_pair(const char* op, const BlockStructure& a,
                                          const Labels& labels_a, const BlockStructure& b,
                                          const Labels& labels_b, const Labels& out);

// What it gives, and the work of it, without the plan.
BlockStructure pair_result(const char* op, const BlockStructure& a, const Labels& labels_a,
                           const BlockStructure& b, const Labels& labels_b, const Labels& out);
double pair_flops(const char* op, const BlockStructure& a, const Labels& labels_a,
                  const BlockStructure& b, const Labels& labels_b, const Labels& out);

// As contract of dense tensors: labels repeated in an operand are traced, neutral legs of one
// operand alone are summed. The charge of the result is the sum of both.
BlockTensor contract(const BlockTensor& a, const Labels& labels_a, const BlockTensor& b,
                     const Labels& labels_b, const Labels& out);

// An order of pairs, and its work.
struct BlockPath {
  std::vector<std::pair<int, int>> pairs;  // positions in the shrinking list
  double flops = 0, dense_flops = 0;       // of block pairs; of the same order without structure
  int64_t block_pairs = 0;
  size_t bytes() const { return pairs.size() * sizeof(pairs[0]); }
};
// numpy's syntax, without ellipsis; or any integers as labels, one for each leg.
BlockPath plan_block_einsum(std::string_view equation, const std::vector<BlockTensor>& operands);
BlockPath plan_block_einsum(const std::vector<BlockTensor>& operands,
                            const std::vector<Labels>& labels, const Labels& output);
BlockTensor einsum(std::string_view equation, const std::vector<BlockTensor>& operands);
BlockTensor einsum(const std::vector<BlockTensor>& operands, const std::vector<Labels>& labels,
                   const Labels& output);

}  // namespace gradus
