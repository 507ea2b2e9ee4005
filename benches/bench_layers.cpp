// Ops of networks as users call them, forward and backward, against PyTorch. Those held in the
// second cache have targets on one thread.
#include "benches/peers.hpp"
#include "engine/graph.hpp"
#include "engine/random.hpp"
#include "ops/ops.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::bench {
namespace {

struct Layer {
  const char* name;
  std::vector<Shape> shapes;  // of the operands, which all ask for a gradient
  Tensor (*ours)(const Tensors& in);
  const char* torch;  // of in[0], in[1], ...
  TorchTargets targets{};
  bool backward = true;
};

// 256 x 512 numbers in f32: 512 KiB.
const Layer kLayers[] = {
    {"exp 256x512",
     {{256, 512}},
     [](const Tensors& in) { return exp(in[0]); },
     "torch.exp(a[0])",
     {at_least(1.5), at_least(1)},
     false},
    {"tanh 256x512",
     {{256, 512}},
     [](const Tensors& in) { return tanh(in[0]); },
     "torch.tanh(a[0])",
     {at_least(3), at_least(1.2)},
     false},
    {"gelu 256x512",
     {{256, 512}},
     [](const Tensors& in) { return gelu(in[0]); },
     "F.gelu(a[0])",
     {at_least(1.5), at_least(1)}},
    {"softmax 256x512",
     {{256, 512}},
     [](const Tensors& in) { return softmax(in[0], -1); },
     "torch.softmax(a[0], -1)",
     {at_least(1.5), at_least(1)}},
    {"log_softmax 4096x10",
     {{4096, 10}},
     [](const Tensors& in) { return log_softmax(in[0], -1); },
     "torch.log_softmax(a[0], -1)"},
    {"layer_norm 256x512",
     {{256, 512}, {512}, {512}},
     [](const Tensors& in) { return layer_norm(in[0], {512}, in[1], in[2]); },
     "F.layer_norm(a[0], (512,), a[1], a[2])"},
    {"layer_norm 128x768",
     {{128, 768}, {768}, {768}},
     [](const Tensors& in) { return layer_norm(in[0], {768}, in[1], in[2]); },
     "F.layer_norm(a[0], (768,), a[1], a[2])"},
    {"layer_norm 4096x16",
     {{4096, 16}, {16}, {16}},
     [](const Tensors& in) { return layer_norm(in[0], {16}, in[1], in[2]); },
     "F.layer_norm(a[0], (16,), a[1], a[2])"},
    {"batch_norm 32x16x28x28",
     {{32, 16, 28, 28}, {16}, {16}},
     [](const Tensors& in) { return batch_norm(in[0], {}, {}, in[1], in[2], true); },
     "F.batch_norm(a[0], None, None, a[1], a[2], True)"},
    {"batch_norm 256x512",
     {{256, 512}, {512}, {512}},
     [](const Tensors& in) { return batch_norm(in[0], {}, {}, in[1], in[2], true); },
     "F.batch_norm(a[0], None, None, a[1], a[2], True)"},
    {"group_norm 32x16x28x28",
     {{32, 16, 28, 28}, {16}, {16}},
     [](const Tensors& in) { return group_norm(in[0], 4, in[1], in[2]); },
     "F.group_norm(a[0], 4, a[1], a[2])"},
    {"linear 128x784 to 512",
     {{128, 784}, {512, 784}, {512}},
     [](const Tensors& in) { return linear(in[0], in[1], in[2]); },
     "F.linear(a[0], a[1], a[2])"},
    {"conv2d 64x1x28x28, 6 of 5x5",
     {{64, 1, 28, 28}, {6, 1, 5, 5}, {6}},
     [](const Tensors& in) { return conv2d(in[0], in[1], in[2], {1}, {2}); },
     "F.conv2d(a[0], a[1], a[2], padding=2)"},
    {"conv2d 64x6x14x14, 16 of 5x5",
     {{64, 6, 14, 14}, {16, 6, 5, 5}, {16}},
     [](const Tensors& in) { return conv2d(in[0], in[1], in[2]); },
     "F.conv2d(a[0], a[1], a[2])"},
    {"conv2d 4x64x28x28, 64 of 3x3",
     {{4, 64, 28, 28}, {64, 64, 3, 3}, {64}},
     [](const Tensors& in) { return conv2d(in[0], in[1], in[2], {1}, {1}); },
     "F.conv2d(a[0], a[1], a[2], padding=1)"},
    {"max_pool2d 64x6x28x28",
     {{64, 6, 28, 28}},
     [](const Tensors& in) { return max_pool2d(in[0], {2}); },
     "F.max_pool2d(a[0], 2)"},
    {"transposed 2048x2048",
     {{2048, 2048}},
     [](const Tensors& in) {
       return contiguous(permute(in[0], {1, 0}));
     },
     "a[0].permute(1, 0).contiguous()",
     {},
     false},
    {"rotated 192x192x192",
     {{192, 192, 192}},
     [](const Tensors& in) {
       return contiguous(permute(in[0], {2, 0, 1}));
     },
     "a[0].permute(2, 0, 1).contiguous()",
     {},
     false},
    {"channels last 64x3x56x56",
     {{64, 3, 56, 56}},
     [](const Tensors& in) {
       return contiguous(permute(in[0], {0, 2, 3, 1}));
     },
     "a[0].permute(0, 2, 3, 1).contiguous()",
     {},
     false},
};

void layer_rows(Run& run, const Layer& layer, int threads) {
  const std::string backward = std::string(layer.name) + ", with backward";
  if (!run.wants(backward)) return;
  Device& device = run.device(threads);
  const DeviceScope scope(device);
  manual_seed(1);
  Tensors in;
  std::string setup = "import torch.nn.functional as F\na = []\n";
  for (const Shape& shape : layer.shapes) {
    in.push_back(uniform(shape, -1, 1));
    setup += fmt::format("a.append(torch.rand([{}]) * 2 - 1)\n", fmt::join(shape, ", "));
  }
  run.compare(
      {layer.name, threads}, [&] { layer.ours(in); },
      torch_peers(threads, setup, layer.torch, threads == 1 ? layer.targets : TorchTargets{}));
  if (!layer.backward) return;
  for (Tensor& t : in) t.set_requires_grad();
  const Tensor seed = ones_like(layer.ours(in).detach());
  run.compare(
      {backward, threads}, [&] { grad({layer.ours(in)}, in, {seed}); },
      torch_peers(
          threads,
          setup + "for t in a: t.requires_grad_()\ng = torch.ones_like(" + layer.torch + ")",
          std::string("torch.autograd.grad(") + layer.torch + ", a, g)"));
}

}  // namespace

void layers(Run& run) {
  for (const int threads : run.threads())
    for (const Layer& layer : kLayers) layer_rows(run, layer, threads);
}

}  // namespace gradus::bench
