// Reading the lists of processors.
#include "kernels/gpu/archs.hpp"

#include <cstdlib>
#include <sstream>

namespace gradus::inline v1::gpu {
namespace {

bool runs(const std::string& entry, const std::string& device) {
  if (device.rfind("sm_", 0) != 0) return device.substr(0, device.find(':')) == entry;
  const int own = std::atoi(device.c_str() + 3), code = std::atoi(entry.c_str());
  if (entry.find("-virtual") != std::string::npos) return own >= code;
  return own / 10 == code / 10 && own >= code;
}

}  // namespace

std::string missing_image(const std::string& built, const std::string& device) {
  std::stringstream list(built);
  for (std::string entry; std::getline(list, entry, ',');)
    if (runs(entry, device)) return "";
  return "module built for " + built + "; device is " + device +
         "; rebuild it with that processor in GRADUS_CUDA_ARCHS or GRADUS_HIP_ARCHS";
}

}  // namespace gradus::gpu
