#include "ops/linalg/remarks.hpp"

#include "ops/linalg/matrices.hpp"

#include <limits>

namespace gradus::inline v1::linalg {

namespace {

// values: (.., n), those of a batch one after another
std::string gap_of(const Tensor& values) {
  const HostValues w = host_values(values);
  const size_t n = size_t(values.size(-1));
  double worst = std::numeric_limits<double>::infinity();
  std::string said;
  for (size_t line = 0; line < w.size(); line += n) {
    double most = 0;
    for (size_t i = 0; i < n; ++i) most = std::max(most, std::abs(w[line + i]));
    for (size_t i = 0; i < n; ++i)
      for (size_t j = i + 1; j < n; ++j) {
        const double gap = std::abs(w[line + i] - w[line + j]);
        if (!(gap < worst * most)) continue;
        worst = gap / most;
        said = join("values ", int64_t(i), " and ", int64_t(j), " (", shown(w[line + i]), " and ",
                    shown(w[line + j]), ") are nearest: derivatives of vectors divide by the gap ",
                    gap, ", of values alone by nothing");
      }
  }
  return said;
}
std::string condition_of(const Tensor& a) {
  const HostValues s = host_values(svdvals(a));
  const size_t k = size_t(std::min(a.size(-1), a.size(-2)));
  double worst = 0;
  for (size_t line = 0; line < s.size(); line += k)
    worst = std::max(worst, std::abs(s[line] / s[line + k - 1]));
  if (!(worst > 0)) return "";
  return join("the condition of A is ", worst,
              " (largest by smallest singular value): derivatives may lose as much");
}

constexpr const char* kBySpectrum[] = {"eigh", "eigsh", "eig", "svd"};
constexpr const char* kByInverse[] = {"linear_solve", "inv", "slogdet",      "cholesky",
                                      "lu_factor",    "qr",  "polar_factors"};
template <size_t N>
bool among(const char* const (&names)[N], std::string_view name) {
  return std::any_of(names, names + N, [&](const char* one) {
    return name == one || (name.ends_with("_ex") && name.substr(0, name.size() - 3) == one);
  });
}

}  // namespace

std::string remark_on(const OpInfo& op, std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs) {
  if (op.group != "linalg" || inputs.empty() || inputs[0].numel() == 0) return "";
  const NoGrad quiet;
  try {
    if (among(kBySpectrum, op.name)) return gap_of(outputs[op.name == "svd" ? 1 : 0].detach());
    if (among(kByInverse, op.name)) return condition_of(inputs[0].detach());
  } catch (const Error&) {  // not finite, or of no use to anyone: the verdict says more
  }
  return "";
}

}  // namespace gradus::linalg
