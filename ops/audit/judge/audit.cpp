// The checks of one node, and the report over all.
#include "ops/audit/judge/audit.hpp"
#include "engine/arithmetic.hpp"

#include "ops/audit/watch/run.hpp"
#include "ops/linalg/remarks.hpp"
#include "ops/shape/memory.hpp"
#include "ops/ops.hpp"
#include "ops/check/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace gradus::inline v1::audit {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kExact = 1e-8;     // what sums of f64 products may differ by, relative
constexpr double kResolved = 1e-3;  // a slope by differences counts if its error is less
constexpr double kEstimate = 8;     // times what the differences say of their own error
constexpr double kFloor = 1e-3;     // steps and weights are not scaled down further
constexpr double kRounding = 64;    // units of rounding that a right vjp may be off
constexpr double kCondition = 11;   // times the change under a perturbation of one unit
constexpr size_t kOneByOne = 16;    // elements that are looked at singly for the worst

double largest(const Parts& x) {
  double m = 0;
  for (const double v : x)
    if (std::isfinite(v)) m = std::max(m, std::abs(v));
  return m;
}
double rms(const Parts& x) {
  double sum = 0;
  for (const double v : x)
    if (std::isfinite(v)) sum += v * v;
  return x.empty() ? 0 : std::sqrt(sum / double(x.size()));
}

bool worse(const Line& a, const Line& b) {
  const auto badness = [](const Line& l) { return l.error > 0 ? l.error / l.tolerance : 0; };
  return a.bad() != b.bad() ? a.bad() : badness(a) > badness(b);
}

class Audit {
 public:
  Audit(const Call& call, size_t index, const Options& o)
      : rerun_(call), o_(o), random_(o.seed * 1000003 + index), line_{&call, index} {}

  Line run() {
    try {
      check_stale();
      if (line_.bad()) return line_;
      check_repeat();
      check_rule();
      check_saved();
      if (o_.against) check_device();
    } catch (const Error& e) {
      note(e.kind() == ErrorKind::shape ? Verdict::shape : Verdict::error, kInfinity, 0, e.what());
    }
    line_.remark = linalg::remark_on(*line_.call->op, line_.call->inputs, line_.call->outputs);
    return line_;
  }

 private:
  // The worst of what is bad stays, else the nearest to its tolerance.
  void note(Verdict v, double error, double tolerance, std::string text = "") {
    Line now{line_.call, line_.index, v, error, tolerance, line_.condition, std::move(text)};
    if (worse(line_, now)) return;
    if (!now.bad() && !line_.text.empty()) now.text = std::move(line_.text);
    line_ = std::move(now);
  }
  void compared(Verdict wrong, double error, double tolerance, const std::string& text) {
    note(error <= tolerance ? Verdict::ok : wrong, error, tolerance,
         error <= tolerance ? std::string() : text);
  }
  double draw() { return std::uniform_real_distribution<double>(-1, 1)(random_); }
  Parts draw(size_t n) {
    Parts p(n);
    for (double& x : p) x = draw();
    return p;
  }
  std::string operand(size_t k) const {
    const auto& specs = rerun_.call().op->operands;
    return join("operand ", k, k < specs.size() ? " (" + specs[k].name + ")" : std::string());
  }
  std::string element(size_t k, size_t part) const {
    const Tensor& x = rerun_.call().inputs[k];
    return join(operand(k), " element ", index_of(x, part),
                !is_complex(x.dtype()) ? ""
                : part % 2             ? " imaginary part"
                                       : " real part");
  }

  // ---- a write after the save
  void check_stale() {
    for (const Saved& s : rerun_.call().node->saved()) {
      if (!s.tensor.defined() || s.tensor.version() == s.version) continue;
      const char* role[] = {"input", "output", "extra"};
      note(Verdict::stale, kInfinity, 0,
           join("saved ", role[int(s.role)], " ", s.index, " ", s.tensor.sizes(),
                " was changed by ", s.tensor.storage().last_writer(), " (version ", s.version,
                " -> ", s.tensor.version(), ")"));
    }
  }

  // ---- the same bits again
  void check_repeat() {
    own_ = rerun_.run_own(rerun_.device());
    std::string other = other_outputs(rerun_.call(), own_);
    if (other.empty())
      other = other_cotangents(rerun_, own_, Parts(audit::outputs_of(own_).size(), 1.0));
    if (!other.empty()) note(Verdict::repeat, kInfinity, 0, std::move(other));
  }

