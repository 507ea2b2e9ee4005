#include "cli/contract/block_contract.hpp"

#include "cli/contract/contract.hpp"
#include "cli/contract/contract_config.hpp"
#include "cli/contract/expression.hpp"
#include "cli/frame/parse.hpp"
#include "cli/frame/session.hpp"
#include "cli/frame/terminal.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/blocks/contraction.hpp"
#include "ops/blocks/file.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/memory.hpp"
#include "ops/reduce/reductions.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

constexpr const char* kOp = "contract";
constexpr double kMostVerified = 1e8;  // elements of a dense embedding
constexpr int64_t kMostPrinted = 200;  // elements of a value on the screen

double largest(const Tensor& x) { return x.numel() ? cast(amax(abs(x)), DType::f64).item() : 0; }

class BlockRun {
 public:
  BlockRun(const ContractOptions& o, std::ostream& out, std::ostream& err)
      : o_(o),
        out_(out),
        err_(err),
        config_(resolve_contraction(o)),
        session_(o.device, o.ledger, err, config_.contains("device") ? &config_["device"] : nullptr,
                 o.config) {
    check_endings({o.out}, ".safetensors");
    check_endings(o.grads, ".safetensors");
    refuse_what_is_dense();
    const Expression expression(config_, {});
    refuse_repeated(expression);
    equation_ = expression.equation ? expression.equation->text : "";
    labels_ = expression.network.terms;
    output_ = expression.network.output;
    for (const Labels& term : labels_) numbers_.push_back(as_numbers(term));
    const std::vector<NamedBlocks> all = read_blocks(o.tensors, session_.device());
    for (const std::string& name : expression.names()) {
      const auto at = std::find_if(all.begin(), all.end(),
                                   [&](const NamedBlocks& b) { return b.name == name; });
      if (at == all.end())
        fail(ErrorKind::value, o.tensors, "has no block tensor \"", name, "\", operand ",
             operands_.size(),
             "; operands are named \"0\", \"1\", ... or by \"names\" of the network");
      const Shape sizes = at->tensor.structure.dense_sizes();
      if (!labels_.empty() && !(expression.shapes[operands_.size()] == sizes))
        fail(ErrorKind::shape, o.tensors, "block tensor \"", name, "\" has legs of sizes ", sizes,
             ", the network says ", expression.shapes[operands_.size()]);
      operands_.push_back(at->tensor);
    }
    wants_grads_ = config_["grad"].get<bool>() || !o.grads.empty() || !o.cotangent.empty();
    if (!o.grads.empty() && o.grads.size() != operands_.size())
      fail(ErrorKind::value, kOp, "--grads takes one file per operand: ", operands_.size(),
           " expected, got ", o.grads.size());
  }

  int run() {
    const auto began = std::chrono::steady_clock::now();
    path_ = equation_.empty() ? plan_block_einsum(operands_, numbers_, as_numbers(output_))
                              : plan_block_einsum(equation_, operands_);
    plan_seconds_ = seconds_since(began);
    report_plan();
    if (o_.plan_only) return 0;
    contract();
    const bool checks = config_["verify"].get<bool>();
    const bool derives = is_floating(value_->data.dtype()) || is_complex(value_->data.dtype());
    if (wants_grads_ || (checks && derives)) differentiate();
    const bool right = !checks || verify();
    report_result(checks, right);
    if (!right)
      fail(ErrorKind::numeric, kOp, "verification failed: the value is off by ",
           fmt::format("{:.3g}", *value_error_),
           grad_error_ ? fmt::format(", the gradients by {:.3g}", *grad_error_) : "",
           ", relative to the dense tensors");
    if (!o_.out.empty()) write_blocks(o_.out, {{"value", *value_}});
    for (size_t k = 0; k < o_.grads.size(); ++k)
      if (o_.grads[k] != "-") write_blocks(o_.grads[k], {{"grad", grads_[k]}});
    return 0;
  }

