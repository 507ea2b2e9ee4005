// Calls of the binding that are almost right: seeds that are numbers, options that are misspelt,
// names that are taken, and what the messages say.
#include "tests/helpers/lua_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace gradus;
using gradus::test::error_text;
using gradus::test::fails;
using gradus::test::has;
using gradus::test::Lua;
using gradus::test::ProgramRun;
using gradus::test::says;
using gradus::test::TempFolder;

namespace {
const std::string kSquare =
    "local a = gradus.tensor({1.0, 2.0}, {requires_grad = true}) local y = a * a ";
}

TEST_CASE("lua: a seed may be a number or a table of numbers, and is never ignored") {
  CHECK(says(kSquare + "y:sum():backward(5) print(a.grad)") == "[10, 20]|f32 (2,)");
  CHECK(says(kSquare + "y:backward({1, 10}) print(a.grad)") == "[ 2, 40]|f32 (2,)");
  CHECK(says(kSquare + "y:backward(gradus.ones(2)) print(a.grad)") == "[2, 4]|f32 (2,)");
  CHECK(says(kSquare + "print(gradus.grad(y:sum(), a, 10))") == "[20, 40]|f32 (2,)");
  CHECK(says(kSquare + "print(gradus.grad(y, a, {1, 10}))") == "[ 2, 40]|f32 (2,)");
  CHECK(says(kSquare + "print(gradus.grad(y, a, {gradus.ones(2)}))") == "[2, 4]|f32 (2,)");
  CHECK(says(kSquare + "print(gradus.grad({y:sum(), y}, a, {10, {1, 0}}))") == "[22, 40]|f32 (2,)");
  // Options in the seed's place, behind it, and behind nil.
  const std::string twice =
      "print(a.grad, gradus.grad(a.grad:sum(), a):equal(a * 0 + 2)) a:zero_grad()";
  for (const char* call :
       {"y:sum():backward{create_graph = true}", "y:sum():backward(nil, {create_graph = true})",
        "y:sum():backward(1, {create_graph = true})"})
    CHECK(says(kSquare + call + " " + twice) == "[2, 4]|f32 (2,), grad_fn = add\ttrue");
  CHECK(has(fails(kSquare + "y:backward(5)", ErrorKind::value),
            "test.lua:1: backward: the seed has shape (), the tensor (2,)"));
  CHECK(has(fails(kSquare + "y:backward({1, 2, 3})"),
            "backward: the seed has shape (3,), the tensor (2,)"));
  CHECK(has(fails(kSquare + "y:backward('1')"),
            "backward: seed: expected a tensor, a number or a table of numbers, got a string"));
  CHECK(has(fails(kSquare + "gradus.grad(y:sum(), a, true)"),
            "grad: seeds: expected a tensor, a number or a table of numbers, got a boolean"));
  CHECK(has(fails(kSquare + "gradus.grad({y}, a, {1, 2})"), "grad: seeds: 2 for 1 output"));
  CHECK(has(fails(kSquare + "y:sum():backward(1, true)"),
            "backward: expected a table of options, got a boolean"));
}

