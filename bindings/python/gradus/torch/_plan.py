"""Small graphs, recorded: the kernel calls of the forward and of the backward are written down once
and repeated. Tensors that stay where they are (parameters) are read in place, the others
are copied into fixed ones; results are copied out, so nothing of a plan is seen outside.

Between a forward and its backward a plan is held; a second forward in between runs unrecorded.
"""
import torch

import gradus
from gradus import _gradus
from ._functions import torch_dtype
from ._layers import on_host

_in, _out = gradus.from_dlpack, _gradus._export_all
_copy_all, _places = _gradus._copy_all, _gradus._places
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
        plan.held = True

    def __del__(self):
        self.plan.held = False


class Plan:
    """The recorded form of a graph (`whole`), made at its second call."""

    def __init__(self, whole):
        self.whole, self.held, self.places, self.steps = whole, False, None, None
        self.moving, self.made, self.fixed = set(), 0, list(range(len(whole.needs)))
        self.waits = whole.place.type != "cpu"
        self.off = not self.possible()

    def possible(self):
        w = self.whole
        if not hasattr(_gradus, "_capture") or w.scalar or w.count > SMALL[w.place.type != "cpu"]:
            return False
        return not (w.training and w.written) and not any(on_host(s.function)
                                                          for s in w.program.steps)

    def ready(self, tensors):
        """Can this call be a repetition? The second call records."""
        if self.off or self.held:
            return False
        places = _places(tensors, self.fixed)
        if self.steps is None or places != self.places:
            known, self.places = self.places, places
            if known is None:
                return False
            pairs = zip(memoryview(known).cast("N"), memoryview(places).cast("N"))
            moved = {i for i, (a, b) in zip(self.fixed, pairs) if a != b}
            self.moving |= moved
            self.fixed = [i for i in self.fixed if i not in moved]
            self.places = _places(tensors, self.fixed)
            self.made += 1
            if self.made > _LATER + len(self.moving) or self.moving & set(self.whole.written):
                self.off = True
                return False
            return self.record(tensors)
        _copy_all(self.into, [tensors[i] for i in self.moved])
        self.repeat(0)
        return True

    def repeat(self, step):
        if self.waits:
            _gradus._follow(self.whole.device, torch.Tensor)  # for what was copied, or written in place
        self.steps[step].replay()

    def record(self, tensors):
        """Runs the graph once and writes down its kernel calls, and those of its backward."""
        w = self.whole
        self.moved, self.laid = sorted(self.moving), False
        self.into = [tensors[i].detach().clone(memory_format=torch.contiguous_format)
                     for i in self.moved]
        values = [t.detach() for t in tensors]
        for i, t in zip(self.moved, self.into):
            values[i] = t
        values = [_in(t) for t in values]
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
            self.seeds, found = [], []
            if w.training and not steps[0].why_not:
                roots = [y for y, r in zip(ys, self.real) if r]
                self.seeds = [(i, torch.ones(tuple(y.shape), dtype=torch_dtype(y.dtype),
                                             device=w.place)) for i, y in enumerate(ys) if self.real[i]]
                seeds = [_in(s) for _, s in self.seeds]

                def backward():
                    found[:] = gradus.grad(roots, leaves, seeds, retain_graph=True,
                                           allow_unused=True)
                    return [g for g in found if g is not None]

                steps.append(_gradus._capture(backward, w.device))
        finally:
            _modes(*before)
        self.results = [None if y is None or i in w.passed else y.detach()
                        for i, y in enumerate(ys)]
        grads = iter(found)
        self.grads = [next(grads) if n and found else None for n in w.needs]
        self.grads = [None if g is None else g.detach() for g in self.grads]
        self.kept = ys, values  # whose graph the recording of the backward reads
        self.steps, self.off = steps, any(s.why_not for s in steps)
        return not self.off or not w.training  # what ran once is not to run again

    def changed(self, tensors, versions):
        """What was read in place has to be as it was; the others were copied."""
        for i, (t, v) in enumerate(zip(tensors, versions)):
            if t._version != v and i not in self.moving:
                raise RuntimeError(
                    f"one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: input {i} of the graph is at version {t._version}, "
                    f"expected version {v}")

    def outputs(self):
        return list(_out(self.results, torch.Tensor, True))


class Planned(torch.autograd.Function):
    """One forward and backward by a plan that is ready."""

    @staticmethod
    def forward(ctx, plan, *tensors):
        ctx.held, ctx.tensors = _Held(plan), tensors
        ctx.versions = [t._version for t in tensors]
        ctx.set_materialize_grads(False)
        out = plan.outputs()
        if not all(plan.real):
            ctx.mark_non_differentiable(*[y for y, r in zip(out, plan.real) if not r])
        return tuple(out)

    @staticmethod
    def backward(ctx, *gradients):
        tensors = ctx.tensors
        if tensors is None:
            raise RuntimeError("Trying to backward through the graph a second time: pass "
                               "retain_graph=True to the first call")
        plan = ctx.held.plan
        if ctx.versions != [t._version for t in tensors]:
            plan.changed(tensors, ctx.versions)
        if torch.is_grad_enabled():
            return None, *plan.whole.derived(tensors, gradients)
        given = [(seed, gradients[i]) for i, seed in plan.seeds]
        for seed, g in given:
            if g is None:
                seed.zero_()
        given = [pair for pair in given if pair[1] is not None]
        _copy_all([seed for seed, _ in given], [g for _, g in given])
        plan.repeat(1)
        if not _keep_graph():
            ctx.tensors = None
        result = (None, *_out(plan.grads, torch.Tensor, True))
        if ctx.tensors is None:
            ctx.held = None
        return result
