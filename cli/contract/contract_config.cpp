// The options of `gradus contract`: command line over environment over config, and their table.
#include "cli/contract/contract_config.hpp"

#include "cli/contract/contract.hpp"
#include "cli/contract/expression.hpp"
#include "cli/frame/parse.hpp"
#include "cli/frame/redirection.hpp"
#include "engine/config/device_config.hpp"
#include "engine/config/layered.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::cli {

namespace {

// "a=3,b=4" as an object.
Json sizes_json(const std::string& text) {
  Json sizes = Json::object();
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    const size_t equals = item.find('=');
    int64_t n = 0;
    const char* last = item.data() + item.size();
    if (equals == std::string::npos || equals == 0 ||
        std::from_chars(item.data() + equals + 1, last, n).ptr != last || equals + 1 == item.size())
      fail(ErrorKind::config, "--sizes", "\"", item, "\" is not of the form a=3");
    if (sizes.contains(item.substr(0, equals)))
      fail(ErrorKind::config, "--sizes", item.substr(0, equals), " is given twice");
    sizes[item.substr(0, equals)] = n;
    at = end + 1;
  }
  return sizes;
}

// A name of the list, or "mod P".
Spec algebra_spec() {
  std::string pattern = "^(mod [0-9]+";
  for (const std::string& name : algebra_names()) pattern += "|" + name;
  const auto complaint = [](const std::string& name) -> std::string {
    try {
      parse_algebra(name);
    } catch (const Error& e) {
      return e.message();
    }
    return "";
  };
  return Spec::string("sum and product: " + algebra_words())
      .matching(pattern + ")$", complaint)
      .otherwise("\"standard\"");
}

}  // namespace

Json resolve_contraction(const ContractOptions& o) {
  Layered layers(contraction_spec());
  layers.add_value({{"experiment", "contraction"}}, "command line");
  if (!o.config.empty()) layers.add_file(o.config);
  layers.add_environment("GRADUS_", {"device", "experiment"});
  const auto add = [&](const char* key, const Json& value, const char* option) {
    layers.add_value({{key, value}}, option);
  };
  if (o.einsum) refuse_cut_equation(*o.einsum);
  if (o.einsum) add("expression", *o.einsum, "--einsum");
  if (!o.network.empty()) add("network", o.network, "--network");
  if (!o.sizes.empty()) add("sizes", sizes_json(o.sizes), "--sizes");
  if (!o.dtype.empty()) add("dtype", dtype_name(parse_dtype(o.dtype)), "--dtype");
  if (!o.algebra.empty()) add("algebra", o.algebra, "--algebra");
  if (!o.path.empty() && o.path[0] == '[')
    add("path", {{"steps", parse_json(o.path, "--path")}}, "--path");
  else if (!o.path.empty())
    add("path", o.path, "--path");
  if (!o.plan_in.empty()) add("plan", o.plan_in, "--plan-in");
  if (!o.plan_cache.empty()) add("plan_cache", o.plan_cache, "--plan-cache");
  if (o.budget) add("budget", *o.budget, "--budget");
  if (o.timeout) add("timeout", *o.timeout, "--timeout");
  if (!o.cost.empty()) add("cost", o.cost, "--cost");
  if (!o.memory.empty()) add("memory_limit", o.memory, "--memory");
  if (o.verify) add("verify", true, "--verify");
  if (o.repeat) add("repeat", *o.repeat, "--repeat");
  if (o.seed) add("seed", *o.seed, "--seed");
  if (o.config.empty() && !o.einsum && o.network.empty() && o.plan_in.empty())
    fail(ErrorKind::config, "contract",
         "needs a config, --einsum \"ij,jk->ik\", --network FILE or --plan-in FILE");
  if (const Json kind =
          layers.merged().is_object() ? layers.merged().value("experiment", Json()) : Json();
      kind == "network" || kind == "mlp")
    fail(ErrorKind::config, o.config, "experiment: ", shown(kind), " is run by `gradus train ",
         o.config, "`");
  Json config = layers.resolve();
  refuse_unclear(config, o.config.empty() ? "contract" : o.config);
  return config;
}

PathOptions path_options(const Json& v, Algebra algebra) {
  PathOptions options;
  options.sum_alone = sums_alone(algebra);
  const std::string kind = v.is_string() ? v.get<std::string>() : v.value("kind", "auto");
  options.kind = parse_path_kind(kind);
  if (v.is_object() && v.contains("steps")) {
    options.kind = PathOptions::Kind::fixed;
    for (const Json& pair : v["steps"])
      options.path.emplace_back(pair[0].get<int>(), pair[1].get<int>());
  }
  return options;
}

Spec contraction_spec() {
  const Spec kind = Spec::string("how the order is found")
                        .one_of({path_kind_names().begin(), path_kind_names().end()});
  const Spec position = Spec::integer("position in the shrinking list").at_least(0);
  const Spec steps = Spec::array(Spec::array(position, "a pair").length(2, 2),
                                 "the order itself, as opt_einsum writes it: both operands leave "
                                 "the list, the result is appended");
  std::vector<std::string> dtypes;
  for (int32_t t = 0; t < GD_DTYPE_COUNT; ++t) dtypes.emplace_back(dtype_name(DType(t)));
  return Spec::object("one einsum: its plan, value, gradients, speed")
      .with("experiment", Spec::string("the kind of experiment").one_of({"contraction"}))
      .maybe("device", device_spec())
      .maybe("seed", Spec::integer("seed of drawn operands").at_least(0).otherwise("1"))
      .maybe("expression", Spec::string("einsum equation, as \"ab,bc->ac\""))
      .maybe("network", Spec::string("file of a network of labels instead, FILE or FILE#NAME"))
      .maybe("sizes", Spec::map(Spec::integer("extent").at_least(0), "extent of each label"))
      .maybe("dtype", Spec::string("dtype; by default that of the files, or f32").one_of(dtypes))
      .maybe("algebra", algebra_spec())
      .maybe(
          "path",
          Spec::any_of(
              {kind,
               Spec::object("the order of contraction").maybe("kind", kind).maybe("steps", steps)},
              "the order of contraction")
              .short_for("kind")
              .otherwise("\"auto\""))
      .maybe("budget",
             Spec::number("work of the search for an order, in units of about 1 us; by default a "
                          "tenth of the time that the contraction takes")
                 .at_least(1))
      .maybe("timeout",
             Spec::number("most seconds of the search; it says which budget finds its order again")
                 .above(0))
      .maybe("cost",
             Spec::string("file of what a step costs, as `gradus tune --cost` writes it: the order "
                          "of least time is searched for, not that of least products"))
      .maybe("plan",
             Spec::string("file of a plan, as --plan-out writes it: its order is taken, and its "
                          "expression where none is given"))
      .maybe("plan_cache", Spec::string("folder in which orders that were found are kept"))
      .maybe("memory_limit", byte_size_spec("most bytes of operands and intermediates"))
      .maybe("grad", Spec::boolean("computes gradients too").otherwise("false"))
      .maybe("verify", Spec::boolean("checks value and gradients").otherwise("false"))
      .maybe("repeat", Spec::integer("timed runs; the best counts").at_least(1).otherwise("1"));
}

}  // namespace gradus::cli
