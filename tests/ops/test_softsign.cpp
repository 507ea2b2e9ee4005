// The test of one statement, as ops/def/README.md shows it.
#include "tests/oracles/oracles_pointwise.hpp"
#include "tests/oracles/statement_limits.hpp"

namespace {
using namespace gradus::testing;

const OracleOf oracle{"softsign", pointwise::real_function([](long double x) {
                        return x < 0 ? x / (1 - x) : x / (1 + x);
                      })};

TEST_CASE("softsign: limits") {
  // x, value, slope, and where it is worth a word the second derivative
  check_limits<gradus::def::softsign>({{0, 0, 1},
                                       {kInf, 1, 0},
                                       {-kInf, -1, 0},
                                       {kHuge, 1, kAnyNumber},
                                       {-kTiny, -kTiny, 1},
                                       {kNaN, kNaN, kNaN}});
}
}  // namespace
