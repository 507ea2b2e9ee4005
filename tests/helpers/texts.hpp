// What a text holds; texts with numbers in them, compared word by word.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace gradus::inline v1::test {

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
// A check that shows the text, as far as one wants to read, where it fails.
inline void check_has(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(has(text, part), "\"", text.substr(0, 3000), "\" lacks \"", part, "\"");
}

// Words, with what hugs a number cut off: "(2," is "(", "2", ",".
inline std::vector<std::string> words(const std::string& text) {
  std::string spaced;
  for (const char c : text)
    if (std::strchr("[](),;=|<>*", c))
      spaced += std::string(" ") + c + " ";
    else
      spaced += c;
  std::istringstream in(spaced);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// The same word, or numbers within rounding: f32 sums differ from processor to processor.
inline bool alike(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto number = [](const std::string& s, double& x) {
    char* end = nullptr;
    x = std::strtod(s.c_str(), &end);
    return end == s.c_str() + s.size();
  };
  double x = 0, y = 0;
  return number(a, x) && number(b, y) && std::fabs(x - y) <= 0.02 * std::fabs(y) + 1e-6;
}

inline void check_alike(const std::string& got, const std::string& wanted) {
  const auto a = words(got), b = words(wanted);
  CHECK_MESSAGE(a.size() == b.size(), got, " for ", wanted);
  for (size_t k = 0; k < std::min(a.size(), b.size()); ++k)
    CHECK_MESSAGE(alike(a[k], b[k]), a[k], " for ", b[k]);
}

}  // namespace gradus::test
