// Devices by number and by name, their memory, streams and events.
#include "bindings/c/door.hpp"
#include "engine/config/device_config.hpp"
#include "engine/config/loader.hpp"
#include "engine/streams/pinned.hpp"
#include "engine/streams/stream.hpp"
#include "ops/shape/in_place.hpp"
#include "ops/shape/memory.hpp"

#include <mutex>

using namespace gradus;
using namespace gradus::c;

namespace {

constexpr const char* kGpus[] = {"cuda", "hip"};  // in the order in which they are counted

int gpus_of(std::string_view kind) {
  for (const KnownKind& k : known_kinds())
    if (k.kind == kind) return k.devices;
  return 0;
}

struct Others {
  std::mutex mutex;
  std::vector<Device*> devices;
};
Others& others() {
  static Others* const all = new Others;
  return *all;
}

// Never another one than the one that was named.
Device& open_exactly(const std::string& name) {
  DeviceConfig config = parse_device_config(name, "device");
  config.fallback = DeviceConfig::Fallback::error;
  return *open_configured(config).device;
}

struct StreamObject : Object {
  explicit StreamObject(Ref<Stream> s) : stream(std::move(s)) {}
  Ref<Stream> stream;
};
struct EventObject : Object {
  explicit EventObject(Ref<Event> e) : event(std::move(e)) {}
  Ref<Event> event;
};
std::shared_ptr<StreamObject> stream_at(gradus_stream s) {
  return object_at<StreamObject>(Kind::stream, s);
}
std::shared_ptr<EventObject> event_at(gradus_event e) {
  return object_at<EventObject>(Kind::event, e);
}

}  // namespace

namespace gradus::inline v1::c {

int32_t number_of(Device& device) {
  if (device.kind() == "cpu") return GRADUS_CPU;
  int32_t before = 0;
  for (const char* kind : kGpus) {
    if (device.kind() == kind) return before + device.index();
    before += gpus_of(kind);
  }
  const std::lock_guard lock(others().mutex);
  auto& all = others().devices;
  const auto at = std::find(all.begin(), all.end(), &device);
  const auto i = int32_t(at - all.begin());
  if (at == all.end()) all.push_back(&device);
  return GRADUS_OTHER_DEVICE + i;
}

Device& device_at(int32_t number) {
  if (number < 0) return open_device("cpu");
  if (number < GRADUS_OTHER_DEVICE) return open_exactly(join(number));
  const std::lock_guard lock(others().mutex);
  const auto i = size_t(number - GRADUS_OTHER_DEVICE);
  if (i >= others().devices.size())
    throw Refusal{GRADUS_DEVICE,
                  join("device ", number, " is none that gradus_find_device() gave")};
  return *others().devices[i];
}

}  // namespace gradus::c

gradus_status gradus_use_device(const char* config) {
  return door("gradus_use_device", [&] {
    std::string said;
    use_device(&need(config, "config"), &said);
    notice(said);
  });
}
gradus_status gradus_use_default_device(void) {
  return door("gradus_use_default_device", [&] {
    std::vector<std::string> said;
    use_device_from_environment(&said);
    for (const std::string& line : said) notice(line);
  });
}
gradus_status gradus_give_library(const char* key, const gradus_library* library) {
  return door("gradus_give_library", [&] {
    const gradus_library given = struct_at(library, "library");
    const auto names = array(given.names, given.n_functions, "names");
    const auto functions = array(given.functions, given.n_functions, "functions");
    LibraryFunctions all;
    for (size_t i = 0; i < names.size(); ++i)
      all.emplace_back(&need(names[i], "names[i]"), functions[i]);
    give_library(&need(key, "key"), all, given.text ? given.text : "");
  });
}
gradus_status gradus_current_device(int32_t* out) {
  return result("gradus_current_device", out, [&] { return number_of(default_device()); });
}
gradus_status gradus_device_count(int32_t* out) {
  return result("gradus_device_count", out, [&] {
    load_modules(module_kinds());
    return gpus_of(kGpus[0]) + gpus_of(kGpus[1]);
  });
}
gradus_status gradus_find_device(const char* name, int32_t* out) {
  return result("gradus_find_device", out,
                [&] { return number_of(open_exactly(&need(name, "name"))); });
}
gradus_status gradus_device_type(int32_t device, int32_t* out) {
  return result("gradus_device_type", out, [&] {
    const std::string& kind = device_at(device).kind();
    return kind == "cpu"    ? GRADUS_TYPE_CPU
           : kind == "cuda" ? GRADUS_TYPE_CUDA
           : kind == "hip"  ? GRADUS_TYPE_ROCM
                            : GRADUS_TYPE_OTHER;
  });
}
gradus_status gradus_device_name(int32_t device, const char** out) {
  return result("gradus_device_name", out, [&] { return device_at(device).name().c_str(); });
}
gradus_status gradus_available(const char* device, int32_t* out) {
  return result("gradus_available", out, [&] {
    try {
      open_exactly(&need(device, "device"));
      return 1;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::device) throw;
      report("gradus_available");
      return 0;
    }
  });
}
gradus_status gradus_cuda_available(int32_t* out) { return gradus_available("cuda", out); }
gradus_status gradus_load_module(const char* path) {
  return door("gradus_load_module", [&] { load_module(&need(path, "path")); });
}
gradus_status gradus_to_device(gradus_tensor t, int32_t device, gradus_tensor* out) {
  return result("gradus_to_device", out,
                [&] { return handle_of(to_device(tensor_of(t, "t"), device_at(device))); });
}
gradus_status gradus_cpu(gradus_tensor t, gradus_tensor* out) {
  return gradus_to_device(t, GRADUS_CPU, out);
}
gradus_status gradus_cuda(gradus_tensor t, gradus_tensor* out) {
  return result("gradus_cuda", out,
                [&] { return handle_of(to_device(tensor_of(t, "t"), open_exactly("cuda"))); });
}
gradus_status gradus_synchronize(int32_t device) {
  return door("gradus_synchronize", [&] { device_at(device).synchronize(); });
}

