"""Functions of complex numbers where a part is infinite or NaN: the values that the standard lists,
those of C99's annex G. Elsewhere, and for real numbers, the ops themselves.

Throughout x = a + bi, and each function of this file gives the parts of its value from a and b.
"""
import math

from .. import _gradus as op
from . import _base

_INF, _NAN, _PI = math.inf, math.nan, math.pi


def of_parts(real, imag, dtype):
    """real + imag i."""
    part = _base.real_of(dtype)
    return op.complex(op.cast(real, part), op.cast(imag, part))


def _strange(x):
    return op.logical_not(op.isfinite(x))


def _infinite(a, b):
    return op.logical_or(op.isinf(a), op.isinf(b))


def _both(m, n):
    return op.logical_and(m, n)


def _is0(x):
    return op.eq(x, 0)


def _exp(a, b):
    r = op.exp(a)
    wild = _both(op.isinf(a), _strange(b))  # of no direction
    unknown = _both(op.isnan(a), op.ne(b, 0))
    re = op.where(_is0(b), r, op.where(wild, r, op.mul(r, op.cos(b))))
    im = op.where(_both(wild, op.gt(a, 0)), _NAN, op.where(wild, 0., op.mul(r, op.sin(b))))
    return re, op.where(_is0(b), b, op.where(unknown, _NAN, im))


def _expm1(a, b):
    re, im = _exp(a, b)
    return op.sub(re, 1.), im


def _cosh(a, b):
    re, im = op.mul(op.cosh(a), op.cos(b)), op.mul(op.sinh(a), op.sin(b))
    wild = _both(op.isinf(a), _strange(b))
    re = op.where(_is0(b), op.cosh(a), op.where(wild, _INF, re))
    im = op.where(op.logical_or(_is0(a), _is0(b)), 0., op.where(wild, _NAN, im))
    return re, im


def _sinh(a, b):
    re, im = op.mul(op.sinh(a), op.cos(b)), op.mul(op.cosh(a), op.sin(b))
    wild = _both(op.isinf(a), _strange(b))
    re = op.where(op.logical_or(wild, op.logical_or(_is0(a), _is0(b))), op.sinh(a), re)
    return re, op.where(_is0(b), b, op.where(wild, _NAN, im))


def _tanh(a, b):
    end = op.isinf(a)
    re = op.where(op.logical_or(end, op.logical_or(_is0(a), _is0(b))), op.tanh(a), _NAN)
    return re, op.where(end, op.copysign(0., b), op.where(_is0(b), b, _NAN))


def _log(a, b):
    return op.log(op.hypot(a, b)), op.atan2(b, a)


def _sqrt(a, b):
    side, up = op.isinf(a), op.isinf(b)
    left = _both(side, op.lt(a, 0))
    known = op.logical_not(op.isnan(b))
    re = op.where(left, op.where(known, 0., _NAN), op.where(side, _INF, _NAN))
    im = op.where(left, op.copysign(_INF, b), op.where(known, op.copysign(0., b), _NAN))
    return op.where(up, _INF, re), op.where(up, b, op.where(side, im, _NAN))


def _acos(a, b):
    re = op.where(_is0(a), _PI / 2, op.atan2(op.abs(b), a))
    return re, op.where(_infinite(a, b), op.neg(op.copysign(_INF, b)), _NAN)


def _acosh(a, b):
    re, im = _acos(a, b)
    return op.abs(im), op.copysign(re, b)


def _asinh(a, b):
    re = op.where(_infinite(a, b), op.copysign(_INF, a), _NAN)
    return re, op.where(_is0(b), b, op.atan2(b, op.abs(a)))


def _atanh(a, b):
    far = _infinite(a, b)
    re = op.where(op.logical_or(far, _is0(a)), op.copysign(0., a), _NAN)
    return re, op.where(_both(far, op.logical_not(op.isnan(b))), op.copysign(_PI / 2, b), _NAN)


def _turned(f):
    """-i f(ix): sin of sinh, and the like."""
    def g(a, b):
        re, im = f(op.neg(b), a)
        return im, op.neg(re)
    return g


def _cos(a, b):
    return _cosh(op.neg(b), a)


_FUNCTIONS = {"acos": _acos, "acosh": _acosh, "asin": _turned(_asinh), "asinh": _asinh,
              "atan": _turned(_atanh), "atanh": _atanh, "cos": _cos, "cosh": _cosh, "exp": _exp,
              "expm1": _expm1, "log": _log, "log1p": _log, "sin": _turned(_sinh), "sinh": _sinh,
              "sqrt": _sqrt, "tan": _turned(_tanh), "tanh": _tanh}


def completed(name, x, y):
    """y = name(x), with the values of the standard where x is not finite."""
    if name not in _FUNCTIONS or x.dtype not in _base.COMPLEX:
        return y
    parts = _FUNCTIONS[name](op.real(x.detach()), op.imag(x.detach()))
    return op.where(op.isfinite(x), y, of_parts(*parts, x.dtype))
