// The audit finds what is planted and accuses nothing else: wrong derivatives in random graphs, a
// value that went stale. Badly conditioned nodes that are right stay clean.
#include "ops/audit/judge/audit.hpp"
#include "ops/base/checkpoint.hpp"
#include "ops/transforms/func.hpp"
#include "ops/shape/in_place.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <algorithm>
#include <random>
#include <set>

using namespace gradus;
using namespace gradus::audit;
using gradus::testing::f32;
using gradus::testing::f64;
using gradus::testing::leaf;

namespace {

// ---- ops with wrong derivatives; not registered, so that nobody else meets them

OpInfo wrong_op(const char* name, void (*forward)(OpContext&),
                Tensor (*vjp)(GradFn&, size_t, std::span<const Tensor>),
                Tensor (*jvp)(GradFn&, size_t, std::span<const Tensor>) = nullptr) {
  OpInfo op;
  op.name = name;
  op.operands = {{"a"}, {"b"}};
  op.user = true;
  op.forward = forward;
  op.vjp = vjp;
  op.jvp = jvp;
  return op;
}
void multiply(OpContext& ctx) {
  ctx.outputs.push_back(mul(ctx.inputs[0], ctx.inputs[1]));
  ctx.save_input(0);
  ctx.save_input(1);
}
const OpInfo& wrong_sign() {
  static const OpInfo op = wrong_op(
      "wrong_sign", multiply,
      [](GradFn& n, size_t k, std::span<const Tensor> g) {
        return k == 0 ? mul(g[0], n.input(1)) : neg(mul(g[0], n.input(0)));
      },
      [](GradFn& n, size_t, std::span<const Tensor> t) {
        const Tensor a = t[0].defined() ? mul(t[0], n.input(1)) : Tensor();
        const Tensor b = t[1].defined() ? neg(mul(n.input(0), t[1])) : Tensor();
        return !a.defined() ? b : !b.defined() ? a : add(a, b);
      });
  return op;
}
const OpInfo& wrong_factor() {
  static const OpInfo op = wrong_op(
      "wrong_factor",
      [](OpContext& ctx) {
        ctx.outputs.push_back(sin(ctx.inputs[0]));
        ctx.save_input(0);
      },
      [](GradFn& n, size_t, std::span<const Tensor> g) {
        return mul(mul(g[0], cos(n.input(0))), 1.01);
      });
  return op;
}
// b is broadcast along the rows; its cotangent is that of the first row instead of their sum.
const OpInfo& missing_sum() {
  static const OpInfo op = wrong_op(
      "missing_sum",
      [](OpContext& ctx) { ctx.outputs.push_back(add(ctx.inputs[0], ctx.inputs[1])); },
      [](GradFn&, size_t k, std::span<const Tensor> g) {
        return k == 0 ? g[0] : select(g[0], 0, 0);
      });
  return op;
}
const OpInfo& swapped() {
  static const OpInfo op = wrong_op(
      "swapped", multiply,
      [](GradFn& n, size_t k, std::span<const Tensor> g) { return mul(g[0], n.input(k)); });
  return op;
}

// ---- random graphs

struct Planted {
  Tensor root;
  std::set<const GradFn*> wrong;
};

class Graph {
 public:
  explicit Graph(unsigned seed) : random_(seed), dtype_(seed % 2 ? DType::f32 : DType::f64) {
    for (int i = 0; i < 4; ++i) pool_.push_back(drawn({4, 4}));
  }
  Planted build(const Watch& watch, size_t nodes) {
    std::vector<size_t> places;  // of the plants, by the number of nodes before them
    for (size_t i = 0; i < 5; ++i) places.push_back(nodes * (i + 1) / 6);
    Planted out;
    while (count(watch) < nodes) {
      if (planted_ < 5 && count(watch) >= places[planted_])
        out.wrong.insert(plant());
      else
        step();
    }
    REQUIRE(planted_ == 5);
    out.root = sum(pool_[0]);
    for (size_t i = 1; i < pool_.size(); ++i) out.root = add(out.root, sum(pool_[i]));
    return out;
  }

