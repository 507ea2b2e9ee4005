// What a call costs through the C door: ops on 16 numbers, against the same calls from C++ with as
// much added as the door may take.
#include "benches/bench.hpp"
#include "bindings/c/gradus.h"
#include "ops/ops.hpp"

#include <cstdlib>

namespace gradus::inline v1::bench {
namespace {

constexpr int kCalls = 1000;     // in a bunch
constexpr double kDoor = 60e-9;  // seconds of a call above the C++ call

void must(gradus_status status) {
  if (status == GRADUS_OK) return;
  std::fprintf(stderr, "%s\n", gradus_last_error_text());
  std::exit(1);
}

struct Call {
  const char* name;
  gradus_status (*c)(gradus_tensor a, gradus_tensor b, gradus_op op, gradus_tensor* out);
  void (*cpp)(const Tensor& a, const Tensor& b);
};
const Call kOps[] = {
    {"gradus_exp",
     [](gradus_tensor a, gradus_tensor, gradus_op, gradus_tensor* out) {
       return gradus_exp(a, out);
     },
     [](const Tensor& a, const Tensor&) { exp(a); }},
    {"gradus_add",
     [](gradus_tensor a, gradus_tensor b, gradus_op, gradus_tensor* out) {
       return gradus_add(a, b, out);
     },
     [](const Tensor& a, const Tensor& b) { add(a, b); }},
    {"gradus_sum",
     [](gradus_tensor a, gradus_tensor, gradus_op, gradus_tensor* out) {
       return gradus_sum(a, nullptr, 0, 0, out);
     },
     [](const Tensor& a, const Tensor&) { sum(a); }},
    {"exp by its handle",
     [](gradus_tensor a, gradus_tensor, gradus_op op, gradus_tensor* out) {
       return gradus_call(op, &a, 1, nullptr, 0, out, 1, nullptr);
     },
     [](const Tensor& a, const Tensor&) { exp(a); }},
};

}  // namespace

void c_calls(Run& run) {
  const DeviceScope scope(run.device(1));
  const int64_t shape[] = {16};
  gradus_tensor a = 0, b = 0;
  gradus_op op = 0;
  must(gradus_ones(shape, 1, GRADUS_F32, &a));
  must(gradus_full(shape, 1, 2, GRADUS_F32, &b));
  must(gradus_op_find("exp", &op));
  const Tensor x = Tensor::full({16}, 1, DType::f32, run.device(1)),
               y = Tensor::full({16}, 2, DType::f32, run.device(1));
  for (const Call& one : kOps) {
    if (!run.wants(one.name)) continue;
    const Sampler cpp = own_time(
        [&] {
          for (int i = 0; i < kCalls; ++i) one.cpp(x, y);
        },
        kCalls, kDoor);
    const Sampler c = own_time(
        [&] {
          for (int i = 0; i < kCalls; ++i) {
            gradus_tensor out = 0;
            must(one.c(a, b, op, &out));
            must(gradus_free(out));
          }
        },
        kCalls);
    run.compare({one.name}, c, {{"C++ + 60 ns", cpp, at_least(1)}});
  }
  for (const int64_t handle : {a, b, op}) must(gradus_free(handle));
}

}  // namespace gradus::bench
