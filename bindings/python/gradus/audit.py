"""Auditing: is the derivative of every node right, where does a NaN come from, what does a node do?

    report = gradus.audit.check(lambda: loss(x))      # each node against differences, worst first
    gradus.audit.birth(lambda: loss(x))               # where the first NaN comes from, or None
    gradus.audit.graph(lambda: loss(x))               # both passes, a page in a notebook

Functions take a function of no arguments, which runs under a watch, or tensors made inside
`with gradus.audit.watch() as w:`, whose methods do the same.
"""
import os

from . import _gradus
from ._gradus import Tensor
from .func import _flatten


def _roots(result):
    leaves = []
    _flatten(result, leaves)
    return leaves


def _named(parameters):
    """Names and tensors of a module, a dict, or a list of tensors or pairs."""
    if parameters is None:
        return []
    if hasattr(parameters, "named_parameters"):
        return [(n, p) for n, p in parameters.named_parameters()]
    if isinstance(parameters, dict):
        return list(parameters.items())
    return [p if isinstance(p, tuple) else (f"leaf{i}", p) for i, p in enumerate(parameters)]


class Line:
    """What was found of one node: op, where, operands, verdict, error, tolerance, condition, text."""

    def __init__(self, fields):
        self.__dict__.update(fields)

    def __repr__(self):
        place = f"{self.where}: " if self.where else ""
        if not self.bad:
            return f"{place}{self.op}({self.operands}) {self.verdict}, error {self.error:.1e} of {self.tolerance:.1e}"
        return f"{place}{self.op}({self.operands}) is wrong by {self.verdict}: {self.text}"


class Report(list):
    """Lines of nodes, worst first; `bad` is how many are wrong."""

    @property
    def bad(self):
        return sum(line.bad for line in self)

    def __repr__(self):
        wrong = [repr(line) for line in self if line.bad]
        end = "no wrong derivative" if not wrong else f"{len(wrong)} {'is' if len(wrong) == 1 else 'are'} wrong"
        return "\n".join(wrong + [f"{len(self)} node{'' if len(self) == 1 else 's'}: {end}"])


class Graph:
    """Both passes of a graph: text when printed, a page in a notebook; save() writes files."""

    def __init__(self, write):
        self._write = write

    def __repr__(self):
        return self._write("text")

    def _repr_html_(self):
        import html
        page = html.escape(self._write("html"), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:600px;border:0"></iframe>'

    def to(self, kind):
        """The graph as "text", "html", "svg", "dot" or "json"."""
        if kind not in ("text", "html", "svg", "dot", "json"):
            raise _gradus.ValueError(f'graph: "{kind}" is no form; there are text, html, svg, dot, json')
        return self._write(kind)

    def save(self, path):
        """Writes a file of the kind that its ending says: .html, .svg, .dot, .json or .txt."""
        kind = os.path.splitext(os.fspath(path))[1][1:]
        text = self.to("text" if kind == "txt" else kind)
        partial = f"{os.fspath(path)}.part{os.getpid()}"
        with open(partial, "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(partial, path)


class watch:
    """While its block runs, every op of this thread is kept with its values."""

    def __enter__(self):
        self._watch = _gradus._Watch(True)
        return self

    def __exit__(self, *_):
        self._watch.close()

    def calls(self):
        """(op, where, shapes) of each call so far."""
        return self._watch.calls()

    def check(self, *roots, against=None):
        return Report(Line(f) for f in self._watch.check(list(roots), against))

    def birth(self, *roots, infinities=False):
        return self._watch.birth(list(roots), infinities)

    def unreached(self, roots, parameters):
        return self._watch.unreached(_roots(roots), _named(parameters))

    def graph(self, *roots, names=None, title=""):
        texts = {k: self._watch.graph(list(roots), _named(names), k, title)
                 for k in ("text", "html", "svg", "dot", "json")}
        return Graph(texts.__getitem__)

    def explain(self, root, node, names=None, seeds=()):
        """Node "%7" in words: formula, derivative, and the chain rule at one element."""
        walk = _gradus._Stepper([root], _named(names), list(seeds))
        walk.run_to_end()
        return self._watch.explain(walk, walk.node(node))


def _watched(subject, ask):
    if not callable(subject) or isinstance(subject, Tensor):
        raise _gradus.ValueError("audit: a graph keeps only what its derivatives read; give the function that "
                                 "computes this, or work inside `with gradus.audit.watch() as w:`")
    with watch() as w:
        return ask(w, _roots(subject()))


def check(f, *, against=None):
    """Compares the derivative of every node below f() with differences, in float64: a Report.
    `against` names another device, such as "reference", to compare values and cotangents with."""
    report = _watched(f, lambda w, roots: w.check(*roots, against=against))
    if not report:
        raise _gradus.ValueError("audit.check: there is nothing to judge: no node was recorded, since no operand "
                                 "requires a gradient")
    return report


def birth(f, *, infinities=False):
    """Where the first NaN of f(), or of its gradients, comes from: a dict, or None."""
    return _watched(f, lambda w, roots: w.birth(*roots, infinities=infinities))


def unreached(f, parameters):
    """{name: why} of the parameters that f() gives no gradient."""
    return _watched(f, lambda w, roots: w.unreached(roots, parameters))


def explain(f, node, names=None):
    """A node of f()'s graph in words; nodes are called "%0", "%1", ... as graph() prints them."""
    return _watched(f, lambda w, roots: w.explain(roots[0], node, names))


def graph(subject, *, names=None, title=""):
    """The graph behind a tensor, or behind what a function gives (then with values and times)."""
    if isinstance(subject, (Tensor, list, tuple)):
        roots, named = _roots(subject), _named(names)
        return Graph(lambda kind: _gradus._graph(roots, named, kind, title))
    return _watched(subject, lambda w, roots: w.graph(*roots, names=names, title=title))


class stepper:
    """backward() node by node, forwards and back: a debugger for gradients.

        s = gradus.audit.stepper(loss, names=model)
        s.next(); s.upcoming(); s.cotangent("%3"); s.back(); s.run_to(op="matmul")
    """

    def __init__(self, root, names=None, seeds=()):
        self._walk = _gradus._Stepper(_roots(root), _named(names), list(seeds))

    def upcoming(self):
        """The node whose turn it is: its name, call, cotangents, and what it sends where; None at the end."""
        return self._walk.upcoming()

    def next(self):
        """One turn; False at the end."""
        return self._walk.next()

    def back(self):
        """One turn back; False at the begin."""
        return self._walk.back()

    def run_to(self, node=None, *, op=None, path=None, norm=None, nan=False):
        """Runs to a node "%3", an op's name, a place, a norm above a bound, or a NaN; False if none came."""
        kind, text = ("nan", "") if nan else ("norm", "") if norm is not None else \
            ("op", op) if op else ("path", path) if path else ("node", node)
        return self._walk.run_to(kind, text, norm or 0.0)

    def cotangent(self, name):
        """What has arrived at "%3", "%3.1" or a leaf's name so far; None if nothing has."""
        return self._walk.cotangent(name)

    def set(self, name, value):
        """The derivative of a node that is still to come will read this cotangent instead."""
        self._walk.set(name, value)

    @property
    def position(self):
        return self._walk.position

    @property
    def at_end(self):
        return self._walk.at_end

    @property
    def nodes(self):
        """All calls behind the root, in the order of recording."""
        return self._walk.nodes
