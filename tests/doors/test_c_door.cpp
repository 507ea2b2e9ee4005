// The C door: status, errors and handles; tensors from memory and to memory; the typed functions,
// against numbers computed by hand. All through the functions of gradus.h.
#include "tests/helpers/c_door.hpp"
#include "tests/helpers/sizes.hpp"

#include <array>
#include <cstring>

extern "C" gradus_status gradus_example_in_c(double slope[3]);
extern "C" int gradus_header_in_c99(void);

namespace c_door {

namespace {

const int64_t kThree[1] = {3};

Own of_bytes(const void* data, int32_t dtype, const Shape64& shape) {
  Own t;
  ok(gradus_from_data(data, dtype, shape.data(), shape.size(), t.out()));
  return t;
}
Own lent(void* data, size_t bytes, const Shape64& shape, const Shape64& strides, int64_t offset) {
  Own t;
  ok(gradus_lend(data, bytes, GRADUS_F64, shape.data(), strides.data(), shape.size(), offset,
                 nullptr, nullptr, t.out()));
  return t;
}

}  // namespace

TEST_CASE("c door: the example at the head of gradus.h, compiled as C") {
  const Balance balance;
  double slope[3] = {};
  ok(gradus_example_in_c(slope));
  // sigmoid' = s (1 - s), here by the other formula: 1 / (4 cosh(x / 2)^2).
  const double x[3] = {0.5, -1, 2};
  for (int i = 0; i < 3; ++i)
    CHECK(slope[i] == doctest::Approx(1 / (4 * std::pow(std::cosh(x[i] / 2), 2))).epsilon(1e-14));
  CHECK(gradus_header_in_c99() == GRADUS_ABI_VERSION);
}

TEST_CASE("c door: version and the texts of status codes") {
  CHECK(gradus_abi_version() == GRADUS_ABI_VERSION);
  CHECK(std::string(gradus_version()).find('.') != std::string::npos);
  CHECK(std::string(gradus_status_text(GRADUS_OK)) == "ok");
  CHECK(std::string(gradus_status_text(GRADUS_VALUE)) == "value");
  CHECK(std::string(gradus_status_text(GRADUS_HANDLE)) == "handle");
  CHECK(std::string(gradus_status_text(-1)) == "unknown");
  CHECK(std::string(gradus_status_text(GRADUS_NULL + 1)) == "unknown");
}

TEST_CASE("c door: handles that are none are refused in words") {
  const Balance balance;
  int64_t n = 0;
  refused(gradus_numel(0, &n), GRADUS_HANDLE,
          "gradus_numel: t: expected the handle of a tensor, got 0");
  refused(gradus_numel(-7, &n), GRADUS_HANDLE,
          "gradus_numel: t: expected the handle of a tensor, got -7");
  refused(gradus_numel(INT64_MIN, &n), GRADUS_HANDLE,
          "gradus_numel: t: expected the handle of a tensor, got -9223372036854775808");
  for (const int64_t made_up : {int64_t(1), int64_t(12345), int64_t(1) << 58, INT64_MAX})
    refused(gradus_numel(made_up, &n), GRADUS_HANDLE,
            "gradus_numel: t: expected the handle of a tensor, got a number that is none");
  const Own sigmoid = op("sigmoid");
  refused(gradus_numel(sigmoid, &n), GRADUS_HANDLE,
          "gradus_numel: t: expected the handle of a tensor, got that of an op");
  gradus_tensor freed = tensor({1, 2}, {2}).given_over();
  ok(gradus_free(freed));
  refused(gradus_numel(freed, &n), GRADUS_HANDLE,
          "gradus_numel: t: expected the handle of a tensor, got one that was freed");
  refused(gradus_free(freed), GRADUS_HANDLE,
          "gradus_free: handle: expected a handle, got one that was freed");
  refused(gradus_retain(freed), GRADUS_HANDLE,
          "gradus_retain: handle: expected a handle, got one that was freed");
  refused(gradus_retain(0), GRADUS_HANDLE, "gradus_retain: handle: expected a handle, got 0");
  refused(gradus_free(-1), GRADUS_HANDLE, "gradus_free: handle: expected a handle, got -1");
  ok(gradus_free(0));
  // In a list the place is told.
  const Own x = tensor({1, 2}, {2});
  gradus_tensor y = 0;
  const gradus_tensor pair[2] = {x, freed};
  refused(gradus_call(op("add"), pair, 2, nullptr, 0, &y, 1, nullptr), GRADUS_HANDLE,
          "gradus_call: operands[1]: expected the handle of a tensor, got one that was freed");
  CHECK(y == 0);
  CHECK(n == 0);
}

TEST_CASE("c door: holds are counted, and no handle is given out twice") {
  const Balance balance;
  gradus_tensor t = tensor({4}, {}).given_over();
  ok(gradus_retain(t));
  ok(gradus_free(t));
  double x = 0;
  ok(gradus_item(t, &x));
  CHECK(x == 4);
  ok(gradus_free(t));
  refused_with(gradus_item(t, &x), GRADUS_HANDLE, "got one that was freed");
  for (int i = 0; i < 100; ++i) {
    const Own next = tensor({1}, {});  // in the same place of the table
    CHECK(next != t);
  }
  refused_with(gradus_item(t, &x), GRADUS_HANDLE, "got one that was freed");
}

TEST_CASE("c door: a NULL where a pointer is needed, and nothing is written on an error") {
  const Balance balance;
  const Own x = tensor({1, 2, 3}, {3});
  refused(gradus_numel(x, nullptr), GRADUS_NULL, "gradus_numel: out is NULL");
  refused(gradus_add(x, x, nullptr), GRADUS_NULL, "gradus_add: out is NULL");
  gradus_tensor out = 77;
  refused(gradus_from_data(nullptr, GRADUS_F64, kThree, 1, &out), GRADUS_NULL,
          "gradus_from_data: data is NULL");
  refused(gradus_zeros(nullptr, 1, GRADUS_F64, &out), GRADUS_NULL, "gradus_zeros: shape is NULL");
  refused(gradus_op_find(nullptr, &out), GRADUS_NULL, "gradus_op_find: name is NULL");
  refused(gradus_backward(nullptr, nullptr, 1, 0), GRADUS_NULL, "gradus_backward: roots is NULL");
  CHECK(out == 77);
}

TEST_CASE("c door: the last error stays until the next one; its struct grows at its end") {
  refused_with(gradus_free(-1), GRADUS_HANDLE, "got -1");
  ok(gradus_free(0));
  gradus_error e{sizeof e, 0, nullptr, nullptr};
  ok(gradus_last_error(&e));
  CHECK(e.struct_size == sizeof e);
  CHECK(e.status == GRADUS_HANDLE);
  CHECK(std::string(e.op) == "gradus_free");
  CHECK(std::string(e.text) == gradus_last_error_text());

  const Own a = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  Own out;
  CHECK(gradus_matmul(a, a, out.out()) == GRADUS_SHAPE);
  // A program that was compiled with an older header knows the first two members alone.
  struct {
    gradus_error error;
    char guard[64];
  } wide{};
  std::memset(static_cast<void*>(&wide), 0x5a, sizeof wide);
  const decltype(wide) untouched = wide;
  wide.error.struct_size = 8;
  ok(gradus_last_error(&wide.error));
  CHECK(wide.error.struct_size == 8);
  CHECK(wide.error.status == GRADUS_SHAPE);
  CHECK(wide.error.op == untouched.error.op);
  CHECK(wide.error.text == untouched.error.text);
  // A newer one: what this library does not know stays as it is.
  wide.error.struct_size = sizeof wide;
  ok(gradus_last_error(&wide.error));
  CHECK(std::string(wide.error.op) == "matmul");
  CHECK(std::memcmp(wide.guard, untouched.guard, sizeof wide.guard) == 0);
  wide.error.struct_size = 3;
  refused(gradus_last_error(&wide.error), GRADUS_VALUE,
          "gradus_last_error: gradus_error.struct_size is 3, expected sizeof gradus_error");
  refused(gradus_last_error(nullptr), GRADUS_NULL, "gradus_last_error: gradus_error is NULL");
  CHECK(gradus_fail(GRADUS_OK, "mine") == GRADUS_VALUE);
  CHECK(std::string(gradus_last_error_text()) == "mine");
  CHECK(gradus_fail(GRADUS_IO, nullptr) == GRADUS_IO);
  CHECK(std::string(gradus_last_error_text()).empty());
}

TEST_CASE("c door: numbers of every dtype go in and come out") {
  const Balance balance;
  std::array<unsigned char, 48> data{};
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i * 7 + 1);
  constexpr size_t size[] = {4, 8, 8, 16, 4, 8, 1, 1, 2, 2};
  for (int32_t dtype = GRADUS_F32; dtype <= GRADUS_BF16; ++dtype) {
    CAPTURE(dtype);
    std::array<unsigned char, 48> given = data;
    if (dtype == GRADUS_BOOL) given.fill(1);
    const Own t = of_bytes(given.data(), dtype, {3});
    CHECK(dtype_of(t) == dtype);
    std::array<unsigned char, 48> back{};
    ok(gradus_to_data(t, back.data(), 3 * size[dtype]));
    CHECK(std::memcmp(back.data(), given.data(), 3 * size[dtype]) == 0);
    refused_with(gradus_to_data(t, back.data(), 3 * size[dtype] - 1), GRADUS_VALUE,
                 "gradus_to_data: room for ");
    refused(gradus_to_data(t, nullptr, 3 * size[dtype]), GRADUS_NULL, "gradus_to_data: to is NULL");
  }
  Own t;
  refused(gradus_from_data(data.data(), 10, kThree, 1, t.out()), GRADUS_DTYPE,
          "gradus_from_data: dtype 10 is none; expected GRADUS_F32 ... GRADUS_BF16");
  refused_with(gradus_from_data(data.data(), -1, kThree, 1, t.out()), GRADUS_DTYPE, "dtype -1");
  const int64_t negative[1] = {-3};
  refused(gradus_zeros(negative, 1, GRADUS_F32, t.out()), GRADUS_SHAPE,
          "shape: negative size in (-3,)");
  const Shape64 many(65, 1);
  refused(gradus_zeros(many.data(), 65, GRADUS_F32, t.out()), GRADUS_VALUE,
          "gradus_zeros: shape: 65 are more than 64");
  const int64_t huge[3] = {int64_t(1) << 40, int64_t(1) << 40, 2};
  refused_with(gradus_zeros(huge, 3, GRADUS_F32, t.out()), GRADUS_SHAPE, "overflows");
  if (gradus::test::small_sizes()) return;  // sanitizers end a program that asks for so much
  const int64_t large[1] = {int64_t(1) << 50};
  refused_with(gradus_zeros(large, 1, GRADUS_U8, t.out()), GRADUS_MEMORY, "needs ");
}

