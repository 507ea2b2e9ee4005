// Lua: what scripts in the sandbox try that no script should: C functions called with anything,
// functions of Lua where no limit reaches, memory beside what Lua and the devices count.
#include "ops/ops.hpp"
#include "tests/helpers/lua_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <doctest/doctest.h>

#include <climits>

using namespace gradus;
using gradus::test::check_has;
using gradus::test::fails;
using gradus::test::has;
using gradus::test::Lua;
using gradus::test::MeasuredRun;
using gradus::test::ProgramRun;
using gradus::test::says;
using gradus::test::TempFolder;

namespace {

// One of each kind of object that a script can hold.
constexpr const char* kObjects = R"(
local x = gradus.ones(2, 3, {requires_grad = true})
local objects = {gradus, gradus.func, gradus.audit, gradus.optim, x, x.shape,
  gradus.nn({{linear = 2}, "relu"}, {1, 3}), gradus.optim.adam({x}),
  x:register_hook(function() end), (gradus.progress(3)),
  gradus.audit.check(function() return x * 2 end),
  gradus.capture(function(a) return a end), gradus.einsum_plan("i,i->", {2}, {2}), gradus.nn,
  gradus.nn.Linear(2, 3), gradus.nn.MSELoss(),
  gradus.audit.stepper(function() return (x * 2):sum() end), coroutine.create(function() end), ""}
)";

}  // namespace

