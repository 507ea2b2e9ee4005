// Slots come in blocks that are never moved or freed, so a made-up handle is looked up in safety.
#include "bindings/c/handles.hpp"

#include "bindings/c/gradus.h"
#include "engine/base/error.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <type_traits>

namespace gradus::inline v1::c {

namespace {

// From the lowest bit: slot, generation, kind. The sign bit stays 0.
constexpr int kSlotBits = 26, kGenerationBits = 32;
constexpr uint64_t kSlots = uint64_t(1) << kSlotBits;
constexpr uint32_t kLastGeneration = UINT32_MAX;
constexpr size_t kBlock = 4096;
constexpr uint32_t kNoSlot = UINT32_MAX;
constexpr uint32_t kMostHolds = UINT32_MAX;

// What a slot's handle has above the slot's number.
constexpr uint64_t title_of(uint32_t generation, Kind kind) {
  return uint64_t(kind) << kGenerationBits | generation;
}
constexpr Kind kind_of(uint64_t title) { return Kind(title >> kGenerationBits); }

// Who fills a slot that he took has it to himself, and shows it by its title. Once it is shown, it
// is looked at and emptied under its lock.
struct Slot {
  std::atomic<uint64_t> title{title_of(1, Kind::none)};  // of no kind while it is empty
  Lock lock;
  bool used_up = false;  // it has had its last generation
  uint32_t holds = 0;
  uint32_t uses = 0;  // by calls: what it holds stays while there are any
  uint32_t next_free = kNoSlot;
  Tensor tensor;
  std::shared_ptr<Object> object;
  std::atomic<Object*> lasting{nullptr};  // the object, if nobody counts it
};

struct Table {
  // For itself, since it is all 0 and then takes no bytes of the library.
  static inline constinit std::array<std::atomic<Slot*>, kSlots / kBlock> blocks{};
  Lock lock;  // of what follows
  uint32_t free = kNoSlot, made = 0;

  // Slots that were made may be taken by one and given back by another, under the lock.
  uint32_t take();
  void give_back(uint32_t i);
};
// Never destroyed, since handles may be freed while the program ends.
constinit Table the_table;
static_assert(std::is_trivially_destructible_v<Table>);
inline Table& table() { return the_table; }

Slot& slot_at(uint32_t i) {
  return table().blocks[i / kBlock].load(std::memory_order_acquire)[i % kBlock];
}

constexpr const char* kNames[] = {
    "nothing",   "a tensor",  "an op",        "a hook",       "a plan",
    "a stream",  "an event",  "a step",       "an optimizer", "a list of tensors",
    "a network", "a trainer", "an operation", "blocks"};

[[noreturn, gnu::cold]] void refuse(Kind wanted, int64_t handle, const Argument& argument) {
  std::string said = argument.name;
  if (argument.index != SIZE_MAX) said += join("[", int64_t(argument.index), "]");
  said += wanted == Kind::none
              ? ": expected a handle, got "
              : join(": expected the handle of ", kNames[size_t(wanted)], ", got ");
  const uint64_t bits = uint64_t(handle), i = bits & (kSlots - 1);
  const uint64_t kind = bits >> (kSlotBits + kGenerationBits);
  const auto generation = uint32_t(bits >> kSlotBits);
  if (handle > 0 && kind > 0 && kind < std::size(kNames) && table().blocks[i / kBlock]) {
    const uint64_t title = slot_at(uint32_t(i)).title.load(std::memory_order_acquire);
    if (title == title_of(generation, Kind(kind)))
      throw Refusal{GRADUS_HANDLE, said + "that of " + kNames[kind]};
    if (generation > 0 && generation < uint32_t(title))
      throw Refusal{GRADUS_HANDLE, said + "one that was freed"};
  }
  throw Refusal{GRADUS_HANDLE, said + (handle > 0 ? "a number that is none" : join(handle))};
}

// The slot of a handle, locked, or a refusal. kind none: of any kind.
class Locked {
 public:
  Locked(Kind kind, int64_t handle, const Argument& argument = "handle") {
    const auto bits = uint64_t(handle);
    const uint64_t i = bits & (kSlots - 1);
    const uint64_t title = bits >> kSlotBits;
    const Kind named = kind_of(title);
    Slot* const block = table().blocks[i / kBlock].load(std::memory_order_acquire);
    if (block && named != Kind::none && (kind == Kind::none || named == kind)) {
      Slot& p = block[i % kBlock];
      p.lock.lock();
      if (p.title.load(std::memory_order_acquire) == title) {
        slot_ = &p;
        return;
      }
      p.lock.unlock();
    }
    refuse(kind, handle, argument);
  }
  ~Locked() { slot_->lock.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  Slot* operator->() const { return slot_; }

 private:
  Slot* slot_ = nullptr;
};

uint32_t Table::take() {
  if (free != kNoSlot) {
    const uint32_t i = free;
    free = slot_at(i).next_free;
    return i;
  }
  if (made == kSlots) fail(ErrorKind::memory, "handles", "there are ", made, " of them");
  if (made % kBlock == 0) blocks[made / kBlock].store(new Slot[kBlock], std::memory_order_release);
  return made++;
}
void Table::give_back(uint32_t i) {
  slot_at(i).next_free = free;
  free = i;
}

// Empty slots that a thread keeps for its next handles, so that it locks the table for some sixteen
// of them at once. They go back when the thread ends; what is freed after that goes straight back.
struct OwnSlots {
  static constexpr uint32_t kMost = 32;
  uint32_t count = 0, most = 0;
  bool ended = false;
  std::array<uint32_t, kMost> slots{};

