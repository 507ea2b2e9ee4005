// Memory that somebody else owns: read and written where it lies, refused where it would be left,
// given back once.
#include "engine/arithmetic.hpp"
#include "engine/capture/capture.hpp"
#include "tests/helpers/emulated_devices.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <array>
#include <limits>
#include <thread>

using namespace gradus;
using namespace gradus::testing;

namespace {

constexpr int64_t kLentMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLentLeast = std::numeric_limits<int64_t>::min();

Tensor lent(std::vector<double>& from, const Shape& sizes, const Shape& strides, int64_t offset,
            int* released = nullptr, const char* device = "cpu") {
  return Tensor::lend(from.data(), from.size() * 8, sizes, strides, offset, DType::f64,
                      open_device(device), [released] {
                        if (released) ++*released;
                      });
}

}  // namespace

TEST_CASE("lent memory: any strides are read, writes go where it lies") {
  for (const char* device : {"cpu", "reference"}) {
    CAPTURE(device);
    std::vector<double> a{1, 2, 3, 4, 5, 6};
    const auto view = [&](const Shape& sizes, const Shape& strides, int64_t offset) {
      return lent(a, sizes, strides, offset, nullptr, device);
    };
    CHECK(values(view({2, 3}, {3, 1}, 0)) == a);
    CHECK(values(view({3, 2}, {1, 3}, 0)) == std::vector<double>{1, 4, 2, 5, 3, 6});
    CHECK(values(view({6}, {-1}, 5)) == std::vector<double>{6, 5, 4, 3, 2, 1});
    CHECK(values(view({2, 2}, {0, 2}, 1)) == std::vector<double>{2, 4, 2, 4});
    CHECK(view({3, 0}, {1, 1}, 6).numel() == 0);
    const Tensor back = view({3}, {-2}, 5);
    mul_(back, Tensor(10.0));
    CHECK(a == std::vector<double>{1, 20, 3, 40, 5, 60});
    a[5] = 7;  // the owner writes, and is read
    CHECK(values(back) == std::vector<double>{7, 40, 20});
    const Tensor whole = view({6}, {1}, 0);
    add_(whole, Tensor(1.0));
    copy_(slice(whole, 0, 0, 2), view({2}, {0}, 2));
    CHECK(a == std::vector<double>{4, 4, 4, 41, 6, 8});
  }
}

TEST_CASE("lent memory: copies are copies, and what takes values does not take the memory") {
  std::vector<double> a{1, 2, 3};
  int released = 0;
  {
    const Tensor x = lent(a, {3}, {1}, 0, &released);
    const Tensor y = clone(x), z = Tensor::zeros({3}, DType::f64, open_device("cpu"));
    copy_(z, x);
    a[0] = 9;
    CHECK(values(y) == std::vector<double>{1, 2, 3});
    CHECK(values(z) == std::vector<double>{1, 2, 3});
    add_(x, Tensor(1.0));
    add_(y, Tensor(5.0));
    CHECK(a == std::vector<double>{10, 3, 4});
    CHECK(values(y) == std::vector<double>{6, 7, 8});
    CHECK(released == 0);
  }
  CHECK(released == 1);
}

TEST_CASE("lent memory: given back once, when the last that needs it is gone, on that thread") {
  std::vector<double> a{1, 2, 3, 4};
  int released = 0;
  const PoolStats before = open_device("cpu").pool().stats();
  Tensor x = lent(a, {2, 2}, {2, 1}, 0, &released);
  CHECK(open_device("cpu").pool().stats().live == before.live);
  x.set_requires_grad();
  Tensor row = select(x.detach(), 0, 1), y = sum(x * x);
  x = Tensor();
  CHECK(released == 0);
  backward(y);
  y = Tensor();
  CHECK(released == 0);
  std::thread other([last = std::exchange(row, Tensor())]() mutable { last = Tensor(); });
  other.join();
  CHECK(released == 1);
  const uint64_t id = lent(a, {4}, {1}, 0).storage().buffer_id();
  CHECK(lent(a, {4}, {1}, 0).storage().buffer_id() > id);
  CHECK(Tensor::empty({1}, DType::f64, open_device("cpu")).storage().buffer_id() > id);
}

