// reduce, scan and softmax of the GPU modules, on the emulator's four devices (waves of 32 and 64,
// both orders), against the reference: sizes beyond a block and a chunk, which the op table does
// not reach. A result must have the same bits on all devices and in all layouts.
#include "tests/helpers/gpu_emulator.hpp"

using namespace gpu_test;

namespace {

void run_emulated(gd_device* device, gd_slot slot, int32_t op, gd_view in, gd_view out,
                  const Index& ints) {
  run(emulator(), device, slot, op, {in}, {out}, {}, ints);
}
template <class Out, class In>
std::vector<Out> by_reference(gd_slot slot, int32_t op, const Array<In>& x, const Index& sizes,
                              const Index& ints) {
  gradus::Device& device = open_device("reference");
  Array<Out> y(sizes);
  run(device.table(), device.handle(), slot, op, {x.view()}, {y.view()}, {}, ints);
  return y.values();
}

// Its elements begin where fours are aligned.
template <class T>
void to_start(Array<T>& x) {
  std::copy(x.store.get() + x.offset, x.store.get() + x.length, x.store.get());
  x.offset = 0;
}

// All layouts on all devices against the reference, to `tolerance` (0: exactly) and to the bit
// against each other.
template <class Out, class T, class F>
void check_slot(gd_slot slot, int32_t op, const Index& in, const Index& out, const Index& ints,
                double tolerance, F&& number) {
  CAPTURE(int(slot));
  CAPTURE(op);
  CAPTURE(int(dtype_of<T>));
  std::vector<Out> wanted, first;
  int plain = 0;
  for (Layout layout : {kPlain, kPlain, kPermuted, kNegative, kGaps}) {
    CAPTURE(int(layout));
    Array<T> x = filled<T>(in, layout, number);
    const bool fours = layout == kPlain && plain++ > 0;
    if (fours) to_start(x);
    if (wanted.empty()) wanted = by_reference<Out>(slot, op, x, out, ints);
    for (size_t k = 0; k < emulated().size(); ++k) {
      if (layout != kPlain && k != size_t(layout) % emulated().size()) continue;
      CAPTURE(k);
      Array<Out> y(out, layout);
      if (fours) to_start(y);
      run_emulated(emulated()[k], slot, op, x.view(), y.view(), ints);
      const std::vector<Out> got = y.values();
      if (first.empty()) first = got;
      CHECK(same_bits(got, first));
      bool right = got.size() == wanted.size();
      for (size_t i = 0; right && i < got.size(); ++i)
        right = near(got[i], wide(Out(wanted[i])), tolerance);
      CHECK(right);
    }
  }
}

template <class T>
constexpr bool exact = std::is_integral_v<T>;

// Near 1, so that long products stay in range.
template <class T>
T near_one() {
  if constexpr (std::is_integral_v<T>)
    return small_number<T>();
  else if constexpr (is_complex_v<T>)
    return T(real_of<T>(1) + real_of<T>(pick(-40, 40)) / 8192, real_of<T>(pick(-40, 40)) / 8192);
  else
    return T(1 + float(pick(-40, 40)) / 8192);
}

template <class T>
void check_reductions(const Index& in, const Index& out) {
  using Wider = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  CAPTURE(in[0]);
  const double n = double(product(in)) / double(product(out));
  const double loose = exact<T> ? 0 : tolerance<T>() * (1 + 0.02 * std::sqrt(n));
  check_slot<Wider, T>(GD_REDUCE, GD_SUM, in, out, {}, loose, small_number<T>);
  check_slot<Wider, T>(GD_REDUCE, GD_PROD, in, out, {}, exact<T> ? 0 : 20 * loose, near_one<T>);
  const auto rarely = [] { return T(pick(0, 4000) == 0 ? 1 : 0); };
  const auto mostly = [] { return T(pick(0, 4000) == 0 ? 0 : 1); };
  check_slot<bool, T>(GD_REDUCE, GD_ANY, in, out, {}, 0, rarely);
  check_slot<bool, T>(GD_REDUCE, GD_ALL, in, out, {}, 0, mostly);
  if constexpr (!is_complex_v<T>) {
    check_slot<T, T>(GD_REDUCE, GD_MAX, in, out, {}, 0, small_number<T>);
    check_slot<T, T>(GD_REDUCE, GD_MIN, in, out, {}, 0, small_number<T>);
    int64_t axis = -1, axes = 0;
    for (size_t d = 0; d < in.size(); ++d)
      if (in[d] != out[d]) {
        axis = int64_t(d);
        ++axes;
      }
    if (axes != 1) return;
    check_slot<int64_t, T>(GD_REDUCE, GD_ARGMAX, in, out, {axis}, 0, small_number<T>);
    check_slot<int64_t, T>(GD_REDUCE, GD_ARGMIN, in, out, {axis}, 0, small_number<T>);
  }
}

}  // namespace

