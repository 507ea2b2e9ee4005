// Where a NaN was born, and where the way to a parameter is cut: both follow values through the
// calls of a watch. And who makes a gradient of zeros.
#include "ops/audit/judge/audit.hpp"
#include "engine/arithmetic.hpp"
#include "ops/audit/watch/names.hpp"
#include "ops/audit/watch/run.hpp"
#include "ops/audit/step/stepper.hpp"
#include "ops/audit/watch/tensor_stats.hpp"
#include "ops/base/dtypes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace gradus::inline v1::audit {

namespace {

// At a part of an output, or of an operand or its cotangent; words are to come.
Birth born(const Call* c, bool from_outside, int64_t operand, const Tensor& t, int64_t part) {
  return {c, from_outside, operand, index_of(t, size_t(part)), parts_of(t)[size_t(part)]};
}

// The operands of a call at an element of an output, where they have the same shape (or broadcast
// to it); else their smallest and largest.
std::string operands_at(const Call& c, const Tensor& y, const Shape& element) {
  std::string s;
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    const Tensor& x = c.inputs[k];
    if (!x.defined() || !is_floating(x.dtype()) || x.numel() == 0) continue;
    const Parts p = parts_of(x);
    const size_t lead = element.size() - std::min(element.size(), x.sizes().size());
    bool fits = x.sizes().size() <= element.size();
    int64_t at = 0;
    for (size_t d = 0; fits && d < x.sizes().size(); ++d) {
      const int64_t n = x.sizes()[d];
      fits = n == 1 || n == y.sizes()[lead + d];
      at = at * n + (n == 1 ? 0 : element[lead + d]);
    }
    s += join(s.empty() ? "" : ", ", "operand ", k, " ");
    if (fits && !is_complex(x.dtype())) {
      s += join("is ", digits(p[size_t(at)], 9), " there");
    } else {
      const auto [low, high] = std::minmax_element(p.begin(), p.end());
      s += join("lies in [", digits(*low, 6), ", ", digits(*high, 6), "]");
    }
  }
  return s;
}

}  // namespace

std::optional<Birth> birth(const Watch& watch, bool infinities) {
  const Unwatched quiet;
  const Bad first = infinities ? Bad::not_finite : Bad::nan;
  for (const Call& seen : watch.calls()) {
    if (!seen.node) continue;
    const auto bad = [](const Tensors& tensors, Bad look, size_t* which, int64_t* part) {
      for (*which = 0; *which < tensors.size(); ++*which)
        if ((*part = first_bad(tensors[*which], look)) >= 0) return true;
      return false;
    };
    size_t which = 0;
    int64_t part = -1;
    if (!bad(seen.outputs, first, &which, &part)) continue;
    // An infinity on the way to it was there before: back to what made that.
    const Call* c = &seen;
    for (;;) {
      size_t k = 0;
      int64_t at = -1;
      if (!bad(c->inputs, Bad::not_finite, &k, &at)) break;
      const Call* maker = watch.find(c->node->inputs()[k].fn.get());
      if (!maker || !bad(maker->outputs, Bad::not_finite, &which, &part)) {
        Birth b = born(c, true, int64_t(k), c->inputs[k], at);
        b.text = join(c->op->name, " takes ", b.value, " in operand ", k, " element ", b.element,
                      ", which no recorded op made");
        return b;
      }
      c = maker;
    }
    const Tensor& y = c->outputs[which];
    Birth b = born(c, false, -1, y, part);
    b.text = join(c->op->name, " gives ", b.value, " in element ", b.element,
                  " from finite operands: ", operands_at(*c, y, b.element));
    return b;
  }
  return std::nullopt;
}

std::optional<Birth> birth_in_backward(const Watch& watch, const Tensors& roots, bool infinities,
                                       const Tensors& seeds) {
  const Unwatched quiet;
  const NoGrad off;
  std::map<uint64_t, std::pair<GradFn*, Tensors>> waiting;  // later forward ops first
  const auto deliver = [&](GradFn* fn, uint32_t index, const Tensor& g) {
    auto& [node, sums] = waiting[~fn->sequence()];
    node = fn;
    sums.resize(fn->output_metas().size());
    sums[index] = sums[index].defined() ? arithmetic().add(sums[index], g) : g;
  };
  const Tensors begin = seeds_or_ones(roots, seeds);
  for (size_t i = 0; i < roots.size(); ++i)
    if (roots[i].grad_fn()) deliver(roots[i].grad_fn(), roots[i].output_index(), begin[i]);
  std::optional<Birth> infinite;  // the first infinity: a NaN after it comes from there
  while (!waiting.empty()) {
    const auto [node, g] = waiting.extract(waiting.begin()).mapped();
    const Call* call = watch.find(node);
    const bool clean = std::all_of(
        g.begin(), g.end(), [](const Tensor& t) { return first_bad(t, Bad::not_finite) < 0; });
    for (size_t k = 0; k < node->inputs().size(); ++k) {
      const Edge& edge = node->inputs()[k];
      if (!edge.leads_somewhere()) continue;
      const Tensor gk = pull(*node, k, g);
      const int64_t part = first_bad(gk, Bad::not_finite);
      if (part >= 0 && call) {
        if (clean && !infinite) {
          infinite = born(call, false, int64_t(k), gk, part);
          infinite->text =
              join("the vjp of ", node->op().name, " gives ", infinite->value, " for operand ", k,
                   " element ", infinite->element,
                   " from finite cotangents: ", operands_at(*call, gk, infinite->element));
        }
        if (infinite && (infinities || first_bad(gk, Bad::nan) >= 0)) return infinite;
      }
      if (gk.defined() && edge.fn) deliver(edge.fn.get(), edge.index, gk);
    }
  }
  return std::nullopt;
}

