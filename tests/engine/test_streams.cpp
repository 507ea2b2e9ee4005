// Work beside work: on the emulator's devices whose streams work only when somebody waits for them,
// a wait that is missing gives wrong numbers, as a table shows that is deaf to events.
#include "engine/capture/capture.hpp"
#include "engine/streams/pinned.hpp"
#include "engine/streams/uses.hpp"
#include "tests/helpers/emulated_devices.hpp"
#include "tests/helpers/helpers.hpp"

#include <array>
#include <atomic>
#include <thread>

using namespace gradus;
using namespace gradus::testing;

namespace {

// 0 and 1 work at once, 2 and 3 late.
Device& streaming(int index, const gd_table& table = gpu_test::emulator()) {
  gd_device* handle = nullptr;
  gd_error e{};
  REQUIRE_MESSAGE(table.open(index, "{}", &handle, &e) == GD_OK, e.text);
  return gpu_test::kept_device(table, handle, "emu:" + std::to_string(index), index);
}

// Streams do not wait for events, nor the host.
const gd_table& deaf_table() {
  static const gd_table table = [] {
    gd_table t = gpu_test::emulator();
    t.event_wait = [](gd_device*, gd_stream*, gd_event*, gd_error*) { return gd_status(GD_OK); };
    t.event_sync = [](gd_device*, gd_event*, gd_error*) { return gd_status(GD_OK); };
    return t;
  }();
  return table;
}

using Numbers = std::vector<double>;
Numbers count_up(int64_t n, double factor = 1, double more = 0) {
  Numbers x;
  for (int64_t i = 0; i < n; ++i) x.push_back(factor * double(i) + more);
  return x;
}
Tensor counted_on(Device& d, int64_t n) { return Tensor::from(count_up(n), {n}, d); }

// From the default stream to a, to b, and back.
Numbers there_and_back(Device& d) {
  const Ref<Stream> a = Stream::make(d), b = Stream::make(d);
  const Tensor x = counted_on(d, 9) + 1.0;
  Tensor y, z;
  {
    const StreamScope scope(*a);
    y = x * 2.0;
  }
  {
    const StreamScope scope(*b);
    z = y + x;
  }
  return (z * 3.0).to_vector<double>();
}

// Written on a stream while the default one has yet to read it.
Numbers written_after(Device& d) {
  const Ref<Stream> s = Stream::make(d);
  const Tensor x = counted_on(d, 9);
  const Tensor y = x * 2.0;
  const StreamScope scope(*s);
  fill_(x, Tensor(7.0));
  s->synchronize();
  return y.to_vector<double>();
}

// Memory that a stream has yet to read goes back to the pool, and is written by the next owner.
Numbers freed_in_between(Device& d, bool* same) {
  const Ref<Stream> s = Stream::make(d);
  Tensor x = counted_on(d, 9), y;
  {
    const StreamScope scope(*s);
    y = x * 2.0;
  }
  void* const data = x.storage().data();
  x = Tensor();
  const Tensor z = Tensor::full({9}, 5.0, DType::f64, d);
  *same = z.storage().data() == data;
  CHECK(z.to_vector<double>() == Numbers(9, 5));
  const StreamScope scope(*s);
  return y.to_vector<double>();
}

// The contents of a shared buffer are copied on the stream that writes.
Numbers cloned_and_written(Device& d) {
  const Ref<Stream> s = Stream::make(d);
  const Tensor x = counted_on(d, 9) + 0.0;
  const Tensor y = clone(x);
  {
    const StreamScope scope(*s);
    in_place("mul", slice(x, 0, 0, 4), {Tensor(3.0)});
  }
  Numbers all = y.to_vector<double>();
  for (const double v : x.to_vector<double>()) all.push_back(v);
  return all;
}

}  // namespace

