// `gradus contract --network`: networks of labels from JSON, their orders, and what is refused.
#include "engine/files/npy.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace gradus;
using gradus::test::run;
using gradus::test::TempFolder;

namespace {

void put(const TempFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
}
nlohmann::json line(const std::string& text, const std::string& event) {
  std::istringstream lines(text);
  for (std::string l; std::getline(lines, l);)
    if (auto e = nlohmann::json::parse(l); e["event"] == event) return e;
  FAIL("no event " << event << " in " << text);
  return {};
}

}  // namespace

TEST_CASE("contract: a network of labels is the einsum of its letters, and is verified") {
  const TempFolder folder;
  put(folder, "n.json",
      R"({"labels": [[0, 1], [1, 2], [2, 2, 7]], "sizes": {"0": 3, "1": 4, "2": 5, "7": 2},
      "output": [7, 0]})");
  const auto network =
      run(folder, "contract --network n.json --seed 3 --json --verify --out a.npy");
  CAPTURE(network.err);
  REQUIRE(network.code == 0);
  CHECK(line(network.out, "result")["verified"] == true);
  const auto plan = line(network.out, "plan");
  CHECK(plan["family"] == "optimal");
  CHECK(plan["slices"] == 1);
  CHECK(plan["log2_mults"].get<double>() > 5);
  CHECK(plan["log2_largest"].get<double>() == 3);
  const auto letters =
      run(folder, "contract --einsum 'ab,bc,ccd->da' --sizes a=3,b=4,c=5,d=2 --seed 3 --out b.npy");
  REQUIRE(letters.code == 0);
  CHECK(gradus::test::slurp(folder / "a.npy") == gradus::test::slurp(folder / "b.npy"));
}

TEST_CASE("contract: a long chain is searched for; the same budget, the same order") {
  const TempFolder folder;
  nlohmann::json inputs = nlohmann::json::array(), sizes = nlohmann::json::array();
  for (int k = 0; k < 64; ++k) inputs.push_back({k, k + 1});
  for (int k = 0; k < 65; ++k) sizes.push_back(2 + k * 7 % 11);
  put(folder, "chains.json",
      nlohmann::json{{"instances",
                      {{{"name", "mine/chain_64"},
                        {"inputs", inputs},
                        {"sizes", sizes},
                        {"output", {0, 64}}}}}}
          .dump());
  const auto first = run(folder, "contract --network chains.json#chain_64 --json --budget 20000");
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  const auto plan = line(first.out, "plan");
  CHECK(plan["path"].size() == 63);
  CHECK(plan["units"].get<double>() > 0);
  const auto again =
      run(folder, "contract --network chains.json#chain_64 --plan-only --json --budget 20000");
  CHECK(line(again.out, "plan")["path"] == plan["path"]);
  for (const char* family : {"greedy", "random-greedy", "min-fill", "min-degree", "dissection",
                             "annealing", "optimal"}) {
    const auto other =
        run(folder,
            std::string("contract --network chains.json#chain_64 --plan-only --path ") + family);
    CAPTURE(family);
    CAPTURE(other.err);
    CHECK(other.code == 0);
    CHECK(other.err.find("order " + std::string(family)) != std::string::npos);
  }
}

TEST_CASE("contract: networks that are none are refused with the place") {
  const TempFolder folder;
  const auto refused = [&](const std::string& text, const std::string& where,
                           const std::string& says) {
    put(folder, "n.json", text);
    const auto r = run(folder, "contract --network n.json" + where);
    CAPTURE(r.err);
    CHECK(r.code == 2);
    CHECK(r.err.find(says) != std::string::npos);
  };
  refused(R"({"sizes": []})", "",
          "n.json: expected \"labels\": one list of labels for each tensor");
  refused(R"({"labels": [[0, "a"]], "sizes": [2]})", "", "n.json: labels[0]: \"a\" is no label");
  refused(R"({"labels": [[0], [0, 1]], "sizes": [2]})", "",
          "n.json: labels[1]: label 1 has no extent in \"sizes\"");
  refused(R"({"labels": [[0]], "sizes": [-1]})", "", "n.json: sizes: the extent of label 0 is -1");
  refused(R"({"labels": [[0]], "sizes": [2], "output": [4]})", "",
          "output label 4 is in no operand");
  refused(R"({"instances": [{"name": "x/chain"}]})", "#chian",
          "n.json: has no network \"chian\", only chain; did you mean");
  refused(R"({"labels": [[0]], "sizes": [2]})", "#one",
          "n.json: has no \"instances\" to take \"one\" from");
  const auto both = run(folder, "contract --network n.json --einsum 'a->'");
  CHECK(both.code == 2);
  CHECK(both.err.find("exclude each other") != std::string::npos);
}

TEST_CASE("contract: what does not fit into the memory is done in slices, or refused at once") {
  const TempFolder folder;
  const std::string ring =
      "contract --einsum 'abc,cde,efa,bdf->' --sizes a=24,b=24,c=24,d=24,e=24,f=24 --dtype f64 "
      "--seed 2 --json";
  const auto whole = run(folder, ring + " --out whole.npy");
  REQUIRE(whole.code == 0);
  CHECK(line(whole.out, "plan")["slices"] == 1);
  const auto sliced = run(folder, ring + " --memory 1200KiB --out sliced.npy");
  CAPTURE(sliced.err);
  REQUIRE(sliced.code == 0);
  const auto plan = line(sliced.out, "plan");
  CHECK(plan["slices"].get<int>() >= 24);
  CHECK(!plan["sliced"].empty());
  CHECK(plan["peak_bytes_estimate"].get<double>() <= 1200 * 1024);
  CHECK(line(sliced.out, "result")["peak_bytes"].get<double>() <= 1200 * 1024);
  const double a = read_npy(folder / "whole.npy").item(),
               b = read_npy(folder / "sliced.npy").item();
  CHECK(std::abs(a - b) <= 1e-10 * std::abs(a));
  const auto refused = run(folder, ring + " --memory 100KiB");
  CHECK(refused.code != 0);
  CHECK(refused.err.find("the limit is 100 KiB") != std::string::npos);
}

#ifndef GRADUS_SANITIZED  // they keep blocks that were freed
TEST_CASE("contract: a limit of memory holds for what is resident") {
  const TempFolder folder;
  const std::string ring =
      "contract --einsum 'abc,cde,efa,bdf->' --sizes a=80,b=80,c=80,d=80,e=80,f=80 --device cpu "
      "--json ";
  const auto least = gradus::test::run_measured(folder, "contract --einsum 'a,a->' --sizes a=1");
  const auto whole = gradus::test::run_measured(folder, ring);
  const auto limited = gradus::test::run_measured(folder, ring + "--memory 32MiB");
  REQUIRE(whole.run.code == 0);
  REQUIRE(limited.run.code == 0);
  CHECK(line(whole.run.out, "result")["peak_bytes"].get<double>() > 160e6);
  CHECK(whole.peak > 150);
  CHECK(line(limited.run.out, "plan")["slices"].get<int>() > 1);
  CHECK(limited.peak - least.peak < 48);  // and copies for its products
}
#endif
