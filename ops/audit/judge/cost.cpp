// Costs from a view; peaks from two kernels.
#include "ops/audit/judge/cost.hpp"
#include "engine/kernel_call.hpp"

#include "ops/contract/contraction.hpp"

#include <algorithm>
#include <chrono>

namespace gradus::inline v1::audit {

namespace {

constexpr double kSeconds = 0.08;     // for each peak
constexpr size_t kCopied = 64 << 20;  // bytes, more than caches hold

// The fastest run of several.
template <class F>
double fastest(Device& device, const F& f) {
  const auto now = std::chrono::steady_clock::now;
  const auto seconds = [&](auto since) {
    return std::chrono::duration<double>(now() - since).count();
  };
  const auto begin = now();
  double least = 0;
  do {
    const auto start = now();
    f();
    if (!device.host_memory()) device.synchronize();
    const double s = seconds(start);
    least = least == 0 ? s : std::min(least, s);
  } while (seconds(begin) < kSeconds);
  return least;
}

}  // namespace

MachinePeaks measure_peaks(Device& device, DType dtype) {
  const NoGrad off;
  MachinePeaks peaks;
  peaks.dtype = is_floating(dtype) ? dtype : DType::f32;
  const double flops_of_one = is_complex(peaks.dtype) ? 8 : 2;
  // Larger matrices while they are quick: a GPU is not busy with small ones.
  double seconds = 0;
  for (peaks.matrix = 64; peaks.matrix < 8192 && seconds < 2e-3; peaks.matrix *= 2) {
    const Tensor a = Tensor::full({peaks.matrix * 2, peaks.matrix * 2}, 0.5, peaks.dtype, device);
    const auto start = std::chrono::steady_clock::now();
    matmul(a, a);
    if (!device.host_memory()) device.synchronize();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const Tensor a = Tensor::full({peaks.matrix, peaks.matrix}, 0.5, peaks.dtype, device);
  const double n = double(peaks.matrix);
  peaks.flops = flops_of_one * n * n * n / fastest(device, [&] { matmul(a, a); });

  peaks.copied = kCopied;
  if (const size_t limit = device.pool().limit()) {
    const size_t live = device.pool().stats().live;
    peaks.copied = std::min(peaks.copied, limit > live ? (limit - live) / 4 : 0);
  }
  const Shape sizes{std::max<int64_t>(int64_t(peaks.copied / itemsize(peaks.dtype)), 1)};
  const Tensor from = Tensor::full(sizes, 0.5, peaks.dtype, device);
  const Tensor to = Tensor::zeros(sizes, peaks.dtype, device);
  const double bytes = 2 * double(sizes[0]) * double(itemsize(peaks.dtype));
  peaks.bytes = bytes / fastest(device, [&] { copy_values(from, to); });
  return peaks;
}

double PassCost::intensity() const { return flops >= 0 && bytes > 0 ? flops / bytes : -1; }

double PassCost::of_peak(const MachinePeaks& p) const {
  if (ns <= 0 || (flops <= 0 && bytes <= 0)) return -1;
  return std::max(std::max(flops, 0.0) / p.flops, std::max(bytes, 0.0) / p.bytes) / (ns * 1e-9);
}

const char* PassCost::bound(const MachinePeaks& p) const {
  if (flops <= 0 && bytes <= 0) return "";
  return std::max(flops, 0.0) / p.flops > std::max(bytes, 0.0) / p.bytes ? "compute" : "memory";
}

double CostLine::ns() const { return std::max(forward.ns, 0.0) + std::max(backward.ns, 0.0); }

namespace {

std::vector<CostLine> slowest_first(std::vector<CostLine> lines) {
  std::stable_sort(lines.begin(), lines.end(),
                   [](const CostLine& a, const CostLine& b) { return a.ns() > b.ns(); });
  return lines;
}

}  // namespace

std::vector<CostLine> cost_of_nodes(const GraphView& v) {
  std::vector<CostLine> lines;
  for (size_t i = 0; i < v.nodes.size(); ++i) {
    const Node& n = v.nodes[i];
    lines.push_back({int(i),
                     n.op->name,
                     1,
                     {n.flops, n.bytes, n.forward_ns},
                     {n.backward_flops, n.backward_bytes, n.backward_ns}});
  }
  return slowest_first(std::move(lines));
}

std::vector<CostLine> cost_of_ops(const GraphView& v) {
  std::vector<CostLine> lines;
  const auto add = [](double& sum, double x) {
    if (x >= 0) sum = std::max(sum, 0.0) + x;
  };
  for (const Node& n : v.nodes) {
    auto at = std::find_if(lines.begin(), lines.end(),
                           [&](const CostLine& l) { return l.op == n.op->name; });
    if (at == lines.end()) at = lines.insert(at, {-1, n.op->name, 0, {}, {}});
    ++at->count;
    add(at->forward.flops, n.flops);
    add(at->forward.bytes, n.bytes);
    add(at->forward.ns, n.forward_ns);
    add(at->backward.flops, n.backward_flops);
    add(at->backward.bytes, n.backward_bytes);
    add(at->backward.ns, n.backward_ns);
  }
  return slowest_first(std::move(lines));
}

}  // namespace gradus::audit