 private:
  static size_t count(const Watch& watch) {
    size_t n = 0;
    for (const Call& c : watch.calls()) n += bool(c.node);
    return n;
  }
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  Tensor drawn(const Shape& sizes) {
    std::vector<double> v(size_t(numel_of(sizes)));
    for (double& x : v) x = std::uniform_real_distribution<double>(-1.5, 1.5)(random_);
    return leaf(cast(Tensor::from(v, sizes), dtype_));
  }
  const Tensor& any() { return pool_[below(pool_.size())]; }
  void put(const Tensor& t) {
    if (pool_.size() < 8)
      pool_.push_back(t);
    else
      pool_[below(pool_.size())] = t;
  }
  void step() {
    const Tensor a = any(), b = any();
    switch (below(18)) {
      case 0:
        return put(add(a, drawn({4})));
      case 1:
        return put(mul(a, drawn({4, 1})));
      case 2:
        return put(sub(a, b));
      case 3:
        return put(tanh(mul(a, b)));
      case 4:
        return put(div(a, add(square(b), 0.5)));
      case 5:
        return put(tanh(matmul(a, b)));
      case 6:
        return put(relu(a));
      case 7:
        return put(softmax(a, 1));
      case 8:
        return put(transpose(a, 0, 1));
      case 9:
        return put(mul(sum(a, {0}, true), b.defined() ? sigmoid(b) : b));
      case 10:
        return put(maximum(a, b));
      case 11:
        return put(tanh(cumsum(a, 0)));
      case 12:
        return put(log(add(abs(a), 0.5)));
      case 13:
        return put(add(amax(a, {1}, true), b));
      case 14:
        return put(reshape(flip(a, {1}), {4, 4}));
      case 15:
        return put(cat({slice(a, 0, 0, 2), slice(b, 0, 2, 4)}, 0));
      case 16:
        return put(log_softmax(a, 0));
      default:
        return put(tanh(a));
    }
  }
  const GradFn* plant() {
    const Tensor a = sigmoid(any()), b = drawn({4, 4});
    Tensor y;
    switch (planted_++) {
      case 0:
        y = apply1(wrong_sign(), {a, b});
        break;
      case 1:
        y = apply1(wrong_factor(), {a});
        break;
      case 2:
        y = apply1(missing_sum(), {a, drawn({4})});
        break;
      case 3:
        y = apply1(swapped(), {a, b});
        break;
      default:
        y = mul(a, sigmoid(b));
        Tensor other = mul(b, 2.0);
        y = mul(y, other);
        const NoGrad off;
        add_(other, 1.0);
    }
    put(tanh(y));
    return y.grad_fn();
  }

  std::mt19937 random_;
  DType dtype_;
  Tensors pool_;
  size_t planted_ = 0;
};

std::string told(const Report& report) {
  std::string s;
  for (const Line& l : report.lines)
    if (l.bad() || l.verdict != Verdict::ok)
      s += join("\n", to_text(l.verdict), " ", l.call->op->name, " ", l.call->shapes(), " ",
                l.error, " of ", l.tolerance, ": ", l.text);
  return s;
}
const Line& line_of(const Report& report, const std::string& op) {
  const auto it = std::find_if(report.lines.begin(), report.lines.end(),
                               [&](const Line& l) { return l.call->op->name == op; });
  REQUIRE(it != report.lines.end());
  return *it;
}

}  // namespace

TEST_CASE("audit: five wrong derivatives in random graphs, and no other node is accused") {
  const unsigned graphs = test::small_sizes() ? 5 : 50;
  for (unsigned seed = 1; seed <= graphs; ++seed) {
    INFO("graph " << seed);
    const Watch watch;
    const Planted graph = Graph(seed).build(watch, 200);
    const Report report = audit::audit(watch, {graph.root});
    std::set<const GradFn*> accused;
    size_t told_nothing = 0;
    for (const Line& l : report.lines) {
      if (l.bad()) accused.insert(l.call->node.get());
      told_nothing += l.verdict == Verdict::unknown || l.verdict == Verdict::kink;
    }
    std::set<const GradFn*> wrong;  // a plant may have fallen out of the graph
    for (const Call* c : watch.below({graph.root}))
      if (graph.wrong.contains(c->node.get())) wrong.insert(c->node.get());
    INFO(told(report));
    CHECK(accused == wrong);
    CHECK(told_nothing == 0);
    // All that ran, in the graph of the root or not.
    std::set<const GradFn*> all;
    const Report whole = audit::audit(watch);
    for (const Line& l : whole.lines)
      if (l.bad()) all.insert(l.call->node.get());
    INFO(told(whole));
    CHECK(all == graph.wrong);
  }
}

