// The training step and the state behind it.
#include "ops/train/trainer.hpp"

#include "engine/random.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace gradus::inline v1::training {

namespace {

constexpr int64_t kWindow = 256;       // losses kept on the device
constexpr int64_t kEvaluated = 500;    // samples in one batch of an evaluation
constexpr int64_t kMostSkipped = 100;  // steps in a row without an update

std::string exact(double x) {
  char text[40];
  snprintf(text, sizeof text, "%a", x);
  return text;
}

const std::string& entry(const Metadata& numbers, const char* key, const std::string& source) {
  const auto it = numbers.find(key);
  if (it == numbers.end()) fail(ErrorKind::io, source, "the checkpoint lacks \"", key, "\"");
  return it->second;
}

int64_t integer(const Metadata& numbers, const char* key, const std::string& source) {
  const std::string& text = entry(numbers, key, source);
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0)
    fail(ErrorKind::io, source, key, ": expected a whole number, got \"", text, "\"");
  return n;
}

double real_number(const Metadata& numbers, const char* key, const std::string& source) {
  const std::string& text = entry(numbers, key, source);
  char* end = nullptr;
  const double x = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !std::isfinite(x))
    fail(ErrorKind::io, source, key, ": expected a number, got \"", text, "\"");
  return x;
}

// What numbers miss, in their own units.
class Errors {
 public:
  explicit Errors(const Form& form)
      : form_(form), each_(size_t(form.targets_each())), squares_(each_), values_(each_) {}
  void add(const Tensor& outputs, const Tensor& targets) {
    const std::vector<float> said = cast(outputs, DType::f32).to_vector<float>();
    const std::vector<float> told = targets.to_vector<float>();
    for (size_t i = 0; i < told.size(); ++i) {
      const size_t k = i % each_;
      const double t = form_.target_scaling.back(told[i], k);
      const double miss = form_.target_scaling.back(said[i], k) - t;
      squares_[k] += miss * miss;
      values_[k].push_back(t);
    }
  }
  void tell(Score& score) const {
    const auto n = double(values_[0].size());
    score.of_numbers = true;
    for (size_t k = 0; k < each_; ++k) {
      const double mean = std::accumulate(values_[k].begin(), values_[k].end(), 0.0) / n;
      double spread = 0;
      for (const double t : values_[k]) spread += (t - mean) * (t - mean);
      score.rmse += squares_[k];
      score.r2 += (spread > 0 ? 1 - squares_[k] / spread : std::nan("")) / double(each_);
    }
    score.rmse = std::sqrt(score.rmse / n / double(each_));
  }

 private:
  const Form& form_;
  size_t each_;
  std::vector<double> squares_;
  std::vector<std::vector<double>> values_;
};

}  // namespace

Score evaluate(nn::Sequential& network, const nn::Loss& loss, const Form& form, const Samples& set,
               Device& device, const EachBatch& each) {
  const NoGrad no_grad;
  network.set_training(false);
  Batches batches(form, set, device);
  std::vector<int64_t> indices(static_cast<size_t>(set.count));
  std::iota(indices.begin(), indices.end(), int64_t(0));
  double sum = 0;
  int64_t right = 0, counted = 0;
  Errors errors(form);
  for (int64_t begin = 0; begin < set.count; begin += kEvaluated) {
    const int64_t n = std::min(kEvaluated, set.count - begin);
    const auto& batch = batches.fill({indices.data() + begin, size_t(n)});
    const Tensor outputs = nn::outputs_of(network, batch.inputs);
    sum += nn::loss_of(loss, outputs, batch.targets).item() * double(batch.counted);
    if (form.classifies())
      right += nn::correct(outputs, batch.targets).item_integer();
    else
      errors.add(outputs, batch.targets);
    counted += batch.counted;
    if (each) each(begin + n, set.count);
  }
  network.set_training(true);
  Score score{sum / double(counted), double(right) / double(counted)};
  if (!form.classifies()) errors.tell(score);
  return score;
}

Trainer::Trainer(const Experiment& experiment, const Dataset& data, Device& device)
    : experiment_(experiment),
      data_(data),
      device_(device),
      batches_(data, data.train, device),
      batches_per_epoch_((data.train.count + experiment.batch_size - 1) / experiment.batch_size),
      steps_by_shape_(device),
      updates_by_shape_(device),
      window_(Tensor::zeros({kWindow}, DType::f64, device)) {
  manual_seed(experiment_.seed);
  network_ = build_network(experiment_, data, device);
  parameters_ = network_.parameters();
  optimizer_ = std::make_unique<optim::Optimizer>(parameters_, experiment_.rule);
  if (experiment_.precision.loss_scale) scale_.emplace(*experiment_.precision.loss_scale, device);
  experiment_.schedule.total_steps = experiment_.epochs * batches_per_epoch_;
  if (experiment_.schedule.unit == 0) experiment_.schedule.unit = batches_per_epoch_;
}

double Trainer::learning_rate() const {
  return experiment_.schedule.at(std::max<int64_t>(steps_ - 1, 0));
}

