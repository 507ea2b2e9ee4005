// The emulator itself: what it lets through on one device and catches on another.
#include "kernels/gpu/vendor.hpp"

#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace gradus::gpu;

namespace {

constexpr int kNarrow = 0, kWide = 1, kNarrowReversed = 2;

Error launch_on(int device, Threads kind, void (*kernel)(float*, int), int64_t grid, int block,
                float* data, int n) {
  REQUIRE(emuSetDevice(device) == emuSuccess);
  const Error e = launch(kind, kernel, grid, block, nullptr, data, n);
  REQUIRE(emuSetDevice(0) == emuSuccess);
  return e;
}

// Sums a block's numbers through shared memory and a wave's shuffles, as kernels do.
float wave_sum(float x, int widest) {
  for (int step = widest; step > 0; step /= 2) x += shuffle(x, (lane() + step) % wave_width());
  return x;
}
void block_sums(float* data, int n) {
  GPU_SHARED(float, partial, 32);
  const int64_t i = first_index();
  const float x = wave_sum(i < n ? data[i] : 0.0f, wave_width() / 2);
  if (lane() == 0) partial[thread() / wave_width()] = x;
  barrier();
  float sum = 0;
  for (int k = 0; k < block_threads() / wave_width(); ++k) sum += partial[k];
  barrier();
  if (i < n) data[i] = sum;
}
void sum_of_32_lanes(float* data, int) { data[thread()] = wave_sum(data[thread()], 16); }
void without_a_barrier(float* data, int) {
  GPU_SHARED(float, x, 256);
  x[thread()] = data[thread()];
  data[thread()] = x[block_threads() - 1 - thread()];
}
void half_waits(float*, int) {
  if (thread() % 2 == 0) barrier();
}
void waits_apart(float*, int) { barrier(); }
void reads_unwritten(float* data, int) {
  GPU_SHARED(float, x, 64);
  if (blockIdx.x == 0) x[thread()] = 1.0f;
  data[first_index()] = x[thread()];
}
void too_much_shared(float* data, int) {
  GPU_SHARED(double, x, 8000);
  data[0] = float(x[0]);
}
void exchanges_twice(float* data, int) {
  // The second word must not overtake the first, whoever runs ahead.
  const float a = shuffle(float(lane()), 0), b = shuffle(float(10 + lane()), 1);
  data[thread()] = a + b;
}
void ends_early(float* data, int n) {
  if (thread() >= n) return;
  barrier();
  data[thread()] = shuffle(float(lane()), n - 1);
}

std::vector<float> counted(int n) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) x[size_t(i)] = float(i + 1);
  return x;
}

}  // namespace

TEST_CASE("emulator: barriers and shuffles, at both wave widths and in both orders") {
  for (int device = 0; device < 4; ++device) {
    CAPTURE(device);
    auto x = counted(512);
    CHECK(launch_on(device, Threads::together, block_sums, 2, 256, x.data(), 512) == emuSuccess);
    CHECK(x[0] == 256 * 257 / 2);
    CHECK(x[511] == 512 * 513 / 2 - 256 * 257 / 2);
    auto y = counted(64);
    CHECK(launch_on(device, Threads::together, exchanges_twice, 1, 64, y.data(), 0) == emuSuccess);
    for (const float v : y) CHECK(v == 11);
    CHECK(launch_on(device, Threads::together, ends_early, 1, 64, y.data(), 20) == emuSuccess);
    CHECK(y[0] == 19);
    CHECK(y[20] == 11);
  }
}

TEST_CASE("emulator: a sum that forgets half of a wave of 64 is right at 32 and wrong at 64") {
  for (const int device : {kNarrow, kWide}) {
    auto x = counted(64);
    CHECK(launch_on(device, Threads::together, sum_of_32_lanes, 1, 64, x.data(), 0) == emuSuccess);
    const float wave = device == kNarrow ? 32 : 64;
    CHECK((x[0] == wave * (wave + 1) / 2) == (device == kNarrow));
  }
}

