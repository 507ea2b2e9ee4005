// contract of the GPU modules' source, run by the emulator: every way of contracting that sizes can
// choose, against the reference. Waves of 32 and of 64 lanes and both orders of threads must give
// the same bits, and so must operands and outputs that lie in memory in other ways.
#include "ops/def/fingerprint.hpp"
#include "tests/helpers/gpu_emulator.hpp"

using namespace gpu_test;

namespace {

struct Opened {
  const gd_table* table;
  gd_device* d;
  // "" or why not.
  std::string call(const std::vector<gd_view>& in, const std::vector<gd_view>& out,
                   const std::vector<double>& doubles, const Index& ints,
                   gd_slot slot = GD_CONTRACT, int32_t op = 0) const {
    gd_error e{};
    return try_call(*table, d, slot, op, in, out, doubles, ints, e) == GD_OK ? "" : e.text;
  }
};
std::vector<Opened> opened(const std::vector<gd_device*>& devices) {
  std::vector<Opened> all;
  for (gd_device* d : devices) all.push_back({&emulator(), d});
  return all;
}
const std::vector<Opened>& emulators(bool tf32 = false) {
  static const auto* const all = new std::vector<Opened>(opened(emulated()));
  static const auto* const rounding =
      new std::vector<Opened>(opened(open_emulators(R"({"tf32": true})")));
  return tf32 ? *rounding : *all;
}
const Opened& oracle() {
  static gradus::Device& device = open_device("reference");
  static const Opened o{&device.table(), device.handle()};
  return o;
}

// A contraction over a joint index space; in_a and in_b say which operand has an axis.
struct Labels {
  Index sizes;
  std::vector<bool> in_a, in_b;
  int64_t n_out = 0;

  Index own(const std::vector<bool>& has) const {
    Index s;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (has[d]) s.push_back(sizes[d]);
    return s;
  }
  Index out() const { return {sizes.begin(), sizes.begin() + n_out}; }
};
Labels matmul(int64_t batch, int64_t m, int64_t n, int64_t k) {
  return {{batch, m, n, k}, {true, true, false, true}, {true, false, true, true}, 3};
}

// Row-major numbers over some axes of the joint space, as an array in any layout.
template <class T>
struct Operand {
  Array<T> array;
  Index sizes, joint;
  Operand(const Labels& l, const std::vector<bool>& has, const std::vector<T>& values,
          Layout layout)
      : array(l.own(has), layout), sizes(l.sizes) {
    if (layout == kPlain || layout == kPermuted) {  // so that 16 bytes can be read at once
      array.offset = 16 / int64_t(sizeof(T));
      array.store.reset(new T[size_t(array.length + array.offset)]());
    }
    size_t k = 0, n = 0;
    for (size_t d = 0; d < l.sizes.size(); ++d) joint.push_back(has[d] ? array.strides[k++] : 0);
    each(array.sizes, [&](const Index& i) { array.at(i) = values[n++]; });
  }
  gd_view view() const {
    gd_view v = array.view();
    v.rank = int32_t(sizes.size());
    v.sizes = sizes.data();
    v.strides = joint.data();
    return v;
  }
};
// Sums of them are rounded, so their bits show the order of the sum; `whole` ones are exact.
template <class T>
T number(bool whole) {
  const auto rough = [] { return double(pick(-1000000, 1000000)) / 7e5; };
  if constexpr (is_complex_v<T>)
    return whole ? small_number<T>() : T(real_of<T>(rough()), real_of<T>(rough()));
  else if constexpr (std::is_integral_v<T>)
    return small_number<T>();
  else
    return whole ? small_number<T>() : T(float(rough()));
}
template <class T>
std::vector<T> numbers(const Index& sizes, bool whole) {
  std::vector<T> v(size_t(product(sizes)));
  for (T& x : v) x = number<T>(whole);
  return v;
}

struct How {
  int algebra = GD_STANDARD;
  c128 alpha = 1, beta = 0;
  bool bias = false, winners = false, conj_a = false, conj_b = false, tf32 = false;
  int64_t statement = -1;
  std::vector<double> parameters{};
  int32_t way = GD_WAY_OWN;  // GD_UNSUPPORTED is then no failure: the run gives nothing
};

template <class T>
struct Problem {
  Labels l;
  How how;
  std::vector<T> a, b, before, bias;
  Problem(Labels labels, How h)
      : l(std::move(labels)),
        how(h),
        a(numbers<T>(l.own(l.in_a), h.algebra != GD_STANDARD)),
        b(numbers<T>(l.own(l.in_b), h.algebra != GD_STANDARD)),
        before(numbers<T>(l.out(), h.algebra != GD_STANDARD)),
        bias(numbers<T>(l.out(), h.algebra != GD_STANDARD)) {}