std::span<const int64_t> Trainer::indices(int64_t batch) const {
  const int64_t begin = batch * experiment_.batch_size;
  const int64_t n = std::min(experiment_.batch_size, data_.train.count - begin);
  return {order_.data() + begin, size_t(n)};
}

// The next batch of the epoch, on the device.
const Batches::Batch& Trainer::begin_step() {
  if (order_.empty()) {
    if (experiment_.shuffle) {
      order_ = epoch_order(data_.train.count, experiment_.seed, epoch_);
    } else {
      order_.resize(size_t(data_.train.count));
      std::iota(order_.begin(), order_.end(), int64_t(0));
    }
  }
  const auto& batch = batches_.fill(indices(batch_));
  if (batch_ + 1 < batches_per_epoch_) batches_.prefetch(indices(batch_ + 1));
  default_generator().begin_step();
  return batch;
}

Tensor Trainer::loss_of(const Batches::Batch& batch) {
  const Tensor outputs = nn::outputs_of(network_, batch.inputs);
  const Trace trace("loss");
  return nn::loss_of(experiment_.loss, outputs, batch.targets);
}

Trainer::Preview Trainer::preview() {
  Preview p;
  p.loss = loss_of(begin_step());
  if (scale_) p.seed = scale_->seed(p.loss);
  const auto samples = indices(batch_);
  p.samples.assign(samples.begin(), samples.end());
  return p;
}

bool Trainer::step(audit::Health* health) {
  const auto& batch = begin_step();
  const double lr = experiment_.schedule.at(steps_);
  bool finite = true;
  const Tensor loss =
      scale_ ? scaled_step(batch, lr, finite, health) : whole_step(batch, lr, health);
  if (health) audit::judge(*health);
  ++batch_;
  ++steps_;
  samples_ += batch.size();
  if (finite || std::isfinite(loss.item()))
    keep_loss(loss, batch.counted);
  else
    left_out_ += batch.counted;
  if (finite) return true;
  ++skipped_;
  if (scale_->state().skipped == kMostSkipped) {
    failed_step_ = steps_;
    fail(ErrorKind::numeric, "train", "the last ", kMostSkipped, " steps up to ", steps_,
         " were skipped: a gradient is not finite, and the loss scale is ", scale_->state().scale,
         "; \"dynamic\", a smaller precision.loss_scale or a smaller optimizer.lr may help");
  }
  return false;
}

// Runs what a step, or a part of it, does on the device: captured, if it can be.
Tensors Trainer::run(CaptureCache& cache, const Batches::Batch& batch, const audit::Health* health,
                     const std::function<Tensors()>& work) {
  const bool eager = health || experiment_.capture == Capture::off;
  const Tensors out = eager ? work() : cache.run({batch.size()}, work);
  if (experiment_.capture == Capture::on && !cache.why_not().empty())
    fail(ErrorKind::config, "capture",
         "\"on\", but the step cannot be captured: ", cache.why_not());
  return out;
}

Tensor Trainer::whole_step(const Batches::Batch& batch, double lr, audit::Health* health) {
  optimizer_->prepare(lr);
  return run(steps_by_shape_, batch, health, [&] {
    const Tensor loss = gradients(batch, health);
    update(health);
    optimizer_->zero_grad();
    return Tensors{loss};
  })[0];
}

Tensor Trainer::scaled_step(const Batches::Batch& batch, double lr, bool& finite,
                            audit::Health* health) {
  const Tensors out = run(steps_by_shape_, batch, health, [&] {
    optimizer_->zero_grad();
    const Tensor loss = gradients(batch, health);
    return Tensors{loss, optim::largest_gradient(parameters_)};
  });
  finite = scale_->update(out[1]);
  if (!finite) return out[0];
  optimizer_->prepare(lr);
  const auto work = [&] { return update(health), Tensors(); };
  // A replayed update reads the gradients that a replayed first part writes.
  if (steps_by_shape_.why_not().empty())
    run(updates_by_shape_, batch, health, work);
  else
    work();
  return out[0];
}

// Forward and backward; the loss as it is, the gradients scaled.
Tensor Trainer::gradients(const Batches::Batch& batch, audit::Health* health) {
  std::optional<DetectAnomaly> places;
  if (health) places.emplace();
  const Tensor loss = loss_of(batch);
  places.reset();
  if (health) health->nodes = audit::node_health({loss});
  if (scale_)
    backward({loss}, {scale_->seed(loss)});
  else
    backward(loss);
  if (health)
    for (const auto& [name, p] : parameters_)
      health->leaves.push_back(
          audit::leaf_health(name, p.detach(), p.grad(), scale_ ? 1 / scale_->state().scale : 1));
  return loss.detach();
}

void Trainer::update(audit::Health* health) {
  Tensors before;
  for (size_t i = 0; health && i < parameters_.size(); ++i)
    before.push_back(parameters_[i].second.clone_data());
  const Tensor gain = scale_ ? scale_->gain() : Tensor();
  optimizer_->apply(experiment_.clip_norm > 0
                        ? optim::clip_gain(parameters_, experiment_.clip_norm, gain)
                        : gain);
  for (size_t i = 0; i < before.size(); ++i)
    health->leaves[i].moved = audit::moved(before[i], parameters_[i].second);
}

