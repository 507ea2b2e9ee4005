// Devices, memory, streams, events, captured steps and files through the C door.
#include "gradus_paths.hpp"
#include "tests/helpers/c_door.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <unistd.h>

namespace c_door {

namespace {

using gradus::test::TempFolder;

int32_t device_of(gradus_tensor t) {
  int32_t device = 99;
  ok(gradus_device(t, &device));
  return device;
}
std::string name_of(int32_t device) {
  const char* name = nullptr;
  ok(gradus_device_name(device, &name));
  return name;
}
int32_t find(const char* name) {
  int32_t device = 99;
  ok(gradus_find_device(name, &device));
  return device;
}
int32_t current() {
  int32_t device = 99;
  ok(gradus_current_device(&device));
  return device;
}
// The default device is every thread's: other tests find it as it was.
struct DefaultDevice {
  ~DefaultDevice() { ok(gradus_use_device(before.c_str())); }
  std::string before = name_of(current());
};
// What gradus_set_log() heard; nobody listens afterwards.
struct Heard : Counted {
  Heard() {
    ok(gradus_set_log(
        [](void* user, const char* text) {
          static_cast<Heard*>(user)->lines += std::string(text) + "\n";
        },
        this, destroy));
  }
  ~Heard() {
    ok(gradus_set_log(nullptr, nullptr, nullptr));
    CHECK(destroyed == 1);
  }
  std::string lines;
};
// What f writes to standard error, by whatever way.
std::string on_stderr(const std::function<void()>& f) {
  const TempFolder folder;
  const std::string file = folder / "stderr";
  std::fflush(stderr);
  const int before = ::dup(2), to = ::open(file.c_str(), O_CREAT | O_RDWR, 0600);
  ::dup2(to, 2);
  f();
  std::fflush(stderr);
  ::dup2(before, 2);
  ::close(before);
  ::close(to);
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}
bool available(const char* name) {
  int32_t yes = 9;
  ok(gradus_available(name, &yes));
  return yes != 0;
}
// The CPU, and the emulator, whose memory is its own and whose work is late.
std::vector<int32_t> two_devices() {
  std::vector<int32_t> all{GRADUS_CPU};
  const bool built = std::filesystem::exists(GRADUS_LIB_DIR "/gradus_emu.so");
  CHECK(available("emu:0") == built);
  if (built) all.push_back(find("emu:0"));
  return all;
}
gradus_memory stats_of(int32_t device) {
  gradus_memory m{};
  m.struct_size = sizeof m;
  ok(gradus_memory_stats(device, &m));
  return m;
}

}  // namespace

TEST_CASE("c devices: numbers, names and types") {
  const Balance balance;
  CHECK(find("cpu") == GRADUS_CPU);
  CHECK(name_of(GRADUS_CPU) == "cpu");
  CHECK(name_of(-17) == "cpu");
  int32_t type = 99, count = -1, yes = 9;
  ok(gradus_device_type(GRADUS_CPU, &type));
  CHECK(type == GRADUS_TYPE_CPU);
  const int32_t reference = find("reference");
  CHECK(reference >= GRADUS_OTHER_DEVICE);
  CHECK(find("reference") == reference);
  CHECK(name_of(reference) == "reference");
  ok(gradus_device_type(reference, &type));
  CHECK(type == GRADUS_TYPE_OTHER);
  ok(gradus_device_count(&count));
  REQUIRE(count >= 0);
  ok(gradus_cuda_available(&yes));
  CHECK(bool(yes) == available("cuda"));
  if (count > 0) {
    ok(gradus_device_type(0, &type));
    CHECK(type == (yes ? GRADUS_TYPE_CUDA : GRADUS_TYPE_ROCM));
    CHECK(name_of(0).substr(0, 4) == (yes ? "cuda" : "hip"));
  }
  const char* name = nullptr;
  refused_with(gradus_device_name(count, &name), GRADUS_DEVICE, "is not available");
  refused(gradus_device_name(GRADUS_OTHER_DEVICE + 9999, &name), GRADUS_DEVICE,
          "gradus_device_name: device 75535 is none that gradus_find_device() gave");
  refused_with(gradus_find_device("gpu?", &type), GRADUS_CONFIG, "unknown device \"gpu?\"");
  refused(gradus_find_device(nullptr, &type), GRADUS_NULL, "gradus_find_device: name is NULL");
}

TEST_CASE("c devices: what is not there says why") {
  CHECK(available("cpu"));
  CHECK(available("reference"));
  CHECK_FALSE(available("cuda:999"));
  const std::string why = gradus_last_error_text();
  CHECK(why.find("device \"cuda:999\" is not available: ") != std::string::npos);
  int32_t yes = 9;
  refused_with(gradus_available("cud", &yes), GRADUS_CONFIG, "did you mean \"cuda\"?");
  const Own x = tensor({1, 2}, {2});
  Own y;
  if (!available("cuda"))
    refused_with(gradus_cuda(x, y.out()), GRADUS_DEVICE, "device \"cuda\" is not available: ");
  refused_with(gradus_load_module("/no/such.so"), GRADUS_DEVICE,
               "/no/such.so: no such module file: No such file or directory");
  const TempFolder folder;
  const std::string text = folder.write("gradus_text.so", "no ELF");
  refused_with(gradus_load_module(text.c_str()), GRADUS_DEVICE, text + ": cannot be opened: ");
}

TEST_CASE("c devices: the default one is chosen by name, number, object and file") {
  const Balance balance;
  const DefaultDevice as_it_was;
  const TempFolder folder;
  const std::string file = folder.write("device.json", R"({"device": "reference"})");
  const int32_t reference = find("reference");
  for (const char* config : {"reference", R"({"device": "reference"})", file.c_str()}) {
    ok(gradus_use_device("cpu"));
    CHECK(current() == GRADUS_CPU);
    ok(gradus_use_device(config));
    CHECK(current() == reference);
    const Own x = tensor({1, 2}, {2});
    CHECK(device_of(x) == reference);
    Own y;
    ok(gradus_cpu(x, y.out()));
    CHECK(device_of(y) == GRADUS_CPU);
    CHECK(values(y) == Doubles{1, 2});
    Own back;
    ok(gradus_to_device(y, reference, back.out()));
    CHECK(device_of(back) == reference);
    CHECK(bits(back) == bits(x));
  }
  ok(gradus_use_device("-1"));
  CHECK(current() == GRADUS_CPU);
  refused_with(gradus_use_device("refrence"), GRADUS_CONFIG, "did you mean \"reference\"?");
  refused_with(gradus_use_device(R"({"devise": "cpu"})"), GRADUS_CONFIG, "devise");
  refused_with(gradus_use_device("/no/such.json"), GRADUS_IO, "/no/such.json");
  refused(gradus_use_device(nullptr), GRADUS_NULL, "gradus_use_device: config is NULL");
  CHECK(current() == GRADUS_CPU);
  const gradus::test::Variable wanted("GRADUS_DEVICE", "reference");
  ok(gradus_use_default_device());
  CHECK(current() == reference);
}

TEST_CASE("c devices: a fallback is told to the log, and to nobody else") {
  const DefaultDevice as_it_was;
  if (available("cuda:7")) return;
  std::string heard;
  const std::string printed = on_stderr([&] {
    const Heard log;
    ok(gradus_use_device("cuda:7"));
    heard = log.lines;
    ok(gradus_use_device("cpu"));
    CHECK(log.lines == heard);
  });
  CHECK(heard.find("gradus: device \"cuda:7\" is not available: ") == 0);
  CHECK(heard.find(" Using cpu. Set \"fallback\": \"error\" to fail instead.\n") !=
        std::string::npos);
  CHECK(std::count(heard.begin(), heard.end(), '\n') == 1);
  CHECK(current() == GRADUS_CPU);
  CHECK(printed == "");
  // Without a listener it is said to nobody, and with "error" it is refused.
  CHECK(on_stderr([] { ok(gradus_use_device("cuda:7")); }) == "");
  const Heard log;
  refused_with(gradus_use_device(R"({"device": "cuda:7", "fallback": "error"})"), GRADUS_DEVICE,
               "device \"cuda:7\" is not available: ");
  CHECK(log.lines == "");
}

TEST_CASE("c devices: memory is counted, limited and given back") {
  const Balance balance;
  const gradus_memory before = stats_of(GRADUS_CPU);
  const int64_t megabyte[1] = {1 << 20};
  Own x;
  ok(gradus_zeros(megabyte, 1, GRADUS_U8, x.out()));
  const gradus_memory with = stats_of(GRADUS_CPU);
  CHECK(with.live >= before.live + (1 << 20));
  CHECK(with.peak >= with.live);
  x = Own();
  CHECK(stats_of(GRADUS_CPU).live == before.live);
  ok(gradus_memory_trim(GRADUS_CPU));
  CHECK(stats_of(GRADUS_CPU).cached <= with.cached + (1 << 20));

  ok(gradus_memory_limit(GRADUS_CPU, before.live + (1 << 16)));
  CHECK(stats_of(GRADUS_CPU).limit == before.live + (1 << 16));
  const gradus_status status = gradus_full(megabyte, 1, 1, GRADUS_U8, x.out());
  ok(gradus_memory_limit(GRADUS_CPU, before.limit));
  refused_with(status, GRADUS_MEMORY, "limit");
  ok(gradus_full(megabyte, 1, 1, GRADUS_U8, x.out()));
  // A struct of an older header.
  gradus_memory part{};
  std::memset(static_cast<void*>(&part), 0x5a, sizeof part);
  part.struct_size = 16;
  ok(gradus_memory_stats(GRADUS_CPU, &part));
  CHECK(part.live == stats_of(GRADUS_CPU).live);
  CHECK(part.cached == 0x5a5a5a5a5a5a5a5a);
}

TEST_CASE("c streams: work goes to them, events order them, and numbers are right anywhere") {
  const Balance balance;
  for (const int32_t device : two_devices()) {
    CAPTURE(name_of(device));
    Own stream, other, event, x, y, z;
    ok(gradus_stream_new(device, stream.out()));
    ok(gradus_stream_new(device, other.out()));
    ok(gradus_event_new(device, event.out()));
    int32_t done = 9;
    ok(gradus_event_done(event, &done));
    CHECK(done == 1);  // never recorded
    ok(gradus_stream_wait(other, event));
    ok(gradus_to_device(tensor({1, 2, 3}, {3}), device, x.out()));
    ok(gradus_stream_use(stream));
    ok(gradus_mul(x, x, y.out()));
    ok(gradus_event_record(event, stream));
    ok(gradus_stream_use(other));
    ok(gradus_stream_wait(other, event));
    ok(gradus_add(y, x, z.out()));
    ok(gradus_stream_use_default(device));
    ok(gradus_add(z, z, y.out()));
    CHECK(values(y) == Doubles{4, 12, 24});
    ok(gradus_event_synchronize(event));
    ok(gradus_event_done(event, &done));
    CHECK(done == 1);
    ok(gradus_event_record(event, 0));
    ok(gradus_stream_synchronize(stream));
    ok(gradus_synchronize(device));
    // Freeing the stream that is in use, and what was made on it afterwards.
    ok(gradus_stream_use(stream));
    ok(gradus_mul(x, x, z.out()));
    stream = Own();
    ok(gradus_mul(z, x, y.out()));
    ok(gradus_stream_use_default(device));
    CHECK(values(y) == Doubles{1, 8, 27});
    refused(gradus_event_record(event, event), GRADUS_HANDLE,
            "gradus_event_record: handle: expected the handle of a stream, got that of an event");
  }
  const std::vector<int32_t> devices = two_devices();
  if (devices.size() < 2) return;
  Own here, event;
  ok(gradus_stream_new(devices[0], here.out()));
  ok(gradus_event_new(devices[1], event.out()));
  CHECK(gradus_event_record(event, here) == GRADUS_VALUE);
}

TEST_CASE("c streams: pinned memory and copies that the host does not wait for") {
  const Balance balance;
  for (const int32_t device : two_devices()) {
    CAPTURE(name_of(device));
    const int64_t shape[1] = {3};
    Own from, there, doubled, back;
    ok(gradus_pinned(shape, 1, GRADUS_F64, device, from.out()));
    CHECK(device_of(from) == GRADUS_CPU);
    ok(gradus_copy(from, tensor({1, 2, 3}, {3})));
    ok(gradus_to_device_async(from, device, there.out()));
    CHECK(device_of(there) == device);
    ok(gradus_add(there, there, doubled.out()));
    ok(gradus_pinned(shape, 1, GRADUS_F64, device, back.out()));
    ok(gradus_copy_async(back, doubled));
    CHECK(values(back) == Doubles{2, 4, 6});
    ok(gradus_to_device_async(doubled, GRADUS_CPU, back.out()));
    CHECK(values(back) == Doubles{2, 4, 6});
    refused_with(gradus_copy_async(back, tensor({1}, {1})), GRADUS_VALUE, "copy_async: from f64");
    const Own w = leaf({1, 2, 3}, {3});
    refused_with(gradus_copy_async(back, w), GRADUS_AUTOGRAD, "copy_async: ");
  }
}

TEST_CASE("c devices: the emulator's memory is not the host's") {
  const Balance balance;
  for (const int32_t device : two_devices()) {
    if (device == GRADUS_CPU) continue;
    CHECK(name_of(device).substr(0, 3) == "emu");
    int32_t type = 9, cuda = 9;
    ok(gradus_device_type(device, &type));
    CHECK(type == GRADUS_TYPE_OTHER);
    const Own x = tensor({1, 2}, {2});
    Own there, back;
    ok(gradus_to_device(x, device, there.out()));
    ok(gradus_is_cuda(there, &cuda));
    CHECK(cuda == 0);
    const void* at = nullptr;
    refused_with(gradus_data(there, &at), GRADUS_DEVICE, "whose memory the host can't read");
    Own sum;
    CHECK(gradus_add(x, there, sum.out()) != GRADUS_OK);
    ok(gradus_cpu(there, back.out()));
    CHECK(bits(back) == bits(x));
    const gradus_memory m = stats_of(device);
    CHECK(m.live > 0);
  }
}

}  // namespace c_door
