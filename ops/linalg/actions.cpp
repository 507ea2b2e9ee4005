// By products with a matrix alone: eigenvalues at the ends of a spectrum by Lanczos steps, and
// exp(A) B. Lanczos: all vectors are kept orthogonal, and a thick restart (Wu & Simon, SIAM J.
// Matrix Anal. Appl. 22 (2000)) bounds their number. exp(A) B: Taylor polynomials in steps, Al-Mohy
// & Higham, SIAM J. Sci. Comput. 33 (2011), table 3.1, of the degrees that cancel little.
#include "engine/batch.hpp"
#include "ops/index/indexing.hpp"
#include "ops/linalg/matrices.hpp"
#include "ops/reduce/norms.hpp"

#include <cmath>
#include <numeric>
#include <random>

namespace gradus::inline v1 {

namespace linalg {
namespace {

const OpInfo* eigsh_info;

// ---- Lanczos

enum class End { largest, smallest, magnitude };
End end_of(std::string_view which) {
  if (which == "LA") return End::largest;
  if (which == "SA") return End::smallest;
  if (which == "LM") return End::magnitude;
  fail(ErrorKind::value, "eigsh", "which is \"", which, "\"; write LA, SA or LM");
}
// Positions of ascending values, those asked for first.
std::vector<int64_t> by_rank(const std::vector<double>& w, End end) {
  std::vector<int64_t> order(w.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const double x = w[size_t(i)], y = w[size_t(j)];
    return end == End::largest ? x > y : end == End::smallest ? x < y : std::abs(x) > std::abs(y);
  });
  return order;
}

class Lanczos {
 public:
  // map: of vectors (n) like `start`.
  Lanczos(const LinearMap& map, const Tensor& start, int64_t k, End end, double tol)
      : map_(map),
        next_(start),
        n_(start.numel()),
        k_(k),
        end_(end),
        most_(std::max(2 * k + 20, 4 * k)) {
    floor_ = std::max(tol, 16 * epsilon(start.dtype()));
  }

  // {w (k) ascending, V (n, k)}
  Tensors run() {
    normalise();
    constexpr int64_t kProducts = 20000;
    for (int64_t i = 0; i < kProducts; ++i) {
      step();
      const int64_t j = size();
      if (j % 4 != 0 && j < std::min(n_, most_) && beta_ > 0) continue;
      solve_small();
      if (j == n_ || (converged(k_, floor_) && confirmed())) return result();
      if (size() >= most_) restart(k_ + (j - k_) / 2);
    }
    fail(ErrorKind::numeric, "eigsh", "did not converge in ", kProducts, " products with A");
  }

 private:
  int64_t size() const { return basis_.defined() ? basis_.size(0) : 0; }

  // The next vector joins the basis; A times it, without what lies in the basis, is the one after.
  void step() {
    basis_ = basis_.defined() ? cat({basis_, unsqueeze(next_, 0)}, 0) : unsqueeze(next_, 0);
    Tensor y = map_(clone(next_));  // which it may write into
    if (is_batched(y))
      fail(ErrorKind::autograd, "eigsh",
           "the map gives a tensor of a vmap; eigsh of a matrix maps");
    if (y.sizes() != next_.sizes() || y.dtype() != next_.dtype())
      fail(ErrorKind::shape, "eigsh", "the map gives ", y.dtype(), " ", y.sizes(), " for ",
           next_.dtype(), " ", next_.sizes());
    const HostValues column = host_values(without_basis(y));
    if (size() == 2 && !compared_ &&
        !(std::abs(column[0] - beta_) <= 1e-3 * std::max(reach_, std::abs(column[0]))))
      fail(ErrorKind::value, "eigsh", "the map is not Hermitian: <a, A b> is ", shown(column[0]),
           ", <b, A a> is ", beta_);
    compared_ |= size() == 2;
    for (std::vector<std::complex<double>>& row : small_) row.push_back(0);
    small_.emplace_back(column.size());
    for (size_t i = 0; i < column.size(); ++i) {
      small_[i].back() = column[i];
      small_.back()[i] = std::conj(column[i]);
      reach_ = std::max(reach_, std::abs(column[i]));
    }
    next_ = y;
    normalise();
  }
  // y less its part in the basis, twice for the rounding errors; gives that part's numbers.
  Tensor without_basis(Tensor& y) const {
    const Tensor rows = conj(basis_), columns = transpose(basis_, 0, 1);
    const Tensor first = matmul(rows, y);
    y = sub(y, matmul(columns, first));
    const Tensor second = matmul(rows, y);
    y = sub(y, matmul(columns, second));
    return add(first, second);
  }
  // Of length 1. If nothing is left the basis holds all that A makes of it: goes on elsewhere.
  void normalise() {
    beta_ = norm(next_).item();
    if (!std::isfinite(beta_))
      fail(ErrorKind::numeric, "eigsh",
           "a product with the matrix has a NaN or an infinity, or is too long, or start is");
    if (beta_ > 4 * epsilon(next_.dtype()) * reach_)
      next_ = div(next_, number_beside(beta_, next_));
    else
      go_elsewhere();
  }
  void go_elsewhere() {
    beta_ = 0;
    if (size() == n_) return;
    HostValues x(static_cast<size_t>(n_));
    const bool complex = is_complex(next_.dtype());
    const auto number = [&] { return std::ldexp(double(random_()), -63) - 1; };
    for (auto& v : x) {
      const double re = number();
      v = {re, complex ? number() : 0};
    }
    next_ = cast(Tensor::from_host(x.data(), {n_}, DType::c128, next_.device()), next_.dtype());
    if (size() > 0) without_basis(next_);
    next_ = div(next_, number_beside(norm(next_).item(), next_));
  }

