// What the pieces of the cpu device share: the device struct and the C structs of function pointers
// through which code of different instruction sets meets. Plain data only: objects that are
// compiled with different -m flags include this header and must share nothing inline.
#pragma once
#include "engine/abi/kernel_table.h"

namespace gradus::inline v1::calls {
struct FormulaCall;
struct LinalgCall;
}

namespace gradus::inline v1::cpu {

// One statement on contiguous blocks: in[] as the slot lists them, n a multiple of kPad. Where
// step[k] is 0 instead of 1, in[k] is one number for all elements, given kPad times.
using BlockFn = void (*)(const void* const* in, const int64_t* step, void* out, int64_t n,
                         const double* params);
// dst[i] = cast(src[i]) on contiguous elements.
using ConvertFn = void (*)(const void* src, void* dst, int64_t n);
// Columns become rows: to[i * to_row + j * unit] = from[at[j] + i * unit], i < rows, j < columns,
// all counted in bytes; `to` is memory of its own. May read between the columns.
using TransposeFn = void (*)(char* to, int64_t to_row, const char* from, const int64_t* at,
                             int64_t columns, int64_t rows);
// The same with a list of rows, for a tile of many. `next`, if there is one, is where `from` of the
// following tile will be: its lines are fetched ahead. A streamed one is written past the caches by
// whole lines; `to` and to_at are then multiples of a line.
using TurnFn = void (*)(char* to, const int64_t* to_at, const char* from, const int64_t* from_at,
                        int64_t columns, int64_t rows, const char* next, bool streamed);
using SlotFn = gd_status (*)(gd_device*, gd_stream*, const gd_call*, gd_error*);

// Every batch of every instruction set divides this number of elements.
inline constexpr int64_t kPad = 16;

struct Block {
  BlockFn value;      // null: the statement does not read this dtype here
  BlockFn vjp[3];     // per operand; null: no slope
  int32_t out_dtype;  // of value
  int32_t arity, params;
};

// Matrices that are done side by side: at most so many rows and columns, in so much room.
inline constexpr int kLargestInLanes = 16, kLargestSpectrumInLanes = 8;
inline constexpr int64_t kGroupBytes = 6 * 64 * kLargestInLanes * kLargestInLanes;

// What one instruction set offers.
struct Kernels {
  const char* isa;
  int32_t lanes;                 // f32 lanes of one batch
  const Block* (*f32)(int32_t);  // by statement id
  const Block* (*f64)(int32_t);
  SlotFn reduce, scan, softmax, normalize, contract, optimizer_step;
  gd_status (*prepare_contract)(const gd_call*, void** plan, gd_error*);  // a malloc'd block
  // Jobs [begin, end) of a call of GD_GROUPED that is checked, large ones by `contract`.
  gd_status (*block_products)(gd_device*, SlotFn contract, const gd_call*, int64_t begin,
                              int64_t end, gd_error*);
  // Small matrices of a linalg call side by side. How many of them make a group; 0: the call is
  // none for groups. Then groups of matrices from `first` on, in room for kGroupBytes at a line of
  // memory, up to `end` or to a group of which some are left to be done one by one, as bits: gives
  // where the next one begins.
  int (*linalg_lanes)(const calls::LinalgCall&);
  int64_t (*linalg_groups)(const calls::LinalgCall&, int64_t first, int64_t end, void* room,
                           uint64_t* left);
  // The same of formulas; groups of matrices [begin, end), none of which is left.
  int (*formula_lanes)(const calls::FormulaCall&);
  void (*formula_groups)(const calls::FormulaCall&, int64_t begin, int64_t end, void* room);
  TransposeFn (*transpose)(int64_t unit);  // of 1, 2, 4, 8 or 16 bytes
  TurnFn (*turn)(int64_t unit);
};

// Scratch buffers of a thread; a function that runs inside a task uses other slots than its caller.
enum Scratch : int32_t { kScratchA, kScratchB, kScratchC, kScratchTask, kScratchCount };

}  // namespace gradus::cpu

struct gd_device {
  int32_t threads;
  const gradus::cpu::Kernels* kernels;
  void* pool;
  // Runs task(context, 0..tasks-1), in any order, on the pool's threads and the caller.
  void (*run)(gd_device*, int64_t tasks, void (*task)(void* context, int64_t), void* context);
  // The calling thread's buffer `slot`, 64-byte aligned, at least `bytes` long, contents undefined;
  // NULL if there is no memory. Valid until the same thread asks for the same slot again.
  void* (*scratch)(int32_t slot, size_t bytes);
  // NULL for a pair without conversion.
  gradus::cpu::ConvertFn (*convert)(int32_t from, int32_t to);
  int64_t cache[3];  // bytes of the caches of one core, level by level
  gradus::cpu::SlotFn pointwise;
};
