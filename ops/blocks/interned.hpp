// One object for all that is equal: objects by a key of integers, while somebody holds them.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace gradus::inline v1 {

using InternKey = std::vector<int64_t>;

template <class T>
class Interned {
 public:
  // make(id): the object of a key that is new, or that nobody holds any more. Runs unlocked: of two
  // threads that make one at once, the second takes the first's.
  template <class Make>
  std::shared_ptr<const T> get(const InternKey& key, Make&& make) {
    if (auto there = known(key)) return there;
    uint64_t id;
    {
      const std::lock_guard lock(mutex_);
      id = ++last_;
    }
    auto made = std::make_shared<const T>(make(id));
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const T>& place = all_[key];
    if (auto there = place.lock()) return there;
    place = made;
    if (all_.size() > limit_) {
      std::erase_if(all_, [](const auto& entry) { return entry.second.expired(); });
      limit_ = 2 * all_.size() + 1024;
    }
    return made;
  }

 private:
  std::shared_ptr<const T> known(const InternKey& key) {
    const std::lock_guard lock(mutex_);
    const auto it = all_.find(key);
    return it == all_.end() ? nullptr : it->second.lock();
  }
  std::mutex mutex_;
  std::map<InternKey, std::weak_ptr<const T>> all_;
  size_t limit_ = 1024;
  uint64_t last_ = 0;
};

}  // namespace gradus
