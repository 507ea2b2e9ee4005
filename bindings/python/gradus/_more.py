"""Functions of PyTorch's that are several ops: of missing numbers, of sets, and draws."""
from . import _gradus as _g
from ._gradus import Tensor


def nansum(x, dim=None, keepdim=False):
    """The sum, in which nan counts as 0."""
    return _g.where(_g.isnan(x), 0, x).sum(dim, keepdim)


def nanmean(x, dim=None, keepdim=False):
    """The mean of the numbers that are not nan."""
    return nansum(x, dim, keepdim) / (~_g.isnan(x)).sum(dim, keepdim)


def quantile(x, q, dim=None, keepdim=False):
    """The number below which the share q of an axis lies, between two of them in proportion; for q of
    shape (k,) k of them, along a new first axis. nan where there is a nan."""
    if not x.is_floating_point() or x.numel() == 0:
        raise (_g.ValueError if x.is_floating_point() else _g.DTypeError)(
            f"quantile: expected real numbers, got {x.dtype} of shape {tuple(x.shape)}")
    q = _g.tensor(q, dtype=x.dtype, device=x.device) if not isinstance(q, Tensor) else q
    if q.ndim > 1 or not ((q >= 0) & (q <= 1)).all():
        raise _g.ValueError(f"quantile: q is {q.tolist()}, expected a number from 0 to 1, or a list of them")
    if x.ndim == 0 and dim is not None:
        x, keepdim = x.reshape(1), False
    lines = x.reshape(-1) if dim is None else x.movedim(dim, -1)
    ranked, place = lines.sort(-1)[0], q.reshape(-1) * (lines.shape[-1] - 1)
    below, above = (ranked.index_select(end.long(), -1) for end in (place.floor(), place.ceil()))
    out = _g.lerp(below, above, place - place.floor())
    out = _g.where(_g.isnan(ranked[..., -1:]), float("nan"), out).movedim(-1, 0)
    if keepdim:
        out = out.reshape(-1, *[1] * x.ndim) if dim is None else out.unsqueeze(dim + 1 if dim >= 0 else dim)
    return out if q.ndim else out[0]


def polygamma(n, x):
    """The n-th derivative of digamma, for the whole number n; Tensor.polygamma(n) the same."""
    if isinstance(n, bool) or not hasattr(n, "__index__") or not isinstance(x, Tensor):
        raise _g.DTypeError(f"polygamma: expected a whole number n and a tensor, got a {type(n).__name__} and a "
                            f"{type(x).__name__}; polygamma(n, x) is the order")
    return _g.polygamma(x, int(n))


def isin(elements, test_elements, *, invert=False):
    """Which elements are among the others?"""
    elements, test_elements = (v if isinstance(v, Tensor) else _g.tensor(v) for v in (elements, test_elements))
    found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    return ~found if invert else found


def bernoulli(size, p=None, dtype=_g.float32, **options):
    """1 with probability p, else 0: bernoulli((2, 3), 0.1), bernoulli(x, 0.1) in x's shape, or bernoulli(x)
    with x the probabilities."""
    if isinstance(size, Tensor):
        size = size if p is None else p if isinstance(p, Tensor) else _g.full_like(size, p)
        if not ((size >= 0) & (size <= 1)).all():
            raise _g.ValueError("bernoulli: a probability is not between 0 and 1")
        wide = _g.float64 if size.dtype == _g.float64 else _g.float32
        return (_g.uniform(size.shape, 0, 1, wide, device=size.device) < size).to(size.dtype)
    return _g.bernoulli(size, 0.5 if p is None else p, dtype, **options)


def multinomial(x, num_samples, replacement=False):
    """num_samples places of the last axis, drawn with probabilities in proportion to the numbers there."""
    total = x.sum(-1)
    if not ((x >= 0).all() and (total > 0).all() and _g.isfinite(total).all()):
        raise _g.ValueError("multinomial: expected finite weights of 0 or more, and one above 0 in each line")
    if not replacement and (x > 0).sum(-1).min() < num_samples:
        raise _g.ValueError(f"multinomial: a line has fewer than {num_samples} weights above 0; replacement=True "
                            "draws them again")
    if replacement:
        x = x.unsqueeze(-2).expand(*x.shape[:-1], num_samples, x.shape[-1])
    rates = x.double() / -_g.log1p(-_g.uniform(x.shape, 2.0 ** -60, 1, _g.float64, device=x.device))
    return rates.argmax(-1) if replacement else rates.topk(num_samples, -1)[1]


