"""FX graphs of PyTorch run by gradus.

    graph = gradus.fx.trace(model)          # or any torch.fx.GraphModule
    y = gradus.fx.run(graph, x)

A graph is turned once into a flat list of steps, one call each, over numbered slots; a slot is
emptied after its last use. Errors name the node, its target and the line it came from.
"""
import operator
import os
import re
import weakref

import torch
import torch.fx

import gradus

_TORCH = os.path.dirname(torch.__file__)
_FRAME = re.compile(r'File "([^"]*)", line (\d+), in (\S+)\n\s*(\S.*)?')


class Unknown(Exception):
    """A node that has no rule."""


class Slot:
    """The value of an earlier step."""
    __slots__ = ("index", "domain", "real")

    def __init__(self, index, domain, node=None):
        value = node.meta.get("example_value") if node is not None else None
        self.index, self.real = index, isinstance(value, torch.Tensor) and value.is_floating_point()
        self.domain = domain  # "g": gradus tensors, "t": torch's, "n": neither

    def __repr__(self):
        return f"v{self.index}"


class Step:
    """function(*args, **kwargs) -> slot `out`; slots in `free` are not used again."""
    __slots__ = ("function", "args", "kwargs", "out", "free", "node")

    def __init__(self, function, args, kwargs, out, node):
        self.function, self.args, self.kwargs = function, args, kwargs
        self.out, self.node, self.free = out, node, ()

    def slots(self):
        return _slots((self.args, self.kwargs))


def _slots(tree):
    if isinstance(tree, Slot):
        return [tree.index]
    if isinstance(tree, (list, tuple)):
        return [i for a in tree for i in _slots(a)]
    if isinstance(tree, dict):
        return [i for a in tree.values() for i in _slots(a)]
    if isinstance(tree, slice):
        return _slots((tree.start, tree.stop, tree.step))
    return []


def _mapped(tree, f):
    """The tree with f of its leaves."""
    if isinstance(tree, (list, tuple)):
        items = [_mapped(a, f) for a in tree]
        return tuple(items) if isinstance(tree, tuple) else items
    if isinstance(tree, dict):
        return {k: _mapped(a, f) for k, a in tree.items()}
    if isinstance(tree, slice):
        return slice(_mapped(tree.start, f), _mapped(tree.stop, f), _mapped(tree.step, f))
    return f(tree)


def line_of(node):
    """The source line of a node: the innermost that is not inside torch."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    if not frames:
        where = node.meta.get("nn_module_stack")
        inside = f"inside {list(where.values())[-1][0]!r}; " if where else ""
        return inside + "no source line was recorded"
    own = [f for f in frames if not f[0].startswith(_TORCH)] or frames
    file, line, function, text = own[-1]
    return f'File "{file}", line {line}, in {function}' + (f": {text}" if text else "")


def target_of(node):
    """A node's target in words."""
    target = node.target
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    module = getattr(target, "__module__", None) or ""
    name = getattr(target, "__name__", None) or str(target)
    return f"{module}.{name}" if module else name


def describe(node):
    return f'node "{node.name}" ({node.op} {target_of(node)})'


def node_error(error, node):
    """The same kind of error, with the node's name and line."""
    text = f"{describe(node)}: {error}\n  at {line_of(node)}"
    kind = type(error)
    if not isinstance(error, (gradus.Error, ValueError, TypeError, RuntimeError, IndexError)):
        kind = RuntimeError
    try:
        made = kind(text)
    except Exception:
        made = RuntimeError(text)
    made.node, made.line = node, line_of(node)
    return made


