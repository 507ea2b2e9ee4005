#include "ops/contract/network.hpp"

#include "engine/arithmetic.hpp"
#include "engine/batch.hpp"
#include "engine/forward.hpp"
#include "ops/base/ints.hpp"
#include "ops/base/registry.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace gradus::inline v1 {

namespace {

const OpInfo* network_info;

// ---- attributes: all of them lists of integers

enum { kTerms, kPath, kSliced, kTransforms };

// {rank of the first operand, its labels, rank of the second, ..., rank of the output, its labels}
Ints terms_attr(const EinsumPlan& plan, const std::map<int64_t, int>& number) {
  Ints out;
  const auto add = [&](const Labels& labels) {
    out.push_back(int64_t(labels.size()));
    for (const int64_t l : labels) out.push_back(number.at(l));
  };
  for (const Labels& term : plan.terms) add(term);
  add(plan.output);
  return out;
}

[[noreturn]] void refuse(const char* attr, const Ints& list, const char* expected) {
  fail(ErrorKind::value, "network", attr, " is ", to_text(list), "; expected ", expected);
}

struct Terms {
  std::vector<Labels> operands;
  Labels output;
};
Terms read_terms(const Ints& list) {
  Terms t;
  for (size_t i = 0; i < list.size();) {
    const int64_t rank = list[i++];
    if (rank < 0 || rank > int64_t(list.size() - i))
      refuse("terms", list, "for each operand and for the output its rank, then its labels");
    Labels& labels = t.operands.emplace_back();
    for (int64_t k = 0; k < rank; ++k) {
      if (list[i] < INT32_MIN || list[i] > INT32_MAX) refuse("terms", list, "labels of 32 bits");
      labels.push_back(list[i++]);
    }
  }
  if (t.operands.size() < 2) refuse("terms", list, "an operand and the output");
  t.output = std::move(t.operands.back());
  t.operands.pop_back();
  return t;
}
ContractionPath read_path(const Ints& list) {
  if (list.size() % 2) refuse("path", list, "pairs of positions");
  ContractionPath path;
  for (size_t i = 0; i < list.size(); i += 2) path.emplace_back(int(list[i]), int(list[i + 1]));
  return path;
}

// Transforms, one after the other: {kVjp, n, n wanted inputs, m, m given outputs},
// {kJvp, output, m, m given inputs} or {kMap, size of the batch, n, n batched inputs}.
enum : int64_t { kVjp, kJvp, kMap };
void append(Ints& list, const Chosen& chosen) {
  const size_t count = list.size();
  list.push_back(0);
  for (size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) list.push_back(int64_t(i)), ++list[count];
}
Attrs then(Attrs attrs, std::initializer_list<int64_t> what, const Chosen& chosen,
           const Chosen* more = nullptr) {
  Ints& list = attrs[kTransforms].integers;
  for (const int64_t x : what) list.push_back(x);
  append(list, chosen);
  if (more) append(list, *more);
  return attrs;
}
class Transforms {
 public:
  explicit Transforms(const Ints& list) : list_(list) {}
  ContractionProgram of(ContractionProgram p) {
    for (at_ = 0; at_ < list_.size();) {
      const int64_t kind = next(3);
      if (kind == kVjp) {
        const Chosen wanted = chosen(p.inputs.size()), given = chosen(p.outputs.size());
        p = vjp_program(p, wanted, given);
      } else if (kind == kJvp) {
        const int64_t output = next(int64_t(p.outputs.size()));
        p = jvp_program(p, int(output), chosen(p.inputs.size()));
      } else {
        const int64_t size = next(INT64_MAX);
        const Chosen batched = chosen(p.inputs.size());
        p = mapped_program(std::move(p), size, batched);
      }
    }
    return p;
  }
  // The shapes of the operands of the einsum, which are the first inputs of whatever became of it:
  // without the axes of batches.
  std::vector<Shape> without_batches(std::vector<Shape> shapes) {
    for (at_ = 0; at_ < list_.size();) {
      const int64_t kind = next(3);
      if (kind != kVjp) next(INT64_MAX);
      const Chosen first = chosen(kMany);
      if (kind == kVjp) chosen(kMany);
      for (size_t k = 0; kind == kMap && k < std::min(first.size(), shapes.size()); ++k)
        if (first[k] && !shapes[k].empty()) shapes[k].erase(0);
    }
    return shapes;
  }

