// Refusals say what to type instead, and no verdict on one device stands for another.
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/texts.hpp"

#include "engine/files/npy.hpp"
#include "tests/helpers/helpers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

using namespace gradus;
using gradus::test::check_has;
using gradus::test::ProgramRun;
using gradus::test::run;
using gradus::test::TempFolder;

namespace {

constexpr const char* kNetwork = R"({"experiment": "mlp", "data": {"name": "digits", "train": 60,
  "test": 20}, "model": {"layers": [{"linear": 10}]}, "epochs": 1, "batch_size": 16})";

// One line, this exit code, nothing on standard output.
void says_remedy(const TempFolder& folder, const std::string& arguments, int code,
                 const std::string& remedy) {
  const ProgramRun r = run(folder, arguments);
  CHECK_MESSAGE(r.code == code, arguments, ": exit code ", r.code, ": ", r.err);
  CHECK_MESSAGE(std::count(r.err.begin(), r.err.end(), '\n') == 1, arguments, ": ", r.err);
  CHECK_MESSAGE(r.err.size() < 420, arguments, ": ", r.err);
  CHECK_MESSAGE(r.out == "", arguments, ": ", r.out);
  check_has(r.err, remedy);
}

bool has_device(const TempFolder& folder, const std::string& kind) {
  const std::string all = run(folder, "devices").out;
  return all.find("\n" + kind + " ") != std::string::npos &&
         all.find("\n" + kind + std::string(12 - kind.size(), ' ') + "missing") ==
             std::string::npos;
}

}  // namespace

TEST_CASE("remedies: whole numbers beside a derivative are real, indices stay whole") {
  const TempFolder folder;
  ProgramRun r = run(folder, "op sigmoid --in '[-1,0,2]' --cotangent '[1,1,1]' --json");
  CHECK(r.code == 0);
  check_has(r.out, R"("grads":[{"dtype":"f64")");
  r = run(folder, "op sigmoid --in '[-1,0,2]' --cotangent '[1,1,1]' --dtype f32 --json");
  check_has(r.out, R"("grads":[{"dtype":"f32")");
  CHECK(run(folder, "op mul --in '[1,2]' '[3,4]' --tangents '[1,1]' '[1,0]'").code == 0);
  CHECK(run(folder, "op prod --in '[2,3]' --attr dim=0 --hessian --hvp '[1,10]'").code == 0);
  r = run(folder, "op gather --in '[5,6]' '[1,1]' --attr dim=0 --jacobian --json");
  CHECK(r.code == 0);
  check_has(r.out, "[[0.0,1.0],[0.0,1.0]]");
  // Without a derivative they are what they were.
  check_has(run(folder, "op neg --in '[1,2]' --json").out, R"("dtype":"i64")");
  // What a file holds is not reinterpreted.
  write_npy(folder / "n.npy", testing::i64({1, 2}, {2}));
  says_remedy(folder, "op exp --in n.npy --jacobian", 2,
              "gradus op cast --in x.npy --attr dtype=f64");
}

TEST_CASE("remedies: an equation that a shell has cut is quoted in the message") {
  const TempFolder folder;
  says_remedy(folder, "contract --einsum ij,jk- --sizes i=3,j=4,k=5", 2,
              "Quote it: --einsum \"ij,jk->");
  const std::string err = folder / "said";
  CHECK(std::system(("cd '" + folder.path() + "' && '" + GRADUS_PROGRAM +
                     "' contract --einsum ij,jk->ik --sizes i=3,j=4,k=5 2>'" + err + "'")
                        .c_str()) != 0);
  check_has(test::slurp(err),
            "Quote it: --einsum \"ij,jk->ik\"; the empty file \"ik\" is the shell's");
  CHECK(std::filesystem::exists(folder / "ik"));
  says_remedy(folder, "train ik", 2, "a shell makes such a file for > FILE");
}

TEST_CASE("remedies: a verdict on a device that is not there is exit 4") {
  const TempFolder folder;
  folder.write("mlp.json", kNetwork);
  folder.write("gpu.json", R"({"device": "hip:9", "fallback": "cpu"})");
  if (has_device(folder, "hip")) return;
  for (const char* command : {"check --op exp --device hip:9", "check --op exp --device gpu.json",
                              "tune mlp.json --device hip:9", "audit mlp.json --against hip:9",
                              "audit mlp.json --against gpu.json"})
    says_remedy(folder, command, 4, "`gradus devices` lists what is there");
  CHECK(run(folder, "graph mlp.json --record step.safetensors").code == 0);
  const ProgramRun shrunk =
      run(folder, "replay step.safetensors --shrink s.safetensors --until differs:hip:9");
  CHECK(shrunk.code == 4);
  // Others go on, and say how to get it.
  const ProgramRun other = run(folder, "op exp --in '[1.5]' --device gpu.json");
  CHECK(other.code == 0);
  check_has(other.err, "Using cpu");
  // One that is there is loaded.
  if (has_device(folder, "emu")) CHECK(run(folder, "audit mlp.json --against emu:0").code == 0);
}

