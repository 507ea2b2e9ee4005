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

// Things that fit each other, made anew now and then, since calls free and change them. Arrays have
// as many entries as any that is handed in.
struct Fitting {
  gradus_op add = 0, softmax = 0;
  gradus_plan plan = 0;
  gradus_operation operation = 0;
  gradus_blocks blocks = 0, fused = 0;
  gradus_network network = 0;
  gradus_tensors parameters = 0, state = 0, list = 0;
  gradus_stream stream = 0;
  gradus_event event = 0;
  gradus_optimizer optimizer = 0;
  gradus_step step = 0;
  gradus_hook hook = 0;
  gradus_trainer trainer = 0;  // at the end of an epoch
  std::array<gradus_tensor, kEntries> leaf{}, loss{};
  std::array<gradus_tensor, kEntries> squares{};
  std::array<int32_t, kEntries> left{0, 1}, right{1, 2}, outer{0, 2};
  std::array<const int32_t*, kEntries> labels{left.data(), right.data()};
  std::array<int64_t, kEntries> sizes{2, 2}, order{1, 0};
  std::array<const int64_t*, kEntries> shapes{sizes.data(), sizes.data()};
  std::array<size_t, kEntries> ndims{2, 2};
  gradus_operand matrix{
      sizeof(gradus_operand), GRADUS_F32, left.data(), sizes.data(), 2, nullptr, nullptr, 0};
  std::array<gradus_operand, 2> matrices{matrix, matrix};
  gradus_operation_desc sum{sizeof(gradus_operation_desc),
                            GRADUS_BINARY,
                            matrices.data(),
                            2,
                            left.data(),
                            2,
                            "add",
                            nullptr,
                            "relu"};
  std::array<int64_t, 2 * kEntries> charges{0, 1};
  std::array<int64_t, kEntries> none{}, single{1, 1};
  gradus_leg rows{sizeof(gradus_leg), 1, 2, charges.data(), single.data()},
      columns{sizeof(gradus_leg), -1, 2, charges.data(), single.data()};
  std::array<gradus_leg, kEntries> legs{rows, columns};
  std::array<gradus_blocks, kEntries> described{};
  std::array<gradus_tensor, kEntries> numbers{};
  std::array<const char*, kEntries> names{"x", "y"};
} fitting;

constexpr const char* kTraining =
    "{\"experiment\": \"mlp\", \"data\": {\"name\": \"digits\", \"train\": 4, "
    "\"test\": 2}, \"model\": {\"layers\": [{\"linear\": 10}]}, "
    "\"batch_size\": 4, \"epochs\": 1}";

gradus_status one_square(void*, gradus_tensor* outputs, size_t, size_t* n) {
  *n = 1;
  return gradus_ones(fitting.sizes.data(), 2, GRADUS_F32, outputs);
}

