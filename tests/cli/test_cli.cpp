// The program as people and scripts meet it: exit codes, messages with hints, pure JSON on standard
// output. Runs the built program; knows nothing of its insides.
#include "gradus_paths.hpp"
#include "engine/files/file.hpp"
#include "engine/files/npy.hpp"
#include "ops/ops.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/io_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/texts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

using namespace gradus;
using gradus::test::check_has;
using gradus::test::run;
using Run = gradus::test::ProgramRun;
using gradus::test::slurp;
using gradus::test::TempFolder;
using Json = nlohmann::json;

namespace {

// Every line of `text` as JSON; a line that is none fails the test.
std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const Json j = Json::parse(line, nullptr, false);
    CHECK_MESSAGE(j.is_object(), "not a JSON object: ", line);
    if (j.is_object()) lines.push_back(j);
  }
  return lines;
}

size_t count_lines(const std::string& text) {
  return size_t(std::count(text.begin(), text.end(), '\n'));
}

// A wrong call: one line on standard error that has `part`, this exit code, nothing on standard
// output.
void refused(const TempFolder& folder, const std::string& arguments, int code,
             const std::string& part) {
  const Run r = run(folder, arguments);
  CHECK_MESSAGE(r.code == code, arguments, ": exit code ", r.code, ": ", r.err);
  CHECK_MESSAGE(count_lines(r.err) == 1, arguments, ": ", r.err);
  CHECK_MESSAGE(r.out == "", arguments, ": ", r.out);
  CHECK_MESSAGE(r.err.starts_with("gradus: "), arguments, ": ", r.err);
  check_has(r.err, part);
}

}  // namespace

TEST_CASE("cli: op softmax with value, gradient and tangent in files") {
  const TempFolder folder;
  const Tensor x = testing::leaf(testing::f32({1, 2, 3, 0, -1, 4}, {2, 3}));
  const Tensor g = testing::f32({1, 0, 0, 0, 2, 0}, {2, 3});
  write_npy(folder / "x.npy", x);
  write_npy(folder / "g.npy", g);
  const Run r =
      run(folder,
          "op softmax --in x.npy --attr dim=1 --out y.npy --cotangent g.npy --grads dx.npy "
          "--tangents g.npy --jvp jy.npy --json");
  CHECK(r.code == 0);
  CHECK(r.err == "");
  const std::vector<Json> lines = json_lines(r.out);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["event"] == "result");
  CHECK(lines[0]["outputs"][0]["file"] == "y.npy");
  CHECK(lines[0]["device"] == "cpu");

  const Tensor y = softmax(x, 1);
  CHECK(testing::close(testing::values(read_npy(folder / "y.npy")), testing::values(y), 1e-6));
  const Tensor dx = grad({y}, {x}, {g})[0];
  CHECK(read_npy(folder / "dx.npy").dtype() == DType::f32);
  CHECK(testing::close(testing::values(read_npy(folder / "dx.npy")), testing::values(dx), 1e-6));
  // softmax's Jacobian is symmetric
  CHECK(testing::close(testing::values(read_npy(folder / "jy.npy")), testing::values(dx), 1e-6));
}

TEST_CASE("cli: op prints values, of any dtype, and parses every kind of attribute") {
  const TempFolder folder;
  write_npy(folder / "x.npy", testing::f64({1, 2, 3, 4, 5, 6}, {2, 3}));
  write_npy(folder / "n.npy", testing::i64({9007199254740993, -2}, {2}));
  Run r = run(folder, "op sum --in x.npy --attr dim=[0,1] --attr keepdim=true --json");
  CHECK(json_lines(r.out)[0]["outputs"][0]["values"] == Json::parse("[[21.0]]"));
  r = run(folder, "op sum --in x.npy --attr dim=0 --json");
  CHECK(json_lines(r.out)[0]["outputs"][0]["values"] == Json::parse("[5.0, 7.0, 9.0]"));
  r = run(folder, "op contiguous --in n.npy --json");
  CHECK(json_lines(r.out)[0]["outputs"][0]["values"] == Json::parse("[9007199254740993, -2]"));
  r = run(folder, "op cast --in x.npy --attr dtype=complex64 --json");
  CHECK(json_lines(r.out)[0]["outputs"][0]["dtype"] == "c64");
  r = run(folder, "op log --in n.npy --json");
  CHECK(json_lines(r.out)[0]["outputs"][0]["values"][1] == "NaN");
  r = run(folder, "op clamp --in x.npy --attr min=-inf --attr max=2.5");
  CHECK(r.code == 0);
  check_has(r.out, "2.5");
  const Run a = run(folder, "op normal --attr size=[3] --seed 7"),
            b = run(folder, "op normal --attr size=[3] --seed 7");
  CHECK(a.out == b.out);
  CHECK(a.out != run(folder, "op normal --attr size=[3] --seed 8").out);
}

