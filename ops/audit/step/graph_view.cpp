// The live graph into plain data: forward by its edges, backward by hooks on every node while the
// engine's own walk runs with create_graph, so that the ops of each vjp are nodes that can be read.
#include "ops/audit/step/graph_view.hpp"

#include "engine/capture/ledger.hpp"
#include "ops/audit/step/memory_ledger.hpp"
#include "ops/audit/watch/names.hpp"
#include "ops/audit/watch/vjp_text.hpp"
#include "ops/blocks/plan_cache.hpp"

#include <algorithm>
#include <chrono>
#include <unordered_set>
#include <utility>

namespace gradus::inline v1::audit {

// Time in the kernels of ops.
class GraphRecorder::Clock : public KernelWrapper {
 public:
  struct Spent {
    double ns = 0, bytes = 0;
  };
  bool on = true;
  gd_status call(const gd_call& call, Next next, gd_error& error) override {
    if (!on || !*current_op()) return next(error);
    const auto begin = std::chrono::steady_clock::now();
    const gd_status status = next(error);
    if (!next.device.host_memory()) next.device.synchronize();
    const double ns =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    spent_.ns += ns;
    for (int32_t i = 0; i < call.n_in; ++i) spent_.bytes += view_bytes(call.in[i]);
    for (int32_t i = 0; i < call.n_out; ++i) spent_.bytes += view_bytes(call.out[i]);
    return status;
  }
  // Since the last take().
  Spent take() { return std::exchange(spent_, {}); }

 private:
  Spent spent_;
};

GraphRecorder::GraphRecorder(Device& device, bool values)
    : device_(device), values_(values), clock_(std::make_unique<Clock>()), traces_(std::in_place) {
  scope_.emplace(device_, *clock_);
}
GraphRecorder::~GraphRecorder() = default;
void GraphRecorder::called(const OpContext& ctx, GradFn* node) {
  if (node)
    note(ctx, *node);
  else if (traces_)  // before it is read
    clock_->take();  // nobody's
  Observer::called(ctx, node);
}

static Shape unusual_strides(const Tensor& t) { return t.is_contiguous() ? Shape() : t.strides(); }

void GraphRecorder::note(const OpContext& ctx, GradFn& node) {
  Note& n = notes_[&node];
  n = {};
  const Clock::Spent spent = clock_->take();
  n.ns = spent.ns;
  n.bytes = spent.bytes;
  clock_->on = false;
  for (const Tensor& t : ctx.inputs)
    n.operands.push_back(t.defined() && !t.grad_fn() ? t : Tensor());
  for (const Tensor& y : ctx.outputs) {
    n.buffers.push_back(y.storage().buffer_id());
    n.strides.push_back(unusual_strides(y));
  }
  if (ctx.op.cost) n.flops = ctx.op.cost(ctx).flops;
  if (values_)
    for (const Tensor& y : ctx.outputs) n.outputs.push_back(stats_of(y.detach()));
  clock_->on = true;
}

class GraphReader {
 public:
  GraphReader(const Tensors& roots, const Names& names, GraphRecorder* seen)
      : roots_(roots), seen_(seen) {
    if (seen_) seen_->traces_.reset();
    for (const auto& [name, t] : names)
      if (t.defined() && t.is_leaf() && t.requires_grad()) add_leaf(name, t);
  }

  GraphView read() {
    for (const Tensor& r : roots_)
      if (!r.requires_grad())
        fail(ErrorKind::autograd, "read_graph", "the tensor of shape ", r.sizes(),
             " has no history");
    collect();
    for (size_t i = 0; i < nodes_.size(); ++i) read_node(int(i));
    for (const Tensor& r : roots_) view_.roots.push_back(source_of(r));
    if (seen_) name_storages();
    walk();
    return std::move(view_);
  }

 private:
  using Notes = GraphRecorder::Note;

  const Notes* note_of(const GradFn* node) const {
    if (!seen_) return nullptr;
    const auto at = seen_->notes_.find(node);
    return at == seen_->notes_.end() ? nullptr : &at->second;
  }

