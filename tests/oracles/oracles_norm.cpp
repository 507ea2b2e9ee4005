// Oracles and bad inputs of norms and normalisation layers. A variance is half the mean square of
// all differences; a norm is taken over a list of the elements.
#include "tests/helpers/not_finite.hpp"
#include "tests/oracles/oracles.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gradus::inline v1::testing {

namespace {

using R = long double;
using rows::Ints;
using List = std::vector<Wide>;

// ---- over axes

std::vector<bool> marked(const Call& c, const Ints& dims, size_t rank) {
  std::vector<bool> axes(rank, dims.empty());
  for (const int64_t d : dims) axes[c.axis(d, rank)] = true;
  return axes;
}

// f of the elements of x that agree with i off the marked axes.
Host folded(const Host& x, const std::vector<bool>& axes, bool keepdim,
            const std::function<Wide(const List&)>& f) {
  Shape kept = x.sizes, sizes;
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a]) kept[a] = 1;
    if (!axes[a] || keepdim) sizes.push_back(kept[a]);
  }
  const Host y = build(kept, [&](const Shape& i) {
    List list;
    for_each_index(x.sizes, [&](const Shape& j) {
      bool same = true;
      for (size_t a = 0; a < axes.size(); ++a) same = same && (axes[a] || i[a] == j[a]);
      if (same) list.push_back(x.at(j));
    });
    return f(list);
  });
  return {sizes, y.values};
}

R norm_of(const List& x, R p) {
  R sum = 0, largest = 0, least = std::numeric_limits<R>::infinity();
  for (const Wide& v : x) {
    const R size = std::hypot(v.real(), v.imag());
    largest = std::fmax(largest, size);
    least = std::fmin(least, size);
    sum += p == 0 ? R(size != 0) : std::pow(size, p);
  }
  if (std::isinf(p)) return p > 0 ? largest : least;
  return p == 0 ? sum : std::pow(sum, 1 / p);
}

Wide mean_of(const List& x) {
  Wide sum = 0;
  for (const Wide& v : x) sum += v;
  return sum / R(x.size());
}
R var_of(const List& x, R correction) {
  R sum = 0;
  for (const Wide& a : x)
    for (const Wide& b : x) sum += std::norm(a - b);
  return sum / (2 * R(x.size())) / (R(x.size()) - correction);
}

Host norm(const Call& c) {
  const Host& x = c.in[0];
  return folded(x, marked(c, c.ints("dim"), x.sizes.size()), c.integer("keepdim") != 0,
                [&](const List& v) { return Wide(norm_of(v, c.number("p"))); });
}

// x as it broadcasts to these sizes.
Host spread_to(const Host& x, const Shape& sizes) {
  return build(sizes, [&](const Shape& i) {
    Shape own(i.begin() + (i.size() - x.sizes.size()), i.end());
    for (size_t a = 0; a < own.size(); ++a)
      if (x.sizes[a] == 1) own[a] = 0;
    return x.at(own);
  });
}
Shape common(const Shape& a, const Shape& b) {
  Shape out = a.size() >= b.size() ? a : b;
  const Shape& other = a.size() >= b.size() ? b : a;
  const size_t lead = out.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i)
    if (other[i] != 1) out[lead + i] = other[i];
  return out;
}

Host normalize(const Call& c) {
  const Host& x = c.in[0];
  const Host n = folded(x, marked(c, c.ints("dim"), x.sizes.size()), true, [&](const List& v) {
    return Wide(std::fmax(norm_of(v, c.number("p")), R(c.number("eps"))));
  });
  const Host wide = spread_to(n, x.sizes);
  Host y = x;
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] /= wide.values[i];
  return y;
}

Host cosine_similarity(const Call& c) {
  const Shape sizes = common(c.in[0].sizes, c.in[1].sizes);
  const Host a = spread_to(c.in[0], sizes), b = spread_to(c.in[1], sizes);
  const R eps = c.number("eps");
  // Pairs of elements as complex numbers, so that one fold sees both.
  Host both = a;
  for (size_t i = 0; i < both.values.size(); ++i)
    both.values[i] = {a.values[i].real(), b.values[i].real()};
  return folded(both, marked(c, {c.integer("dim")}, sizes.size()), false, [&](const List& v) {
    R dot = 0, aa = 0, bb = 0;
    for (const Wide& z : v) {
      dot += z.real() * z.imag();
      aa += z.real() * z.real();
      bb += z.imag() * z.imag();
    }
    return Wide(dot / std::fmax(std::sqrt(aa), eps) / std::fmax(std::sqrt(bb), eps));
  });
}

