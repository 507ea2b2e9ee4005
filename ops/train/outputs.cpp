#include "ops/train/outputs.hpp"

#include "ops/train/batches.hpp"
#include "engine/graph.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gradus::inline v1::training {

namespace {
constexpr int64_t kAtOnce = 500;  // samples in one batch
}

void each_output(nn::Sequential& network, const Form& form, const Samples& set, Device& device,
                 const SeeOutputs& see) {
  const NoGrad no_grad;
  network.set_training(false);
  Batches batches(form, set, device);
  std::vector<int64_t> all(static_cast<size_t>(set.count));
  std::iota(all.begin(), all.end(), int64_t(0));
  for (int64_t begin = 0; begin < set.count; begin += kAtOnce) {
    const int64_t n = std::min(kAtOnce, set.count - begin);
    const auto& batch = batches.fill({all.data() + begin, size_t(n)});
    const Tensor outputs = cast(nn::outputs_of(network, batch.inputs), DType::f32);
    see(begin, n, outputs.to_vector<float>());
  }
  network.set_training(true);
}

bool knows_probabilities(const nn::Loss& loss) {
  return loss.kind == nn::Loss::Kind::cross_entropy || loss.kind == nn::Loss::Kind::nll;
}

std::vector<double> probabilities(std::span<const float> row) {
  const double largest = *std::max_element(row.begin(), row.end());
  std::vector<double> p;
  for (const float y : row) p.push_back(std::exp(double(y) - largest));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace gradus::training
