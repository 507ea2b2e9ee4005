// A program that embeds gradus gives it functions of a BLAS and of a LAPACK, through the C++ and
// the C door: before the CPU is in use, so each in a process of its own.
#include "bindings/cpp/gradus.hpp"
#include "tests/helpers/c_door.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/texts.hpp"
#include "tests/kernels/counted_blas.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

using namespace gradus;
using gradus::test::has;

namespace {

// Runs the test case of that name in a process of its own. True in there.
bool alone(const std::string& name) {
  if (std::getenv("GRADUS_TEST_ALONE")) return true;
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self - 1);
  REQUIRE(n > 0);
  const std::string command = "env -u GRADUS_DEVICE GRADUS_TEST_ALONE=1 '" +
                              std::string(self, size_t(n)) + "' --test-case='" + name + "' 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string said;
  for (char line[512]; std::fgets(line, sizeof line, pipe);) said += line;
  const int status = pclose(pipe);
  INFO(said);
  CHECK(status == 0);
  CHECK(has(said, "1 passed"));
  return false;
}

// The functions of a LAPACK of this machine, one of them counted; none: it has no LAPACK.
int factored = 0;
void (*dpotrf)(const char*, const int32_t*, double*, const int32_t*, int32_t*, size_t) = nullptr;
void count_dpotrf(const char* part, const int32_t* n, double* a, const int32_t* ld, int32_t* info,
                  size_t length) {
  ++factored;
  dpotrf(part, n, a, ld, info, length);
}
LibraryFunctions lapack_functions() {
  void* const library = ::dlopen("liblapack.so.3", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    MESSAGE("there is no LAPACK here: `apt-get install libopenblas0-pthread`");
    return {};
  }
  LibraryFunctions all;
  for (const char letter : {'s', 'd', 'c', 'z'})
    for (std::string name :
         {"potrf", "getrf", "getrs", "trtrs", "geqrf", "orgqr", "syevd", "gesdd", "geev"}) {
      if (letter == 'c' || letter == 'z') {
        if (name == "orgqr") name = "ungqr";
        if (name == "syevd") name = "heevd";
      }
      const std::string whole = letter + name + "_";
      all.emplace_back(whole, reinterpret_cast<void (*)()>(::dlsym(library, whole.c_str())));
      if (whole != "dpotrf_") continue;
      dpotrf = reinterpret_cast<decltype(dpotrf)>(all.back().second);
      all.back().second = library_function(count_dpotrf);
    }
  return all;
}

// The same for the C door.
gradus_status give_in_c(const char* key, const LibraryFunctions& functions, const char* text) {
  std::vector<const char*> names;
  std::vector<gradus_any_function> pointers;
  for (const auto& [name, function] : functions) {
    names.push_back(name.c_str());
    pointers.push_back(function);
  }
  const gradus_library library{sizeof(gradus_library), uint32_t(names.size()), names.data(),
                               pointers.data(), text};
  return gradus_give_library(key, &library);
}

}  // namespace

TEST_CASE("given libraries: functions of a C++ program do its products and factors") {
  if (!alone("given libraries: functions of a C++ program do its products and factors")) return;
  CHECK_THROWS_WITH_AS(give_library("blas", {{"cblas_sgemm", nullptr}}),
                       "give_library: blas: the program's library is no CBLAS: it has no "
                       "cblas_sgemm",
                       Error);
  give_library("blas", counted_blas::functions(), "loops 1.0");
  const LibraryFunctions lapack = lapack_functions();
  if (!lapack.empty()) give_library("lapack", lapack, "of this test");

  Tensor a = ones({70, 80}, DType::f64), b = ones({80, 90}, DType::f64);
  a.set_requires_grad();
  const Tensor product = matmul(a, b);
  CHECK(counted_blas::calls > 1);  // besides the one at its gate
  int before = counted_blas::calls;
  CHECK(sum(product).item() == 70 * 90 * 80);
  backward(sum(mul(product, product)));
  CHECK(counted_blas::calls > before);
  CHECK(sum(a.grad()).item() == 70.0 * 80 * 2 * 80 * 90);
  before = counted_blas::calls;
  matmul(ones({8, 8}), ones({8, 8}));
  CHECK(counted_blas::calls == before);

  const std::string said = default_device().libraries();
  CHECK(has(said, "BLAS, given by the program: loops 1.0\n"));
  if (!lapack.empty()) {
    CHECK(has(said, "LAPACK, given by the program: of this test\n"));
    const Tensor factor = cholesky(mul(eye(50, 50, DType::f64), full({}, 4, DType::f64)));
    CHECK(factored == 1);
    CHECK(sum(factor).item() == 100);
  }
  CHECK_THROWS_WITH_AS(give_library("blas", {}),
                       "give_library: the device cpu is open already; give its libraries before "
                       "anything is made on it",
                       Error);
}

