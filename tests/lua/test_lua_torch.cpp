// Lua for people who know PyTorch: its names for what is there, words for what is not, and the
// scripts that are typed first.
#include "bindings/lua/words.hpp"
#include "engine/op_info.hpp"
#include "tests/helpers/lua_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace gradus;
using gradus::test::fails;
using gradus::test::has;
using gradus::test::Lua;
using gradus::test::ProgramRun;
using gradus::test::says;
using gradus::test::TempFolder;

namespace {

// The program runs a script from the command line; its output, or the error.
std::string torch_run(const std::string& text) {
  const TempFolder folder;
  folder.write("t.lua", text);
  const ProgramRun r = gradus::test::run(folder, "script t.lua --device cpu");
  return r.code == 0 ? r.out : r.err.substr(r.err.find("gradus: "));
}

}  // namespace

TEST_CASE("lua torch: shapes and dtypes by PyTorch's names") {
  const std::string x = "local x = gradus.arange(6):float():view(2, 3) ";
  CHECK(says(x + "print(x:size(), x:size(1), x:size(-1), x:dim(), x.ndim, x:nelement())") ==
        "(2, 3)\t2\t3\t2\t2\t6");
  CHECK(says(x + "print(x:view(-1).shape, x:view({3, 2}).shape, x:view(x:t():size()).shape)") ==
        "(6,)\t(3, 2)\t(3, 2)");
  // A view shares its numbers; where it can't, it says what copies.
  CHECK(says(x + "local y = x:view(6) y:fill_(7) print(x:sum():item())") == "42.0");
  CHECK(has(fails(x + "x:t():view(6)"),
            "view: the elements of (3, 2) with strides (1, 3) don't lie as (6,) needs them; "
            "x:reshape() copies them"));
  CHECK(says("print(gradus.func.vmap(function(x) return x:view(-1) end)(gradus.ones(3, 2, 4))"
             ".shape)") == "(3, 8)");
  CHECK(has(fails(x + "x:view()"), "view: expected sizes, got nothing"));
  CHECK(says(x + "print(x:t().shape, x[1]:t().shape, x.mT.shape)") == "(3, 2)\t(3,)\t(3, 2)");
  CHECK(has(fails("gradus.ones(2, 2, 2):t()"), "x.mT swaps the last two axes"));
  CHECK(says(x + "print(x:view_as(gradus.ones(6)).shape, gradus.ones(3):expand_as(x).shape, "
                 "x:type_as(gradus.tensor{1}).dtype)") == "(6,)\t(2, 3)\ti64");
  CHECK(says("local x = gradus.tensor{1.9} for _, name in ipairs{'float', 'double', 'half', "
             "'bfloat16', 'int', 'long', 'byte', 'bool', 'cfloat', 'cdouble'} do io = (io or '') "
             ".. x[name](x).dtype .. ' ' end print(io, x:type(), x:type('f64').dtype)") ==
        "f32 f64 f16 bf16 i32 i64 u8 bool c64 c128 \tf32\tf64");
  CHECK(says("print(gradus.zeros(2, {dtype = gradus.float64}).dtype, gradus.long, "
             "gradus.complex64)") == "f64\ti64\tc64");
  CHECK(says("local t = gradus.tensor{{1, 2}}:tolist() print(t[1][2])") == "2");
  CHECK(says(x + "print(x:is_contiguous(), x:t():is_contiguous(), x:element_size(), x.is_cuda, "
                 "gradus.is_tensor(x), gradus.is_tensor(1), rawequal(gradus.as_tensor(x), x), "
                 "gradus.as_tensor({1, 2}).dtype)") ==
        "true\tfalse\t4\tfalse\ttrue\tfalse\ttrue\ti64");
  // Data shares memory and has no history.
  CHECK(says("local w = gradus.ones(2, {requires_grad = true}) w.data:fill_(3) "
             "print(w:sum():item(), w.data.requires_grad)") == "6.0\tfalse");
  // The axis before the indices, as PyTorch has it, and behind them, as the op has it.
  CHECK(says(x + "local i = gradus.tensor{1, 0} print(x:index_select(1, i)[1]:equal(x[2]), "
                 "x:index_select(1, i):equal(x:index_select(i, 1)), "
                 "x:index_fill(2, i, 9)[{1, 3}]:item())") == "true\ttrue\t2.0");
}

