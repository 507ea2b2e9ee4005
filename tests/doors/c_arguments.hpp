// Arguments for every function of the C door, drawn at random: NULL, wrong, freed, made up, and now
// and then right. Pointers that are handed in lead somewhere, since no library can tell those that
// do not. For test_c_random.cpp alone.
#pragma once
#include "bindings/c/gradus.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

constexpr size_t kKept = 200;       // handles to draw from
constexpr size_t kEntries = 256;    // of every array that is handed in
constexpr size_t kBytes = 8 << 20;  // of memory that is handed in; no tensor may be larger
constexpr uint64_t kLimit = kBytes;

// What arguments are drawn from.
class Arguments {
 public:
  explicit Arguments(uint32_t seed) : random_(seed), memory_(kBytes / 8) {
    for (auto& list : numbers_) list.resize(kEntries);
    for (auto& list : labels_) list.resize(kEntries);
    for (auto& list : ndims_) list.resize(kEntries);
    for (auto& list : outs_) list.resize(kEntries);
  }
  size_t below(size_t n) { return size_t(random_() % n); }
  bool chance(int percent) { return below(100) < size_t(percent); }

  int64_t handle() {
    const auto& list = chance(60) ? tensors_ : others_;
    if (!list.empty() && chance(90)) return list[below(list.size())];
    return int64_t(random_()) << 26 ^ int64_t(random_());
  }
  int64_t integer() {
    if (chance(60)) return handle();
    constexpr int64_t edges[] = {INT64_MIN, INT64_MAX, -1, 0, 1 << 20};
    return chance(80) ? int64_t(below(8)) - 3 : edges[below(5)];
  }
  void keep(int64_t handle) {
    size_t ndim = 0;
    auto& list = gradus_ndim(handle, &ndim) == GRADUS_OK ? tensors_ : others_;
    if (list.size() < kKept) return list.push_back(handle);
    std::swap(list[below(kKept)], handle);
    free_all(handle);
  }
  void free_everything() {
    for (const auto& list : {tensors_, others_})
      for (const int64_t handle : list) free_all(handle);
  }
  static void free_all(int64_t handle) {
    while (gradus_free(handle) == GRADUS_OK) {  // all holds: calls took more
    }
  }

  template <class T>
  T draw();

  // One call: arrays are drawn anew before it, and what it wrote is kept after it.
  void renew() {
    next_numbers_ = next_labels_ = next_ndims_ = next_outs_ = 0;
    for (auto& list : outs_) std::ranges::fill(list, 0);
  }
  void keep_results() {
    for (const auto& list : outs_)
      for (const int64_t written : list)
        if (written != 0 && gradus_retain(written) == GRADUS_OK) {
          gradus_free(written);
          keep(written);
        }
  }

 private:
  const int64_t* some_numbers() {
    auto& list = numbers_[next_numbers_++ % numbers_.size()];
    const size_t kind = below(4);
    for (int64_t& n : list)
      n = kind == 0                       ? int64_t(below(4))
          : kind == 1                     ? (chance(95) ? int64_t(below(3)) : integer())
          : kind == 2 || tensors_.empty() ? handle()
                                          : tensors_[below(tensors_.size())];
    return list.data();
  }
  const int32_t* some_labels() {
    auto& list = labels_[next_labels_++ % labels_.size()];
    for (int32_t& n : list) n = chance(97) ? int32_t(below(4)) : int32_t(random_());
    return list.data();
  }

  std::mt19937_64 random_;
  std::vector<uint64_t> memory_;
  std::vector<int64_t> tensors_, others_;
  std::array<std::vector<int64_t>, 6> numbers_, outs_;
  std::array<std::vector<int32_t>, 6> labels_;
  std::array<std::vector<size_t>, 2> ndims_;
  size_t next_numbers_ = 0, next_labels_ = 0, next_ndims_ = 0, next_outs_ = 0;
  std::array<const int32_t*, kEntries> label_lists_{};
  std::array<const int64_t*, kEntries> number_lists_{};
  std::array<gradus_attr, 8> attrs_{};
  gradus_function function_{};
  gradus_library library_{};
  std::array<const char*, kEntries> names_{};
  std::array<gradus_operand, 4> operands_{};
  gradus_operation_desc operation_{};
  std::array<gradus_leg, kEntries> legs_{};
  std::array<int64_t, 2 * kEntries> charges_{};  // of two sectors, for as many groups as drawn
  std::array<char, 4096> text_{};
  union {
    uint32_t struct_size;
    char bytes[256];
  } record_;
  std::array<int32_t, kEntries> small_outs_{};
  std::array<double, kEntries> double_outs_{};
  std::array<size_t, kEntries> size_outs_{};
  std::array<const char*, 4> text_outs_{};
  const void* pointer_out_ = nullptr;
};
Arguments* arguments = nullptr;
int destroyed = 0, depth = 0;
using Calls = std::vector<std::pair<std::string, std::function<gradus_status(Arguments&)>>>;
const Calls* table = nullptr;

