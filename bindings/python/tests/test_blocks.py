"""gradus.blocks: block-sparse tensors beside their dense embeddings, and what is refused."""
import copy
import os
import pathlib
import pickle

import pytest

import gradus
from gradus import blocks
from gradus.blocks import Leg

np = pytest.importorskip("numpy")
LEG = Leg(1, {-1: 2, 0: 3, 1: 2})
PRODUCT = Leg(1, [((0, 0), 1), ((1, 1), 2), ((2, 0), 1)], "U(1) x Z2")
ODD = Leg(1, {0: 1, 1: 2}, symmetry="fZ2")
GROUPS = {"U(1)": LEG, "U(1) x Z2": PRODUCT, "Z3": Leg(1, {0: 2, 2: 1, 1: 1}, "Z3")}


def drawn(*legs, seed=0, charge=None, dtype="f64", requires_grad=False):
    gradus.manual_seed(seed)
    return blocks.randn(list(legs), charge, dtype=dtype, requires_grad=requires_grad)


def near(x, y, tolerance=1e-12):
    x, y = (t.to_dense() if isinstance(t, blocks.BlockTensor) else t for t in (x, y))
    return x.shape == y.shape and bool(((x - y).abs() <= tolerance).all())


def test_what_a_leg_says():
    assert LEG.size == 7 and LEG.count == 3 and LEG.arrow == 1 and LEG.symmetry == "U(1)"
    assert LEG.sectors == [(-1, 2), (0, 3), (1, 2)] and not LEG.neutral
    assert LEG == Leg(1, [(-1, 2), (0, 3), (1, 2)]) and hash(LEG) == hash(Leg(1, {-1: 2, 0: 3, 1: 2}))
    assert LEG != LEG.reversed() and LEG.reversed().reversed() == LEG and LEG != 3 and LEG != None  # noqa: E711
    assert PRODUCT.sectors[1] == ((1, 1), 2) and PRODUCT.symmetry == "U(1) x Z2"
    assert repr(LEG) == "<Leg + {-1: 2, 0: 3, 1: 2}, U(1)>"
    assert Leg(-1, {0: 4}).neutral


def test_what_a_tensor_says():
    x = drawn(LEG, LEG.reversed(), requires_grad=True)
    assert (x.rank, x.count, x.elements, x.shape, x.charge) == (2, 3, 17, (7, 7), 0)
    assert x.legs == [LEG, LEG.reversed()] and x.blocks == [(0, 0), (1, 1), (2, 2)]
    assert x.dtype == gradus.float64 and x.requires_grad and x.is_leaf and x.grad is None
    assert x.data.shape == (17,) and "17 elements of 49 in 3 blocks" in repr(x)
    assert drawn(LEG, charge=1).blocks == [(2,)] and drawn(PRODUCT, charge=(1, 1)).charge == (1, 1)
    assert x.block(1, 1).shape == (3, 3) and bool((x.block(0, 0) == x.to_dense()[:2, :2]).all())
    assert near(x.set_block((1, 1), gradus.zeros(3, 3, dtype="f64")).block(1, 1), gradus.zeros(3, 3, dtype="f64"))
    assert near(x.set_block((0, 0), [[1, 2], [3, 4]]).block(0, 0), gradus.tensor([[1.0, 2], [3, 4]], dtype="f64"))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("dtype", ["f64", "c128"])
def test_einsum_and_gradients_are_those_of_the_dense_tensors(group, dtype):
    leg = GROUPS[group]
    a = drawn(leg, leg, leg.reversed(), seed=1, dtype=dtype, requires_grad=True)
    b = drawn(leg, leg.reversed(), leg.reversed(), seed=2, dtype=dtype, requires_grad=True)
    y = blocks.einsum("abc,cde->abde", a, b)
    dense = [x.to_dense().detach().requires_grad_() for x in (a, b)]
    wanted = gradus.einsum("abc,cde->abde", *dense)
    assert near(y, wanted)
    # |y|^2 of both: blocks give gradients with the blocks of their operand.
    blocks.einsum("abde,abde->", y.conj(), y).real.backward()
    (wanted.conj() * wanted).real.sum().backward()
    for x, d in zip((a, b), dense):
        assert x.grad.legs == x.legs and near(x.grad, blocks.from_dense(d.grad, x.legs, tolerance=1e9), 1e-10)


