// `gradus contract` of block-sparse tensors from a .safetensors file (ops/blocks/file.hpp).
#pragma once
#include <iosfwd>
#include <string>

namespace gradus::inline v1::cli {

struct ContractOptions;
// Does the file of --tensors hold block tensors?
bool takes_blocks(const ContractOptions& options);
// The exit code; errors as run_contract(). --out and --grads are .safetensors files.
int run_block_contract(const ContractOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