TEST_CASE("cli: gradients of several operands, one dropped") {
  const TempFolder folder;
  write_npy(folder / "a.npy", testing::f64({2, 3}, {2}));
  write_npy(folder / "b.npy", testing::f64({5, 7}, {2}));
  write_npy(folder / "g.npy", testing::f64({1, 10}, {2}));
  const Run r = run(folder, "op mul --in a.npy b.npy --cotangent g.npy --grads da.npy - --json");
  CHECK(r.code == 0);
  CHECK(testing::values(read_npy(folder / "da.npy")) == std::vector<double>{5, 70});
  refused(folder, "op mul --in a.npy b.npy --cotangent g.npy --grads da.npy", 2,
          "--grads takes one file per floating operand: 2 expected, got 1");
  refused(folder, "op mul --in a.npy b.npy --grads da.npy db.npy", 2, "--grads needs --cotangent");
}

TEST_CASE("cli: op gives the Jacobian, the Hessian and its products, and maps over examples") {
  const TempFolder folder;
  write_npy(folder / "x.npy", testing::f64({2, 3}, {2}));
  write_npy(folder / "m.npy", testing::f64({1, 2, 3, 4}, {2, 2}));
  write_npy(folder / "v.npy", testing::f64({1, 10}, {2}));
  write_npy(folder / "n.npy", testing::i64({1, 0}, {2}));
  write_npy(folder / "z.npy", Tensor::from(std::vector{c128{1, 2}}, {1}));
  const auto file = [&](const char* name) { return testing::values(read_npy(folder / name)); };
  using List = std::vector<double>;

  // y = m x
  Run r = run(folder, "op matmul --in m.npy x.npy --jacobian jm.npy jx.npy --out y.npy --json");
  CHECK(r.code == 0);
  CHECK(json_lines(r.out)[0]["jacobian"][1]["name"] == "dy/db");
  CHECK(read_npy(folder / "jm.npy").sizes() == Shape{2, 2, 2});
  CHECK(file("jm.npy") == List{2, 3, 0, 0, 0, 0, 2, 3});
  CHECK(file("jx.npy") == List{1, 2, 3, 4});
  // Row by row: the dot product of each row with x.
  r = run(folder, "op matmul --in m.npy x.npy --in-dims 0,none --jacobian jm.npy - --out y.npy");
  CHECK(r.code == 0);
  CHECK(file("y.npy") == List{8, 18});
  CHECK(file("jm.npy") == List{2, 3, 2, 3});
  // The cotangent is of all examples, so x gets the sum over them; m's are columns here.
  r = run(folder,
          "op matmul --in m.npy x.npy --in-dims -1,none --cotangent v.npy --grads gm.npy gx.npy "
          "--tangents m.npy - --jvp t.npy");
  CHECK(r.code == 0);
  CHECK(file("gm.npy") == List{2, 20, 3, 30});
  CHECK(file("gx.npy") == List{21, 43});
  CHECK(file("t.npy") == List{11, 16});

  // y = x0 x1 has the Hessian [[0, 1], [1, 0]], and y = x . v mixed ones.
  r = run(folder, "op prod --in x.npy --attr dim=0 --hessian --hvp v.npy --json");
  CHECK(r.code == 0);
  const Json event = json_lines(r.out)[0];
  CHECK(event["hessian"][0]["values"].dump() == "[[0.0,1.0],[1.0,0.0]]");
  CHECK(event["hvp"][0]["values"].dump() == "[10.0,1.0]");
  r = run(folder, "op matmul --in x.npy v.npy --hvp v.npy - --hvp-out - h.npy");
  CHECK(r.code == 0);
  CHECK(file("h.npy") == List{1, 10});
  r = run(folder, "op prod --in m.npy --in-dims 0 --attr dim=0 --hessian h.npy --hvp m.npy");
  CHECK(r.code == 0);
  CHECK(file("h.npy") == List{0, 1, 1, 0, 0, 1, 1, 0});
  // An integer operand is passed on.
  r = run(folder, "op gather --in x.npy n.npy --attr dim=0 --jacobian j.npy");
  CHECK(r.code == 0);
  CHECK(file("j.npy") == List{0, 1, 1, 0});

  refused(folder, "op matmul --in m.npy x.npy --jacobian j.npy", 2,
          "--jacobian takes one file per floating output and floating operand: 2 expected, got 1");
  refused(folder, "op abs --in z.npy --jacobian", 2, "--jacobian takes real operands, x is c128");
  refused(folder, "op exp --in x.npy --hessian", 2,
          "--hessian needs one output of one real number, got f64 (2,); use --jacobian");
  refused(folder, "op matmul --in x.npy v.npy --hessian", 2, "here are 2; use --hvp");
  refused(folder, "op exp --in n.npy --jacobian", 2, "no operand is real or complex");
  refused(folder, "op eq --in x.npy v.npy --jacobian", 2, "has no derivative");
  refused(folder, "op prod --in x.npy --attr dim=0 --hvp m.npy", 2,
          "the vector has shape (2, 2), expected (2,)");
  refused(folder, "op prod --in x.npy --attr dim=0 --hvp-out h.npy", 2, "--hvp-out needs --hvp");
  refused(folder, "op matmul --in x.npy v.npy --hvp v.npy", 2,
          "--hvp takes one file per floating operand: 2 expected, got 1");
  refused(folder, "op matmul --in m.npy x.npy --in-dims 0", 2,
          "--in-dims names 1 axes for 2 operands");
  refused(folder, "op exp --in x.npy --in-dims first", 2, "as in 0,none; got \"first\"");
  refused(folder, "op exp --in x.npy --in-dims 1", 2, "axis 1");
  refused(folder, "op exp --in x.npy --in-dims none", 2, "no input is mapped");
}

