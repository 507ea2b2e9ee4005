"""Derivatives: grad, backward, functions with a derivative of your own, checks of derivatives."""
import collections
import functools
import inspect

from . import _gradus
from ._gradus import Tensor, backward, grad
from ._modes import detect_anomaly


class FunctionCtx:
    """What forward or setup_context leaves for backward, jvp and vmap."""

    def __init__(self):
        self._saved, self._for_jvp = (), None
        self._no_grad, self._dirty, self._materialize = (), (), True
        self.needs_input_grad = ()

    def save_for_backward(self, *tensors):
        """Keeps tensors; a write in place to them before backward is noticed."""
        self._saved = tensors

    def save_for_forward(self, *tensors):
        """What jvp reads as saved_tensors; without a call of this, what is saved for backward."""
        self._for_jvp = tensors

    def mark_dirty(self, *tensors):
        """Arguments that forward wrote in place; it must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        self._no_grad = tensors

    def set_materialize_grads(self, on):
        """False: a missing gradient comes as None, not as zeros."""
        self._materialize = on

    @property
    def saved_tensors(self):
        return self._saved


VmapInfo = collections.namedtuple("VmapInfo", "batch_size randomness")


class _Call:
    """One call of a Function, as the node of the graph asks it (functions.cpp). It holds no tensors:
    the node does."""

    def __init__(self, cls, args):
        self.cls, self.ctx = cls, FunctionCtx()
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.others = [None if isinstance(a, Tensor) else a for a in args]
        self.written = []  # (argument, result): one tensor
        tensors = [id(a) for a in args]
        self.alike = [i for i in self.places if tensors.count(tensors[i]) > 1]

    def _filled(self, tensors):
        full = list(self.others)
        for i, t in zip(self.places, tensors):
            full[i] = t
        return full

    def _read(self, out):
        """Notes the form of forward's result, and gives its parts."""
        self.kind = list if isinstance(out, list) else tuple if isinstance(out, tuple) else None
        parts = [out] if self.kind is None else list(out)
        self.results = [None if isinstance(y, Tensor) else y for y in parts]
        self.tensors = [k for k, y in enumerate(parts) if isinstance(y, Tensor)]
        if not self.tensors:
            raise _gradus.DTypeError(f"{self.cls.__name__}: forward gave no tensor but a {type(out).__name__}")
        self.metas = {k: (tuple(parts[k].shape), parts[k].dtype, parts[k].device)
                      for k in self.tensors}
        return parts

    def forward(self, tensors, needs):
        cls, ctx, full = self.cls, self.ctx, self._filled(tensors)
        wanted = [False] * len(full)
        for i, n in zip(self.places, needs):
            wanted[i] = n
        ctx.needs_input_grad = tuple(wanted)
        if cls.setup_context is Function.setup_context:
            parts = self._read(cls.forward(ctx, *full))
        else:
            out = cls.forward(*full)
            cls.setup_context(ctx, tuple(full), out)
            parts = self._read(out)
        self.constant = [k for k in self.tensors if any(parts[k] is n for n in ctx._no_grad)]
        copies = self._apart(full, parts)
        saved = list(ctx._saved) + list(ctx._for_jvp or ())
        self.split = None if ctx._for_jvp is None else len(ctx._saved)
        ctx._saved, ctx._for_jvp, ctx._no_grad, ctx._dirty = (), None, (), ()
        return ([parts[k] for k in self.tensors],
                [copies.get(id(t), t) for t in saved])

    def _apart(self, full, parts):
        """Of arguments written in place the node gives a copy, which the argument becomes later."""
        copies = {}
        for t in self.ctx._dirty:
            at = [i for i in self.places if full[i] is t]
            to = [k for k in self.tensors if parts[k] is t]
            if not at or not to:
                raise _gradus.AutogradError(
                    f"{self.cls.__name__}: what is marked dirty must be an argument of forward, and "
                    f"returned by it")
            if at[0] in self.alike:
                raise _gradus.AutogradError(f"{self.cls.__name__}: argument {at[0]}, which forward wrote "
                                            f"in place, was given twice; give a clone for one of them")
            copies[id(t)] = parts[to[0]] = t.clone()
            self.written.append((at[0], to[0]))
        return copies

    def _ask(self, function, saved, start, end, given):
        self.ctx._saved = tuple(None if k is None else saved[k] for k in self.saved_at[start:end])
        out = function(self.ctx, *given)
        self.ctx._saved = ()  # the node keeps them, as long as it should
        return out

    def has(self, derivative):
        return derivative != "jvp" or self.cls.jvp is not Function.jvp

    def backward(self, saved, gradients):
        cls = self.cls
        full = [None] * len(self.results)
        for k, g in zip(self.tensors, gradients):
            if g is None and self.ctx._materialize:
                shape, dtype, device = self.metas[k]
                g = _gradus.zeros(shape, dtype=dtype, device=device)
            full[k] = g
        out = self._ask(cls._slope(), saved, 0, self.split, full)
        out = [out] if out is None or isinstance(out, Tensor) else list(out)
        while len(out) > len(self.others) and out[-1] is None:
            out.pop()
        if len(out) != len(self.others):
            raise _gradus.AutogradError(f"{cls.__name__}: backward gave {len(out)} gradients for "
                                        f"{len(self.others)} arguments of forward")
        return [out[i] for i in self.places]

    def jvp(self, saved, tangents):
        given = [None] * len(self.others)
        for i, t in zip(self.places, tangents):
            given[i] = t
        out = self._ask(self.cls.jvp, saved, self.split or 0, None, given)
        if self.kind is None:
            return [out]
        return [out[k] for k in self.tensors]

    def vmap(self, tensors, mapped, size, randomness):
        """The results of all examples, along axis 0; `mapped` tensors have them there, too."""
        cls, full = self.cls, self._filled(tensors)
        axes = [None] * len(full)
        for i, m in zip(self.places, mapped):
            axes[i] = 0 if m else None
        self.constant = []
        if cls.vmap is not Function.vmap:
            out, dims = cls.vmap(VmapInfo(size, randomness), tuple(axes), *full)
            parts = self._read(out)
            dims = list(dims) if isinstance(dims, (tuple, list)) else [dims] * len(parts)
            return [parts[k].expand(size, *parts[k].shape) if dims[k] is None
                    else parts[k].movedim(dims[k], 0) for k in self.tensors]
        if size == 0:
            raise _gradus.ShapeError(f"{cls.__name__}: vmap: runs example by example, and the mapped "
                                     f"axis has size 0")
        rows = []
        for b in range(size):
            one = [x if d is None else x[b].clone() for x, d in zip(full, axes)]
            rows.append(self._read(cls.apply(*one)))
            if any(y is x for y in rows[-1] for x in one if isinstance(y, Tensor)):
                raise _gradus.AutogradError(f"{cls.__name__}: vmap: writes an argument in place")
        return [_gradus.stack([row[k] for row in rows]) for k in self.tensors]