  int add_leaf(const std::string& name, const Tensor& t) {
    const auto [at, fresh] = leaf_ids_.try_emplace(t.body()->autograd.get(), view_.leaves.size());
    if (!fresh) return int(at->second);
    leaf_tensors_.push_back(t);
    leaf_buffers_.insert(t.storage().buffer().get());
    Leaf leaf;
    leaf.name = name.empty() ? join("leaf", int64_t(view_.leaves.size())) : name;
    leaf.value = {t.sizes(), t.dtype(), {}, {}, -1, unusual_strides(t)};
    if (seen_ && seen_->values_) leaf.value.stats = stats_of(t.detach());
    view_.leaves.push_back(std::move(leaf));
    return int(at->second);
  }
  // `t` has no history.
  int add_constant(const Tensor& t) {
    const auto [at, fresh] = constant_ids_.try_emplace(t.body().get(), view_.constants.size());
    if (!fresh) return int(at->second);
    kept_.push_back(t);
    Constant c{"", {t.sizes(), t.dtype(), {}, {}, -1, unusual_strides(t)}};
    c.number = t.numel() == 1 && !is_user(t.dtype());
    if (c.number) {
      c.value.stats = stats_of(t);
      c.name = is_complex(t.dtype())
                   ? join(t.item_complex().real(), "+", t.item_complex().imag(), "i")
                   : digits(c.value.stats.first[0], 7);
    } else {
      c.name = join("c", int64_t(named_constants_++));
      if (seen_ && seen_->values_) c.value.stats = stats_of(t);
    }
    c.backward = !view_.steps.empty();
    view_.constants.push_back(std::move(c));
    return int(at->second);
  }
  int add_unknown_constant(const TensorMeta& meta) {
    view_.constants.push_back({join("c", int64_t(named_constants_++)),
                               {meta.sizes, meta.dtype, {}, {}},
                               !view_.steps.empty()});
    return int(view_.constants.size()) - 1;
  }

  Source source_of(const Edge& e) const {
    if (e.fn) {
      const auto at = ids_.find(e.fn.get());
      if (at == ids_.end()) return {};
      return {at->second.kind, at->second.id, int(e.index)};
    }
    if (const auto at = seeds_.find(e.leaf.get()); at != seeds_.end())
      return {Source::Kind::seed, int(at->second), 0};
    const auto at = leaf_ids_.find(e.leaf.get());
    return at == leaf_ids_.end() ? Source{} : Source{Source::Kind::leaf, int(at->second), 0};
  }
  Source source_of(const Tensor& t) {
    if (!t.defined()) return {};
    if (!t.requires_grad()) return {Source::Kind::constant, add_constant(t), 0};
    if (GradFn* fn = t.grad_fn())
      return source_of(Edge{Ref<GradFn>(fn), nullptr, t.output_index()});
    return source_of(Edge{nullptr, t.body()->autograd, 0});
  }

  void know(const Ref<GradFn>& node, Source::Kind kind, int id) {
    ids_[node.get()] = {kind, id};
    held_.push_back(node);
  }

