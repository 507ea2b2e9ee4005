// t[...]: numbers from 1, ranges with both ends, steps, masks, tensors of numbers.
//   t[2]                      row 2, a view
//   t[{{1, 3}, 2}]            rows 1 to 3 of column 2
//   t[{{}, {-2, -1}}]         all rows, the last two columns; ":" and nil are {} too
//   t[{{1, -1, 2}}]           every second row; {-1, 1, -1} goes back
//   t["2:5"], t[":,1"]        the same as text
//   t[mask]                   a bool tensor of the shape of t's first axes
//   t[indices]                an i64 tensor of numbers from 0, as ops give them
#include "bindings/lua/state.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <charconv>

namespace gradus::inline v1::lua {

namespace {

// One axis: a number, or a range.
struct Item {
  bool range = false;
  bool all = false;
  int64_t first = 1, last = -1, step = 1;
};

Item whole() { return {true, true, 1, -1, 1}; }

int64_t parse_number(std::string_view s, const std::string& all) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  if (error != std::errc() || end != s.data() + s.size())
    fail(ErrorKind::index, "index", "\"", all, "\": \"", s, "\" is no whole number");
  return n;
}

// "3", "2:5", ":", "2:", ":-2", "1:9:2", "::-1"
Item parse_item(std::string_view s, const std::string& all) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  const size_t colon = s.find(':');
  if (colon == std::string_view::npos) return {false, false, parse_number(s, all)};
  const size_t second = std::min(s.find(':', colon + 1), s.size());
  const std::string_view a = s.substr(0, colon), b = s.substr(colon + 1, second - colon - 1),
                         c = second < s.size() ? s.substr(second + 1) : "";
  Item item = whole();
  if (!c.empty()) item.step = parse_number(c, all);
  if (item.step < 0) std::swap(item.first, item.last);
  if (!a.empty()) item.first = parse_number(a, all);
  if (!b.empty()) item.last = parse_number(b, all);
  item.all = a.empty() && b.empty() && c.empty();
  return item;
}

Item item_at(lua_State* L, int index) {
  if (lua_isnil(L, index)) return whole();
  if (lua_type(L, index) == LUA_TSTRING) {
    const std::string s = lua_tostring(L, index);
    return parse_item(s, s);
  }
  if (!lua_istable(L, index)) return {false, false, integer_at(L, index, "index")};
  const Shape n = sizes_at(L, index, "index");
  if (n.empty()) return whole();
  if (n.size() == 1) return {true, false, n[0], n[0], 1};
  if (n.size() > 3)
    fail(ErrorKind::index, "index", "a range is {first, last} or {first, last, step}, got ",
         int64_t(n.size()), " numbers");
  return {true, false, n[0], n[1], n.size() == 3 ? n[2] : 1};
}

std::vector<Item> items_at(lua_State* L, int key, const Tensor& t) {
  std::vector<Item> items;
  const auto check_count = [&](int64_t n) {
    if (n > t.rank()) fail(ErrorKind::index, "index", n, " subscripts for a shape of ", t.sizes());
  };
  if (lua_istable(L, key)) {
    check_count(int64_t(lua_rawlen(L, key)));
    each_of(L, key, [&] { items.push_back(item_at(L, lua_gettop(L))); });
  } else if (lua_type(L, key) == LUA_TSTRING) {
    const std::string all = lua_tostring(L, key);
    check_count(std::count(all.begin(), all.end(), ',') + 1);
    for (size_t at = 0; at <= all.size();) {
      const size_t comma = std::min(all.find(',', at), all.size());
      items.push_back(parse_item(std::string_view(all).substr(at, comma - at), all));
      at = comma + 1;
    }
  } else {
    check_count(1);
    items.push_back(item_at(L, key));
  }
  return items;
}

// Place k of an axis, from 0; k counts from 1 or from the end.
int64_t place(int64_t k, int64_t size, int64_t axis, const Tensor& t) {
  if (k == 0 || k > size || k < -size)
    fail(ErrorKind::index, "index", k, " is outside of axis ", axis + 1, " of size ", size,
         " (shape ", t.sizes(), "; Lua counts from 1)");
  return k > 0 ? k - 1 : k + size;
}

Tensor view_of(const Tensor& t, const std::vector<Item>& items) {
  Tensor out = t;
  int64_t axis = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const int64_t size = t.size(int64_t(i));
    if (!item.range) {
      out = select(out, axis, place(item.first, size, int64_t(i), t));
      continue;
    }
    if (item.step == 0) fail(ErrorKind::index, "index", "a step of 0");
    if (!item.all && size > 0) {
      const int64_t first = place(item.first, size, int64_t(i), t),
                    last = place(item.last, size, int64_t(i), t);
      if (item.step > 0) {
        out = slice(out, axis, first, std::max(first, last + 1), item.step);
      } else {
        // Back from first to last: forward from where the steps end, then turned.
        const int64_t count = first < last ? 0 : (first - last) / -item.step + 1;
        const int64_t low = first + (count - 1) * item.step;
        out = count == 0 ? slice(out, axis, 0, 0)
                         : flip(slice(out, axis, low, first + 1, -item.step), {axis});
      }
    }
    ++axis;
  }
  return out;
}

// A mask of t's first axes, as it broadcasts over t.
Tensor over_first_axes(const Tensor& t, const Tensor& mask) {
  bool fits = mask.rank() <= t.rank();
  for (int64_t i = 0; fits && i < mask.rank(); ++i) fits = mask.size(i) == t.size(i);
  if (!fits)
    fail(ErrorKind::shape, "index", "a mask of shape ", mask.sizes(),
         " is not of the first axes of ", t.sizes());
  Shape sizes(size_t(t.rank()), 1);
  std::copy(mask.sizes().begin(), mask.sizes().end(), sizes.begin());
  return reshape(mask, sizes);
}

}  // namespace

Tensor subscript(lua_State* L, const Tensor& t, int key) {
  if (lua_isinteger(L, key) && t.rank() > 0)  // the most common one, without a list of them
    return select(t, 0, place(lua_tointeger(L, key), t.size(0), 0, t));
  if (const Tensor* const k = tensor_at(L, key))
    return k->dtype() == DType::bool_ ? index(t, {*k}) : index_select(t, 0, *k);
  return view_of(t, items_at(L, key, t));
}

void assign(lua_State* L, const Tensor& t, int key, int value) {
  const Tensor v = lua_istable(L, value) ? to_device(numbers_at(L, value), t.device())
                                         : operand_at(L, value, "assignment");
  if (const Tensor* const k = tensor_at(L, key)) {
    if (k->dtype() != DType::bool_)
      fail(ErrorKind::index, "index",
           "a tensor that is assigned to by a tensor needs a bool mask; ",
           "t:index_copy and t:index_add take numbers");
    if (v.is_number() || v.rank() == 0) {
      in_place("masked_fill", t, {over_first_axes(t, *k), v});
    } else {  // of t's dtype, as all that is written by subscripts
      in_place("index_put", t, {is_complex(v.dtype()) ? v : cast(v, t.dtype()), *k});
    }
    return;
  }
  const Tensor view = view_of(t, items_at(L, key, t));
  if (v.is_number())
    fill_(view, v);
  else
    copy_(view, v);
}

}  // namespace gradus::lua
