#include "ops/linalg/matrices.hpp"

#include "engine/batch.hpp"

#include "ops/def/statement.hpp"
#include "ops/index/indexing.hpp"
#include "ops/index/sorting.hpp"
#include "ops/linalg/formula.hpp"

#include <cmath>
#include <complex>
#include <limits>

namespace gradus::inline v1::linalg {

namespace {

double size_of(std::complex<double> z) {  // of a real one without a root
  return z.imag() == 0 ? std::fabs(z.real()) : std::abs(z);
}
double largest(const HostValues& values, size_t from, size_t count) {
  double most = 0;
  for (size_t i = 0; i < count; ++i) most = std::max(most, size_of(values[from + i]));
  return most;
}
// Values in lines of n. Of two that belong together one may have fewer lines, where a vmap maps the
// other alone: it is repeated.
struct Lines {
  Lines(const Tensor& x, int64_t length) : values(host_values(x)), n(size_t(length)) {}
  size_t count() const { return values.size() / n; }
  const std::complex<double>* operator[](size_t line) const { return &values[line % count() * n]; }
  double largest_of(size_t line) const { return largest(values, line % count() * n, n); }
  HostValues values;
  size_t n;
};
Shape without_last(Shape s) {
  s.pop_back();
  return s;
}
// What of a cotangent or tangent is its rounding errors. In second order all of it can be: what
// cancelled there was of the size of numbers near 1, hence the floor.
double negligible_beside(const Tensor& scale, int64_t n) {
  const HostValues x = host_values(scale);
  return epsilon(scale.dtype()) * double(n) * std::max(16.0, 1e3 * largest(x, 0, x.size()));
}

}  // namespace

HostValues host_values(const Tensor& x) {
  const NoGrad quiet;
  const bool of_parts = is_complex(x.dtype());
  const Tensor all = cast(all_examples(x.detach()), of_parts ? DType::c128 : DType::f64);
  HostValues out(size_t(all.numel()));
  if (of_parts) {
    all.copy_to_host(out.data());
  } else {
    const std::vector<double> numbers = all.to_vector<double>();
    std::copy(numbers.begin(), numbers.end(), out.begin());
  }
  return out;
}

double epsilon(DType t) {
  const bool wide = t == DType::f64 || t == DType::c128;
  return wide ? std::numeric_limits<double>::epsilon()
              : double(std::numeric_limits<float>::epsilon());
}
double tie(const Tensor& values) {
  return 16 * double(std::max<int64_t>(8, values.size(-1))) * epsilon(values.dtype());
}
std::string shown(std::complex<double> z) {
  return z.imag() == 0 ? join(z.real()) : join(z.real(), z.imag() < 0 ? "" : "+", z.imag(), "i");
}
bool has_zero(const Tensor& x) {
  const NoGrad quiet;
  const Tensor all = all_examples(x.detach());
  return sum(eq(all, 0)).item_integer() > 0;
}

Tensors all_of(const OpInfo& op, std::initializer_list<Tensor> in, const Attrs& attrs) {
  Outputs out = apply(op, std::span(in.begin(), in.size()), attrs);
  return Tensors(out.begin(), out.end());
}
const OpInfo& add_ex(const OpInfo& op, OpCall call) {
  OpInfo ex = op;
  ex.name += "_ex";
  ex.doc = op.name + ", and info instead of a refusal: 0, or the pivot that fails, from 1";
  ex.call = std::move(call);
  return add_op(std::move(ex));
}

void need_matrices(const char* op, const Tensor& a, const char* name) {
  const DType t = a.dtype();
  if (t != DType::f32 && t != DType::f64 && !is_complex(t))
    fail(ErrorKind::dtype, op, name, " has dtype ", t,
         ", expected f32, f64, c64 or c128; convert it with cast");
  if (a.rank() < 2)
    fail(ErrorKind::shape, op, name, " has shape ", a.sizes(), ", expected (..., m, n)");
}
void need_square(const char* op, const Tensor& a, const char* name) {
  need_matrices(op, a, name);
  if (a.size(-1) != a.size(-2))
    fail(ErrorKind::shape, op, name, " has shape ", a.sizes(),
         ", expected square matrices (..., n, n)");
}
void need_dtype(const char* op, DType got, DType wanted) {
  if (got != wanted)
    fail(ErrorKind::dtype, op, "A has dtype ", wanted, ", B ", got, "; convert one with cast");
}
Shape batch_of(const Tensor& a) {
  Shape s = a.sizes();
  s.pop_back();
  s.pop_back();
  return s;
}
Shape with(Shape batch, std::initializer_list<int64_t> last) {
  for (const int64_t n : last) batch.push_back(n);
  return batch;
}
DType complex_dtype(DType t) {
  return t == DType::f32 ? DType::c64 : t == DType::f64 ? DType::c128 : t;
}

std::string place_in(const Shape& batch, int64_t at) {
  if (batch.empty()) return "";
  Shape index = batch;
  for (size_t i = batch.size(); i-- > 0; at /= batch[i]) index[i] = at % batch[i];
  return join("batch ", index, ": ");
}
Tensor all_examples(const Tensor& x) {
  return is_batched(x) ? all_examples(x.body()->batch->physical) : x;
}
Failure first_failure(const Tensor& info) {
  std::vector<int64_t> found(size_t(info.numel()));
  info.copy_to_host(found.data());
  Failure first;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] > 0) return {int64_t(i), found[i]};
    if (found[i] < 0 && first.element < 0) first = {int64_t(i), found[i]};
  }
  return first;
}

