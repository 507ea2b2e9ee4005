// What was measured as tables for people.
#include "cli/look/audit_reports.hpp"
#include "ops/audit/judge/cost.hpp"
#include "ops/audit/step/memory_ledger.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace gradus::inline v1::cli {

using namespace audit;

namespace {

std::string saved_table(const GraphView& v) {
  struct Row {
    int node;
    const SavedTensor* saved;
  };
  const std::vector<int> holders = holders_of(v);
  std::vector<Row> rows;
  size_t keepers = 0, vain = 0;
  for (size_t i = 0; i < v.nodes.size(); ++i) {
    keepers += !v.nodes[i].saved.empty();
    for (const SavedTensor& s : v.nodes[i].saved) {
      rows.push_back({int(i), &s});
      vain += !s.read;
    }
  }
  const auto counted = [](const Row& r) { return r.saved->counted ? r.saved->bytes : 0; };
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    return std::pair(counted(a), a.saved->bytes) > std::pair(counted(b), b.saved->bytes);
  });
  std::string text =
      fmt::format("{} saved for backward by {} of {} nodes, shared memory counted once{}\n\n",
                  bytes_text(double(v.saved_bytes)), keepers, v.nodes.size(),
                  vain ? fmt::format("; {} saved tensors that no vjp reads", vain) : "");
  text += fmt::format("{:>10}  {:<22} {:<10} {:<18} {}\n", "bytes", "node", "saves", "type", "why");
  for (const Row& r : rows) {
    const Node& n = v.nodes[size_t(r.node)];
    text += fmt::format("{:>10}  {:<22} {:<10} {:<18} {}{}\n",
                        r.saved->counted ? bytes_text(double(r.saved->bytes)) : "-",
                        fmt::format("%{} {}", r.node, n.op->name), r.saved->what,
                        type_text({r.saved->sizes, r.saved->dtype, {}, {}}),
                        reason_of(n, *r.saved, holders),
                        module_of(n).empty() ? "" : "   # " + module_of(n));
  }
  return text;
}

std::string place(const MemoryMoment& m) {
  return fmt::format("{}{}{}", m.backward ? "in the vjp of " : "in ",
                     m.node >= 0 ? fmt::format("%{} ", m.node) : "", m.op);
}

std::string memory_table(const MemoryProfile& memory) {
  const MemoryMoment* peak = peak_of(memory);
  if (!peak) return "";
  size_t between = 0;
  for (const MemoryOfOp& o : memory.ops) between += o.between;
  std::string text = fmt::format(
      "\nover time: {} more than before between forward and backward, {} at the peak, {}; before "
      "it "
      "{}\n\n{:<16} {:>11} {:>11} {:>11} {:>11}\n",
      bytes_text(double(between)), bytes_text(double(peak->peak)), place(*peak),
      bytes_text(double(memory.before)), "asked for by", "in forward", "in backward", "between",
      "at peak");
  for (const MemoryOfOp& o : memory.ops)
    text += fmt::format("{:<16} {:>11} {:>11} {:>11} {:>11}\n", o.op, bytes_text(double(o.forward)),
                        bytes_text(double(o.backward)), bytes_text(double(o.between)),
                        bytes_text(double(o.at_peak)));
  return text;
}

std::string shown(double x, const std::string& text) { return x < 0 ? "-" : text; }

std::string columns(const PassCost& c, const MachinePeaks& p) {
  const double part = c.of_peak(p);
  return fmt::format("{:>7} {:>8} {:>6} {:>9} {:>6} {:<7}", shown(c.flops, count_text(c.flops, "")),
                     shown(c.bytes, count_text(c.bytes, "B")),
                     shown(c.intensity(), fmt::format("{:.2f}", c.intensity())),
                     shown(c.ns, fmt::format("{:.1f}", c.ns / 1e3)),
                     shown(part, fmt::format("{:.0f} %", 100 * part)), c.bound(p));
}

std::string head(const char* first) {
  const std::string pass = fmt::format("{:>7} {:>8} {:>6} {:>9} {:>6} {:<7}", "flops", "bytes",
                                       "flop/B", "us", "peak", "bound");
  return fmt::format("{:<22} {:<50}{}\n{:<22} {}  {}\n", "", "forward", "backward", first, pass,
                     pass);
}

}  // namespace

std::string ledger_text(const GraphView& v) {
  std::string text = join("ledger of ", v.title, " on ", v.device, ": ") + saved_table(v);
  if (v.memory) text += memory_table(*v.memory);
  const std::vector<CheckpointSaving> savings = checkpoint_savings(v);
  if (savings.empty()) return text;
  text += fmt::format("\na checkpoint would save\n{:>10}  {:>11}  {}\n", "bytes", "run again",
                      "of the module");
  for (const CheckpointSaving& c : savings)
    text +=
        fmt::format("{:>10}  {:>11}  {} (%{} to %{})\n", bytes_text(double(c.bytes)),
                    c.flops < 0 ? "-" : count_text(c.flops, "flop"), c.module, c.first, c.last - 1);
  return text;
}

std::string cost_text(const GraphView& v) {
  const MachinePeaks& p = v.peaks.value();
  std::string text =
      fmt::format("cost of {} on {}; measured here, {}: {} by {} x {} matrices, {}/s copying {}\n",
                  v.title, v.device, dtype_name(p.dtype), count_text(p.flops, "flop/s"), p.matrix,
                  p.matrix, bytes_text(p.bytes), bytes_text(double(p.copied)));
  text +=
      "peak: the least time that these allow, of the time in kernels; over 100 % where operands "
      "lay in a cache\n\n";
  text += head("node");
  for (const CostLine& l : cost_of_nodes(v)) {
    const std::string module = module_of(v.nodes[size_t(l.node)]);
    text +=
        fmt::format("{:<22} {}  {}{}\n", fmt::format("%{} {}", l.node, l.op), columns(l.forward, p),
                    columns(l.backward, p), module.empty() ? "" : "  # " + module);
  }
  text += "\n" + head("op");
  CostLine all{-1, "all", 0, {0, 0, 0}, {0, 0, 0}};
  for (const CostLine& l : cost_of_ops(v)) {
    text += fmt::format("{:<22} {}  {}\n", fmt::format("{} x {}", l.op, l.count),
                        columns(l.forward, p), columns(l.backward, p));
    all.count += l.count;
    for (const auto& [sum, one] :
         {std::pair(&all.forward, &l.forward), std::pair(&all.backward, &l.backward)}) {
      sum->flops += std::max(one->flops, 0.0);
      sum->bytes += std::max(one->bytes, 0.0);
      sum->ns += std::max(one->ns, 0.0);
    }
  }
  return text + fmt::format("{:<22} {}  {}\n", fmt::format("all x {}", all.count),
                            columns(all.forward, p), columns(all.backward, p));
}

}  // namespace gradus::cli
