// What OpInfo says of an op is all that is known here; files are read and written by engine/io.
#include "cli/ops/op.hpp"

#include "cli/frame/literal.hpp"
#include "cli/frame/parse.hpp"
#include "cli/frame/session.hpp"
#include "engine/forward.hpp"
#include "engine/graph.hpp"
#include "engine/files/npy.hpp"
#include "engine/random.hpp"
#include "ops/audit/watch/names.hpp"
#include "ops/transforms/func.hpp"
#include "ops/ops.hpp"
#include "ops/check/rows.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

constexpr int64_t kMostPrinted = 1000;  // elements of a tensor within a JSON line

// Results are collected, and go to their files or are printed once all of them are there: a run
// that fails half way leaves nothing behind.
class Results {
 public:
  Results(const OpOptions& options, std::ostream& out) : options_(options), out_(out) {}
  // `files` is empty, or has one name per result; "-" drops it.
  void add(const std::string& kind, const Tensors& tensors, const std::vector<std::string>& names,
           const std::vector<std::string>& files) {
    kinds_.push_back(kind);
    for (size_t i = 0; i < tensors.size(); ++i)
      if (files.empty() || files[i] != "-")
        results_.push_back({kind, names[i], tensors[i].detach(), files.empty() ? "" : files[i]});
  }
  Json deliver() {
    Json report;
    for (const std::string& kind : kinds_) report[kind] = Json::array();
    for (const Result& r : results_) report[r.kind].push_back(one(r.name, r.tensor, r.file));
    return report;
  }

 private:
  struct Result {
    std::string kind, name;
    Tensor tensor;
    std::string file;
  };
  Json one(const std::string& name, const Tensor& t, const std::string& file) {
    Json j{{"name", name}, {"dtype", dtype_name(t.dtype())}, {"shape", Json::array()}};
    for (const int64_t n : t.sizes()) j["shape"].push_back(n);
    if (!file.empty()) {
      write_npy(file, t);
      j["file"] = file;
    } else if (options_.json && t.numel() <= kMostPrinted) {
      j["values"] = to_lists(t);
    }
    if (!options_.json) {
      out_ << name << ": " << dtype_name(t.dtype()) << " " << to_text(t.sizes());
      if (file.empty())
        out_ << "\n" << t.to_string() << "\n";
      else
        out_ << " -> " << file << "\n";
    }
    return j;
  }
  const OpOptions& options_;
  std::ostream& out_;
  std::vector<std::string> kinds_;
  std::vector<Result> results_;
};

// ---- operands

void check_operand_count(const OpInfo& op, size_t given) {
  const size_t least = op.least_operands();
  bool open = false;
  std::string names;
  for (const OperandSpec& spec : op.operands) {
    open |= spec.variadic;
    names += (names.empty() ? "" : ", ") + spec.name +
             (spec.variadic   ? "..."
              : spec.optional ? "?"
                              : "");
  }
  if (given >= least && (open || given <= op.operands.size())) return;
  fail(ErrorKind::value, op.name, "takes ", open ? "at least " : "", int64_t(least),
       least == 1 ? " operand" : " operands", names.empty() ? "" : " (" + names + ")", ", got ",
       int64_t(given), given < least ? "; give them with --in x.npy ... or --in \"[1, 2]\"" : "");
}

// A file, or the numbers themselves.
Tensor read_tensor(const std::string& text, Device& device) {
  return is_literal(text) ? parse_literal(text, device) : read_npy(text, device);
}

bool wants_derivative(const OpOptions& o) {
  return !o.cotangents.empty() || !o.tangents.empty() || o.jacobian || o.hessian ||
         !o.vectors.empty();
}

// Numbers that are typed without a point are whole, but beside a derivative they are meant as real
// ones wherever the op takes such: not where it takes indices.
Tensor as_meant(const OpInfo& op, size_t k, const Tensor& t) {
  const bool real = op.differentiable && t.dtype() == DType::i64 &&
                    rows::operand_dtype(rows::row_of(op.name), k, DType::f64) == DType::f64;
  return real ? cast(t, DType::f64) : t;
}

// Blanks before a literal say nothing; a file may begin with one.
std::string as_named(const std::string& given) {
  const std::string text = given.substr(std::min(given.find_first_not_of(' '), given.size()));
  return is_literal(text) ? text : given;
}

