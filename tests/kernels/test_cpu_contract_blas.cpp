// Contractions of the cpu device by a BLAS: one that a program gives, and those that Debian has,
// where they are installed. Against the device's own kernels, which the other tests compare with
// loops.
#include "ops/def/statements.hpp"
#include "tests/helpers/cpu_device.hpp"
#include "tests/kernels/counted_blas.hpp"

#include <unistd.h>

using namespace cpu_test;

namespace {

const std::vector<std::string> kFiles = {
#if defined(__x86_64__)  // else those are another processor's
    "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3",
    "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3", "/usr/lib/x86_64-linux-gnu/libmkl_rt.so"
#endif
};

// Devices of each BLAS that is here, of 1, 2 and 3 threads.
struct Blas {
  std::string file;  // "": the counted one
  std::vector<std::unique_ptr<Device>> devices;
};
const std::string& isa() {
  static const std::string name = devices()[0]->name.substr(0, devices()[0]->name.find('/'));
  return name;
}
std::string config(const std::string& file) {
  return R"(, "libraries": {"blas": ")" + file + "\"}";
}
const std::vector<Blas>& all_blas() {
  static const auto list = [] {
    std::vector<Blas> all;
    CHECK(cpu::give_library("blas", {counted_blas::functions(), "loops 1.0"}) == "");
    all.emplace_back();
    for (const std::string& file : kFiles)
      if (::access(file.c_str(), R_OK) == 0) all.push_back({file, {}});
    if (all.size() == 1)
      MESSAGE("there is no BLAS here: `apt-get install libopenblas0-pthread libblas3`");
    for (Blas& b : all)
      for (int threads : {1, 2, 3}) {
        b.devices.push_back(
            std::make_unique<Device>(isa(), threads, b.file.empty() ? "" : config(b.file)));
        REQUIRE(b.devices.back()->d);
      }
    CHECK(cpu::give_library("blas", {}) == "");
    return all;
  }();
  return list;
}

// A product of a batch: letters of the axes, outermost first, as each array lies in memory.
struct Layouts {
  const char *a, *b, *out;
  bool taken = true;  // by a BLAS
};
struct Sizes {
  int64_t b, m, n, k;
  int64_t of(char c) const { return c == 'b' ? b : c == 'm' ? m : c == 'n' ? n : k; }
};

template <class T>
struct Lying {
  std::vector<T> x;
  int64_t offset = 0, strides[4] = {};  // of b, m, n, k
  Lying(const char* letters, const Sizes& s, int64_t gap, int64_t start) : offset(start) {
    int64_t step = 1;
    for (int d = int(std::strlen(letters)) - 1; d >= 0; --d) {
      strides[std::strchr("bmnk", letters[d]) - "bmnk"] = step;
      step = step * s.of(letters[d]) + gap;  // rows with something between them
    }
    x.resize(size_t(step + start + 1));
    for (T& y : x) y = small_number<T>();
  }
};

struct Extra {
  c128 alpha = 1, beta = 0;
  bool conj_a = false, conj_b = false, bias = false, statement = false;
};

template <class T>
struct Product {
  Sizes s;
  Lying<T> a, b, out, bias;
  Extra extra;
  Product(const Layouts& l, const Sizes& sizes, const Extra& e, int64_t gap = 0)
      : s(sizes),
        a(l.a, s, gap, 3),
        b(l.b, s, gap, 5),
        out(l.out, s, gap, 2),
        bias("n", s, 0, 1),
        extra(e) {}

  // out as it is after the call, gaps and all.
  std::vector<T> operator()(const Device& dev) const {
    std::vector<T> result = out.x;
    const int64_t joint[] = {s.b, s.m, s.n, s.k};
    const auto view = [&](const Lying<T>& l, const T* data, int rank) {
      return gd_view{1,        const_cast<T*>(data), int32_t(dtype_of<T>), rank, l.offset, joint,
                     l.strides};
    };
    std::vector<gd_view> in{view(a, a.x.data(), 4), view(b, b.x.data(), 4)};
    if (extra.bias) in.push_back(view(bias, bias.x.data(), 3));
    Index ints{3, GD_STANDARD, extra.conj_a, extra.conj_b};
    if (extra.statement) ints.push_back(kSquare);
    call(dev, GD_CONTRACT, 0, in, {view(out, result.data(), 3)},
         {extra.alpha.re, extra.alpha.im, extra.beta.re, extra.beta.im}, ints);
    return result;
  }
  static inline const int64_t kSquare = def::id_of<def::square>();
};