  // Eigenvalues and vectors of A within the basis, and how far each is from one of A's.
  void solve_small() {
    const size_t j = small_.size();
    HostValues packed;
    for (const auto& row : small_) packed.insert(packed.end(), row.begin(), row.end());
    const Shape square{int64_t(j), int64_t(j)};
    Tensor h = Tensor::from_host(packed.data(), square, DType::c128, open_device("cpu"));
    if (!is_complex(next_.dtype())) h = real(h);
    const Tensors f = eigh(h);
    w_ = f[0].to_vector<double>();
    s_ = f[1];
    const HostValues last = host_values(select(s_, 0, int64_t(j) - 1));
    residuals_.clear();
    for (const auto& x : last) residuals_.push_back(beta_ * std::abs(x));
    order_ = by_rank(w_, end_);
  }
  bool converged(int64_t count, double floor) const {
    const double most = std::max(std::abs(w_.front()), std::abs(w_.back()));
    for (int64_t i = 0; i < count; ++i)
      if (i >= int64_t(w_.size()) || residuals_[size_t(order_[size_t(i)])] > floor * most)
        return false;
    return true;
  }
  // Steps from one vector see one of equal eigenvalues. So they begin again outside of what was
  // found, until the best that is there is not among the k.
  bool confirmed() {
    if (found_.empty()) {
      found_ = best();
      go_elsewhere();
      restart(k_);
      return false;
    }
    if (!converged(std::min(k_ + 1, n_), floor_)) return false;
    const std::vector<double> again = best();
    double off = 0;
    for (size_t i = 0; i < again.size(); ++i) off = std::max(off, std::abs(again[i] - found_[i]));
    if (off <= 64 * floor_ * std::max(std::abs(w_.front()), std::abs(w_.back()))) return true;
    found_.clear();
    return confirmed();
  }
  std::vector<double> best() const {
    std::vector<double> w;
    for (int64_t i = 0; i < k_; ++i) w.push_back(w_[size_t(order_[size_t(i)])]);
    return w;
  }
  // The vectors of these values, in columns.
  Tensor vectors(const std::vector<int64_t>& which) const {
    const Tensor picked =
        index_select(s_, 1, Tensor::from(which, {int64_t(which.size())}, s_.device()));
    return matmul(transpose(basis_, 0, 1),
                  cast(to_device(picked, basis_.device()), basis_.dtype()));
  }
  // These vectors are the basis from now on; the next one is as it was.
  void restart(int64_t count) {
    const std::vector<int64_t> kept(order_.begin(), order_.begin() + count);
    basis_ = contiguous(transpose(vectors(kept), 0, 1));
    small_.assign(size_t(count), HostValues(size_t(count)));
    for (size_t i = 0; i < size_t(count); ++i) small_[i][i] = w_[size_t(kept[i])];
  }
  Tensors result() const {
    std::vector<int64_t> kept(order_.begin(), order_.begin() + k_);
    std::sort(kept.begin(), kept.end());
    std::vector<double> w;
    for (const int64_t i : kept) w.push_back(w_[size_t(i)]);
    const Tensor values = Tensor::from(w, {k_}, basis_.device());
    return {cast(values, real_dtype(basis_.dtype())), vectors(kept)};
  }

