"""PyTorch audited by gradus: every op of a model, forward and backward, against the reference."""
import inspect
import os
import sys
import types

import torch
from torch.overrides import TorchFunctionMode

import gradus
from gradus import _gradus
from ..fx import Unknown, _mapped
from . import _functions
from ._layers import RANDOM
from ._compare import LIMIT, differ

_OWN = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)))
# Calls that compute nothing that could be wrong.
_PLAIN = set("""size dim numel item tolist stride backward requires_grad_ register_hook
    is_contiguous data_ptr storage_offset is_floating_point is_complex element_size cpu detach
    detach_ __repr__ __format__ __len__ __bool__ __int__ __float__ __index__ numpy retain_grad
    type_as contiguous get_device ndimension nelement is_nonzero __hash__ __contains__
    is_same_size equal allclose manual_seed new_zeros new_ones new_full new_empty empty_like
    zeros_like ones_like full_like copy_ zero_ fill_ normal_ uniform_ is_tensor __array__
    __iter__ clone to float double""".split())


class Difference:
    """An op where PyTorch and gradus don't agree."""

    def __init__(self, op, what, how, line):
        self.op, self.what, self.how, self.line = op, what, how, line

    def __repr__(self):
        return f"{self.op}: {self.what}: {self.how}\n  at {self.line}"


class Report:
    """What check found: `differences` in the order of the calls, `first` of them or None; `checked`
    counts the ops; `skipped` = {op: why it could not be compared}."""

    def __init__(self):
        self.differences, self.checked, self.skipped = [], 0, {}

    @property
    def first(self):
        return self.differences[0] if self.differences else None

    def __repr__(self):
        lines = [f"{self.checked} ops compared, forward and backward: "
                 + (f"{len(self.differences)} differ; the first is" if self.differences
                    else "none differs")]
        lines += [str(self.first)] if self.first else []
        lines += [f"not compared: {op}: {why}" for op, why in self.skipped.items()]
        return "\n".join(lines)


def _line():
    """The innermost line of Python that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    if frame is None:
        return "no line of Python"
    code = frame.f_code
    return f'File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}'


def _tensors(tree):
    found = []
    _mapped(tree, lambda a: found.append(a) if isinstance(a, (torch.Tensor, gradus.Tensor)) else a)
    return found


def _floats(t):
    return t.is_floating_point() or t.is_complex()


def _reference(t):
    order = sorted(range(t.ndim), key=lambda d: -t.stride(d))  # strides stay: noise follows them
    made = gradus.from_dlpack(t.detach().permute(order).contiguous())._to_device("reference")
    if order != sorted(order):
        made = gradus.permute(made, [order.index(d) for d in range(t.ndim)]).detach()
    return made


def _back(t):
    return torch.from_dlpack(t.detach()._to_device("cpu"))


class _Pair:
    """Copies of a call's arguments in both libraries: leaves, and what the call is given."""

    def __init__(self, args, kwargs):
        self.theirs, self.ours, self.known = [], [], {}
        tree = args, kwargs
        self.their_args = _mapped(tree, lambda a: self.copy(a)[0])
        self.our_args = _mapped(tree, lambda a: self.copy(a)[1])

    def copy(self, a):
        if isinstance(a, torch.Tensor):
            if id(a) not in self.known:
                self.known[id(a)] = self.made(a), a
            return self.known[id(a)][0]
        return a, a

    def made(self, a):
        theirs, ours = a.detach().clone(), _reference(a)
        if a.requires_grad:
            self.theirs.append(theirs.requires_grad_())
            self.ours.append(ours.requires_grad_())
            theirs, ours = theirs.clone(), gradus.clone(ours)
        return theirs, ours

    def gradients(self, theirs, ours):
        """Both libraries' gradients of the leaves, for the same cotangents."""
        roots = [(t, o) for t, o in zip(theirs, ours) if t.requires_grad and _floats(t)]
        if not roots or not self.theirs:
            return [], []
        generator = torch.Generator().manual_seed(len(roots))
        seeds = [torch.rand(t.shape, generator=generator, dtype=torch.float64).add_(0.5).to(t.dtype)
                 for t, _ in roots]
        a = torch.autograd.grad([t for t, _ in roots], self.theirs, seeds, allow_unused=True)
        known = [(o, _reference(s)) for (_, o), s in zip(roots, seeds) if o.requires_grad]
        b = [None] * len(a)
        if known:
            b = gradus.grad([o for o, _ in known], self.ours, [s for _, s in known],
                            allow_unused=True)
        return a, [None if g is None else _back(g) for g in b]