Tensor lower_half(const Tensor& x) {
  const size_t n = size_t(x.size(-1));
  std::vector<double> weights(n * n);
  for (size_t i = 0; i < n; ++i) {
    std::fill_n(&weights[i * n], i, 1.0);
    weights[i * n + i] = 0.5;
  }
  const Shape sizes{x.size(-1), x.size(-1)};
  return mul(x, cast(Tensor::constant(weights, sizes, x.device()), real_dtype(x.dtype())));
}
Tensor identity_like(const Tensor& x) { return eye(x.size(-1), x.size(-1), x.dtype(), x.device()); }
Tensor imaginary_part(const Tensor& x) {
  if (!is_complex(x.dtype())) return zeros_like(x);
  return sub(x, real(x));
}
bool is_vector(const Tensor& a, const Tensor& b) {
  if (b.rank() == 1) return true;
  Shape s = a.sizes();
  s.pop_back();
  return b.rank() == a.rank() - 1 && b.sizes() == s;
}
double norm_1(const Tensor& a) {
  const NoGrad quiet;
  if (a.numel() == 0) return 0;
  return amax(all_examples(sum(abs(a.detach()), {-2}))).item();
}
Tensor or_zeros(const Tensor& x, const TensorMeta& like) {
  return x.defined() ? x : Tensor::zeros(like.sizes, like.dtype, *like.device);
}

Tensor over(const Tensor& X, const Tensor& R) {
  return transpose(by_triangle(R, transpose(X, -2, -1), true, false, Form::transposed), -2, -1);
}
Tensor over_adjoint(const Tensor& X, const Tensor& R) {
  return adjoint(by_triangle(R, adjoint(X), true, false, Form::plain));
}
Tensor permuted(const Tensor& A, const Tensor& rows) {
  return gather(A, -2, expand(unsqueeze(rows, -1), A.sizes()));
}
Tensor unpermuted(const Tensor& A, const Tensor& rows) { return permuted(A, argsort(rows, -1)); }

void refuse_rank(const char* op, const Tensor& R) {
  if (R.numel() == 0) return;
  const NoGrad quiet;
  const Tensor diagonals = diagonal_of(R.detach());
  // Of many, a kernel finds out that all is well: what is negligible has no reciprocal.
  constexpr int64_t kMany = 1000;
  if (diagonals.numel() > kMany) {
    const Tensor lines = unsqueeze(diagonals, -2);
    if (Steps::take({&lines}) &&
        !has_zero(evaluate([](const auto& x) { return reciprocals(x); }, lines)))
      return;
  }
  const Lines d(diagonals, std::min(R.size(-2), R.size(-1)));
  for (size_t line = 0; line < d.count(); ++line) {
    const double least = tie(R) * d.largest_of(line);
    for (size_t i = 0; i < d.n; ++i)
      if (size_of(d[line][i]) <= least)
        fail(ErrorKind::numeric, op, place_in(batch_of(R), int64_t(line)),
             "the matrix has not full rank (R[", i, ", ", i, "] is ", size_of(d[line][i]),
             "), its factors have no derivative; use svd or pinv");
  }
}

void refuse_phase(const char* op, const Tensor& turn, const Lazy& scale) {
  if (!is_complex(turn.dtype()) || turn.numel() == 0) return;
  const int64_t n = turn.size(-1);
  const HostValues turns = host_values(diagonal_of(turn));
  const double tolerance = negligible_beside(scale(), n);
  for (size_t i = 0; i < turns.size(); ++i)
    if (std::abs(turns[i].imag()) > tolerance)
      fail(ErrorKind::autograd, op, place_in(batch_of(turn), int64_t(i) / n),
           "the loss depends on the phase of vector ", int64_t(i) % n, " (by ", turns[i].imag(),
           " per radian), which no matrix determines; use what does not change with it, such as "
           "abs(v) or v v^H");
}

// Most have no tie and no zero, and need no look at what else there is. Real numbers, lines of n:
// does near(line, what counts as 0 there) hold for none of them? Of complex ones it is not known.
template <class F>
static bool is_well(const Tensor& values, int64_t n, F&& near) {
  if (is_complex(values.dtype())) return false;
  const NoGrad quiet;
  const std::vector<double> x = cast(all_examples(values.detach()), DType::f64).to_vector<double>();
  const double close = tie(values);
  for (const double* line = x.data(); line != x.data() + x.size(); line += n) {
    double most = 0;
    for (int64_t i = 0; i < n; ++i) most = std::max(most, std::fabs(line[i]));
    if (near(line, close * most)) return false;
  }
  return true;
}

