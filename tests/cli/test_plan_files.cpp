// `gradus contract` with plans as files and pictures, operands by name, and a timeout.
#include "engine/files/npy.hpp"
#include "engine/files/safetensors.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/texts.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include <nlohmann/json.hpp>

using namespace gradus;
using gradus::test::check_has;
using gradus::test::has;
using gradus::test::run;
using gradus::test::slurp;
using gradus::test::TempFolder;
using Json = nlohmann::json;

namespace {

Json event_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string l; std::getline(lines, l);)
    if (auto e = Json::parse(l); e["event"] == name) return e;
  FAIL("no event " << name << " in " << text);
  return {};
}
void save(const TempFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
}
const std::string kLetters =
    "contract --einsum \"\u03b1b,bc,cd,\u03b1d->\" --sizes \u03b1=8,b=9,c=10,d=11 ";
// A ring of ten tensors of 6 x 6, as labels.
std::string ring() {
  Json labels = Json::array();
  for (int k = 0; k < 10; ++k) labels.push_back({k, (k + 1) % 10});
  return Json{{"labels", labels}, {"sizes", std::vector<int>(10, 6)}, {"output", Json::array()}}
      .dump();
}

}  // namespace

TEST_CASE("plan files: an order that was found is taken again, with its slices") {
  const TempFolder folder;
  const auto first = run(folder, kLetters + "--memory 6KiB --plan-out p.json --out a.npy --json");
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  const Json plan = event_of(first.out, "plan");
  const Json file = Json::parse(slurp(folder / "p.json"));
  CHECK(file["format"] == "gradus.plan/1");
  CHECK(file["path"] == plan["path"]);
  CHECK(file["sliced"].size() == plan["sliced"].size());
  CHECK(file["labels"] == Json::parse("[[0,1],[1,2],[2,3],[0,3]]"));
  // Alone it says all; beside an expression it says the order.
  for (const std::string& asked : {std::string("contract "), kLetters}) {
    const auto again = run(folder, asked + "--plan-in p.json --out b.npy --json");
    CAPTURE(again.err);
    REQUIRE(again.code == 0);
    const Json same = event_of(again.out, "plan");
    for (const char* key : {"path", "sliced", "slices", "flops", "expression"})
      CHECK(same[key] == plan[key]);
    CHECK(slurp(folder / "b.npy") == slurp(folder / "a.npy"));
  }
  // A plan is a network, too.
  CHECK(run(folder, "contract --network p.json --plan-only").code == 0);
}

TEST_CASE("plan files: of a network, of one operand, with slices that the memory asks for") {
  const TempFolder folder;
  save(folder, "ring.json", ring());
  const auto first = run(folder,
                         "contract --network ring.json --path dissection --memory 2600 "
                         "--plan-out p.json --out a.npy --json");
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  CHECK(event_of(first.out, "plan")["slices"] == 6);
  CHECK(!Json::parse(slurp(folder / "p.json")).contains("expression"));
  const auto again =
      run(folder, "contract --network ring.json --plan-in p.json --out b.npy --json");
  CAPTURE(again.err);
  REQUIRE(again.code == 0);
  CHECK(event_of(again.out, "plan")["slices"] == 6);
  CHECK(slurp(folder / "b.npy") == slurp(folder / "a.npy"));
  REQUIRE(run(folder, "contract --einsum 'iij->j' --sizes i=2,j=3 --plan-out one.json").code == 0);
  CHECK(run(folder, "contract --plan-in one.json --verify").code == 0);
}

