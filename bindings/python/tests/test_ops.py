"""Every op of the list from Python: called with what `gradus check` draws, and its derivatives
compared with differences by gradcheck."""
import gradus
import pytest
from gradus import _gradus

FLOATS = (gradus.float64, gradus.complex128)
CHECKED = set()


def call(name, inputs, attrs):
    op = getattr(_gradus, name)
    about = _gradus.describe(name)
    if any(variadic for _, variadic, _ in about["operands"]):
        fixed = sum(not v for _, v, _ in about["operands"])
        return op(*inputs[:fixed], list(inputs[fixed:]), **attrs)
    return op(*inputs, **attrs)


@pytest.mark.parametrize("name", gradus.op_names)
def test_op(name):
    about = _gradus.describe(name)
    checked = 0
    for inputs, attrs, slopes in _gradus._rows(name):
        out = call(name, inputs, attrs)
        outputs = out if isinstance(out, tuple) else (out,)
        assert all(isinstance(y, gradus.Tensor) for y in outputs)
        assert repr(out)
        places = [i for i, t in enumerate(inputs) if t.dtype in FLOATS and t.numel()]
        size = sum(inputs[i].numel() for i in places)
        if not (about["differentiable"] and slopes and places) or size > 400 or checked >= 2:
            continue
        if about["group"] == "random" or not any(y.dtype in FLOATS and y.numel() for y in outputs):
            continue

        def all_outputs(tensors):
            full = list(inputs)
            for i, t in zip(places, tensors):
                full[i] = t
            gradus.set_rng_state((1, 0))  # ops that draw: the same numbers each time
            ys = call(name, full, attrs)
            return _gradus._seen(name, list(ys if isinstance(ys, tuple) else (ys,)))

        recorded = all_outputs([inputs[i].detach().requires_grad_() for i in places])
        reached = [k for k, y in enumerate(recorded) if y.dtype in FLOATS and y.requires_grad]
        if not reached:
            continue

        def f(*tensors):
            ys = all_outputs(tensors)
            return [ys[k] for k in reached]

        assert gradus.autograd.gradcheck(f, [inputs[i] for i in places], atol=1e-4, rtol=1e-3)
        checked += 1
        CHECKED.add(name)


def test_names_and_help():
    assert len(CHECKED) > 320 or not CHECKED  # empty: this test runs alone
    assert len(gradus.op_names) > 350
    for name in gradus.op_names:
        op = getattr(_gradus, name)
        assert op.__name__ == name and op.signature in op.__doc__


def test_argument_forms():
    x = gradus.arange(6, dtype=gradus.float32).reshape(2, 3)
    assert x.sum(0).tolist() == x.sum(dim=0).tolist() == x.sum(axis=0).tolist() == gradus.sum(x, (0,)).tolist()
    assert x.sum((0, 1), keepdims=True).shape == (1, 1)
    assert x.permute(1, 0).shape == x.permute((1, 0)).shape == (3, 2)
    assert x.gather(1, gradus.tensor([[0], [2]])).tolist() == [[0], [5]]
    assert gradus.cat([x, x], 1).shape == gradus.cat(tensors=[x, x], dim=1).shape == (2, 6)
    assert gradus.arange(3).tolist() == [0, 1, 2] and gradus.arange(1, 7, 2).tolist() == [1, 3, 5]
    assert gradus.arange(0, 3.0).dtype == gradus.float32 and gradus.arange(0.5, 2).tolist() == [0.5, 1.5]
    assert gradus.einsum("ij,kj->ik", x, x).shape == gradus.einsum("ij,kj->ik", [x, x]).shape
    assert gradus.add(input=x, other=1)[0, 0].item() == 1
    values, places = x.max(dim=1)
    assert values.tolist() == [2, 5] and places.tolist() == [2, 2] and x.max().item() == 5
    with pytest.raises(TypeError, match="given twice"):
        gradus.exp(x, x=x)
    with pytest.raises(TypeError, match="arguments, got"):
        gradus.exp(x, 1, 2)
    with pytest.raises(TypeError, match="is missing"):
        gradus.softmax(x)


