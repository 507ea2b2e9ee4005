// The doors of capture: one step, and steps by key.
#include "engine/capture/capture.hpp"

#include "engine/capture/replay.hpp"

#include <algorithm>
#include <deque>

namespace gradus::inline v1 {

namespace {

// Stands around the devices that a step is not recorded on.
class Elsewhere : public KernelWrapper {
 public:
  Elsewhere(Device& device, wrap::StepRecorder& recorder)
      : recorder_(recorder), scope_(device, *this) {
    name_ = device.name();
  }
  gd_status call(const gd_call&, Next next, gd_error& error) override {
    recorder_.refuse("the step also works on ", name_);
    return next(error);
  }

 private:
  wrap::StepRecorder& recorder_;
  std::string name_;
  WrapperScope scope_;
};

}  // namespace

Captured::Captured() = default;
Captured::Captured(Captured&&) noexcept = default;
Captured& Captured::operator=(Captured&&) noexcept = default;
Captured::~Captured() = default;

size_t Captured::calls() const { return replay_ ? replay_->calls() : 0; }
size_t Captured::arena_bytes() const { return replay_ ? replay_->arena_bytes() : 0; }

const Tensors& Captured::replay() {
  if (!replay_)
    fail(ErrorKind::value, "replay",
         why_not_.empty() ? "nothing was captured" : "the step can't be replayed: ", why_not_);
  replay_->run();
  return outputs_;
}

Captured capture(Device& device, const std::function<Tensors()>& step,
                 std::shared_ptr<wrap::Arena> arena) {
  Captured captured;
  if (!device.wrappers().empty()) {
    captured.why_not_ = "a ledger or another wrapper stands around " + device.name();
    captured.outputs_ = step();
    return captured;
  }
  Generator& generator = default_generator();
  generator.take(0, device);  // its numbers must be on the device before the step
  generator.begin_step();
  const uint64_t position = generator.position();

  wrap::StepRecorder recorder(device);
  {
    const WrapperScope scope(device, recorder);
    std::deque<Elsewhere> elsewhere;
    for (Device* other : open_devices())
      if (other != &device) elsewhere.emplace_back(*other, recorder);
    const ObserverScope listening(recorder);
    captured.outputs_ = step();
    recorder.finish(captured.outputs_);
  }
  if (!arena) arena = std::make_shared<wrap::Arena>();
  if (recorder.why.empty())
    captured.replay_ = std::make_unique<wrap::Replay>(device, recorder, std::move(arena));
  if (!recorder.why.empty()) {
    captured.replay_.reset();
    captured.why_not_ = recorder.why;
  } else if (generator.position() != position) {
    captured.replay_->set_draws(generator, generator.position() - position);
  }
  return captured;
}

CaptureCache::CaptureCache(Device& device)
    : device_(device), arena_(std::make_shared<wrap::Arena>()) {}
CaptureCache::~CaptureCache() = default;

Tensors CaptureCache::run(const Shape& key, const std::function<Tensors()>& step) {
  auto it = std::find_if(entries_.begin(), entries_.end(),
                         [&](const auto& entry) { return entry.first == key; });
  if (it == entries_.end()) it = entries_.insert(it, {key, Entry{}});
  Entry& entry = it->second;
  if (entry.captured) {
    ++replays_;
    return entry.captured.replay();
  }
  if (!entry.warm || !entry.captured.why_not().empty()) {
    entry.warm = true;
    return step();
  }
  entry.captured = capture(device_, step, arena_);
  if (why_not_.empty()) why_not_ = entry.captured.why_not();
  return entry.captured.outputs();
}

}  // namespace gradus