TEST_CASE("contract: the memory that a plan says is enough") {
  const TempFolder folder;
  save(folder, "ring.json", ring());
  save(folder, "grad.json",
       R"({"experiment": "contraction", "expression": "ij,jk,kl->il", "dtype": "f64", "grad": true,
           "sizes": {"i": 9, "j": 8, "k": 7, "l": 6}})");
  for (const std::string what :
       {"--einsum 'i,i->' --sizes i=160 --dtype c64", "--einsum 'i,i->' --sizes i=160 --dtype i32",
        "--einsum 'i,i->' --sizes i=160 --dtype f16", "--einsum 'i,i->' --sizes i=160 --dtype u8",
        "grad.json", "--einsum 'i,i->' --sizes i=16", "--einsum 'i,ij,j->' --sizes i=16,j=2",
        "--network ring.json", "--einsum 'ij,jk,kl->il' --sizes i=9,j=8,k=7,l=6 --dtype f64"}) {
    CAPTURE(what);
    const std::string command = "contract --json " + what;
    const auto plan = run(folder, command + " --plan-only");
    REQUIRE(plan.code == 0);
    const auto bytes = event_of(plan.out, "plan")["peak_bytes_estimate"].get<int64_t>();
    const auto whole = run(folder, command + " --memory " + std::to_string(bytes));
    CHECK_MESSAGE(whole.code == 0, whole.err);
    CHECK(event_of(whole.out, "result")["peak_bytes"].get<int64_t>() <= bytes);
  }
}

TEST_CASE("plan files: what is none, or another's, is refused") {
  const TempFolder folder;
  REQUIRE(run(folder, kLetters + "--plan-only --plan-out p.json").code == 0);
  const Json good = Json::parse(slurp(folder / "p.json"));
  const auto refused = [&](const std::string& key, const Json& value, const std::string& says) {
    Json bad = good;
    value.is_null() ? void(bad.erase(key)) : void(bad[key] = value);
    save(folder, "bad.json", bad.dump());
    const auto r = run(folder, "contract --plan-in bad.json");
    CHECK(r.code == 2);
    check_has(r.err, "bad.json: " + says);
  };
  refused("format", "gradus.plan/2", "expected a plan, {\"format\": \"gradus.plan/1\", ...}");
  refused("path", nullptr, "expected a list \"path\"");
  refused("path", {{0, 1}}, "the path has 1 steps, 4 operands need 3");
  refused("path", {{0, 9}, {0, 1}, {0, 1}}, "path step 0 is [0, 9]");
  refused("path", {{0, 1, 2}}, "path: expected pairs of positions");
  refused("labels", {{0, 1}, {1, 2}, {2, 3}, {0, -1}}, "labels: expected whole numbers from 0");
  refused("labels", {{0, 1}, {1, 2}, {2, 3}, {0, 0}}, "label 0 is 8 and 11 within operand 3");
  refused("shapes", {{8, 9}, {9, 10}, {10, 11}}, "labels for 4 operands, got 3 operands");
  refused("sliced", {9}, "sliced: 9 is no label");
  refused("expression", "ab,bc,cd,ad->a", "expression and labels differ");
  refused("expression", 3, "expression: expected a text");
  save(folder, "none.json", "[1]");
  check_has(run(folder, "contract --plan-in none.json").err, "none.json: expected a plan");
  check_has(run(folder, "contract --plan-in absent.json").err, "absent.json: cannot open");
  const auto other =
      run(folder, "contract --einsum 'ab,bc->ac' --sizes a=2,b=2,c=2 --plan-in p.json");
  CHECK(other.code == 2);
  check_has(other.err, "p.json: is the plan of another expression or of other shapes: \u03b1b");
}

TEST_CASE("plan files: a folder keeps what was searched for") {
  const TempFolder folder;
  save(folder, "ring.json", ring());
  REQUIRE(std::filesystem::create_directory(folder / "kept"));
  const auto asked = [&](const std::string& more) {
    const auto r = run(folder, "contract --network ring.json --plan-cache kept --json " + more);
    CAPTURE(r.err);
    REQUIRE(r.code == 0);
    return event_of(r.out, "plan");
  };
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& e : std::filesystem::directory_iterator(folder / "kept"))
      names.push_back(e.path());
    return names;
  };
  const Json first = asked("--budget 20000");
  CHECK(first["family"] != "given");
  REQUIRE(files().size() == 1);
  const Json again = asked("--budget 20000");
  CHECK(again["family"] == "given");
  CHECK(again["path"] == first["path"]);
  asked("--budget 30000");  // another question
  CHECK(files().size() == 2);
  // One that is damaged is written anew.
  for (const std::string& file : files()) std::ofstream(file) << "{";
  CHECK(asked("--budget 20000")["family"] == first["family"]);
  CHECK(asked("--budget 20000")["family"] == "given");
  const auto nowhere = run(folder, "contract --network ring.json --plan-cache none --plan-only");
  CHECK(nowhere.code == 3);
  check_has(nowhere.err, "make its folder first: mkdir -p none");
}

