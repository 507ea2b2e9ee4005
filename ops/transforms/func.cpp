#include "ops/transforms/func.hpp"
#include "engine/forward.hpp"

#include "ops/base/shape.hpp"
#include "ops/shape/creation.hpp"
#include "ops/shape/join.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>
#include <unordered_set>

namespace gradus::inline v1::func {
namespace {

// How many transforms of this thread are evaluating a function that they will differentiate.
thread_local int depth = 0;
struct Inside {
  Inside() { ++depth; }
  ~Inside() { --depth; }
};

bool wants_graph(const Options& o, const Tensors& tensors) {
  if (o.create_graph) return *o.create_graph;
  if (!grad_enabled()) return false;
  return depth > 0 || std::any_of(tensors.begin(), tensors.end(),
                                  [](const Tensor& t) { return t.requires_grad(); });
}

class Recording {
 public:
  explicit Recording(bool on) {
    if (on)
      on_.emplace();
    else
      off_.emplace();
  }

 private:
  std::optional<EnableGrad> on_;
  std::optional<NoGrad> off_;
};

// A tensor of its own on the same memory; keeps tangents, and history where it is recorded.
Tensor view(const Tensor& x) {
  Ints order;
  for (int64_t i = 0; i < x.rank(); ++i) order.push_back(i);
  return permute(x, order);
}
Tensor without_history(const Tensor& t) {
  NoGrad off;
  return view(t);
}

// What f is given for an input that is differentiated.
Tensor own_input(const char* op, const Tensors& inputs, size_t k, bool graph) {
  const Tensor& x = inputs[k];
  if (!x.defined()) fail(ErrorKind::value, op, "input ", int64_t(k), " is undefined");
  if (x.is_number() || !is_floating(x.dtype()))
    fail(
        ErrorKind::dtype, op, "input ", int64_t(k), " is ",
        x.is_number() ? "a number" : dtype_name(x.dtype()),
        "; only tensors of real or complex dtype can be differentiated: let f capture it, or leave "
        "it out of argnums");
  const Recording recording(graph);
  return view(lifted(x));
}
Tensors own_inputs(const char* op, const Tensors& inputs, bool graph) {
  if (inputs.empty()) fail(ErrorKind::value, op, "got no inputs");
  Tensors own;
  for (size_t k = 0; k < inputs.size(); ++k) own.push_back(own_input(op, inputs, k, graph));
  return own;
}
// Leaves, but for those that go on in a graph.
void track(Tensors& tensors) {
  for (Tensor& t : tensors)
    if (!t.requires_grad()) t.set_requires_grad();
}

Tensors evaluate(const char* op, const Function& f, const Tensors& in) {
  const EnableGrad on;
  const Inside inside;
  Tensors y = f(in);
  if (y.empty()) fail(ErrorKind::value, op, "the function returned no tensors");
  for (size_t i = 0; i < y.size(); ++i)
    if (!y[i].defined()) fail(ErrorKind::value, op, "output ", int64_t(i), " is undefined");
  return y;
}

// v with the shapes and dtypes of `like`.
Tensors checked_v(const char* op, const char* what, const Tensors& like, const Tensors& v) {
  if (v.empty() && like.size() == 1 && like[0].numel() == 1)
    return {Tensor::full(like[0].sizes(), 1.0, like[0].dtype(), like[0].device())};
  if (v.empty())
    fail(ErrorKind::value, op, "v can be left out only where there is one ", what,
         " of one element; there ", like.size() == 1 ? "is 1" : join("are ", int64_t(like.size())),
         ", the first of shape ", like[0].sizes());
  if (v.size() != like.size())
    fail(ErrorKind::value, op, "v has ", int64_t(v.size()), " tensors for ", int64_t(like.size()),
         " ", what, "s");
  Tensors out;
  for (size_t i = 0; i < v.size(); ++i) {
    if (!is_floating(like[i].dtype())) {
      out.push_back(Tensor());
      continue;
    }
    if (!v[i].defined()) fail(ErrorKind::value, op, "v[", int64_t(i), "] is undefined");
    out.push_back(materialise(v[i], like[i].dtype(), like[i].device()));
    if (!(out[i].sizes() == like[i].sizes()))
      fail(ErrorKind::shape, op, "v[", int64_t(i), "] has shape ", out[i].sizes(), ", ", what, " ",
           int64_t(i), " has ", like[i].sizes());
    if (out[i].dtype() != like[i].dtype())
      fail(ErrorKind::dtype, op, "v[", int64_t(i), "] is ", out[i].dtype(), ", ", what, " ",
           int64_t(i), " is ", like[i].dtype());
  }
  return out;
}

[[noreturn]] void independent(const char* op, const std::string& what, const Tensor& x, size_t k) {
  fail(ErrorKind::autograd, op, "strict: ", what, " does not depend on input ", int64_t(k), " ",
       x.sizes(), ", so its derivative is zero; leave that input out, or do without strict");
}

// Cotangents of the leaves; zeros, or an error if strict, where nothing comes.
Tensors pull(const char* op, const char* what, const Tensors& outputs, const Tensors& leaves,
             const Tensors& v, bool graph, bool strict) {
  Tensors roots, seeds, g(leaves.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].requires_grad()) {
      roots.push_back(outputs[i]);
      seeds.push_back(v[i]);
    } else if (strict) {
      fail(ErrorKind::autograd, op, "strict: ", what, " ", int64_t(i), " ", outputs[i].sizes(),
           " does not depend on any input, so its derivative is zero");
    }
  }
  if (!roots.empty())
    g = gradus::grad(roots, leaves, seeds,
                     {.retain_graph = true, .create_graph = graph, .allow_unused = true});
  for (size_t k = 0; k < g.size(); ++k) {
    if (g[k].defined()) continue;
    if (strict) independent(op, what, leaves[k], k);
    g[k] = zeros_like(leaves[k]);
  }
  return g;
}

