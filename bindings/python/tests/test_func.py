"""Functions of functions: forms of arguments and results, what a function captures. Each test runs in
gradus and, where it is there, in torch."""
from collections import namedtuple

import gradus
import pytest

from test_function import of  # noqa: F401 (a fixture)

Pair = namedtuple("Pair", "a b")


def numbers(tree):
    if isinstance(tree, dict):
        return {k: numbers(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return tuple(numbers(v) for v in tree)
    return tree.tolist()


@pytest.fixture
def a(of):  # noqa: F811
    return of.plain([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.fixture
def w(of):  # noqa: F811
    return of.plain([1.0, 2.0, 3.0])


def test_in_dims(of, a, w):  # noqa: F811
    vmap, ten = of.func.vmap, of.plain(10.0)
    rows = [[1, 4, 9], [4, 10, 18]]
    named = {"x": a, "y": w}
    assert vmap(lambda d: d["x"] * d["y"], in_dims=({"x": 0, "y": None},))(named).tolist() == rows
    columns = vmap(lambda d: d["x"].sum() * d["y"], in_dims=({"x": 1, "y": 0},))(named)
    assert columns.tolist() == [5, 14, 27]
    sums = vmap(lambda p, z: p[0].sum() + p[1] + z, in_dims=((1, None), 0))
    assert sums((a, ten), w).tolist() == [16, 19, 22]
    assert vmap(lambda p: p[0].sum() + p[1], in_dims=([-1, None],))([a, ten]).tolist() == [15, 17, 19]
    deep = vmap(lambda d, z: d["x"]["u"] * z, in_dims=({"x": 0}, None))({"x": {"u": a}}, w)
    assert deep.tolist() == rows
    assert vmap(lambda p: p.a * p.b, in_dims=(Pair(0, None),))(Pair(a, w)).tolist() == rows
    assert vmap(lambda d, x: d["w"] * x, in_dims=(None, 0))({"w": w}, a).tolist() == rows
    assert vmap(lambda x, s, n: x * len(s), in_dims=(0, None, None))(a, "ab", None).tolist() == \
        [[2, 4, 6], [8, 10, 12]]
    assert vmap(lambda x, k=None: x * k)(a, k=w).tolist() == rows
    for dims in (({"z": 0},), ((0, 0),), ("x",), (1.0,), (0, 0)):
        with pytest.raises(ValueError, match="in_dim"):
            vmap(lambda d: d["x"], in_dims=dims)({"x": a})


def test_out_dims(of, a, w):  # noqa: F811
    vmap = of.func.vmap
    rows, columns = numbers(a), numbers(a.T)
    form = lambda r: (r, {"x": r * 1, "y": r * 1})  # noqa: E731
    assert numbers(vmap(form, out_dims=(0, {"x": 1, "y": 0}))(a)) == (rows, {"x": columns, "y": rows})
    assert numbers(vmap(form, out_dims=(0, -1))(a)) == (rows, {"x": columns, "y": columns})
    assert numbers(vmap(form, out_dims=1)(a)) == (columns, {"x": columns, "y": columns})
    assert numbers(vmap(lambda r: {"s": r, "w": w}, out_dims={"s": 1, "w": None})(a)) == \
        {"s": columns, "w": [1, 2, 3]}
    assert vmap(lambda r: r, out_dims=(1,))(a).tolist() == columns
    assert numbers(vmap(lambda r: w)(a)) == [[1, 2, 3]] * 2
    if of.lib is gradus:  # torch refuses what is mapped outside, too
        inner = vmap(lambda x, y: (x * y, y), in_dims=(0, None), out_dims=(0, None))
        assert numbers(vmap(inner)(a, of.plain([1.0, 2.0]))) == ([[1, 2, 3], [8, 10, 12]], [1, 2])
    for dims in ((0, 0, 0), {"x": 0}, None):
        with pytest.raises(ValueError, match="out_dim"):
            vmap(lambda r: (r, r), out_dims=dims)(a)


# What f captures and what requires a gradient there: derivatives go on to it.
TRANSFORMS = {
    "grad": lambda of, f, x: of.func.grad(lambda t: f(t).sum())(x),
    "vjp": lambda of, f, x: of.func.vjp(f, x)[1](of.lib.ones_like(x))[0],
    "vjp's value": lambda of, f, x: of.func.vjp(f, x)[0],
    "jvp": lambda of, f, x: of.func.jvp(f, (x,), (of.lib.ones_like(x),))[1],
    "jvp's value": lambda of, f, x: of.func.jvp(f, (x,), (of.lib.ones_like(x),))[0],
    "jacrev": lambda of, f, x: of.func.jacrev(f)(x),
    "jacfwd": lambda of, f, x: of.func.jacfwd(f)(x),
    "hessian": lambda of, f, x: of.func.hessian(lambda t: f(t).sum())(x),
    "vmap of grad": lambda of, f, x: of.func.vmap(of.func.grad(lambda t: f(t).sum()))(x[None]),
    "grad of grad": lambda of, f, x: of.func.grad(
        lambda t: (of.func.grad(lambda u: f(u).sum())(t) ** 2).sum())(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_captured(of, name):  # noqa: F811
    x, w = of.plain([3.0, 4.0]), of.leaf(1.0, 2.0)
    scale = w * 1  # not a leaf
    out = TRANSFORMS[name](of, lambda t: (scale * t) ** 3, x)
    assert out.requires_grad
    out.sum().backward()
    # (w x)^3, its slope 3 w^3 x^2, its curvature 6 w^3 x, and d/dx of the slope squared
    slope = {"vjp's value": lambda w, x: 3 * w ** 2 * x ** 3, "jvp's value": lambda w, x: 3 * w ** 2 * x ** 3,
             "hessian": lambda w, x: 18 * w ** 2 * x, "grad of grad": lambda w, x: 216 * w ** 5 * x ** 3}
    expected = slope.get(name, lambda w, x: 9 * w ** 2 * x ** 2)
    assert w.grad.tolist() == [expected(1, 3), expected(2, 4)]
    plain = TRANSFORMS[name](of, lambda t: t ** 3, x)
    assert not plain.requires_grad
    added = TRANSFORMS[name](of, lambda t: t ** 3 + w.detach(), x)
    assert not added.requires_grad


def test_captured_but_not_on_the_way(of):  # noqa: F811
    x, w = of.plain([3.0, 4.0]), of.leaf(1.0, 2.0)
    value, back = of.func.vjp(lambda t: (t ** 2, w * 1), x)
    assert [y.requires_grad for y in value] == [False, True]
    assert not of.func.grad(lambda t: (t ** 2).sum() + w.sum())(x).requires_grad
    with of.lib.no_grad():
        assert not of.func.grad(lambda t: (w * t ** 2).sum())(x).requires_grad
    if of.lib is gradus:
        value, g = of.func.value_and_grad(lambda t: (w * t).sum())(x)
    else:
        g, value = of.func.grad_and_value(lambda t: (w * t).sum())(x)
    (value + g.sum()).backward()
    assert w.grad.tolist() == [4, 5]


def test_linearize(of, w):  # noqa: F811
    runs = []

    def f(x, d):
        runs.append(1)
        return {"p": (x * d["k"]) ** 2, "q": d["k"] + 0}
    value, along = of.func.linearize(f, w, {"k": w})
    before = len(runs)
    ones, none = of.lib.ones_like(w), of.lib.zeros_like(w)
    assert numbers(value) == {"p": [1, 16, 81], "q": [1, 2, 3]}
    assert numbers(along(ones, {"k": none})) == {"p": [2, 16, 54], "q": [0, 0, 0]}
    assert numbers(along(none, {"k": ones})) == {"p": [2, 16, 54], "q": [1, 1, 1]}
    assert len(runs) == before
    along = of.func.linearize(lambda x: x * x, w)[1]
    assert not along(ones).requires_grad and along(ones).numpy().tolist() == [2, 4, 6]
    for wrong in ((ones, ones), (of.lib.ones(2),)):
        with pytest.raises((ValueError, RuntimeError, AssertionError)) as said:
            along(*wrong)
        assert of.lib is not gradus or "linearize: expected tangents of" in str(said.value)
    if of.lib is gradus:  # torch's is made of constants
        weights = of.lib.ones_like(w).requires_grad_()
        of.func.linearize(lambda x: x * x * weights, w)[1](ones).sum().backward()
        assert weights.grad.tolist() == [2, 4, 6]


def test_auxiliary_results_keep_what_leads_on(of, w):  # noqa: F811
    func, ones, weights = of.func, of.lib.ones_like(w), of.lib.ones_like(w).requires_grad_()
    transforms = {
        "grad": lambda f: lambda x: func.grad(lambda z: (f(z)[0].sum(), f(z)[1]), has_aux=True)(x)[1],
        "vjp": lambda f: lambda x: func.vjp(f, x, has_aux=True)[2],
        "jacrev": lambda f: lambda x: func.jacrev(f, has_aux=True)(x)[1],
    }
    for name, aux in transforms.items():
        squares = aux(lambda z: (z ** 3, z * z))
        assert func.jvp(squares, (w,), (ones,))[1].tolist() == [2, 4, 6], name
        assert func.grad(lambda x: squares(x).sum())(w).tolist() == [2, 4, 6], name
        captured = aux(lambda z: (z ** 2, (z * weights, z * 2)))(w)
        assert captured[0].requires_grad and not captured[1].requires_grad, name


def test_auxiliary_results_and_named_arguments(of, w):  # noqa: F811
    def f(x, k=1.0):
        return x * k, {"square": x ** 2}
    diagonal = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    for transform in (of.func.jacrev, of.func.jacfwd):
        slope, aux = transform(f, has_aux=True)(w)
        assert slope.tolist() == diagonal and numbers(aux) == {"square": [1, 4, 9]}
        assert not aux["square"].requires_grad
    value, tangent, aux = of.func.jvp(f, (w,), (w,), has_aux=True)
    assert numbers((value, tangent, aux)) == ([1, 2, 3], [1, 2, 3], {"square": [1, 4, 9]})
    _, aux = of.func.grad(lambda x: (f(x)[0].sum(), f(x)[1]), has_aux=True)(w)
    assert not aux["square"].requires_grad
    _, back, aux = of.func.vjp(f, w, has_aux=True)
    assert not aux["square"].requires_grad
    if of.lib is gradus:
        assert of.func.jacrev(lambda x, k=1.0: x * k)(w, k=2.0).tolist() == [[2 * v for v in r] for r in diagonal]


def test_hessian_has_the_form_of_the_argument(of, w):  # noqa: F811
    h = of.func.hessian(lambda d: (d["a"] ** 2).sum() * d["b"])({"a": w[:2], "b": of.plain(2.0)})
    assert numbers(h) == {"a": {"a": [[4, 0], [0, 4]], "b": [2, 4]}, "b": {"a": [2, 4], "b": 0}}
    blocks = of.func.hessian(lambda a, b: (a * b).sum(), argnums=(0, 1))(w[:1], w[:1])
    assert numbers(blocks) == (([[0]], [[1]]), ([[1]], [[0]]))
