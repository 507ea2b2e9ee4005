// Lua: tensors, subscripts, every op by its name, errors with file and line, prompts,
// states in threads.
#include "engine/op_info.hpp"
#include "engine/random.hpp"
#include "ops/ops.hpp"
#include "tests/helpers/lua_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <sstream>
#include <thread>

using namespace gradus;
using gradus::test::error_text;
using gradus::test::fails;
using gradus::test::has;
using gradus::test::Lua;
using gradus::test::says;
using gradus::test::TempFolder;
using gradus::test::writing_in;

TEST_CASE("lua: arithmetic both ways, properties, text") {
  CHECK(says("t = gradus.tensor{1.0, 2.0} print((t+1):totable()[2], (1+t):totable()[2], "
             "(2*t):totable()[2],"
             "(t/2):totable()[2], (2/t):totable()[2], (t^2):totable()[2], (-t):totable()[2])") ==
        "3.0\t3.0\t4.0\t1.0\t1.0\t4.0\t-2.0");
  CHECK(says("t = gradus.tensor{7, -7} print((t//2):totable()[2], (t%3):totable()[2], t.dtype)") ==
        "-4\t2\ti64");
  CHECK(says("t = gradus.tensor({{1,2,3},{4,5,6}}, {dtype='f64'}) print(#t, t.shape[2], t.rank, "
             "t.dtype, t.device,"
             "t.requires_grad, t.is_leaf, t.grad, t.op)") ==
        "2\t3\t2\tf64\tcpu\tfalse\ttrue\tnil\tnil");
  CHECK(says("print(gradus.tensor(2.5), gradus.tensor{true, false}.dtype, 'loss ' .. "
             "gradus.tensor(1.5))") == "2.5\tbool\tloss 1.5");
  CHECK(says("t = gradus.tensor{{1.0, 2.0}} print(t, t.T.shape[1])") == "[[1, 2]]|f32 (1, 2)\t2");
  // Sums of a table of tables, whole numbers beyond 2^53 kept.
  CHECK(says("print(gradus.tensor{9007199254740993}:item(), gradus.tensor({true, "
             "9007199254740993})[2])") == "9007199254740993\t9007199254740993");
  CHECK(says("local s = 0 for i, row in gradus.ones(3, 2):rows() do s = s + i * row:sum():item() "
             "end print(s)") == "12.0");
  for (const char* op : {"<", "<=", ">", "=="})
    CHECK(has(fails("local a = gradus.ones(2); local b = gradus.ones(2); return a " +
                    std::string(op) + " b"),
              "in Lua this gives one boolean, not a tensor; write a:"));
  CHECK(says("print(gradus.ones(1) == 0)") == "false");  // as documented: Lua asks nobody
}

