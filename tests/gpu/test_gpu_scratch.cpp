// Memory that a GPU's kernels need beside a call's operands: it is the pool's, so limits and counts
// hold for it, and a call that does not get it has done nothing.
#include "engine/capture/capture.hpp"
#include "engine/capture/ledger.hpp"
#include "ops/ops.hpp"
#include "tests/helpers/emulated_devices.hpp"
#include "tests/helpers/gpu_libraries.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <atomic>
#include <chrono>
#include <future>

using namespace gradus;

namespace {

constexpr size_t kMiB = 1 << 20;

// Turned around: sorting it moves every number.
Tensor falling(int64_t n, Device& device) {
  const DeviceScope scope(device);
  return mul(arange(0, double(n), 1, DType::f32), -1.0);
}
bool rises(const Tensor& x) {
  const std::vector<float> v = x.to_vector<float>();
  return std::is_sorted(v.begin(), v.end());
}

// A device whose raw allocations of more than `most` bytes fail; how many bytes it has given out.
struct Scarce {
  static inline size_t most = SIZE_MAX, given = 0;
  static Device& device() {
    static gd_table table = [] {
      gd_table t = gpu_test::emulator();
      t.alloc = [](gd_device* d, size_t bytes, void** out, gd_error* e) -> gd_status {
        if (bytes > most) {
          std::snprintf(e->text, sizeof e->text, "none left");
          return e->code = GD_OOM;
        }
        given += bytes;
        return gpu_test::emulator().alloc(d, bytes, out, e);
      };
      return t;
    }();
    static Device& made = gpu_test::emulated_device(0, table);
    return made;
  }
};

// A table that notes with how much scratch memory a slot is called, and has sorting want as much as
// `wants` says, one after the other.
struct Noted {
  static inline std::vector<uint64_t> given;
  static inline std::vector<int64_t> wants;
  template <gd_slot Slot>
  static gd_status slot(gd_device* d, gd_stream* s, const gd_call* call, gd_error* e) {
    given.push_back(call->scratch_bytes);
    if (Slot == GD_SORT)
      for (const int64_t bytes : wants)
        if (call->scratch_bytes < uint64_t(bytes)) {
          e->wanted = bytes;
          return e->code = GD_SCRATCH;
        }
    return gpu_test::emulator().slot[Slot](d, s, call, e);
  }
  static const gd_table& table() {
    static const gd_table made = [] {
      gd_table t = gpu_test::emulator();
      t.slot[GD_SORT] = slot<GD_SORT>;
      t.slot[GD_CONTRACT] = slot<GD_CONTRACT>;
      return t;
    }();
    return made;
  }
};

}  // namespace

TEST_CASE("gpu scratch: a call that wants more when it has some is given that") {
  static Device& device = gpu_test::emulated_device(0, Noted::table());
  const Tensor x = falling(1000, device);
  const size_t live = device.pool().stats().live;
  Noted::given.clear();
  Noted::wants = {1 << 20, 3 << 20};
  CHECK(rises(sort(x)[0]));
  CHECK(Noted::given == std::vector<uint64_t>{0, 1 << 20, 3 << 20});
  CHECK(device.pool().stats().live == live);
  Noted::wants.clear();
}

TEST_CASE("gpu scratch: a library that refuses late leaves the call to who wants more") {
  using namespace library_test;
  const Library& library = cublaslt();
  gd_error error{};
  gd_device* handle = nullptr;
  REQUIRE(Noted::table().open(0, gemm(library.path).c_str(), &handle, &error) == GD_OK);
  gradus::Device& device = gpu_test::kept_device(Noted::table(), handle, "emu-refused");
  const Tensor a = Tensor::full({64, 4096}, 1.0, DType::f32, device);
  const Tensor b = Tensor::full({4096, 64}, 0.5, DType::f32, device);
  Noted::given.clear();
  library.state->workspace_wanted = 256;
  library.state->fail_run = 15;  // NOT_SUPPORTED
  const Tensor y = matmul(a, b);
  library.state->workspace_wanted = library.state->fail_run = 0;
  REQUIRE(Noted::given.size() == 3);
  CHECK(Noted::given[0] == 0);
  CHECK(Noted::given[1] == 256);
  CHECK(Noted::given[2] > 256);
  CHECK(y.to_vector<float>() == std::vector<float>(64 * 64, 2048));
}

TEST_CASE("gpu scratch: that of a captured step grows where a call comes to want more") {
  static Device& device = gpu_test::emulated_device(0, Noted::table());
  const Tensor x = falling(1000, device);
  Noted::wants = {1 << 20};
  Captured step = capture(device, [&] { return Tensors{sort(x)[0]}; });
  REQUIRE_MESSAGE(step, step.why_not());
  CHECK(rises(step.replay()[0]));
  Noted::wants = {5 << 20};
  Noted::given.clear();
  CHECK(rises(step.replay()[0]));
  CHECK(Noted::given == std::vector<uint64_t>{1 << 20, 5 << 20});
  Noted::given.clear();
  copy_(x, mul(x, 2.0));
  const Tensor y = step.replay()[0];
  CHECK(rises(y));
  CHECK(y.to_vector<float>()[0] == -1998);
  for (const uint64_t bytes : Noted::given) CHECK(bytes == 5 << 20);  // asks no more
  Noted::wants.clear();
}

