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


def bernoulli(size, p=0.5, dtype=_g.float32, **options):
    """1 with probability p, else 0: bernoulli((2, 3), 0.1), or bernoulli(x) with x the probabilities."""
    if isinstance(size, Tensor):
        if not ((size >= 0) & (size <= 1)).all():
            raise _g.ValueError("bernoulli: a probability is not between 0 and 1")
        return (_g.uniform(size.shape, 0, 1, size.dtype, device=size.device) < size).to(size.dtype)
    return _g.bernoulli(size, p, dtype, **options)


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


for _f in (nansum, nanmean, quantile, multinomial):
    setattr(Tensor, _f.__name__, _f)
Tensor.bernoulli = lambda self, p=None: bernoulli(self if p is None else _g.full_like(self, p))
Tensor.bernoulli_ = lambda self, p=0.5: self.copy_(bernoulli(_g.full_like(self, p) if not isinstance(p, Tensor) else p))
