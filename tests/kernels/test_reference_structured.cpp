// The reference device through its C table, like test_reference_kernels.cpp: contractions,
// indexing, random numbers, softmax, optimisers.
#include "engine/abi/philox.hpp"
#include "tests/helpers/not_finite.hpp"
#include "tests/helpers/reference_calls.hpp"

#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>

using namespace gradus;
using gradus::test::absent;
using gradus::test::array;
using gradus::test::id;
using gradus::test::run;
using gradus::testing::kInf;
using gradus::testing::kNaN;

// (i, j, k) for a (2, 3) times b (3, 2); b is given as its transpose.
TEST_CASE("reference contract: sums of products") {
  auto a = array({2, 3}, {1, 2, 3, 4, 5, 6}).laid({2, 2, 3}, {3, 0, 1}, 0);
  auto b = array({2, 3}, {1, 0, 1, 2, 1, 0}).laid({2, 2, 3}, {0, 3, 1}, 0);
  auto out = array({2, 2}, {1, float(kNaN), 1, 1});
  CHECK(run(GD_CONTRACT, 0, {a, b}, {out}, {1, 0, 0, 0}, {2, GD_STANDARD, 0, 0}).text == "");
  CHECK(out.data == std::vector<float>{4, 4, 10, 13});  // beta = 0 does not read out
  auto bias = array({2}, {100, 200}).laid({2, 2}, {0, 1}, 0);
  CHECK(run(GD_CONTRACT, 0, {a, b, bias}, {out}, {2, 0, 10, 0}, {2, GD_STANDARD, 0, 0}).text == "");
  CHECK(out.data == std::vector<float>{148, 248, 220, 356});

  auto z = array<c64>({1}, {{1, 2}}), w = array<c64>({1}, {{3, -1}}), y = array<c64>({});
  CHECK(run(GD_CONTRACT, 0, {z, w}, {y}, {1, 0, 0, 0}, {0, GD_STANDARD, 0, 0}).text == "");
  CHECK(y.data[0] == c64(5, 5));
  CHECK(run(GD_CONTRACT, 0, {z, w}, {y}, {0, 1, 0, 0}, {0, GD_STANDARD, 1, 0}).text == "");
  CHECK(y.data[0] == c64(7, 1));  // i (1 - 2i)(3 - i) = i (1 - 7i)

  auto none = array<double>({2, 0}), zero = array<double>({2}, {9, 9});
  CHECK(run(GD_CONTRACT, 0, {none, none}, {zero}, {1, 0, 0, 0}, {1, GD_STANDARD, 0, 0}).text == "");
  CHECK(zero.data == std::vector<double>{0, 0});
  auto i = array<int32_t>({2}, {INT32_MAX, 2}), dot = array<int32_t>({});
  CHECK(run(GD_CONTRACT, 0, {i, i}, {dot}, {1, 0, 0, 0}, {0, GD_STANDARD, 0, 0}).text == "");
  CHECK(dot.data[0] == 5);  // (2^31 - 1)^2 + 4 modulo 2^32
}

