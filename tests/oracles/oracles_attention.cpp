// Oracles and bad inputs of attention, gates and products: loops over single elements.
#include "tests/oracles/oracles.hpp"

#include <cmath>

namespace gradus::inline v1::testing {

namespace {

using R = long double;
using List = std::vector<Wide>;

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

Shape head(const Shape& i, size_t n) { return Shape(i.begin(), i.end() - n); }

// ---- attention and gates

// One element at a time, by the definition; nothing is shifted before exp.
Host attention(const Call& c) {
  const Host &q = c.in[0], &k = c.in[1], &v = c.in[2];
  const auto batch = [](const Host& x) { return head(x.sizes, 2); };
  Shape sizes = common(common(batch(q), batch(k)), batch(v));
  const int64_t rows = q.sizes.end()[-2], columns = k.sizes.end()[-2], e = q.sizes.back();
  const R given = c.number("scale"), scale = given != 0 ? given : 1 / std::sqrt(R(e));
  const auto at = [](const Host& x, const Shape& i, int64_t row, int64_t column) {
    Shape own(i.begin() + (i.size() - x.sizes.size()), i.end());
    own.end()[-2] = row;
    own.end()[-1] = column;
    for (size_t a = 0; a < own.size(); ++a)
      if (x.sizes[a] == 1) own[a] = 0;
    return x.at(own).real();
  };
  sizes.push_back(rows);
  sizes.push_back(v.sizes.back());
  return build(sizes, [&](const Shape& i) {
    R total = 0, sum = 0;
    for (int64_t s = 0; s < columns; ++s) {
      if (c.integer("is_causal") && s > i.end()[-2]) continue;
      if (c.in.size() > 3 && at(c.in[3], i, i.end()[-2], s) == 0) continue;
      R score = 0;
      for (int64_t n = 0; n < e; ++n) score += at(q, i, i.end()[-2], n) * at(k, i, s, n);
      total += std::exp(score * scale);
      sum += std::exp(score * scale) * at(v, i, s, i.back());
    }
    return Wide(total > 0 ? sum / total : 0);
  });
}

Host softmin(const Call& c) {
  const Host& x = c.in[0];
  if (x.sizes.empty()) return {{}, {Wide(1)}};
  const size_t d = c.axis(c.integer("dim"), x.sizes.size());
  return build(x.sizes, [&](const Shape& i) {
    R sum = 0;
    Shape at = i;
    for (at[d] = 0; at[d] < x.sizes[d]; ++at[d]) sum += std::exp(x.at(i).real() - x.at(at).real());
    return Wide(1 / sum);
  });
}

Host glu(const Call& c) {
  const Host& x = c.in[0];
  const size_t d = c.axis(c.integer("dim"), x.sizes.size());
  Shape sizes = x.sizes;
  sizes[d] /= 2;
  return build(sizes, [&](Shape i) {
    const Wide a = x.at(i);
    i[d] += sizes[d];
    return a / (R(1) + std::exp(-x.at(i)));
  });
}

Host prelu(const Call& c) {
  const Host &x = c.in[0], &w = c.in[1];
  return build(x.sizes, [&](const Shape& i) {
    const R weight = w.values[w.values.size() > 1 ? size_t(i[1]) : 0].real(), v = x.at(i).real();
    return Wide(std::fmax(v, R(0)) + weight * std::fmin(v, R(0)));
  });
}

// ---- products

Wide conjugate_dot(const List& a, const List& b) {
  Wide sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += std::conj(a[k]) * b[k];
  return sum;
}

Host linear(const Call& c) {
  const Host &x = c.in[0], &w = c.in[1];
  const bool matrix = w.sizes.size() == 2;
  Shape sizes = head(x.sizes, 1);
  if (matrix) sizes.push_back(w.sizes[0]);
  return build(sizes, [&](const Shape& i) {
    Wide y = c.in.size() < 3 ? Wide(0) : c.in[2].values[matrix ? size_t(i.back()) : 0];
    for (int64_t k = 0; k < x.sizes.back(); ++k) {
      Shape at = matrix ? head(i, 1) : i;
      at.push_back(k);
      y += x.at(at) * w.at(matrix ? Shape{i.back(), k} : Shape{k});
    }
    return y;
  });
}

Host bilinear(const Call& c) {
  const Host& w = c.in[2];
  Shape sizes = head(c.in[0].sizes, 1);
  sizes.push_back(w.sizes[0]);
  return build(sizes, [&](const Shape& i) {
    Wide y = c.in.size() < 4 ? Wide(0) : c.in[3].values[size_t(i.back())];
    for (int64_t k = 0; k < w.sizes[1]; ++k)
      for (int64_t l = 0; l < w.sizes[2]; ++l) {
        Shape a = i, b = i;
        a.back() = k;
        b.back() = l;
        y += c.in[0].at(a) * w.at({i.back(), k, l}) * c.in[1].at(b);
      }
    return y;
  });
}

// beta input + alpha term, over indices of these sizes.
Host scaled(const Call& c, const Shape& sizes, const std::function<Wide(const Shape&)>& term) {
  const R beta = c.number("beta"), alpha = c.number("alpha");
  return build(sizes, [&](const Shape& i) {
    const Wide old = c.in[0].sizes.empty() ? c.in[0].values[0] : c.in[0].at(i);
    return beta * old + alpha * term(i);
  });
}
Wide row_times_column(const Host& a, Shape i, const Host& b, Shape j, size_t of_a, size_t of_b) {
  Wide sum = 0;
  for (int64_t k = 0; k < a.sizes[of_a]; ++k) {
    i[of_a] = j[of_b] = k;
    sum += a.at(i) * b.at(j);
  }
  return sum;
}

Host addmm(const Call& c) {
  return scaled(c, {c.in[1].sizes[0], c.in[2].sizes[1]}, [&](const Shape& i) {
    return row_times_column(c.in[1], {i[0], 0}, c.in[2], {0, i[1]}, 1, 0);
  });
}
Host addmv(const Call& c) {
  return scaled(c, {c.in[1].sizes[0]}, [&](const Shape& i) {
    return row_times_column(c.in[1], {i[0], 0}, c.in[2], {0}, 1, 0);
  });
}
Host addr(const Call& c) {
  return scaled(c, {c.in[1].sizes[0], c.in[2].sizes[0]},
                [&](const Shape& i) { return c.in[1].at({i[0]}) * c.in[2].at({i[1]}); });
}
Host baddbmm(const Call& c) {
  return scaled(c, {c.in[1].sizes[0], c.in[1].sizes[1], c.in[2].sizes[2]}, [&](const Shape& i) {
    return row_times_column(c.in[1], {i[0], i[1], 0}, c.in[2], {i[0], 0, i[2]}, 2, 1);
  });
}
Host addbmm(const Call& c) {
  return scaled(c, {c.in[1].sizes[1], c.in[2].sizes[2]}, [&](const Shape& i) {
    Wide sum = 0;
    for (int64_t n = 0; n < c.in[1].sizes[0]; ++n)
      sum += row_times_column(c.in[1], {n, i[0], 0}, c.in[2], {n, 0, i[1]}, 2, 1);
    return sum;
  });
}

Host inner(const Call& c) {
  const Host &a = c.in[0], &b = c.in[1];
  if (a.sizes.empty() || b.sizes.empty()) {
    Host y = a.sizes.empty() ? b : a;
    for (Wide& v : y.values) v *= a.sizes.empty() ? a.values[0] : b.values[0];
    return y;
  }
  const size_t rows = a.sizes.size() - 1;
  Shape sizes = head(a.sizes, 1);
  for (const int64_t n : head(b.sizes, 1)) sizes.push_back(n);
  return build(sizes, [&](const Shape& i) {
    Shape of_a(i.begin(), i.begin() + rows), of_b(i.begin() + rows, i.end());
    of_a.push_back(0);
    of_b.push_back(0);
    return row_times_column(a, of_a, b, of_b, of_a.size() - 1, of_b.size() - 1);
  });
}

Host vdot(const Call& c) { return {{}, {conjugate_dot(c.in[0].values, c.in[1].values)}}; }

Host vecdot(const Call& c) {
  const Shape sizes = common(c.in[0].sizes, c.in[1].sizes);
  const Host a = spread_to(c.in[0], sizes), b = spread_to(c.in[1], sizes);
  const size_t d = c.axis(c.integer("dim"), sizes.size());
  Shape out = sizes;
  out.erase(d);
  return build(out, [&](Shape i) {
    i.insert(d, 0);
    List left, right;
    for (; i[d] < sizes[d]; ++i[d]) {
      left.push_back(a.at(i));
      right.push_back(b.at(i));
    }
    return conjugate_dot(left, right);
  });
}

// From the left, whatever order is cheapest.
Host chain_matmul(const Call& c) {
  Host y = c.in[0];
  for (size_t n = 1; n < c.in.size(); ++n) {
    const Host left = y;
    y = build({left.sizes[0], c.in[n].sizes[1]}, [&](const Shape& i) {
      return row_times_column(left, {i[0], 0}, c.in[n], {0, i[1]}, 1, 0);
    });
  }
  return y;
}

}  // namespace

void add_attention_oracles(std::map<std::string, Oracle>& to) {
  to["scaled_dot_product_attention"] = attention;
  to["softmin"] = softmin;
  to["glu"] = glu;
  to["prelu"] = prelu;
  to["linear"] = linear;
  to["bilinear"] = bilinear;
  to["addmm"] = addmm;
  to["addmv"] = addmv;
  to["addr"] = addr;
  to["baddbmm"] = baddbmm;
  to["addbmm"] = addbmm;
  to["inner"] = inner;
  to["vdot"] = vdot;
  to["vecdot"] = vecdot;
  to["chain_matmul"] = chain_matmul;
}

void add_attention_bad_inputs(std::vector<BadInput>& to) {
  using K = ErrorKind;
  constexpr DType f32 = DType::f32, i64 = DType::i64;
  const std::vector<BadInput> bad{
      {"scaled_dot_product_attention",
       {{f32, {3, 4}}, {f32, {5, 3}}, {f32, {5, 2}}},
       {},
       K::shape,
       "query has shape (3, 4), key (5, 3), value (5, 2); expected (..., L, e), (..., S, e) and "
       "(..., S, d)"},
      {"scaled_dot_product_attention",
       {{f32, {3, 4}}, {f32, {5, 4}}, {f32, {5, 2}}, {f32, {4, 5}}},
       {},
       K::shape,
       "the mask has shape (4, 5), which does not broadcast to the scores' (3, 5)"},
      {"scaled_dot_product_attention",
       {{f32, {3, 4}}, {f32, {5, 4}}, {f32, {5, 2}}, {i64, {3, 5}}},
       {},
       K::dtype,
       "the mask is i64, expected bool or a float"},
      {"softmin", {{f32, {3}}}, {{"dim", 1}}, K::index, "axis 1"},
      {"glu", {{f32, {3}}}, {}, K::shape, "glu: axis 0 of (3,) does not fall into halves"},
      {"prelu",
       {{f32, {2, 3}}, {f32, {2}}},
       {},
       K::shape,
       "prelu: the weight has shape (2,), x (2, 3); expected one weight, or one per channel"},
      {"linear",
       {{f32, {2, 3}}, {f32, {4, 2}}},
       {},
       K::shape,
       "linear: x has shape (2, 3), the weight (4, 2); their last axes should be equal"},
      {"linear",
       {{f32, {2, 3}}, {f32, {4, 3}}, {f32, {3}}},
       {},
       K::shape,
       "linear: the bias has shape (3,), expected (4,)"},
      {"bilinear",
       {{f32, {2, 3}}, {f32, {3, 3}}, {f32, {4, 3, 3}}},
       {},
       K::shape,
       "bilinear: x1 has shape (2, 3), x2 (3, 3), the weight (4, 3, 3)"},
      {"addmm",
       {{f32, {3}}, {f32, {2, 3}}, {f32, {3, 4}}},
       {},
       K::shape,
       "addmm: the input has shape (3,), which does not broadcast to the product's (2, 4)"},
      {"addbmm",
       {{f32, {2, 4}}, {f32, {2, 2, 3}}, {f32, {1, 3, 4}}},
       {},
       K::shape,
       "addbmm: a has shape (2, 2, 3), b (1, 3, 4); expected (n, i, k) and (n, k, j)"},
      {"inner", {{f32, {2, 3}}, {f32, {2}}}, {}, K::shape, "inner: a has shape (2, 3), b (2,)"},
      {"vdot", {{f32, {2}}, {f32, {3}}}, {}, K::shape, "vdot: a has shape (2,), b (3,)"},
      {"vecdot", {{f32, {2}}, {f32, {2}}}, {{"dim", 1}}, K::index, "vecdot: axis 1"},
      {"chain_matmul",
       {{f32, {2, 3}}, {f32, {2, 3}}},
       {},
       K::shape,
       "chain_matmul: matrix 1 has shape (2, 3), the one before it (2, 3)"},
  };
  to.insert(to.end(), bad.begin(), bad.end());
}

}  // namespace gradus::testing
