// Lua: tensors, subscripts, every op by its name, errors with file and line, the sandbox, limits
// that no pcall swallows, flat memory.
#include "bindings/lua/script.hpp"
#include "engine/op_info.hpp"
#include "engine/random.hpp"
#include "ops/ops.hpp"
#include "tests/program_helpers.hpp"
#include "tests/sizes.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <thread>

using namespace gradus;
using gradus::test::error_text;
using gradus::test::ProgramRun;
using gradus::test::TempFolder;

namespace {

struct Lua {
  std::ostringstream out;
  lua::Script script;
  explicit Lua(lua::ScriptOptions o = {}) : script(with(o, out)) {}
  static lua::ScriptOptions with(lua::ScriptOptions o, std::ostream& to) {
    o.device = &open_device("cpu");
    o.out = &to;
    return o;
  }
  // What the text prints, lines joined by "|".
  std::string operator()(const std::string& text) {
    out.str("");
    script.run(text, "test.lua");
    std::string s = out.str();
    while (!s.empty() && s.back() == '\n') s.pop_back();
    for (char& c : s)
      if (c == '\n') c = '|';
    return s;
  }
};
std::string says(const std::string& text) { return Lua()(text); }
// The first line of what a failing text says.
std::string fails(const std::string& text, ErrorKind kind = ErrorKind::value) {
  Lua lua;
  const std::string said = error_text(kind, [&] { lua.script.run(text, "test.lua"); });
  return said.substr(0, said.find('\n'));
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

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
             file + ")) gradus.save(" + table + ", {b = t, a = t * 2}) print(gradus.load(" + table +
             ").a)") == "[[1, 2]]|i64 (1, 2)|[[2, 4]]|i64 (1, 2)");
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

TEST_CASE("lua: the sandbox") {
  for (const char* name :
       {"io", "package", "debug", "dofile", "loadfile", "os.execute", "os.remove", "os.exit",
        "os.getenv", "string.dump", "os.rename", "os.tmpname"})
    CHECK_MESSAGE(says("print(" + std::string(name) + ")") == "nil", name);
  CHECK(says("print(type(os.clock()), type(os.time()))") == "number\tnumber");
  CHECK(says("print(load('return 1 + 1')())") == "2");
  CHECK(says("local f = load('return x', 'c', 't', {x = 5}) print(f())") == "5");
  CHECK(has(says(R"(print(load("\27Lua")))"), "attempt to load a binary chunk (mode is 't')"));
  CHECK(has(says(R"(print(load("\27Lua", "c", "b")))"), "attempt to load a binary chunk"));
  CHECK(has(error_text(ErrorKind::config, [] { Lua().script.run("\33Lua", "b.luac"); }),
            "binary chunk"));
  // Whatever names code to load, or would run where no limit reaches.
  for (const char* place : {"{\\\"device\\\": \\\"cpu\\\"}", "gpu.json", "/tmp/x", "../x"})
    CHECK(has(fails("gradus.ones(1):to(\"" + std::string(place) + "\")"),
              "expected a dtype or a device such as cuda:0"));
  CHECK(has(fails("setmetatable({}, {__gc = function() end})"),
            "__gc is not offered in the sandbox"));
  CHECK(says("print(getmetatable(setmetatable({}, {__index = {a = 5}})).__index.a)") == "5");
  CHECK(has(fails("local t = {} t[1] = t gradus.tensor(t)"), "more than 64 deep"));
  CHECK(has(fails("os.execute('true')"), "attempt to call a nil value (field 'execute')"));
  // A tensor's own table is out of reach, and __gc twice does no harm.
  CHECK(says("print(getmetatable(gradus.ones(1)))") == "gradus.Tensor");
  CHECK(has(says("print(pcall(setmetatable, gradus.ones(1), {}))"), "false"));
  CHECK(says("do local t <close> = gradus.ones(2) end print('closed')") == "closed");
  CHECK(has(says("local u do local t <close> = gradus.ones(2) u = t end print(pcall(function() "
                 "return u + 1 end))"),
            "freed"));
  // require: below the script's folder, once.
  const TempFolder folder;
  gradus::test::ProgramRun run;
  std::ofstream(folder / "part.lua") << "count = (count or 0) + 1 return {name = ..., n = count}";
  lua::ScriptOptions o;
  o.folder = folder.path();
  Lua lua(o);
  CHECK(lua("local a, b = require 'part', require 'part' print(a == b, a.name, count)") ==
        "true\tpart\t1");
  for (const char* name : {"../part", "/etc/passwd", "a/b", "nowhere", ".part", "part.", "a..part"})
    CHECK(has(lua("print(pcall(require, '" + std::string(name) + "'))"), "false"));
  lua::ScriptOptions unsafe;
  unsafe.unsafe = true;
  CHECK(Lua(unsafe)("print(type(io), type(os.getenv))") == "table\tfunction");
}

