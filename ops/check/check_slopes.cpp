// The derivative modes: everything is checked on random projections in f64 and c128, so that one op
// costs a handful of evaluations and no Jacobian. Differences are of fourth order:
// f'(0) = (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h + O(h^4).
#include "ops/check/check.hpp"
#include "engine/forward.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace gradus::inline v1::rows {

namespace {

constexpr double kStep = 5e-4;
// h^4 f'''''/30 and eps f / h are both below this over the domains of the rows.
constexpr double kAgainstDifferences = 1e-7;
// Two ways to the same number by rounded arithmetic alone.
constexpr double kAgainstEachOther = 1e-11;

using Vectors = std::vector<Numbers>;  // one per operand or output; empty: nothing moves there

struct Inner {
  double value = 0;  // Re sum conj(a) b
  double size = 0;   // sum |a| |b|: what its rounding errors are relative to
  void add(const Numbers& a, const Numbers& b) {
    if (a.empty() || b.empty()) return;
    for (size_t i = 0; i < a.size(); ++i) {
      value += (std::conj(a[i]) * b[i]).real();
      size += std::abs(a[i]) * std::abs(b[i]);
    }
  }
};
Inner inner(const Vectors& a, const Vectors& b) {
  Inner sum;
  for (size_t k = 0; k < a.size(); ++k) sum.add(a[k], b[k]);
  return sum;
}

Outcome compare_numbers(const char* what, double got, double expected, double scale,
                        double tolerance) {
  Outcome o;
  o.tolerance = tolerance;
  const double difference = std::fabs(got - expected);
  if (difference == 0) return o;
  // 1e-290: where all is 0 up to underflow, nothing differs.
  o.error = difference / std::max({std::fabs(got), std::fabs(expected), scale, 1e-290});
  o.where = join(what, " gives ", got, ", expected ", expected);
  return o;
}

Vectors moved(const Vectors& x, const Vectors& v, double h) {
  Vectors out = x;
  for (size_t k = 0; k < x.size(); ++k)
    for (size_t i = 0; i < v[k].size(); ++i) out[k][i] += h * v[k][i];
  return out;
}

// d/dh of f(h) at 0.
Numbers difference(const std::function<Numbers(double)>& f) {
  const Numbers a = f(kStep), b = f(-kStep), c = f(2 * kStep), d = f(-2 * kStep);
  Numbers out(a.size());
  for (size_t i = 0; i < a.size(); ++i)
    out[i] = (8.0 * (a[i] - b[i]) - (c[i] - d[i])) / (12 * kStep);
  return out;
}

// An op at one point of its row: operands on the host and on the device, and which of them move.
class Problem {
 public:
  Problem(const Row& row, size_t which_case, DType dtype, Device& device)
      : name_(row.name),
        shapes_(row.cases[which_case].shapes),
        device_(device),
        op_(get_op(row.name)),
        seen_(row.seen),
        attrs_(attrs_of(op_, row.cases[which_case].attrs)) {
    for (size_t k = 0; k < shapes_.size(); ++k) {
      dtypes_.push_back(operand_dtype(row, k, dtype));
      x_.push_back(draw(row, which_case, k, dtype));
    }
    for (const Tensor& y : run(at(x_))) outputs_.push_back({y.sizes(), y.dtype()});
  }

  const Vectors& x() const { return x_; }
  size_t operands() const { return x_.size(); }
  size_t outputs() const { return outputs_.size(); }
  bool moves(size_t k) const { return is_floating(dtypes_[k]); }
  bool can_move() const {
    for (size_t k = 0; k < operands(); ++k)
      if (moves(k)) return true;
    return false;
  }

  // Random directions of the operands that move; `only` leaves the others at rest.
  Vectors directions(uint64_t stream, int only = -1) const;
  Vectors cotangents(uint64_t stream) const;
  Vectors values(const Vectors& x) const;                 // f(x)
  Vectors vjp(const Vectors& x, const Vectors& w) const;  // J(x)^H w
  Vectors jvp(const Vectors& x, const Vectors& v) const;  // J(x) v
  // The derivative of <u, J(x)^H w> along (v, t).
  double reverse_over_reverse(const Vectors& w, const Vectors& u, const Vectors& v,
                              const Vectors& t) const;
  double forward_over_reverse(const Vectors& w, const Vectors& u, const Vectors& v,
                              const Vectors& t) const;

