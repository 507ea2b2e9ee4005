// Order and filling of batches.
#include "ops/train/batches.hpp"

#include "ops/train/worker.hpp"
#include "engine/abi/philox.hpp"
#include "engine/capture/upload.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace gradus::inline v1::training {

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

void HostBatch::gather(const Form& form, const Samples& set, std::span<const int64_t> indices) {
  static const std::array<float, 256> unit = unit_table();
  const auto rows = [&](const auto& from, auto& to, int64_t each, const auto& meant) {
    to.resize(indices.size() * size_t(each));
    auto out = to.begin();
    for (const int64_t i : indices) {
      const auto begin = from.begin() + i * each;
      out = std::transform(begin, begin + each, out, meant);
    }
  };
  const int64_t inputs_each = form.inputs_each(), targets_each = form.targets_each();
  if (const auto* pixels = std::get_if<Pixels>(&set.inputs))
    rows(*pixels, numbers, inputs_each, [](uint8_t v) { return unit[v]; });
  else if (const auto* x = std::get_if<Reals>(&set.inputs))
    rows(*x, numbers, inputs_each, std::identity());
  else
    rows(std::get<Tokens>(set.inputs), tokens, inputs_each, std::identity());
  if (const auto* y = std::get_if<Reals>(&set.targets)) {
    rows(*y, told, targets_each, std::identity());
    counted = int64_t(indices.size());
    return;
  }
  rows(set.labels(), labels, targets_each, std::identity());
  counted = int64_t(labels.size()) - std::count(labels.begin(), labels.end(), kNoLabel);
}
const void* HostBatch::inputs() const {
  return tokens.empty() ? static_cast<const void*>(numbers.data()) : tokens.data();
}
const void* HostBatch::targets() const {
  return labels.empty() ? static_cast<const void*>(told.data()) : labels.data();
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

Batches::Batches(const Form& form, const Samples& set, Device& device)
    : form_(form), set_(set), device_(device) {}
Batches::~Batches() = default;

Batches::Batch& Batches::of_size(int64_t n) {
  for (Batch& b : batches_)
    if (b.size() == n) return b;
  const DType dtype = form_.sequences() ? DType::i64 : DType::f32;
  Shape targets{n};
  if (!form_.classifies() || !form_.target_sizes.empty()) targets.push_back(form_.targets_each());
  return batches_.emplace_back(
      Batch{Tensor::empty({n, form_.inputs_each()}, dtype, device_),
            Tensor::empty(targets, form_.classifies() ? DType::i64 : DType::f32, device_), 0});
}

const Batches::Batch& Batches::fill(std::span<const int64_t> indices) {
  Batch& batch = of_size(int64_t(indices.size()));
  if (ahead_ && ahead_->has(indices)) {
    ahead_->uploads[ahead_->turn].take(batch.tensors());
    ahead_->turn = 1 - ahead_->turn;
    batch.counted = ahead_->host.counted;
    return batch;
  }
  here_.gather(form_, set_, indices);
  upload(batch.inputs, here_.inputs());
  upload(batch.targets, here_.targets());
  batch.counted = here_.counted;
  return batch;
}

void Batches::prefetch(std::span<const int64_t> indices) {
  if (!Upload::offered(device_)) return;
  if (!ahead_) ahead_ = std::make_unique<Ahead>(device_);
  ahead_->worker.wait();
  const Batch& batch = of_size(int64_t(indices.size()));
  const size_t inputs = batch.inputs.bytes(), targets = batch.targets.bytes();
  ahead_->uploads[ahead_->turn].reserve(Upload::room(inputs) + Upload::room(targets));
  ahead_->indices.assign(indices.begin(), indices.end());
  ahead_->sent = false;
  ahead_->worker.begin([a = ahead_.get(), this, inputs, targets] {
    a->host.gather(form_, set_, a->indices);
    const std::array<Upload::Piece, 2> pieces{
        {{a->host.inputs(), inputs}, {a->host.targets(), targets}}};
    a->uploads[a->turn].put(pieces);
    a->sent = true;
  });
}

Batches::Batch whole_set(const Form& form, const Samples& set, Device& device) {
  std::vector<int64_t> all(static_cast<size_t>(set.count));
  std::iota(all.begin(), all.end(), int64_t(0));
  return Batches(form, set, device).fill(all);
}

}  // namespace gradus::training
