// The C door under fire: every function with NULL, wrong, freed, made-up and now and then right
// arguments. No call crashes; each that refuses says so by a status and a text; in the end no
// handle is left.
#include "gradus_paths.hpp"
#include "tests/doors/c_arguments.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <set>

namespace {

// Functions whose arguments say how large memory is: those may be wrong, but must not lie.
gradus_status lend_within(void* data, int32_t dtype, const int64_t* shape, const int64_t* strides,
                          size_t ndim, int64_t offset, gradus_destroy_fn release, void* user,
                          gradus_tensor* out) {
  if (dtype == GRADUS_BOOL) dtype = GRADUS_U8;  // other tensors write other bytes there
  constexpr size_t bytes[] = {0, 1, 16, 4096, kBytes};
  return gradus_lend(data, bytes[arguments->below(5)], dtype, shape, strides, ndim, offset, release,
                     user, out);
}
gradus_status text_within(gradus_tensor t, char* text, size_t* length) {
  return gradus_text(t, text, arguments->below(4096), length);
}
gradus_status order_within(int64_t n, uint64_t seed, int64_t epoch, int64_t* order) {
  const bool fits = n <= int64_t(kEntries) || n > int64_t(1) << 40;
  return gradus_epoch_order(fits ? n : int64_t(kEntries), seed, epoch, order);
}
gradus_status limit_for_a_while(int32_t device, uint64_t bytes) {
  const gradus_status s = gradus_memory_limit(device, bytes);
  if (s == GRADUS_OK) gradus_memory_limit(device, kLimit);
  return s;
}

// One of each kind of thing, so that there is always something to do right.
void keep_good_ones(Arguments& a) {
  const auto keep = [&](gradus_status status, const int64_t& handle) {
    if (status == GRADUS_OK) a.keep(handle);
  };
  const int64_t square[] = {2, 2}, row[] = {1, 2};
  const int64_t* const shapes[] = {square, square};
  const size_t ndims[] = {2, 2};
  int64_t h = 0, list = 0, network = 0;
  for (const int32_t dtype : {GRADUS_F32, GRADUS_F32, GRADUS_F64, GRADUS_I64, GRADUS_C64})
    keep(gradus_ones(square, 2, dtype, &h), h);
  for (const char* name : {"exp", "add", "sum", "matmul", "softmax"})
    keep(gradus_op_find(name, &h), h);
  keep(gradus_plan_equation("ij,jk->ik", shapes, ndims, 2, nullptr, 0, &h), h);
  keep(gradus_network_new("[{\"linear\": 2}, \"relu\"]", row, 2, GRADUS_F32, &network), network);
  keep(gradus_network_parameters(network, &list), list);
  for (const char* name : {"adam", "{\"name\": \"sgd\", \"momentum\": 0.9}"})
    keep(gradus_optimizer_new(name, list, &h), h);
  keep(
      gradus_trainer_new("{\"experiment\": \"mlp\", \"data\": {\"name\": \"digits\", \"train\": 4, "
                         "\"test\": 2}, \"model\": {\"layers\": [{\"linear\": 10}]}, "
                         "\"batch_size\": 4, \"epochs\": 1}",
                         &h),
      h);
}

// Every function of the header; tests/pages/test_install.cpp compares the names with the library's.
Calls all_calls() {
  return {
      {"gradus_last_error", any(gradus_last_error)},
      {"gradus_fail", any(gradus_fail)},
      {"gradus_set_log", any(gradus_set_log)},
      {"gradus_retain", any(gradus_retain)},
      {"gradus_free", any(gradus_free)},
      {"gradus_live_handles", any(gradus_live_handles)},
      {"gradus_from_data", any(gradus_from_data)},
      {"gradus_lend", any(lend_within)},
      {"gradus_to_data", any(gradus_to_data)},
      {"gradus_data", any(gradus_data)},
      {"gradus_item", any(gradus_item)},
      {"gradus_number", any(gradus_number)},
      {"gradus_zeros", any(gradus_zeros)},
      {"gradus_ones", any(gradus_ones)},
      {"gradus_full", any(gradus_full)},
      {"gradus_arange", any(gradus_arange)},
      {"gradus_randn", any(gradus_randn)},
      {"gradus_manual_seed", any(gradus_manual_seed)},
      {"gradus_shape", any(gradus_shape)},
      {"gradus_strides", any(gradus_strides)},
      {"gradus_ndim", any(gradus_ndim)},
      {"gradus_numel", any(gradus_numel)},
      {"gradus_dtype", any(gradus_dtype)},
      {"gradus_device", any(gradus_device)},
      {"gradus_is_cuda", any(gradus_is_cuda)},
      {"gradus_text", any(text_within)},
      {"gradus_add", any(gradus_add)},
      {"gradus_sub", any(gradus_sub)},
      {"gradus_mul", any(gradus_mul)},
      {"gradus_div", any(gradus_div)},
      {"gradus_matmul", any(gradus_matmul)},
      {"gradus_neg", any(gradus_neg)},
      {"gradus_exp", any(gradus_exp)},
      {"gradus_log", any(gradus_log)},
      {"gradus_sqrt", any(gradus_sqrt)},
      {"gradus_relu", any(gradus_relu)},
      {"gradus_sigmoid", any(gradus_sigmoid)},
      {"gradus_tanh", any(gradus_tanh)},
      {"gradus_softmax", any(gradus_softmax)},
      {"gradus_sum", any(gradus_sum)},
      {"gradus_mean", any(gradus_mean)},
      {"gradus_reshape", any(gradus_reshape)},
      {"gradus_transpose", any(gradus_transpose)},
      {"gradus_permute", any(gradus_permute)},
      {"gradus_expand", any(gradus_expand)},
      {"gradus_select", any(gradus_select)},
      {"gradus_slice", any(gradus_slice)},
      {"gradus_cast", any(gradus_cast)},
      {"gradus_clone", any(gradus_clone)},
      {"gradus_copy", any(gradus_copy)},
      {"gradus_op_count", any(gradus_op_count)},
      {"gradus_op_at", any(gradus_op_at)},
      {"gradus_op_find", any(gradus_op_find)},
      {"gradus_op_describe", any(gradus_op_describe)},
      {"gradus_op_attr", any(gradus_op_attr)},
      {"gradus_call", any(gradus_call)},
      {"gradus_call_in_place", any(gradus_call_in_place)},
      {"gradus_set_requires_grad", any(gradus_set_requires_grad)},
      {"gradus_requires_grad", any(gradus_requires_grad)},
      {"gradus_retain_grad", any(gradus_retain_grad)},
      {"gradus_detach", any(gradus_detach)},
      {"gradus_grad", any(gradus_grad)},
      {"gradus_set_grad", any(gradus_set_grad)},
      {"gradus_backward", any(gradus_backward)},
      {"gradus_gradients", any(gradus_gradients)},
      {"gradus_set_grad_enabled", any(gradus_set_grad_enabled)},
      {"gradus_register_hook", any(gradus_register_hook)},
      {"gradus_register_accumulate_hook", any(gradus_register_accumulate_hook)},
      {"gradus_remove_hook", any(gradus_remove_hook)},
      {"gradus_forward_begin", any(gradus_forward_begin)},
      {"gradus_forward_end", any(gradus_forward_end)},
      {"gradus_set_tangent", any(gradus_set_tangent)},
      {"gradus_tangent", any(gradus_tangent)},
      {"gradus_function_new", any(gradus_function_new)},
      {"gradus_contract", any(gradus_contract)},
      {"gradus_contract_vjp", any(gradus_contract_vjp)},
      {"gradus_contract_jvp", any(gradus_contract_jvp)},
      {"gradus_einsum", any(gradus_einsum)},
      {"gradus_plan_equation", any(gradus_plan_equation)},
      {"gradus_plan_labels", any(gradus_plan_labels)},
      {"gradus_plan_describe", any(gradus_plan_describe)},
      {"gradus_plan_step", any(gradus_plan_step)},
      {"gradus_plan_execute", any(gradus_plan_execute)},
      {"gradus_plan_vjp", any(gradus_plan_vjp)},
      {"gradus_plan_jvp", any(gradus_plan_jvp)},
      {"gradus_use_device", any(gradus_use_device)},
      {"gradus_use_default_device", any(gradus_use_default_device)},
      {"gradus_current_device", any(gradus_current_device)},
      {"gradus_device_count", any(gradus_device_count)},
      {"gradus_find_device", any(gradus_find_device)},
      {"gradus_device_type", any(gradus_device_type)},
      {"gradus_device_name", any(gradus_device_name)},
      {"gradus_available", any(gradus_available)},
      {"gradus_cuda_available", any(gradus_cuda_available)},
      {"gradus_load_module", any(gradus_load_module)},
      {"gradus_to_device", any(gradus_to_device)},
      {"gradus_cpu", any(gradus_cpu)},
      {"gradus_cuda", any(gradus_cuda)},
      {"gradus_synchronize", any(gradus_synchronize)},
      {"gradus_memory_stats", any(gradus_memory_stats)},
      {"gradus_memory_limit", any(limit_for_a_while)},
      {"gradus_memory_trim", any(gradus_memory_trim)},
      {"gradus_stream_new", any(gradus_stream_new)},
      {"gradus_stream_use", any(gradus_stream_use)},
      {"gradus_stream_use_default", any(gradus_stream_use_default)},
      {"gradus_stream_synchronize", any(gradus_stream_synchronize)},
      {"gradus_event_new", any(gradus_event_new)},
      {"gradus_event_record", any(gradus_event_record)},
      {"gradus_stream_wait", any(gradus_stream_wait)},
      {"gradus_event_done", any(gradus_event_done)},
      {"gradus_event_synchronize", any(gradus_event_synchronize)},
      {"gradus_pinned", any(gradus_pinned)},
      {"gradus_to_device_async", any(gradus_to_device_async)},
      {"gradus_copy_async", any(gradus_copy_async)},
      {"gradus_capture", any(gradus_capture)},
      {"gradus_step_why_not", any(gradus_step_why_not)},
      {"gradus_step_replay", any(gradus_step_replay)},
      {"gradus_step_output", any(gradus_step_output)},
      {"gradus_tensors_new", any(gradus_tensors_new)},
      {"gradus_tensors_add", any(gradus_tensors_add)},
      {"gradus_tensors_count", any(gradus_tensors_count)},
      {"gradus_tensors_at", any(gradus_tensors_at)},
      {"gradus_tensors_find", any(gradus_tensors_find)},
      {"gradus_read_safetensors", any(gradus_read_safetensors)},
      {"gradus_write_safetensors", any(gradus_write_safetensors)},
      {"gradus_read_npy", any(gradus_read_npy)},
      {"gradus_write_npy", any(gradus_write_npy)},
      {"gradus_optimizer_new", any(gradus_optimizer_new)},
      {"gradus_optimizer_step", any(gradus_optimizer_step)},
      {"gradus_optimizer_prepare", any(gradus_optimizer_prepare)},
      {"gradus_optimizer_apply", any(gradus_optimizer_apply)},
      {"gradus_zero_grad", any(gradus_zero_grad)},
      {"gradus_optimizer_state", any(gradus_optimizer_state)},
      {"gradus_network_new", any(gradus_network_new)},
      {"gradus_network_forward", any(gradus_network_forward)},
      {"gradus_network_train", any(gradus_network_train)},
      {"gradus_network_parameters", any(gradus_network_parameters)},
      {"gradus_network_state", any(gradus_network_state)},
      {"gradus_network_load", any(gradus_network_load)},
      {"gradus_read_data", any(gradus_read_data)},
      {"gradus_epoch_order", any(order_within)},
      {"gradus_trainer_new", any(gradus_trainer_new)},
      {"gradus_trainer_step", any(gradus_trainer_step)},
      {"gradus_trainer_finish_epoch", any(gradus_trainer_finish_epoch)},
      {"gradus_trainer_test", any(gradus_trainer_test)},
      {"gradus_trainer_state", any(gradus_trainer_state)},
  };
}

}  // namespace