  std::pair<std::vector<T>, std::vector<int64_t>> run(const Opened& dev, bool plain) const {
    const auto layout = [&] { return plain ? kPlain : Layout(pick(0, 3)); };
    const Operand<T> va(l, l.in_a, a, layout()), vb(l, l.in_b, b, layout());
    const std::vector<bool> all(size_t(l.n_out), true);
    const Labels o{l.out(), all, all, l.n_out};
    Operand<T> out(o, all, before, layout());
    const Operand<T> more(o, all, bias, layout());
    Operand<int64_t> won(o, all, std::vector<int64_t>(before.size(), -7), layout());
    std::vector<gd_view> in = {va.view(), vb.view()}, outs = {out.view()};
    if (how.bias) in.push_back(more.view());
    if (how.winners) outs.push_back(won.view());
    std::vector<double> doubles = {how.alpha.re, how.alpha.im, how.beta.re, how.beta.im};
    doubles.insert(doubles.end(), how.parameters.begin(), how.parameters.end());
    Index ints = {l.n_out, how.algebra, how.conj_a, how.conj_b};
    if (how.statement >= 0) ints.push_back(how.statement);
    gd_error e{};
    const gd_status s =
        try_call(*dev.table, dev.d, GD_CONTRACT, how.way, in, outs, doubles, ints, e);
    if (s == GD_UNSUPPORTED && (how.way & GD_WAY_ONLY)) return {};
    CHECK(std::string(e.text) == "");
    return {out.array.values(), won.array.values()};
  }

  void check() const {
    CAPTURE(int(dtype_of<T>));
    CAPTURE(how.algebra);
    for (int64_t n : l.sizes) CAPTURE(n);
    const auto want = run(oracle(), true);
    double scale = 8;
    for (size_t d = size_t(l.n_out); d < l.sizes.size(); ++d)
      scale *= std::sqrt(double(l.sizes[d]));
    // Waves of 32 lanes have the products of tensor cores.
    const bool mma = is_half(dtype_of<T>) || how.tf32;
    double error = tolerance<T>() * scale;
    if (how.tf32) error = 1e-3 * scale;
    std::vector<T> first[2];
    const auto& devices = emulators(how.tf32);
    for (size_t k = 0; k < devices.size(); ++k) {
      CAPTURE(k);
      const auto got = run(devices[k], 2 * k < devices.size());
      std::vector<T>& same = first[mma ? k % 2 : 0];
      if (same.empty()) same = got.first;
      CHECK(same_bits(same, got.first));
      CHECK(got.second == want.second);
      size_t wrong = 0;
      for (size_t i = 0; i < got.first.size(); ++i) {
        const T x = got.first[i], y = want.first[i];
        if constexpr (is_complex_v<T>)
          wrong += !near(x, wide(y), error);
        else if (std::is_integral_v<T> || how.algebra != GD_STANDARD)
          wrong += !(x == y || (as_double(x) != as_double(x) && as_double(y) != as_double(y)));
        else
          wrong += !near(x, wide(y), error);
      }
      CHECK(wrong == 0);
    }
  }
};

template <class T>
void check(const Labels& l, How how = {}) {
  Problem<T>(l, how).check();
}

// Numbers at which a tropical algebra might go wrong, among others.
template <class T>
void check_tropical(const Labels& l) {
  for (int algebra : {GD_MAX_PLUS, GD_MIN_PLUS, GD_MAX_TIMES, GD_MIN_TIMES}) {
    How how;
    how.algebra = algebra;
    how.winners = pick(0, 2) != 0;
    Problem<T> p(l, how);
    using Number = std::conditional_t<is_half(dtype_of<T>), float, T>;
    using Limits = std::numeric_limits<Number>;
    for (std::vector<T>* v : {&p.a, &p.b})
      for (int k = 0; k < 3 && !v->empty(); ++k) {
        T& some = (*v)[size_t(pick(0, int64_t(v->size()) - 1))];
        if constexpr (std::is_integral_v<T>)
          some = pick(0, 1) ? Limits::min() : Limits::max();
        else
          some = T(pick(0, 2) == 0 ? Limits::quiet_NaN()
                   : pick(0, 1)    ? -Limits::infinity()
                                   : Limits::infinity());
      }
    p.check();
  }
}

template <class F>
void for_number_types(F&& f) {
  for_all_dtypes([&](auto zero) {
    if constexpr (!std::is_same_v<decltype(zero), bool>) f(zero);
  });
}

// One of each way to contract: element by element, dots in one block and in many, thin and small
// tiles with the sum in one piece and in several, square tiles.
const std::vector<Labels>& ways() {
  static const std::vector<Labels> all = {
      matmul(3, 5, 4, 6),      matmul(2, 3, 2, 300),   matmul(1, 1, 2, 9000),
      matmul(1, 1, 1, 150000), matmul(1, 70, 3, 100),  matmul(1, 2, 130, 1500),
      matmul(2, 33, 20, 90),   matmul(1, 20, 40, 700), matmul(40, 70, 100, 40),
      matmul(1, 45, 66, 0),
  };
  return all;
}

}  // namespace

