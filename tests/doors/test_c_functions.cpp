// Functions of the caller's through the C door: forward, vjp and jvp as callbacks.
#include "tests/helpers/c_door.hpp"

#include <functional>

namespace c_door {

namespace {

using Handles = const gradus_tensor*;

// y = x^3 with derivatives of ours, unless a test gives others.
struct CubeUser : Counted {
  int forwards = 0, vjps = 0, jvps = 0;
  std::function<gradus_status(Handles in, gradus_tensor* out)> forward = [](Handles in,
                                                                            gradus_tensor* out) {
    Own square;
    ok(gradus_mul(in[0], in[0], square.out()));
    return gradus_mul(square, in[0], out);
  };
  // 3 x^2 times what comes.
  static gradus_status slope(Handles in, gradus_tensor g, gradus_tensor* out) {
    const Own three = tensor({3}, {});
    Own a, b;
    ok(gradus_mul(in[0], in[0], a.out()));
    ok(gradus_mul(a, three, b.out()));
    return gradus_mul(b, g, out);
  }
  std::function<gradus_status(Handles in, Handles out, Handles g, gradus_tensor* result)> vjp =
      [](Handles in, Handles, Handles g, gradus_tensor* result) { return slope(in, g[0], result); };

  gradus_function function(const char* name) {
    gradus_function f{};
    f.struct_size = sizeof f;
    f.name = name;
    f.n_inputs = f.n_outputs = 1;
    f.keep_inputs = 1;
    f.forward = [](void* user, Handles in, gradus_tensor* out) {
      auto& u = *static_cast<CubeUser*>(user);
      ++u.forwards;
      return u.forward(in, out);
    };
    f.vjp = [](void* user, size_t, Handles in, Handles out, Handles g, gradus_tensor* result) {
      auto& u = *static_cast<CubeUser*>(user);
      ++u.vjps;
      return u.vjp(in, out, g, result);
    };
    f.jvp = [](void* user, size_t, Handles in, Handles, Handles t, gradus_tensor* result) {
      ++static_cast<CubeUser*>(user)->jvps;
      return slope(in, t[0], result);
    };
    f.user = this;
    f.destroy = Counted::destroy;
    return f;
  }
};
Own new_function(const gradus_function& f) {
  Own o;
  ok(gradus_function_new(&f, o.out()));
  return o;
}
Own applied(gradus_op f, gradus_tensor x) {
  Own y;
  ok(gradus_call(f, &x, 1, nullptr, 0, y.out(), 1, nullptr));
  return y;
}
Own derived(gradus_tensor y, gradus_tensor x, uint32_t flags = GRADUS_RETAIN_GRAPH) {
  Own g;
  ok(gradus_gradients(&y, nullptr, 1, &x, 1, flags, g.out()));
  return g;
}
gradus_status try_derive(gradus_tensor y, gradus_tensor x, uint32_t flags = GRADUS_RETAIN_GRAPH) {
  Own g;
  return gradus_gradients(&y, nullptr, 1, &x, 1, flags, g.out());
}

}  // namespace

TEST_CASE("c functions: vjp, jvp and derivatives of derivatives") {
  const Balance balance;
  const LevelEnds ends;
  CubeUser user;
  {
    const Own f = new_function(user.function("c_cube"));
    gradus_op_info info{};
    info.struct_size = sizeof info;
    ok(gradus_op_describe(f, &info));
    CHECK(std::string(info.name) == "c_cube");
    CHECK((info.operands == 1 && info.least_operands == 1));
    const Own x = leaf({2}, {}), y = applied(f, x);
    CHECK(values(y) == Doubles{8});
    CHECK((user.forwards == 1 && user.vjps == 0));
    const Own first = derived(y, x, GRADUS_CREATE_GRAPH);
    CHECK(values(first) == Doubles{12});
    const Own second = derived(first, x, GRADUS_CREATE_GRAPH);
    CHECK(values(second) == Doubles{12});
    CHECK(values(derived(second, x)) == Doubles{6});
    ok(gradus_forward_begin());
    const Own t = tensor({5}, {});
    ok(gradus_set_tangent(x, t));
    Own dz;
    const Own z = applied(f, x);
    ok(gradus_tangent(z, dz.out()));
    ok(gradus_forward_end());
    CHECK(values(dz) == Doubles{60});
    CHECK(user.jvps == 1);
    // Without history nothing is kept.
    const Own plain = applied(f, tensor({3}, {}));
    int32_t on = 9;
    ok(gradus_requires_grad(plain, &on));
    CHECK(on == 0);
    CHECK(user.destroyed == 0);
  }
  CHECK(user.destroyed == 1);
  Own none;
  refused_with(gradus_op_find("c_cube", none.out()), GRADUS_VALUE, "there is no op \"c_cube\"");
}

TEST_CASE("c functions: what is kept is there in vjp, the rest is 0") {
  const Balance balance;
  struct Seen {
    gradus_tensor in[2], out[2], g[2];
  } seen{};
  CubeUser user;
  gradus_function f = user.function("c_two");
  f.n_inputs = f.n_outputs = 2;
  f.keep_inputs = 2;
  f.keep_outputs = 1;
  user.forward = [](Handles in, gradus_tensor* out) {
    ok(gradus_mul(in[0], in[1], &out[0]));
    return gradus_add(in[0], in[1], &out[1]);
  };
  Doubles kept_in, kept_out;
  user.vjp = [&](Handles in, Handles out, Handles g, gradus_tensor* result) {
    seen = {{in[0], in[1]}, {out[0], out[1]}, {g[0], g[1]}};
    kept_in = values(in[1]);
    kept_out = values(out[0]);
    return gradus_mul(g[0], in[1], result);
  };
  const Own two = new_function(f);
  const Own a = leaf({3}, {}), b = tensor({7}, {});
  const gradus_tensor in[2] = {a, b};
  gradus_tensor out[2] = {0, 0};
  size_t n = 0;
  ok(gradus_call(two, in, 2, nullptr, 0, out, 2, &n));
  CHECK(n == 2);
  const Own product(out[0]), sum(out[1]);
  CHECK(values(sum) == Doubles{10});
  CHECK(values(derived(product, a)) == Doubles{7});
  CHECK((seen.in[0] == 0 && seen.in[1] != 0));
  CHECK((seen.out[0] != 0 && seen.out[1] == 0));
  CHECK((seen.g[0] != 0 && seen.g[1] == 0));
  CHECK(kept_in == Doubles{7});
  CHECK(kept_out == Doubles{21});
  int64_t numel = 0;
  refused_with(gradus_numel(seen.in[1], &numel), GRADUS_HANDLE, "one that was freed");  // lent
  // A cotangent of 0 is zero.
  user.vjp = [](Handles, Handles, Handles, gradus_tensor* result) {
    *result = 0;
    return GRADUS_OK;
  };
  CHECK(values(derived(product, a, GRADUS_RETAIN_GRAPH | GRADUS_MATERIALIZE_GRADS)) == Doubles{0});
  refused(gradus_call(two, in, 1, nullptr, 0, out, 2, &n), GRADUS_VALUE,
          "c_two: takes 2 operands, got 1");
  const gradus_attr attribute = attr("function", GRADUS_ATTR_INTEGER, 1);
  refused(gradus_call(two, in, 2, &attribute, 1, out, 2, &n), GRADUS_VALUE,
          "c_two: has no attributes");
}

TEST_CASE("c functions: two of a name are two functions") {
  const Balance balance;
  CubeUser one, other;
  other.forward = [](Handles in, gradus_tensor* out) { return gradus_neg(in[0], out); };
  other.vjp = [](Handles, Handles, Handles g, gradus_tensor* out) { return gradus_neg(g[0], out); };
  const Own f = new_function(one.function("c_same")), g = new_function(other.function("c_same"));
  const Own x = leaf({2}, {}), y = applied(f, x), z = applied(g, y);
  CHECK(values(z) == Doubles{-8});
  CHECK(values(derived(z, x)) == Doubles{-12});
  CHECK((one.vjps == 1 && other.vjps == 1));
}

TEST_CASE("c functions: once_differentiable is refused twice") {
  const Balance balance;
  CubeUser user;
  gradus_function f = user.function("c_once");
  f.once_differentiable = 1;
  const Own once = new_function(f);
  const Own x = leaf({2}, {}), y = applied(once, x);
  CHECK(values(derived(y, x)) == Doubles{12});
  const Own first = derived(y, x, GRADUS_CREATE_GRAPH);
  CHECK(values(first) == Doubles{12});
  refused_with(try_derive(first, x), GRADUS_AUTOGRAD, "c_once: differentiated twice");
}

TEST_CASE("c functions: a callback that fails makes the call fail with its text") {
  const Balance balance;
  CubeUser user;
  const Own f = new_function(user.function("c_failing")), x = leaf({2}, {});
  const Own y = applied(f, x);
  const auto good = user.forward;
  user.vjp = [](Handles, Handles, Handles, gradus_tensor*) {
    return gradus_fail(GRADUS_NUMERIC, "no slope here");
  };
  refused(try_derive(y, x), GRADUS_NUMERIC, "c_failing: no slope here");
  user.vjp = [](Handles, Handles, Handles g, gradus_tensor* result) {
    ok(gradus_clone(g[0], result));
    return gradus_fail(GRADUS_VALUE, "after all");
  };
  refused(try_derive(y, x), GRADUS_VALUE, "c_failing: after all");
  user.vjp = [](Handles, Handles, Handles, gradus_tensor* result) {
    *result = 12345;
    return GRADUS_OK;
  };
  refused_with(try_derive(y, x), GRADUS_HANDLE, "vjp: expected the handle of a tensor, got a num");
  const gradus_tensor in[1] = {x};
  Own out;
  user.forward = [](Handles in2, gradus_tensor* o) {
    ok(gradus_clone(in2[0], o));
    return gradus_fail(GRADUS_IO, "the disk is full");
  };
  refused(gradus_call(f, in, 1, nullptr, 0, out.out(), 1, nullptr), GRADUS_IO,
          "c_failing: the disk is full");
  user.forward = [](Handles, gradus_tensor*) { return GRADUS_OK; };
  refused_with(gradus_call(f, in, 1, nullptr, 0, out.out(), 1, nullptr), GRADUS_HANDLE,
               "outputs[0]: expected the handle of a tensor, got 0");
  user.forward = good;
  CHECK(values(applied(f, x)) == Doubles{8});
}

TEST_CASE("c functions: without a vjp or jvp a derivative is refused when it is asked for") {
  const Balance balance;
  const LevelEnds ends;
  CubeUser user;
  gradus_function f = user.function("c_plain");
  f.vjp = nullptr;
  f.jvp = nullptr;
  const Own plain = new_function(f), x = leaf({2}, {}), y = applied(plain, x);
  CHECK(values(y) == Doubles{8});
  refused(try_derive(y, x), GRADUS_AUTOGRAD, "c_plain: has no vjp; give gradus_function_new() one");
  const gradus_tensor in[1] = {x};
  Own out;
  ok(gradus_forward_begin());
  ok(gradus_set_tangent(x, tensor({1}, {})));
  refused(gradus_call(plain, in, 1, nullptr, 0, out.out(), 1, nullptr), GRADUS_AUTOGRAD,
          "c_plain: has no jvp; give gradus_function_new() one");
  ok(gradus_forward_end());
}

TEST_CASE("c functions: one that was freed is refused when its graph is walked") {
  const Balance balance;
  CubeUser user;
  Own f = new_function(user.function("c_freed"));
  const Own x = leaf({2}, {}), y = applied(f, x);
  f = Own();
  CHECK(user.destroyed == 1);
  refused(try_derive(y, x), GRADUS_AUTOGRAD,
          "c_freed: this function was freed; keep its handle for as long as graphs with it are "
          "walked");
  CHECK(user.vjps == 0);
}

TEST_CASE("c functions: a jvp may call a contraction's jvp") {
  const Balance balance;
  const LevelEnds ends;
  CubeUser user;
  gradus_function f = user.function("c_square");
  user.forward = [](Handles in, gradus_tensor* out) { return gradus_mul(in[0], in[0], out); };
  f.jvp = [](void*, size_t, Handles in, Handles, Handles t, gradus_tensor* result) {
    const gradus_tensor both[2] = {in[0], in[0]}, tangents[2] = {t[0], t[0]};
    const int32_t label[1] = {7};
    const int32_t* const labels[2] = {label, label};
    return gradus_contract_jvp(both, labels, 2, label, 1, GRADUS_SUM_PRODUCT, tangents, result);
  };
  const Own square = new_function(f), x = tensor({2, 3}, {2}), t = tensor({1, 10}, {2});
  ok(gradus_forward_begin());
  ok(gradus_set_tangent(x, t));
  const Own y = applied(square, x);
  Own dy;
  ok(gradus_tangent(y, dy.out()));
  CHECK(values(dy) == Doubles{4, 60});
  ok(gradus_forward_end());
}

TEST_CASE("c functions: a callback may free its own function while it runs") {
  const Balance balance;
  CubeUser user;
  gradus_op f = new_function(user.function("c_suicide")).given_over();
  user.forward = [&](Handles in, gradus_tensor* out) {
    ok(gradus_free(f));
    CHECK(user.destroyed == 0);
    return gradus_neg(in[0], out);
  };
  CHECK(values(applied(f, tensor({2}, {}))) == Doubles{-2});
  CHECK(user.destroyed == 1);
}

TEST_CASE("c functions: what gradus_function_new refuses, and then user stays the caller's") {
  const Balance balance;
  CubeUser user;
  gradus_op out = 77;
  const auto refuse = [&](gradus_function f, gradus_status status, const std::string& text) {
    refused(gradus_function_new(&f, &out), status, "gradus_function_new: " + text);
  };
  gradus_function f = user.function(nullptr);
  refuse(f, GRADUS_NULL, "name is NULL");
  f = user.function("c_bad");
  f.forward = nullptr;
  refuse(f, GRADUS_NULL, "forward is NULL");
  f = user.function("c_bad");
  f.n_inputs = 65;
  refuse(f, GRADUS_VALUE,
         "a function has up to 64 inputs and 1 to 64 outputs, asked were 65 and 1");
  f.n_inputs = 1;
  f.n_outputs = 0;
  refuse(f, GRADUS_VALUE, "a function has up to 64 inputs and 1 to 64 outputs, asked were 1 and 0");
  f.struct_size = 0;
  refuse(f, GRADUS_VALUE, "gradus_function.struct_size is 0, expected sizeof gradus_function");
  f.struct_size = sizeof f - 4;  // ends in the middle of `destroy`
  refuse(f, GRADUS_VALUE,
         "gradus_function.struct_size is " + std::to_string(sizeof f - 4) +
             ", expected sizeof gradus_function");
  refused(gradus_function_new(nullptr, &out), GRADUS_NULL,
          "gradus_function_new: gradus_function is NULL");
  CHECK(user.destroyed == 0);
  CHECK(out == 77);
}

}  // namespace c_door
