// gradus.audit in scripts, and scripts as the target of commands that look at one step.
#include "cli/look/one_step.hpp"
#include "ops/audit/judge/audit.hpp"
#include "ops/ops.hpp"
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
using gradus::test::writing_in;

namespace {

const std::string kNet =
    "local w = gradus.tensor({{0.5, -0.2}, {0.1, 0.3}}, {requires_grad = true}) "
    "local x = gradus.tensor{{1.0, 2.0}} "
    "local function net()\n  return x:matmul(w):tanh():sum()\nend\n";

// What looks at a script's step: roots, and the names of leaves.
struct Looked {
  std::optional<audit::Watch> watch{};
  cli::OneStep step{};
  std::string names{}, places{};

  Looked(const TempFolder& folder, const std::string& text, cli::ScriptTarget target = {}) {
    std::ofstream(folder / "step.lua") << text;
    step = cli::run_one_step({folder / "step.lua", {}, std::move(target)}, open_device("cpu"),
                             [this] { watch.emplace(); });
    for (const auto& [name, leaf] : step.leaves) names += (names.empty() ? "" : " ") + name;
    for (const audit::Call* c : watch->below(step.roots))
      places += (places.empty() ? "" : " ") + c->op->name +
                c->where.substr(std::min(c->where.find("step.lua") + 8, c->where.size()));
  }
};

}  // namespace

TEST_CASE("lua audit: check judges every node with its line") {
  CHECK(says(kNet + "local r = gradus.audit.check(net) print(#r, r.bad, r)\n"
                    "for _, l in ipairs(r) do if l.op == 'tanh' then print(l.where, l.verdict, "
                    "l.bad, l.error <= l.tolerance, l.operands) end end") ==
        "3\t0\t3 nodes: no wrong derivative|test.lua:2\tok\tfalse\ttrue\tf32(1, 2)");
  // Under a watch that is open, of a tensor; several times.
  CHECK(says(kNet +
             "local y = gradus.audit.watch(function(k) local y = net() * k "
             "print(gradus.audit.check(y).bad, #gradus.audit.check(y), gradus.audit.birth(y)) "
             "return y end, 3) print(y.op)") == "0\t4\tnil|mul");
  CHECK(has(fails(kNet + "gradus.audit.check(net())"), "within gradus.audit.watch(function()"));
  CHECK(has(fails(kNet + "gradus.audit.check(net, {against = './x.json'})"), "expected a device"));
  CHECK(has(fails(kNet + "gradus.audit.check(net, {aganst = 'reference'})"),
            "there is no option \"aganst\"; did you mean \"against\"?"));
  CHECK(has(fails("gradus.audit.check(function() return 3 end)"), "there is nothing to judge"));
  CHECK(has(fails(kNet + "gradus.audit.stepper(net):run{norm = 0 / 0}"), "norm: expected a"));
  CHECK(says(kNet + "print(gradus.audit.check(net, {against = 'reference'}).bad)") == "0");
}

TEST_CASE("lua audit: a wrong slope is named with its line, in a process of its own") {
  const TempFolder folder;
  std::ofstream(folder / "wrong.lua")
      << "local half = gradus.op{name = 'half_square', check = false,\n"
         "  value = function(x) return x * x / 2 end, slope = function(x, y) return 2 * x end}\n"
         "local w = gradus.tensor({1.0, 2.0}, {requires_grad = true})\n"
         "local loss = gradus.exp(half(w)):sum()\n"
         "loss:backward()\n"
         "print('not reached')\n";
  const ProgramRun r = gradus::test::run(folder, "audit wrong.lua --json --device cpu");
  CHECK(r.code == 5);
  CHECK(r.err == "");
  CHECK(has(r.out, R"("op":"half_square","where":"wrong.lua:4")"));
  CHECK(has(r.out, R"("nodes":3,"bad":1)"));
  CHECK(!has(r.out, "not reached"));
  // The same from within, and repaired.
  std::ofstream(folder / "both.lua")
      << "local function make(slope) return gradus.op{name = 'half_square', check = false, "
         "value = function(x) return x * x / 2 end, slope = slope} end\n"
         "local w = gradus.tensor({1.0, 2.0}, {requires_grad = true})\n"
         "local half = make(function(x, y) return 2 * x end)\n"
         "local r = gradus.audit.check(function() return half(w):sum() end)\n"
         "print(r.bad, r[1].op, r[1].where, r[1].verdict)\n"
         "print((tostring(r):match('^[^:]*:%d+: half_square.f32.2,.. is wrong by differences')))\n"
         "half = make(function(x, y) return x end)\n"
         "print(gradus.audit.check(function() return half(w):sum() end))\n";
  CHECK(gradus::test::run(folder, "script both.lua").out ==
        "1\thalf_square\tboth.lua:4\tdifferences\n"
        "both.lua:4: half_square(f32(2,)) is wrong by differences\n"
        "2 nodes: no wrong derivative\n");
}

