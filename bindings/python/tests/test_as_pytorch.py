"""What a PyTorch user types first: arguments, results, names and errors are as he knows them, or say
what stands for them here."""
import copy
import inspect
import math
import pathlib
import pickle
import subprocess
import sys

import gradus
import pytest

np = pytest.importorskip("numpy")
B = 2 ** 53 + 1


def test_bools_are_no_axes():
    x = gradus.arange(6, dtype=gradus.float32).reshape(2, 3)
    for call in (lambda: x.std(False), lambda: x.var(True), lambda: gradus.std_mean(x, False)):
        with pytest.raises(gradus.ValueError, match="dim: expected whole numbers, got (True|False).*correction=0"):
            call()
    for call in (lambda: x.sum(True), lambda: x.argmax(False), lambda: x.sum((0, True)), lambda: x.softmax(True),
                 lambda: x.topk(True), lambda: gradus.zeros((2, True))):
        with pytest.raises(gradus.ValueError, match="expected (a )?whole number"):
            call()
    assert x.std(unbiased=False).item() == x.std(correction=0).item() == x.std(ddof=0).item() != x.std().item()
    assert x.sum(0, True).shape == (1, 3)


def test_tensordot_sums_two_axes():
    a, b = gradus.arange(12).reshape(3, 4), gradus.arange(12).reshape(3, 4)
    whole = (a * b).sum()
    assert gradus.tensordot(a, b).item() == gradus.tensordot(a, b, 2).item() == a.tensordot(b).item() == whole
    assert gradus.tensordot(a, b, dims=0).shape == (3, 4, 3, 4)
    for out in (gradus.tensordot(a, b, ([1], [1])), gradus.tensordot(a, b, dims=((1,), (1,))),
                gradus.tensordot(a, b, (1,), (1,)), gradus.tensordot(a, b, dims_a=(1,), dims_b=(1,)),
                gradus.tensordot(a, b.T, 1)):
        assert gradus.equal(out, a @ b.T)


def test_full_has_the_dtype_of_its_number():
    for number, dtype in ((1, gradus.int64), (True, gradus.bool), (1.0, gradus.float32), (1j, gradus.complex64),
                          (16777217, gradus.int64), (B, gradus.int64), (-2 ** 63, gradus.int64)):
        out = gradus.full((2, 1), number)
        assert out.dtype is dtype and out.tolist() == [[number]] * 2
    assert gradus.full(3, 1.5).shape == (3,) and gradus.full((), 2, dtype="float64").item() == 2.0
    assert gradus.full((2,), 1, requires_grad=True, dtype=gradus.float64).requires_grad
    assert gradus.full_like(gradus.zeros(2, dtype=gradus.int64), B).tolist() == [B, B]
    assert gradus.full_like(gradus.zeros(2), 1).dtype is gradus.float32
    assert gradus.full_like(gradus.zeros(2), 1, dtype=gradus.int64).dtype is gradus.int64


def test_whole_numbers_are_not_rounded():
    x, m = gradus.tensor([B, 2 ** 60]), gradus.tensor([True, False])
    i = gradus.tensor([0])
    for call in (lambda k: x.clamp(max=k), lambda k: x.masked_fill(m, k), lambda k: gradus.pad(x, (1, 1), value=k),
                 lambda k: x.scatter(0, i, k), lambda k: x.index_fill(0, i, k), lambda k: gradus._gradus.full((1,), k)):
        for number in (B, -B, 2 ** 63 - 1, 2 ** 64 + 1):
            with pytest.raises(gradus.ValueError, match="is not a double"):
                call(number)
        call(2 ** 53)
    with pytest.raises(gradus.ValueError, match=f"clamp: max: {B} is not a double.*float"):
        x.clamp(max=B)
    with pytest.raises(gradus.ValueError, match="is not a double"):
        x.clamp(max=np.int64(B))
    m = gradus.tensor([False, True])
    assert x.masked_fill(m, gradus.tensor(B)).tolist() == x.masked_fill(m, np.int64(B)).tolist() == [B, B]
    assert gradus.zeros(1).clamp(max=2 ** 100).item() == 0