TEST_CASE("lua: subscripts count from 1, both ends included") {
  const std::string x = "local x = gradus.arange(1, 13):reshape({3, 4}) ";
  const auto table = [&](const std::string& what) {
    return says(x + "local t = (" + what +
                "); local r = {} for _, v in ipairs(t:flatten():totable()) do r[#r+1] = v end "
                "print(table.concat(r, ' '), table.concat(t.shape, 'x'))");
  };
  CHECK(table("x[2]") == "5 6 7 8\t4");
  CHECK(table("x[-1]") == "9 10 11 12\t4");
  CHECK(table("x[{{1, 2}, 2}]") == "2 6\t2");
  CHECK(table("x[{{}, {-2, -1}}]") == "3 4 7 8 11 12\t3x2");
  CHECK(table("x[{nil, {-2, -1}}]") == "3 4 7 8 11 12\t3x2");
  CHECK(table("x[nil]") == table("x"));
  CHECK(table("x[{{1, -1, 2}}]") == "1 2 3 4 9 10 11 12\t2x4");
  CHECK(table("x[{{-1, 1, -2}, 1}]") == "9 1\t2");
  CHECK(table("x[{2, {4, 1, -1}}]") == "8 7 6 5\t4");
  CHECK(table("x[':,2']") == "2 6 10\t3");
  CHECK(table("x['2:3,::-1']") == "8 7 6 5 12 11 10 9\t2x4");
  CHECK(table("x['::2, :2']") == "1 2 9 10\t2x2");
  CHECK(table("x[{{2}}]") == "5 6 7 8\t1x4");
  CHECK(table("x[2.0]") == "5 6 7 8\t4");
  CHECK(table("x[x:gt(10)]") == "11 12\t2");
  CHECK(table("x[gradus.tensor{2, 0}]") == "9 10 11 12 1 2 3 4\t2x4");
  CHECK(table("x[{{3, 2}}]").rfind("\t0x4") != std::string::npos);
  // Writes, also recorded ones.
  CHECK(
      says(x +
           "x[2] = 0; x[{{}, 1}] = gradus.tensor{-1, -2, -3}; x[x:gt(11)] = 7 print(x[2], x[3])") ==
      "[-2,  0,  0,  0]|i64 (4,)\t[-3, 10, 11,  7]|i64 (4,)");
  // A mask is of the first axes: one for each row picks rows.
  const std::string rows = "local rows = gradus.tensor{1, 0, 1}:eq(1) ";
  CHECK(table("x[gradus.tensor{1, 0, 1}:eq(1)]") == "1 2 3 4 9 10 11 12\t2x4");
  CHECK(says(x + rows + "x[rows] = 0 print(x)") ==
        "[[0, 0, 0, 0],| [5, 6, 7, 8],| [0, 0, 0, 0]]|i64 (3, 4)");
  CHECK(says(x + rows + "x[rows] = {1, 2, 3, 4} print(x)") ==
        "[[1, 2, 3, 4],| [5, 6, 7, 8],| [1, 2, 3, 4]]|i64 (3, 4)");
  CHECK(says("local w = gradus.ones(3, 2):requires_grad_() local y = w * 2 " + rows +
             "y[rows] = gradus.zeros(2, 2) y:sum():backward() print(w.grad)") ==
        "[[0, 0],| [2, 2],| [0, 0]]|f32 (3, 2)");
  CHECK(has(fails(x + "x[gradus.ones(4):eq(1)] = 0"),
            "index: a mask of shape (4,) is not of the first axes of (3, 4)"));
  CHECK(has(fails(x + "return x[gradus.ones(4):eq(1)]"),
            "index: a mask of shape (4,) does not fit x (3, 4)"));
  CHECK(says("local w = gradus.ones(3):requires_grad_() local y = w * 2 y[2] = 5 "
             "y:sum():backward() print(w.grad)") == "[2, 0, 2]|f32 (3,)");
  CHECK(has(fails(x + "return x[4]"), "test.lua:1: index: 4 is outside of axis 1 of size 3"));
  CHECK(has(fails(x + "return x[{1, 5}]"), "5 is outside of axis 2 of size 4"));
  CHECK(has(fails(x + "return x[0]"), "Lua counts from 1"));
  CHECK(has(fails(x + "return x[1.5]"), "expected a whole number, got 1.5"));
  CHECK(has(fails(x + "return x[{1, 1, 1}]"), "3 subscripts for a shape of (3, 4)"));
  CHECK(has(fails(x + "return x['1:x']"), "\"x\" is no whole number"));
  CHECK(has(fails(x + "return x.shap"), "did you mean \"shape\"?"));
  CHECK(has(fails(x + "x.dtype = 1"), "can't be set"));
}