TEST_CASE("gpu: contract in all dtypes and all ways") {
  for (const Labels& l : ways())
    for_number_types([&](auto zero) {
      using T = decltype(zero);
      if (product(l.sizes) > 1000000 && sizeof(T) != 4) return;
      How how;
      how.bias = pick(0, 1);
      how.beta = double(pick(0, 1));
      how.alpha = double(pick(-2, 2));
      if constexpr (is_complex_v<T>) {
        how.alpha.im = double(pick(0, 1));
        how.conj_a = pick(0, 1);
        how.conj_b = pick(0, 1);
      }
      check<T>(l, how);
    });
}

TEST_CASE("gpu: contract in square tiles of every computing type") {
  const Labels l = matmul(33, 65, 66, 35);
  How conjugated;
  conjugated.conj_b = true;
  check<Half>(l);
  check<c128>(l, conjugated);
  if (test::small_sizes()) return;
  check<double>(l);
  check<c64>(l, conjugated);
  check<uint8_t>(l);
  check<float>(matmul(1, 65, 66, 512 * 33 + 5));  // the sum in 33 chunks
}

TEST_CASE("gpu: contract on tensor cores") {
  How how;
  how.tf32 = true;
  // With runs of 16 bytes in either operand, and without.
  for (const Labels& l : {matmul(34, 67, 71, 45), matmul(33, 72, 80, 40)}) {
    if (test::small_sizes() && l.sizes.front() == 33) continue;
    check<Half>(l);
    check<BFloat16>(l);
    check<float>(l, how);
    how.bias = true;
    how.beta = 0.5;
  }
}

TEST_CASE("gpu: contract on tensor cores, the sum in parts") {
  const auto in_parts = [](auto zero, double error, bool tf32) {
    using T = decltype(zero);
    CAPTURE(int(dtype_of<T>));
    How how;
    how.tf32 = tf32;
    Problem<T> p(matmul(1, 7, 9, 150), how);
    const auto want = p.run(oracle(), true).first;
    p.how.way = GD_WAY_MATRIX | 2 << 8 | GD_WAY_ONLY;  // two parts
    const auto got = p.run(emulators(tf32)[0], true).first;
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) CHECK(near(got[i], as_double(want[i]), error));
  };
  in_parts(Half(0.f), 2e-2, false);
  in_parts(BFloat16(0.f), 0.15, false);
  in_parts(0.f, 2e-2, true);
}

