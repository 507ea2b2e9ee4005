// Published contractions, as facts: index strings and extents.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gradus::inline v1::bench {

// TCCG (Springer and Bientinesi, arXiv 1607.00145; HPAC/tccg), written for row-major memory: the
// strings are reversed. Extents of a, b, c, ... in f32 and in f64: the largest tensor has about 200
// MiB. In the order of the paper's figures (memory-bound first), then the rest.
struct Contraction {
  const char* equation;
  std::vector<int64_t> f32, f64;

  // Extents by label, with flops brought down to about `max_flops`: extents above 24 shrink by one
  // factor, to multiples of 4.
  std::map<char, int64_t> extents(bool single, double max_flops) const;
};
const std::vector<Contraction>& tccg();

}  // namespace gradus::bench
