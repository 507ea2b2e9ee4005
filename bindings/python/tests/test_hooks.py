"""Hooks of modules: the same calls, order and gradients as PyTorch's."""
import copy

import gradus
import numpy as np
import pytest
from gradus import nn


def sides():
    """(nn, tensor) of both libraries."""
    torch = pytest.importorskip("torch")
    return (nn, gradus.tensor), (torch.nn, torch.tensor)


def told(x):
    """Numbers and names alone."""
    if isinstance(x, (tuple, list)):
        return type(x)(told(v) for v in x)
    if isinstance(x, dict):
        return {k: told(v) for k, v in x.items()}
    return np.round(x.detach().numpy(), 6).tolist() if hasattr(x, "detach") else \
        x if isinstance(x, (str, int, float, type(None))) else type(x).__name__


def both(scenario):
    """scenario(nn, tensor, note) gives the same notes in both."""
    seen = []
    for side in sides():
        seen.append([])
        scenario(*side, lambda *what, at=seen[-1]: at.append(told(what)))
    assert seen[0] == seen[1] and seen[0]


def add(n):
    """A module of two inputs, one by name, with two results."""
    class Add(n.Module):
        def forward(self, x, y=None, *, scale=1.0):
            y = x if y is None else y
            return x * y * scale, x + 2 * y
    return Add()


def test_forward_hooks():
    def scenario(n, tensor, note):
        module, x = n.ReLU(), tensor([-1.0, 2.0])

        def hook(name, out=None):
            return lambda m, *rest: note(name, m, *rest) or (out and out(rest[-1]))
        module.register_forward_hook(hook("a", lambda y: y + 1))
        b = module.register_forward_hook(hook("b", lambda y: y * 10), prepend=True)
        module.register_forward_hook(hook("c"), with_kwargs=True)
        module.register_forward_pre_hook(hook("p", lambda xs: (xs[0] * 2,)))
        module.register_forward_pre_hook(hook("q", lambda xs: xs[0] - 1), prepend=True)
        with module.register_forward_pre_hook(hook("r", lambda kw: ((x,), kw)), with_kwargs=True):
            note(module(x))
        note(module(x))
        b.remove()
        b.remove()
        note(module(x), module.forward(x))
        note(copy.deepcopy(module)(x))
        module.register_forward_hook(hook("late", lambda y: {"out": y}))
        note(n.Sequential(module)(x))
    both(scenario)


def test_hooks_that_register_and_remove():
    def scenario(n, tensor, note):
        module, handles = n.Identity(), []

        def once(m, xs, y):
            note("once")
            handles[0].remove()
            m.register_forward_hook(lambda m, xs, y: note("new"))
        handles.append(module.register_forward_hook(once))
        module(1)
        module(2)
    both(scenario)


def test_a_hook_is_a_function():
    with pytest.raises(TypeError, match="Identity: a hook is a function, got a int"):
        gradus.nn.Identity().register_forward_hook(3)


def test_arguments_by_name():
    def scenario(n, tensor, note):
        module, x = add(n), tensor([1.0, 2.0])
        module.register_forward_pre_hook(lambda m, xs, kw: (xs, {**kw, "scale": 3.0}), with_kwargs=True)
        module.register_forward_hook(lambda m, xs, kw, y: note(xs, kw, y), with_kwargs=True)
        note(module(x, y=x + 1))
    both(scenario)
    module = nn.ReLU()
    module.register_forward_pre_hook(lambda m, xs, kw: xs, with_kwargs=True)
    with pytest.raises(gradus.ValueError, match=r"ReLU: a hook before forward gave .* None or \(args, kwargs\)"):
        module(gradus.ones(2))