TEST_CASE("lua: ops by name, with operands, attributes in order or by name, axes from 1") {
  const std::string x = "local x = gradus.tensor({{1, 2, 3}, {4, 5, 6}}, {dtype = 'f32'}) ";
  CHECK(says(x + "print(x:sum(1), gradus.sum(x, {dim = 2, keepdim = true}), x:sum(-1))") ==
        "[5, 7, 9]|f32 (3,)\t[[ 6],| [15]]|f32 (2, 1)\t[ 6, 15]|f32 (2,)");
  CHECK(says(x + "print(x:permute({2, 1}).shape[1], x:transpose(1, 2).shape[1], gradus.cat({x, x}, "
                 "2).shape[2],"
                 "gradus.cat(x, x, {dim = 1}).shape[1])") == "3\t3\t6\t4");
  CHECK(says(x + "print(gradus.clamp(x, 2, 4), x:softmax({dim = 2}):sum():item())")
            .find("[[2, 2, 3],| [4, 4, 4]]") == 0);
  CHECK(says(x + "local v, i = x:sort({dim = 2, descending = true}) print(v[1], i[1])") ==
        "[3, 2, 1]|f32 (3,)\t[2, 1, 0]|i64 (3,)");
  CHECK(says("print(gradus.arange(3), gradus.arange(1, 4), gradus.arange(0, 1, 0.5, {dtype = "
             "'f32'}))") == "[0, 1, 2]|i64 (3,)\t[1, 2, 3]|i64 (3,)\t[  0, 0.5]|f32 (2,)");
  CHECK(says("print(gradus.einsum('ij,jk->ik', gradus.ones(2, 3), gradus.ones(3, 4)) and 1)") ==
        "1");
  CHECK(has(fails(x + "x:sum(0)"), "sum: dim: 0 is nothing: Lua counts from 1"));
  CHECK(has(fails(x + "x:sum(3)"), "expected -2 to 1; here axes count from 0, in Lua from 1"));
  CHECK(has(fails(x + "x:softmax({dimm = 1})"), "did you mean \"dim\"?"));
  CHECK(has(fails(x + "x:softmax('a')"), "expected a whole number, got a string"));
  CHECK(has(fails(x + "x.sum()"), "takes 1 operands (x), got 0"));
  CHECK(
      has(fails("gradus.add(gradus.ones(2), 'a')"), "expected a tensor or a number, got a string"));
  CHECK(has(fails("gradus.add(gradus.ones(3), gradus.ones(4))"), "test.lua:1: add: "));
  CHECK(has(fails("gradus.cast(gradus.ones(2), 'f31')"), "there is no dtype \"f31\""));
  // Every op is there; every attribute that is an axis by its name is taken as one.
  Lua lua;
  for (const OpInfo& op : all_ops())
    CHECK_MESSAGE(lua("print(type(gradus['" + op.name + "']))") == "function", op.name);
}

TEST_CASE("lua: gradients, modes and transforms") {
  CHECK(says("local x = gradus.tensor({1.0, 2.0}, {requires_grad = true}) local y = (x ^ 3):sum() "
             "y:backward() print(x.grad)") == "[ 3, 12]|f32 (2,)");
  CHECK(says("local x = gradus.tensor({3.0}, {requires_grad = true}) local g = gradus.grad(x ^ 3, "
             "x, gradus.ones(1), {create_graph = true}) "
             "print(g:item(), gradus.grad(g, x, gradus.ones(1)):item())") == "27.0\t18.0");
  CHECK(says("local x = gradus.ones(2):requires_grad_() print(gradus.no_grad(function(a) return (x "
             "* a).requires_grad end, 2), (x * 2).op)") == "false\tmul");
  CHECK(says("local f = gradus.func.grad(gradus.func.grad(function(x) return x ^ 4 end)) "
             "print(f(gradus.tensor(2.0)))") == "48");
  CHECK(says("local v, g = gradus.func.value_and_grad(function(a, b) return (a * b):sum() "
             "end)(gradus.ones(2), gradus.ones(2) * 3) print(v, g)") == "6\t[3, 3]|f32 (2,)");
  CHECK(
      says("print(gradus.func.jacobian(function(x) return x ^ 2 end)(gradus.tensor{1.0, 2.0}))") ==
      "[[2, 0],| [0, 4]]|f32 (2, 2)");
  CHECK(says("print(gradus.func.hvp(function(x) return (x ^ 3):sum() end, gradus.tensor{1.0, 2.0}, "
             "gradus.tensor{1.0, 1.0}))") == "9\t[ 6, 12]|f32 (2,)");
  CHECK(says("print(gradus.func.jvp(gradus.sin, gradus.tensor(0.0), gradus.tensor(2.0)))") ==
        "0\t2");
  CHECK(says("print(gradus.func.vmap(gradus.func.grad(function(x) return (x ^ 2):sum() "
             "end))(gradus.ones(2, 3)))") == "[[2, 2, 2],| [2, 2, 2]]|f32 (2, 3)");
  CHECK(
      says(
          "print(gradus.func.gradcheck(gradus.tanh, gradus.tensor({0.3, -2}, {dtype = 'f64'})))") ==
      "true");
  // Gradients don't cross devices, and none is lost in silence.
  CHECK(has(fails("local x = gradus.ones(2):requires_grad_() return (x * 2):to('reference')",
                  ErrorKind::value),
            "to_device: the history of a tensor ends at its device, cpu; detach it"));
  CHECK(says("local x = gradus.ones(2):requires_grad_() print((x * "
             "2):detach():to('reference').device, x:to('reference').requires_grad)") ==
        "reference\ttrue");
  // An error of Lua within a transform comes out as itself, and the mode is put back.
  CHECK(has(fails("gradus.no_grad(function() error('inside') end)"), "test.lua:1: inside"));
  CHECK(
      says("print(pcall(gradus.no_grad, function() error({code = 7}) end))").find("false\ttable") ==
      0);
  CHECK(says("pcall(gradus.no_grad, error) print((gradus.ones(1):requires_grad_() * "
             "2).requires_grad)") == "true");
  CHECK(has(fails("gradus.func.grad(function(x) return x:nosuch() end)(gradus.ones(1))"),
            "has no \"nosuch\""));
  CHECK(says("local ok, e = pcall(gradus.func.grad(function(x) error({code = 5}) end), "
             "gradus.ones(1)) print(ok, type(e), e.code)") == "false\ttable\t5");
}

