"""On a GPU: results as on the CPU, and memory shared with torch in the order of both libraries' streams."""
import gradus
import pytest

try:
    gradus.ones(1, device="cuda:0")
    WHY = ""
except gradus.Error as error:
    WHY = str(error)
gpu = pytest.mark.skipif(bool(WHY), reason=WHY)
SIZE = 4096


def test_without_a_gpu_the_reason_is_said():
    if not WHY:
        pytest.skip("there is one")
    assert "gradus_cuda.so" in WHY or "NVIDIA" in WHY, WHY


@gpu
def test_training_as_on_the_cpu():
    def losses(device):
        gradus.manual_seed(3)
        x = gradus.rand(32, 8).to(device)
        y = gradus.arange(32).to(device) % 4
        model = gradus.nn.Sequential(gradus.nn.Linear(8, 16), gradus.nn.ReLU(), gradus.nn.Linear(16, 4)).to(device)
        adam = gradus.optim.Adam(model.parameters(), lr=1e-2)

        def step():
            adam.zero_grad()
            loss = gradus.cross_entropy(model(x), y)
            loss.backward()
            adam.step()
            return loss

        step = gradus.compile(step)
        found = [step().item() for _ in range(20)]
        assert step.replays > 10 and not step.why_not
        return found

    assert losses("cuda:0") == pytest.approx(losses("cpu"), rel=1e-4)


def late(torch, stream=None):
    """A tensor of sevens that a GPU's stream has written at the end of much work; and its address."""
    with torch.cuda.stream(stream or torch.cuda.default_stream()):
        a = torch.rand(SIZE, SIZE, device="cuda")
        t = torch.zeros(1000, device="cuda")
        for _ in range(60):
            a = a @ a
            a = a / a.max()
        t += 7 + 0 * a[0, 0].nan_to_num()
    return t


@gpu
@pytest.mark.parametrize("way", ["table", "capsule"])
@pytest.mark.parametrize("side", [False, True])
def test_what_torch_has_not_finished_is_waited_for(way, side):
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream() if side else None
    late(torch, stream), torch.cuda.synchronize()
    t = late(torch, stream)
    with torch.cuda.stream(stream or torch.cuda.default_stream()):
        x = gradus.from_dlpack(t if way == "table" else Capsules(t))
    assert x.data_ptr() == t.data_ptr() and str(x.device) == "cuda"
    y = x * 1
    assert torch.cuda.current_stream().query() is False or side, "torch was done before: nothing is shown"
    assert y.cpu().tolist() == [7] * 1000


class Capsules:
    """What a library without an exchange table has."""

    def __init__(self, t):
        self.t = t

    def __dlpack__(self, **given):
        return self.t.__dlpack__(**given)

    def __dlpack_device__(self):
        return self.t.__dlpack_device__()


@gpu
@pytest.mark.parametrize("side", [False, True])
def test_torch_waits_for_what_is_not_finished_here(side):
    torch = pytest.importorskip("torch")

    def shared():
        a = gradus.rand(SIZE, SIZE, device="cuda:0")
        for _ in range(60):
            a = a @ a
            a = a / a.max()
        return gradus.full((1000,), 7.0, device="cuda:0") + 0 * gradus.nan_to_num(a[0, 0])

    shared().cpu()
    with torch.cuda.stream(torch.cuda.Stream() if side else torch.cuda.default_stream()):
        x = shared()
        t = torch.from_dlpack(x)
        assert t.data_ptr() == x.data_ptr()
        assert (t * 1).tolist() == [7] * 1000
        del x
        t.zero_()  # still its memory
        assert gradus.from_dlpack(t).sum().item() == 0


@gpu
def test_compiled_by_torch_on_its_memory():
    torch = pytest.importorskip("torch")
    import gradus.torch  # noqa: F401: the backend

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).cuda()
    x = torch.randn(5, 8, device="cuda")

    def grads(f):
        model.zero_grad()
        f(x).square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    wanted = grads(model)
    for found, right in zip(grads(torch.compile(model, backend="gradus")), wanted):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5)


def on_the_gpu(cases, name):
    """Losses by gradus and by torch of one network with one start, and what was compiled."""
    torch = cases.torch
    torch._dynamo.reset(), cases.bridge.history.clear()
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False
    make, data = cases.CASES[name]
    ours = make().cuda()
    theirs = cases.copy.deepcopy(ours)
    xs, targets = ([t.cuda() for t in ts] for ts in cases.batches(data, (6,) * 8))
    call = torch.compile(ours, backend="gradus")
    # Adam makes steps of gradients that are 0 but for rounding: a bias before batch_norm has those
    optimizer = torch.optim.Adam if name == "mlp" else torch.optim.SGD
    losses = [cases.train(m, f, xs, targets, optimizer, 0.02) for m, f in ((ours, call), (theirs, theirs))]
    cases.same_state(ours, theirs, 2e-3)
    return *losses, list(cases.bridge.history)