TEST_CASE(
    "C door: a million calls with any arguments: no crash, every refusal has a status and a text") {
  const gradus::test::TempFolder folder;  // files that calls write
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const Calls calls = all_calls();
  table = &calls;
  Arguments a(1);
  arguments = &a;
  int64_t handles_before = 0;
  REQUIRE(gradus_live_handles(&handles_before) == GRADUS_OK);
  for (const int32_t device : {-1}) REQUIRE(gradus_memory_limit(device, kLimit) == GRADUS_OK);
  int32_t reference = 0;
  REQUIRE(gradus_find_device("reference", &reference) == GRADUS_OK);
  REQUIRE(gradus_memory_limit(reference, kLimit) == GRADUS_OK);

  const int64_t rounds = gradus::test::small_sizes() ? 50'000 : 1'000'000;
  std::map<std::string, std::array<int64_t, 2>> seen;  // refused, done
  std::set<gradus_status> statuses;
  for (int64_t i = 0; i < rounds; ++i) {
    if (i % 500 == 0) keep_good_ones(a);
    a.renew();
    const auto& chosen = calls[i < int64_t(calls.size()) ? size_t(i) : a.below(calls.size())];
    const std::string& name = chosen.first;
    const gradus_status status = chosen.second(a);
    ++seen[name][status == GRADUS_OK];
    statuses.insert(status);
    if (status == GRADUS_OK) {
      a.keep_results();
      continue;
    }
    gradus_error error{sizeof error, 0, nullptr, nullptr};
    if (name == "gradus_fail") continue;
    const bool told = status > 0 && status <= GRADUS_NULL &&
                      gradus_last_error(&error) == GRADUS_OK && error.status == status &&
                      error.text && *error.text && error.op;
    if (!told) {
      CAPTURE(name);
      CAPTURE(status);
      CAPTURE(error.status);
      REQUIRE(told);
    }
  }
  // Every function was refused something, and nearly all did something.
  int done = 0;
  std::string never;
  for (const auto& [name, counts] : seen) {
    done += counts[1] > 0;
    if (counts[1] == 0) never += name + " ";
  }
  CHECK(seen.size() == calls.size());
  CAPTURE(never);
  // Some things take many tries to come right by chance: a twentieth of the calls does less.
  CHECK(done > int(calls.size()) - (gradus::test::small_sizes() ? 40 : 12));
  CHECK(statuses.contains(GRADUS_HANDLE));
  CHECK(statuses.contains(GRADUS_NULL));

  while (gradus_forward_end() == GRADUS_OK) {
  }
  gradus_set_grad_enabled(1, nullptr);
  gradus_set_log(nullptr, nullptr, nullptr);
  gradus_use_device("cpu");
  gradus_stream_use_default(-1);
  a.free_everything();
  int64_t handles_after = 0;
  gradus_live_handles(&handles_after);
  CHECK(handles_after == handles_before);
  gradus_memory_limit(-1, 0);
  gradus_memory_limit(reference, 0);
  arguments = nullptr;
  std::filesystem::current_path(before);
}
