// Tensor, dtype promotion, pool, copy-on-write, ledger: the engine below the graph.
#include "tests/helpers/helpers.hpp"

#include "engine/capture/ledger.hpp"
#include "engine/abi/user_dtype.hpp"
#include "bindings/cpp/xtensor.hpp"
#include "ops/base/dtypes.hpp"

#include <cstdlib>

using namespace gradus;
using namespace gradus::testing;

TEST_CASE("half types round to nearest even and keep specials") {
  CHECK(float(Half(1.0f)) == 1.0f);
  CHECK(float(Half(65504.0f)) == 65504.0f);
  CHECK(std::isinf(float(Half(65520.0f))));
  CHECK(float(Half(2049.0f)) == 2048.0f);  // tie to even
  CHECK(float(Half(2051.0f)) == 2052.0f);
  CHECK(float(Half(5.9604644775390625e-8f)) == 5.9604644775390625e-8f);
  CHECK(float(Half(2e-8f)) == 0.0f);
  CHECK(std::signbit(float(Half(-0.0f))));
  CHECK(std::isnan(float(Half(NAN))));
  CHECK(float(BFloat16(1.00390625f)) == 1.0f);  // tie to even
  CHECK(float(BFloat16(1.01171875f)) == 1.015625f);
  CHECK(std::isnan(float(BFloat16(NAN))));
  for (uint32_t b = 0; b < 65536; ++b) {  // every finite half survives the round trip
    Half h;
    h.bits = uint16_t(b);
    if ((b & 0x7c00u) == 0x7c00u && (b & 0x3ffu)) continue;
    REQUIRE(Half(float(h)).bits == h.bits);
  }
}

TEST_CASE("promotion is PyTorch's") {
  const Tensor dim32 = f32({1, 2}, {2}), zero64 = f64({1}, {}), whole = i64({1, 2}, {2});
  CHECK((dim32 + zero64).dtype() == DType::f32);
  CHECK((dim32 + 1.5).dtype() == DType::f32);
  CHECK((whole + 1.5).dtype() == DType::f32);
  CHECK((whole + 1).dtype() == DType::i64);
  CHECK((whole + zero64).dtype() == DType::f64);
  CHECK((dim32 + Tensor::full({}, 1.0, DType::c128)).dtype() == DType::c64);
  CHECK((zero64 + Tensor::from(std::vector<c64>{{1, 2}}, {1})).dtype() == DType::c64);
  CHECK((whole + dim32).dtype() == DType::f32);
  CHECK((whole / 2).dtype() == DType::f32);
  CHECK(values(whole / 2) == std::vector<double>{0.5, 1});
  CHECK(sum(cast(whole, DType::u8)).dtype() == DType::i64);
  CHECK(exp(whole).dtype() == DType::f32);
  CHECK(lt(whole, 2).dtype() == DType::bool_);
  CHECK(promote(DType::f16, DType::bf16) == DType::f32);
  CHECK(promote(DType::f64, DType::c64) == DType::c128);
  CHECK(promote(DType::i64, DType::f16) == DType::f16);
  CHECK(promote(DType::u8, DType::i32) == DType::i32);
  CHECK((cast(dim32, DType::f16) * 3.0).dtype() == DType::f16);
}

TEST_CASE("promotion sends gradients back in each operand's dtype") {
  const Tensor a = leaf(f32({1, 2}, {2})), b = leaf(f64({3, 4}, {2}));
  backward(sum(a * b));
  CHECK(a.grad().dtype() == DType::f32);
  CHECK(values(a.grad()) == std::vector<double>{3, 4});
  CHECK(b.grad().dtype() == DType::f64);
  const Tensor z = Tensor::from(std::vector<c128>{{0, 1}, {2, 3}}, {2});
  const Tensor r = leaf(f64({1, 2}, {2}));
  backward(sum(real(r * z)));
  CHECK(r.grad().dtype() == DType::f64);
  CHECK(values(r.grad()) == std::vector<double>{0, 2});
}

