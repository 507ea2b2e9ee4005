// Lua as the program runs it: the lessons of configs/scripts, ops of a script's own, data sets and
// experiments, `gradus script` and `gradus repl`.
#include "tests/helpers/texts.hpp"
#include "tests/helpers/lua_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

using namespace gradus;
using gradus::test::fails;
using gradus::test::has;
using gradus::test::ProgramRun;
using gradus::test::says;
using gradus::test::TempFolder;

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
    if (gradus::test::small_sizes() && file.ends_with("mlp_digits.lua")) continue;  // minutes
    const ProgramRun run = gradus::test::run(folder, "script --device cpu '" + file + "'");
    CHECK(run.code == 0);
    CHECK(run.err == "");
    gradus::test::check_alike(run.out, expected);
  }
  CHECK(lessons >= 7);
}

TEST_CASE("lua: an op of the script's own is checked and differentiated like others") {
  // In a process of their own: ops stay in the op list, which other tests go over.
  const TempFolder folder;
  const auto run = [&](const std::string& text) {
    std::ofstream(folder / "test.lua") << text;
    return gradus::test::run(folder, "script --device cpu test.lua");
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
  CHECK(has(wrong,
            "gradus: test.lua:1: wrong: slope is not the derivative of value between -1 and 1: "));
  CHECK(has(fails("gradus.op{name = 'texts', value = function(x) return x end, "
                  "slope = function(x, y) return 'a' end}"),
            "texts: slope's result: expected a tensor or a number, got a string"));
  // The call keeps its own handle; later ones say what is gone.
  const std::string dropped =
      "local a, b = gradus.ones(3), gradus.ones(3) local drop = false "
      "local f = gradus.op{name = 'drops', value = function(x) "
      "if drop then local y <close> = a end return x * 2 end, slope = function(x, y) return 2 end} "
      "drop = true print(f(a)) ";
  CHECK(has(says(dropped), "[2, 2, 2]"));
  for (const char* wrong : {"print(a + b)", "print(b + a)", "a:exp()", "a:sum(1)", "b:add(a)"})
    CHECK(has(fails(dropped + wrong), "a tensor that was freed"));
  // A picture runs none of it: it may know the shapes of its script alone.
  const TempFolder drawn;
  std::ofstream(drawn / "pick.lua")
      << "local f = gradus.op{name = 'pick', check = false, value = function(x) "
         "assert(x.shape[1] == 3) print('runs') return x * 2 end, "
         "slope = function(x, y) return gradus.full({3}, 2.0) end}\n"
         "f(gradus.ones(3):requires_grad_()):sum():backward()\n";
  const ProgramRun picture = gradus::test::run(drawn, "graph pick.lua --html pick.html");
  CHECK(picture.code == 0);
  CHECK(picture.err == "runs\n");
  CHECK(has(fails("gradus.op{name = 'relu', value = function(x) return x end, slope = function(x, "
                  "y) return 1 end}"),
            "there is an op \"relu\" already"));
  CHECK(has(fails("gradus.op{name = 'none', slope = function() end}"),
            "value: expected a function, got nil"));
  CHECK(has(fails("gradus.op{name = 'err', value = function(x) error('within') end, slope = "
                  "function(x, y) return x end}"),
            "test.lua:1: within"));
}

TEST_CASE("lua: attributes by place, by name, as nil") {
  const std::string m = "local m = gradus.arange(6):reshape(2, 3) * 1.0 ";
  CHECK(says(m + "print(m:sum(2.0, true).shape, m:sum(nil, true).shape, m:sum(-1).shape, "
                 "m:sum(1, {keepdim = true}).shape, m:sum({1, 2}).shape, m:sum().shape)") ==
        "(2, 1)\t(1, 1)\t(2,)\t(1, 3)\t()\t()");
  CHECK(says(m + "print(m:sum(1):equal(gradus.tensor{3.0, 5.0, 7.0}), m:roll(0):equal(m), "
                 "m:permute(2, 1):equal(m.T))") == "true\ttrue\ttrue");
  for (const char* wrong : {"m:sum(0)", "m:sum({0})"})
    CHECK(has(fails(m + wrong), "sum: dim: 0 is nothing: Lua counts from 1"));
  CHECK(has(fails(m + "m:sum(1.5)"), "sum: dim: expected a whole number, got 1.5"));
  CHECK(has(fails(m + "m:sum(1, 1)"), "sum: keepdim: expected true or false, got a number"));
  CHECK(has(fails(m + "m:softmax(nil)"), "softmax: attribute dim (an integer) must be given"));
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
      "print(net:state()[\"layers.2.bias\"][1]:item())");
  INFO(r.err);
  CHECK(r.out == "true\ttrue\t3\n9.0\n");
  CHECK(run("local net = gradus.nn({{linear = 2}, {dropout = 0.9}}, {1, 3}) print(net) "
            "net:eval() local x = gradus.ones(1, 3) print(net(x):equal(net(x)))")
            .out ==
        "network\n  layers.0.weight f32 (2, 3)\n  layers.0.bias f32 (2,)\n  8 parameters\ntrue\n");
  CHECK(has(run("gradus.nn({{linnear = 6}}, {1, 4})").err, "linear"));
  CHECK(has(run("gradus.nn({\"relu\"}, {1, 4}):forwards(1)").err,
            "-e:1: network: has no \"forwards\"; did you mean \"forward\"?"));
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
  r = run("script s.lua one --max-seconds 1");
  CHECK(r.code == 2);
  CHECK(has(r.err, "--max-seconds: stands behind s.lua"));
  CHECK(run("script --device cpu s.lua -- --max-seconds 1").out == "cpu\t2\t--max-seconds\t1\n");
  // Not the name of a file; behind a text, the script's own.
  r = run("script --max-second 1 s.lua");
  CHECK(r.code == 2);
  CHECK(has(r.err, "script: there is no option \"--max-second\"; did you mean \"--max-seconds\"?"));
  CHECK(run("script -e 'print(...)' --max-second 1").out == "--max-second\t1\n");
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
