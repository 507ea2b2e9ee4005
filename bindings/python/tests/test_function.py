"""Functions with a derivative of one's own. Each test runs in gradus and, where it is there, in torch:
what a user of one writes is what the other takes."""
import gradus
import pytest

LIBRARIES = {"gradus": gradus}
try:
    import torch
    LIBRARIES["torch"] = torch
except ImportError:
    pass


class Library:
    def __init__(self, lib):
        self.lib, self.Function = lib, lib.autograd.Function
        self.func = lib.func

    def leaf(self, *values):
        return self.lib.tensor(list(values), dtype=self.lib.float64, requires_grad=True)

    def plain(self, values):
        return self.lib.tensor(values, dtype=self.lib.float64)


@pytest.fixture(params=LIBRARIES)
def of(request):
    return Library(LIBRARIES[request.param])


def power(of):
    class Power(of.Function):
        @staticmethod
        def forward(x, k):
            return x ** k

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, k = inputs
            ctx.save_for_backward(x, x, output)  # twice: the node keeps it once
            ctx.save_for_forward(None, x)
            ctx.k = k

        @staticmethod
        def backward(ctx, g):
            x, again, y = ctx.saved_tensors
            assert again.tolist() == x.tolist() and y.tolist() == (x ** ctx.k).tolist()
            return g * ctx.k * x ** (ctx.k - 1), None

        @staticmethod
        def jvp(ctx, t, _):
            nothing, x = ctx.saved_tensors
            assert nothing is None
            return ctx.k * x ** (ctx.k - 1) * t
    return Power


def test_setup_context(of):
    f = power(of).apply
    x = of.leaf(1.0, 2.0)
    f(x, 3).sum().backward()
    assert x.grad.tolist() == [3, 12]
    at = of.plain([2.0])
    slope = of.func.grad(lambda t: f(t, 3).sum())
    assert slope(at).tolist() == [12] and of.func.grad(lambda t: slope(t).sum())(at).tolist() == [12]
    value, tangent = of.func.jvp(lambda t: f(t, 3), (at,), (of.plain([0.5]),))
    assert value.tolist() == [8] and tangent.tolist() == [6]


def test_arguments_by_name(of):
    f = power(of).apply
    assert f(of.leaf(3.0), k=2).tolist() == [9]
    with pytest.raises(TypeError):
        f(of.leaf(3.0), exponent=2)


def test_the_older_name_vjp_and_more_gradients_than_arguments(of):
    class Double(of.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2, None, None
    x = of.leaf(3.0)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2]


