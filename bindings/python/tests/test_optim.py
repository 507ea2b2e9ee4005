"""gradus.optim: trajectories against PyTorch's, the engine's bits, state, schedules."""
import copy
import math

import numpy as np
import pytest

import gradus
from gradus import nn, optim

RULES = {
    "SGD": dict(lr=0.1),
    "SGD momentum": dict(lr=0.05, momentum=0.9, weight_decay=0.01),
    "SGD dampening": dict(lr=0.05, momentum=0.8, dampening=0.3),
    "SGD nesterov": dict(lr=0.05, momentum=0.9, nesterov=True),
    "SGD maximize": dict(lr=0.001, momentum=0.9, weight_decay=0.1, maximize=True),
    "Adam": dict(lr=0.1),
    "Adam decay": dict(lr=0.05, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
    "Adam maximize": dict(lr=0.01, weight_decay=0.1, maximize=True),
    "AdamW": dict(lr=0.1),
    "AdamW decay": dict(lr=0.05, betas=(0.5, 0.9), weight_decay=0.2),
    "RMSprop": dict(lr=0.02),
    "RMSprop centered": dict(lr=0.02, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.1),
    "RMSprop maximize": dict(lr=0.001, maximize=True),
    "Adadelta": dict(lr=1.0),
    "Adadelta decay": dict(lr=0.5, rho=0.7, eps=1e-3, weight_decay=0.1),
    "Adadelta maximize": dict(lr=0.1, maximize=True),
    "Adagrad": dict(lr=0.3),
    "Adagrad decay": dict(lr=0.3, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5),
    "Adagrad maximize": dict(lr=0.01, maximize=True),
    "NAdam": dict(lr=0.1),
    "NAdam decay": dict(lr=0.05, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1, momentum_decay=0.1),
    "NAdam decoupled": dict(lr=0.05, weight_decay=0.1, decoupled_weight_decay=True, maximize=True),
    "RAdam": dict(lr=0.1),
    "RAdam decay": dict(lr=0.05, betas=(0.8, 0.9), eps=1e-4, weight_decay=0.1),
    "RAdam decoupled": dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True, maximize=True),
    "Adamax": dict(lr=0.1),
    "Adamax decay": dict(lr=0.05, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
    "Adamax maximize": dict(lr=0.01, maximize=True),
    "Rprop": dict(lr=0.1),
    "Rprop bounds": dict(lr=0.05, etas=(0.4, 1.5), step_sizes=(0.01, 0.2)),
    "Rprop maximize": dict(lr=0.01, maximize=True),
}


def start():
    rng = np.random.default_rng(0)
    return [rng.normal(size=s) for s in ((3, 4), (4,), (2, 2, 2))]


class Ours:
    parameter, optim = staticmethod(lambda x: nn.Parameter(gradus.tensor(x))), optim

    def __init__(self, values=None):
        self.params = [self.parameter(x) for x in (start() if values is None else values)]

    def make(self, name, **options):
        self.optimizer = getattr(self.optim, name.split()[0])(self.params, **options)
        return self

    def loss(self):
        return sum(((p - 0.5) ** 2 * p.cos()).sum() for p in self.params)

    def steps(self, n, without=()):
        for _ in range(n):
            self.optimizer.zero_grad()
            self.loss().backward()
            for i in without:
                self.params[i].grad = None
            self.optimizer.step()
        return self

    def values(self):
        return [p.detach().numpy().copy() for p in self.params]


class Theirs(Ours):
    def __init__(self, values=None):
        torch = pytest.importorskip("torch")
        self.optim, self.parameter = torch.optim, lambda x: torch.nn.Parameter(torch.tensor(x))
        super().__init__(values)


def assert_close(a, b):
    within = 1e-7 if type(a.optimizer).__name__ == "NAdam" else 1e-9  # PyTorch keeps its product of mu in f32
    for x, y in zip(a.values(), b.values()):
        np.testing.assert_allclose(x, y, within, within)


def assert_equal(a, b):
    for x, y in zip(a.values(), b.values()):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("rule", RULES)
def test_trajectories_agree_with_torch(rule):
    ours, theirs = (kind().make(rule, **RULES[rule]) for kind in (Ours, Theirs))
    assert_close(ours.steps(20), theirs.steps(20))


@pytest.mark.parametrize("rule", RULES)
def test_gradients_that_come_and_go(rule):
    ours, theirs = (kind().make(rule, **RULES[rule]) for kind in (Ours, Theirs))
    for side in (ours, theirs):
        side.steps(3, without=[1]).steps(3).steps(2, without=[0, 2]).steps(1, [0, 1, 2]).steps(3)
    assert_close(ours, theirs)


def test_groups_and_options_that_change():
    sides = []
    for side in (Ours(), Theirs()):
        a, b, c = side.params
        side.optimizer = side.optim.AdamW([{"params": [a, b], "weight_decay": 0.0},
                                           {"params": c, "lr": 0.3}], lr=0.05)
        side.steps(4)
        side.optimizer.param_groups[0]["lr"] = 0.01
        side.optimizer.param_groups[0]["betas"] = (0.5, 0.5)
        sides.append(side.steps(4))
    assert_close(*sides)
    assert [g["weight_decay"] for g in sides[0].optimizer.param_groups] == [0.0, 1e-2]
    sides = []
    for side in (Ours(), Theirs()):
        side.optimizer = side.optim.SGD(side.params[:1], lr=0.1, momentum=0.9)
        side.optimizer.add_param_group({"params": side.params[1:], "momentum": 0.0})
        sides.append(side.steps(5))
    assert_close(*sides)


@pytest.mark.parametrize("rule", RULES)
def test_state_dict_goes_on_where_it_was(rule):
    whole = Ours().make(rule, **RULES[rule]).steps(8)
    first = Ours().make(rule, **RULES[rule]).steps(5)
    state = copy.deepcopy(first.optimizer.state_dict())
    second = Ours(first.values()).make(rule, lr=1.0)
    second.optimizer.load_state_dict(state)
    assert second.optimizer.param_groups[0]["lr"] == RULES[rule]["lr"]
    assert_equal(whole, second.steps(3))
    assert_equal(Ours().make(rule, **RULES[rule]).steps(8), whole)


@pytest.mark.parametrize("rule", ["SGD momentum", "SGD dampening", "Adam", "AdamW", "Adagrad",
                                  "RMSprop centered"])
def test_state_of_torch_is_taken(rule):
    theirs = Theirs().make(rule, **RULES[rule]).steps(5)
    ours = Ours(theirs.values()).make(rule, **RULES[rule])
    state = copy.deepcopy(theirs.optimizer.state_dict())
    for held in state["state"].values():
        held.update({k: v.numpy() for k, v in held.items() if v is not None})
    ours.optimizer.load_state_dict(state)
    assert_close(ours.steps(5), theirs.steps(5))


def test_state_is_where_torch_has_it():
    ours = Ours().make("Adam").steps(3)
    held = ours.optimizer.state[ours.params[0]]
    assert held["step"] == 3 and sorted(held) == ["exp_avg", "exp_avg_sq", "step"]
    before = held["exp_avg"].tolist()
    ours.steps(1)
    assert ours.optimizer.state[ours.params[0]]["exp_avg"].tolist() != before
    state = ours.optimizer.state_dict()
    assert sorted(state["state"]) == [0, 1, 2] and state["param_groups"][0]["params"] == [0, 1, 2]


def test_steps_are_the_engines_bit_for_bit():
    values = [x.astype(np.float32) for x in start()]
    for name, rule in (("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
                       ("Adam", {"weight_decay": 0.1}), ("AdamW", {"weight_decay": 0.1})):
        ours, other = Ours(values).make(name, lr=0.05, **rule), Ours(values)
        engine = gradus._gradus.Optimizer(
            [(str(i), p) for i, p in enumerate(other.params)], {"name": name.lower(), **rule})
        for _ in range(20):
            ours.steps(1)
            engine.zero_grad()
            other.loss().backward()
            engine.step(0.05)
        assert_equal(ours, other)


def test_closure_and_zero_grad():
    ours = Ours().make("SGD", lr=0.1)

    def closure():
        ours.optimizer.zero_grad()
        loss = ours.loss()
        loss.backward()
        return loss
    with gradus.no_grad():
        losses = [ours.optimizer.step(closure).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    ours.optimizer.zero_grad(set_to_none=False)
    assert ours.params[1].grad.tolist() == [0] * 4
    ours.optimizer.zero_grad()
    assert ours.params[1].grad is None
    assert "group 0: 3 parameters, lr=0.1" in repr(ours.optimizer)


def test_a_network_learns_and_a_seed_fixes_it():
    def losses():
        gradus.manual_seed(7)
        model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        optimizer = optim.AdamW(model.named_parameters(), lr=0.05)
        x = gradus.uniform((64, 2), -1, 1)
        y = (x[:, 0] * x[:, 1] > 0).long()
        out = []
        for _ in range(60):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            out.append(loss.item())
        return out
    a = losses()
    assert a[-1] < 0.2 < a[0] and a == losses()


def test_errors():
    p = nn.Parameter(gradus.ones((2,)))
    for words, make in (
            ("no parameters", lambda: optim.SGD([])),
            ("given twice", lambda: optim.Adam([p, p])),
            ("no leaf", lambda: optim.Adam([p * 2])),
            ("has no option 'momentum'", lambda: optim.Adam([{"params": [p], "momentum": 1}])),
            ("lr is -1", lambda: optim.RMSprop([p], lr=-1)),
            ("Adam: betas are", lambda: optim.Adam([p], betas=(0.9, 1.0))),
            ("NAdam: betas are", lambda: optim.NAdam([p], betas=(1.0, 0.9))),
            ("RAdam: betas are", lambda: optim.RAdam([p], betas=(0.9, 1.5))),
            ("Adamax: betas are", lambda: optim.Adamax([p], betas=(-0.1, 0.9))),
            ("NAdam: momentum_decay is -1", lambda: optim.NAdam([p], momentum_decay=-1)),
            ("Adadelta: rho is 2", lambda: optim.Adadelta([p], rho=2)),
            ("Rprop: etas are", lambda: optim.Rprop([p], etas=(1.5, 0.5))),
            ("Rprop: step_sizes are", lambda: optim.Rprop([p], step_sizes=(3, 1))),
            ("Adam: amsgrad is not there", lambda: optim.Adam([p], amsgrad=True)),
            ("nesterov needs", lambda: optim.SGD([p], nesterov=True)),
            (r"groups have \[1\] parameters, those of the state \[2\]",
             lambda: optim.SGD([p]).load_state_dict(
                 {"state": {}, "param_groups": [{"params": [0, 1]}]})),
            (r"exp_avg has shape \(3,\), its parameter \(2,\)",
             lambda: optim.Adam([p]).load_state_dict(
                 {"state": {0: {"exp_avg": np.ones(3)}}, "param_groups": [{"params": [0]}]}))):
        with pytest.raises(ValueError, match=words):
            make()
    with pytest.raises(TypeError, match="not one tensor"):
        optim.SGD(p)
    for rule in sorted({rule.split()[0] for rule in RULES} | {"LBFGS"}):
        with pytest.raises(gradus.DTypeError, match=f"{rule}: takes real parameters, got one of .*complex64"):
            getattr(optim, rule)([nn.Parameter(gradus.tensor([1j]))])


# ---- schedules

SCHEDULES = {
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5], 0.5),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 6, 0.01),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.9, 4),
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda t: 0.9 ** t, lambda t: 1 / (t + 1)]),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 3),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4, eta_min=0.01),
    "warm restarts later": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 2),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [0.05, 0.1], 17),
    "OneCycleLR linear": lambda s, o: s.OneCycleLR(
        o, 0.05, epochs=4, steps_per_epoch=5, pct_start=0.4, anneal_strategy="linear", div_factor=10,
        final_div_factor=100, base_momentum=0.5),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 4), s.CosineAnnealingLR(o, 7)], [4]),
    "SequentialLR of three": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.5, 2), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [3, 9]),
    "SequentialLR of lambdas": lambda s, o: s.SequentialLR(
        o, [s.LambdaLR(o, lambda t: (t + 1) / 6), s.LambdaLR(o, lambda t: 0.8 ** t)], [5]),
    "two from a low start": lambda s, o: (s.LinearLR(o, 0.2, 1.0, 4), s.MultiStepLR(o, [2, 6], 0.5)),
    "cosine and another": lambda s, o: (s.CosineAnnealingLR(o, 2, 0.01), s.StepLR(o, 1, 0.5)),
    "cosine of one": lambda s, o: (s.CosineAnnealingLR(o, 1), s.ConstantLR(o, 0.5, 3)),
    "resumed": lambda s, o: (o.param_groups[0].update(initial_lr=0.2), o.param_groups[1].update(initial_lr=0.4))[2:] + (
        s.CosineAnnealingLR(o, 6, 0.01, last_epoch=3), s.ExponentialLR(o, 0.9, last_epoch=3),
        s.LinearLR(o, 0.2, 0.9, 9, last_epoch=3)),
    "two": lambda s, o: (s.ExponentialLR(o, 0.9), s.StepLR(o, 4, 0.5)),
}


