// Captures while other threads work: each thread's is its own, and what threads do to one another's
// tensors in a step is refused.
#include "engine/capture/capture.hpp"
#include "engine/capture/ledger.hpp"
#include "ops/optim/optimizer.hpp"
#include "tests/helpers/capture_helpers.hpp"
#include "tests/helpers/helpers.hpp"

#include <barrier>
#include <functional>
#include <thread>

using namespace gradus;
using namespace gradus::testing;

namespace {

Tensor cosines(const Shape& sizes, double from) {
  return cast(cos(reshape(arange(from, from + double(numel_of(sizes)), 1, DType::f64), sizes)),
              DType::f32);
}

// Some steps of a little network, captured at the second: losses and parameters.
std::vector<double> trained(double from, const std::function<void()>& before_each) {
  Device& device = open_device("cpu");
  const DeviceScope scope(device);
  const Tensor x = cosines({16, 8}, from), y = cosines({16, 4}, from + 3);
  Tensor a = leaf(cosines({8, 32}, from + 5)), b = leaf(cosines({32, 4}, from + 7));
  optim::Optimizer adam({{"a", a}, {"b", b}}, optim::Adam{});
  const auto step = [&] {
    adam.zero_grad();
    const Tensor h = tanh(matmul(x, a)), row = clone(select(h, 0, 1));
    const Tensor d = sub(matmul(h, b), y), loss = sum(mul(d, d)) + sum(mul(row, row));
    backward(loss);
    adam.apply();
    return Tensors{loss.detach()};
  };
  std::vector<double> seen;
  Captured captured;
  for (int n = 0; n < 12; ++n) {
    before_each();
    adam.prepare(0.01);
    if (n == 1) captured = capture(device, step);
    if (n == 1) CHECK_MESSAGE(captured, captured.why_not());
    seen.push_back((n == 0 ? step() : n == 1 ? captured.outputs() : captured.replay())[0].item());
  }
  for (const Tensor& t : {a, b})
    for (const double v : values(t)) seen.push_back(v);
  return seen;
}

}  // namespace

TEST_CASE("capture: threads capture and replay at once, to the bits of one alone") {
  constexpr int kThreads = 4;
  std::vector<std::vector<double>> alone, together(kThreads);
  for (int n = 0; n < kThreads; ++n) alone.push_back(trained(n, [] {}));
  std::barrier begin(kThreads);
  std::vector<std::thread> threads;
  for (int n = 0; n < kThreads; ++n)
    threads.emplace_back(
        [&, n] { together[size_t(n)] = trained(n, [&] { begin.arrive_and_wait(); }); });
  for (std::thread& t : threads) t.join();
  CHECK(together == alone);
}

TEST_CASE("capture: what other threads do beside a step is no part of it") {
  const Tensor x = cosines({64}, 0), other = cosines({64}, 9);
  const Ledger mine(default_device());
  const uint64_t calls = mine.total().calls;
  std::string why;
  bool captured = false;
  std::thread([&] {
    bool heard = false;
    const Captured step = capture(default_device(), [&] {
      std::thread([&] {
        const Ledger inner(default_device());
        add_(other, Tensor(1.0));
        heard = inner.total().calls > 0;
      }).join();
      return Tensors{mul(x, x)};
    });
    captured = bool(step);
    why = step.why_not();
    CHECK(heard);
    CHECK(step.calls() == 1);
  }).join();
  CHECK_MESSAGE(captured, why);  // although a ledger stands around this thread's calls
  CHECK(mine.total().calls == calls);
}

TEST_CASE("capture: a step whose tensors another thread makes or writes is refused") {
  Tensor x = cosines({64}, 0), y = cosines({64}, 9);
  const auto elsewhere = [](const std::function<void()>& f) { std::thread(f).join(); };
  CHECK(why_not([&] {
          Tensor made;
          elsewhere([&] { made = add(x, x); });
          return Tensors{made};
        }) == "another thread made memory that the step uses");
  CHECK(why_not([&] {
          Tensor made;
          elsewhere([&] { made = add(x, x); });
          return Tensors{mul(made, x)};
        }).find("another thread made memory") != std::string::npos);
  CHECK(why_not([&] {
          const Tensor z = mul(x, y);
          elsewhere([&] { fill_(y, 2.0); });
          return Tensors{mul(z, y)};
        }).find("another thread wrote, with fill_, to a tensor") != std::string::npos);
  CHECK(why_not([&] {
          const Tensor z = mul(x, y);
          elsewhere([&] { fill_(y, 3.0); });
          return Tensors{z};
        }) == "another thread wrote, with fill_, to a tensor that the step uses");
  CHECK(why_not([&] {
          const Tensor z = mul(x, x);
          elsewhere([&] { fill_(z, 3.0); });
          return Tensors{z};
        }).find("another thread wrote") != std::string::npos);
}
