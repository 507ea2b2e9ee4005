// A stream, a place in the device's memory, and an event for each way across.
#include "engine/capture/upload.hpp"

#include "engine/base/error.hpp"
#include "engine/streams/stream.hpp"

namespace gradus::inline v1 {

bool Upload::offered(const Device& device) {
  const gd_table& t = device.table();
  return !device.host_memory() && t.stream_new && t.stream_del && t.stream_sync && t.event_new &&
         t.event_del && t.event_record && t.event_wait;
}

void Upload::check(gd_status status, const gd_error& error) const {
  if (status != GD_OK) fail(ErrorKind::device, "copy", "to ", device_.name(), ": ", error.text);
}

// Given back to the pool, the place is used again in the order of the calls, where the last take()
// stands; only this stream must be waited for.
Upload::~Upload() {
  const gd_table& t = device_.table();
  gd_device* const d = device_.handle();
  gd_error error{};
  if (stream_) t.stream_sync(d, stream_, &error);
  if (there_) t.event_del(d, there_);
  if (taken_) t.event_del(d, taken_);
  if (stream_) t.stream_del(d, stream_);
}

void Upload::reserve(size_t bytes) {
  if (place_.defined() && place_.bytes() >= bytes) return;
  const StreamScope scope(device_);
  const gd_table& t = device_.table();
  gd_device* const d = device_.handle();
  gd_error error{};
  if (!stream_) check(t.stream_new(d, &stream_, &error), error);
  if (!there_) check(t.event_new(d, &there_, &error), error);
  if (!taken_) check(t.event_new(d, &taken_, &error), error);
  check(t.stream_sync(d, stream_, &error), error);
  place_ = Tensor();
  place_ = Tensor::empty({int64_t(bytes)}, DType::u8, device_);
  // Calls that are still to run may use what the pool gave out again.
  check(t.event_record(d, nullptr, taken_, &error), error);
}

void Upload::put(std::span<const Piece> pieces) {
  const gd_table& t = device_.table();
  gd_device* const d = device_.handle();
  gd_error error{};
  check(t.event_wait(d, stream_, taken_, &error), error);
  auto* at = static_cast<char*>(place_.storage().data());
  for (const Piece& p : pieces) {
    check(t.copy(d, stream_, at, p.from, p.bytes, GD_HOST_TO_DEVICE, &error), error);
    at += room(p.bytes);
  }
  check(t.event_record(d, stream_, there_, &error), error);
}

void Upload::take(std::span<const Tensor> to) {
  const StreamScope scope(device_);
  const gd_table& t = device_.table();
  gd_device* const d = device_.handle();
  gd_error error{};
  check(t.event_wait(d, nullptr, there_, &error), error);
  const auto* at = static_cast<const char*>(place_.storage().data());
  for (const Tensor& x : to) {
    x.storage().write("batch");
    // In a recorded step this would be a copy from the host.
    for (KernelWrapper* w : device_.wrappers())
      w->copied_in(x.storage().data(), at, x.bytes(), false);
    check(t.copy(d, nullptr, x.storage().data(), at, x.bytes(), GD_ON_DEVICE, &error), error);
    at += room(x.bytes());
  }
  check(t.event_record(d, nullptr, taken_, &error), error);
}

}  // namespace gradus