def test_a_function_of_blocks_passes_gradcheck():
    a = drawn(LEG, LEG.reversed(), seed=3)

    def loss(data):
        x = a.with_data(data)
        u, s, vh = (x @ x.conj().permute(1, 0) + x).svd(rank=4)
        return (s * s).sum() + u.scale(1, s).norm() + x.tanh().inner(x)

    assert gradus.autograd.gradcheck(loss, (a.data.detach().requires_grad_(),))


def test_moves():
    x = drawn(LEG, LEG.reversed(), LEG, charge=1, seed=4)
    dense = x.to_dense()
    assert near(x.permute(2, 0, 1), dense.permute(2, 0, 1)) and near(x.permute((2, 0, 1)), x.permute([2, 0, 1]))
    assert near(x.permute(-1, 0, 1), dense.permute(2, 0, 1))
    fused = x.fuse(0, 2)
    assert fused.rank == 2 and fused.legs[0].parts == x.legs[:2] and fused.legs[0].arrow == 1
    assert near(fused.split(0), dense) and x.fuse(0, 2, -1).legs[0].arrow == -1
    assert x.slice(0, [(0, 1), (), (1,)]).shape == (5, 7, 7)
    assert near(x.scale(0, [float(k) for k in range(7)]),
                dense * gradus.arange(7, dtype="f64").reshape(7, 1, 1))
    square = drawn(LEG, LEG.reversed(), seed=5)
    assert square.trace().item() == pytest.approx(square.to_dense().diagonal().sum().item())
    neutral = drawn(LEG, LEG.reversed(), Leg(1, {0: 3}), seed=6)
    assert near(neutral.sum(2), neutral.to_dense().sum(2))


def test_number_by_number():
    x, y = drawn(LEG, LEG.reversed(), seed=1), drawn(LEG, LEG.reversed(), seed=2)
    a, b = x.to_dense(), y.to_dense()
    for got, wanted in [(x + y, a + b), (x - y, a - b), (-x, -a), (x * 3, a * 3), (2 * x, 2 * a), (x / 4, a / 4),
                        (x * gradus.tensor(2.0, dtype="f64"), a * 2), (x.tanh(), a.tanh()), (x.map("sin"), a.sin()),
                        (x @ y, a @ b)]:
        assert near(got, wanted)
    assert x.norm().item() == pytest.approx(a.norm().item())
    assert x.inner(y).item() == pytest.approx((a * b).sum().item())
    assert x.to("f32").dtype == gradus.float32 and isinstance(x.clone(), blocks.BlockTensor)
    with gradus.no_grad():
        assert near(x.clone().copy_(y), y) and x.detach().clone().zero_().norm().item() == 0


def test_factors():
    x = drawn(LEG, LEG, LEG.reversed(), LEG.reversed(), seed=7)
    f = x.svd((0, 1))
    u, s, vh = f
    assert near(blocks.einsum("abz,zcd->abcd", u.scale(2, s), vh), x, 1e-10)
    assert vh.legs[0] == f.bond and f.bond.size == s.numel() and f.discarded == 0
    wanted = np.linalg.svd(np.asarray(x.to_dense()).reshape(49, 49), compute_uv=False)
    assert np.allclose(np.sort(np.asarray(s))[::-1], wanted[:s.numel()])
    cut = x.svd((0, 1), rank=5, ties="index")
    assert cut.bond.size == 5 and cut.discarded == pytest.approx(float((wanted[5:] ** 2).sum()))
    assert x.svd((0, 1), sizes={0: 2, 1: 1}).bond.sectors == [(0, 2), (1, 1)]
    q, r = x.qr((0, 1))
    assert near(blocks.einsum("abz,zcd->abcd", q, r), x, 1e-10)
    m = drawn(LEG, LEG.reversed(), seed=8)
    h = m + m.adjoint()
    w, v = h.eigh()
    assert near(v.scale(1, w) @ v.adjoint(), h, 1e-10)
    assert np.allclose(np.sort(np.asarray(w)), np.linalg.eigvalsh(np.asarray(h.to_dense())))
    assert near(m.inv() @ m, gradus.eye(7, dtype="f64"), 1e-9)
    assert near(m.solve(h), m.inv() @ h, 1e-9)
    assert m.det().item() == pytest.approx(np.linalg.det(np.asarray(m.to_dense())))
    charged = drawn(LEG, LEG.reversed(), charge=1, seed=9)
    assert charged.svd(charge="left").u.charge == 1 and charged.svd(charge="right").vh.charge == 1
    with pytest.raises(gradus.ValueError, match="charge"):
        charged.svd()


