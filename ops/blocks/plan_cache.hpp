// Plans by a key of integers: those used last, up to a number of bytes. Threads: any. And what
// follows from the attributes of one.
#pragma once
#include "engine/op_info.hpp"
#include "ops/blocks/structure.hpp"

#include <array>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace gradus::inline v1 {

using PlanKey = SmallVector<int64_t, 32>;  // two operands with eight legs without a heap

// T says its bytes().
template <class T>
class PlanCache {
 public:
  template <class Make>
  std::shared_ptr<const T> get(const PlanKey& key, Make&& make) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto it = places_.find(key); it != places_.end()) {
        plans_.splice(plans_.begin(), plans_, it->second);
        return it->second->plan;
      }
    }
    auto made = std::make_shared<const T>(make());
    const std::lock_guard lock(mutex_);
    if (const auto it = places_.find(key); it != places_.end()) return it->second->plan;
    plans_.push_front({key, made});
    places_.emplace(key, plans_.begin());
    bytes_ += made->bytes() + kEach;
    while (bytes_ > kMost && plans_.size() > 1) {
      bytes_ -= plans_.back().plan->bytes() + kEach;
      places_.erase(plans_.back().key);
      plans_.pop_back();
    }
    return made;
  }

 private:
  static constexpr size_t kMost = size_t(48) << 20, kEach = 1024;
  struct Hash {
    size_t operator()(const PlanKey& key) const {
      uint64_t h = key.size();
      for (const int64_t x : key) h = (h ^ uint64_t(x)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
      return size_t(h);
    }
  };
  struct Kept {
    PlanKey key;
    std::shared_ptr<const T> plan;
  };
  std::mutex mutex_;
  std::list<Kept> plans_;  // the last one used first
  std::unordered_map<PlanKey, typename std::list<Kept>::iterator, Hash> places_;
  size_t bytes_ = 0;
};

// The structures of a call's result and operands, where it has any.
using Structures = std::array<std::optional<BlockStructure>, 3>;

// Attributes with the structures that they were made for. These are no attributes, since they say
// nothing to a kernel: graphs show them.
class Noted {
 public:
  static SharedAttrs attrs(Attrs attrs, Structures structures) {
    return SharedAttrs(new const Attrs(std::move(attrs)), Noted(std::move(structures)));
  }
  static Structures of(const SharedAttrs& attrs) {
    const Noted* const noted = std::get_deleter<Noted>(attrs);
    return noted ? noted->structures_ : Structures{};
  }
  void operator()(const Attrs* attrs) const { delete attrs; }

 private:
  explicit Noted(Structures s) : structures_(std::move(s)) {}
  Structures structures_;
};

// Attributes of derivatives, made of those that a plan holds and the size of an operand: the 64
// that its thread has used lately, until it ends. Those of one node alone are made each time, since
// nobody asks for them again. One for each kind of derivative.
class DerivedAttrs {
 public:
  template <class Make>
  SharedAttrs get(const SharedAttrs& from, int64_t size, Make&& make) {
    if (from.use_count() == 1) return make(from, size);
    const uint64_t address = reinterpret_cast<uintptr_t>(from.get());
    Kept& at = kept_[address * 0x9e3779b97f4a7c15u >> 58];
    if (at.from != from || at.size != size) at = {from, size, make(from, size)};
    return at.attrs;
  }

 private:
  struct Kept {
    SharedAttrs from;  // held, so that its address is nobody else's
    int64_t size = 0;
    SharedAttrs attrs;
  };
  Kept kept_[64];
};

}  // namespace gradus
