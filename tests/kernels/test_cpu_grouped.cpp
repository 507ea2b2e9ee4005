// The slot grouped: the reference against naive loops, every instruction set against the reference,
// one thread and three bit for bit; what is refused.
#include "kernels/reference/reference.hpp"
#include "tests/blocks/block_jobs.hpp"
#include "tests/helpers/sizes.hpp"

using namespace cpu_test;

namespace {

template <class T>
T narrow(Wide<T> x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T(float(x));
  else
    return T(x);
}

template <class T>
void naive_products(const BlockJobs& t, const BlockBuffers<T>& x, T* out) {
  const T *a = x.a.store.get() + x.a.offset, *b = x.b.store.get() + x.b.offset;
  const auto read = [](const T* from, int64_t at, bool conj) {
    return conj ? conj_of(wide(from[at])) : wide(from[at]);
  };
  for (int64_t job = 0; job < t.product_count(); ++job) {
    const gd_block_product& p = t.products()[job];
    each({p.batch, p.m, p.n}, [&](const Index& i) {
      Wide<T> sum(0);
      for (int64_t k = 0; k < p.k; ++k)
        sum = sum + read(a, p.a + i[0] * p.a_batch + i[1] * p.a_m + k * p.a_k, t.ints[0]) *
                        read(b, p.b + i[0] * p.b_batch + k * p.b_k + i[2] * p.b_n, t.ints[1]);
      T& to = out[p.c + i[0] * p.c_batch + i[1] * p.c_m + i[2] * p.c_n];
      if (p.sign < 0) sum = Wide<T>(0) - sum;
      to = narrow<T>(p.first ? sum : wide(to) + sum);
    });
  }
}

template <class T>
void naive_copies(const BlockJobs& t, const BlockBuffers<T>& x, T* out) {
  const T* a = x.a.store.get() + x.a.offset;
  const size_t rank = size_t(t.ints[1]);
  for (size_t at = 2; at < t.ints.size(); at += 3 + 3 * rank) {
    const int64_t* const job = t.ints.data() + at;
    each(Index(job + 3, job + 3 + rank), [&](const Index& i) {
      int64_t from = job[1], to = job[2];
      for (size_t d = 0; d < rank; ++d) {
        from += i[d] * job[3 + rank + d];
        to += i[d] * job[3 + 2 * rank + d];
      }
      Wide<T> y(0);
      if (job[0] > 0) y = wide(a[from]);
      if (job[0] < 0) y = Wide<T>(0) - wide(a[from]);
      out[to] = narrow<T>(t.ints[0] ? wide(out[to]) + y : y);
    });
  }
}

template <class T>
std::vector<T> after(const gd_table& table, gd_device* device, const BlockJobs& t) {
  BlockBuffers<T> x(t);
  gd_error e{};
  const gd_status s =
      try_call(table, device, GD_GROUPED, t.op, x.in(t), {x.out.view()}, {}, t.ints, e);
  INFO(e.text);
  REQUIRE(s == GD_OK);
  return x.out.values();
}

template <class T>
bool all_near(const std::vector<T>& got, const std::vector<T>& wanted, double by) {
  bool right = got.size() == wanted.size();
  for (size_t i = 0; right && i < got.size(); ++i) right = near(got[i], wide(wanted[i]), by);
  return right;
}

// The reference, and all devices of the cpu against it.
template <class T>
void check(const BlockJobs& t, bool naive = true) {
  CAPTURE(int(dtype_of<T>));
  CAPTURE(t.ints.size());
  const bool products = t.op == GD_BLOCK_PRODUCTS;
  const std::vector<T> wanted = after<T>(*reference::table(), nullptr, t);
  // Sums of up to 40 terms of size 6, some of them in f32.
  const double by = 200 * tolerance<T>();
  if (naive) {
    BlockBuffers<T> x(t);
    T* const out = x.out.store.get() + x.out.offset;
    products ? naive_products(t, x, out) : naive_copies(t, x, out);
    const std::vector<T> loops = x.out.values();
    CHECK(products ? all_near(wanted, loops, by) : all_near(wanted, loops, tolerance<T>()));
  }
  Agreement<T> agreement;
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    const std::vector<T> got = after<T>(*cpu::table(), dev->d, t);
    if (products || is_half(dtype_of<T>))
      CHECK(all_near(got, wanted, by));
    else
      CHECK(all_near(got, wanted, 0));
    agreement(*dev, got);
  }
}

}  // namespace

TEST_CASE("grouped: products of blocks of every dtype, in any layout") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, bool>)
      for (const int64_t most : {1, 2, 3, 5, 9, 24, 40})
        check<T>(random_products(most < 10 ? 12 : 4, most, !std::is_same_v<T, uint8_t>));
  });
}

TEST_CASE("grouped: large products and many small ones are shared by threads") {
  BlockJobs large{GD_BLOCK_PRODUCTS, {0, 0}};
  for (const int64_t k : {170, 20}) {
    const Index block{1, 170, 170};
    const int64_t c = large.out;
    const Index c_by = laid(block, large.out);
    add_product(large, 1, block, k, c, c_by, true);
    add_product(large, -1, block, 180 - k, c, c_by, false);
  }
  check<double>(large, false);
  check<c64>(large, false);
  check<float>(random_products(1500, 4), false);
  check<c128>(random_products(1500, 3), false);
}

