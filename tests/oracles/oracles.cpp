// The host array and the pointwise oracles. Real values are long double; complex ones come from
// std::complex<long double>.
#include "tests/oracles/oracles_pointwise.hpp"

#include <cmath>

namespace gradus::inline v1::testing {

namespace {

using namespace pointwise;

void add_arithmetic(std::map<std::string, Oracle>& to) {
  to["neg"] = each([](const Call&, X x) { return x[0] * R(-1); });
  to["add"] = each([](const Call&, X x) { return x[1] + x[0]; });
  to["sub"] = each([](const Call&, X x) { return -(x[1] - x[0]); });
  to["mul"] = each([](const Call&, X x) { return x[1] * x[0]; });
  to["div"] = each([](const Call&, X x) { return x[0] * std::conj(x[1]) / std::norm(x[1]); });
  to["reciprocal"] = each([](const Call&, X x) { return std::conj(x[0]) / std::norm(x[0]); });
  to["square"] = each([](const Call& c, X x) {
    return is_complex(c.dtype) ? std::polar(std::norm(x[0]), 2 * std::arg(x[0])) : x[0] * x[0];
  });
  to["pow"] = each([](const Call& c, X x) {
    return is_complex(c.dtype) ? std::pow(x[0], x[1]) : Wide(std::pow(x[0].real(), x[1].real()));
  });
  to["abs"] = each([](const Call&, X x) { return std::hypot(x[0].real(), x[0].imag()); });
  to["sign"] = function([](R x) { return R((x > 0) - (x < 0)); },
                        [](Wide z) { return std::polar(R(1), std::arg(z)); });
  to["conj"] = each([](const Call&, X x) { return Wide(x[0].real(), -x[0].imag()); });
  to["real"] = each([](const Call&, X x) { return x[0].real(); });
  to["imag"] = each([](const Call&, X x) { return x[0].imag(); });
}

void add_elementary(std::map<std::string, Oracle>& to) {
  to["sqrt"] =
      function([](R x) { return std::pow(x, R(0.5)); }, [](Wide z) { return std::sqrt(z); });
  to["rsqrt"] = function([](R x) { return std::pow(x, R(-0.5)); },
                         [](Wide z) { return R(1) / std::sqrt(z); });
  to["exp"] = function([](R x) { return std::exp2(x / std::log(R(2))); },
                       [](Wide z) { return std::polar(std::exp(z.real()), z.imag()); });
  to["expm1"] = function([](R x) { return 2 * std::sinh(x / 2) * std::exp(x / 2); },
                         [](Wide z) { return R(2) * std::sinh(z / R(2)) * std::exp(z / R(2)); });
  to["log"] = function([](R x) { return std::log2(x) * std::log(R(2)); },
                       [](Wide z) { return Wide(std::log(std::abs(z)), std::arg(z)); });
  to["log1p"] = function([](R x) { return 2 * std::atanh(x / (x + 2)); },
                         [](Wide z) { return std::log(R(1) + z); });
  to["bounded_log"] =
      real_function([](R x) { return std::max(std::log10(x) * std::log(R(10)), R(-100)); });
  // by t = tan(x / 2)
  to["sin"] =
      function([](R x) { return 2 * std::tan(x / 2) / (1 + std::pow(std::tan(x / 2), R(2))); },
               [](Wide z) { return std::sin(z); });
  to["cos"] = function([](R x) { return 2 / (1 + std::pow(std::tan(x / 2), R(2))) - 1; },
                       [](Wide z) { return std::cos(z); });
  to["tanh"] = function([](R x) { return std::sinh(x) / std::cosh(x); },
                        [](Wide z) { return std::tanh(z); });
  to["sigmoid"] = function([](R x) { return (1 + std::tanh(x / 2)) / 2; },
                           [](Wide z) { return (R(1) + std::tanh(z / R(2))) / R(2); });
  to["erf"] = real_function([](R x) { return 1 - std::erfc(x); });
}

void add_pieces(std::map<std::string, Oracle>& to) {
  to["lt"] = comparison([](Wide a, Wide b) { return a.real() < b.real(); });
  to["le"] = comparison([](Wide a, Wide b) { return a.real() <= b.real(); });
  to["gt"] = comparison([](Wide a, Wide b) { return a.real() > b.real(); });
  to["ge"] = comparison([](Wide a, Wide b) { return a.real() >= b.real(); });
  to["eq"] = comparison([](Wide a, Wide b) { return a == b; });
  to["ne"] = comparison([](Wide a, Wide b) { return a != b; });
  to["where"] = each([](const Call&, X x) { return x[0].real() != 0 ? x[1] : x[2]; });
  to["maximum"] = each([](const Call&, X x) { return std::fmax(x[0].real(), x[1].real()); });
  to["minimum"] = each([](const Call&, X x) { return std::fmin(x[0].real(), x[1].real()); });
  to["relu"] = real_function([](R x) { return (x + std::fabs(x)) / 2; });
  to["leaky_relu"] = each([](const Call& c, X x) {
    const R s = c.number("negative_slope"), v = x[0].real();
    return (1 + s) / 2 * v + (1 - s) / 2 * std::fabs(v);
  });
  to["clamp"] = each([](const Call& c, X x) {
    return std::fmin(std::fmax(x[0].real(), R(c.number("min"))), R(c.number("max")));
  });
  to["elu"] = each([](const Call& c, X x) {
    const R v = x[0].real();
    return v > 0 ? v : c.number("alpha") * (std::exp(v) - 1);
  });
}

void add_smooth_steps(std::map<std::string, Oracle>& to) {
  to["softplus"] = each([](const Call& c, X x) {
    const R beta = c.number("beta");
    return std::log(1 + std::exp(beta * x[0].real())) / beta;
  });
  to["logsigmoid"] = real_function([](R x) { return -std::log(1 + std::exp(-x)); });
  to["silu"] = real_function([](R x) { return x * (1 + std::tanh(x / 2)) / 2; });
  const auto gelu = [](R x) { return x * std::erfc(-x / std::sqrt(R(2))) / 2; };
  // x times the logistic function of twice the argument of its tanh
  const auto by_tanh = [](R x) {
    return x / (1 + std::exp(-2 * std::sqrt(2 / kPi) * (x + R(0.044715L) * x * x * x)));
  };
  to["gelu"] = each([=](const Call& c, X x) {
    return c.text("approximate") == "tanh" ? by_tanh(x[0].real()) : gelu(x[0].real());
  });
  to["gelu_tanh"] = real_function(by_tanh);
}

}  // namespace

int64_t Host::offset(const Shape& index) const {
  int64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) at = at * sizes[i] + index[i];
  return at;
}

