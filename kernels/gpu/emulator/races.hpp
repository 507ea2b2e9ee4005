// Races within a launch: every load and store of the kernels is looked at, while somebody wants to
// know. Two threads touch one byte, one of them writes, and no order is between them: a failed
// launch. Threads of different blocks have no order, those of one block by the barriers between.
//
// The compiler tells of each access: kernels of gradus_emu_races are compiled with
// -fsanitize=thread, and the calls that it makes come here instead of to ThreadSanitizer's library.
// A thread's own stack is its own business. Where nobody looks on, an access costs a call that
// returns.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gradus::inline v1::emu::races {

extern bool watching;  // from the environment at first: GRADUS_EMU_RACES=1

void begin_launch();
void begin_block(const void* shared, size_t bytes);  // the block's shared memory, new to it
// The thread that runs now: its number, how many barriers it has met, its stack.
void running(uint32_t block, uint32_t thread, const uint32_t* barriers, const void* stack,
             size_t bytes);
void ended();  // none runs
void access(const void* p, size_t bytes, bool write);

}  // namespace gradus::emu::races