TEST_CASE("lua: a checkpoint keeps its inputs alone and runs its function again") {
  const std::string f =
      "local runs = 0 local function f(x, y) runs = runs + 1 return (x * y):sin(), x:exp() end "
      "local a = gradus.tensor({1.0, 2.0}, {requires_grad = true}) local b = gradus.tensor(3.0) ";
  CHECK(says(f + "local s, e = gradus.checkpoint(f, a, b) print(runs, s.requires_grad) "
                 "local g = gradus.grad((s * e):sum(), a) print(runs) s, e = f(a, b) "
                 "print((g - gradus.grad((s * e):sum(), a)):abs():max():item())") ==
        "1\ttrue|2|0.0");
  CHECK(says(f + "print(#gradus.audit.ledger(function() return (gradus.checkpoint(f, a, b)) end), "
                 "gradus.audit.ledger(function() return (gradus.checkpoint(f, a, b)) end).bytes)")
            .ends_with("\t0"));
  // Backward need not be asked for where the function was given.
  CHECK(says(f + "local y coroutine.wrap(function() y = gradus.checkpoint(f, a, b) end)() "
                 "y:sum():backward() print(runs, a.grad.shape[1])") == "2\t2");
  CHECK(has(fails("local n = 0 local function f(x) n = n + 1 if n > 1 then error('again') end "
                  "return x * x end local x = gradus.ones(2):requires_grad_() "
                  "gradus.checkpoint(f, x):sum():backward()"),
            "test.lua:1: again"));
  CHECK(has(fails("gradus.checkpoint(gradus.sin)"), "checkpoint: needs at least one input"));
}

TEST_CASE("lua: the same seed gives the bits of the C++ API; files") {
  const TempFolder folder;
  manual_seed(7);
  const Tensor wanted = normal({3, 2}, 0, 1);
  std::ostringstream first;
  for (const double v : cast(wanted, DType::f64).to_vector<double>())
    first << std::hexfloat << v << " ";
  CHECK(says("gradus.seed(7) local t = gradus.randn(3, 2):flatten():totable() local r = '' "
             "for _, v in ipairs(t) do r = r .. string.format('%a ', v) end print(r)") ==
        first.str());
  const std::string file = "'" + (folder / "x.npy") + "'",
                    table = "'" + (folder / "x.safetensors") + "'";
  CHECK(says("local t = gradus.tensor{{1, 2}} gradus.save(" + file + ", t) print(gradus.load(" +
                 file + ")) gradus.save(" + table + ", {b = t, a = t * 2}) print(gradus.load(" +
                 table + ").a)",
             writing_in(folder)) == "[[1, 2]]|i64 (1, 2)|[[2, 4]]|i64 (1, 2)");
  // PyTorch's order of arguments.
  CHECK(says("gradus.save(gradus.tensor{3, 4}, " + file + ") gradus.save({a = gradus.tensor{5}}, " +
                 table + ") print(gradus.load(" + file + "), gradus.load(" + table + ").a)",
             writing_in(folder)) == "[3, 4]|i64 (2,)\t[5]|i64 (1,)");
  CHECK(has(fails("gradus.load('nowhere.npy')"), "nowhere.npy"));
  CHECK(has(fails("gradus.save('x.txt', gradus.ones(1))"), ".npy"));
}