TEST_CASE("c door: a bool is 0 or 1, whatever its byte was") {
  const Balance balance;
  uint8_t bytes[3] = {0, 7, 1};
  const int64_t three[1] = {3};
  Own t, lent;
  ok(gradus_from_data(bytes, GRADUS_BOOL, three, 1, t.out()));
  uint8_t back[3] = {};
  ok(gradus_to_data(t, back, 3));
  CHECK(back[0] == 0);
  CHECK(back[1] == 1);
  CHECK(back[2] == 1);
  refused(gradus_lend(bytes, 3, GRADUS_BOOL, three, nullptr, 1, 0, nullptr, nullptr, lent.out()),
          GRADUS_VALUE, "gradus_lend: a bool is 0 or 1, one of these is 7");
  bytes[1] = 1;
  ok(gradus_lend(bytes, 3, GRADUS_BOOL, three, nullptr, 1, 0, nullptr, nullptr, lent.out()));
}

TEST_CASE("c door: what a tensor is") {
  const Balance balance;
  const Own x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  int64_t sizes[3] = {-1, -1, -1};
  size_t ndim = 9;
  refused(gradus_shape(x, sizes, 1, &ndim), GRADUS_VALUE,
          "gradus_shape: room for 1 numbers, the tensor has 2 axes");
  CHECK(ndim == 2);
  CHECK(sizes[0] == -1);
  ok(gradus_shape(x, sizes, 3, &ndim));
  CHECK((sizes[0] == 2 && sizes[1] == 3 && sizes[2] == -1));
  refused(gradus_shape(x, nullptr, 2, &ndim), GRADUS_NULL, "gradus_shape: sizes is NULL");
  Own turned;
  ok(gradus_transpose(x, 0, -1, turned.out()));
  ok(gradus_strides(turned, sizes, 2, &ndim));
  CHECK((sizes[0] == 1 && sizes[1] == 3));
  ok(gradus_ndim(turned, &ndim));
  CHECK(ndim == 2);
  int64_t n = 0;
  ok(gradus_numel(turned, &n));
  CHECK(n == 6);
  int32_t is = 9;
  ok(gradus_is_cuda(x, &is));
  CHECK(is == 0);
  ok(gradus_device(x, &is));
  CHECK(is == GRADUS_CPU);
  const Own scalar = tensor({2.5}, {});
  ok(gradus_shape(scalar, nullptr, 0, &ndim));
  CHECK(ndim == 0);
  double item = 0;
  ok(gradus_item(scalar, &item));
  CHECK(item == 2.5);
  refused(gradus_item(x, &item), GRADUS_SHAPE, "item: one element expected, the shape is (2, 3)");
  // Empty tensors need no memory.
  Own empty;
  const int64_t none[2] = {0, 4};
  ok(gradus_from_data(nullptr, GRADUS_F32, none, 2, empty.out()));
  ok(gradus_to_data(empty, nullptr, 0));
  CHECK(shape_of(empty) == Shape64{0, 4});
}

