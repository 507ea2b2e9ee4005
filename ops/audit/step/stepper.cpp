// The walk with hooks on every node, and a position in what they kept.
#include "ops/audit/step/stepper.hpp"

#include "engine/arithmetic.hpp"
#include "ops/audit/step/graph_view.hpp"
#include "ops/audit/watch/names.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>

namespace gradus::inline v1::audit {

double norm_of(const Tensor& t) {
  const TensorStats s = stats_of(t);
  return s.nans > 0 ? NAN : s.infs > 0 ? INFINITY : s.norm;
}

Stepper::Stepper(const Tensors& roots, const Names& names, const Tensors& seeds)
    : roots_(roots), nodes_(nodes_behind(roots)) {
  for (const Tensor& r : roots)
    if (!r.requires_grad())
      fail(ErrorKind::autograd, "step", "the tensor of shape ", r.sizes(),
           " has no history: no operand on the way requires a gradient");
  if (!seeds.empty() && seeds.size() != roots.size())
    fail(ErrorKind::autograd, "step", roots.size(), " roots and ", seeds.size(), " seeds");
  seeds_ = seeds_or_ones(roots, seeds);
  for (size_t i = 0; i < nodes_.size(); ++i) ids_[nodes_[i].get()] = int(i);
  name_leaves(names);
  walk();
}

void Stepper::name_leaves(const Names& names) {
  std::unordered_map<const Autograd*, std::pair<std::string, Tensor>> known;
  for (const auto& [name, t] : names)
    if (t.defined() && t.is_leaf() && t.requires_grad())
      known.try_emplace(t.body()->autograd.get(), name, t);
  const auto add = [&](const Ref<Autograd>& leaf, const TensorMeta& meta) {
    if (!leaf || !leaf->requires_grad || leaf_ids_.contains(leaf.get())) return;
    leaf_ids_[leaf.get()] = int(leaves_.size());
    if (const auto at = known.find(leaf.get()); at != known.end())
      return leaves_.push_back(at->second);
    leaves_.emplace_back(join("leaf", leaves_.size()), handle_of(leaf, meta));
  };
  for (const Ref<GradFn>& node : nodes_)
    for (size_t k = 0; k < node->inputs().size(); ++k)
      add(node->inputs()[k].leaf, node->input_metas()[k]);
  for (const Tensor& r : roots_)
    if (!r.grad_fn()) add(r.body()->autograd, {r.sizes(), r.dtype(), &r.device()});
}

void Stepper::walk() {
  turns_.clear();
  deliveries_.clear();
  gradients_.clear();
  error_.clear();
  thrown_ = nullptr;
  turn_of_.assign(nodes_.size(), -1);
  std::optional<Turn> open;
  struct Calls : Observer {  // of the open turn; no other observer is told of them
    explicit Calls(std::optional<Turn>& t) : turn(t) {}
    void called(const OpContext& call, GradFn*) override {
      if (turn) turn->calls.push_back(&call.op);
    }
    std::optional<Turn>& turn;
    ObserverScope listening{*this};
  };
  Tensors inputs;
  for (const auto& [name, t] : leaves_) inputs.push_back(t);
  try {
    const Calls calls(open);
    const RetainedAsBefore retained(nodes_);
    const Hooked hooked(
        nodes_,
        [&](int id, Tensors& g) {
          for (size_t k = 0; k < g.size(); ++k)
            if (const auto edit = edits_.find({id, int(k)}); edit != edits_.end())
              g[k] = edit->second;
          open = Turn{id, g, {}, {}};
        },
        [&](int id, const Tensors& sent, const Tensors&) {
          open->out = sent;
          turn_of_[size_t(id)] = int(turns_.size());
          turns_.push_back(std::move(*open));
          open.reset();
        });
    gradients_ = grad(roots_, inputs, seeds_, {.retain_graph = true, .allow_unused = true});
  } catch (const std::exception& e) {
    error_ = e.what();
    thrown_ = std::current_exception();
    failed_ = open ? open->node : -1;
  }
  for (size_t i = 0; i < roots_.size(); ++i)
    deliveries_[place_of(roots_[i])].push_back({-1, int(i)});
  for (size_t t = 0; t < turns_.size(); ++t)
    for (size_t k = 0; k < turns_[t].out.size(); ++k)
      if (const auto to = target(turns_[t].node, int(k)); to && turns_[t].out[k].defined())
        deliveries_[*to].push_back({int(t), int(k)});
  position_ = std::min(position_, turns_.size());
}

Place Stepper::place_of(const Tensor& root) const {
  if (root.grad_fn()) return {false, ids_.at(root.grad_fn()), int(root.output_index())};
  return {true, leaf_ids_.at(root.body()->autograd.get()), 0};
}

// "; leaves are a, b, c, ...", eight at most.
static std::string leaves_text(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), size_t(8)); ++i)
    text += (i ? ", " : "; leaves are ") + names[i];
  return text + (names.size() > 8 ? ", ..." : "");
}

