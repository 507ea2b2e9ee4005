"""torch.compile(..., backend="gradus"), in one of two ways.

B: the whole graph is one program of gradus inside one autograd.Function; gradus differentiates.
A: AOT autograd's graphs of aten ops; what gradus lacks runs in PyTorch on the same memory.
B is taken where every call has a rule and the program gave PyTorch's results and gradients when it
was compiled, else A. Logger "gradus.torch" says which way and why; `history` keeps it.
"""
import copy
import inspect
import operator

import torch
from torch._dynamo.backends import registry
from torch._subclasses.fake_tensor import unset_fake_temporarily

import gradus
from gradus import _gradus
from .. import fx
from . import _functions
from ._compare import differ, history, told
from ._native import native
from ._parts import Parts, partitioned
from ._plan import Plan, Planned

_run_on = _gradus._run_on
_in = gradus.from_dlpack


def _out(t):
    return gradus._gradus._export(t, torch.Tensor)


_keep_graph = torch._C._autograd._get_current_graph_task_keep_graph
_saved_hooks = torch._C._autograd._top_saved_tensors_default_hooks


class Refused(Exception):
    """Way B is not for this graph."""


# ---- what is written to

_VIEWS = set("""view reshape flatten permute transpose t squeeze unsqueeze expand expand_as select
    narrow getitem unbind split chunk detach contiguous to float double half bfloat16 type type_as
    movedim moveaxis swapaxes swapdims view_as reshape_as unflatten real diagonal unfold dropout
    getattr ravel tensor_split slice as_strided T mT""".split())
_WRITES = {operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv,
           operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor,
           operator.ilshift, operator.irshift, operator.setitem}


def _writes(node):
    """The arguments that a call writes to."""
    if node.op not in ("call_function", "call_method"):
        return ()
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    if name == "batch_norm" and (node.args[5:6] or [node.kwargs.get("training", False)])[0]:
        return [a for a in node.args[1:3] if isinstance(a, torch.fx.Node)]
    if node.kwargs.get("out") is not None:
        raise Refused(f"{fx.describe(node)} writes to out=")
    module = getattr(node.target, "__module__", "")
    inplace = node.kwargs.get("inplace")
    if module == "torch.nn.functional" and inspect.isfunction(node.target):
        try:
            given = inspect.signature(node.target).bind(*node.args, **node.kwargs)
            inplace = given.arguments.get("inplace")
        except TypeError:
            pass
    named = name.endswith("_") and not name.endswith("__") and name != "requires_grad_"
    if node.target in _WRITES or inplace is True or named and module != "_operator":
        return [node.args[0]]
    return ()


def _examined(gm, needs):
    """The inputs and attributes that are written to, by name or target."""
    roots, written, training = {}, [], any(needs.values())
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            roots[node] = node
            continue
        if node.op == "output":
            for a in node.all_input_nodes:
                if roots.get(a) is not None and isinstance(a.meta.get("example_value", a),
                                                           torch.Tensor):
                    raise Refused(f"the output {a.name} is a view of {roots[a].name}")
            continue
        changed = _writes(node)
        for a in changed:
            root = roots.get(a)
            if root is None:
                continue
            others = [n for n in node.all_input_nodes if n is not a]
            if training and (needs.get(root) or others and "batch_norm" not in str(node.target)):
                raise Refused(f"{fx.describe(node)} writes to {root.name}\n  at {fx.line_of(node)}")
            if root not in written:
                written.append(root)
        name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
        first = node.args[0] if node.args and isinstance(node.args[0], torch.fx.Node) else None
        roots[node] = roots.get(first) if (name in _VIEWS or changed and first in changed) else None
    return written


# ---- way B

def placed(values):
    """Where the tensors are, all of them: torch's device, and the name that it has here."""
    place = None
    for t in values:
        if not isinstance(t, torch.Tensor):
            continue
        if t.layout != torch.strided or type(t) not in (torch.Tensor, torch.nn.Parameter):
            raise Refused(f"an input is a {type(t).__name__}, {t.layout}")
        if place is None:
            place, first = t.device, t
        elif t.device != place:
            raise Refused(f"inputs are on {place} and {t.device}")
    if place is None or place.type == "cpu":
        return torch.device("cpu"), "cpu"
    try:
        return place, _in(first.detach()).device
    except (gradus.Error, BufferError, RuntimeError) as e:
        raise Refused(f"inputs are on {place}: {e}") from e


