"""Derivatives from Python: backward, grad, modes, hooks, Function, checkpoint, func, Ctrl-C, threads."""
import subprocess
import sys
import threading

import gradus
import pytest
from gradus import func

D = gradus.float64


def leaf(*values):
    return gradus.tensor(list(values), dtype=D, requires_grad=True)


def test_backward_and_grad():
    x = leaf(1.0, 2.0)
    y = (x ** 3).sum()
    g, = gradus.grad(y, x, create_graph=True)
    assert g.tolist() == [3, 12]
    assert gradus.grad(g.sum(), x)[0].tolist() == [6, 12]
    y.backward()
    (x * 2).backward(gradus.tensor([1.0, 10.0], dtype=D))
    assert x.grad.tolist() == [5, 32]
    with pytest.raises(gradus.AutogradError, match="freed|second"):
        y.backward()
    z = leaf(1.0)
    assert gradus.grad(x.sum(), z, allow_unused=True) == (None,)
    x.grad = None
    assert x.grad is None
    (x.sum() * 3).backward(inputs=[x])
    assert x.grad.tolist() == [3, 3]


def test_modes():
    x = leaf(1.0)
    with gradus.no_grad():
        assert not (x * 2).requires_grad
        with gradus.enable_grad():
            assert (x * 2).requires_grad
    with gradus.inference_mode():
        y = x * 2
    with pytest.raises(gradus.AutogradError):
        (y * x).sum()

    @gradus.no_grad()
    def f():
        return (x * 2).requires_grad
    assert not f() and not f() and gradus.is_grad_enabled()
    gradus.set_grad_enabled(False)
    assert not gradus.is_grad_enabled()
    gradus.set_grad_enabled(True)
    with pytest.raises(gradus.NumericError, match="test_autograd.py"), gradus.autograd.detect_anomaly():
        gradus.sqrt(x - 1).mul(0.0).sum().backward()


def test_hooks_and_nodes():
    x = leaf(1.0, 2.0)
    seen = []
    handle = x.register_hook(lambda g: g * 10)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    y = x * 3
    y.retain_grad()
    y.sum().backward()
    assert x.grad.tolist() == [30, 30] == seen[0] and y.grad.tolist() == [1, 1]
    handle.remove()
    node = (x * x).sum().grad_fn
    assert node.name() == "sum" and node.next_functions[0][0].name() == "mul"
    assert node.next_functions[0][0].saved_tensors[0].tolist() == [1, 2]


class Scale(gradus.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor, y):
        ctx.factor = factor
        ctx.save_for_backward(x, y)
        assert ctx.needs_input_grad[1] is False
        return x * y * factor, x + 0

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y * ctx.factor + h, None, g * x * ctx.factor

    @staticmethod
    def jvp(ctx, tx, _, ty):
        x, y = ctx.saved_tensors
        tx = gradus.zeros_like(x) if tx is None else tx
        ty = gradus.zeros_like(y) if ty is None else ty
        return (tx * y + x * ty) * ctx.factor, tx