@pytest.mark.filterwarnings("ignore")
def test_backward_hooks():
    def scenario(n, tensor, note):
        for needs in ((True, True), (True, False), (False, True), (False, False)):
            for by_name in (False, True):
                for used in ((0,), (1,), (0, 1)):
                    module = add(n)
                    module.w = n.Parameter(tensor([5.0, 7.0]))
                    module.register_forward_hook(lambda m, xs, ys: (ys[0] * m.w, ys[1]))
                    module.register_full_backward_hook(lambda m, i, o: note("after", m, i, o))
                    module.register_full_backward_hook(
                        lambda m, i, o: tuple(g if g is None else g * 10 for g in i) if any(g is not None for g in i) else None)
                    module.register_full_backward_hook(lambda m, i, o: note("last", i), prepend=True)
                    module.register_full_backward_pre_hook(lambda m, o: note("before", o))
                    module.register_full_backward_pre_hook(
                        lambda m, o: tuple(g if g is None else g * 2 for g in o))
                    x, y = (tensor([1.0, k], requires_grad=r) for k, r in zip((2.0, 3.0), needs))
                    out = module(x, y=y) if by_name else module(x, y)
                    note([o.requires_grad for o in out])
                    if any(out[i].requires_grad for i in used):
                        sum(out[i].sum() for i in used if out[i].requires_grad).backward()
                    note(x.grad, y.grad, module.w.grad)
    both(scenario)


def test_backward_hooks_of_a_network_and_second_derivatives():
    def scenario(n, tensor, note):
        model = n.Sequential(n.Linear(2, 2), n.Tanh(), n.Linear(2, 1)).double()
        for k, p in enumerate(model.parameters()):
            p.data.copy_(tensor(np.arange(np.prod(p.shape)).reshape(tuple(p.shape)) * 0.3 - 0.2 * k))
        for i, module in enumerate(model):
            module.register_full_backward_hook(lambda m, gi, go, i=i: note(i, m, gi, go))
        x = tensor(np.array([[0.3, -0.7]]), requires_grad=True)
        for _ in range(2):  # gradients add up
            model(x).square().sum().backward()
        note(x.grad, [p.grad for p in model.parameters()])
        grad = gradus.grad if n is nn else __import__("torch").autograd.grad
        g, = grad(model(x).sum(), [x], create_graph=True)
        note(grad(g.square().sum(), [x]))
    both(scenario)


def test_hooks_under_transforms():
    module = nn.Linear(3, 2)
    xs, plain = gradus.randn(4, 3), copy.deepcopy(module)
    calls = []
    module.register_forward_hook(lambda m, x, y: y * 2)
    module.register_full_backward_hook(lambda m, i, o: calls.append(len(i)))

    def loss(f, scale):
        return lambda x: f(x).square().sum() * scale
    each = gradus.func.vmap(gradus.func.grad(loss(module, 1.0)))(xs)
    assert gradus.allclose(each, gradus.func.vmap(gradus.func.grad(loss(plain, 4.0)))(xs))
    calls.clear()
    assert gradus.allclose(gradus.func.grad(loss(module, 1.0))(xs[0]), each[0]) and calls == [1]
    ones = gradus.ones(4, 3)
    y, slope = gradus.func.jvp(module, (xs,), (ones,))
    assert gradus.allclose(y, plain(xs) * 2) and gradus.allclose(slope, gradus.func.jvp(plain, (xs,), (ones,))[1] * 2)


def test_errors_and_other_outputs():
    module = nn.Linear(2, 2)
    module.register_full_backward_hook(lambda m, i, o: (None, None))
    x = gradus.ones(1, 2, requires_grad=True)
    with pytest.raises(gradus.ValueError, match="Linear: a hook on gradients gave 2 gradients, expected 1 or None"):
        module(x).sum().backward()
    module = nn.Linear(2, 2)
    module.register_full_backward_hook(lambda m, i, o: (o[0],))
    with pytest.raises(gradus.ValueError, match="gave gradients, and no input requires one"):
        module(x.detach()).sum().backward()
    module = nn.Identity()
    module.register_full_backward_hook(lambda m, i, o: None)
    with pytest.warns(UserWarning, match="Identity: hooks on gradients need a tensor .* got a dict"):
        module({})
    deep = nn.Sequential(nn.Sequential(nn.Linear(3, 2)))
    deep[0].register_forward_hook(lambda m, xs, y: None)
    with pytest.raises(gradus.ShapeError, match="Linear: expected 3") as e:
        deep(gradus.ones(1, 2))
    assert any('in "0.0" of Sequential' in note for note in getattr(e.value, "__notes__", ['in "0.0" of Sequential']))
