// The slots of the cpu device that move memory or number it: copy, fill, gather, scatter_add,
// random.
#include "engine/abi/philox.hpp"
#include "tests/helpers/cpu_device.hpp"
#include "tests/helpers/sizes.hpp"

using namespace cpu_test;

TEST_CASE("cpu: copy over all layouts and dtypes") {
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    for_all_dtypes([&](auto from) {
      using T = decltype(from);
      for (int li = 0; li < kLayouts; ++li)
        for (Layout lo : {kPlain, kPermuted, kNegative, kGaps}) {
          Array<T> a({9, 37, 11}, Layout(li)), b({9, 37, 11}, lo);
          a.fill(small_number<T>);
          call(*dev, GD_COPY, 0, {a.view()}, {b.view()});
          CHECK(same_bits(a.values(), b.values()));
        }
      Array<T> a({3, 200}, kPermuted);
      a.fill(small_number<T>);
      for_all_dtypes([&](auto to) {
        using U = decltype(to);
        if constexpr (!is_complex_v<T> && !std::is_same_v<T, U> && std::is_signed_v<real_of<U>>) {
          Array<U> b({3, 200}, kGaps);
          call(*dev, GD_COPY, 0, {a.view()}, {b.view()});
          each(a.sizes, [&](const Index& i) {
            if constexpr (is_complex_v<U>)
              CHECK(near(b.at(i).re, as_double(a.at(i)), 1e-6));
            else if constexpr (std::is_integral_v<U>)
              CHECK(b.at(i) == U(std::trunc(as_double(a.at(i)))));
          });
        }
      });
    });
    Array<float> x({6});
    const float in[] = {-1.7f, NAN, 3e30f, -3e30f, 255.9f, 0.0f};
    for (int64_t i = 0; i < 6; ++i) x.at({i}) = in[i];
    Array<int32_t> n({6});
    Array<bool> truth({6});
    Array<Half> h({6});
    call(*dev, GD_COPY, 0, {x.view()}, {n.view()});
    call(*dev, GD_COPY, 0, {x.view()}, {truth.view()});
    call(*dev, GD_COPY, 0, {x.view()}, {h.view()});
    CHECK(n.values() == std::vector<int32_t>{-1, 0, INT32_MAX, INT32_MIN, 255, 0});
    CHECK(truth.values() == std::vector<bool>{true, true, true, true, true, false});
    CHECK(std::isinf(float(h.at({2}))));
    // One rounding: through f32 this double would become a tie and round down to 1.
    Array<double> wide({1});
    Array<Half> narrow({1});
    wide.at({0}) = 1 + 0x1p-11 + 0x1p-40;
    call(*dev, GD_COPY, 0, {wide.view()}, {narrow.view()});
    CHECK(float(narrow.at({0})) == 1 + 0x1p-10f);
  }
  // A large transpose, odd on both sides.
  Array<float> a({403, 517}, kPermuted), b({403, 517});
  a.fill(small_number<float>);
  for (const auto& dev : devices()) {
    call(*dev, GD_COPY, 0, {a.view()}, {b.view()});
    CHECK(same_bits(a.values(), b.values()));
  }
}

