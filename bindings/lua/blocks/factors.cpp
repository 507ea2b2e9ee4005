// x:svd(left [, options]), qr, eigh, adjoint, inv, det, solve: by sector. `left` names the axes of
// the rows; of a matrix it may be left out.
#include "bindings/lua/blocks/blocks.hpp"

namespace gradus::inline v1::lua {

namespace {

struct Asking {
  Truncation cut{};
  TakesCharge charge = TakesCharge::none;
  Degenerate degenerate = Degenerate::exact;
  bool positive = true;
};

void whole_number(lua_State* L, Options& options, const char* name, int64_t& to) {
  if (!options.push(name)) return;
  to = integer_at(L, -1, join("svd: ", name).c_str());
  if (to < 0) fail(ErrorKind::value, "svd", name, ": expected 0 or more, got ", to);
  lua_pop(L, 1);
}
void limit(Options& options, const char* name, double& to) {
  options.number(name, to);
  if (!(to >= 0)) fail(ErrorKind::value, "svd", name, ": expected 0 or more, got ", to);
}

// One of two words; `to` stays where nothing is said.
template <class T>
void word(Options& options, const char* who, const char* name, std::pair<const char*, T> a,
          std::pair<const char*, T> b, T& to) {
  std::string said;
  options.text(name, said);
  if (said.empty()) return;
  if (said != a.first && said != b.first)
    fail(ErrorKind::value, who, name, ": expected ", a.first, " or ", b.first, ", got \"",
         said.substr(0, 100), "\"");
  to = said == a.first ? a.second : b.second;
}

void cut_options(lua_State* L, Options& options, Truncation& t) {
  whole_number(L, options, "rank", t.rank);
  whole_number(L, options, "least", t.least);
  limit(options, "atol", t.atol);
  limit(options, "rtol", t.rtol);
  word(options, "svd", "ties", {"widen", true}, {"index", false}, t.whole_multiplets);
  if (options.push("sizes")) {
    if (!lua_istable(L, -1)) options.wrong("sizes", "sectors {{charge, size}, ...}");
    t.sizes = sectors_at(L, -1, "svd: sizes");
    lua_pop(L, 1);
  }
}
void charge_option(Options& options, const char* who, TakesCharge& to) {
  word(options, who, "charge", {"left", TakesCharge::left}, {"right", TakesCharge::right}, to);
}
void degenerate_option(Options& options, const char* who, Degenerate& to) {
  word(options, who, "degenerate", {"exact", Degenerate::exact}, {"safe", Degenerate::safe}, to);
}

// A table that names something. {} is a list of no rows.
bool names_options(lua_State* L, int index) {
  if (!is_options(L, index)) return false;
  lua_pushnil(L);
  const bool any = lua_next(L, index) != 0;
  if (any) lua_pop(L, 2);
  return any;
}
// Where the options stand: behind the axes, or in their place.
int options_place(lua_State* L) { return names_options(L, 2) ? 2 : 3; }

template <class F>
auto factored(lua_State* L, F&& f) {
  return saying_legs_from_one([&] { return with_room(L, f); });
}

// u, s, vh, discarded, bond
int svd_of(lua_State* L) {
  const BlockTensor x = self_blocks(L, "svd");
  at_most(L, 3, "svd: with the tensor");
  Asking asked;
  Options options(L, options_place(L), "svd");
  cut_options(L, options, asked.cut);
  charge_option(options, "svd", asked.charge);
  degenerate_option(options, "svd", asked.degenerate);
  options.finish();
  const Ints left = row_axes(L, 2, "svd", x.rank());
  const BlockFactors f =
      factored(L, [&] { return svd(x, left, asked.cut, asked.charge, asked.degenerate); });
  push_blocks(L, f.left);
  push(L, f.values);
  push_blocks(L, f.right);
  lua_pushnumber(L, f.discarded);
  push_leg(L, f.bond);
  return 5;
}
// q, r
int qr_of(lua_State* L) {
  const BlockTensor x = self_blocks(L, "qr");
  at_most(L, 3, "qr: with the tensor");
  Asking asked;
  Options options(L, options_place(L), "qr");
  options.boolean("positive", asked.positive);
  charge_option(options, "qr", asked.charge);
  options.finish();
  const Ints left = row_axes(L, 2, "qr", x.rank());
  const BlockFactors f = factored(L, [&] { return qr(x, left, asked.positive, asked.charge); });
  push_blocks(L, f.left);
  push_blocks(L, f.right);
  return 2;
}
// w, v, right
int eigh_of(lua_State* L) {
  const BlockTensor x = self_blocks(L, "eigh");
  at_most(L, 3, "eigh: with the tensor");
  Asking asked;
  Options options(L, options_place(L), "eigh");
  degenerate_option(options, "eigh", asked.degenerate);
  options.finish();
  const Ints left = row_axes(L, 2, "eigh", x.rank());
  const BlockFactors f = factored(L, [&] { return eigh(x, left, asked.degenerate); });
  push(L, f.values);
  push_blocks(L, f.left);
  push_blocks(L, f.right);
  return 3;
}

using MapOf = BlockTensor (*)(const BlockTensor&, const Ints&);
int map_of(lua_State* L, const char* who, MapOf of) {
  const BlockTensor x = self_blocks(L, who);
  at_most(L, 2, join(who, ": with the tensor").c_str());
  const Ints left = row_axes(L, 2, who, x.rank());
  return push_result(L, [&] { return of(x, left); });
}
int inv_of(lua_State* L) { return map_of(L, "inv", inv); }
int adjoint_of(lua_State* L) { return map_of(L, "adjoint", adjoint); }
int det_of(lua_State* L) {
  const BlockTensor x = self_blocks(L, "det");
  at_most(L, 2, "det: with the tensor");
  const Ints left = row_axes(L, 2, "det", x.rank());
  push(L, factored(L, [&] { return det(x, left); }));
  return 1;
}
// x:solve(b [, left])
int solve_of(lua_State* L) {
  const BlockTensor x = self_blocks(L, "solve");
  at_most(L, 3, "solve: with the tensor");
  const BlockTensor b = blocks_at(L, 2, "solve", "right side");
  const Ints left = row_axes(L, 3, "solve", x.rank());
  return push_result(L, [&] { return solve(x, left, b); });
}

}  // namespace

Ints row_axes(lua_State* L, int index, const char* who, size_t rank) {
  const bool given = !lua_isnoneornil(L, index) && !names_options(L, index);
  if (!given && rank == 2) return {0};
  if (!given)
    fail(ErrorKind::value, who, "which axes are the rows? Of ", rank,
         " legs the first argument says that, such as {1, 2}");
  Ints axes;
  if (!lua_istable(L, index)) return {axis_at(L, index, who)};
  each_of(L, index, [&] { axes.push_back(axis_at(L, -1, who)); });
  return axes;
}

void add_factors(lua_State* L) {
  const luaL_Reg methods[] = {{"svd", bind<svd_of>},         {"qr", bind<qr_of>},
                              {"eigh", bind<eigh_of>},       {"inv", bind<inv_of>},
                              {"det", bind<det_of>},         {"solve", bind<solve_of>},
                              {"adjoint", bind<adjoint_of>}, {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
}

}  // namespace gradus::lua