 private:
  Tensors run(const Tensors& inputs, bool recorded = false) const;
  Tensors at(const Vectors& x, bool leaves = false) const;
  Tensors as_outputs(const Vectors& w, bool leaves = false) const;
  Tensors pull(const Tensors& leaves, const Tensors& w, bool create_graph) const;
  void set_tangents(ForwardLevel& level, const Tensors& tensors, const Vectors& v) const;

  std::string name_;
  const std::vector<Shape>& shapes_;
  Device& device_;
  const OpInfo& op_;
  Tensors (*const seen_)(const Tensors&);
  Attrs attrs_;
  std::vector<DType> dtypes_;
  Vectors x_;
  std::vector<std::pair<Shape, DType>> outputs_;
};

Vectors Problem::directions(uint64_t stream, int only) const {
  Vectors v(operands());
  for (size_t k = 0; k < operands(); ++k)
    if (moves(k) && (only < 0 || size_t(only) == k))
      v[k] = draw_direction(name_, stream * 32 + k, int64_t(x_[k].size()), is_complex(dtypes_[k]));
  return v;
}

Vectors Problem::cotangents(uint64_t stream) const {
  Vectors w(outputs());
  for (size_t i = 0; i < outputs(); ++i)
    if (is_floating(outputs_[i].second))
      w[i] = draw_direction(name_, stream * 32 + 16 + i, numel_of(outputs_[i].first),
                            is_complex(outputs_[i].second));
  return w;
}

Tensors Problem::run(const Tensors& inputs, bool recorded) const {
  const Tensors y = evaluate(op_, inputs, attrs_, recorded);
  if (!seen_) return y;
  const Scoped<bool> mode(modes.grad, recorded);
  return seen_(y);
}

Tensors Problem::at(const Vectors& x, bool leaves) const {
  Tensors out;
  for (size_t k = 0; k < operands(); ++k) {
    out.push_back(upload(x[k], shapes_[k], dtypes_[k], device_));
    if (leaves && moves(k)) out.back().set_requires_grad();
  }
  return out;
}

Tensors Problem::as_outputs(const Vectors& w, bool leaves) const {
  Tensors out(outputs());
  for (size_t i = 0; i < outputs(); ++i) {
    if (!is_floating(outputs_[i].second)) continue;
    out[i] = upload(w[i], outputs_[i].first, outputs_[i].second, device_);
    if (leaves) out[i].set_requires_grad();
  }
  return out;
}

Vectors Problem::values(const Vectors& x) const {
  Vectors out;
  for (const Tensor& y : run(at(x))) out.push_back(download(y));
  return out;
}

// One tensor per operand; undefined where nothing flows.
Tensors Problem::pull(const Tensors& leaves, const Tensors& w, bool create_graph) const {
  const Tensors y = run(leaves, true);
  Tensors roots, seeds, inputs, out(operands());
  for (size_t i = 0; i < y.size(); ++i)
    if (w[i].defined() && y[i].requires_grad()) {
      roots.push_back(y[i]);
      seeds.push_back(w[i]);
    }
  for (size_t k = 0; k < operands(); ++k)
    if (moves(k)) inputs.push_back(leaves[k]);
  if (roots.empty()) return out;
  const Tensors g =
      grad(roots, inputs, seeds,
           {.retain_graph = false, .create_graph = create_graph, .allow_unused = true});
  for (size_t k = 0, n = 0; k < operands(); ++k)
    if (moves(k)) out[k] = g[n++];
  return out;
}

Vectors Problem::vjp(const Vectors& x, const Vectors& w) const {
  const Tensors g = pull(at(x, true), as_outputs(w), false);
  Vectors out(operands());
  for (size_t k = 0; k < operands(); ++k) {
    if (g[k].defined())
      out[k] = download(g[k]);
    else if (moves(k))
      out[k].resize(x[k].size());
  }
  return out;
}

void Problem::set_tangents(ForwardLevel& level, const Tensors& tensors, const Vectors& v) const {
  for (size_t k = 0; k < v.size(); ++k)
    if (!v[k].empty())
      level.set_tangent(tensors[k], upload(v[k], tensors[k].sizes(), tensors[k].dtype(), device_));
}

Vectors Problem::jvp(const Vectors& x, const Vectors& v) const {
  ForwardLevel level;
  const Tensors in = at(x);
  set_tangents(level, in, v);
  const Tensors y = run(in);
  Vectors out(outputs());
  for (size_t i = 0; i < outputs(); ++i) {
    if (!is_floating(outputs_[i].second)) continue;
    const Tensor t = y[i].tangent();
    if (t.defined() && (!(t.sizes() == y[i].sizes()) || t.dtype() != y[i].dtype()))
      fail(ErrorKind::internal, name_, "the tangent is ", t.dtype(), " ", t.sizes(),
           ", the output ", y[i].dtype(), " ", y[i].sizes());
    out[i] = t.defined() ? download(t) : Numbers(size_t(y[i].numel()));
  }
  return out;
}

double Problem::reverse_over_reverse(const Vectors& w, const Vectors& u, const Vectors& v,
                                     const Vectors& t) const {
  const Tensors leaves = at(x_, true), cotangents = as_outputs(w, true);
  const Tensors g = pull(leaves, cotangents, true);
  Tensors roots, seeds, inputs;
  Vectors along;
  for (size_t k = 0; k < operands(); ++k) {
    if (moves(k)) {
      inputs.push_back(leaves[k]);
      along.push_back(v[k]);
    }
    if (!g[k].defined() || !g[k].requires_grad()) continue;
    roots.push_back(g[k]);
    seeds.push_back(upload(u[k], g[k].sizes(), g[k].dtype(), device_));
  }
  for (size_t i = 0; i < outputs(); ++i)
    if (cotangents[i].defined()) {
      inputs.push_back(cotangents[i]);
      along.push_back(t[i]);
    }
  if (roots.empty()) return 0;
  const Tensors second = grad(roots, inputs, seeds, {.allow_unused = true});
  Inner sum;
  for (size_t n = 0; n < second.size(); ++n)
    if (second[n].defined()) sum.add(download(second[n]), along[n]);
  return sum.value;
}

double Problem::forward_over_reverse(const Vectors& w, const Vectors& u, const Vectors& v,
                                     const Vectors& t) const {
  ForwardLevel level;
  const Tensors leaves = at(x_, true), cotangents = as_outputs(w);
  set_tangents(level, leaves, v);
  set_tangents(level, cotangents, t);
  const Tensors g = pull(leaves, cotangents, false);
  Inner sum;
  for (size_t k = 0; k < operands(); ++k)
    if (g[k].defined() && g[k].tangent().defined()) sum.add(u[k], download(g[k].tangent()));
  return sum.value;
}

// Runs `body` in f64, and in c128 if the row knows complex numbers.
Outcome in_each_dtype(const Row& row, size_t which_case, Device& device,
                      const std::function<Outcome(const Problem&)>& body) {
  const DeviceScope scope(device);
  Outcome worst;
  worst.ran = false;
  for (const DType dtype : {DType::f64, DType::c128}) {
    const unsigned need = is_complex(dtype) ? def::kComplex : def::kReal;
    if (!(row.dtypes & row.cases[which_case].dtypes & need)) continue;
    Outcome o;
    try {
      const Problem problem(row, which_case, dtype, device);
      if (!problem.can_move()) continue;
      o = body(problem);
    } catch (const Error& e) {
      if (is_absence(row, e)) throw;
      o.error = HUGE_VAL;
      o.where = e.what();
    }
    if (!o.where.empty()) {
      std::string at = join("case ", int64_t(which_case), " ");
      for (const Shape& s : row.cases[which_case].shapes) at += to_text(s) + " ";
      o.where = at + dtype_name(dtype) + ": " + o.where;
    }
    worst.keep_worst(std::move(o));
    worst.ran = true;
  }
  return worst;
}

}  // namespace

