// Each constant of the model is solved from the time of a product in which it is what counts.
#include "cli/tune_cost.hpp"

#include "cli/contract/contract_verify.hpp"
#include "cli/frame/events.hpp"
#include "cli/frame/session.hpp"
#include "engine/config/tuning.hpp"
#include "engine/files/file.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/contract/cost_file.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

// Seconds of a call: the best of several measurements, each long enough to be one.
template <class F>
double seconds_of(Device& device, F&& call) {
  constexpr double kSeconds = 5e-3;
  constexpr int kMeasurements = 7;
  using Clock = std::chrono::steady_clock;
  const auto timed = [&](int64_t n) {
    device.synchronize();
    const auto begin = Clock::now();
    for (int64_t i = 0; i < n; ++i) call();
    device.synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count() / double(n);
  };
  timed(1);
  double least = timed(1);
  const auto n = int64_t(std::clamp(kSeconds / least, 1.0, 10000.0));
  for (int i = 0; i < kMeasurements; ++i) least = std::min(least, timed(n));
  return least;
}

class Measurement {
 public:
  Measurement(Device& device, DType dtype) : device_(device), dtype_(dtype) {}

  plan::StepTime run() {
    plan::StepTime time;
    time.element = double(itemsize(dtype_));
    // Steps between matrices of four numbers are nothing but overhead.
    constexpr int64_t kSteps = 64;
    time.overhead = chain(kSteps + 1) / double(kSteps);
    const auto rate = [&](int64_t m, int64_t n, int64_t k) {
      const double work = 2 * double(m) * double(n) * double(k);
      return work / std::max(product(m, n, k) - time.overhead, 1e-9);
    };
    time.flops = rate(kLarge, kLarge, kLarge);
    // rate = flops * e / (e + half) at an extent e that is small.
    const auto half = [&](double found) {
      return std::max(0.0, double(kSmall) * (time.flops / found - 1));
    };
    time.half_k = half(rate(kMiddle, kMiddle, kSmall));
    time.half_mn = half(rate(kSmall, kMiddle, kMiddle));
    // A matrix larger than the caches, times a vector: its bytes.
    time.bytes = time.element * double(kRows) * double(kRows) / product(kRows, 1, kRows);
    return time;
  }

 private:
  static constexpr int64_t kLarge = 768, kMiddle = 256, kSmall = 4, kRows = 4096;

  double product(int64_t m, int64_t n, int64_t k) {
    const Tensors operands = {random_operand({m, k}, dtype_, device_),
                              random_operand({k, n}, dtype_, device_)};
    const EinsumPlan plan = plan_einsum("mk,kn->mn", {{m, k}, {k, n}});
    return seconds_of(device_, [&] { einsum(plan, operands); });
  }
  double chain(int64_t length) {
    Tensors operands;
    std::vector<Labels> terms;
    std::vector<Shape> shapes;
    for (int64_t i = 0; i < length; ++i) {
      shapes.push_back({2, 2});
      operands.push_back(random_operand(shapes.back(), dtype_, device_));
      terms.push_back({i, i + 1});
    }
    PathOptions left;
    left.kind = PathOptions::Kind::left;
    const EinsumPlan plan = plan_einsum(terms, Labels{0, length}, shapes, left);
    return seconds_of(device_, [&] { einsum(plan, operands); });
  }

  Device& device_;
  const DType dtype_;
};

}  // namespace

int run_tune_cost(const TuneOptions& o, std::ostream& out, std::ostream& err) {
  const char* wrong = !o.config.empty() ? o.config.c_str()
                      : !o.set.empty()  ? "--set"
                      : !o.file.empty() ? "--file"
                                        : nullptr;
  if (wrong) fail(ErrorKind::config, "--cost", "measures the device alone; leave ", wrong, " out");
  const DType dtype = parse_dtype(o.dtype.empty() ? "f32" : o.dtype);
  if (dtype == DType::bool_ || is_user(dtype))
    fail(ErrorKind::dtype, "--dtype", "expected numbers, got ", dtype);
  const Session session(o.device, false, err, nullptr, "", MissingDevice::is_an_error);
  const NoGrad no_grad;
  const plan::StepTime time = Measurement(session.device(), dtype).run();
  const std::string device = tuning_name(session.device());
  write_file_atomically(o.cost, cost_text(time, dtype, device));
  if (o.json)
    out << Event{{"event", "result"},
                 {"device", device},
                 {"dtype", dtype_name(dtype)},
                 {"cost", Event(step_time_json(time))},
                 {"file", o.cost}}
               .dump()
        << std::endl;
  else
    out << fmt::format(
        "{}, {}: {:.4g} GFLOP/s, half of it at {:.3g} terms or {:.3g} rows; {:.4g} GB/s; "
        "{:.3g} us of any step\n"
        "kept in {}; gradus contract --cost {} finds orders of least time\n",
        device, dtype_name(dtype), time.flops / 1e9, time.half_k, time.half_mn, time.bytes / 1e9,
        time.overhead * 1e6, o.cost, o.cost);
  return 0;
}

}  // namespace gradus::cli
