"""For compare_torch.py: which row of ops/SEMANTICS.md a difference belongs to. A rule is an id and what
it explains, as narrow as can be said: ops, kind of difference, condition."""
import math
import re

import torch
import torch.nn.functional as F

from compare_torch_ops import ADAPTERS, NAMES, SLOPE_TOLERANCE, TOLERANCE, present, whole


def number_operand(d):
    return d.what == "accepts" and any(n in ("float", "int") or (n == "bool" and not torch.is_tensor(x))
                                       for n, x in zip(d.dtypes, d.case.inputs)) and (
        "must be Tensor" in d.text or "invalid combination" in d.text)


def complex_half(d):
    return "complex32" in d.text or "ComplexHalf" in d.text or (
        d.expected is not None and d.expected.dtype == torch.complex32)


def refuses_bool(d):
    return d.what == "accepts" and "bool" in d.dtypes and re.search(r"\b[bB]ool", d.text)


def mixed(d):
    return len({x.dtype for x in d.case.inputs if torch.is_tensor(x) and x.dtype != torch.bool}) > 1


def narrowest(d):
    return max((n for n in d.dtypes if n in TOLERANCE), key=TOLERANCE.get, default="f64")


def promoted(inputs):
    """PyTorch's own promotion of all operands: those with axes, then 0-d tensors, then numbers."""
    level = lambda x: 2 if not torch.is_tensor(x) else 1 if x.dim() == 0 else 0
    result = None
    for x in sorted(inputs, key=level):
        if result is None:
            result = torch.empty([1] * (1 - level(x)), dtype=x.dtype) if torch.is_tensor(x) else x
        else:
            result = torch.empty([1] * getattr(result, "ndim", 0), dtype=torch.result_type(result, x))
    return getattr(result, "dtype", None)  # numbers alone, or nothing, have none


def promotes_more(d):
    """Mixed dtypes, or integers where PyTorch wants real numbers; or the dtype of one operand for all."""
    if d.what == "dtype":
        return d.op in ("prelu", "huber_loss", "cosine_embedding_loss") and d.got.dtype == promoted(d.case.inputs)
    return d.what == "accepts" and re.search(
        r"can't be cast|expected scalar type|same dtype|should (have|be) the same|must (have|be) the same|did not match|Type promoting"
        r"|with different dtypes|expected dtype .* but got|Found dtype|mixed dtype|could not infer output dtype", d.text)


MORE_KERNELS = (r"not implemented for|(Integral|Complex) inputs not supported|only supports floating-point dtypes"
                r"|Expected a floating point or complex tensor|Expected floating point type for result tensor")


def all_integers(d):
    return all(n in ("u8", "i32", "i64", "bool", "int") for n in d.dtypes)


def fraction(d):
    return all_integers(d) and any(isinstance(v, float) and math.isfinite(v) and v != int(v) for v in d.attrs.values()) and (
        d.what in ("dtype", "value") or "argument alpha must not be" in d.text)


def of_nothing(d):
    """A derivative of 0 / 0."""
    return d.what in ("grad", "second_w", "jvp") and d.got is not None and d.expected is not None and any(
        torch.is_tensor(x) and x.numel() == 0 for x in d.case.inputs) and bool(d.got[apart(d)].isnan().all())


def first_nan_wins(d):
    """With numbers for NaN that make the first one the largest, PyTorch has the gradient of gradus."""
    x = d.case.inputs[0]
    if d.what != "grad" or int(x.isnan().sum()) < 2:
        return False
    large = torch.where(x.isnan(), 1e6 - torch.arange(x.numel()).reshape(x.shape), x).requires_grad_()
    y = ADAPTERS.get(d.op, getattr(F, d.op, None))
    y = y([large], d.attrs) if d.op in ADAPTERS else y(large, **present(d.attrs))
    return torch.equal(torch.autograd.grad(y.sum(), large)[0], d.got)


def writes_twice(d):
    """Does an op that replaces elements replace one more than once?"""
    x, a = d.case.inputs, d.attrs
    if a.get("accumulate") or d.op not in ("scatter", "index_copy", "index_put", "put"):
        return False
    count = torch.zeros(x[0].shape)
    if d.op == "scatter":
        count.scatter_add_(a["dim"], x[1], torch.ones(x[1].shape))
    elif d.op == "index_copy":
        count.index_add_(a["dim"], x[1], torch.ones(x[2].shape))
    elif d.op == "put":
        count.put_(x[1], torch.ones(x[1].shape), accumulate=True)
    else:
        count.index_put_(tuple(x[2:]), torch.ones(()), accumulate=True)
    return bool((count > 1).any())


