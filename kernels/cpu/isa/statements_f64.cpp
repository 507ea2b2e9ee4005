// The statements over batches of f64.
#include "kernels/cpu/isa/batch_io.hpp"
#include "kernels/cpu/isa/kernels.hpp"

namespace gradus::inline v1::cpu {

const Block* block_f64(int32_t op) { return find_block<BatchIo<double>>(def::Statements{}, op); }

}  // namespace gradus::cpu
