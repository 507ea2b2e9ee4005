// Limits of the statements in statements_smooth.hpp, statements_arithmetic.hpp and
// statements_pieces.hpp.
#include "tests/oracles/statement_limits.hpp"

using namespace gradus;
using namespace gradus::testing;

TEST_CASE("statements: limits of the elementary functions") {
  check_limits<def::exp>({{0, 1, 1, 1},
                          {-kInf, 0, 0, 0},
                          {-1000, 0, 0, 0},
                          {kInf, kInf, kInf},
                          {1000, kInf, kInf},
                          {kTiny, 1, 1},
                          {kNaN, kNaN, kNaN}});
  check_limits<def::expm1>(
      {{0, 0, 1, 1}, {-kInf, -1, 0, 0}, {kInf, kInf, kInf}, {kTiny, kTiny, 1}, {kNaN, kNaN, kNaN}});
  check_limits<def::log>({{0, -kInf, kInf, -kInf},
                          {kInf, kInf, 0, 0},
                          {1, 0, 1, -1},
                          {-1, kNaN, -1},
                          {kNaN, kNaN, kNaN}});
  check_limits<def::bounded_log>({{0, -100, 1e12, 0},
                                  {kTiny, std::log(kTiny), 1e12},
                                  {1e-13, std::log(1e-13), 1e12, 0},
                                  {0.5, -std::log(2.0), 2, -4},
                                  {kInf, kInf, 0},
                                  {-1, kNaN, kAnyNumber},
                                  {kNaN, kNaN, kNaN}});
  check_limits<def::log1p>({{-1, -kInf, kInf, -kInf},
                            {0, 0, 1, -1},
                            {kTiny, kTiny, 1},
                            {kInf, kInf, 0, 0},
                            {-2, kNaN, -1},
                            {kNaN, kNaN, kNaN}});
  check_limits<def::sqrt>({{0, 0, kInf, -kInf},
                           {4, 2, 0.25, -0.03125},
                           {kInf, kInf, 0, 0},
                           {-1, kNaN, kNaN},
                           {kNaN, kNaN, kNaN}});
  check_limits<def::rsqrt>(
      {{0, kInf, -kInf}, {4, 0.5, -0.0625}, {kInf, 0, 0, 0}, {-1, kNaN, kNaN}, {kNaN, kNaN, kNaN}});
  check_limits<def::reciprocal>({{0, kInf, -kInf, kInf},
                                 {kInf, 0, 0, 0},
                                 {-kInf, 0, 0, 0},
                                 {kHuge, 1 / kHuge, kAnyNumber},
                                 {kNaN, kNaN, kNaN}});
  check_limits<def::square>(
      {{0, 0, 0, 2}, {kInf, kInf, kInf}, {-kInf, kInf, -kInf}, {kNaN, kNaN, kNaN}});
  check_limits<def::sin>(
      {{0, 0, 1, 0}, {-kTiny, -kTiny, 1}, {kInf, kNaN, kNaN}, {kNaN, kNaN, kNaN}});
  check_limits<def::cos>({{0, 1, 0, -1}, {-kInf, kNaN, kNaN}, {kNaN, kNaN, kNaN}});
  check_limits<def::tanh>({{0, 0, 1, 0},
                           {-kTiny, -kTiny, 1},
                           {kInf, 1, 0, 0},
                           {-kInf, -1, 0, 0},
                           {kHuge, 1, 0, 0},
                           {kNaN, kNaN, kNaN}});
  check_limits<def::erf>({{0, 0, 2 / std::sqrt(M_PI), 0},
                          {kInf, 1, 0, 0},
                          {-kInf, -1, 0, 0},
                          {kHuge, 1, 0, 0},
                          {-50, -1, 0, 0},
                          {kNaN, kNaN, kNaN, kNaN}});
  check_limits<def::abs>(
      {{0, 0, 0}, {-kInf, kInf, -1}, {kInf, kInf, 1}, {-kTiny, kTiny, -1}, {kNaN, kNaN, kNaN}});
  check_limits<def::sign>(
      {{0, 0, 0, 0}, {-kInf, -1, 0}, {-kTiny, -1, 0}, {kHuge, 1, 0}, {kNaN, kNaN, 0}});
}

