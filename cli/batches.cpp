// Order and filling of batches.
#include "cli/batches.hpp"

#include "engine/philox.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace gradus::cli {

namespace {

// v / 255 for each byte, rounded once.
std::array<float, 256> unit_table() {
  std::array<float, 256> t;
  for (size_t v = 0; v < t.size(); ++v) t[v] = float(v) / 255.0f;
  return t;
}

// A write of packed host memory over a whole tensor.
void upload(const Tensor& to, const void* from) {
  to.storage().write("batch");
  to.device().copy_in(to.storage().data(), from, to.bytes());
}

}  // namespace

std::vector<int64_t> epoch_order(int64_t n, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t(0));
  for (int64_t i = n - 1; i > 0; --i) {
    // High counter words of 0 belong to the generator. 64 bits times the range, shifted down, are
    // uniform to 2^-40 for any set that fits into memory.
    const PhiloxWords p = philox(seed, uint64_t(i), uint64_t(epoch) + 1);
    const uint64_t bits = uint64_t(p.w[1]) << 32 | p.w[0];
    __extension__ using Wide = unsigned __int128;
    const auto j = int64_t(Wide(bits) * Wide(i + 1) >> 64);
    std::swap(order[size_t(i)], order[size_t(j)]);
  }
  return order;
}

Batches::Batches(const ImageSet& set, int64_t pixels, Device& device)
    : set_(set), pixels_(pixels), device_(device) {}

const Batches::Batch& Batches::fill(std::span<const int64_t> indices) {
  static const std::array<float, 256> unit = unit_table();
  const auto n = int64_t(indices.size());
  auto batch = std::find_if(batches_.begin(), batches_.end(),
                            [&](const Batch& b) { return b.labels.size(0) == n; });
  if (batch == batches_.end()) {
    batches_.push_back({Tensor::empty({n, pixels_}, DType::f32, device_),
                        Tensor::empty({n}, DType::i64, device_)});
    batch = batches_.end() - 1;
  }
  staging_.resize(std::max(staging_.size(), size_t(n * pixels_)));
  labels_.resize(std::max(labels_.size(), size_t(n)));
  float* to = staging_.data();
  for (size_t k = 0; k < indices.size(); ++k) {
    const uint8_t* from = set_.images.data() + indices[k] * pixels_;
    for (int64_t i = 0; i < pixels_; ++i) to[i] = unit[from[i]];
    to += pixels_;
    labels_[k] = set_.labels[size_t(indices[k])];
  }
  upload(batch->images, staging_.data());
  upload(batch->labels, labels_.data());
  return *batch;
}

}  // namespace gradus::cli
