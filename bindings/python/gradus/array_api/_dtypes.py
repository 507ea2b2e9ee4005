"""Functions on dtypes, and what the namespace tells of itself."""
from dataclasses import dataclass as _dataclass

from .. import _gradus as op
from . import _base
from ._base import Tensor

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type",
           "__array_namespace_info__"]

CPU = "cpu"
_info = {n: getattr(_base, n) for n in ("bool", "uint8", "int32", "int64", "float32", "float64",
                                        "complex64", "complex128")}


def astype(x, dtype, /, *, copy=True, device=None):
    """x in another dtype; copy=False gives x itself where nothing changes."""
    if x.dtype in _base.COMPLEX and dtype not in _base.COMPLEX:
        raise TypeError(f"astype: {x.dtype.name} to {dtype.name}; take real(), imag() or abs()")
    y = x if x.dtype == dtype else op.cast(x, dtype)
    if device is not None and device != y.device:
        y = y._to_device(device)
    return op.clone(y) if copy and y is x else y


def result_type(*arrays_and_dtypes):
    """The dtype of arrays, dtypes and numbers of Python together."""
    return _base.common(*arrays_and_dtypes)


def can_cast(from_, to, /):
    """Does `to` hold what `from_` holds, by the rules of promotion?"""
    try:
        return _base.common(from_, to) == to
    except TypeError:
        return False


def isdtype(dtype, kind):
    """Is it of this kind, of one of these, or this dtype?"""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if not isinstance(kind, str):
        return dtype == kind
    if kind not in _base.KINDS:
        raise ValueError(f"isdtype: no kind {kind!r}; there are {', '.join(_base.KINDS)}")
    return dtype in _base.KINDS[kind]


@_dataclass(frozen=True)
class finfo_object:
    """Limits of a floating-point dtype."""
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: object


@_dataclass(frozen=True)
class iinfo_object:
    """Limits of an integer dtype."""
    bits: int
    max: int
    min: int
    dtype: object


# Bits of the mantissa, and the largest exponent.
_FORMATS = {op.float16: (10, 15), op.bfloat16: (7, 127), _base.float32: (23, 127),
            _base.float64: (52, 1023)}


def finfo(type, /):
    """Limits of a floating-point dtype, or of an array's; of the parts of a complex one."""
    dtype = _base.real_of(type.dtype if isinstance(type, Tensor) else type)
    if dtype not in _FORMATS:
        raise TypeError(f"finfo: expected a floating-point dtype, got {dtype}")
    mantissa, exponent = _FORMATS[dtype]
    most = (2.0 - 2.0 ** -mantissa) * 2.0 ** exponent
    return finfo_object(8 * dtype.itemsize, 2.0 ** -mantissa, most, -most, 2.0 ** (1 - exponent),
                        dtype)


def iinfo(type, /):
    """Limits of an integer dtype, or of an array's."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    if dtype not in _base.INTEGRAL:
        raise TypeError(f"iinfo: expected an integer dtype, got {dtype}")
    bits = 8 * dtype.itemsize
    if dtype in _base.UNSIGNED:
        return iinfo_object(bits, 2 ** bits - 1, 0, dtype)
    return iinfo_object(bits, 2 ** (bits - 1) - 1, -2 ** (bits - 1), dtype)


class Info:
    """What __array_namespace_info__() gives."""

    def capabilities(self):
        """What can be done with arrays."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        """Where arrays are made if nothing is said."""
        return CPU

    def devices(self):
        """The devices known without a look for others; any that gradus opens can be named."""
        return [CPU]

    def default_dtypes(self, *, device=None):
        """The dtypes taken where none is given."""
        return {"real floating": _base.float32, "complex floating": _base.complex64,
                "integral": _base.int64, "indexing": _base.int64}

    def dtypes(self, *, device=None, kind=None):
        """The standard's dtypes that are here, by name; of a kind, or of several."""
        return {n: t for n, t in _info.items() if kind is None or isdtype(t, kind)}


def __array_namespace_info__():
    """What the namespace tells of itself: dtypes, devices, capabilities."""
    return Info()