TEST_CASE("lua audit: an op of a script saves what its slope names, and is in no file") {
  const TempFolder folder;
  const auto script = [&](const char* slope, const char* end) {
    std::ofstream(folder / "own.lua")
        << "local op = gradus.op{name = 'own_square', check = false,\n  value = function(a) return "
           "a * a end, slope = function"
        << slope
        << " end}\n"
           "local w = gradus.tensor({1.0, 2.0}, {requires_grad = true})\n"
           "local function f() return op(w):sum() end\n"
        << end;
  };
  const auto ledger = [&](const char* slope) {
    script(slope, "f():backward()");
    return gradus::test::run(folder, "audit own.lua --ledger --json").out;
  };
  const char *const a = R"("what":"a","type":"f32[2]","bytes":8)",
                    *const y = R"("what":"y","type":"f32[2]","bytes":8)";
  const std::string both = ledger("(a, y) return 2 * a + 0 * y");
  CHECK(has(both, y));
  CHECK(!has(both, "no vjp reads it"));
  CHECK(!has(ledger("(a) return 2 * a"), R"("what":"y")"));
  const std::string idle = ledger("(a, y) return 2 * a");
  const auto line_of = [&](const char* saved) {
    const size_t at = idle.find(saved);
    REQUIRE(at != std::string::npos);
    return idle.substr(at, idle.find('\n', at) - at);
  };
  CHECK(has(line_of(y), "no vjp reads it"));
  CHECK(has(line_of(a), "for the vjp of a"));

  script("(a, y) kept = y return 2 * a", "f():backward() print(kept + 1)");
  CHECK(has(gradus::test::run(folder, "script own.lua").err,
            "got an argument that slope kept and did not look at"));

  const char* const refused = "own_square at own.lua:4 is an op that a script made (gradus.op)";
  const ProgramRun cli = gradus::test::run(folder, "graph own.lua --record step.safetensors");
  CHECK(cli.code == 2);
  CHECK(has(cli.err, refused));
  script("(a) return 2 * a", "gradus.audit.record(f, 'step.safetensors')");
  CHECK(has(gradus::test::run(folder, "script own.lua").err, refused));
  CHECK(!std::ifstream(folder / "step.safetensors").good());
  script("(a) return 2 * a", "print(gradus.audit.diff(f, f).same)");
  CHECK(gradus::test::run(folder, "script own.lua").out == "true\n");
}

TEST_CASE("lua audit: the birth of a NaN, and parameters that get no gradient") {
  CHECK(says("local x = gradus.tensor({{1.0, -4.0}}, {requires_grad = true})\n"
             "local b = gradus.audit.birth(function()\nreturn (x:sqrt() * 2):sum() end)\n"
             "print(b.op, b.where, b.element[1], b.element[2], x[b.element]:item(), b.backward)") ==
        "sqrt\ttest.lua:3\t1\t2\t-4.0\tfalse");
  CHECK(says("local x = gradus.tensor({0.0, 1.0}, {requires_grad = true})\n"
             "local b = gradus.audit.birth(function()\nreturn (x:sqrt() * x):sum() end)\n"
             "print(b and b.op, b and b.backward, b and b.operand)") == "sqrt\ttrue\t1");
  CHECK(says("print(gradus.audit.birth(function() return gradus.ones(2):requires_grad_():sum() "
             "end))") == "nil");
  const std::string two =
      "local p = {a = gradus.ones(2):requires_grad_(), b = gradus.ones(2):requires_grad_(), "
      "c = gradus.ones(2):requires_grad_()} local function f() return (p.a * "
      "p.b:detach()):sum() end ";
  CHECK(has(says(two + "local u = gradus.audit.unreached(f, p) print(u.a, u.b, u.c)"),
            "nil\tcut by a detach"));
  CHECK(has(says(two + "local u = gradus.audit.unreached(f, {p.a, p.c}) print(u[1], u[2])"),
            "nil\tno op reads it"));
}

