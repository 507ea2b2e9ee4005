// Rows of the window ops: sliding views, convolutions, pools.
#include "ops/check/row_words.hpp"

namespace gradus::inline v1::rows {

namespace {

constexpr Exactness kFolds{16, true, 8, "up to 5 windows are summed, each sum rounded"};
constexpr Exactness kConvolves{64, true, 3, "sums of up to 90 products in another order, a bias"};
constexpr Exactness kAverages{64, true, 8, "a sum and a factor per axis, each rounded"};

Row convolution(const char* name, std::vector<Case> cases) {
  return {name, {kPlain}, kNumbers, std::move(cases), kConvolves};
}

std::vector<Row> window_views() {
  return {
      {"window",
       {kPlain},
       kAny,
       {{{{7}}, {{"dim", 0}, {"size", 3}}},
        {{{3, 9}}, {{"dim", -1}, {"size", 2}, {"step", 3}, {"dilation", 2}}},
        {{{5, 2, 3}}, {{"dim", 0}, {"size", 5}}},
        {{{4, 0}}, {{"dim", 0}, {"size", 2}}},
        {{{6, 5}}, {{"dim", 0}, {"size", 2}, {"step", 2}}},
        {{{4}}, {{"dim", 0}, {"size", 1}, {"step", 9}, {"dilation", 9}}}},
       kMoves},
      {"unfold",
       {kPlain},
       kAny,
       {{{{7}}, {{"dimension", 0}, {"size", 3}, {"step", 2}}},
        {{{2, 6, 3}}, {{"dimension", 1}, {"size", 2}, {"step", 1}}},
        {{{3, 5}}, {{"dimension", -1}, {"size", 5}, {"step", 1}}}},
       kMoves},
      {"fold",
       {kPlain},
       kNumbers,
       {{{{5, 3}}, {{"dim", 0}, {"n", 7}}},
        {{{3, 3, 2}}, {{"dim", 1}, {"n", 9}, {"step", 3}, {"dilation", 2}}},
        {{{2, 3, 5}}, {{"dim", 0}, {"n", 6}}},
        {{{0, 2, 3}}, {{"dim", 1}, {"n", 4}}},
        {{{2, 1}}, {{"dim", 0}, {"n", 9}, {"step", 5}}}},
       kFolds},
  };
}

std::vector<Row> convolutions() {
  const auto conv_cases = [](bool public_op) {
    std::vector<Case> cases{
        {{{2, 3, 9}, {4, 3, 3}}},
        {{{2, 4, 11}, {6, 2, 3}}, {{"stride", Ints{3}}, {"dilation", Ints{2}}, {"groups", 2}}},
        {{{1, 1, 1}, {1, 1, 1}}},
        {{{0, 3, 5}, {2, 3, 2}}},
    };
    if (public_op) return cases;
    cases.push_back({{{2, 3, 7, 6}, {5, 3, 3, 2}}, {{"stride", Ints{2, 1}}}});
    cases.push_back({{{1, 2, 4, 3, 5}, {2, 2, 2, 2, 3}}, {{"dilation", Ints{2, 1, 1}}}});
    return cases;
  };
  std::vector<Case> conv1 = conv_cases(true);
  conv1.push_back({{{2, 3, 9}, {4, 3, 4}, {4}}, {{"padding", Ints{2}}}});
  conv1.push_back({{{3, 6}, {2, 3, 3}, {2}}, {{"stride", Ints{2}}, {"padding", Ints{1}}}});
  return {
      convolution("conv", conv_cases(false)),
      convolution(
          "conv_input",
          {{{{2, 4, 7}, {4, 3, 3}}, {{"size", Ints{9}}}},
           {{{2, 6, 3}, {6, 2, 3}},
            {{"size", Ints{13}}, {"stride", Ints{3}}, {"dilation", Ints{2}}, {"groups", 2}}},
           {{{1, 2, 3, 5}, {2, 3, 3, 2}}, {{"size", Ints{8, 6}}, {"stride", Ints{2, 1}}}},
           // steps longer than the kernel, or that share a factor with the dilation, leave gaps
           {{{2, 1, 3}, {1, 2, 2}}, {{"size", Ints{12}}, {"stride", Ints{4}}}},
           {{{1, 2, 3}, {2, 1, 3}},
            {{"size", Ints{22}}, {"stride", Ints{4}}, {"dilation", Ints{6}}}},
           {{{1, 2, 2, 2, 2}, {2, 1, 2, 1, 2}},
            {{"size", Ints{3, 3, 4}}, {"stride", Ints{1, 2, 2}}}},
           {{{0, 2, 3}, {2, 2, 2}}, {{"size", Ints{4}}}}}),
      convolution("conv_weight",
                  {{{{2, 3, 9}, {2, 4, 7}}, {{"size", Ints{3}}}},
                   {{{2, 4, 13}, {2, 6, 3}},
                    {{"size", Ints{3}}, {"stride", Ints{3}}, {"dilation", Ints{2}}, {"groups", 2}}},
                   {{{2, 2, 5, 4}, {2, 3, 2, 3}}, {{"size", Ints{3, 2}}, {"stride", Ints{2, 1}}}},
                   {{{0, 3, 5}, {0, 2, 4}}, {{"size", Ints{2}}}}}),
      convolution("conv1d", conv1),
      convolution("conv2d", {{{{2, 3, 6, 5}, {4, 3, 3, 2}, {4}}},
                             {{{2, 4, 7, 6}, {6, 2, 3, 3}},
                              {{"stride", Ints{2, 1}},
                               {"padding", Ints{1, 2}},
                               {"dilation", Ints{2, 1}},
                               {"groups", 2}}},
                             {{{3, 5, 5}, {3, 1, 3, 3}, {3}}, {{"padding", 1}, {"groups", 3}}},
                             {{{0, 1, 3, 3}, {2, 1, 2, 2}, {2}}},
                             {{{3, 1, 12, 12}, {5, 1, 5, 5}}}}),
      convolution("conv3d", {{{{1, 2, 3, 4, 3}, {3, 2, 2, 3, 2}, {3}}},
                             {{{2, 2, 3, 3, 4}, {2, 1, 3, 2, 2}},
                              {{"stride", Ints{2, 1, 2}}, {"padding", 1}, {"groups", 2}}},
                             {{{1, 3, 3, 3}, {2, 1, 2, 2, 2}}, {{"dilation", 2}}}}),
      convolution(
          "conv_transpose1d",
          {{{{2, 3, 5}, {3, 4, 3}, {4}}},
           {{{2, 4, 4}, {4, 3, 3}, {6}},
            {{"stride", 3}, {"padding", 1}, {"output_padding", 2}, {"groups", 2}, {"dilation", 2}}},
           {{{3, 4}, {3, 2, 2}}, {{"stride", 3}}},
           {{{1, 1, 3}, {1, 1, 1}}, {{"stride", 2}, {"output_padding", 1}}},
           {{{0, 2, 3}, {2, 3, 2}}}}),
      convolution("conv_transpose2d",
                  {{{{2, 3, 4, 3}, {3, 2, 3, 2}, {2}}},
                   {{{1, 4, 3, 3}, {4, 2, 3, 3}},
                    {{"stride", 2}, {"padding", Ints{1, 0}}, {"output_padding", 1}, {"groups", 2}}},
                   {{{2, 3, 2}, {2, 1, 2, 2}, {1}}, {{"dilation", Ints{1, 2}}}}}),
      convolution("conv_transpose3d", {{{{1, 2, 2, 3, 2}, {2, 2, 2, 2, 3}, {2}}},
                                       {{{2, 2, 2, 2, 2}, {2, 1, 2, 3, 2}},
                                        {{"stride", Ints{1, 2, 2}}, {"padding", Ints{0, 1, 0}}}},
                                       {{{1, 2, 2, 2}, {1, 2, 2, 2, 2}}}}),
  };
}

// The same cases for one, two and three spatial axes: attributes are given as one number.
std::vector<Case> pools(int64_t axes, bool averages) {
  const auto shape = [&](Shape lead, int64_t n) {
    for (int64_t a = 0; a < axes; ++a) lead.push_back(n + (a == 1));
    return lead;
  };
  std::vector<Case> cases{
      {{shape({2, 3}, 6)}, {{"kernel_size", 2}}},
      {{shape({3}, 5)}, {{"kernel_size", 3}, {"stride", 2}, {"padding", 1}}},
      {{shape({1, 2}, 5)}, {{"kernel_size", 2}, {"stride", 2}, {"ceil_mode", true}}},
      {{shape({1, 1}, 6)},
       {{"kernel_size", 3}, {"stride", 4}, {"padding", 1}, {"ceil_mode", true}}},
      {{shape({0, 2}, 4)}, {{"kernel_size", 2}, {"stride", 1}}},
      {{shape({2, 1}, 4)}, {{"kernel_size", 1}}},
  };
  if (averages)
    for (size_t k : {1, 2, 3}) {
      cases.push_back(cases[k]);
      cases.back().attrs.push_back({"count_include_pad", false});
    }
  else
    cases.push_back({{shape({1, 2}, 6)}, {{"kernel_size", 2}, {"stride", 1}, {"dilation", 3}}});
  return cases;
}

std::vector<Row> pool_rows() {
  std::vector<Row> rows;
  for (int64_t axes = 1; axes <= 3; ++axes) {
    const std::string d = std::to_string(axes) + "d";
    const auto shape = [&](Shape lead, Shape sizes) {
      for (int64_t a = 0; a < axes; ++a) lead.push_back(sizes[size_t(a)]);
      return lead;
    };
    const std::vector<Case> adaptive{
        {{shape({2, 3}, {7, 4, 5})}, {{"output_size", 3}}},
        {{shape({2}, {4, 6, 3})}, {{"output_size", 1}}},
        {{shape({1, 1}, {3, 2, 4})}, {{"output_size", 5}}},
        {{shape({0, 2}, {4, 5, 3})}, {{"output_size", 2}}},
    };
    rows.push_back({"max_pool" + d, {lattice()}, kReal | kInteger, pools(axes, false), kMoves});
    rows.push_back({"avg_pool" + d, {kPlain}, kReal | kComplex, pools(axes, true), kAverages});
    rows.push_back({"adaptive_avg_pool" + d, {kPlain}, kReal | kComplex, adaptive, kAverages});
    rows.push_back({"adaptive_max_pool" + d, {lattice()}, kReal | kInteger, adaptive, kMoves});
  }
  return rows;
}

}  // namespace

std::vector<Row> window_rows() {
  std::vector<Row> all = window_views();
  for (auto more : {convolutions(), pool_rows()})
    for (Row& row : more) all.push_back(std::move(row));
  return all;
}

}  // namespace gradus::rows
