// to_device between devices of one table: past the host, bit for bit, in any layout.
#include "engine/capture/capture.hpp"
#include "tests/helpers/emulated_devices.hpp"
#include "tests/helpers/helpers.hpp"

using namespace gradus;
using gpu_test::emulated_device;

namespace {

// What a device's wrappers hear of copies.
class Heard : public KernelWrapper {
 public:
  explicit Heard(Device& device) : scope_(device, *this) {}
  gd_status call(const gd_call&, Next next, gd_error& error) override { return next(error); }
  void copied_in(void*, const void*, size_t, bool) override { ++from_host; }
  void unseen(const char* what) override { texts.push_back(what); }
  int from_host = 0;
  std::vector<std::string> texts;

 private:
  WrapperScope scope_;
};

std::vector<char> bytes_of(const Tensor& t) {
  std::vector<char> out(t.bytes());
  t.copy_to_host(out.data());
  return out;
}

// Sizes and strides of many kinds, from one tensor of (4, 6).
std::vector<Tensor> layouts(const Tensor& x) {
  return {x,
          x.alias({6, 4}, {1, 6}, 0),
          x.alias({2, 3}, {12, 2}, 7),
          x.alias({3, 4}, {-6, 1}, 13),
          x.alias({5, 4}, {0, 1}, 2),
          x.alias({}, {}, 23),
          x.alias({0, 3}, {3, 1}, 0),
          x.alias({2, 6}, {6, 1}, 12)};
}

}  // namespace

TEST_CASE("peer copies: every dtype and layout arrives bit for bit, and not by way of the host") {
  for (const auto& [from, to] : {std::pair{0, 1}, {0, 2}, {3, 1}}) {
    Device &a = emulated_device(from), &b = emulated_device(to);
    for (int32_t code = 0; code < GD_DTYPE_COUNT; ++code) {
      CAPTURE(a.name() + " " + b.name());
      CAPTURE(code);
      const Tensor numbers = cast(arange(-3, 21), DType(code));
      const Tensor x = to_device(numbers, a).alias({4, 6}, {6, 1}, 0);
      for (const Tensor& view : layouts(x)) {
        CAPTURE(to_text(view.sizes()) + to_text(view.strides()));
        const std::vector<char> wanted = bytes_of(view);
        const Heard on_a(a), on_b(b);
        const Tensor y = to_device(view, b);
        CHECK(&y.device() == &b);
        CHECK(y.is_contiguous());
        CHECK(y.dtype() == view.dtype());
        CHECK(y.sizes() == view.sizes());
        CHECK(on_a.from_host + on_b.from_host == 0);
        const std::vector<std::string> said{"values go from " + a.name() + " to " + b.name()};
        CHECK(on_a.texts == said);
        CHECK(on_b.texts == said);
        CHECK(bytes_of(y) == wanted);
      }
    }
  }
}

TEST_CASE("peer copies: neither side sees later writes of the other, and gradients come back") {
  Device &a = emulated_device(3), &b = emulated_device(2);  // whose streams work late
  const Tensor x = to_device(testing::f64({1, 2, 3}, {3}), a);
  const Tensor y = to_device(x, b);
  copy_(x, Tensor(7.0));
  CHECK(testing::values(y) == std::vector<double>{1, 2, 3});
  copy_(y, Tensor(9.0));
  CHECK(testing::values(x) == std::vector<double>{7, 7, 7});

  const Tensor leaf = testing::leaf(to_device(testing::f64({1, 2, 3}, {3}), a));
  const Tensor there = to_device(leaf, b);
  CHECK(there.is_leaf());
  REQUIRE(there.requires_grad());
  backward(sum(there * there));
  CHECK(&there.grad().device() == &b);
  CHECK(!leaf.grad().defined());
  leaf.set_grad(to_device(there.grad(), a));
  CHECK(testing::values(leaf.grad()) == std::vector<double>{2, 4, 6});
  CHECK(testing::error_of([&] {
          to_device(leaf * 2.0, b);
        }).find("the history of a tensor ends at its device") != std::string::npos);
  CHECK(!to_device((leaf * 2.0).detach(), b).requires_grad());
  {
    const NoGrad off;
    CHECK(!to_device(leaf * 2.0, b).requires_grad());
  }
}

TEST_CASE("peer copies: a step with one is not captured, on either side, and says why") {
  Device &a = emulated_device(0), &b = emulated_device(1);
  const Tensor x = to_device(testing::f64({1, 2, 3}, {3}), a);
  for (Device* where : {&a, &b}) {
    const Captured step = capture(*where, [&] { return Tensors{to_device(x, b)}; });
    CHECK(!step);
    CHECK(step.why_not() == "values go from emu to emu:1");
    CHECK(testing::values(step.outputs()[0]) == std::vector<double>{1, 2, 3});
  }
}
