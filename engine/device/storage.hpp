// Storage: the memory that tensors and their views share, with the version counter that autograd
// checks. A storage owns a handle on a Buffer (bytes from a device's pool); two storages may share
// one buffer until the first write (copy on write). All writes go through Storage::write.
#pragma once
#include "engine/device/pool.hpp"
#include "engine/base/ref.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace gradus::inline v1 {

class Device;

// Bytes of one allocation. Returns itself to its pool.
struct Buffer : RefCounted {
  Buffer(Device& device, size_t bytes);  // from a pool of the device; throws Error(memory)
  // Memory that somebody else owns and no pool counts (engine/streams/lent.cpp). `release` must not
  // throw; it is called once, by the thread that drops the last handle, after all work on it: where
  // the memory is not the host's, that thread waits for the device first.
  Buffer(Device& device, void* data, size_t bytes, std::function<void()> release);
  ~Buffer();
  const bool lent = false;
  // Others may read and write this memory (it is lent, or was given to them): writes in place go to
  // it, and copies are copies. Set by who gives it away, once nothing shares it.
  std::atomic<bool> shown{lent};
  Device* device;
  size_t bytes;
  std::atomic<struct BufferUses*> uses{nullptr};  // null: the pool's, and the default stream's
  Pool::Block block;
};
// REQUIRED before work of this thread touches it, if streams_used: this thread's stream, or the
// host, waits for the streams that use it (engine/streams).
void in_order(Buffer& buffer, bool write);
Pool::Block block_here(Buffer& buffer);  // for a new one, from the pool of this thread's stream
void end_uses(Buffer& buffer);           // gives back what has `uses`

class Storage : public RefCounted {
 public:
  explicit Storage(Ref<Buffer> buffer) : buffer_(std::move(buffer)) {}
  Device& device() const { return *buffer_->device; }
  void* data() const { return buffer_->block.data; }
  size_t bytes() const { return buffer_->bytes; }
  uint64_t buffer_id() const { return buffer_->block.id; }
  const Ref<Buffer>& buffer() const { return buffer_; }
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // The op that wrote last, for messages; "" if none did.
  const char* last_writer() const { return last_writer_; }
  // Call before every write: makes the buffer this storage's own and bumps the version.
  void write(const char* op);
  void announce_used();  // to the wrappers: it is about to be touched
  // The same for a whole new content: takes that buffer (shared until the next write).
  void replace(Ref<Buffer> buffer, const char* op);

 private:
  Ref<Buffer> buffer_;
  std::atomic<uint64_t> version_{0};
  const char* last_writer_ = "";
};

}  // namespace gradus
