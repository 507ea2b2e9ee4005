// Oracles of the ops that rearrange, repeat and make tensors, as loops over the
// indices of the result.
#include "engine/abi/half.hpp"
#include "tests/oracles/oracles.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::testing {

namespace {

using R = long double;
using rows::Ints;

int64_t modulo(int64_t i, int64_t n) { return ((i % n) + n) % n; }
Host reshaped(const Host& x, const Shape& sizes) { return {sizes, x.values}; }
int64_t count(const Host& x) { return int64_t(x.values.size()); }
size_t rank_of(const Call& c) { return c.in[0].sizes.size(); }
size_t dim_of(const Call& c) { return c.axis(c.integer("dim"), rank_of(c)); }

// The elements of x at the places that `from` gives for the indices of the result.
Host moved(const Host& x, const Shape& sizes, const std::function<Shape(Shape)>& from) {
  return build(sizes, [&](const Shape& i) { return x.at(from(i)); });
}

Host roll(const Call& c) {
  const Host& x = c.in[0];
  const Ints &shifts = c.ints("shifts"), &dims = c.ints("dims");
  if (dims.empty()) {
    Host y = x;
    for (int64_t i = 0; i < count(x); ++i)
      y.values[size_t(modulo(i + shifts[0], count(x)))] = x.values[size_t(i)];
    return y;
  }
  return moved(x, x.sizes, [&](Shape i) {
    for (size_t k = 0; k < dims.size(); ++k) {
      int64_t& at = i[c.axis(dims[k], i.size())];
      at = modulo(at - shifts[k], x.sizes[c.axis(dims[k], i.size())]);
    }
    return i;
  });
}

Host reversed(const Host& x, size_t d) {
  return moved(x, x.sizes, [&](Shape i) {
    i[d] = x.sizes[d] - 1 - i[d];
    return i;
  });
}

// One quarter at a time.
Host rot90(const Call& c) {
  const size_t a = c.axis(c.ints("dims")[0], rank_of(c)), b = c.axis(c.ints("dims")[1], rank_of(c));
  Host x = c.in[0];
  for (int64_t turn = modulo(c.integer("k"), 4); turn > 0; --turn) {
    Shape sizes = x.sizes;
    std::swap(sizes[a], sizes[b]);
    x = moved(x, sizes, [&](Shape i) {
      const int64_t row = i[a];
      i[a] = i[b];
      i[b] = x.sizes[b] - 1 - row;
      return i;
    });
  }
  return x;
}

Host movedim(const Call& c) {
  const size_t rank = rank_of(c);
  std::vector<int64_t> from(rank, -1);  // of each axis of the result
  std::vector<bool> used(rank, false);
  for (size_t k = 0; k < c.ints("source").size(); ++k) {
    from[c.axis(c.ints("destination")[k], rank)] = int64_t(c.axis(c.ints("source")[k], rank));
    used[c.axis(c.ints("source")[k], rank)] = true;
  }
  size_t next = 0;
  Shape sizes;
  for (int64_t& axis : from) {
    if (axis < 0) {
      while (used[next]) ++next;
      axis = int64_t(next++);
    }
    sizes.push_back(c.in[0].sizes[size_t(axis)]);
  }
  return moved(c.in[0], sizes, [&](const Shape& i) {
    Shape own(rank, 0);
    for (size_t a = 0; a < rank; ++a) own[size_t(from[a])] = i[a];
    return own;
  });
}

Host flatten(const Call& c) {
  const Shape& own = c.in[0].sizes;
  if (own.empty()) return reshaped(c.in[0], {1});
  const size_t first = c.axis(c.integer("start_dim"), own.size()),
               last = c.axis(c.integer("end_dim"), own.size());
  Shape sizes(own.begin(), own.begin() + first);
  int64_t joined = 1;
  for (size_t a = first; a <= last; ++a) joined *= own[a];
  sizes.push_back(joined);
  for (size_t a = last + 1; a < own.size(); ++a) sizes.push_back(own[a]);
  return reshaped(c.in[0], sizes);
}
Host unflatten(const Call& c) {
  Shape sizes = c.in[0].sizes;
  const size_t d = dim_of(c);
  int64_t left = sizes[d];
  for (const int64_t s : c.ints("sizes"))
    if (s > 0) left /= s;
  sizes.erase(d);
  for (size_t k = 0; k < c.ints("sizes").size(); ++k) {
    const int64_t s = c.ints("sizes")[k];
    sizes.insert(d + k, s < 0 ? left : s);
  }
  return reshaped(c.in[0], sizes);
}

Host triangle(const Call& c, bool lower) {
  const int64_t k = c.integer("diagonal");
  return build(c.in[0].sizes, [&](const Shape& i) {
    const int64_t place = i.end()[-1] - i.end()[-2];
    return (lower ? place <= k : place >= k) ? c.in[0].at(i) : Wide(0);
  });
}

Host diag_embed(const Host& x, int64_t offset, size_t a, size_t b) {
  const int64_t m = x.sizes.back() + std::abs(offset);
  Shape sizes(x.sizes.begin(), x.sizes.end() - 1);
  sizes.insert(std::min(a, b), m);
  sizes.insert(std::max(a, b), m);
  return build(sizes, [&](const Shape& i) {
    if (i[b] - i[a] != offset) return Wide(0);
    Shape from;
    for (size_t k = 0; k < i.size(); ++k)
      if (k != a && k != b) from.push_back(i[k]);
    from.push_back(std::min(i[a], i[b]));
    return x.at(from);
  });
}
Host diag(const Call& c) {
  const Host& x = c.in[0];
  const int64_t k = c.integer("diagonal");
  if (x.sizes.size() == 1) return diag_embed(x, k, 0, 1);
  Host y{{0}, {}};
  for_each_index(x.sizes, [&](const Shape& i) {
    if (i[1] - i[0] == k) y.values.push_back(x.at(i));
  });
  y.sizes = {count(y)};
  return y;
}
Host trace(const Call& c) {
  Wide sum = 0;
  for_each_index(c.in[0].sizes, [&](const Shape& i) {
    if (i[0] == i[1]) sum += c.in[0].at(i);
  });
  return {{}, {sum}};
}

// `times` per axis, from the last.
Host repeated(const Host& x, Ints times) {
  while (times.size() < x.sizes.size()) times.insert(0, 1);
  const size_t lead = times.size() - x.sizes.size();
  Shape sizes = times;
  for (size_t a = lead; a < times.size(); ++a) sizes[a] *= x.sizes[a - lead];
  return moved(x, sizes, [&](const Shape& i) {
    Shape from(i.begin() + lead, i.end());
    for (size_t a = 0; a < from.size(); ++a) from[a] %= x.sizes[a];
    return from;
  });
}
Host repeat_interleave(const Call& c) {
  const int64_t times = c.integer("repeats");
  const bool all = c.attr("dim").is_none();
  const Host x = all ? reshaped(c.in[0], {count(c.in[0])}) : c.in[0];
  const size_t d = all ? 0 : dim_of(c);
  Shape sizes = x.sizes;
  sizes[d] *= times;
  return moved(x, sizes, [&](Shape i) {
    i[d] /= times;
    return i;
  });
}

Shape common(const std::vector<Host>& in) {
  Shape out;
  for (const Host& x : in) {
    while (out.size() < x.sizes.size()) out.insert(0, 1);
    for (size_t i = 0; i < x.sizes.size(); ++i)
      if (x.sizes[i] != 1) out[out.size() - x.sizes.size() + i] = x.sizes[i];
  }
  return out;
}
Host broadcast(const Host& x, const Shape& sizes) {
  return moved(x, sizes, [&](const Shape& i) {
    Shape own(i.begin() + (i.size() - x.sizes.size()), i.end());
    for (size_t a = 0; a < own.size(); ++a) own[a] = std::min(own[a], x.sizes[a] - 1);
    return own;
  });
}
Hosts broadcast_tensors(const Call& c) {
  Hosts out{};
  for (const Host& x : c.in) out.push_back(broadcast(x, common(c.in)));
  return out;
}
Hosts meshgrid(const Call& c) {
  const bool xy = c.text("indexing") == "xy" && c.in.size() > 1;
  const auto axis = [&](size_t k) { return xy && k < 2 ? 1 - k : k; };
  Shape sizes(c.in.size(), 0);
  for (size_t k = 0; k < c.in.size(); ++k) sizes[axis(k)] = count(c.in[k]);
  Hosts out{};
  for (size_t k = 0; k < c.in.size(); ++k)
    out.push_back(build(sizes, [&](const Shape& i) { return c.in[k].values[size_t(i[axis(k)])]; }));
  return out;
}

Host kron(const Call& c) {
  Host a = c.in[0], b = c.in[1];
  while (a.sizes.size() < b.sizes.size()) a.sizes.insert(0, 1);
  while (b.sizes.size() < a.sizes.size()) b.sizes.insert(0, 1);
  Shape sizes = a.sizes;
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] *= b.sizes[i];
  return build(sizes, [&](const Shape& i) {
    Shape of_a = i, of_b = i;
    for (size_t k = 0; k < i.size(); ++k) {
      of_a[k] /= b.sizes[k];
      of_b[k] %= b.sizes[k];
    }
    return a.at(of_a) * b.at(of_b);
  });
}
Host cross(const Call& c) {
  const Shape sizes = common(c.in);
  const Host a = broadcast(c.in[0], sizes), b = broadcast(c.in[1], sizes);
  const size_t d = c.axis(c.integer("dim"), sizes.size());
  return build(sizes, [&](const Shape& i) {
    // By the sign of each permutation.
    Wide sum = 0;
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 3; ++k) {
        const int64_t sign = (i[d] - j) * (j - k) * (k - i[d]) / 2;
        Shape at_a = i, at_b = i;
        at_a[d] = j;
        at_b[d] = k;
        sum += R(sign) * a.at(at_a) * b.at(at_b);
      }
    return sum;
  });
}

