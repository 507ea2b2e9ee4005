// Errors of the vendor's library, complaints of kernels.
#include "kernels/gpu/runtime.hpp"

#include "kernels/gpu/errors.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <map>
#include <new>
#include <string>

namespace gradus::inline v1::gpu {

std::vector<Kernel>& kernels() {
  static std::vector<Kernel> all;  // filled while the module is loaded
  return all;
}

namespace {
struct Counting {
  const char* const file = std::getenv("GRADUS_KERNEL_RUNS");
  std::mutex mutex;
  ~Counting() {
    FILE* const out = file ? std::fopen(file, "w") : nullptr;
    if (!out) return;
    // A kernel that several files launch is listed by each of them.
    std::map<std::string, int64_t> runs;
    for (const Kernel& k : kernels()) {
      char* const plain = abi::__cxa_demangle(k.name, nullptr, nullptr, nullptr);
      const char* const name = plain ? std::strchr(plain, '&') : nullptr;
      runs[name ? name + 1 : k.name] += k.runs;
      std::free(plain);
    }
    for (const auto& [name, n] : runs)
      std::fprintf(out, "%lld %s\n", static_cast<long long>(n), name.c_str());
    std::fclose(out);
  }
};
Counting& counting() {
  kernels();  // lives longer
  static Counting c;
  return c;
}
}  // namespace

void count_launch(const void* function) {
  static Counting& c = counting();
  if (!c.file) return;
  const std::lock_guard lock(c.mutex);
  for (Kernel& k : kernels())
    if (k.function == function) ++k.runs;
}

gd_status status_of(Error e) { return error_meaning(int(e)).status; }
const char* hint_of(Error e) { return error_meaning(int(e)).hint; }

void check(gd_device* device, Error e, const char* what) {
  if (e == GPU(Success)) return;
  const char *error = GPU(GetErrorName)(e), *text = GPU(GetErrorString)(e);
  const bool same = std::strcmp(error, text) == 0;
  (void)GPU(GetLastError)();
  const gd_status status = status_of(e);
  const char* const hint = hint_of(e);
  if (status == GD_DEVICE_LOST) device->lose(what, hint[0] ? hint : same ? error : text);
  refuse(status, int32_t(e), "%s: %s failed: %s (%d)%s%s%s%s", device->name, what, error, int(e),
         same ? "" : ": ", same ? "" : text, hint[0] ? "; " : "", hint);
}

}  // namespace gradus::gpu

using namespace gradus::gpu;

Stream gd_device::new_stream() {
  Stream s = nullptr;
  void* p = nullptr;
  check(this, GPU(StreamCreateWithFlags)(&s, GPU(StreamNonBlocking)), "a stream");
  check(this, pinned_alloc(&p, sizeof(Complaint)), "an allocation of pinned memory");
  complaints[s] = new (p) Complaint{};
  return s;
}

void gd_device::wait(Stream on) {
  check(this, GPU(StreamSynchronize)(on), "waiting");
  look(on);
}

void gd_device::look(Stream at) {
  for (const auto& [of, complaint] : complaints) {
    if (__atomic_load_n(&complaint->code, __ATOMIC_ACQUIRE) == kNothing) continue;
    const Complaint c = *complaint;
    if (of == at) *complaint = {};
    refuse(GD_INVALID, 0, "%s %s: index %lld is outside [0, %lld)", name,
           c.slot == GD_GATHER ? "gather" : "scatter_add", static_cast<long long>(c.value),
           static_cast<long long>(c.limit));
  }
}

void gd_device::lose(const char* what, const char* error) {
  static std::mutex losing;
  const std::lock_guard lock(losing);
  if (lost) return;
  std::snprintf(why_lost, sizeof why_lost, "%s: %s", what, error);
  lost = true;
}

void gd_device::expect_there() const {
  if (lost) refuse(GD_DEVICE_LOST, 0, "%s was lost earlier: %s", name, why_lost);
}

void gd_device::upload(void* to, const void* from, size_t bytes, Stream on) {
  constexpr size_t kStaging = size_t(4) << 20;
  Staging* s = nullptr;
  {
    const std::lock_guard lock(mutex);
    s = &staging_[on];
  }
  const std::lock_guard own(s->mutex);
  for (size_t done = 0; done < bytes; done += kStaging) {
    void*& data = s->data[s->next];
    Event& sent = s->sent[s->next];
    s->next = 1 - s->next;
    if (!data) {
      check(this, GPU(EventCreateWithFlags)(&sent, GPU(EventDisableTiming)), "an event");
      check(this, pinned_alloc(&data, kStaging), "an allocation of pinned memory");
    } else {
      check(this, GPU(EventSynchronize)(sent), "waiting for a copy");
    }
    const size_t n = bytes - done < kStaging ? bytes - done : kStaging;
    std::memcpy(data, static_cast<const char*>(from) + done, n);
    const auto lock = enter();
    expect_there();
    check(this,
          GPU(MemcpyAsync)(static_cast<char*>(to) + done, data, n, GPU(MemcpyHostToDevice), on),
          "a copy");
    check(this, GPU(EventRecord)(sent, on), "an event");
  }
}

void gd_device::forget(Stream stream) {
  const std::lock_guard lock(mutex);
  if (const auto c = complaints.find(stream); c != complaints.end()) {
    (void)GPU(StreamSynchronize)(stream);
    (void)pinned_free(c->second);
    complaints.erase(c);
  }
  const auto it = staging_.find(stream);
  if (it == staging_.end()) return;
  for (int k = 0; k < 2; ++k)
    if (it->second.data[k]) {
      (void)GPU(EventSynchronize)(it->second.sent[k]);
      (void)GPU(EventDestroy)(it->second.sent[k]);
      (void)pinned_free(it->second.data[k]);
    }
  staging_.erase(it);
}
