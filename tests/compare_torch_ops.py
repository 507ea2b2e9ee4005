"""For compare_torch.py: how each op of gradus is called in PyTorch, and which differences are known.

Most ops are found by their name in torch.nn.functional, torch, torch.special, torch.linalg or
torch.Tensor, with operands by position and attributes by name. ADAPTERS holds the others. EXPLAINED
says which row of ops/SEMANTICS.md a difference belongs to."""
import math
import re

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f64": torch.float64, "c64": torch.complex64, "c128": torch.complex128,
          "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool,
          "f16": torch.float16, "bf16": torch.bfloat16}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
END = 2**63 - 1

# How far two correct implementations may differ, by the dtype of the result: relative to an element,
# or to a hundredth of the largest one, whichever is larger. Of derivatives, in f64 and c128 alone.
TOLERANCE = {"f64": 1e-11, "c128": 1e-11, "f32": 1e-5, "c64": 1e-5, "f16": 8e-3, "bf16": 6e-2}
SLOPE_TOLERANCE = 1e-10


class Lacks(Exception):
    """PyTorch has no such form of the op."""


# ---- the forms that differ. Each takes the operands x and the attributes a.

def axes(x, dim):
    return tuple(range(x.dim())) if not dim else tuple(dim)


def normal(dims, rank):
    """Axes without signs; refused where PyTorch, given them at once, would refuse."""
    out = [d % rank for d in dims if -rank <= d < rank]
    if len(set(out)) < len(dims):
        raise IndexError("no such axis, or one twice")
    return out


def reduction(function):
    return lambda x, a: function(x[0], dim=axes(x[0], a["dim"]), keepdim=a["keepdim"])


def prod(x, a):
    y, dims = x[0], axes(x[0], a["dim"])
    if not dims:
        return torch.prod(y)
    for d in sorted(normal(dims, y.dim()), reverse=True):
        y = torch.prod(y, dim=d, keepdim=a["keepdim"])
    return y


def spread(function):
    def call(x, a):
        if a["correction"] != int(a["correction"]):
            raise Lacks
        return function(x[0], dim=axes(x[0], a["dim"]), correction=int(a["correction"]), keepdim=a["keepdim"])
    return call


def cumsum(x, a):
    if a["reverse"]:
        raise Lacks
    return torch.cumsum(x[0], a["dim"])


def standard_only(function):
    def call(x, a):
        if a["algebra"] != "standard":
            raise Lacks
        return function(x, a)
    return call


def contract(x, a):
    labels = sorted(set(a["labels_a"]) | set(a["labels_b"]))
    short = lambda ls: [labels.index(label) for label in ls]
    return torch.einsum(x[0], short(a["labels_a"]), x[1], short(a["labels_b"]), short(a["labels_out"]))


def sliced(x, a):
    n = x[0].size(a["dim"])
    end = None if a["end"] == END else a["end"]
    start = None if a["step"] < 0 and a["start"] == 0 and end is None else a["start"]
    if a["step"] == 0:
        raise ValueError("step 0")
    if a["step"] < 0:  # PyTorch has no negative steps
        index = torch.tensor(list(range(n))[start:end:a["step"]], dtype=torch.int64)
        return torch.index_select(x[0], a["dim"], index)
    where = [slice(None)] * x[0].dim()
    where[a["dim"]] = slice(start, end, a["step"])
    return x[0][tuple(where)]


def squeeze(x, a):
    if a["dim"] is None:
        return x[0].squeeze()
    y = x[0]
    for d in sorted(normal(a["dim"], max(1, y.dim())), reverse=True):
        y = y.squeeze(d)
    return y


def dropout(x, a, case):
    """The mask is that of gradus, whose numbers come from another generator."""
    if not a["training"]:
        return F.dropout(x[0], a["p"], training=False)
    if a["p"] == 1:
        return x[0] * 0
    y = case.list("out")[0]
    return torch.where(y != 0, x[0] / (1 - a["p"]), torch.zeros_like(x[0]))


