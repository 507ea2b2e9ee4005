// Batched contractions of the cpu device whose batch axis lies anywhere in memory: an element has
// the same bits wherever its operands lie, and in whichever company.
#include "tests/helpers/cpu_device.hpp"
#include "tests/helpers/sizes.hpp"

#include <map>
#include <string>

using namespace cpu_test;

namespace {

using Extents = std::map<char, int64_t>;

// What each operand is when its labels lie in memory in the order `order`, the joint index space
// being `joint`.
Index strides_of(const std::string& order, const std::string& joint, const Extents& extents) {
  Index strides(joint.size(), 0);
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0; step *= extents.at(order[i]))
    strides[joint.find(order[i])] = step;
  return strides;
}

struct Factors {
  c128 alpha{1}, beta{0};
  bool bias = false, conj_a = false, conj_b = false;
};

// "ijb,jkb->ikb": values by label, whatever the order of labels is; out by label, too.
template <class T>
struct Batched {
  std::string labels[3], joint;
  Extents extents;
  Index sizes;

  Batched(const std::string& equation, Extents e) : extents(std::move(e)) {
    const size_t comma = equation.find(','), arrow = equation.find("->");
    labels[0] = equation.substr(0, comma);
    labels[1] = equation.substr(comma + 1, arrow - comma - 1);
    labels[2] = equation.substr(arrow + 2);
    joint = labels[2];
    std::sort(joint.begin(), joint.end());
    for (const char l : labels[0] + labels[1])
      if (joint.find(l) == std::string::npos) joint += l;
    for (const char l : joint) sizes.push_back(extents.at(l));
  }
  // The numbers of a role in row-major order of its sorted labels.
  Index own_sizes(int role) const {
    std::string sorted = labels[role];
    std::sort(sorted.begin(), sorted.end());
    Index own;
    for (const char l : sorted) own.push_back(extents.at(l));
    return own;
  }
  Index places(int role) const {
    std::string sorted = labels[role];
    std::sort(sorted.begin(), sorted.end());
    const Index all = strides_of(labels[role], joint, extents);
    Index own, at;
    for (const char l : sorted) own.push_back(all[joint.find(l)]);
    each(own_sizes(role), [&](const Index& i) {
      int64_t p = 0;
      for (size_t d = 0; d < i.size(); ++d) p += i[d] * own[d];
      at.push_back(p);
    });
    return at;
  }
  static T number(int64_t n, int64_t salt) {
    const auto one = [&](int64_t k) {
      return real_of<T>(float((n * 7919 + k * 104729 + salt * 31) % 257 - 128)) / real_of<T>(96);
    };
    if constexpr (is_complex_v<T>)
      return T(one(1), one(2));
    else
      return T(one(1));
  }
  std::vector<T> filled(int role, int64_t salt) const {
    const Index at = places(role);
    std::vector<T> x(at.size());
    for (size_t i = 0; i < at.size(); ++i) x[size_t(at[i])] = number(int64_t(i), salt);
    return x;
  }
  // Operands in the other order keep their numbers.
  bool exchanged() const { return labels[1].find('i') != std::string::npos; }
  std::vector<T> operand(int role) const { return filled(role, exchanged() ? 2 - role : 1 + role); }
  // out, in row-major order of its sorted labels.
  std::vector<T> run(const Device& dev, const Factors& f) const {
    std::vector<T> a = operand(0), b = operand(1), bias = filled(2, 3), out = filled(2, 4);
    const int32_t t = int32_t(dtype_of<T>), rank = int32_t(joint.size()),
                  n_out = int32_t(labels[2].size());
    const Index sa = strides_of(labels[0], joint, extents),
                sb = strides_of(labels[1], joint, extents),
                so = strides_of(labels[2], joint, extents);
    std::vector<gd_view> in = {{1, a.data(), t, rank, 0, sizes.data(), sa.data()},
                               {2, b.data(), t, rank, 0, sizes.data(), sb.data()}};
    if (f.bias) in.push_back({3, bias.data(), t, n_out, 0, sizes.data(), so.data()});
    call(dev, GD_CONTRACT, 0, in, {{4, out.data(), t, n_out, 0, sizes.data(), so.data()}},
         {f.alpha.re, f.alpha.im, f.beta.re, f.beta.im}, {n_out, GD_STANDARD, f.conj_a, f.conj_b});
    std::vector<T> result;
    for (const int64_t p : places(2)) result.push_back(out[size_t(p)]);
    return result;
  }
  // The same by a plain loop, in f64.
  std::vector<c128> want(const Factors& f) const {
    const std::vector<T> data[] = {operand(0), operand(1), filled(2, 4), filled(2, 3)};
    const Index strides[] = {strides_of(labels[0], joint, extents),
                             strides_of(labels[1], joint, extents),
                             strides_of(labels[2], joint, extents)};
    const auto wide_complex = [](T x) {
      if constexpr (is_complex_v<T>)
        return c128(x);
      else
        return c128(as_double(x));
    };
    std::vector<c128> sums(data[2].size(), c128(0));
    each(sizes, [&](const Index& i) {
      int64_t p[3] = {};
      for (int v = 0; v < 3; ++v)
        for (size_t d = 0; d < i.size(); ++d) p[v] += i[d] * strides[v][d];
      const c128 x = wide_complex(data[0][size_t(p[0])]), y = wide_complex(data[1][size_t(p[1])]);
      c128& sum = sums[size_t(p[2])];
      sum = sum + (f.conj_a ? conj_of(x) : x) * (f.conj_b ? conj_of(y) : y);
    });
    std::vector<c128> result;
    for (const int64_t at : places(2)) {
      const size_t p = size_t(at);
      c128 y = f.alpha * sums[p] + f.beta * wide_complex(data[2][p]);
      if (f.bias) y = y + wide_complex(data[3][p]);
      result.push_back(y);
    }
    return result;
  }
};

