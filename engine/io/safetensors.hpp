// .safetensors files: named tensors and a map of texts. The writer is byte-reproducible (sorted by
// element size descending, then by name); the reader believes nothing: every name, shape and offset
// is checked, and the tensors must cover the file without holes or overlaps.
#pragma once
#include "engine/tensor.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradus {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::map<std::string, std::string>;

struct Safetensors {
  NamedTensors tensors;  // in the order of their data
  Metadata metadata;
};

// All dtypes but c128, which the format lacks. Names must be distinct UTF-8 and not "__metadata__".
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const Metadata& metadata = {});
std::string safetensors_bytes(const NamedTensors& tensors, const Metadata& metadata,
                              const std::string& name);

Safetensors read_safetensors(const std::string& path, Device& device = default_device());
Safetensors parse_safetensors(std::string_view bytes, const std::string& name,
                              Device& device = default_device());

}  // namespace gradus