TEST_CASE("lua audit: backward is told node by node, and what is used twice adds up") {
  const std::string graph =
      "local w = gradus.tensor(2.0, {requires_grad = true}) local x = gradus.tensor(3.0, "
      "{requires_grad = true}) local function f() local a = w * x return a * (a + x) end ";
  CHECK(says(graph +
             "gradus.audit.backward(f, function(s) local t = s.node .. ' ' .. s.op .. ' ' .. "
             "s.cotangents[1]:item() for _, e in ipairs(s.sent) do t = t .. ' ' .. e.to .. '=' .. "
             "e.value:item() .. ' ' .. e.nth .. '/' .. e.of end print(t) end) "
             "print(w.grad:item(), x.grad:item())") ==
        "%2 mul 1.0 %0=9.0 1/2 %1=6.0 1/1|%1 add 6.0 %0=6.0 2/2 x=6.0 1/2|"
        "%0 mul 15.0 w=45.0 1/1 x=30.0 2/2|45.0\t36.0");
  CHECK(has(fails(graph + "gradus.audit.backward(f, function(s) error('at ' .. s.op) end)"),
            "test.lua:1: at mul"));
  // Hooks of an error are gone again.
  CHECK(says(graph + "local y = f() pcall(gradus.audit.backward, y, function() error('x') end) "
                     "y:backward() print(w.grad:item())") == "45.0");
}

TEST_CASE("lua audit: a stepper goes forwards and back, stops, and takes cotangents by hand") {
  const std::string s =
      "local w = gradus.tensor(2.0, {requires_grad = true}) local x = gradus.tensor(3.0, "
      "{requires_grad = true}) local s = gradus.audit.stepper(function() local a = w * x return a "
      "* (a + x) end) ";
  CHECK(says(s +
             "print(s:upcoming(), s:position()) local t = s:next() print(t.node, t.op, "
             "t.cotangents[1]:item(), #t.sent, t.sent[1].to, t.sent[1].nth, t.sent[1].of) "
             "print(s:next().node, s:next().sent[2].nth, s:next(), s:upcoming(), s:position()) "
             "print(s:cotangent('w'):item(), s:cotangent('x'):item(), w.grad) "
             "print(s:back().node, s:position(), s:cotangent('w'), s:cotangent('%0'):item())") ==
        "%2 mul\t0|%2\tmul\t1.0\t2\t%0\t1\t2|%1\t2\tnil\tnil\t3|45.0\t36.0\tnil|"
        "%0\t2\tnil\t15.0");
  CHECK(says(s + "print(s:run{op = 'add'}) print(s:upcoming()) s:set('%1', gradus.tensor(0.0)) "
                 "print(s:run()) print(s:cotangent('w'):item()) while s:back() do end "
                 "s:set('%1') s:run() print(s:cotangent('w'):item())") ==
        "%1 add is next|%1 add|nil|27.0|45.0");
  CHECK(has(says(s + "print(s:run{norm = 10}, s:position())"), "norm"));
  CHECK(has(fails(s + "s:cotangent('%7')"), "%7"));
  CHECK(has(fails(s + "s:set('w', gradus.tensor(1.0))"), "w is a leaf"));
  CHECK(has(fails(s + "s:run{node = 'w'}"), "w is a leaf"));
  CHECK(has(fails(s + "s:run{op = 'mull'}"), "no node of this graph is a mull; did you mean"));
  CHECK(has(fails(s + "s:run{path = 'nowhere'}"), "nothing was recorded in nowhere"));
  CHECK(has(fails(s + "s:run{op = {}}"), "op: expected a text, got a table"));
  CHECK(has(fails(s + "s:run{opp = 'add'}"), "did you mean \"op\"?"));
  CHECK(has(fails(s + "s.next(1)"), "called on a number"));
}

