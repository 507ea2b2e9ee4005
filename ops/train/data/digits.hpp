// The data set `digits`: handwritten-looking digits drawn by the program, so that a demo needs no
// download. Each sample depends on seed, split and its index alone: a set of n is the beginning of
// every larger one, and the bytes are the same on every machine (+ - * / sqrt only, no libm).
#pragma once
#include "ops/train/data/dataset.hpp"
#include "ops/train/data/split.hpp"

#include <cstdint>

namespace gradus::inline v1::training {

constexpr int64_t kDigitSide = 28;

// Labels come in blocks of ten, each a shuffled 0..9, so classes are balanced.
int32_t digit_label(uint64_t seed, Split split, uint64_t index);
// Draws one sample into 28 * 28 bytes.
void draw_digit(uint64_t seed, Split split, uint64_t index, uint8_t* pixels);

Dataset make_digits(int64_t train, int64_t test, uint64_t seed);

}  // namespace gradus::training