def dot(x, a):
    """Debian's PyTorch gives 0 for complex vectors (its BLAS returns complex numbers otherwise)."""
    return (x[0] * x[1]).sum() if x[0].is_complex() and x[0].dim() == x[1].dim() == 1 else None


def or_dot(function):
    def call(x, a):
        y = dot(x, a)
        return function(*x) if y is None else y
    return call


def scatter_add(x, a):
    """A source larger than the index is cut: PyTorch takes it, but has no derivative of it."""
    source = x[2][tuple(slice(0, n) for n in x[1].shape)] if x[1].dim() == x[2].dim() > 0 else x[2]
    return torch.scatter_add(x[0], a["dim"], x[1], source)


def embedding(x, a):
    """PyTorch's has no derivative of complex weights, nor of no index at all."""
    weight, index = x
    if weight.is_complex() or index.numel() == 0:
        return weight[index]
    return F.embedding(index, weight, **present(a))


def named(function, *names):
    """Operands by name, the rest as attributes; those left out are left out."""
    return lambda x, a: function(**dict(zip(names, x)), **present(a))


def present(attrs):
    return {k: v for k, v in attrs.items() if v is not None}


def by_position(function, *names):
    """The operands, then these attributes by position."""
    return lambda x, a: function(*x, *(a[n] for n in names))


def whole(value):
    """A number among gradus' attributes counts as an integer where it is one."""
    return int(value) if isinstance(value, float) and math.isfinite(value) and value == int(value) else value


ADAPTERS = {
    "clamp": lambda x, a: torch.clamp(x[0], whole(a["min"]), whole(a["max"])),
    "sum": reduction(torch.sum),
    "mean": reduction(torch.mean),
    "amax": reduction(torch.amax),
    "amin": reduction(torch.amin),
    "logsumexp": reduction(torch.logsumexp),
    "prod": prod,
    "var": spread(torch.var),
    "std": spread(torch.std),
    "cumsum": cumsum,
    "sum_to": lambda x, a: x[0].sum_to_size(*a["size"]) if a["size"] else x[0].sum(),
    "sign": lambda x, a: torch.sgn(x[0]),
    "cast": lambda x, a: x[0].to(a["dtype"]),
    "gelu_tanh": lambda x, a: F.gelu(x[0], approximate="tanh"),
    "contract": standard_only(contract),
    "einsum": standard_only(lambda x, a: torch.einsum(a["equation"], *x)),
    "tensordot": lambda x, a: torch.tensordot(x[0], x[1], dims=(a["dims_a"], a["dims_b"])),
    "as_strided": by_position(torch.as_strided, "size", "stride", "offset"),
    "reshape": by_position(torch.reshape, "shape"),
    "permute": by_position(torch.permute, "dims"),
    "expand": lambda x, a: x[0].expand(a["size"]),
    "slice": sliced,
    "squeeze": squeeze,
    "cat": lambda x, a: torch.cat(x, a["dim"]),
    "stack": lambda x, a: torch.stack(x, a["dim"]),
    "gather": lambda x, a: torch.gather(x[0], a["dim"], x[1]),
    "scatter_add": scatter_add,
    "embedding": embedding,
    "dot": or_dot(torch.dot),
    "matmul": or_dot(torch.matmul),
    "bce_with_logits": lambda x, a: F.binary_cross_entropy_with_logits(*x, **a),
    "dropout": dropout,
}
NEEDS_CASE = {"dropout"}
# Of gradus alone, or random: PyTorch's numbers come from another generator.
LACKING = {"embed", "uniform", "normal", "bernoulli"}


def find(info):
    """f(inputs, attrs, case), or None where PyTorch lacks the op."""
    name = info["name"]
    if name in LACKING:
        return None
    if name in NEEDS_CASE:
        return lambda x, a, case: ADAPTERS[name](x, a, case)
    if name in ADAPTERS:
        return lambda x, a, case: ADAPTERS[name](x, a)
    for home in (F, torch, torch.special, torch.linalg, torch.Tensor):
        function = getattr(home, name, None)
        if callable(function):
            return lambda x, a, case: function(*x, **present(a))
    return None


