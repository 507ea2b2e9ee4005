// Many threads on what they share: leaves, graphs, stale views, numbers, hooks, tangents, streams
// of random numbers. ThreadSanitizer runs these; the values are checked everywhere.
#include "engine/forward.hpp"
#include "engine/hooks.hpp"
#include "engine/random.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <barrier>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace gradus;
using namespace gradus::testing;

namespace {

constexpr int kThreads = 4;

int rounds(int n) { return test::small_sizes() ? n / 10 : n; }

// f(0) ... f(kThreads - 1), at once; what one of them throws is thrown here.
void in_threads(const std::function<void(int)>& f) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(kThreads);
  std::barrier start(kThreads);
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      try {
        f(t);
      } catch (...) {
        errors[size_t(t)] = std::current_exception();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& e : errors)
    if (e) std::rethrow_exception(e);
}

}  // namespace

TEST_CASE("threads: backward through shared leaves and nodes loses no sum") {
  const Tensor w = leaf(f64({1, 2, 3, 4}, {2, 2})), b = leaf(f64({1, -1}, {2}));
  const Tensor shared = w * 2.0;
  shared.retain_grad();
  std::atomic<int> accumulated = 0;
  register_post_accumulate_grad_hook(b, [&](const Tensor&) { ++accumulated; });
  const int n = rounds(100);
  in_threads([&](int) {
    for (int i = 0; i < n; ++i) backward(sum(shared + w * 3.0 + b), {.retain_graph = true});
  });
  const double all = double(kThreads) * n;  // small integers: exact in any order
  CHECK(values(w.grad()) == std::vector<double>(4, 5 * all));
  CHECK(values(b.grad()) == std::vector<double>(2, 2 * all));
  CHECK(values(shared.grad()) == std::vector<double>(4, all));
  CHECK(accumulated == int(all));
}

TEST_CASE("threads: after its own backward each finds its own sums in .grad") {
  const Tensor w = leaf(Tensor::full({50000}, 1.0, DType::f64));
  const int n = rounds(200);
  std::atomic<int> missing = 0;
  in_threads([&](int) {
    for (int i = 1; i <= n; ++i) {
      backward(sum(w), {.create_graph = true});  // so that no sum is made in place
      const Tensor seen = w.grad();
      missing += !seen.defined() || seen.to_vector<double>()[0] < i;
    }
  });
  CHECK(missing == 0);
  CHECK(values(w.grad())[0] == double(kThreads) * n);
}

TEST_CASE("threads: sums that must have the same bits each time are made of grad()") {
  std::vector<double> once;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Tensor w = leaf(f64({0.1, 0.7, 1.3}, {3}));
    Tensors parts(kThreads);
    in_threads([&](int t) { parts[size_t(t)] = grad({sum(exp(w * (0.3 + t)))}, {w})[0]; });
    Tensor total = parts[0];
    for (int t = 1; t < kThreads; ++t) total = total + parts[size_t(t)];
    if (repeat == 0) once = values(total);
    CHECK(values(total) == once);
  }
}

TEST_CASE("threads: the leaf of a post-accumulate hook may die while another thread walks") {
  for (int i = 0; i < rounds(200); ++i) {
    Tensor x = leaf(f64({1, 2}, {2}));
    double seen = 0;
    register_post_accumulate_grad_hook(x, [&](const Tensor& leaf) {
      seen = values(leaf)[1] + values(leaf.grad())[1];
      leaf.set_grad(Tensor());
    });
    const Tensor y = sum(x * 3.0);
    std::thread walk([&] { backward(y); });
    x = Tensor();
    walk.join();
    CHECK(seen == 5);
  }
}

TEST_CASE("threads: a view whose base was written is asked by all at once") {
  for (int i = 0; i < rounds(100); ++i) {
    const Tensor x = leaf(f64({1, 2, 3, 4}, {2, 2}));
    const Tensor h = x * 1.0, row = select(h, 0, 1), same = row;
    mul_(h, 2.0);  // row makes its history anew when it is next asked
    in_threads([&](int) {
      CHECK(same.requires_grad());
      CHECK(values(grad({sum(row * row)}, {x}, {}, {.retain_graph = true})[0]) ==
            std::vector<double>{0, 0, 24, 32});
    });
  }
}