def test_fermions():
    pair = blocks.from_dense(gradus.tensor([[0.0, 0, 0], [0, 1, 2], [0, 3, 4]], dtype="f64"), [ODD, ODD])
    with pytest.raises(gradus.ValueError, match=r"signs=True"):
        pair.permute(1, 0)
    assert near(pair.permute(1, 0, signs=True), -pair.to_dense().mT)
    psi = drawn(ODD, ODD, seed=1)
    assert blocks.einsum("ab,ab->", psi.conj(), psi).item() == pytest.approx(psi.norm().item() ** 2)
    u, s, vh = psi.svd()
    assert near(blocks.einsum("az,zb,bc->ac", u, u.adjoint(), psi), psi, 1e-12)
    assert near(pair.twist(0), -pair.to_dense())


def test_training_with_an_optimiser():
    target = drawn(LEG, LEG.reversed(), seed=1)
    x = blocks.zeros([LEG, LEG.reversed()], dtype="f64", requires_grad=True)
    adam = gradus.optim.Adam([x.data], lr=0.1)
    for _ in range(200):
        adam.zero_grad()
        (x - target).norm().square().backward()
        adam.step()
    assert near(x, target, 1e-3)


def test_files(tmp_path):
    path = str(tmp_path / "two.safetensors")
    x, y = drawn(LEG, LEG.reversed(), charge=1, seed=1, dtype="c128"), drawn(PRODUCT, PRODUCT.reversed(), seed=2)
    blocks.save(path, {"x": x, "y": y})
    back = blocks.load(path)
    assert sorted(back) == ["x", "y"] and back["x"].charge == 1 and back["y"].legs == y.legs
    assert back["x"].data.tolist() == x.data.tolist()
    with pytest.raises(gradus.IOError, match="no/such"):
        blocks.load("no/such.safetensors")
    with pytest.raises(gradus.IOError):
        blocks.save(str(tmp_path / "no" / "such"), {"x": x})
    assert os.listdir(tmp_path) == ["two.safetensors"]
    blocks.save(pathlib.Path(path), {"x": x})
    assert list(blocks.load(pathlib.Path(path))) == ["x"]


def test_identity():
    one = blocks.eye(PRODUCT, dtype="f64")
    assert near(one, gradus.eye(4, dtype="f64")) and one.legs == [PRODUCT, PRODUCT.reversed()]


def test_plan_says_what_it_costs():
    x = drawn(LEG, LEG.reversed())
    plan = blocks.plan("ij,jk,kl->il", x, x, x)
    assert plan.flops < plan.dense_flops and plan.pairs == 6 and len(plan.order) == 2
    assert repr(plan).startswith("<BlockPlan ij,jk,kl->il: 2 steps, 6 pairs of blocks")
    assert near(blocks.einsum("ij,jk->ik", [x, x]), x @ x)


