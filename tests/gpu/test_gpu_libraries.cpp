// Contractions of the GPU modules by vendors' libraries: the emulator opens fakes of them by their
// paths, which contract on the host and look at all that they are given.
#include "tests/helpers/gpu_libraries.hpp"

using namespace library_test;

TEST_CASE("gpu libraries: products of matrices in every layout and dtype") {
  gd_device* const device = open(gemm(cublaslt().path));
  for_float_types([&](auto zero) {
    using T = decltype(zero);
    for (const char* a : {"bmk", "bkm", "mbk"})
      for (const char* b : {"bkn", "bnk"})
        for (const char* o : {"bmn", "bnm"})
          for (int64_t batch : {1, 3}) {
            Spec s = matmul(batch, 5, 8, 7);
            s.a = a, s.b = b, s.o = o;
            s.pad = pick(0, 1) * 8;
            s.offset = 256 / int64_t(sizeof(T)) / pick(1, 2);
            s.alpha = double(pick(1, 3)), s.beta = double(pick(-1, 1));
            if (is_complex_v<T>) s.alpha.im = 0.5;
            // One element per row of out as the library sees it.
            if (pick(0, 1)) s.bias = o[2] == 'n' ? "n" : "m";
            s.statement = pick(0, 2) == 0 && !is_complex_v<T> ? relu() : -1;
            check<T>(s, device, cublaslt(), kGemm);
          }
  });
  CHECK(cublaslt().state->handles >= 1);
}

TEST_CASE("gpu libraries: products with sides of one element, and of vectors") {
  gd_device* const device = open(gemm(cublaslt().path));
  for (int64_t m : {1, 6})
    for (int64_t n : {1, 5})
      for (int64_t batch : {1, 4}) {
        check<float>(matmul(batch, m, n, 9), device, cublaslt(), kGemm);
        Spec s = matmul(batch, m, n, 9);
        s.a = "bkm", s.o = "bnm";
        check<float>(s, device, cublaslt(), kGemm);
        s.o = "bmn";
        check<double>(s, device, cublaslt(), kGemm);
      }
}

TEST_CASE("gpu libraries: conjugated products") {
  gd_device* const device = open(gemm(cublaslt().path));
  Spec s = matmul(2, 5, 6, 7);
  s.conj_a = true, s.o = "bnm";
  check<c64>(s, device, cublaslt(), kGemm);  // a's columns lie without gaps: it is transposed
  check<c128>(s, device, cublaslt(), kGemm);
  s.a = "bkm";
  CHECK(refused<c64>(s, device, cublaslt(), kGemm) ==
        "an operand has gaps, or is conjugated but not transposed");
  check<float>(s, device, cublaslt(), kGemm);  // real numbers have no conjugate
  s.conj_a = false, s.conj_b = true, s.b = "bnk", s.o = "bmn";
  check<c64>(s, device, cublaslt(), kGemm);
}

