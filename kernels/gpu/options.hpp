// What the device config says to a GPU, out of the JSON text that open() is given.
#pragma once
#include <string>

namespace gradus::inline v1::gpu {

struct Options {
  bool sync = false;  // wait after each call, so that an error is said where it happened
  bool tf32 = false;  // may products of f32 be rounded to 10 bits of mantissa on tensor cores?
  enum class Graph { off, on, force };
  Graph graph = Graph::on;  // force: on HIP too
  // Of matrix products, of contractions and of linalg: "auto", "off", or the path of one.
  std::string gemm_library = "auto", tensor_library = "auto", solver_library = "auto";
};

// Keys that are not a GPU's are not read. Refusal(GD_INVALID) for text that is no JSON object.
Options parse_options(const char* json, const char* device);

}  // namespace gradus::gpu