Host difference(const Host& x, const Host& y, R shift) {
  const Shape sizes = common(x.sizes, y.sizes);
  Host d = spread_to(x, sizes);
  const Host other = spread_to(y, sizes);
  for (size_t i = 0; i < d.values.size(); ++i) d.values[i] += shift - other.values[i];
  return d;
}

Host pairwise_distance(const Call& c) {
  const Host d = difference(c.in[0], c.in[1], c.number("eps"));
  return folded(d, marked(c, {-1}, d.sizes.size()), c.integer("keepdim") != 0,
                [&](const List& v) { return Wide(norm_of(v, c.number("p"))); });
}

Host dist(const Call& c) {
  return {{}, {Wide(norm_of(difference(c.in[0], c.in[1], 0).values, c.number("p")))}};
}

Host cdist(const Call& c) {
  Shape a = c.in[0].sizes, b = c.in[1].sizes;
  const int64_t p = a.end()[-2], r = b.end()[-2], m = a.back();
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  Shape sizes = common(a, b);
  const auto row = [&](const Host& x, const Shape& i, int64_t n, int64_t k) {
    Shape at(i.begin() + (i.size() - x.sizes.size()), i.end() - 2);
    for (size_t axis = 0; axis < at.size(); ++axis)
      if (x.sizes[axis] == 1) at[axis] = 0;
    at.push_back(n);
    at.push_back(k);
    return x.at(at);
  };
  sizes.push_back(p);
  sizes.push_back(r);
  return build(sizes, [&](const Shape& i) {
    List v;
    for (int64_t k = 0; k < m; ++k)
      v.push_back(row(c.in[0], i, i.end()[-2], k) - row(c.in[1], i, i.back(), k));
    return Wide(norm_of(v, c.number("p")));
  });
}

Oracle spread_and_mean(bool root) {
  return [=](const Call& c) {
    const Host& x = c.in[0];
    const auto axes = marked(c, c.ints("dim"), x.sizes.size());
    const bool keepdim = c.integer("keepdim") != 0;
    return Hosts{folded(x, axes, keepdim,
                        [&](const List& v) {
                          const R var = var_of(v, c.number("correction"));
                          return Wide(root ? std::sqrt(var) : var);
                        }),
                 folded(x, axes, keepdim, mean_of)};
  };
}

// ---- normalisation layers

using Together = std::function<bool(const Shape&, const Shape&)>;
using Own = std::function<Shape(const Shape&)>;  // where an element's weight and bias stand

// The oracle of a layer whose elements i and j are normalised together.
Host layer(const Call& c, const Together& together, const Own& own, size_t first_parameter) {
  const Host& x = c.in[0];
  return build(x.sizes, [&](const Shape& i) {
    List group;
    for_each_index(x.sizes, [&](const Shape& j) {
      if (together(i, j)) group.push_back(x.at(j));
    });
    Wide y = (x.at(i) - mean_of(group)) / std::sqrt(var_of(group, 0) + R(c.number("eps")));
    if (c.in.size() > first_parameter) y *= c.in[first_parameter].at(own(i));
    if (c.in.size() > first_parameter + 1) y += c.in[first_parameter + 1].at(own(i));
    return y;
  });
}

Shape channel(const Shape& i) { return {i[1]}; }
Shape tail(const Shape& i, size_t n) { return Shape(i.end() - n, i.end()); }
Shape head(const Shape& i, size_t n) { return Shape(i.begin(), i.end() - n); }

