// Lua: devices, captured steps with the bits of eager ones, plans of einsums.
#include "tests/helpers/lua_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

using namespace gradus;
using gradus::test::fails;
using gradus::test::has;
using gradus::test::Lua;
using gradus::test::ProgramRun;
using gradus::test::says;
using gradus::test::TempFolder;

namespace {

// A training loop of 8 steps, captured or not; prints each loss, and what is left of the weights.
std::string loop(const std::string& made, const std::string& body, const std::string& before = "") {
  return says(
      "gradus.seed(7) local w = gradus.randn(4, 3, {requires_grad = true}) "
      "local b = gradus.zeros(3, {requires_grad = true}) local opt = " +
      made + " local function f(x, y) " + body + " end local step = " + before + " f " +
      (before.empty() ? "" : ")") +
      " for i = 1, 8 do local n = i % 3 == 0 and 5 or 6 "
      "opt.lr = 0.1 / i local x = gradus.randn(n, 4) local loss = step(x, x:sum(2)) "
      "print(('%a'):format(loss:item()), opt.steps) end "
      "print(('%a %a'):format(w:sum():item(), b:sum():item()))");
}
const std::string kBody =
    "opt:zero_grad() local h = (x:matmul(w) + b):sigmoid() local loss = ((h:sum(2) - y) ^ "
    "2):mean() "
    "loss:backward() opt:step() return loss";

}  // namespace

TEST_CASE("lua: captured steps have the bits of eager ones") {
  for (const std::string made :
       {"gradus.optim.adam({w, b}, {lr = 0.1})", "gradus.optim.sgd({w, b}, {momentum = 0.9})"}) {
    CAPTURE(made);
    const std::string eager = loop(made, kBody);
    CHECK(loop(made, kBody, "gradus.capture(") == eager);
  }
  // With the norm clipped, with random numbers, with the gradients cleared at the end.
  const std::string made = "gradus.optim.adamw({w, b}, {lr = 0.1})";
  const std::string clipped =
      "local loss = ((x:matmul(w) + b):sum(2):sub(y) ^ 2):mean() loss:backward() "
      "opt:step{clip = 0.5} opt:zero_grad() return loss";
  CHECK(loop(made, clipped, "gradus.capture(") == loop(made, clipped));
  CHECK(says("local step = gradus.capture(function(x) return x * 2, x:sum() end) for i = 1, 4 do "
             "local a, s = step(gradus.ones(2) * i) print(a:sum():item(), s:item()) end "
             "print(step, step.replays, step.why_not, step.calls > 0)") ==
        "4.0\t2.0|8.0\t4.0|12.0\t6.0|16.0\t8.0|captured step of 2 kernel calls, replayed 2 "
        "times\t2\tnil\ttrue");
}

TEST_CASE("lua: what a captured step gives is the script's own") {
  CHECK(
      says("local step = gradus.capture(function(x) return x * 2 end) local r = {} for i = 1, 5 do "
           "r[i] = step(gradus.ones(1) * i) end for i = 1, 5 do io = (io or '') .. "
           "r[i]:item() .. ' ' end print(io)") == "2.0 4.0 6.0 8.0 10.0 ");
  // What goes in stays as it is, and what was drawn before goes on.
  CHECK(says("local step = gradus.capture(function(x) x:mul_(2) return x + gradus.rand(1) * 0 end) "
             "local x = gradus.ones(1) for i = 1, 4 do step(x) end print(x:item())") == "1.0");
  CHECK(
      says("gradus.seed(1) local step = gradus.capture(function(x) return x + gradus.rand(1) end) "
           "local seen = {} for i = 1, 6 do seen[step(gradus.zeros(1)):item()] = true end "
           "local n = 0 for _ in pairs(seen) do n = n + 1 end print(n)") == "6");
}

