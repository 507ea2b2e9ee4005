// The value modes, and check_op over all modes. The derivative modes stand in check_slopes.cpp.
#include "ops/check/check.hpp"

#include "engine/random.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gradus::inline v1::rows {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string to_text(std::complex<double> z) {
  return z.imag() == 0 ? join(z.real()) : join(z.real(), z.imag() < 0 ? "" : "+", z.imag(), "i");
}

// Equal, or not a number on both sides, part by part.
bool same_part(double a, double b) { return a == b || (a != a && b != b); }
bool same(std::complex<double> a, std::complex<double> b) {
  return same_part(a.real(), b.real()) && same_part(a.imag(), b.imag());
}

Outcome skipped() {
  Outcome o;
  o.ran = false;
  return o;
}

Outcome different(std::string why) {
  Outcome o;
  o.error = kInfinity;
  o.where = std::move(why);
  return o;
}

// Runs `body` on the op and its inputs; an Error becomes a failed outcome.
template <class Body>
Outcome guarded(const Row& row, size_t which_case, DType dtype, Body&& body) {
  Outcome o;
  try {
    o = body();
  } catch (const Error& e) {
    if (is_absence(row, e)) throw;
    o = different(e.what());
  }
  if (!o.where.empty()) {
    std::string at = join("case ", int64_t(which_case), " ");
    for (const Shape& s : row.cases[which_case].shapes) at += gradus::to_text(s) + " ";
    o.where = at + dtype_name(dtype) + ": " + o.where;
  }
  return o;
}

Outcome compare_all(const Row& row, const Tensors& got, const Tensors& expected, bool bits) {
  if (got.size() != expected.size()) return different("another number of outputs");
  Outcome worst;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].dtype() != expected[i].dtype() || !(got[i].sizes() == expected[i].sizes()))
      return different(join("output ", int64_t(i), " is ", got[i].dtype(), " ", got[i].sizes(),
                            ", expected ", expected[i].dtype(), " ", expected[i].sizes()));
    const double tolerance = bits ? 0 : tolerance_of(row, expected[i].dtype());
    worst.keep_worst(
        compare(download(got[i]), download(expected[i]), tolerance, row.exactness.normwise));
  }
  return worst;
}

// ---- layouts: the same elements behind other strides

}  // namespace

Tensor relaid(const Tensor& t, Layout layout) {
  const Shape& sizes = t.sizes();
  const size_t rank = sizes.size();
  Shape room = sizes, strides(rank, 0);
  int64_t offset = 0, count = 1;
  const int64_t step = layout == Layout::sliced ? 2 : 1;
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = layout == Layout::transposed ? i : rank - 1 - i;
    strides[axis] = count * step;
    count *= room[axis] * step;
  }
  if (layout == Layout::sliced) offset = 1;
  if (layout == Layout::reversed)
    for (size_t i = 0; i < rank; ++i) {
      offset += (sizes[i] - 1) * strides[i];
      strides[i] = -strides[i];
    }
  Numbers memory(size_t(count + step), is_integer(t.dtype()) ? 111.0 : std::nan(""));
  if (t.dtype() == DType::bool_) std::fill(memory.begin(), memory.end(), 1.0);
  const Numbers packed = download(t);
  Shape index(rank, 0);
  for (const std::complex<double>& x : packed) {
    int64_t at = offset;
    for (size_t i = 0; i < rank; ++i) at += index[i] * strides[i];
    memory[size_t(at)] = x;
    for (size_t i = rank; i-- > 0 && ++index[i] == sizes[i];) index[i] = 0;
  }
  return upload(memory, {int64_t(memory.size())}, t.dtype(), t.device())
      .alias(sizes, strides, offset);
}

