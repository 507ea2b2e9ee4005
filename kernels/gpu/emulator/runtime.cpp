// The run-time library: memory of the host with a limit, streams as queues, graphs as lists of what
// to do. One lock for all queues: whoever waits for one does its work.
#include "kernels/gpu/emulator/state.hpp"

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

struct emuGraph {
  std::vector<std::function<emuError_t()>> work;
};
struct Queue {
  int device = 0;
  bool late = false;  // works when somebody waits for it, else at once
  std::deque<std::function<emuError_t()>> work;
  uint64_t told = 0, done = 0;
};
struct emuStream {
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
  emuGraph* capturing = nullptr;
};
struct emuEvent {
  std::shared_ptr<Queue> queue;  // of the stream that it was last recorded in ...
  uint64_t told = 0;             // ... and all that this was told before
};

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

struct Queues {
  std::recursive_mutex mutex;  // work may be to wait for another queue
  std::set<std::shared_ptr<Queue>> all;
};
Queues& queues() {
  static Queues* q = new Queues;
  return *q;
}

// As it is now: another thread may record it anew.
emuEvent recorded(emuEvent_t e) {
  const std::lock_guard lock(queues().mutex);
  return *e;
}

// Into the graph that the stream is recording, into its queue, or done now.
emuError_t enqueue(emuStream_t stream, std::function<emuError_t()> work) {
  if (stream && stream->capturing) {
    stream->capturing->work.push_back(std::move(work));
    return emuSuccess;
  }
  if (stream && stream->queue->late) {
    const std::lock_guard lock(queues().mutex);
    stream->queue->work.push_back(std::move(work));
    ++stream->queue->told;
    return emuSuccess;
  }
  return said(work());
}

// Does the first `count` pieces of all that the queue was ever told. The first error of them.
emuError_t finish(Queue& queue, uint64_t count = UINT64_MAX) {
  const std::lock_guard lock(queues().mutex);
  const int before = std::exchange(device, queue.device);
  emuError_t first = emuSuccess;
  while (queue.done < count && !queue.work.empty()) {
    const auto work = std::move(queue.work.front());
    queue.work.pop_front();
    ++queue.done;
    if (const emuError_t e = work(); first == emuSuccess) first = e;
  }
  device = before;
  return said(first);
}

}  // namespace

namespace gradus::inline v1::emu {
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
  {
    const std::lock_guard lock(queues().mutex);
    for (const auto& queue : queues().all)
      if (queue->device == device) (void)finish(*queue);
  }
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
  *p = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
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
emuError_t emuOwnerOf(const void* p, int* index) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  auto it = m.blocks.upper_bound(const_cast<void*>(p));
  if (it == m.blocks.begin()) return said(emuErrorInvalidValue);
  --it;
  if (static_cast<const char*>(it->first) + it->second.second <= p)
    return said(emuErrorInvalidValue);
  *index = it->second.first;
  return emuSuccess;
}
emuError_t emuDeviceEnablePeerAccess(int peer, unsigned) {
  return said(peer == device ? emuErrorInvalidDevice : emuSuccess);
}
emuError_t emuMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                              size_t bytes, emuStream_t s) {
  int owners[2];
  if (emuOwnerOf(to, &owners[0]) != emuSuccess || owners[0] != to_device ||
      emuOwnerOf(from, &owners[1]) != emuSuccess || owners[1] != from_device)
    return said(emuErrorInvalidValue);
  return emuMemcpyAsync(to, from, bytes, emuMemcpyDeviceToDevice, s);
}
emuError_t emuMemsetAsync(void* to, int byte, size_t bytes, emuStream_t s) {
  return enqueue(s, [=] {
    std::memset(to, byte, bytes);
    return emuSuccess;
  });
}

emuError_t emuStreamCreateWithFlags(emuStream_t* s, unsigned) {
  *s = new emuStream;
  (*s)->queue->device = device;
  (*s)->queue->late = device >= 2;
  const std::lock_guard lock(queues().mutex);
  queues().all.insert((*s)->queue);
  return emuSuccess;
}
emuError_t emuStreamDestroy(emuStream_t s) {
  const std::lock_guard lock(queues().mutex);
  const emuError_t e = finish(*s->queue);
  queues().all.erase(s->queue);
  delete s;
  return e;
}
emuError_t emuStreamSynchronize(emuStream_t s) {
  if (!s) return emuSuccess;
  return s->capturing ? said(emuErrorStreamCaptureInvalidated) : finish(*s->queue);
}
emuError_t emuStreamWaitEvent(emuStream_t s, emuEvent_t e, unsigned) {
  const emuEvent now = recorded(e);
  if (!now.queue) return emuSuccess;  // never recorded
  return enqueue(s, [now] { return finish(*now.queue, now.told); });
}
emuError_t emuEventCreateWithFlags(emuEvent_t* e, unsigned) {
  *e = new emuEvent;
  return emuSuccess;
}
emuError_t emuEventDestroy(emuEvent_t e) {
  delete e;
  return emuSuccess;
}
emuError_t emuEventRecord(emuEvent_t e, emuStream_t s) {
  const std::lock_guard lock(queues().mutex);
  *e = s ? emuEvent{s->queue, s->queue->told} : emuEvent{};
  return emuSuccess;
}
emuError_t emuEventQuery(emuEvent_t e) {
  const std::lock_guard lock(queues().mutex);
  return e->queue && e->queue->done < e->told ? emuErrorNotReady : emuSuccess;
}
emuError_t emuEventSynchronize(emuEvent_t e) {
  const emuEvent now = recorded(e);
  return now.queue ? finish(*now.queue, now.told) : emuSuccess;
}

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
