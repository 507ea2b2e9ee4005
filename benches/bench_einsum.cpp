// The contractions of TCCG through einsum, against torch.einsum, which permutes, multiplies
// matrices and permutes back. f64, the work brought down so that a call takes some ten
// milliseconds.
#include "benches/cases.hpp"
#include "benches/peers.hpp"
#include "engine/random.hpp"
#include "ops/einsum/einsum.hpp"
#include "ops/ops.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace gradus::bench {
namespace {

constexpr double kFlops = 3e8;

void einsum_row(Run& run, const Contraction& c, int threads) {
  const std::string equation = c.equation;
  if (!run.wants(equation)) return;
  const DeviceScope scope(run.device(threads));
  manual_seed(1);
  const auto extents = c.extents(false, kFlops);
  double flops = 2;
  for (const auto& [label, n] : extents) flops *= double(n);
  Tensors in;
  std::string setup = "a = []\n";
  Shape shape;
  for (const char label : equation.substr(0, equation.find('-')) + ",") {
    if (label != ',') {
      shape.push_back(extents.at(label));
      continue;
    }
    in.push_back(uniform(shape, -1, 1, DType::f64));
    setup +=
        fmt::format("a.append(torch.rand([{}], dtype=torch.float64))\n", fmt::join(shape, ", "));
    shape = {};
  }
  run.compare(
      {equation, threads, flops, "GFLOP/s", "tccg"}, [&] { einsum(equation, in); },
      torch_peers(threads, setup, "torch.einsum('" + equation + "', *a)"));
}

}  // namespace

void einsums(Run& run) {
  for (const int threads : run.threads())
    for (const Contraction& c : tccg()) einsum_row(run, c, threads);
  run.geometric_mean("tccg", at_least(1.5));
}

}  // namespace gradus::bench
