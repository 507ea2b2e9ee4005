"""Parameters: tensors that a module owns and an optimiser moves."""
import weakref

from .._gradus import Tensor

holders = weakref.WeakSet()  # optimisers, which are told of parameters that take the place of others


class Parameter(Tensor):
    """A leaf over the memory of `data`; a module lists it as soon as it is an attribute there."""

    def __new__(cls, data=(), requires_grad=True):
        made = super().__new__(cls, data)
        made.requires_grad = requires_grad
        return made

    def __deepcopy__(self, memo):
        made = memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return made

    def __reduce__(self):
        return _rebuild, (type(self), self.detach(), self.requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()


def _rebuild(cls, data, requires_grad):
    return cls(data, requires_grad)