def rates(side, make, n=16, rule="SGD", **options):
    side.optimizer = getattr(side.optim, rule)([{"params": side.params[:2]},
                                                {"params": side.params[2:], "lr": 0.3}], lr=0.1, **options)
    made = make(side.optim.lr_scheduler, side.optimizer)
    out = []
    for _ in range(n):
        side.steps(1)
        for scheduler in made if isinstance(made, tuple) else (made,):
            scheduler.step()
        out.append([g[name] for g in side.optimizer.param_groups for name in ("lr", "momentum") if name in g]
                   + [g["betas"][0] for g in side.optimizer.param_groups if "betas" in g])
    return np.array(out)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_agree_with_torch(name):
    for rule, options in (("SGD", {"momentum": 0.5}), ("Adam", {})):
        sides = Ours(), Theirs()
        np.testing.assert_allclose(*(rates(side, SCHEDULES[name], rule=rule, **options) for side in sides),
                                   1e-10, 1e-12)
    assert_close(*sides)  # by Adam, whose steps stay small


def test_schedules_in_a_row_go_on_from_their_state(tmp_path):
    def made():
        side = Ours().make("SGD", lr=0.1)
        s = optim.lr_scheduler
        return side.optimizer, SCHEDULES["SequentialLR"](s, side.optimizer)
    (optimizer, a), (other, b) = made(), made()
    for _ in range(6):
        a.step()
    gradus.save([optimizer.state_dict(), a.state_dict()], tmp_path / "s")
    for part, state in zip((other, b), gradus.load(tmp_path / "s")):
        part.load_state_dict(state)
    for _ in range(3):
        a.step()
        b.step()
        assert a.get_last_lr() == b.get_last_lr() == [other.param_groups[0]["lr"]]
    for words, make in (("2 milestones for 1 schedulers, expected 0", lambda s: s.SequentialLR(other, [a], [1, 2])),
                        ("one or more schedulers of the optimizer", lambda s: s.SequentialLR(other, [], [])),
                        ("one or more schedulers of the optimizer", lambda s: s.SequentialLR(
                            optim.SGD(other.param_groups[0]["params"], lr=1), [a, a], [1])),
                        ("total_steps is 0 and", lambda s: s.OneCycleLR(other, 0.1, 0)),
                        ("pct_start 2, expected", lambda s: s.OneCycleLR(other, 0.1, 9, pct_start=2)),
                        ("total_steps is not given", lambda s: s.OneCycleLR(other, 0.1)),
                        ("anneal_strategy is 'sin'", lambda s: s.OneCycleLR(other, 0.1, 9, anneal_strategy="sin"))):
        with pytest.raises(ValueError, match=words):
            make(optim.lr_scheduler)
    cycle = optim.lr_scheduler.OneCycleLR(other, 0.1, 2)
    cycle.step()
    with pytest.raises(ValueError, match="step 3 of 2"):
        cycle.step()