TEST_CASE("given libraries: functions of a C program do its products and factors") {
  if (!alone("given libraries: functions of a C program do its products and factors")) return;
  using c_door::ok, c_door::refused;
  const LibraryFunctions lapack = lapack_functions();
  counted_blas::Functions blas = counted_blas::functions();
  refused(gradus_give_library("blas", nullptr), GRADUS_NULL,
          "gradus_give_library: library is NULL");
  refused(give_in_c(nullptr, blas, nullptr), GRADUS_NULL, "gradus_give_library: key is NULL");
  refused(give_in_c("fft", blas, nullptr), GRADUS_VALUE,
          "give_library: fft: \"fft\" is no library of the cpu device; it takes \"lapack\" and "
          "\"blas\"");
  refused(give_in_c("blas", {}, nullptr), GRADUS_OK, "");  // none: as it was
  refused(give_in_c("blas", {{"cblas_sgemm", nullptr}}, nullptr), GRADUS_VALUE,
          "give_library: blas: the program's library is no CBLAS: it has no cblas_sgemm");
  gradus_library bad{7, 0, nullptr, nullptr, nullptr};
  refused(gradus_give_library("blas", &bad), GRADUS_VALUE,
          "gradus_give_library: library.struct_size is 7, expected sizeof library");
  bad = {sizeof bad, 2, nullptr, nullptr, nullptr};
  refused(gradus_give_library("blas", &bad), GRADUS_NULL, "gradus_give_library: names is NULL");

  ok(give_in_c("blas", blas, nullptr));
  blas.clear();  // names were copied
  if (!lapack.empty()) ok(give_in_c("lapack", lapack, "of this test"));
  const int64_t shape[] = {72, 72};
  gradus_tensor a = 0, product = 0;
  ok(gradus_full(shape, 2, 0.5, GRADUS_F32, &a));
  const int before = counted_blas::calls;
  ok(gradus_matmul(a, a, &product));
  CHECK(counted_blas::calls > before);
  std::vector<float> numbers(72 * 72);
  ok(gradus_to_data(product, numbers.data(), numbers.size() * sizeof(float)));
  for (const float x : numbers) CHECK(x == 18);
  if (!lapack.empty()) {
    gradus_op cholesky = 0;
    gradus_tensor matrix = 0, factor = 0;
    std::vector<double> identity(50 * 50);
    for (size_t i = 0; i < 50; ++i) identity[i * 51] = 4;
    const int64_t square[] = {50, 50};
    ok(gradus_from_data(identity.data(), GRADUS_F64, square, 2, &matrix));
    ok(gradus_op_find("cholesky", &cholesky));
    ok(gradus_call(cholesky, &matrix, 1, nullptr, 0, &factor, 1, nullptr));
    CHECK(factored == 1);
    ok(gradus_to_data(factor, identity.data(), identity.size() * sizeof(double)));
    CHECK(identity[51] == 2);
  }
  refused(give_in_c("blas", counted_blas::functions(), nullptr), GRADUS_DEVICE,
          "give_library: the device cpu is open already; give its libraries before anything is "
          "made on it");
}

TEST_CASE("given libraries: one that is MKL says its version") {
  if (!alone("given libraries: one that is MKL says its version")) return;
  LibraryFunctions blas = counted_blas::functions();
  void (*const version)(char*, int) = [](char* words, int room) {
    std::snprintf(words, size_t(room), "%-40s", "MKL 2026.2");  // filled up with blanks
  };
  blas.emplace_back("MKL_Get_Version_String", library_function(version));
  give_library("blas", blas, "loops");
  CHECK(has(default_device().libraries(), "BLAS of MKL 2026.2, given by the program: loops\n"));
}
