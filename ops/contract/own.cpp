// A plain loop over the joint index space of a user's algebra.
#include "ops/contract/primitive.hpp"

namespace gradus::inline v1 {

namespace {

// Where both operands stand while the axes [first, last) are walked in row-major order.
class Place {
 public:
  Place(const Joint& joint, size_t first, size_t last)
      : j_(joint), first_(first), last_(last), index_(last - first, 0) {}
  int64_t count() const {
    int64_t n = 1;
    for (size_t d = first_; d < last_; ++d) n *= j_.sizes[d];
    return n;
  }
  void next() {
    for (size_t d = last_; d-- > first_;) {
      a += j_.strides_a[d];
      b += j_.strides_b[d];
      if (++index_[d - first_] < j_.sizes[d]) return;
      a -= j_.sizes[d] * j_.strides_a[d];
      b -= j_.sizes[d] * j_.strides_b[d];
      index_[d - first_] = 0;
    }
  }
  int64_t a = 0, b = 0;

 private:
  const Joint& j_;
  const size_t first_, last_;
  std::vector<int64_t> index_;
};

}  // namespace

std::vector<double> contract_by(const OwnAlgebra& algebra, const Joint& joint, size_t outer_axes,
                                const std::vector<double>& a, const std::vector<double>& b) {
  Place outer(joint, 0, outer_axes), inner(joint, outer_axes, joint.sizes.size());
  std::vector<double> sums;
  const int64_t terms = inner.count();
  for (int64_t i = outer.count(); i > 0; --i, outer.next()) {
    double sum = algebra.zero;
    for (int64_t k = terms; k > 0; --k, inner.next())  // comes back to its start
      sum = algebra.sum(
          sum, algebra.product(a[size_t(outer.a + inner.a)], b[size_t(outer.b + inner.b)]));
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace gradus
