// Searches for a contraction order over a network of label sets. Labels are dense numbers here;
// what they stand for, and how a step is carried out, is none of this file's business.
#pragma once
#include "ops/contract/equation.hpp"

#include <utility>
#include <vector>

namespace gradus::inline v1 {

struct Network {
  std::vector<Labels> tensors;  // sorted, distinct
  std::vector<bool> is_output;  // per label
  std::vector<double> extent;   // per label
};

// Pairs in SSA form: tensors are 0..n-1, the result of pair i is n + i.
using SsaPath = std::vector<std::pair<int, int>>;

// opt_einsum's greedy rule: tensors of equal labels first, then always the pair for which
// size(result) - size(a) - size(b) is least, and at the end outer products, small ones first. Ties
// go to the lower numbers.
SsaPath greedy_order(const Network& network);

// Least flops over all orders, outer products included; among those the least sum of intermediate
// sizes. Dynamic programming over subsets: 3^n steps.
SsaPath optimal_order(const Network& network);

SsaPath left_order(size_t tensors);

}  // namespace gradus
