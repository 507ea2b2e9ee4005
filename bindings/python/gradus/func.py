"""Functional transforms, with PyTorch's names: they take a function and give one, and nest.

Arguments and results may be tensors, or dicts, lists and tuples of them.
"""
from . import _gradus
from ._gradus import Tensor


def _flatten(tree, leaves):
    """Appends the tensors of a tree; gives what builds a tree of that form from an iterator."""
    if isinstance(tree, Tensor):
        leaves.append(tree)
        return next
    if isinstance(tree, dict):
        parts = [(k, _flatten(tree[k], leaves)) for k in tree]
        return lambda it: {k: build(it) for k, build in parts}
    if isinstance(tree, (list, tuple)):
        parts = [_flatten(t, leaves) for t in tree]
        named = type(tree) if hasattr(tree, "_fields") else None
        if named:
            return lambda it: named(*(build(it) for build in parts))
        return lambda it: type(tree)(build(it) for build in parts)
    return lambda it: tree


def _split(args, argnums):
    """The tensors to differentiate by, what puts others in their place, and the form of the result."""
    one = isinstance(argnums, int)
    numbers = [argnums] if one else list(argnums)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise _gradus.ValueError(f"argnums: {n} of {len(args)} arguments")
    leaves, builds = [], {}
    for n in numbers:
        builds[n % len(args)] = _flatten(args[n], leaves)
    if not leaves:
        raise _gradus.ValueError(f"argnums: {argnums} holds no tensor to differentiate by")

    def refill(tensors):
        it = iter(tensors)
        full = list(args)
        for n, build in builds.items():
            full[n] = build(it)
        return full

    def shaped(tensors):
        it = iter(tensors)
        out = tuple(build(it) for build in builds.values())
        return out[0] if one else out

    return leaves, refill, shaped


def _flat_function(f, refill, said):
    def inside(*tensors):
        out = f(*refill(tensors))
        if said.get("aux"):
            out, said["value"] = out
        leaves = []
        said["build"] = _flatten(out, leaves)
        return leaves
    return inside


def value_and_grad(f, argnums=0, has_aux=False):
    """A function that gives f's value, a real number, and its gradient by the arguments named."""
    def inside(*args, **kwargs):
        g = (lambda *a: f(*a, **kwargs)) if kwargs else f
        leaves, refill, shaped = _split(args, argnums)
        said = {"aux": has_aux}
        value, grads = _gradus._value_and_grad(_flat_function(g, refill, said), leaves,
                                               list(range(len(leaves))), None)
        return ((value, said["value"]) if has_aux else value), shaped(grads)
    return inside


def grad(f, argnums=0, has_aux=False):
    """A function that gives the gradient of f, which gives one real number."""
    both = value_and_grad(f, argnums, has_aux)

    def inside(*args, **kwargs):
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads
    return inside


def vjp(f, *args, has_aux=False):
    """f(*args), and a function from cotangents of the results to those of the arguments."""
    leaves, refill, shaped = _split(args, tuple(range(len(args))))
    said = {"aux": has_aux}
    outputs, pullback = _gradus._vjp(_flat_function(f, refill, said), leaves)
    build = said["build"]

    def back(*cotangents):
        seeds = []
        _flatten(cotangents, seeds)
        return shaped(pullback(seeds))

    out = build(iter(outputs))
    return (out, back, said["value"]) if has_aux else (out, back)


def jvp(f, primals, tangents):
    """f(*primals), and its derivative along the tangents, by forward mode."""
    leaves, refill, _ = _split(tuple(primals), tuple(range(len(primals))))
    directions = []
    _flatten(tuple(tangents), directions)
    said = {}
    outputs, out = _gradus._jvp(_flat_function(f, refill, said), leaves, directions)
    return said["build"](iter(outputs)), said["build"](iter(out))


def _jacobian(f, argnums, mode, vectorize=True):
    def inside(*args):
        leaves, refill, shaped = _split(args, argnums)
        said = {}
        rows = _gradus._jacobian(_flat_function(f, refill, said), leaves, mode, vectorize, False)
        return said["build"](iter([_Row(shaped(row)) for row in rows])) if len(rows) != 1 or \
            said["build"] is not next else shaped(rows[0])
    return inside


class _Row:
    def __init__(self, value):
        self.value = value


def _unrow(tree):
    if isinstance(tree, _Row):
        return tree.value
    if isinstance(tree, dict):
        return {k: _unrow(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)) and not hasattr(tree, "_fields"):
        return type(tree)(_unrow(v) for v in tree)
    return tree


def jacrev(f, argnums=0):
    """The Jacobian by reverse mode: shape (result's..., argument's...)."""
    inside = _jacobian(f, argnums, "reverse")
    return lambda *args: _unrow(inside(*args))


def jacfwd(f, argnums=0):
    """The Jacobian by forward mode."""
    inside = _jacobian(f, argnums, "forward")
    return lambda *args: _unrow(inside(*args))


def jacobian(f, argnums=0):
    """The Jacobian by whichever mode needs fewer passes."""
    inside = _jacobian(f, argnums, "automatic")
    return lambda *args: _unrow(inside(*args))


def hessian(f, argnums=0):
    """The second derivatives of f, which gives one real number."""
    def inside(*args):
        leaves, refill, _ = _split(args, argnums)
        blocks = _gradus._hessian(_flat_function(f, refill, {}), leaves)
        if isinstance(argnums, int) and len(leaves) == 1:
            return blocks[0][0]
        return tuple(tuple(row) for row in blocks)
    return inside


def hvp(f, primals, tangents):
    """f's value and its Hessian times the tangents, forward over reverse."""
    value, product = _gradus._hvp(f, list(primals), list(tangents))
    return value, tuple(product)


def vmap(f, in_dims=0, out_dims=0, randomness="error"):
    """f of one example as a function of many. in_dims: the mapped axis of each argument, None for
    one that all examples share; randomness: "error", "same" or "different" numbers."""
    def inside(*args):
        dims = list(in_dims) if isinstance(in_dims, (list, tuple)) else [in_dims] * len(args)
        if len(dims) != len(args):
            raise _gradus.ValueError(f"vmap: in_dims has {len(dims)} entries for {len(args)} arguments")
        leaves, builds, flat = [], [], []
        for a, d in zip(args, dims):
            before = len(leaves)
            builds.append(_flatten(a, leaves))
            flat += [d] * (len(leaves) - before)
        said = {}

        def one(*tensors):
            it = iter(tensors)
            out = []
            said["build"] = _flatten(f(*(build(it) for build in builds)), out)
            return out

        outs = list(out_dims) if isinstance(out_dims, (list, tuple)) else [out_dims]
        outs = [] if outs == [0] else outs
        outputs = _gradus._vmap(one, flat, outs, randomness, leaves)
        return said["build"](iter(outputs))
    return inside


def functional_call(module, parameters, args, kwargs=None):
    """module(*args) with other parameters, by their names: a function of them for grad and vmap."""
    from .nn.utils import functional_call as call
    return call(module, parameters, args, kwargs)