TEST_CASE("lua: limits stop what runs away, also inside pcall and coroutines") {
  const auto stopped = [](const std::string& text, lua::Limits limits, ErrorKind kind) {
    lua::ScriptOptions o;
    o.limits = limits;
    Lua lua(o);
    return error_text(kind, [&] { lua.script.run(text, "t.lua"); });
  };
  const lua::Limits steps{0, 0, 200000}, time{0, 0.2, 0}, memory{16 << 20, 0, 0};
  for (const char* loop :
       {"while true do end", "while true do pcall(function() while true do end end) end",
        "local function f() while true do end end while true do coroutine.wrap(function() pcall(f) "
        "end)() end",
        "while true do pcall(error, 'x') end"}) {
    CHECK(has(stopped(loop, steps, ErrorKind::numeric),
              "stopped after 200000 instructions (--max-instructions)"));
    CHECK(
        has(stopped(loop, time, ErrorKind::numeric), "stopped after 0.2 seconds (--max-seconds)"));
  }
  CHECK(
      has(stopped("local t = {} for i = 1, 1e9 do t[i] = 'x' .. i end", memory, ErrorKind::memory),
          "not enough memory (the limit is 16MiB, --max-memory)"));
  CHECK(has(stopped("local s = ('x'):rep(1000000000)", memory, ErrorKind::memory),
            "not enough memory"));
  CHECK(has(stopped("local t = {} for i = 1, 1e9 do t[i] = gradus.zeros(1000) end", memory,
                    ErrorKind::memory),
            "16"));
  CHECK(has(stopped("gradus.ones(100000000)", memory, ErrorKind::memory),
            "(the limit is 16MiB, --max-memory)\nstack"));
  CHECK(has(stopped("local x = gradus.ones(1000, 1000):to('reference') local t = {} for i = 1, 100 "
                    "do t[i] = x + i end",
                    memory, ErrorKind::memory),
            "leaves no room"));
  CHECK(has(stopped("local function f(d) for i = 1, 60 do if d > 0 then coroutine.wrap(f)(d - 1) "
                    "end end end f(20)",
                    steps, ErrorKind::numeric),
            "stopped after 200000 instructions"));
  for (const char* device : {"cpu", "reference"})
    CHECK(open_device(device).pool().limit() == 0);  // as before
  // Results that nothing keeps are collected before memory is refused.
  for (const char* loop :
       {"x * 2", "-x", "x:mul(2)", "gradus.ones(1000000)", "gradus.randn(1000000)"}) {
    lua::ScriptOptions o;
    o.limits.memory = 24 << 20;  // six of them; the last two are still in Lua's registers
    CHECK(Lua(o)("local x = gradus.ones(1000000) for i = 1, 30 do local y = " + std::string(loop) +
                 " end print('ok')") == "ok");
  }
  // One that ends within its limits.
  lua::ScriptOptions o;
  o.limits = {64 << 20, 60, 100000000};
  CHECK(Lua(o)("local s = 0 for i = 1, 1000 do s = s + i end print(s)") == "500500");
  // From outside, also within a coroutine.
  Lua lua;
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      lua.script.interrupt();
    }
  });
  CHECK(has(error_text(ErrorKind::interrupted,
                       [&] {
                         lua.script.run("while true do pcall(function() while true do end end) end",
                                        "t.lua");
                       }),
            "interrupted"));
  done = true;
  other.join();
}

