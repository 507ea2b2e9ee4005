// Who uses a buffer on which stream. A buffer has this from its first use beside the default
// stream of its device on (and from the start, if it is lent or was made on a stream): it names who
// wrote last and who has read since. Null stands for the default stream of the buffer's device,
// whose work on a host is done when a call returns.
#pragma once
#include "engine/base/error.hpp"
#include "engine/base/small_vector.hpp"
#include "engine/device/storage.hpp"
#include "engine/streams/stream.hpp"

#include <functional>
#include <mutex>
#include <optional>

namespace gradus::inline v1 {

struct BufferUses : RefCounted {  // for its lists of blocks: each array that comes in needs one
  std::mutex mutex{};
  std::function<void()> release{};  // of lent memory
  // The foreign stream on which that memory is used again: it waits, and the host need not.
  std::optional<void*> giver{};
  Ref<Stream> home{};        // from whose pool it is; null: from the device's
  Device* pinned = nullptr;  // whose page-locked memory of the host it is
  Ref<Stream> writer{};
  SmallVector<Ref<Stream>, 2> readers{};
};

// in_order() for that stream, which may be another device's: copies of pinned memory.
void in_order(Buffer& buffer, Stream* stream, bool write);
// stream.wait_for(other) where nothing may be thrown: if it can't, the host waits.
void wait_in_the_end(Stream& stream, Stream& other) noexcept;
// Runs f; false if the memory was not there.
template <class F>
bool fits(F&& f) {
  try {
    f();
    return true;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::memory) throw;
    return false;
  }
}
// What the device's streams keep of its memory goes back to its pool.
void trim_streams(Device& device);

}  // namespace gradus
