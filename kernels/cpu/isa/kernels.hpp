// What the objects of one instruction set give each other. All names but the entry are made local
// when the set is linked (see CMakeLists.txt), so sets cannot meet. No std containers, no
// exceptions.
#pragma once
#include "kernels/cpu/call.hpp"

namespace gradus::inline v1::cpu {

const Block* block_f32(int32_t op);
const Block* block_f64(int32_t op);
gd_status slot_reduce(gd_device*, gd_stream*, const gd_call*, gd_error*);
bool sum_small(const gd_call* c);  // false: not done, the call is none of the few it knows
gd_status slot_scan(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_softmax(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_normalize(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status slot_contract(gd_device*, gd_stream*, const gd_call*, gd_error*);
gd_status prepare_contract(const gd_call*, void** plan, gd_error*);
gd_status block_products(gd_device*, SlotFn contract, const gd_call*, int64_t begin, int64_t end,
                         gd_error*);
gd_status slot_optimizer_step(gd_device*, gd_stream*, const gd_call*, gd_error*);
int linalg_lanes(const calls::LinalgCall&);
int64_t linalg_groups(const calls::LinalgCall&, int64_t first, int64_t end, void* room,
                      uint64_t* left);
int formula_lanes(const calls::FormulaCall&);
void formula_groups(const calls::FormulaCall&, int64_t begin, int64_t end, void* room);
TransposeFn find_transpose(int64_t unit);
TurnFn find_turn(int64_t unit);

}  // namespace gradus::cpu