TEST_CASE("cli: unknown things are refused with the nearest name") {
  const TempFolder folder;
  write_npy(folder / "x.npy", testing::f64({1, 2}, {2}));
  refused(folder, "trian", 2, "there is no command \"trian\"; did you mean \"train\"?");
  refused(folder, "config shwo", 2, "did you mean \"show\"?");
  refused(folder, "config", 2, "a command is missing");
  refused(folder, "op sigmiod --in x.npy", 2,
          "there is no op \"sigmiod\"; did you mean \"sigmoid\"?");
  refused(folder, "op softmax --in x.npy --attr dmi=1", 2,
          "has no attribute \"dmi\"; did you mean \"dim\"?");
  refused(folder, "op softmax --in x.npy --attr dim=1x", 2,
          "attribute dim is a whole number, got \"1x\"");
  refused(folder, "op softmax --in x.npy --attr dim", 2, "--attr takes key=value, got \"dim\"");
  refused(folder, "op softmax --in x.npy --atr dim=0", 2,
          "there is no option \"--atr\"; did you mean \"--attr\"?");
  refused(folder, "op cast --in x.npy --attr dtype=floot32", 2, "did you mean \"float32\"?");
  refused(folder, "op add --in x.npy", 2,
          "add: takes 2 operands (a, b), got 1; give them with --in");
  refused(folder, "op", 2, "needs the NAME of an op");
  refused(folder, "train", 2, "needs a CONFIG file");
  refused(folder, "op exp --in x.npy --device cqu", 2, "cqu");
  refused(folder, "op exp --in x.npy --seed 5x", 2, "expected a whole number, got \"5x\"");
  refused(folder, "config schema mpl", 2, "did you mean \"mlp\"?");
  refused(folder, "ops sofmax", 2, "did you mean \"softmax\"?");
  refused(folder, "check --op sofmax", 2, "did you mean \"softmax\"?");
  CHECK(run(folder, "").code == 2);
}