TEST_CASE("lua audit: hooks of tensors") {
  const std::string x = "local x = gradus.tensor({1.0, 2.0}, {requires_grad = true}) ";
  CHECK(says(x + "local y = x * 3 local h = y:register_hook(function(g) print('hook', g[1]:item()) "
                 "return g * 10 end) y:sum():backward() print(x.grad)") ==
        "hook\t1.0|[30, 30]|f32 (2,)");
  CHECK(says(x + "local h = x:register_hook(function(g) return g * 2 end) h:remove() "
                 "x:sum():backward() print(x.grad)") == "[1, 1]|f32 (2,)");
  CHECK(says(x + "x:register_hook(function(g) end) x:sum():backward() print(x.grad)") ==
        "[1, 1]|f32 (2,)");
  CHECK(has(fails(x + "x:register_hook(function(g) error('within') end) x:sum():backward()"),
            "test.lua:1: within"));
  // A hook made in a coroutine that has ended; the tensor outlives the script.
  Tensor kept;
  {
    lua::ScriptOptions o;
    o.looking = [&](const Tensors& roots, const Tensors&, lua::Moment) {
      return kept = roots[0], true;
    };
    Lua lua(o);
    CHECK(lua("coroutine.wrap(function() x = gradus.ones(2):requires_grad_() y = x * 2 "
              "y:register_hook(function(g) return g * 5 end) end)() collectgarbage() "
              "print(gradus.grad((y:sum()), x)) print('not reached')") == "");
    CHECK(grad({kept}, {lua.script.leaves()[0].second}, {}, {.retain_graph = true})[0]
              .to_vector<float>() == std::vector<float>{10, 10});
  }
  CHECK(has(error_text(ErrorKind::value, [&] { backward(kept); }), "has ended"));
}

TEST_CASE("lua audit: graph as text and files of its own kinds") {
  const std::string text = says(kNet + "print(gradus.audit.graph(net))");
  CHECK(has(text, "contract("));
  CHECK(has(text, ", w;"));
  CHECK(has(text, "# test.lua:2"));
  const TempFolder folder;
  CHECK(says(kNet + "gradus.audit.graph(net, {html = '" + (folder / "a.html") + "', dot = '" +
                 (folder / "a.dot") + "'}) print(1)",
             writing_in(folder)) == "1");
  const std::string page = gradus::test::slurp(folder / "a.html");
  CHECK(has(page, "<svg"));
  CHECK(has(page, "> 2    return x:matmul(w):tanh():sum()\\n"));  // the line, in its source
  CHECK(gradus::test::slurp(folder / "a.dot").rfind("digraph", 0) == 0);
  CHECK(has(fails(kNet + "gradus.audit.graph(net, {html = '" + (folder / ".bashrc") + "'})",
                  ErrorKind::value),
            "expected a file that ends in .html"));
}

