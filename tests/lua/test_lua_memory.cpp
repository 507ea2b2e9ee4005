// Lua: --max-memory bounds what a script takes of the machine, by whatever door: the limit counts
// blocks of the heap, this looks at resident memory.
#include "bindings/heap/heap.hpp"
#include "tests/helpers/lua_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

using namespace gradus;
using gradus::test::check_has;
using gradus::test::Lua;
using gradus::test::MeasuredRun;
using gradus::test::ProgramRun;
using gradus::test::TempFolder;

namespace {

// A table of a few hundred bytes that is 2^40 values as JSON; leaves that hold nothing, or a
// number.
const std::string kShared = "local t = {1, 2} for i = 1, 40 do t = {t, t} end ",
                  kEmpty = "local t = {} for i = 1, 40 do t = {t, t} end ",
                  kLeaf = "local w = gradus.ones(8):requires_grad_() ",
                  kKept = "local kept = {} for i = 1, 1e9 do kept[i] = ";

constexpr int kLimit = 5, kAny = -1;
struct Script {
  std::string text;
  int code = kLimit;  // how it ends
};

std::vector<Script> scripts_of_lua() {
  return {{"local t = {} for i = 1, 1e9 do t[i] = i end"},
          {"local t = {} for i = 1, 1e9 do t[i] = 'text ' .. i end"},
          {"local s = ('x'):rep(1 << 30)"},
          {"local s = 'x' while true do s = s .. s end"},
          {"local s = ('x'):rep(40 << 20) s:gsub('x', 'yyyy')"},
          {"local s = ('x'):rep(30 << 20) print(#string.format('%s%s%s%s', s, s, s, s))"},
          {kKept + "function() return i end end"},
          {kKept + "coroutine.create(function() end) end"},
          {kKept + "coroutine.wrap(function() coroutine.yield() end) kept[i]() end"},
          {"load('return {' .. ('1,'):rep(30 << 20) .. '}')"},
          {"error(('x'):rep(30 << 20))", 2},
          {"error(setmetatable({}, {__tostring = function() return ('x'):rep(30 << 20) end}))", 2},
          {"pcall(error, ('x'):rep(30 << 20)) local s = ('y'):rep(30 << 20) print(#s)", 0},
          {"print(('x'):rep(30 << 20))", kAny},
          {"while true do pcall(string.rep, 'x', 1 << 30) local t = {} "
           "for i = 1, 1e9 do t[i] = {} end end"},
          {"for i = 1, 300 do local s = ('x'):rep(i << 16) end print(1)", 0},
          {"for k = 1, 4 do local t = {} for i = 1, 4e5 do t[i] = {i} end end print(1)", 0}};
}

std::vector<Script> scripts_of_tables() {
  return {{kShared + "gradus.data(t)"},
          {kShared + "gradus.data{name = t}"},
          {kShared + "gradus.nn(t, {1, 4})"},
          {kShared + "gradus.nn({{linear = t}}, {1, 4})"},
          {kShared + "gradus.experiment(t)"},
          {kShared + "gradus.experiment{config = 'net.json', set = t}"},
          {kShared + "gradus.tensor(t)"},
          {kShared + "gradus.ones(2):backward(t)"},
          {kShared + "local w = gradus.ones(2) w[1] = t"},
          {"local l = {} for i = 1, 20000 do l[i] = {linear = 64} end gradus.nn(l, {1, 64})"},
          {"local l = {} for i = 1, 2e6 do l[i] = 'relu' end gradus.nn(l, {1, 64})"},
          {"local s = {} for i = 1, 4e6 do s[i] = 1 end gradus.zeros(s)"},
          {"local s = {} for i = 1, 4e6 do s[i] = i end local x = gradus.tensor(s)"},
          {kKept + "gradus.ones(1):reshape(table.unpack(ones)) end"},
          {"gradus.einsum(('a,'):rep(5 << 20) .. 'a->', gradus.ones(2))", kAny}};
}

std::vector<Script> scripts_of_tensors() {
  return {
      {kKept + "gradus.ones(64, 1024) end"},
      {kKept + "gradus.ones(1) end"},
      {"local k = {} for i = 1, 47 do k[i] = gradus.ones(512, 1024) end print(1)", 0},
      {kKept + "gradus.ones(1).shape end"},
      {kKept + "gradus.ones(64, 1024):to('reference') end"},
      {"gradus.rand(1e5, 1e5)"},
      {"gradus.ones(1):expand(1e9):clone()"},
      {"gradus.ones(1):expand(1e9):sort()"},
      {"gradus.ones(1):expand(1e9):totable()"},
      {"gradus.ones(1e6):totable()", 0},
      {"print(gradus.ones(1):expand(8, 8, 8, 8, 8, 8, 8, 8, 8, 8))"},
      {"print(gradus.ones(1):expand(1e9))", 0},
      {"gradus.save('t.npy', gradus.ones(1):expand(1e9))"},
      {"gradus.save('t.safetensors', {a = gradus.ones(1):expand(1e9), b = gradus.ones(1)})"},
      {"gradus.load('sparse.npy')"},
      {"gradus.load('sparse.safetensors')"},
      {"local x = gradus.ones(1 << 20) local y = x:sort() local z = x:cumsum(1) print(1)", 0},
      {"local x = gradus.rand(900, 900) for i = 1, 20 do x = x:matmul(x):tanh() end print(1)", 0},
      {"for i = 1, 300 do local x = gradus.ones(2 + i % 7, 1 << 20) end print(1)", 0},
      {"gradus.ones(2000):unsqueeze(1):mul(gradus.ones(2000, 2000)):unsqueeze(1)"
       ":mul(gradus.ones(2000, 1, 1))"}};
}

std::vector<Script> scripts_of_graphs() {
  return {
      {kLeaf + "local x = w while true do x = x:sin() end"},
      {kLeaf + "local all = 0 while true do all = all + (w * w):sum() end"},
      {kLeaf + "local x = w * 2 while true do x:add_(1) end"},
      {kLeaf + "local x = w * 2 while true do x[1] = 3 end"},
      {kLeaf + "local x = w * 2 for i = 1, 30000 do x:fill_(1) x:copy_(w) end", 0},
      {kLeaf + "while true do w:register_hook(function() end) end"},
      {kLeaf + "local x = w * 2 while true do x:retain_grad() "
               "x:register_hook(function(g) return g * 2 end) end"},
      {"local i, text = 0, ('x'):rep(1 << 16) while true do i = i + 1 "
       "gradus.op{name = 'own' .. i, check = false, doc = text, "
       "value = function(x) return x end, slope = function(x) return 1 end} end"},
      {kLeaf + "local x = w while true do x = gradus.checkpoint(function(a) return a * 2 end, x) "
               "end"},
      {kLeaf + "local g = w while true do "
               "g = gradus.grad((g * w):sin():sum(), w, {create_graph = true}) end"},
      {"gradus.func.jacobian(function(x) return x:sin() end)(gradus.ones(6000))"},
      {"gradus.func.hessian(function(x) return x:sin():sum() end)(gradus.ones(6000))"},
      {"gradus.func.vmap(function(x) return gradus.ones(1 << 20) * x end)(gradus.ones(1000))"},
      {"local p = {} for i = 1, 1e6 do p[i] = gradus.ones(1):requires_grad_() end "
       "gradus.optim.adam(p)"},
      {"local p = gradus.ones(10 << 20):requires_grad_() local o = gradus.optim.adam({p}) "
       "p.grad = p:detach() o:step()"},
      {kLeaf + "for i = 1, 3000 do (w * w):sin():sum():backward() end print(1)", 0}};
}

std::vector<Script> scripts_of_audits() {
  const std::string chain = kLeaf +
                            "local function f() local x = w for i = 1, 400000 do "
                            "x = x:sin() end return x:sum() end ",
                    large =
                        "local w = gradus.ones(1 << 20):requires_grad_() local function f() "
                        "local x = w for i = 1, 40 do x = x:sin() end return x:sum() end ";
  std::vector<Script> all{
      {"gradus.audit.watch(function() while true do local x = gradus.ones(1000) * 2 end end)"},
      {kLeaf + "gradus.audit.versions(function() while true do w:detach():add_(1) end end)"}};
  for (const char* look :
       {"gradus.audit.graph(f)", "gradus.audit.graph(f, {html = 'a.html', json = 'a.json'})",
        "gradus.audit.check(f)", "gradus.audit.birth(f)", "gradus.audit.ledger(f)",
        "gradus.audit.cost(f)", "gradus.audit.health(f)", "gradus.audit.record(f, 'a.safetensors')",
        "gradus.audit.explain(f, w)", "gradus.audit.diff(f, f)",
        "local s = gradus.audit.stepper(f) s:run{}", "gradus.audit.backward(f, function(s) end)"}) {
    all.push_back({chain + look});
    all.push_back({large + look});
  }
  return all;
}

std::vector<Script> scripts_of_the_program() {
  return {{"gradus.data{name = 'digits', train = 10000000}"},
          {"gradus.data{name = 'digits', train = 60000}"},
          {"gradus.data{name = 'copy', train = 1000000, length = 50}"},
          {"gradus.experiment{config = 'net.json', set = {'data.train=10000000'}}"},
          {"gradus.experiment{config = 'net.json', set = {'model.layers[0].linear=400000'}}"},
          {"gradus.experiment{config = 'huge.json'}", kAny},
          {"gradus.experiment{config = 'net.json'} print(1)", 0},
          {"require 'huge'", kAny},
          {"local text = ('x'):rep(1 << 20) " + kKept + "gradus.progress(1, {text = text}) end"},
          {"gradus.progress(1, {text = ('x'):rep(30 << 20)})", kAny},
          {"local bar = gradus.progress(9) bar:set{a = ('x'):rep(30 << 20)} print(1)", 0}};
}

constexpr const char* kNetwork =
    R"({"experiment": "network", "data": {"name": "digits", "train": 64, "test": 8},
    "model": {"layers": [{"linear": 10}]}, "loss": "cross_entropy", "epochs": 1,
    "report": false})";

