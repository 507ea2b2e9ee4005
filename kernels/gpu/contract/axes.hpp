// The axes of a contraction by their roles, and what is copied so that it is a product of matrices.
#pragma once
#include "kernels/gpu/contract/contract.hpp"

#include <vector>

namespace gradus::inline v1::gpu {

// A call's operands over its joint axes: those of out, then those that are summed.
struct Views {
  const gd_view* v[kParts] = {};  // null: left out
  int n = 0;                      // axes of out

  int64_t stride(int part, int d) const {
    return v[part] && (part < kOut || d < n) ? v[part]->strides[d] : 0;
  }
};

inline int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

// Whose strides order the axes of each group, the largest first; kParts: they stay as they stand.
struct Orders {
  Part by[kGroups] = {kA, kB, kParts, kParts};
};
Contraction grouped(const Call&, const Views&, const Orders& = {});

// A contraction of any axes as a product of matrices: operands that do not lie as matrices are
// copied to scratch memory, out is copied back. Which orders of axes need the fewest bytes is tried
// out (Springer and Bientinesi, arXiv 1607.00145, call it TTGT).
class Packing {
 public:
  explicit Packing(const Views&);
  Packing(const Packing&) = delete;

  const Orders& orders() const { return orders_; }
  int64_t bytes() const { return bytes_; }     // that copies move
  size_t scratch() const { return scratch_; }  // bytes of memory that they need
  // The operands as they will lie, of `memory` for those that are copied.
  const Views& views(char* memory);
  void copy_in(const Run&, const Views& given, bool reads_out) const;
  void copy_out(const Run&, const Views& given) const;

 private:
  struct Copy {
    bool made = false;
    size_t bytes = 0;
    gd_view view{};
    int64_t strides[kMaxViewRank] = {};
  };
  void lay_out(const Views&, Part, const std::vector<int> (&groups)[kGroups]);
  void move(const Run&, const Views& given, Part, bool back) const;

  Orders orders_;
  int64_t bytes_ = 0;
  size_t scratch_ = 0;
  Copy copies_[kBias];
  Views packed_;
};

}  // namespace gradus::gpu