TEST_CASE("lua torch: options stand beside sizes and numbers too, and none is dropped") {
  CHECK(says("print(gradus.zeros{2, 3, dtype = 'f64', requires_grad = true})") ==
        "[[0, 0, 0],| [0, 0, 0]]|f64 (2, 3), requires_grad = true");
  CHECK(says("print(gradus.tensor{1, 2, dtype = 'f64'})") == "[1, 2]|f64 (2,)");
  CHECK(says("print(gradus.ones(2, {device = 'reference'}).device)") == "reference");
  CHECK(has(fails("gradus.randn{2, 3, dtpe = 'f64'}"),
            "randn: there is no option \"dtpe\"; did you mean \"dtype\"?"));
  CHECK(has(fails("gradus.tensor{1, 2, require_grad = true}"),
            "tensor: there is no option \"require_grad\"; did you mean \"requires_grad\"?"));
  CHECK(has(fails("gradus.tensor{{1, 2, dtype = 'f64'}, {3, 4}}"),
            "tensor: \"dtype\" among numbers; options stand in the outermost table"));
  CHECK(has(fails("gradus.ones(2, {device = 'nonsense'})", ErrorKind::value), "nonsense"));
}

TEST_CASE("lua torch: random tensors") {
  CHECK(says("gradus.manual_seed(3) local a = gradus.randn(5) gradus.seed(3) "
             "print(a:equal(gradus.randn(5)))") == "true");
  // A complex number's variance is 1 in both parts together, and the parts are independent.
  for (const char* dtype : {"c64", "c128"}) {
    const std::string drawn = says(
        "gradus.seed(1) local z = gradus.randn{200, 200, dtype = '" + std::string(dtype) +
        "'} local re, im = z:real(), z:imag() print(z.dtype, re:var():item(), im:var():item(), "
        "(re * im):mean():item(), re:mean():item())");
    std::istringstream in(drawn);
    std::string name;
    double re = 0, im = 0, both = 0, mean = 0;
    in >> name >> re >> im >> both >> mean;
    CHECK(name == dtype);
    CHECK(std::fabs(re - 0.5) < 0.02);
    CHECK(std::fabs(im - 0.5) < 0.02);
    CHECK(std::fabs(both) < 0.02);
    CHECK(std::fabs(mean) < 0.02);
  }
  CHECK(says("local z = gradus.rand(100, {dtype = 'c64', requires_grad = true}) print(z.dtype, "
             "z:real():amin():item() >= 0, z:imag():amax():item() < 1, z.requires_grad)") ==
        "c64\ttrue\ttrue\ttrue");
  CHECK(says("print(gradus.complex(gradus.tensor{1.0, 2.0}, 3))") == "[1+3i, 2+3i]|c64 (2,)");
  CHECK(has(fails("gradus.complex(gradus.tensor{1}, 2)"), "expected two tensors of f32 or f64"));
  CHECK(says("local k = gradus.randint(-2, 3, {1000}) print(k.dtype, k:amin():item(), "
             "k:amax():item(), gradus.randint(5, {2, 2}).shape)") == "i64\t-2\t2\t(2, 2)");
  CHECK(has(fails("gradus.randint(3, 3, {2})"), "there is no whole number from 3 to below 3"));
  CHECK(has(fails("gradus.randint(3)"), "expected gradus.randint(low, high, {2, 3})"));
  CHECK(says("local p = gradus.randperm(50) print(p:sort():equal(gradus.arange(50)), "
             "p:equal(gradus.arange(50)))") == "true\tfalse");
  CHECK(says("local x = gradus.zeros(1000) print(x:uniform_(2, 3):amin():item() >= 2, "
             "x:normal_(5, 0.1):mean():sub(5):abs():item() < 0.1, "
             "gradus.randn_like(x:double()).dtype, gradus.rand_like(x).shape)") ==
        "true\ttrue\tf64\t(1000,)");
  CHECK(has(fails("gradus.zeros(2):long():normal_()"), "normal_: needs real numbers"));
}

