// Whole training steps: forward, backward, adam, the same network in every peer. The smallest also
// against the step that a programmer would write by hand in C (mlp_step.c).
#include "benches/mlp_step.h"
#include "benches/peers.hpp"
#include "engine/base/error.hpp"
#include "engine/graph.hpp"
#include "engine/random.hpp"
#include "engine/capture/capture.hpp"
#include "ops/audit/watch/watch.hpp"
#include "ops/nn/conv.hpp"
#include "ops/nn/layers.hpp"
#include "ops/ops.hpp"
#include "ops/optim/optimizer.hpp"

#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::bench {
namespace {

// So small that the networks stay as they are: one that has learnt its batch by heart would spend
// its time on subnormal moments.
constexpr double kLr = 1e-6;

// A network with a batch that stays the same.
struct Training {
  nn::Sequential network;
  std::unique_ptr<optim::Optimizer> adam;
  Tensor x, y;
  bool classes = true;
  Captured captured{};

  Tensor step() {
    adam->prepare(kLr);
    return work();
  }
  Tensor work() {
    adam->zero_grad();
    const Tensor out = network.forward(x);
    const Tensor loss = classes ? cross_entropy(out, y) : mse_loss(out, y);
    backward(loss);
    adam->apply();
    return loss.detach();
  }
  // Recorded at the first call, repeated at later ones.
  void captured_step() {
    adam->prepare(kLr);
    if (captured) {
      captured.replay();
      return;
    }
    captured = capture(x.device(), [this] { return Tensors{work()}; });
    if (!captured) fail(ErrorKind::value, "bench", "no capture: ", captured.why_not());
  }
  void run(bool as_captured) { as_captured ? captured_step() : void(step()); }
  void ready() {
    adam = std::make_unique<optim::Optimizer>(network.parameters(), optim::Adam{});
    const int64_t batch = x.size(0);
    if (classes) {
      std::vector<int64_t> labels;
      for (int64_t i = 0; i < batch; ++i) labels.push_back(i * 7 % 10);
      y = Tensor::from(labels, {batch}, x.device());
    } else {
      y = uniform({batch, 1});
    }
  }
};

struct Mlp {
  std::vector<int64_t> sizes;
  int64_t batch;
  bool classes;

  std::string name() const { return fmt::format("mlp {} batch {}", fmt::join(sizes, "-"), batch); }
  // Forward, the gradient of each weight, and the gradient of each layer's input but the first.
  double flops() const {
    double out = 0;
    for (size_t i = 0; i + 1 < sizes.size(); ++i)
      out += (i == 0 ? 4.0 : 6.0) * double(batch * sizes[i] * sizes[i + 1]);
    return out;
  }
  Training build() const {
    manual_seed(1);
    Training t;
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      if (i > 0) t.network.add(std::make_unique<nn::OpLayer>("relu"));
      t.network.add(std::make_unique<nn::Linear>(sizes[i], sizes[i + 1]));
    }
    t.x = uniform({batch, sizes.front()});
    t.classes = classes;
    t.ready();
    return t;
  }
  std::string torch() const {
    std::string layers;
    for (size_t i = 0; i + 1 < sizes.size(); ++i)
      layers +=
          fmt::format("{}nn.Linear({}, {})", i > 0 ? ", nn.ReLU(), " : "", sizes[i], sizes[i + 1]);
    return torch_setup(layers, fmt::format("torch.rand({}, {})", batch, sizes.front()),
                       classes ? fmt::format("torch.arange({}) * 7 % 10", batch)
                               : fmt::format("torch.rand({}, 1)", batch),
                       classes);
  }
  static std::string torch_setup(const std::string& layers, const std::string& x,
                                 const std::string& y, bool classes) {
    return fmt::format(
        "import torch.nn as nn, torch.nn.functional as F\n"
        "model = nn.Sequential({})\n"
        "adam = torch.optim.Adam(model.parameters(), lr=1e-6)\n"
        "x, y = {}, {}\n"
        "def loss_of(x, y): return F.{}(model(x), y)\n"
        "update = adam.step\n"
        "def step():\n"
        "    adam.zero_grad()\n"
        "    loss_of(x, y).backward()\n"
        "    update()\n",
        layers, x, y, classes ? "cross_entropy" : "mse_loss");
  }
};
constexpr const char* kCompiled =
    "import logging\n"
    "logging.disable(logging.WARNING)\n"
    "torch._dynamo.reset()\n"
    "loss_of = torch.compile(loss_of)\n"
    "update = torch.compile(adam.step)\n"
    "for _ in range(3): step()\n";