template <class T>
bool all_near(const std::vector<T>& got, const std::vector<T>& want, double scale) {
  for (size_t i = 0; i < got.size(); ++i)
    if (!near(got[i], want[i], tolerance<T>() * scale)) return false;
  return got.size() == want.size();
}

// By each BLAS as by our kernels, with the same bits on 1, 2 and 3 threads.
template <class T>
void check(const Layouts& l, const Sizes& s, const Extra& e, int64_t gap = 0) {
  CAPTURE(std::string(l.a));
  CAPTURE(std::string(l.b));
  CAPTURE(std::string(l.out));
  CAPTURE(int(dtype_of<T>));
  const Product<T> product(l, s, e, gap);
  const std::vector<T> want = product(*devices()[0]);
  for (const Blas& blas : all_blas()) {
    CAPTURE(blas.file);
    std::vector<T> first;
    for (const auto& dev : blas.devices) {
      const int before = counted_blas::calls;
      const std::vector<T> got = product(*dev);
      if (blas.file.empty()) {
        CHECK((counted_blas::calls > before) == l.taken);
        CHECK(counted_blas::told_threads == 1);
      }
      CHECK(all_near(got, want, 4 + std::sqrt(double(s.k))));
      if (first.empty()) first = got;
      CHECK(same_bits(first, got));
    }
  }
}

template <class F>
void for_blas_dtypes(F&& f) {
  f(float{});
  f(double{});
  f(c64{});
  f(c128{});
}

const Layouts kTaken[] = {{"bmk", "bkn", "bmn"}, {"bmk", "bnk", "bmn"}, {"bkm", "bkn", "bmn"},
                          {"bkm", "bnk", "bmn"}, {"bmk", "bkn", "bnm"}, {"bkm", "bnk", "bnm"},
                          {"bkm", "bkn", "bnm"}, {"bmk", "bnk", "bnm"}, {"mbk", "kbn", "mbn"},
                          {"mk", "bkn", "bmn"},  {"bkm", "nk", "bnm"}};

}  // namespace

TEST_CASE("cpu contract by a BLAS: every layout, batch and dtype, with gaps and factors") {
  for (const Layouts& l : kTaken)
    for_blas_dtypes([&](auto t) {
      using T = decltype(t);
      check<T>(l, {3, 61, 83, 72}, {});
      check<T>(l, {2, 72, 67, 65}, {c128(0.5), c128(-2)}, 3);
      if (is_complex_v<T>) check<T>(l, {1, 64, 64, 66}, {c128(0.5, 1), c128(1, -0.25)}, 1);
    });
}

TEST_CASE("cpu contract by a BLAS: what it conjugates, and what our kernels do") {
  // It conjugates what it turns: which operand that is depends on how out lies, too.
  for (const Layouts& l : kTaken) {
    const bool row_major = l.out[std::strlen(l.out) - 1] == 'n';
    const auto turned = [&](const char* letters, bool left) {
      return (letters[std::strlen(letters) - 1] == 'k') != left;
    };
    for (int bits = 1; bits < 4; ++bits) {
      Layouts with = l;
      if (bits & 1) with.taken = turned(l.a, row_major);
      if (bits & 2) with.taken = with.taken && turned(l.b, !row_major);
      check<c64>(with, {2, 70, 64, 66}, {1, 0, (bits & 1) != 0, (bits & 2) != 0});
      check<c128>(with, {2, 64, 65, 80}, {1, c128(0, 1), (bits & 1) != 0, (bits & 2) != 0});
      check<float>(l, {2, 70, 64, 66}, {1, 0, true, true});  // of real numbers nothing
    }
  }
}

TEST_CASE("cpu contract by a BLAS: bias, statement, and calls that are none of its own") {
  for_blas_dtypes([](auto t) {
    using T = decltype(t);
    Extra e;
    e.bias = true;
    check<T>(kTaken[0], {2, 64, 80, 64}, e);
    e.statement = !is_complex_v<T>;
    check<T>(kTaken[4], {2, 64, 80, 64}, e);
    check<T>({"bmk", "bkn", "bmn", false}, {40, 32, 32, 32}, {});  // small ones
    check<T>({"bmk", "bkn", "bmn", false}, {1, 7, 300, 300}, {});
    check<T>({"bmk", "bkn", "bmn", false}, {2, 64, 64, 64}, {0, 1});  // alpha is 0
    check<T>({"kmb", "bkn", "bmn", false}, {2, 64, 64, 64}, {});      // no row without gaps
    check<T>({"bmk", "bkn", "mnb", false}, {2, 64, 64, 64}, {});
    check<T>({"bmk", "bkn", "bmn", false}, {0, 64, 64, 64}, {});
    check<T>({"bmk", "bkn", "bmn", false}, {2, 64, 64, 0}, {1, c128(0.5)});
  });
  check<Half>({"bmk", "bkn", "bmn", false}, {1, 64, 64, 64}, {});
  check<int32_t>({"bmk", "bkn", "bmn", false}, {1, 64, 64, 64}, {});
}