// What callbacks do: now and then another call, an error, a handle.
gradus_status answer(gradus_tensor* out) {
  Arguments& a = *arguments;
  if (depth < 2 && a.chance(20)) {
    ++depth;
    if ((*table)[a.below(table->size())].second(a) == GRADUS_OK) a.keep_results();
    --depth;
  }
  if (a.chance(20))
    return gradus_fail(gradus_status(a.below(16)), a.chance(50) ? "a reason" : nullptr);
  if (a.chance(10)) return gradus_status(a.below(20));
  if (out && a.chance(70)) {
    const int64_t h = a.handle();
    if (gradus_retain(h) == GRADUS_OK) *out = h;
  }
  return GRADUS_OK;
}
void on_destroy(void*) { ++destroyed; }
void on_log(void*, const char*) {}
gradus_status on_hook(void*, gradus_tensor, gradus_tensor* out) { return answer(out); }
gradus_status on_leaf(void*, gradus_tensor) { return answer(nullptr); }
gradus_status on_step(void*, gradus_tensor* outputs, size_t, size_t* n) {
  const gradus_status s = answer(outputs);
  *n = outputs[0] != 0;
  return s;
}
gradus_status on_forward(void*, const gradus_tensor*, gradus_tensor* outputs) {
  return answer(outputs);
}
gradus_status on_derivative(void*, size_t, const gradus_tensor*, const gradus_tensor*,
                            const gradus_tensor*, gradus_tensor* out) {
  return answer(out);
}