TEST_CASE("views share storage; geometry is numpy's") {
  const Tensor x =
      reshape(cast(i64({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {12}), DType::f64), {3, 4});
  const Tensor t = transpose(x, 0, 1);
  CHECK(t.storage().data() == x.storage().data());
  CHECK(values(slice(x, 1, 3, kEnd, -2)) == std::vector<double>{3, 1, 7, 5, 11, 9});
  CHECK(values(slice(x, 0, -1)) == std::vector<double>{8, 9, 10, 11});
  CHECK(values(select(x, 1, -1)) == std::vector<double>{3, 7, 11});
  CHECK(values(diagonal(x, 1)) == std::vector<double>{1, 6, 11});
  CHECK(values(flip(x, {0})) == std::vector<double>{8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3});
  CHECK(reshape(t, {2, 6}).storage().data() != x.storage().data());
  CHECK(values(reshape(t, {12})) == std::vector<double>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(reshape(x, {2, 3, -1}).sizes() == Shape{2, 3, 2});
  CHECK(reshape(slice(x, 0, 0, 2), {8}).storage().data() == x.storage().data());
  CHECK(expand(slice(x, 0, 0, 1), {5, 4}).strides()[0] == 0);
  CHECK(error_of([&] {
          reshape(x, {5, -1});
        }) == "reshape: (3, 4) (12 elements) does not fit (5, -1)");
  CHECK(error_of([&] { select(x, 0, 3); }) == "select: index 3 of axis 0 with size 3");
  CHECK(error_of([&] { permute(x, {0, 0}); }) == "permute: axis 0 is given twice");
  CHECK(error_of([&] { sum(x, {2}); }) == "sum: axis 2 of a tensor with 2 axes; expected -2 to 1");
}

TEST_CASE("shape errors name op, shapes and axis") {
  CHECK(error_of([] {
          add(f64({1, 2, 3}, {3}), f64({1, 2, 3, 4}, {4}));
        }) == "add: shapes (3,) and (4,) do not broadcast: 3 against 4 on axis -1");
  CHECK(error_of([] {
          matmul(Tensor::zeros({32, 784}, DType::f32), Tensor::zeros({128, 784}, DType::f32));
        }) == "matmul: inner sizes differ: a is (32, 784), b is (128, 784); did you mean b.T?");
  CHECK(error_of([] {
          Tensor::empty({int64_t(1) << 40, int64_t(1) << 40}, DType::f32);
        }).find("overflows") != std::string::npos);
}

TEST_CASE("shapes whose strides or bytes overflow are refused, empty ones too") {
  const int64_t huge = int64_t(1) << 62;
  const std::string wrong = "the product of the sizes (0, 4611686018427387904, 4) overflows";
  CHECK(error_of([&] { Tensor::empty({0, huge, 4}, DType::f32); }) == "shape: " + wrong);
  CHECK(error_of([&] { contiguous_strides({0, huge, 4}); }) == "shape: " + wrong);
  const Tensor none = Tensor::empty({0}, DType::f32);
  CHECK(error_of([&] { reshape(none, {0, huge, 4}); }).find(wrong) != std::string::npos);
  CHECK(error_of([&] { reshape(none, {huge, 4, 0}); }).find("overflows") != std::string::npos);
  CHECK(error_of([&] {
          expand(reshape(none, {0, 1, 1}), {0, huge, 4});
        }).find(wrong) != std::string::npos);
  CHECK(Tensor::empty({0, int64_t(1) << 50, 4}, DType::f32).strides() ==
        Shape{int64_t(1) << 52, 4, 1});
  const DType wide = add_dtype({"test_wide", 64, "cpu", nullptr});
  CHECK(error_of([&] { Tensor::empty({int64_t(1) << 58}, wide); }).find("impossible size") !=
        std::string::npos);
}

TEST_CASE("the pool: reuse, limit, largest holders") {
  static char memory[1 << 22];
  static size_t used;
  used = 0;
  Pool pool({nullptr,
             [](void*, size_t n) -> void* {
               if (used + n > sizeof memory) return nullptr;
               void* p = memory + used;
               used += n;
               return p;
             },
             [](void*, void*) {}},
            "test:0");
  const Pool::Block a = pool.allocate(1000);
  CHECK(pool.stats().live == 1024);
  pool.release(a);
  CHECK(pool.stats().cached == 1024);
  const Pool::Block b = pool.allocate(980);
  CHECK(b.data == a.data);
  CHECK(pool.stats().raw_allocations == 1);
  pool.set_limit(4096);
  std::string message;
  {
    CurrentOp op("matmul");
    const Pool::Block c = pool.allocate(2048);
    message = error_of([&] { pool.allocate(2048); });
    pool.release(c);
  }
  CHECK(message ==
        "matmul: needs 2 KiB on test:0 but the limit leaves no room: 3 KiB live of a limit of "
        "4 KiB; largest holders: matmul 2 KiB, data 1 KiB");
  pool.release(b);
}

TEST_CASE("a memory limit stops the op that goes over it, and nothing is lost") {
  Device& device = default_device();
  const size_t before = device.pool().limit();
  const Tensor x = Tensor::zeros({1 << 18}, DType::f32);
  device.pool().set_limit(device.pool().stats().live + (size_t(1) << 20));
  const std::string message = error_of([&] { exp(expand(x, {64, 1 << 18})); });
  device.pool().set_limit(before);
  CHECK(message.find("exp: needs 64 MiB") == 0);
  CHECK(exp(x).numel() == 1 << 18);
}

TEST_CASE("the ledger counts calls and bytes by op") {
  const Tensor x = f32({1, 2, 3, 4}, {4});
  Ledger ledger(default_device());
  const Tensor y = exp(x * x);
  CHECK(ledger.by_op().at("mul").calls == 1);
  CHECK(ledger.by_op().at("mul").bytes == 48);
  CHECK(ledger.by_op().at("exp").bytes == 32);
  CHECK(ledger.total().calls == 2);
  CHECK(ledger.live_bytes() == 16);
  CHECK(ledger.peak_bytes() == 32);
  CHECK(ledger.to_string().find("total") != std::string::npos);
}

TEST_CASE("the bridge to xtensor copies nothing one way and everything the other") {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto v = as_xtensor<double>(transpose(x, 0, 1));
  CHECK(v(2, 1) == 6);
  CHECK(v(0, 1) == 4);
  const Tensor y = from_xtensor(v * 2.0);
  CHECK(y.sizes() == Shape{3, 2});
  CHECK(values(y) == std::vector<double>{2, 8, 4, 10, 6, 12});
}

TEST_CASE("printing") {
  CHECK(f64({1, 2, 3, 4.5}, {2, 2}).to_string() == "[[  1,   2],\n [  3, 4.5]]");
  CHECK(i64({1, 2, 3, 4, 5, 6, 7, 8, 9}, {9}).to_string() == "[1, 2, 3, ..., 7, 8, 9]");
  CHECK(f64({7}, {}).to_string() == "7");
  CHECK(Tensor::zeros({0, 2}, DType::f32).to_string() == "[]");
}

TEST_CASE("complex division: no overflow on the way, finite over infinite is 0") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK((c128(1, 1) / c128(inf, -inf)) == c128(0, 0));
  CHECK((c128(1, 1) / c128(1e300, 1e300)) == c128(1e-300, 0));
  const Tensor z = Tensor::from(std::vector<c128>{{-1000, 1}}, {1});
  CHECK(sigmoid(z).to_vector<c128>()[0] == c128(0, 0));
}

TEST_CASE("sizes and strides that overflow are refused, not followed") {
  const Tensor x = f64({1, 2, 3, 4, 5}, {5});
  CHECK(error_of([&] { pad(x, {INT64_MAX, INT64_MAX}); }).find("overflow") != std::string::npos);
  CHECK(values(slice(x, 0, 0, kEnd, INT64_MAX)) == std::vector<double>{1});
  CHECK(values(slice(x, 0, 4, kEnd, INT64_MIN)) == std::vector<double>{5});
  auto strided = [&](const Ints& size, const Ints& stride, int64_t offset) {
    return error_of([&] { get_op("as_strided").call(Tensors{x}, {size, stride, offset}); });
  };
  CHECK(strided({1025}, {int64_t(1) << 54}, 0).find("reach outside a tensor with 5 elements") !=
        std::string::npos);
  CHECK(strided({2}, {1}, INT64_MAX).find("reach outside") != std::string::npos);
  CHECK(strided({2}, {INT64_MIN}, 0).find("reach outside") != std::string::npos);
}

TEST_CASE("copies between views of one tensor, clones of expanded ones") {
  const Tensor x = cumsum(Tensor::full({5000}, 1.0, DType::f64), 0);
  copy_(x, flip(x, {0}));
  const std::vector<double> v = values(x);
  bool reversed = true;
  for (size_t i = 0; i < v.size(); ++i) reversed &= v[i] == double(5000 - i);
  CHECK(reversed);
  const Tensor c = clone(expand(f64({1}, {1}), {3}));
  copy_(c, f64({1, 2, 3}, {3}));
  CHECK(values(c) == std::vector<double>{1, 2, 3});
}

TEST_CASE("integers: printing, numbers, fractional bounds") {
  CHECK(i64({INT64_MAX, 9007199254740993}, {2}).to_string() ==
        "[9223372036854775807,    9007199254740993]");
  CHECK(Tensor(3.0).item_integer() == 3);
  CHECK(values(clamp(i64({1, 2, 5}, {3}), 1.5, 4.5)) == std::vector<double>{1.5, 2, 4.5});
  CHECK(error_of([] {
          tensordot(f64({1, 1, 1, 1}, {2, 2}), f64({1, 1}, {2}), {0, 1}, {0, 0});
        }) == "tensordot: axis 0 is given twice");
  CHECK(error_of([] { argmax(f64({1}, {}), 7); }).find("argmax: axis 7") == 0);
}

TEST_CASE("printing complex numbers, NaN and 16-bit floats") {
  const Tensor z = Tensor::from(std::vector<c128>{{1, 2}, {-0.5, -3}}, {2});
  CHECK(z.to_string() == "[   1+2i, -0.5-3i]");
  CHECK(f64({-std::nan("")}, {1}).to_string() == "[nan]");
  CHECK(cast(f64({0.5}, {1}), DType::f16).to_string() == "[0.5]");
}