 private:
  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  // What is said for dense operands alone.
  void refuse_what_is_dense() const {
    const auto said = [&](const char* key) { return config_.contains(key); };
    const Json& path = config_["path"];
    const std::pair<const char*, bool> options[] = {
        {"--in", !o_.in.empty()},
        {"--sizes", said("sizes")},
        {"--winners", !o_.winners.empty()},
        {"--path", !o_.path.empty() || !(path == "auto" || path == Json{{"kind", "auto"}})},
        {"--budget", said("budget")},
        {"--timeout", said("timeout")},
        {"--plan-cache", said("plan_cache")},
        {"--plan-in", said("plan")},
        {"--plan-out", !o_.plan_out.empty()},
        {"--svg", !o_.svg.empty()},
        {"--html", !o_.html.empty()},
        {"--cost", said("cost")},
        {"--memory", said("memory_limit")},
        {"--dtype", said("dtype")},
        {"another algebra", config_["algebra"] != "standard"}};
    for (const auto& [name, given] : options)
      if (given)
        fail(ErrorKind::config, kOp, name, " is for dense operands; ", o_.tensors,
             " holds block tensors");
  }
  // Off the diagonals of an output that repeats a label the charges need not fit.
  static void refuse_repeated(const Expression& expression) {
    if (!expression.repeated) return;
    const Labels& letters = expression.repeated->letters;
    for (size_t i = 1; i < letters.size(); ++i)
      if (std::find(letters.begin(), letters.begin() + i, letters[i]) != letters.begin() + i)
        fail(ErrorKind::value, kOp, "the output \"", expression.repeated->text, "\" repeats ",
             label_text(letters[i]), ", which no block tensor can; that is for dense operands");
  }
  // As messages tell labels of a network from letters.
  static Labels as_numbers(Labels labels) {
    for (int64_t& label : labels) label += kNumberLabel;
    return labels;
  }
  BlockTensor value_of(const std::vector<BlockTensor>& in) const {
    return equation_.empty() ? einsum(in, numbers_, as_numbers(output_)) : einsum(equation_, in);
  }
  Tensor dense_of(const Tensors& in) const {
    return equation_.empty() ? einsum(in, labels_, output_) : einsum(equation_, in);
  }

  void contract() {
    const NoGrad off;
    for (int64_t i = 0; i < config_["repeat"].get<int64_t>(); ++i) {
      value_.reset();
      session_.device().synchronize();
      const auto start = std::chrono::steady_clock::now();
      value_ = value_of(operands_);
      session_.device().synchronize();
      const double s = seconds_since(start);
      seconds_ = i == 0 ? s : std::min(seconds_, s);
      if (o_.json) event({{"event", "run"}, {"repeat", i}, {"seconds", s}});
    }
  }
  // Of the sum of the value's elements, or by a cotangent from a file.
  Tensor cotangent() const {
    if (o_.cotangent.empty())
      return Tensor::full(value_->data.sizes(), 1, value_->data.dtype(), session_.device());
    const BlockTensor g = read_blocks(o_.cotangent, session_.device())[0].tensor;
    if (!(g.structure == value_->structure))
      fail(ErrorKind::shape, o_.cotangent,
           "the cotangent has other blocks than the value: ", g.structure.text(), "\nexpected ",
           value_->structure.text());
    if (is_complex(g.data.dtype()) && !is_complex(value_->data.dtype()))
      fail(ErrorKind::dtype, o_.cotangent, "the cotangent is ", g.data.dtype(), ", the value ",
           value_->data.dtype(), ": an imaginary part would be lost");
    return cast(g.data, value_->data.dtype());
  }
  std::vector<BlockTensor> leaves() const {
    std::vector<BlockTensor> in;
    for (const BlockTensor& x : operands_) {
      in.push_back(with_data(x, x.data.detach()));
      if (is_floating(x.data.dtype()) || is_complex(x.data.dtype()))
        in.back().data.set_requires_grad();
    }
    return in;
  }
  static Tensors buffers(const std::vector<BlockTensor>& in) {
    Tensors all;
    for (const BlockTensor& x : in) all.push_back(x.data);
    return all;
  }
  void differentiate() {
    cotangent_ = cotangent();
    const auto start = std::chrono::steady_clock::now();
    const std::vector<BlockTensor> in = leaves();
    const Tensors found = grad({value_of(in).data}, buffers(in), {cotangent_},
                               {.allow_unused = true, .materialize_grads = true});
    session_.device().synchronize();
    grad_seconds_ = seconds_since(start);
    for (size_t k = 0; k < in.size(); ++k) grads_.push_back(with_data(operands_[k], found[k]));
  }
  // Against the einsum of the dense tensors.
  bool verify() {
    for (const BlockTensor& x : operands_) {
      double dense = 1;
      for (const Leg& leg : x.structure.legs()) dense *= double(leg.size());
      if (x.structure.symmetry().is_fermionic())
        fail(ErrorKind::value, "--verify", "dense tensors know no signs of fermions");
      if (dense > kMostVerified)
        fail(ErrorKind::memory, "--verify", "an operand has ", dense,
             " elements as a dense tensor");
    }
    const std::vector<BlockTensor> in = leaves();
    Tensors dense;
    for (const BlockTensor& x : in) dense.push_back(to_dense(x));
    const Tensor wanted = dense_of(dense);
    NoGrad off;
    const auto compare = [&](const Tensor& a, const Tensor& b, std::optional<double>& worst) {
      const double scale = largest(b.detach());
      const double e = largest(sub(a, b.detach())) / (scale > 0 ? scale : 1);
      if (!worst || std::isnan(e) || e > *worst) worst = e;  // a NaN stays: nothing is larger
    };
    compare(to_dense(*value_), wanted, value_error_);
    if (!grads_.empty()) {
      const Tensors found = grad({wanted}, buffers(in), {to_dense({cotangent_, value_->structure})},
                                 {.allow_unused = true, .materialize_grads = true});
      for (size_t k = 0; k < found.size(); ++k) compare(grads_[k].data, found[k], grad_error_);
    }
    const double tolerance = real_dtype(value_->data.dtype()) == DType::f64 ? 1e-12 : 1e-4;
    return *value_error_ <= tolerance && (!grad_error_ || *grad_error_ <= tolerance);
  }