TEST_CASE("lua: a step that can't be captured says why, and goes on") {
  const std::string reads =
      "gradus.capture(function(x) local s = x:sum() if s:item() > 3 then s = s * 2 end return s "
      "end";
  CHECK(says("local step = " + reads +
             ") for i = 1, 4 do io = (io or '') .. step(gradus.ones(1) * i):item() .. ' ' end "
             "print(io, step.why_not, step.replays) print(step)") ==
        "1.0 2.0 3.0 8.0 \tvalues are read on the host\t0|step that runs as it is: values are read "
        "on the host");
  CHECK(has(fails("local step = " + reads +
                  ", {required = true}) for i = 1, 3 do "
                  "step(gradus.ones(1)) end"),
            "capture: the step can't be replayed: values are read on the host"));
  CHECK(has(fails("gradus.capture(3)"), "capture: expected a function, got a number"));
  CHECK(has(fails("gradus.capture(print, {requird = true})"), "did you mean \"required\"?"));
  CHECK(has(fails("gradus.capture(print)(3)"), "argument 1: expected a tensor, got a number"));
  CHECK(has(fails("gradus.capture(print)(gradus.ones(1, {requires_grad = true}))"),
            "argument 1 requires a gradient"));
  CHECK(has(fails("local s s = gradus.capture(function(x) return s(x) end) s(gradus.ones(1))"),
            "a captured step runs within another one"));
  CHECK(has(fails("gradus.capture(print).replay = 1"), "gradus.Step"));
  CHECK(has(fails("print(gradus.capture(print).replay)"), "has no \"replay\"; replays"));
  // An optimiser that steps now and then would fall out of step.
  CHECK(
      has(fails("local w = gradus.ones(1, {requires_grad = true}) local n = 0 "
                "local opt = gradus.optim.sgd({w}, {lr = 1}) local s = gradus.capture(function(x) "
                "n = n + 1 (w * x):sum():backward() if n < 2 then opt:step() end end) "
                "s(gradus.ones(1)) s(gradus.ones(1))"),
          "an optimiser that took a step before took none now"));
  // Errors of the function pass through, and leave a step that can be called again.
  CHECK(says("local bad = true local s = gradus.capture(function(x) if bad then error('bad') end "
             "return x end) local x = gradus.ones(1) print(pcall(s, x)) bad = false s(x) s(x) s(x) "
             "print(s.replays)") == "false\ttest.lua:1: bad|1");
}

TEST_CASE("lua: captured steps keep to the script's limits") {
  lua::ScriptOptions o;
  o.limits.memory = 64u << 20;
  CHECK(
      has(fails("local s = gradus.capture(function(x) local all = {} for i = 1, 100 do all[i] = x "
                "+ i end return all[1] end) for i = 1, 3 do s(gradus.ones(1 << 20)) end",
                ErrorKind::memory, o),
          "--max-memory"));
  lua::ScriptOptions t;
  t.limits.seconds = 0.3;
  CHECK(has(fails("local s = gradus.capture(function(x) return x * 2 end) local x = gradus.ones(1) "
                  "while true do s(x) end",
                  ErrorKind::numeric, t),
            "stopped after"));
}

TEST_CASE("lua: devices by name, and why one is not there") {
  CHECK(says("print(gradus.available('cpu'), gradus.available('reference'))") == "true\ttrue");
  CHECK(says("local is, why = gradus.available('cuda:99') print(is, type(why))") ==
        "false\tstring");
  CHECK(has(says("print(select(2, gradus.available('cuda:99')))"),
            "device \"cuda:99\" is not available: "));
  CHECK(has(fails("gradus.available('cpo')"), "unknown device \"cpo\""));
  CHECK(has(fails("gradus.available()"), "expected the name of a device such as \"cuda\""));
  CHECK(has(fails("gradus.available('./x.json')"), "expected a device such as cuda:0"));
  CHECK(says("gradus.synchronize() gradus.synchronize('cpu') gradus.synchronize(gradus.ones(1)) "
             "print(gradus.ones(1):cpu().device, gradus.ones(1):to('reference').is_cuda)") ==
        "cpu\tfalse");
  CHECK(has(fails("gradus.synchronize(3)"), "expected nothing, a tensor or the name of a device"));
  CHECK(has(fails("gradus.ones(1):cuda(99)", ErrorKind::device), "cuda:99"));
  CHECK(has(fails("gradus.cholesky(gradus.tensor{{1.0, 2.0}, {2.0, 1.0}})", ErrorKind::numeric),
            "pivot 1 of 2"));
  CHECK(says("print(gradus.ones(1):to(gradus.zeros(1, {dtype = 'f64'})).dtype)") == "f64");
  const TempFolder folder;
  folder.write("d.lua",
               "for _, d in ipairs(gradus.devices()) do print(d.kind, d.present, d.present and "
               "d.threads > 0 or #d.why > 0) end gradus.devices(1)");
  const ProgramRun r = gradus::test::run(folder, "script d.lua --device cpu");
  CHECK(has(r.out, "cpu\ttrue\ttrue\n"));
  CHECK(has(r.out, "reference\ttrue\ttrue\n"));
  CHECK(has(r.err, "devices: takes no arguments"));
}

