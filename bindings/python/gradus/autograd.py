"""Derivatives: grad, backward, functions with a derivative of your own, checks of derivatives."""
import functools

from . import _gradus
from ._gradus import Tensor, backward, grad
from ._modes import detect_anomaly


class FunctionCtx:
    """What forward leaves for backward."""

    def __init__(self):
        self._saved, self._unpacked = (), None
        self._no_grad, self._materialize = (), True
        self.needs_input_grad = ()

    def save_for_backward(self, *tensors):
        """Keeps tensors; a write in place to them before backward is noticed."""
        self._saved = tensors

    def mark_non_differentiable(self, *tensors):
        self._no_grad = tensors

    def set_materialize_grads(self, on):
        """False: a missing gradient comes as None, not as zeros."""
        self._materialize = on

    @property
    def saved_tensors(self):
        return self._saved if self._unpacked is None else self._unpacked


class Function:
    """A function with its own derivative: subclass it with static methods forward(ctx, *args),
    backward(ctx, *gradients) and, for forward mode, jvp(ctx, *tangents); call it by apply().
    """
    _once = False

    @classmethod
    def apply(cls, *args):
        ctx = FunctionCtx()
        places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        shape = {}

        def forward(tensors, needs):
            full = list(args)
            wanted = [False] * len(args)
            for i, t, n in zip(places, tensors, needs):
                full[i], wanted[i] = t, n
            ctx.needs_input_grad = tuple(wanted)
            out = cls.forward(ctx, *full)
            shape["one"] = isinstance(out, Tensor)
            outputs = (out,) if shape["one"] else tuple(out)
            for k, y in enumerate(outputs):
                if not isinstance(y, Tensor):
                    raise TypeError(f"{cls.__name__}: forward's result {k} is no tensor but a "
                                    f"{type(y).__name__}")
            shape["metas"] = [(tuple(y.shape), y.dtype, y.device) for y in outputs]
            shape["no_grad"] = [k for k, y in enumerate(outputs)
                                if any(y is n for n in ctx._no_grad)]
            kept = [t for t in ctx._saved if t is not None]
            ctx._none = [t is None for t in ctx._saved]
            ctx._saved = ()
            return outputs, kept

        def backward(saved, gradients):
            saved = iter(saved)
            ctx._unpacked = tuple(None if none else next(saved) for none in ctx._none)
            if ctx._materialize:
                gradients = [_gradus.zeros(s, dtype=t, device=d) if g is None else g
                             for g, (s, t, d) in zip(gradients, shape["metas"])]
            out = cls.backward(ctx, *gradients)
            out = (out,) if out is None or isinstance(out, Tensor) else tuple(out)
            if len(out) != len(args):
                raise _gradus.AutogradError(f"{cls.__name__}: backward gave {len(out)} gradients for "
                                            f"{len(args)} arguments of forward")
            return [out[i] for i in places]

        def jvp(saved, tangents):
            saved = iter(saved)
            ctx._unpacked = tuple(None if none else next(saved) for none in ctx._none)
            given = [None] * len(args)
            for i, t in zip(places, tangents):
                given[i] = t
            out = cls.jvp(ctx, *given)
            return (out,) if isinstance(out, Tensor) else out

        once = cls._once or getattr(cls.backward, "_once", False)
        has_jvp = "jvp" in {n for c in cls.__mro__ for n in vars(c)}
        outputs = _gradus._call_function(cls.__name__, forward, backward, jvp if has_jvp else None,
                                         once, [args[i] for i in places])
        for k in shape["no_grad"]:
            outputs[k] = outputs[k].detach()
        return outputs[0] if shape["one"] else tuple(outputs)

    @staticmethod
    def forward(ctx, *args):
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx, *gradients):
        raise NotImplementedError("a Function needs a static method backward(ctx, *gradients)")


def once_differentiable(function):
    """Of a backward that is not made of ops: differentiating it again is an error, not a wrong number."""
    @functools.wraps(function)
    def inside(ctx, *gradients):
        return function(ctx, *gradients)
    inside._once = True
    return inside


def _tensors(inputs):
    return [inputs] if isinstance(inputs, Tensor) else list(inputs)


def _function(f):
    def inside(*tensors):
        out = f(*tensors)
        return out if isinstance(out, Tensor) else list(out)
    return inside


def gradcheck(f, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True,
              check_forward_ad=False):
    """Compares f's derivatives, by reverse mode and if asked by forward mode too, with differences.

    Inputs are of float64 or complex128. The error names the worst element. True if all is well.
    """
    return _check(f, inputs, eps, atol, rtol, False, raise_exception, check_forward_ad)


def gradgradcheck(f, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True,
                  check_forward_ad=False):
    """The same of the second derivatives."""
    return _check(f, inputs, eps, atol, rtol, True, raise_exception, check_forward_ad)


def _check(f, inputs, eps, atol, rtol, second, raise_exception, forward):
    mode = "automatic" if forward else "reverse"
    try:
        _gradus._gradcheck(_function(f), _tensors(inputs), eps, atol, rtol, second, mode)
    except _gradus.Error:
        if raise_exception:
            raise
        return False
    return True


def checkpoint(f, *args, use_reentrant=None):
    """f(*args) that keeps its inputs alone, and runs again when backward asks for more."""
    places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    shape = {}

    def inside(*tensors):
        full = list(args)
        for i, t in zip(places, tensors):
            full[i] = t
        out = f(*full)
        shape["one"] = isinstance(out, Tensor)
        return out if shape["one"] else list(out)

    out = _gradus._checkpoint(inside, [args[i] for i in places])
    return out[0] if shape["one"] else tuple(out)
