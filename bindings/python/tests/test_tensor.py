"""Tensors as Python objects: made, indexed as numpy does, shown, copied; errors by kind."""
import copy
import itertools
import pickle
import random

import gradus
import pytest

np = pytest.importorskip("numpy")


def test_dtypes_of_what_is_given():
    assert gradus.tensor([1, 2]).dtype is gradus.int64
    assert gradus.tensor([1, 2.5]).dtype is gradus.float32
    assert gradus.tensor([True]).dtype is gradus.bool
    assert gradus.tensor([1j]).dtype is gradus.complex64
    assert gradus.tensor(np.zeros(2)).dtype == gradus.float64 == np.float64
    assert gradus.float64 == "float64"
    assert gradus.tensor([[]]).shape == (1, 0)
    assert gradus.tensor([gradus.tensor([1.0]), gradus.tensor([2.0])]).shape == (2, 1)
    assert gradus.tensor([np.float64(1), np.float64(2)]).shape == (2,)
    assert gradus.zeros(2, 3, dtype="float64").dtype.itemsize == 8


def test_python_and_numpy_numbers_are_weak():
    x = gradus.ones(2, dtype=gradus.float32)
    for number in (1, 1.5, True, np.float32(2), np.int64(2), np.float64(2)):
        assert (x + number).dtype is gradus.float32
        assert (number + x).dtype is gradus.float32 and isinstance(number + x, gradus.Tensor)
    assert (gradus.ones(2, dtype=gradus.int64) + 1.5).dtype is gradus.float32
    assert (np.ones(2) * x).dtype is gradus.float64
    assert (x + 1j).dtype is gradus.complex64


def test_subscripts_are_numpys():
    rng = random.Random(7)
    a = np.arange(2 * 3 * 4 * 5, dtype=np.float64).reshape(2, 3, 4, 5)
    x = gradus.tensor(a)

    def item(size):
        return rng.choice([
            rng.randrange(-size, size),
            slice(rng.choice([None, -2, 0, 1]), rng.choice([None, -1, 2, 9]), rng.choice([None, 1, 2, -1, -2])),
            [rng.randrange(-size, size) for _ in range(2)],
            np.array([[rng.randrange(size)], [rng.randrange(size)]]),
            np.array([i % 2 == 0 for i in range(size)]),
        ])

    seen = 0
    for _ in range(600):
        key = [item(n) for n in a.shape[:rng.randrange(1, 5)]]
        if rng.random() < 0.3:
            key.insert(rng.randrange(len(key) + 1), None)
        if rng.random() < 0.3 and len(key) < 4:
            key.insert(rng.randrange(len(key) + 1), Ellipsis)
        key = tuple(key)
        try:
            expected = a[key]
        except IndexError:  # shapes of indices that do not broadcast
            with pytest.raises((IndexError, ValueError)):
                x[key]
            continue
        # numpy moves the picked axes to the front where a whole number stands apart from a list
        numbers = [i for i, k in enumerate(key) if isinstance(k, int)]
        lists = [i for i, k in enumerate(key) if isinstance(k, (list, np.ndarray))]
        if numbers and lists:
            continue
        got = x[key]
        assert got.shape == expected.shape and got.tolist() == expected.tolist(), key
        b, y = a.copy(), gradus.tensor(a)
        value = np.arange(expected.size, dtype=np.float64).reshape(expected.shape) - 1000
        if len({*np.arange(a.size).reshape(a.shape)[key].ravel()}) == expected.size:
            b[key] = value
            y[key] = gradus.tensor(value)
            assert y.tolist() == b.tolist(), key
        seen += 1
    assert seen > 200


def test_masks_and_assignment():
    x = gradus.arange(6).reshape(2, 3)
    x[x > 3] = 0
    assert x.tolist() == [[0, 1, 2], [3, 0, 0]]
    x[0] = gradus.tensor([7, 8, 9])
    x[:, 1] = -1
    assert x.tolist() == [[7, -1, 9], [3, -1, 0]]
    x[..., None, 0] = 5
    assert x[:, 0].tolist() == [5, 5]
    with pytest.raises(IndexError, match="mask"):
        x[gradus.tensor([True, False, True])]
    with pytest.raises(IndexError, match="axis 1 of size 3"):
        x[0, 3]
    with pytest.raises(IndexError, match="3 subscripts"):
        x[0, 0, 0]
    with pytest.raises(IndexError):
        x[gradus.tensor([5])]


def test_gradients_go_through_subscripts():
    x = gradus.arange(6, dtype=gradus.float64).reshape(2, 3).clone().requires_grad_()
    (x[[1, 1], 0:2] * gradus.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [4, 6, 0]]


