// Errors of the vendor's library, scratch memory, complaints of kernels.
#include "kernels/gpu/runtime.hpp"

#include <cstdio>
#include <cstring>

namespace gradus::gpu {

// CUDA and HIP share these numbers.
gd_status status_of(Error e) {
  switch (int(e)) {
    case 0:
      return GD_OK;
    case 2:
      return GD_OOM;
    case 3:
    case 34:
    case 35:
    case 802:
    case 803:
    case 804:
      return GD_NO_DRIVER;
    case 98:
    case 209:
    case 222:
      return GD_NO_KERNEL_IMAGE;
    case 100:
      return GD_NO_DEVICE;
    case 101:
      return GD_BAD_DEVICE;
    case 1:
    case 9:
    case 17:
    case 400:
    case 701:
      return GD_INVALID;
    case 600:
      return GD_NOT_READY;
    case 801:
      return GD_UNSUPPORTED;
    case 226:
    case 700:
    case 702:
    case 710:
    case 714:
    case 715:
    case 716:
    case 717:
    case 718:
    case 719:
    case 911:
    case 999:
      return GD_DEVICE_LOST;
    default:
      return int(e) >= 900 && int(e) <= 910 && int(e) != 909 ? GD_CAPTURE : GD_INTERNAL;
  }
}

void check(gd_device* device, Error e, const char* what) {
  if (e == GPU(Success)) return;
  const char *error = GPU(GetErrorName)(e), *text = GPU(GetErrorString)(e);
  const bool same = std::strcmp(error, text) == 0;
  (void)GPU(GetLastError)();
  const gd_status status = status_of(e);
  if (status == GD_DEVICE_LOST && !device->lost[0])
    std::snprintf(device->lost, sizeof device->lost, "%s: %s", what, same ? error : text);
  refuse(status, int32_t(e), "%s: %s failed: %s (%d)%s%s", device->name, what, error, int(e),
         same ? "" : ": ", same ? "" : text);
}

}  // namespace gradus::gpu

using namespace gradus::gpu;

void* gd_device::scratch(size_t bytes, const char* what) {
  if (bytes <= scratch_bytes_) return scratch_;
  if (capturing)
    refuse(GD_CAPTURE, 0, "%s: scratch memory would grow while a graph is captured", name);
  const size_t size = bytes < 2 * scratch_bytes_ ? 2 * scratch_bytes_ : bytes;
  void* more = nullptr;
  check(this, GPU(Malloc)(&more, size), what);
  if (scratch_) old_scratch_.push_back(scratch_);
  scratch_ = more;
  scratch_bytes_ = size;
  return scratch_;
}

void gd_device::wait() {
  if (may_complain)
    check(this,
          GPU(MemcpyAsync)(complaint_on_host, complaint, sizeof(Complaint), GPU(MemcpyDeviceToHost),
                           stream),
          "a copy");
  check(this, GPU(StreamSynchronize)(stream), "waiting");
  if (!may_complain) return;
  may_complain = false;
  const Complaint c = *complaint_on_host;
  if (c.code == kNothing) return;
  check(this, GPU(MemsetAsync)(complaint, 0, sizeof(Complaint), stream), "a fill");
  refuse(GD_INVALID, 0, "%s %s: index %lld is outside [0, %lld)", name,
         c.slot == GD_GATHER ? "gather" : "scatter_add", static_cast<long long>(c.value),
         static_cast<long long>(c.limit));
}

void gd_device::upload(void* to, const void* from, size_t bytes, Stream on) {
  constexpr size_t kStaging = size_t(4) << 20;
  for (size_t done = 0; done < bytes; done += kStaging) {
    Staging& s = staging_[next_staging_];
    next_staging_ = 1 - next_staging_;
    if (!s.data) {
      check(this, pinned_alloc(&s.data, kStaging), "an allocation of pinned memory");
      check(this, GPU(EventCreateWithFlags)(&s.sent, GPU(EventDisableTiming)), "an event");
    } else {
      check(this, GPU(EventSynchronize)(s.sent), "waiting for a copy");
    }
    const size_t n = bytes - done < kStaging ? bytes - done : kStaging;
    std::memcpy(s.data, static_cast<const char*>(from) + done, n);
    check(this,
          GPU(MemcpyAsync)(static_cast<char*>(to) + done, s.data, n, GPU(MemcpyHostToDevice), on),
          "a copy");
    check(this, GPU(EventRecord)(s.sent, on), "an event");
  }
}