gradus_status gradus_memory_stats(int32_t device, gradus_memory* out) {
  return door("gradus_memory_stats", [&] {
    const Pool& pool = device_at(device).pool();
    const PoolStats s = pool.stats();
    give_struct(out, {0, 0, s.live, s.cached, s.peak, pool.limit()}, "gradus_memory");
  });
}
gradus_status gradus_memory_limit(int32_t device, uint64_t bytes) {
  return door("gradus_memory_limit", [&] { device_at(device).pool().set_limit(bytes); });
}
gradus_status gradus_memory_trim(int32_t device) {
  return door("gradus_memory_trim", [&] { device_at(device).pool().trim(); });
}

gradus_status gradus_stream_new(int32_t device, gradus_stream* out) {
  return door("gradus_stream_new", [&] {
    need(out, "out");
    *out =
        new_handle(Kind::stream, std::make_shared<StreamObject>(Stream::make(device_at(device))));
  });
}
gradus_status gradus_stream_use(gradus_stream stream) {
  return door("gradus_stream_use", [&] {
    const Ref<Stream> s = stream_at(stream)->stream;
    set_current_stream(s->device(), s.get());
  });
}
gradus_status gradus_stream_use_default(int32_t device) {
  return door("gradus_stream_use_default", [&] { set_current_stream(device_at(device), nullptr); });
}
gradus_status gradus_stream_synchronize(gradus_stream stream) {
  return door("gradus_stream_synchronize", [&] { stream_at(stream)->stream->synchronize(); });
}
gradus_status gradus_event_new(int32_t device, gradus_event* out) {
  return result("gradus_event_new", out, [&] {
    return new_handle(Kind::event, std::make_shared<EventObject>(Event::make(device_at(device))));
  });
}
gradus_status gradus_event_record(gradus_event event, gradus_stream stream) {
  return door("gradus_event_record", [&] {
    const auto e = event_at(event);
    e->event->record(stream == 0 ? nullptr : stream_at(stream)->stream.get());
  });
}
gradus_status gradus_stream_wait(gradus_stream stream, gradus_event event) {
  return door("gradus_stream_wait",
              [&] { stream_at(stream)->stream->wait(*event_at(event)->event); });
}
gradus_status gradus_event_done(gradus_event event, int32_t* out) {
  return result("gradus_event_done", out, [&] { return event_at(event)->event->done(); });
}
gradus_status gradus_event_synchronize(gradus_event event) {
  return door("gradus_event_synchronize", [&] { event_at(event)->event->synchronize(); });
}
gradus_status gradus_pinned(const int64_t* shape, size_t ndim, int32_t dtype, int32_t device,
                            gradus_tensor* out) {
  return result("gradus_pinned", out, [&] {
    const Tensor t = pinned(shape_at(shape, ndim), dtype_at(dtype), device_at(device));
    return handle_of(fill_(t, 0));
  });
}
gradus_status gradus_to_device_async(gradus_tensor t, int32_t device, gradus_tensor* out) {
  return result("gradus_to_device_async", out,
                [&] { return handle_of(to_async(tensor_of(t, "t"), device_at(device))); });
}
gradus_status gradus_copy_async(gradus_tensor to, gradus_tensor from) {
  return door("gradus_copy_async",
              [&] { copy_async(tensor_of(to, "to"), tensor_of(from, "from")); });
}
