// The command `contract`: options over environment over config, operands from files or drawn, the
// contraction timed, its gradients, the report.
#include "cli/contract/contract.hpp"

#include "cli/contract/block_contract.hpp"
#include "cli/contract/contract_config.hpp"
#include "cli/contract/contract_verify.hpp"
#include "cli/contract/expression.hpp"
#include "cli/contract/plan_picture.hpp"
#include "cli/frame/parse.hpp"
#include "cli/frame/progress.hpp"
#include "cli/frame/redirection.hpp"
#include "cli/frame/session.hpp"
#include "cli/frame/terminal.hpp"
#include "engine/files/file.hpp"
#include "engine/files/npy.hpp"
#include "engine/files/safetensors.hpp"
#include "engine/random.hpp"
#include "ops/contract/cost_file.hpp"
#include "ops/contract/plan_file.hpp"
#include "ops/contract/winners.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

constexpr const char* kOp = "contract";
constexpr int64_t kMostPrinted = 1000;  // elements of a value on the screen
constexpr size_t kMostSteps = 40;       // lines of a plan on the screen

// ---- words

// Equations of hundreds of tensors are no line for people.
std::string shortened(const std::string& equation) {
  constexpr size_t kMost = 400;
  if (equation.size() <= kMost) return equation;
  size_t end = kMost;
  while ((equation[end] & 0xc0) == 0x80) --end;  // no half letters
  return equation.substr(0, end) + "...";
}
std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t i = 0;
  for (; bytes >= 1024 && i + 1 < std::size(kUnits); ++i) bytes /= 1024;
  return fmt::format("{:.4g} {}", bytes, kUnits[i]);
}
std::string seconds_text(double s) {
  if (s < 1e-3) return fmt::format("{:.3g} us", s * 1e6);
  return s < 1 ? fmt::format("{:.3g} ms", s * 1e3) : fmt::format("{:.3g} s", s);
}
// A count as a whole number where JSON readers hold it exactly.
Json count_json(double n) {
  if (n < 0x1p53) return int64_t(n);
  return n;
}
Json path_json(const EinsumPlan& plan) {
  Json path = Json::array();
  for (const auto& [i, j] : plan.path) path.push_back({i, j});
  return path;
}

