// Oracles of the ops that rearrange and reduce, as loops over the indices of the result.
#include "engine/abi/half.hpp"
#include "tests/oracles/oracles.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::testing {

namespace {

using R = long double;
using rows::Ints;

// The same elements in row-major order, in another shape.
Host reshaped(const Host& x, const Shape& sizes) { return {sizes, x.values}; }

int64_t from_end(int64_t i, int64_t n) { return i < 0 ? i + n : i; }

Host cast(const Call& c) {
  Host y = c.in[0];
  const DType to = c.attr("dtype").dtype();
  for (Wide& x : y.values) {
    if (to == DType::f16) x = float(Half(float(x.real())));
    if (to == DType::bf16) x = float(BFloat16(float(x.real())));
    if (to == DType::bool_) x = x != Wide(0) ? 1 : 0;
    if (!is_complex(to)) x = x.real();
  }
  return y;
}

Host as_strided(const Call& c) {
  return build(c.ints("size"), [&](const Shape& i) {
    int64_t at = c.integer("offset");
    for (size_t a = 0; a < i.size(); ++a) at += i[a] * c.ints("stride")[a];
    return c.in[0].values[size_t(at)];
  });
}

Host embed(const Call& c) {
  Host y = build(c.ints("shape"), [](const Shape&) { return Wide(0); });
  for_each_index(c.in[0].sizes, [&](const Shape& i) {
    int64_t at = c.integer("offset");
    for (size_t a = 0; a < i.size(); ++a) at += i[a] * c.ints("stride")[a];
    y.values[size_t(at)] = c.in[0].at(i);
  });
  return y;
}

Host to_dense(const Call& c) {
  const Ints& classes = c.ints("classes");
  Shape sizes;
  for (const int64_t k : classes) sizes.push_back(c.in[0].sizes[size_t(k)]);
  return build(sizes, [&](const Shape& i) {
    Shape at(c.in[0].sizes.size(), -1);
    for (size_t a = 0; a < i.size(); ++a) {
      int64_t& k = at[size_t(classes[a])];
      if (k >= 0 && k != i[a]) return Wide(0);
      k = i[a];
    }
    return c.in[0].at(at);
  });
}

Host reshape(const Call& c) {
  Shape sizes = c.ints("shape");
  int64_t known = 1;
  for (const int64_t n : sizes) known *= n < 0 ? 1 : n;
  for (int64_t& n : sizes)
    if (n < 0) n = int64_t(c.in[0].values.size()) / known;
  return reshaped(c.in[0], sizes);
}

Host permuted(const Host& x, const Ints& dims) {
  Shape sizes;
  for (const int64_t d : dims) sizes.push_back(x.sizes[size_t(d)]);
  return build(sizes, [&](const Shape& i) {
    Shape from(i.size(), 0);
    for (size_t a = 0; a < i.size(); ++a) from[size_t(dims[a])] = i[a];
    return x.at(from);
  });
}

Host permute(const Call& c) {
  Ints dims = c.ints("dims");
  for (int64_t& d : dims) d = from_end(d, int64_t(dims.size()));
  return permuted(c.in[0], dims);
}

Host transpose(const Call& c) {
  const size_t rank = c.in[0].sizes.size();
  Ints dims;
  for (size_t i = 0; i < rank; ++i) dims.push_back(int64_t(i));
  std::swap(dims[c.axis(c.integer("dim0"), rank)], dims[c.axis(c.integer("dim1"), rank)]);
  return permuted(c.in[0], dims);
}

// Python's rules: bounds are clamped, a negative step runs backwards.
Host slice(const Call& c) {
  const size_t d = c.axis(c.integer("dim"), c.in[0].sizes.size());
  const int64_t n = c.in[0].sizes[d], step = c.integer("step");
  const auto bound = [&](int64_t at) {
    at = at < 0 && at > -n - 1 ? at + n : at;
    return step > 0 ? std::clamp<int64_t>(at, 0, n) : std::clamp<int64_t>(at, -1, n - 1);
  };
  std::vector<int64_t> picked;
  for (int64_t i = bound(c.integer("start"));
       step > 0 ? i < bound(c.integer("end")) : i > bound(c.integer("end")); i += step)
    picked.push_back(i);
  Shape sizes = c.in[0].sizes;
  sizes[d] = int64_t(picked.size());
  return build(sizes, [&](Shape i) {
    i[d] = picked[size_t(i[d])];
    return c.in[0].at(i);
  });
}

Host select(const Call& c) {
  const size_t d = c.axis(c.integer("dim"), c.in[0].sizes.size());
  const int64_t at = from_end(c.integer("index"), c.in[0].sizes[d]);
  Shape sizes = c.in[0].sizes;
  sizes.erase(d);
  return build(sizes, [&](Shape i) {
    i.insert(d, at);
    return c.in[0].at(i);
  });
}

Host expand(const Call& c) {
  const Shape& own = c.in[0].sizes;
  Shape sizes = c.ints("size");
  const size_t lead = sizes.size() - own.size();
  for (size_t i = lead; i < sizes.size(); ++i)
    if (sizes[i] < 0) sizes[i] = own[i - lead];
  return build(sizes, [&](const Shape& i) {
    Shape from(i.begin() + lead, i.end());
    for (size_t a = 0; a < own.size(); ++a)
      if (own[a] == 1) from[a] = 0;
    return c.in[0].at(from);
  });
}

Host flip(const Call& c) {
  if (c.in[0].sizes.empty()) return c.in[0];
  return build(c.in[0].sizes, [&](Shape i) {
    for (const int64_t d : c.ints("dims")) {
      const size_t a = c.axis(d, i.size());
      i[a] = c.in[0].sizes[a] - 1 - i[a];
    }
    return c.in[0].at(i);
  });
}

Host diagonal(const Call& c) {
  const size_t rank = c.in[0].sizes.size();
  const size_t a = c.axis(c.integer("dim1"), rank), b = c.axis(c.integer("dim2"), rank);
  const int64_t offset = c.integer("offset");
  const int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  Shape sizes;
  for (size_t i = 0; i < rank; ++i)
    if (i != a && i != b) sizes.push_back(c.in[0].sizes[i]);
  sizes.push_back(std::min(c.in[0].sizes[a] - down, c.in[0].sizes[b] - right));
  return build(sizes, [&](const Shape& i) {
    Shape from;
    size_t next = 0;
    for (size_t k = 0; k < rank; ++k)
      from.push_back(k == a ? i.end()[-1] + down : k == b ? i.end()[-1] + right : i[next++]);
    return c.in[0].at(from);
  });
}

Host squeeze(const Call& c) {
  const Shape& own = c.in[0].sizes;
  Shape sizes;
  for (size_t i = 0; i < own.size(); ++i) {
    bool drop = c.attr("dim").is_none();
    for (const int64_t d : c.ints("dim")) drop |= c.axis(d, own.size()) == i;
    if (!drop || own[i] != 1) sizes.push_back(own[i]);
  }
  return reshaped(c.in[0], sizes);
}

Host unsqueeze(const Call& c) {
  Shape sizes = c.in[0].sizes;
  sizes.insert(c.axis(c.integer("dim"), sizes.size() + 1), 1);
  return reshaped(c.in[0], sizes);
}

Host joined(const std::vector<Host>& parts, size_t d) {
  Shape sizes = parts[0].sizes;
  sizes[d] = 0;
  for (const Host& p : parts) sizes[d] += p.sizes[d];
  return build(sizes, [&](Shape i) {
    size_t k = 0;
    while (i[d] >= parts[k].sizes[d]) i[d] -= parts[k++].sizes[d];
    return parts[k].at(i);
  });
}

Host stack(const Call& c) {
  const size_t d = c.axis(c.integer("dim"), c.in[0].sizes.size() + 1);
  std::vector<Host> parts;
  for (const Host& x : c.in) {
    Shape sizes = x.sizes;
    sizes.insert(d, 1);
    parts.push_back(reshaped(x, sizes));
  }
  return joined(parts, d);
}

Host pad(const Call& c) {
  const Ints& widths = c.ints("pad");
  const size_t rank = c.in[0].sizes.size();
  Shape sizes = c.in[0].sizes, before(rank, 0);
  for (size_t i = 0; i < widths.size(); i += 2) {
    const size_t axis = rank - 1 - i / 2;
    before[axis] = widths[i];
    sizes[axis] += widths[i] + widths[i + 1];
  }
  return build(sizes, [&](Shape i) {
    for (size_t a = 0; a < rank; ++a) {
      i[a] -= before[a];
      if (i[a] < 0 || i[a] >= c.in[0].sizes[a]) return Wide(c.number("value"));
    }
    return c.in[0].at(i);
  });
}

// ---- reductions

using Group = std::vector<Wide>;

Host reduced(const Call& c, const Ints& dims, bool all, bool keepdim,
             const std::function<Wide(const Group&)>& f) {
  const Shape& own = c.in[0].sizes;
  std::vector<bool> gone(std::max<size_t>(1, own.size()), all);  // a 0-d tensor may name axis 0
  for (const int64_t d : dims) gone[c.axis(d, gone.size())] = true;
  Shape outer, inner, sizes;
  for (size_t i = 0; i < own.size(); ++i) {
    outer.push_back(gone[i] ? 1 : own[i]);
    inner.push_back(gone[i] ? own[i] : 1);
    if (!gone[i] || keepdim) sizes.push_back(gone[i] ? 1 : own[i]);
  }
  const Host wide = build(outer, [&](const Shape& i) {
    Group group;
    for_each_index(inner, [&](Shape k) {
      for (size_t a = 0; a < own.size(); ++a) k[a] += i[a];
      group.push_back(c.in[0].at(k));
    });
    return f(group);
  });
  return reshaped(wide, sizes);
}

// The reduction of a group, over "dim" (a list, or left out for all) and "keepdim".
Oracle reduction(std::function<Wide(const Call&, const Group&)> f) {
  return [f](const Call& c) {
    return reduced(c, c.ints("dim"), c.ints("dim").empty(), c.integer("keepdim") != 0,
                   [&](const Group& g) { return f(c, g); });
  };
}

Wide total(const Group& g) {
  Wide sum = 0;
  for (size_t i = g.size(); i-- > 0;) sum += g[i];
  return sum;
}

// By E|x|^2 - |E x|^2.
R variance(const Call& c, const Group& g) {
  const R n = R(g.size());
  R squares = 0;
  for (const Wide& x : g) squares += std::norm(x);
  return (squares / n - std::norm(total(g) / n)) * n / (n - c.number("correction"));
}

Host argmax(const Call& c) {
  const bool all = c.attr("dim").is_none();
  return reduced(c, all ? Ints{} : Ints{c.integer("dim")}, all, !all && c.integer("keepdim") != 0,
                 [](const Group& g) {
                   const auto less = [](const Wide& a, const Wide& b) {
                     return a.real() < b.real();
                   };
                   return Wide(R(std::max_element(g.begin(), g.end(), less) - g.begin()));
                 });
}

Host cumsum(const Call& c) {
  const Shape& own = c.in[0].sizes;
  if (own.empty()) return c.in[0];
  const size_t d = c.axis(c.integer("dim"), own.size());
  const bool reverse = c.integer("reverse") != 0;
  return build(own, [&](const Shape& i) {
    Wide sum = 0;
    for (int64_t k = reverse ? i[d] : 0; k < (reverse ? own[d] : i[d] + 1); ++k) {
      Shape at = i;
      at[d] = k;
      sum += c.in[0].at(at);
    }
    return sum;
  });
}

Host sum_to(const Call& c) {
  const Shape &own = c.in[0].sizes, &sizes = c.ints("size");
  Host y = build(sizes, [](const Shape&) { return Wide(0); });
  for_each_index(own, [&](const Shape& i) {
    Shape to(i.begin() + (own.size() - sizes.size()), i.end());
    for (size_t a = 0; a < sizes.size(); ++a)
      if (sizes[a] == 1) to[a] = 0;
    y.values[size_t(y.offset(to))] += c.in[0].at(i);
  });
  return y;
}

// The other way round: each place of x asks whether an element of src lands on it.
Host as_strided_scatter(const Call& c) {
  const Ints& strides = c.ints("stride");
  Host y = c.in[0];
  for_each_index(c.in[1].sizes, [&](const Shape& i) {
    int64_t place = c.integer("offset");
    for (size_t a = 0; a < i.size(); ++a) place += i[a] * strides[a];
    y.values[size_t(place)] = c.in[1].at(i);
  });
  return y;
}

}  // namespace