Tensors read_operands(const OpInfo& op, const OpOptions& options, Device& device) {
  check_operand_count(op, options.inputs.size());
  const DType to = options.dtype.empty() ? DType::f32 : parse_dtype(options.dtype);
  const bool casts = !options.dtype.empty(), real = casts && is_floating(to);
  Tensors inputs;
  for (const std::string& given : options.inputs) {
    const std::string file = as_named(given);
    Tensor t = read_tensor(file, device);
    if (real || (is_literal(file) && wants_derivative(options))) t = as_meant(op, inputs.size(), t);
    if (casts && is_floating(t.dtype())) {
      if (!real || (is_complex(t.dtype()) && !is_complex(to)))
        fail(ErrorKind::dtype, file, "is ", t.dtype(), " and can't be cast to ", to,
             " without a loss; use the op cast");
      t = cast(t, to);
    } else if (casts && is_integer(to) && is_integer(t.dtype())) {
      const Tensor narrow = cast(t, to);
      if (any(ne(cast(narrow, t.dtype()), t)).item() != 0)
        fail(ErrorKind::dtype, file, "has numbers that ", to, " does not hold");
      t = narrow;
    }
    inputs.push_back(t);
  }
  return inputs;
}

// A cotangent or tangent: the shape of what it belongs to, and a dtype that casts to its.
Tensor read_like(const std::string& text, const char* what, const Tensor& like) {
  const std::string file = as_named(text);
  const Tensor t = read_tensor(file, like.device());
  if (!(t.sizes() == like.sizes()))
    fail(ErrorKind::shape, file, "the ", what, " has shape ", t.sizes(), ", expected ",
         like.sizes());
  if (is_complex(t.dtype()) && !is_complex(like.dtype()))
    fail(ErrorKind::dtype, file, "the ", what, " is ", t.dtype(), ", expected ", like.dtype());
  return cast(t, like.dtype());
}

std::vector<size_t> floating(const Tensors& tensors) {
  std::vector<size_t> which;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (is_floating(tensors[i].dtype())) which.push_back(i);
  return which;
}

void check_file_count(const OpInfo& op, const char* option, size_t given, size_t expected,
                      const char* what) {
  if (given == 0 || given == expected) return;
  fail(ErrorKind::value, op.name, option, " takes one file per ", what, ": ", int64_t(expected),
       " expected, got ", int64_t(given));
}

// ---- the run: value, then cotangents pulled back, then tangents pushed forward

class OpRun {
 public:
  OpRun(const OpInfo& op, const OpOptions& options, Device& device)
      : op_(op),
        options_(options),
        attrs_(parse_attrs(op, options.attrs)),
        inputs_(read_operands(op, options, device)),
        moving_(floating(inputs_)) {
    if (!options_.grads.empty() && options_.cotangents.empty())
      fail(ErrorKind::value, op_.name, "--grads needs --cotangent g.npy");
    if (!options_.jvps.empty() && options_.tangents.empty())
      fail(ErrorKind::value, op_.name, "--jvp needs --tangents t.npy ...");
    if (!options_.hvps.empty() && options_.vectors.empty())
      fail(ErrorKind::value, op_.name, "--hvp-out needs --hvp v.npy ...");
    if (!options_.in_dims.empty()) in_dims_ = parse_in_dims(op_, options_.in_dims, inputs_.size());
    if (!wants_derivative(options_)) return;
    if (!op_.differentiable) fail(ErrorKind::autograd, op_.name, "has no derivative");
    if (moving_.empty())
      fail(ErrorKind::autograd, op_.name, "no operand is real or complex, and whole numbers have ",
           "no derivative; make real ones of a file by gradus op cast --in x.npy --attr ",
           "dtype=f64 --out y.npy");
  }

  void value(Results& results) {
    if (!options_.cotangents.empty())
      for (const size_t k : moving_) {
        inputs_[k] = inputs_[k].detach();
        inputs_[k].set_requires_grad();
      }
    outputs_ = mapped([this](const Tensors& in) { return run(in); })(inputs_);
    std::vector<std::string> names;
    for (size_t i = 0; i < outputs_.size(); ++i)
      names.push_back(audit::numbered("y", i, outputs_.size()));
    check_file_count(op_, "--out", options_.outputs.size(), outputs_.size(), "output");
    results.add("outputs", outputs_, names, options_.outputs);
  }

