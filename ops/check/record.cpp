#include "ops/check/record.hpp"

#include "ops/check/check.hpp"
#include "ops/check/recorder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace gradus::inline v1::rows {

namespace {

constexpr DType kDTypes[] = {DType::bool_, DType::u8,  DType::i32, DType::i64, DType::f16,
                             DType::bf16,  DType::f32, DType::f64, DType::c64, DType::c128};
constexpr int64_t kLargest = 4096;  // elements of an output worth recording
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---- random choices: reproducible from a name

class Dice {
 public:
  explicit Dice(std::string name) : name_(std::move(name)) {}
  double uniform() { return (draw_direction(name_, at_++, 1, false)[0].real() + 1) / 2; }
  int64_t below(int64_t n) { return std::min(n - 1, int64_t(uniform() * double(n))); }
  bool chance(double p) { return uniform() < p; }

 private:
  std::string name_;
  uint64_t at_ = 0;
};

// An op at one case: the row holds this case alone, its name tells the draws of trials apart.
struct Trial {
  Row row;
  Attrs attrs;
  const Case& its_case() const { return row.cases[0]; }
};

Trial trial_of(const OpInfo& op, const Row& row, Case c, std::string name) {
  Trial t{row, attrs_of(op, c.attrs)};
  t.row.name = std::move(name);
  t.row.cases = {std::move(c)};
  return t;
}

const Domain& domain(const Row& row, size_t k) {
  return row.operands[std::min(k, row.operands.size() - 1)];
}
bool is_value(const Row& row, size_t k) {
  return domain(row, k).kind == Domain::Kind::range || domain(row, k).kind == Domain::Kind::lattice;
}

// ---- a random case: one of the row's with its extents renamed consistently, its attributes mixed
// with those of the other cases and shaken. What the op refuses is thrown away by the caller.

class Renaming {
 public:
  explicit Renaming(Dice& dice) : dice_(dice) {}
  int64_t operator()(int64_t extent) {
    if (extent <= 1) return extent;
    const auto [at, is_new] = names_.try_emplace(extent, 0);
    if (is_new) at->second = dice_.chance(0.03) ? 0 : 1 + dice_.below(7);
    return at->second;
  }
  int64_t attribute(int64_t x) const { return names_.contains(x) ? names_.at(x) : x; }