TEST_CASE("streams: what they share is in order, and a missing wait is a wrong number") {
  Numbers cloned = count_up(9);
  for (const double v : {0, 3, 6, 9, 4, 5, 6, 7, 8}) cloned.push_back(v);
  bool same = false;
  const auto right = [&](Device& d) {
    CAPTURE(d.name());
    CHECK(there_and_back(d) == count_up(9, 9, 9));
    CHECK(written_after(d) == count_up(9, 2));
    CHECK(freed_in_between(d, &same) == count_up(9, 2));
    CHECK(cloned_and_written(d) == cloned);
  };
  for (const char* name : {"cpu", "reference"}) right(open_device(name));
  for (const int index : {0, 1, 2, 3}) {
    right(streaming(index));
    CHECK(same);
  }
  CHECK(there_and_back(streaming(2, deaf_table())) != count_up(9, 9, 9));
  CHECK(written_after(streaming(2, deaf_table())) != count_up(9, 2));
  CHECK(freed_in_between(streaming(2, deaf_table()), &same) != count_up(9, 2));
  CHECK(cloned_and_written(streaming(2, deaf_table())) != cloned);
}

TEST_CASE("streams: another library's stream and ours wait for each other") {
  for (const bool deaf : {false, true}) {
    const gd_table& t = deaf ? deaf_table() : gpu_test::emulator();
    Device& d = streaming(2, t);
    gd_stream* theirs = nullptr;
    gd_error e{};
    REQUIRE(t.stream_new(d.handle(), &theirs, &e) == GD_OK);
    const auto copy = [&](const Tensor& from, const Tensor& to) {
      REQUIRE(t.copy(d.handle(), theirs, to.storage().data(), from.storage().data(), from.bytes(),
                     GD_ON_DEVICE, &e) == GD_OK);
    };
    const Tensor x = counted_on(d, 9), y = Tensor::zeros({9}, DType::f64, d), z = y.clone_data();
    d.synchronize();
    copy(x, y);
    wait_for_foreign(d, theirs);
    const Tensor doubled = y * 2.0;
    foreign_waits(d, theirs);
    copy(doubled, z);
    CHECK(t.stream_sync(d.handle(), deaf ? nullptr : theirs, &e) == GD_OK);
    CHECK((doubled.to_vector<double>() == count_up(9, 2)) == !deaf);
    wait_for_foreign(d, nullptr);  // the vendor's own: nothing was told to it here
    foreign_waits(d, nullptr);
    CHECK(t.stream_sync(d.handle(), theirs, &e) == GD_OK);
    if (!deaf) CHECK(z.to_vector<double>() == count_up(9, 2));
    // Lent memory is back at once where the stream is known on which it is used again.
    const Tensor zeros = Tensor::zeros({9}, DType::f64, d);
    d.synchronize();
    bool back = false;
    Tensor lent = Tensor::lend(x.storage().data(), x.bytes(), {9}, {1}, 0, DType::f64, d,
                               [&] { back = true; });
    lent.storage().buffer()->uses.load()->giver = theirs;
    const Tensor tripled = lent * 3.0;
    lent = Tensor();
    CHECK(back);
    copy(zeros, x);
    CHECK(t.stream_sync(d.handle(), theirs, &e) == GD_OK);
    CHECK((tripled.to_vector<double>() == count_up(9, 3)) == !deaf);
    t.stream_del(d.handle(), theirs);
  }
  wait_for_foreign(open_device("cpu"), nullptr);
  foreign_waits(open_device("cpu"), nullptr);
}

TEST_CASE("streams: two that share nothing do not wait for each other") {
  static std::atomic<int> waits;
  static gd_table counting = gpu_test::emulator();
  counting.event_wait = [](gd_device* d, gd_stream* s, gd_event* e, gd_error* error) {
    ++waits;
    return gpu_test::emulator().event_wait(d, s, e, error);
  };
  Device& d = streaming(2, counting);
  const Ref<Stream> a = Stream::make(d), b = Stream::make(d);
  Tensor x, y;
  const auto work = [&] {
    for (int i = 0; i < 5; ++i) {
      {
        const StreamScope scope(*a);
        x = x * 2.0 + 1.0;
      }
      const StreamScope scope(*b);
      y = matmul(y, y) * 0.5;
    }
  };
  {
    const StreamScope scope(*a);
    x = Tensor::zeros({4}, DType::f64, d);
  }
  {
    const StreamScope scope(*b);
    y = Tensor::full({3, 3}, 1.0, DType::f64, d);
  }
  work();  // their pools draw from the device's
  waits = 0;
  work();
  CHECK(waits == 0);
  CHECK(x.to_vector<double>() == Numbers(4, 1023));
  CHECK(y.to_vector<double>()[0] > 0);
}