TEST_CASE("lua torch: a printed tensor says whether it has a history") {
  const std::string x = "local x = gradus.tensor({1.0, 2.0}, {requires_grad = true}) ";
  CHECK(says(x + "print(x)") == "[1, 2]|f32 (2,), requires_grad = true");
  CHECK(says(x + "print(x * 2)") == "[2, 4]|f32 (2,), grad_fn = mul");
  CHECK(says(x + "print((x * 2):sum(), x:detach())") == "6, grad_fn = sum\t[1, 2]|f32 (2,)");
  CHECK(says(x + "print((x * 2).grad_fn, x.grad_fn, (x * 2).op)") == "mul\tnil\tmul");
  CHECK(says(x + "print('loss ' .. x:sum())") == "loss 3");  // a text takes the numbers alone
}

TEST_CASE("lua torch: words of Lua that are names elsewhere") {
  CHECK(says("print(gradus.tensor{1, 2}:repeats(2), gradus.repeats(gradus.ones(1), {2}).shape)") ==
        "[1, 2, 1, 2]|i64 (4,)\t(2,)");
  CHECK(says("print(gradus.arange{stop = 3}, gradus.linspace{start = 0, stop = 1, steps = 3})") ==
        "[0, 1, 2]|i64 (3,)\t[  0, 0.5,   1]|f32 (3,)");
  CHECK(has(fails("gradus.arange{stp = 3}"), "did you mean \"s"));
  // No op or attribute is out of reach.
  const std::set<std::string> words{"and",   "break", "do",       "else", "elseif", "end",
                                    "false", "for",   "function", "goto", "if",     "in",
                                    "local", "nil",   "not",      "or",   "repeat", "return",
                                    "then",  "true",  "until",    "while"};
  for (const OpInfo& op : all_ops()) {
    CHECK((words.count(op.name) == 0 || op.name == "repeat"));
    for (const AttrSpec& spec : op.attrs)
      CHECK((words.count(spec.name) == 0 || spec.name == "end"));
  }
}

TEST_CASE("lua torch: what is not there names the right word") {
  const std::pair<const char*, const char*> wrong[] = {
      {"gradus.ones(2):numpy()", "tensor: has no \"numpy\"; write x:totable()"},
      {"gradus.Tensor(2, 3)", "has no \"Tensor\"; write gradus.tensor{1.0, 2.0}"},
      {"gradus.cuda.is_available()", "write gradus.available(\"cuda\")"},
      {"gradus.set_grad_enabled(false)", "write gradus.no_grad(function() ... end)"},
      {"gradus.no_grad()", "expected a function, got nothing; write gradus.no_grad(function()"},
      {"gradus.optim.lr_scheduler.StepLR()", "write opt.lr = ..."},
      {"gradus.optim.sgd({}, 0.1)", "write {lr = 0.1}"},
      {"gradus.ones(1).item()", "item: expected a tensor, got nothing; write x:name()"},
      {"gradus.ones(1).sum()", "of a tensor write x:sum()"},
      {"gradus.tensor({1.0}, {requires_grad = True})", "there is no global \"True\"; write true"},
      {"torch.randn(2)", "there is no global \"torch\"; write gradus, or: local torch = gradus"},
      {"require 'torch'", "write gradus, or: local torch = gradus"},
      {"for i in range(3) do end", "write for i = 1, n do ... end"},
      {"print(nn.Linear)", "write gradus.nn, or: local nn = gradus.nn"},
      {"gradus.randm(2)", "did you mean \"rand"}};
  for (const auto& w : wrong) {
    CAPTURE(w.first);
    const std::string said = fails(w.first);
    CAPTURE(said);
    CHECK(has(said, w.second));
  }
  // Other globals are nil, as ever, and a script may guard them itself.
  CHECK(says("print(foo, rawget(_G, 'torch'))") == "nil\tnil");
  CHECK(says("torch = gradus print(torch.ones(1):item())") == "1.0");
  CHECK(says("setmetatable(_G, {__index = function(_, k) return k end}) print(torch)") == "torch");
}