TEST_CASE("lua audit: a script as the target of a look, its leaves by their variables") {
  const TempFolder folder;
  const std::string loop =
      "local layer = {w = gradus.ones(2):requires_grad_(), b = gradus.zeros(2):requires_grad_()}\n"
      "scale = gradus.ones(1):requires_grad_()\n"
      "local function loss(x)\n"
      "  local bias = layer.b\n"
      "  return (x * layer.w + bias * scale):sum()\n"
      "end\n"
      "for step = 1, 3 do\n"
      "  local ok = pcall(function() loss(gradus.ones(2) * step):backward() end)\n"
      "  print('step', step, ok)\n"
      "end\n";
  const Looked first(folder, loop);
  CHECK(first.step.roots[0].item() == 2);
  CHECK(first.names == "layer.b layer.w scale");
  CHECK(first.places == "mul:5 mul:5 add:5 sum:5");
  CHECK(!first.step.leaves[0].second.grad().defined());  // ended before the walk
  const Looked third(folder, loop, {{}, 3});
  CHECK(third.step.roots[0].item() == 6);
  CHECK(third.step.leaves[1].second.grad().to_vector<float>() == std::vector<float>{3, 3});
  CHECK(audit::audit(*third.watch, third.step.roots).bad == 0);
  CHECK(has(error_text(ErrorKind::config,
                       [&] {
                         Looked(folder, loop, {{}, 4});
                       }),
            "backward() or gradus.grad() 3 times, and number 4 was asked for"));
  CHECK(has(error_text(ErrorKind::config, [&] { Looked(folder, loop, {{}, 0}); }), "1 or more"));
  CHECK(has(error_text(ErrorKind::value, [&] { Looked(folder, "local x = nil + 1"); }),
            "step.lua:1"));
  CHECK(has(error_text(ErrorKind::config, [&] { Looked(folder, "print(1)"); }), "audit.mark(y)"));
  // The audit's own walks; what gradus.func does is its own.
  const std::string scripts = std::string("audit ") + GRADUS_SOURCE_DIR + "/configs/scripts/";
  const ProgramRun watched = gradus::test::run(folder, scripts + "watch_backward.lua --device cpu");
  CHECK(watched.code == 0);
  CHECK(has(watched.out, "3 nodes on cpu: no wrong derivative"));
  const ProgramRun wrong = gradus::test::run(folder, scripts + "wrong_derivative.lua --device cpu");
  CHECK(wrong.code == 5);
  CHECK(has(wrong.out, "7 nodes on cpu: one is wrong"));
  CHECK(
      has(gradus::test::run(folder, scripts + "wrong_derivative.lua --backward 2 --device cpu").out,
          "7 nodes on cpu: no wrong derivative"));
  const ProgramRun newton = gradus::test::run(folder, scripts + "newton.lua --device cpu");
  CHECK(newton.code == 2);
  CHECK(has(newton.err, "gradus.func does not); a line gradus.audit.mark(y)"));
  CHECK(Looked(folder,
               "local x = gradus.ones(2):requires_grad_()\n"
               "local s = gradus.audit.stepper(function() return x:exp():sum() end)\n")
            .places == "exp:2 sum:2");
  // gradus.grad, in a coroutine within a pcall; arguments; a network's parameters; mark.
  const Looked within(
      folder,
      "local x = gradus.tensor(tonumber(...), {requires_grad = true})\n"
      "local co = coroutine.wrap(function() pcall(gradus.grad, x * x, x) error('on') end)\n"
      "pcall(co) pcall(co) x:fill_(0) print('not reached')",
      {{"3.5"}});
  CHECK(within.step.roots[0].item() == 12.25);
  CHECK(within.names == "x");
  const Looked marked(folder,
                      "local net = gradus.nn({{linear = 2}}, {1, 3})\n"
                      "gradus.audit.mark(net(gradus.ones(1, 3)):sum())");
  CHECK(marked.names == "net.layers.0.weight net.layers.0.bias");
  CHECK(marked.places.rfind("contract:2, layers[0] linear", 0) == 0);
  // Part of the second graph is older than the first walk: said, and its leaves count as reached.
  const std::string shared =
      "local a, b = gradus.ones(2):requires_grad_(), gradus.ones(2):requires_grad_()\n"
      "local early = a * 2\n"
      "gradus.grad((b * 2):sum(), b);\n"
      "(early * b):sum():backward()\n";
  const Looked second(folder, shared, {{}, 2});
  CHECK(second.places == "mul:4 sum:4");
  CHECK(second.names == "a b");
  CHECK(audit::unreached(*second.watch, second.step.roots,
                         {second.step.leaves[0].second, second.step.leaves[1].second})
            .empty());
  const ProgramRun run = gradus::test::run(folder, "audit step.lua --backward 2 --device cpu");
  CHECK(run.code == 0);
  CHECK(has(run.err, "gradus: 1 of 3 nodes are older than the walk before"));
  CHECK(!has(run.out, "unreached"));
  CHECK(has(run.out, "\n2 of 3 nodes on cpu: no wrong derivative\n"));
  folder.write("twice.lua",
               "local y = gradus.exp(gradus.ones(2):requires_grad_()):sum()\n"
               "y:backward({retain_graph = true}) y:backward()\n");
  const ProgramRun old = gradus::test::run(folder, "audit twice.lua --backward 2 --device cpu");
  CHECK(old.code == 2);
  CHECK(old.out == "");
  CHECK(has(old.err, "none of the nodes of this backward was watched"));
  // However often it is run to be measured, it prints once.
  std::ofstream(folder / "step.lua") << "print('here') local w = gradus.ones(2):requires_grad_()\n"
                                        "gradus.exp(w):sum():backward()\n";
  for (const char* how : {"--cost", "--ledger", "--html page.html"}) {
    const ProgramRun once = gradus::test::run(folder, std::string("audit step.lua ") + how);
    CHECK(once.code == 0);
    CHECK(once.err == "here\n");
  }
  CHECK(has(gradus::test::slurp(folder / "page.html"), "> 2  gradus.exp(w):sum():backward()"));
  // A step with a NaN in its backward is recorded, and replayed.
  std::ofstream(folder / "nan.lua")
      << "local w = gradus.tensor({0.5, 0.0}, {requires_grad = true})\n"
         "gradus.audit.mark((w:sqrt() * w):sum())\n";
  CHECK(gradus::test::run(folder, "graph nan.lua --record nan.safetensors").code == 0);
  const ProgramRun again = gradus::test::run(folder, "replay nan.safetensors --runs 2");
  CHECK(again.code == 0);
  CHECK(has(again.out, "NaN: the vjp of sqrt"));
  CHECK(has(again.out, "the same bits in all 2 runs"));
  const ProgramRun born = gradus::test::run(folder, "audit nan.lua");
  CHECK(born.code == 5);
  CHECK(has(born.out, "no wrong derivative; exit code 5 for nan\n"));
  std::ofstream(folder / "inf.lua")
      << "local w = gradus.tensor({0.5, 0.0}, {requires_grad = true})\n"
         "gradus.audit.mark((-w:log()):sum())\n";
  CHECK(gradus::test::run(folder, "audit inf.lua").code == 0);
  const ProgramRun infinite = gradus::test::run(folder, "audit inf.lua --fail-on inf");
  CHECK(infinite.code == 5);
  CHECK(has(infinite.out, "infinite: log gives -inf in element (1,)"));
  std::ofstream(folder / "loop.lua") << "while true do end\n";
  const ProgramRun ended = gradus::test::run(folder, "graph loop.lua --max-seconds 0.2");
  CHECK(ended.code == 5);
  CHECK(has(ended.err, "(--max-seconds)"));
  // A mark is nothing in a plain run.
  CHECK(says("gradus.audit.mark(gradus.ones(1):requires_grad_() * 2) print('on')") == "on");
}