class Program:
    """A graph as a flat list: `steps` over `size` slots. The first slots are the inputs, then the
    attributes of the graph; `result` is the tree of slots that is given back."""

    def __init__(self, inputs, attributes, steps, result, size):
        self.inputs, self.attributes = inputs, attributes
        self.steps, self.result, self.size = steps, result, size
        self._frees()
        self._call = self._compiled()

    def _frees(self):
        seen = set(_slots(self.result))
        for step in reversed(self.steps):
            last = set(step.slots()) | {step.out}
            step.free = tuple(sorted(i for i in last - seen if i >= 0))
            seen |= last

    def _compiled(self):
        """The steps as one Python function, a line each: the fastest loop there is here."""
        names, constants = {}, []

        def constant(x):
            key = id(x)
            if key not in names:
                names[key] = f"c{len(constants)}"
                constants.append(x)
            return names[key]

        def text(a):
            if isinstance(a, Slot):
                return f"v{a.index}"
            if isinstance(a, tuple):
                return "(" + "".join(text(x) + ", " for x in a) + ")"
            if isinstance(a, list):
                return "[" + ", ".join(map(text, a)) + "]"
            if isinstance(a, slice):
                return f"slice({text(a.start)}, {text(a.stop)}, {text(a.step)})"
            if isinstance(a, dict):
                return "{" + ", ".join(f"{k!r}: {text(v)}" for k, v in a.items()) + "}"
            if a is None or a is True or a is False or a is Ellipsis:
                return repr(a)
            if type(a) in (int, str) or type(a) is float and abs(a) < float("inf"):
                return repr(a)
            return constant(a)

        body = []
        for s in self.steps:
            if s.function is operator.getitem:
                call = f"{text(s.args[0])}[{text(s.args[1])}]"
            else:
                args = [text(a) for a in s.args]
                args += [f"{k}={text(v)}" for k, v in s.kwargs.items()]
                call = f"{constant(s.function)}({', '.join(args)})"
            free = "; " + "; ".join(f"v{i} = None" for i in s.free) if s.free else ""
            body.append(f"  v{s.out} = {call}{free}")
        slots = "".join(f"v{i}, " for i in range(len(self.inputs) + len(self.attributes)))
        body.append(f"  return {text(self.result)}")
        taken = f"{slots}= values; " if slots else ""
        source = f"def program(values):\n  {taken}values.clear()\n" + "\n".join(body) + "\n"
        space = {f"c{i}": c for i, c in enumerate(constants)}
        exec(compile(source, "<gradus program>", "exec"), space)
        return space["program"]

    def __call__(self, values):
        """A list of the inputs, then the attributes, in the domain that the program was made for.
        The list is emptied, so that memory is free after its last use."""
        try:
            return self._call(values)
        except Exception as e:
            node = self._failed(e)
            if node is None or getattr(e, "node", None):
                raise
            raise node_error(e, node) from e

    def _failed(self, error):
        at = error.__traceback__
        code = self._call.__code__
        while at:
            if at.tb_frame.f_code is code:
                place = at.tb_lineno - 3
                return self.steps[place].node if 0 <= place < len(self.steps) else None
            at = at.tb_next
        return None


def attribute(module, target):
    for part in target.split("."):
        module = getattr(module, part)
    return module


def flatten(graph_module, lookup, domain, convert=None):
    """The program of a graph. `lookup(node, args, kwargs)` gives (function, args, kwargs, domain
    of the result); `convert` = {(from, to): function} for graphs of two domains."""
    gm = graph_module
    inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
    names = {}
    for n in gm.graph.nodes:
        if n.op == "get_attr" and n.target not in names:
            names[n.target] = len(names)
    env, steps, size = {}, [], len(inputs) + len(names)
    for i, n in enumerate(inputs):
        env[n] = Slot(i, domain, n)
    attributes = {t: Slot(len(inputs) + i, domain) for t, i in names.items()}
    also = {}  # slot, domain -> its copy there

    def emit(function, args, kwargs, where, node):
        nonlocal size
        steps.append(Step(function, args, kwargs, size, node))
        size += 1
        return Slot(size - 1, where, node)

    def into(value, where, node):
        if not isinstance(value, Slot) or value.domain in (where, "n") or not convert:
            return value
        key = value.index, where
        if key not in also:
            also[key] = emit(convert[value.domain, where], (value,), {}, where, node)
        return also[key]

    def value(a):
        return env[a] if isinstance(a, torch.fx.Node) else a

    result = None
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "get_attr":
            env[node] = attributes[node.target]
            continue
        if node.op == "output":
            result = _mapped(node.args[0], value)
            if convert:
                result = _mapped(result, lambda a: into(a, domain, node))
            continue
        args, kwargs = _mapped(node.args, value), _mapped(node.kwargs, value)
        if node.target is operator.getitem and isinstance(args[0], Slot) and convert:
            env[node] = emit(operator.getitem, args, {}, args[0].domain, node)
            continue
        try:
            function, args, kwargs, where = lookup(node, args, kwargs)
        except (Unknown, TypeError) as e:
            raise Unknown(f"{describe(node)} is unknown to gradus: {e}\n  at {line_of(node)}")
        if convert and where != "n":
            args, kwargs = _mapped((args, kwargs), lambda a: into(a, where, node))
        env[node] = emit(function, args, kwargs, where, node)
    return Program(inputs, list(names), steps, result, size)


