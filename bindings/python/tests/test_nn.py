"""gradus.nn: modules and their state, first values, errors."""
import copy
import math
import pickle

import numpy as np
import pytest

import gradus
from gradus import nn
from gradus.nn import functional as F

F64 = gradus.float64


def drawn(*size, seed=0):
    return np.random.default_rng(seed).normal(size=size)


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-9, 1e-12)


# ---- first values

def test_first_values_are_drawn_as_the_engine_draws_them():
    gradus.manual_seed(5)
    made = [nn.Linear(6, 3), nn.Conv2d(4, 6, 3, groups=2), nn.ConvTranspose1d(4, 2, 3),
            nn.Embedding(5, 2), nn.MultiheadAttention(4, 2), nn.Linear(2, 2, bias=False)]
    gradus.manual_seed(5)

    def uniform(bound, *size):
        return gradus.uniform(size, -bound, bound)
    linear, conv = 1 / math.sqrt(6), 1 / math.sqrt(2 * 9)
    up, head = 1 / math.sqrt(2 * 3), math.sqrt(6 / 16)
    expected = [uniform(linear, 3, 6), uniform(linear, 3), uniform(conv, 6, 2, 3, 3),
                uniform(conv, 6), uniform(up, 4, 2, 3), uniform(up, 2), gradus.normal((5, 2)),
                uniform(head, 12, 4), None, uniform(0.5, 4, 4), None,
                uniform(1 / math.sqrt(2), 2, 2)]
    got = [p for m in made for p in m.parameters()]
    got.insert(10, got.pop(10))
    assert len(got) == len(expected)
    for p, e in zip(got, expected):
        assert gradus.equal(p, gradus.zeros(p.shape) if e is None else e)
    norm = nn.BatchNorm1d(3)
    assert norm.weight.tolist() == [1, 1, 1] and norm.running_var.tolist() == [1, 1, 1]
    assert all(p.requires_grad and p.is_leaf for p in got)


def test_init():
    gradus.manual_seed(1)
    w = nn.Parameter(gradus.zeros((40, 30, 5)))
    assert nn.init.fans(w) == (150, 200)
    for fill, deviation in ((lambda: nn.init.xavier_uniform_(w, 2.0), 2 * math.sqrt(2 / 350)),
                            (lambda: nn.init.xavier_normal_(w), math.sqrt(2 / 350)),
                            (lambda: nn.init.kaiming_uniform_(w, a=math.sqrt(5)),
                             1 / math.sqrt(3 * 150)),
                            (lambda: nn.init.kaiming_normal_(w, mode="fan_out",
                                                             nonlinearity="relu"), 0.1),
                            (lambda: nn.init.uniform_(w, 0, 2), 1 / math.sqrt(3)),
                            (lambda: nn.init.normal_(w, 1.0, 3.0), 3),
                            (lambda: nn.init.orthogonal_(w, 2.0), 2 / math.sqrt(150))):
        assert fill() is w and w.requires_grad
        assert abs(w.detach().std().item() / deviation - 1) < 0.05
    q = w.detach().reshape(40, 150)
    assert gradus.allclose(q @ q.T / 4, gradus.eye(40), atol=1e-5)
    nn.init.trunc_normal_(w, std=2.0, a=-1.0, b=1.0)
    assert w.abs().max().item() <= 1
    assert nn.init.constant_(w, 3.0).detach().mean().item() == 3
    assert nn.init.zeros_(w).detach().abs().max().item() == 0
    with pytest.raises(ValueError, match="two axes"):
        nn.init.xavier_normal_(gradus.zeros((3,)))
    with pytest.raises(ValueError, match="no gain"):
        nn.init.calculate_gain("rellu")


# ---- modules

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5))
        self.heads = nn.ModuleList([nn.Linear(8, 2), nn.Linear(8, 3)])
        self.scale = nn.Parameter(gradus.ones((1,)))
        self.register_buffer("seen", gradus.zeros((2,)))
        self.register_buffer("scratch", gradus.zeros((2,)), persistent=False)
        self.register_parameter("shift", None)

    def forward(self, x):
        h = self.body(x) * self.scale
        return [head(h) for head in self.heads]


NAMES = ["scale", "body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias", "heads.0.weight",
         "heads.0.bias", "heads.1.weight", "heads.1.bias"]


