// Order. One primitive, argsort, says where elements go; all values are then gathered, so that
// their derivatives are those of gather.
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/creation.hpp"
#include "ops/index/indexing.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/index/sorting.hpp"
#include "ops/shape/views.hpp"

namespace gradus::inline v1 {

namespace {

const OpInfo* argsort_info;

bool flag(const AttrValue& a) { return a.integer != 0; }
AttrSpec last_dim_attr() { return int_attr("dim", -1, "axis"); }
AttrSpec any_dim_attr() {
  return {"dim", AttrValue::Type::integer, {}, "axis; of all elements when left out", true};
}

// A 0-d tensor is sorted as one of one element.
Tensor with_axis(const Tensor& x) { return x.rank() == 0 ? reshape(x, {1}) : x; }
int64_t axis_of(const char* op, const Tensor& x, int64_t dim) {
  return normal_axis(op, dim, std::max<int64_t>(1, x.rank()));
}
int64_t length_of(const Tensor& x, int64_t dim) { return x.rank() == 0 ? 1 : x.size(dim); }

// {values, indices} for one place of each line; `place` has size 1 on the axis.
Tensors picked(const Tensor& x, int64_t dim, const Tensor& place, bool keepdim) {
  const Tensor values = gather(with_axis(x), dim, place);
  if (keepdim && x.rank() > 0) return {values, place};
  return {squeeze(values, {dim}), squeeze(place, {dim})};
}

OpInfo argsort_op() {
  OpInfo o =
      new_op("argsort", "sorting",
             "where the elements of a line stand when it is sorted; stable, NaN is the largest",
             "x[y[0]] <= x[y[1]] <= ...", {{"x"}},
             {last_dim_attr(), bool_attr("descending", false, "largest first"),
              bool_attr("stable", false, "it always is")});
  o.differentiable = false;
  o.forward = [](OpContext& ctx) {
    const Tensor& x = ctx.inputs[0];
    if (is_complex(x.dtype())) refuse_unordered("argsort", x.dtype());
    Tensor y = Tensor::empty(x.sizes(), DType::i64, x.device());
    if (y.numel() > 0)
      KernelCall(GD_SORT)
          .in(x)
          .integer(ctx.attrs[0].integer)
          .integer(ctx.attrs[1].integer)
          .out_none()
          .out(y)
          .run();
    ctx.outputs.push_back(y);
  };
  o.call = [](Operands in, const Attrs& a) { return argsort(in[0], a[0].integer, flag(a[1])); };
  return o;
}

void add_sorting(const char* name, const char* doc, const char* formula,
                 std::vector<AttrSpec> attrs, OpCall call,
                 std::vector<OperandSpec> operands = {{"x"}}, bool differentiable = true) {
  add_composition(name, "sorting", doc, formula, std::move(operands), std::move(attrs),
                  std::move(call))
      .differentiable = differentiable;
}

// max, min and median: of all elements without dim, else {values, indices}.
template <Tensor (*of_all)(const Tensor&), Tensors (*along)(const Tensor&, int64_t, bool)>
Outputs either(Operands in, const Attrs& a) {
  if (a[0].is_none()) return of_all(in[0]);
  return along(in[0], a[0].integer, flag(a[1]));
}

// Runs of equal neighbours in a line: {values, the run of each element, lengths of the runs}.
Tensors runs(const Tensor& line) {
  const int64_t n = line.numel();
  if (n == 0) return {line, zeros({0}, DType::i64, line.device()), zeros({0}, DType::i64)};
  Device& d = line.device();
  const Tensor starts =
      cat({ones({1}, DType::bool_, d), ne(slice(line, 0, 1), slice(line, 0, 0, n - 1))});
  const Tensor run = sub(cumsum(cast(starts, DType::i64), 0), 1);
  const Tensor values = masked_select(line, starts);
  const Tensor counts =
      scatter_add(zeros({values.numel()}, DType::i64, d), 0, run, ones({n}, DType::i64, d));
  return {values, run, counts};
}

void register_ordered() {
  argsort_info = &add_op(argsort_op());
  const std::vector<AttrSpec> order = {last_dim_attr(),
                                       bool_attr("descending", false, "largest first"),
                                       bool_attr("stable", false, "it always is")};
  add_sorting("sort", "lines sorted: values, and where they stood", "y[0] <= y[1] <= ...", order,
              [](Operands in, const Attrs& a) { return sort(in[0], a[0].integer, flag(a[1])); });
  add_sorting("msort", "sorted along the first axis", "y = sort(x, 0)", {},
              [](Operands in, const Attrs&) { return sort(in[0], 0)[0]; });
  add_sorting(
      "topk", "the k largest (or smallest) of each line, in order: values, indices",
      "y = sort(x)[:k]",
      {int_attr("k", "how many"), last_dim_attr(), bool_attr("largest", true, "else smallest"),
       bool_attr("sorted", true, "they always are")},
      [](Operands in, const Attrs& a) {
        return topk(in[0], a[0].integer, a[1].integer, flag(a[2]));
      });
  add_sorting("kthvalue", "the k-th smallest of each line: values, indices", "y = sort(x)[k - 1]",
              {int_attr("k", "from 1"), last_dim_attr(), keepdim_attr()},
              [](Operands in, const Attrs& a) {
                return kthvalue(in[0], a[0].integer, a[1].integer, flag(a[2]));
              });
  add_sorting("median", "the middle one, the lower of two; NaN wins", "y = sort(x)[(n - 1) / 2]",
              {any_dim_attr(), keepdim_attr()}, either<median, median>);
  add_sorting("max", "the largest; with dim: values, indices", "y = max_i x_i",
              {any_dim_attr(), keepdim_attr()}, either<max, max>);
  add_sorting("min", "the smallest; with dim: values, indices", "y = min_i x_i",
              {any_dim_attr(), keepdim_attr()}, either<min, min>);
  add_sorting("aminmax", "the smallest and the largest", "y = (min_i x_i, max_i x_i)",
              {any_dim_attr(), keepdim_attr()}, [](Operands in, const Attrs& a) {
                const Tensor& x = in[0];
                Ints dims;
                if (!a[0].is_none()) dims.push_back(a[0].integer);
                return Tensors{amin(x, dims, flag(a[1])), amax(x, dims, flag(a[1]))};
              });
}

void register_counted() {
  add_sorting(
      "unique", "the different values in order; where each element went; how many went there",
      "x = y[inverse]", {}, [](Operands in, const Attrs&) { return unique(in[0]); }, {{"x"}},
      false);
  add_sorting(
      "unique_consecutive", "runs of equal neighbours: values, the run of each element, lengths",
      "x = y[inverse]", {}, [](Operands in, const Attrs&) { return unique_consecutive(in[0]); },
      {{"x"}}, false);
  const AttrSpec right = bool_attr("right", false, "after equal ones, else before");
  add_sorting(
      "searchsorted", "where values fit into a sorted sequence", "s[y - 1] < v <= s[y]", {right},
      [](Operands in, const Attrs& a) { return searchsorted(in[0], in[1], flag(a[0])); },
      {{"sorted_sequence"}, {"values"}}, false);
  add_sorting(
      "bucketize", "between which boundaries each element falls", "b[y - 1] < x <= b[y]", {right},
      [](Operands in, const Attrs& a) { return bucketize(in[0], in[1], flag(a[0])); },
      {{"x"}, {"boundaries"}}, false);
  add_sorting(
      "bincount", "how often each number from 0 occurs, or the sum of its weights",
      "y[v] = sum_i [x_i = v] w_i", {int_attr("minlength", 0, "at least so many numbers")},
      [](Operands in, const Attrs& a) { return bincount(in[0], operand(in, 1), a[0].integer); },
      {{"x"}, {"weights", false, true}});
}

}  // namespace

void register_sorting() {
  register_ordered();
  register_counted();
}

Tensor argsort(const Tensor& x, int64_t dim, bool descending) {
  const Tensor order =
      apply1(*argsort_info, {with_axis(x)}, {axis_of("argsort", x, dim), descending, false});
  return reshape(order, x.sizes());
}

Tensors sort(const Tensor& x, int64_t dim, bool descending) {
  const Tensor order = argsort(x, dim, descending);
  const Tensor values = gather(with_axis(x), axis_of("sort", x, dim), with_axis(order));
  return {reshape(values, x.sizes()), order};
}

Tensors topk(const Tensor& x, int64_t k, int64_t dim, bool largest) {
  const int64_t d = axis_of("topk", x, dim), n = length_of(x, d);
  if (k < 0 || k > n) fail(ErrorKind::value, "topk", "k is ", k, ", axis ", d, " has ", n);
  const Tensor order = clone(slice(with_axis(argsort(x, d, largest)), d, 0, k));
  const Tensor values = gather(with_axis(x), d, order);
  if (x.rank() == 0 && k == 1) return {reshape(values, {}), reshape(order, {})};
  return {values, order};
}

Tensors kthvalue(const Tensor& x, int64_t k, int64_t dim, bool keepdim) {
  const int64_t d = axis_of("kthvalue", x, dim), n = length_of(x, d);
  if (k < 1 || k > n)
    fail(ErrorKind::value, "kthvalue", "k is ", k, ", axis ", d, " has ", n,
         "; expected 1 or more");
  return picked(x, d, clone(slice(with_axis(argsort(x, d)), d, k - 1, k)), keepdim);
}

Tensors median(const Tensor& x, int64_t dim, bool keepdim) {
  const int64_t d = axis_of("median", x, dim), n = length_of(x, d);
  if (n == 0) fail(ErrorKind::shape, "median", "axis ", d, " of ", x.sizes(), " is empty");
  const Tensor order = with_axis(argsort(x, d));
  // NaNs stand at the end; the first of them wins over any number.
  const Tensor nans = sum(cast(ne(with_axis(x), with_axis(x)), DType::i64), {d}, true);
  const Tensor middle = where(gt(nans, 0), sub(n, nans), (n - 1) / 2);
  return picked(x, d, gather(order, d, middle), keepdim);
}
Tensor median(const Tensor& x) { return median(reshape(x, {x.numel()}), 0)[0]; }

Tensor max(const Tensor& x) { return amax(x); }
Tensor min(const Tensor& x) { return amin(x); }
Tensors max(const Tensor& x, int64_t dim, bool keepdim) {
  const int64_t d = axis_of("max", x, dim);
  return picked(x, d, argmax(with_axis(x), d, true), keepdim);
}
Tensors min(const Tensor& x, int64_t dim, bool keepdim) {
  const int64_t d = axis_of("min", x, dim);
  return picked(x, d, argmin(with_axis(x), d, true), keepdim);
}

Tensors unique(const Tensor& x) {
  const Tensor flat = reshape(x.detach(), {x.numel()}), order = argsort(flat, 0);
  const Tensors found = runs(gather(flat, 0, order));
  const Tensor inverse = scatter_add(zeros_like(order), 0, order, found[1]);
  return {found[0], reshape(inverse, x.sizes()), found[2]};
}
Tensors unique_consecutive(const Tensor& x) {
  const Tensors found = runs(reshape(x.detach(), {x.numel()}));
  return {found[0], reshape(found[1], x.sizes()), found[2]};
}

// Binary search, all values at once: each step decides one bit of all places.
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values, bool right) {
  const Tensor& s = sorted_sequence;
  const char* op = "searchsorted";
  if (s.rank() == 0) fail(ErrorKind::shape, op, "the sequence is 0-d, expected at least one axis");
  if (s.rank() == 1 && values.rank() != 1)
    return reshape(searchsorted(s, reshape(values, {values.numel()}), right), values.sizes());
  Shape leads = s.sizes(), others = values.sizes();
  leads.back() = others.empty() ? 0 : others.back();
  if (!(leads == others))
    fail(ErrorKind::shape, op, "the sequence has shape ", s.sizes(), ", the values ",
         values.sizes(), "; they may differ on the last axis only");
  const int64_t n = s.sizes().back();
  Tensor place = zeros(values.sizes(), DType::i64, values.device());
  if (n == 0) return place;
  int64_t step = 1;
  while (2 * step <= n) step *= 2;
  for (; step > 0; step /= 2) {
    const Tensor next = add(place, step);
    const Tensor before = gather(s, -1, sub(minimum(next, n), 1));
    // Written so that NaN goes to the end.
    const Tensor goes_on = eq(right ? gt(before, values) : ge(before, values), false);
    place = where(goes_on, where(le(next, n), next, place), place);
  }
  return place;
}
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right) {
  if (boundaries.rank() != 1)
    fail(ErrorKind::shape, "bucketize", "the boundaries have shape ", boundaries.sizes(),
         ", expected one axis");
  return searchsorted(boundaries, x, right);
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength) {
  if (minlength < 0)
    fail(ErrorKind::value, "bincount", "minlength is ", minlength, ", expected 0 or more");
  if (x.rank() != 1 || !is_integer(x.dtype()))
    fail(ErrorKind::shape, "bincount", "expected integers along one axis, got ", x.dtype(), " ",
         x.sizes());
  if (weights.defined() && !(weights.sizes() == x.sizes()))
    fail(ErrorKind::shape, "bincount", "x has shape ", x.sizes(), ", the weights ",
         weights.sizes());
  const Tensor places = cast(x, DType::i64);
  const int64_t most = x.numel() > 0 ? amax(places).item_integer() + 1 : 0;
  const Tensor each = weights.defined() ? weights : ones_like(places);
  return scatter_add(zeros({std::max(most, minlength)}, each.dtype(), x.device()), 0, places, each);
}

}  // namespace gradus
