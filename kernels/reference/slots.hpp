// The work slots of the reference, each a function of a checked call. Their contracts are the
// comments of gd_slot in engine/abi/kernel_table.h; what a source file adds is only how it is
// computed. A slot refuses by throwing (kernels/call) before it writes anything.
#pragma once
#include "kernels/call/checks.hpp"
#include "kernels/reference/layout.hpp"

namespace gradus::inline v1::reference {

void copy(Call& call);            // elementwise.cpp
void fill(Call& call);            // elementwise.cpp
void random(Call& call);          // elementwise.cpp
void pointwise(Call& call);       // pointwise.cpp
void pointwise_vjp(Call& call);   // pointwise.cpp
void reduce(Call& call);          // reduce.cpp
void scan(Call& call);            // reduce.cpp
void softmax(Call& call);         // reduce.cpp
void contract(Call& call);        // contract.cpp
void gather(Call& call);          // gather.cpp
void scatter_add(Call& call);     // gather.cpp
void normalize(Call& call);       // normalize.cpp
void optimizer_step(Call& call);  // optimizer.cpp
void sort(Call& call);            // sort.cpp
void linalg(Call& call);          // linalg.cpp
void grouped(Call& call);         // grouped.cpp

}  // namespace gradus::reference
