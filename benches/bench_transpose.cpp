// Copies that change the order of the axes, against a plain copy of the same bytes: memcpy in this
// process on as many threads. The cases are facts of the HPTT benchmark (springer13/hptt), and some
// of many binary axes, as tensor networks have them.
#include "benches/bench.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

namespace gradus::inline v1::bench {
namespace {

using Sizes = std::vector<int64_t>;

// Column-major, as published: axis 0 of the input lies densest, and axis k of the output is axis
// perm[k] of the input.
struct Case {
  int id;
  std::vector<int> perm;
  Sizes size;
};

const Case kCases[] = {
    {1, {1, 0}, {7264, 7264}},
    {3, {1, 0}, {1216, 43408}},
    {5, {0, 2, 1}, {2144, 64, 384}},
    {7, {1, 0, 2}, {384, 384, 355}},
    {9, {1, 0, 2}, {384, 2320, 59}},
    {11, {2, 1, 0}, {2320, 59, 384}},
    {13, {0, 3, 2, 1}, {80, 96, 75, 96}},
    {15, {0, 3, 2, 1}, {80, 16, 75, 582}},
    {17, {2, 1, 3, 0}, {608, 12, 96, 75}},
    {19, {2, 0, 3, 1}, {96, 75, 96, 75}},
    {21, {2, 0, 3, 1}, {96, 12, 608, 75}},
    {23, {1, 0, 3, 2}, {608, 96, 12, 75}},
    {25, {3, 2, 1, 0}, {96, 75, 75, 96}},
    {27, {3, 2, 1, 0}, {96, 12, 75, 608}},
    {29, {0, 4, 2, 1, 3}, {176, 8, 28, 28, 48}},
    {31, {3, 2, 1, 4, 0}, {48, 28, 28, 48, 28}},
    {33, {3, 2, 1, 4, 0}, {48, 4, 28, 352, 28}},
    {35, {2, 0, 4, 1, 3}, {352, 4, 48, 28, 28}},
    {37, {1, 3, 0, 4, 2}, {48, 48, 28, 28, 28}},
    {39, {1, 3, 0, 4, 2}, {48, 352, 4, 28, 28}},
    {41, {4, 3, 2, 1, 0}, {352, 4, 28, 28, 48}},
    {43, {0, 3, 2, 5, 4, 1}, {16, 32, 15, 32, 15, 15}},
    {45, {0, 3, 2, 5, 4, 1}, {16, 10, 15, 103, 15, 15}},
    {47, {3, 2, 0, 5, 1, 4}, {112, 5, 15, 32, 15, 15}},
    {49, {2, 0, 4, 1, 5, 3}, {32, 15, 32, 15, 15, 15}},
    {51, {2, 0, 4, 1, 5, 3}, {32, 5, 112, 15, 15, 15}},
    {53, {3, 2, 5, 1, 0, 4}, {112, 5, 15, 32, 15, 15}},
    {55, {5, 4, 3, 2, 1, 0}, {32, 15, 15, 15, 15, 32}},
    {57, {5, 4, 3, 2, 1, 0}, {32, 5, 15, 15, 15, 112}},
};

// Axis k of `size` lies `strides[k]` elements apart when `order` lists the axes, densest first.
Sizes strides_of(const Sizes& size, const std::vector<int>& order) {
  Sizes strides(size.size());
  int64_t step = 1;
  for (int axis : order) {
    strides[size_t(axis)] = step;
    step *= size[size_t(axis)];
  }
  return strides;
}

struct Copy {
  Sizes size, from, to;
  DType dtype;
  int64_t bytes;
  Memory in, out;

