// The test program: starts gradus once, then runs doctest.
#define DOCTEST_CONFIG_IMPLEMENT
#include "bindings/cpp/start.hpp"

#include <doctest/doctest.h>

int main(int argc, char** argv) {
  gradus::start();
  doctest::Context context(argc, argv);
  return context.run();
}