def test_schedule_goes_on_from_its_state():
    side = Ours().make("SGD", lr=0.1)
    a = optim.lr_scheduler.CosineAnnealingLR(side.optimizer, 8)
    for _ in range(3):
        a.step()
    again = Ours().make("SGD", lr=0.5)
    b = optim.lr_scheduler.CosineAnnealingLR(again.optimizer, 8)
    again.optimizer.load_state_dict(side.optimizer.state_dict())
    b.load_state_dict(a.state_dict())
    a.step()
    b.step()
    assert b.get_last_lr() == a.get_last_lr() and b.last_epoch == 4
    assert math.isclose(a.get_last_lr()[0], 0.05)


@pytest.mark.parametrize("options", [
    dict(patience=1), dict(mode="max", patience=0, factor=0.5), dict(patience=0, cooldown=2),
    dict(patience=0, threshold=0.3, threshold_mode="abs", min_lr=0.02)])
def test_plateau_agrees_with_torch(options):
    numbers = [1.0, 0.9, 0.95, 0.94, 0.93, 0.92, 0.91, 0.5, 0.6, 0.7, 0.5, 0.49999, 0.8, 0.4]
    out = []
    for side in (Ours(), Theirs()):
        side.make("SGD", lr=0.1)
        scheduler = side.optim.lr_scheduler.ReduceLROnPlateau(side.optimizer, **options)
        out.append([])
        for x in numbers:
            scheduler.step(x)
            out[-1].append(side.optimizer.param_groups[0]["lr"])
    np.testing.assert_allclose(*out)


