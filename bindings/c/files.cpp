// Tensors by name, and files.
#include "bindings/c/door.hpp"
#include "engine/files/npy.hpp"
#include "engine/files/safetensors.hpp"

#include <mutex>

using namespace gradus;
using namespace gradus::c;

namespace {

std::shared_ptr<TensorList> list_at(gradus_tensors list) {
  return object_at<TensorList>(Kind::tensors, list);
}

}  // namespace

namespace gradus::inline v1::c {

NamedTensors TensorList::all() const {
  const std::lock_guard lock(mutex);
  return NamedTensors(tensors.begin(), tensors.end());
}
gradus_tensors new_list(NamedTensors tensors) {
  auto list = std::make_shared<TensorList>();
  for (auto& one : tensors) list->tensors.push_back(std::move(one));
  return new_handle(Kind::tensors, std::move(list));
}
NamedTensors named_at(gradus_tensors list) { return list_at(list)->all(); }

}  // namespace gradus::c

gradus_status gradus_tensors_new(gradus_tensors* out) {
  return result("gradus_tensors_new", out, [&] { return new_list({}); });
}
gradus_status gradus_tensors_add(gradus_tensors list, const char* name, gradus_tensor t) {
  return door("gradus_tensors_add", [&] {
    const auto l = list_at(list);
    std::pair<std::string, Tensor> one{&need(name, "name"), tensor_of(t, "t")};
    const std::lock_guard lock(l->mutex);
    for (const auto& [known, tensor] : l->tensors)
      if (known == one.first)
        throw Refusal{GRADUS_VALUE, "there is a tensor \"" + one.first + "\" already"};
    l->tensors.push_back(std::move(one));
  });
}
gradus_status gradus_tensors_count(gradus_tensors list, size_t* out) {
  return door("gradus_tensors_count", [&] {
    const auto l = list_at(list);
    const std::lock_guard lock(l->mutex);
    need(out, "out") = l->tensors.size();
  });
}
gradus_status gradus_tensors_at(gradus_tensors list, size_t index, const char** name,
                                gradus_tensor* out) {
  return door("gradus_tensors_at", [&] {
    const auto l = list_at(list);
    const std::lock_guard lock(l->mutex);
    if (index >= l->tensors.size())
      throw Refusal{GRADUS_INDEX, join("index ", index, ", the list has ", l->tensors.size())};
    const auto& [known, tensor] = l->tensors[index];
    if (out) *out = handle_of(tensor);
    if (name) *name = known.c_str();
  });
}
gradus_status gradus_tensors_find(gradus_tensors list, const char* name, gradus_tensor* out) {
  return door("gradus_tensors_find", [&] {
    need(out, "out");
    const std::string wanted = &need(name, "name");
    std::vector<std::string> names;
    for (const auto& [known, tensor] : named_at(list)) {
      if (known == wanted) {
        *out = handle_of(tensor);
        return;
      }
      names.push_back(known);
    }
    throw Refusal{GRADUS_VALUE,
                  "there is no tensor \"" + wanted + "\"" + did_you_mean(wanted, names)};
  });
}

gradus_status gradus_read_safetensors(const char* path, gradus_tensors* out) {
  return result("gradus_read_safetensors", out,
                [&] { return new_list(read_safetensors(&need(path, "path")).tensors); });
}
gradus_status gradus_write_safetensors(const char* path, gradus_tensors list) {
  return door("gradus_write_safetensors",
              [&] { write_safetensors(&need(path, "path"), named_at(list)); });
}
gradus_status gradus_read_npy(const char* path, gradus_tensor* out) {
  return result("gradus_read_npy", out, [&] { return handle_of(read_npy(&need(path, "path"))); });
}
gradus_status gradus_write_npy(const char* path, gradus_tensor t) {
  return door("gradus_write_npy", [&] { write_npy(&need(path, "path"), tensor_of(t, "t")); });
}