TEST_CASE("c door: as a person reads it, cut to the room there is") {
  const Own x = tensor({1, 2.5}, {2});
  size_t length = 0;
  ok(gradus_text(x, nullptr, 0, &length));
  std::string whole(length + 1, '#');
  ok(gradus_text(x, whole.data(), whole.size(), nullptr));
  CHECK(whole.back() == 0);
  whole.pop_back();
  CHECK(whole.find("2.5") != std::string::npos);
  CHECK(whole.find('#') == std::string::npos);
  char cut[8];
  std::memset(cut, '#', sizeof cut);
  ok(gradus_text(x, cut, 5, &length));
  CHECK(length == whole.size());
  CHECK(std::string(cut) == whole.substr(0, 4));
  CHECK(cut[5] == '#');
  refused(gradus_text(x, nullptr, 5, &length), GRADUS_NULL, "gradus_text: text is NULL");
}

TEST_CASE("c door: lent memory is read and written where it lies, until the last tensor of it") {
  const Balance balance;
  double data[6] = {0, 1, 2, 3, 4, 5};
  Counted user;
  {
    Own t, row;
    const int64_t shape[2] = {2, 3};
    ok(gradus_lend(data, sizeof data, GRADUS_F64, shape, nullptr, 2, 0, Counted::destroy, &user,
                   t.out()));
    data[4] = 40;
    CHECK(values(t) == Doubles{0, 1, 2, 3, 40, 5});
    ok(gradus_select(t, 0, 1, row.out()));
    t = Own();
    CHECK(user.destroyed == 0);
    const Own seven = tensor({7}, {});
    ok(gradus_copy(row, seven));
    CHECK((data[2] == 2 && data[3] == 7 && data[4] == 7 && data[5] == 7));
    const void* first = nullptr;
    ok(gradus_data(row, &first));
    CHECK(first == data + 3);
    Own own;
    ok(gradus_clone(row, own.out()));
    row = Own();
    CHECK(user.destroyed == 1);
    CHECK(values(own) == Doubles{7, 7, 7});
  }
  CHECK(user.destroyed == 1);
}

