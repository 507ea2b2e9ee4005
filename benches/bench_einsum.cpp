// Contractions through einsum against torch.einsum, which permutes, multiplies matrices and
// permutes back: those of TCCG in f64, the work brought down so that a call takes some ten
// milliseconds; and products of many small matrices whose batch axis lies last in memory, also
// against the same with the batch first.
#include "benches/cases.hpp"
#include "benches/peers.hpp"
#include "engine/random.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/ops.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::bench {
namespace {

constexpr double kFlops = 3e8;

using Extents = std::map<char, int64_t>;

// The operands of an equation, here and in Python.
struct Operands {
  Tensors here;
  std::string python = "a = []\n";
  double flops = 2;

  Operands(const std::string& equation, const Extents& extents, DType dtype) {
    manual_seed(1);
    for (const auto& [label, n] : extents) flops *= double(n);
    Shape shape;
    for (const char label : equation.substr(0, equation.find('-')) + ",") {
      if (label != ',') {
        shape.push_back(extents.at(label));
        continue;
      }
      here.push_back(uniform(shape, -1, 1, dtype));
      python += fmt::format("a.append(torch.rand([{}], dtype=torch.{}))\n", fmt::join(shape, ", "),
                            dtype == DType::f32 ? "float32" : "float64");
      shape = {};
    }
  }
};

void tccg_row(Run& run, const Contraction& c, int threads) {
  const std::string equation = c.equation;
  if (!run.wants(equation)) return;
  const DeviceScope scope(run.device(threads));
  const Operands in(equation, c.extents(false, kFlops), DType::f64);
  run.compare(
      {equation, threads, in.flops, "GFLOP/s", "tccg"}, [&] { einsum(equation, in.here); },
      torch_peers(threads, in.python, "torch.einsum('" + equation + "', *a)"));
}

// "ijb,jkb->ikb": b is brought to the front for the one peer.
void batch_last_row(Run& run, const std::string& equation, const Extents& extents, DType dtype,
                    bool large, int threads) {
  std::string name = std::string("batch last ") + dtype_name(dtype) + " " + equation, first;
  for (const auto& [label, n] : extents) name += fmt::format(" {}", n);
  if (!run.wants(name)) return;
  for (const char c : "," + equation) {
    if (c == 'b') continue;
    first += c;
    if (c == ',' || c == '>') first += 'b';
  }
  first = first.substr(1);
  const DeviceScope scope(run.device(threads));
  const Operands in(equation, extents, dtype), moved(first, extents, dtype);
  const auto ours = [&] { einsum(equation, in.here); };
  run.compare(
      {name, threads, in.flops, "GFLOP/s", ""}, ours,
      {peer(
          "batch first", [&] { einsum(first, moved.here); }, large ? at_least(0.7) : Target{})});
  run.compare({name, threads, in.flops, "GFLOP/s", "batch last"}, ours,
              torch_peers(threads, in.python, "torch.einsum('" + equation + "', *a)"));
}

}  // namespace

void einsums(Run& run) {
  for (const int threads : run.threads())
    for (const Contraction& c : tccg()) tccg_row(run, c, threads);
  run.geometric_mean("tccg", at_least(1.5));
  for (const int threads : run.threads())
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto square = [&](const char* equation, int64_t n, int64_t b, bool large) {
        batch_last_row(run, equation, {{'b', b}, {'i', n}, {'j', n}, {'k', n}}, dtype, large,
                       threads);
      };
      square("ijb,jkb->ikb", 4, 65536, false);
      square("ijb,jkb->ikb", 8, 1000, false);
      square("ijb,jkb->ikb", 32, 16, false);
      square("ijb,jkb->ikb", 64, 64, true);
      square("ijb,jkb->ikb", 128, 4, true);
      square("ijb,jkb->ikb", 128, 16, true);
      square("ijb,bjk->ikb", 64, 64, false);
      square("bij,bjk->ikb", 64, 64, false);
      for (const int64_t b : {64, 1000})
        batch_last_row(run, "ijb,jb->ib", {{'b', b}, {'i', 64}, {'j', 64}}, dtype, false, threads);
    }
  run.geometric_mean("batch last", at_least(1.5));
}

}  // namespace gradus::bench