  // ---- the rule, in f64
  struct Compared {
    bool any = false;  // was there an output whose slope could be told?
    double numeric = 0, analytic = 0, forward = 0;
    bool has_forward = false;
    double scale = 0, error = 0;  // of numeric; the sum of absolute terms
  };

  Slope slope_along(const std::vector<Parts>& x, size_t k, const Parts& v) const {
    return slope([&](double t) {
      std::vector<Parts> at = x;
      for (size_t j = 0; j < v.size(); ++j) at[k][j] += t * v[j];
      return audit::outputs_of(rerun_.run_wide(at, false));
    });
  }
  // Cotangents w by outputs whose slope along v (of operand k) can be told, each of equal weight.
  Compared along(const std::vector<Parts>& x, const Run& run, size_t k, const Parts& v, Parts* w) {
    const Slope d = slope_along(x, k, v);
    Compared c;
    const double floor = kFloor * rms(d.value);
    Parts weights(d.value.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      const double size = std::max(std::abs(d.value[i]), floor);
      const double unit = size > 0 ? size : 1;
      if (!(d.error[i] <= kResolved * unit)) continue;
      weights[i] = w->empty() ? draw() / unit : (*w)[i];
      c.any = c.any || weights[i] != 0;
      c.numeric += weights[i] * d.value[i];
      c.scale += std::abs(weights[i] * d.value[i]);
      c.error += std::abs(weights[i]) * d.error[i];
    }
    if (w->empty()) {
      *w = std::move(weights);
      if (c.any) product(run, k, v, *w, c);
    }
    return c;
  }
  void product(const Run& run, size_t k, const Parts& v, const Parts& w, Compared& c) {
    const Parts g = pulled(run, k, w);
    for (size_t j = 0; j < v.size(); ++j) {
      if (v[j] == 0) continue;
      c.analytic += g[j] * v[j];
      c.scale += std::abs(g[j] * v[j]);
    }
    if (!run.node->op().jvp) return;
    Tensors tangents(rerun_.operands());
    const Tensor& like = rerun_.call().inputs[k];
    tangents[k] = of_parts(v, like.sizes(), wide(like.dtype()), rerun_.device());
    const NoGrad off;
    size_t at = 0;
    for (size_t out = 0; out < run.outputs.size(); ++out) {
      const Tensor& y = run.outputs[out];
      if (!is_floating(y.dtype())) continue;
      const size_t n = size_t(y.numel()) * (is_complex(y.dtype()) ? 2 : 1);
      Tensor t;
      try {
        t = run.node->op().jvp(*run.node, out, tangents);
      } catch (const Error& e) {
        if (e.kind() == ErrorKind::autograd) return;  // it has none
        throw;
      }
      if (t.defined()) {
        const Parts jv = parts_of(arithmetic().expand(t, y.sizes()));
        for (size_t i = 0; i < n; ++i)
          if (w[at + i] != 0) c.forward += w[at + i] * jv[i];
      }
      at += n;
    }
    // Elements that are held still for a slope that is infinite there: 0 times infinity.
    c.has_forward = std::isfinite(c.forward) || std::count(v.begin(), v.end(), 0.0) == 0;
  }
  Parts pulled(const Run& run, size_t k, const Parts& w) const {
    const Tensor g = pull(*run.node, k, cotangents(run, w));
    return g.defined() ? parts_of(g) : Parts(size_of(k));
  }
  size_t size_of(size_t k) const {
    const Tensor& x = rerun_.call().inputs[k];
    return size_t(x.numel()) * (is_complex(x.dtype()) ? 2 : 1);
  }
  // How far an element may be moved: by its own size, up to 1 or, among large ones, some of theirs.
  static double reach(double x, double largest) {
    const double small = largest > 0 ? std::min(largest, 1.0) : 1;
    return std::clamp(x == 0 ? small : std::abs(x), kFloor * small, std::max(1.0, 1e-2 * largest));
  }

