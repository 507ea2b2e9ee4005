// Memory that somebody else owns.
#include "engine/base/error.hpp"
#include "engine/batch.hpp"
#include "engine/modes.hpp"
#include "engine/streams/uses.hpp"
#include "engine/tensor.hpp"

#include <algorithm>

namespace gradus::inline v1 {

Buffer::Buffer(Device& d, void* data, size_t n, std::function<void()> release)
    : lent(true), device(&d), bytes(n), block{data, d.pool().allocate(0).id, 0} {
  uses = new BufferUses;
  d.announce_allocated(block.id, n);
  // A recorded step would take it for memory that holds nothing yet.
  for (KernelWrapper* w : d.wrappers()) w->unseen("memory from outside is lent");
  uses.load()->release = std::move(release);  // from here on nothing is thrown
}

Tensor Tensor::lend(void* data, size_t bytes, const Shape& sizes, const Shape& strides,
                    int64_t offset, DType dtype, Device& device, std::function<void()> release) {
  const int64_t n = numel_of(sizes);
  if (strides.size() != sizes.size())
    fail(ErrorKind::value, "lend", "the sizes ", sizes, " need as many strides, got ", strides);
  if (int32_t(dtype) < 0 || itemsize(dtype) == 0) fail(ErrorKind::value, "lend", "no such dtype");
  if (!data && bytes > 0) fail(ErrorKind::value, "lend", "the data is null");
  // A complex number of the host is aligned as its parts.
  const size_t item = itemsize(dtype);
  const size_t part = is_complex(dtype) && device.host_memory() ? item / 2 : item;
  const size_t align = std::min(part & -part, size_t(16));
  if (reinterpret_cast<uintptr_t>(data) % align != 0)
    fail(ErrorKind::value, "lend", "data of ", dtype, " must be aligned to ", int64_t(align),
         " bytes");
  // The first and the last element that any index reaches.
  int64_t low = offset, high = offset, way = 0;
  bool outside = false;
  for (size_t i = 0; i < sizes.size() && n > 0; ++i) {
    outside |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &way);
    int64_t& end = way < 0 ? low : high;
    outside |= __builtin_add_overflow(end, way, &end);
  }
  const auto elements = int64_t(std::min(bytes / item, size_t(INT64_MAX)));
  outside |= low < 0 || high > elements - (n > 0 ? 1 : 0);
  if (outside)
    fail(ErrorKind::value, "lend", "sizes ", sizes, ", strides ", strides, " and offset ", offset,
         " of ", dtype, " leave the ", uint64_t(bytes), " bytes that are lent");
  Ref<TensorBody> body = make_ref<TensorBody>();
  body->sizes = sizes;
  body->strides = strides;
  body->offset = offset;
  body->dtype = dtype;
  body->inference = inference_mode();
  body->storage = make_ref<Storage>(make_ref<Buffer>(device, data, bytes, std::move(release)));
  return Tensor(std::move(body));
}

}  // namespace gradus
