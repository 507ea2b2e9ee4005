"""gradus.nn: layers against PyTorch's with its weights, state, first values, errors."""
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


def labels(*size, below, seed=1):
    return np.random.default_rng(seed).integers(0, below, size=size)


def close(ours, theirs, tolerance=1e-7):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert ours.dtype == getattr(gradus, str(theirs.dtype).split(".")[1])
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), tolerance, tolerance)


def compare(make, *inputs, call=None, eval=False):
    """make(nn) for both libraries, the same state: outputs, gradients and moved buffers agree."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    theirs, ours = make(torch.nn).double(), make(nn).double()
    assert repr([n for n, _ in ours.named_parameters()]) == \
        repr([n for n, _ in theirs.named_parameters()])
    ours.load_state_dict(theirs.state_dict())
    if eval:
        ours.eval()
        theirs.eval()
    call = call or (lambda module, *xs: module(*xs))
    xs = [gradus.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
    ts = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
    for _ in range(2):
        ys, zs = call(ours, *xs), call(theirs, *ts)
        ys, zs = (list(flat(v)) for v in (ys, zs))
        assert len(ys) == len(zs)
        for y, z in zip(ys, zs):
            close(y, z)
        sum((y * y.cos()).sum() for y in ys).backward()
        sum((z * z.cos()).sum() for z in zs).backward()
        for x, t in zip(xs, ts):
            if t.grad is not None:
                close(x.grad, t.grad)
        for (name, p), (_, q) in zip(ours.named_parameters(), theirs.named_parameters()):
            close(p.grad, q.grad)
        for (name, p), (_, q) in zip(ours.named_buffers(), theirs.named_buffers()):
            close(p, q)


def flat(outputs):
    if isinstance(outputs, (tuple, list)):
        for o in outputs:
            yield from flat(o)
    elif outputs is not None:
        yield outputs


IMAGE, LINE = drawn(2, 4, 7, 6), drawn(2, 4, 9)

LAYERS = {
    "linear": (lambda n: n.Linear(4, 3), drawn(2, 5, 4)),
    "linear without bias": (lambda n: n.Linear(4, 3, bias=False), drawn(4)),
    "embedding": (lambda n: n.Embedding(7, 3, padding_idx=-2), labels(2, 5, below=7)),
    "conv1d": (lambda n: n.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), LINE),
    "conv2d": (lambda n: n.Conv2d(4, 3, (3, 2), stride=(1, 2), padding=(2, 1)), IMAGE),
    "conv2d same": (lambda n: n.Conv2d(4, 3, 3, padding="same", bias=False), IMAGE[0]),
    "conv3d": (lambda n: n.Conv3d(2, 3, 2, padding=1), drawn(2, 2, 4, 3, 5)),
    "conv_transpose1d": (lambda n: n.ConvTranspose1d(4, 2, 3, 2, 1, 1, groups=2), LINE),
    "conv_transpose2d": (lambda n: n.ConvTranspose2d(4, 3, 3, stride=2, output_padding=1), IMAGE),
    "max_pool1d": (lambda n: n.MaxPool1d(3, 2, 1), LINE),
    "max_pool2d": (lambda n: n.MaxPool2d(2, ceil_mode=True), IMAGE),
    "avg_pool2d": (lambda n: n.AvgPool2d((3, 2), 2, padding=1, count_include_pad=False), IMAGE),
    "adaptive_avg_pool2d": (lambda n: n.AdaptiveAvgPool2d((3, None)), IMAGE),
    "adaptive_avg_pool1d": (lambda n: n.AdaptiveAvgPool1d(4), LINE),
    "adaptive_max_pool2d": (lambda n: n.AdaptiveMaxPool2d(2), IMAGE),
    "batch_norm1d": (lambda n: n.BatchNorm1d(4), drawn(6, 4)),
    "batch_norm1d of lines": (lambda n: n.BatchNorm1d(4, momentum=None), LINE),
    "batch_norm2d": (lambda n: n.BatchNorm2d(4, eps=1e-3, momentum=0.3), IMAGE),
    "batch_norm2d without": (lambda n: n.BatchNorm2d(4, affine=False, track_running_stats=False),
                             IMAGE),
    "layer_norm": (lambda n: n.LayerNorm((7, 6)), IMAGE),
    "layer_norm without bias": (lambda n: n.LayerNorm(6, bias=False), IMAGE),
    "group_norm": (lambda n: n.GroupNorm(2, 4), IMAGE),
    "instance_norm2d": (lambda n: n.InstanceNorm2d(4, affine=True), IMAGE),
    "rms_norm": (lambda n: n.RMSNorm(6), IMAGE),
    "dropout in eval": (lambda n: n.Dropout(0.5).eval(), IMAGE),
    "dropout of nothing": (lambda n: n.Dropout(0.0), IMAGE),
    "flatten": (lambda n: n.Sequential(n.Flatten(), n.Unflatten(1, (4, 42))), IMAGE),
    "identity": (lambda n: n.Identity(), IMAGE),
    "prelu": (lambda n: n.PReLU(4), IMAGE),
    "lstm_cell": (lambda n: n.LSTMCell(4, 3), drawn(5, 4)),
    "gru_cell": (lambda n: n.GRUCell(4, 3), drawn(5, 4), drawn(5, 3)),
    "lstm": (lambda n: n.LSTM(4, 3, num_layers=2, bidirectional=True), drawn(5, 2, 4)),
    "lstm batch_first": (lambda n: n.LSTM(4, 3, batch_first=True, bias=False), drawn(2, 5, 4)),
    "gru": (lambda n: n.GRU(4, 3, 2), drawn(5, 4), drawn(2, 3)),
    "attention": (lambda n: n.MultiheadAttention(6, 2), drawn(4, 2, 6), drawn(5, 2, 6),
                  drawn(5, 2, 6, seed=3)),
    "encoder": (lambda n: n.TransformerEncoder(
        n.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True), 2), drawn(3, 4, 6)),
    "encoder norm_first": (lambda n: n.TransformerEncoderLayer(
        6, 3, 8, dropout=0.0, activation="gelu", norm_first=True), drawn(3, 4, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree_with_torch(name):
    compare(*LAYERS[name])


@pytest.mark.parametrize("name", ["batch_norm2d", "batch_norm1d"])
def test_normalisation_in_eval(name):
    compare(*LAYERS[name], eval=True)


@pytest.mark.parametrize("name", """ReLU ReLU6 LeakyReLU(0.2) ELU(0.7) CELU(0.7) SELU GELU
    GELU("tanh") SiLU Mish Sigmoid Tanh Softplus(2.0,3.0) Softsign Softshrink Hardshrink Tanhshrink
    Hardtanh(-0.5,0.7) Hardsigmoid Hardswish LogSigmoid Threshold(0.3,-1.0) GLU(1) Softmax(1)
    LogSoftmax(-1) Softmin(0)""".split())
def test_activations_agree_with_torch(name):
    made = name if "(" in name else name + "()"
    compare(lambda n: eval(made, {**vars(n)}), drawn(3, 4, 6))


PAIR = drawn(5, 4), drawn(5, 4, seed=2)
LOSSES = {
    "MSELoss": PAIR, "L1Loss": PAIR, "SmoothL1Loss(beta=0.5)": PAIR, "HuberLoss(delta=0.7)": PAIR,
    "BCEWithLogitsLoss": (PAIR[0], PAIR[1] ** 2 % 1), "CrossEntropyLoss": (PAIR[0], labels(5, below=4)),
    "CrossEntropyLoss(label_smoothing=0.1,ignore_index=2)": (PAIR[0], labels(5, below=4)),
    "CrossEntropyLoss()": (drawn(2, 4, 3), labels(2, 3, below=4)),
    "NLLLoss": (PAIR[0], labels(5, below=4)), "KLDivLoss(reduction='batchmean')": (
        PAIR[0], PAIR[1] ** 2), "KLDivLoss(log_target=True)": PAIR,
    "SoftMarginLoss": (PAIR[0], labels(5, 4, below=2) * 2 - 1), "MultiMarginLoss": (PAIR[0], labels(5, below=4)),
    "PoissonNLLLoss": (PAIR[0], PAIR[1] ** 2), "TripletMarginLoss": (*PAIR, drawn(5, 4, seed=4)),
    "GaussianNLLLoss": (*PAIR, PAIR[1] ** 2 + 0.1), "BCELoss": (PAIR[0] ** 2 % 1, PAIR[1] ** 2 % 1),
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.filterwarnings("ignore")
def test_losses_agree_with_torch(name, reduction):
    if "reduction" in name and reduction != "mean":
        return
    head, _, options = name.partition("(")
    options = eval(f"dict({options.rstrip(')')})")
    compare(lambda n: getattr(n, head)(**{"reduction": reduction, **options}), *LOSSES[name])


def test_loss_weights_are_buffers():
    torch = pytest.importorskip("torch")
    w = np.array([1.0, 2.0, 0.5, 0.0])
    ours = nn.CrossEntropyLoss(gradus.tensor(w))
    theirs = torch.nn.CrossEntropyLoss(torch.tensor(w))
    x, y = PAIR[0], labels(5, below=4)
    close(ours(gradus.tensor(x), gradus.tensor(y)), theirs(torch.tensor(x), torch.tensor(y)))
    assert list(dict(ours.named_buffers())) == ["weight"]
    assert ours.to(gradus.float32).weight.dtype == gradus.float32


@pytest.mark.parametrize("kind", ["bool", "float", "padding", "both", "causal", "no weights"])
def test_attention_masks(kind):
    np_mask = np.triu(np.ones((4, 4), bool), 1)
    padding = np.zeros((2, 4), bool)
    padding[1, 3] = True

    def call(module, x):
        as_tensor = gradus.tensor if isinstance(module, nn.Module) else \
            pytest.importorskip("torch").tensor
        mask, pad = as_tensor(np_mask), as_tensor(padding)
        given = {"bool": {"attn_mask": mask}, "float": {"attn_mask": as_tensor(drawn(4, 4, 4)[0])},
                 "padding": {"key_padding_mask": pad},
                 "both": {"attn_mask": mask, "key_padding_mask": pad},
                 "causal": {"attn_mask": mask, "is_causal": True, "need_weights": False},
                 "no weights": {"need_weights": False}}[kind]
        return module(x, x, x, **given)
    compare(lambda n: n.MultiheadAttention(6, 2, batch_first=True), drawn(2, 4, 6), call=call)


def test_attention_without_weights_is_causal_by_itself():
    x = gradus.tensor(drawn(2, 4, 6))
    attention = nn.MultiheadAttention(6, 2, batch_first=True).double()
    y, weights = attention(x, x, x, is_causal=True)
    z, none = attention(x, x, x, is_causal=True, need_weights=False)
    assert none is None and gradus.allclose(y, z)
    assert gradus.equal(weights, weights.tril())
    each = attention(x, x, x, average_attn_weights=False)[1]
    assert each.shape == (2, 2, 4, 4)


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
        "seen", "scratch", "body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked"]
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
        "Parameter containing:\ntensor([1, 2], requires_grad=True)"
    text = repr(nn.Sequential(nn.Linear(4, 8), nn.ModuleDict({"a": nn.ELU(0.5)}), nn.ReLU(inplace=True)))
    assert text == """Sequential(
  (0): Linear(in_features=4, out_features=8, bias=True)
  (1): ModuleDict(
    (a): ELU(alpha=0.5)
  )
  (2): ReLU()
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
    m = nn.ModuleList([a])
    m += [b]
    m.insert(0, c)
    assert list(m) == [c, a, b] and isinstance(m[1:], nn.ModuleList)
    with pytest.raises(IndexError, match="index 3 of 3"):
        m[3]
    d = nn.ModuleDict({"a": a})
    d["b"] = b
    assert list(d) == ["a", "b"] and d.pop("a") is a and d.get("c") is None and "a" not in d and len(d) == 1


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
            close_arrays(each[n][i], p.grad)
    with pytest.raises(ValueError, match="no '9.weight'"):
        nn.utils.functional_call(model, {"9.weight": x}, x)


def close_arrays(a, b):
    np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-9, 1e-12)


def test_what_is_no_module():
    with pytest.raises(TypeError, match="Sequential: 0 should be a Module, got <class"):
        nn.Sequential(nn.ReLU)
    with pytest.raises(TypeError, match="should be a Parameter"):
        nn.Module().register_parameter("w", gradus.ones((2,)))