void for_each_index(const Shape& sizes, const std::function<void(const Shape&)>& body) {
  Shape index(sizes.size(), 0);
  for (int64_t n = numel_of(sizes); n > 0; --n) {
    body(index);
    for (size_t i = sizes.size(); i-- > 0 && ++index[i] == sizes[i];) index[i] = 0;
  }
}

Host build(const Shape& sizes, const std::function<Wide(const Shape&)>& value) {
  Host h{sizes, {}};
  for_each_index(sizes, [&](const Shape& i) { h.values.push_back(value(i)); });
  return h;
}

rows::Numbers stored(const std::vector<Wide>& values, DType dtype) {
  rows::Numbers out;
  for (const Wide& x : values) {
    if (dtype == DType::bool_)
      out.push_back(x != Wide(0) ? 1.0 : 0.0);
    else if (dtype == DType::u8)
      out.push_back(double(uint8_t(int64_t(x.real()))));
    else if (is_integer(dtype))
      out.push_back(double(int64_t(x.real())));
    else if (is_complex(dtype))
      out.push_back({double(x.real()), double(x.imag())});
    else
      out.push_back(double(x.real()));
  }
  return out;
}

static std::map<std::string, Oracle>& elsewhere() {
  static std::map<std::string, Oracle> to;
  return to;
}
OracleOf::OracleOf(const char* op, Oracle oracle) { elsewhere()[op] = std::move(oracle); }

const std::map<std::string, Oracle>& oracles() {
  static const std::map<std::string, Oracle> all = [] {
    std::map<std::string, Oracle> to = elsewhere();
    add_pointwise_oracles(to);
    add_statement_oracles(to);
    add_structured_oracles(to);
    add_model_oracles(to);
    add_sorting_oracles(to);
    add_indexing_oracles(to);
    add_rearrange_oracles(to);
    add_window_oracles(to);
    add_norm_oracles(to);
    add_criterion_oracles(to);
    add_linalg_oracles(to);
    return to;
  }();
  return all;
}

void add_pointwise_oracles(std::map<std::string, Oracle>& to) {
  add_arithmetic(to);
  add_elementary(to);
  add_pieces(to);
  add_smooth_steps(to);
}

}  // namespace gradus::testing