TEST_CASE("lua: a loop that drops its tensors runs in flat memory") {
  const int steps = gradus::test::small_sizes() ? 2000 : 100000;
  Lua lua;
  Device& cpu = open_device("cpu");
  const size_t before = cpu.pool().stats().live;
  cpu.pool().reset_peak();
  CHECK(lua("local w = gradus.tensor({{0.5, -0.2}, {0.1, 0.3}}, {requires_grad = true}) local x = "
            "gradus.ones(4, 2) "
            "for i = 1, " +
            std::to_string(steps) +
            " do local loss = ((x:matmul(w) - 1) ^ 2):mean() loss:backward() "
            "gradus.no_grad(function() w:sub_(w.grad * 0.01) end) w:zero_grad() end "
            "print(w.requires_grad)") == "true");
  CHECK(cpu.pool().stats().peak < before + (20 << 20));
  // Large results: the collector hears of their bytes.
  cpu.pool().reset_peak();
  lua("local a = gradus.ones(256, 256) for i = 1, 1000 do local b = a + a end");
  CHECK(cpu.pool().stats().peak < before + (32 << 20));
  CHECK(lua("local t = gradus.ones(2) f = function() return t end print('kept')") ==
        "kept");  // freed at the end
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

namespace {
// The words of a text; numbers apart from their signs and units are words too.
std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
}
// The same words; numbers may differ by the instruction set's last bits, grown in training.
bool alike(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto number = [](const std::string& s, double& x) {
    size_t begin = s.find_first_of("+-0123456789");
    if (begin == std::string::npos) return false;
    char* end = nullptr;
    x = std::strtod(s.c_str() + begin, &end);
    return end != s.c_str() + begin;
  };
  double x = 0, y = 0;
  return number(a, x) && number(b, y) && std::fabs(x - y) <= 0.02 * std::fabs(y) + 1e-6;
}
}  // namespace

TEST_CASE("lua: each lesson of configs/scripts prints what stands at its end") {
  const TempFolder folder;
  int lessons = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(GRADUS_SOURCE_DIR "/configs/scripts")) {
    const std::string file = entry.path(), text = gradus::test::slurp(file),
                      mark = "\n--[[ prints\n";
    CAPTURE(file);
    ++lessons;
    CHECK(std::count(text.begin(), text.end(), '\n') < 60);
    const size_t at = text.find(mark);
    REQUIRE(at != std::string::npos);
    const std::string expected = text.substr(at + mark.size(), text.rfind("]]") - at - mark.size());
    const ProgramRun run = gradus::test::run(folder, "script '" + file + "' --device cpu");
    CHECK(run.code == 0);
    CHECK(run.err == "");
    const auto got = words(run.out), wanted = words(expected);
    REQUIRE(got.size() == wanted.size());
    for (size_t k = 0; k < got.size(); ++k)
      CHECK_MESSAGE(alike(got[k], wanted[k]), got[k], " for ", wanted[k]);
  }
  CHECK(lessons >= 6);
}

