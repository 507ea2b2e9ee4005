// Devices by name: gradus.device, available, synchronize, and x:to("cuda:0").
#include "bindings/lua/tensors/creation.hpp"
#include "engine/config/device_config.hpp"
#include "ops/ops.hpp"

namespace gradus::inline v1::lua {

namespace {

DeviceConfig config_of(lua_State* L, const std::string& name, const char* who) {
  const bool plain = name.find_first_of("{/.") == std::string::npos;
  if (!plain && types_of(L).sandboxed)
    fail(ErrorKind::value, who, "expected ", std::string_view(who) == "to" ? "a dtype or " : "",
         "a device such as cuda:0, got \"", name, "\"");
  DeviceConfig config = parse_device_config(name, who);
  config.fallback = DeviceConfig::Fallback::error;
  return config;
}

// gradus.device(): the name of the script's own
int device(lua_State* L) {
  at_most(L, 0, "device");
  lua_pushstring(L, device_of(L).name().c_str());
  return 1;
}

// gradus.available("cuda"): true, or false and why not
int available(lua_State* L) {
  at_most(L, 1, "available");
  if (lua_type(L, 1) != LUA_TSTRING)
    fail(ErrorKind::value, "available", "expected the name of a device such as \"cuda\", got ",
         kind_at(L, 1));
  try {
    device_named(L, lua_tostring(L, 1), "available");
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::device) throw;
    lua_pushboolean(L, false);
    lua_pushstring(L, e.message().c_str());
    return 2;
  }
  lua_pushboolean(L, true);
  return 1;
}

// gradus.synchronize(): waits for all devices, or for that of a name
int synchronize(lua_State* L) {
  at_most(L, 1, "synchronize");
  if (lua_isnoneornil(L, 1)) {
    for (Device* const d : open_devices()) d->synchronize();
  } else if (const Tensor* const t = tensor_at(L, 1); t && t->defined()) {
    t->device().synchronize();
  } else if (lua_type(L, 1) == LUA_TSTRING) {
    device_named(L, lua_tostring(L, 1), "synchronize").synchronize();
  } else {
    fail(ErrorKind::value, "synchronize",
         "expected nothing, a tensor or the name of a device, got ", kind_at(L, 1));
  }
  return 0;
}

std::optional<DType> dtype_called(const std::string& name) {
  try {
    return parse_dtype(name);
  } catch (const Error&) {
    return {};
  }
}
Device& device_or_dtype(lua_State* L, const std::string& name) {
  try {
    return device_named(L, name, "to");
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::config)
      fail(e.kind(), e.op(), e.message(), "; or a dtype, such as f64");
    throw;
  }
}
// t:to("f64"), t:to("cuda:0"), t:to(u): dtype and device of another tensor
int to(lua_State* L) {
  const Tensor t = self_at(L, "to");
  at_most(L, 2, "to: with the tensor");
  if (const Tensor* const like = tensor_at(L, 2); like && like->defined()) {
    push(L, with_room(L, [&] { return to_device(cast(t, like->dtype()), like->device()); }));
    return 1;
  }
  if (lua_type(L, 2) != LUA_TSTRING)
    fail(ErrorKind::value, "to", "expected a dtype such as \"f64\", a device such as \"cuda:0\", ",
         "or a tensor that has both, got ", kind_at(L, 2));
  const std::string name = lua_tostring(L, 2);
  if (const std::optional<DType> dtype = dtype_called(name))
    return push(L, with_room(L, [&] { return cast(t, *dtype); })), 1;
  Device& device = device_or_dtype(L, name);
  push(L, with_room(L, [&] { return to_device(t, device); }));
  return 1;
}
// x:cpu(), x:cuda([n])
int to_cpu(lua_State* L) {
  const Tensor t = self_at(L, "cpu");
  at_most(L, 1, "cpu: with the tensor");
  Device& device = device_named(L, "cpu", "cpu");
  push(L, with_room(L, [&] { return to_device(t, device); }));
  return 1;
}
int to_cuda(lua_State* L) {
  const Tensor t = self_at(L, "cuda");
  at_most(L, 2, "cuda: with the tensor");
  const int64_t n = lua_isnoneornil(L, 2) ? 0 : integer_at(L, 2, "cuda: device");
  if (n < 0) fail(ErrorKind::value, "cuda", "there is no device ", n, "; they count from 0");
  Device& device = device_named(L, join("cuda:", n), "cuda");
  push(L, with_room(L, [&] { return to_device(t, device); }));
  return 1;
}

}  // namespace

Device& device_named(lua_State* L, const std::string& name, const char* who) {
  Device& device = *open_configured(config_of(L, name, who)).device;
  limit_memory_of(L, device);
  return device;
}

void open_device_names(lua_State* L) {
  push_methods(L);
  const luaL_Reg methods[] = {
      {"to", bind<to>}, {"cpu", bind<to_cpu>}, {"cuda", bind<to_cuda>}, {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
  const luaL_Reg functions[] = {{"device", bind<device>},
                                {"available", bind<available>},
                                {"synchronize", bind<synchronize>},
                                {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
}

}  // namespace gradus::lua
