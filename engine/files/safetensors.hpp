// .safetensors files: named tensors and a map of texts. The writer is byte-reproducible (sorted by
// element size descending, then by name); the reader believes nothing: every name, shape and offset
// is checked, and the tensors must cover the file without holes or overlaps.
//
// Files that gradus writes carry a checksum of all their bytes, "gradus.crc32" in __metadata__: the
// CRC-32 of zlib, gzip and PNG over the file with eight zeros in the place of its own digits, so
// anybody can compute it. It finds every flipped bit and every damaged run of up to 32 bits for
// certain, other damage but for one in 2^32; it is no guard against somebody who means harm.
#pragma once
#include "engine/tensor.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradus::inline v1 {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::map<std::string, std::string>;

struct Safetensors {
  NamedTensors tensors;  // in the order of their data
  Metadata metadata;     // without the checksum
  bool checked = false;  // by the checksum that the file carries; one that differs is an error
};

// All dtypes but c128, which the format lacks. Names must be distinct UTF-8 and not "__metadata__".
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const Metadata& metadata = {});
std::string safetensors_bytes(const NamedTensors& tensors, const Metadata& metadata,
                              const std::string& name);

Safetensors read_safetensors(const std::string& path, Device& device = default_device());
Safetensors parse_safetensors(std::string_view bytes, const std::string& name,
                              Device& device = default_device());
// Of the header alone; nothing else is read, so the checksum stays unknown.
Metadata read_safetensors_metadata(const std::string& path);

// The entries whose names begin with `prefix`, without it.
NamedTensors with_prefix(const NamedTensors& all, const std::string& prefix);

}  // namespace gradus