TEST_CASE("gpu libraries: which contractions are no products for the library") {
  gd_device* const device = open(gemm(cublaslt().path));
  const auto why = [&](const Spec& s) { return refused<float>(s, device, cublaslt(), kGemm); };
  Spec s = matmul(2, 4, 8, 8);
  s.a = "kbm", s.b = "nbk", s.o = "nbm";
  check<float>(s, device, cublaslt(), kGemm);
  s = matmul(2, 4, 8, 8);
  s.o = "mnb";
  CHECK(why(s) == "out has gaps along its rows and columns");
  s = matmul(2, 4, 8, 8);
  s.a = "mkb";
  CHECK(why(s) == "an operand has gaps along its rows and columns, or overlaps itself");
  Problem<float> overlap(matmul(1, 4, 8, 8));
  overlap.a.strides = {0, 1, 0, 1};  // a(m, k) = memory[m + k]
  CHECK(refused(std::move(overlap), device, cublaslt(), kGemm) ==
        "an operand has gaps along its rows and columns, or overlaps itself");
  Problem<float> backwards(matmul(1, 4, 8, 8));
  backwards.a.strides[1] *= -1;
  backwards.a.offset += 3 * 8;
  CHECK(refused(std::move(backwards), device, cublaslt(), kGemm) ==
        "an operand is repeated or runs backwards along an axis");
  s = matmul(1, 4, 8, 8);
  s.offset = 1;
  CHECK(why(s) == "a view does not begin at a multiple of 16 bytes");
  s = matmul(1, 4, 8, 8);
  s.bias = "m";
  CHECK(why(s) == "bias is no vector along the axis on which out lies without gaps");
  s.bias = "mn";
  CHECK(why(s) == "bias is no vector along the axis on which out lies without gaps");
  s = matmul(3, 4, 8, 8);
  s.bias = "bn";
  CHECK(why(s) == "bias is no vector along the axis on which out lies without gaps");
  s = matmul(1, 4, 8, 8);
  s.alpha = 0, s.beta = 2;
  CHECK(why(s) == "alpha is 0, by which NaN may be lost");
  s = matmul(1, 4, 8, 8);
  s.a = "bm";  // and not k
  CHECK(why(s) == "an operand is repeated or runs backwards along an axis");
  s = {"abn", "k", "bak", "kn", "abn", "none", {{'a', 3}, {'b', 4}, {'n', 8}, {'k', 8}}};
  CHECK(why(s) == "it is no product of matrices");
  CHECK(refused<int32_t>(matmul(1, 4, 8, 8), device, cublaslt(), kGemm) ==
        "the dtype is no floating-point or complex one");
  CHECK(why(matmul(1, 4, 8, 0)) == "there is nothing to sum");
}

TEST_CASE("gpu libraries: contractions of any axes are products of what is copied into place") {
  gd_device* const device = open(gemm(cublaslt().path));
  const auto by_library = [&](auto&& problem, int runs = 1) {
    const int before = cublaslt().state->runs;
    CHECK(problem.call(device, kGemm) == "");
    CHECK(cublaslt().state->runs == before + runs);
    CHECK(std::string(cublaslt().state->first_wrong) == "");
    problem.compare();
  };
  const std::map<char, int64_t> extents = {{'a', 3}, {'b', 4}, {'c', 5}, {'d', 2},
                                           {'e', 6}, {'f', 3}, {'g', 1}, {'z', 2}};
  const auto shuffled = [](std::string s) {
    for (size_t i = s.size(); i > 1; --i) std::swap(s[i - 1], s[size_t(pick(0, int(i) - 1))]);
    return s;
  };
  for_float_types([&](auto zero) {
    using T = decltype(zero);
    for (int round = 0; round < 12; ++round) {
      const std::string batch = round % 2 ? "z" : "";
      Spec s = {shuffled("abcdg" + batch),
                "ef",
                shuffled("abgef" + batch),
                shuffled("efcd" + batch),
                shuffled("abcdg" + batch),
                "none",
                extents};
      s.offset = pick(0, 1);
      s.alpha = double(pick(1, 3)), s.beta = double(pick(-1, 1));
      s.statement = pick(0, 2) == 0 && !is_complex_v<T> ? relu() : -1;
      s.conj_a = !is_complex_v<T> && pick(0, 1);  // real numbers have none
      CAPTURE(s.out + " " + s.a + " " + s.b + " " + s.o);
      by_library(Problem<T>(s));
    }
  });
  // Repeated, backwards, on top of itself: copies have none of it.
  Spec s = matmul(1, 4, 8, 8);
  s.a = "bm";
  by_library(Problem<float>(s));
  Problem<double> backwards(matmul(1, 4, 8, 8));
  backwards.a.strides[1] *= -1;
  backwards.a.offset += 3 * 8;
  by_library(backwards);
  Problem<float> overlap(matmul(1, 4, 8, 8));
  overlap.a.strides = {0, 1, 0, 1};
  by_library(overlap);
  // What copies don't mend is left to others; so may be an operand that is conjugated.
  for (int round = 0; round < 8; ++round) {
    s = {"abcd", "ef", shuffled("abef"), shuffled("efcd"), shuffled("abcd"), "none", extents};
    s.conj_a = pick(0, 1), s.conj_b = pick(0, 1);
    Problem<c64> p(s);
    CHECK(p.call(device, kGemm) == "");
    p.compare();
  }
  s = matmul(1, 4, 8, 8);
  s.o = "bnm", s.bias = "mn";
  by_library(Problem<float>(s), 0);
  s = matmul(1, 4, 8, 0);
  by_library(Problem<float>(s), 0);
}