TEST_CASE("reference contract: tropical algebras and their winners") {
  const float inf = float(kInf);
  // Rows: a tie, nothing but the zero, a NaN.
  auto a = array({3, 3}, {1, 3, 2, -inf, -inf, -inf, 5, float(kNaN), 7});
  auto b = array({3}, {4, 2, 3}).laid({3, 3}, {0, 1}, 0), out = array({3});
  auto at = array<int64_t>({3});
  CHECK(run(GD_CONTRACT, 0, {a, b}, {out, at}, {1, 0, 0, 0}, {1, GD_MAX_PLUS, 0, 0}).text == "");
  CHECK(out.data[0] == 5);
  CHECK(out.data[1] == -inf);
  CHECK(std::isnan(out.data[2]));
  CHECK(at.data == std::vector<int64_t>{0, -1, 1});
  CHECK(run(GD_CONTRACT, 0, {a, b}, {out, at}, {1, 0, 0, 0}, {1, GD_MIN_PLUS, 0, 0}).text == "");
  CHECK(out.data[0] == 5);
  CHECK(at.data[0] == 0);
  CHECK(out.data[1] == -inf);
  CHECK(run(GD_CONTRACT, 0, {a, b}, {out, at}, {1, 0, 0, 0}, {1, GD_MAX_TIMES, 0, 0}).text == "");
  CHECK(out.data[0] == 6);
  CHECK(at.data[0] == 1);

  // -inf + inf is the zero of max-plus, never NaN.
  auto p = array({2}, {-inf, -inf}), q = array({2}, {inf, 0}), s = array({});
  CHECK(run(GD_CONTRACT, 0, {p, q}, {s}, {1, 0, 0, 0}, {0, GD_MAX_PLUS, 0, 0}).text == "");
  CHECK(s.data[0] == -inf);
  // Max-times over negative products is their maximum; 0 stands only for an empty sum.
  auto n = array({2}, {-1, -2}), one = array({2}, {1, 1});
  auto place = array<int64_t>({});
  CHECK(run(GD_CONTRACT, 0, {n, one}, {s, place}, {1, 0, 0, 0}, {0, GD_MAX_TIMES, 0, 0}).text ==
        "");
  CHECK(s.data[0] == -1);
  CHECK(place.data[0] == 0);
  // The zero of min-times swallows a factor of 0, too.
  auto zero = array({2}, {inf, 2}), factor = array({2}, {0, 3});
  CHECK(
      run(GD_CONTRACT, 0, {zero, factor}, {s, place}, {1, 0, 0, 0}, {0, GD_MIN_TIMES, 0, 0}).text ==
      "");
  CHECK(s.data[0] == 6);
  CHECK(place.data[0] == 1);
  auto none = array({0});
  const float empty[] = {-inf, inf, 0, inf};
  for (int algebra : {GD_MAX_PLUS, GD_MIN_PLUS, GD_MAX_TIMES, GD_MIN_TIMES}) {
    CHECK(run(GD_CONTRACT, 0, {none, none}, {s, place}, {1, 0, 0, 0}, {0, algebra, 0, 0}).text ==
          "");
    CHECK(s.data[0] == empty[algebra - 1]);
    CHECK(place.data[0] == -1);
  }

  // Integers saturate at the zero.
  auto i = array<int32_t>({2}, {INT32_MIN, -5}), j = array<int32_t>({2}, {7, INT32_MIN + 1});
  auto sum = array<int32_t>({});
  CHECK(run(GD_CONTRACT, 0, {i, j}, {sum, place}, {1, 0, 0, 0}, {0, GD_MAX_PLUS, 0, 0}).text == "");
  CHECK(sum.data[0] == INT32_MIN);
  CHECK(place.data[0] == -1);
}

TEST_CASE("reference contract: refusals") {
  auto a = array({2}, {1, 2}), out = array({});
  auto i = array<int32_t>({2}, {1, 2}), total = array<int32_t>({});
  auto at = array<int64_t>({});
  const std::vector<double> plain{1, 0, 0, 0};
  CHECK(run(GD_CONTRACT, 0, {a, i}, {out}, plain, {0, 0, 0, 0}).text ==
        "reference contract standard: b should have dtype f32, got i32");
  CHECK(run(GD_CONTRACT, 0, {a, a}, {out}, plain, {1, 0, 0, 0}).text ==
        "reference contract standard: output should have sizes (2,), got ()");
  CHECK(run(GD_CONTRACT, 0, {i, i}, {total}, {0.5, 0, 0, 0}, {0, 0, 0, 0}).text ==
        "reference contract standard: alpha = 0.5 is no integer, but dtype is i32");
  CHECK(run(GD_CONTRACT, 0, {a, a}, {out, at}, plain, {0, 0, 0, 0}).text ==
        "reference contract standard: a sum has no winners");
  CHECK(run(GD_CONTRACT, 0, {a, a}, {out}, {2, 0, 0, 0}, {0, GD_MAX_PLUS, 0, 0}).text ==
        "reference contract max-plus: tropical algebras take alpha = 1, beta = 0 and no bias");
  auto z = array<c64>({2}), zo = array<c64>({});
  CHECK(run(GD_CONTRACT, 0, {z, z}, {zo}, plain, {0, GD_MAX_PLUS, 0, 0}).code == GD_UNSUPPORTED);
  CHECK(run(GD_CONTRACT, 0, {a, a}, {out}, plain, {0, 9, 0, 0}).text ==
        "reference contract: no algebra has code 9");
}