TEST_CASE("lua audit: a leaf whose gradient has no paths is told why") {
  const TempFolder folder;
  std::ofstream(folder / "leaves.lua")
      << "local w = gradus.ones(2):requires_grad_()\n"
         "local x = gradus.tensor({4.0, -1.0}, {requires_grad = true})\n"
         "local c = (w:detach() * 2):sum();\n"
         "(x:log():sum() + c):backward()\n";
  const ProgramRun none = gradus::test::run(folder, "audit leaves.lua --explain w");
  CHECK(none.code == 2);
  CHECK(has(none.err, "explain: w gets no gradient: "));
  CHECK(has(none.err, "detach"));
  std::ofstream(folder / "nan.lua") << "local x = gradus.zeros(2):requires_grad_();\n"
                                       "(x:sqrt() * 0):sum():backward()\n";
  const ProgramRun nan = gradus::test::run(folder, "audit nan.lua --explain x");
  CHECK(nan.code == 2);
  CHECK(has(nan.err,
            "the gradient of x is not finite, so no path has a share of it; the audit "
            "itself says where that begins"));
}

TEST_CASE("lua audit: memory, cost, paths and writes of a step") {
  const std::string two =
      "local w = gradus.tensor({{0.5, -0.2}, {0.1, 0.3}}, {requires_grad = true}) "
      "local x = gradus.tensor{{1.0, 2.0}} "
      "local function net() return (x:matmul(w):tanh() + x:matmul(w)):sum() end ";
  // x is kept twice and counted once; tanh keeps its output.
  CHECK(says(two + "local l = gradus.audit.ledger(net) print(#l, l.bytes, l[2].op, l[2].what, "
                   "l[2].why, l[3].counted)") == "3\t16\ttanh\ty\tfor the vjp of x\tfalse");
  CHECK(says(two + "local n = 0 for _, c in ipairs(gradus.audit.cost(net)) do n = n + 1 "
                   "if c.op == 'contract' then assert(c.forward.flops == 8 and c.forward.ns > 0) "
                   "end end print(n)") == "5");
  // Of y = tanh(xw) + xw: shares of the gradient x' (1 - t^2) and x' 1.
  CHECK(says(two + "local p = gradus.audit.explain(net, w) local sum = 0 "
                   "for _, q in ipairs(p) do sum = sum + q.share end print(p.count, "
                   "math.abs(sum - 1) < 1e-6, #p[1].nodes, #p[2].nodes, p[2].nodes[3])") ==
        "2.0\ttrue\t3\t4\t%1 tanh");
  CHECK(has(fails(two + "gradus.audit.explain(net, x)"), "do not depend on this leaf"));
  CHECK(says(two + "local v = gradus.audit.versions(function() local y = w * w "
                   "gradus.no_grad(function() w:mul_(2) end) return y end) "
                   "print(#v, v[1].tensor, v[1].by, v[1].from, v[1].to, #v[1].stale)") ==
        "1\tw\tmul_\t0\t1\t2");
}