  Copy(const Case& c, DType t)
      : size(c.size),
        dtype(t),
        bytes(std::accumulate(size.begin(), size.end(), int64_t(itemsize(t)), std::multiplies<>())),
        in(size_t(bytes)),
        out(size_t(bytes)) {
    std::vector<int> natural(size.size());
    std::iota(natural.begin(), natural.end(), 0);
    from = strides_of(size, natural);
    to = strides_of(size, c.perm);
    std::memset(in.bytes(), 1, size_t(bytes));
    std::memset(out.bytes(), 2, size_t(bytes));
  }
  void ours(Device& device) {
    const int32_t t = int32_t(dtype), rank = int32_t(size.size());
    const gd_view a{1, in.bytes(), t, rank, 0, size.data(), from.data()},
        b{2, out.bytes(), t, rank, 0, size.data(), to.data()};
    const gd_call call{sizeof(gd_call), GD_COPY, 0,       1,       1, 0,      0, &a, &b,
                       nullptr,         nullptr, nullptr, nullptr, 0, nullptr};
    device.run(call);
  }
  void plain(int threads) {
    const size_t share = size_t(bytes) / size_t(threads);
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t)
      others.emplace_back([=, this] {
        std::memcpy(out.bytes() + size_t(t) * share, in.bytes() + size_t(t) * share, share);
      });
    std::memcpy(out.bytes(), in.bytes(), share);
    for (auto& thread : others) thread.join();
  }
};

void compare(Run& run, const std::string& name, const Case& c, DType dtype, int threads,
             const std::string& group, Target target) {
  const Work work{name + " " + dtype_name(dtype), threads, 0, "GB/s", group};
  if (!run.wants(work.name)) return;
  Copy copy(c, dtype);
  Work sized = work;
  sized.amount = 2 * double(copy.bytes);
  run.compare(sized, [&] { copy.ours(run.device(threads)); },
              {peer(
                  "memcpy", [&] { copy.plain(threads); }, target)});
}

// 2^24 elements over many axes of one extent.
Case many(int axes, int64_t extent, const std::function<int(int)>& axis) {
  Case c{0, {}, Sizes(size_t(axes), extent)};
  for (int k = 0; k < axes; ++k) c.perm.push_back(axis(k));
  return c;
}

}  // namespace

void transposes(Run& run) {
  const std::string group = "transposes of HPTT", kept = group + ", densest axis kept";
  for (const int threads : run.threads()) {
    for (const Case& c : kCases) {
      const std::string name = "transpose " + std::to_string(c.id);
      const bool keeps = c.perm[0] == 0;
      compare(run, name, c, DType::f32, threads, keeps ? kept : group, {});
    }
    const DType t = DType::f64;
    compare(run, "24 binary axes, reversed", many(24, 2, [](int k) { return 23 - k; }), t, threads,
            "many axes", {});
    compare(run, "24 binary axes, rotated by 7", many(24, 2, [](int k) { return (k + 7) % 24; }), t,
            threads, "many axes", {});
    compare(run, "24 binary axes, odd ones first",
            many(24, 2, [](int k) { return k < 12 ? 2 * k + 1 : 2 * (k - 12); }), t, threads,
            "many axes", {});
    compare(run, "24 binary axes, neighbours swapped", many(24, 2, [](int k) { return k ^ 1; }), t,
            threads, "many axes", {});
    compare(run, "15 axes of 3, reversed", many(15, 3, [](int k) { return 14 - k; }), t, threads,
            "many axes", {});
    compare(run, "256^3 rotated", {0, {2, 0, 1}, {256, 256, 256}}, t, threads, "many axes", {});
    compare(run, "2048^2", {0, {1, 0}, {2048, 2048}}, t, threads, "many axes", {});
    for (const DType small : {DType::u8, DType::f16, DType::f32, DType::f64, DType::c128}) {
      if (threads == 1) {
        compare(run, "cached 64^2", {0, {1, 0}, {64, 64}}, small, threads, "", {});
        compare(run, "cached 256^2", {0, {1, 0}, {256, 256}}, small, threads, "", {});
      }
      compare(run, "4000^2", {0, {1, 0}, {4000, 4000}}, small, threads, "", {});
    }
    compare(run, "images to channels last", {0, {1, 0, 2}, {3136, 3, 64}}, DType::f32, threads, "",
            {});
    compare(run, "channels last to images", {0, {1, 0, 2}, {3, 3136, 64}}, DType::f32, threads, "",
            {});
  }
  run.geometric_mean(group, at_most_time(1.3), "memcpy");
  run.geometric_mean(kept, at_most_time(1.1), "memcpy");
  run.geometric_mean("many axes", {}, "memcpy");
}

}  // namespace gradus::bench
