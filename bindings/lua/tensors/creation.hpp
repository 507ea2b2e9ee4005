// What functions that make tensors are told: sizes, and options of the result.
#pragma once
#include "bindings/lua/options.hpp"

namespace gradus::inline v1::lua {

// {dtype = "f64", requires_grad = true, device = "cuda:0"} at `index`, or nothing; 0: nowhere.
struct Wanted {
  std::optional<DType> dtype;
  bool requires_grad = false;
  Device* device = nullptr;  // null: the script's

  Wanted(lua_State* L, int index, const char* what, bool with_list = false);
  // The tensor, made as it came, as it was asked for.
  Tensor finish(Tensor t) const;
};

// Sizes, and options behind them or beside them in their table: gradus.zeros(2, 3 [, options]),
// gradus.zeros({2, 3} [, options]), gradus.zeros{2, 3, dtype = "f64"}.
struct Asked {
  Shape sizes;
  Wanted wanted;
  explicit Asked(lua_State* L, const char* what);
};

// A device that the script may name: in the sandbox no file and no object, which may name code to
// load. Opened, and bound by the script's limits. Error(config) for a name that is none,
// Error(device) where it is not there.
Device& device_named(lua_State* L, const std::string& name, const char* who);

}  // namespace gradus::lua