 private:
  Dice& dice_;
  std::map<int64_t, int64_t> names_;
};

// Shapes that broadcast: of rank 0 to 4, leading axes left out and others 1 at random.
std::vector<Shape> broadcasting(size_t operands, Dice& dice) {
  Shape full;
  for (int64_t rank = dice.below(5); rank > 0; --rank)
    full.push_back(dice.chance(0.03) ? 0 : 1 + dice.below(6));
  std::vector<Shape> shapes;
  for (size_t k = 0; k < operands; ++k) {
    const size_t lead = dice.chance(0.3) ? size_t(dice.below(int64_t(full.size()) + 1)) : 0;
    Shape shape;
    for (size_t i = lead; i < full.size(); ++i)
      shape.push_back(k > 0 && dice.chance(0.25) ? 1 : full[i]);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

void shake(AttrValue& value, const AttrSpec& spec, const Renaming& renamed, bool rename,
           Dice& dice) {
  using Type = AttrValue::Type;
  const bool other = dice.chance(0.3);
  auto integer = [&](int64_t x) {
    if (rename) x = renamed.attribute(x);
    return other && std::abs(x) < 1000 ? x + dice.below(3) - 1 : x;
  };
  if (value.type == Type::integer) value = integer(value.integer);
  if (value.type == Type::integers)
    for (int64_t& x : value.integers) x = integer(x);
  if (value.type == Type::integers && !value.integers.empty() && dice.chance(0.05))
    value.integers.pop_back();
  if (value.type == Type::number && other) value = value.number * (0.5 + dice.uniform());
  if (value.type == Type::boolean && other) value = value.integer == 0;
  if (spec.optional && dice.chance(0.1)) value = spec.default_value;
}

Trial shaken(const OpInfo& op, const Row& row, std::string name, Dice& dice) {
  auto any_case = [&]() -> const Case& {
    return row.cases[size_t(dice.below(int64_t(row.cases.size())))];
  };
  Case c = any_case();
  NamedAttrs named = c.attrs;
  if (dice.chance(0.3)) {
    const Case& other = any_case();
    if (other.shapes.size() == c.shapes.size() && other.dtypes == c.dtypes &&
        other.slopes == c.slopes)
      named = other.attrs;
  }
  Renaming renamed(dice);
  if (op.group == "pointwise") {
    c.shapes = broadcasting(c.shapes.size(), dice);
  } else if (dice.chance(0.8)) {
    for (Shape& shape : c.shapes)
      for (int64_t& n : shape) n = renamed(n);
    c.extent = renamed.attribute(c.extent);
  }
  c.attrs = named;
  Trial t = trial_of(op, row, std::move(c), std::move(name));
  const bool rename = dice.chance(0.7);
  for (size_t i = 0; i < t.attrs.size(); ++i) shake(t.attrs[i], op.attrs[i], renamed, rename, dice);
  return t;
}

// ---- operands

Tensor operand_of(const Trial& t, size_t k, DType dtype, Device& device) {
  Row row = t.row;
  // Of integers, which the row may not have in mind, its kinks could leave none to draw.
  const std::vector<DType> known = dtypes_of(row);
  if (is_integer(dtype) && std::find(known.begin(), known.end(), dtype) == known.end())
    for (Domain& d : row.operands) d.avoid.clear();
  return upload(draw(row, 0, k, dtype), t.its_case().shapes[k], operand_dtype(row, k, dtype),
                device);
}

Tensors operands_of(const Trial& t, DType dtype, Device& device) {
  Tensors in;
  for (size_t k = 0; k < t.its_case().shapes.size(); ++k)
    in.push_back(operand_of(t, k, dtype, device));
  return in;
}

void relay(const Row& row, Tensors& in, Dice& dice) {
  for (Tensor& x : in)
    if (const int64_t how = dice.below(4); how < 3 && row.layouts) x = relaid(x, Layout(how));
}

Tensor tensor_of(const std::vector<double>& values, const Shape& shape, DType dtype,
                 Device& device) {
  return upload(Numbers(values.begin(), values.end()), shape, dtype, device);
}

// ---- the kinds of case

// An output of more elements is not worth recording. Where values are special, so are slopes of
// slopes.
bool keep(CaseRecorder& to, const OpInfo& op, const Attrs& attrs, const Tensors& in,
          const char* kind, bool slopes, bool refusals = false) {
  const bool special = std::string_view(kind) == "special" || std::string_view(kind) == "ties";
  // Cotangents of vectors turn with them, so a fixed one has no slope of its own.
  const bool higher = !special && !row_of(op.name).seen;
  return to.run({op, attrs, in, kind, slopes, higher, refusals, {}, kLargest});
}

bool has_slopes(const OpInfo& op, const Trial& t, DType dtype) {
  return op.differentiable && t.its_case().slopes && (dtype == DType::f64 || dtype == DType::c128);
}

void record_rows(CaseRecorder& to, const OpInfo& op, const Row& row, Device& device) {
  for (size_t i = 0; i < row.cases.size(); ++i) {
    const Trial t = trial_of(op, row, row.cases[i], join(row.name, " row ", int64_t(i)));
    for (const DType dtype : dtypes_of_case(t.row, 0))
      keep(to, op, t.attrs, operands_of(t, dtype, device), "row", has_slopes(op, t, dtype), true);
  }
}

// In f64 and c128 with all derivatives, and in one other dtype for each. Some of what the op
// refuses is kept too: the other program should refuse it.
void record_random(CaseRecorder& to, const OpInfo& op, const Row& row, const RecordOptions& options,
                   Device& device) {
  Dice dice(join(row.name, " seed ", options.seed));
  int found = 0, refused = 0;
  for (int tries = 0; found < options.cases && tries < 60 * options.cases; ++tries) {
    const Trial t = shaken(op, row, join(row.name, " ", options.seed, " ", int64_t(tries)), dice);
    std::vector<DType> dtypes = dtypes_of_case(t.row, 0);
    bool any = false;
    const DType value_dtype = dtypes[size_t(dice.below(int64_t(dtypes.size())))];
    for (const DType dtype : dtypes) {
      const bool slopes = has_slopes(op, t, dtype);
      if (!slopes && dtype != value_dtype) continue;
      Tensors in = operands_of(t, dtype, device);
      relay(t.row, in, dice);
      any |= keep(to, op, t.attrs, in, "random", slopes);
      if (!any && refused < options.cases) {
        refused += keep(to, op, t.attrs, in, "refused", false, true);
        break;
      }
    }
    found += any;
  }
}

// Every dtype and some mixtures, also those that the row leaves out; of pointwise ops of several
// operands every pair, as tensors with axes, as 0-d tensors and as numbers.
void record_dtypes(CaseRecorder& to, const OpInfo& op, const Row& row, Device& device) {
  Case c = row.cases[0];
  std::vector<size_t> values;
  for (size_t k = 0; k < c.shapes.size(); ++k)
    if (is_value(row, k)) values.push_back(k);
  if (values.empty()) return;
  const bool pairs = op.group == "pointwise" && values.size() >= 2;
  if (pairs) std::fill(c.shapes.begin(), c.shapes.end(), Shape{3});
  const Trial t = trial_of(op, row, c, join(row.name, " dtypes"));
  std::fill(c.shapes.begin(), c.shapes.end(), Shape{});
  const Trial scalars = trial_of(op, row, c, join(row.name, " scalars"));
  for (const DType a : kDTypes) {
    const Tensors in = operands_of(t, a, device);
    if (!pairs) {
      keep(to, op, t.attrs, in, "dtypes", false, true);
      for (const DType b : {DType::i64, DType::f64}) {
        if (values.size() < 2) break;
        Tensors mixed = in;
        mixed[values[1]] = operand_of(t, values[1], b, device);
        keep(to, op, t.attrs, mixed, "dtypes", false, true);
      }
      continue;
    }
    auto with = [&](size_t n, const Tensor& x) {
      Tensors other = in;
      other[values[n]] = x;
      keep(to, op, t.attrs, other, "dtypes", false, true);
    };
    for (const DType b : kDTypes) {
      with(1, operand_of(t, values[1], b, device));
      for (const size_t n : {0, 1}) with(n, operand_of(scalars, values[n], b, device));
    }
    for (const size_t n : {0, 1})
      for (const Tensor& number : {Tensor(1.5), Tensor(2), Tensor(true)}) with(n, number);
  }
}

// The edges of every pointwise op on real numbers.
void record_special(CaseRecorder& to, const OpInfo& op, const Row& row, Device& device) {
  const size_t n = row.cases[0].shapes.size();
  if (op.group != "pointwise" || n > 2 || !(row.dtypes & def::kReal)) return;
  for (size_t k = 0; k < n; ++k)
    if (!is_value(row, k)) return;
  const std::vector<double> points{0.0,   -0.0,   1,      -1,      0.5,    -0.5, 2,     -2,
                                   3,     -3,     6,      -6,      20,     25,   1e3,   -1e3,
                                   1e300, -1e300, 1e-300, -1e-300, 5e-324, kInf, -kInf, kNaN};
  const std::vector<double> few{0.0, -0.0, 1, -1, 2, -2.5, kInf, -kInf, kNaN};
  const Attrs attrs = attrs_of(op, row.cases[0].attrs);
  const int64_t size = int64_t(few.size());
  Tensors in{tensor_of(points, {int64_t(points.size())}, DType::f64, device)};
  if (n == 2)
    in = {tensor_of(few, {size, 1}, DType::f64, device),
          tensor_of(few, {1, size}, DType::f64, device)};
  keep(to, op, attrs, in, "special", op.differentiable, true);
}

// Ties and NaN, where the row's domain says that they matter.
void record_ties(CaseRecorder& to, const OpInfo& op, const Row& row, Device& device) {
  if (op.group == "pointwise" || row.operands.empty() ||
      row.operands[0].kind != Domain::Kind::lattice)
    return;
  for (size_t i = 0; i < row.cases.size(); ++i) {
    const Trial t = trial_of(op, row, row.cases[i], join(row.name, " ties ", int64_t(i)));
    for (const double least : {0.0, kNaN}) {
      Dice dice(join(t.row.name, least));
      Tensors in = operands_of(t, DType::f64, device);
      std::vector<double> x(size_t(in[0].numel()));
      for (double& one : x) one = dice.chance(0.15) ? least : double(dice.below(3));
      in[0] = tensor_of(x, in[0].sizes(), DType::f64, device);
      keep(to, op, t.attrs, in, "ties", op.differentiable && t.its_case().slopes, true);
    }
  }
}

}  // namespace

Recording record(const RecordOptions& options, Device& device) {
  const DeviceScope scope(device);
  CaseRecorder recorder(device);
  Json ops = Json::array();
  for (const OpInfo& op : all_ops()) {
    if (!options.op.empty() && op.name != options.op) continue;
    Json& info = ops.emplace_back(Json{{"name", op.name},
                                       {"group", op.group},
                                       {"differentiable", op.differentiable},
                                       {"operands", Json::array()}});
    for (const OperandSpec& operand : op.operands) info["operands"].push_back(operand.name);
    info["variadic"] = !op.operands.empty() && op.operands.back().variadic;
    const Row& row = row_of(op.name);
    record_rows(recorder, op, row, device);
    if (row.dtypes == 0) continue;  // makes numbers from nothing
    record_random(recorder, op, row, options, device);
    record_dtypes(recorder, op, row, device);
    record_special(recorder, op, row, device);
    record_ties(recorder, op, row, device);
  }
  return recorder.finish(ops);
}

}  // namespace gradus::rows