TEST_CASE("statements: limits of steps and pieces") {
  const double ln2 = std::log(2.0);
  check_limits<def::sigmoid>({{0, 0.5, 0.25, 0},
                              {-1000, 0, 0, 0},
                              {1000, 1, 0, 0},
                              {-kInf, 0, 0, 0},
                              {kInf, 1, 0, 0},
                              {kNaN, kNaN, kNaN, kNaN}});
  check_limits<def::logsigmoid>({{0, -ln2, 0.5, -0.25},
                                 {-1000, -1000, 1, 0},
                                 {1000, 0, 0, 0},
                                 {-kInf, -kInf, 1, 0},
                                 {kInf, 0, 0, 0},
                                 {kNaN, kNaN, kNaN, kNaN}});
  check_limits<def::softplus>({{0, ln2, 0.5, 0.25},
                               {-1000, 0, 0, 0},
                               {1000, 1000, 1, 0},
                               {kHuge, kHuge, 1, 0},
                               {-kHuge, 0, 0, 0},
                               {-kInf, 0, 0},
                               {kInf, kInf, 1, 0},
                               {kNaN, kNaN, kNaN, kNaN}});
  check_limits<def::softplus>({{0, ln2 / 2, 0.5, 0.5}, {800, 800, 1, 0}, {-800, 0, 0, 0}},
                              def::softplus{{}, 2, 1e30});
  const std::vector<Limit> gate = {{-kInf, 0, 0, 0},   {-kHuge, 0, 0, 0},
                                   {-1000, 0, 0, 0},   {kHuge, kHuge, 1, 0},
                                   {kInf, kInf, 1, 0}, {kNaN, kNaN, kNaN, kNaN}};
  check_limits<def::silu>(gate);
  check_limits<def::gelu>(gate);
  check_limits<def::gelu_tanh>(gate);
  check_limits<def::silu>({{kTiny, kTiny / 2, 0.5}, {0, 0, 0.5, 0.5}});
  check_limits<def::gelu>({{kTiny, kTiny / 2, 0.5}, {0, 0, 0.5, std::sqrt(2 / M_PI)}});
  check_limits<def::gelu_tanh>({{0, 0, 0.5, std::sqrt(2 / M_PI)}});
  check_limits<def::relu>(
      {{0, 0, 0}, {-kInf, 0, 0}, {kInf, kInf, 1}, {kTiny, kTiny, 1}, {kNaN, kNaN, kNaN}});
  check_limits<def::leaky_relu>(
      {{0, 0, 0.01}, {-kInf, -kInf, 0.01}, {kInf, kInf, 1}, {kNaN, kNaN, kNaN}});
  check_limits<def::elu>({{0, 0, 1, 1},
                          {-kInf, -1, 0, 0},
                          {-1000, -1, 0, 0},
                          {kInf, kInf, 1, 0},
                          {kHuge, kHuge, 1, 0},
                          {kNaN, kNaN, kNaN}});
  check_limits<def::clamp>({{-kInf, -1, 0},
                            {-1, -1, 0},
                            {0, 0, 1},
                            {0.5, 0.5, 0},
                            {0.6, 0.5, 0},
                            {kInf, 0.5, 0},
                            {kNaN, kNaN, kNaN}},
                           def::clamp{{}, -1, 0.5});
  check_limits<def::clamp>({{kInf, kInf, 1}, {0, 0, 0}, {-kInf, 0, 0}}, def::clamp{{}, 0, kInf});
  check_limits<def::clamp>({{-kInf, -kInf, 1}, {0, 0, 0}, {kInf, 0, 0}}, def::clamp{{}, -kInf, 0});
  check_limits<def::clamp>({{-kInf, kNaN, kNaN}, {2, kNaN, kNaN}}, def::clamp{{}, -kInf, kNaN});
  check_limits<def::clamp>({{-3, -1, 0}, {0, -1, 0}, {3, -1, 0}}, def::clamp{{}, 1, -1});
}

TEST_CASE("statements: limits of functions of two operands") {
  const double any = kAnyNumber;
  check_limits2<def::pow>({{0, 0, 1, 0, 0},
                           {0, 2, 0, 0, 0},
                           {0, 1, 0, 1, 0},
                           {0, 0.5, 0, kInf, 0},
                           {0, -1, kInf, -kInf, -kInf},
                           {2, 0, 1, 0, std::log(2.0)},
                           {-2, 3, -8, 12, kNaN},
                           {-2, 0.5, kNaN, kNaN, kNaN},
                           {kInf, -1, 0, 0, 0},
                           {kInf, 2, kInf, kInf, kInf},
                           {kTiny, 0, 1, 0, any},
                           {-3, 0, 1, 0, any},
                           {kNaN, 0, 1, 0, kNaN},
                           {kInf, 0, 1, 0, kInf},
                           {-kInf, 0.5, kInf, 0, kNaN},
                           {1, kNaN, 1, kNaN, 0},
                           {2, kInf, kInf, kInf, kInf},
                           {2, -kInf, 0, any, 0},
                           {kNaN, 2, kNaN, kNaN, kNaN},
                           {2, kNaN, kNaN, kNaN, kNaN}});
  check_limits2<def::div>(
      {{1, 0, kInf, kInf, -kInf}, {1, kInf, 0, 0, 0}, {0, 2, 0, 0.5, 0}, {0, 0, kNaN, kInf, kNaN}});
  check_limits2<def::maximum>({{1, 1, 1, 0.5, 0.5},
                               {kInf, kInf, kInf, 0.5, 0.5},
                               {1, 2, 2, 0, 1},
                               {-1, -kInf, -1, 1, 0},
                               {kNaN, 1, kNaN, kNaN, kNaN},
                               {1, kNaN, kNaN, kNaN, kNaN}});
  check_limits2<def::minimum>({{1, 1, 1, 0.5, 0.5},
                               {-kInf, -kInf, -kInf, 0.5, 0.5},
                               {1, 2, 1, 1, 0},
                               {1, -kInf, -kInf, 0, 1},
                               {kNaN, 1, kNaN, kNaN, kNaN},
                               {1, kNaN, kNaN, kNaN, kNaN}});
}