TEST_CASE("operands by name from a .safetensors file") {
  const TempFolder folder;
  const Tensor a = Tensor::from_host(std::vector<float>{1, 2, 3, 4}.data(), {2, 2}, DType::f32),
               b = Tensor::from_host(std::vector<float>{5, 6}.data(), {2}, DType::f32);
  write_safetensors(folder / "t.safetensors", {{"1", b}, {"0", a}});
  write_safetensors(folder / "named.safetensors", {{"v", b}, {"m.weight", a}});
  save(folder, "n.json", R"({"labels": [[0, 1], [1]], "sizes": [2, 2], "output": [0],
       "names": ["m.weight", "v"]})");
  for (const char* asked : {"--einsum 'ij,j->i' --tensors t.safetensors",
                            "--network n.json --tensors named.safetensors"}) {
    const auto r = run(folder, std::string("contract ") + asked + " --out y.npy");
    CAPTURE(r.err);
    REQUIRE(r.code == 0);
    CHECK(read_npy(folder / "y.npy").to_string() == "[17, 39]");
  }
  const auto missing = run(folder, "contract --network n.json --tensors t.safetensors");
  CHECK(missing.code == 2);
  check_has(missing.err, "t.safetensors: has no tensor \"m.weight\", operand 0");
  check_has(run(folder, "contract --einsum 'ij,j->i' --tensors t.safetensors --sizes i=2").err,
            "--sizes, --in and --tensors exclude each other");
  check_has(run(folder, "contract --einsum 'ijk,j->i' --tensors t.safetensors").err,
            "operand 0 of shape (2, 2) has 2 axes");
}

TEST_CASE("a timeout says which budget finds its order again") {
  const TempFolder folder;
  Json labels = Json::array();
  std::vector<std::vector<int>> of(60);  // a random graph of degree 4
  unsigned state = 7;
  for (int l = 0; l < 120; ++l)
    for (int end = 0; end < 2; ++end) {
      state = state * 1664525u + 1013904223u;
      of[(unsigned(l) / 2 + (end ? 1 + (state >> 16) % 59 : 0)) % 60].push_back(l);
    }
  for (const auto& term : of) labels.push_back(term);
  save(folder, "g.json",
       Json{{"labels", labels}, {"sizes", std::vector<int>(120, 2)}, {"output", Json::array()}}
           .dump());
  const auto timed =
      run(folder, "contract --network g.json --plan-only --json --budget 1e8 --timeout 0.2");
  CAPTURE(timed.err);
  REQUIRE(timed.code == 0);
  const Json plan = event_of(timed.out, "plan");
  CHECK(plan["seconds"].get<double>() < 5);  // of a loaded machine under sanitizers
  const auto budget = plan["budget"].get<int64_t>();
  CHECK(budget >= 5000);
  const auto again = run(
      folder, "contract --network g.json --plan-only --json --budget " + std::to_string(budget));
  CHECK(event_of(again.out, "plan")["path"] == plan["path"]);
  const auto people =
      run(folder, "contract --network g.json --plan-only --budget 1e8 --timeout 0.2");
  check_has(people.err, "stopped for the timeout; --budget ");
  check_has(run(folder, "contract --network g.json --plan-only --timeout 0").err,
            "timeout: expected a number above 0");
}