TEST_CASE("cli: files that cannot be trusted are exit 3, sizes that overflow exit 2") {
  const TempFolder folder;
  const std::string bytes = npy_bytes(testing::f64({1, 2, 3, 4}, {4}));
  folder.write("cut.npy", bytes.substr(0, bytes.size() - 8));
  folder.write("text.npy", "hello");
  refused(folder, "op exp --in cut.npy", 3, "cut.npy");
  refused(folder, "op exp --in text.npy", 3, "text.npy");
  refused(folder, "op exp --in none.npy", 3, "none.npy");
  write_npy(folder / "x.npy", testing::f64({1}, {1}));
  refused(folder, "op exp --in x.npy --out no/such/folder/y.npy", 3, "y.npy");
  refused(folder, "op expand --in x.npy --attr size=[4000000000,4000000000]", 2, "overflows");
  write_npy(folder / "g.npy", testing::f64({1, 2}, {2}));
  refused(folder, "op exp --in x.npy --cotangent g.npy", 2,
          "g.npy: the cotangent has shape (2,), expected (1,)");
  refused(folder, "config validate none.json", 3, "none.json");
}

TEST_CASE("cli: a missing device falls back with one line, or is exit 4") {
  const TempFolder folder;
  write_npy(folder / "x.npy", testing::f64({1}, {1}));
  folder.write("strict.json", R"({"device": "hip:9", "fallback": "error"})");
  const Run r = run(folder, "op exp --in x.npy --device hip:9 --json");
  CHECK(r.code == 0);
  CHECK(count_lines(r.err) == 1);
  check_has(r.err, "hip:9");
  CHECK(json_lines(r.out)[0]["device"] == "cpu");
  refused(folder, "op exp --in x.npy --device strict.json", 4, "hip:9");
}

TEST_CASE("cli: with --json errors are events too") {
  const TempFolder folder;
  const Run r = run(folder, "op nothing --json");
  CHECK(r.code == 2);
  const std::vector<Json> lines = json_lines(r.out);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["event"] == "error");
  CHECK(lines[0]["kind"] == "value");
  CHECK(lines[0]["code"] == 2);
  check_has(r.err, lines[0]["message"].get<std::string>());
  CHECK(json_lines(run(folder, "bla --json").out).size() == 1);
}

TEST_CASE("cli: ops lists every op, one object per line") {
  const TempFolder folder;
  const Run r = run(folder, "ops --json");
  CHECK(r.code == 0);
  const std::vector<Json> lines = json_lines(r.out);
  REQUIRE(lines.size() == all_ops().size());
  for (size_t i = 0; i < lines.size(); ++i) CHECK(lines[i]["name"] == all_ops()[i].name);
  const Run one = run(folder, "ops sigmoid");
  check_has(one.out, "y = 1 / (1 + exp(-x))");
  check_has(one.out, "dy/dx = y * (1 - y)");
  check_has(one.out, "saves       y");
  check_has(one.out, "cpu, reference");
  check_has(run(folder, "ops cross_entropy").out, "made of     log_softmax, gather");
  check_has(run(folder, "ops argmax").out, "derivative  none");
}

TEST_CASE("cli: devices says what is there and why something is not") {
  const TempFolder folder;
  const Run r = run(folder, "devices --json");
  CHECK(r.code == 0);
  std::map<std::string, Json> kinds;
  for (const Json& d : json_lines(r.out)) kinds[d.value("kind", "")] = d;
  for (const char* kind : {"cpu", "reference", "refmod"})
    CHECK_MESSAGE(kinds[kind]["present"] == true, kind);
  for (const char* kind : {"cuda", "hip", "emu"}) {
    REQUIRE_MESSAGE(kinds.contains(kind), kind);
    if (kinds[kind]["present"] == false) CHECK(kinds[kind]["why"].get<std::string>() != "");
  }
  const Json search = kinds[""];  // what comes last
  CHECK(search["event"] == "search");
  CHECK(search["device"] == "auto");
  CHECK(search["files"][0]["found"] == false);
  CHECK(search["modules"].size() > 2);
  folder.write("gradus.json", R"({"device": "reference"})");
  check_has(run(folder, "devices").out, "a run without --device takes  reference (gradus.json)");
  folder.write("gradus.json", R"({"device": "refrence"})");
  check_has(run(folder, "devices").out, "a run without --device would end  gradus.json");
}

