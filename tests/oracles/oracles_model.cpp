// Oracles of contractions (one loop over all labels), indexing, softmax and random numbers.
#include "engine/abi/philox.hpp"
#include "ops/check/check.hpp"
#include "tests/oracles/oracles.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace gradus::inline v1::testing {

namespace {

using R = long double;
using rows::Ints;

// ---- contractions

// y[out] = SUM over all other labels of the product of the operands, in an algebra. An axis of size
// 1 broadcasts.
Host contracted(const std::vector<Host>& in, const std::vector<Ints>& labels, const Ints& out,
                const std::string& algebra) {
  std::map<int64_t, int64_t> extents;
  for (size_t k = 0; k < in.size(); ++k)
    for (size_t a = 0; a < labels[k].size(); ++a) {
      auto [at, fresh] = extents.try_emplace(labels[k][a], in[k].sizes[a]);
      if (!fresh && at->second == 1) at->second = in[k].sizes[a];
    }
  Ints summed;
  for (const auto& [label, n] : extents)
    if (std::find(out.begin(), out.end(), label) == out.end()) summed.push_back(label);
  Shape sizes, inner;
  for (const int64_t l : out) sizes.push_back(extents[l]);
  for (const int64_t l : summed) inner.push_back(extents[l]);
  const bool logarithms = algebra == "log-sum-exp", counts = algebra.starts_with("mod ");
  const bool adds = algebra == "max-plus" || algebra == "min-plus" || logarithms;
  const bool least = algebra == "min-plus" || algebra == "min-times";
  const double modulus = counts ? std::stod(algebra.substr(4)) : 0;
  return build(sizes, [&](const Shape& i) {
    std::map<int64_t, int64_t> at;
    for (size_t a = 0; a < out.size(); ++a) at[out[a]] = i[a];
    bool first = true;
    Wide result = 0;
    for_each_index(inner, [&](const Shape& j) {
      for (size_t a = 0; a < summed.size(); ++a) at[summed[a]] = j[a];
      Wide term = adds ? 0 : 1;
      for (size_t k = 0; k < in.size(); ++k) {
        Shape own;
        for (size_t a = 0; a < labels[k].size(); ++a)
          own.push_back(in[k].sizes[a] == 1 ? 0 : at[labels[k][a]]);
        term = adds ? term + in[k].at(own) : term * in[k].at(own);
      }
      if (algebra == "standard" || counts)
        result += term;
      else if (logarithms && !first)
        result = std::max(term.real(), result.real()) +
                 std::log1p(std::exp(-std::abs(term.real() - result.real())));
      else if (first || (least ? term.real() < result.real() : term.real() > result.real()))
        result = term;
      first = false;
    });
    return counts ? Wide(result.real() - modulus * std::floor(result.real() / modulus)) : result;
  });
}

Host contract(const Call& c) {
  Host y = contracted({c.in[0], c.in[1]}, {c.ints("labels_a"), c.ints("labels_b")},
                      c.ints("labels_out"), c.text("algebra"));
  if (c.in.size() < 3) return y;
  const Host& bias = c.in[2];
  return build(y.sizes, [&](const Shape& i) {
    Shape own;  // of the last axes
    for (size_t d = 0; d < bias.sizes.size(); ++d)
      own.push_back(bias.sizes[d] == 1 ? 0 : i[i.size() - bias.sizes.size() + d]);
    return y.at(i) + bias.at(own);
  });
}

// Terms of an equation as labels: letters by their code, an ellipsis as negative labels from the
// right.
Ints labels_of(const std::string& term, size_t rank) {
  const size_t dots = term.find("...");
  Ints labels;
  const auto add = [&](const std::string& letters) {
    for (const char ch : letters)
      if (std::isalpha(static_cast<unsigned char>(ch))) labels.push_back(ch);
  };
  add(term.substr(0, dots));
  if (dots == std::string::npos) return labels;
  size_t letters = 0;
  for (const char ch : term) letters += std::isalpha(static_cast<unsigned char>(ch)) != 0;
  for (size_t k = rank - letters; k > 0; --k) labels.push_back(-int64_t(k));
  add(term.substr(dots + 3));
  return labels;
}

// Explicit outputs only.
Host einsum(const Call& c) {
  const std::string text = c.text("equation");
  const size_t arrow = text.find("->");
  std::vector<Ints> labels;
  size_t start = 0, most = 0;
  for (const Host& x : c.in) {
    const size_t end = std::min(text.find(',', start), arrow);
    labels.push_back(labels_of(text.substr(start, end - start), x.sizes.size()));
    size_t dots = 0;
    for (const int64_t l : labels.back()) dots += l < 0;
    most = std::max(most, dots);
    start = end + 1;
  }
  const std::string output = text.substr(arrow + 2);
  size_t letters = 0;
  for (const char ch : output) letters += std::isalpha(static_cast<unsigned char>(ch)) != 0;
  return contracted(c.in, labels, labels_of(output, letters + most), c.text("algebra"));
}

// The value alone: derivatives are checked against it.
Host network(const Call& c) {
  const Ints terms = c.ints("terms");
  std::vector<Ints> labels;
  for (size_t i = 0; i < terms.size(); i += 1 + size_t(terms[i]))
    labels.emplace_back(terms.begin() + i + 1, terms.begin() + i + 1 + terms[i]);
  const Ints out = labels.back();
  labels.pop_back();
  return contracted(c.in, labels, out, "standard");
}

Oracle product(Ints a, Ints b, Ints out) {
  return [=](const Call& c) { return contracted(c.in, {a, b}, out, "standard"); };
}

Host matmul(const Call& c) {
  const auto labels = [](const Host& x, Ints last) {
    Ints all;
    for (size_t k = x.sizes.size(); k > last.size(); --k) all.push_back(-int64_t(k - last.size()));
    for (const int64_t l : last) all.push_back(l);
    return all;
  };
  const bool row = c.in[0].sizes.size() > 1, column = c.in[1].sizes.size() > 1;
  const Ints a = labels(c.in[0], row ? Ints{0, 1} : Ints{1});
  const Ints b = labels(c.in[1], column ? Ints{1, 2} : Ints{1});
  Ints out;
  for (int64_t k = 9; k > 0; --k)
    if (std::find(a.begin(), a.end(), -k) != a.end() ||
        std::find(b.begin(), b.end(), -k) != b.end())
      out.push_back(-k);
  if (row) out.push_back(0);
  if (column) out.push_back(2);
  return contracted(c.in, {a, b}, out, "standard");
}

Host tensordot(const Call& c) {
  Ints a, b, out;
  for (size_t i = 0; i < c.in[0].sizes.size(); ++i) a.push_back(int64_t(i));
  for (size_t i = 0; i < c.in[1].sizes.size(); ++i) b.push_back(100 + int64_t(i));
  for (size_t i = 0; i < c.ints("dims_a").size(); ++i)
    b[c.axis(c.ints("dims_b")[i], b.size())] = a[c.axis(c.ints("dims_a")[i], a.size())];
  const size_t count = size_t(c.integer("dims"));
  for (size_t i = 0; i < count; ++i) b[i] = a[a.size() - count + i];
  for (const int64_t l : a)
    if (std::find(b.begin(), b.end(), l) == b.end()) out.push_back(l);
  for (const int64_t l : b)
    if (l >= 100) out.push_back(l);
  return contracted(c.in, {a, b}, out, "standard");
}

// ---- indexing

int64_t index_at(const Host& index, const Shape& i) { return int64_t(index.at(i).real()); }

Host gather(const Call& c) {
  const size_t d = c.axis(c.integer("dim"), c.in[0].sizes.size());
  return build(c.in[1].sizes, [&](Shape i) {
    i[d] = index_at(c.in[1], i);
    return c.in[0].at(i);
  });
}

Host scatter_add(const Call& c) {
  const size_t d = c.axis(c.integer("dim"), c.in[0].sizes.size());
  Host y = c.in[0];
  for_each_index(c.in[1].sizes, [&](const Shape& i) {
    Shape to = i;
    to[d] = index_at(c.in[1], i);
    y.values[size_t(y.offset(to))] += c.in[2].at(i);
  });
  return y;
}

Host embedding(const Call& c) {
  Shape sizes = c.in[1].sizes;
  sizes.push_back(c.in[0].sizes[1]);
  return build(sizes, [&](Shape i) {
    const int64_t column = i.back();
    i.pop_back();
    return c.in[0].at({index_at(c.in[1], i), column});
  });
}

// ---- softmax. Domains are small: no overflow to guard against.

R share(const Host& x, const Shape& i, size_t d) {
  R sum = 0;
  Shape at = i;
  for (at[d] = 0; at[d] < x.sizes[d]; ++at[d]) sum += std::exp(x.at(at).real() - x.at(i).real());
  return 1 / sum;
}

Oracle softmax(bool logarithm) {
  return [=](const Call& c) {
    const Host& x = c.in[0];
    return build(x.sizes, [&](const Shape& i) {
      const R y = x.sizes.empty() ? R(1) : share(x, i, c.axis(c.integer("dim"), x.sizes.size()));
      return Wide(logarithm ? std::log(y) : y);
    });
  };
}

// ---- random numbers: the words are Philox's (their known answers are tested elsewhere), what is
// made of them is written with <cmath>.

R unit(RandomBits b, bool wide) {
  return wide ? (std::ldexp(R(b.a >> 5), 26) + R(b.b >> 6)) / std::ldexp(R(1), 53)
              : R(b.a >> 8) / std::ldexp(R(1), 24);
}

Oracle random(R (*of)(const Call&, RandomBits)) {
  return [=](const Call& c) {
    uint64_t n = 0;
    return build(c.ints("size"),
                 [&](const Shape&) { return Wide(of(c, random_bits(rows::kCheckSeed, n++))); });
  };
}

R uniform(const Call& c, RandomBits b) {
  const R u = unit(b, c.attr("dtype").dtype() == DType::f64);
  return c.number("low") * (1 - u) + c.number("high") * u;
}
R normal(const Call& c, RandomBits b) {
  const R radius = std::sqrt(-2 * std::log((R(b.a) + 1) / std::ldexp(R(1), 32)));
  return c.number("mean") +
         c.number("std") * radius * std::cos(2 * std::acos(R(-1)) * R(b.b) / std::ldexp(R(1), 32));
}
R bernoulli(const Call& c, RandomBits b) { return unit(b, true) < R(c.number("p")) ? 1 : 0; }

Host dropout(const Call& c) {
  const double p = c.number("p");
  uint64_t n = 0;
  return build(c.in[0].sizes, [&](const Shape& i) {
    if (c.integer("training") == 0) return c.in[0].at(i);
    if (p == 1) return Wide(0);
    const bool keep = unit(random_bits(rows::kCheckSeed, n++), true) < R(1 - p);
    return keep ? c.in[0].at(i) / R(1 - p) : Wide(0);
  });
}

// One draw for each channel.
Host feature_dropout(const Call& c) {
  const double p = c.number("p");
  const int64_t channels = c.in[0].sizes[1];
  return build(c.in[0].sizes, [&](const Shape& i) {
    if (c.integer("training") == 0) return c.in[0].at(i);
    if (p == 1) return Wide(0);
    const uint64_t n = uint64_t(i[0] * channels + i[1]);
    return unit(random_bits(rows::kCheckSeed, n), true) < R(1 - p) ? c.in[0].at(i) / R(1 - p)
                                                                   : Wide(0);
  });
}

// The constants by their meaning: b makes the mean of a standard x 0, a its variance 1.
Host alpha_dropout(const Call& c) {
  const R p = c.number("p"), low = -1.0507009873554805L * 1.6732632423543772L;  // of selu
  const R mean = p * low, variance = (1 - p) + p * low * low - mean * mean;
  uint64_t n = 0;
  return build(c.in[0].sizes, [&](const Shape& i) {
    if (c.integer("training") == 0) return c.in[0].at(i);
    if (p == 1) return Wide(0);
    const bool keep = unit(random_bits(rows::kCheckSeed, n++), true) < R(1 - c.number("p"));
    return ((keep ? c.in[0].at(i) : Wide(low)) - mean) / std::sqrt(variance);
  });
}

}  // namespace

void add_model_oracles(std::map<std::string, Oracle>& to) {
  to["contract"] = contract;
  to["einsum"] = einsum;
  to["network"] = network;
  to["matmul"] = matmul;
  to["mm"] = product({0, 1}, {1, 2}, {0, 2});
  to["bmm"] = product({3, 0, 1}, {3, 1, 2}, {3, 0, 2});
  to["mv"] = product({0, 1}, {1}, {0});
  to["dot"] = product({0}, {0}, {});
  to["outer"] = product({0}, {1}, {0, 1});
  to["tensordot"] = tensordot;
  to["gather"] = gather;
  to["scatter_add"] = scatter_add;
  to["embedding"] = embedding;
  to["softmax"] = softmax(false);
  to["log_softmax"] = softmax(true);
  to["uniform"] = random(uniform);
  to["normal"] = random(normal);
  to["bernoulli"] = random(bernoulli);
  to["dropout"] = dropout;
  to["feature_dropout"] = feature_dropout;
  to["alpha_dropout"] = alpha_dropout;
}

}  // namespace gradus::testing
