// VersionLog: while it lives, every write in place of its thread into memory of the program's
// tensors (not the engine's own: the state of random numbers) is noted: who wrote, where, from
// which version to which, and which saved copies became stale by it. Where a vjp then meets one,
// the engine's message ends with that story. Other than the log of the run itself, what it keeps is
// bounded: memory and nodes that the program has let go of are swept out as it goes.
#pragma once
#include "engine/graph.hpp"
#include "ops/audit/watch/watch.hpp"

#include <string>
#include <unordered_map>

namespace gradus::inline v1::audit {

// Something that a node saved, and that a write left behind.
struct StaleCopy {
  std::string op, where, what;  // "mul", "layers.1", "input a"
  uint64_t version = 0;         // that it saved
};

struct Write {
  std::string tensor;         // "layers.0.weight", or "f32 (2, 3), made by relu at net.lua:3"
  std::string by, where;      // "mul_"; the open Traces, "" if none
  uint64_t from = 0, to = 0;  // versions of the memory, which views share
  std::vector<StaleCopy> stale;
  const Storage* memory = nullptr;  // to compare, not to follow; null: it is gone
  uint64_t id = 0;                  // of the memory, for the whole log
  // The node, by its sequence(), whose result was written here as its op's own form in place: what
  // the tensor is from now on. 0: none.
  uint64_t node = 0;
};
std::string to_text(const Write& w);      // in one line
std::string to_text(const StaleCopy& s);  // "input a of mul (version 0), at layers.1"

class VersionLog : public Observer {
 public:
  // What the log calls this tensor's memory from now on.
  void name(const std::string& name, const Tensor& t);
  // In order.
  const std::vector<Write>& writes() const { return writes_; }
  // Those into the memory of t.
  std::vector<Write> writes_to(const Tensor& t) const;
  // Those into the memory that holds the outputs of a node that `watch`, made beside this log, saw.
  std::vector<Write> writes_to(const GradFn& node, const Watch& watch) const;

 private:
  // Of one storage; it keeps the storage, so that no address comes back as another's.
  struct Memory {
    Ref<Storage> storage;
    uint64_t id;
    std::string tensor;
    bool known;    // what tensor it is
    bool written;  // since the log began
    struct Copy {
      const GradFn* node;
      StaleCopy saved;
    };
    std::vector<Copy> copies;
  };
  Memory& memory_of(Storage& storage);
  void call(Memory& memory, const std::string& tensor);
  void called(const OpContext& call, GradFn* node) override;
  void written(Storage& storage, const char* op) override;
  std::string stale_story(const GradFn& node, const Saved& saved) const override;
  void sweep();

  std::vector<Write> writes_;
  std::unordered_map<const Storage*, Memory> memories_;
  std::unordered_map<const GradFn*, Ref<GradFn>> nodes_;  // that saved something
  size_t sweep_at_ = 1024;
  uint64_t last_id_ = 0;
  struct {
    std::string in_place, operand;  // "mul_", "f32 (2, 3)"
    uint64_t node = 0;
  } last_;  // call: what a write that follows it may belong to
  ObserverScope listening_{*this};
};

}  // namespace gradus::audit
