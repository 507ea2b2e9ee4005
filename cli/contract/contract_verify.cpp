// Why the numbers are what they are. A sum of K products, rounded with unit u, is off by about
// u * sqrt(K) * sum |products| (rounding errors behave like a random walk), so errors are measured
// against the same contraction of absolute values, and the tolerance is a few times u * sqrt(K),
// added up over the steps of the plan.
#include "cli/contract/contract_verify.hpp"
#include "engine/forward.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace gradus::inline v1::cli {

namespace {

constexpr double kReferenceFlops = 1e8;  // what the reference device does in a second or two
constexpr double kMargin = 4;            // over the random walk

DType wide_dtype(DType t) {
  return is_complex(t) ? DType::c128 : is_real_float(t) ? DType::f64 : t;
}

// Of the arithmetic.
double rounding_unit(DType t) { return real_dtype(t) == DType::f64 ? 0x1p-53 : 0x1p-24; }
// Of numbers in memory between two steps.
double storage_unit(DType t) { return t == DType::f16 ? 0x1p-11 : t == DType::bf16 ? 0x1p-8 : 0; }

double element_count(const EinsumPlan& plan, const EinsumStep& step) {
  double n = 1;
  for (const gradus::Labels* labels : {&step.left_labels, &step.right_labels})
    for (int64_t l : *labels)
      if (labels == &step.left_labels ||
          std::find(step.left_labels.begin(), step.left_labels.end(), l) == step.left_labels.end())
        n *= double(plan.sizes.at(l));
  return n;
}

// `backward` counts the longest of the three sums that a step and its derivatives take.
double tolerance(const EinsumPlan& plan, DType dtype, bool backward) {
  if (is_integer(dtype) || dtype == DType::bool_) return 0;
  double sum = 0;
  for (const EinsumStep& step : plan.steps) {
    const double all = element_count(plan, step);
    double results = step.elements;
    if (backward)
      for (const gradus::Labels* labels : {&step.left_labels, &step.right_labels}) {
        double n = 1;
        for (int64_t l : *labels) n *= double(plan.sizes.at(l));
        if (labels == &step.left_labels || step.right >= 0) results = std::min(results, n);
      }
    const double terms = all > 0 ? all / std::max(results, 1.0) : 0;
    sum += rounding_unit(dtype) * (2 + std::sqrt(terms)) + storage_unit(dtype);
  }
  return kMargin * (is_complex(dtype) ? 2 : 1) * (sum + rounding_unit(dtype) + storage_unit(dtype));
}

std::string short_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", x);
  return text;
}

Tensor random_like(const Tensor& x) { return random_operand(x.sizes(), x.dtype(), x.device()); }

// Re sum(conj(a) b), in f64.
double inner_product(const Tensor& a, const Tensor& b) {
  const DType wide = wide_dtype(a.dtype());
  const Tensor s = sum(mul(conj(cast(a.detach(), wide)), cast(b.detach(), wide)));
  return s.item_complex().real();
}
// sqrt(sum |a b|^2): the usual size of a sum of products a b with random signs.
double typical(const Tensor& a, const Tensor& b) {
  const DType wide = wide_dtype(a.dtype());
  const Tensor p = abs(mul(cast(a.detach(), wide), cast(b.detach(), wide)));
  return std::sqrt(sum(square(p)).item());
}
double root_mean_square(const Tensor& x) {
  return x.numel() == 0 ? 0
                        : typical(x, Tensor::full({}, 1, x.dtype(), x.device())) /
                              std::sqrt(double(x.numel()));
}

Tensors each(const Tensors& xs, Tensor (*f)(const Tensor&)) {
  Tensors out;
  for (const Tensor& x : xs) out.push_back(f(x.detach()));
  return out;
}
Tensors widened(const Tensors& xs) {
  Tensors out;
  for (const Tensor& x : xs) out.push_back(cast(x.detach(), wide_dtype(x.dtype())));
  return out;
}

class Verifier {
 public:
  using Each = std::function<void(int64_t, int64_t)>;
  Verifier(const Contraction& c, const Tensor& value, const Each& each)
      : c_(c), plan_(c.plan), value_(value.detach()), each_(each) {
    dtype_ = value.dtype();
  }
  Verification run(Tensor cotangent, Tensors grads) {
    NoGrad off;
    check_value();
    if (!is_floating(dtype_))
      result_.notes.push_back(join("gradients: ", dtype_, " has none"));
    else if (!has_derivative(c_.algebra))
      result_.notes.push_back(join("gradients: ", algebra_name(c_.algebra), " has none"));
    else
      check_grads(std::move(cotangent), std::move(grads));
    return std::move(result_);
  }

 private:
  bool exact() const { return is_integer(dtype_) || dtype_ == DType::bool_; }
  bool standard() const { return c_.algebra == Algebra::standard; }