TEST_CASE("reference gather and scatter_add") {
  auto x = array({3, 2}, {1, 2, 3, 4, 5, 6});
  auto at = array<int64_t>({2, 2}, {2, 0, 1, 1});
  auto out = array({2, 2});
  CHECK(run(GD_GATHER, 0, {x, at}, {out}, {}, {0}).text == "");
  CHECK(out.data == std::vector<float>{5, 2, 3, 4});
  auto narrow = array<int32_t>({3, 1}, {1, 0, 1});
  auto column = array({3, 1});
  CHECK(run(GD_GATHER, 0, {x, narrow}, {column}, {}, {1}).text == "");
  CHECK(column.data == std::vector<float>{2, 3, 6});

  auto sum = array({3, 2}, {100, 100, 100, 100, 100, 100});
  CHECK(run(GD_SCATTER_ADD, 0, {at, out}, {sum}, {}, {0}).text == "");
  CHECK(sum.data == std::vector<float>{100, 102, 103, 104, 105, 100});
  auto same = array<int64_t>({4}, {1, 1, 1, 1}), h = array<int64_t>({4}, {1, 2, 3, 4});
  auto total = array<int64_t>({2});
  CHECK(run(GD_SCATTER_ADD, 0, {same, h}, {total}, {}, {0}).text == "");
  CHECK(total.data == std::vector<int64_t>{0, 10});

  auto bad = array<int64_t>({2, 2}, {0, 0, 0, 3});
  const std::vector<float> before = out.data;
  CHECK(run(GD_GATHER, 0, {x, bad}, {out}, {}, {0}).text ==
        "reference gather: index 3 is outside [0, 3) of axis 0");
  CHECK(out.data == before);
  bad.data[0] = -1;
  CHECK(run(GD_SCATTER_ADD, 0, {bad, out}, {sum}, {}, {0}).text ==
        "reference scatter_add: index -1 is outside [0, 3) of axis 0");
  CHECK(run(GD_GATHER, 0, {x, out}, {out}, {}, {0}).text ==
        "reference gather: an index is i64 or i32, got f32");
  CHECK(run(GD_GATHER, 0, {x, at}, {out}, {}, {1}).text ==
        "reference gather: input should have sizes (2, 2), got (3, 2)");
}

