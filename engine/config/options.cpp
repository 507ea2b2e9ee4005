// Specs: how they are put together, and how they check a value. The schema and the documentation of
// the same specs are in option_text.cpp.
#include "engine/config/options.hpp"

#include "engine/files/file.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace gradus::inline v1 {
namespace {

Spec make(Spec::Type type, std::string doc) {
  Spec s;
  s.type = type;
  s.doc = std::move(doc);
  return s;
}

bool allows(const Spec& spec, const Json& value) {
  return spec.choices.empty() ||
         (value.is_string() && std::count(spec.choices.begin(), spec.choices.end(),
                                          value.get_ref<const std::string&>()) > 0);
}

// The members by which an alternative is recognised.
std::vector<const Spec*> tag_of(const Spec& object) {
  std::vector<const Spec*> tag;
  for (const Spec& m : object.parts)
    if (m.required && !m.choices.empty()) tag.push_back(&m);
  for (const Spec& m : object.parts)
    if (tag.empty() && m.required) tag.push_back(&m);
  return tag;
}

bool has_tag(const Spec& object, const Json& value) {
  for (const Spec* m : tag_of(object))
    if (!value.contains(m->key) || !allows(*m, value[m->key])) return false;
  return true;
}

// "learning_rate" -> "lr".
std::string initials(const std::string& key) {
  std::string s;
  for (size_t i = 0; i < key.size(); ++i)
    if (i == 0 || key[i - 1] == '_') s += key[i];
  return s;
}

// Calls f(path, key) for each key of the objects of a spec, those of the surface first.
template <class F>
void each_object_key(const Spec& spec, const std::string& path, F&& f) {
  for (const Spec& part : spec.parts)
    if (spec.type == Spec::Type::any_of)
      each_object_key(part, path, f);
    else if (spec.type == Spec::Type::object)
      f(path_key(path, part.key), part.key);
  for (const Spec& part : spec.parts)
    if (spec.type == Spec::Type::object) each_object_key(part, path_key(path, part.key), f);
}

// What the alternatives of a union would accept for a tag that they share, for messages.
struct TagChoices {
  std::string key;
  std::vector<std::string> names;
};

class Checker {
 public:
  Checker(const Origin& origin, ErrorKind kind) : origin_(origin), kind_(kind) {}

  Json value(const Spec& spec, const Json& v, const std::string& path) const {
    if (!fits_type(spec, v)) bad(path, "expected ", expectation(spec), ", got ", shown(v));
    switch (spec.type) {
      case Spec::Type::integer:
        return integer(spec, v, path);
      case Spec::Type::number:
        return number(spec, v, path);
      case Spec::Type::string:
        return string(spec, v, path);
      case Spec::Type::array:
        return array(spec, v, path);
      case Spec::Type::object:
        return object(spec, v, path);
      case Spec::Type::map:
        return map(spec, v, path);
      case Spec::Type::any_of:
        return any_of(spec, v, path);
      case Spec::Type::reference:
        return value(spec.target(), v, path);
      case Spec::Type::boolean:
        break;
    }
    return v;
  }

 private:
  template <class... P>
  [[noreturn]] void bad(const std::string& path, const P&... parts) const {
    fail(kind_, origin_(path), path, path.empty() ? "" : ": ", parts...);
  }

