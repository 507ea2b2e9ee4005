// A reduction seen as kept and reduced axes, and the copy that serves short ones: windows of a
// pool, a handful of classes.
#pragma once
#include "kernels/cpu/isa/fold.hpp"
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/lines.hpp"

namespace gradus::inline v1::cpu {

inline constexpr int64_t kStrip = 128;
enum { kIn, kOut };

// The kept axes of both views, sorted by the input's strides, and the reduced ones of the input.
struct Split {
  Walk kept, reduced;
  int64_t outs, length;
  int32_t from, to, work;  // dtypes: input, output, and what is folded
};

// Few elements for each output: those of up to kStrip outputs side by side, [k * kStrip + output].
template <class T>
class Blocks {
 public:
  Blocks(gd_device* d, const Split& s)
      : s_(s), item_(s.kept.item[kIn]), reader_(d, s.from, s.work) {
    int64_t k = 0;
    for_rows(s.reduced, 0, 0, s.length, [&](const char* p, int64_t run, int64_t step) {
      for (int64_t q = 0; q < run; ++q) place_[k++] = p + q * step - s.reduced.base[0];
    });
    bool dense = s.from == s.work && item_ <= 16;
    for (k = 0; k < s.length; ++k) dense = dense && place_[k] == k * item_;
    if (dense) turn_ = find_transpose(item_);
  }
  static bool suit(const Split& s) { return s.length <= kLanes && s.outs >= 8; }

  // Outputs [o, o + n).
  const T* bring(int64_t o, int64_t n) {
    const char* const base = s_.kept.base[kIn];
    int64_t j = 0;
    for_rows(s_.kept, kIn, o, n, [&](const char* p, int64_t run, int64_t step) {
      if (turn_)
        for (int64_t q = 0; q < run; ++q) at_[j + q] = p + q * step - base;
      else
        for (int64_t k = 0; k < s_.length; ++k)
          memcpy(block_ + k * kStrip + j, reader_.read(p + place_[k], run, step),
                 size_t(run) * sizeof(T));
      j += run;
    });
    if (turn_)
      turn_(reinterpret_cast<char*>(block_), kStrip * int64_t(sizeof(T)), base, at_, n, s_.length);
    return block_;
  }

 private:
  const Split& s_;
  int64_t item_;
  TransposeFn turn_ = nullptr;
  Reader<T, kStrip> reader_;
  int64_t place_[kLanes], at_[kStrip];
  alignas(64) T block_[kLanes * kStrip];
};

}  // namespace gradus::cpu