@pytest.mark.parametrize("rule", ["SGD nesterov", "AdamW", "RMSprop centered", "Adagrad decay", "NAdam decay",
                                  "RAdam decoupled", "Adamax", "Rprop"])
def test_recorded_steps_follow_the_rate(rule):
    sides = []
    for compiled in (False, True):
        gradus.manual_seed(2)
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))
        optimizer = getattr(optim, rule.split()[0])(model.parameters(), **RULES[rule])
        scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.8)

        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            return loss
        run = gradus.compile(step) if compiled else step
        losses = []
        for i in range(8):
            x = gradus.uniform((16, 3), -1, 1)
            losses.append(run(x, (x[:, 0] > 0).long()).item())
            scheduler.step()
        sides.append((losses, [t.tolist() for t in model.state_dict().values()]))
        if compiled:
            assert run.why_not == "" and run.replays == 6
    assert sides[0] == sides[1]


def test_a_compiled_step_works_where_its_tensors_are():
    """Not on the default device, which a machine's GPU may be."""
    w = gradus.ones(3, device="reference").requires_grad_()
    optimizer = gradus.optim.SGD([w], lr=0.5)
    x = gradus.arange(3.0, device="reference")

    def step():
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        return loss

    run = gradus.compile(step)
    assert [run().item() for _ in range(4)] == [3.0, 0.5, -2.0, -4.5]
    assert (run.why_not, run.replays) == ("", 2)
    nothing = gradus.compile(lambda t: [t.mul_(2), ()][1])  # no result: where its argument is
    for _ in range(3):
        nothing(x)
    assert (nothing.why_not, nothing.replays, x.tolist()) == ("", 1, [0, 8, 16])


