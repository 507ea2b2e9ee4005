// Slopes are what the node's own vjp makes of ones.
#include "ops/audit/judge/health.hpp"

#include "ops/audit/watch/run.hpp"
#include "ops/audit/watch/watch.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace gradus::inline v1::audit {

namespace {

// Does it have one slope for each element?
bool is_activation(const GradFn& node) {
  const OpInfo& op = node.op();
  if (op.statement < 0 || op.operands.size() != 1 || op.operands[0].variadic) return false;
  const TensorMeta &x = node.input_metas()[0], &y = node.output_metas()[0];
  return node.needs(0) && is_real_float(x.dtype) && is_real_float(y.dtype) && x.sizes == y.sizes;
}

// Are its values within a bound that has nothing to do with its operand's size?
bool is_bounded(const OpInfo& op, const Attrs& attrs, Device& device) {
  const double far[] = {-1e4, -1, 0, 1, 1e4};
  const Parts y = parts_of(op.call(Tensors{of_parts({std::begin(far), std::end(far)},
                                                    {int64_t(std::size(far))}, DType::f64, device)},
                                   attrs)[0]);
  return std::all_of(y.begin(), y.end(), [](double v) { return std::abs(v) < 100; });
}

int64_t unit_axis(const Shape& sizes) { return sizes.size() >= 4 ? 1 : int64_t(sizes.size()) - 1; }

// Counts what a slope says. `bounded` as of is_bounded.
void look(const Parts& slopes, const Shape& sizes, bool bounded, NodeHealth& h) {
  const auto count = double(slopes.size());
  const auto share = [&](auto is) {
    return double(std::count_if(slopes.begin(), slopes.end(), is)) / count;
  };
  h.zero = share([](double s) { return s == 0; });
  if (bounded) h.flat = share([](double s) { return std::abs(s) < kFlat; });
  if (sizes.size() < 2) return;
  const auto axis = size_t(unit_axis(sizes));
  int64_t inner = 1;
  for (size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
  std::vector<char> alive(static_cast<size_t>(sizes[axis]));
  for (size_t i = 0; i < slopes.size(); ++i)
    if (slopes[i] != 0) alive[size_t(int64_t(i) / inner % sizes[axis])] = true;
  h.units = sizes[axis];
  h.dead = std::count(alive.begin(), alive.end(), false);
}

const char* sign_of(const NodeHealth& h) {
  const int64_t units = std::max<int64_t>(h.units, 1);
  const double dead = h.units > 0 ? double(h.dead) / double(h.units) : h.zero == 1;
  if (dead > kDead && h.elements / units >= kSeen) return "dead";
  return h.flat > kSaturated && h.zero < 1 ? "saturated" : "";
}
const char* sign_of(const LeafHealth& h, double largest_rms, bool losses) {
  const TensorStats& g = h.gradient;
  if (g.count == 0) return h.value.count > 0 ? "no gradient" : "";
  if (g.nans + g.infs > 0) return "not finite";
  if (g.zeros == g.count) return "zero";
  if (h.rms() < kVanishing * largest_rms) return "vanishing";
  if (h.axes < 2 || h.value.norm == 0) return "";
  if (losses && g.norm > kExploding * h.value.norm) return "exploding";
  if (!(h.moved >= 0) || std::isinf(h.moved)) return "";
  return h.moved > kLeap ? "leaps" : h.moved < kStill ? "stands still" : "";
}

}  // namespace

double LeafHealth::rms() const {
  return gradient.count > 0 ? gradient.norm / std::sqrt(double(gradient.count)) : 0;
}

bool Health::sound() const {
  const auto well = [](const auto& h) { return h.sign.empty(); };
  return std::all_of(leaves.begin(), leaves.end(), well) &&
         std::all_of(nodes.begin(), nodes.end(), well);
}

std::vector<NodeHealth> node_health(const Tensors& roots) {
  const NoGrad off;
  const Unwatched quiet;
  std::vector<NodeHealth> out;
  const std::vector<Ref<GradFn>> nodes = nodes_behind(roots);
  std::map<const OpInfo*, bool> bounded;
  for (size_t i = 0; i < nodes.size(); ++i) {
    GradFn& node = *nodes[i];
    if (!is_activation(node)) continue;
    const TensorMeta& y = node.output_metas()[0];
    const Tensors ones{Tensor::full(y.sizes, 1.0, y.dtype, *y.device)};
    const Tensor g = pull(node, 0, ones);
    const Parts slopes = g.defined() ? parts_of(g) : Parts(size_t(ones[0].numel()));
    if (slopes.empty()) continue;
    // Of a linear op there is nothing to say.
    if (slopes[0] != 0 &&
        std::count(slopes.begin(), slopes.end(), slopes[0]) == int64_t(slopes.size()))
      continue;
    NodeHealth h{int(i), &node.op(), std::string(node.trace())};
    h.elements = int64_t(slopes.size());
    const auto [known, fresh] = bounded.try_emplace(&node.op());
    if (fresh || !node.attrs().empty())
      known->second = is_bounded(node.op(), node.attrs(), *y.device);
    look(slopes, y.sizes, known->second, h);
    out.push_back(std::move(h));
  }
  return out;
}

LeafHealth leaf_health(const std::string& name, const Tensor& value, const Tensor& gradient,
                       double gain) {
  LeafHealth h{name, stats_of(value), stats_of(gradient), int64_t(value.sizes().size())};
  for (double* x :
       {&h.gradient.min, &h.gradient.max, &h.gradient.mean, &h.gradient.std, &h.gradient.norm})
    *x *= gain;
  return h;
}

double moved(const Tensor& before, const Tensor& after) {
  const Parts a = parts_of(before.detach()), b = parts_of(after.detach());
  double moved = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    moved += (b[i] - a[i]) * (b[i] - a[i]);
    norm += a[i] * a[i];
  }
  return moved == 0 ? 0 : std::sqrt(moved / norm);
}

void judge(Health& health, bool losses) {
  double squares = 0;
  health.largest_rms = 0;
  for (const LeafHealth& h : health.leaves) {
    if (std::isfinite(h.rms())) health.largest_rms = std::max(health.largest_rms, h.rms());
    squares += h.gradient.norm * h.gradient.norm;
  }
  health.gradient_norm = std::sqrt(squares);
  for (LeafHealth& h : health.leaves) h.sign = sign_of(h, health.largest_rms, losses);
  for (NodeHealth& h : health.nodes) h.sign = sign_of(h);
}

Health health_of(const Tensors& roots, const Names& leaves, const Tensors& seeds) {
  const Unwatched quiet;
  for (const Tensor& r : roots)
    if (!r.requires_grad())
      fail(ErrorKind::autograd, "health", "the tensor of shape ", r.sizes(),
           " has no history: no operand on the way requires a gradient");
  Tensors inputs, gradients;
  for (const auto& [name, leaf] : leaves) inputs.push_back(leaf);
  if (!inputs.empty())
    gradients = grad(roots, inputs, seeds_or_ones(roots, seeds),
                     {.retain_graph = true, .allow_unused = true});
  Health health;
  for (size_t i = 0; i < leaves.size(); ++i)
    health.leaves.push_back(leaf_health(leaves[i].first, inputs[i].detach(), gradients[i]));
  health.nodes = node_health(roots);
  judge(health,
        std::all_of(roots.begin(), roots.end(), [](const Tensor& r) { return r.numel() == 1; }));
  return health;
}

}  // namespace gradus::audit
