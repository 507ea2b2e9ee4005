// Planning a recorded step, and repeating it.
#include "engine/capture/replay.hpp"

#include "engine/capture/fuse.hpp"
#include "engine/hooks.hpp"
#include "engine/streams/stream.hpp"

#include <algorithm>
#include <numeric>

namespace gradus::inline v1::wrap {

namespace {
constexpr size_t kAlign = 64;

template <class F>
void for_views(const std::vector<RecordedCall>& calls, F&& f) {
  for (size_t i = 0; i < calls.size(); ++i) {
    for (const RecordedView& v : calls[i].in) f(i, v, false);
    for (const RecordedView& v : calls[i].out) f(i, v, true);
  }
}

// Other threads may read .grad meanwhile.
Tensor grad_of(const Autograd& leaf) {
  const std::lock_guard lock(grad_lock(&leaf.grad));
  return leaf.grad;
}
void set_grad_of(Autograd& leaf, Tensor g) {
  const std::lock_guard turn(grad_turn(&leaf.grad));
  const std::lock_guard lock(grad_lock(&leaf.grad));
  std::swap(leaf.grad, g);
}

// Constants that nothing else writes over are read where they lie: their copies go.
void keep_constants(StepRecorder& r, const std::unordered_map<uint64_t, uint32_t>& outlives) {
  std::unordered_map<uint64_t, int> writers;
  for_views(r.calls, [&](size_t, const RecordedView& v, bool out) { writers[v.buffer] += out; });
  std::unordered_map<uint64_t, uint64_t> stands_for;
  std::erase_if(r.calls, [&](const RecordedCall& c) {
    const bool constant = std::any_of(r.constants.begin(), r.constants.end(), [&](const auto& k) {
      return !c.in.empty() && k.id == c.in[0].buffer;
    });
    if (!constant || writers[c.out[0].buffer] != 1 || outlives.contains(c.out[0].buffer))
      return false;
    stands_for[c.out[0].buffer] = c.in[0].buffer;
    return true;
  });
  for (RecordedCall& c : r.calls)
    for (RecordedView& v : c.in)
      if (const auto it = stands_for.find(v.buffer); it != stands_for.end()) v.buffer = it->second;
}
}  // namespace

void* Arena::reserve(Tensor& part, size_t bytes, Device& device) {
  if (bytes > 0 && (!part.defined() || part.bytes() < bytes)) {
    part = Tensor();
    part = Tensor::empty({int64_t(bytes)}, DType::u8, device);
  }
  return part.defined() ? part.storage().data() : nullptr;
}

// The largest first, each into the lowest gap that is free during its life.
size_t place(std::vector<Life>& lives) {
  std::vector<size_t> order(lives.size()), placed;
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lives[a].bytes > lives[b].bytes; });
  size_t total = 0;
  for (const size_t i : order) {
    Life& life = lives[i];
    const size_t size = (life.bytes + kAlign - 1) / kAlign * kAlign;
    life.offset = 0;
    for (const size_t k : placed) {  // by offset
      const Life& other = lives[k];
      if (other.last < life.first || life.last < other.first) continue;
      if (life.offset + size <= other.offset) break;
      life.offset =
          std::max(life.offset, other.offset + (other.bytes + kAlign - 1) / kAlign * kAlign);
    }
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t b) { return lives[a].offset < lives[b].offset; }),
        i);
    total = std::max(total, life.offset + size);
  }
  return total;
}

Replay::Replay(Device& device, StepRecorder& recorder, std::shared_ptr<Arena> arena)
    : device_(device), arena_(std::move(arena)) {
  const StreamScope scope(device_);
  for (const SeenLeaf& l : recorder.leaves)
    leaves_.push_back({l.leaf, l.added, l.before, grad_of(*l.leaf)});
  resolve(recorder);
  if (!recorder.why.empty()) return;
  std::vector<RecordedCall> calls = fuse(recorder);
  const size_t once = calls.size();
  calls.insert(calls.end(), recorder.calls.begin(), recorder.calls.end());
  lay_out(calls, recorder.bytes);
  if (streams_used)
    for (const Binding& b : bindings_) in_order(*b.storage->buffer(), true);
  run_once(once);
  const gd_table& t = device_.table();
  wants_graph_ = t.capture_begin && t.capture_end && t.graph_launch && t.graph_del &&
                 t.capabilities && (t.capabilities(device_.handle()) & GD_CAP_GRAPH);
}

