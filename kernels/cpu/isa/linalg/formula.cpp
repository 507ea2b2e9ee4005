// GD_FORMULA for matrices side by side.
#include "kernels/linalg/formula.hpp"
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/linalg/lanes.hpp"

namespace gradus::inline v1::cpu {

namespace {

template <class B>
void gather_whole(LaneMatrix<B> row, const LaneStarts<B>& starts, int64_t step) {
  using T = NumberOf<B>;
  for (int j = 0; j < row.cols; ++j)
    for (int lane = 0; lane < kLanes<B>; ++lane)
      row.number(0, j, lane) = T(starts.template place<const int64_t>(lane)[j * step]);
}
template <class B>
LaneMatrix<B> lanes_of(const linalg::Small<B>& m) {
  return {m.data, m.rows, m.cols};
}

template <class B>
void run_groups(const calls::FormulaCall& call, int64_t begin, int64_t end, void* room) {
  using T = NumberOf<B>;
  linalg::Formula<B, T> formula(call, static_cast<B*>(room));
  LaneStarts<B> in[calls::FormulaCall::kMostIn], out(call.out, call.batch_axes);
  for (int k = 0; k < call.n_in; ++k) in[k] = {call.in[k], call.batch_axes};
  for (int64_t first = begin; first < end; first += kLanes<B>) {
    const int count = int(std::min<int64_t>(end - first, kLanes<B>));
    for (int k = 0; k < call.n_in; ++k) {
      const gd_view& v = call.in[k];
      const LaneMatrix<B> to = lanes_of(formula.value(k));
      in[k].move(first, count);
      if (v.dtype == GD_I64)
        gather_whole(to, in[k], v.strides[v.rank - 1]);
      else
        gather(to, call.is_vector(k) ? in[k].rows() : in[k].view());
    }
    formula.run();
    out.move(first, count);
    scatter(out.view(), lanes_of(formula.result()), count);
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
