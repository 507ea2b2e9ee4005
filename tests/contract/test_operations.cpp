// Plans of the five kinds against the definition, element by element: drawn modes, operators,
// factors, strides and dtypes on every device; what is not read.
#include "engine/kernel_call.hpp"
#include "ops/contract/operations/operation.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/kinds.hpp"
#include "tests/helpers/sizes.hpp"

#include <algorithm>
#include <map>
#include <random>

using namespace gradus;
using namespace gradus::testing;

namespace {

using Kind = OperationKind;
using Number = std::complex<double>;
const double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---- the definition

struct HostOperand {
  Ints modes;
  Shape sizes;
  std::vector<Number> values;  // row-major
};
using Assignment = std::map<int64_t, int64_t>;

Number unary(const std::string& name, Number x) {
  if (name == "conj") return std::conj(x);
  if (name == "neg") return -x;
  if (name == "relu") return std::max(x.real(), 0.0);
  if (name == "exp") return std::exp(x);
  if (name == "square") return x * x;
  REQUIRE(name == "");
  return x;
}
Number combined(const std::string& name, Number a, Number b) {
  if (name == "add" || name == "sum") return a + b;
  if (name == "sub") return a - b;
  if (name == "mul" || name == "prod") return a * b;
  if (name == "maximum" || name == "max") return std::max(a.real(), b.real());
  REQUIRE((name == "minimum" || name == "min"));
  return std::min(a.real(), b.real());
}

// Calls f for every value of these modes.
void for_all(const Ints& modes, const Assignment& extents, Assignment& at, auto&& f, size_t i = 0) {
  if (i == modes.size()) return f();
  for (at[modes[i]] = 0; at[modes[i]] < extents.at(modes[i]); ++at[modes[i]])
    for_all(modes, extents, at, f, i + 1);
}

struct Definition {
  const OperationDesc& desc;
  const std::vector<HostOperand>& hosts;
  Number factor[3];  // of each term
  Assignment extents = {}, at = {};

  Number operand(size_t k) const {
    size_t place = 0;
    for (size_t i = 0; i < hosts[k].modes.size(); ++i)
      place = place * size_t(hosts[k].sizes[i]) + size_t(at.at(hosts[k].modes[i]));
    return unary(desc.operands[k].op.name, hosts[k].values[place]);
  }
  // A term, and in `size` what its rounding is measured by.
  Number term(size_t k, size_t f, double& size) const {
    const Number x = factor[f] == 0.0 ? 0 : factor[f] * operand(k);
    size = std::abs(x);
    return x;
  }
  Number element(const Ints& summed, double& size) {
    const size_t n = desc.operands.size();
    double more = 0;
    Number y;
    if (desc.kind == Kind::contraction) {
      y = size = 0;
      if (factor[0] != 0.0)
        for_all(summed, extents, at, [&] {
          const Number product = factor[0] * operand(0) * operand(1);
          y += product;
          size += std::abs(product);
        });
      if (n == 3) y += term(2, 1, more);
      size += more;
    } else if (desc.kind == Kind::reduction) {
      const std::string& name = desc.combine.name;
      const double sign = name == "max" ? -1 : 1;
      y = name == "sum" ? 0 : name == "prod" ? 1 : sign * HUGE_VAL;
      size = name == "prod" ? 1 : 0;
      if (factor[0] != 0.0)
        for_all(summed, extents, at, [&] {
          y = combined(name, y, operand(0));
          size = name == "prod" ? size * std::abs(operand(0)) : size + std::abs(operand(0));
        });
      y = factor[0] == 0.0 ? 0 : factor[0] * y;
      size *= std::abs(factor[0]);
      if (n == 2) y += term(1, 1, more);
      size += more;
    } else {
      y = term(0, 0, size);
      for (size_t k = 1; k < n; ++k) {
        const std::string& name = (k == 1 ? desc.combine : desc.combine_second).name;
        y = combined(name, y, term(k, k, more));
        size = name == "mul" ? size * more : size + more;
      }
    }
    if (desc.after.name == "square") size *= 2 * std::abs(y);
    return unary(desc.after.name, y);
  }
  std::pair<std::vector<Number>, std::vector<double>> all() {
    Ints summed;
    for (size_t k = 0; k < hosts.size(); ++k)
      for (size_t i = 0; i < hosts[k].modes.size(); ++i) {
        const int64_t m = hosts[k].modes[i];
        if (extents.emplace(m, hosts[k].sizes[i]).second &&
            std::find(desc.modes.begin(), desc.modes.end(), m) == desc.modes.end())
          summed.push_back(m);
      }
    std::vector<Number> values;
    std::vector<double> sizes;
    for_all(desc.modes, extents, at, [&] {
      double size = 0;
      values.push_back(element(summed, size));
      sizes.push_back(size);
    });
    return {values, sizes};
  }
};

// ---- drawn cases

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }
  template <class T>
  T one(std::initializer_list<T> of) {
    return of.begin()[below(int64_t(of.size()))];
  }
  Ints shuffled(Ints list) {
    std::shuffle(list.begin(), list.end(), random_);
    return list;
  }
  // Each of the list with this chance.
  Ints some(const Ints& list, int percent) {
    Ints out;
    for (const int64_t m : list)
      if (below(100) < percent) out.push_back(m);
    return shuffled(out);
  }

 private:
  std::mt19937_64 random_;
};

