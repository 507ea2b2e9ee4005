// Contractions by vendors' libraries, for their tests: fakes that the emulator opens by their
// paths, and problems in any layout of memory.
#pragma once
#include "kernels/gpu/libraries/library.hpp"
#include "ops/def/fingerprint.hpp"
#include "tests/helpers/gpu_emulator.hpp"
#include "tests/fixtures/libraries/fake.hpp"

#include <cstdlib>
#include <list>
#include <map>

namespace library_test {

using namespace gpu_test;

inline const std::string kFolder = std::string(GRADUS_BUILD_DIR) + "/drivers/libraries/";

// A fake that the test looks into.
struct Library {
  std::string path;
  FakeState* state;
  explicit Library(const std::string& name) : path(kFolder + "libfake_" + name + ".so") {
    void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle, ::dlerror());
    state = static_cast<FakeState*>(::dlsym(handle, "gradus_fake"));
    REQUIRE(state);
  }
};
inline const Library& cublaslt() {
  static const Library l("cublaslt");
  return l;
}
inline const Library& cutensor() {
  static const Library l("cutensor");
  return l;
}
inline const Library& hiptensor() {
  static const Library l("hiptensor");
  return l;
}
inline std::string gemm(const std::string& path, const std::string& more = "") {
  return R"({"libraries": {"gemm": ")" + path + "\"}" + more + "}";
}
inline std::string tensor(const std::string& path, const std::string& more = "") {
  return R"({"libraries": {"tensor": ")" + path + "\"}" + more + "}";
}

inline gpu::LibrarySearch only(const std::string& path) {
  gpu::LibrarySearch s;
  s.setting = path;
  return s;
}

// A new device of the emulator; they live for ever.
inline gd_device* open(const std::string& options) {
  static auto* const all = new std::list<gd_device*>;
  gd_error e{};
  REQUIRE(emulator().open(0, options.c_str(), &all->emplace_back(), &e) == GD_OK);
  return all->back();
}

// An operand of axes that letters name, as they lie in memory, the last one without gaps. Between
// the lines of the last one are `pad` elements.
template <class T>
struct Operand {
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data;
  Index sizes, strides;  // over the joint axes
  int64_t length = 1, offset;

  Operand(const std::string& joint, const std::map<char, int64_t>& extents,
          const std::string& memory, int64_t pad, int64_t start)
      : strides(joint.size()), offset(start) {
    for (char axis : joint) sizes.push_back(extents.at(axis));
    for (size_t k = memory.size(); k-- > 0;) {
      strides[joint.find(memory[k])] = length;
      length = length * extents.at(memory[k]) + (k + 1 == memory.size() ? pad : 0);
    }
    const size_t bytes = size_t(length + offset) * sizeof(T);
    data.reset(static_cast<T*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256)));
    for (int64_t i = 0; i < length + offset; ++i) data.get()[i] = small_number<T>();
  }
  gd_view view(size_t rank) const {
    return {1,      data.get(),   int32_t(dtype_of<T>), int32_t(rank),
            offset, sizes.data(), strides.data()};
  }
  std::vector<T> values() const { return {data.get(), data.get() + length + offset}; }
  void put(const std::vector<T>& v) { std::copy(v.begin(), v.end(), data.get()); }
};

struct Spec {
  std::string out, summed;    // the joint axes
  std::string a, b, o;        // axes in the order of memory
  std::string bias = "none";  // so too
  std::map<char, int64_t> extents;
  int64_t pad = 0, offset = 0;
  c128 alpha = 1, beta = 0;
  bool conj_a = false, conj_b = false;
  int64_t statement = -1;
};

template <class T>
struct Problem {
  Spec s;
  std::string joint;
  Operand<T> a, b, out, bias;
  std::vector<T> before;

  explicit Problem(const Spec& spec)
      : s(spec),
        joint(s.out + s.summed),
        a(joint, s.extents, s.a, s.pad, s.offset),
        b(joint, s.extents, s.b, s.pad, s.offset),
        out(joint, s.extents, s.o, s.pad, s.offset),
        bias(joint, s.extents, s.bias == "none" ? "" : s.bias, 0, s.offset),
        before(out.values()) {}