  // Values of the wide plan, gradients, directions, and two sides of a difference take about the
  // time of one contraction each.
  static constexpr int64_t kParts = 8;
  void did_part() {
    if (each_) each_(std::min(++parts_, kParts), kParts);
  }

  void report(std::optional<double>& worst, const std::string& what, double error, double limit,
              const std::string& reason) {
    if (!worst || !(error <= *worst)) worst = error;
    std::string line = join(what, ": relative error ", short_number(error), ", tolerance ",
                            short_number(limit), " (", reason, ")");
    if (!(error <= limit)) result_.failures.push_back(line);
    result_.notes.push_back(std::move(line));
  }
  std::string rounding_reason() const {
    if (exact()) return join(dtype_, " is exact");
    return join("rounding of ", dtype_, " in ", plan_.steps.size(),
                plan_.steps.size() == 1 ? " step" : " steps");
  }

  // ---- the value

  void check_value() {
    if (plan_.flops <= kReferenceFlops) {
      against_reference(plan_, c_.operands, value_, "all of it");
      return;
    }
    against_sample();
    if (standard() && is_floating(dtype_)) against_vectors();
  }

  void against_reference(const EinsumPlan& plan, const Tensors& operands, const Tensor& value,
                         const std::string& part) {
    Device& reference = open_device("reference");
    Tensors xs;
    for (const Tensor& x : operands) xs.push_back(to_device(x.detach(), reference));
    const Tensor got = to_device(value.detach(), reference);
    const std::string what = join("value against the reference device, ", part);
    double error = 0;
    if (exact()) {
      error = sum(ne(einsum(plan, xs, c_.algebra), got)).item() == 0 ? 0 : 1;
    } else {
      xs = widened(xs);
      const Tensor expected = einsum(plan, xs, c_.algebra);
      did_part();
      const Tensor bound = standard() ? einsum(plan, each(xs, abs)) : Tensor();
      did_part();
      error = worst_error(got, expected, bound);
    }
    report(result_.value_error, what, error, tolerance(plan, dtype_, false), rounding_reason());
  }

  // max |got - expected| / bound, element by element; without a bound against the largest finite
  // number.
  static double worst_error(const Tensor& got, const Tensor& expected, const Tensor& bound) {
    const auto x = cast(got, DType::c128).to_vector<c128>();
    const auto y = cast(expected, DType::c128).to_vector<c128>();
    std::vector<double> scale(y.size(), 0);
    if (bound.defined()) {
      scale = bound.to_vector<double>();
    } else {
      double largest = 0;
      for (const c128& v : y)
        if (std::isfinite(v.re)) largest = std::max(largest, std::abs(v.re));
      std::fill(scale.begin(), scale.end(), largest);
    }
    double worst = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      if ((x[i].re == y[i].re && x[i].im == y[i].im) ||
          (std::isnan(x[i].re) && std::isnan(y[i].re)))
        continue;
      const double error = std::hypot(x[i].re - y[i].re, x[i].im - y[i].im) / scale[i];
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
    return worst;
  }

  // A block of the output: for each of its labels a few indices, evenly spaced from a random start.
  struct Block {
    std::map<int64_t, int64_t> count, start, step;
    double elements = 1;
  };
  std::optional<Block> draw_block() const {
    Block block;
    for (int64_t l : plan_.output) block.count[l] = plan_.sizes.at(l);
    while (plan_of(block).flops > kReferenceFlops) {
      const auto largest =
          std::max_element(block.count.begin(), block.count.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      if (largest == block.count.end() || largest->second <= 1) return std::nullopt;
      largest->second = (largest->second + 1) / 2;
    }
    std::mt19937_64 random(default_random());
    for (const auto& [l, n] : block.count) {
      const int64_t extent = plan_.sizes.at(l);
      block.step[l] = std::max<int64_t>(1, extent / std::max<int64_t>(1, n));
      const int64_t room = extent - (n - 1) * block.step[l];
      block.start[l] = room > 0 ? int64_t(random() % uint64_t(room)) : 0;
      block.elements *= double(n);
    }
    return block;
  }
  static uint64_t default_random() {
    return uint64_t(uniform({}, 0, 0x1p30, DType::f64, open_device("reference")).item());
  }
  std::vector<Shape> shapes_of(const Block& block) const {
    std::vector<Shape> shapes = plan_.shapes;
    for (size_t k = 0; k < shapes.size(); ++k)
      for (size_t i = 0; i < shapes[k].size(); ++i)
        if (const auto it = block.count.find(plan_.terms[k][i]); it != block.count.end())
          shapes[k][i] = std::min(shapes[k][i], it->second);
    return shapes;
  }
  EinsumPlan plan_of(const Block& block) const {
    PathOptions options;
    options.kind = PathOptions::Kind::fixed;
    options.path = plan_.path;
    options.sum_alone = sums_alone(c_.algebra);
    return replanned(plan_, shapes_of(block), options);
  }
  static Tensor cut(Tensor x, const gradus::Labels& labels, const Block& block) {
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto it = block.count.find(labels[i]);
      if (it == block.count.end() || x.sizes()[i] == 1) continue;
      const int64_t start = block.start.at(it->first), step = block.step.at(it->first);
      x = slice(x, int64_t(i), start, start + (it->second - 1) * step + 1, step);
    }
    return x;
  }
  void against_sample() {
    const std::optional<Block> block = draw_block();
    if (!block) {
      result_.notes.push_back(
          "value against the reference device: one element alone is too much work");
      return;
    }
    Tensors xs;
    for (size_t k = 0; k < c_.operands.size(); ++k)
      xs.push_back(cut(c_.operands[k].detach(), plan_.terms[k], *block));
    against_reference(plan_of(*block), xs, cut(value_, plan_.output, *block),
                      join("a block of ", block->elements, " of ", value_.numel(), " elements"));
  }

