// Calls say what was saved and what made a tensor; writes say the rest.
#include "ops/audit/judge/versions.hpp"
#include "engine/arithmetic.hpp"
#include "ops/audit/watch/names.hpp"

#include <algorithm>
#include <set>
#include <string_view>

namespace gradus::inline v1::audit {

namespace {

Storage* storage_of(const Tensor& t) {
  return t.defined() && !t.is_number() ? t.body()->storage.get() : nullptr;
}
std::string at(const std::string& where) { return where.empty() ? "" : ", at " + where; }

std::string what_of(const OpInfo& op, const Saved& s) {
  switch (s.role) {
    case Saved::Role::output:
      return join("output ", s.index);
    case Saved::Role::input:
      return "input " + operand_name(op, s.index, "");
    default:
      return join("extra ", s.index);
  }
}

// What the engine keeps for itself on a device: no tensor of the program.
bool is_internal(std::string_view writer) { return writer == "random" || writer == "step_block"; }

}  // namespace

std::string to_text(const StaleCopy& s) {
  return join(s.what, " of ", s.op, " (version ", s.version, ")", at(s.where));
}
std::string to_text(const Write& w) {
  return join(w.tensor, ": ", w.by, " wrote it, version ", w.from, " -> ", w.to, at(w.where));
}

VersionLog::Memory& VersionLog::memory_of(Storage& storage) {
  const auto [at, fresh] = memories_.try_emplace(&storage);
  if (fresh) {
    at->second = {Ref<Storage>(&storage),
                  ++last_id_,
                  join(storage.bytes(), " bytes that no op made"),
                  false,
                  false,
                  {}};
  }
  return at->second;
}
void VersionLog::call(Memory& memory, const std::string& tensor) {
  memory.tensor = tensor;
  memory.known = true;
  if (!memory.written) return;
  for (Write& w : writes_)
    if (w.id == memory.id) w.tensor = tensor;
}

void VersionLog::name(const std::string& name, const Tensor& t) {
  Storage* storage = storage_of(t);
  if (!storage) return;
  call(memory_of(*storage), name);
}

std::vector<Write> VersionLog::writes_to(const Tensor& t) const {
  std::vector<Write> found;
  const Storage* storage = storage_of(t);
  std::copy_if(writes_.begin(), writes_.end(), std::back_inserter(found),
               [&](const Write& w) { return storage && w.memory == storage; });
  return found;
}

std::vector<Write> VersionLog::writes_to(const GradFn& node, const Watch& watch) const {
  std::vector<Write> found;
  std::set<uint64_t> ids;
  for (const Write& w : writes_)
    if (w.node == node.sequence()) ids.insert(w.id);
  if (const Call* const call = watch.find(&node))
    for (const Call::Place& p : call->made)
      if (const auto m = memories_.find(p.storage.get()); m != memories_.end())
        ids.insert(m->second.id);
  std::copy_if(writes_.begin(), writes_.end(), std::back_inserter(found),
               [&](const Write& w) { return ids.contains(w.id); });
  return found;
}

void VersionLog::called(const OpContext& call, GradFn* node) {
  Observer::called(call, node);
  if (memories_.size() + nodes_.size() > sweep_at_) sweep();
  const auto type = [](const Tensor& t) { return join(t.dtype(), " ", t.sizes()); };
  const auto meet = [&](const Tensor& t, const std::string& maker) {
    if (Storage* s = storage_of(t))
      if (Memory& m = memory_of(*s); !m.known) this->call(m, type(t) + ", made by " + maker);
  };
  const std::string here = trace_text();
  for (const Tensor& x : call.inputs) meet(x, "no op");
  for (const Tensor& y : call.outputs) meet(y, call.op.name + (here.empty() ? "" : " at " + here));
  last_ = {&call.op == arithmetic().scatter_strided ? "" : call.op.name + "_",
           call.inputs.empty() || !storage_of(call.inputs[0]) ? "" : type(call.inputs[0]),
           node ? node->sequence() : 0};
  if (!node) return;
  for (const Saved& s : node->saved()) {
    Storage* storage = storage_of(s.tensor);
    if (!storage) continue;
    nodes_.try_emplace(node, Ref<GradFn>(node));
    memory_of(*storage).copies.push_back(
        {node, {call.op.name, here, what_of(call.op, s), s.version}});
  }
}

void VersionLog::written(Storage& storage, const char* op) {
  Observer::written(storage, op);
  if (is_internal(op)) return;
  Memory& m = memory_of(storage);
  m.written = true;
  // An op's form in place has just computed from a copy of what it writes, and of its type.
  const bool follows = last_.in_place == op || last_.in_place.empty();  // "": through a view
  if (!m.known && last_.in_place == op && !last_.operand.empty())
    call(m, last_.operand + ", made by no op");
  Write w{m.tensor, op,       trace_text(), storage.version() - 1,   storage.version(),
          {},       &storage, m.id,         follows ? last_.node : 0};
  last_ = {" ", "", 0};
  for (const Memory::Copy& c : m.copies)
    if (c.saved.version == w.from && !c.node->freed()) w.stale.push_back(c.saved);
  writes_.push_back(std::move(w));
}

std::string VersionLog::stale_story(const GradFn& node, const Saved& saved) const {
  std::string text;
  const Storage* storage = storage_of(saved.tensor);
  if (const auto m = memories_.find(storage); m != memories_.end())
    for (const Memory::Copy& c : m->second.copies)
      if (c.node == &node && c.saved.what == what_of(node.op(), saved))
        text = join("; it is ", m->second.tensor, "; saved as ", to_text(c.saved));
  size_t shown = 0;
  for (const Write& w : writes_) {
    if (w.memory != storage || w.to <= saved.version) continue;
    if (++shown > 3) return text + "; and again";
    text += join("; written by ", w.by, " (version ", w.from, " -> ", w.to, ")", at(w.where));
  }
  return text + Observer::stale_story(node, saved);
}

// Newest nodes first: they hold the older ones.
void VersionLog::sweep() {
  std::vector<const GradFn*> nodes;
  for (const auto& [node, held] : nodes_) nodes.push_back(node);
  std::sort(nodes.begin(), nodes.end(),
            [](auto* a, auto* b) { return a->sequence() > b->sequence(); });
  for (const GradFn* node : nodes)
    if (node->use_count() == 1 || node->freed()) nodes_.erase(node);
  for (auto& [storage, m] : memories_)
    std::erase_if(m.copies, [&](const Memory::Copy& c) { return !nodes_.contains(c.node); });
  const auto gone = [](const Memory& m) { return m.storage->use_count() == 1 && m.copies.empty(); };
  for (Write& w : writes_)
    if (const auto m = memories_.find(w.memory); m != memories_.end() && gone(m->second))
      w.memory = nullptr;
  std::erase_if(memories_, [&](const auto& m) { return gone(m.second); });
  sweep_at_ = std::max<size_t>(1024, 2 * (memories_.size() + nodes_.size()));
}

}  // namespace gradus::audit