# ---- ops in the forms that PyTorch gives them; gradus._gradus has the ops themselves

def add(input, other, *, alpha=1):
    """input + alpha other."""
    return _g.add(input, other if alpha == 1 else other * alpha)


def sub(input, other, *, alpha=1):
    """input - alpha other."""
    return _g.sub(input, other if alpha == 1 else other * alpha)


def round(input, *, decimals=0):
    """The nearest number of so many decimals, of two the even one; -2: of hundreds."""
    if decimals == 0:
        return _g.round(input)
    if not input.is_floating_point():
        raise _g.DTypeError(f"round: decimals are of real numbers, got {input.dtype}")
    scale = 10.0 ** abs(decimals)
    return _g.round(input * scale) / scale if decimals > 0 else _g.round(input / scale) * scale


def clamp(input, min=None, max=None):
    """What is less becomes min, what is more max: numbers, tensors, or None for no end."""
    if not isinstance(min, Tensor) and not isinstance(max, Tensor):
        return _g.clamp(input, min, max)
    if min is not None:
        input = _g.maximum(input, min)
    return input if max is None else _g.minimum(input, max)


def where(condition, input=None, other=None):
    """input where the condition holds, else other; where(condition): nonzero(condition, as_tuple=True)."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return _g.where(condition, input, other)


def nonzero(input, *, as_tuple=False):
    """The places of what is not 0, as rows; as_tuple: for each axis a vector."""
    if not as_tuple:
        return _g.nonzero(input)
    return tuple(_g.nonzero(input if input.ndim else input.reshape(1)).unbind(1))


def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    """The p-norm over axes, all unless given: a number, "fro" for 2, or "nuc" of matrices."""
    if dtype is not None:
        input = input.to(dtype)
    if p == "nuc":
        from .linalg import matrix_norm
        return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise _g.ValueError(f"norm: p is {p!r}, expected a number, 'fro' or 'nuc'")
    return _g.norm(input, 2 if p in ("fro", None) else p, dim, keepdim)


def normal(*args, **named):
    """Normal numbers: normal(mean, std, size) as in PyTorch, where mean and std may be tensors, which give the
    size; or normal(size, mean=0, std=1, dtype=float32)."""
    given = {**dict(zip(("mean", "std", "size"), args)), **named}
    mean, std, size = (given.pop(name, value) for name, value in (("mean", 0.0), ("std", 1.0), ("size", None)))
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        if size is not None:
            raise _g.ValueError("normal: tensors say the size themselves, expected no size")
        mean, std = (v.detach() if isinstance(v, Tensor) else v for v in (mean, std))
        like = mean + std
        if (std if isinstance(std, Tensor) else like * 0 + std).lt(0).any():
            raise _g.ValueError("normal: a std is below 0, expected 0 or more")
        return _g.normal(like.shape, 0, 1, like.dtype, device=like.device) * std + mean
    if isinstance(size, (tuple, list)) and not isinstance(mean, (tuple, list)):
        return _g.normal(size, mean, std, **given)
    return _g.normal(*args, **named)


def index_put(input, indices, values, accumulate=False):
    """input with these values at the places that one tensor of indices for each axis names; accumulate: added."""
    return _g.index_put(input, values, list(indices), accumulate=accumulate)


def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Each element of an axis, of all of them unless given, so many times: a number, or a tensor of one number for
    each. repeat_interleave(repeats): the places."""
    if repeats is None:
        input, repeats = _g.arange(input.shape[0], device=input.device), input
    if not isinstance(repeats, Tensor):
        return _g.repeat_interleave(input, repeats, dim)
    if dim is None:
        input, dim = input.reshape(-1), 0
    n = input.shape[dim]
    if repeats.ndim > 1 or repeats.numel() not in (1, n):
        raise _g.ShapeError(f"repeat_interleave: repeats has shape {tuple(repeats.shape)}, expected one number or {n}")
    if repeats.dtype not in (_g.int32, _g.int64) or (repeats < 0).any():
        raise _g.ValueError(f"repeat_interleave: repeats is {repeats.tolist()} of {repeats.dtype}, expected whole "
                            "numbers of 0 or more")
    ends = repeats.long().expand(n).cumsum(0)
    total = ends[-1].item() if n else 0
    return input.index_select(_g.searchsorted(ends, _g.arange(total, device=input.device), right=True), dim)


