// Plans by a key of integers, the last few thousand. Threads: any.
#pragma once
#include "engine/base/small_vector.hpp"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace gradus::inline v1 {

using PlanKey = SmallVector<int64_t, 24>;

template <class T>
class PlanCache {
 public:
  template <class Make>
  std::shared_ptr<const T> get(const PlanKey& key, Make&& make) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto it = known_.find(key); it != known_.end()) return it->second;
    }
    auto made = std::make_shared<const T>(make());
    const std::lock_guard lock(mutex_);
    if (known_.size() >= kMost) known_.clear();
    return known_.emplace(key, std::move(made)).first->second;
  }

 private:
  static constexpr size_t kMost = 4096;
  struct Hash {
    size_t operator()(const PlanKey& key) const {
      uint64_t h = key.size();
      for (const int64_t x : key) h = (h ^ uint64_t(x)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
      return size_t(h);
    }
  };
  std::mutex mutex_;
  std::unordered_map<PlanKey, std::shared_ptr<const T>, Hash> known_;
};

}  // namespace gradus
