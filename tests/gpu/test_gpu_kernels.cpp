// Slots of the GPU modules that have no file of tests of their own, against the reference: copies,
// indices, sorting, random numbers, optimisers, statements. And whether the tests of this module
// run every kernel that it has.
#include "ops/def/fingerprint.hpp"
#include "tests/helpers/gpu_emulator.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <fstream>

using namespace gpu_test;

namespace {

gradus::Device& reference() { return open_device("reference"); }

template <class T>
Array<T> copy_of(const Array<T>& x) {
  Array<T> y(x.sizes);
  y.strides = x.strides;
  y.offset = x.offset;
  y.length = x.length;
  y.store.reset(new T[size_t(x.length)]);
  std::copy_n(x.store.get(), x.length, y.store.get());
  return y;
}

// What a slot leaves in `out`, which is read as well, on every device and by the reference.
template <class T>
void agree(gd_slot slot, int32_t op, const std::vector<gd_view>& in, const Array<T>& out,
           const std::vector<double>& doubles, const Index& ints, double tolerance) {
  CAPTURE(int(slot));
  CAPTURE(op);
  CAPTURE(int(dtype_of<T>));
  const Array<T> wanted = copy_of(out);
  run(reference().table(), reference().handle(), slot, op, in, {wanted.view()}, doubles, ints);
  for (size_t k = 0; k < emulated().size(); ++k) {
    CAPTURE(k);
    const Array<T> got = copy_of(out);
    run(emulator(), emulated()[k], slot, op, in, {got.view()}, doubles, ints);
    if (tolerance == 0)
      CHECK(same_bits(got.values(), wanted.values()));
    else
      CHECK(all_near(got, wanted, tolerance));
  }
}

template <class T>
Array<T> drawn(const Index& sizes, Layout layout = kPlain) {
  return filled<T>(sizes, layout, small_number<T>);
}

}  // namespace

TEST_CASE("gpu: copies that turn planes, of other layouts, and casts") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    // Turned by tiles, with ragged ends and a stack of planes; thin ones, short axes that are
    // joined; too little to be turned.
    for (const Index& sizes : {Index{70, 145},
                               {3, 33, 40},
                               {700, 3},
                               {2, 1100},
                               {9, 4, 2, 5, 6},
                               {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
                               {5, 3, 4}})
      for (Layout layout : {kPermuted, kNegative, kGaps})
        agree(GD_COPY, 0, {drawn<T>(sizes, layout).view()}, Array<T>(sizes), {}, {}, 0);
    const Array<T> x = drawn<T>({7, 9}, kPermuted);
    agree(GD_COPY, 0, {x.view()}, Array<float>({7, 9}), {}, {}, 0);
    agree(GD_COPY, 0, {x.view()}, Array<int32_t>({7, 9}, kGaps), {}, {}, 0);
    agree(GD_COPY, 0, {drawn<int64_t>({7, 9}).view()}, Array<T>({7, 9}), {}, {}, 0);
    agree(GD_COPY, 0, {drawn<c64>({7, 9}).view()}, Array<T>({7, 9}), {}, {}, 0);
    const bool whole = std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;
    agree(GD_FILL, 0, {}, Array<T>({5, 6}, kGaps),
          whole ? std::vector<double>{} : std::vector<double>{1, 0}, whole ? Index{-3} : Index{},
          0);
  });
}

TEST_CASE("gpu: gather and scatter_add of every dtype") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    const Array<T> x = drawn<T>({40, 6}, kPermuted);
    const Array<int64_t> index = filled<int64_t>({300, 6}, kPlain, [] { return pick(0, 39); });
    agree(GD_GATHER, 0, {x.view(), index.view()}, Array<T>({300, 6}), {}, {0}, 0);
    // Many contributions to each element: their order shows in the bits.
    agree(GD_SCATTER_ADD, 0, {index.view(), drawn<T>({300, 6}).view()}, drawn<T>({40, 6}), {}, {0},
          0);
  });
}

