// Slots that are compiled once, with baseline flags: what moves memory or is bound by it.
// Contracts: engine/abi/kernel_table.h. All check their calls and never throw.
#pragma once
#include "kernels/cpu/runtime.hpp"

namespace gradus::inline v1::cpu {

gd_status slot_copy(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_fill(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_pointwise(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_pointwise_vjp(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_gather(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_scatter_add(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_random(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_chain(gd_device*, gd_stream*, const gd_call*, gd_error*);
// What slot_chain works out of a call, in one malloc'd block; data pointers may change after it.
gd_status prepare_chain(gd_device*, const gd_call*, void** plan, gd_error*);
gd_status slot_sort(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_linalg(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_contract_with_blas(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_grouped(gd_device*, gd_stream*, const gd_call*, gd_error*);

struct Walk;
// The elements of view v of w, row by row, to contiguous memory.
void copy_dense(gd_device*, const Walk& w, int v, char* to);
// View 1 of w, sorted by view 0 and merged, to view 0 of the same dtype; w is taken apart.
void copy_same(gd_device*, Walk& w);

ConvertFn find_convert(int32_t from, int32_t to);

}  // namespace gradus::cpu