def other_of_equals(d):
    """Indices of other elements of the same value."""
    if d.op not in ("topk", "kthvalue") or d.got is None:
        return False
    if d.what == "grad":
        return d.kind == "ties"
    x, dim = d.case.inputs[0], d.attrs["dim"]
    if d.what != "value" or d.got.dtype != torch.int64 or d.got.shape != d.expected.shape:
        return False
    pick = lambda i: torch.gather(x, dim, i) if i.dim() == x.dim() else torch.gather(x, dim, i.unsqueeze(dim))
    a, b = pick(d.got), pick(d.expected)
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def has_nan(d):
    x = d.case.inputs[0]
    return x.is_floating_point() and bool(x.isnan().any())


def half_steps(d):
    """Of several steps in 16 bits each may be off by half a unit of what it adds."""
    if d.what != "value" or NAMES[d.got.dtype] not in ("f16", "bf16"):
        return False
    size = 1.0
    for x in d.case.inputs:
        if torch.is_tensor(x) and x.is_floating_point() and x.numel():
            size *= max(1.0, float(x.abs().max()))
    off = (d.got.double() - d.expected.double()).abs().max()
    size = max(size, float(d.expected.abs().max()))
    return bool(off <= 2 * torch.finfo(d.got.dtype).eps * size)


STEPS = ("rsub", "addmm", "addmv", "addr", "baddbmm", "addbmm", "addcmul", "addcdiv", "lerp", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d",
         "adaptive_avg_pool3d", "conv_transpose2d", "kl_div", "bilinear", "linear", "logcumsumexp",
         "scaled_dot_product_attention", "multilabel_soft_margin_loss")


def f32_constants(d):
    """PyTorch keeps 1/6, alpha or p in f32 in its f64 kernels."""
    inexact = lambda v: isinstance(v, float) and math.isfinite(v) and float(torch.tensor(v, dtype=torch.float32)) != v
    return d.what != "dtype" and d.error < (1e-6 if d.what == "value" else 1e-5) and (
        d.op == "hardsigmoid" or d.op == "celu" and inexact(d.attrs["alpha"])
        or d.op in ("norm", "dist", "normalize", "cdist", "pairwise_distance", "triplet_margin_loss") and inexact(d.attrs["p"])
        or d.op == "vector_norm" and inexact(d.attrs["ord"]))


# ---- differences element by element, at the edges of numbers

def apart(d):
    """Where the two differ by more than rounding, of values of one shape."""
    if d.got is None or d.expected is None or d.got.shape != d.expected.shape:
        return None
    near = TOLERANCE.get(NAMES[d.got.dtype], 0) if d.what == "value" else SLOPE_TOLERANCE
    a, b = d.got.to(torch.complex128), d.expected.to(torch.complex128)
    part = lambda x, y: (x == y) | (x.isnan() & y.isnan()) | ((x - y).abs() <= near * b.abs())
    return ~(part(a.real, b.real) & part(a.imag, b.imag))


def everywhere(d, where):
    """Does this hold for all elements that differ?"""
    off = apart(d)
    if off is None:
        return False
    try:
        return bool((~off | where).all())
    except RuntimeError:  # of another shape: no op by elements
        return False


def beside(d, holds):
    """Elements of the result, or of an operand's gradient, beside an operand for which this holds; of an
    operand that was broadcast, those with such a neighbour anywhere."""
    out = torch.zeros((), dtype=torch.bool)
    for x in d.case.inputs:
        out = out | holds(x if torch.is_tensor(x) else torch.tensor(x))
    return out.double().sum_to_size(d.got.shape) > 0 if out.dim() == d.got.dim() > 0 else out


NAN = lambda x: x.isnan()
# Functions in pieces.
IN_PIECES = ("relu", "leaky_relu", "abs", "clamp", "hardtanh", "relu6", "hardsigmoid", "hardswish", "softshrink",
             "hardshrink", "threshold", "elu", "celu", "selu", "logit", "maximum", "minimum", "fmax", "fmin", "l1_loss", "smooth_l1_loss", "prelu",
             "hinge_embedding_loss", "margin_ranking_loss")
EDGES = ("special", "sample", "reference")  # the kinds of case that reach them