TEST_CASE("lua: an op of the script's own is checked and differentiated like others") {
  // In a process of their own: ops stay in the op list, which other tests go over.
  const TempFolder folder;
  const auto run = [&](const std::string& text) {
    std::ofstream(folder / "test.lua") << text;
    return gradus::test::run(folder, "script test.lua --device cpu");
  };
  const auto says = [&](const std::string& text) {
    const ProgramRun r = run(text);
    CHECK(r.err == "");
    return r.out;
  };
  const auto fails = [&](const std::string& text) { return run(text).err; };
  const std::string made =
      "local cap = gradus.op{name = 'softcap', value = function(x) return 3 * gradus.tanh(x / 3) "
      "end, "
      "slope = function(x, y) return 1 - (y / 3) ^ 2 end} ";
  CHECK(says(made + "local x = gradus.tensor({0.0, 3.0}, {dtype = 'f64', requires_grad = true}) "
                    "local y = cap(x) y:sum():backward() local t = 1 - gradus.tanh(x / 3) ^ 2 "
                    "print(y.op, (x.grad - t):abs():max():item() < 1e-12, x:softcap():equal(y))") ==
        "softcap\ttrue\ttrue\n");
  // Second order and forward mode.
  CHECK(
      says(made +
           "local h = gradus.func.hessian(function(x) return cap(x):sum() end)(gradus.tensor{1.5}) "
           "local k = gradus.func.hessian(function(x) return (3 * gradus.tanh(x / 3)):sum() "
           "end)(gradus.tensor{1.5}) "
           "local _, d = gradus.func.jvp(cap, gradus.tensor(0.0), gradus.tensor(2.0)) "
           "print((h - k):abs():item() < 1e-6, d)") == "true\t2\n");
  CHECK(says("local f = gradus.op{name = 'times', value = function(a, b) return a * b end, "
             "slope = function(a, b, y) return b, a end} "
             "local a, b = gradus.tensor({2.0}, {requires_grad = true}), gradus.tensor({5.0}, "
             "{requires_grad = true}) "
             "f(a, b):sum():backward() print(a.grad:item(), b.grad:item())") == "5.0\t2.0\n");
  const std::string wrong = fails(
      "gradus.op{name = 'wrong', value = function(x) return x ^ 2 end, "
      "slope = function(x, y) return x end}");
  CHECK(has(wrong, "gradus: test.lua:1: "));
  CHECK(has(wrong, "gradcheck"));
  CHECK(has(fails("gradus.op{name = 'relu', value = function(x) return x end, slope = function(x, "
                  "y) return 1 end}"),
            "there is an op \"relu\" already"));
  CHECK(has(fails("gradus.op{name = 'none', slope = function() end}"),
            "value: expected a function, got nil"));
  CHECK(has(fails("gradus.op{name = 'err', value = function(x) error('within') end, slope = "
                  "function(x, y) return x end}"),
            "test.lua:1: within"));
}

TEST_CASE("lua: data, experiments and optimisers") {
  const TempFolder folder;
  std::ofstream(folder / "net.json")
      << R"({"experiment": "network", "data": {"name": "digits", "train": 64, "test": 32},
    "model": {"layers": [{"linear": 10}]}, "loss": "cross_entropy", "optimizer": {"name": "adam"}, "epochs": 3, "batch_size": 32})";
  const auto run = [&](const std::string& code) {
    return gradus::test::run(folder, "script -e '" + code + "'");
  };
  ProgramRun r =
      run("local d = gradus.data{name = \"digits\", train = 20, test = 10} "
          "print(d.train_inputs.shape[1], d.train_inputs.shape[2], "
          "#d.test_labels, d.classes, d.train_labels.dtype)");
  CHECK(r.out == "20\t784\t10\t10\ti64\n");
  r =
      run("local e = gradus.experiment{config = \"net.json\", set = {\"epochs=1\"}, out = \"run\"} "
          "print(e.steps, e.run_dir, e.device, e.loss < 3)");
  CHECK(r.out == "2\trun\tcpu\ttrue\n");
  CHECK(has(run("gradus.data{nme = 1}").err, "gradus.data"));
  CHECK(has(run("gradus.experiment{confg = 1}").err, "there is no option \"confg\""));
  std::ofstream(folder / "loads.json")
      << R"({"experiment": "network", "data": {"name": "digits", "train": 64, "test": 32},
    "model": {"layers": [{"linear": 10}]}, "loss": "cross_entropy", "device": {"device": "cpu", "modules": ["evil.so"]}})";
  CHECK(has(run("gradus.experiment(\"loads.json\")").err, "in the sandbox a device is a name"));
  CHECK(has(run("gradus.experiment(\"nowhere.json\")").err, "nowhere.json"));
  r = run(
      "gradus.seed(1) local net = gradus.nn({{linear = 6}, \"relu\", {linear = 3}}, {1, 4}) local "
      "p = net:parameters() "
      "local adam = gradus.optim.adam(p, {lr = 0.1}) local x = gradus.ones(2, 4) local first, last "
      "for i = 1, 20 do local loss = (net(x) - 1):pow(2):mean() first = first or loss:item() last "
      "= loss:item() adam:zero_grad() loss:backward() adam:step() end "
      "print(last < first / 10, p[\"layers.0.weight\"].requires_grad, "
      "net:train(false)(x).shape[2]) "
      "local s = net:state() s[\"layers.2.bias\"] = gradus.ones(3) * 9 net:load(s) "
      "print(net:state()[\"layers.2.bias\"][1])");
  INFO(r.err);
  CHECK(r.out == "true\ttrue\t3\n9\n");
  CHECK(has(run("gradus.nn({{linnear = 6}}, {1, 4})").err, "linear"));
  CHECK(has(run("gradus.nn({\"relu\"}, {1, 4}):forward(1)").err, "-e:1: "));
  // The rule of each optimiser on one number: p = 1, g = 2.
  const auto stepped = [](const std::string& made) {
    return says(
        "local p = gradus.tensor({1.0}, {dtype = 'f64', requires_grad = true}) local o = "
        "gradus.optim." +
        made +
        " for i = 1, 2 do o:zero_grad(); (p * 2):sum():backward() o:step() end "
        "print(string.format('%.6f', p:item()), o.steps)");
  };
  CHECK(stepped("sgd({p}, {lr = 0.1})") == "0.600000\t2");
  CHECK(stepped("sgd({p}, {lr = 0.1, momentum = 0.5})") == "0.500000\t2");
  CHECK(stepped("adam({w = p}, {lr = 0.1})") == "0.800000\t2");
  CHECK(stepped("adamw({p}, {lr = 0.1, weight_decay = 1})") == "0.620000\t2");
  CHECK(says("local o = gradus.optim.adam({gradus.ones(1):requires_grad_()}, {lr = 0.1}) o.lr = "
             "0.5 print(o.lr)") == "0.5");
  CHECK(has(fails("gradus.optim.sgd({gradus.ones(1):requires_grad_()}, {momentun = 1})"),
            "did you mean \"momentum\"?"));
  CHECK(has(fails("gradus.optim.sgd({})"), "no parameters"));
}