// Stretches of an axis with these lengths.
Hosts cut(const Host& x, size_t d, const std::vector<int64_t>& lengths) {
  Hosts out{};
  int64_t start = 0;
  for (const int64_t length : lengths) {
    Shape sizes = x.sizes;
    sizes[d] = length;
    out.push_back(moved(x, sizes, [&](Shape i) {
      i[d] += start;
      return i;
    }));
    start += length;
  }
  return out;
}
Hosts split(const Call& c) {
  const Ints& sections = c.ints("split_size_or_sections");
  std::vector<int64_t> lengths(sections.begin(), sections.end());
  int64_t left = c.in[0].sizes[dim_of(c)];
  if (lengths.size() == 1) {
    const int64_t size = lengths[0];
    lengths.clear();
    do lengths.push_back(std::min(size, left));
    while ((left -= size) > 0);
  }
  return cut(c.in[0], dim_of(c), lengths);
}
Hosts chunk(const Call& c) {
  const int64_t n = c.in[0].sizes[dim_of(c)], chunks = c.integer("chunks");
  if (n == 0) return cut(c.in[0], dim_of(c), std::vector<int64_t>(size_t(chunks), 0));
  const int64_t size = int64_t(std::ceil(R(n) / R(chunks)));
  std::vector<int64_t> lengths(size_t(n / size), size);
  if (n % size) lengths.push_back(n % size);
  return cut(c.in[0], dim_of(c), lengths);
}
Hosts unbind(const Call& c) {
  const size_t d = dim_of(c);
  Hosts out{};
  for (Host& part : cut(c.in[0], d, std::vector<int64_t>(size_t(c.in[0].sizes[d]), 1))) {
    part.sizes.erase(d);
    out.push_back(std::move(part));
  }
  return out;
}