class _Watch(TorchFunctionMode):
    """Sees every call of torch's functions while the model runs."""

    def __init__(self, report, tolerance):
        super().__init__()
        self.report, self.tolerance, self.region = report, tolerance, None

    def __torch_function__(self, func, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.region:
            return self.region.step(self, func, args, kwargs)
        name = getattr(func, "__name__", str(func))
        found = _functions.find(func)
        if found is None or name in _PLAIN or name == "__get__" or not any(
                _floats(t) for t in _tensors((args, kwargs))):
            return self.unknown(func, name, args, kwargs)
        return self.compared(func, name, found, args, kwargs)

    def opened(self, func, args, kwargs):
        """Runs a function of torch.nn.functional so that the calls inside are seen."""
        space = dict(func.__globals__)
        for n in space:
            if n.startswith("has_torch_function"):
                space[n] = lambda *_: False
        inside = types.FunctionType(func.__code__, space, func.__name__, func.__defaults__,
                                    func.__closure__)
        inside.__kwdefaults__ = func.__kwdefaults__
        with self:
            return inside(*args, **kwargs)

    def unknown(self, func, name, args, kwargs):
        if inspect.isfunction(func) and func.__module__ == "torch.nn.functional":
            return self.opened(func, args, kwargs)
        y = func(*args, **kwargs)
        if name not in _PLAIN and name != "__get__" and any(_floats(t) for t in _tensors(y)):
            if any(_floats(t) for t in _tensors((args, kwargs))):
                self.report.skipped.setdefault(name, f"gradus has no rule for it\n  at {_line()}")
        return y

    def compared(self, func, name, found, args, kwargs):
        line, random = _line(), func in RANDOM
        pair = _Pair(args, kwargs)
        before = torch.get_rng_state() if random else None
        y = func(*args, **kwargs)
        if random:
            after = torch.get_rng_state()
            torch.set_rng_state(before)
        theirs = func(*pair.their_args[0], **pair.their_args[1])
        if random:
            torch.set_rng_state(before)
        modes = _gradus._set_modes(torch.is_grad_enabled(), False, False)
        try:
            function, a, k = _functions.bound(found, *pair.our_args)
            ours = function(*a, **k)
            results = _tensors(theirs), _tensors(ours)
            gradients = pair.gradients(*results)
        except (gradus.Error, Unknown, TypeError, ValueError, IndexError, AttributeError) as e:
            self.report.skipped.setdefault(name, f"{e}\n  at {line}")
            return y
        finally:
            _gradus._set_modes(*modes)
            if random:
                torch.set_rng_state(after)
        self.judge(name, line, results, gradients,
                   (_tensors(pair.their_args), _tensors(pair.our_args)))
        return y

    def judge(self, name, line, results, gradients, arguments=((), ())):
        self.report.checked += 1
        theirs, ours = results
        if len(theirs) != len(ours):
            return self.put(name, "forward", f"{len(theirs)} results, gradus has {len(ours)}", line)
        for what, pairs in (("result", zip(ours, theirs)), ("argument", zip(*arguments[::-1]))):
            for i, (o, t) in enumerate(pairs):
                self.put(name, f"forward, {what} {i}", self.differ(_back(o), t), line)
        for i, (t, o) in enumerate(zip(*gradients)):
            self.put(name, f"backward, gradient {i}", self.differ(o, t), line)

    def differ(self, ours, theirs):
        if theirs is None and ours is not None and ours.any():
            return "PyTorch gives no gradient, gradus one that is not 0"
        kind = theirs if theirs is not None else ours
        limit = None if kind is None else self.tolerance or LIMIT.get(kind.dtype, 2e-4)
        wrong = differ(ours, theirs, limit)
        return wrong.replace("torch has", "PyTorch has") if wrong else None

    def put(self, name, what, how, line):
        if how:
            self.report.differences.append(Difference(name, what, how, line))

    # ---- a custom autograd.Function is one region

    def function(self, apply, cls, args, kwargs):
        with torch._C.DisableTorchFunction():
            line, pair = _line(), _Pair(args, kwargs)
            state = torch.get_rng_state()
            y = apply(*args, **kwargs)
            after = torch.get_rng_state()
            torch.set_rng_state(state)
        region = _Region(pair)
        modes = _gradus._set_modes(True, False, False)
        try:
            self.region = region
            try:
                theirs = _tensors(apply(*pair.their_args[0], **pair.their_args[1]))
            finally:
                self.region = None
            with torch._C.DisableTorchFunction():
                torch.set_rng_state(after)
                self.region_judged(f"{cls.__qualname__} (autograd.Function)", line, region, pair,
                                   theirs)
        finally:
            _gradus._set_modes(*modes)
        return y

    def region_judged(self, name, line, region, pair, theirs):
        if region.why:
            self.report.skipped.setdefault(name, f"{region.why}\n  at {line}")
            return
        ours = [region.shadow(t) for t in theirs]
        self.judge(name, line, (theirs, ours), pair.gradients(theirs, ours))


class _Region:
    """Follows the forward of an autograd.Function: each tensor of torch has one of gradus beside
    it, so that the forward can be differentiated."""

    def __init__(self, pair):
        self.why, self.kept = None, {}
        for (theirs, ours), _ in pair.known.values():
            self.kept[id(theirs)] = theirs, ours

    def shadow(self, t):
        if id(t) in self.kept:
            return self.kept[id(t)][1]
        for theirs, ours in self.kept.values():  # the same values under another handle
            if theirs.data_ptr() == t.data_ptr() and theirs.shape == t.shape and \
                    theirs.stride() == t.stride():
                return ours
        return _reference(t)

    def step(self, watch, func, args, kwargs):
        name = getattr(func, "__name__", str(func))
        followed = any(id(t) in self.kept for t in _tensors((args, kwargs)))
        before = torch.get_rng_state()
        found = _functions.find(func)
        if name in ("detach", "contiguous") or name == "__get__" and "data" in repr(func):
            found = _identity
        given = _mapped((args, kwargs), lambda a: self.shadow(a) if isinstance(a, torch.Tensor)
                        else a) if followed and found is not None else None
        y = func(*args, **kwargs)
        if not followed or self.why:
            return y
        if found is None:
            if name == "item" or any(_floats(t) for t in _tensors(y)):
                self.why = f"gradus has no rule for {name}, which its forward calls"
            return y
        after = torch.get_rng_state()
        torch.set_rng_state(before)
        try:
            function, a, k = _functions.bound(found, *given)
            ours = function(*a, **k)
        except (gradus.Error, Unknown, TypeError, ValueError, IndexError, AttributeError) as e:
            self.why = f"{name}: {e}"
            return y
        finally:
            torch.set_rng_state(after)
        for t, o in zip(_tensors(y), _tensors(ours)):
            self.kept[id(t)] = t, o
        return y


def _identity(x, *_, **__):
    return x


def check(model, inputs, tolerance=None):
    """Runs model(*inputs) and compares each op on the way, its results and its derivative, with
    gradus's reference kernels; gives a Report whose `first` is the first op that differs, with its
    line. A custom autograd.Function is one op: its backward is compared with gradus's derivative
    of its forward. tolerance: of the largest value; 2e-4 for float32 if left out."""
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    report = Report()
    watch = _Watch(report, tolerance)
    original = torch.autograd.Function.__dict__["apply"]

    def apply(cls, *args, **kwargs):
        real = original.__get__(None, cls)
        if cls.__module__.startswith("torch.") or watch.region or not torch.is_grad_enabled():
            return real(*args, **kwargs)
        return watch.function(real, cls, args, kwargs)

    torch.autograd.Function.apply = classmethod(apply)
    try:
        with watch:
            model(*inputs)
    finally:
        torch.autograd.Function.apply = original
    return report
