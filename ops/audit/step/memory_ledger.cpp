// Memory by turns: calls of the forward, then nodes of backward.
#include "ops/audit/step/memory_ledger.hpp"

#include "ops/audit/watch/names.hpp"
#include "ops/audit/watch/walk.hpp"

#include <algorithm>
#include <set>

namespace gradus::inline v1::audit {

// ---- over time

namespace {
constexpr uint64_t kNone = ~uint64_t(0);
}

MemoryRecorder::MemoryRecorder(Device& device)
    : device_(device), before_(device.pool().stats().live) {
  device_.push(this);
}
MemoryRecorder::~MemoryRecorder() { device_.pop(this); }

void MemoryRecorder::called(const OpContext& ctx, GradFn* node) {
  Observer::called(ctx, node);
  close({false, -1, ctx.op.name});
  sequences_.push_back(node ? node->sequence() : kNone);
}
void MemoryRecorder::allocated(uint64_t buffer, size_t bytes, const char* op) {
  const std::string name = *op ? op : "data";
  buffers_[buffer] = {name, bytes};
  live_of_[name] += bytes;
  (backward_ ? ops_[name].backward : ops_[name].forward) += bytes;
  live_ += int64_t(bytes);
  peak_ = std::max(peak_, live_);
  if (live_ <= highest_) return;
  highest_ = live_;
  at_peak_ = live_of_;
}
void MemoryRecorder::released(uint64_t buffer, size_t bytes) {
  live_ -= int64_t(bytes);
  const auto at = buffers_.find(buffer);
  if (at == buffers_.end()) return;
  live_of_[at->second.first] -= bytes;
  buffers_.erase(at);
}

// What was there before the recorder may be freed under it: never below zero.
void MemoryRecorder::close(MemoryMoment moment) {
  moment.live = size_t(std::max<int64_t>(live_, 0));
  moment.peak = size_t(std::max<int64_t>(peak_, 0));
  peak_ = live_;
  moments_.push_back(std::move(moment));
}

MemoryProfile MemoryRecorder::run_backward(const Tensors& roots) {
  listening_.end();
  const std::vector<Ref<GradFn>> nodes = nodes_behind(roots);
  std::map<uint64_t, int> ids;
  for (size_t i = 0; i < nodes.size(); ++i) ids[nodes[i]->sequence()] = int(i);
  for (size_t i = 0; i < moments_.size(); ++i)
    if (const auto at = ids.find(sequences_[i]); at != ids.end()) moments_[i].node = at->second;

  for (const auto& [op, bytes] : live_of_) ops_[op].between = bytes;
  backward_ = true;
  Tensors seeds = seeds_or_ones(roots);
  MemoryMoment now{true, -1, "seed"};
  const Hooked hooked(nodes, [&](int id, Tensors&) {
    close(std::move(now));
    now = {true, id, nodes[size_t(id)]->op().name};
  });
  backward(roots, seeds);
  seeds.clear();
  close(std::move(now));
  MemoryProfile profile{before_, std::move(moments_), {}};
  for (auto& [op, line] : ops_) {
    line.op = op;
    line.at_peak = at_peak_[op];
    profile.ops.push_back(line);
  }
  std::stable_sort(profile.ops.begin(), profile.ops.end(),
                   [](const MemoryOfOp& a, const MemoryOfOp& b) { return a.at_peak > b.at_peak; });
  return profile;
}

const MemoryMoment* peak_of(const MemoryProfile& profile) {
  const auto at = std::max_element(
      profile.moments.begin(), profile.moments.end(),
      [](const MemoryMoment& a, const MemoryMoment& b) { return a.peak < b.peak; });
  return at == profile.moments.end() ? nullptr : &*at;
}

// ---- why

std::vector<std::vector<int>> readers_of_saved(GradFn& node) {
  std::vector<std::vector<int>> readers(node.saved().size());
  const bool packed = std::any_of(node.saved().begin(), node.saved().end(),
                                  [](const Saved& s) { return s.packed != nullptr; });
  if (packed || !node.op().vjp) return readers;  // unpacking may run half a program again
  // `read` is the node's own note of who asked. It is taken away for each operand and put back.
  const std::span<const Saved> saved = node.saved();
  const ReadNotes notes(node);
  const NoGrad off;
  Tensors g;
  for (const TensorMeta& m : node.output_metas())
    g.push_back(is_differentiable(m.dtype) ? Tensor::zeros(m.sizes, m.dtype, *m.device) : Tensor());
  for (size_t k = 0; k < node.inputs().size(); ++k) {
    if (!node.needs(k)) continue;
    for (const Saved& s : saved) s.read = false;
    try {
      node.op().vjp(node, k, g);
    } catch (const Error&) {  // the walk has said so already
    }
    for (size_t s = 0; s < saved.size(); ++s)
      if (saved[s].read) readers[s].push_back(int(k));
  }
  return readers;
}

std::vector<int> holders_of(const GraphView& view) {
  std::vector<int> holders;
  for (size_t i = 0; i < view.nodes.size(); ++i)
    for (const SavedTensor& s : view.nodes[i].saved) {
      holders.resize(std::max(holders.size(), size_t(s.storage) + 1), -1);
      if (s.counted) holders[size_t(s.storage)] = int(i);
    }
  return holders;
}

std::string reason_of(const Node& node, const SavedTensor& s, const std::vector<int>& holders) {
  if (s.packed) return "packed by hooks or a checkpoint";
  std::string names;
  for (const int k : s.read_by)
    names += (names.empty() ? "" : ", ") + operand_name(*node.op, size_t(k), "");
  const std::string why = !names.empty() ? "for the vjp of " + names
                          : s.read       ? "for its vjp"
                                         : "no vjp reads it: it need not be saved";
  if (s.counted) return why;
  const int holder = holders[size_t(s.storage)];
  return why + (holder < 0 ? "; a leaf's memory" : join("; memory that %", holder, " holds"));
}

// ---- checkpoints

namespace {

struct Range {
  std::string module;
  int first, last;
};

std::vector<Range> module_ranges(const GraphView& v) {
  std::vector<Range> ranges;
  std::set<std::pair<int, int>> seen;
  const auto prefix = [&](size_t i, size_t depth) {
    const std::vector<std::string>& p = v.nodes[i].path;
    return p.size() < depth
               ? std::vector<std::string>{}
               : std::vector<std::string>(p.begin(), p.begin() + std::ptrdiff_t(depth));
  };
  size_t deepest = 0;
  for (const Node& n : v.nodes) deepest = std::max(deepest, n.path.size());
  for (size_t depth = 1; depth <= deepest; ++depth)
    for (size_t i = 0, end; i < v.nodes.size(); i = end) {
      const std::vector<std::string> path = prefix(i, depth);
      for (end = i + 1; end < v.nodes.size() && prefix(end, depth) == path;) ++end;
      if (!path.empty() && seen.emplace(i, end).second)
        ranges.push_back({path.back(), int(i), int(end)});
    }
  return ranges;
}

}  // namespace

std::vector<CheckpointSaving> checkpoint_savings(const GraphView& v) {
  struct Held {
    int first = 0, last = 0;  // nodes that hold it
    size_t bytes = 0;
  };
  std::map<int, Held> held;  // by storage
  for (size_t i = 0; i < v.nodes.size(); ++i)
    for (const SavedTensor& s : v.nodes[i].saved) {
      const auto [at, fresh] = held.try_emplace(s.storage, Held{int(i), int(i), 0});
      at->second.last = int(i);
      if (s.counted) at->second.bytes = s.bytes;
    }
  std::vector<CheckpointSaving> list;
  for (const Range& r : module_ranges(v)) {
    CheckpointSaving c{r.module, r.first, r.last};
    int64_t bytes = 0;
    for (const auto& [storage, h] : held)
      if (h.first >= r.first && h.last < r.last) bytes += int64_t(h.bytes);
    std::set<std::pair<int, int>> operands;  // (storage, 0), or (-1 - node, output) if nobody saved
    for (int i = r.first; i < r.last; ++i) {
      if (const double flops = v.nodes[size_t(i)].flops; flops >= 0)
        c.flops = std::max(c.flops, 0.0) + flops;
      for (const Source& s : v.nodes[size_t(i)].inputs) {
        if (s.kind != Source::Kind::node || s.id >= r.first) continue;
        const Value& x = v.nodes[size_t(s.id)].outputs[size_t(s.output)];
        if (!operands
                 .insert(x.storage >= 0 ? std::pair(x.storage, 0) : std::pair(-1 - s.id, s.output))
                 .second)
          continue;
        if (x.storage < 0) {
          bytes -= numel_of(x.sizes) * int64_t(itemsize(x.dtype));
        } else if (const Held& h = held.at(x.storage); h.first >= r.first && h.last < r.last) {
          bytes -= int64_t(h.bytes);  // held by the module alone: it stays
        }
      }
    }
    if (bytes <= 0) continue;
    c.bytes = size_t(bytes);
    list.push_back(std::move(c));
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return list;
}

}  // namespace gradus::audit