void add_structured_oracles(std::map<std::string, Oracle>& to) {
  const auto same = [](const Call& c) { return c.in[0]; };
  to["cast"] = cast;
  to["contiguous"] = to["clone"] = same;
  to["as_strided"] = as_strided;
  to["as_strided_scatter"] = as_strided_scatter;
  to["embed"] = embed;
  to["to_dense"] = to_dense;
  to["reshape"] = reshape;
  to["permute"] = permute;
  to["transpose"] = transpose;
  to["slice"] = slice;
  to["select"] = select;
  to["expand"] = expand;
  to["flip"] = flip;
  to["diagonal"] = diagonal;
  to["squeeze"] = squeeze;
  to["unsqueeze"] = unsqueeze;
  to["cat"] = [](const Call& c) {
    return joined(c.in, c.axis(c.integer("dim"), c.in[0].sizes.size()));
  };
  to["stack"] = stack;
  to["pad"] = pad;
  to["sum"] = reduction([](const Call&, const Group& g) { return total(g); });
  to["mean"] = reduction([](const Call&, const Group& g) { return total(g) / R(g.size()); });
  to["prod"] = reduction([](const Call&, const Group& g) {
    Wide product = 1;
    for (const Wide& x : g) product *= x;
    return product;
  });
  const auto less = [](const Wide& a, const Wide& b) { return a.real() < b.real(); };
  to["amax"] = reduction(
      [=](const Call&, const Group& g) { return *std::max_element(g.begin(), g.end(), less); });
  to["amin"] = reduction(
      [=](const Call&, const Group& g) { return *std::min_element(g.begin(), g.end(), less); });
  to["argmax"] = argmax;
  to["var"] = reduction([](const Call& c, const Group& g) { return variance(c, g); });
  to["std"] = reduction([](const Call& c, const Group& g) { return std::sqrt(variance(c, g)); });
  to["logsumexp"] = reduction([](const Call&, const Group& g) {
    Wide sum = 0;
    for (const Wide& x : g) sum += std::exp(x);
    return std::log(sum);
  });
  to["cumsum"] = cumsum;
  to["sum_to"] = sum_to;
}

}  // namespace gradus::testing
