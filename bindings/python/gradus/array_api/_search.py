"""Searching, sorting, and sets of an array's elements."""
from typing import NamedTuple as _NamedTuple

from .. import _gradus as op
from . import _base
from ._base import one_axis, together
from ._creation import asarray

__all__ = ["argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted", "sort",
           "unique_all", "unique_counts", "unique_inverse", "unique_values", "where"]

_REALS = _base.INTEGRAL | _base.REAL


def _place(call, x, axis, keepdims, who):
    _base.of_kind(x, _REALS, who)
    if axis is None:
        y = call(op.reshape(x, (-1,)), dim=0)
        return op.reshape(y, (1,) * x.ndim) if keepdims else y
    return call(x, dim=one_axis(axis, x.ndim, who), keepdim=keepdims)


def argmax(x, /, *, axis=None, keepdims=False):
    """Where the largest element is along an axis, or among all; the first of equal ones."""
    return _place(op.argmax, x, axis, keepdims, "argmax")


def argmin(x, /, *, axis=None, keepdims=False):
    """Where the smallest element is along an axis, or among all; the first of equal ones."""
    return _place(op.argmin, x, axis, keepdims, "argmin")


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements over axes are not 0."""
    axes = _base.axes_of(axis, x.ndim, "count_nonzero")
    y = op.cast(op.ne(x, 0), _base.int64)
    return op.sum(y, dim=axes, keepdim=keepdims) if axes else y


def nonzero(x, /):
    """Where the elements are that are not 0: the indices along each axis, a tuple."""
    if x.ndim == 0:
        raise ValueError("nonzero: the array has no axes")
    return _base.several(op.unbind(op.nonzero(x), 1))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where x2's elements would stand in the sorted x1: before equal ones, or after them."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is {side!r}, expected 'left' or 'right'")
    x1, x2 = together(x1, x2, "searchsorted", _REALS)
    if sorter is not None:
        x1 = op.index_select(x1, sorter, dim=0)
    return op.searchsorted(x1, x2, right=side == "right")


def where(condition, x1, x2, /):
    """x1 where the condition holds, else x2."""
    if _base.is_scalar(x1) and _base.is_scalar(x2):
        x1 = asarray(x1, device=condition.device)
    return op.where(condition, *together(x1, x2, "where"))


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The elements in order along an axis."""
    _base.of_kind(x, _REALS, "sort")
    return op.sort(x, dim=one_axis(axis, x.ndim, "sort"), descending=descending, stable=stable)[0]


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """Where the elements in order along an axis stand in x."""
    _base.of_kind(x, _REALS, "argsort")
    return op.argsort(x, dim=one_axis(axis, x.ndim, "argsort"), descending=descending,
                      stable=stable)


class unique_all_result(_NamedTuple):
    values: _base.Tensor
    indices: _base.Tensor
    inverse_indices: _base.Tensor
    counts: _base.Tensor


class unique_counts_result(_NamedTuple):
    values: _base.Tensor
    counts: _base.Tensor


class unique_inverse_result(_NamedTuple):
    values: _base.Tensor
    inverse_indices: _base.Tensor


def unique_all(x, /):
    """The distinct elements in order, where each is found first, which one stands at each place
    of x, and how often there is each. A NaN is like no other."""
    row = op.reshape(x, (-1,))
    n = row.numel()
    if x.dtype in _base.COMPLEX:  # by real part, then by imaginary part
        order = op.argsort(op.imag(row), stable=True)
        order = op.index_select(order, op.argsort(op.real(op.index_select(row, order)),
                                                  stable=True))
    else:
        order = op.argsort(row, stable=True)
    ordered = op.index_select(row, order)
    new = op.cat([op.ones((min(n, 1),), dtype=_base.bool, device=x.device),
                  op.ne(ordered[1:], ordered[:-1])])
    starts = op.reshape(op.nonzero(new), (-1,))
    group = op.cumsum(op.cast(new, _base.int64)) - 1
    inverse = op.index_select(group, op.argsort(order))
    end = op.tensor([n], dtype=_base.int64, device=x.device)
    counts = op.diff(op.cat([starts, end]))
    return unique_all_result(op.index_select(ordered, starts), op.index_select(order, starts),
                             op.reshape(inverse, x.shape), counts)


def unique_counts(x, /):
    """The distinct elements in order, and how often there is each."""
    found = unique_all(x)
    return unique_counts_result(found.values, found.counts)


def unique_inverse(x, /):
    """The distinct elements in order, and which one stands at each place of x."""
    found = unique_all(x)
    return unique_inverse_result(found.values, found.inverse_indices)


def unique_values(x, /):
    """The distinct elements in order."""
    return unique_all(x).values