TEST_CASE("gpu: contract in each way that a call wishes for, or a refusal") {
  How how;
  how.bias = true;
  how.beta = 2;
  int done[GD_WAY_COUNT] = {};
  const auto try_ways = [&](auto zero, const Labels& l, bool tf32) {
    using T = decltype(zero);
    CAPTURE(int(dtype_of<T>));
    how.tf32 = tf32;
    how.way = GD_WAY_OWN;
    Problem<T> p(l, how);
    const auto want = p.run(oracle(), true).first;
    const Opened& device = emulators(tf32)[0];
    const auto own = p.run(device, true).first;
    for (int32_t way = GD_WAY_OWN + 1; way < GD_WAY_COUNT; ++way)
      for (const int32_t parts : {0, 3}) {  // its own cut, and four
        CAPTURE(way);
        CAPTURE(parts);
        p.how.way = way | parts << 8 | GD_WAY_ONLY;
        const auto got = p.run(device, false).first;
        p.how.way = way | parts << 8;
        const auto wished = p.run(device, false).first;
        CHECK(same_bits(wished, got.empty() ? own : got));
        size_t wrong = 0;
        const double error = (tf32 ? 1e-3 : tolerance<T>()) * 8 * std::sqrt(double(l.sizes.back()));
        for (size_t i = 0; i < got.size(); ++i) wrong += !near(got[i], wide(want[i]), error);
        CHECK(wrong == 0);
        done[way] += !got.empty();
      }
  };
  // Fibers are slow: few elements, more than one tile of each kind.
  const Labels l = matmul(1, 67, 33, 20), batched = matmul(2, 5, 9, 70);
  try_ways(0.f, l, true);
  try_ways(0.f, batched, false);
  if (!test::small_sizes()) {
    try_ways(Half(0.f), l, false);
    try_ways(0., batched, false);
    try_ways(c64(0.f), batched, false);
    try_ways(int32_t(0), batched, false);
  }
  try_ways(0.f, matmul(1, 5, 9, 0), false);
  for (int way = GD_WAY_DIRECT; way <= GD_WAY_MATRIX_LARGE; ++way) CHECK(done[way] > 0);
  // Neither the CPU nor the reference has ways to choose from.
  for (const char* name : {"cpu", "reference"}) {
    gradus::Device& d = open_device(name);
    const Array<float> a({2, 3}), out({2});
    gd_error e{};
    CHECK(try_call(d.table(), d.handle(), GD_CONTRACT, GD_WAY_SMALL | GD_WAY_ONLY,
                   {a.view(), a.view()}, {out.view()}, {1, 0, 0, 0}, {1, 0, 0, 0},
                   e) == GD_UNSUPPORTED);
    CHECK(try_call(d.table(), d.handle(), GD_CONTRACT, GD_WAY_SMALL, {a.view(), a.view()},
                   {out.view()}, {1, 0, 0, 0}, {1, 0, 0, 0}, e) == GD_OK);
  }
}

namespace {
int64_t statement(const std::string& name) {
  for (int32_t k = 0; k < def::statement_count(); ++k)
    if (std::string(def::statement_text(k)).rfind(name + "(", 0) == 0) return k;
  FAIL("no statement " << name);
  return -1;
}

// Through a statement in the same call or in a call of its own: the same bits.
template <class T>
void check_statement(const Labels& l, const std::string& name,
                     const std::vector<double>& parameters = {}) {
  CAPTURE(name);
  How how;
  how.bias = true;
  Problem<T> p(l, how);
  how.statement = statement(name);
  how.parameters = parameters;
  const auto sums = p.run(emulators()[0], true).first;
  p.how = how;
  std::vector<T> alone(sums.size());
  const Index sizes = {int64_t(sums.size())}, one = {1};
  const auto view = [&](const std::vector<T>& v) {
    return gd_view{1,         const_cast<T*>(v.data()), int32_t(dtype_of<T>), 1, 0, sizes.data(),
                   one.data()};
  };
  CHECK(emulators()[0].call({view(sums)}, {view(alone)}, parameters, {}, GD_POINTWISE,
                            int32_t(how.statement)) == "");
  CHECK(same_bits(alone, p.run(emulators()[0], false).first));
  p.check();
}
}  // namespace

TEST_CASE("gpu: contract through a statement") {
  for (const Labels& l :
       {matmul(2, 5, 4, 6), matmul(2, 33, 20, 90), matmul(1, 20, 40, 700), matmul(33, 65, 66, 9)}) {
    check_statement<Half>(l, "relu");
    check_statement<float>(l, "leaky_relu", {0.25});
    if (test::small_sizes()) continue;
    check_statement<float>(l, "relu");
    check_statement<double>(l, "relu");
    check_statement<int32_t>(l, "relu");
    check_statement<float>(l, "sigmoid");
  }
}

TEST_CASE("gpu: contract in the largest tiles, and long sums on tensor cores") {
  if (test::small_sizes()) return;  // minutes under sanitizers, in the reference
  const auto compare = [&](const auto& p, double error) {
    const auto want = p.run(oracle(), true).first,
               got = p.run(emulators(p.how.tf32)[0], false).first;
    size_t wrong = 0;
    for (size_t i = 0; i < want.size(); ++i) wrong += !near(got[i], as_double(want[i]), error);
    CHECK(wrong == 0);
  };
  How rounding;
  rounding.tf32 = true;
  const Labels l = matmul(33, 129, 130, 19);
  compare(Problem<float>(l, {}), 1e-5);
  compare(Problem<Half>(l, {}), 1e-3);
  compare(Problem<float>(l, rounding), 1e-2);
  compare(Problem<BFloat16>(matmul(1, 33, 40, 512 * 132), {}), 1.5e-2);
}