# ---- known differences. Each rule: the id of a row of ops/SEMANTICS.md, and what it explains.

def number_operand(d):
    return d.what == "accepts" and any(n in ("float", "int") or (n == "bool" and not torch.is_tensor(x))
                                       for n, x in zip(d.dtypes, d.case.inputs)) and (
        "must be Tensor" in d.text or "invalid combination" in d.text)


def complex_half(d):
    return "complex32" in d.text or "ComplexHalf" in d.text or (
        d.expected is not None and d.expected.dtype == torch.complex32)


def refuses_bool(d):
    return d.what == "accepts" and "bool" in d.dtypes and re.search(r"\b[bB]ool", d.text)


def apart(d):
    """Where the two differ by more than rounding."""
    a, b = d.got, d.expected
    near = (a - b).abs() <= 1e-9 * b.abs()
    return ~(near | (a == b) | (a.isnan() & b.isnan()))


def at_infinity(d):
    """PyTorch gives NaN where gradus gives the limit."""
    if d.kind != "special" or d.what not in ("value", "grad") or len(d.case.inputs) != 1:
        return False
    return bool((d.case.inputs[0][apart(d)].abs() >= 1e3).all() and d.expected[apart(d)].isnan().all())


def at_nan(d):
    return d.kind == "special" and d.got is not None and bool(d.case.inputs[0][apart(d)].isnan().all())


def mixed(d):
    return len({x.dtype for x in d.case.inputs if torch.is_tensor(x) and x.dtype != torch.bool}) > 1


def narrowest(d):
    return max((n for n in d.dtypes if n in TOLERANCE), key=TOLERANCE.get, default="f64")


def promotes_more(d):
    """Mixed dtypes, or integers where PyTorch wants real numbers."""
    return d.what == "accepts" and re.search(
        "can't be cast|expected scalar type|same dtype|should have the same|must have the same", d.text)


def of_nothing(d):
    """A derivative of 0 / 0."""
    return d.what in ("grad", "second_w", "jvp") and d.got is not None and d.expected is not None and any(
        torch.is_tensor(x) and x.numel() == 0 for x in d.case.inputs) and bool(d.got[apart(d)].isnan().all())


EXPLAINED = [
    ("numbers-anywhere", number_operand),
    ("no-complex-half", complex_half),
    ("bool-arithmetic", refuses_bool),
    ("more-kernels", lambda d: d.what == "accepts" and "not implemented for" in d.text),
    ("limits", at_infinity),
    ("sign-of-nan", lambda d: d.op in ("abs", "sign", "sgn") and at_nan(d)),
    ("clamp-unsigned", lambda d: d.op == "clamp" and d.what == "value" and d.dtypes == ["u8"] and d.attrs["min"] < 0),
    ("pad-to-nothing", lambda d: d.op == "pad" and d.what in ("accepts", "slopes") and "negative output size" in d.text
     and (0 in d.case.list("out")[0].shape or d.what == "slopes")),
    ("mean-of-nothing", of_nothing),
    ("as-strided-overlap", lambda d: d.op == "as_strided" and d.what == "refuses" and "overlap" in d.text),
    ("tensordot-ones", lambda d: d.op == "tensordot" and d.what == "refuses" and re.search(r"axis \d+ of . is 1\b", d.text)),
    ("empty-index", lambda d: d.what == "refuses" and any(
        torch.is_tensor(x) and x.dtype == torch.int64 and x.numel() == 0 for x in d.case.inputs)),
    ("einsum-integers", lambda d: d.op in ("contract", "einsum", "tensordot") and d.dtypes[0] in ("i32", "u8")
     and (d.what == "dtype" or "Long but found" in d.text)),
    ("promotes-more", promotes_more),
    ("mixed-rounding", lambda d: d.what == "value" and mixed(d) and d.error <= TOLERANCE[narrowest(d)]),
]


def explanation(d):
    for reason, matches in EXPLAINED:
        if matches(d):
            return reason
    return None
