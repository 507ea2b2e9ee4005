// Where a NaN was born, forward and backward, why a parameter gets no gradient or zeros alone, and
// `gradus audit`.
#include "ops/audit/judge/audit.hpp"
#include "ops/audit/step/stepper.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/io_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace gradus;
using namespace gradus::audit;
using gradus::testing::f32;
using gradus::testing::f64;
using gradus::testing::leaf;

TEST_CASE("audit: the birth of a NaN, with element and operands") {
  {
    const Watch watch;
    const Tensor x = leaf(f64({4, 1, -9, 0}, {2, 2}));
    const Trace here("step 3");
    const Tensor loss = sum(exp(neg(sqrt(x))));
    const auto b = birth(watch);
    REQUIRE(b);
    CHECK(b->call->op->name == "sqrt");
    CHECK(b->element == Shape{1, 0});
    CHECK(b->call->where == "step 3");
    CHECK(b->text ==
          "sqrt gives nan in element (1, 0) from finite operands: operand 0 is -9 there");
  }
  {  // inf - inf: back to where the infinity comes from
    const Watch watch;
    const Tensor x = leaf(f32({1, 200}, {2}));
    const Tensor e = exp(x);
    sub(e, mul(e, 1.0));
    const auto b = birth(watch);
    REQUIRE(b);
    CHECK(b->call->op->name == "exp");
    CHECK(b->element == Shape{1});
  }
  {  // from outside
    const Watch watch;
    const Tensor x = leaf(f32({1, NAN}, {2}));
    sin(cos(x));
    const auto b = birth(watch);
    REQUIRE(b);
    CHECK(b->call->op->name == "cos");
    CHECK(b->from_outside);
    CHECK(b->element == Shape{1});
  }
  const Watch watch;  // a mask of -inf is no NaN
  const Tensor x = leaf(f32({1, 2}, {2}));
  softmax(masked_fill(x, Tensor::from_host("\1\0", {2}, DType::bool_), -INFINITY), 0);
  CHECK(!birth(watch));
  CHECK(birth(watch, true)->call->op->name == watch.calls()[0].op->name);
}

TEST_CASE("audit: the birth of a NaN in backward") {
  const Watch watch;
  const Tensor x = leaf(f64({4, 0, 9}, {3}));
  const Tensor half = mul(x, 1.0);
  const Tensor loss = sum(mul(sqrt(half), f64({1, 0, 1}, {3})));
  CHECK(!birth(watch));
  const auto b = birth_in_backward(watch, {loss});
  REQUIRE(b);
  CHECK(b->call->op->name == "sqrt");
  CHECK(b->operand == 0);
  CHECK(b->element == Shape{1});
  CHECK(b->text ==
        "the vjp of sqrt gives nan for operand 0 element (1,) from finite cotangents: operand 0 is "
        "0 there");
  CHECK(!x.grad().defined());
  const Tensor fine = sum(exp(x));
  CHECK(!birth_in_backward(watch, {fine}));
  // An infinity that becomes a NaN two nodes on.
  const Tensor y = sum(log(mul(mul(x, x), 2.0)));
  const auto from = birth_in_backward(watch, {y});
  REQUIRE(from);
  CHECK(from->call->op->name == "log");
  CHECK(std::isinf(from->value));
}

