"""For sweep_torch.py: linear algebra. ALIKE are PyTorch's functions with what gradus settles settled: vectors
whose largest entry is real and positive, values in order, the Hermitian part of what should be Hermitian,
permutations as the order of rows. FORMS are calls that gradus writes otherwise."""
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
        return packed, p.mT.real.argmax(-1), *info
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
