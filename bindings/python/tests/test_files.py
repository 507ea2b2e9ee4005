"""gradus.save and load: trees of tensors and numbers come back as they were; damaged files are refused."""
import copy
import json
import math
import pickle
import struct

import gradus
import pytest
from gradus import nn, optim

np = pytest.importorskip("numpy")


def same(a, b):
    """Are the trees equal, with dtypes, types and the order of dicts?"""
    if isinstance(a, gradus.Tensor):
        return isinstance(b, gradus.Tensor) and a.dtype is b.dtype and tuple(a.shape) == tuple(b.shape) \
            and a._bytes() == b._bytes()
    if isinstance(a, dict):
        return type(b) is dict and same(list(a.items()), list(b.items()))
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and repr(a) == repr(b)


def header(path):
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + size]), data[8 + size:]


def write(path, head, data):
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_a_checkpoint_goes_on_where_it_was(tmp_path):
    def made(lr):
        gradus.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = optim.AdamW(model.parameters(), lr=lr, betas=(0.8, 0.9))
        return model, optimizer, optim.lr_scheduler.StepLR(optimizer, 2)

    def step(model, optimizer, scheduler):
        optimizer.zero_grad()
        loss = model(gradus.arange(12.0).reshape(4, 3)).square().sum()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()
    one, other = made(0.1), made(0.7)
    for _ in range(3):
        step(*one)
    state = {"model": one[0].state_dict(), "optimizer": one[1].state_dict(),
             "scheduler": one[2].state_dict(), "epoch": 3, "loss": 0.25}
    gradus.save(state, tmp_path / "c.pt")
    back = gradus.load(tmp_path / "c.pt")
    assert same(state, back) and list(back["optimizer"]["state"]) == [0, 1, 2, 3, 4, 5]
    assert back["optimizer"]["param_groups"][0]["betas"] == (0.8, 0.9)
    for part, saved in zip(other, (back["model"], back["optimizer"], back["scheduler"])):
        part.load_state_dict(saved)
    assert [step(*one) for _ in range(3)] == [step(*other) for _ in range(3)]
    assert same(pickle.loads(pickle.dumps(one[1].state_dict())), one[1].state_dict())


@pytest.mark.parametrize("tree", [
    {}, [], (), None, 3, True, 1.0, -0.0, 2 ** 80, 1e-320, "é\0\"\n", math.inf, -math.inf, math.nan,
    1j, complex(-0.0, math.nan), complex(0.0, -0.0), [[], [()], ({},)], (1, 1.0, True, "1", None),
    {0: 1, "0": 2, 1.5: 3, None: 4, True: 5, "": {"": 6}}, {"tensor": "a", "dict": {"tuple": [1]}},
    {"z": 1, "a": 2}, {-1: [{"a": (1,)}]}], ids=repr)
def test_what_comes_back(tree, tmp_path):
    x = gradus.arange(6).reshape(2, 3)
    for case in (tree, {"here": tree, "x": x}, [tree, (x, tree)]):
        gradus.save(case, tmp_path / "t.safetensors")
        assert same(case, gradus.load(tmp_path / "t.safetensors"))


