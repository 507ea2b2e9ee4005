// gradus contract of block-sparse tensors in files.
#include "tests/blocks/block_helpers.hpp"
#include "tests/helpers/io_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/texts.hpp"

#include "ops/blocks/file.hpp"

#include <filesystem>
#include <sstream>
#include <nlohmann/json.hpp>

using namespace gradus;
using namespace gradus::test;

namespace {

// The two-site tensor of a matrix product state, from its two sites.
std::string two_sites(const TempFolder& folder) {
  const ContractionCase& c = contraction_cases()[3];
  const std::string path = folder / "mps.safetensors";
  write_blocks(path, {{"0", filled(structure_of(c.mods, c.legs, c.a), c.a.fill)},
                      {"1", filled(structure_of(c.mods, c.legs, c.b), c.b.fill)}});
  return path;
}

}  // namespace

TEST_CASE("cli: contract takes block tensors, says what blocks save, and verifies them") {
  const TempFolder folder;
  const std::string path = two_sites(folder),
                    start = "contract --einsum 'lpm,mqr->lpqr' --tensors " + path;
  const ProgramRun r = run(folder, start + " --verify --grads a.safetensors - --out y.safetensors");
  CHECK(r.code == 0);
  CHECK(has(r.err, "25 elements of 60 in 4 blocks"));
  CHECK(has(r.err, "pairs of blocks"));
  CHECK(has(r.err, "leg 2: - {-2: 1, 0: 4, 2: 1}"));
  CHECK(has(r.out, "verified"));
  const BlockTensor y = read_blocks(folder / "y.safetensors")[0].tensor;
  check_sums(y, contraction_cases()[3].value);
  CHECK(read_blocks(folder / "a.safetensors")[0].tensor.structure.count() == 4);

  // The same as a network of labels.
  folder.write("net.json", R"({"labels": [[0, 1, 2], [2, 3, 4]], "sizes": [5, 2, 6, 2, 5],
                               "output": [0, 1, 3, 4]})");
  const ProgramRun n = run(folder, "contract --network net.json --json --verify --tensors " + path);
  CHECK(n.code == 0);
  std::istringstream lines(n.out);
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) last = nlohmann::json::parse(line);
  CHECK(last["event"] == "result");
  CHECK(last["verified"] == true);
  CHECK(last["blocks"] == 6);
  CHECK(last["elements"] == 37);

  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const ProgramRun p = run(folder, arguments);
    CHECK(p.code != 0);
    CHECK_MESSAGE(has(p.err, why), p.err);
  };
  refused(start + " --svg x.svg", "--svg is for dense operands");
  refused(start + " --algebra max-plus", "another algebra is for dense operands");
  refused("contract --einsum 'lpm,mqr,rst->lpqst' --tensors " + path, "has no block tensor \"2\"");
  refused("contract --einsum 'lpm,pqr->lmqr' --tensors " + path, "label \"p\"");
  folder.write("bad.json", R"({"labels": [[0, 1, 2], [2, 3, 4]], "sizes": [5, 2, 7, 2, 5],
                               "output": [0, 1, 3, 4]})");
  refused("contract --network bad.json --tensors " + path, "the network says (5, 2, 7)");

  // What no order of blocks heeds is not ignored, from a config neither.
  for (const char* option : {"--path greedy", "--path auto", "--budget 100", "--timeout 2",
                             "--plan-cache cache", "--sizes l=5", "--memory 1MiB"}) {
    const std::string said(option);
    refused(start + " " + said, said.substr(0, said.find(' ')) + " is for dense operands");
  }
  folder.write("budget.json", R"({"experiment": "contraction", "expression": "lpm,mqr->lpqr",
                                  "budget": 100})");
  refused("contract budget.json --tensors " + path, "--budget is for dense operands");
  refused("contract --einsum 'lpm,mqr->lpqrr' --verify --tensors " + path,
          "the output \"lpqrr\" repeats label \"r\"");
  folder.write("odd.json", R"({"labels": [[0, 1, 2], [2, 1, 4]], "sizes": [5, 2, 6, 2, 5],
                               "output": [0, 4]})");
  refused("contract --network odd.json --tensors " + path, "label 1");
}

TEST_CASE("cli: contract writes of block tensors only what its check let pass") {
  const TempFolder folder;
  const Leg odd({{2}, {0}}, 1, {{{0}, 1}, {{1}, 1}}, "leg");
  const BlockStructure s({odd, odd.reversed()}, {0}, "test");
  write_blocks(folder / "f.safetensors", {{"0", BlockTensor{Tensor::full({2}, 1, DType::f64), s}}});
  const ProgramRun r = run(folder,
                           "contract --einsum 'ij->ij' --tensors f.safetensors --verify --out "
                           "y.safetensors --grads g.safetensors");
  CHECK(r.code != 0);
  CHECK_MESSAGE(has(r.err, "no signs of fermions"), r.err);
  CHECK(!std::filesystem::exists(folder / "y.safetensors"));
  CHECK(!std::filesystem::exists(folder / "g.safetensors"));
}

TEST_CASE("cli: a check of block tensors sees NaN, and gradients that nobody asked for") {
  const TempFolder folder;
  const Leg leg({{0}, {}}, 1, {{{0}, 1}, {{1}, 1}}, "leg");
  const BlockStructure s({leg, leg.reversed()}, {0}, "test");
  const auto operand = [&](const char* name, double a, double b) {
    return NamedBlocks{name, BlockTensor{gradus::testing::f64({a, b}, {2}), s}};
  };
  const std::string start = "contract --einsum 'ij,jk->ik' --verify --json --tensors ";
  write_blocks(folder / "nan.safetensors", {operand("0", 1, NAN), operand("1", 2, 3)});
  const ProgramRun r = run(folder, start + "nan.safetensors --out y.safetensors");
  CHECK(r.code == 5);
  CHECK_MESSAGE(has(r.out, "\"verified\":false"), r.out);
  CHECK_MESSAGE(has(r.err, "the value is off by nan"), r.err);
  CHECK(!std::filesystem::exists(folder / "y.safetensors"));
  write_blocks(folder / "x.safetensors", {operand("0", 1, 2), operand("1", 2, 3)});
  const ProgramRun right = run(folder, start + "x.safetensors");
  CHECK(right.code == 0);
  CHECK_MESSAGE(has(right.out, "\"verified\":true"), right.out);
  CHECK_MESSAGE(has(right.out, "\"max_rel_error_grad\":0.0"), right.out);
}
