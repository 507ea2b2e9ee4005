// The list of rows, and attributes by name.
#include "ops/check/rows.hpp"

namespace gradus::inline v1::rows {

namespace {

std::deque<Row> collect() {
  std::deque<Row> all;
  for (auto more : {pointwise_rows(), structured_rows(), model_rows(), sorting_rows(),
                    rearrange_rows(), window_rows(), norm_rows(), criterion_rows(), linalg_rows()})
    for (Row& row : more) all.push_back(std::move(row));
  return all;
}

const char* type_name(AttrValue::Type type) {
  constexpr const char* names[] = {
      "none", "an integer", "a number", "true or false", "a list of integers", "a word", "a dtype"};
  return names[int(type)];
}

// An integer also serves as a number or as a list of one.
AttrValue fitted(const OpInfo& op, const AttrSpec& spec, const AttrValue& value) {
  using Type = AttrValue::Type;
  if (value.type == spec.type) return value;
  if (value.is_none() && spec.optional) return value;
  if (value.type == Type::integer && spec.type == Type::number) return double(value.integer);
  if (value.type == Type::integer && spec.type == Type::integers) return Ints{value.integer};
  fail(ErrorKind::value, op.name, "attribute ", spec.name, " is ", type_name(spec.type), ", got ",
       to_text(value));
}

}  // namespace

namespace {
// A deque: rows that were handed out stay where they are when a user adds one.
std::deque<Row>& rows() {
  static std::deque<Row> all = collect();
  return all;
}
}  // namespace

const std::deque<Row>& all_rows() { return rows(); }

void add_row(Row row) {
  const OpInfo& op = get_op(row.name);
  for (const Row& other : rows())
    if (other.name == row.name) fail(ErrorKind::value, op.name, "has a row already");
  if (row.cases.empty()) fail(ErrorKind::value, op.name, "its row has no case");
  rows().push_back(std::move(row));
}

const Row& row_of(std::string_view name) {
  for (const Row& row : all_rows())
    if (row.name == name) return row;
  fail(ErrorKind::internal, "rows", "the op \"", name, "\" has no row in ops/rows/");
}

namespace {
// What to write in the place of a name that the op has not: the nearest one, what numpy's word
// means here, or all that there are.
std::string attr_hint(const OpInfo& op, std::string_view name) {
  std::vector<std::string> names;
  std::string all;
  for (const AttrSpec& spec : op.attrs) {
    names.push_back(spec.name);
    all += (all.empty() ? "" : ", ") + spec.name;
  }
  constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
      {"axis", "dim"},   {"axes", "dims"},      {"axes", "dim"},       {"axis", "dims"},
      {"shape", "size"}, {"newshape", "shape"}, {"ddof", "correction"}};
  for (const auto& [theirs, ours] : kElsewhere)
    if (name == theirs && op.attr_index(ours) >= 0) return did_you_mean(ours, names);
  const std::string near = did_you_mean(name, names);
  if (!near.empty()) return near;
  return names.empty() ? "; it has none" : "; there are " + all;
}
}  // namespace

Attrs attrs_of(const OpInfo& op, const NamedAttrs& named) {
  Attrs attrs = op.completed({});
  std::vector<bool> given(op.attrs.size(), false);
  for (const auto& [name, value] : named) {
    const int i = op.attr_index(name);
    if (i < 0) {
      fail(ErrorKind::value, op.name, "has no attribute \"", name, "\"", attr_hint(op, name));
    }
    if (given[size_t(i)]) fail(ErrorKind::value, op.name, "attribute ", name, " is given twice");
    attrs[size_t(i)] = fitted(op, op.attrs[size_t(i)], value);
    given[size_t(i)] = true;
  }
  for (size_t i = 0; i < op.attrs.size(); ++i)
    if (!given[i] && op.attrs[i].default_value.is_none() && !op.attrs[i].optional)
      fail(ErrorKind::value, op.name, "attribute ", op.attrs[i].name, " (",
           type_name(op.attrs[i].type), ") must be given");
  return attrs;
}

std::vector<DType> dtypes_of(const Row& row, unsigned mask) {
  mask &= row.dtypes;
  std::vector<DType> out;
  auto add = [&](unsigned bit, std::initializer_list<DType> dtypes) {
    if (mask & bit) out.insert(out.end(), dtypes);
  };
  add(def::kReal, {DType::f32, DType::f64});
  if (row.halves) add(def::kReal, {DType::f16, DType::bf16});
  add(def::kComplex, {DType::c64, DType::c128});
  add(def::kInteger, {DType::i32, DType::i64, DType::u8});
  add(def::kBool, {DType::bool_});
  return out;
}

}  // namespace gradus::rows