Host layer_norm(const Call& c) {
  const size_t n = c.ints("normalized_shape").size();
  return layer(
      c, [=](const Shape& i, const Shape& j) { return head(i, n) == head(j, n); },
      [=](const Shape& i) { return tail(i, n); }, 1);
}
Host group_norm(const Call& c) {
  const int64_t width = c.in[0].sizes[1] / c.integer("num_groups");
  return layer(
      c,
      [=](const Shape& i, const Shape& j) { return i[0] == j[0] && i[1] / width == j[1] / width; },
      channel, 1);
}
Host instance_norm(const Call& c) {
  return layer(
      c, [](const Shape& i, const Shape& j) { return i[0] == j[0] && i[1] == j[1]; }, channel, 1);
}
Host batch_norm(const Call& c) {
  if (c.integer("training"))
    return layer(
        c, [](const Shape& i, const Shape& j) { return i[1] == j[1]; }, channel, 3);
  return build(c.in[0].sizes, [&](const Shape& i) {
    const Shape at = channel(i);
    const R deviation = std::sqrt(c.in[2].at(at).real() + R(c.number("eps")));
    Wide y = (c.in[0].at(i) - c.in[1].at(at)) / deviation;
    if (c.in.size() > 3) y *= c.in[3].at(at);
    if (c.in.size() > 4) y += c.in[4].at(at);
    return y;
  });
}

Host rms_norm(const Call& c) {
  const Host& x = c.in[0];
  const size_t n = c.ints("normalized_shape").size();
  return build(x.sizes, [&](const Shape& i) {
    R sum = 0, count = 0;
    for_each_index(x.sizes, [&](const Shape& j) {
      if (!(head(i, n) == head(j, n))) return;
      sum += std::norm(x.at(j));
      ++count;
    });
    const Wide y = x.at(i) / std::sqrt(sum / count + R(c.number("eps")));
    return c.in.size() > 1 ? y * c.in[1].at(tail(i, n)) : y;
  });
}

Hosts standardize(const Call& c) {
  const Host& x = c.in[0];
  const auto axes = marked(c, c.ints("dim"), x.sizes.size());
  const bool rms = c.integer("rms") != 0;
  const Host mean =
      folded(x, axes, true, [&](const List& v) { return rms ? Wide(0) : mean_of(v); });
  const Host var = folded(x, axes, true, [&](const List& v) {
    R squares = 0;
    for (const Wide& e : v) squares += std::norm(e) / R(v.size());
    return Wide(rms ? squares : var_of(v, 0));
  });
  Host y = difference(x, mean, 0);
  const Host wide = spread_to(var, x.sizes);
  for (size_t i = 0; i < y.values.size(); ++i) {
    y.values[i] /= std::sqrt(wide.values[i] + R(c.number("eps")));
    if (c.in.size() > 1) y.values[i] *= spread_to(c.in[1], x.sizes).values[i];
    if (c.in.size() > 2) y.values[i] += spread_to(c.in[2], x.sizes).values[i];
  }
  return {y, mean, var};
}

Host local_response_norm(const Call& c) {
  const Host& x = c.in[0];
  const int64_t size = c.integer("size");
  return build(x.sizes, [&](const Shape& i) {
    R sum = 0;
    for (int64_t d = -(size / 2); d < size - size / 2; ++d) {
      Shape at = i;
      at[1] += d;
      if (at[1] >= 0 && at[1] < x.sizes[1]) sum += std::norm(x.at(at));
    }
    const R damping = c.number("k") + c.number("alpha") * sum / R(size);
    return x.at(i) / std::exp(R(c.number("beta")) * std::log(damping));
  });
}

}  // namespace

void add_norm_oracles(std::map<std::string, Oracle>& to) {
  to["norm"] = norm;
  to["normalize"] = normalize;
  to["cosine_similarity"] = cosine_similarity;
  to["pairwise_distance"] = pairwise_distance;
  to["cdist"] = cdist;
  to["dist"] = dist;
  to["var_mean"] = spread_and_mean(false);
  to["std_mean"] = spread_and_mean(true);
  to["standardize"] = standardize;
  to["layer_norm"] = layer_norm;
  to["rms_norm"] = rms_norm;
  to["group_norm"] = group_norm;
  to["instance_norm"] = instance_norm;
  to["batch_norm"] = batch_norm;
  to["local_response_norm"] = local_response_norm;
  add_attention_oracles(to);
}

