// What the two halves of the emulator share: the launches and the run-time library.
#pragma once
#include "kernels/gpu/emulator/emulator.hpp"

namespace gradus::inline v1::emu {

int current_device();
// Ends the launch that runs with an error, which the text and where the thread stands make up.
void fail_launch(const char* what);
// Runs a kernel now.
emuError_t run(bool together, unsigned blocks, unsigned threads, const std::function<void()>& body);

}  // namespace gradus::emu
