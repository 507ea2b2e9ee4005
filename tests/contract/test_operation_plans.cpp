// Plans of the five kinds by hand: what they refuse, D over its operands, workspaces, the cache,
// chains against calls one by one, the heap.
#include "bindings/heap/heap.hpp"
#include "engine/forward.hpp"
#include "ops/contract/operations/operation.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/kinds.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

using Kind = OperationKind;

OperandModes matrix(Ints modes, DType dtype = DType::f64, const char* op = "") {
  return {modes, Shape(modes.size(), 2), dtype, {op}};
}
const OperandModes kAB = matrix({'a', 'b'});
OperationDesc binary_of(const OperandModes& a, const OperandModes& c, const char* x = "add") {
  return {Kind::binary, {a, c}, {'a', 'b'}, {x}};
}

}  // namespace

TEST_CASE("operations: what a plan refuses, by kind, operand and mode") {
  const auto refusal = [](const OperationDesc& d) {
    return error_of([&] { Operation(d, default_device()); });
  };
  const OperandModes long_b{{'b', 'c'}, {3, 2}, DType::f64};
  CHECK(refusal({Kind::contraction, {kAB, long_b}, {'a', 'c'}}) ==
        "contraction: mode b is 2 in A and 3 in B");
  CHECK(refusal({Kind::contraction, {kAB, {{'b', 'b'}, {2, 3}, DType::f64}}, {'a'}}) ==
        "contraction: mode b is 2 in A and 3 in B");
  CHECK(refusal({Kind::contraction, {kAB}, {'a'}}) == "contraction: takes 2 or 3 operands, got 1");
  CHECK(refusal({Kind::contraction, {kAB, kAB, matrix({'a', 'x'})}, {'a', 'b'}}) ==
        "contraction: mode x of C is not in D");
  CHECK(refusal({Kind::contraction, {kAB, kAB}, {'a', 5}}) ==
        "contraction: mode 5 of D is in no operand");
  CHECK(refusal({Kind::reduction, {kAB, matrix({'a', 'x'})}, {'a', 'x'}, {"sum"}}) ==
        "reduction: mode x of D is in no operand that is reduced");
  CHECK(refusal({Kind::reduction, {kAB}, {'a'}, {"maximum"}}) ==
        "reduction: no reduction \"maximum\"; expected sum, prod, max or min");
  CHECK(refusal({Kind::reduction, {matrix({'a'}, DType::i32)}, {}, {"sum"}}) ==
        "reduction: A is i32, whose sum leaves it; cast it to i64");
  CHECK(refusal({Kind::reduction, {{{'a'}, {0}, DType::f64}}, {}, {"max"}}) ==
        "reduction: no max of nothing: A has shape (0,)");
  CHECK(refusal({Kind::reduction, {matrix({'a'}, DType::c64)}, {}, {"max"}}).find("reduction: ") ==
        0);
  CHECK(refusal({Kind::permutation, {kAB}, {'b', 'b'}}) == "permutation: mode a of A is not in D");
  CHECK(refusal({Kind::permutation, {kAB}, {'a', 'b', 'a'}}) ==
        "permutation: a mode of D is repeated");
  CHECK(refusal(binary_of(kAB, matrix({'a', 'b'}, DType::f32))) ==
        "binary: C is f32, A is f64; all are of one dtype");
  CHECK(refusal(binary_of(kAB, {{'a'}, {2, 2}, DType::f64})) ==
        "binary: C has 1 modes for the shape (2, 2)");
  CHECK(refusal(binary_of(kAB, kAB, "neg")).find("binary: x: neg is no function of two operands") ==
        0);
  CHECK(refusal(binary_of(kAB, kAB, "lt")) ==
        "binary: x: lt is no function of two operands whose value has their dtype");
  CHECK(refusal(binary_of(kAB, kAB, "")) == "binary: x: no statement \"\" of two operands");
  CHECK(refusal(binary_of(matrix({'a'}, DType::f64, "rleu"), kAB)) ==
        "binary: A: no statement \"rleu\" of one operand; did you mean \"relu\"?");
  CHECK(refusal(binary_of(matrix({'a'}, DType::c128, "abs"), matrix({'a', 'b'}, DType::c128))) ==
        "binary: A: abs gives no c128 of c128");
  CHECK(refusal(binary_of({{'a'}, {2}, DType::f64, {"clamp", {1}}}, kAB)) ==
        "binary: A: clamp has 2 parameters, got 1");
  CHECK(refusal(binary_of({{'a'}, {-2}, DType::f64}, kAB)).find("negative size") !=
        std::string::npos);
}

