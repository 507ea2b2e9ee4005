// The data set `copy`: random symbols, a separator, and the same symbols again. What comes next is
// told from the separator on, so a network learns to look back and copy. Each sample depends on
// seed, split and its index alone: a set of n is the beginning of every larger one.
#pragma once
#include "ops/train/data/dataset.hpp"
#include "ops/train/data/split.hpp"

namespace gradus::inline v1::training {

// Symbols are 0 .. symbols-1, the separator is `symbols`. Of length = 3 a sample is
//   inputs  a b c | a b
//   labels  - - - a b c
// with "-" for kNoLabel: sizes = {2 length}, classes = symbols + 1.
Dataset make_copy(int64_t train, int64_t test, int64_t symbols, int64_t length, uint64_t seed);

}  // namespace gradus::training