TEST_CASE("lua torch: an error of syntax says how Lua writes it") {
  const std::pair<const char*, const char*> wrong[] = {
      {"import torch", "gradus is there already"},
      {"local x = 1\nx += 1", "write x = x + 1: Lua has no +="},
      {"if 1 != 2 then end", "write a ~= b"},
      {"print(2 ** 3)", "write x ^ 2 for a power"},
      {"local y = gradus.ones(2, 2) @ gradus.ones(2, 2)", "write a:matmul(b)"},
      {"local y = gradus.tensor([1, 2])", "write a list as {1, 2, 3}"},
      {"local x = gradus.ones(2, 2) print(x[1, 2])", "write x[{1, 2}]"},
      {"local x = gradus.ones(2, 2) print(x[1:2])", "write x[{{1, 2}}]"},
      {"local x = gradus.ones(2, 2) print(x:sum(dim=1))", "write names in a table: x:sum{dim = 1}"},
      {"gradus.ones(2):repeat(2)", "write repeats"},
      {"gradus.arange{end = 5}", "write stop = ..."},
      {"def f(x):\n  return x", "write function f(x) ... end"},
      {"for i in range(3):\n  print(i)", "write for i = 1, n do ... end"},
      {"if x:\n  print(1)", "write if ... then ... end"},
      {"with gradus.no_grad():\n  x = 1", "write gradus.no_grad(function() ... end)"},
      {"local y = lambda", ""},
      {"if true then print(1) elif", ""}};
  for (const auto& w : wrong) {
    CAPTURE(w.first);
    const std::string said = fails(w.first, ErrorKind::config);
    CAPTURE(said);
    CHECK(has(said, w.second));
  }
  CHECK(lua::word_for_syntax("", "") == "");
  CHECK(lua::word_for_syntax("x:99999999999999999999: near '@'", "") == "; write a:matmul(b)");
  CHECK(lua::word_for_syntax("near '@' without a line", "x") == "");
}

TEST_CASE("lua torch: the prompt has help for every name") {
  const std::string all = says(
      "local seen = {} for _, t in ipairs{gradus} do for k, v in pairs(t) do if type(v) ~= "
      "'string' "
      "then seen[#seen + 1] = k end end end print(table.concat(seen, ' '))");
  std::istringstream functions(all);
  int count = 0;
  for (std::string name; functions >> name; ++count) {
    CAPTURE(name);
    CHECK((find_op(name) || name == "mm" || !lua::help_line(name).empty()));
  }
  CHECK(count > 300);
  Lua prompt;
  CHECK(prompt.script.run_line("x = gradus.ones(1)"));
  for (const std::string& method : prompt.script.complete("x:")) {
    const std::string name = method.substr(2);
    CAPTURE(name);
    CHECK((find_op(name) || !lua::help_line(name).empty()));
  }
  const TempFolder folder;
  folder.write("in",
               ":help gradus.capture\n:help x:clamp_\n:help float\n:help sigmoid\n:help no\n");
  const ProgramRun r = gradus::test::run(folder, "repl --device cpu <in");
  CHECK(
      r.out.starts_with("gradus.capture(f [, {required = true}]): f as a step, recorded and "
                        "replayed\nx:clamp_(...): the op clamp, written to x\nx:float(): x in "
                        "another dtype\nsigmoid(x)"));
  CHECK(has(r.err, "no"));
}

TEST_CASE("lua torch: more ops write in place, with their attributes") {
  CHECK(says("print(gradus.tensor{-1.5, 2.5}:clamp_(0, 1), gradus.tensor{1.0}:clamp_{max = 0.5}, "
             "gradus.tensor{-2.0}:abs_(), gradus.zeros(2):masked_fill_(gradus.tensor{true, "
             "false}, 3))") == "[0, 1]|f32 (2,)\t[0.5]|f32 (1,)\t[2]|f32 (1,)\t[3, 0]|f32 (2,)");
  CHECK(has(fails("gradus.zeros(2):add_()"), "add_: takes 1 argument, got 0"));
}

