"""Hooks of modules: functions that see, and may replace, what goes in and out, forward and backward."""
import itertools
import warnings
from collections import OrderedDict

from .. import _gradus
from .._gradus import Tensor
from ..autograd import Function

_numbers = itertools.count()


class RemovableHandle:
    """What registering a hook gives: remove() takes it away, as does the end of `with handle:`."""

    def __init__(self, hooks):
        self._hooks, self.id = hooks, next(_numbers)

    def remove(self):
        self._hooks.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


class Hooked:
    """What a module has of hooks. They run in the order of their registration, with prepend before those
    that are there; what one gives, if not None, is what the next one sees."""

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before forward: gives None, other arguments as a tuple, or one of them. With
        with_kwargs hook(module, args, kwargs) gives None or (args, kwargs)."""
        return self._hook("forward_pre", hook, prepend, with_kwargs)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args, output) after forward: gives None or another output. With with_kwargs
        hook(module, args, kwargs, output)."""
        return self._hook("forward", hook, prepend, with_kwargs)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) before the gradients go into the module: gives None or others."""
        return self._hook("backward_pre", hook, prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) when the gradients of the positional inputs are there:
        gives None or other grad_input. Both are tuples, None where there is no tensor. Not called under
        vmap."""
        return self._hook("backward", hook, prepend)

    def _hook(self, kind, hook, prepend, with_kwargs=False):
        if not callable(hook):
            raise _gradus.DTypeError(f"{type(self).__name__}: a hook is a function, got a {type(hook).__name__}")
        kinds = self.__dict__.setdefault("_hooks", {})
        hooks = kinds.setdefault(kind, OrderedDict())
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook, with_kwargs
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle


def call(module, args, kwargs):
    """module.forward(*args, **kwargs) between its hooks."""
    def of(kind):
        return tuple(module._hooks.get(kind, {}).values())
    for hook, with_kwargs in of("forward_pre"):
        given = hook(module, args, kwargs) if with_kwargs else hook(module, args)
        if given is None:
            continue
        if not with_kwargs:
            args = given if isinstance(given, tuple) else (given,)
        elif isinstance(given, tuple) and len(given) == 2:
            args, kwargs = given
        else:
            raise _gradus.ValueError(f"{type(module).__name__}: a hook before forward gave {given!r}, expected "
                                     "None or (args, kwargs)")
    back = _Backward(module, of("backward_pre"), of("backward"))
    args = back.inputs(args)
    out = module.forward(*args, **kwargs)
    for hook, with_kwargs in of("forward"):
        given = hook(module, args, kwargs, out) if with_kwargs else hook(module, args, out)
        out = out if given is None else given
    return back.outputs(out)


class _Boundary(Function):
    """Tensors as they are, whose gradients go through one function together."""

    @staticmethod
    def forward(ctx, function, zeros, *tensors):
        ctx.function = function
        ctx.set_materialize_grads(zeros)
        ctx.mark_non_differentiable(*(t for t, n in zip(tensors, ctx.needs_input_grad[2:]) if not n))
        return tensors

    @staticmethod
    def backward(ctx, *gradients):
        return (None, None, *ctx.function(gradients))

    @staticmethod
    def jvp(ctx, function, zeros, *tangents):
        return tangents

    @staticmethod
    def vmap(info, in_dims, function, zeros, *tensors):
        return tensors, in_dims[2:]


class _Backward:
    """The hooks on the gradients of one call: those of the outputs are kept until the inputs' are there."""

    def __init__(self, module, before, after):
        self.module, self.before, self.after = module, before, after
        self.none, self.grad_output = None, None  # none: grad_input where no input has a gradient

    def inputs(self, args):
        if not (self.before or self.after):
            return args
        out = _through(self._leave, args, zeros=True)
        self.none = (None,) * len(args) if out is args else None
        return out

    def outputs(self, out):
        if not (self.before or self.after):
            return out
        if isinstance(out, tuple):
            return getattr(type(out), "_make", tuple)(_through(self._enter, out))
        if not isinstance(out, Tensor):
            warnings.warn(f"{type(self.module).__name__}: hooks on gradients need a tensor or a tuple of them as "
                          f"output, got a {type(out).__name__}", stacklevel=4)
        return _through(self._enter, (out,))[0]

    def _enter(self, gradients):
        for hook, _ in self.before:
            gradients = self._given(hook(self.module, gradients), gradients)
        if self.none is None:
            self.grad_output = gradients
        else:
            for hook, _ in self.after:
                if any(g is not None for g in hook(self.module, self.none, gradients) or ()):
                    raise self._error("gave gradients, and no input requires one")
        return gradients

    def _leave(self, gradients):
        if self.grad_output is not None:  # else it came to the inputs on another way
            for hook, _ in self.after:
                gradients = self._given(hook(self.module, gradients, self.grad_output), gradients)
            self.grad_output = None
        return gradients

    def _given(self, given, gradients):
        if given is None:
            return gradients
        given = (given,) if isinstance(given, Tensor) else tuple(given)
        if len(given) != len(gradients):
            raise self._error(f"gave {len(given)} gradients, expected {len(gradients)} or None")
        return given

    def _error(self, message):
        return _gradus.ValueError(f"{type(self.module).__name__}: a hook on gradients {message}")


def _through(function, values, zeros=False):
    """The values, their tensors behind a boundary: function(gradients) for all values, None for others;
    a tensor without a gradient has None, too, or zeros."""
    at, n = [i for i, v in enumerate(values) if isinstance(v, Tensor)], len(values)
    if not (_gradus.is_grad_enabled() and any(values[i].requires_grad for i in at)):
        return values

    def inside(gradients):
        found = dict(zip(at, gradients))
        full = function(tuple(found.get(i) for i in range(n)))
        return [full[i] for i in at]
    behind = dict(zip(at, _Boundary.apply(inside, zeros, *(values[i] for i in at))))
    return tuple(behind.get(i, v) for i, v in enumerate(values))
