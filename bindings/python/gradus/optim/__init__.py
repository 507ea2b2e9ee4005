"""Optimisers: they move parameters by their gradients, in place; names and rules are PyTorch's.

    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

SGD, Adam and AdamW are the engine's own steps, one kernel for each parameter; the others are ops.
"""
from . import lr_scheduler
from .fused import SGD, Adam, AdamW
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .rules import Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop, Rprop


def __getattr__(name):
    from .._absent import instead
    raise AttributeError(f"module 'gradus.optim' has no attribute {name!r}{instead('optim.' + name)}")
