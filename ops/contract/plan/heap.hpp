// A queue that gives the least first: a heap of four children to a node, which lie side by side, so
// that a large one takes half the levels, and misses of the cache, of a binary heap.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace gradus::inline v1::plan {

// T has a strict order `<`; of equal ones any comes first.
template <class T>
class Heap {
 public:
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  const T& top() const { return items_.front(); }
  // The top, and behind it those of which one is the next.
  std::span<const T> first() const { return {items_.data(), std::min(kWidth + 1, items_.size())}; }

  void push(T x) {
    size_t at = items_.size();
    items_.push_back(x);
    for (; at > 0; at = (at - 1) / kWidth) {
      T& above = items_[(at - 1) / kWidth];
      if (!(x < above)) break;
      items_[at] = above;
    }
    items_[at] = std::move(x);
  }
  void pop() {
    const T x = std::move(items_.back());
    items_.pop_back();
    if (items_.empty()) return;
    size_t at = 0;
    for (size_t below = 1; below < items_.size(); below = kWidth * at + 1) {
      const size_t end = std::min(below + kWidth, items_.size());
      size_t least = below;
      for (size_t k = below + 1; k < end; ++k)
        if (items_[k] < items_[least]) least = k;
      if (!(items_[least] < x)) break;
      items_[at] = std::move(items_[least]);
      at = least;
    }
    items_[at] = x;
  }

 private:
  static constexpr size_t kWidth = 4;
  std::vector<T> items_;
};

}  // namespace gradus::plan
