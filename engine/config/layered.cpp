// Merging of config layers along a spec.
#include "engine/config/layered.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace gradus::inline v1 {

struct Layered::Step {
  std::string key;
  bool index;  // written as [n]
};

namespace {

// path itself, path.x or path[x].
bool is_under(const std::string& candidate, const std::string& path) {
  if (path.empty()) return true;
  return candidate.compare(0, path.size(), path) == 0 &&
         (candidate.size() == path.size() || candidate[path.size()] == '.' ||
          candidate[path.size()] == '[');
}

bool all_digits(const std::string& s) {
  return !s.empty() && s.size() < 10 &&
         std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The spec of a key or element below a value, as far as the value tells; nullptr if unknown.
const Spec* below(const Spec* spec, const Json& value, const std::string& key) {
  if (spec) spec = choose(*spec, value);
  if (!spec) return nullptr;
  if (spec->type == Spec::Type::array || spec->type == Spec::Type::map) return &spec->parts[0];
  return spec->member(key);
}

template <class F>
void each_leaf(const Json& v, const std::string& path, F&& f) {
  if (v.is_object() && !v.empty()) {
    for (const auto& [key, element] : v.items()) each_leaf(element, path_key(path, key), f);
  } else if (v.is_array() && !v.empty()) {
    for (size_t i = 0; i < v.size(); ++i) each_leaf(v[i], path_index(path, i), f);
  } else {
    f(path, v);
  }
}

// All specs that a value may have, unions opened.
void open_unions(const Spec& spec, std::vector<const Spec*>& out) {
  if (spec.type == Spec::Type::reference) return open_unions(spec.target(), out);
  if (spec.type != Spec::Type::any_of) {
    out.push_back(&spec);
    return;
  }
  for (const Spec& s : spec.parts) open_unions(s, out);
}

// Calls f(path) for each key below a spec that a variable can name, parents first.
template <class F>
void each_key(const Spec& spec, const std::string& path, F&& f) {
  std::vector<const Spec*> open;
  open_unions(spec, open);
  for (const Spec* s : open) {
    if (s->type != Spec::Type::object) continue;
    for (const Spec& m : s->parts) {
      f(path_key(path, m.key));
      each_key(m, path_key(path, m.key), f);
    }
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> leaves_of(const Json& value) {
  std::vector<std::pair<std::string, std::string>> out;
  each_leaf(value, "",
            [&](const std::string& path, const Json& v) { out.emplace_back(path, v.dump()); });
  return out;
}

Layered::Layered(Spec spec) : spec_(std::move(spec)), value_(new Json(Json::object())) {}
Layered::~Layered() = default;
Layered::Layered(Layered&&) noexcept = default;
Layered& Layered::operator=(Layered&&) noexcept = default;

const Json& Layered::merged() const { return *value_; }

void Layered::add_file(const std::string& path) { add_value(read_config(path), path); }

void Layered::add_value(const Json& value, const std::string& origin) {
  if (origins_.empty()) first_origin_ = origin;
  merge(&spec_, *value_, value, "", origin);
}

void Layered::add_environment(const std::string& prefix, const std::vector<std::string>& skip,
                              const std::vector<std::string>& inner) {
  std::vector<std::string> paths;
  each_key(spec_, "", [&](const std::string& path) {
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
  });
  for (const std::string& path : paths) {
    const std::string root = path.substr(0, path.find('.'));
    if (std::find(skip.begin(), skip.end(), root) != skip.end()) continue;
    if (std::find(inner.begin(), inner.end(), path) != inner.end()) continue;
    std::string name = prefix;
    for (const char c : path) {
      if (c == '.')
        name += "__";
      else
        name += c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
    }
    const char* text = std::getenv(name.c_str());
    if (text && *text) assign(path, text, name);
  }
}

void Layered::set(const std::string& assignment, const std::string& origin) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    fail(ErrorKind::config, origin, "\"", assignment, "\" is not of the form path=value");
  assign(assignment.substr(0, equals), assignment.substr(equals + 1), origin);
}

void Layered::assign(const std::string& path, const std::string& text, const std::string& origin) {
  std::vector<Step> steps;
  std::vector<const Spec*> specs;
  open_unions(spec_, specs);
  const auto malformed = [&] {
    fail(ErrorKind::config, origin, "\"", path, "\" is not a path; write a.b or a.b[0].c");
  };
  for (size_t at = 0; at < path.size();) {
    if (path[at] == '[') {
      const size_t end = path.find(']', at);
      if (end == std::string::npos || !all_digits(path.substr(at + 1, end - at - 1))) malformed();
      steps.push_back({path.substr(at + 1, end - at - 1), true});
      at = end + 1;
      if (at < path.size() && path[at] != '.' && path[at] != '[') malformed();
    } else {
      if (!steps.empty() && path[at] == '.') ++at;
      const size_t end = std::min(path.find_first_of(".[", at), path.size());
      if (end == at) malformed();
      steps.push_back({path.substr(at, end - at), false});
      at = end;
      if (at + 1 == path.size()) malformed();
    }
    std::vector<const Spec*> next;
    for (const Spec* s : specs) {
      const bool alike = s->type == Spec::Type::array || s->type == Spec::Type::map;
      const Spec* m = alike ? &s->parts[0] : s->member(steps.back().key);
      if (m) open_unions(*m, next);
    }
    specs = next;
  }
  const bool text_fits = std::any_of(specs.begin(), specs.end(),
                                     [](const Spec* s) { return s->type == Spec::Type::string; });
  Json value;
  try {
    value = parse_json(text, origin, false);
  } catch (const Error&) {
    // Broken JSON of an object or array deserves its own message; anything else is a bare string.
    if (!text_fits && !specs.empty() && (text[0] == '{' || text[0] == '[')) throw;
    value = text;
  }
  const bool fits =
      std::any_of(specs.begin(), specs.end(), [&](const Spec* s) { return fits_type(*s, value); });
  if (!fits && text_fits) value = text;
  assign_at(&spec_, *value_, steps, 0, value, "", origin);
}

void Layered::assign_at(const Spec* spec, Json& into, const std::vector<Step>& steps, size_t i,
                        const Json& value, const std::string& path, const std::string& origin) {
  const std::string& key = steps[i].key;
  const bool last = i + 1 == steps.size();
  if (into.is_array()) {
    if (!steps[i].index && !all_digits(key))
      fail(ErrorKind::config, origin, path_key(path, key), ": ", path, " is an array; write ", path,
           "[0]");
    const size_t n = std::stoul(key);
    if (n >= into.size())
      fail(ErrorKind::config, origin, path_index(path, n), ": the array has ", into.size(),
           " elements");
    const Spec* element = below(spec, into, key);
    if (last)
      merge(element, into[n], value, path_index(path, n), origin);
    else
      assign_at(element, into[n], steps, i + 1, value, path_index(path, n), origin);
    return;
  }
  if (steps[i].index)
    fail(ErrorKind::config, origin, path, "[", key, "]: ", path, " is not an array",
         into.is_null() ? " yet" : "");
  if (!last && into.is_object() && into.contains(key)) {
    assign_at(below(spec, into, key), into[key], steps, i + 1, value, path_key(path, key), origin);
    return;
  }
  Json patch = value;
  std::string place = path;
  for (size_t k = i; k < steps.size(); ++k) {
    if (steps[k].index)
      fail(ErrorKind::config, origin, place, "[", steps[k].key, "]: there is no array at ", place);
    place = path_key(place, steps[k].key);
  }
  for (size_t k = steps.size(); k-- > i;) patch = Json{{steps[k].key, patch}};
  merge(spec, into, patch, path, origin);
}

void Layered::merge(const Spec* spec, Json& into, const Json& patch, const std::string& path,
                    const std::string& origin) {
  if (spec) spec = &spec->resolved();
  const bool has_short = spec && !spec->short_key.empty();
  const auto is_scalar = [](const Json& v) { return v.is_primitive() && !v.is_null(); };
  if (has_short && into.is_object() && is_scalar(patch)) {
    merge(spec, into, Json{{spec->short_key, patch}}, path, origin);
    return;
  }
  if (!patch.is_object() || (patch.empty() && !into.is_object())) {
    replace(into, patch, path, origin);
    return;
  }
  if (has_short && is_scalar(into)) {
    const std::string before = origins_[path];
    replace(into, Json{{spec->short_key, into}}, path, before);
  }
  if (!into.is_object()) {
    forget(path);
    into = Json::object();
  }
  if (spec && spec->type == Spec::Type::any_of) {
    const Spec* now = choose(*spec, patch);
    if (now && now->type == Spec::Type::object && now != choose(*spec, into)) {
      Json kept = Json::object();
      for (const auto& [key, element] : into.items()) {
        if (now->member(key))
          kept[key] = element;
        else
          forget(path_key(path, key));
      }
      into = kept;
    }
  }
  for (const auto& [key, element] : patch.items()) {
    Json both = into;
    both[key] = element;
    merge(below(spec, both, key), into[key], element, path_key(path, key), origin);
  }
}

void Layered::replace(Json& into, const Json& value, const std::string& path,
                      const std::string& origin) {
  forget(path);
  const Json copy = value;
  into = copy;
  each_leaf(copy, path, [&](const std::string& leaf, const Json&) { origins_[leaf] = origin; });
}

void Layered::forget(const std::string& path) {
  std::erase_if(origins_, [&](const auto& entry) { return is_under(entry.first, path); });
}

std::string Layered::blame(const std::string& path) const {
  if (path.empty()) return first_origin_;
  for (auto it = origins_.lower_bound(path); it != origins_.end(); ++it) {
    if (it->first.compare(0, path.size(), path) != 0) break;
    if (is_under(it->first, path)) return it->second;
  }
  const size_t cut = path.find_last_of(".[");
  return blame(cut == std::string::npos ? std::string() : path.substr(0, cut));
}

Json Layered::resolve() const {
  return check(spec_, *value_, Origin([this](const std::string& path) { return blame(path); }));
}

std::vector<Layered::Leaf> Layered::leaves() const {
  std::vector<Leaf> out;
  for (const auto& [path, value] : leaves_of(resolve())) out.push_back({path, value, origin(path)});
  return out;
}

std::string Layered::origin(const std::string& path) const {
  for (auto it = origins_.lower_bound(path); it != origins_.end(); ++it) {
    if (it->first.compare(0, path.size(), path) != 0) break;
    if (is_under(it->first, path)) return it->second;
  }
  return "default";
}

}  // namespace gradus