  void check_rule() {
    std::vector<Parts> x = rerun_.point();
    try {
      wide_ = rerun_.run_wide(x, true);
    } catch (const Error& e) {
      return note(Verdict::unknown, 0, 1, join("not in f64: ", e.what()));
    }
    if (!wide_.node) return note(Verdict::unknown, 0, 1, "is not recorded in f64");
    bool any = false, tried = false;
    for (size_t k = 0; k < rerun_.operands(); ++k) {
      if (!rerun_.asked(k) || x[k].empty() || outputs_of(wide_).empty()) continue;
      tried = true;
      if (check_operand(x, wide_, k)) {
        any = true;
        continue;
      }
      // A kink or an edge everywhere: beside it.
      std::vector<Parts> beside = x;
      for (Parts& p : beside) {
        const double m = largest(p);
        for (double& e : p) e += 1e-3 * draw() * reach(e, m);
      }
      const Run there = rerun_.run_wide(beside, true);
      any = check_operand(beside, there, k) || any;
    }
    if (tried && !any) note(Verdict::kink, 0, 1, "no slope by differences to compare with");
  }

  // False: nothing could be compared.
  bool check_operand(const std::vector<Parts>& x, const Run& run, size_t k) {
    const Parts first = pulled(run, k, draw(audit::outputs_of(run).size()));
    const double m = largest(x[k]);
    Parts v(x[k].size());
    bool moved = false, infinite = false;
    for (size_t j = 0; j < v.size(); ++j) {
      if (!std::isfinite(x[k][j])) continue;
      infinite = infinite || !std::isfinite(first[j]);
      if (std::isfinite(first[j])) v[j] = draw() * reach(x[k][j], m), moved = true;
    }
    if (infinite && check_infinite(x, run, k, first)) return true;
    if (!moved) return false;
    Parts w;
    const Compared c = along(x, run, k, v, &w);
    if (!c.any) return false;
    const double scale = c.scale > 0 ? c.scale : 1;
    const double tolerance = std::max(kExact, kEstimate * c.error / scale);
    const double error = std::abs(c.numeric - c.analytic) / scale;
    if (error <= tolerance)
      note(Verdict::ok, error, tolerance);
    else
      note(Verdict::differences, error, tolerance, worst_element(x, run, k, v, w));
    if (c.has_forward)
      compared(Verdict::dot, std::abs(c.forward - c.analytic) / scale, kExact,
               join(operand(k), ": <w, J v> is ", c.forward, ", <J^H w, v> is ", c.analytic));
    return true;
  }

  // Is a vjp infinite or NaN where differences of every output give a number? Some elements are
  // looked at, one by one: a slope may be truly infinite at the next.
  bool check_infinite(const std::vector<Parts>& x, const Run& run, size_t k, const Parts& vjp) {
    if (!finite(audit::outputs_of(run)) || !std::all_of(x.begin(), x.end(), finite)) return false;
    size_t looked = 0;
    for (size_t j = 0; j < vjp.size() && looked < kOneByOne; ++j) {
      if (std::isfinite(vjp[j])) continue;
      ++looked;
      Parts v(vjp.size());
      v[j] = reach(x[k][j], largest(x[k]));
      const Slope d = slope_along(x, k, v);
      const double floor = kFloor * rms(d.value);
      double numeric = 0, error = 0;
      bool told = true;
      for (size_t i = 0; i < d.value.size(); ++i) {
        const double size = std::max(std::abs(d.value[i]), floor);
        told = told && d.error[i] <= kResolved * (size > 0 ? size : 1);
        numeric += d.value[i] / v[j];
        error += d.error[i] / v[j];
      }
      if (!told) continue;
      note(Verdict::differences, kInfinity, 0,
           join(element(k, j), ": vjp ", vjp[j], ", differences of all outputs add up to ", numeric,
                " +- ", error));
      return true;
    }
    return false;
  }
  static bool finite(const Parts& p) {
    return std::all_of(p.begin(), p.end(), [](double e) { return std::isfinite(e); });
  }

