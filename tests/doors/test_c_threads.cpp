// The C door from eight threads: handles that they share, refusals that they race for, and what is
// each thread's own. Results are checked after the threads have ended.
#include "tests/helpers/c_door.hpp"
#include "tests/helpers/sizes.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <thread>

namespace c_door {

namespace {

constexpr size_t kThreads = 8;
int rounds(int full) { return gradus::test::small_sizes() ? full / 10 : full; }

// Runs work(i) in eight threads, which begin at once. What a check throws ends that thread alone,
// and fails the test.
template <class F>
void in_threads(F&& work) {
  std::atomic<int> broken = 0;
  std::barrier together(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      together.arrive_and_wait();
      try {
        work(i);
      } catch (...) {
        ++broken;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(broken == 0);
}

// What a thread had, to be looked at afterwards.
struct Tally {
  int good = 0, refused = 0, other = 0;
  void add(gradus_status s) { ++(s == GRADUS_OK ? good : s == GRADUS_HANDLE ? refused : other); }
};

gradus_status count_and_double(void* user, gradus_tensor grad, gradus_tensor* replacement) {
  ++*static_cast<std::atomic<int>*>(user);
  return gradus_add(grad, grad, replacement);
}

}  // namespace

TEST_CASE("c threads: handles are shared by readers") {
  const Balance balance;
  const Own x = tensor({1, 2, 3, 4}, {2, 2}), matmul = op("matmul");
  std::array<Doubles, kThreads> last;
  std::array<int, kThreads> wrong{};
  in_threads([&](size_t i) {
    for (int k = 0; k < rounds(300); ++k) {
      const gradus_tensor pair[2] = {x, x};
      Own y, z;
      wrong[i] += gradus_call(matmul, pair, 2, nullptr, 0, y.out(), 1, nullptr) != GRADUS_OK;
      wrong[i] += gradus_add(y, x, z.out()) != GRADUS_OK;
      last[i] = values(z);
      wrong[i] += last[i] != Doubles{8, 12, 18, 26};
    }
  });
  for (size_t i = 0; i < kThreads; ++i) {
    CHECK(wrong[i] == 0);
    CHECK(last[i] == Doubles{8, 12, 18, 26});
  }
}

TEST_CASE("c threads: as many free a handle as have a hold on it, the others are refused") {
  const Balance balance;
  for (int round = 0; round < rounds(200); ++round) {
    const gradus_tensor t = tensor({1, 2, 3}, {3}).given_over();
    for (int k = 0; k < 2; ++k) ok(gradus_retain(t));  // three holds, eight threads
    std::array<Tally, kThreads> freed;
    std::array<int, kThreads> wrong{};
    in_threads([&](size_t i) {
      int64_t n = 0;
      const gradus_status read = gradus_numel(t, &n);
      wrong[i] += read == GRADUS_OK ? n != 3 : read != GRADUS_HANDLE;
      freed[i].add(gradus_free(t));
    });
    Tally all;
    for (size_t i = 0; i < kThreads; ++i) {
      all.good += freed[i].good;
      all.refused += freed[i].refused;
      all.other += freed[i].other + wrong[i];
    }
    CHECK((all.good == 3 && all.refused == 5 && all.other == 0));
  }
}

TEST_CASE("c threads: handles are taken, retained and freed while others read stale ones") {
  const Balance balance;
  // Each thread puts what it makes into a place that others take from; a place is a stale handle as
  // often as a good one.
  std::array<std::atomic<gradus_tensor>, 4> shared{};
  std::array<Tally, kThreads> reads;
  std::array<int, kThreads> wrong{};
  in_threads([&](size_t i) {
    for (int k = 0; k < rounds(2000); ++k) {
      std::atomic<gradus_tensor>& place = shared[(i + size_t(k)) % shared.size()];
      const double mine = double(i * 100000 + size_t(k));
      gradus_tensor made = 0;
      wrong[i] += gradus_from_data(&mine, GRADUS_F64, nullptr, 0, &made) != GRADUS_OK;
      const gradus_tensor old = place.exchange(made);
      const gradus_tensor seen = shared[size_t(k) % shared.size()];
      double value = -1;
      if (seen != 0) {
        const gradus_status s = gradus_item(seen, &value);
        reads[i].add(s);
        wrong[i] += s == GRADUS_OK && !(value >= 0 && value < 800000);
        gradus_tensor negated = 0;
        const gradus_status used = gradus_neg(seen, &negated);
        wrong[i] += used != GRADUS_OK && used != GRADUS_HANDLE;
        wrong[i] += gradus_free(negated) != GRADUS_OK;
        if (gradus_retain(seen) == GRADUS_OK) wrong[i] += gradus_free(seen) != GRADUS_OK;
      }
      wrong[i] += gradus_free(old) != GRADUS_OK;
    }
  });
  int good = 0;
  for (size_t i = 0; i < kThreads; ++i) {
    CHECK(wrong[i] == 0);
    CHECK(reads[i].other == 0);
    good += reads[i].good;
  }
  CHECK(good > 0);
  for (const auto& place : shared) ok(gradus_free(place));
}

TEST_CASE("c threads: errors, seeds, gradient mode and forward levels are each thread's own") {
  const Balance balance;
  const Own x = leaf({2}, {});
  std::array<std::string, kThreads> error;
  std::array<Bits, kThreads> drawn;
  std::array<int, kThreads> recorded{}, wrong{};
  std::array<Doubles, kThreads> moved;
  std::barrier step(kThreads);
  in_threads([&](size_t i) {
    const int64_t shape[1] = {16};
    Own random, y, dy;
    wrong[i] += std::string(gradus_last_error_text()) != "";
    wrong[i] += gradus_free(-100 - int64_t(i)) != GRADUS_HANDLE;
    wrong[i] += gradus_manual_seed(i / 2) != GRADUS_OK;
    wrong[i] += gradus_set_grad_enabled(i % 2 == 0, nullptr) != GRADUS_OK;
    wrong[i] += gradus_forward_begin() != GRADUS_OK;
    const double rate = double(i);
    Own tangent;
    wrong[i] += gradus_from_data(&rate, GRADUS_F64, nullptr, 0, tangent.out()) != GRADUS_OK;
    wrong[i] += gradus_set_tangent(x, tangent) != GRADUS_OK;
    step.arrive_and_wait();  // all of it stands in all threads
    wrong[i] += gradus_randn(shape, 1, GRADUS_F64, random.out()) != GRADUS_OK;
    wrong[i] += gradus_mul(x, x, y.out()) != GRADUS_OK;
    wrong[i] += gradus_requires_grad(y, &recorded[i]) != GRADUS_OK;
    wrong[i] += gradus_tangent(y, dy.out()) != GRADUS_OK;
    moved[i] = values(dy);
    drawn[i] = bits(random);
    error[i] = gradus_last_error_text();
    wrong[i] += gradus_forward_end() != GRADUS_OK;
  });
  for (size_t i = 0; i < kThreads; ++i) {
    CAPTURE(i);
    CHECK(wrong[i] == 0);
    CHECK(error[i] ==
          "gradus_free: handle: expected a handle, got " + std::to_string(-100 - int64_t(i)));
    CHECK(recorded[i] == (i % 2 == 0));
    CHECK(moved[i] == Doubles{4.0 * double(i)});
    for (size_t j = 0; j < kThreads; ++j) CHECK((drawn[i] == drawn[j]) == (i / 2 == j / 2));
  }
}

TEST_CASE("c threads: backward through a leaf that all share, with a hook") {
  const Balance balance;
  const Own x = leaf({1, 2, 3}, {3});
  std::atomic<int> calls = 0;
  Own hook;
  ok(gradus_register_hook(x, count_and_double, &calls, nullptr, hook.out()));
  const int n = rounds(100);
  std::array<int, kThreads> wrong{};
  in_threads([&](size_t i) {
    for (int k = 0; k < n; ++k) {
      Own y, loss;
      wrong[i] += gradus_mul(x, x, y.out()) != GRADUS_OK;
      wrong[i] += gradus_sum(y, nullptr, 0, 0, loss.out()) != GRADUS_OK;
      const gradus_tensor root[1] = {loss};
      wrong[i] += gradus_backward(root, nullptr, 1, 0) != GRADUS_OK;
    }
  });
  CHECK(std::count(wrong.begin(), wrong.end(), 0) == kThreads);
  const int all = n * int(kThreads);
  CHECK(calls == all);
  Own grad;
  ok(gradus_grad(x, grad.out()));
  CHECK(values(grad) == Doubles{4.0 * all, 8.0 * all, 12.0 * all});  // whole numbers: any order
}

TEST_CASE("c threads: the default device is everybody's") {
  const Balance balance;
  int32_t before = 0, reference = 0;
  const char* name = nullptr;
  ok(gradus_current_device(&before));
  ok(gradus_device_name(before, &name));
  ok(gradus_find_device("reference", &reference));
  ok(gradus_use_device("reference"));
  std::array<int32_t, kThreads> seen{}, made{};
  in_threads([&](size_t i) {
    const Own x = tensor({1}, {});
    ok(gradus_current_device(&seen[i]));
    ok(gradus_device(x, &made[i]));
  });
  ok(gradus_use_device(name));
  CHECK(std::count(seen.begin(), seen.end(), reference) == kThreads);
  CHECK(std::count(made.begin(), made.end(), reference) == kThreads);
}

TEST_CASE("c threads: lists, networks and functions may be used by all at once") {
  const Balance balance;
  const int64_t shape[2] = {1, 4};
  Own net, list;
  ok(gradus_network_new(R"([{"linear": 4}])", shape, 2, GRADUS_F64, net.out()));
  ok(gradus_tensors_new(list.out()));
  gradus_function f{};
  f.struct_size = sizeof f;
  f.name = "c_threads_negative";
  f.n_inputs = f.n_outputs = 1;
  f.forward = [](void*, const gradus_tensor* in, gradus_tensor* out) {
    return gradus_neg(in[0], out);
  };
  const Own x = tensor({1, 2, 3, 4}, {1, 4});
  Own y;
  ok(gradus_network_forward(net, x, y.out()));
  const Bits wanted = bits(y);
  std::array<int, kThreads> wrong{};
  const int n = rounds(100);
  in_threads([&](size_t i) {
    for (int k = 0; k < n; ++k) {
      Own out, op, minus;
      wrong[i] += gradus_network_forward(net, x, out.out()) != GRADUS_OK;
      wrong[i] += !(bits(out) == wanted);
      const std::string name = std::to_string(i) + "." + std::to_string(k);
      wrong[i] += gradus_tensors_add(list, name.c_str(), out) != GRADUS_OK;
      wrong[i] += gradus_function_new(&f, op.out()) != GRADUS_OK;
      const gradus_tensor in[1] = {x};
      wrong[i] += gradus_call(op, in, 1, nullptr, 0, minus.out(), 1, nullptr) != GRADUS_OK;
      wrong[i] += values(minus) != Doubles{-1, -2, -3, -4};
    }
  });
  CHECK(std::count(wrong.begin(), wrong.end(), 0) == kThreads);
  size_t count = 0;
  ok(gradus_tensors_count(list, &count));
  CHECK(count == kThreads * size_t(n));
}

}  // namespace c_door