TEST_CASE("grouped: outer products of rows of any length, several of one block") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return;
    for (int round = 0; round < (gradus::test::small_sizes() ? 8 : 24); ++round) {
      BlockJobs t{GD_BLOCK_PRODUCTS, {round % 2, round / 2 % 2}};
      for (int i = 0; i < 6; ++i) {
        const int64_t most = pick(1, 3) * 30;
        const Index wide{pick(1, 3), round == 0 && i == 0 ? 5000 : pick(most - 28, most),
                         pick(1, 9)},
            block{wide[0], wide[i % 2 ? 2 : 1], wide[i % 2 ? 1 : 2]};
        const int64_t c = t.out;
        const Index c_by = laid(block, t.out);
        const bool signs = !std::is_same_v<T, uint8_t>;
        for (int64_t job = 0, jobs = pick(1, 7); job < jobs; ++job)
          add_product(t, signs && pick(0, 1) ? -1 : 1, block, pick(0, 9) == 0 ? 2 : 1, c, c_by,
                      job == 0);
      }
      check<T>(t);
    }
  });
}

TEST_CASE("grouped: outer products of a result so large that it goes past the caches") {
  // Batches of matrices of 9 rows, sums of one and two products; out begins at an odd place.
  BlockJobs t{GD_BLOCK_PRODUCTS, {0, 0}};
  t.out = 1;
  for (const int64_t length : {37, 999, 9001})
    for (const int64_t terms : {1, 2}) {
      const int64_t rows = 9, batch = 20000 / length;
      for (int64_t i = 0; i < terms; ++i) {
        t.ints.insert(t.ints.end(), {i == 0, i == 0 ? 1 : -1, batch, length, rows, 1, t.a, length,
                                     1, 0, t.b, 0, 0, 1, t.out, rows * length, 1, length});
        t.a += batch * length;
        t.b += rows;
      }
      t.out += batch * rows * length;
    }
  t.out = std::max(t.out, (int64_t(16) << 20) / 8);
  check<double>(t, false);
  check<c64>(t, false);
  t.out *= 2;
  check<float>(t, false);
}

TEST_CASE("grouped: blocks to which nothing is added are 0, in any layout") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return;
    BlockJobs t{GD_BLOCK_PRODUCTS, {0, 0}};
    for (int i = 0; i < 12; ++i) {
      const Index block{pick(1, 3), pick(1, 40), pick(1, 40)};
      const int64_t c = t.out;
      const Index c_by = laid(block, t.out);
      add_product(t, 1, block, i % 3 == 0 ? 2 : 0, c, c_by, true);
      add_product(t, 1, block, 0, c, c_by, false);  // what is there stays
    }
    check<T>(t);
  });
  // Large ones, past the caches; the output begins at an odd place.
  BlockJobs large{GD_BLOCK_PRODUCTS, {0, 0}};
  large.out = 1;
  for (const Index& block : {Index{1, 700, 1000}, {3, 37, 999}, {1, 1, 7}, {1, 1000, 1400}}) {
    large.ints.insert(large.ints.end(), {1, 1, block[0], block[1], block[2], 0, 0, 0, 0, 0, 0, 0, 0,
                                         0, large.out, block[1] * block[2], block[2], 1});
    large.out += block[0] * block[1] * block[2];
  }
  check<double>(large, false);
  check<c64>(large, false);
}

TEST_CASE("grouped: copies of blocks of every dtype, in any layout") {
  for_all_dtypes([](auto zero) {
    using T = decltype(zero);
    for (const bool add : {false, true})
      for (int round = 0; round < 12; ++round) {
        constexpr bool whole = std::is_same_v<T, bool>;
        if (whole && add) continue;
        check<T>(random_copies(5, round % 3 == 0 ? 2 : 9, add, !whole));
      }
  });
}

TEST_CASE("grouped: large copies") {
  for (const Index& sizes : {Index{400, 400}, {70, 90, 30}, {8, 30, 50, 2}})
    for (int round = 0; round < (gradus::test::small_sizes() ? 2 : 4); ++round) {
      BlockJobs t{GD_BLOCK_COPIES, {0, int64_t(sizes.size())}};
      for (const int64_t sign : {1, -1, 0, 1}) {
        t.ints.insert(t.ints.end(), {sign, t.a, t.out});
        const Index from = laid(sizes, t.a), to = laid(sizes, t.out);
        for (const Index* x : {&sizes, &from, &to})
          t.ints.insert(t.ints.end(), x->begin(), x->end());
      }
      check<double>(t, false);
      check<c64>(t, false);
      check<BFloat16>(t, false);
    }
}