TEST_CASE("emulator: a missing barrier gives other numbers in the other order") {
  auto x = counted(128), y = x;
  CHECK(launch_on(kNarrow, Threads::together, without_a_barrier, 1, 128, x.data(), 0) ==
        emuSuccess);
  CHECK(launch_on(kNarrowReversed, Threads::together, without_a_barrier, 1, 128, y.data(), 0) ==
        emuSuccess);
  CHECK(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0);
}

TEST_CASE("emulator: what would hang or trap on a GPU ends the launch and names the place") {
  const auto said = [](void (*kernel)(float*, int), Threads kind) {
    auto x = counted(64);
    CHECK(launch_on(kNarrow, kind, kernel, 3, 64, x.data(), 64) == emuErrorLaunchFailure);
    CHECK(emuGetLastError() == emuErrorLaunchFailure);
    CHECK(emuGetLastError() == emuSuccess);
    return std::string(emuGetErrorString(emuErrorLaunchFailure));
  };
  CHECK(said(waits_apart, Threads::apart) ==
        "block 0 of 3, thread 0: a barrier in a kernel launched as Threads::apart");
  CHECK(said(too_much_shared, Threads::together).find("48 KiB of shared memory") !=
        std::string::npos);
  // Threads that wait at a barrier for others that have ended go on, as on the hardware; a wave's
  // lanes at different words of meeting do not.
  auto x = counted(64);
  CHECK(launch_on(kNarrow, Threads::together, half_waits, 1, 64, x.data(), 0) == emuSuccess);
  const auto crossed = [](float* data, int) {
    if (thread() == 0)
      barrier();
    else
      data[thread()] = shuffle(1.0f, 0);
    if (thread() != 0) barrier();
    if (thread() == 0) data[0] = shuffle(1.0f, 1);
  };
  CHECK(said(crossed, Threads::together).find("wait for each other for ever") != std::string::npos);
  // And the next launch works.
  auto y = counted(512);
  CHECK(launch_on(kNarrow, Threads::together, block_sums, 2, 256, y.data(), 512) == emuSuccess);
  CHECK(y[0] == 256 * 257 / 2);
}

TEST_CASE("emulator: shared memory holds nothing of the block before") {
  auto x = counted(128);
  CHECK(launch_on(kNarrow, Threads::together, reads_unwritten, 2, 64, x.data(), 0) == emuSuccess);
  CHECK(x[0] == 1);
  CHECK(std::isnan(x[64]));
}

TEST_CASE("emulator: a captured graph repeats its launches and copies, and nothing before") {
  emuStream_t stream;
  REQUIRE(emuStreamCreateWithFlags(&stream, emuStreamNonBlocking) == emuSuccess);
  float x[2] = {1, 0};
  const auto twice = [](float* data, int) { data[0] *= 2; };
  REQUIRE(emuStreamBeginCapture(stream, emuStreamCaptureModeThreadLocal) == emuSuccess);
  CHECK(launch(Threads::apart, +twice, 1, 1, stream, x, 0) == emuSuccess);
  CHECK(emuMemcpyAsync(&x[1], &x[0], sizeof(float), emuMemcpyDeviceToDevice, stream) == emuSuccess);
  CHECK(emuStreamSynchronize(stream) != emuSuccess);
  CHECK(x[0] == 1);
  emuGraph_t graph;
  REQUIRE(emuStreamEndCapture(stream, &graph) == emuSuccess);
  Graph exec;
  REQUIRE(instantiate(&exec, graph) == emuSuccess);
  CHECK(emuGraphDestroy(graph) == emuSuccess);
  for (int k = 0; k < 3; ++k) CHECK(emuGraphLaunch(exec, stream) == emuSuccess);
  CHECK(x[0] == 8);
  CHECK(x[1] == 8);
  CHECK(emuGraphExecDestroy(exec) == emuSuccess);
  CHECK(emuStreamDestroy(stream) == emuSuccess);
}