// Axes in a random order on both sides, forwards and backwards, with gaps, sides expanded.
TEST_CASE("cpu: copies between random orders of axes") {
  auto check = [](auto zero) {
    using T = decltype(zero);
    for (int round = 0; round < 60; ++round) {
      const Index shapes[] = {{61, 83},        {5, 130, 7},        {3, 300, 3},
                              {2, 3, 40, 37},  {4, 4, 4, 4, 4, 4}, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
                              {7, 6, 5, 4, 3}, {16, 9, 33},        {2, 3, 500},
                              {11, 1000, 3}};
      const Index& sizes = shapes[size_t(round) % std::size(shapes)];
      Array<T> a(sizes), b(sizes);
      for (Array<T>* x : {&a, &b}) {
        std::vector<size_t> order(sizes.size());
        for (size_t k = 0; k < order.size(); ++k) order[k] = k;
        std::shuffle(order.begin(), order.end(), rng());
        int64_t step = pick(0, 4) == 0 ? 2 : 1;
        x->offset = 3;
        for (const size_t k : order) {
          x->strides[k] = step;
          step *= sizes[k] + (pick(0, 3) == 0);
          if (x == &a && pick(0, 7) == 0) x->strides[k] = 0;
          if (pick(0, 5) == 0) {
            x->offset += (sizes[k] - 1) * x->strides[k];
            x->strides[k] = -x->strides[k];
          }
        }
        x->length = step + 8;
        x->store.reset(new T[size_t(x->length)]());
      }
      a.fill(small_number<T>);
      b.fill(small_number<T>);
      std::vector<T> before(b.store.get(), b.store.get() + b.length);
      for (const auto& dev : devices()) {
        CAPTURE(dev->name);
        std::copy(before.begin(), before.end(), b.store.get());
        call(*dev, GD_COPY, 0, {a.view()}, {b.view()});
        std::vector<T> want = before;
        each(sizes, [&](const Index& i) { want[size_t(b.place(i))] = a.at(i); });
        CHECK(same_bits(want, std::vector<T>(b.store.get(), b.store.get() + b.length)));
      }
    }
  };
  check(uint8_t{});
  check(BFloat16{});
  check(float{});
  check(double{});
  check(c128{});
}

TEST_CASE("cpu: copies beyond the caches") {
  // Outputs that begin at a line, which goes past the caches as it is, and elsewhere.
  auto check = [](Index sizes, std::vector<size_t> order, bool by_lines) {
    const int64_t n = product(sizes);
    Array<float> a(sizes), b({n + 32});
    int64_t step = 1;
    for (const size_t k : order) {
      a.strides[k] = step;
      step *= sizes[k];
    }
    while ((reinterpret_cast<uintptr_t>(&b.store[size_t(b.offset)]) % 64 == 0) != by_lines)
      ++b.offset;
    const Array<float> plain(sizes);
    gd_view out = b.view();
    out.rank = int32_t(sizes.size());
    out.sizes = sizes.data();
    out.strides = plain.strides.data();
    for (int64_t i = 0; i < a.length; ++i) a.store[size_t(i)] = float(i);
    for (const auto& dev : devices()) {
      CAPTURE(dev->name);
      std::fill(b.store.get(), b.store.get() + b.length, -1.0f);
      call(*dev, GD_COPY, 0, {a.view()}, {out});
      int64_t wrong = 0, at = b.offset;
      each(sizes, [&](const Index& i) { wrong += b.store[size_t(at++)] != a.at(i); });
      CHECK(wrong == 0);
      CHECK(b.store[size_t(at)] == -1);
      CHECK(b.store[size_t(b.offset - 1)] == -1);
    }
  };
  check({1025, 4099}, {0, 1}, false);
  check({48, 33, 65, 48}, {3, 1, 0, 2}, true);
  if (test::small_sizes()) return;
  check({1025, 4096}, {0, 1}, true);
  check({4200003}, {0}, false);
  check({2049, 33, 65}, {2, 0, 1}, false);
  check({65, 30, 139, 16}, {3, 0, 1, 2}, true);
  check({70, 75, 805}, {2, 0, 1}, true);
}

TEST_CASE("cpu: fill") {
  for (const auto& dev : devices()) {
    Array<c64> z({5, 3}, kPermuted);
    Array<int64_t> n({70000}, kGaps);
    Array<BFloat16> h({9}, kNegative);
    call(*dev, GD_FILL, 0, {}, {z.view()}, {1.5, -2});
    call(*dev, GD_FILL, 0, {}, {n.view()}, {}, {(int64_t(1) << 60) + 1});
    call(*dev, GD_FILL, 0, {}, {h.view()}, {3, 0});
    each(z.sizes, [&](const Index& i) { CHECK(z.at(i) == c64(1.5f, -2)); });
    bool equal = true;
    each(n.sizes, [&](const Index& i) { equal = equal && n.at(i) == (int64_t(1) << 60) + 1; });
    CHECK(equal);
    CHECK(n.store[4] == 0);  // the gaps stay
    each(h.sizes, [&](const Index& i) { CHECK(float(h.at(i)) == 3); });
  }
  Array<float> x({2});
  CHECK(has(refusal(GD_FILL, 0, {}, {x.view()}), "no value"));
}

