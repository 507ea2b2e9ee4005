// Page-locked memory comes from a pool for each device, since locking costs more than most copies.
#include "engine/streams/pinned.hpp"

#include "engine/kernel_call.hpp"
#include "engine/graph.hpp"
#include "engine/streams/uses.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace gradus::inline v1 {

namespace {

Pool& pinned_pool(Device& gpu) {
  static std::mutex mutex;
  static auto* const pools = new std::map<Device*, std::unique_ptr<Pool>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Pool>& pool = (*pools)[&gpu];
  if (!pool)
    pool =
        std::make_unique<Pool>(Pool::Raw{&gpu,
                                         [](void* self, size_t bytes) -> void* {
                                           auto& d = *static_cast<Device*>(self);
                                           void* out = nullptr;
                                           gd_error error{};
                                           d.table().alloc_pinned(d.handle(), bytes, &out, &error);
                                           return out;
                                         },
                                         [](void* self, void* data) {
                                           auto& d = *static_cast<Device*>(self);
                                           d.table().free_pinned(d.handle(), data);
                                         }},
                               "the host for " + gpu.name());
  return *pool;
}

void* start_of(const Tensor& t) {
  return static_cast<char*>(t.storage().data()) + t.offset() * int64_t(itemsize(t.dtype()));
}

// A copy between pinned memory and that GPU, on the stream of this thread there.
void send(const Tensor& to, const Tensor& from, Device& gpu) {
  const bool out = &from.device() == &gpu;
  Stream* const current = current_stream(gpu);
  Stream& stream = current ? *current : Stream::standard(gpu);
  for (KernelWrapper* w : gpu.wrappers())
    if (out)
      w->unseen("values are read on the host");
    else
      w->copied_in(to.storage().data(), start_of(from), from.bytes(), false);
  in_order(*from.storage().buffer(), &stream, false);
  in_order(*to.storage().buffer(), &stream, true);
  gd_error error{};
  if (gpu.table().copy(gpu.handle(), stream.handle(), start_of(to), start_of(from), from.bytes(),
                       out ? GD_DEVICE_TO_PINNED : GD_PINNED_TO_DEVICE, &error) != GD_OK)
    fail(ErrorKind::device, "copy_async", gpu.name(), ": ", error.text);
}

void refuse_history(const Tensor& t, const char* op) {
  if (grad_enabled() && t.requires_grad())
    fail(ErrorKind::autograd, op, "the copy would have no history; detach() it, or copy under ",
         "no_grad");
}

}  // namespace

Tensor pinned(const Shape& sizes, DType dtype, Device& gpu) {
  Device& cpu = open_device("cpu");
  const gd_table& t = gpu.table();
  if (gpu.host_memory() || !t.alloc_pinned || !t.free_pinned || !t.event_sync)
    return Tensor::empty(sizes, dtype, cpu);
  const size_t bytes = size_t(numel_of(sizes)) * itemsize(dtype);
  streams_used = true;
  Pool& pool = pinned_pool(gpu);
  const Pool::Block block = pool.allocate(bytes);
  Tensor made = Tensor::lend(block.data, bytes, sizes, contiguous_strides(sizes), 0, dtype, cpu,
                             [&pool, block] { pool.release(block); });
  made.storage().buffer()->uses.load()->pinned = &gpu;
  return made;
}

bool is_pinned(const Tensor& t, Device& gpu) {
  const BufferUses* const u = t.storage().buffer()->uses;
  return u && u->pinned == &gpu;
}

void copy_async(const Tensor& to, const Tensor& from) {
  refuse_history(from, "copy_async");
  if (!(to.sizes() == from.sizes()) || to.dtype() != from.dtype())
    fail(ErrorKind::value, "copy_async", "from ", from.dtype(), " ", from.sizes(), " to ",
         to.dtype(), " ", to.sizes(), "; sizes and dtype must be equal");
  refuse_history(to, "copy_async");
  check_writable(to, "copy_async");
  Device &source = from.device(), &target = to.device();
  const bool dense = to.is_contiguous() && from.is_contiguous() && to.numel() > 0;
  if (dense && is_pinned(to, source)) {
    // A new version of the same memory; whom it waits for is the stream's affair, not the host's.
    to.storage().replace(to.storage().buffer(), "copy_async");
    return send(to, from, source);
  }
  to.storage().write("copy_async");
  if (dense && is_pinned(from, target)) return send(to, from, target);
  if (to.numel() == 0) return;
  if (&source == &target) return copy_values(from, to);
  std::vector<char> host(from.bytes());
  from.copy_to_host(host.data());
  const Tensor packed = Tensor::from_host(host.data(), from.sizes(), from.dtype(), target);
  copy_values(packed, to);
}

Tensor to_async(const Tensor& t, Device& to) {
  if (&t.device() == &to) return t;
  refuse_history(t, "to_async");
  const NoGrad off;
  const Tensor made = to.kind() == "cpu" ? pinned(t.sizes(), t.dtype(), t.device())
                                         : Tensor::empty(t.sizes(), t.dtype(), to);
  copy_async(made, t);
  return made;
}

}  // namespace gradus