TEST_CASE("remedies: a module that is missing says how it is built") {
  const TempFolder folder;
  std::filesystem::copy_file(GRADUS_PROGRAM, folder / "alone");
  const std::string err = folder / "said";
  const int status =
      std::system(("cd '" + folder.path() + "' && env -u GRADUS_MODULE_PATH ./alone check " +
                   "--op exp --device emu:0 2>'" + err + "'")
                      .c_str());
  CHECK(WEXITSTATUS(status) == 4);
  check_has(test::slurp(err), "`./dev build release gradus_emu` builds it");
}

TEST_CASE("remedies: data that has moved, numbers without brackets, a list without a kind") {
  const TempFolder folder;
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += join(i, ",", i % 2 ? "a" : "b", "\n");
  folder.write("d.csv", rows);
  folder.write("c.json", R"({"experiment": "mlp", "data": {"csv": "d.csv", "target": 2},
    "model": {"layers": [{"linear": 2}]}, "epochs": 1})");
  REQUIRE(run(folder, "train c.json --out run").code == 0);
  says_remedy(folder, "predict run 3.5,4", 2, "numbers are typed in brackets: \"[3.5,4]\"");
  CHECK(run(folder, "predict run '[3.5]'").out == run(folder, "predict run 3.5").out);
  std::filesystem::rename(folder / "d.csv", folder / "away.csv");
  says_remedy(folder, "eval run", 3, "--data says where to, and GRADUS_DATA the folder");
  CHECK(run(folder, "eval run --data away.csv").code == 0);
  folder.write("c.json", R"({"experiment": "mlp", "data": {},
    "model": {"layers": [{"linear": 2}]}})");
  says_remedy(folder, "config validate c.json", 2,
              R"({"name": "digits"}, {"name": "copy"}, {"idx")");
}

TEST_CASE("remedies: networks of factors without a sign are verified, other dtypes refused") {
  const TempFolder folder;
  for (const char* algebra : {"max-times", "min-times"}) {
    const std::string command =
        join("contract --einsum 'ij,jk,kl->il' --sizes i=20,j=20,k=20,l=20 --verify --algebra ",
             algebra);
    for (const char* dtype : {"f32", "f64"})
      CHECK(run(folder, command + " --dtype " + dtype).code == 0);
    const auto refused = [&](const char* dtype, const std::string& text) {
      const auto r = run(folder, command + " --dtype " + dtype);
      CHECK(r.code == 2);
      check_has(r.err, text);
    };
    refused("c64", join("not defined for c64 (", algebra, " of "));
    refused("bool", "a tropical algebra does not read dtype bool");
  }
}

TEST_CASE("remedies: operands of whole numbers are cast where nothing is lost, files keep blanks") {
  const TempFolder folder;
  const auto json = [&](const std::string& arguments) { return run(folder, arguments).out; };
  check_has(json("op add --in '[1,2]' '[1,2]' --dtype u8 --json"), "\"dtype\":\"u8\"");
  says_remedy(folder, "op add --in '[1,300]' '[1,2]' --dtype u8", 2,
              "has numbers that u8 does not hold");
  REQUIRE(run(folder, "op add --in '[1.5]' '[1]' --out sum.npy").code == 0);
  std::filesystem::rename(folder / "sum.npy", folder / " sum.npy");
  CHECK(run(folder, "op neg --in ' sum.npy'").code == 0);
  CHECK(run(folder, "op neg --in ' [1.5]'").code == 0);
}