REFUSED = {
    "Leg(2, {0: 1})": "an arrow is 1",
    "Leg(1, 3)": "expected sectors",
    "Leg(1, 'abc')": "expected sectors",
    "Leg(1, [1, 2])": "expected sectors",
    "Leg(1, {0: 1}, 'SU(2)')": "fU.1.",
    "Leg(1, {(0, 1): 2})": "2 components",
    "Leg(1, {0: 'a'})": "whole number",
    "Leg(1, {0: -1})": "size -1",
    "Leg(1, {0: 1}, 'fZ3')": "even and odd",
    "blocks.randn([])": "one leg or more",
    "blocks.randn([LEG], dtype='bool')": "bool",
    "blocks.randn([LEG], charge=(1, 2))": "2 components",
    "blocks.zeros([LEG, PRODUCT])": "leg",
    "blocks.from_dense(gradus.ones(7, 7), [LEG, LEG])": r"element \(0, 0\) is 1 .* a tolerance",
    "blocks.from_dense(gradus.ones(7), [LEG], tolerance=float('nan'))": "0 or more",
    "blocks.einsum('ij,jk->ik', x, x.data)": "operand 1 is no block tensor .*from_dense",
    "blocks.einsum('ij,kj->ik', x, x)": "arrows -1 and -1",
    "blocks.einsum('ij,jk->ik')": "operands",
    "blocks.einsum('ij->', x, x)": "einsum",
    "x + 1": "to_dense",
    "1 - x": "to_dense",
    "x * x": "einsum contracts them",
    "x / gradus.ones(2)": "one number",
    "x + x.fuse(0, 2)": "add",
    "x @ x.fuse(0, 2)": "2 legs",
    "x.exp()": r"exp\(0\) is 1",
    "x.block(0, 1)": "would fit in sector",
    "x.block(-1, 0)": "count from 0",
    "x.block(5, 1)": "no sector 5",
    "x.set_block((0, 0), gradus.ones(3, 3))": "its sectors have",
    "x.with_data(gradus.ones(3))": "takes .17,.",
    "x.permute(0, 0)": "axes in some order",
    "x.fuse(0, 2, 3)": "an arrow",
    "x.fuse(1, 2)": "fuse",
    "x.split(0)": "not fused",
    "x.slice(0, [(0, 1, 2)] * 3)": "for each sector",
    "x.svd(rank=-1)": "0 or more",
    "x.svd(rtol=float('nan'))": "0 or more",
    "x.svd(ties='a')": 'expected "widen" or "index"',
    "x.svd(5)": "axis 5",
    "x.svd(sizes={})": "names no sector",
    "blocks.BlockTensor(gradus.ones(3), x.structure)": "takes .17,.",
    "blocks.BlockTensor(gradus.ones(17), 4)": "expected a tensor and the structure",
    "blocks.eye(3)": "expected a gradus.blocks.Leg",
    "x.detach().mul_(x.detach().permute(1, 0).conj().fuse(0, 2))": "same structure",
    "x.detach().copy_(3)": "same structure",
    "blocks.BlockTensor(3, x.structure)": "expected a tensor and the structure",
    "setattr(x, '_data', 3) or x.to_dense()": "parts were replaced",
    "x.permute(None)": "whole numbers, got None",
    "x.svd(1.5)": "whole numbers, got 1.5",
    "x.slice(0, 3)": "for each sector",
    "x.slice(0, [0, 1, 2])": "for each sector",
    "x.block({0: 1})": "whole numbers",
    "blocks.einsum(x, x)": "an equation such as",
    "blocks.einsum('ij,jk->iik', x, x)": "no such diagonals",
    "blocks.from_dense(gradus.ones(7) > 0, [LEG])": "bool",
    "blocks.save('/tmp/none', {1: x})": "need names",
    "blocks.save('/tmp/none', {'a': x.data})": '"a" is no block tensor',
    "gradus.einsum('ij,jk->ik', x, x)": "gradus.blocks.einsum contracts",
    "gradus.exp(x)": "x.data has its numbers",
    "gradus.zeros(3).to(x)": "got a .*BlockTensor",
    "gradus.save({'x': x}, '/tmp/none')": "gradus.blocks.save",
    "x.qr(charge='up')": '"left" or "right"',
    "x.fuse(0, 2).svd()": "which axes are the rows",
    "x.twist(9)": "twist",
    "x.copy_(x.fuse(0, 2))": "same structure",
}


@pytest.mark.parametrize("call", REFUSED)
def test_refused_with_a_text(call):
    x = drawn(LEG, LEG.reversed())
    with pytest.raises(gradus.Error, match=REFUSED[call]):
        eval(call, {"x": x, "LEG": LEG, "PRODUCT": PRODUCT, "Leg": Leg, "blocks": blocks, "gradus": gradus})


@pytest.mark.parametrize("name, hint", [("reshape", "fuse"), ("T", "permute"), ("matmul", "einsum"),
                                        ("sort", "to_dense"), ("foo", "'foo'")])
def test_what_it_has_not(name, hint):
    x = drawn(LEG, LEG.reversed())
    with pytest.raises(AttributeError, match=hint):
        getattr(x, name)
    for nonsense in (lambda: x ** 2, lambda: x[0], lambda: len(x), lambda: x / x, lambda: blocks.randn([LEG, 3])):
        with pytest.raises(TypeError):
            nonsense()


def test_copies_and_pickles():
    x = drawn(LEG, LEG.reversed(), LEG, charge=1, requires_grad=True).fuse(0, 2).detach()
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert other.structure == x.structure and near(other, x)
        other.zero_()
        assert x.norm().item() > 0
    assert copy.copy(x).data is x.data
    for leg in (LEG, PRODUCT, ODD, x.legs[0]):
        assert pickle.loads(pickle.dumps(leg)) == leg and copy.deepcopy(leg) == leg
    cut = x.svd(charge="left")
    assert pickle.loads(pickle.dumps(cut)).bond == cut.bond