void append(std::vector<Peer>& to, std::vector<Peer> more) {
  for (Peer& p : more) to.push_back(std::move(p));
}

Training build_lenet(int64_t batch) {
  manual_seed(1);
  Training t;
  const auto add = [&](auto layer) {
    t.network.add(std::make_unique<decltype(layer)>(std::move(layer)));
  };
  const auto conv = [](int64_t in, int64_t out, int64_t padding) {
    return nn::Conv(
        {.in_channels = in, .out_channels = out, .kernel_size = {5}, .padding = {padding}});
  };
  const auto pool = [] { return nn::OpLayer("max_pool2d", {AttrValue(Ints{2})}); };
  add(conv(1, 6, 2));
  add(nn::OpLayer("relu"));
  add(pool());
  add(conv(6, 16, 0));
  add(nn::OpLayer("relu"));
  add(pool());
  add(nn::Flatten());
  add(nn::Linear(400, 120));
  add(nn::OpLayer("relu"));
  add(nn::Linear(120, 84));
  add(nn::OpLayer("relu"));
  add(nn::Linear(84, 10));
  t.x = uniform({batch, 1, 28, 28});
  t.ready();
  return t;
}

std::string lenet_torch(int64_t batch) {
  return Mlp::torch_setup(
      "nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), "
      "nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), "
      "nn.ReLU(), "
      "nn.Linear(84, 10)",
      fmt::format("torch.rand({}, 1, 28, 28)", batch),
      fmt::format("torch.arange({}) * 7 % 10", batch), true);
}

// ---- the step by hand

std::shared_ptr<mlp> by_hand(const Training& t) {
  auto net = std::make_shared<mlp>();
  const auto copy = [](float* to, const Tensor& from) {
    const auto v = from.to_vector<float>();
    std::copy(v.begin(), v.end(), to);
  };
  const nn::NamedTensors p = t.network.parameters();
  mlp_numbers& q = net->parameter;
  copy(&q.w1[0][0], contiguous(transpose(p[0].second.detach(), 0, 1)));
  copy(q.b1, p[1].second);
  copy(&q.w2[0][0], contiguous(transpose(p[2].second.detach(), 0, 1)));
  copy(q.b2, p[3].second);
  copy(q.w3, p[4].second);
  copy(&q.b3, p[5].second);
  copy(&net->x[0][0], t.x);
  copy(net->y, t.y);
  return net;
}

// The two must do the same work: their losses stay together from step to step.
void check_by_hand(const Mlp& model) {
  Training t = model.build();
  const auto net = by_hand(t);
  for (int i = 0; i < 50; ++i) {
    const double ours = t.step().item(), theirs = double(mlp_step(net.get(), float(kLr)));
    if (!(std::abs(ours - theirs) <= 1e-4 * std::abs(theirs)))
      fail(ErrorKind::numeric, "bench", "the step by hand differs in step ", i, ": ", ours, " and ",
           theirs);
  }
}

// ---- rows

// The eager step and the captured one against the same peers.
struct StepTargets {
  TorchTargets torch{};
  Target libtorch{}, hand{}, peak{};
};

void mlp_row(Run& run, const Mlp& model, int threads, bool captured, const StepTargets& targets) {
  const std::string name = model.name() + (captured ? ", captured" : ", eager");
  if (!run.wants(name)) return;
  const DeviceScope scope(run.device(threads));
  Training t = model.build();
  for (int i = 0; i < 2; ++i) t.step();
  std::vector<Peer> peers;
  if (model.sizes.front() == MLP_IN) {
    check_by_hand(model);
    const auto hand = [net = by_hand(t)] { mlp_step(net.get(), float(kLr)); };
    peers.push_back(peer("C by hand", hand, targets.hand));
  }
  append(peers, torch_peers(threads, model.torch(), "step()", targets.torch));
  append(peers, libtorch_peers(threads, "mlp",
                               {{"sizes", model.sizes},
                                {"batch", model.batch},
                                {"loss", model.classes ? "cross_entropy" : "mse"}},
                               targets.libtorch));
  if (captured && !run.options().quick)
    append(peers, torch_compile_peers(threads, model.torch() + kCompiled, "step()"));
  if (captured && targets.peak.ratio > 0)
    peers.push_back(
        bound("peak", model.flops() / run.peak_flops(DType::f32, threads), targets.peak));
  run.compare(
      {name, threads}, [&] { t.run(captured); }, peers);
}