TEST_CASE("c door: lent memory with strides of any sign; what leaves it is refused") {
  const Balance balance;
  double data[6] = {0, 1, 2, 3, 4, 5};
  CHECK(values(lent(data, 48, {2, 2}, {3, 2}, 0)) == Doubles{0, 2, 3, 5});
  CHECK(values(lent(data, 48, {6}, {-1}, 5)) == Doubles{5, 4, 3, 2, 1, 0});
  CHECK(values(lent(data, 48, {2, 3}, {0, 1}, 2)) == Doubles{2, 3, 4, 2, 3, 4});
  CHECK(values(lent(data, 48, {2, 2}, {1, 1}, 0)) == Doubles{0, 1, 1, 2});
  CHECK(values(lent(data, 48, {}, {}, 5)) == Doubles{5});
  CHECK(values(lent(data, 48, {0, 3}, {100, 1}, 6)).empty());
  Own turned;  // of what runs backwards
  ok(gradus_sum(lent(data, 48, {2, 3}, {-3, -1}, 5), kThree, 0, 0, turned.out()));
  CHECK(values(turned) == Doubles{15});

  Counted user;
  gradus_tensor out = 77;
  const auto lend = [&](void* at, size_t bytes, Shape64 shape, Shape64 strides, int64_t offset) {
    return gradus_lend(at, bytes, GRADUS_F64, shape.data(), strides.data(), shape.size(), offset,
                       Counted::destroy, &user, &out);
  };
  refused(
      lend(data, 48, {2, 3}, {3, 1}, 1), GRADUS_VALUE,
      "lend: sizes (2, 3), strides (3, 1) and offset 1 of f64 leave the 48 bytes that are lent");
  refused_with(lend(data, 47, {6}, {1}, 0), GRADUS_VALUE, "leave the 47 bytes that are lent");
  refused_with(lend(data, 48, {6}, {-1}, 4), GRADUS_VALUE, "leave the 48 bytes");
  refused_with(lend(data, 48, {1}, {1}, -1), GRADUS_VALUE, "offset -1");
  refused_with(lend(data, 48, {1}, {1}, 6), GRADUS_VALUE, "offset 6");
  refused_with(lend(data, 48, {2}, {INT64_MAX}, 1), GRADUS_VALUE, "leave the 48 bytes");
  refused_with(lend(data, 48, {3, 3}, {INT64_MAX / 2, INT64_MAX / 2}, 0), GRADUS_VALUE, "leave");
  refused_with(lend(data, 48, {int64_t(1) << 40, int64_t(1) << 40}, {0, 0}, 0), GRADUS_SHAPE,
               "overflows");
  refused(lend(nullptr, 48, {6}, {1}, 0), GRADUS_VALUE, "lend: the data is null");
  refused(lend(reinterpret_cast<char*>(data) + 1, 16, {1}, {1}, 0), GRADUS_VALUE,
          "lend: data of f64 must be aligned to 8 bytes");
  CHECK(user.destroyed == 0);
  CHECK(out == 77);
}

