// Which processors a module has code for.
#pragma once
#include <string>

namespace gradus::inline v1::gpu {

// "" if code for one of `built` runs on `device`, else what is said to people. `built` is the list
// that the module was built from: "80-real,90-real,90-virtual" or "gfx90a,gfx1030"; `device` is the
// processor's name: "sm_75", "gfx90a:sramecc+:xnack-". NN-real runs on processors of its own major
// number from its minor number on; NN-virtual on all from NN on; a gfx name on that very processor.
std::string missing_image(const std::string& built, const std::string& device);

}  // namespace gradus::gpu