// All layouts of one contraction: right, and the same to the bit.
template <class T>
void check_layouts(const std::vector<const char*>& equations, const Extents& extents,
                   const Factors& f) {
  double terms = 1;
  for (const auto& [label, n] : extents)
    if (std::string(equations[0]).rfind(label) < std::string(equations[0]).find('>'))
      terms *= double(n);
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    CAPTURE(int(dtype_of<T>));
    std::vector<T> first;
    for (const char* equation : equations) {
      CAPTURE(equation);
      const Batched<T> batched(equation, extents);
      // A complex product of exchanged operands is rounded another way.
      if (is_complex_v<T> && batched.exchanged()) continue;
      const std::vector<T> got = batched.run(*dev, f);
      if (first.empty()) {
        first = got;
        const std::vector<c128> want = batched.want(f);
        const double allowed = tolerance<T>() * (4 + std::sqrt(terms));
        size_t wrong = 0;
        for (size_t i = 0; i < want.size(); ++i) {
          if constexpr (is_complex_v<T>)
            wrong += !near(got[i], want[i], allowed);
          else
            wrong += !near(got[i], want[i].re, allowed);
        }
        CHECK(wrong == 0);
      }
      CHECK(same_bits(first, got));
    }
  }
}
template <class T>
void check_dtypes_of(const std::vector<const char*>& equations, const Extents& extents,
                     bool also_complex_factors) {
  Factors scaled;
  scaled.alpha = also_complex_factors ? c128(0.5, -1) : c128(0.5);
  scaled.beta = also_complex_factors ? c128(-1, 0.25) : c128(-1);
  scaled.bias = scaled.conj_b = true;
  Factors added;
  added.beta = c128(1);
  added.conj_a = true;
  check_layouts<T>(equations, extents, Factors());
  check_layouts<T>(equations, extents, scaled);
  check_layouts<T>(equations, extents, added);
}

const std::vector<const char*> kMatrices = {
    "bij,bjk->bik", "ijb,jkb->ikb", "ijb,bjk->ikb", "bij,jkb->ikb", "ijb,kjb->bik",
    "bji,kjb->kib", "jib,jkb->kib", "bij,bkj->kib", "ibj,jbk->ibk", "jkb,ijb->ikb"};
const std::vector<const char*> kVectors = {"bij,bj->bi", "ijb,jb->ib", "bij,jb->ib", "ijb,bj->ib",
                                           "jib,jb->bi", "bji,jb->ib", "jb,ijb->ib"};

}  // namespace

TEST_CASE("cpu: a batched product has the same bits wherever its batch axis lies") {
  for (const Extents& e : {Extents{{'i', 5}, {'j', 7}, {'k', 4}, {'b', 37}},
                           Extents{{'i', 9}, {'j', 3}, {'k', 12}, {'b', 4}},
                           Extents{{'i', 2}, {'j', 430}, {'k', 8}, {'b', 21}},
                           Extents{{'i', 3}, {'j', 2}, {'k', 2}, {'b', 150}},
                           Extents{{'i', 14}, {'j', 20}, {'k', 13}, {'b', 16}},
                           Extents{{'i', 5}, {'j', 3}, {'k', 8}, {'b', 1024}}}) {
    check_dtypes_of<float>(kMatrices, e, false);
    check_dtypes_of<c128>(kMatrices, e, true);
    if (test::small_sizes()) continue;
    check_dtypes_of<double>(kMatrices, e, false);
    check_dtypes_of<c64>(kMatrices, e, true);
  }
}

TEST_CASE("cpu: batched rows, columns and dot products have the same bits in every layout") {
  for (const Extents& e :
       {Extents{{'i', 5}, {'j', 70}, {'b', 37}}, Extents{{'i', 3}, {'j', 1200}, {'b', 5}},
        Extents{{'i', 9}, {'j', 33}, {'b', 300}}, Extents{{'i', 2}, {'j', 2}, {'b', 64}}}) {
    check_dtypes_of<float>(kVectors, e, false);
    check_dtypes_of<double>(kVectors, e, false);
    check_dtypes_of<c64>(kVectors, e, true);
  }
  for (const Extents& e : {Extents{{'j', 70}, {'b', 37}}, Extents{{'j', 2100}, {'b', 19}}}) {
    check_dtypes_of<float>({"bj,bj->b", "jb,jb->b", "jb,bj->b"}, e, false);
    check_dtypes_of<double>({"bj,bj->b", "jb,jb->b", "jb,bj->b"}, e, false);
    check_dtypes_of<c128>({"bj,bj->b", "jb,jb->b", "jb,bj->b"}, e, true);
  }
}

TEST_CASE("cpu: two batch axes, of which any lies last") {
  const Extents e{{'a', 3}, {'b', 18}, {'i', 6}, {'j', 11}, {'k', 7}};
  const std::vector<const char*> equations = {"abij,abjk->abik", "iajb,jakb->iakb",
                                              "ibja,jbka->ikba", "aijb,ajkb->iakb",
                                              "baij,jkab->ikab", "ijab,ajkb->ikab"};
  check_dtypes_of<float>(equations, e, false);
  check_dtypes_of<double>(equations, e, false);
  check_dtypes_of<c64>(equations, e, true);
}