void refuse_ties(const char* op, const Tensor& values, const Lazy& pairs, const Lazy& scale) {
  const int64_t n = values.size(-1);
  if (values.numel() == 0) return;
  const auto has_tie = [n](const double* x, double reach) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j)
        if (std::fabs(x[i] - x[j]) <= reach) return true;
    return false;
  };
  if (is_well(values, n, has_tie)) return;
  const Lines v(values, n);
  struct Pair {
    size_t line;
    int64_t i, j;
  };
  std::vector<Pair> near;
  for (size_t line = 0; line < v.count(); ++line) {
    const std::complex<double>* const x = v[line];
    const double reach = tie(values) * v.largest_of(line);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j)
        if (size_of(x[i] - x[j]) <= reach) near.push_back({line, i, j});
  }
  if (near.empty()) return;
  const Tensor counted = pairs();
  if (counted.numel() == 0) return;
  const Lines p(counted, n * n);
  const double least = negligible_beside(scale(), n);
  const size_t lines = std::max(v.count(), p.count());
  for (const auto [line, i, j] : near)
    for (size_t b = line; b < lines; b += v.count()) {
      const double counts = std::max(size_of(p[b][i * n + j]), size_of(p[b][j * n + i]));
      if (counts <= least) continue;
      const auto x = v[b][i], y = v[b][j];
      fail(ErrorKind::autograd, op, place_in(without_last(values.sizes()), int64_t(b)), "values ",
           i, " and ", j, " (", shown(x), " and ", shown(y), ") differ by ", std::abs(x - y),
           ", too little for the derivative of their vectors; use values alone",
           get_op(op).attr_index("degenerate") < 0 ? ""
                                                   : ", or degenerate=safe, which is approximate");
    }
}

void refuse_zeros(const char* op, const Tensor& values, const Lazy& counts, const Lazy& scale) {
  const int64_t n = values.size(-1);
  if (values.numel() == 0) return;
  const auto any_zero = [n](const double* x, double reach) {
    return std::any_of(x, x + n, [&](double size) { return std::fabs(size) <= reach; });
  };
  if (is_well(values, n, any_zero)) return;
  const Lines v(values, n);
  const double close = tie(values);
  const auto zero = [&](size_t line, int64_t i) {
    return size_of(v[line][i]) <= close * v.largest_of(line);
  };
  const Tensor counted = counts();
  if (counted.numel() == 0) return;
  const Lines c(counted, n);
  const double least = negligible_beside(scale(), n);
  for (size_t b = 0; b < std::max(v.count(), c.count()); ++b)
    for (int64_t i = 0; i < n; ++i)
      if (zero(b, i) && size_of(c[b][i]) > least)
        fail(ErrorKind::autograd, op, place_in(without_last(values.sizes()), int64_t(b)),
             "singular value ", i, " is 0 (", std::abs(v[b][i]),
             "), and the derivative of its vectors divides by it; use fewer vectors "
             "(truncated_svd) or the values alone");
}

Tensor negligible(const Tensor& x, const Tensor& values) {
  if (x.numel() == 0) return ne(x, x);
  Tensor reach = mul(amax(abs(values.detach()), {-1}, true), tie(values));
  if (x.rank() > values.rank()) reach = unsqueeze(reach, -1);
  return le(abs(x.detach()), reach);
}
Tensor guarded_reciprocal(const Tensor& x, const Tensor& none) {
  return where(none, number_beside(0, x), reciprocal(where(none, number_beside(1, x), x)));
}
Tensor reciprocal_sums(const Tensor& values) {
  const Tensor sums = add(unsqueeze(values, -1), unsqueeze(values, -2));
  return guarded_reciprocal(sums, negligible(sums, values));
}
Tensor reciprocals(const Tensor& values) {
  return guarded_reciprocal(values, negligible(values, values));
}

Tensor reciprocal_gaps(const Tensor& values, Degenerate mode) {
  const Tensor gap = sub(unsqueeze(values, -2), unsqueeze(values, -1));
  if (gap.numel() == 0) return gap;
  if (mode == Degenerate::exact) return guarded_reciprocal(gap, negligible(gap, values));
  // conj(gap) / (|gap|^2 + eta), eta beside the precision's square
  const Tensor most = amax(abs(gap.detach()), {-2, -1}, true);
  const Tensor eta = square(mul(most, epsilon(values.dtype())));
  return div(conj(gap), add(real(mul(gap, conj(gap))), add(eta, eq(eta, 0))));
}

Degenerate degenerate_of(const char* op, const AttrValue& a) {
  const std::string_view name = a.text;
  if (name == "exact") return Degenerate::exact;
  if (name != "safe")
    fail(ErrorKind::value, op, "degenerate is \"", name, "\"; write exact or safe");
  return Degenerate::safe;
}

}  // namespace gradus::linalg
