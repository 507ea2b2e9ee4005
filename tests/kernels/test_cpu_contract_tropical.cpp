// Tropical contractions of the cpu device against the reference: everyday numbers with many ties,
// which go by plain terms and chunks of k, and a few rare ones among them (NaN, infinities,
// integers that saturate), which go term by term; tiles, blocks of k, one row or column, few of
// them.
#include "kernels/reference/reference.hpp"
#include "tests/helpers/cpu_device.hpp"

using namespace cpu_test;

namespace {

// out[b, m, n] over k; b's columns lie side by side, or with `turned` its k do.
struct Shape {
  int64_t batch, m, n, k;
  bool turned;
};

template <class T>
T everyday() {
  if constexpr (std::is_integral_v<T>)
    return T(pick(-9, 9));
  else
    return pick(0, 9) == 0 ? T(-0.0F) : T(float(pick(-9, 9)) / 4);
}
template <class T>
T rare() {
  if constexpr (std::is_integral_v<T>) {
    using L = std::numeric_limits<T>;
    const T list[] = {L::min(), L::max(), T(L::min() + 3), T(L::max() / 2 + 2),
                      T(L::min() / 2 - 2)};
    return list[pick(0, 4)];
  } else {
    const float list[] = {NAN, INFINITY, -INFINITY, -INFINITY, 0};
    return T(list[pick(0, 4)]);
  }
}

// Values bit for bit, all NaN alike.
template <class T>
bool same(const T& x, const T& y) {
  if constexpr (!std::is_integral_v<T>)
    if (float(x) != float(x) && float(y) != float(y)) return true;
  return std::memcmp(&x, &y, sizeof(T)) == 0;
}

template <class T>
struct Result {
  std::vector<T> best;
  Index winner;
};
template <class T>
Result<T> run(const gd_table& table, gd_device* device, const Shape& s, int algebra,
              const std::vector<T>& a, const std::vector<T>& b, bool winners) {
  const Index joint = {s.batch, s.m, s.n, s.k}, sa = {s.m * s.k, s.k, 0, 1},
              sb = {s.n * s.k, 0, s.turned ? s.k : 1, s.turned ? 1 : s.n}, so = {s.m * s.n, s.n, 1};
  const int32_t t = int32_t(dtype_of<T>);
  Result<T> r{std::vector<T>(size_t(s.batch * s.m * s.n)), Index(size_t(s.batch * s.m * s.n), -7)};
  const auto data = [](const auto& x) {
    return const_cast<void*>(static_cast<const void*>(&x[0]));
  };
  std::vector<gd_view> out = {{3, data(r.best), t, 3, 0, joint.data(), so.data()}};
  if (winners) out.push_back({4, data(r.winner), GD_I64, 3, 0, joint.data(), so.data()});
  gd_error e{};
  const gd_status done = try_call(table, device, GD_CONTRACT, 0,
                                  {{1, data(a), t, 4, 0, joint.data(), sa.data()},
                                   {2, data(b), t, 4, 0, joint.data(), sb.data()}},
                                  out, {1, 0, 0, 0}, {3, algebra, 0, 0}, e);
  INFO(e.text);
  REQUIRE(done == GD_OK);
  return r;
}

struct Reference {
  gd_device* d = nullptr;
  Reference() {
    gd_error e{};
    REQUIRE(reference::table()->open(0, "{}", &d, &e) == GD_OK);
  }
  ~Reference() { reference::table()->close(d); }
};

template <class T>
void check(const Shape& s, int algebra, int64_t rare_ones) {
  std::vector<T> a(size_t(s.batch * s.m * s.k)), b(size_t(s.batch * s.n * s.k));
  for (auto* x : {&a, &b}) {
    for (T& y : *x) y = everyday<T>();
    for (int64_t i = 0; i < rare_ones; ++i)
      (*x)[size_t(pick(0, int64_t(x->size()) - 1))] = rare<T>();
  }
  const Reference reference;
  const Result<T> want = run(*reference::table(), reference.d, s, algebra, a, b, true);
  for (const auto& dev : devices())
    for (const bool winners : {false, true}) {
      const Result<T> got = run(*cpu::table(), dev->d, s, algebra, a, b, winners);
      int64_t wrong = 0;
      for (size_t i = 0; i < want.best.size(); ++i)
        wrong += !same(got.best[i], want.best[i]) || (winners && got.winner[i] != want.winner[i]);
      CAPTURE(dev->name);
      CAPTURE(int(dtype_of<T>));
      CAPTURE(algebra);
      CAPTURE(s.m);
      CAPTURE(s.n);
      CAPTURE(s.k);
      CAPTURE(rare_ones);
      CHECK(wrong == 0);
    }
}

template <class T>
void check_all(std::initializer_list<Shape> shapes) {
  for (const int algebra : {GD_MAX_PLUS, GD_MIN_PLUS, GD_MAX_TIMES})
    for (const int64_t rare_ones : {0, 3})
      for (const Shape& s : shapes) check<T>(s, algebra, rare_ones);
}

}  // namespace

TEST_CASE("cpu: tropical tiles, chunks and blocks of k") {
  const auto shapes = {Shape{1, 25, 67, 15, false}, Shape{1, 13, 33, 16, true},
                       Shape{2, 7, 40, 37, false}, Shape{1, 9, 35, 1045, true},
                       Shape{1, 30, 40, 1, false}};
  check_all<float>(shapes);
  check_all<double>(shapes);
  check_all<int32_t>(shapes);
  check_all<int64_t>(shapes);
  check_all<Half>({{1, 7, 35, 37, false}});
  check_all<BFloat16>({{1, 7, 35, 37, true}});
}

TEST_CASE("cpu: tropical rows, columns and dots") {
  const auto shapes = {Shape{1, 1, 1100, 21, false}, Shape{1, 1, 70, 45, true},
                       Shape{3, 1, 19, 8, false},    Shape{1, 130, 1, 67, false},
                       Shape{1, 1, 1, 2075, false},  Shape{40, 1, 1, 5, false},
                       Shape{2, 3, 50, 30, false},   Shape{2, 40, 3, 9, false}};
  check_all<float>(shapes);
  check_all<double>(shapes);
  check_all<int32_t>(shapes);
  check_all<int64_t>(shapes);
}