TEST_CASE("audit: the command") {
  const test::TempFolder folder;
  const auto config =
      [&](const char* name, const std::string& layers) {
        std::ofstream(folder / name)
            << R"({"experiment": "network", "data": {"name": "digits", "train": 32, "test": 10},
             "model": {"layers": [)"
            << layers << R"(]}, "batch_size": 16, "epochs": 1})";
      };
  config("right.json", R"({"linear": 8}, "tanh", {"linear": 10})");
  const test::ProgramRun right = test::run(folder,
                                           "audit right.json --against reference --json --fail-on "
                                           "nan,mismatch,unreached");
  CHECK(right.code == 0);
  CHECK(right.err == "");
  std::istringstream lines(right.out);
  nlohmann::json last;
  int nodes = 0;
  for (std::string line; std::getline(lines, line);) {
    last = nlohmann::json::parse(line);
    if (last["event"] != "node") continue;
    ++nodes;
    CHECK(last["bad"] == false);
    CHECK(last["error"].get<double>() <= last["tolerance"].get<double>());
  }
  CHECK(last["event"] == "result");
  CHECK(last["nodes"] == nodes);
  CHECK(last["ok"] == true);
  CHECK(nodes > 8);

  config("nan.json", R"({"linear": 8}, "log", {"linear": 10})");
  const test::ProgramRun nan = test::run(folder, "audit nan.json");
  CHECK(nan.code == 5);
  CHECK(nan.out.find("\nNaN: log gives nan in element (") != std::string::npos);
  CHECK(nan.out.find("at layers[1] log") != std::string::npos);
  CHECK(test::run(folder, "audit nan.json --fail-on mismatch").code == 0);

  // What counts is what came of it: a NaN though it began as an infinity, an infinity that arrives;
  // one that a mask uses is no fault.
  const auto script = [&](const std::string& y) {
    std::ofstream(folder / "y.lua")
        << "local x = gradus.tensor({0.5, 0.0, 3.0}, {requires_grad = true});\n(" + y +
               "):backward()\n";
    return test::run(folder, "audit y.lua");
  };
  const test::ProgramRun product_of = script("((1 / x) * x):sum()");
  CHECK(product_of.code == 5);
  CHECK(product_of.out.find("\nNaN: div gives inf in element (1,)") != std::string::npos);
  const test::ProgramRun root = script("x:sqrt():sum()");
  CHECK(root.code == 0);
  CHECK(root.out.find("\ninfinite: the vjp of sqrt gives inf for operand 0 element (1,)") !=
        std::string::npos);
  CHECK(test::run(folder, "audit y.lua --fail-on inf").code == 5);
  CHECK(script("gradus.where(x:gt(1), -1/0, x):exp():sum()").out.find("infinite") ==
        std::string::npos);

  CHECK(test::run(folder, "audit nan.json --fail-on what").code == 2);
  // What would have no effect is refused.
  for (const char* flags :
       {"--fail-on ''", "--ledger --fail-on nan", "--cost --fail-on mismatch",
        "--cost --against cpu", "--health --fail-on nan", "--versions --fail-on nan",
        "--accounting --fail-on nan", "--explain %0 --fail-on nan", "--top 3", "--element 0",
        "--backward 2", "--arg 1", "--unsafe", "--max-seconds 3", "--max-memory 1GiB",
        "--max-instructions 9"}) {
    CAPTURE(flags);
    const test::ProgramRun r = test::run(folder, std::string("audit nan.json ") + flags);
    CHECK(r.code == 2);
    CHECK(r.out == "");
    CHECK(r.err.find("gradus: --") == 0);
  }
  CHECK(test::run(folder, "audit none.json").code == 3);
  CHECK(test::run(folder, "audit").code == 2);

  std::ofstream(folder / "product.json")
      << R"({"experiment": "contraction", "expression": "ij,jk->ik", "sizes": {"i": 3, "j": 4, "k": 5}})";
  const test::ProgramRun product = test::run(folder, "audit product.json");
  CHECK(product.code == 0);
  CHECK(product.out.find("contract") != std::string::npos);
}

TEST_CASE("audit: why a parameter gets no gradient") {
  Tensors p;
  for (int i = 0; i < 6; ++i) p.push_back(leaf(f64({0.5, 2, 1 + double(i)}, {3})));
  const Watch watch;
  Tensor loss = sum(mul(p[0], p[0]));
  loss = add(loss, sum(sin(exp(p[1]).detach())));
  {
    const NoGrad off;
    loss.detach();
    cos(p[2]);
  }
  argmax(p[3], 0);
  tanh(p[4]);
  const auto cut = unreached(watch, {loss}, p);
  REQUIRE(cut.size() == 5);
  CHECK(cut[0].which == 1);
  CHECK(cut[0].why.starts_with("cut by a detach, before sin"));
  CHECK(cut[1].why.starts_with("cut by no_grad, in cos"));
  CHECK(cut[2].why.find("has no derivative") != std::string::npos);
  CHECK(cut[3].why == "the result of tanh does not reach the root");
  CHECK(cut[4].why == "no op reads it");
  CHECK(unreached(watch, {p[5]}, {p[5]}).empty());  // a root itself
}

TEST_CASE("audit: values of a matrix are seen where nothing asks for their derivative") {
  const Tensor p = leaf(f64({2, 1, 1, 3}, {2, 2})), q = leaf(f64({2, 1, 1, 3}, {2, 2}));
  const Watch watch;
  {
    const NoGrad off;
    svdvals(p);
  }
  const Tensor loss = sum(eigvalsh(q.detach()));
  const auto cut = unreached(watch, {loss}, {p, q});
  REQUIRE(cut.size() == 2);
  CHECK(cut[0].why.starts_with("cut by no_grad, in svd"));
  CHECK(cut[1].why.starts_with("cut by a detach, before eigh"));
}

TEST_CASE("audit: who makes a gradient of zeros") {
  const Tensor dead = leaf(f64({-1, -2}, {2})), below = leaf(f64({0.5, 1}, {2})),
               twice = leaf(f64({3, 4}, {2})), alive = leaf(f64({1, 2}, {2})),
               empty = leaf(f64({}, {0}));
  const Watch watch;  // notes places
  Tensor loss = sum(mul(relu(dead), alive));
  {
    const Trace trace("layer 2");
    loss = add(loss, sum(relu(neg(exp(below)))));
  }
  loss = add(loss, add(sum(sub(twice, twice)), sum(exp(empty))));
  loss = add(loss, sum(exp(alive)));
  const std::vector<std::pair<std::string, Tensor>> names{
      {"dead", dead}, {"below", below}, {"twice", twice}, {"alive", alive}, {"empty", empty}};
  audit::Stepper stepper({loss}, names);
  stepper.run({});
  const auto zero = audit::zero_gradients(watch, stepper);
  REQUIRE(zero.size() == 3);
  CHECK(zero[0].which == 0);
  CHECK(zero[0].why == "its gradient is 0 everywhere: the vjp of %0 relu gives zeros");
  CHECK(zero[1].why == "its gradient is 0 everywhere: the vjp of %5 relu at layer 2 gives zeros");
  CHECK(zero[2].why == "its gradient is 0 everywhere: what is added up for twice cancels");
  audit::Stepper nothing({loss}, names, {f64({0}, {})});
  nothing.run({});
  const auto seed = audit::zero_gradients(watch, nothing);
  REQUIRE(seed.size() == 4);
  CHECK(seed[3].why == "its gradient is 0 everywhere: backward begins with zeros");

  const test::TempFolder folder;
  folder.write("dead.lua",
               "local w = gradus.tensor({-1.0, -2.0}, {requires_grad = true})\n"
               "local b = gradus.tensor({1.0, 2.0}, {requires_grad = true})\n"
               "gradus.relu(w):add(b):sum():backward()\n");
  const test::ProgramRun said = test::run(folder, "audit dead.lua");
  CHECK(said.code == 0);
  CHECK(said.out.find("zero: w: its gradient is 0 everywhere: the vjp of %0 relu at ") !=
        std::string::npos);
  CHECK(test::run(folder, "audit dead.lua --fail-on zero").code == 5);
  CHECK(test::run(folder, "audit dead.lua --fail-on zero --json").out.find(R"("event":"zero")") !=
        std::string::npos);
}
