#include "engine/device/pool.hpp"

#include "engine/base/error.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace gradus::inline v1 {

namespace {
thread_local const char* op_now = "";

// Steps of 64 B up to 4 KiB, of 512 B up to 1 MiB, of 2 MiB above.
constexpr size_t kTiny = 4 << 10, kTinyStep = 64, kSmall = 1 << 20, kStep = 512;
// What may be kept beyond a quarter more than was live at once in the last one or two windows of so
// many large allocations, some steps of a large network.
constexpr size_t kSlack = 32 << 20;
constexpr uint64_t kWindow = 1 << 16;

std::string human(size_t bytes) {
  if (bytes < 1024) return join(int64_t(bytes), " B");
  if (bytes < (1u << 20)) return join(int64_t(bytes >> 10), " KiB");
  if (bytes < (size_t(1) << 30)) return join(int64_t(bytes >> 20), " MiB");
  return join(double(int64_t(double(bytes) / (1 << 30) * 10)) / 10, " GiB");
}
}  // namespace

size_t Pool::rounded(size_t bytes) {
  const size_t step = bytes <= kTiny ? kTinyStep : bytes <= kSmall ? kStep : size_t(2) << 20;
  return (bytes + step - 1) & ~(step - 1);
}

const char* current_op() { return op_now; }
CurrentOp::CurrentOp(const char* name) : Scoped(op_now, name) {}

Pool::Pool(Raw raw, std::string device_name)
    : raw_(raw),
      device_name_(std::move(device_name)),
      tiny_(kTiny / kTinyStep + 1),
      small_(kSmall / kStep + 1) {
  static std::atomic<uint64_t> pools{0};
  next_id_ = (++pools << 48) + 1;
}
Pool::~Pool() { give_back(0, true); }

std::vector<void*>& Pool::kept(size_t size) {
  return size <= kTiny ? tiny_[size / kTinyStep] : small_[size / kStep];
}

Pool::Block Pool::allocate(size_t bytes) {
  if (bytes > (size_t(1) << 62)) fail(ErrorKind::memory, current_op(), "impossible size");
  const size_t size = rounded(bytes);
  const std::lock_guard lock(lock_);
  const uint64_t id = next_id_++;
  if (bytes == 0) return {nullptr, id, 0};
  if (limit_ && stats_.live + size > limit_) out_of_memory(size, "the limit");
  void* const data = size <= kSmall ? take_small(size) : take_large(size);
  ++stats_.allocations;
  stats_.cached -= size;
  stats_.live += size;
  stats_.peak = std::max(stats_.peak, stats_.live);
  recent_ = std::max(recent_, stats_.live);
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
  if (size <= kSmall)
    kept(size).push_back(block.data);
  else
    put_large(static_cast<char*>(block.data));
  if (stats_.cached > cache_limit_) give_back(cache_limit_);
}

// ---- what is kept

// How much may be kept beside so many live bytes.
size_t Pool::room(size_t live) const {
  if (cache_limit_ != SIZE_MAX) return cache_limit_;
  const size_t most = std::max({recent_, before_, live, reserved_bytes_});
  return most + most / 4 + kSlack - live;
}

// More memory from the device, kept for now. What is kept beyond the bound goes back first.
void* Pool::raw(size_t size) {
  give_back(room(stats_.live + size));
  if (limit_ && stats_.live + stats_.cached + size > limit_) give_back(0, true);
  void* data = raw_.allocate(raw_.device, size);
  if (!data) {
    give_back(0, true);
    data = raw_.allocate(raw_.device, size);
  }
  if (!data) out_of_memory(size, "the device");
  ++stats_.raw_allocations;
  stats_.cached += size;
  return data;
}

void* Pool::take_small(size_t size) {
  std::vector<void*>& blocks = kept(size);
  if (blocks.empty()) return raw(size);
  void* const data = blocks.back();
  blocks.pop_back();
  return data;
}

