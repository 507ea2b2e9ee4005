#include "engine/pool.hpp"

#include "engine/error.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

namespace gradus {

namespace {
thread_local const char* op_now = "";

// Steps of 64 B up to 4 KiB, of 512 B up to 1 MiB, of 2 MiB above.
constexpr size_t kTiny = 4 << 10, kTinyStep = 64, kSmall = 1 << 20, kStep = 512;
size_t round_up(size_t bytes) {
  const size_t step = bytes <= kTiny ? kTinyStep : bytes <= kSmall ? kStep : size_t(2) << 20;
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

Pool::Pool(Raw raw, std::string device_name)
    : raw_(raw),
      device_name_(std::move(device_name)),
      tiny_(kTiny / kTinyStep + 1),
      small_(kSmall / kStep + 1) {
  static std::atomic<uint64_t> pools{0};
  next_id_ = (++pools << 48) + 1;
}
Pool::~Pool() { trim(); }

std::vector<void*>& Pool::kept(size_t size) {
  return size <= kTiny    ? tiny_[size / kTinyStep]
         : size <= kSmall ? small_[size / kStep]
                          : large_[size];
}

Pool::Block Pool::allocate(size_t bytes) {
  if (bytes > (size_t(1) << 62)) fail(ErrorKind::memory, current_op(), "impossible size");
  const size_t size = round_up(bytes);
  const std::lock_guard lock(lock_);
  const uint64_t id = next_id_++;
  if (bytes == 0) return {nullptr, id, 0};
  if (limit_ && stats_.live + size > limit_) out_of_memory(size, "the limit");
  void* data = nullptr;
  if (std::vector<void*>& blocks = kept(size); !blocks.empty()) {
    data = blocks.back();
    blocks.pop_back();
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
  if (free_slots_.empty()) {
    free_slots_.push_back(uint32_t(live_.size()));
    live_.emplace_back();
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  live_[slot] = {data, size, current_op()};
  return {data, id, slot};
}

void Pool::release(Block block) {
  if (!block.data) return;
  const std::lock_guard lock(lock_);
  const size_t size = live_[block.slot].bytes;
  live_[block.slot] = {};
  free_slots_.push_back(block.slot);
  stats_.live -= size;
  stats_.cached += size;
  kept(size).push_back(block.data);
}

void Pool::trim() {
  const std::lock_guard lock(lock_);
  trim_locked();
}

void Pool::trim_locked() {
  const auto release = [&](size_t size, std::vector<void*>& blocks) {
    for (void* data : blocks) raw_.release(raw_.device, data);
    stats_.cached -= size * blocks.size();
    blocks.clear();
  };
  for (size_t k = 0; k < tiny_.size(); ++k) release(k * kTinyStep, tiny_[k]);
  for (size_t k = 0; k < small_.size(); ++k) release(k * kStep, small_[k]);
  for (auto& [size, blocks] : large_) release(size, blocks);
}

void Pool::out_of_memory(size_t bytes, const char* why) {
  std::unordered_map<std::string, size_t> by_op;
  for (const Holder& h : live_)
    if (h.data) by_op[*h.op ? h.op : "data"] += h.bytes;
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
  const std::lock_guard lock(lock_);
  limit_ = bytes;
}
size_t Pool::limit() const {
  const std::lock_guard lock(lock_);
  return limit_;
}
PoolStats Pool::stats() const {
  const std::lock_guard lock(lock_);
  return stats_;
}
void Pool::reset_peak() {
  const std::lock_guard lock(lock_);
  stats_.peak = stats_.live;
}

}  // namespace gradus