 private:
  static constexpr size_t kMany = 1 << 24;
  int64_t next(int64_t below) {
    if (at_ == list_.size() || list_[at_] < 0 || list_[at_] >= below)
      refuse("transforms", list_, "a list that a derivative of a network has");
    return list_[at_++];
  }
  Chosen chosen(size_t n) {
    Chosen some(n == kMany ? 0 : n, 0);
    for (int64_t left = next(int64_t(list_.size())); left > 0; --left) {
      const auto i = size_t(next(int64_t(n)));
      if (i >= some.size()) some.resize(i + 1, 0);
      some[i] = 1;
    }
    return some;
  }
  const Ints& list_;
  size_t at_ = 0;
};

// ---- programs

ContractionProgram program_of(const EinsumPlan& plan, std::map<int64_t, int>* numbers) {
  ContractionProgram p;
  std::map<int64_t, int>& number = *numbers;
  for (const auto& [label, extent] : plan.sizes)
    if (extent != 1) {
      number.emplace(label, int(p.extents.size()));
      p.extents.push_back(extent);
    }
  const auto axes_of = [&](const Labels& labels, const Shape* sizes = nullptr) {
    ContractionProgram::Axes axes;
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto it = number.find(labels[i]);
      const bool none = it == number.end() || (sizes && (*sizes)[i] == 1);
      axes.push_back(none ? ContractionProgram::kNone : it->second);
    }
    return axes;
  };
  const size_t n = plan.operands.size();
  std::vector<int> value_of(2 * n - 1, -1);  // by slot
  for (size_t k = 0; k < n; ++k) {
    p.values.push_back(axes_of(plan.operands[k]));
    p.inputs.push_back({int(k), axes_of(plan.terms[k], &plan.shapes[k])});
    value_of[k] = int(k);
  }
  for (const EinsumStep& s : plan.steps) {
    ContractionProgram::Step step{{value_of[size_t(s.left)], false}, {}, int(p.values.size())};
    if (s.right >= 0) step.b.value = value_of[size_t(s.right)];
    p.values.push_back(axes_of(s.labels));
    value_of[size_t(s.result)] = step.out;
    p.steps.push_back(step);
  }
  p.outputs.push_back({value_of.back(), axes_of(plan.output)});
  return p;
}

// ---- compiled networks

// The steps of `derivative` that come after those of `p`, which have run.
ContractionProgram continued(ContractionProgram derivative, const ContractionProgram& p) {
  std::erase_if(derivative.steps,
                [&](const ContractionProgram::Step& s) { return s.out < int(p.values.size()); });
  return derivative;
}
Chosen values_read(const ContractionProgram& p) {
  Chosen read(p.values.size(), 0);
  for (const ContractionProgram::Step& s : p.steps)
    for (const ContractionProgram::Factor& f : {s.a, s.b})
      if (f.value >= 0) read[size_t(f.value)] = 1;
  return read;
}

class Compiled {
 public:
  Compiled(ContractionProgram program, DType dtype, std::vector<int> sliced)
      : schedule_(program, dtype, std::move(sliced)), program_(std::move(program)) {}
  const ContractionProgram& program() const { return program_; }
  const ContractionSchedule& schedule() const { return schedule_; }
  double input_bytes() const { return bytes(program_.inputs); }
  double output_bytes() const { return bytes(program_.outputs); }
  // Are intermediates kept for the sweep?
  bool keeps() const { return schedule_.sliced().empty(); }

