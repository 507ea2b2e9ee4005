// standardize where the op table cannot see: a device without the slot composes it, the fused
// derivative agrees with that of ops, and the statistics' own slopes are right.
#include "engine/random.hpp"
#include "kernels/reference/reference.hpp"
#include "ops/ops.hpp"
#include "tests/helpers/helpers.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace gradus;
using namespace gradus::testing;

namespace {

double farthest(const Tensor& a, const Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  const std::vector<double> x = values(a), y = values(b);
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) most = std::fmax(most, std::fabs(x[i] - y[i]));
  return most;
}

Device& without_slot() {
  static gd_table table = *reference::table();
  table.slot[GD_NORMALIZE] = nullptr;
  static Device* const device = [] {
    gd_device* handle = nullptr;
    gd_error error{};
    REQUIRE(table.open(0, "{}", &handle, &error) == GD_OK);
    return new Device(&table, 0, handle, "noslot");  // devices live for ever
  }();
  return *device;
}

// y and the gradients of x, weight and bias, on this device.
Tensors everything(Device& device, bool rms, bool create_graph) {
  const DeviceScope scope(device);
  manual_seed(3);
  Tensors in;
  for (const Shape& s : {Shape{6, 5, 7}, Shape{5, 1}, Shape{7}})
    in.push_back(uniform(s, -1, 1, DType::f64).set_requires_grad());
  const Standardized s = standardize(in[0], {0, 2}, in[1], in[2], 0.01, rms);
  Tensors out = grad({s.y}, in, {cos(s.y).detach()}, {.create_graph = create_graph});
  for (const Tensor& t : {s.y, s.mean, s.var}) out.push_back(t.detach());
  return out;
}

}  // namespace

TEST_CASE("standardize: a device without the slot composes the same") {
  Device& reference = open_device("reference");
  for (const bool rms : {false, true}) {
    const Tensors own = everything(reference, rms, false),
                  other = everything(without_slot(), rms, false);
    for (size_t i = 0; i < own.size(); ++i) CHECK(farthest(own[i], other[i]) < 1e-12);
  }
}

TEST_CASE("standardize: the fused derivative agrees with that of ops") {
  for (const char* name : {"cpu", "reference"})
    for (const bool rms : {false, true}) {
      const Tensors fused = everything(open_device(name), rms, false),
                    ops = everything(open_device(name), rms, true);
      for (size_t i = 0; i < fused.size(); ++i) CHECK(farthest(fused[i], ops[i]) < 1e-12);
    }
}

TEST_CASE("standardize: slopes of the mean and of the variance") {
  const Tensor x = Tensor::from(std::vector{1.0, 2.0, 4.0, 5.0}, {2, 2}).set_requires_grad();
  const Standardized s = standardize(x, {1}, {}, {}, 0.5);
  CHECK(farthest(s.mean, Tensor::from(std::vector{1.5, 4.5}, {2, 1})) == 0);
  CHECK(farthest(s.var, Tensor::from(std::vector{0.25, 0.25}, {2, 1})) == 0);
  const Tensor both =
      grad({s.mean, s.var}, {x}, {ones({2, 1}, DType::f64), ones({2, 1}, DType::f64)})[0];
  CHECK(farthest(both, Tensor::from(std::vector{0.0, 1.0, 0.0, 1.0}, {2, 2})) == 0);
  // of a constant alone, nothing
  const Standardized r = standardize(x, {1}, {}, {}, 0.5, true);
  CHECK(farthest(r.mean, zeros({2, 1}, DType::f64)) == 0);
  CHECK(farthest(r.var, Tensor::from(std::vector{2.5, 20.5}, {2, 1})) == 0);
}

TEST_CASE("standardize: weights of another dtype decide what it computes in") {
  const Tensor x = Tensor::from(std::vector{1.0, 3.0}, {2}), w = ones({2}, DType::c128);
  CHECK(standardize(cast(x, DType::f32), {}, ones({2}, DType::f64)).y.dtype() == DType::f64);
  CHECK(standardize(cast(x, DType::f16)).mean.dtype() == DType::f32);
  CHECK(standardize(x, {}, w).y.dtype() == DType::c128);
  CHECK(layer_norm(cast(x, DType::f16), {2}, ones({2})).dtype() == DType::f16);
}
