// The order that several searches find together within a budget. No single one wins everywhere:
// small networks are solved exactly, elimination orders win on graphical models, dissection on
// large sparse graphs, annealing on circuits and random graphs (figures:
// ops/contract/plan/README.md).
#pragma once
#include "ops/contract/plan/network.hpp"

#include <functional>
#include <string_view>

namespace gradus::inline v1::plan {

enum class Family {
  portfolio,
  exact,
  greedy,
  random_greedy,
  min_fill,
  min_degree,
  dissection,
  annealing
};
inline constexpr std::string_view kFamilies[] = {"portfolio",     "exact",    "greedy",
                                                 "random-greedy", "min-fill", "min-degree",
                                                 "dissection",    "annealing"};

struct Order {
  SsaPath path;
  Cost cost;
  Family family = Family::portfolio;  // which search found it
  double units = 0;                   // work that was done
};
// Told, on the calling thread, of the units spent and of the best order after each round of
// searches.
using Watch = std::function<void(double units, const Cost& best)>;
// The best order of `family` (portfolio: of all) within `budget` units of work (network.hpp). The
// same network, seed and budget give the same order, on any number of threads (0: as many as there
// are cores). Error(value) where `exact` can't finish in its budget.
Order find_order(const Network& network, Family family, uint64_t seed, double budget,
                 int threads = 0, const Watch& watch = {});

}  // namespace gradus::plan
