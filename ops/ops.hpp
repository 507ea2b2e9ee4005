// The ops, as C++ functions on Tensor. Names, argument order and semantics are PyTorch's wherever
// PyTorch has the op. Axes may be negative. Every function records itself when a derivative can be
// asked for. Errors are gradus::Error{shape | dtype | value | index, op, ...}.
// Call gradus::init() (ops/init.hpp) once before anything else.
#pragma once
#include "ops/contraction.hpp"
#include "ops/in_place.hpp"
#include "ops/creation.hpp"
#include "ops/indexing.hpp"
#include "ops/join.hpp"
#include "ops/linear.hpp"
#include "ops/losses.hpp"
#include "ops/memory.hpp"
#include "ops/norms.hpp"
#include "ops/pointwise.hpp"
#include "ops/rearrange.hpp"
#include "ops/reductions.hpp"
#include "ops/sampling.hpp"
#include "ops/sorting.hpp"
#include "ops/views.hpp"
#include "ops/windows.hpp"
