// Einsums by a seed: 1 to 8 operands of any dtype and any strides; labels that repeat, that many
// operands share, that one has alone; extents that broadcast, 0 and 1; ellipses; letters and
// numbers as labels. And what they are worth, by one loop over all indices at once. All of it in
// whole numbers, so small that every dtype holds them, or wrapping: results are equal or wrong.
#pragma once
#include "ops/base/dtypes.hpp"
#include "ops/contract/einsum.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace gradus::inline v1::testing {

// re + i im, both modulo 2^64.
struct Gaussian {
  uint64_t re = 0, im = 0;
  friend bool operator==(const Gaussian&, const Gaussian&) = default;
  friend Gaussian operator*(Gaussian a, Gaussian b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  Gaussian& operator+=(Gaussian b) {
    re += b.re;
    im += b.im;
    return *this;
  }
};
using Gaussians = std::vector<Gaussian>;
inline Gaussian conj(Gaussian z) { return {z.re, -z.im}; }

// What an element of a dtype is; a fraction or a NaN is no number that an exact result may have.
inline uint64_t whole(double x) {
  return x > -0x1p62 && x < 0x1p62 && x == double(int64_t(x)) ? uint64_t(int64_t(x)) : 0xdeadbeef;
}
template <class T>
Gaussian gaussian(T x) {
  if constexpr (is_complex_v<T>)
    return {whole(double(x.re)), whole(double(x.im))};
  else if constexpr (std::is_integral_v<T>)
    return {uint64_t(int64_t(x)), 0};
  else
    return {whole(double(x)), 0};
}
inline Gaussians elements_of(const Tensor& x) {
  Gaussians out;
  visit_dtype(int32_t(x.dtype()), [&](auto zero) {
    using T = decltype(zero);
    for (const T v : x.detach().template to_vector<T>()) out.push_back(gaussian<T>(v));
  });
  return out;
}
// z as a dtype keeps it.
template <class T>
T element(Gaussian z) {
  const auto re = int64_t(z.re), im = int64_t(z.im);
  if constexpr (is_complex_v<T>)
    return T(typename T::real_type(re), typename T::real_type(im));
  else if constexpr (std::is_same_v<T, bool>)
    return re != 0;
  else if constexpr (std::is_integral_v<T>)
    return T(re);
  else
    return T(float(re));
}
inline Gaussians as_dtype(const Gaussians& zs, DType dtype) {
  Gaussians out;
  visit_dtype(int32_t(dtype), [&](auto zero) {
    using T = decltype(zero);
    for (const Gaussian z : zs) out.push_back(gaussian<T>(element<T>(z)));
  });
  return out;
}

// Where each index of a row-major walk over `sizes` lies.
inline std::vector<int64_t> addresses(const Shape& sizes, const Shape& strides, int64_t offset) {
  std::vector<int64_t> at{offset};
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    std::vector<int64_t> next;
    for (const int64_t a : at)
      for (int64_t i = 0; i < sizes[axis]; ++i) next.push_back(a + i * strides[axis]);
    at = std::move(next);
  }
  return at;
}

class RandomEinsum {
 public:
  struct Drawn {
    Tensor tensor;
    Gaussians elements;  // row-major
  };
  struct Results {
    Gaussians value, tangent;
    std::vector<Gaussians> grads;  // one for each operand
  };

  RandomEinsum(uint64_t seed, Device& device) : seed_(seed), random_(seed), device_(device) {
    draw_dtypes();
    draw_extents();
    for (size_t k = 0; k < dtypes_.size(); ++k) draw_term();
    find_extents();
    draw_output();
    write_labels();
    for (size_t k = 0; k < dtypes_.size(); ++k) operands.push_back(draw(sizes_[k], dtypes_[k]));
    for (size_t k = 0; k < dtypes_.size(); ++k) directions.push_back(draw(sizes_[k], dtypes_[k]));
    dtype = result_dtype(tensors(operands));
    if (dtype == DType::bool_ && sums()) retreat_from_bool();
    cotangent = draw(output_sizes(), dtype);
  }

  // `with` instead of the operands, of the same shapes.
  Tensor call(const Tensors& with) const {
    return number_labels_ ? einsum(with, terms_of_numbers_, output_of_numbers_)
                          : einsum(equation_, with);
  }
  Shape output_sizes() const {
    Shape sizes;
    for (const int axis : output_) sizes.push_back(extents_[size_t(axis)]);
    return sizes;
  }
  bool differentiable(size_t k) const { return is_floating(operands[k].tensor.dtype()); }