def test_what_has_no_legs_is_a_number():
    psi, h = drawn(LEG, seed=1), drawn(LEG, LEG.reversed(), seed=2)
    assert isinstance(blocks.einsum("i,i->", psi.conj(), psi), gradus.Tensor)
    energy = blocks.einsum("i,ij,j->", psi.conj(), h, psi) / blocks.einsum("i,i->", psi.conj(), psi)
    v, m = np.asarray(psi.to_dense()), np.asarray(h.to_dense())
    assert float(energy) == pytest.approx(v @ m @ v / (v @ v)) and (h / energy).rank == 2
    assert isinstance(h.trace(), gradus.Tensor)


def test_beside_others():
    x = drawn(LEG, LEG.reversed(), seed=1)
    three = np.float64(3)
    assert near(three * x, x * 3) and near(x * np.array(3.0), x * 3) and near(sum([x, x]), x * 2)
    for nonsense in (lambda: np.ones(3) @ x, lambda: np.asarray(x), lambda: x + "a", lambda: x @ np.eye(7)):
        with pytest.raises(TypeError):
            nonsense()
    for nonsense in (lambda: x == x.clone(), lambda: x < 3, lambda: bool(x)):
        with pytest.raises(gradus.ValueError, match="norm"):
            nonsense()
    assert x != None and x is not None and len({x, x}) == 1  # noqa: E711
    for like in (gradus.randn_like, gradus.rand_like, gradus.empty_like, gradus.zeros_like):
        with pytest.raises(gradus.Error):
            like(x)
    assert {"tanh", "dtype", "detach", "svd", "copy_"} <= set(dir(x))
    z = drawn(LEG, LEG.reversed(), seed=1, dtype="c128")
    assert near(z.real, z.to_dense().real) and near(z.imag, z.to_dense().imag)
    assert near(x.clamp(-0.5, 0.5), x.to_dense().clamp(-0.5, 0.5))
    assert near(x.leaky_relu(0.2), gradus.leaky_relu(x.to_dense(), 0.2))
    with pytest.raises(gradus.ValueError, match="clamp.0. is 0.5"):
        x.clamp(0.5, 1)


def test_transforms_take_and_give_block_tensors():
    x, t = drawn(LEG, LEG.reversed(), seed=1), drawn(LEG, LEG.reversed(), seed=2)
    y, dy = gradus.func.jvp(lambda b: b @ b, (x,), (t,))
    assert near(y, x @ x) and near(dy, x @ t + t @ x)
    y, back = gradus.func.vjp(lambda b: b @ b, x)
    (g,) = back(t)
    m, c = x.to_dense(), t.to_dense()
    assert near(g, blocks.from_dense(c @ m.mT + m.mT @ c, x.legs, tolerance=1e-9))
    assert near(gradus.func.grad(lambda b: b.norm().square())(x), x * 2)
    step = gradus.compile(lambda b: b @ b + b)
    inputs = [drawn(LEG, LEG.reversed(), seed=k) for k in range(5)]
    results = [step(b) for b in inputs]
    assert step.replays >= 2 and all(near(r, b @ b + b) for r, b in zip(results, inputs))
    assert gradus.autograd.gradcheck(lambda b: (b @ b).tanh(), (x.requires_grad_(),))
    assert gradus.audit.check(lambda: x @ x)
    with pytest.raises(gradus.ValueError, match="return its x.data"):
        gradus.func.vmap(lambda d: x.with_data(d))(gradus.randn(3, 17, dtype="f64"))
    leaf = drawn(LEG, LEG.reversed(), seed=3, requires_grad=True)
    out = gradus.checkpoint(lambda b: b @ b, leaf)
    out.norm().backward()
    wanted = leaf.detach().requires_grad_()
    (wanted @ wanted).norm().backward()
    assert near(out, wanted @ wanted) and near(leaf.grad, wanted.grad)


def test_a_buffer_is_one_object():
    x = drawn(LEG, LEG.reversed(), requires_grad=True)
    assert x.data is x.data
    with pytest.raises(gradus.ValueError, match="given twice"):
        gradus.optim.SGD([x.data, x.data], lr=1.0)
    with pytest.raises(gradus.DTypeError, match="x.data"):
        gradus.optim.SGD([x], lr=1.0)


def test_deep_lists_are_no_axes():
    nested = (0, 1)
    for _ in range(100000):
        nested = (nested,)
    with pytest.raises((gradus.ValueError, RecursionError)):
        drawn(LEG, LEG.reversed()).permute(nested)
    while nested[0] != 0:  # taken apart one by one
        nested = nested[0]
