// NumPy's .npy files (format versions 1 to 3, numpy/lib/format.py). Every byte of the header is
// checked against the file: a truncated, too long or malformed file is an Error(io) that names the
// file, what was expected and what came, never a tensor of zeros.
#pragma once
#include "engine/tensor.hpp"

#include <string>
#include <string_view>

namespace gradus::inline v1 {

// dtypes: bool, u1, i4, i8, f2, f4, f8, c8, c16 in either byte order. A file in Fortran order
// becomes a view with reversed strides.
Tensor read_npy(const std::string& path, Device& device = default_device());
Tensor parse_npy(std::string_view bytes, const std::string& name,
                 Device& device = default_device());

// Version 1, little endian, C order. bf16 has no NumPy name and is refused.
void write_npy(const std::string& path, const Tensor& tensor);
std::string npy_bytes(const Tensor& tensor, const std::string& name = "npy");

}  // namespace gradus