def test_tensors_of_each_kind(tmp_path):
    values = [[0.0, 1.0, 3.0], [-0.0, math.nan, math.inf]]
    whole = [gradus.tensor([[1, 2], [3, 0]]).to(d) for d in ("bool", "uint8", "int32", "int64")]
    parts = [gradus.tensor(values).to(d) for d in
             ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")]
    tree = [*whole, *parts, *(t[0, 0] for t in parts), *(t.T for t in parts), gradus.zeros(0, 3),
            gradus.zeros(0, 2, dtype=gradus.complex128), gradus.tensor(2 ** 63 - 1)]
    gradus.save(tree, tmp_path / "t")
    assert same(tree, gradus.load(tmp_path / "t"))
    for x in tree:
        gradus.save(x, tmp_path / "x.pt")
        assert same(x, gradus.load(tmp_path / "x.pt"))
    w = nn.Parameter([1.0])
    gradus.save({"w": w * 2, "again": w, "same": w}, tmp_path / "t")
    assert gradus.load(tmp_path / "t")["w"].tolist() == [2] and not gradus.load(tmp_path / "t")["w"].requires_grad


def test_names_in_the_file(tmp_path):
    a, b, c = (gradus.full((2,), float(i)) for i in range(3))
    tree = {"a.b": a, "a": {"b": b, 0: c}, "__metadata__": a, "l": [b, {"x": c}]}
    gradus.save(tree, tmp_path / "t")
    assert same(tree, gradus.load(tmp_path / "t"))
    names = set(header(tmp_path / "t")[0]) - {"__metadata__"}
    assert names == {"a.b", "a.b'", "a.0", "__metadata__'", "l.0", "l.1.x"}


def test_files_of_others_and_npy(tmp_path):
    x = {"a": gradus.randn(2, 3), "b.c": gradus.arange(3)}
    gradus._gradus._write_safetensors(str(tmp_path / "x"), list(x.items()), [("k", "v")])
    y, meta = gradus.load(tmp_path / "x", with_metadata=True)
    assert {n: t.tolist() for n, t in y.items()} == {n: t.tolist() for n, t in x.items()} and meta == {"k": "v"}
    gradus.save(x, tmp_path / "y", metadata={"k": "v"})
    assert gradus.load(tmp_path / "y", with_metadata=True)[1] == {"k": "v"}
    gradus.save(x["a"], tmp_path / "a.npy")
    assert np.load(tmp_path / "a.npy").tolist() == x["a"].tolist() == gradus.load(tmp_path / "a.npy").tolist()
    with pytest.raises(gradus.ValueError, match="a .npy file holds one tensor, got a dict"):
        gradus.save(x, tmp_path / "x.npy")


def test_what_is_not_saved(tmp_path):
    loop = []
    loop.append(loop)
    for tree, words in (
            ({"a": [1, {"b": object()}]}, "save: a.1.b is a object; expected .*pickle.dump"),
            (np.zeros(2), r"the argument is a ndarray; .*gradus.tensor\(x\)"),
            ({"loss": np.float64(1)}, r"loss is a float64; .*x.item\(\) a number"), ({1}, "is a set"),
            ({"a": {(1, 2): 3}}, "a key of a is a tuple"), ({gradus.zeros(1): 1}, "a key of the argument is a Tensor"),
            (loop, "holds itself")):
        with pytest.raises(gradus.ValueError, match=words):
            gradus.save(tree, tmp_path / "t")
        assert not (tmp_path / "t").exists()


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "t"
    gradus.save({"a": gradus.ones(3), "b": [gradus.zeros(2), 1.5]}, path)
    data = path.read_bytes()
    key = data.index(b"gradus.crc32")
    for at in {*range(0, len(data), 3)} - {*range(key, key + 12)}:  # without the key nothing else is lost
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1:])
        with pytest.raises(gradus.IOError):
            gradus.load(path)
        path.write_bytes(data[:at])
        with pytest.raises(gradus.IOError):
            gradus.load(path)
    path.write_bytes(data)
    head, rest = header(path)
    del head["__metadata__"]["gradus.crc32"]
    tree = head["__metadata__"]["gradus.tree"]
    write(path, head, rest)
    assert gradus.load(path)["b"][1] == 1.5
    for text, words in (
            (tree[:-1], "no tree"), (tree.replace("b.0", "b.1"), "it names 'b.1', which is not there"), ("[]", "leaves out"),
            (tree.replace("tensor", "set"), "'set' is none"),
            ('{"a":1,"b":2}', "no tree"), ("[" * 10 ** 5, "no tree"), ('{"tensor":[]}', "no tree"), ('{"dict":3}', "no tree"),
            ('{"float":"x"}', "no tree"), ('[{"tensor":"a"},{"tensor":"a"}]', "names 'a'")):
        changed = copy.deepcopy(head)
        changed["__metadata__"]["gradus.tree"] = text
        write(path, changed, rest)
        with pytest.raises(gradus.IOError, match=f"t: the metadata's gradus.tree does not fit the file: .*({words}).*leave that"):
            gradus.load(path)
