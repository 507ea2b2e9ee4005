// vmap: every op of the op list over each choice of its operands against the loop over examples, by
// the rows of the op table; then what people write, nested and differentiated, and what is refused.
#include "engine/device/device.hpp"
#include "engine/random.hpp"
#include "ops/ops.hpp"
#include "ops/check/check.hpp"
#include "ops/transforms/func.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/texts.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace gradus;

using namespace gradus::testing;
using func::vmap;
using gradus::test::check_has;

namespace {

constexpr int64_t kExamples = 3;

// One case of a row with kExamples examples of each operand in `mask`, the batch as axis 0.
struct Mapped {
  Mapped(const rows::Row& row, size_t which, DType dtype, unsigned mask)
      : op(get_op(row.name)), attrs(rows::attrs_of(op, row.cases[which].attrs)) {
    rows::Row wide = row;
    for (size_t k = 0; k < wide.cases[which].shapes.size(); ++k)
      if (mask >> k & 1u) wide.cases[which].shapes[k].insert(0, kExamples);
    in = rows::draw_inputs(wide, which, dtype, default_device());
    for (size_t k = 0; k < in.size(); ++k)
      dims.push_back(mask >> k & 1u ? std::optional<int64_t>(0) : std::nullopt);
  }
  Tensors example(int64_t b) const {
    Tensors one;
    for (size_t k = 0; k < in.size(); ++k) one.push_back(dims[k] ? select(in[k], 0, b) : in[k]);
    return one;
  }
  const OpInfo& op;
  Attrs attrs;
  Tensors in;
  func::MappedDims dims;
};

// The same with the mapped axes last, in and out.
std::pair<Tensors, func::MappedDims> batch_last(const Mapped& m) {
  Tensors in;
  func::MappedDims dims = m.dims;
  for (size_t k = 0; k < m.in.size(); ++k) {
    in.push_back(m.in[k]);
    if (!dims[k]) continue;
    Ints order;
    for (int64_t i = 1; i < in[k].rank(); ++i) order.push_back(i);
    order.push_back(0);
    in[k] = permute(in[k], order);
    dims[k] = -1;
  }
  return {in, dims};
}

std::string differs(const rows::Row& row, const Tensor& got, const Tensor& expected) {
  if (!(got.sizes() == expected.sizes()) || got.dtype() != expected.dtype())
    return join("is ", got.dtype(), " ", got.sizes(), ", expected ", expected.dtype(), " ",
                expected.sizes());
  const rows::Outcome o = rows::compare(rows::download(got), rows::download(expected),
                                        rows::tolerance_of(row, got.dtype()), true);
  return o.ok() ? "" : join(o.where, " (error ", o.error, " of ", o.tolerance, ")");
}

// "" if vmap agrees with the loop.
std::string check_mapped(const rows::Row& row, size_t which, DType dtype, unsigned mask) {
  const Mapped m(row, which, dtype, mask);
  const func::Function f = [&](const Tensors& in) { return m.op.call(in, m.attrs); };
  std::vector<Tensors> expected;
  for (int64_t b = 0; b < kExamples; ++b) expected.push_back(f(m.example(b)));
  const auto [last, last_dims] = batch_last(m);
  const Tensors first_out = vmap(f, m.dims)(m.in);
  const Tensors last_out = vmap(f, last_dims, func::MappedDims(expected[0].size(), -1))(last);
  for (size_t i = 0; i < expected[0].size(); ++i) {
    Tensors parts;
    for (const Tensors& e : expected) parts.push_back(e[i]);
    std::string wrong = differs(row, first_out[i], stack(parts, 0));
    if (wrong == "") wrong = differs(row, last_out[i], stack(parts, -1));
    if (wrong != "") return join("output ", int64_t(i), ": ", wrong);
  }
  return "";
}

// Rows whose mapped operands stay small; random ops have a test of their own.
bool runs_here(const OpInfo& op, const rows::Case& c) {
  if (op.operands.empty() || op.group == "random" || c.shapes.empty()) return false;
  for (const Shape& s : c.shapes)
    if (numel_of(s) > 4000) return false;
  return true;
}

// The sizes of their results depend on the values: refused in words.
const std::set<std::string> sizes_by_data{"argwhere", "bincount", "masked_select",
                                          "nonzero",  "unique",   "unique_consecutive"};

void for_each_mapped(
    const std::function<std::string(const rows::Row&, size_t, DType, unsigned)>& check) {
  for (const OpInfo& op : all_ops()) {
    const rows::Row& row = rows::row_of(op.name);
    for (size_t c = 0; c < row.cases.size(); ++c) {
      if (!runs_here(op, row.cases[c])) continue;
      const size_t operands = std::min<size_t>(row.cases[c].shapes.size(), 4);
      for (const DType dtype : rows::dtypes_of_case(row, c)) {
        if (dtype != DType::f64 && dtype != DType::c128) continue;
        for (unsigned mask = 1; mask < 1u << operands; ++mask) {
          std::string wrong;
          try {
            wrong = check(row, c, dtype, mask);
          } catch (const Error& e) {
            wrong = e.what();
          }
          if (sizes_by_data.contains(op.name) && wrong.find("data-dependent sizes") != wrong.npos)
            continue;
          CHECK_MESSAGE(wrong == "", join(op.name, ", case ", int64_t(c), ", ", dtype,
                                          ", operands ", int64_t(mask), ": ", wrong));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("vmap: every op agrees with the loop over examples") { for_each_mapped(check_mapped); }

namespace {
// The floating outputs of f, and pulled and pushed directions of ones times the operands.
Tensors pulled(const Mapped& m, const Tensors& in) {
  Tensors moving;
  std::vector<size_t> which;
  for (size_t k = 0; k < in.size(); ++k)
    if (is_floating(in[k].dtype())) {
      moving.push_back(in[k]);
      which.push_back(k);
    }
  const func::Function f = [&](const Tensors& x) {
    Tensors all = in, y;
    for (size_t i = 0; i < x.size(); ++i) all[which[i]] = x[i];
    const Outputs called = m.op.call(all, m.attrs);
    Tensors out(called.begin(), called.end());
    if (const auto seen = rows::row_of(m.op.name).seen) out = seen(out);
    for (const Tensor& t : out)
      if (is_floating(t.dtype())) y.push_back(t);
    return y;
  };
  const func::Vjp r = func::vjp(f, moving);
  Tensors v;
  for (const Tensor& y : r.outputs) v.push_back(cast(cos(y), y.dtype()));
  Tensors out = r.pullback(v);
  for (const Tensor& t : func::jvp(f, moving, out).tangents) out.push_back(t);
  return out;
}
std::string check_slopes(const rows::Row& row, size_t which, DType dtype, unsigned mask) {
  const Mapped m(row, which, dtype, mask);
  if (!m.op.primitive || !m.op.differentiable || !row.cases[which].slopes) return "";
  bool moves = false;
  for (const Tensor& t : m.in) moves |= is_floating(t.dtype());
  if (!moves || !is_floating(m.op.call(m.example(0), m.attrs)[0].dtype())) return "";
  const Tensors got = vmap([&](const Tensors& in) { return pulled(m, in); }, m.dims)(m.in);
  std::vector<Tensors> expected;
  for (int64_t b = 0; b < kExamples; ++b) expected.push_back(pulled(m, m.example(b)));
  for (size_t i = 0; i < got.size(); ++i) {
    Tensors parts;
    for (const Tensors& e : expected) parts.push_back(e[i]);
    const Tensor loop = stack(parts, 0);
    const rows::Outcome o =
        rows::compare(rows::download(got[i]), rows::download(loop), 1e-11, true);
    if (!(got[i].sizes() == loop.sizes()) || !o.ok())
      return join("slope ", int64_t(i), ": ", got[i].sizes(), " ", loop.sizes(), " ", o.where);
  }
  return "";
}
}  // namespace

TEST_CASE("vmap: vjp and jvp of every primitive agree with the loop, for unmapped operands too") {
  for_each_mapped(check_slopes);
}

TEST_CASE("vmap: pullbacks of every op may be mapped: rows at once are rows one by one") {
  for (const OpInfo& op : all_ops()) {
    const rows::Row& row = rows::row_of(op.name);
    for (size_t c = 0; c < row.cases.size(); ++c) {
      if (!runs_here(op, row.cases[c]) || !row.cases[c].slopes || !op.differentiable) continue;
      const auto dtypes = rows::dtypes_of_case(row, c);
      if (std::find(dtypes.begin(), dtypes.end(), DType::f64) == dtypes.end()) continue;
      const Mapped m(row, c, DType::f64, 0);
      Tensors x;
      std::vector<size_t> which;
      int64_t n = 0;
      for (size_t k = 0; k < m.in.size(); ++k)
        if (m.in[k].dtype() == DType::f64) {
          x.push_back(m.in[k]);
          which.push_back(k);
          n += m.in[k].numel();
        }
      const func::Function f = [&](const Tensors& moving) {
        Tensors all = m.in;
        for (size_t i = 0; i < moving.size(); ++i) all[which[i]] = moving[i];
        return Tensors{m.op.call(all, m.attrs)[0]};
      };
      if (x.empty() || n > 40) continue;
      const Tensor y = f(x)[0];
      if (y.dtype() != DType::f64 || y.numel() > 40 || y.numel() == 0) continue;
      for (const func::Mode mode : {func::Mode::reverse, func::Mode::forward}) {
        std::string wrong;
        try {
          const Tensors at_once = func::jacobian(f, x, {.mode = mode})[0];
          const Tensors one_by_one = func::jacobian(f, x, {.vectorize = false, .mode = mode})[0];
          for (size_t k = 0; k < x.size() && wrong == ""; ++k) {
            const rows::Outcome o = rows::compare(rows::download(at_once[k]),
                                                  rows::download(one_by_one[k]), 1e-11, true);
            if (!o.ok()) wrong = o.where;
          }
        } catch (const Error& e) {
          wrong = e.what();
        }
        CHECK_MESSAGE(wrong == "", join(op.name, ", case ", int64_t(c), ": ", wrong));
      }
    }
  }
}

TEST_CASE("vmap: gradients per example, of captured and unmapped tensors") {
  const Tensor xs = f64({1, 2, 3, 4, 5, 6}, {3, 2}), w = f64({1, -1}, {2});
  const func::Function loss = [](const Tensors& in) { return Tensors{square(dot(in[0], in[1]))}; };
  const func::Function per_example = vmap(
      [&](const Tensors& in) {
        return func::grad(loss, in, {.argnums = {0, 1}});
      },
      {func::kNone, 0});
  const Tensors g = per_example({w, xs});
  CHECK(values(g[0]) == std::vector<double>{-2, -4, -6, -8, -10, -12});
  CHECK(values(g[1]) == std::vector<double>{-2, 2, -2, 2, -2, 2});
  // grad of vmap, of a tensor that is captured
  const func::Function total = [&](const Tensors& in) {
    return Tensors{sum(vmap([&](const Tensors& x) { return loss({in[0], x[0]}); })({xs})[0])};
  };
  CHECK(values(func::grad(total, {w})[0]) == std::vector<double>{-18, -24});
  // jvp of vmap, vmap of jvp with unmapped x and mapped tangents
  const func::Function mapped = vmap(loss, {func::kNone, 0});
  CHECK(values(func::jvp(mapped, {w, xs}, {f64({1, 0}, {2}), Tensor::zeros({3, 2}, DType::f64)})
                   .tangents[0]) == std::vector<double>{-2, -6, -10});
  const Tensor columns = vmap([&](const Tensors& t) {
    return func::jvp([&](const Tensors& in) { return Tensors{in[0] * in[0]}; }, {w}, t).tangents;
  })({f64({1, 0, 0, 1, 2, 2}, {3, 2})})[0];
  CHECK(values(columns) == std::vector<double>{2, 0, 0, -2, 4, -4});
  // Hessians per example: vmap of vmap of vjp of grad.
  const func::Function cubes = [](const Tensors& in) {
    return Tensors{sum(in[0] * in[0] * in[0])};
  };
  for (const func::Mode mode : {func::Mode::automatic, func::Mode::forward}) {
    const Tensor h = vmap([&](const Tensors& in) {
      return Tensors{func::hessian(cubes, in, {.mode = mode})[0][0]};
    })({xs})[0];
    CHECK(values(h) == std::vector<double>{6, 0, 0, 12, 18, 0, 0, 24, 30, 0, 0, 36});
  }
  // Raw grad() would sum over the examples; it says so.
  Tensor leafed = leaf(f64({1, -1}, {2}));
  check_has(error_of([&] {
              vmap([&](const Tensors& x) { return grad({dot(leafed, x[0])}, {leafed}); })({xs});
            }),
            "summed over the examples; use func::grad");
  check_has(error_of([&] {
              vmap([&](const Tensors& x) {
                backward(dot(leafed, x[0]));
                return x;
              })({xs});
            }),
            ".grad of a leaf has no place for a gradient per example");
  // What a mapped function does to its input is not done to the caller's.
  vmap([](const Tensors& x) {
    Tensor own = x[0];
    own.set_requires_grad();
    return Tensors{own};
  })({xs});
  CHECK_FALSE(xs.requires_grad());
}

TEST_CASE("vmap: nested, axes in and out, unmapped outputs") {
  const Tensor a = f64({1, 2, 3, 4, 5, 6}, {2, 3}), b = f64({10, 20}, {2});
  const func::Function times = [](const Tensors& in) { return Tensors{in[0] * in[1]}; };
  const func::Function inner = vmap(times, {0, func::kNone});
  CHECK(values(vmap(inner, {0, 0})({a, b})[0]) == std::vector<double>{10, 20, 30, 80, 100, 120});
  CHECK(values(vmap(vmap(times, {func::kNone, 0}), {1, func::kNone}, {1})({a, b})[0]) ==
        values(vmap(
            [&](const Tensors& in) {
              return Tensors{stack({in[0] * 10.0, in[0] * 20.0}, 0)};
            },
            {1}, {1})({a})[0]));
  // a table of all pairs
  const Tensor pairs =
      vmap(vmap(times, {func::kNone, 0}), {0, func::kNone})({f64({1, 2, 3}, {3}), b})[0];
  CHECK(values(pairs) == std::vector<double>{10, 20, 20, 40, 30, 60});
  const Tensors out = vmap(
      [&](const Tensors& in) {
        return Tensors{in[0], b, b};
      },
      {1}, {-1, 0, func::kNone})({a});
  CHECK(values(out[0]) == values(a));
  CHECK(out[1].sizes() == Shape{3, 2});
  CHECK(out[2].same_body(b));
  CHECK(
      values(vmap(times)({Tensor::zeros({0, 2}, DType::f64), Tensor::zeros({0, 2}, DType::f64)})[0])
          .empty());
}

TEST_CASE("vmap: random numbers are the same or different, by word") {
  const Tensor x = Tensor::zeros({4, 3}, DType::f64);
  const func::Function noisy = [](const Tensors& in) {
    return Tensors{in[0] + uniform({3}, 0, 1, DType::f64)};
  };
  check_has(error_of([&] { vmap(noisy)({x}); }), "random numbers in a mapped function");
  manual_seed(7);
  const auto same = values(vmap(noisy, {}, {}, Randomness::same)({x})[0]);
  CHECK(std::vector<double>(same.begin(), same.begin() + 3) ==
        std::vector<double>(same.begin() + 9, same.end()));
  const auto different = values(vmap(noisy, {}, {}, Randomness::different)({x})[0]);
  CHECK(std::set<double>(different.begin(), different.end()).size() == 12);
}

TEST_CASE("vmap: what is refused, in words") {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {3, 2});
  const func::Function same = [](const Tensors& in) { return in; };
  check_has(error_of([&] { vmap(same)({}); }), "got no inputs");
  check_has(error_of([&] { vmap(same, {0, 0})({x}); }), "2 in_dims for 1 inputs");
  check_has(error_of([&] { vmap(same, {func::kNone})({x}); }), "no input is mapped");
  check_has(error_of([&] { vmap(same, {2})({x}); }), "axis 2");
  check_has(error_of([&] {
              vmap(same, {0, 1})({x, x});
            }),
            "the mapped axes differ in size: 3 of input 0, 2 of input 1");
  check_has(error_of([&] { vmap(same)({Tensor::zeros({}, DType::f64)}); }), "no axis to map over");
  check_has(error_of([&] { vmap(same, {0}, {0, 0})({x}); }), "2 out_dims for 1 outputs");
  check_has(error_of([&] { vmap(same, {0}, {func::kNone})({x}); }),
            "output 0 depends on the example");
  check_has(error_of([&] { vmap([](const Tensors&) { return Tensors{Tensor()}; })({x}); }),
            "output 0 is undefined");
  check_has(error_of([&] {
              vmap([](const Tensors& in) { return sum(in[0]).item() > 0 ? in : in; })({x});
            }),
            "its values cannot be read on the host");
  check_has(error_of([&] {
              vmap([](const Tensors& in) {
                copy_(in[0], Tensor(1.0));
                return in;
              })({x});
            }),
            "nor written in place");
  CHECK(values(x)[0] == 1);
  Tensor kept;
  vmap([&](const Tensors& in) {
    kept = in[0];
    return in;
  })({x});
  check_has(error_of([&] { exp(kept); }), "kept beyond the function that was mapped");
}

TEST_CASE("vmap: no op of ours runs example by example") {
  std::string looping;
  for (const OpInfo& op : all_ops())
    if (op.primitive && !op.user && op.group != "pointwise" && !op.batch) looping += op.name + " ";
  CHECK(looping == "");
}

TEST_CASE("vmap: an op without a rule runs example by example") {
  OpInfo& op = const_cast<OpInfo&>(get_op("softmax"));
  const auto rule = op.batch;
  op.batch = nullptr;
  const rows::Row& row = rows::row_of("softmax");
  for (size_t c = 0; c < row.cases.size(); ++c) {
    if (!runs_here(op, row.cases[c])) continue;
    CHECK(check_mapped(row, c, DType::f64, 1) == "");
    CHECK(check_slopes(row, c, DType::f64, 1) == "");
  }
  const func::Function f = [](const Tensors& in) { return Tensors{softmax(in[0], 0)}; };
  const std::string empty = error_of([&] { vmap(f)({Tensor::zeros({0, 2}, DType::f64)}); });
  op.batch = rule;
  check_has(empty, "runs example by example, and the mapped axis has size 0");
}