TEST_CASE("lua: gradus script and gradus repl") {
  const TempFolder folder;
  const auto run = [&](const std::string& arguments) {
    return gradus::test::run(folder, arguments);
  };
  std::ofstream(folder / "s.lua")
      << "print(gradus.device(), #arg, ...)\nif ... == 'fail' then\n  error('planned')\nend\n";
  ProgramRun r = run("script s.lua one --device two");
  CHECK(r.code == 0);
  CHECK(r.out == "cpu\t3\tone\t--device\ttwo\n");
  r = run("script --device cpu s.lua fail");
  CHECK(r.code == 2);
  CHECK(has(r.err, "stack traceback:"));
  CHECK(has(r.err, "gradus: s.lua:3: planned\n"));
  CHECK(run("script --check s.lua").out == "");
  CHECK(run("script -e 'print(2)'").out == "2\n");
  CHECK(gradus::test::run(folder, "script - <s.lua").out == "cpu\t0\n");
  CHECK(run("script").code == 2);
  CHECK(run("script nowhere.lua").code == 3);
  CHECK(run("script --max-instructions 10000 -e 'while true do end'").code == 5);
  // What no hook reaches.
  r = run("script --max-seconds 0.3 -e 's = (\"a\"):rep(30000) s:find((\".-\"):rep(20) .. \"b\")'");
  CHECK(r.code == 5);
  CHECK(has(r.err, "within a function that does not return"));
  r = run("script --max-seconds 60 -e 'print(gradus.ones(2):sum():item()) error(\"x\")'");
  CHECK(r.code == 2);
  CHECK(r.out == "2.0\n");
  CHECK(run("script --max-seconds nan -e 1").code == 2);
  std::ofstream(folder / "half") << "for i = 1, 2 do";
  CHECK(has(run("repl <half").err, "the last input is unfinished"));
  r = run("script --max-memory 1zz -e ''");
  CHECK(r.code == 2);
  std::ofstream(folder / "typed")
      << "x = gradus.ones(2)\nx:sum()\nfor i = 1, 1 do\nprint('in')\nend\nx + nil\n7\n:help relu\n";
  r = run("repl <typed");
  CHECK(r.code == 0);
  CHECK(r.out.find("2\nin\n7\n") == 0);
  CHECK(has(r.out, "relu"));
  CHECK(has(r.err, "expected a tensor or a number, got nil"));
}
