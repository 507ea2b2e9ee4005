// Symmetries: a product of groups U(1) and Z_n, whose charges are lists of integers. Of fermions
// some components of a charge, added modulo 2, are its parity.
#pragma once
#include "ops/base/ints.hpp"

#include <string>
#include <string_view>

namespace gradus::inline v1 {

using Charge = SmallVector<int64_t, 2>;  // one integer for each group

struct Symmetry {
  Ints mods;    // 0: U(1); n: Z_n, whose charges are 0 .. n - 1
  Ints parity;  // which components make a charge odd; none: bosons

  // Error(value): no group, a modulus that is 1 or negative, a component that is not there.
  void check(const char* op) const;
  Charge neutral() const { return Charge(mods.size(), 0); }
  // Components of Z_n brought to 0 .. n - 1. Error(value) for another number of components, or one
  // beyond 32 bits.
  Charge normal(const char* op, Charge q) const;
  void add(Charge& sum, const Charge& q, int64_t times) const;  // normal ones
  bool is_fermionic() const { return !parity.empty(); }
  bool is_odd(const Charge& q) const;
  std::string text() const;  // "U(1) x Z2", of fermions "U(1) (odd) x Z2"
  friend bool operator==(const Symmetry& a, const Symmetry& b) {
    return a.mods == b.mods && a.parity == b.parity;
  }
};

// By its text: "U(1)", "Z3", "U(1) x Z2"; with f before a group whose odd charges are fermions,
// "fZ2", or as text() says that. Error(value) of `op`.
Symmetry symmetry_called(const char* op, std::string_view text);

bool less(const Charge& a, const Charge& b);  // lexicographic
std::string to_text(const Charge& q);         // "1", "(1, 0)"

}  // namespace gradus