TEST_CASE("gpu: reduce") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    check_reductions<T>({5, 300, 7}, {5, 1, 7});
    check_reductions<T>({4, 9, 131}, {1, 9, 1});
    check_reductions<T>({4, 5, 6}, {1, 1, 1});
    check_reductions<T>({7, 3}, {7, 3});
    check_reductions<T>({2, 516}, {2, 1});
    check_reductions<T>({521, 36}, {1, 36});
    // The kernel is one for all dtypes of a size; fibers are slow under sanitizers.
    if (test::small_sizes() && !std::is_same_v<T, float> && !std::is_same_v<T, c128>) return;
    check_reductions<T>({3, 2500}, {3, 1});
    check_reductions<T>({2500, 3}, {1, 3});
    check_reductions<T>({1300, 70}, {1, 70});
    check_reductions<T>({1300, 72}, {1, 72});
    check_reductions<T>({4, 9, 132}, {1, 9, 1});
    check_reductions<T>({9000}, {1});
  });
  check_reductions<float>({9000, 3}, {1, 3});
  check_reductions<int32_t>({1, 20000, 2}, {1, 1, 1});
  // Several chunks in a block, of rows in fours, and of others.
  for (int64_t n : {1030, 3080}) {
    const Index in{1030, n}, out{1030, 1};
    check_slot<float, float>(GD_REDUCE, GD_SUM, in, out, {}, 1e-5, small_number<float>);
    if (n == 1030 || !test::small_sizes())
      check_slot<int64_t, float>(GD_REDUCE, GD_ARGMAX, in, out, {1}, 0, small_number<float>);
  }
  check_slot<double, double>(GD_REDUCE, GD_SUM, {1026, 2052}, {1026, 1}, {}, 1e-13,
                             small_number<double>);
}

TEST_CASE("gpu: sums of rows have the bits of single ones, however many chunks a team folds") {
  const int64_t n = 9 * 1024 + 4, lines = 410;  // 4 chunks at once
  auto x = filled<float>({lines, n}, kPlain, small_number<float>);
  Array<float> sums({lines, 1});
  to_start(x);
  run_emulated(emulated()[1], GD_REDUCE, GD_SUM, x.view(), sums.view(), {});
  for (int64_t line : {int64_t(0), int64_t(7), lines - 1}) {
    Array<float> row({n}), column({n}, kGaps), a({1}), b({1});
    for (int64_t k = 0; k < n; ++k) row.at({k}) = column.at({k}) = x.at({line, k});
    run_emulated(emulated()[0], GD_REDUCE, GD_SUM, row.view(), a.view(), {});
    run_emulated(emulated().back(), GD_REDUCE, GD_SUM, column.view(), b.view(), {});
    CHECK(same_bits(a.values(), b.values()));
    CHECK(a.at({0}) == sums.at({line, 0}));
  }
}

TEST_CASE("gpu: sums of columns, however many a block takes") {
  const auto check = [](int64_t rows, int64_t columns, int64_t width, gd_device* device) {
    CAPTURE(columns);
    Array<uint8_t> x({rows, width});
    for (int64_t k = 0; k < x.length; ++k) x.store[size_t(k)] = uint8_t(k % 11 * (k % 3));
    to_start(x);
    std::vector<int64_t> wanted(size_t(columns), 0);
    for (int64_t k = 0; k < rows; ++k)
      for (int64_t c = 0; c < columns; ++c) wanted[size_t(c)] += x.store[size_t(k * width + c)];
    Array<int64_t> y({1, columns});
    x.sizes[1] = columns;
    run_emulated(device, GD_REDUCE, GD_SUM, x.view(), y.view(), {});
    CHECK(y.values() == wanted);
  };
  check(1100, 16400, 16400, emulated()[0]);       // all chunks of 32 columns
  check(512 * 1024 - 3, 64, 128, emulated()[1]);  // chunks of 64
  check(512 * 1024 - 3, 128, 128, emulated().back());
}