TEST_CASE("statements: limits of powers, logarithms and angles") {
  constexpr double kPi = 3.141592653589793, kLn2 = 0.6931471805599453, kAny = kAnyNumber;
  check_limits<def::cbrt>({{8, 2, 1.0 / 12},
                           {0, 0, kInf},
                           {-kInf, -kInf, 0},
                           {kHuge, std::cbrt(kHuge), kAny},
                           {kNaN, kNaN, kNaN}});
  check_limits<def::exp2>({{0, 1, kLn2, kLn2 * kLn2},
                           {-kInf, 0, 0, 0},
                           {2000, kInf, kInf},
                           {kTiny, 1, kLn2},
                           {kNaN, kNaN, kNaN}});
  check_limits<def::log2>({{0, -kInf, kInf, -kInf}, {8, 3, 0.125 / kLn2}, {kInf, kInf, 0, 0}});
  check_limits<def::log10>(
      {{0, -kInf, kInf, -kInf}, {1000, 3, 4.342944819e-4}, {kInf, kInf, 0, 0}, {kNaN, kNaN, kNaN}});
  check_limits<def::tan>({{0, 0, 1, 0}, {kTiny, kTiny, 1}, {kInf, kNaN, kNaN}, {kNaN, kNaN, kNaN}});
  check_limits<def::asin>({{0, 0, 1, 0},
                           {1, kPi / 2, kInf},
                           {-1, -kPi / 2, kInf},
                           {2, kNaN, kNaN},
                           {-kHuge, kNaN, kNaN},
                           {kNaN, kNaN, kNaN}});
  check_limits<def::acos>({{0, kPi / 2, -1, 0}, {1, 0, -kInf}, {-1, kPi, -kInf}, {2, kNaN, kNaN}});
  check_limits<def::atan>({{0, 0, 1, 0},
                           {kInf, kPi / 2, 0},
                           {-kInf, -kPi / 2, 0},
                           {kHuge, kPi / 2, kAny},
                           {kNaN, kNaN, kNaN}});
  check_limits<def::sinh>({{0, 0, 1, 0}, {kTiny, kTiny, 1}, {-kInf, -kInf, kInf, -kInf}});
  check_limits<def::cosh>({{0, 1, 0, 1}, {-kInf, kInf, -kInf, kInf}, {kNaN, kNaN, kNaN}});
  check_limits<def::asinh>(
      {{0, 0, 1, 0}, {kInf, kInf, 0}, {-kTiny, -kTiny, 1}, {kNaN, kNaN, kNaN}});
  check_limits<def::acosh>({{1, 0, kInf},
                            {kInf, kInf, 0},
                            {kHuge, std::acosh(kHuge), 1 / kHuge},
                            {0, kNaN, kNaN},
                            {-2, kNaN, kNaN}});
  check_limits<def::atanh>({{0, 0, 1, 0}, {1, kInf, kInf}, {-1, -kInf, kInf}, {2, kNaN, -1.0 / 3}});
  check_limits<def::deg2rad>({{180, kPi, kPi / 180, 0}, {kInf, kInf, kPi / 180, 0}});
  check_limits<def::rad2deg>({{kPi, 180, 180 / kPi, 0}, {kNaN, kNaN, 180 / kPi, 0}});
  check_limits<def::sinc>({{0, 1, 0, -kPi * kPi / 3},
                           {kTiny, 1, kAny, -kPi * kPi / 3},
                           {0.25, std::sqrt(8.0) / kPi, kAny},
                           {0.5, 2 / kPi, -4 / kPi, 16 / kPi - 2 * kPi},
                           {kNaN, kNaN, kNaN}});
  check_limits<def::angle>({{0, 0, 0, 0}, {-kInf, kPi, 0, 0}, {kHuge, 0, 0, 0}, {kNaN, kNaN, 0}});
}
