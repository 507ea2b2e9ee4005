"""gradus.nn: layers, activations, losses and hooks against PyTorch's, with its weights."""
import copy
import itertools

import numpy as np
import pytest

import gradus
from gradus import nn


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
    "rnn_cell": (lambda n: n.RNNCell(4, 3), drawn(5, 4), drawn(5, 3)),
    "rnn": (lambda n: n.RNN(4, 3, 2, bidirectional=True), drawn(5, 2, 4)),
    "rnn relu": (lambda n: n.RNN(4, 3, nonlinearity="relu", batch_first=True), drawn(2, 5, 4)),
    "instance_norm3d": (lambda n: n.InstanceNorm3d(4), drawn(2, 4, 3, 2, 3)),
    "local_response_norm": (lambda n: n.LocalResponseNorm(3, 0.1), IMAGE),
    "adaptive_max_pool3d": (lambda n: n.AdaptiveMaxPool3d(2), drawn(2, 4, 5, 3, 4)),
    "dropout3d in eval": (lambda n: n.Dropout3d().eval(), IMAGE),
    "zero_pad": (lambda n: n.ZeroPad2d((1, 2, 0, -1)), IMAGE),
    "constant_pad": (lambda n: n.ConstantPad1d(2, 3.5), LINE),
    "reflection_pad": (lambda n: n.ReflectionPad2d((5, 1, 2, 6)), IMAGE),
    "replication_pad": (lambda n: n.ReplicationPad2d((9, 1, 0, 2)), IMAGE),
    "replication_pad3d": (lambda n: n.ReplicationPad3d(1), drawn(2, 3, 2, 3, 2)),
    "circular_pad": (lambda n: n.CircularPad1d((9, 4)), LINE),
    "pixel_shuffle": (lambda n: n.Sequential(n.PixelShuffle(2), n.PixelUnshuffle(2), n.PixelShuffle(2)), IMAGE),
    "gru": (lambda n: n.GRU(4, 3, 2), drawn(5, 4), drawn(2, 3)),
    "attention": (lambda n: n.MultiheadAttention(6, 2), drawn(4, 2, 6), drawn(5, 2, 6),
                  drawn(5, 2, 6, seed=3)),
    "encoder": (lambda n: n.TransformerEncoder(
        n.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True), 2), drawn(3, 4, 6)),
    "decoder": (lambda n: n.TransformerDecoder(
        n.TransformerDecoderLayer(6, 2, 8, dropout=0.0), 2), drawn(3, 4, 6), drawn(5, 4, 6)),
    "transformer": (lambda n: n.Transformer(6, 2, 1, 2, 8, dropout=0.0, batch_first=True, norm_first=True),
                    drawn(3, 4, 6), drawn(3, 2, 6, seed=3)),
    "bilinear layer": (lambda n: n.Bilinear(3, 2, 4), drawn(5, 3), drawn(5, 2)),
    "softmax2d": (lambda n: n.Softmax2d(), IMAGE),
    "unfold": (lambda n: n.Unfold((2, 3), 2, 1, (1, 2)), IMAGE),
    "unfold alone": (lambda n: n.Unfold(2), drawn(4, 5, 6)),
    "fold": (lambda n: n.Fold((4, 5), (2, 3), 1, 1, (1, 2)), drawn(2, 12, 15)),
    "fold alone": (lambda n: n.Fold(4, 2, stride=2), drawn(8, 4)),
    "encoder norm_first": (lambda n: n.TransformerEncoderLayer(
        6, 3, 8, dropout=0.0, activation="gelu", norm_first=True), drawn(3, 4, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree_with_torch(name):
    compare(*LAYERS[name])


@pytest.mark.parametrize("options", [
    dict(scale_factor=2), dict(size=5), dict(scale_factor=(0.6, 1.7)), dict(size=(13, 3), mode="nearest-exact"),
    dict(scale_factor=2, mode="bilinear"), dict(size=(3, 11), mode="bilinear"), dict(size=1, mode="bilinear", align_corners=True),
    dict(scale_factor=(2.3, 0.7), mode="bilinear", align_corners=True), dict(scale_factor=1.7, mode="bilinear"),
    dict(size=(4, 9), mode="bilinear", align_corners=False)], ids=repr)
def test_upsampling_agrees_with_torch(options):
    compare(lambda n: n.Upsample(**options), IMAGE)


def test_upsampling_of_lines_and_volumes():
    compare(lambda n: n.Upsample(size=4, mode="linear"), LINE)
    compare(lambda n: n.Upsample(scale_factor=2, mode="trilinear"), drawn(1, 2, 2, 3, 2))
    torch = pytest.importorskip("torch")
    for n, m, mode in itertools.product(range(1, 40, 3), range(1, 60, 7), ("nearest", "nearest-exact")):
        x = np.arange(n, dtype="f")[None, None]
        ours, theirs = (f(t(x), m, mode=mode).numpy().ravel() for f, t in (
            (nn.functional.interpolate, gradus.tensor), (torch.nn.functional.interpolate, torch.tensor)))
        k = 2 * np.arange(m) + (mode != "nearest")
        between = k * n % (2 * m) != 0  # on the edge of two pixels torch's dtypes differ, too
        assert (ours[between] == theirs[between]).all() and (abs(ours - theirs) <= 1).all()
    for words, options in (("there are nearest", dict(size=2, mode="bicubic")), ("size or scale_factor", {}),
                           ("the input has 1", dict(size=2, mode="bilinear")), ("one number or 1", dict(size=(2, 3)))):
        with pytest.raises(gradus.ValueError, match=words):
            nn.functional.interpolate(gradus.ones(1, 1, 4), **options)


def test_borders_and_shuffles_refuse():
    x = gradus.ones(1, 2, 3)
    for words, call in (("the mode is 'same', there are constant, reflect", lambda: nn.functional.pad(x, (1, 1), "same")),
                        (r"reflect takes \(3, 0\) of an axis of 3", lambda: nn.ReflectionPad1d((3, 0))(x)),
                        ("multiples of 4, got 1", lambda: nn.PixelShuffle(2)(x)), ("got 2 x 3", lambda: nn.PixelUnshuffle(2)(x)),
                        ("2 numbers, expected one or 4", lambda: nn.ZeroPad2d((1, 1))),
                        ("up to 3 axes, got 1 numbers", lambda: nn.functional.pad(x, (1,), "reflect")),
                        ("up to 3 axes, got 8 numbers", lambda: nn.functional.pad(x, (0, 0) * 4, "circular")),
                        (r"replicate takes \(-2, -1\) of an axis of 3", lambda: nn.functional.pad(x, (-2, -1), "replicate")),
                        (r"factor of 1 or more, got \(1, 2, 3\) and 0", lambda: nn.PixelShuffle(0)(x)),
                        (r"expected \(..., channels, h, w\)", lambda: nn.PixelUnshuffle(2)(gradus.ones(4, 4))),
                        ("kernel_size is .0, 0.", lambda: nn.Unfold(0)(gradus.ones(1, 1, 3, 3))),
                        (r"unfold: expected \(n, c, h, w\)", lambda: nn.functional.unfold(gradus.ones(3, 3), 2)),
                        (r"fold: expected \(n, c 4, 9\)", lambda: nn.Fold(4, 2)(gradus.ones(1, 4, 8))),
                        (r"6 features.*tgt has shape \(2, 1, 5\)",
                         lambda: nn.Transformer(6, 2, 1, 1, 8)(gradus.ones(3, 1, 6), gradus.ones(2, 1, 5))),
                        ("of 2, 1 and 1 examples", lambda: nn.Transformer(6, 2, 1, 1, 8)(gradus.ones(3, 1, 6), gradus.ones(2, 2, 6))),
                        ("at least one feature on each side", lambda: nn.Bilinear(0, 2, 1)),
                        ("1 to 3 axes more", lambda: nn.functional.interpolate(gradus.ones(2, 2), scale_factor=2)),
                        ("leaves no pixel", lambda: nn.functional.interpolate(x, scale_factor=0.1)),
                        ("align_corners is of linear", lambda: nn.Upsample(scale_factor=2, align_corners=True)(x)),
                        ("nearest is of any", lambda: nn.functional.interpolate(x.int(), 4, mode="linear")),
                        ("nonlinearity is 'gelu'", lambda: nn.RNN(2, 2, nonlinearity="gelu"))):
        with pytest.raises((gradus.ValueError, gradus.ShapeError, gradus.DTypeError), match=words):
            call()


def test_sequences_of_several_lengths():
    torch = pytest.importorskip("torch")
    for options in ({}, dict(batch_first=True, padding_value=-1.0), dict(padding_side="left")):
        outs = [n.utils.rnn.pad_sequence([t(drawn(k, 2)) for k in (2, 4, 1)], **options)
                for n, t in ((nn, gradus.tensor), (torch.nn, torch.tensor))]
        close(*outs)
    with pytest.raises(gradus.ValueError, match="got none"):
        nn.utils.rnn.pad_sequence([])


def test_gumbel_softmax():
    gradus.manual_seed(2)
    logits = gradus.tensor([0.5, 2.0, -1.0], requires_grad=True)
    y = nn.functional.gumbel_softmax(logits.expand(4000, 3), hard=True)
    assert gradus.allclose(y.sum(-1), gradus.ones(4000))
    assert gradus.allclose(y.mean(0), gradus.softmax(logits, 0), atol=0.03)
    (y * gradus.arange(3.0)).sum().backward()
    assert logits.grad.abs().min() > 0
    soft = nn.functional.gumbel_softmax(logits, tau=0.1)
    assert abs(soft.sum().item() - 1) < 1e-5


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
    "BCEWithLogitsLoss": (PAIR[0], PAIR[1] ** 2 % 1),
    "CrossEntropyLoss": (PAIR[0], labels(5, below=4)),
    "CrossEntropyLoss(label_smoothing=0.1,ignore_index=2)": (PAIR[0], labels(5, below=4)),
    "CrossEntropyLoss()": (drawn(2, 4, 3), labels(2, 3, below=4)),
    "NLLLoss": (PAIR[0], labels(5, below=4)), "KLDivLoss(reduction='batchmean')": (
        PAIR[0], PAIR[1] ** 2), "KLDivLoss(log_target=True)": PAIR,
    "SoftMarginLoss": (PAIR[0], labels(5, 4, below=2) * 2 - 1),
    "MultiLabelSoftMarginLoss": (PAIR[0], PAIR[1] ** 2 % 1), "MultiMarginLoss": (PAIR[0], labels(5, below=4)),
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


def test_masks_of_a_transformer():
    def masked(model, src, tgt):
        mask = type(model).generate_square_subsequent_mask(tgt.shape[0])
        padding = (src[:, :, 0] > 1.2).T
        return model(src, tgt, tgt_mask=mask.to(src.dtype), src_key_padding_mask=padding, memory_key_padding_mask=padding)
    compare(lambda n: n.Transformer(6, 2, 2, 1, 8, dropout=0.0), drawn(5, 3, 6), drawn(4, 3, 6, seed=3), call=masked)


def test_attention_without_weights_is_causal_by_itself():
    x = gradus.tensor(drawn(2, 4, 6))
    attention = nn.MultiheadAttention(6, 2, batch_first=True).double()
    y, weights = attention(x, x, x, is_causal=True)
    z, none = attention(x, x, x, is_causal=True, need_weights=False)
    assert none is None and gradus.allclose(y, z)
    assert gradus.equal(weights, weights.tril())
    each = attention(x, x, x, average_attn_weights=False)[1]
    assert each.shape == (2, 2, 4, 4)


# ---- hooks of modules: the same calls, order and gradients


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
