"""Linear algebra for compare_torch.py and sweep_torch.py: PyTorch's functions with what gradus settles settled
(vectors whose largest entry is real and positive, values in order, the Hermitian part of what should be
Hermitian, permutations as the order of rows). ADAPTERS take gradus' operands and attributes, ALIKE PyTorch's
own calls; form() turns those into gradus' attributes."""
import torch

L = torch.linalg


def hermitian(a):
    return (a + a.mH) / 2


def turns(v):
    """What makes the largest entry of each column real and positive, the first of those that are equal but for rounding."""
    size = v.detach().abs()
    if size.numel() == 0:
        return v.new_ones(v.shape[:-2] + (1, v.shape[-1]))
    great = size >= size.amax(-2, keepdim=True) * (1 - 256 * torch.finfo(size.dtype).eps)
    entry = v.detach().gather(-2, great.to(torch.int64).argmax(-2, keepdim=True))
    return entry.conj() / entry.abs()


def eigh(a, UPLO="L"):
    w, v = L.eigh(hermitian(a))
    return w, v * turns(v)


def svd(a, full_matrices=True, driver=None):
    u, s, vh = L.svd(a, full_matrices=full_matrices)
    by = turns(u)
    return u * by, s, by.mH * vh


class Lacks(Exception):
    """PyTorch has no such form of the op."""


def determined_svd(a, full_matrices):
    if full_matrices and a.shape[-1] != a.shape[-2]:
        raise Lacks("the vectors beyond the singular values are any")
    return svd(a, full_matrices)


def ascending(w):
    """By real, then imaginary parts; conjugate pairs have one real part."""
    order = w.detach().imag.argsort(dim=-1, stable=True)
    real = w.detach().real.gather(-1, order)
    scale = 16 * torch.finfo(real.dtype).eps * w.detach().abs().amax() if w.numel() else 0
    again = (real / scale).round().argsort(dim=-1, stable=True) if w.numel() else order
    return order.gather(-1, again)


def eig(a):
    w, v = L.eig(a)
    order = ascending(w)
    v = v.gather(-1, order.unsqueeze(-2).expand(v.shape))
    return w.gather(-1, order), v * turns(v)


def eigvals(a):
    w = L.eigvals(a)
    return w.gather(-1, ascending(w))


def rows_of(f):
    def call(a, pivot=True, **checks):
        packed, pivots, *info = f(a, **checks)
        p = torch.lu_unpack(packed, pivots, unpack_data=False)[0]
        rows = p.mT.real.argmax(-1) if p.numel() else p.new_zeros(p.shape[:-1], dtype=torch.int64)
        return packed, rows, *info
    return call


def lstsq(a, b, rcond=None, driver=None):
    """The residuals of PyTorch's have no derivative, nor its singular values."""
    f = L.lstsq(a, b, rcond=rcond, driver="gelsd")
    whole = a.shape[-2] > a.shape[-1] and bool((f.rank == a.shape[-1]).all())
    off = (a @ f.solution - b).abs().square().sum(-2) if whole else f.residuals.new_empty(0)
    return f.solution, off, f.rank, L.svdvals(a)


ALIKE = {
    "linalg.eigh": eigh, "linalg.eigvalsh": lambda a, UPLO="L": L.eigvalsh(hermitian(a)),
    "linalg.eig": eig, "linalg.eigvals": eigvals, "linalg.svd": svd,
    "linalg.cholesky": lambda a, upper=False: L.cholesky(hermitian(a), upper=upper),
    "linalg.cholesky_ex": lambda a, upper=False, check_errors=False: L.cholesky_ex(hermitian(a), upper=upper),
    "linalg.lu_factor": rows_of(L.lu_factor), "linalg.lu_factor_ex": rows_of(L.lu_factor_ex),
    "linalg.lstsq": lstsq,
}


def qr(a, mode, positive):
    q, r = L.qr(a, mode=mode)
    q = a.new_empty(a.shape[:-1] + (0,)) if mode == "r" else q
    if not positive:
        return q, r
    k = min(r.shape[-2:])
    sign = torch.where(r.diagonal(dim1=-2, dim2=-1).detach().real < 0, -1.0, 1.0).to(a.dtype)
    by = torch.cat([sign, sign.new_ones(sign.shape[:-1] + (r.shape[-2] - k,))], -1)
    return (q if mode == "r" else q * by.unsqueeze(-2)), r * by.unsqueeze(-1)


def with_columns(f):
    """Vectors, one or one for each matrix, as columns; PyTorch asks for them as such in places."""
    def call(x, a):
        m, b = x
        if b.dim() > 1 and not (b.dim() == m.dim() - 1 and b.shape == m.shape[:-1]):
            return f(m, b, a)
        y = f(m, b.unsqueeze(-1), a)
        return (y[0].squeeze(-1), *y[1:]) if isinstance(y, tuple) else y.squeeze(-1)
    return call


def triangular(a, b, at):
    turned = (a, a.mT, a.mH)[at["form"]]
    return L.solve_triangular(turned, b, upper=at["upper"] != (at["form"] > 0), unitriangular=at["unitriangular"])


def number(text):
    return text if text in ("fro", "nuc") else float(text)


def limits(a):
    """A relative limit below 0 is the usual one, or none where there is an absolute one."""
    return {"atol": a["atol"], "rtol": a["rtol"] if a["rtol"] >= 0 else None} if a["atol"] or a["rtol"] >= 0 else {}