void Trainer::keep_loss(const Tensor& loss, int64_t counted) {
  const NoGrad no_grad;
  copy_(window_.alias({}, {}, int64_t(in_window_.size())), loss.detach());
  in_window_.push_back(counted);
  if (int64_t(in_window_.size()) == kWindow) read_losses();
}

void Trainer::read_losses() {
  if (in_window_.empty()) return;
  const std::vector<double> losses = window_.to_vector<double>();
  const auto n = int64_t(in_window_.size());
  for (int64_t i = 0; i < n; ++i) {
    const double loss = losses[size_t(i)];
    if (!std::isfinite(loss)) {
      failed_step_ = steps_ - n + i + 1;
      fail(ErrorKind::numeric, "train", "the loss is ", loss, " at step ", failed_step_, " (epoch ",
           epoch_ + 1, "); a smaller optimizer.lr or a clip_norm may help");
    }
    loss_sum_ += loss * double(in_window_[size_t(i)]);
    last_loss_ = loss;
    if (std::isnan(first_loss_)) first_loss_ = loss;
  }
  in_window_.clear();
}

double Trainer::finish_epoch() {
  read_losses();
  const int64_t counted = data_.train.counted() - left_out_;
  if (counted == 0)
    fail(ErrorKind::numeric, "train", "no step of epoch ", epoch_ + 1, " had a finite loss");
  const double mean = loss_sum_ / double(counted);
  loss_sum_ = 0;
  skipped_ = left_out_ = 0;
  order_.clear();
  batch_ = 0;
  ++epoch_;
  return mean;
}

Score Trainer::test() {
  const Score score = evaluate(network_, experiment_.loss, data_, data_.test, device_);
  if (!std::isfinite(score.loss)) {
    failed_step_ = steps_;
    fail(ErrorKind::numeric, "train", "the loss on the test set is ", score.loss, " after step ",
         steps_);
  }
  return score;
}

std::string Trainer::first_not_finite() {
  const NoGrad no_grad;
  for (const auto& [name, p] : network_.state())
    if (!std::isfinite(sum(p).item())) return name;
  return "";
}

NamedTensors Trainer::tensors() {
  read_losses();
  if (const std::string name = first_not_finite(); !name.empty()) {
    failed_step_ = steps_;
    fail(ErrorKind::numeric, "train", name, " is not finite after step ", steps_);
  }
  NamedTensors out;
  for (const auto& [name, p] : network_.state()) out.emplace_back("model." + name, p);
  for (const auto& [name, s] : optimizer_->state()) out.emplace_back("optimizer." + name, s);
  return out;
}

Metadata Trainer::numbers() const {
  Metadata m{{"epoch", join(epoch_)},
             {"batch", join(batch_)},
             {"step", join(steps_)},
             {"samples", join(samples_)},
             {"optimizer_steps", join(optimizer_->steps())},
             {"generator_seed", std::to_string(default_generator().seed())},
             {"generator_position", std::to_string(default_generator().position())},
             {"train_images", join(data_.train.count)},
             {"loss_sum", exact(loss_sum_)},
             {"last_loss", exact(last_loss_)}};
  if (!std::isnan(first_loss_)) m["first_loss"] = exact(first_loss_);
  if (!scale_) return m;
  m["loss_scale"] = exact(scale_->state().scale);
  m["steps_since_overflow"] = join(scale_->state().good);
  m["skipped_in_a_row"] = join(scale_->state().skipped);
  m["skipped"] = join(skipped_);
  m["left_out"] = join(left_out_);
  return m;
}

void Trainer::restore(const Safetensors& state, const std::string& source) {
  const Metadata& m = state.metadata;
  const int64_t images = integer(m, "train_images", source), batch = integer(m, "batch", source);
  if (images != data_.train.count || batch > batches_per_epoch_)
    fail(ErrorKind::io, source, "was written while training on ", images,
         " samples, now there are ", data_.train.count);
  network_.load(with_prefix(state.tensors, "model."), source);
  optimizer_->load(with_prefix(state.tensors, "optimizer."), integer(m, "optimizer_steps", source),
                   source);
  default_generator().set(uint64_t(integer(m, "generator_seed", source)),
                          uint64_t(integer(m, "generator_position", source)));
  epoch_ = integer(m, "epoch", source);
  batch_ = batch;
  steps_ = integer(m, "step", source);
  samples_ = integer(m, "samples", source);
  loss_sum_ = real_number(m, "loss_sum", source);
  last_loss_ = real_number(m, "last_loss", source);
  // Checkpoints of earlier versions lack it; then the run is judged from here on.
  first_loss_ = m.contains("first_loss") ? real_number(m, "first_loss", source)
                                         : std::numeric_limits<double>::quiet_NaN();
  if (scale_) {
    scale_->set({real_number(m, "loss_scale", source), integer(m, "steps_since_overflow", source),
                 integer(m, "skipped_in_a_row", source)});
    skipped_ = integer(m, "skipped", source);
    left_out_ = integer(m, "left_out", source);
  }
  order_.clear();
  in_window_.clear();
}

}  // namespace gradus::training