TEST_CASE("audit: right nodes that are badly conditioned stay clean") {
  const double tiny = 1e-7;
  for (const DType t : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    INFO(dtype_name(t));
    const auto in = [&](std::initializer_list<double> v, const Shape& sizes) {
      return leaf(cast(f64(v, sizes), t));
    };
    const Watch watch;
    const Tensor large = in({900, -1000, 0, 901, 5, 900}, {2, 3});
    softmax(large, 1);
    log_softmax(large, 1);
    logsumexp(large, {1});
    const Tensor near = in({1, 1 + tiny, 1 - tiny, 1000, 1000.001, 999.999}, {2, 3});
    const Tensor one = in({1, 1, 1, 1000, 1000, 1000}, {2, 3});
    const Tensor rest = sub(near, one);
    div(rest, add(abs(rest), tiny));
    layer_norm(near, {3});
    var(near, {1});
    prod(near, {1});
    const Tensor zeros = in({0, 0, 0, 0, 1, -1}, {2, 3});
    relu(zeros);
    abs(zeros);
    maximum(zeros, relu(zeros));
    amax(relu(zeros), {1});
    amax(one, {1});
    sqrt(abs(zeros));
    log(abs(zeros));
    norm(zeros, 2, {1});
    pow(zeros, 2.0);
    pow(zeros, 0.5);
    tanh(in({0, 8, -9, 20, 100, 3}, {6}));
    sigmoid(in({0, 18, -40, 100, -100, 3}, {6}));
    exp(in({-200, -80, 10, 0, -1000, 1}, {6}));
    sin(in({1e4, -3e4, 100, 0, 1, 2}, {6}));
    reciprocal(in({1e-4, 1e4, 3, -1e-3, 7, 1}, {6}));
    const Report report = audit::audit(watch);
    INFO(told(report));
    CHECK(report.bad == 0);
    CHECK(report.lines.size() > 25);
  }
}

TEST_CASE("audit: how badly a node is conditioned") {
  const auto condition = [](const std::function<Tensor(const Tensor&)>& f, double at,
                            const char* op) {
    const Watch watch;
    const Tensor x = leaf(f32({float(at), float(at) / 2}, {2}));
    const Report report = audit::audit(watch, {sum(f(x))});
    CHECK(report.bad == 0);
    return line_of(report, op).condition;
  };
  CHECK(condition([](const Tensor& x) { return x; }, 3, "sum") == doctest::Approx(1).epsilon(1e-6));
  CHECK(condition([](const Tensor& x) { return exp(x); }, 0.5, "exp") < 4);
  const double product = condition([](const Tensor& x) { return x * x; }, 3, "mul");
  CHECK(product > 1.5);
  CHECK(product < 3.01);  // the cotangent and both operands are a unit off
  // d/dx tanh = 1 - y^2: a unit of y is half of all that is left of it at y = 1 - 2^-12.
  CHECK(condition([](const Tensor& x) { return tanh(x * 2.0); }, 4.5, "tanh") > 100);
  CHECK(condition([](const Tensor& x) { return pow(x, 40.0); }, 1.5, "pow") > 10);
}

TEST_CASE("audit: complex nodes, several outputs, integers among the operands") {
  const Watch watch;
  const Tensor z = leaf(Tensor::from(std::vector<c128>{{1, 0.25}, {-2, 3}, {0.5, -1}}, {3}));
  sum(mul(abs(mul(exp(z), conj(z))), f64({1, 2, 3}, {3})));
  const Tensor x = leaf(f64({1, 5, 2, 4, 3, 0}, {2, 3}));
  gather(x, 1, testing::i64({2, 0, 1, 1}, {2, 2}));
  cast(x, DType::f32);
  const Report report = audit::audit(watch);
  INFO(told(report));
  CHECK(report.bad == 0);
  for (const Line& l : report.lines) CHECK(l.verdict == Verdict::ok);
}