ADAPTERS = {
    "cholesky": lambda x, a: ALIKE["linalg.cholesky"](*x, **a), "cholesky_ex": lambda x, a: ALIKE["linalg.cholesky_ex"](*x, **a),
    "lu_factor": lambda x, a: ALIKE["linalg.lu_factor"](*x), "lu_factor_ex": lambda x, a: ALIKE["linalg.lu_factor_ex"](*x),
    "qr": lambda x, a: qr(*x, **a), "lu": lambda x, a: L.lu(*x),
    "linear_solve": lambda x, a: L.solve(*x), "linear_solve_ex": lambda x, a: L.solve_ex(*x),
    "solve": lambda x, a: L.solve(*x, left=a["left"]), "solve_ex": lambda x, a: L.solve_ex(*x, left=a["left"]),
    "solve_triangular": with_columns(lambda m, b, a: L.solve_triangular(m, b, **a)), "triangular_solve": with_columns(triangular),
    "inv": lambda x, a: L.inv(*x), "inv_ex": lambda x, a: L.inv_ex(*x), "det": lambda x, a: L.det(*x),
    "lstsq": with_columns(lambda m, b, a: lstsq(m, b, None if a["rcond"] < 0 else a["rcond"])),
    "pinv": lambda x, a: L.pinv(*x, **limits(a)), "matrix_rank": lambda x, a: L.matrix_rank(*x, **limits(a)),
    "eigh": lambda x, a: eigh(*x), "eigvalsh": lambda x, a: ALIKE["linalg.eigvalsh"](*x), "eig": lambda x, a: eig(*x),
    "eigvals": lambda x, a: eigvals(*x), "svd": lambda x, a: determined_svd(*x, a["full_matrices"]),
    "matrix_exp": lambda x, a: torch.matrix_exp(hermitian(x[0]) if a["hermitian"] else x[0]),
    "matrix_norm": lambda x, a: L.matrix_norm(*x, ord=number(a["ord"]), keepdim=a["keepdim"]),
    "cholesky_solve": lambda x, a: torch.cholesky_solve(x[0], x[1].triu() if a["upper"] else x[1].tril(), upper=a["upper"]),
    "multi_dot": lambda x, a: L.multi_dot(list(x)), "cond": lambda x, a: L.cond(*x),
}
# PyTorch's polar is another function.
LACKING = {"polar"}

# The op of gradus where the last part of an entry's name is not it; "" for those that gradus leaves out.
RENAMED = {
    "linalg.matrix_sqrth": "sqrtm", "pinverse": "pinv", "linalg.multi_dot": "multi_dot",
    "linalg.vector_norm": "vector_norm", "linalg.pinv|singular": "", "polar": "", "svd": "", "lu": "", "triangular_solve": "",
}
PARAMETERS = {
    "linalg.eigh": "A UPLO", "linalg.eigvalsh": "A UPLO", "linalg.lu": "A pivot", "linalg.lu_factor": "A pivot",
    "linalg.lu_factor_ex": "A pivot", "linalg.lstsq": "A B rcond driver", "linalg.cond": "A p", "linalg.svd": "A full_matrices driver",
    "linalg.matrix_norm": "A ord dim keepdim dtype", "linalg.matrix_rank": "A tol hermitian",
    "linalg.pinv": "A rcond hermitian", "pinverse": "A rcond", "linalg.tensorsolve": "A B dims",
    "linalg.multi_dot": "*matrices", "linalg.vector_norm": "x ord dim keepdim dtype", "linalg.cholesky_ex": "A upper check_errors",
    "linalg.inv_ex": "A check_errors", "linalg.matrix_sqrth": "A",
}


def plain(params, left, **usual):
    """Without parameters that stand as PyTorch leaves them; others are forms that gradus leaves out."""
    for name, values in usual.items():
        if name in params and params.pop(name) not in values:
            raise left(f"{name}=")
    return params


def form(op, p, entry, left):
    name = entry.name
    p = plain(p, left, UPLO=("L", "U"), pivot=(True,), driver=(None, "gelsd", "gels", "gelsy", "gelss", "gesvd", "gesvda", "gesvdj"), check_errors=(True, False),
              hermitian=(False,), dims=(None,))
    if name == "linalg.svd" and p.get("full_matrices", True) and p["A"].shape[-1] != p["A"].shape[-2]:
        raise left("full vectors, which are not determined")
    if name == "linalg.matrix_norm":
        ord = p.get("ord", "fro")
        p["ord"] = ord if isinstance(ord, str) else str(ord).removesuffix(".0")
        p = plain(p, left, dim=((-2, -1), [-2, -1]), dtype=(None,))
    if name == "linalg.cond":
        p = plain(p, left, p=(None, 2))
    if name == "linalg.matrix_sqrth":
        p["hermitian"] = True
    if op in ("matrix_rank", "pinv"):
        if "tol" in p:
            p["atol"] = p.pop("tol")
        if p.get("rcond") is not None:
            p["rtol"] = p.pop("rcond")
        if any(torch.is_tensor(p.get(k)) for k in ("atol", "rtol")):
            raise left("tolerances that are tensors")
        p = {k: v for k, v in p.items() if v is not None}
    if op == "lstsq" and p.get("rcond") is None:
        p.pop("rcond", None)
    return op, p


def cross(op, p, entry):
    if p.get("dim") is None and entry.name == "cross":
        p["dim"] = next((d for d, n in enumerate(p["x"].shape if "x" in p else p["a"].shape) if n == 3), -1)
    return op, p
