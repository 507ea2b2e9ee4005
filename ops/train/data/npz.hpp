// NumPy's .npz: a ZIP whose members are .npy files. Read by minizip, where gradus was built with
// it.
#pragma once
#include "engine/tensor.hpp"

#include <string>
#include <vector>

namespace gradus::inline v1::training {

// Names of its arrays. Error(io) for a file that is no .npz.
std::vector<std::string> arrays_in_npz(const std::string& path);
// One of them. Error(io) that names the others if there is none of that name.
Tensor read_npz(const std::string& path, const std::string& array, Device& device);

}  // namespace gradus::training
