#include "engine/pool.hpp"

#include "engine/error.hpp"

#include <algorithm>
#include <atomic>

namespace gradus {

namespace {
thread_local const char* op_now = "";

// 512 B steps below 1 MiB, 2 MiB steps above.
size_t round_up(size_t bytes) {
  const size_t step = bytes <= (size_t(1) << 20) ? 512 : size_t(2) << 20;
  return (bytes + step - 1) / step * step;
}

std::string human(size_t bytes) {
  if (bytes < 1024) return join(int64_t(bytes), " B");
  if (bytes < (1u << 20)) return join(int64_t(bytes >> 10), " KiB");
  if (bytes < (size_t(1) << 30)) return join(int64_t(bytes >> 20), " MiB");
  return join(double(int64_t(double(bytes) / (1 << 30) * 10)) / 10, " GiB");
}
}  // namespace

const char* current_op() { return op_now; }
CurrentOp::CurrentOp(const char* name) : before_(op_now) { op_now = name; }
CurrentOp::~CurrentOp() { op_now = before_; }

Pool::Pool(Raw raw, std::string device_name) : raw_(raw), device_name_(std::move(device_name)) {}
Pool::~Pool() { trim(); }

Pool::Block Pool::allocate(size_t bytes) {
  static std::atomic<uint64_t> next_id{1};
  const uint64_t id = next_id.fetch_add(1, std::memory_order_relaxed);
  if (bytes == 0) return {nullptr, id};
  if (bytes > (size_t(1) << 62)) fail(ErrorKind::memory, current_op(), "impossible size");
  const size_t size = round_up(bytes);
  std::lock_guard lock(mutex_);
  if (limit_ && stats_.live + size > limit_) out_of_memory(size, "the limit");
  void* data = nullptr;
  if (auto it = free_.find(size); it != free_.end() && !it->second.empty()) {
    data = it->second.back();
    it->second.pop_back();
    stats_.cached -= size;
  } else {
    if (limit_ && stats_.live + stats_.cached + size > limit_) trim_locked();
    data = raw_.allocate(raw_.device, size);
    if (!data) {
      trim_locked();
      data = raw_.allocate(raw_.device, size);
    }
    if (!data) out_of_memory(size, "the device");
    ++stats_.raw_allocations;
  }
  ++stats_.allocations;
  stats_.live += size;
  stats_.peak = std::max(stats_.peak, stats_.live);
  live_.emplace(id, Holder{data, size, current_op()});
  return {data, id};
}

void Pool::release(Block block) {
  if (!block.data) return;
  std::lock_guard lock(mutex_);
  const auto it = live_.find(block.id);
  const size_t size = it->second.bytes;
  live_.erase(it);
  stats_.live -= size;
  stats_.cached += size;
  free_[size].push_back(block.data);
}

void Pool::trim() {
  std::lock_guard lock(mutex_);
  trim_locked();
}

void Pool::trim_locked() {
  for (auto& [size, blocks] : free_)
    for (void* data : blocks) {
      raw_.release(raw_.device, data);
      stats_.cached -= size;
    }
  free_.clear();
}

void Pool::out_of_memory(size_t bytes, const char* why) {
  std::unordered_map<std::string, size_t> by_op;
  for (const auto& [id, holder] : live_) by_op[*holder.op ? holder.op : "data"] += holder.bytes;
  std::vector<std::pair<std::string, size_t>> holders(by_op.begin(), by_op.end());
  std::sort(holders.begin(), holders.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::string text;
  for (size_t i = 0; i < holders.size() && i < 3; ++i)
    text += (i ? ", " : "; largest holders: ") + holders[i].first + " " + human(holders[i].second);
  fail(ErrorKind::memory, *current_op() ? current_op() : "allocate", "needs ", human(bytes), " on ",
       device_name_, " but ", why, " leaves no room: ", human(stats_.live), " live",
       limit_ ? join(" of a limit of ", human(limit_)) : std::string(), text);
}

void Pool::set_limit(size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}
size_t Pool::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}
PoolStats Pool::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}
void Pool::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak = stats_.live;
}

}  // namespace gradus