  // Halves the range with the larger mismatch until few elements are left.
  std::string worst_element(const std::vector<Parts>& x, const Run& run, size_t k, const Parts& v,
                            Parts& w) {
    const Parts g = pulled(run, k, w);
    const auto mismatch = [&](size_t begin, size_t end, Compared* out) {
      Parts part(v.size());
      std::copy(v.begin() + int64_t(begin), v.begin() + int64_t(end),
                part.begin() + int64_t(begin));
      Compared c = along(x, run, k, part, &w);
      for (size_t j = begin; j < end; ++j)
        if (v[j] != 0) c.analytic += g[j] * v[j];
      if (out) *out = c;
      const double d = std::abs(c.numeric - c.analytic);
      return std::isnan(d) ? kInfinity : d;
    };
    size_t begin = 0, end = v.size();
    while (end - begin > kOneByOne) {
      const size_t middle = begin + (end - begin) / 2;
      (mismatch(begin, middle, nullptr) >= mismatch(middle, end, nullptr) ? end : begin) = middle;
    }
    Compared worst;
    size_t at = begin;
    double most = -1;
    for (size_t j = begin; j < end; ++j) {
      Compared c;
      const double d = v[j] == 0 ? 0 : mismatch(j, j + 1, &c);
      if (d <= most) continue;
      most = d;
      worst = c;
      at = j;
    }
    const double unit = v[at] == 0 ? 1 : v[at];
    return join(element(k, at), ": vjp ", worst.analytic / unit, ", differences ",
                worst.numeric / unit, " +- ", worst.error / std::abs(unit));
  }

  // ---- the node itself against f64, and against another device

  // Not after backward, nor in the nodes that the second run of a checkpoint leaves.
  static bool keeps_its_saved(const GradFn& node) {
    return !node.freed() && std::all_of(node.saved().begin(), node.saved().end(), [](auto& s) {
      return !s.packed || s.packed->unpack(s.packed->value).defined();
    });
  }
  void check_saved() {
    if (!wide_.node) return;
    GradFn* live = rerun_.call().node.get();
    if (!keeps_its_saved(*live)) live = own_.node.get();
    if (!live) return;
    compare_cotangents(Verdict::saved, *live, own_, "the node's vjp gives");
  }
  void check_device() {
    const Run there = rerun_.run_own(*o_.against);
    const std::string name = "on " + o_.against->name();
    const Parts right = audit::outputs_of(wide_), got = audit::outputs_of(there);
    std::vector<Parts> beside;
    for (int i = 0; i < tries(); ++i) beside.push_back(audit::outputs_of(beside_point(nullptr)));
    for (const Tensor& y : there.outputs)
      if (is_floating(y.dtype())) {
        compare(Verdict::device, got, right, beside, "the outputs", y.dtype(), name,
                [&](size_t p) { return join("output element ", index_of(y, p)); });
        break;
      }
    if (wide_.node && there.node) compare_cotangents(Verdict::device, *there.node, there, name);
  }

  // Cotangents of `node` against those of the run in f64.
  void compare_cotangents(Verdict wrong, GradFn& node, const Run& run, const std::string& who) {
    Tensors g = cotangents(run, draw(audit::outputs_of(run).size()));
    Parts w;
    for (const Tensor& t : g)
      if (t.defined()) {
        const Parts one = parts_of(t);
        w.insert(w.end(), one.begin(), one.end());
      }
    for (size_t k = 0; k < rerun_.operands(); ++k) {
      if (!rerun_.asked(k) || size_of(k) == 0) continue;
      const DType dtype = rerun_.call().inputs[k].dtype();
      const Parts right = pulled(wide_, k, w);
      const Tensor got = pull(node, k, g);
      std::vector<Parts> beside;
      for (int i = 0; i < tries(); ++i) {
        Parts near = w;
        const Run there = beside_point(&near);
        beside.push_back(there.node ? pulled(there, k, near) : right);
      }
      compare(wrong, got.defined() ? parts_of(got) : Parts(size_of(k)), right, beside, operand(k),
              dtype, who, [&](size_t p) { return element(k, p); });
    }
  }
  // In f64, as if every operand, cotangent and saved tensor were a unit of rounding off, up or
  // down.
  Run beside_point(Parts* w) {
    const double unit = unit_of_rounding();
    const auto move = [&](Parts& p) {
      for (double& e : p) e *= draw() < 0 ? 1 - unit : 1 + unit;
    };
    std::vector<Parts> x = rerun_.point();
    for (Parts& p : x) move(p);
    if (w) move(*w);
    const SavedTensorHooks hooks(
        [&](const Tensor& t) -> std::any {
          if (!is_floating(t.dtype())) return t;
          Parts p = parts_of(t);
          move(p);
          return of_parts(p, t.sizes(), t.dtype(), t.device());
        },
        [](const std::any& kept) { return std::any_cast<Tensor>(kept); });
    return rerun_.run_wide(x, true);
  }
  // Of few elements, two might well be off in ways that cancel.
  int tries() const { return largest_size() <= kOneByOne ? 8 : 2; }
  double unit_of_rounding() const {
    double unit = 0;
    for (const Tensors* list : {&rerun_.call().inputs, &rerun_.call().outputs})
      for (const Tensor& t : *list)
        if (t.defined()) unit = std::max(unit, rows::epsilon_of(t.dtype()));
    return unit;
  }