TEST_CASE("gpu: contract over tropical algebras") {
  for (const Labels& l : ways()) {
    if (product(l.sizes) > 1000000) continue;
    check_tropical<Half>(l);
    check_tropical<double>(l);
    check_tropical<int32_t>(l);
    check_tropical<int64_t>(l);
    if (test::small_sizes()) continue;
    check_tropical<float>(l);
    check_tropical<BFloat16>(l);
  }
}

TEST_CASE("gpu: contract on random label structures") {
  for (int round = 0; round < 150; ++round) {
    Labels l;
    const int64_t rank = pick(1, 6);
    l.n_out = pick(0, rank);
    for (int64_t d = 0; d < rank; ++d) {
      l.sizes.push_back(pick(0, 9) == 0 ? 1 : pick(0, 40) == 0 ? 0 : pick(1, 9));
      const int64_t kind = pick(0, 3);
      l.in_a.push_back(kind != 1);
      l.in_b.push_back(kind != 2 || (d >= l.n_out && pick(0, 1)));
    }
    if (pick(0, 2) == 0 && rank > l.n_out) l.sizes.back() = pick(100, 300);
    if (product(l.sizes) > 20000) continue;
    How how;
    how.bias = pick(0, 1);
    how.beta = double(pick(-1, 1));
    check<float>(l, how);
    check<c128>(l, how);
    check<int32_t>(l, how);
    check_tropical<float>(l);
    check_tropical<int64_t>(l);
  }
}

TEST_CASE("gpu: contract refuses what the reference refuses") {
  const Array<float> a({2, 3, 4}), out({2, 3}), other({2, 4}), matrix({2, 3});
  const Array<double> doubles({2, 3, 4});
  const Array<bool> bits({2, 3, 4}), bit({2, 3});
  const Array<int32_t> whole({2, 3, 4}), sum({2, 3});
  const Array<uint8_t> bytes({2, 3, 4}), byte({2, 3});
  const Array<int64_t> winners({2, 3});
  const auto va = a.view(), vo = out.view();
  struct Bad {
    std::vector<gd_view> in, out;
    std::vector<double> numbers;
    Index ints;
  };
  const std::vector<double> one = {1, 0, 0, 0};
  const std::vector<Bad> bad = {
      {{va, va}, {vo}, one, {2}},
      {{va, va}, {vo}, one, {2, 7, 0, 0}},
      {{va}, {vo}, one, {2, 0, 0, 0}},
      {{va, va}, {vo}, {1}, {2, 0, 0, 0}},
      {{va, matrix.view()}, {vo}, one, {2, 0, 0, 0}},
      {{va, va}, {vo}, one, {5, 0, 0, 0}},
      {{va, va}, {other.view()}, one, {2, 0, 0, 0}},
      {{va, doubles.view()}, {vo}, one, {2, 0, 0, 0}},
      {{va, va}, {vo}, {1, 1, 0, 0}, {2, 0, 0, 0}},
      {{va, va}, {vo}, {2, 0, 0, 0}, {2, GD_MAX_PLUS, 0, 0}},
      {{va, va, vo}, {vo}, one, {2, GD_MAX_PLUS, 0, 0}},
      {{va, va}, {vo, vo}, one, {2, GD_MAX_PLUS, 0, 0}},
      {{va, va}, {vo, winners.view()}, one, {2, 0, 0, 0}},
      {{bits.view(), bits.view()}, {bit.view()}, one, {2, 0, 0, 0}},
      {{bytes.view(), bytes.view()}, {byte.view()}, one, {2, GD_MIN_PLUS, 0, 0}},
      {{whole.view(), whole.view()}, {sum.view()}, {0.5, 0, 0, 0}, {2, 0, 0, 0}},
      {{va, va, other.view()}, {vo}, one, {2, 0, 0, 0}},
      {{va, va}, {vo}, one, {2, GD_MAX_PLUS, 0, 0, 0}},
      {{va, va}, {vo}, one, {2, 0, 0, 0, 9999}},
      {{va, va}, {vo}, one, {2, 0, 0, 0, statement("add")}},
      {{va, va, winners.view()}, {vo}, one, {2, 0, 0, 0}},
  };
  for (const Bad& b : bad) {
    const std::string want = oracle().call(b.in, b.out, b.numbers, b.ints),
                      got = emulators()[0].call(b.in, b.out, b.numbers, b.ints);
    CHECK(want != "");
    CHECK(got == emulator().kind + want.substr(std::string("reference").size()));
  }
}