Replay::~Replay() {
  if (graph_) device_.table().graph_del(device_.handle(), graph_);
  if (device_.table().unprepare)
    for (const Ready& r : ready_)
      if (r.call.plan) device_.table().unprepare(device_.handle(), r.call.plan);
}

uint32_t Replay::bind(Storage& storage) {
  bindings_.push_back({Ref<Storage>(&storage)});
  return uint32_t(bindings_.size() - 1);
}

// Which storage stands behind each buffer that the step did not begin and end with. Storages that
// changed their buffer, or share one, in the step get their contents by a copy at its end.
void Replay::resolve(StepRecorder& r) {
  for (const SeenStorage& s : r.storages)
    if (!s.born) binding_of_.emplace(s.first, bind(*s.storage));
  const size_t before = bindings_.size();
  for (const SeenStorage& s : r.storages) {
    const uint64_t now = s.storage->buffer_id();
    if (!s.born || s.storage->bytes() == 0) continue;
    uint64_t id = now;
    if (!r.bytes.contains(now) || binding_of_.contains(now)) {
      id = r.fresh_id();
      r.calls.push_back(copy_of(now, id, s.storage->bytes(), "copy"));
    }
    binding_of_.emplace(id, bind(*s.storage));
  }
  for (const SeenStorage& s : r.storages) {
    const uint64_t now = s.storage->buffer_id();
    if (s.born || now == s.first || s.storage->bytes() == 0) continue;
    if (const auto it = binding_of_.find(now); it != binding_of_.end() && it->second < before)
      r.refuse("two tensors made before the step exchange their memory in it");
    r.calls.push_back(copy_of(now, s.first, s.storage->bytes(), "copy"));
  }
  keep_constants(r, binding_of_);
  for (const Constant& c : r.constants) {
    const Tensor t =
        Tensor::from_host(c.bytes.data(), {int64_t(c.bytes.size())}, DType::u8, device_);
    binding_of_.emplace(c.id, bind(t.storage()));
  }
  for_views(r.calls, [&](size_t, const RecordedView& v, bool out) {
    if (v.buffer == 0) return;
    if (const auto it = binding_of_.find(v.buffer); it != binding_of_.end())
      bindings_[it->second].written |= out;
    else if (!r.bytes.contains(v.buffer))
      r.refuse("memory of unknown origin is used");
  });
}

std::vector<RecordedCall> Replay::fuse(StepRecorder& r) {
  const auto outlives = [&](uint64_t buffer) { return binding_of_.contains(buffer); };
  std::unordered_set<uint64_t> constants;
  for (const Constant& c : r.constants) constants.insert(c.id);
  std::vector<RecordedCall> once = take_constant_calls(r.calls, constants, outlives, r.bytes);
  for (const RecordedCall& c : once)
    for (const RecordedView& v : c.out) {
      if (v.buffer == 0 || r.bytes.at(v.buffer) == 0) continue;
      const Tensor t = Tensor::empty({int64_t(r.bytes.at(v.buffer))}, DType::u8, device_);
      binding_of_.emplace(v.buffer, bind(t.storage()));
    }
  if (device_.offers(GD_CHAIN)) r.calls = chained(std::move(r.calls), outlives);
  r.calls = with_epilogues(std::move(r.calls), outlives);
  reuse_operands(r.calls, outlives, r.bytes);
  r.calls = joined_updates(std::move(r.calls));
  return once;
}

