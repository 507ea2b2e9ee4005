// What capture writes down of a step, before it is planned: the kernel calls with their views by
// buffer, and the storages that stood behind the buffers. Used by capture.cpp and its helpers only.
#pragma once
#include "engine/tensor.hpp"

#include <unordered_map>
#include <vector>

namespace gradus::inline v1::wrap {

struct RecordedView {
  uint64_t buffer = 0;  // 0: left out
  int32_t dtype = 0;
  int64_t offset = 0;
  Shape sizes{}, strides{};
};

struct RecordedCall {
  int32_t slot = 0, op = 0;
  std::vector<RecordedView> in{}, out{};
  std::vector<double> doubles{};
  std::vector<int64_t> ints{};
  std::string name{};  // the op on whose behalf
};

// A copy of whole buffers.
RecordedCall copy_of(uint64_t from, uint64_t to, size_t bytes, const char* name);

// A storage that the step touched. `first` is the buffer it had when it was first seen: one of the
// step's own (then the storage was `born` in it), or one from before. `version` is what the writes
// of the step's thread have made of its version.
struct SeenStorage {
  Ref<Storage> storage;
  uint64_t first;
  bool born;
  uint64_t version;
};
// Numbers that follow from shapes alone, uploaded in the step; `id` stands for them in calls.
struct Constant {
  uint64_t id;
  std::vector<char> bytes;
};
// A leaf whose .grad the step touched.
struct SeenLeaf {
  Ref<Autograd> leaf;
  bool added;     // the first thing that happened to .grad was an addition ...
  Tensor before;  // ... to this
};

// Stands around a device while a step runs. Holds every storage that the step touches until nobody
// else does, so it knows at the end which ones outlive the step. It hears the step's thread alone:
// what other threads made or wrote meanwhile it knows by buffer ids and versions, and refuses.
class StepRecorder : public KernelWrapper, public Observer {
 public:
  explicit StepRecorder(Device& device)
      : device_(device), first_id_(device.pool().allocate(0).id) {}
  gd_status call(const gd_call& call, Next next, gd_error& error) override;
  void allocated(uint64_t buffer, size_t bytes, const char* op) override;
  void used(Storage& storage) override;
  void cloned(Storage& from, Storage& copy) override;
  void copied_in(void* to, const void* from, size_t bytes, bool constant) override;
  void unseen(const char* what) override { refuse(what); }

  // The first reason why this step can't be replayed stays.
  template <class... A>
  void refuse(const A&... parts) {
    if (!why.empty()) return;
    why = *current_op() ? join(current_op(), ": ", parts...) : join(parts...);
  }
  void grad_changes(Autograd& leaf, bool set) override;
  void written(Storage& storage, const char* op) override;
  // Lets go of storages that nobody else holds; refuses if one of them is older than the step.
  void sweep();
  // Refuses what other threads did to what the step leaves behind.
  void finish(const Tensors& outputs);

  std::string why;
  std::vector<RecordedCall> calls;
  std::vector<SeenStorage> storages;
  std::vector<Constant> constants;
  std::vector<SeenLeaf> leaves;
  std::unordered_map<uint64_t, size_t> bytes;  // of the buffers allocated in the step
  uint64_t fresh_id() { return next_id_++; }   // of a buffer that never was

 private:
  void add(Storage& storage, bool born);
  void check_version(const SeenStorage& seen);
  Device& device_;
  const uint64_t first_id_;  // buffers of the step have later ones
  uint64_t next_id_ = uint64_t(1) << 63;
};

}  // namespace gradus::wrap
