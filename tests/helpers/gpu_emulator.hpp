// What the tests of the GPU modules' slots share: the emulator's four devices (waves of 32 and 64,
// both orders), calls, the reference's answers. GRADUS_TEST_MODULE=FILE in the environment names
// another module: the same tests are then that GPU's.
#pragma once
#include "engine/device/device.hpp"
#include "tests/helpers/cpu_device.hpp"
#include "tests/helpers/sizes.hpp"

#include "gradus_paths.hpp"

#include <cstdlib>
#include <dlfcn.h>

namespace gpu_test {

using namespace cpu_test;

// The module's own table, beside the registry: other tests go over all registered devices.
inline const gd_table& emulator() {
  static const gd_table* const table = [] {
    const char* const named = std::getenv("GRADUS_TEST_MODULE");
    void* module = ::dlopen(named && *named ? named : GRADUS_LIB_DIR "/gradus_emu.so",
                            RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    REQUIRE_MESSAGE(module, ::dlerror());
    const auto entry = reinterpret_cast<gd_module_entry>(::dlsym(module, GD_ENTRY_SYMBOL));
    REQUIRE((entry != nullptr));
    return entry(GD_MAJOR, GD_MINOR);
  }();
  return *table;
}
// Waves of 32, 64, 32 and 64 lanes; the last two go backwards. In small sizes the first and the
// last. Of another module its first device, twice. Never closed.
inline std::vector<gd_device*> open_emulators(const char* options) {
  std::vector<gd_device*> list;
  gd_error e{};
  std::vector<int> indices{0, 0};
  if (std::string(emulator().kind) == "emu")
    indices = test::small_sizes() ? std::vector<int>{0, 3} : std::vector<int>{0, 1, 2, 3};
  for (int k : indices)
    REQUIRE_MESSAGE(emulator().open(k, options, &list.emplace_back(), &e) == GD_OK, e.text);
  return list;
}
inline const std::vector<gd_device*>& emulated() {
  static const auto* const all = new std::vector<gd_device*>(open_emulators("{}"));
  return *all;
}

inline void run(const gd_table& table, gd_device* device, gd_slot slot, int32_t op,
                const std::vector<gd_view>& in, const std::vector<gd_view>& out,
                const std::vector<double>& doubles, const Index& ints) {
  gd_error e{};
  const gd_status s = try_call(table, device, slot, op, in, out, doubles, ints, e);
  INFO(e.text);
  REQUIRE(s == GD_OK);
}

// Both refuse, with one text after the device's name.
inline void same_refusal(gd_slot slot, int32_t op, const std::vector<gd_view>& in,
                         const std::vector<gd_view>& out, const std::vector<double>& doubles,
                         const Index& ints) {
  const auto said = [&](const gd_table& table, gd_device* device) {
    gd_error e{};
    const gd_status s = try_call(table, device, slot, op, in, out, doubles, ints, e);
    const std::string text = e.text;
    return std::to_string(s) + text.substr(std::min(text.find(' '), text.size()));
  };
  gradus::Device& reference = open_device("reference");
  const std::string a = said(emulator(), emulated()[0]);
  CHECK(a == said(reference.table(), reference.handle()));
  CHECK(a[0] != '0');
}

// The same numbers in every layout: those that `number` gives in row-major order.
template <class T, class F>
Array<T> filled(const Index& sizes, Layout layout, F&& number) {
  Array<T> x(sizes, layout);
  rng().seed(11);
  each(sizes, [&](const Index& i) { x.at(i) = number(); });
  return x;
}

template <class T>
bool all_near(const Array<T>& got, const Array<T>& wanted, double tolerance) {
  bool right = true;
  each(wanted.sizes,
       [&](const Index& i) { right = right && near(got.at(i), wide(wanted.at(i)), tolerance); });
  return right;
}

}  // namespace gpu_test