FORMS = """
    L.unique(x);  x.unique(return_inverse=True);  L.unique(m, return_counts=True);  L.unique(x, True, True, True)
    L.unique(m, dim=0);  m.unique(dim=-1, return_inverse=True, return_counts=True);  L.unique_consecutive(x)
    x.unique_consecutive(return_inverse=True, return_counts=True);  L.unique_consecutive(m, dim=0)
    L.unique(L.tensor(3));  L.repeat_interleave(x, 2);  L.repeat_interleave(x, L.tensor([0, 1, 2, 0, 3, 1]))
    f.repeat_interleave(L.tensor([1, 2]), dim=0);  L.repeat_interleave(L.tensor([2, 0, 1]))
    f.repeat_interleave(L.tensor([2]), 1);  L.repeat_interleave(f, L.tensor([1, 0, 2, 1]));  L.norm(f)
    L.norm(f, "fro");  L.norm(f, "nuc");  f.norm(1, dim=1);  f.norm(dim=0, keepdim=True);  f.norm("fro", dim=(0, 1))
    f.norm(dtype=L.float64);  L.norm(f, "nuc", dim=(0, 1));  f.norm(float("inf"));  L.nonzero(m)
    L.nonzero(m, as_tuple=True);  m.nonzero(as_tuple=True);  L.nonzero(L.tensor(3), as_tuple=True);  L.where(m > 1)
    L.where(m > 1, m, 0);  m.where(m > 1, 0);  L.where(condition=m > 1, input=m, other=0)
    f.clamp(min=L.tensor([2., 3.]));  f.clamp(max=L.tensor([[1.], [9.]]))
    L.clamp(f, L.tensor([2., 3.]), L.tensor(3.5));  f.clamp(L.tensor(3.), L.tensor(1.));  L.clip(f, L.tensor(2.))
    f.clip(2, 3);  f.clone().clamp_(min=L.tensor([2., 3.]));  f.clone().clip_(2., 3.);  f.clone().clamp_min_(2.)
    f.clone().clamp_max_(2.);  f.clamp_min(L.tensor([2., 3.]));  L.tensor([1, 5]).clamp(min=L.tensor(2.5))
    L.zeros(3).index_put_((i,), v, accumulate=False);  L.zeros(3).index_put((i,), v, True)
    L.index_put(L.zeros(3), (i,), v, accumulate=True);  L.zeros(3).index_put_(values=v, indices=[i])
    L.zeros(3).index_put_((L.tensor([True, False, True]),), L.tensor(2.));  L.zeros(2, 2).index_put_([i, i], v, True)
    L.add(f, f, alpha=3);  f.add(1, alpha=2);  f.clone().add_(f, alpha=2);  L.sub(f, 1, alpha=2);  f.sub(f, alpha=2)
    f.clone().sub_(1, alpha=2);  L.subtract(f, f, alpha=2);  L.round(f / 3, decimals=2);  (f / 3).round(decimals=1)
    f.round();  (f / 3).round_(decimals=1);  L.round(f * 700, decimals=-2);  x.split(split_size=4);  x.split([2, 4])
    f.split(1, dim=1);  L.zeros_like(x, dtype=L.float64, device="cpu");  L.ones_like(f)
    L.full_like(x, 2., dtype=L.float64, device="cpu");  L.empty_like(x, dtype=L.float64, device="cpu") * 0
    L.randn_like(f, dtype=L.float64, device="cpu") * 0;  L.ones_like(f, requires_grad=True)
    L.rand_like(f, requires_grad=True) * 0;  L.full_like(f, 2, requires_grad=True);  L.normal(0., 1., (2, 3)) * 0
    L.normal(mean=2, std=3, size=(1, 4), dtype=L.float64) * 0;  L.normal(f, 0.);  L.normal(0., f * 0)
    L.normal(mean=f, std=L.zeros(2));  L.bernoulli(f * 0, 1.);  (f * 0).bernoulli(1.);  L.bernoulli(f * 0)
    L.vmap(lambda a: a * 2, chunk_size=4)(x);  L.vmap(lambda a: a, in_dims=1, out_dims=1, chunk_size=1)(m)
    L.vmap(lambda a, b: (a * b, a.sum()), in_dims=(0, None), chunk_size=2)(m, L.tensor(3))
"""