TEST_CASE("gpu: reduce a line whose chunks grow") {
  Array<uint8_t> x({1100, 2000});
  x.fill(small_number<uint8_t>);
  const std::vector<int64_t> wanted = by_reference<int64_t>(GD_REDUCE, GD_SUM, x, {1, 1}, {});
  Array<int64_t> y({1, 1});
  run_emulated(emulated()[0], GD_REDUCE, GD_SUM, x.view(), y.view(), {});
  CHECK(y.values() == wanted);
  Array<float> f({2100000}), columns({2100000, 2}, kPlain), one({1}), two({1, 2});
  f.fill(small_number<float>);
  to_start(f);
  for (int64_t k = 0; k < 2100000; ++k) columns.at({k, 0}) = columns.at({k, 1}) = f.at({k});
  run_emulated(emulated()[1], GD_REDUCE, GD_SUM, f.view(), one.view(), {});
  run_emulated(emulated()[0], GD_REDUCE, GD_SUM, columns.view(), two.view(), {});
  CHECK(two.at({0, 0}) == one.at({0}));
  CHECK(two.at({0, 1}) == one.at({0}));
}

TEST_CASE("gpu: the first winner of a long line, and NaN before all") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t n : {40, 700, 5000, 20000})
    for (bool with_nan : {false, true})
      for (bool columns : {false, true}) {
        Array<double> x(columns ? Index{n, 3} : Index{3, n}, columns ? kPermuted : kPlain);
        const auto at = [&](int64_t line, int64_t k) -> double& {
          return x.at(columns ? Index{k, line} : Index{line, k});
        };
        for (int64_t line = 0; line < 3; ++line) {
          for (int64_t k = 0; k < n; ++k) at(line, k) = -1e300;
          for (int64_t k : {n / 3 + line, n / 2, n - 1}) at(line, k) = with_nan ? nan : 7;
          at(line, n - 2) = with_nan ? 1e300 : 7;
        }
        for (gd_device* device : emulated()) {
          Array<int64_t> y(columns ? Index{1, 3} : Index{3, 1});
          Array<double> m(columns ? Index{1, 3} : Index{3, 1});
          run_emulated(device, GD_REDUCE, GD_ARGMAX, x.view(), y.view(), {columns ? 0 : 1});
          run_emulated(device, GD_REDUCE, GD_MAX, x.view(), m.view(), {});
          CHECK(y.values() == std::vector<int64_t>{n / 3, n / 3 + 1, n / 3 + 2});
          for (double v : m.values()) CHECK((with_nan ? v != v : v == 7));
        }
      }
}

TEST_CASE("gpu: scan") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    const auto scans = [](const Index& sizes, int64_t axis) {
      CAPTURE(sizes[0]);
      for (int64_t from_end : {0, 1}) {
        const double loose =
            exact<T> ? 0 : tolerance<T>() * (1 + 0.05 * std::sqrt(double(sizes[size_t(axis)])));
        const Index ints{axis, from_end};
        check_slot<T, T>(GD_SCAN, GD_SUM, sizes, sizes, ints, loose, small_number<T>);
        check_slot<T, T>(GD_SCAN, GD_PROD, sizes, sizes, ints, exact<T> ? 0 : 20 * loose,
                         near_one<T>);
        if constexpr (!is_complex_v<T>) {
          check_slot<T, T>(GD_SCAN, GD_MAX, sizes, sizes, ints, 0, small_number<T>);
          check_slot<T, T>(GD_SCAN, GD_MIN, sizes, sizes, ints, 0, small_number<T>);
        }
      }
    };
    scans({3, 7}, 1);
    scans({3, 40}, 1);
    scans({2, 300, 3}, 1);
    scans({2, 1500}, 1);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, int64_t>) {
      scans({20000}, 0);
      scans({9000, 3}, 0);
    }
  });
}

TEST_CASE("gpu: a scan of many lines side by side has the bits of single ones") {
  const int64_t n = 1100, lines = 16400;
  const auto x = filled<float>({n, lines}, kPlain, small_number<float>);
  Array<float> y({n, lines});
  run_emulated(emulated()[0], GD_SCAN, GD_SUM, x.view(), y.view(), {0, 0});
  for (int64_t line : {int64_t(0), int64_t(300), lines - 1}) {
    Array<float> one({n}), alone({n}), cut({n});
    for (int64_t k = 0; k < n; ++k) {
      one.at({k}) = x.at({k, line});
      cut.at({k}) = y.at({k, line});
    }
    run_emulated(emulated()[0], GD_SCAN, GD_SUM, one.view(), alone.view(), {0, 0});
    CHECK(same_bits(alone.values(), cut.values()));
    run_emulated(emulated()[1], GD_SCAN, GD_SUM, one.view(), one.view(), {0, 0});  // in place
    CHECK(same_bits(one.values(), cut.values()));
  }
}