TEST_CASE("cpu: gather and scatter_add") {
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    auto check = [&](auto zero) {
      using T = decltype(zero);
      for (Layout layout : {kPlain, kPermuted, kNegative})
        for (int axis = 0; axis < 3; ++axis)
          for (bool stretched : {false, true}) {
            Index in_sizes = {4, 5, 6}, sizes = in_sizes;
            sizes[size_t(axis)] = 9;
            Array<T> in(in_sizes, layout), out(sizes, kPermuted), source(sizes, layout),
                sum(in_sizes, kGaps);
            Array<int64_t> index(sizes, stretched ? kBroadcast : kPlain);
            in.fill(small_number<T>);
            source.fill(small_number<T>);
            sum.fill(small_number<T>);
            index.fill([&] { return pick(0, in_sizes[size_t(axis)] - 1); });
            call(*dev, GD_GATHER, 0, {in.view(), index.view()}, {out.view()}, {}, {axis});
            std::vector<double> want;
            each(in_sizes, [&](const Index& i) {
              if constexpr (!is_complex_v<T>) want.push_back(as_double(sum.at(i)));
            });
            each(sizes, [&](const Index& i) {
              Index j = i;
              j[size_t(axis)] = index.at(i);
              CHECK(!std::memcmp(&out.at(i), &in.at(j), sizeof(T)));
              if constexpr (!is_complex_v<T>)
                want[size_t((j[0] * in_sizes[1] + j[1]) * in_sizes[2] + j[2])] +=
                    as_double(source.at(i));
            });
            call(*dev, GD_SCATTER_ADD, 0, {index.view(), source.view()}, {sum.view()}, {}, {axis});
            size_t n = 0;
            each(in_sizes, [&](const Index& i) {
              if constexpr (!is_complex_v<T>) CHECK(near(sum.at(i), T(want[n++]), tolerance<T>()));
            });
          }
    };
    check(float{});
    check(int64_t{});
    check(c128{});
    check(Half{});
  }
  Array<float> in({4, 2}), out({3, 2});
  Array<int32_t> index({3, 2});
  index.at({1, 1}) = 4;
  index.at({2, 0}) = -7;
  CHECK(has(refusal(GD_GATHER, 0, {in.view(), index.view()}, {out.view()}, {}, {0}),
            "index 4 is outside [0, 4)"));
  CHECK(
      has(refusal(GD_SCATTER_ADD, 0, {index.view(), out.view()}, {in.view()}, {}, {0}), "index 4"));
  CHECK(has(refusal(GD_GATHER, 0, {in.view(), index.view()}, {out.view()}, {}, {2}), "axis 2"));
}

TEST_CASE("cpu: random numbers are Philox at base + relative + i") {
  Array<int64_t> state({2});
  state.at({0}) = 12345;
  state.at({1}) = 17;
  for (const auto& dev : devices()) {
    Array<float> u({7, 13}, kPermuted), z({20001});
    Array<double> w({333}, kNegative);
    Array<bool> m({1000});
    call(*dev, GD_RANDOM, GD_UNIFORM, {state.view()}, {u.view()}, {-1, 3}, {5});
    call(*dev, GD_RANDOM, GD_NORMAL, {state.view()}, {z.view()}, {1, 2}, {6});
    call(*dev, GD_RANDOM, GD_UNIFORM, {state.view()}, {w.view()}, {0, 1}, {0});
    call(*dev, GD_RANDOM, GD_BERNOULLI, {state.view()}, {m.view()}, {0.25}, {1});
    uint64_t n = 22;
    each(u.sizes, [&](const Index& i) {
      CHECK(u.at(i) == float(-1 + 4 * uniform(random_bits(12345, n++), 24)));
    });
    n = 23;
    bool equal = true;
    each(z.sizes, [&](const Index& i) {
      equal = equal && z.at(i) == float(1 + 2 * normal_f64(random_bits(12345, n++)));
    });
    CHECK(equal);
    n = 17;
    each(w.sizes, [&](const Index& i) { CHECK(w.at(i) == uniform(random_bits(12345, n++))); });
    n = 18;
    each(m.sizes,
         [&](const Index& i) { CHECK(m.at(i) == (uniform(random_bits(12345, n++)) < 0.25)); });
  }
}
