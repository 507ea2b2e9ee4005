// Oracles and bad inputs of the losses.
#include "tests/oracles.hpp"

namespace gradus::testing {

void add_criterion_oracles(std::map<std::string, Oracle>&) {}
void add_criterion_bad_inputs(std::vector<BadInput>&) {}

}  // namespace gradus::testing