  // The device's error text, or "".
  std::string call(const gd_table& table, gd_device* device, int32_t op,
                   gd_status* status = nullptr) {
    out.put(before);
    std::vector<gd_view> in = {a.view(joint.size()), b.view(joint.size())};
    if (s.bias != "none") in.push_back(bias.view(s.out.size()));
    Index ints = {int64_t(s.out.size()), GD_STANDARD, s.conj_a, s.conj_b};
    if (s.statement >= 0) ints.push_back(s.statement);
    gd_error e{};
    // On the host's memory itself, which the emulator reaches: what a graph captures must stay.
    const gd_view result = out.view(s.out.size());
    const double scales[] = {s.alpha.re, s.alpha.im, s.beta.re, s.beta.im};
    const gd_call c{sizeof(gd_call),
                    GD_CONTRACT,
                    op,
                    int32_t(in.size()),
                    1,
                    4,
                    int32_t(ints.size()),
                    in.data(),
                    &result,
                    scales,
                    ints.data(),
                    nullptr,
                    nullptr,
                    0,
                    nullptr};
    const gd_status code = call_slot(table, device, c, e);
    if (status) *status = code;
    return code == GD_OK ? "" : e.text;
  }
  std::string call(gd_device* device, int32_t op, gd_status* status = nullptr) {
    return call(emulator(), device, op, status);
  }
  // What is in memory now against the reference's answer.
  void compare() {
    const std::vector<T> got = out.values();
    gradus::Device& reference = open_device("reference");
    REQUIRE(call(reference.table(), reference.handle(), 0) == "");
    const std::vector<T> want = out.values();
    double terms = 1;
    for (char axis : s.summed) terms *= double(s.extents.at(axis));
    size_t wrong = 0;
    for (size_t i = 0; i < got.size(); ++i)
      wrong += !near(got[i], wide(want[i]), tolerance<T>() * 4 * std::sqrt(terms));
    CHECK(wrong == 0);
  }
};

constexpr int32_t kGemm = GD_WAY_GEMM_LIBRARY, kTensor = GD_WAY_TENSOR_LIBRARY;

// The library does it, once, and it is right.
template <class T>
void check(const Spec& s, gd_device* device, const Library& library, int32_t way) {
  CAPTURE(s.a + " " + s.b + " " + s.o + " " + s.bias);
  CAPTURE(int(dtype_of<T>));
  Problem<T> p(s);
  const int runs = library.state->runs;
  CHECK(p.call(device, way | GD_WAY_ONLY) == "");
  CHECK(library.state->runs == runs + 1);
  CHECK(std::string(library.state->first_wrong) == "");
  p.compare();
}
// The library can't do it as it stands: said by whom it must be, done by others or on copies else.
template <class T>
std::string refused(Problem<T> p, gd_device* device, const Library& library, int32_t way) {
  CHECK(p.call(device, way) == "");
  p.compare();
  const int runs = library.state->runs;
  gd_status status = GD_OK;
  const std::string text = p.call(device, way | GD_WAY_ONLY, &status);
  CHECK(status == GD_UNSUPPORTED);
  CHECK(library.state->runs == runs);
  const std::string start = "emu contract standard: can't be done in way " + std::to_string(way);
  REQUIRE(text.rfind(start + ": ", 0) == 0);
  return text.substr(start.size() + 2);
}

template <class T>
std::string refused(const Spec& s, gd_device* device, const Library& library, int32_t way) {
  return refused(Problem<T>(s), device, library, way);
}

template <class F>
void for_float_types(F&& f) {
  for_all_dtypes([&](auto zero) {
    using T = decltype(zero);
    if constexpr (is_complex_v<T> || (!std::is_integral_v<T> && !std::is_same_v<T, bool>)) f(zero);
  });
}

inline Spec matmul(int64_t b, int64_t m, int64_t n, int64_t k) {
  return {"bmn", "k", "bmk", "bkn", "bmn", "none", {{'b', b}, {'m', m}, {'n', n}, {'k', k}}};
}
inline int64_t relu() {
  for (int32_t k = 0; k < def::statement_count(); ++k)
    if (std::string(def::statement_text(k)).rfind("relu(", 0) == 0) return k;
  return -1;
}

}  // namespace library_test