  // Which inputs do derivatives with respect to `needs` read?
  const Chosen& inputs_read(const Chosen& needs) const {
    const std::lock_guard lock(mutex_);
    return found(read_, needs, [&] {
      const Chosen all(program_.outputs.size(), 1);
      const Chosen values = needed_values(vjp_program(program_, needs, all));
      Chosen inputs;
      for (const auto& port : program_.inputs) inputs.push_back(values[size_t(port.value)]);
      return inputs;
    });
  }
  // For cotangents of `needs`.
  const ContractionSchedule& recording(const Chosen& needs) const {
    const std::lock_guard lock(mutex_);
    return found(recording_, needs, [&] {
      const Chosen all(program_.outputs.size(), 1);
      const Chosen kept = values_read(continued(vjp_program(program_, needs, all), program_));
      return ContractionSchedule(program_, schedule_.dtype(), {}, kept);
    });
  }
  const ContractionSchedule& sweep(const Chosen& needs, const Chosen& wanted,
                                   const Chosen& given) const {
    const ContractionSchedule& before = recording(needs);
    Chosen key = needs;
    key.insert(key.end(), wanted.begin(), wanted.end());
    key.insert(key.end(), given.begin(), given.end());
    const std::lock_guard lock(mutex_);
    return found(sweeps_, key, [&] {
      return ContractionSchedule(continued(vjp_program(program_, wanted, given), program_), before);
    });
  }

 private:
  double bytes(const std::vector<ContractionProgram::Port>& ports) const {
    double n = 0;
    for (const auto& port : ports)
      n += pool_bytes(double(numel_of(program_.sizes(port))), schedule_.dtype());
    return n;
  }
  template <class T, class Make>
  static const T& found(std::map<Chosen, T>& known, const Chosen& key, Make make) {
    const auto it = known.find(key);
    return it != known.end() ? it->second : known.emplace(key, make()).first->second;
  }
  const ContractionSchedule schedule_;
  const ContractionProgram program_;
  mutable std::mutex mutex_;
  mutable std::map<Chosen, Chosen> read_;
  mutable std::map<Chosen, ContractionSchedule> recording_, sweeps_;
};
using CompiledRef = std::shared_ptr<const Compiled>;

CompiledRef compile(const Attrs& attrs, const std::vector<Shape>& shapes, DType dtype) {
  Terms terms = read_terms(attrs[kTerms].integers);
  const size_t n = terms.operands.size();
  if (shapes.size() < n)
    fail(ErrorKind::value, "network", "terms are those of ", n, " operands, got ", shapes.size());
  PathOptions options;
  options.kind = PathOptions::Kind::fixed;
  options.path = read_path(attrs[kPath].integers);
  Transforms transforms(attrs[kTransforms].integers);
  const EinsumPlan plan =
      plan_einsum(terms.operands, terms.output,
                  transforms.without_batches({shapes.begin(), shapes.begin() + n}), options);
  std::map<int64_t, int> number;
  ContractionProgram program = program_of(plan, &number);
  std::vector<int> sliced;
  for (const int64_t l : attrs[kSliced].integers) {
    const auto it = l < INT32_MIN || l > INT32_MAX ? number.end() : number.find(kNumberLabel + l);
    if (it == number.end() || std::find(sliced.begin(), sliced.end(), it->second) != sliced.end())
      refuse("sliced", attrs[kSliced].integers, "different labels of extents above 1");
    sliced.push_back(it->second);
  }
  program = transforms.of(std::move(program));
  if (program.inputs.size() != shapes.size())
    fail(ErrorKind::value, "network", "takes ", program.inputs.size(), " operands, got ",
         shapes.size());
  for (size_t k = 0; k < shapes.size(); ++k)
    if (!(program.sizes(program.inputs[k]) == shapes[k]))
      fail(ErrorKind::shape, "network", "operand ", k, " has shape ", shapes[k], ", expected ",
           program.sizes(program.inputs[k]));
  return std::make_shared<const Compiled>(std::move(program), dtype, std::move(sliced));
}