@gpu
@pytest.mark.parametrize("name", ["mlp", "lenet", "batch_norm", "block without dropout", "written to"])
def test_a_model_on_the_gpu_is_one_program(name):
    cases = pytest.importorskip("test_torch")
    losses, expected, history = on_the_gpu(cases, name)
    assert losses == pytest.approx(expected, rel=1e-3)
    assert [h["way"] for h in history] == ["B"], history


@gpu
@pytest.mark.parametrize("name", ["block", "encoder layer"])
def test_dropout_on_the_gpu_draws_torchs_numbers(name):
    """By whichever way gives them: attention draws in kernels of torch's own."""
    cases = pytest.importorskip("test_torch")
    losses, expected, history = on_the_gpu(cases, name)
    assert losses == pytest.approx(expected, rel=1e-3), history


@gpu
def test_dropout_alone_is_a_part_of_the_program():
    cases = pytest.importorskip("test_torch")
    torch = cases.torch
    torch._dynamo.reset(), cases.bridge.history.clear()
    call = torch.compile(lambda x: torch.nn.functional.dropout(x * 2, 0.3), backend="gradus")
    x = torch.randn(40, 50, device="cuda", requires_grad=True)
    for seed in range(4):
        torch.manual_seed(seed)
        expected = torch.nn.functional.dropout(x * 2, 0.3)
        torch.manual_seed(seed)
        torch.testing.assert_close(call(x), expected)
    assert [h["way"] for h in cases.bridge.history] == ["B"], cases.bridge.history


@gpu
def test_a_step_compiled_whole_with_its_optimizer():
    cases = pytest.importorskip("test_torch")
    torch = cases.torch
    torch._dynamo.reset(), cases.bridge.history.clear()
    ours = cases.mlp().cuda()
    theirs = cases.copy.deepcopy(ours)
    xs, targets = ([t.cuda() for t in ts] for ts in cases.batches(cases.CASES["mlp"][1]))
    losses = cases.train(ours, torch.compile(ours, backend="gradus"), xs, targets, torch.optim.Adam, 0.01, True)
    assert losses == pytest.approx(cases.train(theirs, theirs, xs, targets, torch.optim.Adam, 0.01), rel=1e-3)


@gpu
def test_models_that_go_on_with_others_memory():
    """Results are used, changed and let go of by torch at once, while the GPU is still at work."""
    cases = pytest.importorskip("test_torch")
    torch = cases.torch
    torch._dynamo.reset()
    w = torch.randn(512, 512, device="cuda", requires_grad=True)
    call = torch.compile(lambda x: (x @ w).tanh() @ w, backend="gradus")
    for i in range(20):
        x = torch.full((512, 512), float(i), device="cuda")
        y = call(x)
        g, = torch.autograd.grad(y.sum(), w)
        x.fill_(1e9)  # after the program has read it
        del y
        torch.full((512, 512), -1e9, device="cuda")  # where y was
        x = torch.full((512, 512), float(i), device="cuda")
        right, = torch.autograd.grad(((x @ w).tanh() @ w).sum(), w)
        torch.testing.assert_close(g, right, rtol=1e-3, atol=1e-2)


@gpu
def test_what_a_step_costs(capsys):
    """Not judged: printed. The time from one call to the next, the GPU's work included."""
    import time
    cases = pytest.importorskip("test_torch")
    torch, nn = cases.torch, cases.nn
    torch.backends.cudnn.allow_tf32 = False
    wide = lambda: nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
    models = {"mlp 8-16-16-4, batch 32": (cases.mlp, torch.randn(32, 8)),
              "mlp 784-512-512-4, batch 256": (wide, torch.randn(256, 784)),
              "conv + batch_norm, batch 64": (cases.Normed, torch.randn(64, 1, 11, 11)),
              "transformer block, 64 x 16": (lambda: cases.Block(0.0, 0.0), torch.randint(0, 11, (64, 16)))}

    def seconds(make, x, options):
        torch._dynamo.reset(), torch.manual_seed(0), cases.bridge.history.clear()
        model, x = make().cuda(), x.cuda()
        target = torch.randint(0, 4, (len(x),), device="cuda")
        loss = lambda: nn.functional.cross_entropy(model(x), target)
        made = torch.compile(loss, backend="gradus", options=options) if options is not None else loss
        parameters, least = list(model.parameters()), float("inf")
        for n in (10, 100, 100, 100):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(n):
                made().backward()
                for p in parameters:
                    p.grad = None
            torch.cuda.synchronize()
            least = min(least, (time.perf_counter() - began) / n)
        return least, sorted({h["way"] for h in cases.bridge.history})

    for name, (make, x) in models.items():
        eager, _ = seconds(make, x, None)
        found = [(seconds(make, x, options)) for options in ({}, {"way": "A"})]
        with capsys.disabled():
            print(f"\n{name}: eager {eager * 1e6:.0f} us" + "".join(
                f", way {'+'.join(way)} {t * 1e6:.0f} us ({t / eager:.2f} of eager)" for t, way in found), end="")