// Is there something in the history of t that is neither one of the leaves nor made since `start`?
bool leads_beyond(const Tensors& tensors, const Tensors& leaves, uint64_t start) {
  std::unordered_set<const GradFn*> seen;
  std::vector<const GradFn*> open;
  const auto beyond = [&](const GradFn* fn, const Autograd* leaf) {
    if (fn && seen.insert(fn).second) open.push_back(fn);
    return fn ? fn->sequence() < start
              : leaf && std::none_of(leaves.begin(), leaves.end(),
                                     [&](const Tensor& x) { return &autograd_of(x) == leaf; });
  };
  for (const Tensor& t : tensors)
    if (t.requires_grad() && beyond(t.grad_fn(), &autograd_of(t))) return true;
  while (!open.empty()) {
    const GradFn& fn = *open.back();
    open.pop_back();
    for (const Edge& e : fn.inputs())
      if (beyond(e.fn.get(), e.leaf.get())) return true;
  }
  return false;
}

// A function that was evaluated, ready to be pulled back.
struct Pulled {
  Tensors leaves;
  bool graph;                        // is the walk back recorded?
  bool captured = false;             // only since f captured what has history
  uint64_t start = next_sequence();  // nodes before it are from outside of f
  Tensors outputs = {};

  void run(const char* op, const Function& f, const Tensors& in, const Options& o) {
    outputs = evaluate(op, f, in);
    captured = !graph && !o.create_graph && grad_enabled() && leads_beyond(outputs, leaves, start);
    graph = graph || captured;
  }
  // What the transform gives: history only where it leads on, past the leaves.
  Tensors released(const Tensors& tensors) const {
    if (captured) return func::released(tensors, leaves, start);
    Tensors out;
    for (const Tensor& t : tensors)
      out.push_back(graph || !t.requires_grad() ? t : without_history(t));
    return out;
  }
};
Pulled prepare(const char* op, const Function& f, const Tensors& inputs, const Options& o) {
  const bool graph = wants_graph(o, inputs);
  Pulled p{own_inputs(op, inputs, graph), graph};
  track(p.leaves);
  p.run(op, f, p.leaves, o);
  return p;
}

Vjp vjp_of(const char* op, const char* what, const Function& f, const Tensors& inputs,
           const Options& o) {
  const Pulled p = prepare(op, f, inputs, o);
  return {p.released(p.outputs), [=](const Tensors& v) {
            const Tensors seeds = checked_v(op, what, p.outputs, v);
            const Tensors g =
                pull(op, what, p.outputs, p.leaves, seeds, p.graph || wants_graph(o, v), o.strict);
            return p.captured ? p.released(g) : g;
          }};
}

