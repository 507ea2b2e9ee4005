// Block-sparse tensors in .safetensors files, which any library reads: NAME is the buffer,
// NAME.blocks (i64: blocks, rank + 1) has the sectors and the offset of each block, NAME.leg.K
// (i64: sectors, charges + 1) a leg's charges and sizes, and the metadata NAME is
//   {"format": "gradus.block", "version": 1, "arrows": [..], "charge": [..], "mods": [..],
//    "parity": [..], "parts": {"K": [{"arrow": .., "sectors": [[charges.., size], ..]}, ..]}}
// (parity: the components of a charge that make it odd; parts: of fused legs). c128, which the
// format lacks, is NAME.re and NAME.im.
#pragma once
#include "engine/files/safetensors.hpp"
#include "ops/blocks/block_tensor.hpp"

namespace gradus::inline v1 {

struct NamedBlocks {
  std::string name;
  BlockTensor tensor;
};

// Appends what a file has of one.
void to_entries(const NamedBlocks& x, NamedTensors& tensors, Metadata& metadata);
void write_blocks(const std::string& path, const std::vector<NamedBlocks>& all);
// All that a file has, by name. Error(io) with the file, the name, and what differs: block lists
// other than those that legs and charge allow are refused.
std::vector<NamedBlocks> read_blocks(const std::string& path, Device& device = default_device());
std::vector<NamedBlocks> blocks_of(const Safetensors& file, const std::string& path);
// Does a file's metadata name a block tensor?
bool has_blocks(const Metadata& metadata);

}  // namespace gradus