TEST_CASE("streams: kernels' own memory, losses and gradients, on each its bits") {
  const auto step = [](Device& d) {
    const Tensor w = leaf(Tensor::from(count_up(12, 0.1, -0.5), {4, 3}, d));
    const Tensor x = Tensor::from(count_up(20, -0.05, 0.4), {5, 4}, d);
    const Tensor label = Tensor::from(std::vector<int64_t>{2, 0, 1, 1, 2}, {5}, d);
    backward(cross_entropy(matmul(x, w), label));
    const Tensor sums =
        scatter_add(Tensor::zeros({4}, DType::f64, d), 0, label, Tensor::from(count_up(5), {5}, d));
    return std::array<Numbers, 3>{w.grad().to_vector<double>(), sums.to_vector<double>(),
                                  sort(x, 0)[0].to_vector<double>()};
  };
  for (const int index : {0, 2, 3}) {
    Device& d = streaming(index);
    const auto wanted = step(d);
    const Ref<Stream> a = Stream::make(d), b = Stream::make(d);
    for (const Ref<Stream>& s : {a, b}) {
      const StreamScope scope(*s);
      CHECK(step(d) == wanted);
    }
  }
}

TEST_CASE("streams: what a kernel finds wrong is said by whoever waits for it") {
  for (const int index : {0, 2}) {
    Device& d = streaming(index);
    const Ref<Stream> s = Stream::make(d);
    const Tensor x = counted_on(d, 3), at = Tensor::from(std::vector<int64_t>{1, 3}, {2}, d);
    const auto said = [](auto&& f) {
      return error_of(f).find("index 3 is outside [0, 3)") != std::string::npos;
    };
    const auto gathered = [&] {
      const StreamScope scope(*s);
      return gather(x, 0, at);
    };
    if (index == 0) {
      CHECK(said(gathered));
      continue;
    }
    CHECK(said([&] {
      gathered();
      s->synchronize();
    }));
    s->synchronize();
    CHECK(said([&] { (gathered() + 1.0).to_vector<double>(); }));  // on the default stream
    CHECK(said([&] { s->synchronize(); }));
    CHECK(gather(x, 0, Tensor::from(std::vector<int64_t>{1, 2}, {2}, d)).to_vector<double>() ==
          Numbers{1, 2});
  }
}

TEST_CASE("streams: scopes nest, threads have their own, and other devices' are refused") {
  Device &d = streaming(2), &other = streaming(0);
  const Ref<Stream> a = Stream::make(d), b = Stream::make(d), elsewhere = Stream::make(other);
  CHECK(current_stream(d) == nullptr);
  {
    const StreamScope one(*a), beside(*elsewhere);
    CHECK(current_stream(d) == a.get());
    CHECK(current_stream(other) == elsewhere.get());
    {
      const StreamScope two(*b);
      CHECK(current_stream(d) == b.get());
      const StreamScope none(d);
      CHECK(current_stream(d) == nullptr);
    }
    CHECK(current_stream(d) == a.get());
    std::thread([&] { CHECK(current_stream(d) == nullptr); }).join();
    CHECK(error_of([&] { set_current_stream(d, elsewhere.get()); }) ==
          "stream: it is of emu:0, not of emu:2");
    CHECK(current_stream(d) == a.get());
  }
  CHECK(current_stream(d) == nullptr);
  set_current_stream(d, a.get());
  CHECK(current_stream(d) == a.get());
  set_current_stream(d, nullptr);
  CHECK(current_stream(d) == nullptr);
  Device& cpu = open_device("cpu");
  const Ref<Stream> idle = Stream::make(cpu);
  const StreamScope scope(*idle);
  CHECK(current_stream(cpu) == nullptr);
  idle->synchronize();
}

