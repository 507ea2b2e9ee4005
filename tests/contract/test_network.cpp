// An einsum of many operands as one node: the same numbers as step by step, in value, cotangent,
// tangent and second order, whole and in slices, within the memory that it says.
#include "engine/forward.hpp"
#include "engine/random.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/contract/network.hpp"
#include "ops/contract/schedule.hpp"
#include "ops/transforms/func.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <random>
#include <set>

using namespace gradus;
using namespace gradus::testing;

namespace {

struct Net {
  std::vector<Labels> terms;
  Labels output;
  std::vector<Shape> shapes;
};

// Labels that several tensors share, that one alone has, that stand twice; extents of 1.
Net random_net(std::mt19937& random, int tensors, unsigned most = 3) {
  const int labels = tensors + 1;
  std::vector<int64_t> extents;
  for (int l = 0; l < labels; ++l) extents.push_back(1 + int64_t(random() % most));
  Net net;
  std::set<int64_t> used;
  for (int k = 0; k < tensors; ++k) {
    Labels& term = net.terms.emplace_back();
    Shape& shape = net.shapes.emplace_back();
    for (size_t rank = random() % 4; rank > 0; --rank) {
      const int l = int(random() % unsigned(labels));
      term.push_back(l);
      const bool seen = std::count(term.begin(), term.end(), term.back()) > 1;
      shape.push_back(!seen && random() % 8 == 0 ? 1 : extents[size_t(l)]);
      for (size_t i = 0; i + 1 < term.size(); ++i)  // a diagonal's axes are alike
        if (term[i] == term.back()) shape.back() = shape[i];
      used.insert(term.back());
    }
  }
  for (const int64_t l : used)
    if (random() % 4 == 0) net.output.push_back(l);
  return net;
}

// Small whole numbers, so that sums are exact in any order.
Tensor drawn(std::mt19937& random, const Shape& shape, DType dtype) {
  const auto n = size_t(numel_of(shape));
  std::vector<double> re(n), im(n);
  for (size_t i = 0; i < n; ++i)
    re[i] = double(int(random() % 5) - 2), im[i] = double(int(random() % 5) - 2);
  const Tensor x = Tensor::from(re, shape), y = Tensor::from(im, shape);
  if (!is_complex(dtype)) return cast(x, dtype);
  return add(cast(x, dtype), mul(cast(y, dtype), Tensor::full({}, {0, 1}, dtype)));
}
Tensors drawn(std::mt19937& random, const Net& net, DType dtype) {
  Tensors operands;
  for (const Shape& shape : net.shapes) operands.push_back(drawn(random, shape, dtype));
  return operands;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         (a.numel() == 0 || all(eq(a, b)).item() == 1);
}

struct NetDerivatives {
  Tensor value, tangent;
  Tensors grads, second;
};
NetDerivatives derivatives(const EinsumPlan& plan, const Tensors& operands, const Tensors& tangents,
                           const Tensor& seed) {
  NetDerivatives d;
  {
    ForwardLevel level;
    Tensors dual;
    for (size_t k = 0; k < operands.size(); ++k) {
      dual.push_back(operands[k].detach());
      level.set_tangent(dual[k], tangents[k]);
    }
    d.tangent = einsum(plan, dual).tangent().detach();
  }
  Tensors leaves;
  for (const Tensor& x : operands) leaves.push_back(x.detach().set_requires_grad());
  const Tensor y = einsum(plan, leaves);
  d.value = y.detach();
  BackwardOptions options;
  options.materialize_grads = true;
  d.grads = grad({y}, leaves, {seed}, options);
  options.create_graph = true;
  const Tensors first = grad({einsum(plan, leaves)}, leaves, {seed}, options);
  options.create_graph = false;
  options.allow_unused = true;
  Tensors roots, seeds;
  for (size_t k = 0; k < first.size(); ++k)
    if (first[k].requires_grad()) roots.push_back(first[k]), seeds.push_back(tangents[k]);
  if (!roots.empty()) d.second = grad(roots, leaves, seeds, options);
  return d;
}
void check_equal(const NetDerivatives& a, const NetDerivatives& b) {
  CHECK(equal(a.value, b.value));
  CHECK(equal(a.tangent, b.tangent));
  REQUIRE(a.grads.size() == b.grads.size());
  for (size_t k = 0; k < a.grads.size(); ++k)
    CHECK_MESSAGE(equal(a.grads[k], b.grads[k]), "operand ", k);
  REQUIRE(a.second.size() == b.second.size());
  for (size_t k = 0; k < a.second.size(); ++k)
    CHECK_MESSAGE(equal(a.second[k], b.second[k]), "second order, operand ", k);
}

}  // namespace