  const LinearMap& map_;
  Tensor basis_;                   // (j, n): orthonormal rows
  Tensor next_;                    // orthogonal to them, of length 1
  std::vector<HostValues> small_;  // conj(basis) A basis^T
  double beta_ = 0, reach_ = 0, floor_;
  int64_t n_, k_;
  End end_;
  int64_t most_;
  std::vector<double> w_, residuals_, found_;
  Tensor s_;
  std::vector<int64_t> order_;
  std::mt19937_64 random_;
  bool compared_ = false;  // <a, A b> with <b, A a>, once
};

// The largest entry of each column, the first of those equal but for rounding, made real and
// positive.
Tensor with_phases(const Tensor& v) {
  const Tensor size = abs(v);
  const Tensor great = ge(size, mul(amax(size, {0}, true), 1 - 256 * epsilon(v.dtype())));
  const Tensor first = argmax(cast(great, DType::i64), 0, true);
  const Tensor entry = gather(v, 0, first);
  return mul(v, div(conj(entry), abs(entry)));
}
void check_eigsh(int64_t n, int64_t k, const char* which, double tol) {
  end_of(which);
  if (k < 1 || k > n)
    fail(ErrorKind::value, "eigsh", "k is ", k, ", expected 1 to ", n, ", the size of the matrix");
  if (!(tol >= 0)) fail(ErrorKind::value, "eigsh", "tol is ", tol, ", expected 0 or more");
}
Tensors lanczos(const LinearMap& map, const Tensor& start, int64_t k, const char* which,
                double tol) {
  const NoGrad quiet;
  const Tensors f = Lanczos(map, start, k, end_of(which), tol).run();
  return {f[0], with_phases(f[1])};
}

// ---- eigsh. attrs: k, which, tol.

void eigsh_forward(OpContext& ctx) {
  const Tensor a = ctx.inputs[0].detach();
  need_square("eigsh", a);
  const int64_t n = a.size(-1), k = ctx.attrs[0].integer;
  check_eigsh(n, k, ctx.attrs[1].text, ctx.attrs[2].number);
  const Tensor each = reshape(a, {-1, n, n});
  Tensors w, v;
  for (int64_t i = 0; i < each.size(0); ++i) {
    const Tensor one = halved(sym(select(each, 0, i)));
    const LinearMap map = [&](const Tensor& x) { return matmul(one, x); };
    // Zero: the steps begin with a vector of their own.
    const Tensors f = lanczos(map, Tensor::zeros({n}, a.dtype(), a.device()), k, ctx.attrs[1].text,
                              ctx.attrs[2].number);
    w.push_back(f[0]);
    v.push_back(f[1]);
  }
  const auto joined = [&](const Tensors& parts, DType dtype, std::initializer_list<int64_t> last) {
    const Shape sizes = with(batch_of(a), last);
    return parts.empty() ? Tensor::empty(sizes, dtype, a.device()) : reshape(stack(parts), sizes);
  };
  ctx.outputs.push_back(joined(w, real_dtype(a.dtype()), {k}));
  ctx.outputs.push_back(joined(v, a.dtype(), {n, k}));
  ctx.save_input(0);
  ctx.save_output(0);
  ctx.save_output(1);
}
struct Pairs {
  Tensor a, w, v, vh;
};
Pairs pairs_of(GradFn& node) {
  const Tensor a = node.input(0), v = node.output(1);
  return {halved(sym(a)), node.output(0), v, adjoint(v)};
}
// A value that is left out, as good as equal to one that is not: the vectors of V are not
// determined. x and y: lengths (.., k) of what lies outside V, before and after the division by the
// gaps.
void refuse_cut(const Pairs& p, const Tensor& x, const Tensor& y, const Failure& singular) {
  const HostValues of_x = host_values(x), of_y = host_values(y), w = host_values(p.w);
  const double near = tie(p.a) * norm_1(p.a);
  const int64_t k = p.w.size(-1);
  for (size_t i = 0; i < of_y.size(); ++i) {
    const double before = std::abs(of_x[i % of_x.size()]), after = std::abs(of_y[i]);
    const bool divided = near * after > before || !std::isfinite(after);
    if (before == 0 || (!divided && int64_t(i) != singular.element)) continue;
    fail(ErrorKind::autograd, "eigsh", place_in(batch_of(p.v), int64_t(i % w.size()) / k), "value ",
         int64_t(i) % k, " (", w[i % w.size()].real(),
         ") is as good as equal to one that is left out, so its vector has no derivative; take "
         "another k, or values alone");
  }
}
// (A - w_i)^-1 of what of column i of x lies outside V: the vectors that are not known have their
// part in a derivative, too. A + c V V^H is A with the known values out of the way. A column that
// is rounding errors alone counts as 0, whatever the gap is.
Tensor beyond(const Pairs& p, const Tensor& x) {
  Tensor outside = sub(x, matmul(p.v, matmul(p.vh, x)));
  if (outside.numel() == 0) return outside;
  const auto lengths = [](const Tensor& t) { return norm(t.detach(), 2, {-2}, true); };
  const Tensor counts = gt(lengths(outside), mul(lengths(x), tie(p.a)));  // (.., 1, k)
  outside = where(counts, outside, zeros_like(outside));
  const Tensor size = amax(sum(abs(p.a.detach()), {-2}), {-1});
  const Tensor away = where(gt(size, 0), mul(size, 3), ones_like(size));
  const Tensor shifted = add(p.a, mul(matmul(p.v, p.vh), unsqueeze(unsqueeze(away, -1), -1)));
  const Tensor values = unsqueeze(unsqueeze(p.w, -1), -1);  // (.., k, 1, 1)
  const Tensor one = identity_like(p.a);
  const Tensor systems = where(unsqueeze(transpose(counts, -2, -1), -1),
                               sub(unsqueeze(shifted, -3), mul(values, one)), one);
  const Tensor columns = unsqueeze(transpose(outside, -2, -1), -1);  // (.., k, n, 1)
  const Tensors f = solve_ex(systems, columns);
  const Tensor y = transpose(squeeze(f[0], {-1}), -2, -1);
  refuse_cut(p, lengths(outside), lengths(y), first_failure(all_examples(f[1])));
  return y;
}
Tensor eigsh_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  const Pairs p = pairs_of(node);
  if (!g[1].defined()) return matmul(by_columns(p.v, g[0]), p.vh);
  const Tensor turn = matmul(p.vh, g[1]);
  const Lazy scale = [&] { return g[1]; };
  refuse_phase("eigsh", turn, scale);
  refuse_ties(
      "eigsh", p.w, [&] { return turn; }, scale);
  Tensor inner = mul(turn, reciprocal_gaps(p.w, Degenerate::exact));
  if (g[0].defined()) inner = add(inner, diag_embed(g[0]));
  return halved(sym(matmul(sub(matmul(p.v, inner), beyond(p, g[1])), p.vh)));
}
Tensor eigsh_jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  const Pairs p = pairs_of(node);
  const Tensor moved = matmul(halved(sym(t[0])), p.v), turn = matmul(p.vh, moved);
  if (out == 0) return real(diagonal_of(turn));
  refuse_ties(
      "eigsh", p.w, [&] { return turn; }, [&] { return t[0]; });
  const Tensor inside = mul(turn, reciprocal_gaps(p.w, Degenerate::exact));
  return sub(matmul(p.v, inside), beyond(p, moved));
}

