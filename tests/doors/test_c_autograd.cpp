// Gradients, hooks and forward mode through the C door.
#include "tests/helpers/c_door.hpp"

#include <functional>

namespace c_door {

namespace {

Own grad_of(gradus_tensor t) {
  Own g;
  ok(gradus_grad(t, g.out()));
  return g;
}
Own cube(gradus_tensor x) {
  Own square, y;
  ok(gradus_mul(x, x, square.out()));
  ok(gradus_mul(square, x, y.out()));
  return y;
}
void backward_from(gradus_tensor root, uint32_t flags = 0, Place at = Place::current()) {
  ok(gradus_backward(&root, nullptr, 1, flags), at);
}
// Gradients of one output of one element.
Own slope_of(gradus_tensor y, gradus_tensor x, uint32_t flags = 0) {
  Own g;
  ok(gradus_gradients(&y, nullptr, 1, &x, 1, flags, g.out()));
  return g;
}
bool is_recorded(gradus_tensor t) {
  int32_t on = -1;
  ok(gradus_requires_grad(t, &on));
  return on != 0;
}

// A hook whose work is a function of the test's.
struct HookUser : Counted {
  std::function<gradus_status(gradus_tensor grad, gradus_tensor* replacement)> work =
      [](gradus_tensor, gradus_tensor*) { return GRADUS_OK; };
  static gradus_status on_grad(void* user, gradus_tensor grad, gradus_tensor* replacement) {
    auto& u = *static_cast<HookUser*>(user);
    ++u.calls;
    return u.work(grad, replacement);
  }
  static gradus_status on_leaf(void* user, gradus_tensor leaf) {
    auto& u = *static_cast<HookUser*>(user);
    ++u.calls;
    return u.work(leaf, nullptr);
  }
};
Own hooked(gradus_tensor t, HookUser& user) {
  Own hook;
  ok(gradus_register_hook(t, HookUser::on_grad, &user, Counted::destroy, hook.out()));
  return hook;
}

}  // namespace

TEST_CASE("c autograd: backward adds to .grad of leaves; seeds weigh roots") {
  const Balance balance;
  const Own x = leaf({1, 2, 3}, {3});
  CHECK(is_recorded(x));
  CHECK(grad_of(x) == 0);
  Own y, loss;
  ok(gradus_mul(x, x, y.out()));
  ok(gradus_sum(y, nullptr, 0, 0, loss.out()));
  backward_from(loss, GRADUS_RETAIN_GRAPH);
  CHECK(values(grad_of(x)) == Doubles{2, 4, 6});
  backward_from(loss);
  CHECK(values(grad_of(x)) == Doubles{4, 8, 12});
  const gradus_tensor none[1] = {0};
  refused(gradus_backward(none, nullptr, 1, 0), GRADUS_HANDLE,
          "gradus_backward: roots[0]: expected the handle of a tensor, got 0");
  ok(gradus_set_grad(x, 0));
  CHECK(grad_of(x) == 0);
  ok(gradus_set_grad(x, tensor({5, 5, 5}, {3})));
  CHECK(values(grad_of(x)) == Doubles{5, 5, 5});
  CHECK(gradus_set_grad(x, tensor({5}, {1})) == GRADUS_AUTOGRAD);
  ok(gradus_set_grad(x, 0));
  ok(gradus_mul(x, x, y.out()));
  ok(gradus_sum(x, nullptr, 0, 0, loss.out()));
  const Own seed = tensor({1, 10, 100}, {3});
  const gradus_tensor roots[2] = {y, loss}, seeds[2] = {seed, 0};
  ok(gradus_backward(roots, seeds, 2, 0));
  CHECK(values(grad_of(x)) == Doubles{3, 41, 601});
}

TEST_CASE("c autograd: what backward refuses") {
  const Balance balance;
  const Own x = leaf({1, 2, 3}, {3}), plain = tensor({1}, {});
  Own y, loss;
  ok(gradus_mul(x, x, y.out()));
  gradus_tensor root[1] = {y};
  refused_with(gradus_backward(root, nullptr, 1, 0), GRADUS_AUTOGRAD,
               "backward: a seed can be left out for one-element tensors only");
  root[0] = plain;
  refused_with(gradus_backward(root, nullptr, 1, 0), GRADUS_AUTOGRAD, "has no history");
  ok(gradus_sum(y, nullptr, 0, 0, loss.out()));
  root[0] = loss;
  refused(gradus_backward(root, nullptr, 1, 16), GRADUS_VALUE,
          "gradus_backward: flags: unknown bits in 16");
  backward_from(loss);
  refused_with(gradus_backward(root, nullptr, 1, 0), GRADUS_AUTOGRAD, "retain_graph");
  const Own whole = tensor({1, 2}, {2});
  Own integers;
  ok(gradus_cast(whole, GRADUS_I64, integers.out()));
  CHECK(gradus_set_requires_grad(integers, 1) != GRADUS_OK);
  refused_with(gradus_set_requires_grad(y, 0), GRADUS_AUTOGRAD, "requires_grad: ");
}

TEST_CASE("c autograd: gradients, and those of gradients") {
  const Balance balance;
  const Own x = leaf({2}, {}), unused = leaf({1, 2}, {2});
  const Own y = cube(x);
  const Own first = slope_of(y, x, GRADUS_CREATE_GRAPH);
  CHECK(values(first) == Doubles{12});
  CHECK(is_recorded(first));
  const Own second = slope_of(first, x, GRADUS_CREATE_GRAPH);
  CHECK(values(second) == Doubles{12});
  CHECK(values(slope_of(second, x)) == Doubles{6});
  CHECK(grad_of(x) == 0);
  CHECK_FALSE(is_recorded(slope_of(y, x, GRADUS_RETAIN_GRAPH)));

  const gradus_tensor in[2] = {x, unused}, out[1] = {y};
  gradus_tensor grads[2] = {-5, -5};
  refused_with(gradus_gradients(out, nullptr, 1, in, 2, GRADUS_RETAIN_GRAPH, grads),
               GRADUS_AUTOGRAD, "grad: input 1 of shape (2,) was not used");
  CHECK((grads[0] == -5 && grads[1] == -5));
  const uint32_t allow = GRADUS_RETAIN_GRAPH | GRADUS_ALLOW_UNUSED;
  ok(gradus_gradients(out, nullptr, 1, in, 2, allow, grads));
  CHECK(values(Own(grads[0])) == Doubles{12});
  CHECK(grads[1] == 0);
  ok(gradus_gradients(out, nullptr, 1, in, 2, allow | GRADUS_MATERIALIZE_GRADS, grads));
  CHECK(values(Own(grads[0])) == Doubles{12});
  CHECK(values(Own(grads[1])) == Doubles{0, 0});
  const Own three = tensor({3}, {});
  const gradus_tensor seed[1] = {three};
  ok(gradus_gradients(out, seed, 1, in, 1, 0, grads));
  CHECK(values(Own(grads[0])) == Doubles{36});
}

TEST_CASE("c autograd: nothing is recorded while it is switched off; detach; retain_grad") {
  const Balance balance;
  const Own x = leaf({3}, {});
  int32_t before = -1;
  ok(gradus_set_grad_enabled(0, &before));
  CHECK(before == 1);
  const Own quiet = cube(x);
  CHECK_FALSE(is_recorded(quiet));
  ok(gradus_set_grad_enabled(before, &before));
  CHECK(before == 0);
  const Own y = cube(x);
  CHECK(is_recorded(y));
  Own cut;
  ok(gradus_detach(y, cut.out()));
  CHECK_FALSE(is_recorded(cut));
  CHECK(values(cut) == Doubles{27});
  ok(gradus_retain_grad(y));
  Own z;
  ok(gradus_mul(y, y, z.out()));
  backward_from(z);
  CHECK(values(grad_of(y)) == Doubles{54});
  CHECK(values(grad_of(x)) == Doubles{54 * 27});
  refused_with(gradus_retain_grad(quiet), GRADUS_AUTOGRAD, "retain_grad: ");
}

TEST_CASE("c autograd: hooks see and replace gradients, until they are removed") {
  const Balance balance;
  HookUser user;
  Doubles seen;
  const Own x = leaf({1, 2}, {2});
  Own hook = hooked(x, user);
  user.work = [&](gradus_tensor grad, gradus_tensor* replacement) {
    seen = values(grad);
    const Own ten = tensor({10}, {});
    return gradus_mul(grad, ten, replacement);
  };
  const auto run = [&] {
    ok(gradus_set_grad(x, 0));
    Own y, loss;
    ok(gradus_mul(x, x, y.out()));
    ok(gradus_sum(y, nullptr, 0, 0, loss.out()));
    backward_from(loss);
    return values(grad_of(x));
  };
  CHECK(run() == Doubles{20, 40});
  CHECK(seen == Doubles{2, 4});
  // Freeing what was lent, or keeping it, is the hook's affair.
  gradus_tensor kept = 0;
  user.work = [&](gradus_tensor grad, gradus_tensor*) {
    kept = grad;
    return gradus_retain(grad);
  };
  CHECK(run() == Doubles{2, 4});
  CHECK(values(kept) == Doubles{2, 4});
  ok(gradus_free(kept));
  user.work = [&](gradus_tensor grad, gradus_tensor*) { return gradus_free(grad); };
  CHECK(run() == Doubles{2, 4});
  // The very gradient as its own replacement: its hold must be one's own.
  user.work = [&](gradus_tensor grad, gradus_tensor* replacement) {
    *replacement = grad;
    return gradus_retain(grad);
  };
  CHECK(run() == Doubles{2, 4});
  CHECK(user.calls == 4);
  ok(gradus_remove_hook(hook));
  CHECK(user.destroyed == 1);
  ok(gradus_remove_hook(hook));
  CHECK(run() == Doubles{2, 4});
  CHECK(user.calls == 4);
  hook = Own();
  CHECK(user.destroyed == 1);
}

TEST_CASE("c autograd: a hook outlives its handle, and goes with its tensor") {
  const Balance balance;
  HookUser user;
  {
    const Own x = leaf({1}, {});
    hooked(x, user);
    CHECK(user.destroyed == 0);
    backward_from(cube(x));
    CHECK(user.calls == 1);
  }
  CHECK(user.destroyed == 1);
  // Where the function fails, user stays with the caller.
  HookUser other;
  const Own plain = tensor({1}, {});
  gradus_hook out = 77;
  refused_with(gradus_register_hook(plain, HookUser::on_grad, &other, Counted::destroy, &out),
               GRADUS_AUTOGRAD, "register_hook: ");
  refused_with(gradus_register_hook(plain, nullptr, &other, Counted::destroy, &out), GRADUS_NULL,
               "gradus_register_hook: hook is NULL");
  CHECK(other.destroyed == 0);
  CHECK(out == 77);
}

TEST_CASE("c autograd: a hook that fails makes backward fail with its text") {
  const Balance balance;
  HookUser user;
  const Own x = leaf({2}, {});
  const Own hook = hooked(x, user), y = cube(x);
  const gradus_tensor root[1] = {y};
  const auto fails = [&](gradus_status status, const std::string& text) {
    refused(gradus_backward(root, nullptr, 1, GRADUS_RETAIN_GRAPH), status, text);
  };
  user.work = [](gradus_tensor, gradus_tensor*) {
    return gradus_fail(GRADUS_NUMERIC, "too steep");
  };
  fails(GRADUS_NUMERIC, "hook: too steep");
  gradus_error e{sizeof e, 0, nullptr, nullptr};
  ok(gradus_last_error(&e));
  CHECK(std::string(e.op) == "hook");
  user.work = [](gradus_tensor, gradus_tensor*) { return GRADUS_IO; };
  fails(GRADUS_IO, "hook: a callback returned status 7");
  user.work = [](gradus_tensor, gradus_tensor*) { return 4711; };
  fails(GRADUS_VALUE, "hook: a callback returned status 4711");
  // What a call within the hook was refused with.
  user.work = [](gradus_tensor grad, gradus_tensor* replacement) {
    const int64_t shape[1] = {3};
    return gradus_reshape(grad, shape, 1, replacement);
  };
  const gradus_status status = gradus_backward(root, nullptr, 1, GRADUS_RETAIN_GRAPH);
  refused_with(status, GRADUS_SHAPE, "hook: reshape: ");
  // What it had written is given back all the same.
  user.work = [](gradus_tensor grad, gradus_tensor* replacement) {
    gradus_clone(grad, replacement);
    return gradus_fail(GRADUS_VALUE, "after all");
  };
  fails(GRADUS_VALUE, "hook: after all");
  // A replacement that is none.
  user.work = [](gradus_tensor, gradus_tensor* replacement) {
    *replacement = -3;
    return GRADUS_OK;
  };
  refused_with(gradus_backward(root, nullptr, 1, GRADUS_RETAIN_GRAPH), GRADUS_HANDLE,
               "the hook's replacement: expected the handle of a tensor, got -3");
  user.work = [](gradus_tensor, gradus_tensor* replacement) {
    *replacement = tensor({1, 2}, {2}).given_over();
    return GRADUS_OK;
  };
  refused_with(gradus_backward(root, nullptr, 1, GRADUS_RETAIN_GRAPH), GRADUS_AUTOGRAD,
               "a hook returned a gradient f64 (2,), expected f64 ()");
}

TEST_CASE("c autograd: a hook of a leaf is called once its .grad is whole") {
  const Balance balance;
  HookUser user;
  Doubles seen;
  const Own x = leaf({2}, {});
  user.work = [&](gradus_tensor at, gradus_tensor*) {
    seen = values(grad_of(at));
    return gradus_set_grad(at, 0);  // as an optimiser in backward does
  };
  Own hook;
  ok(gradus_register_accumulate_hook(x, HookUser::on_leaf, &user, Counted::destroy, hook.out()));
  backward_from(cube(x));
  CHECK(user.calls == 1);
  CHECK(seen == Doubles{12});
  CHECK(grad_of(x) == 0);
  user.work = [](gradus_tensor, gradus_tensor*) { return gradus_fail(GRADUS_VALUE, "no"); };
  const Own again = cube(x);
  const gradus_tensor root[1] = {again};
  refused(gradus_backward(root, nullptr, 1, 0), GRADUS_VALUE, "hook: no");
  ok(gradus_remove_hook(hook));
  CHECK(user.destroyed == 1);
  gradus_hook out = 0;
  refused_with(gradus_register_accumulate_hook(again, HookUser::on_leaf, &user, nullptr, &out),
               GRADUS_AUTOGRAD, "register_post_accumulate_grad_hook: ");
}

TEST_CASE("c autograd: forward mode pushes tangents until the level ends") {
  const Balance balance;
  const LevelEnds ends;
  const Own x = tensor({2, 3}, {2}), t = tensor({1, -1}, {2});
  Own dy;
  refused(gradus_set_tangent(x, t), GRADUS_AUTOGRAD,
          "gradus_set_tangent: no level is open in this thread; call gradus_forward_begin()");
  refused(gradus_forward_end(), GRADUS_AUTOGRAD,
          "gradus_forward_end: no level is open in this thread");
  ok(gradus_tangent(x, dy.out()));
  CHECK(dy == 0);
  ok(gradus_forward_begin());
  refused_with(gradus_forward_begin(), GRADUS_AUTOGRAD, "one at a time");
  ok(gradus_set_tangent(x, t));
  const Own y = cube(x);
  ok(gradus_tangent(y, dy.out()));
  CHECK(values(dy) == Doubles{12, -27});
  const Own apart = cube(tensor({1}, {}));
  ok(gradus_tangent(apart, dy.out()));
  CHECK(dy == 0);
  refused_with(gradus_set_tangent(x, tensor({1}, {1})), GRADUS_AUTOGRAD, "its tangent is f64 (1,)");
  ok(gradus_forward_end());
  ok(gradus_tangent(y, dy.out()));
  CHECK(dy == 0);
  ok(gradus_forward_begin());  // the level before is gone
  ok(gradus_forward_end());
}

TEST_CASE("c autograd: the tangent of a gradient is the second derivative") {
  const Balance balance;
  const LevelEnds ends;
  const Own x = leaf({2}, {}), one = tensor({1}, {});
  ok(gradus_forward_begin());
  ok(gradus_set_tangent(x, one));
  const Own y = cube(x), slope = slope_of(y, x);
  Own curve;
  ok(gradus_tangent(slope, curve.out()));
  CHECK(values(slope) == Doubles{12});
  CHECK(values(curve) == Doubles{12});
  ok(gradus_forward_end());
}

}  // namespace c_door