TEST_CASE("lua: errors have file, line and traceback; tables stay tables") {
  Lua lua;
  const std::string said = error_text(ErrorKind::value, [&] {
    lua.script.run("local function f(a)\n  return a + gradus.ones(4)\nend\nf(gradus.ones(3))",
                   "dir/train.lua");
  });
  CHECK(has(said, "dir/train.lua:2: add: "));
  CHECK(has(said, "stack traceback:"));
  CHECK(has(said, "dir/train.lua:4: in main chunk"));
  CHECK(has(error_text(ErrorKind::config, [&] { lua.script.run("x = = 1", "s.lua"); }),
            "s.lua:1: unexpected symbol"));
  CHECK(has(error_text(ErrorKind::config, [&] { lua.script.check("for", "s.lua"); }), "s.lua:1:"));
  lua.script.check("error('not run')", "s.lua");
  CHECK(lua("local ok, e = pcall(error, {code = 3}) print(e.code)") == "3");
  CHECK(lua("#!/usr/bin/env -S gradus script\nprint(1)") == "1");
  CHECK(has(error_text(ErrorKind::value, [&] { lua.script.run("error({})", "s.lua"); }),
            "raised a table"));
}

TEST_CASE("lua: two states in two threads") {
  std::string said[2];
  std::thread threads[2];
  for (int k = 0; k < 2; ++k)
    threads[k] = std::thread([&, k] {
      said[k] = says("local s = gradus.zeros(1) for i = 1, 300 do s = s + i * " +
                     std::to_string(k + 1) + " end print(s:item())");
    });
  for (std::thread& t : threads) t.join();
  CHECK(said[0] == "45150.0");
  CHECK(said[1] == "90300.0");
}

TEST_CASE("lua: a prompt's lines and completion") {
  Lua lua;
  const auto line = [&](const std::string& text) {
    lua.out.str("");
    return lua.script.run_line(text) ? lua.out.str() : "more";
  };
  CHECK(line("1 + 2") == "3\n");
  CHECK(line("_ * 2") == "6\n");
  CHECK(line("x = gradus.ones(2)") == "");
  CHECK(line("x:sum(), 'two'") == "2\ttwo\n");
  CHECK(line("for i = 1, 2 do") == "more");
  CHECK(line("for i = 1, 2 do\nprint(i) end") == "1\n2\n");
  CHECK(line("return") == "");
  CHECK(has(error_text(ErrorKind::value, [&] { line("x + gradus.ones(3)"); }), "add"));
  CHECK(has(error_text(ErrorKind::config, [&] { line("x = )"); }), "unexpected symbol"));
  CHECK(line("x.shape[1]") == "2\n");
  CHECK(lua.script.complete("gradus.softm") ==
        std::vector<std::string>{"gradus.softmax", "gradus.softmin"});
  CHECK(lua.script.complete("y = x:backw") == std::vector<std::string>{"y = x:backward"});
  CHECK(lua.script.complete("prin") == std::vector<std::string>{"print"});
  CHECK(lua.script.complete("nosuch.a").empty());
}