TEST_CASE("gpu: softmax") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    if constexpr (!is_complex_v<T> && !std::is_integral_v<T>) {
      const auto check = [](const Index& sizes, int64_t axis) {
        CAPTURE(sizes[0]);
        for (int64_t logarithm : {0, 1})
          check_slot<T, T>(GD_SOFTMAX, 0, sizes, sizes, {axis, logarithm}, tolerance<T>(),
                           small_number<T>);
      };
      check({3, 5}, 1);
      check({7, 300}, 1);
      check({300, 7}, 0);
      check({2, 2500}, 1);
      check({700, 40}, 0);
      // In fours: of one chunk, and of several.
      check({70, 12}, 1);
      check({5, 1000}, 1);
      check({3, 3076}, 1);
      check({3, 4100}, 1);
      check({3, 50, 5}, 1);
    }
  });
}

TEST_CASE("gpu: softmax of infinities and NaN") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t n : {6, 3000}) {
    Array<double> x({4, n});
    for (int64_t k = 0; k < n; ++k) {
      x.at({0, k}) = -inf;
      x.at({1, k}) = k == 3 ? nan : 1;
      x.at({2, k}) = k == 3 ? inf : 1;
      x.at({3, k}) = k == 3 ? 2 : -inf;
    }
    for (int64_t logarithm : {0, 1}) {
      const auto wanted = by_reference<double>(GD_SOFTMAX, 0, x, {4, n}, {1, logarithm});
      for (gd_device* device : emulated()) {
        Array<double> y({4, n});
        run_emulated(device, GD_SOFTMAX, 0, x.view(), y.view(), {1, logarithm});
        const auto got = y.values();
        for (size_t i = 0; i < got.size(); ++i) CHECK(near(got[i], wanted[i], 1e-14));
      }
    }
  }
}

TEST_CASE("gpu: folds say what they refuse, as the reference does") {
  const auto same = [&](gd_slot slot, int32_t op, gd_view in, gd_view out, const Index& ints) {
    same_refusal(slot, op, {in}, {out}, {}, ints);
  };
  Array<float> x({3, 4}), row({1, 4}), line({4}), none({0, 4}), odd({2, 4});
  Array<c64> z({3, 4}), z_row({1, 4});
  Array<int64_t> whole({1, 4}), all({1, 1});
  Array<int32_t> narrow({3, 4});
  same(GD_REDUCE, 99, x.view(), row.view(), {});
  same(GD_REDUCE, GD_SUM, x.view(), line.view(), {});
  same(GD_REDUCE, GD_SUM, x.view(), odd.view(), {});
  same(GD_REDUCE, GD_SUM, x.view(), whole.view(), {});
  same(GD_REDUCE, GD_MAX, none.view(), row.view(), {});
  same(GD_REDUCE, GD_MAX, z.view(), z_row.view(), {});
  same(GD_REDUCE, GD_ARGMAX, z.view(), whole.view(), {0});
  same(GD_REDUCE, GD_ARGMAX, x.view(), whole.view(), {});
  same(GD_REDUCE, GD_ARGMAX, x.view(), whole.view(), {5});
  same(GD_REDUCE, GD_ARGMAX, x.view(), all.view(), {0});
  same(GD_SCAN, GD_ANY, x.view(), x.view(), {0, 0});
  same(GD_SCAN, GD_SUM, x.view(), row.view(), {0, 0});
  same(GD_SCAN, GD_SUM, x.view(), narrow.view(), {0, 0});
  same(GD_SCAN, GD_SUM, x.view(), x.view(), {2, 0});
  same(GD_SCAN, GD_MAX, z.view(), z.view(), {0, 0});
  same(GD_SOFTMAX, 0, x.view(), row.view(), {0, 0});
  same(GD_SOFTMAX, 0, z.view(), z.view(), {0, 0});
  same(GD_SOFTMAX, 0, x.view(), x.view(), {2, 0});
}
