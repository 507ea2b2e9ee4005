// What a text holds.
#pragma once
#include <doctest/doctest.h>

#include <string>

namespace gradus::inline v1::test {

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
// A check that shows the text, as far as one wants to read, where it fails.
inline void check_has(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(has(text, part), "\"", text.substr(0, 3000), "\" lacks \"", part, "\"");
}

}  // namespace gradus::test