TEST_CASE("streams: events stand for what was told before, once it was recorded") {
  Device& d = streaming(2);
  const Ref<Stream> a = Stream::make(d), b = Stream::make(d);
  const Ref<Event> e = Event::make(d);
  CHECK(e->done());
  e->synchronize();
  b->wait(*e);
  Tensor x;
  {
    const StreamScope scope(*a);
    x = Tensor::full({3}, 2.0, DType::f64, d);
  }
  e->record(a.get());
  CHECK_FALSE(e->done());
  b->wait(*e);
  b->synchronize();
  CHECK(e->done());
  const Tensor y = x + 1.0;
  e->record(nullptr);
  CHECK_FALSE(e->done());
  e->synchronize();
  CHECK(e->done());
  CHECK(y.to_vector<double>() == Numbers(3, 3));
  Device& cpu = open_device("cpu");
  const Ref<Event> idle = Event::make(cpu);
  idle->record(nullptr);
  CHECK(idle->done());
  a->wait(*idle);
  CHECK(error_of([&] { idle->record(a.get()); }) == "event: it is of cpu, the stream of emu:2");
}

TEST_CASE("streams: pinned copies are not waited for, but by who touches the memory") {
  Device& cpu = open_device("cpu");
  for (const int index : {0, 2, 3}) {
    CAPTURE(index);
    const bool late = index >= 2;
    Device& d = streaming(index);
    const Ref<Stream> s = Stream::make(d);
    const Ref<Event> sent = Event::make(d);
    const Tensor host = pinned({9}, DType::f64, d);
    CHECK(&host.device() == &cpu);
    CHECK(is_pinned(host, d));
    copy_(host, counted_on(cpu, 9));
    Tensor there, back;
    {
      const StreamScope scope(*s);
      there = to_async(host, d);
      sent->record(s.get());
      CHECK(sent->done() == !late);
      fill_(host, Tensor(5.0));  // waits for the stream
      CHECK(sent->done());
      there = there * 2.0;
      back = to_async(there, cpu);
      copy_async(back, there);  // in the order of the stream
      sent->record(s.get());
      CHECK(sent->done() == !late);
    }
    CHECK(is_pinned(back, d));
    CHECK((back + 1.0).to_vector<double>() == count_up(9, 2, 1));
    CHECK(sent->done());
    const uint64_t version = back.version();
    copy_async(back, there + 1.0);
    CHECK(back.version() == version + 1);
    CHECK(back.to_vector<double>() == count_up(9, 2, 1));

    // Dropped, and its memory given to the next, while the stream has yet to read it.
    Tensor left = pinned({9}, DType::f64, d);
    void* const data = left.storage().data();
    fill_(left, Tensor(8.0));
    {
      const StreamScope scope(*s);
      copy_async(there, left);
    }
    left = Tensor();
    const Tensor next = pinned({9}, DType::f64, d);
    CHECK(next.storage().data() == data);
    fill_(next, Tensor(-1.0));
    CHECK(there.to_vector<double>() == Numbers(9, 8));
  }
}

TEST_CASE("streams: copies that can't be asynchronous are ordinary ones") {
  Device &cpu = open_device("cpu"), &d = streaming(2), &other = streaming(3);
  CHECK_FALSE(is_pinned(pinned({2}, DType::f64, cpu), cpu));
  const Tensor x = counted_on(cpu, 6);
  const Tensor there = to_async(x, d);
  CHECK(there.to_vector<double>() == count_up(6));
  CHECK(to_async(there, d).same_body(there));
  CHECK(to_async(there, other).to_vector<double>() == count_up(6));
  const Tensor host = pinned({2, 3}, DType::f64, d);
  copy_async(host, there.alias({2, 3}, {1, 2}, 0));
  CHECK(host.to_vector<double>() == Numbers{0, 2, 4, 1, 3, 5});
  copy_async(there.alias({2, 3}, {1, 2}, 0), host * 2.0);
  CHECK(there.to_vector<double>() == count_up(6, 2));
  CHECK(error_of([&] { copy_async(host, there); }) ==
        "copy_async: from f64 (6,) to f64 (2, 3); sizes and dtype must be equal");
  const Tensor w = leaf(counted_on(cpu, 3));
  CHECK(error_of([&] { to_async(w, d); }).find("to_async: the copy would have no history") == 0);
  const NoGrad off;
  CHECK(to_async(w, d).to_vector<double>() == count_up(3));
}

