// Streams of a device, events in them, and which stream this thread's calls go to. What one stream
// made may be used in any other, and on the host: the waits come by themselves (uses.hpp). On a
// device without streams (cpu, reference) work is done when a call returns, and all of this is
// valid and does nothing. Threads: a stream may be used from several at once; what they share they
// must order themselves, as without streams. Errors: Error(device) where the device refuses.
#pragma once
#include "engine/base/ref.hpp"
#include "engine/device/device.hpp"

#include <atomic>
#include <string>
#include <unordered_map>

namespace gradus::inline v1 {

class Event;

class Stream : public RefCounted {
 public:
  static Ref<Stream> make(Device& device);
  ~Stream();  // waits for its work; memory made on it keeps it alive
  Device& device() const { return device_; }
  // The host waits for all that was told to it. Error(device), too, for what its calls found wrong.
  void synchronize();
  // What it is told from now on waits for the event, which may be another device's (then the host
  // waits). Nothing if that was never recorded.
  void wait(const Event& event);

  // For engine/streams. The device's default stream as an object; it lives for ever.
  static Stream& standard(Device& device);
  gd_stream* handle() const { return handle_; }  // null: the default stream
  Pool& pool() { return pool_; }                 // of what is made on it
  void wait_for(Stream& other);                  // for all that the other was told so far
  void finish();                                 // the host waits, without asking what went wrong
  // What a foreign stream is told from now on comes after this one's work. False: it could not be.
  bool done_before(void* foreign) noexcept;
  Stream(Device& device, gd_stream* handle);

 private:
  static void* take(void* stream, size_t bytes);
  static void give(void* stream, void* data);
  Device& device_;
  gd_stream* handle_;
  Stream* standard_;
  gd_event* mark_ = nullptr;  // recorded anew whenever somebody waits for this stream
  std::unordered_map<void*, Pool::Block> taken_{};  // from the device's pool, by the lock of pool_
  Pool pool_;
};

class Event : public RefCounted {
 public:
  static Ref<Event> make(Device& device);
  ~Event();
  // Stands for all that the stream (null: the default one) was told so far; may be recorded again.
  // Error(value) for another device's stream.
  void record(Stream* stream);
  bool done() const;         // also if never recorded
  void synchronize() const;  // the host waits

  explicit Event(Device& device) : device_(device) {}

 private:
  friend class Stream;
  Device& device_;
  gd_event* handle_ = nullptr;  // null where the device has none
  std::atomic<bool> recorded_ = false;
};

// The stream of this thread's calls on that device; null: the default one.
Stream* current_stream(Device& device);
// Error(value) for another device's stream. It is kept alive until the next one is set.
void set_current_stream(Device& device, Stream* stream);

// Order with another library's work on the same GPU, kept by the device; the host goes on. A
// foreign stream is the vendor's handle (cudaStream_t, hipStream_t); null is the vendor's default
// one. What this thread's stream is told from now on comes after all that the foreign one was told.
void wait_for_foreign(Device& device, void* foreign);
void foreign_waits(Device& device, void* foreign);  // the other way round

// This thread's calls on the stream's device go to it, until the end of the scope. They nest.
struct StreamScope {
  explicit StreamScope(Stream& stream) : StreamScope(stream.device(), &stream) {}
  explicit StreamScope(Device& device) : StreamScope(device, nullptr) {}  // the default stream
  ~StreamScope() { set_current_stream(device_, before_.get()); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  StreamScope(Device& device, Stream* stream) : device_(device), before_(current_stream(device)) {
    set_current_stream(device, stream);
  }
  Device& device_;
  Ref<Stream> before_;
};

}  // namespace gradus
