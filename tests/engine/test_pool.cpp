// The caching pool over memory that is only counted: reuse of large blocks, the bound of what is
// kept, and statistics that are exact; then on the host's memory, as the system sees it.
#include "engine/kernel_call.hpp"
#include "engine/device/device.hpp"
#include "engine/base/error.hpp"
#include "engine/config/device_config.hpp"
#include "engine/graph.hpp"
#include "engine/capture/capture.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/io_helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <unistd.h>

using namespace gradus;
using namespace gradus::testing;

namespace {

constexpr size_t kMiB = size_t(1) << 20;

// A device's raw memory: addresses that nobody follows.
struct Counted {
  std::map<char*, size_t> out;
  size_t bytes = 0, most = SIZE_MAX, next = kMiB;
  Pool pool{{this,
             [](void* self, size_t n) -> void* {
               auto& c = *static_cast<Counted*>(self);
               if (n > c.most || c.bytes > c.most - n) return nullptr;
               auto* p = reinterpret_cast<char*>(std::exchange(c.next, c.next + n));
               c.out[p] = n;
               c.bytes += n;
               return p;
             },
             [](void* self, void* p) {
               auto& c = *static_cast<Counted*>(self);
               const auto at = c.out.find(static_cast<char*>(p));
               REQUIRE(at != c.out.end());
               c.bytes -= at->second;
               c.out.erase(at);
             }},
            "test:0"};
  void check(size_t live) {
    const PoolStats s = pool.stats();
    CHECK(s.live == live);
    CHECK(s.live + s.cached == bytes);
  }
};

int64_t resident_bytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("the pool: large blocks are cut from larger ones, and joined again") {
  // Freed in every order, the three parts of a segment are one again.
  for (std::vector<int> order :
       {std::vector{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    Counted raw;
    Pool& pool = raw.pool;
    const Pool::Block whole = pool.allocate(10 * kMiB);
    pool.release(whole);
    const Pool::Block parts[] = {pool.allocate(4 * kMiB), pool.allocate(3 * kMiB),  // rounds to 4
                                 pool.allocate(2 * kMiB)};
    auto* const start = static_cast<char*>(whole.data);
    CHECK(parts[0].data == start);
    CHECK(parts[1].data == start + 4 * kMiB);
    CHECK(parts[2].data == start + 8 * kMiB);
    raw.check(10 * kMiB);
    for (const int i : order) pool.release(parts[i]);
    raw.check(0);
    CHECK(pool.allocate(10 * kMiB).data == start);
    CHECK(pool.stats().raw_allocations == 1);
    CHECK(pool.stats().peak == 10 * kMiB);
  }
}

TEST_CASE("the pool: the smallest free piece that is large enough is taken") {
  Counted raw;
  Pool& pool = raw.pool;
  std::map<size_t, Pool::Block> blocks;
  for (const size_t n : {20, 6, 12, 8}) blocks[n] = pool.allocate(n * kMiB);
  for (const auto& [n, block] : blocks) pool.release(block);
  CHECK(pool.allocate(7 * kMiB).data == blocks[8].data);
  CHECK(pool.allocate(7 * kMiB).data == blocks[12].data);
  CHECK(pool.allocate(4 * kMiB).data == static_cast<char*>(blocks[12].data) + 8 * kMiB);
  CHECK(pool.allocate(5 * kMiB).data == blocks[6].data);
  raw.check(26 * kMiB);
  CHECK(raw.out.size() == 4);
}

TEST_CASE("the pool: what is kept is bounded by what was live at once") {
  Counted raw;
  Pool& pool = raw.pool;
  size_t most = 0;
  for (size_t n = 1; n <= 60; ++n) {
    pool.release(pool.allocate(n * 2 * kMiB));
    most = std::max(most, raw.bytes);
  }
  CHECK(most <= 182 * kMiB);  // of 120, a quarter, and 32
  raw.check(0);
  // Small sizes, too: each its own.
  Counted small;
  for (size_t n = 1024; n < kMiB; n += 512) small.pool.release(small.pool.allocate(n));
  CHECK(small.bytes <= 34 * kMiB);
  small.check(0);
  // A step that repeats itself asks the device for nothing after the first.
  const auto step = [&] {
    std::vector<Pool::Block> held;
    for (const size_t n : {30, 7, 2, 16, 9, 2}) held.push_back(pool.allocate(n * kMiB));
    pool.release(held[1]);
    held[1] = pool.allocate(5 * kMiB);
    for (const Pool::Block b : held) pool.release(b);
  };
  step();
  const uint64_t before = pool.stats().raw_allocations;
  for (int n = 0; n < 10; ++n) step();
  CHECK(pool.stats().raw_allocations == before);
}

TEST_CASE("the pool: memory that was long not needed goes back") {
  Counted raw;
  Pool& pool = raw.pool;
  std::vector<Pool::Block> held;
  for (int n = 0; n < 10; ++n) held.push_back(pool.allocate(100 * kMiB));
  for (const Pool::Block b : held) pool.release(b);
  CHECK(raw.bytes == 1000 * kMiB);
  for (int n = 0; n < 1 << 16; ++n) pool.release(pool.allocate(2 * kMiB));
  CHECK(raw.bytes == 1000 * kMiB);
  for (int n = 0; n < 1 << 17; ++n) pool.release(pool.allocate(2 * kMiB));
  CHECK(raw.bytes <= 100 * kMiB);
  raw.check(0);
}

TEST_CASE("the pool: a bound of its own for what is kept, and a segment that stays") {
  Counted raw;
  Pool& pool = raw.pool;
  pool.set_cache_limit(10 * kMiB);
  std::vector<Pool::Block> held;
  for (const size_t n : {4, 6, 8}) held.push_back(pool.allocate(n * kMiB));
  for (const Pool::Block b : held) pool.release(b);
  CHECK(pool.stats().cached == 8 * kMiB);  // those freed first went back
  raw.check(0);
  pool.set_cache_limit(0);
  raw.check(0);
  CHECK(raw.bytes == 0);
  pool.release(pool.allocate(100));
  pool.release(pool.allocate(5 * kMiB));
  CHECK(raw.bytes == 0);
  pool.set_cache_limit(SIZE_MAX);
  pool.reserve(50 * kMiB);
  pool.reserve(70 * kMiB);  // there is one
  CHECK(pool.stats().peak == 6 * kMiB + 12 * kMiB);
  CHECK(raw.bytes == 50 * kMiB);
  pool.release(pool.allocate(30 * kMiB));
  pool.release(pool.allocate(3 * kMiB));
  CHECK(pool.stats().raw_allocations == 6);
  pool.trim();
  raw.check(0);
  CHECK(raw.bytes == 50 * kMiB);
}

TEST_CASE("the pool: the limit and a device that is full see what is kept go back first") {
  Counted raw;
  Pool& pool = raw.pool;
  raw.most = 64 * kMiB;
  const Pool::Block a = pool.allocate(30 * kMiB), b = pool.allocate(30 * kMiB);
  pool.release(a);
  pool.release(b);
  const Pool::Block c = pool.allocate(62 * kMiB);
  raw.check(62 * kMiB);
  CHECK(error_of([&] { pool.allocate(3 * kMiB); }) ==
        "allocate: needs 4 MiB on test:0 but the device leaves no room: 62 MiB live; largest "
        "holders: data 62 MiB");
  raw.check(62 * kMiB);
  pool.release(c);
  pool.set_limit(40 * kMiB);
  const Pool::Block d = pool.allocate(38 * kMiB);  // cut from c's
  CHECK(raw.bytes == 62 * kMiB);
  pool.release(d);
  pool.trim();
  pool.release(pool.allocate(22 * kMiB));
  pool.release(pool.allocate(40 * kMiB));  // what was kept goes: with it, it would be too much
  CHECK(raw.bytes == 40 * kMiB);
  CHECK(error_of([&] { pool.allocate(41 * kMiB); }) ==
        "allocate: needs 42 MiB on test:0 but the limit leaves no room: 0 B live of a limit of "
        "40 MiB");
}

TEST_CASE("the pool: blocks never overlap and bytes are counted, whatever the order") {
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](size_t n) { return size_t(random() % n); };
    Counted raw;
    Pool& pool = raw.pool;
    if (seed == 1) pool.set_cache_limit(20 * kMiB);
    if (seed == 2) pool.reserve(100 * kMiB);
    if (seed == 3) raw.most = 300 * kMiB;
    std::map<char*, std::pair<Pool::Block, size_t>> live;  // by address, with the bytes asked for
    size_t bytes = 0, wrong = 0;
    for (int n = 0; n < 20000; ++n) {
      if (live.size() < 40 && pick(2) == 0) {
        const size_t asked = pick(3) == 0 ? 1 + pick(5000) : 1 + pick(16) * (kMiB / 2) + pick(99);
        Pool::Block block{};
        try {
          block = pool.allocate(asked);
        } catch (const Error&) {
          continue;  // of seed 3
        }
        const auto [at, fresh] =
            live.emplace(static_cast<char*>(block.data), std::pair(block, asked));
        wrong += !fresh;
        if (at != live.begin())
          wrong += std::prev(at)->first + std::prev(at)->second.second > at->first;
        if (std::next(at) != live.end()) wrong += at->first + asked > std::next(at)->first;
        auto segment = raw.out.upper_bound(at->first);
        wrong += segment == raw.out.begin() ||
                 at->first + asked > std::prev(segment)->first + std::prev(segment)->second;
      } else if (!live.empty()) {
        const auto at = std::next(live.begin(), int64_t(pick(live.size())));
        pool.release(at->second.first);
        live.erase(at);
      }
      bytes = 0;
      for (const auto& [data, block] : live) {
        const size_t n1 = block.second;
        const size_t step = n1 <= 4096 ? 64 : n1 <= kMiB ? 512 : 2 * kMiB;
        bytes += (n1 + step - 1) / step * step;
      }
      const PoolStats s = pool.stats();
      wrong += s.live != bytes || s.live + s.cached != raw.bytes;
    }
    CHECK(wrong == 0);
    for (const auto& [data, block] : live) pool.release(block.first);
    raw.check(0);
    pool.trim();
    CHECK(raw.bytes == (seed == 2 ? 100 * kMiB : 0));
  }
}

TEST_CASE("the pool: blocks of growing sizes leave little resident, and a bound of 0 nothing") {
  if (test::small_sizes()) return;  // sanitizers keep what is freed
  // A pool of its own: what others had live lately would count in its bound.
  const Pool::Raw raw{open_device("cpu").handle(),
                      [](void* device, size_t bytes) -> void* {
                        void* data = nullptr;
                        gd_error error{};
                        open_device("cpu").table().alloc(static_cast<gd_device*>(device), bytes,
                                                         &data, &error);
                        return data;
                      },
                      [](void* device, void* data) {
                        open_device("cpu").table().free(static_cast<gd_device*>(device), data);
                      }};
  for (const bool keep : {true, false}) {
    Pool pool(raw, "cpu");
    if (!keep) pool.set_cache_limit(0);
    const int64_t before = resident_bytes();
    int64_t most = 0;
    for (size_t n = 1; n <= 60; ++n) {
      const Pool::Block block = pool.allocate(n << 21);
      std::memset(block.data, 1, n << 21);
      pool.release(block);
      most = std::max(most, resident_bytes() - before);
    }
    CHECK(most < int64_t(keep ? 200 * kMiB : 20 * kMiB));
  }
}

TEST_CASE("the pool: what it keeps is given back when a module lacks memory of its own") {
  static Device* scarce = nullptr;
  static gd_table table = *reference::table();
  table.kind = "scarce";
  table.capabilities = nullptr;  // no memory of the host
  table.slot[GD_FILL] = [](gd_device* d, gd_stream* s, const gd_call* c, gd_error* e) -> gd_status {
    if (scarce->pool().stats().cached == 0) return reference::table()->slot[GD_FILL](d, s, c, e);
    std::strcpy(e->text, "no scratch memory");
    return GD_OOM;
  };
  gd_device* handle = nullptr;
  gd_error error{};
  REQUIRE(table.open(0, "{}", &handle, &error) == GD_OK);
  scarce = new Device(&table, 0, handle, "scarce");  // devices live for ever
  const Tensor x = Tensor::empty({4}, DType::f32, *scarce);
  const auto keep_some = [] { Tensor::empty({5 << 20}, DType::u8, *scarce); };
  const auto fill = [&] { fill_values(x, 3.0, 3); };
  keep_some();
  fill();
  CHECK(x.to_vector<float>() == std::vector<float>(4, 3));
  CHECK(scarce->pool().stats().cached == 0);
  Captured step = capture(*scarce, [&] {
    fill();
    return Tensors{};
  });
  REQUIRE_MESSAGE(step, step.why_not());
  keep_some();
  step.replay();
  CHECK(scarce->pool().stats().cached == 0);
  const Tensor held = Tensor::empty({8}, DType::f32, *scarce);
  table.slot[GD_FILL] = [](gd_device*, gd_stream*, const gd_call*, gd_error* e) -> gd_status {
    std::strcpy(e->text, "no scratch memory");
    return GD_OOM;
  };
  CHECK(test::error_text(ErrorKind::memory, fill).find("no scratch memory") != std::string::npos);
}

TEST_CASE("device config: what the pool keeps and begins with") {
  const auto opened = [](const char* text) {
    return open_configured(parse_device_config(text)).device;
  };
  Device& cpu = *opened(R"({"device": "cpu", "memory_cache": "4MiB"})");
  cpu.pool().trim();
  {
    const Tensor small = Tensor::full({int64_t(3) << 20}, 1.0, DType::u8, cpu);
    const Tensor large = Tensor::full({int64_t(8) << 20}, 1.0, DType::u8, cpu);
  }
  CHECK(cpu.pool().stats().cached == 4 * kMiB);  // 3, as it is rounded
  cpu.pool().set_cache_limit(SIZE_MAX);
  Device& reference = *opened(R"({"device": "reference", "memory_initial": "6MiB"})");
  reference.pool().trim();
  CHECK(reference.pool().stats().cached == 6 * kMiB);
  const auto error = [&](const char* text) {
    return test::error_text(ErrorKind::config, [&] { opened(text); });
  };
  CHECK(error(R"({"device": "cpu", "memory_initial": "2GiB", "memory_cache": "1GiB"})") ==
        "--device: memory_initial (2147483648 bytes) is more than memory_cache (1073741824)");
  CHECK(error(R"({"device": "cpu", "memory_initial": "2GiB", "memory_limit": "1GiB"})") ==
        "--device: memory_initial (2147483648 bytes) is more than memory_limit (1073741824)");
}