namespace {

// The first row of axis 0 for all rows: as a stride-0 view, and as a copy of its own.
std::pair<Tensor, Tensor> expanded(const Tensor& t) {
  Shape strides = contiguous_strides(t.sizes());
  strides[0] = 0;
  const Tensor view = t.alias(t.sizes(), strides, 0);
  return {view, upload(download(view), t.sizes(), t.dtype(), t.device())};
}

bool rounds_by_layout(Device& device) {
  const gd_table& t = device.table();
  return t.capabilities && (t.capabilities(device.handle()) & GD_CAP_ROUNDS_BY_LAYOUT);
}

Outcome layout_differs(const Row& row, const OpInfo& op, const Attrs& attrs, const Tensors& plain,
                       Layout layout) {
  Tensors views, copies = plain;
  for (size_t k = 0; k < plain.size(); ++k) {
    if (layout != Layout::expanded) {
      views.push_back(relaid(plain[k], layout));
      continue;
    }
    // A matrix of equal rows has no inverse.
    const bool matrix =
        row.operands[std::min(k, row.operands.size() - 1)].kind == Domain::Kind::matrix;
    if (plain[k].rank() < (matrix ? 3 : 1)) return skipped();
    auto [view, copy] = expanded(plain[k]);
    views.push_back(view);
    copies[k] = copy;
  }
  // To the contract kernel an axis of stride 0 is one that the operand lacks; which of two factors
  // comes first may then change, and with it the last bit of a complex product.
  const bool complex = !plain.empty() && is_complex(plain[0].dtype());
  const bool bits =
      !rounds_by_layout(plain[0].device()) &&
      !((complex || row.may_become_dot) && layout == Layout::expanded && row.exactness.normwise);
  Outcome o = compare_all(row, evaluate(op, views, attrs), evaluate(op, copies, attrs), bits);
  constexpr const char* names[] = {"sliced", "reversed", "transposed", "expanded"};
  if (!o.where.empty()) o.where = join(names[int(layout)], " operands: ", o.where);
  return o;
}

}  // namespace

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    case DType::f32:
    case DType::c64:
      return 0x1p-23;
    case DType::f64:
    case DType::c128:
      return 0x1p-52;
    default:
      return 0;
  }
}

double tolerance_of(const Row& row, DType dtype) {
  const double eps = epsilon_of(dtype);
  return is_half(dtype) ? row.exactness.half_ulps * eps : row.exactness.ulps * eps;
}

Outcome compare(const Numbers& got, const Numbers& expected, double tolerance, bool normwise) {
  Outcome o;
  o.tolerance = tolerance;
  double largest = 0;
  for (const std::complex<double>& x : expected)
    if (std::isfinite(std::abs(x))) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (same(got[i], expected[i])) continue;
    const double scale = normwise ? largest : std::abs(expected[i]);
    double error = std::abs(got[i] - expected[i]) / scale;
    if (!(error <= kInfinity)) error = kInfinity;
    if (error > o.error || o.where.empty()) {
      o.error = error;
      o.where = join("element ", int64_t(i), " is ", to_text(got[i]), ", expected ",
                     to_text(expected[i]));
    }
  }
  return o;
}

Tensors evaluate(const OpInfo& op, const Tensors& inputs, const Attrs& attrs, bool recorded) {
  manual_seed(kCheckSeed);
  if (recorded) {
    const EnableGrad enable;
    return op.call(inputs, attrs);
  }
  const NoGrad no_grad;
  return op.call(inputs, attrs);
}

Outcome check_value(const Row& row, size_t which_case, DType dtype, Device& device,
                    Device& oracle) {
  return guarded(row, which_case, dtype, [&] {
    const OpInfo& op = get_op(row.name);
    const Attrs attrs = attrs_of(op, row.cases[which_case].attrs);
    auto run = [&](Device& d) {
      const DeviceScope scope(d);
      return evaluate(op, draw_inputs(row, which_case, dtype, d), attrs);
    };
    return compare_all(row, run(device), run(oracle), false);
  });
}

Outcome check_same_bits(const Row& row, size_t which_case, DType dtype, Device& a, Device& b) {
  Row exact = row;
  exact.exactness.ulps = exact.exactness.half_ulps = 0;
  return check_value(exact, which_case, dtype, a, b);
}

Outcome check_repeats(const Row& row, size_t which_case, DType dtype, Device& device) {
  return check_same_bits(row, which_case, dtype, device, device);
}

Outcome check_layouts(const Row& row, size_t which_case, DType dtype, Device& device) {
  if (!row.layouts || row.cases[which_case].shapes.empty()) return skipped();
  return guarded(row, which_case, dtype, [&] {
    const DeviceScope scope(device);
    const OpInfo& op = get_op(row.name);
    const Attrs attrs = attrs_of(op, row.cases[which_case].attrs);
    const Tensors plain = draw_inputs(row, which_case, dtype, device);
    Outcome worst;
    for (const Tensor& t : plain)
      if (t.numel() == 0) return skipped();
    for (const Layout layout :
         {Layout::sliced, Layout::reversed, Layout::transposed, Layout::expanded}) {
      const Outcome o = layout_differs(row, op, attrs, plain, layout);
      if (o.ran) worst.keep_worst(o);
    }
    return worst;
  });
}