TEST_CASE("gpu: while one thread records a graph, calls of the others wait for its end") {
  const gd_table& table = gpu_test::emulator();
  gd_error error{};
  gd_device* device = nullptr;
  REQUIRE(table.open(0, "{}", &device, &error) == GD_OK);
  gpu_test::kept_device(table, device, "emu-records");
  REQUIRE(table.capture_begin(device, nullptr, &error) == GD_OK);
  std::atomic<bool> ended = false, early = false;
  auto other = std::async(std::launch::async, [&] {  // it records one of its own
    gd_error e{};
    const gd_status begun = table.capture_begin(device, nullptr, &e);
    early = !ended;
    void* graph = nullptr;
    const bool well = begun == GD_OK && table.capture_end(device, nullptr, &graph, &e) == GD_OK;
    table.graph_del(device, graph);
    return well;
  });
  other.wait_for(std::chrono::milliseconds(100));
  ended = true;
  void* graph = nullptr;
  CHECK(table.capture_end(device, nullptr, &graph, &error) == GD_OK);
  CHECK(other.get());
  CHECK_FALSE(early);
  table.graph_del(device, graph);
}

TEST_CASE("gpu scratch: it counts against the limit, and goes back") {
  Device& device = Scarce::device();
  const Tensor x = falling(200000, device);
  const size_t live = device.pool().stats().live;
  device.pool().reset_peak();
  const Tensor y = sort(x)[0];
  const size_t with = device.pool().stats().peak - live;
  CHECK(with > 2 * 16 * 200000);  // two keys of 16 bytes for each number
  CHECK(device.pool().stats().live - live <= y.bytes() + kMiB);
  CHECK(rises(y));

  device.pool().set_limit(device.pool().stats().live + 4 * kMiB);
  const std::string said = test::error_text(ErrorKind::memory, [&] { sort(x); });
  device.pool().set_limit(0);
  CHECK(said.find("argsort: needs ") == 0);
  CHECK(said.find("the limit leaves no room") != std::string::npos);
  CHECK(rises(sort(x)[0]));
}

TEST_CASE("gpu scratch: a call that gets none has written nothing") {
  Device& device = Scarce::device();
  const int64_t n = 300000;
  const Tensor sum = Tensor::full({4}, 1.0, DType::f32, device);
  const Tensor index = Tensor::zeros({n}, DType::i64, device);
  const Tensor ones = Tensor::full({n}, 1.0, DType::f32, device);
  const auto add_all = [&] { return scatter_add(sum, 0, index, ones).to_vector<float>(); };
  const auto wanted = std::vector<float>{float(n) + 1, 1, 1, 1};
  device.pool().trim();
  Scarce::most = 4 * kMiB;
  const std::string said = test::error_text(ErrorKind::memory, [&] { add_all(); });
  Scarce::most = SIZE_MAX;
  CHECK(said.find("scatter_add: needs ") == 0);
  CHECK(said.find("the device leaves no room") != std::string::npos);
  CHECK(add_all() == wanted);
  CHECK(sum.to_vector<float>() == std::vector<float>(4, 1));
}

TEST_CASE("gpu scratch: a captured step keeps what it needs, graph or not") {
  Device& device = Scarce::device();
  const Tensor x = falling(70000, device), y = falling(140000, device);
  const size_t live = device.pool().stats().live;
  {
    Captured step = capture(device, [&] { return Tensors{sort(x)[0], sort(y)[0]}; });
    REQUIRE_MESSAGE(step, step.why_not());
    Tensors out;
    const size_t given = Scarce::given;
    for (int k = 0; k < 5; ++k) {
      const Tensor noise = falling(400000, device);  // where scratch memory of a call could lie
      copy_(x, mul(falling(70000, device), double(k + 1)));
      out = step.replay();
      CHECK(rises(out[0]));
      CHECK(out[0].to_vector<float>()[0] == float(-69999.0 * (k + 1)));
      CHECK(rises(out[1]));
    }
    CHECK(Scarce::given - given < 40 * kMiB);
    CHECK(device.pool().stats().live - live > 2 * 16 * 140000);
  }
  CHECK(device.pool().stats().live - live <= kMiB);
}

TEST_CASE("gpu scratch: a library's workspace is of the pool, and the ledger tells who computed") {
  using namespace library_test;
  const Library& library = cublaslt();
  static gd_table table = emulator();
  gd_error error{};
  gd_device* handle = nullptr;
  const std::string options = gemm(library.path);
  REQUIRE(table.open(0, options.c_str(), &handle, &error) == GD_OK);
  gradus::Device& device = gpu_test::kept_device(table, handle, "emu-lt");
  CHECK(device.libraries().find("cuBLASLt") == 0);
  CHECK(device.libraries().find(library.path) != std::string::npos);
  CHECK(device.libraries().find("cuTENSOR or hipTensor: ") != std::string::npos);

  const Tensor a = Tensor::full({256, 256}, 1.0, DType::f32, device);
  const Tensor small = Tensor::full({2, 2}, 1.0, DType::f32, device);
  library.state->workspace_wanted = 3 << 20;
  device.pool().reset_peak();
  const size_t live = device.pool().stats().live;
  const Ledger ledger(device);
  matmul(a, a);
  library.state->workspace_wanted = 0;
  CHECK(device.pool().stats().peak - live >= size_t(3) << 20);
  matmul(small, small);
  CAPTURE(ledger.to_string());
  CHECK(ledger.by_op().count("contract (gemm-library)") == 1);
  CHECK(ledger.by_op().count("contract (direct)") == 1);
}
