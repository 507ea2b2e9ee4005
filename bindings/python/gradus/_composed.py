"""More functions of PyTorch's, each made of a few ops: shapes and indices, numbers, statistics. Loaded
when one of them is first named (_tensor.composed)."""
import itertools
import math
import operator

from . import _gradus as _g
from ._gradus import Tensor
from ._tensor import as_tensor, composed_methods


def _need(name, x, rank):
    if x.ndim != rank:
        raise _g.ShapeError(f"{name}: expected {('a vector', 'a matrix')[rank - 1]}, got shape {tuple(x.shape)}")


# ---- shapes and indices

def _at_least(rank, grown):
    def each(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
            tensors = tuple(tensors[0])
        out = tuple(grown(x) if x.ndim < rank else x for x in map(as_tensor, tensors))
        return out[0] if len(out) == 1 else out
    each.__name__ = each.__qualname__ = f"atleast_{rank}d"
    each.__doc__ = f"The tensors, or the one, with at least {rank} " + ("axes." if rank > 1 else "axis.")
    return each


atleast_1d = _at_least(1, lambda x: x.reshape(1))
atleast_2d = _at_least(2, lambda x: x.reshape(1, -1))
atleast_3d = _at_least(3, lambda x: x.reshape(1, -1, 1) if x.ndim < 2 else x.unsqueeze(-1))


def adjoint(x):
    """The last two axes exchanged, conjugated."""
    return x.mH


def t(x):
    """A matrix turned."""
    return x.t()


def detach(x):
    """The same elements without history."""
    return x.detach()


def block_diag(*tensors):
    """A matrix of matrices along its diagonal; numbers and vectors are rows."""
    blocks, width, before = [atleast_2d(x) for x in tensors], 0, 0
    for b in blocks:
        _need("block_diag", b, 2)
        width += b.shape[1]
    rows = []
    for b in blocks:
        rows.append(_g.pad(b, (before, width - before - b.shape[1])))
        before += b.shape[1]
    return _g.cat(rows, 0)


def broadcast_shapes(*shapes):
    """The shape of tensors of these shapes beside each other."""
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    return tuple(_g.broadcast_tensors(*[_g.zeros(()).expand(s) for s in shapes])[0].shape) if shapes else ()


def cartesian_prod(*tensors):
    """All ways to take one number of each vector, as rows; of one vector the vector."""
    for x in tensors:
        _need("cartesian_prod", x, 1)
    if len(tensors) == 1:
        return tensors[0]
    return _g.stack([t.reshape(-1) for t in _g.meshgrid(*tensors, indexing="ij")], -1)


def combinations(x, r=2, with_replacement=False):
    """All ways to take r numbers of a vector, in its order, as rows."""
    _need("combinations", x, 1)
    if r < 0:
        raise _g.ValueError(f"combinations: r is {r}, expected 0 or more")
    take = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(take(range(x.shape[0]), r))
    if not places:
        return _g.zeros((0, r), x.dtype).to(device=x.device)
    return x[_g.tensor(places, device=x.device)]


def diagflat(x, offset=0):
    """A matrix with all elements of x on a diagonal."""
    return _g.diag_embed(as_tensor(x).reshape(-1), offset)


def tensor_split(x, indices_or_sections, dim=0):
    """Parts of an axis: so many, the first ones larger by one where they can't be equal, or those that end
    before these indices."""
    n, k = x.size(dim), indices_or_sections
    if isinstance(k, Tensor):
        k = k.tolist()
    if isinstance(k, int):
        if k <= 0:
            raise _g.ValueError(f"tensor_split: the number of parts is {k}, expected 1 or more")
        cuts = [i * (n // k) + min(i, n % k) for i in range(1, k)]
    else:
        cuts = [slice(0, i).indices(n)[1] for i in k]
    return tuple(_g.slice(x, dim, a, max(a, b)) for a, b in zip([0, *cuts], [*cuts, n]))


def _split_along(name, axis, rank):
    def f(x, indices_or_sections):
        if x.ndim < rank:
            raise _g.ShapeError(f"{name}: the tensor has {x.ndim} axes, expected {rank} or more")
        dim = 0 if axis == 1 and x.ndim == 1 else axis
        if isinstance(indices_or_sections, int) and x.shape[dim] % max(indices_or_sections, 1):
            raise _g.ValueError(f"{name}: an axis of {x.shape[dim]} does not fall into {indices_or_sections} equal "
                                "parts; tensor_split makes unequal ones")
        return tensor_split(x, indices_or_sections, dim)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"Equal parts of axis {axis}, or those that end before these indices."
    return f


vsplit, hsplit, dsplit = (_split_along(*s) for s in (("vsplit", 0, 2), ("hsplit", 1, 1), ("dsplit", 2, 3)))


def _indices(name, row, col, inside):
    if row < 0 or col < 0:
        raise _g.ValueError(f"{name}: a matrix of {row} rows and {col} columns; expected 0 or more")
    places = list(itertools.chain.from_iterable(inside))
    return _g.tensor([[i for i, _ in places], [j for _, j in places]], dtype=_g.int64)


def tril_indices(row, col, offset=0, *, dtype=_g.int64, device=None):
    """Rows and columns (2, n) of the lower triangle of a matrix, row after row."""
    rows = (((i, j) for j in range(min(col, max(0, i + offset + 1)))) for i in range(row))
    return _indices("tril_indices", row, col, rows).to(dtype=dtype, device=device or _g.get_default_device())


def triu_indices(row, col, offset=0, *, dtype=_g.int64, device=None):
    """Rows and columns (2, n) of the upper triangle of a matrix, row after row."""
    rows = (((i, j) for j in range(max(0, i + offset), col)) for i in range(row))
    return _indices("triu_indices", row, col, rows).to(dtype=dtype, device=device or _g.get_default_device())


def unravel_index(indices, shape):
    """The places along each axis of elements that are counted row after row."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices.is_floating_point():
        raise _g.DTypeError(f"unravel_index: expected whole numbers, got {indices.dtype}")
    if indices.numel() and not -math.prod(shape) <= indices.min().item() <= indices.max().item() < math.prod(shape):
        raise _g.ValueError(f"unravel_index: an index is outside of shape {shape}")
    places = []
    for n in reversed(shape):
        places.append(indices % n)
        indices = indices // n
    return tuple(reversed(places))


def vander(x, N=None, increasing=False):
    """The powers of each number as a row, the highest first unless `increasing`."""
    _need("vander", x, 1)
    n = x.shape[0] if N is None else operator.index(N)
    if n < 0:
        raise _g.ValueError(f"vander: N is {n}, expected 0 or more")
    powers = _g.arange(n) if increasing else _g.arange(n).flip(0)
    return x.unsqueeze(-1) ** powers.to(device=x.device)


def view_as_real(z):
    """(real, imag) along a new last axis: a copy here, which differentiates."""
    if not z.dtype.is_complex:
        raise _g.DTypeError(f"view_as_real: expected complex numbers, got {z.dtype}")
    return _g.stack([z.real, z.imag], -1)


def view_as_complex(x):
    """Of (real, imag) along the last axis: a copy here, which differentiates."""
    if x.ndim == 0 or x.shape[-1] != 2:
        raise _g.ShapeError(f"view_as_complex: expected a last axis of 2, got shape {tuple(x.shape)}")
    return _g.complex(x.select(-1, 0), x.select(-1, 1))


# ---- numbers

def positive(x):
    """x itself, of numbers."""
    if x.dtype == _g.bool:
        raise _g.DTypeError("positive: is not defined for bool")
    return x


def resolve_conj(x):
    """x itself: no tensor here is conjugated lazily."""
    return x


def resolve_neg(x):
    """x itself: no tensor here is negated lazily."""
    return x


def clamp_min(x, min):
    """What is less becomes min."""
    return x.clamp_min(min)


def clamp_max(x, max):
    """What is more becomes max."""
    return x.clamp_max(max)


def float_power(x, exponent):
    """The power in double precision."""
    def wide(v):
        v = as_tensor(v)
        return v.to(_g.complex128 if v.dtype.is_complex else _g.float64)
    return wide(x) ** wide(exponent)


def isposinf(x):
    """Is it inf?"""
    return x == math.inf


def isneginf(x):
    """Is it -inf?"""
    return x == -math.inf


def isreal(x):
    """Is the imaginary part 0?"""
    x = as_tensor(x)
    return x.imag == 0 if x.dtype.is_complex else _g.ones(x.shape, _g.bool).to(device=x.device)


def _whole(name, a, b):
    """Both in their common dtype, which has to be one of whole numbers."""
    a, b = as_tensor(a), as_tensor(b)
    dtype = _g.result_type([a, b])
    if dtype not in (_g.int32, _g.int64, _g.uint8):
        raise _g.DTypeError(f"{name}: expected whole numbers, got {a.dtype} and {b.dtype}")
    return a.to(dtype), b.to(dtype)


def gcd(a, b):
    """The greatest common divisor of whole numbers."""
    a, b = _g.broadcast_tensors(*(v.abs() for v in _whole("gcd", a, b)))
    while (b != 0).any():
        a, b = _g.where(b == 0, a, b), _g.where(b == 0, b, a % _g.where(b == 0, 1, b))
    return a


def lcm(a, b):
    """The least common multiple of whole numbers."""
    a, b = _whole("lcm", a, b)
    divisor = gcd(a, b)
    return (a // _g.where(divisor == 0, 1, divisor) * b).abs()


def ldexp(x, other):
    """x 2^other; for whole numbers rounded once."""
    x, other = as_tensor(x), as_tensor(other)
    if x.dtype.is_complex or other.dtype.is_complex or other.dtype.is_floating_point:
        return x * _g.pow(2.0, other)
    out, left, factors = x.double(), other.double(), []
    for _ in range(3):  # each a power of two that float64 holds
        factors.append(left.clamp(-1022, 1023))
        left = left - factors[-1]
    for part in reversed(factors):
        out = out * _g.pow(2.0, part)
    return out.to(x.dtype if x.dtype.is_floating_point else _g.float32)


def logspace(start, end, steps, base=10.0, **options):
    """base^start to base^end, whose logarithms are evenly spaced."""
    return _g.pow(float(base), _g.linspace(start, end, steps, **options))


def logdet(A):
    """The logarithm of the determinant of each matrix: -inf where that is 0, nan below."""
    sign, size = _g.slogdet(A)
    return _g.where(sign < 0, math.nan, size)


# ---- statistics

def cov(x, *, correction=1):
    """The covariances of variables, which are rows, over observations, which are columns."""
    if x.ndim > 2:
        raise _g.ShapeError(f"cov: expected variables as rows, got shape {tuple(x.shape)}")
    rows = atleast_2d(x)
    apart = rows - rows.mean(1, keepdim=True)
    out = apart @ apart.mH / max(rows.shape[1] - correction, 0)
    return out if x.ndim == 2 else out.reshape(())


def corrcoef(x):
    """The correlations of variables, which are rows, over observations, which are columns."""
    c = cov(x)
    if c.ndim == 0:
        return c / c
    spread = c.diagonal().real.sqrt()
    return c / spread.unsqueeze(0) / spread.unsqueeze(1)


def histc(x, bins=100, min=0, max=0):
    """How many numbers are in each of so many equal parts of [min, max], of the whole range without these."""
    low, high = (x.min().item(), x.max().item()) if min == max == 0 and x.numel() else (min, max)
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise _g.ValueError(f"histc: the range is {low} to {high}, expected finite numbers, the smaller one first")
    if bins <= 0:
        raise _g.ValueError(f"histc: bins is {bins}, expected 1 or more")
    if low == high:
        low, high = low - 1, high + 1
    inside = x.reshape(-1)[((x >= low) & (x <= high)).reshape(-1)]
    place = ((inside - low) * (bins / (high - low))).floor().clamp(0, bins - 1)
    return _g.bincount(place.long(), minlength=bins).to(x.dtype)


for _name in composed_methods:
    setattr(Tensor, _name, globals()[_name])