// A label as the expression has it.
Json bare_label(int64_t label) {
  if (is_number_label(label)) return label - kNumberLabel;
  return label < kEllipsisLabel ? letter_text(label) : label_text(label);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A limit of the pool for the length of a scope.
class LimitScope {
 public:
  LimitScope(Pool& pool, size_t bytes) : pool_(pool), before_(pool.limit()) {
    if (bytes > 0) pool_.set_limit(bytes);
  }
  ~LimitScope() { pool_.set_limit(before_); }
  LimitScope(const LimitScope&) = delete;
  LimitScope& operator=(const LimitScope&) = delete;

 private:
  Pool& pool_;
  size_t before_;
};

// ---- the command

class ContractRun {
 public:
  ContractRun(const ContractOptions& options, std::ostream& out, std::ostream& err)
      : o_(options),
        out_(out),
        err_(err),
        config_(resolve_contraction(options)),
        session_(o_.device, o_.ledger, err,
                 config_.contains("device") ? &config_["device"] : nullptr, o_.config),
        device_(session_.device()) {
    check_endings({o_.out, o_.winners}, ".npy");
    check_endings(o_.grads, ".npy");
    c_.algebra = parse_algebra(config_["algebra"].get<std::string>());
    PathOptions path = path_options(config_["path"], c_.algebra);
    Expression expression(config_, path);
    c_.repeated = expression.repeated_in(c_.algebra);
    path_name_ = path_kind_name(path.kind);
    memory_ = config_.contains("memory_limit") ? size_t(byte_size(config_["memory_limit"])) : 0;
    limit_.emplace(device_.pool(), memory_);
    if (!o_.winners.empty() && !is_tropical(c_.algebra))
      fail(ErrorKind::value, "--winners", algebra_name(c_.algebra),
           " chooses none; a tropical algebra does");
    wants_grads_ = config_["grad"].get<bool>() || !o_.cotangent.empty() || !o_.grads.empty();
    device_.pool().reset_peak();
    std::vector<Shape>& shapes = expression.shapes;
    if (!from_files()) {
      expression.take_sizes(config_);
      dtype_ = parse_dtype(config_.value("dtype", "f32"));
    } else {
      read_operands(expression);
      shapes.clear();
      for (const Tensor& x : c_.operands) shapes.push_back(x.sizes());
    }
    for (const Shape& shape : shapes) numel_of(shape);  // refuses a product that overflows
    if (config_.contains("cost")) {
      path.step_time = read_cost(config_["cost"], dtype_);
      path.by_time = true;
    }
    const auto start = std::chrono::steady_clock::now();
    Progress progress(err_, "planning", "units");
    path.watch = [&](double units, double budget, double log2_mults) {
      progress(int64_t(units), int64_t(budget), fmt::format("best 2^{:.2f} products", log2_mults));
    };
    FoundPlan found = expression.plan(path, config_);
    progress.clear();
    c_.plan = std::move(found.plan);
    budget_ = found.budget;
    timed_ = found.timed;
    plan_within_memory(path);
    plan_seconds_ = seconds_since(start);
    expression_ = c_.plan.equation;
    if (!o_.grads.empty() && o_.grads.size() != shapes.size())
      fail(ErrorKind::value, kOp, "--grads takes one file per operand: ", shapes.size(),
           " expected, got ", o_.grads.size());
  }

  int run() {
    report_plan();
    write_plan();
    if (o_.plan_only) {
      report_result({}, 0);
      return 0;
    }
    check_memory();
    manual_seed(config_["seed"].get<uint64_t>());
    if (!from_files())
      for (const Shape& shape : c_.plan.shapes) c_.operands.push_back(drawn(shape, dtype_));
    device_.pool().reset_peak();
    contract();
    if (wants_grads_) differentiate();
    const size_t peak = device_.pool().stats().peak;
    write();
    std::optional<Verification> checked;
    if (config_["verify"].get<bool>()) {
      LimitScope no_limit(device_.pool(), SIZE_MAX);
      Progress progress(err_, "verifying", "checks");
      checked = verify(c_, value_, cotangent_, grads_, std::ref(progress));
      progress.clear();
      report_checks(*checked);
    }
    report_result(checked, double(peak));
    if (checked && !checked->passed())
      fail(ErrorKind::numeric, kOp, "verification failed: ", checked->failures.front());
    return 0;
  }

 private:
  // ---- operands

  bool from_files() const { return !o_.in.empty() || !o_.tensors.empty(); }
  void read_operands(const Expression& expression) {
    if (!o_.sizes.empty() || (!o_.in.empty() && !o_.tensors.empty()))
      fail(ErrorKind::config, kOp, "--sizes, --in and --tensors exclude each other");
    std::vector<std::string> names = o_.in;
    for (const std::string& file : o_.in) c_.operands.push_back(read_npy(file, device_));
    if (!o_.tensors.empty()) {
      names = expression.names();
      c_.operands = read_by_name(names);
    }
    if (!expression.network.terms.empty())
      for (size_t k = 0; k < std::min(names.size(), expression.shapes.size()); ++k)
        if (!(c_.operands[k].sizes() == expression.shapes[k]))
          fail(ErrorKind::shape, names[k], "has shape ", c_.operands[k].sizes(),
               ", the network says ", expression.shapes[k]);
    dtype_ = config_.contains("dtype") ? parse_dtype(config_["dtype"].get<std::string>())
                                       : result_dtype(c_.operands);
    for (size_t k = 0; k < c_.operands.size(); ++k) {
      Tensor& x = c_.operands[k];
      if (is_complex(x.dtype()) && !is_complex(dtype_))
        fail(ErrorKind::dtype, names[k], "is ", x.dtype(), "; as ", dtype_,
             " it would lose its imaginary part");
      if (is_floating(x.dtype()) && !is_floating(dtype_))
        fail(ErrorKind::dtype, names[k], "is ", x.dtype(), "; as ", dtype_,
             " it would lose its fractions");
      x = cast(x, dtype_);
    }
  }
  Tensors read_by_name(const std::vector<std::string>& names) const {
    const NamedTensors all = read_safetensors(o_.tensors, device_).tensors;
    Tensors operands;
    for (size_t k = 0; k < names.size(); ++k) {
      const auto at = std::find_if(all.begin(), all.end(),
                                   [&](const auto& named) { return named.first == names[k]; });
      if (at == all.end())
        fail(ErrorKind::value, o_.tensors, "has no tensor \"", names[k], "\", operand ", k,
             "; operands are named \"0\", \"1\", ... or by \"names\" of the network");
      operands.push_back(at->second);
    }
    return operands;
  }
  // What a draw needs on its way, in another dtype, is gone before the contraction goes on: it is
  // not limited.
  Tensor drawn(const Shape& shape, DType dtype) const {
    const LimitScope no_limit(device_.pool(), SIZE_MAX);
    return random_operand(shape, dtype, device_, c_.algebra);
  }
  double bytes_needed() const {
    return einsum_bytes(c_.plan, dtype_, c_.algebra, wants_grads_) + bytes_beside();
  }
  // Beside the contraction: the state of the generator that draws operands or a cotangent, a seed
  // and a place; and the value, which stays while gradients make another.
  double bytes_beside() const {
    const bool draws = !from_files() || (wants_grads_ && o_.cotangent.empty());
    double elements = 1;
    for (const int64_t l : c_.plan.output) elements *= double(c_.plan.sizes.at(l));
    return (draws ? pool_bytes(2, DType::i64) : 0) +
           (wants_grads_ ? pool_bytes(elements, dtype_) : 0);
  }
  // What does not fit is carried out in slices; what fits in none is refused before it is begun.
  void plan_within_memory(const PathOptions& path) {
    const size_t limit = device_.pool().limit();
    if (limit == 0 || bytes_needed() <= double(limit)) return;
    try {
      c_.plan = within_memory(c_.plan, double(limit) - bytes_beside(), dtype_, c_.algebra,
                              wants_grads_, path);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::memory) throw;
    }
  }
  void check_memory() const {
    const size_t limit = device_.pool().limit();
    const double need = bytes_needed();
    if (limit == 0 || need <= double(limit)) return;
    fail(ErrorKind::memory, kOp, "operands and intermediates need ", bytes_text(need),
         ", the limit is ", bytes_text(double(limit)), "; the largest intermediate has ",
         c_.plan.largest_intermediate, " elements of ", dtype_);
  }

  // ---- work

  void contract() {
    const NoGrad off;
    for (int64_t i = 0; i < config_["repeat"].get<int64_t>(); ++i) {
      value_ = Tensor();
      device_.synchronize();
      const auto start = std::chrono::steady_clock::now();
      value_ = einsum(c_.plan, c_.operands, c_.algebra);
      device_.synchronize();
      const double s = seconds_since(start);
      seconds_ = i == 0 ? s : std::min(seconds_, s);
      if (o_.json) event({{"event", "run"}, {"repeat", i}, {"seconds", s}});
    }
  }
  void differentiate() {
    if (!o_.cotangent.empty()) {
      cotangent_ = read_npy(o_.cotangent, device_);
      if (!(cotangent_.sizes() == value_.sizes()))
        fail(ErrorKind::shape, o_.cotangent, "the cotangent has shape ", cotangent_.sizes(),
             ", the value ", value_.sizes());
      if (is_complex(cotangent_.dtype()) && !is_complex(value_.dtype()))
        fail(ErrorKind::dtype, o_.cotangent, "the cotangent is ", cotangent_.dtype(),
             ", the value ", value_.dtype());
      cotangent_ = cast(cotangent_, value_.dtype());
    } else if (!o_.grads.empty()) {
      if (value_.numel() != 1)
        fail(ErrorKind::value, kOp, "--grads needs --cotangent FILE: the value has shape ",
             value_.sizes());
      cotangent_ = Tensor::full(value_.sizes(), 1, value_.dtype(), device_);
    } else {
      cotangent_ = drawn(value_.sizes(), value_.dtype());
    }
    const auto start = std::chrono::steady_clock::now();
    grads_ = contraction_grads(c_, cotangent_);
    device_.synchronize();
    grad_seconds_ = seconds_since(start);
  }
  void write_plan() const {
    if (!o_.plan_out.empty()) write_file_atomically(o_.plan_out, plan_text(c_.plan));
    if (!o_.svg.empty()) write_file_atomically(o_.svg, plan_svg(c_.plan));
    if (o_.html.empty()) return;
    const EinsumPlan& plan = c_.plan;
    write_file_atomically(
        o_.html,
        plan_page(plan, shortened(expression_),
                  {{"tensors", join(plan.shapes.size())},
                   {"order", order_name(plan)},
                   {"work", count_text(plan.flops) + " flops"},
                   {"largest intermediate", count_text(plan.largest_intermediate) + " elements"},
                   {"slices", plan.sliced.empty()
                                  ? "none"
                                  : join(count_text(plan.slices), ", over ", sliced_json().dump())},
                   {"memory", join("about ", bytes_text(bytes_needed()), " of ", dtype_)}}));
  }
  void write() const {
    if (!o_.out.empty()) write_npy(o_.out, dense_value());
    if (!o_.winners.empty())
      write_npy(o_.winners, einsum_winners(c_.plan, c_.operands, c_.algebra).winners);
    for (size_t k = 0; k < o_.grads.size(); ++k)
      if (o_.grads[k] != "-") write_npy(o_.grads[k], grads_[k]);
  }

  Tensor dense_value() const { return c_.repeated ? on_diagonals(value_, *c_.repeated) : value_; }

  // ---- reports

  // One line of JSON, keys in the order given.
  void event(const nlohmann::ordered_json& e) const { out_ << e.dump() << std::endl; }

  void report_plan() const {
    const EinsumPlan& plan = c_.plan;
    const double peak = bytes_needed();
    if (o_.json) {
      Json steps = Json::array();
      for (const EinsumStep& s : plan.steps)
        steps.push_back({{"expression", s.expression()},
                         {"flops", count_json(s.flops)},
                         {"elements", count_json(s.elements)}});
      return event({{"event", "plan"},
                    {"expression", expression_},
                    {"path", path_json(plan)},
                    {"steps", steps},
                    {"flops", count_json(plan.flops)},
                    {"largest_intermediate", count_json(plan.largest_intermediate)},
                    {"peak_bytes_estimate", count_json(peak)},
                    {"log2_mults", log2_mults(plan)},
                    {"log2_largest", std::log2(plan.largest_intermediate)},
                    {"seconds_model", plan.seconds_model},
                    {"slices", count_json(plan.slices)},
                    {"sliced", sliced_json()},
                    {"family", plan.family},
                    {"units", plan.units},
                    {"budget", budget_},
                    {"seconds", plan_seconds_}});
    }
    err_ << heading(shortened(expression_))
         << fmt::format("  ({}, {}, on {})\n", dtype_name(dtype_), algebra_name(c_.algebra),
                        device_.name());
    for (size_t k = 0; k < plan.shapes.size() && k < kMostSteps; ++k)
      err_ << fmt::format("  operand {}  {}\n", k, to_text(plan.shapes[k]));
    err_ << fmt::format(
        "  order {}: {} step{}, {:.4g} flops, largest intermediate {:.6g} elements, "
        "memory about {}\n",
        order_name(plan), plan.steps.size(), plan.steps.size() == 1 ? "" : "s", plan.flops,
        plan.largest_intermediate, bytes_text(peak));
    if (config_.contains("cost"))
      err_ << fmt::format("  {} by {}\n", seconds_text(plan.seconds_model),
                          config_["cost"].get<std::string>());
    if (timed_)
      err_ << fmt::format("  stopped for the timeout; --budget {:.0f} finds this order again\n",
                          budget_);
    if (!plan.sliced.empty())
      err_ << fmt::format("  in {:.0f} slices over {}, for the memory; of each:\n", plan.slices,
                          sliced_json().dump());
    for (size_t i = 0; i < plan.steps.size() && i < kMostSteps; ++i)
      err_ << fmt::format("  {:3}  {:32} {:10.4g} flops\n", i, plan.steps[i].expression(),
                          plan.steps[i].flops);
    if (plan.steps.size() > kMostSteps)
      err_ << fmt::format("  ... and {} more\n", plan.steps.size() - kMostSteps);
  }
  Json sliced_json() const {
    Json labels = Json::array();
    for (const int64_t l : c_.plan.sliced) labels.push_back(bare_label(l));
    return labels;
  }
  // "auto", or "auto (annealing, 20000 units of work)" where it was searched for.
  std::string order_name(const EinsumPlan& plan) const {
    if (plan.units == 0) return std::string(path_name_);
    return fmt::format("{} ({}, {:.0f} units of work)", path_name_, plan.family, plan.units);
  }
  // Of the products of all steps, a label that is summed alone among them.
  static double log2_mults(const EinsumPlan& plan) {
    double mults = 0;
    for (const EinsumStep& s : plan.steps) mults += s.flops / (s.right >= 0 && s.sums ? 2 : 1);
    return std::log2(mults * plan.slices);
  }
  void report_checks(const Verification& v) const {
    if (o_.json) return event({{"event", "verify"}, {"passed", v.passed()}, {"checks", v.notes}});
    for (const std::string& note : v.notes) err_ << "  " << note << "\n";
  }
  double gflops() const { return seconds_ > 0 ? c_.plan.flops / seconds_ / 1e9 : 0; }

  void report_result(const std::optional<Verification>& checked, double peak) const {
    if (o_.json) return result_json(checked, peak);
    if (o_.plan_only) {
      out_ << "path " << path_json(c_.plan).dump() << "\n";
      return;
    }
    out_ << fmt::format("{} -> {} {}: {} (best of {}), {:.4g} GFLOP/s, peak {}, on {}\n",
                        shortened(expression_), dtype_name(value_.dtype()), to_text(value_.sizes()),
                        seconds_text(seconds_), config_["repeat"].get<int64_t>(), gflops(),
                        bytes_text(peak), device_.name());
    const Tensor value = dense_value();
    if (c_.repeated)
      out_ << fmt::format("its output repeats a label: made dense, {}, 0 off the diagonals\n",
                          to_text(value.sizes()));
    if (wants_grads_)
      out_ << fmt::format("gradients: {} (value and gradients)\n", seconds_text(grad_seconds_));
    if (checked)
      out_ << verdict(checked->passed(), checked->passed() ? "verified" : "NOT verified") << "\n";
    if (o_.out.empty() && value.numel() <= kMostPrinted) out_ << value.to_string() << "\n";
  }
  void result_json(const std::optional<Verification>& checked, double peak) const {
    nlohmann::ordered_json result{{"event", "result"}, {"expression", expression_}};
    const bool ran = !o_.plan_only;
    result["seconds"] = ran ? Json(seconds_) : Json(nullptr);
    result["flops"] = count_json(c_.plan.flops);
    result["gflops"] = ran ? Json(gflops()) : Json(nullptr);
    result["path"] = path_json(c_.plan);
    result["peak_bytes"] = count_json(ran ? peak : bytes_needed());
    result["device"] = device_.name();
    result["dtype"] = dtype_name(dtype_);
    result["algebra"] = algebra_name(c_.algebra);
    const Shape shape = ran ? dense_value().sizes() : Shape();
    if (ran) result["shape"] = std::vector<int64_t>(shape.begin(), shape.end());
    if (ran && wants_grads_) result["grad_seconds"] = grad_seconds_;
    if (checked) {
      result["verified"] = checked->passed();
      result["max_rel_error_value"] = optional_json(checked->value_error);
      result["max_rel_error_grad"] = optional_json(checked->grad_error);
    }
    event(result);
  }

  const ContractOptions& o_;
  std::ostream& out_;
  std::ostream& err_;
  const Json config_;
  const Session session_;
  Device& device_;
  std::string expression_;
  Contraction c_;
  DType dtype_ = DType::f32;
  std::string_view path_name_;
  size_t memory_ = 0;
  std::optional<LimitScope> limit_;
  bool wants_grads_ = false;
  Tensor value_, cotangent_;
  Tensors grads_;
  double plan_seconds_ = 0, seconds_ = 0, grad_seconds_ = 0;
  double budget_ = 0;
  bool timed_ = false;
};

}  // namespace

Contraction drawn_contraction(const std::string& file, Device& device) {
  ContractOptions options;
  options.config = file;
  const Json config = resolve_contraction(options);
  Contraction c;
  c.algebra = parse_algebra(config["algebra"].get<std::string>());
  const PathOptions path = path_options(config["path"], c.algebra);
  Expression expression(config, path);
  expression.take_sizes(config);
  c.repeated = expression.repeated_in(c.algebra);
  c.plan = expression.plan(path, config).plan;
  manual_seed(config["seed"].get<uint64_t>());
  for (const Shape& shape : expression.shapes)
    c.operands.push_back(
        random_operand(shape, parse_dtype(config.value("dtype", "f32")), device, c.algebra));
  return c;
}

int run_contract(const ContractOptions& options, std::ostream& out, std::ostream& err) {
  return takes_blocks(options) ? run_block_contract(options, out, err)
                               : ContractRun(options, out, err).run();
}

}  // namespace gradus::cli
