// Oracles and bad inputs of the window ops.
#include "tests/oracles.hpp"

namespace gradus::testing {

void add_window_oracles(std::map<std::string, Oracle>&) {}
void add_window_bad_inputs(std::vector<BadInput>&) {}

}  // namespace gradus::testing