TEST_CASE("network: value, cotangents, tangents and second order are those of the steps") {
  for (uint32_t seed = 0; seed < (test::small_sizes() ? 60u : 400u); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    // Large ones now and then: their values' labels are put in another order.
    const Net net = random_net(random, 3 + int(random() % 5), seed % 10 ? 3 : 8);
    const DType dtype = random() % 2 ? DType::f64 : DType::c128;
    const EinsumPlan plan = plan_einsum(net.terms, net.output, net.shapes);
    CAPTURE(plan.equation);
    const Tensors operands = drawn(random, net, dtype), tangents = drawn(random, net, dtype);
    Shape sizes;
    for (const int64_t l : plan.output) sizes.push_back(plan.sizes.at(l));
    const Tensor g = drawn(random, sizes, dtype);
    const NetDerivatives steps = [&] {
      const EinsumBySteps apart;
      return derivatives(plan, operands, tangents, g);
    }();
    check_equal(derivatives(plan, operands, tangents, g), steps);

    // In slices: of any labels that the output lacks.
    EinsumPlan sliced = plan;
    for (const auto& [label, extent] : plan.sizes)
      if (extent > 1 && random() % 3 == 0 &&
          std::find(plan.output.begin(), plan.output.end(), label) == plan.output.end()) {
        sliced.sliced.push_back(label);
        sliced.slices *= double(extent);
      }
    if (sliced.sliced.empty()) continue;
    check_equal(derivatives(sliced, operands, tangents, g), steps);
    const EinsumBySteps apart;
    CHECK(equal(einsum(sliced, operands), steps.value));
  }
}

TEST_CASE("network: integers, half floats, views of any strides") {
  std::mt19937 random(3);
  const Shape shape{3, 3};
  for (const DType dtype :
       {DType::i32, DType::i64, DType::u8, DType::f16, DType::bf16, DType::f32, DType::c64}) {
    CAPTURE(dtype_name(dtype));
    Tensors operands;
    for (int k = 0; k < 4; ++k) operands.push_back(abs(drawn(random, shape, DType::f64)));
    for (Tensor& x : operands) x = cast(x, dtype);
    operands[1] = transpose(operands[1], 0, 1);
    operands[2] = flip(operands[2], {1});
    operands[3] = expand(select(operands[3], 0, 1), shape);
    const auto value = [&] { return einsum("ij,jk,kl,lm->im", operands); };
    const Tensor steps = [&] {
      const EinsumBySteps apart;
      return value();
    }();
    CHECK(equal(value(), steps));
    CHECK(equal(einsum("ij,jk,kl,lm->", operands), cast(sum(steps), dtype)));
  }
}

TEST_CASE("network: one node, that shows its steps to who watches") {
  const Tensors x{Tensor::full({2, 2}, 1, DType::f32).set_requires_grad(),
                  Tensor::full({2, 2}, 2, DType::f32).set_requires_grad(),
                  Tensor::full({2, 2}, 3, DType::f32)};
  const Tensor y = einsum("ij,jk,kl->il", x);
  CHECK(y.grad_fn()->op().name == "network");
  CHECK(y.grad_fn()->inputs().size() == 3);
  struct : Observer {
    std::vector<std::string> names;
    void called(const OpContext& call, GradFn*) override { names.push_back(call.op.name); }
  } watcher;
  {
    const ObserverScope scope(watcher);
    CHECK(einsum("ij,jk,kl->il", x).grad_fn()->op().name == "contract");
  }
  CHECK(std::count(watcher.names.begin(), watcher.names.end(), "contract") == 2);
  CHECK(std::count(watcher.names.begin(), watcher.names.end(), "network") == 0);
}