TEST_CASE("gpu: sort of every dtype, in both directions") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    if constexpr (!is_complex_v<T>)
      for (const int64_t down : {0, 1}) {
        const Array<T> x = drawn<T>({3, 700}, kPermuted);  // with ties
        const Array<T> values({3, 700}), wanted({3, 700});
        const Array<int64_t> places({3, 700}), order({3, 700});
        run(reference().table(), reference().handle(), GD_SORT, 0, {x.view()},
            {wanted.view(), order.view()}, {}, {1, down});
        for (gd_device* device : emulated()) {
          run(emulator(), device, GD_SORT, 0, {x.view()}, {values.view(), places.view()}, {},
              {1, down});
          CHECK(same_bits(values.values(), wanted.values()));
          CHECK(same_bits(places.values(), order.values()));
        }
      }
  });
}

TEST_CASE("gpu: random numbers have the reference's bits") {
  Array<int64_t> state({2});
  state.at({0}) = 7;
  state.at({1}) = 1000;
  const auto draw = [&](auto zero) {
    using T = decltype(zero);
    const Array<T> out({700}, kGaps);
    agree(GD_RANDOM, GD_UNIFORM, {state.view()}, out, {-1, 2}, {5}, 0);
    agree(GD_RANDOM, GD_NORMAL, {state.view()}, out, {1, 2}, {5}, 0);
    agree(GD_RANDOM, GD_BERNOULLI, {state.view()}, out, {0.3}, {5}, 0);
  };
  draw(0.f);
  draw(0.);
  draw(Half(0.f));
  draw(BFloat16(0.f));
}

namespace {
// Two parameters by one rule, against the reference. `skip`: so many elements from where memory is
// aligned.
template <class T>
void check_optimizer(int32_t op, Layout layout, const std::vector<double>& rule, const Index& ints,
                     int64_t skip = 0) {
  CAPTURE(op);
  CAPTURE(int(layout));
  Array<double> hyper({3}), gain({1});
  hyper.at({0}) = 0.1;
  hyper.at({1}) = 0.19;
  hyper.at({2}) = 0.002;
  gain.at({0}) = 0.5;
  const auto updated = [&](const gd_table& table, gd_device* device) {
    std::vector<Array<T>> all;
    std::vector<gd_view> in, out;
    for (const int64_t n : {5000, 33}) {
      all.push_back(filled<T>({n, 2}, layout, small_number<T>));
      in.insert(in.end(), {all.back().view(), hyper.view(), gain.view()});
      for (int k = 0; k < (op == GD_SGD ? 2 : 3); ++k) {
        all.push_back(filled<T>({n, 2}, layout, [] { return T(float(pick(1, 100)) / 64); }));
        out.push_back(all.back().view());
      }
    }
    const Index sizes[] = {{10000 - skip}, {66 - skip}}, by{1};
    for (size_t k = 0; skip > 0 && k < in.size() + out.size(); ++k) {
      gd_view& v = k < in.size() ? in[k] : out[k - in.size()];
      if (v.rank != 2) continue;  // the rule's own numbers
      v.sizes = sizes[v.sizes[0] == 33].data();
      v.strides = by.data();
      v.rank = 1;
      v.offset += skip;
    }
    run(table, device, GD_OPTIMIZER_STEP, op, in, out, rule, ints);
    return all;
  };
  const auto wanted = updated(reference().table(), reference().handle());
  for (gd_device* device : emulated()) {
    const auto got = updated(emulator(), device);
    for (size_t k = 0; k < got.size(); ++k) CHECK(all_near(got[k], wanted[k], tolerance<T>()));
  }
}
}  // namespace

TEST_CASE("gpu: optimizer steps") {
  for (Layout layout : {kPlain, kGaps}) {  // all arrays in one launch, or one by one
    check_optimizer<float>(GD_SGD, layout, {0.9, 0.1, 0.01, 1}, {0});
    check_optimizer<float>(GD_ADAM, layout, {0.9, 0.998, 1e-8, 0.01}, {});
    check_optimizer<double>(GD_ADAMW, layout, {0.9, 0.998, 1e-8, 0.01}, {});
  }
  check_optimizer<float>(GD_ADAM, kPlain, {0.9, 0.998, 1e-8, 0.01}, {}, 1);
}