TEST_CASE("lua: an option that is misspelt is an error everywhere") {
  const std::pair<const char*, const char*> wrong[] = {
      {"y:sum():backward{retain_grph = true}", "retain_graph"},
      {"y:sum():backward(1, {retain_grph = true})", "retain_graph"},
      {"gradus.grad(y:sum(), a, {creat_graph = true})", "create_graph"},
      {"gradus.grad(y:sum(), a, 1, {alow_unused = true})", "allow_unused"},
      {"gradus.progress(10, {txt = 'x'})", "text"},
      {"gradus.ones(2, {dtpe = 'f64'})", "dtype"},
      {"gradus.optim.sgd({a}, {momentun = 1})", "momentum"},
      {"gradus.op{name = 'v', value = math.abs, slop = math.abs}", "slope"}};
  for (const auto& [call, meant] : wrong)
    gradus::test::check_has(fails(kSquare + call), join("did you mean \"", meant, "\"?"));
  CHECK(has(fails(kSquare + "y:sum():backward{x = 1}"),
            "backward: there is no option \"x\"; there are retain_graph and create_graph"));
  CHECK(has(fails("gradus.progress(2, 'text')"), "expected a table of options, got a string"));
  CHECK(has(fails("gradus.progress(2, {text = 3})"), "text: expected a text, got a number"));
  CHECK(has(fails("gradus.tensor({1}, {dtype = 5})"),
            "tensor: dtype: expected the name of a dtype, got a number"));
  const TempFolder folder;
  const ProgramRun r =
      gradus::test::run(folder, "script -e 'gradus.nn({{linear = 2}}, {1, 2}, {dtpe = \"f64\"})'");
  CHECK(has(r.err, "nn: there is no option \"dtpe\"; did you mean \"dtype\"?"));
}

TEST_CASE("lua: messages say what is wrong, and count as Lua does") {
  CHECK(has(fails("gradus.ones(2, 3):size(3)"), "here axes count from 0, in Lua from 1"));
  CHECK(has(fails("gradus.ones(2):add_()"), "test.lua:1: add_: takes 1 argument, got 0"));
  CHECK(has(fails("gradus.ones(2):tanh_(1)"), "tanh_: takes 0 arguments, got 1"));
  CHECK(says("print(gradus.ones(2):add_(1):neg_())") == "[-2, -2]|f32 (2,)");
  CHECK(says("print(gradus.tensor({}).dtype, gradus.tensor({{}}).dtype, "
             "gradus.tensor({}, {dtype = 'bool'}).dtype, gradus.tensor({true}).dtype)") ==
        "f32\tf32\tbool\tbool");
  const std::string sgd = "gradus.optim.sgd({gradus.ones(1):requires_grad_()}, ";
  for (const char* lr : {"-1", "0/0", "1/0"})
    CHECK(has(fails(sgd + "{lr = " + lr + "})"), "sgd: lr is "));
  CHECK(has(fails(sgd + "{lr = 1}).lr = -1"), "lr is -1, expected 0 or more"));
  CHECK(says("print(" + sgd + "{lr = 0}).lr)") == "0.0");
}

TEST_CASE("lua: subscripts as text need no colon") {
  const std::string x = "local x = gradus.arange(1, 13):reshape({3, 4}) ";
  CHECK(says(x + "print(x['2'], x['2,-1'], x[' 1 , 2'], x['-1'])") ==
        "[5, 6, 7, 8]|i64 (4,)\t8\t2\t[ 9, 10, 11, 12]|i64 (4,)");
  CHECK(says(x + "x['1,1'] = 7 x['2'] = 0 print(x[1], x[2])") ==
        "[7, 2, 3, 4]|i64 (4,)\t[0, 0, 0, 0]|i64 (4,)");
  CHECK(has(fails(x + "return x['1x']"), "index: \"1x\": \"1x\" is no whole number"));
  CHECK(has(fails(x + "return x['']"), "is no whole number"));
  CHECK(has(fails(x + "return x.shap"), "did you mean \"shape\"?"));
  CHECK(has(fails(x + "return x:tottable()"), "did you mean \"totable\"?"));
}

TEST_CASE("lua: a file may begin with a mark of UTF-8, and with a line for the shell") {
  const std::string mark = "\xEF\xBB\xBF";
  CHECK(says(mark + "print(1)") == "1");
  CHECK(says(mark + "#!/usr/bin/env gradus script\nprint(2)") == "2");
  CHECK(has(fails(mark + "#!gradus\nerror('x')"), "test.lua:2: x"));
  const TempFolder folder;
  std::ofstream(folder / "part.lua") << mark << "#!lua\nreturn 7";
  lua::ScriptOptions o;
  o.folder = folder.path();
  CHECK(Lua(o)("print(require 'part')") == "7");
}