def test_what_is_inside():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == NAMES
    assert [n for n, _ in net.named_buffers()] == [
        "seen", "scratch", "body.1.running_mean", "body.1.running_var",
        "body.1.num_batches_tracked"]
    assert [n for n, _ in net.named_children()] == ["body", "heads"]
    assert [n for n, _ in net.named_modules()] == [
        "", "body", "body.0", "body.1", "body.2", "body.3", "heads", "heads.0", "heads.1"]
    assert net.get_submodule("heads.1") is net.heads[1]
    assert net.get_parameter("body.0.bias") is net.body[0].bias
    assert net.shift is None and "scale" in dir(net)
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen[-1] == "Net" and seen[0] == "Linear" and len(seen) == 9
    net.body[0].weight = net.heads[0].weight  # shared: listed once
    assert len(list(net.parameters())) == len(NAMES) - 1
    assert len(net.state_dict()) == len(NAMES) + 4
    del net.scale
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'scale'"):
        net.scale


def test_modes_and_gradients():
    net = Net()
    assert net.eval() is net and not net.body[3].training
    x = gradus.ones((3, 4))
    assert gradus.equal(net(x)[0], net(x)[0])
    net.train()
    sum(y.sum() for y in net(x)).backward()
    assert net.scale.grad is not None
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0]
    net.zero_grad()
    assert net.scale.grad is None
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())


def test_to():
    net = Net()
    weight = net.scale
    assert net.to("cpu").scale is weight and net.to(gradus.float32).scale is weight
    net.heads[0].weight = net.heads[1].weight
    net.scale.grad = gradus.ones((1,))
    assert net.double() is net
    assert {p.dtype for p in net.parameters()} == {F64}
    assert net.scale.grad.dtype == F64 and isinstance(net.scale, nn.Parameter)
    assert net.heads[0].weight is net.heads[1].weight
    assert net.body[1].num_batches_tracked.dtype == gradus.int64
    assert net.body[1].running_var.dtype == F64
    net.half()
    assert net.scale.dtype == gradus.float16
    assert net.to(gradus.zeros((1,), dtype=F64)).scale.dtype == F64


def test_state_dict_round_trip():
    a, b = Net(), Net()
    a.train()
    a(gradus.ones((3, 4)))
    state = a.state_dict()
    assert list(state)[:2] == ["scale", "seen"] and "scratch" not in state
    assert b.load_state_dict(state) == ([], [])
    for (n, x), y in zip(a.state_dict().items(), b.state_dict().values()):
        assert gradus.equal(x, y), n
    assert b.scale.requires_grad
    b.load_state_dict({n: x.numpy() for n, x in state.items()})  # arrays too
    assert a.state_dict(keep_vars=True)["scale"] is a.scale
    with gradus.no_grad():
        a.scale.add_(1)
    assert state["scale"].item() == a.scale.item()  # the same memory


def test_what_load_state_dict_refuses():
    net = Net()
    before = net.scale.item()
    state = dict(net.state_dict())
    state["scale"] = state["scale"] + 1
    state["heads.2.weight"] = state.pop("heads.1.weight")
    with pytest.raises(ValueError) as e:
        net.load_state_dict(state)
    assert "Net.load_state_dict" in str(e.value)
    assert "missing keys: heads.1.weight" in str(e.value)
    assert "unexpected keys: heads.2.weight" in str(e.value)
    assert net.scale.item() == before
    assert net.load_state_dict(state, strict=False) == (["heads.1.weight"], ["heads.2.weight"])
    assert net.scale.item() == before + 1
    with pytest.raises(ValueError, match=r"scale has shape \(1,\), got \(2,\)"):
        net.load_state_dict({"scale": gradus.ones((2,))}, strict=False)


def test_copies_and_pickles():
    net = Net()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert [n for n, _ in other.named_parameters()] == NAMES
        assert gradus.equal(other.scale, net.scale) and other.scale is not net.scale
        assert isinstance(other.scale, nn.Parameter) and other.scale.requires_grad
        with gradus.no_grad():
            other.scale.add_(1)
        assert other.scale.item() == net.scale.item() + 1
        other.eval()(gradus.ones((3, 4)))
    p = nn.Parameter(gradus.ones((2,)), requires_grad=False)
    assert not copy.deepcopy(p).requires_grad
    for module in (nn.ELU(0.3), nn.MSELoss(reduction="sum"), nn.LSTM(2, 2)):
        assert repr(pickle.loads(pickle.dumps(module))) == repr(module)