TEST_CASE("lua sandbox: C functions that a script reaches take anything for an argument") {
  // Every function that is reached over fields and metatables, called with all sorts of things. A
  // process of its own: it may die, and ops stay in the op list.
  const TempFolder folder;
  folder.write("fuzz.lua", std::string(kObjects) + R"(
local out = print
local rounds = tonumber(...)
local wrong = {0x4141414141414141, -1, 0.5, "abc", "x", print, {}, {1, 2, 3}, {{bad = true}}, true, x,
  coroutine.create(function() end)}
for _, o in ipairs(objects) do wrong[#wrong + 1] = o end
local seen, functions = {}, {}
local function visit(v, deep)
  if v == nil or seen[v] or deep > 6 then return end
  seen[v] = true
  if type(v) == "function" then functions[#functions + 1] = v return end
  if type(v) == "table" then
    for key, field in next, v do if v ~= _G or key ~= "print" then visit(field, deep + 1) end end
  end
  if type(v) == "table" or type(v) == "userdata" or type(v) == "string" then
    visit(getmetatable(v), deep + 1)
    for _, name in ipairs{"__index", "__gc", "__metatable", "__tostring", "__name"} do
      local ok, field = pcall(function() return v[name] end)
      if ok then visit(field, deep + 1) end
    end
  end
end
for _, o in ipairs(objects) do visit(o, 0) end
visit(getmetatable(_G), 0)
for _, name in ipairs{"sum", "add_", "totable", "to", "size", "rows", "clone", "register_hook", "equal",
                      "view", "t", "type", "cuda", "float", "normal_", "clamp_", "dim", "view_as"} do
  visit(x[name], 0)
end
for _, name in ipairs{"setmetatable", "getmetatable", "load", "require", "rawset", "tostring", "xpcall", "pcall",
                      "select", "next", "ipairs", "tonumber", "rawlen"} do visit(_G[name], 0) end
for _, name in ipairs{"create", "wrap", "resume", "close", "status"} do visit(coroutine[name], 0) end
local skip = {[gradus.experiment] = true, [gradus.data] = true, [gradus.save] = true, [gradus.audit.graph] = true,
  [gradus.audit.record] = true, [gradus.op] = true, [string.rep] = true}
local random = math.random
math.randomseed(7)
local calls = 0
for _, f in ipairs(functions) do
  if not skip[f] then
    for i = 0, #wrong do pcall(f, wrong[i], wrong[i] and "x") end
    for i = 1, rounds do
      local n, a = random(0, 4), {}
      for k = 1, n do a[k] = wrong[random(#wrong)] end
      pcall(f, table.unpack(a, 1, n))
    end
    calls = calls + 1 + #wrong + rounds
  end
end
out(calls > 1000 and "survived")
)");
  const ProgramRun r =
      gradus::test::run(folder, std::string("script --max-memory 200MiB --device cpu fuzz.lua ") +
                                    (gradus::test::small_sizes() ? "3" : "20"));
  CAPTURE(r.err);
  CHECK(r.code == 0);
  CHECK(has(r.out, "survived\n"));
}

TEST_CASE("lua sandbox: no type's own table is within reach") {
  const TempFolder folder;
  folder.write("reach.lua", std::string(kObjects) + R"(
for i, o in ipairs(objects) do
  if o ~= "" and type(getmetatable(o)) == "table" then print(i, "its metatable") end
  for _, name in ipairs{"__index", "__gc", "__metatable"} do
    local ok, field = pcall(function() return o[name] end)
    if ok and o ~= "" and type(field) ~= "nil" then print(i, name, type(field)) end
  end
  if pcall(setmetatable, o, {}) then print(i, "another metatable") end
end
print "done")");
  CHECK(gradus::test::run(folder, "script --device cpu reach.lua").out == "done\n");
  // So no function of Lua becomes a finalizer, which no limit would end.
  check_has(fails("local h = gradus.ones(2, {requires_grad = true}):register_hook(print) "
                  "h.__index.__gc = print"),
            "attempt to index a nil value (field '__index')");
}

TEST_CASE("lua sandbox: an error of a limit runs no more of the script") {
  // It is raised where no hook runs: a loop in a handler or a __close would never end.
  const TempFolder folder;
  const std::string loop = "function() while true do end end",
                    closes = "local x <close> = setmetatable({}, {__close = " + loop + "}) ",
                    closing = closes + "while true do end ";
  for (const std::string& text :
       {"xpcall(" + loop + ", " + loop + ")",
        "xpcall(xpcall, " + loop + ", " + loop + ", " + loop + ")",
        "coroutine.wrap(function() xpcall(" + loop + ", " + loop + ") end)()",
        "coroutine.wrap(function() " + closing + " end)()",
        "local co = coroutine.create(function() " + closing +
            " end) coroutine.resume(co) coroutine.close(co)",
        "pcall(function() " + closing + " end)",
        // Struck while a coroutine is closed, or in one: who resumed it hears of nothing either.
        "pcall(coroutine.wrap(function() " + closes + "error(1) end)) print(1)",
        "local co = coroutine.create(function() " + closes +
            "coroutine.yield() end) coroutine.resume(co) coroutine.close(co) print(1)",
        "coroutine.resume(coroutine.create(" + loop + ")) print(1)",
        "table.sort({1, 2, 3}, function() " + closing + " end)"}) {
    CAPTURE(text);
    const ProgramRun r = gradus::test::run(
        folder, "script --max-instructions 100000 --max-seconds 20 -e '" + text + "'");
    CHECK(r.code == 5);
    CHECK(r.out == "");
    check_has(r.err, "gradus: -e:1: stopped after 100000 instructions (--max-instructions)");
  }
  // Otherwise both are Lua's own.
  CHECK(says("print(xpcall(error, function(m) return m .. '!' end, 'x')) "
             "print(xpcall(math.max, print, 3, 7, 5)) print((xpcall(error, error))) "
             "print(pcall(xpcall, print))") ==
        "false\tx!|true\t7|false|false\tbad argument #2 to 'xpcall' (function expected, got no "
        "value)");
  CHECK(
      says("local f = coroutine.wrap(function(...) print(xpcall(function(a, b) "
           "print(a, coroutine.yield(b)) error('late') end, function(m) return 'heard ' .. m end, "
           "...)) return 9 end) print(f(1, 2)) print(f('in')) print(pcall(f))") ==
      "2|1\tin|false\theard test.lua:1: late|9|false\tcannot resume dead coroutine");
  CHECK(says("local closed local co = coroutine.create(function() local x <close> = "
             "setmetatable({}, {__close = function() closed = true end}) coroutine.yield() end) "
             "coroutine.resume(co) print(coroutine.close(co), closed, coroutine.status(co)) "
             "print(coroutine.close(coroutine.create(print))) "
             "co = coroutine.create(error) coroutine.resume(co, 'e') print(coroutine.close(co))") ==
        "true\ttrue\tdead|true|false\te");
  check_has(fails("coroutine.close(coroutine.running())"),
            "test.lua:1: cannot close a running coroutine");
}

namespace {

MeasuredRun under_100_mib(const TempFolder& folder, const std::string& text) {
  folder.write("bounded.lua", text);
  return gradus::test::run_measured(folder, "script --device cpu --max-memory 100MiB bounded.lua");
}
#ifdef GRADUS_SANITIZED
constexpr long kMostMib = LONG_MAX;  // blocks are counted then, but none is refused
#else
constexpr long kMostMib = 600;  // with the program itself
#endif

}  // namespace

TEST_CASE("lua sandbox: what goes to the host counts as memory, before it is taken") {
  const TempFolder folder;
  MeasuredRun b = under_100_mib(folder, "print(gradus.ones(1):expand(1e9))");
  CHECK(b.run.err == "");
  CHECK(b.run.out == "[1, 1, 1, ..., 1, 1, 1]\nf32 (1000000000,)\n");
  CHECK(b.peak < kMostMib);
  for (const char* text :
       {"gradus.ones(1, {dtype = 'f64'}):expand(1e9):totable()",
        "gradus.ones(1):expand(1e4, 1e5):totable()",
        "gradus.save('t.npy', gradus.ones(1):expand(1e9))",
        "gradus.save('t.safetensors', {a = gradus.ones(1):expand(1e9), b = gradus.ones(1)})",
        "print(gradus.ones(1):expand(8, 8, 8, 8, 8, 8, 8, 8, 8, 8))"}) {
    CAPTURE(text);
    b = under_100_mib(folder, text);
    CHECK(b.run.code == 5);
    check_has(b.run.err, "(the limit is 100MiB, --max-memory)");
    CHECK(b.peak < kMostMib);
  }
  // In parts or at once, the same comes of it; of long axes the ends are shown, as of short ones.
  Lua lua;
  for (const Shape& sizes : {Shape{80000}, Shape{1, 80000}, Shape{16000, 5}, Shape{2, 40000},
                             Shape{2, 400, 100}, Shape{5, 8, 2000}, Shape{40000, 2, 1}}) {
    const std::string made = join("local t = gradus.arange(80000):reshape({",
                                  to_text(sizes).substr(1, to_text(sizes).size() - 2), "}) ");
    CAPTURE(made);
    CHECK(lua(made + "print(gradus.tensor(t:totable()):equal(t), "
                     "gradus.tensor((t * 0.5):totable()):equal(t * 0.5))") == "true\ttrue");
    lua(made + "print(t)");
    CHECK(lua.out.str() ==
          reshape(arange(0, 80000), sizes).to_string() + "\ni64 " + to_text(sizes) + "\n");
  }
}

TEST_CASE("lua sandbox: the limit of memory is one for Lua, C++ and all devices") {
  const auto refused = [](const std::string& text) {
    lua::ScriptOptions o;
    o.limits.memory = 32 << 20;
    Lua lua(o);
    return gradus::test::error_text(ErrorKind::memory, [&] { lua.script.run(text, "t.lua"); });
  };
  // 12 of 2 MiB fit twice, if each device is asked alone.
  const std::string two =
      "local kept = {} for _, d in ipairs{'cpu', 'reference'} do "
      "for i = 1, 12 do kept[#kept + 1] = gradus.ones(512, 1024):to(d) end end";
  // A copy to another device needs its own bytes on the way, so it is refused within the call, or
  // after it where no block is refused.
  check_has(refused(two), "t.lua:1: memory: ");
  check_has(refused(two), "leaves no room");
  check_has(refused("local s, r = ('x'):rep(7 << 20), ('y'):rep(7 << 20) local kept = {} "
                    "for i = 1, 10 do kept[i] = gradus.ones(512, 1024) end"),
            "t.lua:1: memory: the last result leaves no room");
  // Caught, it leaves a script that goes on.
  lua::ScriptOptions o;
  o.limits.memory = 32 << 20;
  CHECK(Lua(o)("print((pcall(function() " + two +
               " end))) local t = {} for i = 1, 10 do t[i] = "
               "gradus.ones(512, 1024):to('reference') end print(#t)") == "false|10");
  const TempFolder folder;
  folder.write("net.json",
               R"({"experiment": "network", "data": {"name": "digits", "train": 4, "test": 4},
    "model": {"layers": [{"linear": 40000}, {"linear": 10}]}, "loss": "cross_entropy"})");
  const MeasuredRun b =
      under_100_mib(folder, "gradus.experiment{config = 'net.json', device = 'reference'}");
  check_has(b.run.err, "uniform: needs 120 MiB on reference but the limit leaves no room");
  for (const char* device : {"cpu", "reference"})
    CHECK(open_device(device).pool().limit() == 0);  // as before
}

TEST_CASE("lua sandbox: work that no hook interrupts is bounded") {
  // Each took seconds or much memory, and more the longer its text.
  CHECK(says("local x = gradus.rand(2, 3, 4) print(x:local_response_norm(1 << 40, 0.0):equal(x), "
             "(x:local_response_norm(99, 0.7) - x:local_response_norm(7, 0.7 * 7 / 99)):abs():max()"
             ":item() < 1e-6)") == "true\ttrue");
  const std::string said = fails("return gradus[('1'):rep(3e6)]");
  CHECK(said.size() < 200);
  check_has(said, "gradus: has no \"111");
  check_has(fails("gradus.ones(2):softmax({[('1'):rep(1e6)] = 1})"), "has no attribute");
  check_has(fails("return gradus.ones(2)[('1,'):rep(1e6) .. ':']"),
            "1000001 subscripts for a shape of (2,)");
  check_has(fails("local t = {} for i = 1, 1000 do t[i] = 1 end return gradus.ones(2)[t]"),
            "1000 subscripts for a shape of (2,)");
}

TEST_CASE("lua sandbox: errors have a place, however deep in C++ they are raised") {
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
           {"setmetatable(gradus.ones(2), {})",
            "test.lua:1: bad argument #1 to 'setmetatable' (table expected, got gradus.Tensor)"},
           {"setmetatable({}, 5)",
            "test.lua:1: bad argument #2 to 'setmetatable' (nil or table expected"},
           {"setmetatable(gradus, {})", "test.lua:1: cannot change a protected metatable"},
           {"coroutine.wrap(5)", "test.lua:1: bad argument #1 to 'wrap' (function expected"},
           {"coroutine.create()", "test.lua:1: bad argument #1 to 'create' (function expected"},
           {"coroutine.close(5)", "test.lua:1: bad argument #1 to 'close' (coroutine expected"},
           {"collectgarbage('nope')",
            "test.lua:1: bad argument #1 to 'collectgarbage' (invalid option"},
           {"load({})", "test.lua:1: bad argument #1 to 'load' (function expected, got table)"},
           {"print(\n\npcall(gradus.zeros, -1))\nerror('end')", "test.lua:4: end"},
           {"gradus.func.vmap(function(x)\nprint(x)\nreturn x end)(gradus.ones(2, 2))",
            "test.lua:2: "},
           {"\nstring.gsub('a', '.', gradus.ones)", "test.lua:2: ones: "}})
    check_has(fails(text), said);
  lua::ScriptOptions o;
  o.limits.memory = 16 << 20;
  Lua small(o);
  check_has(gradus::test::error_text(
                ErrorKind::memory,
                [&] {
                  small.script.run(
                      "local x = 1\nprint(gradus.ones(1):expand(8, 8, 8, 8, 8, 8, 8, 8))",
                      "test.lua");
                }),
            "test.lua:2: ");
  // A function that C++ calls has its frames in the traceback, once; another error has its own.
  for (const char* through :
       {"gradus.func.vmap(outer)(gradus.ones(2, 2))", "gradus.func.grad(outer)(gradus.ones(2))",
        "gradus.no_grad(outer, 1)", "gradus.no_grad(gradus.no_grad, outer)",
        "local x = gradus.ones(2, {requires_grad = true}) x:register_hook(outer) "
        "x:sum():backward()"}) {
    CAPTURE(through);
    Lua lua;
    const std::string said = gradus::test::error_text(ErrorKind::value, [&] {
      lua.script.run(
          "local function inner(x)\nerror('deep')\nend\nfunction outer(x)\ninner(x)\n"
          "return x\nend\npcall(outer, 1)\n" +
              std::string(through),
          "test.lua");
    });
    check_has(said, "test.lua:2: deep\nstack traceback:");
    for (const char* frame :
         {"test.lua:2: in ", "test.lua:5: in function", "test.lua:9: in main chunk"}) {
      const size_t first = said.find(frame);
      CHECK_MESSAGE(first != std::string::npos, said);
      CHECK(said.find(frame, first + 1) == std::string::npos);
    }
  }
  Lua lua;
  const std::string other = gradus::test::error_text(ErrorKind::value, [&] {
    lua.script.run("pcall(gradus.no_grad, function() error('same', 0) end)\nerror('same', 0)",
                   "test.lua");
  });
  CHECK(!has(other, "test.lua:1:"));
  check_has(other, "test.lua:2: in main chunk");
}

TEST_CASE("lua sandbox: what a graph keeps counts as memory, and long ops look at the clock") {
  const TempFolder folder;
  for (const char* endless :
       {"local x = gradus.ones(1):requires_grad_() while true do x = x:sin() end",
        "local w, all = gradus.ones(1):requires_grad_(), 0 while true do all = all + (w * w):sum() "
        "end",
        "local w = gradus.ones(1):requires_grad_() * 2 while true do w:add_(1) end"}) {
    CAPTURE(endless);
    // Without a limit of its own this one would go on for gigabytes.
    const ProgramRun r = gradus::test::run(
        folder, "script --max-memory 50MiB --max-seconds 60 -e '" + std::string(endless) + "'");
    CHECK(r.code == 5);
    check_has(r.err, "(the limit is 50MiB, --max-memory)");
  }
  // A loop whose every turn is long: few instructions of Lua.
  const ProgramRun r = gradus::test::run(
      folder,
      "script --max-seconds 0.3 -e 'local x = gradus.randn(300, 300) while true do\n"
      "pcall(x.matmul, x, x) end'");
  CHECK(r.code == 5);
  check_has(r.err, "gradus: -e:2: stopped after 0.3 seconds (--max-seconds)");
  // A table that refers to another twice, and so on: nothing in it, but no end of it.
  for (const char* conversion :
       {"gradus.tensor(t)", "gradus.zeros(1):backward(t)", "local x = gradus.ones(1) x[1] = t"}) {
    CAPTURE(conversion);
    const ProgramRun c = gradus::test::run(folder,
                                           "script --max-seconds 0.3 -e 'local t = {} for i = 1, "
                                           "60 do t = {t, t} end pcall(function()\n" +
                                               std::string(conversion) + " end) print(1)'");
    CHECK(c.code == 5);
    CHECK(c.out == "");
    check_has(c.err, "gradus: -e:1: stopped after 0.3 seconds (--max-seconds)");
  }
}

TEST_CASE("lua sandbox: an interrupt sent to who enforces the limits ends the script") {
  const TempFolder folder;
  folder.write("parent.lua",
               "os.execute([[(sleep 0.3; kill -INT $(cut -d' ' -f4 /proc/$PPID/stat)) &]])\n"
               "while true do end\n");
  const ProgramRun r = gradus::test::run(folder, "script --unsafe --max-seconds 60 parent.lua");
  CHECK(r.code == 130);
  check_has(r.err, "gradus: parent.lua:2: interrupted");
}