TEST_CASE("lua audit: a step in a file, and two steps compared") {
  const TempFolder folder;
  const std::string file = "'" + (folder / "step.safetensors") + "'";
  CHECK(says(kNet + "print(gradus.audit.record(net, " + file + ")) local d = gradus.audit.replay(" +
                 file + ") print(d.same, #d)",
             writing_in(folder)) == "3|true\t0");
  CHECK(says(kNet + "local d = gradus.audit.diff(net, function() return x:matmul(w):sin():sum() "
                    "end) for _, n in ipairs(d) do if n.what == 'inserted' then print(n.node) end "
                    "end print(d.same, d.gradients)") == "%1 sin(%0)  # test.lua:4|false\t1");
  CHECK(has(fails(kNet + "gradus.audit.record(net, 'step.txt')"), "ends in .safetensors"));
  std::ofstream(folder / "step.safetensors") << "not one";
  CHECK(has(fails(kNet + "gradus.audit.replay(" + file + ")", ErrorKind::value, writing_in(folder)),
            "not"));
}

TEST_CASE("lua: a hook and the tensor that it holds are freed together, and not before") {
  Lua lua;
  lua("function leaf() return gradus.tensor({1.0, 2.0}, {requires_grad = true}) end "
      // On a leaf, on a result that is never walked, twice on one tensor.
      "function leak() local x = leaf() x:register_hook(function(g) return g * x end) "
      "x:register_hook(function(g) return x end) local h = x * 2 "
      "h:register_hook(function(g) return g * h end) if walk then (h + x):sum():backward() end end "
      "function collect() for i = 1, 3 do collectgarbage() end gradus.ones(1) end");
  for (const char* walk : {"nil", "true"}) {
    lua(std::string("walk = ") + walk + " for i = 1, 5 do leak() end collect() leak() collect()");
    const int64_t before = live_objects();
    lua("for i = 1, 200 do leak() end collect() leaf():register_hook(print) collect() collect()");
    CHECK(live_objects() <= before);
  }
  // The graph alone needs it: the script has dropped the tensor, and the function with it.
  CHECK(lua("local function net() local x = leaf() keep = x local h = x * 2 "
            "h:register_hook(function(g) print('of h', h[1]:item()) return g * 10 end) "
            "return (h * 1):sum() end local y = net() collect() leaf():register_hook(print) "
            "collect() y:backward() print(keep.grad)") == "of h\t2.0|[20, 20]|f32 (2,)");
  // In the middle of a cycle of the collector.
  CHECK(lua("local function net() local x = leaf() keep = x local h = x * 2 "
            "h:register_hook(function(g) return g * 10 end) return (h * 1):sum() end "
            "collectgarbage('incremental') for i = 1, 200 do local y = net() "
            "for k = 1, i do collectgarbage('step', 1) end y:backward() "
            "if keep.grad:sum():item() ~= 40 then print('lost', i) end end print('done')") ==
        "done");
  // Removed, and gone with the state.
  lua("local x = leaf() for i = 1, 3 do x:register_hook(function() return x end):remove() end");
}