// bounded.lua in the folder, under a limit. It is ended after minutes only if it never would.
MeasuredRun run_bounded(const TempFolder& folder, const std::string& options) {
  return gradus::test::run_measured(
      folder, "script --device cpu --max-seconds 300 " + options + " bounded.lua");
}

// Each keeps what it makes where it can, so a limit ends it.
void check_each(const std::vector<Script>& scripts) {
#ifdef GRADUS_SANITIZED
  return;  // what a sanitizer keeps beside blocks is resident, too, and it refuses none
#endif
  const TempFolder folder;
  folder.write("net.json", kNetwork);
  // Files of 400 MB of zeros, which take no place on the disk.
  const auto sparse = [&](const char* name, const std::string& head) {
    folder.write(name, head);
    std::filesystem::resize_file(folder / name, head.size() + 400000000);
  };
  std::string npy = "{'descr': '<f4', 'fortran_order': False, 'shape': (100000000,), }";
  npy.resize(117, ' ');
  sparse("sparse.npy", std::string("\x93NUMPY\x01\x00\x76\x00", 10) + npy + "\n");
  const std::string safetensors =
      R"({"a":{"dtype":"F32","shape":[100000000],"data_offsets":[0,400000000]}})";
  sparse("sparse.safetensors",
         std::string(1, char(safetensors.size())) + std::string(7, '\0') + safetensors);
  sparse("huge.json", "{");
  sparse("huge.lua", "--");
  for (const Script& s : scripts) {
    CAPTURE(s.text);
    folder.write("bounded.lua",
                 "local ones = {} for i = 1, 1000 do ones[i] = 1 end " + s.text + "\n");
    for (const char* json : {"", " --json"}) {
      if (*json && !gradus::test::has(s.text, "print")) continue;
      const MeasuredRun b = run_bounded(folder, std::string("--max-memory 100MiB") + json);
      const ProgramRun& r = b.run;
      CAPTURE(r.err);
      CHECK_MESSAGE(b.peak < 160, "MiB resident: ", b.peak);
      if (s.code != kAny) CHECK(r.code == s.code);
      if (s.code == kLimit) check_has(r.err, "--max-memory)");
    }
  }
}

}  // namespace

