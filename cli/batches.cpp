// Order and filling of batches.
#include "cli/batches.hpp"

#include "cli/worker.hpp"
#include "engine/philox.hpp"
#include "engine/wrap/upload.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

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

void HostBatch::gather(const Dataset& data, const Samples& set, std::span<const int64_t> indices) {
  static const std::array<float, 256> unit = unit_table();
  const auto inputs_each = size_t(data.inputs_each()), labels_each = size_t(data.labels_each());
  (data.sequences ? tokens.resize(indices.size() * inputs_each)
                  : pixels.resize(indices.size() * inputs_each));
  labels.clear();
  for (size_t k = 0; k < indices.size(); ++k) {
    const uint8_t* from = set.inputs.data() + size_t(indices[k]) * inputs_each;
    if (data.sequences)
      std::copy(from, from + inputs_each, tokens.data() + k * inputs_each);
    else
      for (size_t i = 0; i < inputs_each; ++i) pixels[k * inputs_each + i] = unit[from[i]];
    const int32_t* label = set.labels.data() + size_t(indices[k]) * labels_each;
    labels.insert(labels.end(), label, label + labels_each);
  }
  counted = int64_t(labels.size()) - std::count(labels.begin(), labels.end(), kNoLabel);
}
const void* HostBatch::inputs() const {
  return tokens.empty() ? static_cast<const void*>(pixels.data()) : tokens.data();
}

// The batch that is on its way. Two uploads by turns: a step may still be about to take one batch
// when the next is sent.
struct Batches::Ahead {
  explicit Ahead(Device& device) : uploads{Upload(device), Upload(device)} {}
  // Has the batch of these indices been sent, and not been taken?
  bool has(std::span<const int64_t> wanted) {
    if (!std::ranges::equal(indices, wanted)) return false;
    worker.wait();
    return std::exchange(sent, false);
  }
  std::vector<int64_t> indices;
  HostBatch host;
  bool sent = false;
  std::array<Upload, 2> uploads;
  size_t turn = 0;
  Worker worker;  // the last, so it ends before what it works on
};

Batches::Batches(const Dataset& data, const Samples& set, Device& device)
    : data_(data), set_(set), device_(device) {}
Batches::~Batches() = default;

Batches::Batch& Batches::of_size(int64_t n) {
  for (Batch& b : batches_)
    if (b.labels.size(0) == n) return b;
  const DType dtype = data_.sequences ? DType::i64 : DType::f32;
  const Shape labels = data_.sequences ? Shape{n, data_.labels_each()} : Shape{n};
  return batches_.emplace_back(Batch{Tensor::empty({n, data_.inputs_each()}, dtype, device_),
                                     Tensor::empty(labels, DType::i64, device_), 0});
}

const Batches::Batch& Batches::fill(std::span<const int64_t> indices) {
  Batch& batch = of_size(int64_t(indices.size()));
  if (ahead_ && ahead_->has(indices)) {
    ahead_->uploads[ahead_->turn].take(batch.tensors());
    ahead_->turn = 1 - ahead_->turn;
    batch.counted = ahead_->host.counted;
    return batch;
  }
  here_.gather(data_, set_, indices);
  upload(batch.inputs, here_.inputs());
  upload(batch.labels, here_.labels.data());
  batch.counted = here_.counted;
  return batch;
}

void Batches::prefetch(std::span<const int64_t> indices) {
  if (!Upload::offered(device_)) return;
  if (!ahead_) ahead_ = std::make_unique<Ahead>(device_);
  ahead_->worker.wait();
  const Batch& batch = of_size(int64_t(indices.size()));
  const size_t inputs = batch.inputs.bytes(), labels = batch.labels.bytes();
  ahead_->uploads[ahead_->turn].reserve(Upload::room(inputs) + Upload::room(labels));
  ahead_->indices.assign(indices.begin(), indices.end());
  ahead_->sent = false;
  ahead_->worker.begin([a = ahead_.get(), this, inputs, labels] {
    a->host.gather(data_, set_, a->indices);
    const std::array<Upload::Piece, 2> pieces{
        {{a->host.inputs(), inputs}, {a->host.labels.data(), labels}}};
    a->uploads[a->turn].put(pieces);
    a->sent = true;
  });
}

}  // namespace gradus::cli