def test_numbers_out():
    assert gradus.tensor([3]).item() == 3 and isinstance(gradus.tensor(3).item(), int)
    assert float(gradus.tensor(2.5)) == 2.5 and int(gradus.tensor(2.5)) == 2
    assert [10, 20][gradus.tensor(1)] == 20
    assert gradus.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert list(gradus.tensor([1.0, 2.0])) != [] and 2 in gradus.tensor([1, 2])
    with pytest.raises(ValueError, match="one element"):
        bool(gradus.ones(2))
    with pytest.raises(TypeError):
        len(gradus.tensor(1.0))


def test_errors_have_kinds():
    for call, kind, base in [
            (lambda: gradus.ones(2, 3) @ gradus.ones(2, 3), gradus.ShapeError, ValueError),
            (lambda: gradus.softmax(gradus.ones(2)), gradus.DTypeError, TypeError),
            (lambda: gradus.sum(gradus.ones(2), dims=0), gradus.DTypeError, TypeError),
            (lambda: gradus.ones(2)[5], gradus.IndexError, IndexError),
            (lambda: gradus.ones(2).backward(), gradus.AutogradError, RuntimeError),
            (lambda: gradus.zeros(1 << 44), gradus.MemoryError, MemoryError),
            (lambda: gradus.ones(2, device="cuda:99"), gradus.Error, Exception),
            (lambda: gradus.ones(2, 3).T.view(6), gradus.ShapeError, ValueError),
            (lambda: gradus.ones(2, 3).view(5), gradus.ShapeError, ValueError),
            (lambda: gradus.ones(2).view(), gradus.DTypeError, TypeError),
            (lambda: gradus.ones(2).view(gradus.int32), gradus.DTypeError, TypeError),
            (lambda: gradus.quantile(gradus.tensor(2.0), 0.3, 1), gradus.IndexError, IndexError),
            (lambda: gradus.randint(3, 1, (2,)), gradus.ValueError, ValueError),
            (lambda: gradus.nn.LSTM(2, 3)(gradus.ones(0, 1, 2)), gradus.ShapeError, ValueError),
            (lambda: gradus.nn.ModuleList([])[0], gradus.IndexError, IndexError),
            (lambda: gradus.load("/nowhere.safetensors"), gradus.IOError, OSError)]:
        with pytest.raises(kind) as e:
            call()
        assert "reshape" not in (str(e.value) + e.value.op).partition(":")[0]
        assert isinstance(e.value, base) and isinstance(e.value, gradus.Error) and e.value.op is not None
    with pytest.raises(gradus.Error) as e:
        gradus.ones(2).view()
    assert e.value.op == "view"
    with pytest.raises(TypeError, match='did you mean "dim"'):
        gradus.sum(gradus.ones(2), dims=0)
    with pytest.raises(TypeError):
        gradus.ones(2) + "a"


def test_copies_and_pickles():
    for dtype in (gradus.float32, gradus.bfloat16, gradus.complex128, gradus.int64, gradus.bool):
        x = gradus.tensor([[1, 0], [2, 3]], dtype=dtype)
        for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), x.clone()):
            assert y.dtype is x.dtype and gradus.equal(x, y) and y is not x
        assert pickle.loads(pickle.dumps(dtype)) is dtype
    w = gradus.ones(2, requires_grad=True)
    assert pickle.loads(pickle.dumps(w)).requires_grad
    with pytest.raises(gradus.AutogradError):
        pickle.dumps(w * 2)
    assert pickle.loads(pickle.dumps(gradus.exp)) is gradus.exp


def test_shown():
    assert repr(gradus.tensor([[1.5, 2.0]])).startswith("tensor([[1.5")
    assert "requires_grad=True" in repr(gradus.ones(1, requires_grad=True))
    assert "grad_fn=<mul>" in repr(gradus.ones(1, requires_grad=True) * 2)
    assert "float64" in repr(gradus.ones(1, dtype=gradus.float64))
    assert len(repr(gradus.zeros(100, 100))) < 2000
    assert "e to the x" in gradus.exp.__doc__ and gradus.exp.__name__ == "exp"


def test_operators_in_place_are_seen_by_autograd():
    x = gradus.ones(3, requires_grad=True)
    y = x * 2
    view = y[:2]
    y += 1
    assert view.tolist() == [3, 3]
    z = y.exp()
    z.mul_(2)
    with pytest.raises(gradus.AutogradError):
        z.sum().backward()
    with pytest.raises(gradus.AutogradError):
        x += 1


