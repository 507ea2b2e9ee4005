// Start-up of the house: fills the op list, gives the engine's walk its arithmetic, and tells the
// device registry which statements a table must have. Registration is explicit; nothing happens
// before main().
#pragma once

namespace gradus::inline v1 {

// Safe to call more than once. Devices are registered by the caller (register_table).
void init();

}  // namespace gradus