TEST_CASE("audit: the worst element, by index and with both values") {
  const Watch watch;
  const Tensor a = leaf(f64({1, 2, 3, 4}, {2, 2})), b = leaf(f64({5, 6, 7, 8}, {2, 2}));
  const Tensor y = sum(apply1(wrong_sign(), {a, b}));
  const Report report = audit::audit(watch, {y});
  CHECK(report.bad == 1);
  const Line& l = report.lines[0];
  CHECK(l.call->op->name == "wrong_sign");
  CHECK(l.verdict == Verdict::differences);
  CHECK(l.text.starts_with("operand 1 (b) element ("));
  CHECK(l.text.find(": vjp ") != std::string::npos);
  CHECK(l.text.find(", differences ") != std::string::npos);
  CHECK(line_of(report, "sum").verdict == Verdict::ok);
}

TEST_CASE("audit: what each check finds") {
  static const OpInfo shape =
      wrong_op("wrong_shape", multiply,
               [](GradFn&, size_t, std::span<const Tensor> g) { return sum(g[0], {1}); });
  static const OpInfo type =
      wrong_op("wrong_dtype", multiply, [](GradFn& n, size_t k, std::span<const Tensor> g) {
        return cast(mul(g[0], n.input(1 - k)), DType::f32);
      });
  static const OpInfo dot = wrong_op(
      "wrong_jvp", multiply,
      [](GradFn& n, size_t k, std::span<const Tensor> g) { return mul(g[0], n.input(1 - k)); },
      [](GradFn& n, size_t, std::span<const Tensor> t) {
        return t[0].defined() ? mul(t[0], n.input(0)) : mul(t[1], n.input(1));
      });
  static int runs = 0;
  static const OpInfo moody = wrong_op(
      "moody",
      [](OpContext& ctx) {
        ctx.outputs.push_back(add(add(ctx.inputs[0], ctx.inputs[1]), double(runs++)));
      },
      [](GradFn&, size_t, std::span<const Tensor> g) { return g[0]; });
  static const OpInfo throws =
      wrong_op("throws", multiply, [](GradFn&, size_t, std::span<const Tensor>) -> Tensor {
        fail(ErrorKind::value, "throws", "no");
      });
  // NaN where the slope is a number; at 0 that of sqrt is infinite, and right.
  static const OpInfo nan =
      wrong_op("nan_at_three", multiply, [](GradFn& n, size_t k, std::span<const Tensor> g) {
        const Tensor& x = n.input(1 - k);
        return mul(g[0], where(eq(x, 3.0), NAN, x));
      });
  {
    const Watch watch;
    const Tensor a = leaf(f64({1, 2, 3, 0}, {2, 2})), b = leaf(f64({5, 6, 7, 8}, {2, 2}));
    apply1(nan, {a, b});
    sqrt(a);
    const Report r = audit::audit(watch);
    CHECK(r.bad == 1);
    CHECK(line_of(r, "nan_at_three").verdict == Verdict::differences);
    CHECK(line_of(r, "nan_at_three")
              .text.starts_with("operand 1 (b) element (1, 0): vjp nan, differences of all outputs "
                                "add up to 3"));
  }
  const Watch watch;
  const Tensor a = leaf(f64({1, 2, 3, 4}, {2, 2})), b = leaf(f64({5, 6, 7, 8}, {2, 2}));
  for (const OpInfo* op : {&shape, &type, &dot, &moody, &throws}) apply1(*op, {a, b});
  const Tensor stale = mul(a, b);
  const Report before = audit::audit(watch);
  CHECK(before.bad == 5);
  CHECK(line_of(before, "wrong_shape").verdict == Verdict::shape);
  CHECK(line_of(before, "wrong_dtype").verdict == Verdict::shape);
  CHECK(line_of(before, "wrong_jvp").verdict == Verdict::dot);
  CHECK(line_of(before, "moody").verdict == Verdict::repeat);
  CHECK(line_of(before, "throws").verdict == Verdict::error);
  CHECK(line_of(before, "throws").text == "throws: no");
  CHECK(line_of(before, "mul").verdict == Verdict::ok);
  {
    const NoGrad off;
    exp_(b);
  }
  const Report after = audit::audit(watch, {stale});
  const Line& l = line_of(after, "mul");
  CHECK(l.verdict == Verdict::stale);
  CHECK(l.text == "saved input 1 (2, 2) was changed by exp_ (version 0 -> 1)");
}

