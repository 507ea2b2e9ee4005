"""gradus.audit, contraction, data and train from Python."""
import json
import pathlib
import shutil
import subprocess

import gradus
import pytest

ROOT = pathlib.Path(__file__).parents[3]


def test_check_and_birth():
    x = gradus.tensor([1.0, 4.0], requires_grad=True)
    report = gradus.audit.check(lambda: (gradus.sqrt(x) * x).sum(), against="reference")
    assert report.bad == 0 and len(report) == 3 and "no wrong derivative" in repr(report)
    birth = gradus.audit.birth(lambda: gradus.log(x - 2).sum())
    assert birth["op"] == "log" and birth["element"] == (0,) and "test_audit.py" in birth["where"]
    assert gradus.audit.birth(lambda: x.sum()) is None
    backward = gradus.audit.birth(lambda: (gradus.sqrt(x * 0) * 1).sum(), infinities=True)
    assert backward["backward"] and backward["op"] == "sqrt"
    w = gradus.ones(1, requires_grad=True)
    assert "w" in gradus.audit.unreached(lambda: x.sum(), {"x": x, "w": w})
    with pytest.raises(gradus.ValueError, match="function"):
        gradus.audit.check(x)


def test_graph_and_stepper(tmp_path):
    x = gradus.tensor([1.0, 2.0], requires_grad=True)
    graph = gradus.audit.graph(lambda: (x * x).sum(), names={"x": x}, title="squares")
    assert "%0:f32[2] = mul(x, x)" in repr(graph) and "<iframe" in graph._repr_html_()
    for ending in ("html", "svg", "dot", "json", "txt"):
        graph.save(tmp_path / f"g.{ending}")
    assert json.loads((tmp_path / "g.json").read_text())["format"] == "gradus.graph/1"
    assert "backward" in repr(gradus.audit.graph((x * x).sum()))
    s = gradus.audit.stepper((x * x).sum(), names={"x": x})
    assert s.upcoming()["node"] == "%1 sum" and s.next() and s.cotangent("%0").tolist() == [1, 1]
    s.set("%0", gradus.tensor([10.0, 10.0]))
    assert s.next() and s.cotangent("x").tolist() == [20, 40] and s.at_end and s.back()
    with pytest.raises(gradus.ValueError, match="there is no|nearest|did you mean|no node|is no"):
        s.cotangent("%77")
    story = gradus.audit.explain(lambda: (x * x).sum(), "%0", names={"x": x})
    assert story["derivatives"] == ["dy/da = b", "dy/db = a"] and story["example"]["value"] == 4
    with gradus.audit.watch() as w:
        y = (x * 3).sum()
        assert [c[0] for c in w.calls()] == ["mul", "sum"] and w.check(y).bad == 0


def test_contraction():
    plan = gradus.contraction.plan("ij,jk,kl->il", (10, 20), (20, 30), (30, 5), optimize="optimal")
    assert plan.flops == 8000 and plan.path == [(1, 2), (0, 1)] and len(plan.steps) == 2
    a, b, c = gradus.randn(10, 20), gradus.randn(20, 30), gradus.randn(30, 5, requires_grad=True)
    y = plan(a, b, c)
    assert gradus.allclose(y, a @ b @ c, atol=1e-3)
    y.sum().backward()
    assert c.grad.shape == (30, 5)
    assert gradus.contraction.einsum([[0, 300], [300, 1]], a, b, output=[1, 0]).shape == (30, 10)
    small = gradus.contraction.plan("ab,bc,cd,de->ae", *[(64, 64)] * 4, memory="90KiB", dtype="float32")
    assert small.slices > 1 and small.bytes <= 90 * 1024
    with pytest.raises(gradus.MemoryError):
        gradus.contraction.plan("ab,bc->ac", (64, 64), (64, 64), memory=100)
    assert gradus.contraction.einsum("ij,jk->ik", a, b, algebra="max-plus").shape == (10, 30)


def test_data():
    train, test = gradus.data.read({"name": "digits", "train": 100, "test": 20})
    assert len(train) == 100 and len(test) == 20 and len(train[0]) == 2
    loader = gradus.data.DataLoader(train, batch_size=32, shuffle=True)
    batches = [tuple(t.shape[0] for t in b) for b in loader]
    assert batches == [(32, 32)] * 3 + [(4, 4)] and len(loader) == 4
    pairs = gradus.data.DataLoader([(1.0, 2), (3.0, 4)], batch_size=2)
    assert [x.tolist() for x in next(iter(pairs))] == [[1, 3], [2, 4]]


CONFIG = {"experiment": "mlp", "seed": 5, "data": {"name": "digits", "train": 640, "test": 100},
          "model": {"layers": [{"linear": 32}, "relu", {"linear": 10}]}, "loss": "cross_entropy",
          "optimizer": {"name": "adam", "lr": 2e-3}, "epochs": 2, "batch_size": 64}


def test_trainer_equals_a_loop_of_ones_own():
    """The same network in gradus.nn, the same seed, data and order: the same bits."""
    trainer = gradus.train.Trainer(CONFIG)
    epochs = list(trainer.run())
    train, test = gradus.data.read(CONFIG["data"])
    gradus.manual_seed(5)
    net = gradus.nn.Sequential(gradus.nn.Linear(784, 32), gradus.nn.ReLU(), gradus.nn.Linear(32, 10))
    opt = gradus.optim.Adam(net.parameters(), lr=2e-3)
    loader = gradus.data.DataLoader(train, batch_size=64, shuffle=True, seed=5)
    for epoch in epochs:
        losses = []
        for x, y in loader:
            opt.zero_grad()
            loss = gradus.cross_entropy(net(x.reshape(x.shape[0], -1)), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        assert sum(losses) / len(losses) == epoch["loss"]
        with gradus.no_grad():
            x, y = test.tensors
            assert gradus.cross_entropy(net(x.reshape(x.shape[0], -1)), y).item() == pytest.approx(
                epoch["test_loss"], rel=1e-6)


def test_program_says_the_same(tmp_path):
    program = shutil.which("gradus") or ROOT / "build" / "release" / "gradus"
    if not pathlib.Path(program).exists():
        pytest.skip("the program gradus is not built")
    file = tmp_path / "mlp.json"
    file.write_text(json.dumps(CONFIG))
    out = subprocess.run([program, "train", file, "--json", "--out", tmp_path / "run"], capture_output=True, text=True)
    told = [json.loads(line) for line in out.stdout.splitlines()]
    losses = [e["train_loss"] for e in told if e["event"] == "epoch"]
    assert losses == [e["loss"] for e in gradus.train.Trainer(str(file)).run()]


def test_network():
    net = gradus.train.Network([{"linear": 8}, "relu", {"linear": 2}], (1, 4))
    assert net(gradus.ones(3, 4)).shape == (3, 2) and [n for n, _ in net.named_parameters()][0] == "layers.0.weight"
    with pytest.raises(gradus.ConfigError, match="did you mean"):
        gradus.train.Network(["rellu"], (1, 4))


def test_program_of_calls():
    run = gradus.Program(2, [("mul", [0, 1], {}, [2], "line 1"), ("sum", [2], {"dim": [0]}, [3], "line 2"),
                             ("add", [3, 1.0], {}, [4], "line 3")], [4, 2])
    a = gradus.tensor([1.0, 2.0])
    assert [t.tolist() for t in run([a, a])] == [6, [1, 4]]
    results, leaves = run.recorded([a, a], [True, False])
    assert gradus.grad(results[0], leaves[0])[0].tolist() == [1, 2]
    with pytest.raises(gradus.ShapeError, match="line 1"):
        run([a, gradus.ones(3)])
