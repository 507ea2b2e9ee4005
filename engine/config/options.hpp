// The option table. A Spec describes one value of a config: its type, range, default and one line
// of doc; objects nest. The same Spec checks a config, fills in its defaults, documents it and
// prints its JSON Schema (draft-07), so the four cannot differ. What an option does is none of this
// file's business.
#pragma once
#include "engine/files/json_text.hpp"

#include <functional>
#include <vector>

namespace gradus::inline v1 {

struct Spec {
  enum class Type { boolean, integer, number, string, array, object, map, any_of, reference };

  Type type = Type::boolean;
  std::string doc;
  std::string key;          // the name under which an object holds this value
  bool required = false;    // of a member of an object
  std::string fallback;     // JSON text of the default; "" for none
  std::vector<Spec> parts;  // members of an object, the element of an array or map, alternatives
  std::vector<std::string> choices;  // of a string; empty for any
  double low = 0, high = 0;
  bool has_low = false, has_high = false, open_low = false, open_high = false;
  size_t min_length = 0, max_length = SIZE_MAX;  // of an array
  std::string pattern;  // of a string, for the schema; `complaint` is the same rule as code
  std::function<std::string(const std::string&)> complaint;  // "" if the string is fine
  std::string short_key;                // of any_of: a scalar x stands for {short_key: x}
  std::function<const Spec&()> target;  // of a reference, whose name is `definition`
  std::string definition;

  static Spec boolean(std::string doc);
  static Spec integer(std::string doc);
  static Spec number(std::string doc);
  static Spec string(std::string doc);
  static Spec array(Spec element, std::string doc);
  static Spec object(std::string doc);
  // An object with free keys, all of whose values are alike.
  static Spec map(Spec element, std::string doc);
  // One of several. Alternatives of the same JSON type must be objects, told apart by their tag:
  // the required members that have choices, or else the first required member.
  static Spec any_of(std::vector<Spec> alternatives, std::string doc);
  // A spec that is looked up when it is needed, so that it may hold itself. The schema prints it
  // once, under its name.
  static Spec reference(std::string name, std::function<const Spec&()> target);

  Spec with(std::string name, Spec value) const;   // an object's required member
  Spec maybe(std::string name, Spec value) const;  // an optional one
  Spec otherwise(std::string json_text) const;     // the default
  Spec at_least(double x) const;
  Spec above(double x) const;
  Spec at_most(double x) const;
  Spec below(double x) const;
  Spec one_of(std::vector<std::string> names) const;
  Spec length(size_t least, size_t most = SIZE_MAX) const;
  Spec matching(std::string regex, std::function<std::string(const std::string&)> complain) const;
  Spec short_for(std::string name) const;

  const Spec* member(std::string_view name) const;  // nullptr if the object has none
  const Spec& resolved() const { return type == Type::reference ? target() : *this; }
};

// Where the value at a JSON path came from: a file, a variable, "--set x=y". "" is the root.
using Origin = std::function<std::string(const std::string& path)>;

// The value with all defaults filled in, or an Error "origin: path: what is wrong" of `kind`. A
// number with an integral value serves as an integer (1e3); "$schema" is allowed at the root.
Json check(const Spec& spec, const Json& value, const Origin& origin,
           ErrorKind kind = ErrorKind::config);
Json check(const Spec& spec, const Json& value, const std::string& file,
           ErrorKind kind = ErrorKind::config);

// The alternative of an any_of that a value means; nullptr if none does. Other specs are
// themselves.
const Spec* choose(const Spec& spec, const Json& value);

// Whether the JSON type of a value is one that the spec takes.
bool fits_type(const Spec& spec, const Json& value);

// JSON Schema draft-07 of a config.
Json json_schema(const Spec& spec, const std::string& title);
// One line per key for people: path, type, range, default, doc.
std::string describe(const Spec& spec);
// "a number above 0", "one of \"adam\", \"sgd\"": what a spec expects, in words.
std::string expectation(const Spec& spec);
// "a, b, c"; of a long list its beginning and how long it is.
std::string list_text(const std::vector<std::string>& words);

// Where in the objects of a spec a key stands, spelt so or nearly so: "lr" is at "optimizer.lr"; ""
// if nowhere. Looks into no array.
std::string path_of_key(const Spec& spec, std::string_view key);

// A file that gradus wrote, and anybody may have changed: each way in which it is not what the spec
// says is an Error(io) with file, place and cause.
Json read_json(const std::string& path, const Spec& spec);
// Bytes: a whole number, or text as "512MiB", "1.5GiB", "8 GB" (1024s with an i, 1000s without).
Spec byte_size_spec(std::string doc);
uint64_t byte_size(const Json& checked);
// Of text; `who` begins the Error(config).
uint64_t byte_size(const std::string& text, const std::string& who);

}  // namespace gradus