TEST_CASE("network: an operand that no derivative reads may be written to, another may not") {
  const auto run = [](bool second, size_t written) {
    Tensors x;
    for (int k = 0; k < 3; ++k) x.push_back(Tensor::full({2, 2}, k + 1, DType::f64));
    x[0].set_requires_grad();
    if (second) x[1].set_requires_grad();
    const Tensor y = sum(einsum("ij,jk,kl->il", x));
    {
      const NoGrad off;
      mul_(x[written], 2);
    }
    backward(y);
    return x[0].grad().to_vector<double>()[0];
  };
  CHECK(run(false, 0) == 2 * 3 * 2 * 2);  // only its partners are read
  CHECK_THROWS_WITH_AS(run(false, 1), doctest::Contains("was changed by"), Error);
  CHECK_THROWS_WITH_AS(run(true, 0), doctest::Contains("was changed by"), Error);
}

TEST_CASE("network: within the memory that it names, or refused before anything is made") {
  // Two open ladders: the whole needs an intermediate of 64^3.
  const std::string equation = "abc,cde,efa,bdf->";
  const std::vector<Shape> shapes(4, Shape{24, 24, 24});
  const EinsumPlan whole = plan_einsum(equation, shapes);
  CHECK(whole.sliced.empty());
  Pool& pool = default_device().pool();
  Tensors x;
  std::mt19937 random(1);
  for (const Shape& s : shapes) x.push_back(drawn(random, s, DType::f32));
  const Tensor expected = einsum(whole, x);
  for (const bool gradients : {false, true}) {
    CAPTURE(gradients);
    const double need = einsum_bytes(whole, DType::f32, Algebra::standard, gradients);
    const double limit = gradients ? need * 0.6 : need * 0.3;
    const EinsumPlan plan = within_memory(whole, limit, DType::f32, Algebra::standard, gradients);
    CHECK(!plan.sliced.empty());
    CHECK(plan.slices > 1);
    const double said = einsum_bytes(plan, DType::f32, Algebra::standard, gradients);
    CHECK(said <= limit);
    CHECK(equal(einsum(plan, x), expected));
    double operands = 0;
    for (const Tensor& t : x) operands += double(t.bytes());
    Tensors leaves;
    for (const Tensor& t : x) leaves.push_back(t.detach().set_requires_grad(gradients));
    pool.reset_peak();
    const double before = double(pool.stats().live) - operands;
    const Tensor y = einsum(plan, leaves);
    if (gradients) backward(y);
    CHECK(double(pool.stats().peak) - before <= said + 4096);
    CHECK(double(pool.stats().peak) - before >= said * 0.9);
  }
  CHECK_THROWS_WITH_AS(within_memory(whole, 1000, DType::f32),
                       doctest::Contains("looped over labels in slices"), Error);
  CHECK(within_memory(whole, 1e12, DType::f32).sliced.empty());
}

TEST_CASE("network: tropical algebras run in slices, too") {
  std::mt19937 random(5);
  const std::string equation = "ab,bc,cd,da->";
  const std::vector<Shape> shapes(4, Shape{4, 4});
  EinsumPlan plan = plan_einsum(equation, shapes);
  const EinsumPlan whole = plan;
  plan.sliced = {'b', 'd'};
  plan.slices = 16;
  Tensors x;
  for (const Shape& s : shapes) x.push_back(drawn(random, s, DType::f64));
  for (const Algebra algebra : {Algebra::max_plus, Algebra::min_plus})
    CHECK(equal(einsum(plan, x, algebra), einsum(whole, x, algebra)));
}

TEST_CASE("network: vmap, captured steps and functions of functions go through it") {
  std::mt19937 random(7);
  const std::string equation = "ij,jk,kl->il";
  const Tensor a = drawn(random, {5, 2, 3}, DType::f64), b = drawn(random, {3, 4}, DType::f64),
               c = drawn(random, {4, 2}, DType::f64);
  const auto f = [&](const Tensors& in) { return Tensors{einsum(equation, {in[0], b, c})}; };
  const Tensor mapped = func::vmap(f)({a})[0];
  for (int64_t i = 0; i < 5; ++i) CHECK(equal(select(mapped, 0, i), f({select(a, 0, i)})[0]));
  const auto cubic = [&](const Tensors& in) {
    return Tensors{einsum("i,i,i->", {in[0], in[0], in[0]})};
  };
  const Tensor v = drawn(random, {4}, DType::f64);
  CHECK(equal(func::hessian(cubic, {v})[0][0], mul(diag(v), 6)));
}

