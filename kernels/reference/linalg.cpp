// The slot linalg: the algorithms of kernels/linalg, one matrix after the other.
#include "kernels/linalg/batch.hpp"
#include "kernels/reference/slots.hpp"

namespace gradus::inline v1::reference {

void linalg(Call& call) {
  const LinalgCall c = expect_linalg(call);
  linalg::Scratch scratch;
  linalg::run(c, 0, linalg::count_of_matrices(c), scratch);
}

}  // namespace gradus::reference