TEST_CASE("lua: an op of one's own takes no name that is taken, and a wrong one leaves nothing") {
  const TempFolder folder;  // in a process of its own: ops stay in the op list
  const auto run = [&](const std::string& text) {
    std::ofstream(folder / "test.lua") << text;
    return gradus::test::run(folder, "script --device cpu test.lua");
  };
  const std::string made =
      "local function op(name, k) return gradus.op{name = name, value = function(x) return x * 3 "
      "end, slope = function(x, y) return x * 0 + k end} end ";
  for (const char* taken : {"grad", "tensor", "audit", "data", "item", "backward", "shape", "T"}) {
    const ProgramRun r = run(made + "op('" + taken + "', 3)");
    CHECK_MESSAGE(has(r.err, "op: the name \"" + std::string(taken) + "\" is taken: there is "),
                  taken, r.err);
  }
  CHECK(has(run(made + "op('item', 3)").err, "x:item() of tensors"));
  CHECK(has(run(made + "op('grad', 3)").err, "gradus.grad"));
  const ProgramRun r = run(
      made +
      "local x = gradus.ones(2) print(pcall(op, 'zzz', 2)) print(pcall(function() x:zzz() end)) "
      "print(pcall(function() return gradus.zzz end)) op('zzz', 3) print(x:zzz()) "
      "print(pcall(op, 'zzz', 2)) local y = gradus.ones(1, {requires_grad = true}) "
      "y:zzz():backward() print(y.grad)");
  CHECK(r.code == 0);
  CHECK(has(r.out, "zzz: slope is not the derivative of value"));
  CHECK(has(r.out, "tensor: has no \"zzz\"\n"));
  CHECK(has(r.out, "gradus: has no \"zzz\"\n"));
  CHECK(has(r.out, "[3, 3]"));
  CHECK(r.out.ends_with("[3]\nf32 (1,)\n"));  // the one that was right stays
}

TEST_CASE("lua: --json makes an event of each print, and behind FILE is the script's") {
  const TempFolder folder;
  std::ofstream(folder / "s.lua") << "print(..., 'a\\nb') error('planned')";
  const auto run = [&](const std::string& arguments) {
    return gradus::test::run(folder, arguments);
  };
  CHECK(run("script --json -e 'print(1) print() print(\"x\", 2)'").out ==
        "{\"event\":\"print\",\"text\":\"1\"}\n{\"event\":\"print\",\"text\":\"\"}\n"
        "{\"event\":\"print\",\"text\":\"x\\t2\"}\n");
  ProgramRun r = run("script s.lua --json");
  CHECK(r.code == 2);
  CHECK(r.out == "--json\ta\nb\n");
  CHECK(has(r.err, "gradus: s.lua:1: planned\n"));
  r = run("script --json s.lua");
  CHECK(has(r.out, "{\"event\":\"print\",\"text\":\"nil\\ta\\nb\"}\n{"));
  CHECK(has(r.out, "\"event\":\"error\""));
  std::ofstream(folder / "typed") << "1 + 1\n";
  CHECK(gradus::test::run(folder, "repl --json <typed").out ==
        "{\"event\":\"print\",\"text\":\"2\"}\n");
}

namespace {
void refused(const std::string& text, const char* why) {
  CAPTURE(text);
  gradus::test::check_has(fails(text), why);
}
}  // namespace

