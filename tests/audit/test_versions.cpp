// The log of writes in place: who, where, which versions, which saved copies became stale; and what
// the engine's message says under a log.
#include "engine/hooks.hpp"
#include "ops/audit/judge/versions.hpp"
#include "ops/shape/in_place.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace gradus;
using namespace gradus::testing;
using gradus::audit::VersionLog;
using gradus::audit::Write;

TEST_CASE("versions: each write, by whom, where, and the copies that it left behind") {
  const Tensor w = leaf(f64({1, 2}, {2})), x = f64({3, 4}, {2});
  VersionLog log;
  log.name("x", x);
  const Tensor y = [&] {
    const Trace trace("forward");
    return sum(w * x) + sum(exp(w * 2.0));
  }();
  CHECK(log.writes().empty());
  {
    const Trace trace("update");
    mul_(x, 2.0);
    zero_(x);
  }
  REQUIRE(log.writes().size() == 2);
  const Write &first = log.writes()[0], &second = log.writes()[1];
  CHECK(to_text(first) == "x: mul_ wrote it, version 0 -> 1, at update");
  REQUIRE(first.stale.size() == 1);
  CHECK(to_text(first.stale[0]) == "input b of mul (version 0), at forward");
  CHECK(second.from == 1);
  CHECK(second.to == 2);
  CHECK(second.stale.empty());  // it was stale before
  CHECK(log.writes_to(x).size() == 2);
  CHECK(log.writes_to(w).empty());
  CHECK(log.writes_to(Tensor()).empty());
}

TEST_CASE("versions: a write through a view, by an output's own op, and of what nobody saved") {
  const Tensor w = leaf(f64({1, 2, 3, 4}, {2, 2}));
  VersionLog log;
  const Tensor y = exp(w);
  add_(select(y, 0, 1), 1.0);  // exp saved y
  REQUIRE(log.writes().size() == 1);
  CHECK(log.writes()[0].tensor == "f64 (2, 2), made by exp");
  REQUIRE(log.writes()[0].stale.size() == 1);
  CHECK(log.writes()[0].stale[0].what == "output 0");
  const Tensor h = w * 2.0;
  add_(h, 1.0);  // nobody needs h
  CHECK(log.writes().back().stale.empty());
  mul_(h, h);  // what the op itself saved stays as it was
  CHECK(log.writes().back().stale.empty());
  CHECK_NOTHROW(backward(sum(h)));
}

TEST_CASE("versions: under a log the error says who saved, who wrote, where, and the cure") {
  const Tensor w = leaf(f64({1, 2}, {2})), x = f64({3, 4}, {2});
  const auto run = [&] {
    const Tensor y = [&] {
      const Trace trace("layer 1");
      return sum(w * x);
    }();
    {
      const Trace trace("layer 2");
      add_(x, 1.0);
    }
    return error_of([&] { backward(y); });
  };
  const std::string plain =
      "mul: saved input 1 (2,) was changed by add_ after it was saved (version 0 -> 1); clone() it "
      "before the write, or use an op that returns a new tensor";
  CHECK(run() == plain);
  VersionLog log;
  log.name("x", x);
  std::string told = run();
  CHECK(told ==
        "mul: saved input 1 (2,) was changed by add_ after it was saved (version 1 -> 2); "
        "clone() it before the write, or use an op that returns a new tensor; it is x; "
        "saved as input b of mul (version 1), at layer 1; written by add_ (version 1 -> "
        "2), at layer 2");
  // The parameter itself, by an optimiser's kind of write.
  const Tensor y = sum(w * w);
  {
    const NoGrad off;
    for (int i = 0; i < 5; ++i) add_(w, 1.0);
  }
  told = error_of([&] { backward(y); });
  CHECK(told.find("(version 2 -> 3); and again") != std::string::npos);
}

