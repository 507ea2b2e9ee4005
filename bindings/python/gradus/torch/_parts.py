"""Way A: graphs of aten ops from AOT autograd."""
import operator

import torch

import gradus
from gradus import _gradus
from .. import fx
from . import _aten, _functions
from ._compare import differ, told
from ._plan import Plan

_run_on = _gradus._run_on


def partitioned(joint, inputs, **more):
    """The graphs of forward and backward. Views are made anew in backward: so what is kept for it
    is the tensor, once, and not each of its views beside it."""
    from functorch.compile import default_partition
    graph = joint.graph
    for node in reversed(list(graph.nodes)):
        if not getattr(node.target, "is_view", False) or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        for user in list(node.users):
            if user.meta.get("partitioner_tag") == "is_backward":
                with graph.inserting_before(user):
                    made = graph.node_copy(node)
                made.meta["partitioner_tag"] = "is_backward"
                user.replace_input_with(node, made)
    return default_partition(joint, inputs, **more)


class Parts:
    """A graph of aten ops (way A). At its first call each op runs in both; those that gradus lacks,
    or where it gives something else, stay with torch."""
    training, written = False, ()

    def __init__(self, gm, fakes, what):
        self.gm, self.what, self.program, self.plan = gm, what, None, None
        self._boxed_call = True  # for AOT autograd: called with a list
        self.output = next(n for n in gm.graph.nodes if n.op == "output")
        self.strides = [self.stride(a) for a in self.output.args[0]]

    @staticmethod
    def stride(node):
        value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if not isinstance(value, torch.Tensor):
            return None
        stride = value.stride()
        return stride if all(isinstance(s, int) for s in stride) else None

    def __call__(self, args):
        if self.program is None:
            return self.first(args)
        if self.names:
            args.extend(fx.attribute(self.gm, n) for n in self.names)
        plan = self.plan
        ys = plan(args) if plan is not None else None
        if ys is None:
            plan, passed = None, [(i, args[k]) for i, k in self.passed.items()]
            if self.pure:
                args = [_aten.taken(t) for t in args]
            ys = list(_run_on(self.device, False, self.program, args))
            if self.pure:
                ys = [_aten.given(y) for y in ys]
            for i, t in passed:
                ys[i] = t
        elif plan.laid:
            return ys
        out = [self.laid(y, s) if s is not None and y.stride() != s else y
               for y, s in zip(ys, self.strides)]
        if plan:  # whose results lie each time as they do now
            plan.laid = all(a is b for a, b in zip(ys, out))
        return out

    @staticmethod
    def laid(y, stride):
        if all(n == 1 or a == b for n, a, b in zip(y.shape, y.stride(), stride)):
            return y
        if any(n > 1 and b == 0 for n, b in zip(y.shape, stride)):  # expanded
            once = y[tuple(slice(1) if b == 0 else slice(None) for b in stride)]
            return Parts.laid(once, stride).expand(y.shape)
        return torch.empty_strided(y.shape, stride, dtype=y.dtype, device=y.device).copy_(y)

    def first(self, args):
        env, by_torch = {}, {}
        self.place, self.device = self.placed(args)
        self.scalar = [a for a in args if not isinstance(a, torch.Tensor)]
        self.count = sum(a.numel() for a in args if isinstance(a, torch.Tensor))
        given = iter(list(args))
        args.clear()
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(given)
            elif node.op == "get_attr":
                env[node] = fx.attribute(self.gm, node.target)
            elif node.op == "output":
                result = torch.fx.node.map_arg(node.args[0], lambda n: env[n])
            else:
                a, k = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: env[n])
                env[node] = self.tried(node, a, k, by_torch)
        self.build(by_torch)
        return list(result)

    @staticmethod
    def placed(args):
        """Where tensors are made: on the GPU that an input is on, else on the CPU."""
        for a in args:
            if isinstance(a, torch.Tensor) and a.device.type != "cpu":
                try:
                    return a.device, _aten.taken(a.detach()).device
                except (gradus.Error, BufferError, RuntimeError):
                    pass  # then gradus has none of its ops either
        return torch.device("cpu"), "cpu"

    def tried(self, node, args, kwargs, by_torch):
        found = _aten.find(node.target)
        if found is None or node.target is operator.getitem:
            return node.target(*args, **kwargs)
        try:
            function, a, k = _functions.bound(found, *fx._mapped((args, kwargs), _aten.taken))
            ours = _run_on(self.device, False, lambda _: function(*a, **k), ())
            ours = fx._mapped(ours, _aten.given)
            ours = fx._mapped(ours, lambda t: t.clone() if isinstance(t, torch.Tensor) else t)
            why = None
        except Exception as e:
            ours, why = None, str(e) or type(e).__name__
        theirs = node.target(*args, **kwargs)
        if why is None:
            pairs = zip(ours, theirs) if isinstance(theirs, (tuple, list)) else [(ours, theirs)]
            why = next((w for w in (differ(x, y) for x, y in pairs) if w), None)
        if why:
            by_torch[node] = why
        return theirs

    def build(self, refused):
        def lookup(node, args, kwargs):
            found = None if node in refused else _aten.find(node.target)
            if found is None:
                if node.op != "call_function":
                    raise fx.Unknown(f"a {node.op}")
                plain = not isinstance(node.target, torch._ops.OpOverload)
                if not plain:
                    name = str(node.target)
                    listed[name] = listed.get(name) or refused.get(node, "")
                return node.target, args, kwargs, "n" if plain else "t"
            where = "n" if found in _aten.NUMBERS else "g"
            return (*_functions.bound(found, args, kwargs), where)

        listed = {}
        self.program = fx.flatten(self.gm, lookup, "t", {("t", "g"): _aten.taken,
                                                         ("g", "t"): _aten.given})
        self.pure = not listed
        if self.pure:
            self.program = fx.flatten(self.gm, lookup, "g")
        self.passed = {i: r.index for i, r in enumerate(self.program.result)
                       if isinstance(r, fx.Slot) and r.index < len(self.program.inputs)}
        self.names = self.program.attributes
        self.needs = [False] * (len(self.program.inputs) + len(self.names))
        # a backward's inputs stay where they are from the forward's recording on
        plan = Plan(self, later=int(self.what == "backward"))
        self.plan = plan if self.pure and not plan.off else None
        told("A", self.what, len(self.program.steps),
              [f"{n} ({w})" if w else n for n, w in sorted(listed.items())])