TEST_CASE("remedies: layers and shapes of a config") {
  const TempFolder folder;
  const auto layers = [&](const std::string& list) {
    folder.write("c.json", R"({"experiment": "mlp", "model": {"layers": )" + list + "}}");
  };
  layers(R"(["rleu"])");
  for (const char* command : {"train c.json", "config validate c.json"})
    says_remedy(folder, command, 2, "there is no layer \"rleu\"; did you mean \"relu\"?");
  layers(R"(["linear"])");
  says_remedy(folder, "train c.json", 2, "the layer \"linear\" needs options: {\"linear\": ...}");
  layers(R"(["conv2d"])");
  says_remedy(folder, "train c.json", 2,
              R"({"conv2d": {"out_channels": ..., "kernel_size": ...}})");
  layers(R"(["zzzzzzzzzz"])");
  says_remedy(folder, "train c.json", 2, "`gradus config schema network` lists them");
  layers("[5]");
  says_remedy(folder, "train c.json", 2,
              R"(expected a layer, by name or as {"name": options}, got 5)");
  layers("[{}]");
  says_remedy(folder, "train c.json", 2, "... (");
  // Shapes, without a run.
  for (const char* layer :
       {R"({"conv2d": {"out_channels": 6, "kernel_size": 5}})", R"({"max_pool2d": 2})"}) {
    layers(std::string("[") + layer + R"(, "flatten", {"linear": 10}])");
    for (const char* command : {"train c.json", "config validate c.json"})
      says_remedy(folder, command, 2, R"(put {"unflatten": [1, 28, 28]} before it)");
    layers(std::string(R"([{"unflatten": [1, 28, 28]}, )") + layer +
           R"(, "flatten", {"linear": 10}])");
    CHECK(run(folder, "config validate c.json").code == 0);
    layers(std::string(R"([{"unflatten": [1, 28, 28]}, )") + layer + R"(, {"linear": 10}])");
    says_remedy(folder, "config validate c.json", 2, "put \"flatten\" before the first linear");
  }
  layers(R"([{"linear": 5}])");
  says_remedy(folder, "config validate c.json", 2,
              "c.json: model.layers: the network gives (1, 5)");
  says_remedy(folder, "config validate c.json", 2, ": end with {\"linear\": 10}");
  // Data that is not here leaves the rest of the config checked.
  folder.write(
      "c.json",
      R"({"experiment": "mlp", "data": {"idx": "no"}, "model": {"layers": [{"linear": 5}]}})");
  const ProgramRun r = run(folder, "config validate c.json");
  CHECK(r.code == 0);
  check_has(r.err, "the shapes are not checked: no: no such folder");
  says_remedy(folder, "train c.json", 3, "--set data.idx=DIR");
}

TEST_CASE("remedies: options, keys and attributes of another command") {
  const TempFolder folder;
  folder.write("mlp.json", kNetwork);
  folder.write(
      "c.json",
      R"({"experiment": "contraction", "expression": "ij,jk->ik", "sizes": {"i": 2, "j": 2, "k": 2}})");
  says_remedy(folder, "train mlp.json --lr 0.1", 2, "; write --set optimizer.lr=0.1");
  says_remedy(folder, "train mlp.json --learning-rate=0.1", 2, "; write --set optimizer.lr=0.1");
  says_remedy(folder, "train mlp.json --batch-size 8", 2, "; write --set batch_size=8");
  says_remedy(folder, "audit mlp.json --epochs", 2, "; write --set epochs=VALUE");
  says_remedy(folder, "train mlp.json --ouput x", 2, "did you mean \"--out\"?");
  says_remedy(folder, "train mlp.json epochs=3", 2, "; write --set epochs=3");
  says_remedy(folder, "train mlp.json --set lr=0.1", 2,
              "lr: unknown key; did you mean \"optimizer.lr\"?");
  says_remedy(folder, "op sum --in '[1,2]' --dim 0", 2, "; write --attr dim=0");
  says_remedy(folder, "op sum --in '[1,2]' --attr axis=0", 2,
              "has no attribute \"axis\"; did you mean \"dim\"?");
  says_remedy(folder, "op sum --in '[1,2]' --attr zzzzzz=0", 2, "; there are dim, keepdim");
  says_remedy(folder, "op softmax --in '[1,2]'", 2, "attribute dim must be given: --attr dim=");
  says_remedy(folder, "op exp a.npy", 2, "; write --in a.npy");
  says_remedy(folder, "--device cpu train mlp.json", 2,
              "options stand behind the command: gradus train --device");
  says_remedy(folder, "contract mlp.json", 2, "is run by `gradus train mlp.json`");
  says_remedy(folder, "train c.json", 2, "is run by `gradus contract c.json`");
}

TEST_CASE("remedies: what is no run folder names those near it") {
  const TempFolder folder;
  folder.write("mlp.json", kNetwork);
  CHECK(run(folder, "train mlp.json --out runs/a --set report=false").code == 0);
  for (const char* command : {"eval", "report", "verify"})
    says_remedy(folder, std::string(command) + " runs", 3,
                "runs: is no run folder: it holds no config.json; runs within it: runs/a");
  says_remedy(folder, "eval mlp.json", 3, "is a file, expected the folder of a run");
  says_remedy(folder, "eval none", 3,
              "no such folder; `gradus train CONFIG --out none` makes a run there");
}

TEST_CASE("remedies: --dtype is what whole numbers are computed in, and is read in any case") {
  const TempFolder folder;
  check_has(run(folder, "op exp --in '[1,2]' --dtype f64 --json").out, R"("dtype":"f64")");
  write_npy(folder / "n.npy", testing::i64({1, 2, 3, 4}, {2, 2}));
  check_has(run(folder, "op svdvals --in n.npy --dtype f64 --json").out, R"("dtype":"f64")");
  check_has(run(folder, "op gather --in '[5.0,6.0]' '[1,1]' --attr dim=0 --dtype f32 --json").out,
            "[6.0,6.0]");
  says_remedy(folder, "op exp --in '[1,2]' --dtype f99", 2, "f99");
  says_remedy(folder, "op exp --in '[1.0,2]' --dtype i64", 2, "gradus: [1.0,2]: is f64 and");
}