TEST_CASE("operations: what execute() refuses") {
  const Operation plan(binary_of(kAB, kAB), default_device());
  const Tensor x = f64({1, 2, 3, 4}, {2, 2}), row = f64({1, 2}, {2});
  const auto refusal = [&](Tensors in, Tensor into = {}, Tensor workspace = {}, Factors f = {}) {
    return error_of([&] { plan.execute(in, f, into, workspace); });
  };
  CHECK(refusal({x, x}) == "");
  CHECK(refusal({x}) == "binary: the plan is for 2 operands, got 1");
  CHECK(refusal({x, row}) == "binary: the plan is for C of shape (2, 2), got (2,)");
  CHECK(refusal({x, cast(x, DType::f32)}) == "binary: the plan is for f64, C is f32");
  CHECK(refusal({Tensor(), x}) == "binary: A is undefined, its factor is not 0");
  CHECK(refusal({Tensor(), x}, {}, {}, {.alpha = 0}) == "");
  CHECK(refusal({x, x}, row) == "binary: the plan is for D of shape (2, 2), got (2,)");
  CHECK(refusal({x, x}, expand(row, {2, 2})).find("overlaps itself") != std::string::npos);
  CHECK(
      refusal({x, x}, {}, f64({1}, {1})).find("binary: the workspace has shape (1,), expected ") ==
      0);
  CHECK(refusal({x, x}, {}, {}, {.gamma = {1, 1}}) ==
        "binary: gamma has an imaginary part, the operands are f64");
  const Tensor w = leaf(f64({1, 2, 3, 4}, {2, 2}));
  CHECK(refusal({x, w}).find("binary: C asks for a derivative") == 0);
  CHECK(refusal({x, x}, w).find("binary: a leaf that requires a gradient is written") == 0);
  {
    const NoGrad off;
    CHECK(refusal({x, w}) == "");
    const Operation whole({Kind::permutation, {matrix({'a'}, DType::i64)}, {'a'}},
                          default_device());
    CHECK(error_of([&] {
            whole.execute({{i64({1, 2}, {2})}}, {.alpha = 0.5});
          }) == "permutation: alpha is 0.5, the operands are i64");
    ForwardLevel level;
    level.set_tangent(x, x);
    CHECK(refusal({x, x}).find("binary: A asks for a derivative") == 0);
  }
  if (Device& other = open_device("reference"); &other != &default_device())
    CHECK(refusal({x, to_device(x, other)}) ==
          "binary: the plan is for " + default_device().name() + ", C lives on reference");
}

TEST_CASE("operations: D may lie over its operands in any way") {
  for (Device* device : one_of_each_kind()) {
    const DeviceScope scope(*device);
    const Tensor x = f64({1, 2, 3, 4}, {2, 2});
    const Operation turn({Kind::permutation, {kAB}, {'b', 'a'}}, *device);
    turn.execute({{x}}, {.alpha = 2}, x);
    CHECK(values(x) == std::vector<double>{2, 6, 4, 8});
    const Operation square({Kind::contraction, {kAB, matrix({'b', 'c'})}, {'a', 'c'}}, *device);
    square.execute({{x, x}}, {}, x);
    CHECK(values(x) == std::vector<double>{28, 60, 40, 88});
    const Tensor line = f64({1, 2, 3, 4, 5}, {5});
    const OperandModes four{{'a'}, {4}, DType::f64};
    const Operation shift({Kind::binary, {four, four}, {'a'}, {"add"}}, *device);
    shift.execute({{slice(line, 0, 0, 4), slice(line, 0, 1, 5)}}, {}, slice(line, 0, 1, 5));
    CHECK(values(line) == std::vector<double>{1, 3, 5, 7, 9});
    // A clone shares its memory until it is written.
    const Tensor kept = clone(line);
    const Operation twice({Kind::permutation, {{{'a'}, {5}, DType::f64}}, {'a'}}, *device);
    twice.execute({{line}}, {.alpha = 2}, line);
    CHECK(values(line) == std::vector<double>{2, 6, 10, 14, 18});
    CHECK(values(kept) == std::vector<double>{1, 3, 5, 7, 9});
  }
}

TEST_CASE("operations: conj is a flag, and what is plain needs no workspace") {
  for (Device* device : one_of_each_kind()) {
    const OperandModes a = matrix({'a', 'b'}, DType::c64, "conj"),
                       b = matrix({'b', 'c'}, DType::c64);
    const auto bytes = [&](const OperationDesc& d) {
      return Operation(d, *device).workspace_bytes();
    };
    CHECK(bytes({Kind::contraction,
                 {a, b, matrix({'c'}, DType::c64, "conj")},
                 {'a', 'c'},
                 {},
                 {},
                 {"exp"}}) == 0);
    // 4 elements of 8 bytes, to the next 64.
    CHECK(bytes({Kind::contraction, {matrix({'a', 'b'}, DType::c64, "exp"), b}, {'a', 'c'}}) == 64);
  }
}

