// While a step of gradus.capture runs: which optimisers it takes. What the host writes for an
// update (the rate, the number of the step) stands outside of what is recorded.
#pragma once
#include "bindings/lua/state.hpp"

namespace gradus::inline v1::lua {

struct Stepping {
  int list = 0;                         // in the registry: a table that takes the optimisers
  std::vector<const void*> prepared{};  // their host's half is done for this run
};

// The host's half of an update by the optimiser at an index, and who it is.
const void* prepare_optimizer(lua_State* L, int index);

}  // namespace gradus::lua