TEST_CASE("lua: a plan of an einsum says its order and cost, and runs with other tensors") {
  const std::string made =
      "local a, b, c = gradus.randn(20, 30), gradus.randn(30, 40), gradus.randn(40, 20) "
      "local p = gradus.einsum_plan('ij,jk,kl->il', a, b, c) ";
  CHECK(says(made + "print(p.flops, p.largest, p.bytes, p.equation, p.algebra, #p.steps, "
                    "p.order[1][1], p.order[1][2], p.steps[2].expression, p.steps[2].flops)") ==
        "72000.0\t600.0\t14400.0\tij,jk,kl->il\tstandard\t2\t2\t3\tij,jl->il\t24000.0");
  CHECK(says(made + "print(p)") ==
        "ij,jk,kl->il: 2 steps, 7.2e+04 flops, largest intermediate 600 elements, memory about "
        "1.44e+04 bytes|  1  jk,kl->jl  4.8e+04 flops|  2  ij,jl->il  2.4e+04 flops");
  CHECK(says(made + "print(p(a, b, c):equal(gradus.einsum('ij,jk,kl->il', a, b, c)))") == "true");
  // Differentiable; by another order, by shapes alone, in another algebra.
  CHECK(says(made +
             "a:requires_grad_() p(a, b, c):sum():backward() "
             "print((a.grad - gradus.ones(20, 20):matmul(b:matmul(c):t())):abs():amax():item() < "
             "1e-3)") == "true");
  CHECK(says("local p = gradus.einsum_plan('ij,jk,kl->il', {20, 30}, {30, 40}, {40, 20}, {path = "
             "{{1, 2}, {1, 2}}}) print(p.flops, p.steps[1].expression)") == "80000.0\tij,jk->ik");
  CHECK(says("local p = gradus.einsum_plan('ij,jk->ik', {1, 2}, {2, 1}, {algebra = 'max-plus'}) "
             "print(p(gradus.tensor{{1.0, 2.0}}, gradus.tensor{{10.0}, {20.0}}), p.algebra)") ==
        "[[22]]|f32 (1, 1)\tmax-plus");
  CHECK(says("local p = gradus.einsum_plan('ij,jk->ik', {1, 2}, {2, 1}, {algebra = 'max-plus'}) "
             "local y, w = p:winners(gradus.tensor{{1.0, 2.0}}, gradus.tensor{{10.0}, {20.0}}) "
             "print(y:item(), w:item())") == "22.0\t1");
  CHECK(has(fails("gradus.einsum_plan('i->', {2}):winners(gradus.ones(2))"),
            "standard chooses no winner"));
  CHECK(has(fails("gradus.einsum_plan('ij,jk->ik', {2, 3}, {4, 5})"), "label \"j\" is 3"));
  CHECK(
      has(fails("gradus.einsum_plan('ij,jk->ik', {2, 3}, {3, 5})(gradus.ones(2, 2), gradus.ones(2, "
                "2))"),
          "the plan is for operand 0 of shape (2, 3), got (2, 2)"));
  CHECK(
      has(fails("gradus.einsum_plan('ij->i', {2, 3}, {path = 'fast'})"), "unknown path \"fast\""));
  CHECK(has(fails("gradus.einsum_plan('ij->i', {2, 3}, {path = {{0, 1}}})"), "positions from 1"));
  CHECK(has(fails("gradus.einsum_plan('ij->i', 'x')"), "a tensor or a shape such as {2, 3}"));
  CHECK(has(fails("gradus.einsum_plan(3)"), "expected an equation such as \"ij,jk->ik\""));
  CHECK(has(fails("print(gradus.einsum_plan('ij->i', {2, 3}).flop)"), "did you mean \"flops\"?"));
}