// A jvp by two vjps: u -> vjp(f, x)(u) is linear, and its pullback at v is the tangent. These are
// ops like any other, so they carry the tangents of the jvp around them.
Jvp pull_twice(const char* op, const Function& f, const Tensors& inputs, const Tensors& v,
               const Options& o) {
  Pulled p = prepare(op, f, inputs, {.create_graph = true});
  Tensors seeds, u, tangents;
  for (const Tensor& y : p.outputs) {
    seeds.push_back(y.requires_grad() ? lifted(zeros_like(y)).set_requires_grad() : Tensor());
    if (seeds.back().defined()) u.push_back(seeds.back());
  }
  const Tensors g = pull(op, "output", p.outputs, p.leaves, seeds, true, false);
  const Tensors t = checked_v(op, "input", p.leaves, v);
  const Tensors pulled = u.empty() ? u : pull(op, "the pullback", g, u, t, true, false);
  for (auto next = pulled.begin(); const Tensor& s : seeds)
    tangents.push_back(s.defined() ? *next++ : Tensor());
  p.leaves.insert(p.leaves.end(), u.begin(), u.end());
  p.captured = p.graph = o.create_graph.value_or(grad_enabled());  // of what has history, if any
  return {p.released(p.outputs), p.released(tangents)};
}

// Tangents are undefined where an output has none.
Jvp push(const char* op, const Function& f, const Tensors& inputs, const Tensors& v,
         const Options& o) {
  if (forward_mode()) return pull_twice(op, f, inputs, v, o);  // tangents have one level
  const bool graph = o.create_graph.value_or(grad_enabled());  // of what has history, if any
  const Tensors own = own_inputs(op, inputs, graph);
  const Tensors t = checked_v(op, "input", own, v);
  const Recording recording(graph);
  ForwardLevel level;
  for (size_t k = 0; k < own.size(); ++k) level.set_tangent(own[k], lifted(t[k]));
  Jvp out{f(own), {}};
  for (const Tensor& y : out.outputs) {
    if (!y.defined()) fail(ErrorKind::value, op, "an output is undefined");
    out.tangents.push_back(y.tangent());
  }
  return out;
}

Options all_inputs(const Tensors& inputs, const Options& o) {
  Options all;
  all.argnums.clear();
  for (size_t k = 0; k < inputs.size(); ++k) all.argnums.push_back(int64_t(k));
  all.strict = o.strict;
  return all;
}

int64_t count(const Tensors& tensors) {
  int64_t n = 0;
  for (const Tensor& t : tensors) n += t.numel();
  return n;
}
Shape block_shape(const Tensor& y, const Tensor& x) {
  Shape sizes = y.sizes();
  for (int64_t n : x.sizes()) sizes.push_back(n);
  return sizes;
}
Tensor identity(int64_t n, DType dtype, Device& device) {
  const Tensor ones = Tensor::full({n}, 1.0, dtype, device);
  return get_op("embed").call(Tensors{ones}, {Ints{n, n}, Ints{n + 1}, int64_t(0)})[0];
}
// f on each index of the inputs' first axis: all at once, or one after another.
Tensors over_rows(const Function& f, const Tensors& rows, bool vectorize) {
  if (vectorize) return vmap(f, {}, {}, Randomness::same)(rows);
  std::vector<Tensors> parts;
  for (int64_t b = 0; b < rows[0].size(0); ++b) {
    Tensors one;
    for (const Tensor& r : rows) one.push_back(select(r, 0, b));
    const Tensors y = f(one);
    parts.resize(y.size());
    for (size_t i = 0; i < y.size(); ++i) parts[i].push_back(y[i]);
  }
  Tensors out;
  for (const Tensors& p : parts) out.push_back(stack(p, 0));
  return out;
}

void check_fields(const char* op, const Tensors& inputs, const Tensors& outputs, const Options& o) {
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!is_floating(outputs[i].dtype()))
      fail(ErrorKind::dtype, op, "output ", int64_t(i), " is ", outputs[i].dtype(),
           ", which has no derivative");
  for (const Tensors* list : {&inputs, &outputs})
    for (size_t k = 0; k < list->size(); ++k) {
      const DType dtype = (*list)[k].dtype();
      const char* name = list == &inputs ? "input " : "output ";
      if (list == &inputs && is_complex(dtype) && !o.holomorphic)
        fail(ErrorKind::dtype, op, name, int64_t(k), " is ", dtype,
             ": a complex function has a Jacobian only where it is holomorphic; say so with "
             "holomorphic, or take real and imaginary parts as inputs");
      if (o.holomorphic && !is_complex(dtype))
        fail(ErrorKind::dtype, op, name, int64_t(k), " is ", dtype,
             "; holomorphic takes complex inputs and outputs");
    }
}