  void event(const nlohmann::ordered_json& e) const { out_ << e.dump() << std::endl; }
  std::string name() const { return equation_.empty() ? "network" : equation_; }
  void report_plan() const {
    if (o_.json) {
      Json path = Json::array();
      for (const auto& [i, j] : path_.pairs) path.push_back({i, j});
      return event({{"event", "plan"},
                    {"expression", name()},
                    {"path", path},
                    {"flops", path_.flops},
                    {"dense_flops", path_.dense_flops},
                    {"block_pairs", path_.block_pairs},
                    {"seconds", plan_seconds_}});
    }
    err_ << heading(name()) << fmt::format("  (block tensors, on {})\n", session_.device().name());
    for (size_t k = 0; k < operands_.size(); ++k) {
      std::string text = operands_[k].structure.text();
      for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3)
        text.replace(at, 1, "\n  ");
      err_ << fmt::format("  operand {}  {}\n", k, text);
    }
    err_ << fmt::format("  {} pairs of blocks, {:.4g} flops; dense {:.4g}, {:.1f} times as many\n",
                        path_.block_pairs, path_.flops, path_.dense_flops,
                        path_.dense_flops / std::max(path_.flops, 1.0));
  }
  void report_result(bool checked, bool right) const {
    if (o_.json) {
      nlohmann::ordered_json e{{"event", "result"},
                               {"expression", name()},
                               {"seconds", seconds_},
                               {"flops", path_.flops},
                               {"elements", value_->structure.elements()},
                               {"blocks", value_->structure.count()},
                               {"device", session_.device().name()},
                               {"dtype", dtype_name(value_->data.dtype())}};
      if (wants_grads_) e["grad_seconds"] = grad_seconds_;
      if (checked) {
        e["verified"] = right;
        e["max_rel_error_value"] = optional_json(value_error_);
        e["max_rel_error_grad"] = optional_json(grad_error_);
      }
      return event(e);
    }
    out_ << fmt::format("{} -> {}: {:.3g} us (best of {})\n", name(),
                        dtype_name(value_->data.dtype()), seconds_ * 1e6,
                        config_["repeat"].get<int64_t>());
    if (wants_grads_)
      out_ << fmt::format("gradients: {:.3g} us (value and gradients)\n", grad_seconds_ * 1e6);
    if (checked) out_ << verdict(right, right ? "verified" : "NOT verified") << "\n";
    if (o_.out.empty())
      out_ << (value_->data.numel() <= kMostPrinted ? to_string(*value_) : summary(*value_))
           << "\n";
  }

  const ContractOptions& o_;
  std::ostream& out_;
  std::ostream& err_;
  const Json config_;
  const Session session_;
  std::string equation_;
  std::vector<Labels> labels_, numbers_;
  Labels output_;
  std::vector<BlockTensor> operands_, grads_;
  std::optional<BlockTensor> value_;
  Tensor cotangent_;
  BlockPath path_;
  bool wants_grads_ = false;
  double plan_seconds_ = 0, seconds_ = 0, grad_seconds_ = 0;
  std::optional<double> value_error_, grad_error_;  // of a check, relative
};

}  // namespace

bool takes_blocks(const ContractOptions& o) {
  return !o.tensors.empty() && has_blocks(read_safetensors_metadata(o.tensors));
}
int run_block_contract(const ContractOptions& options, std::ostream& out, std::ostream& err) {
  return BlockRun(options, out, err).run();
}

}  // namespace gradus::cli