TEST_CASE("c door: tensors that are made") {
  const Balance balance;
  Own t;
  const int64_t shape[2] = {2, 2};
  ok(gradus_zeros(shape, 2, GRADUS_F32, t.out()));
  CHECK(values(t) == Doubles{0, 0, 0, 0});
  ok(gradus_ones(shape, 2, GRADUS_I32, t.out()));
  CHECK(values(t) == Doubles{1, 1, 1, 1});
  ok(gradus_full(shape, 2, -2.5, GRADUS_F16, t.out()));
  CHECK(values(t) == Doubles{-2.5, -2.5, -2.5, -2.5});
  CHECK(dtype_of(t) == GRADUS_F16);
  ok(gradus_arange(1, 2, 0.25, GRADUS_F64, t.out()));
  CHECK(values(t) == Doubles{1, 1.25, 1.5, 1.75});
  refused_with(gradus_arange(0, 3, -1, GRADUS_F64, t.out()), GRADUS_VALUE, "arange: ");
  // A number takes the dtype of what it meets.
  Own half, y;
  ok(gradus_number(0.5, half.out()));
  ok(gradus_full(shape, 2, 3, GRADUS_F32, t.out()));
  ok(gradus_mul(t, half, y.out()));
  CHECK(dtype_of(y) == GRADUS_F32);
  CHECK(values(y) == Doubles{1.5, 1.5, 1.5, 1.5});
  Own a, b, c;
  ok(gradus_manual_seed(7));
  ok(gradus_randn(shape, 2, GRADUS_F64, a.out()));
  ok(gradus_randn(shape, 2, GRADUS_F64, b.out()));
  ok(gradus_manual_seed(7));
  ok(gradus_randn(shape, 2, GRADUS_F64, c.out()));
  CHECK(bits(a) == bits(c));
  CHECK_FALSE(bits(a) == bits(b));
}

