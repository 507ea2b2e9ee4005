// Scripts in this process, for tests of the binding.
#pragma once
#include "bindings/lua/script.hpp"
#include "tests/helpers/io_helpers.hpp"
#include "tests/helpers/texts.hpp"

#include <sstream>
#include <string>

namespace gradus::inline v1::test {

struct Lua {
  std::ostringstream out;
  lua::Script script;
  explicit Lua(lua::ScriptOptions o = {}) : script(with(std::move(o), out)) {}
  static lua::ScriptOptions with(lua::ScriptOptions o, std::ostream& to) {
    o.device = &open_device("cpu");
    o.out = &to;
    return o;
  }
  // What the text prints, lines joined by "|".
  std::string operator()(const std::string& text) {
    out.str("");
    script.run(text, "test.lua");
    std::string s = out.str();
    while (!s.empty() && s.back() == '\n') s.pop_back();
    for (char& c : s)
      if (c == '\n') c = '|';
    return s;
  }
};
inline std::string says(const std::string& text, lua::ScriptOptions o = {}) {
  return Lua(std::move(o))(text);
}
// May touch files there.
inline lua::ScriptOptions writing_in(const TempFolder& folder) {
  lua::ScriptOptions o;
  o.write = {folder.path()};
  return o;
}
// The first line of what a failing text says.
inline std::string fails(const std::string& text, ErrorKind kind = ErrorKind::value,
                         lua::ScriptOptions o = {}) {
  Lua lua(std::move(o));
  const std::string said = error_text(kind, [&] { lua.script.run(text, "test.lua"); });
  return said.substr(0, said.find('\n'));
}

}  // namespace gradus::test