  template <class Where>
  void compare(Verdict wrong, const Parts& got, const Parts& right,
               const std::vector<Parts>& beside, const std::string& what, DType dtype,
               const std::string& who, const Where& where) {
    if (got.size() != right.size())
      return note(wrong, kInfinity, 0, join(what, " has another number of elements"));
    const double eps = rows::epsilon_of(dtype);
    // 16-bit kernels compute in f32 and round once.
    const double rounding = is_half(dtype) ? 4 : kRounding;
    const double condition = is_half(dtype) ? 3 : kCondition;
    const double sums = is_half(dtype) ? 0 : std::sqrt(double(largest_size())) / 16;
    const double tiny = dtype == DType::f64 || dtype == DType::c128 ? 1e-290
                        : dtype == DType::f16                       ? 6e-5
                                                                    : 1e-36;
    const double huge = dtype == DType::f64 || dtype == DType::c128 ? 1e300
                        : dtype == DType::f16                       ? 6e4
                                                                    : 1e38;
    Parts change(right.size());
    for (const Parts& b : beside)
      for (size_t j = 0; j < change.size(); ++j)
        change[j] = std::max(change[j], std::abs(b[j] - right[j]));
    const double typical = beside.empty() ? eps * rms(right) : rms(change);
    if (rms(right) > 0 && unit_of_rounding() > 0)
      line_.condition = std::max(line_.condition, rms(change) / (rms(right) * unit_of_rounding()));
    const double size = largest(right) > tiny ? largest(right) : 1;  // of zeros: in absolute terms
    double worst = 0, worst_share = -1, its_tolerance = 1;
    size_t at = 0;
    for (size_t j = 0; j < right.size(); ++j) {
      if (!std::isfinite(right[j]) || std::abs(right[j]) > huge || !std::isfinite(change[j]))
        continue;
      const double bound = rounding * (eps * std::abs(right[j]) + tiny) +
                           condition * (change[j] + (1 + sums) * typical);
      const double difference = std::isfinite(got[j]) ? std::abs(got[j] - right[j]) : kInfinity;
      if (difference / bound <= worst_share) continue;
      worst_share = difference / bound;
      worst = difference / size;
      its_tolerance = bound / size;
      at = j;
    }
    if (worst_share < 0) return;
    compared(wrong, worst, its_tolerance,
             join(where(at), ": ", who, " ", got[at], ", in f64 it is ", right[at]));
  }
  size_t largest_size() const {
    size_t n = 1;
    for (const Tensor& t : rerun_.call().inputs)
      if (t.defined()) n = std::max(n, size_t(t.numel()));
    for (const Tensor& t : rerun_.call().outputs) n = std::max(n, size_t(t.numel()));
    return n;
  }

  Rerun rerun_;
  const Options& o_;
  std::mt19937_64 random_;
  Line line_;
  Run own_{}, wide_{};
};

}  // namespace

const char* to_text(Verdict v) {
  const char* names[] = {"ok",    "kink",  "unknown", "differences", "dot",  "saved",
                         "stale", "shape", "repeat",  "device",      "error"};
  return names[int(v)];
}

Report audit(const Watch& watch, const Tensors& roots, const Options& options) {
  const Unwatched quiet;
  std::vector<const Call*> calls;
  if (roots.empty()) {
    for (const Call& c : watch.calls())
      if (c.node) calls.push_back(&c);
  } else {
    calls = watch.below(roots);
  }
  Report report;
  for (size_t i = 0; i < calls.size(); ++i) {
    report.lines.push_back(Audit(*calls[i], i, options).run());
    report.bad += report.lines.back().bad();
    if (options.each) options.each(int64_t(i + 1), int64_t(calls.size()));
  }
  std::stable_sort(report.lines.begin(), report.lines.end(), worse);
  return report;
}

}  // namespace gradus::audit
