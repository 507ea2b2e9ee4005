// The option table: messages, defaults, unions, the schema, and the layers of a config.
#include "engine/config/layered.hpp"
#include "engine/config/options.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace gradus;
using gradus::test::error_text;
using gradus::test::TempFolder;
using gradus::test::Variable;

namespace {

Spec sample() {
  const Spec lr = Spec::number("step size").above(0).otherwise("0.001");
  const Spec layer = Spec::any_of(
      {Spec::string("activation").one_of({"relu", "tanh"}),
       Spec::object("dense").with("linear", Spec::integer("width").at_least(1)),
       Spec::object("noise").with("dropout", Spec::number("rate").at_least(0).below(1))},
      "a layer");
  return Spec::object("a training run")
      .maybe("seed", Spec::integer("seed of all random streams").at_least(0).otherwise("1"))
      .maybe("title", Spec::string("a name"))
      .maybe("verify", Spec::boolean("check the gradient").otherwise("false"))
      .maybe("sizes", Spec::map(Spec::integer("extent").at_least(0), "extents"))
      .maybe("layers", Spec::array(layer, "the model").length(1))
      .maybe("optimizer",
             Spec::any_of({Spec::object("Adam")
                               .with("name", Spec::string("Adam").one_of({"adam"}))
                               .maybe("lr", lr)
                               .maybe("betas", Spec::array(Spec::number("decay"), "").length(2, 2)),
                           Spec::object("SGD")
                               .with("name", Spec::string("SGD").one_of({"sgd"}))
                               .maybe("lr", lr)
                               .maybe("momentum", Spec::number("").at_least(0).otherwise("0"))},
                          "the optimiser")
                 .short_for("name"))
      .maybe("data", Spec::any_of(
                         {Spec::object("drawn")
                              .with("name", Spec::string("set").one_of({"digits"}))
                              .maybe("train", Spec::integer("count").at_least(1).otherwise("6000")),
                          Spec::object("files").with("idx", Spec::string("folder"))},
                         "the data"))
      .maybe("memory_limit", byte_size_spec("hard limit"));
}

std::string refusal(const char* text) {
  return error_text(ErrorKind::config,
                    [&] { check(sample(), parse_json(text, "x.json"), "x.json"); });
}

}  // namespace

TEST_CASE("options: each mistake is told with file, path, expected and got") {
  CHECK(refusal("{}") == "no error");
  CHECK(refusal(R"({"sed": 1})") == "x.json: sed: unknown key; did you mean \"seed\"?");
  CHECK(refusal(R"({"optimizer": {"name": "adam", "weight": 1}})") ==
        "x.json: optimizer.weight: unknown key; known are name, lr, betas");
  CHECK(refusal(R"({"optimizer": {"name": "adam", "learning_rate": 1}})") ==
        "x.json: optimizer.learning_rate: unknown key; did you mean \"lr\"?");
  CHECK(refusal(R"({"seed": "one"})") ==
        "x.json: seed: expected a whole number from 0 up, got \"one\"");
  CHECK(refusal(R"({"seed": 1.5})") == "x.json: seed: expected a whole number from 0 up, got 1.5");
  CHECK(refusal(R"({"seed": -1})") == "x.json: seed: expected a whole number from 0 up, got -1");
  CHECK(refusal(R"({"seed": 18446744073709551615})").find("below 2^63") != std::string::npos);
  CHECK(refusal(R"({"verify": 1})") == "x.json: verify: expected true or false, got 1");
  CHECK(refusal(R"({"optimizer": {"name": "adam", "lr": 0}})") ==
        "x.json: optimizer.lr: expected a number above 0, got 0");
  CHECK(refusal(R"({"layers": [{"linear": 3}, {"dropout": 1}]})") ==
        "x.json: layers[1].dropout: expected a number from 0 and below 1, got 1");
  CHECK(refusal(R"({"layers": []})") ==
        "x.json: layers: expected an array of at least 1 elements, got 0 elements");
  CHECK(refusal(R"({"sizes": {"a": "b"}})") ==
        "x.json: sizes.a: expected a whole number from 0 up, got \"b\"");
  CHECK(refusal("[]") == "x.json: expected an object, got an empty array");
  CHECK(refusal(R"({"memory_limit": "8 giga"})") ==
        "x.json: memory_limit: expected bytes as \"512MiB\" or \"8GiB\", got \"8 giga\"");
}