TEST_CASE("cpu contract by a BLAS: large ones are cut by their sizes, whatever the threads") {
  check<float>(kTaken[0], {1, 600, 530, 80}, {});
  check<double>(kTaken[5], {2, 257, 513, 70}, {c128(2), c128(1)}, 5);
  check<c64>(kTaken[1], {1, 300, 8, 300}, {});
  check<double>(kTaken[3], {1, 9, 1000, 64}, {});
  // Of axes that go together, and a plan that is used twice, the second time on other numbers.
  for (const Blas& blas : all_blas()) {
    Array<double> a({8, 9, 6, 12}), b({6, 12, 70}), out({8, 9, 70});
    const Index joint{8, 9, 70, 6, 12}, sa{648, 72, 0, 12, 1}, sb{0, 0, 1, 840, 70},
        sizes{8, 9, 70}, so{630, 70, 1};
    const gd_view in[] = {{1, a.store.get(), GD_F64, 5, a.offset, joint.data(), sa.data()},
                          {2, b.store.get(), GD_F64, 5, b.offset, joint.data(), sb.data()}};
    const gd_view to = out.view();
    const double doubles[] = {1, 0, 0, 0};
    const int64_t ints[] = {3, GD_STANDARD, 0, 0};
    gd_call c{sizeof(gd_call), GD_CONTRACT, 0,       2,       1, 4,      4, in, &to,
              doubles,         ints,        nullptr, nullptr, 0, nullptr};
    gd_error e{};
    REQUIRE(cpu::table()->prepare(blas.devices[0]->d, &c, &c.plan, &e) == GD_OK);
    for (int round = 0; round < 2; ++round) {
      a.fill(small_number<double>);
      b.fill(small_number<double>);
      const int before = counted_blas::calls;
      REQUIRE(cpu::table()->slot[GD_CONTRACT](blas.devices[1]->d, nullptr, &c, &e) == GD_OK);
      if (blas.file.empty()) CHECK(counted_blas::calls == before + 1);
      gd_call own = c;
      own.plan = nullptr;
      const std::vector<double> got = out.values();
      REQUIRE(cpu::table()->slot[GD_CONTRACT](devices()[0]->d, nullptr, &own, &e) == GD_OK);
      CHECK(all_near(got, out.values(), 12));
    }
    cpu::table()->unprepare(blas.devices[0]->d, c.plan);
  }
}

TEST_CASE("cpu contract by a BLAS: NaN and infinity go where they go") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   inf = std::numeric_limits<double>::infinity();
  for_blas_dtypes([&](auto t) {
    using T = decltype(t);
    Product<T> p(kTaken[0], {1, 64, 64, 64}, {});
    for (T& x : p.out.x) x = T(real_of<T>(nan));  // beta = 0 does not read it
    p.a.x[size_t(p.a.offset + 5 * 64 + 7)] = T(real_of<T>(nan));
    p.a.x[size_t(p.a.offset + 9 * 64 + 3)] = T(real_of<T>(inf));
    for (size_t i = 0; i < 64; ++i)
      p.b.x[size_t(p.b.offset) + 3 * 64 + i] = p.b.x[size_t(p.b.offset) + 7 * 64 + i] = T(0);
    for (const Blas& blas : all_blas()) {
      CAPTURE(blas.file);
      const std::vector<T> got = p(*blas.devices[0]);
      for (size_t i = 0; i < 64 * 64; ++i) {
        const T x = got[size_t(p.out.offset) + i];
        const bool lost = i / 64 == 5 || i / 64 == 9;
        if ((x == x) == lost) FAIL_CHECK("element ", i);
      }
    }
  });
}

