// The tables of cases.hpp.
#include "benches/cases.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::bench {

const std::vector<Contraction>& tccg() {
  static const std::vector<Contraction> cases{
      {"aebd,ce->dcba", {96, 84, 24, 96, 96}, {72, 72, 24, 72, 72}},
      {"afbce,df->edcba", {48, 36, 36, 24, 48, 48}, {48, 32, 32, 24, 48, 48}},
      {"adb,cd->cba", {384, 384, 24, 384}, {312, 312, 24, 312}},
      {"dabe,ec->dcba", {96, 84, 24, 84, 96}, {72, 72, 24, 72, 72}},
      {"aged,cbfg->fedcba", {24, 20, 20, 24, 20, 20, 24}, {24, 16, 16, 24, 16, 16, 24}},
      {"cged,bafg->fedcba", {24, 20, 20, 24, 20, 20, 24}, {24, 16, 16, 24, 16, 16, 24}},
      {"ae,dcbe->dcba", {96, 84, 84, 84, 96}, {72, 72, 72, 72, 72}},
      {"ce,deba->dcba", {96, 84, 84, 84, 96}, {72, 72, 72, 72, 72}},
      {"ceda,dbe->cba", {96, 84, 84, 84, 96}, {72, 72, 72, 72, 72}},
      {"dca,cbd->ba", {384, 376, 376, 384}, {312, 296, 296, 312}},
      {"dca,bd->cba", {384, 376, 376, 384}, {312, 296, 296, 312}},
      {"fbea,cedf->dcba", {96, 84, 84, 84, 84, 96}, {72, 72, 72, 72, 72, 72}},
      {"da,cdb->cba", {384, 384, 376, 376}, {312, 312, 296, 296}},
      {"fcea,edfb->dcba", {96, 96, 84, 84, 84, 84}, {72, 72, 72, 72, 72, 72}},
      {"fdea,ecfb->dcba", {96, 96, 84, 84, 84, 84}, {72, 72, 72, 72, 72, 72}},
      {"bfea,ecdf->dcba", {96, 84, 84, 84, 84, 96}, {72, 72, 72, 72, 72, 72}},
      {"bfae,cedf->dcba", {96, 84, 84, 84, 96, 96}, {72, 72, 72, 72, 72, 72}},
      {"agfd,cbeg->fedcba", {24, 20, 20, 24, 20, 20, 24}, {24, 16, 16, 24, 16, 16, 24}},
      {"agfe,cbdg->fedcba", {24, 20, 20, 20, 24, 20, 24}, {24, 16, 16, 16, 24, 16, 24}},
      {"cgfe,badg->fedcba", {24, 20, 20, 20, 24, 20, 24}, {24, 16, 16, 16, 24, 16, 24}},
      {"cadg,bgfe->fedcba", {24, 20, 20, 20, 24, 20, 24}, {24, 16, 16, 16, 24, 16, 24}},
      {"baeg,cgfd->fedcba", {24, 20, 20, 24, 20, 20, 24}, {24, 16, 16, 24, 16, 16, 24}},
      {"cbeg,agfd->fedcba", {24, 20, 20, 24, 20, 20, 24}, {24, 16, 16, 24, 16, 16, 24}},
      {"cafg,bged->fedcba", {24, 20, 20, 24, 20, 20, 24}, {24, 16, 16, 24, 16, 16, 24}},
  };
  return cases;
}

std::map<char, int64_t> Contraction::extents(bool single, double max_flops) const {
  const std::vector<int64_t>& full = single ? f32 : f64;
  double flops = 2;
  int large = 0;
  for (const int64_t n : full) flops *= double(n), large += n > 24;
  const double factor = std::pow(std::min(1.0, max_flops / flops), 1.0 / std::max(large, 1));
  std::map<char, int64_t> out;
  for (size_t i = 0; i < full.size(); ++i)
    out[char('a' + i)] = full[i] > 24
                             ? std::max<int64_t>(4, std::llround(double(full[i]) * factor / 4) * 4)
                             : full[i];
  return out;
}

}  // namespace gradus::bench
