"""What the functions share: the kinds of dtypes, what two of them become together, axes.

The standard lets dtypes mix within a kind only (and real numbers with complex ones). Here more is
an error, so that what runs with gradus also runs elsewhere; gradus's own functions take more.
Arrays without axes count like the others, where gradus's own functions follow PyTorch.
"""
import operator

from .. import _gradus as op

Tensor = op.Tensor

bool = op.bool
uint8, int32, int64 = op.uint8, op.int32, op.int64
float32, float64 = op.float32, op.float64
complex64, complex128 = op.complex64, op.complex128

BITS = {uint8: 8, int32: 32, int64: 64, op.float16: 16, op.bfloat16: 16, float32: 32, float64: 64,
        complex64: 64, complex128: 128}

BOOL = frozenset({bool})
UNSIGNED = frozenset({uint8})
SIGNED = frozenset({int32, int64})
INTEGRAL = UNSIGNED | SIGNED
REAL = frozenset({op.float16, op.bfloat16, float32, float64})
COMPLEX = frozenset({complex64, complex128})
FLOATING = REAL | COMPLEX
NUMERIC = INTEGRAL | FLOATING
ALL = BOOL | NUMERIC

KINDS = {
    "bool": BOOL,
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTEGRAL,
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": NUMERIC,
}
# What a number of Python may stand beside.
BESIDE = {type(True): BOOL, int: NUMERIC, float: FLOATING, complex: FLOATING}


def is_scalar(x):
    """Is it a number of Python?"""
    return isinstance(x, (int, float, complex))


def number(value, dtype, device=None):
    """A number of Python as an array without axes."""
    return op.reshape(op.tensor([value], dtype=dtype, device=device), ())


def array(x, who):
    """x, if it is an array."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{who}: expected an array, got {type(x).__name__}")
    return x


def of_kind(x, dtypes, who):
    """x, if it is an array of one of these dtypes."""
    if array(x, who).dtype not in dtypes:
        raise TypeError(f"{who}: not for {x.dtype.name}; the standard names {names(dtypes)}")
    return x


def names(dtypes):
    return ", ".join(sorted(t.name for t in dtypes))


def real_of(dtype):
    """The dtype of the parts of a complex number."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_of(dtype):
    return complex128 if dtype in (float64, complex128) else complex64


def promoted(a, b):
    """The dtype of two dtypes together."""
    if a == b:
        return a
    if a in INTEGRAL and b in INTEGRAL:
        return max(a, b, key=BITS.get)
    if a in FLOATING and b in FLOATING:
        if a in COMPLEX or b in COMPLEX:
            return complex128 if float64 in (a, b) or complex128 in (a, b) else complex64
        if BITS[a] == BITS[b]:  # float16 and bfloat16
            return float32
        return max(a, b, key=BITS.get)
    raise TypeError(f"{a.name} and {b.name} are of different kinds; astype() says which is meant")


def beside(value, dtype):
    """The dtype of an array and a number of Python beside it."""
    kind = type(value)
    if kind not in BESIDE:  # a type derived from one of these
        kind = next(k for k in BESIDE if isinstance(value, k))
    if dtype not in BESIDE[kind]:
        raise TypeError(f"the number {value!r} beside an array of {dtype.name}: of another kind")
    return complex_of(dtype) if kind is complex and dtype in REAL else dtype


def common(*operands):
    """The dtype of arrays, dtypes and numbers of Python together."""
    found = None
    for x in operands:
        if not is_scalar(x):
            t = x.dtype if isinstance(x, Tensor) else x
            found = t if found is None else promoted(found, t)
    if found is None:
        raise TypeError("result_type: expected at least one array or dtype")
    for x in operands:
        if is_scalar(x):
            found = beside(x, found)
    return found


def together(x1, x2, who, dtypes=ALL, weak=False):
    """Two operands in one dtype: arrays, or one of them a number of Python, which stays one if weak
    and the op takes it as the array's dtype."""
    if isinstance(x1, Tensor) and isinstance(x2, Tensor):
        a, b = x1.dtype, x2.dtype
        if a is b:
            if a not in dtypes:
                of_kind(x1, dtypes, who)
            return x1, x2
        t = promoted(of_kind(x1, dtypes, who).dtype, of_kind(x2, dtypes, who).dtype)
        return x1 if a == t else op.cast(x1, t), x2 if b == t else op.cast(x2, t)
    for x, other in ((x1, x2), (x2, x1)):
        if isinstance(x, Tensor) and is_scalar(other):
            t = beside(other, of_kind(x, dtypes, who).dtype)
            same = x.dtype is t
            stays = weak and same and not isinstance(other, complex)
            x = x if same else op.cast(x, t)
            n = other if stays else number(other, t, x.device)
            return (x, n) if other is x2 else (n, x)
    raise TypeError(f"{who}: expected arrays, or an array and a number, got "
                    f"{type(x1).__name__} and {type(x2).__name__}")


def to_common(arrays, who):
    """Arrays in one dtype."""
    if not arrays:
        raise ValueError(f"{who}: expected at least one array")
    t = common(*(array(x, who) for x in arrays))
    return [x if x.dtype == t else op.cast(x, t) for x in arrays]


def several(result):
    """What an op gave that gives one tensor or more: a tuple."""
    return (result,) if isinstance(result, Tensor) else tuple(result)


def one_axis(axis, ndim, who):
    """An axis counted from the front."""
    k = operator.index(axis)
    if not -ndim <= k < ndim:
        raise IndexError(f"{who}: axis {k} of an array with {ndim} axes")
    return k % ndim


def axes_of(axis, ndim, who):
    """None, an axis or several as a tuple counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(one_axis(k, ndim, who) for k in axes)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{who}: an axis stands twice in {axis}")
    return axes


def reinterpreted(x, dtype, shape):
    """The bits of x as another dtype: a copy, without history."""
    return op._from_bytes(x._bytes(), shape, dtype, x.device)