Place Stepper::find(const std::string& name) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (leaves_[i].first == name) return {true, int(i), 0};
    names.push_back(leaves_[i].first);
  }
  const std::string range = join("%0 to %", int64_t(nodes_.size()) - 1);
  if (!name.starts_with("%"))
    fail(ErrorKind::value, name, "no leaf of this graph has that name",
         nearest(name, names).empty() ? leaves_text(names) : did_you_mean(name, names),
         "; nodes are written ", range);
  const auto number = [](std::string_view text) {
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? value : -1;
  };
  const size_t dot = std::min(name.find('.'), name.size());
  const int id = number(std::string_view(name).substr(1, dot - 1));
  if (id < 0 || id >= int(nodes_.size()))
    fail(ErrorKind::value, name, "there is no such node; they are ", range);
  const int output = dot == name.size() ? 0 : number(std::string_view(name).substr(dot + 1));
  const size_t outputs = nodes_[size_t(id)]->output_metas().size();
  if (output < 0 || size_t(output) >= outputs)
    fail(ErrorKind::value, name, name_of(id), " has ", outputs,
         outputs == 1 ? " output" : " outputs");
  return {false, id, output};
}

int Stepper::find_node(const std::string& name) const {
  const Place p = find(name);
  if (p.leaf) fail(ErrorKind::value, "step", name, " is a leaf; a node was expected, such as %0");
  return p.id;
}

std::vector<std::string> Stepper::ops() const {
  std::set<std::string> all;
  for (const Ref<GradFn>& node : nodes_) all.insert(node->op().name);
  return {all.begin(), all.end()};
}
std::vector<std::string> Stepper::paths() const {
  std::set<std::string> all;
  for (const Ref<GradFn>& node : nodes_)
    for (std::string& place : places_of(node->trace())) all.insert(std::move(place));
  return {all.begin(), all.end()};
}

Breakpoint Stepper::at_node(const std::string& name) const {
  return {Breakpoint::Kind::node, find_node(name)};
}
Breakpoint Stepper::at_op(const std::string& name) const {
  const std::vector<std::string> known = ops();
  if (!std::binary_search(known.begin(), known.end(), name))
    fail(ErrorKind::value, "break", "no node of this graph is a ", name, did_you_mean(name, known));
  return {Breakpoint::Kind::op, -1, name};
}
Breakpoint Stepper::at_path(const std::string& typed) const {
  const std::vector<std::string> known = paths();
  // "layers.0" is "layers[0]", too: leaves are named so.
  std::string name;
  for (size_t i = 0; i < typed.size(); ++i) {
    size_t end = i + 1;
    while (typed[i] == '.' && end < typed.size() &&
           std::isdigit(static_cast<unsigned char>(typed[end])))
      ++end;
    name += end > i + 1 ? "[" + typed.substr(i + 1, end - i - 1) + "]" : typed.substr(i, 1);
    i = end - 1;
  }
  if (std::none_of(known.begin(), known.end(),
                   [&](const std::string& p) { return p.starts_with(name); }))
    fail(ErrorKind::value, "break", "nothing was recorded in ", name, did_you_mean(name, known));
  return {Breakpoint::Kind::path, -1, name};
}

std::string Stepper::name_of(const Place& p) const {
  if (p.leaf) return leaves_[size_t(p.id)].first;
  return output_name("%", p.id, p.output, nodes_[size_t(p.id)]->output_metas().size());
}
std::string Stepper::name_of(int node) const {
  return join("%", node, " ", nodes_[size_t(node)]->op().name);
}
std::string Stepper::call_text(int node) const {
  const GradFn& fn = *nodes_[size_t(node)];
  const auto type = [](const TensorMeta& m) { return type_text({m.sizes, m.dtype, {}, {}}); };
  std::string left, right;
  for (size_t i = 0; i < fn.output_metas().size(); ++i)
    left += (i ? ", " : "") + name_of({false, node, int(i)}) + ":" + type(fn.output_metas()[i]);
  for (size_t k = 0; k < fn.inputs().size(); ++k) {
    const auto to = target(node, int(k));
    const TensorMeta& meta = fn.input_metas()[k];
    right += (k ? ", " : "") + (to ? name_of(*to) : meta.device ? type(meta) : "none");
  }
  return left + " = " + fn.op().name + "(" + right + ")";
}

bool Stepper::next() {
  if (at_end()) {
    if (thrown_) std::rethrow_exception(thrown_);
    return false;
  }
  ++position_;
  return true;
}

bool Stepper::back() {
  if (position_ == 0) return false;
  --position_;
  return true;
}

// Was a node recorded in this module, or in one of its own?
static bool within(std::string_view trace, const std::string& path) {
  const std::vector<std::string> places = places_of(trace);
  return std::any_of(places.begin(), places.end(), [&](const std::string& place) {
    return place.starts_with(path) && (place.size() == path.size() || !isalnum(place[path.size()]));
  });
}