def trace(module):
    """torch.fx.symbolic_trace, with the source line of every node."""
    tracer = torch.fx.Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(module)
    return torch.fx.GraphModule(tracer.root, graph)


def _inlined(gm):
    """The graph without call_module: each leaf opened by the rule of its type, or by the graph of
    its own forward."""
    from .torch._layers import MODULES
    if all(n.op != "call_module" for n in gm.graph.nodes):
        return gm
    graph = torch.fx.Graph()

    def copy(source, root, prefix, known, meta):
        for node in source.nodes:
            if node in known:
                continue
            given = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: known[n])
            if node.op == "output":
                return given[0][0]
            if node.op == "call_module":
                known[node] = opened(node, root.get_submodule(node.target),
                                     f"{prefix}{node.target}.", given, meta or node.meta)
                continue
            known[node] = made = graph.node_copy(node, lambda n: known[n])
            made.meta = dict(meta or node.meta)
            if node.op == "get_attr":
                made.target = prefix + node.target
        return None

    def opened(node, module, prefix, given, meta):
        rule = MODULES.get(type(module))
        if rule:
            made = rule(graph, module, lambda name: graph.get_attr(prefix + name), *given)
            made.meta = dict(meta)
            return made
        tracer = torch.fx.Tracer()
        try:
            body = tracer.trace(module)
        except Exception as e:
            raise Unknown(f"{describe(node)}: no rule for a {type(module).__name__}, and it can't "
                          f"be traced: {e}\n  at {line_of(node)}") from e
        inside = {}
        for i, hole in enumerate(n for n in body.nodes if n.op == "placeholder"):
            default = hole.args[0] if hole.args else None
            inside[hole] = given[0][i] if i < len(given[0]) else given[1].get(hole.target, default)
        return copy(body, module, prefix, inside, meta)

    graph.output(copy(gm.graph, gm, "", {}, None))
    return torch.fx.GraphModule(gm, graph)


class Compiled:
    """A graph module as a program of gradus. Its parameters are leaves that share the memory of
    torch's: `parameters` has them by name, and gradients gather in their .grad."""

    def __init__(self, graph_module):
        from .torch import _functions, _layers  # noqa: F401 - which adds its rules
        self.module = _inlined(graph_module)
        try:
            self.program = flatten(self.module, _functions.lookup, "g")
        except Unknown as e:
            raise gradus.Error(str(e)) from None
        self.parameters = {}
        self._places = {}

    def _attribute(self, name):
        value = attribute(self.module, name)
        if not isinstance(value, torch.Tensor):
            return value
        if self._places.get(name) != value.data_ptr():  # new, or its memory was replaced
            self._places[name] = value.data_ptr()
            leaf = gradus.from_dlpack(value.detach())
            self.parameters[name] = leaf.requires_grad_() if value.requires_grad else leaf
        return self.parameters[name]

    def __call__(self, *inputs):
        if len(inputs) != len(self.program.inputs):
            names = ", ".join(n.name for n in self.program.inputs)
            raise TypeError(f"gradus.fx: the graph takes {len(self.program.inputs)} inputs "
                            f"({names}), got {len(inputs)}")
        from .torch import from_torch
        values = [from_torch(x) if isinstance(x, torch.Tensor) else x for x in inputs]
        return self.program([*values, *map(self._attribute, self.program.attributes)])


_known = weakref.WeakKeyDictionary()


def compiled(graph_module):
    """The Compiled of a graph module, made at the first call."""
    known = _known.get(graph_module)
    if known is None or known[0] != graph_module.code:
        _known[graph_module] = known = graph_module.code, Compiled(graph_module)
    return known[1]


def run(graph_module, *inputs):
    """Runs the graph on tensors of gradus (or torch's, whose memory is shared)."""
    return compiled(graph_module)(*inputs)
