// The right word for what people type who know PyTorch or Python: where a name or a sentence is not
// there, the error says what to write.
#pragma once
#include <string>
#include <string_view>

namespace gradus::inline v1::lua {

// For a name that `owner` ("tensor", "gradus", "gradus.nn") lacks: "; write x:totable()", or "".
std::string word_for(std::string_view owner, std::string_view name);

// For an error of syntax in `text`, whose message is "NAME:LINE: ...": "; write ...", or "".
std::string word_for_syntax(std::string_view message, std::string_view text);

// A global that a script reads and nobody set: "" if the name means nothing here.
std::string word_for_global(std::string_view name);

}  // namespace gradus::lua
