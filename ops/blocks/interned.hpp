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
  // make(id): the object of a key that is new, or that nobody holds any more.
  template <class Make>
  std::shared_ptr<const T> get(const InternKey& key, Make&& make) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const T>& known = all_[key];
    if (auto there = known.lock()) return there;
    auto made = std::make_shared<const T>(make(++last_));
    known = made;
    if (all_.size() > limit_) {
      std::erase_if(all_, [](const auto& entry) { return entry.second.expired(); });
      limit_ = 2 * all_.size() + 1024;
    }
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<InternKey, std::weak_ptr<const T>> all_;
  size_t limit_ = 1024;
  uint64_t last_ = 0;
};

}  // namespace gradus