  uint32_t take() {
    if (count == 0) [[unlikely]]
      refill();
    return slots[--count];
  }
  void give_back(uint32_t i) {
    if (count == most) [[unlikely]] {
      make_room();
      if (most == 0) return drain(i);
    }
    slots[count++] = i;
  }
  [[gnu::noinline]] void refill();
  [[gnu::noinline]] void make_room();
  [[gnu::noinline]] void open();
  void drain(uint32_t i) {
    const std::lock_guard lock(table().lock);
    table().give_back(i);
  }
  void shrink_to(uint32_t n) {
    const std::lock_guard lock(table().lock);
    while (count > n) table().give_back(slots[--count]);
  }
};
constinit thread_local OwnSlots own_slots;
static_assert(std::is_trivially_destructible_v<OwnSlots>);

void OwnSlots::open() {
  struct AtEnd {
    ~AtEnd() {
      own_slots.shrink_to(0);
      own_slots.most = 0;
      own_slots.ended = true;
    }
  };
  if (ended || most > 0) return;
  static thread_local const AtEnd at_end;
  (void)at_end;
  most = kMost;
}
void OwnSlots::refill() {
  open();
  const std::lock_guard lock(table().lock);
  slots[count++] = table().take();
  while (count < most / 2 && (table().free != kNoSlot || table().made < kSlots))
    slots[count++] = table().take();
}
void OwnSlots::make_room() {
  open();
  if (count == most) shrink_to(most / 2);
}

// Of a slot that nobody holds or uses any more. What it held dies outside of its lock: its end may
// call anybody.
struct Emptied {
  explicit Emptied(Slot& p)
      : tensor(std::move(p.tensor)), object(std::move(p.object)), used_up(p.used_up) {
    p.lasting.store(nullptr, std::memory_order_release);
  }
  Tensor tensor;
  std::shared_ptr<Object> object;
  bool used_up;
};

template <class Place, class T>
int64_t fill(Kind kind, Place Slot::*where, T value) {
  const uint32_t i = own_slots.take();
  Slot& p = slot_at(i);
  p.holds = 1;
  p.*where = std::move(value);
  const uint64_t title = title_of(uint32_t(p.title.load(std::memory_order_relaxed)), kind);
  p.title.store(title, std::memory_order_release);
  return int64_t(title << kSlotBits | i);
}

}  // namespace

int64_t new_handle(Kind kind, Tensor tensor) {
  return fill(kind, &Slot::tensor, std::move(tensor));
}
int64_t new_handle(Kind kind, std::shared_ptr<Object> object) {
  return fill(kind, &Slot::object, std::move(object));
}
int64_t new_handle(Kind kind, Object* lasting) { return fill(kind, &Slot::lasting, lasting); }

Tensor tensor_of(int64_t handle, Argument argument) {
  return Locked(Kind::tensor, handle, argument)->tensor;
}
InUse::InUse(int64_t handle, Argument argument) : slot_(uint32_t(uint64_t(handle) & (kSlots - 1))) {
  const Locked slot(Kind::tensor, handle, argument);
  ++slot->uses;
  tensor_ = &slot->tensor;
}
InUse::~InUse() {
  std::optional<Emptied> emptied;
  {
    Slot& p = slot_at(slot_);
    const std::lock_guard lock(p.lock);
    if (--p.uses > 0 || p.holds > 0) return;
    emptied.emplace(p);
  }
  if (!emptied->used_up) own_slots.give_back(slot_);
}
std::shared_ptr<Object> object_of(Kind kind, int64_t handle) {
  const Locked slot(kind, handle);
  Object* const lasting = slot->lasting.load(std::memory_order_relaxed);
  return lasting ? std::shared_ptr<Object>(std::shared_ptr<Object>(), lasting) : slot->object;
}
Object* lasting_object(Kind kind, int64_t handle) {
  const uint64_t i = uint64_t(handle) & (kSlots - 1), title = uint64_t(handle) >> kSlotBits;
  Slot* const block = table().blocks[i / kBlock].load(std::memory_order_acquire);
  if (!block || kind_of(title) != kind) return nullptr;
  const Slot& p = block[i % kBlock];
  // The title is stored last by who fills a slot and first by who empties it.
  if (p.title.load(std::memory_order_acquire) != title) return nullptr;
  Object* const object = p.lasting.load(std::memory_order_acquire);
  return p.title.load(std::memory_order_acquire) == title ? object : nullptr;
}

void retain_handle(int64_t handle) {
  const Locked slot(Kind::none, handle);
  if (slot->holds == kMostHolds) throw Refusal{GRADUS_VALUE, "the handle has too many holds"};
  ++slot->holds;
}

void free_handle(int64_t handle) {
  if (handle == 0) return;
  std::optional<Emptied> emptied;
  {
    const Locked slot(Kind::none, handle);
    if (--slot->holds > 0) return;
    const auto generation = uint32_t(slot->title.load(std::memory_order_relaxed));
    slot->used_up = generation == kLastGeneration;
    slot->title.store(title_of(slot->used_up ? generation : generation + 1, Kind::none),
                      std::memory_order_release);
    if (slot->uses > 0) return;  // the last of them empties it
    emptied.emplace(*slot.operator->());
  }
  if (!emptied->used_up) own_slots.give_back(uint32_t(uint64_t(handle) & (kSlots - 1)));
}

int64_t live_handles() {
  uint32_t made = 0;
  {
    const std::lock_guard lock(table().lock);
    made = table().made;
  }
  int64_t live = 0;
  for (uint32_t i = 0; i < made; ++i)
    live += kind_of(slot_at(i).title.load(std::memory_order_relaxed)) != Kind::none;
  return live;
}

}  // namespace gradus::c
