// What was measured as lines of JSON; audit_tables.cpp has the tables.
#include "cli/frame/terminal.hpp"
#include "cli/look/audit_reports.hpp"
#include "cli/frame/events.hpp"

#include "ops/audit/judge/cost.hpp"
#include "ops/audit/step/memory_ledger.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

// -1: not known.
Event known(double x) { return x < 0 ? Event() : Event(x); }

Event pass(const audit::PassCost& c, const audit::MachinePeaks& peaks) {
  return {{"flops", known(c.flops)},
          {"bytes", known(c.bytes)},
          {"intensity", known(c.intensity())},
          {"ns", known(c.ns)},
          {"of_peak", known(c.of_peak(peaks))},
          {"bound", c.bound(peaks)}};
}

constexpr int kTimed = 2;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void keep_least(double& ns, double& least) {
  if (ns >= 0) ns = least = std::min(ns, least);
}

}  // namespace

audit::GraphView measured_step(OneStepConfig target, Device& device, bool values) {
  audit::MemoryProfile memory;
  {
    std::optional<audit::MemoryRecorder> recorder;
    OneStep step = run_one_step(target, device, [&] { recorder.emplace(device); });
    memory = recorder->run_backward(step.roots);
  }
  target.script.quiet = true;
  std::vector<std::pair<double, double>> times;
  audit::GraphView view;
  for (int i = 0; i < kTimed; ++i) {
    std::optional<audit::GraphRecorder> recorder;
    const OneStep step =
        run_one_step(target, device, [&] { recorder.emplace(device, values && i + 1 == kTimed); });
    view = audit::read_graph(step.roots, step.leaves, &*recorder);
    recorder.reset();
    times.resize(std::max(times.size(), view.nodes.size()), {kInfinity, kInfinity});
    for (size_t n = 0; n < view.nodes.size(); ++n) {
      keep_least(view.nodes[n].forward_ns, times[n].first);
      keep_least(view.nodes[n].backward_ns, times[n].second);
    }
    if (i + 1 < kTimed) continue;
    view.peaks = audit::measure_peaks(device, step.roots.at(0).dtype());
    if (step.source) add_sources(view, step.source);
  }
  view.title = target.file;
  view.memory = std::move(memory);
  return view;
}

void report_ledger(const audit::GraphView& v, bool json, std::ostream& out) {
  if (!json) {
    write_tables(out, ledger_text(v) + "\n");
    return;
  }
  const std::vector<int> holders = audit::holders_of(v);
  for (size_t i = 0; i < v.nodes.size(); ++i)
    for (const audit::SavedTensor& s : v.nodes[i].saved)
      emit(out, {{"event", "saved"},
                 {"node", i},
                 {"op", v.nodes[i].op->name},
                 {"where", audit::module_of(v.nodes[i])},
                 {"what", s.what},
                 {"type", audit::type_text({s.sizes, s.dtype, {}, {}})},
                 {"bytes", s.bytes},
                 {"counted", s.counted},
                 {"storage", s.storage},
                 {"read", s.read},
                 {"read_by", s.read_by},
                 {"why", audit::reason_of(v.nodes[i], s, holders)}});
  for (const audit::MemoryMoment& m : v.memory->moments)
    emit(out, {{"event", "memory"},
               {"pass", m.backward ? "backward" : "forward"},
               {"node", m.node < 0 ? Event() : Event(m.node)},
               {"op", m.op},
               {"live", m.live},
               {"peak", m.peak}});
  for (const audit::MemoryOfOp& o : v.memory->ops)
    emit(out, {{"event", "memory_of_op"},
               {"op", o.op},
               {"forward_bytes", o.forward},
               {"backward_bytes", o.backward},
               {"between", o.between},
               {"at_peak", o.at_peak}});
  for (const audit::CheckpointSaving& c : audit::checkpoint_savings(v))
    emit(out, {{"event", "checkpoint"},
               {"module", c.module},
               {"nodes", {c.first, c.last - 1}},
               {"saves", c.bytes},
               {"flops", known(c.flops)}});
  const audit::MemoryMoment* peak = audit::peak_of(*v.memory);
  emit(out, {{"event", "ledger"},
             {"saved_bytes", v.saved_bytes},
             {"before_bytes", v.memory->before},
             {"peak_bytes", peak ? peak->peak : 0},
             {"device", v.device}});
}

void report_cost(const audit::GraphView& v, bool json, std::ostream& out) {
  if (!json) {
    write_tables(out, cost_text(v) + "\n");
    return;
  }
  const audit::MachinePeaks& peaks = *v.peaks;
  const auto line = [&](const audit::CostLine& l) {
    Event e{{"event", l.node < 0 ? "cost_of_op" : "cost"}};
    if (l.node >= 0) e["node"] = l.node;
    e["op"] = l.op;
    if (l.node < 0) e["count"] = l.count;
    if (l.node >= 0) e["where"] = audit::module_of(v.nodes[size_t(l.node)]);
    e["forward"] = pass(l.forward, peaks);
    e["backward"] = pass(l.backward, peaks);
    emit(out, e);
  };
  for (const audit::CostLine& l : audit::cost_of_nodes(v)) line(l);
  for (const audit::CostLine& l : audit::cost_of_ops(v)) line(l);
  emit(out, {{"event", "peaks"},
             {"flops_per_second", peaks.flops},
             {"bytes_per_second", peaks.bytes},
             {"matrix", peaks.matrix},
             {"copied_bytes", peaks.copied},
             {"dtype", dtype_name(peaks.dtype)},
             {"device", v.device}});
}

}  // namespace gradus::cli
