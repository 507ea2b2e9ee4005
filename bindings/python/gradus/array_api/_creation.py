"""Arrays from numbers, lists and other libraries' arrays."""
import math

from .. import _gradus as op
from . import _base
from ._base import Tensor

__all__ = ["arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
           "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like"]


def _shape(shape):
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def _default(number):
    if isinstance(number, bool):
        return _base.bool
    if isinstance(number, int):
        return _base.int64
    return _base.complex64 if isinstance(number, complex) else _base.float32


def _on(x, device):
    return x if device is None or device == x.device else x._to_device(device)


def _is_foreign(obj):
    if isinstance(obj, (list, tuple, int, float, complex)):
        return False
    if hasattr(obj, "__dlpack__"):
        return True
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def _read_only(obj):
    try:
        return memoryview(obj).readonly
    except (TypeError, ValueError, BufferError, RuntimeError):
        return False


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of numbers, nested lists or another array; without a copy where that can be."""
    if isinstance(obj, Tensor):
        y = obj if dtype is None or dtype == obj.dtype else op.cast(obj, dtype)
        y = _on(y, device)
        if copy is False and y is not obj:
            raise ValueError("asarray: another dtype or device needs a copy; copy=False forbids it")
        return op.clone(y) if copy and y is obj else y
    if _is_foreign(obj):
        return asarray(from_dlpack(obj, copy=copy), dtype=dtype, device=device,
                       copy=False if copy is False else None)
    if copy is False:
        raise ValueError("asarray: numbers and lists are copied; copy=False forbids it")
    if _base.is_scalar(obj):
        return _base.number(obj, dtype or _default(obj), device)
    return op.tensor(obj, dtype=dtype, device=device)


def from_dlpack(x, /, *, device=None, copy=None):
    """Another library's array over the same memory; copy=True: over memory of its own."""
    if copy is False and _read_only(x):
        raise ValueError("from_dlpack: read-only memory is copied; copy=False forbids it")
    y = op.from_dlpack(x, copy=copy)
    if device is not None and device != y.device:
        if copy is False:
            raise ValueError("from_dlpack: another device needs a copy; copy=False forbids it")
        y = y._to_device(device)
    return y


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """start, start + step, ... below stop; arange(stop) begins at 0."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange: step is 0")
    whole = all(isinstance(v, int) for v in (start, stop, step))
    n = -((start - stop) // step) if whole else math.ceil((stop - start) / step)
    if dtype is None:
        dtype = _base.int64 if whole else _base.float32
    places = op.arange(max(n, 0), dtype=_base.int64, device=device)
    if not whole:
        places = op.cast(places, _base.float64)
    return op.cast(op.add(op.mul(places, step), start), dtype)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """num numbers from start to stop, which is the last one if endpoint."""
    if num < 0:
        raise ValueError(f"linspace: {num} numbers")
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    if dtype is None:
        dtype = _base.complex64 if is_complex else _base.float32
    wide = _base.complex128 if is_complex else _base.float64
    places = op.cast(op.arange(num, dtype=_base.int64, device=device), wide)
    steps = num - 1 if endpoint else num
    first, last = (_base.number(v, wide, device) for v in (start, stop))
    y = first + places * ((last - first) / max(steps, 1))
    if endpoint and num > 1:
        y[-1] = last
    return op.cast(y, dtype)


def empty(shape, *, dtype=None, device=None):
    """An array whose elements are not set."""
    return op.empty(_shape(shape), dtype=dtype or _base.float32, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    """One number everywhere."""
    one = _base.number(fill_value, dtype or _default(fill_value), device)
    return op.contiguous(op.expand(one, _shape(shape)))


def ones(shape, *, dtype=None, device=None):
    """Ones."""
    return op.ones(_shape(shape), dtype=dtype or _base.float32, device=device)


def zeros(shape, *, dtype=None, device=None):
    """Zeros."""
    return op.zeros(_shape(shape), dtype=dtype or _base.float32, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    """empty() with x's shape."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """full() with x's shape."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(x, /, *, dtype=None, device=None):
    """ones() with x's shape."""
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x, /, *, dtype=None, device=None):
    """zeros() with x's shape."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on diagonal k, else zeros."""
    n_cols = n_rows if n_cols is None else n_cols
    y = zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        op.diagonal(y, offset=k).fill_(1)
    return y


def tril(x, /, *, k=0):
    """The elements on and below diagonal k of each matrix, else zeros."""
    return op.tril(x, diagonal=k)


def triu(x, /, *, k=0):
    """The elements on and above diagonal k of each matrix, else zeros."""
    return op.triu(x, diagonal=k)


def meshgrid(*arrays, indexing="xy"):
    """The coordinates of a grid from those of its axes, a list."""
    return list(_base.several(op.meshgrid(*arrays, indexing=indexing))) if arrays else []