template <>
int64_t Arguments::draw() {
  return integer();
}
template <>
int32_t Arguments::draw() {
  constexpr int32_t edges[] = {INT32_MIN, INT32_MAX, 0x10000, 0x10001, 64};
  return chance(90) ? int32_t(below(14)) - 3 : edges[below(5)];
}
template <>
uint32_t Arguments::draw() {
  return chance(90) ? uint32_t(below(16)) : uint32_t(random_());
}
template <>
size_t Arguments::draw() {  // a count, within the arrays or beyond all bounds
  constexpr size_t edges[] = {64, 65, SIZE_MAX, size_t(1) << 40};
  return chance(50) ? 1 + below(2) : chance(80) ? below(5) : edges[below(4)];
}
template <>
double Arguments::draw() {
  constexpr double some[] = {0, 1, -1, 0.5, 3, 1e300, -1e-300, INFINITY, NAN};
  return some[below(9)];
}
template <>
const char* Arguments::draw() {
  static const std::string long_text(5000, 'x');
  static const char* const some[] = {
      "",
      "cpu",
      "reference",
      "auto",
      "cuda:3",
      "-1",
      "{\"device\": \"cpu\"}",
      "{\"device\": 7}",
      "{",
      "add",
      "sum",
      "matmul",
      "softmax",
      "einsum",
      "cross_entropy",
      "addd",
      "dim",
      "keepdim",
      "x.npy",
      "x.safetensors",
      "no/such/file",
      "ij,jk->ik",
      "ij->",
      "i,i",
      "a..b",
      "ij,",
      "greedy",
      "optimal",
      "left",
      "sgd",
      "adam",
      "{\"name\": \"sgd\", \"momentum\": 0.9}",
      "{\"nam\": 1}",
      "[{\"linear\": 3}, \"relu\"]",
      "[\"nothing\"]",
      "[]",
      "w",
      "{\"name\": \"digits\", \"train\": 4, \"test\": 2}",
      "{\"experiment\": \"mlp\", \"data\": {\"name\": \"digits\", \"train\": 8, \"test\": 4}, "
      "\"model\": {\"layers\": [{\"linear\": 10}]}, \"batch_size\": 4, \"epochs\": 1}",
      "\xff\xfe",
      "%s%n",
      long_text.c_str()};
  return chance(5) ? nullptr : some[below(std::size(some))];
}
template <>
const int64_t* Arguments::draw() {
  return chance(7) ? nullptr : some_numbers();
}
template <>
const int32_t* Arguments::draw() {
  return chance(7) ? nullptr : some_labels();
}
template <>
const size_t* Arguments::draw() {
  auto& list = ndims_[next_ndims_++ % ndims_.size()];
  for (size_t& n : list) n = chance(98) ? below(4) : size_t(random_());
  return chance(7) ? nullptr : list.data();
}
template <>
const int32_t* const* Arguments::draw() {
  for (auto& list : label_lists_) list = nullptr;
  for (size_t k = 0; k < 8; ++k) label_lists_[k] = draw<const int32_t*>();
  return chance(7) ? nullptr : label_lists_.data();
}
template <>
const int64_t* const* Arguments::draw() {
  for (auto& list : number_lists_) list = nullptr;
  for (size_t k = 0; k < 4; ++k) number_lists_[k] = draw<const int64_t*>();
  return chance(7) ? nullptr : number_lists_.data();
}
template <>
int64_t* Arguments::draw() {
  return chance(7) ? nullptr : outs_[next_outs_++ % outs_.size()].data();
}
template <>
int32_t* Arguments::draw() {
  return chance(7) ? nullptr : small_outs_.data();
}
template <>
double* Arguments::draw() {
  return chance(7) ? nullptr : double_outs_.data();
}
template <>
const double* Arguments::draw() {
  for (double& x : double_outs_) x = draw<double>();
  return chance(7) ? nullptr : double_outs_.data();
}
template <>
size_t* Arguments::draw() {
  return chance(7) ? nullptr : size_outs_.data();
}
template <>
char* Arguments::draw() {
  return chance(7) ? nullptr : text_.data();
}
template <>
const char** Arguments::draw() {
  return chance(7) ? nullptr : text_outs_.data();
}
template <>
const void** Arguments::draw() {
  return chance(7) ? nullptr : &pointer_out_;
}
template <>
void* Arguments::draw() {
  return chance(7) ? nullptr : memory_.data();
}
template <>
const void* Arguments::draw() {
  return draw<void*>();
}
template <>
const gradus_attr* Arguments::draw() {
  const uint32_t size = chance(95) ? uint32_t(sizeof(gradus_attr)) : uint32_t(below(5000));
  for (gradus_attr& a : attrs_)
    a = {size,
         chance(95) ? int32_t(below(7)) : int32_t(random_()),
         draw<const char*>(),
         integer(),
         draw<double>(),
         draw<const char*>(),
         draw<const int64_t*>(),
         draw<size_t>()};
  return chance(7) ? nullptr : attrs_.data();
}
template <>
const char* const* Arguments::draw() {
  for (size_t k = 0; k < 4; ++k) names_[k] = draw<const char*>();
  return chance(7) ? nullptr : names_.data();
}
template <>
const gradus_library* Arguments::draw() {
  static const gradus_any_function functions[4] = {};  // the CPU is in use: nobody calls them
  library_ = {chance(90) ? uint32_t(sizeof library_) : draw<uint32_t>(),
              chance(95) ? uint32_t(below(5)) : UINT32_MAX, draw<const char* const*>(),
              chance(90) ? functions : nullptr, draw<const char*>()};
  return chance(5) ? nullptr : &library_;
}
template <>
const gradus_function* Arguments::draw() {
  function_ = {chance(95) ? uint32_t(sizeof function_) : uint32_t(below(5000)),
               int32_t(below(2)),
               draw<const char*>(),
               draw<size_t>(),
               chance(70) ? 1 : draw<size_t>(),
               random_(),
               random_(),
               chance(90) ? on_forward : nullptr,
               chance(80) ? on_derivative : nullptr,
               chance(80) ? on_derivative : nullptr,
               nullptr,
               on_destroy};
  return chance(7) ? nullptr : &function_;
}
template <>
const gradus_operation_desc* Arguments::draw() {
  const uint32_t size = chance(95) ? uint32_t(sizeof(gradus_operand)) : uint32_t(below(200));
  for (gradus_operand& o : operands_)
    o = {size,
         chance(90) ? GRADUS_F32 : draw<int32_t>(),
         draw<const int32_t*>(),
         draw<const int64_t*>(),
         draw<size_t>(),
         chance(70) ? nullptr : draw<const char*>(),
         chance(90) ? nullptr : draw<const double*>(),
         chance(90) ? 0 : draw<size_t>()};
  operation_ = {chance(95) ? uint32_t(sizeof operation_) : uint32_t(below(5000)),
                draw<int32_t>(),
                chance(93) ? operands_.data() : nullptr,
                draw<size_t>(),
                draw<const int32_t*>(),
                draw<size_t>(),
                draw<const char*>(),
                draw<const char*>(),
                chance(70) ? nullptr : draw<const char*>()};
  return chance(7) ? nullptr : &operation_;
}
template <>
const gradus_leg* Arguments::draw() {
  const uint32_t size = chance(95) ? uint32_t(sizeof(gradus_leg)) : uint32_t(below(5000));
  for (int64_t& q : charges_) q = int64_t(below(3)) - 1;
  for (gradus_leg& leg : legs_)
    leg = {size, chance(95) ? (chance(50) ? 1 : -1) : draw<int32_t>(), below(3),
           chance(95) ? charges_.data() : nullptr, draw<const int64_t*>()};
  return chance(7) ? nullptr : legs_.data();
}
// A struct that the call fills, of a right or a wrong size.
template <class T>
T* record(Arguments& a, char (&bytes)[256], uint32_t& size) {
  const uint32_t sizes[] = {0, 3, 4, 8, sizeof(T), sizeof(T), sizeof(T), 200, 5000};
  size = sizes[a.below(std::size(sizes))];
  return a.chance(7) ? nullptr : reinterpret_cast<T*>(bytes);
}
template <>
gradus_error* Arguments::draw() {
  return record<gradus_error>(*this, record_.bytes, record_.struct_size);
}
template <>
gradus_op_info* Arguments::draw() {
  return record<gradus_op_info>(*this, record_.bytes, record_.struct_size);
}
template <>
gradus_plan_info* Arguments::draw() {
  return record<gradus_plan_info>(*this, record_.bytes, record_.struct_size);
}
template <>
gradus_blocks_info* Arguments::draw() {
  return record<gradus_blocks_info>(*this, record_.bytes, record_.struct_size);
}
template <>
gradus_operation_info* Arguments::draw() {
  return record<gradus_operation_info>(*this, record_.bytes, record_.struct_size);
}
template <>
gradus_memory* Arguments::draw() {
  return record<gradus_memory>(*this, record_.bytes, record_.struct_size);
}
template <>
gradus_destroy_fn Arguments::draw() {
  return chance(50) ? nullptr : on_destroy;
}
template <>
gradus_log_fn Arguments::draw() {
  return chance(50) ? nullptr : on_log;
}
template <>
gradus_hook_fn Arguments::draw() {
  return chance(10) ? nullptr : on_hook;
}
template <>
gradus_leaf_hook_fn Arguments::draw() {
  return chance(10) ? nullptr : on_leaf;
}
template <>
gradus_step_fn Arguments::draw() {
  return chance(10) ? nullptr : on_step;
}

template <class... A>
std::function<gradus_status(Arguments&)> any(gradus_status (*f)(A...)) {
  return [f](Arguments& a) { return std::apply(f, std::tuple<A...>{a.draw<A>()...}); };
}
// For what chance alone would hardly get right: every second call has these arguments, of which one
// in twenty is drawn anew. A handle that changes comes as std::cref(it).
struct Drawn {
} constexpr drawn;  // in the place of an argument that chance gets right
template <class... A, class... R>
std::function<gradus_status(Arguments&)> often(gradus_status (*f)(A...), R... right) {
  return [f, right = std::make_tuple(right...)](Arguments& a) {
    std::tuple<A...> all{a.draw<A>()...};
    const bool take = a.chance(50);
    const auto one = [&]<class T, class V>(T& argument, const V& fits) {
      if constexpr (!std::is_same_v<V, Drawn>)
        if (take && !a.chance(5)) argument = T(fits);
    };
    [&]<size_t... K>(std::index_sequence<K...>) {
      (one(std::get<K>(all), std::get<K>(right)), ...);
    }
    (std::make_index_sequence<sizeof...(R)>());
    return std::apply(f, all);
  };
}

}  // namespace
