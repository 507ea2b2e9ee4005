// Observer: told of calls, writes and gradients in its thread, while an ObserverScope says so.
// Observers nest: an event goes to the innermost one, and from there to those around it, unless
// that one overrides the function without calling Observer's.
#pragma once
#include <optional>
#include <string>
#include <utility>

namespace gradus::inline v1 {

class GradFn;
class OpContext;
class Storage;
struct Autograd;
struct Saved;

class Observer {
 public:
  virtual ~Observer() = default;
  // After each call of an op (a user's op is one). node: null if the call was not recorded.
  virtual void called(const OpContext& call, GradFn* node) {
    if (around_) around_->called(call, node);
  }
  // After each write into a storage; its version has gone up.
  virtual void written(Storage& storage, const char* op) {
    if (around_) around_->written(storage, op);
  }
  // Before a leaf's .grad is set or added to.
  virtual void grad_changes(Autograd& leaf, bool set) {
    if (around_) around_->grad_changes(leaf, set);
  }
  // The end of the error's text when a saved tensor was written to before its node read it.
  virtual std::string stale_story(const GradFn& node, const Saved& saved) const {
    return around_ ? around_->stale_story(node, saved) : std::string();
  }

 private:
  friend class ObserverScope;
  Observer* around_ = nullptr;
};
inline constinit thread_local Observer* observer = nullptr;  // the innermost; null: there is none

// As the last member of an observer it ends first: what other members let go may call ops.
class ObserverScope {
 public:
  explicit ObserverScope(Observer& o) : observer_(o) { o.around_ = std::exchange(*here_, &o); }
  ~ObserverScope() { end(); }
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;
  void end() {  // scopes may end in any order, also on another thread while this one does nothing
    Observer** at = here_;
    while (*at && *at != &observer_) at = &(*at)->around_;
    if (*at) *at = observer_.around_;
  }

 private:
  Observer** const here_ = &observer;  // the thread's that began it
  Observer& observer_;
};

// Hides calls from all observers, but not writes and gradients: what a user's forward or an audit
// computes is no step of the program.
struct Unwatched : Observer {
  Unwatched() {
    if (observer) scope.emplace(*this);
  }
  void called(const OpContext&, GradFn*) override {}
  std::optional<ObserverScope> scope{};
};

}  // namespace gradus