TEST_CASE("options: unions say what would have fitted") {
  CHECK(refusal(R"({"layers": ["rellu"]})") ==
        "x.json: layers[0]: expected one of \"relu\", \"tanh\", got \"rellu\"; did you mean "
        "\"relu\"?");
  CHECK(refusal(R"({"layers": [{"liner": 3}]})") ==
        "x.json: layers[0].liner: unknown key; did you mean \"linear\"?");
  CHECK(refusal(R"({"layers": [{}]})") ==
        "x.json: layers[0]: expected one of {\"linear\": ...}, {\"dropout\": ...}, got an empty "
        "object");
  CHECK(refusal(R"({"layers": [3]})") ==
        "x.json: layers[0]: expected one of \"relu\", \"tanh\", {\"linear\": ...} or {\"dropout\": "
        "...}, got 3");
  CHECK(refusal(R"({"optimizer": {"name": "adma"}})") ==
        "x.json: optimizer.name: expected one of \"adam\", \"sgd\", got \"adma\"; did you mean "
        "\"adam\"?");
  CHECK(refusal(R"({"optimizer": {"name": 3}})") ==
        "x.json: optimizer.name: expected a string, got 3");
  CHECK(refusal(R"({"data": {"idx": 3}})") == "x.json: data.idx: expected a string, got 3");
  CHECK(refusal(R"({"data": {"name": "digits", "idx": "d"}})") ==
        "x.json: data.idx: unknown key; known are name, train");
}

TEST_CASE("options: defaults are filled in, along the alternative that was chosen") {
  const Json j = check(sample(),
                       parse_json(R"({"$schema": "s", "seed": 1e3, "data": {"name": "digits"},
                                      "optimizer": {"name": "sgd"}})",
                                  "x"),
                       "x");
  CHECK(j.dump() == R"({"data":{"name":"digits","train":6000},"optimizer":{"lr":0.001,)"
                    R"("momentum":0,"name":"sgd"},"seed":1000,"verify":false})");
}

TEST_CASE("options: text that is not JSON") {
  const auto says = [](const std::string& text) {
    return error_text(ErrorKind::config, [&] { parse_json(text, "x.json"); });
  };
  CHECK(says("{\"a\": 1, // a comment\n /* another */ \"b\": 2}") == "no error");
  CHECK(says("{\n  \"a\": 1,\n}") ==
        "x.json: line 3, column 1: a comma before the closing bracket is not JSON");
  CHECK(says("{\n  \"a\": x}").find("x.json: line 2, column 8: ") == 0);
  CHECK(says("") == "x.json: line 1, column 1: no JSON here: the text is empty");
  CHECK(says(R"({"a": {"b": [0, {"c": 1, "c": 2}]}})") == "x.json: a.b[1].c: duplicate key");
  CHECK(says(R"({"a": 1e400})").find("not a finite double") != std::string::npos);
  CHECK(says("{\"a\": NaN}") != "no error");
  CHECK(says(std::string(200, '[')) == "x.json: nested deeper than 100 levels");
  CHECK(error_text(ErrorKind::io, [] { parse_json("{/**/}", "x", false, ErrorKind::io); }) !=
        "no error");
}

TEST_CASE("options: sizes in bytes") {
  CHECK(byte_size("8GiB", "--memory") == uint64_t(8) << 30);
  CHECK(byte_size("512 MiB", "--memory") == uint64_t(512) << 20);
  CHECK(byte_size("1.5KB", "x") == 1500);
  CHECK(byte_size("77", "x") == 77);
  CHECK(byte_size(Json(12)) == 12);
  CHECK(byte_size(Json("2KiB")) == 2048);
  for (const char* bad :
       {"", "GiB", "-1", "8G", "8Gi", "1e9", "8 GiB ", "inf", "nan", "8iB", "5 ", "1.5kB"})
    CHECK(error_text(ErrorKind::config, [&] {
            byte_size(bad, "--memory");
          }).find("--memory: expected bytes") == 0);
  CHECK(error_text(ErrorKind::config, [&] { byte_size("99999999TiB", "m"); }) ==
        "m: \"99999999TiB\" is more than any machine has");
}

TEST_CASE("options: the schema and the documentation come from the same table") {
  const Json s = json_schema(sample(), "gradus config");
  CHECK(s["$schema"] == "http://json-schema.org/draft-07/schema#");
  CHECK(s["additionalProperties"] == false);
  CHECK(s["properties"]["seed"]["minimum"] == 0);
  CHECK(s["properties"]["seed"]["default"] == 1);
  CHECK(s["properties"]["optimizer"]["anyOf"][0]["properties"]["lr"]["exclusiveMinimum"] == 0.0);
  CHECK(s["properties"]["optimizer"]["anyOf"][0]["required"] == Json{"name"});
  CHECK(s["properties"]["layers"]["minItems"] == 1);
  CHECK(s["properties"]["layers"]["items"]["anyOf"][0]["enum"] == Json{"relu", "tanh"});
  CHECK(s["properties"]["sizes"]["additionalProperties"]["type"] == "integer");
  const std::string text = describe(sample());
  CHECK(text.find("seed: a whole number from 0 up, default 1 - seed of all random streams\n") !=
        std::string::npos);
  CHECK(text.find("layers[].dropout: a number from 0 and below 1, required - rate\n") !=
        std::string::npos);
}

