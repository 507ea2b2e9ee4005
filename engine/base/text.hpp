// Text from files and users, made fit to be shown on a terminal.
#pragma once
#include <string>
#include <string_view>

namespace gradus::inline v1 {

// The text with its control characters (but those of `keep`) and bytes that are no UTF-8 written
// as \x1b: what a name in a file says must not move a cursor, set a title or forge a line.
std::string printable(std::string_view text, std::string_view keep = "\n\t");

// Bytes of the UTF-8 character that a text begins with; 0 if it is none.
size_t character_bytes(std::string_view text);

}  // namespace gradus
