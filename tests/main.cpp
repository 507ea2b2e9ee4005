// The test program: registers the ops and the built-in devices once, then runs doctest.
#define DOCTEST_CONFIG_IMPLEMENT
#include "engine/device/device.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/reference/reference.hpp"
#include "ops/init.hpp"

#include <doctest/doctest.h>

int main(int argc, char** argv) {
  gradus::init();
  gradus::register_table(gradus::cpu::table(), "built in");
  gradus::register_table(gradus::reference::table(), "built in");
  doctest::Context context(argc, argv);
  return context.run();
}