// A row per element of the outputs.
Blocks by_rows(const char* op, const char* what, const Pulled& p, const Options& o) {
  Blocks blocks;
  for (const Tensor& y : p.outputs) {
    const int64_t n = y.numel();
    Tensors rows;
    if (n > 0) {
      Shape sizes = y.sizes();
      sizes.insert(0, n);
      const Function pullback = [&](const Tensors& e) {
        return pull(op, what, {y}, p.leaves, e, p.graph, o.strict);
      };
      rows = over_rows(pullback, {reshape(identity(n, y.dtype(), y.device()), sizes)}, o.vectorize);
    }
    Tensors block;
    for (size_t k = 0; k < p.leaves.size(); ++k) {
      const Shape sizes = block_shape(y, p.leaves[k]);
      if (n == 0)
        block.push_back(Tensor::zeros(sizes, y.dtype(), y.device()));
      else  // a cotangent is the conjugate of the derivative
        block.push_back(reshape(conj(rows[k]), sizes));
    }
    blocks.push_back(block);
  }
  return blocks;
}

// A column per element of the inputs; `y` are the outputs, for their shapes.
Blocks by_columns(const char* op, const Function& f, const Tensors& inputs, const Tensors& y,
                  const Options& o) {
  const int64_t n = count(inputs);
  Tensors bases, columns;
  int64_t start = 0;
  for (const Tensor& x : inputs) {
    Shape sizes = x.sizes();
    sizes.insert(0, n);
    const Tensor part = slice(identity(n, x.dtype(), x.device()), 1, start, start + x.numel());
    bases.push_back(reshape(part, sizes));
    start += x.numel();
  }
  if (n > 0)
    columns = over_rows(
        [&](const Tensors& e) {
          Jvp r = push(op, f, inputs, e, o);
          for (size_t i = 0; i < y.size(); ++i)
            if (!r.tangents[i].defined()) r.tangents[i] = zeros_like(r.outputs[i]);
          return r.tangents;
        },
        bases, o.vectorize);
  Blocks blocks;
  for (size_t i = 0; i < y.size(); ++i) {
    Tensors block;
    start = 0;
    for (const Tensor& x : inputs) {
      const Shape sizes = block_shape(y[i], x);
      if (x.numel() == 0) {
        block.push_back(Tensor::zeros(sizes, y[i].dtype(), y[i].device()));
        continue;
      }
      Ints order;
      for (int64_t d = 1; d <= y[i].rank(); ++d) order.push_back(d);
      order.push_back(0);
      const Tensor own = slice(columns[i], 0, start, start + x.numel());
      block.push_back(reshape(permute(own, order), sizes));
      start += x.numel();
    }
    blocks.push_back(block);
  }
  return blocks;
}

Blocks jacobian_of(const char* op, const char* what, const Function& f, const Tensors& inputs,
                   const Options& o) {
  if (o.strict && o.mode == Mode::forward)
    fail(ErrorKind::value, op, "strict needs the graph; take mode reverse or automatic");
  const Pulled p = prepare(op, f, inputs, o);
  check_fields(op, inputs, p.outputs, o);
  // Cotangents of real inputs are real: they would lose the imaginary part.
  const bool to_complex =
      !o.holomorphic && std::any_of(p.outputs.begin(), p.outputs.end(),
                                    [](auto& y) { return is_complex(y.dtype()); });
  if (to_complex && o.mode == Mode::reverse)
    fail(ErrorKind::dtype, op, "complex outputs of real inputs need mode forward");
  const bool fewer_columns = count(inputs) < count(p.outputs) && !o.strict && !forward_mode();
  const bool forward =
      o.mode == Mode::forward || (o.mode == Mode::automatic && (to_complex || fewer_columns));
  if (forward) return by_columns(op, f, inputs, p.outputs, o);
  Blocks blocks = by_rows(op, what, p, o);
  for (Tensors& row : blocks) row = p.released(row);
  return blocks;
}

}  // namespace

Tensors released(const Tensors& tensors, const Tensors& leaves, uint64_t start) {
  Tensors out;
  for (const Tensor& t : tensors) {
    const bool own = t.requires_grad() && !leads_beyond({t}, leaves, start);
    out.push_back(own ? without_history(t) : t);
  }
  return out;
}