  void in_range(const Spec& spec, double x, const Json& v, const std::string& path) const {
    const bool low = spec.has_low && (spec.open_low ? !(x > spec.low) : !(x >= spec.low));
    const bool high = spec.has_high && (spec.open_high ? !(x < spec.high) : !(x <= spec.high));
    if (low || high) bad(path, "expected ", expectation(spec), ", got ", shown(v));
  }
  Json integer(const Spec& spec, const Json& v, const std::string& path) const {
    in_range(spec, v.get<double>(), v, path);
    if (v.is_number_float()) return int64_t(v.get<double>());
    if (v.is_number_unsigned() && v.get<uint64_t>() > uint64_t(INT64_MAX))
      bad(path, "expected a whole number below 2^63, got ", shown(v));
    return v;
  }
  Json number(const Spec& spec, const Json& v, const std::string& path) const {
    const double x = v.get<double>();
    if (!std::isfinite(x)) bad(path, "expected a finite number");
    in_range(spec, x, v, path);
    return v;
  }
  Json string(const Spec& spec, const Json& v, const std::string& path) const {
    const auto& s = v.get_ref<const std::string&>();
    const std::string complaint = spec.complaint ? spec.complaint(s) : "";
    if (!complaint.empty()) bad(path, complaint);
    if (!allows(spec, v))
      bad(path, "expected ", expectation(spec), ", got ", shown(v), did_you_mean(s, spec.choices));
    return v;
  }
  Json array(const Spec& spec, const Json& v, const std::string& path) const {
    if (v.size() < spec.min_length || v.size() > spec.max_length)
      bad(path, "expected ", expectation(spec), ", got ", v.size(), " elements");
    Json out = Json::array();
    for (size_t i = 0; i < v.size(); ++i)
      out.push_back(value(spec.parts[0], v[i], path_index(path, i)));
    return out;
  }
  Json map(const Spec& spec, const Json& v, const std::string& path) const {
    Json out = Json::object();
    for (const auto& [key, element] : v.items())
      out[key] = value(spec.parts[0], element, path_key(path, key));
    return out;
  }
  Json object(const Spec& spec, const Json& v, const std::string& path) const {
    Json out = Json::object();
    for (const auto& [key, element] : v.items()) {
      const Spec* m = spec.member(key);
      if (m)
        out[key] = value(*m, element, path_key(path, key));
      else if (!(path.empty() && key == "$schema"))
        unknown(spec.parts, key, path);
    }
    for (const Spec& m : spec.parts) {
      if (out.contains(m.key)) continue;
      if (m.required) bad(path, "key \"", m.key, "\" is missing: ", m.doc);
      if (!m.fallback.empty())
        out[m.key] = value(m, Json::parse(m.fallback), path_key(path, m.key));
    }
    return out;
  }
  [[noreturn]] void unknown(const std::vector<Spec>& members, const std::string& key,
                            const std::string& path) const {
    std::vector<std::string> known;
    for (const Spec& m : members) known.push_back(m.key);
    std::string hint = did_you_mean(key, known);
    if (hint.empty() && std::count(known.begin(), known.end(), initials(key)) > 0)
      hint = did_you_mean(initials(key), known);
    if (hint.empty())
      for (const Spec& m : members)
        if (const std::string at = path_of_key(Spec::object("").with(m.key, m), key); !at.empty())
          bad(path_key(path, key), "unknown key; did you mean \"", path_key(path, at), "\"?");
    if (hint.empty())
      for (const std::string& k : known) hint += (hint.empty() ? "; known are " : ", ") + k;
    bad(path_key(path, key), "unknown key", hint);
  }
  Json any_of(const Spec& spec, const Json& v, const std::string& path) const {
    if (const Spec* chosen = choose(spec, v)) return value(*chosen, v, path);
    // v is an object, and no alternative has its tag.
    std::vector<Spec> members;
    std::vector<std::string> forms;
    TagChoices tag;
    for (const Spec& s : spec.parts) {
      if (s.type != Spec::Type::object) continue;
      members.insert(members.end(), s.parts.begin(), s.parts.end());
      for (const Spec* m : tag_of(s)) {
        if (m->choices.empty()) forms.push_back(join("{\"", m->key, "\": ...}"));
        for (const std::string& name : m->choices)
          forms.push_back(join("{\"", m->key, "\": \"", name, "\"}"));
        if (!v.contains(m->key) || m->choices.empty()) continue;
        tag.key = m->key;
        tag.names.insert(tag.names.end(), m->choices.begin(), m->choices.end());
      }
    }
    if (!tag.key.empty())
      string(Spec::string("").one_of(tag.names), text(v, tag.key, path), path_key(path, tag.key));
    for (const auto& [key, element] : v.items())
      if (std::none_of(members.begin(), members.end(),
                       [&key = key](const Spec& m) { return m.key == key; }))
        unknown(members, key, path);
    bad(path, "expected one of ", list_text(forms), ", got ", shown(v));
  }
  const Json& text(const Json& v, const std::string& key, const std::string& path) const {
    if (!v[key].is_string()) bad(path_key(path, key), "expected a string, got ", shown(v[key]));
    return v[key];
  }

  const Origin& origin_;
  ErrorKind kind_;
};

}  // namespace

bool fits_type(const Spec& spec, const Json& value) {
  switch (spec.type) {
    case Spec::Type::boolean:
      return value.is_boolean();
    case Spec::Type::integer:
      return value.is_number_integer() ||
             (value.is_number_float() && std::abs(value.get<double>()) <= 0x1p53 &&
              std::trunc(value.get<double>()) == value.get<double>());
    case Spec::Type::number:
      return value.is_number();
    case Spec::Type::string:
      return value.is_string();
    case Spec::Type::array:
      return value.is_array();
    case Spec::Type::object:
    case Spec::Type::map:
      return value.is_object();
    case Spec::Type::reference:
      return fits_type(spec.target(), value);
    case Spec::Type::any_of:
      break;
  }
  return std::any_of(spec.parts.begin(), spec.parts.end(),
                     [&](const Spec& s) { return fits_type(s, value); });
}

