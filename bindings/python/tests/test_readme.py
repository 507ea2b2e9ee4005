"""The README's blocks, as one program; the examples; and what a user types in a shell."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("numpy")
HERE = pathlib.Path(__file__).parents[1]
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path if p)}


def test_readme(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.S)
    assert len(blocks) >= 8
    program = "\n".join(blocks)
    (tmp_path / "tour.py").write_text(program)
    out = subprocess.run([sys.executable, "tour.py"], cwd=tmp_path, capture_output=True, text=True, env=ENV)
    assert out.returncode == 0, out.stderr
    assert "inner sizes differ" in out.stdout and "no wrong derivative" in out.stdout
    assert "[1. 1. 1.] True" in out.stdout and "log gives" in out.stdout


def test_front_page():
    page = (HERE.parents[1] / "README.md").read_text()
    block, = re.findall(r"```python\n(.*?)```", page, re.S)
    out = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, env=ENV)
    assert out.stdout.strip() == block.rsplit("# ", 1)[1].strip(), out.stderr


@pytest.mark.parametrize("example", sorted((HERE / "examples").glob("*.py")), ids=lambda p: p.name)
def test_example(example):
    first = example.read_text().splitlines()[0]
    for package in re.findall(r"\[needs ([a-z, ]+)\]", first):
        for name in package.split(", "):
            pytest.importorskip(name)
    out = subprocess.run([sys.executable, example, "--steps", "20"], capture_output=True, text=True, env=ENV)
    assert out.returncode == 0, out.stderr
    assert out.stdout


def test_stubs_know_every_op(tmp_path):
    import gradus
    stub = pathlib.Path(gradus.__file__).parent / "__init__.pyi"
    if not stub.exists():
        stub = pathlib.Path(gradus._gradus.__file__).parent / "__init__.pyi"
    text = stub.read_text()
    compile(text, "stub", "exec")
    for name in gradus.op_names:
        assert f"\ndef {name}(" in text
    assert (pathlib.Path(gradus.__file__).parent / "py.typed").exists()