// One of each kind of thing, so that there is always something to do right.
void keep_good_ones(Arguments& a) {
  const auto kept = [&](gradus_status status, const int64_t& handle) {
    if (status == GRADUS_OK) a.keep(handle);
    return status == GRADUS_OK ? handle : 0;
  };
  Fitting& f = fitting;
  const int64_t row[] = {1, 2}, *const square = f.sizes.data();
  int64_t h = 0;
  for (const int32_t dtype : {GRADUS_F64, GRADUS_I64, GRADUS_C64})
    kept(gradus_ones(square, 2, dtype, &h), h);
  for (gradus_tensor* t : {&f.squares[0], &f.squares[1]})
    *t = kept(gradus_ones(square, 2, GRADUS_F32, &h), h);
  f.leaf[0] = kept(gradus_ones(square, 2, GRADUS_F32, &h), h);
  gradus_set_requires_grad(f.leaf[0], 1);
  f.loss[0] = kept(gradus_sum(f.leaf[0], nullptr, 0, 0, &h), h);
  f.hook = kept(gradus_register_hook(f.leaf[0], on_hook, nullptr, nullptr, &h), h);
  for (const char* name : {"exp", "sum", "matmul"}) kept(gradus_op_find(name, &h), h);
  f.add = kept(gradus_op_find("add", &h), h);
  f.softmax = kept(gradus_op_find("softmax", &h), h);
  f.plan = kept(
      gradus_plan_equation("ij,jk->ik", f.shapes.data(), f.ndims.data(), 2, nullptr, 0, &h), h);
  f.operation = kept(gradus_operation_create(&f.sum, &h), h);
  f.blocks = kept(
      gradus_blocks_new(f.none.data(), 1, f.none.data(), 0, f.legs.data(), 2, f.none.data(), &h),
      h);
  f.described[0] = f.described[1] = f.blocks;
  for (gradus_tensor* t : {&f.numbers[0], &f.numbers[1]})
    *t = kept(gradus_ones(&row[1], 1, GRADUS_F64, &h), h);
  gradus_tensor fused_numbers = 0;
  if (gradus_blocks_fuse(f.blocks, f.numbers[0], 0, 2, 1, &f.fused, &fused_numbers) == GRADUS_OK) {
    a.keep(f.fused);
    a.keep(fused_numbers);
  }
  gradus_blocks_write("b.safetensors", f.names.data(), f.described.data(), f.numbers.data(), 2);
  f.network = kept(gradus_network_new("[{\"linear\": 2}, \"relu\"]", row, 2, GRADUS_F32, &h), h);
  f.state = kept(gradus_network_state(f.network, &h), h);
  f.parameters = kept(gradus_network_parameters(f.network, &h), h);
  for (const char* name : {"adam", "{\"name\": \"sgd\", \"momentum\": 0.9}"})
    f.optimizer = kept(gradus_optimizer_new(name, f.parameters, &h), h);
  f.trainer = kept(gradus_trainer_new(kTraining, &h), h);
  int32_t epoch_done = 0;
  gradus_trainer_step(f.trainer, &epoch_done);
  f.list = kept(gradus_tensors_new(&h), h);
  gradus_tensors_add(f.list, "w", f.squares[0]);
  f.stream = kept(gradus_stream_new(GRADUS_CPU, &h), h);
  f.event = kept(gradus_event_new(GRADUS_CPU, &h), h);
  f.step = kept(gradus_capture(GRADUS_CPU, one_square, nullptr, &h), h);
}

