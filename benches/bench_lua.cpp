// What a call costs from a script: loops over ops on 16 numbers, against the same calls from C++
// with as much added as the binding may take.
#include "benches/bench.hpp"
#include "bindings/lua/script.hpp"
#include "ops/ops.hpp"

#include <fmt/format.h>

namespace gradus::inline v1::bench {
namespace {

constexpr int kCalls = 1000;         // in a bunch
constexpr double kBinding = 500e-9;  // seconds of a call above the C++ call

struct Call {
  const char* lua;
  void (*cpp)(const Tensor& a, const Tensor& b);
};
const Call kOps[] = {
    {"a + b", [](const Tensor& a, const Tensor& b) { a + b; }},
    {"a:add(b)", [](const Tensor& a, const Tensor& b) { add(a, b); }},
    {"a:exp()", [](const Tensor& a, const Tensor&) { exp(a); }},
    {"gradus.exp(a)", [](const Tensor& a, const Tensor&) { exp(a); }},
    {"a:sum()", [](const Tensor& a, const Tensor&) { sum(a); }},
    {"a:sum(1)", [](const Tensor& a, const Tensor&) { sum(a, {0}); }},
    {"a[3]", [](const Tensor& a, const Tensor&) { select(a, 0, 2); }},
};

}  // namespace

void lua_calls(Run& run) {
  const DeviceScope scope(run.device(1));
  lua::ScriptOptions options;
  options.device = &run.device(1);
  lua::Script script(options);
  script.run("a, b = gradus.ones(16), gradus.ones(16) * 2", "bench");
  const Tensor a = Tensor::full({16}, 1, DType::f32, run.device(1)),
               b = Tensor::full({16}, 2, DType::f32, run.device(1));
  for (const Call& op : kOps) {
    if (!run.wants(op.lua)) continue;
    script.run(fmt::format("local a, b, gradus = a, b, gradus "
                           "function loop() for i = 1, {} do local y = {} end end",
                           kCalls, op.lua),
               "bench");
    const Sampler cpp = own_time(
        [&] {
          for (int i = 0; i < kCalls; ++i) op.cpp(a, b);
        },
        kCalls, kBinding);
    run.compare({op.lua}, own_time([&] { script.run("loop()", "bench"); }, kCalls),
                {{"C++ + 500 ns", cpp, at_least(1)}});
  }
}

}  // namespace gradus::bench
