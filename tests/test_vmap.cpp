// vmap: every op of the op list over each choice of its operands against the loop over examples, by
// the rows of the op table; then what people write, nested and differentiated, and what is refused.
#include "engine/device.hpp"
#include "engine/random.hpp"
#include "ops/ops.hpp"
#include "ops/rows/check.hpp"
#include "ops/vmap.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace gradus;

using func::vmap;

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
  const Tensors last_out =
      vmap(f, last_dims, func::MappedDims(expected[0].size(), -1))(last);
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

void for_each_mapped(const std::function<std::string(const rows::Row&, size_t, DType, unsigned)>&
                         check) {
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
          CHECK_MESSAGE(wrong == "", join(op.name, ", case ", int64_t(c), ", ", dtype,
                                          ", operands ", int64_t(mask), ": ", wrong));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("vmap: every op agrees with the loop over examples") { for_each_mapped(check_mapped); }