def _distinct(op, x, dim, return_inverse, return_counts):
    if dim is None:
        out = op(x)
    else:
        n = x.shape[dim]
        number = _g.zeros((n,), _g.int64, device=x.device)  # of each slice, in their order
        for column in x.movedim(dim, 0).reshape(n, -1).unbind(1):
            number = _g.unique(number * n + _g.unique(column)[1])[1]
        _, inverse, counts = op(number)
        places = _g.zeros_like(counts).scatter(0, inverse, _g.arange(n, device=x.device))
        out = x.index_select(places, dim), inverse, counts
    wanted = (True, return_inverse, return_counts)
    chosen = tuple(part for part, here in zip(out, wanted) if here)
    return chosen if len(chosen) > 1 else chosen[0]


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, or slices of an axis, in order; where asked for, which of them each one is, and how
    often each is there."""
    return _distinct(_g.unique, input, dim, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Of equal elements, or slices of an axis, in a row the first; where asked for, which of them each one is, and how
    long each row."""
    return _distinct(_g.unique_consecutive, input, dim, return_inverse, return_counts)


def result_type(*operands):
    """The dtype that tensors and numbers have together: result_type(a, 1.5)."""
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = operands[0]
    tensors = [v for v in operands if isinstance(v, Tensor)]
    numbers = [v for v in operands if not isinstance(v, Tensor)]
    if not tensors:
        return _g.result_type([_g.tensor(v) for v in numbers])
    out = _g.result_type(tensors)
    like = _g.zeros((0,) if any(v.ndim for v in tensors) else (), out)
    for number in numbers:  # which are weak: only their kind counts
        like = like * number
    return like.dtype


subtract, clip = sub, clamp
__all__ = """add bernoulli clamp clip index_put isin multinomial nanmean nansum nonzero norm normal polygamma quantile
    repeat_interleave result_type round sub subtract unique unique_consecutive where""".split()
for _f in (add, clamp, index_put, multinomial, nanmean, nansum, nonzero, norm, quantile, repeat_interleave, round, sub,
           unique, unique_consecutive):
    setattr(Tensor, _f.__name__, _f)
Tensor.subtract, Tensor.clip = sub, clamp
_add, _sub, _round, _clamp, _put = (getattr(Tensor, name + "_") for name in "add sub round clamp index_put".split())


def add_(self, other, *, alpha=1):
    return _add(self, other if alpha == 1 else other * alpha)


def sub_(self, other, *, alpha=1):
    return _sub(self, other if alpha == 1 else other * alpha)


def round_(self, *, decimals=0):
    return self.copy_(round(self, decimals=decimals)) if decimals else _round(self)


def index_put_(self, indices, values, accumulate=False):
    return _put(self, values, list(indices), accumulate=accumulate)


def clamp_(self, min=None, max=None):
    if not isinstance(min, Tensor) and not isinstance(max, Tensor):
        return _clamp(self, min, max)
    return self.copy_(clamp(self.clone(), min, max))  # the clone is what a graph keeps


for _f in (add_, sub_, round_, index_put_, clamp_):
    setattr(Tensor, _f.__name__, _f)
Tensor.clip_ = clamp_
Tensor.clamp_min_ = lambda self, min: clamp_(self, min)
Tensor.clamp_max_ = lambda self, max: clamp_(self, None, max)
Tensor.where = lambda self, condition, other: _g.where(condition, self, other)
Tensor.split = lambda self, split_size, dim=0: _g.split(self, split_size, dim)
Tensor.bernoulli = lambda self, p=None: bernoulli(self, p)
Tensor.bernoulli_ = lambda self, p=0.5: self.copy_(bernoulli(_g.full_like(self, p) if not isinstance(p, Tensor) else p))