TEST_CASE("lent memory: what leaves it is refused, whatever the numbers, and stays its owner's") {
  struct Row {
    Shape sizes, strides;
    int64_t offset;
  };
  std::vector<double> a(6);
  int released = 0;
  for (const Row& r : std::vector<Row>{{{7}, {1}, 0},
                                       {{6}, {1}, 1},
                                       {{6}, {1}, -1},
                                       {{3}, {-1}, 1},
                                       {{2, 3}, {4, 1}, 0},
                                       {{}, {}, 6},
                                       {{0}, {1}, 7},
                                       {{0}, {1}, -1},
                                       {{2}, {kLentMost}, 0},
                                       {{2}, {kLentLeast}, 0},
                                       {{3}, {kLentMost / 2 + 1}, 0},
                                       {{3, 3}, {kLentMost / 2, kLentMost / 2}, 0},
                                       {{3}, {kLentLeast / 2}, kLentMost},
                                       {{2, 2}, {kLentMost, kLentLeast}, 5},
                                       {{}, {}, kLentMost},
                                       {{1}, {1}, kLentLeast}}) {
    CAPTURE(r.offset);
    const std::string said = error_of([&] { lent(a, r.sizes, r.strides, r.offset, &released); });
    CHECK(said.find("leave the 48 bytes that are lent") != std::string::npos);
  }
  CHECK(error_of([&] { lent(a, {7}, {1}, 0); }) ==
        "lend: sizes (7,), strides (1,) and offset 0 of f64 leave the 48 bytes that are lent");
  CHECK(error_of([&] {
          lent(a, {2, 3}, {1}, 0, &released);
        }) == "lend: the sizes (2, 3) need as many strides, got (1,)");
  Device& cpu = open_device("cpu");
  auto* const odd = reinterpret_cast<char*>(a.data()) + 4;
  const auto release = [&] { ++released; };
  CHECK(error_of([&] { Tensor::lend(odd, 16, {2}, {1}, 0, DType::f64, cpu, release); }) ==
        "lend: data of f64 must be aligned to 8 bytes");
  CHECK(error_of([&] { Tensor::lend(nullptr, 8, {1}, {1}, 0, DType::f64, cpu, release); }) ==
        "lend: the data is null");
  CHECK(error_of([&] { Tensor::lend(odd, 12, {2}, {1}, 0, DType(-1), cpu, release); }) ==
        "lend: no such dtype");
  CHECK(error_of([&] { lent(a, {-1}, {1}, 0, &released); }) != "");
  CHECK(error_of([&] { lent(a, {kLentMost, 2}, {0, 0}, 0, &released); }) != "");
  CHECK(released == 0);
  CHECK(values(Tensor::lend(odd, 16, {2}, {1}, 0, DType::f32, cpu, release)).size() == 2);
  CHECK(Tensor::lend(nullptr, 0, {0}, {1}, 0, DType::f64, cpu, release).numel() == 0);
  CHECK(released == 2);
}

TEST_CASE("lent memory: a recorded step reads it anew, and lends none itself") {
  std::vector<double> a{1, 2};
  const Tensor x = lent(a, {2}, {1}, 0);
  Device& cpu = open_device("cpu");
  Captured step = capture(cpu, [&] { return Tensors{x * 2.0}; });
  REQUIRE(step.why_not() == "");
  a = {5, 6};
  CHECK(values(step.replay()[0]) == std::vector<double>{10, 12});
  const Captured lends = capture(cpu, [&] { return Tensors{lent(a, {2}, {1}, 0) * 2.0}; });
  CHECK(lends.why_not().find("memory from outside is lent") != std::string::npos);
}

TEST_CASE("lent memory: a GPU's own, given back after the work on it") {
  gd_device* handle = nullptr;
  gd_error e{};
  REQUIRE(gpu_test::emulator().open(2, "{}", &handle, &e) == GD_OK);  // works late
  Device& device = gpu_test::kept_device(gpu_test::emulator(), handle, "emu:2", 2);
  void* memory = nullptr;
  REQUIRE(device.table().alloc(handle, 32, &memory, &e) == GD_OK);
  Tensor x = Tensor::lend(memory, 32, {4}, {1}, 0, DType::f64, device, [&] {
    // Poison, in place of what the owner's free would do.
    std::fill_n(static_cast<double*>(memory), 4, -1.0);
  });
  fill_(x, Tensor(3.0));
  const Tensor y = x * 2.0;
  x = Tensor();
  CHECK(y.to_vector<double>() == std::vector<double>(4, 6.0));
  device.table().free(handle, memory);
}