class Function:
    """A function with its own derivative: subclass it with static methods forward(ctx, *args),
    backward(ctx, *gradients) and, for forward mode, jvp(ctx, *tangents); call it by apply().

    With setup_context(ctx, inputs, output), which says what to save, it is forward(*args). vmap runs
    it example by example, or by vmap(info, in_dims, *args), which gives results and their axes.
    """
    _once = False

    @classmethod
    def apply(cls, *args, **named):
        if named:
            first = () if cls.setup_context is not Function.setup_context else (None,)
            bound = inspect.signature(cls.forward).bind(*first, *args, **named)
            bound.apply_defaults()
            args = bound.args[len(first):]
        call = _Call(cls, args)
        once = cls._once or getattr(cls._slope(), "_once", False)
        outputs = _gradus._call_function(cls.__name__, call, once, [args[i] for i in call.places])
        results = list(call.results)
        for k, y in zip(call.tensors, outputs):
            results[k] = y.detach() if k in call.constant else y
        for i, k in call.written:
            _gradus._assign(args[i], results[k], cls.__name__)
            results[k] = args[i]
        return results[0] if call.kind is None else call.kind(results)

    @classmethod
    def _slope(cls):
        return cls.vjp if cls.backward is Function.backward else cls.backward

    @staticmethod
    def forward(*args):
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is each Function's own")

    @staticmethod
    def backward(ctx, *gradients):
        raise NotImplementedError("a Function needs a static method backward(ctx, *gradients)")

    vjp = backward

    @staticmethod
    def jvp(ctx, *tangents):
        raise NotImplementedError("forward mode needs a static method jvp(ctx, *tangents)")

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError("vmap is each Function's own")


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
        from .func import _flatten
        leaves = []
        _flatten(f(*tensors), leaves)
        return leaves
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
    from .func import _flatten, is_blocks
    mode, inputs = "automatic" if forward else "reverse", _tensors(inputs)
    if any(is_blocks(x) for x in inputs):
        given, inputs = inputs, []
        build, of_blocks = _flatten(given, inputs), f
        f = lambda *tensors: of_blocks(*build(iter(tensors)))  # noqa: E731
    try:
        _gradus._gradcheck(_function(f), inputs, eps, atol, rtol, second, mode)
    except _gradus.Error:
        if raise_exception:
            raise
        return False
    return True


def checkpoint(f, *args, use_reentrant=None):
    """f(*args) that keeps its inputs alone, and runs again when backward asks for more."""
    from .func import _flatten
    inputs, forms = [], {}
    build = _flatten(args, inputs)

    def inside(*tensors):
        outputs = []
        forms["out"] = _flatten(f(*build(iter(tensors))), outputs)
        return outputs

    out = _gradus._checkpoint(inside, inputs)
    return forms["out"](iter(out))
