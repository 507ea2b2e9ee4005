"""gradus: tensors that remember how they were computed, with derivatives of every order.

Names, arguments and semantics are PyTorch's wherever PyTorch has them:

    import gradus
    x = gradus.tensor([0.5, -1.0, 2.0], requires_grad=True)
    y = gradus.sigmoid(x).sum()
    y.backward()
    x.grad

Every op of the engine is a function here and a method of Tensor; help(gradus.softmax) says what it
takes and computes. What needs more than an op is in gradus.autograd, func, nn, optim, audit, data,
train, array_api and torch; most are loaded when they are first named.
"""
import importlib as _importlib

from . import _gradus
from ._gradus import *
from ._gradus import __version__
from ._modes import (enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled)
from ._tensor import (allclose, as_tensor, asarray, equal, from_numpy, get_rng_state, rand,
                      rand_like, randint, randn, randn_like, randperm, set_rng_state)
from . import autograd, func
from ._compile import compile
from ._files import load, save
from .autograd import checkpoint
from .func import vmap

_later = ("array_api", "audit", "contraction", "data", "fx", "linalg", "nn", "optim", "torch", "train")


def __getattr__(name):
    if name in _later:
        return _importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'gradus' has no attribute {name!r}")


def __dir__():
    return sorted(set(globals()) | set(_later))
