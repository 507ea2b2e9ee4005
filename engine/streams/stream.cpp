// Streams and events over the device's table, and this thread's current streams.
#include "engine/streams/stream.hpp"

#include "engine/base/error.hpp"
#include "engine/streams/uses.hpp"

#include <map>
#include <mutex>

namespace gradus::inline v1 {

namespace {

bool has_streams(const Device& d) {
  const gd_table& t = d.table();
  return !d.host_memory() && t.stream_new && t.stream_del && t.stream_sync && t.event_new &&
         t.event_del && t.event_record && t.event_wait && t.event_query && t.event_sync;
}

// A function of the device's table, or an Error. `what` is what is asked of the device.
template <class F, class... A>
gd_status ask(Device& d, const char* what, F function, A... args) {
  gd_error error{};
  const gd_status status = function(d.handle(), args..., &error);
  if (status != GD_OK && status != GD_NOT_READY)
    fail(ErrorKind::device, what, d.name(), ": ", error.text);
  return status;
}

struct Streams {
  std::mutex mutex;
  std::map<Device*, Ref<Stream>> standard;
  std::map<Device*, gd_event*> crossing;  // between ours and others', by the lock
  std::vector<Stream*> others;
};
Streams& streams() {
  static Streams* s = new Streams;  // tensors may outlive main()
  return *s;
}

// This thread's, but for default ones.
thread_local std::vector<Ref<Stream>> current;

}  // namespace

Stream::Stream(Device& device, gd_stream* handle)
    : device_(device),
      handle_(handle),
      standard_(handle ? &standard(device) : this),
      pool_({this, take, give}, device.name() + "'s stream") {
  if (has_streams(device)) ask(device, "stream", device.table().event_new, &mark_);
}

Ref<Stream> Stream::make(Device& device) {
  streams_used = true;
  if (!has_streams(device)) return make_ref<Stream>(device, nullptr);
  gd_stream* handle = nullptr;
  ask(device, "stream", device.table().stream_new, &handle);
  Ref<Stream> made = make_ref<Stream>(device, handle);
  const std::lock_guard lock(streams().mutex);
  streams().others.push_back(made.get());
  return made;
}

Stream& Stream::standard(Device& device) {
  const std::lock_guard lock(streams().mutex);
  Ref<Stream>& s = streams().standard[&device];
  if (!s) s = make_ref<Stream>(device, nullptr);
  return *s;
}

Stream::~Stream() {
  {
    const std::lock_guard lock(streams().mutex);
    std::erase(streams().others, this);
  }
  const gd_table& t = device_.table();
  finish();
  pool_.trim();
  if (handle_) t.stream_del(device_.handle(), handle_);
  if (mark_) t.event_del(device_.handle(), mark_);
}

void Stream::synchronize() {
  const gd_table& t = device_.table();
  if (t.stream_sync) ask(device_, "synchronize", t.stream_sync, handle_);
}

void Stream::finish() {
  if (!mark_) return;
  const gd_table& t = device_.table();
  gd_error error{};  // a device that was lost does nothing any more
  if (t.event_record(device_.handle(), handle_, mark_, &error) == GD_OK)
    t.event_sync(device_.handle(), mark_, &error);
}

// Another thread may record the mark again in between: then this waits for a little more.
void Stream::wait_for(Stream& other) {
  if (!other.mark_ || &other == this) return;
  if (!mark_ || &other.device_ != &device_) return other.synchronize();
  const gd_table& t = device_.table();
  ask(device_, "stream", t.event_record, other.handle_, other.mark_);
  ask(device_, "stream", t.event_wait, handle_, other.mark_);
}

void Stream::wait(const Event& event) {
  if (!event.recorded_) return;
  if (!mark_ || &event.device_ != &device_) return event.synchronize();
  ask(device_, "stream", device_.table().event_wait, handle_, event.handle_);
}

// ---- its memory: what is fresh from the device's pool was used last in the default stream's
// order, and goes back in that order.

void* Stream::take(void* self, size_t bytes) {
  auto& s = *static_cast<Stream*>(self);
  Pool::Block block{};
  if (!fits([&] { block = s.device_.pool().allocate(bytes); })) return nullptr;
  s.taken_[block.data] = block;
  wait_in_the_end(s, *s.standard_);
  return block.data;
}
void Stream::give(void* self, void* data) {
  auto& s = *static_cast<Stream*>(self);
  wait_in_the_end(*s.standard_, s);
  s.device_.pool().release(s.taken_.extract(data).mapped());
}

void trim_streams(Device& device) {
  const std::lock_guard lock(streams().mutex);
  for (Stream* s : streams().others)
    if (&s->device() == &device) s->pool().trim();
}

// ---- events

Ref<Event> Event::make(Device& device) {
  Ref<Event> made = make_ref<Event>(device);
  if (has_streams(device)) ask(device, "event", device.table().event_new, &made->handle_);
  return made;
}
Event::~Event() {
  if (handle_) device_.table().event_del(device_.handle(), handle_);
}
void Event::record(Stream* stream) {
  if (stream && &stream->device() != &device_)
    fail(ErrorKind::value, "event", "it is of ", device_.name(), ", the stream of ",
         stream->device().name());
  if (!handle_) return;
  ask(device_, "event", device_.table().event_record, stream ? stream->handle() : nullptr, handle_);
  recorded_ = true;
}
bool Event::done() const {
  return !recorded_ || ask(device_, "event", device_.table().event_query, handle_) == GD_OK;
}
void Event::synchronize() const {
  if (recorded_) ask(device_, "event", device_.table().event_sync, handle_);
}

// ---- this thread's streams

Stream* current_stream(Device& device) {
  for (const Ref<Stream>& s : current)
    if (&s->device() == &device) return s.get();
  return nullptr;
}

void set_current_stream(Device& device, Stream* stream) {
  if (stream && &stream->device() != &device)
    fail(ErrorKind::value, "stream", "it is of ", stream->device().name(), ", not of ",
         device.name());
  const Ref<Stream> next(stream && stream->handle() ? stream : nullptr);
  std::erase_if(current, [&](const Ref<Stream>& s) { return &s->device() == &device; });
  if (next) current.push_back(next);
}

// ---- other libraries' streams

namespace {

void in_turn(Device& d, gd_stream* first, gd_stream* then) {
  const gd_table& t = d.table();
  const std::lock_guard lock(streams().mutex);
  gd_event*& event = streams().crossing[&d];
  if (!event) ask(d, "stream", t.event_new, &event);
  ask(d, "stream", t.event_record, first, event);
  ask(d, "stream", t.event_wait, then, event);
}
gd_stream* handle_of(void* foreign) {
  return foreign ? static_cast<gd_stream*>(foreign) : GD_VENDORS_STREAM;
}

}  // namespace

void wait_for_foreign(Device& d, void* foreign) {
  if (has_streams(d)) in_turn(d, handle_of(foreign), d.lane().stream);
}
void foreign_waits(Device& d, void* foreign) {
  if (has_streams(d)) in_turn(d, d.lane().stream, handle_of(foreign));
}

bool Stream::done_before(void* foreign) noexcept {
  try {
    if (mark_) in_turn(device_, handle_, handle_of(foreign));
    return true;
  } catch (...) {  // the device is lost, or that stream
    return false;
  }
}

Device::Lane Device::lane_here() {
  Stream* const s = current_stream(*this);
  return s ? Lane{s->handle(), &s->pool()} : Lane{nullptr, &pool_};
}

}  // namespace gradus
