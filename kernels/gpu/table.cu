// The table that the module exports: probing, opening, memory, streams, events, graphs, slots.
#include "kernels/call/table.hpp"
#include "kernels/gpu/archs.hpp"
#include "kernels/gpu/libraries/library.hpp"
#include "kernels/gpu/runtime.hpp"

#include <cstdio>
#include <cstring>
#include <memory>

#if defined(GRADUS_EMULATE)
#define GRADUS_KIND "emu"
#define GRADUS_SCORE -10  // never by itself
#elif defined(__HIP_PLATFORM_AMD__)
#define GRADUS_KIND "hip"
#define GRADUS_SCORE 200
#else
#define GRADUS_KIND "cuda"
#define GRADUS_SCORE 300
#endif
#ifndef GRADUS_BUILD
#define GRADUS_BUILD "unknown"
#endif

namespace gradus::inline v1::gpu {
namespace {

// Runs f for an entry on a device that is the current one of this thread and not lost.
template <class F>
gd_status on(gd_device* d, gd_error* error, F&& f) noexcept {
  return guarded(GRADUS_KIND, error, [&] {
    const auto lock = d->enter();
    d->expect_there();
    check(d, GPU(SetDevice)(d->index), "choosing the device");
    f();
  });
}

// ---- what is there

uint32_t capabilities(gd_device* d) {
#if defined(GRADUS_EMULATE)
  const uint32_t emulated = GD_CAP_EMULATED;
#else
  const uint32_t emulated = 0;
#endif
#if defined(__HIP_PLATFORM_AMD__)
  // Replays of HIP's graphs have given wrong numbers (ROCm/clr issue 279), so they must be asked
  // for.
  const bool graphs = d && d->options.graph == Options::Graph::force;
#else
  const bool graphs = d && d->options.graph != Options::Graph::off;
#endif
  return emulated | (graphs ? GD_CAP_GRAPH : 0);
}

gd_status probe(int32_t* count, gd_error* error) {
  int n = 0;
  *count = 0;
  const Error e = GPU(GetDeviceCount)(&n);
  if (e == GPU(Success) && n > 0) {
    *count = n;
    return GD_OK;
  }
  (void)GPU(GetLastError)();
  char text[200];
#if defined(GRADUS_EMULATE)
  std::snprintf(text, sizeof text, "no device");
#elif defined(__HIP_PLATFORM_AMD__)
  std::snprintf(text, sizeof text,
                "no AMD GPU found (is the amdgpu driver loaded, and may this user open /dev/kfd?)");
#else
  int driver = 0, runtime = 0;
  (void)GPU(DriverGetVersion)(&driver);
  (void)GPU(RuntimeGetVersion)(&runtime);
  if (int(e) == 34)
    std::snprintf(text, sizeof text,
                  "the libcuda.so.1 found is the toolkit's stub; take the toolkit's stubs folder "
                  "out of LD_LIBRARY_PATH");
  else if (int(e) == 35 && driver == 0)
    std::snprintf(text, sizeof text, "no NVIDIA driver (libcuda.so.1 not found)");
  else if (int(e) == 35)
    std::snprintf(text, sizeof text,
                  "driver supports CUDA %d.%d, the module needs %d.%d; update it", driver / 1000,
                  driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  else if (int(e) == 100 || e == GPU(Success))
    std::snprintf(text, sizeof text,
                  "a driver but no NVIDIA GPU found (is CUDA_VISIBLE_DEVICES empty?)");
  else
    std::snprintf(text, sizeof text, "%s (%d)%s%s", GPU(GetErrorString)(e), int(e),
                  hint_of(e)[0] ? ": " : "", hint_of(e));
#endif
  return fill_error(error, e == GPU(Success) ? GD_NO_DEVICE : status_of(e), int32_t(e), text);
}

gd_status info(int32_t index, gd_info* out, gd_error* error) {
  return guarded(GRADUS_KIND, error, [&] {
    gd_device d;
    std::snprintf(d.name, sizeof d.name, GRADUS_KIND ":%d", index);
    Properties p{};
    check(&d, properties(index, &p), "asking for its properties");
    *out = gd_info{};
    std::snprintf(out->name, sizeof out->name, "%.127s", p.name);
    std::snprintf(out->arch, sizeof out->arch, "%s", p.arch);
    out->units = p.units;
    out->wave = p.wave;
    size_t free = 0, total = 0;
    check(&d, GPU(SetDevice)(index), "choosing the device");
    const bool known = GPU(MemGetInfo)(&free, &total) == GPU(Success);
    out->total_bytes = known ? int64_t(total) : -1;
    out->free_bytes = known ? int64_t(free) : -1;
  });
}

gd_status open(int32_t index, const char* json, gd_device** out, gd_error* error) {
  return guarded(GRADUS_KIND, error, [&] {
    auto d = std::make_unique<gd_device>();
    d->index = index;
    std::snprintf(d->name, sizeof d->name, index == 0 ? GRADUS_KIND : GRADUS_KIND ":%d", index);
    // The emulator has worked by the time a call returns, so it may as well say what went wrong.
    d->options = parse_options(json, d->name);
    // Its devices whose streams work late do so here, too.
    const bool at_once = (capabilities(nullptr) & GD_CAP_EMULATED) != 0 && index < 2;
    d->options.sync = d->options.sync || at_once;
    Properties p{};
    check(d.get(), properties(index, &p), "asking for its properties");
#ifdef GRADUS_ARCHS
    if (const std::string missing = missing_image(GRADUS_ARCHS, p.arch); !missing.empty())
      refuse(GD_NO_KERNEL_IMAGE, 0, "%s", missing.c_str());
#endif
    std::snprintf(d->arch, sizeof d->arch, "%s", p.arch);
    d->wave = p.wave;
    d->units = p.units;
    check(d.get(), GPU(SetDevice)(index), "choosing the device");
    d->stream = d->new_stream();
    // What the host says as a notice: the device works without.
    std::snprintf(error->text, sizeof error->text, "%s", named_libraries_lack(*d).c_str());
    *out = d.release();  // devices live for ever
  });
}

void close(gd_device*) {}

gd_status libraries(gd_device* d, char* text, size_t size, gd_error* error) {
  return on(d, error, [&] { std::snprintf(text, size, "%s", libraries_text(*d).c_str()); });
}

// ---- memory

gd_status alloc(gd_device* d, size_t bytes, void** out, gd_error* error) {
  return on(d, error, [&] { check(d, GPU(Malloc)(out, bytes ? bytes : 1), "an allocation"); });
}

void free_memory(gd_device* d, void* p) {
  if (d->lost || GPU(SetDevice)(d->index) != GPU(Success)) return;
  (void)GPU(Free)(p);  // waits for what still uses it
  (void)GPU(GetLastError)();
}

gd_status alloc_pinned(gd_device* d, size_t bytes, void** out, gd_error* error) {
  return on(d, error, [&] {
    check(d, pinned_alloc(out, bytes ? bytes : 1), "an allocation of pinned memory");
  });
}
void free_pinned(gd_device* d, void* p) {
  if (GPU(SetDevice)(d->index) != GPU(Success)) return;
  (void)pinned_free(p);
  (void)GPU(GetLastError)();
}

// A gd_stream is the vendor's own handle.
Stream stream_of(gd_device* d, gd_stream* s) {
  if (s == GD_VENDORS_STREAM) return default_stream();
  return s ? reinterpret_cast<Stream>(s) : d->stream;
}

// Other threads go on while this one waits, but for the default stream, which may be recorded.
gd_status stream_sync(gd_device* d, gd_stream* s, gd_error* error) {
  if (!s) return on(d, error, [&] { d->wait(); });
  return guarded(GRADUS_KIND, error, [&] {
    d->expect_there();
    check(d, GPU(SetDevice)(d->index), "choosing the device");
    check(d, GPU(StreamSynchronize)(stream_of(d, s)), "waiting");
    const auto lock = d->enter();
    d->look(stream_of(d, s));
  });
}

gd_status copy_bytes(gd_device* d, gd_stream* s, void* to, const void* from, size_t bytes,
                     int32_t way, gd_error* error) {
  if (way == GD_HOST_TO_DEVICE)
    return guarded(GRADUS_KIND, error, [&] {
      d->expect_there();
      check(d, GPU(SetDevice)(d->index), "choosing the device");
      d->upload(to, from, bytes, stream_of(d, s));
    });
  const bool waits =
      way != GD_ON_DEVICE && way != GD_PINNED_TO_DEVICE && way != GD_DEVICE_TO_PINNED;
  const gd_status told = on(d, error, [&] {
    if (bytes == 0) return;
    const Stream stream = stream_of(d, s);
    if (way == GD_FROM_PEER) {
      int owner = 0;
      check(d, owner_of(from, &owner), "asking whose memory it is");
      // Without access to each other's memory, as good: the driver goes by way of the host.
      (void)GPU(DeviceEnablePeerAccess)(owner, 0);
      (void)GPU(GetLastError)();
      check(d, GPU(MemcpyPeerAsync)(to, d->index, from, owner, bytes, stream), "a copy");
    } else {
      const auto kind = way == GD_ON_DEVICE          ? GPU(MemcpyDeviceToDevice)
                        : way == GD_PINNED_TO_DEVICE ? GPU(MemcpyHostToDevice)
                                                     : GPU(MemcpyDeviceToHost);
      check(d, GPU(MemcpyAsync)(to, from, bytes, kind, stream), "a copy");
    }
    if (waits && !s) d->wait();
  });
  return told == GD_OK && waits && s && bytes > 0 ? stream_sync(d, s, error) : told;
}

// ---- streams and events

gd_status stream_new(gd_device* d, gd_stream** out, gd_error* error) {
  return on(d, error, [&] { *out = reinterpret_cast<gd_stream*>(d->new_stream()); });
}
void stream_del(gd_device* d, gd_stream* s) {
  if (!s || GPU(SetDevice)(d->index) != GPU(Success)) return;
  d->forget(stream_of(d, s));
  (void)GPU(StreamDestroy)(stream_of(d, s));
}
gd_status event_new(gd_device* d, gd_event** out, gd_error* error) {
  return on(d, error, [&] {
    Event e;
    check(d, GPU(EventCreateWithFlags)(&e, GPU(EventDisableTiming)), "an event");
    *out = reinterpret_cast<gd_event*>(e);
  });
}
Event event_of(gd_event* e) { return reinterpret_cast<Event>(e); }
void event_del(gd_device* d, gd_event* e) {
  if (e && GPU(SetDevice)(d->index) == GPU(Success)) (void)GPU(EventDestroy)(event_of(e));
}
gd_status event_record(gd_device* d, gd_stream* s, gd_event* e, gd_error* error) {
  return on(d, error,
            [&] { check(d, GPU(EventRecord)(event_of(e), stream_of(d, s)), "an event"); });
}
gd_status event_wait(gd_device* d, gd_stream* s, gd_event* e, gd_error* error) {
  return on(d, error, [&] {
    check(d, GPU(StreamWaitEvent)(stream_of(d, s), event_of(e), 0), "waiting for an event");
  });
}
gd_status event_query(gd_device* d, gd_event* e, gd_error* error) {
  return on(d, error, [&] { check(d, GPU(EventQuery)(event_of(e)), "an event"); });
}
gd_status event_sync(gd_device* d, gd_event* e, gd_error* error) {
  return guarded(GRADUS_KIND, error, [&] {
    d->expect_there();
    check(d, GPU(SetDevice)(d->index), "choosing the device");
    check(d, GPU(EventSynchronize)(event_of(e)), "waiting for an event");
  });
}

// ---- graphs

gd_status capture_begin(gd_device* d, gd_stream* s, gd_error* error) {
  return on(d, error, [&] {
    d->wait();
    check(d, GPU(StreamBeginCapture)(stream_of(d, s), GPU(StreamCaptureModeThreadLocal)),
          "beginning a capture");
    d->capturing = true;
    d->capturer = std::this_thread::get_id();
  });
}
gd_status capture_end(gd_device* d, gd_stream* s, void** out, gd_error* error) {
  return on(d, error, [&] {
    d->capturing = false;
    d->captured_all.notify_all();
    *out = nullptr;
    GPU(Graph_t) graph = nullptr;
    check(d, GPU(StreamEndCapture)(stream_of(d, s), &graph), "ending a capture");
    Graph exec = nullptr;
    const Error e = instantiate(&exec, graph);
    (void)GPU(GraphDestroy)(graph);
    check(d, e, "instantiating a graph");
    *out = exec;
  });
}
gd_status graph_launch(gd_device* d, gd_stream* s, void* graph, gd_error* error) {
  return on(d, error, [&] {
    check(d, GPU(GraphLaunch)(static_cast<Graph>(graph), stream_of(d, s)), "launching a graph");
    if (d->options.sync) d->wait();
  });
}
void graph_del(gd_device* d, void* graph) {
  if (graph && GPU(SetDevice)(d->index) == GPU(Success))
    (void)GPU(GraphExecDestroy)(static_cast<Graph>(graph));
}

// ---- slots

template <gd_slot Slot, void (*Work)(Run&)>
gd_status run(gd_device* d, gd_stream* s, const gd_call* raw, gd_error* error) {
  return on(d, error, [&] {
    Call call(*raw, {d->name, kMaxViewRank}, gd_slot_name(Slot));
    Run run{*d, stream_of(d, s), call};
    Work(run);
    if (d->options.sync && !d->capturing) d->wait(run.stream);
  });
}

gd_table make_table() {
  gd_table t = new_table(GRADUS_KIND, GRADUS_BUILD, GRADUS_SCORE);
  t.probe = probe;
  t.info = info;
  t.open = open;
  t.close = close;
  t.capabilities = capabilities;
  t.libraries = libraries;
  t.alloc = alloc;
  t.free = free_memory;
  t.copy = copy_bytes;
  t.alloc_pinned = alloc_pinned;
  t.free_pinned = free_pinned;
  t.stream_new = stream_new;
  t.stream_del = stream_del;
  t.stream_sync = stream_sync;
  t.event_new = event_new;
  t.event_del = event_del;
  t.event_record = event_record;
  t.event_wait = event_wait;
  t.event_query = event_query;
  t.event_sync = event_sync;
  t.capture_begin = capture_begin;
  t.capture_end = capture_end;
  t.graph_launch = graph_launch;
  t.graph_del = graph_del;
  t.slot[GD_COPY] = run<GD_COPY, copy>;
  t.slot[GD_FILL] = run<GD_FILL, fill>;
  t.slot[GD_POINTWISE] = run<GD_POINTWISE, pointwise>;
  t.slot[GD_POINTWISE_VJP] = run<GD_POINTWISE_VJP, pointwise_vjp>;
  t.slot[GD_GATHER] = run<GD_GATHER, gather>;
  t.slot[GD_SCATTER_ADD] = run<GD_SCATTER_ADD, scatter_add>;
  t.slot[GD_RANDOM] = run<GD_RANDOM, random>;
  t.slot[GD_OPTIMIZER_STEP] = run<GD_OPTIMIZER_STEP, optimizer_step>;
  t.slot[GD_SORT] = run<GD_SORT, sort>;
  t.slot[GD_REDUCE] = run<GD_REDUCE, reduce>;
  t.slot[GD_CONTRACT] = run<GD_CONTRACT, contract>;
  t.slot[GD_SCAN] = run<GD_SCAN, scan>;
  t.slot[GD_SOFTMAX] = run<GD_SOFTMAX, softmax>;
  t.slot[GD_NORMALIZE] = run<GD_NORMALIZE, normalize>;
  t.slot[GD_LINALG] = run<GD_LINALG, linalg>;
  t.slot[GD_CHAIN] = run<GD_CHAIN, chain>;
  t.slot[GD_GROUPED] = run<GD_GROUPED, grouped>;
  return t;
}

}  // namespace

Error properties(int index, Properties* out) {
#if defined(GRADUS_EMULATE)
  if (const Error e = emuSetDevice(index); e != emuSuccess) return e;
  std::snprintf(out->name, sizeof out->name, "emulator, wave %d%s", emu::wave_width(),
                index >= 2 ? ", reversed order" : "");
  std::snprintf(out->arch, sizeof out->arch, "host fibers");
  out->pci[0] = 0;
  out->wave = emu::wave_width();
  out->units = 2;
  out->shared_bytes = 48 << 10;
#else
#if defined(__HIP_PLATFORM_AMD__)
  hipDeviceProp_t p;
#else
  cudaDeviceProp p;
#endif
  if (const Error e = GPU(GetDeviceProperties)(&p, index); e != GPU(Success)) return e;
  std::snprintf(out->name, sizeof out->name, "%.127s", p.name);
#if defined(__HIP_PLATFORM_AMD__)
  std::snprintf(out->arch, sizeof out->arch, "%s", p.gcnArchName);
#else
  std::snprintf(out->arch, sizeof out->arch, "sm_%d%d", p.major, p.minor);
#endif
  const Error e = GPU(DeviceGetPCIBusId)(out->pci, sizeof out->pci, index);
  if (e != GPU(Success)) out->pci[0] = 0;
  out->wave = p.warpSize;
  out->units = p.multiProcessorCount;
  out->shared_bytes = int(p.sharedMemPerBlock);
#endif
  return GPU(Success);
}

}  // namespace gradus::gpu

extern "C" __attribute__((visibility("default"))) const gd_table* gradus_device_module(
    uint32_t host_major, uint32_t) {
  if (host_major != GD_MAJOR) return nullptr;
  try {
    static const gd_table table = gradus::gpu::make_table();
    return &table;
  } catch (...) {
    return nullptr;
  }
}