Outcome check_moments(const Row& row, size_t which_case, Device& device) {
  if (which_case >= row.moments.size()) return skipped();
  return guarded(row, which_case, DType::f64, [&] {
    const DeviceScope scope(device);
    const OpInfo& op = get_op(row.name);
    constexpr int64_t kCount = 20000;
    NamedAttrs named = row.cases[which_case].attrs;
    for (auto& [name, value] : named)
      if (name == "size") value = Ints{kCount};
    const Numbers x = download(evaluate(op, {}, attrs_of(op, named))[0]);
    double mean = 0, variance = 0;
    for (const auto& v : x) mean += v.real() / double(x.size());
    for (const auto& v : x) variance += (v.real() - mean) * (v.real() - mean) / double(x.size());
    // The standard error of a variance is at most sqrt(2 / n) of it for these distributions.
    const Moments& m = row.moments[which_case];
    const double of_mean = std::fabs(mean - m.mean) / std::sqrt(m.variance / double(kCount));
    const double of_variance =
        std::fabs(variance / m.variance - 1) / std::sqrt(2.0 / double(kCount));
    Outcome o;
    o.tolerance = 5;
    o.error = std::max(of_mean, of_variance);
    o.where = join("mean ", mean, ", variance ", variance, " of ", kCount, " numbers");
    return o;
  });
}

// ---- all modes of one op

bool CheckResult::ok() const {
  return std::all_of(modes.begin(), modes.end(), [](const ModeResult& m) { return m.worst.ok(); });
}

const ModeResult& CheckResult::worst() const {
  auto badness = [](const ModeResult& m) {
    if (!m.worst.ok()) return kInfinity;
    return m.worst.tolerance > 0 ? m.worst.error / m.worst.tolerance : 0.0;
  };
  return *std::max_element(
      modes.begin(), modes.end(),
      [&](const ModeResult& a, const ModeResult& b) { return badness(a) < badness(b); });
}

namespace {
void note(ModeResult& result, const Outcome& o) {
  if (!o.ran) return;
  const bool first = result.ran++ == 0;
  if (!result.worst.ok()) return;
  auto share = [](const Outcome& x) {
    return x.tolerance > 0 ? x.error / x.tolerance : x.error > 0 ? kInfinity : 0.0;
  };
  if (first || !o.ok() || share(o) > share(result.worst)) result.worst = o;
}
}  // namespace

std::vector<DType> dtypes_of_case(const Row& row, size_t which_case) {
  if (row.dtypes == 0) return {DType::f32};
  const Case& c = row.cases[which_case];
  std::vector<DType> dtypes = dtypes_of(row, c.dtypes);
  if (!c.bytes) std::erase(dtypes, DType::u8);
  return dtypes;
}

bool is_absence(const Row& row, const Error& e) {
  return row.slot >= 0 && e.kind() == ErrorKind::device;
}

namespace {
CheckResult check_modes(const OpInfo& op, const Row& row, Device& device, Device* oracle,
                        Effort effort) {
  ModeResult value{"value", {}}, repeats{"repeat", {}}, layouts{"layout", {}}, vjp{"vjp", {}},
      jvp{"jvp", {}}, dot{"dot", {}}, second{"second", {}}, moments{"moments", {}};
  for (size_t c = 0; c < row.cases.size(); ++c) {
    if (effort != Effort::full && c >= 2) break;
    const std::vector<DType> dtypes = dtypes_of_case(row, c);
    for (const DType dtype : dtypes) {
      if (oracle && oracle != &device) note(value, check_value(row, c, dtype, device, *oracle));
      if (effort != Effort::full && dtype != dtypes.front()) continue;
      note(repeats, check_repeats(row, c, dtype, device));
      note(layouts, check_layouts(row, c, dtype, device));
    }
    note(moments, check_moments(row, c, device));
    if (effort == Effort::values || !op.differentiable || !row.cases[c].slopes) continue;
    note(vjp, check_vjp(row, c, device));
    note(jvp, check_jvp(row, c, device));
    note(dot, check_dot(row, c, device));
    note(second, check_second_order(row, c, device));
  }
  CheckResult result{op.name, {}};
  for (const ModeResult& m : {value, repeats, layouts, vjp, jvp, dot, second, moments})
    if (m.ran > 0) result.modes.push_back(m);
  return result;
}
}  // namespace

CheckResult check_op(std::string_view name, Device& device, Device* oracle, Effort effort) {
  const OpInfo& op = get_op(name);
  const Row& row = row_of(name);
  try {
    return check_modes(op, row, device, oracle, effort);
  } catch (const Error& e) {
    if (!is_absence(row, e)) throw;
    return {op.name, {}, e.what()};
  }
}

}  // namespace gradus::rows