def test_as_text():
    assert repr(nn.Parameter([1.0, 2.0])) == \
        "Parameter containing:\ntensor([1., 2.], requires_grad=True)"
    net = nn.Sequential(nn.Linear(4, 8), nn.ModuleDict({"a": nn.ELU(0.5)}), nn.ReLU(inplace=True))
    assert repr(net) == """Sequential(
  (0): Linear(in_features=4, out_features=8, bias=True)
  (1): ModuleDict(
    (a): ELU(alpha=0.5)
  )
  (2): ReLU(inplace=True)
)"""
    assert repr(nn.Conv2d(1, 2, 3, padding=1, bias=False)) == \
        "Conv2d(1, 2, kernel_size=(3, 3), padding=(1, 1), bias=False)"


def test_containers():
    a, b, c = nn.ReLU(), nn.Tanh(), nn.ELU()
    s = nn.Sequential(a, b).append(c)
    assert len(s) == 3 and s[-1] is c and list(s[:2]) == [a, b] and b in s
    s[0] = c
    del s[1]
    assert [n for n, _ in s.named_modules(prefix="x")] == ["x", "x.0"] and s[1] is c
    assert list(nn.Sequential({"one": a, "two": b}).one.parameters()) == []
    s = nn.Sequential(a)
    t = s + nn.Sequential(b, c)
    assert isinstance(t, nn.Sequential) and list(t) == [a, b, c] and list(2 * s) == list(s * 2) == [a, a]
    s += t
    assert list(s) == [a, a, b, c] and s.insert(0, b) is s.extend([c]) is s and len(s) == 6
    with pytest.raises(TypeError):
        s + [a]
    assert list(nn.ModuleList([a]) + [b]) == [a, b]
    m = nn.ModuleList([a])
    m += [b]
    m.insert(0, c)
    assert list(m) == [c, a, b] and isinstance(m[1:], nn.ModuleList)
    with pytest.raises(IndexError, match="index 3 of 3"):
        m[3]
    d = nn.ModuleDict({"a": a})
    d["b"] = b
    assert list(d) == ["a", "b"] and d.pop("a") is a and d.get("c") is None
    assert "a" not in d and len(d) == 1


def test_shared_layers_share_gradients():
    layer = nn.Linear(3, 3)
    nn.Sequential(layer, nn.Tanh(), layer)(gradus.ones((2, 3))).sum().backward()
    assert layer.weight.grad.shape == (3, 3)


def test_dropout():
    gradus.manual_seed(0)
    x = gradus.ones((50, 40), requires_grad=True)
    y = nn.Dropout(0.25)(x)
    assert set(y.reshape(-1).tolist()) <= {0.0, y.max().item()}
    assert abs((y == 0).float().mean().item() - 0.25) < 0.05
    y.sum().backward()
    assert gradus.equal(x.grad, y)
    z = nn.Dropout2d(0.5)(gradus.ones((8, 6, 3, 3)))
    assert set(z.sum((2, 3)).reshape(-1).tolist()) <= {0.0, 18.0}


def test_arguments_by_place():
    assert repr(nn.ReLU(True)) == "ReLU(inplace=True)" and repr(nn.LeakyReLU(0.2)) == \
        "LeakyReLU(negative_slope=0.2)"
    assert nn.HuberLoss("sum").reduction == "sum" and nn.Dropout(0.1, True).p == 0.1
    table = nn.Embedding(4, 3, padding_idx=-1).weight.detach()
    assert table[3].tolist() == [0, 0, 0] and table[2].abs().min().item() > 0
    with pytest.raises(TypeError, match="MaxPool2d: missing a required argument: 'kernel_size'"):
        nn.MaxPool2d()


def test_utils():
    torch = pytest.importorskip("torch")
    g = [drawn(3, 2), drawn(4, seed=1)]
    for norm_type in (2.0, 1.0, math.inf):
        ours = [nn.Parameter(gradus.zeros(x.shape, dtype=F64)) for x in g]
        theirs = [torch.nn.Parameter(torch.zeros(x.shape, dtype=torch.float64)) for x in g]
        for p, q, x in zip(ours, theirs, g):
            p.grad, q.grad = gradus.tensor(x), torch.tensor(x)
        ours.append(nn.Parameter(gradus.zeros((2,))))  # without a gradient
        close(nn.utils.clip_grad_norm_(ours, 0.7, norm_type),
              torch.nn.utils.clip_grad_norm_(theirs, 0.7, norm_type))
        for p, q in zip(ours, theirs):
            close(p.grad, q.grad)
        nn.utils.clip_grad_value_(ours, 0.1)
        assert max(p.grad.abs().max().item() for p in ours[:2]) <= 0.1
    v = nn.utils.parameters_to_vector(ours)
    assert v.shape == (12,)
    nn.utils.vector_to_parameters(v + 1, ours)
    assert ours[1].tolist() == [1, 1, 1, 1]
    with pytest.raises(ValueError, match="12 numbers"):
        nn.utils.vector_to_parameters(v[:3], ours)
    ours[0].grad = gradus.full((3, 2), math.nan, dtype=F64)
    with pytest.raises(ArithmeticError, match="nan"):
        nn.utils.clip_grad_norm_(ours[0], 1.0, error_if_nonfinite=True)