TEST_CASE("lua: repeats count as they are, options have their kinds, nothing given is ignored") {
  CHECK(says("print(gradus.tensor{1, 2}:tile(2))") == "[1, 2, 1, 2]|i64 (4,)");
  CHECK(says("print(gradus.tensor{{1, 2}, {3, 4}}:tile({2, 1}).shape[1])") == "4");
  CHECK(says("local x = gradus.tensor{1, 2} print(x:to('float32').dtype, x:to('f64').dtype)") ==
        "f32\tf64");
  refused("gradus.ones(2, {requires_grad = 'no'})", "requires_grad: expected true or false, got a");
  refused("gradus.ones(2):to('f31')", "unknown device \"f31\"");
  refused("gradus.ones(2):to('f31')", "; or a dtype, such as f64");
  refused("gradus.ones(2):sum{axis = 1}", "has no attribute \"axis\"; there are dim, keepdim");
  refused("gradus.ones(2):sum{keepdims = true}", "did you mean \"keepdim\"?");
  refused("gradus.device('emu:0')", "device: takes 0 arguments, got 1");
  refused("gradus.ones(2):clone({dtype = 'f64'})", "clone: with the tensor: takes 1 argument");
  refused("gradus.func.hvp(print, 1, 1, {})", "hvp: takes 3 arguments, got 4");
  refused("gradus.ones(1):backward(nil, nil, {retain_graph = true})", "takes 3 arguments, got 4");
  const TempFolder folder;
  const std::string file = "'" + (folder / "a.npy") + "'";
  CHECK(says("gradus.save(" + file + ", gradus.ones(2)) local t = gradus.load(" + file +
                 ", {dtype = 'f64', requires_grad = true}) print(t.dtype, t.requires_grad)",
             gradus::test::writing_in(folder)) == "f64\ttrue");
  refused("gradus.load(" + file + ", {type = 'f64'})", "there is no option \"type\"");
  CHECK(gradus::test::run(folder, "script -e 'gradus.load(\"none.npy\")'").code == 3);
  CHECK(gradus::test::run(folder, "script -e 'pcall(gradus.load, 1) error(\"x\")'").code == 2);
}

TEST_CASE("lua: options of functions of functions") {
  CHECK(says("print(gradus.func.vmap(function(a, b) return a * b end, {in_dims = {2, 'none'}})("
             "gradus.tensor{{1, 2}, {3, 4}}, gradus.tensor{1, 10}))") ==
        "[[ 1, 30],| [ 2, 40]]|i64 (2, 2)");
  CHECK(says("print(gradus.func.vmap(function(a) return a end, {out_dims = 2})("
             "gradus.tensor{{1, 2}, {3, 4}}))") == "[[1, 3],| [2, 4]]|i64 (2, 2)");
  CHECK(says("local draw = gradus.func.vmap(function(a) return a + gradus.rand(4) end, "
             "{randomness = 'different'}) local y = draw(gradus.zeros(2, 4)) "
             "print(y[1]:equal(y[2]))") == "false");
  CHECK(says("local function f(x, y) return (x * y):sum() end local a, b = gradus.ones(2), "
             "gradus.ones(2) * 3 local d = gradus.func.grad(f, {argnums = 2})(a, b) print(d) "
             "print(select('#', gradus.func.grad(f)(a, b)))") == "[1, 1]|f32 (2,)|2");
  CHECK(
      says("local f = function(x) return x ^ 2 end for _, mode in ipairs{'forward', 'reverse'} do "
           "print(gradus.func.jacobian(f, {mode = mode})(gradus.ones(2))) end") ==
      "[[2, 0],| [0, 2]]|f32 (2, 2)|[[2, 0],| [0, 2]]|f32 (2, 2)");
  refused("gradus.func.vmap(print, {indims = 1})", "did you mean \"in_dims\"?");
  refused("gradus.func.vmap(print, {in_dims = 'all'})", "axes from 1, or \"none\"");
  refused("gradus.func.vmap(print, {in_dims = 0})", "0 is nothing: Lua counts from 1");
  refused("gradus.func.vmap(print, {randomness = 'no'})", "expected error, same or different");
  refused("gradus.func.jacobian(print, {mode = 'x'})", "expected automatic, forward or reverse");
  refused("gradus.func.grad(print, {argnum = 2})", "did you mean \"argnums\"?");
  refused("gradus.func.grad(print, {}, 1)", "takes 2 arguments, got 3");
}
