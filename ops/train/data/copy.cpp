// Symbols from Philox, four to a block of its words.
#include "ops/train/data/copy.hpp"

#include "engine/base/error.hpp"
#include "engine/abi/philox.hpp"

namespace gradus::inline v1::training {

namespace {

constexpr uint64_t kStream = 0xc0b1ull << 32;  // apart from the other users of a seed

uint8_t symbol(uint64_t seed, Split split, uint64_t index, uint64_t place, int64_t symbols) {
  const PhiloxWords p = philox(seed, index << 16 | place / 4, kStream + uint64_t(split));
  return uint8_t(uint64_t(p.w[place % 4]) * uint64_t(symbols) >> 32);
}

}  // namespace

Dataset make_copy(int64_t train, int64_t test, int64_t symbols, int64_t length, uint64_t seed) {
  if (train < 0 || test < 0 || symbols < 1 || symbols > 255 || length < 1 || length > 1 << 16)
    fail(ErrorKind::config, "copy", "train ", train, ", test ", test, ", symbols ", symbols,
         ", length ", length, "; expected 0 or more samples, 1 to 255 symbols, a length of 1 to ",
         1 << 16);
  Dataset data;
  data.name = "copy";
  data.kind = InputKind::tokens;
  data.sizes = data.target_sizes = {2 * length};
  data.classes = symbols + 1;
  const auto fill = [&](Samples& set, Split split, int64_t count) {
    set.count = count;
    Tokens& inputs = set.inputs.emplace<Tokens>();
    ClassLabels& labels = set.targets.emplace<ClassLabels>();
    inputs.reserve(size_t(count * data.cols()));
    labels.reserve(size_t(count * data.cols()));
    for (int64_t i = 0; i < count; ++i) {
      Tokens s;
      for (int64_t k = 0; k < length; ++k)
        s.push_back(symbol(seed, split, uint64_t(i), uint64_t(k), symbols));
      inputs.insert(inputs.end(), s.begin(), s.end());
      inputs.push_back(int32_t(symbols));
      inputs.insert(inputs.end(), s.begin(), s.end() - 1);
      labels.insert(labels.end(), size_t(length), kNoLabel);
      labels.insert(labels.end(), s.begin(), s.end());
    }
  };
  fill(data.train, Split::train, train);
  fill(data.test, Split::test, test);
  return data;
}

}  // namespace gradus::training