TEST_CASE("Philox4x32-10: the published vectors") {
  const auto words = [](uint64_t seed, uint64_t counter, uint64_t high) {
    const PhiloxWords p = philox(seed, counter, high);
    return std::vector<uint32_t>(p.w, p.w + 4);
  };
  const uint64_t ones = ~uint64_t(0);
  CHECK(words(0, 0, 0) == std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words(ones, ones, ones) ==
        std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

TEST_CASE("reference random") {
  auto state = array<int64_t>({2}, {7, 1000});
  const int64_t n = 20000;
  const auto moments = [](const auto& x, double& mean, double& variance) {
    mean = variance = 0;
    for (auto v : x) mean += double(v) / double(x.size());
    for (auto v : x) variance += (double(v) - mean) * (double(v) - mean) / double(x.size());
  };
  double mean, variance;
  auto x = array<double>({n});
  CHECK(run(GD_RANDOM, GD_UNIFORM, {state}, {x}, {-1, 3}, {0}).text == "");
  moments(x.data, mean, variance);
  CHECK(std::fabs(mean - 1) < 0.04);
  CHECK(std::fabs(variance - 16.0 / 12) < 0.06);
  CHECK(run(GD_RANDOM, GD_NORMAL, {state}, {x}, {2, 0.5}, {0}).text == "");
  moments(x.data, mean, variance);
  CHECK(std::fabs(mean - 2) < 0.02);
  CHECK(std::fabs(variance - 0.25) < 0.012);
  auto m = array<bool>({n});
  CHECK(run(GD_RANDOM, GD_BERNOULLI, {state}, {m}, {0.3}, {0}).text == "");
  moments(m.data, mean, variance);
  CHECK(std::fabs(mean - 0.3) < 0.02);

  // Seed and position give the number: a later relative start is a shift.
  auto first = array({6}), later = array({5});
  CHECK(run(GD_RANDOM, GD_UNIFORM, {state}, {first}, {0, 1}, {0}).text == "");
  CHECK(run(GD_RANDOM, GD_UNIFORM, {state}, {later}, {0, 1}, {1}).text == "");
  CHECK(std::vector<float>(first.data.begin() + 1, first.data.end()) == later.data);
  CHECK(first.data[0] == float(uniform(random_bits(7, 1000), 24)));
  CHECK(run(GD_RANDOM, GD_UNIFORM, {later}, {first}, {0, 1}, {0}).text ==
        "reference random uniform: {seed, base} should have dtype i64, got f32");
}

TEST_CASE("reference softmax") {
  auto x = array<double>({2, 2}, {0, std::log(3.0), 1000, 1000}), y = array<double>({2, 2});
  CHECK(run(GD_SOFTMAX, 0, {x}, {y}, {}, {1, 0}).text == "");
  CHECK(y.data[0] == doctest::Approx(0.25).epsilon(1e-15));
  CHECK(y.data[2] == 0.5);
  CHECK(run(GD_SOFTMAX, 0, {x}, {x}, {}, {1, 1}).text == "");
  CHECK(x.data[1] == doctest::Approx(std::log(0.75)).epsilon(1e-14));
  auto none = array({0, 3});
  CHECK(run(GD_SOFTMAX, 0, {none}, {none}, {}, {0, 0}).text == "");
  auto i = array<int32_t>({2});
  CHECK(run(GD_SOFTMAX, 0, {i}, {i}, {}, {0, 0}).text ==
        "reference softmax: dtype i32 is not read; f32 f64 f16 bf16 are");
}

TEST_CASE("reference optimizer_step") {
  auto gain = array<double>({}, {0.5});
  SUBCASE("sgd with momentum, two steps by hand") {
    auto p = array<double>({1}, {1}), v = array<double>({1}, {9}), g = array<double>({1}, {4});
    auto lr = array<double>({1}, {0.1});
    // g = 0.5 * 4 + 0.1 * 1 = 2.1; v = g; p = 1 - 0.21
    CHECK(run(GD_OPTIMIZER_STEP, GD_SGD, {g, lr, gain}, {p, v}, {0.9, 0.5, 0.1, 0}, {1}).text ==
          "");
    CHECK(p.data[0] == doctest::Approx(0.79).epsilon(1e-15));
    CHECK(v.data[0] == doctest::Approx(2.1).epsilon(1e-15));
    // g = 2 + 0.079 = 2.079; v = 1.89 + 0.5 * 2.079 = 2.9295; nesterov: 2.079 + 0.9 v = 4.71555
    CHECK(run(GD_OPTIMIZER_STEP, GD_SGD, {g, lr, gain}, {p, v}, {0.9, 0.5, 0.1, 1}, {0}).text ==
          "");
    CHECK(v.data[0] == doctest::Approx(2.9295).epsilon(1e-15));
    CHECK(p.data[0] == doctest::Approx(0.79 - 0.471555).epsilon(1e-15));
    CHECK(run(GD_OPTIMIZER_STEP, GD_SGD, {g, lr, gain}, {p, absent()}, {0, 0, 0, 0}, {0}).text ==
          "");
    CHECK(p.data[0] == doctest::Approx(0.318445 - 0.2).epsilon(1e-14));
    CHECK(run(GD_OPTIMIZER_STEP, GD_SGD, {g, lr, gain}, {p, absent()}, {0.9, 0, 0, 0}, {0}).text ==
          "reference optimizer_step sgd: a state is left out");
  }
  SUBCASE("the first step of adam moves by lr whatever the gradient") {
    auto p = array<float>({2}, {1, 1}), m = array<float>({2}), v = array<float>({2});
    auto g = array<float>({2}, {1e-3f, -50});
    auto hyper = array<double>({3}, {0.01, 1 - 0.9, 1 - 0.999});
    CHECK(run(GD_OPTIMIZER_STEP, GD_ADAM, {g, hyper, gain}, {p, m, v}, {0.9, 0.999, 0, 0}).text ==
          "");
    CHECK(p.data[0] == doctest::Approx(0.99).epsilon(1e-6));
    CHECK(p.data[1] == doctest::Approx(1.01).epsilon(1e-6));
    CHECK(m.data[1] == doctest::Approx(-2.5).epsilon(1e-6));
    CHECK(v.data[1] == doctest::Approx(0.625).epsilon(1e-6));
    // adamw with no gradient only decays.
    auto zero = array<float>({2}, {0, 0}), q = array<float>({2}, {1, 2});
    m.data = v.data = {0, 0};
    CHECK(run(GD_OPTIMIZER_STEP, GD_ADAMW, {zero, hyper, gain}, {q, m, v}, {0.9, 0.999, 1e-8, 0.5})
              .text == "");
    CHECK(q.data == std::vector<float>{float(0.995), float(1.99)});
  }
}