TEST_CASE("c door: typed functions, by hand") {
  const Balance balance;
  const Own a = tensor({1, -2, 3, 4}, {2, 2}), b = tensor({2, 4, -1, 0.5}, {2, 2});
  Own y;
  ok(gradus_add(a, b, y.out()));
  CHECK(values(y) == Doubles{3, 2, 2, 4.5});
  ok(gradus_sub(a, b, y.out()));
  CHECK(values(y) == Doubles{-1, -6, 4, 3.5});
  ok(gradus_mul(a, b, y.out()));
  CHECK(values(y) == Doubles{2, -8, -3, 2});
  ok(gradus_div(a, b, y.out()));
  CHECK(values(y) == Doubles{0.5, -0.5, -3, 8});
  ok(gradus_matmul(a, b, y.out()));
  CHECK(values(y) == Doubles{4, 3, 2, 14});
  ok(gradus_neg(a, y.out()));
  CHECK(values(y) == Doubles{-1, 2, -3, -4});
  ok(gradus_relu(a, y.out()));
  CHECK(values(y) == Doubles{1, 0, 3, 4});
  const Own x = tensor({0, 1, 4}, {3});
  const double e = 2.718281828459045;
  ok(gradus_exp(x, y.out()));
  CHECK(near(values(y), {1, e, e * e * e * e}));
  ok(gradus_log(tensor({1, e, 1 / e}, {3}), y.out()));
  CHECK(near(values(y), {0, 1, -1}));
  ok(gradus_sqrt(x, y.out()));
  CHECK(values(y) == Doubles{0, 1, 2});
  ok(gradus_sigmoid(x, y.out()));
  CHECK(near(values(y), {0.5, e / (1 + e), 1 / (1 + std::pow(e, -4))}));
  ok(gradus_tanh(x, y.out()));
  CHECK(near(values(y), {0, (e * e - 1) / (e * e + 1), 0.99932929973906703}));
  // exp(log 1), exp(log 3) and so on: thirds and quarters.
  ok(gradus_softmax(tensor({0, std::log(3.0), std::log(2.0), std::log(6.0)}, {2, 2}), -1, y.out()));
  CHECK(near(values(y), {0.25, 0.75, 0.25, 0.75}));
  const int64_t rows[1] = {0}, both[2] = {0, -1};
  ok(gradus_sum(a, rows, 1, 0, y.out()));
  CHECK(values(y) == Doubles{4, 2});
  ok(gradus_sum(a, rows, 1, 1, y.out()));
  CHECK(shape_of(y) == Shape64{1, 2});
  ok(gradus_sum(a, nullptr, 0, 0, y.out()));
  CHECK(values(y) == Doubles{6});
  ok(gradus_mean(a, both, 2, 1, y.out()));
  CHECK(values(y) == Doubles{1.5});
  CHECK(shape_of(y) == Shape64{1, 1});
  ok(gradus_cast(a, GRADUS_I64, y.out()));
  CHECK(dtype_of(y) == GRADUS_I64);
  CHECK(values(y) == Doubles{1, -2, 3, 4});
  refused(gradus_cast(a, 42, y.out()), GRADUS_DTYPE,
          "gradus_cast: dtype 42 is none; expected GRADUS_F32 ... GRADUS_BF16");
}

TEST_CASE("c door: views share memory, clones do not") {
  const Balance balance;
  const Own x = tensor({0, 1, 2, 3, 4, 5}, {2, 3});
  Own view, copy;
  const int64_t flat[1] = {-1}, turned[2] = {1, 0}, wide[3] = {2, 2, 3};
  ok(gradus_slice(x, 1, 2, -4, -2, view.out()));  // columns 2 and 0
  CHECK(values(view) == Doubles{2, 0, 5, 3});
  ok(gradus_clone(x, copy.out()));
  ok(gradus_copy(view, tensor({9}, {})));
  CHECK(values(x) == Doubles{9, 1, 9, 9, 4, 9});
  CHECK(values(copy) == Doubles{0, 1, 2, 3, 4, 5});
  ok(gradus_reshape(x, flat, 1, view.out()));
  CHECK(shape_of(view) == Shape64{6});
  ok(gradus_copy(view, tensor({0, 1, 2, 3, 4, 5}, {6})));
  ok(gradus_permute(x, turned, 2, view.out()));
  CHECK(values(view) == Doubles{0, 3, 1, 4, 2, 5});
  ok(gradus_copy(view, tensor({1, 2}, {2})));  // broadcasts
  CHECK(values(x) == Doubles{1, 1, 1, 2, 2, 2});
  ok(gradus_select(x, -1, -1, view.out()));
  CHECK(values(view) == Doubles{1, 2});
  ok(gradus_expand(x, wide, 3, view.out()));
  CHECK(values(view) == Doubles{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
  const void *base = nullptr, *seen = nullptr;
  ok(gradus_data(x, &base));
  ok(gradus_data(view, &seen));
  CHECK(base == seen);
  refused_with(gradus_select(x, 2, 0, view.out()), GRADUS_INDEX, "select: ");
}

}  // namespace c_door