def test_results_that_are_no_tensors(of):
    class Parts(of.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, 5, None, x * 3

        @staticmethod
        def backward(ctx, g, five, none, h):
            assert five is None and none is None
            return 2 * g + 3 * h
    x = of.leaf(1.0)
    y = Parts.apply(x)
    assert type(y) is tuple and y[1:3] == (5, None)
    y[0].sum().backward()
    assert x.grad.tolist() == [2]


def test_what_has_no_derivative(of):
    seen = []

    class Sorted(of.Function):
        @staticmethod
        def forward(ctx, x):
            order, twice = of.lib.argsort(x), x * 2
            ctx.mark_non_differentiable(order, twice)
            ctx.set_materialize_grads(False)
            return x * 1, order, x > 0, twice, x * 4

        @staticmethod
        def backward(ctx, g, *others):
            seen.extend(others)
            return g
    x = of.leaf(2.0, 1.0)
    y = Sorted.apply(x)
    assert [t.requires_grad for t in y] == [True, False, False, False, True]
    y[0].sum().backward()
    assert x.grad.tolist() == [1, 1] and seen == [None] * 4


class Shift:
    """x += 1 in place, with a slope of 10 that no other op has."""
    @staticmethod
    def forward(ctx, x, y):
        x.add_(1)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return y * 3, x

    @staticmethod
    def backward(ctx, h, g):
        x, = ctx.saved_tensors
        return 10 * g * x, 3 * h


def test_mark_dirty(of):
    shift = type("Shift", (Shift, of.Function), {}).apply
    x = of.leaf(1.0, 2.0)
    y = x * 2
    early = y * y
    _, z = shift(y, of.leaf(0.0))
    assert z is y and y.tolist() == [3, 5]
    (y * 1).sum().backward()
    assert x.grad.tolist() == [60, 100]
    with pytest.raises(RuntimeError):  # what y was is written over
        early.sum().backward()
    free = of.plain([1.0])
    shift(free, of.leaf(0.0))
    assert free.tolist() == [2] and free.requires_grad
    with of.lib.no_grad():
        other = of.plain([1.0])
        shift(other, other * 2)
    assert other.tolist() == [2] and not other.requires_grad


def test_mark_dirty_of_a_view():
    of = Library(gradus)
    shift = type("Shift", (Shift, of.Function), {}).apply
    w = of.leaf(1.0, 1.0)
    rows = of.plain([[1.0, 2.0], [3.0, 4.0]]) * w
    shift(rows[0], of.leaf(0.0))
    assert rows.tolist() == [[2, 3], [3, 4]]
    rows.sum().backward()
    assert w.grad.tolist() == [10 * 2 * 1 + 3, 10 * 3 * 2 + 4]


def test_mark_dirty_refuses(of):
    shift = type("Shift", (Shift, of.Function), {}).apply
    with pytest.raises(RuntimeError, match="leaf"):
        shift(of.leaf(1.0), of.leaf(0.0))

    class Keeps(of.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 1
    with pytest.raises(RuntimeError, match="dirty"):
        Keeps.apply(of.leaf(1.0) * 1)
    if of.lib is gradus:
        twice = of.leaf(1.0) * 1
        with pytest.raises(RuntimeError, match="Shift: argument 0, .* was given twice"):
            shift(twice, twice)


def test_vmap_of_its_own(of):
    seen = []

    class Scale(of.Function):
        @staticmethod
        def forward(x, k):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

        @staticmethod
        def vmap(info, in_dims, x, k):
            seen.append((info.batch_size, info.randomness, in_dims))
            return Scale.apply(x.T, k), 1
    x = of.leaf([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    y = of.func.vmap(lambda r: Scale.apply(r, 2.0) * r)(x)
    assert y.tolist() == [[2, 8, 18], [32, 50, 72]] and seen == [(2, "error", (0, None))]
    y.sum().backward()
    assert x.grad.tolist() == [[4, 8, 12], [16, 20, 24]]


def test_vmap_keeps_the_examples_apart(of):
    class ByItsSum(of.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, w):
            return x * w, x.sum()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.of_this_call = output[1] * 2
            ctx.save_for_backward(inputs[1])

        @staticmethod
        def backward(ctx, g, h):
            return g * ctx.of_this_call, None
    x, w = of.leaf([1.0, 1.0], [2.0, 2.0]), of.plain([1.0, 3.0])
    y, sums = of.func.vmap(ByItsSum.apply, in_dims=(0, None))(x, w)
    assert y.tolist() == [[1, 3], [2, 6]] and sums.tolist() == [2, 4]
    y.sum().backward()
    assert x.grad.tolist() == [[4, 4], [8, 8]]


def test_vmap_refuses_writes_in_place():
    of = Library(gradus)
    shift = type("Shift", (Shift, of.Function), {}).apply
    x = of.plain([[1.0], [2.0]])
    with pytest.raises(gradus.AutogradError, match="in place"):
        gradus.func.vmap(lambda r: shift(r, r)[1])(x)
    assert x.tolist() == [[1], [2]]
    with pytest.raises(gradus.ShapeError, match="size 0"):
        gradus.func.vmap(lambda r: power(of).apply(r, 2))(x[:0])


def test_saved_tensors_go_with_the_graph():
    kept = []

    class Holds(gradus.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            kept.append(ctx)
            ctx.save_for_backward(x * 2)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            assert ctx.saved_tensors[0].tolist() == [6]
            return g
    x = gradus.tensor([3.0], requires_grad=True)
    y = Holds.apply(x)
    y.sum().backward()
    assert kept[0].saved_tensors == ()
