// Specs as text: what a value is expected to be, one line per key for people, JSON Schema for
// editors.
#include "engine/config/options.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

namespace gradus::inline v1 {
namespace {

constexpr size_t kLongList = 16, kShownOfLong = 4;

std::string quoted_list(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& n : names) quoted.push_back("\"" + n + "\"");
  return list_text(quoted);
}

std::string range_text(const Spec& spec) {
  std::string s;
  if (spec.has_low) s += join(spec.open_low ? " above " : " from ", spec.low);
  if (spec.has_low && spec.has_high && spec.open_low != spec.open_high) s += " and";
  if (spec.has_high)
    s += join(spec.open_high                   ? " below "
              : spec.has_low && !spec.open_low ? " to "
                                               : " up to ",
              spec.high);
  if (spec.has_low && !spec.has_high && !spec.open_low) s += " up";
  return s;
}

// `definitions` collects what references point to.
Json schema_of(const Spec& spec, Json& definitions);

void add_range(Json& out, const Spec& spec) {
  const auto put = [&](const char* key, double x) {
    if (spec.type == Spec::Type::integer && x > -0x1p53 && x < 0x1p53)
      out[key] = int64_t(x);
    else
      out[key] = x;
  };
  if (spec.has_low) put(spec.open_low ? "exclusiveMinimum" : "minimum", spec.low);
  if (spec.has_high) put(spec.open_high ? "exclusiveMaximum" : "maximum", spec.high);
}

void add_members(Json& out, const Spec& spec, Json& definitions) {
  out["additionalProperties"] = false;
  out["properties"] = Json::object();
  for (const Spec& m : spec.parts) {
    out["properties"][m.key] = schema_of(m, definitions);
    if (m.required) out["required"].push_back(m.key);
  }
}

Json schema_of(const Spec& spec, Json& definitions) {
  constexpr const char* types[] = {"boolean", "integer", "number", "string",
                                   "array",   "object",  "object"};
  Json out = Json::object();
  if (spec.type == Spec::Type::reference) {
    out["$ref"] = "#/definitions/" + spec.definition;
    if (definitions.contains(spec.definition)) return out;
    definitions[spec.definition] = Json::object();  // so that it may hold itself
    const Json schema = schema_of(spec.target(), definitions);
    definitions[spec.definition] = schema;
    return out;
  }
  if (!spec.doc.empty()) out["description"] = spec.doc;
  if (!spec.fallback.empty()) out["default"] = Json::parse(spec.fallback);
  if (spec.type == Spec::Type::any_of) {
    for (const Spec& s : spec.parts) out["anyOf"].push_back(schema_of(s, definitions));
    return out;
  }
  out["type"] = types[size_t(spec.type)];
  if (!spec.choices.empty()) out["enum"] = spec.choices;
  if (!spec.pattern.empty()) out["pattern"] = spec.pattern;
  add_range(out, spec);
  if (spec.type == Spec::Type::object) add_members(out, spec, definitions);
  if (spec.type == Spec::Type::map)
    out["additionalProperties"] = schema_of(spec.parts[0], definitions);
  if (spec.type == Spec::Type::array) {
    out["items"] = schema_of(spec.parts[0], definitions);
    if (spec.min_length > 0) out["minItems"] = spec.min_length;
    if (spec.max_length < SIZE_MAX) out["maxItems"] = spec.max_length;
  }
  return out;
}

void describe_at(std::string& out, const Spec& spec, const std::string& path) {
  if (!path.empty()) {
    out += path + ": " + expectation(spec);
    if (!spec.fallback.empty()) out += ", default " + spec.fallback;
    if (spec.required) out += ", required";
    if (!spec.doc.empty()) out += " - " + spec.doc;
    out += "\n";
  }
  switch (spec.type) {
    case Spec::Type::object:
      for (const Spec& m : spec.parts) describe_at(out, m, path_key(path, m.key));
      break;
    case Spec::Type::array:
      describe_at(out, spec.parts[0], path + "[]");
      break;
    case Spec::Type::map:
      describe_at(out, spec.parts[0], path_key(path, "*"));
      break;
    case Spec::Type::any_of:
      for (const Spec& s : spec.parts) {
        if (s.type != Spec::Type::object) continue;
        for (const Spec& m : s.parts) describe_at(out, m, path_key(path, m.key));
      }
      break;
    default:
      break;
  }
}

// Bytes of a size text, or -1 if it is none.
double size_or_minus_one(const std::string& text) {
  double x = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), x, std::chars_format::fixed);
  // "inf" and "nan" are numbers to from_chars.
  if (error != std::errc() || text[0] < '0' || text[0] > '9') return -1;
  std::string unit(end, text.data() + text.size());
  if (!unit.empty() && unit[0] == ' ') unit.erase(0, 1);
  if (unit.empty() || unit == "B") return unit.empty() && text.back() == ' ' ? -1 : x;
  const size_t power = std::string("KMGT").find(unit[0]);
  const bool binary = unit.size() == 3 && unit[1] == 'i';
  if (power == std::string::npos || unit.back() != 'B' || unit.size() != (binary ? 3 : 2))
    return -1;
  for (size_t i = 0; i <= power; ++i) x *= binary ? 1024 : 1000;
  return x;
}

