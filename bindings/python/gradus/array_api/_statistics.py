"""Sums, means and extremes; truth of all or any; differences."""
from .. import _gradus as op
from . import _base
from ._base import FLOATING, REAL, axes_of, of_kind, one_axis

__all__ = ["all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod",
           "std", "sum", "var"]

_REALS = _base.INTEGRAL | REAL


def _reduced(call, x, axis, keepdims, who, **attrs):
    if axis is None:
        return call(x, keepdim=keepdims, **attrs)
    axes = axes_of(axis, x.ndim, who)
    if not axes:  # each element by itself: over an axis of extent 1
        return call(op.unsqueeze(x, -1), dim=(x.ndim,), keepdim=False, **attrs)
    return call(x, dim=axes, keepdim=keepdims, **attrs)


def _as(dtype, x):
    """x in a dtype; None: integers as int64, others as they are."""
    if dtype is None:
        dtype = x.dtype if x.dtype in FLOATING else _base.int64
    return (x if x.dtype == dtype else op.cast(x, dtype)), dtype


def _total(call, x, axis, dtype, keepdims, who):
    x, dtype = _as(dtype, x)
    y = _reduced(call, x, axis, keepdims, who)
    return y if y.dtype == dtype else op.cast(y, dtype)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum over axes; of integers in int64, else in x's dtype."""
    return _total(op.sum, x, axis, dtype, keepdims, "sum")


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product over axes; of integers in int64, else in x's dtype."""
    return _total(op.prod, x, axis, dtype, keepdims, "prod")


def mean(x, /, *, axis=None, keepdims=False):
    """The mean over axes."""
    return _reduced(op.mean, of_kind(x, FLOATING, "mean"), axis, keepdims, "mean")


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance over axes: the sum of squares divided by the count less the correction."""
    return _reduced(op.var, of_kind(x, REAL, "var"), axis, keepdims, "var", correction=correction)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation over axes: the root of var()."""
    return _reduced(op.std, of_kind(x, REAL, "std"), axis, keepdims, "std", correction=correction)


def max(x, /, *, axis=None, keepdims=False):
    """The largest element over axes."""
    return _reduced(op.amax, of_kind(x, _REALS, "max"), axis, keepdims, "max")


def min(x, /, *, axis=None, keepdims=False):
    """The smallest element over axes."""
    return _reduced(op.amin, of_kind(x, _REALS, "min"), axis, keepdims, "min")


def all(x, /, *, axis=None, keepdims=False):
    """Are all elements over axes true?"""
    return _reduced(op.all, x, axis, keepdims, "all")


def any(x, /, *, axis=None, keepdims=False):
    """Is any element over axes true?"""
    return _reduced(op.any, x, axis, keepdims, "any")


def _running(call, x, axis, dtype, include_initial, first, who):
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"{who}: axis is needed, the array has {x.ndim} axes")
        axis = 0
        x = op.reshape(x, (-1,))
    axis = one_axis(axis, x.ndim, who)
    x, dtype = _as(dtype, x)
    y = call(x, dim=axis)
    y = y if y.dtype == dtype else op.cast(y, dtype)
    if include_initial:
        shape = x.shape[:axis] + (1,) + x.shape[axis + 1:]
        start = op.expand(op.tensor(first, dtype=dtype, device=x.device), shape)
        y = op.cat([start, y], dim=axis)
    return y


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """The sums so far along an axis; include_initial puts a 0 before them."""
    return _running(op.cumsum, x, axis, dtype, include_initial, 0, "cumulative_sum")


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """The products so far along an axis; include_initial puts a 1 before them."""
    return _running(op.cumprod, x, axis, dtype, include_initial, 1, "cumulative_prod")


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Each element less the one before it along an axis, n times."""
    axis = one_axis(axis, x.ndim, "diff")
    parts = [p for p in (prepend, x, append) if p is not None]
    if len(parts) > 1:
        x = op.cat(_base.to_common(parts, "diff"), dim=axis)
    return op.diff(x, n=n, dim=axis)
