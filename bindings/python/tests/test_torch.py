"""PyTorch's compiler on gradus, FX graphs, the audit: against torch's own results, same seeds."""
import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: the bridge is not tested")

import gradus  # noqa: E402
import gradus.fx  # noqa: E402
import gradus.torch as bridge  # noqa: E402

nn, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    bridge.history.clear()
    torch.manual_seed(0)


class Lenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 4, 5, padding=2), nn.Conv2d(4, 8, 3)
        self.c, self.d = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.a(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.b(x)), 2)
        return self.d(F.silu(self.c(x.flatten(1))))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Conv2d(1, 6, 3, stride=2), nn.BatchNorm2d(6)
        self.b, self.m = nn.Conv2d(6, 6, 3, groups=2, bias=False), nn.BatchNorm2d(6)
        self.c = nn.Linear(6, 4)

    def forward(self, x):
        x = F.relu(self.n(self.a(x)), inplace=True)
        x = F.gelu(self.m(self.b(x)))
        return self.c(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Block(nn.Module):
    def __init__(self, dropout=0.1, attention_dropout=0.1):
        super().__init__()
        self.heads, self.p = 2, attention_dropout
        self.embed, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.qkv, self.out, self.late = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)
        self.up, self.down, self.drop = nn.Linear(8, 32), nn.Linear(32, 8), nn.Dropout(dropout)
        self.head = nn.Linear(8, 4)

    def forward(self, tokens):
        x = self.embed(tokens)
        n, length, size = x.shape
        q, k, v = (t.reshape(n, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           dropout_p=self.p if self.training else 0.0)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(n, length, size)))
        x = x + self.drop(self.down(F.gelu(self.up(self.late(x)))))
        return self.head(x.mean(1))


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(3, 8), nn.Linear(8, 4)

    def forward(self, x):
        h = c = torch.zeros(x.size(0), 8)
        for t in range(x.size(1)):
            h, c = self.cell(x[:, t], (h, c))
        return self.out(h)


