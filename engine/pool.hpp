// The caching pool of one device, written once over the device's raw alloc and free. Sizes are
// rounded to 512 B below 1 MiB and to 2 MiB above; a freed block is kept and given out again for
// the same rounded size. An optional limit bounds live bytes; going over it is an Error(memory)
// that names the largest holders. Threads: all functions may be called from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace gradus {

struct PoolStats {
  size_t live = 0;    // bytes handed out now (rounded sizes)
  size_t cached = 0;  // bytes kept for reuse
  size_t peak = 0;    // highest live since the last reset_peak
  uint64_t allocations = 0, raw_allocations = 0;
};

class Pool {
 public:
  // Raw memory of a device; `allocate` returns nullptr when there is none left.
  struct Raw {
    void* device;
    void* (*allocate)(void* device, size_t bytes);
    void (*release)(void* device, void* data);
  };
  struct Block {
    void* data;
    uint64_t id;
  };
  Pool(Raw raw, std::string device_name);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  Block allocate(size_t bytes);  // 0 bytes give a null block
  void release(Block block);
  void trim();                   // returns all cached blocks to the device
  void set_limit(size_t bytes);  // 0: none
  size_t limit() const;
  PoolStats stats() const;
  void reset_peak();

 private:
  struct Holder {
    void* data;
    size_t bytes;
    const char* op;
  };
  [[noreturn]] void out_of_memory(size_t bytes, const char* why);
  void trim_locked();

  Raw raw_;
  std::string device_name_;
  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;
  std::unordered_map<uint64_t, Holder> live_;
  PoolStats stats_;
  size_t limit_ = 0;
};

// The op on whose behalf this thread allocates now, for the out-of-memory message and the ledger.
const char* current_op();
class CurrentOp {
 public:
  explicit CurrentOp(const char* name);
  ~CurrentOp();

 private:
  const char* before_;
};

}  // namespace gradus
