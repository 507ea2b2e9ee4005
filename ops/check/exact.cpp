#include "ops/check/exact.hpp"

#include "engine/forward.hpp"
#include "engine/graph.hpp"
#include "engine/abi/philox.hpp"
#include "ops/ops.hpp"
#include "ops/check/check.hpp"

namespace gradus::inline v1::rows {

namespace {

// Integers of [-4, 4] without 0, over the denominator.
class Draw {
 public:
  Draw(DType dtype, Device& device, int64_t denominator)
      : dtype_(dtype), device_(device), denominator_(denominator) {}
  Tensor like(const Shape& sizes) {
    std::vector<int64_t> n(size_t(numel_of(sizes)));
    for (int64_t& x : n) {
      x = int64_t(random_bits(kCheckSeed, next_++).a % 8) - 4;
      x += x >= 0;
    }
    const Tensor t = cast(Tensor::from(n, sizes, device_), dtype_);
    return denominator_ == 1 ? t : div(t, denominator_).detach();
  }
  Tensors like(const Tensors& ts) {
    Tensors out;
    for (const Tensor& t : ts) out.push_back(like(t.sizes()));
    return out;
  }

 private:
  DType dtype_;
  Device& device_;
  int64_t denominator_;
  uint64_t next_ = 0;
};

// Sum of <a, b>; what is undefined is zero.
Tensor dot(const Tensors& a, const Tensors& b, DType dtype, Device& device) {
  Tensor total = Tensor::zeros({}, dtype, device);
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].defined() && b[i].defined()) total = add(total, sum(mul(a[i], b[i])));
  return total;
}
bool equal(const Tensor& a, const Tensor& b) { return eq(a, b).item() != 0; }

class Proof {
 public:
  Proof(const OpInfo& op, const Row& row, size_t which, DType dtype, Device& device, Draw& numbers)
      : op_(op), dtype_(dtype), device_(device), attrs_(attrs_of(op, row.cases[which].attrs)) {
    inputs_ = draw_inputs(row, which, DType::f64, device);
    for (size_t k = 0; k < inputs_.size(); ++k) {
      if (!is_floating(inputs_[k].dtype())) continue;
      inputs_[k] = numbers.like(inputs_[k].sizes());
      moving_.push_back(k);
    }
    for (const Tensor& y : evaluate(op_, inputs_, attrs_)) outputs_.push_back(y);
    // An empty case would hold for any derivative.
    bool moves = false;
    for (const size_t k : moving_) {
      points_.push_back(inputs_[k]);
      moves |= inputs_[k].numel() > 0;
    }
    for (const Tensor& y : outputs_) applies_ |= moves && y.dtype() == dtype_ && y.numel() > 0;
    v_ = numbers.like(points_);
    u_ = numbers.like(points_);
    w_ = numbers.like(outputs_);
  }
  bool applies() const { return applies_; }

  // "" or what differs.
  std::string first_order() {
    Tensors tangents;
    {
      const NoGrad off;
      ForwardLevel level;
      for (const Tensor& y : run(fresh(false), &level)) tangents.push_back(y.tangent());
    }
    const Tensors leaves = fresh(true);
    const Tensors g = pull(run(leaves, nullptr), leaves, false);
    const Tensor a = dot(w_, tangents, dtype_, device_), b = dot(g, v_, dtype_, device_);
    if (equal(a, b)) return "";
    return "<w, Jv> is " + a.to_string() + ", <J'w, v> is " + b.to_string();
  }

  std::string second_order() {
    const Tensor vhu = bilinear(u_, v_), uhv = bilinear(v_, u_), forward = over_forward();
    if (!equal(vhu, uhv))
      return "<v, Hu> is " + vhu.to_string() + ", <u, Hv> is " + uhv.to_string();
    if (!equal(vhu, forward))
      return "<v, Hu> is " + vhu.to_string() + ", by forward over reverse " + forward.to_string();
    return "";
  }

 private:
  Tensors fresh(bool leaves) const {
    Tensors out;
    for (const Tensor& x : points_) {
      Tensor t = x.detach();
      if (leaves) t.set_requires_grad();
      out.push_back(t);
    }
    return out;
  }
  // The op at these points, which get the tangents v where a level is given.
  Tensors run(const Tensors& points, ForwardLevel* level) const {
    Tensors in = inputs_;
    for (size_t i = 0; i < moving_.size(); ++i) {
      if (level) level->set_tangent(points[i], v_[i]);
      in[moving_[i]] = points[i];
    }
    return evaluate(op_, in, attrs_, points[0].requires_grad());
  }
  Tensors pull(const Tensors& outputs, const Tensors& leaves, bool create_graph) const {
    Tensors roots, seeds;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].requires_grad()) {
        roots.push_back(outputs[i]);
        seeds.push_back(w_[i]);
      }
    if (roots.empty()) return Tensors(leaves.size());
    return grad(roots, leaves, seeds, {.create_graph = create_graph, .allow_unused = true});
  }
  // <b, H a>
  Tensor bilinear(const Tensors& a, const Tensors& b) const {
    const Tensors leaves = fresh(true);
    const Tensor first = [&] {
      const EnableGrad on;
      return dot(a, pull(run(leaves, nullptr), leaves, true), dtype_, device_);
    }();
    Tensors second(leaves.size());
    if (first.requires_grad()) second = grad({first}, leaves, {}, {.allow_unused = true});
    return dot(b, second, dtype_, device_);
  }
  // <u, H v>: the tangent of <u, J^T w> along v.
  Tensor over_forward() const {
    ForwardLevel level;
    const Tensors leaves = fresh(true);
    Tensors tangents;
    for (const Tensor& g : pull(run(leaves, &level), leaves, false))
      tangents.push_back(g.defined() ? g.tangent() : Tensor());
    return dot(u_, tangents, dtype_, device_);
  }

  const OpInfo& op_;
  DType dtype_;
  Device& device_;
  Attrs attrs_;
  bool applies_ = false;
  Tensors inputs_, outputs_, points_;
  std::vector<size_t> moving_;
  Tensors v_, u_, w_;
};

}  // namespace

ExactResult check_exact(const OpInfo& op, DType dtype, Device& device, int64_t denominator) {
  ExactResult result;
  const Row& row = row_of(op.name);
  if (!op.differentiable) {
    result.words = "has no derivative";
    return result;
  }
  const DeviceScope here(device);
  Draw numbers(dtype, device, denominator);
  for (size_t c = 0; c < row.cases.size(); ++c) {
    std::string wrong;
    try {
      Proof proof(op, row, c, dtype, device, numbers);
      if (!proof.applies()) continue;
      wrong = proof.first_order();
      if (wrong.empty()) ++result.cases;
      if (wrong.empty() && row.cases[c].slopes) {
        wrong = proof.second_order();
        ++result.second_order;
      }
    } catch (const Error& e) {
      // What the type has not, or a number that it can't hold: nothing is proven by this case.
      if (e.kind() != ErrorKind::dtype && e.kind() != ErrorKind::value) wrong = e.what();
      result.words = e.what();
      ++result.refused;
    }
    if (wrong.empty()) continue;
    result.verdict = ExactResult::Verdict::wrong;
    result.words = join("case ", int64_t(c), ": ", wrong);
    return result;
  }
  if (result.cases > 0) result.verdict = ExactResult::Verdict::proven;
  return result;
}

}  // namespace gradus::rows