std::string Stepper::stops(const Breakpoint& b) const {
  using Kind = Breakpoint::Kind;
  if (b.kind == Kind::norm || b.kind == Kind::nan) {
    if (position_ == 0) return "";
    const Turn& t = turns_[position_ - 1];
    for (size_t k = 0; k < t.out.size(); ++k) {
      if (!t.out[k].defined()) continue;
      const double norm = norm_of(t.out[k]);
      const std::string what = join("the cotangent of operand ", k, " of %", t.node, " ",
                                    nodes_[size_t(t.node)]->op().name);
      if (b.kind == Kind::nan ? !std::isfinite(norm) : !(norm <= b.bound))
        return b.kind == Kind::nan ? what + " is not finite" : join(what, " has norm ", norm);
    }
    return "";
  }
  const Turn* t = upcoming();
  if (!t) return "";
  const GradFn& node = *nodes_[size_t(t->node)];
  switch (b.kind) {
    case Kind::node:
      return t->node == b.node ? join("%", b.node, " is next") : "";
    case Kind::op:
      return node.op().name == b.text ? join("%", t->node, " ", b.text, " is next") : "";
    default:
      return within(node.trace(), b.text)
                 ? join("%", t->node, " ", node.op().name, " of ", b.text, " is next")
                 : "";
  }
}

int Stepper::run(const std::vector<Breakpoint>& breakpoints) {
  while (next())
    for (size_t i = 0; i < breakpoints.size(); ++i)
      if (!stops(breakpoints[i]).empty()) return int(i);
  return -1;
}

const std::vector<Delivery>& Stepper::deliveries(const Place& to) const {
  static const std::vector<Delivery> none;
  const auto at = deliveries_.find(to);
  return at == deliveries_.end() ? none : at->second;
}

std::optional<Place> Stepper::target(int node, int operand) const {
  const Edge& e = nodes_[size_t(node)]->inputs()[size_t(operand)];
  if (e.fn) return Place{false, ids_.at(e.fn.get()), int(e.index)};
  const auto leaf = leaf_ids_.find(e.leaf.get());
  if (!e.leaf || leaf == leaf_ids_.end()) return {};
  return Place{true, leaf->second, 0};
}

Tensor Stepper::delivered(const Delivery& d) const {
  return d.turn < 0 ? seeds_[size_t(d.operand)] : turns_[size_t(d.turn)].out[size_t(d.operand)];
}

size_t Stepper::arrived(const Place& at) const {
  size_t n = 0;
  for (const Delivery& d : deliveries(at)) n += d.turn < int(position_);
  return n;
}

Tensor Stepper::cotangent(const Place& at) const {
  if (at.leaf && at_end() && !gradients_.empty()) return gradients_[size_t(at.id)];
  if (!at.leaf)
    if (const int turn = turn_of(at.id); turn >= 0 && turn <= int(position_))
      return turns_[size_t(turn)].in[size_t(at.output)];
  // The walk's own order of addition.
  const NoGrad off;
  const Unwatched quiet;
  Tensor sum;
  for (const Delivery& d : deliveries(at)) {
    if (d.turn >= int(position_)) break;
    const Tensor g = delivered(d);
    sum = sum.defined() ? arithmetic().add(sum, g) : g;
  }
  return sum;
}

void Stepper::check_ahead(int node, int output) const {
  if (node < 0 || node >= int(nodes_.size()))
    fail(ErrorKind::value, "set", "there is no node %", node, "; the last one is %",
         int64_t(nodes_.size()) - 1);
  const GradFn& fn = *nodes_[size_t(node)];
  const std::string name = join("%", node, " ", fn.op().name);
  if (output < 0 || output >= int(fn.output_metas().size()))
    fail(ErrorKind::value, "set", name, " has ", fn.output_metas().size(), " outputs, there is no ",
         output);
  const int turn = turn_of(node);
  if (turn >= 0 && turn < int(position_))
    fail(ErrorKind::value, "set", "the turn of ", name, " is past; go back ",
         int64_t(position_) - turn, " first");
  if (turn < 0 && error_.empty()) fail(ErrorKind::value, "set", "backward never comes to ", name);
}

void Stepper::set(int node, int output, const Tensor& value) {
  check_ahead(node, output);
  const GradFn& fn = *nodes_[size_t(node)];
  const TensorMeta& meta = fn.output_metas()[size_t(output)];
  if (!(value.sizes() == meta.sizes))
    fail(ErrorKind::shape, "set", "the cotangent of %", node, " ", fn.op().name, " is ", meta.dtype,
         " ", meta.sizes, ", not ", value.sizes());
  if (value.dtype() != meta.dtype)
    fail(ErrorKind::dtype, "set", "the cotangent of %", node, " ", fn.op().name, " is ", meta.dtype,
         ", not ", value.dtype());
  edits_[{node, output}] = value.clone_data();
  walk();
}

void Stepper::unset(int node, int output) {
  check_ahead(node, output);
  if (edits_.erase({node, output}) > 0) walk();
}

}  // namespace gradus::audit