// ---- exp(A) B

struct Taylor {
  int degree;
  double reach;  // of the norm of A: 2^-53
};
constexpr Taylor kTaylor[] = {{5, 2.4e-3}, {10, 1.44e-1}, {15, 6.41e-1},
                              {20, 1.44},  {25, 2.43},    {30, 3.54}};
constexpr double kLongest = 1180;  // 10000 products

}  // namespace

void register_actions() {
  OpInfo o = new_op("eigsh", "linalg",
                    "some eigenvalues, ascending, and eigenvectors of a Hermitian matrix, by "
                    "Lanczos steps",
                    "A V = V diag(w), of (A + A^H) / 2", {{"A"}},
                    {int_attr("k", 6, "how many"),
                     text_attr("which", "LM", "LA largest, SA smallest, LM of largest magnitude"),
                     number_attr("tol", 0, "residual beside the largest value; 0: rounding")});
  o.forward = eigsh_forward;
  o.vjp = eigsh_vjp;
  o.jvp = eigsh_jvp;
  o.call = [](Operands in, const Attrs& a) {
    return eigsh(in[0], a[0].integer, a[1].text, a[2].number);
  };
  eigsh_info = &add_op(std::move(o));
  add_composition("expm_multiply", "linalg", "exp(A) B by products of A with B alone",
                  "y = exp(A) B", {{"A"}, {"B"}}, {},
                  [](Operands in, const Attrs&) { return expm_multiply(in[0], in[1]); });
}

}  // namespace linalg

