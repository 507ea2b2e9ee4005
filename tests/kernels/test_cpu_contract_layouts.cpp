// Large contractions of the cpu device in which operands and output have their neighbours along
// different axes, against a plain loop over the joint index space.
#include "tests/helpers/cpu_device.hpp"

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

// Sizes of a convolution: images, channels in and out, height and width of out, side of the kernel.
struct Convolution {
  int64_t n, c, o, h, w, k;
};

// Both products of a convolution over windows of x: with `weights`, y[n, o, h, w] = sum_cij
// x[n, c, h + i, w + j] f[o, c, i, j], else dw[o, c, i, j] = sum_nhw g[n, o, h, w] x[n, c, h + i,
// w + j]. Read in place, they should have the bits of the packed product, which adding to zeros
// takes.
template <class T>
void check_convolution(const Convolution& s, bool weights) {
  const int64_t height = s.h + s.k - 1, width = s.w + s.k - 1;
  std::vector<T> x(size_t(s.n * s.c * height * width)),
      f(size_t(weights ? s.o * s.c * s.k * s.k : s.n * s.o * s.h * s.w));
  for (T& v : x) v = small_number<T>();
  for (T& v : f) v = small_number<T>();
  const Index sx{s.c * height * width, height * width, width, 1};
  Index sizes, at_x, at_f;
  if (weights) {
    sizes = {s.n, s.o, s.h, s.w, s.c, s.k, s.k};
    at_x = {sx[0], 0, sx[2], 1, sx[1], sx[2], 1};
    at_f = {0, s.c * s.k * s.k, 0, 0, s.k * s.k, s.k, 1};
  } else {
    sizes = {s.o, s.c, s.k, s.k, s.n, s.h, s.w};
    at_x = {0, sx[1], sx[2], 1, sx[0], sx[2], 1};
    at_f = {s.h * s.w, 0, 0, 0, s.o * s.h * s.w, s.w, 1};
  }
  const Index out{sizes[0], sizes[1], sizes[2], sizes[3]},
      so{out[1] * out[2] * out[3], out[2] * out[3], out[3], 1};
  std::vector<long double> want(size_t(out[0] * so[0]), 0.0L);
  each(sizes, [&](const Index& i) {
    int64_t px = 0, pf = 0, po = 0;
    for (size_t d = 0; d < 7; ++d) px += i[d] * at_x[d], pf += i[d] * at_f[d];
    for (size_t d = 0; d < 4; ++d) po += i[d] * so[d];
    want[size_t(po)] += (long double)(x[size_t(px)]) * (long double)(f[size_t(pf)]);
  });
  const int32_t t = int32_t(dtype_of<T>);
  const long double allowed = std::numeric_limits<T>::epsilon() *
                              (32 + 8 * std::sqrt(double(sizes[4] * sizes[5] * sizes[6])));
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    std::vector<T> y[2];
    for (int beta = 0; beta < 2; ++beta) {
      y[beta].assign(want.size(), T(0));
      call(*dev, GD_CONTRACT, 0,
           {{1, x.data(), t, 7, 0, sizes.data(), at_x.data()},
            {2, f.data(), t, 7, 0, sizes.data(), at_f.data()}},
           {{3, y[beta].data(), t, 4, 0, out.data(), so.data()}}, {1, 0, double(beta), 0},
           {4, GD_STANDARD, 0, 0});
    }
    CHECK(y[0] == y[1]);
    size_t wrong = 0;
    for (size_t i = 0; i < want.size(); ++i)
      wrong += !(std::abs((long double)(y[0][i]) - want[i]) <= allowed * (1 + std::abs(want[i])));
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

TEST_CASE("cpu: convolutions read in place have the bits of packed ones") {
  for (const Convolution& s : {Convolution{3, 4, 6, 9, 14, 5}, Convolution{2, 20, 16, 6, 10, 5},
                               Convolution{2, 3, 5, 7, 31, 3}, Convolution{1, 2, 30, 33, 40, 2},
                               Convolution{4, 1, 8, 12, 17, 5}})
    for (const bool weights : {true, false}) {
      CAPTURE(s.o);
      CAPTURE(weights);
      check_convolution<float>(s, weights);
      check_convolution<double>(s, weights);
    }
}
