// JSON text as people and files have it: parsed with the checks that nlohmann/json leaves out, and
// values as messages show them. Knows no option.
#pragma once
#include "engine/base/error.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gradus::inline v1 {

using Json = nlohmann::json;

// Parses JSON text. Duplicate keys, numbers beyond double, nesting deeper than 100 and syntax
// errors (with line and column) are errors of `kind` that begin with the file's name.
Json parse_json(std::string_view text, const std::string& file, bool comments = true,
                ErrorKind kind = ErrorKind::config);
// A config that a person wrote: read_text, then parse_json.
Json read_config(const std::string& path);
// A short form of a value for messages: "abc", 3, an object.
std::string shown(const Json& value);

// "a.b", "a[3]": a path one step longer.
std::string path_key(const std::string& path, std::string_view key);
std::string path_index(const std::string& path, size_t index);

}  // namespace gradus
