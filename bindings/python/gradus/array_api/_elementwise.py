"""Functions of each element. Most are one line of a table: the op, and the dtypes it takes."""
from .. import _gradus as op
from . import _base
from ._base import (ALL, BOOL, COMPLEX, FLOATING, INTEGRAL, NUMERIC, REAL, Tensor, float32, float64,
                    int32, int64, of_kind, together)
from ._complex import completed, of_parts

_REALS = INTEGRAL | REAL
_BITS = BOOL | INTEGRAL

# name in the standard -> op (None: the same name), dtypes
_UNARY = {
    "abs": (None, NUMERIC), "acos": (None, FLOATING), "acosh": (None, FLOATING),
    "asin": (None, FLOATING), "asinh": (None, FLOATING), "atan": (None, FLOATING),
    "atanh": (None, FLOATING), "bitwise_invert": ("bitwise_not", _BITS), "ceil": (None, _REALS),
    "conj": (None, NUMERIC), "cos": (None, FLOATING), "cosh": (None, FLOATING),
    "exp": (None, FLOATING), "expm1": (None, FLOATING), "floor": (None, _REALS),
    "imag": (None, COMPLEX), "isfinite": (None, NUMERIC), "isinf": (None, NUMERIC),
    "isnan": (None, NUMERIC), "log": (None, FLOATING), "log10": (None, FLOATING),
    "log1p": (None, FLOATING), "log2": (None, FLOATING), "logical_not": (None, BOOL),
    "negative": ("neg", NUMERIC), "positive": ("clone", NUMERIC), "real": (None, NUMERIC),
    "reciprocal": (None, FLOATING), "signbit": (None, REAL),
    "sin": (None, FLOATING), "sinh": (None, FLOATING), "sqrt": (None, FLOATING),
    "square": (None, NUMERIC), "tan": (None, FLOATING), "tanh": (None, FLOATING),
    "trunc": (None, _REALS),
}
_BINARY = {
    "add": (None, NUMERIC), "atan2": (None, REAL), "bitwise_and": (None, _BITS),
    "bitwise_left_shift": (None, INTEGRAL), "bitwise_or": (None, _BITS),
    "bitwise_right_shift": (None, INTEGRAL), "bitwise_xor": (None, _BITS), "copysign": (None, REAL),
    "divide": ("div", NUMERIC), "equal": ("eq", ALL),
    "greater": ("gt", _REALS), "greater_equal": ("ge", _REALS), "hypot": (None, REAL),
    "less": ("lt", _REALS), "less_equal": ("le", _REALS), "logaddexp": (None, REAL),
    "logical_and": (None, BOOL), "logical_or": (None, BOOL), "logical_xor": (None, BOOL),
    "maximum": (None, _REALS), "minimum": (None, _REALS), "multiply": ("mul", NUMERIC),
    "not_equal": ("ne", ALL), "pow": (None, NUMERIC), "subtract": ("sub", NUMERIC),
}
__all__ = ["clip", "floor_divide", "nextafter", "remainder", "round", "sign", *_UNARY, *_BINARY]


def _named(f, name, call):
    f.__name__ = f.__qualname__ = name
    said = call.__doc__.split("\n\n")[1]
    f.__doc__ = said[0].upper() + said[1:] + "."
    return f


def _unary(name, op_name, dtypes):
    call = getattr(op, op_name or name)

    def f(x, /):
        return completed(name, x, call(of_kind(x, dtypes, name)))
    return _named(f, name, call)


def _binary(name, op_name, dtypes):
    call = getattr(op, op_name or name)

    def f(x1, x2, /):
        return call(*together(x1, x2, name, dtypes, weak=True))
    return _named(f, name, call)


for _name, _row in _UNARY.items():
    globals()[_name] = _unary(_name, *_row)
for _name, _row in _BINARY.items():
    globals()[_name] = _binary(_name, *_row)


def clip(x, /, min=None, max=None):
    """x, no lower than min and no higher than max; each may be an array."""
    y = of_kind(x, _REALS, "clip")
    for bound, call in ((min, op.maximum), (max, op.minimum)):
        if bound is not None:
            if isinstance(bound, Tensor) and bound.dtype != x.dtype:
                bound = op.cast(bound, _base.promoted(x.dtype, bound.dtype))
            y = call(*together(y, bound, "clip", _REALS))
    return y if y.dtype == x.dtype else op.cast(y, x.dtype)


def floor_divide(x1, x2, /):
    """x1 / x2, rounded down; at zeros and infinities that of the quotient itself."""
    a, b = together(x1, x2, "floor_divide", _REALS)
    y = op.floor_divide(a, b)
    if a.dtype in INTEGRAL:
        return y
    plain = op.logical_or(op.logical_or(op.isinf(a), op.isinf(b)), op.eq(a, 0))
    return op.where(plain, op.floor(op.div(a, b)), y)


def remainder(x1, x2, /):
    """What floor_divide() leaves of x1, with the sign of x2, also where it is 0."""
    a, b = together(x1, x2, "remainder", _REALS)
    y = op.remainder(a, b)
    return y if a.dtype in INTEGRAL else op.where(op.eq(y, 0), op.copysign(y, b), y)


def sign(x, /):
    """-1, 0 or 1 with x's sign; of complex numbers x / |x|."""
    y = op.sgn(of_kind(x, NUMERIC, "sign"))
    return op.add(y, 0) if y.dtype in FLOATING else y  # no -0


def round(x, /):
    """The nearest whole number; of two, the even one."""
    if of_kind(x, NUMERIC, "round").dtype in COMPLEX:
        return of_parts(op.round(op.real(x)), op.round(op.imag(x)), x.dtype)
    return op.round(x)


def nextafter(x1, x2, /):
    """The number after x1 on the way to x2."""
    a, b = op.broadcast_tensors(*together(x1, x2, "nextafter", {float32, float64}))
    whole = int64 if a.dtype == float64 else int32
    one = op.tensor(1, dtype=whole)
    bits = _base.reinterpreted(a, whole, a.shape)
    # Away from 0 the bits count up, whatever the sign.
    y = op.where(op.eq(op.gt(b, a), op.gt(a, 0)), bits + one, bits - one)
    y = _base.reinterpreted(y, a.dtype, a.shape)
    least = op.copysign(_base.reinterpreted(one, a.dtype, ()), b)
    y = op.where(op.eq(a, 0), least, y)
    y = op.where(op.eq(a, b), b, y)
    return op.where(op.logical_or(op.isnan(a), op.isnan(b)), a + b, y)