TEST_CASE("streams: recorded steps are replayed on the default stream, whatever stands around") {
  for (const int index : {0, 2}) {
    Device& d = streaming(index);
    const Ref<Stream> s = Stream::make(d);
    const Tensor x = Tensor::full({4}, 1.0, DType::f64, d);
    const StreamScope scope(*s);
    Captured step = capture(d, [&] {
      const Tensor y = exp(x * 2.0) + x;
      return Tensors{sum(y * y), y};
    });
    REQUIRE(step.why_not() == "");
    for (int i = 0; i < 5; ++i) {  // by then as a graph
      add_(x, Tensor(0.5));
      const Tensors out = step.replay();
      const double v = 1.5 + 0.5 * i, y = std::exp(2 * v) + v;
      CHECK(close((out[1] * 1.0).to_vector<double>(), Numbers(4, y)));
      CHECK(close({out[0].item()}, {4 * y * y}));
    }
  }
}

TEST_CASE("streams: what one keeps is given to who needs it") {
  Device& d = streaming(2);
  const Ref<Stream> s = Stream::make(d);
  constexpr size_t kMiB = size_t(1) << 20;
  d.pool().set_limit(8 * kMiB);
  {
    const StreamScope scope(*s);
    const Tensor x = Tensor::zeros({int64_t(6 * kMiB)}, DType::u8, d);
  }
  CHECK(d.pool().stats().live == 6 * kMiB);  // the stream's, which keeps it
  const Tensor y = Tensor::zeros({int64_t(6 * kMiB)}, DType::u8, d);
  CHECK(d.pool().stats().live == 6 * kMiB);
  const StreamScope scope(*s);
  const std::string said = error_of([&] { Tensor::zeros({int64_t(6 * kMiB)}, DType::u8, d); });
  CHECK(said.find("of a limit of 8 MiB") != std::string::npos);
  const Tensor z = Tensor::zeros({1}, DType::f64, d) + 1.0;
  CHECK(z.item() == 1);
}

TEST_CASE("streams: threads with a stream each share what they read") {
  for (const int index : {0, 2}) {
    Device& d = streaming(index);
    const Tensor w = counted_on(d, 16).alias({4, 4}, {4, 1}, 0) + 0.0;
    const Numbers wanted = (matmul(w, w) * 2.0 + w).to_vector<double>();
    std::vector<std::thread> threads;
    std::array<bool, 3> right{};
    for (size_t t = 0; t < right.size(); ++t)
      threads.emplace_back([&, t] {
        const Ref<Stream> s = Stream::make(d);
        const StreamScope scope(*s);
        right[t] = true;
        for (int i = 0; i < 20; ++i)
          right[t] = (matmul(w, w) * 2.0 + w).to_vector<double>() == wanted && right[t];
      });
    for (std::thread& t : threads) t.join();
    CHECK(right == std::array<bool, 3>{true, true, true});
  }
}

TEST_CASE("streams: tensors outlive theirs, and nothing is left") {
  Device& d = streaming(2);
  Stream::standard(d);
  const int64_t before = live_objects();
  {
    Ref<Stream> s = Stream::make(d);
    Tensor x;
    {
      const StreamScope scope(*s);
      s = nullptr;
      x = Tensor::full({5}, 3.0, DType::f64, d) * 2.0;
    }
    CHECK(x.to_vector<double>() == Numbers(5, 6));
  }
  CHECK(live_objects() == before);
  CHECK(d.pool().stats().live == 0);
}
