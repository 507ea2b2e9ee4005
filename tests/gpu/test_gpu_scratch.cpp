// Memory that a GPU's kernels need beside a call's operands: it is the pool's, so limits and counts
// hold for it, and a call that does not get it has done nothing.
#include "engine/capture/capture.hpp"
#include "engine/capture/ledger.hpp"
#include "ops/ops.hpp"
#include "tests/helpers/emulated_devices.hpp"
#include "tests/helpers/gpu_libraries.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/io_helpers.hpp"

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

}  // namespace

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
  static gradus::Device& device = *new gradus::Device(&table, 0, handle, "emu-lt");
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