Pool::Free::iterator Pool::add_segment(size_t size) {
  auto* const data = static_cast<char*>(raw(size));
  pieces_.emplace(data, Piece{size, data, size, turn_});
  return free_.emplace(size, data).first;
}

void* Pool::take_large(size_t size) {
  if (++turn_ % kWindow == 0) {
    before_ = std::exchange(recent_, stats_.live);
    give_back(room(stats_.live));
  }
  auto fit = free_.lower_bound({size, nullptr});
  if (fit == free_.end()) fit = add_segment(size);
  const auto at = pieces_.find(fit->second);
  free_.erase(fit);
  Piece& piece = at->second;
  if (piece.bytes > size) {
    Piece rest = piece;
    rest.bytes -= size;
    pieces_.emplace(at->first + size, rest);
    free_.emplace(rest.bytes, at->first + size);
    piece.bytes = size;
  }
  piece.free = false;
  return at->first;
}

void Pool::put_large(char* data) {
  auto at = pieces_.find(data);
  at->second.free = true;
  const auto joins = [&](Pieces::iterator it) {
    return it != pieces_.end() && it->second.free && it->second.segment == at->second.segment &&
           free_.erase({it->second.bytes, it->first});
  };
  if (const auto next = std::next(at); joins(next)) {
    at->second.bytes += next->second.bytes;
    pieces_.erase(next);
  }
  if (at != pieces_.begin() && joins(std::prev(at))) {
    std::prev(at)->second.bytes += at->second.bytes;
    at = std::prev(pieces_.erase(at));
  }
  at->second.freed = turn_;
  free_.emplace(at->second.bytes, at->first);
}

// The segment that is free as a whole and was not used for longest.
Pool::Pieces::iterator Pool::oldest(bool reserved_too) {
  auto found = pieces_.end();
  for (const auto& [bytes, data] : free_) {
    const auto at = pieces_.find(data);
    if (bytes == at->second.whole && (reserved_too || data != reserved_) &&
        (found == pieces_.end() || at->second.freed < found->second.freed))
      found = at;
  }
  return found;
}

// Until no more than that is kept. What is left of segments in use has to stay.
void Pool::give_back(size_t allowed, bool reserved_too) {
  while (stats_.cached > allowed) {
    const auto at = oldest(reserved_too);
    if (at == pieces_.end()) break;
    const auto [data, piece] = *at;
    raw_.release(raw_.device, data);
    stats_.cached -= piece.bytes;
    free_.erase({piece.bytes, data});
    pieces_.erase(at);
    if (data == reserved_) reserved_ = nullptr, reserved_bytes_ = 0;
  }
  if (stats_.cached <= allowed) return;
  size_t small = stats_.cached;
  for (const auto& [bytes, data] : free_) small -= bytes;
  if (small <= allowed) return;
  stats_.cached -= small;
  for (auto* lists : {&tiny_, &small_})
    for (std::vector<void*>& blocks : *lists) {
      for (void* data : blocks) raw_.release(raw_.device, data);
      blocks.clear();
    }
}

void Pool::trim() {
  const std::lock_guard lock(lock_);
  give_back(0);
}

void Pool::reserve(size_t bytes) {
  const std::lock_guard lock(lock_);
  if (reserved_ || bytes == 0) return;
  if (bytes > (size_t(1) << 62)) fail(ErrorKind::memory, "memory_initial", "impossible size");
  const auto at = add_segment(rounded(std::max(bytes, kSmall + 1)));
  reserved_bytes_ = at->first;
  reserved_ = at->second;
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
       limit_ && limit_ != SIZE_MAX ? join(" of a limit of ", human(limit_)) : std::string(), text);
}

void Pool::set_limit(size_t bytes) {
  const std::lock_guard lock(lock_);
  limit_ = bytes;
}
void Pool::set_cache_limit(size_t bytes) {
  const std::lock_guard lock(lock_);
  cache_limit_ = bytes;
  give_back(room(stats_.live));
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
