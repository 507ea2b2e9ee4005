// Large contractions of the cpu device in which operands and output have their neighbours along
// different axes, against a plain loop over the joint index space.
#include "tests/cpu_device.hpp"

#include <map>
#include <string>

using namespace cpu_test;

namespace {

// out = alpha sum a b + beta out (+ bias), all row-major, as "adb,cd->cba" says.
template <class T>
void check_layout(const std::string& equation, const std::map<char, int64_t>& extents, double alpha,
                  double beta, bool with_bias) {
  const size_t comma = equation.find(','), arrow = equation.find("->");
  const std::string labels[] = {equation.substr(0, comma),
                                equation.substr(comma + 1, arrow - comma - 1),
                                equation.substr(arrow + 2)};
  std::string joint = labels[2];
  for (const char l : labels[0] + labels[1])
    if (joint.find(l) == std::string::npos) joint += l;
  const size_t n_out = labels[2].size();
  Index sizes, strides[3];
  for (const char l : joint) sizes.push_back(extents.at(l));
  std::vector<T> data[3], bias;
  for (int v = 0; v < 3; ++v) {
    int64_t step = 1;
    strides[v].assign(joint.size(), 0);
    for (size_t i = labels[v].size(); i-- > 0; step *= extents.at(labels[v][i]))
      strides[v][joint.find(labels[v][i])] = step;
    for (int64_t i = 0; i < step; ++i) data[v].push_back(small_number<T>());
  }
  for (size_t i = 0; i < data[2].size(); ++i) bias.push_back(small_number<T>());

  const auto place = [&](const Index& i, int v) {
    int64_t at = 0;
    for (size_t d = 0; d < i.size(); ++d) at += i[d] * strides[v][d];
    return size_t(at);
  };
  std::vector<long double> want(data[2].size(), 0.0L);
  each(sizes, [&](const Index& i) {
    want[place(i, 2)] += (long double)(data[0][place(i, 0)]) * (long double)(data[1][place(i, 1)]);
  });
  double terms = 1;
  for (size_t d = n_out; d < sizes.size(); ++d) terms *= double(sizes[d]);
  const long double allowed = 8 * std::numeric_limits<T>::epsilon() * (4 + std::sqrt(terms));

  const int32_t t = int32_t(dtype_of<T>), rank = int32_t(joint.size());
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    CAPTURE(equation);
    std::vector<T> out = data[2];
    std::vector<gd_view> in = {{1, data[0].data(), t, rank, 0, sizes.data(), strides[0].data()},
                               {2, data[1].data(), t, rank, 0, sizes.data(), strides[1].data()}};
    if (with_bias)
      in.push_back({3, bias.data(), t, int32_t(n_out), 0, sizes.data(), strides[2].data()});
    call(*dev, GD_CONTRACT, 0, in,
         {{4, out.data(), t, int32_t(n_out), 0, sizes.data(), strides[2].data()}},
         {alpha, 0, beta, 0}, {int64_t(n_out), GD_STANDARD, 0, 0});
    size_t wrong = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      long double w = alpha * want[i] + beta * (long double)(data[2][i]);
      if (with_bias) w += (long double)(bias[i]);
      if (!(std::abs((long double)(out[i]) - w) <= allowed * (1 + std::abs(w)))) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("cpu: contract where operands and output have their neighbours along different axes") {
  const std::map<char, int64_t> wide{{'a', 83}, {'b', 71}, {'c', 5}, {'d', 19}},
      deep{{'a', 39}, {'b', 50}, {'c', 3}, {'d', 410}},
      five{{'a', 18}, {'b', 7}, {'c', 6}, {'d', 5}, {'e', 17}, {'f', 11}};
  for (const auto& extents : {wide, deep})
    for (const char* equation : {"adb,cd->cba", "cd,adb->cba", "bad,cd->cab", "dab,dc->bca"}) {
      check_layout<float>(equation, extents, 1, 0, false);
      check_layout<double>(equation, extents, 0.5, -1, true);
    }
  for (const char* equation : {"afbce,df->edcba", "df,cabfe->edacb", "ebafc,fd->adecb"}) {
    check_layout<float>(equation, five, 1, 0, true);
    check_layout<double>(equation, five, 1, 0, false);
  }
}