TEST_CASE("audit: a vjp that gives other bits each time") {
  static int calls = 0;
  static const OpInfo op =
      wrong_op("restless", multiply, [](GradFn& n, size_t k, std::span<const Tensor> g) {
        return mul(mul(g[0], n.input(1 - k)), 1 + 1e-15 * (++calls % 7));
      });
  const Watch watch;
  const Tensor a = leaf(f64({1, 2, 3, 4}, {2, 2})), b = leaf(f64({5, 6, 7, 8}, {2, 2}));
  const Report report = audit::audit(watch, {sum(apply1(op, {a, b}))});
  CHECK(report.bad == 1);
  const Line& l = line_of(report, "restless");
  CHECK(l.verdict == Verdict::repeat);
  CHECK(l.text == "its vjp gives operand 0 a cotangent of other bits when it runs again");
}

// As small an error as the differences can tell is told, whatever the dtype of the graph.
TEST_CASE("audit: a slope that is wrong in its seventh digit") {
  static const OpInfo op =
      wrong_op("nearly", multiply, [](GradFn& n, size_t k, std::span<const Tensor> g) {
        return mul(mul(g[0], n.input(1 - k)), 1 + 5e-7);
      });
  for (const DType t : {DType::f32, DType::f64}) {
    const Watch watch;
    const Tensor a = leaf(cast(f64({1, 2, 3, 4}, {2, 2}), t));
    const Tensor b = leaf(cast(f64({5, 6, 7, 8}, {2, 2}), t));
    const Report report = audit::audit(watch, {sum(apply1(op, {a, b}))});
    CHECK(report.bad == 1);
    const Line& l = line_of(report, "nearly");
    CHECK(l.verdict == Verdict::differences);
    CHECK(l.error == doctest::Approx(5e-7).epsilon(0.5));
    CHECK(l.tolerance < 1e-7);
  }
}

TEST_CASE("audit: a saved value that was changed behind the version counter") {
  const Watch watch;
  const Tensor x = leaf(f32({0.5, 1, 2}, {3}));
  const Tensor y = exp(x), z = sin(x);
  for (const Saved& s : y.grad_fn()->saved())
    static_cast<float*>(s.tensor.storage().data())[1] += 1;
  const Report report = audit::audit(watch);
  CHECK(report.bad >= 1);
  CHECK(line_of(report, "exp").bad());
  CHECK(line_of(report, "sin").verdict == Verdict::ok);
}

TEST_CASE("audit: a freed graph, writes in place, and another device") {
  const Watch watch;
  const Tensor x = leaf(f32({0.5, -1, 2, 3}, {2, 2}));
  const Tensor y = mul(x, 2.0);
  mul_(y, sigmoid(x));
  add_(select(y, 0, 1), 3.0);
  const Tensor loss = sum(matmul(y, x));
  backward(loss);
  Options o;
  o.against = &open_device("reference");
  const Report report = audit::audit(watch, {loss}, o);
  INFO(told(report));
  CHECK(report.bad == 0);
  CHECK(report.lines.size() >= 5);
  CHECK(x.grad().defined());
}

TEST_CASE("audit: graphs made by vmap, by backward, by checkpoints, of modules") {
  const Watch watch;
  const Tensor x = leaf(f64({0.5, -1, 2, 3, 1, 0.25}, {3, 2}));
  const func::Function f = [](const Tensors& in) { return Tensors{sum(exp(sin(in[0])))}; };
  Tensor loss = sum(func::vmap(f)({x})[0]);
  const Tensor slope =
      grad({sum(mul(tanh(x), x))}, {x}, {}, {.create_graph = true, .allow_unused = false})[0];
  loss = add(loss, sum(square(slope)));
  loss = add(loss, checkpoint([](const Tensors& in) { return Tensors{sum(cos(in[0]))}; }, {x})[0]);
  backward(loss, {.retain_graph = true});
  const Report report = audit::audit(watch);
  INFO(told(report));
  CHECK(report.bad == 0);
  CHECK(report.lines.size() > 15);
  CHECK(!birth_in_backward(watch, {loss}));
}
