// Work on many blocks in one call, on the GPU modules against the reference: tables that fill
// several launches, additions that meet in one place, a captured graph that outlives its table.
#include "tests/blocks/block_jobs.hpp"
#include "tests/helpers/gpu_emulator.hpp"

using namespace gpu_test;

namespace {

template <class T>
std::vector<T> after(const gd_table& table, gd_device* device, const BlockJobs& t) {
  BlockBuffers<T> x(t);
  run(table, device, GD_GROUPED, t.op, x.in(t), {x.out.view()}, {}, t.ints);
  return x.out.values();
}

template <class T>
void check(const BlockJobs& t) {
  CAPTURE(int(dtype_of<T>));
  gradus::Device& reference = open_device("reference");
  const std::vector<T> wanted = after<T>(reference.table(), reference.handle(), t);
  const double by = t.op == GD_BLOCK_PRODUCTS || is_half(dtype_of<T>) ? 200 * tolerance<T>() : 0;
  std::vector<T> first;
  for (gd_device* device : emulated()) {
    const std::vector<T> got = after<T>(emulator(), device, t);
    bool right = true;
    for (size_t i = 0; i < got.size(); ++i) right = right && near(got[i], wide(wanted[i]), by);
    CHECK(right);
    if (!first.empty()) CHECK(same_bits(got, first));
    first = got;
  }
}

}  // namespace

TEST_CASE("gpu: products of blocks of every dtype") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, bool>)
      for (const int64_t most : {3, 40})
        check<T>(random_products(4, most, !std::is_same_v<T, uint8_t>));
  });
  check<double>(random_products(60, 6));  // more jobs than one launch takes
  check<c64>(random_products(60, 6));
}

TEST_CASE("gpu: products of blocks in tiles of 64, of every type that sums") {
  // As many blocks of 2 x 2 tiles as give each of the device's units one.
  gd_info info{};
  gd_error e{};
  REQUIRE(emulator().info(0, &info, &e) == GD_OK);
  const Index block{info.units / 4 + 1, 100, 125};
  const auto each = [&](auto zero) {
    BlockJobs t{GD_BLOCK_PRODUCTS, {0, 1}};
    const Index by = laid(block, t.out);
    add_product(t, 1, block, 19, 0, by, true);
    add_product(t, -1, block, 5, 0, by, false);
    check<decltype(zero)>(t);
  };
  each(float()), each(double()), each(c64()), each(c128()), each(int64_t());
}

TEST_CASE("gpu: copies of blocks of every dtype") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    for (const bool add : {false, true})
      for (int round = 0; round < 4; ++round) {
        constexpr bool whole = std::is_same_v<T, bool>;
        if (whole && add) continue;
        check<T>(random_copies(6, 7, add, round > 0 && !whole));
      }
  });
  for (const bool add : {false, true}) check<double>(random_copies(120, 3, add));
}

TEST_CASE("gpu: 0 of the other sign is -0, as on the host") {
  for (gd_device* device : emulated()) {
    const Array<double> a({3});
    Array<double> out({3});
    run(emulator(), device, GD_GROUPED, GD_BLOCK_COPIES, {a.view()}, {out.view()}, {},
        {0, 1, -1, 0, 0, 3, 1, 1});
    for (const double x : out.values()) CHECK((x == 0 && std::signbit(x)));
  }
}

TEST_CASE("gpu: tables that are refused, as the reference refuses them") {
  const Array<double> a({6}), out({4});
  const auto refused = [&](int32_t op, const Index& ints) {
    std::vector<gd_view> in{a.view()};
    if (op == GD_BLOCK_PRODUCTS) in.push_back(a.view());
    same_refusal(GD_GROUPED, op, in, {out.view()}, {}, ints);
  };
  refused(GD_BLOCK_COPIES, {0, 1, 1, 0, 0, 7, 1, 1});
  refused(GD_BLOCK_COPIES, {0, 1, 1, 0});
  refused(GD_BLOCK_PRODUCTS, {0, 0, 1, 1, 1, 2, 2, 3, 1, 0, 3, 1, 0, 0, 2, 1, 0, 0, 2, 1});
  refused(GD_BLOCK_PRODUCTS, {0, 0, 0, 1, 1, 2, 2, 3, 0, 0, 3, 1, 0, 0, 2, 1, 0, 0, 2, 1});
}

TEST_CASE("gpu: a captured graph holds its table of blocks") {
  const gd_table& t = emulator();
  gd_device* const device = emulated()[0];
  gd_error e{};
  if (!(t.capabilities(device) & GD_CAP_GRAPH)) return;
  void* memory[2];
  const std::vector<double> numbers{1, 2, 3, 4, 5, 6};
  std::vector<double> got(6);
  for (void*& m : memory) {
    REQUIRE(t.alloc(device, 48, &m, &e) == GD_OK);
    REQUIRE(t.copy(device, nullptr, m, numbers.data(), 48, GD_HOST_TO_DEVICE, &e) == GD_OK);
  }
  void* graph = nullptr;
  {
    Index copies{0, 2, -1, 0, 0, 2, 3, 3, 1, 1, 2},
        products{0, 0, 1, 1, 1, 1, 1, 6, 0, 0, 0, 1, 0, 0, 1, 0, 5, 0, 0, 0};
    const int64_t sizes[] = {6}, strides[] = {1};
    const gd_view in[] = {{0, memory[0], GD_F64, 1, 0, sizes, strides},
                          {0, memory[0], GD_F64, 1, 0, sizes, strides}},
                  out{0, memory[1], GD_F64, 1, 0, sizes, strides};
    REQUIRE(t.capture_begin(device, nullptr, &e) == GD_OK);
    for (Index* ints : {&copies, &products}) {
      const bool multiplies = ints == &products;
      const gd_call c{sizeof(gd_call),
                      GD_GROUPED,
                      multiplies ? GD_BLOCK_PRODUCTS : GD_BLOCK_COPIES,
                      multiplies ? 2 : 1,
                      1,
                      0,
                      int32_t(ints->size()),
                      in,
                      &out,
                      nullptr,
                      ints->data(),
                      nullptr,
                      nullptr,
                      0,
                      nullptr};
      REQUIRE_MESSAGE(t.slot[GD_GROUPED](device, nullptr, &c, &e) == GD_OK, e.text);
      std::fill(ints->begin(), ints->end(), -1);
    }
    REQUIRE(t.capture_end(device, nullptr, &graph, &e) == GD_OK);
  }
  REQUIRE(t.graph_launch(device, nullptr, graph, &e) == GD_OK);
  REQUIRE(t.copy(device, nullptr, got.data(), memory[1], 48, GD_DEVICE_TO_HOST, &e) == GD_OK);
  CHECK(got == std::vector<double>{-1, -4, -2, -5, -3, 1 + 4 + 9 + 16 + 25 + 36});
  t.graph_del(device, graph);
  for (void* m : memory) t.free(device, m);
}
