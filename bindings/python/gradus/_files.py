"""Tensors in files: .safetensors, whatever the file is called, and numpy's .npy.

A tree of dicts, lists and tuples has its tensors in the file under their paths, "model.0.weight", and its
form as JSON in the metadata, where a tensor is {"tensor": name} and a dict a list of pairs.
"""
import json
import math
import os

from . import _gradus
from ._gradus import Tensor

_TREE = "gradus.tree"
_PLAIN = (str, int, bool, type(None))


def save(obj, path, metadata=None):
    """Writes dicts, lists and tuples of tensors, numbers, texts and None, as a state_dict() is, for load()
    to give back: {"model": model.state_dict(), "epoch": 3}. To a .npy file goes one tensor. metadata is a
    dict of texts. Nothing is left half written; nothing is pickled."""
    path = os.fspath(path)
    if path.endswith(".npy"):
        if not isinstance(obj, Tensor):
            raise _gradus.ValueError(f"save: a .npy file holds one tensor, got a {type(obj).__name__}; "
                                     "a .safetensors file holds dicts and lists of them")
        return _gradus._write_npy(path, obj.detach())
    tensors = {}
    try:
        tree = json.dumps(_written(obj, "", tensors), separators=(",", ":"))
    except RecursionError:
        raise _gradus.ValueError("save: the argument is too deep, or holds itself") from None
    _gradus._write_safetensors(path, list(tensors.items()), [*(metadata or {}).items(), (_TREE, tree)])


def _written(x, path, tensors):
    """x as JSON; its tensors go into `tensors` by name."""
    kind = type(x)
    if isinstance(x, Tensor):
        name = path or "tensor"
        while name in tensors or name == "__metadata__":  # {"a.b": x, "a": {"b": y}}
            name += "'"
        tensors[name], mark = _stored(x.detach())
        return {mark: name}
    if kind in _PLAIN or kind is float and math.isfinite(x):
        return x
    if kind in (float, complex):
        return {kind.__name__: repr(x)}
    at = path + "." if path else ""
    if isinstance(x, dict):
        for k in x:
            if type(k) not in (*_PLAIN, float):
                raise _gradus.ValueError(f"save: a key of {path or 'the argument'} is a {type(k).__name__}; expected "
                                         "a text, a number or None")
        return {"dict": [[_written(k, "", {}), _written(v, f"{at}{k}", tensors)] for k, v in x.items()]}
    if kind in (list, tuple):
        parts = [_written(v, f"{at}{i}", tensors) for i, v in enumerate(x)]
        return parts if kind is list else {"tuple": parts}
    hint = ("gradus.blocks.save has block tensors, x.data is a tensor" if hasattr(x, "with_data") else
            "gradus.tensor(x) makes a tensor of it, x.item() a number" if hasattr(x, "__array__") else
            "pickle.dump(obj, file) stores objects that hold tensors, too")
    raise _gradus.ValueError(f"save: {path or 'the argument'} is a {kind.__name__}; expected tensors, numbers, "
                             f"texts, None, or dicts, lists and tuples of them; {hint}")


def _stored(x):
    """As the format has it: complex128 is pairs of float64."""
    if x.dtype != _gradus.complex128:
        return x, "tensor"
    return _gradus._from_bytes(x._bytes(), (*x.shape, 2), _gradus.float64, "cpu"), "complex128"


def load(path, *, device=None, with_metadata=False):
    """What save() wrote, dicts as dict; of another .safetensors file a dict of its tensors, of a .npy file
    the tensor. with_metadata: (that, the dict of texts)."""
    path = os.fspath(path)
    if path.endswith(".npy"):
        return _gradus._read_npy(path, device)
    tensors, metadata = map(dict, _gradus._read_safetensors(path, device))
    tree = metadata.pop(_TREE, None)
    out = tensors if tree is None else _tree_of(path, tree, tensors)
    return (out, metadata) if with_metadata else out


def _tree_of(path, text, tensors):
    left = dict(tensors)
    try:
        out = _read(json.loads(text), left)
        why = f"it leaves out the tensor {next(iter(left))!r}" if left else ""
    except (ValueError, TypeError, AttributeError, RecursionError) as e:
        why = f"it is no tree as save() writes it: {e}"
    except KeyError as e:
        why = f"it names {e}, which is not there"
    if why:
        raise _gradus.IOError(f"{path}: the metadata's {_TREE} does not fit the file: {why}; a program that "
                              "writes the tensors anew must leave that key out")
    return out


def _read(x, left):
    if isinstance(x, list):
        return [_read(v, left) for v in x]
    if not isinstance(x, dict):
        return x
    (mark, held), = x.items()
    if mark == "tensor":
        return left.pop(held)
    if mark == "complex128":
        pairs = left.pop(held)
        return _gradus._from_bytes(pairs._bytes(), pairs.shape[:-1], _gradus.complex128, "cpu").to(pairs.device)
    if mark == "dict":
        return {_read(k, left): _read(v, left) for k, v in held}
    if mark == "tuple":
        return tuple(_read(held, left))
    if mark in ("float", "complex"):
        return {"float": float, "complex": complex}[mark](held)
    raise ValueError(f"{mark!r} is none of its marks")
