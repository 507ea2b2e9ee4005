// The ops, as C++ functions on Tensor. Names, argument order and semantics are PyTorch's wherever
// PyTorch has the op. Axes may be negative. Every function records itself when a derivative can be
// asked for. Errors are gradus::Error{shape | dtype | value | index, op, ...}.
// Call gradus::init() (ops/init.hpp) once before anything else.
#pragma once
#include "ops/contract/contraction.hpp"
#include "ops/shape/in_place.hpp"
#include "ops/shape/creation.hpp"
#include "ops/index/indexing.hpp"
#include "ops/shape/join.hpp"
#include "ops/linalg/linalg.hpp"
#include "ops/contract/linear.hpp"
#include "ops/loss/losses.hpp"
#include "ops/shape/memory.hpp"
#include "ops/reduce/norms.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/rearrange.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/random/sampling.hpp"
#include "ops/index/sorting.hpp"
#include "ops/shape/views.hpp"
#include "ops/conv/windows.hpp"
