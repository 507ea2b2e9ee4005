#include "ops/blocks/symmetry.hpp"

#include <algorithm>

namespace gradus::inline v1 {

void Symmetry::check(const char* op) const {
  if (mods.empty())
    fail(ErrorKind::value, op, "a symmetry has one group or more, 0 for U(1), n for Z_n");
  for (const int64_t n : mods)
    if (n < 0 || n == 1 || n > INT32_MAX)
      fail(ErrorKind::value, op, "a group is given by 0 for U(1) or by n > 1 for Z_n, got ", n);
  for (const int64_t i : parity) {
    if (i < 0 || i >= int64_t(mods.size()))
      fail(ErrorKind::value, op, "parity names component ", i, " of charges that have ",
           mods.size());
    if (mods[size_t(i)] % 2)
      fail(ErrorKind::value, op, "component ", i, " is of Z_", mods[size_t(i)],
           ", where even and odd are not apart");
  }
}

Charge Symmetry::normal(const char* op, Charge q) const {
  if (q.size() != mods.size())
    fail(ErrorKind::value, op, "charge ", to_text(q), " has ", q.size(), " components, ", text(),
         " needs ", mods.size());
  for (size_t i = 0; i < q.size(); ++i) {
    if (q[i] > INT32_MAX || q[i] < -INT32_MAX)
      fail(ErrorKind::value, op, "charge ", to_text(q), " is beyond 32 bits");
    if (mods[i]) q[i] = (q[i] % mods[i] + mods[i]) % mods[i];
  }
  return q;
}

void Symmetry::add(Charge& sum, const Charge& q, int64_t times) const {
  for (size_t i = 0; i < q.size(); ++i) {
    sum[i] += times * q[i];
    if (mods[i]) sum[i] = (sum[i] % mods[i] + mods[i]) % mods[i];
  }
}

bool Symmetry::is_odd(const Charge& q) const {
  int64_t sum = 0;
  for (const int64_t i : parity) sum += q[size_t(i)];
  return sum % 2 != 0;
}

std::string Symmetry::text() const {
  std::string s;
  for (size_t i = 0; i < mods.size(); ++i) {
    s += i ? " x " : "";
    s += mods[i] ? join("Z", mods[i]) : "U(1)";
    if (std::find(parity.begin(), parity.end(), int64_t(i)) != parity.end()) s += " (odd)";
  }
  return s;
}

Symmetry symmetry_called(const char* op, std::string_view text) {
  const auto refuse = [&] {
    fail(ErrorKind::value, op, "symmetry: \"", text.substr(0, 100),
         "\" is none; expected U(1), Z2, Z3, ..., with f before it if odd charges are fermions, "
         "fU(1), and several as \"U(1) x Z2\"");
  };
  Symmetry g;
  for (std::string_view rest = text;;) {
    const size_t cross = std::min(rest.find(" x "), rest.size());
    std::string_view one = rest.substr(0, cross);
    const bool odd = one.starts_with('f') || one.ends_with(" (odd)");
    if (one.starts_with('f')) one.remove_prefix(1);
    if (one.ends_with(" (odd)")) one.remove_suffix(6);
    if (odd) g.parity.push_back(int64_t(g.mods.size()));
    if (one == "U(1)" || one == "U1") {
      g.mods.push_back(0);
    } else {
      int64_t n = 0;
      if (one.size() < 2 || one.size() > 9 || one[0] != 'Z') refuse();
      for (const char digit : one.substr(1)) {
        if (digit < '0' || digit > '9') refuse();
        n = 10 * n + (digit - '0');
      }
      if (n < 2) refuse();  // 0 would be U(1)
      g.mods.push_back(n);
    }
    if (cross == rest.size()) return g;
    rest.remove_prefix(cross + 3);
  }
}

bool less(const Charge& a, const Charge& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

std::string to_text(const Charge& q) {
  if (q.size() == 1) return join(q[0]);
  std::string s = "(";
  for (size_t i = 0; i < q.size(); ++i) s += join(i ? ", " : "", q[i]);
  return s + ")";
}

}  // namespace gradus