TEST_CASE("cli: config schema is JSON, show tells origins, validate finds mistakes") {
  const TempFolder folder;
  for (const char* kind : {"", "mlp", "contraction", "device"}) {
    const Run r = run(folder, std::string("config schema ") + kind);
    CHECK(r.code == 0);
    const Json schema = Json::parse(r.out, nullptr, false);
    CHECK(schema.is_object());
    CHECK(schema["$schema"] == "http://json-schema.org/draft-07/schema#");
  }
  folder.write("mlp.json",
               R"({"experiment": "mlp", "data": {"name": "digits", "train": 60, "test": 20},
    "model": {"layers": [{"linear": 10}]}, "loss": "cross_entropy",
    "optimizer": {"name": "adam", "lr": 1e-3},
    "epochs": 1, "batch_size": 16})");
  CHECK(run(folder, "config validate mlp.json").code == 0);
  const Run shown = run(folder, "config show mlp.json --set epochs=3");
  CHECK(shown.code == 0);
  check_has(shown.out, "epochs = 3    (--set");
  check_has(shown.out, "batch_size = 16    (mlp.json)");
  check_has(shown.out, "(default)");
  CHECK(json_lines(run(folder, "config show mlp.json --json").out)[0]["config"]["epochs"] == 1);
  refused(folder, "config validate mlp.json --set epohcs=3", 2, "epochs");
  folder.write("gpu.json", R"({"device": "cuda:1", "fallback": "cpu"})");
  check_has(run(folder, "config validate gpu.json").out, "a valid config (device)");
  folder.write(
      "contraction.json",
      R"({"experiment": "contraction", "expression": "ij,jk->iz", "sizes": {"i": 2, "k": 2}})");
  refused(folder, "config validate contraction.json", 2, "contraction.json: expression: ");
  folder.write("other.json", R"({"experiment": "mpl"})");
  refused(folder, "config validate other.json", 2, "did you mean \"mlp\"?");
}

TEST_CASE("cli: check runs one op, on each instruction set") {
  const TempFolder folder;
  for (const char* isa : {"", "GRADUS_ISA=sse2"}) {
#if !defined(__x86_64__)
    if (*isa) continue;
#endif
    const Run r = run(folder, "check --op exp --json", isa);
    CHECK(r.code == 0);
    const std::vector<Json> lines = json_lines(r.out);
    REQUIRE(lines.size() == 2);
    CHECK(lines[0]["ok"] == true);
    for (const char* mode : {"value", "repeat", "layout", "vjp", "jvp", "dot", "second"})
      CHECK_MESSAGE(lines[0]["modes"].contains(mode), mode);
    CHECK(lines[1]["failed"] == 0);
    CHECK(lines[1]["primitives"] == 1);
  }
  check_has(run(folder, "check --op exp --device reference").out,
            "1 op (1 primitive, 0 compositions) on reference: all passed");
}

TEST_CASE(
    "cli: a run's record says which BLAS it multiplied with, and a resumed one what changed") {
  const std::string file = "/usr/lib/x86_64-linux-gnu/libblas.so.3";
  if (::access(file.c_str(), R_OK) != 0) {
    MESSAGE("there is no BLAS here: `apt-get install libblas3`");
    return;
  }
  const TempFolder folder;
  folder.write("c.json",
               R"({"experiment": "mlp", "data": {"name": "digits", "train": 64, "test": 8},
      "model": {"layers": [{"linear": 10}]}, "batch_size": 64, "epochs": 1})");
  const std::string device = R"({"device": "cpu", "libraries": {"blas": ")" + file + "\"}}";
  Run r = run(folder, "train c.json --out run --device '" + device + "'");
  CHECK_MESSAGE(r.code == 0, r.err);
  check_has(slurp(folder / "run/report.html"), "BLAS");
  check_has(run(folder, "devices", "GRADUS_DEVICE='" + device + "'").out, "\n            BLAS");
  r = run(folder, "train c.json --out run --resume --set epochs=2 --device cpu");
  check_has(r.err, ", BLAS");
  check_has(r.err, ": the last bits may differ from an uninterrupted run");

  // Nothing is opened for a file that was merely found.
  folder.write("gradus.json", device);
  r = run(folder, "train c.json --out found");
  CHECK_MESSAGE(r.code == 0, r.err);
  check_has(r.err, "\"libraries.blas\" is ignored in a file that was merely found");
  CHECK(!gradus::test::has(slurp(folder / "found/report.html"), "BLAS"));
}

