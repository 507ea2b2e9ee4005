// Where data sets lie.
#pragma once
#include <string>

namespace gradus::inline v1::training {

// The folder of all data sets: GRADUS_DATA, or "data" if that is not set.
std::string data_root();

// Where data_folder() looks too; "" for a path that is there or begins with /.
std::string below_data_root(const std::string& idx);

// The folder that `idx` of a config means: `idx` itself where that is there or begins with /, else
// the one of this name in data_root(), else `idx`, which is nowhere.
std::string data_folder(const std::string& idx);

}  // namespace gradus::training