// The parts, given the shape that `grown` makes of theirs, side by side on an axis.
Host joined(const Call& c, size_t d, const std::function<Shape(Shape)>& grown) {
  std::vector<Host> parts;
  for (const Host& x : c.in) parts.push_back(reshaped(x, grown(x.sizes)));
  Shape sizes = parts[0].sizes;
  const int64_t each = sizes[d];
  sizes[d] = each * int64_t(parts.size());
  return build(sizes, [&](Shape i) {
    const size_t k = size_t(i[d] / each);
    i[d] %= each;
    return parts[k].at(i);
  });
}

// ---- made from a shape

Host filled(const Shape& sizes, Wide value) {
  return build(sizes, [&](const Shape&) { return value; });
}
Wide narrowed(R x, DType to) { return to == DType::f16 ? Wide(float(Half(float(x)))) : Wide(x); }

Host arange(const Call& c) {
  const R start = c.number("start"), end = c.number("end"), step = c.number("step");
  const DType dtype = c.attr("dtype").is_none() ? DType::f32 : c.attr("dtype").dtype();
  Host y{{0}, {}};
  for (R k = 0; step > 0 ? start + k * step < end : start + k * step > end; ++k)
    y.values.push_back(narrowed(start + k * step, dtype));
  y.sizes = {count(y)};
  return y;
}
Host linspace(const Call& c) {
  const R start = c.number("start"), end = c.number("end"), n = R(c.integer("steps"));
  return build({c.integer("steps")}, [&](const Shape& i) {
    const R t = n > 1 ? R(i[0]) / (n - 1) : 0;
    return Wide((1 - t) * start + t * end);
  });
}
Host eye(const Call& c) {
  const int64_t n = c.integer("n");
  return build({n, c.attr("m").is_none() ? n : c.integer("m")},
               [](const Shape& i) { return Wide(i[0] == i[1] ? 1 : 0); });
}