  void collect() {
    nodes_ = nodes_behind(roots_);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i]->freed())
        fail(ErrorKind::autograd, "read_graph", "the graph was freed by a backward pass; read it ",
             "before, or pass retain_graph");
      know(nodes_[i], Source::Kind::node, int(i));
    }
  }

  // What moves blocks or multiplies them, and what comes of it.
  static std::string block_note(const GradFn& node) {
    std::string note = node.attrs().back().text;  // "permute", "ij,jk->ik"
    const std::optional<BlockStructure> into = Noted::of(node.shared_attrs())[0];
    return into ? note + " into " + into->brief() : note;
  }

  void read_call(GradFn& node, GraphCall& call) {
    call.op = &node.op();
    for (size_t i = 0; i < node.attrs().size(); ++i)
      if (!node.attr(i).is_none())
        call.attrs.emplace_back(
            i < call.op->attrs.size() ? call.op->attrs[i].name : join("attr", int64_t(i)),
            to_text(node.attr(i)));
    if (call.op->group == "blocks") call.note = block_note(node);
    const Notes* note = note_of(&node);
    for (size_t k = 0; k < node.inputs().size(); ++k) {
      const Edge& edge = node.inputs()[k];
      const TensorMeta& meta = node.input_metas()[k];
      Tensor operand = note && k < note->operands.size() ? note->operands[k] : Tensor();
      for (const Saved& s : node.saved())
        if (!operand.defined() && s.role == Saved::Role::input && s.index == k) operand = s.tensor;
      if (edge.leaf && !seeds_.contains(edge.leaf.get()) && !leaf_ids_.contains(edge.leaf.get()))
        add_leaf("", operand.defined() && operand.body()->autograd == edge.leaf
                         ? operand
                         : handle_of(edge.leaf, meta));
      if (edge.leads_somewhere())
        call.inputs.push_back(source_of(edge));
      else if (!meta.device)
        call.inputs.emplace_back();
      else
        call.inputs.push_back(
            {Source::Kind::constant,
             operand.defined() ? add_constant(operand) : add_unknown_constant(meta), 0});
    }
    for (const TensorMeta& meta : node.output_metas())
      call.outputs.push_back({meta.sizes, meta.dtype, {}, {}});
  }

  void read_node(int id) {
    GradFn& node = *nodes_[size_t(id)];
    Node n;
    read_call(node, n);
    for (const Source& s : n.inputs)
      if (s.kind == Source::Kind::leaf) ++view_.leaves[size_t(s.id)].uses;
    n.path = places_of(node.trace());
    if (const Notes* note = note_of(&node)) {
      n.flops = note->flops;
      n.bytes = note->bytes;
      n.forward_ns = note->ns;
      for (size_t i = 0; i < note->outputs.size(); ++i) n.outputs[i].stats = note->outputs[i];
      for (size_t i = 0; i < note->strides.size(); ++i) n.outputs[i].strides = note->strides[i];
    }
    read_saved(node, n);
    view_.nodes.push_back(std::move(n));
  }

  void read_saved(const GradFn& node, Node& n) {
    for (const Saved& s : node.saved()) {
      SavedTensor saved;
      saved.what = s.role == Saved::Role::output
                       ? numbered("y", s.index, node.output_metas().size())
                   : s.role == Saved::Role::extra ? "extra"
                                                  : operand_name(node.op(), s.index);
      const void* key = s.packed.get();
      if (s.packed) {
        saved.bytes = size_t(numel_of(s.packed->sizes)) * itemsize(s.packed->dtype);
        saved.sizes = s.packed->sizes;
        saved.dtype = s.packed->dtype;
      } else {
        key = s.tensor.storage().buffer().get();
        saved.bytes = s.tensor.storage().bytes();
        saved.sizes = s.tensor.sizes();
        saved.dtype = s.tensor.dtype();
      }
      const auto [at, fresh] = buffers_.try_emplace(key, int(buffers_.size()));
      saved.storage = at->second;
      if (!s.packed) storages_[s.tensor.storage().buffer_id()] = at->second;
      saved.packed = s.packed != nullptr;
      saved.version = s.version;
      saved.counted = fresh && !s.packed && !leaf_buffers_.contains(key);
      if (saved.counted) n.saved_bytes += saved.bytes;
      if (holders_.size() <= size_t(saved.storage)) holders_.resize(size_t(saved.storage) + 1);
      Holders& h = holders_[size_t(saved.storage)];
      ++h.nodes;
      if (saved.counted) h.bytes = saved.bytes;
      n.saved.push_back(std::move(saved));
    }
    view_.saved_bytes += n.saved_bytes;
  }

  // Which values are the memory that somebody saved.
  void name_storages() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Notes* note = note_of(nodes_[i].get());
      for (size_t k = 0; note && k < note->buffers.size(); ++k)
        if (const auto at = storages_.find(note->buffers[k]); at != storages_.end())
          view_.nodes[i].outputs[k].storage = at->second;
    }
  }

  // ---- backward

  void read_new_calls(const Tensors& tensors) {
    const auto known = [this](const GradFn* fn) { return ids_.contains(fn); };
    for (const Ref<GradFn>& fn : nodes_behind(tensors, known)) {
      know(fn, Source::Kind::call, int(view_.backward_calls.size()));
      GraphCall call;
      read_call(*fn, call);
      view_.backward_calls.push_back(std::move(call));
      calls_.push_back(fn.get());
    }
  }

  void begin_step(int id, const Tensors& g) {
    BackwardStep step;
    step.node = id;
    step.first_call = int(view_.backward_calls.size());
    read_new_calls(g);
    step.sums = int(view_.backward_calls.size()) - step.first_call;
    Node& node = view_.nodes[size_t(id)];
    node.step = int(view_.steps.size());
    for (size_t i = 0; i < g.size(); ++i) {
      if (!g[i].defined()) continue;
      step.cotangents.emplace_back(int(i), source_of(g[i]));
      if (seen_ && seen_->values_) node.outputs[i].gradient = stats_of(g[i].detach());
    }
    view_.steps.push_back(std::move(step));
  }

  void end_step(int id, const Tensors& in) {
    read_new_calls(in);
    BackwardStep& step = view_.steps.back();
    step.calls = int(view_.backward_calls.size()) - step.first_call;
    const GradFn& node = *nodes_[size_t(id)];
    Node& n = view_.nodes[size_t(id)];
    for (size_t k = 0; k < in.size(); ++k)
      if (in[k].defined() && node.inputs()[k].leads_somewhere())
        step.deliveries.push_back({int(k), source_of(node.inputs()[k]), source_of(in[k])});
    for (int c = step.first_call + step.sums; seen_ && c < step.first_call + step.calls; ++c)
      if (const Notes* note = note_of(calls_[size_t(c)]); note && note->flops >= 0)
        n.backward_flops = std::max(n.backward_flops, 0.0) + note->flops;
    size_t left = view_.steps.size() > 1 ? view_.steps[view_.steps.size() - 2].saved_bytes_left
                                         : view_.saved_bytes;
    for (const SavedTensor& s : view_.nodes[size_t(id)].saved)
      if (Holders& h = holders_[size_t(s.storage)]; --h.nodes == 0) left -= h.bytes;
    step.saved_bytes_left = left;
  }

  void walk() {
    Tensors seeds = seeds_or_ones(roots_);
    for (size_t i = 0; i < seeds.size(); ++i)
      seeds_.emplace(&autograd_of(seeds[i].set_requires_grad()), i);
    const RetainedAsBefore retained(nodes_);
    if (seen_) {
      GraphRecorder::Clock& clock = *seen_->clock_;
      const Hooked hooked(
          nodes_, [&](int, Tensors&) { clock.take(); },
          [&](int id, const Tensors&, const Tensors&) {
            Node& n = view_.nodes[size_t(id)];
            const GraphRecorder::Clock::Spent spent = clock.take();
            n.backward_ns = spent.ns;
            n.backward_bytes = spent.bytes;
          });
      grad(roots_, leaf_tensors_, seeds, {.retain_graph = true, .allow_unused = true});
      clock.on = false;
    }
    Tensors gradients;
    {
      const Hooked hooked(
          nodes_, [&](int id, Tensors& came) { begin_step(id, came); },
          [&](int id, const Tensors& sent, const Tensors&) { end_step(id, sent); });
      gradients = grad(roots_, leaf_tensors_, seeds, {.create_graph = true, .allow_unused = true});
    }
    view_.first_leaf_sum = int(view_.backward_calls.size());
    read_new_calls(gradients);
    for (size_t i = 0; i < gradients.size(); ++i) {
      view_.leaf_gradients.push_back(source_of(gradients[i]));
      if (seen_ && seen_->values_ && gradients[i].defined())
        view_.leaves[i].value.gradient = stats_of(gradients[i].detach());
    }
    count_deliveries();
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (size_t s = 0; s < nodes_[i]->saved().size(); ++s)
        view_.nodes[i].saved[s].read = nodes_[i]->saved()[s].read;
    if (!seen_) return;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const std::vector<std::vector<int>> readers = readers_of_saved(*nodes_[i]);
      for (size_t s = 0; s < readers.size(); ++s) view_.nodes[i].saved[s].read_by = readers[s];
      if (nodes_[i]->op().statement < 0) view_.nodes[i].derivatives = vjp_text(*nodes_[i]).words();
    }
  }

  void count_deliveries() {
    std::unordered_map<uint64_t, int> counts;
    const auto key = [](const Source& s) {
      return (uint64_t(s.kind) << 56) | (uint64_t(s.id) << 16) | uint64_t(s.output);
    };
    for (BackwardStep& step : view_.steps)
      for (BackwardStep::Delivery& d : step.deliveries) d.nth = ++counts[key(d.to)];
    for (BackwardStep& step : view_.steps)
      for (BackwardStep::Delivery& d : step.deliveries) d.of = counts[key(d.to)];
  }

  struct Known {
    Source::Kind kind;
    int id;
  };
  struct Holders {
    int nodes = 0;
    size_t bytes = 0;
  };

  const Tensors& roots_;
  GraphRecorder* seen_;
  GraphView view_;
  std::vector<Ref<GradFn>> nodes_;
  std::vector<GradFn*> calls_;
  std::unordered_map<const GradFn*, Known> ids_;
  std::vector<Ref<GradFn>> held_;  // so that no address comes back as another node
  std::unordered_map<const Autograd*, size_t> leaf_ids_, seeds_;
  Tensors leaf_tensors_, kept_;
  std::unordered_map<const TensorBody*, size_t> constant_ids_;
  int named_constants_ = 0;
  std::unordered_map<const void*, int> buffers_;
  std::unordered_set<const void*> leaf_buffers_;
  std::unordered_map<uint64_t, int> storages_;  // of saved memory, by buffer
  std::vector<Holders> holders_;
};

bool Node::trivial() const { return op->is_view || op->group == "view" || op->group == "memory"; }

GraphView read_graph(const Tensors& roots, const Names& names, GraphRecorder* seen) {
  GraphView view = GraphReader(roots, names, seen).read();
  if (!roots.empty()) view.device = roots[0].device().name();
  return view;
}

}  // namespace gradus::audit
