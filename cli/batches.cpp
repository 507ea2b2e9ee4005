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

Batches::Batches(const Dataset& data, const Samples& set, Device& device)
    : data_(data), set_(set), device_(device) {}

const Batches::Batch& Batches::fill(std::span<const int64_t> indices) {
  static const std::array<float, 256> unit = unit_table();
  const auto n = int64_t(indices.size());
  const auto inputs = size_t(data_.inputs_each()), labels = size_t(data_.labels_each());
  auto batch = std::find_if(batches_.begin(), batches_.end(),
                            [&](const Batch& b) { return b.labels.size(0) == n; });
  if (batch == batches_.end()) {
    const DType dtype = data_.sequences ? DType::i64 : DType::f32;
    batches_.push_back(
        {Tensor::empty({n, int64_t(inputs)}, dtype, device_),
         Tensor::empty(data_.sequences ? Shape{n, int64_t(labels)} : Shape{n}, DType::i64, device_),
         0});
    batch = batches_.end() - 1;
  }
  (data_.sequences ? tokens_.resize(size_t(n) * inputs) : pixels_.resize(size_t(n) * inputs));
  labels_.clear();
  for (size_t k = 0; k < indices.size(); ++k) {
    const uint8_t* from = set_.inputs.data() + size_t(indices[k]) * inputs;
    if (data_.sequences)
      std::copy(from, from + inputs, tokens_.data() + k * inputs);
    else
      for (size_t i = 0; i < inputs; ++i) pixels_[k * inputs + i] = unit[from[i]];
    const int32_t* label = set_.labels.data() + size_t(indices[k]) * labels;
    labels_.insert(labels_.end(), label, label + labels);
  }
  batch->counted = n * int64_t(labels) - std::count(labels_.begin(), labels_.end(), kNoLabel);
  if (data_.sequences)
    upload(batch->inputs, tokens_.data());
  else
    upload(batch->inputs, pixels_.data());
  upload(batch->labels, labels_.data());
  return *batch;
}

}  // namespace gradus::cli
