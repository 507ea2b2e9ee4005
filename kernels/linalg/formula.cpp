// Formulas, matrix by matrix.
#include "kernels/linalg/formula.hpp"
#include "kernels/linalg/batch.hpp"

namespace gradus::inline v1::linalg {

namespace {

// Where matrix `index` of a batch begins in v: elements from v's data on.
int64_t start_in_batch(const gd_view& v, int batch_axes, int64_t index) {
  int64_t at = v.offset;
  for (int d = batch_axes - 1; d >= 0; --d) {
    at += index % v.sizes[d] * v.strides[d];
    index /= v.sizes[d];
  }
  return at;
}

template <class T>
void read(const calls::FormulaCall& call, int k, int64_t index, Small<T> to) {
  const gd_view& v = call.in[k];
  const int64_t at = start_in_batch(v, call.batch_axes, index), by = v.strides[v.rank - 1],
                down = call.is_vector(k) ? 0 : v.strides[v.rank - 2];
  const auto copy = [&](const auto* from) {
    for (int i = 0; i < to.rows; ++i)
      for (int j = 0; j < to.cols; ++j) to(i, j) = T(from[at + i * down + j * by]);
  };
  if (v.dtype == GD_I64)
    copy(static_cast<const int64_t*>(v.data));
  else
    copy(static_cast<const T*>(v.data));
}

template <class T>
void run_as(const calls::FormulaCall& call, int64_t begin, int64_t end, Scratch& scratch) {
  Formula<T, T> formula(call, scratch.take<T>(call.room));
  const gd_view& out = call.out;
  const int64_t down = out.strides[out.rank - 2], by = out.strides[out.rank - 1];
  for (int64_t index = begin; index < end; ++index) {
    for (int k = 0; k < call.n_in; ++k) read(call, k, index, formula.value(k));
    formula.run();
    T* const to = static_cast<T*>(out.data) + start_in_batch(out, call.batch_axes, index);
    const Small<T> from = formula.result();
    for (int i = 0; i < from.rows; ++i)
      for (int j = 0; j < from.cols; ++j) to[i * down + j * by] = from(i, j);
  }
}

}  // namespace

int64_t count_of_matrices(const calls::FormulaCall& call) {
  int64_t n = 1;
  for (int d = 0; d < call.batch_axes; ++d) n *= call.out.sizes[d];
  return n;
}

void run(const calls::FormulaCall& call, int64_t begin, int64_t end, Scratch& scratch) {
  scratch.reset();
  if (call.out.dtype == GD_F64)
    run_as<double>(call, begin, end, scratch);
  else
    run_as<float>(call, begin, end, scratch);
}

}  // namespace gradus::linalg