void lenet_row(Run& run, int threads, bool captured) {
  const std::string name = std::string("lenet batch 64, ") + (captured ? "captured" : "eager");
  if (!run.wants(name)) return;
  const DeviceScope scope(run.device(threads));
  Training t = build_lenet(64);
  for (int i = 0; i < 2; ++i) t.step();
  const Target target = captured ? at_least(1.2) : Target{};
  std::vector<Peer> peers = torch_peers(threads, lenet_torch(64), "step()", {target, target});
  append(peers, libtorch_peers(threads, "lenet", {{"batch", 64}}));
  run.compare(
      {name, threads}, [&] { t.run(captured); }, peers);
}

// The eager step while all that it does is recorded (ops/audit/watch/watch.hpp).
void watched_row(Run& run, const Mlp& model, const Target& target) {
  const std::string name = model.name() + ", watched";
  if (!run.wants(name)) return;
  const DeviceScope scope(run.device(1));
  Training t = model.build();
  run.compare({name},
              [&] {
                const audit::Watch watch;
                t.step();
              },
              {peer(
                  "not watched", [&] { t.step(); }, target)});
}

struct Case {
  Mlp model;
  StepTargets eager, captured;
};
std::vector<Case> cases() {
  const auto torch = [](double debian, double pypi) {
    return StepTargets{{at_least(debian), at_least(pypi)}};
  };
  StepTargets large = torch(1.3, 1.05);
  large.peak = at_least(0.7);
  return {{{{8, 16, 16, 1}, 32, false},
           torch(30, 30),
           {{at_least(100), at_least(100)}, at_least(20), at_most_time(1.5)}},
          {{{784, 128, 10}, 64, true}, {}, torch(4, 2.5)},
          {{{784, 512, 512, 10}, 128, true}, {}, torch(2.2, 1.3)},
          {{{784, 1024, 1024, 10}, 1024, true}, {}, large}};
}

// Peak bytes of tensors in some steps, network, adam's state and the batch included.
template <class Build>
void memory_row(Run& run, const std::string& name, const std::string& torch, const Build& build) {
  Device& device = run.device(1);
  const DeviceScope scope(device);
  std::vector<PeakBytes> peers;
  for (const bool captured : {false, true}) {
    const Work work{name + (captured ? ", captured" : ", eager"), 1, 0, "MiB"};
    if (!run.wants(work.name)) continue;
    const size_t before = device.pool().stats().live;
    device.pool().reset_peak();
    {
      Training t = build();
      for (int i = 0; i < 4; ++i) t.run(captured);
    }
    const double ours = double(device.pool().stats().peak - before);
    if (peers.empty()) peers = torch_peak_bytes(torch, "step()");
    for (const PeakBytes& p : peers) run.add(work, ours, p.peer, p.bytes, at_least(1));
  }
}

}  // namespace

void steps(Run& run) {
  for (const int threads : run.threads()) {
    for (const Case& c : cases()) {
      mlp_row(run, c.model, threads, false, c.eager);
      mlp_row(run, c.model, threads, true, c.captured);
    }
    lenet_row(run, threads, false);
    lenet_row(run, threads, true);
  }
  const std::vector<Case> all = cases();
  watched_row(run, all[0].model, at_most_time(2));
  watched_row(run, all[1].model, {});
}

void memory_of_steps(Run& run) {
  for (const Case& c : cases())
    memory_row(run, c.model.name(), c.model.torch(), [&] { return c.model.build(); });
  memory_row(run, "lenet batch 64", lenet_torch(64), [] { return build_lenet(64); });
}

}  // namespace gradus::bench