def test_whole_numbers_are_drawn_from_all():
    gradus.manual_seed(1)
    low = 2 ** 60
    assert set(gradus.randint(low, low + 3, (99,)).tolist()) == {low, low + 1, low + 2}
    assert set(gradus.randint(-2 ** 63, 2 - 2 ** 63, (99,)).tolist()) == {-2 ** 63, 1 - 2 ** 63}
    assert any(n % 2 for n in gradus.randint(0, 2 ** 53, (64,)).tolist())
    assert gradus.randint(3, (2,), dtype=gradus.float32).dtype is gradus.float32
    for low, high in ((0, 2 ** 62), (0, 2 ** 53 + 1), (2 ** 63, 2 ** 63 + 1)):
        with pytest.raises(gradus.ValueError, match="randint: .* are more than"):
            gradus.randint(low, high, (8,))
    assert set(gradus.randint(2, size=(64,)).tolist()) == {0, 1} == set(gradus.randint(0, 2, 64).tolist())
    assert set(gradus.randint(254, 256, (64,), dtype=gradus.uint8).tolist()) == {254, 255}
    with pytest.raises(TypeError, match="randint: the size is missing"):
        gradus.randint(5)
    with pytest.raises(gradus.ValueError, match="not between 0 and 1"):
        gradus.bernoulli(gradus.tensor([0.5, 2.0]))
    for low, high, dtype in ((2 ** 40, 2 ** 40 + 5, gradus.int32), (0, 300, gradus.uint8), (-1, 2, gradus.uint8),
                             (0, 2 ** 30, gradus.float16)):
        with pytest.raises(gradus.Error, match="hold"):
            gradus.randint(low, high, (8,), dtype=dtype)


def test_complex_numbers_lose_no_part():
    for call in (lambda: gradus.full((2,), 3 + 4j, gradus.float32), lambda: gradus.tensor(3 + 4j, dtype=gradus.int64),
                 lambda: gradus.full_like(gradus.ones(2), 3 + 4j)):
        with pytest.raises(gradus.DTypeError, match="would lose their imaginary part"):
            call()
    assert gradus.full((1,), 3 + 4j).tolist() == [3 + 4j]