  void gradients(Results& results) {
    const std::vector<size_t> which = floating(outputs_);
    check_file_count(op_, "--cotangent", options_.cotangents.size(), which.size(),
                     "floating output");
    check_file_count(op_, "--grads", options_.grads.size(), moving_.size(), "floating operand");
    Tensors roots, seeds, leaves;
    std::vector<std::string> names;
    for (size_t i = 0; i < which.size(); ++i) {
      if (!outputs_[which[i]].requires_grad()) continue;
      roots.push_back(outputs_[which[i]]);
      seeds.push_back(read_like(options_.cotangents[i], "cotangent", outputs_[which[i]]));
    }
    for (const size_t k : moving_) {
      leaves.push_back(inputs_[k]);
      names.push_back("d" + audit::operand_label(op_, k));
    }
    Tensors g(leaves.size());
    if (!roots.empty()) g = grad(roots, leaves, seeds, {.allow_unused = true});
    for (size_t n = 0; n < g.size(); ++n)
      if (!g[n].defined())
        g[n] = Tensor::zeros(leaves[n].sizes(), leaves[n].dtype(), leaves[n].device());
    results.add("grads", g, names, options_.grads);
  }

  void tangents(Results& results) {
    check_file_count(op_, "--tangents", options_.tangents.size(), moving_.size(),
                     "floating operand");
    const NoGrad off;
    ForwardLevel level;
    for (size_t n = 0; n < moving_.size(); ++n) {
      Tensor& x = inputs_[moving_[n]];
      x = x.detach();
      if (options_.tangents[n] != "-")
        level.set_tangent(x, read_like(options_.tangents[n], "tangent", x));
    }
    const Tensors y = mapped([this](const Tensors& in) { return run(in); })(inputs_);
    Tensors pushed;
    std::vector<std::string> names;
    for (const size_t i : floating(y)) {
      const Tensor t = y[i].tangent();
      pushed.push_back(t.defined() ? t : Tensor::zeros(y[i].sizes(), y[i].dtype(), y[i].device()));
      names.push_back("jvp_" + audit::numbered("y", i, y.size()));
    }
    check_file_count(op_, "--jvp", options_.jvps.size(), pushed.size(), "floating output");
    results.add("jvp", pushed, names, options_.jvps);
  }

  // Of each floating output by each floating operand; of each example with --in-dims.
  void jacobian(Results& results) {
    check_real("--jacobian");
    std::vector<std::string> names;
    for (const size_t i : floating(outputs_))
      for (const size_t k : moving_)
        names.push_back("d" + audit::numbered("y", i, outputs_.size()) + "/d" +
                        audit::operand_label(op_, k));
    check_file_count(op_, "--jacobian", options_.jacobians.size(), names.size(),
                     "floating output and floating operand");
    const Tensors blocks = mapped([this](const Tensors& in) {
      Tensors flat;
      for (const Tensors& row : func::jacobian(of_moving(in), moving(in)))
        flat.insert(flat.end(), row.begin(), row.end());
      return flat;
    })(detached());
    results.add("jacobian", blocks, names, options_.jacobians);
  }

  void hessian(Results& results) {
    check_real("--hessian");
    if (moving_.size() != 1)
      fail(ErrorKind::value, op_.name, "--hessian takes an op of one floating operand, here are ",
           int64_t(moving_.size()), "; use --hvp");
    check_file_count(op_, "--hessian", options_.hessians.size(), 1, "op");
    const Tensors h = mapped([this](const Tensors& in) {
      return func::hessian(of_moving(in, "--hessian"), moving(in))[0];
    })(detached());
    const std::string x = audit::operand_label(op_, moving_[0]);
    results.add("hessian", h, {"d2y/d" + x + "d" + x}, options_.hessians);
  }

