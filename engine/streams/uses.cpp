// The waits between streams that touch one buffer, and where its memory comes from and goes to.
#include "engine/streams/uses.hpp"

#include "engine/device/device.hpp"

#include <algorithm>
#include <memory>

namespace gradus::inline v1 {

namespace {

Stream& real(Stream* s, Device& d) { return s ? *s : Stream::standard(d); }

// Of a buffer that only the default stream knows. It counts as a reader, too: a thread that did not
// see the record yet may be reading there.
BufferUses& uses_of(Buffer& b) {
  BufferUses* found = b.uses.load(std::memory_order_acquire);
  if (found) return *found;
  auto made = std::make_unique<BufferUses>();
  made->readers.push_back(nullptr);
  if (b.uses.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel))
    return *made.release();
  return *found;
}

template <class F>
void each_other(const BufferUses& u, const Stream* s, F&& f) {
  if (u.writer.get() != s) f(u.writer.get());
  for (const Ref<Stream>& r : u.readers)
    if (r.get() != s && !(r == u.writer)) f(r.get());
}

}  // namespace

void in_order(Buffer& b, Stream* s, bool write) {
  if (s && !s->handle() && &s->device() == b.device) s = nullptr;
  if (!s && !b.uses.load(std::memory_order_acquire)) return;
  BufferUses& u = uses_of(b);
  const std::lock_guard lock(u.mutex);
  const auto wait = [&](Stream* other) { real(s, *b.device).wait_for(real(other, *b.device)); };
  const Ref<Stream> self(s);
  if (write) {
    each_other(u, s, wait);
    u.writer = self;
    u.readers = {};
  } else if (!(u.writer == self) &&
             std::find(u.readers.begin(), u.readers.end(), self) == u.readers.end()) {
    wait(u.writer.get());
    u.readers.push_back(self);
  }
}

void in_order(Buffer& b, bool write) { in_order(b, current_stream(*b.device), write); }

Pool::Block block_here(Buffer& b) {
  Device& d = *b.device;
  Pool& pool = d.pool();
  Pool::Block block{};
  const Ref<Stream> s(current_stream(d));
  std::unique_ptr<BufferUses> uses(s ? new BufferUses : nullptr);
  if (s) uses->writer = s;
  if (s && fits([&] { block = s->pool().allocate(b.bytes); })) {
    block.id = pool.allocate(0).id;  // ids rise on a device
    uses->home = s;
  } else {
    if (!fits([&] { block = pool.allocate(b.bytes); })) {
      trim_streams(d);
      block = pool.allocate(b.bytes);
    }
    if (s) wait_in_the_end(*s, Stream::standard(d));
  }
  b.uses = uses.release();
  return block;
}

void wait_in_the_end(Stream& stream, Stream& other) noexcept {
  try {
    stream.wait_for(other);
  } catch (...) {
    other.finish();
  }
}

void end_uses(Buffer& b) {
  const std::unique_ptr<BufferUses> u(b.uses.load());
  Device& d = *b.device;
  if (b.lent) {
    const auto settle = [&](Stream* s) {
      Stream& last = real(s, d);
      if (!u->giver || &last.device() != &d || !last.done_before(*u->giver)) last.finish();
    };
    each_other(*u, nullptr, settle);
    if (!d.host_memory()) settle(nullptr);
    if (u->release) u->release();
    return;
  }
  Stream* const home = u->home.get();
  each_other(*u, home, [&](Stream* s) { wait_in_the_end(real(home, d), real(s, d)); });
  (home ? home->pool() : d.pool()).release(b.block);
}

}  // namespace gradus