// Networks seen lately, for all threads.
CompiledRef compiled(const Attrs& attrs, const std::vector<Shape>& shapes, DType dtype) {
  constexpr size_t kMost = 256;
  static std::mutex mutex;
  static auto& known = *new std::unordered_map<std::string, CompiledRef>;
  std::string key;
  const auto number = [&](int64_t n) { key.append(reinterpret_cast<const char*>(&n), sizeof n); };
  const auto numbers = [&](const auto& list) {
    number(int64_t(list.size()));
    key.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(int64_t));
  };
  number(int64_t(dtype));
  for (const AttrValue& a : attrs) numbers(a.integers);
  for (const Shape& s : shapes) numbers(s);
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(key); it != known.end()) return it->second;
  }
  CompiledRef made = compile(attrs, shapes, dtype);
  const std::lock_guard lock(mutex);
  if (known.size() >= kMost) known.clear();
  known.emplace(std::move(key), made);
  return made;
}

std::vector<Shape> shapes_of(std::span<const TensorMeta> metas) {
  std::vector<Shape> shapes;
  for (const TensorMeta& m : metas) shapes.push_back(m.sizes);
  return shapes;
}
CompiledRef compiled(GradFn& node) {
  return compiled(node.attrs(), shapes_of(node.input_metas()), node.input_metas()[0].dtype);
}

// ---- the op

Chosen needs_of(const auto& asker, size_t inputs) {
  Chosen needs;
  for (size_t k = 0; k < inputs; ++k) needs.push_back(asker.needs(k));
  return needs;
}

void forward(OpContext& ctx) {
  std::vector<Shape> shapes;
  for (const Tensor& x : ctx.inputs) {
    shapes.push_back(x.sizes());
    if (x.dtype() != ctx.inputs[0].dtype())
      fail(ErrorKind::dtype, "network", "operands of ", ctx.inputs[0].dtype(), " and ", x.dtype());
  }
  if (shapes.empty()) fail(ErrorKind::value, "network", "no operands");
  const DType dtype = ctx.inputs[0].dtype();
  if (dtype == DType::bool_ || is_user(dtype))
    fail(ErrorKind::dtype, "network", "operands are ", dtype, "; expected numbers");
  const CompiledRef c = compiled(ctx.attrs, shapes, dtype);
  Device& device = ctx.inputs[0].device();
  if (!ctx.needs_any()) {
    for (Tensor& y : c->schedule().run(ctx.inputs, device)) ctx.outputs.push_back(std::move(y));
    return;
  }
  const Chosen needs = needs_of(ctx, ctx.inputs.size());
  Tensor arena;
  const ContractionSchedule& schedule = c->keeps() ? c->recording(needs) : c->schedule();
  for (Tensor& y : schedule.run(ctx.inputs, device, &arena)) ctx.outputs.push_back(std::move(y));
  const Chosen& read = c->inputs_read(needs);
  for (size_t k = 0; k < read.size(); ++k)
    if (read[k]) ctx.save_input(k);
  if (c->keeps() && arena.defined()) ctx.save(arena);
}

// The saved inputs of a node; in the place of one that no derivative reads, zeros without memory.
Tensors inputs_of(GradFn& node, const Compiled& c, const Chosen& needs) {
  const Chosen& read = c.inputs_read(needs);
  Tensors inputs;
  for (size_t k = 0; k < read.size(); ++k) {
    const TensorMeta& m = node.input_metas()[k];
    inputs.push_back(
        read[k]
            ? node.input(k)
            : Tensor::zeros({}, m.dtype, *m.device).alias(m.sizes, Shape(m.sizes.size(), 0), 0));
  }
  return inputs;
}
bool has_extra(const GradFn& node) {
  return std::any_of(node.saved().begin(), node.saved().end(),
                     [](const Saved& s) { return s.role == Saved::Role::extra; });
}

void vjps(GradFn& node, std::span<const char> asked, std::span<const Tensor> g,
          std::span<Tensor> cotangents) {
  const CompiledRef c = compiled(node);
  const Chosen needs = needs_of(node, asked.size());
  Chosen wanted(asked.begin(), asked.end()), given;
  for (const Tensor& t : g) given.push_back(t.defined());
  Tensors inputs = inputs_of(node, *c, needs);
  for (const Tensor& t : g)
    if (t.defined()) inputs.push_back(t);
  Tensors found;
  const bool plain = !grad_enabled() && !forward_mode() && !any_batched(g) && !observer;
  if (plain && c->keeps()) {
    const Tensor arena = has_extra(node) ? node.extra(0) : Tensor();
    found =
        c->sweep(needs, wanted, given).run(inputs, *node.input_metas()[0].device, nullptr, arena);
  } else {
    found = Tensors(apply(*network_info, inputs, then(node.attrs(), {kVjp}, wanted, &given)));
  }
  for (size_t k = 0, i = 0; k < wanted.size(); ++k)
    if (wanted[k]) cotangents[k] = std::move(found[i++]);
}

