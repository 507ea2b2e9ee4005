// Device: a kernel table that was opened, with its pool and the wrappers around its calls. Devices
// are made once and live for ever. Device kinds are strings that tables bring with them: the engine
// names no vendor. Threads: the registry and run() may be used from any thread.
#pragma once
#include "engine/abi/kernel_table.h"
#include "engine/device/pool.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradus::inline v1 {

class Device;
class Storage;

// Whether anything was ever made that works beside the default streams (engine/streams).
inline std::atomic<bool> streams_used{false};

// Called in place of every kernel that its thread calls on a device, and passes the call on with
// next(). Wrappers nest: the one pushed last is called first. It sees nothing of other threads.
class KernelWrapper {
 public:
  virtual ~KernelWrapper() = default;
  struct Next {
    Device& device;
    const gd_call& call;
    size_t depth;
    gd_status operator()(gd_error& error) const { return (*this)(call, error); }
    gd_status operator()(const gd_call& other, gd_error& error) const;
  };
  virtual gd_status call(const gd_call& call, Next next, gd_error& error) = 0;
  // Announced for each buffer of the device, before its first and after its last use.
  virtual void allocated(uint64_t /*buffer*/, size_t /*bytes*/, const char* /*op*/) {}
  virtual void released(uint64_t /*buffer*/, size_t /*bytes*/) {}
  // Memory about to be touched by a call or a write; or shared, by a clone.
  virtual void used(Storage&) {}
  virtual void cloned(Storage& /*from*/, Storage& /*copy*/) {}
  // Numbers that come from the host. `constant`: a function of shapes and attributes alone.
  virtual void copied_in(void* /*to*/, const void*, size_t /*bytes*/, bool /*constant*/) {}
  virtual void unseen(const char* /*what*/) {}  // values were used otherwise than by a call
};

// Sets the op of a call where the device can do the same in several ways (gd_way).
class WayChooser {
 public:
  virtual ~WayChooser() = default;
  virtual void choose(gd_call& call) = 0;
};

class Device {
 public:
  const std::string& name() const { return name_; }  // "cpu", "cuda:1"
  const std::string& kind() const { return kind_; }
  int index() const { return index_; }
  const gd_table& table() const { return *table_; }
  gd_device* handle() const { return handle_; }
  Pool& pool() { return pool_; }
  // The table of an older module ends before slots that came later.
  bool offers(gd_slot slot) const {
    return table_->struct_size >=
               offsetof(gd_table, slot) + (slot + 1u) * sizeof(gd_table::slot[0]) &&
           table_->slot[slot];
  }
  bool host_memory() const { return host_memory_; }  // the CPU can follow its pointers
  // What its options asked for and it does not have, as a text; "" if it has all.
  const std::string& lacks() const { return lacks_; }
  gd_info info() const;

  // Runs one call through the wrappers. Throws Error: unsupported -> dtype, the rest by status.
  void run(const gd_call& call);
  // Past the wrappers. If the call lacks scratch memory it has what it wants from the pool, for as
  // long as it takes; if the device lacks memory, what the pool keeps goes first. Throws
  // Error(memory).
  gd_status call_slot(const gd_call& call, gd_error& error);
  // The vendors' libraries it contracts with, a line each; "" if it knows of none. Opens them.
  std::string libraries();
  // Host memory in and out, and waiting: for what was told to this thread's stream here.
  void copy_in(void* to, const void* from, size_t bytes, bool constant = false);
  void copy_out(void* to, const void* from, size_t bytes);
  void synchronize();
  // That stream, with the pool of its memory: the default one, but for engine/streams.
  struct Lane {
    gd_stream* stream;
    Pool* pool;
  };
  Lane lane() { return streams_used ? lane_here() : Lane{nullptr, &pool_}; }

  // Around this thread's calls, from push to pop, both of which it makes itself.
  void push(KernelWrapper* wrapper);
  void pop(KernelWrapper* wrapper);
  void announce_allocated(uint64_t buffer, size_t bytes);
  void announce_released(uint64_t buffer, size_t bytes);
  std::span<KernelWrapper* const> wrappers() const {
    return here ? wrappers_here() : std::span<KernelWrapper* const>();
  }
  // Asked before the wrappers see a call; nullptr: nobody. While no other thread runs calls.
  void set_chooser(WayChooser* chooser) { chooser_ = chooser; }
  WayChooser* chooser() const { return chooser_; }

  Device(const gd_table* table, int index, gd_device* handle, std::string name,
         std::string lacks = "");

 private:
  friend struct KernelWrapper::Next;
  // This thread's wrappers, by device; null while it has none.
  static inline constinit thread_local std::map<const Device*, std::vector<KernelWrapper*>>* here =
      nullptr;
  std::span<KernelWrapper* const> wrappers_here() const;
  Lane lane_here();
  std::string name_, kind_;
  int index_;
  const gd_table* table_;
  gd_device* handle_;
  bool host_memory_;
  Pool pool_;
  WayChooser* chooser_ = nullptr;
  std::string lacks_;
};

// Pushes a wrapper for the length of a scope.
class WrapperScope {
 public:
  WrapperScope(Device& device, KernelWrapper& wrapper) : device_(device), wrapper_(wrapper) {
    device_.push(&wrapper_);
  }
  ~WrapperScope() { device_.pop(&wrapper_); }
  WrapperScope(const WrapperScope&) = delete;
  WrapperScope& operator=(const WrapperScope&) = delete;

 private:
  Device& device_;
  KernelWrapper& wrapper_;
};

// Makes a table known under its kind. Checks magic, version, size and the statements' hash; throws
// Error(device) whose message shows both sides. `source` is the file or "built in".
void register_table(const gd_table* table, const std::string& source);
// What every table must agree with; set once by ops/ at start-up.
struct StatementSide {
  uint64_t hash;
  int32_t count;
  const char* (*text)(int32_t id);
};
void set_statements(const StatementSide& side);

struct KnownKind {
  std::string kind, source, build;
  int score;            // below 0: opened only where it is named
  int devices;          // how many there are
  std::string missing;  // why there are none
};
std::vector<KnownKind> known_kinds();
std::vector<Device*> open_devices();

// Opens (once) and returns "cpu", "cuda", "cuda:1", ... `options` is the JSON text for the table's
// open(); it counts at the first opening of a device only. A table's open() that is GD_OK may leave
// in the error's text what the device does without. Throws Error(device).
Device& open_device(std::string_view name, const std::string& options = "{}");
// The best kind with a device, by score.
Device& open_best_device(const std::string& options = "{}");

// The device for new tensors: this thread's DeviceScope, else the one set for all threads, else the
// best one.
Device& default_device();
void set_default_device(Device& device);
struct DeviceScope : Scoped<Device*> {
  explicit DeviceScope(Device& device);
};

}  // namespace gradus