  // The Hessian times vectors, which are mapped as their operands are.
  void hvp(Results& results) {
    check_file_count(op_, "--hvp", options_.vectors.size(), moving_.size(), "floating operand");
    check_file_count(op_, "--hvp-out", options_.hvps.size(), moving_.size(), "floating operand");
    Tensors all = detached();
    std::vector<std::string> names;
    for (size_t n = 0; n < moving_.size(); ++n) {
      const Tensor& x = inputs_[moving_[n]];
      all.push_back(options_.vectors[n] == "-" ? Tensor::zeros(x.sizes(), x.dtype(), x.device())
                                               : read_like(options_.vectors[n], "vector", x));
      names.push_back("hvp_" + audit::operand_label(op_, moving_[n]));
    }
    func::MappedDims dims = in_dims_;
    if (!dims.empty())
      for (const size_t k : moving_) dims.push_back(in_dims_[k]);
    const Tensors product = mapped(
        [this](const Tensors& in) {
          const Tensors x(in.begin(), in.begin() + int64_t(inputs_.size()));
          const Tensors v(in.begin() + int64_t(inputs_.size()), in.end());
          return func::hvp(of_moving(x, "--hvp"), moving(x), v).product;
        },
        dims)(all);
    results.add("hvp", product, names, options_.hvps);
  }

 private:
  Tensors run(const Tensors& in) {
    manual_seed(uint64_t(options_.seed));
    return op_.call(in, attrs_);
  }
  func::Function mapped(const func::Function& f) { return mapped(f, in_dims_); }
  static func::Function mapped(const func::Function& f, const func::MappedDims& dims) {
    return dims.empty() ? f : func::vmap(f, dims, {}, Randomness::different);
  }
  Tensors detached() const {
    Tensors out;
    for (const Tensor& x : inputs_) out.push_back(x.detach());
    return out;
  }
  Tensors moving(const Tensors& in) const {
    Tensors out;
    for (const size_t k : moving_) out.push_back(in[k]);
    return out;
  }
  // The floating outputs as a function of the floating operands. `scalar` is the option that wants
  // a single real number of it, if one does.
  func::Function of_moving(const Tensors& in, const char* scalar = nullptr) {
    return [this, in, scalar](const Tensors& x) {
      Tensors all = in, y;
      for (size_t n = 0; n < x.size(); ++n) all[moving_[n]] = x[n];
      const Tensors outputs = run(all);
      for (const size_t i : floating(outputs)) y.push_back(outputs[i]);
      if (scalar && (y.size() != 1 || y[0].numel() != 1 || !is_real_float(y[0].dtype())))
        fail(ErrorKind::value, op_.name, scalar, " needs one output of one real number, got ",
             y.size() == 1 ? join(y[0].dtype(), " ", y[0].sizes())
                           : join(int64_t(y.size()), " floating outputs"),
             "; use --jacobian");
      return y;
    };
  }
  void check_real(const char* option) const {
    for (const size_t k : moving_)
      if (is_complex(inputs_[k].dtype()))
        fail(ErrorKind::dtype, op_.name, option, " takes real operands, ",
             audit::operand_label(op_, k), " is ", inputs_[k].dtype(),
             "; use --tangents or --cotangent");
  }

  const OpInfo& op_;
  const OpOptions& options_;
  Attrs attrs_;
  func::MappedDims in_dims_;  // empty: no vmap
  Tensors inputs_, outputs_;
  std::vector<size_t> moving_;  // operands that have a derivative
};

}  // namespace

int run_op(const OpOptions& options, std::ostream& out, std::ostream& err) {
  const OpInfo& op = get_op(options.name);
  const Attrs checked = parse_attrs(op, options.attrs);  // before a file is read
  for (const auto* files : {&options.outputs, &options.grads, &options.jvps, &options.jacobians,
                            &options.hessians, &options.hvps})
    check_endings(*files, ".npy");
  const Session session(options.device, options.ledger, err);
  Results results(options, out);
  OpRun run(op, options, session.device());
  const auto start = std::chrono::steady_clock::now();
  run.value(results);
  if (!options.cotangents.empty()) run.gradients(results);
  if (!options.tangents.empty()) run.tangents(results);
  if (options.jacobian) run.jacobian(results);
  if (options.hessian) run.hessian(results);
  if (!options.vectors.empty()) run.hvp(results);
  session.device().synchronize();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;

  Json report = results.deliver();
  if (options.json) {
    report.update({{"event", "result"},
                   {"op", op.name},
                   {"device", session.device().name()},
                   {"seconds", took.count()},
                   {"attrs", Json::object()}});
    for (size_t i = 0; i < checked.size(); ++i)
      report["attrs"][op.attrs[i].name] = to_text(checked[i]);
    out << report.dump() << "\n";
  }
  return 0;
}

}  // namespace gradus::cli
