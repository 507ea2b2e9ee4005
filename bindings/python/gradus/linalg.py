"""torch.linalg's names; each is an op of the same name, whose help says its formula."""
from . import _gradus

_names = ("cholesky", "cholesky_ex", "cond", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv",
          "inv_ex", "lstsq", "lu", "lu_factor", "matrix_exp", "matrix_norm", "matrix_power",
          "matrix_rank", "multi_dot", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd",
          "svdvals", "tensorinv", "tensorsolve", "vecdot", "vector_norm", "norm", "polar", "sqrtm",
          "logm", "truncated_svd", "eigsh", "expm_multiply", "matmul", "diagonal")
for _name in _names:
    globals()[_name] = getattr(_gradus, _name)
__all__ = list(_names)
