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