  Results expected() const {
    const size_t n = operands.size();
    std::vector<std::vector<int64_t>> at;
    for (size_t k = 0; k < n; ++k) at.push_back(walk(terms_[k], sizes_[k]));
    const std::vector<int64_t> to = walk(output_, output_sizes());
    Results r;
    r.value.resize(size_t(numel_of(output_sizes())));
    r.tangent.resize(r.value.size());
    for (size_t k = 0; k < n; ++k) r.grads.emplace_back(operands[k].elements.size());
    for (size_t p = 0; p < to.size(); ++p) {
      const auto product = [&](size_t but, Gaussian z) {
        for (size_t k = 0; k < n; ++k)
          if (k != but) z = z * operands[k].elements[size_t(at[k][p])];
        return z;
      };
      const size_t q = size_t(to[p]);
      r.value[q] += product(n, {1, 0});
      for (size_t k = 0; k < n; ++k) {
        const Gaussian others = product(k, {1, 0});
        const size_t i = size_t(at[k][p]);
        r.grads[k][i] += cotangent.elements[q] * conj(others);
        if (differentiable(k)) r.tangent[q] += directions[k].elements[i] * others;
      }
    }
    return r;
  }

  std::string describe() const {
    std::string s = join("seed ", int64_t(seed_), ": \"", equation_, "\" on ", device_.name());
    for (const Drawn& x : operands)
      s += join("\n  ", x.tensor.dtype(), " ", x.tensor.sizes(), " strides ", x.tensor.strides(),
                " offset ", x.tensor.offset());
    return s;
  }
  static Tensors tensors(const std::vector<Drawn>& list) {
    Tensors out;
    for (const Drawn& x : list) out.push_back(x.tensor);
    return out;
  }

  std::vector<Drawn> operands, directions;
  Drawn cotangent;
  DType dtype = DType::f32;  // of the result

