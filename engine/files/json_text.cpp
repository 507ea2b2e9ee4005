// Duplicate keys, depth, and messages that name file, line and column.
#include "engine/files/json_text.hpp"

#include "engine/files/file.hpp"

#include <nlohmann/json.hpp>
#include <set>

namespace gradus::inline v1 {
namespace {

constexpr size_t kMaxDepth = 100;

// Follows the parser and keeps, for each open object or array, the keys seen and the place reached.
class Watcher {
 public:
  Watcher(const std::string& file, ErrorKind kind) : file_(file), kind_(kind) {}

  bool operator()(Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    switch (event) {
      case Event::key:
        key(parsed.get_ref<const std::string&>());
        break;
      case Event::value:
        step();
        break;
      case Event::object_start:
      case Event::array_start:
        step();
        if (levels_.size() >= kMaxDepth)
          fail(kind_, file_, "nested deeper than ", kMaxDepth, " levels");
        levels_.push_back({event == Event::array_start, 0, {}, {}});
        break;
      case Event::object_end:
      case Event::array_end:
        levels_.pop_back();
        break;
    }
    return true;
  }

 private:
  struct Level {
    bool array;
    size_t count;  // elements of an array begun so far
    std::string key;
    std::set<std::string> keys;
  };
  void step() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().count;
  }
  void key(const std::string& name) {
    Level& level = levels_.back();
    level.key = name;
    if (level.keys.insert(name).second) return;
    std::string path;
    for (const Level& l : levels_)
      path = l.array ? path_index(path, l.count - 1) : path_key(path, l.key);
    fail(kind_, file_, path, ": duplicate key");
  }

  const std::string& file_;
  ErrorKind kind_;
  std::vector<Level> levels_;
};

struct LineColumn {
  size_t line = 1, column = 1;
};
// Of the byte with this number; bytes are counted from 1.
LineColumn line_column_of(std::string_view text, size_t byte) {
  LineColumn p;
  for (size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    ++p.column;
    if (text[i] == '\n') p = {p.line + 1, 1};
  }
  return p;
}

bool after_comma(std::string_view text, size_t byte) {
  if (byte == 0 || byte > text.size() || (text[byte - 1] != '}' && text[byte - 1] != ']'))
    return false;
  size_t i = byte - 1;
  while (i > 0 && std::string_view(" \t\r\n").find(text[i - 1]) != std::string_view::npos) --i;
  return i > 0 && text[i - 1] == ',';
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
// value
//  - invalid literal; last read: 'x'" -> "invalid literal; last read: 'x'"
std::string reason(const std::string& what) {
  const size_t dash = what.find(" - ");
  if (dash != std::string::npos) return what.substr(dash + 3);
  const size_t bracket = what.find("] ");
  return bracket == std::string::npos ? what : what.substr(bracket + 2);
}

}  // namespace

Json parse_json(std::string_view text, const std::string& file, bool comments, ErrorKind kind) {
  try {
    Watcher watcher(file, kind);
    return Json::parse(
        text, [&](int, Json::parse_event_t event, Json& parsed) { return watcher(event, parsed); },
        true, comments);
  } catch (const Json::parse_error& e) {
    const LineColumn at = line_column_of(text, e.byte);
    fail(kind, file, "line ", at.line, ", column ", at.column, ": ",
         text.find_first_not_of(" \t\r\n") == std::string_view::npos
             ? std::string("no JSON here: the text is empty")
         : after_comma(text, e.byte) ? "a comma before the closing bracket is not JSON"
                                     : reason(e.what()));
  } catch (const Json::out_of_range& e) {
    fail(kind, file, reason(e.what()), ": not a finite double");
  }
}

Json read_config(const std::string& path) {
  const std::string text = read_text(path);
  if (text.empty())
    fail(ErrorKind::config, path,
         "is empty, expected a JSON object; a shell makes such a file for ",
         "> FILE, also where it stands in an equation without quotes");
  return parse_json(text, path);
}

std::string shown(const Json& value) {
  if (value.is_object()) return value.empty() ? "an empty object" : "an object";
  if (value.is_array()) return value.empty() ? "an empty array" : "an array";
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string path_key(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

std::string path_index(const std::string& path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

}  // namespace gradus
