// The work slots that libtorch does, each a function of a checked call. False, before anything is
// written: this call is none for libtorch, and the reference's loops do it.
#pragma once
#include "kernels/call/checks.hpp"

namespace gradus::inline v1::torch {

using calls::Call;

bool contract(Call& call);   // contract.cpp
bool pointwise(Call& call);  // pointwise.cpp
bool reduce(Call& call);     // lines.cpp
bool softmax(Call& call);    // lines.cpp

}  // namespace gradus::torch