class _Stage(torch.autograd.Function):
    """compute(tensors) -> (leaves of gradus, one or None for each tensor; results; what is saved;
    is the graph another stage's too?). Its backward is gradus's; where that is to be
    differentiated itself, it is a stage again."""

    @staticmethod
    def forward(ctx, compute, *tensors):
        leaves, ys, saved, ctx.shared = compute(tensors)
        ctx.leaves, ctx.ys = leaves, ys
        ctx.set_materialize_grads(False)
        out, fixed = [], []
        for y in ys:
            if type(y) is not gradus.Tensor:
                out.append(y)
                continue
            t = _out(y.detach())
            out.append(t)
            if not y.requires_grad:
                fixed.append(t)
        if fixed:
            ctx.mark_non_differentiable(*fixed)
        ctx.count = len(saved)
        ctx.save_for_backward(*saved, *[t for t in out if isinstance(t, torch.Tensor)])
        return tuple(out)

    @staticmethod
    def backward(ctx, *gradients):
        tensors = ctx.saved_tensors[:ctx.count]  # complains where one was changed since
        ys, leaves = ctx.ys, ctx.leaves
        keep = ctx.shared or _keep_graph()
        if torch.is_grad_enabled():
            ctx.shared = True
            return None, *_derived(ys, leaves, tensors, gradients)
        roots, seeds = [], []
        for y, g in zip(ys, gradients):
            if g is not None:
                roots.append(y)
                seeds.append(_in(g))
        wanted = [x for x in leaves if x is not None]
        if not roots or not wanted:
            return (None,) * (len(leaves) + 1)
        found = gradus.grad(roots, wanted, seeds, keep, False, True)
        if not keep:
            ctx.ys = ctx.leaves = None
        result, at, places = [None], 0, {s.data_ptr() for s in seeds}
        for x in leaves:
            g = None
            if x is not None:
                g = found[at]
                at += 1
                if g is not None:
                    place = g.data_ptr()
                    if place in places:  # torch adds into gradients: each has its own memory
                        g = g.clone()
                        place = g.data_ptr()
                    places.add(place)
                    g = _out(g)
            result.append(g)
        return tuple(result)


def _derived(ys, leaves, tensors, gradients):
    def compute(given):
        seeds = [None if g is None else _in(g.detach()).requires_grad_() for g in gradients]
        pairs = [(y, s) for y, s in zip(ys, seeds) if s is not None]
        wanted = [x for x in leaves if x is not None]
        found = iter(gradus.grad([y for y, _ in pairs], wanted, [s for _, s in pairs],
                                 retain_graph=True, create_graph=True, allow_unused=True))
        return ([*leaves, *seeds], [None if x is None else next(found) for x in leaves], given,
                True)
    return _Stage.apply(compute, *tensors, *gradients)


