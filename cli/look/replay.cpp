// A file in, its step run again, and what came of it.
#include "cli/frame/events.hpp"
#include "cli/look/replay.hpp"

#include "cli/frame/interrupt.hpp"
#include "cli/frame/session.hpp"
#include "ops/audit/judge/audit.hpp"
#include "ops/audit/step/diff.hpp"
#include "ops/audit/judge/shrink.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

std::string place_of(const std::string& device, const std::string& arch, const std::string& build) {
  return device + (arch.empty() ? "" : " " + arch) + (build.empty() ? "" : ", " + build);
}
std::string place_of(const audit::RecordedStep& s) { return place_of(s.device, s.arch, s.build); }

class Replayer {
 public:
  Replayer(const ReplayOptions& o, Device& device, std::ostream& out, std::ostream& err)
      : o_(o), device_(device), out_(out), err_(err), step_(audit::read_trace(o.file, device)) {}

  // Until a run differs, or all have run.
  int replay() {
    int code = 0;
    for (int64_t run = 1; run <= o_.runs && code == 0; ++run) code = once(run);
    return code;
  }

  int once(int64_t run) {
    const audit::Watch watch;
    const audit::LiveStep live = audit::run(step_, device_);
    std::optional<audit::Birth> birth;
    const audit::RecordedStep again = audit::blaming_file(step_, [&] {
      audit::RecordedStep recorded = audit::record(watch, live.roots, live.leaves, live.seeds);
      birth = audit::birth(watch);
      if (!birth) birth = audit::birth_in_backward(watch, live.roots, false, live.seeds);
      return recorded;
    });
    const audit::StepDifference d = audit::diff(step_, again);
    if (birth && run == 1) say_birth(*birth);
    if (d.same() && run < o_.runs) return 0;
    size_t gradients = 0;
    for (const audit::RecordedLeaf& l : step_.leaves) gradients += l.gradient.defined();
    const std::string first = audit::first_difference(step_, d);
    if (o_.json) {
      Event e{{"event", "result"},
              {"same", d.same()},
              {"runs", run},
              {"nodes", step_.nodes.size()},
              {"gradients", gradients},
              {"values_differing", d.values},
              {"cotangents_differing", d.cotangents},
              {"gradients_differing", d.gradients},
              {"first", first},
              {"made_on", place_of(step_)},
              {"device", place_of(again)}};
      emit(out_, e);
    } else if (d.same()) {
      out_ << fmt::format("{}, {} on {}: the same bits{}\n",
                          audit::plural(step_.nodes.size(), "node"),
                          audit::plural(gradients, "gradient"), device_.name(),
                          run > 1 ? fmt::format(" in all {} runs", run) : "");
    } else {
      out_ << (run > 1 ? fmt::format("in run {}: ", run) : "") << first << "\n"
           << fmt::format("{}, {}, {} differ\n", audit::plural(size_t(d.values), "value"),
                          audit::plural(size_t(d.cotangents), "cotangent"),
                          audit::plural(size_t(d.gradients), "gradient"));
      if (place_of(step_) != place_of(again))
        out_ << "made on " << place_of(step_) << "; this is " << place_of(again) << "\n";
    }
    return d.same() ? 0 : kFailed;
  }

  int shrink() {
    const audit::Fails fails = audit::failure_named(o_.until, step_, device_);
    const InterruptScope interrupts;
    audit::Shrunk small =
        audit::shrink(step_, fails, device_, [] { return InterruptScope::interrupted(); });
    if (InterruptScope::interrupted())
      err_ << "gradus: interrupted; the smallest step so far is written\n";
    audit::write_trace(o_.shrink, small.step);
    if (o_.json) {
      Event e{{"event", "shrunk"},
              {"file", o_.shrink},
              {"before", step_.nodes.size()},
              {"nodes", Event::array()},
              {"runs", small.runs}};
      for (size_t i = 0; i < small.step.nodes.size(); ++i)
        e["nodes"].push_back(node_text(small.step, i));
      emit(out_, e);
    } else {
      out_ << fmt::format("{}: {} of {} still show {} ({})\n", o_.shrink, small.step.nodes.size(),
                          audit::plural(step_.nodes.size(), "node"), o_.until,
                          audit::plural(size_t(small.runs), "run"));
      for (size_t i = 0; i < small.step.nodes.size(); ++i)
        out_ << "  " << node_text(small.step, i) << "\n";
    }
    return InterruptScope::interrupted() ? 130 : 0;
  }

 private:
  void say_birth(const audit::Birth& b) {
    if (o_.json)
      return emit(out_, {{"event", "birth"},
                         {"op", b.call->op->name},
                         {"where", b.call->where},
                         {"element", std::vector<int64_t>(b.element.begin(), b.element.end())},
                         {"text", b.text}});
    out_ << "NaN: " << b.text << (b.call->where.empty() ? "" : ", at " + b.call->where) << "\n";
  }

  const ReplayOptions& o_;
  Device& device_;
  std::ostream &out_, &err_;
  const audit::RecordedStep step_;
};

}  // namespace

int run_replay(const ReplayOptions& o, std::ostream& out, std::ostream& err) {
  if (o.shrink.empty() != o.until.empty())
    fail(ErrorKind::config, "replay",
         o.until.empty() ? "--shrink needs --until: the failure to keep"
                         : "--until belongs to --shrink FILE");
  if (o.runs < 1) fail(ErrorKind::config, "--runs", "expected 1 or more, got ", o.runs);
  if (o.runs > 1 && !o.shrink.empty())
    fail(ErrorKind::config, "--runs", "belongs to a replay without --shrink");
  const Json made_on = audit::device_of_trace(o.file);
  const Session session(o.device, false, err, &made_on, o.file);
  // Loads what it needs, and says what is missing.
  if (const std::string_view word = "differs:"; o.until.starts_with(word))
    open_judged_device(o.until.substr(word.size()), "--until");
  Replayer replayer(o, session.device(), out, err);
  return o.shrink.empty() ? replayer.replay() : replayer.shrink();
}

}  // namespace gradus::cli
