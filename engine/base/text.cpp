// UTF-8 by RFC 3629: no overlong forms, no surrogates.
#include "engine/base/text.hpp"

#include <algorithm>
#include <cstdint>

namespace gradus::inline v1 {

size_t character_bytes(std::string_view s) {
  const auto byte = [&](size_t i) { return i < s.size() ? uint8_t(s[i]) : uint8_t(0); };
  const uint8_t lead = byte(0), second = byte(1);
  if (lead < 0x80) return 1;
  const size_t n = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool no_character = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
  return overlong || no_character ? 0 : n;
}

namespace {

// The first 32 of ASCII and its last, and U+0080 to U+009F.
bool is_control(std::string_view c) {
  const auto first = uint8_t(c[0]);
  return c.size() == 1 ? first < 0x20 || first == 0x7f : first == 0xc2 && uint8_t(c[1]) < 0xa0;
}

}  // namespace

std::string printable(std::string_view text, std::string_view keep) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t n = character_bytes(text);
    const std::string_view c = text.substr(0, std::max<size_t>(n, 1));
    text.remove_prefix(c.size());
    const bool kept = n == 1 && keep.find(c[0]) != std::string_view::npos;
    if (!kept && (n == 0 || is_control(c)))
      for (const char b : c) out += {'\\', 'x', digits[uint8_t(b) >> 4], digits[uint8_t(b) & 15]};
    else
      out += c;
  }
  return out;
}

}  // namespace gradus