class Whole:
    """A graph as one program of gradus (way B)."""
    passed = {}

    def __init__(self, gm, examples):
        self.gm = gm
        try:
            self.program = fx.flatten(gm, _functions.lookup, "g")
        except fx.Unknown as e:
            raise Refused(str(e)) from None
        values = self.values(gm, examples)
        holes = [n for n in gm.graph.nodes if n.op == "placeholder"]
        seen = {n.target: n for n in gm.graph.nodes if n.op == "get_attr"}
        nodes = holes + [seen[t] for t in self.program.attributes]
        self.place, self.device = placed(values)
        grad = torch.is_grad_enabled()
        self.needs = [grad and isinstance(t, torch.Tensor) and t.requires_grad for t in values]
        self.training = any(self.needs)
        written = _examined(gm, dict(zip(nodes, self.needs)))
        self.written = [i for i, n in enumerate(nodes) if n in written]
        self.tensor = [isinstance(t, torch.Tensor) for t in values]
        self.scalar = [i for i, t in enumerate(self.tensor) if not t]
        self.count = sum(t.numel() for t in values if isinstance(t, torch.Tensor))
        self.native = None if self.written or self.scalar else native(self.program, self.device)
        self.plan = None
        self.verify(examples)
        self.plan = Plan(self)
        if self.plan.off:
            self.plan = None

    def values(self, gm, inputs):
        return [*inputs, *(fx.attribute(gm, a) for a in self.program.attributes)]

    def compute(self, tensors):
        if self.native:
            ys, leaves = self.native.recorded(tensors, self.needs)
            return [x if n else None for x, n in zip(leaves, self.needs)], ys, tensors, False
        values = self.taken(tensors)
        leaves = [v.requires_grad_() if n else None for v, n in zip(values, self.needs)]
        ys = _run_on(self.device, True, self.program, values)
        if self.written or self.scalar:
            saved = list(tensors)
            for i in self.scalar:
                saved[i] = None
            for i in self.written:
                saved[i] = None
            self.bump(tensors)
            return leaves, ys, saved, False
        return leaves, ys, tensors, False

    def taken(self, values):
        if not self.scalar:
            return _gradus._import_all(values)
        return [_in(t) if is_tensor else t for t, is_tensor in zip(values, self.tensor)]

    def bump(self, tensors):
        if self.written and not torch.is_inference_mode_enabled():
            torch.autograd.graph.increment_version([tensors[i] for i in self.written])

    def derived(self, tensors, gradients):
        """The differentiable derivative, for a call that kept no graph: the graph is run again."""
        leaves, ys, *_ = self.compute(tensors)
        return _derived(ys, leaves, tensors, gradients)

    def call(self, values):
        plan = self.plan
        if plan is not None and self.training and _saved_hooks(False) is not None:
            plan = None  # somebody counts what is saved (torch.utils.checkpoint)
        ys = plan(values) if plan is not None else None
        if ys is not None:
            if self.training:
                return Planned.apply(plan, ys, *values)
            self.bump(values)
            return tuple(ys)
        if self.training:
            return _Stage.apply(self.compute, *values)
        ys = _run_on(self.device, False, self.native or self.program,
                     values if self.native else self.taken(values))
        self.bump(values)
        return tuple([_out(y) if type(y) is gradus.Tensor else y for y in ys])

    def __call__(self, *inputs):
        return self.call(self.values(self.gm, inputs) if self.program.attributes else inputs)

    def verify(self, examples):
        """Runs the graph in torch and in gradus, on copies: results, what is written to and
        gradients are to be the same."""
        theirs = self._ran(True, examples)
        try:
            ours = self._ran(False, examples)
        except Exception as e:
            raise Refused(f"gradus failed: {e}") from e
        for what, a, b in zip(("result", "written value", "gradient"), ours, theirs):
            if len(a) != len(b):
                raise Refused(f"there are {len(a)} {what}s, torch has {len(b)}")
            for i, (x, y) in enumerate(zip(a, b)):
                here, there = (getattr(v, "requires_grad", False) for v in (x, y))
                if here != there:
                    raise Refused(f"{what} {i} requires a gradient {'here' if here else 'in torch'} alone")
                wrong = differ(x, y)
                if wrong:
                    raise Refused(f"{what} {i} is not torch's: {wrong}")

    def _ran(self, by_torch, examples):
        gm = copy.deepcopy(self.gm) if by_torch and self.program.attributes else self.gm
        values = self.values(gm, examples)
        values = [t.detach().clone().requires_grad_(t.requires_grad)
                  if isinstance(t, torch.Tensor) and not (by_torch and i >= len(examples))
                  else t for i, t in enumerate(values)]
        generators = [self.place] if self.place.type == "cuda" else []  # beside the CPU's
        as_it_is = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)  # not checkpoint's
        with torch.random.fork_rng(generators), torch.set_grad_enabled(self.training), as_it_is:
            ys = gm(*values[:len(examples)]) if by_torch else self.call(values)
            ys = ys if isinstance(ys, (tuple, list)) else (ys,)
            after = [values[i].detach().clone() for i in self.written]
            roots = [y for y in ys if isinstance(y, torch.Tensor) and y.requires_grad]
            grads = ()
            if roots:
                wanted = [t for t, n in zip(values, self.needs) if n]
                seeds = [torch.linspace(0.5, 1.5, y.numel(), dtype=torch.float64, device=y.device)
                         .reshape(y.shape).to(y.dtype) for y in roots]
                grads = torch.autograd.grad(roots, wanted, seeds, allow_unused=True)
        return ys, after, grads


def _parts(what):
    return lambda gm, fakes: Parts(gm, fakes, what)


def backend(gm, example_inputs, *, options=None, **_):
    """The backend. options={"way": "A"} or {"way": "B"} asks for one way."""
    way = (options or {}).get("way")
    if way != "A":
        try:
            with unset_fake_temporarily():
                made = Whole(gm, [e.node.hint if isinstance(e, torch.SymInt) else e
                                  for e in example_inputs])
            told("B", "every call has a rule; results and gradients are torch's",
                  len(made.program.steps))
            return made
        except Refused as e:
            if way == "B":
                raise
            why = str(e)
    else:
        why = "asked for"
    from torch._dynamo.backends.common import aot_autograd
    return aot_autograd(fw_compiler=_parts(f"forward; {why}"), bw_compiler=_parts("backward"),
                        inference_compiler=_parts(f"inference; {why}"),
                        partition_fn=partitioned)(gm, example_inputs)


class _Here:
    """What the package's entry point is to torch, for a gradus that was not installed."""

    @staticmethod
    def load():
        return backend


registry._BACKENDS.setdefault("gradus", _Here)
