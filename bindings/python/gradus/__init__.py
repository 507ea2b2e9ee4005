"""gradus: tensors that remember how they were computed, with derivatives of every order.

Names, arguments and semantics are PyTorch's wherever PyTorch has them:

    import gradus
    x = gradus.tensor([0.5, -1.0, 2.0], requires_grad=True)
    y = gradus.sigmoid(x).sum()
    y.backward()
    x.grad

Every op of the engine is a function here and a method of Tensor; help(gradus.softmax) says what it
takes and computes. What needs more than an op is in gradus.autograd, func, nn, optim, audit, data,
train, array_api and torch.
"""
from . import _gradus
from ._gradus import *
from ._gradus import __version__
from ._modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from ._tensor import (allclose, arange, as_tensor, asarray, equal, from_numpy, get_rng_state, rand,
                      rand_like, randint, randn, randn_like, randperm, set_rng_state)

# Loaded when they are first named, so that importing gradus takes a few milliseconds.
_modules = ("array_api", "audit", "autograd", "contraction", "data", "func", "fx", "linalg", "nn",
            "optim", "torch", "train")
_inside = {"checkpoint": "autograd", "compile": "_compile", "load": "_files", "save": "_files",
           "vmap": "func"}


def __getattr__(name):
    import importlib
    if name in _modules:
        return importlib.import_module("." + name, __name__)
    if name in _inside:
        found = getattr(importlib.import_module("." + _inside[name], __name__), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'gradus' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_modules, *_inside})
