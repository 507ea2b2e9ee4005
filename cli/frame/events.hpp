// What --json prints: one object per line, each at once.
#pragma once
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>

namespace gradus::inline v1::cli {

using Event = nlohmann::ordered_json;  // its keys in the order in which they were written

// Bytes that are no UTF-8 become U+FFFD.
std::string line_of(const Event& e);
void emit(std::ostream& out, const Event& e);

// JSON has no NaN and no infinities: "NaN", "Infinity", "-Infinity".
Event number_event(double x);

// The exit code of a command that worked and found what should not be: a check that failed, bits
// that differ.
constexpr int kFailed = 5;

// An event "provenance" in words: "step 1: the vjp of sqrt gives inf ..., at layers[2] sqrt, for
// training sample 43". Throws nlohmann's exceptions for what is none.
std::string provenance_text(const Event& e);

}  // namespace gradus::cli