TEST_CASE("lua memory: resident memory under the limit, by doors of Lua") {
  check_each(scripts_of_lua());
}
TEST_CASE("lua memory: resident memory under the limit, by doors that take tables") {
  check_each(scripts_of_tables());
}
TEST_CASE("lua memory: resident memory under the limit, by tensors") {
  check_each(scripts_of_tensors());
}
TEST_CASE("lua memory: resident memory under the limit, by graphs") {
  check_each(scripts_of_graphs());
}
TEST_CASE("lua memory: resident memory under the limit, by audits") {
  check_each(scripts_of_audits());
}
TEST_CASE("lua memory: resident memory under the limit, by data, configs and bars") {
  check_each(scripts_of_the_program());
}

#ifndef GRADUS_SANITIZED  // which refuse no block
TEST_CASE("lua memory: wherever a block is refused, an error comes of it and no crash") {
  // Each step goes as far as its limit lets it, and the last one to the limit.
  const TempFolder folder;
  folder.write("net.json", kNetwork);
  folder.write("bounded.lua", R"(
local net = gradus.nn({{linear = 32}, "relu", {linear = 10}}, {1, 16})
local o = gradus.optim.adam(net:parameters(), {lr = 0.01})
local x, y = gradus.rand(64, 16), gradus.rand(64, 10)
local function loss() return ((net(x) - y) ^ 2):mean() end
for i = 1, 20 do o:zero_grad() loss():backward() o:step{clip = 1} end
for _, name in ipairs{"check", "health", "ledger", "cost", "graph"} do
  pcall(gradus.audit[name], loss, name == "graph" and {html = "g.html"} or nil)
end
pcall(gradus.audit.record, loss, "r.safetensors")
pcall(gradus.func.jacobian(function(a) return a:sin() end), gradus.ones(200))
pcall(gradus.checkpoint, function(a) return a:exp() end, x)
pcall(gradus.data, {name = "digits", train = 2000, test = 100})
pcall(gradus.experiment, {config = "net.json"})
local t = {1, 2} for i = 1, 40 do t = {t, t} end
pcall(gradus.tensor, t) pcall(gradus.nn, t, {1}) pcall(gradus.data, t)
pcall(coroutine.wrap(function()
  local kept = {} for i = 1, 1e9 do kept[i] = x:sin():requires_grad_() * 2 end
end))
local kept = {} for i = 1, 1e9 do kept[i] = gradus.ones(i % 1000 + 1):requires_grad_():exp() end
)");
  const std::vector<int> limits{1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30};
  for (const int mib : limits) {
    CAPTURE(mib);
    const MeasuredRun b = run_bounded(folder, join("--max-memory ", mib, "MiB"));
    CHECK(b.run.code == kLimit);
    check_has(b.run.err, join("(the limit is ", mib, "MiB, --max-memory)"));
  }
}
#endif

