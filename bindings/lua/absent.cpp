// In place of this folder where a build has no Lua: a script is refused, all else of the program
// works.
#include "bindings/lua/script.hpp"

namespace gradus::inline v1::lua {

struct Script::State {
  nn::NamedTensors none{};
};

namespace {
[[noreturn]] void absent() {
  fail(ErrorKind::config, "lua",
       "this build has no Lua, which scripts, the prompt and lessons need; build gradus where "
       "liblua5.4-dev and pkg-config are installed (GRADUS_LUA=ON)");
}
}  // namespace

Script::Script(const ScriptOptions&) { absent(); }
Script::~Script() = default;
void Script::run(const std::string&, const std::string&) { absent(); }
void Script::check(const std::string&, const std::string&) { absent(); }
bool Script::run_line(const std::string&) { absent(); }
std::vector<std::string> Script::complete(const std::string&) { return {}; }
const nn::NamedTensors& Script::leaves() const { return state_->none; }
std::string Script::source(const std::string&) const { return ""; }
void Script::interrupt() {}
void Script::look_at_clock() {}

}  // namespace gradus::lua