// Everything into flat arrays that stay where they are, so that a replay only walks.
void Replay::lay_out(const std::vector<RecordedCall>& calls,
                     const std::unordered_map<uint64_t, size_t>& bytes) {
  size_t views = 0, integers = 0, doubles = 0;
  for (const RecordedCall& c : calls) {
    views += c.in.size() + c.out.size();
    integers += c.ints.size();
    doubles += c.doubles.size();
  }
  for_views(calls, [&](size_t, const RecordedView& v, bool) { integers += 2 * v.sizes.size(); });
  views_.reserve(views);
  integers_.reserve(integers);
  doubles_.reserve(doubles);
  const auto keep = [&](const auto& list) {
    const int64_t* at = integers_.data() + integers_.size();
    integers_.insert(integers_.end(), list.begin(), list.end());
    return at;
  };

  std::unordered_map<uint64_t, size_t> life_of;
  std::vector<Life> lives;
  for_views(calls, [&](size_t i, const RecordedView& v, bool) {
    if (v.buffer == 0 || binding_of_.contains(v.buffer) || bytes.at(v.buffer) == 0) return;
    const auto [it, fresh] = life_of.emplace(v.buffer, lives.size());
    if (fresh) lives.push_back({bytes.at(v.buffer), i, i});
    lives[it->second].last = i;
  });
  arena_bytes_ = place(lives);

  for (const RecordedCall& c : calls) {
    const gd_view* first = views_.data() + views_.size();
    for (const auto* side : {&c.in, &c.out})
      for (const RecordedView& v : *side) {
        const auto index = uint32_t(views_.size());
        views_.push_back({v.buffer, nullptr, v.dtype, int32_t(v.sizes.size()), v.offset,
                          keep(v.sizes), keep(v.strides)});
        if (const auto b = binding_of_.find(v.buffer); b != binding_of_.end())
          bindings_[b->second].views.push_back(index);
        else if (const auto l = life_of.find(v.buffer); l != life_of.end())
          arena_views_.emplace_back(index, lives[l->second].offset);
      }
    const double* numbers = doubles_.data() + doubles_.size();
    doubles_.insert(doubles_.end(), c.doubles.begin(), c.doubles.end());
    ready_.push_back({device_.table().slot[c.slot],
                      {sizeof(gd_call), c.slot, c.op, int32_t(c.in.size()), int32_t(c.out.size()),
                       int32_t(c.doubles.size()), int32_t(c.ints.size()), first,
                       first + c.in.size(), numbers, keep(c.ints), nullptr, nullptr, 0, nullptr}});
    names_.push_back(c.name);
  }
  device_.pool().trim();  // what the recorded step leaves behind is not needed any more
  Arena::reserve(arena_->memory, arena_bytes_, device_);
  std::erase_if(bindings_, [](const Binding& b) { return b.views.empty(); });
  binding_of_.clear();
  follow();
  if (device_.table().prepare)
    for (Ready& ready : ready_) {
      gd_error error{};
      if (device_.table().prepare(device_.handle(), &ready.call, &ready.call.plan, &error) != GD_OK)
        ready.call.plan = nullptr;
    }
}

// Runs the first `count` calls and forgets them: their results stay.
void Replay::run_once(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const CurrentOp now(names_[i].c_str());
    device_.run(ready_[i].call);
    if (ready_[i].call.plan) device_.table().unprepare(device_.handle(), ready_[i].call.plan);
  }
  ready_.erase(ready_.begin(), ready_.begin() + int64_t(count));
  names_.erase(names_.begin(), names_.begin() + int64_t(count));
}

