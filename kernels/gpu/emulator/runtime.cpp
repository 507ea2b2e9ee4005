// The run-time library: memory of the host with a limit, streams that do at once what they are told
// unless they are being captured, graphs as lists of what to do.
#include "kernels/gpu/emulator/state.hpp"

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

struct emuGraph {
  std::vector<std::function<emuError_t()>> work;
};
struct emuStream {
  emuGraph* capturing = nullptr;
};
struct emuEvent {};

namespace {

constexpr int kDevices = 4;
constexpr size_t kMemory = size_t(4) << 30;  // of each device

thread_local int device = 0;
thread_local emuError_t last = emuSuccess;

emuError_t said(emuError_t e) {
  if (e != emuSuccess) last = e;
  return e;
}

struct Memory {
  std::mutex mutex;
  std::map<void*, std::pair<int, size_t>> blocks;
  size_t used[kDevices] = {};
};
Memory& memory() {
  static Memory* m = new Memory;
  return *m;
}

// Now, or into the graph that the stream is recording.
emuError_t enqueue(emuStream_t stream, std::function<emuError_t()> work) {
  if (stream && stream->capturing) {
    stream->capturing->work.push_back(std::move(work));
    return emuSuccess;
  }
  return said(work());
}

}  // namespace

namespace gradus::emu {
int current_device() { return device; }

emuError_t launch(bool together, unsigned blocks, unsigned threads, emuStream_t stream,
                  std::function<void()> body) {
  return enqueue(stream,
                 [=, body = std::move(body)] { return run(together, blocks, threads, body); });
}
}  // namespace gradus::emu

emuError_t emuGetDeviceCount(int* count) {
  *count = kDevices;
  return emuSuccess;
}
emuError_t emuSetDevice(int index) {
  if (index < 0 || index >= kDevices) return said(emuErrorInvalidDevice);
  device = index;
  return emuSuccess;
}
emuError_t emuGetLastError() { return std::exchange(last, emuSuccess); }
const char* emuGetErrorName(emuError_t e) {
  switch (e) {
    case emuSuccess:
      return "emuSuccess";
    case emuErrorInvalidValue:
      return "emuErrorInvalidValue";
    case emuErrorMemoryAllocation:
      return "emuErrorMemoryAllocation";
    case emuErrorInvalidDevice:
      return "emuErrorInvalidDevice";
    case emuErrorNotReady:
      return "emuErrorNotReady";
    case emuErrorLaunchFailure:
      return "emuErrorLaunchFailure";
    default:
      return "emuErrorStreamCaptureInvalidated";
  }
}
const char* emuGetErrorString(emuError_t e) {
  return e == emuErrorLaunchFailure ? gradus::emu::failure() : emuGetErrorName(e);
}

emuError_t emuMalloc(void** p, size_t bytes) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  *p = nullptr;
  const size_t whole = (bytes + 255) / 256 * 256;
  if (whole < bytes || m.used[device] + whole > kMemory) return said(emuErrorMemoryAllocation);
  *p = std::aligned_alloc(256, whole == 0 ? 256 : whole);
  if (!*p) return said(emuErrorMemoryAllocation);
  m.used[device] += whole;
  m.blocks[*p] = {device, whole};
  return emuSuccess;
}
emuError_t emuFree(void* p) {
  if (!p) return emuSuccess;
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto it = m.blocks.find(p);
  if (it == m.blocks.end()) return said(emuErrorInvalidValue);
  m.used[it->second.first] -= it->second.second;
  m.blocks.erase(it);
  std::free(p);
  return emuSuccess;
}
emuError_t emuMallocHost(void** p, size_t bytes) {
  *p = std::malloc(bytes);
  return *p ? emuSuccess : said(emuErrorMemoryAllocation);
}
emuError_t emuFreeHost(void* p) {
  std::free(p);
  return emuSuccess;
}
emuError_t emuMemGetInfo(size_t* free, size_t* total) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  *total = kMemory;
  *free = kMemory - m.used[device];
  return emuSuccess;
}

emuError_t emuMemcpyAsync(void* to, const void* from, size_t bytes, emuMemcpyKind, emuStream_t s) {
  return enqueue(s, [=] {
    std::memmove(to, from, bytes);
    return emuSuccess;
  });
}
emuError_t emuMemsetAsync(void* to, int byte, size_t bytes, emuStream_t s) {
  return enqueue(s, [=] {
    std::memset(to, byte, bytes);
    return emuSuccess;
  });
}

emuError_t emuStreamCreateWithFlags(emuStream_t* s, unsigned) {
  *s = new emuStream;
  return emuSuccess;
}
emuError_t emuStreamDestroy(emuStream_t s) {
  delete s;
  return emuSuccess;
}
emuError_t emuStreamSynchronize(emuStream_t s) {
  return s && s->capturing ? said(emuErrorStreamCaptureInvalidated) : emuSuccess;
}
emuError_t emuStreamWaitEvent(emuStream_t, emuEvent_t, unsigned) { return emuSuccess; }
emuError_t emuEventCreateWithFlags(emuEvent_t* e, unsigned) {
  *e = new emuEvent;
  return emuSuccess;
}
emuError_t emuEventDestroy(emuEvent_t e) {
  delete e;
  return emuSuccess;
}
emuError_t emuEventRecord(emuEvent_t, emuStream_t) { return emuSuccess; }
emuError_t emuEventQuery(emuEvent_t) { return emuSuccess; }
emuError_t emuEventSynchronize(emuEvent_t) { return emuSuccess; }

emuError_t emuStreamBeginCapture(emuStream_t s, int) {
  if (!s || s->capturing) return said(emuErrorInvalidValue);
  s->capturing = new emuGraph;
  return emuSuccess;
}
emuError_t emuStreamEndCapture(emuStream_t s, emuGraph_t* graph) {
  if (!s || !s->capturing) return said(emuErrorInvalidValue);
  *graph = std::exchange(s->capturing, nullptr);
  return emuSuccess;
}
emuError_t emuGraphInstantiate(emuGraphExec_t* exec, emuGraph_t graph, unsigned long long) {
  *exec = new emuGraph(*graph);
  return emuSuccess;
}
emuError_t emuGraphLaunch(emuGraphExec_t exec, emuStream_t s) {
  for (const auto& work : exec->work)
    if (const emuError_t e = enqueue(s, work); e != emuSuccess) return e;
  return emuSuccess;
}
emuError_t emuGraphDestroy(emuGraph_t graph) {
  delete graph;
  return emuSuccess;
}
emuError_t emuGraphExecDestroy(emuGraphExec_t exec) {
  delete exec;
  return emuSuccess;
}