TEST_CASE("cpu contract by a BLAS: a call that is wrong is refused as without one") {
  const Device& with = *all_blas()[0].devices[0];
  Array<float> a({64, 64}), b({64, 64}), out({64, 64});
  const Index joint{64, 64, 64}, sa{64, 0, 1}, sb{0, 1, 64};
  const gd_view va{1, a.store.get(), GD_F32, 3, 0, joint.data(), sa.data()},
      vb{1, b.store.get(), GD_F32, 3, 0, joint.data(), sb.data()};
  gd_view wrong = vb;
  wrong.dtype = GD_F64;
  for (const auto& [in, ints, alpha_im] :
       {std::tuple(std::vector{va, wrong}, Index{2, GD_STANDARD, 0, 0}, 0.0),
        std::tuple(std::vector{va, vb}, Index{1, GD_STANDARD, 0, 0}, 0.0),
        std::tuple(std::vector{va, vb}, Index{2, GD_STANDARD, 0, 0}, 1.0),
        std::tuple(std::vector{va, vb, vb}, Index{2, GD_STANDARD, 0, 0}, 0.0)}) {
    gd_error e{};
    const std::vector<double> doubles{1, alpha_im, 0, 0};
    CHECK(try_call(*cpu::table(), with.d, GD_CONTRACT, 0, in, {out.view()}, doubles, ints, e) !=
          GD_OK);
    CHECK(std::string(e.text) == refusal(GD_CONTRACT, 0, in, {out.view()}, doubles, ints));
  }
}

TEST_CASE("cpu: a BLAS that can't be used is refused in words, one that can is told of") {
  using cpu_test::kLibraryHint;
  const auto refused = [](const char* file) { return cpu_test::refused_library("blas", file); };
  CHECK(refused(R"("/no/blas.so")") ==
        "cpu open: libraries.blas: /no/blas.so: cannot open shared object file: No such file or "
        "directory" +
            kLibraryHint);
  CHECK(refused(R"("libc.so.6")") ==
        "cpu open: libraries.blas: libc.so.6 is no CBLAS: it has no cblas_sgemm" + kLibraryHint);
  CHECK(refused("1") == "cpu open: \"libraries.blas\" should be \"off\" or a library");

  for (const Blas& blas : all_blas())
    for (const auto& dev : blas.devices) {
      char text[512];
      gd_error e{};
      REQUIRE(cpu::table()->libraries(dev->d, text, sizeof text, &e) == GD_OK);
      if (blas.file.empty()) CHECK(std::string(text) == "BLAS, given by the program: loops 1.0\n");
      CHECK(has(text, "BLAS"));
      CHECK((blas.file.empty() || has(text, ".so")));
    }
}

TEST_CASE("cpu: functions that a program gives are looked at before they are taken") {
  const auto without = [](const std::string& name, void (*other)() = nullptr) {
    counted_blas::Functions functions = counted_blas::functions();
    for (auto& [its, function] : functions)
      if (its == name) function = other;
    return cpu::give_library("blas", {functions, ""});
  };
  CHECK(without("cblas_zgemm") == "the program's library is no CBLAS: it has no cblas_zgemm");
  CHECK(without("cblas_dscal", counted_blas::plain(counted_blas::scale<int64_t>)) ==
        "the program's library has integers of 64 bits; they should have 32");
  const auto nothing = [](int, int, int, int, int, int, double, const double*, int, const double*,
                          int, double, double*, int) {};
  CHECK(without("cblas_dgemm", counted_blas::plain(+nothing)) ==
        "the program's library gives wrong products");
  const auto skips = [](int order, int ta, int tb, int m, int n, int k, double alpha,
                        const double* a, int lda, const double* b, int ldb, double beta, double* c,
                        int ldc) {
    std::vector<double> first(a, a + 4), second(b, b + 4);  // a zero skips what it meets
    if (a[0] == 0) second.assign(4, 0);
    counted_blas::multiply<double>(order, ta, tb, m, n, k, alpha, first.data(), lda, second.data(),
                                   ldb, beta, c, ldc);
  };
  CHECK(without("cblas_dgemm", counted_blas::plain(+skips)) ==
        "the program's library loses a NaN where it meets a zero");
  CHECK(cpu::give_library("lapack", {counted_blas::functions(), ""}) ==
        "the program's library is no LAPACK: it has no spotrf_");
  CHECK(cpu::give_library("fft", {}) ==
        "\"fft\" is no library of the cpu device; it takes \"lapack\" and \"blas\"");
  // None was taken; and a library that the config names comes before what is given.
  const auto text_of = [](const std::string& more) {
    const Device dev(isa(), 1, more);
    char text[512] = "";
    gd_error e{};
    if (dev.d) CHECK(cpu::table()->libraries(dev.d, text, sizeof text, &e) == GD_OK);
    return std::string(text);
  };
  CHECK(text_of("") == "");
  CHECK(cpu::give_library("blas", {counted_blas::functions(), ""}) == "");
  CHECK(text_of("") == "BLAS, given by the program\n");
  if (all_blas().size() > 1) CHECK(has(text_of(config(all_blas()[1].file)), all_blas()[1].file));
  CHECK(cpu::give_library("blas", {}) == "");
  CHECK(text_of("") == "");
}