def test_modules_that_need_torch():
    code = """
import sys
sys.modules["torch"] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else found(name, *rest)
import gradus, inspect, pydoc
assert not hasattr(gradus, "fx") and not hasattr(gradus, "torch")
names = [name for name, _ in inspect.getmembers(gradus)]
assert "func" in names and "fx" not in names and "torch" not in dir(gradus)
assert "tensors that remember" in pydoc.render_doc(gradus)
try:
    gradus.fx
except AttributeError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "gradus.fx needs torch, which is not installed" in out.stdout, out.stderr


def test_results_have_names():
    A = gradus.tensor([[2.0, 1], [1, 3]], dtype=gradus.float64)
    for call, names in (
            ("max(A, dim=1)", "values indices"), ("min(A, 0)", "values indices"), ("sort(A)", "values indices"),
            ("median(A, 1)", "values indices"), ("topk(A, 1)", "values indices"),
            ("kthvalue(A, 1)", "values indices"), ("cummax(A, 0)", "values indices"), ("aminmax(A)", "min max"),
            ("linalg.eigh(A)", "eigenvalues eigenvectors"), ("linalg.eig(A)", "eigenvalues eigenvectors"),
            ("linalg.svd(A)", "U S Vh"), ("linalg.qr(A)", "Q R"), ("linalg.slogdet(A)", "sign logabsdet"),
            ("linalg.cholesky_ex(A)", "L info"), ("linalg.lu(A)", "P L U"), ("linalg.lu_factor(A)", "LU pivots"),
            ("linalg.lstsq(A, A)", "solution residuals rank singular_values")):
        out = eval("gradus." + call, {"gradus": gradus, "A": A})
        assert isinstance(out, tuple) and len(out) == len(names.split())
        assert all(getattr(out, name) is part for name, part in zip(names.split(), out))
    out = A.max(dim=1)
    values, indices = out
    assert out.values is values and repr(out).startswith("gradus.return_types.max(values=tensor(")
    for other in (pickle.loads(pickle.dumps(out)), copy.deepcopy(out)):
        assert type(other) is gradus.return_types.max and gradus.equal(other.values, values)
    assert gradus.vmap(lambda row: row.max(dim=0))(A).indices.tolist() == indices.tolist()
    assert isinstance(A.max(), gradus.Tensor)
    assert gradus.func.jacrev(lambda t: gradus.linalg.eigh(t).eigenvalues)(A).shape == (2, 2, 2)


def test_names_of_pytorch():
    a = gradus.tensor([1.0, 5.0])
    for call in (lambda: a.max(a), lambda: gradus.max(a, gradus.tensor(1))):
        with pytest.raises(gradus.ValueError, match=r"gradus.maximum\(a, b\)"):
            call()
    with pytest.raises(gradus.ValueError, match=r"gradus.minimum\(a, b\)"):
        gradus.min(a, a)
    assert gradus.is_tensor(a) and not gradus.is_tensor(1.0)
    assert (gradus.inf, gradus.pi, gradus.e) == (math.inf, math.pi, math.e) and math.isnan(gradus.nan)
    for name, said in (("device", "a device is a text"), ("Generator", "manual_seed"), ("f32", "gradus.float32"),
                       ("long", "gradus.int64"), ("set_printoptions", "numpy"), ("nothing", "'nothing'$")):
        with pytest.raises(AttributeError, match=said):
            getattr(gradus, name)
    with pytest.raises(AttributeError, match="SGD, Adam"):
        gradus.optim.Lion
    from gradus import _absent
    for name, text in _absent._INSTEAD.items():
        assert not hasattr(gradus, name)
        for said in text.replace(",", " ").replace("(", " ").replace(")", " ").split():
            if said.startswith("gradus."):
                assert hasattr(gradus, said.split(".")[1]), said
    assert inspect.signature(gradus.full).parameters


def test_arrays_of_other_dtypes():
    for dtype, said in (("i1", "int8"), ("i2", "int16"), ("u2", "uint16"), ("u4", "uint32"), ("u8", "uint64"),
                        (">f4", "big-endian float32"), (">i8", "big-endian int64")):
        with pytest.raises(gradus.DTypeError, match=f"an array of {said}, items"):
            gradus.tensor(np.zeros(3, dtype))
    with pytest.raises(gradus.DTypeError, match="an array of int8.*float64.*astype"):
        gradus.tensor(np.zeros(3, "i1"))


def test_numpys_functions_and_empty():
    t = gradus.tensor([[1.0, 2.0], [3.0, 4.5]])
    for f in (np.sum, np.mean, np.std, np.var, np.prod):
        assert math.isclose(float(f(t)), f(t.numpy()), rel_tol=1e-6)
        assert np.allclose(np.asarray(f(t, axis=0)), f(t.numpy(), axis=0))
    with pytest.raises(gradus.DTypeError, match='has no argument "dtype"'):
        t.sum(dtype=gradus.float64)
    assert gradus.empty(3, 2).shape == gradus.empty((3, 2)).shape == gradus.empty(size=(3, 2)).shape == (3, 2)
    assert gradus.empty(3, dtype=gradus.int64).dtype is gradus.int64 and gradus.empty(()).shape == ()


def test_complex_numbers_out():
    assert complex(gradus.tensor(1j)) == 1j and complex(gradus.tensor([2.5])) == 2.5
    for kind in (float, int):
        with pytest.raises(gradus.DTypeError, match=r"complex\(x\)"):
            kind(gradus.tensor(1j))


def test_whole_floats_are_shown_with_a_point():
    for values, shown in (([1, 2], "[1, 2]"), ([1.0, -2], "[ 1., -2.]"), ([1.0, 2.5], "[ 1., 2.5]"),
                          ([0.5, 100.0], "[ 0.5, 100.]"), ([math.inf, 1.0], "[inf,  1.]"), ([1e20, 1.0], "[1e+20,    1.]"),
                          ([math.nan, 100.0], "[ nan, 100.]"), (3.0, "3."), (3, "3"), ([True], "[true]")):
        assert repr(gradus.tensor(values)) == f"tensor({shown})"
    assert repr(gradus.tensor([[1.0, 22], [-333, 4]])) == "tensor([[   1.,   22.],\n        [-333.,    4.]])"
    long = repr(gradus.zeros(100))
    assert "0., ..., 0." in long and "1" not in long
    assert "[1., 1.], dtype=float64" in repr(gradus.ones(2, dtype="f64"))
    assert repr(gradus.tensor([])) == "tensor([], dtype=float32)"


def test_what_hints_and_named_results_name_is_there():
    import re
    from gradus import _absent
    for absent, hint in _absent._INSTEAD.items():
        assert absent not in dir(gradus)
        for name in re.findall(r"gradus\.(\w+)", hint):
            assert hasattr(gradus, name), hint
    ops = set(gradus._gradus.op_names)
    assert set(gradus.return_types.__all__) <= ops
    source = (pathlib.Path(__file__).parents[1] / "src" / "results.cpp").read_text()
    written = re.findall(r'^ +\{"(\w+)", \{', source, re.M) + re.findall(r'= \{\n +\{"(\w+)", \{', source)
    assert set(written) == set(gradus.return_types.__all__)  # none of an op that there is not


def test_names_of_several_ops():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 4, 5))
    a[0, 1, 2] = a[2, 0, 0] = np.nan
    whole = rng.integers(0, 9, (3, 4))
    for call in ("{}.nansum(x)", "{}.nansum(x, 1)", "{}.nanmean(x, (0, 2), True)", "x.nanmean(-1)", "x.nansum()",
                 "{}.quantile(x, 0.3, 1)", "{}.quantile(y, 0.3)", "y.quantile({}.tensor([0.0, 0.25, 1.0], dtype={}.float64), -1)",
                 "{}.quantile(y, 0.5, dim=0, keepdim=True)", "y.quantile({}.tensor([0.1, 0.9], dtype={}.float64), 1, True)",
                 "{}.quantile(y, 0.5, keepdim=True)", "{}.quantile(y[0, 0, 0], 0.3, 0)",
                 "y[0, 0, 0].quantile(0.3, -1, True)",
                 "{}.isin(w, {}.tensor([1, 3, 4]))", "{}.isin(w, 3, invert=True)",
                 "x.new_full((2,), 3)", "x.new_tensor([1, 2])", "w.new_full((2, 1), 7)", "w.new_tensor([1.0])", "w.byte()",
                 "y.clamp_min(0.5)", "y.clamp_max(0.5)", "{}.clip(y, 0, 1)", "{}.concat([y, y], 1)", "{}.concatenate([y, y])",
                 "{}.multiply(y, 2)", "{}.not_equal(w, 3)", "w.less_equal(4)", "{}.swapaxes(y, 0, 1)", "y.arcsinh()",
                 "{}.inverse(y[0, :, :4])", "{}.row_stack([w, w])", "{}.fix(y)", "{}.bernoulli((w > 4).double())",
                 "(w > 4).double().bernoulli()", "{}.empty_like(w) * 0", "{}.numel(w)", "{}.is_floating_point(w)", "y.is_cuda"):
        out = []
        for m in (gradus, torch):
            names = {"m": m, "x": m.tensor(a), "y": m.tensor(np.nan_to_num(a)), "w": m.tensor(whole)}
            out.append(eval(call.replace("{}", "m"), names))
        ours, theirs = out
        if hasattr(theirs, "shape"):
            assert tuple(ours.shape) == tuple(theirs.shape) and str(ours.dtype)[7:] == str(theirs.dtype)[6:], call
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-12, err_msg=call)
        else:
            assert ours == theirs, call
    with pytest.raises(gradus.ValueError, match="quantile: q is 1.5, expected a number from 0 to 1"):
        gradus.quantile(gradus.ones(3), 1.5)
    with pytest.raises(gradus.DTypeError, match="quantile: expected real numbers"):
        gradus.quantile(gradus.arange(5), 0.5)
    with pytest.raises(gradus.ValueError, match=r"of shape \(0,\)"):
        gradus.quantile(gradus.zeros(0), 0.5)


def test_draws():
    gradus.manual_seed(4)
    p = gradus.tensor([[0.0, 1.0, 3.0, 6.0], [1.0, 0.0, 0.0, 1.0]])
    drawn = gradus.multinomial(p, 20000, replacement=True)
    for line, weights in zip(drawn.tolist(), p.tolist()):
        share = np.bincount(line, minlength=4) / 20000
        np.testing.assert_allclose(share, np.array(weights) / sum(weights), atol=0.02)
    first = [p[0].multinomial(3).tolist() for _ in range(3000)]
    assert all(sorted(t) == [1, 2, 3] for t in first)
    assert abs(sum(t[0] == 3 for t in first) / 3000 - 0.6) < 0.03
    assert p.multinomial(1).shape == (2, 1) and p.multinomial(1).dtype is gradus.int64
    for weights, words in (([1.0, -1.0], "0 or more"), ([0.0, 0.0], "one above 0"), ([math.inf, 1], "finite")):
        with pytest.raises(gradus.ValueError, match=words):
            gradus.multinomial(gradus.tensor(weights), 1)
    with pytest.raises(gradus.ValueError, match="fewer than 3 weights.*replacement=True"):
        p.multinomial(3)
    x = gradus.full((4000,), 0.25, dtype=gradus.float64)
    assert abs(gradus.bernoulli(x).mean().item() - 0.25) < 0.03 and x.bernoulli(0.9).mean() > 0.8
    assert x.bernoulli_(1.0).sum() == 4000 and set(gradus.bernoulli((50,), 0.5).tolist()) == {0.0, 1.0}
    assert set(gradus.randint_like(x, 3, 5).tolist()) == {3.0, 4.0} and gradus.randint_like(x, 2).max() == 1


def test_what_is_an_attribute_in_pytorch():
    z = gradus.tensor([[1 + 2j, 3.]], requires_grad=True)
    assert z.real.tolist() == [[1, 3]] and z.imag.tolist() == [[2, 0]] and z.H.tolist() == [[1 - 2j], [3]]
    (z.real * z.imag).sum().backward()
    assert z.grad.tolist() == [[2 + 1j, 3j]] and z.is_cpu and not z.is_cuda
    with pytest.raises(gradus.ShapeError, match="H: the tensor has 1 axes.*mH"):
        z[0].H


def test_forms_in_place():
    torch = pytest.importorskip("torch")
    one = """acos asin atan sinh cosh tan asinh atanh deg2rad rad2deg erf erfc erfinv exp2 expm1 frac lgamma digamma log10
        log1p log2 sgn sinc logit""".split()
    two = "atan2 copysign fmod heaviside hypot xlogy logical_and logical_or logical_xor".split()
    for name, *others in [(n,) for n in one] + [(n, [0.2, 0.]) for n in two] + [("cumsum", 0), ("cumprod", 0)]:
        results = []
        for library in (torch, gradus):
            x = library.tensor([0.3, 0.6])
            out = getattr(x, name + "_")(*[library.tensor(o) if isinstance(o, list) else o for o in others])
            assert out is x
            results.append(x.tolist())
        assert results[0] == pytest.approx(results[1], rel=1e-5, nan_ok=True), name
    m = gradus.ones(2, 2)
    assert m.addmm_(m, m, beta=0.5, alpha=2).tolist() == [[4.5, 4.5]] * 2
    with pytest.raises(gradus.DTypeError, match="sinh_: the result is f32"):
        gradus.tensor([1, 2]).sinh_()


COMPOSED = """
    L.atleast_1d(L.tensor(3.));  L.atleast_2d(L.tensor([3.,4.]));  L.atleast_3d(L.ones(2,3))
    L.atleast_3d(L.tensor([1.,2.]));  L.atleast_2d(L.tensor(1.), L.ones(2))
    L.block_diag(L.ones(2,2), L.tensor([1.,2.]), L.tensor(3.));  L.block_diag(L.ones(1,3), L.ones(2,1))
    L.cartesian_prod(L.tensor([1,2]), L.tensor([3,4,5]));  L.cartesian_prod(L.tensor([1,2]))
    L.combinations(L.tensor([1,2,3]));  L.combinations(L.tensor([1,2,3]), 3, True);  L.combinations(L.tensor([1,2]), 3)
    L.diagflat(L.tensor([[1.,2.],[3.,4.]]));  L.diagflat(L.tensor([1,2]), -1);  L.tensor_split(L.arange(7), 3)
    L.tensor_split(L.arange(7), (1, 4));  L.tensor_split(L.arange(7), (5, 2, 9))
    L.tensor_split(L.ones(3,5), 2, dim=1);  L.tensor_split(L.arange(2), 4);  L.tensor_split(L.arange(7), (-2,))
    L.hsplit(L.arange(6), 3);  L.vsplit(L.ones(4,2), 2);  L.dsplit(L.ones(2,2,4), (1,3));  L.hsplit(L.ones(2,4), 2)
    L.tril_indices(3, 4);  L.triu_indices(3, 4, 1);  L.tril_indices(4, 3, -1);  L.triu_indices(2, 3, -1)
    L.tril_indices(2,2,5);  L.triu_indices(2,2,5);  L.unravel_index(L.tensor([0, 5, 11, -1]), (3, 4))
    L.vander(L.tensor([1.,2.,3.]));  L.vander(L.tensor([1,2,3]), 2, True);  L.view_as_real(L.tensor([1+2j, 3.]))
    L.view_as_complex(L.tensor([[1.,2.],[3.,4.]]));  L.clamp_min(L.tensor([1.,-1.]), 0)
    L.clamp_max(L.tensor([1.,-1.]), 0);  L.float_power(L.tensor([2, 3]), 2)
    L.float_power(L.tensor([2.]), L.tensor([0.5]));  L.isposinf(L.tensor([1., math.inf, -math.inf]))
    L.isneginf(L.tensor([1., math.inf, -math.inf]));  L.isreal(L.tensor([1+1j, 2.]));  L.isreal(L.tensor([1.]))
    L.gcd(L.tensor([12, -18, 0, 0, 7]), L.tensor([18, 12, 5, 0, -21]))
    L.lcm(L.tensor([12, -18, 0, 7]), L.tensor([18, 12, 5, -21]));  L.gcd(L.tensor([12, 9]), L.tensor(6))
    L.gcd(L.tensor([12, 0], dtype=L.int32), L.tensor([0, 9], dtype=L.uint8))
    L.gcd(L.tensor([True, False]), L.tensor([4, 6]));  L.gcd(L.tensor([12, 9], dtype=L.int32), L.tensor([0, 0]))
    L.gcd(L.tensor([12, 9], dtype=L.int32), L.tensor(6));  L.lcm(L.tensor([4, 9], dtype=L.uint8), L.tensor([6, 0]))
    L.lcm(L.tensor([4, 9]), L.tensor([True, False]))
    L.ldexp(L.tensor([3., 2. ** -1070, 1., 1.5], dtype=L.float64), L.tensor([191, 2090, -1074, -1060]))
    L.ldexp(L.tensor([1.5e3], dtype=L.float16), L.tensor([3], dtype=L.uint8))
    L.ldexp(L.ones(1, dtype=L.bfloat16), L.tensor(3))
    L.ldexp(L.tensor([2. ** -100, -2. ** 100]), L.tensor([200, -240]));  L.ldexp(L.tensor([2]), L.tensor([3]))
    L.ldexp(L.tensor([1., 3.]), L.tensor([2, -1]));  L.ldexp(L.tensor([1., 3.]), L.tensor([0.5, -1.]))
    L.logspace(0, 2, 3);  L.logspace(0, 3, 4, 2.0);  L.logdet(L.tensor([[[2.,0.],[0.,3.]],[[1.,0.],[0.,-1.]]]))
    L.cov(L.tensor([[1.,2.,4.],[3.,1.,0.]]));  L.cov(L.tensor([1.,2.,4.]))
    L.cov(L.tensor([[1.,2.],[3.,1.]]), correction=0);  L.cov(L.tensor([[1+1j,2.,4j],[3.,1.,0.]]))
    L.corrcoef(L.tensor([[1.,2.,4.],[3.,1.,0.]]));  L.corrcoef(L.tensor([1.,2.]))
    L.histc(L.tensor([1.,2.,1.,5.]), 4, 0, 3);  L.histc(L.tensor([1.,2.,1.,5.]), 4);  L.histc(L.tensor([2.,2.]), 3)
    L.histc(L.tensor([0.,0.5,1.]), 2, 0, 1);  L.ger(L.ones(2), L.arange(3.))
    L.pinverse(L.tensor([[1.,2.],[3.,4.],[5.,6.]]));  L.split_with_sizes(L.arange(5), (2,3))
    L.adjoint(L.tensor([[1+2j, 3.]]));  L.t(L.ones(2,3));  L.detach(L.ones(2));  L.positive(L.tensor([-1.]))
    L.resolve_conj(L.tensor([1j]));  L.ones(2).cfloat();  L.ones(2).cdouble();  L.polygamma(2, L.tensor([0.5, 3.]))
    L.tensor([0.5, 3.]).polygamma(1);  L.polygamma(0, L.ones(2))
