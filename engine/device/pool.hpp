// The caching pool of a device. Sizes are rounded to 64 B up to 4 KiB, to 512 B up to 1 MiB and to
// 2 MiB above. A freed block is given out again at once, in the order of the default stream: who
// uses one on another stream has that wait for the default one first, and waits for it before
// release(). Blocks up to 1 MiB are used again for their own size. Larger ones are cut from
// segments, one raw allocation each: a request takes the smallest free piece that holds it, what is
// over stays free, and free neighbours become one. What is freed is kept up to a bound, by default
// so much that the pool holds a quarter more than was live at once lately; beyond it segments that
// are free as a whole go back to the device, the one unused for longest first, then small blocks.
// An optional limit bounds live bytes; over it comes an Error(memory) that names the largest
// holders. Threads: all functions may be called from any thread.
#pragma once
#include "engine/base/lock.hpp"
#include "engine/base/scoped.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gradus::inline v1 {

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
    uint64_t id;    // one per allocation, of all pools; they rise
    uint32_t slot;  // where the pool keeps what it knows of it
  };
  Pool(Raw raw, std::string device_name);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  static size_t rounded(size_t bytes);  // what a block of so many bytes takes
  Block allocate(size_t bytes);         // 0 bytes give a null block
  void release(Block block);
  void trim();                         // returns cached memory to the device, but for reserve()'s
  void set_limit(size_t bytes);        // 0: none
  void set_cache_limit(size_t bytes);  // of what is kept; SIZE_MAX: by what was live lately
  void reserve(size_t bytes);          // a segment that stays; once. Throws Error(memory)
  size_t limit() const;
  PoolStats stats() const;
  void reset_peak();

 private:
  struct Holder {
    void* data;
    size_t bytes;
    const char* op;
  };
  struct Piece {  // of a segment
    size_t bytes;
    char* segment;   // where that begins, ...
    size_t whole;    // ... and its bytes
    uint64_t freed;  // when: large allocations before it
    bool free = true;
  };
  using Pieces = std::map<char*, Piece>;            // by address
  using Free = std::set<std::pair<size_t, char*>>;  // those that are, by size
  std::vector<void*>& kept(size_t size);
  void* raw(size_t size);
  void* take_small(size_t size);
  void* take_large(size_t size);
  void put_large(char* data);
  Free::iterator add_segment(size_t size);
  size_t room(size_t live) const;
  Pieces::iterator oldest(bool reserved_too);
  void give_back(size_t allowed, bool reserved_too = false);
  [[noreturn]] void out_of_memory(size_t bytes, const char* why);

  Raw raw_;
  std::string device_name_;
  mutable Lock lock_;
  uint64_t next_id_;
  std::vector<std::vector<void*>> tiny_, small_;  // freed blocks by size / 64, size / 512
  Pieces pieces_;
  Free free_;
  char* reserved_ = nullptr;  // the segment that stays
  size_t reserved_bytes_ = 0;
  uint64_t turn_ = 0;               // large allocations so far
  size_t recent_ = 0, before_ = 0;  // highest live in this window of turns, and in the last
  std::vector<Holder> live_;        // by slot; data is null where it is free
  std::vector<uint32_t> free_slots_;
  PoolStats stats_;
  size_t limit_ = 0, cache_limit_ = SIZE_MAX;
};

// The op on whose behalf this thread allocates now, for the out-of-memory message and the ledger.
const char* current_op();
struct CurrentOp : Scoped<const char*> {
  explicit CurrentOp(const char* name);
};

}  // namespace gradus