TEST_CASE("operations: a mode of one operand alone is summed before the others meet it") {
  // Else the work would be 2^36.
  const int64_t n = 512;
  const Operation plan({Kind::contraction,
                        {{{'a', 'x'}, {n, n}, DType::f64}, {{'y', 'b'}, {n, n}, DType::f64}},
                        {'a', 'b'}},
                       default_device());
  const Tensor one = expand(f64({1}, {1, 1}), {n, n});
  CHECK(values(select(select(plan.execute({{one, one}}), 0, 5), 0, 7)) ==
        std::vector<double>{double(n * n)});
}

TEST_CASE("operations: plans are kept by all that makes them") {
  const OperationDesc d = binary_of(kAB, kAB);
  const auto plan = operation(d);
  CHECK(operation(d) == plan);
  std::vector<OperationDesc> others(7, d);
  others[0].combine.name = "mul";
  others[1].operands[1].op.name = "exp";
  others[2].operands[0].sizes = others[2].operands[1].sizes = {2, 3};
  others[3].modes = {'b', 'a'};
  others[4].operands[0].dtype = others[4].operands[1].dtype = DType::f32;
  others[5].after = {"clamp", {0, 1}};
  others[6].after = {"clamp", {0, 2}};
  for (const OperationDesc& other : others) CHECK(operation(other) != plan);
  CHECK(operation(others[5]) != operation(others[6]));
  CHECK(operation(d, open_device("emu")) != operation(d, open_device("reference")));
  CHECK(operation(d) == plan);
}

TEST_CASE("operations: one by one or as a chain, the bits are the same") {
  struct Counts : KernelWrapper {
    int calls = 0, chains = 0;
    gd_status call(const gd_call& c, Next next, gd_error& e) override {
      ++calls;
      chains += c.slot == GD_CHAIN;
      return next(e);
    }
  };
  const Ints d{'a', 'b'};
  for (Device* device : one_of_each_kind()) {
    const DeviceScope scope(*device);
    const auto operand = [&](const char* op) {
      return OperandModes{d, {13, 29}, DType::f32, {op}};
    };
    const Operation plan({Kind::trinary,
                          {operand("exp"), operand("sigmoid"), operand("tanh")},
                          d,
                          {"mul"},
                          {"sub"},
                          {"relu"}},
                         *device);
    Tensors in;
    for (int k = 0; k < 3; ++k) {
      std::vector<float> v;
      for (int i = 0; i < 13 * 29; ++i) v.push_back(float(std::sin(i + k)));
      in.push_back(Tensor::from(v, {13, 29}));
    }
    const Factors f{0.3, -1.7, 0.9};
    const auto whole = plan.execute(in, f).to_vector<float>();
    Counts counts;
    const WrapperScope wrapped(*device, counts);
    CHECK(plan.execute(in, f).to_vector<float>() == whole);
    CHECK(counts.chains == 0);  // a device that does not have them may do the calls
    CHECK(counts.calls >= 9);
  }
}

TEST_CASE("operations: with all memory given, a plan is carried out without the heap") {
  const DeviceScope scope(open_device("reference"));  // the CPU's chains take a block for each call
  const OperandModes column = matrix({'a'}), bc = matrix({'b', 'c'});
  const Ints ab{'a', 'b'}, ac{'a', 'c'};
  const OperationDesc all[] = {
      {Kind::contraction, {matrix(ab, DType::f64, "exp"), bc, matrix(ac)}, ac, {}, {}, {"relu"}},
      {Kind::reduction, {kAB, column}, {'a'}, {"sum"}},
      {Kind::permutation, {kAB}, {'b', 'a'}},
      binary_of(kAB, kAB),
      {Kind::trinary, {kAB, column, kAB}, ab, {"mul"}, {"add"}}};
  for (const OperationDesc& desc : all) {
    CAPTURE(std::string(kind_info(desc.kind).name));
    const Operation plan(desc, default_device());
    Tensors in;
    for (const OperandModes& o : desc.operands)
      in.push_back(Tensor::full(o.sizes, 0.5, DType::f64));
    const Tensor out = Tensor::empty(plan.sizes(), DType::f64), workspace = plan.workspace();
    const Factors f{2, 3, 4};
    plan.execute(in, f, out, workspace);
    bool refused = false;
    try {
      const heap::Bounded none(1);  // every block is refused
      plan.execute(in, f, out, workspace);
    } catch (const std::exception&) {
      refused = true;
    }
    CHECK_FALSE(refused);
  }
}