TEST_CASE("lua: what people of numpy and PyTorch try first") {
  CHECK(says("local x = gradus.ones(3, 4) print(x.shape, x.shape == gradus.ones(3, 4).shape, "
             "x.shape == x.T.shape, x:reshape(2, 6).shape, x:permute(2, 1).shape, "
             "x[1]:expand(2, -1).shape)") == "(3, 4)\ttrue\tfalse\t(2, 6)\t(4, 3)\t(2, 4)");
  CHECK(says("local x = gradus.zeros(2, 2) x[1] = {1, 2.5} x[':,2'] = {7, 8} print(x)") ==
        "[[1, 7],| [0, 8]]|f32 (2, 2)");
  CHECK(has(fails("gradus.zeros(2, 2)[1] = {1, 2, 3}"), "test.lua:1: "));
  CHECK(has(fails("gradus.sofmax(1)"), "gradus: has no \"sofmax\"; did you mean \"softmax\"?"));
  CHECK(has(fails("gradus.func.hvpp(1)"), "gradus.func: has no \"hvpp\"; did you mean \"hvp\"?"));
  CHECK(says("gradus.seed(1) print((gradus.arange(9)[gradus.rand(9):argsort()]:sum()))") == "36");
  // Gradients (3, 4) have the norm 5.
  CHECK(says("local p = gradus.zeros(2, {dtype = 'f64', requires_grad = true}) local o = "
             "gradus.optim.sgd({p}, {lr = 1}) p.grad = gradus.tensor({3, 4}, {dtype = 'f64'}) "
             "o:step{clip = 1} print((p + gradus.tensor{0.6, 0.8}):abs():max():item() < 1e-5)") ==
        "true");
  CHECK(has(fails("gradus.optim.sgd({gradus.ones(1):requires_grad_()}):step{clp = 1}"),
            "did you mean \"clip\"?"));
}

TEST_CASE("lua: loops that show how far they are") {
  std::string drawn;
  lua::ScriptOptions o;
  o.progress = [&](const lua::LoopState* loop) {
    drawn += loop ? join(loop->text, " ", loop->done, "/", loop->total,
                         loop->values.empty() ? "" : " ", loop->values, ";")
                  : std::string("-");
  };
  Lua lua(o);
  CHECK(lua("local s = 0 for i in gradus.progress(3, {text = 'sum'}) do s = s + i end return s") ==
        "");
  CHECK(drawn == "sum 0/3;sum 1/3;sum 2/3;---");
  drawn.clear();
  CHECK(lua("local bar = gradus.progress({'a', 'b'}) for i, v in bar do bar:set{loss = 1 / 3, "
            "best = gradus.tensor(2.5)} end") == "");
  CHECK(drawn == " 0/2; 1/2 best 2.5, loss 0.3333;--");
  // Left by break, by an error; a print takes the bar away first.
  drawn.clear();
  CHECK(lua("for i in gradus.progress(2) do print(i) break end "
            "pcall(function() for i in gradus.progress(2) do error('x') end end)") == "1");
  CHECK(drawn == " 0/2;-- 0/2;--");
  CHECK(says("for i, row in gradus.progress(gradus.tensor{{1, 2}, {3, 4}}) do print(i, row[2]) "
             "end") == "1\t2|2\t4");
  CHECK(says("for i in gradus.progress(0) do print(i) end") == "");
  CHECK(has(fails("gradus.progress('x')"), "expected a number, a table or a tensor, got a string"));
  CHECK(has(fails("gradus.progress(2, 'text')"), "expected a table of options, got a string"));
}

#ifndef GRADUS_SANITIZED  // under which blocks are counted, and none is refused
TEST_CASE("lua: data sets count under the limit before they take memory") {
  const TempFolder folder;
  const auto run = [&](const std::string& arguments) {
    return gradus::test::run(folder, "script " + arguments);
  };
  const gradus::test::ProgramRun r =
      run("--max-memory 20MiB -e 'gradus.data{name = \"digits\", train = 10000000}'");
  CHECK(r.code == 5);
  CHECK(has(r.err, "leaves no room"));
  CHECK(has(r.err, "(the limit is 20MiB, --max-memory)"));
  CHECK(run("--max-memory 20MiB -e 'print(#gradus.data{name = \"digits\", train = 1000, test = "
            "10}.train_inputs)'")
            .out == "1000\n");
  // Fits as bytes, not as floats beside them.
  CHECK(
      run("--max-memory 20MiB -e 'gradus.data{name = \"digits\", train = 5000, test = 10}'").code ==
      5);
  std::ofstream(folder / "net.json")
      << R"({"experiment": "network", "data": {"name": "digits", "train": 10000000, "test": 32},
    "model": {"layers": [{"linear": 10}]}, "loss": "cross_entropy"})";
  CHECK(run("-e 'gradus.experiment(\"net.json\")'").code == 5);
}
#endif