def test_lists_and_dicts_of_parameters():
    net = nn.Module()
    net.list = nn.ParameterList([gradus.ones(2), nn.Parameter([3.0])])
    net.dict = nn.ParameterDict({"a": gradus.zeros(1)})
    net.list.append(gradus.ones(1, 4))
    net.dict["b"] = nn.Parameter([1.0, 2.0])
    assert [n for n, _ in net.named_parameters()] == ["list.0", "list.1", "list.2", "dict.a", "dict.b"]
    assert all(type(p) is nn.Parameter and p.requires_grad for p in net.parameters())
    assert len(net.list) == 3 and [p.numel() for p in net.list] == [2, 1, 4] and net.list[-1].shape == (1, 4)
    del net.list[0]
    assert list(dict(net.list.named_parameters())) == ["0", "1"] and isinstance(net.list[1:], nn.ParameterList)
    assert list(net.dict) == ["a", "b"] and net.dict["b"].tolist() == [1, 2] and "a" in net.dict
    assert repr(net.dict) == "ParameterDict((a): (1,), (b): (2,))"
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert [n for n, _ in other.named_parameters()] == ["list.0", "list.1", "dict.a", "dict.b"]
    with pytest.raises(TypeError, match="should be a Parameter"):
        net.list.append(3)
    assert Net().get_buffer("body.1.running_mean").shape == Net().body[1].running_mean.shape


# ---- errors

@pytest.mark.parametrize("make, size, words", [
    (lambda: nn.Linear(3, 2), (4, 5), r"Linear: expected 3 features.* got .*\(4, 5\)"),
    (lambda: nn.Linear(12, 2), (4, 3, 4), "put a Flatten before it"),
    (lambda: nn.Conv2d(3, 2, 3), (4, 2, 5, 5), r"Conv2d: expected 3 channels, \(n, 3, h, w\), got"),
    (lambda: nn.BatchNorm2d(3), (4, 3), r"BatchNorm2d: expected \(n, 3, ...\) in 4 axes"),
    (lambda: nn.LayerNorm((2, 3)), (3,), r"LayerNorm: expected \(2, 3\) as last axes"),
    (lambda: nn.GroupNorm(2, 4), (1, 3), r"GroupNorm: expected \(n, 4, ...\), got"),
    (lambda: nn.LSTM(3, 2), (5, 2, 4), "LSTM: expected 3 features in 2 or 3 axes"),
    (lambda: nn.BatchNorm1d(3), (1, 3), "more than one value per channel"),
])
def test_wrong_shapes_name_the_layer(make, size, words):
    with pytest.raises(gradus.ShapeError, match=words):
        make()(gradus.ones(size))


def test_errors_say_where():
    net = Net()
    with pytest.raises(gradus.ShapeError, match="Linear: expected 4") as e:
        net(gradus.ones((2, 3)))
    assert any('in "body.0" of Net' in note for note in getattr(e.value, "__notes__", ["body.0"]))
    with pytest.raises(TypeError, match="scale is one of its parameters"):
        net.scale = 3.0
    with pytest.raises(KeyError, match="no name"):
        net.add_module("a.b", nn.ReLU())
    with pytest.raises(TypeError, match="ELU"):
        nn.ELU(beta=3)
    with pytest.raises(ValueError, match="3 -> 2 do not divide into 2 groups"):
        nn.Conv1d(3, 2, 1, groups=2)
    with pytest.raises(ValueError, match="5 features do not divide into 2 heads"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(TypeError, match="takes integers, got gradus.float32"):
        nn.Embedding(3, 2)(gradus.ones((2,)))
    with pytest.raises(NotImplementedError, match="no forward"):
        nn.Module()(1)

    class Late(nn.Module):
        def __init__(self):
            self.layer = nn.ReLU()
    with pytest.raises(AttributeError, match="super"):
        Late()


def test_functional_names_match_torch():
    torch = pytest.importorskip("torch")
    ours = {n for n in dir(F) if not n.startswith("_") and callable(getattr(F, n))} - {"no_grad"}
    assert len(ours) > 80
    assert ours <= set(dir(torch.nn.functional)) | set(dir(torch))
    assert F.pad(gradus.ones((1, 2)), (1, 0), value=3.0).tolist() == [[3, 1, 1]]


def test_functional_call():
    from gradus.func import grad, vmap
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 1)).double()
    x, state = gradus.tensor(drawn(5, 3)), model.state_dict()
    shifted = {n: t + 1 for n, t in state.items()}
    y = nn.utils.functional_call(model, shifted, x)
    assert model[0].weight is model.get_parameter("0.weight")
    other = copy.deepcopy(model)
    other.load_state_dict(shifted)
    assert gradus.equal(y, other(x))

    def loss(state, sample):
        return nn.utils.functional_call(model, state, (sample,)).square().sum()
    each = vmap(grad(loss), (None, 0))(state, x)
    for i in range(5):
        model.zero_grad()
        model(x[i]).square().sum().backward()
        for n, p in model.named_parameters():
            close(each[n][i], p.grad)
    with pytest.raises(ValueError, match="no '9.weight'"):
        nn.utils.functional_call(model, {"9.weight": x}, x)