# id, ops (all if none), where (of the operand x, gradus' a, PyTorch's b, the value y, the difference d)
POINTS = [
    ("limits", (), lambda x, a, b, y, d: (x.abs() >= 1e3) & (b.isnan() | (a * b == 0) & (a.abs() < 1e-160))),
    ("sign-of-nan", ("abs", "sign", "sgn", "softshrink"), lambda x, a, b, y, d: x.isnan()),
    ("poles", ("digamma", "polygamma"), lambda x, a, b, y, d: (x <= 0) & (x == x.trunc()) & (a.isinf() | x.isinf())),
    ("outside-domain", ("logit", "acosh"), lambda x, a, b, y, d: y.isnan() & ~x.isnan()),
    ("slope-of-nan", IN_PIECES, lambda x, a, b, y, d: x.isnan() & a.isnan() & (d.what == "grad")),
    ("slope-at-bounds", ("clamp",), lambda x, a, b, y, d: (a == 0) & (d.what == "grad") & (
        (x == (math.inf if d.attrs["max"] is None else d.attrs["max"]))
        | (x == (-math.inf if d.attrs["min"] is None else d.attrs["min"])))),
    ("slope-at-bounds", ("hardswish",), lambda x, a, b, y, d: (d.what == "grad") & (
        (x == -3) & (a == 0) | (x == 3) & (a == 1))),
    ("trigamma-digits", ("digamma", "polygamma", "lgamma"), lambda x, a, b, y, d: (a - b).abs() <= 1e-8 * b.abs()),
]


def at_points(d):
    """The ids that explain all elements, or none."""
    if d.kind not in EDGES or d.what not in ("value", "grad") or len(d.case.inputs) != 1 or d.expected is None:
        return None
    if d.got.shape != d.case.inputs[0].shape:  # no op by elements
        return None
    left, ids = apart(d), []
    for name, names, where in POINTS:
        if not names or d.op in names:
            here = left & where(d.case.inputs[0], d.got, d.expected, d.case.list("out")[0], d)
            if here.any():
                ids.append(name)
                left = left & ~here
    return ids if ids and not left.any() else None


def nan_at(d):
    """All that differs comes of NaN operands: an element's slope, or the whole loss."""
    return d.got is not None and any(torch.is_tensor(x) and x.is_floating_point() and x.isnan().any()
                                     for x in d.case.inputs) and bool(d.got[apart(d)].isnan().all())


def half_to_each(d):
    """All of a tie's cotangent to the first operand, none to the other, where gradus gives half to each."""
    if d.op not in ("fmax", "fmin") or d.what != "grad":
        return False
    a, b = d.case.inputs
    first = d.got.shape == a.shape and torch.equal(d.case.list("grads")[0].nan_to_num(), d.got.nan_to_num())
    tie = ((a == b) * d.case.list("w")[0]).sum_to_size(d.got.shape)
    ours = d.expected + (-tie / 2 if first else tie / 2)
    return everywhere(d, ((d.got - ours).abs() <= 1e-9 * tie.abs()) | beside(d, NAN) & d.got.isnan())


SLOPES = ("grad", "second", "second_w", "jvp")
NARROW = (torch.float32, torch.complex64)


def read_part(d):
    """Does a gradient differ only where the triangle is not read?"""
    if d.what != "grad":
        return d.what in SLOPES
    unread = torch.ones_like(d.got.real).bool()
    unread = unread.tril(-1) if d.attrs["upper"] else unread.triu(1)
    off = (d.got - d.expected).abs() > 1e-9 * d.expected.abs().max()
    return not bool((off & ~unread).any())


def spectral_rounding(d):
    """Narrow values of a decomposition: rounding errors of entries of size 1, times the nearest gap."""
    return d.op in SPECTRAL and d.what == "value" and d.got.dtype in NARROW and d.got.shape == d.expected.shape \
        and float((d.got - d.expected).abs().max()) <= 1e-5 * max(1.0, float(d.expected.abs().max()))



SPECTRAL = ("eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals", "lu_factor", "lu", "qr", "pinv", "lstsq", "cond",
            "solve", "inv", "matrix_norm", "cholesky", "sqrtm", "matrix_exp")