TEST_CASE("an order as a picture and as a page") {
  const TempFolder folder;
  save(folder, "ring.json", ring());
  REQUIRE(run(folder, "contract --network ring.json --plan-only --svg t.svg --html t.html").code ==
          0);
  const std::string svg = slurp(folder / "t.svg"), page = slurp(folder / "t.html");
  const auto count = [](const std::string& text, const std::string& part) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
    return n;
  };
  CHECK(count(svg, "<circle") == 19);             // ten operands, nine steps
  CHECK(count(svg, "<path class=\"e") == 18);     // each but the result has a line
  CHECK(count(svg, "<path class=\"e w\"") == 1);  // the widest
  CHECK(count(svg, "</svg>") == 1);
  check_has(svg, "36 elements</text>");
  CHECK(has(page, svg.substr(0, svg.size() - 1)));
  CHECK(count(page, "<tr><td class=\"n\">") == 9);
  CHECK(!has(page, "<script"));
  const auto nowhere = run(folder, "contract --network ring.json --plan-only --svg no/t.svg");
  CHECK(nowhere.code != 0);
  check_has(nowhere.err, "no/t.svg");
  REQUIRE(run(folder, "contract --einsum i-\\>i --sizes i=3 --plan-only --svg one.svg").code == 0);
  CHECK(count(slurp(folder / "one.svg"), "<circle") == 1);
}

TEST_CASE("gradus tune --cost measures what a step costs; contract --cost plans by it") {
  const TempFolder folder;
  save(folder, "ring.json", ring());
  const auto tuned = run(folder, "tune --cost c.json --json --device cpu");
  CAPTURE(tuned.err);
  REQUIRE(tuned.code == 0);
  Json cost = Json::parse(slurp(folder / "c.json"));
  CHECK(cost["format"] == "gradus.cost/1");
  CHECK(cost["dtype"] == "f32");
  CHECK(event_of(tuned.out, "result")["cost"]["flops"] == cost["flops"]);
  for (const char* name : {"flops", "bytes", "overhead"}) CHECK(cost[name].get<double>() > 0);
  for (const char* name : {"half_k", "half_mn"}) CHECK(cost[name].get<double>() >= 0);

  const std::string ask = "contract --network ring.json --plan-only --budget 20000 --json ";
  const auto planned = run(folder, ask + "--cost c.json");
  CAPTURE(planned.err);
  REQUIRE(planned.code == 0);
  CHECK(event_of(run(folder, ask + "--cost c.json").out, "plan")["path"] ==
        event_of(planned.out, "plan")["path"]);

  cost["overhead"] = 1;  // a second for each of nine steps
  save(folder, "slow.json", cost.dump());
  const Json slow = event_of(run(folder, ask + "--cost slow.json").out, "plan");
  CHECK(slow["seconds_model"].get<double>() == doctest::Approx(9).epsilon(0.01));

  check_has(run(folder, "contract --network ring.json --plan-only --cost slow.json").err,
            " s by slow.json\n");
  // Also of an order that is given, and of one in slices.
  REQUIRE(run(folder, ask + "--plan-out p.json").code == 0);
  const auto seconds = [&](const std::string& arguments) {
    const auto r = run(folder, "contract --plan-only --json --cost slow.json " + arguments);
    CAPTURE(r.err);
    REQUIRE(r.code == 0);
    const Json plan = event_of(r.out, "plan");
    CHECK(plan["seconds_model"].get<double>() ==
          doctest::Approx(plan["steps"].size() * plan["slices"].get<double>()).epsilon(0.01));
    return plan["slices"].get<double>();
  };
  CHECK(seconds("--plan-in p.json") == 1);
  CHECK(
      seconds("--einsum 'abc,cde,efa,bdf->' --sizes a=12,b=12,c=12,d=12,e=12,f=12 --memory 64KiB") >
      1);
  check_has(run(folder, "tune c.json --dtype f64").err, "--dtype: belongs to --cost FILE");

  const auto other = run(folder, ask + "--cost c.json --dtype f64");
  CHECK(other.code == 2);
  check_has(other.err, "c.json: was measured for \"f32\", the contraction is f64");
  cost["flops"] = 0;
  save(folder, "bad.json", cost.dump());
  const auto bad = run(folder, ask + "--cost bad.json");
  CHECK(bad.code == 2);
  check_has(bad.err, "bad.json: flops: expected a number above 0, got 0");
  save(folder, "no.json", "{}");
  check_has(run(folder, ask + "--cost no.json").err, "as `gradus tune --cost FILE` writes it");
  const auto both = run(folder, "tune c.json --cost d.json");
  CHECK(both.code == 2);
  check_has(both.err, "measures the device alone; leave c.json out");
  check_has(run(folder, "tune").err, "needs a CONFIG file or --cost FILE");
}