namespace {

// A product of n square matrices, from the left or in halves.
ContractionProgram chain(int n, int64_t extent, bool halves) {
  ContractionProgram p;
  for (int k = 0; k <= n; ++k) p.extents.push_back(extent);
  std::vector<int> row;
  for (int k = 0; k < n; ++k) {
    p.values.push_back({k, k + 1});
    p.inputs.push_back({k, {k, k + 1}});
    row.push_back(k);
  }
  while (row.size() > 1) {
    std::vector<int> next;
    for (size_t i = 0; i < row.size(); i += 2) {
      if (i + 1 == row.size() || (!halves && i > 0)) {
        next.push_back(row[i]);
        if (i + 1 < row.size()) next.push_back(row[i + 1]);
        continue;
      }
      const int a = row[i], b = row[i + 1], out = int(p.values.size());
      p.values.push_back({p.values[size_t(a)][0], p.values[size_t(b)][1]});
      p.steps.push_back({{a, false}, {b, false}, out});
      next.push_back(out);
    }
    row = next;
  }
  p.outputs.push_back({row[0], {0, n}});
  return p;
}

}  // namespace

TEST_CASE("network: branches that need nothing of each other run at once, to the same bits") {
  constexpr int kTensors = 128;
  const ContractionSchedule halves(chain(kTensors, 24, true), DType::f32);
  CHECK(halves.branches() == std::pair<size_t, size_t>(63, 126));
  CHECK(ContractionSchedule(chain(kTensors, 24, false), DType::f32).branches().second == 0);
  CHECK(ContractionSchedule(chain(kTensors, 2, true), DType::f32).branches().second == 0);
  CHECK(ContractionSchedule(chain(kTensors, 24, true), DType::f32, {5}).branches().second == 0);
  const Chosen all(size_t(2 * kTensors), 1);  // kept, so that the arena is the same in any order
  const ContractionSchedule keeps(chain(kTensors, 24, true), DType::f32, {}, all);
  CHECK(keeps.branches().second == 126);
  manual_seed(2);
  Tensors inputs;
  for (int k = 0; k < kTensors; ++k) inputs.push_back(uniform({24, 24}, -0.3, 0.3, DType::f32));
  Device& device = inputs[0].device();
  // Whoever watches a thread sees all its calls: they are made in turn.
  struct Watching : KernelWrapper {
    int calls = 0;
    gd_status call(const gd_call&, Next next, gd_error& error) override {
      ++calls;
      return next(error);
    }
  } watching;
  for (int round = 0; round < 20; ++round) {
    const Tensor at_once = halves.run(inputs, device)[0];
    const WrapperScope scope(device, watching);
    CHECK(equal(at_once, halves.run(inputs, device)[0]));
  }
  CHECK(watching.calls >= 20 * (kTensors - 1));
}

TEST_CASE("network: branches whose memory would be much are done in turn") {
  constexpr int64_t kExtent = 500;  // of each of two branches: three outer products, summed again
  ContractionProgram p;
  p.extents = {kExtent, kExtent, kExtent, kExtent};
  std::mt19937 random(5);
  Tensors inputs;
  const auto input = [&](int label) {
    p.values.push_back({label});
    p.inputs.push_back({int(p.values.size()) - 1, {label}});
    inputs.push_back(drawn(random, {kExtent}, DType::f64));
    return p.inputs.back().value;
  };
  const auto step = [&](int a, int b, ContractionProgram::Axes labels) {
    p.values.push_back(labels);
    p.steps.push_back({{a, false}, {b, false}, int(p.values.size()) - 1});
    return p.steps.back().out;
  };
  int ends[2];
  Tensor want[2];
  for (const int branch : {0, 1}) {
    const int i = 2 * branch, j = i + 1;
    int row = input(i);
    want[branch] = inputs.back();
    for (int k = 0; k < 3; ++k) {
      const int outer = step(row, input(j), {i, j});
      row = step(outer, input(j), {i});
      const Tensor factor = sum(mul(inputs[inputs.size() - 2], inputs.back()));
      want[branch] = mul(want[branch], factor);
    }
    ends[branch] = row;
  }
  p.outputs.push_back({step(ends[0], ends[1], {0, 2}), {0, 2}});
  const ContractionSchedule schedule(p, DType::f64);
  CHECK(schedule.branches().second == 0);
  CHECK(schedule.arena_bytes() < 2.2e6);
  CHECK(equal(schedule.run(inputs, inputs[0].device())[0],
              mul(reshape(want[0], {kExtent, 1}), want[1])));
}