namespace {
// A product of matrices in a way that sizes as small as these would not choose.
template <class T>
void check_way(int32_t way, int64_t algebra, double tolerance) {
  CAPTURE(way);
  const Index joint{37, 21, 40};
  const Array<T> a = drawn<T>({37, 40}), b = drawn<T>({40, 21}), out({37, 21});
  const Index by_a{40, 0, 1}, by_b{0, 1, 21};
  gd_view x = a.view(), y = b.view();
  x.rank = y.rank = 3;
  x.sizes = y.sizes = joint.data();
  x.strides = by_a.data();
  y.strides = by_b.data();
  const Array<T> wanted = copy_of(out);
  const std::vector<double> one{1, 0, 0, 0};
  run(reference().table(), reference().handle(), GD_CONTRACT, 0, {x, y}, {wanted.view()}, one,
      {2, algebra, 0, 0});
  gd_error e{};
  size_t done = 0;
  for (gd_device* device : emulated()) {
    const Array<T> got = copy_of(out);
    const gd_status s = try_call(emulator(), device, GD_CONTRACT, way | GD_WAY_ONLY, {x, y},
                                 {got.view()}, one, {2, algebra, 0, 0}, e);
    if (s == GD_UNSUPPORTED) continue;  // waves of 64 lanes have no matrix units
    CHECK_MESSAGE(s == GD_OK, e.text);
    CHECK(all_near(got, wanted, tolerance));
    ++done;
  }
  CHECK(done > 0);
}
}  // namespace

TEST_CASE("gpu: contract in the largest tiles of each type") {
  check_way<double>(GD_WAY_SQUARE, GD_STANDARD, 1e-12);
  check_way<c64>(GD_WAY_SQUARE, GD_STANDARD, 4e-5);
  check_way<float>(GD_WAY_LARGE, GD_STANDARD, 4e-5);
  check_way<Half>(GD_WAY_MATRIX_LARGE, GD_STANDARD, 2e-2);
  check_way<BFloat16>(GD_WAY_MATRIX_LARGE, GD_STANDARD, 0.15);
  check_way<int64_t>(GD_WAY_SMALL, GD_MAX_PLUS, 0);
  check_way<float>(GD_WAY_SMALL, GD_MIN_PLUS, 0);
}

TEST_CASE("gpu: scans in chunks, of each type") {
  const auto scanned = [](auto zero, int32_t op) {
    using T = decltype(zero);
    const Array<T> x = drawn<T>({2, 40000});
    agree(GD_SCAN, op, {x.view()}, Array<T>({2, 40000}), {}, {1, 0}, 100 * tolerance<T>());
  };
  scanned(0., GD_SUM);
  scanned(0., GD_MAX);
  scanned(c64(0.f), GD_SUM);
  scanned(c128(0.), GD_SUM);
}