void add_moved(std::map<std::string, Oracle>& to) {
  to["roll"] = roll;
  to["fliplr"] = [](const Call& c) { return Hosts(reversed(c.in[0], 1)); };
  to["flipud"] = [](const Call& c) { return Hosts(reversed(c.in[0], 0)); };
  to["rot90"] = rot90;
  to["movedim"] = movedim;
  to["flatten"] = flatten;
  to["ravel"] = [](const Call& c) { return Hosts(reshaped(c.in[0], {count(c.in[0])})); };
  to["unflatten"] = unflatten;
  to["tril"] = [](const Call& c) { return Hosts(triangle(c, true)); };
  to["triu"] = [](const Call& c) { return Hosts(triangle(c, false)); };
  to["diag"] = diag;
  to["diag_embed"] = [](const Call& c) {
    const size_t rank = rank_of(c) + 1;
    return Hosts(diag_embed(c.in[0], c.integer("offset"), c.axis(c.integer("dim1"), rank),
                            c.axis(c.integer("dim2"), rank)));
  };
  to["trace"] = trace;
}

void add_repeated(std::map<std::string, Oracle>& to) {
  to["repeat"] = [](const Call& c) { return Hosts(repeated(c.in[0], c.ints("repeats"))); };
  to["tile"] = [](const Call& c) { return Hosts(repeated(c.in[0], c.ints("dims"))); };
  to["repeat_interleave"] = repeat_interleave;
  to["broadcast_to"] = [](const Call& c) { return Hosts(broadcast(c.in[0], c.ints("size"))); };
  to["broadcast_tensors"] = broadcast_tensors;
  to["meshgrid"] = meshgrid;
  to["kron"] = kron;
  to["cross"] = cross;
}

void add_parts(std::map<std::string, Oracle>& to) {
  to["narrow"] = [](const Call& c) {
    const size_t d = dim_of(c);
    const int64_t n = c.in[0].sizes[d], start = c.integer("start");
    const int64_t first = start < 0 ? n + start : start, length = c.integer("length");
    return Hosts(cut(c.in[0], d, {first, length, n - first - length})[1]);
  };
  to["split"] = split;
  to["chunk"] = chunk;
  to["unbind"] = unbind;
  const auto front = [](int64_t rank) {
    return [rank](Shape s) {
      while (int64_t(s.size()) < rank) s.insert(0, 1);
      return s;
    };
  };
  to["hstack"] = [=](const Call& c) { return Hosts(joined(c, rank_of(c) > 1, front(1))); };
  to["vstack"] = [=](const Call& c) { return Hosts(joined(c, 0, front(2))); };
  to["dstack"] = [](const Call& c) {
    return Hosts(joined(c, 2, [](const Shape& s) {
      if (s.size() > 2) return s;
      return s.size() == 2 ? Shape{s[0], s[1], 1} : Shape{1, s.empty() ? 1 : s[0], 1};
    }));
  };
  to["column_stack"] = [](const Call& c) {
    return Hosts(joined(c, 1, [](const Shape& s) {
      return s.size() > 1 ? s : Shape{s.empty() ? 1 : s[0], 1};
    }));
  };
}

void add_made(std::map<std::string, Oracle>& to) {
  to["full"] = [](const Call& c) {
    return Hosts(filled(c.ints("size"), R(c.number("fill_value"))));
  };
  to["zeros"] = [](const Call& c) { return Hosts(filled(c.ints("size"), 0)); };
  to["ones"] = [](const Call& c) { return Hosts(filled(c.ints("size"), 1)); };
  to["zeros_like"] = [](const Call& c) { return Hosts(filled(c.in[0].sizes, 0)); };
  to["ones_like"] = [](const Call& c) { return Hosts(filled(c.in[0].sizes, 1)); };
  to["full_like"] = [](const Call& c) {
    return Hosts(filled(c.in[0].sizes, R(c.number("fill_value"))));
  };
  to["eye"] = eye;
  to["arange"] = arange;
  to["linspace"] = linspace;
}

}  // namespace

void add_rearrange_oracles(std::map<std::string, Oracle>& to) {
  add_moved(to);
  add_repeated(to);
  add_parts(to);
  add_made(to);
}

}  // namespace gradus::testing
