// What `gradus check --record` writes: every op, all kinds of case, random cases that differ from
// the row's, numbers that are the op's own. tests/peers/compare_torch.py holds it against PyTorch.
#include "gradus_paths.hpp"
#include "engine/config/options.hpp"
#include "ops/ops.hpp"
#include "ops/check/record.hpp"
#include "ops/check/rows.hpp"
#include "tests/helpers/io_helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sys/wait.h>

using namespace gradus;

namespace {

struct Recorded {
  Json ops, cases;
  std::map<std::string, Tensor> tensors;
  Tensor at(const Json& name) const { return tensors.at(name.get<std::string>()); }
};

Recorded record(const char* op, uint64_t seed = 1, int cases = 4) {
  const rows::Recording r = rows::record({op, seed, cases}, open_device("reference"));
  Recorded out{Json::parse(r.metadata.at("ops")), Json::parse(r.metadata.at("cases")), {}};
  for (const auto& entry : r.tensors) CHECK_MESSAGE(out.tensors.insert(entry).second, entry.first);
  return out;
}

std::vector<double> values(const Tensor& t) {
  std::vector<double> out;
  for (const auto& x : rows::download(t)) out.push_back(x.real());
  return out;
}

int exit_code(const std::string& command) {
  const int status = std::system((command + " >/dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("record: every op has row cases, and random ones unless it makes numbers from nothing") {
  if (!gradus::test::small_sizes()) CHECK(record("", 1, 0).ops.size() == all_ops().size());
  int number = 0;
  for (const OpInfo& op : all_ops()) {
    if (++number % 8 != 0 && gradus::test::small_sizes()) continue;
    std::map<std::string, int> kinds;
    for (const Json& c : record(op.name.c_str()).cases) {
      ++kinds[c["kind"]];
      // Drawn attributes may ask for factors that are not determined, which is refused in words.
      const std::string failed = c.value("failed", "");
      CHECK_MESSAGE((failed.empty() || failed.find("has no derivative: ") != failed.npos),
                    c.dump());
    }
    CHECK_MESSAGE(kinds["row"] > 0, op.name);
    if (rows::row_of(op.name).dtypes != 0) CHECK_MESSAGE(kinds["random"] >= 4, op.name);
  }
}

TEST_CASE("record: outputs, gradients, second order and jvp are those of the op") {
  const Recorded r = record("mul");
  int checked = 0;
  for (const Json& c : r.cases) {
    if (!c.contains("second") || c["in"][0].get<std::string>().ends_with(".c128")) continue;
    const Tensor a = r.at(c["in"][0]), b = r.at(c["in"][1]), w = r.at(c["w"][0]);
    CHECK(values(r.at(c["out"][0])) == values(mul(a, b)));
    CHECK(values(r.at(c["grads"][0])) == values(sum_to(mul(w, b), a.sizes())));
    // d/da of <u, (w b, w a)> is the part of the second entry.
    const Tensor second = sum_to(mul(w, r.at(c["u"][1])), a.sizes());
    CHECK(values(r.at(c["second"][0])) == values(second));
    CHECK(values(r.at(c["jvp"][0])) ==
          values(add(mul(b, r.at(c["v"][0])), mul(a, r.at(c["v"][1])))));
    ++checked;
  }
  CHECK(checked >= 8);
}

TEST_CASE("record: random cases rename extents consistently and leave the row behind") {
  const Recorded r = record("matmul", 3, 12);
  std::set<std::string> shapes, row;
  for (const Json& c : r.cases) {
    if (c["kind"] != "random" && c["kind"] != "row") continue;
    std::string shape;
    for (const Json& x : c["in"]) shape += to_text(r.at(x).sizes());
    (c["kind"] == "row" ? row : shapes).insert(shape);
  }
  for (const std::string& known : row) shapes.erase(known);
  CHECK(shapes.size() >= 6);
}

TEST_CASE("record: the same seed gives the same file, another one another") {
  auto bytes = [](uint64_t seed) {
    const rows::Recording r = rows::record({"cumsum", seed, 4}, open_device("cpu"));
    return safetensors_bytes(r.tensors, r.metadata, "recorded");
  };
  CHECK(bytes(1) == bytes(1));
  CHECK(bytes(1) != bytes(2));
}

TEST_CASE("record: refusals keep their message, numbers and non-finite attributes their form") {
  bool refused = false, number = false;
  for (const Json& c : record("add").cases) number = number || c["in"][0].is_number_float();
  for (const Json& c : record("silu").cases)
    refused = refused || (c.contains("refused") && !c.contains("out") &&
                          c["refused"].get<std::string>().starts_with("silu: "));
  CHECK(number);
  CHECK(refused);
}

TEST_CASE("record: ties and the edges of numbers are there, where an op has them") {
  auto kinds = [](const char* op) {
    std::set<std::string> all;
    for (const Json& c : record(op).cases) all.insert(c["kind"].get<std::string>());
    return all;
  };
  CHECK(kinds("amax").contains("ties"));
  CHECK(kinds("relu").contains("special"));
  CHECK_FALSE(kinds("sum").contains("ties"));
}

TEST_CASE("record: the program writes one file, and refuses with its exit codes") {
  const test::TempFolder folder;
  const std::string check = std::string(GRADUS_PROGRAM) + " check --record " + folder.path();
  CHECK(exit_code(check + "/a.safetensors --op mul --cases 2 --seed 7") == 0);
  const Safetensors file = read_safetensors(folder / "a.safetensors");
  const rows::Recording same = rows::record({"mul", 7, 2}, open_device("cpu"));
  CHECK(file.metadata == same.metadata);
  CHECK(file.tensors.size() == same.tensors.size());
  CHECK(exit_code(check + "/b.safetensors --op mull") == 2);
  CHECK(exit_code(check + "/b.safetensors --op mul --cases many") == 2);
  CHECK(exit_code(check + "/no/such/folder/b.safetensors --op mul") == 3);
}

TEST_CASE("record: the calls of a file, with views, numbers, constants and what is refused") {
  const test::TempFolder folder;
  const std::string file = folder / "calls.safetensors";
  auto given = [&](const char* calls) {
    const Tensor x = arange(0, 6, 1, DType::f64);
    write_safetensors(file, {{"x", x}, {"z.c128", reshape(x, {3, 2})}}, {{"calls", calls}});
    const rows::Recording r = rows::record_calls(file, open_device("cpu"));
    Recorded out{Json::array(), Json::parse(r.metadata.at("cases")), {}};
    for (const auto& entry : r.tensors) out.tensors.insert(entry);
    return out;
  };
  const Recorded r = given(R"([
    {"op": "mul", "slopes": true, "higher": true,
     "in": [{"tensor": "x", "size": [2, 2], "stride": [1, 2], "offset": 1},
            {"tensor": "x", "size": [2, 2], "stride": [0, 1], "offset": 4, "constant": true}]},
    {"op": "pow", "in": [{"tensor": "x"}, 2]},
    {"op": "clamp", "in": [{"tensor": "x"}], "attrs": {"min": 2, "max": {"number": "inf"}}},
    {"op": "real", "in": [{"tensor": "z.c128"}]},
    {"op": "matmul", "in": [{"tensor": "x"}, 2]},
    {"op": "sum", "in": [{"tensor": "x"}], "attrs": {"dim": "all"}}])");
  REQUIRE(r.cases.size() == 6);
  CHECK(r.cases[5]["refused"].get<std::string>().starts_with("sum: attribute dim"));
  CHECK(values(r.at(r.cases[0]["out"][0])) == std::vector<double>{4, 15, 8, 20});
  CHECK(values(r.at(r.cases[0]["second_w"][0])) ==
        values(mul(r.at(r.cases[0]["u"][0]), r.at(r.cases[0]["in"][1]))));
  CHECK(r.cases[0]["grads"][1].is_null());
  CHECK(values(r.at(r.cases[1]["out"][0])) == std::vector<double>{0, 1, 4, 9, 16, 25});
  CHECK(values(r.at(r.cases[2]["out"][0])) == std::vector<double>{2, 2, 2, 3, 4, 5});
  CHECK(values(r.at(r.cases[3]["out"][0])) == std::vector<double>{0, 2, 4});
  CHECK(r.cases[4]["refused"].get<std::string>().starts_with("matmul: "));
  for (const auto& [calls, said] : std::vector<std::pair<const char*, const char*>>{
           {R"([{"op": "neg", "in": [{"tensor": "y"}]}])", "there is no tensor \"y\""},
           {R"([{"op": "nag", "in": []}])", "neg"},
           {R"([{"op": "neg"}])", "in"},
           {R"([{"op": "neg", "in": [{"tensor": "x", "stride": [1]}]}])", "size"},
           {R"({"op": "neg"})", "calls.safetensors"}}) {
    std::string message;
    try {
      given(calls);
    } catch (const Error& e) {
      message = e.what();
    }
    CHECK_MESSAGE(message.find(said) != std::string::npos, message);
  }
}

TEST_CASE("compare_torch.py passes what is right and fails on one wrong number of any kind") {
  std::string python;
  for (const char* one : {"python3", "/usr/bin/python3"})
    if (python.empty() && exit_code(std::string(one) + " -c 'import torch'") == 0) python = one;
  if (python.empty()) {
    MESSAGE("PyTorch can't be imported: not run");
    return;
  }
  const test::TempFolder folder;
  const rows::Recording honest = rows::record({"mul", 1, 2}, open_device("cpu"));
  const std::string file = folder / "ops.safetensors";
  auto compare = [&](const rows::Recording& r) {
    write_safetensors(file, r.tensors, r.metadata);
    return exit_code(python +
                     " " GRADUS_SOURCE_DIR "/tests/peers/compare_torch.py --op mul --file " + file);
  };
  CHECK(compare(honest) == 0);
  const Json cases = Json::parse(honest.metadata.at("cases"));
  for (const char* what : {"out", "grads", "second", "second_w", "jvp"}) {
    rows::Recording wrong = honest;
    const auto c = std::find_if(cases.begin(), cases.end(),
                                [](const Json& one) { return one.contains("second"); });
    REQUIRE(c != cases.end());
    for (auto& [name, t] : wrong.tensors)
      if (name == (*c)[what][0]) t = add(t, 1e-6);
    CHECK_MESSAGE(compare(wrong) == 1, what);
  }
}