  // <w, C> computed from C, and from the operands in another, cheap order (Freivalds), where w is
  // the outer product of one vector of random signs per label of the output.
  void against_vectors() {
    const std::optional<std::string> text = lettered();
    if (!text) {
      result_.notes.push_back("value against random vectors: too many labels");
      return;
    }
    Device& device = value_.device();
    const DType wide = wide_dtype(dtype_);
    Tensors vectors;
    for (int64_t l : plan_.output) {
      const Tensor u = uniform({plan_.sizes.at(l)}, -1, 1, DType::f64, device);
      vectors.push_back(cast(where(lt(u, 0.0), Tensor(-1.0), Tensor(1.0)), wide));
    }
    Tensors left{cast(value_, wide)}, right = widened(c_.operands);
    left.insert(left.end(), vectors.begin(), vectors.end());
    right.insert(right.end(), vectors.begin(), vectors.end());
    const size_t arrow = text->find('>');
    const Tensor a = einsum(text->substr(arrow + 1) + "->", left);
    const Tensor b = einsum(text->substr(0, arrow) + "->", right);
    const double difference = std::abs(a.item_complex() - b.item_complex());
    const Tensor bound = einsum(plan_, each(widened(c_.operands), abs));
    const double scale = std::sqrt(sum(square(bound)).item());
    report(result_.value_error, "value against random vectors, all of it",
           relative(difference, scale), tolerance(plan_, dtype_, false), rounding_reason());
  }
  // "operands and vectors>output and vectors" with a letter for every label; nothing if letters run
  // out.
  std::optional<std::string> lettered() const {
    std::map<int64_t, char> names;
    for (const auto& [label, n] : plan_.sizes) {
      if (names.size() == 52) return std::nullopt;
      const size_t i = names.size();
      names[label] = char(i < 26 ? 'a' + int(i) : 'A' + int(i - 26));
    }
    std::string terms, output, vectors;
    for (const gradus::Labels& term : plan_.terms) {
      if (&term != &plan_.terms[0]) terms += ',';
      for (int64_t l : term) terms += names[l];
    }
    for (int64_t l : plan_.output) {
      output += names[l];
      vectors += join(",", std::string(1, names[l]));
    }
    return terms + vectors + ">" + output + vectors;
  }

  // ---- the gradients

  void check_grads(Tensor cotangent, Tensors grads) {
    if (!cotangent.defined()) cotangent = random_like(value_);
    if (grads.empty()) grads = contraction_grads(c_, cotangent);
    did_part();
    Tensors directions;
    for (const Tensor& x : c_.operands) directions.push_back(random_like(x));
    check_dot(cotangent, grads, directions);
    did_part();
    check_differences(cotangent, grads);
  }

  // Size of <g, J t>: with absolute values where that bounds the rounding, else of what came out.
  // In the wide dtype, since f16 may overflow here and an infinite scale would hide every error.
  double dot_scale(const Tensor& cotangent, const Tensors& grads, const Tensors& directions) const {
    Tensors bounds = grads;
    if (standard()) {
      const Contraction absolute{plan_, c_.algebra, each(widened(c_.operands), abs)};
      const Tensor g = abs(cast(cotangent.detach(), wide_dtype(dtype_)));
      bounds = contraction_grads(absolute, g);
    }
    double squares = 0;
    for (size_t k = 0; k < grads.size(); ++k) {
      const double size = typical(bounds[k], abs(directions[k].detach()));
      squares += size * size;
    }
    return std::sqrt(squares);
  }
  static double sum_of_inner(const Tensors& a, const Tensors& b) {
    double sum = 0;
    for (size_t k = 0; k < a.size(); ++k) sum += inner_product(a[k], b[k]);
    return sum;
  }
  static double relative(double difference, double scale) {
    if (!std::isfinite(scale)) return INFINITY;
    return difference == 0 ? 0 : std::abs(difference) / scale;
  }