ValueAndGrad value_and_grad(const Function& f, const Tensors& inputs, const Options& o) {
  const char* op = "grad";
  if (inputs.empty()) fail(ErrorKind::value, op, "got no inputs");
  if (o.argnums.empty()) fail(ErrorKind::value, op, "argnums is empty");
  Pulled p{{}, wants_graph(o, inputs)};
  Tensors in = inputs;
  for (int64_t n : o.argnums) {
    const int64_t last = int64_t(inputs.size());
    if (n < -last || n >= last)
      fail(ErrorKind::index, op, "argnum ", n, " of a function of ", last, " inputs");
    const size_t k = size_t(n < 0 ? n + last : n);
    if (!in[k].same_body(inputs[k])) fail(ErrorKind::value, op, "argnum ", n, " is given twice");
    p.leaves.push_back(in[k] = own_input(op, inputs, k, p.graph));
  }
  track(p.leaves);
  p.run(op, f, in, o);
  const Tensors& y = p.outputs;
  if (y.size() != 1 || y[0].numel() != 1 || !is_real_float(y[0].dtype()))
    fail(
        ErrorKind::value, op, "the function must give one tensor of one real number, it gave ",
        y.size() == 1 ? join(y[0].dtype(), " ", y[0].sizes()) : join(int64_t(y.size()), " tensors"),
        "; use vjp or jacobian");
  const Tensor one = Tensor::full(y[0].sizes(), 1.0, y[0].dtype(), y[0].device());
  const Tensors grads = pull(op, "the output", y, p.leaves, {one}, p.graph, o.strict);
  return {p.released(y)[0], p.released(grads)};
}

Tensors grad(const Function& f, const Tensors& inputs, const Options& options) {
  return value_and_grad(f, inputs, options).grads;
}

Vjp vjp(const Function& f, const Tensors& inputs, const Options& options) {
  return vjp_of("vjp", "output", f, inputs, options);
}

Jvp jvp(const Function& f, const Tensors& inputs, const Tensors& v, const Options& o) {
  Jvp r = push("jvp", f, inputs, v, o);
  for (size_t i = 0; i < r.tangents.size(); ++i) {
    if (r.tangents[i].defined()) continue;
    if (o.strict)
      fail(ErrorKind::autograd, "jvp", "strict: output ", int64_t(i), " ", r.outputs[i].sizes(),
           " does not depend on any input, so its derivative is zero");
    r.tangents[i] = zeros_like(r.outputs[i]);
  }
  return r;
}

Product hvp(const Function& f, const Tensors& inputs, const Tensors& v, const Options& o) {
  const Options inner = all_inputs(inputs, o);
  const Function slope = [&](const Tensors& in) {
    ValueAndGrad r = value_and_grad(f, in, inner);
    r.grads.push_back(r.value);
    return r.grads;
  };
  Jvp r = push("hvp", slope, inputs, v, o);
  Product out{r.outputs.back(), {}};
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (o.strict && !r.tangents[k].defined()) independent("hvp", "the gradient", inputs[k], k);
    out.product.push_back(r.tangents[k].defined() ? r.tangents[k] : zeros_like(r.outputs[k]));
  }
  return out;
}

Product vhp(const Function& f, const Tensors& inputs, const Tensors& v, const Options& o) {
  const Options inner = all_inputs(inputs, o);
  Tensor value;
  const Function slope = [&](const Tensors& in) {
    ValueAndGrad r = value_and_grad(f, in, inner);
    value = r.value;
    return r.grads;
  };
  const Pulled p = prepare("vhp", slope, inputs, o);
  const bool graph = p.graph || wants_graph(o, v);
  const Tensors seeds = checked_v("vhp", "input", p.leaves, v);
  const Tensors product = pull("vhp", "the gradient", p.outputs, p.leaves, seeds, graph, o.strict);
  return {p.released({value})[0], p.captured ? p.released(product) : product};
}

Blocks jacobian(const Function& f, const Tensors& inputs, const Options& options) {
  return jacobian_of("jacobian", "the output", f, inputs, options);
}

// Reverse over reverse: the gradient is recorded once, then pulled back for all rows at once.
Blocks hessian(const Function& f, const Tensors& inputs, const Options& o) {
  const Options inner = all_inputs(inputs, o);
  Options outer = o;
  if (o.mode == Mode::automatic) outer.mode = Mode::reverse;
  return jacobian_of(
      "hessian", "the gradient", [&](const Tensors& in) { return grad(f, in, inner); }, inputs,
      outer);
}

}  // namespace gradus::func
