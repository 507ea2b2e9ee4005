// Repeating a run up to the step at fault.
#include "cli/train/provenance.hpp"

#include "cli/frame/interrupt.hpp"
#include "ops/audit/judge/audit.hpp"
#include "ops/audit/step/diff.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace gradus::inline v1::cli {

namespace {

struct Interrupted {};

// What is known of the first value that is not finite.
struct Finding {
  std::string op, where, text;
  Shape element;
};

class Repeat {
 public:
  Repeat(const Experiment& experiment, const Dataset& data, Device& device, RunFolder& folder,
         Reporter& reporter)
      : experiment_(experiment),
        data_(data),
        device_(device),
        folder_(folder),
        reporter_(reporter) {}

  void explain(int64_t failed) {
    trainer_.reset();
    begin();
    if (trainer_->steps() >= failed) return;  // it has come from the checkpoint itself
    reporter_.notice(
        join("gradus: ", trainer_->steps() + 1 < failed ? "steps " : "step ",
             trainer_->steps() + 1 < failed ? join(trainer_->steps() + 1, " to ") : std::string(),
             failed, trainer_->steps() + 1 < failed ? " are" : " is",
             " repeated to find out why (\"provenance\": false does without)"));
    // Parameters may have been spoilt by a gradient some steps before a loss shows it.
    int64_t guilty = failed;
    if (const int64_t spoilt = first_spoilt(failed - 1); spoilt > 0) {
      guilty = spoilt;
      begin();
      go_to(guilty - 1);
    }
    look_at(guilty, failed);
  }

 private:
  void begin() {
    trainer_.emplace(experiment_, data_, device_);
    std::vector<std::string> unreadable;
    if (const auto c = folder_.newest_checkpoint(device_, &unreadable))
      trainer_->restore(c->state, c->file);
  }
  void one_step() {
    if (InterruptScope::interrupted()) throw Interrupted();
    if (trainer_->epoch_done()) trainer_->finish_epoch();
    trainer_->step();
  }
  void go_to(int64_t step) {
    while (trainer_->steps() < step) one_step();
  }
  // The first step up to `last` after which the network is not finite; 0 if it stays so.
  int64_t first_spoilt(int64_t last) {
    while (trainer_->steps() < last) {
      one_step();
      if (!trainer_->first_not_finite().empty()) return trainer_->steps();
    }
    return 0;
  }

  void look_at(int64_t guilty, int64_t failed) {
    if (InterruptScope::interrupted()) throw Interrupted();
    if (trainer_->epoch_done()) trainer_->finish_epoch();
    const audit::Watch watch;
    const Trainer::Preview step = trainer_->preview();
    const bool infinite = std::isinf(step.loss.item());
    std::optional<audit::Birth> birth = audit::birth(watch, infinite);
    if (!birth) birth = audit::birth_in_backward(watch, {step.loss}, false, {step.seed});
    if (!birth) birth = audit::birth_in_backward(watch, {step.loss}, true, {step.seed});
    if (!birth) {
      reporter_.notice(join("gradus: loss and gradients of step ", guilty, " are finite: ",
                            guilty < failed ? "its update made a parameter infinite"
                                            : "it is its update, or the test set",
                            "; a smaller optimizer.lr may help"));
      return;
    }
    Finding f{birth->call->op->name, birth->call->where, birth->text, birth->element};
    if (const std::string name = parameter_of(*birth); !name.empty()) f.text += ": " + name;
    const int64_t sample = sample_of(watch, *birth, step.samples);
    std::string file = folder_.file(join("nan-step-", guilty, ".safetensors")), refused;
    try {
      audit::RecordedStep recorded =
          audit::record(watch, {step.loss}, trainer_->network().parameters(), {step.seed});
      recorded.title = join("step ", guilty, " of ", folder_.path());
      audit::save_trace(file, recorded, device_);
    } catch (const Error& e) {  // what was found is said all the same
      file.clear();
      refused = e.what();
    }
    say(f, guilty, sample, file, refused);
  }
  // The training sample whose row the element lies in; -1 if it is nobody's: what depends on the
  // batch keeps its rows in front.
  static int64_t sample_of(const audit::Watch& watch, const audit::Birth& b,
                           const std::vector<int64_t>& samples) {
    const auto is_batch = [&](const Tensor& t) {
      return t.rank() > 0 && t.size(0) == int64_t(samples.size());
    };
    const audit::Call& made = *b.call;
    if (!is_batch(b.operand >= 0 ? made.inputs[size_t(b.operand)] : made.outputs[0])) return -1;
    std::vector<const GradFn*> above;
    if (b.operand < 0)
      above.push_back(made.node.get());
    else if (const GradFn* maker = made.node->inputs()[size_t(b.operand)].fn.get())
      above.push_back(maker);
    std::set<const GradFn*> seen;
    while (!above.empty()) {
      const GradFn* node = above.back();
      above.pop_back();
      const audit::Call* c = seen.insert(node).second ? watch.find(node) : nullptr;
      if (!c) continue;
      for (size_t k = 0; k < c->inputs.size(); ++k) {
        const Edge& edge = node->inputs()[k];
        if (edge.fn)
          above.push_back(edge.fn.get());
        else if (!edge.leaf && c->inputs[k].defined() && !c->inputs[k].is_number() &&
                 is_batch(c->inputs[k]))
          return samples[size_t(b.element[0])];
      }
    }
    return -1;
  }
  // The parameter that an operand is; "" if it is none.
  std::string parameter_of(const audit::Birth& b) {
    if (!b.from_outside) return "";
    const Autograd* leaf = b.call->node->inputs()[size_t(b.operand)].leaf.get();
    for (const auto& [name, p] : trainer_->network().parameters())
      if (leaf && p.body()->autograd.get() == leaf) return name;
    return "";
  }

  void say(const Finding& f, int64_t step, int64_t sample, const std::string& file,
           const std::string& refused) {
    Event e{{"event", "provenance"},
            {"step", step},
            {"op", f.op},
            {"where", f.where},
            {"element", std::vector<int64_t>(f.element.begin(), f.element.end())},
            {"text", f.text}};
    if (sample >= 0) e["sample"] = sample;
    e[file.empty() ? "not_kept" : "file"] = file.empty() ? refused : file;
    reporter_.notice("gradus: " + provenance_text(e));
    reporter_.notice(file.empty() ? "gradus: the step could not be kept: " + refused
                                  : join("gradus: the step is kept: gradus replay ", file,
                                         " [--shrink small.safetensors --until nan]"));
    const std::string line = line_of(e);
    reporter_.json_line(line);
    folder_.append_metrics(line);
  }

  const Experiment& experiment_;
  const Dataset& data_;
  Device& device_;
  RunFolder& folder_;
  Reporter& reporter_;
  std::optional<Trainer> trainer_;
};

}  // namespace

void explain_not_finite(const Experiment& experiment, const Dataset& data, Device& device,
                        int64_t failed, RunFolder& folder, Reporter& reporter) {
  try {
    Repeat(experiment, data, device, folder, reporter).explain(failed);
  } catch (const Interrupted&) {
    reporter.notice("gradus: interrupted; where it comes from was not found");
  } catch (const Error& e) {
    // What went wrong first is the error of the run.
    reporter.notice(join("gradus: where it comes from was not found: ", e.what()));
  }
}

}  // namespace gradus::cli
