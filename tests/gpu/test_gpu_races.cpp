// What the emulator sees of threads and streams that have no order: faults planted in kernels,
// which give the right numbers in the order that the emulator happens to take.
#include "kernels/gpu/emulator/races.hpp"
#include "kernels/gpu/contract/mma.hpp"
#include "tests/helpers/gpu_emulator.hpp"

#include <cstring>

using namespace gradus::gpu;

namespace {

// "" or why the launch failed; on the device whose threads go forwards.
std::string watched(Threads kind, void (*kernel)(float*, int), int64_t grid, int block, float* data,
                    int n = 0) {
  gradus::emu::races::watching = true;
  const Error e = launch(kind, kernel, grid, block, nullptr, data, n);
  gradus::emu::races::watching = false;
  return e == emuSuccess ? "" : emuGetErrorString(e);
}

void adds_up(float* data, int) { data[0] += 1; }
void two_blocks_write(float* data, int) { data[thread()] = 1; }
void reads_its_neighbour(float* data, int n) {
  const int64_t i = first_index();
  data[i] = data[i + 1 < n ? i + 1 : i];
}
void each_its_own(float* data, int n) {
  for (int64_t i = first_index(); i < n; i += index_step()) data[i] = data[i] * 2 + 1;
}
void all_read_one(float* data, int) { data[first_index() + 1] = data[0]; }
void writes_what_all_read(float* data, int n) {
  data[first_index() + 1] = data[0];
  if (first_index() == n - 1) data[0] = 5;
}
template <bool Before, bool After>
void sums_a_block(float* data, int) {
  GPU_SHARED(float, x, 64);
  for (int task = 0; task < 2; ++task) {
    x[thread()] = data[first_index()];
    if (Before) barrier();
    float sum = 0;
    for (int k = 0; k < block_threads(); ++k) sum += x[k];
    if (After) barrier();
    data[first_index()] = sum;
  }
}
void halves(uint16_t* data, int) { data[first_index()] = 1; }
GPU_MAY_RACE void complains(float* data) { data[0] = 1; }
void complains_alike(float* data, int) { complains(data); }

template <bool Waits, bool Meets>
void copies(float* data, int) {
  struct alignas(16) Packet {
    float x[4];
  };
  GPU_SHARED(Packet, shared, 32);
  copy_async(&shared[thread()], data + 4 * thread());
  if (Waits) wait_copies();
  if (Meets) barrier();
  const int from = Meets ? block_threads() - 1 - thread() : thread();
  const Packet x = shared[from];
  barrier();
  data[4 * thread()] = x.x[1];
}
void reads_before_all_waited(float* data, int) {
  struct alignas(16) Packet {
    float x[4];
  };
  GPU_SHARED(Packet, shared, 32);
  copy_async(&shared[thread()], data + 4 * thread());
  wait_copies();
  data[200 + thread()] = shared[thread() ^ 1].x[0];
}

bool can_watch() {
#if defined(GRADUS_SANITIZED) || !defined(__SANITIZE_THREAD__)
  MESSAGE("skipped: this build is not told of accesses");
  return false;
#else
  return true;
#endif
}

}  // namespace

TEST_CASE("emulator: threads that accumulate in one element are a race") {
  if (!can_watch()) return;
  static float x[300];  // not on the stack, which is a thread's own
  CHECK(watched(Threads::apart, adds_up, 1, 64, x) ==
        "block 0 of 1, thread 1: a race: it reads what thread 0 of block 0 writes, in no order");
  CHECK(x[0] == 64);  // the right sum, in this order
  CHECK(watched(Threads::apart, adds_up, 64, 1, x) ==
        "block 1 of 64, thread 0: a race: it reads what thread 0 of block 0 writes, in no order");
  CHECK(watched(Threads::apart, adds_up, 1, 1, x) == "");
  CHECK(watched(Threads::apart, two_blocks_write, 2, 8, x) ==
        "block 1 of 2, thread 0: a race: it writes what thread 0 of block 0 writes, in no order");
  CHECK(watched(Threads::apart, reads_its_neighbour, 2, 8, x, 16) ==
        "block 0 of 2, thread 1: a race: it writes what thread 0 of block 0 reads, in no order");
  CHECK(watched(Threads::apart, writes_what_all_read, 2, 8, x, 16)
            .find("block 1 of 2, thread 7: a race: it writes") == 0);
}