TEST_CASE("gpu libraries: relu after a library keeps NaN") {
  gd_device* const device = open(gemm(cublaslt().path));
  Spec s = matmul(1, 4, 8, 8);
  s.statement = relu();
  Problem<float> p(s);
  p.a.data.get()[0] = NAN;
  CHECK(p.call(device, kGemm | GD_WAY_ONLY) == "");
  CHECK(p.out.data.get()[3] != p.out.data.get()[3]);
  CHECK(*std::min_element(p.out.data.get() + 8, p.out.data.get() + 32) == 0);
  p.compare();
}

TEST_CASE("gpu libraries: tf32 is another type of sum") {
  check<float>(matmul(1, 4, 8, 8), open(gemm(cublaslt().path)), cublaslt(), kGemm);
  CHECK(cublaslt().state->compute == 68);
  gd_device* const rounding = open(gemm(cublaslt().path, R"(, "tf32": true)"));
  check<float>(matmul(1, 4, 8, 8), rounding, cublaslt(), kGemm);
  CHECK(cublaslt().state->compute == 77);
  check<Half>(matmul(1, 4, 8, 8), rounding, cublaslt(), kGemm);
  CHECK(cublaslt().state->compute == 68);
  check<float>(matmul(1, 4, 8, 8), open(tensor(cutensor().path, R"(, "tf32": true)")), cutensor(),
               kTensor);
  CHECK(cutensor().state->compute == 77);
}

TEST_CASE("gpu libraries: contractions of any axes") {
  for (const Library* library : {&cutensor(), &hiptensor()}) {
    gd_device* const device = open(tensor(library->path));
    library->state->workspace_wanted = 1000;
    const std::map<char, int64_t> extents = {{'a', 3}, {'b', 4}, {'c', 5}, {'d', 2},
                                             {'e', 6}, {'f', 3}, {'g', 1}};
    for_float_types([&](auto zero) {
      using T = decltype(zero);
      const std::vector<Spec> specs = {
          {"abcd", "ef", "aebf", "dfce", "abcd", "none", extents},
          {"abc", "d", "dca", "bd", "cba", "none", extents},
          {"ab", "cde", "acebd", "bcdae", "ba", "none", extents},  // a, b in all: a batch
          {"abg", "cg", "cga", "gbc", "abg", "none", extents},
          {"abc", "", "ab", "bc", "abc", "none", extents},
      };
      for (Spec s : specs) {
        if (s.summed == "") s.summed = "f", s.a += "f", s.b = "f" + s.b;
        for (int round = 0; round < 2; ++round) {
          s.pad = pick(0, 1) * 4;
          s.alpha = double(pick(1, 3)), s.beta = double(pick(-1, 1));
          s.conj_a = pick(0, 1), s.conj_b = pick(0, 1);
          if (is_complex_v<T>) s.beta.im = 0.5;
          check<T>(s, device, *library, kTensor);
        }
      }
    });
    Spec s = matmul(1, 4, 8, 8);
    s.bias = "n";
    CHECK(refused<float>(s, device, *library, kTensor) == "it has a bias");
    s = matmul(1, 4, 8, 8);
    s.b = "kn", s.a = "k";
    s.extents['b'] = s.extents['m'] = 1;
    check<float>(s, device, *library, kTensor);  // an axis of one element is none
    s = matmul(1, 1, 1, 8);
    s.a = "b", s.b = "b", s.extents['k'] = 1;
    CHECK(refused<float>(s, device, *library, kTensor) == "it has no axes");
    s = matmul(1, 4, 8, 8);
    s.a = "b";
    CHECK(refused<float>(s, device, *library, kTensor) ==
          "an operand is repeated or runs backwards along an axis");
  }
}