class Attended(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        return self.out(self.layer(x).mean(1))


class Written(nn.Module):
    """Slices written to, a view changed in place."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 4)

    def forward(self, x):
        y = self.a(x) * 1.0
        y[:, 0] = 0
        y[:, 1:3].add_(x[:, :2])
        return y


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(),
                         nn.Linear(16, 4))


def images(n=6):
    return torch.randn(n, 1, 11, 11)


CASES = {
    "mlp": (mlp, lambda n=6: torch.randn(n, 8)),
    "lenet": (Lenet, images),
    "batch_norm": (Normed, images),
    "block": (Block, lambda n=6: torch.randint(0, 11, (n, 5))),
    "block without dropout": (lambda: Block(0.0, 0.0), lambda n=6: torch.randint(0, 11, (n, 5))),
    "lstm cell": (Cells, lambda n=6: torch.randn(n, 3, 3)),
    "encoder layer": (Attended, lambda n=6: torch.randn(n, 5, 8)),
    "written to": (Written, lambda n=6: torch.randn(n, 6)),
}


def train(model, call, xs, targets, make=torch.optim.SGD, lr=0.05, compiled_step=False):
    torch.manual_seed(7)
    losses, optimizer = [], make(model.parameters(), lr=lr)
    step = optimizer.step
    if compiled_step:
        step = torch.compile(optimizer.step, backend="gradus")
    for x, target in zip(xs, targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(call(x), target)
        loss.backward()
        step()
        losses.append(loss.item())
    return losses


def batches(data, sizes=(6,) * 5):
    xs = [data(n) for n in sizes]
    return xs, [torch.randint(0, 4, (n,)) for n in sizes]


def same_state(a, b, tolerance=2e-5):
    for (name, x), (_, y) in zip(a.state_dict().items(), b.state_dict().items()):
        assert torch.allclose(x, y, tolerance, tolerance), name


@pytest.mark.parametrize("way", ["chosen", "A"])
@pytest.mark.parametrize("name", CASES)
def test_training(name, way):
    make, data = CASES[name]
    ours = make()
    theirs = copy.deepcopy(ours)
    xs, targets = batches(data)
    options = {"way": "A"} if way == "A" else {}
    losses = train(ours, torch.compile(ours, backend="gradus", options=options), xs, targets)
    expected = train(theirs, theirs, xs, targets)
    assert losses == pytest.approx(expected, rel=1e-5, abs=1e-6)
    same_state(ours, theirs)
    assert {h["way"] for h in bridge.history} == {"A" if way == "A" else "B"}, bridge.history


@pytest.mark.parametrize("name", CASES)
def test_inference(name):
    make, data = CASES[name]
    model = make().eval()
    x = data()
    for mode in (torch.no_grad, torch.inference_mode):
        torch._dynamo.reset()
        with mode():
            expected = model(x)
            got = torch.compile(model, backend="gradus")(x)
        assert not got.requires_grad
        assert torch.allclose(got, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("way", ["B", "A"])
def test_dynamic_batch_sizes(way):
    for make, data in (CASES["mlp"], CASES["batch_norm"]):
        torch._dynamo.reset()
        ours = make()
        theirs = copy.deepcopy(ours)
        xs, targets = batches(data, (6, 4, 9, 12, 5))
        call = torch.compile(ours, backend="gradus", options={"way": way})
        losses = train(ours, call, xs, targets)
        assert losses == pytest.approx(train(theirs, theirs, xs, targets), rel=1e-5)
        same_state(ours, theirs)


def decayed(parameters, lr):
    return torch.optim.SGD(parameters, lr, momentum=0.9, weight_decay=0.01, nesterov=True)


@pytest.mark.parametrize("make", [torch.optim.SGD, decayed, torch.optim.Adam, torch.optim.AdamW])
def test_optimizers_are_compiled(make):
    ours = mlp()
    theirs = copy.deepcopy(ours)
    xs, targets = batches(CASES["mlp"][1])
    losses = train(ours, torch.compile(ours, backend="gradus"), xs, targets, make, 0.01, True)
    assert losses == pytest.approx(train(theirs, theirs, xs, targets, make, 0.01), rel=1e-5)
    same_state(ours, theirs)
    assert [h["way"] for h in bridge.history] == ["B"] * len(bridge.history), bridge.history


def test_double_backward():
    model, x = mlp(), torch.randn(5, 8)
    model[3] = nn.Tanh()

    def penalty(call):
        y = call(x).square().mean()
        grads = torch.autograd.grad(y, list(model.parameters()), create_graph=True)
        total = sum(g.square().sum() for g in grads)
        return torch.autograd.grad(total, list(model.parameters()), allow_unused=True)

    found = penalty(torch.compile(model, backend="gradus"))
    for a, b in zip(found, penalty(model)):
        assert (a is None) == (b is None) and (b is None or torch.allclose(a, b, 1e-4, 1e-6))


def test_retained_graph_and_changed_inputs():
    w = torch.randn(4, requires_grad=True)
    call = torch.compile(lambda w: (w * w).sum(), backend="gradus")
    y = call(w)
    y.backward(retain_graph=True)
    y.backward()
    assert torch.allclose(w.grad, 4 * w)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    y = call(w)
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def gradients(model, loss):
    model.zero_grad()
    loss().backward()
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("way", ["A", "B"])
def test_recorded_graphs_are_not_seen(way):
    """From the second call on small graphs are recorded: other data, other memory of parameters, a
    second forward before the backward, results that are kept."""
    model = mlp()
    call = torch.compile(model, backend="gradus", options={"way": way})
    kept = []
    for i in range(6):
        x, z = torch.randn(6, 8), torch.randn(6, 8)
        if i == 3:
            for p in model.parameters():
                p.data = p.data.clone() * 1.1
        y = call(x)
        kept.append((y, model(x).detach()))
        for f in (lambda c: c(x).square().sum(), lambda c: (c(x) * c(z)).sum(),
                  lambda c: c(x + z)[0].sum() - c(x).exp().mean()):
            found, expected = (gradients(model, lambda: f(c)) for c in (call, model))
            assert all(torch.allclose(a, b, 1e-4, 1e-5) for a, b in zip(found, expected)), i
    for y, expected in kept:
        assert torch.allclose(y, expected, 1e-5, 1e-6)


def test_double_backward_of_a_recorded_graph():
    w = torch.randn(4, requires_grad=True)
    call = torch.compile(lambda w: (w ** 3).sum(), backend="gradus")
    for _ in range(4):
        g, = torch.autograd.grad(call(w), w, create_graph=True)
        assert torch.allclose(torch.autograd.grad(g.sum(), w)[0], 6 * w, 1e-4, 1e-5)


def test_gradients_share_no_memory():
    a, b = (torch.randn(3, requires_grad=True) for _ in range(2))
    call = torch.compile(lambda a, b: a + b, backend="gradus")
    for _ in range(2):
        call(a, b).backward(torch.ones(3))
    assert torch.equal(a.grad, torch.full((3,), 2.0)) and torch.equal(b.grad, a.grad)


def test_copies_keep_the_order_of_axes_but_no_gaps():
    x, nothing = gradus.arange(24).reshape(2, 3, 4), gradus._gradus._capture(list, "cpu")
    back = gradus.from_numpy(pytest.importorskip("numpy").arange(3)[::-1])
    for t, stride in ((x.permute(2, 0, 1), (1, 12, 4)), (x[0].T, (1, 4)), (x[0, :, ::2], (2, 1)), (x[:, :, :2].mT, (6, 3, 1)),
                      (x[0, :1].expand(3, 4), (4, 1)), (back, (1,)), (x[0, 0, 1], ())):
        y, = gradus._gradus._Recorded(nothing, "cpu", torch.Tensor, [t], [], [], [], (), held=True).results(())
        assert y.tolist() == t.tolist() and y.stride() == stride and y.data_ptr() != t.data_ptr()


def test_what_gradus_lacks_runs_in_torch():
    def f(x):
        return torch.fft.rfft(torch.tanh(x)).abs().sum() + x.sin().sum()

    x = torch.randn(8, requires_grad=True)
    y = torch.compile(f, backend="gradus")(x)
    y.backward()
    grad, x.grad = x.grad, None
    f(x).backward()
    assert torch.allclose(grad, x.grad, 1e-4, 1e-5) and torch.allclose(y, f(x))
    assert {h["way"] for h in bridge.history} == {"A"}
    assert any("_fft_r2c" in n for h in bridge.history for n in h["by_torch"])
    assert "fft" in bridge.history[0]["why"] and "test_torch.py" in bridge.history[0]["why"]


def test_where_a_program_runs():
    """On the device of all of its inputs, where new tensors are made too; mixed ones are for way A."""
    from gradus.torch._backend import Refused, placed
    cpu, elsewhere, sparse = torch.zeros(2), torch.zeros(2, device="meta"), torch.eye(2).to_sparse()
    assert placed([cpu, 3, cpu]) == placed([3]) == (torch.device("cpu"), "cpu")
    for values, why in (([cpu, elsewhere], "inputs are on cpu and meta"),
                        ([elsewhere], "inputs are on meta: "), ([sparse], "sparse")):
        with pytest.raises(Refused, match=why):
            placed(values)
    assert bridge._backend.differ(cpu, elsewhere) == "on cpu, torch's is on meta"

    def made(_):
        assert not gradus.is_grad_enabled(), KeyError
        return gradus.zeros(2).device

    run_on, before = gradus._gradus._run_on, gradus.zeros(2).device
    assert run_on("reference", False, made, ()) == "reference" != before
    with pytest.raises(AssertionError):
        run_on("reference", True, made, ())
    assert gradus.zeros(2).device == before and gradus.is_grad_enabled()
    made = gradus.Program(0, [("zeros", [], {"size": (2,)}, [0], "")], [0], device="reference")
    assert made([])[0].device == "reference"


def test_an_input_that_is_written_to():
    def f(x, total):
        total.add_(x.detach().sum())
        return (x * 2).sum()

    ours, theirs = torch.zeros(()), torch.zeros(())
    x = torch.randn(4, requires_grad=True)
    call = torch.compile(f, backend="gradus")
    for _ in range(2):
        call(x, ours).backward()
        f(x, theirs).backward()
    assert torch.allclose(ours, theirs) and torch.allclose(x.grad, torch.full((4,), 8.0))


def test_helpers():
    t = torch.randn(3, requires_grad=True)
    g = bridge.from_torch(t)
    assert g.requires_grad and g.data_ptr() == t.data_ptr()
    (g * g).sum().backward()
    assert torch.allclose(bridge.to_torch(g.grad), 2 * t.detach())
    back = bridge.to_torch(g)
    assert back.requires_grad and back.data_ptr() == t.data_ptr()
    assert not bridge.to_torch(bridge.from_torch(torch.zeros(2))).requires_grad


# ---- gradus.fx

@pytest.mark.parametrize("make, x", [(mlp, (3, 8)), (Lenet, (2, 1, 11, 11)),
                                     (lambda: Normed().eval(), (2, 1, 11, 11))])
def test_fx_run(make, x):
    model, x = make(), torch.randn(x)
    for graph in (gradus.fx.trace(model), torch.fx.symbolic_trace(model)):
        y = gradus.fx.run(graph, x)
        assert isinstance(y, gradus.Tensor)
        assert torch.allclose(bridge.to_torch(y.detach()), model(x), 1e-5, 1e-6)
        y.sum().backward()
        expected = torch.autograd.grad(model(x).sum(), list(model.parameters()))
        known = gradus.fx.compiled(graph).parameters
        for (name, _), g in zip(model.named_parameters(), expected):
            assert torch.allclose(bridge.to_torch(known[name].grad), g, 1e-4, 1e-5), name


def test_fx_leaves_by_type():
    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.mix = nn.LSTMCell(4, 4), nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):
            h, c = self.cell(x)
            z = torch.stack([h, c], 1)
            return self.mix(z, z, z)[0]

    model, x = Step(), torch.randn(3, 4)
    y = gradus.fx.run(torch.fx.symbolic_trace(model), x)
    assert torch.allclose(bridge.to_torch(y.detach()), model(x), 1e-5, 1e-6)


def test_fx_errors_name_node_and_line():
    class Wrong(nn.Module):
        def forward(self, x):
            y = torch.tanh(x)
            return torch.matmul(y, x)  # the shapes don't fit

    class Lacks(nn.Module):
        def forward(self, x):
            return torch.fft.rfft(x)  # no such op

    graph = gradus.fx.trace(Wrong())
    with pytest.raises(gradus.ShapeError) as e:
        gradus.fx.run(graph, torch.randn(2, 3))
    for part in ('node "matmul"', "call_function", "torch.matmul", "test_torch.py", "in forward"):
        assert part in str(e.value), str(e.value)
    assert e.value.node.name == "matmul" and "line" in e.value.line
    with pytest.raises(gradus.Error, match="(?s)fft_rfft.*no rule.*test_torch.py.*in forward"):
        gradus.fx.run(gradus.fx.trace(Lacks()), torch.randn(4))
    with pytest.raises(TypeError, match="takes 1 inputs"):
        gradus.fx.run(graph)


def test_fx_slots_are_emptied():
    def f(x):
        y = x * 2
        z = y + 1
        return z * y

    program = gradus.fx.compiled(torch.fx.symbolic_trace(f)).program
    assert [s.free for s in program.steps] == [(0,), (), (1, 2)]
    assert [s.function for s in program.steps][0] is not None and program.size == 4


# ---- gradus.torch.check

class Twice(torch.autograd.Function):
    factor = 1.0

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.sigmoid(x) * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        s = torch.sigmoid(x)
        return g * w * s * (1 - s) * Twice.factor, (g * s).sum(0)


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.w = nn.Linear(8, 8), nn.Parameter(torch.rand(8))

    def forward(self, x):
        x = torch.tanh(self.a(x))
        x = Twice.apply(x, self.w)  # planted
        return x.square().mean()


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_check_finds_a_wrong_backward(factor, monkeypatch):
    monkeypatch.setattr(Twice, "factor", factor)
    report = bridge.check(Custom(), torch.randn(5, 8))
    assert report.checked >= 5 and not report.skipped, report
    if factor == 1.0:
        assert report.first is None, report
    else:
        assert report.first.op.startswith("Twice") and "gradient 0" in report.first.what
        line = report.first.line
        number = int(line.split("line ")[1].split(",")[0])
        assert "test_torch.py" in line and "planted" in open(__file__).readlines()[number - 1]
        assert len(report.differences) == 1 and "Twice" in str(report)


def gru():
    class Gru(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(3, 4)

        def forward(self, x):
            h = torch.zeros(x.size(0), 4)
            for t in range(x.size(1)):
                h = self.cell(x[:, t], h)
            return h
    return Gru()


def residual():
    return nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ELU(),
                         nn.MaxPool1d(2), nn.Flatten(), nn.Linear(4 * 5, 3), nn.LogSoftmax(-1))


CHECKED = {**{k: v for k, v in CASES.items() if k != "block without dropout"},
           "gru": (gru, lambda: torch.randn(2, 3, 3)),
           "conv1d": (residual, lambda: torch.randn(3, 2, 10)),
           "custom": (Custom, lambda: torch.randn(5, 8))}


@pytest.mark.parametrize("name", CHECKED)
def test_check_finds_nothing(name):
    make, data = CHECKED[name]
    model, x = make(), data()
    twin = copy.deepcopy(model)
    torch.manual_seed(3)
    report = bridge.check(model, x)
    assert report.first is None, report
    assert report.checked >= 3 and not report.skipped, report
    torch.manual_seed(3)
    twin(x)
    same_state(model, twin, 0)  # the model ran once, as it would have
