// `gradus config show|schema|validate`: the merged config with the origin of each value, the JSON
// Schema of configs, and a check of a config file without running it.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

struct ConfigOptions {
  enum class Action { show, schema, validate };
  Action action = Action::show;
  std::string file;  // of show and validate
  std::string kind;  // of schema: "experiment", "network", "contraction" or "device"
  std::vector<std::string> set;
  bool json = false;
};

int run_config(const ConfigOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