using namespace linalg;

Tensors eigsh(const Tensor& A, int64_t k, const char* which, double tol) {
  return all_of(*eigsh_info, {A}, {k, which, tol});
}
Tensors eigsh(const LinearMap& A, const Tensor& start, int64_t k, const char* which, double tol) {
  need_matrices("eigsh", reshape(start.detach(), {1, -1}), "start");
  check_eigsh(start.numel(), k, which, tol);
  const Shape shape = start.sizes();
  const bool recording = grad_enabled();
  const LinearMap flat = [&](const Tensor& x) {
    Tensor y;
    if (recording) {  // as the caller's own code
      const EnableGrad on;
      y = A(reshape(x, shape));
    } else {
      y = A(reshape(x, shape));
    }
    if (y.sizes() != shape)
      fail(ErrorKind::shape, "eigsh", "the map gives shape ", y.sizes(), " for ", shape);
    if (y.requires_grad() || y.tangent().defined())
      fail(ErrorKind::autograd, "eigsh",
           "of a map has no derivative, and this one depends on a tensor that requires a gradient; "
           "detach that, or differentiate the sum of conj(v) map(v)");
    return reshape(y.detach(), {-1});
  };
  Tensors f = lanczos(flat, reshape(start.detach(), {-1}), k, which, tol);
  f[1] = reshape(f[1], with(shape, {k}));
  return f;
}

Tensor expm_multiply(const Tensor& A, const Tensor& B) {
  need_square("expm_multiply", A);
  need_dtype("expm_multiply", B.dtype(), A.dtype());
  if (B.rank() > 0 && is_vector(A, B)) return squeeze(expm_multiply(A, unsqueeze(B, -1)), {-1});
  if (B.rank() < 2 || B.size(-2) != A.size(-1))
    fail(ErrorKind::shape, "expm_multiply", "A has shape ", A.sizes(), ", B ", B.sizes(),
         "; B should have ", A.size(-1), " rows");
  if (A.numel() == 0) return matmul(A, B);
  // exp(A) = exp(m) exp(A - m) with the mean m of the diagonal.
  const Tensor mean_of = unsqueeze(unsqueeze(mean(diagonal_of(A), {-1}), -1), -1);
  const Tensor a = sub(A, mul(identity_like(A), mean_of));
  const double size = norm_1(a);
  if (std::isfinite(size) && size > kLongest)
    fail(ErrorKind::value, "expm_multiply", "the norm of A without its mean is ", size,
         ", which takes more than 10000 products; use matrix_exp");
  Taylor best{};
  double steps = 0;
  for (const Taylor& t : kTaylor) {
    const double s = std::isfinite(size) ? std::max(1.0, std::ceil(size / t.reach)) : 1;
    if (best.degree == 0 || s * t.degree < steps * best.degree) best = t, steps = s;
  }
  const Tensor factor = exp(div(mean_of, steps));
  Tensor y = B;
  for (double i = 0; i < steps; ++i) {
    Tensor term = y;
    for (int j = 1; j <= best.degree; ++j) {
      const Tensor next = matmul(a, term);
      term = mul(next, number_beside(1 / (steps * j), next));
      y = add(y, term);
    }
    y = mul(y, factor);
  }
  return y;
}

}  // namespace gradus