Spec Spec::boolean(std::string doc) { return make(Type::boolean, std::move(doc)); }
Spec Spec::integer(std::string doc) { return make(Type::integer, std::move(doc)); }
Spec Spec::number(std::string doc) { return make(Type::number, std::move(doc)); }
Spec Spec::string(std::string doc) { return make(Type::string, std::move(doc)); }
Spec Spec::object(std::string doc) { return make(Type::object, std::move(doc)); }
Spec Spec::array(Spec element, std::string doc) {
  Spec s = make(Type::array, std::move(doc));
  s.parts.push_back(std::move(element));
  return s;
}
Spec Spec::map(Spec element, std::string doc) {
  Spec s = make(Type::map, std::move(doc));
  s.parts.push_back(std::move(element));
  return s;
}
Spec Spec::any_of(std::vector<Spec> alternatives, std::string doc) {
  Spec s = make(Type::any_of, std::move(doc));
  s.parts = std::move(alternatives);
  return s;
}
Spec Spec::reference(std::string name, std::function<const Spec&()> target) {
  Spec s = make(Type::reference, "");
  s.definition = std::move(name);
  s.target = std::move(target);
  return s;
}

namespace {
template <class F>
Spec changed(Spec s, F&& change) {
  change(s);
  return s;
}
}  // namespace

Spec Spec::with(std::string name, Spec value) const {
  value.key = std::move(name);
  value.required = true;
  return changed(*this, [&](Spec& s) { s.parts.push_back(std::move(value)); });
}
Spec Spec::maybe(std::string name, Spec value) const {
  value.key = std::move(name);
  return changed(*this, [&](Spec& s) { s.parts.push_back(std::move(value)); });
}
Spec Spec::otherwise(std::string json_text) const {
  return changed(*this, [&](Spec& s) { s.fallback = std::move(json_text); });
}
Spec Spec::at_least(double x) const {
  return changed(*this, [&](Spec& s) { s.low = x, s.has_low = true, s.open_low = false; });
}
Spec Spec::above(double x) const {
  return changed(*this, [&](Spec& s) { s.low = x, s.has_low = s.open_low = true; });
}
Spec Spec::at_most(double x) const {
  return changed(*this, [&](Spec& s) { s.high = x, s.has_high = true, s.open_high = false; });
}
Spec Spec::below(double x) const {
  return changed(*this, [&](Spec& s) { s.high = x, s.has_high = s.open_high = true; });
}
Spec Spec::one_of(std::vector<std::string> names) const {
  return changed(*this, [&](Spec& s) { s.choices = std::move(names); });
}
Spec Spec::length(size_t least, size_t most) const {
  return changed(*this, [&](Spec& s) { s.min_length = least, s.max_length = most; });
}
Spec Spec::matching(std::string regex,
                    std::function<std::string(const std::string&)> complain) const {
  return changed(*this, [&](Spec& s) {
    s.pattern = std::move(regex);
    s.complaint = std::move(complain);
  });
}
Spec Spec::short_for(std::string name) const {
  return changed(*this, [&](Spec& s) { s.short_key = std::move(name); });
}

const Spec* Spec::member(std::string_view name) const {
  for (const Spec& m : parts)
    if (type == Type::object && m.key == name) return &m;
  return nullptr;
}

const Spec* choose(const Spec& spec, const Json& value) {
  if (spec.type == Spec::Type::reference) return choose(spec.target(), value);
  if (spec.type != Spec::Type::any_of) return &spec;
  const Spec* only = nullptr;
  int fitting = 0;
  for (const Spec& s : spec.parts) {
    if (!fits_type(s, value)) continue;
    if (s.type != Spec::Type::object) return choose(s, value);
    if (has_tag(s, value)) return &s;
    only = &s;
    ++fitting;
  }
  // A single object alternative gives better messages than none.
  return fitting == 1 ? only : nullptr;
}

std::string path_of_key(const Spec& spec, std::string_view key) {
  std::string found, near;
  std::vector<std::string> keys;
  each_object_key(spec, "", [&](const std::string& path, const std::string& k) {
    keys.push_back(k);
    if (found.empty() && (k == key || k == initials(std::string(key)))) found = path;
  });
  if (!found.empty() || key.size() < 4) return found;
  each_object_key(spec, "", [&, best = nearest(key, keys)](const std::string& path, const auto& k) {
    if (near.empty() && !best.empty() && k == best) near = path;
  });
  return near;
}

Json check(const Spec& spec, const Json& value, const Origin& origin, ErrorKind kind) {
  return Checker(origin, kind).value(spec, value, "");
}

Json check(const Spec& spec, const Json& value, const std::string& file, ErrorKind kind) {
  return check(spec, value, Origin([&](const std::string&) { return file; }), kind);
}

Json read_json(const std::string& path, const Spec& spec) {
  return check(spec, parse_json(read_text(path), path, false, ErrorKind::io), path, ErrorKind::io);
}

}  // namespace gradus