@pytest.mark.parametrize("text", [c.strip() for line in FORMS.split("\n") for c in line.split(";  ") if c.strip()])
def test_forms_of_pytorch(text):
    torch = pytest.importorskip("torch")
    results = []
    for L in (torch, gradus):
        names = {"L": L, "x": L.tensor([3, 1, 3, 2, 1, 1]), "m": L.tensor([[1, 2], [1, 2], [0, 3]]),
                 "i": L.tensor([1, 1]), "f": L.tensor([[1., 2.], [3., 4.]]), "v": L.tensor([1., 2.])}
        out = eval(text, names)
        results.append(list(out) if isinstance(out, (tuple, list)) else [out])
    assert len(results[0]) == len(results[1])
    for a, b in zip(*results):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype)[6:] == str(b.dtype)[7:]
        assert torch.allclose(a.double(), torch.from_dlpack(b.detach()).double(), 1e-5, 1e-6)
        assert a.requires_grad == b.requires_grad


def test_forms_of_pytorch_refuse_and_differentiate():
    f = gradus.tensor([[1.0, 2.0], [3.0, 4.5]], dtype=gradus.float64, requires_grad=True)
    for call in (lambda a: gradus.add(a, a, alpha=2), lambda a: a.clamp(a.detach() * 2 - 2.5, gradus.tensor(3.1)),
                 lambda a: a.norm(3), lambda a: a.repeat_interleave(gradus.tensor([2, 1]), 0),
                 lambda a: (a * 1).clamp_(max=gradus.tensor(2.5)),
                 lambda a: gradus.vmap(lambda r: r.exp().sum(), chunk_size=1)(a), lambda a: a.sub(a * a, alpha=3)):
        assert gradus.autograd.gradcheck(call, [f])
    for call, words in (
            (lambda: f.norm("odd"), "norm: p is 'odd', expected a number, 'fro' or 'nuc'"),
            (lambda: gradus.repeat_interleave(f, gradus.tensor([1, 2, 3]), 0),
             r"repeats has shape \(3,\), expected one number or 2"),
            (lambda: gradus.repeat_interleave(f, gradus.tensor([1, -2]), 0), r"repeats is \[1, -2\] of gradus.int64"),
            (lambda: gradus.normal(f.detach(), -1.0), "normal: a std is below 0"),
            (lambda: gradus.round(gradus.arange(3), decimals=1), "round: decimals are of real numbers"),
            (lambda: gradus.vmap(gradus.exp, chunk_size=0)(f), "vmap: chunk_size is 0")):
        with pytest.raises(gradus.Error, match=words):
            call()
    assert gradus.normal((2, 3), 1.0, 0.0).tolist() == [[1] * 3] * 2 and gradus.normal(3).shape == (3,)
    i32, half = gradus.ones(2, dtype=gradus.int32), gradus.ones(2, dtype=gradus.float16)
    for a, b, dtype in ((f, i32, gradus.float64), (i32, 1.5, gradus.float32), (half, 2, gradus.float16),
                        (1, 2.0, gradus.float32), (half, 1j, (half + 1j).dtype), (True, i32, gradus.int32),
                        (f.detach()[0, 0], half, gradus.float16)):
        assert gradus.result_type(a, b) is dtype
