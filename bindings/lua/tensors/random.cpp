// Random tensors: gradus.rand, randn, randint, randperm, the seed, and x:normal_().
#include "bindings/lua/tensors/creation.hpp"
#include "engine/random.hpp"
#include "ops/ops.hpp"

#include <cmath>

namespace gradus::inline v1::lua {

namespace {

// An op without operands, its attributes by name.
Tensor drawn(const char* op, const Shape& sizes, DType dtype, double first, double second) {
  SmallVector<int64_t, 6> size;
  for (const int64_t n : sizes) size.push_back(n);
  return get_op(op).call({}, Attrs{size, first, second, dtype})[0];
}

Tensor complex_of(const Tensor& re, const Tensor& im) {
  const DType dtype =
      re.dtype() == DType::f64 || im.dtype() == DType::f64 ? DType::c128 : DType::c64;
  return add(re, mul(im, Tensor::full({}, {0, 1}, dtype, re.device())));
}

template <bool Normal>
Tensor random_numbers(const Shape& sizes, DType dtype) {
  return Normal ? randn(sizes, dtype) : rand(sizes, dtype);
}
template <bool Normal>
int random_of(lua_State* L) {
  const Asked a(L, Normal ? "randn" : "rand");
  push(L, with_room(L, [&] {
         return a.wanted.finish(
             random_numbers<Normal>(a.sizes, a.wanted.dtype.value_or(DType::f32)));
       }));
  return 1;
}
// gradus.randn_like(x [, options])
template <bool Normal>
int random_like(lua_State* L) {
  constexpr const char* who = Normal ? "randn_like" : "rand_like";
  const Tensor x = self_at(L, who);
  at_most(L, 2, who);
  const Wanted wanted(L, 2, who);
  const DeviceScope scope(x.device());
  push(L, with_room(L, [&] {
         return wanted.finish(random_numbers<Normal>(x.sizes(), wanted.dtype.value_or(x.dtype())));
       }));
  return 1;
}

constexpr int64_t kMostExact = int64_t(1) << 53;  // whole numbers that f64 tells apart

// gradus.randint([low,] high, sizes [, options]): i64 from low to high - 1
int random_integers(lua_State* L) {
  constexpr const char* who = "randint";
  const int top = lua_gettop(L);
  const int options = top > 1 && is_options(L, top) && lua_istable(L, top - 1) ? top : 0;
  const int sizes = options ? top - 1 : top;
  if (sizes < 2 || sizes > 3 || !lua_istable(L, sizes))
    fail(ErrorKind::value, who, "expected gradus.randint(low, high, {2, 3})");
  const int64_t low = sizes == 3 ? integer_at(L, 1, "randint: low") : 0,
                high = integer_at(L, sizes - 1, "randint: high");
  if (low >= high)
    fail(ErrorKind::value, who, "there is no whole number from ", low, " to below ", high);
  if (uint64_t(high) - uint64_t(low) > uint64_t(kMostExact))
    fail(ErrorKind::value, who, "at most 2^53 numbers apart, got ", low, " and ", high);
  const Shape shape = sizes_at(L, sizes, who);
  for (const int64_t n : shape)
    if (n < 0) fail(ErrorKind::shape, who, "a size of ", n);
  const Wanted wanted(L, options, who);
  push(L, with_room(L, [&] {
         const Tensor u = drawn("uniform", shape, DType::f64, 0, 1);
         const Tensor k = cast(floor(u * double(high - low)), DType::i64);
         // A product just below the width may be rounded to it.
         return wanted.finish(minimum(k, high - low - 1) + low);
       }));
  return 1;
}
// gradus.randperm(n [, options]): 0 to n - 1 in random order
int permutation(lua_State* L) {
  at_most(L, 2, "randperm");
  const int64_t n = integer_at(L, 1, "randperm");
  if (n < 0) fail(ErrorKind::shape, "randperm", "of ", n, " numbers");
  const Wanted wanted(L, 2, "randperm");
  push(L, with_room(L, [&] {
         return wanted.finish(argsort(drawn("uniform", {n}, DType::f64, 0, 1), 0));
       }));
  return 1;
}

int seed(lua_State* L) {
  at_most(L, 1, "seed");
  manual_seed(uint64_t(integer_at(L, 1, "seed")));
  return 0;
}

double number_or(lua_State* L, int index, double otherwise, const char* what) {
  if (lua_isnoneornil(L, index)) return otherwise;
  if (lua_type(L, index) != LUA_TNUMBER)
    fail(ErrorKind::value, what, "expected a number, got ", kind_at(L, index));
  return lua_tonumber(L, index);
}
// x:normal_(mean, std), x:uniform_(low, high)
template <bool Normal>
int fill_randomly(lua_State* L) {
  constexpr const char* who = Normal ? "normal_" : "uniform_";
  const Tensor x = self_at(L, who);
  at_most(L, 3, Normal ? "normal_: with the tensor" : "uniform_: with the tensor");
  const double first = number_or(L, 2, 0, who), second = number_or(L, 3, 1, who);
  if (!is_real_float(x.dtype()))
    fail(ErrorKind::dtype, who, "needs real numbers with fractions, the tensor is ", x.dtype());
  const DeviceScope scope(x.device());
  with_room(L, [&] {
    return copy_(x, drawn(Normal ? "normal" : "uniform", x.sizes(), x.dtype(), first, second));
  });
  lua_settop(L, 1);
  return 1;
}

// gradus.complex(re, im): re + i im
int complex_from(lua_State* L) {
  at_most(L, 2, "complex");
  const Tensor re = operand_at(L, 1, "complex: real part"),
               im = operand_at(L, 2, "complex: imaginary part");
  for (const Tensor& part : {re, im})
    if (!part.is_number() && !is_real_float(part.dtype()))
      fail(ErrorKind::dtype, "complex", "expected two tensors of f32 or f64, got ", part.dtype());
  push(L, with_room(L, [&] { return complex_of(re, im); }));
  return 1;
}

}  // namespace

void open_random(lua_State* L) {
  push_methods(L);
  const luaL_Reg methods[] = {{"normal_", bind<fill_randomly<true>>},
                              {"uniform_", bind<fill_randomly<false>>},
                              {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
  const luaL_Reg functions[] = {{"rand", bind<random_of<false>>},
                                {"randn", bind<random_of<true>>},
                                {"rand_like", bind<random_like<false>>},
                                {"randn_like", bind<random_like<true>>},
                                {"randint", bind<random_integers>},
                                {"randperm", bind<permutation>},
                                {"complex", bind<complex_from>},
                                {"seed", bind<seed>},
                                {"manual_seed", bind<seed>},
                                {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
}

}  // namespace gradus::lua
