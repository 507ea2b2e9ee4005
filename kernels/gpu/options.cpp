// Reading the options.
#include "kernels/gpu/options.hpp"

#include "kernels/call/call.hpp"

#include <nlohmann/json.hpp>

namespace gradus::inline v1::gpu {

Options parse_options(const char* json, const char* device) {
  Options o;
  try {
    const auto all = nlohmann::json::parse(json && *json ? json : "{}", nullptr, true, true);
    o.sync = all.value("sync", o.sync);
    o.tf32 = all.value("tf32", o.tf32);
    if (all.contains("graph"))
      o.graph = all["graph"] == "force" ? Options::Graph::force
                : all["graph"] == true  ? Options::Graph::on
                                        : Options::Graph::off;
    const auto libraries = all.value("libraries", nlohmann::json::object());
    o.gemm_library = libraries.value("gemm", o.gemm_library);
    o.tensor_library = libraries.value("tensor", o.tensor_library);
    o.solver_library = libraries.value("solver", o.solver_library);
  } catch (const nlohmann::json::exception& e) {
    calls::refuse(GD_INVALID, 0, "%s: the device config can't be read: %s", device, e.what());
  }
  return o;
}

}  // namespace gradus::gpu