@pytest.mark.parametrize("rule", ["SGD momentum", "Adam", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax", "Adadelta",
                                  "Rprop"])
@pytest.mark.parametrize("before", [1, 2, 6])
def test_recorded_steps_see_a_state_that_is_loaded(rule, before):
    sides = []
    for compiled in (False, True):
        w = nn.Parameter(gradus.ones(1))
        optimizer = getattr(optim, rule.split()[0])([w], **RULES[rule])

        def step(x):
            optimizer.zero_grad()
            loss = ((w - 3) * x).square().sum()
            loss.backward()
            optimizer.step()
            return loss
        run = gradus.compile(step) if compiled else step
        run(gradus.ones(1))
        state = copy.deepcopy(optimizer.state_dict())
        for i in range(1, before):
            run(gradus.ones(1 + i // 3))  # shapes: each has a recording of its own
        optimizer.load_state_dict(state)
        losses = [run(gradus.ones(1 + i // 3)).item() for i in range(6)]
        optimizer.param_groups[0]["maximize"] = True
        losses += [run(gradus.ones(1)).item() for i in range(4)]
        sides.append((losses, w.item(), optimizer.state[w]["step"]))
    assert sides[0] == sides[1] and run.why_not == ""


@pytest.mark.parametrize("rule", [*RULES, "LBFGS"])
def test_optimisers_go_on_after_their_module_has_another_dtype(rule):
    made = []
    for early in (True, False):
        gradus.manual_seed(3)
        model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
        other = optim.SGD([nn.Parameter(gradus.ones(1))], lr=1.0)
        kind, options = getattr(optim, rule.split()[0]), RULES.get(rule, {"lr": 0.1, "max_iter": 3})
        if early:
            optimizer = kind(model.parameters(), **options)
        model.double()
        if not early:
            optimizer = kind(model.parameters(), **options)

        def loss():
            optimizer.zero_grad()
            out = model(x).square().sum()
            out.backward()
            return out
        x = gradus.ones((4, 3), dtype=gradus.float64)
        for _ in range(3):
            optimizer.step(loss)
        made.append([p.tolist() for p in model.parameters()])
        assert other.param_groups[0]["params"][0].dtype is gradus.float32
    assert made[0] == made[1]
    model.float()
    x = x.float()
    before = [p.tolist() for p in model.parameters()]
    optimizer.step(loss)  # its state is of the new dtype too
    assert all(p is q for p, q in zip(optimizer.param_groups[0]["params"], model.parameters()))
    assert before != [p.tolist() for p in model.parameters()]
    assert gradus.isfinite(loss())