  void check_dot(const Tensor& cotangent, const Tensors& grads, const Tensors& directions) {
    Tensor tangent;
    {
      ForwardLevel level;
      Tensors dual;
      for (size_t k = 0; k < c_.operands.size(); ++k) {
        dual.push_back(c_.operands[k].detach());
        level.set_tangent(dual[k], directions[k]);
      }
      tangent = einsum(plan_, dual, c_.algebra).tangent().detach();
    }
    did_part();
    const double difference = inner_product(cotangent, tangent) - sum_of_inner(grads, directions);
    report(result_.grad_error, "gradients against forward mode, <g, Jt> = <J'g, t>",
           relative(difference, dot_scale(cotangent, grads, directions)),
           tolerance(plan_, dtype_, true), rounding_reason());
  }

  // A sum-product is a polynomial along a line, so a wide step costs little truncation. A tropical
  // value has kinks: there the gradient is taken at a near point without ties, and the step is
  // small.
  void check_differences(const Tensor& cotangent, const Tensors& grads) {
    const double n = double(c_.operands.size());
    const double h = standard() ? 1e-4 / n : 1e-7;
    Contraction wide{plan_, c_.algebra, widened(c_.operands)};
    const Tensor g = cast(cotangent.detach(), wide_dtype(dtype_));
    Tensors directions;
    for (Tensor& x : wide.operands) {
      const double size = root_mean_square(x), scale = size > 0 ? size : 1.0;
      directions.push_back(mul(random_like(x), scale));
      if (!standard()) x = add(x, mul(random_like(x), 1e-3 * scale));
      if (!sums_alone(c_.algebra)) x = add(abs(x), 1e-5 * scale);  // above 0, within the step too
    }
    const Tensors slopes = standard() ? grads : contraction_grads(wide, g);
    const auto along = [&](double t) {
      Tensors moved;
      for (size_t k = 0; k < directions.size(); ++k)
        moved.push_back(add(wide.operands[k], mul(directions[k], t)));
      const double product = inner_product(g, einsum(plan_, moved, c_.algebra));
      did_part();
      return product;
    };
    const double difference = (along(h) - along(-h)) / (2 * h) - sum_of_inner(slopes, directions);
    const double limit = standard() ? tolerance(plan_, dtype_, true) + 1e-6 : 1e-2;
    report(result_.grad_error,
           join("gradients against central differences in f64, step ", short_number(h)),
           relative(difference, dot_scale(cotangent, slopes, directions)), limit,
           standard()                ? rounding_reason() + ", and 1e-6 for the differences"
           : is_tropical(c_.algebra) ? "a winner may change within the step"
                                     : "rounding of the differences");
  }

  const Contraction& c_;
  const EinsumPlan& plan_;
  Tensor value_;
  DType dtype_;
  const Each& each_;
  int64_t parts_ = 0;
  Verification result_;
};

}  // namespace

Verification verify(const Contraction& contraction, const Tensor& value, Tensor cotangent,
                    Tensors grads, const std::function<void(int64_t, int64_t)>& each) {
  return Verifier(contraction, value, each).run(std::move(cotangent), std::move(grads));
}

Tensor random_operand(const Shape& sizes, DType dtype, Device& device, Algebra algebra) {
  if (!sums_alone(algebra)) {
    const Tensor x = random_operand(sizes, dtype, device);
    return is_complex(dtype) || dtype == DType::bool_ ? x : abs(x);  // such are refused later
  }
  if (dtype == DType::bool_) return bernoulli(sizes, 0.5, dtype, device);
  if (is_integer(dtype)) {
    const Tensor whole = cast(uniform(sizes, 0, 9, DType::f64, device), dtype);
    return dtype == DType::u8 ? whole : sub(whole, 4);
  }
  const DType part = real_dtype(dtype) == DType::f64 ? DType::f64 : DType::f32;
  const Tensor re = cast(normal(sizes, 0, 1, part, device), dtype);
  if (!is_complex(dtype)) return re;
  const Tensor i = Tensor::full({}, {0, 1}, dtype, device);
  return add(re, mul(cast(normal(sizes, 0, 1, part, device), dtype), i));
}

Tensors contraction_grads(const Contraction& contraction, const Tensor& cotangent) {
  EnableGrad on;
  Tensors leaves;
  for (const Tensor& x : contraction.operands) leaves.push_back(x.detach().set_requires_grad());
  const Tensor y = einsum(contraction.plan, leaves, contraction.algebra);
  return grad({y}, leaves, {cotangent});
}

}  // namespace gradus::cli