TEST_CASE("threads: one number is an operand of all") {
  for (int i = 0; i < rounds(100); ++i) {
    const Tensor number = 3.0;
    in_threads([&](int) {
      CHECK(number.device().name() == default_device().name());
      CHECK(values(f64({1, 2}, {2}) * number) == std::vector<double>{3, 6});
      CHECK(number.item() == 3);
    });
  }
}

TEST_CASE("threads: a tangent is seen by the thread whose level it belongs to alone") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  in_threads([&](int t) {
    for (int i = 0; i < rounds(100); ++i) {
      CHECK_FALSE(x.tangent().defined());
      if (t == 0) {
        CHECK_FALSE((x * x).tangent().defined());
        continue;
      }
      const ForwardLevel level;
      const_cast<ForwardLevel&>(level).set_tangent(x, f64({double(t), 1}, {2}));
      CHECK(values((x * x).tangent()) == std::vector<double>{2.0 * t, 4});
    }
  });
}

TEST_CASE("threads: hooks are removed and tensors dropped while others walk") {
  const Tensor w = leaf(f64({1, 2}, {2}));
  std::atomic<int> called = 0;
  for (int i = 0; i < rounds(100); ++i) {
    HookHandle handle = register_hook(w, [&](const Tensor&) { return ++called, Tensor(); });
    Tensor h = exp(w);
    const Tensor y = sum(h * h);
    in_threads([&](int t) {
      if (t == 0) handle.remove();
      if (t == 1) h = Tensor();
      backward(y, {.retain_graph = true});
    });
    w.set_grad(Tensor());
  }
  const int before = called;
  backward(sum(w));
  CHECK(called == before);
}

TEST_CASE("threads: each draws the numbers of its own seed") {
  const auto draw = [](uint64_t seed) {
    manual_seed(seed);
    return uniform({8}, 0, 1, DType::f64).to_vector<double>();
  };
  std::vector<std::vector<double>> wanted, fresh(kThreads), drawn(kThreads);
  for (int t = 0; t < kThreads; ++t) wanted.push_back(draw(7 + uint64_t(t)));
  const std::vector<double> zero = draw(0);
  manual_seed(123);  // reaches no other thread
  in_threads([&](int t) {
    fresh[size_t(t)] = uniform({8}, 0, 1, DType::f64).to_vector<double>();
    drawn[size_t(t)] = draw(7 + uint64_t(t));
  });
  CHECK(drawn == wanted);
  CHECK(fresh == std::vector<std::vector<double>>(kThreads, zero));
  CHECK(wanted[0] != wanted[1]);
}

TEST_CASE("threads: nobody's code runs under a lock that another call needs") {
  // A hook, and what is told of an addition into .grad, walk into the same leaf again.
  const Tensor x = leaf(f64({1, 2}, {2}));
  int hooked = 0, told = 0;
  register_post_accumulate_grad_hook(x, [&](const Tensor& leaf) {
    const EnableGrad on;
    if (hooked++ < 2) backward(sum(leaf * 10.0));
  });
  struct Grads : Observer {
    std::function<void()> tell;
    void grad_changes(Autograd&, bool) override { tell(); }
    ObserverScope listening{*this};
  };
  {
    Grads grads;
    grads.tell = [&] {
      const EnableGrad on;
      if (told++ == 0) backward(sum(x * 100.0));
    };
    backward(sum(x));
  }
  CHECK(values(x.grad()) == std::vector<double>{121, 121});

  // What is told of the op that makes a view's history anew asks another such view.
  const Tensor h = x * 1.0, first = select(h, 0, 0), second = select(h, 0, 1);
  mul_(h, 2.0);
  struct Calls : Observer {
    const Tensor* view = nullptr;
    bool asked = false;
    void called(const OpContext&, GradFn*) override {
      if (!std::exchange(asked, true)) CHECK(view->requires_grad());
    }
    ObserverScope listening{*this};
  } calls;
  calls.view = &second;
  CHECK(first.requires_grad());
  CHECK(calls.asked);
}

#if !defined(__SANITIZE_THREAD__)  // which lets no child make threads
TEST_CASE("threads: the child of a fork has threads of its own") {
  const auto work = [] {  // enough for all
    const Tensor x = Tensor::full({1 << 20}, 2.0, DType::f64, open_device("cpu"));
    return sum(x * x).item() == double(4 << 20);
  };
  CHECK(work());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(60);  // in place of a child that waits for ever
    ::_exit(work() && work() ? 0 : 1);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(work());
}
#endif
