// Oracles of indexing by tensors and by masks, as loops over indices.
#include "tests/oracles/oracles.hpp"

#include <algorithm>

namespace gradus::inline v1::testing {

namespace {

using R = long double;
using rows::Ints;

Host reshaped(const Host& x, const Shape& sizes) { return {sizes, x.values}; }
Host flat(const Host& x) { return {{int64_t(x.values.size())}, x.values}; }
size_t dim_of(const Call& c) { return c.axis(c.integer("dim"), c.in[0].sizes.size()); }

int64_t whole(const Wide& x) { return int64_t(x.real()); }

Host scatter(const Call& c) {
  Host y = c.in[0];
  const size_t d = dim_of(c);
  for_each_index(c.in[1].sizes, [&](const Shape& i) {
    Shape to = i;
    to[d] = whole(c.in[1].at(i));
    y.values[size_t(y.offset(to))] = c.in.size() > 2 ? c.in[2].at(i) : Wide(R(c.number("value")));
  });
  return y;
}

// The slices that a one-dimensional index names: reads or changes x's element for each of them.
Host index_select(const Call& c) {
  const size_t d = dim_of(c);
  Shape sizes = c.in[0].sizes;
  sizes[d] = int64_t(c.in[1].values.size());
  return build(sizes, [&](Shape i) {
    i[d] = whole(c.in[1].values[size_t(i[d])]);
    return c.in[0].at(i);
  });
}
Host into_slices(const Call& c, const std::function<Wide(Wide, const Shape&)>& f) {
  Host y = c.in[0];
  const size_t d = dim_of(c);
  Shape sizes = y.sizes;
  sizes[d] = int64_t(c.in[1].values.size());
  for_each_index(sizes, [&](const Shape& i) {
    Shape to = i;
    to[d] = whole(c.in[1].values[size_t(i[d])]);
    Wide& place = y.values[size_t(y.offset(to))];
    place = f(place, i);
  });
  return y;
}

Shape broadcast(const std::vector<Host>& in, size_t from, size_t to) {
  Shape out;
  for (size_t k = from; k < to; ++k) {
    while (out.size() < in[k].sizes.size()) out.insert(0, 1);
    const size_t lead = out.size() - in[k].sizes.size();
    for (size_t i = 0; i < in[k].sizes.size(); ++i)
      if (in[k].sizes[i] != 1) out[lead + i] = in[k].sizes[i];
  }
  return out;
}
Wide at_broadcast(const Host& x, const Shape& i) {
  Shape own(i.begin() + (i.size() - x.sizes.size()), i.end());
  for (size_t a = 0; a < own.size(); ++a)
    if (x.sizes[a] == 1) own[a] = 0;
  return x.at(own);
}

// Calls f(place in x, index in the result) for the indices in[from..].
Shape advanced(const Call& c, size_t from, const std::function<void(Shape, const Shape&)>& f) {
  const Shape picks = broadcast(c.in, from, c.in.size());
  const size_t named = c.in.size() - from;
  Shape sizes = picks;
  for (size_t a = named; a < c.in[0].sizes.size(); ++a) sizes.push_back(c.in[0].sizes[a]);
  for_each_index(sizes, [&](const Shape& i) {
    const Shape pick(i.begin(), i.begin() + picks.size());
    Shape place;
    for (size_t k = from; k < c.in.size(); ++k) place.push_back(whole(at_broadcast(c.in[k], pick)));
    for (size_t a = picks.size(); a < i.size(); ++a) place.push_back(i[a]);
    f(place, i);
  });
  return sizes;
}
Host index(const Call& c) {
  Host y{{}, {}};
  y.sizes = advanced(
      c, 1, [&](const Shape& place, const Shape&) { y.values.push_back(c.in[0].at(place)); });
  return y;
}
Host index_put(const Call& c) {
  Host y = c.in[0];
  advanced(c, 2, [&](const Shape& place, const Shape& i) {
    Wide& to = y.values[size_t(y.offset(place))];
    to = at_broadcast(c.in[1], i) + (c.integer("accumulate") ? to : Wide(0));
  });
  return y;
}

Host put(const Call& c) {
  Host y = c.in[0];
  for (size_t i = 0; i < c.in[1].values.size(); ++i) {
    Wide& to = y.values[size_t(whole(c.in[1].values[i]))];
    to = c.in[2].values[i] + (c.integer("accumulate") ? to : Wide(0));
  }
  return y;
}
Host take(const Call& c) {
  return build(c.in[1].sizes,
               [&](const Shape& i) { return c.in[0].values[size_t(whole(c.in[1].at(i)))]; });
}

Host take_along_dim(const Call& c) {
  if (c.attr("dim").is_none()) {
    Call flattened = c;
    flattened.in[1] = flat(c.in[1]);
    return take(flattened);
  }
  const size_t d = dim_of(c);
  Shape sizes = broadcast(c.in, 0, 2);
  sizes[d] = c.in[1].sizes[d];
  return build(sizes, [&](Shape i) {
    i[d] = whole(at_broadcast(c.in[1], i));
    for (size_t a = 0; a < i.size(); ++a)
      if (a != d && c.in[0].sizes[a] == 1) i[a] = 0;
    return c.in[0].at(i);
  });
}

Host select_scatter(const Call& c) {
  const size_t d = dim_of(c);
  const int64_t n = c.in[0].sizes[d], at = (c.integer("index") + n) % n;
  return build(c.in[0].sizes, [&](const Shape& i) {
    Shape from = i;
    from.erase(d);
    return i[d] == at ? c.in[1].at(from) : c.in[0].at(i);
  });
}
Host slice_scatter(const Call& c) {
  Host y = c.in[0];
  const size_t d = dim_of(c);
  const int64_t start = c.integer("start"), n = y.sizes[d];
  for_each_index(c.in[1].sizes, [&](const Shape& i) {
    Shape to = i;
    to[d] = (start < 0 ? start + n : start) + i[d] * c.integer("step");
    y.values[size_t(y.offset(to))] = c.in[1].at(i);
  });
  return y;
}
Host diagonal_scatter(const Call& c) {
  const Shape& own = c.in[0].sizes;
  const size_t a = c.axis(c.integer("dim1"), own.size()), b = c.axis(c.integer("dim2"), own.size());
  const int64_t offset = c.integer("offset");
  return build(own, [&](const Shape& i) {
    if (i[b] - i[a] != offset) return c.in[0].at(i);
    Shape from;
    for (size_t k = 0; k < i.size(); ++k)
      if (k != a && k != b) from.push_back(i[k]);
    from.push_back(std::min(i[a], i[b]));
    return c.in[1].at(from);
  });
}

// ---- masks

bool holds(const Wide& x) { return x != Wide(0); }

Host masked_fill(const Call& c) {
  return build(broadcast(c.in, 0, 2), [&](const Shape& i) {
    const Wide value = c.in.size() > 2 ? c.in[2].values[0] : Wide(R(c.number("value")));
    return holds(at_broadcast(c.in[1], i)) ? value : at_broadcast(c.in[0], i);
  });
}
Host masked_select(const Call& c) {
  Host y{{0}, {}};
  for_each_index(broadcast(c.in, 0, 2), [&](const Shape& i) {
    if (!holds(at_broadcast(c.in[1], i))) return;
    y.values.push_back(at_broadcast(c.in[0], i));
    ++y.sizes[0];
  });
  return y;
}
Host masked_scatter(const Call& c) {
  size_t next = 0;
  return build(broadcast(c.in, 0, 2), [&](const Shape& i) {
    return holds(at_broadcast(c.in[1], i)) ? c.in[2].values[next++] : at_broadcast(c.in[0], i);
  });
}

Host nonzero(const Call& c) {
  Host y{{0, int64_t(c.in[0].sizes.size())}, {}};
  for_each_index(c.in[0].sizes, [&](const Shape& i) {
    if (!holds(c.in[0].at(i))) return;
    ++y.sizes[0];
    for (const int64_t k : i) y.values.push_back(R(k));
  });
  return y;
}

// How many elements of each group over "dim" are not 0, as `f(that, group size)`.
Host counted(const Call& c, bool keepdim, const std::function<bool(int64_t, int64_t)>& f) {
  const Shape& own = c.in[0].sizes;
  std::vector<bool> gone(own.size(), c.ints("dim").empty());
  for (const int64_t d : c.ints("dim")) gone[c.axis(d, own.size())] = true;
  Shape wide, sizes;
  int64_t group = 1;
  for (size_t a = 0; a < own.size(); ++a) {
    wide.push_back(gone[a] ? 1 : own[a]);
    if (gone[a]) group *= own[a];
    if (!gone[a] || keepdim) sizes.push_back(wide.back());
  }
  Host y = build(wide, [](const Shape&) { return Wide(0); });
  for_each_index(own, [&](Shape i) {
    const Wide x = c.in[0].at(i);
    for (size_t a = 0; a < own.size(); ++a)
      if (gone[a]) i[a] = 0;
    y.values[size_t(y.offset(i))] += holds(x) ? R(1) : R(0);
  });
  if (f)
    for (Wide& n : y.values) n = f(whole(n), group) ? R(1) : R(0);
  return reshaped(y, sizes);
}

Host one_hot(const Call& c) {
  int64_t classes = c.integer("num_classes");
  if (classes < 0)
    for (const Wide& x : c.in[0].values) classes = std::max(classes, whole(x) + 1);
  Shape sizes = c.in[0].sizes;
  sizes.push_back(classes);
  return build(sizes, [&](Shape i) {
    const int64_t k = i.back();
    i.pop_back();
    return Wide(whole(c.in[0].at(i)) == k ? 1 : 0);
  });
}

}  // namespace

void add_indexing_oracles(std::map<std::string, Oracle>& to) {
  to["scatter"] = scatter;
  to["index_select"] = index_select;
  to["index_add"] = [](const Call& c) {
    return into_slices(
        c, [&](Wide x, const Shape& i) { return x + R(c.number("alpha")) * c.in[2].at(i); });
  };
  to["index_copy"] = [](const Call& c) {
    return into_slices(c, [&](Wide, const Shape& i) { return c.in[2].at(i); });
  };
  to["index_fill"] = [](const Call& c) {
    return into_slices(c, [&](Wide, const Shape&) { return Wide(R(c.number("value"))); });
  };
  to["index"] = index;
  to["index_put"] = index_put;
  to["take"] = take;
  to["put"] = put;
  to["take_along_dim"] = take_along_dim;
  to["select_scatter"] = select_scatter;
  to["slice_scatter"] = slice_scatter;
  to["diagonal_scatter"] = diagonal_scatter;
  to["masked_fill"] = masked_fill;
  to["masked_select"] = masked_select;
  to["masked_scatter"] = masked_scatter;
  to["nonzero"] = to["argwhere"] = nonzero;
  to["count_nonzero"] = [](const Call& c) { return counted(c, false, nullptr); };
  to["any"] = [](const Call& c) {
    return counted(c, c.integer("keepdim") != 0, [](int64_t n, int64_t) { return n > 0; });
  };
  to["all"] = [](const Call& c) {
    return counted(c, c.integer("keepdim") != 0, [](int64_t n, int64_t all) { return n == all; });
  };
  to["one_hot"] = one_hot;
}

}  // namespace gradus::testing
