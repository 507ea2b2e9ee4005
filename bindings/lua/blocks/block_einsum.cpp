// gradus.einsum of block tensors, and gradus.blocks.plan: what it costs.
#include "bindings/lua/blocks/blocks.hpp"
#include "bindings/lua/labels.hpp"
#include "ops/blocks/contraction.hpp"

#include <cstdio>
#include <map>

namespace gradus::inline v1::lua {

namespace {

constexpr const char* kPlan = "gradus.BlockPlan";

struct Call {
  std::string equation;  // or
  std::vector<Labels> terms{};
  Labels output{};
  std::vector<BlockTensor> operands{};

  BlockTensor value() const {
    return equation.empty() ? einsum(operands, terms, output) : einsum(equation, operands);
  }
  BlockPath path() const {
    return equation.empty() ? plan_block_einsum(operands, terms, output)
                            : plan_block_einsum(equation, operands);
  }
};

// einsum("ij,jk->ik", a, b), or the operands in a table; by numbers einsum({a, b}, {{1, 2}, {2,
// 3}}, {1, 3}) and einsum(a, {1, 2}, b, {2, 3}, {1, 3}).
Call call_at(lua_State* L, const char* who) {
  Call c;
  const auto refuse_algebra = [&](int index) {
    if (lua_type(L, index) == LUA_TSTRING || is_options(L, index))
      fail(ErrorKind::value, who, "block tensors have the standard algebra alone, got ",
           kind_at(L, index), " behind them");
    at_most(L, index - 1, who);
  };
  const auto add = [&](int index) {
    const auto k = c.operands.size() + 1;
    if (lua_type(L, index) == LUA_TSTRING) refuse_algebra(index);
    if (!is_blocks(L, index) && tensor_at(L, index))
      fail(ErrorKind::value, who, "operand ", k,
           " is a dense tensor beside block tensors; gradus.blocks.from_dense(x, legs) gives it "
           "legs");
    c.operands.push_back(blocks_at(L, index, who, join("operand ", k).c_str()));
  };
  const auto add_all = [&](int table) { each_of(L, table, [&] { add(lua_gettop(L)); }); };
  if (lua_type(L, 1) == LUA_TSTRING) {
    c.equation = lua_tostring(L, 1);
    if (lua_istable(L, 2)) {
      at_most(L, 2, who);
      add_all(2);
    } else {
      for (int i = 2; i <= lua_gettop(L); ++i) add(i);
    }
    return c;
  }
  SaidLabels said;
  int end = 3;
  if (says_labels(L)) {
    add_all(1);
    said = labels_of(L, who);
  } else if (is_blocks(L, 1)) {
    said = sublists_of(L, who, add, end);
    --end;
  } else {
    fail(ErrorKind::value, who, "expected an equation such as \"ij,jk->ik\", got ", kind_at(L, 1));
  }
  if (said.terms.size() != c.operands.size() || said.terms.empty())
    fail(ErrorKind::value, who,
         "expected an equation such as \"ij,jk->ik\", or operands and labels "
         "for each of them; got ",
         c.operands.size(), " and ", said.terms.size());
  if (lua_gettop(L) > end) refuse_algebra(end + 1);
  std::map<int64_t, int> times;
  for (Labels& term : said.terms)
    for (int64_t& l : term) ++times[l += kNumberLabel];
  c.terms = std::move(said.terms);
  if (said.output)
    for (const int64_t l : *said.output) c.output.push_back(l + kNumberLabel);
  else
    for (const auto& [l, n] : times)
      if (n == 1) c.output.push_back(l);
  return c;
}

// f(), whose errors are `who`'s. No block tensor repeats a label in the output.
template <class F>
auto as_said_by(const char* who, F&& f) {
  try {
    return saying_legs_from_one(f);
  } catch (const Error& e) {
    const size_t other = e.message().find("; such a tensor, 0 off");
    if (e.op() != "einsum") throw;
    fail(e.kind(), who, e.message().substr(0, other),
         other == std::string::npos ? "" : "; block tensors have no such diagonals");
  }
}

int plan(lua_State* L) {
  const Call c = call_at(L, "blocks.plan");
  const BlockPath path = as_said_by("blocks.plan", [&] { return c.path(); });
  lua_createtable(L, 0, 5);
  luaL_setmetatable(L, kPlan);
  lua_pushstring(L, c.equation.c_str());
  lua_setfield(L, -2, "equation");
  lua_pushnumber(L, path.flops);
  lua_setfield(L, -2, "flops");
  lua_pushnumber(L, path.dense_flops);
  lua_setfield(L, -2, "dense_flops");
  lua_pushinteger(L, path.block_pairs);
  lua_setfield(L, -2, "pairs");
  push_order(L, path.pairs);
  lua_setfield(L, -2, "order");
  return 1;
}

int plan_text(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const auto number = [&](const char* field) {
    lua_getfield(L, 1, field);
    const double x = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return x;
  };
  lua_getfield(L, 1, "equation");
  const char* const equation = lua_tostring(L, -1);
  lua_getfield(L, 1, "order");
  const auto steps = int64_t(lua_istable(L, -1) ? lua_rawlen(L, -1) : 0);
  char text[160];
  std::snprintf(text, sizeof text,
                ": %lld step%s, %.0f pairs of blocks, %.4g flops; of dense tensors %.4g",
                static_cast<long long>(steps), steps == 1 ? "" : "s", number("pairs"),
                number("flops"), number("dense_flops"));
  lua_pushstring(L, join(equation ? equation : "", text).c_str());
  return 1;
}

}  // namespace

bool says_blocks(lua_State* L) {
  const bool equation = lua_type(L, 1) == LUA_TSTRING;
  if (!equation && !lua_istable(L, 1)) return is_blocks(L, 1);
  const int table = equation ? 2 : 1;
  if (!lua_istable(L, table)) {
    for (int i = lua_gettop(L); i > 1; --i)
      if (is_blocks(L, i)) return true;
    return false;
  }
  bool any = false;
  each_of(L, table, [&] { any = any || is_blocks(L, -1); });
  return any;
}

int einsum_of_blocks(lua_State* L) {
  const Call c = call_at(L, "einsum");
  push_blocks(L, as_said_by("einsum", [&] { return with_room(L, [&] { return c.value(); }); }));
  return 1;
}

void add_block_einsum(lua_State* L) {
  open_type(L, kPlan, {{"__tostring", bind<plan_text>}});
  lua_pushcfunction(L, bind<plan>);
  lua_setfield(L, -2, "plan");
}

}  // namespace gradus::lua