TEST_CASE("layers: the command line wins over the environment over the file over defaults") {
  const TempFolder folder;
  const std::string file = folder.write(
      "c.json", R"({"seed": 2, "title": "t", "optimizer": {"name": "adam", "lr": 0.5}})");
  const Variable seed("GRADUS_SEED", "3"), lr("GRADUS_OPTIMIZER__LR", "0.25");
  Layered config(sample());
  config.add_file(file);
  config.add_environment("GRADUS_");
  config.set("seed=4");
  std::string shown;
  for (const auto& leaf : config.leaves())
    shown +=
        leaf.path + "=" + leaf.value + " " + (leaf.origin == file ? "file" : leaf.origin) + "\n";
  CHECK(shown ==
        "optimizer.lr=0.25 GRADUS_OPTIMIZER__LR\noptimizer.name=\"adam\" file\n"
        "seed=4 --set\ntitle=\"t\" file\nverify=false default\n");
  const Variable whole("GRADUS_OPTIMIZER", "nonsense");
  Layered skipping(sample());
  skipping.add_environment("GRADUS_", {"seed"}, {"optimizer"});
  CHECK(!skipping.merged().contains("seed"));
  CHECK(skipping.merged()["optimizer"]["lr"] == 0.25);
}

TEST_CASE("layers: --set reaches into objects, arrays and unions") {
  const auto with = [](const char* base, std::initializer_list<const char*> sets) {
    Layered config(sample());
    config.add_value(parse_json(base, "c.json"), "c.json");
    for (const char* s : sets) config.set(s);
    config.resolve();
    return config.merged().dump();
  };
  const char* digits = R"({"data": {"name": "digits", "train": 9}})";
  CHECK(with(digits, {"data.idx=../x"}) == R"({"data":{"idx":"../x"}})");
  CHECK(with(digits, {"data={\"idx\": \"y\"}"}) == R"({"data":{"idx":"y"}})");
  CHECK(with(digits, {"data.idx=x", "data.name=digits"}) == R"({"data":{"name":"digits"}})");
  CHECK(with(digits, {"data.train=5"}) == R"({"data":{"name":"digits","train":5}})");
  const char* adam = R"({"optimizer": {"name": "adam", "lr": 0.5, "betas": [0.9, 0.99]}})";
  CHECK(with(adam, {"optimizer.name=sgd"}) == R"({"optimizer":{"lr":0.5,"name":"sgd"}})");
  CHECK(with(adam, {"optimizer=sgd"}) == R"({"optimizer":{"lr":0.5,"name":"sgd"}})");
  CHECK(with(adam, {"optimizer.betas[1]=0.9"}) ==
        R"({"optimizer":{"betas":[0.9,0.9],"lr":0.5,"name":"adam"}})");
  const char* layers = R"({"layers": [{"linear": 128}, "relu"]})";
  CHECK(with(layers, {"layers[0].linear=64"}) == R"({"layers":[{"linear":64},"relu"]})");
  CHECK(with(layers, {"layers.0.linear=64"}) == R"({"layers":[{"linear":64},"relu"]})");
  CHECK(with(layers, {"layers[1].dropout=0.5"}) ==
        R"({"layers":[{"linear":128},{"dropout":0.5}]})");
  CHECK(with(layers, {"layers=[\"tanh\"]"}) == R"({"layers":["tanh"]})");
  CHECK(with("{}", {"sizes.i=3", "sizes.j=4"}) == R"({"sizes":{"i":3,"j":4}})");
  CHECK(with("{}", {"title=7"}) == R"({"title":"7"})");
  CHECK(with("{}", {"title=a=b c"}) == R"({"title":"a=b c"})");
}

TEST_CASE("layers: an error names the layer that caused it") {
  const auto says = [](std::initializer_list<const char*> sets) {
    return error_text(ErrorKind::config, [&] {
      Layered config(sample());
      config.add_value(parse_json(R"({"layers": [{"linear": 1}], "seed": 0})", "c.json"), "c.json");
      for (const char* s : sets) config.set(s);
      config.resolve();
    });
  };
  CHECK(says({"seed=x"}) == "--set: seed: expected a whole number from 0 up, got \"x\"");
  CHECK(says({"seed=nan"}) == "--set: seed: expected a whole number from 0 up, got \"nan\"");
  CHECK(says({"layers[0].linear=0"}) ==
        "--set: layers[0].linear: expected a whole number from 1 up, got 0");
  CHECK(says({"sede=1"}) == "--set: sede: unknown key; did you mean \"seed\"?");
  CHECK(says({"optimizer.lr=1"}).find("--set: optimizer: expected one of") == 0);
  CHECK(says({"layers[3].linear=1"}) == "--set: layers[3]: the array has 1 elements");
  CHECK(says({"layers.x=1"}) == "--set: layers.x: layers is an array; write layers[0]");
  CHECK(says({"seed[0]=1"}) == "--set: seed[0]: seed is not an array");
  CHECK(says({"seed"}) == "--set: \"seed\" is not of the form path=value");
  CHECK(says({"a..b=1"}) == "--set: \"a..b\" is not a path; write a.b or a.b[0].c");
  CHECK(says({"sizes={\"a\": }"}).find("--set: line 1, column 7: ") == 0);
}
