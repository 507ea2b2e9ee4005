"""Functional transforms, with PyTorch's names: they take a function and give one, and nest.

Arguments and results may be tensors (also gradus.blocks'), or dicts, lists and tuples of them. What a function captures is
a constant to its gradient, which goes on in the history of what requires one, as in PyTorch.
"""
from . import _gradus
from ._gradus import Tensor


def is_blocks(x):
    """A block tensor? Asked without loading gradus.blocks."""
    return type(x).__module__ == "gradus.blocks" and hasattr(x, "with_data")


def _flatten(tree, leaves):
    """Appends the tensors of a tree; gives what builds a tree of that form from an iterator."""
    if isinstance(tree, Tensor):
        leaves.append(tree)
        return next
    if is_blocks(tree):
        leaves.append(tree.data)
        return lambda it: tree.with_data(next(it))
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
    if len({n % max(len(args), 1) for n in numbers}) < len(numbers):
        raise _gradus.ValueError(f"argnums: {argnums} names an argument twice")
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
        # A Jacobian's columns run f again: what the first run was given, and gave, counts.
        said.setdefault("own", (list(tensors), _gradus._next_sequence()))
        out = f(*refill(tensors))
        if said.get("aux"):
            out, value = out
            said.setdefault("value", value)
        leaves = []
        said["build"] = _flatten(out, leaves)
        return leaves
    return inside


def _auxiliary(said):
    """What f gave beside its value: with history where that leads on, past what f was given."""
    leaves = []
    build = _flatten(said["value"], leaves)
    return build(iter(_gradus._released(leaves, *said["own"])))


def value_and_grad(f, argnums=0, has_aux=False):
    """A function that gives f's value, a real number, and its gradient by the arguments named."""
    def inside(*args, **kwargs):
        g = (lambda *a: f(*a, **kwargs)) if kwargs else f
        leaves, refill, shaped = _split(args, argnums)
        said = {"aux": has_aux}
        value, grads = _gradus._value_and_grad(_flat_function(g, refill, said), leaves,
                                               list(range(len(leaves))), None)
        return ((value, _auxiliary(said)) if has_aux else value), shaped(grads)
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
    return (out, back, _auxiliary(said)) if has_aux else (out, back)


def jvp(f, primals, tangents, has_aux=False):
    """f(*primals), and its derivative along the tangents, by forward mode."""
    leaves, refill, _ = _split(tuple(primals), tuple(range(len(primals))))
    directions = []
    _flatten(tuple(tangents), directions)
    said = {"aux": has_aux}
    outputs, out = _gradus._jvp(_flat_function(f, refill, said), leaves, directions)
    both = said["build"](iter(outputs)), said["build"](iter(out))
    return (*both, said["value"]) if has_aux else both


def linearize(f, *primals):
    """f(*primals), and the function from tangents of the arguments to those of the results.

    f runs once. The pullback is linear, and what pulls it back is what pushes forward.
    """
    leaves, refill, _ = _split(primals, tuple(range(len(primals))))
    said, pulled = {}, {}
    outputs, pullback = _gradus._vjp(_flat_function(f, refill, said), leaves)
    _, push = _gradus._vjp(_flat_function(lambda *seeds: pullback(list(seeds)), lambda t: t, pulled),
                           [_gradus.zeros_like(y) for y in outputs])
    inside, start = said["own"]

    def along(*tangents):
        directions = []
        _flatten(tangents, directions)
        shapes, given = ([tuple(t.shape) for t in ts] for ts in (leaves, directions))
        if shapes != given:
            raise _gradus.ValueError(f"linearize: expected tangents of the arguments' shapes {shapes}, "
                                     f"got {given}")
        return said["build"](iter(_gradus._released(push(directions), inside + pulled["own"][0], start)))

    return said["build"](iter(outputs)), along


def _jacobian(f, argnums, has_aux, mode):
    def inside(*args, **kwargs):
        g = (lambda *a: f(*a, **kwargs)) if kwargs else f
        leaves, refill, shaped = _split(args, argnums)
        said = {"aux": has_aux}
        rows = _gradus._jacobian(_flat_function(g, refill, said), leaves, mode, True, False)
        out = said["build"](iter([shaped(row) for row in rows]))
        return (out, _auxiliary(said)) if has_aux else out
    return inside


def jacrev(f, argnums=0, has_aux=False):
    """The Jacobian by reverse mode: shape (result's..., argument's...)."""
    return _jacobian(f, argnums, has_aux, "reverse")


def jacfwd(f, argnums=0, has_aux=False):
    """The Jacobian by forward mode."""
    return _jacobian(f, argnums, has_aux, "forward")


def jacobian(f, argnums=0, has_aux=False):
    """The Jacobian by whichever mode needs fewer passes."""
    return _jacobian(f, argnums, has_aux, "automatic")