namespace {
// Every statement that reads T, at numbers between 0 and 1: value and slopes.
template <class T>
void check_statement(int32_t id, const def::StatementText& s) {
  const auto number = [] {
    if constexpr (std::is_same_v<T, bool>)
      return pick(0, 1) != 0;
    else if constexpr (std::is_integral_v<T>)
      return T(pick(1, 5));
    else if constexpr (is_complex_v<T>)
      return T(real_of<T>(float(pick(5, 60))) / 64, real_of<T>(float(pick(5, 60))) / 64);
    else
      return T(float(pick(5, 60)) / 64);
  };
  const double tolerance = 4 * cpu_test::tolerance<T>();
  const Index sizes{40};
  const Array<bool> mask = filled<bool>(sizes, kPlain, [] { return pick(0, 1) != 0; });
  const Array<T> a = filled<T>(sizes, kPlain, number),
                 b = filled<T>(sizes, kGaps, [&] { return number(); });
  const std::vector<gd_view> all = s.arity == 3
                                       ? std::vector<gd_view>{mask.view(), a.view(), b.view()}
                                   : s.arity == 2 ? std::vector<gd_view>{a.view(), b.view()}
                                                  : std::vector<gd_view>{a.view()};
  const auto value = [&](auto out) {
    using Out = decltype(out);
    const Array<Out> y(sizes);
    gd_error e{};
    if (try_call(reference().table(), reference().handle(), GD_POINTWISE, id, all, {y.view()},
                 s.defaults, {}, e) != GD_OK)
      return false;
    agree(GD_POINTWISE, id, all, Array<Out>(sizes), s.defaults, {}, tolerance);
    std::vector<gd_view> in{b.view()};
    in.insert(in.end(), all.begin(), all.end());
    in.push_back(y.view());
    if constexpr (std::is_same_v<T, Out>)
      for (int64_t k = 0; k < s.arity; ++k)
        if (const Array<T> slope(sizes);
            try_call(reference().table(), reference().handle(), GD_POINTWISE_VJP, id, in,
                     {slope.view()}, s.defaults, {k}, e) == GD_OK)
          agree(GD_POINTWISE_VJP, id, in, Array<T>(sizes), s.defaults, {k}, tolerance);
    return true;
  };
  if (value(T{})) return;
  if (value(false)) return;
  if constexpr (is_complex_v<T>) value(real_of<T>{});
}
}  // namespace

TEST_CASE("gpu: every statement and its slopes, in every type that computes") {
  for (int32_t id = 0; id < def::statement_count(); ++id) {
    const def::StatementText& s = def::statement_info(id);
    CAPTURE(s.name);
    for_all_dtypes([&](auto zero) {
      using T = decltype(zero);
      if constexpr (!is_half(dtype_of<T>) && !std::is_same_v<T, int32_t> &&
                    !std::is_same_v<T, uint8_t>)
        check_statement<T>(id, s);
    });
  }
}

namespace {

int32_t statement_named(const std::string& name) {
  int32_t id = 0;
  while (id < def::statement_count() && def::statement_info(id).name != name) ++id;
  REQUIRE(id < def::statement_count());
  return id;
}

// A view of x's memory from element `first` on.
template <class T>
struct Part {
  Array<T> x;
  Index sizes, strides;
  gd_view view() const {
    gd_view v = x.view();
    v.offset = x.offset;
    v.rank = int32_t(sizes.size());
    v.sizes = sizes.data();
    v.strides = strides.data();
    return v;
  }
};
template <class T>
Part<T> part(const Index& sizes, const Index& strides, int64_t first) {
  Array<T> x = drawn<T>({20000});
  x.offset = first;
  return {std::move(x), sizes, strides};
}

// Statements, casts and copies of so many elements that threads take several: in words (`first` is
// a multiple of 16 bytes), elementwise, with tails, from rows and columns.
template <class T>
void check_runs() {
  CAPTURE(int(dtype_of<T>));
  const int32_t plus = statement_named("add"), product = statement_named("mul"),
                where = statement_named("where");
  struct Views {
    Index sizes, a, b;
  };
  const std::vector<Views> all{
      {{8323}, {1}, {1}},                 // a tail
      {{70, 128}, {128, 1}, {256, 1}},    // half of each row
      {{70, 128}, {128, 1}, {0, 1}},      // a row to all
      {{70, 128}, {128, 1}, {1, 0}},      // a column to all
      {{9, 701}, {701, 1}, {0, 1}},       // rows that are no words
      {{9, 701}, {1402, 2}, {-701, -1}},  // gaps, backwards
      {{41, 110}, {110, 1}, {0, 1}},      // too short for elements apart
      {{3, 5, 20, 16}, {1600, 320, 16, 1}, {16, 48, 0, 1}},
      {{2100, 3}, {3, 1}, {0, 1}},
  };
  for (const Views& v : all)
    for (const int64_t first : {16, 19}) {
      CAPTURE(v.sizes);
      CAPTURE(first);
      const int64_t back = v.b[0] < 0 ? 701 * 9 + 13 : 0;
      const Part<T> a = part<T>(v.sizes, v.a, first), b = part<T>(v.sizes, v.b, 16 + back);
      Array<T> out(v.sizes);
      out.offset = first - 16;
      agree(GD_POINTWISE, plus, {a.view(), b.view()}, out, {}, {}, tolerance<T>());
      agree(GD_COPY, 0, {b.view()}, out, {}, {}, 0);
      agree(GD_COPY, 0, {a.view()}, Array<float>(v.sizes), {}, {}, 0);
      agree(GD_COPY, 0, {part<float>(v.sizes, v.b, 16 + back).view()}, out, {}, {}, 0);
      agree(GD_COPY, 0, {part<bool>(v.sizes, v.b, 16 + back).view()}, out, {}, {}, 0);
      const Array<bool> mask = drawn<bool>(v.sizes);
      agree(GD_POINTWISE, where, {mask.view(), a.view(), b.view()}, out, {}, {}, 0);
      if constexpr (!std::is_integral_v<T>)
        agree(GD_POINTWISE_VJP, product, {b.view(), a.view(), b.view(), gd_view{}}, out, {}, {0},
              tolerance<T>());
      if constexpr (!is_complex_v<T>) {
        Array<bool> less(v.sizes);
        less.offset = first - 16;
        agree(GD_POINTWISE, statement_named("lt"), {a.view(), b.view()}, less, {}, {}, 0);
      }
    }
  const bool whole = std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;
  for (const Layout layout : {kPlain, kGaps, kNegative})
    agree(GD_FILL, 0, {}, Array<T>({67, 129}, layout),
          whole ? std::vector<double>{} : std::vector<double>{1, 0}, whole ? Index{-3} : Index{},
          0);
}

}  // namespace

