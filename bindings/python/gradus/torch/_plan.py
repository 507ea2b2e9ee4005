"""Small graphs, recorded: the kernel calls of the forward and of the backward are written down once
and repeated. Tensors that stay where they are (parameters) are read in place, the others are copied
into fixed ones. Results lie in the plan's memory while nobody keeps them for longer than to the
next run; the plan leaves it to those that are kept, and copies them from there on.

Way B's plan is held from a forward to its backward: its results are copies, and a second forward in
between runs unrecorded.
"""
import threading

import torch

import gradus
from gradus import _gradus
from ._functions import torch_dtype
from ._layers import on_host

_in, _places, _Recorded = gradus.from_dlpack, _gradus._places, _gradus._Recorded
_modes, _run_on = _gradus._set_modes, _gradus._run_on
_keep_graph = torch._C._autograd._get_current_graph_task_keep_graph

# Elements of all inputs, above which kernels cost more than calls: on the CPU; on a GPU a guess.
SMALL = 1 << 16, 1 << 22
_LATER = 3       # recordings: who moves more often is not recorded


class _Held:
    """A plan between a forward and its backward."""
    __slots__ = ("plan",)

    def __init__(self, plan):
        self.plan = plan

    def __del__(self):
        self.plan.forward.release()


class Plan:
    """The recorded form of a graph (`whole`), made at its second call, or `later` by so many."""

    def __init__(self, whole, later=0):
        self.whole, self.later, self.places, self.forward = whole, later, None, None
        self.moving, self.made, self.fixed = set(), 0, list(range(len(whole.needs)))
        self.recording = threading.Lock()
        self.off = not self.possible()

    def possible(self):
        w = self.whole
        if not hasattr(_gradus, "_capture") or w.scalar or w.count > SMALL[w.place.type != "cpu"]:
            return False
        return not (w.training and w.written) and not any(on_host(s.function)
                                                          for s in w.program.steps)

    def __call__(self, tensors):
        """The results, if this call can be a repetition, else None. The second call records."""
        if self.forward is not None:
            ys = self.forward(tensors)
            if ys is not None:
                return ys
        if self.off or not self.recording.acquire(False):
            return None
        try:
            return self.learned(tensors)
        except BaseException:
            self.forward = None  # which is taken
            raise
        finally:
            self.recording.release()

    def learned(self, tensors):
        """Finds the inputs that move, and records."""
        if self.later:
            self.later -= 1
            return None
        if self.forward is not None and not self.forward.take():
            return None  # in use, or held
        known, self.places = self.places, _places(tensors, self.fixed)
        if known is None:
            return None
        pairs = zip(memoryview(known).cast("N"), memoryview(self.places).cast("N"))
        moved = {i for i, (a, b) in zip(self.fixed, pairs) if a != b}
        if self.forward is not None and not moved:
            return self.forward.release()  # it was in use, just now
        self.moving |= moved
        self.fixed = [i for i in self.fixed if i not in moved]
        self.places = _places(tensors, self.fixed)
        self.made += 1
        if self.made > _LATER + len(self.moving) or self.moving & set(self.whole.written):
            self.off, self.forward = True, None
            return None
        return self.record(tensors)

    def record(self, tensors):
        """Runs the graph once and writes down its kernel calls, and those of its backward."""
        w, moved = self.whole, sorted(self.moving)
        into = [tensors[i].detach().clone(memory_format=torch.contiguous_format) for i in moved]
        # What lies still is not kept, so that a plan whose results are this one's inputs has its memory
        # back; but where a backward follows, which reads what lay there when the forward was called.
        values = [_in(t.detach()) if w.training else _gradus._over(t) for t in tensors]
        for i, t in zip(moved, into):
            values[i] = _in(t)
        leaves = [v.requires_grad_() for v, n in zip(values, w.needs) if n]
        kept = []

        def forward():
            kept[:] = _run_on(w.device, w.training, w.program, list(values))
            return [y for y in kept if y is not None]

        before = _modes(w.training, False, False)
        try:
            steps = [_gradus._capture(forward, w.device)]
            ys = list(kept)
            self.real = [y is not None and y.requires_grad for y in ys]
            seeds, found = [], []
            if w.training and not steps[0].why_not:
                roots = [y for y, r in zip(ys, self.real) if r]
                seeds = [torch.ones(tuple(y.shape), dtype=torch_dtype(y.dtype), device=w.place) for y in roots]
                given = [_in(s) for s in seeds]

                def backward():
                    found[:] = gradus.grad(roots, leaves, given, retain_graph=True,
                                           allow_unused=True)
                    return [g for g in found if g is not None]

                steps.append(_gradus._capture(backward, w.device))
        finally:
            _modes(*before)
        found = iter(found)
        grads = [next(found, None) if n else None for n in w.needs]
        self.kept = ys, values  # whose graph the recording of the backward reads
        self.off, self.laid = any(s.why_not for s in steps), False

        def repeated(step, results, *inputs):
            results = [r.detach() if isinstance(r, gradus.Tensor) else r for r in results]
            return _Recorded(step, w.device, torch.Tensor, results, *inputs, w.training)

        made = repeated(steps[0], [w.passed.get(i, y) for i, y in enumerate(ys)], self.fixed, moved, into,
                        tensors)
        if self.off and w.training:
            self.forward = None
            return None
        if w.training:
            roots = [i for i, r in enumerate(self.real) if r]
            self.backward = repeated(steps[1], grads, [], roots, seeds, ())
            self.backward.release()
        ys = made.results(tensors)  # what ran once is not to run again
        self.forward = None if self.off else made
        return ys

    def changed(self, tensors, versions):
        """What was read in place has to be as it was; the others were copied."""
        for i, (t, v) in enumerate(zip(tensors, versions)):
            if t._version != v and i not in self.moving:
                raise RuntimeError(
                    f"one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: input {i} of the graph is at version {t._version}, "
                    f"expected version {v}")


class Planned(torch.autograd.Function):
    """One forward and backward by a plan, which gave ys."""

    @staticmethod
    def forward(ctx, plan, ys, *tensors):
        ctx.held, ctx.tensors = _Held(plan), tensors
        ctx.versions = [t._version for t in tensors]
        ctx.set_materialize_grads(False)
        if not all(plan.real):
            ctx.mark_non_differentiable(*[y for y, r in zip(ys, plan.real) if not r])
        return tuple(ys)

    @staticmethod
    def backward(ctx, *gradients):
        tensors = ctx.tensors
        if tensors is None:
            raise RuntimeError("Trying to backward through the graph a second time: pass "
                               "retain_graph=True to the first call")
        plan = ctx.held.plan
        if ctx.versions != [t._version for t in tensors]:
            plan.changed(tensors, ctx.versions)
        found = None if torch.is_grad_enabled() else plan.backward(gradients)
        if found is None:  # or another thread is at it
            return None, None, *plan.whole.derived(tensors, gradients)
        plan.backward.release()
        if not _keep_graph():
            ctx.tensors = ctx.held = None
        return None, None, *found
