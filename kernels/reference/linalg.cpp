// The slot linalg: the algorithms of kernels/linalg, one matrix after the other.
#include "kernels/linalg/batch.hpp"
#include "kernels/reference/slots.hpp"

namespace gradus::inline v1::reference {

void linalg(Call& call) {
  linalg::Scratch scratch;
  if (call.op() == GD_FORMULA) {
    const FormulaCall f = expect_formula(call);
    return linalg::run(f, 0, linalg::count_of_matrices(f), scratch);
  }
  const LinalgCall c = expect_linalg(call);
  linalg::run(c, 0, linalg::count_of_matrices(c), scratch);
}

}  // namespace gradus::reference
