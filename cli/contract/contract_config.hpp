// What a contraction's config and command line say together.
#pragma once
#include "engine/config/options.hpp"
#include "ops/contract/algebra.hpp"
#include "ops/contract/plan.hpp"

namespace gradus::inline v1::cli {

struct ContractOptions;
// The command line over the environment over the config, with what none of them says.
// Error(config).
Json resolve_contraction(const ContractOptions& options);
// Of its "path": a name, or {"kind": ..., "steps": [[i, j], ...]}.
PathOptions path_options(const Json& path, Algebra algebra);

inline Json optional_json(const std::optional<double>& x) { return x ? Json(*x) : Json(nullptr); }

}  // namespace gradus::cli
