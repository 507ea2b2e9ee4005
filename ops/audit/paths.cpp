// Tangents up, flows through edges, the most promising paths, and those followed.
#include "ops/audit/paths.hpp"

#include "ops/audit/graph_view.hpp"
#include "ops/audit/run.hpp"
#include "ops/dtypes.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::audit {

namespace {

constexpr size_t kCandidates = 4;  // followed, for each that is shown

double inner(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return 0;
  const Parts x = parts_of(a), y = parts_of(b);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

class Explainer {
 public:
  Explainer(const Stepper& s, int leaf, const std::optional<Shape>& element, size_t top)
      : s_(s), to_{true, leaf, 0}, top_(std::max<size_t>(top, 1)) {
    out_.gradient = s.cotangent(to_);
    aim(element);
  }

  GradientPaths run() {
    push_tangents();
    measure();
    choose();
    for (const Chosen& c : roots_best_) follow(c);
    rank();
    return std::move(out_);
  }

 private:
  // A way on from a node: through `operand`, then as the n-th of those that are best from there.
  struct Chosen {
    double score;
    int operand;  // of a root: which root
    size_t nth;
  };
  using Best = std::vector<Chosen>;

  // The direction that amounts are measured in.
  void aim(const std::optional<Shape>& element) {
    const Tensor& g = out_.gradient;
    const std::string& name = s_.name_of(to_);
    if (!g.defined()) fail(ErrorKind::value, "explain", name, " gets no gradient");
    Parts w = parts_of(g);
    const size_t parts = is_complex(g.dtype()) ? 2 : 1;
    if (element) {
      size_t at = 0;
      bool fits = element->size() == g.sizes().size();
      for (size_t d = 0; fits && d < element->size(); ++d) {
        fits = (*element)[d] >= 0 && (*element)[d] < g.sizes()[d];
        at = at * size_t(g.sizes()[d]) + size_t((*element)[d]);
      }
      if (!fits)
        fail(ErrorKind::value, "explain", name, " is ", g.sizes(), ", it has no element ",
             *element);
      for (size_t i = 0; i < w.size(); ++i)
        if (i / parts != at) w[i] = 0;
      if (parts == 1) w[at] = 1;  // amounts then sum to the element, with its sign
    }
    double norm = 0;
    for (const double x : w) norm += x * x;
    norm = std::sqrt(norm);
    if (norm == 0)
      fail(ErrorKind::value, "explain", "the gradient of ", name, " is zero",
           element ? " there" : "; choose an element");
    if (!std::isfinite(norm))
      fail(ErrorKind::value, "explain", "the gradient of ", name, " is not finite; see birth()");
    for (double& x : w) x /= norm;
    direction_ = of_parts(w, g.sizes(), g.dtype(), g.device());
    out_.total = inner(g, direction_);
  }

  Tensor tangent_at(const Place& p) const {
    if (p.leaf) return p == to_ ? direction_ : Tensor();
    return tangents_[size_t(p.id)].empty() ? Tensor() : tangents_[size_t(p.id)][size_t(p.output)];
  }
  // Where an operand leads, if that is on a way to the leaf.
  std::optional<Place> onward(int node, int operand) const {
    const auto to = s_.target(node, operand);
    return to && tangent_at(*to).defined() ? to : std::nullopt;
  }

  void push_tangents() {
    const NoGrad off;
    for (const Ref<GradFn>& node : s_.nodes()) {
      const int id = int(tangents_.size());
      Tensors t(node->inputs().size());
      bool any = false;
      for (size_t k = 0; k < t.size(); ++k)
        if (const auto to = s_.target(id, int(k))) {
          t[k] = tangent_at(*to);
          any |= t[k].defined();
        }
      tangents_.emplace_back();
      if (!any) continue;
      if (!node->op().jvp)
        fail(ErrorKind::autograd, "explain", s_.name_of(id), " has no forward-mode rule");
      Tensors up;
      for (size_t i = 0; i < node->output_metas().size(); ++i) {
        const TensorMeta& meta = node->output_metas()[i];
        Tensor y = is_differentiable(meta.dtype) ? node->op().jvp(*node, i, t) : Tensor();
        if (y.defined() && !(y.sizes() == meta.sizes)) y = arithmetic().expand(y, meta.sizes);
        up.push_back(y.defined() ? y.detach() : y);
      }
      tangents_.back() = std::move(up);
    }
  }

  void measure() {
    for (const Ref<GradFn>& node : s_.nodes()) out_.flow.emplace_back(node->inputs().size());
    for (const Turn& t : s_.turns())
      for (size_t k = 0; k < t.out.size(); ++k)
        if (const auto to = onward(t.node, int(k)))
          out_.flow[size_t(t.node)][k] = inner(t.out[k], tangent_at(*to));
    double up = 0;
    for (size_t i = 0; i < s_.roots().size(); ++i)
      up += inner(s_.seeds()[i], tangent_at(s_.place_of(s_.roots()[i])));
    out_.residual = std::abs(up - out_.total) / std::abs(out_.total);
  }

  size_t ways(const Place& p) const {
    return p.leaf ? (p == to_ ? 1 : 0) : best_[size_t(p.id)].size();
  }
  double paths_from(const Place& p) const {
    return p.leaf ? (p == to_ ? 1 : 0) : counts_[size_t(p.id)];
  }
  void add(Best& best, double share, int through, const Place& to) const {
    for (size_t n = 0; n < ways(to); ++n)
      best.push_back({share * (to.leaf ? 1 : best_[size_t(to.id)][n].score), through, n});
  }
  void keep_best(Best& best) const {
    std::stable_sort(best.begin(), best.end(),
                     [](const Chosen& a, const Chosen& b) { return a.score > b.score; });
    if (best.size() > kCandidates * top_) best.resize(kCandidates * top_);
  }

  // The best ways on from each node, older ones first.
  void choose() {
    for (size_t id = 0; id < s_.nodes().size(); ++id) {
      const std::vector<double>& flow = out_.flow[id];
      double all = 0, count = 0;
      for (const double f : flow) all += std::abs(f);
      Best best;
      for (size_t k = 0; k < flow.size(); ++k)
        if (const auto to = onward(int(id), int(k))) {
          add(best, all > 0 ? std::abs(flow[k]) / all : 0, int(k), *to);
          count += paths_from(*to);
        }
      keep_best(best);
      best_.push_back(std::move(best));
      counts_.push_back(count);
    }
    for (size_t i = 0; i < s_.roots().size(); ++i) {
      const Place at = s_.place_of(s_.roots()[i]);
      const Tensor t = tangent_at(at);
      if (!t.defined()) continue;
      add(roots_best_, std::abs(inner(s_.seeds()[i], t)), int(i), at);
      out_.count += paths_from(at);
    }
    keep_best(roots_best_);
  }

  void follow(const Chosen& from) {
    GradientPath path;
    path.root = from.operand;
    Place at = s_.place_of(s_.roots()[size_t(from.operand)]);
    Tensor g = s_.seeds()[size_t(from.operand)];
    size_t nth = from.nth;
    while (!at.leaf) {
      const Chosen& c = best_[size_t(at.id)][nth];
      path.hops.push_back({at.id, c.operand});
      if (g.defined()) {
        GradFn& node = *s_.nodes()[size_t(at.id)];
        Tensors in(node.output_metas().size());
        in[size_t(at.output)] = g;
        g = pull(node, size_t(c.operand), in);
      }
      at = *s_.target(at.id, c.operand);
      nth = c.nth;
    }
    path.contribution = g;
    path.amount = inner(g, direction_);
    path.norm = norm_of(g);
    out_.paths.push_back(std::move(path));
  }

  void rank() {
    std::stable_sort(out_.paths.begin(), out_.paths.end(),
                     [](const GradientPath& a, const GradientPath& b) {
                       return std::abs(a.amount) > std::abs(b.amount);
                     });
    if (out_.paths.size() > top_) out_.paths.resize(top_);
    out_.others = out_.total;
    Parts rest = parts_of(out_.gradient);
    for (const GradientPath& p : out_.paths) {
      out_.others -= p.amount;
      if (!p.contribution.defined()) continue;
      const Parts c = parts_of(p.contribution);
      for (size_t i = 0; i < rest.size(); ++i) rest[i] -= c[i];
    }
    double squares = 0;
    for (const double x : rest) squares += x * x;
    out_.others_norm = std::sqrt(squares);
  }

  const Stepper& s_;
  const Place to_;
  const size_t top_;
  GradientPaths out_;
  Tensor direction_;
  std::vector<Tensors> tangents_;  // of each node's outputs; empty: none reaches it
  std::vector<Best> best_;
  std::vector<double> counts_;
  Best roots_best_;
};

}  // namespace

GradientPaths explain_paths(const Stepper& stepper, int leaf, const std::optional<Shape>& element,
                            size_t top) {
  if (!stepper.error().empty())
    fail(ErrorKind::value, "explain", "backward fails: ", stepper.error());
  if (!stepper.at_end()) fail(ErrorKind::value, "explain", "the walk is not at its end");
  if (stepper.edited()) fail(ErrorKind::value, "explain", "cotangents were set by hand");
  const Unwatched quiet;
  return Explainer(stepper, leaf, element, top).run();
}

}  // namespace gradus::audit