 private:
  using Axes = std::vector<int>;  // each a label; labels from kLabels on are axes of the ellipsis
  static constexpr int kLabels = 10, kEllipsisAxes = 2;

  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }
  bool chance(int percent) { return below(100) < percent; }

  // ---- what there is
  void draw_dtypes() {
    const bool mixed = chance(25);
    const auto any = [&] { return DType(below(GD_DTYPE_COUNT)); };
    const DType all = any();
    const int64_t n = chance(80) ? 1 + below(4) : 1 + below(8);
    for (int64_t k = 0; k < n; ++k) dtypes_.push_back(mixed ? any() : all);
    const auto some = [&](DType t) { return std::count(dtypes_.begin(), dtypes_.end(), t) > 0; };
    halves_ = some(DType::f16) || some(DType::bf16);
    most_ = some(DType::bf16) ? 256 : some(DType::f16) ? 2048 : 4096;
    wraps_ = std::all_of(dtypes_.begin(), dtypes_.end(), is_integer) && chance(50);
  }
  // No intermediate exceeds the number of terms, tangents and gradients of n operands included.
  void draw_extents() {
    for (int axis = 0; axis < kLabels + kEllipsisAxes; ++axis)
      extents_.push_back(chance(4) ? 0 : chance(12) ? 1 : chance(85) ? 2 + below(3) : 5 + below(8));
    labels_ = 1 + int(below(kLabels));
    ellipsis_ = chance(25) ? int(below(kEllipsisAxes + 1)) : -1;
    const auto count = [&] {
      int64_t n = int64_t(dtypes_.size());
      for (int l = 0; l < kLabels + kEllipsisAxes; ++l)
        if (l < labels_ || l >= kLabels) n *= std::max<int64_t>(extents_[size_t(l)], 1);
      return n;
    };
    while (count() > most_) {
      int64_t& extent = extents_[size_t(below(kLabels + kEllipsisAxes))];
      if (extent > 1) --extent;
    }
  }
  void draw_term() {
    Axes term;
    Shape sizes;
    std::vector<bool> broadcasts;
    for (int axis = 0; axis < kLabels + kEllipsisAxes; ++axis) broadcasts.push_back(chance(10));
    const auto add = [&](int axis) {
      term.push_back(axis);
      sizes.push_back(broadcasts[size_t(axis)] ? 1 : extents_[size_t(axis)]);
    };
    const int64_t rank = below(5), before = below(rank + 1);
    const bool dots = ellipsis_ >= 0 && chance(70);
    const auto ellipsis = [&] {
      ellipsis_at_.push_back(int(term.size()));
      for (int i = int(below(ellipsis_ + 1)); i-- > 0;) add(kLabels + i);
    };
    for (int64_t i = 0; i < rank; ++i) {
      if (dots && i == before) ellipsis();
      add(chance(10) && !term.empty() && term.back() < kLabels ? term.back() : int(below(labels_)));
    }
    if (dots && before == rank) ellipsis();
    if (!dots) ellipsis_at_.push_back(-1);
    terms_.push_back(term);
    sizes_.push_back(sizes);
  }
  // As broadcasting has it: what is not 1 decides.
  void find_extents() {
    for (int64_t& extent : extents_) extent = 1;
    for (size_t k = 0; k < terms_.size(); ++k)
      for (size_t i = 0; i < terms_[k].size(); ++i) {
        used_.insert(terms_[k][i]);
        if (sizes_[k][i] != 1) extents_[size_t(terms_[k][i])] = sizes_[k][i];
      }
  }
  int uses(int axis) const {
    int n = 0;
    for (const Axes& term : terms_) n += int(std::count(term.begin(), term.end(), axis));
    return n;
  }
  void draw_output() {
    implicit_ = chance(15);
    Axes dots, letters;
    for (auto it = used_.rbegin(); it != used_.rend(); ++it)
      if (*it >= kLabels) dots.push_back(*it);
    for (const int axis : used_)
      if (axis < kLabels && (implicit_ ? uses(axis) == 1 : chance(40))) letters.push_back(axis);
    if (!implicit_) std::shuffle(letters.begin(), letters.end(), random_);
    const bool any_dots =
        std::any_of(ellipsis_at_.begin(), ellipsis_at_.end(), [](int at) { return at >= 0; });
    if (any_dots && (implicit_ || chance(70)))
      output_ellipsis_ = implicit_ ? 0 : int(below(int64_t(letters.size()) + 1));
    output_ = letters;
    if (output_ellipsis_ >= 0)
      output_.insert(output_.begin() + output_ellipsis_, dots.begin(), dots.end());
  }

  // ---- how it is written
  std::string spaces() {
    return spaced_ && chance(30) ? std::string(size_t(1 + below(2)), ' ') : "";
  }
  std::string written(const Axes& axes, int ellipsis) {
    std::string s = spaces();
    for (size_t i = 0; i <= axes.size(); ++i) {
      if (int(i) == ellipsis) s += "..." + spaces();
      if (i < axes.size() && axes[i] < kLabels) s += names_[size_t(axes[i])] + spaces();
    }
    return s;
  }
  // Implicit output is in the order of the letters, so labels are named in rising order.
  void write_labels() {
    std::set<int32_t> codes;
    const std::u32string letters = alphabet();
    number_labels_ = ellipsis_ < 0 && !implicit_ && chance(20);
    while (codes.size() < size_t(kLabels))
      codes.insert(number_labels_ ? int32_t(random_())
                                  : int32_t(letters[size_t(below(int64_t(letters.size())))]));
    for (const int32_t code : codes)
      names_.push_back(number_labels_ ? join(" ", int64_t(code)) : letter_text(code));
    spaced_ = chance(15);
    for (size_t k = 0; k < terms_.size(); ++k)
      equation_ += (k ? "," : "") + written(terms_[k], ellipsis_at_[k]);
    if (!implicit_) equation_ += "->" + written(output_, output_ellipsis_);
    if (!number_labels_) return;
    const std::vector<int32_t> numbers(codes.begin(), codes.end());
    const auto labels = [&](const Axes& axes) {
      Labels out;
      for (const int axis : axes) out.push_back(numbers[size_t(axis)]);
      return out;
    };
    for (const Axes& term : terms_) terms_of_numbers_.push_back(labels(term));
    output_of_numbers_ = labels(output_);
  }
  std::u32string alphabet() {
    std::u32string letters = U"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (chance(30)) letters += U"\u00e9\u03b1\u03b2\u03b3\u0416\u4e2d\U0001d538";
    return letters;
  }

  // ---- what it is of
  Gaussian draw_number(DType type) {
    if (wraps_) return {random_(), 0};
    if (type == DType::bool_ || type == DType::u8) return {uint64_t(below(2)), 0};
    if (!is_complex(type)) {
      const int64_t most = halves_ ? 1 : 2;
      return {uint64_t(below(2 * most + 1) - most), 0};
    }
    const Gaussian z{uint64_t(below(3) - 1), uint64_t(below(3) - 1)};
    return halves_ && z.re != 0 ? Gaussian{z.re, 0} : z;
  }
  // Strides in any order of the axes, with gaps, backwards, 0, or so that elements overlap.
  Shape draw_strides(const Shape& sizes) {
    std::vector<size_t> order;
    for (size_t i = 0; i < sizes.size(); ++i) order.push_back(i);
    if (chance(50)) std::shuffle(order.begin(), order.end(), random_);
    const bool plain = chance(30);
    Shape strides(sizes.size());
    int64_t next = 1;
    for (size_t i = order.size(); i-- > 0;) {
      int64_t& stride = strides[order[i]];
      if (!plain && chance(15)) next += below(4);
      stride = plain || !chance(15) ? next : chance(50) ? 0 : 1 + below(3);
      if (stride == next) next *= std::max<int64_t>(sizes[order[i]], 1);
      if (!plain && chance(25)) stride = -stride;
    }
    return strides;
  }
  Drawn draw(const Shape& sizes, DType type) {
    const Shape strides = draw_strides(sizes);
    int64_t low = 0, high = 0;
    for (size_t i = 0; i < sizes.size(); ++i)
      (strides[i] < 0 ? low : high) += strides[i] * std::max<int64_t>(sizes[i] - 1, 0);
    const int64_t offset = below(4) - low;
    Gaussians memory;
    for (int64_t i = 0; i < offset + high + 1 + below(3); ++i) memory.push_back(draw_number(type));
    memory = as_dtype(memory, type);
    Drawn x;
    visit_dtype(int32_t(type), [&](auto zero) {
      using T = decltype(zero);
      const size_t n = memory.size();
      const std::unique_ptr<T[]> host(new T[n]);
      for (size_t i = 0; i < n; ++i) host[i] = element<T>(memory[i]);
      x.tensor =
          Tensor::from_host(host.get(), {int64_t(n)}, type, device_).alias(sizes, strides, offset);
    });
    for (const int64_t at : addresses(sizes, strides, offset))
      x.elements.push_back(memory[size_t(at)]);
    return x;
  }

  // bool has no sums: those equations are u8's.
  bool sums() const {
    return std::any_of(used_.begin(), used_.end(), [&](int axis) {
      return extents_[size_t(axis)] != 1 && std::count(output_.begin(), output_.end(), axis) == 0;
    });
  }
  void retreat_from_bool() {
    dtype = DType::u8;
    for (size_t k = 0; k < operands.size(); ++k)
      operands[k] = draw(sizes_[k], dtype), directions[k] = draw(sizes_[k], dtype);
  }

  // The addresses in a row-major array of those axes, for each index of all labels.
  std::vector<int64_t> walk(const Axes& axes, const Shape& sizes) const {
    const Shape own = contiguous_strides(sizes);
    Shape all, strides;
    for (const int axis : used_) {
      all.push_back(extents_[size_t(axis)]);
      strides.push_back(0);
      for (size_t i = 0; i < axes.size(); ++i)
        if (axes[i] == axis && sizes[i] != 1) strides.back() += own[i];
    }
    return addresses(all, strides, 0);
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  Device& device_;
  std::vector<DType> dtypes_;
  bool halves_ = false, wraps_ = false;
  int64_t most_ = 0;
  int labels_ = 0, ellipsis_ = -1;
  std::vector<int64_t> extents_;  // by label
  std::vector<Axes> terms_;
  std::vector<Shape> sizes_;
  std::vector<int> ellipsis_at_;  // the axis before which it stands; -1: there is none
  std::set<int> used_;
  Axes output_;
  int output_ellipsis_ = -1;
  bool implicit_ = false, number_labels_ = false, spaced_ = false;
  std::vector<std::string> names_;
  std::string equation_;
  std::vector<Labels> terms_of_numbers_;
  Labels output_of_numbers_;
};

}  // namespace gradus::testing
