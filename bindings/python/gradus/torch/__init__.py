"""PyTorch and gradus together.

    import gradus.torch
    step = torch.compile(model, backend="gradus")
    gradus.torch.check(model, inputs)          # audits PyTorch with gradus

Tensors cross both ways without a copy: from_torch, to_torch.
"""
import torch

import gradus
from .. import fx
from .._gradus import _shared


def from_torch(t):
    """A gradus tensor over the memory of a torch tensor. It requires a gradient if t does, as a
    leaf of its own: derivatives don't flow from one library into the other."""
    made = gradus.from_dlpack(t)
    return made.requires_grad_() if t.requires_grad else made


def to_torch(t):
    """A torch tensor over the memory of a gradus tensor, likewise."""
    return _shared(t, torch.Tensor)


from ._backend import backend, history  # noqa: E402
from ._check import check  # noqa: E402

__all__ = ["backend", "check", "from_torch", "fx", "history", "to_torch"]