def hessian(f, argnums=0):
    """The second derivatives of f, which gives one real number."""
    def inside(*args, **kwargs):
        g = (lambda *a: f(*a, **kwargs)) if kwargs else f
        leaves, refill, shaped = _split(args, argnums)
        blocks = _gradus._hessian(_flat_function(g, refill, {}), leaves)
        return shaped([shaped(row) for row in blocks])
    return inside


def hvp(f, primals, tangents):
    """f's value and its Hessian times the tangents, forward over reverse."""
    value, product = _gradus._hvp(f, list(primals), list(tangents))
    return value, tuple(product)


def _axes(dims, tree, where, out):
    """Appends the axis of each tensor of a tree; `dims` has its form, or one entry for all below."""
    if dims is None or isinstance(dims, int):
        leaves = []
        _flatten(tree, leaves)
        out += [dims] * len(leaves)
    elif isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        for k in tree:
            _axes(dims[k], tree[k], f"{where}[{k!r}]", out)
    elif (isinstance(dims, (list, tuple)) and isinstance(tree, (list, tuple))
          and len(dims) == len(tree)):
        for k, (d, t) in enumerate(zip(dims, tree)):
            _axes(d, t, f"{where}[{k}]", out)
    else:
        kind = f"{type(tree).__name__}" + (f" of {len(tree)}" if isinstance(tree, (dict, list, tuple)) else "")
        raise _gradus.ValueError(f"vmap: {where} is {dims!r} for a {kind}; expected an axis, None, or "
                                 f"the same form")


def _in_chunks(whole, in_dims, out_dims, size):
    """What `whole` gives of so many examples at a time, joined."""
    if size < 1:
        raise _gradus.ValueError(f"vmap: chunk_size is {size}, expected 1 or more")

    def inside(*args, **kwargs):
        leaves, axes, places, parts = [], [], [], []
        build = _flatten(args, leaves)
        _axes(in_dims, args, "in_dims", axes)
        n = next((t.shape[d] for t, d in zip(leaves, axes) if d is not None), 0)
        if n <= size:
            return whole(*args, **kwargs)
        for at in range(0, n, size):
            out, found = whole(*build(iter([t if d is None else t.narrow(d, at, min(size, n - at))
                                            for t, d in zip(leaves, axes)])), **kwargs), []
            form = _flatten(out, found)
            parts.append(found)
        one = isinstance(out, Tensor) and isinstance(out_dims, (list, tuple)) and len(out_dims) == 1
        _axes(out_dims[0] if one else out_dims, out, "out_dims", places)
        return form(iter([ys[0] if d is None else _gradus.cat(ys, d) for ys, d in zip(zip(*parts), places)]))
    return inside


def vmap(f, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """f of one example as a function of many. in_dims: the mapped axis of each argument, None for one
    that all examples share; of a dict, list or tuple one for all in it, or its form with an axis at
    each place. out_dims: where that axis goes in the results, in their form; None: one that no
    example changes. randomness: "error", "same" or "different" numbers. All share named arguments.
    chunk_size: how many examples at a time."""
    if chunk_size is not None:
        return _in_chunks(vmap(f, in_dims, out_dims, randomness), in_dims, out_dims, chunk_size)

    def inside(*args, **kwargs):
        if isinstance(in_dims, (list, tuple)) and len(in_dims) != len(args):
            raise _gradus.ValueError(f"vmap: in_dims has {len(in_dims)} entries for {len(args)} arguments")
        leaves, axes, places = [], [], []
        build = _flatten(args, leaves)
        _axes(in_dims, args, "in_dims", axes)
        said = {}

        def one(*tensors):
            out, results = f(*build(iter(tensors)), **kwargs), []
            if is_blocks(out):
                raise _gradus.ValueError("vmap: the function gives a block tensor, which has no axis of examples; return "
                                         "its x.data")
            said["build"] = _flatten(out, results)
            dims = out_dims
            if isinstance(out, Tensor) and isinstance(dims, (list, tuple)) and len(dims) == 1:
                dims = dims[0]
            _axes(dims, out, "out_dims", places)
            for k, (y, d) in enumerate(zip(results, places)):
                if d is None and _gradus._is_mapped(y):
                    raise _gradus.ValueError(f"vmap: output {k} depends on the example, its out_dims may "
                                             f"not be None")
            said["shared"] = [y for y, d in zip(results, places) if d is None]
            return [y for y, d in zip(results, places) if d is not None]

        mapped, shared = iter(_gradus._vmap(one, axes, randomness, leaves)), iter(said["shared"])
        return said["build"](next(shared) if d is None else next(mapped).movedim(0, d) if d else
                             next(mapped) for d in places)
    return inside


def functional_call(module, parameters, args, kwargs=None):
    """module(*args) with other parameters, by their names: a function of them for grad and vmap."""
    from .nn.utils import functional_call as call
    return call(module, parameters, args, kwargs)