Outcome check_vjp(const Row& row, size_t which_case, Device& device) {
  return in_each_dtype(row, which_case, device, [](const Problem& p) {
    const Vectors w = p.cotangents(1), g = p.vjp(p.x(), w);
    Outcome worst;
    for (int only = -1; only < int(p.operands()); ++only) {
      if (only >= 0 && (!p.moves(size_t(only)) || p.operands() == 1)) continue;
      const Vectors v = p.directions(2, only);
      Inner size;
      const Numbers slope = difference([&](double h) {
        const Inner at = inner(w, p.values(moved(p.x(), v, h)));
        size = at;
        return Numbers{at.value};
      });
      const Inner by_graph = inner(g, v);
      worst.keep_worst(compare_numbers("vjp", by_graph.value, slope[0].real(),
                                       std::max(by_graph.size, size.size * 1e-3),
                                       kAgainstDifferences));
    }
    return worst;
  });
}

Outcome check_jvp(const Row& row, size_t which_case, Device& device) {
  return in_each_dtype(row, which_case, device, [](const Problem& p) {
    const Vectors v = p.directions(3), jv = p.jvp(p.x(), v), y = p.values(p.x());
    Outcome worst;
    for (size_t i = 0; i < p.outputs(); ++i) {
      if (jv[i].empty()) continue;
      const Numbers slope = difference([&](double h) { return p.values(moved(p.x(), v, h))[i]; });
      double largest = 1e-3;  // where a slope is 0, differences leave rounding of the values
      for (const auto& x : y[i]) largest = std::max(largest, 1e-3 * std::abs(x));
      for (const auto& x : slope) largest = std::max(largest, std::abs(x));
      for (size_t n = 0; n < slope.size(); ++n) {
        const double error = std::abs(slope[n] - jv[i][n]) / largest;
        if (error <= worst.error) continue;
        worst.error = error;
        worst.where = join("the tangent of element ", int64_t(n), " is ", jv[i][n].real(), " + ",
                           jv[i][n].imag(), "i, differences give ", slope[n].real(), " + ",
                           slope[n].imag(), "i");
      }
    }
    worst.tolerance = kAgainstDifferences;
    return worst;
  });
}