TEST_CASE("emulator: what is in order is no race") {
  if (!can_watch()) return;
  static float x[300];
  static uint16_t h[64];
  CHECK(watched(Threads::apart, each_its_own, 3, 32, x, 200) == "");
  CHECK(watched(Threads::apart, all_read_one, 3, 32, x) == "");
  CHECK(watched(Threads::together, sums_a_block<true, true>, 2, 64, x) == "");
  CHECK(watched(Threads::apart, complains_alike, 2, 8, x) == "");
  gradus::emu::races::watching = true;
  CHECK(launch(Threads::apart, halves, 2, 32, nullptr, h, 0) == emuSuccess);
  gradus::emu::races::watching = false;
}

TEST_CASE("emulator: a missing barrier is a race in shared memory, whatever the order") {
  if (!can_watch()) return;
  static float x[300];  // not on the stack, which is a thread's own
  for (const int device : {0, 2}) {
    CAPTURE(device);
    REQUIRE(emuSetDevice(device) == emuSuccess);
    CHECK(watched(Threads::together, sums_a_block<false, true>, 2, 64, x).find("a race: it ") !=
          std::string::npos);
    CHECK(watched(Threads::together, sums_a_block<true, false>, 2, 64, x).find("a race: it ") !=
          std::string::npos);
    REQUIRE(emuSetDevice(0) == emuSuccess);
  }
}

TEST_CASE("emulator: an asynchronous copy is there when it was waited for, and not before") {
  const auto copied = [](void (*kernel)(float*, int), std::string* said) {
    std::vector<float> x(300);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(i);
    *said = watched(Threads::together, kernel, 1, 32, x.data());
    return x;
  };
  std::string said;
  const auto right = copied(copies<true, true>, &said);
  CHECK(said == "");
  CHECK(right[0] == 4 * 31 + 1);
  CHECK(std::isnan(copied(copies<false, false>, &said)[0]));
  CHECK(std::isnan(copied(copies<false, true>, &said)[0]));
  if (!can_watch()) return;
  copied(reads_before_all_waited, &said);
  CHECK(said.find("a race: it ") != std::string::npos);
}

TEST_CASE("emulator: a copy on one stream and a kernel on another need an event between") {
  const gd_table& t = gpu_test::emulator();
  static gd_device* device = nullptr;  // devices live as long as the process
  gd_error e{};
  REQUIRE(t.open(2, "{}", &device, &e) == GD_OK);
  const auto last = [&](bool with_event) {
    gd_stream* other = nullptr;
    gd_event* event = nullptr;
    void *from = nullptr, *to = nullptr;
    const std::vector<float> ones(1000, 1.f);
    std::vector<float> got(1000), zeros(1000);
    REQUIRE(t.alloc(device, 4000, &from, &e) == GD_OK);
    REQUIRE(t.alloc(device, 4000, &to, &e) == GD_OK);
    REQUIRE(t.copy(device, nullptr, from, zeros.data(), 4000, GD_HOST_TO_DEVICE, &e) == GD_OK);
    REQUIRE(t.stream_sync(device, nullptr, &e) == GD_OK);
    REQUIRE(t.stream_new(device, &other, &e) == GD_OK);
    REQUIRE(t.event_new(device, &event, &e) == GD_OK);
    REQUIRE(t.copy(device, other, from, ones.data(), 4000, GD_HOST_TO_DEVICE, &e) == GD_OK);
    REQUIRE(t.event_record(device, other, event, &e) == GD_OK);
    if (with_event) REQUIRE(t.event_wait(device, nullptr, event, &e) == GD_OK);
    const int64_t sizes[] = {500}, strides[] = {2};
    const gd_view in{0, from, GD_F32, 1, 0, sizes, strides},
        out{0, to, GD_F32, 1, 0, sizes, strides};
    const gd_call c{sizeof(gd_call), GD_COPY, 0,       1,       1, 0,      0, &in, &out,
                    nullptr,         nullptr, nullptr, nullptr, 0, nullptr};
    REQUIRE(t.slot[GD_COPY](device, nullptr, &c, &e) == GD_OK);
    REQUIRE(t.copy(device, nullptr, got.data(), to, 4000, GD_DEVICE_TO_HOST, &e) == GD_OK);
    t.event_del(device, event);
    t.stream_del(device, other);
    t.free(device, from);
    t.free(device, to);
    return got[998];
  };
  CHECK(last(true) == 1);
  CHECK(last(false) == 0);
}
