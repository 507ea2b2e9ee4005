// The op table: every row of ops/check/ in every mode, on every device that is here. Authors of ops
// write none of this: a row, and an oracle of their op's value.
#include "gradus_paths.hpp"
#include "engine/device/device.hpp"
#include "engine/config/loader.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/reference/reference.hpp"
#include "ops/check/check.hpp"
#include "tests/oracles/oracles.hpp"
#include "tests/helpers/sizes.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <set>

using namespace gradus;
using namespace gradus::testing;

namespace {

rows::Effort effort() { return test::small_sizes() ? rows::Effort::small : rows::Effort::full; }

// A cpu device of its own, beside the one of the registry; nullptr where the processor lacks the
// instruction set. Devices live for ever.
Device* cpu_variant(const std::string& name, const std::string& options) {
  gd_device* handle = nullptr;
  gd_error error{};
  if (cpu::table()->open(0, options.c_str(), &handle, &error) != GD_OK) return nullptr;
  static auto* const kept = new std::vector<std::unique_ptr<Device>>;
  return kept->emplace_back(new Device(cpu::table(), 0, handle, name)).get();
}

const std::vector<Device*>& devices() {
  static const std::vector<Device*> all = [] {
    if (effort() == rows::Effort::full) load_module(GRADUS_LIB_DIR "/gradus_reference.so");
    load_module(GRADUS_LIB_DIR "/gradus_emu.so");
    // The emulator with waves of 32 lanes, and of 64 in reversed order.
    std::vector<Device*> list{&open_device("reference"), &open_device("cpu"), &open_device("emu"),
                              &open_device("emu:3")};
    for (const KnownKind& kind : known_kinds())
      if (kind.devices > 0 && kind.score >= 0 && kind.kind != "reference" && kind.kind != "cpu" &&
          kind.kind != "emu")
        list.push_back(&open_device(kind.kind));
    for (const char* isa : {"sse2", "avx2", "avx512", "neon64"})
      if (effort() == rows::Effort::full || std::string_view(isa) != open_device("cpu").info().arch)
        if (Device* d = cpu_variant(join("cpu with ", isa), join("{\"isa\": \"", isa, "\"}")))
          list.push_back(d);
    return list;
  }();
  return all;
}

size_t cases_of(const rows::Row& row) {
  return effort() == rows::Effort::small ? std::min<size_t>(3, row.cases.size()) : row.cases.size();
}

Call call_of(const OpInfo& op, const rows::Row& row, size_t which, DType dtype, const Tensors& in) {
  Call c{{}, dtype, &op, rows::attrs_of(op, row.cases[which].attrs)};
  for (const Tensor& t : in) {
    Host h{t.sizes(), {}};
    for (const auto& x : rows::download(t)) h.values.emplace_back(x.real(), x.imag());
    c.in.push_back(std::move(h));
  }
  return c;
}

// "" if the value agrees with the oracle.
std::string against_oracle(const OpInfo& op, const rows::Row& row, size_t which, DType dtype,
                           Device& device) {
  const DeviceScope scope(device);
  const Tensors in = rows::draw_inputs(row, which, dtype, device);
  const Call call = call_of(op, row, which, dtype, in);
  const Tensors y = rows::evaluate(op, in, call.attrs);
  const Hosts expected = oracles().at(op.name)(call);
  if (y.size() != expected.size()) return "another number of outputs";
  // Rounding more than between devices: that of the result, and of random numbers' own arithmetic.
  const bool random = op.group == "random";
  for (size_t k = 0; k < y.size(); ++k) {
    if (!(y[k].sizes() == expected[k].sizes))
      return join("output ", k, ": shape ", y[k].sizes(), ", expected ", expected[k].sizes);
    const double tolerance =
        rows::tolerance_of(row, y[k].dtype()) + (random ? 4 : 1) * rows::epsilon_of(y[k].dtype());
    const rows::Outcome o =
        rows::compare(rows::download(y[k]), stored(expected[k].values, y[k].dtype()), tolerance,
                      row.exactness.normwise || random);
    if (!o.ok())
      return join("output ", k, ": ", o.where, " (error ", o.error, " of ", o.tolerance, ")");
  }
  return "";
}

}  // namespace

