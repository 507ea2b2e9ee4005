// block_copy: strided blocks of one buffer to another in one call, the op behind all that moves
// blocks about: permute, fuse, split, slice, to_dense, from_dense, trace. Linear; its derivative is
// the list the other way round. Runs in the slot grouped, or as copies where a device lacks it.
#pragma once
#include "ops/blocks/plan_cache.hpp"

#include <string_view>

namespace gradus::inline v1 {

// y[to + i * to_strides] = sign * x[from + i * from_strides] for all i below sizes. sign 0: zeros.
struct StridedBlock {
  int64_t sign = 1, from = 0, to = 0;
  Shape sizes, from_strides, to_strides;
};

// How a list covers the elements of a buffer.
enum class Covers : int64_t {
  all,     // each of them once
  some,    // some of them, once; the others of a result are 0
  several  // some of them more than once: a result is their sum
};

// A list, ready to be called again and again.
class BlockCopies {
 public:
  // One of the two buffers: its elements, and the structure that they have, if any.
  struct Side {
    Side(const BlockStructure& s, Covers c) : size(s.elements()), covers(c), structure(s) {}
    Side(int64_t n, Covers c) : size(n), covers(c) {}
    int64_t size;
    Covers covers;
    std::optional<BlockStructure> structure{};
  };
  // what: "permute", for graphs and texts. All blocks have one rank.
  BlockCopies(std::string_view what, const std::vector<StridedBlock>& blocks, const Side& from,
              const Side& to);
  Tensor operator()(const Tensor& x) const;  // x, y: one axis
  Tensor transposed(const Tensor& y) const;  // the list the other way round
  size_t bytes() const { return (*attrs_)[1].integers.size() * sizeof(int64_t); }

 private:
  int64_t from_size_;
  SharedAttrs attrs_;
};

}  // namespace gradus