EXPLAINED = [
    ("slope-of-nan", lambda d: d.op in IN_PIECES and d.what == "grad" and bool(d.got.isnan().any()) and everywhere(
        d, beside(d, NAN) & d.got.isnan() | ((d.got - d.expected).abs() < (1e-7 if d.op == "hardsigmoid" else 0)))),
    ("ties-of-fmax", half_to_each),
    ("info-dtype", lambda d: d.op.endswith("_ex") and d.what == "dtype" and d.expected.dtype == torch.int32),
    ("phase-refused", lambda d: re.search(
        r"depends on the phase of vector|up to multiplication by e\^\{i phi\}", d.text)),
    ("linalg-dtypes", lambda d: d.what == "refuses" and "expected f32, f64, c64 or c128" in d.text),
    ("lstsq-digits", lambda d: d.op == "lstsq" and d.what in SLOPES and d.error < 1e-6),
    ("unread-triangle", lambda d: d.op == "cholesky_solve" and read_part(d)),
    ("spectral-digits", spectral_rounding),
    ("numbers-anywhere", number_operand),
    ("no-complex-half", complex_half),
    ("bool-arithmetic", refuses_bool),
    ("more-kernels", lambda d: d.what == "accepts" and re.search(MORE_KERNELS, d.text)),
    ("sign-of-nan", lambda d: d.op in ("l1_loss", "multi_margin_loss") and d.kind == "ties" and nan_at(d)),
    ("limits", lambda d: d.op == "copysign" and d.kind in EDGES and d.what == "grad"
     and bool(d.expected[apart(d)].isnan().all())),
    ("clamp-unsigned", lambda d: d.op == "clamp" and d.what == "value" and d.dtypes == ["u8"] and d.attrs["min"] < 0
     or d.op == "hardtanh" and "unsigned type with negative limits" in d.text),
    ("numbers-that-fit", lambda d: d.what == "refuses" and "does not fit into" in d.text),
    ("fractions", fraction),
    ("solve-of-one", lambda d: d.op == "tensorsolve" and d.what == "slopes" and d.case.inputs[1].shape == (1,)
     and "invalid gradient" in d.text),
    ("addcdiv-integers", lambda d: d.op == "addcdiv" and "Integer division with addcdiv" in d.text),
    ("pad-to-nothing", lambda d: d.op == "pad" and d.what in ("accepts", "slopes") and "negative output size" in d.text
     and (0 in d.case.list("out")[0].shape or d.what == "slopes")),
    ("mean-of-nothing", of_nothing),
    ("norm-at-zero", lambda d: d.op in ("dist", "norm", "std", "std_mean") and d.what == "second_w"
     and bool((d.case.list("out")[0][apart(d)] == 0).all() and (d.got[apart(d)] == 0).all())),
    ("sum-of-nothing", lambda d: d.op == "multi_margin_loss" and d.what == "value" and float(d.got) == 0
     and d.case.inputs[0].numel() == 0),
    ("as-strided-overlap", lambda d: d.op in ("as_strided", "as_strided_scatter") and d.what == "refuses" and "overlap" in d.text),
    ("tensordot-ones", lambda d: d.op == "tensordot" and d.what == "refuses" and re.search(r"axis \d+ of . is 1\b", d.text)),
    ("no-classes", lambda d: d.op in ("nll_loss", "cross_entropy") and d.what == "refuses"
     and d.case.inputs[0].numel() == 0),
    ("empty-index", lambda d: d.what == "refuses" and any(
        torch.is_tensor(x) and x.dtype == torch.int64 and x.numel() == 0 for x in d.case.inputs)),
    ("extreme-of-nothing", lambda d: d.op in ("median", "norm", "normalize") and d.what == "refuses" and d.case.inputs[0].numel() == 0),
    ("padding-alone", lambda d: d.op.startswith("max_pool") and d.what == "refuses" and "sees padding alone" in d.text),
    ("padding-from-end", lambda d: d.op == "embedding" and d.what == "refuses" and d.attrs["padding_idx"] < -1),
    ("floats-wanted", lambda d: d.what == "refuses" and re.search(r"is not defined for .*; cast to f32 first", d.text)),
    ("real-activations", lambda d: d.what == "refuses" and d.op in ("silu", "softsign", "soft_margin_loss")
     and re.search(r"is not defined for c(64|128)", d.text)),
    ("pool-padding", lambda d: "_pool" in d.op and d.what == "accepts" and (any(d.attrs["padding"]) or d.attrs["ceil_mode"])
     and re.search("half of kernel size|smaller than kernel size", d.text)),
    ("empty-batch", lambda d: "_pool" in d.op and d.what == "accepts" and 0 in d.case.inputs[0].shape
     and "optional 0 dim batch size" in d.text),
    ("spread-of-one", lambda d: d.op == "instance_norm" and "Expected more than 1 spatial element" in d.text
     or d.op == "layer_norm" and math.prod(d.attrs["normalized_shape"]) == 1 and d.what == "value"
     and bool((d.got[apart(d)] == 0).all() and (d.expected.abs() < 1e-10).all())),
    ("none-of-one", lambda d: d.op == "topk" and d.what == "value" and d.attrs["k"] == 0 and d.case.inputs[0].dim() == 0),
    ("sinc-near-zero", lambda d: d.op == "sinc" and d.what in ("second", "second_w") and d.error < 1e-7),
    ("norm-of-nothing", lambda d: d.op == "group_norm" and d.what in ("grad", "second", "second_w", "jvp")
     and d.case.inputs[0].numel() == 0),
    ("empty-convolution", lambda d: d.op in ("conv1d", "conv2d", "conv3d") and d.what == "accepts"
     and any(torch.is_tensor(x) and x.numel() == 0 for x in d.case.inputs)),
    ("any-rank", lambda d: d.op == "local_response_norm" and "Expected 3D or higher" in d.text),
    ("last-nan", lambda d: "max_pool" in d.op and d.kind == "ties" and first_nan_wins(d)),
    ("cosine-eps", lambda d: d.op == "cosine_similarity" and d.what in ("grad", "second", "second_w", "jvp")
     and any(bool((x.norm(dim=d.attrs["dim"]) < d.attrs["eps"]).any()) for x in d.case.inputs)),
    ("bce-epsilon", lambda d: d.op == "binary_cross_entropy" and d.what in ("second", "second_w") and d.error < 1e-8),
    ("trigamma-digits", lambda d: d.op in ("lgamma", "digamma", "polygamma") and d.error < 1e-8
     or d.op == "digamma" and d.what == "value" and d.dtypes == ["f32"] and d.error < 1e-4),
    ("f32-constants", f32_constants),
    ("half-steps", lambda d: d.op in STEPS and half_steps(d)),
    ("einsum-integers", lambda d: d.op in ("contract", "einsum", "tensordot") and d.dtypes[0] in ("i32", "u8")
     and (d.what == "dtype" or "Long but found" in d.text)),
    ("promotes-more", promotes_more),
    ("negative-to-u8", lambda d: d.op == "as_strided_scatter" and d.dtypes == ["u8", "f64"] and d.what == "value"),
    ("last-written", lambda d: d.what in ("grad", "second", "second_w", "jvp") and writes_twice(d)),
    ("source-dtype", lambda d: d.op in ("select_scatter", "slice_scatter", "diagonal_scatter") and d.what == "refuses"
     and len(set(d.dtypes)) > 1 and ", source " in d.text),
    ("negative-steps", lambda d: d.op == "slice_scatter" and d.attrs["step"] < 0 and "step must be positive" in d.text),
    ("sign-of-nan", lambda d: d.op == "multi_margin_loss" and d.kind == "ties" and has_nan(d)),
    ("any-of-u8", lambda d: d.op in ("any", "all") and d.what == "dtype" and d.dtypes == ["u8"]),
    ("order-of-equals", other_of_equals),
    ("median-ties", lambda d: d.op == "median" and d.kind == "ties" and d.what == "grad" and d.attrs["dim"] is None),
    ("max-nan", lambda d: d.op in ("max", "min") and d.what == "grad" and has_nan(d) and bool(d.got.isnan().all())),
    ("unique-nan", lambda d: d.op in ("unique", "unique_consecutive") and has_nan(d)),
    ("bincount-dtype", lambda d: d.op == "bincount" and d.what in ("dtype", "value", "slopes") and len(d.dtypes) > 1
     and d.dtypes[1] not in ("f32", "f64")),
    ("checked-always", lambda d: d.what == "refuses" and (
        d.op in ("cummax", "cummin", "diff", "conv1d", "conv2d", "conv3d") and (
            d.case.inputs[0].dim() == 0 or d.case.inputs[0].numel() == 0)
        or d.op == "roll" and d.case.inputs[0].numel() == 0
        or d.op == "vecdot" and "of a tensor with" in d.text
        or "adaptive" in d.op and (0 in d.attrs["output_size"] or "is empty" in d.text)
        or d.op == "unfold" and d.attrs["size"] == 0
        or d.op == "max_pool1d" and "does not fit" in d.text)),
    ("empty-offset", lambda d: d.op == "as_strided_scatter" and "invalid storage offset" in d.text
     and d.case.inputs[1].numel() == 0),
    ("cross-broadcasts", lambda d: d.op == "cross" and d.what == "accepts" and "must have length 3" in d.text),
    ("mean-of-nothing", lambda d: d.op in ("nll_loss", "cross_entropy") and d.what in ("grad", "second", "second_w", "jvp")
     and bool(d.case.list("out")[0].isnan().all())),
    ("mixed-rounding", lambda d: d.what == "value" and mixed(d) and d.error <= TOLERANCE[narrowest(d)]),
]


def explanation(d):
    """The ids of the rows that explain a difference; none if nothing does."""
    for reason, matches in EXPLAINED:
        if matches(d):
            return [reason]
    return at_points(d)
