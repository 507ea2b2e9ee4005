#include "engine/random.hpp"

namespace gradus::inline v1 {

namespace {
void upload(const Tensor& state, uint64_t seed, uint64_t base) {
  const int64_t words[2] = {int64_t(seed), int64_t(base)};
  state.storage().write("random");
  state.device().copy_in(state.storage().data(), words, sizeof words);
}
}  // namespace

void Generator::set(uint64_t seed, uint64_t position) {
  seed_ = seed;
  base_ = position;
  relative_ = 0;
  for (auto& [device, state] : states_) upload(state, seed_, base_);
}

void Generator::begin_step() {
  if (relative_ > 0) set(seed_, position());
}

Generator::Draw Generator::take(int64_t n, Device& device) {
  Tensor& state = states_[&device];
  if (!state.defined()) {
    state = Tensor::empty({2}, DType::i64, device);
    upload(state, seed_, base_);
  }
  const Draw draw{state, int64_t(relative_)};
  relative_ += uint64_t(n);
  return draw;
}

Generator& default_generator() {
  thread_local const auto generator = std::make_unique<Generator>();
  return *generator;
}
void manual_seed(uint64_t seed) { default_generator().set(seed); }

}  // namespace gradus