TEST_CASE("lua: whole numbers are labels of an einsum and of its plan") {
  const std::string made =
      "local a, b = gradus.randn(2, 3), gradus.randn(3, 3, 4) "
      "a:requires_grad_() ";
  // Any numbers, as letters would say it: a diagonal, an output turned around, a scalar, no label.
  CHECK(says(made + "print(gradus.einsum({a, b}, {{-7, 900}, {900, 900, 0}}, {0, -7})"
                    ":equal(gradus.einsum('ij,jjk->ki', a, b)))") == "true");
  CHECK(says(made + "local y = gradus.einsum({a, 2.0}, {{5, 6}, {}}, {}) "
                    "print((y - 2 * a:sum()):abs():item() < 1e-5)") == "true");
  CHECK(says("print(gradus.einsum({gradus.tensor(3)}, {{}}, {}):item())") == "3");
  CHECK(says("local x = gradus.tensor{{1.0, 5.0}, {4.0, 2.0}} "
             "print(gradus.einsum({x, x}, {{1, 2}, {2, 3}}, {1, 3}, 'max-plus'):totable()[1][1], "
             "gradus.einsum({x, x}, {{1, 2}, {2, 3}}, {1, 3}, {algebra = "
             "'min-plus'})[1][1]:item())") == "9.0\t2.0");
  CHECK(says(made + "local g = gradus.grad(gradus.einsum({a, b}, {{1, 2}, {2, 2, 3}}, {}), a) "
                    "local h = gradus.grad(gradus.einsum('ij,jjk->', a, b), a) "
                    "print((g - h):abs():amax():item() < 1e-5, g.shape)") == "true\t(2, 3)");
  // More labels than there are letters; operands of a plan in a table, or one by one.
  const std::string chain =
      "local m, l = {}, {} for i = 1, 100 do m[i], l[i] = gradus.tensor{{0, 1}, {1, 0}}, {i, i + "
      "1} "
      "end ";
  CHECK(says(chain + "print(gradus.einsum(m, l, {1, 101}))") == "[[1, 0],| [0, 1]]|i64 (2, 2)");
  CHECK(says(chain + "local p = gradus.einsum_plan(m, l, {1, 101}, {path = 'greedy'}) "
                     "print(#p.steps, p(m)[1][1]:item(), p(table.unpack(m))[1][2]:item())") ==
        "99\t1\t0");
  CHECK(
      says("local p = gradus.einsum_plan({{20, 30}, {30, 40}, {40, 20}}, {{1, 2}, {2, 3}, {3, 4}}, "
           "{1, 4}) print(p.flops, p.equation)") == "72000.0\t(1 2),(2 3),(3 4)->(1 4)");
  CHECK(has(fails("gradus.einsum({gradus.ones(2)}, {{1, 2}}, {})"),
            "operand 0 of shape (2,) has 1 axis and 2 labels"));
  CHECK(has(fails("gradus.einsum({gradus.ones(2)}, {1}, {})"),
            "labels[1]: expected a table of whole numbers such as {1, 2}, got a number"));
  CHECK(has(fails("gradus.einsum({gradus.ones(2)}, {{1.5}}, {})"),
            "labels[1]: expected a whole number, got 1.5"));
  CHECK(has(fails("gradus.einsum({gradus.ones(2)}, {{1 << 40}}, {})"), "labels have 32 bits"));
  CHECK(
      has(fails("gradus.einsum({gradus.ones(2)}, {{1}}, 'max-plus')"),
          "labels of the output: expected a table of whole numbers such as {1, 2}, got a string"));
  // Without an output: the labels that occur once, sorted. Labels behind each operand.
  CHECK(says(made + "local y = gradus.einsum('ij,jjk->ki', a, b) "
                    "print(gradus.einsum({a, b}, {{9, 2}, {2, 2, 1}}):equal(y), "
                    "gradus.einsum(a, {9, 2}, b, {2, 2, 1}):equal(y), "
                    "gradus.einsum(a, {1, 2}, b, {2, 2, 9}, {9, 1}):equal(y))") ==
        "true\ttrue\ttrue");
  CHECK(says("local x = gradus.tensor{{1.0, 5.0}, {4.0, 2.0}} "
             "print(gradus.einsum(x, {1, 2}, x, {2, 3}, {}, 'max-plus'):item(), "
             "gradus.einsum(gradus.tensor(3), {}, x, {1, 1}, {}):item())") == "9.0\t9.0");
  CHECK(has(fails("gradus.einsum(gradus.ones(2), {1, 2}, {1})"),
            "operand 0 of shape (2,) has 1 axis and 2 labels"));
  CHECK(has(fails("gradus.einsum(gradus.ones(2), {1}, {1}, 'standard', 3)"), "takes 4 arguments"));
  CHECK(
      has(fails("gradus.einsum({gradus.ones(2)}, {{1}}, {3})"), "output label 3 is in no operand"));
  CHECK(has(fails("gradus.einsum({gradus.ones(2)}, {{1}}, {}, {algebr = 'max-plus'})"),
            "did you mean \"algebra\"?"));
  CHECK(has(fails("gradus.einsum_plan({{2}, 'x'}, {{1}, {1}}, {})"),
            "operands[2]: expected a tensor or a shape such as {2, 3}, got a string"));
}