"""


@pytest.mark.parametrize("call", [c.strip() for line in COMPOSED.split("\n") for c in line.split(";  ") if c.strip()])
def test_functions_of_a_few_ops(call):
    torch = pytest.importorskip("torch")
    theirs, ours = (eval(call, {"L": library, "math": math}) for library in (torch, gradus))
    theirs, ours = (v if isinstance(v, (tuple, list)) else (v,) for v in (theirs, ours))
    assert len(theirs) == len(ours)
    for a, b in zip(theirs, ours):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == f"torch.{str(b.dtype).split('.')[-1]}"
        assert torch.allclose(a.cdouble(), torch.from_dlpack(b.contiguous()).cdouble(), 1e-5, 1e-6, equal_nan=True)


def test_functions_of_a_few_ops_refuse_and_differentiate():
    for call, said in (
            (lambda: gradus.block_diag(gradus.ones(2, 2, 2)), "block_diag: expected a matrix, got shape .2, 2, 2"),
            (lambda: gradus.tensor_split(gradus.ones(3), 0), "tensor_split: the number of parts is 0"),
            (lambda: gradus.tensor_split(gradus.ones(3), 2, dim=4), "axis 4 of a tensor of shape"),
            (lambda: gradus.hsplit(gradus.ones(3), 2), "hsplit: an axis of 3 does not fall into 2 equal parts"),
            (lambda: gradus.vsplit(gradus.ones(3), 1), "vsplit: the tensor has 1 axes, expected 2"),
            (lambda: gradus.unravel_index(gradus.tensor([12]), (3, 4)), "outside of shape .3, 4"),
            (lambda: gradus.unravel_index(gradus.ones(1), 3), "expected whole numbers, got gradus.float32"),
            (lambda: gradus.tril_indices(-1, 2), "a matrix of -1 rows"),
            (lambda: gradus.combinations(gradus.ones(2, 2)), "combinations: expected a vector"),
            (lambda: gradus.view_as_complex(gradus.ones(3)), "expected a last axis of 2"),
            (lambda: gradus.view_as_real(gradus.ones(3)), "expected complex numbers, got gradus.float32"),
            (lambda: gradus.gcd(gradus.ones(2), gradus.ones(2)), "gcd: expected whole numbers"),
            (lambda: gradus.lcm(gradus.tensor([True]), True), "lcm: expected whole numbers, got gradus.bool and"),
            (lambda: gradus.polygamma(gradus.ones(2), 1), "a whole number n and a tensor, got a Tensor and a int"),
            (lambda: gradus.polygamma(1.5, gradus.ones(2)), "polygamma: expected a whole number n"),
            (lambda: gradus.polygamma(-1, gradus.ones(2)), "polygamma: n is -1"),
            (lambda: gradus.vander(gradus.ones(2), -1), "vander: N is -1"),
            (lambda: gradus.histc(gradus.ones(2), 4, 3, 1), "the range is 3 to 1"),
            (lambda: gradus.cov(gradus.ones(2, 2, 2)), "cov: expected variables as rows")):
        with pytest.raises(gradus.Error, match=said):
            call()
    x = gradus.tensor([[0.3, 0.9], [0.7, -0.4], [1.1, 0.2]], dtype=gradus.float64, requires_grad=True)
    for f in (lambda a: gradus.cov(a), lambda a: gradus.logdet(a.mT @ a), lambda a: gradus.block_diag(a, a.T),
              lambda a: gradus.view_as_real(gradus.view_as_complex(a)), lambda a: gradus.vander(a[:, 0])):
        assert gradus.autograd.gradcheck(f, [x])


def test_stubs_have_what_is_there():
    from gradus import _stubs
    text = _stubs.text()
    compile(text, "stub", "exec")
    import ast

    def named(body):
        return {n.name for n in body if hasattr(n, "name")} | {n.target.id for n in body if hasattr(n, "target")} \
            | {alias.name for n in body if isinstance(n, ast.ImportFrom) for alias in n.names}
    tree = ast.parse(text).body
    assert {name for name in dir(gradus) if name[0] != "_"} <= named(tree)
    members, = (named(n.body) for n in tree if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    assert {name for name in dir(gradus.Tensor) if name[0] != "_"} <= members and members <= set(dir(gradus.Tensor))
    assert {f"__{n}__" for n in "dlpack array contains complex format hash".split()} <= members
    for name in dir(gradus):
        value = getattr(gradus, name)
        if inspect.isfunction(value) and name[0] != "_" or name in gradus._tensor.aliases:
            assert f"\ndef {name}(" in text, name
            assert value.__doc__, name
