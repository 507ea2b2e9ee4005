// Lua: the sandbox, limits that no pcall swallows, flat memory.
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
            "binary chunk (mode is 't'): bytecode runs with --unsafe alone"));
  // Whatever names code to load, or would run where no limit reaches.
  for (const char* place : {"{\\\"device\\\": \\\"cpu\\\"}", "gpu.json", "/tmp/x", "../x"})
    CHECK(has(fails("gradus.ones(1):to(\"" + std::string(place) + "\")"),
              "expected a dtype or a device such as cuda:0"));
  CHECK(has(fails("setmetatable({}, {__gc = function() end})"),
            "__gc is not offered in the sandbox"));
  CHECK(says("print(getmetatable(setmetatable({}, {__index = {a = 5}})).__index.a)") == "5");
  CHECK(has(fails("local t = {} t[1] = t gradus.tensor(t)"), "more than 64 deep"));
  CHECK(has(fails("os.execute('true')"),
            "(field 'execute'): it is not in the sandbox (--unsafe has it)"));
  CHECK(has(fails("io.open('x')"), "(global 'io'): it is not in the sandbox (--unsafe has it)"));
  // A tensor's own table is out of reach, and __gc twice does no harm.
  CHECK(says("print(getmetatable(gradus.ones(1)))") == "gradus.Tensor");
  CHECK(has(says("print(pcall(setmetatable, gradus.ones(1), {}))"), "false"));
  CHECK(says("do local t <close> = gradus.ones(2) end print('closed')") == "closed");
  for (const char* use : {"u + 1", "-u", "u[1]", "u.shape", "#u", "u:sum()"})
    CHECK(has(
        fails("local u do local t <close> = gradus.ones(2) u = t end return " + std::string(use)),
        "freed"));
  // require: below the script's folder, once.
  const TempFolder folder;
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

TEST_CASE("lua: what the collector frees is freed, and nothing else is taken for a tensor") {
  Device& device = default_device();
  const size_t before = device.pool().stats().live;
  lua::ScriptOptions options;
  std::ostringstream out;
  options.out = &out;
  {
    lua::Script script(options);
    // Blocks of all small sizes come and go between the tensors' own.
    script.run(
        "local keep, n = {}, 0\n"
        "for i = 1, 20000 do\n"
        "  local t = gradus.full({8}, i) + 1\n"
        "  local s = ('x'):rep(i % 64) .. i  local a = {i, i, i}  local f = function() return t, s "
        "end\n"
        "  if i % 1000 == 0 then keep[#keep + 1] = t end\n"
        "  do local c <close> = t * 2 n = n + 1 end\n"
        "end\n"
        "collectgarbage() collectgarbage()\n"
        "for k, t in ipairs(keep) do assert(t:sum():item() == 8 * (1000 * k + 1)) end\n"
        "print(#keep, n)\n",
        "test.lua");
    CHECK(out.str() == "20\t20000\n");
    CHECK(device.pool().stats().live - before < 64 * 1024);
  }
  CHECK(device.pool().stats().live == before);
}
