// gradus.einsum_plan("ij,jk,kl->il", a, b, c [, options]), or of labels, ({a, b, c}, {{1, 2}, {2,
// 3}, {3, 4}}, {1, 4} [, options]): in which order an einsum is contracted and what that costs. The
// plan prints itself, and runs with any tensors of these shapes.
#include "bindings/lua/labels.hpp"
#include "bindings/lua/options.hpp"
#include "bindings/lua/userdata.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/contract/winners.hpp"

#include <cstdio>

namespace gradus::inline v1::lua {

namespace {

constexpr char kPlan[] = "gradus.EinsumPlan";
constexpr size_t kMostShown = 40;  // steps that print() shows
constexpr const char* kFields[] = {"equation", "flops", "largest", "bytes",
                                   "order",    "steps", "algebra", "winners"};

struct Plan {
  EinsumPlan plan;
  Algebra algebra = Algebra::standard;
  double bytes = 0;
};

using Plans = Userdata<std::unique_ptr<Plan>, kPlan>;
Plan& plan_at(lua_State* L) {
  auto* const p = Plans::at(L, 1);
  if (!p || !*p) fail(ErrorKind::value, "einsum_plan", "called on ", kind_at(L, 1));
  return **p;
}

// {{1, 2}, {1, 2}}: positions among the operands that are left, from 1
ContractionPath order_at(lua_State* L) {
  ContractionPath path;
  each_of(L, lua_gettop(L), [&] {
    const Shape pair = lua_istable(L, -1) ? sizes_at(L, -1, "einsum_plan: path") : Shape{};
    if (pair.size() != 2 || pair[0] < 1 || pair[1] < 1 || pair[0] > 1000000 || pair[1] > 1000000)
      fail(ErrorKind::value, "einsum_plan",
           "path: expected pairs of positions from 1, such as {{1, 2}, {1, 2}}");
    path.emplace_back(int(pair[0]) - 1, int(pair[1]) - 1);
  });
  return path;
}

void read_options(lua_State* L, int index, Plan& p, PathOptions& path) {
  Options options(L, index, "einsum_plan");
  std::string algebra = "standard";
  options.text("algebra", algebra);
  p.algebra = parse_algebra(algebra);
  path.sum_alone = sums_alone(p.algebra);
  if (options.push("path")) {
    if (lua_type(L, -1) == LUA_TSTRING) {
      path.kind = parse_path_kind(lua_tostring(L, -1));
    } else if (lua_istable(L, -1)) {
      path.kind = PathOptions::Kind::fixed;
      path.path = order_at(L);
    } else {
      options.wrong("path", "auto, greedy, optimal, another search's name or pairs of positions");
    }
    lua_pop(L, 1);
  }
  options.number("budget", path.budget);
  options.finish();
}

// What a plan is made for: tensors, or their shapes.
struct PlanOperands {
  std::vector<Shape> shapes;
  Tensors tensors;
  void add(lua_State* L, int index, const std::string& what) {
    const Tensor* const t = tensor_at(L, index);
    if (t && t->defined()) {
      shapes.push_back(t->sizes());
      tensors.push_back(*t);
    } else if (!t && lua_istable(L, index)) {
      shapes.push_back(sizes_at(L, index, "einsum_plan: shape"));
      for (const int64_t n : shapes.back())
        if (n < 0) fail(ErrorKind::shape, "einsum_plan", "a size of ", n);
    } else {
      fail(ErrorKind::value, "einsum_plan", what,
           ": expected a tensor or a shape such as {2, 3}, got ", kind_at(L, index));
    }
  }
  DType dtype() const { return tensors.empty() ? DType::f32 : result_dtype(tensors); }
};

int make_plan(lua_State* L) {
  const bool labelled = says_labels(L);
  if (!labelled && lua_type(L, 1) != LUA_TSTRING)
    fail(ErrorKind::value, "einsum_plan", "expected an equation such as \"ij,jk->ik\", got ",
         kind_at(L, 1));
  auto made = std::make_unique<Plan>();
  PlanOperands operands;
  PathOptions path;
  if (labelled) {
    at_most(L, 4, "einsum_plan: with labels");
    each_of(L, 1, [&] {
      operands.add(L, lua_gettop(L), join("operands[", operands.shapes.size() + 1, "]"));
    });
    read_options(L, 4, *made, path);
    const SaidLabels said = labels_of(L, "einsum_plan");
    made->plan = plan_einsum(said.terms, said.output, operands.shapes, path);
  } else {
    int last = lua_gettop(L);
    const int options = last > 2 && is_options(L, last) ? last-- : 0;
    for (int i = 2; i <= last; ++i) operands.add(L, i, join("argument ", i));
    read_options(L, options, *made, path);
    made->plan = plan_einsum(lua_tostring(L, 1), operands.shapes, path);
  }
  made->bytes = peak_bytes(made->plan, operands.dtype());
  Plans::push(L, std::move(made));
  return 1;
}

int run(lua_State* L) {
  const Plan& p = plan_at(L);
  Tensors in;
  if (lua_istable(L, 2)) {
    at_most(L, 2, "einsum_plan: with a table of operands");
    in = list_at(L, 2, "einsum_plan: operand");
  } else {
    for (int i = 2; i <= lua_gettop(L); ++i) in.push_back(operand_at(L, i, "einsum_plan: operand"));
  }
  push(L, with_room(L, [&] { return einsum(p.plan, in, p.algebra); }));
  return 1;
}

// plan:winners(a, b, ...): the value, and which index of each summed label gave it
int winners(lua_State* L) {
  const Plan& p = plan_at(L);
  Tensors in;
  for (int i = 2; i <= lua_gettop(L); ++i) in.push_back(operand_at(L, i, "einsum_plan: operand"));
  EinsumWinners found;
  with_room(L, [&] {
    found = einsum_winners(p.plan, in, p.algebra);
    return found.value;
  });
  push(L, found.value);
  push(L, found.winners);
  return 2;
}

void push_steps(lua_State* L, const EinsumPlan& plan) {
  lua_createtable(L, int(plan.steps.size()), 0);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const EinsumStep& s = plan.steps[i];
    lua_createtable(L, 0, 3);
    lua_pushstring(L, s.expression().c_str());
    lua_setfield(L, -2, "expression");
    lua_pushnumber(L, s.flops);
    lua_setfield(L, -2, "flops");
    lua_pushnumber(L, s.elements);
    lua_setfield(L, -2, "elements");
    lua_rawseti(L, -2, int64_t(i + 1));
  }
}
int get(lua_State* L) {
  const Plan& p = plan_at(L);
  const std::string_view name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (name == "equation") return lua_pushstring(L, p.plan.equation.c_str()), 1;
  if (name == "flops") return lua_pushnumber(L, p.plan.flops), 1;
  if (name == "largest") return lua_pushnumber(L, p.plan.largest_intermediate), 1;
  if (name == "bytes") return lua_pushnumber(L, p.bytes), 1;
  if (name == "order") return push_order(L, p.plan.path), 1;
  if (name == "steps") return push_steps(L, p.plan), 1;
  if (name == "algebra") return lua_pushstring(L, algebra_name(p.algebra)), 1;
  if (name == "winners") return lua_pushcfunction(L, bind<winners>), 1;
  const std::vector<std::string> known(std::begin(kFields), std::end(kFields));
  fail(ErrorKind::value, "einsum_plan", "has no \"", name.substr(0, 100), "\"",
       did_you_mean(std::string(name), known));
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", x);
  return text;
}
int text(lua_State* L) {
  const Plan& p = plan_at(L);
  const auto& steps = p.plan.steps;
  std::string s = join(p.plan.equation, ": ", steps.size(),
                       steps.size() == 1 ? " step, " : " steps, ", number(p.plan.flops),
                       " flops, largest intermediate ", number(p.plan.largest_intermediate),
                       " elements, memory about ", number(p.bytes), " bytes");
  if (p.algebra != Algebra::standard) s += join(", ", algebra_name(p.algebra));
  for (size_t i = 0; i < steps.size() && i < kMostShown; ++i)
    s += join("\n  ", i + 1, "  ", steps[i].expression(), "  ", number(steps[i].flops), " flops");
  if (steps.size() > kMostShown) s += join("\n  ... and ", steps.size() - kMostShown, " more");
  lua_pushlstring(L, s.data(), s.size());
  return 1;
}

}  // namespace

void push_order(lua_State* L, const std::vector<std::pair<int, int>>& path) {
  lua_createtable(L, int(path.size()), 0);
  for (size_t i = 0; i < path.size(); ++i) {
    lua_createtable(L, 2, 0);
    lua_pushinteger(L, path[i].first + 1);
    lua_rawseti(L, -2, 1);
    lua_pushinteger(L, path[i].second + 1);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, int64_t(i + 1));
  }
}

void open_plans(lua_State* L) {
  open_type(L, kPlan,
            {{"__call", bind<run>},
             {"__index", bind<get>},
             {"__tostring", bind<text>},
             {"__gc", Plans::collect}},
            {}, kFields);
  lua_pushcfunction(L, bind<make_plan>);
  lua_setfield(L, -2, "einsum_plan");
}

}  // namespace gradus::lua
