#include "engine/storage.hpp"

#include "engine/device.hpp"
#include "engine/error.hpp"

namespace gradus {

namespace {
std::atomic<int64_t> objects{0};
}
int64_t live_objects() { return objects.load(std::memory_order_relaxed); }
RefCounted::RefCounted() { objects.fetch_add(1, std::memory_order_relaxed); }
RefCounted::~RefCounted() { objects.fetch_sub(1, std::memory_order_relaxed); }

Buffer::Buffer(Device& d, size_t n) : device(&d), bytes(n) {
  const Pool::Block block = d.pool().allocate(n);
  data = block.data;
  id = block.id;
  d.announce_allocated(id, n);
}

Buffer::~Buffer() {
  device->announce_released(id, bytes);
  device->pool().release({data, id});
}

void Storage::write(const char* op) {
  if (buffer_->use_count() > 1) {
    Ref<Buffer> own = make_ref<Buffer>(device(), bytes());
    const gd_table& table = device().table();
    gd_error error{};
    if (bytes() && table.copy(device().handle(), nullptr, own->data, buffer_->data, bytes(),
                              GD_ON_DEVICE, &error) != GD_OK)
      fail(ErrorKind::device, op, "could not unshare a copy-on-write buffer: ", error.text);
    buffer_ = std::move(own);
  }
  last_writer_ = op;
  version_.fetch_add(1, std::memory_order_acq_rel);
}

void Storage::replace(Ref<Buffer> buffer, const char* op) {
  buffer_ = std::move(buffer);
  last_writer_ = op;
  version_.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace gradus