Tensor on_device(const std::vector<Number>& values, const Shape& sizes, DType dtype) {
  std::vector<c128> numbers;
  for (const Number x : values) numbers.push_back({x.real(), x.imag()});
  return cast(Tensor::from(numbers, sizes), dtype);
}
// x in memory of another order, with gaps and some axes backwards; around it lies NaN.
Tensor laid_out(const Tensor& x, Draw& draw) {
  Ints axes, back(size_t(x.rank()), 0), backwards;
  for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  axes = draw.shuffled(axes);
  Shape sizes;
  for (size_t i = 0; i < axes.size(); ++i) {
    back[size_t(axes[i])] = int64_t(i);
    sizes.push_back(2 * x.size(axes[i]));
  }
  Tensor y = permute(Tensor::full(sizes, is_integer(x.dtype()) ? 99 : kNaN, x.dtype()), back);
  for (int64_t i = 0; i < x.rank(); ++i) {
    y = draw.below(2) ? slice(y, i, 1, kEnd, 2) : slice(y, i, 0, x.size(i));
    if (draw.below(3) == 0) backwards.push_back(i);
  }
  if (!backwards.empty()) y = flip(y, backwards);
  return y;
}
Tensor like(const Tensor& x, Draw& draw) {
  const Tensor y = laid_out(x, draw);
  copy_values(x, y);
  return y;
}

struct Case {
  OperationDesc desc;
  std::vector<HostOperand> hosts;
  Factors factors;
};

Case draw_case(Kind kind, DType dtype, Draw& draw) {
  const bool complex = is_complex(dtype), whole = is_integer(dtype);
  Case c{{kind, {}, {}}, {}, {}};
  const Ints modes{'a', 'b', 'c', 'd', 7};
  Assignment extents;
  for (const int64_t m : modes) extents[m] = draw.below(24) == 0 ? 0 : 1 + draw.below(4);
  const auto op = [&] {
    if (draw.below(2)) return Operator{};
    return Operator{whole     ? draw.one({"neg", "relu", "square"})
                    : complex ? draw.one({"conj", "neg", "exp", "square"})
                              : draw.one({"conj", "neg", "relu", "exp", "square"})};
  };
  const auto add = [&](Ints own, bool diagonals) {
    if (diagonals && !own.empty() && draw.below(6) == 0) own.push_back(own[0]);
    Shape sizes;
    for (const int64_t m : own) sizes.push_back(extents.at(m));
    c.desc.operands.push_back({own, sizes, dtype, op()});
  };
  c.desc.modes = draw.some(modes, 50);
  const Ints &d = c.desc.modes, d_as_it_is = d;
  const auto maybe_less = [&] { return draw.below(2) ? d_as_it_is : draw.some(d, 70); };
  switch (kind) {
    case Kind::contraction:
      add(draw.some(modes, 60), true);
      add(draw.some(modes, 60), true);
      break;
    case Kind::reduction: {
      Ints own = d;
      for (const int64_t m : modes)
        if (std::find(d.begin(), d.end(), m) == d.end() && draw.below(2)) own.push_back(m);
      add(draw.shuffled(own), true);
      break;
    }
    case Kind::permutation:
      add(draw.shuffled(d), false);
      break;
    case Kind::trinary:
      add(maybe_less(), true);
      [[fallthrough]];
    case Kind::binary:
      add(maybe_less(), true);
  }
  const bool sum = kind == Kind::contraction || kind == Kind::reduction;
  if (kind != Kind::permutation && (!sum || draw.below(3))) add(maybe_less(), !sum);
  // A mode of D that no operand has is none of the plan's.
  Ints known;
  for (const int64_t m : d)
    for (const OperandModes& x : c.desc.operands)
      if (std::find(x.modes.begin(), x.modes.end(), m) != x.modes.end()) {
        known.push_back(m);
        break;
      }
  c.desc.modes = known;

  if (kind == Kind::reduction) {
    bool empty = false;
    for (const int64_t s : c.desc.operands[0].sizes) empty = empty || s == 0;
    const char* const of = dtype == DType::i32 ? "max" : draw.one({"sum", "prod", "max", "min"});
    c.desc.combine.name = complex || empty ? (dtype == DType::i32 ? "" : "sum") : of;
  } else {
    for (Operator* o : {&c.desc.combine, &c.desc.combine_second})
      o->name = complex ? draw.one({"add", "mul", "sub"})
                        : draw.one({"add", "mul", "sub", "maximum", "minimum"});
  }
  if (draw.below(3) == 0)
    c.desc.after.name = complex ? draw.one({"conj", "neg", "square"})
                        : whole ? draw.one({"neg", "relu"})
                                : draw.one({"neg", "relu", "square"});
  for (const OperandModes& x : c.desc.operands) {
    HostOperand& h = c.hosts.emplace_back(HostOperand{x.modes, x.sizes, {}});
    const int64_t steps = whole ? 1 : 8;  // numbers that every dtype holds
    const auto number = [&] {
      return double(draw.below(4 * steps + 1) - 2 * steps) / double(2 * steps);
    };
    for (int64_t i = numel_of(x.sizes); i > 0; --i)
      h.values.push_back(whole ? Number(double(draw.below(7) - 3))
                               : Number(number(), complex ? number() : 0));
  }
  const auto factor = [&]() -> Number {
    if (complex && draw.below(3) == 0) return {0.5, -1};
    return whole ? draw.one({0.0, 1.0, 1.0, -2.0, 3.0}) : draw.one({0.0, 1.0, 1.0, -0.5, 2.0});
  };
  c.factors = {factor(), factor(), factor()};
  return c;
}