Tensor vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  SmallVector<char, 8> asked(node.inputs().size(), 0);
  Tensors cotangents(asked.size());
  asked[k] = 1;
  vjps(node, {asked.data(), asked.size()}, g, cotangents);
  return cotangents[k];
}

Tensor jvp(GradFn& node, size_t out, std::span<const Tensor> tangents) {
  const CompiledRef c = compiled(node);
  Tensors inputs = inputs_of(node, *c, needs_of(node, tangents.size()));
  Chosen given;
  for (const Tensor& t : tangents) {
    given.push_back(t.defined());
    if (t.defined()) inputs.push_back(t);
  }
  return apply1(*network_info, inputs, then(node.attrs(), {kJvp, int64_t(out)}, given));
}

Outputs batch(const BatchCall& call) {
  const Chosen batched(call.batched.begin(), call.batched.end());
  return apply(call.op, call.in, then(call.attrs, {kMap, call.scope.level.size}, batched));
}

Cost cost(const OpContext& ctx) {
  std::vector<Shape> shapes;
  Cost c;
  for (const Tensor& x : ctx.inputs) {
    shapes.push_back(x.sizes());
    c.bytes += double(x.bytes());
  }
  for (const Tensor& y : ctx.outputs) c.bytes += double(y.bytes());
  const DType dtype = ctx.inputs[0].dtype();
  c.flops = compiled(ctx.attrs, shapes, dtype)->schedule().flops() * (is_complex(dtype) ? 4 : 1);
  return c;
}

Attrs attrs_of(const EinsumPlan& plan) {
  std::map<int64_t, int> number;
  for (const auto& size : plan.sizes) number.emplace(size.first, int(number.size()));
  Ints path, sliced;
  for (const auto& [i, j] : plan.path) {
    path.push_back(i);
    path.push_back(j);
  }
  for (const int64_t l : plan.sliced) sliced.push_back(number.at(l));
  return {terms_attr(plan, number), path, sliced, Ints()};
}

}  // namespace

Tensor contract_network(const EinsumPlan& plan, const Tensors& operands) {
  return apply1(*network_info, operands, attrs_of(plan));
}

double network_bytes(const EinsumPlan& plan, DType dtype, bool gradients) {
  const CompiledRef c = compiled(attrs_of(plan), plan.shapes, dtype);
  if (!gradients) return c->schedule().peak_bytes();
  const Chosen all(plan.shapes.size(), 1);
  if (c->keeps())
    return c->recording(all).peak_bytes() + c->sweep(all, all, {1}).peak_bytes() - c->input_bytes();
  const ContractionSchedule sweep(vjp_program(c->program(), all, {1}), dtype,
                                  c->schedule().sliced());
  return sweep.peak_bytes() + c->output_bytes();
}

void register_network() {
  OpInfo o = new_op("network", "contraction",
                    "an einsum of many operands in a given order, or a derivative of one",
                    "y[output] = sum over the other labels of x0[term 0] * x1[term 1] * ...",
                    {{"operands", true}},
                    {ints_attr("terms", "of each operand and of the output: rank, then labels"),
                     ints_attr("path", Ints(), "pairs of positions in the shrinking list"),
                     ints_attr("sliced", Ints(), "labels that are looped over"),
                     ints_attr("transforms", Ints(), "which derivative it is; none: the einsum")});
  o.batch = batch;
  o.forward = forward;
  o.vjp = vjp;
  o.vjps = vjps;
  o.jvp = jvp;
  o.cost = cost;
  o.call = [](Operands in, const Attrs& a) { return apply(*network_info, in, a); };
  network_info = &add_op(std::move(o));
}

}  // namespace gradus
