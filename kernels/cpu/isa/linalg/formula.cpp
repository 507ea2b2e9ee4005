// GD_FORMULA for matrices side by side.
#include "kernels/linalg/formula.hpp"
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/linalg/lanes.hpp"

namespace gradus::inline v1::cpu {

namespace {

// Entry by entry of all lanes.
template <class B, class From>
void gather_into(linalg::Small<B> to, const gd_view& v, bool vector, const int64_t* starts) {
  using T = NumberOf<B>;
  const int64_t by = v.strides[v.rank - 1], down = vector ? 0 : v.strides[v.rank - 2];
  const From* from[kLanes<B>];
  for (int lane = 0; lane < kLanes<B>; ++lane)
    from[lane] = static_cast<const From*>(v.data) + starts[lane];
  T* out = reinterpret_cast<T*>(to.data);
  for (int i = 0; i < to.rows; ++i)
    for (int j = 0; j < to.cols; ++j, out += kLanes<B>)
      for (int lane = 0; lane < kLanes<B>; ++lane) out[lane] = T(from[lane][i * down + j * by]);
}

template <class B>
void run_groups(const calls::FormulaCall& call, int64_t begin, int64_t end, void* room) {
  using T = NumberOf<B>;
  linalg::Formula<B, T> formula(call, static_cast<B*>(room));
  int64_t starts[kLanes<B>];
  for (int64_t first = begin; first < end; first += kLanes<B>) {
    const int count = int(std::min<int64_t>(end - first, kLanes<B>));
    for (int k = 0; k < call.n_in; ++k) {
      const gd_view& v = call.in[k];
      find_starts<B>(v, call.batch_axes, first, count, starts);
      if (v.dtype == GD_I64)
        gather_into<B, int64_t>(formula.value(k), v, call.is_vector(k), starts);
      else
        gather_into<B, T>(formula.value(k), v, call.is_vector(k), starts);
    }
    formula.run();
    const gd_view& v = call.out;
    find_starts<B>(v, call.batch_axes, first, count, starts);
    const linalg::Small<B> from = formula.result();
    LaneView<B> to{{}, v.strides[v.rank - 2], v.strides[v.rank - 1]};
    for (int lane = 0; lane < count; ++lane) {
      to.start[lane] = static_cast<T*>(v.data) + starts[lane];
      scatter(to, LaneMatrix<B>{from.data, from.rows, from.cols}, lane);
    }
  }
}

}  // namespace

int formula_lanes(const calls::FormulaCall& call) {
  const bool wide = call.out.dtype == GD_F64;
  const int lanes = wide ? kLanes<Batch<double>> : kLanes<Batch<float>>;
  return call.room * lanes * (wide ? 8 : 4) <= kGroupBytes ? lanes : 0;
}

void formula_groups(const calls::FormulaCall& call, int64_t begin, int64_t end, void* room) {
  if (call.out.dtype == GD_F64)
    run_groups<Batch<double>>(call, begin, end, room);
  else
    run_groups<Batch<float>>(call, begin, end, room);
}

}  // namespace gradus::cpu
