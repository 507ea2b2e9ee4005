// Oracles of the ops that order and scan, as loops over indices.
#include "tests/oracles/oracles.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::testing {

namespace {

using R = long double;
using rows::Ints;
using Line = std::vector<Wide>;
using Places = std::vector<int64_t>;

Host lifted(const Host& x) { return x.sizes.empty() ? Host{{1}, x.values} : x; }
Host reshaped(const Host& x, const Shape& sizes) { return {sizes, x.values}; }
Host flat(const Host& x) { return {{int64_t(x.values.size())}, x.values}; }

// f of each line along axis d, whose results have `length` elements.
Host by_line(const Host& x, size_t d, int64_t length, const std::function<Line(const Line&)>& f) {
  Shape sizes = x.sizes;
  sizes[d] = length;
  return build(sizes, [&](const Shape& i) {
    Line line;
    for (int64_t k = 0; k < x.sizes[d]; ++k) {
      Shape at = i;
      at[d] = k;
      line.push_back(x.at(at));
    }
    return f(line)[size_t(i[d])];
  });
}

// By counting for each element those that stand before it.
Places order_of(const Line& line, bool descending) {
  Places order(line.size());
  for (size_t i = 0; i < line.size(); ++i) {
    size_t rank = 0;
    for (size_t j = 0; j < line.size(); ++j) {
      const R a = line[j].real(), b = line[i].real();
      rank += (descending ? a > b : a < b) || (a == b && j < i);
    }
    order[rank] = int64_t(i);
  }
  return order;
}

// {values, indices} of the places `from` to `to` of the sorted lines.
Hosts sorted(const Host& x, size_t d, bool descending, int64_t from, int64_t to) {
  const auto cut = [&](bool values) {
    return by_line(x, d, to - from, [&](const Line& line) {
      Line out;
      const Places order = order_of(line, descending);
      for (int64_t k = from; k < to; ++k) {
        const int64_t at = order[size_t(k)];
        out.push_back(values ? line[size_t(at)] : Wide(R(at)));
      }
      return out;
    });
  };
  return {cut(true), cut(false)};
}

size_t dim_of(const Call& c) {
  return c.axis(c.integer("dim"), std::max<size_t>(1, c.in[0].sizes.size()));
}

Hosts sort(const Call& c) {
  const Host x = lifted(c.in[0]);
  const size_t d = dim_of(c);
  Hosts y = sorted(x, d, c.integer("descending") != 0, 0, x.sizes[d]);
  for (Host& h : y) h.sizes = c.in[0].sizes;
  return y;
}

Hosts topk(const Call& c) {
  Hosts y = sorted(lifted(c.in[0]), dim_of(c), c.integer("largest") != 0, 0, c.integer("k"));
  if (c.in[0].sizes.empty())
    for (Host& h : y) h.sizes = {};
  return y;
}

// The k-th of each sorted line.
Hosts kth(const Host& own, size_t d, int64_t k, bool descending, bool keepdim) {
  Hosts y = sorted(lifted(own), d, descending, k, k + 1);
  for (Host& h : y)
    if (own.sizes.empty() || !keepdim) h.sizes.erase(d);
  return y;
}
// max, min, median: `k` gives the place in a line of n.
Oracle extremum(bool descending, int64_t (*k)(int64_t n)) {
  return [=](const Call& c) -> Hosts {
    if (!c.attr("dim").is_none()) {
      const size_t d = dim_of(c);
      return kth(c.in[0], d, k(lifted(c.in[0]).sizes[d]), descending, c.integer("keepdim") != 0);
    }
    const Host x = flat(c.in[0]);
    return Hosts(kth(x, 0, k(x.sizes[0]), descending, false)[0]);
  };
}

Host argmin(const Call& c) {
  if (c.attr("dim").is_none()) return kth(flat(c.in[0]), 0, 0, false, false)[1];
  return kth(c.in[0], dim_of(c), 0, false, c.integer("keepdim") != 0)[1];
}

Hosts aminmax(const Call& c) {
  const auto first = [](int64_t) { return int64_t(0); };
  const Host low = extremum(false, first)(c)[0], high = extremum(true, first)(c)[0];
  return {low, high};
}

// {values, inverse, counts}
Hosts groups(const Host& x, Line values, const std::function<size_t(size_t)>& group_of) {
  Host inverse{x.sizes, {}}, counts{{int64_t(values.size())}, Line(values.size(), Wide(0))};
  for (size_t i = 0; i < x.values.size(); ++i) {
    inverse.values.push_back(R(group_of(i)));
    counts.values[group_of(i)] += R(1);
  }
  return {Host{counts.sizes, values}, inverse, counts};
}
Hosts unique(const Call& c) {
  const Host& x = c.in[0];
  std::vector<R> values;
  for (const Wide& v : x.values)
    if (std::find(values.begin(), values.end(), v.real()) == values.end())
      values.push_back(v.real());
  std::sort(values.begin(), values.end());
  return groups(x, Line(values.begin(), values.end()), [&](size_t i) {
    return size_t(std::find(values.begin(), values.end(), x.values[i].real()) - values.begin());
  });
}
Hosts unique_consecutive(const Call& c) {
  Line values;
  std::vector<size_t> run;
  for (const Wide& v : c.in[0].values) {
    if (values.empty() || values.back() != v) values.push_back(v);
    run.push_back(values.size() - 1);
  }
  return groups(c.in[0], values, [&](size_t i) { return run[i]; });
}

// How many of a line of the sequence stand before v.
Host searched(const Host& sequence, const Host& values, bool right) {
  return build(values.sizes, [&](const Shape& i) {
    int64_t before = 0;
    for (int64_t k = 0; k < sequence.sizes.back(); ++k) {
      Shape at{k};
      if (sequence.sizes.size() > 1) {
        at = i;
        at.back() = k;
      }
      const R s = sequence.at(at).real(), v = values.at(i).real();
      before += right ? s <= v : s < v;
    }
    return Wide(R(before));
  });
}

Host bincount(const Call& c) {
  int64_t n = c.integer("minlength");
  for (const Wide& x : c.in[0].values) n = std::max(n, int64_t(x.real()) + 1);
  Host y = build({n}, [](const Shape&) { return Wide(0); });
  for (size_t i = 0; i < c.in[0].values.size(); ++i)
    y.values[size_t(c.in[0].values[i].real())] += c.in.size() > 1 ? c.in[1].values[i] : Wide(1);
  return y;
}

// ---- scans

Host scanned(const Call& c, const std::function<Wide(const Line& so_far)>& f) {
  const Host x = lifted(c.in[0]);
  const size_t d = dim_of(c);
  return reshaped(by_line(x, d, x.sizes[d],
                          [&](const Line& line) {
                            Line out;
                            for (size_t k = 1; k <= line.size(); ++k)
                              out.push_back(f(Line(line.begin(), line.begin() + int64_t(k))));
                            return out;
                          }),
                  c.in[0].sizes);
}

Hosts running(const Call& c, bool largest) {
  const auto place = [&](const Line& line) {
    size_t best = 0;
    for (size_t k = 1; k < line.size(); ++k)
      if (largest ? line[k].real() >= line[best].real() : line[k].real() <= line[best].real())
        best = k;
    return best;
  };
  return {scanned(c, [&](const Line& line) { return line[place(line)]; }),
          scanned(c, [&](const Line& line) { return Wide(R(place(line))); })};
}

// By binomials; of bool, modulo 2.
Host diff(const Call& c) {
  const Host& x = c.in[0];
  const size_t d = dim_of(c);
  const int64_t n = c.integer("n");
  return by_line(x, d, std::max<int64_t>(0, x.sizes[d] - n), [&](const Line& line) {
    Line out;
    for (size_t i = 0; i + size_t(n) < line.size(); ++i) {
      Wide sum = 0;
      R binomial = 1;
      for (int64_t k = 0; k <= n; ++k) {
        sum += ((n - k) % 2 ? -binomial : binomial) * line[i + size_t(k)];
        binomial = binomial * R(n - k) / R(k + 1);
      }
      out.push_back(c.dtype == DType::bool_ ? Wide(std::fmod(std::fabs(sum.real()), R(2))) : sum);
    }
    return out;
  });
}

Host integral(const Call& c, bool running) {
  const Host& y = c.in[0];
  const size_t d = dim_of(c);
  const int64_t n = y.sizes[d];
  Shape sizes = y.sizes;
  if (running)
    sizes[d] = std::max<int64_t>(n - 1, 0);
  else
    sizes.erase(d);
  return build(sizes, [&](Shape i) {
    const int64_t end = running ? i[d] + 2 : n;
    if (!running) i.insert(d, 0);
    const auto place = [&](int64_t k) -> Wide {
      if (c.in.size() < 2) return R(c.number("dx")) * R(k);
      Shape at = i;
      at[d] = k;
      return c.in[1].sizes.size() == 1 ? c.in[1].values[size_t(k)] : c.in[1].at(at);
    };
    Wide sum = 0;
    for (int64_t k = 0; k + 1 < end; ++k) {
      Shape a = i, b = i;
      a[d] = k;
      b[d] = k + 1;
      sum += (y.at(a) + y.at(b)) * (place(k + 1) - place(k)) / R(2);
    }
    return sum;
  });
}

void add_order(std::map<std::string, Oracle>& to) {
  to["sort"] = sort;
  to["argsort"] = [](const Call& c) { return Hosts(sort(c)[1]); };
  to["msort"] = [](const Call& c) {
    const Host x = lifted(c.in[0]);
    return Hosts(reshaped(sorted(x, 0, false, 0, x.sizes[0])[0], c.in[0].sizes));
  };
  to["topk"] = topk;
  to["kthvalue"] = [](const Call& c) {
    return kth(c.in[0], dim_of(c), c.integer("k") - 1, false, c.integer("keepdim") != 0);
  };
  to["median"] = extremum(false, [](int64_t n) { return (n - 1) / 2; });
  to["max"] = extremum(true, [](int64_t) { return int64_t(0); });
  to["min"] = extremum(false, [](int64_t) { return int64_t(0); });
  to["aminmax"] = aminmax;
  to["argmin"] = argmin;
  to["unique"] = unique;
  to["unique_consecutive"] = unique_consecutive;
  to["searchsorted"] = [](const Call& c) {
    return searched(c.in[0], c.in[1], c.integer("right") != 0);
  };
  to["bucketize"] = [](const Call& c) {
    return searched(c.in[1], c.in[0], c.integer("right") != 0);
  };
  to["bincount"] = bincount;
}

void add_scans(std::map<std::string, Oracle>& to) {
  to["cumprod"] = [](const Call& c) {
    return scanned(c, [](const Line& line) {
      Wide product = 1;
      for (size_t k = line.size(); k-- > 0;) product *= line[k];
      return product;
    });
  };
  to["cummax"] = [](const Call& c) { return running(c, true); };
  to["cummin"] = [](const Call& c) { return running(c, false); };
  to["logcumsumexp"] = [](const Call& c) {
    return scanned(c, [](const Line& line) {
      R sum = 0;
      for (const Wide& x : line) sum += std::exp(x.real());
      return Wide(std::log(sum));
    });
  };
  to["diff"] = diff;
  to["trapezoid"] = [](const Call& c) { return integral(c, false); };
  to["cumulative_trapezoid"] = [](const Call& c) { return integral(c, true); };
}

}  // namespace

void add_sorting_oracles(std::map<std::string, Oracle>& to) {
  add_order(to);
  add_scans(to);
}

}  // namespace gradus::testing
