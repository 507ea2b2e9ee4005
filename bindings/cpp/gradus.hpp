// gradus from C++: tensors, ops, autograd, functions of functions, networks, optimisers, einsum,
// block-sparse tensors, captured steps, devices, and ops of your own, in one include.
//
//   #include <gradus.hpp>
//   gradus::Tensor x = gradus::Tensor::from(std::vector{0.5, -1.0, 2.0}, {3});
//   gradus::Tensor y = gradus::sum(gradus::sigmoid(x.set_requires_grad()));
//   gradus::backward(y);          // x.grad() is the slope of the sigmoid at each number
//
// Names, argument order and semantics are PyTorch's wherever PyTorch has the function; every header
// included here says what its functions take, refuse, own, and allow to threads. Errors are
// gradus::Error, with a kind, the op and a text. All of it lives in the inline namespace
// gradus::v1, a name that tells the linker two versions apart; there is no promise of a stable
// binary interface. What may never change its layout is bindings/c/gradus.h.
#pragma once
#include "bindings/cpp/start.hpp"
#include "engine/capture/capture.hpp"
#include "engine/config/loader.hpp"
#include "engine/files/npy.hpp"
#include "engine/files/safetensors.hpp"
#include "engine/forward.hpp"
#include "engine/hooks.hpp"
#include "engine/random.hpp"
#include "engine/streams/pinned.hpp"
#include "engine/streams/stream.hpp"
#include "ops/blocks/contraction.hpp"
#include "ops/blocks/factors.hpp"
#include "ops/blocks/file.hpp"
#include "ops/check/user.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/diagonal/hyperedges.hpp"
#include "ops/nn/attention.hpp"
#include "ops/nn/conv.hpp"
#include "ops/nn/layers.hpp"
#include "ops/nn/loss.hpp"
#include "ops/nn/normalization.hpp"
#include "ops/ops.hpp"
#include "ops/optim/loss_scale.hpp"
#include "ops/optim/optimizer.hpp"
#include "ops/optim/schedule.hpp"
#include "ops/base/checkpoint.hpp"
#include "ops/transforms/func.hpp"
#include "ops/transforms/vmap.hpp"

namespace gradus::inline v1 {

namespace detail {
// Before main(), and before later objects of a file that includes this are made.
inline const bool started = (start(), true);
}  // namespace detail

}  // namespace gradus
