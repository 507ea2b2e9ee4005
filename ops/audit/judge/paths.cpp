// Tangents up, flows through edges, and the search for the paths that carry most.
#include "ops/audit/judge/paths.hpp"
#include "engine/forward.hpp"
#include "engine/arithmetic.hpp"

#include "ops/audit/step/graph_view.hpp"
#include "ops/audit/watch/run.hpp"
#include "ops/base/dtypes.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::audit {

namespace {

// Paths that are open at a time: all of them up to kOpen, else so many that a search takes kPulls
// vjps, but kFewest.
constexpr size_t kOpen = 512, kFewest = 32, kPulls = 1 << 14;

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
    count();
    search();
    rank();
    return std::move(out_);
  }

 private:
  // A path as far as it was followed: the cotangent along it alone, and the amount of all paths
  // that begin so.
  struct Beginning {
    GradientPath path;
    Place at;
  };

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
      fail(ErrorKind::value, "explain", "the gradient of ", name,
           " is not finite, so no path has a ",
           "share of it; the audit itself says where that begins");
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
    out_.residual = std::abs(up - out_.total) / (out_.total != 0 ? std::abs(out_.total) : 1);
  }

  double paths_from(const Place& p) const {
    return p.leaf ? (p == to_ ? 1 : 0) : counts_[size_t(p.id)];
  }
  void count() {
    for (size_t id = 0; id < s_.nodes().size(); ++id) {
      double all = 0;
      for (size_t k = 0; k < out_.flow[id].size(); ++k)
        if (const auto to = onward(int(id), int(k))) all += paths_from(*to);
      counts_.push_back(all);
    }
    for (const Tensor& r : s_.roots())
      if (tangent_at(s_.place_of(r)).defined()) out_.count += paths_from(s_.place_of(r));
  }

  // Down from the roots, node by node in the order of the walk; where too many paths are open,
  // those go on whose beginnings carry most. Where no two paths cancel, a beginning carries at
  // least what each of its paths does.
  void search() {
    const size_t per_node = kPulls / std::max<size_t>(s_.turns().size(), 1);
    const size_t width = out_.count <= kOpen ? kOpen : std::clamp<size_t>(per_node, kFewest, kOpen);
    for (size_t i = 0; i < s_.roots().size(); ++i) {
      GradientPath path;
      path.root = int(i);
      path.contribution = s_.seeds()[i];
      open({std::move(path), s_.place_of(s_.roots()[i])});
    }
    for (const Turn& t : s_.turns()) {
      const auto here = std::partition(open_.begin(), open_.end(),
                                       [&](const Beginning& b) { return b.at.id != t.node; });
      std::vector<Beginning> arrived(std::make_move_iterator(here),
                                     std::make_move_iterator(open_.end()));
      open_.erase(here, open_.end());
      for (Beginning& b : arrived) go_on(b);
      if (open_.size() <= width) continue;
      std::nth_element(open_.begin(), open_.begin() + int64_t(width), open_.end(),
                       [](const Beginning& a, const Beginning& b) {
                         return std::abs(a.path.amount) > std::abs(b.path.amount);
                       });
      open_.resize(width);
    }
  }
  void go_on(Beginning& b) {
    GradFn& node = *s_.nodes()[size_t(b.at.id)];
    Tensors in(node.output_metas().size());
    in[size_t(b.at.output)] = b.path.contribution;
    for (size_t k = 0; k < node.inputs().size(); ++k) {
      const auto to = onward(b.at.id, int(k));
      if (!to) continue;
      GradientPath path = b.path;
      path.hops.push_back({b.at.id, int(k)});
      if (b.path.contribution.defined()) path.contribution = pull(node, k, in);
      open({std::move(path), *to});
    }
  }
  void open(Beginning b) {
    const Tensor tangent = tangent_at(b.at);
    if (!tangent.defined()) return;
    b.path.amount = inner(b.path.contribution, tangent);
    if (!std::isfinite(b.path.amount)) b.path.amount = 0;  // has no order
    if (b.at.leaf)
      finish(std::move(b.path));
    else
      open_.push_back(std::move(b));
  }
  void finish(GradientPath path) {
    ++out_.followed;
    path.norm = norm_of(path.contribution);
    out_.paths.push_back(std::move(path));
    if (out_.paths.size() < 2 * top_ + kOpen) return;
    sort();
    out_.paths.resize(top_);
  }
  void sort() {
    std::stable_sort(out_.paths.begin(), out_.paths.end(),
                     [](const GradientPath& a, const GradientPath& b) {
                       return std::abs(a.amount) > std::abs(b.amount);
                     });
  }

  void rank() {
    sort();
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
  std::vector<double> counts_;     // of paths from each node
  std::vector<Beginning> open_;
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