TEST_CASE("gpu: threads that take runs of elements") {
  check_runs<float>();
  check_runs<Half>();
  check_runs<BFloat16>();
  check_runs<double>();
  check_runs<c64>();
  check_runs<int64_t>();
  check_runs<int32_t>();
  check_runs<uint8_t>();
}

TEST_CASE("gpu: 16-bit floats have the same bits as elsewhere") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    Array<T> x({65536}), y({65536});  // all finite ones, by others: no NaN, whose bits may differ
    for (int64_t k = 0; k < 65536; ++k) {
      x.at({k}).bits = uint16_t(k);
      y.at({k}).bits = uint16_t(k * 40503);
      for (Array<T>* z : {&x, &y})
        if (!(std::fabs(float(z->at({k}))) < INFINITY)) z->at({k}) = T(1.f);
    }
    agree(GD_POINTWISE, statement_named("mul"), {x.view(), y.view()}, Array<T>({65536}), {}, {}, 0);
  };
  check(Half());
  check(BFloat16());
}

TEST_CASE("gpu kernels: the tests of this module run every kernel that it has") {
  if (gradus::test::small_sizes()) {
    MESSAGE("not counted: the same tests run the same kernels in every build");
    return;
  }
  const gradus::test::TempFolder folder;
  const std::string runs = folder / "runs";
  const std::string command = "env GRADUS_TEST_SIZE=small GRADUS_KERNEL_RUNS='" + runs +
                              "' '" GRADUS_BUILD_DIR "/gradus_tests' '-tc=gpu: *' >'" +
                              (folder / "said") + "' 2>&1";
  CHECK_MESSAGE(std::system(command.c_str()) == 0, gradus::test::slurp(folder / "said"));
  std::ifstream lines(runs);
  size_t kernels = 0;
  std::string never;
  for (std::string line; std::getline(lines, line); ++kernels)
    if (line.starts_with("0 ")) never += line.substr(1) + "\n";
  CHECK(kernels > 500);
  CHECK_MESSAGE(never.empty(), "these never ran:\n" << never);
}