def test_every_operator_equals_its_op():
    a, b = gradus.tensor([5, -7, 3]), gradus.tensor([2, 3, -2])
    for text, op in [("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "div"), ("//", "floor_divide"),
                     ("%", "remainder"), ("&", "bitwise_and"), ("|", "bitwise_or"), ("^", "bitwise_xor"),
                     ("<<", "bitwise_left_shift"), (">>", "bitwise_right_shift"),
                     ("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge"), ("==", "eq"), ("!=", "ne")]:
        assert eval(f"a {text} b").tolist() == getattr(gradus, op)(a, b).tolist()
        assert eval(f"a {text} 2").tolist() == getattr(gradus, op)(a, 2).tolist()
        assert eval(f"5 {text} b").tolist() == getattr(gradus, op)(gradus.full_like(b, 5), b).tolist()


def test_shifts_in_place_and_of_what_is_no_integer():
    x = gradus.tensor([1, -5])
    same = x
    x <<= 3
    x >>= gradus.tensor([1, 2])
    assert x is same and x.tolist() == [4, -10] and same.bitwise_left_shift_(1).tolist() == [8, -20]
    with pytest.raises(gradus.DTypeError, match="bitwise_left_shift: is not defined for f32"):
        gradus.ones(2) << 1


def test_complex_of_its_parts():
    x, y = gradus.tensor([1., float("inf"), -0.], requires_grad=True), gradus.tensor([[2.], [-3.]], requires_grad=True)
    z = gradus.complex(x, y)
    assert z.dtype == gradus.complex64 and z.shape == (2, 3) and z[1, 1].item() == complex(float("inf"), -3)
    gradus.autograd.backward([z], [gradus.tensor([[1 + 2j] * 3] * 2)])
    assert x.grad.tolist() == [2, 2, 2] and y.grad.tolist() == [[6], [6]]
    assert gradus.complex(gradus.ones(2, dtype=gradus.float64), 0.5).tolist() == [1 + .5j] * 2
    for wrong in (gradus.tensor([1]), gradus.ones(1, dtype=gradus.float16)):
        with pytest.raises(gradus.DTypeError, match="complex: parts of .* f32 and f64 have complex numbers"):
            gradus.complex(wrong, wrong)


def test_random_numbers_repeat():
    gradus.manual_seed(3)
    state = gradus.get_rng_state()
    first = gradus.randn(5).tolist(), gradus.randint(0, 10, (20,)).tolist(), gradus.randperm(9).tolist()
    gradus.set_rng_state(state)
    assert first == (gradus.randn(5).tolist(), gradus.randint(0, 10, (20,)).tolist(), gradus.randperm(9).tolist())
    assert sorted(first[2]) == list(range(9)) and set(first[1]) <= set(range(10))


def test_import_brings_nothing_else():
    import subprocess
    import sys
    code = "import sys, gradus; print([m for m in ('numpy', 'torch', 'jax') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_conversions():
    x = gradus.arange(4)
    assert x.float().dtype is gradus.float32 and x.to(gradus.float64).dtype is gradus.float64
    assert x.to("cpu") is not None and x.to(x.float()).dtype is gradus.float32
    assert x.view(2, 2).data_ptr() == x.data_ptr() and x.view(2, 2).T.reshape(4).tolist() == [0, 2, 1, 3]
    with pytest.raises(ValueError, match="copy"):
        x.view(2, 2).T.view(4)
    for shape in itertools.product((1, 2), (1, 3)):
        assert gradus.ones(*shape).expand(4, *shape).sum().item() == 4 * shape[0] * shape[1]


def test_what_is_no_view_has_memory_of_its_own():
    f = gradus.nn.functional
    one, row, image = gradus.ones(1), gradus.ones(1, 3), gradus.ones(1, 1, 2, 2)
    for x, function in [
            (row, lambda x: x.flip(0)), (row, gradus.fliplr), (row, gradus.flipud), (row, gradus.rot90),
            (row, lambda x: gradus.rot90(x, 0)), (row, lambda x: x.roll(0, 0)), (row, lambda x: x.prod(0)),
            (row, lambda x: x.repeat(1, 1)), (row, lambda x: x.tile((1, 1))), (row, lambda x: x[True]),
            (gradus.ones(2, 2), gradus.diag), (one, lambda x: x.diff(0)), (gradus.ones(()), lambda x: x.cumsum(0)),
            (gradus.ones(2, 2), lambda x: gradus.linalg.matrix_power(x, 1)), (image, lambda x: f.pixel_shuffle(x, 1)),
            (image, lambda x: f.pixel_unshuffle(x, 1)), (row, lambda x: gradus.cat([x])), (one, gradus.nan_to_num)]:
        function(x).zero_()
        assert bool((x == 1).all())
    for function in (lambda x: x.reshape(3), lambda x: x.t(), lambda x: x[0], lambda x: x.expand(2, 3)[0],
                     lambda x: x.chunk(1)[0], lambda x: x.flatten(), lambda x: x.detach(), lambda x: x.contiguous()):
        x = gradus.ones(1, 3)
        function(x).zero_()
        assert not x.any()