TEST_CASE("lua torch: layers by their classes") {
  // The same network as by configs' words, name by name.
  CHECK(torch_run(R"(
local nn = gradus.nn
gradus.manual_seed(1)
local net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), "tanh", nn.Linear(8, 3))
gradus.manual_seed(1)
local same = gradus.nn({{linear = 8}, "relu", "tanh", {linear = 3}}, {1, 4})
local x = gradus.randn(5, 4)
print(net(x):equal(same(x)), net:forward(x):equal(net(x)))
local names = {}
for name, p in pairs(net:parameters()) do names[#names + 1] = name .. tostring(p:size()) end
table.sort(names)
print(table.concat(names, " "))
)") == "true\ttrue\nlayers.0.bias(8,) layers.0.weight(8, 4) layers.3.bias(3,) layers.3.weight(3, "
       "8)\n");
  // In order by number; pairs sees the names alone.
  CHECK(torch_run(R"(
local p = gradus.nn.Sequential(gradus.nn.Linear(4, 8), "relu", gradus.nn.Linear(8, 3)):parameters()
local n = 0
for name in pairs(p) do n = n + 1 end
print(#p, n, p[1]:equal(p["layers.0.weight"]), p[5])
for i, q in ipairs(p) do print(i, q:size()) end
)") == "4\t4\ttrue\tnil\n1\t(8, 4)\n2\t(8,)\n3\t(3, 8)\n4\t(3,)\n");
  CHECK(has(torch_run("gradus.nn.Linear(3)"),
            "Linear: key \"out\" is missing: features out; gradus.nn.Linear(in, out, bias)"));
  CHECK(has(torch_run("gradus.nn.Linear(-3, 4)"), "Linear: in: expected a whole number"));
  CHECK(has(torch_run("gradus.nn.Conv2d(3)"),
            "Conv2d: needs its arguments; gradus.nn.Conv2d(channels"));
  // Layers are shared with the network they stand in, and have their parameters at hand.
  CHECK(torch_run(R"(
local fc = gradus.nn.Linear(2, 3, {bias = false})
local net = gradus.nn.Sequential{fc, gradus.nn.Dropout(0.5)}
fc.weight.data:fill_(1)
print(net:eval()(gradus.ones(1, 2)):detach(), fc.weight:size())
local loss = gradus.nn.MSELoss{reduction = "sum"}
loss(net(gradus.ones(1, 2)), gradus.zeros(1, 3)):backward()
print(fc.weight.grad:sum():item())
net:zero_grad()
print(fc.weight.grad)
)") == "[[2, 2, 2]]\nf32 (1, 3)\t(3, 2)\n24.0\nnil\n");
  // Every class makes a layer that takes an input, and Softmax counts its axes from 1.
  CHECK(torch_run(R"(
local nn = gradus.nn
local image, row = gradus.randn(2, 3, 12, 12), gradus.randn(2, 3, 12)
for _, case in ipairs{
    {nn.Conv2d(3, 5, 3), image}, {nn.Conv2d(3, 5, {3, 1}, 2, 1), image}, {nn.ConvTranspose2d(3, 5, 3, 2), image},
    {nn.Conv1d(3, 5, 3, {bias = false}), row}, {nn.ConvTranspose1d(3, 2, 2), row}, {nn.BatchNorm2d(3), image},
    {nn.BatchNorm1d(3), row}, {nn.GroupNorm(3, 3), image}, {nn.LayerNorm(12), row}, {nn.LayerNorm{3, 12}, row},
    {nn.RMSNorm(12), row}, {nn.MaxPool2d(2), image}, {nn.MaxPool2d(3, 2, 1), image}, {nn.AvgPool1d(2), row},
    {nn.AdaptiveAvgPool2d(1), image}, {nn.Flatten(), image}, {nn.Embedding(10, 4), gradus.randint(10, {2, 3})}} do
  io = (io or "") .. tostring(case[1](case[2]).shape) .. " "
end
print(io)
for _, name in ipairs{"ReLU", "Sigmoid", "Tanh", "GELU", "SiLU", "Mish", "ELU", "SELU", "CELU", "LeakyReLU", "ReLU6",
    "Softplus", "Softsign", "Softshrink", "Hardshrink", "Tanhshrink", "Hardtanh", "Hardsigmoid", "Hardswish",
    "LogSigmoid"} do
  assert(nn[name]()(row).shape == row.shape, name)
end
print(nn.Softmax(3)(row):sum(3):sub(1):abs():amax():item() < 1e-5, nn.LogSoftmax(-1)(row).shape, nn.LeakyReLU(0.5)(-gradus.ones(1)))
)") == "(2, 5, 10, 10) (2, 5, 6, 7) (2, 5, 25, 25) (2, 5, 10) (2, 2, 13) (2, 3, 12, 12) (2, 3, "
       "12) (2, 3, 12, 12) (2, 3, 12) (2, 3, 12) (2, 3, 12) (2, 3, 6, 6) (2, 3, 6, 6) (2, 3, 6) "
       "(2, 3, 1, 1) (2, 432) (2, 3, 4) \ntrue\t(2, 3, 12)\t[-0.5]\nf32 (1,)\n");
  const auto refused = [](const std::string& text, const char* message) {
    const std::string said = torch_run(text);
    INFO(said);
    CHECK(has(said, message));
  };
  refused("gradus.nn.Sequential(gradus.nn.Linear(2, 3), gradus.nn.Linear(4, 5))(gradus.ones(1, 2))",
          "linear: layers[1] takes 4 features, its input has 3");
  refused("gradus.nn.Sequential(gradus.nn.ReLU)", "a layer without arguments is made too");
  refused("gradus.nn.Sequential('linear')", "linear");
  refused("gradus.nn.Sequential()", "needs at least one layer");
  refused("gradus.nn.Linear(2)", "out");
  refused("gradus.nn.Linear(2, 3, {bas = false})", "bias");
  refused("gradus.nn.Linear(2, 3, 4, 5)", "Linear: takes 3 arguments, got 4");
  refused("gradus.nn.Conv2d({}, 3, 3)", "whole number");
  refused("gradus.nn.Conv2d(0, 3, 3)", "number of channels that come in");
  refused("gradus.nn.Module()", "write a function of tensors");
  refused("gradus.nn.Linnear(2, 3)", "did you mean \"Linear\"?");
  refused("gradus.nn.Linear(2, 3):cuda()", "write gradus script --device cuda:0");
  refused("gradus.nn.MSELoss(gradus.ones(1), gradus.ones(1))", "loss: takes 1 argument, got 2");
  refused("gradus.nn.MSELoss(gradus.ones(1))", "loss(y, target)");
}

TEST_CASE("lua torch: the scripts that are typed first") {
  // A line, by hand and by optimiser.
  CHECK(torch_run(R"(
local torch = gradus
torch.manual_seed(0)
local x = torch.randn(100, 1)
local y = x * 3 + 2
local w = torch.zeros(1, 1, {requires_grad = true})
local b = torch.zeros(1, {requires_grad = true})
for epoch = 1, 200 do
  local loss = ((x:mm(w) + b - y) ^ 2):mean()
  loss:backward()
  torch.no_grad(function()
    w:sub_(0.1 * w.grad)
    b:sub_(0.1 * b.grad)
  end)
  w:zero_grad()
  b.grad:zero_()
end
print(("%.3f %.3f"):format(w:item(), b:item()))
)") == "3.000 2.000\n");
  CHECK(torch_run(R"(
local torch, nn, optim, F = gradus, gradus.nn, gradus.optim, gradus.nn.functional
torch.manual_seed(0)
local X = torch.tensor{{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}}
local Y = torch.tensor{0, 1, 1, 0}
local model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
local criterion = nn.CrossEntropyLoss()
local optimizer = optim.Adam(model:parameters(), {lr = 0.05, betas = {0.9, 0.999}})
for epoch = 1, 200 do
  optimizer:zero_grad()
  local loss = criterion(model(X), Y)
  loss:backward()
  optimizer:step()
end
print(F.softmax(model(X), 2):argmax(2):tolist()[2], model(X):argmax(2):eq(Y):sum():item())
)") == "1\t4\n");
  // A network of one's own, as a function over layers.
  CHECK(torch_run(R"(
local nn = gradus.nn
gradus.manual_seed(1)
local fc1, fc2 = nn.Linear(3, 8), nn.Linear(8, 1)
local function net(x) return fc2(fc1(x):relu()) end
local opt = gradus.optim.SGD({fc1.weight, fc1.bias, fc2.weight, fc2.bias}, {lr = 0.05, momentum = 0.9})
local x = gradus.randn(64, 3)
local y = x:sum{dim = 2, keepdim = true}
local first, last
for _ = 1, 200 do
  opt:zero_grad()
  local loss = gradus.mse_loss(net(x), y)
  loss:backward()
  opt:step()
  first, last = first or loss:item(), loss:item()
end
print(last < first / 100)
)") == "true\n");
}
