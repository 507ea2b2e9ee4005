// Operations of five kinds through the C door: each kind by a hand-made case, factors, workspace,
// results in given memory, and what is refused.
#include "tests/helpers/c_door.hpp"

namespace c_door {

namespace {

using Modes = std::vector<int32_t>;

// A descriptor with what it points to.
struct Desc {
  struct Part {
    Modes modes;
    Shape64 sizes;
    const char* op = nullptr;
    Doubles parameters = {};
  };
  Desc(int32_t kind, std::vector<Part> all, Modes d, const char* x = nullptr,
       const char* y = nullptr, const char* after = nullptr)
      : parts(std::move(all)), out(std::move(d)) {
    for (const Part& p : parts)
      operands.push_back({sizeof(gradus_operand), GRADUS_F64, p.modes.data(), p.sizes.data(),
                          p.sizes.size(), p.op, p.parameters.data(), p.parameters.size()});
    raw = {sizeof raw, kind, operands.data(), operands.size(), out.data(), out.size(), x, y, after};
  }
  Desc(const Desc&) = delete;
  Own plan(Place at = Place::current()) const {
    Own p;
    ok(gradus_operation_create(&raw, p.out()), at);
    return p;
  }
  std::vector<Part> parts;
  Modes out;
  std::vector<gradus_operand> operands{};
  gradus_operation_desc raw{};
};

Doubles run(gradus_operation plan, const std::vector<gradus_tensor>& in, const double* factors,
            Place at = Place::current()) {
  Own y;
  ok(gradus_operation_execute(plan, in.data(), in.size(), factors, 0, 0, y.out()), at);
  return values(y);
}
gradus_operation_info describe(gradus_operation plan) {
  gradus_operation_info info{};
  info.struct_size = sizeof info;
  ok(gradus_operation_describe(plan, &info));
  return info;
}

}  // namespace

TEST_CASE("c operations: each of the five kinds") {
  const Balance balance;
  const Own a = tensor({1, 2, 3, 4}, {2, 2}), b = tensor({1, 0, -2, 1}, {2, 2}),
            c = tensor({10, 20}, {2});
  const double factors[6] = {2, 0, 0.5, 0, -1, 0};  // alpha, beta, gamma
  const Desc contraction(GRADUS_CONTRACTION, {{{1, 2}, {2, 2}}, {{2, 3}, {2, 2}}, {{3}, {2}}},
                         {3, 1}, nullptr, nullptr, "relu");
  // a b = {-3, 2; -5, 4}; twice its transpose plus half of c, down the rows
  CHECK(run(contraction.plan(), {a, b, c}, factors) == Doubles{0, 0, 14, 18});
  const Desc reduction(GRADUS_REDUCTION, {{{1, 2}, {2, 2}, "square"}, {{1}, {2}}}, {1}, "max");
  CHECK(run(reduction.plan(), {a, c}, factors) == Doubles{2 * 4 + 5, 2 * 16 + 10});
  const Desc permutation(GRADUS_PERMUTATION, {{{7, -7}, {2, 2}, "clamp", {2, 3}}}, {-7, 7});
  CHECK(run(permutation.plan(), {a}, nullptr) == Doubles{2, 3, 2, 3});
  const Desc binary(GRADUS_BINARY, {{{1, 2}, {2, 2}}, {{2}, {2}, "neg"}}, {1, 2}, "maximum");
  CHECK(run(binary.plan(), {a, c}, factors) == Doubles{10, 20, 10, 20});
  const Desc trinary(GRADUS_TRINARY, {{{1, 2}, {2, 2}}, {{2, 1}, {2, 2}}, {{1}, {2}}}, {1, 2},
                     "mul", "add");
  // 2 a times half of b's transpose, minus c along the rows
  CHECK(run(trinary.plan(), {a, b, c}, factors) == Doubles{1 - 10, -4 - 10, 0 - 20, 4 - 20});
}

TEST_CASE("c operations: what is not read, given memory, workspaces") {
  const Balance balance;
  const Desc binary(GRADUS_BINARY, {{{1, 2}, {2, 2}, "exp"}, {{1, 2}, {2, 2}}}, {1, 2}, "add");
  const Own plan = binary.plan(), a = tensor({0, 0, 0, 0}, {2, 2}),
            c = tensor({1, 2, 3, 4}, {2, 2});
  const double second_alone[6] = {0, 0, 0, 0, 3, 0};
  CHECK(run(plan, {0, c}, second_alone) == Doubles{3, 6, 9, 12});
  const gradus_operation_info info = describe(plan);
  CHECK(info.dtype == GRADUS_F64);
  CHECK(info.workspace_bytes == 8 * uint64_t(info.workspace_elements));
  Own workspace;
  ok(gradus_zeros(&info.workspace_elements, 1, info.dtype, workspace.out()));
  const gradus_tensor in[2] = {a, c};
  ok(gradus_operation_execute(plan, in, 2, nullptr, workspace, c, nullptr));  // in place
  CHECK(values(c) == Doubles{2, 3, 4, 5});
  const Desc product(GRADUS_CONTRACTION, {{{1, 2}, {2, 2}, "conj"}, {{2, 3}, {2, 2}}}, {1, 3});
  CHECK(describe(product.plan()).workspace_bytes == 0);
}

TEST_CASE("c operations: what is refused") {
  const Balance balance;
  Own plan;
  const auto create = [&](const Desc& d) { return gradus_operation_create(&d.raw, plan.out()); };
  const Desc::Part square{{1, 2}, {2, 2}};
  refused(create({5, {square}, {1, 2}}), GRADUS_VALUE,
          "gradus_operation_create: kind 5 is none; expected GRADUS_CONTRACTION ... "
          "GRADUS_TRINARY");
  refused(create({GRADUS_BINARY, {square, {{2, 3}, {2, 2}}}, {1, 2}, "add"}), GRADUS_VALUE,
          "binary: mode 3 of C is not in D");
  refused(create({GRADUS_CONTRACTION, {square, {{2, 3}, {3, 2}}}, {1, 3}}), GRADUS_SHAPE,
          "contraction: mode 2 is 2 in A and 3 in B");
  refused(create({GRADUS_PERMUTATION, {square, square}, {1, 2}}), GRADUS_VALUE,
          "permutation: takes 1 operands, got 2");
  refused(create({GRADUS_PERMUTATION, {square, square, square, square}, {1, 2}}), GRADUS_VALUE,
          "gradus_operation_create: operands: 4 are more than 3");
  refused_with(create({GRADUS_BINARY, {square, square}, {1, 2}, "maximun"}), GRADUS_VALUE,
               "did you mean \"maximum\"?");
  refused(gradus_operation_create(nullptr, plan.out()), GRADUS_NULL,
          "gradus_operation_create: gradus_operation_desc is NULL");
  Desc sizes(GRADUS_BINARY, {square, square}, {1, 2}, "add");
  sizes.operands[1].struct_size -= 8;
  refused(create(sizes), GRADUS_VALUE,
          "gradus_operation_create: operands: all must have the same struct_size, "
          "sizeof(gradus_operand)");
  sizes.operands[1].struct_size += 8;
  ok(create(sizes));
  const Own a = tensor({1, 2, 3, 4}, {2, 2}), x = leaf({1, 2, 3, 4}, {2, 2}),
            row = tensor({1, 2}, {2});
  const auto execute = [&](gradus_tensor first, gradus_tensor second, gradus_tensor workspace = 0) {
    const gradus_tensor in[2] = {first, second};
    Own y;
    return gradus_operation_execute(plan, in, 2, nullptr, workspace, 0, y.out());
  };
  ok(execute(a, a));
  refused(execute(a, row), GRADUS_SHAPE, "binary: the plan is for C of shape (2, 2), got (2,)");
  refused(execute(0, a), GRADUS_VALUE, "binary: A is undefined, its factor is not 0");
  refused_with(execute(a, x), GRADUS_AUTOGRAD, "binary: C asks for a derivative");
  refused_with(execute(a, a, row), GRADUS_VALUE, "binary: the workspace has shape (2,), expected ");
  refused(gradus_operation_execute(plan, nullptr, 2, nullptr, 0, 0, nullptr), GRADUS_NULL,
          "gradus_operation_execute: out is NULL");
  refused(gradus_operation_describe(a, nullptr), GRADUS_HANDLE,
          "gradus_operation_describe: handle: expected the handle of an operation, got that of a "
          "tensor");
}

}  // namespace c_door
