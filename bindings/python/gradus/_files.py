"""Tensors in files: .safetensors and numpy's .npy."""
import os

from . import _gradus
from ._gradus import Tensor


def save(tensors, path, metadata=None):
    """Writes a dict of tensors as .safetensors, or one tensor as .npy; nothing is left half written."""
    path = os.fspath(path)
    if isinstance(tensors, Tensor):
        if not path.endswith(".npy"):
            raise _gradus.ValueError(f"save: one tensor goes to a .npy file, got {path!r}; a dict of "
                                     "tensors to a .safetensors file")
        return _gradus._write_npy(path, tensors.detach())
    flat = {}
    _names(tensors, "", flat)
    _gradus._write_safetensors(path, [(k, t.detach()) for k, t in flat.items()],
                               list((metadata or {}).items()))


def _names(tree, prefix, out):
    if isinstance(tree, Tensor):
        if prefix in out:
            raise _gradus.ValueError(f"save: two tensors would be called {prefix!r}")
        out[prefix] = tree
    elif isinstance(tree, dict):
        for k, v in tree.items():
            _names(v, f"{prefix}.{k}" if prefix else str(k), out)
    else:
        raise _gradus.ValueError(f"save: {prefix or 'the argument'} is a {type(tree).__name__}; "
                                 "expected tensors, or dicts of them; pickle.dump(tree, file) "
                                 "stores whatever holds tensors, an optimizer's state_dict() too")


def load(path, *, device=None, with_metadata=False):
    """A dict of the tensors of a .safetensors file, or the tensor of a .npy file."""
    path = os.fspath(path)
    if path.endswith(".npy"):
        return _gradus._read_npy(path, device)
    tensors, metadata = _gradus._read_safetensors(path, device)
    return (dict(tensors), dict(metadata)) if with_metadata else dict(tensors)
