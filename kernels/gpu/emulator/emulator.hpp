// The emulator's side of vendor.hpp: GPU threads as fibers of one host thread, and the part of a
// vendor's run-time library that kernels/gpu uses, with the vendor's numbers and meanings.
//
// A launch runs its blocks one after the other. Threads that never meet (no barrier, no shuffle)
// run as a plain loop; others are fibers, each with a stack of its own, that go on until they reach
// a barrier or a shuffle and wait there for the threads that it concerns: all that still run in the
// block, or in the wave. If nobody can go on, the launch ends with an error that names the block.
// Shared memory is poisoned before each block, so what was never written is no number by accident.
// Devices: 0 has waves of 32 lanes, 1 of 64; 2 and 3 are the same with blocks and threads in
// reverse order, which shows races that one order hides. A stream does at once, in the caller's
// thread, what it is told, those of 2 and 3 only when somebody waits for it, which shows a wait
// that is missing; a captured graph is the list of what was launched. An asynchronous copy to
// shared memory leaves poison until its thread waits for it. With GRADUS_EMU_RACES=1 a launch in
// which threads touch the same memory in no order ends with an error (races.hpp). Threads: one
// launch at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(threads)

struct emuDim3 {
  unsigned x = 1, y = 1, z = 1;
};

// ---- the run-time library; numbers are CUDA's
enum emuError_t : int {
  emuSuccess = 0,
  emuErrorInvalidValue = 1,
  emuErrorMemoryAllocation = 2,
  emuErrorInvalidDevice = 101,
  emuErrorNotReady = 600,
  emuErrorLaunchFailure = 719,
  emuErrorStreamCaptureInvalidated = 901,
};
struct emuStream;
struct emuEvent;
struct emuGraph;
using emuStream_t = emuStream*;
using emuEvent_t = emuEvent*;
using emuGraph_t = emuGraph*;
using emuGraphExec_t = emuGraph*;
enum emuMemcpyKind { emuMemcpyHostToDevice, emuMemcpyDeviceToHost, emuMemcpyDeviceToDevice };
enum { emuStreamNonBlocking = 1, emuEventDisableTiming = 2, emuStreamCaptureModeThreadLocal = 1 };

emuError_t emuGetDeviceCount(int* count);
emuError_t emuSetDevice(int index);
emuError_t emuGetLastError();
const char* emuGetErrorName(emuError_t);
const char* emuGetErrorString(emuError_t);
emuError_t emuMalloc(void** p, size_t bytes);
emuError_t emuFree(void* p);
emuError_t emuMallocHost(void** p, size_t bytes);
emuError_t emuFreeHost(void* p);
emuError_t emuMemGetInfo(size_t* free, size_t* total);
emuError_t emuMemcpyAsync(void* to, const void* from, size_t bytes, emuMemcpyKind, emuStream_t);
emuError_t emuMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                              size_t bytes, emuStream_t);
emuError_t emuDeviceEnablePeerAccess(int peer, unsigned flags);
emuError_t emuOwnerOf(const void* p, int* device);
emuError_t emuMemsetAsync(void* to, int byte, size_t bytes, emuStream_t);
emuError_t emuStreamCreateWithFlags(emuStream_t*, unsigned flags);
emuError_t emuStreamDestroy(emuStream_t);
emuError_t emuStreamSynchronize(emuStream_t);
emuError_t emuStreamWaitEvent(emuStream_t, emuEvent_t, unsigned flags);
emuError_t emuEventCreateWithFlags(emuEvent_t*, unsigned flags);
emuError_t emuEventDestroy(emuEvent_t);
emuError_t emuEventRecord(emuEvent_t, emuStream_t);
emuError_t emuEventQuery(emuEvent_t);
emuError_t emuEventSynchronize(emuEvent_t);
emuError_t emuStreamBeginCapture(emuStream_t, int mode);
emuError_t emuStreamEndCapture(emuStream_t, emuGraph_t*);
emuError_t emuGraphInstantiate(emuGraphExec_t*, emuGraph_t, unsigned long long flags);
emuError_t emuGraphLaunch(emuGraphExec_t, emuStream_t);
emuError_t emuGraphDestroy(emuGraph_t);
emuError_t emuGraphExecDestroy(emuGraphExec_t);

namespace gradus::inline v1::emu {

// Where the running GPU thread stands.
struct Place {
  emuDim3 thread, block, threads, blocks;
};
extern Place* now;

int wave_width();  // of the current device
void barrier();
// One word of 16 bytes at most through the wave's slots.
void exchange(void* value, size_t bytes, int lane);
template <class T>
T shuffle(T value, int lane) {
  exchange(&value, sizeof(T), lane);
  return value;
}
// Begins to copy 16 bytes to shared memory; there they are after wait_copies() of the same thread.
void copy_async(void* shared, const void* global);
void wait_copies();
// This block's memory for one place in the source.
void* shared(const void* site, size_t bytes, size_t align);

emuError_t launch(bool together, unsigned blocks, unsigned threads, emuStream_t stream,
                  std::function<void()> body);
// What went wrong in the last failed launch; "" if none did.
const char* failure();

}  // namespace gradus::emu

#define threadIdx (::gradus::emu::now->thread)
#define blockIdx (::gradus::emu::now->block)
#define blockDim (::gradus::emu::now->threads)
#define gridDim (::gradus::emu::now->blocks)
