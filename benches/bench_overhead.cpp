// What one call costs when there is next to nothing to compute: ops on 16 numbers, alone, recorded,
// and the backward walk per node.
#include "benches/peers.hpp"
#include "ops/ops.hpp"

#include <nlohmann/json.hpp>

namespace gradus::inline v1::bench {
namespace {

constexpr int64_t kNumbers = 16;
constexpr int kNodes = 100;

Tensor numbers(Device& device, bool recorded) {
  std::vector<float> v(kNumbers);
  for (int64_t i = 0; i < kNumbers; ++i) v[size_t(i)] = 0.5F + float(i) / 32;
  Tensor t = Tensor::from(v, {kNumbers}, device);
  if (recorded) t.set_requires_grad();
  return t;
}

struct SmallOp {
  const char *name, *torch;
  Tensor (*run)(const Tensor& a, const Tensor& b);
};

const SmallOp kOps[] = {
    {"add", "a + b", [](const Tensor& a, const Tensor& b) { return a + b; }},
    {"mul", "a * b", [](const Tensor& a, const Tensor& b) { return a * b; }},
    {"relu", "torch.relu(a)", [](const Tensor& a, const Tensor&) { return relu(a); }},
    {"exp", "torch.exp(a)", [](const Tensor& a, const Tensor&) { return exp(a); }},
    {"sum", "a.sum()", [](const Tensor& a, const Tensor&) { return sum(a); }},
    {"dot", "a.dot(b)", [](const Tensor& a, const Tensor& b) { return dot(a, b); }},
};

void one_op(Run& run, const SmallOp& op, bool recorded) {
  const Work work{std::string(op.name) + " on 16, " + (recorded ? "recorded" : "no graph")};
  if (!run.wants(work.name)) return;
  const Tensor a = numbers(run.device(1), recorded), b = numbers(run.device(1), recorded);
  const std::string grad = recorded ? ", requires_grad=True" : "";
  const std::string setup = "a = torch.rand(16" + grad + ")\nb = torch.rand(16" + grad + ")";
  std::vector<Peer> peers{bound("limit", recorded ? 400e-9 : 150e-9)};
  for (Peer& p : torch_peers(1, setup, op.torch)) peers.push_back(std::move(p));
  if (!recorded)
    for (Peer& p : numpy_peers("a = np.ones(16, np.float32)\nb = a + 1",
                               std::string(op.name) == "relu"  ? "np.maximum(a, 0)"
                               : std::string(op.name) == "exp" ? "np.exp(a)"
                                                               : op.torch))
      peers.push_back(std::move(p));
  for (Peer& p : libtorch_peers(1, "op", {{"name", op.name}, {"recorded", recorded}}))
    peers.push_back(std::move(p));
  run.compare(
      work, [&] { op.run(a, b); }, peers);
}

// One walk over a chain of ops, divided by its nodes. The graph is built once and kept.
void backward_walk(Run& run, const char* name, const char* step,
                   const std::function<Tensor(const Tensor&)>& op) {
  const Work work{std::string("backward per node, chain of ") + name};
  if (!run.wants(work.name)) return;
  const Tensor x = numbers(run.device(1), true);
  Tensor y = x;
  for (int i = 0; i < kNodes; ++i) y = op(y);
  const Tensor seed = Tensor::full({kNumbers}, 1, DType::f32, run.device(1));
  std::vector<Peer> peers{bound("limit", 300e-9)};
  const std::string setup =
      "c = torch.full((16,), 1.001)\nx = torch.rand(16, requires_grad=True)\ny = x\nfor _ in "
      "range(" +
      std::to_string(kNodes) + "): y = " + step + "\ng = torch.ones(16)";
  for (Peer& p :
       torch_peers(1, setup, "torch.autograd.grad(y, x, g, retain_graph=True)", {}, kNodes))
    peers.push_back(std::move(p));
  for (Peer& p : libtorch_peers(1, "backward", {{"name", name}, {"nodes", kNodes}}, {}, kNodes))
    peers.push_back(std::move(p));
  run.compare(work, sampler([&] { grad({y}, {x}, {seed}, {.retain_graph = true}); }, kNodes),
              peers);
}

}  // namespace

void overhead(Run& run) {
  const DeviceScope scope(run.device(1));
  for (const bool recorded : {false, true})
    for (const SmallOp& op : kOps) one_op(run, op, recorded);
  const Tensor c = Tensor::full({kNumbers}, 1.001, DType::f32, run.device(1));
  backward_walk(run, "mul", "y * c", [c](const Tensor& y) { return y * c; });
  backward_walk(run, "sigmoid", "torch.sigmoid(y)", [](const Tensor& y) { return sigmoid(y); });
}

}  // namespace gradus::bench