void add_norm_bad_inputs(std::vector<BadInput>& to) {
  using K = ErrorKind;
  constexpr DType f32 = DType::f32, i64 = DType::i64, c64 = DType::c64;
  const std::vector<BadInput> bad{
      {"norm",
       {{i64, {3}}},
       {},
       K::dtype,
       "norm: is not defined for i64; it takes real numbers and complex numbers; cast to f32 "
       "first"},
      {"norm", {{f32, {3}}}, {{"dim", Ints{1}}}, K::index, "norm: axis 1"},
      {"norm",
       {{f32, {0, 3}}},
       {{"p", kInf}, {"dim", Ints{0}}},
       K::shape,
       "norm: axis 0 of (0, 3) is empty and has no norm of order inf"},
      {"norm", {{f32, {3}}}, {{"p", std::nan("")}}, K::value, "norm: p is not a number"},
      {"normalize", {{f32, {3}}}, {}, K::index, "normalize: axis 1"},
      {"cosine_similarity",
       {{c64, {2, 3}}, {c64, {2, 3}}},
       {},
       K::dtype,
       "cosine_similarity: is not defined for c64 (complex vectors have no angle); it takes real "
       "numbers"},
      {"pairwise_distance", {{f32, {}}, {f32, {}}}, {}, K::shape, "pairwise_distance: both"},
      {"cdist",
       {{f32, {3, 4}}, {f32, {5, 3}}},
       {},
       K::shape,
       "cdist: x1 has shape (3, 4), x2 (5, 3); expected (..., P, m) and (..., R, m)"},
      {"var_mean", {{i64, {3}}}, {}, K::dtype, "var: is not defined for i64"},
      {"standardize",
       {{i64, {3}}},
       {},
       K::dtype,
       "standardize: is not defined for i64; it takes real numbers and complex numbers; cast to "
       "f32"},
      {"standardize", {{f32, {3}}}, {{"dim", Ints{1}}}, K::index, "standardize: axis 1"},
      {"standardize",
       {{f32, {3, 5}}, {f32, {3}}},
       {},
       K::shape,
       "standardize: weight has shape (3,), which does not broadcast to x, (3, 5)"},
      {"standardize",
       {{f32, {5}}, {f32, {5}}, {f32, {2, 5}}},
       {},
       K::shape,
       "standardize: bias has shape (2, 5), which does not broadcast to x, (5,)"},
      {"layer_norm",
       {{f32, {3, 5}}},
       {{"normalized_shape", Ints{4}}},
       K::shape,
       "layer_norm: x has shape (3, 5), its last axes should be (4,)"},
      {"layer_norm",
       {{f32, {3, 5}}, {f32, {3}}},
       {{"normalized_shape", Ints{5}}},
       K::shape,
       "layer_norm: weight has shape (3,), expected (5,)"},
      {"layer_norm",
       {{i64, {3, 5}}},
       {{"normalized_shape", Ints{5}}},
       K::dtype,
       "layer_norm: is not defined for i64"},
      {"rms_norm", {{f32, {3}}}, {{"normalized_shape", Ints{}}}, K::shape, "rms_norm: x has shape"},
      {"group_norm",
       {{f32, {2, 5}}},
       {{"num_groups", 2}},
       K::value,
       "group_norm: 5 channels do not fall into 2 equal groups"},
      {"instance_norm",
       {{f32, {2, 3}}},
       {},
       K::shape,
       "instance_norm: x has shape (2, 3), expected (n, channels, d, ...)"},
      {"batch_norm",
       {{f32, {2, 3}}, {f32, {2}}, {f32, {3}}},
       {},
       K::shape,
       "batch_norm: running_mean has shape (2,), expected (3,)"},
      {"batch_norm",
       {{f32, {1, 3}}, {f32, {3}}, {f32, {3}}},
       {{"training", true}},
       K::shape,
       "batch_norm: x has shape (1, 3): one value per channel has no variance to train by"},
      {"batch_norm",
       {{f32, {3}}, {f32, {3}}, {f32, {3}}},
       {},
       K::shape,
       "batch_norm: x has shape (3,), expected (n, channels, ...)"},
      {"local_response_norm", {{f32, {2, 3}}}, {{"size", 0}}, K::value, "size is 0"},
      {"feature_dropout", {{f32, {3}}}, {}, K::shape, "feature_dropout: x has shape (3,)"},
      {"alpha_dropout", {{f32, {3}}}, {{"p", 2.0}}, K::value, "alpha_dropout: p is 2"},
  };
  to.insert(to.end(), bad.begin(), bad.end());
  add_attention_bad_inputs(to);
}

}  // namespace gradus::testing