// Points the views to where their memory is now.
void Replay::follow() {
  void* const arena = Arena::reserve(arena_->memory, arena_bytes_, device_);
  void* const scratch = Arena::reserve(arena_->scratch, scratch_bytes_, device_);
  const size_t scratch_has = scratch ? arena_->scratch.bytes() : 0;
  const bool other_scratch = scratch != scratch_bound_ || scratch_has != scratch_bound_bytes_;
  bool moved = arena != arena_bound_ || other_scratch;
  if (arena != arena_bound_)
    for (const auto& [view, offset] : arena_views_)
      views_[view].data = static_cast<char*>(arena) + offset;
  if (other_scratch)
    for (Ready& ready : ready_) {
      ready.call.scratch = scratch;
      ready.call.scratch_bytes = scratch_has;
    }
  arena_bound_ = arena;
  scratch_bound_ = scratch;
  scratch_bound_bytes_ = scratch_has;
  for (Binding& b : bindings_) {
    if (b.storage->data() == b.bound) continue;
    b.bound = b.storage->data();
    for (const uint32_t v : b.views) views_[v].data = b.bound;
    moved = true;
  }
  if (!moved) return;
  if (graph_) device_.table().graph_del(device_.handle(), graph_);
  graph_ = nullptr;
  runs_ = 0;
}

// Of a call that did nothing, with its status and what it wanted.
void Replay::run_again(size_t call, gd_status first, int64_t wanted) {
  const CurrentOp now(names_[call].c_str());
  if (first == GD_SCRATCH) {
    scratch_bytes_ = size_t(wanted);
    follow();
  }
  device_.run(ready_[call].call);  // says it as an Error, or finds the memory that was not there
  if (first != GD_OOM && first != GD_SCRATCH)
    fail(ErrorKind::internal, names_[call].c_str(),
         "a kernel failed once, and not the second time");
}

void Replay::run_calls() {
  if (device_.wrappers().empty()) {
    gd_error error;
    for (size_t i = 0; i < ready_.size(); ++i)
      if (const gd_status s = ready_[i].slot(device_.handle(), nullptr, &ready_[i].call, &error);
          s != GD_OK)
        run_again(i, s, error.wanted);
  } else {
    for (size_t i = 0; i < ready_.size(); ++i) {
      const CurrentOp now(names_[i].c_str());
      device_.run(ready_[i].call);
    }
  }
}

// True if the calls have run as a graph.
bool Replay::run_graph() {
  constexpr int kBefore = 2;  // runs that set up what may not be set up while recording
  if (!wants_graph_ || !device_.wrappers().empty() || runs_++ < kBefore) return false;
  const gd_table& t = device_.table();
  gd_error error{};
  if (!graph_) {
    bool recorded = t.capture_begin(device_.handle(), nullptr, &error) == GD_OK;
    if (recorded) {
      for (const Ready& r : ready_)
        recorded = recorded && r.slot(device_.handle(), nullptr, &r.call, &error) == GD_OK;
      recorded = t.capture_end(device_.handle(), nullptr, &graph_, &error) == GD_OK && recorded;
    }
    if (!recorded) {
      if (graph_) t.graph_del(device_.handle(), graph_);
      graph_ = nullptr;
      wants_graph_ = false;
      return false;
    }
  }
  if (t.graph_launch(device_.handle(), nullptr, graph_, &error) == GD_OK) return true;
  fail(ErrorKind::device, "replay", error.text);
}

void Replay::run() {
  const StreamScope scope(device_);  // the default stream, whatever the scope around
  for (const Leaf& l : leaves_)
    if (l.added && !(grad_of(*l.leaf).body() == l.before.body()))
      fail(ErrorKind::autograd, "replay",
           "the recorded step added its gradient to a .grad that was ",
           l.before.defined() ? "there and has been replaced or dropped since"
                              : "empty, and it is not now; call zero_grad() before each replay",
           l.before.defined() ? "; zero it in place, or record again" : "");
  if (draws_ > 0) {
    if (generator_ != &default_generator())
      fail(ErrorKind::value, "replay", "the step draws random numbers and was recorded in another ",
           "thread; replay it there");
    generator_->begin_step();
  }
  for (const Binding& b : bindings_)
    if (b.written)
      b.storage->write("replay");
    else if (streams_used)
      in_order(*b.storage->buffer(), false);
  follow();
  if (!run_graph()) run_calls();
  for (const Leaf& l : leaves_) set_grad_of(*l.leaf, l.after);
  if (draws_ > 0) generator_->take(int64_t(draws_), device_);
}

}  // namespace gradus::wrap