double tolerance(DType t) {  // some nine roundings
  return t == DType::bf16              ? 0x1p-5
         : t == DType::f16             ? 0x1p-8
         : real_dtype(t) == DType::f32 ? 2e-6
         : is_integer(t)               ? 0
                                       : 1e-14;
}

void run_case(Kind kind, DType dtype, unsigned seed) {
  Draw draw(seed);
  const Case c = draw_case(kind, dtype, draw);
  if (kind == Kind::reduction && c.desc.combine.name.empty()) return;
  const Factors& f = c.factors;
  Definition d{c.desc, c.hosts, {f.alpha, f.beta, f.gamma}};
  if (kind == Kind::binary) d.factor[1] = f.gamma;
  const auto [expected, sizes] = d.all();

  const Operation plan(c.desc, default_device());
  Tensors in;
  for (size_t k = 0; k < c.hosts.size(); ++k) {
    const size_t of = kind == Kind::contraction ? (k < 2 ? 0 : 1) : k;
    std::vector<Number> values = c.hosts[k].values;
    if (d.factor[of] == 0.0 && !is_integer(dtype))  // it is not read
      values.assign(values.size(), Number(kNaN, kNaN));
    in.push_back(like(on_device(values, c.hosts[k].sizes, dtype), draw));
    if (d.factor[of] == 0.0 && draw.below(2)) in.back() = Tensor();
  }
  Tensor into, workspace;
  if (draw.below(2)) into = laid_out(Tensor::empty(plan.sizes(), dtype), draw);
  if (draw.below(3) == 0 && in.back().defined() && c.desc.operands.back().modes == c.desc.modes)
    into = in.back();
  if (draw.below(2)) workspace = plan.workspace();
  // With all memory given, the call takes none. (Kernels of other devices may want some.)
  const auto taken = [&] { return plan.device().pool().stats().allocations; };
  const uint64_t before = taken();
  const Tensor y = plan.execute(in, f, into, workspace);
  const bool over = into.defined() && in.back().defined() && into.same_body(in.back());
  if (into.defined() && !over && workspace.defined() && plan.device().name() == "reference")
    REQUIRE(taken() == before);
  if (into.defined()) REQUIRE(y.same_body(into));
  REQUIRE(y.sizes() == plan.sizes());
  REQUIRE(y.dtype() == dtype);
  const std::vector<c128> got = cast(y, DType::c128).to_vector<c128>();
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double wrong = std::abs(Number(got[i].re, got[i].im) - expected[i]);
    if (wrong <= tolerance(dtype) * (sizes[i] + std::abs(expected[i]))) continue;
    CAPTURE(i);
    CAPTURE(got[i].re);
    CAPTURE(got[i].im);
    const Number wanted = expected[i];
    CAPTURE(wanted.real());
    CAPTURE(wanted.imag());
    FAIL("differs");
  }
}

constexpr Kind kKinds[] = {Kind::contraction, Kind::reduction, Kind::permutation, Kind::binary,
                           Kind::trinary};
constexpr DType kDTypes[] = {DType::f64, DType::f32,  DType::c128, DType::c64,
                             DType::f16, DType::bf16, DType::i64,  DType::i32};

}  // namespace

TEST_CASE("operations: drawn plans are the definition, in every dtype on every device") {
  const unsigned rounds = test::small_sizes() ? 10 : 150;
  for (Device* device : one_of_each_kind()) {
    const DeviceScope scope(*device);
    for (const DType dtype : kDTypes)
      for (const Kind kind : kKinds)
        for (unsigned round = 0; round < rounds; ++round) {
          CAPTURE(device->name());
          CAPTURE(std::string(dtype_name(dtype)));
          CAPTURE(std::string(kind_info(kind).name));
          CAPTURE(round);
          run_case(kind, dtype, 1000 * unsigned(dtype) + round);
        }
  }
}