TEST_CASE("cli: a device's config chooses its instruction set, above GRADUS_ISA") {
  const TempFolder folder;
#if defined(__x86_64__)
  // Sums in lanes differ in their last bits from set to set; the ways to say one do not.
  const std::string sum =
      " script -e \"gradus.seed(1) print(('%a'):format(gradus.randn(10000):sum()"
      ":item()), ('%a'):format(gradus.randn(9, 9):softmax(1):sum():item()))\"";
  const auto with = [&](const std::string& device, const char* variable) {
    const Run r = run(folder, "script --device '" + device + "'" + sum.substr(7), variable);
    INFO(r.err);
    CHECK(r.code == 0);
    return r.out;
  };
  const std::string sse2 = with("cpu", "GRADUS_ISA=sse2");
  CHECK(with(R"({"device": "cpu", "isa": "sse2"})", "") == sse2);
  CHECK(with(R"({"device": "cpu", "isa": "sse2"})", "GRADUS_ISA=avx3") == sse2);
#endif
  folder.write("d.json", R"({"device": "cpu", "isa": "avx3"})");
  for (const auto& [device, variable, from] :
       {std::tuple{"d.json", "", "isa"}, {"cpu", "GRADUS_ISA=avx3", "GRADUS_ISA"}}) {
    const Run r = run(folder, std::string("op exp --in 1 --device ") + device, variable);
    CHECK(r.code == 2);
    check_has(r.err, std::string(from) + ": unknown instruction set \"avx3\"; there are ");
    check_has(r.err, ", of which this processor has ");
    CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
  }
  check_has(run(folder, "config schema").out, "instruction set of a CPU device: sse2, avx2");
}

TEST_CASE("cli: help fits 80 columns and has examples") {
  const TempFolder folder;
  for (const char* command : {"", "demo", "train", "eval", "contract", "op", "ops", "devices",
                              "check", "config", "config show", "version"}) {
    const Run r = run(folder, std::string(command) + " --help");
    CHECK(r.code == 0);
    CHECK(r.err == "");
    std::istringstream in(r.out);
    for (std::string line; std::getline(in, line);)
      CHECK_MESSAGE(line.size() <= 80, command, ": ", line);
    if (*command) check_has(r.out, "Examples:\n  gradus ");
  }
  CHECK(run(folder, "help op").out == run(folder, "op --help").out);
  check_has(run(folder, "--version").out, "gradus 0.1.0");
  CHECK(json_lines(run(folder, "version --json").out)[0]["event"] == "version");
}

TEST_CASE("cli: the name of a command is an argument where one is expected") {
  const TempFolder folder;
  check_has(run(folder, "ops contract").out, "labels_a");
  refused(folder, "eval check", 3, "check");
}

TEST_CASE("cli: one key of the default optimizer can be set") {
  const TempFolder folder;
  write_file_atomically(folder / "c.json",
                        R"({"experiment":"mlp","data":{"name":"digits","train":100,"test":20},
                            "model":{"layers":[{"linear":10}]},"epochs":1,"batch_size":50})");
  check_has(run(folder, "config show c.json --set optimizer.lr=0.25").out,
            "optimizer.lr = 0.25    (--set)");
  check_has(run(folder, "config show c.json", "GRADUS_DEVICE=reference").out,
            "runs on reference    (GRADUS_DEVICE)");
  write_file_atomically(folder / "list.json", "[]");
  refused(folder, "train list.json", 2, "a config is a JSON object");
}

TEST_CASE("cli: --ledger shows what every op cost") {
  const TempFolder folder;
  write_npy(folder / "x.npy", testing::f64({1, 2, 3, 4}, {4}));
  const Run r = run(folder, "op exp --in x.npy --out y.npy --ledger");
  CHECK(r.code == 0);
  check_has(r.err, "op                       calls");
  check_has(r.err, "exp                          1");
}

TEST_CASE("cli: strides and widths that overflow are refused") {
  const TempFolder folder;
  write_npy(folder / "x.npy", testing::f64({1, 2, 3, 4}, {4}));
  refused(folder, "op as_strided --in x.npy --attr size=[4] --attr stride=[6148914691236517206]", 2,
          "reach outside");
  refused(folder, "op pad --in x.npy --attr pad=[9223372036854775807,1]", 2, "overflow");
  refused(folder, "contract --einsum 'ab,bc->ac' --sizes a=4000000000,b=4000000000,c=2", 2,
          "overflows");
}
