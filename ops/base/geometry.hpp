// Geometry: sizes, strides and offset of a view, and the ops that read and write through one:
// as_strided, and its transpose, embed. Internal to the files of views.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

struct Geometry {
  Shape sizes, strides;
  int64_t offset = 0;
};

// The geometry of a view op on something of these sizes, strides and offset.
using GeometryOf = Geometry (*)(const Geometry& of, const Attrs& attrs);

inline Geometry geometry(const Tensor& x) { return {x.sizes(), x.strides(), x.offset()}; }
inline Tensor alias(const Tensor& x, const Geometry& g) {
  return x.alias(g.sizes, g.strides, g.offset);
}

// zeros(into) with g written through (strides, offset) of the row-major result.
Tensor embed(const Tensor& g, const Shape& into, const Geometry& at);
void register_strided();

}  // namespace gradus