TEST_CASE("versions: freed graphs are not stale, and logs nest and end") {
  const Tensor w = leaf(f64({1, 2}, {2})), x = f64({3, 4}, {2});
  VersionLog outer;
  {
    VersionLog inner;
    const Tensor y = sum(w * x);
    backward(y);
    add_(x, 1.0);
    REQUIRE(inner.writes().size() == 1);
    CHECK(inner.writes()[0].stale.empty());
  }
  CHECK(outer.writes().size() == 1);
  add_(x, 1.0);
  CHECK(outer.writes().size() == 2);
}

TEST_CASE("versions: a long run does not keep the graphs that it has let go of") {
  const Tensor w = leaf(f64({1, 2}, {2}));
  VersionLog log;
  const int64_t before = live_objects();
  int64_t most = 0;
  for (int i = 0; i < 3000; ++i) {
    const Tensor y = sum(tanh(w * 2.0) * w);
    if (i % 100 == 0) most = std::max(most, live_objects() - before);
  }
  CHECK(most < 12000);  // 3000 graphs are more than 40000
  CHECK(log.writes().empty());
}

TEST_CASE("versions: one tensor is one block, whoever wrote it") {
  const test::TempFolder folder;
  std::ofstream(folder / "w.lua") << "local a = gradus.randn(4, {requires_grad = true})\n"
                                     "local p = gradus.zeros(4)\n"
                                     "p:add_(1)\np:mul_(2)\np:copy_(gradus.ones(4))\n"
                                     "p[{{1, 2}}]:fill_(7)\n"
                                     "local t = a * p\n"
                                     "t:add_(1)\np[2] = 5\n"
                                     "gradus.randn(4)\n"
                                     "t:sum():backward()\n";
  const test::ProgramRun all = test::run(folder, "audit w.lua --versions --device cpu");
  const std::string t = "f32 (4,), made by mul at w.lua:7\n  version 0 -> 1 by add_   # w.lua:8\n";
  CHECK(all.out ==
        "f32 (4,), made by no op\n  version 0 -> 1 by add_   # w.lua:3\n"
        "  version 1 -> 2 by mul_   # w.lua:4\n  version 2 -> 3 by copy_   # w.lua:5\n"
        "  version 3 -> 4 by fill_   # w.lua:6\n  version 4 -> 5 by fill_   # w.lua:9\n"
        "    stale now: input b of mul   # w.lua:7\n" +
            t + "6 writes in place; 1 saved copy is stale\n");
  // Both nodes that the tensor has been the output of.
  const std::string one = t + "1 write in place; 0 saved copies are stale\n";
  CHECK(test::run(folder, "audit w.lua --versions %0 --device cpu").out == one);
  CHECK(test::run(folder, "audit w.lua --versions %1 --device cpu").out == one);
  CHECK(test::run(folder, "audit w.lua --versions a --device cpu").out ==
        "0 writes in place; 0 saved copies are stale\n");
  const test::ProgramRun wrong = test::run(folder, "audit w.lua --versions %9 --device cpu");
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("there is no such node; they are %0 to %2") != std::string::npos);
}

TEST_CASE("versions: the command") {
  const test::TempFolder folder;
  const std::string lenet = std::string("audit ") + GRADUS_SOURCE_DIR +
                            "/configs/lenet/digits.json --set data.train=64 --set data.test=8 ";
  const test::ProgramRun text = test::run(folder, lenet + "--versions");
  CHECK(text.code == 0);
  CHECK(text.out.find(
            "f32 (8,), made by no op\n  version 0 -> 1 by copy_   # layers[2] batch_norm\n") !=
        std::string::npos);
  CHECK(text.out.find("writes in place; 0 saved copies are stale") != std::string::npos);
  const test::ProgramRun json = test::run(folder, lenet + "--versions --json");
  std::istringstream lines(json.out);
  size_t writes = 0;
  for (std::string line; std::getline(lines, line);)
    writes += nlohmann::json::parse(line)["event"] == "write";
  CHECK(writes >= 4);
  const test::ProgramRun one = test::run(folder, lenet + "--versions layers.1.weight");
  CHECK(one.out == "0 writes in place; 0 saved copies are stale\n");
  const test::ProgramRun wrong = test::run(folder, lenet + "--versions layers.1.wieght");
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("did you mean \"layers.1.weight\"?") != std::string::npos);
}
