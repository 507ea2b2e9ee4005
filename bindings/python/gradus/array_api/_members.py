"""What the standard asks of an array that gradus.Tensor has not by itself, added to it."""
from .. import _gradus
from ._base import Tensor

VERSION = "2024.12"


class Size(int):
    """How many elements there are, as the standard has it; called, the shape, as in PyTorch."""
    def __new__(cls, x):
        self = super().__new__(cls, x.numel())
        self._of = x.shape
        return self

    def __call__(self, dim=None):
        if dim is not None and not -len(self._of) <= dim < len(self._of):
            raise _gradus.IndexError(f"size: axis {dim} of a tensor of shape {tuple(self._of)}")
        return self._of if dim is None else self._of[dim]

    def __reduce__(self):
        return int, (int(self),)


def namespace(self, /, *, api_version=None):
    """The module of the array standard's functions."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", VERSION):
        raise ValueError(f"__array_namespace__: version {api_version!r}; this is {VERSION}")
    from .. import array_api
    return array_api


def to_device(self, device, /, *, stream=None):
    """x on another device."""
    if stream is not None:
        raise ValueError("to_device: streams can't be given")
    return self if device == self.device else self._to_device(device)


def as_complex(self):
    """The one element as a complex number of Python."""
    return complex(self.item())


def attach():
    """Adds the members that are missing."""
    members = {"__array_namespace__": namespace, "to_device": to_device, "__complex__": as_complex}
    for name, member in members.items():
        if not hasattr(Tensor, name):
            setattr(Tensor, name, member)
    Tensor.size = property(Size, doc=Size.__doc__)
