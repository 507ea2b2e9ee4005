// Oracles and bad inputs of the rearrange ops.
#include "tests/oracles.hpp"

namespace gradus::testing {

void add_rearrange_oracles(std::map<std::string, Oracle>&) {}
void add_rearrange_bad_inputs(std::vector<BadInput>&) {}

}  // namespace gradus::testing