def test_what_is_no_module():
    with pytest.raises(TypeError, match="Sequential: 0 should be a Module, got <class"):
        nn.Sequential(nn.ReLU)
    with pytest.raises(TypeError, match="should be a Parameter"):
        nn.Module().register_parameter("w", gradus.ones((2,)))


@pytest.mark.parametrize("name, options", [
    ("relu", ()), ("relu6", ()), ("elu", (0.5,)), ("selu", ()), ("celu", (2.0,)), ("leaky_relu", (0.3,)), ("silu", ()),
    ("mish", ()), ("hardtanh", (-0.5, 2.0)), ("hardsigmoid", ()), ("hardswish", ()), ("threshold", (0.1, 7.0)),
    ("dropout", (1.0, True)), ("dropout", (0.5, False)), ("alpha_dropout", (1.0, True))])
def test_functions_over_their_input(name, options):
    torch = pytest.importorskip("torch")
    results = []
    for m in (torch, gradus):
        w = m.tensor([[-2.0, -0.3, 0.4, 9.0]] * 2, requires_grad=True)
        first, second = w * 1.5, w * 2.0
        part, f = second[:1], getattr(m.nn.functional, name)
        assert f(first, *options, inplace=True) is first and f(part, *options, inplace=True) is part
        (first * second).sum().backward()
        results.append([t.tolist() for t in (first, second, w.grad)])
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)
    with pytest.raises(gradus.AutogradError, match="a leaf that requires a gradient is written in place"):
        getattr(F, name)(gradus.ones(2, 2, requires_grad=True), *options, inplace=True)


def test_layers_over_their_input():
    for layer in (nn.ReLU(True), nn.ELU(0.5, True), nn.Threshold(0.1, 2.0, True), nn.Mish(inplace=True),
                  nn.Hardtanh(inplace=True), nn.Dropout2d(1.0, True), nn.AlphaDropout(0.9, True),
                  nn.Dropout(1.0, inplace=True)):
        x = gradus.tensor([[-3.0, 4.0]])
        assert layer(x) is x and x.tolist() != [[-3, 4]] and layer.inplace and "inplace=True" in repr(layer)
    with pytest.raises(TypeError):
        nn.GELU(inplace=True)
    x = gradus.ones(2)
    assert F.relu(x, True) is x and F.dropout(x, 1.0, True, True) is x and x.tolist() == [0, 0]


def test_a_state_in_place_of_the_tensors():
    net, other = (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)) for _ in range(2))
    net[0].bias.requires_grad = False
    optimizer = gradus.optim.SGD(net.parameters(), lr=1.0)
    state = {name: t.double() for name, t in other.state_dict().items()}
    state["1.weight"] = np.ones(2)
    assert net.load_state_dict(state, assign=True) == ([], [])
    w = net[0].weight
    assert isinstance(w, nn.Parameter) and w.dtype is F64 and w.data_ptr() == state["0.weight"].data_ptr()
    assert w.requires_grad and not net[0].bias.requires_grad and net[1].running_mean is state["1.running_mean"]
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == [id(p) for p in net.parameters()]
    with pytest.raises(gradus.ValueError, match="missing keys: 0.weight"):
        net.load_state_dict({name: t for name, t in state.items() if name != "0.weight"}, assign=True)