def test_function():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    out, same = Scale.apply(x, 2.0, y)
    (out.sum() + same.sum()).backward()
    assert x.grad.tolist() == [7, 9] and y.grad.tolist() == [2, 4]
    f = lambda a, b: Scale.apply(a, 2.0, b)[0]  # noqa: E731
    assert gradus.autograd.gradcheck(f, [x, y], check_forward_ad=True)
    assert gradus.autograd.gradgradcheck(f, [x, y])

    class Wrong(gradus.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]
    with pytest.raises(gradus.NumericError, match="element"):
        gradus.autograd.gradcheck(Wrong.apply, [x])
    assert not gradus.autograd.gradcheck(Wrong.apply, [x], raise_exception=False)
    report = gradus.audit.check(lambda: Wrong.apply(x).sum())
    assert report.bad == 1 and report[0].op == "Wrong" and "test_autograd.py" in report[0].where

    class Once(gradus.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @gradus.autograd.once_differentiable
        def backward(ctx, g):
            return g * 2
    g, = gradus.grad(Once.apply(x).sum(), x, create_graph=True)
    with pytest.raises(gradus.AutogradError, match="twice"):
        gradus.grad((g * g).sum(), x)
    saved = Scale.apply(x, 1.0, y)[0]
    with gradus.no_grad():
        x.mul_(2)
    with pytest.raises(gradus.AutogradError):
        saved.sum().backward()


def test_errors_of_a_function_come_through():
    class Fails(gradus.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        Fails.apply(leaf(1.0)).sum().backward()
    x = leaf(1.0)
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * 2).sum().backward()
    with pytest.raises(ZeroDivisionError):
        func.grad(lambda t: (t / (1 // 0)).sum())(gradus.ones(1))


def test_func():
    x = gradus.tensor([1.0, 2.0], dtype=D)
    assert func.grad(lambda t: (t ** 2).sum())(x).tolist() == [2, 4]
    assert func.grad(func.grad(lambda t: t ** 3))(gradus.tensor(2.0, dtype=D)).item() == 12
    value, (gx, gw) = func.value_and_grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x + 1)
    assert value.item() == 8 and gx.tolist() == [2, 3] and gw.tolist() == [1, 2]
    grads, aux = func.grad(lambda p: ((p["w"] * x).sum(), "aux"), has_aux=True)({"w": x})
    assert grads["w"].tolist() == [1, 2] and aux == "aux"
    out, back = func.vjp(lambda a: {"y": a * 2, "z": a.sum()}, x)
    assert back({"y": gradus.ones_like(x), "z": gradus.tensor(1.0, dtype=D)})[0].tolist() == [3, 3]
    out, tangent = func.jvp(lambda a, b: a * b, (x, x), (gradus.ones_like(x), gradus.zeros_like(x)))
    assert tangent.tolist() == [1, 2]
    assert func.jacrev(gradus.sin)(x).tolist() == func.jacfwd(gradus.sin)(x).tolist()
    jac = func.jacrev(lambda a, b: (a * b, a), argnums=(0, 1))(x, x)
    assert jac[0][1].tolist() == [[1, 0], [0, 2]] and jac[1][1].tolist() == [[0, 0], [0, 0]]
    assert func.hessian(lambda t: (t ** 3).sum())(x).tolist() == [[6, 0], [0, 12]]
    assert func.hvp(lambda t: (t ** 3).sum(), [x], [x])[1][0].tolist() == [6, 24]


def test_vmap():
    a = gradus.arange(6, dtype=D).reshape(2, 3)
    w = gradus.tensor([1.0, 2.0, 3.0], dtype=D)
    assert func.vmap(lambda r, v: (r * v).sum(), in_dims=(0, None))(a, w).tolist() == [8, 26]
    assert func.vmap(lambda r: {"s": r.sum()}, in_dims=1)(a)["s"].tolist() == [3, 5, 7]
    each = func.vmap(func.grad(lambda v, r: ((r * v).sum()) ** 2), in_dims=(None, 0))(w, a)
    assert each.tolist() == [[2 * 8 * k for k in (0, 1, 2)], [2 * 26 * k for k in (3, 4, 5)]]
    assert func.vmap(lambda r: r.reshape(3, 1), out_dims=2)(a).shape == (3, 1, 2)


def test_checkpoint():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    runs = []

    def f(a, b, k):
        runs.append(1)
        return gradus.sin(a * b) * k
    gradus.checkpoint(f, x, w, 2.0).sum().backward()
    expected = gradus.grad((gradus.sin(x * w) * 2).sum(), (x, w))
    assert x.grad.tolist() == expected[0].tolist() and w.grad.tolist() == expected[1].tolist() and len(runs) == 2


def test_compile_repeats_the_same_bits():
    gradus.manual_seed(1)
    w = gradus.randn(8, 4, requires_grad=True)
    v = w.detach().clone().requires_grad_()
    opt = gradus.optim.Adam([w], lr=0.1)
    ref = gradus.optim.Adam([v], lr=0.1)

    def step(p, o, x):
        o.zero_grad()
        loss = ((x @ p) ** 2).mean()
        loss.backward()
        o.step()
        return loss
    compiled = gradus.compile(lambda x: step(w, opt, x))
    for i in range(6):
        x = gradus.randn(16, 8)
        assert compiled(x).item() == step(v, ref, x).item()
    assert gradus.equal(w, v) and compiled.replays == 4 and compiled.why_not == ""
    before, values = opt.state_dict(), w.detach().clone()
    opt.load_state_dict(before)  # a new engine: the step is recorded anew
    for i in range(4):
        compiled(gradus.ones(16, 8))
        step(v, ref, gradus.ones(16, 8))
    assert gradus.equal(w, v) and not gradus.equal(w, values)
    reads = gradus.compile(lambda x: x * x.sum().item())
    for _ in range(3):
        assert reads(gradus.ones(2)).tolist() == [2, 2]
    assert "host" in reads.why_not


def test_ctrl_c_ends_a_long_walk():
    code = """
import gradus, os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
x = gradus.ones(300, 300, requires_grad=True)
y = x
for _ in range(4000): y = (y @ x) * 1e-3
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
began = time.time()
try:
    y.sum().backward()
    print("finished", time.time() - began)
except KeyboardInterrupt:
    print("interrupted", time.time() - began < 5)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert "interrupted True" in out.stdout, out.stdout + out.stderr


def test_threads():
    results = {}

    def work(k):
        gradus.manual_seed(k)
        x = gradus.randn(64, 64).requires_grad_()
        for _ in range(20):
            (x @ x).sum().backward()
        with gradus.no_grad():
            results[k] = x.grad.sum().item()
            assert not gradus.is_grad_enabled()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    again = dict(results)
    for k in range(4):
        work(k)
    assert results == again and gradus.is_grad_enabled()


def test_python_objects_die():
    import gc
    import weakref

    class Token:
        pass
    token = Token()
    gone = weakref.ref(token)
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g, t=token: None)
    del token
    y.sum().backward()
    del y
    gc.collect()
    assert gone() is None

    class Holds(gradus.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.token = Token()
            results.append(weakref.ref(ctx.token))
            return a * 1

        @staticmethod
        def backward(ctx, g):
            return g
    results = []
    Holds.apply(x).sum().backward()
    gc.collect()
    assert results[0]() is None


def test_exit_is_clean():
    code = ("import gradus, numpy; a = numpy.ones(3); t = gradus.from_numpy(a); x = gradus.ones(3, requires_grad=True);"
            "x.register_hook(lambda g: g); y = (x * 2).sum(); b = numpy.asarray(gradus.ones(2))")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.returncode == 0 and not out.stderr
