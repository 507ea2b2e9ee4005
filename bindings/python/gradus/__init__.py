"""gradus: tensors that remember how they were computed, with derivatives of every order.

Names, arguments and semantics are PyTorch's wherever PyTorch has them:

    import gradus
    x = gradus.tensor([0.5, -1.0, 2.0], requires_grad=True)
    y = gradus.sigmoid(x).sum()
    y.backward()
    x.grad

Every op of the engine is a function here and a method of Tensor; help(gradus.softmax) says what it
takes and computes. What needs more than an op is in gradus.autograd, blocks, func, nn, optim, audit,
data, train, array_api and torch.
"""
from math import e, inf, nan, pi

from . import _gradus
from . import _tensor  # its aliases of ops are part of what follows
from ._gradus import *
from ._gradus import __version__
from ._modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from ._tensor import (allclose, arange, as_tensor, asarray, empty, empty_like, equal, from_numpy, full,
                      full_like, get_rng_state, is_complex, is_floating_point, is_tensor, numel, ones_like,
                      rand, rand_like, randint, randint_like, randn, randn_like, randperm, set_rng_state,
                      tensordot, zeros_like)
from ._more import *

# Loaded when they are first named, so that importing gradus takes a few milliseconds.
_modules = ("array_api", "audit", "autograd", "blocks", "contraction", "data", "func", "fx", "linalg", "nn",
            "optim", "return_types", "torch", "train")
_of_torch = ("fx", "torch")
_inside = {"checkpoint": "autograd", "compile": "_compile", "load": "_files", "save": "_files",
           "vmap": "func", **dict.fromkeys(_tensor.composed, "_composed")}


def __getattr__(name):
    import importlib
    if name in _modules:
        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as error:
            if name in _of_torch and error.name == "torch":
                raise AttributeError(f"gradus.{name} needs torch, which is not installed") from error
            raise
    if name in _inside:
        found = getattr(importlib.import_module("." + _inside[name], __name__), name)
        globals()[name] = found
        return found
    from ._absent import instead
    raise AttributeError(f"module 'gradus' has no attribute {name!r}{instead(name)}")


def __dir__():
    from importlib.util import find_spec
    absent = () if find_spec("torch") else _of_torch
    return sorted({*globals(), *_modules, *_inside} - {*absent})