Outcome check_dot(const Row& row, size_t which_case, Device& device) {
  return in_each_dtype(row, which_case, device, [](const Problem& p) {
    const Vectors v = p.directions(4), w = p.cotangents(5);
    const Inner forward = inner(w, p.jvp(p.x(), v)), reverse = inner(p.vjp(p.x(), w), v);
    return compare_numbers("<w, Jv>", forward.value, reverse.value,
                           std::max(forward.size, reverse.size), kAgainstEachOther);
  });
}

Outcome check_second_order(const Row& row, size_t which_case, Device& device) {
  return in_each_dtype(row, which_case, device, [](const Problem& p) {
    const Vectors w = p.cotangents(6), t = p.cotangents(7);
    const Vectors u = p.directions(8), v = p.directions(9);
    Inner size;
    const Numbers slope = difference([&](double h) {
      size = inner(u, p.vjp(moved(p.x(), v, h), moved(w, t, h)));
      return Numbers{size.value};
    });
    const double reverse = p.reverse_over_reverse(w, u, v, t);
    const double forward = p.forward_over_reverse(w, u, v, t);
    Outcome worst = compare_numbers("reverse over reverse", reverse, slope[0].real(), size.size,
                                    kAgainstDifferences);
    Outcome other =
        compare_numbers("forward over reverse", forward, reverse, size.size, kAgainstEachOther);
    // Held against the tolerance of its own kind.
    other.error *= kAgainstDifferences / kAgainstEachOther;
    worst.keep_worst(other);
    worst.tolerance = kAgainstDifferences;
    return worst;
  });
}

}  // namespace gradus::rows
