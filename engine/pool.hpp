// The caching pool of a device. Sizes are rounded to 64 B up to 4 KiB, to 512 B up to 1 MiB and to
// 2 MiB above. A freed block is given out again at once, in the order of the default stream: who
// uses one on another stream has that wait for the default one first, and waits for it before
// release(). An optional limit bounds live bytes; over it comes an Error(memory) that names the
// largest holders. Threads: all functions may be called from any thread.
#pragma once
#include "engine/lock.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
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
    uint64_t id;    // one per allocation, of all pools
    uint32_t slot;  // where the pool keeps what it knows of it
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
  std::vector<void*>& kept(size_t size);

  mutable Lock lock_;
  uint64_t next_id_;
  std::vector<std::vector<void*>> tiny_, small_;  // freed blocks by size / 64, size / 512
  std::map<size_t, std::vector<void*>> large_;    // the others, by size
  std::vector<Holder> live_;                      // by slot; data is null where it is free
  std::vector<uint32_t> free_slots_;
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
