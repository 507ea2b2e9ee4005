"""torch.linalg's names and signatures. Most are ops, whose help says their formula; functions here
are of what torch.linalg calls otherwise than PyTorch's own functions of that name."""
import math
import operator

from . import _gradus
from ._tensor import as_tensor

_ops = ("cholesky", "cholesky_ex", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv",
        "inv_ex", "lstsq", "lu", "lu_factor", "lu_factor_ex", "matrix_exp", "matrix_power", "qr", "slogdet",
        "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vecdot",
        "polar", "sqrtm", "logm", "truncated_svd", "eigsh", "expm_multiply", "matmul")
LinAlgError = _gradus.NumericError  # of a matrix that has no such factors
for _name in _ops:
    globals()[_name] = getattr(_gradus, _name)
__all__ = [*_ops, "LinAlgError", "cond", "diagonal", "lu_solve", "matrix_norm", "matrix_rank", "multi_dot", "norm",
           "pinv", "vander", "vector_norm"]


def _cast(x, dtype):
    return x if dtype is None else x.to(dtype)


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """The root of order ord of the sum of powers of all elements, or along axes; inf, -inf: extremes."""
    return _gradus.vector_norm(_cast(x, dtype), ord, dim, keepdim)


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """A norm of each matrix, whose axes are dim: 'fro', 'nuc', 1, -1 (columns), inf, -inf (rows), 2, -2."""
    A = _cast(A, dtype)
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise _gradus.ValueError(f"matrix_norm: dim names the two axes of the matrices, got {dim!r}")
    dim = tuple(k + A.ndim if k < 0 else k for k in dim)
    name = ord if isinstance(ord, str) else f"{float(ord):g}"
    out = _gradus.matrix_norm(A.movedim(dim, (-2, -1)), name)
    for k in sorted(dim) if keepdim else ():
        out = out.unsqueeze(k)
    return out


def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """Of vectors where dim is one axis, or A has one; of matrices where it is two, or A has two.
    Without an ord the root of the sum of squares, of all elements unless dim is given."""
    A = as_tensor(A)
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None:
        if A.ndim not in (1, 2):
            raise _gradus.ShapeError(f"norm: with an ord and without dim, of vectors or matrices; this has "
                                     f"{A.ndim} axes")
        dim = tuple(range(A.ndim))
    dim = tuple(dim) if isinstance(dim, (tuple, list)) else (operator.index(dim),)
    if len(dim) == 1:
        if isinstance(ord, str):
            raise _gradus.ValueError(f"norm: ord {ord!r} is of matrices; of vectors it is a number")
        return vector_norm(A, ord, dim, keepdim, dtype=dtype)
    return matrix_norm(A, ord, dim, keepdim, dtype=dtype)


def cond(A, p=None):
    """The condition: the norm of order p of each matrix times that of its inverse, inf where it has none.
    Without p, and for 2, the largest by the smallest singular value, then also of oblong matrices."""
    if p is None or p == 2:
        return _gradus.cond(A)
    if p == -2:
        return 1 / _gradus.cond(A)
    A = as_tensor(A)
    singular = _gradus.inv_ex(A.detach())[1] != 0
    # The identity in the place of those: what is masked afterwards would still have a gradient of NaN.
    whole = _gradus.where(singular[..., None, None], _gradus.eye(A.shape[-1], dtype=A.dtype, device=A.device), A)
    return _gradus.where(singular, math.inf, matrix_norm(whole, p) * matrix_norm(_gradus.inv(whole), p))


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """A diagonal of each matrix."""
    return _gradus.diagonal(A, offset, dim1, dim2)


def multi_dot(tensors):
    """The product of matrices in the cheapest order; the first may be a row, the last a column, of one axis."""
    parts = list(tensors)
    if len(parts) < 2:
        raise _gradus.ValueError(f"multi_dot: a product needs two or more, got {len(parts)}")
    row, column = parts[0].ndim == 1, parts[-1].ndim == 1
    if row:
        parts[0] = parts[0].unsqueeze(0)
    if column:
        parts[-1] = parts[-1].unsqueeze(1)
    out = _gradus.multi_dot(parts)
    if column:
        out = out.squeeze(-1)
    return out.squeeze(0) if row else out


def matrix_rank(A, tol=None, *, atol=None, rtol=None):
    """How many singular values of each matrix are above atol (tol is the same) and rtol times the largest."""
    atol = tol if atol is None else atol
    return _gradus.matrix_rank(A, atol=atol, rtol=rtol)


def pinv(A, rcond=None, *, atol=None, rtol=None):
    """The pseudo-inverse of each matrix; singular values up to atol, and up to rtol (rcond is the same)
    times the largest, are 0."""
    return _gradus.pinv(A, atol=atol, rtol=rcond if rtol is None else rtol)


def lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    """X of A X = B, of what lu_factor(A) gave; adjoint: of A^H X = B. Without left: of X A = B, X A^H = B."""
    from ._composed import broadcast_shapes  # which is loaded when it is needed
    LU, B = as_tensor(LU), as_tensor(B)
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    rows = as_tensor(pivots)
    if LU.ndim < 2 or LU.shape[-1] != LU.shape[-2] or B.ndim < 2 or B.shape[-2] != LU.shape[-1]:
        raise _gradus.ShapeError(f"lu_solve: factors of square matrices and as many rows of B, got {tuple(LU.shape)} "
                                 f"and {tuple(B.shape)}")
    if rows.shape != LU.shape[:-1]:
        raise _gradus.ShapeError(f"lu_solve: pivots are lu_factor's order of the rows, of shape "
                                 f"{tuple(LU.shape[:-1])}, got {tuple(rows.shape)}")
    solve = _gradus.solve_triangular
    B = B.expand((*broadcast_shapes(LU.shape[:-2], B.shape[:-2]), *B.shape[-2:]))

    def ordered(X, rows):
        return _gradus.gather(X, -2, rows.unsqueeze(-1).expand(X.shape))

    if adjoint:
        return ordered(solve(LU.mH, solve(LU.mH, B, upper=False), upper=True, unitriangular=True), rows.argsort(-1))
    return solve(LU, solve(LU, ordered(B, rows), upper=False, unitriangular=True), upper=True)


def vander(x, *, N=None):
    """Rows of powers 0 to N - 1 of the numbers along the last axis, as many as there are without N."""
    x = as_tensor(x)
    n = x.shape[-1] if N is None else N
    return x.unsqueeze(-1) ** _gradus.arange(n, dtype=_gradus.int64, device=x.device)