TEST_CASE("grouped: what is refused") {
  const Array<double> a({6}), b({6}), out({4}), plane({2, 3}), apart({3}, kGaps);
  const Array<float> other({6});
  const auto products = [&](const Index& job, const Index& more = {}) {
    Index ints{0, 0};
    ints.insert(ints.end(), job.begin(), job.end());
    ints.insert(ints.end(), more.begin(), more.end());
    const std::string said =
        refusal(GD_GROUPED, GD_BLOCK_PRODUCTS, {a.view(), b.view()}, {out.view()}, {}, ints);
    gd_error e{};
    CHECK(try_call(*reference::table(), nullptr, GD_GROUPED, GD_BLOCK_PRODUCTS,
                   {a.view(), b.view()}, {out.view()}, {}, ints, e) == GD_INVALID);
    CHECK(said.substr(3) == std::string(e.text).substr(9));  // behind the device's name
    return said;
  };
  //                first, sign, batch, m, n, k, a, by, b, by, c, by
  const Index good{1, 1, 1, 2, 2, 3, 0, 0, 3, 1, 0, 0, 2, 1, 0, 0, 2, 1};
  const auto with = [&](size_t at, int64_t x) {
    Index job = good;
    job[at] = x;
    return job;
  };
  CHECK(products(with(0, 0)) ==
        "cpu grouped products: job 0 goes on with a block of the output that is not the last one");
  Index next = with(0, 0);
  next[14] = 1;
  CHECK(has(products(good, next), "job 1 goes on with a block"));
  CHECK(has(products(with(1, 0)), "job 0: sign 0"));
  CHECK(has(products(with(3, -2)), "job 0: a size is negative: batch 1, m -2, n 2, k 3"));
  CHECK(has(products(with(6, 1)), "job 0: a goes from element 1 to 6 of 6"));
  CHECK(has(products(with(6, -1)), "job 0: a goes from element -1 to "));
  CHECK(has(products(with(12, 8)), "job 0: b goes from element 0 to 17 of 6"));
  CHECK(has(products(with(8, INT64_MAX)), "job 0: a goes from element 0 to 9223372036854775807"));
  CHECK(has(products(with(14, 1)), "job 0: the output goes from element 1 to 4 of 4"));
  for (const size_t at : {3, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17})
    for (const int64_t more : {int64_t(1), int64_t(1) << 31, INT64_MAX - 6})
      CHECK(has(products(with(at, good[at] + more)), " goes from element "));
  CHECK(has(products(with(2, 2)), "job 0: a block of the output has stride 0"));
  CHECK(has(products(with(9, -1)), "job 0: a stride of a is negative"));
  CHECK(has(products(with(16, 0)), "job 0: a block of the output has stride 0"));
  CHECK(has(products(good, {1, 2}), "20 ints are no table of jobs of 18"));
  CHECK(refusal(GD_GROUPED, 7, {a.view(), b.view()}, {out.view()}, {}, {0, 0}) ==
        "cpu grouped: no work on blocks has code 7");
  CHECK(has(refusal(GD_GROUPED, 0, {a.view(), other.view()}, {out.view()}, {}, {0, 0}),
            "b should have dtype f64, got f32"));
  CHECK(has(refusal(GD_GROUPED, 0, {plane.view(), b.view()}, {out.view()}, {}, {0, 0}),
            "a should be a whole buffer of one axis and stride 1, got (2, 3)"));
  CHECK(has(refusal(GD_GROUPED, 1, {apart.view()}, {out.view()}, {}, {0, 0}),
            "a should be a whole buffer of one axis and stride 1, got (3,)"));

  const auto copies = [&](const Index& ints) {
    return refusal(GD_GROUPED, GD_BLOCK_COPIES, {a.view()}, {out.view()}, {}, ints);
  };
  CHECK(copies({0, 1, 2, 0, 0, 3, 1, 1}) == "cpu grouped copies: job 0: sign 2");
  CHECK(has(copies({0, 1, 1, 0, 0, 7, 1, 1}), "job 0: the output goes from element 0 to 6 of 4"));
  CHECK(has(copies({0, 1, 1, 0, 0, 4, 2, 1}), "job 0: a goes from element 0 to 6 of 6"));
  CHECK(has(copies({0, 1, 1, 0, 0, 3, 1, 0}), "job 0: a block of the output has stride 0"));
  CHECK(has(copies({0, 1, 1, 0, 0, -3, 1, 1}), "job 0: size -3 on axis 0"));
  CHECK(has(copies({0, -1}), "blocks of rank -1"));
  CHECK(has(copies({0, 1000}), "blocks of rank 1000"));
  CHECK(has(copies({0, 1, 1, 0, 0}), "3 ints are no table of jobs of 6"));
  const Array<bool> truth({6});
  CHECK(has(refusal(GD_GROUPED, 0, {truth.view(), truth.view()}, {truth.view()}, {}, {0, 0}),
            "dtype bool is not read"));
  CHECK(has(refusal(GD_GROUPED, 1, {truth.view()}, {truth.view()}, {}, {1, 0, 1, 0, 0}),
            "dtype bool is not read: sums and negatives leave it"));
  // Nothing is read where there is nothing to read.
  CHECK(after<double>(*cpu::table(), devices()[0]->d,
                      {GD_BLOCK_COPIES, {0, 1, 0, 99, 0, 4, 9, 1}, 1, 0, 4}) ==
        std::vector<double>(4));
}
