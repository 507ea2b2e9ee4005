// The recorder: every call, every storage, and everything that makes a step unfit for replay.
#include "engine/capture/recording.hpp"

#include <algorithm>

namespace gradus::inline v1::wrap {

namespace {
RecordedView view_of(const gd_view& v) {
  if (!v.data && v.buffer == 0) return {};
  return {v.buffer, v.dtype, v.offset, Shape(v.sizes, v.sizes + v.rank),
          Shape(v.strides, v.strides + v.rank)};
}
}  // namespace

RecordedCall copy_of(uint64_t from, uint64_t to, size_t bytes, const char* name) {
  RecordedCall copy{GD_COPY};
  const Shape sizes{int64_t(bytes)}, strides{1};
  copy.in.push_back({from, GD_U8, 0, sizes, strides});
  copy.out.push_back({to, GD_U8, 0, sizes, strides});
  copy.name = name;
  return copy;
}

gd_status StepRecorder::call(const gd_call& call, Next next, gd_error& error) {
  sweep();
  RecordedCall copy{call.slot, call.op};
  for (int k = 0; k < call.n_in; ++k) copy.in.push_back(view_of(call.in[k]));
  for (int k = 0; k < call.n_out; ++k) copy.out.push_back(view_of(call.out[k]));
  copy.doubles.assign(call.doubles, call.doubles + call.n_doubles);
  copy.ints.assign(call.ints, call.ints + call.n_ints);
  copy.name = current_op();
  calls.push_back(std::move(copy));
  return next(error);
}

void StepRecorder::allocated(uint64_t buffer, size_t n, const char*) { bytes.emplace(buffer, n); }

void StepRecorder::add(Storage& storage, bool born) {
  for (const SeenStorage& s : storages)
    if (s.storage.get() == &storage) return check_version(s);
  if (!born && storage.buffer_id() > first_id_)
    refuse("another thread made memory that the step uses");
  storages.push_back({Ref<Storage>(&storage), storage.buffer_id(), born, storage.version()});
}
void StepRecorder::check_version(const SeenStorage& s) {
  if (s.storage->version() != s.version)
    refuse("another thread wrote, with ", s.storage->last_writer(),
           ", to a tensor that the step uses");
}
void StepRecorder::written(Storage& storage, const char* op) {
  Observer::written(storage, op);
  for (SeenStorage& s : storages)
    if (s.storage.get() == &storage) ++s.version;
}
void StepRecorder::finish(const Tensors& outputs) {
  sweep();
  for (const Tensor& t : outputs)
    if (t.defined() && !t.is_number() && &t.device() == &device_) used(t.storage());
  for (const SeenStorage& s : storages) check_version(s);
}
void StepRecorder::used(Storage& storage) { add(storage, bytes.contains(storage.buffer_id())); }
void StepRecorder::cloned(Storage& from, Storage& copy) {
  used(from);
  add(copy, true);
}

void StepRecorder::copied_in(void* to, const void* from, size_t n, bool constant) {
  if (!constant)
    return refuse("numbers are copied from the host; make the tensor before the step, and write ",
                  "into it before each");
  for (const SeenStorage& s : storages) {
    if (s.storage->data() != to || !s.born || n == 0) continue;
    const auto* begin = static_cast<const char*>(from);
    constants.push_back({fresh_id(), {begin, begin + n}});
    calls.push_back(copy_of(constants.back().id, s.storage->buffer_id(), n, current_op()));
    return;
  }
  if (n > 0) refuse("a constant is copied from the host to an unknown place");
}

void StepRecorder::grad_changes(Autograd& leaf, bool set) {
  for (const SeenLeaf& seen : leaves)
    if (seen.leaf.get() == &leaf) return;
  leaves.push_back({Ref<Autograd>(&leaf), !set, set ? Tensor() : leaf.grad});
}

void StepRecorder::sweep() {
  std::erase_if(storages, [&](const SeenStorage& s) {
    if (s.storage->use_count() > 1) return false;
    if (!s.born)
      refuse("a tensor made before the step is let go in it; what is carried from step to step ",
             "must be written in place (copy_)");
    return true;
  });
}

}  // namespace gradus::wrap