TEST_CASE("op table: the worst outcome is what failed, then the larger error, NaN above all") {
  using gradus::rows::Outcome;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto worst_of = [](std::initializer_list<std::pair<double, double>> outcomes) {
    Outcome worst;
    for (const auto& [error, tolerance] : outcomes) worst.keep_worst({error, tolerance, "", true});
    return worst;
  };
  CHECK_FALSE(worst_of({{nan, 1}, {0, 1}}).ok());  // a NaN is not forgotten
  CHECK_FALSE(worst_of({{0, 1}, {nan, 1}, {9, 1}}).ok());
  CHECK_FALSE(worst_of({{1e-3, 1e-2}, {1e-4, 1e-6}}).ok());  // failed, if with the smaller error
  CHECK_FALSE(worst_of({{1e-4, 1e-6}, {1e-3, 1e-2}}).ok());
  CHECK(worst_of({{1e-3, 1e-2}, {1e-7, 1e-6}}).error == 1e-3);
  CHECK(worst_of({{1e-3, 1e-2}, {1e-7, 1e-6}}).ok());
}

TEST_CASE("op table: each op has one row and one oracle, and there is no other row") {
  std::set<std::string> ops, rows, known;
  // ops that other tests added as a user would have rows, and their tests know their values
  for (const OpInfo& op : all_ops())
    if (!op.user) ops.insert(op.name);
  for (const rows::Row& row : rows::all_rows())
    if (!get_op(row.name).user) CHECK_MESSAGE(rows.insert(row.name).second, row.name);
  for (const auto& [name, oracle] : oracles()) known.insert(name);
  CHECK(ops == rows);
  CHECK(ops == known);
}

TEST_CASE("op table: rows fit the ops they are of") {
  for (const rows::Row& row : rows::all_rows()) {
    const OpInfo& op = get_op(row.name);
    CHECK_MESSAGE(!row.cases.empty(), row.name);
    CHECK_MESSAGE(std::string_view(row.exactness.reason) != "", row.name);
    for (const rows::Case& c : row.cases) {
      const bool list = !op.operands.empty() && op.operands.back().variadic;
      CHECK_MESSAGE(c.shapes.size() >= op.least_operands(), row.name);
      CHECK_MESSAGE((list || c.shapes.size() <= op.operands.size()), row.name);
      CHECK_NOTHROW_MESSAGE(rows::attrs_of(op, c.attrs), row.name);
    }
  }
}

TEST_CASE("op table: values agree with the oracles on every device") {
  for (Device* device : devices()) {
    // Under sanitizers on one: the next test compares the others with it.
    if (effort() == rows::Effort::small && device->kind() != "reference") continue;
    for (const OpInfo& op : all_ops()) {
      if (op.user) continue;
      const rows::Row& row = rows::row_of(op.name);
      for (size_t c = 0; c < cases_of(row); ++c)
        for (const DType dtype : rows::dtypes_of_case(row, c)) {
          std::string wrong;
          try {
            wrong = against_oracle(op, row, c, dtype, *device);
          } catch (const Error& e) {
            if (!rows::is_absence(row, e)) wrong = e.what();
          }
          CHECK_MESSAGE(wrong == "", join(op.name, " on ", device->name(), ", case ", c, ", ",
                                          dtype, ": ", wrong));
        }
    }
  }
}

TEST_CASE("op table: every mode on every device") {
  Device& reference = open_device("reference");
  for (Device* device : devices())
    for (const OpInfo& op : all_ops()) {
      // Under sanitizers derivatives are taken on one device: they are made of ops, which run on
      // all.
      const bool again = effort() == rows::Effort::small && device->name() != "cpu";
      const rows::CheckResult result =
          rows::check_op(op.name, *device, &reference, again ? rows::Effort::values : effort());
      for (const rows::ModeResult& m : result.modes)
        CHECK_MESSAGE(m.worst.ok(),
                      join(op.name, " on ", device->name(), ", ", m.mode, ": ", m.worst.where,
                           " (error ", m.worst.error, " of ", m.worst.tolerance, ")"));
    }
}

