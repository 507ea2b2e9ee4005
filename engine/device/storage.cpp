#include "engine/device/storage.hpp"

#include "engine/device/device.hpp"
#include "engine/device/observer.hpp"
#include "engine/base/error.hpp"

namespace gradus::inline v1 {

Buffer::Buffer(Device& d, size_t n)
    : device(&d), bytes(n), block(streams_used ? block_here(*this) : d.pool().allocate(n)) {
  d.announce_allocated(block.id, n);
}

Buffer::~Buffer() {
  device->announce_released(block.id, bytes);
  uses ? end_uses(*this) : device->pool().release(block);
}

void Storage::announce_used() {
  for (KernelWrapper* w : device().wrappers()) w->used(*this);
}

void Storage::write(const char* op) {
  announce_used();
  const bool shared = buffer_->use_count() > 1;
  if (streams_used) in_order(*buffer_, !shared);
  if (shared) {
    Ref<Buffer> own = make_ref<Buffer>(device(), bytes());
    const auto n = int64_t(bytes()), step = int64_t(1);
    const gd_view from{buffer_->block.id, buffer_->block.data, GD_U8, 1, 0, &n, &step};
    const gd_view to{own->block.id, own->block.data, GD_U8, 1, 0, &n, &step};
    if (n > 0)
      device().run({sizeof(gd_call), GD_COPY, 0, 1, 1, 0, 0, &from, &to, {}, {}, {}, {}, 0, {}});
    buffer_ = std::move(own);
  }
  last_writer_ = op;
  version_.fetch_add(1, std::memory_order_acq_rel);
  if (observer) observer->written(*this, op);
}

void Storage::replace(Ref<Buffer> buffer, const char* op) {
  announce_used();
  buffer_ = std::move(buffer);
  last_writer_ = op;
  version_.fetch_add(1, std::memory_order_acq_rel);
  if (observer) observer->written(*this, op);
}

}  // namespace gradus
