"""gradus.optim.LBFGS: PyTorch's trajectories, state and calls."""
import copy

import gradus
import numpy as np
import pytest
from gradus import nn, optim

SEARCHES = [None, "strong_wolfe"]


class Ours:
    nn, optim = nn, optim
    tensor = staticmethod(gradus.tensor)


class Theirs:
    def __init__(self):
        torch = pytest.importorskip("torch")
        self.nn, self.optim, self.tensor = torch.nn, torch.optim, torch.tensor


class Run:
    """A function of parameters, an optimiser, and how often the closure was called."""

    def __init__(self, side, problem, **options):
        self.params, self.loss = problem(side)
        self.set_to_none = options.pop("set_to_none", True)
        self.optimizer = side.optim.LBFGS(self.params, **options)
        self.calls = 0

    def closure(self):
        self.calls += 1
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        loss = self.loss()
        loss.backward()
        return loss

    def steps(self, n):
        """Loss before, parameters and calls after each step."""
        out = []
        for _ in range(n):
            loss = self.optimizer.step(self.closure).item()
            out.append(np.concatenate([[loss, self.calls], *(p.detach().numpy().ravel() for p in self.params)]))
        return np.array(out)


def rosenbrock(side, sign=1):
    """sum 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2, in two parameters."""
    a, b = (side.nn.Parameter(side.tensor(np.array(v))) for v in ([0.2], [1.0, 0.7, -0.5]))

    def loss():
        x, y, z = a[0], b[0], b[1:]
        f = 100 * (y - x ** 2) ** 2 + (1 - x) ** 2 + (100 * (z[0] - y ** 2) ** 2 + (1 - y) ** 2)
        return sign * (f + 100 * (z[1] - z[0] ** 2) ** 2 + (1 - z[0]) ** 2)
    return [a, b], loss


def mlp(side):
    rng = np.random.default_rng(3)
    model = side.nn.Sequential(side.nn.Linear(3, 8), side.nn.Tanh(), side.nn.Linear(8, 2)).double()
    for p in model.parameters():
        p.data.copy_(side.tensor(rng.normal(size=tuple(p.shape)) * 0.5))
    x = rng.normal(size=(30, 3))
    y = side.tensor(np.stack([np.sin(x).sum(1), x.prod(1)], 1))
    x = side.tensor(x)
    return list(model.parameters()), lambda: (model(x) - y).square().mean()


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("problem, steps, options", [
    (rosenbrock, 20, dict(max_iter=1)), (rosenbrock, 20, dict(lr=0.3, max_iter=1, max_eval=9)),
    (rosenbrock, 20, dict(lr=1e-3, max_iter=1, history_size=2, set_to_none=False)), (rosenbrock, 2, {}),
    (lambda side: rosenbrock(side, -1), 20, dict(lr=1e-3, max_iter=1, maximize=True)),
    (mlp, 20, dict(max_iter=1, history_size=4)), (mlp, 20, dict(lr=0.3, max_iter=1, max_eval=7)),
    (mlp, 7, dict(max_iter=3, max_eval=20)), (mlp, 1, {}), (mlp, 6, dict(max_iter=9, tolerance_change=1e-2)),
    (mlp, 4, dict(max_iter=6, tolerance_grad=0.3))])
def test_trajectories_agree_with_torch(problem, steps, options, search):
    """Over some 20 iterations: later what rounding leaves has grown, in torch alone from one bit, too."""
    ours, theirs = (Run(side, problem, line_search_fn=search, **options).steps(steps) for side in (Ours(), Theirs()))
    assert np.isfinite(ours).all()
    np.testing.assert_array_equal(ours[:, 1], theirs[:, 1])
    np.testing.assert_allclose(ours, theirs, 1e-9)


def test_it_finds_the_least():
    run = Run(Ours(), rosenbrock, line_search_fn="strong_wolfe")
    assert run.steps(8)[-1][0] < 1e-10
    np.testing.assert_allclose(run.params[1].detach().numpy(), 1.0, 1e-4)


@pytest.mark.parametrize("search", SEARCHES)
def test_state_goes_on_where_it_was(search, tmp_path):
    options = dict(lr=0.5, max_iter=3, line_search_fn=search)
    whole, first, second = (Run(Ours(), mlp, **options) for _ in range(3))
    expected = whole.steps(8)
    first.steps(5)
    state = copy.deepcopy(first.optimizer.state_dict())
    assert {"d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss", "n_iter",
            "func_evals"} == set(state["state"][0])
    gradus.save(state, tmp_path / "o")
    for p, q in zip(second.params, first.params):
        p.data.copy_(q)
    second.optimizer.load_state_dict(gradus.load(tmp_path / "o"))
    assert second.steps(3)[:, 2:].tolist() == expected[5:, 2:].tolist()
    assert second.optimizer.state_dict()["state"][0]["n_iter"] == whole.optimizer.state[whole.params[0]]["n_iter"]


def test_state_of_torch_is_taken():
    ours, theirs = (Run(side, mlp, lr=0.5, max_iter=3) for side in (Ours(), Theirs()))
    theirs.steps(5)
    for p, q in zip(ours.params, theirs.params):
        p.data.copy_(q.detach().numpy())

    def arrays(x):
        return [arrays(v) for v in x] if isinstance(x, list) else x.numpy() if hasattr(x, "numpy") else x
    state = copy.deepcopy(theirs.optimizer.state_dict())
    state["state"] = {0: {k: arrays(v) for k, v in state["state"][0].items()}}
    ours.optimizer.load_state_dict(state)
    np.testing.assert_allclose(ours.steps(5)[:, 2:], theirs.steps(5)[:, 2:], 1e-9)


def test_parameters_without_gradients_and_errors():
    w, still = nn.Parameter([3.0]), nn.Parameter([1.0])
    optimizer = optim.LBFGS([w, still], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (w - 1).square().sum()
        loss.backward()
        return loss
    with gradus.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert abs(w.item() - 1) < 1e-5 and still.item() == 1.0
    with pytest.raises(gradus.ValueError, match="closure.. gave None, expected the loss"):
        optimizer.step(lambda: None)
    with pytest.raises(TypeError, match="closure"):
        optimizer.step()
    for words, make in (("takes one group", lambda: optim.LBFGS([{"params": [w]}, {"params": [still]}])),
                        ("line_search_fn is 'wolfe'", lambda: optim.LBFGS([w], line_search_fn="wolfe")),
                        ("history_size is 0", lambda: optim.LBFGS([w], history_size=0)),
                        ("takes real", lambda: optim.LBFGS([gradus.zeros(2, dtype=gradus.complex64)]))):
        with pytest.raises((gradus.ValueError, gradus.DTypeError), match=words):
            make()