TEST_CASE("op table: differentiable ops ran all derivative modes, the others none") {
  Device& reference = open_device("reference");
  for (const OpInfo& op : all_ops()) {
    std::set<std::string> modes;
    for (const rows::ModeResult& m :
         rows::check_op(op.name, reference, nullptr, rows::Effort::small).modes)
      modes.insert(m.mode);
    for (const char* mode : {"vjp", "jvp", "dot", "second"})
      CHECK_MESSAGE(modes.contains(mode) == op.differentiable, op.name, ": ", mode);
    CHECK_MESSAGE(modes.contains("repeat"), op.name);
    CHECK_MESSAGE(modes.contains("moments") == !rows::row_of(op.name).moments.empty(), op.name);
  }
}

TEST_CASE("op table: 1 and 3 threads give the same bits on every row and on large operands") {
  Device* one = cpu_variant("cpu with 1 thread", R"({"threads": 1})");
  Device* three = cpu_variant("cpu with 3 threads", R"({"threads": 3})");
  REQUIRE(one);
  REQUIRE(three);
  for (const OpInfo& op : all_ops()) {
    // Large enough to be split: the first case's shapes would never be.
    rows::Row row = rows::row_of(op.name);
    const int64_t n = effort() == rows::Effort::small ? 40 : 150;
    if (op.group == "pointwise")
      row.cases.push_back(
          {std::vector<Shape>(op.operands.size(), Shape{n, 2 * n + 1}), row.cases[0].attrs});
    if ((op.group == "reduction" && op.name != "sum_to") || op.group == "softmax")
      row.cases.push_back({{{n, 3 * n + 1}}, row.cases[0].attrs});
    if (op.name == "matmul" || op.name == "mm") row.cases.push_back({{{n, n + 3}, {n + 3, n + 1}}});
    for (size_t c = 0; c < row.cases.size(); ++c)
      for (const DType dtype : rows::dtypes_of_case(row, c)) {
        const rows::Outcome o = rows::check_same_bits(row, c, dtype, *one, *three);
        CHECK_MESSAGE(o.ok(), op.name, ", ", o.where);
      }
  }
}

TEST_CASE("op table: bad inputs are refused in words") {
  for (Device* device : {&open_device("cpu"), &open_device("reference")}) {
    const DeviceScope scope(*device);
    for (const BadInput& bad : bad_inputs()) {
      const OpInfo& op = get_op(bad.op);
      std::string message = "no error";
      bool kind = false;
      try {
        Tensors in;
        for (const auto& [dtype, shape] : bad.operands)
          in.push_back(Tensor::full(shape, 1.0, dtype));
        op.call(in, rows::attrs_of(op, bad.attrs));
      } catch (const Error& e) {
        message = e.what();
        kind = e.kind() == bad.kind;
      }
      CHECK_MESSAGE(message.find(bad.message) != std::string::npos, op.name, " on ", device->name(),
                    ": \"", message, "\" lacks \"", bad.message, "\"");
      CHECK_MESSAGE(kind, op.name, " on ", device->name(), ": error of another kind: ", message);
    }
  }
}

TEST_CASE("op table: the modes find what is wrong") {
  // A row that claims exactness of an inexact op must fail; so must one whose kink is drawn.
  Device &cpu = open_device("cpu"), &reference = open_device("reference");
  rows::Row row = rows::row_of("exp");
  row.exactness.ulps = 0;
  CHECK_FALSE(rows::check_value(row, 3, DType::f64, cpu, reference).ok());
  rows::Row relu = rows::row_of("relu");
  relu.operands = {rows::between(-1e-4, 1e-4)};
  CHECK_FALSE(rows::check_vjp(relu, 0, cpu).ok());
  CHECK_FALSE(rows::check_jvp(relu, 0, cpu).ok());
  rows::Row other = rows::row_of("uniform");
  other.moments[0].mean = 0.52;
  CHECK_FALSE(rows::check_moments(other, 0, cpu).ok());
  CHECK_FALSE(rows::compare({std::nan("")}, {1.0}, 1e9, false).ok());
  CHECK_FALSE(rows::compare({1e-30}, {0.0}, 1e9, false).ok());
}