std::vector<Unreached> unreached(const Watch& watch, const Tensors& roots,
                                 const Tensors& parameters) {
  const Unwatched quiet;
  std::set<const Autograd*> leaves;
  for (const Ref<GradFn>& node : nodes_behind(roots))
    for (const Edge& e : node->inputs())
      if (e.leaf) leaves.insert(e.leaf.get());
  for (const Tensor& r : roots)
    if (r.is_leaf()) leaves.insert(r.body()->autograd.get());
  std::vector<Unreached> found;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    if (p.requires_grad() && leaves.contains(p.body()->autograd.get())) continue;
    if (!p.requires_grad()) {
      found.push_back({i, "it requires no gradient"});
      continue;
    }
    std::set<const Storage*> reached{&p.storage()};
    std::string why;
    const Call* last = nullptr;
    for (const Call& c : watch.calls()) {
      const auto reads = [&](const Call::Place& r) {
        return r.storage && reached.contains(r.storage.get());
      };
      auto from = std::find_if(c.read.begin(), c.read.end(),
                               [&](const Call::Place& r) { return reads(r) && r.requires_grad; });
      if (from == c.read.end()) from = std::find_if(c.read.begin(), c.read.end(), reads);
      if (from == c.read.end()) continue;
      const std::string at = c.where.empty() ? c.op->name : c.op->name + " at " + c.where;
      if (c.node && from->requires_grad) {
        for (const Call::Place& m : c.made)
          if (m.storage) reached.insert(m.storage.get());
        last = &c;
        continue;
      }
      why = !c.grad_enabled        ? join("cut by no_grad, in ", at)
            : !from->requires_grad ? join("cut by a detach, before ", at)
            : !c.op->differentiable ||
                    std::none_of(c.made.begin(), c.made.end(),
                                 [](const Call::Place& m) { return is_differentiable(m.dtype); })
                ? join("cut by ", at, ", which has no derivative")
                : join("not recorded by ", at);
      break;
    }
    if (why.empty())
      why = !last ? "no op reads it"
                  : join("the result of ", last->op->name, " does not reach the root");
    found.push_back({i, why});
  }
  return found;
}

std::vector<Unreached> zero_gradients(const Watch& watch, const Stepper& stepper) {
  const std::vector<Ref<GradFn>>& nodes = stepper.nodes();
  const auto is_zero = [](const Tensor& t) {
    if (!t.defined() || t.numel() == 0) return true;
    const TensorStats s = stats_of(t);
    return s.count > 0 && s.zeros == s.count;
  };
  std::map<Place, std::vector<int>> readers;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (size_t k = 0; k < nodes[i]->inputs().size(); ++k)
      if (const auto to = stepper.target(int(i), int(k))) readers[*to].push_back(int(i));
  std::vector<Unreached> found;
  for (size_t i = 0; i < stepper.leaves().size(); ++i) {
    const Place leaf{true, int(i), 0};
    if (stepper.leaves()[i].second.numel() == 0 || !readers.contains(leaf) ||
        !is_zero(stepper.cotangent(leaf)))
      continue;
    // From the leaf towards the roots, as far as all is zero.
    std::set<int> makers;
    std::string cancels;
    std::set<Place> seen{leaf};
    std::vector<Place> waiting{leaf};
    while (!waiting.empty()) {
      const Place p = waiting.back();
      waiting.pop_back();
      const std::vector<Delivery>& sum = stepper.deliveries(p);
      if (std::any_of(sum.begin(), sum.end(),
                      [&](const Delivery& d) { return !is_zero(stepper.delivered(d)); })) {
        cancels = stepper.name_of(p);
        continue;
      }
      for (const int node : readers[p]) {
        const int turn = stepper.turn_of(node);
        const Tensors none, &in = turn < 0 ? none : stepper.turns()[size_t(turn)].in;
        if (!std::all_of(in.begin(), in.end(), is_zero)) {
          makers.insert(node);
          continue;
        }
        for (size_t k = 0; k < nodes[size_t(node)]->output_metas().size(); ++k)
          if (const Place q{false, node, int(k)}; seen.insert(q).second) waiting.push_back(q);
      }
    }
    std::string why = "its gradient is 0 everywhere";
    if (!makers.empty()) {
      const int first = *makers.begin();
      const Call* call = watch.find(nodes[size_t(first)].get());
      why += join(": the vjp of ", stepper.name_of(first),
                  !call || call->where.empty() ? "" : " at " + call->where, " gives zeros");
      if (makers.size() > 1) why += join(", and that of ", int64_t(makers.size()) - 1, " more");
    } else if (!cancels.empty()) {
      why += ": what is added up for " + cancels + " cancels";
    } else {
      why += ": backward begins with zeros";
    }
    found.push_back({i, why});
  }
  return found;
}

}  // namespace gradus::audit
