// Capture: runs a step once as it is, writes down its kernel calls, and repeats them: no graph, no
// allocation, no dispatch, and the same bits.
//
//   Captured step = capture(device, [&] {
//     optimizer.zero_grad();
//     const Tensor loss = mse_loss(net.forward(x), y);
//     backward(loss);
//     optimizer.apply();
//     return Tensors{loss.detach()};
//   });
//   for (...) {
//     copy_(x, ...);              // fixed tensors take the next numbers
//     optimizer.prepare(lr);      // so does the step block
//     step.replay();
//   }
//
// A replay reads and writes the tensors that the recorded step read and wrote, wherever their
// memory is by then, gives written ones a new version, and leaves the same tensors in outputs() and
// in .grad of leaves, with new values. What lives and dies inside of the step lies in one arena.
// Random numbers go on as in eager steps. A step that reads values on the host, uploads others, or
// passes state on by assignment can't be replayed: then the capture is empty and why_not() says so.
// Threads may capture and replay at once, each its own step; what a step hands to other threads is
// not repeated, and refused where it meets what the step itself touches or returns.
// Not seen, and so up to the caller: branches of C++ on anything that changes (the training mode,
// shapes: use CaptureCache), random numbers of the host, hooks and other functions of the caller's,
// which run while recording alone.
#pragma once
#include "engine/tensor.hpp"

#include <functional>
#include <map>
#include <memory>

namespace gradus::inline v1 {

namespace wrap {
class Replay;
struct Arena;
}  // namespace wrap

class Captured {
 public:
  Captured();
  Captured(Captured&&) noexcept;
  Captured& operator=(Captured&&) noexcept;
  ~Captured();

  explicit operator bool() const { return bool(replay_); }
  const std::string& why_not() const { return why_not_; }  // "" if it can be replayed
  // What the step returned.
  const Tensors& outputs() const { return outputs_; }
  // Repeats the step and returns outputs(). In the thread that recorded, if the step draws random
  // numbers. Error(value) for an empty capture; Error(autograd) if the step added to a .grad that
  // is not what it was; what kernels say (an index outside of its axis).
  const Tensors& replay();

  size_t calls() const;        // kernel calls in a replay
  size_t arena_bytes() const;  // memory for what dies inside of the step

 private:
  friend Captured capture(Device&, const std::function<Tensors()>&, std::shared_ptr<wrap::Arena>);
  std::unique_ptr<wrap::Replay> replay_;
  Tensors outputs_;
  std::string why_not_;
};

// Runs `step`, which works on `device` alone. Captures that never run at once may share an arena.
// What the step throws passes through.
Captured capture(Device& device, const std::function<Tensors()>& step,
                 std::shared_ptr<wrap::Arena> arena = nullptr);

// Captures by key (the shapes that a step depends on): a key's first step runs as it is, the second
// is recorded, later ones are replayed. What can't be captured goes on running as it is.
class CaptureCache {
 public:
  explicit CaptureCache(Device& device);
  ~CaptureCache();
  Tensors run(const Shape& key, const std::function<Tensors()>& step);
  // Why some step runs as it is, in words; "" if none does.
  const std::string& why_not() const { return why_not_; }
  int64_t replays() const { return replays_; }

 private:
  struct Entry {
    bool warm = false;
    Captured captured;
  };
  Device& device_;
  std::shared_ptr<wrap::Arena> arena_;
  std::vector<std::pair<Shape, Entry>> entries_;
  std::string why_not_;
  int64_t replays_ = 0;
};

}  // namespace gradus