#ifndef GRADUS_SANITIZED
TEST_CASE("lua memory: blocks are counted however they are asked for, and refused to one thread") {
  constexpr int64_t kMib = 1 << 20, kNear = 128 << 10;  // what threads have not told of yet
  const auto before = int64_t(heap::live());
  const auto more = [&](int64_t bytes) {
    const int64_t now = int64_t(heap::live()) - before;
    return now > bytes - kNear && now < bytes + kNear;
  };
  void* p = std::malloc(kMib);
  CHECK(more(kMib));
  p = std::realloc(p, 3 * kMib);
  CHECK(more(3 * kMib));
  void* const q = std::calloc(kMib, 2);
  void* const r = std::aligned_alloc(2 * kMib, 2 * kMib);
  CHECK(more(7 * kMib));
  std::free(p);
  auto text = std::make_unique<std::string>(2 * kMib, 'x');
  CHECK(more(6 * kMib));
  std::thread([&] { text.reset(), text = std::make_unique<std::string>(kMib, 'x'); }).join();
  CHECK(more(5 * kMib));
  std::vector<std::unique_ptr<char[]>> small;
  for (int k = 0; k < 4096; ++k) small.push_back(std::make_unique<char[]>(1000));
  CHECK(int64_t(heap::live()) - before > 5 * kMib + 4096 * 1000 - kNear);
  small.clear();
  {
    const heap::Bounded bound(size_t(before + 6 * kMib));
    CHECK(std::malloc(2 * kMib) == nullptr);
    const volatile size_t many = SIZE_MAX / 2;  // the compiler would warn of it
    CHECK(std::calloc(many, 4) == nullptr);
    CHECK_THROWS_AS(std::string(2 * kMib, 'x'), std::bad_alloc);
    CHECK_THROWS_AS(
        [&] {
          for (int k = 0; k < 1 << 20; ++k) small.push_back(std::make_unique<char[]>(1000));
        }(),
        std::bad_alloc);
    small.clear();
    std::free(std::malloc(kMib / 2));
    std::thread([] { CHECK(std::string(4 * kMib, 'x').size() == 4 * kMib); }).join();
    const heap::Unbounded room;
    CHECK(std::string(4 * kMib, 'x').size() == 4 * kMib);
  }
  std::free(q);
  std::free(r);
  text.reset();
  small.shrink_to_fit();
  CHECK(more(0));
}
#endif
