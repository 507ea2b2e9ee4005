// gradus.blocks.zeros, rand, randn (legs [, options]), from_dense(tensor, legs [, options]).
#include "bindings/lua/blocks/blocks.hpp"
#include "bindings/lua/tensors/creation.hpp"
#include "ops/blocks/file.hpp"
#include "ops/ops.hpp"

#include <map>

namespace gradus::inline v1::lua {

namespace {

// {charge = 1, dtype = "f64", device = "cuda:0", requires_grad = true}, tolerance of from_dense
struct Asking {
  Wanted wanted;
  std::optional<Charge> charge{};
  double tolerance = 0;

  Asking(lua_State* L, int index, const char* who, bool dense) : wanted(L, 0, who) {
    Options options(L, index, who);
    std::string device;
    if (options.push("charge")) {
      charge = charge_value(L, -1, join(who, ": charge"));
      lua_pop(L, 1);
    }
    options.dtype("dtype", wanted.dtype);
    options.boolean("requires_grad", wanted.requires_grad);
    if (dense)
      options.number("tolerance", tolerance);
    else
      options.text("device", device);
    options.finish();
    if (!(tolerance >= 0))
      fail(ErrorKind::value, who, "tolerance: expected 0 or more, got ", tolerance);
    if (wanted.dtype == DType::bool_)
      fail(ErrorKind::dtype, who, "dtype: blocks hold numbers, not bool");
    if (!device.empty()) wanted.device = &device_named(L, device, who);
  }
  BlockStructure structure(const Legs& legs, const char* who) const {
    return {legs, charge.value_or(legs[0].symmetry().neutral()), who};
  }
};

Legs legs_at(lua_State* L, int index, const char* who) {
  if (!lua_istable(L, index))
    fail(ErrorKind::value, who, "expected a table of legs, got ", kind_at(L, index));
  Legs legs;
  each_of(L, index, [&] {
    const Leg* const leg = leg_at(L, -1);
    if (!leg)
      fail(ErrorKind::value, who, "legs[", legs.size() + 1,
           "]: expected what gradus.blocks.leg gives, got ", kind_at(L, -1));
    legs.push_back(*leg);
  });
  if (legs.empty()) fail(ErrorKind::value, who, "a block tensor has one leg or more");
  return legs;
}

enum class Numbers { zeros, uniform, normal };
constexpr const char* kDraws[] = {"zeros", "rand", "randn"};

template <Numbers What>
int make(lua_State* L) {
  constexpr const char* who = kDraws[size_t(What)];
  at_most(L, 2, who);
  const Legs legs = legs_at(L, 1, who);
  const Asking asked(L, 2, who, false);
  return push_result(L, [&] {
    const BlockStructure s = asked.structure(legs, who);
    const DType dtype = asked.wanted.dtype.value_or(DType::f32);
    const DeviceScope scope(asked.wanted.device ? *asked.wanted.device : device_of(L));
    const Shape size{s.elements()};
    const Tensor data = What == Numbers::zeros     ? Tensor::zeros(size, dtype)
                        : What == Numbers::uniform ? rand(size, dtype)
                                                   : randn(size, dtype);
    return BlockTensor{asked.wanted.finish(data), s};
  });
}

int take_dense(lua_State* L) {
  constexpr const char* who = "from_dense";
  at_most(L, 3, who);
  const Tensor x = operand_at(L, 1, "from_dense: first argument");
  const Legs legs = legs_at(L, 2, who);
  const Asking asked(L, 3, who, true);
  return push_result(L, [&] {
    BlockTensor y = from_dense(x, asked.structure(legs, who), asked.tolerance);
    if (asked.wanted.dtype) y.data = cast(y.data, *asked.wanted.dtype);
    if (asked.wanted.requires_grad) y.data = y.data.detach(), y.data.set_requires_grad();
    return y;
  });
}

// gradus.blocks.save("x.safetensors", {name = x}), load("x.safetensors"), which gives the table
int save(lua_State* L) {
  constexpr const char* who = "blocks.save";
  at_most(L, 2, who);
  const std::string path = luaL_checkstring(L, 1);
  check_path(L, path, Access::write);
  if (!lua_istable(L, 2))
    fail(ErrorKind::value, who, "expected a table {name = block tensor}, got ", kind_at(L, 2));
  std::map<std::string, BlockTensor> sorted;
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    look_at_clock(L);
    if (lua_type(L, -2) != LUA_TSTRING) fail(ErrorKind::value, who, "tensors need names");
    const char* const name = lua_tostring(L, -2);
    const BlockTensor x = blocks_at(L, lua_gettop(L), who, name);
    sorted.emplace(name, with_data(x, x.data.detach()));
  }
  std::vector<NamedBlocks> all;
  for (const auto& [name, x] : sorted) all.push_back({name, x});
  write_blocks(path, all);
  return 0;
}
int load(lua_State* L) {
  constexpr const char* who = "blocks.load";
  at_most(L, 1, who);
  const std::string path = luaL_checkstring(L, 1);
  check_path(L, path, Access::read);
  const std::vector<NamedBlocks> all =
      with_room(L, [&] { return read_blocks(path, device_of(L)); });
  lua_createtable(L, 0, int(all.size()));
  for (const NamedBlocks& x : all) {
    push_blocks(L, x.tensor);
    lua_setfield(L, -2, x.name.c_str());
  }
  return 1;
}

int is(lua_State* L) {
  lua_pushboolean(L, is_blocks(L, 1));
  return 1;
}

}  // namespace

void add_making(lua_State* L) {
  const luaL_Reg functions[] = {{"zeros", bind<make<Numbers::zeros>>},
                                {"rand", bind<make<Numbers::uniform>>},
                                {"randn", bind<make<Numbers::normal>>},
                                {"from_dense", bind<take_dense>},
                                {"save", bind<save>},
                                {"load", bind<load>},
                                {"is", bind<is>},
                                {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
}

void open_blocks(lua_State* L) {
  open_block_type(L);
  lua_newtable(L);
  add_leg(L);
  add_making(L);
  add_block_einsum(L);
  lua_setfield(L, -2, "blocks");
}

}  // namespace gradus::lua