std::string size_complaint(const std::string& text) {
  const double x = size_or_minus_one(text);
  if (x < 0) return "expected bytes as \"512MiB\" or \"8GiB\", got \"" + text + "\"";
  return x < 0x1p62 ? "" : "\"" + text + "\" is more than any machine has";
}

}  // namespace

Spec byte_size_spec(std::string doc) {
  return Spec::any_of(
      {Spec::integer("bytes").at_least(0).below(0x1p62),
       Spec::string("size").matching("^[0-9]+([.][0-9]+)? ?([KMGT]i?B|B)?$", size_complaint)},
      std::move(doc));
}

uint64_t byte_size(const Json& checked) {
  return checked.is_string() ? byte_size(checked.get<std::string>(), "size")
                             : checked.get<uint64_t>();
}

uint64_t byte_size(const std::string& text, const std::string& who) {
  const std::string complaint = size_complaint(text);
  if (!complaint.empty()) fail(ErrorKind::config, who, complaint);
  return uint64_t(size_or_minus_one(text));
}

std::string list_text(const std::vector<std::string>& words) {
  const bool is_long = words.size() > kLongList;
  std::string s;
  for (size_t i = 0; i < (is_long ? kShownOfLong : words.size()); ++i)
    s += (i == 0 ? "" : ", ") + words[i];
  return is_long ? s + join(", ... (", words.size(), " in all)") : s;
}

std::string expectation(const Spec& spec) {
  switch (spec.type) {
    case Spec::Type::boolean:
      return "true or false";
    case Spec::Type::integer:
      return "a whole number" + range_text(spec);
    case Spec::Type::number:
      return "a number" + range_text(spec);
    case Spec::Type::string:
      if (spec.choices.empty()) return "a string";
      return (spec.choices.size() > 1 ? "one of " : "") + quoted_list(spec.choices);
    case Spec::Type::array: {
      std::string s = "an array";
      if (spec.min_length == spec.max_length) return s + join(" of ", spec.min_length, " elements");
      if (spec.min_length > 0) s += join(" of at least ", spec.min_length, " elements");
      if (spec.max_length < SIZE_MAX) s += join(" of at most ", spec.max_length, " elements");
      return s;
    }
    case Spec::Type::object:
      for (const Spec& m : spec.parts)
        if (m.required)
          return "{\"" + m.key + "\": " + (m.choices.empty() ? "..." : quoted_list(m.choices)) +
                 (spec.parts.size() > 1 ? ", ...}" : "}");
      return "an object";
    case Spec::Type::map:
      return "an object";
    case Spec::Type::reference:
      return expectation(spec.target());
    case Spec::Type::any_of:
      break;
  }
  if (spec.parts.size() > kLongList && !spec.doc.empty()) return spec.doc;
  std::string s;
  for (size_t i = 0; i < spec.parts.size(); ++i)
    s += (i == 0 ? "" : i + 1 == spec.parts.size() ? " or " : ", ") + expectation(spec.parts[i]);
  return s;
}

Json json_schema(const Spec& spec, const std::string& title) {
  Json definitions = Json::object();
  Json out = schema_of(spec, definitions);
  if (!definitions.empty()) out["definitions"] = definitions;
  out["$schema"] = "http://json-schema.org/draft-07/schema#";
  out["title"] = title;
  const auto allow = [](Json& s) {
    if (s.contains("properties")) s["properties"]["$schema"] = {{"type", "string"}};
  };
  allow(out);
  if (out.contains("anyOf"))
    for (Json& s : out["anyOf"]) allow(s);
  return out;
}

std::string describe(const Spec& spec) {
  std::string out;
  describe_at(out, spec, "");
  return out;
}

}  // namespace gradus