// Every function of the header; tests/pages/test_install.cpp compares the names with the library's.
Calls all_calls() {
  using std::cref;
  Fitting& f = fitting;
  return {
      {"gradus_last_error", any(gradus_last_error)},
      {"gradus_fail", any(gradus_fail)},
      {"gradus_set_log", any(gradus_set_log)},
      {"gradus_retain", any(gradus_retain)},
      {"gradus_free", any(gradus_free)},
      {"gradus_live_handles", any(gradus_live_handles)},
      {"gradus_from_data", any(gradus_from_data)},
      {"gradus_lend", often(lend_within, drawn, GRADUS_F32, f.sizes.data(), nullptr, 2, 0)},
      {"gradus_to_data", often(gradus_to_data, cref(f.squares[0]), drawn, 16)},
      {"gradus_data", any(gradus_data)},
      {"gradus_item", often(gradus_item, cref(f.loss[0]))},
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
      {"gradus_add", often(gradus_add, cref(f.squares[0]), cref(f.squares[1]))},
      {"gradus_sub", often(gradus_sub, cref(f.squares[0]), cref(f.squares[1]))},
      {"gradus_mul", often(gradus_mul, cref(f.squares[0]), cref(f.squares[1]))},
      {"gradus_div", often(gradus_div, cref(f.squares[0]), cref(f.squares[1]))},
      {"gradus_matmul", often(gradus_matmul, cref(f.squares[0]), cref(f.squares[1]))},
      {"gradus_neg", any(gradus_neg)},
      {"gradus_exp", any(gradus_exp)},
      {"gradus_log", any(gradus_log)},
      {"gradus_sqrt", any(gradus_sqrt)},
      {"gradus_relu", any(gradus_relu)},
      {"gradus_sigmoid", any(gradus_sigmoid)},
      {"gradus_tanh", any(gradus_tanh)},
      {"gradus_softmax", often(gradus_softmax, cref(f.squares[0]), 0)},
      {"gradus_sum", often(gradus_sum, cref(f.squares[0]), f.none.data(), 1, 0)},
      {"gradus_mean", often(gradus_mean, cref(f.squares[0]), f.none.data(), 1, 0)},
      {"gradus_reshape", often(gradus_reshape, cref(f.squares[0]), f.sizes.data(), 2)},
      {"gradus_transpose", often(gradus_transpose, cref(f.squares[0]), 0, 1)},
      {"gradus_permute", often(gradus_permute, cref(f.squares[0]), f.order.data(), 2)},
      {"gradus_expand", often(gradus_expand, cref(f.squares[0]), f.sizes.data(), 2)},
      {"gradus_select", often(gradus_select, cref(f.squares[0]), 0, 1)},
      {"gradus_slice", often(gradus_slice, cref(f.squares[0]), 0, 0, 1, 1)},
      {"gradus_cast", any(gradus_cast)},
      {"gradus_clone", any(gradus_clone)},
      {"gradus_copy", often(gradus_copy, cref(f.squares[0]), cref(f.squares[1]))},
      {"gradus_op_count", any(gradus_op_count)},
      {"gradus_op_at", any(gradus_op_at)},
      {"gradus_op_find", any(gradus_op_find)},
      {"gradus_op_describe", often(gradus_op_describe, cref(f.add))},
      {"gradus_op_attr", often(gradus_op_attr, cref(f.softmax), 0)},
      {"gradus_call",
       often(gradus_call, cref(f.add), f.squares.data(), 2, nullptr, 0, drawn, 1, nullptr)},
      {"gradus_call_in_place",
       often(gradus_call_in_place, cref(f.add), f.squares.data(), 2, nullptr, 0)},
      {"gradus_set_requires_grad", any(gradus_set_requires_grad)},
      {"gradus_requires_grad", any(gradus_requires_grad)},
      {"gradus_retain_grad", often(gradus_retain_grad, cref(f.loss[0]))},
      {"gradus_detach", any(gradus_detach)},
      {"gradus_grad", any(gradus_grad)},
      {"gradus_set_grad", often(gradus_set_grad, cref(f.leaf[0]), cref(f.squares[0]))},
      {"gradus_backward", often(gradus_backward, f.loss.data(), nullptr, 1, GRADUS_RETAIN_GRAPH)},
      {"gradus_gradients",
       often(gradus_gradients, f.loss.data(), nullptr, 1, f.leaf.data(), 1, GRADUS_RETAIN_GRAPH)},
      {"gradus_set_grad_enabled", any(gradus_set_grad_enabled)},
      {"gradus_register_hook", often(gradus_register_hook, cref(f.leaf[0]))},
      {"gradus_register_accumulate_hook", often(gradus_register_accumulate_hook, cref(f.leaf[0]))},
      {"gradus_remove_hook", often(gradus_remove_hook, cref(f.hook))},
      {"gradus_forward_begin", any(gradus_forward_begin)},
      {"gradus_forward_end", any(gradus_forward_end)},
      {"gradus_set_tangent", often(gradus_set_tangent, cref(f.squares[0]), cref(f.squares[1]))},
      {"gradus_tangent", any(gradus_tangent)},
      {"gradus_function_new", any(gradus_function_new)},
      {"gradus_contract", often(gradus_contract, f.squares.data(), f.labels.data(), 2,
                                f.outer.data(), 2, GRADUS_SUM_PRODUCT)},
      {"gradus_contract_vjp", often(gradus_contract_vjp, f.squares.data(), f.labels.data(), 2,
                                    f.outer.data(), 2, GRADUS_SUM_PRODUCT, cref(f.squares[1]))},
      {"gradus_contract_jvp", often(gradus_contract_jvp, f.squares.data(), f.labels.data(), 2,
                                    f.outer.data(), 2, GRADUS_SUM_PRODUCT, f.squares.data())},
      {"gradus_einsum", often(gradus_einsum, "ij,jk->ik", f.squares.data(), 2)},
      {"gradus_plan_equation", often(gradus_plan_equation, "ij,jk->ik", f.shapes.data(),
                                     f.ndims.data(), 2, "greedy", GRADUS_SUM_PRODUCT)},
      {"gradus_plan_labels", often(gradus_plan_labels, f.labels.data(), f.shapes.data(),
                                   f.ndims.data(), 2, f.outer.data(), 2, nullptr, GRADUS_MAX_PLUS)},
      {"gradus_plan_describe", often(gradus_plan_describe, cref(f.plan))},
      {"gradus_plan_step", often(gradus_plan_step, cref(f.plan), 0)},
      {"gradus_plan_execute", often(gradus_plan_execute, cref(f.plan), f.squares.data(), 2)},
      {"gradus_plan_vjp",
       often(gradus_plan_vjp, cref(f.plan), f.squares.data(), 2, cref(f.squares[1]), 0)},
      {"gradus_plan_jvp",
       often(gradus_plan_jvp, cref(f.plan), f.squares.data(), 2, f.squares.data())},
      {"gradus_operation_create", often(gradus_operation_create, &f.sum)},
      {"gradus_operation_describe", often(gradus_operation_describe, cref(f.operation))},
      {"gradus_operation_execute",
       often(gradus_operation_execute, cref(f.operation), f.squares.data(), 2, nullptr, 0, 0)},
      {"gradus_blocks_new", often(gradus_blocks_new, f.none.data(), 1, f.none.data(), 0,
                                  f.legs.data(), 2, f.none.data())},
      {"gradus_blocks_describe", often(gradus_blocks_describe, cref(f.blocks))},
      {"gradus_blocks_block", often(gradus_blocks_block, cref(f.blocks), 1)},
      {"gradus_blocks_leg", often(gradus_blocks_leg, cref(f.blocks), 1)},
      {"gradus_blocks_charge", often(gradus_blocks_charge, cref(f.blocks))},
      {"gradus_blocks_permute",
       often(gradus_blocks_permute, cref(f.blocks), cref(f.numbers[0]), f.order.data(), 2)},
      {"gradus_blocks_conj", often(gradus_blocks_conj, cref(f.blocks), cref(f.numbers[0]))},
      {"gradus_blocks_fuse",
       often(gradus_blocks_fuse, cref(f.blocks), cref(f.numbers[0]), 0, 2, 1)},
      {"gradus_blocks_split", often(gradus_blocks_split, cref(f.fused), cref(f.numbers[0]), 0)},
      {"gradus_blocks_to_dense", often(gradus_blocks_to_dense, cref(f.blocks), cref(f.numbers[0]))},
      {"gradus_blocks_from_dense",
       often(gradus_blocks_from_dense, cref(f.blocks), cref(f.squares[0]), 9.0)},
      {"gradus_blocks_einsum",
       often(gradus_blocks_einsum, "ij,jk->ik", f.described.data(), f.numbers.data(), 2)},
      {"gradus_blocks_svd",
       often(gradus_blocks_svd, cref(f.blocks), cref(f.numbers[0]), f.none.data(), 1, 0, 0.0)},
      {"gradus_blocks_qr",
       often(gradus_blocks_qr, cref(f.blocks), cref(f.numbers[0]), f.none.data(), 1)},
      {"gradus_blocks_eigh",
       often(gradus_blocks_eigh, cref(f.blocks), cref(f.numbers[0]), f.none.data(), 1)},
      {"gradus_blocks_write", often(gradus_blocks_write, "b.safetensors", f.names.data(),
                                    f.described.data(), f.numbers.data(), 2)},
      {"gradus_blocks_read", often(gradus_blocks_read, "b.safetensors", "x")},
      {"gradus_use_device", any(gradus_use_device)},
      {"gradus_use_default_device", any(gradus_use_default_device)},
      {"gradus_give_library", any(gradus_give_library)},
      {"gradus_current_device", any(gradus_current_device)},
      {"gradus_device_count", any(gradus_device_count)},
      {"gradus_find_device", any(gradus_find_device)},
      {"gradus_device_type", any(gradus_device_type)},
      {"gradus_device_name", any(gradus_device_name)},
      {"gradus_available", any(gradus_available)},
      {"gradus_cuda_available", any(gradus_cuda_available)},
      {"gradus_load_module", any(gradus_load_module)},
      {"gradus_to_device", often(gradus_to_device, cref(f.squares[0]), GRADUS_CPU)},
      {"gradus_cpu", any(gradus_cpu)},
      {"gradus_cuda", any(gradus_cuda)},
      {"gradus_synchronize", any(gradus_synchronize)},
      {"gradus_memory_stats", any(gradus_memory_stats)},
      {"gradus_memory_limit", any(limit_for_a_while)},
      {"gradus_memory_trim", any(gradus_memory_trim)},
      {"gradus_stream_new", any(gradus_stream_new)},
      {"gradus_stream_use", often(gradus_stream_use, cref(f.stream))},
      {"gradus_stream_use_default", any(gradus_stream_use_default)},
      {"gradus_stream_synchronize", often(gradus_stream_synchronize, cref(f.stream))},
      {"gradus_event_new", any(gradus_event_new)},
      {"gradus_event_record", often(gradus_event_record, cref(f.event), cref(f.stream))},
      {"gradus_stream_wait", often(gradus_stream_wait, cref(f.stream), cref(f.event))},
      {"gradus_event_done", often(gradus_event_done, cref(f.event))},
      {"gradus_event_synchronize", often(gradus_event_synchronize, cref(f.event))},
      {"gradus_pinned", often(gradus_pinned, f.sizes.data(), 2, GRADUS_F32, GRADUS_CPU)},
      {"gradus_to_device_async", often(gradus_to_device_async, cref(f.squares[0]), GRADUS_CPU)},
      {"gradus_copy_async", often(gradus_copy_async, cref(f.squares[0]), cref(f.squares[1]))},
      {"gradus_capture", any(gradus_capture)},
      {"gradus_step_why_not", often(gradus_step_why_not, cref(f.step))},
      {"gradus_step_replay", often(gradus_step_replay, cref(f.step))},
      {"gradus_step_output", often(gradus_step_output, cref(f.step), 0)},
      {"gradus_tensors_new", any(gradus_tensors_new)},
      {"gradus_tensors_add", often(gradus_tensors_add, cref(f.list))},
      {"gradus_tensors_count", often(gradus_tensors_count, cref(f.list))},
      {"gradus_tensors_at", often(gradus_tensors_at, cref(f.list), 0)},
      {"gradus_tensors_find", often(gradus_tensors_find, cref(f.list), "w")},
      {"gradus_read_safetensors", often(gradus_read_safetensors, "w.safetensors")},
      {"gradus_write_safetensors", often(gradus_write_safetensors, "w.safetensors", cref(f.list))},
      {"gradus_read_npy", any(gradus_read_npy)},
      {"gradus_write_npy", any(gradus_write_npy)},
      {"gradus_optimizer_new", often(gradus_optimizer_new, "adam", cref(f.parameters))},
      {"gradus_optimizer_step", often(gradus_optimizer_step, cref(f.optimizer))},
      {"gradus_optimizer_prepare", often(gradus_optimizer_prepare, cref(f.optimizer))},
      {"gradus_optimizer_apply", often(gradus_optimizer_apply, cref(f.optimizer))},
      {"gradus_zero_grad", often(gradus_zero_grad, cref(f.optimizer))},
      {"gradus_optimizer_state", often(gradus_optimizer_state, cref(f.optimizer))},
      {"gradus_network_new",
       often(gradus_network_new, "[{\"linear\": 3}, \"relu\"]", f.sizes.data(), 2, GRADUS_F32)},
      {"gradus_network_forward", often(gradus_network_forward, cref(f.network))},
      {"gradus_network_train", often(gradus_network_train, cref(f.network))},
      {"gradus_network_parameters", often(gradus_network_parameters, cref(f.network))},
      {"gradus_network_state", often(gradus_network_state, cref(f.network))},
      {"gradus_network_load", often(gradus_network_load, cref(f.network), cref(f.state))},
      {"gradus_read_data",
       often(gradus_read_data, "{\"name\": \"digits\", \"train\": 4, \"test\": 2}")},
      {"gradus_epoch_order", any(order_within)},
      {"gradus_trainer_new", often(gradus_trainer_new, kTraining)},
      {"gradus_trainer_step", often(gradus_trainer_step, cref(f.trainer))},
      {"gradus_trainer_finish_epoch", often(gradus_trainer_finish_epoch, cref(f.trainer))},
      {"gradus_trainer_test", often(gradus_trainer_test, cref(f.trainer))},
      {"gradus_trainer_state", often(gradus_trainer_state, cref(f.trainer))},
  };
}

}  // namespace

TEST_CASE("C door: calls with any arguments: no crash, every refusal has a status and a text") {
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

  const int64_t rounds = gradus::test::small_sizes()   ? 20'000
                         : gradus::test::large_sizes() ? 1'000'000
                                                       : 200'000;
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
  // Every function was called, and all but these did something: an error is what gradus_fail()
  // gives, and the others want what a machine may not have.
  const std::set<std::string> may_fail{"gradus_fail", "gradus_cuda", "gradus_load_module",
                                       "gradus_give_library"};  // the CPU is in use
  for (const auto& one : seen) {
    CAPTURE(one.first);
    CHECK((one.second[1] > 0 || may_fail.contains(one.first)));
  }
  CHECK(seen.size() == calls.size());
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
