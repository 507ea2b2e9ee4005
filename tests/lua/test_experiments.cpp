// The experiments of configs/contraction and configs/linalg: each verifies itself by another way to
// the same figure, says so in its last line, and fails once something in it is wrong. Sizes are
// reduced.
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

using namespace gradus;
using gradus::test::ProgramRun;
using gradus::test::run;
using gradus::test::slurp;
using gradus::test::TempFolder;

namespace {

struct Experiment {
  const char *file, *sizes, *verdict;
  const char *right, *wrong, *complaint;  // what a fault put into it makes it say
  const char* folder = "contraction";
};
constexpr Experiment kExperiments[] = {
    {"bayes.lua", "", "verified: 36 marginals by gradient, by summing all cases the same",
     "gradus.grad(z:log(), evidence)", "gradus.grad(z, evidence)", "the gradient is no marginal"},
    {"colourings.lua", "5", "verified: 7 counts, all exact; Petersen's graph has 120 3-colourings",
     "{5 + i, 5 + (i + 2)", "{5 + i, 5 + (i + 1)", "Petersen's graph, 3 colours: expected 120"},
    {"ising.lua", "5",
     "verified: the mean of each of 3 x 3 spins, to 12 digits, by counting all states",
     "neighbours(n), {}", "neighbours(n - 1), {}", "the gradient is not the magnetisation"},
    {"dmrg_u1.lua", "8 24", "verified: 1 energy to 1e-10", "put(3, 3, {{1, 0}, {0, 1}})",
     "put(3, 3, {{1, 0}, {0, 2}})", "the energy is off by"},
    {"free_fermions.lua", "6", "verified: 8 energies by one particle's levels, to 1e-10",
     "from_dense(hop, {site, site, back, back})", "from_dense(hop, {site, site, back, back}) * 2",
     "an energy is off by"},
    {"trg_z2.lua", "8 30",
     "verified: ln Z to 8e-05 and energies to 1e-02 of the exact values; ln Z to 1e-9 of 5 others",
     "local product = 2", "local product = 3", "the free energy is off by"},
    {"mps.lua", "20 6", "verified: dense at 10 sites, and the gradient of all 20 sites by Euler",
     "{1000 + i, 2000 + i,", "{1000 + i, 3000 + i,", "another norm than the dense state's"},
    {"peps.lua", "3 2", "verified: dense at 3 x 3, and the gradient of all 9 sites by Euler",
     "k < #own and 1000 + label or label", "1000 + label", "another norm than the dense state's"},
    {"spin_glass.lua", "6",
     "verified: 5 ground states by force; the large state has its energy exactly", "\"max-plus\"",
     "\"min-plus\"", "not the ground state"},
    {"surface_code.lua", "3 20",
     "verified: the probabilities of all 32 cosets of distance 3, by summing all 512 errors",
     "gradus.stack({one[1], one[0]}, 1)", "gradus.stack({one[0], one[1]}, 1)",
     "the cosets are off by"},
    {"sycamore.lua", "2 3 4", "verified: 3 amplitudes of 6 qubits, by network as by state vector",
     "ends[bits[q]]", "ends[0]", "an amplitude differs by"},
    {"tccg.lua", "0.3", "verified: 7 contractions, as permute, matmul and permute",
     "local product = x", "local product = (2 * x)", "a value differs from the plain way's by"},
    {"trg.lua", "8 10", "verified: free energies to 1e-03, specific heats to 1e-3 by Onsager",
     "\"pea,abq,bct,sce->pstq\"", "\"pae,abq,bct,sce->pstq\"", "the free energy is off by",
     "linalg"},
    {"dmrg.lua", "8", "verified: energies to 1e-8 by all amplitudes", "\"awc,asb,wxst,ctd->bxd\"",
     "\"awc,asb,xwst,ctd->bxd\"", "the energy is off by", "linalg"},
    {"gaussian_process.lua", "20",
     "verified: value and gradient, by the inverse and the determinant, to 1e-8",
     "- l:diagonal():log():sum()", "- 2 * l:diagonal():log():sum()",
     "cholesky and the determinant differ by", "linalg"},
    {"low_rank.lua", "10",
     "verified: the gradient, to 6 digits, by differences; the hidden entries, to a twentieth",
     "local u, s, vh, left_out = gradus.truncated_svd(guess,",
     "local u, s, vh, left_out = gradus.truncated_svd(guess:detach() + 0 * guess,",
     "the gradient is off by", "linalg"},
};

std::string folder_of(const char* name) { return join(GRADUS_SOURCE_DIR, "/configs/", name, "/"); }
const std::string kFolder = folder_of("contraction");

std::string last_line(std::string text) {
  text.resize(text.find_last_not_of('\n') + 1);
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

TEST_CASE("experiments: each ends with its verified figure, and fails where a fault is put in") {
  const TempFolder folder;
  for (const Experiment& e : kExperiments) {
    CAPTURE(e.file);
    const std::string path = folder_of(e.folder) + e.file, text = slurp(path), right = e.right;
    const ProgramRun good = run(folder, join("script --device cpu '", path, "' ", e.sizes));
    CHECK(good.code == 0);
    CHECK(good.err == "");
    CHECK(last_line(good.out) == e.verdict);
    const size_t at = text.find(right);
    REQUIRE(at != std::string::npos);
    folder.write("wrong.lua", std::string(text).replace(at, right.size(), e.wrong));
    const ProgramRun bad = run(folder, join("script --device cpu wrong.lua ", e.sizes));
    CHECK(bad.code != 0);
    CHECK(bad.out.find("verified") == std::string::npos);
    CHECK_MESSAGE(bad.err.find(e.complaint) != std::string::npos, bad.err);
  }
}

TEST_CASE("experiments: those that are a config are verified by contract") {
  const TempFolder folder;
  for (const char* file : {"abcd_cd.json", "chain.json", "shortest_paths.json"}) {
    CAPTURE(file);
    const ProgramRun r =
        run(folder, join("contract --device cpu --json '", kFolder, file, "' --repeat 1"));
    CHECK(r.code == 0);
    std::istringstream lines(r.out);
    bool verified = false;
    for (std::string line; std::getline(lines, line);)
      if (const auto event = nlohmann::json::parse(line); event["event"] == "result")
        verified = event["verified"] == true;
    CHECK(verified);
  }
}

TEST_CASE("experiments: each README tells of each, and nothing else") {
  for (const std::string name : {"contraction", "linalg"}) {
    const std::string folder = folder_of(name.c_str()), page = slurp(folder + "README.md");
    std::set<std::string> known;
    if (name == "contraction") known = {"abcd_cd.json", "chain.json", "shortest_paths.json"};
    for (const Experiment& e : kExperiments)
      if (name == e.folder) known.insert(e.file);
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string file = entry.path().filename();
      if (file == "README.md") continue;
      ++files;
      CHECK_MESSAGE(known.contains(file), file, " is tried by nothing");
      CHECK_MESSAGE(page.find("| `" + file + "`") != std::string::npos, file);
    }
    CHECK(files == known.size());
  }
}
