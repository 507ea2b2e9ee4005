"""The extension for linear algebra; the core namespace has four of these functions, too."""
from typing import NamedTuple as _NamedTuple

from .. import _gradus as op, linalg as _linalg
from . import _base
from ._base import FLOATING, NUMERIC, axes_of, of_kind, one_axis, together

__all__ = ["cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul",
           "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr",
           "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm"]


class eigh_result(_NamedTuple):
    eigenvalues: _base.Tensor
    eigenvectors: _base.Tensor


class qr_result(_NamedTuple):
    Q: _base.Tensor
    R: _base.Tensor


class slogdet_result(_NamedTuple):
    sign: _base.Tensor
    logabsdet: _base.Tensor


class svd_result(_NamedTuple):
    U: _base.Tensor
    S: _base.Tensor
    Vh: _base.Tensor


def matmul(x1, x2, /):
    """The product of matrices, or of a matrix and a vector."""
    return op.matmul(*together(x1, x2, "matmul", NUMERIC))


def matrix_transpose(x, /):
    """Each matrix with its rows as columns."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: the array has {x.ndim} axes, two are needed")
    return op.transpose(x, -2, -1)


def tensordot(x1, x2, /, *, axes=2):
    """The products' sum over some axes of both: how many at the seam, or which of each."""
    x1, x2 = together(x1, x2, "tensordot", NUMERIC)
    if isinstance(axes, int):
        return op.tensordot(x1, x2, dims=axes)
    first, second = (k if isinstance(k, (tuple, list)) else (k,) for k in axes)
    first, second = axes_of(first, x1.ndim, "tensordot"), axes_of(second, x2.ndim, "tensordot")
    if not first and not second:
        return op.tensordot(x1, x2, dims=0)
    return op.tensordot(x1, x2, dims_a=first, dims_b=second)


def vecdot(x1, x2, /, *, axis=-1):
    """The inner product of vectors along an axis; of complex ones, the first conjugated."""
    x1, x2 = together(x1, x2, "vecdot", NUMERIC)
    n = [x.shape[one_axis(axis, x.ndim, "vecdot")] for x in (x1, x2)]
    if n[0] != n[1]:
        raise ValueError(f"vecdot: vectors of {n[0]} and {n[1]} elements")
    return op.vecdot(x1, x2, dim=axis)


def outer(x1, x2, /):
    """The product of each element of a vector with each of another."""
    return op.outer(*together(x1, x2, "outer", NUMERIC))


def cross(x1, x2, /, *, axis=-1):
    """The cross product of vectors of three elements along an axis."""
    x1, x2 = together(x1, x2, "cross", NUMERIC)
    for x in (x1, x2):
        if x.shape[one_axis(axis, x.ndim, "cross")] != 3:
            raise ValueError(f"cross: axis {axis} of {x.shape} has not the extent 3")
    return op.cross(x1, x2, dim=axis)


def diagonal(x, /, *, offset=0):
    """A diagonal of each matrix."""
    return op.diagonal(x, offset=offset, dim1=-2, dim2=-1)


def trace(x, /, *, offset=0, dtype=None):
    """The sum of a diagonal of each matrix."""
    from ._statistics import sum
    return sum(diagonal(of_kind(x, NUMERIC, "trace"), offset=offset), axis=-1, dtype=dtype)


def cholesky(x, /, *, upper=False):
    """The triangular factor L of each matrix L L^H, or U of U^H U."""
    return op.cholesky(of_kind(x, FLOATING, "cholesky"), upper=upper)


def det(x, /):
    """The determinant of each matrix."""
    return op.det(of_kind(x, FLOATING, "det"))


def slogdet(x, /):
    """The determinant of each matrix as its sign and the logarithm of its absolute value."""
    return slogdet_result(*op.slogdet(of_kind(x, FLOATING, "slogdet")))


def eigh(x, /):
    """Eigenvalues, rising, and eigenvectors, as columns, of each Hermitian matrix."""
    return eigh_result(*op.eigh(of_kind(x, FLOATING, "eigh")))


def eigvalsh(x, /):
    """Eigenvalues, rising, of each Hermitian matrix."""
    return op.eigvalsh(of_kind(x, FLOATING, "eigvalsh"))


def inv(x, /):
    """The inverse of each matrix."""
    return op.inv(of_kind(x, FLOATING, "inv"))


def matrix_power(x, n, /):
    """Each matrix to the power n; below 0, of the inverse."""
    return op.matrix_power(of_kind(x, FLOATING, "matrix_power"), n)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """A norm of each matrix: 'fro', 'nuc', 1, -1, 2, -2, inf or -inf."""
    x = of_kind(x, FLOATING, "matrix_norm")
    return _linalg.matrix_norm(x, "fro" if ord is None else ord, keepdim=keepdims)


def _kept(x, rtol):
    """The singular values of each matrix, and which of them count."""
    s = op.svdvals(x)
    if not isinstance(rtol, _base.Tensor):
        rtol = op.tensor(rtol, dtype=s.dtype, device=x.device)
    largest = op.amax(s, dim=-1, keepdim=True) if s.shape[-1] else s
    return s, op.gt(s, op.unsqueeze(op.cast(rtol, s.dtype), -1) * largest)


def matrix_rank(x, /, *, rtol=None):
    """How many singular values of each matrix are above rtol times the largest."""
    of_kind(x, FLOATING, "matrix_rank")
    if rtol is None:
        return op.matrix_rank(x)
    return op.sum(op.cast(_kept(x, rtol)[1], _base.int64), dim=-1)


def pinv(x, /, *, rtol=None):
    """The pseudo-inverse of each matrix; singular values up to rtol times the largest are 0."""
    of_kind(x, FLOATING, "pinv")
    if rtol is None:
        return op.pinv(x)
    if not isinstance(rtol, _base.Tensor):
        return op.pinv(x, rtol=float(rtol))
    u, s, vh = op.svd(x, full_matrices=False)
    kept = op.cast(_kept(x, rtol)[1], s.dtype)
    inverse = op.div(kept, op.where(op.eq(kept, 0), op.ones_like(s), s))
    return op.matmul(op.conj(op.transpose(vh, -2, -1)) * op.unsqueeze(inverse, -2),
                     op.conj(op.transpose(u, -2, -1)))


def qr(x, /, *, mode="reduced"):
    """Each matrix as one with orthonormal columns times an upper triangular one."""
    return qr_result(*op.qr(of_kind(x, FLOATING, "qr"), mode=mode))


def solve(x1, x2, /):
    """y of x1 y = x2, for each matrix x1; x2 is one vector, or matrices."""
    x1, x2 = together(x1, x2, "solve", FLOATING)
    if x2.ndim == 1:
        return op.squeeze(op.solve(x1, op.unsqueeze(x2, -1)), -1)
    return op.solve(x1, x2)


def svd(x, /, *, full_matrices=True):
    """Each matrix as U diag(S) Vh, its singular values falling."""
    return svd_result(*op.svd(of_kind(x, FLOATING, "svd"), full_matrices=full_matrices))


def svdvals(x, /):
    """Singular values, falling, of each matrix."""
    return op.svdvals(of_kind(x, FLOATING, "svdvals"))


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """A norm over axes: the root of order ord of the sum of powers; inf, -inf: the extremes."""
    of_kind(x, FLOATING, "vector_norm")
    axes = axes_of(axis, x.ndim, "vector_norm")
    if not axes:
        return op.vector_norm(op.unsqueeze(x, -1), ord=float(ord), dim=(x.ndim,))
    return op.vector_norm(x, ord=float(ord), dim=axes, keepdim=keepdims)