TEST_CASE("remedies: a number that no double holds is no attribute") {
  const TempFolder folder;
  says_remedy(folder, "op clamp --in '[9007199254740995]' --attr max=9007199254740993", 2,
              "attribute max is a number that a double holds, got \"9007199254740993\"");
  check_has(run(folder, "script -e 'gradus.full(3, 9007199254740993)'").err,
            "full: fill_value: no double is 9007199254740993");
  CHECK(run(folder, "op clamp --in '[9007199254740995]' --attr max=9007199254740992").code == 0);
}

TEST_CASE("remedies: a file's ending is that of what is written, and no operand is lost") {
  const TempFolder folder;
  const std::string ring = "contract --einsum 'ab,ba->' --sizes a=2,b=2 --out ";
  says_remedy(folder, ring + "x.safetensors", 2, "should end in .npy: an array is written");
  says_remedy(folder, "op exp --in '[1.0]' --out y.csv", 2, "should end in .npy");
  says_remedy(folder, "op exp --in '[1.0]' --jacobian d.json", 2, "d.json: should end in .npy");
  // Not over the operands.
  folder.write("net.json", R"({"labels": [[0, 1]], "output": [0, 1], "sizes": {"0": 1, "1": 2}})");
  CHECK(run(folder, "script -e 'gradus.save(\"net.safetensors\", {[\"0\"] = gradus.ones(1, 2)})'")
            .code == 0);
  const std::string before = gradus::test::slurp(folder / "net.safetensors");
  REQUIRE(before.size() > 8);
  says_remedy(folder, "contract --network net.json --tensors net.safetensors --out net.safetensors",
              2, "net.safetensors: should end in .npy: an array is written");
  CHECK(gradus::test::slurp(folder / "net.safetensors") == before);
  CHECK(!std::filesystem::exists(folder / "x.safetensors"));
  CHECK(!std::filesystem::exists(folder / "y.csv"));
  CHECK(run(folder, ring + "x").code == 0);
  CHECK(run(folder, ring + "x.npy").code == 0);
}

TEST_CASE("remedies: a target that is no class, an index that is no row") {
  const Tensor x = testing::f32({1, 2, 3, 4, 5, 6}, {2, 3}), far = testing::i64({0, 3}, {2});
  check_has(testing::error_of([&] { cross_entropy(x, far); }),
            "cross_entropy: a target is no class of 0 to 2: ");
  check_has(testing::error_of([&] { nll_loss(x, far); }), "nll_loss: a target is no class");
  check_has(testing::error_of([&] { embedding(x, far); }), "embedding: the table has 2 rows: ");
}

TEST_CASE("remedies: a network's labels have their extents from its file") {
  const TempFolder folder;
  folder.write("net.json",
               R"({"labels": [[0, 1], [1, 0]], "output": [], "sizes": {"0": 2, "1": 3}})");
  const std::string network = "contract --network net.json";
  REQUIRE(run(folder, network).code == 0);
  says_remedy(folder, network + " --sizes 0=99", 2, "the network's file says how large");
  write_npy(folder / "a.npy", testing::f64({1, 2, 3, 4}, {2, 2}));
  says_remedy(folder, network + " --in a.npy a.npy", 2,
              "has shape (2, 2), the network says (2, 3)");
}

TEST_CASE("remedies: help of a command that there is not, a limit of files, a target to predict") {
  const TempFolder folder;
  says_remedy(folder, "help trian", 2, "there is no command \"trian\"; did you mean \"train\"?");
  CHECK(run(folder, "help train").code == 0);
  const ProgramRun full =
      gradus::test::run_line(folder, "ulimit -f 40 && '" GRADUS_PROGRAM
                                     "' op normal --attr 'size=[100,1000]' --out n.npy");
  CHECK(full.code == 3);
  check_has(full.err, "n.npy");
  CHECK(!std::filesystem::exists(folder / "n.npy"));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    CHECK(entry.path().string().find(".tmp") == std::string::npos);
  std::string rows = "a,b,price\n";
  for (int i = 0; i < 40; ++i)
    rows +=
        std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + std::to_string(i % 12) + "\n";
  folder.write("rooms.csv", rows);
  folder.write("rooms.json",
               R"({"experiment": "mlp", "data": {"csv": "rooms.csv", "target": "price"},
    "model": {"layers": [{"linear": 1}]}, "loss": "mse", "epochs": 1})");
  check_has(run(folder, "train rooms.json --out r").err, R"(say "task": "regress" in its data)");
}
